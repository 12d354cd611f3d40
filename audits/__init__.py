"""Audits: claims, the search for events that refute them, bounds that hold for every sample size, and verdicts."""

from .adapted import Adapted, AdaptedBatch
from .adapters import adapt
from .audit import audit
from .bounds import Region, clopper_pearson, frontier, rectangle
from .claim import Claim
from .curve_bounds import CurveBounds, cell_curve_bounds, curve_bounds
from .drawing import DEFAULT_SAMPLES, MINIMUM_SAMPLES
from .evidence_ledger import Evidence, EvidenceLedger, RepeatedSeedError, e_bh
from .law_pairs import LawPair
from .limits import Limit, klinf, samples_needed, samples_to_detect
from .membership import (
    CanaryScore,
    EstimatorTraining,
    Examples,
    MembershipTarget,
    SimulatedMembership,
    audit_membership,
    membership_pair,
    mislabelled_canary,
    outlying_canary,
)
from .membership_report import MembershipReport, RateAtFpr, inclusion_game, membership_attack, membership_report
from .membership_scores import ShadowScores, example_scores, fit_reference
from .model_based import (
    Estimate,
    estimate_bayesian,
    estimate_gaussian,
    estimate_independent_canaries,
    estimate_sum_statistic,
)
from .neighbour_answers import Answers
from .neighbour_domains import Domain, PairsFrom, group_pairs
from .neighbour_records import FiniteRecords, RealRecords
from .neighbour_search import RatedPair, SearchResult, search_neighbours
from .neighbours import (
    NeighbourPair,
    NotNeighboursError,
    check_neighbours,
    checked_pair,
    group_claim,
    record_distance,
)
from .one_run import OneRunDesign, OneRunVerdict, one_run_verdict
from .one_run_tradeoff import one_run_epsilon_lower, one_run_mu_lower, one_run_p_value
from .recorded import Recorded, RecordUsedUpError
from .sampling import TargetError
from .searched_audit import SearchedAudit, audit_with_search
from .sequential import sequential_audit
from .sequential_verdict import SequentialVerdict
from .target_features import WithStatistics, with_statistics
from .verdict import TradeoffPoint, Verdict
from .workers import WorkerError, Workers

__all__ = [
    "DEFAULT_SAMPLES",
    "MINIMUM_SAMPLES",
    "Adapted",
    "AdaptedBatch",
    "Answers",
    "CanaryScore",
    "Claim",
    "CurveBounds",
    "Domain",
    "Estimate",
    "EstimatorTraining",
    "Evidence",
    "EvidenceLedger",
    "Examples",
    "FiniteRecords",
    "LawPair",
    "Limit",
    "MembershipReport",
    "MembershipTarget",
    "NeighbourPair",
    "NotNeighboursError",
    "OneRunDesign",
    "OneRunVerdict",
    "PairsFrom",
    "RateAtFpr",
    "RatedPair",
    "RealRecords",
    "RecordUsedUpError",
    "Recorded",
    "Region",
    "RepeatedSeedError",
    "SearchResult",
    "SearchedAudit",
    "SequentialVerdict",
    "ShadowScores",
    "SimulatedMembership",
    "TargetError",
    "TradeoffPoint",
    "Verdict",
    "WithStatistics",
    "WorkerError",
    "Workers",
    "adapt",
    "audit",
    "audit_membership",
    "audit_with_search",
    "cell_curve_bounds",
    "check_neighbours",
    "checked_pair",
    "clopper_pearson",
    "curve_bounds",
    "e_bh",
    "estimate_bayesian",
    "estimate_gaussian",
    "estimate_independent_canaries",
    "estimate_sum_statistic",
    "example_scores",
    "fit_reference",
    "frontier",
    "group_claim",
    "group_pairs",
    "inclusion_game",
    "klinf",
    "membership_attack",
    "membership_pair",
    "membership_report",
    "mislabelled_canary",
    "one_run_epsilon_lower",
    "one_run_mu_lower",
    "one_run_p_value",
    "one_run_verdict",
    "outlying_canary",
    "record_distance",
    "rectangle",
    "samples_needed",
    "samples_to_detect",
    "search_neighbours",
    "sequential_audit",
    "with_statistics",
]
