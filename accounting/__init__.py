"""Accounting: events, privacy curves, the accountant graph and its guarantee. No sampling, no data."""

from . import catalogue
from .accountant import Accountant
from .adjacency import Adjacency
from .bounds import METHODS, Bracket, delta, epsilon
from .catalogue import *  # noqa: F403
from .dp_events import from_dp_event, to_dp_event
from .errors import (
    GraphError,
    HockeystickError,
    InvalidArgumentError,
    NumericalError,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
)
from .graph import AccountantGraph
from .guarantee import Charge, Contribution, Guarantee, Move
from .nodes import ALL, SAME, Reach, View

__all__ = [
    "ALL",
    "METHODS",
    "SAME",
    "Accountant",
    "AccountantGraph",
    "Adjacency",
    "Bracket",
    "Charge",
    "Contribution",
    "GraphError",
    "Guarantee",
    "HockeystickError",
    "InvalidArgumentError",
    "Move",
    "NumericalError",
    "Reach",
    "UnsupportedAdjacencyError",
    "UnsupportedEventError",
    "View",
    "delta",
    "epsilon",
    "from_dp_event",
    "to_dp_event",
]
__all__ += catalogue.__all__
