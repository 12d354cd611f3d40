"""The domains of the events' parameters, one converter each: finite floats and ints come out, the rest is refused.

Sizes lie between 1e-100 and 1e100, a zCDP parameter between 1e-250 and 1e250 (or they are 0 where that has a meaning):
beyond, squares would leave the range of a float and a tiny cost would be rounded to none.
"""

from __future__ import annotations

from . import validate
from .errors import InvalidArgumentError


def answers(value: int) -> int:
    """How many answers a sparse vector gives: an integer ≥ 1."""
    return validate.integer("answers", value, low=1)


def categories(value: int) -> int:
    """Number of categories: an integer ≥ 2."""
    return validate.integer("categories", value, low=2)


def delta(value: float) -> float:
    """A probability."""
    return validate.real("delta", value, low=0.0, high=1.0)


def epsilon(value: float) -> float:
    """A privacy loss ≥ 0."""
    return _size("epsilon", value, zero=True)


def keep_probability(value: float) -> float:
    """A probability."""
    return validate.real("keep_probability", value, low=0.0, high=1.0)


def log_ratio(value: float) -> float:
    """A privacy loss ≥ 0."""
    return _size("log_ratio", value, zero=True)


def log_ratio_cap(value: float) -> float:
    """A privacy loss ≥ 0, or inf."""
    return validate.real("log_ratio_cap", value, low=0.0, allow_inf=True)


def noise_multiplier(value: float) -> float:
    """Noise per unit of distance, > 0."""
    return _size("noise_multiplier", value, zero=False)


def probability(value: float) -> float:
    """A probability."""
    return validate.real("probability", value, low=0.0, high=1.0)


def query_scale(value: float) -> float:
    """Scale of each query's noise, > 0."""
    return _size("query_scale", value, zero=False)


def rho(value: float) -> float:
    """A zCDP parameter ≥ 0."""
    return _size("rho", value, zero=True, smallest=1e-250, largest=1e250)


def threshold_scale(value: float) -> float:
    """Scale of the threshold's noise, > 0."""
    return _size("threshold_scale", value, zero=False)


def width(value: float) -> float:
    """Width of a range of privacy losses, > 0."""
    return _size("width", value, zero=False)


def _size(name: str, value: float, *, zero: bool, smallest: float = 1e-100, largest: float = 1e100) -> float:
    number = validate.real(name, value, low=0.0, low_open=not zero)
    if number and not smallest <= number <= largest:
        raise InvalidArgumentError(name, value, "is out of range", f"expected a size in [{smallest:g}, {largest:g}]")
    return number
