"""The losses of the federated stochastic learner, and the clipping that its privacy rests on.

One record, a client's loss of one round, is a vector of d numbers: the losses of the experts themselves, or the
parameters of a convex function on the simplex. A family says what gradient a record has at a point. The constants that
it declares hold for the records that it is meant for; they are not trusted. A record may be anything, so every gradient
is clipped to [low, high], and every correction to beta times the way the iterate went, before anything is averaged.

Shapes: records ``(..., n, d)``, a point ``(..., d)`` that is broadcast against them, gradients ``(..., n, d)``. Nothing
of a family changes; all of it is vectorised over any leading axes.

Constants are for the 1-norm on the simplex: |gradient coordinates| in [low, high], and the gradient's coordinates move
by at most smoothness * ||x - x'||_1 (Gao, Huang & Yang 2024).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, real
from hockeystick.learners.common import arguments

_LARGEST = 1e100  # of a record's numbers: squares stay floats


@runtime_checkable
class LossFamily(Protocol):
    """What the learner asks of its losses."""

    @property
    def linear(self) -> bool:
        """Whether a record is its own gradient, everywhere, so that there is nothing to correct."""

    @property
    def low(self) -> float:
        """Least coordinate of a gradient, declared."""

    @property
    def high(self) -> float:
        """Largest coordinate of a gradient, declared."""

    @property
    def smoothness(self) -> float:
        """beta, declared."""

    def checked(self, records: npt.ArrayLike) -> FloatArray:
        """Records that the family can be evaluated at, as floats.

        Raises:
            InvalidArgumentError: they are not.
        """

    def gradients(self, records: FloatArray, point: FloatArray) -> FloatArray:
        """Shape (..., n, d)."""

    def totals(self, records: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Losses summed over n: at the point, shape (...), and at every expert, shape (..., d)."""


def clipped_gradients(
    family: LossFamily, records: FloatArray, point: FloatArray, *, low: float, high: float
) -> FloatArray:
    """Every record's gradient at the point, each coordinate clipped to [low, high]; shape (..., n, d)."""
    return np.clip(family.gradients(records, point), low, high)


def clipped_corrections(
    family: LossFamily,
    records: FloatArray,
    point: FloatArray,
    parent: FloatArray,
    *,
    low: float,
    high: float,
    most: FloatArray | None,
) -> FloatArray:
    """Every record's clipped gradient at the point less that at its parent, clipped to [-most, most].

    Args:
        most: beta * ||point - parent||_1, of the points' leading shape; None clips nothing more.
    """
    change = clipped_gradients(family, records, point, low=low, high=high)
    change -= clipped_gradients(family, records, parent, low=low, high=high)
    if most is not None:
        np.clip(change, -most[..., None, None], most[..., None, None], out=change)
    return change


def _at(point: FloatArray) -> FloatArray:
    return point[..., None, :]


def _records(records: npt.ArrayLike, low: float = -_LARGEST, high: float = _LARGEST) -> FloatArray:
    found: FloatArray = array("losses", records, low=low, high=high, data=True)
    if found.ndim < 2:
        raise InvalidDataError("losses", found, "is not an array of vectors", "expected shape (..., rounds, d)")
    return found


def _low(value: object) -> float:
    return real("low", value, low=-_LARGEST, high=_LARGEST)


def _high(value: object) -> float:
    return real("high", value, low=-_LARGEST, high=_LARGEST)


def _least(value: object) -> float:
    return real("least", value, low=-_LARGEST, high=_LARGEST)


def _most(value: object) -> float:
    return real("most", value, low=-_LARGEST, high=_LARGEST)


def _bound(value: object) -> float:
    return real("bound", value, low=0.0, high=_LARGEST, low_open=True)


def _mixing(value: object) -> float:
    return real("mixing", value, low=0.0, high=1.0, low_open=True, high_open=True)


def _largest(value: object) -> float:
    return real("largest", value, low=0.0, high=1.0, low_open=True)


