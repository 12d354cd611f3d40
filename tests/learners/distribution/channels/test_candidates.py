"""Tests of candidate laws: public input is checked, private labels are never refused; samples follow the laws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.distribution.channels.candidates import (
    Hypotheses,
    LabelDensities,
    LabelTable,
    distinct_columns,
    draw,
    label_array,
)

TABLE = np.array([[0.6, 0.4, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4], [0.25, 0.25, 0.25, 0.25]])


class Stranger:
    """An object that is not a number, and raises an error if used as one."""

    def __float__(self) -> float:
        raise RuntimeError("not a number")

    def __int__(self) -> int:
        raise RuntimeError("not a number")


NONE_OF_THEM: list[Any] = [
    *(-1, 4, 1.5, math.nan, math.inf, -math.inf, 10**400, -(10**400)),
    *(None, "1", b"1", 1j, [1, 2], {}, object(), Stranger()),
]


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tables",
    [
        [[0.5, 0.5]],
        [[1.0], [1.0]],
        [0.5, 0.5],
        [[0.5, 0.6], [0.5, 0.5]],
        [[-0.1, 1.1], [0.5, 0.5]],
        [[math.nan, 1.0], [0.5, 0.5]],
        [[math.inf, 0.0], [0.5, 0.5]],
        [[0.5, 0.5], [1.0]],
        [[True, False], [False, True]],
        "table",
        np.zeros((0, 2, 2)),
        np.full((1, 1, 2, 2), 0.5),
    ],
)
def test_invalid_tables_are_refused(tables: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        LabelTable(tables)


def test_a_table_keeps_a_read_only_copy() -> None:
    """It keeps a copy, which can't be written to."""
    given_table = TABLE.copy()
    known = LabelTable(given_table)
    given_table[0] = 0.25
    assert np.array_equal(known.table(), TABLE)
    with pytest.raises(ValueError, match="read-only"):
        known.tables[0, 0] = 1.0
    assert (known.count, known.labels, known.contexts) == (3, 4, None)


def test_contexts_choose_tables() -> None:
    many = LabelTable(np.stack([TABLE, TABLE[::-1]]))
    assert many.contexts == 2
    assert np.array_equal(many.table(1), TABLE[::-1])
    assert many.log_masses([0], 1)[0, 2] == pytest.approx(math.log(0.6))
    for context in (None, -1, 2, 0.5, "0", True):
        with pytest.raises(InvalidArgumentError):
            many.log_masses([0], context)
    assert np.array_equal(LabelTable(TABLE).table("anything"), TABLE)


@pytest.mark.parametrize(
    "known", [LabelTable(TABLE), LabelDensities.poisson([1.0, 5.0]), LabelDensities.gaussian([0.0, 1.0])]
)
def test_labels_are_never_refused(known: Hypotheses) -> None:
    """One row for each label, in order; no warning; and -inf for a label that is not a number."""
    one_by_one = np.concatenate([known.log_masses([label]) for label in NONE_OF_THEM])
    assert one_by_one.shape == (len(NONE_OF_THEM), known.count)
    assert not np.isnan(one_by_one).any()
    together = known.log_masses(NONE_OF_THEM)
    assert np.array_equal(together, one_by_one)
    for label, row in zip(NONE_OF_THEM, together, strict=True):
        if known.labels is not None or not isinstance(label, (int, float)) or not math.isfinite(float_or_nan(label)):
            assert np.isneginf(row).all(), label
    for whole in (np.zeros((3, 2)), [[1, 2], [3]], np.array([1j, 2, 3]), np.array(["a", "b", "c"]), {1, 2}, "text"):
        assert known.log_masses(whole).shape == (len(label_array(whole)), known.count)


def float_or_nan(label: float) -> float:
    try:
        return float(label)
    except OverflowError:
        return math.nan


TEXTS = st.sampled_from(["", "0", "1", "1.0", "nan", "ä", "\ud800"])  # st.text builds its tables for seconds


@pytest.mark.statistical
@given(st.lists(st.one_of(st.integers(), st.floats(), st.none(), TEXTS, st.booleans()), max_size=6))
def test_places_of_one_and_of_many_agree(labels: list[Any]) -> None:
    known = LabelTable(TABLE)
    found = known.places(labels)
    assert found.tolist() == [known.place(label) for label in labels]
    assert all(0 <= place <= known.labels for place in found)


def test_places_of_integer_arrays() -> None:
    known = LabelTable(TABLE)
    assert known.places(np.arange(-2, 6)).tolist() == [4, 4, 0, 1, 2, 3, 4, 4]
    assert known.places(np.array([3, 255], dtype=np.uint8)).tolist() == [3, 4]
    assert known.places(np.array([2**63 + 1, 1], dtype=np.uint64)).tolist() == [4, 1]


# --- columns ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
def test_distinct_columns_give_the_table_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 3, size=(int(rng.integers(2, 5)), int(rng.integers(1, 40)))) / 7.0
    found, place = distinct_columns(table)
    assert np.array_equal(found[:, place], table)
    assert found.shape[1] == np.unique(table, axis=1).shape[1]


