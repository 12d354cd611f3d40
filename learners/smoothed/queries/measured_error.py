"""How far published answers are off, read off the transcript itself: for any law, replayed or last, at no further cost.

A round chooses the query on which its law is worst, up to what the exponential mechanism may fall short, and measures
it. So what it measured bounds the errors of that law D_i on *all* queries of the cover at once:

    |q(D_i) - q(D_B)| <= c_i := |m_i - q_i(D_i)| + choice + measurement    for every q of the cover,

whatever led to D_i, and whatever the records are: no smoothness is assumed. All rounds hold together but for
``failure``, hence q(D_B) lies in each [q(D_i) - c_i, q(D_i) + c_i], and where q itself was measured, within the noise
of that. These intervals are functions of the transcript, so they may be published; and the answers of any law that is a
function of it, too, can be held against them. No bound beforehand is needed, and none is claimed.

Queries off the cover take smooth records: w gamma/sigma + 2 chi for what they may differ by on the records, and w gamma
times the largest density where the law answers itself. Thresholds take nothing: one between two of the cover is less
than the one and more than the other, everywhere.

The tails are those of Theorem 4.2 of Haghtalab, Roughgarden & Shetty 2020; to use them on a run's own laws is ours.
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
    """What R runs' transcripts say of the true answers and of the published ones' errors.

    Attributes:
        failure: With at most this probability, over the noise and the coins of the cover, some of it does not hold.
        low, high: Between these lie the true answers of the cover's queries, all at once: shape (R, K).
        cover: The published answers' largest error on the cover, on any records, shape (R,).
        off: What queries off the cover add on sigma-smooth records, shape (R,).
        free: The largest error on the whole class on any records, shape (R,); None where it is not known.
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
        """The largest error on the whole class for (sigma, chi)-smooth records, shape (R,).

        Raises:
            InvalidArgumentError: chi is negative or no number.
        """
        found = self.cover + self.off + (2.0 * real("chi", chi, low=0.0) if self.needs_chi else 0.0)
        return found if self.free is None else np.minimum(found, self.free)


@frozen(kw_only=True)
class MeasuredError:
    """The largest error of one release's answers, from its transcript.

    Attributes:
        cover: On the cover's queries, whatever the records are.
        error: On all queries of the class, for records that are as smooth as was declared.
        free: The same for any records; None where it is not known.
        failure: With at most this probability it is exceeded.
    """

    cover: float
    error: float
    free: float | None
    failure: float


def free_error(cells: QueryCells, low: FloatArray, high: FloatArray, answers: FloatArray) -> FloatArray | None:
    """The largest error over the whole class, shape (R,), by bounds and answers (R, K) on the cover alone.

    All of the class that is not in the cover lies between two of its queries, for thresholds: then so does the law's
    answer, or it is one of theirs. None for other covers that are not the whole class.
    """
    if cells.gamma == 0.0:
        return np.asarray(np.maximum(0.0, np.maximum(high - answers, answers - low).max(axis=1)))
    if not isinstance(cells, BoxCells) or not isinstance(cells.cover.concepts, Thresholds):
        return None
    order = np.argsort(cells.cover.parameters[:, 0])

    def with_ends(values: FloatArray) -> FloatArray:
        """Between those of -infinity, which holds everywhere, and of infinity, which holds nowhere."""
        everywhere = np.full((len(values), 1), cells.low + cells.width)
        return np.concatenate([everywhere, values[:, order], np.full_like(everywhere, cells.low)], axis=1)

    least, most, told = with_ends(low), with_ends(high), with_ends(answers)
    gaps = np.maximum(most[:, :-1] - told[:, 1:], told[:, :-1] - least[:, 1:])
    return np.asarray(np.maximum(0.0, gaps.max(axis=1)))
