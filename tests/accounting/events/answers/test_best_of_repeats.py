"""Tests of the best of a random number of runs: its exact law on small and on discretised mechanisms."""

import math
from functools import lru_cache

import dp_accounting
import mpmath
import numpy as np
import pytest
from attrs import frozen
from divergences import hockey_stick, larger_hockey_stick, renyi
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from hockeystick.accounting import (
    NO_EVENT,
    ZCDP,
    Adjacency,
    ApproximateDP,
    Failure,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    RandomizedResponse,
    compose,
    delta,
    epsilon,
)
from hockeystick.accounting.events.answers import best_of_repeats
from hockeystick.accounting.events.answers.best_of_repeats import RepeatAndSelect, Repetitions, symmetric_pair
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.losses.dominating_pairs import Atoms

ORDERS = np.array([1.01, 1.3, 2.0, 5.0, 30.0, 1e4])
SHAPES = [1.0, 0.0, -0.5, 3.0, math.inf]


@lru_cache
def generating(shape, mean):
    """E[x^K] by its definition, with γ found by bisection on the mean of the probabilities of K."""
    if math.isinf(shape):
        return lambda x: np.exp(mean * (x - 1))

    def at(gamma, x):
        if shape == 0.0:
            return np.log1p(-(1 - gamma) * x) / math.log(gamma)
        return ((1 - (1 - gamma) * x) ** -shape - 1) / (gamma**-shape - 1)

    k = np.arange(1, 100_000)
    base = special.gammaln(k + shape) - special.gammaln(k + 1)

    def mean_of(gamma):
        log_p = k * math.log1p(-gamma) + base
        p = np.exp(log_p - log_p.max())
        return float(k @ p / p.sum())

    low, high = 1e-4, 1 - 1e-9
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if mean_of(middle) < mean else (middle, high)
    return lambda x: at(low, x)


def best_of(law, order, f):
    """The law of the best run, outcomes being better the later they come in ``order``; K = 0 publishes nothing."""
    ranked = np.append(0.0, np.minimum(np.cumsum(law[order]), 1.0))
    return np.append(np.diff(f(ranked)), f(np.zeros(1)))


class OfLaws(PrivacyEvent):
    """An event of two laws of few outcomes, which ``laws`` returns."""

    def laws(self):
        raise NotImplementedError

    def rdp(self, orders):
        p, q = self.laws()
        return renyi(p, q, orders)

    def pair(self):
        p, q = self.laws()
        return Atoms(tuple(np.log(p / q).tolist()), tuple(p.tolist()))


@frozen
class Finite(OfLaws):
    """The pair of a law and its mirror image: both orders have one profile, and one Rényi curve."""

    law: tuple[float, ...]

    def laws(self):
        p = np.array(self.law)
        return p, p[::-1].copy()

    def pure_epsilon(self):
        p, q = self.laws()
        return float(np.abs(np.log(p / q)).max())


@lru_cache
def claims(event):
    """The least δ that a method states at each of several ε."""
    top = event.pure_epsilon() if math.isfinite(event.pure_epsilon()) else 3.0
    levels = top * np.array([0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95])
    return [(eps, min(delta(event, eps, method=method).upper for method in ("pld", "rdp"))) for eps in levels]


def never_above(event, p, q, orders=ORDERS):
    for eps, claim in claims(event):
        assert larger_hockey_stick(p, q, eps) <= claim * (1 + 1e-9) + 1e-14
    for order, claim in zip(orders, event.rdp(orders), strict=True):
        assert max(renyi(p, q, order), renyi(q, p, order)) <= claim * (1 + 1e-9) + 1e-13
    seen = (p > 1e-13) & (q > 1e-13)
    assert float(np.abs(np.log(p[seen] / q[seen])).max()) <= event.pure_epsilon() * (1 + 1e-9) + 1e-9


FEW = [(1.0, 1.5), (0.0, 60.0), (-0.5, 60.0), (math.inf, 1.5)]
MANY = [
    *((shape, mean) for shape in SHAPES for mean in (1.5, 8.0, 60.0)),
    *((math.inf, mean) for mean in (0.01, 0.3, 0.9)),
]


