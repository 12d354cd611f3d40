"""The result of an audit: what was tested, what was found, and what could have been found."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import attrs
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.graph.drawing.notebook_reprs import html_table, markdown_table, markdown_text
from hockeystick.accounting.numerics import rounded_text
from hockeystick.audits.bounds.sample_limits import samples_to_detect
from hockeystick.audits.verdicts import fields
from hockeystick.audits.verdicts.common import SCHEMA_VERSION, CommonVerdict, Outcome, read_values, versions

_COLUMNS = ("audit", "")


@lru_cache(maxsize=1 << 10)
def _bounding_samples(q: float, epsilon: float, delta: float, factor: float, alpha: float) -> float:
    return samples_to_detect(q, epsilon, delta, factor, alpha=alpha)


@frozen
class TradeoffPoint:
    """One event read as a test of "the output came from the less likely data set".

    Attributes:
      fpr: how often the event happened on that data set, in the bounding samples.
      fnr: how often it did not on the other.
      fpr_low, fpr_high, fnr_low, fnr_high: Clopper-Pearson intervals at the verdict's confidence, each by itself. The
        curve is for looking at; the verdict does not rest on it.
    """

    fpr: float
    fnr: float
    fpr_low: float
    fpr_high: float
    fnr_low: float
    fnr_high: float


@frozen
class Verdict(CommonVerdict):
    """What an audit says about a claim. It can refute a claim; it can't show that one holds.

    Attributes:
      outcome: "refuted"; else "inconclusive" if only a violation far beyond the claim could have been seen: an event so
        likely that (max(2 epsilon, epsilon + 0.1), delta) excludes it; else "consistent".
      epsilon_claimed, delta: the claim, as stated. A curve that is refuted need not be false at this point of it: it is
        if ``epsilon_lower`` is above ``epsilon_claimed``.
      epsilon_lower: the claim at ``delta`` would be wrong for every epsilon below this.
      confidence: probability, at least, with which the audit of a true claim refutes nothing and ``epsilon_lower`` is
        not above the truth. It covers both directions and every event that was looked at.
      samples: outputs drawn from each data set, for all purposes.
      timed: whether the number of samples was chosen to fit the time, not given.
      direction: "d0->d1" if the event is the likelier on d0, "d1->d0" if on d1.
      event: the event, in words.
      count_p, count_q: how often it happened on the likelier data set and on the other, of ``trials`` outputs each that
        had no part in choosing it.
      event_back: the event for the other order of the data sets, in words, if two events were tested at once (see
        :mod:`hockeystick.audits.bounds.both_orders`); else empty.
      count_back_p, count_back_q: how often that one happened: on the data set where it is the likelier, which is not
        that of ``count_p``, and on the other.
      epsilon_tested, delta_tested: the claimed point that was tested; of a curve, where a violation showed best.
      detectable_epsilon: the least epsilon' such that P = e^epsilon' q + ``delta_tested`` would have been refuted with
        probability 0.9, with q this event's probability on the less likely data set as estimated while choosing; where
        two events were tested, P and q are the means of theirs, and P + q is what it was estimated to be. It is not
        below ``epsilon_tested``; of violations that show in other events it says nothing.
      event_probability: of ``event`` on the less likely data set, as estimated while choosing.
      float_leak: whether the bit patterns of the outputs refute the claim, beyond what they do as real numbers: a test
        of its own, at the same confidence. Bit patterns count for ``outcome`` only if the audit was made with
        ``bits=True``.
      bits: whether it was.
      seed: of all random numbers; ``audit(..., samples=samples, rng=seed)`` draws the same outputs again.
      seconds: wall time.
      warnings: one sentence each.
      tradeoff: estimated points of the trade-off curve, by increasing false-positive rate.
      versions: of the libraries, and of Python.
    """

    outcome: Outcome
    epsilon_claimed: float
    delta: float
    epsilon_lower: float
    confidence: float
    samples: int
    timed: bool
    direction: str
    event: str
    count_p: int
    count_q: int
    trials: int
    epsilon_tested: float
    delta_tested: float
    detectable_epsilon: float
    float_leak: bool
    bits: bool
    seed: int
    seconds: float
    warnings: tuple[str, ...] = ()
    tradeoff: tuple[TradeoffPoint, ...] = field(default=(), repr=False)
    event_probability: float = field(default=1.0, repr=False)
    event_back: str = ""
    count_back_p: int = 0
    count_back_q: int = 0
    versions: dict[str, str] = field(factory=lambda: dict(versions()), repr=False, hash=False)

    def samples_to_detect(self, factors: tuple[float, ...] = (1.1, 1.5)) -> tuple[tuple[float, float], ...]:
        """Returns pairs (factor, outputs from each data set): what refutes an under-claim through this event.

        With so many outputs, and the event given as ``statistic``, a true epsilon of ``factor`` times the claimed one
        would be refuted with probability 0.9, if the event is then as likely on the less likely data set as it is now;
        infinite where it can't be. Only ``event`` counts; with one for the other order beside it fewer will do. Finding
        the event anew takes up to twice as many. Empty if the claimed epsilon is 0. Takes some hundredths of a second.
        """
        if self.epsilon_claimed == 0:
            return ()
        alpha, each = 1 - self.confidence, 50 / 49  # one in fifty chooses the direction
        needed = [
            _bounding_samples(self.event_probability, self.epsilon_claimed, self.delta, f, alpha) for f in factors
        ]
        return tuple(
            (f, float(math.ceil(n * each)) if n < math.inf else n) for f, n in zip(factors, needed, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values that JSON can hold. An infinite ``detectable_epsilon`` is None."""
        plain = self._plain_fields()
        plain["tradeoff"] = [attrs.asdict(point) for point in self.tradeoff]
        needed = [[factor, None if math.isinf(n) else n] for factor, n in self.samples_to_detect()]
        return {
            "schema": SCHEMA_VERSION,
            "outcome": self.outcome,
            "refuted": self.refuted,
            **plain,
            "samples_to_detect": needed,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Verdict:
        """Returns the verdict of :meth:`to_dict`.

        Raises:
          InvalidArgumentError: another schema; a field that is missing, unknown, of another type or out of its domain;
            or fields that contradict each other.
        """
        if not isinstance(plain, dict) or plain.get("schema") != SCHEMA_VERSION:
            raise InvalidArgumentError("schema", None, "is none that this version can read", "give Verdict.to_dict()")
        stated = {name: value for name, value in plain.items() if name not in ("schema", "samples_to_detect")}
        values = read_values(stated, _FIELDS, optional=_OPTIONAL)
        for less, more in _ORDERED:
            fields.at_most(values, less, more)
        return cls(**values)

    def summary(self) -> str:
        """Returns a few lines for a terminal or a failure message."""
        first, second = self.direction.split("->")
        at = ""
        if self.tested_elsewhere:
            at = f" as a curve, at its point ({self.epsilon_tested:g}, {self.delta_tested:g})"
            if self.epsilon_lower <= self.epsilon_claimed:
                at += f", not at ({self.epsilon_claimed:g}, {self.delta:g}) itself"
        needed = [(factor, n) for factor, n in self.samples_to_detect() if math.isfinite(n)]
        lines = [
            f"{self._outcome_words(at)} (confidence {self.confidence:.10g})",
            f"event: {self.event}",
            f"happened {self.count_p} of {self.trials} times on {first}, {self.count_q} of {self.trials} on {second}",
            *(
                [
                    f"and, for the other order: {self.event_back}",
                    f"happened {self.count_back_p} of {self.trials} times on {second}, "
                    f"{self.count_back_q} of {self.trials} on {first}",
                ]
                if self.event_back
                else []
            ),
            f"epsilon is at least {rounded_text.lower(self.epsilon_lower, 4)} at delta={self.delta:g}; "
            f"through such an event {self._detectable_words()} would have been refuted with probability 0.9",
            f"{self.samples} samples from each data set{' (as many as fit the time)' if self.timed else ''}, "
            f"seed {self.seed}, {self.seconds:.2f} s",
        ]
        if needed:
            how = (f"{float(f'{n:.2g}'):,.0f} for one of {100 * (factor - 1):.3g} %" for factor, n in needed)
            lines.insert(-1, f"samples to refute an under-claim through this event: {', '.join(how)}")
        return "\n".join([*lines, *self._warning_lines()])

    def _repr_html_(self) -> str:
        return html_table(f"Verdict: {self.outcome}", _COLUMNS, _rows(self))

    def _repr_markdown_(self) -> str:
        return f"**Verdict: {markdown_text(self.outcome)}**\n\n" + markdown_table(_COLUMNS, _rows(self))


def _rows(verdict: Verdict) -> list[tuple[str, str]]:
    """What notebooks show beside the outcome."""
    first, _, second = verdict.direction.partition("->")
    found = verdict.detectable_epsilon
    caught = f"ε ≥ {rounded_text.upper(found)}" if math.isfinite(found) else "no violation, however large,"
    caught += f" at δ = {verdict.delta_tested:g}" if verdict.tested_elsewhere else ""
    back = f"{verdict.event_back}: {verdict.count_back_p:,} on {second}, {verdict.count_back_q:,} on {first}"
    tested = f"ε = {verdict.epsilon_tested:g}, δ = {verdict.delta_tested:g}"
    return [
        ("claimed", f"ε = {verdict.epsilon_claimed:g} at δ = {verdict.delta:g}"),
        *([("tested at", tested)] if verdict.tested_elsewhere else []),
        ("measured", f"ε ≥ {rounded_text.lower(verdict.epsilon_lower)} at δ = {verdict.delta:g}"),
        ("confidence", f"{verdict.confidence:.10g}"),
        ("event", verdict.event),
        ("happened", f"{verdict.count_p:,} times on {first}, {verdict.count_q:,} on {second}, of {verdict.trials:,}"),
        *([("second event", back)] if verdict.event_back else []),
        ("could have caught", f"{caught} through such an event, with probability 0.9"),
        ("samples", f"{verdict.samples:,} from each data set; seed {verdict.seed}"),
        *(("warning", warning) for warning in verdict.warnings),
    ]


def _tradeoff(name: str, value: object) -> tuple[TradeoffPoint, ...]:
    names = [one.name for one in attrs.fields(TradeoffPoint)]
    found = []
    for row in fields.rows(name, value):
        if not isinstance(row, dict):
            raise InvalidArgumentError(name, type(row).__name__, "is no point of a trade-off curve")
        found.append(TradeoffPoint(**fields.read_fields(name, row, dict.fromkeys(names, fields.share))))
    return tuple(found)


_FIELDS: dict[str, fields.Check] = {
    "confidence": fields.level,
    "timed": fields.truth,
    "count_p": fields.count,
    "count_q": fields.count,
    "trials": fields.count,
    "float_leak": fields.truth,
    "bits": fields.truth,
    "tradeoff": _tradeoff,
    "event_probability": fields.share,
    "event_back": fields.words,
    "count_back_p": fields.count,
    "count_back_q": fields.count,
}

_OPTIONAL = ("event_probability", "event_back", "count_back_p", "count_back_q")

_ORDERED = (
    ("count_p", "trials"),
    ("count_q", "trials"),
    ("count_back_p", "trials"),
    ("count_back_q", "trials"),
    ("trials", "samples"),
)
