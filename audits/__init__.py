"""Audits: claims, the search for events that refute them, bounds that hold for every sample size, and verdicts."""

if __name__ != "hockeystick.audits":  # found at the root of a checkout: a second set of classes
    raise ImportError("import hockeystick.audits")


from hockeystick.audits.adapters.adapt import adapt
from hockeystick.audits.adapters.adapted import Adapted, AdaptedBatch
from hockeystick.audits.bounds.curve_bounds import CurveBounds, cell_curve_bounds, curve_bounds
from hockeystick.audits.bounds.sample_limits import Limit, klinf, samples_needed, samples_to_detect
from hockeystick.audits.bounds.two_counts import Region, clopper_pearson, frontier, rectangle
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.claims.law_pairs import LawPair
from hockeystick.audits.drawing.draws import DEFAULT_SAMPLES, MINIMUM_SAMPLES
from hockeystick.audits.drawing.workers import WorkerError, Workers
from hockeystick.audits.fixed_sample import audit
from hockeystick.audits.membership.audit import (
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
from hockeystick.audits.membership.report import (
    MembershipReport,
    RateAtFpr,
    inclusion_game,
    membership_attack,
    membership_report,
)
from hockeystick.audits.membership.scores import ShadowScores, example_scores, fit_reference
from hockeystick.audits.neighbours.answers import Answers
from hockeystick.audits.neighbours.audit import SearchedAudit, audit_with_search
from hockeystick.audits.neighbours.domains import Domain, PairsFrom, group_pairs
from hockeystick.audits.neighbours.pairs import (
    NeighbourPair,
    NotNeighboursError,
    check_neighbours,
    checked_pair,
    group_claim,
    record_distance,
)
from hockeystick.audits.neighbours.records import FiniteRecords, RealRecords
from hockeystick.audits.neighbours.search import RatedPair, SearchResult, search_neighbours
from hockeystick.audits.one_run.model_based import (
    Estimate,
    estimate_bayesian,
    estimate_gaussian,
    estimate_independent_canaries,
    estimate_sum_statistic,
)
from hockeystick.audits.one_run.one_run import OneRunDesign, OneRunVerdict, one_run_verdict
from hockeystick.audits.one_run.right_guesses import one_run_epsilon_lower, one_run_mu_lower, one_run_p_value
from hockeystick.audits.sequential.audit import sequential_audit
from hockeystick.audits.sequential.evidence_ledger import Evidence, EvidenceLedger, RepeatedSeedError, e_bh
from hockeystick.audits.sequential.verdict import SequentialVerdict
from hockeystick.audits.targets.calling import TargetError
from hockeystick.audits.targets.recorded import Recorded, RecordUsedUpError
from hockeystick.audits.targets.target_features import WithStatistics, with_statistics
from hockeystick.audits.verdicts.verdict import TradeoffPoint, Verdict

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
