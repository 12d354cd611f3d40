"""All events, in one list: what ``hockeystick.events`` offers and what a file may name."""

from __future__ import annotations

from .additive_noise import Gaussian, Laplace
from .averaged_switch import AveragedSwitchDecision
from .chain import Chain, chain
from .composite import Composed, Parallel, VisibleMixture, compose, parallel
from .correlated_noise import (
    fixed_epochs,
    matrix_mechanism,
    matrix_sensitivity,
    tree_aggregation,
    tree_encoder,
    tree_levels,
)
from .curves import GaussianDP, PrivacyProfile, RenyiCurve, TradeOff
from .declared import ZCDP, ApproximateDP, Failure, NonPrivate, PureDP
from .discrete import DiscretePair, LossDistribution
from .event import NO_EVENT, NoEvent, PrivacyEvent
from .gaussian_mixture import MixtureOfGaussians
from .integer_noise import DiscreteGaussian, DiscreteLaplace, Skellam
from .log_lipschitz import LogLipschitz, OneWay
from .mixing import Assignment, InputMix, assignment, public_coin_gaussian, secret_assignment
from .noisy_max import ReportNoisyMax, gumbel_top
from .repeat_select import RepeatAndSelect
from .replaced_sampling import PoissonSampledReplace, SampledWithoutReplacement
from .sampling import PoissonSampled
from .selection import BoundedRange, PermuteAndFlip
from .sparse_vector import AboveThreshold, CumulativeAboveThreshold, GaussianAboveThreshold, sparse_vector
from .staircase import Staircase
from .tabulated_noise import IntegerNoise
from .truncated_sampling import TruncatedPoissonSampled, TruncatedPoissonSampledNull, TruncatedPoissonSampledReplace
from .two_point import LazySwitchDecision, Oriented, RandomizedResponse
from .unary_encoding import UnaryEncoding

__all__ = [
    "NO_EVENT",
    "ZCDP",
    "AboveThreshold",
    "ApproximateDP",
    "Assignment",
    "AveragedSwitchDecision",
    "BoundedRange",
    "Chain",
    "Composed",
    "CumulativeAboveThreshold",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiscretePair",
    "Failure",
    "Gaussian",
    "GaussianAboveThreshold",
    "GaussianDP",
    "InputMix",
    "IntegerNoise",
    "Laplace",
    "LazySwitchDecision",
    "LogLipschitz",
    "LossDistribution",
    "MixtureOfGaussians",
    "NoEvent",
    "NonPrivate",
    "OneWay",
    "Oriented",
    "Parallel",
    "PermuteAndFlip",
    "PoissonSampled",
    "PoissonSampledReplace",
    "PrivacyEvent",
    "PrivacyProfile",
    "PureDP",
    "RandomizedResponse",
    "RenyiCurve",
    "RepeatAndSelect",
    "ReportNoisyMax",
    "SampledWithoutReplacement",
    "Skellam",
    "Staircase",
    "TradeOff",
    "TruncatedPoissonSampled",
    "TruncatedPoissonSampledNull",
    "TruncatedPoissonSampledReplace",
    "UnaryEncoding",
    "VisibleMixture",
    "assignment",
    "chain",
    "compose",
    "fixed_epochs",
    "gumbel_top",
    "matrix_mechanism",
    "matrix_sensitivity",
    "parallel",
    "public_coin_gaussian",
    "secret_assignment",
    "sparse_vector",
    "tree_aggregation",
    "tree_encoder",
    "tree_levels",
]
