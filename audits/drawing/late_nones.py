"""Outputs that turn into None, or into an exception, after a number of calls: a target with a state that runs out.

Outputs on one data set are independent and of one law, so each order of them is equally likely. Suppose that v of n
outputs are values, and the others are None. Then the last value is among the first f outputs with probability

    C(f, v) / C(n, v).

If this is at most 1e-10, the target is refused: its outputs depend on the number of calls before them, and no count of
them says anything about the data. None that is mixed among the values from the beginning is an output like others, and
so is None on one data set alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from scipy.special import gammaln

from hockeystick.audits.targets.calling import Raised, TargetError

_LEVEL = -23.0  # logarithm of 1e-10; an audit makes at most some twenty of these tests


@define
class Values:
    """The values (outputs other than None and exceptions) among the outputs of one data set.

    Attributes:
      runs: number of outputs.
      values: number of values.
      end: number of outputs up to the last value.
    """

    runs: int = 0
    values: int = 0
    end: int = 0

    @classmethod
    def of(cls, outputs: Any, runs: int) -> Values:
        """Returns the values among the outputs of a call; an array has values only."""
        if not isinstance(outputs, (list, tuple)) or len(outputs) != runs:
            return cls(runs, runs, runs)
        at = [i for i, one in enumerate(outputs, 1) if one is not None and not isinstance(one, Raised)]
        return cls(runs, len(at), at[-1] if at else 0)

    def add(self, more: Values, start: int) -> None:
        """Adds other outputs, before which there are ``start``."""
        self.runs, self.values = self.runs + more.runs, self.values + more.values
        self.end = max(self.end, start + more.end if more.values else 0)

    @property
    def stopped(self) -> bool:
        """Whether the last value comes too early to be so by chance."""
        v, f, n = self.values, self.end, self.runs
        if not 0 < v <= f < n:
            return False
        log_ratio = gammaln(f + 1) - gammaln(f - v + 1) - gammaln(n + 1) + gammaln(n - v + 1)
        return bool(log_ratio <= _LEVEL)


@define
class LateNones:
    """The values among all outputs that an audit has drawn, in several phases one after the other."""

    _phases: dict[Any, tuple[Values, Values]] = field(factory=dict)

    def add(self, phase: Any, start: int, found: Sequence[Values]) -> None:
        """Adds outputs of both data sets, before which there are ``start`` of the same phase."""
        for known, more in zip(self._phases.setdefault(phase, (Values(), Values())), found, strict=True):
            known.add(more, start)

    def check(self) -> None:
        """Compares the places of the values with those of the other outputs, in each phase and in all together.

        Raises:
          TargetError: the outputs of a data set turned into None, or into exceptions.
        """
        for side in (0, 1):
            together = Values()
            for phase in self._phases.values():
                together.add(phase[side], together.runs)
                for found in (phase[side], together):
                    if found.stopped:
                        raise TargetError(_words(found, side))


def _words(found: Values, side: int) -> str:
    return (
        f"target stopped giving values: on d{side}, the last {found.runs - found.end:,} of {found.runs:,} outputs are "
        "None or exceptions, and those before are not, so outputs depend on how many came before them; build whatever "
        "has a state (a budget that is used up, a file that ends) anew in each call"
    )
