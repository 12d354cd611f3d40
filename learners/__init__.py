"""Learners: private algorithms built from accounted parts.

Lazy online learning over any base measure, federated experts, estimates of KL divergence, and online distribution
learning under local privacy.
"""

from hockeystick.learners import composition_lemmas, rates
from hockeystick.learners.actions_view import actions_epsilon
from hockeystick.learners.agnostic_learner import AgnosticLearner, LearnedPredicate, best_predicate
from hockeystick.learners.base_measure import BaseMeasure, ListedMeasure, ProductMeasure, UniformCube, UniformGrid
from hockeystick.learners.box_cells import BoxCells
from hockeystick.learners.brackets import (
    complement,
    intersect,
    k_fold,
    pull_back,
    push_forward,
    symmetric_difference,
    union,
)
from hockeystick.learners.client_counts import ClientCounts
from hockeystick.learners.concept_class import Brackets, ConceptClass, Cover, log_size_bound
from hockeystick.learners.convex_calibration import ConvexParameters
from hockeystick.learners.convex_losses import Ball, Box, ConvexLosses, LinearLosses, QuadraticLosses, RegressionLosses
from hockeystick.learners.convex_measure import ConvexMeasure
from hockeystick.learners.convex_stream import ConvexRelease, ConvexStream
from hockeystick.learners.correlated_sampling import correlated_draws, correlated_law
from hockeystick.learners.count_logarithms import AssumedCounts, Harmonic, Smoothed
from hockeystick.learners.digit_patterns import LabelledRecords
from hockeystick.learners.distribution_bounds import choose_channel
from hockeystick.learners.error_queries import ErrorQueries, LabelledMeasure, labelled_points
from hockeystick.learners.exact_sampling import ExactSampler
from hockeystick.learners.expert_losses import batch_sums, checked_losses
from hockeystick.learners.fed_stoch import FedStoch
from hockeystick.learners.fed_stoch_batches import PrintedBatch, Sizes, certified_phases, printed_batch, printed_phases
from hockeystick.learners.fed_stoch_plan import PrintedClaim, printed_claims
from hockeystick.learners.fed_stoch_results import Broadcasts, StochRun
from hockeystick.learners.fed_stoch_simulation import StochRuns
from hockeystick.learners.fed_svt import FedSVT
from hockeystick.learners.fed_svt_release import SVTRelease
from hockeystick.learners.fed_svt_run import SVTClient, SVTRuns
from hockeystick.learners.federated_lower_bounds import PackingAdversary
from hockeystick.learners.federated_streams import (
    BernoulliLosses,
    ClassDistributions,
    FederatedStream,
    OneGoodExpert,
    Targets,
    UniformLosses,
    hard_gap,
)
from hockeystick.learners.federation import (
    Client,
    Communication,
    FederationError,
    InProcess,
    Outcome,
    Problem,
    Replies,
    Request,
    conduct,
)
from hockeystick.learners.frank_wolfe_tree import StochSetting, TreePhase, Vertex
from hockeystick.learners.free_instances import FreeInstances, free_instances
from hockeystick.learners.hadamard_class import HadamardClass
from hockeystick.learners.halfspace_class import Halfspaces
from hockeystick.learners.hedge import CellHedge, DenseHedge
from hockeystick.learners.hedge_tree import ThresholdForest, ThresholdTree
from hockeystick.learners.hindsight import least_errors
from hockeystick.learners.hypothesis_selection import HypothesisSelection, ScheffeSelection
from hockeystick.learners.interval_classes import Intervals, Thresholds
from hockeystick.learners.kl_alarms import AlarmSession, DriftAlarms
from hockeystick.learners.kl_average import QueryAverage
from hockeystick.learners.kl_distributed import DistributedKL, NoisyCounts
from hockeystick.learners.kl_federated import KLClient, kl_server
from hockeystick.learners.kl_literal import LiteralKL, NotPrivate, PublishedExperiment
from hockeystick.learners.kl_local import LocalKL, RandomizedKL, TrustedHistogram
from hockeystick.learners.kl_monitor import DriftLook, DriftMonitor, MonitorSession
from hockeystick.learners.kl_projection import approximate_kl_projection, kl_projection
from hockeystick.learners.kl_public_coins import CoinChannel, CoinRelease, FreshCoins, coin_event, coin_graph
from hockeystick.learners.kl_trusted import AggregatedKL, KLEstimate, KLPair, TrustedKL
from hockeystick.learners.label_channels import (
    Channel,
    Message,
    Messages,
    OneBit,
    RandomizedLabels,
    SampledDiscreteLaplace,
    SampledLaplace,
    VectorGaussian,
    VectorLaplace,
)
from hockeystick.learners.label_hypotheses import Hypotheses, LabelDensities, LabelTable
from hockeystick.learners.label_levels import CeiledBlocks, Envelope, Levels, UniformMixture
from hockeystick.learners.label_printed import PrintedMessage, printed_sampled, printed_vector
from hockeystick.learners.label_wire import Inbox, MessageFormat, RefusedMessageError
from hockeystick.learners.lazy_actions import actions_log_likelihood_ratio, exact_actions_loss
from hockeystick.learners.lazy_chain import LazyChain, Transcripts
from hockeystick.learners.lazy_convex import ConvexRun, ConvexTranscripts, LazyConvex
from hockeystick.learners.lazy_experts import LazyExperts
from hockeystick.learners.lazy_measure import (
    FiniteMeasure,
    LazyMeasure,
    MeasurePath,
    MultiplicativeMeasure,
    PointMeasure,
)
from hockeystick.learners.lazy_oracle import ExactLoss, LossLaw, exact_decision_loss, exact_loss, exact_marginals
from hockeystick.learners.lazy_presets import Preset, PresetWarning, paper_3_12, paper_proof_3_10, paper_stmt_3_10
from hockeystick.learners.lazy_printed import (
    Condition,
    PrintedGuarantee,
    paper_epsilon,
    paper_epsilon_convex,
    paper_rate,
)
from hockeystick.learners.lazy_run import LazyRun
from hockeystick.learners.lazy_stream import LazyRelease, LazyStream
from hockeystick.learners.lazy_transform import LazyTransform, TransformRun
from hockeystick.learners.limited_updates import LimitedUpdates
from hockeystick.learners.log_concave_sampling import (
    Certificate,
    ClosedFormSampler,
    GridSampler,
    LangevinSampler,
    ProximalSampler,
    TangentSampler,
)
from hockeystick.learners.lower_bounds import EpochAdversary, ParallelEpochLearner, Resamplings, resamplings
from hockeystick.learners.measure_checks import MeasureReport, check_measure
from hockeystick.learners.multiplicative_weights import MultiplicativeWeights
from hockeystick.learners.mwem_answers import PrivateAnswers, private_report
from hockeystick.learners.net_bounds import NetBound, net_bound, plan_net
from hockeystick.learners.noisy_hedge import NoisyHedge
from hockeystick.learners.normalised_lazy import NormalisedLazyExperts
from hockeystick.learners.online_distribution import OnlineDistribution
from hockeystick.learners.online_distribution_adaptive import InteractiveDistribution
from hockeystick.learners.online_distribution_anytime import AnytimeDistribution
from hockeystick.learners.online_distribution_server import DistributionServer
from hockeystick.learners.online_game import CausalityError, OnlineRuns, SmoothAdversary
from hockeystick.learners.oracle_cover import OracleCover, OracleTree, oracle_cover, oracle_tree
from hockeystick.learners.polynomial_class import PolynomialThresholds
from hockeystick.learners.polytope_class import Polytopes
from hockeystick.learners.public_column import PublicColumn
from hockeystick.learners.query_cells import MatrixCells, QueryCells
from hockeystick.learners.query_laplace import LaplacePerQuery
from hockeystick.learners.query_release import QueryRelease, ReleasedQueries
from hockeystick.learners.rates import log_log_slope
from hockeystick.learners.rating_losses import Ratings, assigned, read_movielens, scaled_losses, synthetic_ratings
from hockeystick.learners.rectangle_class import Rectangles
from hockeystick.learners.regularized_measure import RegularizedMeasure, RegularizedWeights
from hockeystick.learners.secure_tangent import SecureTangentSampler
from hockeystick.learners.shrinking_dartboard import ShrinkingDartboard
from hockeystick.learners.sign_rank import SignRankBounds, forster_bound, sign_change_embedding, sign_rank_bounds
from hockeystick.learners.smooth_adversaries import (
    BinarySearch,
    Blocks,
    CellConcentration,
    NearBoundary,
    NoUniformConvergence,
    RandomLabels,
)
from hockeystick.learners.smooth_data import (
    AcceptedLaw,
    CellLaw,
    PiecewiseLaw,
    WindowLaw,
    nearest_smooth,
    smoothness,
    threshold_chi,
)
from hockeystick.learners.smooth_mwem import SmoothMWEM
from hockeystick.learners.smoothed_online import OnlinePlayer, SmoothedOnline
from hockeystick.learners.stoch_losses import (
    ExpertLosses,
    LossFamily,
    SmoothedCrossEntropy,
    SquaredDistances,
    SquaredProducts,
)
from hockeystick.learners.subsampled_net import NetRelease, SubsampledNet, small_db
from hockeystick.learners.threat_models import ThreatModel
from hockeystick.learners.threshold_net import ThresholdNet
from hockeystick.learners.tree_experts import PrivateFTRL, TreeExperts

