"""Randomised response: the true category with known odds, otherwise any other one."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, InvalidDataError, field_checks, validate
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import Releasable

_MOST_CATEGORIES = 2**53  # so that every category is exact as a float
_LIE_BITS = 192


def categories(value: int) -> int:
    """Returns the parameter ``categories``, an integer from 2 to 2^53."""
    return validate.integer("categories", field_checks.categories(value), high=_MOST_CATEGORIES)


def truths(name: str, value: ArrayLike, count: int) -> NDArray[np.int64]:
    """Returns categories, integers from 0 to count − 1, in an array of any shape.

    Raises:
      InvalidDataError: an entry is not such an integer.
    """
    numbers = validate.array(name, value, low=0, high=count - 1, data=True)
    if (numbers != np.floor(numbers)).any():
        raise InvalidDataError(
            name, value, "holds an entry that is not a category", f"give integers from 0 to {count - 1}"
        )
    return numbers.astype(np.int64)


def bits(name: str, value: ArrayLike) -> NDArray[np.bool_]:
    """Returns bits, given as bools or as the numbers 0 and 1, in an array of any shape.

    Raises:
      InvalidDataError: an entry is not a bit.
    """
    raw = validate.as_array(name, value, data=True)
    if raw.dtype == np.bool_:
        return raw
    numbers = validate.array(name, value, low=0, high=1, data=True)
    if (numbers != np.floor(numbers)).any():
        raise InvalidDataError(name, value, "holds an entry that is not a bit", "give True or False, 1 or 0")
    return numbers.astype(np.bool_)


def lie_probability(epsilon: float, categories: int, size: int = 1) -> Fraction:
    """Returns the probability of a report without the true category: a rational number, rounded up.

    A report is a set of ``size`` categories. So the odds of each set with the truth against each without are at most
    e^epsilon. They are at least 1, because the probability is capped at (categories − size)/categories, where reports
    are uniform. Rounding adds less than 2^-191.
    """
    others, exact = Fraction(categories - size, size), decimal.Context(prec=80, Emin=-(10**9), traps=[])
    # Beyond 1000 the lie is below 2^-192 all the same, and its exact fraction takes as many digits as ε is large.
    rounded = Fraction(exact.exp(Decimal(-min(epsilon, 1000.0))))
    odds = rounded * (1 + Fraction(1, 10**70))  # the last digit may be rounded down
    lie = others * odds / (1 + others * odds)
    return min(Fraction(categories - size, categories), Fraction(math.floor(lie * 2**_LIE_BITS) + 1, 2**_LIE_BITS))


def lies(noise: Noise, probability: Fraction, categories: int, count: int) -> NDArray[np.int64]:
    """Returns shifts of reports from the truth, modulo ``categories``: 0 for the truth, otherwise uniform."""
    shift = noise.uniform(categories - 1, count) + 1
    shift *= noise.coins(probability, count)
    return shift


class CategoryRandomiser(Releasable):
    """Base of local randomisers of a person's category, with the field ``categories``."""

    __slots__ = ()
    categories: int

    def worst_case_neighbours(self) -> tuple[int, int]:
        """Returns two answers of one person, which have the largest privacy loss."""
        return 0, 1

    def group_neighbours(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns two values for ``size`` persons who all change their answer."""
        count = arguments.group_size(size)
        return np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)

    def _checked(self, value: ArrayLike) -> NDArray[np.int64]:
        return truths("value", value, self.categories)


@frozen
class RandomizedResponse(CategoryRandomiser):
    """k-ary randomised response (Warner 1965): the true category with odds e^epsilon against each other one.

    The cost is that of one person's report: the answer may change to any other, under local adjacency and replace-one
    alike; the number of respondents is public. There is no sensitivity. A release uses coins with a rational
    probability, rounded such that the odds never exceed e^epsilon.

    Args:
      epsilon: the logarithm of the odds; at 0 the report is pure noise.
      categories: the number of categories, which are numbered from 0; at most 2^53.

    Raises:
      InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, or ``categories`` is not an integer ≥ 2.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import RandomizedResponse
      >>> mechanism = RandomizedResponse(1.0, categories=3)
      >>> answers = np.repeat([0, 1, 2], [6_000, 3_000, 1_000])
      >>> reports = mechanism.simulate(answers, np.random.default_rng(1), runs=1)[0]
      >>> mechanism.frequencies(reports).round(2), round(mechanism.accuracy(0.05, respondents=10_000), 2)
      (array([0.64, 0.28, 0.08]), 0.04)
    """

    epsilon: float = field(converter=field_checks.epsilon)
    categories: int = field(default=2, converter=categories, kw_only=True)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost of one person's report: ``RandomizedResponse(epsilon, categories)``."""
        return accounting.RandomizedResponse(self.epsilon, self.categories)

    def lie_probability(self) -> float:
        """Returns the probability that the report is not the true category."""
        odds = (self.categories - 1) * math.exp(-self.epsilon)
        return odds / (1.0 + odds)

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        """Returns reports, integers of shape (runs, *value.shape); each entry of ``value`` is one person.

        Raises:
          InvalidArgumentError: an entry is not an integer from 0 to categories − 1, ``runs`` is not an integer ≥ 1, or
            ``rng`` is not a generator.
        """
        truth = truths("value", value, self.categories)
        source, shape = arguments.generator(rng), (arguments.run_count(runs, truth.size), *truth.shape)
        shift = source.integers(1, self.categories, size=shape)  # uniform over the other categories
        shift *= source.random(shape) < self.lie_probability()
        return np.asarray((truth + shift) % self.categories)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)) for reports of shape (runs, *value.shape)."""
        v0, v1 = (truths(name, v, self.categories) for name, v in (("value0", value0), ("value1", value1)))
        reported = truths("output", output, self.categories)
        if v0.shape != v1.shape or reported.shape[1:] != v0.shape or reported.ndim != v0.ndim + 1:
            raise InvalidDataError(
                "output",
                output,
                f"has shape {reported.shape}",
                f"expected (runs, *{v0.shape}), and values of one shape",
            )
        for_first = (reported == v0).astype(np.int64) - (reported == v1)
        return np.asarray(self.epsilon * for_first.reshape(len(reported), -1).sum(axis=1))

    def frequencies(self, reports: ArrayLike) -> NDArray[np.float64]:
        """Returns unbiased estimates of the categories' true frequencies from reports of shape (respondents,).

        They add up to 1 but may be negative.

        Raises:
          InvalidArgumentError: there is no report, one is not a category, or ``epsilon`` is 0, where reports are
            pure noise.
        """
        reported = truths("reports", reports, self.categories)
        if reported.ndim != 1 or not len(reported):
            raise InvalidDataError("reports", reports, f"has shape {reported.shape}", "give one report a respondent")
        lie = self.lie_probability()
        each = lie / (self.categories - 1)
        seen = np.bincount(reported, minlength=self.categories) / len(reported)
        return np.asarray((seen - each) / self._contrast())

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
        """The probability of reporting a category when it is true, minus that when it is not."""
        if self.epsilon == 0.0:
            raise InvalidArgumentError("epsilon", self.epsilon, "makes the reports pure noise", "use a positive one")
        share = -math.expm1(-self.epsilon)
        return share / (1.0 + (self.categories - 1) * math.exp(-self.epsilon))

    def _draw(self, checked: NDArray[np.int64], noise: Noise) -> Any:
        probability = lie_probability(self.epsilon, self.categories)
        shift = lies(noise, probability, self.categories, checked.size).reshape(checked.shape)
        reported = (checked + shift) % self.categories
        return reported if checked.ndim else int(reported)
