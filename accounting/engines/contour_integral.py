"""δ and ε by inversion along a vertical line in the complex plane: shares nothing with ``loss_distribution.py``.

For the total loss L of a composition and z = c + it with c > 0 (as Alghamdi et al. 2023),

    δ(ε) = P(∞) + (1/2πi) ∫ E_P[e^{zL}; L < ∞]·e^{−εz} / (z(z + 1)) dz,

for 1/(z(z + 1)) is the Laplace transform of (1 − e^{−x})₊. The moments are exact or nearly so
(``losses/loss_moments.py``), and a count is an exponent: a composition of 10⁶ events costs what one costs. The line
goes through the saddle point, so the result is as accurate, relatively, at 1e-30 as at 1e-6. The integral is a
trapezoidal sum; with W = 2π/step it equals

    Σ_m e^{cmW}·δ(ε + mW)

by Poisson's formula: what it adds is positive, and bounded by Chernoff's inequality. It ends where a bound on the
modulus of the moments says that nothing more can come.

Where no such bound exists, as for atoms, a Gaussian loss of small deviation s is added. That composes the event with a
Gaussian one, so δ only grows: the payoff (1 − e^{−x})₊ gives way to a smooth one above it. The difference at x is
e^{−max(x,0)}·δ_s(|x|), δ_s being the profile of s-Gaussian-DP, and at most s·κ·e^{−x/2−s²/8}·φ(x/s) where
κ = 1 + (s/2)·Φ(s/2)/φ(s/2). The mean of *that* is an integral along the same line, with the factor s²κ·z(z + 1) more;
taken off, it gives the lower end.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting import validate
from hockeystick.accounting.engines.event_laws import law_of
from hockeystick.accounting.errors import NumericalError
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.composition import Composed, Parallel, VisibleMixture
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import MASS_ERROR, Array, DominatingPair, GaussianPair
from hockeystick.accounting.losses.loss_moments import GaussianLaw, Law, Line, MeteredLaw, SumLaw, turning
from hockeystick.accounting.losses.normal_mixtures import MixturePair
from hockeystick.accounting.numerics import directed_rounding
from hockeystick.accounting.numerics.directed_rounding import U
from hockeystick.accounting.numerics.work_limit import Work

_MOST = 2**20  # nodes on the line
_FEWEST = 2**13
_AIM = 1e-9  # relative width of the bracket to refine for
_LEAST_MASS = 1e-290
_REFUSE = 1e-4  # relative width beyond which nothing is returned
_MANY = 8  # different events
WORK = 6e9  # products of a node and a term; see moments.MeteredLaw


def delta(event: PrivacyEvent, epsilon: float, *, work: float = WORK) -> tuple[float, float]:
    """Returns (lower, upper) bounds on δ at ``epsilon`` ≥ 0 of the event's dominating pair. Its failure is not added.

    Args:
      work: how many terms may be summed, for each direction; see ``moments.MeteredLaw``.

    Raises:
      InvalidArgumentError: epsilon is negative, infinite or NaN.
      UnsupportedEventError: a leaf has no profile, or a parallel composition stands inside another event.
      NumericalError: the bracket would be wider than 1e-4 of δ, or take more than ``work``.
    """
    check_event(event)
    number = validate.real("epsilon", epsilon, low=0.0)
    found = [_delta(one, number, Work(work)) for one in alternatives(event)]
    return max(lower for lower, _ in found), max(upper for _, upper in found)


def epsilon(event: PrivacyEvent, delta: float, *, upper: bool = True, work: float = WORK) -> float:
    """Returns a bound, from above or below, on the least ε ≥ 0 with δ(ε) ≤ ``delta``; the failure is not added.

    Args:
      work: how many terms may be summed, for each direction; see ``moments.MeteredLaw``.

    Raises:
      InvalidArgumentError: delta outside [0, 1].
      UnsupportedEventError: a leaf has no profile, or a parallel composition stands inside another event.
      NumericalError: the bracket would be wider than 1e-4 of ε, or take more than ``work``.
    """
    check_event(event)
    number = validate.probability("delta", delta)
    worst, refused = 0.0, []
    for one in alternatives(event):
        try:
            worst = max(worst, _one_end(one, number, upper, work))
        except NumericalError as error:
            refused.append((law_of(one)[0], error))
    for law, refusal in refused:
        if law.infinity() > 0.0 or _top(law) > worst:  # else all losses of what could not be resolved are below
            raise refusal
    return worst


def _one_end(event: PrivacyEvent, delta: float, upper: bool, work: float) -> float:
    """ε of an event of one direction, from above or below: the inversion for the one often knows both."""
    if upper:
        return _from_above(event, delta, work).asked
    if law_of(event)[1]:
        with contextlib.suppress(NumericalError):
            if (other := _from_above(event, delta, work).other) is not None:
                return other
    return _epsilon(event, delta, False, Work(work)).asked


@lru_cache(maxsize=4)
def _from_above(event: PrivacyEvent, delta: float, work: float) -> _Ends:
    return _epsilon(event, delta, True, Work(work))


def estimate(event: PrivacyEvent, delta: float, *, work: float = WORK) -> float:
    """Returns about ε at ``delta`` > 0 of an event of one direction, by a saddle point alone: a per cent off, no bound.

    Raises:
      UnsupportedEventError: a leaf has no profile, or a parallel composition stands inside another event.
      NumericalError: it would take more than ``work``.
    """
    return _saddle_for_delta(_metered(event, Work(work))[0], math.log(delta))[1]


def saddle(event: PrivacyEvent, *, epsilon: float | None = None, delta: float | None = None, work: float) -> float:
    """Returns the tilt that decides δ at ``epsilon``, or ε at ``delta``, of an event of one direction; to two per cent.

    Raises:
      UnsupportedEventError: a leaf has no profile, or a parallel composition stands inside another event.
      NumericalError: it is beyond what floats can hold, or would take more than ``work``.
    """
    law = _metered(event, Work(work))[0]
    if epsilon is not None:
        return _saddle(law, epsilon)
    assert delta is not None
    return _saddle_for_delta(law, math.log(delta))[0]


def is_schedule(event: PrivacyEvent) -> bool:
    """Says whether an event with one direction is a composition of many different sampled Gaussians, and of Gaussians.

    A grid has to be made anew for each of them, while their moments are computed together.
    """
    if not isinstance(event, Composed) or len(event.parts) < _MANY:
        return False
    return all(isinstance(inner.pair(), (MixturePair, GaussianPair)) for inner, _ in event.parts)


def sharp_epsilon(event: PrivacyEvent, delta: float) -> float:
    """Returns ε of an event with one direction from above, known to 1e-8 of itself.

    Raises:
      NumericalError, UnsupportedEventError: as ``epsilon``, or it is not known as well.
    """
    high, low = _epsilon(event, delta, True, Work(WORK))
    if low is None or high - low > 1e-8 * high:
        raise NumericalError(f"ε = {high:g} may be off by more than 1e-8 of itself")
    return high


def alternatives(event: PrivacyEvent) -> list[PrivacyEvent]:
    """Returns the events of which the worst counts: branches of a parallel composition, and directions."""
    if isinstance(event, Parallel):
        return [one for branch in event.branches for one in alternatives(branch)]
    ways = event.directions()
    return [event] if len(ways) == 1 else [one for way in ways for one in alternatives(way)]


@frozen(eq=False)
class _Terms:
    """The terms of a sum over a line, to be turned by e^{−iεt}; their rounding is ``fixed`` + ε·``growing``."""

    values: Array
    fixed: float
    growing: float

    @classmethod
    def of(cls, line: Line, step: float, weight: Array | float) -> _Terms:
        """The first term counts half."""
        with np.errstate(over="ignore", invalid="ignore"):  # a bound that is infinite or NaN says that nothing is known
            values = line.phi * weight
            values[0] /= 2
            size, heavy = np.abs(line.phi), np.abs(weight)
            # Turning is off by 8 U and 3 U of its angle, the weight by 8 U, complex products and sums by √5 U each.
            fixed = float(((line.error + size * (32 * U)) * heavy).sum())
            return cls(values, fixed, 4 * U * step * float((size * heavy) @ np.arange(len(size))))

    def summed(self, turn: Array, epsilon: float) -> tuple[float, float]:
        """Returns the real part of the sum, and its rounding."""
        return float((self.values * turn).real.sum()), self.fixed + epsilon * self.growing


@frozen(eq=False)
class _Inverse:
    """δ(ε) of a law near one ε, by the sum over one line.

    ``above`` and ``below`` hold (a, b) with δ(ε ± mW), tilted back to ε, at most e^{b ∓ aε − amW}; ``top`` is the
    largest loss, that of the smoothing counted.
    """

    law: Law
    c: float
    k: float
    k_error: float
    step: float
    terms: _Terms
    plain: _Terms | None  # without the weight of δ, where there is smoothing
    tail: float
    smoothing: float
    above: tuple[float, float]
    below: tuple[float, float]
    top: float

    def logs(self, epsilon: float) -> tuple[float, float]:
        """ln of the lower and the upper bound on δ(epsilon) without the mass at infinity."""
        c, unit = self.c, self.step / math.pi
        with np.errstate(over="ignore", invalid="ignore"):
            turn = turning(-epsilon, self.step, len(self.terms.values))
            value, error = (unit * part for part in self.terms.summed(turn, epsilon))
            total = 0.0 if self.plain is None else unit * sum(self.plain.summed(turn, epsilon))
        error += self.tail
        if not math.isfinite(value + error + total):  # beyond what floats can hold, nothing is known
            return -math.inf, math.inf
        bump = 0.0
        if self.plain is not None:
            s = self.smoothing
            kappa = 1 + s / 2 * math.sqrt(math.pi / 2) * float(special.erfcx(-s / math.sqrt(8)))
            bump = s * s * kappa * max(0.0, total) + kappa * self.tail
        period = 2 * math.pi / self.step
        alias = 0.0
        if epsilon + period < self.top:
            alias += _geometric(self.above[1] - self.above[0] * (epsilon + period), self.above[0] * period)
        alias += _geometric(self.below[1] + self.below[0] * (epsilon - period), self.below[0] * period)
        scale = self.k - c * epsilon
        # The product c·ε, the difference and the sums are off by U each.
        margin = self.k_error + 4 * U * (1 + abs(self.k) + c * epsilon)
        low, high = (math.log(x) if x > 0.0 else -math.inf for x in (value - error - alias - bump, value + error))
        # A logarithm is off by 2 U of itself; products and sums, the slack's too, by U of what they are of.
        return (
            scale + low - margin + 4 * U * low if low < 0.0 else scale + low - margin,
            scale + high + margin - 4 * U * high if -math.inf < high < 0.0 else scale + high + margin,
        )


@frozen(eq=False)
class _Direct:
    """δ(ε) of a single pair by its masses above ε, whose relative accuracy is known to be near 1e-14.

    Masses below 1e-290 may be anything from 0 to that: floats that small have lost digits.
    """

    pair: DominatingPair
    law: Law
    c: float

    def logs(self, epsilon: float) -> tuple[float, float]:
        """As for ``_Inverse``."""
        masses = self.pair.cells(np.array([epsilon, math.inf]))
        p, q = float(masses.p[0] + masses.p_above), float(masses.q[0] + masses.q_above)
        (p_low, p_high), (q_low, q_high) = ((x, x) if x >= _LEAST_MASS else (0.0, _LEAST_MASS) for x in (p, q))
        less = math.exp(epsilon + math.log(q_low)) if q_low else 0.0
        more = math.exp(min(epsilon + math.log(q_high), 700.0))
        # What cells may be off by, doubled for ln, its sum with ε and the exponential: 5 U, and U for each unit of ε.
        off = 2 * MASS_ERROR * (1 + epsilon)
        low, high = p_low - more - off * (p_low + more), p_high - less + off * (p_high + less)
        return math.log(low) if low > 0.0 else -math.inf, math.log(high) if high > 0.0 else -math.inf


def _geometric(log_first: float, decay: float) -> float:
    """Σ_m e^{log_first − m·decay}; what is too large to be of use is inf."""
    return math.exp(log_first) / -math.expm1(-decay) if log_first < 700.0 else math.inf


def _curvature(c: float, second: float) -> float:
    """The second derivative of ln (integrand) on the real axis."""
    return second + 1 / c**2 + 1 / (1 + c) ** 2


def _bisect(law: Law, too_small: Callable[[float], bool]) -> float:
    """The c > 0 at which ``too_small`` turns false, to two per cent; close to the largest loss it is cut off."""
    most = _cutoff(law)
    low = high = min(1.0, most)
    if too_small(high):
        while too_small(high):
            low, high = high, 4 * high
            if high > most:
                return most
            if high > 1e100:
                raise NumericalError("the saddle point of the inversion is beyond what floats can hold")
    else:
        while not too_small(low):
            low, high = low / 4, low
            if low < 1e-100:
                return high
    while high / low > 1.02:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return math.sqrt(low * high)


def _cutoff(law: Law) -> float:
    """A tilt at which all that counts is within a few parts in 1e9 of the largest loss."""
    return 1e9 / law.top() if 0.0 < law.top() < math.inf else math.inf


def _saddle(law: Law, epsilon: float) -> float:
    return _bisect(law, lambda c: law.cumulants(c)[1] - 1 / c - 1 / (1 + c) < epsilon)


def _saddle_for_delta(law: Law, log_delta: float) -> tuple[float, float]:
    """The saddle point c, and ε, at which the saddle-point estimate of ln δ(ε) is ``log_delta``."""

    def estimate(c: float) -> tuple[float, float]:
        k, first, second = law.cumulants(c)
        epsilon = first - 1 / c - 1 / (1 + c)
        height = k - c * epsilon - math.log(c) - math.log1p(c)
        return epsilon, height - 0.5 * math.log(2 * math.pi * _curvature(c, second))

    c = _bisect(law, lambda c: estimate(c)[1] > log_delta)
    epsilon, _ = estimate(c)
    return (c, epsilon) if epsilon > 0.0 else (_saddle(law, 0.0), 0.0)


def _on_line(law: Law, c: float, epsilon: float, count: int | None) -> _Inverse | None:
    """The inverse on ``count`` nodes, smoothed so that they suffice; or unsmoothed, None if that needs too many."""
    k, _, second = law.cumulants(c)
    curvature = _curvature(c, second)
    estimate = -math.log(c) - math.log1p(c) - 0.5 * math.log(2 * math.pi * curvature)
    smoothed = count is not None
    period, up, down = _period(law, c, k, epsilon, estimate - 28.0, math.sqrt(curvature))
    if not smoothed:
        period = min(period, max(_top(law) - epsilon, down[1]))
    step = 2 * math.pi / period
    smoothing = 0.0
    whole = law
    if count is None:
        reach = 4 / math.sqrt(curvature)
        while law.log_envelope(c, reach) - math.log(math.pi * reach) > estimate - 32.0:
            reach *= 1.3
            if reach / step > _MOST:
                return None
        count = math.ceil(reach / step) + 2
    else:
        smoothing = 8.3 / (count * step)
        whole = SumLaw(((law, 1), (GaussianLaw(smoothing**2), 1)))
    k, k_error = whole.log_moment(c)
    if not math.isfinite(k + k_error):
        raise NumericalError("the moments of the privacy loss are beyond what floats can hold")
    line = whole.line(c, step, count)
    z, last = c + 1j * (np.arange(count) * step), (count - 1) * step
    return _Inverse(
        law=law,
        c=c,
        k=k,
        k_error=k_error,
        step=step,
        terms=_Terms.of(line, step, 1 / (z * (z + 1))),
        plain=_Terms.of(line, step, 1.0) if smoothed else None,
        tail=math.exp(whole.log_envelope(c, last)) / (math.pi * last),
        smoothing=smoothing,
        above=(up[0], _chernoff(whole.log_moment(c + up[0])[0], c + up[0], k)),
        below=(down[0], _chernoff(whole.log_moment(c - down[0])[0], c - down[0], k)),
        top=math.inf if smoothed else law.top(),
    )


def _chernoff(k_here: float, c: float, k: float) -> float:
    """ln of a bound on δ(ε)·e^{cε−k}, from (1 − e^{−x})₊ ≤ e^{cx}·max_x (1 − e^{−x})e^{−cx}; k at c is ``k_here``."""
    return k_here - k + (c * math.log(c) - (1 + c) * math.log1p(c) if c > 0.0 else 0.0)


def _period(
    law: Law, c: float, k: float, epsilon: float, target: float, width: float
) -> tuple[float, tuple[float, float], tuple[float, float]]:
    """W such that δ at ε ± W, tilted back to ε, is below e^target; with it (a, W) of the two bounds."""

    def bound(tilt: float) -> float:
        return _chernoff(law.cumulants(tilt)[0] if tilt else 0.0, tilt, k)

    tilts = np.geomspace(0.03, 30.0, 24) / width
    ups = [(a, (bound(c + a) - a * epsilon - target) / a) for a in tilts]
    downs = [(a, (bound(c - a) + a * epsilon - target) / a) for a in [*tilts[tilts < c], c]]
    up, down = min(ups, key=lambda pair: pair[1]), min(downs, key=lambda pair: pair[1])
    return max(up[1], down[1], width), up, down


def _resolved(
    event: PrivacyEvent, c: float, epsilon: float, upper: bool, work: Work, aim: float = _AIM
) -> tuple[_Inverse | _Direct, bool]:
    """The inverse of an event's law near ε, with a relative accuracy of ``aim``, and whether its law is exact."""
    law, exact = _metered(event, work, upper=upper, tilt=c)
    inverse = _on_line(law, c, epsilon, None)
    if inverse is not None:
        return inverse, exact
    pair = event.pair() if upper else event.pair_below()
    if not isinstance(event, (Composed, VisibleMixture)) and pair is not None:
        return _Direct(pair, law, c), event.pair_is_exact()
    aim = aim if exact else max(aim, 1e-7)
    count = _FEWEST
    while True:
        inverse = _on_line(law, c, epsilon, count)
        assert inverse is not None
        low, high = inverse.logs(epsilon)
        gap = high - low
        if gap <= aim or count >= _MOST:
            return inverse, exact
        # The gap falls with s² or s, that is with the square of count or with count.
        wanted = 2 ** math.ceil(math.log2(min(max(math.sqrt(gap / aim), 2.0), 16.0)))
        count = min(_MOST, count * wanted)


