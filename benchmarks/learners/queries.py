"""Private query release and smoothed online learning: errors of several methods at equal epsilon, and speed.

    python -m benchmarks.learners.queries [--quick] [--write]

Errors are the largest over all queries of the class that are asked, the mean over runs; they read the data, which is
made up. All methods have epsilon = 1 under replace-one, and SmartNoise's MWEM and AIM also their own epsilon = 1, for
adding or removing a record: see ``benchmarks.learners.queries_peers``. They are run by the Python that the variable
PEER_PYTHON names, if it has smartnoise-synth; otherwise their rows say that they were skipped. ``--write`` puts the
table into docs/benchmarks-queries.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.frame import Row, compare, seconds, within
from benchmarks.learners.queries_peers import DELTA, peers
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformCube, UniformGrid
from hockeystick.learners.smoothed.measures.projection import kl_projection
from hockeystick.learners.smoothed.measures.public_column import PublicColumn
from hockeystick.learners.smoothed.online.smoothed_online import SmoothedOnline
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.laplace_per_query import LaplacePerQuery
from hockeystick.learners.smoothed.queries.plan import calibrated, mwem
from hockeystick.learners.smoothed.queries.query_release import QueryRelease, ReleasedQueries

_EPSILON, _RECORDS, _SIGMA = 1.0, 20_000, 0.2
_BINS = 64  # on each axis, of records that a peer is given of the unit square


def error_row(task: str, method: str, error: float | None, note: str = "") -> Row:
    """Returns the row of a method's error, or of why there is none; methods are compared, not judged."""
    return Row((f"{task}: {method}", "SKIP" if error is None else f"{error:.3g}", note or "–"))


def _calibrated(columns: list[PublicColumn], queries: Any, **options: Any) -> QueryRelease:
    own: dict[str, Any] = {"records": _RECORDS, "sigma": _SIGMA, "epsilon": _EPSILON, "vacuous": True}
    return QueryRelease.calibrated(columns, queries=queries, **own, **options)


# --- thresholds ------------------------------------------------------------------------------------------------------


def _values(points: int) -> FloatArray:
    """Records on a grid 0 .. N-1, bell-shaped: about 1/4 as spread as the uniform law."""
    x = np.random.default_rng(1).normal(0.4, 0.1, _RECORDS)
    return np.clip(np.rint(x * (points - 1)), 0, points - 1)


def _largest(released: FloatArray, truth: FloatArray) -> float:
    """The largest error, the mean over runs (runs, M)."""
    return float(np.abs(released - truth).max(axis=1).mean())


def thresholds(points: int, runs: int) -> Iterator[Row]:
    """All thresholds on a grid, by each method."""
    task, values = f"thresholds on {points} points, n = {_RECORDS}", _values(points)
    rng = np.random.default_rng(2)
    counts = np.bincount(values.astype(np.int64), minlength=points).astype(float)
    truth = np.cumsum(counts[::-1])[::-1] / _RECORDS
    column = PublicColumn(name="x", low=0.0, high=points - 1.0, points=points)
    asked = np.unique(np.linspace(0, points - 1, 2048).astype(np.int64))
    shown: dict[str, Any] = {
        "Projected Smooth MWEM": {},
        "Projected Smooth MWEM, last law": {"output": "last"},
        "Projected Smooth MWEM, last law, 4 replays": {"output": "last", "replay": 4},
        "Projected Smooth MWEM, δ = 1e-6": {"delta": DELTA},
        "Projected Smooth MWEM, last law, δ = 1e-6": {"delta": DELTA, "output": "last"},
    }
    for name, options in shown.items():
        of = _calibrated([column], "thresholds", largest_cover=4096, **options)
        released = [of.run(values, rng) for _ in range(runs)]
        answers = np.stack([one.answer(asked.astype(float)) for one in released])
        yield error_row(task, name, _largest(answers, truth[asked]), _bounds(of, released))
    if points <= 4096:
        yield from _on_all(points, runs, task, values, truth)
    noisy = counts + rng.laplace(scale=2.0 / _EPSILON, size=(runs, points))
    sums = np.cumsum(noisy[:, ::-1], axis=1)[:, ::-1] / _RECORDS
    yield error_row(task, "Laplace histogram, summed", _largest(sums, truth), "2/epsilon on each count")
    yield error_row(task, "Laplace binary tree", _largest(_tree(counts, rng, runs) / _RECORDS, truth), "no smoothing")
    if points <= 4096:
        for one in peers(values, points, epsilon=_EPSILON, runs=min(runs, 3)):
            error = None if one.laws is None else _largest(np.cumsum(one.laws[:, ::-1], axis=1)[:, ::-1], truth)
            yield error_row(task, one.method, error, one.note)


