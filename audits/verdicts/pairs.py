"""The standing of each pair of neighbours in an audit of several."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import Hidden
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.verdicts import fields

_LONGEST = 100


@frozen
class PairStanding:
    """One of several audited pairs of neighbours.

    See :class:`hockeystick.audits.Verdict`, whose ``pairs`` holds such standings.

    Attributes:
      d0, d1: the data sets, as text of at most 100 characters.
      samples: number of outputs drawn from each of them.
      excess: by how many standard errors the chosen events exceeded the claim in all rounds of choosing. It ranks the
        pairs, and is not a bound.
      claim: the pair's claim in words, where each pair has its own.
    """

    d0: str
    d1: str
    samples: int = 0
    excess: float = 0.0
    claim: str = ""

    @classmethod
    def of(cls, pair: tuple[Any, Any]) -> PairStanding:
        """Returns the standing of a pair before any output is drawn."""
        return cls(short_text(pair[0]), short_text(pair[1]))


def claim_words(claim: Claim) -> str:
    """Returns a claim as text: the point, and of a curve the point at which it is stated."""
    return f"({claim.epsilon:g}, {claim.delta:g})" + " as a curve" * bool(claim.also)


def short_text(data: Any) -> str:
    """Returns a data set as text of at most 100 characters."""
    try:
        text = " ".join(repr(data).split())
    except Exception:  # of any class
        text = f"<{type(data).__name__}>"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def in_short(data: Any) -> str:
    """Returns the type and the size of a data set; of a single number, 0 and 1 alone are told."""
    if type(data) in (bool, int, float) and data in (0, 1):
        return f"{data:g}"
    if type(data) in (int, float):
        return "a number"
    kind = type(data)  # of a lazy frame even the names of its columns are a computation
    if hasattr(kind, "columns") and hasattr(kind, "__len__"):
        with suppress(Exception):  # of any class
            return f"{kind.__name__} of {len(data)} rows"
    return Hidden.of(data).kind


def read_standings(name: str, value: object) -> tuple[PairStanding, ...]:
    """Returns the standings from plain values.

    Raises:
      InvalidArgumentError: they are not rows of standings.
    """
    checks = {"d0": fields.words, "d1": fields.words, "samples": fields.count, "excess": fields.finite}
    checks |= {"claim": fields.words}
    found = []
    for row in fields.rows(name, value):
        if not isinstance(row, dict):
            raise InvalidArgumentError(name, type(row).__name__, "is not the standing of a pair")
        found.append(PairStanding(**fields.read_fields(name, row, checks, optional=("claim",))))
    return tuple(found)


def pairs_in_words(number: int, pairs: tuple[PairStanding, ...]) -> list[str]:
    """Returns lines that name the tested pair and the standing of the others."""
    if not pairs:
        return []
    chosen = pairs[number - 1]
    lines = [f"pair {number} of {len(pairs)}{_claim(chosen)}: d0 = {chosen.d0}, d1 = {chosen.d1}"]
    for i, other in enumerate(pairs, start=1):
        if i != number and other.samples:
            side = "above" if other.excess > 0 else "below"
            errors = f"{math.floor(abs(other.excess) * 10) / 10:g} standard errors {side} the claim"
            lines.append(f"pair {i}{_claim(other)}: {errors} in {other.samples:,} samples")
        elif i != number:
            lines.append(f"pair {i}{_claim(other)}: not reached")
    return lines


def _claim(pair: PairStanding) -> str:
    return f", claim {pair.claim}" if pair.claim else ""
