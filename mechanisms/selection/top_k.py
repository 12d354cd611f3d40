"""The k candidates with the largest noisy scores, in order: k exponential mechanisms with one draw of Gumbel noise."""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hockeystick import accounting
from hockeystick.accounting import InvalidDataError, validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.numerics.table_rows import distinct_rows
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.selection import common
from hockeystick.mechanisms.selection.common import ExactScores, Selection
from hockeystick.mechanisms.selection.noisy_max import noisy_max_event


def _k(value: int) -> int:
    return validate.integer("k", value, low=1)


@frozen
class TopK(Selection):
    """The top-k mechanism: the ``k`` candidates with the largest scores + Gumbel noise of ``scale``, the largest first.

    It has the law of k exponential mechanisms in sequence, each among the remaining candidates, so it costs as much as
    k of them (Durfee & Rogers 2019, Lemma 4.2). This holds for Gumbel noise only: the order of several maxima with
    Laplace or exponential noise is not a composition of single choices. A release draws the k candidates one after the
    other, each exactly.

    Args:
      scale: the scale of the noise, in the unit of the scores.
      k: the number of candidates to publish.
      sensitivity, monotone: as for ``ExponentialMechanism``.

    Raises:
      InvalidArgumentError: a number is not finite and positive, ``k`` is not an integer ≥ 1, or ``monotone`` is not a
        bool.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import TopK
      >>> mechanism = TopK.calibrated(k=2, epsilon=1.0)
      >>> mechanism.simulate([90, 85, 60, 10], np.random.default_rng(1), runs=3)
      array([[0, 1],
             [0, 1],
             [1, 0]])
      >>> np.exp(mechanism.log_probability([[0, 1]], [90, 85, 60, 10])).round(3)
      array([0.775])
    """

    k: int = field(converter=_k, kw_only=True)

    @classmethod
    def calibrated(
        cls, *, k: int, epsilon: float, delta: float = 0.0, sensitivity: float = 1.0, monotone: bool = False
    ) -> TopK:
        """Returns the mechanism with the least scale that is (``epsilon``, ``delta``)-DP, to 9 digits.

        Raises:
          InvalidArgumentError: ``epsilon`` or ``sensitivity`` is not a finite positive number, ``delta`` not in [0, 1),
            or ``k`` is not an integer ≥ 1.
          NumericalError: no scale can be shown to meet the target.
        """
        target = arguments.target_epsilon(epsilon)
        failure = validate.real("delta", delta, low=0.0, high=1.0, high_open=True)
        distance, count = arguments.sensitivity(sensitivity), _k(k)

        def build(scale: float) -> TopK:
            return cls(scale, k=count, sensitivity=distance, monotone=monotone)

        pure = arguments.quotient_up(count * (distance if arguments.monotone(monotone) else 2 * distance), target)
        step = math.ulp(pure)  # the event's quotients and sums are rounded too, those of many choices by more
        while (found := build(pure)).event().pure_epsilon() > target:
            pure, step = pure + step, 2.0 * step
        if not failure:
            return found
        goal = accounting.EpsilonDelta(target, failure)
        return build(accounting.calibrate(build, goal, guess=pure / math.sqrt(count), high=pure, tolerance=1e-9).value)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``gumbel_top(k, scale / sensitivity)``."""
        one = noisy_max_event(self, "gumbel")
        return accounting.gumbel_top(self.k, one.scale, score_range=one.score_range)

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        """Returns chosen candidates, integers of shape (runs, k), for scores of shape (candidates,).

        Raises:
          InvalidArgumentError: there are fewer than k scores, or one is not finite, ``runs`` is not an integer ≥ 1,
            or ``rng`` is not a generator.
        """
        logits = self._logits("value", value)
        source, count = arguments.generator(rng), arguments.run_count(runs, self.k)
        chosen = np.empty((count, self.k), dtype=np.int64)
        for rows in arguments.blocks(count, len(logits)):
            noise = self._noise(source, (rows.stop - rows.start, len(logits)))
            np.subtract(-logits, noise, out=noise)  # the least of these are chosen
            first = np.argpartition(noise, self.k - 1, axis=1)[:, : self.k]
            order = np.take_along_axis(noise, first, axis=1).argsort(axis=1)
            chosen[rows] = np.take_along_axis(first, order, axis=1)
        return chosen

    def log_probabilities(self, value: ArrayLike) -> FloatArray:
        """Returns ln P(candidate is the first) for scores of shape (candidates,)."""
        logits = self._logits("value", value)
        return np.asarray(logits - special.logsumexp(logits))

    def log_probability(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(output | value), shape (runs,), for outputs of shape (runs, k) of ``simulate``.

        Raises:
          InvalidDataError: the outputs or the scores do not have this form.
        """
        logits = self._logits("value", value)
        rows = common.candidates("output", output, len(logits), shape=(None, self.k))
        if (np.diff(np.sort(rows, axis=1), axis=1) == 0).any():
            raise InvalidDataError("output", output, "names a candidate twice", "give rows of different candidates")
        distinct, where = distinct_rows(rows)
        log_p, every = np.zeros(len(distinct)), np.arange(len(distinct))
        left = np.tile(logits, (len(distinct), 1))
        for column in distinct.T:
            log_p += logits[column] - special.logsumexp(left, axis=1)
            left[every, column] = -np.inf
        return np.asarray(log_p[where])

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)), shape (runs,), for outputs of shape (runs, k).

        Raises:
          as for ``log_probability``.
        """
        return self.log_probability(output, value0) - self.log_probability(output, value1)

    def worst_case_neighbours(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the scores of 2k candidates, all equal in the second value.

        From the first value to the second, the first k rise by the sensitivity and the others fall by it (or stay, if
        monotone).

        Raises:
          InvalidArgumentError: ``k`` is too large for a list of 2k scores.
        """
        arguments.array_length("k", self.k, 2 * self.k)
        gain = self.sensitivity
        first = np.full(2 * self.k, gain if self.monotone else 2 * gain)
        first[: self.k] = 0.0
        return first, np.full(2 * self.k, gain)

    def accuracy(self, beta: float, *, candidates: int) -> float:
        """Returns t such that with probability ≥ 1 − ``beta`` no chosen score is more than t below the k-th best one.

        The bound is attained by the worst scores: k candidates ahead of all others by just more than t. To raise a
        score that is more than t behind, or to lower one that is not, only increases the probability of failure.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``candidates`` is not an integer ≥ k.
        """
        failure, _ = common.failing(beta, candidates)
        others = validate.integer("candidates", candidates, low=self.k) - self.k
        arguments.array_length("k", self.k)
        left = np.arange(1, self.k + 1)  # of the best k

        def another(gap: float) -> float:
            return -math.expm1(-float(np.log1p(others * math.exp(-gap) / left).sum()))

        return self.scale * common.least_gap(another, failure)

    def _logits(self, name: str, value: ArrayLike) -> FloatArray:
        logits = super()._logits(name, value)
        self._check_count(name, value, len(logits))
        return logits

    def _checked(self, value: ArrayLike) -> ExactScores:
        found = super()._checked(value)
        self._check_count("value", value, len(found.numerators))
        return found

    def _check_count(self, name: str, value: ArrayLike, count: int) -> None:
        if count < self.k:
            raise InvalidDataError(name, value, f"has fewer than k={self.k} candidates")

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        return rng.gumbel(size=shape)

    def _draw(self, checked: ExactScores, noise: Noise) -> NDArray[np.int64]:
        names, chosen = list(range(len(checked.numerators))), []
        for _ in range(self.k):
            place = common.softmax_draw(checked.gaps(), noise)
            chosen.append(names.pop(place))
            checked = checked.without(place)
        return np.array(chosen)
