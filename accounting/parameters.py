"""The domains of the events' parameters, one converter each: finite floats and ints come out, the rest is refused."""

from __future__ import annotations

from . import validate


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
    return validate.real("epsilon", value, low=0.0)


def keep_probability(value: float) -> float:
    """A probability."""
    return validate.real("keep_probability", value, low=0.0, high=1.0)


def log_ratio(value: float) -> float:
    """A privacy loss ≥ 0."""
    return validate.real("log_ratio", value, low=0.0)


def log_ratio_cap(value: float) -> float:
    """A privacy loss ≥ 0, or inf."""
    return validate.real("log_ratio_cap", value, low=0.0, allow_inf=True)


def noise_multiplier(value: float) -> float:
    """Noise per unit of distance, > 0."""
    return validate.real("noise_multiplier", value, low=0.0, low_open=True)


def probability(value: float) -> float:
    """A probability."""
    return validate.real("probability", value, low=0.0, high=1.0)


def query_scale(value: float) -> float:
    """Scale of each query's noise, > 0."""
    return validate.real("query_scale", value, low=0.0, low_open=True)


def rho(value: float) -> float:
    """A zCDP parameter ≥ 0."""
    return validate.real("rho", value, low=0.0)


def threshold_scale(value: float) -> float:
    """Scale of the threshold's noise, > 0."""
    return validate.real("threshold_scale", value, low=0.0, low_open=True)


def width(value: float) -> float:
    """Width of a range of privacy losses, > 0."""
    return validate.real("width", value, low=0.0, low_open=True)
