"""Bounds on regret: numbers that say against which losses they hold."""

from __future__ import annotations

from typing import Any, Literal

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import one_of, real
from hockeystick.accounting.validate import probability as checked_probability

Adversary = Literal["oblivious", "adaptive", "stochastic"]
"""How losses come about: all fixed in advance; each after the plays before it; or independently from one law."""


class RegretBound(float):
    """A proved upper bound on the regret against the best fixed action or policy, in units of loss.

    It is a float, at most the largest regret that any run can have: the number of rounds, if losses lie in [0, 1].

    Attributes:
        adversary: The losses for which it holds: "oblivious" (fixed in advance), "adaptive" (each may depend on all
            earlier plays) or "stochastic" (independent, of one law).
        most: The largest regret that any run can have.
        probability: The probability, at least, with which a run's regret keeps the bound; None for a bound on the
            expected regret.

    Example:
        >>> bound = RegretBound(12.5, most=100, adversary="oblivious")
        >>> bound < 13, bound.adversary, bound.vacuous, float(RegretBound(300.0, most=100, adversary="adaptive"))
        (True, 'oblivious', False, 100.0)
    """

    adversary: Adversary
    most: float
    probability: float | None

    def __new__(
        cls, value: float, *, most: float, adversary: Adversary, probability: float | None = None
    ) -> RegretBound:
        """Returns the bound, cut off at ``most``.

        Raises:
            InvalidArgumentError: a number is NaN or negative, or there is no such adversary.
        """
        top = real("most", most, low=0.0, allow_inf=True)
        found = super().__new__(cls, min(real("value", value, low=0.0, allow_inf=True), top))
        found.adversary, found.most = checked_adversary(adversary), top
        found.probability = None if probability is None else checked_probability("probability", probability)
        return found

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:  # for copies and pickles
        given = {"most": self.most, "adversary": self.adversary, "probability": self.probability}
        return (float(self),), given

    @property
    def vacuous(self) -> bool:
        """Whether the bound holds for every learner."""
        return self >= self.most


def checked_adversary(value: object) -> Adversary:
    """Returns the name of the adversary."""
    return one_of("adversary", value, "oblivious", "adaptive", "stochastic")


def refuse_adaptive(adversary: object, why: str) -> Adversary:
    """Returns the adversary unless it is adaptive, for learners whose bound needs losses that ignore the plays."""
    checked = checked_adversary(adversary)
    if checked == "adaptive":
        raise InvalidArgumentError(
            "adversary",
            checked,
            why,
            'use "oblivious", or a learner of learners.choose(adversary="adaptive")',
        )
    return checked
