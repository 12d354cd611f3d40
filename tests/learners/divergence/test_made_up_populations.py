"""Tests of made-up populations: their sizes, laws and statistics."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.optional_packages import MissingExtraError
from hockeystick.learners.divergence import made_up_populations as module
from hockeystick.learners.divergence.made_up_populations import (
    LabelledRecords,
    digit_patterns,
    dirichlet_law,
    laplace_against_normal,
    tilted,
)
from hockeystick.learners.divergence.variance import kl

RECORDS = LabelledRecords(
    clients=np.array([0, 0, 1, 2, 2, 2]),
    labels=np.array([0, 1, 1, 0, 1, 1]),
    symbols=np.array([2, 0, 1, 2, 1, 1]),
    client_count=3,
    label_count=2,
    symbol_count=3,
)


# --- labelled records ------------------------------------------------------------------------------------------------


def test_counts_of_a_label() -> None:
    assert RECORDS.counts(1).table.toarray().tolist() == [[1, 0, 0], [0, 1, 0], [0, 2, 0]]
    assert RECORDS.counts(0).total().tolist() == [0, 0, 2]


def test_clients_are_numbered_anew_in_the_given_order() -> None:
    assert RECORDS.counts(1, clients=[2, 0]).table.toarray().tolist() == [[0, 2, 0], [1, 0, 0]]


def test_a_law_is_smoothed() -> None:
    assert RECORDS.law(1) == pytest.approx([2 / 7, 4 / 7, 1 / 7])
    assert RECORDS.law(1, clients=[0], pseudo_count=0.5) == pytest.approx([1.5 / 2.5, 0.5 / 2.5, 0.5 / 2.5])


@pytest.mark.parametrize(
    "changed",
    [
        {"clients": np.array([0, 0, 1, 2, 2, 3])},
        {"labels": np.array([0, 1, 1, 0, 1, 2])},
        {"symbols": np.array([2, 0, 1, 2, 1, 3])},
        {"symbols": np.array([2, 0, 1, 2, 1])},
        {"symbols": np.array([2.0, 0.0, 1.0, 2.0, 1.0, 1.0])},
        {"clients": np.array([0, 0, 1, 2, 2, -1])},
        {"client_count": 0},
        {"label_count": True},
        {"symbol_count": 1},
    ],
)
def test_records_that_do_not_fit_are_refused(changed: dict[str, Any]) -> None:
    given_ = {name: getattr(RECORDS, name) for name in ("clients", "labels", "symbols")}
    sizes = {"client_count": 3, "label_count": 2, "symbol_count": 3}
    with pytest.raises(InvalidArgumentError):
        LabelledRecords(**(given_ | sizes | changed))


def test_labels_and_clients_that_do_not_exist_are_refused() -> None:
    for call in (
        lambda: RECORDS.counts(2),
        lambda: RECORDS.counts(-1),
        lambda: RECORDS.counts(0, clients=[3]),
        lambda: RECORDS.counts(0, clients=[1, 1]),
        lambda: RECORDS.law(0, pseudo_count=0.0),
    ):
        with pytest.raises(InvalidArgumentError):
            call()


# --- handwriting -----------------------------------------------------------------------------------------------------

# Mean, smallest and largest divergence over the 90 pairs, and the part of a cohort's cells with a count below two, as
# they were computed independently of this code.
QUOTED = {
    (2, 2): (1.0, 0.84, 0.135, 3.61, 0.05),
    (4, 2): (1.0, 2.76, 0.64, 6.27, 0.59),
    (4, 4): (0.01, 5.93, 2.09, 10.1, 0.997),
}


@pytest.mark.statistical
@pytest.mark.parametrize("grid", list(QUOTED))
def test_statistics_of_the_digits(grid: tuple[int, int]) -> None:
    """Within 10 %; the part of thin cells of 16 within 3 points, as it is one cell in 20."""
    pseudo_count, mean, low, high, thin = QUOTED[grid]
    found = digit_patterns(np.random.default_rng(20241124), grid=grid)
    assert found.client_count == 3580 and found.symbol_count == 2 ** (grid[0] * grid[1])
    assert len(found.symbols) == pytest.approx(393_665, rel=0.01)
    laws = [found.law(digit, pseudo_count=pseudo_count) for digit in range(10)]
    values = [kl(laws[a], laws[b]) for a, b in itertools.permutations(range(10), 2)]
    assert np.mean(values) == pytest.approx(mean, rel=0.1)
    assert min(values) == pytest.approx(low, rel=0.1)
    assert max(values) == pytest.approx(high, rel=0.1)
    cohort = np.random.default_rng(1).choice(3580, 179, replace=False)
    counts = np.array([found.counts(digit, clients=cohort).total() for digit in range(10)])
    assert counts.sum(axis=1).mean() == pytest.approx(1970, rel=0.1)
    assert (counts < 2).mean() == pytest.approx(thin, abs=0.03)


def test_every_writer_writes_every_digit() -> None:
    found = digit_patterns(np.random.default_rng(1), writers=30, images=0.5)
    held = np.zeros((30, 10), dtype=int)
    np.add.at(held, (found.clients, found.labels), 1)
    assert held.min() == 1
    assert found.symbols.max() < found.symbol_count == 16


def test_the_same_images_on_every_grid() -> None:
    """A coarse block is dark if the mean of its parts is: where all parts are light it can't be."""
    coarse = digit_patterns(np.random.default_rng(7), grid=(2, 2), writers=20)
    fine = digit_patterns(np.random.default_rng(7), grid=(4, 4), writers=20)
    assert (coarse.clients == fine.clients).all() and (coarse.labels == fine.labels).all()
    bits = (fine.symbols[:, np.newaxis] >> np.arange(16)) & 1
    parts = bits.reshape(-1, 2, 2, 2, 2).sum(axis=(2, 4)).reshape(-1, 4)
    dark = (coarse.symbols[:, np.newaxis] >> np.arange(4)) & 1
    assert not dark[parts == 0].any()
    assert dark[parts == 4].all()


