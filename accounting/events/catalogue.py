"""The catalogue of all events: the contents of ``hockeystick.events``, and the names that files may use."""

from __future__ import annotations

from hockeystick.accounting.events.answers.above_threshold import (
    AboveThreshold,
    CumulativeAboveThreshold,
    GaussianAboveThreshold,
    sparse_vector,
)
from hockeystick.accounting.events.answers.best_of_repeats import RepeatAndSelect
from hockeystick.accounting.events.answers.drifting_law import LogLipschitz, OneWay
from hockeystick.accounting.events.answers.local_randomizer import LocalRandomizer
from hockeystick.accounting.events.answers.noisy_max import ReportNoisyMax, gumbel_top
from hockeystick.accounting.events.answers.randomized_response import LazySwitchDecision, Oriented, RandomizedResponse
from hockeystick.accounting.events.answers.selection import BoundedRange, PermuteAndFlip
from hockeystick.accounting.events.answers.subset_selection import SubsetSelection
from hockeystick.accounting.events.answers.thresholded_counts import ThresholdedCounts
from hockeystick.accounting.events.answers.unary_encoding import UnaryEncoding
from hockeystick.accounting.events.basic.composition import Composed, Parallel, VisibleMixture, compose, parallel
from hockeystick.accounting.events.basic.declared import ZCDP, ApproximateDP, Failure, NonPrivate, PureDP
from hockeystick.accounting.events.basic.event import NO_EVENT, NoEvent, PrivacyEvent
from hockeystick.accounting.events.basic.given_curves import GaussianDP, PrivacyProfile, RenyiCurve, TradeOff
from hockeystick.accounting.events.basic.given_laws import DiscretePair, LossDistribution, OrderedPair
from hockeystick.accounting.events.basic.group_steps import Chain, chain
from hockeystick.accounting.events.iterates.published_last import last_iterate
from hockeystick.accounting.events.iterates.taut_string import last_iterate_mu
from hockeystick.accounting.events.noise.correlated_noise import (
    fixed_epochs,
    matrix_mechanism,
    matrix_sensitivity,
    tree_aggregation,
    tree_encoder,
    tree_levels,
)
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian, Laplace
from hockeystick.accounting.events.noise.gaussian_mixture import MixtureOfGaussians
from hockeystick.accounting.events.noise.integer_noise import DiscreteGaussian, DiscreteLaplace, Skellam
from hockeystick.accounting.events.noise.participations import cyclic_patterns, participation_sensitivity
from hockeystick.accounting.events.noise.staircase import Staircase
from hockeystick.accounting.events.noise.tabulated_noise import IntegerNoise
from hockeystick.accounting.events.sampling.allocation import RandomAllocation
from hockeystick.accounting.events.sampling.averaged_lazy_switch import AveragedSwitchDecision
from hockeystick.accounting.events.sampling.coins import (
    Assignment,
    InputMix,
    assignment,
    public_coin_gaussian,
    secret_assignment,
)
from hockeystick.accounting.events.sampling.poisson import PoissonSampled
from hockeystick.accounting.events.sampling.replace_one import PoissonSampledReplace, SampledWithoutReplacement
from hockeystick.accounting.events.sampling.sampled_matrices import (
    RecordByRecord,
    banded_matrix_mechanism,
    min_separated_matrix_mechanism,
)
from hockeystick.accounting.events.sampling.shuffled import Shuffled
from hockeystick.accounting.events.sampling.shuffled_batches import ShuffledBatches
from hockeystick.accounting.events.sampling.truncated_poisson import (
    TruncatedPoissonSampled,
    TruncatedPoissonSampledNull,
    TruncatedPoissonSampledReplace,
)

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
    "LocalRandomizer",
    "LogLipschitz",
    "LossDistribution",
    "MixtureOfGaussians",
    "NoEvent",
    "NonPrivate",
    "OneWay",
    "OrderedPair",
    "Oriented",
    "Parallel",
    "PermuteAndFlip",
    "PoissonSampled",
    "PoissonSampledReplace",
    "PrivacyEvent",
    "PrivacyProfile",
    "PureDP",
    "RandomAllocation",
    "RandomizedResponse",
    "RecordByRecord",
    "RenyiCurve",
    "RepeatAndSelect",
    "ReportNoisyMax",
    "SampledWithoutReplacement",
    "Shuffled",
    "ShuffledBatches",
    "Skellam",
    "Staircase",
    "SubsetSelection",
    "ThresholdedCounts",
    "TradeOff",
    "TruncatedPoissonSampled",
    "TruncatedPoissonSampledNull",
    "TruncatedPoissonSampledReplace",
    "UnaryEncoding",
    "VisibleMixture",
    "assignment",
    "banded_matrix_mechanism",
    "chain",
    "compose",
    "cyclic_patterns",
    "fixed_epochs",
    "gumbel_top",
    "last_iterate",
    "last_iterate_mu",
    "matrix_mechanism",
    "matrix_sensitivity",
    "min_separated_matrix_mechanism",
    "parallel",
    "participation_sensitivity",
    "public_coin_gaussian",
    "secret_assignment",
    "sparse_vector",
    "tree_aggregation",
    "tree_encoder",
    "tree_levels",
]
