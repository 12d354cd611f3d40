"""Tests of levels: equal to the published blocks symbol by symbol, and within the range that noise is scaled to."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.distribution.channels.candidates import LabelDensities, LabelTable
from hockeystick.learners.distribution.channels.levels import (
    CeiledBlocks,
    Envelope,
    Reference,
    TableLevels,
    UniformMixture,
)
from hockeystick.learners.distribution.risk_bounds import mixture_span

REFERENCES = (CeiledBlocks(), Envelope(), UniformMixture())
FOUR = [[0.6, 0.4, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4]]


def random_table(rng: np.random.Generator, labels: int | None = None) -> FloatArray:
    """Sparse and dense, spiky and flat, with equal candidates and with labels without mass."""
    k, m = int(rng.integers(2, 6)), int(rng.integers(2, 13)) if labels is None else labels
    table = rng.dirichlet(np.full(m, float(rng.choice([0.05, 0.5, 5.0]))), size=k)
    table *= rng.random((k, m)) < float(rng.choice([0.5, 1.0]))
    table[table < 1e-200] = 0.0
    empty = table.sum(axis=1) == 0.0
    table[empty] = 1.0 / m
    if rng.random() < 0.1:
        table[:] = table[0]
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def rare_masses(k: int, m: int) -> FloatArray:
    """Family W: m/k labels of one's own each, all but one with a mass just above 1/m, which costs blocks of size 2."""
    own = m // k
    table = np.zeros((k, m))
    for j in range(k):
        table[j, j * own : (j + 1) * own] = (1.0 + 1e-6) / m
        table[j, j * own] += 1.0 - table[j].sum()
    return table


def levels_of(reference: Reference, table: Any, horizon: int) -> TableLevels:
    found = reference.levels(LabelTable(table), horizon)
    assert isinstance(found, TableLevels)
    return found


# --- the published construction --------------------------------------------------------------------------------------


@pytest.mark.statistical
@given(st.integers(0, 2**32 - 1))
def test_labels_are_equivalent_to_blocks(seed: int) -> None:
    """P, v and q from [N'] symbols, one by one, for M <= 12."""
    rng = np.random.default_rng(seed)
    table, rounds = random_table(rng), int(rng.integers(2, 2000))
    k, m = table.shape
    sizes = [max(math.ceil(round(m * mass, 9)), int(mass > 0.0)) for mass in table.max(axis=0)]
    symbols = np.repeat(np.arange(m), sizes)  # the label of each symbol
    blocks = len(symbols)
    smooth = np.empty((k, blocks))
    for j in range(k):
        for i, label in enumerate(symbols):
            smooth[j, i] = (1.0 - 1.0 / rounds) * table[j, label] / sizes[label] + 1.0 / (rounds * blocks)
    found = levels_of(CeiledBlocks(), table, rounds)
    assert found.total * m == pytest.approx(blocks, rel=1e-12)
    masses = np.stack([np.bincount(symbols, weights=row, minlength=m) for row in smooth])
    assert found.masses() == pytest.approx(masses, abs=1e-12)
    assert found.of(symbols) == pytest.approx((np.log(smooth) + math.log(m)).T, abs=1e-12)
    assert found.resampling_law() == pytest.approx(np.bincount(symbols, minlength=m) / blocks, abs=1e-12)


def test_there_are_more_blocks_than_printed() -> None:
    """N' = 10 > K M = 8 on the counter-example; the law of blocks is 3, 2, 3, 2 of 10."""
    found = levels_of(CeiledBlocks(), FOUR, 100)
    assert found.total * 4 == pytest.approx(10.0, rel=1e-14)
    assert found.resampling_law() == pytest.approx([0.3, 0.2, 0.3, 0.2], rel=1e-12)


def test_products_that_are_whole_but_for_rounding_are_whole() -> None:
    """100 * 0.07 is 7.000000000000001 in floats, and a block of 7."""
    table = np.full((2, 100), 0.93 / 99)
    table[:, 3] = 0.07
    assert 100 * 0.07 > 7.0
    found = levels_of(CeiledBlocks(), table, 10)
    assert found.resampling_law()[3] * found.total * 100 == pytest.approx(7.0, rel=1e-12)


