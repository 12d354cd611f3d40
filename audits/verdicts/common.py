"""The common part of the verdicts of ``audit`` and ``sequential_audit``: JSON input and output, and the claim in words.

Each class lists and describes all of its fields. This module handles the fields that both classes have.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata
from typing import Any, Literal, Self

import attrs
import numpy as np
import scipy

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits.verdicts import fields

Outcome = Literal["refuted", "consistent", "inconclusive"]
SCHEMA_VERSION = 1
CHECKS: Mapping[str, fields.Check] = {
    "refuted": fields.truth,
    "outcome": fields.one_of("refuted", "consistent", "inconclusive"),
    "epsilon_claimed": fields.epsilon,
    "delta": fields.share,
    "epsilon_lower": fields.epsilon,
    "samples": fields.count,
    "direction": fields.one_of("d0->d1", "d1->d0"),
    "event": fields.words,
    "epsilon_tested": fields.epsilon,
    "delta_tested": fields.share,
    "detectable_epsilon": fields.epsilon_or_none,
    "seed": fields.seed,
    "seconds": fields.duration,
    "warnings": fields.sentences,
    "versions": fields.versions,
}
"""Checks of the fields that both classes have, in JSON."""

OPTIONAL = ("refuted", "versions")


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Returns the versions that a verdict depends on."""
    return {
        "hockeystick": metadata.version("hockeystick"),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }


class CommonVerdict:
    """Base class of verdicts with these fields and with ``to_dict``, ``from_dict`` and ``summary``."""

    __slots__ = ()
    outcome: Outcome
    epsilon_claimed: float
    delta: float
    epsilon_tested: float
    delta_tested: float
    detectable_epsilon: float
    warnings: tuple[str, ...]

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted; a true claim is refuted with at most the stated probability."""
        return self.outcome == "refuted"

    @property
    def tested_elsewhere(self) -> bool:
        """Whether a claimed curve was tested at a point other than the stated one."""
        return (self.epsilon_tested, self.delta_tested) != (self.epsilon_claimed, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON-compatible values."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """Returns the verdict from the values of :meth:`to_dict`."""
        raise NotImplementedError

    def summary(self) -> str:
        """Returns a few lines for a terminal or a failure message."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Returns :meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the verdict from the text of :meth:`to_json`.

        Raises:
          InvalidArgumentError: ``text`` is not JSON, or not a verdict.
        """
        return cls.from_dict(fields.read_object(text))

    def __str__(self) -> str:
        return self.summary()

    def _plain_fields(self) -> dict[str, Any]:
        """Returns the fields as plain values; an infinite ``detectable_epsilon`` is None."""
        plain = attrs.asdict(self)  # type: ignore[arg-type]  # the classes that derive from this are attrs classes
        plain["warnings"] = list(self.warnings)
        if math.isinf(self.detectable_epsilon):
            plain["detectable_epsilon"] = None
        return plain

    def _outcome_words(self, refuted: str) -> str:
        """Returns the outcome in words; ``refuted`` is appended for a refuted claim."""
        claim = f"claim ({self.epsilon_claimed:g}, {self.delta:g})"
        return {
            "refuted": f"{claim} is refuted{refuted}",
            "consistent": f"{claim} is consistent with the samples",
            "inconclusive": f"inconclusive: too few samples to test the {claim}",
        }[self.outcome]

    def _detectable_words(self) -> str:
        """Returns the detectable epsilon in words, with its delta if that is not the stated one."""
        found = "infinite" if math.isinf(self.detectable_epsilon) else f"{self.detectable_epsilon:.3g}"
        return f"an epsilon of {found}" + (f" at delta={self.delta_tested:g}" if self.tested_elsewhere else "")

    def _warning_lines(self) -> list[str]:
        return [f"warning: {warning}" for warning in self.warnings]


def read_values(
    plain: Mapping[str, Any], checks: Mapping[str, fields.Check], *, optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Returns the checked values of a verdict's fields.

    Args:
      plain: the fields in ``to_dict``.
      checks: checks of the fields that the other class of verdicts does not have.
      optional: names of the fields that may be missing.

    Raises:
      InvalidArgumentError: a field is missing, unknown, of another type or out of its domain; or ``refuted``
        contradicts the outcome.
    """
    values = fields.read_fields("verdict", plain, {**CHECKS, **checks}, optional=(*OPTIONAL, *optional))
    if values.pop("refuted", refuted := values["outcome"] == "refuted") != refuted:
        raise InvalidArgumentError("refuted", plain["refuted"], f'contradicts the outcome "{values["outcome"]}"')
    return values


def data_in_words(data: tuple[str, ...]) -> list[str]:
    """Returns the line that tells types and sizes of d0 and d1; none for verdicts of earlier versions."""
    return [", ".join(f"d{i}: {one}" for i, one in enumerate(data))] if data else []


def counts_in_words(likelier: str, other: str, x: int, y: int, trials: int) -> str:
    """Returns the counts of an event: "happened 9,812 of 10,000 times (98.1 %) on d0, 3,120 (31.2 %) on d1"."""
    return (
        f"happened {x:,} of {trials:,} times ({_percent(x, trials)}) on {likelier}, {y:,} ({_percent(y, trials)}) "
        f"on {other}"
    )


def _percent(count: int, trials: int) -> str:
    share = 100 * count / max(trials, 1)
    return f"{share:.3g} %" if count in (0, trials) or 0.1 <= share <= 99.9 else f"{share:.6g} %"
