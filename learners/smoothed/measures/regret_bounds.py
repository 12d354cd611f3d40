"""Regret bounds of online learning against smooth adversaries, with every constant, and their lower bounds.

An adversary is σ-smooth if each of its laws has a density of at most 1/σ against a public base measure. The regret of
Hedge on a finite set of representatives then has two parts: the regret against the best representative, and the rounds
in which the best predicate of the whole class differs from its representative. The second part is the largest number
of hits of a family of small sets; :func:`hits_bound` bounds it even if laws are chosen adaptively.

All logarithms are natural. N is the number of brackets, K of representatives, T of rounds, d the VC dimension. Bounds
above T are vacuous; they are returned as they are.

Sources: Haghtalab, Roughgarden & Shetty 2020, sections 3 and C (as corrected here: the printed Lemma 3.2 fails for one
set, and the orders of magnitude are given constants); Haghtalab 2018; Haghtalab, Roughgarden & Shetty 2021 (coupling).
"""

import math

from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.common import arguments


def _scale(name: str, value: object) -> float:
    return real(name, value, low=0.0, high=1.0, low_open=True)


def _logarithm(name: str, value: object) -> float:
    return real(name, value, low=0.0)


# --- hits of small sets ----------------------------------------------------------------------------------------------


def hits_bound(log_sets: float, mean: float) -> float:
    """Returns a bound on E max_f (hits of f) over F sets, each hit at most ``mean`` times on average: Lemma 3.2, sharp.

    The infimum over s > 0 of (ln F + mean (e^s - 1)) / s, which is mean * exp(1 + W0((ln F / mean - 1) / e)). It holds
    for sets of base mass at most p against every adaptive σ-smooth adversary, with mean = T p / σ, also for F = 1.

    Args:
        log_sets: ln F >= 0.
        mean: T p / σ >= 0.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    log_sets, mean = _logarithm("log_sets", log_sets), real("mean", mean, low=0.0)
    if mean == 0.0 or log_sets == 0.0:
        return mean
    ratio = log_sets / mean
    # W0 has a root singularity at ratio 0. Every s gives a valid bound, so rounding errors in s are harmless.
    s = 1.0 + float(special.lambertw((ratio - 1.0) / math.e).real) if ratio > 1e-8 else math.sqrt(2.0 * ratio)
    s = min(max(s, 1e-100), 700.0)
    return (log_sets + mean * math.expm1(s)) / s


def printed_hits_bound(log_sets: float, mean: float) -> float:
    """Returns the printed form of Lemma 3.2 with its constants: mean * (2 + sqrt(ln F)), for mean >= sqrt(ln F) > 0.

    Raises:
        InvalidArgumentError: the lemma's conditions fail. For a single set its bound would be false.
    """
    log_sets, mean = _logarithm("log_sets", log_sets), real("mean", mean, low=0.0)
    if not 0.0 < math.sqrt(log_sets) <= mean:
        raise InvalidArgumentError("mean", mean, "is below sqrt(ln F), or F = 1", "use hits_bound")
    return mean * (2.0 + math.sqrt(log_sets))


# --- upper bounds ----------------------------------------------------------------------------------------------------


def hedge_bound(*, rounds: int, log_size: float, learning_rate: float | None = None) -> float:
    """Returns ln K / η + η T / 8, a bound on Hedge's regret against the best of K experts; default: at the best η.

    It holds for every adaptive adversary that does not see the learner's draw of the current round.
    """
    rounds, log_size = arguments.rounds(rounds), _logarithm("log_size", log_size)
    if learning_rate is None:
        return math.sqrt(rounds * log_size / 2.0)
    rate = arguments.learning_rate(learning_rate)
    return log_size / rate + rate * rounds / 8.0


def exponential_ftpl_bound(*, rounds: int, log_size: float, learning_rate: float | None = None) -> float:
    """Returns (1 + ln K) / η + η T, a regret bound for the leader perturbed by exponential noise of scale 1/η.

    At the best η, 2 sqrt(T (1 + ln K)). The noise is drawn anew in each round (Kalai & Vempala 2005).
    """
    rounds, log_size = arguments.rounds(rounds), _logarithm("log_size", log_size)
    if learning_rate is None:
        return 2.0 * math.sqrt(rounds * (1.0 + log_size))
    rate = arguments.learning_rate(learning_rate)
    return (1.0 + log_size) / rate + rate * rounds


def doubling_factor() -> float:
    """Returns sqrt(2) / (sqrt(2) - 1), by which epochs of 1, 2, 4, ... rounds multiply a bound of order sqrt(T)."""
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
    """Returns a regret bound for Hedge on any γ-cover against adaptive adversaries: O1.

    sqrt(T ln K / 2) + B(ln K + ln N, T (γ + β) / σ) with B = :func:`hits_bound`: for a bracket of mass β and a member
    of the cover there is a set of mass γ + β that contains all disagreements of the bracket's predicates with the
    member.

    Args:
        rounds: T.
        sigma: Smoothness of the adversary.
        gamma: The scale of the cover.
        log_cover: ln K of the cover in use.
        log_brackets: ln N of brackets of mass ``beta``.
        beta: In (0, 1]; default: γ.
        learning_rate: η; default: Hedge's best.
    """
    gamma, sigma = _scale("gamma", gamma), arguments.sigma(sigma)
    beta = gamma if beta is None else _scale("beta", beta)
    log_brackets = _logarithm("log_brackets", log_brackets)
    best = hedge_bound(rounds=rounds, log_size=log_cover, learning_rate=learning_rate)
    return best + hits_bound(log_cover + log_brackets, rounds * (gamma + beta) / sigma)


def brackets_regret_bound(
    *, rounds: int, sigma: float, epsilon: float, log_brackets: float, learning_rate: float | None = None
) -> float:
    """Returns a regret bound for Hedge on one member of each of N brackets of mass ε, against adaptive adversaries: O2.

    sqrt(T ln N / 2) + B(ln N, T ε / σ) with B = :func:`hits_bound`. At ε = σ / sqrt(T) it is at most
    (1 + 1/sqrt(2)) sqrt(T ln N) + 2 sqrt(T), for T >= ln N.
    """
    epsilon, sigma = _scale("epsilon", epsilon), arguments.sigma(sigma)
    best = hedge_bound(rounds=rounds, log_size=log_brackets, learning_rate=learning_rate)
    return best + hits_bound(log_brackets, rounds * epsilon / sigma)


def _log_growth(vc_dimension: int, points: float) -> float:
    """Returns 2 ln of Sauer's bound on the number of labellings of ``points`` points, for pairs of predicates."""
    d = integer("vc_dimension", vc_dimension, low=1)
    return 2.0 * d * (math.log(points / d) + 1.0) if points >= d else 2.0 * points * math.log(2.0)


