"""Loss families of the federated stochastic learner, and the clipping on which its privacy rests.

One record, a client's loss of one round, is a vector of d numbers: the losses of the experts themselves, or the
parameters of a convex function on the simplex. A family defines the gradient of a record at a point. The constants that
a family declares hold for the records for which it is meant, and the guarantee does not rely on them: every gradient is
clipped to [low, high], and every correction to beta times the distance the iterate moved, before they are averaged.

Shapes: records ``(..., n, d)``, a point ``(..., d)`` that is broadcast against them, gradients ``(..., n, d)``. All
methods are vectorised over the leading axes.

Constants are for the 1-norm on the simplex: gradient coordinates lie in [low, high] and move by at most
smoothness * ||x - x'||_1 (Gao, Huang & Yang 2024).
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

_LARGEST = 1e100  # of a record's numbers, so that squares are finite


@runtime_checkable
class LossFamily(Protocol):
    """Protocol of the loss families of :class:`~hockeystick.learners.FedStoch`.

    See :class:`ExpertLosses` for an example.
    """

    @property
    def linear(self) -> bool:
        """Whether the gradient is the record itself at every point, so that there are no corrections."""

    @property
    def low(self) -> float:
        """The declared least coordinate of a gradient."""

    @property
    def high(self) -> float:
        """The declared largest coordinate of a gradient."""

    @property
    def smoothness(self) -> float:
        """The declared smoothness beta."""

    def checked(self, records: npt.ArrayLike) -> FloatArray:
        """Returns records of shape (..., n, d) as floats.

        Raises:
            InvalidArgumentError: records at which the family can't be evaluated.
        """

    def gradients(self, records: FloatArray, point: FloatArray) -> FloatArray:
        """Returns the gradients of the records at the point, shape (..., n, d)."""

    def totals(self, records: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns losses summed over n: at the point, shape (...), and at every expert, shape (..., d)."""


