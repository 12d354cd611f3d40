"""The noise in counts that are estimated from local reports, each of one person."""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import boolean, integer, probability
from hockeystick.learners.divergence.drift.cell_terms import Term


def _p(value: float) -> float:
    return probability("p", value)


def _q(value: float) -> float:
    return probability("q", value, open=True)


def _respondents(value: int) -> int:
    return integer("respondents", value, low=1, high=2**52)


def _fixed(value: bool) -> bool:
    return boolean("fixed", value)


@frozen(kw_only=True)
class ReportCounts:
    """The noise of an unbiased estimate of counts from reports, each of which supports a set of categories.

    A report supports the true category with probability p, any other one with probability q. From C supporting reports
    of N the count is estimated as (C − N·q)/(p − q), with variance (h·p(1 − p) + (N − h)·q(1 − q))/(p − q)².

    Attributes:
        p, q: The two probabilities, p > q.
        respondents: N.
        fixed: Whether all reports support equally many categories, so that the estimates add up to N.
    """

    p: float = field(converter=_p)
    q: float = field(converter=_q)
    respondents: int = field(converter=_respondents)
    fixed: bool = field(default=False, converter=_fixed)

    def __attrs_post_init__(self) -> None:
        if not self.p > self.q:
            raise InvalidArgumentError("p", self.p, f"is not above q = {self.q}", "raise ε: reports are pure noise")

    @property
    def exact(self) -> bool:
        """Whether ``corrected`` has no bias at all: False."""
        return False

    @property
    def free(self) -> bool:
        """Whether the noise depends on no data: False."""
        return False

    def variances(self, counts: FloatArray) -> FloatArray:
        """Returns the variance of each count's estimate at true counts (k,)."""
        held = np.clip(counts, 0.0, self.respondents)
        own, other = self.p * (1.0 - self.p), self.q * (1.0 - self.q)
        return np.asarray((held * own + (self.respondents - held) * other) / (self.p - self.q) ** 2)

    def draw(self, counts: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns noise (runs, k), normal with the variances of true counts (k,); with sum 0 if ``fixed``."""
        drawn = rng.normal(size=(runs, len(counts))) * np.sqrt(self.variances(counts))
        if not self.fixed:
            return np.asarray(drawn)
        k = len(counts)
        return np.asarray((drawn - drawn.mean(axis=1, keepdims=True)) * math.sqrt(k / (k - 1.0)))

    def corrected(self, term: Term) -> Term:
        """Returns the term less half a second difference at a standard deviation: a correction of second order."""

        def found(counts: FloatArray) -> FloatArray:
            step = np.sqrt(self.variances(counts))
            return np.asarray(2.0 * term(counts) - 0.5 * (term(counts + step) + term(counts - step)))

        return found

    def largest(self, cells: int, level: float) -> float:
        """Returns q such that no count is off by more with probability >= level, by Hoeffding's inequality."""
        bound = math.sqrt(0.5 * self.respondents * math.log(2.0 * cells / (1.0 - level)))
        return bound / (self.p - self.q)
