"""Directed rounding where a logarithm becomes a probability."""

from __future__ import annotations

import math


def exp(log_value: float, *, upper: bool = True) -> float:
    """Returns e^log_value ≤ 1 rounded up, never to 0, or rounded down; an ulp of the logarithm counts."""
    if log_value == -math.inf:
        return 5e-324 if upper else 0.0
    slack = 4e-16 * (1.0 + abs(log_value))
    if upper:
        return min(1.0, math.nextafter(math.exp(log_value + slack), 2.0))
    return max(0.0, math.nextafter(math.exp(log_value - slack), -1.0))
