"""Mechanisms: release a value, simulate a batch of releases, and say what one release costs."""

if __name__ != "hockeystick.mechanisms":  # found at the root of a checkout: a second set of classes
    raise ImportError("import hockeystick.mechanisms")


from hockeystick.mechanisms.contract.protocol import AuditableMechanism, Mechanism
from hockeystick.mechanisms.data.clipping import ClipNorm, ClipNumbers, ClippedMean, ClippedSum, ClippedVectorSum
from hockeystick.mechanisms.data.contribution_bounds import BoundedContribution, BoundedHistogram, public_priorities
from hockeystick.mechanisms.data.group_privacy import ForGroups
from hockeystick.mechanisms.data.record_samplers import (
    FixedBatches,
    PoissonSample,
    SampleWithoutReplacement,
    TruncatedPoissonSample,
)
from hockeystick.mechanisms.data.subsampled_sum import Subsampled
from hockeystick.mechanisms.distributed.noise_shares import DiscreteGaussianShares, PolyaShares, SkellamShares
from hockeystick.mechanisms.distributed.secure_aggregation import AggregationError, MaskedSum, secure_sum
from hockeystick.mechanisms.lazy.lazy_sampler import LazySampler, LazyWalk
from hockeystick.mechanisms.lazy.lazy_switching import LazySwitch
from hockeystick.mechanisms.local.hadamard_response import HadamardResponse
from hockeystick.mechanisms.local.one_bit_channel import OneBitChannel
from hockeystick.mechanisms.local.randomized_response import RandomizedResponse
from hockeystick.mechanisms.local.unary_encoding import UnaryEncoding
from hockeystick.mechanisms.numbers.discrete_gaussian import DiscreteGaussian
from hockeystick.mechanisms.numbers.discrete_laplace import DiscreteLaplace
from hockeystick.mechanisms.numbers.gaussian import Gaussian
from hockeystick.mechanisms.numbers.laplace import Laplace
from hockeystick.mechanisms.numbers.skellam import Skellam
from hockeystick.mechanisms.numbers.staircase import Staircase
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, SecureReleaseUnavailableError, SimulationNoise
from hockeystick.mechanisms.selection.exponential import ExponentialMechanism
from hockeystick.mechanisms.selection.noisy_max import NoisyMax
from hockeystick.mechanisms.selection.permute_and_flip import PermuteAndFlip
from hockeystick.mechanisms.selection.top_k import TopK
from hockeystick.mechanisms.streams import factorisations
from hockeystick.mechanisms.streams.matrix_mechanism import MatrixMechanism, MatrixStream
from hockeystick.mechanisms.streams.tree_aggregation import TreeAggregation, TreeStream
from hockeystick.mechanisms.testing import Released, check_mechanism
from hockeystick.mechanisms.thresholds.above_threshold import AboveThreshold
from hockeystick.mechanisms.thresholds.cumulative_above_threshold import CumulativeAboveThreshold, CumulativeSession
from hockeystick.mechanisms.thresholds.gaussian_above_threshold import GaussianAboveThreshold
from hockeystick.mechanisms.thresholds.sparse_vector import SparseVector, SparseVectorSession
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError, ThresholdSession

__all__ = [
    "AboveThreshold",
    "AggregationError",
    "AuditableMechanism",
    "BoundedContribution",
    "BoundedHistogram",
    "ClipNorm",
    "ClipNumbers",
    "ClippedMean",
    "ClippedSum",
    "ClippedVectorSum",
    "CumulativeAboveThreshold",
    "CumulativeSession",
    "DiscreteGaussian",
    "DiscreteGaussianShares",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "FixedBatches",
    "ForGroups",
    "Gaussian",
    "GaussianAboveThreshold",
    "HadamardResponse",
    "Laplace",
    "LazySampler",
    "LazySwitch",
    "LazyWalk",
    "MaskedSum",
    "MatrixMechanism",
    "MatrixStream",
    "Mechanism",
    "Noise",
    "NoisyMax",
    "OneBitChannel",
    "PermuteAndFlip",
    "PoissonSample",
    "PolyaShares",
    "RandomizedResponse",
    "ReleaseNoise",
    "Released",
    "SampleWithoutReplacement",
    "SecureReleaseUnavailableError",
    "SimulationNoise",
    "Skellam",
    "SkellamShares",
    "SparseVector",
    "SparseVectorSession",
    "Staircase",
    "StreamHaltedError",
    "Subsampled",
    "ThresholdSession",
    "TopK",
    "TreeAggregation",
    "TreeStream",
    "TruncatedPoissonSample",
    "UnaryEncoding",
    "check_mechanism",
    "factorisations",
    "public_priorities",
    "secure_sum",
]
