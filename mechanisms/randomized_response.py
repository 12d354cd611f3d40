"""Randomised response: tell the truth with known odds, else any other category (Warner 1965; k-ary form)."""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, parameters, validate
from hockeystick.mechanisms import arguments
from hockeystick.mechanisms.protocol import SimulationOnly


@frozen
class RandomizedResponse(SimulationOnly):
    """Reports a category: the true one with odds e^epsilon against each single other one.

    One person's answer is randomised, and the cost is that person's. Its sensitivity is none: the answer may change to
    any other, under local adjacency and replace-one alike, and the number of respondents is public.

    Args:
      epsilon: the logarithm of the odds; at 0 the report is pure noise.
      categories: how many there are, numbered from 0.

    Raises:
      InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, or ``categories`` no integer ≥ 2.
    """

    epsilon: float = field(converter=parameters.epsilon)
    categories: int = field(default=2, converter=parameters.categories, kw_only=True)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost of one person's report: ``RandomizedResponse(epsilon, categories)``."""
        return accounting.RandomizedResponse(self.epsilon, self.categories)

    def lie_probability(self) -> float:
        """Returns the probability that the report is not the true category."""
        odds = (self.categories - 1) * math.exp(-self.epsilon)
        return odds / (1.0 + odds)

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        """Returns reports, integers of shape (runs, *value.shape); each entry of ``value`` is a person of their own.

        Raises:
          InvalidArgumentError: an entry is no integer from 0 to categories − 1, ``runs`` is no integer ≥ 1, or ``rng``
            no generator.
        """
        truth = self._numbers("value", value)
        source, shape = arguments.generator(rng), (arguments.run_count(runs), *truth.shape)
        shift = source.integers(1, self.categories, size=shape)  # to each other category with equal probability
        shift *= source.random(shape) < self.lie_probability()
        return np.asarray((truth + shift) % self.categories)

    def worst_case_neighbours(self) -> tuple[int, int]:
        """Returns two answers of one person; any two different ones are equally far apart."""
        return 0, 1

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)) for reports of shape (runs, *value.shape)."""
        v0, v1 = self._numbers("value0", value0), self._numbers("value1", value1)
        told = self._numbers("output", output)
        if v0.shape != v1.shape or told.shape[1:] != v0.shape or told.ndim != v0.ndim + 1:
            raise InvalidArgumentError(
                "output", output, f"has shape {told.shape}", f"expected (runs, *{v0.shape}), and values of one shape"
            )
        for_first = (told == v0).astype(np.int64) - (told == v1)
        return np.asarray(self.epsilon * for_first.reshape(len(told), -1).sum(axis=1))

    def frequencies(self, reports: ArrayLike) -> NDArray[np.float64]:
        """Returns unbiased estimates of the categories' true frequencies from reports of shape (respondents,).

        They add up to 1 but may be negative.

        Raises:
          InvalidArgumentError: there is no report, one is no category, or ``epsilon`` is 0, where reports say nothing.
        """
        told = self._numbers("reports", reports)
        if told.ndim != 1 or not len(told):
            raise InvalidArgumentError("reports", reports, f"has shape {told.shape}", "give one report a respondent")
        lie = self.lie_probability()
        each = lie / (self.categories - 1)
        seen = np.bincount(told, minlength=self.categories) / len(told)
        return np.asarray((seen - each) / self._contrast())

    def accuracy(self, beta: float, *, respondents: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` no estimated frequency is off by more than t (L∞).

        By Hoeffding's inequality over the respondents and a union bound over the categories.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), ``respondents`` no integer ≥ 1, or ``epsilon`` is 0.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("respondents", respondents, low=1)
        return math.sqrt(math.log(2 * self.categories / failure) / (2 * count)) / self._contrast()

    def _contrast(self) -> float:
        """How much more often a category is reported when it is the true one."""
        if self.epsilon == 0.0:
            raise InvalidArgumentError("epsilon", self.epsilon, "makes the reports pure noise", "use a positive one")
        lie = self.lie_probability()
        return 1.0 - lie - lie / (self.categories - 1)

    def _numbers(self, name: str, value: ArrayLike) -> NDArray[np.int64]:
        numbers = validate.array(name, value, low=0, high=self.categories - 1)
        if (numbers != np.floor(numbers)).any():
            raise InvalidArgumentError(
                name, value, "is not made of categories", f"give integers from 0 to {self.categories - 1}"
            )
        return numbers.astype(np.int64)
