"""Masses of integer noise on −reach … reach, by textbook formulas that are not those of the package.

They are the masses of the whole law: the tables are cut off, not divided by what they hold.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special


def discrete_laplace(scale: float, reach: int) -> NDArray[np.float64]:
    """In proportion to e^(−|k|/scale)."""
    return np.asarray(np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale) * math.tanh(1 / (2 * scale)))


def discrete_gaussian(sigma: float, reach: int) -> NDArray[np.float64]:
    """In proportion to e^(−k²/2σ²); the whole is the sum to 40 σ."""
    k, whole = np.arange(-reach, reach + 1), np.arange(-math.ceil(40 * sigma), math.ceil(40 * sigma) + 1)
    return np.asarray(np.exp(-0.5 * (k / sigma) ** 2) / np.exp(-0.5 * (whole / sigma) ** 2).sum())


def skellam(variance: float, reach: int) -> NDArray[np.float64]:
    """The difference of two Poisson numbers of mean variance/2: e^−variance times a Bessel function."""
    return np.asarray(special.ive(np.abs(np.arange(-reach, reach + 1)), variance))