def _log_cover(vc_dimension: int, gamma: float, log_cover: float | None) -> float:
    if log_cover is None:
        return integer("vc_dimension", vc_dimension, low=1) * math.log(41.0 / gamma)
    return _logarithm("log_cover", log_cover)


def nonadaptive_regret_bound(
    *, rounds: int, sigma: float, vc_dimension: int, gamma: float | None = None, log_cover: float | None = None
) -> float:
    """Returns a regret bound for Hedge on a γ-cover against laws that are fixed in advance: Theorem 3.1, explicit.

    sqrt(T ln K / 2) + 2 T γ / σ + 16 d ln(eT/d), by default with ln K = d ln(41/γ) and γ = σ / T. By symmetrisation and
    a self-bounding maximum of finitely many sums.
    """
    rounds, sigma = arguments.rounds(rounds), arguments.sigma(sigma)
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
    """Returns a regret bound for Hedge on a γ-cover against adaptive adversaries, by VC dimension (coupling, HRS 2021).

    With probability 1 - (1 - σ)^k a round's point is one of k independent base draws. So the regret is at most
    sqrt(T ln K / 2) + 2 k T γ + 8 ln Π(kT) + T^2 (1 - σ)^k, with Π(m) <= (em/d)^(2d) for symmetric differences.

    Args:
        rounds: T.
        sigma: Smoothness of the adversary.
        vc_dimension: d.
        gamma: The scale of the cover; default: σ / T.
        log_cover: ln K; default: d ln(41/γ).
        draws: k; default: ceil(2 ln(T) / σ).
    """
    rounds, sigma = arguments.rounds(rounds), arguments.sigma(sigma)
    gamma = sigma / rounds if gamma is None else _scale("gamma", gamma)
    if draws is None:
        draws = max(1, math.ceil(2.0 * math.log(rounds) / sigma))
    k = integer("draws", draws, low=1)
    best = hedge_bound(rounds=rounds, log_size=_log_cover(vc_dimension, gamma, log_cover))
    missed = rounds**2 * (1.0 - sigma) ** k
    return best + 2.0 * k * rounds * gamma + 8.0 * _log_growth(vc_dimension, k * rounds) + missed


# --- lower bounds ----------------------------------------------------------------------------------------------------


def block_depth(sigma: float) -> int:
    """Returns D = floor(log2(1/σ)), the number of times a σ-smooth adversary can halve the line."""
    mantissa, exponent = math.frexp(arguments.sigma(sigma))
    return 1 - exponent if mantissa == 0.5 else -exponent


def block_lengths(rounds: int, sigma: float) -> tuple[int, ...]:
    """Returns the lengths of the blocks of the block adversary, as even as possible: D, but at least 1, at most T."""
    rounds = arguments.rounds(rounds)
    blocks = min(rounds, max(1, block_depth(sigma)))
    return tuple(rounds * (j + 1) // blocks - rounds * j // blocks for j in range(blocks))


def thresholds_regret_floor(*, rounds: int, sigma: float) -> float:
    """Returns a lower bound on every learner's mean regret on thresholds against some σ-smooth adaptive adversary.

    The adversary plays D blocks of n fair labels each. Every learner errs on half of them, and a threshold outside all
    blocks' cells gains E|S_n|/2 per block, where S_n is a sum of n signs; the small extra gain of a threshold inside
    the last cell is ignored. By Khinchine's inequality, E|S_n| >= sqrt(n/2), this is at least
    :func:`printed_regret_floor`, sqrt(T D / 8), if D divides T.
    """
    return sum(_mean_walk(n) for n in block_lengths(rounds, sigma)) / 2.0


def printed_regret_floor(*, rounds: int, sigma: float) -> float:
    """Returns sqrt(T D / 8) for D = floor(log2(1/σ)).

    Raises:
        InvalidArgumentError: σ > 1/2, or D does not divide T.
    """
    rounds, depth = arguments.rounds(rounds), block_depth(sigma)
    if depth < 1 or rounds % depth:
        raise InvalidArgumentError("rounds", rounds, f"is not a multiple of D = {depth}, at least 1", "round it down")
    return math.sqrt(rounds * depth / 8.0)


def _mean_walk(n: int) -> float:
    """Returns E|S_n| = n C(n-1, floor((n-1)/2)) / 2^(n-1)."""
    half = (n - 1) // 2
    log_choose = math.lgamma(n) - math.lgamma(half + 1) - math.lgamma(n - half)
    return math.exp(math.log(n) + log_choose - (n - 1) * math.log(2.0))
