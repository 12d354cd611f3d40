"""Array moments E[e^{zL}] of privacy losses L, exact or by sums with a stated error.

What the contour engine (``engines/contour_integral.py``) knows of an event. With z = c + it every law returns

* ``log_moment(c)``: k = ln E_P[e^{cL}; L < ∞] and a bound on its rounding;
* ``line(c, step, count)``: φ(t) = E_P[e^{(c+it)L}; L < ∞]·e^{−k} at t = 0, step, 2·step, ... with an absolute error;
* ``log_envelope(c, t)``: a bound on ln |φ(t')| for all t' ≥ t.

Nothing is put on a grid of losses where a formula exists: Gaussian noise, exponential losses (Laplace noise, bounded
range), finitely many atoms, visible mixtures and compositions; a sampled Gaussian is in
``losses/normal_mixture_moments.py``. Any other pair is replaced by one of finitely many losses above or below it
(``discretised``).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Sequence

import numpy as np
from attrs import frozen

from hockeystick.accounting.errors import NumericalError
from hockeystick.accounting.losses.dominating_pairs import MASS_ERROR, RATIO_ERROR, Array, DominatingPair
from hockeystick.accounting.numerics.directed_rounding import U
from hockeystick.accounting.numerics.work_limit import Work

_BLOCK = 512
_CELLS = 4096


@frozen(eq=False)
class Line:
    """φ on a vertical line, each value within ``error`` of the true one."""

    phi: Array
    error: Array


class Law(abc.ABC):
    """The law under P of a privacy loss, seen through its moments."""

    def infinity(self) -> float:
        """Returns P's mass where Q has none."""
        return 0.0

    @abc.abstractmethod
    def top(self) -> float:
        """Returns the largest finite loss; inf if there is none."""

    @abc.abstractmethod
    def log_moment(self, c: float) -> tuple[float, float]:
        """Returns ln E[e^{cL}; L < ∞], c ≥ 0, and a bound on its rounding."""

    @abc.abstractmethod
    def line(self, c: float, step: float, count: int) -> Line:
        """Returns φ at 0, step, ..., (count − 1)·step."""

    def log_envelope(self, c: float, t: float) -> float:
        """Returns a bound on ln |φ(t')| over all t' ≥ t > 0; it does not increase with t."""
        return 0.0

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """Returns ln E[e^{cL}; L < ∞] and its first two derivatives at c > 0, to a few digits: they lead a search."""
        d = 0.02 * c
        low, k, high = (self.log_moment(x)[0] for x in (c - d, c, c + d))
        return k, (high - low) / (2 * d), max(0.0, (high + low - 2 * k) / (d * d))

    def terms(self, c: float) -> tuple[int, int]:
        """Returns how many terms are summed for the moment at c, and for each node of a line through c."""
        return 1, 1


@frozen
class GaussianLaw(Law):
    """Gaussian noise with μ² = ``variance``, which is also the variance of the loss; at 0 it costs nothing."""

    variance: float

    def top(self) -> float:
        return math.inf if self.variance else 0.0

    def log_moment(self, c: float) -> tuple[float, float]:
        k = c * (c + 1) * self.variance / 2
        # c + 1, two products and their half: 3 U, and U for the variance.
        return k, 8 * U * k

    def line(self, c: float, step: float, count: int) -> Line:
        t, turn = np.arange(count) * step, self.variance * (2 * c + 1) / 2
        decay = t * t * (self.variance / 2)
        size = np.exp(-decay)
        # Angle and exponent are off by 6 U of themselves at most, the turning by 8 U, the exponential by 2 U.
        return Line(size * turning(turn, step, count), size * (U * (16 + 6 * (turn * t) + 6 * decay)))

    def log_envelope(self, c: float, t: float) -> float:
        return -self.variance * t * t / 2

    def cumulants(self, c: float) -> tuple[float, float, float]:
        return c * (c + 1) * self.variance / 2, (2 * c + 1) * self.variance / 2, self.variance


