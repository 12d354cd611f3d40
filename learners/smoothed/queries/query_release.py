"""Private query release on a table: all thresholds, intervals or rectangles of its columns at once, and synthetic rows.

A column has public bounds, to which each record is clipped, and a public base measure: uniform between the bounds, or
on a grid, or that of a public reference column. The queries are a class on these columns, which may be infinite. A
cover of it is fixed from public numbers alone, and Projected Smooth MWEM releases a law that answers the whole class
(Haghtalab, Roughgarden & Shetty 2020, Algorithms 2 and 3, as corrected in ``smooth_mwem``).

σ declares that no set has more than 1/σ times its base mass under the records' law. It matters for the errors alone:
privacy rests neither on σ, nor on the base measure, nor on any property of the records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick.accounting import AccountantGraph, Guarantee, InvalidArgumentError, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, boolean, integer, items, one_of, probability, real
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, Cover
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, ProductMeasure, UniformGrid, extended
from hockeystick.learners.smoothed.measures.public_column import PublicColumn
from hockeystick.learners.smoothed.measures.smooth_data import sampling_chi
from hockeystick.learners.smoothed.measures.uniform_deviation import box_deviation
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
"""The default of the largest number of queries in a cover; each takes a few microseconds per round of a release."""

_LEAST_COVER = 2**6


def _columns(value: object) -> tuple[PublicColumn, ...]:
    found = items("columns", value)
    if not found or any(not isinstance(one, PublicColumn) for one in found):
        raise InvalidArgumentError("columns", value, "is not a list of columns", "give a PublicColumn for each")
    if len({one.name for one in found}) < len(found):
        raise InvalidArgumentError("columns", [one.name for one in found], "has a name twice", "give distinct names")
    return tuple(found)


@frozen(kw_only=True, eq=False)
class QueryRelease:
    """The release of all queries of a class on columns of a table; made by :meth:`calibrated`.

    Neighbours differ in the values of one of n records (replace-one). **n, the number of records, is public.**

    Args:
        columns: One column for thresholds and intervals, one or two for rectangles.
        learner: The learner; its cells are those of the class on the columns' base measure.
        failure: The probability with which answers may have errors above :meth:`error_bound`.
        chi: χ, the distance of the records from a σ-smooth law over all queries. Default: the records are independent
            draws of a σ-smooth law, for which χ is bounded except with probability ``failure``/2.

    Raises:
        InvalidArgumentError: columns and learner do not fit, or an argument is outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import QueryRelease
        >>> from hockeystick.learners.smoothed import PublicColumn
        >>> age = PublicColumn(name="age", low=0.0, high=120.0, points=121)
        >>> plan = QueryRelease.calibrated([age], queries="thresholds", records=20_000, sigma=0.25, epsilon=1.0,
        ...                                largest_cover=256)
        >>> ages = np.random.default_rng(0).normal(45.0, 12.0, 20_000)
        >>> found = plan.run(ages, np.random.default_rng(1))  # plan.release(ages) has secure noise
        >>> bool(abs(found.answer([45.0])[0] - (ages >= 44.5).mean()) < found.measured().error < 0.2)
        True
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
            raise InvalidArgumentError(
                "learner", type(self.learner).__name__, "does not answer boxes", "use calibrated"
            )
        if self.learner.cells.cover.concepts.dimension != len(self.columns):
            raise InvalidArgumentError(
                "columns", len(self.columns), "is not the number of the learner's columns", "use calibrated"
            )

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
        """Returns the release of least error bound that is (ε, δ)-DP, as certified by its graph.

        Args:
            columns: The public descriptions of the columns.
            queries: "thresholds" 1[x >= b], "intervals" 1[a <= x <= c], or "rectangles", an interval on each column.
            records: n, public.
            sigma: σ in (0, 1]: no set has more than 1/σ times its base mass under the records' law. The error bound
                assumes it; privacy does not depend on it.
            epsilon, delta: The target.
            rounds: R; default: the best number.
            gamma: The largest mass on which a query differs from one of the cover; default: the best of several.
            largest_cover: The largest number of queries in a cover that is chosen.
            project: Project onto σ-smooth laws, so that synthetic data are accurate for queries off the cover.
            failure: The probability with which the error bound may fail.
            chi: See the class; on a continuum no records are smooth with χ = 0.
            vacuous: Allow a vacuous error bound.
            options: ``step``, ``noise``, ``clip``, ``replay``, ``output`` of ``SmoothMWEM``.

        Raises:
            InvalidArgumentError: an argument outside its domain, or a vacuous error bound, of 1 or more.
        """
        known = _columns(columns)
        concepts, measure = _class(queries, known), _measure(known)
        chance = probability("failure", failure, open=True)
        most = integer("largest_cover", largest_cover, low=_LEAST_COVER)
        boolean("vacuous", vacuous)
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
                vacuous=True,  # checked below, with χ
                **options,
            )
            return cls(columns=known, learner=learner, failure=chance, chi=chi)

        sizes = [most >> j for j in range(0, 20, 2) if most >> j >= _LEAST_COVER]
        if gamma is not None:
            found = built(concepts.cover(gamma, measure))
        elif options.get("replay") or options.get("output") == "last":  # no error bound by which to choose a cover
            found = built(_cover(concepts, measure, most, least))
        else:
            covers = {cover.size: cover for cover in (_cover(concepts, measure, size, least) for size in sizes)}
            found = min(map(built, covers.values()), key=QueryRelease._error)
        if not vacuous and found._error() >= 1.0:
            reason = f"is too few: the error bound is {found._error():.3g}, which is vacuous"
            raise InvalidArgumentError("records", found.records, reason, "give more budget, or allow a vacuous bound")
        return found

    # --- the public plan ---------------------------------------------------------------------------------------------

    @property
    def records(self) -> int:
        """The number n of records."""
        return self.learner.records

    @property
    def cover(self) -> FloatArray:
        """The cover's queries by their ends in the columns' units, shape (K, p); see :meth:`ReleasedQueries.answer`."""
        return _values(self.columns, self._cover.parameters)

    def graph(self) -> AccountantGraph:
        """Returns the plan: choices and measurements that read the records, and their post-processing."""
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
        """Returns the guarantee of the graph, for ``group`` records replaced."""
        return self.graph().guarantee(group=group)

    def event(self) -> PrivacyEvent:
        """Returns the privacy event of a release, for one record."""
        return self.learner.event()

    def error_bound(self) -> ErrorBound | None:
        """Returns the a priori error bound over the class on σ-smooth records; None if nothing is proved a priori.

        After a release there is always :meth:`ReleasedQueries.measured`.
        """
        if self.learner.replay or self.learner.output == "last":
            return None
        chi, spent = self._chi()
        found = self.learner.error_bound(chi=chi, failure=self.failure - spent)
        return evolve(found, failure=min(1.0, found.failure + spent))

    def _chi(self) -> tuple[float, float]:
        """Returns χ of the records, and the part of ``failure`` that is used for it."""
        if self.chi is not None:
            return self.chi, 0.0
        half = 0.5 * self.failure
        return sampling_deviation(self._cover.concepts, self.records, half), half

    def _error(self) -> float:
        bound = self.error_bound()
        return 0.0 if bound is None else bound.error

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two tables that differ in one record, see ``SmoothMWEM.worst_case_neighbours``."""
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
        """Releases the law with secure noise.

        Args:
            table: The n records, shape (n, d), or (n,) for one column.
            ledger, name, reads, noise: See the release of a mechanism.
            progress: See ``SmoothMWEM.run``.

        Raises:
            InvalidDataError: there are not n records, or a value is not a number.
        """
        points = self.points(table)
        found = self.learner.release(points, ledger=ledger, name=name, reads=reads, noise=noise, progress=progress)
        return ReleasedQueries(of=self, law=found)

    def run(
        self, table: npt.ArrayLike, rng: np.random.Generator, *, progress: Progress | None = None
    ) -> ReleasedQueries:
        """Returns one run with simulated noise, for trials; it is not a release, as the seed reveals the noise."""
        return ReleasedQueries(of=self, law=self.learner.run(self.points(table), rng, progress=progress))

    def simulate(self, table: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns answers to the cover's queries in independent simulated runs, shape (runs, K)."""
        found = self.learner.simulate(self.points(table), rng, runs)
        return self.learner.cells.answers(self.learner.weights(found))

    def points(self, table: npt.ArrayLike) -> FloatArray:
        """Returns the coordinates of records, shape (n, d), each clipped independently. It reads the data."""
        rows = extended("table", table)
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise InvalidDataError("table", rows, f"does not have the shape (n, {len(self.columns)})")
        return np.stack([one.coordinates(rows[:, i]) for i, one in enumerate(self.columns)], axis=1)

    def values(self, points: npt.ArrayLike) -> FloatArray:
        """Returns rows (m, d) in the columns' units, from coordinates."""
        return _values(self.columns, array("points", points, shape=(None, len(self.columns)), data=True))

    def parameters(self, ends: npt.ArrayLike) -> FloatArray:
        """Returns the parameters (M, p) of queries that are given by their ends in the columns' units."""
        rows, d = extended("ends", ends), len(self.columns)
        width = self._cover.concepts.parameter_count
        rows = rows[:, None] if rows.ndim == 1 and width == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InvalidArgumentError("ends", rows.shape, f"does not have the shape (M, {width})")
        return np.stack([self.columns[i % d].ends(rows[:, i]) for i in range(width)], axis=1)

    @property
    def _cover(self) -> Cover:
        cells = self.learner.cells
        assert isinstance(cells, BoxCells)  # checked at construction
        return cells.cover


