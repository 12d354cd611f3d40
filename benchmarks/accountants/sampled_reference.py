"""ε of Poisson-sampled Gaussian noise from derivations that share nothing with hockeystick.

One step is a closed form in 50 digits (``one_step``). More steps are a Fourier integral over the loss of a removal,
with quadrature nodes on the outcomes (``composed``): no grid of losses, no FFT, no bound on round-off. What it leaves
out is estimated: ε is known to about ``ACCURACY`` of itself, which the tests check against dense convolution.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hockeystick.accounting.arrays import FloatArray

ACCURACY = 1e-6


def one_step(q: float, sigma: float, delta: float) -> float:
    """ε of one step at δ: q·δ_G(ln(1 + (e^ε − 1)/q)) = δ (Balle, Barthe & Gaboardi 2018, Thm 2)."""
    import mpmath as mp

    with mp.workdps(50):
        mu, rate = mp.mpf(1) / mp.mpf(sigma), mp.mpf(q)

        def excess(t: mp.mpf) -> mp.mpf:
            return rate * (mp.ncdf(mu / 2 - t / mu) - mp.exp(t) * mp.ncdf(-mu / 2 - t / mu)) - mp.mpf(delta)

        low, high = mp.mpf(0), mp.mpf(1)
        if excess(low) <= 0:
            return 0.0
        while excess(high) > 0:
            high *= 2
        for _ in range(120):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return float(mp.log1p(rate * mp.expm1(high)))


class Composed:
    """δ of n steps at ε near ``near``, in the direction "removal" or "addition".

    Removals with a loss above a level, from which the others hardly ever lead back below ε, are summed in closed form:
    P(N ≥ 1) − e^ε·Q(N ≥ 1). The others' total is inverted along a vertical line through their saddle point. Where they
    are large but rare, the characteristic function hardly falls; then that of the losses below a part of ε is taken off
    first, which has no share in δ.
    """

    def __init__(self, q: float, sigma: float, steps: int, way: str, near: float, log_delta: float) -> None:
        self.q, self.mu, self.steps, self.removal = q, 1 / sigma, steps, way == "removal"
        low = -13.0 - (0.0 if self.removal else self.mu)
        self._set_nodes(np.linspace(low, 13.0 + self.mu, 400))
        self.level, self.end = math.inf, 13.0 + self.mu
        if self.removal:
            self._set_level(near, log_delta)
        self.tilt = self._saddle(near)
        self.small = self._small(near, log_delta)
        self.width = 2 * math.pi / max(self._period(near), (32 - log_delta) / self.tilt)
        self.reach = self._reach()
        if self.small and (split := max(300 / self.small, 60 * self.tilt)) < self.reach:
            self.reach = split
        else:
            self.small = 0.0
        if math.isinf(self.reach):
            raise ArithmeticError("the characteristic function does not fall")
        edges = np.linspace(low, self.end, math.ceil((self.end - low) * max(3.0, 3 * self.mu)))
        top = float(np.abs(self._loss(np.array([low, self.end]))).max())
        fine = np.arange(-top, top, 5 / self.reach) if top * self.reach < 1e6 else np.linspace(-top, top, 400_000)
        fine = self._outcome(fine)
        self._set_nodes(np.unique(np.concatenate([edges, fine[(fine > low) & (fine < self.end)]])))
        self._transform()

    def _loss(self, z: FloatArray) -> FloatArray:
        v = self.mu * z - self.mu**2 / 2
        far = np.logaddexp(math.log1p(-self.q), math.log(self.q) + v)
        found = np.where(v > 30.0, far, np.log1p(self.q * np.expm1(np.minimum(v, 30.0))))
        return found if self.removal else -found

    def _outcome(self, loss: FloatArray) -> FloatArray:
        signed = loss if self.removal else -loss
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return (np.log1p(np.maximum(np.expm1(np.minimum(signed, 600.0)) / self.q, -1.0)) + self.mu**2 / 2) / self.mu

    def _set_nodes(self, edges: FloatArray) -> None:
        x, w = np.polynomial.legendre.leggauss(10)
        middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        z = (middle[:, None] + half[:, None] * x).ravel()
        self.loss = self._loss(z)
        self.base = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (half[:, None] * w).ravel()  # N(0, 1)
        self.log_p = np.log(np.maximum(self.base, 1e-320)) + (self.loss if self.removal else 0.0)

    def _set_level(self, near: float, log_delta: float) -> None:
        """The least level from which the others' total hardly ever, under Q, leads back below ε."""
        spread = math.sqrt(self.steps * float(self.base @ self.loss**2))
        rates = np.geomspace(0.1, 30.0, 40) / spread
        rest = np.array(
            [self.steps * math.log(float(self.base @ np.exp(np.minimum(-a * self.loss, 600.0)))) for a in rates]
        )
        for gap in spread * np.geomspace(1e-3, 20.0, 60):
            missed = min(0.0, float((rest - rates * gap).min()))
            end = float(self._outcome(np.array([near + gap]))[0])
            above = math.log(self.steps) + float(special.log_ndtr(-end)) + near
            if above + missed < log_delta - 23.0:
                break
        self.level, self.end = near + gap, min(end, self.end)
        self._set_nodes(np.linspace(-13.0, self.end, 400))

    def _moments(self, c: float, weight: FloatArray | float = 1.0) -> tuple[float, float]:
        """ln E[e^{cL}] of one step, and its derivative."""
        y = self.log_p + c * self.loss
        peak = float(y.max())
        e = np.exp(y - peak) * weight
        total = float(e.sum())
        return (peak + math.log(total), float(e @ self.loss) / total) if total > 0.0 else (math.inf, 0.0)

    def _saddle(self, near: float) -> float:
        # Near ε = 0 the spread of the sum says where the saddle is.
        low, high = 1e-3 / max(near, math.sqrt(self.steps * float(self.base @ self.loss**2))), 1e9 / near
        while high / low > 1.05:
            c = math.sqrt(low * high)
            early = self.steps * self._moments(c)[1] - 1 / c - 1 / (1 + c) < near
            low, high = (c, high) if early else (low, c)
        return high

    def _period(self, near: float) -> float:
        """A distance above ε beyond which the tilted law has nothing; a trapezoidal sum adds what is there."""
        c = self.tilt
        k = self.steps * self._moments(c)[0]
        rates = c * np.geomspace(0.01, 10.0, 40)
        return float(min((self.steps * self._moments(c + a)[0] - k + 30.0) / a for a in rates)) - near

    def _small(self, near: float, log_delta: float) -> float:
        """A size such that losses up to it have no share in δ; 0 if there is none that helps."""
        for part in (0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01):
            size = part * near
            weight = _step(self.loss / size)
            rates = np.geomspace(1.0, 600.0, 50) / near
            least = min(self.steps * self._moments(a, weight)[0] - a * near for a in rates)
            if least < log_delta - 21.0:
                return size
        return 0.0

    def _reach(self) -> float:
        """Where the characteristic function has fallen to nothing."""
        t = 1.0 / (abs(self._moments(self.tilt)[1]) + math.sqrt(self._variance()))
        w = np.exp(self.log_p + self.tilt * self.loss - self._moments(self.tilt)[0])
        while t < 1e16:
            size = abs(complex(w @ np.exp(1j * t * self.loss)))
            if self.steps * math.log(max(size, 1e-300)) < -30.0:
                return t
            t *= 1.1
        return math.inf

    def _variance(self) -> float:
        k, mean = self._moments(self.tilt)
        w = np.exp(self.log_p + self.tilt * self.loss - k)
        return self.steps * float(w @ (self.loss - mean) ** 2)

    def _transform(self) -> None:
        c = self.tilt
        self.t = np.arange(math.ceil(self.reach / self.width)) * self.width
        if len(self.t) * len(self.loss) > 4e8:
            raise ArithmeticError("too many nodes")
        y = np.exp(np.minimum(self.log_p + c * self.loss, 700.0))
        smaller = _step(self.loss / self.small) if self.small else None
        # E[e^{zL}; L ≤ level] − 1: from N(0, 1)'s mass the losses are told by how far e^{(z+1)L} or e^{zL} is from 1.
        power = c + 1.0 if self.removal else c
        real = float(self.base @ np.expm1(power * self.loss)) - float(special.ndtr(-self.end))
        total, less = np.empty(len(self.t), dtype=complex), np.zeros(len(self.t), dtype=complex)
        # On a uniform line e^{i(s+t)L} − 1 is e^{isL} − 1 and e^{isL}·(e^{itL} − 1): as exact where phases are small.
        fine = _turn(np.multiply.outer(self.t[:128], self.loss))
        for i in range(0, len(self.t), 128):
            here, near = _turn(self.t[i] * self.loss), fine[: len(self.t) - i]
            total[i : i + 128] = real + here @ y + near @ (y + here * y)
            if smaller is not None:
                w = y * smaller
                less[i : i + 128] = real - float(y @ (1 - smaller)) + here @ w + near @ (w + here * w)
        self.k = self.steps * math.log1p(real)
        self.phi = _raised(total, self.steps, self.k)
        if smaller is not None:
            self.phi = self.phi - _raised(less, self.steps, self.k)

    def _rare(self, epsilon: float) -> float:
        if not self.removal or epsilon > 700.0:  # a single loss is far below that
            return 0.0
        a = float(special.ndtr(-self.end))
        more = self.q * (float(special.ndtr(self.mu - self.end)) - a)
        none = self.steps * math.log1p(-a)
        return -math.exp(none) * math.expm1(self.steps * math.log1p(-more / (1 - a))) + math.expm1(
            epsilon
        ) * math.expm1(none)

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """ln δ(ε), and by how much the end of the integral may have changed it."""
        z = self.tilt + 1j * self.t
        terms = np.exp(-1j * self.t * epsilon) * self.phi / (z * (z + 1))
        terms[0] /= 2
        unit, scale = self.width / math.pi, self.k - self.tilt * epsilon  # in units of e^scale, of any size
        inside, above = unit * float(terms.real.sum()), max(0.0, self._rare(epsilon))
        above = math.exp(math.log(above) - scale) if above > 0.0 else 0.0
        # At the least the terms fall as t^−3, by which those beyond the last add up to half of t times it.
        left_out = 25 * unit * float(np.abs(terms[-max(1, len(terms) // 50) :]).sum())
        found = inside + above
        return scale + math.log(found), left_out / found


def _step(x: FloatArray) -> FloatArray:
    """1 up to ½ and 0 from 1 on, smooth between."""
    u = np.clip((x - 0.5) / 0.5, 1e-9, 1 - 1e-9)
    inner = 1 / (1 + np.exp(np.clip(1 / (1 - u) - 1 / u, -700, 700)))
    return np.where(x <= 0.5, 1.0, np.where(x >= 1.0, 0.0, inner))


def _turn(phase: FloatArray) -> NDArray[np.complex128]:
    """e^{i·phase} − 1."""
    return np.asarray(-2 * np.sin(phase / 2) ** 2 + 1j * np.sin(phase))


def _raised(excess: NDArray[np.complex128], steps: int, k: float) -> NDArray[np.complex128]:
    """(1 + excess)^steps·e^{−k}."""
    modulus = np.log1p(2 * excess.real + excess.real**2 + excess.imag**2) / 2
    angle = np.arctan2(excess.imag, 1 + excess.real)
    return np.exp(steps * modulus - k + 1j * (steps * angle))


def composed(
    q: float, sigma: float, steps: int, delta: float, near: float, way: str = "removal"
) -> tuple[float, float]:
    """ε of more than one step at δ, from a start ``near`` it, and an estimate of its relative error."""
    target = math.log(delta)
    for _ in range(12):
        law = Composed(q, sigma, steps, way, near, target)
        value, left_out = law.log_delta(near)
        slope = (law.log_delta(near * (1 + 1e-5))[0] - value) / (1e-5 * near)
        following = max(near - (value - target) / slope, near / 3)
        if abs(following - near) < 1e-4 * near:
            root = following - (law.log_delta(following)[0] - target) / slope
            return root, abs(left_out / (slope * root)) + 1e-9
        near = following
    raise ArithmeticError("no root")


def delta_at_zero(q: float, sigma: float, steps: int, delta: float) -> float:
    """δ at ε = 0 of more than one step, from above: δ(0) ≤ δ(x) + e^x − 1 at an x far below ``delta``."""
    x = 1e-4 * delta
    found, left_out = Composed(q, sigma, steps, "removal", x, math.log(delta)).log_delta(x)
    return math.exp(found) * (1 + left_out) + math.expm1(x)
