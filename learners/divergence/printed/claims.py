"""The printed claims about the privacy of KL estimates beside the delivered privacy: verdicts, not certificates.

Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478). Every claim has the printed (ε, δ), the exact ε that its noise
delivers at the same δ against each adversary, and hence a verdict. Neighbours differ in one record (replace-one).

* Corollary 3.1 has a *variance* 2 ln(1.25/delta) Delta/epsilon: not scale-free, too little for small epsilon.
* Theorem 4.6: two sums with the noise of one, or literally with one draw, which anyone who sees both can subtract.
* Theorems 4.9 and 4.10: sensitivities, the first true, the second false.
* Theorem 4.11: noise for N "samples" on frequencies of another N, fresh for every repetition of a symbol.

For private estimates use ``TrustedKL``, ``AggregatedKL`` and ``DistributedKL``.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import array, integer, one_of, probability, real
from hockeystick.learners.common.printed_claims import Condition, PresetWarning, PrintedGuarantee
from hockeystick.learners.divergence import sensitivity as kl_sensitivity
from hockeystick.learners.divergence.count_logarithms import AssumedCounts
from hockeystick.learners.network.threat_models import ThreatModel, threat_model
from hockeystick.mechanisms import Gaussian

Reading = Literal["outside", "inside"]
Noise = Literal["one draw", "independent"]
Sign = Literal["printed", "corrected"]

PRINTED_SENSITIVITY = 0.7
"""The constant of Theorem 4.9."""

CODE_SENSITIVITY = 1.0 + math.log(2.0)
"""The constant of the published experiments."""

_ROUNDING = 1e-9
_SOURCE = "Scott, Biswas, Cormode & Maple 2024, "


@frozen
class Delivered:
    """The exact ε against one adversary.

    Attributes:
        threat: The view of the adversary.
        epsilon: The exact ε, rounded up; infinite if an event has probability 0 under one of two neighbours only.
        reason: The reason for its size.
    """

    threat: ThreatModel
    epsilon: float
    reason: str


@frozen
class PrintedClaim:
    """A printed (ε, δ) with the privacy that its noise delivers.

    Attributes:
        printed: The claim, and the conditions under which it is stated or could be.
        delivered: The exact ε at the same δ, for each adversary of the claim.
    """

    printed: PrintedGuarantee
    delivered: tuple[Delivered, ...]

    def epsilon(self, threat: ThreatModel | str) -> float:
        """Returns the exact epsilon against one adversary.

        Raises:
            InvalidArgumentError: there is no such adversary, or it is not one of the claim.
        """
        wanted = threat_model(threat)
        for found in self.delivered:
            if found.threat is wanted:
                return found.epsilon
        raise InvalidArgumentError("threat", wanted.value, "is not an adversary of this claim")

    def holds(self, threat: ThreatModel | str) -> bool:
        """Returns whether the claim is true for one adversary, up to the rounding of an exact calibration."""
        return self.epsilon(threat) <= self.printed.epsilon * (1.0 + _ROUNDING)

    @property
    def verdict(self) -> Literal["holds", "fails"]:
        """Whether the claim is true for all adversaries."""
        return "holds" if all(self.holds(found.threat) for found in self.delivered) else "fails"


def _target(epsilon: object, delta: object) -> tuple[float, float]:
    return real("epsilon", epsilon, low=0.0, low_open=True), probability("delta", delta, open=True)


def _distance(epsilon: float, delta: float) -> float:
    """mu of exact Gaussian calibration, rounded down."""
    return 1.0 / Gaussian.calibrated(epsilon=epsilon, delta=delta).sigma


def _exact(mu: float, delta: float) -> float:
    return accounting.epsilon(accounting.Gaussian(1.0 / mu), delta).upper


# --- noise -----------------------------------------------------------------------------------------------------------


def classical_noise(epsilon: float, delta: float, *, sensitivity: float = 1.0) -> float:
    """Returns Delta sqrt(2 ln(1.25/delta))/epsilon, which suffices for epsilon <= 1; larger epsilon are refused.

    Raises:
        InvalidArgumentError: ``epsilon`` is above 1, where the formula is not proved and fails, or another argument is
            outside its domain.
    """
    eps, failure = _target(epsilon, delta)
    if eps > 1.0:
        raise InvalidArgumentError(
            "epsilon",
            epsilon,
            "is above 1, where the textbook's formula may give too little noise",
            "use Gaussian.calibrated",
        )
    return real("sensitivity", sensitivity, low=0.0, low_open=True) * math.sqrt(2.0 * math.log(1.25 / failure)) / eps


def printed_noise(epsilon: float, delta: float, *, sensitivity: float = 1.0, reading: Reading = "outside") -> float:
    """Returns the standard deviation of Corollary 3.1: the square root of 2 ln(1.25/delta) Delta/epsilon.

    Args:
        epsilon, delta: The claim, delta < 1.
        sensitivity: Delta > 0.
        reading: With "outside" Delta is a factor of the logarithm, as in the definition; "inside" is
            2 ln(1.25 Delta/delta)/epsilon, as in some places of the paper.

    Raises:
        InvalidArgumentError: an argument is outside its domain, or the variance is not positive.
    """
    eps, failure = _target(epsilon, delta)
    distance = real("sensitivity", sensitivity, low=0.0, low_open=True)
    one_of("reading", reading, "outside", "inside")
    factor, within = (distance, 1.0) if reading == "outside" else (1.0, distance)
    variance = 2.0 * math.log(1.25 * within / failure) * factor / eps
    if variance <= 0.0:
        raise InvalidArgumentError("delta", delta, "leaves a variance that is not positive")
    return math.sqrt(variance)


def corollary_3_1(
    epsilon: float, delta: float, *, sensitivity: float = 1.0, reading: Reading = "outside"
) -> PrintedClaim:
    """Returns the claim that :func:`printed_noise` is (ε, δ)-DP: false for small epsilon (E1).

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    sigma = printed_noise(epsilon, delta, sensitivity=sensitivity, reading=reading)
    found = _exact(sensitivity / sigma, delta)
    printed = PrintedGuarantee(epsilon, delta, (), _SOURCE + "Corollary 3.1", (("sigma", sigma),))
    return PrintedClaim(printed, (Delivered(ThreatModel.OUTPUT, found, "noise of that variance, on one number"),))


