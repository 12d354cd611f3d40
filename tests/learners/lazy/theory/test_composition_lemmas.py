"""Composition lemmas (F15): the corrected forms hold and are close, and the printed ones have the stated defects.

The composition lemmas behind the printed analysis of the lazy transform: as printed, and corrected.

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

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from divergences import larger_hockey_stick
from hypothesis import assume, given
from hypothesis import strategies as st

from hockeystick import accounting
from hockeystick.accounting import ZCDP, ApproximateDP
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.losses import optimal_composition

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


PARTS = st.lists(
    st.tuples(st.sampled_from([0.01, 0.1, 0.5, 2.0]), st.sampled_from([0.0, 1e-6, 1e-3])), min_size=1, max_size=30
)


# --- 2.6: advanced composition ---------------------------------------------------------------------------------------


@pytest.mark.statistical
@given(PARTS, st.floats(1e-9, 0.5))
def test_advanced_composition_is_above_the_exact_one(parts: list[tuple[float, float]], slack: float) -> None:
    epsilon, delta = advanced_composition(parts, slack)
    counted = [(e, d, 1) for e, d in parts]
    assert delta >= slack and epsilon * (1 + 1e-9) >= optimal_composition.epsilon(counted, delta, upper=False)
    basic, printed = optimal_composition.basic(counted)[0], printed_advanced_composition(parts, slack)
    assert epsilon <= basic * (1 + 1e-9)
    assert printed >= basic * (1 - 1e-12) and printed > epsilon * (1 - 1e-12)


def test_advanced_composition_is_worth_it() -> None:
    """1000 times 0.01 at 1e-6: far below basic, and not far above the exact value."""
    parts = [(0.01, 0.0)] * 1000
    epsilon, delta = advanced_composition(parts, 1e-6)
    exact = optimal_composition.epsilon([(0.01, 0.0, 1000)], delta)
    assert exact < epsilon < 1.5 * exact < 0.25 * printed_advanced_composition(parts, 1e-6)
    assert epsilon == pytest.approx(
        1000 * 0.01 * math.tanh(0.005) + math.sqrt(0.2 * math.log(math.e + math.sqrt(0.1) * 1e6))
    )


# --- 2.4: tails of the likelihood ratio ------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=8),
    st.lists(st.floats(0.01, 1.0), min_size=8, max_size=8),
    st.floats(0.001, 3.0),
)
def test_ratio_tail_on_random_pairs(losses: list[float], masses: list[float], epsilon: float) -> None:
    q = np.array(masses[: len(losses)])
    q /= q.sum()
    p = q * np.exp(2 * epsilon * np.array(losses))
    p /= p.sum()
    delta = larger_hockey_stick(p, q, epsilon / 2)
    outside = np.abs(np.log(p / q)) > epsilon
    for law in (p, q):
        assert law[outside].sum() <= ratio_tail(epsilon, delta) + 1e-12


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_ratio_tail_is_sharp(epsilon: float) -> None:
    """One outcome beyond each end, and all else alike."""
    delta, beyond = 1e-4, epsilon * (1 + 1e-9)
    high = delta / -math.expm1(-epsilon / 2)
    p = np.array([high, high * math.exp(-beyond), 1 - high * (1 + math.exp(-beyond))])
    q = p[[1, 0, 2]]
    assert larger_hockey_stick(p, q, epsilon / 2) == pytest.approx(delta, rel=1e-6)
    assert p[:2].sum() == pytest.approx(ratio_tail(epsilon, delta), rel=1e-6)


@given(st.floats(1e-6, 0.1), st.one_of(st.just(0.0), st.floats(1e-300, 1e-6)))
def test_four_is_enough(epsilon: float, delta: float) -> None:
    """Instead of the printed 6 delta / epsilon, wherever that is stated."""
    assert ratio_tail(epsilon, delta) <= 4.0 * delta / epsilon * (1 + 1e-12)


# --- 2.5: group privacy ----------------------------------------------------------------------------------------------


@given(st.floats(1e-3, 2.0), st.floats(0.0, 0.01), st.integers(1, 20))
def test_group_privacy(epsilon: float, delta: float, k: int) -> None:
    found, scaled = group_delta(epsilon, delta, k), ApproximateDP(epsilon, delta).at(k)
    assert isinstance(scaled, ApproximateDP)
    assert (k * epsilon, found) == pytest.approx((scaled.epsilon, scaled.delta), rel=1e-9, abs=1e-300)
    assert found <= k * math.exp((k - 1) * epsilon) * delta * (1 + 1e-9)  # as printed


@given(st.floats(0.01, 1.0), st.floats(0.0, 0.05), st.integers(1, 6))
def test_group_privacy_by_steps(epsilon: float, delta: float, k: int) -> None:
    """A chain of coins, each step losing as much as it may, attains it as long as probabilities are small."""
    chain = [1e-3]
    for _ in range(k):
        chain.append(math.exp(epsilon) * chain[-1] + delta)
    assume(chain[-1] <= 0.5)
    found = group_delta(epsilon, delta, k)
    assert chain[-1] - math.exp(k * epsilon) * chain[0] == pytest.approx(found, rel=1e-6, abs=1e-12)


# --- 2.8: zCDP -------------------------------------------------------------------------------------------------------


@given(st.floats(0.0, 1.0), st.floats(1e-12, 0.2499))
def test_zcdp_printed_and_standard_are_above_the_tight_one(rho: float, delta: float) -> None:
    standard = zcdp_epsilon(rho, delta)
    assert accounting.epsilon(ZCDP(rho), delta).upper <= standard + 1e-12
    assert standard <= printed_zcdp_epsilon(rho, delta) * (1 + 1e-9)


def test_printed_zcdp_fails_outside_its_conditions() -> None:
    """A Gaussian with rho far above ln(1/delta) is worse than printed."""
    rho, delta = 50.0, 0.2
    gaussian = accounting.Gaussian(1.0 / math.sqrt(2 * rho))
    assert gaussian.zcdp_rho() == pytest.approx(rho)
    tight = accounting.epsilon(gaussian, delta, bracket=True)
    assert tight.lower is not None and tight.lower > printed_zcdp_epsilon(rho, delta)
    assert tight.upper <= zcdp_epsilon(rho, delta)


# --- 3.8: composition outside of a bad set ---------------------------------------------------------------------------


def _two_steps(
    first: tuple[FloatArray, FloatArray], second: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Joint laws of two outcomes; ``second`` has one row of the second outcome's law per first outcome."""
    p, q = (first[b][:, None] * second[b] for b in (0, 1))
    return p.ravel(), q.ravel()


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 0.3), st.floats(0.0, 0.3))
def test_conditioned_composition_by_enumeration(one: float, two: float, bad0: float, bad1: float) -> None:
    """First a coin at epsilon one, or a bad outcome; then a coin at epsilon two, which after the bad one tells all.

    The failures are counted once, not twice as printed.
    """
    coin = np.array([1 / (1 + math.exp(-one)), 1 / (1 + math.exp(one))])
    first = (np.append((1 - bad0) * coin, bad0), np.append((1 - bad1) * coin[::-1], bad1))
    turn = np.array([1 / (1 + math.exp(-two)), 1 / (1 + math.exp(two))])
    second = (np.array([turn, turn, [1.0, 0.0]]), np.array([turn[::-1], turn[::-1], [0.0, 1.0]]))
    p, q = _two_steps(first, second)
    for at in np.linspace(0.0, one + two, 7):
        stopped = [np.append(law[:4], law[4:].sum()) for law in (p, q)]
        delta = min(1.0, larger_hockey_stick(stopped[0], stopped[1], at))
        assert larger_hockey_stick(p, q, at) <= conditioned_composition(delta, [max(bad0, bad1)]) + 1e-12


def test_printed_hypothesis_is_not_enough() -> None:
    """Each world's own good set is left with probability 1% in that world; what follows a bad outcome tells all."""
    epsilon, failure = 1.0, 0.01
    high = failure * math.exp(epsilon)
    # outcomes: bad in world 0, bad in world 1, good
    first = (np.array([failure, high, 1 - failure - high]), np.array([high, failure, 1 - failure - high]))
    assert larger_hockey_stick(*first, epsilon) == pytest.approx(0.0, abs=1e-12)
    tells = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    p, q = _two_steps(first, (tells, np.where(tells == 0.5, 0.5, 1.0 - tells)))
    truth = larger_hockey_stick(p, q, epsilon)
    assert truth == pytest.approx(failure + high)
    assert truth > 2 * failure  # Lemma 3.8 as printed
    common = common_failure(failure, epsilon=epsilon, delta=0.0)
    assert common == pytest.approx(failure + high)
    assert truth <= conditioned_composition(0.0, [common]) * (1 + 1e-12)