# --- ranges ----------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("tables", [2500, pytest.param(10_000, marks=pytest.mark.deep)])
def test_ranges_on_many_tables(tables: int) -> None:
    """M/(T N') <= e^v <= 1 under R1; spans within their formulas for R1, R2 and R3; on random tables.

    A violation on one random table in 150 is missed with probability (149/150)^2500 = 5e-8; of 10^4 tables, one on one
    in 500 with 2e-9.
    """
    rng = np.random.default_rng(11)
    for _ in range(tables):
        table, rounds = random_table(rng), int(10 ** rng.uniform(0.31, 9))
        k = len(table)
        for reference in REFERENCES:
            found = levels_of(reference, table, rounds)
            limit = mixture_span(rounds=rounds, experts=k)
            if isinstance(reference, CeiledBlocks):
                limit = math.log1p((rounds - 1) * (k + 1))
            assert found.span <= limit * (1 + 1e-13) + 2e-9
            assert Fraction(found.span) >= Fraction(found.top) - Fraction(found.bottom) > 0
            least = -math.log(rounds) - math.log(found.total)
            most = math.log(k) if isinstance(reference, UniformMixture) else 0.0
            assert least - 1e-12 <= found.bottom < found.top <= most + 1e-8
            assert found.rows.min() >= found.bottom and found.rows.max() <= found.top


@pytest.mark.parametrize("rounds", [2, 100, 10**6])
@pytest.mark.parametrize("k", [2, 4, 16])
def test_the_worst_family_attains_the_formulas(k: int, rounds: int) -> None:
    """On W the span of R1 is ln(1 + (T-1) N'/M) to 1e-3 and, for T > K, larger than the printed ln(K T)."""
    table = rare_masses(k, 100 * k)
    found = levels_of(CeiledBlocks(), table, rounds)
    assert found.span == pytest.approx(math.log1p((rounds - 1) * found.total), abs=1e-3)
    printed = math.log(rounds * k)
    assert (found.span > printed) == (rounds > k)
    for reference in (Envelope(), UniformMixture()):
        assert levels_of(reference, table, rounds).span <= printed


def test_a_narrow_class_has_a_narrow_range() -> None:
    """The envelope's mass S is 1 + total variation for two candidates; without calibration its span is ln(1+(T-1)S)."""
    table = np.array([[0.5, 0.5], [0.49, 0.51]])
    wide = levels_of(Envelope(calibrated=False), table, 1000)
    assert wide.total == pytest.approx(1.01, rel=1e-12)
    assert wide.span == pytest.approx(math.log1p(999 * 1.01), rel=1e-12)
    assert levels_of(Envelope(), table, 1000).span < 0.05


@pytest.mark.statistical
@given(st.integers(0, 2**32 - 1), st.sampled_from([CeiledBlocks, Envelope, UniformMixture]))
def test_calibrated_ranges_lie_in_formula_ranges(seed: int, kind: type[Reference]) -> None:
    rng = np.random.default_rng(seed)
    table, rounds = random_table(rng), int(rng.integers(2, 10**6))
    narrow, wide = levels_of(kind(), table, rounds), levels_of(kind(calibrated=False), table, rounds)
    assert wide.bottom <= narrow.bottom and narrow.top <= wide.top + 1e-9
    labels = np.flatnonzero(table.max(axis=0))
    assert wide.of(labels) == pytest.approx(narrow.of(labels), abs=1e-12)
    count, ratio = len(table), wide.reference.largest_ratio(len(table))
    assert wide.span == pytest.approx(math.log1p((rounds - 1) * wide.total * ratio), abs=1e-8)
    assert count >= ratio


def test_candidates_that_agree_have_a_range() -> None:
    for reference in REFERENCES:
        found = levels_of(reference, np.full((3, 4), 0.25), 50)
        assert 0.0 < found.span < 1e-8
        assert found.of([0, 7]) == pytest.approx(np.full((2, 3), found.middle), abs=1e-8)


# --- what levels are -------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@given(st.integers(0, 2**32 - 1), st.sampled_from(REFERENCES))
def test_levels_are_logarithms_of_smoothed_masses(seed: int, reference: Reference) -> None:
    """P_j sum to 1 and are (1 - 1/T) f_j + q/T; levels are ln P_j up to a term that all candidates share."""
    rng = np.random.default_rng(seed)
    table, rounds = random_table(rng), int(rng.integers(2, 1000))
    found = levels_of(reference, table, rounds)
    masses, law = found.masses(), found.resampling_law()
    assert masses == pytest.approx((1.0 - 1.0 / rounds) * table + law / rounds, abs=1e-14)
    assert masses.sum(axis=1) == pytest.approx(1.0, abs=1e-9)
    labels = np.flatnonzero(table.max(axis=0))
    log_masses, levels = found.log_masses(labels), found.of(labels)
    assert np.exp(log_masses) == pytest.approx(masses[:, labels].T, rel=1e-12)
    shared = log_masses - levels
    assert np.ptp(shared, axis=1) == pytest.approx(0.0, abs=1e-10)
    assert np.exp(shared[:, 0]) == pytest.approx(law[labels] * found.total, rel=1e-9)


