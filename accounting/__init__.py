"""Accounting: events, privacy curves, the accountant graph and its guarantee. No sampling, no data."""

from . import catalogue
from .accountant import Accountant
from .adjacency import Adjacency
from .bounds import METHODS, Bracket, delta, epsilon
from .budget_split import BudgetSplit, split_budget
from .calibration import Advantage, Calibrated, EpsilonDelta, TruePositiveRate, calibrate
from .catalogue import *  # noqa: F403
from .diffprivlib_mechanisms import from_diffprivlib
from .dp_events import from_dp_event, to_dp_event
from .durable import DurableLedger, LedgerError, Receipt
from .errors import (
    GraphError,
    HockeystickError,
    InvalidArgumentError,
    InvalidDataError,
    NumericalError,
    RenamedMethodError,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
)
from .filters import BudgetExceededError, GDPFilter, PrivacyFilter, PureFilter, ZCDPFilter
from .graph import AccountantGraph
from .guarantee import Charge, Contribution, Guarantee, Move
from .ledger import FilteredLedger, Ledger
from .nodes import ALL, SAME, Reach, View
from .odometer import Odometer, OdometerReading
from .opacus_history import from_opacus
from .opendp_measurements import from_opendp
from .pydp_mechanisms import from_pydp
from .rdp_filter import RDPFilter
from .refine import RefinementError, dominates, refines

__all__ = [
    "ALL",
    "METHODS",
    "SAME",
    "Accountant",
    "AccountantGraph",
    "Adjacency",
    "Advantage",
    "Bracket",
    "BudgetExceededError",
    "BudgetSplit",
    "Calibrated",
    "Charge",
    "Contribution",
    "DurableLedger",
    "EpsilonDelta",
    "FilteredLedger",
    "GDPFilter",
    "GraphError",
    "Guarantee",
    "HockeystickError",
    "InvalidArgumentError",
    "InvalidDataError",
    "Ledger",
    "LedgerError",
    "Move",
    "NumericalError",
    "Odometer",
    "OdometerReading",
    "PrivacyFilter",
    "PureFilter",
    "RDPFilter",
    "Reach",
    "Receipt",
    "RefinementError",
    "RenamedMethodError",
    "TruePositiveRate",
    "UnsupportedAdjacencyError",
    "UnsupportedEventError",
    "View",
    "ZCDPFilter",
    "calibrate",
    "delta",
    "dominates",
    "epsilon",
    "from_diffprivlib",
    "from_dp_event",
    "from_opacus",
    "from_opendp",
    "from_pydp",
    "refines",
    "split_budget",
    "to_dp_event",
]
__all__ += catalogue.__all__
