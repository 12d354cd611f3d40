"""Learners: private algorithms built from accounted parts.

Lazy online learning over any base measure, federated experts, estimates of KL divergence, and online distribution
learning under local privacy.
"""

if __name__ != "hockeystick.learners":  # found at the root of a checkout: a second set of classes
    raise ImportError("import hockeystick.learners")


from hockeystick.learners.distribution.adaptive_runs import InteractiveDistribution
from hockeystick.learners.distribution.anytime import AnytimeDistribution
from hockeystick.learners.distribution.channels.all_channels import (
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
from hockeystick.learners.distribution.channels.candidates import Hypotheses, LabelDensities, LabelTable
from hockeystick.learners.distribution.channels.levels import CeiledBlocks, Envelope, Levels, UniformMixture
from hockeystick.learners.distribution.channels.printed import PrintedMessage, printed_sampled, printed_vector
from hockeystick.learners.distribution.channels.wire import Inbox, MessageFormat, RefusedMessageError
from hockeystick.learners.distribution.hadamard_candidates import HadamardClass
from hockeystick.learners.distribution.hypothesis_selection import HypothesisSelection, ScheffeSelection
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.risk_bounds import choose_channel
from hockeystick.learners.distribution.server import DistributionServer
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import AssumedCounts, Harmonic, Smoothed
from hockeystick.learners.divergence.distributed import DistributedKL, NoisyCounts
from hockeystick.learners.divergence.drift.alarms import AlarmSession, DriftAlarms
from hockeystick.learners.divergence.drift.monitor import DriftLook, DriftMonitor, MonitorSession
from hockeystick.learners.divergence.local_baselines import LocalKL, RandomizedKL, TrustedHistogram
from hockeystick.learners.divergence.made_up_populations import LabelledRecords
from hockeystick.learners.divergence.over_a_network import KLClient, kl_server
from hockeystick.learners.divergence.printed.coins_after_data import (
    CoinChannel,
    CoinRelease,
    FreshCoins,
    coin_event,
    coin_graph,
)
from hockeystick.learners.divergence.printed.literal_estimators import LiteralKL, NotPrivate, PublishedExperiment
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import AggregatedKL, KLEstimate, KLPair, TrustedKL
from hockeystick.learners.experts.expert_losses import batch_sums, checked_losses
from hockeystick.learners.experts.multiplicative_weights import MultiplicativeWeights
from hockeystick.learners.federated.limited_updates import LimitedUpdates
from hockeystick.learners.federated.lower_bounds import PackingAdversary
from hockeystick.learners.federated.made_up_streams import (
    BernoulliLosses,
    ClassDistributions,
    FederatedStream,
    OneGoodExpert,
    Targets,
    UniformLosses,
    hard_gap,
)
from hockeystick.learners.federated.noisy_hedge import NoisyHedge
from hockeystick.learners.federated.one_good_expert.fed_svt import FedSVT
from hockeystick.learners.federated.one_good_expert.release import SVTRelease
from hockeystick.learners.federated.one_good_expert.run import SVTClient, SVTRuns
from hockeystick.learners.federated.rating_losses import (
    Ratings,
    assigned,
    read_movielens,
    scaled_losses,
    synthetic_ratings,
)
from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase, Vertex
from hockeystick.learners.federated.stochastic.losses import (
    ExpertLosses,
    LossFamily,
    SmoothedCrossEntropy,
    SquaredDistances,
    SquaredProducts,
)
from hockeystick.learners.federated.stochastic.plan import PrintedClaim, printed_claims
from hockeystick.learners.federated.stochastic.printed_batches import (
    PrintedBatch,
    Sizes,
    certified_phases,
    printed_batch,
    printed_phases,
)
from hockeystick.learners.federated.stochastic.results import Broadcasts, StochRun
from hockeystick.learners.federated.stochastic.simulation import StochRuns
from hockeystick.learners.lazy.comparators.normalised_lazy import NormalisedLazyExperts
from hockeystick.learners.lazy.comparators.shrinking_dartboard import ShrinkingDartboard
from hockeystick.learners.lazy.comparators.tree_experts import PrivateFTRL, TreeExperts
from hockeystick.learners.lazy.convex.calibration import ConvexParameters
from hockeystick.learners.lazy.convex.convex_stream import ConvexRelease, ConvexStream
from hockeystick.learners.lazy.convex.lazy_convex import ConvexRun, ConvexTranscripts, LazyConvex
from hockeystick.learners.lazy.convex.losses.convex_losses import (
    Ball,
    Box,
    ConvexLosses,
    LinearLosses,
    QuadraticLosses,
    RegressionLosses,
)
from hockeystick.learners.lazy.convex.losses.regularized_measure import RegularizedMeasure, RegularizedWeights
from hockeystick.learners.lazy.convex.sampling.exact_normal import ExactSampler
from hockeystick.learners.lazy.convex.sampling.samplers import (
    Certificate,
    ClosedFormSampler,
    GridSampler,
    LangevinSampler,
    ProximalSampler,
    TangentSampler,
)
from hockeystick.learners.lazy.convex.sampling.tangent_rejection import SecureTangentSampler
from hockeystick.learners.lazy.experts.lazy_chain import LazyChain, Transcripts
from hockeystick.learners.lazy.experts.lazy_experts import LazyExperts
from hockeystick.learners.lazy.experts.lazy_run import LazyRun
from hockeystick.learners.lazy.experts.lazy_stream import LazyRelease, LazyStream
from hockeystick.learners.lazy.theory import composition_lemmas, rates
from hockeystick.learners.lazy.theory.actions_epsilon import actions_epsilon
from hockeystick.learners.lazy.theory.correlated_sampling import correlated_draws, correlated_law
from hockeystick.learners.lazy.theory.exact_loss import (
    ExactLoss,
    LossLaw,
    exact_decision_loss,
    exact_loss,
    exact_marginals,
)
from hockeystick.learners.lazy.theory.free_instances import FreeInstances, free_instances
from hockeystick.learners.lazy.theory.lower_bounds import EpochAdversary, ParallelEpochLearner, Resamplings, resamplings
from hockeystick.learners.lazy.theory.played_actions import actions_log_likelihood_ratio, exact_actions_loss
from hockeystick.learners.lazy.theory.presets import (
    Preset,
    PresetWarning,
    paper_3_12,
    paper_proof_3_10,
    paper_stmt_3_10,
)
from hockeystick.learners.lazy.theory.printed_guarantee import (
    Condition,
    PrintedGuarantee,
    paper_epsilon,
    paper_epsilon_convex,
    paper_rate,
)
from hockeystick.learners.lazy.theory.rates import log_log_slope
from hockeystick.learners.lazy.transform.base_learner import (
    FiniteMeasure,
    LazyMeasure,
    MeasurePath,
    MultiplicativeMeasure,
    PointMeasure,
)
from hockeystick.learners.lazy.transform.convex_base_learner import ConvexMeasure
from hockeystick.learners.lazy.transform.lazy_transform import LazyTransform, TransformRun
from hockeystick.learners.lazy.transform.measure_checks import MeasureReport, check_measure
from hockeystick.learners.network.conduct import (
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
from hockeystick.learners.network.threat_models import ThreatModel
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.oracle_cover import OracleCover, OracleTree, oracle_cover, oracle_tree
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.brackets import (
    complement,
    intersect,
    k_fold,
    pull_back,
    push_forward,
    symmetric_difference,
    union,
)
from hockeystick.learners.smoothed.classes.concept_class import Brackets, ConceptClass, Cover, log_size_bound
from hockeystick.learners.smoothed.classes.error_queries import ErrorQueries, LabelledMeasure, labelled_points
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.classes.halfspaces.polytopes import Polytopes
from hockeystick.learners.smoothed.classes.halfspaces.sign_rank import (
    SignRankBounds,
    forster_bound,
    sign_change_embedding,
    sign_rank_bounds,
)
from hockeystick.learners.smoothed.classes.polynomials.polynomials import PolynomialThresholds
from hockeystick.learners.smoothed.measures.base_measure import (
    BaseMeasure,
    ListedMeasure,
    ProductMeasure,
    UniformCube,
    UniformGrid,
)
from hockeystick.learners.smoothed.measures.kl_projection import approximate_kl_projection, kl_projection
from hockeystick.learners.smoothed.measures.public_column import PublicColumn
from hockeystick.learners.smoothed.measures.smooth_data import (
    AcceptedLaw,
    CellLaw,
    PiecewiseLaw,
    WindowLaw,
    nearest_smooth,
    smoothness,
    threshold_chi,
)
from hockeystick.learners.smoothed.nets.agnostic_learner import AgnosticLearner, LearnedPredicate, best_predicate
from hockeystick.learners.smoothed.nets.net_bounds import NetBound, net_bound, plan_net
from hockeystick.learners.smoothed.nets.subsampled_net import NetRelease, SubsampledNet, small_db
from hockeystick.learners.smoothed.nets.threshold_net import ThresholdNet
from hockeystick.learners.smoothed.online.hedge import CellHedge, DenseHedge
from hockeystick.learners.smoothed.online.hindsight import least_errors
from hockeystick.learners.smoothed.online.online_game import CausalityError, OnlineRuns, SmoothAdversary
from hockeystick.learners.smoothed.online.smooth_adversaries import (
    BinarySearch,
    Blocks,
    CellConcentration,
    NearBoundary,
    NoUniformConvergence,
    RandomLabels,
)
from hockeystick.learners.smoothed.online.smoothed_online import OnlinePlayer, SmoothedOnline
from hockeystick.learners.smoothed.online.threshold_tree import ThresholdForest, ThresholdTree
from hockeystick.learners.smoothed.queries.answers import PrivateAnswers, private_report
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.cells import MatrixCells, QueryCells
from hockeystick.learners.smoothed.queries.laplace_per_query import LaplacePerQuery
from hockeystick.learners.smoothed.queries.query_release import QueryRelease, ReleasedQueries
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM

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