@frozen
class ExponentialLaw(Law):
    """The law of an ``ExponentialLossPair``; see there."""

    reach: float
    density: float
    atom: float

    def top(self) -> float:
        return self.reach

    def _over_peak(self, c: float) -> float:
        """E[e^{cL}]·e^{−c·reach}."""
        x = -(1 + 2 * c) * self.reach
        return self.atom * (1 + math.exp(x)) - self.density * math.expm1(x) / (c + 0.5)

    def log_moment(self, c: float) -> tuple[float, float]:
        k = math.log(self._over_peak(c))
        # Over the peak all is off by 10 U, and −(1 + 2c)·reach by 3 U of itself; the sum and both terms by U each.
        return c * self.reach + k, U * (16 + 4 * c * self.reach + 4 * abs(k))

    def line(self, c: float, step: float, count: int) -> Line:
        t, r = np.arange(count) * step, self.reach
        x, half = -(1 + 2 * c) * r, t * r  # e^{−(1+2z)r} has modulus e^x and angle −2·half
        cosine, sine = np.cos(half), np.sin(half)
        # expm1 of a complex number without cancellation: expm1(x)·cos y − 2·sin²(y/2) + i·e^x·sin y
        less = np.empty(count, dtype=complex)
        less.real = math.expm1(x) * (cosine**2 - sine**2) - 2 * sine**2
        less.imag = (-2 * math.exp(x)) * (sine * cosine)
        over_peak = self.atom * (2 + less) - self.density * less / (c + 0.5 + 1j * t)
        phi = (cosine + 1j * sine) * over_peak / self._over_peak(c)
        # Angles are off by 2 U of themselves, x by 3 U; some twenty operations on numbers below 2 come besides.
        return Line(phi, U * (32 + 8 * abs(x) + 8 * half))

    def log_envelope(self, c: float, t: float) -> float:
        bound = (1 + math.exp(-(1 + 2 * c) * self.reach)) * (self.atom + self.density / math.hypot(c + 0.5, t))
        return min(0.0, math.log(bound / self._over_peak(c)))


@frozen(eq=False)
class AtomsLaw(Law):
    """Finitely many losses with their masses; the masses are all positive."""

    losses: Array
    log_p: Array
    at_infinity: float = 0.0

    @classmethod
    def of(cls, losses: Sequence[float] | Array, p: Sequence[float] | Array, at_infinity: float = 0.0) -> AtomsLaw:
        """Builds the law from masses, those that are 0 left out."""
        masses = np.asarray(p, dtype=float)
        seen = masses > 0.0
        return cls(np.asarray(losses, dtype=float)[seen], np.log(masses[seen]), min(1.0, at_infinity))

    def infinity(self) -> float:
        return self.at_infinity

    def top(self) -> float:
        return float(self.losses.max(initial=-math.inf))

    def terms(self, c: float) -> tuple[int, int]:
        return len(self.losses), len(self.losses)

    def _tilted(self, c: float) -> tuple[float, Array, float]:
        y = self.log_p + c * self.losses
        peak = float(y.max(initial=-math.inf))
        if peak == -math.inf:
            return -math.inf, np.zeros(0), 0.0
        w = np.exp(y - peak)
        total = float(w.sum())
        # Each exponent is off by an ulp or two of its parts; more exactly where the weight is.
        rounding = 4 * U * (8 + float(w @ (np.abs(self.log_p) + c * np.abs(self.losses))) / total + abs(peak))
        return peak + math.log(total), w / total, rounding

    def log_moment(self, c: float) -> tuple[float, float]:
        k, _, rounding = self._tilted(c)
        return k, rounding

    def line(self, c: float, step: float, count: int) -> Line:
        _, w, rounding = self._tilted(c)
        phi, error = oscillating_sum(w, self.losses, step, count)
        return Line(phi, error + rounding)


@frozen(eq=False)
class MixtureLaw(Law):
    """A visible mixture: ``inner`` with ``probability``, else the loss is 0."""

    probability: float
    inner: Law

    def infinity(self) -> float:
        return self.probability * self.inner.infinity()

    def top(self) -> float:
        return max(0.0, self.inner.top())

    def terms(self, c: float) -> tuple[int, int]:
        return self.inner.terms(c)

    def _weights(self, c: float) -> tuple[float, float, float, float]:
        """ln E[e^{cL}], the tilted weights of "nothing" and of the inner event, and the rounding."""
        k, rounding = self.inner.log_moment(c)
        nothing, something = math.log1p(-self.probability), math.log(self.probability) + k
        total = float(np.logaddexp(nothing, something))
        weight = math.exp(something - total)
        # Logarithms are off by 2 U of themselves, their sum by U; so is what the weight says of the inner one's error.
        return total, math.exp(nothing - total), weight, weight * rounding + 16 * U * (1 + abs(nothing) + abs(k))

    def log_moment(self, c: float) -> tuple[float, float]:
        total, _, _, rounding = self._weights(c)
        return total, rounding

    def line(self, c: float, step: float, count: int) -> Line:
        _, nothing, weight, rounding = self._weights(c)
        inner = self.inner.line(c, step, count)
        return Line(nothing + weight * inner.phi, weight * inner.error + rounding)

    def log_envelope(self, c: float, t: float) -> float:
        _, nothing, weight, _ = self._weights(c)
        return min(0.0, math.log(nothing + weight * math.exp(self.inner.log_envelope(c, t))))


