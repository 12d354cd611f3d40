"""Bounds on δ of n reports that a trusted shuffler publishes, one from each person by the same local randomiser.

R_x is the law of the report for the input x, m(y) the least of R_x(y) over all inputs, and c = e^ε. All bounds hold for
any inputs of the other persons. The first two are the mean excess (1/n)·E(Z₁ + … + Zₙ)₊ of independent copies of a Z
with mean 1 − c (``numerics/stop_loss.py``):

* blanket: Z = (R_x(y) − c·R_x′(y))/m(y) with probability m(y) for each y, else 0, for the worst ordered pair of inputs;
  reports with m(y) = 0 add (R_x(y) − c·R_x′(y))₊. It is the curve where the others' reports are revealed unless they
  are drawn from the common part m (Balle, Bell, Gascón & Nissim 2019), the best bound by any such decomposition (Su,
  Cheng & Wang 2025).
* clone, for a randomiser of which only the local cost is known: pure ε₀ = ln p, and h ≥ its δ(ε). Then Z of the blanket
  is in [1 − cp, p − c] with E Z₊ ≤ h, so that Z = p − c with probability h/(p − c), 1 − cp with (h + c − 1)/(cp − 1),
  else 0, is above it in convex order. The largest h, (p − c)/(p + 1), is the "strong clone" of Feldman, McMillan &
  Talwar 2023.
  Without a finite ε₀, as for Gaussian noise, any p ≥ 2 serves: for the inputs x and x′, max(R_x, R_x′)/p is a part of
  the law of each of the others once that is changed by at most τ = 2·H_p/p in total variation, H_p the local δ(ln p).
  That adds (1 + c)(n − 1)τ, and Z is in [−cp, p], with the same mean and E Z₊ ≤ h.
* exact, for two reports: the law of the number of ones. H_c is jointly convex in all persons' laws, so that each of the
  others reports by the largest or the least probability of a one, and so does the changed person, in either order.

From below, reports are put into two classes, those that favour x over x′ and the rest, and the others all have the
input x, or all x′: two binomial laws. No curve of the full reports is below that.

Published bounds with the parameters of k-ary randomised response (Wang et al. 2023) are below the truth for k ≥ 3 and
are not used: the total of their counts does not reveal the number of cloned reports.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np
from attrs import field, frozen

from hockeystick.accounting.events.basic.event import Array
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.accounting.losses.dominating_pairs import (
    EDGE_ERROR,
    MASS_ERROR,
    RATIO_ERROR,
    DominatingPair,
    GaussianPair,
)
from hockeystick.accounting.numerics import directed_rounding
from hockeystick.accounting.numerics.directed_rounding import U
from hockeystick.accounting.numerics.stop_loss import mean_excess

MOST_EXACT = 20_000  # reports of two kinds whose law is computed term by term
_EXACT_SCAN = 2000  # reports up to which all divisions of the others are told apart
_PARTS = 2000  # of the others beyond that
_SPLITS = 4000
_LARGEST = 200.0  # of a pure ε for which the shuffler is not taken for nothing
_ROUNDS, _ASIDE = 12, 0.01  # searches of a p, and the part of the last bound that may be set aside for it
_TYPICAL = 1e-6  # δ, where the search begins
_LEAST_H, _MOST_C = 1e-100, 1e50
_MOST_FLOOR = 10**9  # reports
_DEVIATIONS, _MORE = 12.0, 30.0  # of a binomial law's window


class ShuffleBound(ABC):
    """A bound on δ(ε) at ε ≥ 0, for both orders of any two inputs."""

    name: str

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Returns a bound on δ from above."""

    def delta_floor(self, epsilon: float) -> float:
        """Returns a bound on δ from below; 0 where none is known."""
        return 0.0


