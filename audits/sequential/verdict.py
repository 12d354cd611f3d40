"""The result of a sequential audit."""

from __future__ import annotations

import math
from typing import Any

from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import visible
from hockeystick.audits.verdicts import fields
from hockeystick.audits.verdicts.common import (
    SCHEMA_VERSION,
    CommonVerdict,
    Outcome,
    counts_in_words,
    data_in_words,
    read_values,
    versions,
)

SCORE = "a score in [0, 1]"
"""Words with which an event begins that is a score."""


@frozen
class SequentialVerdict(CommonVerdict):
    """The verdict of a sequential audit on a claim. An audit can refute a claim; it can't prove that one holds.

    With probability at least 1 - ``alpha``, the audit of a true claim refutes nothing and ``epsilon_lower`` is not
    above the truth, for every stopping rule and every number of events.

    See :func:`sequential_audit` for an example.

    Attributes:
      outcome: "refuted"; or "inconclusive" if only a violation far beyond the claim would have been detected
        (``detectable_epsilon`` > max(2 epsilon, epsilon + 0.1) for the tested epsilon); else "consistent".
      epsilon_claimed, delta: the claim, as stated.
      alpha: the false-alarm probability.
      log_wealth: natural logarithm of the largest wealth of the bets against the claim; for a true claim it ever
        reaches log(1/x) with probability at most x. It includes evidence from earlier runs.
      log_wealth_end: natural logarithm of the wealth at the end.
      epsilon_lower: lower bound on the true epsilon at ``delta``.
      samples: number of outputs drawn from each data set, for all purposes.
      stopped_at: number of outputs used when the claim was refuted; ``samples`` if it was not.
      direction: "d0->d1" if the event is likelier on d0, "d1->d0" if it is likelier on d1.
      event: the last version of the event with the most money on it, in words.
      frequency_p, frequency_q: share of the outputs in the event on the likelier data set and on the other, estimated
        from the outputs that chose it; for a score in [0, 1], its means.
      epsilon_tested, delta_tested: the claimed point against which the audit bets on this event.
      detectable_epsilon: the least epsilon' such that an event with P = e^epsilon' q + ``delta_tested`` would have been
        found with probability 0.9 from as many samples, for the best of the last events. Here q is its estimated
        probability on the less likely data set, and the log-wealth is assumed to be normal.
      seed: seed of all random numbers.
      seconds: wall time.
      warnings: one sentence each.
      constant: whether all outputs were one and the same value, so that nothing was audited.
      count_p, count_q: counts of the event on the likelier data set and on the other, in ``trials`` outputs each that
        chose it, and outside the test. Of a score in [0, 1], the counts of its largest value.
      trials: number of these outputs of each data set; 0 in files of earlier versions.
      event_exact: the event with all digits of its numbers.
      hint: a mistake that would explain the outputs of a refuted claim, in words; see
        :mod:`hockeystick.audits.attacks.smaller_noise`. It is a guess, outside the test.
      data: type and size of d0 and of d1.
      versions: versions of the libraries and of Python.
    """

    outcome: Outcome
    epsilon_claimed: float
    delta: float
    alpha: float
    log_wealth: float
    log_wealth_end: float
    epsilon_lower: float
    samples: int
    stopped_at: int
    direction: str
    event: str
    frequency_p: float
    frequency_q: float
    epsilon_tested: float
    delta_tested: float
    detectable_epsilon: float
    seed: int
    seconds: float
    warnings: tuple[str, ...] = ()
    versions: dict[str, str] = field(factory=lambda: dict(versions()), repr=False, hash=False)
    constant: bool = False
    count_p: int = 0
    count_q: int = 0
    trials: int = 0
    event_exact: str = field(default="", repr=False)
    hint: str = ""
    data: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON-compatible values. An infinite ``detectable_epsilon`` is None."""
        plain = {**self._plain_fields(), "data": list(self.data)}
        return {"schema": SCHEMA_VERSION, "kind": "sequential", "refuted": self.refuted, **plain}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> SequentialVerdict:
        """Returns the verdict from the values of :meth:`to_dict`.

        Raises:
          InvalidArgumentError: the schema is another one; a field is missing, unknown, of another type or out of its
            domain; or fields contradict each other.
        """
        known = isinstance(plain, dict) and plain.get("kind") == "sequential"
        if not known or plain.get("schema") != SCHEMA_VERSION:
            remedy = "give SequentialVerdict.to_dict()"
            raise InvalidArgumentError("schema", None, "is unknown to this version", remedy)
        stated = {name: value for name, value in plain.items() if name not in ("schema", "kind")}
        values = read_values(stated, _FIELDS, optional=_OPTIONAL)
        fields.at_most(values, "stopped_at", "samples")
        for count in ("count_p", "count_q") if "trials" in values else ():
            fields.at_most(values, count, "trials")
        return cls(**values)

    def summary(self) -> str:
        """Returns a few lines for a terminal or a failure message."""
        first, second = self.direction.split("->")
        as_curve = " as a curve" if self.tested_elsewhere and self.epsilon_lower <= self.epsilon_claimed else ""
        what = self._outcome_words(f"{as_curve} after {self.stopped_at} samples from each data set")
        lines = [
            f"{what} (false alarms: at most {self.alpha:g}, whenever it stops)",
            f"wealth against the claim reached e^{self.log_wealth:.4g} of e^{math.log(1 / self.alpha):.4g}",
            *data_in_words(self.data),
            f"event: {self.event}",
            f"{self._event_in_words(first, second)}; tested at ({self.epsilon_tested:g}, {self.delta_tested:g})",
            *([f"hint: {self.hint}"] if self.hint else []),
            f"epsilon is at least {self.epsilon_lower:g} at delta={self.delta:g}; "
            f"the test finds {self._detectable_words()} through such an event with probability 0.9",
            f"{self.samples} samples from each data set, seed {self.seed}, {self.seconds:.2f} s",
        ]
        return "\n".join(map(visible, [*lines, *self._warning_lines()]))

    def _event_in_words(self, first: str, second: str) -> str:
        """Returns the counts of the event; also its mean for a score, and its shares in files of earlier versions."""
        p, q = f"{self.frequency_p:.4g}", f"{self.frequency_q:.4g}"
        if not self.trials:
            return f"happened in {p} of the outputs on {first}, {q} on {second}"
        counts = counts_in_words(first, second, self.count_p, self.count_q, self.trials)
        if self.event.startswith(SCORE):
            return f"its mean is {p} on {first}, {q} on {second}; it is largest where that {counts}"
        return counts


_FIELDS: dict[str, fields.Check] = {
    "alpha": fields.level,
    "log_wealth": fields.finite,
    "log_wealth_end": fields.finite,
    "stopped_at": fields.count,
    "frequency_p": fields.share,
    "frequency_q": fields.share,
    "constant": fields.truth,
    **dict.fromkeys(("count_p", "count_q", "trials"), fields.count),
    **dict.fromkeys(("event_exact", "hint"), fields.words),
    "data": fields.sentences,
}

_OPTIONAL = ("constant", "count_p", "count_q", "trials", "event_exact", "hint", "data")
