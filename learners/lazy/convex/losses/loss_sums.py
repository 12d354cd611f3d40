"""Sums of convex losses as they arrive, one round or many at a time, in whole numbers where that is possible.

A linear loss, or a quadratic one with spherical level sets, is <s, x> + k*||x||^2/2 up to a constant. Only the sums of
s and k are stored, as whole multiples of a unit far below the Lipschitz constant. The stored sum is therefore exact for
every order of the losses, and one person's loss moves it by exactly that loss. Losses of other families have no such
statistic and are stored as they are.
"""

import decimal
import math
import operator
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy.convex.losses.convex_losses import (
    LIPSCHITZ_SLACK,
    ConvexLosses,
    Domain,
    LinearLosses,
    QuadraticLosses,
    RegressionLosses,
)
from hockeystick.learners.lazy.convex.losses.links import value_in_digits

_DIGITS = 50  # decimal digits of the values of losses that are not counted
_BITS = 50  # bits of the largest entry of one loss
_ROUNDS = 1 << (62 - _BITS)  # number of losses whose sum fits into 64-bit integers

Piece = tuple[ConvexLosses, int, int]
Point = Sequence[int]


@frozen
class LossUnits:
    """The units of slopes and curvatures: powers of two that do not depend on data.

    Attributes:
        slope: The unit of each entry of s.
        curvature: The unit of k.
    """

    slope: Fraction
    curvature: Fraction

    @classmethod
    def of(cls, domain: Domain, lipschitz: float) -> "LossUnits":
        """Returns units for losses that are ``lipschitz``-Lipschitz over the domain.

        For them k*diameter <= 2*lipschitz and ||s|| <= lipschitz + k*(largest norm). Rounding to units changes a loss
        by a function whose Lipschitz constant is below a tenth of ``LIPSCHITZ_SLACK``, with which costs are charged.

        Raises:
            InvalidArgumentError: the domain is too far from the origin, or has too many dimensions, for that.
        """
        away = domain.largest_norm / domain.diameter
        # A margin of 1/1000, so that k and s still fit after rounding and within ``LIPSCHITZ_SLACK``.
        curvature = _power_above(2.0 * lipschitz / domain.diameter * 1.001)
        slope = _power_above(lipschitz * (1.0 + 2.0 * away) * 1.001)
        error = math.sqrt(domain.dimension) * slope + curvature * domain.largest_norm
        if not error * 2.0**-_BITS <= 0.1 * LIPSCHITZ_SLACK * lipschitz:
            raise InvalidArgumentError(
                "domain", domain, "is too far from the origin to count losses exactly", "move the origin into it"
            )
        if not 1e-280 < min(slope, curvature) <= max(slope, curvature) < 1e280:
            raise InvalidArgumentError("lipschitz", lipschitz, "is out of the range of floats", "change the unit")
        return cls(Fraction(slope) / 2**_BITS, Fraction(curvature) / 2**_BITS)


def _power_above(x: float) -> float:
    return math.ldexp(1.0, math.frexp(x)[1])


