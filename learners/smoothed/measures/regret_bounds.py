"""Regret bounds of online learning against smooth adversaries, with every constant, and their lower bounds.

An adversary is sigma-smooth if each of its laws has a density of at most 1/sigma against a public base measure. Hedge
on a finite set of representatives then pays twice: for the best representative, and for the rounds in which the best
predicate of the whole class differs from its representative. The second is a largest number of hits of small sets,
and :func:`hits_bound` bounds it even if laws are chosen adaptively.

All logarithms are natural. N is a number of brackets, K of representatives, T of rounds, d a VC dimension. A bound
above T is true and says nothing; none is cut off.

Sources: Haghtalab, Roughgarden & Shetty 2020, sections 3 and C (as corrected here: the printed Lemma 3.2 fails for one
set, and the orders of magnitude are given constants); Haghtalab 2018; Haghtalab, Roughgarden & Shetty 2021 (coupling).
"""

import math

from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.common import arguments


def sigma_of(value: object) -> float:
    """Returns a smoothness sigma in (0, 1]."""
    return real("sigma", value, low=0.0, high=1.0, low_open=True)


def _scale(name: str, value: object) -> float:
    return real(name, value, low=0.0, high=1.0, low_open=True)


def _logarithm(name: str, value: object) -> float:
    return real(name, value, low=0.0)


# --- hits of small sets ----------------------------------------------------------------------------------------------


