"""The public :func:`audit`: draw outputs from a target on two neighbouring data sets and try to refute its claim."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, field

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, real

from .attack import Event, choose_event, choose_leak, steepest_ratio
from .bounds import clopper_pearson, detectable_probability, frontier
from .cells import IntArray, Partition, real_blocks
from .claim import Claim
from .outputs import Codebook, Table, read
from .partitions import Evidence
from .sampling import Stream, Target, check_raised
from .verdict import TradeoffPoint, Verdict

MINIMUM_SAMPLES = 20
DEFAULT_SAMPLES = 1_000_000  # from each data set, if the time allows
DEFAULT_SECONDS = 22.0  # for drawing the default number of samples

_OWN_DELTA = 1e-6  # at which a mechanism's own curve is stated

_MOST_CHOOSING = 1 << 20  # outputs from each data set; beyond that, all go into the bound
_MOST_NUMBERS = 1 << 22  # in the outputs for choosing, from each data set
_PILOT_SECONDS = 0.5  # a piece of a slow target's outputs, before progress is reported
_CHOOSING, _BOUNDING = 0, 1  # purposes of a stream

Progress = Callable[[int, int], object]


def audit(
    target: object,
    *,
    claim: Claim | None = None,
    neighbours: tuple[Any, Any] | None = None,
    samples: int | None = None,
    rng: int | np.random.Generator | None = None,
    confidence: float = 0.999,
    bits: bool = False,
    exceptions_as_output: bool = False,
    grid: float | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Tries to refute a claim of differential privacy from samples alone.

    Half of the samples (at most 2^20) choose one event, one direction and, of a curve, one point of the claim; the rest
    bound the event's two probabilities jointly and exactly (:func:`.bounds.frontier`). Since all choices are made
    before the bounding samples are seen, one test is made and the stated confidence covers everything looked at.

    Outputs may be numbers, strings, None, arrays, and tuples, lists, dictionaries and (data) classes of them; see
    :mod:`.outputs`. Floats are read as real numbers: they are rounded to a public grid, see :mod:`.cells`.

    Args:
      target: an object with ``simulate(value, rng, runs)``; or a callable ``f(data, rng)`` that gives one output; or
        ``f(data, rng, runs)`` (a parameter named ``runs``, or three positional parameters without default) that gives
        outputs with the runs on the leading axis. It must take its randomness from ``rng`` for a run to be repeatable.
      claim: what to refute; by default what a mechanism says of itself, the whole curve of ``target.event()``, stated
        at δ = 1e-6.
      neighbours: two data sets that differ as the claim's neighbouring relation allows; that they do is the caller's
        word. By default ``target.worst_case_neighbours()``.
      samples: outputs drawn from *each* data set, for all purposes; at least 20. By default 1,000,000, or as many as a
        measured first piece says can be drawn in about half a minute; ``Verdict.samples`` says how many it were.
      rng: a seed or a generator that gives one; by default a fresh seed. The verdict records it. Outputs on the two
        data sets, and for choosing and bounding, are independent.
      confidence: in (0.5, 1).
      bits: let the bit patterns of floats count too. Otherwise a claim that they refute is a warning in the verdict.
      exceptions_as_output: count the type of an exception as an output, for targets called once per output.
      grid: spacing of the public grid; by default 32 significant bits.
      progress: called as ``progress(done, total)`` with numbers of outputs drawn, of both data sets together.

    Raises:
      InvalidArgumentError: an argument is outside its domain; nothing was drawn.
      TargetError: the target raised in some runs, or its outputs can't be read.
    """
    started = time.perf_counter()
    claim = _own_claim(target) if claim is None else claim
    if not isinstance(claim, Claim):
        raise InvalidArgumentError("claim", claim, "is not a claim", "give Claim(epsilon, delta) or Claim.curve(...)")
    confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    wanted = None if samples is None else integer("samples", samples, low=MINIMUM_SAMPLES)
    spacing = None if grid is None else real("grid", grid, low=0.0, low_open=True)
    seed = _seed(rng)
    called = Target.of(target, catch=exceptions_as_output)
    data = _pair(target, neighbours)

    draws = _Draws(called, data, seed, wanted, progress)
    evidence = Evidence.of(draws.choosing(), tuple(draws.book.layouts), spacing)
    alpha, trials = 1 - confidence, draws.total - evidence.tables[0].runs
    event = choose_event(evidence, claim, alpha=alpha, trials=trials, on_bits=bits)
    plain = choose_event(evidence, claim, alpha=alpha, trials=trials) if event.on_bits else event
    leak = choose_leak(evidence, claim, alpha=alpha, trials=trials)
    del evidence
    looks = {id(look): look for look in (event, plain, leak) if look is not None}
    counted = draws.bounding(trials, spacing, [look.partition for look in looks.values()])
    counts = dict(zip(looks, counted, strict=True))

    x, y = event.counts(counts[id(event)])
    region = frontier(x, trials, y, trials, slope=event.slope, alpha=alpha)
    refuted = [point for point in (event.point, *claim.points) if region.refutes(*point)]
    tested = refuted[0] if refuted else event.point
    leaked = leak is not None and _leaks(leak, counts[id(leak)], plain, counts[id(plain)], claim, trials, alpha)
    reach = detectable_probability(trials, trials, event.q, alpha=alpha, epsilon=tested[0], delta=tested[1])
    detectable = max(0.0, math.log((reach - claim.delta) / event.q)) if reach > claim.delta else 0.0
    blind = detectable > max(2 * claim.epsilon, claim.epsilon + 0.1)
    return Verdict(
        outcome="refuted" if refuted else "inconclusive" if blind else "consistent",
        epsilon_claimed=claim.epsilon,
        delta=claim.delta,
        epsilon_lower=region.epsilon(claim.delta),
        confidence=confidence,
        samples=draws.total,
        timed=wanted is None and draws.total < DEFAULT_SAMPLES,
        direction="d0->d1" if event.direction == 0 else "d1->d0",
        event=str(event),
        count_p=x,
        count_q=y,
        trials=trials,
        epsilon_tested=tested[0],
        delta_tested=tested[1],
        detectable_epsilon=detectable,
        float_leak=leaked,
        bits=bool(bits),
        seed=seed,
        seconds=time.perf_counter() - started,
        warnings=tuple(_warnings(data, leaked and not bits)),
        tradeoff=_tradeoff(event, counts[id(event)], trials, confidence),
    )


