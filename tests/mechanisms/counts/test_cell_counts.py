"""Counts of cells: bounds against releases and known laws, monotone answers, and refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    InvalidArgumentError,
    InvalidDataError,
    Ledger,
    UnsupportedAdjacencyError,
    epsilon,
)
from hockeystick.mechanisms import CellCounts, choose_counts, count_cells

TABLES = {
    "even": np.full(64, 10),
    "one cell": np.where(np.arange(64) == 40, 640, 0),
    "few cells": np.where(np.arange(64) % 21 == 3, 213, 0) + np.where(np.arange(64) == 0, 1, 0),
}


def prefixes(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)])


# --- privacy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("branching", [None, 4])
@pytest.mark.parametrize("records", [None, 640])
@pytest.mark.parametrize(("law", "delta"), [("laplace", 0.0), ("laplace", 1e-6), ("gaussian", 1e-6)])
@pytest.mark.every(3)
def test_a_calibrated_mechanism_meets_its_target_and_no_more(branching, records, law, delta) -> None:
    found = CellCounts.calibrated(cells=16, epsilon=0.5, delta=delta, law=law, branching=branching, records=records)
    assert 0.499 < epsilon(found.event(), delta).upper <= 0.5


def test_replaced_records_ask_for_twice_the_laplace_noise() -> None:
    apart = [CellCounts.calibrated(cells=16, epsilon=1.0, branching=4, records=n).scale for n in (None, 100)]
    assert apart == [pytest.approx(2.0), pytest.approx(4.0)]


def test_a_release_charges_a_ledger_of_its_relation_only() -> None:
    mechanism = CellCounts(cells=4, scale=2.0, records=6)
    plan = AccountantGraph(Adjacency.REPLACE_ONE).source("people").release("ages", mechanism.event(), reads=["people"])
    ledger = Ledger(plan)
    assert mechanism.release([1, 2, 3, 0], ledger=ledger, name="ages").shape == (4,)
    assert ledger.recorded("ages") == 1
    with pytest.raises(UnsupportedAdjacencyError):
        CellCounts(cells=4, scale=2.0).release([1, 2, 3, 0], ledger=Ledger(plan), name="ages")


# --- answers ---------------------------------------------------------------------------------------------------------


@given(
    counts=st.lists(st.integers(0, 30), min_size=2, max_size=12),
    noise=st.integers(0, 2**32 - 1),
    known=st.booleans(),
)
def test_monotone_answers_never_have_larger_errors(counts, noise, known) -> None:
    """Neither the largest error of a prefix nor that of an interval grows by what is done to the fit."""
    true = np.array(counts)
    if known and not true.sum():
        true[0] = 1
    mechanism = CellCounts(cells=len(true), scale=5.0, records=int(true.sum()) if known else None)
    output = mechanism.simulate(true, np.random.default_rng(noise), 1)[0]
    raw = prefixes(mechanism.sums.fit(output[None].astype(float), float(true.sum()))[0]) - prefixes(true)
    found = mechanism.answers(output).cumulative
    error = found - prefixes(true)
    assert np.abs(error).max() <= np.abs(raw).max() + 1e-9
    assert np.ptp(error) <= max(raw.max(), 0.0) - min(raw.min(), 0.0) + 1e-9
    assert (np.diff(found) >= 0.0).all() and found[0] >= 0.0
    assert not known or found[-1] == pytest.approx(true.sum())


def test_cells_cut_off_at_zero_do_have_larger_errors() -> None:
    """What most scripts do to negative counts is not harmless, which the property above would notice."""
    true = np.where(np.arange(256) == 0, 20_000, 0)
    mechanism = CellCounts.calibrated(cells=256, epsilon=1.0, records=20_000)
    output = mechanism.simulate(true, np.random.default_rng(3), 1)[0]
    cut = np.maximum(output, 0)
    largest = np.abs(prefixes(cut * 20_000 / cut.sum()) - prefixes(true)).max()
    assert largest > 5.0 * np.abs(mechanism.answers(output).cumulative - prefixes(true)).max()


@pytest.mark.parametrize("records", [None, 640])
def test_quantile_bands_hold_wherever_the_bound_does(records) -> None:
    true = TABLES["few cells"]
    mechanism = CellCounts.calibrated(cells=64, epsilon=1.0, branching=8, records=records)
    bound, levels, held = mechanism.error_bound().count, np.linspace(0.0, 1.0, 21), 0
    for output in mechanism.simulate(true, np.random.default_rng(4), 50):
        found = mechanism.answers(output)
        if np.abs(found.cumulative - prefixes(true)).max() > bound:
            continue
        held += 1
        for level in levels:
            cell = int(np.searchsorted(np.cumsum(true), level * true.sum()))
            low, high = found.quantile_band(level)
            assert low <= cell <= high and low <= found.quantile(level) <= high
    assert held > 40
    assert found.interval(0, 63) == pytest.approx(found.cumulative[-1])


# --- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "law", "quantile"),
    [
        (10_000, "gaussian", lambda level: stats.kstwobign.ppf(level)),  # the largest value of a Brownian bridge
        # ... and of a Brownian motion: P(max|B| > x) is near 4(1 − Φ(x)) for such x
        (None, "gaussian", lambda level: stats.norm.isf((1.0 - level) / 4.0)),
    ],
)
def test_bounds_of_flat_trees_are_those_of_brownian_motion(records, law, quantile) -> None:
    """A discrete walk stays below the motion that it is a sample of; the rank of the bound is up to 1.5 % higher."""
    mechanism = CellCounts(cells=400, scale=50.0, law=law, records=records)
    bound = mechanism.error_bound()
    assert bound.draws == 1999
    assert 0.93 < bound.count / (50.0 * 20.0 * quantile(0.95)) < quantile(0.965) / quantile(0.95) * 1.02
    assert bound.share == (None if records is None else bound.count / records)


@pytest.mark.parametrize(
    ("cells", "records", "branching", "constant"),
    [(1024, None, 16, 45.7), (64, None, 8, 20.0), (1024, 10**6, 32, 74.9), (256, 10**6, 16, 48.0)],
)
def test_bounds_of_trees_have_known_constants(cells, records, branching, constant) -> None:
    """95 % quantiles by another simulation with continuous noise, within its error and the bound's higher rank."""
    mechanism = CellCounts.calibrated(cells=cells, epsilon=0.1, branching=branching, records=records)
    assert 0.97 < 0.1 * mechanism.error_bound().count / constant < 1.1


