"""The sparse vector technique with options from the literature: a redrawn threshold and numeric answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import boolean
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.thresholds.above_threshold import AboveThreshold, LaplaceThreshold
from hockeystick.mechanisms.thresholds.comparison_law import ABOVE, BELOW, LAPLACE, NOT_ASKED, windows
from hockeystick.mechanisms.thresholds.threshold_stream import (
    Number,
    ThresholdSession,
    checked_query,
    to_steps,
)


def _answer_scale(value: float | None) -> float | None:
    return None if value is None else validate.real("answer_scale", value, low=field_checks.SMALLEST)


def _redraw(value: bool) -> bool:
    return boolean("redraw", value)


NO_NUMBER = -math.inf
"""The entry for a query that was reported as below, or not asked."""


class SparseVectorSession(ThresholdSession):
    """One stream of queries that are asked one at a time, with numeric answers if the mechanism has them.

    See ``SparseVector`` for an example.
    """

    __slots__ = ()
    _stream: SparseVector

    def ask(self, query: Number) -> bool | float | None:
        """Returns whether the query is reported as above; with ``answer_scale`` its noisy value, or None for "below".

        Raises:
          as for ``ThresholdSession.ask``.
        """
        value = checked_query(query)
        above = bool(super().ask(value))
        scale = self._stream.answer_scale
        if scale is None:
            return above
        if not above:
            return None
        sensitivity = self._stream.sensitivity
        step = noise_on_a_grid.laplace_grid(scale, sensitivity, 1)
        drawn = int(self._noise.laplace(noise_on_a_grid.laplace_scale(scale, sensitivity, step, 1), 1)[0])
        return float(to_steps(value, step) + drawn) * step


@frozen
class SparseVector(LaplaceThreshold):
    """Reports which queries of a stream are above a threshold, and optionally their values; halts after ``answers``.

    It is ``AboveThreshold`` with two options, alone or together:

    * ``redraw``: the threshold's noise is redrawn after each "above", as in Dwork & Roth 2014, Alg. 2. The mechanism is
      then a sequence of ``answers`` streams of one answer each. For the same ε, Lyu, Su & Li 2017 find it less accurate
      than one noisy threshold throughout, whose noise need not grow with ``answers``.
    * ``answer_scale``: for each "above" the value of the query is published with fresh Laplace noise. The noisy value
      of the comparison must not be published, because it is an upper bound on the noisy threshold.

    If queries depend on earlier answers, bits and numbers compose concurrently, at no extra cost (Vadhan & Zhang 2023).

    Args:
      threshold, threshold_scale, query_scale, sensitivity, answers, monotone: as for ``AboveThreshold``.
      redraw: whether the threshold's noise is redrawn after each "above".
      answer_scale: the scale of the noise on published values, in the units of the queries; None for bits only.

    Raises:
      InvalidArgumentError: a number is not finite, not positive where it must be, or an option is not a bool.

    Example:
      >>> from hockeystick.mechanisms import SimulationNoise, SparseVector
      >>> mechanism = SparseVector.calibrated(100.0, epsilon=2.0, answers=2, answer_share=0.5)
      >>> session = mechanism.start(noise=SimulationNoise(1))
      >>> session.ask(10), round(session.ask(130), 1), session.answers_left
      (None, 128.5, 1)
    """

    redraw: bool = field(default=False, converter=_redraw, kw_only=True)
    answer_scale: float | None = field(default=None, converter=_answer_scale, kw_only=True)

    @classmethod
    def calibrated(
        cls,
        threshold: float,
        *,
        epsilon: float,
        sensitivity: float = 1.0,
        answers: int = 1,
        monotone: bool = False,
        redraw: bool = False,
        answer_share: float | None = None,
    ) -> SparseVector:
        """Returns an ``epsilon``-DP mechanism whose comparisons have the least variance for their share of ε.

        Args:
          threshold, sensitivity, answers, monotone, redraw: see the class.
          epsilon: the cost of the whole stream.
          answer_share: the share of ``epsilon`` for numeric answers, in (0, 1); None for bits only.

        Raises:
          InvalidArgumentError: an argument is out of its domain.
        """
        target = arguments.target_epsilon(epsilon)
        share = 0.0 if answer_share is None else validate.probability("answer_share", answer_share, open=True)
        count, distance = field_checks.answers(answers), arguments.sensitivity(sensitivity)
        spend = target * (1.0 - share)
        while True:
            bits = AboveThreshold.calibrated(
                threshold,
                epsilon=spend / count if _redraw(redraw) else spend,
                sensitivity=distance,
                answers=1 if redraw else count,
                monotone=monotone,
            )
            found = cls(
                threshold,
                threshold_scale=bits.threshold_scale,
                query_scale=bits.query_scale,
                sensitivity=distance,
                answers=count,
                monotone=monotone,
                redraw=redraw,
                answer_scale=None if answer_share is None else arguments.quotient_up(count * distance, target * share),
            )
            if found.event().pure_epsilon() <= target:
                return found
            spend = math.nextafter(spend, 0.0)  # the parts' sum was rounded up

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``accounting.sparse_vector`` with all scales per unit of sensitivity."""
        answer = self.answer_scale
        return accounting.sparse_vector(
            arguments.quotient_down(self.threshold_scale, self.sensitivity),
            arguments.quotient_down(self.query_scale, self.sensitivity),
            answers=self.answers,
            monotone=self.monotone,
            redraw=self.redraw,
            answer_scale=None if answer is None else arguments.quotient_down(answer, self.sensitivity),
        )

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[Any]:
        """Returns answers of shape (runs, queries) for the true values of the queries, of shape (queries,).

        Bits are as in ``AboveThreshold.simulate``. With ``answer_scale`` an entry is the published number, or −inf for
        "below" and after the halt. ``release`` returns one such row.

        Raises:
          InvalidArgumentError: there is no query, a value is not numeric or not finite, ``runs`` is not an integer ≥ 1,
            or ``rng`` is not a generator.
        """
        bits = super().simulate(value, rng, runs)
        if self.answer_scale is None:
            return bits
        run, query = np.nonzero(bits == ABOVE)
        numbers = np.full(bits.shape, NO_NUMBER)
        numbers[run, query] = self._queries("value", value)[query] + rng.laplace(scale=self.answer_scale, size=len(run))
        return numbers

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns values whose most informative output is "below" a few times, then "above", for each drawn threshold.

        All are equal to the threshold in the first value; see ``AboveThreshold.worst_case_neighbours``.
        """
        if not self.redraw:
            return super().worst_case_neighbours()
        down = 0.0 if self.monotone else -self.sensitivity
        value = np.full(arguments.array_length("answers", self.answers, 3 * self.answers), self.threshold)
        return value, value + np.tile([self.sensitivity, self.sensitivity, down], self.answers)

    def log_probability(self, output: ArrayLike, value: ArrayLike) -> FloatArray:
        """Returns ln P(output | value), shape (runs,): of the bits, plus the log-density of the numbers.

        Raises:
          as for ``AboveThreshold.log_probability``.
        """
        found = super().log_probability(output, value)
        if self.answer_scale is None:
            return found
        answered = np.asarray(output) != NO_NUMBER
        off = (np.where(answered, output, 0.0) - self._queries("value", value)) / self.answer_scale
        log_densities = LAPLACE.log_density(off) - math.log(self.answer_scale)
        return np.asarray(found + np.where(answered, log_densities, 0.0).sum(axis=1))

    def _log_probability(self, rows: NDArray[np.int8], gaps: FloatArray) -> FloatArray:
        if not self.redraw:
            return super()._log_probability(rows, gaps)
        total = np.zeros(len(rows))
        for first, runs, pieces in windows(rows):
            total[runs] += super()._log_probability(pieces, gaps[first:])
        return total

    def _outputs(self, output: ArrayLike, queries: int | None) -> NDArray[np.int8]:
        if self.answer_scale is None:
            return super()._outputs(output, queries)
        given = np.asarray(output)
        missing = given == NO_NUMBER if given.dtype.kind == "f" else np.zeros(given.shape, dtype=np.bool_)
        numbers = np.where(missing, 0.0, given) if missing.any() else given
        validate.array("output", numbers, shape=(None, queries), data=True)
        above = ~missing
        halted = above.cumsum(axis=1) - above >= self.answers
        return super()._outputs(np.where(above, ABOVE, np.where(halted, NOT_ASKED, BELOW)), queries)

    def _redraws(self) -> bool:
        return self.redraw

    def _open(self, noise: Noise) -> SparseVectorSession:
        return SparseVectorSession(self, noise)

    def _draw(self, checked: list[Any], noise: Noise) -> Any:
        if self.answer_scale is None:
            return super()._draw(checked, noise)
        session, numbers = self._open(noise), np.full(len(checked), NO_NUMBER)
        for i, query in enumerate(checked):
            if session.halted:
                break
            number = session.ask(query)
            numbers[i] = NO_NUMBER if number is None else number
        return numbers
