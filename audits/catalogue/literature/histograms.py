"""Noisy counts, sums and histograms of the literature: one or more numbers under independent noise."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray


@frozen(kw_only=True)
class LaplaceVector:
    """Numbers, or their total, under independent Laplace noise.

    Attributes:
      scale: The scale of the noise on each number.
      copies: The number of times that all numbers are published, each time under fresh noise.
      running: Whether running sums of the noisy numbers are published instead.
      total: Whether the numbers are added up before the noise.
    """

    scale: float
    copies: int = 1
    running: bool = False
    total: bool = False

    def __call__(self, data: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns shape (runs, copies * numbers), or (runs,) for a total or a single number."""
        exact = np.atleast_1d(np.asarray(data, dtype=np.float64))
        if self.total:
            exact = exact.sum(keepdims=True)
        noisy = np.tile(exact, self.copies) + rng.laplace(scale=self.scale, size=(runs, self.copies * len(exact)))
        if self.running:
            noisy = np.cumsum(noisy, axis=1)
        return noisy[:, 0] if noisy.shape[1] == 1 else noisy

    def epsilon(self, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """Returns the exact pure epsilon, copies * distance / scale: the L1 distance, or the change of the total.

        Running sums are invertible, so they lose as much as the numbers.
        """
        change = np.atleast_1d(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64))
        distance = abs(change.sum()) if self.total else np.abs(change).sum()
        return float(self.copies * distance / self.scale)


@frozen(kw_only=True)
class TruncatedGeometric:
    """GeoSample (Balcer and Vadhan 2018, Algorithm 4.8): a count in 0..n under geometric noise, in integer arithmetic.

    It is the truncated geometric mechanism of Ghosh, Roughgarden and Sundararajan 2009 with the ratio 1 + 2^-k, hence
    ln(1 + 2^-k)-DP (Theorem 4.7), which is at most eps for k = ceil(log2(2/eps)).

    Attributes:
      count_limit: n, the number of people counted.
      exponent: k.
    """

    count_limit: int
    exponent: int

    @classmethod
    def stated(cls, epsilon: float, *, count_limit: int = 5, natural: bool = False) -> TruncatedGeometric:
        """Returns the mechanism that is claimed to be ``epsilon``-DP.

        Args:
          natural: Use the natural instead of the binary logarithm in k. This is a known mistake, with too little noise
            whenever ln(1 + 2^-k) then exceeds ``epsilon``.
        """
        log = math.log if natural else math.log2
        return cls(count_limit=count_limit, exponent=math.ceil(log(2 / epsilon)))

    def __call__(self, count: int, rng: np.random.Generator, runs: int) -> npt.NDArray[np.int64]:
        """Returns noisy counts in 0..n."""
        steps = self.steps(count)
        drawn = rng.integers(1, steps[-1], size=runs, endpoint=True)
        return np.searchsorted(np.array(steps), drawn).astype(np.int64)

    def steps(self, count: int) -> list[int]:
        """Returns the distribution function as integers, one per output 0..n, with the last as the denominator.

        With a = 2^k and b = 2^k + 1: F(z) is proportional to (a/b)^(count - z) below the count; from the count on,
        1 - F(z) is proportional to (a/b)^(z - count + 1). The common denominator is (2a + 1) b^(n - 1).

        Raises:
          InvalidArgumentError: The count is outside 0..n.
        """
        n, a = self.count_limit, 2**self.exponent
        b = a + 1
        if count not in range(n + 1):
            raise InvalidArgumentError("count", count, f"is outside 0..{n}", "give a count in this range")
        whole = (2 * a + 1) * b ** (n - 1)
        below = [a ** (count - z) * b ** (n - count + z) for z in range(count)]
        above = [whole - a ** (z - count + 1) * b ** (n - 1 - z + count) for z in range(count, n)]
        return [*below, *above, whole]

    def law(self, count: int) -> list[int]:
        """Returns the probability of each output times the last entry of ``steps``, as integers."""
        steps = self.steps(count)
        return [high - low for low, high in zip([0, *steps], steps, strict=False)]

    def epsilon(self, first: int, second: int) -> float:
        """Returns the exact pure epsilon between two counts."""
        pairs = list(zip(self.law(first), self.law(second), strict=True))
        return max(math.log(max(p, q) / min(p, q)) for p, q in pairs)
