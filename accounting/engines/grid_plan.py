"""The plan of a composition: the tilt at which δ is decided, and a grid fine enough for it.

Both are found on a coarse law of each event, a thousand cells or so. Nothing here has to be right for a bound to hold,
only for it to be tight: any tilt and any grid give a sound one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from hockeystick.accounting.errors import NumericalError
from hockeystick.accounting.events.basic.composition import Composed, VisibleMixture
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair

_AIM = 5e-7  # excess of ε, relative
LARGE = 3e-3  # δ
_TYPICAL = {True: (math.log(0.2), math.log(0.01)), False: (math.log(1e-4), math.log(1e-10))}
_MAX_LOSS = 1e5
_MAX_CELLS = 2.0**22
_STEEPEST = 40.0  # the largest tilt, in units of 1/(deviation of the loss)
_WIDEST = 64.0  # step
_ATOMS = 32
_TRIALS = 2**13
_MANY = 2.0**20  # cells
_CHEAP = 2.0**16  # cells, whose sums take a few hundredths of a second
_SPREADS = 20.0  # deviations of the total loss in a window


def parts_of(event: PrivacyEvent) -> tuple[tuple[PrivacyEvent, int], ...]:
    """Returns the distinct events of a composition with their counts."""
    return event.parts if isinstance(event, Composed) else ((event, 1),)


class Sketch:
    """The law of the total loss, by the cumulant functions of coarse laws."""

    def __init__(self, event: PrivacyEvent, step: float) -> None:
        self.parts: list[tuple[Array, Array, int]] = []  # ln mass and loss of each outcome, count
        log_finite = 0.0
        for inner, count in parts_of(event):
            pmf = discretise(inner, step, True)
            kept = pmf.p > 0.0
            if pmf.infinity >= 1.0 or not kept.any():
                log_finite = -math.inf
                continue
            log_finite += count * math.log1p(-pmf.infinity)
            self.parts.append((np.log(pmf.p[kept]), pmf.losses()[kept], count))
        self.infinity = -math.expm1(log_finite)
        _, self.mean, self.variance = self.cumulant(0.0)

    def cumulant(self, tilt: float) -> tuple[float, float, float]:
        """Returns K, K' and K'' at ``tilt``, K(λ) = Σ count·ln E[e^{λ·loss}]."""
        k = mean = variance = 0.0
        for log_p, losses, count in self.parts:
            y = log_p + tilt * losses
            peak = float(y.max())
            weight = np.exp(y - peak)
            total = float(weight.sum())
            m = float(weight @ losses) / total
            k += count * (peak + math.log(total))
            mean += count * m
            variance += count * float(weight @ (losses - m) ** 2) / total
        return k, mean, variance

    def tilt_for_epsilon(self, epsilon: float) -> float:
        """Returns the tilt at which the sum for δ(epsilon) is decided, to a per cent: K' − ε = 1/λ + 1/(1+λ)."""
        return self._calmed(self._bisect(lambda tilt, _k, mean, _v: mean - epsilon - 1 / tilt - 1 / (1 + tilt) < 0))

    def for_delta(self, log_delta: float) -> tuple[float, float]:
        """Returns the tilt whose saddle-point estimate of δ is ``log_delta``, to a per cent, and that of ε."""
        tilt = self._bisect(lambda tilt, k, mean, variance: k - tilt * mean - _width_term(tilt, variance) > log_delta)
        k, mean, variance = self.cumulant(tilt)
        near = (k - _width_term(tilt, variance) - log_delta) / tilt
        return self._calmed(tilt), max(0.0, min(near, mean + 10 * math.sqrt(variance)))

    def _calmed(self, tilt: float) -> float:
        """A tilt near this one with a smaller variance: a rare large loss needs no part in deciding a sum.

        For the tilt λ' in place of λ, the sum's relative accuracy falls by e^{(λ−λ')²·variance/2}.
        """
        tilts = [tilt * (1 - 0.03 * i) for i in range(10)]
        variances = [self.cumulant(other)[2] for other in tilts]
        least = min(variances)
        if least <= 0.0:
            return tilt
        return min(
            zip(tilts, variances, strict=True),
            key=lambda pair: math.log(pair[1]) + 0.5 * (tilt - pair[0]) ** 2 * least,
        )[0]

    def _bisect(self, too_small: Callable[[float, float, float, float], bool]) -> float:
        scale = 1 / math.sqrt(self.variance) if self.variance > 0 else 1.0
        low, high = 1e-3 * scale, scale
        while low > 1e-12 * scale and not too_small(low, *self.cumulant(low)):  # rare large losses decide
            low, high = 1e-3 * low, low
        while too_small(high, *self.cumulant(high)) and high < 1e6 * scale:
            low, high = high, 2 * high
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if too_small(middle, *self.cumulant(middle)) else (low, middle)
        return high


