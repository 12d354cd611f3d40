"""The probabilities with which the optimal rule keeps a partition of n persons, as exact binary fractions.

Of all (ε, δ)-DP rules that see one partition of n persons and say nothing of one of none, the rule

    π_0 = 0,   π_{n+1} = min(e^ε·π_n + δ, 1 − e^−ε·(1 − π_n − δ), 1)

keeps it with the largest probability, at every n (Desfontaines, Voss, Gipson & Mandayam 2022, Thm 1). Here e^ε is
rounded down to a fraction E and each π_n down to a multiple of 2^-192. That keeps the promise: with E ≤ e^ε both bounds
on π_{n+1} are at most those of the rule, for any π_n, and rounding down only lowers π_{n+1}. It never falls below π_n,
which is a multiple of 2^-192 and not above either bound.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from hockeystick.accounting import InvalidArgumentError

BITS = 192
_MOST = 2**18  # persons at which a partition is surely kept
_LEAST = 1e-30  # δ


@lru_cache(maxsize=64)
def keep_table(epsilon: float, delta: float) -> tuple[int, ...]:
    """Returns π_0 … π_last in units of 2^-192; the last one is 1, up to its rounding, and holds for more persons.

    Raises:
        InvalidArgumentError: ``delta`` is below 1e-30, or ε so small that no number of up to 2^18 persons is kept.
    """
    if delta < _LEAST:
        raise InvalidArgumentError("delta", delta, "is too small to keep any partition", "give at least 1e-30")
    if math.log1p(epsilon / (2.0 * delta)) > epsilon * _MOST:  # π_n is (e^(nε) − 1)·δ/(e^ε − 1) up to a half or so
        raise _too_small(epsilon)
    one, growth, failure = 1 << BITS, _exp_down(epsilon), int(Fraction(delta) * (1 << BITS))
    found, now = [0], 0
    while now < one and len(found) <= _MOST:
        left = one - now - failure
        near = one if left <= 0 else one - _ceil(left * growth.denominator, growth.numerator)
        after = min(now * growth.numerator // growth.denominator + failure, near, one)
        if after == now:  # what is left is below the grid
            break
        found.append(after)
        now = after
    if 2 * now < one:
        raise _too_small(epsilon)
    return tuple(found)


def _too_small(epsilon: float) -> InvalidArgumentError:
    reason = f"keeps no partition of up to {_MOST} persons at this delta"
    return InvalidArgumentError("epsilon", epsilon, reason, "raise it")


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def _exp_down(epsilon: float) -> Fraction:
    """e^ε rounded down to 2^-192 or so of itself."""
    with decimal.localcontext() as context:
        context.prec, context.Emax, context.Emin = 80, 10**9, -(10**9)
        value = Fraction(Decimal(epsilon).exp())
    return max(Fraction(1), value * (1 - Fraction(1, 10**75)))