@pytest.mark.statistical
@pytest.mark.parametrize("case", [*FEW, *(pytest.param(x, marks=pytest.mark.deep) for x in MANY if x not in FEW)])
def test_never_below_the_exact_law_of_the_best_run(case):
    (shape, mean), rng, f = case, np.random.default_rng(7), generating(*case)
    for n, spread in ((2, 0.3), (3, 1.5), (5, 0.1), (6, 3.0)):
        law = np.exp(rng.uniform(0, spread, size=n))
        run = Finite(tuple((law / law.sum()).tolist()))
        event = RepeatAndSelect(run, mean=mean, shape=shape)
        p, q = run.laws()
        by_ratio = np.argsort(p / q)
        for order in (by_ratio, by_ratio[::-1], rng.permutation(n)):
            never_above(event, best_of(p, order, f), best_of(q, order, f))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [0.3, 1.0])
@pytest.mark.every(2)
def test_the_weight_of_the_other_runs_is_charged_in_full(shape, eps):
    """A better outcome is rarer by e^ε on one data set, and the next best is likelier by e^ε: both losses add up."""
    if math.isinf(shape):
        mean, better, middle = 3.0, (1 - 1e-3) / (1 + math.exp(eps)), 1e-4
        top = eps + mean * better * math.expm1(eps)
        f = generating(shape, mean)
    else:
        gamma, better, middle = 1e-7, 1e-4, 1e-6
        mean = math.log(1 / gamma) ** -1 if shape == 0.0 else shape / (1 - gamma**shape)
        mean *= (1 - gamma) / gamma
        top = eps + (1 + shape) * math.log((gamma + (better + middle) * math.exp(eps)) / (gamma + better + middle))

        def f(x):
            if shape == 0.0:
                return np.log1p(-(1 - gamma) * x) / math.log(gamma)
            return ((1 - (1 - gamma) * x) ** -shape - 1) / (gamma**-shape - 1)

    p = np.array([0.0, middle, better])
    q = np.array([0.0, middle * math.exp(-eps), better * math.exp(eps)])
    p[0], q[0] = 1 - p.sum(), 1 - q.sum()
    a, b = best_of(p, np.arange(3), f), best_of(q, np.arange(3), f)
    event = RepeatAndSelect(PureDP(eps), mean=mean, shape=shape)
    exact = math.log(a[1] / b[1])
    pure = event.pure_epsilon()
    assert 0.97 * pure < exact <= pure
    if math.isfinite(shape):
        assert pure <= (2 + shape) * eps * (1 + 1e-12) and exact == pytest.approx(top, rel=0.02)
    for share in (0.3, 0.6, 0.9, 0.97):
        for method in ("pld", "rdp"):
            assert hockey_stick(a, b, share * pure) <= delta(event, share * pure, method=method).upper
    orders = np.array([3.0, 30.0, 1e3, 1e5])
    for order, claim in zip(orders, event.rdp(orders), strict=True):
        assert renyi(a, b, order) <= claim
    assert renyi(a, b, 1e5) > 0.96 * event.rdp(np.array([1e5]))[0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [2.0, 30.0])
@pytest.mark.every(2)
def test_a_non_private_output_may_come_in_any_run(shape, mean):
    """A run with a loss that is infinite: no failure set aside, but a profile that stays above 0."""
    reveal, f = 0.01, generating(shape, mean)
    p, q = np.array([0.6, 0.39, 0.01, 0.0]), np.array([0.39, 0.6, 0.0, 0.01])

    @frozen
    class Revealing(PrivacyEvent):
        def rdp(self, orders):
            return np.full(orders.shape, math.inf)

        def pair(self):
            return Atoms((math.log(0.6 / 0.39), math.log(0.39 / 0.6)), (0.6, 0.39), reveal)

    event = RepeatAndSelect(Revealing(), mean=mean, shape=shape)
    a, b = best_of(p, np.arange(4), f), best_of(q, np.arange(4), f)
    for eps in (0.0, 0.4, 1.0, 3.0, 30.0):
        assert larger_hockey_stick(a, b, eps) <= delta(event, eps).upper * (1 + 1e-9)
    assert hockey_stick(b, a, 30.0) == pytest.approx(float(1 - f(np.array(1 - reveal))), rel=1e-6)
    if math.isfinite(shape):
        assert delta(event, 30.0).upper == pytest.approx(hockey_stick(b, a, 30.0), rel=1e-6)


