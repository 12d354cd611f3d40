"""Audits: claims, the search for events that refute them, bounds that hold for every sample size, and verdicts."""

from .audit import DEFAULT_SAMPLES, MINIMUM_SAMPLES, audit
from .bounds import Region, clopper_pearson, frontier, rectangle
from .claim import Claim
from .sampling import TargetError
from .verdict import TradeoffPoint, Verdict

__all__ = [
    "DEFAULT_SAMPLES",
    "MINIMUM_SAMPLES",
    "Claim",
    "Region",
    "TargetError",
    "TradeoffPoint",
    "Verdict",
    "audit",
    "clopper_pearson",
    "frontier",
    "rectangle",
]
