"""The result of an audit: the tested claim, the measured bound, and the violations that would have been detected."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs
from attrs import Factory, field, frozen

from hockeystick._guess.attributes import guessing_attributes
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import visible
from hockeystick.accounting.notebook_tables import html_table, markdown_table, markdown_text
from hockeystick.accounting.numerics import rounded_text
from hockeystick.accounting.validate import one_of
from hockeystick.audits.bounds.sample_limits import samples_to_detect
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
from hockeystick.audits.verdicts.pairs import PairStanding, pairs_in_words, read_standings
from hockeystick.audits.verdicts.pictures import plot_attack, plot_power

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONSTANT = "every output was the same value on both data sets: does the function return something?"
"""The warning of a verdict whose ``constant`` is true."""

_COLUMNS = ("audit", "")


@lru_cache(maxsize=1 << 10)
def _bounding_samples(q: float, epsilon: float, delta: float, factor: float, alpha: float) -> float:
    return samples_to_detect(q, epsilon, delta, factor, alpha=alpha)


@frozen
class TradeoffPoint:
    """The error rates of one event as a test of the null hypothesis "the output came from the less likely data set".

    See :class:`Verdict`, whose ``tradeoff`` holds such points.

    Attributes:
      fpr: share of the bounding samples on that data set in which the event happened.
      fnr: share of those on the other data set in which it did not happen.
      fpr_low, fpr_high, fnr_low, fnr_high: Clopper-Pearson intervals, each at the verdict's confidence level. They are
        for plots; the verdict does not depend on them.
    """

    fpr: float
    fnr: float
    fpr_low: float
    fpr_high: float
    fnr_low: float
    fnr_high: float


@guessing_attributes
@frozen
class Verdict(CommonVerdict):
    """The verdict of an audit on a claim. An audit can refute a claim; it can't prove that one holds.

    Attributes:
      outcome: "refuted"; or "inconclusive" if only a violation far beyond the claim would have been detected, that is,
        one beyond (max(2 epsilon, epsilon + 0.1), delta); else "consistent".
      epsilon_claimed, delta: the claim, as stated. A refuted curve is false at this point if ``epsilon_lower`` is above
        ``epsilon_claimed``; otherwise it is false at another point.
      epsilon_lower: lower bound on the true epsilon at ``delta``.
      confidence: confidence level: the least probability that the audit of a true claim refutes nothing and that
        ``epsilon_lower`` is not above the truth. It covers both directions and the whole search for events.
      samples: number of outputs drawn from each data set, for all purposes.
      timed: whether the number of samples was chosen to fit the time limit.
      direction: "d0->d1" if the event is likelier on d0, "d1->d0" if it is likelier on d1.
      event: the event in words.
      count_p, count_q: counts of the event on the likelier data set and on the other, in ``trials`` outputs each that
        were not used to choose it.
      trials: number of bounding samples from each data set.
      event_back: the event for the other order of the data sets in words, if two events were tested at once (see
        :mod:`hockeystick.audits.bounds.both_orders`); else "".
      count_back_p, count_back_q: counts of that event on the data set where it is likelier, and on the other.
      epsilon_tested, delta_tested: the claimed point that was tested; of a curve, the one where a violation shows best.
      detectable_epsilon: the least epsilon' such that an event with P = e^epsilon' q + ``delta_tested`` would have been
        refuted with probability 0.9. Here q is the event's probability on the less likely data set, as estimated while
        choosing; for two events, P and q are their means, with P + q as estimated. It is at least ``epsilon_tested``,
        and does not cover violations that show in other events.
      event_probability: probability of ``event`` on the less likely data set, as estimated while choosing.
      float_leak: whether the bit patterns of the outputs refute the claim by more than their values as real numbers do,
        in a separate test at the same confidence level. Bit patterns count for ``outcome`` only with ``bits=True``.
      bits: whether bit patterns counted for ``outcome``.
      seed: seed of all random numbers; ``audit(..., samples=planned, rng=seed)`` draws the same outputs again.
      seconds: wall time.
      warnings: one sentence each.
      tradeoff: estimated points of the trade-off curve, by increasing false-positive rate.
      delta_lower: lower bound on the true delta at ``epsilon_claimed``, of the same test and confidence level.
      planned: number of outputs that the audit would have drawn from each data set; ``samples`` is smaller if a first
        look refuted the claim.
      level: the part of 1 - ``confidence`` that was spent on the stated counts; the rest was another look's.
      constant: whether every output, of those that chose the event and of those that bounded it, was one and the same
        value on both data sets. The function may lack its ``return``. False with a statistic of the caller's.
      guesses, right_guesses: of a coin walk (``method="coin walk"``), the number of outputs whose data set was guessed,
        and of right guesses; 0 for other audits. ``samples`` is then half of all outputs; ``count_p`` and
        ``count_back_p`` count the right guesses of the two data sets, ``count_q`` and ``count_back_q`` the wrong ones;
        the events are those of the last guesses; ``trials`` is the number of outputs of the data set that was drawn
        more often while guesses counted; ``delta_lower`` holds at the confidence level by itself. Plans change their
        point of a curve, so a refuted curve is refuted as a whole, and ``epsilon_tested`` is that of the last plan.
      pair: the number of the tested pair of ``pairs``, from 1; 0 if there was one pair only.
      pairs: the standings of all pairs in an audit of several; see :mod:`hockeystick.audits.several_pairs`.
      event_exact, event_back_exact: the events with all digits of their numbers; texts have them rounded.
      hint: a mistake that would explain the outputs of a refuted claim, in words; see
        :mod:`hockeystick.audits.attacks.smaller_noise`. It is a guess, outside the test.
      data: type and size of d0 and of d1.
      method: the test: "two counts" or "coin walk".
      why: why this one, where the audit was to choose (``method="auto"``); else "".
      versions: versions of the libraries and of Python.

    Example:
      >>> import hockeystick as hs
      >>> laplace = hs.mechanisms.Laplace(scale=0.5)  # epsilon = 2 at distance 1
      >>> verdict = hs.audit(laplace, claim=(1.0, 0.0), neighbours=(0.0, 1.0), samples=5000, rng=1)
      >>> verdict.outcome, round(verdict.epsilon_lower, 1), verdict.confidence
      ('refuted', 1.9, 0.999)
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
    delta_lower: float = 0.0
    planned: int = Factory(lambda self: self.samples, takes_self=True)
    level: float = Factory(lambda self: 1 - self.confidence, takes_self=True)
    constant: bool = False
    guesses: int = 0
    right_guesses: int = 0
    pair: int = 0
    pairs: tuple[PairStanding, ...] = field(default=(), repr=False)
    event_exact: str = field(default="", repr=False)
    event_back_exact: str = field(default="", repr=False)
    hint: str = ""
    data: tuple[str, ...] = ()
    method: str = "two counts"
    why: str = ""
    versions: dict[str, str] = field(factory=lambda: dict(versions()), repr=False, hash=False)

    def samples_to_detect(self, factors: tuple[float, ...] = (1.1, 1.5)) -> tuple[tuple[float, float], ...]:
        """Returns pairs (factor, number of outputs from each data set) that refute an under-claim through this event.

        With so many outputs, and the event given as ``statistic``, a true epsilon of ``factor`` times the claimed one
        would be refuted with probability 0.9, if the event's probability on the less likely data set stays the same.
        The number is infinite if this is impossible. It counts ``event`` alone; a second event for the other order
        reduces it. To find the event again takes up to twice as many outputs. Empty if the claimed epsilon is 0, for a
        coin walk, and after a refutation, where there is nothing left to refute.
        """
        if self.epsilon_claimed == 0 or self.refuted or self.guesses:
            return ()
        alpha, each = 1 - self.confidence, 50 / 49  # one in fifty chooses the direction
        needed = [
            _bounding_samples(self.event_probability, self.epsilon_claimed, self.delta, f, alpha) for f in factors
        ]
        return tuple(
            (f, float(math.ceil(n * each)) if n < math.inf else n) for f, n in zip(factors, needed, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON-compatible values. An infinite ``detectable_epsilon`` is None."""
        plain = self._plain_fields()
        plain["data"] = list(self.data)
        plain["tradeoff"] = [attrs.asdict(point) for point in self.tradeoff]
        plain["pairs"] = [attrs.asdict(pair) for pair in self.pairs]
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
        """Returns the verdict from the values of :meth:`to_dict`.

        Raises:
          InvalidArgumentError: the schema is another one; a field is missing, unknown, of another type or out of its
            domain; or fields contradict each other.
        """
        if not isinstance(plain, dict) or plain.get("schema") != SCHEMA_VERSION:
            raise InvalidArgumentError("schema", None, "is unknown to this version", "give Verdict.to_dict()")
        stated = {name: value for name, value in plain.items() if name not in ("schema", "samples_to_detect")}
        values = read_values(stated, _FIELDS, optional=_OPTIONAL)
        walked = values.get("guesses", 0) > 0
        for less, more in _ORDERED:
            if more in values and not (walked and less == "trials"):  # coins do not draw both data sets equally often
                fields.at_most(values, less, more)
        pair, pairs = values.get("pair", 0), len(values.get("pairs", ()))
        if not min(pairs, 1) <= pair <= pairs:
            raise InvalidArgumentError("pair", pair, "is not the number of one of the pairs")
        return cls(**values)

    def summary(self) -> str:
        """Returns a few lines for a terminal or a failure message."""
        first, second = self.direction.split("->")
        at = ""
        if self.curve_alone:
            at = " as a curve: it fails at one of its points, and the test does not say at which"
        elif self.tested_elsewhere and not self.guesses:
            at = f" as a curve, at its point ({self.epsilon_tested:g}, {self.delta_tested:g})"
            if self.epsilon_lower <= self.epsilon_claimed:
                at += f", not at ({self.epsilon_claimed:g}, {self.delta:g}) itself"
        needed = [(factor, n) for factor, n in self.samples_to_detect() if math.isfinite(n)]
        lines = [
            f"{self._outcome_words(at)} (confidence {self.confidence:.10g})",
            *(pairs_in_words(self.pair, self.pairs) or data_in_words(self.data)),
            *(
                [f"the data set was guessed for {self.guesses} outputs, {self.right_guesses} times rightly; last:"]
                * bool(self.guesses)
            ),
            *([f"method: {self.method}, because {self.why}"] * bool(self.why)),
            f"event: {self.event}",
            counts_in_words(first, second, self.count_p, self.count_q, self.trials),
            *(
                [
                    f"and, for the other order: {self.event_back}",
                    counts_in_words(second, first, self.count_back_p, self.count_back_q, self.trials),
                ]
                if self.event_back
                else []
            ),
            *([f"hint: {self.hint}"] if self.hint else []),
            self._bounds_in_words(),
            f"{self._samples_in_words()}, seed {self.seed}, {self.seconds:.2f} s",
        ]
        if needed:
            each = (f"{float(f'{n:.2g}'):,.0f} for one of {100 * (factor - 1):.3g} %" for factor, n in needed)
            lines.insert(-1, f"samples to refute an under-claim through this event: {', '.join(each)}")
        return "\n".join(map(visible, [*lines, *self._warning_lines()]))

    def plot(self, kind: str = "trade-off", *, ax: Any = None) -> Axes:
        """Draws the verdict, and returns the axes of matplotlib, which can be restyled.

        Args:
          kind: "trade-off" for the event beside the attacks that the claim allows at its stated point; "power" for the
            probability that this test, through this event, refutes the claim, over the number of outputs. The lines of
            "power" are for true ε of 1.1, 1.25, 1.5 and 2 times the claimed one.
          ax: axes to draw into; by default those of a new figure.

        Raises:
          MissingExtraError: matplotlib is not installed.
          InvalidArgumentError: ``kind`` is unknown, or the verdict has no power to draw: of a claim of ε = 0, of a coin
            walk, or of an event that always or never happens.

        Example:
          >>> import hockeystick as hs
          >>> target = lambda x, rng, runs: x + rng.laplace(size=runs)
          >>> verdict = hs.audit(target, claim=hs.Claim(1.0), neighbours=(0.0, 1.0), samples=5000, rng=1)
          >>> axes = verdict.plot()
          >>> axes.get_xlabel(), axes.get_ylabel()
          ('false alarms of an attack', 'its misses')
        """
        kind = one_of("kind", kind, "trade-off", "power")
        if kind == "power":
            return self._plot_power(ax)
        if self.guesses:
            raise InvalidArgumentError("kind", kind, "is of two counts, and this is a coin walk", "read the summary")
        rows = [(p.fpr, p.fnr, p.fpr_low, p.fpr_high, p.fnr_low, p.fnr_high) for p in self.tradeoff]
        found = self.count_q / max(1, self.trials), 1 - self.count_p / max(1, self.trials)
        label = f"claimed: ε = {self.epsilon_claimed:g}, δ = {self.delta:g}"
        return plot_attack([(self.epsilon_claimed, self.delta)], label, found, rows, ax)

    def _plot_power(self, ax: Any) -> Axes:
        q = self.count_q / max(1, self.trials) if self.refuted else self.event_probability
        if self.guesses or self.epsilon_claimed == 0.0 or not 0.0 < q < 1.0:
            reason = "can't be drawn: of a claim of ε = 0, of a coin walk, or of an event that always or never happens"
            raise InvalidArgumentError("kind", "power", reason, 'use kind="trade-off"')
        n = max(self.trials, 100)
        return plot_power(
            probability_of_event=q,
            epsilon=self.epsilon_claimed,
            delta=self.delta,
            true_epsilons=[factor * self.epsilon_claimed for factor in (1.1, 1.25, 1.5, 2.0)],
            alpha=self.level,
            least=max(n // 100, 10),
            most=3 * n,
            now=self.trials,
            ax=ax,
        )

    @property
    def curve_alone(self) -> bool:
        """Whether a coin walk has refuted a curve as a whole, and no single point of it."""
        return self.refuted and self.guesses > 0 and self.epsilon_lower < self.epsilon_claimed

    @property
    def stopped(self) -> bool:
        """Whether a first look ended the audit."""
        return self.samples < self.planned

    def _bounds_in_words(self) -> str:
        least = f"epsilon is at least {rounded_text.lower(self.epsilon_lower, 4)} at delta={self.delta:g}"
        if self.refuted and self.delta_lower == 0:
            return least
        if self.refuted:
            delta = rounded_text.lower(self.delta_lower, 4)
            return f"{least}, and delta at least {delta} at epsilon={self.epsilon_claimed:g}"
        return f"{least}; the test refutes {self._detectable_words()} through such an event with probability 0.9"

    def _samples_in_words(self) -> str:
        if self.stopped:
            return f"stopped after {self.samples:,} of {self.planned:,} samples from each data set"
        return f"{self.samples} samples from each data set{' (as many as fit the time)' if self.timed else ''}"

    def _repr_html_(self) -> str:
        return html_table(f"Verdict: {self.outcome}", _COLUMNS, _rows(self))

    def _repr_markdown_(self) -> str:
        return f"**Verdict: {markdown_text(self.outcome)}**\n\n" + markdown_table(_COLUMNS, _rows(self))


def _rows(verdict: Verdict) -> list[tuple[str, str]]:
    """Returns the rows of the table that notebooks show."""
    first, _, second = verdict.direction.partition("->")
    found = verdict.detectable_epsilon
    caught = f"ε ≥ {rounded_text.upper(found)}" if math.isfinite(found) else "no violation, however large,"
    caught += f" at δ = {verdict.delta_tested:g}" if verdict.tested_elsewhere else ""
    back = f"{verdict.event_back}: {verdict.count_back_p:,} on {second}, {verdict.count_back_q:,} on {first}"
    tested = f"ε = {verdict.epsilon_tested:g}, δ = {verdict.delta_tested:g}"
    refuted, stopped = verdict.refuted, f" of {verdict.planned:,}" if verdict.stopped else ""
    return [
        ("claimed", f"ε = {verdict.epsilon_claimed:g} at δ = {verdict.delta:g}"),
        *([("tested at", tested)] if verdict.tested_elsewhere and not (verdict.refuted and verdict.guesses) else []),
        *([("refuted", "the curve as a whole, at no point that the test names")] * verdict.curve_alone),
        ("measured", f"ε ≥ {rounded_text.lower(verdict.epsilon_lower)} at δ = {verdict.delta:g}"),
        *([("or", f"δ ≥ {rounded_text.lower(verdict.delta_lower)} at ε = {verdict.epsilon_claimed:g}")] * refuted),
        ("confidence", f"{verdict.confidence:.10g}"),
        *(("pair", text) for text in pairs_in_words(verdict.pair, verdict.pairs)),
        ("event", verdict.event),
        ("happened", f"{verdict.count_p:,} times on {first}, {verdict.count_q:,} on {second}, of {verdict.trials:,}"),
        *([("second event", back)] if verdict.event_back else []),
        *([("hint", verdict.hint)] if verdict.hint else []),
        *([("could have caught", f"{caught} through such an event, with probability 0.9")] * (not refuted)),
        *([("method", f"{verdict.method}, because {verdict.why}")] * bool(verdict.why)),
        ("samples", f"{verdict.samples:,}{stopped} from each data set; seed {verdict.seed}"),
        *(("warning", warning) for warning in verdict.warnings),
    ]


def _tradeoff(name: str, value: object) -> tuple[TradeoffPoint, ...]:
    names = [one.name for one in attrs.fields(TradeoffPoint)]
    found = []
    for row in fields.rows(name, value):
        if not isinstance(row, dict):
            raise InvalidArgumentError(name, type(row).__name__, "is not a point of a trade-off curve")
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
    "delta_lower": fields.share,
    "planned": fields.count,
    "level": fields.level,
    "constant": fields.truth,
    "guesses": fields.count,
    "right_guesses": fields.count,
    "pair": fields.count,
    "pairs": read_standings,
    **dict.fromkeys(("event_exact", "event_back_exact", "hint", "why"), fields.words),
    "method": fields.one_of("two counts", "coin walk"),
    "data": fields.sentences,
}

_OPTIONAL = (
    "event_probability",
    "event_back",
    "count_back_p",
    "count_back_q",
    "delta_lower",
    "planned",
    "level",
    "constant",
    "guesses",
    "right_guesses",
    "pair",
    "pairs",
    "event_exact",
    "event_back_exact",
    "hint",
    "data",
    "method",
    "why",
)

_ORDERED = (
    ("count_p", "trials"),
    ("count_q", "trials"),
    ("count_back_p", "trials"),
    ("count_back_q", "trials"),
    ("trials", "samples"),
    ("samples", "planned"),
    ("right_guesses", "guesses"),
)