def _own_claim(target: object) -> Claim | None:
    event = getattr(target, "event", None)
    return Claim.curve(event(), _OWN_DELTA) if callable(event) else None


def _leaks(
    leak: Event, counts: IntArray, plain: Event, plain_counts: IntArray, claim: Claim, trials: int, alpha: float
) -> bool:
    """Whether bit patterns refute the claim, and more than real numbers show in any cell or by the plain event."""
    x, y = plain.counts(plain_counts)
    beyond = max(claim.epsilon, steepest_ratio(plain), math.log((x + 0.5) / (y + 0.5)))
    x, y = leak.counts(counts)
    if x <= math.exp(beyond) * y + claim.delta * trials:  # the estimate itself does not
        return False
    return frontier(x, trials, y, trials, slope=leak.slope, alpha=alpha).refutes(beyond, claim.delta)


def _tradeoff(event: Event, counts: IntArray, trials: int, confidence: float) -> tuple[TradeoffPoint, ...]:
    sizes = np.union1d(event.cuts, [event.size])
    likely, other = (np.cumsum(counts[side, event.order])[sizes - 1] for side in (event.direction, 1 - event.direction))
    fpr = clopper_pearson(other, trials, confidence=confidence)
    fnr = clopper_pearson(trials - likely, trials, confidence=confidence)
    columns = (other / trials, 1 - likely / trials, *fpr, *fnr)
    return tuple(TradeoffPoint(*map(float, row)) for row in zip(*columns, strict=True))


def _warnings(data: tuple[Any, Any], leaked: bool) -> list[str]:
    found = []
    if _same(*data):
        found.append("d0 and d1 are equal: no event can tell them apart, and the audit says nothing about privacy")
    if leaked:
        found.append(
            "the bit patterns of the outputs refute the claim: floating-point noise leaks; audit with bits=True to let "
            "them count, and release from a sampler that is safe in floating point"
        )
    return found


def _same(d0: Any, d1: Any) -> bool:
    try:
        if isinstance(d0, np.ndarray) or isinstance(d1, np.ndarray):
            return bool(np.array_equal(d0, d1))
        return bool(d0 == d1)
    except Exception:  # data of any type: an equality that can't be decided is none
        return d0 is d1


def _seed(rng: object) -> int:
    if rng is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(1 << 63))
    try:
        return integer("rng", rng, low=0)
    except InvalidArgumentError as error:
        raise InvalidArgumentError("rng", rng, error.reason, "give None, a seed or a numpy Generator") from None


def _pair(target: object, neighbours: Any) -> tuple[Any, Any]:
    if neighbours is None:
        worst = getattr(target, "worst_case_neighbours", None)
        if not callable(worst):
            raise InvalidArgumentError("neighbours", None, "is missing", "give two neighbouring data sets (d0, d1)")
        neighbours = worst()
    if isinstance(neighbours, (str, bytes, dict, set)) or not hasattr(neighbours, "__iter__"):
        raise InvalidArgumentError("neighbours", neighbours, "is no pair", "give two data sets (d0, d1)")
    pair = tuple(neighbours)
    if len(pair) != 2:
        raise InvalidArgumentError("neighbours", neighbours, f"holds {len(pair)} data sets", "give two (d0, d1)")
    return pair


