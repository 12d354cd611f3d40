"""Weights of residuals such that the largest variance of a marginal's cell is small for their cost.

With s_A = 1/w_A², the variance of a marginal is a sum of s_A, and the squared distance of neighbours a sum of 1/s_A,
for the worst set of changed columns. The logarithms of both are convex in ln s_A, and so is the largest of each. Their
sum is minimised with the largest replaced by a smooth one. A search that ends early costs accuracy alone: the distance
is computed from the weights that were taken.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import optimize, special

from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.counts.marginal_sums import UNIT, MarginalSums, moved_products, subsets

_SHARP = 60.0  # of the smooth maximum: it is above the largest of m numbers by at most ln(m)/60
_ALL_SETS = 8  # columns up to which all sets of changed ones are in the search
_STEPS = 300


@lru_cache(maxsize=16)
def residual_weights(of: MarginalSums) -> tuple[int, ...]:
    """Returns a weight for each residual, in units of 2^-24, the largest being 1."""
    variances, moves = _variances(of), _moves(of)

    def loss(logs: FloatArray) -> tuple[float, FloatArray]:
        found, slope = 0.0, np.zeros_like(logs)
        for rows, sign in ((variances, 1.0), (moves, -1.0)):
            terms = rows * np.exp(sign * logs)
            sums = terms.sum(axis=1)
            ln = np.log(sums)
            found += float(special.logsumexp(_SHARP * ln)) / _SHARP
            slope += sign * (special.softmax(_SHARP * ln) / sums) @ terms
        return found, slope

    found = optimize.minimize(
        loss, np.zeros(len(of.residuals)), jac=True, method="L-BFGS-B", options={"maxiter": _STEPS}
    )
    roots = np.exp(-0.5 * (found.x - found.x.min()))
    return tuple(max(1, math.floor(root / UNIT)) for root in roots)


def _variances(of: MarginalSums) -> FloatArray:
    """The variance of each marginal's cells as a sum over residuals, shape (asked, residuals)."""
    place = {one: at for at, one in enumerate(of.residuals)}
    found = np.zeros((len(of.asked), len(place)))
    for row, columns in zip(found, of.asked, strict=True):
        for one in subsets(columns):
            if one in place:
                left = math.prod(of.sizes[i] for i in columns if i not in one)
                row[place[one]] = math.prod(1.0 - 1.0 / of.sizes[i] for i in one) / left**2
    return found[found.any(axis=1)]


def _moves(of: MarginalSums) -> FloatArray:
    """The squared distance of neighbours as a sum over residuals, shape (changes, residuals)."""
    if not of.total_known:
        return np.array([[math.prod(1.0 - 1.0 / of.sizes[i] for i in one) for one in of.residuals]])
    most = None if len(of.sizes) <= _ALL_SETS else 2
    rows = np.concatenate(list(moved_products(of.sizes, of.residuals, most)))
    return np.unique(2.0 * rows[rows.any(axis=1)], axis=0)