@frozen(eq=False)
class SumLaw(Law):
    """A composition: the sum of independent losses, each with its count."""

    parts: tuple[tuple[Law, int], ...]

    def infinity(self) -> float:
        if any(law.infinity() >= 1.0 for law, _ in self.parts):
            return 1.0
        return abs(math.expm1(math.fsum(count * math.log1p(-law.infinity()) for law, count in self.parts)))

    def top(self) -> float:
        return math.fsum(count * law.top() for law, count in self.parts)

    def log_moment(self, c: float) -> tuple[float, float]:
        each = [(count, *law.log_moment(c)) for law, count in self.parts]
        k = math.fsum(count * k for count, k, _ in each)
        # A product and the sum, off by U each.
        return k, math.fsum(count * (rounding + 2 * U * abs(k)) for count, k, rounding in each)

    def line(self, c: float, step: float, count: int) -> Line:
        return product(((law.line(c, step, count), times) for law, times in self.parts), count)

    def log_envelope(self, c: float, t: float) -> float:
        return math.fsum(count * law.log_envelope(c, t) for law, count in self.parts)

    def cumulants(self, c: float) -> tuple[float, float, float]:
        found = [(count, law.cumulants(c)) for law, count in self.parts]
        k, first, second = (math.fsum(count * values[i] for count, values in found) for i in range(3))
        return k, first, second

    def terms(self, c: float) -> tuple[int, int]:
        each = [law.terms(c) for law, _ in self.parts]
        return sum(moment for moment, _ in each), sum(node for _, node in each)


_OF_A_MOMENT = 1000  # a moment's term costs what so many of the products do that a line is made of
_OF_A_NODE = 100  # and so many the work with a node afterwards


@frozen(eq=False)
class MeteredLaw(Law):
    """A law whose sums are charged to ``work``; a unit is one product of a line's node and a term, about 1e-9 s."""

    law: Law
    work: Work

    def infinity(self) -> float:
        return self.law.infinity()

    def top(self) -> float:
        return self.law.top()

    def log_moment(self, c: float) -> tuple[float, float]:
        self.work.spend(_OF_A_MOMENT * self.law.terms(c)[0])
        return self.law.log_moment(c)

    def line(self, c: float, step: float, count: int) -> Line:
        moment, node = self.law.terms(c)
        self.work.spend(_OF_A_MOMENT * moment + float(count) * (node + _OF_A_NODE))
        return self.law.line(c, step, count)

    def log_envelope(self, c: float, t: float) -> float:
        return self.law.log_envelope(c, t)

    def cumulants(self, c: float) -> tuple[float, float, float]:
        self.work.spend(_OF_A_MOMENT * self.law.terms(c)[0])
        return self.law.cumulants(c)

    def terms(self, c: float) -> tuple[int, int]:
        return self.law.terms(c)


def product(lines: Iterable[tuple[Line, int]], count: int) -> Line:
    """Returns the line of a sum of independent losses from the lines of each, of ``count`` nodes, and how often."""
    phi, highest, relative = np.ones(count, dtype=complex), np.ones(count), np.zeros(count)
    with np.errstate(over="ignore", invalid="ignore"):  # an error that is infinite or NaN says that nothing is known
        for part, times in lines:
            n, size = float(times), np.abs(part.phi)
            phi *= part.phi if times == 1 else _power(part.phi, size, n)
            bound = size + part.error + 4 * U
            # |(x + e)^n − x^n| ≤ n·e·(|x| + e)^{n−1}; the power itself is off by 8nu of its modulus.
            highest *= bound**n
            relative += n * (part.error / bound + 12 * U)
        return Line(phi, highest * relative)


def _power(phi: Array, size: Array, times: float) -> Array:
    if times <= 64:  # n − 1 products at most, off by √5 U each
        found: Array | None = None
        square, left = phi, int(times)
        while left:
            if left & 1:
                found = square if found is None else found * square
            left >>= 1
            square = square * square if left else square
        return np.asarray(found)
    angle = times * np.angle(phi)
    modulus = size**times
    return np.asarray(modulus * np.cos(angle) + 1j * (modulus * np.sin(angle)))


