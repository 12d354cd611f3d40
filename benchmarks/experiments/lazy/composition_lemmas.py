"""The composition lemmas that the printed analysis of the lazy transform rests on: as printed, and as they hold.

Named baselines to set beside exact accounting, which is what certifies (``accounting.optimal_composition`` and the
graph). Each printed statement comes with its conditions; each corrected one with its source or its proof. Lemma numbers
are those of Asi, Koren, Liu & Talwar 2024.

| Lemma | statement                                   | as printed                                              |
|-------|---------------------------------------------|---------------------------------------------------------|
| 2.4   | tails of the likelihood ratio               | true; 4 in place of 6 will do                           |
| 2.5   | group privacy                               | true; a geometric sum in place of k e^((k-1) eps)       |
| 2.6   | advanced composition                        | first term misprinted: never below basic composition    |
| 2.8   | zCDP to (eps, delta)                        | true; rho + 2 sqrt(rho ln(1/delta)) is smaller          |
| 3.8   | composition outside of a bad set            | its hypothesis is too weak; under the right one, half   |
"""

import math
from collections.abc import Iterable

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, items, probability, real
from hockeystick.learners.common.printed_claims import Condition, PrintedGuarantee

Part = tuple[float, float]

_UP = 1.0 + 2.0**-46  # more than the rounding of the sums, products and roots below


def _epsilon(name: str, value: object) -> float:
    return real(name, value, low=0.0)


def _parts(parts: Iterable[Part]) -> list[Part]:
    found = []
    for i, part in enumerate(items("parts", parts)):
        pair = items(f"parts[{i}]", part)
        if len(pair) != 2:
            raise InvalidArgumentError(f"parts[{i}]", part, "is no pair", "give (epsilon, delta)")
        found.append((_epsilon(f"parts[{i}].epsilon", pair[0]), probability(f"parts[{i}].delta", pair[1])))
    return found


def _union(slack: float, deltas: Iterable[float]) -> float:
    """1 - (1 - slack) * prod (1 - delta)."""
    logs = [-math.inf if delta == 1.0 else math.log1p(-delta) for delta in (slack, *deltas)]
    return min(1.0, -math.expm1(math.fsum(logs)) * _UP)


def _spread(epsilons: list[float], slack: float) -> float:
    """The second term of advanced composition: min of sqrt(2 V ln(e + sqrt(V)/slack)) and sqrt(2 V ln(1/slack))."""
    variance = math.fsum(e * e for e in epsilons)
    log = min(math.log(math.e + math.sqrt(variance) / slack), -math.log(slack))
    return math.sqrt(2.0 * variance * log)


def advanced_composition(parts: Iterable[Part], slack: float) -> tuple[float, float]:
    """Advanced composition of different guarantees (Kairouz, Oh & Viswanath 2015, Theorem 3.5).

    Adaptive composition of (eps_t, delta_t)-DP mechanisms is (eps, 1 - (1 - slack) prod (1 - delta_t))-DP for the least
    of sum eps_t and of sum eps_t tanh(eps_t / 2) + sqrt(2 V L), with V = sum eps_t^2 and L the lesser of ln(1/slack)
    and ln(e + sqrt(V) / slack). ``accounting.optimal_composition`` is exact, and never larger.

    Args:
        parts: (eps_t, delta_t) each.
        slack: In (0, 1).

    Returns:
        (eps, delta), rounded up.

    Raises:
        InvalidArgumentError: a part or the slack is out of range.
    """
    known, slack = _parts(parts), probability("slack", slack, open=True)
    epsilons = [e for e, _ in known]
    mean = math.fsum(e * math.tanh(e / 2.0) for e in epsilons)
    total = min(math.fsum(epsilons), mean + _spread(epsilons, slack))
    return total * _UP, _union(slack, (d for _, d in known))


def printed_advanced_composition(parts: Iterable[Part], slack: float) -> PrintedGuarantee:
    """Lemma 2.6 as printed: with sum eps_t as the first term, so that it is never below basic composition."""
    known, slack = _parts(parts), probability("slack", slack, open=True)
    epsilons = [e for e, _ in known]
    return PrintedGuarantee(
        math.fsum(epsilons) + _spread(epsilons, slack),
        _union(slack, (d for _, d in known)),
        (),
        "Asi, Koren, Liu & Talwar 2024, Lemma 2.6",
    )


def ratio_tail(epsilon: float, delta: float) -> float:
    """Bounds the probability, under either of two laws, that their ratio leaves [e^-eps, e^eps].

    For laws P, Q that are (eps/2, delta)-indistinguishable in both directions: where the ratio exceeds e^eps, P has
    at most delta / (1 - e^(-eps/2)), as P(A) - delta <= e^(eps/2) Q(A) <= e^(-eps/2) P(A); where it is below e^-eps, P
    has at most e^-eps times the same bound for Q. The sum is sharp, and at most 4 delta / eps.

    Args:
        epsilon: > 0; P and Q are close at *half* of it.
        delta: In [0, 1].
    """
    epsilon = real("epsilon", epsilon, low=0.0, low_open=True)
    delta = probability("delta", delta)
    return min(1.0, delta * (1.0 + math.exp(-epsilon)) / -math.expm1(-epsilon / 2.0) * _UP)


