"""What a publication prints, set beside what the accountant certifies: baselines, never certificates."""

from typing import Literal

from attrs import frozen


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
        constants: The constants of the formula that are no arguments of its function, by name.
    """

    epsilon: float
    delta: float
    conditions: tuple[Condition, ...]
    source: str = "Asi, Koren, Liu & Talwar 2024, Theorem 3.2"
    constants: tuple[tuple[str, float], ...] = ()

    @property
    def applies(self) -> bool:
        """Whether every condition of the statement holds."""
        return all(condition.holds for condition in self.conditions)

    @property
    def failing(self) -> tuple[Condition, ...]:
        """The conditions that do not hold."""
        return tuple(condition for condition in self.conditions if not condition.holds)


@frozen
class PrintedFloor:
    """A printed lower bound on regret, up to an unstated constant, and the conditions under which it was stated."""

    value: float
    conditions: tuple[Condition, ...]
    source: str = "Asi, Koren, Liu & Talwar 2024, Theorem 4.2 (its proof does not hold)"


Defect = Literal["missing", "rounded", "out of range", "condition", "not private"]


@frozen
class PresetWarning:
    """One thing to know about a preset.

    Attributes:
        defect: "missing": the statement leaves a parameter open. "rounded": a batch was made a whole number of rounds.
            "out of range": a printed parameter can't be used as it is. "condition": a printed condition fails.
            "not private": the certified epsilon exceeds the target.
        text: What, in one sentence.
    """

    defect: Defect
    text: str

    def __str__(self) -> str:
        return f"{self.defect}: {self.text}"
