"""Rejection from cells: each cell of a partition is proposed with a weight that is surely large enough.

The density to draw from is known up to a factor. In each cell it has an upper bound. A cell is proposed with odds
that are at least the bound times the cell's size, rounded up to whole numbers; the place in it is uniform; and the
place is kept with the probability density/(odds per size). Any odds that are large enough give the same law, so
floating point may compute them. The choice of a cell is exact.

A coin with the probability of keeping is decided in floating point unless the first digits of its uniform number are
within a bound on the rounding error, which is then settled in as many digits as necessary. The bound takes the errors
of numpy's exp and log to be below 2^-44 of a probability, or of a logarithm; tests hold them to it.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import NumericalError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy.convex.sampling.open_reals import FIRST
from hockeystick.mechanisms.randomness.noise import Noise

_UNIT = 40  # the weights of all cells of a density add up to about 2^_UNIT
_ERROR = 2.0**-44
_TAIL = np.sinh(0.25 * np.arange(-18, 19))  # edges, in deviations from the mode: equal near it, then growing
_LEAST_EDGE = 2.0**-100  # edges nearer to 0, relative to the largest, become 0

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]


def edges(mode: FloatArray, deviation: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Returns edges of cells from ``low`` to ``high`` for densities with such modes, shape (m, number of edges)."""
    inner = np.clip(mode[:, None] + deviation[:, None] * _TAIL, low[:, None], high[:, None])
    inner[np.abs(inner) < _LEAST_EDGE * np.abs(inner).max(axis=1, keepdims=True)] = 0.0
    inner = np.clip(inner, low[:, None], high[:, None])
    return np.concatenate([low[:, None], inner, high[:, None]], axis=1)


def nearest(mode: FloatArray | float, low: FloatArray, high: FloatArray) -> FloatArray:
    """Returns where between ``low`` and ``high`` a log-concave density with such a mode is largest."""
    return np.clip(mode, low, high)


class Cells:
    """Weighted cells of m densities.

    Args:
        log_bound: ln of each cell's upper bound on its density, shape (m, cells); -inf for a cell to leave out.
        log_size: ln of each cell's size, same shape.
        error: Bounds on the absolute error of ``log_bound``, same shape, or (m, 1).

    Raises:
        NumericalError: the error is not small where the mass is.
    """

    def __init__(self, log_bound: FloatArray, log_size: FloatArray, error: FloatArray) -> None:
        with np.errstate(invalid="ignore"):
            mass = np.where(np.isneginf(log_bound) | np.isneginf(log_size), -np.inf, log_bound + log_size)
        top = mass.max(axis=1, keepdims=True)
        if not np.max(np.where(mass > top - 50.0, error, 0.0)) < 0.5:
            raise NumericalError("densities vary by too many orders of magnitude for exact draws")
        share = np.exp(mass - top)
        self._level: FloatArray = (top[:, 0] + np.log(share.sum(axis=1))) - _UNIT * math.log(2.0)
        # 1e-9 is far above the rounding error of exponentials and logarithms, and of a sum of a few terms.
        raised = np.exp(mass - self._level[:, None] + error + 1e-9)
        self._weights: Indices = np.where(np.isneginf(mass), 0, np.ceil(raised) + 1.0).astype(np.int64)
        self._sums: Indices = np.cumsum(self._weights, axis=1)
        self._total = int(self._sums[:, -1].max())
        self._log_size = log_size

    def proposed(self, noise: Noise, which: Indices) -> tuple[Indices, Bools]:
        """Returns a cell of each of the densities ``which``, and whether one was found; without one, try again."""
        drawn = noise.uniform(self._total, which.size)
        if len(self._sums) == 1:
            return np.searchsorted(self._sums[0], drawn, side="right"), np.ones(which.size, dtype=np.bool_)
        sums = self._sums[which]
        return (sums <= drawn[:, None]).sum(axis=1), drawn < sums[:, -1]

    def log_height(self, which: Indices, cell: Indices) -> FloatArray:
        """Returns ln(odds per size) of cells, in floating point."""
        return np.asarray(self._level[which] + np.log(self._weights[which, cell]) - self._log_size[which, cell])

    def exact_log_height(self, which: int, cell: int, size: Fraction) -> Decimal:
        """Returns ln(odds per size) of a cell of the given size, in the current context, up to a few roundings."""
        weight = Decimal(int(self._weights[which, cell])) * size.denominator / size.numerator
        return Decimal(float(self._level[which])) + weight.ln()


def decided(coin: Indices, log_chance: FloatArray, error: FloatArray) -> tuple[Bools, Bools]:
    """Returns whether coins with first digits ``coin`` show heads, and which of them are open.

    Args:
        coin: The first digits of uniform numbers.
        log_chance: ln of the probabilities of heads, in floating point.
        error: Bounds on the absolute errors of ``log_chance``.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        chance, margin = np.exp(np.minimum(log_chance, 1.0)), 2.0 * (error + _ERROR)
        given = coin * 2.0**-FIRST
        heads = given < chance * (1.0 - margin) - 2.0**-FIRST
        tails = given > chance * (1.0 + margin) + 2.0**-FIRST
    # A chance that is not surely below 1 is computed in more digits, and so is one with a large error.
    certain = (log_chance < -error) & (error < 0.1)
    certain |= np.isneginf(log_chance) & (error < 0.1)
    return heads & certain, ~((heads | tails) & certain)


def rounding(*terms: FloatArray) -> FloatArray:
    """Returns a bound on the error of a sum of ``terms``, each of a few operations on the smallest terms of a sum."""
    return np.asarray(_ERROR * (1.0 + sum(np.abs(term) for term in terms)))
