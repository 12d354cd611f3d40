"""Accounting: events, privacy curves, the accountant graph and its guarantee. No sampling, no data."""

from .accountant import Accountant
from .additive_noise import Gaussian, Laplace
from .adjacency import Adjacency
from .bounds import METHODS, Bracket, delta, epsilon
from .composite import Composed, Parallel, VisibleMixture, compose, parallel
from .declared import ZCDP, ApproximateDP, Failure, NonPrivate, PureDP
from .dp_events import from_dp_event, to_dp_event
from .errors import (
    GraphError,
    HockeystickError,
    InvalidArgumentError,
    NumericalError,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
)
from .event import NO_EVENT, NoEvent, PrivacyEvent
from .graph import AccountantGraph
from .guarantee import Charge, Contribution, Guarantee, Move
from .nodes import ALL, SAME, Reach
from .selection import AboveThreshold, BoundedRange
from .two_point import LazySwitchDecision, Oriented, RandomizedResponse

__all__ = [
    "ALL",
    "METHODS",
    "NO_EVENT",
    "SAME",
    "ZCDP",
    "AboveThreshold",
    "Accountant",
    "AccountantGraph",
    "Adjacency",
    "ApproximateDP",
    "BoundedRange",
    "Bracket",
    "Charge",
    "Composed",
    "Contribution",
    "Failure",
    "Gaussian",
    "GraphError",
    "Guarantee",
    "HockeystickError",
    "InvalidArgumentError",
    "Laplace",
    "LazySwitchDecision",
    "Move",
    "NoEvent",
    "NonPrivate",
    "NumericalError",
    "Oriented",
    "Parallel",
    "PrivacyEvent",
    "PureDP",
    "RandomizedResponse",
    "Reach",
    "UnsupportedAdjacencyError",
    "UnsupportedEventError",
    "VisibleMixture",
    "compose",
    "delta",
    "epsilon",
    "from_dp_event",
    "parallel",
    "to_dp_event",
]
