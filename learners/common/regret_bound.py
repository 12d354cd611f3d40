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
        rounds: The number of rounds.

    Example:
        >>> bound = RegretBound(12.5, rounds=100, adversary="oblivious")
        >>> bound < 13, bound.adversary, bound.vacuous, float(RegretBound(300.0, rounds=100, adversary="adaptive"))
        (True, 'oblivious', False, 100.0)
    """

    adversary: Adversary
    rounds: float

    def __new__(cls, value: float, *, rounds: float, adversary: Adversary) -> RegretBound:
        """Returns the bound, cut off at the number of rounds."""
        found = super().__new__(cls, min(float(value), float(rounds)))
        found.adversary, found.rounds = adversary, rounds
        return found

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:  # for copies and pickles
        return (float(self),), {"rounds": self.rounds, "adversary": self.adversary}

    @property
    def vacuous(self) -> bool:
        """Whether the bound is the number of rounds, which holds for every learner."""
        return self >= self.rounds


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
