"""The public :func:`sequential_audit`: draw outputs until they refute a claim or their number reaches the maximum.

The false-alarm rate holds at any stopping time; :mod:`hockeystick.audits.sequential.betting` and
:mod:`hockeystick.audits.sequential.whole_laws` have the proof.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from attrs import define, field, frozen

from hockeystick._guess.arguments import guessing
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.attacks.smaller_noise import noise_hint
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.draws import Progress
from hockeystick.audits.drawing.late_nones import LateNones, Values
from hockeystick.audits.drawing.own_process import limited
from hockeystick.audits.drawing.repeated_draw import repeats
from hockeystick.audits.drawing.unchanged_data import Unchanged
from hockeystick.audits.drawing.warnings_once import once
from hockeystick.audits.outputs.one_value import OneValue
from hockeystick.audits.outputs.reading import Table, read
from hockeystick.audits.sequential.events import Events, FixedEvents, GivenEvents, LearnedEvents, Memory
from hockeystick.audits.sequential.game import Game, ladder, next_change
from hockeystick.audits.sequential.verdict import SequentialVerdict
from hockeystick.audits.targets.calling import (
    Stream,
    Target,
    TargetError,
    equal_data,
    known_seed,
    most_outputs,
    neighbour_pair,
    notes_on,
    refuse_raised,
)
from hockeystick.audits.targets.data_sizes import check_sizes
from hockeystick.audits.targets.statistic import LIKELIHOOD_RATIO, Look
from hockeystick.audits.verdicts.pairs import in_short
from hockeystick.audits.verdicts.verdict import CONSTANT

MOST_SAMPLES = 100_000

_PURPOSE = 2  # purpose of the streams; ``audit`` has other purposes for the same seed
_SHARE_OF_BOUND = 0.02  # of alpha, for the lower bound where the claim itself is not refuted
_NUMBERS = 1 << 21  # in a batch, at most
_ON_EVENTS = 1.4  # growth of the number of pairs between changes of events
_FIRST = 8  # pairs in the first batch; if events are learned, there are no bets on these


@frozen(eq=False)
class Carried:
    """The state of bets against a claim that earlier runs leave to the next run.

    Attributes:
      log_money: shape (roles, stakes); None if there were no bets yet.
      runs: number of earlier runs.
      counts, trials: counts of fixed events.
    """

    log_money: FloatArray | None = None
    runs: int = 0
    counts: IntArray | None = None
    trials: int = 0


@once()
@guessing
def sequential_audit(
    target: object,
    *,
    claim: object = None,
    neighbours: tuple[Any, Any] | None = None,
    alpha: float = 1e-6,
    most_samples: int | None = None,
    rng: int | np.random.Generator | None = None,
    events: object = None,
    exceptions_as_output: bool = False,
    grid: float | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> SequentialVerdict:
    """Tries to refute a claim of differential privacy from as few samples as possible.

    The audit bets against the claim: on the laws of the outputs as estimated from earlier ones, on both orders of the
    data sets at once, and on events, with stakes of all sizes. If the claim is a curve, it bets at the points where a
    violation shows best. If the claim is true, the wealth ever reaches 1/alpha with probability at most alpha (Ville
    1939). So the false-alarm rate holds at any stopping time, no sample size needs to be planned, and a gross violation
    is found within some forty outputs.

    Args:
      target, neighbours, exceptions_as_output, grid, timeout: as in :func:`hockeystick.audits.audit`.
      claim: the claim to refute, in any form of :meth:`Claim.of`; default: the target's own event.
      alpha: false-alarm probability, in (0, 0.5).
      most_samples: largest number of outputs from each data set; at least 20. Default: 100,000, or all
        that were recorded.
      rng: a seed, or a generator that draws one; default: a fresh seed.
      events: known events or a known statistic in which a violation would show. A function of a batch of outputs (of a
        list of them if the target is not vectorised) that returns one bool for each output is an event; several events
        may be given. One function that returns numbers is a statistic, which replaces the output. "likelihood ratio" is
        the target's own ratio. The value for an output must depend on that output alone. Any choice made before the
        audit is valid; a bad one only detects nothing.
      progress: called as ``progress(done, total)`` with numbers of outputs, both data sets together.

    Raises:
      InvalidArgumentError, InvalidDataError, TargetError: as in :func:`hockeystick.audits.audit`.

    Example:
      >>> import hockeystick as hs
      >>> def noisy_count(data, rng, runs):
      ...     return sum(data) + rng.laplace(0.0, 0.25, runs)  # epsilon = 4
      >>> verdict = hs.audits.sequential_audit(noisy_count, claim=(1.0, 0.0), neighbours=([1], [1, 1]), rng=1)
      >>> verdict.outcome, verdict.samples < 200
      ('refuted', True)
    """
    run = Run.of(
        target,
        claim=claim,
        neighbours=neighbours,
        alpha=alpha,
        most_samples=most_samples,
        rng=rng,
        events=events,
        exceptions_as_output=exceptions_as_output,
        grid=grid,
        timeout=timeout,
    )
    return run.play(progress=progress)


@define(eq=False)
class Run:
    """One run of bets, with checked arguments.

    If ``lower`` is false, the run bets against the claimed epsilon only. The claim is then refuted at the same time,
    but there is no lower bound on epsilon beyond it.
    """

    target: Target
    data: tuple[Any, Any]
    claim: Claim
    alpha: float
    most: int
    seed: int
    given: GivenEvents | None
    grid: float | None
    lower: bool = True
    source: object = None
    timeout: float | None = None
    plain: bool = True  # whether the target's own outputs are read, and no statistic of them
    game: Game = field(init=False)
    events: Events | None = field(default=None, init=False)
    _memory: Memory = field(init=False)
    _numbers: int = field(default=1, init=False)
    _learned_at: int = field(default=0, init=False)
    _nones: LateNones = field(factory=LateNones, init=False)
    _value: OneValue | None = field(default=None, init=False)  # that of all outputs so far

    @classmethod
    def of(
        cls,
        target: object,
        *,
        claim: object,
        neighbours: tuple[Any, Any] | None,
        alpha: float,
        most_samples: int | None,
        rng: object,
        events: object,
        exceptions_as_output: bool,
        grid: float | None,
        lower: bool = True,
        timeout: float | None = None,
    ) -> Run:
        """Checks the arguments of :func:`sequential_audit`; nothing is drawn."""
        if claim is None and not callable(getattr(target, "event", None)):
            raise InvalidArgumentError("claim", None, "is missing", "give Claim(epsilon, delta)")
        read_claim = Claim.of(target if claim is None else claim)
        alpha = real("alpha", alpha, low=0.0, high=0.5, low_open=True, high_open=True)
        if most_samples is None and (most_samples := most_outputs(target)) is None:
            most_samples = MOST_SAMPLES
        most = integer("most_samples", most_samples, low=20)
        spacing = None if grid is None else real("grid", grid, low=0.0, low_open=True)
        seed, called = known_seed(rng), Target.of(target, catch=exceptions_as_output)
        data = neighbour_pair(target, neighbours)
        check_sizes(data, claim, target)
        plain = events is None
        if isinstance(events, str) and events == LIKELIHOOD_RATIO:
            called = Look.of(events, target, data).through(called)
            events = None
        given, called = GivenEvents.of(events), limited(called, timeout)
        return cls(called, data, read_claim, alpha, most, seed, given, spacing, lower, target, timeout, plain)

    def play(self, carried: Carried | None = None, progress: Progress | None = None) -> SequentialVerdict:
        """Returns the verdict after :meth:`bet`."""
        started = time.perf_counter()
        drawn = self.bet(carried, progress)
        return self._verdict(drawn, time.perf_counter() - started)

    def bet(self, carried: Carried | None = None, progress: Progress | None = None) -> int:
        """Draws and bets until the claim is refuted or all outputs are drawn; returns their number per data set."""
        carried = carried or Carried()
        self._memory = Memory(self.grid)
        self.game = Game(self.claim, self._steps, self._needed(), carried.log_money, carried.runs)
        d0, d1 = self.data
        streams = Stream(self.target, d0, self.seed, 0, _PURPOSE), Stream(self.target, d1, self.seed, 1, _PURPOSE)
        unchanged = Unchanged(self.data)
        while streams[0].drawn < self.most and not self.game.crossed[0]:
            change = next_change(streams[0].drawn)
            batch = self._draw(streams, self._size(streams[0].drawn, change))
            self._settle(batch, carried)
            if streams[0].drawn == change and not self.game.crossed[0]:
                self._learn(change)
            if progress is not None:
                progress(2 * streams[0].drawn, 2 * self.most)
        unchanged.check()
        self._nones.check()
        return streams[0].drawn

    @property
    def stopped_at(self) -> int | None:
        """The number of pairs after which the claim was refuted; None if it was not."""
        return self.game.first + self.game.best_at if self.game.crossed[0] else None

    @property
    def _steps(self) -> FloatArray:
        """The epsilons to bet against."""
        return ladder(self.claim.epsilon) if self.lower else np.array([self.claim.epsilon])

    def _learn(self, drawn: int) -> None:
        """Learns the laws again, and also the events if there are many more outputs than last time."""
        whole = drawn >= _ON_EVENTS * self._learned_at
        if not isinstance(self.events, FixedEvents):
            before = self.events if isinstance(self.events, LearnedEvents) and not whole else None
            self.events = self._memory.learn(before)
        if whole:
            self.game.change(self.events)
            self._learned_at = drawn
        else:
            self.game.refresh(self.events)

    def _needed(self) -> FloatArray:
        """Returns the log-wealths that refute the claim and each epsilon of the ladder.

        The claim is tested at level (1 - s) alpha. If it is refuted, so are the steps above it, from the lowest up:
        only the lowest true step can cause a false alarm, since no step counts unless all below it are refuted. The
        steps below the claim are tested at s alpha in the same way. A claimed curve implies no step.
        """
        sure = -math.log(self.alpha * (1 - _SHARE_OF_BOUND))
        steps = self._steps
        above = (steps > self.claim.epsilon) & (not self.claim.also)
        return np.concatenate([[sure], np.where(above, sure, -math.log(self.alpha * _SHARE_OF_BOUND))])

    def _size(self, drawn: int, change: int) -> int:
        """Returns the number of outputs to draw next, such that few are drawn after a refutation."""
        return max(1, min(change - drawn, self.most - drawn, max(_FIRST, drawn // 8), _NUMBERS // self._numbers))

    def _draw(self, streams: tuple[Stream, Stream], size: int) -> tuple[Any, Any]:
        """Returns a batch of each data set: tables of outputs, or indicators of given events."""
        outputs = streams[0].draw(size), streams[1].draw(size)
        failed = next((stream.error for stream in streams if stream.error is not None), None)
        if failed is not None:
            raised = streams[0].raised, streams[1].raised
            refuse_raised(raised, streams[0].drawn, failed, vectorised=self.target.vectorised)
        drawn = streams[0].drawn - size
        self._nones.add(0, drawn, (Values.of(outputs[0], size), Values.of(outputs[1], size)))
        vectorised = self.target.vectorised
        if self.given is not None:
            values = self.given.read(outputs[0], size), self.given.read(outputs[1], size)
            flags = [value.dtype == bool for value in values]
            if flags[0] != flags[1] or isinstance(self.events, FixedEvents) != all(flags) and self.events is not None:
                raise TargetError("events returned bools for some outputs and numbers for others")
            if all(flags):
                return values
            outputs, vectorised = values, True
        d0, d1 = (read(output, size, self._memory.book, vectorised=vectorised) for output in outputs)
        self._numbers = max(self._numbers, d0.numbers, d1.numbers)
        if not drawn:
            self._value = OneValue.of((d0, d1)) if self.given is None else None
        elif self._value is not None and any(self._value.count(table, {})[1] for table in (d0, d1)):
            self._value = None
        return d0, d1

    def _settle(self, batch: tuple[Any, Any], carried: Carried) -> None:
        if isinstance(batch[0], Table):
            if self.events is not None:
                self.game.settle(
                    (self.events.happened(batch[0]), self.events.happened(batch[1])),
                    (self.events.places(batch[0]), self.events.places(batch[1])),
                )
            self._memory.keep(batch)
            return
        events = self.events
        if not isinstance(events, FixedEvents):
            assert self.given is not None
            none = np.zeros((len(batch[0]), 2), dtype=np.int64)
            same = carried.counts is not None and carried.counts.shape == none.shape
            counts, trials = (carried.counts, carried.trials) if same else (none, 0)
            events = FixedEvents(self.given.names, counts if counts is not None else none, trials)
            self.game.change(events)
        self.game.settle(batch)
        self.events = events.after(batch)

    def _verdict(self, drawn: int, seconds: float) -> SequentialVerdict:
        game, claim, events = self.game, self.claim, self.events
        assert events is not None
        refuted = bool(game.crossed[0])
        role = game.richest
        epsilon, delta = claim.points[int(game.points[role])]
        detectable = game.detectable(drawn)
        blind = detectable > max(2 * epsilon, epsilon + 0.1)
        event, direction = game.event(role)
        p, q = game.frequencies(role)
        count_p, count_q, trials = game.counts(role)
        repeated = repeats(self.source, self.data[0], self.seed, catch=self.target.catch, timeout=self.timeout)
        constant = self._value is not None
        return SequentialVerdict(
            outcome="refuted" if refuted else "inconclusive" if blind else "consistent",
            epsilon_claimed=claim.epsilon,
            delta=claim.delta,
            alpha=self.alpha,
            log_wealth=game.best,
            log_wealth_end=float(game.log_totals[0]),
            epsilon_lower=self._lower(refuted),
            samples=drawn,
            stopped_at=drawn if self.stopped_at is None else self.stopped_at,
            direction="d0->d1" if direction == 0 else "d1->d0",
            event=game.words(event),
            frequency_p=p,
            frequency_q=q,
            epsilon_tested=epsilon,
            delta_tested=delta,
            detectable_epsilon=detectable,
            seed=self.seed,
            seconds=seconds,
            warnings=tuple(notes_on(self.source, repeats=repeated))
            + (CONSTANT,) * constant
            + (("d0 and d1 are equal: no event can distinguish them",) if equal_data(*self.data) else ()),
            constant=constant,
            count_p=count_p,
            count_q=count_q,
            trials=trials,
            event_exact=game.words(event, exact=True),
            hint=self._hint() if refuted else "",
            data=tuple(map(in_short, self.data)),
        )

    def _hint(self) -> str:
        return noise_hint(self._memory.joined(), tuple(self._memory.book.layouts), self.claim) if self.plain else ""

    def _lower(self, refuted: bool) -> float:
        """Returns the highest step of the ladder up to which all steps were refuted."""
        steps, crossed = self.game.epsilons, self.game.crossed[1:]
        own = slice(None)
        least = 0.0
        if not self.claim.also:
            at = int(np.searchsorted(steps, self.claim.epsilon))
            own, least = (slice(at + 1, None), self.claim.epsilon) if refuted else (slice(0, at), 0.0)
        run = int(np.argmin(np.append(crossed[own], False)))
        return float(steps[own][run - 1]) if run else least
