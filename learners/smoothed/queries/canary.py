"""A small instance of Smooth MWEM on which one record has nearly its largest possible effect, for privacy audits.

There are three points in a row and two thresholds between them. The law μ overestimates the first query and
underestimates the second. When one record moves from the first point to the last, the means of both queries grow: the
first query's score falls by w and the second's rises by w, so the odds of the choice change by their whole range, and
the noise of a measurement has to hide w. The second query's score lies ``gap`` below the first's: a rarer choice has a
loss closer to ε, but fewer runs show it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.smoothed.queries.cells import MatrixCells, check_signed
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM

_LOW, _HIGH = 0, 2


@frozen(eq=False, kw_only=True)
class Canary:
    """A learner and two neighbouring data sets, which differ in the last record.

    Attributes:
        learner: The learner to audit.
        first, second: The records, indices of points, shape (n,).
    """

    learner: SmoothMWEM
    first: IntArray
    second: IntArray

    def event(self, queries: npt.ArrayLike, measurements: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Returns whether the second query is chosen and measured at or above its mean in ``second``, shape (R,)."""
        cells = self.learner.cells
        threshold = float(cells.answers(cells.counts(self.second))[1]) / self.learner.records
        return np.asarray((np.asarray(queries) == 1) & (np.asarray(measurements) >= threshold))


def mwem_canary(
    *,
    epsilon: float,
    rounds: int = 1,
    gap: float = 6.0,
    signed: bool = False,
    **options: Any,
) -> Canary:
    """Returns the instance at pure ε in total, over R rounds with equal budgets.

    Args:
        epsilon: The claimed ε of all rounds.
        rounds: R.
        gap: The gap between the two scores, in units of w over the budget of one choice; 6, 3 and 2 suit audits.
        signed: Whether queries have the range w = 2.
        options: Further options of :class:`SmoothMWEM`.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a gap that takes more than 10^6 records.
    """
    each = real("epsilon", epsilon, low=1e-3, high=1e3) / (2.0 * integer("rounds", rounds, low=1))
    behind = math.ceil(real("gap", gap, low=0.0) / each)  # in records, for either w
    n = max(100, 5 * behind)
    if n > 10**6:
        raise InvalidArgumentError("gap", gap, "needs more than 10^6 records", "use a smaller gap")
    matrix = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    values = 2.0 * matrix - 1.0 if check_signed(signed) else matrix
    # μ has mass 0.9 and 0.1 at or above the thresholds; the data have 0.3, and a mass by which the first score leads.
    above, last = round(0.9 * n) - round(0.2 * n) - behind, round(0.1 * n) + round(0.2 * n)
    first = np.repeat([_HIGH, 1, _LOW], [last, above - last, n - above])
    second = first.copy()
    second[-1] = _HIGH
    masses = np.array([n - round(0.9 * n), round(0.9 * n) - round(0.1 * n), round(0.1 * n)]) / n
    learner = SmoothMWEM(
        cells=MatrixCells(matrix=values, masses=masses, signed=signed),
        records=n,
        sigma=0.1,
        rounds=rounds,
        epsilon_em=each,
        epsilon_lap=each,
        **options,
    )
    return Canary(learner=learner, first=first, second=second)
