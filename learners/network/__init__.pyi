from .protocol import Client as Client
from .protocol import Communication as Communication
from .protocol import FederationError as FederationError
from .protocol import InProcess as InProcess
from .protocol import Outcome as Outcome
from .protocol import Problem as Problem
from .protocol import Replies as Replies
from .protocol import Request as Request
from .protocol import conduct as conduct
from .threat_models import ThreatModel as ThreatModel

__all__: list[str]