def _metered(event: PrivacyEvent, work: Work, *, upper: bool = True, tilt: float = 0.0) -> tuple[Law, bool]:
    law, exact = law_of(event, upper=upper, tilt=tilt)
    return MeteredLaw(law, work), exact


def _delta(event: PrivacyEvent, epsilon: float, work: Work) -> tuple[float, float]:
    law, _ = _metered(event, work)
    if law.infinity() >= 1.0:
        return 1.0, 1.0
    if epsilon >= law.top():
        # Counts times losses were rounded; the largest loss may be an ulp above ε.
        return _bare(law.infinity(), 0.0), _total(law.infinity(), -math.expm1(min(0.0, epsilon - _top(law))))
    c = _saddle(law, epsilon)
    inverse, exact = _resolved(event, c, epsilon, True, work)
    high = _total(inverse.law.infinity(), directed_rounding.exp(min(0.0, inverse.logs(epsilon)[1])))
    if not exact:
        inverse, _ = _resolved(event, c, epsilon, False, work)
    low = _bare(inverse.law.infinity(), directed_rounding.exp(min(0.0, inverse.logs(epsilon)[0]), upper=False))
    if high - low > _REFUSE * high:
        raise NumericalError(f"δ({epsilon:g}) lies between {low:g} and {high:g}, too wide a bracket to return")
    return low, high


