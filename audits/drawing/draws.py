"""Drawing the outputs of an audit: samples to choose the event, samples to tune the choice, and samples to bound it.

The seed alone determines the outputs. Every call of a vectorised target, and every few calls of another target, has a
generator of its own. So the counts do not depend on where and in which order the calls are made.
"""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from hockeystick.accounting.arrays import IntArray
from hockeystick.audits.drawing.checkpoint import Checkpoint
from hockeystick.audits.drawing.first_outputs import rows
from hockeystick.audits.drawing.late_nones import LateNones, Values
from hockeystick.audits.drawing.workers import Crew
from hockeystick.audits.outputs.cells import Partition, as_seen
from hockeystick.audits.outputs.one_value import OneValue
from hockeystick.audits.outputs.reading import Codebook, Table, read
from hockeystick.audits.targets.calling import ONE_BY_ONE, Stream, Target, error_text, refuse_raised, vectorised_size
from hockeystick.audits.targets.program_ends import kept_alive
from hockeystick.audits.targets.statistic import Look
from hockeystick.audits.targets.target_features import RATIO

MINIMUM_SAMPLES = 20
"""The smallest number of samples from each data set that an audit accepts."""

DEFAULT_SAMPLES = 1_000_000
"""The default number of samples from each data set; fewer where drawing them would take more than half a minute."""

DEFAULT_SECONDS = 22.0  # for drawing the default number of samples

MOST_SAMPLES = 10**9 - 1
"""The largest number of samples from each data set that a time limit leads to."""

_DRAWING = 0.75  # of a time limit: the rest is for the choice and the bound

_MOST_CHOOSING = 1 << 20  # choosing samples from each data set; all samples beyond these bound the event
_FEW_CHOOSING = 30  # choosing samples from each data set, where a sixth of all is less and a quarter is not
_MOST_NUMBERS = 1 << 22  # in the choosing samples of each data set
_FIRST = 128  # outputs in the first call, which shows how many numbers an output has
_FEW_VALUES = 16
_LOOKED_AT = 1 << 16  # outputs that show how their values are spread
_PILOT_SECONDS = 0.5  # for a piece of a slow target's outputs, before progress is reported
_ROUND = 16  # calls, and blocks of calls, between two decisions on how many outputs to draw
_CHOOSING, _BOUNDING, _TUNING = 0, 1, (2, 3)  # purposes of a stream

Progress = Callable[[int, int], object]
Sides = tuple[Any, Any]


@frozen
class Call:
    """``runs`` outputs from each data set, with a generator of their own.

    Attributes:
      number: of the generator, among those of one purpose.
      start: number of outputs that come before these.
    """

    number: int
    start: int
    runs: int


@frozen(eq=False)
class Drawn:
    """Outputs of some calls, one pair (d0, d1) for each call, or the number of runs that raised and the first error."""

    calls: tuple[Call, ...]
    outputs: tuple[Sides, ...]
    raised: tuple[int, int]
    error: Exception | None
    values: tuple[tuple[Values, Values], ...]


@frozen(eq=False)
class Source:
    """Draws outputs for one purpose."""

    target: Target
    data: Sides
    seed: int
    purpose: int

    def __call__(self, calls: tuple[Call, ...]) -> Drawn:
        outputs, raised, errors, values = [], [0, 0], [], []
        with kept_alive() if self.target.elsewhere is None else nullcontext():  # once, and not for each call
            for call in calls:
                pair = []
                for side in (0, 1):
                    stream = Stream(self.target, self.data[side], self.seed, side, self.purpose, calls=call.number)
                    pair.append(stream.draw(call.runs))
                    raised[side] += stream.raised
                    if stream.error is not None:
                        errors.append(stream.error)
                outputs.append((pair[0], pair[1]))
                values.append((Values.of(pair[0], call.runs), Values.of(pair[1], call.runs)))
        error = portable(errors[0]) if errors else None
        return Drawn(calls, tuple(outputs), (raised[0], raised[1]), error, tuple(values))


