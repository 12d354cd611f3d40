"""Accounting: events, privacy curves, the accountant graph and its guarantee. No sampling, no data."""

if __name__ != "hockeystick.accounting":  # found at the root of a checkout: a second set of classes
    raise ImportError("import hockeystick.accounting")


from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.budgets.budget_split import BudgetSplit, split_budget
from hockeystick.accounting.budgets.calibration import Advantage, Calibrated, EpsilonDelta, TruePositiveRate, calibrate
from hockeystick.accounting.budgets.durable_ledger import DurableLedger, LedgerError, Receipt
from hockeystick.accounting.budgets.filters import BudgetExceededError, GDPFilter, PrivacyFilter, PureFilter, ZCDPFilter
from hockeystick.accounting.budgets.ledger import FilteredLedger, Ledger
from hockeystick.accounting.budgets.odometer import Odometer, OdometerReading
from hockeystick.accounting.budgets.renyi_filter import RDPFilter
from hockeystick.accounting.engines.best_bound import METHODS, Bracket, delta, epsilon
from hockeystick.accounting.errors import (
    GraphError,
    HockeystickError,
    InvalidArgumentError,
    InvalidDataError,
    NumericalError,
    RenamedMethodError,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
)
from hockeystick.accounting.events import catalogue
from hockeystick.accounting.events.catalogue import *  # noqa: F403
from hockeystick.accounting.graph.accountant_graph import AccountantGraph
from hockeystick.accounting.graph.guarantee import Guarantee
from hockeystick.accounting.graph.parts.charges import Charge, Contribution, Move
from hockeystick.accounting.graph.parts.nodes import ALL, SAME, Reach, View
from hockeystick.accounting.graph.plan_refinement import RefinementError, dominates, refines
from hockeystick.accounting.interop.diffprivlib import from_diffprivlib
from hockeystick.accounting.interop.dp_accounting_accountant import Accountant
from hockeystick.accounting.interop.dp_accounting_events import from_dp_event, to_dp_event
from hockeystick.accounting.interop.opacus_history import from_opacus
from hockeystick.accounting.interop.opendp import from_opendp
from hockeystick.accounting.interop.pydp import from_pydp

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