def test_columns_of_one_hash_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all factors 1 the hash of (a, b) is that of (b, a)."""

    class Weak:
        def integers(self, *args: Any, size: int, dtype: Any) -> NDArray[np.uint64]:
            return np.zeros(size, dtype=dtype)

    monkeypatch.setattr(
        "hockeystick.learners.distribution.channels.candidates.np.random.default_rng", lambda seed: Weak()
    )
    table = np.array([[0.25, 0.5, 0.25], [0.5, 0.25, 0.5]])
    found, place = distinct_columns(table)
    assert np.array_equal(found[:, place], table)
    assert found.shape == (2, 2)


# --- samples ---------------------------------------------------------------------------------------------------------


def largest_deviation(law: FloatArray, labels: NDArray[np.int64]) -> float:
    """Of a frequency from its chance, over sqrt(ln(2 M/alpha)/(2 n)) with alpha = 1e-6: above 1 is a finding."""
    n, m = len(labels), len(law)
    off = np.abs(np.bincount(labels, minlength=m) / n - law).max()
    return float(off / math.sqrt(math.log(2 * m / 1e-6) / (2 * n)))


def test_samples_follow_the_table() -> None:
    """Hoeffding's inequality for each label, false alarm <= 1e-6 in all; another candidate's law is caught."""
    known, rng = LabelTable(TABLE), np.random.default_rng(5)
    for j in range(3):
        labels = known.sample(j, 100_000, rng)
        assert largest_deviation(TABLE[j], labels) < 1.0
        assert largest_deviation(TABLE[(j + 1) % 3], labels) > 1.0
    for j, count in ((-1, 1), (3, 1), (0, -1), (0, 1.5)):
        with pytest.raises(InvalidArgumentError):
            known.sample(j, count, rng)  # type: ignore[arg-type]


def test_a_label_without_mass_is_never_drawn() -> None:
    class Edge(np.random.Generator):
        def random(self, size: Any = None, *args: Any, **kwargs: Any) -> Any:
            return np.array([0.0, 1.0 - 2.0**-53])

    rng = Edge(np.random.PCG64(0))
    assert draw(np.array([0.0, 0.3, 0.7, 0.0]), 2, rng).tolist() == [1, 2]
    assert draw(np.array([0.0, 0.0, 0.1]), 2, rng).tolist() == [2, 2]


# --- densities -------------------------------------------------------------------------------------------------------


def test_poisson_and_gaussian_densities() -> None:
    counts = np.array([0, 1, 7, 400])
    found = LabelDensities.poisson([0.5, 50.0]).log_masses(counts)
    assert found == pytest.approx(stats.poisson.logpmf(counts[:, None], [0.5, 50.0]), rel=1e-12)
    points = np.array([-3.0, 0.0, 1e3])
    found = LabelDensities.gaussian([0.0, 2.0], scale=[1.0, 3.0]).log_masses(points)
    assert found == pytest.approx(stats.norm.logpdf(points[:, None], [0.0, 2.0], [1.0, 3.0]), rel=1e-12)
    assert np.isneginf(LabelDensities.poisson([1.0, 2.0]).log_masses([-1, 0.5])).all()


@pytest.mark.parametrize("means", [[0.0, 1.0], [-1.0, 1.0], [math.nan, 1.0], [1.0], 3.0])
def test_poisson_means_are_checked(means: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        LabelDensities.poisson(means)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, [1.0, 2.0, 3.0], [[1.0, 1.0]]])
def test_gaussian_scales_are_checked(scale: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        LabelDensities.gaussian([0.0, 1.0], scale=scale)


def test_samples_of_densities() -> None:
    """Means within 6 standard errors (false alarm 2e-9 each); the wrong candidate's mean is not."""
    rng = np.random.default_rng(3)
    known = LabelDensities.poisson([4.0, 5.0])
    labels = known.sample(1, 40_000, rng)
    assert abs(labels.mean() - 5.0) < 6.0 * math.sqrt(5.0 / 40_000)
    assert abs(labels.mean() - 4.0) > 6.0 * math.sqrt(4.0 / 40_000)


def test_functions_that_fail_on_a_label_fail_for_it_alone() -> None:
    def fussy(labels: FloatArray, context: Any) -> FloatArray:
        if (labels > 10).any():
            raise KeyError("unseen label")
        return np.stack([labels, np.where(labels == 3, math.nan, np.where(labels == 4, math.inf, 0.0))], axis=1)

    known = LabelDensities(fussy, lambda j, n, rng, context: np.zeros(n), count=2)
    found = known.log_masses([1, 11, 3, 4])
    assert found[[0, 2]].tolist() == [[1.0, 0.0], [3.0, -math.inf]]
    assert np.isneginf(found[1]).all()
    assert math.isfinite(found[3, 1]) and found[3, 1] > 1e5


@pytest.mark.parametrize(
    "log_densities",
    [
        lambda labels, context: np.zeros((len(labels), 3)),
        lambda labels, context: np.zeros(len(labels)),
        lambda labels, context: np.full((len(labels), 2), math.nan),
    ],
)
def test_functions_are_tried_on_public_labels(log_densities: Any) -> None:
    known = LabelDensities(log_densities, lambda j, n, rng, context: np.zeros(n), count=2)
    with pytest.raises(InvalidArgumentError):
        known.check()


def test_densities_are_checked_at_construction() -> None:
    def sampler(j: int, n: int, rng: np.random.Generator, context: Any) -> FloatArray:
        return np.zeros(n + 1)

    with pytest.raises(InvalidArgumentError):
        LabelDensities(0.5, sampler, count=2)
    with pytest.raises(InvalidArgumentError):
        LabelDensities(lambda labels, context: np.zeros((len(labels), 1)), sampler, count=1)
    known = LabelDensities(lambda labels, context: np.zeros((len(labels), 2)), sampler, count=2)
    with pytest.raises(InvalidArgumentError):
        known.sample(0, 3, np.random.default_rng(0))
    with pytest.raises(InvalidArgumentError):
        known.table()
