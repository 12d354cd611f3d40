"""Sums from which counts, means and variances follow, with one sensitivity for all: a row is split into shares of 1.

A value x in [a, b] is u = (x − a)/(b − a). Its row adds (1 − u, u) to two sums for a mean, and (1 − u, u − u², u²) to
three for a variance. Shares are not negative and add up to 1, so the sums move by at most 1 in L1 and L2 when one row
comes or goes, no more than a count alone, and by 2 and √2 when it is replaced. The number of rows is their sum, and
the mean is a + (b − a)·(Σu)/(Σ1), a quotient of two noisy sums with noise of one scale: with separate releases of count
and sum, each at half of ε, both would have twice the variance.

Shares are whole multiples of 2^-20, and their sums exact in floats, so rounding adds nothing to the sensitivity.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike

from hockeystick.accounting import InvalidArgumentError, InvalidDataError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray

Kind = Literal["count", "sum", "mean", "variance"]
STEPS = 1 << 20
"""Steps between the bounds."""
_ROWS = 2**32


@frozen
class RowMoments:
    """The shares of a row, for one column between public bounds.

    Args:
      kind: "count", the row itself; "sum", x over the largest bound; "mean" and "variance", the shares of the module.
      low, high: the bounds a < b; values beyond them are clipped. None for a count.

    Raises:
      InvalidArgumentError: the kind is unknown, or the bounds are not finite with a < b.

    Example:
      >>> from hockeystick.mechanisms import RowMoments
      >>> mean = RowMoments("mean", 0.0, 100.0)
      >>> mean([25.0, 75.0, 300.0], [0, 0, 1], groups=2)
      array([[1., 1.],
             [0., 1.]])
      >>> mean.estimates(mean([25.0, 75.0, 300.0], [0, 0, 1], groups=2))["mean"]
      array([ 50., 100.])
    """

    kind: Kind
    low: float | None = field(default=None)
    high: float | None = field(default=None)

    def __attrs_post_init__(self) -> None:
        validate.one_of("kind", self.kind, "count", "sum", "mean", "variance")
        if self.kind == "count":
            if self.low is not None or self.high is not None:
                raise InvalidArgumentError("low", self.low, "has no meaning for a count", "leave the bounds out")
            return
        low, high = (validate.real(name, value, low=-1e100, high=1e100) for name, value in self._ends())
        if not low < high or high - low < 1e-12 * max(abs(low), abs(high)):
            raise InvalidArgumentError("high", high, "is not above low", "give public bounds")

    def _ends(self) -> tuple[tuple[str, float], tuple[str, float]]:
        # None is refused by the check.
        return ("low", self.low), ("high", self.high)  # type: ignore[return-value]

    @property
    def bounds(self) -> tuple[float, float]:
        """a and b; 0 and 1 for a count."""
        return (0.0, 1.0) if self.low is None or self.high is None else (self.low, self.high)

    @property
    def shares(self) -> int:
        """The number of sums."""
        return {"count": 1, "sum": 1, "mean": 2, "variance": 3}[self.kind]

    @property
    def signed(self) -> bool:
        """Whether a share may be negative."""
        return self.kind == "sum" and self.bounds[0] < 0.0 < self.bounds[1]

    def __call__(self, values: ArrayLike, where: ArrayLike, *, groups: int) -> FloatArray:
        """Returns the exact sums by group, shape (groups, shares), multiples of 2^-20.

        Args:
          values: a number for each row; for a count they are not looked at.
          where: the group of each row, from 0.
          groups: the public number of groups.

        Raises:
          InvalidDataError: a value is not a number, or a row is in no group.
        """
        count = validate.integer("groups", groups, low=1, high=2**32)
        cell = validate.array("where", where, ndim=1, low=0, high=count - 1, data=True)
        if (cell != np.floor(cell)).any():
            raise InvalidDataError("where", where, "holds a number that is not whole", "number the groups")
        if len(cell) > _ROWS:
            raise InvalidDataError("where", len(cell), "has too many rows", f"give at most {_ROWS}")
        place = cell.astype(np.int64)
        if self.kind == "count":
            return np.bincount(place, minlength=count).astype(float)[:, None]
        numbers = validate.array("values", values, shape=(len(place),), data=True)
        columns = [np.bincount(place, part, count) / STEPS for part in self._parts(numbers)]
        return np.stack(columns, axis=1)

    def _parts(self, numbers: FloatArray) -> list[IntArray]:
        low, high = self.bounds
        clipped = np.clip(numbers, low, high)
        if self.kind == "sum":
            return [np.rint(clipped / self.unit * STEPS).astype(np.int64)]
        first = np.rint((clipped / 2 - low / 2) / (high / 2 - low / 2) * STEPS).astype(np.int64)
        if self.kind == "mean":
            return [STEPS - first, first]
        second = np.rint(first.astype(float) ** 2 / STEPS).astype(np.int64)
        return [STEPS - first, first - second, second]

    @property
    def unit(self) -> float:
        """The value that one unit of a sum has: the larger bound, or the distance of the bounds."""
        low, high = self.bounds
        return max(abs(low), abs(high)) if self.kind == "sum" else high - low

    def weights(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Returns each linear answer as its weights of the sums, and of the sums that it is divided by.

        A count and a sum are not divided: their second weights are 0.
        """
        ones, none = np.ones(self.shares), np.zeros(self.shares)
        if self.kind == "count":
            return {"count": (ones, none)}
        if self.kind == "sum":
            return {"sum": (self.unit * ones, none)}
        low, high = self.bounds
        upper = np.append(0.0, ones[1:])
        found = {"count": (ones, none), "sum": (low * ones + (high - low) * upper, none), "mean": (upper, ones)}
        return found | ({"second": (np.array([0.0, 0.0, 1.0]), ones)} if self.kind == "variance" else {})

    def estimates(self, sums: FloatArray) -> dict[str, FloatArray]:
        """Returns the answers that follow from sums, noisy or not, each of shape (groups,).

        Quotients are clipped to what they can be, and NaN where the noisy number of rows is not above 0.
        """
        low, high = self.bounds
        found = {}
        for name, (over, under) in self.weights().items():
            top, bottom = sums @ over, sums @ under
            if not under.any():
                found[name] = top
                continue
            with np.errstate(divide="ignore", invalid="ignore"):
                found[name] = np.where(bottom > 0.0, np.clip(top / bottom, 0.0, 1.0), math.nan)
        if "second" in found:
            spread = np.maximum(found.pop("second") - found["mean"] ** 2, 0.0)
            found["variance"] = (high - low) ** 2 * np.minimum(spread, 0.25)
        if "mean" in found:
            found["mean"] = low + (high - low) * found["mean"]
        return found
