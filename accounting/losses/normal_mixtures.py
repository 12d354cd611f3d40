"""Mixtures of unit normals on a line, and the dominating pairs that two of them form.

A secret sample turns a Gaussian mechanism's law into a mixture: of N(0, 1), without the record, and of normals shifted
by what the sampled records add, in units of the noise.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from scipy import special

from hockeystick.accounting.losses.dominating_pairs import Array, Cells, DominatingPair
from hockeystick.accounting.numerics.directed_rounding import U

_REACH = 13.5  # P(N > 13.5) < 1e-41
_MOST_TERMS = 256


def _floats(values: object) -> tuple[float, ...]:
    return tuple(float(value) for value in values)  # type: ignore[attr-defined]


@frozen
class NormalMixture:
    """Σ weights[i]·N(centres[i], 1): centres ascending, equal ones merged, weights positive and scaled to the sum 1."""

    centres: tuple[float, ...] = field(converter=_floats)
    weights: tuple[float, ...] = field(converter=_floats)

    def __attrs_post_init__(self) -> None:
        merged: dict[float, float] = {}
        for centre, weight in zip(self.centres, self.weights, strict=True):
            if weight > 0.0:
                merged[centre + 0.0] = merged.get(centre, 0.0) + weight
        total = math.fsum(merged.values())
        ordered = sorted(merged)
        object.__setattr__(self, "centres", tuple(ordered))
        object.__setattr__(self, "weights", tuple(merged[centre] / total for centre in ordered))

    @property
    def least(self) -> float:
        return self.centres[0]

    @property
    def most(self) -> float:
        return self.centres[-1]

    def mirrored(self) -> NormalMixture:
        return NormalMixture(tuple(-c for c in self.centres), self.weights)

    def log_ratio(self, z: Array) -> Array:
        """Returns ln of the density over that of N(0, 1)."""
        if len(self.centres) == 1:
            return np.asarray(self.most * z - self.most**2 / 2)
        terms = np.array([math.log(w) + c * z - c * c / 2 for c, w in zip(self.centres, self.weights, strict=True)])
        if len(terms) == 2:
            return np.asarray(np.logaddexp(*terms))
        largest = terms.argmax(axis=0)[None]
        top = np.take_along_axis(terms, largest, axis=0)
        terms -= top
        np.exp(terms, out=terms)
        np.put_along_axis(terms, largest, 0.0, axis=0)
        return np.asarray(top[0] + np.log1p(terms.sum(axis=0)))

    def ratio(self, z: Array) -> Array | float:
        """Returns the density over that of N(0, 1)."""
        total: Array | float = 0.0
        for c, w in zip(self.centres, self.weights, strict=True):
            total = total + (w * np.exp(c * z - c * c / 2) if c else w)
        return total

    def density(self, z: Array) -> Array:
        """Returns √(2π) times the density."""
        return np.asarray(sum(w * np.exp(-((z - c) ** 2) / 2) for c, w in zip(self.centres, self.weights, strict=True)))

    def below(self, z: float) -> float:
        return math.fsum(w * float(special.ndtr(z - c)) for c, w in zip(self.centres, self.weights, strict=True))

    def above(self, z: float) -> float:
        return math.fsum(w * float(special.ndtr(c - z)) for c, w in zip(self.centres, self.weights, strict=True))

    def masses(self, low: Array, high: Array) -> Array:
        """Returns the masses on intervals, each difference taken in the smaller tail."""
        total = np.zeros(len(low))
        for c, w in zip(self.centres, self.weights, strict=True):
            flip = high - c > c - low  # no sum of both: they may be -inf and inf
            left, right = np.where(flip, c - high, low - c), np.where(flip, c - low, high - c)
            total += w * (special.ndtr(right) - special.ndtr(left))
        return total

    def solve(self, log_ratios: Array) -> Array:
        """Returns where ``log_ratio`` takes each value; for centres ≥ 0, not all 0. ±inf where it is out of reach."""
        e, top = np.asarray(log_ratios, dtype=float), self.most
        if len(self.centres) == 1:
            with np.errstate(over="ignore"):
                return np.asarray(e / top + top / 2)
        if len(self.centres) == 2 and self.least == 0.0:
            rest, share = self.weights
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                found = np.log1p(np.maximum(np.expm1(np.minimum(e, 1.0)) / share, -1.0))
                far = e >= 1.0
                if far.any():
                    found[far] = e[far] - math.log(share) + np.log1p(-rest * np.exp(-e[far]))
                return np.asarray((found + top**2 / 2) / top)
        return self._newton(e)

    def _newton(self, e: Array) -> Array:
        # The function is increasing and convex. A table brackets each root, Newton's steps stay in the bracket.
        nodes = np.linspace(-40.0, self.most + 40.0, 4096)
        values = np.maximum.accumulate(self.log_ratio(nodes))
        right = np.clip(np.searchsorted(values, e), 1, len(nodes) - 1)
        low, high = nodes[right - 1], nodes[right]
        rise = values[right] - values[right - 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = low + (high - low) * np.where(rise > 0, np.clip((e - values[right - 1]) / rise, 0.0, 1.0), 0.5)
        todo = np.flatnonzero((e > values[0]) & (e < values[-1]))
        for _ in range(60):
            if not len(todo):
                break
            at = z[todo]
            total, slope = np.zeros(len(at)), np.zeros(len(at))
            shift = e[todo]
            for c, w in zip(self.centres, self.weights, strict=True):
                term = w * np.exp(c * at - c * c / 2 - shift)
                total += term
                slope += c * term
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = np.log(total) * total / slope
            following = np.clip(at - np.where(np.isfinite(step), step, 0.0), low[todo], high[todo])
            z[todo] = following
            todo = todo[np.abs(following - at) > 4e-15 * (1 + np.abs(at))]
        return np.asarray(np.where(e <= values[0], -math.inf, np.where(e >= values[-1], math.inf, z)))


ORIGIN = NormalMixture((0.0,), (1.0,))
"""N(0, 1)."""


def coarse(centres: tuple[float, ...], weights: tuple[float, ...]) -> NormalMixture:
    """Returns a mixture of centres ≥ 0 of a few hundred terms at most; neighbours are merged into the larger centre.

    Moving weight outwards only makes the mixture easier to tell from N(0, 1).
    """
    exact = NormalMixture(centres, weights)
    if len(exact.centres) <= _MOST_TERMS:
        return exact
    kept, tail = np.array(exact.centres), np.array(exact.weights)
    heavy = np.flatnonzero((np.cumsum(tail) > 1e-60) & (np.cumsum(tail[::-1])[::-1] > 1e-60))
    low, high = kept[heavy[0]], kept[heavy[-1]]
    cuts = np.append(np.linspace(low, high, _MOST_TERMS - 1), exact.most)
    return NormalMixture(cuts[np.searchsorted(cuts * (1 + 1e-15), kept)], exact.weights)


# Gauss' rule of n points is good to 1e-15 in cells up to this size: width times the largest slope of a log density.
_RULES = {n: (size, *np.polynomial.legendre.leggauss(n)) for n, size in ((2, 1e-3), (4, 0.2), (8, 2.0))}
_ROOT = math.sqrt(2 * math.pi)
_NARROW = 1e-8  # a cell of losses, below which rounding them by 1e-15 may cost more than the cell
_FAR = 13.0  # deviations, beyond which a normal has 1e-38 of its mass
_LARGE = 15.0  # e^{c·z} fits in a float for centres up to this


def _where(chosen: NDArray[np.bool_]) -> slice | NDArray[np.intp]:
    """The true places: a slice if all or none are true, because views cost less than copies."""
    if chosen.all():
        return slice(None)
    return np.flatnonzero(chosen) if chosen.any() else slice(0)


def _is_sampled(mixture: NormalMixture) -> bool:
    """Says whether half of it or more is N(0, 1), and the rest one other normal that is not far."""
    weights = dict(zip(mixture.centres, mixture.weights, strict=True))
    return weights.get(0.0, 0.0) >= 0.5 and len(weights) <= 2 and max(mixture.most, -mixture.least) <= _LARGE


@frozen
class MixturePair(DominatingPair):
    """One mixture against another whose loss ln(dP/dQ) increases along the line, of one of three kinds.

    Centres ≥ 0 against N(0, 1); N(0, 1) against centres ≤ 0; or (1−q)·N(0, 1) + q·N(m, 1) against its mirror image.
    """

    p: NormalMixture
    q: NormalMixture

    def cells(self, edges: Array) -> Cells:
        z = self._locate(np.asarray(edges, dtype=float))
        with np.errstate(invalid="ignore"):
            width = np.diff(z)
            steepest = np.maximum(max(self.p.most, self.q.most) - z[:-1], z[1:] - min(self.p.least, self.q.least))
            size = width * (1 + steepest)
        # In narrow cells Gauss' rule has a relative error of 1e-15, where a difference of tails would cancel.
        rule = np.full(len(width), 0)
        for n, (largest, _, _) in _RULES.items():
            rule[(rule == 0) & (size < largest)] = n
        p, q = np.zeros(len(width)), np.zeros(len(width))
        rise = np.zeros(len(width)) if self.rises(float(edges[-1] - edges[-2])) else None
        for n, (_, points, weights) in _RULES.items():
            i = _where(rule == n)
            middle, half = (z[:-1][i] + z[1:][i]) / 2, width[i] / 2
            for point, weight in zip(points, weights, strict=True):
                densities = self._densities(middle + half * point)
                p[i] += weight * half * densities[0]
                q[i] += weight * half * densities[1]
                if rise is not None:
                    rise[i] += weight * half * densities[0] * self._gain(middle + half * point, edges[:-1][i])
        (wide,) = np.nonzero(rule == 0)
        p[wide], q[wide] = (m.masses(z[wide], z[wide + 1]) for m in (self.p, self.q))
        if rise is not None:
            rise[wide] = [self._wide_rise(float(z[k]), float(z[k + 1]), float(edges[k])) for k in wide]
        first, last = float(z[0]), float(z[-1])
        return Cells(p, q, self.p.below(first), self.q.below(first), self.p.above(last), self.q.above(last), rise)

    def rises(self, step: float) -> bool:
        """Says whether cells as narrow as ``step`` come with their ``rise``, by losses of full relative accuracy."""
        return step < _NARROW and _is_sampled(self.p) and _is_sampled(self.q)

    def _wide_rise(self, low: float, high: float, edge: float) -> float:
        """A cell's ``rise`` from above where densities change by much: by Gauss' rule in pieces.

        It is at the end of the losses, where they hardly depend on the outcome. What is far out counts in full.
        """
        left, right = max(low, self.p.least - _FAR), min(high, self.p.most + _FAR)
        if not left < right:
            return float(self.p.masses(np.array([low]), np.array([high]))[0])
        outside = self.p.masses(np.array([low, right]), np.array([left, high]))
        steepest = max(max(self.p.most, self.q.most) - left, right - min(self.p.least, self.q.least))
        size, points, weights = _RULES[8]
        ends = np.linspace(left, right, 2 + math.floor((right - left) * (1 + steepest) / size))
        half = np.diff(ends)[:, None] / 2
        x = ends[:-1, None] + half * (1 + points)
        gain = self._gain(x, np.array(edge))
        return float((weights * half * self._densities(x)[0] * gain).sum() + outside.sum())

    def _gain(self, x: Array, edge: Array) -> Array:
        """1 − e^{edge − L(x)} from above: what a mass of P there adds to its cell's ``rise``.

        With y = c·x − c²/2 a mixture's part of the loss L is ln(1 + w·(e^y − 1)), of which rounding y is not more than
        w·e^y/(1 + w·(e^y − 1)) times as much off.
        """
        # The edge is off by U of itself, and so are the difference and its exponential's argument.
        loss, off = np.zeros_like(x), 8 * U * np.abs(edge)
        for sign, mixture in ((1.0, self.p), (-1.0, self.q)):
            for c, w in zip(mixture.centres, mixture.weights, strict=True):
                if c:
                    y = c * x - c * c / 2
                    more = w * np.expm1(y)
                    part = np.log1p(more)
                    loss += sign * part
                    steepness = (w + np.maximum(more, 0.0)) / (1.0 + more)
                    off += 8 * U * (np.abs(part) + steepness * (np.abs(c * x) + c * c + 1.0))
        # Gauss' rule of two points is off by 4e-12 of such a sum, in cells of the size that it is used for.
        return np.asarray(-np.expm1(edge - loss) * (1 + 1e-11) + off)

    def _densities(self, x: Array) -> tuple[Array, Array]:
        if max(self.p.most, -self.q.least) > _LARGE:
            return self.p.density(x) / _ROOT, self.q.density(x) / _ROOT
        # A common factor keeps the *ratio* of the two exact where both are small.
        normal = np.exp(-(x * x) / 2) / _ROOT
        return normal * self.p.ratio(x), normal * self.q.ratio(x)

    def _locate(self, losses: Array) -> Array:
        if self.q == ORIGIN:
            return self.p.solve(losses)
        if self.p == ORIGIN:
            return -self.q.mirrored().solve(-losses)
        # With a = 1−q and b = q·e^{−m²/2} the loss l of z satisfies m·z = l/2 + asinh((a/b)·sinh(l/2)).
        (rest, share), m = self.p.weights, self.p.most
        log_odds, half = math.log(rest) - math.log(share) + m * m / 2, np.abs(losses) / 2
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            log_sinh = half + np.log(-np.expm1(-2 * half)) - math.log(2.0)
            log_x = np.minimum(log_odds + log_sinh, math.inf)
            steep = np.where(log_x > 300.0, log_x + math.log(2.0), np.arcsinh(np.exp(np.minimum(log_x, 300.0))))
        return np.asarray(np.sign(losses) * (half + steep) / m)

    def place(self, loss: float) -> float:
        """Returns where on the line the loss is; ±inf where it is out of reach."""
        return float(self._locate(np.array([loss]))[0])

    def more_above(self, z: float) -> float:
        """Returns by how much P's mass above ``z`` exceeds Q's, both compared with that of N(0, 1): no cancellation."""
        rises = [(w, z - c, z) for c, w in zip(self.p.centres, self.p.weights, strict=True) if c > 0.0]
        falls = [(w, z, z - c) for c, w in zip(self.q.centres, self.q.weights, strict=True) if c < 0.0]
        return math.fsum(w * _between(left, right) for w, left, right in (*rises, *falls))

    def support(self) -> tuple[float, float]:
        low, high = self.p.least - _REACH, self.p.most + _REACH
        # Terms of small weight need not be covered as far: go down to where P's mass above is negligible.
        inner = min(high, self.p.least)
        for _ in range(40):
            middle = (inner + high) / 2
            inner, high = (inner, middle) if self.p.above(middle) <= 1e-41 else (middle, high)
        ends = np.array([low, high])
        losses = self.p.log_ratio(ends) - self.q.log_ratio(ends)
        return float(losses[0]), float(losses[1])


def _between(low: float, high: float) -> float:
    """N(0, 1)'s mass there: by Gauss' rule, or as a difference in the smaller tail where little cancels."""
    if high > -low:
        low, high = -high, -low
    size, points, weights = _RULES[8]
    half = (high - low) / 2
    if 2 * half * (1 - low) < size:
        return float(half * (weights @ np.exp(-((low + half + half * points) ** 2) / 2))) / _ROOT
    return float(special.ndtr(high) - special.ndtr(low))
