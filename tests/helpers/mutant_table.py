"""Tables of planted mistakes: each row has a check that passes for the correct variant and fails for the mutant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import pytest
from attrs import frozen

from hockeystick.audits.catalogue.parts.cases import Case


@frozen
class Row:
    """A mutant, and whether its check passes for the correct variant and for the mutant."""

    mutant: str
    defect: str
    check: str
    correct: Callable[[], bool]
    broken: Callable[[], bool]


def auditing(cases: Mapping[str, Case]) -> Callable[..., Row]:
    """What makes rows of the catalogue's cases: ``audited(mutant, broken, correct=None)``.

    The case that is broken stands beside the one that it mutates, at the same sample size; whether a case survives at
    one is computed once.
    """

    @lru_cache
    def survives(name: str, samples: int) -> bool:
        return not cases[name].audit(samples=samples, rng=2).refuted

    def audited(mutant: str, broken: str, correct: str | None = None) -> Row:
        samples, name = cases[broken].samples, correct or broken.split("[")[0]
        return Row(mutant, broken, "audit", lambda: survives(name, samples), lambda: survives(broken, samples))

    return audited


def each_third(values: list[Any]) -> list[Any]:
    """Parameters of a test: those between every third one are for the tier deep."""
    return [pytest.param(value, marks=[pytest.mark.deep] if i % 3 else []) for i, value in enumerate(values)]


def parameter(row: Row, *, slow: bool) -> Any:
    """A row as a test's parameter."""
    marks = [pytest.mark.statistical] if slow else []
    return pytest.param(row, id=f"{row.mutant}, {row.check}: {row.defect}", marks=marks)
