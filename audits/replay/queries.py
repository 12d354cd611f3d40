"""Calls on numpy's generator: additive noise, the largest of noisy values, comparisons, and draws of other kinds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick.accounting import Gaussian, Laplace, ReportNoisyMax, UnsupportedEventError, compose
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.numerics.directed_rounding import quotient_down
from hockeystick.audits.replay.tape import Met, Query
from hockeystick.audits.replay.values import rate

_ONE_BY_ONE = 4096  # entries whose changes are looked at one by one
_SIZES = 8  # of changes that are charged one by one
FARTHEST = 1e90
"""The largest rate of loss that events take; beyond it no finite cost is stated."""


def per_unit(rate_of_loss: float) -> float:
    """Returns the noise at which one unit of distance costs at least ``rate_of_loss`` > 0.

    Raises:
      UnsupportedEventError: no finite cost is stated for such a rate.
    """
    if not rate_of_loss < FARTHEST:
        raise UnsupportedEventError("the noise is too small for the change of the value: no finite cost covers it")
    return quotient_down(1.0, max(rate_of_loss, 1.0 / FARTHEST))


def laplace_event(one: FloatArray, other: FloatArray, scale: FloatArray) -> PrivacyEvent:
    """Returns the cost of independent Laplace noise on two arrays that differ.

    It is that of the changes of the entries, which is exact; where these have many sizes, that of their sum.

    Raises:
      UnsupportedEventError: the changes are too large.
    """
    places = np.flatnonzero(one.reshape(-1) != other.reshape(-1))
    sides = [np.broadcast_to(x, one.shape).reshape(-1)[places] for x in (one, other, scale)]
    sizes = Counter(zip(*(side.tolist() for side in sides), strict=True)) if len(places) <= _ONE_BY_ONE else {}
    rates: Counter[float] = Counter()
    for (x, y, b), count in sizes.items():
        rates[rate("l1", np.array([x]), np.array([y]), np.array([b]))] += count
    if 1 <= len(rates) <= _SIZES:
        return compose(*((Laplace(per_unit(size)), count) for size, count in sorted(rates.items())))
    return Laplace(per_unit(rate("l1", *sides)))


@frozen(eq=False)
class AddedNoise(Query):
    """A value plus independent noise on every entry, which is looked at."""

    kind: str
    base: FloatArray
    coefficient: FloatArray
    draws: IntArray
    exact: bool = True  # whether the noise has exactly this law; otherwise more independent noise is added to it

    @property
    def name(self) -> str:
        return f"{self.kind} noise"

    @property
    def is_number(self) -> bool:
        return True

    @property
    def scale(self) -> FloatArray:
        """The scale of each entry's noise."""
        return np.abs(self.coefficient)

    def flow(self) -> object:
        return "noise", self.kind, self.base.shape, self.exact, self.draws.tolist()

    def parameters(self) -> object:
        return self.coefficient.tolist()

    def shifts(self, other: Query) -> dict[int, float]:
        """The change of each entry in units of its draw; none where an entry has several draws."""
        assert isinstance(other, AddedNoise)
        if not self.exact or len(self.draws) != len(self.base):
            return {}
        return dict(zip(self.draws.tolist(), ((other.base - self.base) / self.coefficient).tolist(), strict=True))

    def met(self, other: Query) -> Met | None:
        assert isinstance(other, AddedNoise)
        change = np.abs(other.base - self.base)
        if self.kind == "gaussian":
            return Met(float(np.sqrt(np.sum(change**2))), "l2")
        return Met(float(np.sum(change)), "l1")

    def event(self, other: Query) -> PrivacyEvent | None:
        assert isinstance(other, AddedNoise)
        if np.array_equal(self.base, other.base):
            return None
        if not (np.isfinite(self.base).all() and np.isfinite(other.base).all()):
            raise UnsupportedEventError("a noisy value is not finite")
        scale = np.minimum(self.scale, other.scale)
        if self.kind == "gaussian":
            return Gaussian(per_unit(rate("l2", self.base, other.base, scale)))
        if self.kind == "laplace":
            return laplace_event(self.base, other.base, scale)
        raise UnsupportedEventError(f"{self.kind} noise that is looked at has no finite cost")

    def loss(self, other: Query, answer: Any) -> float | None:
        assert isinstance(other, AddedNoise)
        if not self.exact or self.kind == "gumbel":
            return None
        with np.errstate(all="ignore"):
            one, two = ((answer - query.base) / query.scale for query in (self, other))
            sizes = np.log(other.scale) - np.log(self.scale)
            apart = np.abs(two) - np.abs(one) if self.kind == "laplace" else (two**2 - one**2) / 2
        return float(np.sum(apart + sizes))


