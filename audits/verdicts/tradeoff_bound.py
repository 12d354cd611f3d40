"""The upper bound on the whole trade-off curve, at all points together, that a verdict's counts give."""

from __future__ import annotations

import numpy as np

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.bounds.whole_curve import cell_curve_bounds
from hockeystick.audits.verdicts.verdict import Verdict


def measured_curve(verdict: Verdict) -> tuple[FloatArray, FloatArray] | None:
    """Returns (false-positive rates, false-negative rates), the corners of an upper bound on the trade-off curve.

    With probability at least ``verdict.confidence``, the target's trade-off curve lies nowhere above the bound, nor
    does any f with which the target is f-DP. The cells are those of the verdict's event, which was chosen on other
    outputs; the counts are those that tested it. This bound and the verdict use the same counts but are two statements:
    each is wrong with probability at most 1 - ``confidence``, and any of the two with at most twice that.

    Returns:
      None if the verdict has no points of the curve.
    """
    if not verdict.tradeoff or verdict.trials < 1:
        return None
    rates = np.array([[point.fpr, 1.0 - point.fnr] for point in verdict.tradeoff]).T
    sums = np.rint(rates * verdict.trials).astype(np.int64)
    sums = np.column_stack([np.zeros(2, dtype=np.int64), np.maximum.accumulate(sums, axis=1), [verdict.trials] * 2])
    cells = np.diff(sums, axis=1)[:, ::-1]  # the last cell is then the most typical of the likelier data set
    return cell_curve_bounds(cells, confidence=1 - verdict.level).tradeoff()
