"""Laws of the privacy loss in balls: moments, profiles, and what the routes need to know of their tails.

The loss L = ln(dP/dQ) is seen under P. A law is a *member* if the event's class holds that pair of output laws; a law
that only bounds a class from above is none, and no lower end may come from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from flint import acb, arb

from hockeystick_verify.balls import HALF, ONE, ZERO, NotCoveredError, ball, larger, normal_tail, positive_part, up


class Law:
    """A law of the loss.

    Attributes:
      infinity: P's mass where Q has none.
      member: whether the event's class holds this pair.
      has_moment, has_profile: whether ``moment`` (with ``envelope``) and ``profile`` are known.
    """

    infinity: arb = ZERO
    member: bool = True
    has_moment: bool = True
    has_profile: bool = True

    def prepare(self, c: arb, t: float) -> None:
        """Makes ready for moments at c + i·s with |s| ≤ t."""

    def moment(self, z: acb) -> acb:
        """Returns E_P[e^{zL}; L < ∞] for Re z > 0."""
        raise NotImplementedError

    def envelope(self, c: arb, t: float) -> arb:
        """Returns a bound on |moment(c + i·s)| for all |s| ≥ t."""
        return self.moment(acb(c)).real

    def profile(self, eps: arb) -> arb:
        """Returns δ(ε) = E_P[(1 − e^{ε−L})₊] for any real ε, the infinite loss included."""
        raise NotImplementedError

    def renyi(self, c: arb) -> arb:
        """Returns a bound on the moment at c > 0 over the whole class, in both orders."""
        self.prepare(c, 0.0)
        return self.moment(acb(c)).real

    def pure(self) -> arb | None:
        """Returns a bound on the finite losses, or None."""
        return None

    def reach(self) -> tuple[float, float]:
        """Returns losses between which nearly all mass lies: a hint."""
        raise NotImplementedError


class Normal(Law):
    """The loss of N(μ, 1) against N(0, 1)."""

    def __init__(self, square: arb) -> None:
        self.square = square

    def moment(self, z: acb) -> acb:
        return (self.square * z * (z + 1) / 2).exp()

    def envelope(self, c: arb, t: float) -> arb:
        return (self.square * (c * c + c - ball(t) * ball(t)) / 2).exp()

    def profile(self, eps: arb) -> arb:
        mu = self.square.sqrt()
        return normal_tail(eps / mu - mu / 2) - eps.exp() * normal_tail(eps / mu + mu / 2)

    def reach(self) -> tuple[float, float]:
        mu = math.sqrt(up(self.square))
        return mu * mu / 2 - 14 * mu, mu * mu / 2 + 14 * mu


class Pieces(Law):
    """Atoms and exponential densities.

    Args:
      atoms: (loss, P's mass), …
      slopes: (low, high, density at ``high``, rate): P's density is density·e^{rate·(l − high)}, 0 < rate < 1.
      infinity, member: see ``Law``.
      unit: (key, number u): all losses of atoms are ``indices``·u; laws with equal keys have equal numbers.
      worst_moment: the bound of ``renyi``, where it isn't the law's own moment.
    """

    def __init__(
        self,
        atoms: Sequence[tuple[arb, arb]],
        slopes: Sequence[tuple[arb, arb, arb, arb]] = (),
        infinity: arb = ZERO,
        *,
        member: bool = True,
        unit: tuple[object, arb] | None = None,
        indices: Sequence[int] = (),
        worst_moment: Callable[[arb], arb] | None = None,
    ) -> None:
        self.atoms, self.slopes, self.infinity, self.member = list(atoms), list(slopes), infinity, member
        self.unit, self.indices, self.worst_moment = unit, list(indices), worst_moment

    def moment(self, z: acb) -> acb:
        total = acb(0)
        for loss, mass in self.atoms:
            total += mass * (z * loss).exp()
        for low, high, density, rate in self.slopes:
            total += density * ((z * high).exp() - (z * low - rate * (high - low)).exp()) / (z + rate)
        return total

    def envelope(self, c: arb, t: float) -> arb:
        total = ZERO
        for loss, mass in self.atoms:
            total += mass * (c * loss).exp()
        for low, high, density, rate in self.slopes:
            total += density * ((c * high).exp() + (c * low - rate * (high - low)).exp()) / ball(t) if t else arb("inf")
        return total

    def profile(self, eps: arb) -> arb:
        total = self.infinity
        for loss, mass in self.atoms:
            total += mass * positive_part(1 - (eps - loss).exp())
        for low, high, density, rate in self.slopes:
            start = larger(eps, low)
            if start >= high:
                continue
            own = (1 - (rate * (start - high)).exp()) / rate
            other = eps.exp() * (((rate - 1) * start - rate * high).exp() - (-high).exp()) / (1 - rate)
            total += density * positive_part(own - other)
        return total

    def renyi(self, c: arb) -> arb:
        return super().renyi(c) if self.worst_moment is None or not self._is_finite() else self.worst_moment(c)

    def _is_finite(self) -> bool:
        return self.infinity.is_zero()

    def _losses(self) -> list[arb]:
        return [loss for loss, _ in self.atoms] + [high for _, high, _, _ in self.slopes]

    def pure(self) -> arb:
        found = ZERO
        for loss in self._losses():
            found = larger(found, loss)
        return found

    def reach(self) -> tuple[float, float]:
        lows = [loss for loss, _ in self.atoms] + [low for low, _, _, _ in self.slopes]
        return min([0.0] + [-up(-x) for x in lows]), max([0.0] + [up(x) for x in self._losses()])


class Mixed(Law):
    """With probability ``weights[i]`` the loss of ``laws[i]``, else 0: a public coin."""

    def __init__(self, weights: Sequence[arb], laws: Sequence[Law]) -> None:
        self.weights, self.laws = list(weights), list(laws)
        self.rest = positive_part(1 - sum(self.weights, ZERO))
        self.infinity = sum((w * law.infinity for w, law in self._terms()), ZERO)
        self.member = all(law.member for law in laws)
        self.has_moment = all(law.has_moment for law in laws)
        self.has_profile = all(law.has_profile for law in laws)

    def _terms(self) -> list[tuple[arb, Law]]:
        return list(zip(self.weights, self.laws, strict=True))

    def prepare(self, c: arb, t: float) -> None:
        for law in self.laws:
            law.prepare(c, t)

    def moment(self, z: acb) -> acb:
        return sum((w * law.moment(z) for w, law in self._terms()), acb(self.rest))

    def envelope(self, c: arb, t: float) -> arb:
        return sum((w * law.envelope(c, t) for w, law in self._terms()), self.rest)

    def profile(self, eps: arb) -> arb:
        nothing = positive_part(1 - eps.exp())
        return sum((w * law.profile(eps) for w, law in self._terms()), self.rest * nothing)

    def renyi(self, c: arb) -> arb:
        return sum((w * law.renyi(c) for w, law in self._terms()), self.rest)

    def pure(self) -> arb | None:
        return largest([law.pure() for law in self.laws])

    def reach(self) -> tuple[float, float]:
        ends = [law.reach() for law in self.laws]
        return min([0.0] + [low for low, _ in ends]), max([0.0] + [high for _, high in ends])


class Together(Law):
    """The sum of the losses of several accesses, as one law: for a coin around a composition."""

    has_profile = False

    def __init__(self, parts: Sequence[tuple[Law, int]]) -> None:
        self.parts = list(parts)
        self.infinity = 1 - survival(parts)
        self.member = all(law.member for law, _ in parts)
        self.has_moment = all(law.has_moment for law, _ in parts)

    def prepare(self, c: arb, t: float) -> None:
        for law, _ in self.parts:
            law.prepare(c, t)

    def moment(self, z: acb) -> acb:
        total = acb(1)
        for law, n in self.parts:
            total *= law.moment(z) ** n
        return total

    def envelope(self, c: arb, t: float) -> arb:
        total = ONE
        for law, n in self.parts:
            total *= law.envelope(c, t) ** n
        return total

    def renyi(self, c: arb) -> arb:
        total = ONE
        for law, n in self.parts:
            total *= law.renyi(c) ** n
        return total

    def pure(self) -> arb | None:
        total = ZERO
        for law, n in self.parts:
            one = law.pure()
            if one is None:
                return None
            total += n * one
        return total


class Largest(Law):
    """The pointwise maximum of several profiles: each access may have any of the laws."""

    member, has_moment = False, False

    def __init__(self, laws: Sequence[Law]) -> None:
        self.laws = list(laws)
        self.infinity = largest([law.infinity for law in laws]) or ZERO
        self.has_profile = all(law.has_profile for law in laws)

    def profile(self, eps: arb) -> arb:
        return largest([law.profile(eps) for law in self.laws]) or ZERO

    def renyi(self, c: arb) -> arb:
        return largest([law.renyi(c) for law in self.laws]) or ONE

    def pure(self) -> arb | None:
        return largest([law.pure() for law in self.laws])

    def reach(self) -> tuple[float, float]:
        ends = [law.reach() for law in self.laws]
        return min(low for low, _ in ends), max(high for _, high in ends)


class Sampled(Law):
    """A secret sample that the record joins with probability q, around another access, in one direction.

    The removal's pair is ((1−q)Q + qP, Q), so that its profile at y is q times the access's at x = 1 + (y − 1)/q (Zhu,
    Dong & Wang 2022, Thm 11); the addition's is its reverse.
    """

    has_moment = False

    def __init__(self, q: arb, law: Law, *, removal: bool) -> None:
        if not law.has_profile:
            raise NotCoveredError("a sample around a composition of other than Gaussian events")
        self.q, self.law, self.removal, self.member = q, law, removal, law.member
        self.infinity = q * law.infinity if removal else ZERO

    def profile(self, eps: arb) -> arb:
        if self.removal:
            return self._removed(eps.exp())
        return 1 - eps.exp() * (1 - self._removed((-eps).exp()))

    def _removed(self, y: arb) -> arb:
        x = 1 + (y - 1) / self.q
        if x > 0:
            return self.q * self.law.profile(x.log())
        return 1 - y if x <= 0 else (1 - y).union(1 - y + self.q * x.upper())

    def renyi(self, c: arb) -> arb:
        return 1 - self.q + self.q * self.law.renyi(c)  # moments of order > 1 are jointly convex

    def pure(self) -> arb | None:
        inner = self.law.pure()
        if not self.removal:
            return -(1 - self.q).log() if self.q < 1 else inner
        return None if inner is None else (1 + self.q * inner.expm1()).log()

    def reach(self) -> tuple[float, float]:
        q = min(up(self.q), 1 - 1e-9)  # a hint: the logarithm below must be finite
        low, high = self.law.reach()
        seen = math.log1p(q * math.expm1(min(high, 500.0)))
        ends = (max(low, math.log1p(-q)), seen)
        return ends if self.removal else (-ends[1], -ends[0])


class Kept(Law):
    """An input that is replaced in secret, except with probability κ: (κP + (1−κ)R, κQ + (1−κ)R), for the worst R.

    For ε ≥ 0 its profile at ln(1 + κ(e^ε − 1)) is at most κ·δ(ε), in both orders (Balle, Barthe & Gaboardi 2018,
    Thm 2).
    """

    member, has_moment = False, False

    def __init__(self, kept: arb, law: Law) -> None:
        if not law.has_profile:
            raise NotCoveredError("a replaced input around a composition")
        self.kept, self.law, self.infinity = kept, law, kept * law.infinity

    def profile(self, eps: arb) -> arb:
        if eps >= 0:
            return self.kept * self.law.profile((1 + eps.expm1() / self.kept).log())
        if eps < 0:
            return 1 - eps.exp() * (1 - self.profile(-eps))
        return ZERO.union(ONE)

    def renyi(self, c: arb) -> arb:
        return 1 - self.kept + self.kept * self.law.renyi(c)

    def pure(self) -> arb | None:
        inner = self.law.pure()
        return None if inner is None else (1 + self.kept * inner.expm1()).log()

    def reach(self) -> tuple[float, float]:
        high = math.log1p(up(self.kept) * math.expm1(min(self.law.reach()[1], 500.0)))
        return -high, high


class RenyiOnly(Law):
    """An access of which a bound on its Rényi divergence alone is known, as a function of c = α − 1."""

    member, has_moment, has_profile = False, False, False

    def __init__(self, exponent: Callable[[arb], arb]) -> None:
        self.exponent = exponent  # c -> ln of the bound on the moment

    def renyi(self, c: arb) -> arb:
        return self.exponent(c).exp()


def largest(values: Sequence[arb | None]) -> arb | None:
    """Returns the maximum; None if any value is None."""
    found: arb | None = None
    for value in values:
        if value is None:
            return None
        found = value if found is None else larger(found, value)
    return found


def survival(parts: Sequence[tuple[Law, int]]) -> arb:
    """Returns the probability that all losses are finite."""
    total = ONE
    for law, n in parts:
        if not law.infinity.is_zero():
            total *= (1 - law.infinity) ** n
    return total


def laplace(r: arb) -> Pieces:
    """Laplace noise of scale 1/r: atoms at the ends of [−r, r], and a density e^{(l−r)/2}/4 between them."""
    atoms = [(r, HALF), (-r, HALF * (-r).exp())]
    return Pieces(atoms, [(-r, r, ONE / 4, HALF)])


def bounded_range(w: arb) -> Pieces:
    """The upper envelope of all pairs whose losses lie in an interval of length w (Dong, Durfee & Rogers 2020)."""

    def worst(c: arb) -> arb:
        # Losses t and t − w: the moment is A·e^{ct} − B·e^{(c+1)t}, at most A·e^{ct*}/(c + 1) at the t* of its maximum.
        a, b = w.exp() - (-c * w).exp(), 1 - (-c * w).exp()
        t = (c * a / ((c + 1) * b)).log()
        return a * (c * t).exp() / ((c + 1) * w.expm1())

    return Pieces([], [(-w, w, -HALF / (-w).expm1(), HALF)], member=False, worst_moment=worst)


def two_points(key: object, e: arb) -> Pieces:
    """Binary randomised response at e: the worst e-DP pair (Kairouz, Oh & Viswanath 2015, Thm 2.5)."""
    more = 1 / (1 + (-e).exp())
    return Pieces([(e, more), (-e, more * (-e).exp())], unit=(key, e), indices=(1, -1))


def one_way(fall: arb, rise: arb) -> Pieces:
    """Losses of X + 1 against X, X of density e^{−fall·x} above 0 and e^{rise·x} below."""
    share = rise / (fall + rise)
    slope = (-rise, fall, share * (1 - share), share)
    return Pieces([(fall, share), (-rise, (1 - share) * (-rise).exp())], [slope])


def larger_moment(one: Law, other: Law) -> Callable[[arb], arb]:
    """Returns the bound on the moments of both orders, which is below that of the law with the larger profile."""
    return lambda c: larger(one.renyi(c), other.renyi(c))


def two_way(fall: arb, rise: arb) -> Pieces:
    """The pointwise maximum of both orders of ``one_way``: an upper bound where the rates differ."""
    more, less = larger(fall, rise), fall.min(rise)
    share = less / (more + less)
    middle = (more - less) / (more + less) * (-less * (1 - share)).exp()
    slopes = [
        (ZERO, more, share * (1 - share), share),
        (-more, ZERO, share * (1 - share) * (-less * (1 - share)).exp(), 1 - share),
    ]

    worst = larger_moment(one_way(fall, rise), one_way(rise, fall))
    atoms = [(more, share), (-more, share * (-more).exp()), (ZERO, middle)]
    return Pieces(atoms, slopes, member=False, worst_moment=worst)