@frozen(eq=False)
class Counter:
    """Draws outputs and counts them by cell, without storing them."""

    source: Source
    book: Codebook
    grid: float | None
    partitions: tuple[Partition | OneValue, ...]

    def __call__(self, calls: tuple[Call, ...]) -> tuple[Drawn, list[IntArray]]:
        drawn = self.source(calls)
        counts = [np.zeros((2, partition.cells), dtype=np.int64) for partition in self.partitions]
        views = [partition.view for partition in self.partitions]
        book = self.book.continued() if any(views) else self.book
        if drawn.error is None:
            for runs, pair in self._batches(drawn):
                for side, outputs in enumerate(pair):
                    table = read(outputs, runs, book, vectorised=self.source.target.vectorised)
                    seen = as_seen(views, table, book.layouts, self.grid)
                    for count, partition, batch in zip(counts, self.partitions, seen, strict=True):
                        count[side] += partition.count(*batch)
        return evolve(drawn, outputs=()), counts

    def _batches(self, drawn: Drawn) -> Iterator[tuple[int, Sides]]:
        """Yields numbers of runs with their outputs: those of single calls at once, for reading has a cost a batch."""
        if self.source.target.vectorised:
            yield from ((call.runs, pair) for call, pair in zip(drawn.calls, drawn.outputs, strict=True))
        elif drawn.calls:
            joined = [[one for pair in drawn.outputs for one in pair[side]] for side in (0, 1)]
            yield sum(call.runs for call in drawn.calls), (joined[0], joined[1])


