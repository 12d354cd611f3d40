"""Smooth laws and data: densities of generators, and chi against linear programs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, ProductMeasure, UniformCube, UniformGrid
from hockeystick.learners.smoothed.measures.smooth_data import (
    AcceptedLaw,
    CellLaw,
    PiecewiseLaw,
    SmoothLaw,
    WindowLaw,
    around,
    nearest_smooth,
    sampling_chi,
    smoothness,
    threshold_chi,
)

LINE = UniformCube(1)
LUMPY = ListedMeasure(np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.5, 0.2, 0.2, 0.1]))


def excess(law: SmoothLaw, sigma: float, cells: int = 8, draws: int = 40_000) -> float:
    """By how many Hoeffding radii (false alarm 1e-6 over all cells) some cell's mass exceeds mu / sigma."""
    points = law.sample(np.random.default_rng(5), draws)[:, 0]
    edges = law.measure.quantile(0, np.arange(1, cells) / cells)
    cell = np.searchsorted(edges, points, side="left")
    seen = np.bincount(cell, minlength=cells) / draws
    base = np.diff(law.measure.cdf(0, np.concatenate([[-np.inf], edges, [np.inf]])))
    radius = math.sqrt(math.log(cells * 1e6) / (2 * draws))
    return float(((seen - base / sigma) / radius).max())


@pytest.mark.parametrize(
    "law",
    [
        WindowLaw(LINE, 0.375, 0.25),
        around(LUMPY, 0.9, 0.25),
        around(ProductMeasure((LUMPY, LINE)), 0.1, 0.25),
        CellLaw(LINE, 8, np.array([1, 6])),
        CellLaw.random(UniformGrid(2**40), 0.25, np.random.default_rng(0)),
        PiecewiseLaw(LINE, np.array([0.5, 0.0, 0.3, 0.2, 0.0, 0.0, 0.0, 0.0])),
        AcceptedLaw(LINE, lambda x: np.exp(-4 * x[:, 0]), 0.235, np.random.default_rng(1)),
    ],
    ids=lambda law: type(law).__name__,
)
def test_generators_keep_to_their_density(law: SmoothLaw) -> None:
    """p <= mu / sigma on cells of positive mass; false alarm below 1e-6 per law (Hoeffding, all cells)."""
    assert excess(law, law.smoothness) < 1.0


def test_a_law_that_is_too_concentrated_is_seen() -> None:
    """The twin: half of the stated window."""
    assert excess(WindowLaw(LINE, 0.375, 0.125), 0.25) > 1.0


def test_an_acceptance_that_is_too_rare_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="mean acceptance"):
        AcceptedLaw(LINE, lambda x: np.exp(-4 * x[:, 0]), 0.25, np.random.default_rng(1))
    with pytest.raises(InvalidArgumentError):
        AcceptedLaw(LINE, lambda x: 2.0 * x[:, 0], 0.1, np.random.default_rng(1))


def test_bad_laws_are_refused() -> None:
    plane = ListedMeasure(np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([0.5, 0.5]))
    for make in (
        lambda: WindowLaw(LINE, 0.8, 0.25),
        lambda: WindowLaw(LINE, math.nan, 0.25),
        lambda: WindowLaw(plane, 0.0, 0.5),
        lambda: WindowLaw(LINE, 0.0, 0.5, axis=1),
        lambda: CellLaw(LINE, 4, np.array([1, 1])),
        lambda: CellLaw(LINE, 4, np.array([4])),
        lambda: PiecewiseLaw(LINE, np.array([0.5, 0.6])),
        lambda: WindowLaw(LINE, np.array([0.0, 0.1]), 0.5).sample(np.random.default_rng(0), 3),
        lambda: threshold_chi(np.array([]), LINE, 0.5),
        lambda: smoothness([0.5, 0.5], [0.5]),
    ):
        with pytest.raises(InvalidArgumentError):
            make()


def test_smoothness_of_masses() -> None:
    assert smoothness([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]) == 0.5
    assert smoothness([1.0, 0.0], [0.0, 1.0]) == 0.0


@pytest.mark.statistical
@settings(max_examples=40)
@given(st.data())
def test_chi_of_thresholds_is_the_linear_program(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 7))
    weights = np.array(data.draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)), dtype=float)
    records = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=9)))
    sigma = data.draw(st.floats(0.05, 1.0))
    base, law = weights / weights.sum(), np.bincount(records, minlength=size) / len(records)
    table = np.triu(np.ones((size, size)))  # all thresholds
    chi, smooth = nearest_smooth(table, law, base, sigma)
    assert smoothness(np.maximum(smooth, 0.0) / np.maximum(smooth, 0.0).sum(), base) >= sigma * (1 - 1e-6)
    assert np.abs(table @ (smooth - law)).max() <= chi + 1e-7
    assert threshold_chi(records, ListedMeasure(np.arange(size), base), sigma) == pytest.approx(chi, abs=1e-7)


def test_chi_without_atoms() -> None:
    # One record: a jump of 1 must be spread over mass sigma, half on each side where there is room.
    assert threshold_chi([0.5], LINE, 1e-9) == pytest.approx(0.5)
    assert threshold_chi([0.0], LINE, 1e-9) == pytest.approx(1.0)
    assert threshold_chi([0.5], LINE, 1.0) == pytest.approx(0.5)
    # Quantiles of mu itself are within half a step.
    even = (np.arange(100) + 0.5) / 100
    assert threshold_chi(even, LINE, 1.0) == pytest.approx(0.005)


def test_draws_of_a_smooth_law_are_smooth_data() -> None:
    """chi <= sqrt(ln(2/eta)/(2n)) but for eta = 1e-6; a law on a quarter of the stated mass is not."""
    rng = np.random.default_rng(3)
    allowed = sampling_chi(4000, 1e-6)
    assert threshold_chi(WindowLaw(LINE, 0.3, 0.1).sample(rng, 4000), LINE, 0.1) <= allowed
    assert threshold_chi(WindowLaw(LINE, 0.3, 0.025).sample(rng, 4000), LINE, 0.1) > allowed
