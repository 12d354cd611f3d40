"""A posteriori error bounds of published answers, from the transcript alone, for any output and replay.

A round chooses the query with the largest error of the current law D_i, up to the error of the exponential mechanism,
and measures it. So the measurement m_i bounds the errors of D_i on *all* queries of the cover at once:

    |q(D_i) - q(D_B)| <= c_i := |m_i - q_i(D_i)| + choice + measurement    for every q of the cover,

for every D_i and all records: no smoothness is assumed. All rounds hold together except with probability ``failure``.
So q(D_B) lies in each [q(D_i) - c_i, q(D_i) + c_i], and if q itself was measured, within the noise of the measurement.
These intervals are functions of the transcript. They may be published, and they bound the errors of any law that is a
function of the transcript.

For queries off the cover the records have to be smooth: add w γ/σ + 2χ for their difference on the records, and w γ
times the largest density if the law answers the query itself. Thresholds need no smoothness, because a threshold lies
between two thresholds of the cover everywhere.

The tails are those of Theorem 4.2 of Haghtalab, Roughgarden & Shetty 2020; applying them to a run's own laws is new
here.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import real
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.cells import QueryCells


@frozen(kw_only=True, eq=False)
class MeasuredBounds:
    """Bounds on the true answers, and on the errors of the published ones, from the transcripts of R runs.

    Attributes:
        failure: A bound on the probability, over the noise and the coins of the cover, that a bound fails.
        low, high: Simultaneous bounds on the true answers of the cover's queries, shape (R, K).
        cover: A bound on the largest error on the cover, for any records, shape (R,).
        off: The additional error of queries off the cover, for σ-smooth records, shape (R,).
        free: A bound on the largest error on the whole class, for any records, shape (R,); None if there is none.
        needs_chi: Whether there are queries off the cover.
    """

    failure: float
    low: FloatArray
    high: FloatArray
    cover: FloatArray
    off: FloatArray
    free: FloatArray | None
    needs_chi: bool

    def error(self, *, chi: float = 0.0) -> FloatArray:
        """Returns a bound on the largest error on the whole class for (σ, χ)-smooth records, shape (R,).

        Raises:
            InvalidArgumentError: ``chi`` is negative or not a number.
        """
        found = self.cover + self.off + (2.0 * real("chi", chi, low=0.0) if self.needs_chi else 0.0)
        return found if self.free is None else np.minimum(found, self.free)


@frozen(kw_only=True)
class MeasuredError:
    """Bounds on the largest error of one release's answers, from its transcript.

    Attributes:
        cover: The bound on the cover's queries, for any records.
        error: The bound on all queries of the class, for records that are as smooth as declared.
        free: The bound on all queries of the class, for any records; None if there is none.
        failure: A bound on the probability that one of them is exceeded.
    """

    cover: float
    error: float
    free: float | None
    failure: float


def free_error(cells: QueryCells, low: FloatArray, high: FloatArray, answers: FloatArray) -> FloatArray | None:
    """Returns a bound (R,) on the largest error over the class, from bounds and answers (R, K) on the cover alone.

    A threshold off the cover lies between two thresholds of the cover, and so does the law's answer. None for other
    covers that are not the whole class.
    """
    if cells.gamma == 0.0:
        return np.asarray(np.maximum(0.0, np.maximum(high - answers, answers - low).max(axis=1)))
    if not isinstance(cells, BoxCells) or not isinstance(cells.cover.concepts, Thresholds):
        return None
    order = np.argsort(cells.cover.parameters[:, 0])

    def with_ends(values: FloatArray) -> FloatArray:
        """Adds the values of the thresholds at -infinity (holds everywhere) and at infinity (holds nowhere)."""
        everywhere = np.full((len(values), 1), cells.low + cells.width)
        return np.concatenate([everywhere, values[:, order], np.full_like(everywhere, cells.low)], axis=1)

    least, most, published = with_ends(low), with_ends(high), with_ends(answers)
    gaps = np.maximum(most[:, :-1] - published[:, 1:], published[:, :-1] - least[:, 1:])
    return np.asarray(np.maximum(0.0, gaps.max(axis=1)))
