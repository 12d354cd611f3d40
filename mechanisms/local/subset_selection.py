"""Subset selection: a category reported as one set of d categories, which often holds the true one.

Of all local randomisers whose reports support a fixed number of categories it has the least total variance (Wang, Yang,
Ozgur & Barg 2016; Ye & Barg 2018). With sets of one it is randomised response.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import Factory, field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, InvalidDataError, field_checks, validate
from hockeystick.accounting.arrays import BoolArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.local.randomized_response import (
    CategoryRandomiser,
    bits,
    categories,
    lie_probability,
    truths,
)
from hockeystick.mechanisms.randomness.noise import Noise


def _size(value: int) -> int:
    return validate.integer("size", value, low=1)


def _best_size(mechanism: SubsetSelection) -> int:
    """The size with the least total variance of all counts: one of the two beside k/(1 + e^ε)."""
    k = mechanism.categories
    least = max(1, min(k - 1, math.floor(k / (1.0 + math.exp(min(mechanism.epsilon, 700.0))))))
    return min({least, min(k - 1, least + 1)}, key=lambda size: _total_variance(mechanism.epsilon, k, size))


def _rates(epsilon: float, k: int, d: int) -> tuple[float, float]:
    """The probabilities that a report holds the true category, and another one."""
    p = d / (d + (k - d) * math.exp(-epsilon))
    return p, (p * (d - 1) + (1.0 - p) * d) / (k - 1)


def _total_variance(epsilon: float, k: int, d: int) -> float:
    p, q = _rates(epsilon, k, d)
    return math.inf if p <= q else (p * (1.0 - p) + (k - 1.0) * q * (1.0 - q)) / (p - q) ** 2


@frozen
class SubsetSelection(CategoryRandomiser):
    """Reports a set of d categories: one with the true category with odds e^epsilon against each set without it.

    Its estimated counts have a total variance that is never above that of randomised response, unary encoding, hashing
    or Hadamard response, so it is the best choice where a report may have a bit for each category. All reports hold
    equally many categories, so a forged one can't support more of them than an honest one.

    The cost is that of one person's report: the answer may change to any other, under local adjacency and replace-one
    alike; the number of respondents is public. A release uses coins with a rational probability, rounded such that no
    odds exceed e^epsilon.

    Args:
      epsilon: the logarithm of the odds; at 0 the report is pure noise.
      categories: the number of categories, which are numbered from 0.
      size: d, from 1 to categories − 1; by default that of the least total variance.

    Raises:
      InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, ``categories`` is not an integer ≥ 2, or ``size`` is out
        of range.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import SubsetSelection
      >>> mechanism = SubsetSelection(1.0, categories=10)
      >>> answers = np.repeat([0, 1, 2], [6_000, 3_000, 1_000])
      >>> reports = mechanism.simulate(answers, np.random.default_rng(1), runs=1)[0]
      >>> mechanism.size, mechanism.frequencies(reports)[:4].round(2)
      (3, array([ 0.61,  0.31,  0.09, -0.01]))
    """

    epsilon: float = field(converter=field_checks.epsilon)
    categories: int = field(converter=categories, kw_only=True)
    size: int = field(default=Factory(_best_size, takes_self=True), converter=_size, kw_only=True)

    def __attrs_post_init__(self) -> None:
        validate.integer("size", self.size, low=1, high=self.categories - 1)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost of one person's report: ``SubsetSelection(epsilon, categories, size)``."""
        return accounting.SubsetSelection(self.epsilon, self.categories, self.size)

    def rates(self) -> tuple[float, float]:
        """Returns the probabilities that a report holds the true category, and another one."""
        return _rates(self.epsilon, self.categories, self.size)

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> BoolArray:
        """Returns reports, bools of shape (runs, *value.shape, categories); each entry of ``value`` is one person.

        Raises:
          InvalidArgumentError: an entry is not an integer from 0 to categories − 1, ``runs`` is not an integer ≥ 1, or
            ``rng`` is not a generator.
        """
        truth = truths("value", value, self.categories)
        source, width = arguments.generator(rng), truth.size * self.categories
        count = arguments.run_count(runs, width)
        reported = np.zeros((count, truth.size, self.categories), dtype=np.bool_)
        p, _ = self.rates()
        for rows in arguments.blocks(count, width):
            part = reported[rows]
            keys = source.random(part.shape)
            # The keys of the true category are below all others, or above: the d least keys are the set.
            keys[:, np.arange(truth.size), truth.ravel()] = np.where(source.random(part.shape[:2]) < p, -1.0, 2.0)
            chosen = np.argpartition(keys, self.size - 1, axis=-1)[..., : self.size]
            np.put_along_axis(part, chosen, True, axis=-1)
        return reported.reshape(count, *truth.shape, self.categories)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)) for reports (runs, *value.shape, categories)."""
        v0, v1 = (truths(name, v, self.categories) for name, v in (("value0", value0), ("value1", value1)))
        reported = self._reports("output", output)
        if v0.shape != v1.shape or reported.shape[1:-1] != v0.shape or reported.ndim != v0.ndim + 2:
            raise InvalidDataError(
                "output",
                output,
                f"has shape {reported.shape}",
                f"expected (runs, *{v0.shape}, {self.categories}), and values of one shape",
            )
        runs = len(reported)
        flat, persons = reported.reshape(runs, v0.size, self.categories), np.arange(v0.size)
        for_first = flat[:, persons, v0.ravel()].astype(np.int64) - flat[:, persons, v1.ravel()]
        return np.asarray(self.epsilon * for_first.sum(axis=1))

    def frequencies(self, reports: ArrayLike) -> NDArray[np.float64]:
        """Returns unbiased estimates of the categories' true frequencies from reports (respondents, categories).

        They add up to 1 but may be negative.

        Raises:
          InvalidArgumentError: there is no report, one is not a set of this size, or ``epsilon`` is 0, where reports
            are pure noise.
        """
        reported = self._reports("reports", reports)
        if reported.ndim != 2 or not len(reported):
            raise InvalidDataError("reports", reports, f"has shape {reported.shape}", "give one report a respondent")
        return np.asarray((reported.mean(axis=0) - self.rates()[1]) / self._contrast())

    def variance(self, *, respondents: int, frequency: float = 0.0) -> float:
        """Returns the variance of a category's estimated frequency, given the true one.

        Raises:
          InvalidArgumentError: ``respondents`` is not an integer ≥ 1, ``frequency`` not in [0, 1], or ``epsilon`` is 0.
        """
        count = validate.integer("respondents", respondents, low=1, high=validate.MOST)
        share, (p, q) = validate.probability("frequency", frequency), self.rates()
        return (share * p * (1.0 - p) + (1.0 - share) * q * (1.0 - q)) / count / self._contrast() ** 2

    def accuracy(self, beta: float, *, respondents: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` no estimated frequency is off by more than t (L∞).

        By Hoeffding's inequality over the respondents and a union bound over the categories.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), ``respondents`` is not an integer ≥ 1, or ``epsilon`` is 0.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("respondents", respondents, low=1, high=validate.MOST)
        return math.sqrt(math.log(2 * self.categories / failure) / (2 * count)) / self._contrast()

    def _contrast(self) -> float:
        p, q = self.rates()
        if self.epsilon == 0.0 or not p > q:
            raise InvalidArgumentError("epsilon", self.epsilon, "makes the reports pure noise", "use a larger one")
        return p - q

    def _reports(self, name: str, value: ArrayLike) -> BoolArray:
        reported = bits(name, value)
        if reported.ndim == 0 or reported.shape[-1] != self.categories:
            raise InvalidDataError(name, value, f"has shape {reported.shape}", f"give {self.categories} bits a report")
        if (reported.sum(axis=-1) != self.size).any():
            raise InvalidDataError(name, value, "holds a set of another size", f"give sets of {self.size} categories")
        return reported

    def _draw(self, checked: NDArray[np.int64], noise: Noise) -> BoolArray:
        k, d, truth, persons = self.categories, self.size, checked.ravel(), checked.size
        arguments.array_length("categories", k, persons * k)
        rows = np.arange(persons)
        others = np.zeros((persons, k - 1), dtype=np.bool_)  # the categories but the true one
        for last in range(k - d, k - 1):  # d − 1 of them (Floyd: Bentley & Floyd 1987)
            found = noise.uniform(last + 1, persons)
            taken = others[rows, found]
            others[rows, np.where(taken, last, found)] = True
        lies = np.flatnonzero(noise.coins(lie_probability(self.epsilon, k, d), persons))
        rank = noise.uniform(k - d, len(lies)) + 1  # one more of those that are left
        free = np.cumsum(~others[lies], axis=1)
        others[lies, (free == rank[:, None]).argmax(axis=1)] = True
        reported = np.zeros((persons, k), dtype=np.bool_)
        reported[:, : k - 1] = others
        # Category k − 1 stands where the true one is.
        reported[rows, k - 1] = np.where(truth < k - 1, others[rows, np.minimum(truth, k - 2)], False)
        own = np.ones(persons, dtype=np.bool_)
        own[lies] = False
        reported[rows, truth] = own
        return reported.reshape(*checked.shape, k)
