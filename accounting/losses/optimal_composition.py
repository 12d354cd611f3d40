"""The optimal composition of (ε, δ)-DP guarantees, where nothing but their ε and δ is known.

The worst (ε, δ)-DP pair reveals everything with probability δ and is randomised response at ε otherwise (Kairouz, Oh &
Viswanath 2015), so k guarantees compose, adaptively too, to exactly

    δ(x) = 1 − Π(1 − δ_i)·(1 − h(x)),   h(x) = Σ_{s > x} P(s)·(1 − e^{x−s}),

with P the law of the total loss s = Σ ±ε_i of the randomised responses (Murtagh & Vadhan 2016; for equal parts Kairouz,
Oh & Viswanath 2015, Thm 3.3). Equal ε are merged, so that P is a product of binomials. All distinct values but the most
frequent one are enumerated, for that one sums of the binomial's tail are looked up; with many distinct values that is
#P-hard and is refused. Numbers are decimals with digits enough for a loss of 1e-100, rounded outwards once at the end.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable
from contextlib import AbstractContextManager
from decimal import Decimal
from functools import lru_cache

from attrs import frozen

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError, NumericalError

Part = tuple[float, float, int]

_WORK = 2**18  # terms, about a second
LARGEST = 1e6
_DIGITS = 240
_ERROR = Decimal("1e-230")  # relative, of any sum of up to _WORK terms


def delta(parts: Iterable[Part], epsilon: float, *, upper: bool = True) -> float:
    """Returns the least δ such that every composition of ``parts`` is (``epsilon``, δ)-DP, rounded up or down.

    Args:
      parts: (ε, δ, count) each; the order does not matter.
      epsilon: at least 0; inf is taken.
      upper: round to the safe side, up; else down.

    Raises:
      InvalidArgumentError: a part or epsilon is out of range.
      NumericalError: too many distinct ε, or too many parts, to be composed exactly.
    """
    known = _checked(parts)
    x = validate.real("epsilon", epsilon, low=0.0, allow_inf=True)
    failure = _failure(known, upper)
    with _digits(_DIGITS):
        finite = _law(_counts(known)).bound(Decimal(x), upper) if math.isfinite(x) else Decimal(0)
    with _digits(440, upper):
        return _rounded(finite + failure * (1 - finite), upper)


def epsilon(parts: Iterable[Part], delta: float, *, upper: bool = True) -> float:
    """Returns the least ε ≥ 0 such that every composition of ``parts`` is (ε, ``delta``)-DP; inf if none is.

    Args:
      parts: (ε, δ, count) each; the order does not matter.
      delta: in [0, 1].
      upper: round to the safe side, up; else down.

    Raises:
      InvalidArgumentError: a part or delta is out of range.
      NumericalError: too many distinct ε, or too many parts, to be composed exactly.
    """
    known = _checked(parts)
    goal = Decimal(validate.probability("delta", delta))
    failure = _failure(known, upper)
    if goal >= 1 or failure > goal:
        return 0.0 if goal >= 1 else math.inf
    with _digits(440, not upper):
        spare = (goal - failure) / (1 - failure)  # what the randomised responses may use
    with _digits(_DIGITS):
        return _law(_counts(known)).solve(spare, upper)


def basic(parts: Iterable[Part]) -> tuple[float, float]:
    """Returns Σ ε and Σ δ (at most 1), rounded up: basic composition (Dwork & Roth 2014, Thm 3.16).

    Raises:
      InvalidArgumentError: a part is out of range.
    """
    known = _checked(parts)
    with _digits(440, True):
        total = sum((count * Decimal(e) for e, _, count in known), Decimal(0))
        return _rounded(total, True), min(1.0, _rounded(sum((n * Decimal(d) for _, d, n in known), Decimal(0)), True))


def _checked(parts: Iterable[Part]) -> tuple[Part, ...]:
    known = []
    for i, part in enumerate(parts):
        if not isinstance(part, (tuple, list)) or len(part) != 3:
            raise InvalidArgumentError(f"parts[{i}]", part, "is not a part", "give (epsilon, delta, count)")
        e = validate.real(f"parts[{i}].epsilon", part[0], low=0.0, high=LARGEST)
        d = validate.probability(f"parts[{i}].delta", part[1])
        known.append((e, d, validate.integer(f"parts[{i}].count", part[2], low=0, high=2**53)))
    return tuple(known)


def _counts(parts: tuple[Part, ...]) -> tuple[tuple[float, int], ...]:
    """The distinct positive ε and how often each occurs, the most frequent first."""
    counts: dict[float, int] = {}
    for e, _, count in parts:
        if e and count:
            counts[e] = counts.get(e, 0) + count
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _failure(parts: tuple[Part, ...], upper: bool) -> Decimal:
    """1 − Π(1 − δ)^count: with so many digits that the smallest float δ is not lost next to 1."""
    with _digits(440, not upper) as context:
        spared = Decimal(1)
        for _, d, count in parts:
            if d and count:
                kept = 1 - Decimal(d)
                if count > 1:  # a power may be off in its last digit
                    kept = kept**count
                    kept = context.next_minus(kept) if upper else context.next_plus(kept)
                spared *= min(Decimal(1), max(Decimal(0), kept))
    with _digits(440, upper):
        return 1 - spared


@frozen(eq=False)
class _Law:
    """The total loss: a binomial of ``count`` losses ±``unit``, added to ``others`` = (P's mass, Q's mass, loss).

    ``p_tail[j]`` and ``q_tail[j]`` are the binomial's masses, under P and Q, at the losses unit·(count − 2i), i ≤ j.
    """

    unit: Decimal
    count: int
    p_tail: tuple[Decimal, ...]
    q_tail: tuple[Decimal, ...]
    others: tuple[tuple[Decimal, Decimal, Decimal], ...]

    def masses_above(self, x: Decimal) -> tuple[Decimal, Decimal]:
        """Masses of P and Q at losses above x, which is below the largest one."""
        p_sum = q_sum = Decimal(0)
        for p, q, loss in self.others:
            j = min(math.floor((self.count - (x - loss) / self.unit) / 2), self.count)
            if j >= 0:
                p_sum += p * self.p_tail[j]
                q_sum += q * self.q_tail[j]
        return p_sum, q_sum

    def bound(self, x: Decimal, upper: bool) -> Decimal:
        """h(x), off by rounding at most, in the direction asked for."""
        if x >= self.top():
            return Decimal(0)
        p, q = self.masses_above(x)
        value = p - x.exp() * q
        return value + _ERROR * p if upper else max(Decimal(0), value - _ERROR * p)

    def top(self) -> Decimal:
        return self.unit * self.count + max(loss for _, _, loss in self.others)

    def solve(self, goal: Decimal, upper: bool) -> float:
        """The least x ≥ 0 with h(x) ≤ goal."""
        from scipy import optimize

        if self.bound(Decimal(0), upper) <= goal:
            return 0.0
        top = self.top()
        if goal == 0:
            return _rounded(top, upper)
        log_goal = goal.ln()

        def excess(x: float) -> float:
            value = self.bound(Decimal(x), upper)
            return float(value.ln() - log_goal) if value > 0 else -1e9

        high = _rounded(top, True)
        # A guess: the loop below ends where the bound itself holds.
        root = float(optimize.brentq(excess, 0.0, high, xtol=1e-15 * high, rtol=1e-15))
        nudge = math.ulp(root)
        if upper:
            while self.bound(Decimal(root), True) > goal:
                root, nudge = root + nudge, 2 * nudge
            return root
        while root > 0.0 and self.bound(Decimal(root), False) < goal:
            root, nudge = max(0.0, root - nudge), 2 * nudge
        return root


@lru_cache(maxsize=64)
def _law(counts: tuple[tuple[float, int], ...]) -> _Law:
    work = (counts[0][1] + math.prod(n + 1 for _, n in counts[1:])) if counts else 0
    if work > _WORK:
        raise NumericalError(
            f"{len(counts)} distinct ε of {sum(n for _, n in counts)} guarantees need {work} terms, more than {_WORK}; "
            "use the pld or rdp bound, or round the ε up to fewer values"
        )
    others = [(Decimal(1), Decimal(1), Decimal(0))]
    for e, n in counts[1:]:
        masses, unit = _binomial(e, n), Decimal(e)
        others = [
            (p * masses[j], q * masses[n - j], loss + (n - 2 * j) * unit) for p, q, loss in others for j in range(n + 1)
        ]
    if not counts:
        return _Law(Decimal(0), 0, (), (), tuple(others))
    e, n = counts[0]
    masses = _binomial(e, n)
    p_tail, q_tail, p_sum, q_sum = [], [], Decimal(0), Decimal(0)
    for j in range(n + 1):
        p_sum, q_sum = p_sum + masses[j], q_sum + masses[n - j]
        p_tail.append(p_sum)
        q_tail.append(q_sum)
    return _Law(Decimal(e), n, tuple(p_tail), tuple(q_tail), tuple(others))


def _binomial(e: float, n: int) -> list[Decimal]:
    """P's mass at loss e·(n − 2j), j = 0 … n: C(n, j)·e^{−je}/(1 + e^{−e})^n. Q's is the same, read backwards."""
    odds = (-Decimal(e)).exp()
    masses = [(1 + odds) ** -n]
    for j in range(n):
        masses.append(masses[-1] * odds * (n - j) / (j + 1))
    return masses


def _digits(precision: int, up: bool | None = None) -> AbstractContextManager[decimal.Context]:
    """Decimals of any magnitude; sums and products are rounded to nearest, up or down."""
    rounding = decimal.ROUND_HALF_EVEN if up is None else decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR
    return decimal.localcontext(
        decimal.Context(prec=precision, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, rounding=rounding)
    )


def _rounded(value: Decimal, upper: bool) -> float:
    number = float(value)
    if upper:
        return math.nextafter(number, math.inf) if Decimal(number) < value else number
    return math.nextafter(number, -math.inf) if Decimal(number) > value else number
