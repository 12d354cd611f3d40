"""Mechanisms: release a value, simulate a batch of releases, and say what one release costs."""

from hockeystick.mechanisms.above_threshold import AboveThreshold
from hockeystick.mechanisms.exponential import ExponentialMechanism
from hockeystick.mechanisms.gaussian import Gaussian
from hockeystick.mechanisms.laplace import Laplace
from hockeystick.mechanisms.lazy_switching import LazySwitch
from hockeystick.mechanisms.noise import Noise, ReleaseNoise, SecureReleaseUnavailableError, SimulationNoise
from hockeystick.mechanisms.protocol import AuditableMechanism, Mechanism
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
    "Noise",
    "RandomizedResponse",
    "ReleaseNoise",
    "SecureReleaseUnavailableError",
    "SimulationNoise",
    "check_mechanism",
]
