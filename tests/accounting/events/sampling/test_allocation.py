"""Tests of random allocation against enumeration of all outcomes and subsets, contour integrals and sampled ratios."""

import functools
import itertools
import math

import mpmath
import numpy as np
import pytest
from spies import spied

from hockeystick.accounting import (
    ZCDP,
    AccountantGraph,
    Adjacency,
    ApproximateDP,
    Bracket,
    DiscretePair,
    Failure,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    Parallel,
    PoissonSampled,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
    compose,
    delta,
    epsilon,
    parallel,
)
from hockeystick.accounting.engines import listed_losses
from hockeystick.accounting.events.sampling.allocation import _merged, coarsened, likened
from hockeystick.accounting.losses.dominating_pairs import Atoms
from hockeystick.accounting.numerics import ratio_sums

PAIRS = {
    "symmetric": ((0.8, 0.2), (0.2, 0.8)),
    "asymmetric": ((0.5, 0.5), (0.1, 0.9)),
    "three": ((0.6, 0.3, 0.1), (0.1, 0.3, 0.6)),
    "revealing": ((0.5, 0.45, 0.05), (0.0, 0.5, 0.5)),
}
EPSILONS = (0.0, 0.2, 0.7)
DIRECTIONS = ("removal", "addition")
LN3 = math.log(3.0)


def low(found: Bracket) -> float:
    assert found.lower is not None
    return found.lower


@functools.cache
def enumerated(p, q, steps):
    """Returns the sums of the probabilities of each outcome over all subsets of each size, by a polynomial."""
    sums = np.ones((1, 1))
    for _ in range(steps):
        longer = np.zeros((len(sums), len(p), sums.shape[1] + 1))
        longer[:, :, :-1] += sums[:, None] * np.array(q)[:, None]
        longer[:, :, 1:] += sums[:, None] * np.array(p)[:, None]
        sums = longer.reshape(-1, longer.shape[-1])
    return sums


def exact(p, q, steps, chosen, eps, direction):
    """With all outcomes, each with the record and without it."""
    sums = enumerated(p, q, steps)
    laws = sums[:, chosen] / math.comb(steps, chosen), sums[:, 0]
    first, second = laws[:: 1 if direction == "removal" else -1]
    return float(np.maximum(first - math.exp(eps) * second, 0.0).sum())


def tied(name):
    p, q = PAIRS[name]
    return DiscretePair(p, q, orientation="tied")


@pytest.mark.parametrize(
    ("name", "steps"),
    [(name, t) for name in PAIRS for t in (2, 3)]
    + [pytest.param("three", 4, marks=pytest.mark.statistical)]
    + [pytest.param(name, t, marks=pytest.mark.deep) for name in PAIRS for t in (4, 5, 6) if (name, t) != ("three", 4)],
)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.every(5)
def test_bounds_are_never_below_all_subsets_and_outcomes_enumerated(name, steps, direction):
    for chosen in range(1, steps + 1):
        event = RandomAllocation(steps, chosen, tied(name), direction)
        for eps in EPSILONS:
            truth = exact(*PAIRS[name], steps, chosen, eps, direction)
            found = delta(event, eps, bracket=True)
            assert found.upper >= truth * (1 - 1e-12)
            assert found.upper <= 1.45 * truth + 1e-9  # of blocks
            if chosen in (1, steps) or len(PAIRS[name][0]) == 2:
                assert low(found) <= truth * (1 + 1e-12) and found.upper - low(found) <= 2e-3 * truth + 1e-12
            if chosen == steps or len(PAIRS[name][0]) == 2:
                assert found.upper == pytest.approx(truth, rel=1e-9, abs=1e-12)


