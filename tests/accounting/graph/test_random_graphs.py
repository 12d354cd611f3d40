"""Tests of random trees of events against enumerated outcomes, the second engine and dp-accounting, and of laws."""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import dp_accounting
import numpy as np
from divergences import hockey_stick
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event
from hypothesis import assume
from hypothesis import strategies as st
from samples import deep_examples

from hockeystick.accounting import (
    METHODS,
    HockeystickError,
    PrivacyEvent,
    compose,
    delta,
    epsilon,
    from_dp_event,
    parallel,
)
from hockeystick.accounting.engines import contour_integral
from hockeystick.accounting.events import catalogue as c
from hockeystick.accounting.losses.dominating_pairs import Array

# Trees with few outcomes: an event, and a pair of laws that the mechanism it stands for may have ------------------

Tables = tuple[PrivacyEvent, Array, Array]
MOST = 2e5


def outer(a: Array, b: Array) -> Array:
    return np.asarray(np.multiply.outer(a, b).ravel())


def law(draw: st.DrawFn, size: int) -> Array:
    weights = np.array(draw(st.lists(st.integers(0, 20), min_size=size, max_size=size)), dtype=float)
    assume(weights.sum() > 0)
    return np.asarray(weights / weights.sum())


def either_order(draw: st.DrawFn, event: PrivacyEvent, p: Array, q: Array) -> Tables:
    return (event, p, q) if draw(st.booleans()) else (event, q, p)


def response(e: float, k: int = 2) -> tuple[Array, Array]:
    p, q = np.ones(k), np.ones(k)
    p[0] = q[1] = math.exp(e)
    return p / p.sum(), q / q.sum()


@st.composite
def leaf(draw: st.DrawFn, held: bool) -> Tables:
    e, small = draw(st.floats(0.02, 2.0)), draw(st.floats(0.01, 0.9))
    match draw(st.integers(0, 11)):
        case 0:
            return c.PureDP(e), *response(e)
        case 1:
            k = draw(st.integers(2, 4))
            return c.RandomizedResponse(e, k), *response(e, k)
        case 2:
            d = draw(st.sampled_from([1e-6, 0.1, 0.2]))
            p, q = response(e)
            return c.ApproximateDP(e, d), np.append([d, 0.0], (1 - d) * p), np.append([0.0, d], (1 - d) * q)
        case 3:
            d = draw(st.sampled_from([1e-6, 0.1, 0.2]))
            return c.Failure(d), np.array([d, 0.0, 1 - d]), np.array([0.0, d, 1 - d])
        case 4 | 5 | 6:
            size = draw(st.integers(2, 3))
            p, q = law(draw, size), law(draw, size)
            orientation = draw(st.sampled_from(["free", "tied", "forward"]))
            event: Any = c.DiscretePair(tuple(p), tuple(q), orientation=orientation)
            if orientation == "free":
                return either_order(draw, event, p, q)
            return (event, p, q) if held or orientation == "forward" else (event, q, p)
        case 7:
            more, less = (1 + small) / 2, (1 - small) / 2
            one, other = np.array([more, 1 - more]), np.array([less, 1 - less])
            return c.UnaryEncoding(more, less), outer(one, other), outer(other, one)
        case 8:
            low = small * math.exp(-e)
            return either_order(
                draw, c.LazySwitchDecision(small, e), np.array([small, 1 - small]), np.array([low, 1 - low])
            )
        case 9:
            up = e * small  # losses ``up`` and ``up`` − e of an exponential mechanism with two outcomes
            share = -math.expm1(up - e) / (math.exp(up) - math.exp(up - e))
            q = np.array([share, 1 - share])
            return c.BoundedRange(e), q * np.exp([up, up - e]), q
        case 10:
            table = np.array([1.0, 3.0, 8.0, 3.0, 1.0]) / 16
            event = c.IntegerNoise(tuple(np.log(table)))
            return either_order(draw, event, np.append(table, 0.0), np.append(0.0, table))
        case _:
            p, q = response(e, 3)
            event = c.LossDistribution(
                (e, 0.0, -e), (p[0], p[2], p[1]), orientation=draw(st.sampled_from(["free", "forward"]))
            )
            return event, p, q


