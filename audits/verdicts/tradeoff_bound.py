"""What a verdict's counts say of the whole trade-off curve: a bound above the truth, at all points together."""

from __future__ import annotations

import numpy as np

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.bounds.whole_curve import cell_curve_bounds
from hockeystick.audits.verdicts.verdict import Verdict


def measured_curve(verdict: Verdict) -> tuple[FloatArray, FloatArray] | None:
    """Returns (false-positive rates, false-negative rates), the corners of a curve that the truth does not rise above.

    With probability ``verdict.confidence``, at least, the audited function's trade-off curve lies nowhere above, and so
    does every f with which it is f-DP. The cells are those of the verdict's event, which had been chosen on other
    outputs; the counts are of the outputs that tested it. It is a statement of its own, made from the same counts as
    the verdict: either is wrong with probability at most 1 - ``confidence``, one of the two with at most twice that.

    Returns:
      None where the verdict holds no points of the curve.
    """
    if not verdict.tradeoff or verdict.trials < 1:
        return None
    rates = np.array([[point.fpr, 1.0 - point.fnr] for point in verdict.tradeoff]).T
    sums = np.rint(rates * verdict.trials).astype(np.int64)
    sums = np.column_stack([np.zeros(2, dtype=np.int64), np.maximum.accumulate(sums, axis=1), [verdict.trials] * 2])
    cells = np.diff(sums, axis=1)[:, ::-1]  # the last cell is then the most typical of the likelier data set
    return cell_curve_bounds(cells, confidence=verdict.confidence).tradeoff()