ANYTHING = st.one_of(st.integers(-3, 15), st.floats(), st.none(), st.sampled_from(["", "1", "ä"]), st.integers())


@pytest.mark.statistical
@given(st.integers(0, 2**32 - 1), st.sampled_from(REFERENCES), st.lists(ANYTHING, min_size=1, max_size=8))
def test_every_label_has_its_level(seed: int, reference: Reference, labels: list[Any]) -> None:
    """In the range, by every door alike; labels without mass have one level for all candidates."""
    table = random_table(np.random.default_rng(seed))
    found = levels_of(reference, table, 100)
    levels = found.of(labels)
    assert levels.shape == (len(labels), len(table))
    assert (levels >= found.bottom).all() and (levels <= found.top).all()
    assert levels.tolist() == [[found.level(label, j) for j in range(len(table))] for label in labels]
    experts = np.arange(len(labels)) % len(table)
    assert found.pick(labels, experts).tolist() == levels[np.arange(len(labels)), experts].tolist()
    outside = found.outside(labels)
    assert (levels[outside] == min(max(0.0, found.bottom), found.top)).all()
    assert np.isneginf(found.log_masses(labels)[outside]).all()
    known = [isinstance(label, (int, float)) and label in range(table.shape[1]) for label in labels]
    for label, inside, none in zip(labels, known, outside, strict=True):
        assert none == (not inside or table[:, int(label)].max() == 0.0)


def test_tiny_masses_and_long_runs_stay_finite() -> None:
    table = [[1.0 - 1e-300, 1e-300, 0.0], [1e-12, 5e-324, 1.0 - 1e-12]]
    for reference in REFERENCES:
        found = levels_of(reference, table, 2**53)
        assert np.isfinite(found.rows).all()
        assert found.span < 50.0
    assert 0.0 < levels_of(UniformMixture(), table, 2**53).smoothing <= 2.0 * math.log(2.0)


def test_labels_of_equal_masses_share_rows() -> None:
    """65536 labels in 4 groups: five rows, the last one for invalid labels."""
    own = np.repeat(np.eye(4), 16384, axis=1) / 16384
    found = levels_of(UniformMixture(), 0.5 * own + 0.5 / 65536, 1000)
    assert found.rows.shape == (5, 4)
    assert found.column_sizes.tolist() == [16384] * 4
    assert found.column_law == pytest.approx(0.25)
    assert (found.column_masses * found.column_sizes).sum(axis=1) == pytest.approx(1.0)


# --- resampled labels ------------------------------------------------------------------------------------------------


def largest_deviation(law: FloatArray, labels: NDArray[Any]) -> float:
    """Of a frequency from its chance, over sqrt(ln(2 M/alpha)/(2 n)) with alpha = 1e-6: above 1 is a finding."""
    off = np.abs(np.bincount(labels.astype(np.int64), minlength=len(law))[: len(law)] / len(labels) - law).max()
    return float(off / math.sqrt(math.log(2 * len(law) / 1e-6) / (2 * len(labels))))


def test_resampled_labels_follow_the_reference() -> None:
    """Hoeffding's inequality for each label, false alarm <= 1e-6 for each reference; another reference's is caught."""
    table, rng = np.array([[0.9, 0.1, 0.0, 0.0], [0.1, 0.0, 0.9, 0.0]]), np.random.default_rng(2)
    laws = [levels_of(reference, table, 10).resampling_law() for reference in REFERENCES]
    assert laws[0] == pytest.approx([4 / 9, 1 / 9, 4 / 9, 0.0])
    assert laws[1] == pytest.approx([0.9 / 1.9, 0.1 / 1.9, 0.9 / 1.9, 0.0])
    assert laws[2] == pytest.approx([0.5, 0.05, 0.45, 0.0])
    for i, reference in enumerate(REFERENCES):
        labels = levels_of(reference, table, 10).resample(400_000, rng)
        assert largest_deviation(laws[i], labels) < 1.0
        assert largest_deviation(laws[(i + 1) % 3], labels) > 1.0


