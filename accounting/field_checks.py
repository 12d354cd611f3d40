"""The domains of the events' parameters, one converter each: finite floats and ints come out, the rest is refused.

Costs and noise lie between 1e-100 and 1e100, so that their squares are floats and no cost is rounded to none. A smaller
cost is rounded up and larger noise down, to the safe side; a larger cost and smaller noise are refused.
"""

from __future__ import annotations

from hockeystick.accounting import validate

SMALLEST, LARGEST = 1e-100, 1e100


def answers(value: int) -> int:
    """The number of answers of a sparse vector: an integer ≥ 1, at most 2^53."""
    return validate.integer("answers", value, low=1, high=validate.MOST)


def categories(value: int) -> int:
    """Number of categories: an integer ≥ 2."""
    return validate.integer("categories", value, low=2)


def count(value: object, *, low: int = 1) -> int:
    """Number of times that an event is charged: an integer, at most 1e100, so that products with costs are floats."""
    return validate.integer("count", value, low=low, high=int(LARGEST))


def delta(value: float) -> float:
    """A probability."""
    return validate.real("delta", value, low=0.0, high=1.0)


def epsilon(value: float) -> float:
    """A privacy loss ≥ 0."""
    return _cost("epsilon", value)


def keep_probability(value: float) -> float:
    """A probability."""
    return validate.real("keep_probability", value, low=0.0, high=1.0)


def log_ratio(value: float) -> float:
    """A privacy loss ≥ 0."""
    return _cost("log_ratio", value)


def log_ratio_cap(value: float) -> float:
    """A privacy loss ≥ 0, or inf."""
    number = validate.real("log_ratio_cap", value, low=0.0, allow_inf=True)
    return max(number, SMALLEST) if number else 0.0


def noise_multiplier(value: float) -> float:
    """Noise per unit of distance, > 0."""
    return _noise("noise_multiplier", value)


def probability(value: float) -> float:
    """A probability."""
    return validate.real("probability", value, low=0.0, high=1.0)


def query_scale(value: float) -> float:
    """Scale of each query's noise, > 0."""
    return _noise("query_scale", value)


def rho(value: float) -> float:
    """A zCDP parameter ≥ 0."""
    return _cost("rho", value, power=2)


def threshold_scale(value: float) -> float:
    """Scale of the threshold's noise, > 0."""
    return _noise("threshold_scale", value)


def width(value: float) -> float:
    """Width of a range of privacy losses, > 0."""
    return _cost("width", validate.real("width", value, low=0.0, low_open=True))


def _cost(name: str, value: float, power: int = 1) -> float:
    number = validate.real(name, value, low=0.0, high=LARGEST**power)
    return max(number, SMALLEST**power) if number else 0.0


def _noise(name: str, value: float) -> float:
    return min(validate.real(name, value, low=SMALLEST), LARGEST)