@define
class _Draws:
    """Draws all outputs of an audit: first those that choose the event, then those that bound it.

    Attributes:
      total: outputs from each data set; 0 until it is known.
      book: of the layouts met while choosing.
    """

    target: Target
    data: tuple[Any, Any]
    seed: int
    wanted: int | None
    progress: Progress | None
    total: int = field(default=0, init=False)
    book: Codebook = field(factory=Codebook, init=False)
    _numbers: int = field(default=1, init=False)
    _pace: float = field(default=math.inf, init=False)  # seconds for one more output from both data sets

    def choosing(self) -> tuple[Table, Table]:
        """Returns the choosing samples, and decides how many samples there are."""
        streams = self._streams(_CHOOSING)
        tables: tuple[list[Table], list[Table]] = ([], [])
        self.total = self.wanted or 0
        started = time.perf_counter()
        while not self.total or streams[0].drawn < self._share():
            size = self._piece(streams[0], self._share() - streams[0].drawn if self.total else DEFAULT_SAMPLES)
            for found, table in zip(tables, self._draw(streams, size), strict=True):
                found.append(table)
                self._numbers = max(self._numbers, table.numbers)
            spent = time.perf_counter() - started
            if not self.total and (spent > 2 * _PILOT_SECONDS or size >= streams[0].next_size(self._numbers) > 1):
                self.total = self._affordable(streams[0].drawn)
            self._report(streams[0].drawn)
        self.book.closed = True
        return Table.join(tables[0]), Table.join(tables[1])

    def bounding(self, trials: int, grid: float | None, partitions: list[Partition]) -> list[IntArray]:
        """Returns the counts of the bounding samples, shape (sides, cells), in each partition; keeps no output."""
        layouts = tuple(self.book.layouts)
        counts = [np.zeros((2, partition.cells), dtype=np.int64) for partition in partitions]
        streams = self._streams(_BOUNDING)
        while streams[0].drawn < trials:
            size = self._piece(streams[0], trials - streams[0].drawn)
            for side, table in enumerate(self._draw(streams, size)):
                rounded = real_blocks(table, layouts, grid)
                for count, partition in zip(counts, partitions, strict=True):
                    count[side] += partition.count(table, rounded)
            self._report(self.total - trials + streams[0].drawn)
        return counts

    def _streams(self, purpose: int) -> tuple[Stream, Stream]:
        d0, d1 = self.data
        return Stream(self.target, d0, self.seed, 0, purpose), Stream(self.target, d1, self.seed, 1, purpose)

    def _share(self) -> int:
        """Returns how many outputs choose the event."""
        return min(self.total // 2, _MOST_CHOOSING, max(_MOST_NUMBERS // self._numbers, MINIMUM_SAMPLES // 2))

    def _piece(self, stream: Stream, left: int) -> int:
        """Returns how many outputs to draw next."""
        size = min(stream.next_size(self._numbers), left)
        if not self.target.vectorised:  # pieces do not change what is drawn: report about twice a second
            size = min(size, max(1, int(_PILOT_SECONDS / self._pace) if math.isfinite(self._pace) else 1))
        return size

    def _draw(self, streams: tuple[Stream, Stream], size: int) -> tuple[Table, Table]:
        started = time.perf_counter()
        outputs = streams[0].draw(size), streams[1].draw(size)
        while any(s.raised for s in streams) and self._may_go_on(streams, started):
            for stream in streams:  # it will be refused: see how often it raises
                stream.draw(1)
        check_raised(streams)
        d0, d1 = (read(output, size, self.book, vectorised=self.target.vectorised) for output in outputs)
        self._pace = max(1e-9, (time.perf_counter() - started) / size)
        return d0, d1

    def _may_go_on(self, streams: tuple[Stream, Stream], started: float) -> bool:
        few = not self.target.vectorised and streams[0].drawn < (self.total // 2 or 100)
        return few and time.perf_counter() - started < _PILOT_SECONDS

    def _affordable(self, drawn: int) -> int:
        """Returns how many samples to draw by default: two leading digits of what fits the time."""
        fits = int(min(DEFAULT_SECONDS / self._pace, DEFAULT_SAMPLES))
        unit: int = 10 ** max(0, len(str(fits)) - 2)
        return max(fits // unit * unit, 2 * drawn, MINIMUM_SAMPLES)

    def _report(self, done: int) -> None:
        if self.progress is not None and self.total:
            self.progress(2 * done, 2 * self.total)
