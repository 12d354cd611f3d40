"""What private query release publishes, and what follows from it at no further cost."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array
from hockeystick.learners.smoothed.queries.cells import QueryCells
from hockeystick.learners.smoothed.queries.error_bounds import ErrorBound


@frozen(eq=False)
class Transcripts:
    """What R runs published, round by round; all else follows from it.

    Attributes:
        queries: The chosen queries' indices, shape (R, rounds).
        measurements: Their noisy means over the records, never clipped, shape (R, rounds).
    """

    queries: IntArray
    measurements: FloatArray

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, rows: slice) -> Transcripts:
        return Transcripts(self.queries[rows], self.measurements[rows])

    def as_array(self) -> FloatArray:
        """Queries and measurements side by side, shape (R, 2*rounds): a transcript is a row."""
        return np.concatenate([self.queries.astype(float), self.measurements], axis=1)

    @classmethod
    def of_array(cls, rows: npt.ArrayLike) -> Transcripts:
        """The inverse of :meth:`as_array`."""
        table = array("rows", rows, ndim=2)
        half = table.shape[1] // 2
        return cls(table[:, :half].astype(np.int64), table[:, half:])


@frozen(kw_only=True, eq=False)
class PrivateAnswers:
    """A transcript and what follows from it; asking costs nothing more.

    Attributes:
        cells: The queries.
        records: n.
        projected: Whether all laws were projected onto sigma-smooth ones.
        transcripts: The one run's queries and measurements.
        weights: The published law D: mass of each cell, shape (C,).
        bound: How far answers are off, on smooth data and but for its failure probability; None where nothing is
            proved.
        simulated: Whether the noise was simulated, so that it is no release.
    """

    cells: QueryCells
    records: int
    projected: bool
    transcripts: Transcripts
    weights: FloatArray
    bound: ErrorBound | None
    simulated: bool

    def answer(self, parameters: npt.ArrayLike) -> FloatArray:
        """Answers to queries (M, p) of the class, shape (M,).

        A projected law answers itself; another one is asked for the query of the cover nearest under mu.
        """
        if self.projected:
            return self.cells.answer(parameters, self.weights)
        return np.asarray(self.cells.answers(self.weights)[self.cells.nearest(parameters)])

    def sample(self, rng: np.random.Generator, m: int) -> npt.NDArray[np.generic]:
        """m synthetic records, drawn independently from D."""
        return self.cells.sample(self.weights, rng, m)

    def density(self) -> FloatArray:
        """dD/dmu in each cell, shape (C,): at most 1/sigma after projection. 0 where mu has no mass."""
        masses = self.cells.masses
        return np.divide(self.weights, masses, out=np.zeros(len(masses)), where=masses > 0.0)


@frozen(kw_only=True)
class NotPrivate:
    """How far answers are from the truth. It reads the data and has no noise: it must not be published.

    Attributes:
        cover: The largest error on the cover's queries.
        others: The largest error on the queries that were asked for beside; 0 if none were.
    """

    cover: float
    others: float

    @property
    def max_error(self) -> float:
        """The larger of both."""
        return max(self.cover, self.others)


def private_report(
    found: PrivateAnswers, records: npt.ArrayLike, parameters: npt.ArrayLike | None = None
) -> NotPrivate:
    """The true errors of published answers, for the data's owner alone: it is **not** differentially private.

    Args:
        found: What was published.
        records: The data.
        parameters: Further queries (M, p) of the class, off the cover.
    """
    cells = found.cells
    truth = cells.answers(checked_counts(cells, records, found.records)) / found.records
    cover = float(np.abs(cells.answers(found.weights) - truth).max())
    if parameters is None:
        return NotPrivate(cover=cover, others=0.0)
    gaps = found.answer(parameters) - cells.empirical(parameters, records)
    return NotPrivate(cover=cover, others=float(np.abs(gaps).max()))


def checked_counts(cells: QueryCells, records: npt.ArrayLike, number: int) -> IntArray:
    """How many records lie in each cell, shape (C,). It reads the data.

    Raises:
        InvalidArgumentError: there are not ``number`` records.
    """
    found = cells.counts(records)
    if found.sum() != number:
        raise InvalidDataError("records", records, f"are not {number}, the public number of them")
    return found
