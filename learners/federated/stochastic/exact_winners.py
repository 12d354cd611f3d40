"""Exact laws of the winners of the federated stochastic learner on tiny instances, to test its certificates.

:func:`leaf_law` has the winner of one leaf, by a one-dimensional integral, also for noise that is the sum of m Laplace
variables. If an adversary sees only the winners and colludes with nobody, the noise of all m clients protects each of
them, and this law says how well. No certificate relies on it. Laws are arrays of logarithms of probabilities;
:func:`losses` returns the exact privacy losses between two of them.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.common.exact_loss import ExactLoss, LossLaw
from hockeystick.mechanisms import NoisyMax
from hockeystick.mechanisms.selection.common import log_integrals, panels

_ACCURACY = 1e-9  # of a log-ratio, by quadrature
_REACH = 45.0  # in scales; less than 1e-19 of the noise's mass lies beyond


# --- one leaf --------------------------------------------------------------------------------------------------------


def leaf_law(scores: npt.ArrayLike, *, scale: float, noise: str = "laplace", summands: int = 1) -> FloatArray:
    """Returns ln P(n has the least noisy score), shape (d,).

    Args:
        scores: Shape (d,).
        scale: The scale of the noise, or of each summand.
        noise: "laplace", "gumbel" or "exponential" (the last two are subtracted).
        summands: m: the noise on a score is the sum of m independent Laplace variables.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a sum of noise other than Laplace.
    """
    values = array("scores", scores, ndim=1)
    scale = real("scale", scale, low=0.0, low_open=True)
    m = integer("summands", summands, low=1, high=200)
    if m == 1:
        return np.asarray(NoisyMax(scale, noise, minimum=True).log_probabilities(values))
    if noise != "laplace":
        raise InvalidArgumentError("noise", noise, "is not supported with summands > 1", 'use "laplace" or summands=1')
    units = (values - values.min()) / scale
    width = _REACH + 3.0 * math.sqrt(2.0 * m)
    edges = np.unique(np.concatenate([units, np.arange(-width, float(units.max()) + width, 0.5)]))
    nodes, weights = panels(edges)  # smooth between the edges: the noise has its kink at 0

    def log_integrand(x: FloatArray) -> FloatArray:
        density, survival = _sum_of_laplaces(x - units, m)
        return np.asarray(density + survival.sum(axis=1, keepdims=True) - survival)

    return log_integrals(nodes, weights, log_integrand, len(units))


def _sum_of_laplaces(x: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    """ln density and ln P(> x) of the sum of m Laplace variables of scale 1: the difference of two gamma variables.

    Run both as Poisson processes. If the second has its m-th arrival first, when the first has had m - k, the
    difference is a gamma variable of shape k; that has probability C(2m-1-k, m-1) 2^-(2m-k).
    """
    k = np.arange(1, m + 1)
    weights = special.gammaln(2 * m - k) - special.gammaln(m) - special.gammaln(m - k + 1) - (2 * m - k) * math.log(2.0)
    size = np.abs(x)[..., None]
    with np.errstate(divide="ignore"):
        density = special.logsumexp(weights + special.xlogy(k - 1, size) - size - special.gammaln(k), axis=-1)
        upper = np.log(np.sum(np.exp(weights) * special.gammaincc(k, size), axis=-1))
    return np.asarray(density), np.where(x >= 0.0, upper, np.log1p(-np.exp(upper)))


def losses(law0: npt.ArrayLike, law1: npt.ArrayLike) -> ExactLoss:
    """Returns the exact privacy losses between two laws: logarithms of probabilities, of equal shapes.

    Raises:
        InvalidArgumentError: the shapes differ.
    """
    p, q = np.asarray(law0, dtype=float).ravel(), np.asarray(law1, dtype=float).ravel()
    if np.shape(law0) != np.shape(law1):
        raise InvalidArgumentError(
            "law1", np.shape(law1), f"is not the shape {np.shape(law0)} of law0", "use equal phases"
        )
    forward, backward = _loss_law(p, q), _loss_law(q, p)
    return ExactLoss((forward, forward), (backward, backward))


def _loss_law(p: FloatArray, q: FloatArray) -> LossLaw:
    possible = p > -math.inf
    ratios, masses = p[possible] - q[possible], np.exp(p[possible])
    order = np.argsort(ratios)
    ratios, masses = ratios[order], masses[order]
    finite = np.isfinite(ratios)
    return LossLaw(ratios[finite], masses[finite], float(masses[~finite].sum()), _ACCURACY)