def test_patterns_by_hand() -> None:
    """One image, left half ink of 8: the two left blocks are dark. Shifted to the right, 3 of 4 columns are left."""
    pixels = np.zeros((1, 8, 8))
    pixels[0, :, :4] = 8.0
    codes = module._codes(pixels, 2, 2)
    assert codes.shape == (27, 1)
    assert codes[13, 0] == 0b0101  # no shift, gain 1
    assert codes[12, 0] == 0b0101  # gain 0.8: a mean of 6.4
    # Means of the left and of the right blocks by shift: 6 and 0; 8 and 0; 6 and 2, at gain 1.
    assert codes[[10, 13, 16], 0].tolist() == [0b0101] * 3
    faint = module._codes(pixels * 0.625, 2, 2)  # ink 5: a shift leaves 3.75 of 4
    assert faint[[10, 13, 16], 0].tolist() == [0, 0b0101, 0]


def test_the_same_generator_gives_the_same_records() -> None:
    first, again, other = (digit_patterns(np.random.default_rng(seed), writers=5) for seed in (3, 3, 4))
    assert (first.symbols == again.symbols).all() and (first.clients == again.clients).all()
    assert len(first.symbols) != len(other.symbols) or (first.symbols != other.symbols).any()


def test_shifts_have_their_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2000 writers who have one row of ink to shift, two binomial bounds of 5e-7 in all; equal parts are caught."""
    image = np.zeros((8, 8))
    image[3, :4] = 16.0
    monkeypatch.setattr(module, "_bundled", lambda: (np.repeat(image[np.newaxis], 10, axis=0), np.arange(10)))
    found = digit_patterns(np.random.default_rng(9), grid=(8, 2), writers=2000, images=0.0)
    rows = np.rint(np.log2(found.symbols & sum(4**i for i in range(8)))).astype(int) // 2  # of the left blocks
    of_writer = rows[:: len(rows) // 2000]
    assert (rows.reshape(2000, -1) == of_writer[:, np.newaxis]).all()  # a writer has one style
    stays = int((of_writer == 3).sum())
    low, high = stats.binom.ppf([2.5e-7, 1.0 - 2.5e-7], 2000, 0.6)
    assert low <= stays <= high
    assert not low <= int((np.arange(2000) % 3 == 1).sum()) <= high


@pytest.mark.parametrize("grid", [(3, 2), (2,), [2, 2], (0, 2), (8, 8), (2.5, 2), (True, 2), "22"])
def test_grids_that_do_not_fit_are_refused(grid: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        digit_patterns(np.random.default_rng(1), grid=grid, writers=2)


@pytest.mark.parametrize("changed", [{"writers": 0}, {"images": -1.0}, {"images": math.nan}, {"writers": True}])
def test_sizes_out_of_range_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        digit_patterns(np.random.default_rng(1), **({"writers": 2} | changed))


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name="sklearn")

    monkeypatch.setattr("hockeystick.accounting.optional_packages.import_module", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'hockeystick\[demo\]'"):
        digit_patterns(np.random.default_rng(1), writers=2)


# --- a Laplace law against a normal one ------------------------------------------------------------------------------


def test_the_reference_of_rounded_normals() -> None:
    """Small for a location of 0.1, large for 1; and every client has the given number of records."""
    found = {}
    for location in (0.1, 1.0):
        pi, data = laplace_against_normal(np.random.default_rng(5), location=location)
        assert math.fsum(pi) == pytest.approx(1.0, abs=1e-12)
        assert data.symbols == len(pi)
        assert (data.records() == 125).all() and data.clients == 200
        h = data.total()
        p = (h + 1.0) / (h.sum() + len(h))
        found[location] = kl(pi, p / p.sum())
    assert found[0.1] < 0.3 < found[1.0]


@pytest.mark.parametrize("order", ["signs", "sorted"])
def test_orders_change_clients_but_not_their_sum(order: Any) -> None:
    _, alike = laplace_against_normal(np.random.default_rng(6), draws=20_000, clients=40)
    _, data = laplace_against_normal(np.random.default_rng(6), draws=20_000, clients=40, order=order)
    assert (data.total() == alike.total()).all()
    assert (data.records() == 125).all()
    means = (data.table @ np.arange(data.symbols)) / 125
    if order == "sorted":
        assert (np.diff(means) >= 0).all()
    else:
        assert means[::2].min() > means[1::2].max()


def test_values_drawn_once_are_left_out() -> None:
    draws = 1000
    pi, _ = laplace_against_normal(np.random.default_rng(8), draws=draws, clients=2)
    values, counts = np.unique(
        np.rint(100.0 * np.random.default_rng(8).standard_normal(draws)).astype(int), return_counts=True
    )
    assert pi == pytest.approx(counts[counts > 1] / counts[counts > 1].sum())
    assert len(values) > len(pi)


@pytest.mark.parametrize(
    "changed", [{"order": "random"}, {"location": math.inf}, {"draws": 10}, {"clients": 0}, {"records": 1.5}]
)
def test_other_laplace_settings_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        laplace_against_normal(np.random.default_rng(1), **({"draws": 100} | changed))


# --- laws without structure ------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 60), st.floats(1e-4, 5.0), st.integers(0, 2**32))
def test_tilted_laws_have_the_given_divergence(k: int, divergence: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pi = dirichlet_law(k, rng)
    assert math.fsum(pi) == pytest.approx(1.0, abs=1e-12)
    p = tilted(pi, divergence, rng)
    assert (p > 0.0).all() and math.fsum(p) == pytest.approx(1.0, abs=1e-12)
    assert kl(pi, p) == pytest.approx(divergence, rel=1e-6)


def test_bad_laws_are_refused() -> None:
    rng, pi = np.random.default_rng(1), [0.5, 0.5]
    for call in (
        lambda: dirichlet_law(1, rng),
        lambda: dirichlet_law(3, rng, concentration=0.0),
        lambda: tilted([0.5, 0.6], 0.1, rng),
        lambda: tilted(pi, 0.0, rng),
        lambda: tilted(pi, math.nan, rng),
    ):
        with pytest.raises(InvalidArgumentError):
            call()
