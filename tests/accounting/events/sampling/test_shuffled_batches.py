"""Tests of shuffled batches: what is certified, what is known to be needed, and that Poisson's numbers are refuted."""

import math

import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    Bracket,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    PoissonSampled,
    ShuffledBatches,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
    compose,
    delta,
    epsilon,
)


def low(found: Bracket) -> float:
    assert found.lower is not None
    return found.lower


@pytest.mark.parametrize(
    ("sigma", "steps", "shown", "certified"),
    [
        (1.0, 1000, 3.7239, 4.8866),
        (0.8, 1000, 6.0446, 6.3121),
        (0.5, 1000, 10.9969, 10.9972),
        (2.0, 100, 0.7152, 2.2541),
        (0.4, 100_000, 14.4507, 14.4508),
    ],
)
def test_one_access_an_epoch_is_certified_and_the_known_lower_bound_is_below(sigma, steps, shown, certified):
    event = ShuffledBatches(1, steps, Gaussian(sigma))
    found = epsilon(event, 1e-6, bracket=True)
    assert found.method == "shuffle-no-amplification"
    assert found.upper == pytest.approx(certified, abs=6e-5) and found.upper == epsilon(Gaussian(sigma), 1e-6).upper
    assert event.lower_bound(1e-6) == pytest.approx(shown, abs=6e-5) and event.lower_bound(1e-6) <= low(found)


def test_epochs_compose():
    event = ShuffledBatches(7, 100, Gaussian(3.0))
    assert epsilon(event, 1e-5).upper == epsilon(compose((Gaussian(3.0), 7)), 1e-5).upper
    mixed = compose(event, Gaussian(2.0))
    assert epsilon(mixed, 1e-5) == epsilon(compose((Gaussian(3.0), 7), Gaussian(2.0)), 1e-5)
    laplace = ShuffledBatches(3, 100, Laplace(2.0))
    assert delta(laplace, 0.5).upper == delta(compose((Laplace(2.0), 3)), 0.5).upper


def test_the_lower_bound_falls_with_delta_and_with_steps():
    event = ShuffledBatches(1, 100, Gaussian(1.0))
    values = [event.lower_bound(at) for at in (1e-8, 1e-5, 1e-2, 1.0)]
    assert values == sorted(values, reverse=True) and values[-1] == 0.0
    by_steps = [ShuffledBatches(1, t, Gaussian(1.0)).lower_bound(1e-5) for t in (1, 10, 1000)]
    assert by_steps == sorted(by_steps, reverse=True)
    assert by_steps[0] <= epsilon(Gaussian(1.0), 1e-5).upper


@pytest.mark.parametrize(("sigma", "epochs"), [(1.0, 2), (2.0, 9), (0.7, 100)])
def test_of_one_step_an_epoch_the_lower_bounds_are_nearly_exact(sigma, epochs):
    event = ShuffledBatches(epochs, 1, Gaussian(sigma))
    certified = epsilon(event, 1e-6).upper
    for order in ("new", "same"):
        assert (1 - 2e-3) * certified < event.lower_bound(1e-6, order=order) <= certified


@pytest.mark.parametrize(("sigma", "steps", "at"), [(1.0, 1000, 1e-6), (2.0, 30, 1e-5), (0.6, 100, 1e-3)])
def test_two_epochs_are_known_to_need_what_all_pairs_of_largest_outputs_show(sigma, steps, at):
    levels = np.linspace(0.3, 2.0 + 9.0 * sigma, 1500)

    def masses(shift):
        cdf = stats.norm.cdf(levels / sigma) ** (steps - 1) * stats.norm.cdf((levels - shift) / sigma)
        return np.diff(cdf, prepend=0.0, append=1.0).clip(0.0)

    found = ShuffledBatches(2, steps, Gaussian(sigma)).lower_bound(at, order="new")
    p, q = (np.multiply.outer(m, m) for m in map(masses, (2.0, 1.0)))
    shown = [float(np.maximum(p - math.exp(found * factor) * q, 0.0).sum()) for factor in (0.995, 1.0, 1.005)]
    assert shown[0] > at > shown[2] and shown[1] == pytest.approx(at, rel=0.03)
    assert found > ShuffledBatches(1, steps, Gaussian(sigma)).lower_bound(at)