def _total(infinity: float, finite: float) -> float:
    """The mass at infinity and the rest, rounded up."""
    return min(1.0, (infinity + finite) * (1 + 1e-14))  # a sum and a product: 2 U of the 90


def _bare(infinity: float, finite: float) -> float:
    """The same rounded down."""
    # A sum and a product: 2 U of the 90.
    return max(0.0, (infinity + finite) * (1 - 1e-14))


def _top(law: Law) -> float:
    """The largest finite loss, rounded up."""
    return law.top() + 4 * U * abs(law.top())  # a sum of products: 2 U, and U for the sum here


class _Ends(NamedTuple):
    """The bound on the side that was asked for, and that on the other side if it costs nothing more."""

    asked: float
    other: float | None


def _epsilon(event: PrivacyEvent, delta: float, upper: bool, work: Work) -> _Ends:
    """ε at δ, from above or below: known at once, next to the largest loss, or by inversion."""
    law, _ = _metered(event, work)
    # log1p and expm1 are off by 2 U, the products and the sum by U: 7 U of the 90.
    infinity = law.infinity() * (1 + 1e-14 if upper else 1 - 1e-14)
    spare = math.nextafter(delta - infinity, -1.0 if upper else 2.0)
    known = _known_epsilon(law, delta, infinity, spare)
    if known is not None:
        return _Ends(known, None)
    log = math.log(spare)
    off = (-4 * U if upper else 4 * U) * (1 + abs(log))  # the logarithm is off by 2 U of itself, the sum by U
    target = log + off
    c, start = _saddle_for_delta(law, target)
    if c >= _cutoff(law):  # ε is within a few parts in 1e9 of the largest loss
        if upper:
            return _Ends(_top(law), None)
        return _Ends(_below_top(event, law, c, start, log + abs(off), work), _top(law))
    inverse, exact, root = _root(event, law, c, start, target, upper, work)
    if root == 0.0:
        return _Ends(0.0, None)
    _refuse_wide(event, inverse, exact, root, upper, work)
    other = None
    if exact:
        with contextlib.suppress(NumericalError):
            other = _solved(inverse, root, log - off, not upper)
    return _Ends(min(root, _top(law)) if upper else root, other)