# --- trusted, and a trusted aggregator -------------------------------------------------------------------------------


def trusted_claim(
    epsilon: float,
    delta: float,
    *,
    records: int,
    least_probability: float,
    multiplier: float,
    least: int = 1,
    sensitivity: float = PRINTED_SENSITIVITY,
) -> PrintedClaim:
    """Returns the claim that noise calibrated to one *constant* covers the average of drawn queries (E6).

    It does if all counts of every cohort are at least 1 and λ <= constant*N*m, which the paper does not state.
    Otherwise the delivered ε is exact up to the rise of a full cell's logarithm, 1/N.

    Args:
        epsilon, delta: The claim.
        records: N of the smallest cohort.
        least_probability: m = min Pi.
        multiplier: λ ≥ 0.
        least: h_min >= 1, a lower bound on every count of every cohort, by assumption.
        sensitivity: The constant.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    mu, constant = _distance(*_target(epsilon, delta)), real("sensitivity", sensitivity, low=0.0, low_open=True)
    mass = integer("records", records, low=1) * real(
        "least_probability", least_probability, low=0.0, high=0.5, low_open=True
    )
    lam = real("multiplier", multiplier, low=0.0)
    logs = AssumedCounts(least).largest_rise()
    found = _exact(mu * max(logs, lam / mass) / constant, delta)
    conditions = (
        Condition("ln(1 + 1/h_min) <= constant", logs, constant, logs <= constant),
        Condition("lambda <= constant*N*m", lam, constant * mass, lam <= constant * mass),
    )
    printed = PrintedGuarantee(epsilon, delta, conditions, _SOURCE + "Algorithm 1", (("sensitivity", constant),))
    return PrintedClaim(printed, (Delivered(ThreatModel.OUTPUT, found, "all draws may hit one symbol"),))


def theorem_4_6(
    epsilon: float, delta: float, *, logs: float, ratios: float, noise: Noise = "one draw", sign: Sign = "printed"
) -> PrintedClaim:
    """Returns the claim that two sums, each with 1/sqrt(2) of the noise, are (ε, δ)-DP: false (E3 to E6).

    The paper has one symbol for the noise of both sums, and a proof with the variance of one draw. With two independent
    draws the difference is as private as claimed, but the server sees both sums.

    Args:
        epsilon, delta: The claim; the trusted server's noise is calibrated exactly, to the larger sensitivity.
        logs, ratios: The sensitivities of V and of λ·U, not both 0.
        noise: "one draw" in both sums, as printed, or "independent".
        sign: The sign of V in the output: (A + B)/T as "printed", or (B - A)/T as "corrected".

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    mu = _distance(*_target(epsilon, delta))
    a, b = real("logs", logs, low=0.0), real("ratios", ratios, low=0.0)
    most = max(a, b)
    if most == 0.0:
        raise InvalidArgumentError("logs", logs, "is 0, as is ratios: nothing is released")
    if noise not in ("one draw", "independent") or sign not in ("printed", "corrected"):
        raise InvalidArgumentError("noise", (noise, sign), "is unknown", 'use "one draw" or "independent"')
    # A record moves V and λ·U in the same direction, so their sum moves by a + b, their difference by the larger.
    moves = a + b if sign == "printed" else most
    if noise == "independent":
        output = Delivered(ThreatModel.OUTPUT, _exact(mu * moves / most, delta), "noise of twice half the variance")
        pair = _exact(mu * math.sqrt(2.0) * math.hypot(a, b) / most, delta)
        server = Delivered(ThreatModel.SERVER, pair, "it sees both sums, each with half the variance")
    else:
        server = Delivered(ThreatModel.SERVER, math.inf, "the sums' difference has no noise")
        if sign == "corrected":
            output = Delivered(ThreatModel.OUTPUT, math.inf, "the noise cancels")
        else:
            found = _exact(mu * moves / (math.sqrt(2.0) * most), delta)
            output = Delivered(ThreatModel.OUTPUT, found, "twice the noise of one sum")
    constants = (("logs", a), ("ratios", b))
    return PrintedClaim(PrintedGuarantee(epsilon, delta, (), _SOURCE + "Theorem 4.6", constants), (output, server))


