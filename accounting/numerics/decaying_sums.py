"""Sums that decay from one term to the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas


def decaying(terms: NDArray[np.float64], decay: float) -> NDArray[np.float64]:
    """Returns y with y_i = terms_i + decay·y_{i−1}: of two roundings a term, and no cancellation where all are ≥ 0.

    It is the solution of a system of equations with two diagonals. SciPy's filters do the same, and take a second to
    import.
    """
    diagonals = np.empty((2, len(terms)), order="F")
    diagonals[0], diagonals[1] = 1.0, -decay
    return np.asarray(blas.dtbsv(1, diagonals, terms, lower=1, diag=1))
