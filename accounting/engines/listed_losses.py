"""The exact profile of a pair with finitely many losses, met once: no grid, at any δ.

For losses l with masses p, δ(ε) = p(∞) + Σ_{l>ε} p·(1 − e^{ε−l}), a sum of positive terms. Between two losses it is
affine in e^ε, so ε at δ has a closed form as well; it is moved outwards until δ at it says so, whatever rounding did.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hockeystick.accounting.events.basic.composition import Parallel
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.noise.integer_noise import Spread
from hockeystick.accounting.losses.dominating_pairs import Array, Atoms
from hockeystick.accounting.numerics.directed_rounding import U

_LOSS_OFF = 32 * U  # what a loss may be off by, in proportion
_MASS_OFF = 2.0**-42  # and a mass


def laws(event: PrivacyEvent, *, upper: bool = True) -> tuple[Atoms, ...] | None:
    """Returns pairs with finitely many losses whose worst is the event's profile (or below); None if it has no such."""
    inner = event.inner() if isinstance(event, Spread) else event
    if isinstance(inner, Parallel):
        found = [branch.pair() if upper else branch.pair_below() for branch in inner.branches]
    elif inner is None:
        return None
    else:
        found = [inner.pair() if upper else inner.pair_below()]
    pairs = tuple(pair for pair in found if isinstance(pair, Atoms))
    return pairs if len(pairs) == len(found) else None


def delta(pair: Atoms, epsilon: float, *, upper: bool = True) -> float:
    """Returns δ at ``epsilon`` ≥ 0 from above (or below)."""
    if math.isinf(epsilon):
        return pair.at_infinity
    return _value(np.array(pair.losses), np.array(pair.p), pair.at_infinity, epsilon, upper)


def epsilon(pair: Atoms, delta: float, *, upper: bool = True) -> float:
    """Returns the least ε ≥ 0 with δ(ε) ≤ ``delta`` from above (or below); inf if there is none."""
    if pair.at_infinity > delta:
        return math.inf
    above = np.array(pair.losses) > 0.0
    order = np.argsort(np.array(pair.losses)[above])
    losses, p = np.array(pair.losses)[above][order], np.array(pair.p)[above][order]

    def value(at: float) -> float:
        return _value(losses, p, pair.at_infinity, at, upper)

    if not len(losses) or value(0.0) <= delta:
        return 0.0
    first, last = -1, len(losses) - 1  # δ at the first is above, at the last not
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if value(float(losses[middle])) > delta else (first, middle)
    return _between(losses[last:], p[last:], pair.at_infinity, delta, value, upper)


def _between(
    losses: Array, p: Array, infinity: float, delta: float, value: Callable[[float], float], upper: bool
) -> float:
    """The root below the first of ``losses``, all of which count."""
    end = float(losses[0])
    spare = math.fsum([*p, infinity, -delta])
    scaled = math.fsum(p * np.exp(end - losses))
    root = min(end, max(0.0, end + math.log(spare / scaled))) if spare > 0.0 else 0.0
    # Where steps begin until the bound itself says that it holds.
    step, top = 4 * U * max(1.0, root), float(losses[-1])
    while (root < top and value(root) > delta) if upper else (root > 0.0 and value(root) < delta):
        root = min(top, root + step) if upper else max(0.0, root - step)
        step *= 2
    return root


def _value(losses: Array, p: Array, infinity: float, epsilon: float, upper: bool) -> float:
    more = losses > epsilon
    above = losses[more]
    if not len(above):
        return infinity
    off = _LOSS_OFF * (above + epsilon) * (1 if upper else -1)
    terms = p[more] * -np.expm1(np.minimum(epsilon - above - off, 0.0))
    total = math.fsum([*terms.tolist(), infinity])
    return min(1.0, total * (1 + _MASS_OFF if upper else 1 - _MASS_OFF))