# --- sensitivities ---------------------------------------------------------------------------------------------------


def theorem_4_9(*, least: int = 2) -> Condition:
    """Returns the condition that KL has a sensitivity below 0.7 if all counts are at least 2: true, loose (E7).

    Its supremum over references is ln(1 + 1/least): ln(3/2) for 2, and ln 2, still below 0.7, for 1.

    Raises:
        InvalidArgumentError: ``least`` is not an integer >= 1.
    """
    supremum = math.log1p(1.0 / AssumedCounts(least).least)
    return Condition("sensitivity of KL < 0.7", supremum, PRINTED_SENSITIVITY, supremum < PRINTED_SENSITIVITY)


@frozen(kw_only=True)
class QueryChange:
    """The change of a query between neighbours if the multiplier depends on the data, and bounds on it.

    Attributes:
        change: The largest change over all symbols.
        printed: The bound of Theorem 4.10.
        proof: The bound at the end of its proof.
        corrected: A true bound for counts of at least 2.
    """

    change: float
    printed: float
    proof: float
    corrected: float

    @property
    def printed_holds(self) -> bool:
        """Whether the printed bound holds here."""
        return self.change <= self.printed


def theorem_4_10(
    pi: npt.ArrayLike, counts: npt.ArrayLike, neighbour: npt.ArrayLike, *, first: float, second: float
) -> QueryChange:
    """Returns the bound for a multiplier that depends on the data, tried on two neighbours: it is false (E8).

    Args:
        pi: The reference, shape (k,).
        counts, neighbour: Histograms of the same size, shape (k,), all counts at least 1.
        first, second: The multipliers for the two histograms.

    Raises:
        InvalidArgumentError: an argument is outside its domain, or the histograms are not neighbours.
    """
    law = kl_sensitivity.reference(pi)
    here, there = (array("counts", given, shape=law.shape, low=1.0) for given in (counts, neighbour))
    if sorted((there - here)[there != here].tolist()) != [-1.0, 1.0]:
        raise InvalidArgumentError("neighbour", "...", "does not differ from counts in one record")
    records = int(here.sum())
    multipliers = [real("multiplier", lam, low=0.0) for lam in (first, second)]
    ratios = [given / records / law for given in (here, there)]
    queries = [lam * (r - 1.0) - np.log(r) for lam, r in zip(multipliers, ratios, strict=True)]
    alpha, beta = float(np.max(ratios)), float(1.0 / np.min(ratios))
    alpha, beta = max(alpha, 1.0), max(beta, 1.0)
    l1, l2 = multipliers
    m = float(law.min())
    return QueryChange(
        change=float(np.abs(queries[0] - queries[1]).max()),
        printed=kl_sensitivity.printed_query_sensitivity(alpha, l1, l2, records=records, least_probability=m),
        proof=kl_sensitivity.printed_query_sensitivity(alpha, l1, l2, records=records, least_probability=m, proof=True),
        corrected=kl_sensitivity.query_sensitivity(alpha, beta, l1, l2, records=records, least_probability=m),
    )