@frozen(kw_only=True, eq=False)
class ReleasedQueries:
    """The released law in the columns' units; answers cost no further privacy. See :class:`QueryRelease`.

    Attributes:
        of: The plan.
        law: The transcript and the law, in coordinates.
    """

    of: QueryRelease
    law: PrivateAnswers

    @property
    def simulated(self) -> bool:
        """Whether the noise was simulated, so that this is not a release."""
        return self.law.simulated

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the plan; it does not hold for simulated noise."""
        return self.of.guarantee()

    @property
    def bound(self) -> ErrorBound | None:
        """The a priori error bound on σ-smooth records, see ``QueryRelease.error_bound``."""
        return self.of.error_bound()

    def measured(self) -> MeasuredError:
        """Returns the a posteriori error bounds, for any output and replay; they may be published.

        They are computed anew in each call.
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
        """Returns the estimated shares (M,) of the records in queries of the class.

        Args:
            ends: The queries' ends in the columns' units: thresholds (b,), intervals (a, c) or rectangles
                (a_1, a_2, c_1, c_2), all closed. Ends may be infinite.
        """
        return self.law.answer(self.of.parameters(ends))

    def cover_answers(self) -> FloatArray:
        """Returns the estimated shares (K,) of the cover's queries, in the order of ``QueryRelease.cover``."""
        return self.law.cells.answers(self.law.weights)

    def synthetic(self, rows: int, rng: np.random.Generator) -> FloatArray:
        """Returns independent synthetic rows, shape (rows, d), in the columns' units."""
        return self.of.values(self.law.sample(rng, integer("rows", rows, low=0)))

    def private_report(self, table: npt.ArrayLike, ends: npt.ArrayLike | None = None) -> NotPrivate:
        """Returns the true errors, for the data's owner only: **not** differentially private."""
        points = self.of.points(table)
        return private_report(self.law, points, None if ends is None else self.of.parameters(ends))

    def truth(self, table: npt.ArrayLike, ends: npt.ArrayLike) -> FloatArray:
        """Returns the true answers, shape (M,), for the data's owner only: **not** differentially private."""
        return self.law.cells.empirical(self.of.parameters(ends), self.of.points(table))