@st.composite
def tree(draw: st.DrawFn, held: bool, depth: int) -> Tables:
    if depth == 0:
        return draw(leaf(held))
    event, p, q = draw(tree(held, depth - 1))
    share = draw(st.floats(0.01, 0.99))
    kind = draw(st.integers(0, 7))
    if kind <= 2:
        count = draw(st.integers(1, 3))
        other, p2, q2 = draw(tree(held, depth - 1))
        assume(len(p) ** count * len(p2) <= MOST)
        for _ in range(count):
            p2, q2 = outer(p, p2), outer(q, q2)
        return compose((event, count), other), p2, q2
    if kind == 3:
        return c.VisibleMixture(share, event), np.append(share * p, 1 - share), np.append(share * q, 1 - share)
    if kind == 4:
        other, p2, q2 = draw(tree(held, depth - 1))
        joined = c.assignment([share, 1 - share], [event, other])
        return joined, np.append(share * p, (1 - share) * p2), np.append(share * q, (1 - share) * q2)
    if kind == 5:
        other, _, _ = draw(tree(held, depth - 1))
        return parallel(other, event), p, q
    if kind == 6:
        if held:
            return c.PoissonSampled(share, event), share * p + (1 - share) * q, q
        return c.PoissonSampled(share, event), p, share * q + (1 - share) * p
    mean, poisson = draw(st.floats(1.0, 5.0)), draw(st.booleans())

    def best(table: Array) -> Array:
        below = np.append(0.0, np.minimum(np.cumsum(table), 1.0))
        if poisson:
            return np.append(math.exp(-mean), np.diff(np.exp(mean * (below - 1.0))))
        return np.diff(below / (mean - (mean - 1.0) * below))  # geometric

    return c.RepeatAndSelect(event, mean=mean, shape=math.inf if poisson else 1.0), best(p), best(q)


@st.composite
def trees(draw: st.DrawFn) -> Tables:
    event, p, q = draw(tree(draw(st.booleans()), draw(st.integers(0, 2))))
    assume(event != c.NO_EVENT)
    return event, p, q


@deep_examples(8, 160, st.tuples(trees(), st.integers(0, 2)))
def test_no_bound_is_below_the_enumerated_outcomes(drawn: tuple[Tables, int]) -> None:
    """The contour engine, the slowest by far, is tried at one ε and one δ of each tree."""
    (event, p, q), tried = drawn
    for i, (eps, d) in enumerate([(0.0, 0.1), (0.4, 1e-3), (1.7, 1e-8)]):
        exact = hockey_stick(p, q, eps)
        for method in (None, *(method for method in METHODS if method != "contour" or i == tried)):
            assert exact <= delta(event, eps, method=method).upper * (1 + 1e-9) + 1e-13, (event, eps, method)
            found = epsilon(event, d, method=method).upper
            assert found == math.inf or hockey_stick(p, q, found) <= d * (1 + 1e-9) + 1e-13, (event, d, method)
    with np.errstate(divide="ignore", invalid="ignore"):
        for order in (1.3, 2.0, 7.0):
            kept = p > 0.0
            moment = float((p[kept] * (p[kept] / q[kept]) ** (order - 1)).sum())
            # what is set aside may hold a share of each law: only without it the curve is the pair's
            if event.failure_delta() == 0.0:
                bound = float(event.rdp(np.array([order]))[0])
                assert math.log(moment) / (order - 1) <= bound * (1 + 1e-9) + 1e-12, (event, order)


# Trees with densities: one engine against the other ----------------------------------------

DELTAS = st.sampled_from([1e-2, 1e-4, 1e-7, 1e-12])


def noise(low: float = 0.5, high: float = 30.0) -> st.SearchStrategy[float]:
    return st.floats(math.log(low), math.log(high)).map(math.exp)


SMOOTH = st.one_of(
    st.builds(c.Gaussian, noise()),
    st.builds(c.Laplace, noise()),
    st.builds(c.GaussianDP, noise(0.01, 1.0)),
    st.builds(c.PureDP, noise(0.001, 1.0)),
    st.builds(c.ApproximateDP, noise(0.001, 1.0), st.just(1e-14)),
    st.builds(c.DiscreteLaplace, noise()),
    st.builds(c.DiscreteGaussian, noise()),
    st.builds(c.PermuteAndFlip, noise(0.01, 1.0)),
    st.builds(c.PoissonSampled, noise(1e-4, 0.9), st.builds(c.Gaussian, noise(0.6, 5.0))),
    st.builds(c.PoissonSampled, noise(1e-4, 0.9), st.builds(c.Laplace, noise(0.6, 5.0))),
    st.builds(c.VisibleMixture, noise(0.001, 0.9), st.builds(c.Laplace, noise())),
)
COMPOSED = st.lists(st.tuples(SMOOTH, st.integers(1, 60)), min_size=1, max_size=3).map(lambda parts: compose(*parts))


@deep_examples(4, 50, st.tuples(COMPOSED, DELTAS))
def test_no_bound_is_below_the_lower_bound_of_the_inversion(drawn: tuple[PrivacyEvent, float]) -> None:
    event, at = drawn
    try:
        lower = contour_integral.epsilon(event, at - event.failure_delta(), upper=False)
    except HockeystickError:
        assume(False)
    for method in (None, *METHODS):
        assert lower <= epsilon(event, at, method=method).upper * (1 + 1e-9) + 1e-12, (event, at, method)


# Laws ----------------------------------------