class LossSum:
    """A growing sum of losses. Its size depends only on the number of losses that it has to store."""

    __slots__ = ("_count", "_curvature", "_recent", "_slope", "_stored", "_units")

    def __init__(self, dimension: int, units: LossUnits) -> None:
        self._units = units
        self._recent: npt.NDArray[np.int64] = np.zeros(dimension, dtype=np.int64)
        self._slope: list[int] | None = None
        self._count, self._curvature = 0, 0
        self._stored: list[Piece] = []

    @property
    def units(self) -> LossUnits:
        """The units of slopes and curvatures."""
        return self._units

    @property
    def counted(self) -> bool:
        """Whether the sum is known exactly, as one slope and one curvature."""
        return not self._stored

    @property
    def slope(self) -> list[int]:
        """The sum of all s, in units."""
        recent: list[int] = self._recent.tolist()
        return recent if self._slope is None else [a + b for a, b in zip(self._slope, recent, strict=True)]

    @property
    def curvature(self) -> int:
        """The sum of all k, in units."""
        return self._curvature

    @property
    def stored(self) -> tuple[Piece, ...]:
        """The losses that are stored because they have no such form: (stream, first round, round after the last)."""
        return tuple(self._stored)

    def read(self, losses: ConvexLosses, start: int, stop: int) -> None:
        """Adds rounds start .. stop-1 of a (checked) stream."""
        if not isinstance(losses, LinearLosses | QuadraticLosses):
            if self._stored and self._stored[-1][0] is losses and self._stored[-1][2] == start:
                start = self._stored.pop()[1]
            self._stored.append((losses, start, stop))
            return
        for first in range(start, stop, _ROUNDS):
            last = min(stop, first + _ROUNDS)
            if isinstance(losses, LinearLosses):
                rows = losses.gradients[first:last]
            else:
                rows = -losses.curvature * losses.centres[first:last]
                self._curvature += (last - first) * round(Fraction(losses.curvature) / self._units.curvature)
            # Dividing by a power of two is exact; each loss is rounded separately.
            self._add(np.rint(rows / float(self._units.slope)).astype(np.int64).sum(axis=0), last - first)

    def _add(self, codes: npt.NDArray[np.int64], count: int) -> None:
        if self._count + count > _ROUNDS:
            self._slope, self._count = self.slope, 0
            self._recent = np.zeros_like(self._recent)
        self._recent = self._recent + codes
        self._count += count

    def add(self, other: "LossSum") -> None:
        """Adds another sum."""
        if other._slope is None:
            self._add(other._recent, other._count)
        else:
            self._slope, self._count = [a + b for a, b in zip(self.slope, other.slope, strict=True)], 0
            self._recent = np.zeros_like(self._recent)
        self._curvature += other._curvature
        for piece in other._stored:
            self.read(*piece)

    def value(self, point: Point, unit: Fraction) -> Fraction:
        """Returns the sum at a point, given in units of ``unit``, up to a constant.

        It is exact if all losses are counted, and rounded to about 40 digits for regression losses.
        """
        linear = sum(map(operator.mul, self.slope, point)) * self._units.slope * unit
        square = sum(map(operator.mul, point, point)) if self._curvature else 0
        found = linear + self._curvature * self._units.curvature * square * unit * unit / 2
        if self._stored:
            found += self._stored_value(point, unit)
        return Fraction(found)

    def _stored_value(self, point: Point, unit: Fraction) -> Fraction:
        """Returns the sum of the stored losses: in 50 digits for regression losses, in floats for others."""
        total = Decimal(0)
        with decimal.localcontext(decimal.Context(prec=_DIGITS)):
            one = Decimal(unit.numerator) / unit.denominator
            x, floats = [n * one for n in map(Decimal, point)], np.array([[float(n * unit) for n in point]])
            for losses, start, stop in self._stored:
                if not isinstance(losses, RegressionLosses):
                    total += Decimal(float(losses.total(floats, start, stop)[0]))
                    continue
                rows, targets = losses.features[start:stop].tolist(), losses.targets[start:stop].tolist()
                for row, y in zip(rows, targets, strict=True):
                    prediction = sum((Decimal(f) * a for f, a in zip(row, x, strict=True)), Decimal(0))
                    total += value_in_digits(losses.link, prediction, Decimal(y))
        return Fraction(total)

    def regressions(self) -> list[RegressionLosses]:
        """Returns the stored regression losses, one stream per link."""
        return [each for each in _together(self._stored) if isinstance(each, RegressionLosses)]

    def form(self) -> tuple[list[Fraction], Fraction]:
        """Returns the sums of s and of k; for a sum that is ``counted``."""
        return [entry * self._units.slope for entry in self.slope], self._curvature * self._units.curvature

    def losses(self) -> ConvexLosses:
        """Returns the sum as a stream of one round, in floating point."""
        slope = np.array([[float(entry) for entry in self.form()[0]]])
        curvature = float(self.form()[1])
        counted = QuadraticLosses(-slope / curvature, curvature) if curvature else LinearLosses(slope)
        return SummedLosses((counted, *_together(self._stored))) if self._stored else counted

    # --- to and from JSON --------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Returns a value for ``json.dumps``.

        Raises:
            InvalidArgumentError: the sum holds losses of a family from outside the library.
        """
        for losses, _, _ in self._stored:
            if not isinstance(losses, RegressionLosses):
                raise InvalidDataError("losses", losses, "can't be written to JSON", "use the library's families")
        stored = [[each.link, each.features.tolist(), each.targets.tolist()] for each in self.regressions()]
        return {"slope": [str(entry) for entry in self.slope], "curvature": str(self._curvature), "kept": stored}

    @classmethod
    def from_json(cls, found: dict[str, Any], dimension: int, units: LossUnits) -> "LossSum":
        """Inverts :meth:`to_json`; raises KeyError, TypeError or ValueError for other values."""
        built = cls(dimension, units)
        slope, built._curvature = [int(entry) for entry in found["slope"]], int(found["curvature"])
        if len(slope) != dimension or built._curvature < 0:
            raise ValueError("not a sum of losses in this dimension")
        built._slope = slope if any(slope) else None
        for link, features, targets in found["kept"]:
            losses = RegressionLosses(features, targets, link)
            if losses.dimension != dimension:
                raise ValueError("losses of another dimension")
            built.read(losses, 0, losses.rounds)
        return built


def _together(pieces: Sequence[Piece]) -> list[ConvexLosses]:
    """Returns the same losses in few streams: those of one link are joined."""
    joined: list[ConvexLosses] = []
    regressions: dict[str, list[tuple[RegressionLosses, slice]]] = {}
    for losses, start, stop in pieces:
        if isinstance(losses, RegressionLosses):
            regressions.setdefault(losses.link, []).append((losses, slice(start, stop)))
        else:
            joined.append(_Window(losses, start, stop))
    for parts in regressions.values():
        features = np.concatenate([losses.features[rows] for losses, rows in parts])
        targets = np.concatenate([losses.targets[rows] for losses, rows in parts])
        joined.append(RegressionLosses(features, targets, parts[0][0].link))
    return joined


@frozen(eq=False)
class _Window:
    """Rounds start .. stop-1 of a stream, as a stream."""

    losses: ConvexLosses
    start: int
    stop: int

    @property
    def rounds(self) -> int:
        return self.stop - self.start

    @property
    def dimension(self) -> int:
        return self.losses.dimension

    def lipschitz(self, domain: Domain) -> FloatArray:
        return self.losses.lipschitz(domain)[self.start : self.stop]

    def total(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        return self.losses.total(points, self.start + start, self.start + stop)

    def gradient(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        return self.losses.gradient(points, self.start + start, self.start + stop)


@frozen(eq=False)
class SummedLosses:
    """The sum of several streams, as a stream of one round."""

    parts: tuple[ConvexLosses, ...]

    @property
    def rounds(self) -> int:
        return 1

    @property
    def dimension(self) -> int:
        return self.parts[0].dimension

    def lipschitz(self, domain: Domain) -> FloatArray:
        return np.array([math.fsum(float(part.lipschitz(domain).sum()) for part in self.parts)])

    def total(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        found = np.zeros(points.shape[0])
        for part in self.parts if stop > start else ():
            found += part.total(points, 0, part.rounds)
        return found

    def gradient(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        found = np.zeros(points.shape)
        for part in self.parts if stop > start else ():
            found += part.gradient(points, 0, part.rounds)
        return found
