"""Mechanisms: release a value, simulate a batch of releases, and say what one release costs."""

from hockeystick.mechanisms import factorisations
from hockeystick.mechanisms.above_threshold import AboveThreshold
from hockeystick.mechanisms.clipping import ClipNorm, ClipNumbers, ClippedMean, ClippedSum, ClippedVectorSum
from hockeystick.mechanisms.contribution import BoundedContribution, BoundedHistogram, public_priorities
from hockeystick.mechanisms.cumulative_above_threshold import CumulativeAboveThreshold, CumulativeSession
from hockeystick.mechanisms.discrete_gaussian import DiscreteGaussian
from hockeystick.mechanisms.discrete_laplace import DiscreteLaplace
from hockeystick.mechanisms.exponential import ExponentialMechanism
from hockeystick.mechanisms.gaussian import Gaussian
from hockeystick.mechanisms.gaussian_above_threshold import GaussianAboveThreshold
from hockeystick.mechanisms.group import ForGroups
from hockeystick.mechanisms.hadamard_response import HadamardResponse
from hockeystick.mechanisms.laplace import Laplace
from hockeystick.mechanisms.lazy_sampler import LazySampler, LazyWalk
from hockeystick.mechanisms.lazy_switching import LazySwitch
from hockeystick.mechanisms.matrix_mechanism import MatrixMechanism, MatrixStream
from hockeystick.mechanisms.noise import Noise, ReleaseNoise, SecureReleaseUnavailableError, SimulationNoise
from hockeystick.mechanisms.noise_shares import DiscreteGaussianShares, PolyaShares, SkellamShares
from hockeystick.mechanisms.noisy_max import NoisyMax
from hockeystick.mechanisms.one_bit_channel import OneBitChannel
from hockeystick.mechanisms.permute_and_flip import PermuteAndFlip
from hockeystick.mechanisms.protocol import AuditableMechanism, Mechanism
from hockeystick.mechanisms.randomized_response import RandomizedResponse
from hockeystick.mechanisms.samplers import (
    FixedBatches,
    PoissonSample,
    SampleWithoutReplacement,
    TruncatedPoissonSample,
)
from hockeystick.mechanisms.secure_aggregation import AggregationError, MaskedSum, secure_sum
from hockeystick.mechanisms.skellam import Skellam
from hockeystick.mechanisms.sparse_vector import SparseVector, SparseVectorSession
from hockeystick.mechanisms.staircase import Staircase
from hockeystick.mechanisms.subsampled import Subsampled
from hockeystick.mechanisms.testing import Released, check_mechanism
from hockeystick.mechanisms.threshold_stream import StreamHaltedError, ThresholdSession
from hockeystick.mechanisms.top_k import TopK
from hockeystick.mechanisms.tree_aggregation import TreeAggregation, TreeStream
from hockeystick.mechanisms.unary_encoding import UnaryEncoding

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
