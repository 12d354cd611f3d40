"""The result of a sequential audit: what was tested, what was found, and what could have been found."""

from __future__ import annotations

import math
from typing import Any

from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits.verdicts import fields
from hockeystick.audits.verdicts.common import SCHEMA_VERSION, CommonVerdict, Outcome, read_values, versions


@frozen
class SequentialVerdict(CommonVerdict):
    """What a sequential audit says about a claim. It can refute a claim; it can't show that one holds.

    With probability at least 1 - ``alpha`` the audit of a true claim refutes nothing and ``epsilon_lower`` is not above
    the truth, whenever it was stopped and for whatever reason, and however many events were bet on.

    Attributes:
      outcome: "refuted"; else "inconclusive" if only a violation far beyond the claim could have been seen
        (``detectable_epsilon`` > max(2 epsilon, epsilon + 0.1) for the epsilon tested); else "consistent".
      epsilon_claimed, delta: the claim, as stated.
      alpha: the false-alarm probability.
      log_wealth: natural logarithm of the largest wealth that the bets against the claim reached; a true claim reaches
        log(1/x) with probability at most x. Where evidence was carried over from earlier runs it is included.
      log_wealth_end: the same at the end.
      epsilon_lower: the claim at ``delta`` would be wrong for every epsilon below this.
      samples: outputs drawn from each data set, for all purposes.
      stopped_at: how many of them had been used when the claim was refuted; ``samples`` if it was not.
      direction: "d0->d1" if the event is the likelier on d0, "d1->d0" if on d1.
      event: the event with the most money on it, in words, as it was last chosen.
      frequency_p, frequency_q: how often it happened on the likelier data set and on the other, in the outputs that it
        was chosen from: an estimate. Of a score in [0, 1], its mean.
      epsilon_tested, delta_tested: the claimed point that the bets on this event are against.
      detectable_epsilon: the least epsilon' such that P = e^epsilon' q + delta, at the tested point's delta, would have
        been found with probability 0.9 from as many samples, through the best of the events that were last bet on, with
        q its probability on the less likely data set as estimated. It reckons with a normal law of the log-wealth.
      seed: of all random numbers.
      seconds: wall time.
      warnings: one sentence each.
      versions: of the libraries, and of Python.
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

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values that JSON can hold. An infinite ``detectable_epsilon`` is None."""
        return {"schema": SCHEMA_VERSION, "kind": "sequential", "refuted": self.refuted, **self._plain_fields()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> SequentialVerdict:
        """Returns the verdict of :meth:`to_dict`.

        Raises:
          InvalidArgumentError: another schema; a field that is missing, unknown, of another type or out of its domain;
            or fields that contradict each other.
        """
        known = isinstance(plain, dict) and plain.get("kind") == "sequential"
        if not known or plain.get("schema") != SCHEMA_VERSION:
            remedy = "give SequentialVerdict.to_dict()"
            raise InvalidArgumentError("schema", None, "is none that this version can read", remedy)
        stated = {name: value for name, value in plain.items() if name not in ("schema", "kind")}
        values = read_values(stated, _FIELDS)
        fields.at_most(values, "stopped_at", "samples")
        return cls(**values)

    def summary(self) -> str:
        """Returns a few lines for a terminal or a failure message."""
        first, second = self.direction.split("->")
        as_curve = " as a curve" if self.tested_elsewhere and self.epsilon_lower <= self.epsilon_claimed else ""
        what = self._outcome_words(f"{as_curve} after {self.stopped_at} samples from each data set")
        lines = [
            f"{what} (false alarms: at most {self.alpha:g}, whenever it stops)",
            f"wealth against the claim reached e^{self.log_wealth:.4g} of e^{math.log(1 / self.alpha):.4g}",
            f"event: {self.event}",
            f"happened in {self.frequency_p:.4g} of the outputs on {first}, {self.frequency_q:.4g} on {second}; "
            f"tested at ({self.epsilon_tested:g}, {self.delta_tested:g})",
            f"epsilon is at least {self.epsilon_lower:g} at delta={self.delta:g}; "
            f"through such an event {self._detectable_words()} would have been found with probability 0.9",
            f"{self.samples} samples from each data set, seed {self.seed}, {self.seconds:.2f} s",
        ]
        return "\n".join([*lines, *self._warning_lines()])


_FIELDS: dict[str, fields.Check] = {
    "alpha": fields.level,
    "log_wealth": fields.finite,
    "log_wealth_end": fields.finite,
    "stopped_at": fields.count,
    "frequency_p": fields.share,
    "frequency_q": fields.share,
}
