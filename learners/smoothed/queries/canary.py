"""A small instance of Smooth MWEM on which one record shows as much as it can: for audits of privacy.

Three points in a row, two thresholds between them, and data such that the law mu asks too much of the first query and
too little of the second. When one record moves from the first point to the last, both means grow: the first query's
score falls by w and the second's rises by w, so that the odds of the choice move by their whole range; and both are
measured, so that noise has to hide w. The second query's score lies ``gap`` below the first's: the rarer the choice,
the closer its loss comes to epsilon, and the fewer runs show it.
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
    """A learner and two neighbouring data sets; the last record of the first is replaced in the second.

    Attributes:
        learner: What is audited.
        first, second: Records, indices of points, shape (n,).
    """

    learner: SmoothMWEM
    first: IntArray
    second: IntArray

    def event(self, queries: npt.ArrayLike, measurements: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """{the second query is chosen and measured at or above its mean in ``second``} of a first round, shape (R,)."""
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
    """The instance at pure epsilon in total, R rounds with equal budgets.

    Args:
        epsilon: Of all rounds, as claimed.
        rounds: R.
        gap: How far the second score is behind, in units of w over the budget of one choice; 6, 3 and 2 suit audits.
        signed: Queries of range w = 2.
        options: Further ones of :class:`SmoothMWEM`.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a gap that takes more than 10^6 records.
    """
    each = real("epsilon", epsilon, low=1e-3, high=1e3) / (2.0 * integer("rounds", rounds, low=1))
    behind = math.ceil(real("gap", gap, low=0.0) / each)  # in records, whatever w
    n = max(100, 5 * behind)
    if n > 10**6:
        raise InvalidArgumentError("gap", gap, "takes too many records", "take a smaller one")
    matrix = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    values = 2.0 * matrix - 1.0 if check_signed(signed) else matrix
    # mu has 0.9 and 0.1 at or above the thresholds. The data have 0.3, and so much that the first score leads.
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
