"""Learners: private algorithms built from accounted parts. So far lazy online learning: experts, convex losses."""

from hockeystick.learners.convex_calibration import ConvexParameters
from hockeystick.learners.convex_losses import Ball, Box, ConvexLosses, LinearLosses, QuadraticLosses, RegressionLosses
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
from hockeystick.learners.multiplicative_weights import MultiplicativeWeights
from hockeystick.learners.regularized_measure import RegularizedMeasure, RegularizedWeights

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
    "ExactLoss",
    "GridSampler",
    "LangevinSampler",
    "LazyChain",
    "LazyConvex",
    "LazyExperts",
    "LazyRun",
    "LinearLosses",
    "LossLaw",
    "MultiplicativeWeights",
    "PrintedGuarantee",
    "ProximalSampler",
    "QuadraticLosses",
    "RegressionLosses",
    "RegularizedMeasure",
    "RegularizedWeights",
    "TangentSampler",
    "Transcripts",
    "batch_sums",
    "checked_losses",
    "exact_decision_loss",
    "exact_loss",
    "exact_marginals",
    "paper_epsilon",
]
