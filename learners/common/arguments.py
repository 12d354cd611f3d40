"""Arguments that learners of experts share: each is checked once, at construction."""

from __future__ import annotations

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, real


def rounds(value: object) -> int:
    """Number of rounds T >= 1."""
    return integer("rounds", value, low=1)


def experts(value: object) -> int:
    """Number of experts d >= 2."""
    return integer("experts", value, low=2)


def batch(value: object) -> int:
    """Rounds per batch B >= 1."""
    return integer("batch", value, low=1)


def learning_rate(value: object) -> float:
    """Learning rate eta > 0, per unit of loss."""
    return real("learning_rate", value, low=0.0, low_open=True)


def fake_switch_probability(value: object) -> float:
    """Probability p in [0, 1)."""
    return real("fake_switch_probability", value, low=0.0, high=1.0, high_open=True)


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
    """True or False, and nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise InvalidArgumentError("clip", value, "is not a bool", "use True or False")
    return value