@pytest.mark.statistical
@pytest.mark.parametrize("queries", ["thresholds", "intervals"])
@pytest.mark.parametrize(("records", "branching"), [(None, None), (640, None), (640, 8)])
def test_a_bound_fails_as_often_as_it_says(queries, records, branching) -> None:
    """False alarms: at most 1e-6 each, by the binomial law at 0.05; half the noise that is drawn is noticed."""
    mechanism = CellCounts.calibrated(cells=64, epsilon=1.0, branching=branching, records=records)
    bound = mechanism.error_bound(queries=queries).count

    def failures(drawn: CellCounts) -> int:
        outputs = drawn.simulate(TABLES["even"], np.random.default_rng(5), 2000).astype(float)
        sums = np.pad(np.cumsum(mechanism.sums.fit(outputs, 640.0), axis=1), ((0, 0), (1, 0)))
        errors = sums - prefixes(TABLES["even"])
        largest = np.ptp(errors, axis=1) if queries == "intervals" else np.abs(errors).max(axis=1)
        return int((largest > bound).sum())

    most = int(stats.binom.isf(1e-6, 2000, 0.05))
    assert failures(mechanism) <= most
    assert failures(CellCounts(cells=64, scale=2.0 * mechanism.scale, branching=branching, records=records)) > most


# --- the choice ------------------------------------------------------------------------------------------------------


def test_few_cells_take_noise_on_cells_and_many_take_a_tree() -> None:
    few = choose_counts(cells=16, epsilon=1.0, records=1000)
    many = choose_counts(cells=1024, epsilon=1.0, records=1000)
    assert few.mechanism.branching is None and many.mechanism.branching == 32
    assert few.bound == few.mechanism.error_bound()
    assert [one.error for one in many.candidates] == sorted(one.error for one in many.candidates)
    assert str(many).startswith("Laplace noise on a tree of 32 branches: all thresholds within ")
    assert epsilon(many.mechanism.event(), 0.0).upper <= 1.0