def _known_epsilon(law: Law, delta: float, infinity: float, spare: float) -> float | None:
    """ε where it takes no inversion."""
    if delta >= 1.0 or law.infinity() >= 1.0:
        return math.inf if delta < 1.0 else 0.0
    if law.top() <= 0.0 and infinity <= delta:
        return 0.0
    if spare <= 0.0:
        return math.inf if infinity > delta else max(0.0, _top(law))
    return None


def _below_top(event: PrivacyEvent, law: Law, c: float, start: float, log_delta: float, work: Work) -> float:
    """A lower bound on an ε that is next to the largest loss."""
    inverse, _ = _resolved(event, c, start, False, work)
    for k in range(20):
        x = max(0.0, start - k / c)
        low, _ = inverse.logs(x)
        if low >= log_delta:
            return x
    raise NumericalError(f"ε lies below {law.top():g}, and no lower bound near it is to be had")


def _root(
    event: PrivacyEvent, law: Law, c: float, start: float, log_delta: float, upper: bool, work: Work
) -> tuple[_Inverse | _Direct, bool, float]:
    """The inverse near the root, whether its law is exact, and the root: ε on the side that was asked for."""
    aim = _AIM * max(1.0, c * start)
    inverse, exact = _resolved(event, c, start, upper, work, aim)
    root = _solved(inverse, start, log_delta, upper)
    low, high = inverse.logs(root)
    if abs(root - start) * c > 1.0 or high - low > 2 * aim:  # the line missed the saddle of the root, or an atom at it
        inverse, exact = _resolved(event, _saddle(law, root), root, upper, work, _AIM * max(1.0, c * root))
        root = _solved(inverse, root, log_delta, upper)
    return inverse, exact, root