# --- labels without end ----------------------------------------------------------------------------------------------

POISSON = LabelDensities.poisson([1.0, 3.0, 12.0])
CUT = stats.poisson.pmf(np.arange(80), np.array([[1.0], [3.0], [12.0]]))
CUT /= CUT.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("reference", [Envelope(total=float(CUT.max(axis=0).sum())), UniformMixture()])
def test_unbounded_counts_have_levels(reference: Reference) -> None:
    """Levels, masses and resampled labels are those of the table cut at 80, where 1e-15 is left."""
    endless, cut = reference.levels(POISSON, 1000), levels_of(reference, CUT, 1000)
    assert endless.of(range(60)) == pytest.approx(cut.of(range(60)), abs=1e-9)
    assert np.exp(endless.log_masses(range(60))) == pytest.approx(cut.masses()[:, :60].T, abs=1e-12)
    assert endless.span <= math.log(1000 * 3)
    # Hoeffding's inequality for each label, false alarm <= 1e-6; the law of one candidate is caught.
    labels = endless.resample(100_000, np.random.default_rng(8))
    assert labels.shape == (100_000,)
    assert largest_deviation(cut.resampling_law(), labels) < 1.0
    assert largest_deviation(CUT[0], labels) > 1.0


@pytest.mark.parametrize("reference", [Envelope(), Envelope(total=1.7), UniformMixture()])
def test_any_label_has_a_level_without_a_table(reference: Reference) -> None:
    for known in (POISSON, LabelDensities.gaussian([-1.0, 0.0, 1.0])):
        found = reference.levels(known, 500)
        labels: list[Any] = [0, 3, -1, 2.5, math.nan, math.inf, None, "x", 1e300, 10**400]
        levels = found.of(labels)
        assert (levels >= found.bottom).all() and (levels <= found.top).all()
        assert levels.tolist() == [[found.level(label, j) for j in range(3)] for label in labels]
        assert found.pick(labels, np.full(10, 2)).tolist() == levels[:, 2].tolist()
        outside = found.outside(labels)
        assert outside[[4, 5, 6, 7, 9]].all()
        assert (levels[outside] == min(0.0, found.top)).all()
        assert found.span <= math.log(500 * 3) + 1e-12


def test_gaussian_levels_by_hand() -> None:
    found = UniformMixture().levels(LabelDensities.gaussian([0.0, 2.0]), 10)
    f = stats.norm.pdf(0.7, [0.0, 2.0])
    assert found.of(0.7)[0] == pytest.approx(np.log(0.9 * f / f.mean() + 0.1), rel=1e-12)
    assert found.log_masses(0.7)[0] == pytest.approx(np.log(0.9 * f + 0.1 * f.mean()), rel=1e-12)


def test_levels_that_need_a_table_raise_an_error_without_one() -> None:
    with pytest.raises(InvalidArgumentError, match="UniformMixture"):
        CeiledBlocks().levels(POISSON, 10)
    endless = UniformMixture().levels(POISSON, 10)
    for wanted in (endless.masses, endless.resampling_law):
        with pytest.raises(InvalidArgumentError):
            wanted()


# --- contexts and refusals -------------------------------------------------------------------------------------------


def test_contexts_have_their_own_levels() -> None:
    known = LabelTable(np.array([FOUR, FOUR[::-1]]))
    first, second = (UniformMixture().levels(known, 20, context) for context in (0, 1))
    assert np.array_equal(first.of([0, 1])[:, ::-1], second.of([0, 1]))
    with pytest.raises(InvalidArgumentError):
        UniformMixture().levels(known, 20)


@pytest.mark.parametrize("horizon", [1, 0, -3, 2.5, math.nan, math.inf, True, "10", 2**54])
def test_horizons_are_checked(horizon: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        UniformMixture().levels(LabelTable(FOUR), horizon)


def test_other_arguments_are_checked() -> None:
    with pytest.raises(InvalidArgumentError):
        UniformMixture().levels(FOUR, 10)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        UniformMixture(calibrated=1)
    for total in (0.5, math.nan, math.inf, True):
        with pytest.raises(InvalidArgumentError):
            Envelope(total=total)