def hits_bound(log_sets: float, mean: float) -> float:
    """A bound on E max_f (hits of f) over F sets, each hit at most ``mean`` times on average: Lemma 3.2, sharp.

    The infimum over s > 0 of (ln F + mean (e^s - 1)) / s, which is mean * exp(1 + W0((ln F / mean - 1) / e)). It holds
    for sets of base mass at most p against every adaptive sigma-smooth adversary, with mean = T p / sigma; F = 1 is no
    exception.

    Args:
        log_sets: ln F >= 0.
        mean: T p / sigma >= 0.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    log_sets, mean = _logarithm("log_sets", log_sets), real("mean", mean, low=0.0)
    if mean == 0.0 or log_sets == 0.0:
        return mean
    ratio = log_sets / mean
    # W0 has a root singularity at ratio 0. Any s gives a bound, so that rounding of the best one does no harm.
    s = 1.0 + float(special.lambertw((ratio - 1.0) / math.e).real) if ratio > 1e-8 else math.sqrt(2.0 * ratio)
    s = min(max(s, 1e-100), 700.0)
    return (log_sets + mean * math.expm1(s)) / s


def printed_hits_bound(log_sets: float, mean: float) -> float:
    """The printed form of Lemma 3.2 with its constants: mean * (2 + sqrt(ln F)), for mean >= sqrt(ln F) > 0.

    Raises:
        InvalidArgumentError: the lemma's conditions fail; for a single set it would promise nothing less than 0 hits.
    """
    log_sets, mean = _logarithm("log_sets", log_sets), real("mean", mean, low=0.0)
    if not 0.0 < math.sqrt(log_sets) <= mean:
        raise InvalidArgumentError("mean", mean, "is below sqrt(ln F), or there is one set", "use hits_bound")
    return mean * (2.0 + math.sqrt(log_sets))


# --- upper bounds ----------------------------------------------------------------------------------------------------


def hedge_bound(*, rounds: int, log_size: float, learning_rate: float | None = None) -> float:
    """ln K / eta + eta T / 8: regret of Hedge against the best of K experts, at its best sqrt(T ln K / 2).

    It holds for every adaptive adversary that does not see the draw of the round it moves in.
    """
    rounds, log_size = arguments.rounds(rounds), _logarithm("log_size", log_size)
    if learning_rate is None:
        return math.sqrt(rounds * log_size / 2.0)
    rate = arguments.learning_rate(learning_rate)
    return log_size / rate + rate * rounds / 8.0


def exponential_ftpl_bound(*, rounds: int, log_size: float, learning_rate: float | None = None) -> float:
    """(1 + ln K) / eta + eta T: regret of following the leader perturbed by exponential noise of scale 1/eta.

    At its best 2 sqrt(T (1 + ln K)). The noise is drawn anew in each round (Kalai & Vempala 2005).
    """
    rounds, log_size = arguments.rounds(rounds), _logarithm("log_size", log_size)
    if learning_rate is None:
        return 2.0 * math.sqrt(rounds * (1.0 + log_size))
    rate = arguments.learning_rate(learning_rate)
    return (1.0 + log_size) / rate + rate * rounds


def doubling_factor() -> float:
    """sqrt(2) / (sqrt(2) - 1): what epochs of 1, 2, 4, ... rounds cost over knowing T, on bounds in sqrt(T)."""
    return math.sqrt(2.0) / (math.sqrt(2.0) - 1.0)


def cover_regret_bound(
    *,
    rounds: int,
    sigma: float,
    gamma: float,
    log_cover: float,
    log_brackets: float,
    beta: float | None = None,
    learning_rate: float | None = None,
) -> float:
    """Regret of Hedge on any gamma-cover, adaptive adversaries: O1.

    sqrt(T ln K / 2) + B(ln K + ln N, T (gamma + beta) / sigma), B as :func:`hits_bound`: a bracket of mass beta and a
    member of the cover make a set of mass gamma + beta that holds all of the bracket's disagreements with the member.

    Args:
        rounds: T.
        sigma: Smoothness.
        gamma: Of the cover.
        log_cover: ln K of the cover that is run.
        log_brackets: ln N of brackets of mass ``beta``.
        beta: In (0, 1]; gamma by default.
        learning_rate: eta; by default Hedge's best one.
    """
    gamma, sigma = _scale("gamma", gamma), sigma_of(sigma)
    beta = gamma if beta is None else _scale("beta", beta)
    log_brackets = _logarithm("log_brackets", log_brackets)
    best = hedge_bound(rounds=rounds, log_size=log_cover, learning_rate=learning_rate)
    return best + hits_bound(log_cover + log_brackets, rounds * (gamma + beta) / sigma)


def simple_cover_regret_bound(*, rounds: int, log_brackets: float) -> float:
    """sqrt(2 T ln N) + sqrt(T): O1 at gamma = beta = sigma / (4 sqrt(T)), for ln K <= ln N and T >= 8 ln N.

    Raises:
        InvalidArgumentError: T < 8 ln N.
    """
    rounds, log_brackets = arguments.rounds(rounds), _logarithm("log_brackets", log_brackets)
    if rounds < 8.0 * log_brackets:
        raise InvalidArgumentError("rounds", rounds, f"is below 8 ln N = {8 * log_brackets:.4g}", "use the full bound")
    return math.sqrt(2.0 * rounds * log_brackets) + math.sqrt(rounds)


def brackets_regret_bound(
    *, rounds: int, sigma: float, epsilon: float, log_brackets: float, learning_rate: float | None = None
) -> float:
    """Regret of Hedge on one representative of each of N brackets of mass epsilon, adaptive adversaries: O2.

    sqrt(T ln N / 2) + B(ln N, T epsilon / sigma), B as :func:`hits_bound`. At epsilon = sigma / sqrt(T) it is at most
    (1 + 1/sqrt(2)) sqrt(T ln N) + 2 sqrt(T), for T >= ln N.
    """
    epsilon, sigma = _scale("epsilon", epsilon), sigma_of(sigma)
    best = hedge_bound(rounds=rounds, log_size=log_brackets, learning_rate=learning_rate)
    return best + hits_bound(log_brackets, rounds * epsilon / sigma)


def _log_growth(vc_dimension: int, points: float) -> float:
    """2 ln of Sauer's bound on the labellings of so many points: pairs of predicates, hence symmetric differences."""
    d = integer("vc_dimension", vc_dimension, low=1)
    return 2.0 * d * (math.log(points / d) + 1.0) if points >= d else 2.0 * points * math.log(2.0)


def _log_cover(vc_dimension: int, gamma: float, log_cover: float | None) -> float:
    if log_cover is None:
        return integer("vc_dimension", vc_dimension, low=1) * math.log(41.0 / gamma)
    return _logarithm("log_cover", log_cover)