def test_the_order_of_epochs_matters_and_the_smaller_bound_is_for_either():
    event = ShuffledBatches(10, 1000, Gaussian(1.0))
    new, same = (event.lower_bound(1e-6, order=order) for order in ("new", "same"))
    assert event.lower_bound(1e-6) == new < same == pytest.approx(19.42366, abs=1e-5)
    assert same <= epsilon(event, 1e-6).upper
    assert same == pytest.approx(ShuffledBatches(1, 1000, Gaussian(1.0 / math.sqrt(10))).lower_bound(1e-6), rel=1e-9)
    assert ShuffledBatches(2**40, 1000, Gaussian(1.0)).lower_bound(1e-6) >= 3.7238
    assert event.lower_bound(0.0) >= 0.0 and event.lower_bound(1.0) == 0.0
    with pytest.raises(InvalidArgumentError, match="order='both'"):
        event.lower_bound(1e-6, order="both")


@pytest.mark.statistical
def test_steps_of_shuffled_batches_refute_what_poisson_samples_would_cost():
    """The others' gradients are −1, the record's is 1 or 0. False alarms: 1e-6; the planted δ is 0.335 against 0.01."""
    rng, runs, steps, sigma, threshold = np.random.default_rng(3), 10_000, 100, 0.5, 2.014
    counts = []
    for shift in (2.0, 1.0):
        outputs = sigma * rng.standard_normal((runs, steps))
        outputs[:, 0] += shift
        counts.append(int((outputs.max(axis=1) > threshold).sum()))
    least = stats.beta.ppf(5e-7, counts[0], runs - counts[0] + 1)
    most = stats.beta.ppf(1 - 5e-7, counts[1] + 1, runs - counts[1])
    poisson = compose((PoissonSampled(1 / steps, Gaussian(sigma)), steps))
    claimed = epsilon(poisson, 0.01).upper
    assert claimed == pytest.approx(1.8655, abs=1e-3)
    assert least - math.exp(claimed) * most > 0.01
    shuffled = ShuffledBatches(1, steps, Gaussian(sigma))
    assert least - math.exp(claimed) * most <= delta(shuffled, claimed).upper
    assert shuffled.lower_bound(0.01) > claimed


def test_relations_are_those_that_keep_the_others_in_their_places():
    event = ShuffledBatches(2, 10, Gaussian(2.0))
    with pytest.raises(UnsupportedAdjacencyError):
        AccountantGraph(adjacency=Adjacency.ADD_OR_REMOVE_ONE).source("people").release(
            "steps", event, reads=["people"]
        ).guarantee()
    graph = AccountantGraph(adjacency=Adjacency.REPLACE_WITH_NULL).source("people")
    graph = graph.release("steps", event, reads=["people"])
    assert graph.guarantee().epsilon(1e-5).upper == epsilon(event, 1e-5).upper
    assert event.replaced(1, 1) == ShuffledBatches(2, 10, Gaussian(1.0))
    assert event.at(2) == ShuffledBatches(2, 10, Gaussian(1.0))  # two records of one batch


@pytest.mark.parametrize("count", [0, -1, 1.5, True, None])
def test_counts_that_make_no_sense_are_refused(count):
    with pytest.raises(InvalidArgumentError, match="^epochs="):
        ShuffledBatches(count, 10, Gaussian(1.0))
    with pytest.raises(InvalidArgumentError, match="^steps="):
        ShuffledBatches(1, count, Gaussian(1.0))


def test_a_lower_bound_is_known_for_gaussian_noise_alone():
    with pytest.raises(UnsupportedEventError, match="Gaussian"):
        ShuffledBatches(1, 10, Laplace(1.0)).lower_bound(1e-5)
    with pytest.raises(InvalidArgumentError, match="^delta="):
        ShuffledBatches(1, 10, Gaussian(1.0)).lower_bound(2.0)
