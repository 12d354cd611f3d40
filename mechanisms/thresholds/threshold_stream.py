"""The base class of mechanisms that compare a stream of queries with a noisy threshold and halt.

A stream is released as a whole (``release``) or query by query (``start``), where later queries may depend on earlier
answers. In either case its cost is recorded once, before the threshold's noise is drawn.
"""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick.accounting import HockeystickError, InvalidArgumentError, InvalidDataError, validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, Releasable
from hockeystick.mechanisms.thresholds.comparison_law import ABOVE, BELOW, NOT_ASKED, NoiseKind, log_probability

Number = int | float | Fraction

_FARTHEST = 2**61  # steps of the grid at which queries are clipped, so that sums with noise fit in 64 bits
_MOST_READY = 1024  # draws made at a time
_RUNS = 1 << 15  # simulated at a time, so that their state fits in the cache


class StreamHaltedError(HockeystickError):
    """A stream has halted: its cost covers no further answer, and nothing is drawn.

    See ``ThresholdSession``.
    """


class ThresholdSession:
    """One stream of queries that are asked one at a time; ``start`` opens it and records its whole cost.

    It holds the threshold's noise, which must never be published, so it can't be copied or pickled.

    Example:
      >>> from hockeystick.mechanisms import AboveThreshold, SimulationNoise
      >>> session = AboveThreshold.calibrated(100.0, epsilon=1.0).start(noise=SimulationNoise(1))
      >>> [session.ask(query) for query in (10, 20, 150)], session.halted
      ([False, False, True], True)
    """

    __slots__ = (
        "_ahead",
        "_left",
        "_limit",
        "_noise",
        "_queries",
        "_ready",
        "_scale",
        "_step",
        "_stream",
        "_threshold",
        "_threshold_scale",
    )

    def __init__(self, stream: ThresholdStream, noise: Noise) -> None:
        if not isinstance(stream, ThresholdStream):
            raise InvalidArgumentError("stream", stream, "is not a stream of queries", "use the start of one")
        self._stream, self._noise = stream, check_noise(noise)
        self._step, threshold_scale, self._scale = stream._whole()
        self._threshold, self._threshold_scale = to_steps(stream.threshold, self._step), threshold_scale
        self._limit = self._noisy_threshold()
        self._left, self._queries = stream.answers, stream._most_queries()
        self._ready: list[int] = []
        self._ahead = 1

    @property
    def halted(self) -> bool:
        """Whether no further query may be asked."""
        return self._left == 0 or self._queries == 0

    @property
    def answers_left(self) -> int:
        """The number of queries that may still be reported as above."""
        return self._left

    def ask(self, query: Number) -> Any:
        """Returns whether the query, by its true value, is reported as above the threshold.

        Raises:
          StreamHaltedError: the stream has halted.
          InvalidDataError: the value is not a finite number; nothing is drawn, and the stream goes on.
        """
        if self.halted:
            raise StreamHaltedError(
                f"ask: {self._stream} has given all its answers; start another stream, at the same cost again"
            )
        steps = to_steps(checked_query(query), self._step)
        above = steps + self._next() >= self._limit
        self._left -= above
        self._queries -= 1
        if above and self._stream._redraws():
            self._limit = self._noisy_threshold()
        return above

    def _noisy_threshold(self) -> int:
        return self._threshold + int(self._stream._draws(self._noise, self._threshold_scale, 1)[0])

    def _next(self) -> int:
        if not self._ready:
            # The noise is independent of the queries, so it is drawn ahead, twice as much each time.
            self._ready = self._stream._draws(self._noise, self._scale, self._ahead).tolist()
            self._ahead = min(_MOST_READY, 2 * self._ahead)
        return self._ready.pop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._stream}: {'halted' if self.halted else f'{self._left} answers left'}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} can't be copied or pickled: two copies would share the noise of one threshold"
        )