def test_both_directions_count():
    event = RandomAllocation(2, 1, DiscretePair((0.8, 0.2), (0.2, 0.8), orientation="tied"))
    assert delta(event, 0.2).upper == pytest.approx(exact(*PAIRS["symmetric"], 2, 1, 0.2, "addition"), rel=1e-9)
    assert delta(event, 0.2).upper == max(delta(way, 0.2).upper for way in event.directions())


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_poisson_sample_of_the_same_rate_may_cost_less(direction):
    truth = exact(*PAIRS["symmetric"], 2, 1, 0.2, direction)
    poisson = delta(compose((PoissonSampled(0.5, tied("symmetric"), direction), 2)), 0.2).upper
    assert poisson < 0.8 * truth
    assert delta(RandomAllocation(2, 1, tied("symmetric"), direction), 0.2).upper == pytest.approx(truth, rel=1e-9)


def test_orders_that_the_history_may_choose_are_all_covered():
    """One step in each order costs more than both steps in either order: the pair is above both orders at once."""
    p, q, c = np.array([0.4, 0.6]), np.array([0.0, 1.0]), 1.5
    truth = 0.0
    for outcome in itertools.product(range(2), repeat=2):
        without = q[outcome[0]] * p[outcome[1]]
        with_it = (p[outcome[0]] * p[outcome[1]] + q[outcome[0]] * q[outcome[1]]) / 2
        truth += max(without - c * with_it, 0.0)
    assert truth == pytest.approx(0.22, abs=0.005)
    assert delta(RandomAllocation(2, 1, DiscretePair(tuple(p), tuple(q)), "addition"), math.log(c)).upper >= truth
    for tie in (
        DiscretePair(tuple(p), tuple(q), orientation="tied"),
        DiscretePair(tuple(q), tuple(p), orientation="tied"),
    ):
        assert delta(RandomAllocation(2, 1, tie, "addition"), math.log(c)).upper < truth


@pytest.mark.parametrize(
    ("chosen", "whole", "blocks"),
    [(2, 1.1127, 1.117894), (4, 2.4734, 2.534595), (10, 7.746, 8.017275), (19, 19.002, 20.147763)],
)
def test_two_outcomes_are_exact_where_blocks_lose(chosen, whole, blocks):
    event = RandomAllocation(20, chosen, RandomizedResponse(LN3), "removal")
    found = epsilon(event, 1e-3, bracket=True)
    assert found.method == "allocation-exact"
    assert found.upper == pytest.approx(whole, abs=6e-4) and found.upper - low(found) < 1e-8
    size, larger = divmod(20, chosen)
    one = [RandomAllocation(t, 1, RandomizedResponse(LN3), "removal") for t in (size + 1, size)]
    parts = compose((one[0], larger), (one[1], chosen - larger))
    assert epsilon(parts, 1e-3).upper == pytest.approx(blocks, abs=6e-4)


def test_blocks_differ_by_one_step_at_most():
    event = RandomAllocation(11, 4, Gaussian(1.0))
    three, two = (RandomAllocation(t, 1, Gaussian(1.0)) for t in (3, 2))
    assert event.restated() == compose((three, 3), (two, 1)) and event.method == "allocation-blocks"
    assert RandomAllocation(5, 4, Gaussian(1.0)).restated() == compose(two, (Gaussian(1.0), 3))


def test_all_steps_are_the_event_itself():
    for inner in (Gaussian(1.0), Laplace(2.0), ApproximateDP(0.5, 1e-7)):
        assert epsilon(RandomAllocation(1, 1, inner), 1e-5) == epsilon(inner, 1e-5)
        assert epsilon(RandomAllocation(3, 3, inner), 1e-5) == epsilon(compose((inner, 3)), 1e-5)


# Gaussian steps ----------------------------------------


