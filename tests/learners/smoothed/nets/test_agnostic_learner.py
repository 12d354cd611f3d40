"""Errors as queries, and learning from a private net of labelled pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import BoundedRange, InvalidArgumentError
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass
from hockeystick.learners.smoothed.classes.error_queries import ErrorQueries, LabelledMeasure, labelled_points
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, UniformCube, UniformGrid
from hockeystick.learners.smoothed.nets.agnostic_learner import AgnosticLearner, best_predicate, error
from hockeystick.learners.smoothed.nets.net_bounds import choice_error, domain_size
from hockeystick.learners.smoothed.nets.subsampled_net import SubsampledNet, small_db
from hockeystick.mechanisms.randomness.noise import SimulationNoise

GRID = np.arange(5) / 4


def noisy(records: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Points on the grid, labels of the threshold 1/2, one in ten of them wrong."""
    rng = np.random.default_rng(seed)
    points = rng.choice(GRID, records)
    return points, (points >= 0.5) ^ (rng.random(records) < 0.1)


def learner(records: int, epsilon: float = 4.0, size: int = 8) -> AgnosticLearner:
    domain = labelled_points(np.repeat(GRID, 2), np.tile([0, 1], len(GRID)))
    return AgnosticLearner(
        net=small_db(ErrorQueries(Thresholds()), domain, size=size, epsilon=epsilon, records=records)
    )


def test_the_excess_error_is_at_most_twice_the_largest_gap() -> None:
    """Thresholds under 10 % label noise: in every run, and alpha itself below its bound, 1 run in 10^4 exempt.

    The law's own part of alpha is that of the best net, found by enumeration. The mutant that takes the predicate of
    *most* error breaks the first.
    """
    points, labels = noisy(2000, 1)
    found, pairs = learner(2000), labelled_points(points, labels)
    places = found.net.simulate(pairs, np.random.default_rng(2), 300)
    learned, alpha = found.learned(places), found.net.largest_error(places, pairs)
    least = best_predicate(Thresholds(), points, labels)[1]
    excess = error(Thresholds(), learned, points, labels) - least
    assert (excess >= -1e-12).all() and (excess <= 2 * alpha + 1e-12).all()
    best = found.net.largest_error(found.net.candidates(), pairs).min()
    cost = choice_error(log_candidates=math.log(found.net.multisets), records=2000, epsilon=4.0, failure=1e-8)
    assert alpha.max() <= best + cost  # false alarm 300 * 1e-8, by a union bound
    assert np.mean(excess) < 0.05 and least == pytest.approx(0.1, abs=0.03)
    wrong = [
        best_predicate(Thresholds(), found.net.domain[row][:, 0], 1.0 - found.net.domain[row][:, 1])[0]
        for row in places[:20]
    ]
    worse = error(Thresholds(), wrong, points, labels) - least
    assert (worse > 2 * alpha[:20]).any()


def test_learning_is_free() -> None:
    made = learner(50)
    assert made.event() == BoundedRange(4.0)
    assert made.graph().guarantee().epsilon(0.0).upper == made.net.graph().guarantee().epsilon(0.0).upper
    points, labels = noisy(50, 3)
    release = made.release(points, labels, noise=SimulationNoise(1))
    pairs = release.net.points
    found = error(Thresholds(), release.parameters[None], pairs[:, 0], pairs[:, 1])[0]
    assert found == best_predicate(Thresholds(), pairs[:, 0], pairs[:, 1])[1]
    simulated = made.simulate(points, labels, np.random.default_rng(1), 5)
    assert simulated.shape == (5, 1)


def test_pairs_are_planned_for_half_the_smoothness() -> None:
    made = AgnosticLearner.draw(
        Thresholds(), UniformCube(1), np.random.default_rng(1), sigma=0.5, accepted=8, size=2, epsilon=1.0, records=9
    )
    assert len(made.net.domain) == domain_size(8, 0.25) == 2 * domain_size(8, 0.5)
    assert set(made.net.domain[:, 1]) == {0.0, 1.0}


CLASSES = [Thresholds(), Intervals(), Rectangles(2)]


