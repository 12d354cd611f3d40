"""Claims as printed in publications: baselines beside the accountant's certificates, never certificates themselves."""

from typing import Literal

from attrs import frozen


@frozen
class Condition:
    """One condition of a printed statement: ``value`` must lie on the stated side of ``limit``.

    Example:
        >>> Condition("eta <= 1/10", 0.2, 0.1, holds=False)
        Condition(statement='eta <= 1/10', value=0.2, limit=0.1, holds=False)
    """

    statement: str
    value: float
    limit: float
    holds: bool


@frozen
class PrintedGuarantee:
    """A printed (ε, δ) and the conditions under which it is stated. See ``paper_epsilon`` for an example.

    Attributes:
        epsilon: The formula's value, whether or not its conditions hold.
        delta: The δ of ``epsilon``.
        conditions: All conditions, each with its value here.
        source: The publication and the theorem.
        constants: The formula's constants that are not arguments of its function, by name.
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
    """A printed lower bound on regret, up to an unstated constant, and the conditions under which it is stated."""

    value: float
    conditions: tuple[Condition, ...]
    source: str = "Asi, Koren, Liu & Talwar 2024, Theorem 4.2 (its proof does not hold)"


Defect = Literal["missing", "rounded", "out of range", "condition", "not private"]


@frozen
class PresetWarning:
    """One defect of a preset. See ``paper_stmt_3_10`` for an example.

    Attributes:
        defect: "missing": the statement leaves a parameter open. "rounded": a batch was rounded to whole rounds.
            "out of range": a printed parameter can't be used as it is. "condition": a printed condition fails.
            "not private": the certified ε exceeds the target.
        text: The defect in one sentence.
    """

    defect: Defect
    text: str

    def __str__(self) -> str:
        return f"{self.defect}: {self.text}"
