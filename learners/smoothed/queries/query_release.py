"""Private query release on a table: all thresholds, intervals or rectangles of its columns at once, and synthetic rows.

A column has public bounds, to which each record is clipped, and a public base measure: uniform between the bounds, or
on a grid, or that of a public reference column. The queries are a class on these columns, infinite though it may be;
a cover of it is fixed from public numbers alone, and Projected Smooth MWEM releases a law that answers all of it
(Haghtalab, Roughgarden & Shetty 2020, Algorithms 2 and 3, as corrected in ``smooth_mwem``).

What is declared as sigma, that records are drawn from a law of which no part of the domain holds more than 1/sigma
times its base measure's share, is for the error alone. Privacy rests on none of it: not on sigma, nor the base measure,
nor any property of the records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick.accounting import AccountantGraph, Guarantee, InvalidArgumentError, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, items, probability, real
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, Cover
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, ProductMeasure, UniformGrid, extended
from hockeystick.learners.smoothed.measures.box_deviation import box_deviation
from hockeystick.learners.smoothed.measures.public_column import PublicColumn
from hockeystick.learners.smoothed.measures.smooth_data import sampling_chi
from hockeystick.learners.smoothed.queries.answers import NotPrivate, PrivateAnswers, private_report
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.error_bounds import ErrorBound, cover_gamma
from hockeystick.learners.smoothed.queries.measured_error import MeasuredError
from hockeystick.learners.smoothed.queries.plan import calibrated
from hockeystick.learners.smoothed.queries.smooth_mwem import Progress, SmoothMWEM
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger

Queries = Literal["thresholds", "intervals", "rectangles"]

LARGEST_COVER = 2**16
"""Queries of a cover, unless said otherwise: each costs a few microseconds a round of a release."""

_LEAST_COVER = 2**6


def _columns(value: object) -> tuple[PublicColumn, ...]:
    found = items("columns", value)
    if not found or any(not isinstance(one, PublicColumn) for one in found):
        raise InvalidArgumentError("columns", value, "are no columns", "give a PublicColumn for each")
    if len({one.name for one in found}) < len(found):
        raise InvalidArgumentError("columns", [one.name for one in found], "are named alike", "name each once")
    return tuple(found)


@frozen(kw_only=True, eq=False)
class QueryRelease:
    """All queries of a class on columns of a table, released at once; :meth:`calibrated` makes it.

    Neighbours differ in the values of one of n records (replace-one). **n, the number of records, is public.**

    Args:
        columns: One for thresholds and intervals, one or two for rectangles.
        learner: Whose cells are those of the class on the columns' base measure.
        failure: With at most this probability answers are off by more than :meth:`error_bound`.
        chi: How far the records themselves are from sigma-smooth, on every query; None for independent draws of a
            sigma-smooth law, for which it is bounded but for half of ``failure``.

    Raises:
        InvalidArgumentError: columns and learner do not fit, or an argument is outside its domain.
    """

    columns: tuple[PublicColumn, ...] = field(converter=_columns)
    learner: SmoothMWEM
    failure: float
    chi: float | None = None

    def __attrs_post_init__(self) -> None:
        probability("failure", self.failure, open=True)
        if self.chi is not None:
            real("chi", self.chi, low=0.0, high=1.0)
        if not isinstance(self.learner, SmoothMWEM) or not isinstance(self.learner.cells, BoxCells):
            raise InvalidArgumentError("learner", type(self.learner).__name__, "answers no boxes", "use calibrated")
        if self.learner.cells.cover.concepts.dimension != len(self.columns):
            raise InvalidArgumentError("columns", len(self.columns), "are not those of the learner", "use calibrated")

    @classmethod
    def calibrated(
        cls,
        columns: Iterable[PublicColumn],
        *,
        queries: Queries,
        records: int,
        sigma: float,
        epsilon: float,
        delta: float = 0.0,
        rounds: int | None = None,
        gamma: float | None = None,
        largest_cover: int = LARGEST_COVER,
        project: bool = True,
        failure: float = 0.05,
        chi: float | None = None,
        vacuous: bool = False,
        **options: Any,
    ) -> QueryRelease:
        """The one of least error bound that is (epsilon, delta)-DP, certified by its own graph.

        Args:
            columns: What is public about the columns.
            queries: "thresholds" 1[x >= b], "intervals" 1[a <= x <= c], or "rectangles", an interval on each column.
            records: n, public.
            sigma: In (0, 1]: no set holds more than 1/sigma times its base measure's share of the records' law. Errors
                are bounded if so, and privacy does not depend on it.
            epsilon, delta: The target.
            rounds: R; None for the best number.
            gamma: Mass by which queries may differ from the cover's; None for the best of some.
            largest_cover: The most queries in a cover that is chosen.
            project: Project onto sigma-smooth laws, which makes the synthetic data good for queries off the cover.
            failure: Probability with which the error bound may fail.
            chi: As above; on a continuum no records are smooth to chi = 0.
            vacuous: Take a learner whose error bound says nothing.
            options: ``step``, ``noise``, ``clip``, ``replay``, ``output`` of ``SmoothMWEM``.

        Raises:
            InvalidArgumentError: an argument outside its domain, or an error bound of 1 or more, which says nothing.
        """
        known = _columns(columns)
        concepts, measure = _class(queries, known), _measure(known)
        chance = probability("failure", failure, open=True)
        most = integer("largest_cover", largest_cover, low=_LEAST_COVER)
        least = cover_gamma(records=records, sigma=sigma, project=project)

        def built(cover: Cover) -> QueryRelease:
            learner = calibrated(
                BoxCells.of(cover),
                records=records,
                sigma=sigma,
                epsilon=epsilon,
                delta=delta,
                rounds=rounds,
                failure=chance if chi is not None else 0.5 * chance,
                project=project,
                vacuous=True,  # it is judged below, with chi
                **options,
            )
            return cls(columns=known, learner=learner, failure=chance, chi=chi)

        sizes = [most >> j for j in range(0, 20, 2) if most >> j >= _LEAST_COVER]
        if gamma is not None:
            found = built(concepts.cover(gamma, measure))
        elif options.get("replay") or options.get("output") == "last":  # nothing is proved: no cover is known as best
            found = built(_cover(concepts, measure, most, least))
        else:
            covers = {cover.size: cover for cover in (_cover(concepts, measure, size, least) for size in sizes)}
            found = min(map(built, covers.values()), key=QueryRelease._error)
        if not vacuous and found._error() >= 1.0:
            reason = f"is too few: errors are bounded by {found._error():.3g} only"
            raise InvalidArgumentError(
                "records", found.records, reason, "more budget, or vacuous, to go on all the same"
            )
        return found

    # --- what is public ----------------------------------------------------------------------------------------------

    @property
    def records(self) -> int:
        """n."""
        return self.learner.records

    @property
    def cover(self) -> FloatArray:
        """The cover's queries, as ends in the columns' units, shape (K, p); see :meth:`ReleasedQueries.answer`."""
        return _values(self.columns, self._cover.parameters)

    def graph(self) -> AccountantGraph:
        """The plan: choices and measurements that read the records; all else reads what these published."""
        found = self.learner.graph()
        clipped = ", ".join(f"{one.name} to [{one.low:g}, {one.high:g}]" for one in self.columns)
        return evolve(
            found,
            assumptions=(
                *found.assumptions,
                f"the bounds are public; each record is clipped to them on its own: {clipped}",
            ),
        )

    def guarantee(self, *, group: int = 1) -> Guarantee:
        """What the graph certifies, for ``group`` records replaced."""
        return self.graph().guarantee(group=group)

    def event(self) -> PrivacyEvent:
        """What a release costs one record."""
        return self.learner.event()

    def error_bound(self) -> ErrorBound | None:
        """How far any answer of the class is off, on sigma-smooth records; None where nothing is proved beforehand.

        After a release :meth:`ReleasedQueries.measured` has a bound in any case.
        """
        if self.learner.replay or self.learner.output == "last":
            return None
        chi, spent = self._chi()
        found = self.learner.error_bound(chi=chi, failure=self.failure - spent)
        return evolve(found, failure=min(1.0, found.failure + spent))

    def _chi(self) -> tuple[float, float]:
        """chi of the records, and the part of ``failure`` that it takes."""
        if self.chi is not None:
            return self.chi, 0.0
        half = 0.5 * self.failure
        return sampling_deviation(self._cover.concepts, self.records, half), half

    def _error(self) -> float:
        bound = self.error_bound()
        return 0.0 if bound is None else bound.error

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Two tables that differ in one record, see ``SmoothMWEM.worst_case_neighbours``."""
        first, second = self.learner.worst_case_neighbours()
        return self.values(first), self.values(second)

    # --- runs --------------------------------------------------------------------------------------------------------

    def release(
        self,
        table: npt.ArrayLike,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
        progress: Progress | None = None,
    ) -> ReleasedQueries:
        """Releases the law, with secure noise; arguments as for a mechanism's release.

        Args:
            table: n records, shape (n, d), or (n,) for one column.

        Raises:
            InvalidArgumentError: there are not n records, or one holds what is no number.
            SecureReleaseUnavailableError: there is no secure source of noise (the extra ``secure``).
        """
        points = self.points(table)
        found = self.learner.release(points, ledger=ledger, name=name, reads=reads, noise=noise, progress=progress)
        return ReleasedQueries(of=self, law=found)

    def run(
        self, table: npt.ArrayLike, rng: np.random.Generator, *, progress: Progress | None = None
    ) -> ReleasedQueries:
        """One run with simulated noise, to try it out: whoever knows the seed can undo it, so it is no release."""
        return ReleasedQueries(of=self, law=self.learner.run(self.points(table), rng, progress=progress))

    def simulate(self, table: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Answers to the cover's queries in independent simulated runs, shape (runs, K)."""
        found = self.learner.simulate(self.points(table), rng, runs)
        return self.learner.cells.answers(self.learner.weights(found))

    def points(self, table: npt.ArrayLike) -> FloatArray:
        """Coordinates of records, shape (n, d), each clipped on its own. It reads the data."""
        rows = extended("table", table)
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise InvalidDataError("table", rows, f"has not the shape (n, {len(self.columns)})")
        return np.stack([one.coordinates(rows[:, i]) for i, one in enumerate(self.columns)], axis=1)

    def values(self, points: npt.ArrayLike) -> FloatArray:
        """Rows (m, d) in the columns' units, from coordinates."""
        return _values(self.columns, array("points", points, shape=(None, len(self.columns)), data=True))

    def parameters(self, ends: npt.ArrayLike) -> FloatArray:
        """Parameters of queries that are given by their ends in the columns' units, shape (M, p)."""
        rows, d = extended("ends", ends), len(self.columns)
        width = self._cover.concepts.parameter_count
        rows = rows[:, None] if rows.ndim == 1 and width == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InvalidArgumentError("ends", rows.shape, f"has not the shape (M, {width})")
        return np.stack([self.columns[i % d].ends(rows[:, i]) for i in range(width)], axis=1)

    @property
    def _cover(self) -> Cover:
        cells = self.learner.cells
        assert isinstance(cells, BoxCells)  # as was checked
        return cells.cover


@frozen(kw_only=True, eq=False)
class ReleasedQueries:
    """What was released; asking costs nothing more.

    Attributes:
        of: The plan.
        law: The transcript and the law, in coordinates.
    """

    of: QueryRelease
    law: PrivateAnswers

    @property
    def simulated(self) -> bool:
        """Whether the noise was simulated, so that this is no release."""
        return self.law.simulated

    @property
    def guarantee(self) -> Guarantee:
        """What is certified, were the noise not simulated."""
        return self.of.guarantee()

    @property
    def bound(self) -> ErrorBound | None:
        """How far answers are off, but for its failure probability, on sigma-smooth records."""
        return self.of.error_bound()

    def measured(self) -> MeasuredError:
        """How far answers are off by what was measured, for any output and replay; it may be published.

        It is computed anew in each call.
        """
        chi, spent = self.of._chi()
        found = self.of.learner.measured_bounds(self.law.transcripts, failure=self.of.failure - spent)
        return MeasuredError(
            cover=float(found.cover[0]),
            error=float(found.error(chi=chi)[0]),
            free=None if found.free is None else float(found.free[0]),
            failure=min(1.0, found.failure + spent),
        )

    def answer(self, ends: npt.ArrayLike) -> FloatArray:
        """Shares of the records, shape (M,), for any queries of the class by their ends in the columns' units.

        Args:
            ends: Thresholds (b,), intervals (a, c) or rectangles (a_1, a_2, c_1, c_2), all closed; infinite ends are
                fine.
        """
        return self.law.answer(self.of.parameters(ends))

    def cover_answers(self) -> FloatArray:
        """The same for the cover's queries, in the order of ``QueryRelease.cover``: shape (K,)."""
        return self.law.cells.answers(self.law.weights)

    def synthetic(self, rows: int, rng: np.random.Generator) -> FloatArray:
        """Independent synthetic rows, shape (rows, d), in the columns' units."""
        return self.of.values(self.law.sample(rng, integer("rows", rows, low=0)))

    def private_report(self, table: npt.ArrayLike, ends: npt.ArrayLike | None = None) -> NotPrivate:
        """The true errors, for the data's owner alone: it is **not** differentially private."""
        points = self.of.points(table)
        return private_report(self.law, points, None if ends is None else self.of.parameters(ends))

    def truth(self, table: npt.ArrayLike, ends: npt.ArrayLike) -> FloatArray:
        """The true answers, shape (M,), for the data's owner alone: they are **not** differentially private."""
        return self.law.cells.empirical(self.of.parameters(ends), self.of.points(table))


# --- classes on columns ----------------------------------------------------------------------------------------------


def _class(queries: object, columns: tuple[PublicColumn, ...]) -> ConceptClass:
    if queries not in ("thresholds", "intervals", "rectangles"):
        known = '"thresholds", "intervals" or "rectangles"'
        raise InvalidArgumentError("queries", queries, "is unknown", f"use {known}")
    most = 2 if queries == "rectangles" else 1
    if len(columns) > most:
        raise InvalidArgumentError("columns", len(columns), f"is too many for {queries}", f"give {most} at most")
    if queries == "rectangles":
        return Rectangles(len(columns))
    return Thresholds() if queries == "thresholds" else Intervals()


def sampling_deviation(concepts: ConceptClass, records: int, failure: float) -> float:
    """How far n independent draws are from their law on every query, at most, but for probability ``failure``.

    Thresholds by Massart 1990; an interval is the difference of two; rectangles by :func:`box_deviation`.
    """
    if isinstance(concepts, Thresholds):
        return sampling_chi(records, failure)
    boxes = box_deviation(records, concepts.dimension, failure)
    return min(boxes, 2.0 * sampling_chi(records, failure)) if concepts.dimension == 1 else boxes


def _measure(columns: tuple[PublicColumn, ...]) -> BaseMeasure:
    sizes = [one.points for one in columns if one.points is not None]
    if len(sizes) == len(columns):
        return UniformGrid(sizes)
    return columns[0].measure if len(columns) == 1 else ProductMeasure([one.measure for one in columns])


def _cover(concepts: ConceptClass, measure: BaseMeasure, size: int, least: float) -> Cover:
    """A cover of about ``size`` queries at most, and of mass no less than ``least``: finer would not pay."""
    d = concepts.dimension
    # m sides on each axis, of mass gamma/(2d), make m(m - 1)/2 intervals on it.
    coarse = 0.5 / size if isinstance(concepts, Thresholds) else d / (1.0 + (2.0 * size ** (1.0 / d)) ** 0.5)
    gamma = min(1.0, max(coarse, least))
    while (found := concepts.cover(gamma, measure)).size > size and gamma < 1.0:
        gamma = min(1.0, 1.1 * gamma)
    return found


def _values(columns: tuple[PublicColumn, ...], rows: FloatArray) -> FloatArray:
    """Values of rows (M, d) of points, or (M, 2d) of ends, the lower ones of all columns before the upper ones."""
    d = len(columns)
    return np.stack([columns[i % d].values(rows[:, i], upper=i >= d) for i in range(rows.shape[1])], axis=1)