def clipped_gradients(
    family: LossFamily, records: FloatArray, point: FloatArray, *, low: float, high: float
) -> FloatArray:
    """Returns each record's gradient at the point, each coordinate clipped to [low, high]; shape (..., n, d)."""
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
    """Returns each record's clipped gradient at the point minus that at its parent, clipped to [-most, most].

    Args:
        most: beta * ||point - parent||_1, of the points' leading shape; None clips only the gradients.
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


class _Nonlinear:
    """Base of the families whose gradient depends on the point."""

    __slots__ = ()

    @property
    def linear(self) -> bool:
        """False: the gradient depends on the point."""
        return False

    def checked(self, records: npt.ArrayLike) -> FloatArray:
        """Returns records of shape (..., n, d) as floats, whether or not they lie in the intended range."""
        return _records(records)


@frozen(kw_only=True)
class ExpertLosses:
    """Linear losses <l, x>: a record is the losses of the d experts, in [low, high].

    Args:
        low, high: The range of a loss.
        clip: Move losses outside to the nearest end instead of refusing them.

    Raises:
        InvalidArgumentError: an invalid range, or a flag that is not a bool.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import ExpertLosses
        >>> records, point = np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([0.5, 0.5])
        >>> ExpertLosses().totals(records, point)  # the loss at the point, and that of each expert
        (array(1.5), array([1., 2.]))
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
        """Returns records of shape (..., n, d) as floats; losses outside [low, high] are clipped or refused."""
        if self.clip:
            return np.clip(_records(records), self.low, self.high)
        return _records(records, self.low, self.high)

    def gradients(self, records: FloatArray, point: FloatArray) -> FloatArray:
        """Returns the records themselves, broadcast to shape (..., n, d)."""
        return np.broadcast_to(records, np.broadcast_shapes(records.shape, _at(point).shape))

    def totals(self, records: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See :meth:`LossFamily.totals`."""
        sums = records.sum(axis=-2)
        return np.asarray((sums * point).sum(axis=-1)), sums


@frozen(kw_only=True)
class SquaredDistances(_Nonlinear):
    """Squared distances (1/2)||x - y||^2: a record is y, meant to lie in [least, most]^d.

    The gradient is x - y. Two points of the simplex differ by a vector that sums to zero, whose largest coordinate is
    at most half its 1-norm: beta = 1/2.

    Args:
        least, most: The intended range of a record's coordinates.

    Raises:
        InvalidArgumentError: ``least`` is above ``most``, or either is not a finite number.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import SquaredDistances
        >>> SquaredDistances().gradients(np.array([[1.0, 0.0]]), np.array([0.5, 0.5])).tolist()
        [[-0.5, 0.5]]
    """

    least: float = field(default=0.0, converter=_least)
    most: float = field(default=1.0, converter=_most)

    def __attrs_post_init__(self) -> None:
        if self.least > self.most:
            raise InvalidArgumentError("most", self.most, f"is below least = {self.least}", "give least <= most")

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

    def gradients(self, records: FloatArray, point: FloatArray) -> FloatArray:
        """Returns x - y, shape (..., n, d)."""
        return _at(point) - records

    def totals(self, records: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See :meth:`LossFamily.totals`."""
        squares = (records**2).sum(axis=(-2, -1))
        count, sums = records.shape[-2], records.sum(axis=-2)
        here = 0.5 * (squares + count * (point**2).sum(axis=-1)) - (sums * point).sum(axis=-1)
        return np.asarray(here), 0.5 * (squares[..., None] + count) - sums


@frozen(kw_only=True)
class SquaredProducts(_Nonlinear):
    """Squared products (1/2)<u, x>^2: a record is u, meant to lie in [-bound, bound]^d.

    The gradient is <u, x>u, within bound^2, and beta = bound^2.

    Args:
        bound: > 0, the intended range of a record's coordinates.

    Raises:
        InvalidArgumentError: ``bound`` is not finite and positive.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import SquaredProducts
        >>> SquaredProducts().gradients(np.array([[1.0, -0.5]]), np.array([0.5, 0.5])).tolist()
        [[0.25, -0.125]]
    """

    bound: float = field(default=1.0, converter=_bound)

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

    def gradients(self, records: FloatArray, point: FloatArray) -> FloatArray:
        """Returns <u, x>u, shape (..., n, d)."""
        return np.asarray((records * _at(point)).sum(axis=-1, keepdims=True) * records)

    def totals(self, records: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See :meth:`LossFamily.totals`."""
        here = 0.5 * ((records * _at(point)).sum(axis=-1) ** 2).sum(axis=-1)
        return np.asarray(here), 0.5 * (records**2).sum(axis=-2)


@frozen(kw_only=True)
class SmoothedCrossEntropy(_Nonlinear):
    """Cross-entropy -sum_n p_n ln((1 - mixing)x_n + mixing/d): a record is a distribution p over d experts.

    The coordinates of the gradient are -(1 - mixing)p_n / ((1 - mixing)x_n + mixing/d), in [-alpha, 0] with
    alpha = largest*(1 - mixing)d/mixing, and beta = largest*((1 - mixing)d/mixing)^2. With mixing = 0 the loss would
    have no Lipschitz constant.

    Args:
        experts: d >= 2.
        mixing: The weight of the uniform distribution, in (0, 1).
        largest: The largest intended probability of an expert in a record, in (0, 1].

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.federated import SmoothedCrossEntropy
        >>> family = SmoothedCrossEntropy(experts=4, mixing=0.2)
        >>> round(family.low, 6), family.high, round(family.smoothness, 6)
        (-16.0, 0.0, 256.0)
    """

    experts: int = field(converter=arguments.experts)
    mixing: float = field(converter=_mixing)
    largest: float = field(default=1.0, converter=_largest)

    def __attrs_post_init__(self) -> None:
        if not self._ratio <= _LARGEST:
            raise InvalidArgumentError(
                "mixing", self.mixing, f"makes gradients larger than {_LARGEST:g}", "use a larger one, or fewer experts"
            )

    @property
    def _ratio(self) -> float:
        return (1.0 - self.mixing) * self.experts / self.mixing

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
        """Returns records of shape (..., n, d) as floats; refuses one that is not a distribution up to 1e-9."""
        found = _records(records, 0.0, 1.0)
        if found.shape[-1] != self.experts or not np.allclose(found.sum(axis=-1), 1.0, rtol=0.0, atol=1e-9):
            raise InvalidDataError(
                "losses", found, "holds a record that is not a distribution over the experts", "normalise the rows"
            )
        return found

    def gradients(self, records: FloatArray, point: FloatArray) -> FloatArray:
        """Returns -(1 - mixing)p / ((1 - mixing)x + mixing/d) in each coordinate, shape (..., n, d)."""
        return -(1.0 - self.mixing) * records / self._mixed(_at(point))

    def totals(self, records: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See :meth:`LossFamily.totals`."""
        sums = records.sum(axis=-2)
        here = -(sums * np.log(self._mixed(point))).sum(axis=-1)
        low, high = np.log(self.mixing / self.experts), np.log(1.0 - self.mixing + self.mixing / self.experts)
        return np.asarray(here), -low * (sums.sum(axis=-1, keepdims=True) - sums) - high * sums

    def _mixed(self, point: FloatArray) -> FloatArray:
        return (1.0 - self.mixing) * point + self.mixing / self.experts