def contour(sigma, steps, eps, direction):
    """E[(κ − S)₊] = (1/2πi)∫ e^{zκ}·φ(z)^t/z² dz on a vertical line, φ the transform of one ratio; no grid."""
    x = np.linspace(-12.0, 12.0, 1501)
    weight, ratio = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0]), np.exp(x / sigma - 0.5 / sigma**2)
    c = math.exp(eps)
    kappa = steps * (1 / c if direction == "addition" else c)
    deviation = math.sqrt(steps * math.expm1(1 / sigma**2))
    z = (1.5 + 1j * np.linspace(0.0, 30.0, 2001)) / deviation
    log_phi = np.array([np.log1p((weight * np.expm1(-s * ratio)).sum()) for s in z])
    terms = (np.exp(z * kappa + steps * log_phi) / z**2).real
    terms[0] /= 2
    below = float(terms.sum()) * abs(z[1] - z[0]) / math.pi / steps
    return c * below if direction == "addition" else below + 1.0 - c


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sigma", "steps", "eps", "direction"),
    [(1.0, 1000, 0.05, "removal"), (1.0, 10, 1.0, "addition")]
    + [pytest.param(1.0, *case, marks=pytest.mark.deep) for case in ((1000, 0.05, "addition"), (10, 1.0, "removal"))],
)
def test_brackets_hold_the_contour_integral(sigma, steps, eps, direction):
    found = delta(RandomAllocation(steps, 1, Gaussian(sigma), direction), eps, bracket=True)
    truth = contour(sigma, steps, eps, direction)
    assert low(found) * (1 - 1e-6) - 1e-11 <= truth <= found.upper * (1 + 1e-6) + 1e-11
    assert found.upper - low(found) <= 0.02 * truth


def sampled(sigma, steps, eps, runs, seed):
    """An interval at confidence 1 − 1e-6 for δ of the removal: E_P[(1 − e^ε/M)₊], by the empirical Bernstein bound."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((runs, steps))
    x[:, 0] += 1 / sigma
    values = np.maximum(1 - math.exp(eps) / np.exp(x / sigma - 0.5 / sigma**2).mean(axis=1), 0.0)
    log = math.log(4 / 1e-6)
    slack = math.sqrt(2 * values.var(ddof=1) * log / runs) + 7 * log / (3 * (runs - 1))
    return values.mean() - slack, values.mean() + slack


@pytest.mark.statistical
def test_a_bound_is_consistent_with_sampled_ratios_and_half_of_it_is_not():
    """False alarms: 1e-6. At 2e5 runs the interval is within a quarter of δ to either side, so half is refuted."""
    least, most = sampled(1.0, 20, 0.5, 200_000, 7)
    found = delta(RandomAllocation(20, 1, Gaussian(1.0), "removal"), 0.5, bracket=True)
    assert found.upper >= least and low(found) <= most
    assert found.upper / 2 < least


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("event", "at", "least", "most"),
    [
        (RandomAllocation(1000, 1, Gaussian(1.0)), 1e-6, 0.17172, 0.17182),
        (compose((RandomAllocation(1000, 1, Gaussian(1.0)), 10)), 1e-6, 0.540006, 0.5405),
        (compose((RandomAllocation(1000, 1, Gaussian(1.0)), 100)), 1e-6, 1.844073, 1.8460),
        (RandomAllocation(10**6, 1, Gaussian(1.0)), 1e-6, 0.003673, 0.003680),
        pytest.param(RandomAllocation(1000, 1, Gaussian(0.5)), 1e-6, 4.1058, 4.1072, marks=pytest.mark.deep),
        pytest.param(RandomAllocation(1000, 1, Gaussian(0.3)), 1e-6, 13.873, 13.8756, marks=pytest.mark.deep),
        pytest.param(RandomAllocation(100, 1, Gaussian(2.0)), 1e-5, 0.1731837, 0.17325, marks=pytest.mark.deep),
        (RandomAllocation(1000, 1, Gaussian(1.0)), 1e-15, 1.50801, 1.5095),
    ],
)
def test_brackets_are_narrow(event, at, least, most):
    found = epsilon(event, at, bracket=True)
    assert least <= found.upper <= most and found.method == "allocation-exact"
    assert found.upper * (1 - 1.1e-3) <= low(found) <= found.upper


@pytest.mark.parametrize("steps", [3, 235])
@pytest.mark.parametrize("sigma", [0.005, 0.02, 0.03, 0.037])
def test_next_to_no_noise_costs_what_the_access_costs_or_a_factor_of_the_steps_less(sigma, steps):
    """The average of the ratios is at least 1/t of that of the record's own step: δ(ε) is at least its δ(ε + ln t)."""
    own = epsilon_of_normals(1 / sigma, 1e-5)
    found = epsilon(RandomAllocation(steps, 1, Gaussian(sigma)), 1e-5, bracket=True)
    assert own - math.log(steps) <= found.upper <= own * (1 + 1e-9)
    assert low(found) <= found.upper


