"""Tests of the filter that prices against the rest: prices, an exact adversary, its planted faults, and the choice."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from divergences import gaussian_delta
from scipy import stats

from hockeystick.accounting import (
    Adjacency,
    ApproximateDP,
    BudgetExceededError,
    Failure,
    Gaussian,
    GaussianDP,
    GDPFilter,
    InvalidArgumentError,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    ResidueFilter,
    UnsupportedAdjacencyError,
    compose,
    epsilon,
    filter_for,
    parallel,
)
from hockeystick.accounting.budgets import rest_prices
from hockeystick.accounting.budgets.filters import gaussian_charge
from hockeystick.accounting.budgets.rest_prices import residue_price


def at(rest, **options):
    return ResidueFilter(math.sqrt(rest), **options)


@pytest.mark.parametrize(("rest", "price"), [(0.142, 0.12417), (0.2, 0.10108), (0.5, 0.09282), (2.0, 0.09036)])
def test_prices_fall_towards_the_square_of_epsilon_as_the_rest_grows(rest, price):
    found = at(rest, slack=1e-12).price(PureDP(0.3))
    assert found == pytest.approx(price, rel=5e-4)
    assert 0.3**2 < found <= gaussian_charge(PureDP(0.3)) == pytest.approx(0.14092, abs=1e-5)


def test_gaussian_events_cost_what_they_cost_fixed_in_advance():
    budget = at(1.0)
    assert budget.price(Gaussian(4.0)) == 1 / 16
    assert not budget.would_exceed(Gaussian(4.0), count=16) and budget.would_exceed(Gaussian(4.0), count=17)
    assert budget.after(Gaussian(4.0), count=16).remaining() == {"mu^2": 0.0, "uses": 1000.0, "failure_delta": 0.0}


def spent_by(actions, price, rest, eps):
    """The largest hockey stick at ``eps`` of any adaptive choice of randomised responses, by enumeration."""

    def value(left, e):
        found = max(0.0, -math.expm1(e))
        for a in actions:
            if (cost := price(a, left)) <= left:
                p = 1 / (1 + math.exp(-a))
                found = max(found, p * value(left - cost, e - a) + (1 - p) * value(left - cost, e + a))
        return found

    return value(rest, eps)


def test_no_adaptive_analyst_exceeds_the_promise_and_prices_at_the_full_budget_let_one():
    rest, actions, slack = 0.29, (0.3, 0.5), 1e-12  # three times what 0.3 costs at the full budget

    @cache
    def price(a, left):
        return residue_price(PureDP(a), left, slack, gaussian_charge(PureDP(a))) if left > 0.0 else math.inf

    points = np.linspace(0.0, 1.5, 7)
    promise = gaussian_delta(math.sqrt(rest), points)
    ratios = [spent_by(actions, price, rest, e) / d for e, d in zip(points, promise, strict=True)]
    assert 0.75 < max(ratios) <= 1.0 + 1e-9
    fault = [spent_by(actions, lambda a, _: price(a, rest), rest, e) / d for e, d in zip(points, promise, strict=True)]
    assert max(fault) > 1.04


def test_the_plan_of_the_gap_table_fits_as_printed():
    """20 × 1-DP at δ = 1e-6: 30.7953 with this filter, 40.6506 with Gaussian DP, 19.9995 fixed in advance."""
    plan: dict[str, Any] = {"event": PureDP(1.0), "count": 20}
    options: dict[str, Any] = {"slack": 1e-9, "uses": 20}
    assert not ResidueFilter.for_target(30.7953 * 1.002, 1e-6, **options).would_exceed(**plan)
    assert ResidueFilter.for_target(30.7953 * 0.998, 1e-6, **options).would_exceed(**plan)


@pytest.mark.statistical
def test_samples_and_what_is_left_are_together_within_the_whole_budget():
    """By the engines, at three δ: the inequality that admits them, composed over the events."""
    event = PoissonSampled(0.05, Gaussian(3.0))
    budget = ResidueFilter.for_target(0.8, 1e-5, slack=1e-6, uses=100)
    left = budget.after(event, count=6).remaining()["mu^2"]
    assert 0.0 < left < budget.remaining()["mu^2"]
    whole = compose((event, 6), GaussianDP(math.sqrt(left)))
    for delta in (1e-2, 1e-4, 1e-5):
        assert epsilon(whole, delta).upper <= budget.epsilon(delta)
    assert GDPFilter.for_target(0.8, 1e-5).would_exceed(event)


def test_binomial_plan_is_within_the_curve_of_the_whole_budget():
    """10 randomised responses: as the filter admits them one by one, their exact law keeps its promise at every ε."""
    budget = at(1.0)
    count = 0
    while not budget.would_exceed(PureDP(0.3)):
        budget, count = budget.after(PureDP(0.3)), count + 1
    heads = np.arange(count + 1)
    p = stats.binom.pmf(heads, count, 1 / (1 + math.exp(-0.3)))
    losses = 0.3 * (2 * heads - count)
    for eps in np.linspace(0.0, 4.0, 9):
        exact = float(p @ np.maximum(0.0, -np.expm1(eps - losses)))
        assert exact <= budget.delta(float(eps))
    assert count == 10


def test_parts_are_charged_one_after_the_other_and_branches_by_the_worst():
    both = compose((PureDP(0.3), 2), PureDP(0.2))
    one_by_one = at(1.0)
    for event in (PureDP(0.2), PureDP(0.3), PureDP(0.3)):
        one_by_one = one_by_one.after(event)
    assert at(1.0).after(both).remaining() == one_by_one.remaining()
    worst = at(1.0).after(parallel(PureDP(0.3), PureDP(0.2)))
    assert worst.remaining() == at(1.0).after(PureDP(0.3)).remaining()


def test_slack_and_failures_are_part_of_what_is_promised():
    budget = at(1.0, slack=1e-7, failure_delta=1e-6)
    assert budget.delta(30.0) >= 1.1e-6 and budget.epsilon(1e-6) == math.inf
    after = budget.after(ApproximateDP(0.1, 5e-7))
    assert after.delta(1.0) == budget.delta(1.0)
    assert after.would_exceed(Failure(6e-7)) and not after.would_exceed(Failure(4e-7))


def test_uses_run_out_and_the_price_is_then_that_of_gaussian_dp():
    budget = at(1.0, uses=1).after(PureDP(0.1))
    assert budget.remaining()["uses"] == 0.0
    assert budget.price(PureDP(0.1)) == pytest.approx(gaussian_charge(PureDP(0.1)), rel=1e-12)
    assert budget.would_exceed(PoissonSampled(0.1, Gaussian(5.0)))


def test_refusals():
    budget = at(0.5)
    with pytest.raises(BudgetExceededError, match="mu"):
        budget.after(PureDP(2.0))
    with pytest.raises(UnsupportedAdjacencyError):
        at(0.5, adjacency=Adjacency.REPLACE_ONE).after(PoissonSampled(0.1, Gaussian(5.0)))
    for wrong in ({"slack": 0.0}, {"slack": 0.5}, {"uses": 0}):
        with pytest.raises(InvalidArgumentError):
            at(0.5, **wrong)
    with pytest.raises(InvalidArgumentError):
        ResidueFilter.for_target(1.0, 1e-6, failure_delta=1e-6)


def test_the_filter_with_most_room_for_the_plan_is_chosen():
    chosen: dict[str, tuple[float, list[tuple[PrivacyEvent, int]]]] = {
        "PureFilter": (2.05, [(PureDP(1.0), 2)]),
        "GDPFilter": (1.0, [(Gaussian(20.0), 10)]),
        "ResidueFilter": (2.6, [(PureDP(0.1), 20), (Gaussian(5.0), 2)]),
    }
    for name, (eps, plan) in chosen.items():
        found = filter_for(eps, 1e-6, expect=plan)
        assert type(found).__name__ == name
        assert found.epsilon(1e-6) <= eps
    with pytest.raises(InvalidArgumentError, match="expect"):
        filter_for(1.0, 1e-6, expect=[])


@pytest.mark.parametrize(("loss", "p", "rest"), [(1.0, 0.05, 0.5), (0.8, 0.2, 1.0)])
def test_a_price_that_fails_only_between_the_points_of_the_grid_is_refused(loss, p, rest):
    """Two outcomes, the least price on 20,000 points in closed form, and a millionth less, which fails near ε = 3."""
    eps, other = np.linspace(0.0, 8.0, 20_001), math.log((1 - p) / (1 - p * math.exp(-loss)))

    def stick(e, mu):  # at any real ε
        return stats.norm.cdf(mu / 2 - e / mu) - np.exp(e) * stats.norm.cdf(-mu / 2 - e / mu)

    def fits(cost):
        left = math.sqrt(rest - cost)
        both = p * stick(eps - loss, left) + (1 - p) * stick(eps - other, left)
        return bool(np.all(both <= stick(eps, math.sqrt(rest))))

    low, high = 1e-9, 0.999 * rest
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    laws = [(np.array([loss, other]), np.array([p, 1 - p]), 0.0)]
    assert not rest_prices._holds(laws, rest, high * (1 - 1e-6), 1e-12)
    assert rest_prices._holds(laws, rest, high * (1 + 1e-3), 1e-12)
