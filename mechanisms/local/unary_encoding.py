"""Unary encoding: a category as a vector of bits, each reported with its own noise (RAPPOR, and its optimised form)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, InvalidDataError, field_checks, validate
from hockeystick.accounting.arrays import BoolArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.local.randomized_response import CategoryRandomiser, bits, categories, truths
from hockeystick.mechanisms.randomness.noise import Noise

_GRAIN = 2.0**-53
_LARGEST_SYMMETRIC = 60.0  # above it 1 − q has too few digits for the odds
_LARGEST_OPTIMISED = 650.0  # above it q underflows


def _p(value: float) -> float:
    return validate.probability("p", value, open=True)


def _q(value: float) -> float:
    return validate.probability("q", value, open=True)


@frozen
class UnaryEncoding(CategoryRandomiser):
    """Reports one bit for every category: 1 with probability ``p`` for the true one and ``q`` for each other one.

    The cost is that of one person's report: the answer may change to any other, under local adjacency and replace-one
    alike; the number of respondents is public. Construct it by ``symmetric`` or ``optimised`` rather than with your own
    rates. A release uses coins with exactly the probabilities p and q as stored.

    Args:
      p, q: the probabilities of a 1, in (0, 1).
      categories: the number of categories, which are numbered from 0, and of bits in a report.

    Raises:
      InvalidArgumentError: a rate is not in (0, 1), or ``categories`` is not an integer ≥ 2.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import UnaryEncoding
      >>> mechanism = UnaryEncoding.optimised(1.0, categories=3)
      >>> answers = np.repeat([0, 1, 2], [6_000, 3_000, 1_000])
      >>> reports = mechanism.simulate(answers, np.random.default_rng(1), runs=1)[0]
      >>> mechanism.frequencies(reports).round(2)
      array([0.61, 0.33, 0.09])
    """

    p: float = field(converter=_p)
    q: float = field(converter=_q)
    categories: int = field(converter=categories, kw_only=True)

    @classmethod
    def symmetric(cls, epsilon: float, *, categories: int) -> UnaryEncoding:
        """Returns basic RAPPOR, which flips every bit with one probability (Erlingsson, Pihur & Korolova 2014).

        That is p = 1 − q = 1/(1 + e^{−ε/2}), rounded so that the cost is at most ``epsilon`` and at most 60.

        Raises:
          InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, or ``categories`` is not an integer ≥ 2.
        """
        target = field_checks.epsilon(epsilon)
        odds = math.exp(-min(target, _LARGEST_SYMMETRIC) / 2)
        # A whole number of grains, so that 1 − q is exact.
        q = math.floor(odds / (1.0 + odds) / _GRAIN) * _GRAIN
        return cls._within(target, q, lambda rate: 1.0 - rate, lambda rate: rate + _GRAIN, categories)

    @classmethod
    def optimised(cls, epsilon: float, *, categories: int) -> UnaryEncoding:
        """Returns the encoding that estimates rare categories best at ``epsilon`` (Wang, Blocki, Li & Jha 2017, OUE).

        That is p = ½ and q = 1/(1 + e^ε), rounded so that the cost is at most ``epsilon`` and at most 650.

        Raises:
          InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, or ``categories`` is not an integer ≥ 2.
        """
        target = field_checks.epsilon(epsilon)
        odds = math.exp(-min(target, _LARGEST_OPTIMISED))
        return cls._within(
            target,
            odds / (1.0 + odds),
            lambda _: 0.5,
            # A step of the search: the cost of the result is checked.
            lambda rate: min(0.5, rate * (1.0 + 2.0**-50)),
            categories,
        )

    @classmethod
    def _within(
        cls,
        target: float,
        q: float,
        p_for: Callable[[float], float],
        larger: Callable[[float], float],
        categories: int,
    ) -> UnaryEncoding:
        """The encoding with the first rate q whose cost is at most the target."""
        while accounting.UnaryEncoding(p_for(q), q).pure_epsilon() > target:
            q = larger(q)
        return cls(p_for(q), q, categories=categories)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost of one person's report: ``UnaryEncoding(p, q)``."""
        return accounting.UnaryEncoding(self.p, self.q)

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> BoolArray:
        """Returns reports, bools of shape (runs, *value.shape, categories); each entry of ``value`` is one person.

        Raises:
          InvalidArgumentError: an entry is not an integer from 0 to categories − 1, ``runs`` is not an integer ≥ 1, or
            ``rng`` is not a generator.
        """
        truth = truths("value", value, self.categories)
        source, count = arguments.generator(rng), arguments.run_count(runs, truth.size * self.categories)
        reported = np.empty((count, truth.size, self.categories), dtype=np.bool_)
        for rows in arguments.blocks(count, truth.size * self.categories):
            part = reported[rows]
            np.less(source.random(part.shape), self.q, out=part)
            own = source.random(part.shape[:2]) < self.p
            np.put_along_axis(part, np.broadcast_to(truth.reshape(1, -1, 1), (*own.shape, 1)), own[..., None], axis=2)
        return reported.reshape(count, *truth.shape, self.categories)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)) for reports of shape (runs, *value.shape, categories)."""
        v0, v1 = (truths(name, v, self.categories) for name, v in (("value0", value0), ("value1", value1)))
        if v0.shape != v1.shape:
            raise InvalidDataError("value1", value1, f"has shape {v1.shape}", f"value0 has {v0.shape}")
        reported = self._reports("output", output)
        if reported.ndim != v0.ndim + 2 or reported.shape[1:-1] != v0.shape:
            raise InvalidDataError(
                "output", output, f"has shape {reported.shape}", f"expected (runs, *{v0.shape}, {self.categories})"
            )
        reported = reported.reshape(len(reported), v0.size, self.categories)
        own0, own1 = (reported[:, np.arange(v.size), v.ravel()].astype(np.int64) for v in (v0, v1))
        # Only the bits of the two categories matter, and only where they differ.
        odds = math.log(self.p) - math.log(self.q) + math.log1p(-self.q) - math.log1p(-self.p)
        return np.asarray(odds * (own0 - own1).sum(axis=1))

    def frequencies(self, reports: ArrayLike) -> NDArray[np.float64]:
        """Returns unbiased estimates of the categories' true frequencies from reports (respondents, categories).

        They may be negative, and add up to 1 only in expectation.

        Raises:
          InvalidArgumentError: there is no report, one has another shape, or ``p`` = ``q``, where reports are pure
            noise.
        """
        reported = self._reports("reports", reports)
        if reported.ndim != 2 or not len(reported):
            raise InvalidDataError("reports", reports, f"has shape {reported.shape}", "give one report a respondent")
        return np.asarray((reported.mean(axis=0) - self.q) / self._contrast())

    def variance(self, *, respondents: int, frequency: float = 0.0) -> float:
        """Returns the variance of a category's estimated frequency, given the true one.

        Raises:
          InvalidArgumentError: ``respondents`` is not an integer ≥ 1, ``frequency`` not in [0, 1], or ``p`` is ``q``.
        """
        count = validate.integer("respondents", respondents, low=1, high=validate.MOST)
        share = validate.probability("frequency", frequency)
        spread = share * self.p * (1.0 - self.p) + (1.0 - share) * self.q * (1.0 - self.q)
        return spread / count / self._contrast() ** 2

    def accuracy(self, beta: float, *, respondents: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` no estimated frequency is off by more than t (L∞).

        By Hoeffding's inequality over the respondents and a union bound over the categories.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), ``respondents`` is not an integer ≥ 1, or ``p`` is ``q``.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("respondents", respondents, low=1, high=validate.MOST)
        return math.sqrt(math.log(2 * self.categories / failure) / (2 * count)) / abs(self._contrast())

    def _contrast(self) -> float:
        if self.p == self.q:
            raise InvalidArgumentError("p", self.p, "equals q: the reports are pure noise", "use two different rates")
        return self.p - self.q

    def _reports(self, name: str, value: ArrayLike) -> BoolArray:
        reported = bits(name, value)
        if reported.ndim == 0 or reported.shape[-1] != self.categories:
            raise InvalidDataError(name, value, f"has shape {reported.shape}", f"give {self.categories} bits a report")
        return reported

    def _draw(self, checked: NDArray[np.int64], noise: Noise) -> BoolArray:
        persons = checked.size
        arguments.array_length("categories", self.categories, persons * self.categories)
        reported = noise.coins(self.q, persons * self.categories).reshape(persons, self.categories)
        reported[np.arange(persons), checked.ravel()] = noise.coins(self.p, persons)
        return reported.reshape(*checked.shape, self.categories)