def epsilon_of_normals(mu, at):
    """ε at a δ of normal laws whose means differ by mu, by bisection of the closed form with 60 digits."""
    with mpmath.workdps(60):
        mu, least, most = mpmath.mpf(mu), mpmath.mpf(0), mpmath.mpf(mu) * mu + 40 * mu
        for _ in range(80):
            eps = (least + most) / 2
            above = mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu) > at
            least, most = (eps, most) if above else (least, eps)
        return float(most)


def test_answers_that_are_next_to_certain_cost_what_they_cost_alone():
    for whole in (400.0, 650.0, 5000.0):
        found = epsilon(RandomAllocation(3, 1, RandomizedResponse(whole)), 0.25).upper
        assert whole - LN3 + math.log(0.75) <= found * (1 + 1e-12) and found <= whole


@pytest.mark.statistical
@pytest.mark.parametrize("sigma", [0.05, 0.1])
def test_large_losses_take_few_nodes(sigma, monkeypatch):
    """By losses of many nodes each addition took most of a minute."""
    calls = spied(monkeypatch, ratio_sums, "_pairs")
    own = epsilon_of_normals(1 / sigma, 1e-5)
    event = RandomAllocation(30, 1, Gaussian(sigma))
    found = epsilon(event, 1e-5)
    assert own - math.log(30) <= found.upper <= own
    assert max(len(call.args[0].x) * len(call.args[1].x) for call in calls) < 6e7


@pytest.mark.statistical
def test_more_steps_cost_less_and_fixed_steps_cost_more_than_new_ones():
    costs = [epsilon(RandomAllocation(t, 1, Gaussian(1.5)), 1e-5).upper for t in (1, 2, 5, 20)]
    assert costs == sorted(costs, reverse=True)
    for direction in DIRECTIONS:
        fresh = compose((RandomAllocation(10, 1, Gaussian(1.5), direction), 4))
        fixed = RandomAllocation(10, 1, compose((Gaussian(1.5), 4)), direction)
        assert epsilon(fresh, 1e-5).upper < low(epsilon(fixed, 1e-5, bracket=True))


@pytest.mark.statistical
def test_many_choices_are_blocks_within_some_per_cent_of_a_gaussian_in_all_steps():
    event = RandomAllocation(40, 8, Gaussian(4.0))
    found = epsilon(event, 1e-5, bracket=True)
    assert found.method == "allocation-blocks"
    assert epsilon(RandomAllocation(40, 4, Gaussian(4.0)), 1e-5).upper < found.upper
    assert found.upper < epsilon(compose((Gaussian(4.0), 8)), 1e-5).upper


def profile(losses, p, eps):
    gap = losses - eps
    return float(p[gap > 0] @ -np.expm1(-gap[gap > 0]))


@pytest.mark.statistical
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_coarse_allocations_are_above_the_truth_and_hardly_so(direction):
    event = compose((RandomAllocation(100, 1, Gaussian(1.0), direction), 2), Laplace(9.0))
    light = coarsened(event)
    assert light != event and light.at(1) == light and coarsened(Laplace(9.0)) == Laplace(9.0)
    exact = epsilon(event, 1e-6, bracket=True)
    assert low(exact) < epsilon(light, 1e-6).upper < 1.01 * exact.upper
    assert coarsened(Parallel((event, Laplace(9.0)))) == parallel(light, Laplace(9.0))


def test_allocations_are_likened_to_poisson_samples_of_their_rate():
    event = compose((RandomAllocation(100, 2, Gaussian(1.0)), 3))
    assert likened(compose(event, Laplace(9.0))) == compose((PoissonSampled(0.02, Gaussian(1.0)), 300), Laplace(9.0))
    assert likened(RandomAllocation(5, 5, Gaussian(1.0))) == RandomAllocation(5, 5, Gaussian(1.0))


