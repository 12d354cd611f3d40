"""Mechanisms: release a value, simulate a batch of releases, and say what one release costs."""

from hockeystick.mechanisms.above_threshold import AboveThreshold
from hockeystick.mechanisms.exponential import ExponentialMechanism
from hockeystick.mechanisms.gaussian import Gaussian
from hockeystick.mechanisms.laplace import Laplace
from hockeystick.mechanisms.lazy_switching import LazySwitch
from hockeystick.mechanisms.protocol import AuditableMechanism, Mechanism, SecureReleaseUnavailableError
from hockeystick.mechanisms.randomized_response import RandomizedResponse
from hockeystick.mechanisms.testing import check_mechanism

__all__ = [
    "AboveThreshold",
    "AuditableMechanism",
    "ExponentialMechanism",
    "Gaussian",
    "Laplace",
    "LazySwitch",
    "Mechanism",
    "RandomizedResponse",
    "SecureReleaseUnavailableError",
    "check_mechanism",
]