@given(seed=st.integers(0, 2**32 - 1), which=st.sampled_from(CLASSES), n=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_errors_are_a_class_of_their_own(seed: int, which: ConceptClass, n: int) -> None:
    """Predictions, labelings, consistency, gaps and the best predicate, against brute force over all labelings."""
    rng = np.random.default_rng(seed)
    queries, d = ErrorQueries(which), which.dimension
    pairs = labelled_points(rng.integers(0, 4, (n, d)), rng.integers(0, 2, n))
    held, witnesses = which.labelings(pairs[:, :-1])
    errors = held != (pairs[:, -1] == 1.0)
    assert (queries.predict(witnesses, pairs) == errors).all()
    assert {tuple(row) for row in queries.labelings(pairs)[0]} == {tuple(row) for row in errors}
    found = queries.consistent(pairs, errors[-1])
    assert found is not None and (queries.predict(found[None], pairs)[0] == errors[-1]).all()
    first, second = rng.integers(0, 5, n), rng.integers(0, 5, n)
    assert queries.max_gap(pairs, first, second) == np.abs(errors @ (first - second)).max()
    parameters, least = best_predicate(which, pairs[:, :-1], pairs[:, -1], first + 1.0)
    weights = (first + 1.0) / (first + 1.0).sum()
    assert least == pytest.approx((errors @ weights).min())
    assert queries.predict(parameters[None], pairs)[0] @ weights == pytest.approx(least)


@pytest.mark.parametrize("concepts", CLASSES)
def test_covers_and_brackets_carry_over(concepts: ConceptClass) -> None:
    """Under mu x Unif: the same sizes, gaps of at most gamma, sandwiches everywhere."""
    base = UniformGrid((12,) * concepts.dimension)
    measure, queries, rng = LabelledMeasure(base), ErrorQueries(concepts), np.random.default_rng(1)
    pairs = measure.sample(rng, 1000)
    assert queries.vc_dimension == concepts.vc_dimension
    cover = queries.cover(0.4, measure)
    assert cover.size == concepts.cover(0.4, base).size and cover.gamma == 0.4
    corners = np.sort(rng.random((30, 2, concepts.dimension)), axis=1)
    rows = corners[:, 0] if concepts == Thresholds() else corners.reshape(30, -1)
    # On the whole domain, exactly.
    axes = np.meshgrid(*([np.arange(12) / 11] * concepts.dimension), [0.0, 1.0], indexing="ij")
    domain = np.stack([axis.ravel() for axis in axes], axis=1)
    nearest = cover.parameters[cover.nearest(rows)]
    gap = (queries.predict(rows, domain) != queries.predict(nearest, domain)).mean(axis=1)
    assert gap.max() <= 0.4 + 1e-12
    brackets = queries.brackets(0.6, measure)
    assert brackets.width <= 0.6 + 1e-12 and brackets.count == concepts.brackets(0.6, base).count
    index = brackets.index(rows)
    low, high = brackets.lower.contains(pairs, index), brackets.upper.contains(pairs, index)
    inside = queries.predict(rows, pairs)
    assert (low <= inside).all() and (inside <= high).all()
    whole = brackets.lower.contains(domain, index) != brackets.upper.contains(domain, index)
    assert whole.mean(axis=1).max() <= 0.6 + 1e-12


def test_the_labelled_measure_is_a_base_measure() -> None:
    measure = LabelledMeasure(ListedMeasure([[0.0, 1.0], [1.0, 0.0]], [0.25, 0.75]))
    assert measure.dimension == 3 and measure.atoms and measure.support_size == 4 and not measure.independent
    assert measure.box_mass([0.0, 0.0, 1.0], [0.5, 2.0, 1.0]) == pytest.approx(0.125)
    assert measure.cdf(2, [0.0, 1.0]) == pytest.approx([0.5, 1.0]) and measure.cdf(0, 0.5) == pytest.approx(0.25)
    assert measure.quantile(2, [0.5, 0.6]).tolist() == [0.0, 1.0]
    sample = measure.sample(np.random.default_rng(1), 20_000)
    assert sample.shape == (20_000, 3)
    assert abs(sample[:, 2].mean() - 0.5) < 5 / math.sqrt(20_000)  # more than 9 deviations
    assert LabelledMeasure(UniformCube(1)).support_size is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: labelled_points([0.1, 0.2], [0, 2]),
        lambda: labelled_points([0.1, 0.2], [0]),
        lambda: labelled_points([0.1, 0.2], [0.0, math.nan]),
        lambda: best_predicate(Thresholds(), [0.1, math.nan], [0, 1]),
        lambda: best_predicate(Thresholds(), [0.1], [1], [0.0]),
        lambda: best_predicate(Thresholds(), [0.1], [1], [-1.0]),
        lambda: ErrorQueries("thresholds"),
        lambda: LabelledMeasure(0.5),
        lambda: ErrorQueries(Thresholds()).cover(0.1, UniformCube(2)),
        lambda: ErrorQueries(Thresholds()).predict([[0.5]], [[0.5, 0.5]]),
        lambda: AgnosticLearner(net=SubsampledNet(concepts=Thresholds(), domain=[0.1], size=1, epsilon=1.0, records=1)),
    ],
)
def test_bad_arguments_are_refused(call: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        call()
