"""Mechanisms: release a value, simulate a batch of releases, and say what one release costs."""

from hockeystick.mechanisms import factorisations
from hockeystick.mechanisms.above_threshold import AboveThreshold
from hockeystick.mechanisms.clipping import ClipNorm, ClipNumbers, ClippedMean, ClippedSum, ClippedVectorSum
from hockeystick.mechanisms.contribution import BoundedContribution, BoundedHistogram, public_priorities
from hockeystick.mechanisms.exponential import ExponentialMechanism
from hockeystick.mechanisms.gaussian import Gaussian
from hockeystick.mechanisms.group import ForGroups
from hockeystick.mechanisms.hadamard_response import HadamardResponse
from hockeystick.mechanisms.laplace import Laplace
from hockeystick.mechanisms.lazy_switching import LazySwitch
from hockeystick.mechanisms.matrix_mechanism import MatrixMechanism, MatrixStream
from hockeystick.mechanisms.noise import Noise, ReleaseNoise, SecureReleaseUnavailableError, SimulationNoise
from hockeystick.mechanisms.one_bit_channel import OneBitChannel
from hockeystick.mechanisms.protocol import AuditableMechanism, Mechanism
from hockeystick.mechanisms.randomized_response import RandomizedResponse
from hockeystick.mechanisms.samplers import (
    FixedBatches,
    PoissonSample,
    SampleWithoutReplacement,
    TruncatedPoissonSample,
)
from hockeystick.mechanisms.subsampled import Subsampled
from hockeystick.mechanisms.testing import Released, check_mechanism
from hockeystick.mechanisms.tree_aggregation import TreeAggregation, TreeStream
from hockeystick.mechanisms.unary_encoding import UnaryEncoding

__all__ = [
    "AboveThreshold",
    "AuditableMechanism",
    "BoundedContribution",
    "BoundedHistogram",
    "ClipNorm",
    "ClipNumbers",
    "ClippedMean",
    "ClippedSum",
    "ClippedVectorSum",
    "ExponentialMechanism",
    "FixedBatches",
    "ForGroups",
    "Gaussian",
    "HadamardResponse",
    "Laplace",
    "LazySwitch",
    "MatrixMechanism",
    "MatrixStream",
    "Mechanism",
    "Noise",
    "OneBitChannel",
    "PoissonSample",
    "RandomizedResponse",
    "ReleaseNoise",
    "Released",
    "SampleWithoutReplacement",
    "SecureReleaseUnavailableError",
    "SimulationNoise",
    "Subsampled",
    "TreeAggregation",
    "TreeStream",
    "TruncatedPoissonSample",
    "UnaryEncoding",
    "check_mechanism",
    "factorisations",
    "public_priorities",
]