@pytest.mark.parametrize("step", [1e-4, 0.003, 0.05, 0.4])
def test_the_law_on_a_grid_below_is_below_the_pair_and_near_it(step):
    rng = np.random.default_rng(5)
    losses = np.cumsum(rng.uniform(0.005, 0.03, 200)) - 1.5
    p = np.exp(-0.5 * (losses - 0.4) ** 2) * rng.uniform(0.5, 1.0, 200)
    p /= p.sum()
    law = _merged(Atoms(tuple(losses), tuple(p)), step)
    places = np.concatenate([np.linspace(-3.0, 3.0, 601), law.losses()[law.p > 0] - 1e-9])
    gaps = [profile(losses, p, eps) - profile(law.losses(), law.p, eps) for eps in places]
    assert min(gaps) >= -1e-13
    assert max(gaps) <= 4e-4 + step


def test_both_ends_of_two_outcomes_are_ordered():
    event = RandomAllocation(9, 4, PureDP(0.6), "removal")
    above, below = event.pair(), event.pair_below()
    assert isinstance(above, Atoms) and isinstance(below, Atoms)
    for eps in np.linspace(0.0, 2.0, 21):
        low_end, high_end = listed_losses.delta(below, eps, upper=False), listed_losses.delta(above, eps)
        assert low_end <= high_end <= low_end * (1 + 1e-8) + 1e-12


# What is refused ----------------------------------------


@pytest.mark.parametrize(
    ("steps", "chosen", "argument"),
    [(0, 1, "steps"), (3, 0, "chosen"), (3, 4, "chosen"), (2.5, 1, "steps"), (3, 1.5, "chosen"), (True, 1, "steps")],
)
def test_counts_that_make_no_sense_are_refused(steps, chosen, argument):
    with pytest.raises(InvalidArgumentError, match=f"^{argument}="):
        RandomAllocation(steps, chosen, Gaussian(1.0))


def test_an_event_without_a_profile_is_refused_with_a_way_out():
    with pytest.raises(UnsupportedEventError, match="PrivacyProfile"):
        RandomAllocation(10, 1, ZCDP(0.1))
    assert epsilon(RandomAllocation(2, 2, ZCDP(0.1)), 1e-5) == epsilon(compose((ZCDP(0.1), 2)), 1e-5)


def test_failures_of_the_chosen_steps_add_up():
    failing = compose(RandomizedResponse(0.5), Failure(1e-3))
    for steps, chosen in ((10, 1), (10, 3), (4, 4)):
        event = RandomAllocation(steps, chosen, failing)
        assert event.failure_delta() == pytest.approx(chosen * 1e-3, rel=1e-12)
        assert delta(event, 10.0).upper >= chosen * 1e-3 * (1 - 1e-12)
    revealing = RandomAllocation(10, 1, ApproximateDP(1.0, 1e-3), "removal")
    assert delta(revealing, 1.0).upper >= 1e-3 * (1 - 1e-9)


def test_replaced_records_are_charged_by_two_moves_and_groups_by_chains():
    event = RandomAllocation(3, 1, RandomizedResponse(1.0))
    graph = AccountantGraph(adjacency=Adjacency.REPLACE_ONE).source("people")
    with pytest.raises(UnsupportedAdjacencyError):
        graph.release("steps", event, reads=["people"]).guarantee()
    allowed = AccountantGraph(adjacency=Adjacency.ADD_OR_REMOVE_ONE).source("people")
    allowed = allowed.release("steps", RandomAllocation(3, 1, PureDP(1.0)), reads=["people"])
    one = allowed.guarantee().epsilon(1e-5).upper
    assert allowed.guarantee(group=2).epsilon(1e-5).upper > one
    with pytest.raises(UnsupportedEventError, match="steps of their own"):
        event.replaced(1, 1)
