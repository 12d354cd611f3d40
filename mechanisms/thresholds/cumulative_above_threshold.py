"""Running sums compared with a noisy threshold, window after window, at the cost of one window.

A window ends with the first "above", which resets the sum to 0; the next window has fresh noise throughout. A record
has one term, hence lies in one window, whose beginning is public and whose answers alone depend on the record. Within
the window all sums from the record's term on move together, so the threshold can move with them (see the event of this
name).

Releases add up whole numbers: each *term* is rounded to the grid of ``above_threshold.steps_and_raise``, so the sums
still move together, by at most sensitivity/g + 1 steps; the argument in ``above_threshold`` covers the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, InvalidDataError, field_checks, validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, Releasable
from hockeystick.mechanisms.thresholds import above_threshold
from hockeystick.mechanisms.thresholds.comparison_law import ABOVE, BELOW, LAPLACE, log_probability, windows
from hockeystick.mechanisms.thresholds.threshold_stream import Number, checked_query, one_of, to_steps

_RUNS = 1 << 15  # simulated at a time, so that their state fits in the cache
_LONGEST = 1000  # terms of the worst-case neighbours up to the threshold


class CumulativeSession:
    """One stream of terms that are added one at a time; ``start`` opens it and records its whole cost.

    It holds the threshold's noise, which must never be published, so it can't be copied or pickled. See
    ``CumulativeAboveThreshold`` for an example.
    """

    __slots__ = ("_limit", "_mechanism", "_noise", "_scales", "_step", "_sum")

    def __init__(self, mechanism: CumulativeAboveThreshold, noise: Noise) -> None:
        if not isinstance(mechanism, CumulativeAboveThreshold):
            raise InvalidArgumentError("mechanism", mechanism, "is not a CumulativeAboveThreshold", "use its start")
        self._mechanism, self._noise = mechanism, check_noise(noise)
        self._step, *self._scales = mechanism._whole()
        self._begin()

    def _begin(self) -> None:
        self._sum = 0
        self._limit = to_steps(self._mechanism.threshold, self._step) + self._drawn(self._scales[0])

    def _drawn(self, scale: float) -> int:
        return int(self._noise.laplace(scale, 1)[0])

    def add(self, term: Number) -> bool:
        """Adds the next record's term and returns whether the sum is reported as above, which resets it to 0.

        Raises:
          InvalidArgumentError: the term is not a number in [0, sensitivity]; nothing was drawn or added.
        """
        value, most = checked_query(term), self._mechanism.sensitivity
        if not 0 <= value <= most:
            raise InvalidDataError("term", term, "is out of range", f"expected a number in [0, {most:g}]")
        self._sum += to_steps(value, self._step)
        above = self._sum + self._drawn(self._scales[1]) >= self._limit
        if above:
            self._begin()
        return above

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a CumulativeSession can't be copied or pickled: two would share the noise of one threshold")


@frozen
class CumulativeAboveThreshold(Releasable):
    """Adds up a stream of terms and reports, after each, whether the sum since the last "above" is above a threshold.

    It is ε-DP with ε = max(sensitivity/threshold_scale, sensitivity/query_scale) for the whole stream, for any length
    and any number of "above"; ``AboveThreshold`` pays for each "above", with a factor of 2.

    Args:
      threshold: the public number that the sums are compared with.
      threshold_scale: the scale of the threshold's Laplace noise, redrawn for each window, in the units of the terms.
      query_scale: the scale of each sum's Laplace noise, in the same units.
      sensitivity: the largest possible term; the smallest is 0. Each record has one term, at a public position in the
        stream; the term of an absent record is 0.

    Raises:
      InvalidArgumentError: a number is not finite, or not positive where it must be.

    Example:
      >>> from hockeystick.mechanisms import CumulativeAboveThreshold, SimulationNoise
      >>> mechanism = CumulativeAboveThreshold.calibrated(50.0, epsilon=1.0)
      >>> session = mechanism.start(noise=SimulationNoise(1))
      >>> reports = [session.add(1.0) for _ in range(150)]  # one record after the other
      >>> [place for place, above in enumerate(reports) if above]
      [49, 99, 149]
    """

    threshold: float = field(converter=above_threshold.threshold)
    threshold_scale: float = field(converter=field_checks.threshold_scale, kw_only=True)
    query_scale: float = field(converter=field_checks.query_scale, kw_only=True)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses scales per unit of sensitivity that no event can hold

    @classmethod
    def calibrated(cls, threshold: float, *, epsilon: float, sensitivity: float = 1.0) -> CumulativeAboveThreshold:
        """Returns the mechanism with the least noise that is ``epsilon``-DP.

        Raises:
          InvalidArgumentError: an argument is out of its domain.
        """
        target = arguments.target_epsilon(epsilon)
        distance = arguments.sensitivity(sensitivity)
        scale = arguments.quotient_up(distance, target)
        arguments.check_reach(target, scale, distance)
        found = cls(threshold, threshold_scale=scale, query_scale=scale, sensitivity=distance)
        while found.event().pure_epsilon() > target:  # its quotients are rounded too
            scale = float(np.nextafter(scale, np.inf))
            found = cls(threshold, threshold_scale=scale, query_scale=scale, sensitivity=distance)
        return found

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``CumulativeAboveThreshold`` with both scales per unit of sensitivity."""
        return accounting.CumulativeAboveThreshold(
            arguments.quotient_down(self.threshold_scale, self.sensitivity),
            arguments.quotient_down(self.query_scale, self.sensitivity),
        )

    def start(
        self,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> CumulativeSession:
        """Returns a session to which terms are added one at a time; the whole cost is recorded here, once.

        Arguments and errors are those of ``release``.
        """
        source = check_noise(noise)
        return self._charged(lambda: CumulativeSession(self, source), source, ledger, name, reads)

    def _checked(self, value: ArrayLike) -> list[Number]:
        self._terms("value", value)
        found: list[Number] = np.asarray(value).tolist()
        return found

    def _draw(self, checked: list[Number], noise: Noise) -> NDArray[np.int8]:
        session = CumulativeSession(self, noise)
        return np.array([session.add(term) for term in checked], dtype=np.int8)

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.int8]:
        """Returns answers of shape (runs, terms) for terms of shape (terms,): 1 for "above", 0 for "below".

        Raises:
          InvalidArgumentError: there is no term, one is not in [0, sensitivity], ``runs`` is not an integer ≥ 1, or
            ``rng`` is not a generator.
        """
        terms = self._terms("value", value)
        source, count = arguments.generator(rng), arguments.run_count(runs, len(terms))
        bits = np.empty((len(terms), count), dtype=np.int8)
        for start in range(0, count, _RUNS):
            self._simulate(terms, source, bits[:, start : start + _RUNS])
        return bits.T

    def _simulate(self, terms: FloatArray, rng: np.random.Generator, bits: NDArray[np.int8]) -> None:
        def limits(size: int) -> FloatArray:
            """In units of the sums' noise."""
            drawn = np.empty(size)
            LAPLACE.draw(rng, drawn)
            return (self.threshold + self.threshold_scale * drawn) / self.query_scale

        limit, sums, noisy = limits(bits.shape[1]), np.zeros(bits.shape[1]), np.empty(bits.shape[1])
        for line, term in zip(bits, terms / self.query_scale, strict=True):
            sums += term
            LAPLACE.draw(rng, noisy)
            noisy += sums
            above = noisy >= limit
            line[:] = above
            hits = np.flatnonzero(above)
            sums[hits] = 0.0
            limit[hits] = limits(hits.size)

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns terms that add up to the threshold, then one that is 0 or ``sensitivity``, then four zeros."""
        full = round(min(max(0.0, self.threshold / self.sensitivity), _LONGEST))
        first = np.array([self.sensitivity] * full + [0.0] * 5)
        second = first.copy()
        second[full] = self.sensitivity
        return first, second

    def log_probability(self, output: ArrayLike, value: ArrayLike) -> FloatArray:
        """Returns ln P(output | value), shape (runs,), for outputs of shape (runs, terms); see ``AboveThreshold``.

        Raises:
          InvalidDataError: the outputs or the value do not have this form.
          NumericalError: the sums are too far apart for the scales.
        """
        terms = self._terms("value", value)
        rows = validate.array("output", output, shape=(None, len(terms)), low=BELOW, high=ABOVE, data=True)
        if (rows != np.floor(rows)).any():
            raise InvalidDataError("output", output, "is not an output of this mechanism", "expected bits")
        total = np.zeros(len(rows))
        for first, runs, pieces in windows(rows.astype(np.int8)):
            gaps = np.cumsum(terms[first:]) - self.threshold
            total[runs] += log_probability(pieces, gaps, LAPLACE, self.threshold_scale, self.query_scale)
        return total

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(P(output | value0) / P(output | value1)), shape (runs,), for outputs of shape (runs, terms).

        Raises:
          as for ``log_probability``.
        """
        return self.log_probability(output, value0) - self.log_probability(output, value1)

    def accuracy(self, beta: float, *, terms: int) -> float:
        """Returns a t such that with probability at least 1 − ``beta`` no answer among ``terms`` is off by more than t.

        That is, each sum reported as above is at least threshold − t, and each reported as below at most threshold + t.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``terms`` is not an integer ≥ 1.
        """
        count = validate.integer("terms", terms, low=1, high=validate.MOST)
        step, *scales = self._whole()
        failure = one_of(validate.probability("beta", beta, open=True) / 2, count)
        if not failure / 2 > 0.0:
            raise InvalidArgumentError("beta", beta, f"is too small for {count} terms", "use a larger one")
        real = max(self.threshold_scale, scales[0] * step) + max(self.query_scale, scales[1] * step)
        # On the grid each noise exceeds the same quantile plus a step no more often; the roundings of all terms add up.
        return real * LAPLACE.quantile(failure / 2) + (4 + count) * step

    def _whole(self) -> tuple[float, float, float]:
        fall, rise = self.sensitivity / self.threshold_scale, self.sensitivity / self.query_scale
        step, factor = above_threshold.steps_and_raise(
            fall, rise, self.sensitivity, self.threshold_scale, self.query_scale
        )
        return step, self.threshold_scale / step * factor, self.query_scale / step * factor

    def _terms(self, name: str, value: ArrayLike) -> FloatArray:
        terms = validate.array(name, value, ndim=1, low=0.0, high=self.sensitivity, data=True)
        if not len(terms):
            raise InvalidDataError(name, value, "has no terms", "give at least one")
        return terms