@pytest.mark.statistical
def test_gaussian_noise_is_taken_only_where_it_has_the_smaller_error() -> None:
    """δ > 0 does not make it better: one record moves few of one column's sums."""
    found = choose_counts(cells=8, epsilon=1.0, delta=1e-6)
    laws = {one.mechanism.law for one in found.candidates}
    assert laws == {"laplace", "gaussian"} and found.mechanism.law == "laplace"
    strict = choose_counts(cells=8, epsilon=0.05, delta=0.05)
    assert strict.mechanism.law == "gaussian"


@pytest.mark.statistical
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("cells", [16, 64])
def test_the_choice_errs_no_more_than_one_line_of_numpy(table, cells) -> None:
    """Mean largest errors of 200 runs: at most 1.1 times that of raw Laplace noise on the cells (measured ≤ .8)."""
    true = TABLES[table].reshape(cells, -1).sum(axis=1)
    mechanism, rng = choose_counts(cells=cells, epsilon=1.0, records=640).mechanism, np.random.default_rng(6)
    raw = np.cumsum(true + rng.laplace(scale=2.0, size=(200, cells)), axis=1) - np.cumsum(true)
    outputs = mechanism.simulate(true, rng, 200)
    found = np.array([mechanism.answers(output).cumulative for output in outputs]) - prefixes(true)
    assert np.abs(found).max(axis=1).mean() <= 1.1 * np.abs(raw).max(axis=1).mean()


# --- values and refusals ---------------------------------------------------------------------------------------------


def test_values_are_counted_between_edges_and_clipped_at_the_ends() -> None:
    assert count_cells([-5.0, 0.0, 1.0, 1.0, 2.9, 3.0, 1e9], [0.0, 1.0, 2.0, 3.0]).tolist() == [2, 2, 3]


@pytest.mark.parametrize(
    "call",
    [
        lambda: CellCounts(cells=1, scale=1.0),
        lambda: CellCounts(cells=2**21, scale=1.0),
        lambda: CellCounts(cells=4, scale=0.0),
        lambda: CellCounts(cells=4, scale=float("nan")),
        lambda: CellCounts(cells=4, scale=1.0, law="cauchy"),  # type: ignore[arg-type]
        lambda: CellCounts(cells=4, scale=1.0, branching=5),
        lambda: CellCounts(cells=4, scale=1.0, branching=1),
        lambda: CellCounts(cells=4, scale=1.0, records=0),
        lambda: CellCounts.calibrated(cells=4, epsilon=0.0),
        lambda: CellCounts.calibrated(cells=4, epsilon=1.0, law="gaussian"),
        lambda: CellCounts(cells=4, scale=1.0).error_bound(confidence=0.99),
        lambda: CellCounts(cells=4, scale=1.0).error_bound(queries="means"),  # type: ignore[arg-type]
        lambda: CellCounts(cells=4, scale=1.0).answers([1, 2, 3]),
        lambda: CellCounts(cells=4, scale=1.0).answers([1, 2, 3, 4]).quantile(1.5),
        lambda: CellCounts(cells=4, scale=1.0).answers([1, 2, 3, 4]).interval(3, 2),
        lambda: choose_counts(cells=4, epsilon=-1.0),
        lambda: choose_counts(cells=4, epsilon=1.0, confidence=0.99),
        lambda: choose_counts(cells=4, epsilon=1.0, queries="means"),  # type: ignore[arg-type]
        lambda: count_cells([1.0], [0.0, 1.0]),
        lambda: count_cells([1.0], [0.0, 2.0, 1.0]),
    ],
)
def test_bad_parameters_are_refused(call) -> None:
    with pytest.raises(InvalidArgumentError):
        call()


@pytest.mark.parametrize("value", [[1, 2, 3], [1, 2, 3, -1], [1, 2, 3, 0.5], [1, 2, 3, float("nan")], [1, 2, 3, 5]])
def test_bad_counts_are_refused_without_a_word_of_them(value) -> None:
    mechanism = CellCounts(cells=4, scale=1.0, records=10)
    with pytest.raises(InvalidDataError) as caught:
        mechanism.release(value)
    assert "5" not in str(caught.value) or value[-1] != 5