class ThresholdStream(Releasable):
    """Base of frozen attrs classes with the fields below, whose answers are bits."""

    __slots__ = ()
    threshold: float
    threshold_scale: float
    query_scale: float
    sensitivity: float
    answers: int
    monotone: bool

    @abstractmethod
    def _kind(self) -> NoiseKind:
        """The law of both noises."""

    @abstractmethod
    def _whole(self) -> tuple[float, float, float]:
        """The step of the grid that releases compare on, and the scales, in steps, of both noises there."""

    @abstractmethod
    def _draws(self, noise: Noise, scale: float, count: int) -> NDArray[np.int64]:
        """Whole-number noise of this mechanism's kind."""

    def _most_queries(self) -> int:
        """The largest number of queries; negative for no limit."""
        return -1

    def _redraws(self) -> bool:
        """Whether the threshold's noise is redrawn after each "above"."""
        return False

    def start(
        self,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> ThresholdSession:
        """Returns a session that takes one query at a time, until it halts.

        The cost of the whole stream is recorded here, once. Queries may depend on earlier answers. Arguments and errors
        are those of ``release``.
        """
        source = check_noise(noise)
        return self._charged(lambda: self._open(source), source, ledger, name, reads)

    def _open(self, noise: Noise) -> ThresholdSession:
        return ThresholdSession(self, noise)

    def _checked(self, value: ArrayLike) -> list[Number]:
        self._queries("value", value)
        found: list[Number] = np.asarray(value).tolist()  # integers beyond 2^53 stay what they are
        return found

    def _draw(self, checked: list[Number], noise: Noise) -> Any:
        session, answers = self._open(noise), np.full(len(checked), NOT_ASKED, dtype=np.int8)
        for i, query in enumerate(checked):
            if session.halted:
                break
            answers[i] = session.ask(query)
        return answers

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[Any]:
        """Returns answers of shape (runs, queries) for the true values of the queries, of shape (queries,).

        An entry is 1 for "above", 0 for "below", and −1 after the halt, where the query is not asked; ``release``
        returns one such row.

        Raises:
          InvalidArgumentError: there is no query, a value is not numeric or not finite, ``runs`` is not an integer ≥ 1,
            or ``rng`` is not a generator.
        """
        gaps = (self._queries("value", value) - self.threshold) / self.query_scale
        source, count = arguments.generator(rng), arguments.run_count(runs, len(gaps))
        bits = np.full((len(gaps), count), NOT_ASKED, dtype=np.int8)
        for start in range(0, count, _RUNS):
            self._simulate(gaps, source, bits[:, start : start + _RUNS])
        return bits.T

    def _simulate(self, gaps: FloatArray, rng: np.random.Generator, bits: NDArray[np.int8]) -> None:
        """Fills ``bits``, of shape (queries, runs); all numbers are in units of the queries' noise."""
        kind, ratio = self._kind(), self.threshold_scale / self.query_scale
        runs: Any = slice(None)  # the active runs; some of these have halted: their limit is infinite
        size = bits.shape[1]
        limits, noisy = np.empty(size), np.empty(size)
        kind.draw(rng, limits)
        limits *= ratio
        left, halted = np.full(size, min(self.answers, len(gaps))), np.zeros(size, dtype=np.bool_)
        for line, gap in zip(bits, gaps, strict=True):
            kind.draw(rng, noisy)
            noisy += gap
            above = noisy >= limits
            line[runs] = above.view(np.int8) - halted.view(np.int8)
            hits = np.flatnonzero(above)
            if not hits.size:
                continue
            left[hits] -= 1
            if self._redraws():
                fresh = np.empty(hits.size)
                kind.draw(rng, fresh)
                limits[hits] = ratio * fresh
            done = hits[left[hits] == 0]
            limits[done], halted[done] = math.inf, True
            if 4 * np.count_nonzero(halted) > halted.size:
                keep = ~halted
                runs = np.arange(len(line))[runs][keep]
                if not runs.size:
                    return
                limits, left, halted, noisy = limits[keep], left[keep], halted[keep], noisy[: runs.size]

    def decode(self, output: ArrayLike) -> tuple[int, ...] | None:
        """Returns the bits of one run up to the halt, or None if no query was reported as above.

        Raises:
          InvalidArgumentError: it is not a row of ``simulate``'s output.
        """
        (row,) = self._outputs(np.asarray(output)[np.newaxis], None)
        return tuple(int(bit) for bit in row if bit != NOT_ASKED) if (row == ABOVE).any() else None

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns the values of 4 + ``answers`` queries, all equal to the threshold in the first value.

        In the second the first four rise and the others fall (or stay, if monotone), by the sensitivity, so the most
        informative output is "below" four times and then "above" throughout. Its loss approaches ε only as the number
        of leading queries grows and the output becomes rare; with four, a test can still observe it.
        """
        value = np.full(arguments.array_length("answers", self.answers, 4 + self.answers), self.threshold)
        change = np.full(len(value), 0.0 if self.monotone else -self.sensitivity)
        change[:4] = self.sensitivity
        return value, value + change

    def log_probability(self, output: ArrayLike, value: ArrayLike) -> FloatArray:
        """Returns ln P(output | value), shape (runs,), for outputs of shape (runs, queries) of ``simulate``.

        By quadrature over the threshold's noise, to about 12 digits; the time is proportional to the number of distinct
        outputs, times the number of queries, times their span in units of the smaller scale.

        Raises:
          InvalidDataError: the outputs or the value do not have this form.
          NumericalError: the values of the queries are too far apart for the scales.
        """
        queries = self._queries("value", value)
        rows = self._outputs(output, len(queries))
        return self._log_probability(rows, queries - self.threshold)

    def _log_probability(self, rows: NDArray[np.int8], gaps: FloatArray) -> FloatArray:
        return log_probability(rows, gaps, self._kind(), self.threshold_scale, self.query_scale)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(P(output | value0) / P(output | value1)), shape (runs,), for outputs of shape (runs, queries).

        Raises:
          as for ``log_probability``.
        """
        return self.log_probability(output, value0) - self.log_probability(output, value1)

    def accuracy(self, beta: float, *, queries: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` no answer among ``queries`` is off by more than t.

        That is, each query reported as above is at least threshold − t, and each reported as below at most
        threshold + t (Dwork & Roth 2014, Thm 3.24, with both tails exact). It holds for releases and simulations.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``queries`` is not an integer ≥ 1.
          NumericalError: the scales are too far from each other, or from the sensitivity, for a release.
        """
        failure = validate.probability("beta", beta, open=True) / 2  # half for the thresholds, half for the queries
        count = validate.integer("queries", queries, low=1, high=validate.MOST)
        if not one_of(failure, count) / 2 > 0.0:
            raise InvalidArgumentError("beta", beta, f"is too small for {count} queries", "use a larger one")
        thresholds = min(count, self.answers) if self._redraws() else 1
        kind, (step, threshold_steps, query_steps) = self._kind(), self._whole()
        # On the grid each noise exceeds the same quantile plus a step no more often, and two values are rounded.
        return (
            max(self.threshold_scale, threshold_steps * step) * kind.quantile(one_of(failure, thresholds) / 2)
            + max(self.query_scale, query_steps * step) * kind.quantile(one_of(failure, count) / 2)
            + 4 * step
        )

    def _queries(self, name: str, value: ArrayLike) -> FloatArray:
        queries = validate.array(name, value, ndim=1, data=True)
        if not len(queries):
            raise InvalidDataError(name, value, "has no queries", "give at least one")
        most = self._most_queries()
        if 0 <= most < len(queries):
            raise InvalidDataError(name, value, f"has {len(queries)} queries", f"at most {most} may be asked")
        return queries

    def _outputs(self, output: ArrayLike, queries: int | None) -> NDArray[np.int8]:
        rows = validate.array("output", output, shape=(None, queries), low=NOT_ASKED, high=ABOVE, data=True)
        above = rows == ABOVE
        halted = above.cumsum(axis=1) - above >= self.answers
        if (rows != np.floor(rows)).any() or ((rows == NOT_ASKED) != halted).any():
            raise InvalidDataError(
                "output",
                output,
                "is not an output of this mechanism",
                f"expected {ABOVE} or {BELOW} up to the halt, which is at the {ABOVE} number {self.answers}, "
                f"and {NOT_ASKED} after it",
            )
        return rows.astype(np.int8)


def checked_query(query: object) -> Number:
    """Returns the true value of a query; integers and fractions stay exact.

    Raises:
      InvalidDataError: ``query`` is not a finite number.
    """
    if isinstance(query, numbers.Integral) and not isinstance(query, bool):
        return int(query)
    return query if isinstance(query, Fraction) else validate.real("query", query, data=True)


def to_steps(value: Number, step: float) -> int:
    """Returns the nearest whole number of steps of a grid with step 2^k, in exact arithmetic, clipped to ±2^61.

    Two values at distance d are at most ⌊d/step⌋ + 1 steps apart.
    """
    numerator, denominator = value.as_integer_ratio()
    up, down = step.as_integer_ratio()
    nearest = (2 * numerator * down + denominator * up) // (2 * denominator * up)
    return max(-_FARTHEST, min(_FARTHEST, nearest))


def one_of(failure: float, count: int) -> float:
    """Returns the failure probability of each of ``count`` independent events that together fail with ``failure``."""
    return -math.expm1(math.log1p(-failure) / count)