def _bounds(of: QueryRelease, released: list[ReleasedQueries]) -> str:
    """Returns the error bounds: the planned one, and the mean of those from measurements."""
    planned = of.error_bound()
    measured = float(np.mean([one.measured().error for one in released]))
    found = "no bound as planned" if planned is None else f"bound {planned.error:.3g} as planned"
    return f"R = {of.learner.rounds}, {found}, {measured:.3g} by what was measured"


def _on_all(points: int, runs: int, task: str, values: FloatArray, truth: FloatArray) -> Iterator[Row]:
    """The baselines that list all queries."""
    rng = np.random.default_rng(3)
    grid = UniformGrid(points)
    cells = BoxCells.of(Thresholds().cover(0.5 / points, grid))
    records = values / (points - 1)
    plain = mwem(cells, records=_RECORDS, epsilon=_EPSILON, failure=0.05, vacuous=True)
    laws = plain.weights(plain.simulate(records, rng, runs))
    yield error_row(task, "MWEM", _largest(cells.answers(laws)[:, :points], truth), f"R = {plain.rounds}, no cover")
    each = LaplacePerQuery.calibrated(cells, records=_RECORDS, epsilon=_EPSILON)
    answers = each.simulate(records, rng, runs)[:, :points]
    yield error_row(task, "Laplace on each query", _largest(answers, truth), "the budget split evenly")


