"""Tests of truncated Poisson samples under every relation, against the mechanism itself: all samples, all ways to
truncate them.

The oracle lists who joins, averages over the subsets that stay, and has the law of the noisy sum as a mixture of normal
laws. A likelihood ratio of two of them changes sides at few points, so hockey sticks are sums of normal probabilities.
"""

import functools
import itertools
import math

import dp_accounting
import numpy as np
import pytest
from divergences import renyi
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from scipy import optimize, special

from hockeystick.accounting import (
    Accountant,
    AccountantGraph,
    Adjacency,
    Gaussian,
    PoissonSampledReplace,
    TruncatedPoissonSampled,
    TruncatedPoissonSampledNull,
    TruncatedPoissonSampledReplace,
    UnsupportedEventError,
    compose,
    delta,
    epsilon,
    from_dp_event,
)

Relation = dp_accounting.NeighboringRelation
Truncated = dp_accounting.TruncatedSubsampledGaussianDpEvent
ALPHAS = (0.6, 1.0, 1.15, 1.6, 3.0)


def output(data, rate, batch):
    """Returns the law of the truncated sample's sum, {sum: probability}; records may take up a place in the batch."""
    (values, places), law = data, dict[float, float]()
    for joined in itertools.product([False, True], repeat=len(values)):
        chance = math.prod(rate if j else 1 - rate for j in joined)
        sample = [v for v, j, place in zip(values, joined, places, strict=True) if j and place]
        cuts = list(itertools.combinations(sample, min(batch, len(sample))))
        for cut in cuts:
            law[sum(cut)] = law.get(sum(cut), 0.0) + chance / len(cuts)
    return law