def _refuse_wide(
    event: PrivacyEvent, inverse: _Inverse | _Direct, exact: bool, root: float, upper: bool, work: Work
) -> None:
    """Raises NumericalError where the bracket at the root is too wide; an inexact law needs that on its other side."""
    low, high = inverse.logs(root)
    if not exact:
        other, _ = _resolved(event, inverse.c, root, not upper, work)
        other_low, other_high = other.logs(root)
        low, high = (other_low, high) if upper else (low, other_high)
    if high - low > _REFUSE * inverse.c * root + 1e-6:
        raise NumericalError(f"ln δ({root:g}) is known to {high - low:.1g} only, too wide a bracket to return")


def _solved(inverse: _Inverse | _Direct, start: float, log_delta: float, upper: bool) -> float:
    """An ε ≥ 0 near ``start`` at which the upper bound is at most δ, or the lower one at least δ (else 0)."""

    def excess(x: float) -> float:
        low, high = inverse.logs(x)
        return (high if upper else low) - log_delta

    x, y, slope = start, excess(start), -inverse.c
    for _ in range(20):
        if not math.isfinite(y):
            raise NumericalError("round-off would dominate the result")
        if abs(y) < 1e-13 * (1 + abs(log_delta)):
            break
        following = max(0.0, x - y / slope)
        if following == x:
            break
        before, x, y = (x, y), following, excess(following)
        secant = (y - before[1]) / (x - before[0])
        slope = secant if secant < 0.0 else slope
    # Steps until the bound itself says that it holds.
    nudge = abs(y) / inverse.c + 1e-15 * (x + 1 / inverse.c)
    while y > 0.0 if upper else y < 0.0 < x:
        x = max(0.0, x + nudge if upper else x - nudge)
        if x == math.inf:
            raise NumericalError("round-off would dominate the result")
        y, nudge = excess(x), 2 * nudge
    return x