__all__ = [
    "AcceptedLaw",
    "AggregatedKL",
    "AgnosticLearner",
    "AlarmSession",
    "AnytimeDistribution",
    "AssumedCounts",
    "Ball",
    "BaseMeasure",
    "BernoulliLosses",
    "BinarySearch",
    "Blocks",
    "Box",
    "BoxCells",
    "Brackets",
    "Broadcasts",
    "CausalityError",
    "CeiledBlocks",
    "CellConcentration",
    "CellHedge",
    "CellLaw",
    "Certificate",
    "Channel",
    "ClassDistributions",
    "Client",
    "ClientCounts",
    "ClosedFormSampler",
    "CoinChannel",
    "CoinRelease",
    "Communication",
    "ConceptClass",
    "Condition",
    "ConvexLosses",
    "ConvexMeasure",
    "ConvexParameters",
    "ConvexRelease",
    "ConvexRun",
    "ConvexStream",
    "ConvexTranscripts",
    "Cover",
    "DenseHedge",
    "DistributedKL",
    "DistributionServer",
    "DriftAlarms",
    "DriftLook",
    "DriftMonitor",
    "Envelope",
    "EpochAdversary",
    "ErrorQueries",
    "ExactLoss",
    "ExactSampler",
    "ExpertLosses",
    "FedSVT",
    "FedStoch",
    "FederatedStream",
    "FederationError",
    "FiniteMeasure",
    "FreeInstances",
    "FreshCoins",
    "GridSampler",
    "HadamardClass",
    "Halfspaces",
    "Harmonic",
    "Hypotheses",
    "HypothesisSelection",
    "InProcess",
    "Inbox",
    "InteractiveDistribution",
    "Intervals",
    "KLClient",
    "KLEstimate",
    "KLPair",
    "LabelDensities",
    "LabelTable",
    "LabelledMeasure",
    "LabelledRecords",
    "LangevinSampler",
    "LaplacePerQuery",
    "LazyChain",
    "LazyConvex",
    "LazyExperts",
    "LazyMeasure",
    "LazyRelease",
    "LazyRun",
    "LazyStream",
    "LazyTransform",
    "LearnedPredicate",
    "Levels",
    "LimitedUpdates",
    "LinearLosses",
    "ListedMeasure",
    "LiteralKL",
    "LocalKL",
    "LossFamily",
    "LossLaw",
    "MatrixCells",
    "MeasurePath",
    "MeasureReport",
    "Message",
    "MessageFormat",
    "Messages",
    "MonitorSession",
    "MultiplicativeMeasure",
    "MultiplicativeWeights",
    "NearBoundary",
    "NetBound",
    "NetRelease",
    "NoUniformConvergence",
    "NoisyCounts",
    "NoisyHedge",
    "NormalisedLazyExperts",
    "NotPrivate",
    "OneBit",
    "OneGoodExpert",
    "OnlineDistribution",
    "OnlinePlayer",
    "OnlineRuns",
    "OracleCover",
    "OracleTree",
    "Outcome",
    "PackingAdversary",
    "ParallelEpochLearner",
    "PiecewiseLaw",
    "PointMeasure",
    "PolynomialThresholds",
    "Polytopes",
    "Preset",
    "PresetWarning",
    "PrintedBatch",
    "PrintedClaim",
    "PrintedGuarantee",
    "PrintedMessage",
    "PrivateAnswers",
    "PrivateFTRL",
    "Problem",
    "ProductMeasure",
    "ProximalSampler",
    "PublicColumn",
    "PublishedExperiment",
    "QuadraticLosses",
    "QueryAverage",
    "QueryCells",
    "QueryRelease",
    "RandomLabels",
    "RandomizedKL",
    "RandomizedLabels",
    "Ratings",
    "Rectangles",
    "RefusedMessageError",
    "RegressionLosses",
    "RegularizedMeasure",
    "RegularizedWeights",
    "ReleasedQueries",
    "Replies",
    "Request",
    "Resamplings",
    "SVTClient",
    "SVTRelease",
    "SVTRuns",
    "SampledDiscreteLaplace",
    "SampledLaplace",
    "ScheffeSelection",
    "SecureTangentSampler",
    "ShrinkingDartboard",
    "SignRankBounds",
    "Sizes",
    "SmoothAdversary",
    "SmoothMWEM",
    "Smoothed",
    "SmoothedCrossEntropy",
    "SmoothedOnline",
    "SquaredDistances",
    "SquaredProducts",
    "StochRun",
    "StochRuns",
    "StochSetting",
    "SubsampledNet",
    "TangentSampler",
    "Targets",
    "ThreatModel",
    "ThresholdForest",
    "ThresholdNet",
    "ThresholdTree",
    "Thresholds",
    "Transcripts",
    "TransformRun",
    "TreeExperts",
    "TreePhase",
    "TrustedHistogram",
    "TrustedKL",
    "UniformCube",
    "UniformGrid",
    "UniformLosses",
    "UniformMixture",
    "VectorGaussian",
    "VectorLaplace",
    "Vertex",
    "WindowLaw",
    "actions_epsilon",
    "actions_log_likelihood_ratio",
    "approximate_kl_projection",
    "assigned",
    "batch_sums",
    "best_predicate",
    "certified_phases",
    "check_measure",
    "checked_losses",
    "choose_channel",
    "coin_event",
    "coin_graph",
    "complement",
    "composition_lemmas",
    "conduct",
    "correlated_draws",
    "correlated_law",
    "exact_actions_loss",
    "exact_decision_loss",
    "exact_loss",
    "exact_marginals",
    "forster_bound",
    "free_instances",
    "hard_gap",
    "intersect",
    "k_fold",
    "kl_projection",
    "kl_server",
    "labelled_points",
    "least_errors",
    "log_log_slope",
    "log_size_bound",
    "nearest_smooth",
    "net_bound",
    "oracle_cover",
    "oracle_tree",
    "paper_3_12",
    "paper_epsilon",
    "paper_epsilon_convex",
    "paper_proof_3_10",
    "paper_rate",
    "paper_stmt_3_10",
    "plan_net",
    "printed_batch",
    "printed_claims",
    "printed_phases",
    "printed_sampled",
    "printed_vector",
    "private_report",
    "pull_back",
    "push_forward",
    "rates",
    "read_movielens",
    "resamplings",
    "scaled_losses",
    "sign_change_embedding",
    "sign_rank_bounds",
    "small_db",
    "smoothness",
    "symmetric_difference",
    "synthetic_ratings",
    "threshold_chi",
    "union",
]
