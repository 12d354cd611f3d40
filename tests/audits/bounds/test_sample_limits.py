"""Tests of sample limits against direct convex optimisation, closed forms, published numbers and exact binomial
power."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from benchmark_scripts import benchmark
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from samples import exact_power
from scipy import optimize, stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim
from hockeystick.audits.bounds.sample_limits import Limit, klinf, refutation_power, samples_needed, samples_to_detect
from hockeystick.audits.bounds.two_counts import frontier
from hockeystick.audits.claims.law_pairs import LawPair


def divergence(laws: np.ndarray, others: np.ndarray) -> float:
    used = laws > 0
    return float(np.sum(laws[used] * np.log(laws[used] / others[used])))


def direct(laws: np.ndarray, claim: Claim, both: bool) -> float | None:
    """KLinf by a general solver, with one linear constraint for every event, order and point of the claim."""
    k = laws.shape[1]
    rows, limits = [], []
    for epsilon, delta in claim.points:
        for event in itertools.product((0.0, 1.0), repeat=k):
            for order in (0, 1) if both else (0,):
                row = np.zeros((2, k))
                row[order], row[1 - order] = event, -math.exp(epsilon) * np.array(event)
                rows.append(row.ravel())
                limits.append(delta)
    matrix, most = np.array(rows), np.array(limits)
    scale = 1.0 / max(divergence(laws, np.stack([laws.mean(axis=0)] * 2)), 1e-9)
    totals = np.kron(np.eye(2), np.ones(k))
    found = optimize.minimize(
        lambda x: divergence(laws, x.reshape(2, k)) * scale,
        np.tile(laws.mean(axis=0), 2),
        jac=lambda x: -laws.ravel() / x * scale,
        method="SLSQP",
        bounds=[(1e-9, 1.0)] * (2 * k),
        constraints=[
            {"type": "ineq", "fun": lambda x: most - matrix @ x, "jac": lambda x: -matrix},
            {"type": "eq", "fun": lambda x: totals @ x - 1.0, "jac": lambda x: totals},
        ],
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return float(found.fun / scale) if found.success else None


@pytest.mark.statistical
@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=3, max_size=3),
    st.lists(st.integers(1, 40), min_size=3, max_size=3),
    st.floats(0.0, 1.5),
    st.sampled_from([0.0, 0.01, 0.1]),
    st.booleans(),
    st.booleans(),
)
def test_duality_agrees_with_a_general_solver(p, q, epsilon, delta, both, curve) -> None:
    laws = np.array([np.array(p) / sum(p), np.array(q) / sum(q)])
    claim = Claim(epsilon, delta, also=[(0.5 * epsilon, delta + 0.1)] if curve else [])

    found = klinf(LawPair.finite(*laws), claim, both=both)

    assert found.lower <= found.upper
    expected = direct(laws, claim, both)
    # where feasible laws have no interior, or hardly any, the solver gives up or stops far from the optimum
    assume(expected is not None and epsilon + delta > 1e-3)
    assert expected is not None
    assert found.lower <= expected * (1 + 1e-3) + 1e-7
    assert found.upper >= expected * (1 - 1e-3) - 1e-7
    assert found.upper - found.lower <= 0.01 * found.upper + 1e-7


def closed_form(laws: np.ndarray, epsilon: float) -> float:
    """One order, delta = 0: the dual is a concave function of the share of one multiplier."""
    p, q = laws
    ratio = math.exp(epsilon)

    def negative(t: float) -> float:
        one, other = 1 + t, 1 - t
        free = p * other <= ratio * q * one
        c = (p + q) / (one * ratio + other)
        nearest = np.where(free, p / one, ratio * c), np.where(free, q / other, c)
        return -float(np.sum(p * np.log(p / nearest[0]) + q * np.log(q / nearest[1])))

    return -float(
        optimize.minimize_scalar(negative, bounds=(-0.99, 0.99), method="bounded", options={"xatol": 1e-12}).fun
    )


@pytest.mark.parametrize("true", [1.01, 1.1, 2.0])
def test_one_order_of_a_pure_claim_has_the_closed_form(true: float) -> None:
    pair = LawPair.laplace(true)

    found = klinf(pair, Claim(1.0), both=False)

    assert found.lower == pytest.approx(closed_form(pair.below, 1.0), rel=1e-5)
    assert found.upper == pytest.approx(closed_form(np.maximum(pair.above, 1e-300), 1.0), rel=1e-3)


@pytest.mark.parametrize(
    ("true", "value", "local", "hard", "stop"),
    [(1.01, 9.13e-6, 469e3, 260e3, 328e3), (1.1, 8.83e-4, 4848, 2690, 3392), (2.0, 6.17e-2, 69, 39, 49)],
)
def test_one_order_of_laplace_noise_has_the_published_limits(true, value, local, hard, stop) -> None:
    found = klinf(LawPair.laplace(true), Claim(1.0), both=False)

    assert found.value == pytest.approx(value, rel=0.005)
    assert found.local(0.05) == pytest.approx(local, rel=0.01)
    assert found.samples(0.05) == pytest.approx(hard, rel=0.02)
    assert found.stopping(0.05) == pytest.approx(stop, rel=0.02)


def test_both_orders_leave_room_for_fewer_samples() -> None:
    one, both = (klinf(LawPair.laplace(1.1), Claim(1.0), both=both) for both in (False, True))

    # Sum of the two tests of "output <= 0" and ">= 1": twice the gap on two variances and two covariances.
    p, q = 0.5, 0.5 * math.exp(-1.1)
    variance = p * (1 - p) + math.e**2 * q * (1 - q)
    gain = 2 * variance / (variance + 2 * math.e * p * q)
    assert both.value / one.value == pytest.approx(gain, rel=0.02)
    assert gain > 1.4


@pytest.mark.parametrize(
    ("delta", "factor", "curve", "event"),
    [
        (1e-2, 0.9, False, 1.297e-4),
        (1e-5, 0.5, False, 3.977e-4),
        pytest.param(1e-2, 0.5, True, 4.156e-2, marks=pytest.mark.statistical),
        pytest.param(1e-5, 0.9, True, 1.401e-4, marks=pytest.mark.statistical),
    ],
)
def test_gaussian_noise_needs_less_than_any_one_event_shows(delta, factor, curve, event) -> None:
    """Single threshold events bound KLinf from below; knowing the family bounds it from above."""
    claimed = benchmark("auditors.targets").gaussian_mu(1.0, delta)
    claim = Claim.curve(accounting.Gaussian(1 / claimed), delta) if curve else Claim(1.0, delta)
    pair = LawPair.gaussian(claimed / factor, cells=100)

    one, both = (klinf(pair, claim, both=order) for order in (False, True))

    assert event < one.lower <= one.upper <= both.upper
    assert both.lower <= (claimed / factor - claimed) ** 2 / 4
    if curve:  # the curve pins the family down
        assert both.lower > 0.8 * (claimed / factor - claimed) ** 2 / 4


@pytest.mark.parametrize("step", [2.0**-6, 2.0**-9])
def test_laws_of_the_accounting_bracket_the_closed_form(step: float) -> None:
    exact = klinf(LawPair.laplace(1.3), Claim(1.0))
    found = klinf(LawPair.of_event(accounting.Laplace(1 / 1.3), step=step), Claim(1.0))

    assert found.lower <= exact.upper and found.upper >= exact.lower
    assert found.upper / found.lower < 1 + 20 * step


@pytest.mark.statistical
@given(st.floats(0.2, 4.0), st.floats(0.0, 3.0), st.floats(0.0, 0.2))
@settings(max_examples=25, deadline=None)
def test_finer_cells_bracket_more_tightly(true: float, epsilon: float, delta: float) -> None:
    claim = Claim(epsilon, delta)
    coarse, fine = (klinf(LawPair.laplace(true, cells=cells), claim) for cells in (10, 200))

    assert coarse.lower <= fine.lower * (1 + 1e-3) + 1e-9
    assert coarse.upper >= fine.upper * (1 - 1e-3) - 1e-9
    assert (fine.lower > 1e-12) <= (true > epsilon)


def test_a_true_claim_has_no_sample_limit() -> None:
    found = klinf(LawPair.laplace(1.0), Claim(1.0))

    assert found == Limit(0.0, 0.0)
    assert found.samples(0.05) == found.local(0.05) == found.stopping(0.05) == math.inf
    assert klinf(LawPair.finite([0.0, 1.0], [1.0, 0.0]), Claim(1.0, 1.0)) == Limit(0.0, 0.0)
    assert klinf(LawPair.laplace(2.0), Claim(1.0)).samples(0.05, power=0.04) == 0.0


def test_outcomes_of_one_law_alone_are_handled() -> None:
    """A coin that reveals the data with probability 0.1, claimed to be pure: only the masses count."""
    found = klinf(LawPair.losses([0.0], [0.9], infinite=0.1), Claim(0.0))

    # P' = Q' = (P + Q)/2 is the nearest pair with epsilon = 0
    expected = 2 * 0.1 * math.log(2)
    assert found.lower == pytest.approx(expected, rel=1e-4)
    assert found.upper == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LawPair.finite([0.5, 0.5], [1.0]),
        lambda: LawPair.finite([0.5, 0.4], [0.5, 0.5]),
        lambda: LawPair.finite([0.5, math.nan], [0.5, 0.5]),
        lambda: LawPair.finite([1.5, -0.5], [0.5, 0.5]),
        lambda: LawPair.losses([-1.0], [1.0]),
        lambda: LawPair.losses([math.inf], [1.0]),
        lambda: LawPair.laplace(0.0),
        lambda: LawPair.laplace(True),
        lambda: LawPair.gaussian(math.nan),
        lambda: LawPair.of_event(1.0),  # type: ignore[arg-type]
        lambda: klinf(1.0, Claim(1.0)),  # type: ignore[arg-type]
        lambda: klinf(LawPair.laplace(1.0), 1.0),  # type: ignore[arg-type]
        lambda: Limit(0.1, 0.1).samples(0.0),
        lambda: Limit(0.1, 0.1).local(0.05, power=1.0),
        lambda: samples_needed(0.5, 1.5, epsilon=1.0, delta=0.0, alpha=0.05),
        lambda: samples_needed(0.5, 0.1, epsilon=-1.0, delta=0.0, alpha=0.05),
        lambda: samples_to_detect(0.1, 1.0, 0.0, 1.0, alpha=0.05),
        lambda: samples_to_detect(0.1, 1.0, 0.0, 1.5, alpha=math.nan),
        lambda: samples_to_detect(0.1, 1.0, 0.0, 1.5, alpha=1e-31),
        lambda: refutation_power(0, 0.5, 0.1, epsilon=1.0, delta=0.0, alpha=0.05),
    ],
)
def test_bad_arguments_are_refused(make) -> None:
    with pytest.raises(InvalidArgumentError):
        make()


def shipped(n: int, p: float, q: float, epsilon: float, delta: float, alpha: float) -> float:
    """The power of the shipped test, by the sum over all counts."""
    slope = math.exp(epsilon)

    def refuted(x: int, y: int) -> bool:
        above = x > slope * y + delta * n
        return above and frontier(x, n, y, n, slope=slope, alpha=alpha).refutes(epsilon, delta)

    return float(exact_power(refuted, n, p, q))


LARGE = pytest.param(0.01, 3.0, 0.0, 1.5, 0.001, marks=pytest.mark.deep)
CASES = [(0.0677, 1.0, 0.0, 2.0, 0.05), (0.05, 2.0, 0.1, 1.4, 0.05), LARGE]


@pytest.mark.statistical
@pytest.mark.parametrize(("q", "epsilon", "delta", "factor", "alpha"), CASES)
def test_the_samples_needed_have_the_exact_power(q, epsilon, delta, factor, alpha) -> None:
    n = round(samples_to_detect(q, epsilon, delta, factor, alpha=alpha))
    p = math.exp(factor * epsilon) * q + delta

    # one step of a count changes it by 0.01 at such small n
    assert shipped(math.ceil(1.05 * n), p, q, epsilon, delta, alpha) >= 0.89
    assert shipped(math.floor(0.95 * n), p, q, epsilon, delta, alpha) <= 0.91
    assert refutation_power(n, p, q, epsilon=epsilon, delta=delta, alpha=alpha) == pytest.approx(
        shipped(n, p, q, epsilon, delta, alpha), abs=0.01
    )


def test_many_samples_needed_agree_with_the_normal_law() -> None:
    q, p = 0.3, math.exp(0.55) * 0.3
    spread = math.sqrt(p * (1 - p) + math.exp(1.0) * q * (1 - q))
    expected = ((stats.norm.isf(0.001) + stats.norm.ppf(0.9)) * spread / (p - math.exp(0.5) * q)) ** 2

    assert samples_to_detect(q, 0.5, 0.0, 1.1, alpha=0.001) == pytest.approx(expected, rel=0.1)


@pytest.mark.statistical
def test_sample_sizes_are_infinite_where_no_violation_shows() -> None:
    assert samples_needed(0.2, 0.2, epsilon=0.0, delta=0.0, alpha=0.05) == math.inf
    assert samples_needed(0.2 + 1e-9, 0.2, epsilon=0.0, delta=0.0, alpha=0.05) == math.inf
    assert samples_to_detect(0.5, 1.0, 0.0, 2.0, alpha=0.05) == math.inf  # e^2 / 2 is not a probability
    assert samples_to_detect(0.1, 0.0, 0.0, 2.0, alpha=0.05) == math.inf  # twice an epsilon of 0 is 0
    assert samples_needed(1.0, 0.0, epsilon=1.0, delta=0.0, alpha=0.05) < 20
    more = [samples_to_detect(0.1, 1.0, 0.0, factor, alpha=0.05) for factor in (1.05, 1.2, 1.5, 2.0)]
    assert more == sorted(more, reverse=True) and len(set(more)) == 4
