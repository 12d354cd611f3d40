"""Directed rounding: quotients, products and sums of a guarantee, and logarithms that become probabilities."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction

U = 2.0**-53  # the unit roundoff of floats: no sum, product or quotient is off by more in proportion


def quotient_down(numerator: float, denominator: float) -> float:
    """Returns the largest float that is at most numerator / denominator, both positive and finite.

    A noise multiplier is rounded this way: less noise than there is never reports a smaller ε than the true one.
    """
    quotient = numerator / denominator
    if math.isinf(quotient):
        return sys.float_info.max
    if Fraction(quotient) * Fraction(denominator) > Fraction(numerator):
        return math.nextafter(quotient, 0.0)
    return quotient


def quotient_up(numerator: float, denominator: float) -> float:
    """Returns the smallest float that is at least numerator / denominator; inf where none is finite."""
    quotient = numerator / denominator
    if math.isfinite(quotient) and Fraction(quotient) * Fraction(denominator) < Fraction(numerator):
        return math.nextafter(quotient, math.inf)
    return quotient


def product_up(count: int, value: float) -> float:
    """Returns the smallest float that is at least ``count`` times ``value`` ≥ 0; 0 times inf is 0."""
    if count == 0 or math.isinf(value):
        return value if count else 0.0
    product = count * value
    if math.isfinite(product) and Fraction(product) < count * Fraction(value):
        return math.nextafter(product, math.inf)
    return product


def share_up(share: float, value: float) -> float:
    """Returns a float that is at least share · value, both in [0, 1]."""
    product = share * value * (1 + 4 * U)  # two products, each off by U
    if product >= sys.float_info.min or share == 0.0 or value == 0.0:
        return product
    return math.nextafter(product, 1.0)  # where each may be off by half of what floats are apart there


def sum_up(values: Iterable[float]) -> float:
    """Returns the smallest float that is at least the sum of ``values``."""
    terms = list(values)
    total = math.fsum(terms)
    if math.isfinite(total) and math.fsum([*terms, -total]) > 0.0:
        return math.nextafter(total, math.inf)
    return total


def exp(log_value: float, *, upper: bool = True) -> float:
    """Returns e^log_value ≤ 1 rounded up, never to 0, or rounded down; an ulp of the logarithm counts."""
    if log_value == -math.inf:
        return 5e-324 if upper else 0.0
    slack = 4e-16 * (1.0 + abs(log_value))  # an ulp of the logarithm is 2 U of it, the sum with the slack U more
    if upper:
        return min(1.0, math.nextafter(math.exp(log_value + slack), 2.0))
    return max(0.0, math.nextafter(math.exp(log_value - slack), -1.0))
