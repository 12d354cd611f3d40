"""All events, in one list: what ``hockeystick.events`` offers and what a file may name."""

from __future__ import annotations

from .additive_noise import Gaussian, Laplace
from .composite import Composed, Parallel, VisibleMixture, compose, parallel
from .declared import ZCDP, ApproximateDP, Failure, NonPrivate, PureDP
from .event import NO_EVENT, NoEvent, PrivacyEvent
from .selection import AboveThreshold, BoundedRange
from .two_point import LazySwitchDecision, Oriented, RandomizedResponse

__all__ = [
    "NO_EVENT",
    "ZCDP",
    "AboveThreshold",
    "ApproximateDP",
    "BoundedRange",
    "Composed",
    "Failure",
    "Gaussian",
    "Laplace",
    "LazySwitchDecision",
    "NoEvent",
    "NonPrivate",
    "Oriented",
    "Parallel",
    "PrivacyEvent",
    "PureDP",
    "RandomizedResponse",
    "VisibleMixture",
    "compose",
    "parallel",
]