def _width_term(tilt: float, variance: float) -> float:
    """ln of the factor by which δ is below e^{K − λε}, with λ the tilt at the mean ε."""
    return math.log1p(tilt) + 0.5 * math.log1p(2 * math.pi * variance * tilt * tilt)


@lru_cache(maxsize=64)
def sketch(event: PrivacyEvent) -> Sketch:
    """Returns the law of the total loss on a grid that raises ε by about a per cent.

    Raises:
      UnsupportedEventError: a leaf has no profile.
      NumericalError: losses are too large for a grid.
    """
    width = _width(event)
    if width > _MAX_LOSS:
        raise NumericalError(f"privacy losses up to {width:g} are beyond what a distribution of losses is good for")
    if width <= 0.0:
        return Sketch(event, 1e-3)
    step, splits = width / 512, max(1.0, _splits(event))
    found = Sketch(event, step)
    for _ in range(8):  # on too coarse a grid the deviation is overestimated
        aim = max(math.sqrt(0.12 * found.variance / splits), width / 2**18)
        if step <= 1.25 * aim:
            break
        step = aim
        found = Sketch(event, step)
    return found


@lru_cache(maxsize=256)
def grid(event: PrivacyEvent, upper: bool, *, large: bool = False, coarser: int = 0) -> float:
    """Returns a step for a relative excess of ε below 1e-6, or one about 2**coarser times as large.

    ``large`` is for a large δ, where ε is small and takes a finer grid.

    Splitting a cell between its ends adds about h²/6 to the variance of an event's loss, and half that to its mean.
    Over n events that is an excess of n·h²·(1 + λ)/12 in ε, where the law tilted by λ decides. As a part of ε that
    depends little on δ, unless it is large.
    """
    width = _width(event)
    if width <= 0.0:
        return 1e-3
    return _aligned(event, max(_wanted(event, width, large), width / _MAX_CELLS) * 2.0**coarser, upper)


@lru_cache(maxsize=256)
def is_clamped(event: PrivacyEvent) -> bool:
    """Says whether the grid is coarser than it should be, because losses reach too far for a finer one."""
    width = _width(event)
    return width > 0.0 and _wanted(event, width, False) < width / _MAX_CELLS


def _wanted(event: PrivacyEvent, width: float, large: bool) -> float:
    rough, splits = sketch(event), max(1.0, _splits(event))
    step, spread = width / 256, math.sqrt(rough.variance)
    for log_delta in _TYPICAL[large] if rough.parts else ():
        tilt, epsilon = rough.for_delta(log_delta)
        steepness = min(tilt, _STEEPEST / spread) if spread > 0 else tilt
        step = min(step, math.sqrt(12 * _AIM * max(epsilon, spread / 4) / (splits * (1 + steepness))))
    return step


def finer_by(event: PrivacyEvent, step: float, epsilon: float, steepness: float) -> int:
    """Returns the powers of 2 by which a grid is too coarse where −ln δ rises so steeply; no finer than is cheap."""
    wanted = math.sqrt(12 * _AIM * epsilon / (max(1.0, _splits(event)) * (1 + max(0.0, steepness))))
    finest = max(wanted, _width(event) / _CHEAP)
    return max(0, math.ceil(math.log2(step / finest) - 0.5)) if step > 0.0 and finest > 0.0 else 0