# --- fully distributed -----------------------------------------------------------------------------------------------


def theorem_4_11(
    epsilon: float,
    delta: float,
    *,
    records: int,
    printed_records: int | None = None,
    multiplicities: npt.ArrayLike = (1, 1),
    one_cell: bool = False,
) -> PrintedClaim:
    """Returns the claim that noisy frequencies for the sensitivity sqrt(2)/N are (ε, δ)-DP.

    It is true if N is the number of records of one fixed cohort and symbols are asked for once. It is false if N is the
    number of samples and larger than that (E9), if repetitions of a symbol have their own noise (E10), and if a record
    is in the cohorts of several rounds (E11; its rounds are then the multiplicities).

    Args:
        epsilon, delta: The claim; noise is calibrated exactly.
        records: N of the cohort, the denominator of frequencies.
        printed_records: The N for which the noise is calibrated; by default that of the cohort.
        multiplicities: The number of times that each symbol's frequency is published.
        one_cell: Whether the noise is for a sensitivity of 1/N, as if a record moved only one cell.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    mu, n = _distance(*_target(epsilon, delta)), integer("records", records, low=1)
    used = n if printed_records is None else integer("printed_records", printed_records, low=1)
    noise_for = 1.0 if one_cell else math.sqrt(2.0)
    moved = kl_sensitivity.counts(multiplicities)
    conditions = (
        Condition("N <= records of the cohort", used, n, used <= n),
        Condition("records' rounds, squared in L2 <= 2", moved**2, 2.0, moved**2 <= 2.0 * (1.0 + _ROUNDING)),
    )
    found = _exact(mu * (moved / n) / (noise_for / used), delta)
    printed = PrintedGuarantee(epsilon, delta, conditions, _SOURCE + "Theorem 4.11", (("N", float(used)),))
    return PrintedClaim(printed, (Delivered(ThreatModel.SERVER, found, "it sees every noisy frequency"),))


# --- guard rail ------------------------------------------------------------------------------------------------------


def delta_warnings(delta: float, *, records: int) -> tuple[PresetWarning, ...]:
    """Returns a warning if delta exceeds 1/N: to publish one random record would be as private (E19).

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    failure, n = probability("delta", delta), integer("records", records, low=1)
    if failure <= 1.0 / n:
        return ()
    text = f"delta <= 1/N fails: {failure:.6g} against {1.0 / n:.6g}; one record published at random has that delta"
    return (PresetWarning("condition", text),)