def portable(error: Exception) -> Exception:
    """Returns an error that can be pickled: itself, or else one with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error_text(error)}")
    return error


@define
class Draws:
    """All outputs of one audit.

    Attributes:
      wanted: number of outputs from each data set; None for as many as fit the time.
      seconds: time limit, by which ``wanted`` is reduced; None for the default one, if nothing is wanted.
      total: number of outputs from each data set; 0 until it is known.
      book: the layouts of the choosing samples.
    """

    target: Target
    data: Sides
    seed: int
    wanted: int | None
    pool: Crew
    progress: Progress | None = None
    look: Look | None = None
    checkpoint: Checkpoint | None = None
    seconds: float | None = None
    total: int = field(default=0, init=False)
    book: Codebook = field(factory=Codebook, init=False)
    _numbers: int = field(default=1, init=False)
    _simple: bool = field(default=True, init=False)
    _spread: bool = field(default=True, init=False)
    _chosen: int = field(default=0, init=False)
    _pace: float = field(default=math.inf, init=False)  # seconds for one more output from both data sets
    _cost: float = field(default=math.inf, init=False)  # the same, with reading
    _tables: tuple[list[Table], list[Table]] = field(factory=lambda: ([], []), init=False)
    _next: tuple[int, int] = field(default=(0, 0), init=False)  # choosing samples so far, and calls
    _spent: float = field(default=0.0, init=False)  # seconds for them
    _began: float = field(factory=lambda: time.perf_counter(), init=False)
    _limited: bool = field(default=False, init=False)  # whether the time limit has set ``total``
    _nones: LateNones = field(factory=LateNones, init=False)

    def choosing(self) -> tuple[Table, Table]:
        """Returns the choosing samples, and sets ``total``."""
        if self.checkpoint is not None and self.checkpoint.tables is not None:
            self.total, self.book, self._pace = self.checkpoint.total, self.checkpoint.book, self.checkpoint.pace
            self._simple, self._chosen = self.checkpoint.simple, self.checkpoint.tables[0].runs
            self._numbers = max(table.numbers for table in self.checkpoint.tables)
            return self.checkpoint.tables
        self._choose(None)
        self._nones.check()
        self.book.closed = True
        joined = self._joined()
        self._chosen = joined[0].runs
        if self.checkpoint is not None:
            self.checkpoint.keep_tables(self.total, self.book, self._pace, self._simple, joined)
        return joined

    def first(self, runs: int) -> tuple[Table, Table] | None:
        """Returns the first ``runs`` choosing samples; None if there are fewer, or if a checkpoint has them all."""
        if self.checkpoint is not None and self.checkpoint.tables is not None:
            return None
        self._choose(runs)
        self._nones.check()
        return self._joined() if self._next[0] == runs else None

    @property
    def planned(self) -> int:
        """Number of outputs from each data set; an estimate if it is not known yet."""
        return self.total or self._affordable(self._next[0])

    @property
    def timed(self) -> bool:
        """Whether a time limit reduced the number of outputs."""
        return self.total < (self.wanted or (DEFAULT_SAMPLES if self.seconds is None else MOST_SAMPLES))

    def _joined(self) -> tuple[Table, Table]:
        return Table.join(self._tables[0]), Table.join(self._tables[1])

    def _choose(self, most: int | None) -> None:
        """Draws the choosing samples that are still missing, up to ``most``; sets ``total`` if all are drawn."""
        tables, limited = self._tables, self.wanted is None or self.seconds is not None
        self.total = self.total or self.wanted or 0
        while not self.total or self._next[0] < self.share(self.total):
            drawn, number = self._next
            if most is not None and drawn >= most:
                return
            started = time.perf_counter()
            left = self.share(self.total) - drawn if self.total else DEFAULT_SAMPLES
            left = left if most is None else min(left, most - drawn)
            settled = self.total and drawn and (self._limited or not limited)
            calls = tuple(self._calls(drawn, number, left, _ROUND if settled else 1))
            for found in self._drawn(calls):
                self._note(_CHOOSING, found)
                for call, pair in zip(found.calls, found.outputs, strict=True):
                    for side, outputs in enumerate(pair):
                        table = read(outputs, call.runs, self.book, vectorised=self.target.vectorised)
                        tables[side].append(table)
                        self._numbers = max(self._numbers, table.numbers)
            self._next = drawn, number = calls[-1].start + calls[-1].runs, calls[-1].number + 1
            if self._simple and drawn <= _LOOKED_AT:
                self._note_kind(tables)
            self._cost = max(1e-9, (time.perf_counter() - started) / sum(call.runs for call in calls))
            self._spent += time.perf_counter() - started
            known = self._spent > self._pilot or calls[-1].runs >= self._size(number) > _FIRST
            if limited and not self._limited and known:
                self.total, self._limited = self._affordable(drawn), True
        if limited and not self._limited:
            self.total, self._limited = self._affordable(self._next[0]), True

    @property
    def _pilot(self) -> float:
        """Seconds of drawing that show the pace."""
        return 2 * _PILOT_SECONDS if self.seconds is None else min(2 * _PILOT_SECONDS, self.seconds / 8)

    @property
    def spare(self) -> int:
        """Number of further outputs that the choice of an event may use, but that were too many to store."""
        if self._simple or self.look is not None:
            return 0
        return max(0, min(self.total // 2 - self._chosen, self.total // 4)) // 2 * 2

    def fitting(self, trials: int, grid: float | None, partitions: list[Partition], tables: tuple[Table, Table]) -> int:
        """Returns at most ``trials``: as many bounding samples as fit into the rest of the time limit; sets ``total``.

        The choosing samples show how long it takes to draw, read and count one more output. What they say about the
        claim does not matter, nor does any count of the bounding samples.
        """
        if self.seconds is None:
            return trials
        started, runs = time.perf_counter(), min(tables[0].runs, _LOOKED_AT)
        for table in tables:
            some = rows(table, 0, runs)
            seen = as_seen([one.view for one in partitions], some, self.book.layouts, grid)
            for partition, batch in zip(partitions, seen, strict=True):
                partition.count(*batch)
        now = time.perf_counter()
        left = max(0.0, self.seconds - (now - self._began)) / (self._cost + (now - started) / runs)
        found = min(trials, max(int(left * self.pool.size), self._chosen, MINIMUM_SAMPLES))
        self.total -= trials - found
        return found

    def tuning(self, runs: int, grid: float | None, partitions: list[Partition]) -> list[IntArray]:
        """Returns counts of further outputs, shape (folds, sides, cells), in each partition; stores no output."""
        folds = []
        for fold, purpose in enumerate(_TUNING):
            calls = list(self._calls(0, 0, runs // 2, runs))
            counts = [np.zeros((2, partition.cells), dtype=np.int64) for partition in partitions]
            for _, found in self._counted(purpose, calls, grid, partitions, self._chosen + fold * (runs // 2)):
                for count, more in zip(counts, found, strict=True):
                    count += more
            folds.append(counts)
        return [np.stack(pair) for pair in zip(*folds, strict=True)]

    def bounding(self, trials: int, grid: float | None, partitions: Sequence[Partition | OneValue]) -> list[IntArray]:
        """Returns the counts of the bounding samples, shape (sides, cells), in each partition; stores no output."""
        counts = [np.zeros((2, partition.cells), dtype=np.int64) for partition in partitions]
        calls = list(self._calls(0, 0, trials, trials))
        if self.checkpoint is not None:
            counted, counts = self.checkpoint.counts({call.number: call.runs for call in calls}, counts)
            calls = [call for call in calls if call.number not in counted]
        done = self.total - sum(call.runs for call in calls)
        for job, found in self._counted(_BOUNDING, calls, grid, partitions, done):
            counts = [count + more for count, more in zip(counts, found, strict=True)]  # new arrays: see keep_counts
            if self.checkpoint is not None:
                self.checkpoint.keep_counts([call.number for call in job], counts)
        return counts

    def _counted(
        self, purpose: int, calls: list[Call], grid: float | None, partitions: Sequence[Partition | OneValue], done: int
    ) -> Iterator[tuple[tuple[Call, ...], list[IntArray]]]:
        """Yields groups of calls with the counts of their outputs, in the order in which they finish."""
        counter = Counter(self._source(purpose), self.book, grid, tuple(partitions))
        jobs = self._jobs(calls)
        failures = _Failures(self.target.vectorised, sum(call.runs for call in calls))
        for number, (drawn, found) in self.pool.results(counter, jobs):
            runs = sum(call.runs for call in jobs[number])
            if failures.add(drawn, runs):
                continue
            done += runs
            self._note(purpose, drawn)
            yield jobs[number], found
            self._report(done)
        failures.check()
        self._nones.check()

    def _note(self, purpose: int, drawn: Drawn) -> None:
        for call, values in zip(drawn.calls, drawn.values, strict=True):
            self._nones.add(purpose, call.start, values)

    def _source(self, purpose: int) -> Source:
        return Source(self.target, self.data, self.seed, purpose)

    def _drawn(self, calls: tuple[Call, ...]) -> Iterator[Drawn]:
        """Yields outputs for choosing, in the order of the calls."""
        jobs = self._jobs(list(calls))
        failures = _Failures(self.target.vectorised, self.total // 2 or 100)
        started, runs = time.perf_counter(), sum(call.runs for call in calls)
        found: dict[int, Drawn] = {}
        for number, drawn in self.pool.results(self._source(_CHOOSING), jobs):
            failures.add(drawn, sum(call.runs for call in jobs[number]))
            found[number] = drawn
            self._report(calls[0].start + failures.runs)
        if failures.error is not None:
            self._more_failures(failures, calls[-1])
        failures.check()
        self._pace = max(1e-9, (time.perf_counter() - started) / runs)
        yield from (found[number] for number in sorted(found))

    def _more_failures(self, failures: _Failures, last: Call) -> None:
        """Calls the target for a moment more, so that the error can say how often the target raises."""
        started, start, number = time.perf_counter(), last.start + last.runs, last.number + 1
        while failures.few and time.perf_counter() - started < _PILOT_SECONDS:
            call = Call(number, start, ONE_BY_ONE)
            failures.add(self._source(_CHOOSING)((call,)), ONE_BY_ONE)
            start, number = start + ONE_BY_ONE, number + 1

    def _calls(self, start: int, number: int, left: int, most: int) -> Iterator[Call]:
        """Yields at most ``most`` next calls (blocks of calls if the target is not vectorised)."""
        most *= 1 if self.target.vectorised or not start else _ROUND
        end = start + left
        while start < end and most > 0:
            runs = min(self._size(number), end - start)
            yield Call(number, start, runs)
            start, number, most = start + runs, number + 1, most - 1

    def _size(self, number: int) -> int:
        return vectorised_size(number, self._numbers, self.target.most) if self.target.vectorised else ONE_BY_ONE

    def _jobs(self, calls: list[Call]) -> list[tuple[Call, ...]]:
        """Groups calls into jobs of about half a second, at least two for each worker."""
        runs = sum(call.runs for call in calls)
        most = runs / (2 * self.pool.size) if self.pool.size > 1 else runs
        most = min(most, _PILOT_SECONDS / self._pace if math.isfinite(self._pace) else _FIRST)
        jobs: list[list[Call]] = []
        held = math.inf
        for call in calls:
            if held + call.runs > most:
                jobs.append([])
                held = 0
            jobs[-1].append(call)
            held += call.runs
        return [tuple(job) for job in jobs]

    @property
    def event_given(self) -> bool:
        """Whether the caller's statistic is an event, so that there is hardly anything to choose."""
        return self.look is not None and bool(self.book.layouts and self.book.layouts[0].is_bool)

    def share(self, total: int) -> int:
        """Returns how many of ``total`` outputs choose the event.

        If outputs are single numbers that hardly recur, a model finds half-lines with few of them
        (:mod:`hockeystick.audits.attacks.half_lines`). With a sixth of the samples, an audit of Gaussian noise with
        half of the claimed curve's needs 1.8 times the samples of the best test of one order; with a quarter, 1.9 times
        (benchmarks/auditors/speed.py).
        """
        most = min(_MOST_CHOOSING, max(_MOST_NUMBERS // self._numbers, MINIMUM_SAMPLES // 2))
        if self.look is not None:
            return min(self.look.samples(total, binary=self.event_given), most)
        if not self._simple:
            return min(total // 2, most)
        quarter = total // 4
        return min(max(total // 6, min(quarter, _FEW_CHOOSING)) if self._spread else quarter, most)

    def _note_kind(self, tables: tuple[list[Table], list[Table]]) -> None:
        """Sets ``_spread`` (single numbers that hardly recur) and ``_simple`` (that, few values, or a known ratio)."""
        layouts = self.book.layouts
        one = len(layouts) == 1 and len(layouts[0].kinds) == 1
        values = np.concatenate([table.blocks[0][:, 0] for side in tables for table in side]) if one else np.empty(0)
        distinct = len(np.unique(values))
        self._spread = one and distinct > 0.99 * len(values)
        ratio = len(layouts) == 1 and layouts[0].names(RATIO)
        self._simple = bool(ratio or self._spread or (one and distinct <= _FEW_VALUES))

    def _affordable(self, drawn: int) -> int:
        """Returns as many samples as fit the time limit, rounded down to two digits, and at most those wanted."""
        limit = DEFAULT_SECONDS if self.seconds is None else _DRAWING * self.seconds
        most = self.wanted or (DEFAULT_SAMPLES if self.seconds is None else MOST_SAMPLES)
        fits = int(min(limit * self.pool.size / self._cost, most))
        unit: int = 10 ** max(0, len(str(fits)) - 2)
        fits = fits if fits == most else fits // unit * unit
        return min(max(fits, 2 * drawn, MINIMUM_SAMPLES), max(most, drawn))

    def _report(self, done: int) -> None:
        if self.progress is not None and self.total:
            self.progress(2 * done, 2 * self.total)


@define
class _Failures:
    """Counts of the runs in which a target raised."""

    vectorised: bool
    enough: int
    raised: list[int] = field(factory=lambda: [0, 0])
    runs: int = 0
    error: Exception | None = None

    @property
    def few(self) -> bool:
        return not self.vectorised and self.runs < self.enough

    def add(self, drawn: Drawn, runs: int) -> bool:
        """Adds the failures of some calls; returns whether there are any so far."""
        self.runs += runs
        for side in (0, 1):
            self.raised[side] += drawn.raised[side]
        self.error = self.error or drawn.error
        if self.error is not None and not self.few:
            self.check()
        return self.error is not None

    def check(self) -> None:
        if self.error is not None:
            refuse_raised((self.raised[0], self.raised[1]), self.runs, self.error, vectorised=self.vectorised)
