"""The law of a composition's total loss, tilted exponentially: one FFT, and a bound on everything that is lost.

For a composition with finite losses s under P and cumulant function K(λ) = Σ n_j ln Σ p_j e^{λ s}, and the tilted law
t(s) ∝ P(s)·e^{λ s},

    δ(ε) = P(∞) + e^{K(λ) − λε} · Σ_{s>ε} t(s) · e^{−λ(s−ε)} (1 − e^{ε−s}).

With λ at the saddle point the tilted law has its mass where the sum is decided, so that ordinary floating-point
numbers give δ to a *relative* accuracy, at 1e-30 as at 1e-6. Three things are lost:

* what is outside the FFT's window: the gain e^{−λ(s−ε)} is small beyond its end, and what wraps round it is bounded by
  Chernoff's inequality at several tilts (from above, mass that wraps into the sum does no harm);
* round-off of the transforms, in 2-norm (``numerics/fft_round_off.py``, Higham 2002, Thm 24.2), which Cauchy–Schwarz
  turns into an error of the sum above; where it is felt, powers are made from a better transform
  (``engines/bright_spectrum.py``);
* round-off of the tilted masses, which is made up for mass by mass before they are composed.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from scipy import fft

from hockeystick.accounting.engines.bright_spectrum import dimming, folded, log_transform, sparse_log_transform
from hockeystick.accounting.engines.grid_plan import parts_of
from hockeystick.accounting.errors import NumericalError
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.loss_grid import DENSE, SNAP, LossPmf, SparsePmf, sparse_from_pair
from hockeystick.accounting.numerics import fft_round_off, single_core, work_limit
from hockeystick.accounting.numerics.directed_rounding import U

_WRAP = 1e-9  # of the tilted law may wrap round into the sum
_BEYOND = 40.0  # e^{−40} of the gain is left out, and added
_FELT = 1e-10  # of a power: round-off that asks for a better transform
_DARK = 90.0  # frequencies at which the composed spectrum is below e^{−90} are left out, and added
_LITTLE = 1e-6  # shares of the product as small as this may be added up
MAX_SIZE = 2**22
_MAX_SPARSE = 2**40
_MOST_FREQUENCIES = 2**10  # of a sparse law
_BLOCKS = 2**13
_CHUNK = 2**15
_STEEPEST = 10.0  # the largest tilt, per step


class TooLarge(NumericalError):
    """The window of a composition has too many cells; a coarser grid may help."""


class Law:
    """The law of the total privacy loss of ``event`` on one grid, from above or from below."""

    def __init__(self, event: PrivacyEvent, step: float, upper: bool, sparse: bool = False) -> None:
        self.step, self.upper, self.sparse = step, upper, sparse
        self.parts: list[tuple[LossPmf | SparsePmf, int]] = []
        log_finite = 0.0
        for inner, count in parts_of(event):
            pair = inner.pair() if sparse else None
            pmf = discretise(inner, step, upper) if pair is None else sparse_from_pair(pair, step, upper)
            if pmf.infinity >= 1.0 or not pmf.p.any():
                log_finite = -math.inf
                continue
            log_finite += count * math.log1p(-pmf.infinity)
            self.parts.append((pmf, count))
        events = sum(count for _, count in self.parts)
        self.infinity = -math.expm1(log_finite) * (1 + U * (len(self.parts) + 16) * (1 if upper else -1))
        self.top = sum(count * pmf.last for pmf, count in self.parts)  # the largest loss, in steps
        self.bottom = sum(count * pmf.start for pmf, count in self.parts)
        self.events = events
        # What a law from below may be too high by: see loss_pmf.py.
        ends = (count * max(abs(pmf.start), abs(pmf.last + 1)) for pmf, count in self.parts)
        self.snap = 0.0 if upper else SNAP * step * float(sum(ends))

    def tilted(self, tilt: float, near: float, careful: bool = False) -> Tilted:
        """Returns the tilted law of the sum, on a window for sums over losses above an ε around ``near``.

        Args:
          careful: make round-off of high powers as small as can be, in about twice the time.

        Raises:
          TooLarge: the window is.
          NumericalError: round-off would dominate.
        """
        slope = min(tilt * self.step, _STEEPEST)
        k = margin = 0.0
        parts: list[tuple[int, Array, int, _Blocks]] = []  # start, tilted masses, count
        blocks = _BLOCKS // len(self.parts) + 64
        for pmf, count in self.parts:
            weights, log_total, off = _tilted_masses(pmf, slope, self.upper)
            k += count * log_total
            margin += count * off
            at = pmf.at - pmf.start if isinstance(pmf, SparsePmf) else None
            parts.append((pmf.start, weights, count, _blocks(weights, blocks) if at is None else _points(weights, at)))
        tails = _Tails([(start, count, blocks) for start, _, count, blocks in parts], self.bottom, self.top)
        last, size = self._window(tails, slope, round(near / self.step))
        margin += 4 * U * (abs(k) + len(self.parts))  # a product and a sum for each part, off by U each
        if self.sparse:
            few = self._few([weights for _, weights, *_ in parts], size)
            return FewFrequencies(self, slope, k, margin, tails, last, np.empty(0), 0.0, size, *few)
        spectrum, offset = _Spectrum(size, careful), 0
        # The most repeated parts first: what they leave dark need not be computed for the others.
        parts.sort(key=lambda part: part[2])
        while parts:
            start, weights, count, _ = parts.pop()
            peak = int(np.argmax(weights))
            spectrum.multiply(weights, peak, count)
            offset += count * (start + peak)
            del weights
        t, error = spectrum.inverse(self.events, (offset - (last - size + 1)) % size)
        return Tilted(self, slope, k, margin, tails, last, t, error)

    def _few(self, tilted: list[Array], size: int) -> tuple[Array, NDArray[np.complex128], Array]:
        """The frequencies at which a sparse law's composed transform isn't dark, that transform, and its error."""
        k = np.arange(min(_MOST_FREQUENCIES, size // 2))
        dim = np.zeros(len(k))
        for (pmf, count), weights in zip(self.parts, tilted, strict=True):
            assert isinstance(pmf, SparsePmf)
            dim += count * dimming(weights, pmf.at, DENSE, k * (2 * math.pi / size))
        if not dim[-1] > _DARK:
            raise TooLarge(f"more than {len(k)} frequencies of the total loss are not negligible")
        k = k[: int(np.argmax(dim > _DARK))]
        log_z, off, turn = np.zeros(len(k), dtype=complex), np.zeros(len(k)), 0
        for (pmf, count), weights in zip(self.parts, tilted, strict=True):
            peak = pmf.places(0, len(weights))[int(np.argmax(weights))]
            found = sparse_log_transform(weights, pmf.places(0, len(weights)) - peak, size, len(k))
            if found is None:
                raise NumericalError("a transform is too near 0 for its logarithm")
            log_z += count * found[0]
            # The product with the count and the sum are off by U each, as is what the logarithm is.
            off += count * (found[1] + 4 * U * np.abs(found[0]))
            turn += count * int(peak)
        # Exponentials and products are off by a few U of 1, turns by 16 U.
        off = np.expm1(np.minimum(off, 700.0)) + 64 * U
        return k, np.exp(log_z - 2j * math.pi / size * (k * (turn % size) % size)), off

    def _window(self, tails: _Tails, slope: float, place: int) -> tuple[int, int]:
        """The last place and the size of a window from which little is lost for sums over places above ``place``."""
        last, least = min(self.top, place + math.ceil(min((_BEYOND + 6) / slope, 1e15))), place + 2
        while last > least:  # beyond it the law's tail is as small as the gain, or the two together
            middle = (last + least) // 2
            if tails.log_above(np.array(middle + 1)) - slope * (middle - place) > -(_BEYOND + 6):
                least = middle + 1
            else:
                last = middle
        last = max(last, least)
        size = 16
        most = _MAX_SPARSE if self.sparse else MAX_SIZE
        while size < last - place or tails.wrapped(slope, np.array(place), last, size) > _WRAP:
            size *= 2
            if size > most:
                raise TooLarge(f"the total loss spreads over more than {most} cells of {self.step:g}")
        return last, size


def _tilted_masses(pmf: LossPmf | SparsePmf, slope: float, upper: bool) -> tuple[Array, float, float]:
    """P's masses times e^{slope·index} over their sum, rounded outwards; ln of the sum, and its rounding."""
    w = np.empty(len(pmf.p))
    pieces = [slice(i, min(i + _CHUNK, len(w))) for i in range(0, len(w), _CHUNK)]
    with np.errstate(divide="ignore"):
        for piece in pieces:
            w[piece] = np.log(pmf.p[piece])
            w[piece] += pmf.places(piece.start, piece.stop) * slope
    peak = float(w.max())
    for piece in pieces:
        y, lean = w[piece], pmf.places(piece.start, piece.stop) * slope
        # Each exponent is off by an ulp of each of its terms; ln p is their difference.
        off = 2 * np.abs(y) + 8 * np.abs(lean) + (8 + 2 * abs(peak))
        off[y == -math.inf] = 0.0
        y -= peak
        np.exp(y, out=y)
        y *= 1 + U * off if upper else 1 - U * off
    total = float(w.sum())
    w /= total
    # Quotient, logarithm, sum: 4 U of 1, 2 U of the logarithm, U of each term of the sum.
    log_total = math.log(total)
    return w, peak + log_total, U * (4 + 2 * abs(peak) + 2 * abs(log_total))