@frozen(kw_only=True)
class ExpertLosses:
    """Linear losses <l, x>: a record is the d experts' losses, in [low, high].

    Args:
        low, high: The range of a loss.
        clip: Move losses outside to the nearest end instead of refusing them.

    Raises:
        InvalidArgumentError: no range, or a flag that is not a bool.
    """

    low: float = field(default=0.0, converter=_low)
    high: float = field(default=1.0, converter=_high)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        if not self.low < self.high:
            raise InvalidArgumentError("high", self.high, f"is not above low = {self.low}", "give low < high")

    @property
    def linear(self) -> bool:
        """True: the gradient is the record."""
        return True

    @property
    def smoothness(self) -> float:
        """beta = 0: the gradient is the same at all points."""
        return 0.0

    def checked(self, records: npt.ArrayLike) -> FloatArray:
        """Records of shape (..., n, d) as floats; any outside [low, high] are clipped if ``clip``, else refused."""
        if self.clip:
            return np.clip(_records(records), self.low, self.high)
        return _records(records, self.low, self.high)

    def gradients(self, records: FloatArray, point: FloatArray) -> FloatArray:
        """The records themselves, broadcast to shape (..., n, d)."""
        return np.broadcast_to(records, np.broadcast_shapes(records.shape, _at(point).shape))

    def totals(self, records: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Losses <l, x> summed over n: at the point, shape (...), and at every expert, shape (..., d)."""
        sums = records.sum(axis=-2)
        return np.asarray((sums * point).sum(axis=-1)), sums


@frozen(kw_only=True)
class SquaredDistances:
    """(1/2)||x - y||^2: a record is y, meant to lie in [least, most]^d.

    The gradient is x - y. Two points of the simplex differ by a vector that sums to zero, whose largest coordinate is
    at most half its 1-norm: beta = 1/2.

    Raises:
        InvalidArgumentError: ``least`` is above ``most``, or either is not a finite number.
    """

    least: float = field(default=0.0, converter=_least)
    most: float = field(default=1.0, converter=_most)

    def __attrs_post_init__(self) -> None:
        if self.least > self.most:
            raise InvalidArgumentError("most", self.most, f"is below least = {self.least}", "give least <= most")

    @property
    def linear(self) -> bool:
        """False: the gradient depends on the point."""
        return False

    @property
    def low(self) -> float:
        """Least coordinate of a gradient: -most."""
        return -self.most

    @property
    def high(self) -> float:
        """Largest coordinate of a gradient: 1 - least."""
        return 1.0 - self.least

    @property
    def smoothness(self) -> float:
        """beta = 1/2."""
        return 0.5

    def checked(self, records: npt.ArrayLike) -> FloatArray:
        """Records of shape (..., n, d) as floats, within [least, most] or not."""
        return _records(records)

    def gradients(self, records: FloatArray, point: FloatArray) -> FloatArray:
        """x - y, shape (..., n, d)."""
        return _at(point) - records

    def totals(self, records: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Losses summed over n: at the point, shape (...), and at every expert, shape (..., d)."""
        squares = (records**2).sum(axis=(-2, -1))
        count, sums = records.shape[-2], records.sum(axis=-2)
        here = 0.5 * (squares + count * (point**2).sum(axis=-1)) - (sums * point).sum(axis=-1)
        return np.asarray(here), 0.5 * (squares[..., None] + count) - sums


@frozen(kw_only=True)
class SquaredProducts:
    """(1/2)<u, x>^2: a record is u, meant to lie in [-bound, bound]^d.

    The gradient is <u, x>u, within bound^2, and beta = bound^2.

    Raises:
        InvalidArgumentError: ``bound`` is not finite and positive.
    """

    bound: float = field(default=1.0, converter=_bound)

    @property
    def linear(self) -> bool:
        """False: the gradient depends on the point."""
        return False

    @property
    def low(self) -> float:
        """Least coordinate of a gradient: -bound^2."""
        return -(self.bound**2)

    @property
    def high(self) -> float:
        """Largest coordinate of a gradient: bound^2."""
        return self.bound**2

    @property
    def smoothness(self) -> float:
        """beta = bound^2."""
        return self.bound**2

    def checked(self, records: npt.ArrayLike) -> FloatArray:
        """Records of shape (..., n, d) as floats, within [-bound, bound] or not."""
        return _records(records)

    def gradients(self, records: FloatArray, point: FloatArray) -> FloatArray:
        """<u, x>u, shape (..., n, d)."""
        return np.asarray((records * _at(point)).sum(axis=-1, keepdims=True) * records)

    def totals(self, records: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Losses summed over n: at the point, shape (...), and at every expert, shape (..., d)."""
        here = 0.5 * ((records * _at(point)).sum(axis=-1) ** 2).sum(axis=-1)
        return np.asarray(here), 0.5 * (records**2).sum(axis=-2)


@frozen(kw_only=True)
class SmoothedCrossEntropy:
    """-sum_n p_n ln((1 - mixing)x_n + mixing/d): a record is a distribution p over d experts.

    The gradient's coordinates are -(1 - mixing)p_n / ((1 - mixing)x_n + mixing/d), in [-alpha, 0] with alpha =
    largest*(1 - mixing)d/mixing, and beta = largest*((1 - mixing)d/mixing)^2. Without mixing the loss has no Lipschitz
    constant.

    Args:
        experts: d >= 2.
        mixing: The weight of the uniform distribution, in (0, 1).
        largest: The most probability that a record is meant to give an expert, in (0, 1].

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    experts: int = field(converter=arguments.experts)
    mixing: float = field(converter=_mixing)
    largest: float = field(default=1.0, converter=_largest)

    @property
    def _ratio(self) -> float:
        return (1.0 - self.mixing) * self.experts / self.mixing

    @property
    def linear(self) -> bool:
        """False: the gradient depends on the point."""
        return False

    @property
    def low(self) -> float:
        """Least coordinate of a gradient: -alpha."""
        return -self.largest * self._ratio

    @property
    def high(self) -> float:
        """Largest coordinate of a gradient: 0."""
        return 0.0

    @property
    def smoothness(self) -> float:
        """beta = largest*((1 - mixing)d/mixing)^2."""
        return self.largest * self._ratio**2

    def checked(self, records: npt.ArrayLike) -> FloatArray:
        """Records of shape (..., n, d) as floats; one that is not a distribution up to 1e-9 is refused."""
        found = _records(records, 0.0, 1.0)
        if found.shape[-1] != self.experts or not np.allclose(found.sum(axis=-1), 1.0, rtol=0.0, atol=1e-9):
            raise InvalidDataError(
                "losses", found, "holds a record that is not a distribution over the experts", "normalise the rows"
            )
        return found

    def gradients(self, records: FloatArray, point: FloatArray) -> FloatArray:
        """-(1 - mixing)p / ((1 - mixing)x + mixing/d) in each coordinate, shape (..., n, d)."""
        return -(1.0 - self.mixing) * records / self._mixed(_at(point))

    def totals(self, records: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Losses summed over n: at the point, shape (...), and at every expert, shape (..., d)."""
        sums = records.sum(axis=-2)
        here = -(sums * np.log(self._mixed(point))).sum(axis=-1)
        low, high = np.log(self.mixing / self.experts), np.log(1.0 - self.mixing + self.mixing / self.experts)
        return np.asarray(here), -low * (sums.sum(axis=-1, keepdims=True) - sums) - high * sums

    def _mixed(self, point: FloatArray) -> FloatArray:
        return (1.0 - self.mixing) * point + self.mixing / self.experts
