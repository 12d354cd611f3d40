"""Accounting: events, privacy curves, the accountant graph and its guarantee. No sampling, no data."""

from . import catalogue
from .accountant import Accountant
from .adjacency import Adjacency
from .bounds import METHODS, Bracket, delta, epsilon
from .catalogue import *  # noqa: F403
from .dp_events import from_dp_event, to_dp_event
from .durable import DurableLedger, LedgerError, Receipt
from .errors import (
    GraphError,
    HockeystickError,
    InvalidArgumentError,
    NumericalError,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
)
from .filters import BudgetExceededError, GDPFilter, PrivacyFilter, PureFilter, ZCDPFilter
from .graph import AccountantGraph
from .guarantee import Charge, Contribution, Guarantee, Move
from .ledger import FilteredLedger, Ledger
from .nodes import ALL, SAME, Reach, View
from .odometer import Odometer, OdometerReading
from .rdp_filter import RDPFilter
from .refine import RefinementError, dominates, refines

__all__ = [
    "ALL",
    "METHODS",
    "SAME",
    "Accountant",
    "AccountantGraph",
    "Adjacency",
    "Bracket",
    "BudgetExceededError",
    "Charge",
    "Contribution",
    "DurableLedger",
    "FilteredLedger",
    "GDPFilter",
    "GraphError",
    "Guarantee",
    "HockeystickError",
    "InvalidArgumentError",
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
    "UnsupportedAdjacencyError",
    "UnsupportedEventError",
    "View",
    "ZCDPFilter",
    "delta",
    "dominates",
    "epsilon",
    "from_dp_event",
    "refines",
    "to_dp_event",
]
__all__ += catalogue.__all__
