"""Errors by what was measured: they hold for every output, on any records, and are the intervals they should be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformCube
from hockeystick.learners.smoothed.measures.public_column import PublicColumn
from hockeystick.learners.smoothed.queries.answers import Transcripts
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.cells import MatrixCells
from hockeystick.learners.smoothed.queries.query_release import QueryRelease
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM
from hockeystick.mechanisms import SimulationNoise

CELLS = BoxCells.of(Thresholds().cover(0.02, UniformCube(1)))
VARIANTS: list[dict[str, Any]] = [
    {},
    {"output": "last"},
    {"output": "last", "replay": 3},
    {"replay": 2, "step": "paper", "project": False},
    {"output": "last", "clip": False},
    {"noise": "discrete laplace", "output": "last"},
]


def learner(**options: Any) -> SmoothMWEM:
    base: dict[str, Any] = {"cells": CELLS, "records": 400, "sigma": 0.2, "rounds": 6, "project": True}
    return SmoothMWEM(**(base | {"epsilon_em": 0.8, "epsilon_lap": 0.4} | options))


def violated(of: SmoothMWEM, records: Any, runs: int, failure: float) -> tuple[int, int]:
    """How many of the runs' intervals miss a true answer, and how many published errors exceed their bound."""
    found = of.simulate(records, np.random.default_rng(5), runs)
    bounds = of.measured_bounds(found, failure=failure)
    truth = of.cells.answers(of.counts(records)) / of.records
    missed = ((truth < bounds.low - 1e-12) | (truth > bounds.high + 1e-12)).any(axis=1)
    errors = np.abs(of.cells.answers(of.weights(found)) - truth).max(axis=1)
    return int(missed.sum()), int((errors > bounds.cover + 1e-12).sum())


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_they_hold_for_every_law_and_any_records(options: dict[str, Any]) -> None:
    """False alarm at most 300 * 2e-9 by the bound itself. Records are smooth, or all at one point."""
    rng = np.random.default_rng(3)
    for records in (rng.uniform(0.3, 0.5, (400, 1)), np.full((400, 1), 0.77)):
        assert violated(learner(**options), records, 150, 2e-9) == (0, 0)


def test_a_noise_larger_than_told_is_noticed() -> None:
    """The twin: transcripts of a learner of a tenth of the budget break the bounds, at a failure that is not tiny."""
    people = np.random.default_rng(3).uniform(0.3, 0.5, (400, 1))
    of = learner(output="last")
    assert violated(of, people, 150, 0.05)[0] <= 22  # P(Bin(150, 0.05) > 22) < 1e-6
    noisy = evolve(of, epsilon_em=0.08, epsilon_lap=0.04).simulate(people, np.random.default_rng(5), 150)
    truth, bounds = CELLS.answers(of.counts(people)) / 400, of.measured_bounds(noisy, failure=0.05)
    assert int(((truth < bounds.low) | (truth > bounds.high)).any(axis=1).sum()) > 100


def test_the_failure_is_not_wasted_where_noise_alone_decides() -> None:
    """One query, one round: the interval is that of the Laplace noise, at failure/2, and misses about as often.

    20,000 runs against the exact odds e^-t = 0.1, two-sided at 5.2 standard errors: false alarm 2e-7.
    """
    cells = MatrixCells(matrix=[[0.0, 1.0]])
    of = SmoothMWEM(cells=cells, records=1000, sigma=1.0, rounds=1, epsilon_em=1.0, epsilon_lap=0.5)
    records = np.repeat([0, 1], 500)
    missed, _ = violated(of, records, 20_000, 0.2)
    assert abs(missed / 20_000 - 0.1) <= 5.2 * np.sqrt(0.09 / 20_000)