@frozen(eq=False)
class Clone(ShuffleBound):
    """The bound for a randomiser of which only the local cost is known: pure ε, and the pair, if any."""

    pure: float
    pair: DominatingPair | None
    n: int
    name = "shuffle-clone"

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.pure:
            return 0.0
        # Exponentials are off by U each, rounded here to the side of less privacy.
        p, c = math.exp(min(self.pure, _LARGEST)) * (1 + 4 * U), max(1.0, math.exp(min(epsilon, 700.0)) * (1 - 4 * U))
        local = self._local(epsilon, c)
        if math.isinf(self.pure):
            return self._set_aside(c, local)
        if self.pure > _LARGEST:
            return local
        if p <= c:
            return 0.0
        top, bottom = p - c, (c - 1.0) * p + (p - 1.0)
        h = min(local, top / (p + 1.0) * (1 + 8 * U))  # a difference, a sum, a quotient: U each
        values = np.array([top, -bottom]) * np.array([1 + 16 * U, 1 - 16 * U])  # both up
        return min(h, mean_excess(values, np.array([h / top, (h + (c - 1.0)) / bottom]), self.n))

    def _set_aside(self, c: float, h: float) -> float:
        """The bound by a p of its own, the local δ(ε) at most ``h``: what p leaves out is a small part of it."""
        best, aim = h, _ASIDE * min(h, _TYPICAL)
        if h < _LEAST_H or c > _MOST_C:  # the local event is good enough, and floats overflow
            return h
        for i in range(_ROUNDS):
            found = self._by(*self._part(aim / ((1.0 + c) * (self.n - 1))), c, h)
            done, best = i > 0 and not found < 0.9 * best, min(best, found)
            if done:
                break
            aim = _ASIDE * best
        return best

    def _by(self, p: float, tau: float, c: float, h: float) -> float:
        values = np.array([p, -c * p]) * np.array([1 + 16 * U, 1 - 16 * U])  # both up
        shared = mean_excess(values, np.array([h / p, (h + (c - 1.0)) / (c * p)]), self.n)
        return (shared + (1.0 + c) * (self.n - 1) * tau) * (1 + 16 * U)  # two sums and three products

    def _part(self, aim: float) -> tuple[float, float]:
        """Returns p ≥ 2 for which τ is about ``aim``, and τ."""

        def tau(log_p: float) -> tuple[float, float]:
            p = math.exp(log_p) * (1 - 4 * U)  # the exponential is off by U
            return p, 2 * self._local(log_p, p) / p * (1 + 4 * U)

        low, high = math.log(2.0) + 1e-9, _LARGEST
        if tau(low)[1] <= aim:
            return tau(low)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if tau(middle)[1] > aim else (low, middle)
        return tau(high)

    def delta_floor(self, epsilon: float) -> float:
        if self.pair is None:
            return 0.0
        cells = self.pair.cells(np.array([0.0, math.inf]))
        # Far more than what masses may be off by; what is nearer together is less private.
        high, low = (float(cells.p[0]) + cells.p_above) * (1 - 1e-12), (float(cells.q[0]) + cells.q_above) * (1 + 1e-12)
        return _floor((high, 1.0 - high), (low, 1.0 - low), self.n, epsilon) if 0.0 < low < high < 1.0 else 0.0

    def _local(self, epsilon: float, c: float) -> float:
        """δ of one report alone, from its pair."""
        if self.pair is None or epsilon > 700.0:
            return 1.0
        if isinstance(self.pair, GaussianPair):  # at ln c, which may be a little below ε
            at = max(0.0, epsilon - 16 * U * (1 + epsilon))
            return directed_rounding.exp(gaussian_profile.log_delta(self.pair.mu, at), upper=True)
        cells, widest = self.pair.cells(np.array([epsilon, math.inf])), max(map(abs, self.pair.support()))
        p, q = float(cells.p[0]), c * float(cells.q[0])
        # What the contract of ``cells`` allows: masses, ratios, and losses that are off, twice each.
        off = 2 * (p + q) * (MASS_ERROR * (1 + widest / 8) + RATIO_ERROR * (1 + widest)) + 2 * EDGE_ERROR * widest
        return min(1.0, max(0.0, p - q) + off + self.pair.infinity())


