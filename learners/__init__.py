"""Learners: private algorithms built from accounted parts. So far lazy online learning, over any base measure."""

from hockeystick.learners import composition_lemmas, rates
from hockeystick.learners.actions_view import actions_epsilon
from hockeystick.learners.convex_calibration import ConvexParameters
from hockeystick.learners.convex_losses import Ball, Box, ConvexLosses, LinearLosses, QuadraticLosses, RegressionLosses
from hockeystick.learners.convex_measure import ConvexMeasure
from hockeystick.learners.convex_stream import ConvexRelease, ConvexStream
from hockeystick.learners.correlated_sampling import correlated_draws, correlated_law
from hockeystick.learners.exact_sampling import ExactSampler
from hockeystick.learners.expert_losses import batch_sums, checked_losses
from hockeystick.learners.free_instances import FreeInstances, free_instances
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
from hockeystick.learners.normalised_lazy import NormalisedLazyExperts
from hockeystick.learners.rates import log_log_slope
from hockeystick.learners.regularized_measure import RegularizedMeasure, RegularizedWeights
from hockeystick.learners.secure_tangent import SecureTangentSampler
from hockeystick.learners.shrinking_dartboard import ShrinkingDartboard
from hockeystick.learners.tree_experts import PrivateFTRL, TreeExperts

__all__ = [
    "Ball",
    "Box",
    "Certificate",
    "ClosedFormSampler",
    "Condition",
    "ConvexLosses",
    "ConvexMeasure",
    "ConvexParameters",
    "ConvexRelease",
    "ConvexRun",
    "ConvexStream",
    "ConvexTranscripts",
    "EpochAdversary",
    "ExactLoss",
    "ExactSampler",
    "FiniteMeasure",
    "FreeInstances",
    "GridSampler",
    "LangevinSampler",
    "LazyChain",
    "LazyConvex",
    "LazyExperts",
    "LazyMeasure",
    "LazyRelease",
    "LazyRun",
    "LazyStream",
    "LazyTransform",
    "LinearLosses",
    "LossLaw",
    "MeasurePath",
    "MeasureReport",
    "MultiplicativeMeasure",
    "MultiplicativeWeights",
    "NormalisedLazyExperts",
    "ParallelEpochLearner",
    "PointMeasure",
    "Preset",
    "PresetWarning",
    "PrintedGuarantee",
    "PrivateFTRL",
    "ProximalSampler",
    "QuadraticLosses",
    "RegressionLosses",
    "RegularizedMeasure",
    "RegularizedWeights",
    "Resamplings",
    "SecureTangentSampler",
    "ShrinkingDartboard",
    "TangentSampler",
    "Transcripts",
    "TransformRun",
    "TreeExperts",
    "actions_epsilon",
    "actions_log_likelihood_ratio",
    "batch_sums",
    "check_measure",
    "checked_losses",
    "composition_lemmas",
    "correlated_draws",
    "correlated_law",
    "exact_actions_loss",
    "exact_decision_loss",
    "exact_loss",
    "exact_marginals",
    "free_instances",
    "log_log_slope",
    "paper_3_12",
    "paper_epsilon",
    "paper_epsilon_convex",
    "paper_proof_3_10",
    "paper_rate",
    "paper_stmt_3_10",
    "rates",
    "resamplings",
]