@frozen(eq=False)
class Winner(Query):
    """The place of the largest of several values with noise of one scale."""

    kind: str
    base: FloatArray
    coefficient: float
    draws: IntArray
    largest: bool

    @property
    def scale(self) -> float:
        """The scale of the noise."""
        return abs(self.coefficient)

    def shifts(self, other: Query) -> dict[int, float]:
        """The change of each entry in units of its draw."""
        assert isinstance(other, Winner)
        return dict(zip(self.draws.tolist(), ((other.base - self.base) / self.coefficient).tolist(), strict=True))

    @property
    def name(self) -> str:
        return f"{'arg max' if self.largest else 'arg min'} with {self.kind} noise"

    def flow(self) -> object:
        return "winner", self.kind, self.base.shape, self.largest, self.draws.tolist()

    def parameters(self) -> object:
        return self.coefficient

    def met(self, other: Query) -> Met | None:
        assert isinstance(other, Winner)
        return Met(float(np.max(np.abs(other.base - self.base))), "linf")

    def event(self, other: Query) -> PrivacyEvent | None:
        """Only the change of one entry relative to another counts."""
        assert isinstance(other, Winner)
        change = other.base - self.base
        spread = float(np.max(change) - np.min(change))
        if not spread:
            return None
        if not spread / self.scale < FARTHEST:
            raise UnsupportedEventError("the noise is too small for the change of the values")
        return ReportNoisyMax(min(self.scale, other.scale), self.kind, score_range=spread)


@frozen(eq=False)
class Comparison(Query):
    """A comparison of two noisy values, of which only the outcome becomes known; the older draw is named first."""

    bases: tuple[float, float]
    coefficients: tuple[float, float]
    draws: tuple[int, int]
    kinds: tuple[str, str]
    operation: str

    @property
    def name(self) -> str:
        return "comparison of noisy values"

    def flow(self) -> object:
        return "comparison", self.kinds, self.draws, self.operation

    def parameters(self) -> object:
        return self.coefficients

    def shifts(self, other: Query) -> dict[int, float]:
        """The change of both sides, each in units of its draw."""
        assert isinstance(other, Comparison)
        sides = zip(self.draws, self.bases, other.bases, self.coefficients, strict=True)
        return {draw: (two - one) / coefficient for draw, one, two, coefficient in sides}

    def met(self, other: Query) -> Met | None:
        return Met(self.moved(other), "linf")

    def moved(self, other: Query) -> float:
        """The change of the newer value against the older one."""
        assert isinstance(other, Comparison)
        one, two = (query.bases[1] - query.bases[0] for query in (self, other))
        return abs(two - one)

    def event(self, other: Query) -> PrivacyEvent | None:
        raise UnsupportedEventError("comparisons with one threshold are priced together")

    def above(self, answer: bool) -> bool:
        """Whether the newer value is the larger one."""
        less, first_is_older = "less" in self.operation, self.operation.endswith("True")
        return bool(answer) == (less == first_is_older)


@frozen(eq=False)
class OtherDraw(Query):
    """A draw other than noise on a value: a coin, an index, a permutation."""

    method: str
    arguments: object

    @property
    def name(self) -> str:
        return f"rng.{self.method}"

    def flow(self) -> object:
        return "draw", self.method, self.arguments

    def parameters(self) -> object:
        return None

    def met(self, other: Query) -> Met | None:
        return None

    def event(self, other: Query) -> PrivacyEvent | None:
        return None

    @property
    def is_opaque(self) -> bool:
        return True