@pytest.mark.parametrize("shape", [1.0, 0.0, 3.0, math.inf])
@pytest.mark.parametrize(("sigma", "mean"), [(1.0, 5.0), (4.0, 50.0), (10.0, 100.0)])
@pytest.mark.parametrize("score", ["up", "down", "both"])
@pytest.mark.every(7)
def test_gaussian_runs_selected_by_their_value(shape, sigma, mean, score):
    edges = np.linspace(-9, 9 + 1 / sigma, 4001)
    below_p, below_q = special.ndtr(edges - 1 / sigma), special.ndtr(edges)
    p = np.diff(np.concatenate([[0.0], below_p[1:-1], [1.0]]))
    q = np.diff(np.concatenate([[0.0], below_q[1:-1], [1.0]]))
    n = len(p)
    order = {"up": np.arange(n), "down": np.arange(n)[::-1], "both": np.argsort(np.abs(np.arange(n) - n / 2))}[score]
    f = generating(shape, mean)
    a, b = best_of(p, order, f), best_of(q, order, f)
    a, b = np.maximum(a, 0), np.maximum(b, 0)
    event = RepeatAndSelect(Gaussian(sigma), mean=mean, shape=shape)
    for target in (1e-2, 1e-5):
        for method in ("pld", "rdp"):
            eps = epsilon(event, target, method=method).upper
            if math.isfinite(eps):
                assert larger_hockey_stick(a, b, eps) <= target + 1e-11


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [2.0, 30.0])
@pytest.mark.parametrize("reveal", ["best", "worst", "middle"])
@pytest.mark.every(2)
def test_a_failure_may_come_in_any_run(shape, mean, reveal):
    """Randomised response that reveals its input with probability f: the worst (ε, f)-DP run."""
    eps, failure, f = 0.4, 0.01, generating(shape, mean)
    more, less = 1 / (1 + math.exp(-eps)), 1 / (1 + math.exp(eps))
    p = np.array([(1 - failure) * more, (1 - failure) * less, failure, 0.0])
    q = np.array([(1 - failure) * less, (1 - failure) * more, 0.0, failure])
    order = np.array({"best": [0, 1, 2, 3], "worst": [3, 2, 0, 1], "middle": [0, 3, 2, 1]}[reveal])
    a, b = best_of(p, order, f), best_of(q, order, f)
    event = RepeatAndSelect(ApproximateDP(eps, failure), mean=mean, shape=shape)
    assert event.failure_delta() == pytest.approx(1 - float(f(np.array(1 - failure))), rel=1e-6)
    assert event.failure_delta() <= mean * failure * (1 + 1e-9)
    for share in (0.0, 0.2, 0.5, 0.8, 1.0):
        at = share * event.pure_epsilon()
        assert larger_hockey_stick(a, b, at) <= delta(event, at).upper * (1 + 1e-9)
    if reveal == "best":
        assert hockey_stick(a, b, 50.0) == pytest.approx(delta(event, 50.0).upper, rel=0.05)


@pytest.mark.statistical
def test_b6_the_failure_grows_with_the_repetitions():
    event = RepeatAndSelect(ApproximateDP(0.1, 1e-6), mean=100, shape=math.inf)
    assert event.failure_delta() == pytest.approx(1e-4, rel=1e-3)
    assert compose((event, 100)).failure_delta() == pytest.approx(1e-2, rel=1e-3)
    assert delta(compose((event, 100)), 1e4).upper >= 0.99e-2
    assert RepeatAndSelect(Failure(1e-6), mean=100, shape=1.0).failure_delta() == pytest.approx(1e-4, rel=2e-2)


