"""Composition of privacy-loss distributions: one exponential tilt, one FFT, and a bound on everything that is lost.

For a composition with finite losses s under P and cumulant function K(λ) = Σ n_j ln Σ p_j e^{λ s}, and the tilted law
t(s) ∝ P(s)·e^{λ s},

    δ(ε) = P(∞) + e^{K(λ) − λε} · Σ_{s>ε} t(s) · e^{−λ(s−ε)} (1 − e^{ε−s}).

With λ at the saddle point the tilted law has its mass where the sum is decided, so that ordinary floating-point
numbers give δ to a *relative* accuracy, at 1e-30 as at 1e-6. Three things are lost and added back (or taken off, in the
lower bound):

* tilted mass outside the FFT's window, by Chernoff's bound at several tilts (it wraps round: ``_WRAP``);
* round-off of the transforms: in 2-norm each is off by at most c·u·log2(N) of its norm (Higham 2002, Thm 24.2), and
  Cauchy–Schwarz turns a 2-norm into an error of the sum above;
* round-off of the cell masses and exponentials, as a relative error per composed event.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray
from scipy import fft, optimize

from . import rounding
from .composite import Composed, VisibleMixture
from .errors import NumericalError
from .event import Array, PrivacyEvent
from .loss_pmf import LossPmf, discretise

_U = 2.0**-53
_FFT = 8.0 * _U  # relative 2-norm error of one transform, per doubling of its length
_WRAP = 1e-15
_MAX_SIZE = 2**22
_MAX_LOSS = 1e5


@frozen(eq=False)
class _Part:
    pmf: LossPmf
    count: int
    losses: Array
    log_p: Array


class Composition:
    """The law of the total privacy loss of ``event`` on one grid, from above or from below."""

    def __init__(self, event: PrivacyEvent, step: float, upper: bool) -> None:
        parts = event.parts if isinstance(event, Composed) else ((event, 1),)
        self.step, self.upper = step, upper
        self.parts: list[_Part] = []
        log_finite = 0.0
        for inner, count in parts:
            pmf = discretise(inner, step, upper)
            if pmf.infinity >= 1.0 or not pmf.p.any():
                log_finite = -math.inf
                continue
            log_finite += count * math.log1p(-pmf.infinity)
            with np.errstate(divide="ignore"):
                self.parts.append(_Part(pmf, count, pmf.losses(), np.log(pmf.p)))
        self.infinity = -math.expm1(log_finite)
        self.top = sum(part.count * float(part.losses[-1]) for part in self.parts)
        self.bottom = sum(part.count * float(part.losses[0]) for part in self.parts)
        self.events = sum(part.count for part in self.parts)

    def cumulant(self, tilt: float) -> tuple[float, float, float]:
        """K, K' and K'' at ``tilt``."""
        k = mean = variance = 0.0
        for part in self.parts:
            y = part.log_p + tilt * part.losses
            peak = y.max()
            weight = np.exp(y - peak)
            total = weight.sum()
            m = float(weight @ part.losses / total)
            k += part.count * (float(peak) + math.log(total))
            mean += part.count * m
            variance += part.count * float(weight @ (part.losses - m) ** 2 / total)
        return k, mean, variance

    def _value(self, tilt: float) -> float:
        k = 0.0
        for part in self.parts:
            y = part.log_p + tilt * part.losses
            peak = y.max()
            k += part.count * (float(peak) + math.log(np.exp(y - peak).sum()))
        return k

    def saddle_for_epsilon(self, epsilon: float) -> float:
        """The tilt at which the sum for δ(epsilon) is decided, to a few per cent: K'(λ) − ε = 1/λ + 1/(1+λ)."""
        return self._bisect(lambda tilt, _k, mean, _v: mean - epsilon - 1 / tilt - 1 / (1 + tilt) < 0)

    def saddle_for_delta(self, log_delta: float) -> float:
        """The tilt whose saddle-point estimate of δ is ``log_delta``, to a few per cent."""

        def estimate_is_above(tilt: float, k: float, mean: float, variance: float) -> bool:
            spread = 0.5 * math.log1p(2 * math.pi * variance * tilt * tilt)
            return k - tilt * mean - math.log1p(tilt) - spread > log_delta

        return self._bisect(estimate_is_above)

    def _bisect(self, too_small) -> float:  # type: ignore[no-untyped-def]
        _, _, variance = self.cumulant(0.0)
        scale = 1 / math.sqrt(variance) if variance > 0 else 1.0
        low, high = 1e-3 * scale, scale
        while too_small(high, *self.cumulant(high)) and high < 1e6 * scale:
            low, high = high, 2 * high
        while high / low > 1.05:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if too_small(middle, *self.cumulant(middle)) else (low, middle)
        return high

    def tilted(self, tilt: float) -> _Tilted:
        """The tilted law of the sum, on a window outside which at most ``_WRAP`` lies on either side."""
        k, mean, variance = self.cumulant(tilt)
        sd = math.sqrt(variance)
        high, low = self.top, self.bottom
        if sd > 0:
            for t in np.geomspace(0.7, 11, 7) / sd:
                high = min(high, (self._value(tilt + t) - k - math.log(_WRAP)) / t)
                low = max(low, -(self._value(tilt - t) - k - math.log(_WRAP)) / t)
        start = math.floor(low / self.step) - 1
        size = 1 << max(4, (math.ceil(high / self.step) + 2 - start - 1).bit_length())
        if size > _MAX_SIZE:
            raise NumericalError(f"the window of the composition spans {size} cells of {self.step:g}")
        spectrum = np.ones(size // 2 + 1, dtype=complex)
        log2n = math.log2(size)
        error = growth = 0.0
        offset = 0
        for part in self.parts:
            y = part.log_p + tilt * part.losses
            w = np.exp(y - y.max())
            w /= w.sum()
            peak = int(np.argmax(w))
            atom = float(w[peak])
            # The largest atom, put at index 0, has the constant spectrum ``atom``: exact, and the rest is smaller.
            rest = w.copy()
            rest[peak] = 0.0
            folded = np.bincount((np.arange(len(rest)) - peak) % size, rest, size)
            single = atom + fft.rfft(folded)
            spectrum *= _power(single, part.count)
            norm = float(np.linalg.norm(folded))
            error += part.count * _FFT * log2n * norm
            growth += part.count * (_FFT * log2n * math.sqrt(size) * norm + 4 * _U)
            offset += part.count * (part.pmf.start + peak)
        t = np.roll(fft.irfft(spectrum, size), (offset - start) % size)
        norm_t = float(np.linalg.norm(t))
        if growth > 1.0:
            raise NumericalError("round-off of the transforms would dominate the result")
        error = error * math.exp(growth) + (4 * _U * (self.events + 1) + _FFT * log2n) * norm_t * math.exp(growth)
        # One ulp of each exponential's argument, of each cell mass, for each composed event.
        relative = 0.0
        for part in self.parts:
            widest = max(abs(float(part.losses[0])), abs(float(part.losses[-1])))
            deepest = min(750.0, -float(part.log_p[np.isfinite(part.log_p)].min()))
            relative += part.count * 2 * _U * (24 + tilt * widest + deepest)
        relative += 2 * _U * (abs(k) + abs(tilt * mean) + log2n)
        return _Tilted(self, tilt, k, mean, sd, start, np.maximum(t, 0.0), error, relative)


def _power(z: NDArray[np.complex128], n: int) -> NDArray[np.complex128]:
    result, square = np.ones_like(z), z
    while n:
        if n & 1:
            result = result * square
        n >>= 1
        if n:
            square = square * square
    return result


@frozen(eq=False)
class _Tilted:
    """The tilted law of the sum: ``t[i]`` at loss (start + i)·step, within 2-norm ``error``."""

    composition: Composition
    tilt: float
    k: float
    mean: float
    sd: float
    start: int
    t: Array
    error: float
    relative: float

    def log_delta(self, epsilon: float) -> float:
        """ln δ(epsilon) without the mass at infinity, rounded in the direction of the composition."""
        step, tilt, upper = self.composition.step, self.tilt, self.composition.upper
        first = max(math.floor(epsilon / step) + 1 - self.start, 0)
        reach = min(len(self.t), first + math.ceil(80.0 / (tilt * step)) + 1)
        gap = (self.start + np.arange(first, reach)) * step - epsilon
        gain = np.exp(-tilt * gap) * -np.expm1(-gap)
        gain[gap <= 0] = 0.0
        value = float(self.t[first:reach] @ gain)
        # What lies beyond ``reach``, what wrapped round the window, and the transforms' error.
        lost = 2 * _WRAP + math.exp(-80.0) + self.error * (float(np.linalg.norm(gain)) + math.exp(-40.0))
        value = value + lost if upper else value - lost
        if value <= 0:
            return -math.inf
        exponent = self.k - tilt * epsilon
        margin = self.relative + 4 * _U * abs(tilt * epsilon)
        return exponent + math.log(value) + (margin if upper else -margin)

    def delta(self, epsilon: float) -> float:
        finite = rounding.exp(min(0.0, self.log_delta(epsilon)), upper=self.composition.upper)
        return min(1.0, self.composition.infinity + finite)


def _step(event: PrivacyEvent) -> float:
    """The grid, fine enough for a relative excess near 1e-6.

    Splitting a cell between its ends adds about h²/6 to the variance of an event's loss, and half that to its mean.
    Over n events that is an excess of about n·h²·(1 + λ)/12 in ε, λ being the tilt; with ε near λ·s², s the standard
    deviation of the total loss, h = s·√(6e-6/n) keeps it below 1e-6·ε.
    """
    parts = event.parts if isinstance(event, Composed) else ((event, 1),)
    widest = max((high - low for inner, _ in parts for low, high in [inner.loss_support()]), default=0.0)
    if widest <= 0.0:
        return 1e-3
    if widest > _MAX_LOSS:
        raise NumericalError(f"privacy losses up to {widest:g} are beyond what a distribution of losses is good for")
    _, _, variance = Composition(event, widest / 256, True).cumulant(0.0)
    spread = math.sqrt(variance)
    step = min(widest / 256, spread * min(5e-4, math.sqrt(6e-6 / max(1.0, _splits(event)))))
    step = max(step, widest / 2**20, 24 * spread / 2**21)
    # An atom is often the largest loss; on a grid point it is not split.
    top = max(inner.loss_support()[1] for inner, _ in parts)
    return top / math.ceil(top / step) if top > step else step


def _splits(event: PrivacyEvent) -> float:
    """How many events are split over grid cells, on average: a visible mixture's atom at 0 is not."""
    if isinstance(event, Composed):
        return sum(count * _splits(inner) for inner, count in event.parts)
    if isinstance(event, VisibleMixture):
        return event.probability * _splits(event.event)
    return max((_splits(child) for child in event.children()), default=1.0)


@lru_cache(maxsize=256)
def _composition(event: PrivacyEvent, upper: bool) -> Composition:
    return Composition(event, _step(event), upper)


def delta(event: PrivacyEvent, epsilon: float, *, upper: bool = True) -> float:
    """Returns a bound on δ at ``epsilon`` ≥ 0 from above (or below). The event's failure is not added.

    Raises:
      UnsupportedEventError: a leaf has no profile.
      NumericalError: round-off or the size of the grid would dominate the result.
    """
    law = _composition(event, upper)
    if not law.parts or epsilon >= law.top:
        return law.infinity
    return law.tilted(law.saddle_for_epsilon(epsilon)).delta(epsilon)


def epsilon(event: PrivacyEvent, delta: float, *, upper: bool = True) -> float:
    """Returns a bound on the least ε ≥ 0 with δ(ε) ≤ delta from above (or below); the failure is not added."""
    law = _composition(event, upper)
    spare = delta - law.infinity
    if spare <= 0.0:
        return math.inf if law.infinity > delta else max(0.0, law.top)
    if not law.parts or law.top <= 0.0:
        return 0.0
    target = math.log(spare)
    tilted = law.tilted(law.saddle_for_delta(target))
    root = _solve(tilted, target, law.top)
    if abs(tilted.log_delta(root) - _exact_tilt_floor(tilted, root)) > 1e-3:
        again = law.tilted(law.saddle_for_epsilon(root))
        retried = _solve(again, target, law.top)
        root = min(root, retried) if upper else max(root, retried)
    return root


def _exact_tilt_floor(tilted: _Tilted, epsilon: float) -> float:
    """ln δ without what is added for losses: far below ``log_delta`` where the tilt was chosen badly."""
    bare = evolve(tilted, error=0.0, relative=0.0)
    return bare.log_delta(epsilon)


def _solve(tilted: _Tilted, target: float, top: float) -> float:
    upper = tilted.composition.upper

    def excess(x: float) -> float:
        return max(tilted.log_delta(x), -1e300) - target

    low = 0.0
    if upper:
        if excess(0.0) <= 0.0:
            return 0.0
        if excess(top) > 0.0:
            return top  # beyond the largest finite loss nothing is left
    else:
        # Far below the saddle the margins eat the lower bound up: start where it is sharp and go down.
        low = next((x for k in (0, 1, 2, 4, 8) if excess(x := max(0.0, tilted.mean - k * tilted.sd)) > 0.0), -1.0)
        if low < 0.0:
            return 0.0
    root = float(optimize.brentq(excess, low, top, xtol=1e-13 * max(top, 1e-300), rtol=1e-13))
    nudge = 1e-12 * max(root, 1e-300)
    if upper:
        while excess(root) > 0.0:
            root, nudge = root + nudge, 2 * nudge
        return min(root, top)
    while root > low and excess(root) < 0.0:
        root, nudge = root - nudge, 2 * nudge
    return max(low, root)
