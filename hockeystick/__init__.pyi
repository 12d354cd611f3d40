from . import accounting as accounting
from . import audits as audits
from . import events as events
from . import learners as learners
from . import mechanisms as mechanisms
from . import targets as targets
from ._report.parts.graph_picture import draw_graph as draw_graph
from .accounting.adjacency import Adjacency as Adjacency
from .accounting.budgets.calibration import EpsilonDelta as EpsilonDelta
from .accounting.budgets.calibration import calibrate as calibrate
from .accounting.budgets.dp_sgd import DPSGD as DPSGD
from .accounting.engines.best_bound import Bracket as Bracket
from .accounting.errors import GraphError as GraphError
from .accounting.errors import HockeystickError as HockeystickError
from .accounting.errors import InvalidArgumentError as InvalidArgumentError
from .accounting.errors import InvalidDataError as InvalidDataError
from .accounting.errors import NumericalError as NumericalError
from .accounting.errors import UnsupportedAdjacencyError as UnsupportedAdjacencyError
from .accounting.errors import UnsupportedEventError as UnsupportedEventError
from .accounting.events.basic.composition import compose as compose
from .accounting.events.basic.composition import parallel as parallel
from .accounting.events.basic.event import PrivacyEvent as PrivacyEvent
from .accounting.graph.accountant_graph import AccountantGraph as AccountantGraph
from .accounting.graph.guarantee import Guarantee as Guarantee
from .accounting.graph.parts.charges import Contribution as Contribution
from .accounting.graph.parts.nodes import Reach as Reach
from .accounting.interop.dp_accounting_accountant import Accountant as Accountant
from .accounting.interop.questions import delta as delta
from .accounting.interop.questions import epsilon as epsilon
from .accounting.interop.questions import guarantee as guarantee
from .audits.claims.claim import Claim as Claim
from .audits.fixed_sample import audit as audit
from .audits.replay.run import replay as replay
from .audits.verdicts.verdict import Verdict as Verdict
from .mechanisms.randomness.noise import SecureReleaseUnavailableError as SecureReleaseUnavailableError

__all__: list[str]
__version__: str
