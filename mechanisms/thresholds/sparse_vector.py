"""Sparse vector with the options of its literature: a threshold drawn anew after each answer, and numeric answers."""

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
"""In place of a number: the query was reported as below, or not asked."""


class SparseVectorSession(ThresholdSession):
    """One stream of queries, asked one at a time, with numeric answers where the mechanism gives them."""

    __slots__ = ()
    _stream: SparseVector

    def ask(self, query: Number) -> bool | float | None:
        """Returns whether the query is reported as above; with ``answer_scale`` its noisy value, or None for "below".

        Raises:
          As ``ThresholdSession.ask``.
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
    """Answers which queries of a stream are above a threshold, and how large those are; halts after ``answers``.

    It is ``AboveThreshold`` with two options, alone or together:

    * ``redraw``: the threshold's noise is drawn anew after each "above", as in Dwork & Roth 2014, Alg. 2. It is then
      ``answers`` streams of one answer each, one after another. For one ε, Lyu, Su & Li 2017 find it less accurate than
      one noisy threshold throughout, whose noise need not grow with ``answers``.
    * ``answer_scale``: for each "above" the query's value is published, under Laplace noise of its own. The noisy value
      that was compared must not be: it shows how far up the noisy threshold can lie.

    Where queries are chosen after earlier answers, stream and numbers compose concurrently, which costs no more (Vadhan
    & Zhang 2023).

    Args:
      threshold, threshold_scale, query_scale, sensitivity, answers, monotone: as for ``AboveThreshold``.
      redraw: whether each "above" is followed by fresh noise on the threshold.
      answer_scale: scale of the published values' noise, in the units of the queries; None for bits alone.

    Raises:
      InvalidArgumentError: a number is not finite, not positive where it must be, or an option is not a bool.
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
          epsilon: of the whole stream.
          answer_share: of ``epsilon`` that goes to numeric answers, in (0, 1); None for bits alone.

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

        Bits are those of ``AboveThreshold.simulate``. With ``answer_scale`` an entry is the published number, or −inf
        where there is none: for "below" and after the halt. ``release`` returns one such row.

        Raises:
          InvalidArgumentError: there is no query, a value is not numeric or not finite, ``runs`` is no integer ≥ 1, or
            ``rng`` no generator.
        """
        bits = super().simulate(value, rng, runs)
        if self.answer_scale is None:
            return bits
        run, query = np.nonzero(bits == ABOVE)
        numbers = np.full(bits.shape, NO_NUMBER)
        numbers[run, query] = self._queries("value", value)[query] + rng.laplace(scale=self.answer_scale, size=len(run))
        return numbers

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns values whose most telling output is "below" some times and then "above", for each drawn threshold.

        All are equal to the threshold in the first world; see ``AboveThreshold.worst_case_neighbours``.
        """
        if not self.redraw:
            return super().worst_case_neighbours()
        down = 0.0 if self.monotone else -self.sensitivity
        value = np.full(arguments.array_length("answers", self.answers, 3 * self.answers), self.threshold)
        return value, value + np.tile([self.sensitivity, self.sensitivity, down], self.answers)

    def log_probability(self, output: ArrayLike, value: ArrayLike) -> FloatArray:
        """Returns ln P(output | value), shape (runs,): of the bits, plus the log-density of the numbers.

        Raises:
          As ``AboveThreshold.log_probability``.
        """
        found = super().log_probability(output, value)
        if self.answer_scale is None:
            return found
        told = np.asarray(output) != NO_NUMBER
        off = (np.where(told, output, 0.0) - self._queries("value", value)) / self.answer_scale
        log_densities = LAPLACE.log_density(off) - math.log(self.answer_scale)
        return np.asarray(found + np.where(told, log_densities, 0.0).sum(axis=1))

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
