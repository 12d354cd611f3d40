"""The best predicate in hindsight: against all labellings of the class, ties and several runs included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.measures.base_measure import UniformCube
from hockeystick.learners.smoothed.online.hindsight import least_errors

CLASSES: list[ConceptClass] = [
    Thresholds(),
    Intervals(),
    Rectangles(1),
    Rectangles(2),
    Rectangles(3),
    Halfspaces(1),
    Halfspaces(2),
]


@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("concepts", CLASSES, ids=lambda c: f"{type(c).__name__}{c.dimension}")
@given(st.integers(1, 9), st.integers(0, 10**6))
def test_least_errors_are_those_of_the_best_labelling(concepts: ConceptClass, rounds: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 4, (3, rounds, concepts.dimension)).astype(float)  # ties are common
    labels = rng.random((3, rounds)) < rng.random()
    found = least_errors(concepts, points, labels)
    for run in range(3):
        ways, _ = concepts.labelings(points[run])
        assert found[run] == (ways != labels[run]).sum(axis=1).min()
        assert least_errors(concepts, points[run], labels[run])[0] == found[run]


def test_a_finite_part_of_the_class_is_too_easy_to_beat() -> None:
    """M22: regret against the cover, not the class, hides what a coarse cover leaves out."""
    concepts, x = Thresholds(), np.linspace(0.4, 0.6, 201)
    labels = x >= 0.5  # the cover of mass 0.25 has 0.25 and 0.75
    cover = concepts.cover(0.25, UniformCube(1))
    assert int((cover.predict(x) != labels).sum(axis=1).min()) >= 100
    assert least_errors(concepts, x[:, None], labels)[0] == 0


def test_bad_input_is_refused() -> None:
    for points, labels in (([[0.1]], [1]), ([[0.1]], [True, False]), ([[np.nan]], [True]), ([[0.1, 0.2]], [True])):
        with pytest.raises(InvalidArgumentError):
            least_errors(Thresholds(), points, labels)
    with pytest.raises(InvalidArgumentError, match="too many"):
        least_errors(Rectangles(2), np.random.default_rng(0).random((1025, 2)), np.ones(1025, dtype=bool))