Recipe = Callable[[float, float, int], PrivacyEvent]


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """A tree as a function of how much all noise, all sampling and all counts are multiplied by."""
    kinds = draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    sigma, q, count = draw(noise(1.0, 10.0)), draw(noise(1e-3, 0.4)), draw(st.integers(1, 20))

    def build(more_noise: float, more_sampling: float, more_often: int) -> PrivacyEvent:
        s, p, n = sigma * more_noise, q * more_sampling, count * more_often
        made = {
            0: c.Gaussian(s),
            1: c.Laplace(s),
            2: c.PoissonSampled(p, c.Gaussian(s)),
            3: c.PoissonSampled(p, compose((c.PureDP(1 / s), 2))),
            4: c.VisibleMixture(p, c.BoundedRange(1 / s)),
            5: c.RandomizedResponse(1 / s, 3),
            6: c.PoissonSampled(p, c.Laplace(s)),
        }
        return compose(*((made[kind], n) for kind in kinds))

    return build


@deep_examples(6, 100, st.tuples(recipes(), DELTAS, st.floats(1.01, 2.0)))
def test_cost_falls_with_noise_and_rises_with_everything_else(drawn: tuple[Recipe, float, float]) -> None:
    build, at, factor = drawn
    event = build(1.0, 1.0, 1)
    cost = epsilon(event, at).upper
    larger = [build(1.0, factor, 1), build(1.0, 1.0, 2), build(1 / factor, 1.0, 1)]
    with contextlib.suppress(HockeystickError):
        larger.append(event.at(2))
    for other in larger:
        assert cost <= epsilon(other, at).upper * (1 + 1e-5) + 1e-9, (event, other)


# Native trees: never above what dp-accounting can show, and never below the truth ---------------------------------


def native(relation: Relation) -> st.SearchStrategy[dp_accounting.DpEvent]:
    gaussian = st.builds(dp_accounting.GaussianDpEvent, noise(0.7, 20.0))
    laplace = st.builds(dp_accounting.LaplaceDpEvent, noise(0.7, 20.0))
    response = st.builds(dp_accounting.RandomizedResponseDpEvent, st.floats(0.1, 0.9), st.integers(2, 4))
    q = noise(1e-3, 0.5)
    leaves = {
        Relation.ADD_OR_REMOVE_ONE: [
            gaussian,
            laplace,
            st.builds(dp_accounting.ZCDpEvent, noise(1e-4, 0.1)),
            st.builds(dp_event.DiscreteLaplaceDpEvent, noise(0.05, 1.0), st.integers(1, 3)),
            st.builds(dp_accounting.PoissonSampledDpEvent, q, gaussian),
            st.builds(dp_accounting.PoissonSampledDpEvent, q, laplace),
        ],
        Relation.REPLACE_ONE: [gaussian, response, st.builds(dp_accounting.PoissonSampledDpEvent, q, gaussian)],
    }[relation]
    repeated = st.builds(dp_accounting.SelfComposedDpEvent, st.one_of(leaves), st.integers(1, 12))
    return st.lists(repeated, min_size=1, max_size=2).map(dp_accounting.ComposedDpEvent)


@deep_examples(12, 120, st.tuples(native(Relation.ADD_OR_REMOVE_ONE), DELTAS))
def test_never_above_its_renyi_accountant(drawn: tuple[dp_accounting.DpEvent, float]) -> None:
    event, at = drawn
    theirs = dp_accounting.rdp.RdpAccountant()
    assume(theirs.supports(event))
    assert epsilon(from_dp_event(event), at).upper <= theirs.compose(event).get_epsilon(at) * (1 + 2e-6) + 1e-9


def counts_are_lost(event: dp_accounting.DpEvent) -> bool:
    """B2: dp-accounting's PLD accountant charges a repeated randomised response once."""
    return any(isinstance(one.event, dp_accounting.RandomizedResponseDpEvent) and one.count > 1 for one in event.events)


RELATED = st.sampled_from([Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE]).flatmap(
    lambda relation: st.tuples(st.just(relation), native(relation), st.sampled_from([1e-2, 1e-4, 1e-7]))
)


@deep_examples(5, 24, RELATED)
def test_never_above_its_loss_distribution_accountant(drawn: tuple[Relation, dp_accounting.DpEvent, float]) -> None:
    relation, event, at = drawn
    theirs = dp_accounting.pld.PLDAccountant(relation)
    assume(theirs.supports(event))
    native, mine = theirs.compose(event).get_epsilon(at), from_dp_event(event, relation)
    if counts_are_lost(event):
        assert epsilon(mine, at).upper >= contour_integral.epsilon(mine, at, upper=False) * (1 - 1e-9)
    elif math.isfinite(native):
        assert epsilon(mine, at).upper <= native * (1 + 2e-6) + 1e-9
