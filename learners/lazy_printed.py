"""The printed guarantee of the lazy learner, as a named baseline: never a certificate.

Asi, Koren, Liu & Talwar 2024, Theorem 3.2, for multiplicative weights (delta_0 = 0): for every delta_1,

    epsilon = 2 eta/p + eta + (3 T eta^2 p / (2B)) ln(1/delta_1) + sqrt(6 T eta^2 p / B) ln(1/delta_1),
    delta   = 2 T delta_1,

stated for T p / B >= 1, eta B ln(1/delta_1)/p <= 1 and eta <= 1/10. It is set beside the certified epsilon to show
what exact accounting gains; the graph of the learner is what holds.
"""

import math

from attrs import frozen

from hockeystick.accounting.validate import integer, real


@frozen
class Condition:
    """One condition of a printed statement: ``value`` must be on the stated side of ``limit``."""

    statement: str
    value: float
    limit: float
    holds: bool


@frozen
class PrintedGuarantee:
    """A printed (epsilon, delta) and the conditions under which it was stated.

    Attributes:
        epsilon: The formula's value, whether or not its conditions hold.
        delta: The delta it is meant for.
        conditions: Every condition with its value here.
        source: Where it is printed.
    """

    epsilon: float
    delta: float
    conditions: tuple[Condition, ...]
    source: str = "Asi, Koren, Liu & Talwar 2024, Theorem 3.2"

    @property
    def applies(self) -> bool:
        """Whether every condition of the statement holds."""
        return all(condition.holds for condition in self.conditions)

    @property
    def failing(self) -> tuple[Condition, ...]:
        """The conditions that do not hold."""
        return tuple(condition for condition in self.conditions if not condition.holds)


def paper_epsilon(
    *, rounds: int, batch: int, learning_rate: float, fake_switch_probability: float, delta: float
) -> PrintedGuarantee:
    """The printed epsilon of Theorem 3.2 for L2P over multiplicative weights, with its conditions checked.

    Args:
        rounds: T >= 1.
        batch: B in 1 .. T.
        learning_rate: eta > 0.
        fake_switch_probability: p in (0, 1); the formula divides by it.
        delta: The delta at which epsilon is meant, in (0, 1); delta_1 = delta / (2T).

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    rounds = integer("rounds", rounds, low=1)
    batch = integer("batch", batch, low=1, high=rounds)
    eta = real("learning_rate", learning_rate, low=0.0, low_open=True)
    p = real("fake_switch_probability", fake_switch_probability, low=0.0, high=1.0, low_open=True, high_open=True)
    delta = real("delta", delta, low=0.0, high=1.0, low_open=True, high_open=True)
    log = math.log(2.0 * rounds / delta)
    variance = rounds * eta**2 * p / batch
    epsilon = 2.0 * eta / p + eta + 1.5 * variance * log + math.sqrt(6.0 * variance) * log
    conditions = (
        _at_least("T p / B >= 1", rounds * p / batch, 1.0),
        _at_most("eta B ln(1/delta_1) / p <= 1", eta * batch * log / p, 1.0),
        _at_most("eta <= 1/10", eta, 0.1),
    )
    return PrintedGuarantee(epsilon, delta, conditions)


def _at_least(statement: str, value: float, limit: float) -> Condition:
    return Condition(statement, value, limit, value >= limit)


def _at_most(statement: str, value: float, limit: float) -> Condition:
    return Condition(statement, value, limit, value <= limit)