@frozen(eq=False)
class _Blocks:
    """A law with a moment-generating function above that of given weights: each block's mass is split between its ends.

    ``places`` are relative to ``centre``, an index near the mean.
    """

    places: Array
    log_mass: Array
    mean: float
    centre: int
    variance: float

    def log_mean(self, t: float) -> float:
        """ln E[e^{t·(index − centre)}], from above."""
        y = self.log_mass + t * self.places
        peak = float(y.max())
        # Exponents within 700 of the peak are off by 3 U of theirs, sums by 200 U: of 9e3 U.
        return peak + math.log(float(np.exp(y - peak).sum())) + 1e-12


def _blocks(weights: Array, most: int) -> _Blocks:
    length = -(-len(weights) // most)
    rows = len(weights) // length
    table, rest = weights[: rows * length].reshape(rows, length), weights[rows * length :]
    mass = np.append(table.sum(axis=1), rest.sum())
    inside = np.arange(length) / length
    up = np.append(table @ inside, rest @ inside[: len(rest)])
    ends = np.append(mass - up, 0.0)
    ends[1:] += up
    index = np.arange(len(ends)) * float(length)
    return _points(ends, index)


def _points(weights: Array, at: Array) -> _Blocks:
    """The law itself, of weights at the places ``at``."""
    kept = weights > 0.0
    w, places = weights[kept], at[kept]
    mean = float(w @ places) / float(w.sum())
    centre = round(mean)
    return _Blocks(places - centre, np.log(w), mean, centre, float(w @ (places - mean) ** 2))


class _Tails:
    """Chernoff's bounds on the tilted law of the sum, S in steps, which lies between ``bottom`` and ``top``."""

    def __init__(self, parts: list[tuple[int, int, _Blocks]], bottom: int, top: int) -> None:
        self.bottom, self.top = bottom, top
        self.centre = sum(count * (start + blocks.centre) for start, count, blocks in parts)
        self.mean = self.centre + math.fsum(count * (blocks.mean - blocks.centre) for _, count, blocks in parts)
        self.spread = math.sqrt(sum(count * blocks.variance for _, count, blocks in parts))
        self.rates = np.geomspace(0.01, 40.0, 28) / max(self.spread, 1e-3)
        self.up, self.down = (
            np.array([sum(count * blocks.log_mean(sign * t) for _, count, blocks in parts) for t in self.rates])
            for sign in (1.0, -1.0)
        )

    def log_above(self, places: Array) -> Array:
        """ln of bounds on P(S ≥ place)."""
        off = np.asarray(places, dtype=float)[..., None] - self.centre
        return np.where(places > self.top, -math.inf, np.minimum(0.0, (self.up - self.rates * off).min(axis=-1)))

    def above(self, places: Array) -> Array:
        """Bounds on P(S ≥ place)."""
        return np.asarray(np.exp(self.log_above(places)))

    def below(self, places: Array) -> Array:
        """Bounds on P(S ≤ place)."""
        off = np.asarray(places, dtype=float)[..., None] - self.centre
        return np.where(places < self.bottom, 0.0, np.exp(np.minimum(0.0, (self.down + self.rates * off).min(axis=-1))))

    def wrapped(self, slope: float, places: Array, last: int, size: int) -> Array:
        """Bounds on what the sums over places above each of ``places`` get from outside a window up to ``last``.

        From above the window: what is ``size`` above the place or more. From below: what is less than b below it wraps
        to the last b places, where the gain is small; b may be chosen.
        """
        first, room = last - size + 1, np.maximum(last - places, 0)
        nearest = float(self.below(np.array(first - 1)))
        shares = [
            nearest * np.exp(-slope * share * room) + self.below(first - 1 - np.floor((1 - share) * room))
            for share in (1.0, 0.75, 0.5, 0.25)
        ]
        # A hundredth is far above the round-off of these exponentials.
        return np.asarray(1.01 * (self.above(places + size) + np.min(shares, axis=0)))


class _Spectrum:
    """The product of powers of transforms, where it is not negligible, with a bound on its error."""

    def __init__(self, size: int, careful: bool = False) -> None:
        self.size, self.careful = size, careful
        self.once = fft_round_off.transform(size)
        self.lit: NDArray[np.int64] | None = None
        self.product: NDArray[np.complex128] | None = None
        self.errors: list[tuple[float, float]] = []
        self.growth = 0.0
        self.off: Array | None = None  # relative errors of sharp powers
        self.sharp = 0  # events that have such

    def multiply(self, weights: Array, peak: int, count: int) -> None:
        """Multiplies by the ``count``-th power of the transform of ``weights`` with index ``peak`` put at 0."""
        # The largest atom at index 0 has the constant spectrum ``atom``: exact, and the rest is smaller.
        atom = float(weights[peak])
        others = folded(weights, peak, self.size)
        others[0] -= atom
        norm, mass = single_core.norm(others), float(np.abs(others).sum())
        work_limit.count(work_limit.FREQUENCY * len(others))
        z = fft.rfft(others)
        del others
        if self.lit is not None:
            z = z[self.lit]
        z += atom
        if count > 8:
            bright = np.abs(z) > math.exp(-_DARK / count)
            if not bright.all():
                z = z[bright]
                self.product = None if self.product is None else self.product[bright]
                self.lit = np.flatnonzero(bright) if self.lit is None else self.lit[bright]
                self.off = self.off if self.off is None else self.off[bright]
        if self.product is None:
            self.product = np.ones(len(z), dtype=complex)
        # The transform's error e changes a product of numbers of size at most 1 + e by n·e·(1 + e)^n, n the events; and
        # by the share n·e/|z| of itself, which says more where the law of the sum is wide: its 2-norm is small then.
        each = self.once * mass
        self.growth += count * (each + 4 * U)  # it bounds what was left out for dark, too
        if self.careful and count * each > _FELT and self._multiply_sharp(weights, peak, count):
            return
        _multiply_power(self.product, z, count)
        dimmest = float(np.abs(z).min(initial=1.0)) - each if count > 8 else 0.0
        # The terms of second order, as the first is below ``_LITTLE``.
        share = 1.01 * count * each / dimmest if count * each < _LITTLE * dimmest else math.inf
        self.errors.append((count * self.once * norm, share))

    def _multiply_sharp(self, weights: Array, peak: int, count: int) -> bool:
        """The same with the transform known much better, where that is bright at few frequencies alone."""
        k = np.arange(self.size // 2 + 1) if self.lit is None else self.lit
        if (found := log_transform(weights, peak, self.size, k)) is None:
            return False
        log_z, off = found
        assert self.product is not None
        self.product *= np.exp(count * log_z)
        # The product with the count is off by U, as is what the logarithm is; exponential and product by a few U of 1.
        off = np.expm1(np.minimum(count * (off + 2 * U * np.abs(log_z)), 700.0)) + 16 * U
        self.off = off if self.off is None else self.off + off
        self.sharp += count
        return True

    def inverse(self, events: int, places: int) -> tuple[Array, float]:
        """Returns the law with this spectrum, moved up by ``places``, and a bound on its error in 2-norm.

        Raises:
          NumericalError: round-off would dominate.
        """
        if self.growth > 0.1:
            raise NumericalError("round-off of the transforms would dominate the result")
        assert self.product is not None
        k = np.arange(self.size // 2 + 1) if self.lit is None else self.lit
        self.product *= np.exp((k * places % self.size) * (-2j * math.pi / self.size))
        full, unsharp = self.product, 0.0
        if self.off is not None:
            unsharp = single_core.norm(self.off * np.abs(self.product)) * math.sqrt(2 / self.size)
        if self.lit is not None:
            full = np.zeros(self.size // 2 + 1, dtype=complex)
            full[self.lit] = self.product
        del self.product
        work_limit.count(work_limit.FREQUENCY * self.size)
        t = fft.irfft(full, self.size, overwrite_x=True)
        norm = single_core.norm(t)
        np.maximum(t, 0.0, out=t)
        # A complex product for each event and two more; the last turn's angle and exponential are off by 16 U.
        relative = (events - self.sharp + 2) * (fft_round_off.COMPLEX_PRODUCT + 2 * U) + 16 * U + self.once
        error = sum(min(absolute, share * norm) for absolute, share in self.errors) + unsharp + relative * norm
        return t, 1.2 * error + math.exp(1.0 - _DARK)


def _multiply_power(product: NDArray[np.complex128], z: NDArray[np.complex128], n: int) -> None:
    """product *= z**n, n − 1 products' error at most; in pieces that stay in the processor's cache."""
    for i in range(0, len(z), _CHUNK):
        square, left = z[i : i + _CHUNK].copy(), n
        piece = product[i : i + _CHUNK]
        while left:
            if left & 1:
                piece *= square
            left >>= 1
            if left:
                square *= square


@frozen(eq=False)
class Tilted:
    """The tilted law of the sum: ``t`` at losses up to ``last`` steps, within 2-norm ``error``.

    ``slope`` is the tilt per step, ``k`` the cumulant function up to ``margin``.
    """

    law: Law
    slope: float
    k: float
    margin: float
    tails: _Tails
    last: int
    t: Array
    error: float

    @property
    def width(self) -> int:
        """The number of cells of the window."""
        return len(self.t)

    @property
    def first(self) -> int:
        return self.last - self.width + 1

    def sum_above(self, place: int, gain: Array) -> float:
        """Returns the sum over the losses above ``place`` steps, ``gain`` as the method of that name returns it."""
        start = place + 1 - self.first
        skipped = max(0, -start)
        seen = self.t[max(0, start) : max(0, start + len(gain))]
        return single_core.dot(seen, gain[skipped : skipped + len(seen)])

    def cells(self, place: int, wrapped: float) -> int:
        """Returns how many cells a window needs, to a per cent or two, for a sum over places above ``place``.

        Not more than ``wrapped``, or what any window lets in, may get into it from outside.
        """
        size, wrapped = max(16, self.last - place), min(wrapped, _WRAP)
        while self.tails.wrapped(self.slope, np.array(place), self.last, size) > wrapped and size < 64 * MAX_SIZE:
            size += size // 64 + 1
        return size

    def gain(self) -> Array:
        """Returns e^{−λ(s−ε)}·(1 − e^{ε−s}) at s − ε = 1, 2, ... steps."""
        # Sums for places below the window need it too.
        count = min(max(len(self.t), self.last + 1), math.ceil(min(_BEYOND / self.slope, 1e9)) + 1)
        # At a + b it is the product for a times the gain at b, and the gain at a times e^{−(λ+h)b}: all terms positive.
        row, column = np.arange(1.0, _CHUNK + 1), np.arange(0.0, count, _CHUNK)
        (low, low_gain), (high, high_gain) = (
            (np.exp(places * -self.slope), -np.expm1(places * -self.law.step)) for places in (row, column)
        )
        there = np.stack([high * (1.0 - high_gain), high * high_gain], axis=1)
        return np.asarray(there @ np.stack([low * low_gain, low])).ravel()[:count]

    def lost(self, places: Array, norm: float) -> Array:
        """Returns how far the sums over places above each may be off, ``norm`` being the 2-norm of the gain.

        From above they lack what is beyond the gain or the window, from below they have in excess what wrapped round
        the window; to both comes the transforms' error.
        """
        if self.law.upper:
            window = np.exp(-self.slope * np.maximum(self.last - places, 0)) * self.tails.above(np.array(self.last + 1))
            between = np.where(self.covers(places), 0.0, self.tails.below(np.array(self.first - 1)))
            off = math.exp(-_BEYOND) + window + between
        else:
            off = self.wrapped(places)
        # A thousandth is far above the round-off of these sums and norms.
        return np.asarray(1.001 * off + self.error * (1.001 * norm + 1e-9))

    def wrapped(self, places: Array) -> Array:
        """Returns bounds on what the sums over places above each have got from outside the window."""
        return self.tails.wrapped(self.slope, places, self.last, self.width)

    def logs(self, values: Array, places: Array, lost: Array) -> Array:
        """Returns ln δ, the mass at infinity apart, rounded in the law's direction, from the sums at grid points."""
        upper = self.law.upper
        # Sums of positive terms, products and recursions: an ulp or two for each term.
        value = values * (1 + (3 * len(self.t) + 64) * (U if upper else -U)) + (lost if upper else -lost)
        lean = self.slope * np.asarray(places, dtype=float)
        margin = self.margin + 4 * U * np.abs(lean)
        with np.errstate(divide="ignore"):
            log_value = np.log(np.maximum(value, 0.0))
        out = self.k - lean + log_value + (margin if upper else -margin)
        return np.where(places >= self.law.top, -math.inf, out)

    def covers(self, places: Array) -> Array:
        """Says at which places everything above lies in the window, or above it."""
        return np.asarray(np.asarray(places) >= self.first - 1)


@frozen(eq=False)
class FewFrequencies(Tilted):
    """The same where all but few frequencies are negligible: each sum is one over those, and there is no ``t``.

    With a = e^{−λ+iω} and b = a·e^{−h}, λ and h per step, the gain's part of a frequency ω is over M places
    Σ (a^m − b^m) = (a·E(1) − a^{M+1}·((1 − a)·E(M+1) + a·E(1))) / ((1 − a)(1 − b)), E(m) = 1 − e^{−mh}.
    """

    size: int
    frequencies: Array
    transform: NDArray[np.complex128]
    off: Array  # relative errors of the transform

    @property
    def width(self) -> int:
        return self.size

    def gain(self) -> Array:
        """Its largest value, at e^{−h·place} = λ/(λ + h), alone: sums have closed forms."""
        h, slope = self.law.step, self.slope
        return np.array([math.exp(-slope / h * math.log1p(h / slope)) / (1 + slope / h)])

    def sum_above(self, place: int, gain: Array) -> float:
        # A place below the window would count some losses twice.
        return max(0.0, float(self._terms(place)[0].sum())) if self.law.upper or self.covers(np.array(place)) else 0.0

    def lost(self, places: Array, norm: float) -> Array:
        _, sizes = self._terms(int(places))
        # Terms are off by some U of what they are made of, their sum by U for each, and by what is dark: the gain's sum
        # is below 1/λ.
        off = float(sizes @ self.off) + (64 + len(sizes)) * U * float(sizes.sum()) + math.exp(-_DARK) / self.slope
        return np.asarray(super().lost(places, norm) + 1.01 * off)

    def _terms(self, place: int) -> tuple[Array, Array]:
        """Each frequency's part of the sum, and the size of what that is a difference of."""
        count = self.last - place
        if count <= 0:
            return np.zeros(len(self.frequencies)), np.zeros(len(self.frequencies))
        h, slope, angle = self.law.step, self.slope, self.frequencies * (2 * math.pi / self.size)
        one, end = -math.expm1(-h), -math.expm1(-h * (count + 1))
        a, a_end = (math.exp(-slope * by) * self._turned(by) for by in (1, count + 1))
        not_a, not_b = (
            2 * np.sin(angle / 2) ** 2 - math.expm1(-x) * np.cos(angle) - 1j * math.exp(-x) * np.sin(angle)
            for x in (slope, slope + h)
        )
        there = (
            self.transform
            * self._turned(place)
            * np.where(self.frequencies == 0, 1.0, 2.0)
            / (self.size * not_a * not_b)
        )
        sizes = np.abs(there) * (np.abs(a) * one + np.abs(a_end) * (np.abs(not_a) * end + np.abs(a) * one))
        return (there * (a * one - a_end * (not_a * end + a * one))).real, sizes

    def _turned(self, by: int) -> NDArray[np.complex128]:
        """e^{iω·by} at each frequency, its angle reduced in whole numbers."""
        turn = self.frequencies * (by % self.size) % self.size
        return np.asarray(np.exp(2j * math.pi / self.size * (turn - np.where(2 * turn > self.size, self.size, 0))))
