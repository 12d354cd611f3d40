"""Learners: private algorithms built from accounted parts. So far lazy online learning: experts, convex losses."""

from hockeystick.learners import composition_lemmas, rates
from hockeystick.learners.convex_calibration import ConvexParameters
from hockeystick.learners.convex_losses import Ball, Box, ConvexLosses, LinearLosses, QuadraticLosses, RegressionLosses
from hockeystick.learners.correlated_sampling import correlated_draws, correlated_law
from hockeystick.learners.expert_losses import batch_sums, checked_losses
from hockeystick.learners.lazy_chain import LazyChain, Transcripts
from hockeystick.learners.lazy_convex import ConvexRun, ConvexTranscripts, LazyConvex
from hockeystick.learners.lazy_experts import LazyExperts, LazyRun
from hockeystick.learners.lazy_oracle import ExactLoss, LossLaw, exact_decision_loss, exact_loss, exact_marginals
from hockeystick.learners.lazy_printed import Condition, PrintedGuarantee, paper_epsilon
from hockeystick.learners.log_concave_sampling import (
    Certificate,
    ClosedFormSampler,
    GridSampler,
    LangevinSampler,
    ProximalSampler,
    TangentSampler,
)
from hockeystick.learners.lower_bounds import EpochAdversary, ParallelEpochLearner, Resamplings, resamplings
from hockeystick.learners.measure_checks import FiniteMeasure, MeasureReport, MultiplicativeMeasure, check_measure
from hockeystick.learners.multiplicative_weights import MultiplicativeWeights
from hockeystick.learners.rates import log_log_slope
from hockeystick.learners.regularized_measure import RegularizedMeasure, RegularizedWeights
from hockeystick.learners.shrinking_dartboard import ShrinkingDartboard
from hockeystick.learners.tree_experts import PrivateFTRL, TreeExperts

__all__ = [
    "Ball",
    "Box",
    "Certificate",
    "ClosedFormSampler",
    "Condition",
    "ConvexLosses",
    "ConvexParameters",
    "ConvexRun",
    "ConvexTranscripts",
    "EpochAdversary",
    "ExactLoss",
    "FiniteMeasure",
    "GridSampler",
    "LangevinSampler",
    "LazyChain",
    "LazyConvex",
    "LazyExperts",
    "LazyRun",
    "LinearLosses",
    "LossLaw",
    "MeasureReport",
    "MultiplicativeMeasure",
    "MultiplicativeWeights",
    "ParallelEpochLearner",
    "PrintedGuarantee",
    "PrivateFTRL",
    "ProximalSampler",
    "QuadraticLosses",
    "RegressionLosses",
    "RegularizedMeasure",
    "RegularizedWeights",
    "Resamplings",
    "ShrinkingDartboard",
    "TangentSampler",
    "Transcripts",
    "TreeExperts",
    "batch_sums",
    "check_measure",
    "checked_losses",
    "composition_lemmas",
    "correlated_draws",
    "correlated_law",
    "exact_decision_loss",
    "exact_loss",
    "exact_marginals",
    "log_log_slope",
    "paper_epsilon",
    "rates",
    "resamplings",
]