def test_one_round_by_hand() -> None:
    """Two queries on three points: the numbers of the module's formula, worked out apart."""
    cells = MatrixCells(matrix=[[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    of = SmoothMWEM(cells=cells, records=100, sigma=1.0, rounds=1, epsilon_em=2.0, epsilon_lap=1.0, output="last")
    found = of.measured_bounds(Transcripts(np.array([[1]]), np.array([[0.6]])), failure=0.1)
    choice = np.log(0.95 / 0.05) / 100.0  # scale 2w/epsilon_em = 1, one other candidate
    noise = np.log(20.0) / 100.0
    reach = 0.6 - 1.0 / 3.0 + choice + noise
    np.testing.assert_allclose(found.low[0], [2.0 / 3.0 - reach, 0.6 - noise], atol=1e-7)
    np.testing.assert_allclose(found.high[0], [min(1.0, 2.0 / 3.0 + reach), 0.6 + noise], atol=1e-7)
    moved = np.array([1.0, 1.0, np.exp(4.0 * (0.6 - 1.0 / 3.0))])
    answers = np.array([moved[1] + moved[2], moved[2]]) / moved.sum()
    expected = np.maximum(found.high[0] - answers, answers - found.low[0]).max()
    assert found.cover[0] == pytest.approx(expected) and not found.needs_chi
    assert found.error(chi=0.3)[0] == found.cover[0] == found.free[0] and found.failure == 0.1  # type: ignore[index]


def test_queries_off_the_cover_take_the_density_and_chi() -> None:
    people = np.random.default_rng(3).uniform(0.3, 0.5, (400, 1))
    of = learner(output="last", replay=2)
    runs = of.simulate(people, np.random.default_rng(0), 3)
    found, density = of.measured_bounds(runs), (of.weights(runs) / CELLS.masses).max(axis=1)
    np.testing.assert_allclose(found.off, CELLS.gamma * (5.0 + density))
    assert found.free is not None
    np.testing.assert_allclose(found.error(chi=0.01), np.minimum(found.cover + found.off + 0.02, found.free))
    nearest = evolve(of, project=False)
    np.testing.assert_allclose(nearest.measured_bounds(runs).off, CELLS.gamma * 5.0)


def test_it_is_a_function_of_the_transcript_and_far_below_the_plans_bound() -> None:
    """A release's bound, of any output, at the plan's failure; the plan's own is much larger."""
    values = np.random.default_rng(1).uniform(0.2, 0.6, 20_000)
    column = PublicColumn(name="x", low=0.0, high=1.0)
    errors = {}
    for output in ("average", "last"):
        of = QueryRelease.calibrated(
            [column], queries="thresholds", records=20_000, sigma=0.4, epsilon=1.0, largest_cover=1024, output=output
        )  # fmt: skip
        found = of.release(values, noise=SimulationNoise(np.random.default_rng(2)))
        told = found.measured()
        assert told == found.measured() and told.failure == pytest.approx(0.05)
        assert found.private_report(values).cover <= told.cover < told.error < 1.0
        errors[output] = told.error
        if output == "average":
            prior = of.error_bound()
            assert prior is not None and 1.5 * told.error < prior.error
    assert errors["last"] < errors["average"]
    fixed = QueryRelease.calibrated(
        [column], queries="thresholds", records=20_000, sigma=0.4, epsilon=1.0, chi=0.02, gamma=0.01
    )
    told = fixed.run(values, np.random.default_rng(0)).measured()
    assert told.free is not None and told.cover < told.error <= told.free


@pytest.mark.parametrize("options", [{}, {"output": "last"}, {"output": "last", "project": False}], ids=str)
def test_thresholds_between_two_of_the_cover_take_no_smoothness(options: dict[str, Any]) -> None:
    """All thresholds of the line, on records at one point, which no law is near: false alarm 40 * 2e-9 by the bound.

    By a fine search over both sides of each record and of each threshold of the cover. The twin: bounds on the cover
    alone do not hold there.
    """
    of, people = learner(**options), np.full((400, 1), 0.7701)
    ends = np.concatenate([CELLS.cover.parameters[:, 0], people[:1, 0], np.linspace(0.0, 1.0, 101)])
    asked = np.unique(np.concatenate([ends, np.nextafter(ends, 2.0)]))[:, None]
    runs = of.simulate(people, np.random.default_rng(6), 40)
    found, truth = of.measured_bounds(runs, failure=2e-9), CELLS.empirical(asked, people)
    assert found.free is not None and (found.cover <= found.free + 1e-12).all()
    errors = []
    for i in range(40):
        one = of.answers(runs[i : i + 1], simulated=True)
        errors.append(np.abs(one.answer(asked) - truth).max())
    assert (np.array(errors) <= found.free + 1e-12).all()
    sharp = of.measured_bounds(runs, failure=0.999)
    assert sharp.free is not None and (sharp.free > sharp.cover).any()


def test_covers_that_do_not_bracket_have_no_bound_on_any_records() -> None:
    of = learner(cells=BoxCells.of(Intervals().cover(0.2, UniformCube(1))))
    runs = of.simulate(np.full((400, 1), 0.5), np.random.default_rng(0), 2)
    assert of.measured_bounds(runs).free is None


@pytest.mark.parametrize("failure", [0.0, 1.0, np.nan, True, "x"])
def test_bad_failures_are_refused(failure: Any) -> None:
    of = learner()
    runs = of.simulate(np.full((400, 1), 0.5), np.random.default_rng(0), 2)
    with pytest.raises(InvalidArgumentError):
        of.measured_bounds(runs, failure=failure)
    with pytest.raises(InvalidArgumentError):
        of.measured_bounds(Transcripts(runs.queries[:, :2], runs.measurements[:, :2]))
    with pytest.raises(InvalidArgumentError):
        of.measured_bounds(runs).error(chi=-1.0)
