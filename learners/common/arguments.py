"""Checks of the arguments that learners share, one per name; attrs classes use them as converters.

Each returns its value as a plain number, or raises ``InvalidArgumentError``.
"""

from __future__ import annotations

from hockeystick.accounting.validate import boolean, integer, real

MOST = int(1e100)
"""Of rounds, experts, clients and the like: products of three are floats."""


def rounds(value: object) -> int:
    """Number of rounds T >= 1."""
    return integer("rounds", value, low=1, high=MOST)


def two_rounds(value: object) -> int:
    """Number of rounds T >= 2."""
    return integer("rounds", value, low=2, high=MOST)


def experts(value: object) -> int:
    """Number of experts d >= 2."""
    return integer("experts", value, low=2, high=MOST)


def batch(value: object) -> int:
    """Rounds per batch B >= 1."""
    return integer("batch", value, low=1, high=MOST)


def clients(value: object) -> int:
    """Number of clients m >= 1."""
    return integer("clients", value, low=1, high=MOST)


def records(value: object) -> int:
    """Number of records n >= 1."""
    return integer("records", value, low=1)


def group(value: object) -> int:
    """Number of people, or records, that are protected together, >= 1."""
    return integer("group", value, low=1)


def dimension(value: object) -> int:
    """Number of coordinates d >= 1."""
    return integer("dimension", value, low=1)


def cells(value: object) -> int:
    """Number of cells >= 1."""
    return integer("cells", value, low=1)


def size(value: object) -> int:
    """Number of points >= 1."""
    return integer("size", value, low=1)


def epsilon(value: object) -> float:
    """A privacy loss > 0."""
    return real("epsilon", value, low=0.0, low_open=True)


def multiplier(value: object) -> float:
    """Noise per unit of sensitivity, >= 0; 0 means no noise."""
    return real("multiplier", value, low=0.0)


def scale(value: object) -> float:
    """Scale of noise, > 0, far from where sums with it overflow."""
    return real("scale", value, low=0.0, high=1e300, low_open=True)


def lipschitz(value: object) -> float:
    """Lipschitz constant L > 0 of losses."""
    return real("lipschitz", value, low=0.0, low_open=True)


def low(value: object) -> float:
    """Lower end of a range."""
    return real("low", value)


def high(value: object) -> float:
    """Upper end of a range."""
    return real("high", value)


def sigma(value: object) -> float:
    """Smoothness σ in (0, 1]."""
    return real("sigma", value, low=0.0, high=1.0, low_open=True)


def total_variation(value: object) -> float:
    """Total variation distance, in (0, 1)."""
    return real("total_variation", value, low=0.0, high=1.0, low_open=True, high_open=True)


def normaliser(value: object) -> float | None:
    """Log-normaliser c >= 0, or None for the learner's own."""
    return None if value is None else real("normaliser", value, low=0.0)


def learning_rate(value: object) -> float:
    """Learning rate η > 0, per unit of loss."""
    return real("learning_rate", value, low=0.0, low_open=True)


def fake_switch_probability(value: object) -> float:
    """Probability p in [0, 1)."""
    return real("fake_switch_probability", value, low=0.0, high=1.0, high_open=True)


def redraw_probability(value: object) -> float:
    """Probability p in [0, 1], for learners that may redraw in every batch."""
    return real("fake_switch_probability", value, low=0.0, high=1.0)


def shadow_probability(value: object) -> float | None:
    """Probability p_y in [0, 1), or None."""
    return None if value is None else real("shadow_probability", value, low=0.0, high=1.0, high_open=True)


def log_normaliser(value: object) -> float:
    """Log-normaliser c >= 0."""
    return real("log_normaliser", value, low=0.0)


def draw_budget(value: object) -> int | None:
    """Number of draws >= 0, or None for no limit."""
    return None if value is None else integer("draw_budget", value, low=0)


def clip(value: object) -> bool:
    """True or False; nothing else, not even 0 or 1."""
    return boolean("clip", value)