def oscillating_sum(weights: Array, losses: Array, step: float, count: int) -> tuple[Array, Array]:
    """Returns Σ w·e^{itl} at t = 0, step, ..., and a bound on the rounding; losses have imaginary parts ≥ 0.

    On a uniform line e^{itl} is a product of a coarse and a fine factor, so the sum is one product of matrices.
    """
    sizes = np.abs(weights)
    size, far = float(sizes.sum()), float(sizes @ np.abs(losses))
    fine = math.isqrt(count - 1) + 1
    coarse = -(-count // fine)
    table = np.zeros((coarse, fine), dtype=complex)
    for i in range(0, len(losses), _BLOCK):
        w, x = weights[i : i + _BLOCK], losses[i : i + _BLOCK]
        left = w * np.exp(1j * np.multiply.outer(np.arange(coarse) * (step * fine), x))
        table += left @ np.exp(1j * np.multiply.outer(x, np.arange(fine) * step))
    terms = min(len(losses), _BLOCK) + len(losses) / _BLOCK
    # Sums of ``terms`` complex products, off by 2 U each; factors by 32 U, angles by 8 U of themselves.
    off = U * (size * (2 * terms + 32) + 8 * far * (np.arange(count) * step))
    return table.ravel()[:count], off


def turning(rate: float, step: float, count: int) -> Array:
    """Returns e^{i·rate·t} at t = 0, step, ...: off by 8 U, and by 3 U of its angle.

    As in ``oscillating_sum``, a coarse and a fine factor: 3 U each, 2.3 U for their product.
    """
    fine = math.isqrt(count - 1) + 1
    coarse = np.exp(1j * (rate * (np.arange(-(-count // fine)) * (step * fine))))
    return np.asarray(np.multiply.outer(coarse, np.exp(1j * (rate * (np.arange(fine) * step)))).ravel()[:count])


def discretised(pair: DominatingPair, *, upper: bool, tilt: float, cells: int = _CELLS) -> AtomsLaw:
    """Returns a finite law above (or below) that of a pair, with cells as narrow as their mass tilted by ``tilt`` asks.

    Above, each cell's mass is split between its two ends so that P's and Q's mass are both kept, which interpolates the
    profile linearly in e^ε. Below, each cell is one outcome: merging outcomes is post-processing.
    """
    edges = _refined(pair, tilt, cells)
    masses = pair.cells(edges)
    p, q = masses.p, masses.q
    share = -np.expm1(-np.diff(edges))
    off = 2 * MASS_ERROR * (1 + float(np.abs(edges).max()) / 8)  # twice what cells may be off by
    if not off < 0.01:
        raise NumericalError(f"losses up to {np.abs(edges).max():g} leave no digits of the masses of cells")
    if upper:
        up = (p - q * np.exp(np.minimum(edges[:-1], 700.0))) / share
        # What the difference of close numbers may have lost: by the ratio's error, and as much for what is done here.
        up += 2 * RATIO_ERROR * (1 + np.abs(edges[:-1])) * p / share
        up = np.clip(up, 0.0, p)
        mass = np.append(p - up, 0.0)
        mass[1:] += up
        mass[0] += masses.p_below
        return AtomsLaw.of(edges, mass * (1 + off), pair.infinity() + masses.p_above * (1 + off))
    kept = (p > 0.0) & (q > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        merged = np.log(p) - np.log(q)
        # A ratio is off by 16 U of 1 and its logarithm, logarithms and their difference by 5 U: of the 900 U here.
        merged = np.clip(merged - 1e-13 * (1 + np.abs(merged)), edges[:-1], edges[1:])
    losses = np.append(np.where(kept, merged, edges[:-1]), edges[-1])
    return AtomsLaw.of(losses, np.append(p, masses.p_above) * (1 - off), pair.infinity())


def _refined(pair: DominatingPair, tilt: float, most: int) -> Array:
    """Edges that make Σ mass·width² small: cells that contribute more than their share are halved again and again."""
    low, high = pair.support()
    margin = 1e-9 * max(high - low, abs(low), abs(high), 1e-300)
    # A margin on either side: where the pair rounds, the largest loss may lie an ulp beyond its support.
    edges = np.unique(np.append(np.linspace(low, high, most // 16 + 1), [low - margin, high + margin]))
    for _ in range(60):
        widths = np.diff(edges)
        with np.errstate(divide="ignore"):
            y = np.log(pair.cells(edges).p) + tilt * edges[1:]
        weight = np.exp(y - y.max())
        excess = weight / weight.sum() * widths**2
        split = (excess > 2 * excess.mean()) & (widths > 8 * margin)
        room = most - len(widths)
        if room <= 0 or not split.any():
            break
        if split.sum() > room:
            split &= excess >= np.sort(excess[split])[-room]
        edges = np.sort(np.append(edges, (edges[:-1] + edges[1:])[split] / 2))
    return edges
