"""Tests of privacy filters: accepted events, guarantees, and an adaptive adversary that cannot exceed them."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from attrs import evolve, frozen
from divergences import gaussian_delta
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

import hockeystick as hs
from hockeystick.accounting import (
    NO_EVENT,
    ZCDP,
    Adjacency,
    ApproximateDP,
    Failure,
    Gaussian,
    InvalidArgumentError,
    NonPrivate,
    NumericalError,
    PureDP,
    RandomizedResponse,
    RenamedMethodError,
    UnsupportedAdjacencyError,
    VisibleMixture,
    compose,
    parallel,
)
from hockeystick.accounting.budgets.filters import (
    BudgetExceededError,
    GDPFilter,
    PrivacyFilter,
    PureFilter,
    ZCDPFilter,
    gaussian_charge,
    promised,
)
from hockeystick.accounting.budgets.renyi_filter import RDPFilter, renyi_charges
from hockeystick.accounting.numerics.exact_sums import exact

KINDS = [PureFilter(1.0), ZCDPFilter(0.5), RDPFilter((2.0, 8.0), (1.0, 3.0)), GDPFilter(1.0)]


def worst_delta(budget: PrivacyFilter, epsilon: float, menu: tuple[float, ...]) -> float:
    """Returns δ(ε) of the best adversary that picks randomised responses from ``menu`` adaptively, by exact
    recursion."""

    @cache
    def value(state: PrivacyFilter, loss: float) -> float:
        best = max(0.0, -math.expm1(epsilon - loss))  # stop: E_P[(1 − e^{ε−L})₊]
        for cost in menu:
            if not state.would_exceed(PureDP(cost)):
                after, more = state.after(PureDP(cost)), 1 / (1 + math.exp(-cost))
                up, down = round(loss + cost, 9), round(loss - cost, 9)
                best = max(best, more * value(after, up) + (1 - more) * value(after, down))
        return best

    return value(budget, 0.0)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("budget", "epsilons"),
    [
        (PureFilter(1.5), (0.0, 0.3, 0.9, 1.3)),
        (ZCDPFilter(0.6), (0.0, 0.5, 1.0, 2.0)),
        (RDPFilter((2.0,), (0.9,)), (0.5, 1.0, 2.0)),
        (RDPFilter((1.5, 3.0, 6.0), (0.3, 0.9, 1.5)), (0.5, 1.0, 1.5, 2.0)),
        (GDPFilter(1.2), (0.0, 0.5, 1.0, 2.0)),
    ],
)
def test_no_adaptive_adversary_exceeds_a_filters_guarantee(budget, epsilons):
    for epsilon in epsilons:
        attained = worst_delta(budget, epsilon, (1.0, 0.4, 0.25))
        allowed = budget.delta(epsilon)
        assert attained <= allowed
        assert epsilon > 0.5 or attained > allowed / 20, "the adversary is too weak to test anything"


def test_a_filter_that_admitted_a_bit_more_would_be_caught():
    """The same adversary exceeds a guarantee for 70% of the budget, so the test above can fail."""
    assert worst_delta(PureFilter(1.5), 0.9, (1.0, 0.5, 0.25)) > PureFilter(1.05).delta(0.9)
    assert worst_delta(GDPFilter(1.2), 0.0, (1.0, 0.4, 0.25)) > GDPFilter(0.84).delta(0.0)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_adaptive_gaussian_composition_costs_nothing_extra(epsilon):
    """The adversary spends μ₁ first, and the rest only if the outcome favours one data set; by quadrature over the
    outcome."""
    total, first = 1.0, 0.6
    rest = math.sqrt(total**2 - first**2)

    def integrand(x: float, when: bool) -> float:
        loss = first * x - first**2 / 2
        density = math.exp(-((x - first) ** 2) / 2) / math.sqrt(2 * math.pi)
        if when == (x > 0):
            return float(density * gaussian_delta(rest, epsilon - loss))
        return density * max(0.0, -math.expm1(epsilon - loss))

    def attained(when: bool) -> float:
        kink = (epsilon + first**2 / 2) / first
        return sum(
            float(integrate.quad(integrand, a, b, args=(when,))[0])
            for a, b in zip((-12, *sorted((0, kink))), (*sorted((0, kink)), 12), strict=True)
        )

    budget = GDPFilter(total).after(Gaussian(1 / first))
    assert not budget.would_exceed(Gaussian(1 / rest * (1 + 1e-9)))
    assert budget.would_exceed(Gaussian(1 / rest * (1 - 1e-9)))
    for when in (True, False):
        assert attained(when) <= budget.delta(epsilon)
    everything = integrate.quad(
        lambda x: (
            math.exp(-((x - first) ** 2) / 2)
            / math.sqrt(2 * math.pi)
            * gaussian_delta(rest, epsilon - first * x + 0.18)
        ),
        -12,
        12,
    )[0]
    assert everything == pytest.approx(budget.delta(epsilon), rel=1e-8)  # nothing is lost where all is spent


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.1, 0.999, 1.0, 3.0, 30.0, 600.0])
def test_the_gaussian_charge_of_pure_dp_is_exact(epsilon):
    """At equal total variation, 2Φ(μ/2) − 1 = tanh(ε/2), in 60 digits."""
    with mpmath.workdps(60 + int(epsilon)):
        mu = mpmath.sqrt(gaussian_charge(PureDP(epsilon)))
        want = mpmath.exp(-mpmath.mpf(epsilon)) / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        slope = mpmath.npdf(mu / 2) / 2
        found = mpmath.erfc(mu / mpmath.sqrt(8)) / 2
        assert abs((found - want) / slope / mu) < 3e-13


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 2.0, 6.0])
def test_a_pure_event_is_gaussian_at_its_charge(epsilon):
    gaussian = Gaussian(1 / math.sqrt(gaussian_charge(PureDP(epsilon))))
    for at in (0.0, 0.1 * epsilon, 0.5 * epsilon, 0.9 * epsilon):
        exact = -math.expm1(at - epsilon) / (1 + math.exp(-epsilon))  # of randomised response
        assert exact <= hs.delta(gaussian, at).upper * (1 + 1e-14)


def test_gaussian_charges_of_composite_events():
    assert gaussian_charge(compose((Gaussian(2.0), 3), (Gaussian(1.0), 2))) == pytest.approx(2.75)
    assert gaussian_charge(parallel(Gaussian(2.0), Gaussian(1.0))) == 1.0
    assert gaussian_charge(VisibleMixture(0.5, Gaussian(2.0))) == 0.25
    assert gaussian_charge(VisibleMixture(0.0, Gaussian(2.0))) == 0.0
    assert gaussian_charge(ZCDP(0.1)) == math.inf
    assert gaussian_charge(NO_EVENT) == gaussian_charge(Failure(0.1)) == 0.0


def what_orders_allow(budget, epsilon, slack=0.0):
    with mpmath.workdps(40):
        want = mpmath.mpf(budget.failure_delta)
        for a, b in zip(map(mpmath.mpf, budget.orders), map(promised, budget.budgets), strict=True):
            want += (1 - 1 / a) ** (a - 1) / a * mpmath.exp((a - 1) * (mpmath.mpf(b) - epsilon))
        return want * (1 + slack)


def test_an_rdp_filter_guarantees_the_union_over_orders():
    budget = RDPFilter((1.5, 4.0, 32.0), (0.2, 0.5, 1.5), failure_delta=1e-9)
    for epsilon in (2.0, 5.0, 40.0):
        assert what_orders_allow(budget, epsilon) <= budget.delta(epsilon) <= what_orders_allow(budget, epsilon, 1e-9)


@given(order=st.floats(1.1, 1e3), share=st.floats(0.0, 1.0))
def test_the_budget_at_one_order_is_rounded_up(order, share):
    """Down to a δ of e^-700, whose exponent alone may be off by 1e-13."""
    budget = RDPFilter((order,), (0.5,))
    epsilon = 0.5 + share * 690.0 / (order - 1)
    slack = 1e-13 * order + 1e-11
    assert what_orders_allow(budget, epsilon) <= budget.delta(epsilon) <= what_orders_allow(budget, epsilon, slack)


@pytest.mark.parametrize("kind", [ZCDPFilter, GDPFilter, RDPFilter])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-3), (1.0, 1e-6), (8.0, 1e-10)])
@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.every(4)
def test_a_filter_for_a_target_meets_it_tightly(kind, epsilon, delta, share):
    orders = {"orders": (64.0, 2048.0, 65536.0)} if kind is RDPFilter else {}
    budget = kind.for_target(epsilon, delta, failure_delta=share * delta, **orders)
    assert epsilon * (1 - 1e-5) <= budget.epsilon(delta) <= epsilon
    assert budget.delta(epsilon) <= delta
    assert hs.epsilon(budget.event(delta=delta), delta * (1 + 1e-9)).upper <= epsilon


def test_an_rdp_filter_drops_the_orders_without_room():
    assert RDPFilter.for_target(1.0, 1e-6).orders[0] == 16.0
    with pytest.raises(InvalidArgumentError, match="larger orders"):
        RDPFilter.for_target(0.1, 1e-6, orders=[2.0, 4.0])


def test_an_rdp_filter_stops_when_no_order_has_room():
    budget = RDPFilter((2.0, 8.0), (1.0, 3.0)).after(ZCDP(0.375))
    assert budget.remaining() == {"rdp(2)": 0.25, "rdp(8)": 0.0, "failure_delta": 0.0}
    assert not budget.would_exceed(ZCDP(0.125)), "order 2 has room though order 8 is full"
    assert budget.would_exceed(ZCDP(0.13))
    assert budget.would_exceed(NonPrivate())


@pytest.mark.parametrize("budget", KINDS)
def test_spending_is_additive_and_never_drifts(budget):
    event = PureDP(1e-4 / 3)
    one_by_one = budget
    for _ in range(3000):
        one_by_one = one_by_one.after(event)
    assert one_by_one == budget.after(event, count=3000)
    assert one_by_one == budget.after(event, count=1000).after(event, count=2000)


def test_many_small_charges_cannot_exceed_the_budget():
    charge = 0.1 + 2**-40
    fits = math.floor(Fraction(1) * (1 + Fraction(1, 10**12)) / Fraction(charge / 10**6))
    budget = PureFilter(1.0)
    event = PureDP(charge / 10**6)
    assert not budget.would_exceed(event, count=fits)
    assert budget.would_exceed(event, count=fits + 1)
    assert budget.after(event, count=fits).would_exceed(event)
    assert budget.epsilon(0.0) >= Fraction(event.epsilon) * fits


def test_ten_tenths_fit_into_one_and_the_guarantee_covers_them():
    budget = PureFilter(1.0)
    for _ in range(10):
        budget = budget.after(PureDP(0.1))
    assert Fraction(0.1) * 10 > 1
    assert budget.epsilon(0.0) > 1.0
    assert budget.would_exceed(PureDP(1e-11))


@pytest.mark.statistical
@given(
    budget=st.sampled_from(KINDS),
    costs=st.lists(st.tuples(st.floats(1e-3, 0.6), st.integers(1, 4)), max_size=8),
)
def test_after_agrees_with_would_exceed_and_a_refusal_changes_nothing(budget, costs):
    promise = budget.epsilon(1e-3)
    for cost, count in costs:
        before = budget.remaining()
        if budget.would_exceed(PureDP(cost), count=count):
            with pytest.raises(BudgetExceededError) as refusal:
                budget.after(PureDP(cost), count=count)
            assert refusal.value.remaining == before == budget.remaining()
            assert any(need > before[name] for name, need in refusal.value.need.items())
        else:
            budget = budget.after(PureDP(cost), count=count)
            assert all(left <= before[name] for name, left in budget.remaining().items())
    assert budget.epsilon(1e-3) == promise, "the promise holds from the creation on"


@pytest.mark.parametrize("budget", KINDS)
def test_failures_have_a_budget_of_their_own(budget):
    from attrs import evolve

    assert budget.would_exceed(ApproximateDP(0.01, 1e-9))
    allowing = evolve(budget, failure_delta=1e-6)
    assert not allowing.would_exceed(Failure(1e-7), count=10)
    assert allowing.would_exceed(Failure(1e-7), count=11)
    spent = allowing.after(ApproximateDP(0.01, 6e-7))
    assert spent.would_exceed(Failure(5e-7))
    assert not spent.would_exceed(PureDP(0.1))
    epsilon = 8.0
    assert allowing.delta(epsilon) >= budget.delta(epsilon) + 1e-6
    assert allowing.epsilon(1e-6) == math.inf, "all of δ is for failures"
    assert allowing.epsilon(1e-3) >= budget.epsilon(1e-3 - 1e-6) * (1 - 1e-12)  # both are bounds from above


def test_the_whole_interaction_is_an_event():
    assert hs.epsilon(ZCDPFilter(0.5).event(), 1e-6).upper == pytest.approx(ZCDPFilter(0.5).epsilon(1e-6))
    assert hs.epsilon(GDPFilter(1.0, failure_delta=1e-8).event(), 1e-6).upper == pytest.approx(
        GDPFilter(1.0, failure_delta=1e-8).epsilon(1e-6), rel=1e-6
    )
    assert PureFilter(1.0).event(delta=0.0) == ApproximateDP(PureFilter(1.0).epsilon(0.0), 0.0)
    with pytest.raises(InvalidArgumentError, match="delta"):
        RDPFilter((2.0,), (1.0,)).event()


@pytest.mark.parametrize("budget", KINDS)
def test_events_that_are_not_private_or_have_another_relation_are_refused(budget):
    with pytest.raises(UnsupportedAdjacencyError, match="RandomizedResponse"):
        budget.would_exceed(RandomizedResponse(0.1))
    assert budget.would_exceed(NonPrivate())
    with pytest.raises(BudgetExceededError, match="is left"):
        budget.after(NonPrivate())
    assert not budget.would_exceed(NO_EVENT, count=10**9)
    local = type(budget)(
        *(getattr(budget, name) for name in ("orders", "budgets", "rho", "mu", "budget") if hasattr(budget, name)),
        adjacency=Adjacency.LOCAL,
    )
    assert not local.would_exceed(RandomizedResponse(0.1))


def test_a_zcdp_filter_charges_rho():
    budget = ZCDPFilter(0.5).after(Gaussian(2.0)).after(ZCDP(0.125))
    assert budget.remaining()["rho"] == 0.25
    with pytest.raises(BudgetExceededError, match=r"needs rho=0\.5, but 0\.25 is left"):
        budget.after(Gaussian(1.0))


def test_an_rdp_filter_slightly_above_its_target_is_made_smaller(monkeypatch):
    """Rounding could do this: the shares are reduced until the guarantee holds."""
    exact, asked = RDPFilter.delta, []

    def rounded(self, epsilon):
        asked.append(epsilon)
        assert len(asked) < 50
        return exact(self, epsilon) * (1 + 3e-6)

    monkeypatch.setattr(RDPFilter, "delta", rounded)
    found = RDPFilter.for_target(1.0, 1e-6)
    assert len(asked) > 1 and exact(found, 1.0) * (1 + 3e-6) <= 1e-6 < exact(found, 1.0) * (1 + 1e-5)


def test_a_curve_lost_in_rounding_is_refused():
    class Negative(PureDP):
        def rdp(self, orders):
            return -super().rdp(orders)

    class Partly(PureDP):
        def rdp(self, orders):
            return np.where(orders > 2.0, math.nan, super().rdp(orders))

    with pytest.raises(NumericalError, match="rounding"):
        renyi_charges(Negative(1.0), (2.0,))
    with pytest.raises(NumericalError, match="rounding"):
        renyi_charges(Partly(1.0), (2.0, 3.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ZCDPFilter(math.nan),
        lambda: ZCDPFilter(-1.0),
        lambda: PureFilter(True),
        lambda: GDPFilter(0.0),
        lambda: GDPFilter(math.inf),
        lambda: RDPFilter((1.0,), (1.0,)),
        lambda: RDPFilter((2.0, 2.0), (1.0, 1.0)),
        lambda: RDPFilter((2.0,), (1.0, 1.0)),
        lambda: RDPFilter((), ()),
        lambda: RDPFilter("2", (1.0,)),  # type: ignore[arg-type]
        lambda: ZCDPFilter(1.0, failure_delta=2.0),
        lambda: ZCDPFilter(1.0, adjacency="replace-one"),
        lambda: ZCDPFilter.for_target(0.0, 1e-6),
        lambda: ZCDPFilter.for_target(1.0, 0.0),
        lambda: ZCDPFilter.for_target(1.0, 1e-6, failure_delta=1e-6),
        lambda: ZCDPFilter(1.0).after(ZCDP(0.1), count=0),
        lambda: ZCDPFilter(1.0).after(ZCDP(0.1), count=1.5),  # type: ignore[arg-type]
        lambda: ZCDPFilter(1.0).after("event"),  # type: ignore[arg-type]
        lambda: ZCDPFilter(1.0).epsilon(math.nan),
        lambda: ZCDPFilter(1.0).delta(-1.0),
    ],
)
def test_bad_arguments_are_refused(make):
    with pytest.raises(InvalidArgumentError):
        make()


def test_an_rdp_filter_at_the_ends_of_delta():
    budget = RDPFilter((2.0,), (1.0,))
    assert budget.epsilon(0.0) == math.inf and budget.epsilon(1.0) == 0.0
    loose = budget.delta(0.0)
    assert 0.0 < loose < 1.0
    assert budget.epsilon(loose) == 0.0 < budget.epsilon(loose * 0.99)


def test_a_target_that_no_budget_meets_is_refused():
    with pytest.raises(InvalidArgumentError, match="by any budget"):
        ZCDPFilter.for_target(1e-12, 1e-300)  # the conversion leaves an epsilon at rho = 0


@pytest.mark.parametrize("budget", KINDS)
def test_the_old_method_spend_is_refused_and_nothing_is_spent(budget):
    with pytest.raises(
        RenamedMethodError, match=rf"{type(budget).__name__}\.spend: .* budget = budget\.after\(event\)"
    ):
        budget.spend(PureDP(0.1), count=2)
    assert budget.remaining() == type(budget).remaining(budget.after(NO_EVENT))
    assert budget.after(PureDP(0.1)) != budget


CHARGES = st.lists(st.sampled_from([0.0, 1e-90, 1e-9, 0.1, 0.2, 0.3, 0.25]), max_size=4)


@given(which=st.sampled_from(KINDS), first=CHARGES, second=CHARGES)
def test_filters_have_the_same_repr_only_if_they_are_equal(which, first, second):
    def after(charges):
        budget = which
        for charge in charges:
            event = PureDP(charge)
            budget = budget if budget.would_exceed(event) else budget.after(event)
        return budget

    assert (repr(after(first)) == repr(after(second))) == (after(first) == after(second))


@given(charges=CHARGES)
def test_a_filter_shows_its_spent_budget_to_the_last_bit(charges):
    budget = PureFilter(2.0)
    for charge in charges:
        budget = budget.after(PureDP(charge))
    spent = re.search(r"spent=\{(epsilon: (?P<sum>[^,]*), )?failure_delta: 0\.0\}", repr(budget))
    assert spent is not None
    shown = sum(Fraction(float(term)) for term in (spent["sum"] or "0").split(" + "))
    assert shown == sum(map(Fraction, charges))


def test_orders_that_differ_in_the_last_digit_are_distinguished():
    orders = (2.0, math.nextafter(2.0, 3.0))
    budget = RDPFilter(orders, (1.0, 1.0)).after(ZCDP(0.25))
    assert budget.remaining() == {"rdp(2)": 0.5, "rdp(2.0000000000000004)": 0.4999999999999999, "failure_delta": 0.0}
    assert "spent={rdp(2): 0.5, rdp(2.0000000000000004): 0.5000000000000001, failure_delta: 0.0}" in repr(budget)


def test_a_user_defined_filter_shows_its_spent_budget():
    @frozen
    class Mine(PureFilter):
        pass

    assert "_spent=(0.5), _failed=0.0" in repr(Mine(1.0).after(PureDP(0.5)))


def test_a_charge_beyond_all_floats_is_shown_in_full():
    budget = RDPFilter((2.0, 1e6), (1.0, 1.0))
    for times in (10, 11):
        text = repr(evolve(budget, _spent=(0, times * exact(1.7e308))))
        assert f"rdp(1e+06): {times * exact(1.7e308)}·2^-1074" in text
