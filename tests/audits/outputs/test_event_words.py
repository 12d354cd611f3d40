"""Events in words: the printed event is the counted one, in few digits, and by the names of the output's parts."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.audits import Claim, audit
from hockeystick.audits.outputs.cells import Intervals, ordinal
from hockeystick.audits.outputs.features import Coordinate, Projection, Scored, Statistic
from hockeystick.audits.outputs.reading import Layout

ONE = Layout(("number", "float64"), ("f8",))
PAIR = Layout(("of", "dict", ("count", "total"), ("number", "float64"), ("number", "float64")), ("f8", "f8"))
COMPARE: dict[str, Any] = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal}
NUMBERS = st.sampled_from(
    [-1e300, -2.5, -5e-324, 0.0, 5e-324, 1e-7, 0.1, 1 / 3, 1.0, 1.0000001, 12.4, 1234567.0, 1e300]
)


def happens(words: str, values: np.ndarray, name: str = "output") -> np.ndarray:
    """Returns in which outputs an event happens, from its words."""
    found = np.zeros(len(values), dtype=bool)
    for part in words.split(" or "):
        inside = np.ones(len(values), dtype=bool)
        tokens = part.split(f"{name}")
        assert len(tokens) == 2, part
        if match := re.fullmatch(r"(\S+) (<=?) ", tokens[0]):
            inside &= COMPARE[match[2]](float(match[1]), values)
        if match := re.fullmatch(r" (<=?|>=?|=) (\S+)", tokens[1]):
            inside &= COMPARE[match[1]](values, float(match[2]))
        else:
            assert tokens[1] == " is any number", part
        found |= inside
    return found


@settings(max_examples=200)
@given(st.lists(NUMBERS, min_size=1, max_size=6, unique=True), st.data())
def test_the_exact_words_are_the_event(edges: list[float], data: st.DataObject) -> None:
    """Of numbers next to the edges, and of the edges; -0.0 counts as 0.0 in words."""
    keys = ordinal(np.sort(np.array(edges)))
    keys = np.union1d(keys, keys + 1) if data.draw(st.booleans()) else keys  # values that are cells of their own
    cells = Intervals(Statistic("sum"), keys)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=cells.cells, max_size=cells.cells)))
    if not chosen.any():
        return
    values = np.array(edges)
    values = np.concatenate([values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf), [0.5, -7.0]]) + 0.0

    words = cells.words(chosen, ONE, exact=True).replace("the sum of the output", "output")

    assert np.array_equal(happens(words, values), chosen[cells.index(ordinal(values))])


@settings(max_examples=100)
@given(st.lists(NUMBERS, min_size=1, max_size=6, unique=True), st.data())
def test_rounded_words_stay_between_the_edges(edges: list[float], data: st.DataObject) -> None:
    """Every edge's number is on the right side of the other edges, so that no other cell moves in or out."""
    edges = sorted(edges)
    keys = ordinal(np.array(edges))
    cells = Intervals(Statistic("sum"), keys)
    middles = np.array([edges[0] - 1, *[a + (b - a) / 2 for a, b in itertools.pairwise(edges)], edges[-1] * 2 + 1])
    place = cells.index(ordinal(middles + 0.0))
    for cell in range(cells.cells):
        chosen = np.arange(cells.cells) == cell
        words = cells.words(chosen, ONE).replace("the sum of the output", "output")
        for other, value in zip(place, middles, strict=True):
            if abs(other - cell) > 1:  # of the cells beside it, an edge may be off in the seventh digit
                assert not happens(words, np.array([value]))[0]


@pytest.mark.parametrize(
    ("feature", "edges", "cell", "words"),
    [
        (Statistic("range"), [5e-324], 0, "the range of the output = 0"),
        (Statistic("range"), [5e-324], 1, "the range of the output > 0"),
        (Statistic("sum"), [5e-324], 0, "the sum of the output <= 0"),
        (Statistic("sum"), [0.0], 1, "the sum of the output >= 0"),
        (Coordinate(0), [0.0], 1, "output >= +0.0"),  # -0.0 is on the other side
        (Coordinate(0), [-0.0], 1, "output >= 0"),
        (Coordinate(0), [5e-324], 1, "output > 0"),
        (Coordinate(0), [1.0, np.nan], 2, "output = nan"),
        (Coordinate(0), [1.0, np.nan], 1, "1 <= output <= inf"),
        (Coordinate(0), [1.4111987], 1, "output >= 1.4112"),
        (Coordinate(0), [1.0, np.nextafter(1.0, 2)], 1, "output = 1"),
        (Coordinate(0), [1.0, np.nextafter(1.0, 2)], 2, "output > 1"),
        (Coordinate(0), [np.nextafter(1.0, 2), 3.0], 1, "1 < output < 3"),
        (Coordinate(0), [1.00000001, 1.00000002], 1, "1.00000001 <= output < 1.00000002"),
    ],
)
def test_thresholds_are_told_plainly(feature: Any, edges: list[float], cell: int, words: str) -> None:
    cells = Intervals(feature, ordinal(np.array(edges)))

    assert cells.words(np.arange(cells.cells) == cell, ONE) == words


@pytest.mark.parametrize(("weights", "start"), [([2.0, 1.4], "count + 0.7·total"), ([-1.4, -2.0], "0.7·count + total")])
def test_a_linear_score_is_told_by_the_names_of_its_numbers(weights: list[float], start: str) -> None:
    rng = np.random.default_rng(1)
    score = Projection(np.array([1.0, 3.0]), np.array(weights))
    feature = Scored(score, "a linear score of the output", offset=0.25)
    values = rng.normal(size=(500, 2))
    cells = Intervals(feature, ordinal(np.array([-4.0, 0.5])))
    inside = cells.index(feature.keys(values, values))
    a, b = np.array(weights) / max(weights, key=abs)

    for cell in range(3):
        words = cells.words(np.arange(3) == cell, PAIR)
        assert start in words
        assert np.array_equal(happens(words, values @ [a, b], start), inside == cell)


def test_a_score_of_many_numbers_has_no_names() -> None:
    many = Layout(("array", "float64", (9,)), ("f8",) * 9)
    cells = Intervals(Scored(Projection(np.zeros(9), np.ones(9)), "a linear score of the output"), ordinal(np.ones(1)))

    assert cells.words(np.array([True, False]), many) == "a linear score of the output < 1"


def test_the_verdict_has_the_event_that_was_counted_in_full_and_in_short() -> None:
    outputs: list[np.ndarray] = []

    def noisy(data: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        outputs.append(data + rng.laplace(scale=0.25, size=runs))
        return outputs[-1]

    noisy.repeatable = True  # type: ignore[attr-defined]
    verdict = audit(noisy, claim=Claim(1.0), neighbours=(0.0, 1.0), samples=2000, rng=1, first_look=False)
    side = {
        "d0": np.concatenate(outputs[0::2])[-verdict.trials :],
        "d1": np.concatenate(outputs[1::2])[-verdict.trials :],
    }
    likelier, other = verdict.direction.split("->")

    for words in (verdict.event, verdict.event_exact):
        assert happens(words, side[likelier]).sum() == verdict.count_p
        assert happens(words, side[other]).sum() == verdict.count_q
    for words in (verdict.event_back, verdict.event_back_exact):
        assert happens(words, side[other]).sum() == verdict.count_back_p
    assert len(verdict.event) < len(verdict.event_exact)
