"""Laws of finitely many losses, and of integer noise: masses as rational numbers or balls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from flint import arb

from hockeystick_verify.balls import ZERO, NotCoveredError, ball
from hockeystick_verify.laws import Pieces, larger_moment

Pair = tuple[Fraction, Fraction]
_MOST_VECTORS = 32
_MOST_TABLE = 20_000


def turned(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the masses of Q and P."""
    return [(q, p) for p, q in pairs]


def law_of_rationals(pairs: Sequence[Pair]) -> Pieces:
    """Returns the law of ln(p/q) under p, of masses of outcomes under both laws."""
    by_ratio: dict[Fraction, Fraction] = {}
    infinite = Fraction(0)
    for p, q in pairs:
        if q == 0:
            infinite += p
        elif p:
            by_ratio[p / q] = by_ratio.get(p / q, Fraction(0)) + p
    return Pieces([(ball(ratio).log(), ball(p)) for ratio, p in sorted(by_ratio.items())], infinity=ball(infinite))


def law_of_masses(pairs: Sequence[tuple[arb, arb]]) -> Pieces:
    """As ``law_of_rationals``, of balls; a mass of Q that is exactly 0 has an infinite loss."""
    atoms = [((p / q).log(), p) for p, q in pairs if not q.is_zero() and not p.is_zero()]
    return Pieces(atoms, infinity=sum((p for p, q in pairs if q.is_zero()), ZERO))


def larger_of_both(pairs: Sequence[Pair]) -> Pieces:
    """Returns the pair whose profile is the larger one of both orders: an upper bound where the orders are free.

    Both profiles are convex polygons in x = e^ε with rational knots, and so is their maximum.
    """
    both = (list(pairs), turned(pairs))

    def height(x: Fraction, rows: Sequence[Pair]) -> Fraction:
        return sum((max(p - x * q, Fraction(0)) for p, q in rows), Fraction(0))

    knots = sorted({Fraction(0)} | {p / q for rows in both for p, q in rows if q and p})
    knots.append(2 * knots[-1] + 1)  # both are constant beyond the last
    crossings = []
    for a, b in zip(knots, knots[1:], strict=False):
        left, right = (height(x, both[0]) - height(x, both[1]) for x in (a, b))
        if left * right < 0:
            crossings.append(a + (b - a) * left / (left - right))
    knots = sorted({*knots, *crossings})
    tops = [max(height(x, both[0]), height(x, both[1])) for x in knots]
    slopes = [(t - s) / (b - a) for a, b, s, t in zip(knots, knots[1:], tops, tops[1:], strict=False)] + [Fraction(0)]
    atoms = [
        (ball(x).log(), ball(x * (after - before)))
        for x, before, after in zip(knots[1:], slopes, slopes[1:], strict=False)
        if after > before
    ]
    worst = larger_moment(*map(law_of_rationals, both))
    return Pieces(atoms, infinity=ball(tops[-1]), member=sorted(pairs) == sorted(both[1]), worst_moment=worst)


def behind_coin(weight: arb, law: Pieces) -> Pieces:
    """Returns the law of an access of few atoms that a public coin triggers; otherwise the loss is 0."""
    atoms = [(loss, weight * mass) for loss, mass in law.atoms] + [(ZERO, 1 - weight)]
    worst = None if law.worst_moment is None else (lambda c: 1 - weight + weight * law.renyi(c))
    return Pieces(
        atoms,
        infinity=weight * law.infinity,
        member=law.member,
        unit=law.unit,
        indices=[*law.indices, 0],
        worst_moment=worst,
    )


def whole(distance: Fraction) -> int:
    """Returns a distance rounded up to an integer; one that is 1e-12 of itself beyond it is taken for it."""
    return max(1, math.ceil(distance * (1 - Fraction(1, 10**12)) if distance < 10**9 else distance))


