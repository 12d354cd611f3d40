"""The output of private query release, and its post-processing, which costs no further privacy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.learners.smoothed.queries.cells import QueryCells
from hockeystick.learners.smoothed.queries.error_bounds import ErrorBound


@frozen(eq=False)
class Transcripts:
    """The published choices and measurements of R runs, round by round; everything else is computed from them.

    Attributes:
        queries: The indices of the chosen queries, shape (R, rounds).
        measurements: The noisy means of these queries over the records, not clipped, shape (R, rounds).
    """

    queries: IntArray
    measurements: FloatArray

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, rows: slice) -> Transcripts:
        return Transcripts(self.queries[rows], self.measurements[rows])

    def as_array(self) -> FloatArray:
        """Returns queries and measurements side by side, shape (R, 2*rounds), one row per transcript."""
        return np.concatenate([self.queries.astype(float), self.measurements], axis=1)


@frozen(kw_only=True, eq=False)
class PrivateAnswers:
    """A transcript and the law computed from it; answers cost no further privacy. See :class:`SmoothMWEM`.

    Attributes:
        cells: The queries.
        records: n.
        projected: Whether all laws were projected onto σ-smooth ones.
        transcripts: The queries and measurements of the run.
        weights: The published law D, the mass of each cell, shape (C,).
        bound: A bound on the answers' errors on smooth data; None if nothing is proved for the options in use.
        simulated: Whether the noise was simulated, so that this is not a release.
    """

    cells: QueryCells
    records: int
    projected: bool
    transcripts: Transcripts
    weights: FloatArray
    bound: ErrorBound | None
    simulated: bool

    def answer(self, parameters: npt.ArrayLike) -> FloatArray:
        """Returns answers (M,) to queries (M, p) of the class.

        A projected law answers the query itself; otherwise the law answers the query of the cover nearest under μ.
        """
        if self.projected:
            return self.cells.answer(parameters, self.weights)
        return np.asarray(self.cells.answers(self.weights)[self.cells.nearest(parameters)])

    def sample(self, rng: np.random.Generator, m: int) -> npt.NDArray[np.generic]:
        """Returns m synthetic records, drawn independently from D."""
        return self.cells.sample(self.weights, rng, m)

    def density(self) -> FloatArray:
        """Returns dD/dμ in each cell, shape (C,), at most 1/σ after projection; 0 where μ has no mass."""
        masses = self.cells.masses
        return np.divide(self.weights, masses, out=np.zeros(len(masses)), where=masses > 0.0)


@frozen(kw_only=True)
class NotPrivate:
    """The true errors of answers, without noise: they must not be published. See :func:`private_report`.

    Attributes:
        cover: The largest error on the cover's queries.
        others: The largest error on the further queries; 0 if there are none.
    """

    cover: float
    others: float

    @property
    def max_error(self) -> float:
        """The larger of the two."""
        return max(self.cover, self.others)


def private_report(
    found: PrivateAnswers, records: npt.ArrayLike, parameters: npt.ArrayLike | None = None
) -> NotPrivate:
    """Returns the true errors of published answers, for the data's owner only: **not** differentially private.

    Args:
        found: The published answers.
        records: The data.
        parameters: Further queries (M, p) of the class, off the cover.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import SmoothMWEM, private_report
        >>> from hockeystick.learners.smoothed import MatrixCells
        >>> cells = MatrixCells(matrix=[[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
        >>> learner = SmoothMWEM(cells=cells, records=600, sigma=1.0, rounds=2, epsilon_em=1.0, epsilon_lap=1.0)
        >>> data = np.repeat([0, 1, 2], [100, 200, 300])
        >>> private_report(learner.run(data, np.random.default_rng(0)), data).max_error < 0.15
        True
    """
    if not isinstance(found, PrivateAnswers):
        raise InvalidArgumentError("found", found, "is not a PrivateAnswers", "give what run or release returned")
    cells = found.cells
    truth = cells.answers(checked_counts(cells, records, found.records)) / found.records
    cover = float(np.abs(cells.answers(found.weights) - truth).max())
    if parameters is None:
        return NotPrivate(cover=cover, others=0.0)
    gaps = found.answer(parameters) - cells.empirical(parameters, records)
    return NotPrivate(cover=cover, others=float(np.abs(gaps).max()))


def checked_counts(cells: QueryCells, records: npt.ArrayLike, number: int) -> IntArray:
    """Returns the number of records in each cell, shape (C,). It reads the data.

    Raises:
        InvalidDataError: there are not ``number`` records.
    """
    found = cells.counts(records)
    if found.sum() != number:
        raise InvalidDataError("records", records, f"do not have the public number, {number}")
    return found
