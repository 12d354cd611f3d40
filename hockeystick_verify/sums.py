"""δ(ε) of a composition of few atoms by summation over all outcomes; rounding alone makes the ends differ."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

from flint import arb, arb_poly

from hockeystick_verify.balls import ONE, ZERO, positive_part
from hockeystick_verify.laws import Law, Pieces, survival
from hockeystick_verify.line import Clock

_MOST_COEFFICIENTS = 400_000
_MOST_SUMS = 200_000
Term = tuple[arb, arb]  # (loss, P's mass)


def enclosed(parts: Sequence[tuple[Law, int]], eps: arb, clock: Clock) -> tuple[arb, arb] | None:
    """Returns (lower, upper) ends of δ(ε); None where a law has a density, or the outcomes are too many."""
    tables: list[list[Term]] = []
    for group in _groups(parts):
        found = _outcomes(group, clock)
        if found is None:
            return None
        tables.append(found)
    tables.sort(key=len)
    last = tables.pop() if tables else [(ZERO, ONE)]
    if math.prod(map(len, tables)) > _MOST_SUMS:
        return None
    partial: list[Term] = [(ZERO, ONE)]
    for table in tables:
        partial = [(a + b, p * q) for a, p in partial for b, q in table]
    total = _tails(partial, last, eps, clock) + 1 - survival(parts)
    return total.lower(), total.upper()


def _groups(parts: Sequence[tuple[Law, int]]) -> list[list[tuple[Law, int]]]:
    """Laws on one lattice together, every other one by itself."""
    groups: dict[object, list[tuple[Law, int]]] = {}
    for i, (law, n) in enumerate(parts):
        unit = law.unit if isinstance(law, Pieces) else None
        groups.setdefault(("alone", i) if unit is None else unit[0], []).append((law, n))
    return list(groups.values())


def _outcomes(group: Sequence[tuple[Law, int]], clock: Clock) -> list[Term] | None:
    """All losses of a group of laws on one lattice, or of one law, with their masses."""
    clock.check()
    laws = [(law, n) for law, n in group if isinstance(law, Pieces) and not law.slopes]
    if len(laws) < len(group):
        return None
    unit = laws[0][0].unit
    if unit is None:
        ((law, n),) = laws
        return _combinations(law, n)
    product, start, degree = arb_poly([1]), 0, 0
    for law, n in laws:
        low, high = min(law.indices), max(law.indices)
        degree += n * (high - low)
        if degree > _MOST_COEFFICIENTS:
            return None
        row = [ZERO] * (high - low + 1)
        for index, (_, mass) in zip(law.indices, law.atoms, strict=True):
            row[index - low] += mass
        product *= arb_poly(row) ** n
        start += n * low
    return [((start + i) * unit[1], mass) for i, mass in enumerate(product.coeffs()) if not mass.is_zero()]


def _combinations(law: Pieces, n: int) -> list[Term] | None:
    """The outcomes of n accesses to a law of a few atoms: by how often each one is met."""
    k = len(law.atoms)
    if not k:
        return [(ZERO, ONE)] if n == 0 else []
    if math.comb(n + k - 1, k - 1) > _MOST_SUMS:
        return None
    found: list[tuple[int, arb, arb]] = [(n, ZERO, ONE)]  # (accesses left, loss, mass)
    for i, (loss, mass) in enumerate(law.atoms):
        rows = []
        for left, so_far, weight in found:
            for j in [left] if i == k - 1 else range(left + 1):
                rows.append((left - j, so_far + j * loss, weight * math.comb(left, j) * mass**j))
        found = rows
    return [(loss, mass) for _, loss, mass in found]


def _tails(partial: Sequence[Term], table: list[Term], eps: arb, clock: Clock) -> arb:
    """Σ p·p'·(1 − e^{ε − l − l'})₊ over both tables, by suffix sums of the second."""
    table = sorted(table, key=lambda term: float(term[0].mid()))
    keys = [float(loss.mid()) for loss, _ in table]
    mass, tilted = [ZERO], [ZERO]
    for loss, p in reversed(table):
        mass.append(mass[-1] + p)
        tilted.append(tilted[-1] + p * (-loss).exp())
    total, n = ZERO, len(table)
    widest = max(abs(key) for key in [*keys, *(float(loss.mid()) for loss, _ in partial), float(eps.mid())])
    window = 1e-9 * (1.0 + widest)  # floats and balls are off by less, which is checked
    if not all(loss.rad() < window / 8 for loss, _ in [*table, *partial]):
        return ZERO.union(arb("inf"))
    for i, (loss, p) in enumerate(partial):
        if i % 1000 == 0:
            clock.check()
        need = eps - loss
        # Losses outside the window lie on the side of ``need`` that their floats say; the others are compared in balls.
        middle = float(need.mid())
        low = bisect.bisect_left(keys, middle - window)
        high = bisect.bisect_right(keys, middle + window)
        near = sum((q * positive_part(1 - (need - other).exp()) for other, q in table[low:high]), ZERO)
        total += p * (near + mass[n - high] - need.exp() * tilted[n - high])
    return total