def discrete_laplace(m: int, scale: Fraction) -> Pieces:
    """Two-sided geometric noise, P[k] ∝ e^{−|k|/scale}, against a shift by m: losses (m − 2i)/scale, i = 0 … m."""
    a = ball(1 / scale)
    q = (-a).exp()
    masses = [1 / (1 + q)]
    masses += [(-a * i).exp() * (1 - q) / (1 + q) for i in range(1, m)]
    masses.append((-a * m).exp() / (1 + q))
    indices = [m - 2 * i for i in range(m + 1)]
    atoms = [(i * a, mass) for i, mass in zip(indices, masses, strict=True)]
    return Pieces(atoms, unit=(("steps", 1 / scale), a), indices=indices)


def discrete_gaussian(square: int, sigma: Fraction, coordinates: object) -> list[Pieces]:
    """Returns the laws of the vectors of integers with this squared norm, or less, that can be the worst.

    A shift of one coordinate by s + t is no better hidden than shifts by s and t of two, and each coordinate adds to
    the loss; so a vector that another one contains is left out.
    """
    if coordinates is not None and (not isinstance(coordinates, int) or isinstance(coordinates, bool)):
        raise NotCoveredError("DiscreteGaussian with such coordinates")
    if coordinates == 1:
        return [_shifted((math.isqrt(square),), sigma)]
    if square > 16:
        raise NotCoveredError(f"DiscreteGaussian at a squared distance of {square}")
    vectors = list(_vectors(square, math.isqrt(square), coordinates or square))
    kept = [v for v in vectors if not any(v != w and _below(v, w) for w in vectors)]
    if len(kept) > _MOST_VECTORS:
        raise NotCoveredError("DiscreteGaussian with so many worst vectors")
    return [_shifted(vector, sigma) for vector in kept]


def _vectors(square: int, largest: int, room: int) -> Iterator[tuple[int, ...]]:
    """All falling sequences of at most ``room`` positive integers with squares that add up to at most ``square``."""
    for first in range(largest, 0, -1):
        if first * first <= square and room:
            yield (first,)
            for rest in _vectors(square - first * first, first, room - 1):
                yield (first, *rest)


def _below(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(one) <= len(other) and all(a <= b for a, b in zip(one, other, strict=False))


def _shifted(vector: tuple[int, ...], sigma: Fraction) -> Pieces:
    """Independent discrete Gaussian noise on each coordinate: the losses (s² − 2sy)/(2σ²) add up on one lattice.

    Each coordinate's table ends where the rest of the mass is below 2^-300; that rest counts as an infinite loss, and
    as none at all at the lower end of the ball.
    """
    reach = math.ceil(21 * float(sigma)) + 4 + max(vector)
    if reach * sum(vector) * 2 > _MOST_TABLE:
        raise NotCoveredError("DiscreteGaussian of so large a sigma")
    two = ball(2 * sigma * sigma)
    weights = [(-ball(y * y) / two).exp() for y in range(-reach, reach + 1)]
    # Σ_{|y| > r} e^{−y²/2σ²} ≤ 2e^{−(r+1)²/2σ²}/(1 − e^{−(2r+3)/2σ²})
    beyond = 2 * (-ball((reach + 1) ** 2) / two).exp() / (1 - (-ball(2 * reach + 3) / two).exp())
    total = sum(weights, ZERO) + ZERO.union(beyond.upper())
    rows: dict[int, arb] = {0: ball(1)}
    infinity = ZERO
    for s in vector:
        after: dict[int, arb] = {}
        for index, mass in rows.items():
            for y, weight in zip(range(-reach, reach + 1), weights, strict=True):
                place = index + s * s - 2 * s * y
                after[place] = after.get(place, ZERO) + mass * weight / total
        rows, infinity = after, infinity + ZERO.union((beyond / total).upper())
    unit = 1 / two
    atoms = [(unit * index, mass) for index, mass in rows.items()]
    return Pieces(atoms, infinity=infinity, unit=(("squares", sigma), unit), indices=list(rows))
