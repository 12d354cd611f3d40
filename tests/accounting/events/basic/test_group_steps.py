"""Tests of the generic group rule against closed forms and brute force over chains of laws."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from divergences import hockey_stick, larger_hockey_stick, renyi
from scipy import special

from hockeystick.accounting import (
    NO_EVENT,
    ZCDP,
    ApproximateDP,
    Failure,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    NonPrivate,
    NumericalError,
    Parallel,
    PureDP,
    UnsupportedEventError,
    VisibleMixture,
    compose,
    delta,
    epsilon,
    parallel,
)
from hockeystick.accounting.engines.tradeoff_curve import trade_off
from hockeystick.accounting.events.basic.given_curves import PrivacyProfile, RenyiCurve
from hockeystick.accounting.events.basic.given_laws import DiscretePair
from hockeystick.accounting.events.basic.group_steps import Chain, _cuts, _then, _Widened, chain
from hockeystick.accounting.losses.dominating_pairs import GaussianPair
from hockeystick.accounting.losses.loss_grid import LossPmf
from hockeystick.accounting.numerics.directed_rounding import U

ORDERS = np.array([1.01, 1.5, 2.0, 5.0, 20.0])


def laws(rng, length, outcomes=5, spread=0.6):
    """A chain of laws, each near the one before."""
    logits = np.cumsum(rng.normal(0, spread, (length + 1, outcomes)), axis=0)
    p = np.exp(logits)
    return p / p.sum(axis=1, keepdims=True)


def iterated(g, alpha, length):
    for _ in range(length):
        alpha = g(alpha)
    return alpha


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("length", "goal"),
    [(n, goal) for n in (2, 3, 7) for goal in (1e-3, 1e-12)]
    + [pytest.param(32, goal, marks=pytest.mark.deep) for goal in (1e-3, 1e-12)],
)
def test_a_chain_of_gaussian_steps_is_one_gaussian_step(length, goal):
    exact = epsilon(Gaussian(6 / length), goal).upper  # Dong, Roth & Su 2022, Thm 2.14: kμ
    got = epsilon(chain(Gaussian(6.0), length), goal, bracket=True)
    assert got.lower is not None
    assert got.lower <= exact * (1 + 1e-12) and exact <= got.upper * (1 + 1e-12)
    assert got.upper <= exact * (1 + 1e-5)
    assert got.lower >= exact * (1 - 1e-3)


@pytest.mark.parametrize("length", [2, 5])
@pytest.mark.parametrize("eps", [0.0, 0.5, 2.0])
@pytest.mark.every(3)
def test_the_delta_of_a_chain_of_gaussian_steps_is_the_closed_form(length, eps):
    exact = delta(Gaussian(3 / length), eps).upper
    got = delta(chain(Gaussian(3.0), length), eps, bracket=True)
    assert got.lower is not None
    assert got.lower <= exact * (1 + 1e-12) and exact <= got.upper * (1 + 1e-12)
    assert got.upper <= exact * (1 + 1e-4)


@pytest.mark.parametrize("length", [2, 3, 6])
def test_pure_steps_iterate_the_trade_off_function(length):
    e, alpha = 0.7, np.array([1e-9, 1e-3, 0.1, 0.4, 0.8, 0.999])
    g = iterated(lambda a: np.minimum(math.exp(e) * a, 1 - math.exp(-e) * (1 - a)), alpha, length)
    got = trade_off(chain(PureDP(e), length), alpha)
    assert (got <= 1 - g + 1e-12).all()
    assert (got >= 1 - g - 1e-5).all()
    assert chain(PureDP(e), length).pure_epsilon() == length * e
    # tighter than length·ε-DP, whose worst pair is randomised response at length·ε
    assert delta(chain(PureDP(e), length), 0.5).upper < 0.99 * delta(PureDP(length * e), 0.5).upper


@pytest.mark.parametrize("length", [2, 4])
def test_approximate_steps_have_the_known_delta(length):
    e, d = 0.3, 1e-6
    known = d * sum(math.exp(i * e) for i in range(length))  # Vadhan 2017, Lemma 2.2
    got = delta(chain(ApproximateDP(e, d), length), length * e, bracket=True)
    assert got.upper == pytest.approx(known, rel=1e-6)
    assert got.upper >= known * (1 - 1e-14)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.every(4)
def test_no_chain_of_laws_exceeds_the_bound(seed):
    rng = np.random.default_rng(seed)
    chained = laws(rng, 3, spread=0.5)
    grid = np.linspace(0, 3, 31)
    steps = [(a, b) for p, q in zip(chained[:-1], chained[1:], strict=True) for a, b in ((p, q), (q, p))]
    claims = [max(hockey_stick(a, b, e) for a, b in steps) * (1 + 1e-12) for e in grid]
    event = chain(PrivacyProfile(grid, claims), 3)
    for eps in (0.0, 0.3, 1.0, 2.0):
        exact = larger_hockey_stick(chained[0], chained[-1], eps)
        assert exact <= delta(event, eps).upper


def test_steps_of_either_direction_may_be_mixed():
    # P → Q and back to another law: the second step is in the other direction of a tied pair.
    event = DiscretePair((0.9, 0.1), (0.5, 0.5), orientation="tied")
    g = {True: lambda a: min(1.8 * a, 1 - 0.2 * (1 - a)), False: lambda a: min(5 * a, 1 - (1 - a) / 1.8)}
    alpha = 0.05
    worst = max(g[second](g[first](alpha)) for first in (True, False) for second in (True, False))
    got = trade_off(chain(event, 2), alpha)
    assert got <= 1 - worst + 1e-12
    assert chain(event, 2).directions() == (chain(event, 2),)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.every(3)
def test_renyi_rule_holds_for_chains_of_laws(seed):
    rng = np.random.default_rng(seed)
    length = int(rng.integers(2, 6))
    chained = laws(rng, length, spread=1.0)
    steps = [(a, b) for p, q in zip(chained[:-1], chained[1:], strict=True) for a, b in ((p, q), (q, p))]
    orders = 1 + np.geomspace(1e-3, 300, 400)
    event = chain(RenyiCurve(orders, [max(renyi(a, b, o) for a, b in steps) for o in orders]), length)
    for order, bound in zip(ORDERS, event.rdp(ORDERS), strict=True):
        assert renyi(chained[0], chained[-1], order) <= bound


def test_renyi_rule_is_tight_for_zcdp():
    event = chain(ZCDP(0.1), 7)
    assert event.zcdp_rho() == pytest.approx(4.9, rel=1e-15)
    np.testing.assert_allclose(event.rdp(ORDERS), 4.9 * ORDERS, rtol=1e-12)
    assert (event.rdp(ORDERS) >= 4.9 * ORDERS * (1 - 1e-15)).all()


def test_long_chains_are_charged_in_blocks():
    exact = 0.001 * 5000**2 * ORDERS
    got = chain(ZCDP(0.001), 5000).rdp(ORDERS)
    assert (exact <= got * (1 + 1e-14)).all() and (got <= 1.1 * exact).all()


@pytest.mark.parametrize(
    "event", [Laplace(3.0), compose(Laplace(5.0), Gaussian(4.0)), parallel(Laplace(3.0), PureDP(0.2))]
)
def test_any_event_has_a_chain_in_every_curve(event):
    one, two = chain(event, 1), chain(event, 2)
    assert one == event
    assert two.pure_epsilon() == 2 * event.pure_epsilon()
    assert two.zcdp_rho() == 4 * event.zcdp_rho()
    assert (two.rdp(ORDERS) >= event.rdp(ORDERS)).all()
    values = [delta(chain(event, k), 0.5).upper for k in (1, 2, 3, 4)]
    assert values == sorted(values)
    four = delta(chain(event, 4), 0.5, bracket=True)
    assert four.lower is not None
    assert four.lower <= four.upper <= 1.001 * four.lower


def test_a_chain_of_laplace_steps_costs_at_least_one_step_of_twice_the_distance():
    # Laplace noise has its own rule, twice the distance: the generic one must not beat it.
    for eps in (0.0, 0.2, 0.6):
        exact = -math.expm1((eps - 1 / 1.5) / 2)
        assert exact <= delta(chain(Laplace(3.0), 2), eps).upper <= 1.01 * exact


def test_failure_is_charged_along_the_chain():
    event = compose(Gaussian(2.0), Failure(1e-4))
    two = chain(event, 2)
    assert two.failure_delta() == 0.0 and math.isinf(two.pure_epsilon()) and math.isinf(two.zcdp_rho())
    assert np.isinf(two.rdp(ORDERS)).all()
    # g(α) = 1e-4 + g'(α): at ε → ∞ what is left is g(g(0)) = 1e-4 + g'(1e-4)
    inner = 1 - float(trade_off(Gaussian(2.0), 1e-4))
    got = delta(two, 60.0).upper
    assert 1e-4 + inner <= got * (1 + 1e-12)
    assert got <= (1e-4 + inner) * (1 + 1e-3)
    assert delta(chain(compose(PureDP(0.0), Failure(0.01)), 3), 0.0).upper == pytest.approx(0.03, rel=1e-9)
    assert delta(chain(NonPrivate(), 2), 3.0).upper == 1.0


def test_chains_without_a_rule_are_refused():
    with pytest.raises(UnsupportedEventError, match="qualifies"):
        chain(Failure(1e-6), 2)
    with pytest.raises(UnsupportedEventError, match="qualifies"):
        chain(compose(Failure(1e-6), (VisibleMixture(0.5, Failure(1e-5)), 3)), 2)
    with pytest.raises(UnsupportedEventError, match="no profile"):
        chain(compose(ZCDP(0.1), Failure(1e-6)), 2)
    with pytest.raises(InvalidArgumentError, match="length"):
        chain(PureDP(1.0), -1)
    with pytest.raises(InvalidArgumentError, match="length"):
        chain(PureDP(1.0), 1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="event"):
        chain("laplace", 2)  # type: ignore[arg-type]
    assert chain(PureDP(1.0), 0) is NO_EVENT and chain(NO_EVENT, 5) is NO_EVENT
    assert chain(chain(PureDP(1.0), 2), 3) == chain(PureDP(1.0), 6) == Chain(PureDP(1.0), 2).at(3)
    assert chain(Laplace(1.0), 2).norm == "l1"
    assert isinstance(chain(parallel(Laplace(1.0), PureDP(1.0)), 2).children()[0], Parallel)


@pytest.mark.parametrize("chance", [0.0, 1e-6, 0.1])
def test_a_chain_of_one_step_is_that_step(chance):
    step = compose((PureDP(0.1), 20), (Laplace(9.0), 3))
    more = Gaussian(4.0)
    assert epsilon(Chain(step, 1), chance) == epsilon(step, chance)
    one, other = (compose(event, more) for event in (Chain(step, 1), step))
    assert epsilon(one, chance) == epsilon(other, chance)
    assert delta(one, 0.7) == delta(other, 0.7)


@pytest.mark.parametrize("upper", [True, False])
def test_losses_beyond_floats_count_as_infinite_from_above_and_as_none_from_below(upper):
    first = LossPmf(1.0, 0, np.array([0.25, 0.75]), 0.0)
    second = LossPmf(1.0, 649, np.array([0.5, 0.3, 0.2]), 0.0)  # e^650 times a mass is the last one used
    law = _then(first, second, upper)
    assert law.infinity == pytest.approx(0.2 if upper else 0.0, abs=1e-12)
    assert law.p.sum() + law.infinity <= 1.0 + 1e-9


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
def test_cuts_are_rounded_towards_the_less_telling_outcomes_from_above_and_away_from_them_from_below(upper, left):
    """Outcomes are ordered by decreasing loss; cuts from above are rounded to the right, in exact fractions."""
    masses = np.random.default_rng(3).dirichlet(np.full(40, 0.3)) * 0.9
    rounding, total = 2 * U * 60, Fraction(0)
    for cut, mass in zip(_cuts(masses, left, rounding, upper).tolist(), masses.tolist(), strict=True):
        total += Fraction(mass)
        found = Fraction(cut) if left else 1 - Fraction(cut)
        assert found >= total if upper else found <= total
        assert abs(found - total) <= 5 * rounding


@pytest.mark.parametrize("mu", [0.01, 1.0, 3.0])
def test_the_support_of_a_step_leaves_out_no_mass_that_a_chain_may_bring_up(mu):
    pair = GaussianPair(mu)
    low, high = _Widened(pair).support()
    assert (low, _Widened(pair).infinity()) == (pair.support()[0], 0.0)
    assert special.log_ndtr(mu / 2 - high / mu) <= math.log(1e-290)


def test_a_chain_of_too_many_cells_is_refused(monkeypatch):
    law = LossPmf(0.1, -2, np.full(5, 0.2), 0.0)
    monkeypatch.setattr(sys.modules[Chain.__module__], "_MAX_CELLS", 11)
    assert len(_then(law, law, True).p) == 9
    monkeypatch.setattr(sys.modules[Chain.__module__], "_MAX_CELLS", 10)
    with pytest.raises(NumericalError, match="a chain spans 11 cells"):
        _then(law, law, True)


@pytest.mark.parametrize("upper", [True, False])
def test_a_step_whose_losses_are_all_beyond_floats(upper):
    first, second = LossPmf(1.0, 0, np.array([0.25, 0.75]), 0.0), LossPmf(1.0, 651, np.array([0.4, 0.6]), 0.0)
    law = _then(first, second, upper)
    assert not law.p.any()
    assert law.infinity == pytest.approx(1.0 if upper else 0.0, abs=1e-12)


@pytest.mark.parametrize("length", [2, 3])
def test_the_support_of_a_chain_holds_its_smallest_and_its_largest_loss(length):
    """Randomised response k times in a row has its losses between −kε and kε, both of which it takes."""
    low, high = chain(PureDP(1.0), length).loss_support()
    assert low <= -length * (1 - 1e-9) and length * (1 - 1e-9) <= high
    assert high - low <= 2.02 * length
