"""How far n independent draws are from their law on all intervals, rectangles or boxes at once, with a proof.

A box r is held between two boxes that the draws themselves define. The closed bounding box of the draws in r has r's
share of them and no more mass; and r, each side pushed outwards in turn until a draw stops it, is an open box of the
same share and no less mass. So every deviation is met on a box between coordinates of draws, 2d of them at most. For
given indices of these the other n - 2d draws are independent of the box, and Hoeffding's inequality holds for them.
There are n(n + 1)/2 pairs of indices for the sides of an inner box on an axis, and (n + 1)(n + 2)/2 for an outer one,
which may be infinite. A union bound over all of them, with 2d draws that may lie anywhere:

    P(sup > ((n - 2d) s + 2d)/n) <= 2 ((n + 1)(n + 2)/2)^d exp(-2 (n - 2d) s^2).

Laws may have atoms. The argument is that of compression to few examples (Floyd & Warmuth 1995), with both signs.
"""

from __future__ import annotations

import math

from hockeystick.accounting.validate import integer, probability


def box_deviation(records: int, dimension: int, failure: float) -> float:
    """The largest |share of n draws - law| over all boxes of d axes, but for probability ``failure``; at most 1.

    Args:
        records: n >= 1.
        dimension: d >= 1.
        failure: In (0, 1).

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    n, d = integer("records", records, low=1), integer("dimension", dimension, low=1)
    eta, sides = probability("failure", failure, open=True), 2 * d
    if n <= sides:
        return 1.0
    boxes = math.log(2.0) + d * (math.log(n + 1.0) + math.log(0.5 * n + 1.0))
    spread = math.sqrt((boxes - math.log(eta)) / (2.0 * (n - sides)))
    return min(1.0, ((n - sides) * spread + sides) / n)
