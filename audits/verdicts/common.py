"""What the verdicts of ``audit`` and ``sequential_audit`` have in common: JSON in and out, and the words for a claim.

Each class lists all of its fields, and describes them; here is what is done with those that both have.
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
"""Of the fields that both have, as they are written."""

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
    """What a verdict can do whose class has these fields, and ``to_dict``, ``from_dict`` and ``summary``."""

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
        """Whether the claim is wrong, but for a false alarm of the stated probability."""
        return self.outcome == "refuted"

    @property
    def tested_elsewhere(self) -> bool:
        """Whether a claim of a whole curve was tested at another point than the one stated."""
        return (self.epsilon_tested, self.delta_tested) != (self.epsilon_claimed, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values that JSON can hold."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """Returns the verdict of :meth:`to_dict`."""
        raise NotImplementedError

    def summary(self) -> str:
        """Returns a few lines for a terminal or a failure message."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Returns :meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the verdict of :meth:`to_json`.

        Raises:
          InvalidArgumentError: not JSON, or not a verdict.
        """
        return cls.from_dict(fields.read_object(text))

    def __str__(self) -> str:
        return self.summary()

    def _plain_fields(self) -> dict[str, Any]:
        """The fields as plain values; an infinite ``detectable_epsilon`` is None."""
        plain = attrs.asdict(self)  # type: ignore[arg-type]  # the classes that derive from this are attrs classes
        plain["warnings"] = list(self.warnings)
        if math.isinf(self.detectable_epsilon):
            plain["detectable_epsilon"] = None
        return plain

    def _outcome_words(self, refuted: str) -> str:
        """The outcome in words; ``refuted`` says more of a refuted claim."""
        claim = f"claim ({self.epsilon_claimed:g}, {self.delta:g})"
        return {
            "refuted": f"{claim} is refuted{refuted}",
            "consistent": f"{claim} is consistent with the samples",
            "inconclusive": f"inconclusive: too few samples to test the {claim}",
        }[self.outcome]

    def _detectable_words(self) -> str:
        """What would have been seen: an epsilon, and where if that is not where the claim is stated."""
        found = "infinite" if math.isinf(self.detectable_epsilon) else f"{self.detectable_epsilon:.3g}"
        return f"an epsilon of {found}" + (f" at delta={self.delta_tested:g}" if self.tested_elsewhere else "")

    def _warning_lines(self) -> list[str]:
        return [f"warning: {warning}" for warning in self.warnings]


def read_values(
    plain: Mapping[str, Any], checks: Mapping[str, fields.Check], *, optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Returns the fields of a verdict as they were stated, each checked.

    Args:
      plain: of ``to_dict``, without what is no field.
      checks: of the fields that not both verdicts have.
      optional: of these, the ones that may be missing.

    Raises:
      InvalidArgumentError: a field is missing, unknown, of another type or out of its domain; or ``refuted``
        contradicts the outcome.
    """
    values = fields.read_fields("verdict", plain, {**CHECKS, **checks}, optional=(*OPTIONAL, *optional))
    if values.pop("refuted", refuted := values["outcome"] == "refuted") != refuted:
        raise InvalidArgumentError("refuted", plain["refuted"], f'contradicts the outcome "{values["outcome"]}"')
    return values
