"""The one-bit channel: a bounded number, such as a clipped log-likelihood, reported as a single noisy bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, InvalidDataError, field_checks, validate
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.local.randomized_response import bits, lie_probability
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import Releasable

_DIGITS = 53


def _low(value: float) -> float:
    return validate.real("low", value)


def _high(value: float) -> float:
    return validate.real("high", value)


@frozen
class OneBitChannel(Releasable):
    """Reports True with a probability that rises linearly from 1/(1 + e^ε) at ``low`` to e^ε/(1 + e^ε) at ``high``.

    The number is rounded at random to one end of its range, True for ``high``, and this bit is reported by randomised
    response. So for any number, and any rounding of its position in the range, the odds of the two reports are at most
    e^ε, and the cost is that of randomised response. ``decode`` returns unbiased estimates of the numbers.

    The cost is that of one person's report: the number may change to any other, under local adjacency and replace-one
    alike. Numbers beyond the range are clipped to it. Neither the range nor the choice of the number that is reported,
    for instance one of many experts' log-likelihoods, may depend on the person's data. A person who reports several
    times pays for each report.

    Args:
      epsilon: the logarithm of the odds at the ends of the range; at 0 the report is pure noise.
      low, high: the ends of the range, low < high.

    Raises:
      InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, or the range is not finite or empty.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import OneBitChannel
      >>> channel = OneBitChannel(1.0, low=0.0, high=10.0)
      >>> reports = channel.simulate(np.full(10_000, 7.0), np.random.default_rng(1), runs=1)
      >>> round(float(channel.decode(reports).mean()), 1), round(channel.accuracy(0.05, respondents=10_000), 2)
      (6.9, 0.29)
    """

    epsilon: float = field(converter=field_checks.epsilon)
    low: float = field(converter=_low, kw_only=True)
    high: float = field(converter=_high, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not 0.0 < self.high - self.low < math.inf:
            raise InvalidArgumentError(
                "high", self.high, f"does not form a range with low={self.low!r}", "give low < high"
            )

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost of one person's report: ``RandomizedResponse(epsilon)``; the ends of the range attain it."""
        return accounting.RandomizedResponse(self.epsilon)

    def reach(self) -> float:
        """Returns the distance of a decoded report from the middle of the range, ½(high − low)·coth(ε/2).

        Raises:
          InvalidArgumentError: ``epsilon`` is 0, where reports are pure noise, or so small that the result overflows.
        """
        contrast = math.tanh(self.epsilon / 2)
        found = (self.high - self.low) / 2 / contrast if contrast else math.inf
        if math.isinf(found):
            raise InvalidArgumentError("epsilon", self.epsilon, "makes the reports pure noise", "use a larger one")
        return found

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.bool_]:
        """Returns reports, bools of shape (runs, *value.shape); each entry of ``value`` is one person.

        Raises:
          InvalidArgumentError: the value is not numeric or not finite, ``runs`` is not an integer ≥ 1, or ``rng`` is
            not a generator.
        """
        probability = self._probability("value", value)
        source, count = arguments.generator(rng), arguments.run_count(runs, probability.size)
        reported = np.empty((count, probability.size), dtype=np.bool_)
        for rows in arguments.blocks(count, probability.size):
            np.less(source.random(reported[rows].shape), probability.ravel(), out=reported[rows])
        return reported.reshape(count, *probability.shape)

    def worst_case_neighbours(self) -> tuple[float, float]:
        """Returns the ends of the range."""
        return self.low, self.high

    def group_neighbours(self, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns two values for ``size`` persons who all change their number."""
        count = arguments.group_size(size)
        return np.full(count, self.low), np.full(count, self.high)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)) for reports of shape (runs, *value.shape)."""
        share0, share1 = self._share("value0", value0), self._share("value1", value1)
        if share0.shape != share1.shape:
            raise InvalidDataError("value1", value1, f"has shape {share1.shape}", f"value0 has {share0.shape}")
        reported = bits("output", output)
        if reported.ndim != share0.ndim + 1 or reported.shape[1:] != share0.shape:
            raise InvalidDataError("output", output, f"has shape {reported.shape}", f"expected (runs, *{share0.shape})")
        loss = np.where(reported, self._log(share0) - self._log(share1), self._log(1 - share0) - self._log(1 - share1))
        return np.asarray(loss.reshape(len(reported), -1).sum(axis=1))

    def decode(self, reports: ArrayLike) -> NDArray[np.float64]:
        """Returns unbiased estimates of the numbers (clipped to the range) from reports of any shape.

        A report decodes to the middle of the range plus or minus ``reach()``. Its variance is reach² minus the squared
        distance of the number from the middle.

        Raises:
          InvalidArgumentError: a report is not a bit, or ``epsilon`` is 0, where reports are pure noise.
        """
        reported, reach = bits("reports", reports), self.reach()
        return np.asarray(self._middle() + np.where(reported, reach, -reach))

    def variance(self, *, respondents: int = 1, mean: float | None = None) -> float:
        """Returns the largest variance of the mean of ``respondents`` decoded reports, given the mean of the numbers.

        It is attained where all numbers agree. By default ``mean`` is the middle of the range, the worst case.

        Raises:
          InvalidArgumentError: ``respondents`` is not an integer ≥ 1, ``mean`` is outside the range, or ``epsilon`` is
            0.
        """
        count = validate.integer("respondents", respondents, low=1, high=validate.MOST)
        centre = self._middle()
        at = centre if mean is None else validate.real("mean", mean, low=self.low, high=self.high)
        reach = self.reach()
        return (reach - (at - centre)) * (reach + (at - centre)) / count

    def accuracy(self, beta: float, *, respondents: int = 1) -> float:
        """Returns a t such that with probability at least 1 − ``beta`` the mean of decoded reports is off by at most t.

        By Hoeffding's inequality over the respondents.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), ``respondents`` is not an integer ≥ 1, or ``epsilon`` is 0.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("respondents", respondents, low=1, high=validate.MOST)
        return self.reach() * math.sqrt(2 * math.log(2 / failure) / count)

    def _middle(self) -> float:
        return self.low / 2 + self.high / 2

    def _share(self, name: str, value: ArrayLike) -> NDArray[np.float64]:
        """The positions of the numbers in the range: 0 at ``low``, 1 at ``high``, in multiples of 2^-53."""
        clipped = np.clip(validate.array(name, value, data=True), self.low, self.high)
        with np.errstate(under="ignore"):
            share = (clipped - self.low) / (self.high - self.low)  # at most 1: both differences are rounded alike
        return np.asarray(np.rint(share * 2.0**_DIGITS) * 2.0**-_DIGITS)

    def _probability(self, name: str, value: ArrayLike) -> NDArray[np.float64]:
        share = self._share(name, value)
        odds = math.exp(-self.epsilon)
        return np.asarray((share + (1.0 - share) * odds) / (1.0 + odds))

    def _log(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """The log-probability of the bit of one end, up to a constant: 0 at this end, −ε at the other."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log(share), np.log(1.0 - share) - self.epsilon))

    def _checked(self, value: ArrayLike) -> NDArray[np.float64]:
        return self._share("value", value)

    def _draw(self, checked: NDArray[np.float64], noise: Noise) -> Any:
        # A uniform number of 53 binary digits lies below the share with exactly that probability.
        upper = noise.uniform(2**_DIGITS, checked.size) < (checked.ravel() * 2.0**_DIGITS).astype(np.int64)
        reported = (upper ^ noise.coins(lie_probability(self.epsilon, 2), checked.size)).reshape(checked.shape)
        return reported if checked.ndim else bool(reported)