def nonadaptive_regret_bound(
    *, rounds: int, sigma: float, vc_dimension: int, gamma: float | None = None, log_cover: float | None = None
) -> float:
    """Regret of Hedge on a gamma-cover against laws that are fixed beforehand: Theorem 3.1, explicit.

    sqrt(T ln K / 2) + 2 T gamma / sigma + 16 d ln(eT/d), with ln K = d ln(41/gamma) unless given and gamma = sigma / T:
    symmetrisation and the maximum of finitely many sums, bounded by itself.
    """
    rounds, sigma = arguments.rounds(rounds), sigma_of(sigma)
    gamma = sigma / rounds if gamma is None else _scale("gamma", gamma)
    size = _log_cover(vc_dimension, gamma, log_cover)
    best = hedge_bound(rounds=rounds, log_size=size)
    return best + 2.0 * rounds * gamma / sigma + 8.0 * _log_growth(vc_dimension, rounds)


def coupling_regret_bound(
    *,
    rounds: int,
    sigma: float,
    vc_dimension: int,
    gamma: float | None = None,
    log_cover: float | None = None,
    draws: int | None = None,
) -> float:
    """Regret of Hedge on a gamma-cover against adaptive adversaries, by VC dimension alone (coupling, HRS 2021).

    With probability 1 - (1 - sigma)^k a round's point is one of k independent base draws. So regret is at most
    sqrt(T ln K / 2) + 2 k T gamma + 8 ln Pi(kT) + T^2 (1 - sigma)^k, Pi(m) <= (em/d)^(2d) for symmetric differences.

    Args:
        rounds: T.
        sigma: Smoothness.
        vc_dimension: d.
        gamma: Of the cover; sigma / T by default.
        log_cover: ln K; d ln(41/gamma) by default.
        draws: k; ceil(2 ln(T) / sigma) by default.
    """
    rounds, sigma = arguments.rounds(rounds), sigma_of(sigma)
    gamma = sigma / rounds if gamma is None else _scale("gamma", gamma)
    if draws is None:
        draws = max(1, math.ceil(2.0 * math.log(rounds) / sigma))
    k = integer("draws", draws, low=1)
    best = hedge_bound(rounds=rounds, log_size=_log_cover(vc_dimension, gamma, log_cover))
    missed = rounds**2 * (1.0 - sigma) ** k
    return best + 2.0 * k * rounds * gamma + 8.0 * _log_growth(vc_dimension, k * rounds) + missed


# --- lower bounds ----------------------------------------------------------------------------------------------------


def block_depth(sigma: float) -> int:
    """D = floor(log2(1/sigma)): how often a smooth adversary can halve the line."""
    mantissa, exponent = math.frexp(sigma_of(sigma))
    return 1 - exponent if mantissa == 0.5 else -exponent


def block_lengths(rounds: int, sigma: float) -> tuple[int, ...]:
    """The D blocks of the block adversary, as even as T allows; one block where D = 0, and at most T of them."""
    rounds = arguments.rounds(rounds)
    blocks = min(rounds, max(1, block_depth(sigma)))
    return tuple(rounds * (j + 1) // blocks - rounds * j // blocks for j in range(blocks))


def thresholds_regret_floor(*, rounds: int, sigma: float) -> float:
    """What some sigma-smooth adaptive adversary makes every learner of thresholds regret, on average.

    D blocks of n fair labels each: every learner errs on half of them, and a threshold outside all blocks' cells wins
    E|S_n|/2 per block, S_n a sum of n signs; one inside the last cell wins a little more, which is left out. By
    Khinchine's inequality, E|S_n| >= sqrt(n/2), this is at least sqrt(T D / 8) where D divides T;
    :func:`printed_regret_floor`.
    """
    return sum(_mean_walk(n) for n in block_lengths(rounds, sigma)) / 2.0


def printed_regret_floor(*, rounds: int, sigma: float) -> float:
    """sqrt(T D / 8), D = floor(log2(1/sigma)), which must divide T.

    Raises:
        InvalidArgumentError: sigma > 1/2, or D does not divide T.
    """
    rounds, depth = arguments.rounds(rounds), block_depth(sigma)
    if depth < 1 or rounds % depth:
        raise InvalidArgumentError("rounds", rounds, f"is not a multiple of D = {depth} >= 1", "round it down")
    return math.sqrt(rounds * depth / 8.0)


def _mean_walk(n: int) -> float:
    """E|S_n| = n C(n-1, floor((n-1)/2)) / 2^(n-1)."""
    half = (n - 1) // 2
    log_choose = math.lgamma(n) - math.lgamma(half + 1) - math.lgamma(n - half)
    return math.exp(math.log(n) + log_choose - (n - 1) * math.log(2.0))