def is_large(event: PrivacyEvent) -> bool:
    """Says whether the grid for an excess below 1e-6, or the window for the total loss, has over a million cells.

    A guess without any law, from the divergence near order 1, which is half the variance of a small loss: with s the
    deviation of the total loss, where δ is 1e-5 or so ε is about s²/2 + 4s, and the tilt 4/s.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(event.rdp(np.array([1.0001]))[0])
    splits, width = max(1.0, _splits(event)), _width(event)
    if not 0.0 < mean < math.inf or not width > 0.0:
        return False
    spread = math.sqrt(2 * mean)
    step = math.sqrt(12 * _AIM * (mean + 4 * spread) / (splits * (1 + 4 / spread)))
    return max(width, _SPREADS * spread) > _MANY * step


def _width(event: PrivacyEvent) -> float:
    return max((high - low for inner, _ in parts_of(event) for low, high in [inner.loss_support()]), default=0.0)


def _splits(event: PrivacyEvent) -> float:
    """The mean number of events that are split over grid cells: a visible mixture's atom at 0 is not."""
    if isinstance(event, Composed):
        return sum(count * _splits(inner) for inner, count in event.parts)
    if isinstance(event, VisibleMixture):
        return event.probability * _splits(event.event)
    return max((_splits(child) for child in event.children()), default=1.0)


def _aligned(event: PrivacyEvent, step: float, upper: bool) -> float:
    """A step, at most this one, with most atoms near grid points, or from below just above: there little is lost.

    If all losses are multiples of a larger number, that number.
    """
    losses, weights, smooth = _atoms(event)
    far = np.abs(losses) >= step
    losses, where, of = np.unique(losses[far], return_index=True, return_inverse=True)
    if not len(losses):
        return step
    share = np.bincount(of, weights[far])
    order = np.lexsort((where, -share))[:_ATOMS]  # the heaviest ones, of equals the first
    few = len(losses) <= _ATOMS
    losses, share = losses[order], share[order]
    unit = abs(float(losses[0]))
    # A ratio that is whole but for rounding counts as whole; any step is sound.
    least = math.ceil(unit / step * (1 - 1e-12))
    if not smooth and few:
        for start in range(math.ceil(unit / _WIDEST), least, _TRIALS):
            parts = np.arange(start, min(start + _TRIALS, least))
            fits = (_offsets(losses, unit, parts) == 0.0).all(axis=0)
            if fits.any():
                return _up(unit, int(parts[np.argmax(fits)]))
    parts = np.arange(least, least + least // 4 + 1)[:_TRIALS]
    off = _offsets(losses, unit, parts)
    return _up(unit, int(parts[np.argmin(share @ (off * (1 - off) if upper else off))]))


def _offsets(losses: Array, unit: float, parts: Array) -> Array:
    """The distance of each loss above a multiple of unit/parts, in such steps; 0 within rounding."""
    multiples = np.multiply.outer(losses / unit, parts)
    nearest = np.round(multiples)
    return np.where(np.abs(multiples - nearest) <= 1e-13 * np.abs(nearest), 0.0, multiples - np.floor(multiples))


def _up(unit: float, parts: int) -> float:
    """unit/parts rounded up, so that ``parts`` steps reach unit."""
    step = unit / parts
    return step if step * parts >= unit else math.nextafter(step, math.inf)


def _atoms(event: PrivacyEvent) -> tuple[Array, Array, bool]:
    """Losses of single outcomes, their mean numbers, and whether there are densities besides."""
    pair = None if isinstance(event, Composed) else event.pair()
    if isinstance(pair, Atoms):
        losses, p = np.array(pair.losses), np.array(pair.p)
        return losses[p > 1e-9], p[p > 1e-9], False
    if pair is not None:
        losses, p = np.array(_end_atoms(pair)).reshape(-1, 2).T
        return losses, p, True
    inside = event.parts if isinstance(event, Composed) else tuple((child, 1) for child in event.children())
    found = [(count, *_atoms(inner)) for inner, count in inside]
    # Between grid points other events' profiles may have kinks, as where those of two branches cross.
    smooth = not isinstance(event, Composed | VisibleMixture) or any(dense for *_, dense in found)
    weights = [np.empty(0), *(float(count) * p for count, _, p, _ in found)]
    return np.concatenate([np.empty(0), *(losses for _, losses, _, _ in found)]), np.concatenate(weights), smooth


def _end_atoms(pair: DominatingPair) -> list[tuple[float, float]]:
    found = []
    for end in pair.support():
        # Just around the end: whether an atom is there steers the grid alone.
        cells = pair.cells(np.array([end - 1e-12 * abs(end), end + 1e-12 * abs(end)]))
        if end and cells.p[0] > 1e-9:
            found.append((end, float(cells.p[0])))
    return found