def printed_ratio_tail(epsilon: float, delta: float) -> tuple[float, Condition]:
    """Lemma 2.4 as printed: 6 delta / eps, for eps <= 1/10."""
    epsilon = real("epsilon", epsilon, low=0.0, low_open=True)
    return 6.0 * probability("delta", delta) / epsilon, Condition("epsilon <= 1/10", epsilon, 0.1, epsilon <= 0.1)


def group_privacy(epsilon: float, delta: float, *, group: int) -> tuple[float, float]:
    """(k eps, delta (e^(k eps) - 1) / (e^eps - 1)): what (eps, delta)-DP says of k records; sharp for that alone.

    Args:
        epsilon: >= 0.
        delta: In [0, 1].
        group: k >= 1.
    """
    epsilon, delta = _epsilon("epsilon", epsilon), probability("delta", delta)
    k = integer("group", group, low=1)
    if delta == 0.0 or k * epsilon > 700.0:
        return k * epsilon * _UP, 0.0 if delta == 0.0 else 1.0
    factor = math.expm1(k * epsilon) / math.expm1(epsilon) if epsilon else float(k)
    # e^(k eps) moves by k eps times the relative rounding of its exponent.
    return k * epsilon * _UP, min(1.0, delta * factor * (1.0 + 2.0**-42))


def printed_group_privacy(epsilon: float, delta: float, *, group: int) -> PrintedGuarantee:
    """Lemma 2.5 as printed: (k eps, k e^((k-1) eps) delta)."""
    epsilon, delta = _epsilon("epsilon", epsilon), probability("delta", delta)
    k = integer("group", group, low=1)
    exponent = min((k - 1) * epsilon, 700.0)
    return PrintedGuarantee(k * epsilon, k * math.exp(exponent) * delta, (), "Asi, Koren, Liu & Talwar 2024, Lemma 2.5")


def zcdp_epsilon(rho: float, delta: float) -> float:
    """rho + 2 sqrt(rho ln(1/delta)): the epsilon at ``delta`` of rho-zCDP (Bun & Steinke 2016, Proposition 1.3).

    ``accounting.epsilon(ZCDP(rho), delta)`` is smaller.
    """
    rho, delta = real("rho", rho, low=0.0), probability("delta", delta, open=True)
    return (rho + 2.0 * math.sqrt(rho * -math.log(delta))) * _UP


def printed_zcdp_epsilon(rho: float, delta: float) -> PrintedGuarantee:
    """Lemma 2.8 as printed: 3 sqrt(rho ln(1/delta)), for rho <= 1 and delta < 1/4; false where rho > ln(1/delta)."""
    rho, delta = real("rho", rho, low=0.0), probability("delta", delta, open=True)
    return PrintedGuarantee(
        3.0 * math.sqrt(rho * -math.log(delta)),
        delta,
        (Condition("rho <= 1", rho, 1.0, rho <= 1.0), Condition("delta < 1/4", delta, 0.25, delta < 0.25)),
        "Asi, Koren, Liu & Talwar 2024, Lemma 2.8",
    )


def conditioned_composition(delta: float, failures: Iterable[float]) -> float:
    """The delta of a composition whose steps are private only after outcomes in good sets G_t.

    Let each step, after outcomes in G_t, be as private as its share of a composition that is (eps, delta)-DP. If under
    *both* data sets the outcomes leave G_t with probability at most ``failures[t]``, the whole is
    (eps, delta + sum of failures)-DP: stop with a mark at the first outcome that leaves. That run is (eps, delta)-DP;
    for a set S without the mark, the true run is in S at most as often as the stopped one plus the failures, and the
    stopped one in S at most as often as the true one.

    The failures count once, not twice as printed (Lemma 3.8). But they must bound the common good set under both data
    sets. That each data set's own good set is likely under itself, as printed, is not enough:
    :func:`common_failure`.
    """
    known = [probability(f"failures[{i}]", value) for i, value in enumerate(items("failures", failures))]
    return min(1.0, math.fsum((probability("delta", delta), *known)) * _UP)


def printed_conditioned_composition(delta: float, failures: Iterable[float]) -> float:
    """Lemma 3.8 as printed: delta + 2 * (sum of failures), each data set's own good set being likely under itself."""
    known = [probability(f"failures[{i}]", value) for i, value in enumerate(items("failures", failures))]
    return probability("delta", delta) + 2.0 * math.fsum(known)


def common_failure(failure: float, *, epsilon: float, delta: float) -> float:
    """Bounds the chance to leave either data set's good set, where each is left with chance ``failure`` under its own.

    The outcomes so far must be (epsilon, delta)-indistinguishable: then the other data set's good set is left with
    chance at most e^epsilon * failure + delta.
    """
    failure = probability("failure", failure)
    other = math.exp(min(_epsilon("epsilon", epsilon), 700.0)) * failure + probability("delta", delta)
    return min(1.0, (failure + other) * _UP)