def density(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def hockey_stick(p, q, alpha, sigma):
    """∫ (P − α·Q)₊ for mixtures of normal laws."""

    def excess(x, tail=density):
        return sum(w * tail((x - m) / sigma) for m, w in p.items()) - alpha * sum(
            w * tail((x - m) / sigma) for m, w in q.items()
        )

    grid = np.linspace(-8 - 9 * sigma, 8 + 9 * sigma, 601)
    height = excess(grid)
    turns = [
        optimize.brentq(excess, a, b, xtol=1e-13)
        for a, b, u, v in zip(grid, grid[1:], height, height[1:], strict=False)
        if u * v < 0
    ]
    cdf = functools.partial(excess, tail=special.ndtr)
    at = [0.0, *map(cdf, turns), 1.0 - alpha]
    return math.fsum(max(0.0, b - a) for a, b in itertools.pairwise(at))


def masses(law, sigma):
    """On a grid that is fine enough for sums of analytic integrands to be exact to round-off."""
    x = np.arange(-8 - 12 * sigma, 8 + 12 * sigma, sigma / 8)
    return sum(w * density((x - m) / sigma) for m, w in law.items()) / 8


@functools.cache
def profile(event, alpha):
    """δ at ln α, for α < 1 too."""
    if alpha >= 1.0:
        return delta(event, math.log(alpha)).upper
    if len(event.directions()) == 1 and hasattr(event, "direction"):
        event = event.towards("addition" if event.direction == "removal" else "removal")
    return 1.0 - alpha + alpha * delta(event, -math.log(alpha)).upper


def worlds(count, relation):
    """Returns the two data sets, as values and who takes up places, with the changed record first and the worst
    others."""
    for others in ([-1.0] * (count - 1), [1.0] * (count - 1), [1.0, -1.0, 1.0, -1.0][: count - 1]):
        held, here = [1.0, *others], [True] * count
        if relation is Relation.REPLACE_ONE:
            for other in (-1.0, 0.0):
                yield (held, here), ([other, *others], here)
                yield ([other, *others], here), (held, here)
        else:  # no record, or a null record that takes up a place
            yield (held, here), ([0.0, *others], [False, *here[1:]])
            if relation is Relation.REPLACE_SPECIAL:
                yield (held, here), ([0.0, *others], here)


EVENTS = {
    Relation.ADD_OR_REMOVE_ONE: TruncatedPoissonSampled,
    Relation.REPLACE_ONE: TruncatedPoissonSampledReplace,
    Relation.REPLACE_SPECIAL: TruncatedPoissonSampledNull,
}


@pytest.mark.statistical
@pytest.mark.parametrize("relation", EVENTS)
@pytest.mark.parametrize(
    "count, rate, batch, sigma",
    [
        (4, 0.4, 2, 0.6),
        pytest.param(3, 0.5, 1, 1.0, marks=pytest.mark.deep),
        pytest.param(5, 0.8, 3, 1.5, marks=pytest.mark.deep),
    ],
)
def test_no_truncated_sample_exceeds_its_bound(relation, count, rate, batch, sigma):
    event = EVENTS[relation](count, rate, batch, sigma)
    ways = event.directions()
    assert len(ways) == (1 if relation is Relation.REPLACE_ONE else 2)
    largest, orders = {alpha: 0.0 for alpha in ALPHAS}, np.array([1.01, 1.5, 2.0, 5.0])
    curves = [way.rdp(orders) for way in ways]
    for first, second in worlds(count, relation):
        p, q = output(first, rate, batch), output(second, rate, batch)
        one, other = masses(p, sigma), masses(q, sigma)
        assert (renyi(one, other, orders) <= curves[0] + 1e-9).all()
        assert (renyi(other, one, orders) <= curves[-1] + 1e-9).all()
        for alpha in ALPHAS:
            truth = hockey_stick(p, q, alpha, sigma)
            largest[alpha] = max(largest[alpha], truth)
            assert truth <= profile(ways[0], alpha) + 1e-9
            assert hockey_stick(q, p, alpha, sigma) <= profile(ways[-1], alpha) + 1e-9
    assert largest[1.6] > 0.4 * profile(ways[0], 1.6)  # others hide, on a line, where the record is


@pytest.mark.statistical
@pytest.mark.parametrize("relation", EVENTS)
def test_dp_accounting_is_never_below_the_truth_nor_far_below_us(relation):
    """Its second case is a replacement at twice the shift under every relation: an upper bound."""
    count, rate, batch, sigma = 4, 0.4, 2, 1.0
    theirs = privacy_loss_distribution.from_truncated_subsampled_gaussian_mechanism(
        count, rate, batch, sigma, neighboring_relation=relation, value_discretization_interval=1e-3
    )
    ours = EVENTS[relation](count, rate, batch, sigma)
    laws = [tuple(output(data, rate, batch) for data in world) for world in worlds(count, relation)]
    for alpha in (1.0, 1.15, 1.6, 3.0):
        found = theirs.get_delta_for_epsilon(math.log(alpha))
        for p, q in laws:
            assert max(hockey_stick(p, q, alpha, sigma), hockey_stick(q, p, alpha, sigma)) <= found + 1e-9
        assert delta(ours, math.log(alpha)).upper <= found + 1e-7


@pytest.mark.statistical
def test_two_steps_may_have_opposite_directions():
    """Replace-one has no direction: the record whose vector is up in one step may be down in the next."""
    count, rate, batch, sigma = 3, 0.5, 1, 1.0
    held, other = (output((v, [True] * 3), rate, batch) for v in ([1.0, -1.0, -1.0], [-1.0] * 3))
    x = np.linspace(-9, 9, 1501)
    p, q = (sum(w * density((x - m) / sigma) / sigma for m, w in law.items()) for law in (held, other))
    event = compose((TruncatedPoissonSampledReplace(count, rate, batch, sigma), 2))
    area = (x[1] - x[0]) ** 2
    for e in (0.2, 0.8, 2.0):
        found = delta(event, e).upper
        for second in ((p, q), (q, p)):
            gap = np.outer(p, second[0]) - math.exp(e) * np.outer(q, second[1])
            assert np.maximum(gap, 0.0).sum() * area <= found + 1e-5


@pytest.mark.statistical
@pytest.mark.parametrize("relation", EVENTS)
def test_native_events_have_a_meaning_under_every_relation(relation):
    native = Truncated(1000, 0.01, 20, 5.0)
    assert from_dp_event(native, relation) == EVENTS[relation](1000, 0.01, 20, 5.0)
    ours = Accountant(neighboring_relation=relation).compose(native, 2).get_epsilon(1e-5)
    theirs = PLDAccountant(neighboring_relation=relation).compose(native, 2).get_epsilon(1e-5)
    assert 0.9 * theirs < ours <= theirs * (1 + 1e-6)


def test_a_sample_that_is_never_truncated_is_a_poisson_sample():
    event = TruncatedPoissonSampledReplace(100, 0.1, 100, 1.0)
    exact = epsilon(PoissonSampledReplace(0.1, Gaussian(1.0)), 1e-5, bracket=True).lower
    assert exact is not None and exact <= epsilon(event, 1e-5).upper <= exact * (1 + 1e-5)
    orders = np.array([1.5, 4.0, 32.0])
    assert event.rdp(orders) == pytest.approx(PoissonSampledReplace(0.1, Gaussian(1.0)).rdp(orders), rel=1e-9)


def test_a_graph_under_add_or_remove_answers_a_replacement():
    """From a graph that is stated under add-or-remove-one."""
    event = TruncatedPoissonSampled(50, 0.1, 6, 2.0)
    graph = AccountantGraph().source("s").release("r", event, reads=["s"], count=3)
    (move,) = graph.guarantee(under=Adjacency.REPLACE_ONE).moves
    assert move.event() == compose((TruncatedPoissonSampledReplace(50, 0.1, 6, 2.0), 3))


@pytest.mark.parametrize("kind", EVENTS.values())
def test_groups_are_refused_with_a_remedy(kind):
    with pytest.raises(UnsupportedEventError, match="no rule for 2 records, .* PoissonSampled"):
        kind(50, 0.1, 6, 2.0).at(2)
    assert kind(50, 0.1, 6, 2.0).at(0.5) == kind(50, 0.1, 6, 2.0)
