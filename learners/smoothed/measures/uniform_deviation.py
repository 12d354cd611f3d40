"""A uniform bound on the deviation of n independent draws from their law over all intervals, rectangles or boxes.

A box r lies between two boxes that are defined by the draws. The closed bounding box of the draws in r contains the
same draws as r and has no more mass. If each side of r in turn is moved outwards until it meets a draw, the result is
an open box with the same draws and no less mass. So the largest deviation occurs on a box with sides at coordinates of
at most 2d draws. For fixed indices of these draws the other n - 2d are independent of the box, and Hoeffding's
inequality applies to them. There are n(n + 1)/2 pairs of indices for the sides of an inner box on an axis, and
(n + 1)(n + 2)/2 for an outer box, whose sides may be infinite. A union bound over all of them, with 2d arbitrary draws:

    P(sup > ((n - 2d) s + 2d)/n) <= 2 ((n + 1)(n + 2)/2)^d exp(-2 (n - 2d) s^2).

Laws may have atoms. This is the argument of sample compression (Floyd & Warmuth 1995), for both signs.
"""

from __future__ import annotations

import math

from hockeystick.accounting.validate import integer, probability


def box_deviation(records: int, dimension: int, failure: float) -> float:
    """Returns a bound on |share of n draws - mass| over all boxes in d dimensions, except with probability ``failure``.

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
