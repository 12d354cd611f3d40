from .conduct import Client as Client
from .conduct import Communication as Communication
from .conduct import FederationError as FederationError
from .conduct import InProcess as InProcess
from .conduct import Outcome as Outcome
from .conduct import Problem as Problem
from .conduct import Replies as Replies
from .conduct import Request as Request
from .conduct import conduct as conduct
from .threat_models import ThreatModel as ThreatModel

__all__: list[str]