@pytest.mark.parametrize("shape", [1.0, 0.0, 2.5, math.inf])
@pytest.mark.parametrize("mean", [1.0, 3.0, 100.0])
@pytest.mark.parametrize(
    ("native", "ours"),
    [
        (dp_accounting.GaussianDpEvent(5.0), Gaussian(5.0)),
        (dp_accounting.LaplaceDpEvent(4.0), Laplace(4.0)),
        (dp_accounting.ZCDpEvent(0.02), ZCDP(0.02)),
    ],
)
@pytest.mark.every(7)
def test_never_above_dp_accounting(shape, mean, native, ours):
    accountant = RdpAccountant()
    accountant.compose(dp_accounting.dp_event.RepeatAndSelectDpEvent(native, mean, shape))
    event = RepeatAndSelect(ours, mean=mean, shape=shape)
    for target in (1e-3, 1e-6, 1e-9):
        got = epsilon(event, target, bracket=True)
        assert got.lower is not None and got.lower <= got.upper
        if mean > 3.0 or math.isfinite(shape):  # its Poisson bound leaves K = 0 out
            assert got.upper <= accountant.get_epsilon(target) * (1 + 1e-3)


@pytest.mark.parametrize("shape", [1.0, 0.0, -0.9, -0.5, 0.3, 7.0])
@pytest.mark.parametrize("mean", [1.0, 1.000001, 1.2, 10.0, 1000.0])
@pytest.mark.every(7)
def test_the_number_of_runs_has_the_given_mean(shape, mean):
    runs = RepeatAndSelect(Gaussian(1), mean=mean, shape=shape).repetitions()
    k = np.arange(1, 1_000_000)
    if runs.rate * len(k) < 60:
        pytest.skip("its tail is too long to be summed")
    log_p = k * math.log1p(-runs.rate) if runs.rate < 1 else np.where(k == 1, 0.0, -math.inf)
    log_p = log_p + special.gammaln(k + shape) - special.gammaln(k + 1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    assert float(k @ p) == pytest.approx(mean, rel=1e-8)
    assert math.exp(runs.log_mean()) == pytest.approx(mean, rel=1e-9) and math.exp(runs.log_mean()) >= mean
    for x in (1e-9, 1e-3, 0.4, 1.0):
        exact = -float(p @ np.expm1(k * math.log1p(-x))) if x < 1 else 1.0
        assert float(runs.any_of(np.array(x))) == pytest.approx(exact, rel=1e-7)


def test_bounds_agree_with_known_values():
    assert RepeatAndSelect(PureDP(0.1), mean=1e6, shape=1.0).pure_epsilon() == pytest.approx(0.3, rel=1e-4)
    # one run, always: nothing is selected
    once = RepeatAndSelect(Gaussian(1.0), mean=1.0, shape=1.0)
    assert epsilon(once, 1e-6).upper == pytest.approx(epsilon(Gaussian(1.0), 1e-6).upper, rel=1e-4)
    assert np.allclose(once.rdp(ORDERS), ORDERS / 2, rtol=1e-9)
    assert RepeatAndSelect(Laplace(3.0), mean=1.0, shape=0.0).pure_epsilon() == pytest.approx(1 / 3)
    # Papernot & Steinke 2022, Thm 2, by its formula at one pair of orders
    gamma, order, other = 0.1, 8.0, 40.0
    by_hand = 0.02 * order + 2 * (1 - 1 / other) * 0.02 * other + 2 * math.log(1 / gamma) / other
    by_hand += math.log(1 / gamma) / (order - 1)
    assert RepeatAndSelect(ZCDP(0.02), mean=10.0, shape=1.0).rdp(np.array([order]))[0] <= by_hand
    assert epsilon(RepeatAndSelect(NO_EVENT, mean=5.0, shape=1.0), 1e-9).upper <= 1e-6
    assert not RepeatAndSelect(ZCDP(0.02), mean=10.0, shape=1.0).has_profile()
    event = RepeatAndSelect(Gaussian(8.0), mean=10.0, shape=1.0)
    assert event.at(2) == RepeatAndSelect(Gaussian(4.0), mean=10.0, shape=1.0) and event.norm == "l2"
    # the profile says more than the Rényi curve
    assert epsilon(event, 1e-6, method="pld").upper < epsilon(event, 1e-6, method="rdp").upper


@frozen
class Tied(OfLaws):
    """A pair whose two orders differ, each direction bounding one."""

    way: int | None = None

    def laws(self):
        p, q = np.array([0.02, 0.08, 0.9]), np.array([0.08, 0.1, 0.82])
        return (p, q) if self.way == 0 else (q, p)

    def directions(self):
        return (self,) if self.way is not None else (Tied(0), Tied(1))


@pytest.mark.parametrize("shape", [1.0, math.inf])
def test_a_run_with_two_directions_is_charged_for_both(shape):
    f, event = generating(shape, 20.0), RepeatAndSelect(Tied(), mean=20.0, shape=shape)
    assert event.directions() == (event,)
    p, q = Tied(0).laws()
    for order in (np.arange(3), np.arange(3)[::-1], np.array([1, 0, 2])):
        a, b = best_of(p, order, f), best_of(q, order, f)
        for eps in (0.0, 0.5, 1.0, 2.0, 3.0):
            claim = min(delta(event, eps, method=m).upper for m in ("pld", "rdp"))
            assert larger_hockey_stick(a, b, eps) <= claim * (1 + 1e-9) + 1e-14


@pytest.mark.statistical
@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=12), st.floats(0.05, 6))
def test_symmetric_pair_is_the_greatest_profile_below_the_points(values, top):
    losses, deltas = np.linspace(0, top, len(values)), np.sort(values)[::-1]
    pair = symmetric_pair(losses, deltas)
    p, q = np.array(pair.p), np.array(pair.p) * np.exp(-np.array(pair.losses))
    assert p.sum() + pair.at_infinity == pytest.approx(1.0, abs=1e-12)
    assert q.sum() + pair.at_infinity == pytest.approx(1.0, abs=1e-9)
    x, points = (
        np.exp(np.append(-losses[::-1], losses)),
        np.append(1 - np.exp(-losses[::-1]) + np.exp(-losses[::-1]) * deltas[::-1], deltas),
    )
    for eps in np.linspace(0, top * 1.2, 23):
        got = hockey_stick(p, q, eps) + pair.at_infinity
        # the convex hull, by chords between any two points (and flat beyond the last)
        at = math.exp(eps)
        left, right = x <= at, x >= at
        hull = min(points[left].min(initial=1.0), 1.0)
        for i in np.flatnonzero(left):
            for j in np.flatnonzero(right):
                if x[j] > x[i]:
                    hull = min(hull, points[i] + (points[j] - points[i]) * (at - x[i]) / (x[j] - x[i]))
        assert got == pytest.approx(hull, rel=1e-9, abs=1e-12)


