"""Learners: private algorithms built from accounted parts. This module holds private prediction from expert advice."""

from hockeystick.learners.expert_losses import batch_sums, checked_losses
from hockeystick.learners.lazy_chain import LazyChain, Transcripts
from hockeystick.learners.lazy_experts import LazyExperts, LazyRun
from hockeystick.learners.lazy_oracle import ExactLoss, LossLaw, exact_decision_loss, exact_loss, exact_marginals
from hockeystick.learners.lazy_printed import Condition, PrintedGuarantee, paper_epsilon
from hockeystick.learners.multiplicative_weights import MultiplicativeWeights

__all__ = [
    "Condition",
    "ExactLoss",
    "LazyChain",
    "LazyExperts",
    "LazyRun",
    "LossLaw",
    "MultiplicativeWeights",
    "PrintedGuarantee",
    "Transcripts",
    "batch_sums",
    "checked_losses",
    "exact_decision_loss",
    "exact_loss",
    "exact_marginals",
    "paper_epsilon",
]
