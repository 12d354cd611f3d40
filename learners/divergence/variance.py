"""Divergences, and the variance of an estimate of KL(Pi || P) from samples of Pi as a function of the multiplier.

One query at x ~ Pi is λ·(r − 1) − ln r with r = P(x)/Pi(x). Its mean is KL(Pi || P) for every λ, and its
variance λ^2 chi2(P || Pi) - 2 λ J + Var(ln r): exactly a parabola, with vertex J/chi2(P || Pi).

Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478), section 4, bound the variance (Theorem 4.4, true) and take the
vertex of the bound for that of the variance (Corollary 4.5: false); both are here beside the correct statements.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real

_TOLERANCE = 1e-9
_NEAR = 1e-4  # |r - 1| below which r - 1 - ln r loses digits


def _laws(pi: npt.ArrayLike, p: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    first = array("pi", pi, ndim=1, low=0.0)
    second = array("p", p, shape=first.shape, low=0.0)
    for name, law in (("pi", first), ("p", second)):
        if not (law > 0.0).all():
            raise InvalidArgumentError(name, "...", "has a symbol of no mass", "divergences need full support")
        if abs(math.fsum(law) - 1.0) > _TOLERANCE:
            raise InvalidArgumentError(name, math.fsum(law), "is not a sum of 1")
    return first, second


def query(ratios: npt.ArrayLike, multiplier: float) -> FloatArray:
    """Returns λ·(r − 1) − ln r for ratios of any shape, without loss of digits near r = 1.

    Raises:
        InvalidArgumentError: a ratio is not positive and finite, or the multiplier is negative.
    """
    r = array("ratios", ratios)
    if not (r > 0.0).all():
        raise InvalidArgumentError("ratios", "...", "holds one that is not positive", "smooth the counts")
    lam, u = real("multiplier", multiplier, low=0.0), r - 1.0
    # ln(1 + u) = u - u^2/2 + u^3/3 - ..., whose first term cancels for λ = 1
    series = u * u * (0.5 - u * (1.0 / 3.0 - u * (0.25 - u * (0.2 - u / 6.0))))
    beyond = np.where(np.abs(u) < _NEAR, series, u - np.log1p(u))
    return np.asarray((lam - 1.0) * u + beyond)


def kl(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Returns KL(first || second), by terms that are never negative.

    Raises:
        InvalidArgumentError: the laws lack full support, have different shapes, or do not sum to 1.
    """
    p, q = _laws(first, second)
    return float(p @ query(q / p, 1.0)) + float((p - q).sum())


def jeffreys(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Returns J = KL(first || second) + KL(second || first)."""
    return kl(first, second) + kl(second, first)


def chi_square(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Returns chi2(first || second) = sum (first - second)^2/second."""
    p, q = _laws(first, second)
    return float(((p - q) ** 2 / q).sum())


@frozen(kw_only=True)
class Parabola:
    """The variance of T averaged queries, quadratic in the multiplier; without noise.

    Attributes:
        samples: T.
        square: chi2(P || Pi).
        cross: J.
        constant: Var(ln r).
    """

    samples: int
    square: float
    cross: float
    constant: float

    def variance(self, multiplier: float) -> float:
        """Returns the variance at a multiplier."""
        lam = real("multiplier", multiplier)
        return (lam * lam * self.square - 2.0 * lam * self.cross + self.constant) / self.samples

    @property
    def best_multiplier(self) -> float:
        """J/chi2(P || Pi), and the limit 1 if P = Pi. It depends on P, hence is private data."""
        return self.cross / self.square if self.square > 0.0 else 1.0

    @property
    def least(self) -> float:
        """The variance at the best multiplier."""
        return max(0.0, self.constant - self.cross * self.best_multiplier) / self.samples


def parabola(pi: npt.ArrayLike, p: npt.ArrayLike, *, samples: int) -> Parabola:
    """Returns the exact variance of the estimate from T draws of Pi, with P known exactly.

    Raises:
        InvalidArgumentError: as for :func:`kl`, or ``samples`` < 1.
    """
    first, second = _laws(pi, p)
    logs = np.log(second / first)
    centred = logs - float(first @ logs)
    return Parabola(
        samples=integer("samples", samples, low=1),
        square=chi_square(second, first),
        cross=jeffreys(first, second),
        constant=float(first @ centred**2),
    )


def printed_variance_bound(pi: npt.ArrayLike, p: npt.ArrayLike, multiplier: float, *, samples: int) -> float:
    """Returns ((a - 1) l^2 + max(a - 1, b^2 - 1) + KL^2 - 2 l J)/T, the bound of Theorem 4.4 without noise.

    Here a = max P/Pi and b = max Pi/P. The bound is true; :func:`variance_bound` is below it.
    """
    first, second = _laws(pi, p)
    alpha, beta = float((second / first).max()), float((first / second).max())
    lam = real("multiplier", multiplier, low=0.0)
    found = lam**2 * (alpha - 1.0) + max(alpha - 1.0, beta**2 - 1.0) + kl(first, second) ** 2
    return (found - 2.0 * lam * jeffreys(first, second)) / integer("samples", samples, low=1)


def variance_bound(pi: npt.ArrayLike, p: npt.ArrayLike, multiplier: float, *, samples: int) -> float:
    """Returns (l^2 chi2(P || Pi) - 2 l J + chi2(Pi || P) - KL^2)/T, from ln^2 r <= (r - 1)^2/r."""
    first, second = _laws(pi, p)
    lam = real("multiplier", multiplier, low=0.0)
    found = lam**2 * chi_square(second, first) - 2.0 * lam * jeffreys(first, second)
    return (found + chi_square(first, second) - kl(first, second) ** 2) / integer("samples", samples, low=1)


def multiplier_bracket(pi: npt.ArrayLike, p: npt.ArrayLike) -> tuple[float, float]:
    """Returns [ln a/(a - 1), b ln b/(b - 1)], which contains the best multiplier and 1.

    With a and b as in the printed bound: J/chi2 is a mean of ln r/(r - 1), which decreases in r, with weights (r -
    1)^2.
    """
    first, second = _laws(pi, p)
    ends = []
    for ratio in (float((second / first).max()), float((second / first).min())):
        ends.append(math.log(ratio) / (ratio - 1.0) if ratio != 1.0 else 1.0)
    return ends[0], ends[1]


def printed_multiplier(pi: npt.ArrayLike, p: npt.ArrayLike) -> float:
    """Returns J/(a - 1), the vertex of the printed bound, which is at most the best multiplier.

    Raises:
        InvalidArgumentError: P = Pi, where it is undefined.
    """
    first, second = _laws(pi, p)
    alpha = float((second / first).max())
    if alpha <= 1.0:
        raise InvalidArgumentError("p", "...", "is pi itself: the printed multiplier is undefined", "use any other")
    return jeffreys(first, second) / (alpha - 1.0)


def printed_multiplier_bound(pi: npt.ArrayLike, p: npt.ArrayLike) -> float:
    """Returns (ab - 1)^2/(2ab(a - 1)), the upper bound of Corollary 4.5 on the printed multiplier only.

    Raises:
        InvalidArgumentError: P = Pi, where it is undefined.
    """
    first, second = _laws(pi, p)
    alpha, beta = float((second / first).max()), float((first / second).max())
    if alpha <= 1.0:
        raise InvalidArgumentError("p", "...", "is pi itself: the printed bound is undefined")
    return (alpha * beta - 1.0) ** 2 / (2.0 * alpha * beta * (alpha - 1.0))