@pytest.mark.statistical
@settings(max_examples=15, deadline=None)
@given(st.floats(0.05, 2.0), st.floats(1.0, 50.0), st.sampled_from(SHAPES))
def test_cost_grows_with_the_mean_and_the_order(eps, mean, shape):
    event, more = (RepeatAndSelect(PureDP(eps), mean=m, shape=shape) for m in (mean, 1.5 * mean))
    assert event.pure_epsilon() <= more.pure_epsilon() * (1 + 1e-12)
    assert (event.rdp(ORDERS) <= more.rdp(ORDERS) * (1 + 1e-9)).all()
    assert (np.diff(event.rdp(ORDERS)) >= -1e-12).all()
    assert (event.rdp(ORDERS) <= event.pure_epsilon() * (1 + 1e-12)).all()
    if math.isfinite(shape):  # the bound for Poisson is a minimum over cuts of a tail
        assert delta(event, eps).upper <= delta(more, eps).upper * (1 + 1e-9) + 1e-15
    assert delta(RepeatAndSelect(PureDP(eps / 2), mean=mean, shape=shape), eps).upper <= delta(event, eps).upper + 1e-9


@pytest.mark.parametrize(
    "call",
    [
        lambda: RepeatAndSelect(Gaussian(1), mean=0.5, shape=1.0),
        lambda: RepeatAndSelect(Gaussian(1), mean=0.0, shape=math.inf),
        lambda: RepeatAndSelect(Gaussian(1), mean=2.0, shape=-1.0),
        lambda: RepeatAndSelect(Gaussian(1), mean=2.0, shape=1e9),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(InvalidArgumentError):
        call()


def test_mean_and_shape_are_keyword_arguments():
    with pytest.raises(TypeError, match="positional"):
        RepeatAndSelect(Gaussian(1), 2.0, shape=1.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        RepeatAndSelect(Gaussian(1), 1.0, mean=2.0)  # type: ignore[call-arg, misc]


@pytest.mark.parametrize("shape", [1.0, math.inf])
def test_runs_that_cost_nothing_but_may_fail(shape):
    event = RepeatAndSelect(Failure(1e-9), mean=2, shape=shape)
    assert delta(event, 0.1).upper == pytest.approx(2e-9, rel=1e-6) and epsilon(event, 1e-3).upper == 0.0
    assert delta(event, 0.1, method="pld").upper == pytest.approx(2e-9, rel=1e-6)


def test_more_runs_than_the_law_can_have_are_refused():
    with pytest.raises(InvalidArgumentError, match="out of reach with shape=-0.9"):
        RepeatAndSelect(PureDP(1.0), shape=-0.9, mean=1e50).pure_epsilon()


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_best_of_several_runs_is_for_the_relation_of_one(adjacency):
    for run in (PureDP(1.0), PoissonSampled(0.1, Gaussian(1.0)), RandomizedResponse(1.0)):
        assert RepeatAndSelect(run, shape=1.0, mean=3.0).accepts(adjacency) == run.accepts(adjacency)


def test_repetitions_without_failures_are_fewer_and_never_too_few():
    """A Poisson number of runs, each without a failure: its mean falls by the share that fails, rounded up."""
    for rate in (3.0, 0.7, 1e5):
        poisson = Repetitions(math.inf, rate)
        assert poisson.without_failures(0.0).rate == rate
        for failure in (1e-3, 0.1, 0.5):
            assert rate * (1 - failure) < poisson.without_failures(failure).rate <= rate * (1 - failure) * (1 + 1e-15)


@pytest.mark.statistical
def test_delta_of_one_run_by_its_curve_is_rounded_up():
    """In many digits, from the same divergences: the least over the same orders is never above what is returned."""
    event = RepeatAndSelect(ZCDP(0.2), shape=math.inf, mean=5.0)
    at = np.array([0.01, 0.3, 1.0, 4.0])
    found = event._best_delta(at)
    orders = best_of_repeats._CONVERSION_ORDERS
    curve = ZCDP(0.2).rdp(orders)
    with mpmath.workdps(40):
        for eps, value in zip(at, found, strict=True):
            logs = (
                (mpmath.mpf(a) - 1) * (mpmath.mpf(r) - mpmath.mpf(eps) + mpmath.log1p(-1 / mpmath.mpf(a)))
                - mpmath.log(mpmath.mpf(a))
                for a, r in zip(orders, curve, strict=True)
            )
            exact = mpmath.exp(min(logs))
            assert exact <= value <= exact * (1 + 1e-11)


@pytest.mark.parametrize("event", [Gaussian(1.0), Laplace(0.7), PoissonSampled(0.1, Gaussian(0.8))])
def test_the_profile_of_a_run_is_not_below_that_of_its_law(event):
    """By the recursion in 40 digits."""
    found = best_of_repeats._run_profile(event)
    low, high = event.loss_support()
    law = discretise(event, max(high, -low) / best_of_repeats._CELLS, True)
    with mpmath.workdps(40):
        decay, tail, exact = mpmath.exp(-law.step), mpmath.mpf(0), [mpmath.mpf(0)]
        for mass in law.p[::-1]:
            tail += mass
            exact.append(decay * exact[-1] + (1 - decay) * tail)
        below = [i for i, bound in enumerate(found.values[::-1]) if bound < exact[i] + law.infinity]
    assert below == []
