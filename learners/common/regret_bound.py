"""Bounds on regret: numbers that say against which losses they hold."""

from __future__ import annotations

from typing import Any, Literal

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import one_of

Adversary = Literal["oblivious", "adaptive", "stochastic"]
"""How losses come about: all fixed in advance; each after the plays before it; or independently from one law."""


class RegretBound(float):
    """A proved upper bound on the expected regret against the best fixed action, in units of loss.

    It is a float, at most the number of rounds, as losses lie in [0, 1].

    Attributes:
        adversary: The losses for which it holds: "oblivious" (fixed in advance), "adaptive" (each may depend on all
            earlier plays) or "stochastic" (independent, of one law).
        vacuous: Whether the bound is the number of rounds, which holds for every learner.

    Example:
        >>> bound = RegretBound(12.5, rounds=100, adversary="oblivious")
        >>> bound < 13, bound.adversary, bound.vacuous, float(RegretBound(300.0, rounds=100, adversary="adaptive"))
        (True, 'oblivious', False, 100.0)
    """

    adversary: Adversary
    vacuous: bool

    def __new__(cls, value: float, *, rounds: float, adversary: Adversary) -> RegretBound:
        """Returns the bound, cut off at the number of rounds."""
        found = super().__new__(cls, min(float(value), float(rounds)))
        found.adversary, found.vacuous = adversary, value >= rounds
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (float(self), self.adversary, self.vacuous)


def _again(value: float, adversary: Adversary, vacuous: bool) -> RegretBound:
    found = RegretBound(value, rounds=value, adversary=adversary)
    found.vacuous = vacuous
    return found


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
