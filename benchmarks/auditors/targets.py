"""Targets whose privacy is known exactly, for rating auditors: tight where the factor is 1, broken where it is above.

Every target draws outputs on two neighbouring data sets, the first of which makes its best event likelier, and knows
the law of its likelihood ratio, so that the limits of :mod:`hockeystick.audits.bounds.sample_limits` are known too.
Outputs are whole numbers or lie on a grid of 2^-20, so that no auditor sees more than real numbers show.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from attrs import frozen
from scipy import optimize, special

from hockeystick import accounting
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import probability, real
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.claims.law_pairs import LawPair

Draw = Callable[[np.random.Generator, int], tuple[FloatArray, FloatArray]]

_GRID = 2.0**20
_COORDINATES = 3
_CELLS = 400


@frozen(eq=False)
class AuditorTarget:
    """A mechanism of known privacy, with the facts that an auditor may get.

    Attributes:
      name: unique.
      factor: its epsilon at the claim's delta as a multiple of the claimed one; 1: the claim holds with equality.
      claim: what the auditor is to refute.
      draw: outputs ``draw(rng, n)`` on (d0, d1), each of shape (n,).
      law: its two output laws by their likelihood ratio.
      point: the claimed (epsilon, delta) through which a violation shows best.
      event: that event is {output <= event}; it is likelier on d0.
    """

    name: str
    factor: float
    claim: Claim
    draw: Draw
    law: LawPair
    point: tuple[float, float]
    event: float


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Returns the exact profile of N(0, 1) against N(mu, 1) (Balle and Wang 2018, Theorem 8)."""
    return float(special.ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * special.ndtr(-mu / 2 - epsilon / mu))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Returns the distance, in standard deviations, at which Gaussian noise is exactly (epsilon, delta)-private."""
    epsilon = real("epsilon", epsilon, low=0.0, high=700.0)
    delta = probability("delta", delta, open=True)
    return float(optimize.brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-4, 60.0, xtol=1e-14, rtol=1e-14))


def laplace(epsilon: float, factor: float = 1.0) -> AuditorTarget:
    """Returns Laplace noise; the claim is (epsilon, 0)."""
    true = factor * epsilon

    def draw(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        return _grid(rng.laplace(scale=1 / true, size=n)), _grid(1 + rng.laplace(scale=1 / true, size=n))

    law = LawPair.laplace(true, cells=_CELLS)
    return AuditorTarget(_name("laplace", epsilon, 0.0, factor), factor, Claim(epsilon), draw, law, (epsilon, 0.0), 0.0)


def geometric(epsilon: float, factor: float = 1.0) -> AuditorTarget:
    """Returns two-sided geometric noise (Ghosh, Roughgarden and Sundararajan 2012); the claim is (epsilon, 0)."""
    true = factor * epsilon

    def draw(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        coins = rng.geometric(-math.expm1(-true), (4, n)).astype(float)
        return coins[0] - coins[1], 1 + coins[2] - coins[3]

    law = _response(true)
    return AuditorTarget(
        _name("geometric", epsilon, 0.0, factor), factor, Claim(epsilon), draw, law, (epsilon, 0.0), 0.0
    )


def randomised_response(epsilon: float, factor: float = 1.0) -> AuditorTarget:
    """Returns randomised response on one bit, true with probability e^epsilon/(1 + e^epsilon)."""
    true = factor * epsilon

    def draw(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        lie = 1 / (1 + math.exp(true))
        return (rng.random(n) < lie).astype(float), (rng.random(n) >= lie).astype(float)

    name = _name("randomised response", epsilon, 0.0, factor)
    return AuditorTarget(name, factor, Claim(epsilon), draw, _response(true), (epsilon, 0.0), 0.0)


def leaky_response(epsilon: float, delta: float, factor: float = 1.0) -> AuditorTarget:
    """Returns randomised response that reveals the bit with probability delta, tight at every (epsilon, delta)."""
    true = factor * epsilon

    def draw(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        lie, sides = 1 / (1 + math.exp(true)), []
        for bit in (0.0, 1.0):
            told = np.where(rng.random(n) < lie, 1 - bit, bit)
            sides.append(np.where(rng.random(n) < delta, 3 * bit - 1, told))  # -1 and 2 reveal the bit
        return sides[0], sides[1]

    p = np.array([delta, *((1 - delta) * _response(true).below[0]), 0.0])
    name = _name("leaky response", epsilon, delta, factor)
    return AuditorTarget(name, factor, Claim(epsilon, delta), draw, LawPair.finite(p, p[::-1]), (epsilon, delta), 0.0)


def gaussian(epsilon: float, delta: float, factor: float = 1.0, *, curve: bool = False) -> AuditorTarget:
    """Returns Gaussian noise; the claim is its exact (epsilon, delta), or the whole curve of which that is a point."""
    claimed, mu = gaussian_mu(epsilon, delta), gaussian_mu(factor * epsilon, delta)
    return gaussian_shift(epsilon, delta, claimed, mu, factor, curve=curve)


def gaussian_shift(
    epsilon: float, delta: float, claimed: float, mu: float, factor: float, *, curve: bool
) -> AuditorTarget:
    """Returns N(0, 1) and N(mu, 1) where ``claimed`` would be mu if (epsilon, delta) were true."""

    def draw(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        return _grid(rng.standard_normal(n)), _grid(mu + rng.standard_normal(n))

    claim = Claim.curve(accounting.Gaussian(1 / claimed), delta) if curve else Claim(epsilon, delta)
    at = np.linspace(-8.0, 8.0 + mu, 1601)
    p, q = special.ndtr(at), special.ndtr(at - mu)
    best = (-math.inf, claim.points[0], 0.0)
    for point in claim.points:
        ratio = math.exp(point[0])
        worth = (p - ratio * q - point[1]) / np.sqrt(p * (1 - p) + ratio**2 * q * (1 - q) + 1e-12)
        best = max(best, (float(worth.max()), point, float(at[worth.argmax()])))
    name = _name("gaussian curve" if curve else "gaussian", epsilon, delta, factor)
    return AuditorTarget(name, factor, claim, draw, LawPair.gaussian(mu, cells=_CELLS), best[1], best[2])


def mixed(epsilon: float, factor: float = 1.0) -> AuditorTarget:
    """Returns Laplace noise or, as often and in sight, randomised response far out on either side."""
    true = factor * epsilon

    def draw(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        lie, sides = 1 / (1 + math.exp(true)), []
        for bit in (0, 1):
            told = 200.0 * ((rng.random(n) < lie) != bool(bit)) - 100.0
            sides.append(np.where(rng.random(n) < 0.5, told, _grid(bit + rng.laplace(scale=1 / true, size=n))))
        return sides[0], sides[1]

    parts = LawPair.laplace(true, cells=_CELLS), _response(true)
    law = LawPair(*(np.concatenate([0.5 * getattr(part, end) for part in parts], axis=1) for end in ("below", "above")))
    return AuditorTarget(_name("mixed", epsilon, 0.0, factor), factor, Claim(epsilon), draw, law, (epsilon, 0.0), 0.0)


def vector(epsilon: float, factor: float = 1.0) -> AuditorTarget:
    """Returns three coordinates of Laplace noise, summed up by their log-likelihood ratio (with the sign reversed)."""
    each = factor * epsilon / _COORDINATES

    def score(noise: FloatArray) -> FloatArray:
        return _grid(each * (np.abs(noise) - np.abs(noise - 1)).sum(axis=1))

    def draw(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        noise = rng.laplace(scale=1 / each, size=(2, n, _COORDINATES))
        return score(noise[0]), score(1 + noise[1])

    law = LawPair.of_event(accounting.compose((accounting.Laplace(1 / each), _COORDINATES)), step=epsilon / 256)
    edge = -factor * epsilon + 2 / _GRID
    return AuditorTarget(_name("vector", epsilon, 0.0, factor), factor, Claim(epsilon), draw, law, (epsilon, 0.0), edge)


def tight_targets() -> tuple[AuditorTarget, ...]:
    """Returns correct targets whose claim holds with equality: an audit should refute none."""
    return tuple(make() for make in TIGHT)


def broken_targets() -> tuple[AuditorTarget, ...]:
    """Returns targets that claim too little: an audit should refute each, from as few samples as it can."""
    return tuple(make() for make in BROKEN)


TIGHT: tuple[Callable[[], AuditorTarget], ...] = (
    partial(laplace, 0.1),
    partial(laplace, 1.0),
    partial(laplace, 4.0),
    partial(geometric, 1.0),
    partial(randomised_response, 1.0),
    partial(leaky_response, 1.0, 0.05),
    partial(gaussian, 1.0, 0.01),
    partial(gaussian, 1.0, 0.01, curve=True),
    partial(mixed, 1.0),
    partial(vector, 1.0),
)
BROKEN: tuple[Callable[[], AuditorTarget], ...] = (
    partial(laplace, 1.0, 1.1),
    partial(laplace, 1.0, 1.5),
    partial(laplace, 1.0, 2.0),
    partial(laplace, 4.0, 1.5),
    partial(geometric, 1.0, 1.5),
    partial(leaky_response, 1.0, 0.05, 1.5),
    partial(gaussian, 1.0, 0.01, 2.0),
    partial(gaussian, 1.0, 0.01, 1.5, curve=True),
    partial(mixed, 1.0, 1.5),
    partial(vector, 1.0, 2.0),
)


def _response(epsilon: float) -> LawPair:
    truth = 1 / (1 + math.exp(-epsilon))
    return LawPair.finite([truth, 1 - truth], [1 - truth, truth])


def _grid(values: FloatArray) -> FloatArray:
    return np.asarray(np.round(values * _GRID) / _GRID)


def _name(family: str, epsilon: float, delta: float, factor: float) -> str:
    at = f"({epsilon:g}, {delta:g})" if delta else f"{epsilon:g}"
    return f"{family} {at}" + (f", true {factor:g}x" if factor != 1 else "")
