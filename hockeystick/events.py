"""The privacy events: what one access to the data cost.

``hs.events.Gaussian(2.0)`` is a cost, ``hs.mechanisms.Gaussian(...)`` the mechanism that incurs it. The two families
share the field's words, so neither stands at the top of the facade.
"""

from hockeystick.accounting import (
    NO_EVENT,
    ZCDP,
    AboveThreshold,
    ApproximateDP,
    BoundedRange,
    Composed,
    Failure,
    Gaussian,
    Laplace,
    LazySwitchDecision,
    NoEvent,
    NonPrivate,
    Oriented,
    Parallel,
    PrivacyEvent,
    PureDP,
    RandomizedResponse,
    VisibleMixture,
    compose,
    parallel,
)

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
