"""The largest of many sums of Laplace noises: what m clients' noise does to a minimum over d experts.

Each of m clients adds Laplace noise of scale 1 to each of d scores, and the server takes the minimum of the sums. By
how much that may miss the best score is twice the largest of d sums of m noises (:func:`selection_loss`), over m. Its
mean is here exactly (:func:`expected_maximum`) and bounded, for other weights than 1 too (:func:`maximum_bound`).

Gao, Huang & Yang 2024, Lemma 4, bound the mean by an integral that their proof evaluates wrongly where there are few
clients: :func:`printed_tail_integral` and :func:`tail_integral` stand side by side. All scales are 1: multiply results
by the noise's own.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.common.printed_claims import Condition

_MOST_EXACT = 4096  # noises in a sum, up to which its law is added up term by term
_PIECES, _NODES = 64, 32  # of the quadrature
_LOGITS = np.linspace(-24.0, 24.0, 2401)  # of the arguments u in (0, 1) at which the bound is looked at


# --- exactly ---------------------------------------------------------------------------------------------------------


def sum_tail(count: int, values: npt.ArrayLike) -> FloatArray:
    """P(|xi_1 + ... + xi_m| > y) for independent Laplace noises of scale 1, exactly.

    The sum is a signed gamma variable whose shape is random: m - j with probability 2 C(m-1+j, j) / 2^(m+j), for
    j = 0 .. m-1 (the partial fractions of its characteristic function).

    Args:
        count: m in 1 .. 4096.
        values: y >= 0, of any shape.

    Returns:
        The tails, in the shape of ``values``.
    """
    count = integer("count", count, low=1, high=_MOST_EXACT)
    y = array("values", values, low=0.0)
    j = np.arange(count)
    log_weights = special.gammaln(count + j) - special.gammaln(count) - special.gammaln(j + 1.0)
    weights = np.exp(log_weights - (count + j - 1) * math.log(2.0))
    found = np.zeros(y.shape)
    for index in np.flatnonzero(weights > 1e-18):
        found += weights[index] * special.gammaincc(float(count - index), y)
    return np.minimum(found, 1.0)


def expected_maximum(count: int, experts: int) -> float:
    """E max over d experts of |the sum of m noises|, by quadrature to about 1e-10 of itself.

    Args:
        count: m in 1 .. 4096.
        experts: d >= 1.
    """
    count = integer("count", count, low=1, high=_MOST_EXACT)
    experts = integer("experts", experts, low=1)
    end = 50.0 + math.log(experts) + 12.0 * math.sqrt(count * (1.0 + math.log(experts)))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = end / (2 * _PIECES)
    y = half * (2 * np.arange(_PIECES)[:, None] + 1 + nodes)
    tails = sum_tail(count, y)
    with np.errstate(divide="ignore"):  # all are within 0 with probability 0
        exceeded = -np.expm1(experts * np.log1p(-tails))
    return float(half * np.sum(exceeded * weights))


# --- bounded ---------------------------------------------------------------------------------------------------------


def maximum_bound(weight: float, candidates: float) -> float:
    """A bound on E max of N variables, each a sum of independent Laplace noises with weights a_k in [-1, 1].

    It is min over u in (0, 1) of (ln N - W ln(1 - u^2)) / u, where W = sum of a_k^2 for every variable: E max <=
    ln(sum of E exp(u Y)) / u, and -ln(1 - a^2 u^2) <= -a^2 ln(1 - u^2), as ln is concave. The variables may depend on
    each other. For the largest absolute value of d variables take N = 2d.

    Args:
        weight: W >= 0; a plain sum of m noises has W = m.
        candidates: N >= 1.
    """
    weight = real("weight", weight, low=0.0)
    log_count = math.log(real("candidates", candidates, low=1.0))
    # Any u gives a bound. -ln(1 - u^2) is written so that neither end rounds.
    u = special.expit(_LOGITS)
    cost = -special.log_expit(-_LOGITS) - np.log1p(u)
    return float(np.min((log_count + weight * cost) / u))


def simple_maximum_bound(count: int, experts: int) -> float:
    """max(2 sqrt(2 m ln 2d), 4 ln 2d): the same in closed form, for E max over d experts of |the sum of m noises|.

    u = sqrt(ln(2d) / 2m) where that is at most 1/2, else u = 1/2, with -ln(1 - u^2) <= 2 u^2.
    """
    log_count = math.log(2.0 * integer("experts", experts, low=1))
    return max(2.0 * math.sqrt(2.0 * integer("count", count, low=1) * log_count), 4.0 * log_count)


# --- the printed proof -----------------------------------------------------------------------------------------------


def printed_tail_integral(count: int, experts: int) -> Condition:
    """The step of the printed proof of Lemma 4: the integral of e^-u from m/2 - ln d on is at most ln d + 1.

    (Gao, Huang & Yang 2024; the lower limit is misprinted as 2/m - ln d.) The integral is d e^(-m/2), so that the step
    does not hold where m/2 is far below ln d, as for one client and 100 experts: 60.7 against 5.6.
    """
    count, experts = integer("count", count, low=1), integer("experts", experts, low=1)
    value, limit = experts * math.exp(-count / 2.0), math.log(experts) + 1.0
    return Condition("the integral of e^-u from m/2 - ln d on is at most ln d + 1", value, limit, value <= limit)


def tail_integral(count: int, experts: int) -> float:
    """The integral of min(1, e^-u) from m/2 - ln d on: with the probability cut at 1 it is at most ln d + 1, always."""
    start = integer("count", count, low=1) / 2.0 - math.log(integer("experts", experts, low=1))
    return math.exp(-start) if start >= 0.0 else 1.0 - start


# --- what the noise costs --------------------------------------------------------------------------------------------


@frozen
class SelectionLoss:
    """What the noisily least score is above the least one, and its bound (2/m) max_n |sum of the noises of n|."""

    loss: FloatArray
    bound: FloatArray


def selection_loss(scores: npt.ArrayLike, noises: npt.ArrayLike) -> SelectionLoss:
    """The loss of choosing by the clients' noisy mean, on every path of the noise (Gao, Huang & Yang 2024, Lemma 5).

    Args:
        scores: Shape (d,): what the clients' scores are on average.
        noises: Shape (runs, m, d).

    Returns:
        Loss and bound, each of shape (runs,).

    Raises:
        InvalidArgumentError: shapes that do not fit, or numbers that are not finite.
    """
    values = array("scores", scores, ndim=1)
    drawn = array("noises", noises, shape=(None, None, len(values)))
    if not values.size or not drawn.shape[1]:
        raise InvalidArgumentError("noises", drawn.shape, "has no clients or no scores", "give at least one of each")
    mean = drawn.mean(axis=1)
    chosen = np.argmin(values + mean, axis=1)
    return SelectionLoss(values[chosen] - values.min(), 2.0 * np.abs(mean).max(axis=1))
