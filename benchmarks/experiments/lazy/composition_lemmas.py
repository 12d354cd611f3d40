"""The composition lemmas behind the printed analysis of the lazy transform: as printed, and corrected.

Baselines for exact accounting (``accounting.losses.optimal_composition`` and the graph), which is the certificate. The
numbers of lemmas are those of Asi, Koren, Liu & Talwar 2024. Arguments are epsilons >= 0, probabilities delta, and a
slack in (0, 1); they are not checked, and results are not rounded up.

| Lemma | statement                                   | as printed                                              |
|-------|---------------------------------------------|---------------------------------------------------------|
| 2.4   | tails of the likelihood ratio               | true; 4 instead of 6 is enough                          |
| 2.5   | group privacy                               | true; a geometric sum instead of k e^((k-1) eps)        |
| 2.6   | advanced composition                        | first term misprinted: never below basic composition    |
| 2.8   | zCDP to (eps, delta)                        | true; rho + 2 sqrt(rho ln(1/delta)) is smaller          |
| 3.8   | composition outside of a bad set            | its hypothesis is too weak; half under the right one    |
"""

import math
from collections.abc import Iterable, Sequence

Part = tuple[float, float]


def advanced_composition(parts: Sequence[Part], slack: float) -> Part:
    """Returns (eps, delta) by advanced composition of different guarantees (Kairouz, Oh & Viswanath 2015, Theorem 3.5).

    Adaptive composition of (eps_t, delta_t)-DP mechanisms is (eps, 1 - (1 - slack) prod (1 - delta_t))-DP for the least
    of sum eps_t and of sum eps_t tanh(eps_t / 2) + sqrt(2 V L), with V = sum eps_t^2 and L the lesser of ln(1/slack)
    and ln(e + sqrt(V) / slack).
    """
    mean = math.fsum(e * math.tanh(e / 2.0) for e, _ in parts)
    total = min(math.fsum(e for e, _ in parts), mean + _spread(parts, slack))
    return total, slack + (1.0 - slack) * (1.0 - math.prod(1.0 - delta for _, delta in parts))


def printed_advanced_composition(parts: Sequence[Part], slack: float) -> float:
    """Returns the epsilon of Lemma 2.6 as printed, with sum eps_t as its first term."""
    return math.fsum(e for e, _ in parts) + _spread(parts, slack)


def _spread(parts: Sequence[Part], slack: float) -> float:
    variance = math.fsum(e * e for e, _ in parts)
    return math.sqrt(2.0 * variance * min(math.log(math.e + math.sqrt(variance) / slack), -math.log(slack)))


def ratio_tail(epsilon: float, delta: float) -> float:
    """Returns a bound on the probability, under either of two laws, that their ratio is outside [e^-eps, e^eps].

    For laws P, Q that are (eps/2, delta)-indistinguishable in both directions: where the ratio exceeds e^eps, P has
    at most delta / (1 - e^(-eps/2)), as P(A) - delta <= e^(eps/2) Q(A) <= e^(-eps/2) P(A); where it is below e^-eps, P
    has at most e^-eps times the same bound for Q. The sum is sharp, and for eps <= 1/10 at most 4 delta
    / eps. Lemma 2.4 states 6 delta / eps there.
    """
    return min(1.0, delta * (1.0 + math.exp(-epsilon)) / -math.expm1(-epsilon / 2.0))


def group_delta(epsilon: float, delta: float, group: int) -> float:
    """Returns the sharp delta at k eps of (eps, delta)-DP for k records; Lemma 2.5 states k e^((k-1) eps) delta."""
    return min(1.0, delta * (math.expm1(group * epsilon) / math.expm1(epsilon) if epsilon else group))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Returns rho + 2 sqrt(rho ln(1/delta)), the epsilon of rho-zCDP at delta (Bun & Steinke 2016, Proposition 1.3)."""
    return rho + 2.0 * math.sqrt(rho * -math.log(delta))


def printed_zcdp_epsilon(rho: float, delta: float) -> float:
    """Returns Lemma 2.8 as printed, for rho <= 1 and delta < 1/4; it is false where rho > ln(1/delta)."""
    return 3.0 * math.sqrt(rho * -math.log(delta))


def conditioned_composition(delta: float, failures: Iterable[float]) -> float:
    """Returns the delta of a composition whose steps are private only after outcomes in good sets G_t.

    Let each step, after outcomes in G_t, be as private as its share of a composition that is (eps, delta)-DP. If under
    *both* data sets the outcomes leave G_t with probability at most ``failures[t]``, the whole is
    (eps, delta + sum of failures)-DP: stop with a mark at the first outcome that leaves. That run is (eps, delta)-DP;
    for a set S without the mark, the true run is in S at most as often as the stopped one plus the failures, and the
    stopped one in S at most as often as the true one.

    Lemma 3.8 counts the failures twice, and assumes only that each data set's own good set is likely under itself,
    which is not enough: see :func:`common_failure`.
    """
    return min(1.0, math.fsum((delta, *failures)))


def common_failure(failure: float, *, epsilon: float, delta: float) -> float:
    """Returns a bound on the probability to leave the good set of either data set.

    Each good set is left with probability ``failure`` under its own data set. The outcomes so far must be (epsilon,
    delta)-indistinguishable: then the other's good set is left with probability at most e^epsilon * failure + delta.
    """
    return min(1.0, failure + math.exp(epsilon) * failure + delta)