@frozen(eq=False)
class Blanket(ShuffleBound):
    """The bound by the common part of all rows of a table; ``pairs`` as ``distinct_pairs`` returns them."""

    pure: float
    pairs: tuple[Array, ...]
    n: int
    name = "shuffle-blanket"

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.pure:
            return 0.0
        c = max(1.0, math.exp(min(epsilon, 700.0)) * (1 - 4 * U))  # the exponential is off by U
        return min(1.0, max(self._of_pair(pair, c) for pair in self.pairs))

    def delta_floor(self, epsilon: float) -> float:
        return max((_floor(*kinds, self.n, epsilon) for kinds in self._two_kinds()), default=0.0)

    def _two_kinds(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """The two laws of each pair where reports that favour the first input are one class; not both orders."""
        found: set[tuple[tuple[float, float], tuple[float, float]]] = set()
        for a, b, _ in self.pairs:
            kinds = [(math.fsum(x[a > b].tolist()), math.fsum(x[a <= b].tolist())) for x in (a, b)]
            found.add((kinds[0], kinds[1]))
        return sorted(found)

    def _of_pair(self, pair: Array, c: float) -> float:
        a, b, least = pair
        common = least > 0.0
        gains = a - c * b + 16 * U * (a + c * b)  # entries: 2 U of themselves, and U for each operation
        shared = mean_excess(gains[common] / least[common], least[common], self.n)
        alone = float(np.maximum(gains[~common], 0.0).sum())
        return (shared + alone) * (1 + (8 + len(a)) * U)  # quotients, and a sum of so many terms


def _floor(high: tuple[float, float], low: tuple[float, float], n: int, epsilon: float) -> float:
    """The δ of reports of two kinds where all others have one of the two inputs, from below."""
    if n > _MOST_FLOOR or epsilon > 700.0:
        return 0.0
    two, c = TwoReports(high, low, n), math.exp(epsilon) * (1 + 4 * U)  # the exponential's error, and its product's
    return max(two._of(j, j, c, False) for j in (0, n - 1))


def distinct_pairs(rows: Array) -> tuple[Array, ...]:
    """Returns (R_x, R_x′, m) of the ordered pairs of rows that differ, with their reports in an order of their own."""
    least, found = rows.min(axis=0), {}
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            if i != j:
                pair = np.stack([a, b, least])
                pair = pair[:, np.lexsort(pair)]
                found[pair.tobytes()] = pair
    return tuple(found.values())


@frozen(eq=False)
class TwoReports(ShuffleBound):
    """The exact curve of two possible reports; ``high`` and ``low`` are the rows with the most and the fewest ones."""

    high: tuple[float, float] = field()  # of a one, of a zero
    low: tuple[float, float] = field()
    n: int
    name = "shuffle-exact"

    def delta(self, epsilon: float) -> float:
        return self._search(epsilon, True)

    def delta_floor(self, epsilon: float) -> float:
        return self._search(epsilon, False)

    def _search(self, epsilon: float, upper: bool) -> float:
        """Best first: a block of divisions costs at most what it does with all persons left out on whom they differ."""
        off = 4 * U if upper else -4 * U  # of the exponential: U
        c = max(1.0, math.exp(min(epsilon, 700.0)) * (1 - off))
        others = self.n - 1
        leaf = 0 if self.n <= _EXACT_SCAN or not upper else self.n // _PARTS
        heap = [(-self._of(0, others, c, True), 0, others)]
        best = 0.0
        for _ in range(_SPLITS):
            bound, first, last = heapq.heappop(heap)
            if last - first <= leaf:
                return -bound if upper else self._of(first, last, c, False)
            if not upper:
                best = max(best, self._of(first, first, c, False))
            middle = (first + last) // 2
            for i, j in ((first, middle), (middle + 1, last)):
                heapq.heappush(heap, (-self._of(i, j, c, True), i, j))
        return -heap[0][0] if upper else best

    def _of(self, first: int, last: int, c: float, upper: bool) -> float:
        """The larger order's δ with ``first`` others at the high row and n − 1 − ``last`` at the low one."""
        law, lost = _counts(first, self.high, self.n - 1 - last, self.low)
        one, none = np.concatenate([[0.0], law]), np.concatenate([law, [0.0]])
        # Masses of n factors each, off by 3 U, and sums of so many products; rows by 2 U, of which n make up a mass.
        off = (64 + 16 * len(law) + 16 * self.n) * U * (1 if upper else -1)
        p, q = (row[0] * one + row[1] * none for row in (self.high, self.low))
        ways = (np.maximum(x * (1 + off) - c * y * (1 - off), 0.0) for x, y in ((p, q), (q, p)))
        found = max(float(way.sum()) for way in ways) * (1 + off)
        return min(1.0, found + lost) if upper else max(0.0, found - lost)


@lru_cache(maxsize=4096)
def _counts(some: int, high: tuple[float, float], others: int, low: tuple[float, float]) -> tuple[Array, float]:
    """Returns the law of the number of ones within a window, and the mass outside it; where it begins has no effect."""
    (one, lost), (two, more) = _binomial(some, high), _binomial(others, low)
    return np.convolve(one, two), lost + more


def _binomial(n: int, row: tuple[float, float]) -> tuple[Array, float]:
    """Returns the masses of a binomial law around its mean, by their ratios, and a bound on what lies outside."""
    p, q = row
    if n == 0 or p == 0.0 or q == 0.0:
        return np.ones(1), 0.0
    reach = _DEVIATIONS * math.sqrt(n * p * q) + _MORE
    first, last = max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach))
    mode = min(max(first, math.floor((n + 1) * p)), last)
    k = np.arange(first, last)
    ratios = (n - k) / (k + 1) * (p / q)  # of the mass at k + 1 to that at k
    up, down = ratios[mode - first :], 1.0 / ratios[: mode - first]
    masses = np.concatenate([np.cumprod(down[::-1])[::-1], [1.0], np.cumprod(up)])
    whole = first == 0 and last == n
    # Bernstein's inequality, both tails; the masses are divided by what lies inside, and rise.
    lost = 0.0 if whole else 2.0 * math.exp(-(reach**2) / (2 * (n * p * q + reach / 3)))
    return masses / masses.sum(), lost