def _tree(counts: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
    """Suffix sums (runs, N) from noisy nodes of a binary tree, of which a record is in one on each level."""
    depth = max(1, (len(counts) - 1).bit_length())
    leaves = np.zeros(1 << depth)
    leaves[: len(counts)] = counts
    scale = 2.0 * depth / _EPSILON  # the root is n, which is public
    sums = np.zeros((runs, 1))
    for level in range(1, depth + 1):
        nodes = leaves.reshape(1 << level, -1).sum(axis=1)
        right = nodes[1::2] + rng.laplace(scale=scale, size=(runs, len(nodes) // 2))
        sums = np.stack([sums + right, sums], axis=2).reshape(runs, -1)  # what lies to the right of each node
    whole = np.concatenate([np.full((runs, 1), float(counts.sum())), sums], axis=1)
    return whole[:, : len(counts)]


# --- rectangles ------------------------------------------------------------------------------------------------------


def rectangles(runs: int) -> Iterator[Row]:
    """2000 random rectangles of the unit square, on which records are bell-shaped."""
    rng = np.random.default_rng(4)
    task, table = f"2000 random rectangles, n = {_RECORDS}", np.clip(rng.normal(0.5, 0.18, (_RECORDS, 2)), 0.0, 1.0)
    sides = np.sort(rng.random((2000, 2, 2)), axis=1)
    ends = np.concatenate([sides[:, 0], sides[:, 1]], axis=1)
    columns = [PublicColumn(name=name, low=0.0, high=1.0) for name in ("x", "y")]
    variants: list[dict[str, Any]] = [{}, {"output": "last"}, {"output": "last", "replay": 4}]
    variants.append({"output": "last", "delta": DELTA})
    for options in variants:
        of = _calibrated(columns, "rectangles", largest_cover=2**14, **options)
        truth = of.learner.cells.empirical(of.parameters(ends), of.points(table))
        released = [of.run(table, rng) for _ in range(runs)]
        answers = np.stack([one.answer(ends) for one in released])
        name = "Projected Smooth MWEM" + "".join(f", {key} {value}" for key, value in options.items())
        note = f"K = {of.learner.cells.queries}, {_bounds(of, released)}"
        yield error_row(task, name, _largest(answers, truth), note)
    for bins in (16, 64, 1024):
        counts = np.histogramdd(table, bins=[np.linspace(0.0, 1.0, bins + 1)] * 2)[0]
        found = []
        for _ in range(runs):
            noisy = counts + rng.laplace(scale=2.0 / _EPSILON, size=counts.shape)
            summed = np.pad(np.cumsum(np.cumsum(noisy, axis=0), axis=1), ((1, 0), (1, 0)))
            found.append(_boxes(summed, ends * bins) / _RECORDS)
        yield error_row(task, f"Laplace histogram, {bins} x {bins} bins", _largest(np.stack(found), truth))
    binned = np.minimum((table * _BINS).astype(np.int64), _BINS - 1)
    for one in peers(binned, _BINS, epsilon=_EPSILON, runs=min(runs, 3)):
        error = None
        if one.laws is not None:
            tables = [np.pad(np.cumsum(np.cumsum(law, axis=0), axis=1), ((1, 0), (1, 0))) for law in one.laws]
            error = _largest(np.stack([_boxes(cumulative, ends * _BINS) for cumulative in tables]), truth)
        yield error_row(task, f"{one.method}, {_BINS} x {_BINS} bins", error, one.note)


def _boxes(table: FloatArray, ends: FloatArray) -> FloatArray:
    """Sums over boxes from cumulative ones, linear inside a bin."""

    def at(x: FloatArray, y: FloatArray) -> FloatArray:
        i, j = (np.minimum(z.astype(np.int64), len(table) - 2) for z in (x, y))
        s, t = x - i, y - j
        low = (1 - s) * table[i, j] + s * table[i + 1, j]
        return np.asarray((1 - t) * low + t * ((1 - s) * table[i, j + 1] + s * table[i + 1, j + 1]))

    a, b, c, d = ends.T
    return at(c, d) - at(a, d) - at(c, b) + at(a, b)


# --- speed -----------------------------------------------------------------------------------------------------------


def speed(quick: bool) -> Iterator[Row]:
    """CPU time beside given limits."""
    part = 0.01 if quick else 1.0
    rounds = round(1e6 * part)
    learner = SmoothedOnline(concepts=Thresholds(), measure=UniformCube(1), sigma=0.1, rounds=rounds, gamma=1e-6)
    x = np.random.default_rng(5).random(rounds).tolist()

    def played() -> None:
        player = learner.player(np.random.default_rng(6))
        for point in x:
            player.predict()
            player.update(point, point > 0.3)

    yield within(f"{rounds:g} rounds with {learner.size:g} thresholds", seconds(1, played)[0], 60.0 * part)
    each = {bits: _round_of(1 << bits) for bits in (14, 24)}
    yield within("a round of Smooth MWEM over 2^24 points, 4096 queries", each[24], 0.01)
    yield within("its CPU time, as a multiple of that over 2^14 points", each[24] / each[14], 1.5, "times")
    n = round(1e6 * part)
    cells = BoxCells.of(Thresholds().cover(0.5 / 4096, UniformGrid(4096)))
    many = calibrated(cells, records=n, sigma=0.1, epsilon=1.0, rounds=30, project=True, failure=0.05, vacuous=True)
    records = np.random.default_rng(7).beta(4.0, 6.0, n)
    spent = seconds(3, lambda: many.run(records, np.random.default_rng(8)))[0]
    yield within(f"Smooth MWEM, n = {n:g}, R = 30", spent, 5.0)
    atoms = round(1e7 * part)
    law = np.random.default_rng(9).exponential(size=atoms)
    law /= law.sum()
    caps = np.full(atoms, 1.5 / atoms)
    spent = seconds(2, lambda: kl_projection(law, caps))[0]
    yield within(f"KL projection of {atoms:g} masses", spent, 3.0 * part)


def _round_of(points: int) -> float:
    """CPU seconds of one round."""
    cells = BoxCells.of(Thresholds().cover(0.5 / 4096, UniformGrid(points)))
    of = calibrated(cells, records=10_000, sigma=0.1, epsilon=1.0, rounds=100, failure=0.05, project=True, vacuous=True)
    records = np.random.default_rng(10).beta(4.0, 6.0, 10_000)
    return seconds(3, lambda: of.run(records, np.random.default_rng(11)))[0] / 100.0


def rows(quick: bool) -> Iterator[Row]:
    """All rows."""
    runs = 2 if quick else 8
    yield from speed(quick)
    for points in (256,) if quick else (256, 4096, 1 << 20):
        yield from thresholds(points, runs)
    yield from rectangles(runs)


PAGE = """# Private queries: errors beside other methods', and speed

No method has the smallest error everywhere, at ε = 1:

- thresholds, if the domain can be listed: a histogram with Laplace noise or a tree of histograms;
- rectangles: AIM, then a coarse histogram, whose bins have to be chosen well. AIM is as good as the last law of Smooth
  MWEM on 256 points, and far worse on 4096;
- a million points, where no peer was run: the last law and replayed measurements. The errors of the histogram are much
  larger, and the tree is no better than the average of laws.

At equal budgets the last law with replayed measurements always has smaller errors than SmartNoise's MWEM. The bounds of
the last law are the measured ones; there is no bound before the run. Over all rectangles every bound is vacuous,
because a cover that can be listed is too coarse.

{met} They are limits of speed, in CPU seconds of one process; other processes ran on the machine.

Written by `python -m benchmarks.learners.queries --write`; edit that instead.

This page compares the errors of private answers to threshold and rectangle queries. An error is the largest over all
queries of the workload, at ε = 1, as the mean over runs on one made-up table. δ is 0 unless stated. The peers are
SmartNoise's MWEM and AIM (smartnoise-synth). They are run with their own ε, which is for adding or removing a record,
and with the budget that gives ε = 1 under replace-one, like all other rows. AIM has δ = 1e-6 and is compared with rows
of the same δ. On one column AIM measures its histogram, on two columns their joint histogram.

{table}
"""


if __name__ == "__main__":
    columns, quick = "| | what | measured | limit or note |", "a hundredth of the sizes, 256 points alone"
    sys.exit(compare("benchmarks-queries.md", columns, rows, PAGE, quick=quick))