# --- classes on columns ----------------------------------------------------------------------------------------------


def _class(queries: object, columns: tuple[PublicColumn, ...]) -> ConceptClass:
    one_of("queries", queries, "thresholds", "intervals", "rectangles")
    most = 2 if queries == "rectangles" else 1
    if len(columns) > most:
        raise InvalidArgumentError("columns", len(columns), f"is too many for {queries}", f"give at most {most}")
    if queries == "rectangles":
        return Rectangles(len(columns))
    return Thresholds() if queries == "thresholds" else Intervals()


def sampling_deviation(concepts: ConceptClass, records: int, failure: float) -> float:
    """Returns a bound on the deviation of n independent draws from their law on all queries, at failure ``failure``.

    Thresholds by Massart 1990, intervals as differences of two thresholds, rectangles by :func:`box_deviation`.
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
    """Returns a cover of at most ``size`` queries, with γ no smaller than ``least``, where the error gains no more."""
    d = concepts.dimension
    # m sides on each axis, a γ/(2d)-cover, make m(m - 1)/2 intervals on the axis.
    coarse = 0.5 / size if isinstance(concepts, Thresholds) else d / (1.0 + (2.0 * size ** (1.0 / d)) ** 0.5)
    gamma = min(1.0, max(coarse, least))
    while (found := concepts.cover(gamma, measure)).size > size and gamma < 1.0:
        gamma = min(1.0, 1.1 * gamma)
    return found


def _values(columns: tuple[PublicColumn, ...], rows: FloatArray) -> FloatArray:
    """Returns the values of points (M, d), or of ends (M, 2d), lower ends of all columns before upper ones."""
    d = len(columns)
    return np.stack([columns[i % d].values(rows[:, i], upper=i >= d) for i in range(rows.shape[1])], axis=1)
