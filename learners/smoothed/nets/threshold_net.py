"""Exact draws from the exponential mechanism over all multisets of m points, scored by thresholds on the line.

There are C(M + m - 1, m) multisets of M points, too many to list. But a multiset x_1 <= .. <= x_m (indices in the
sorted domain) has a score of at most s if and only if each x_i lies in a window [L_i, U_i] that depends on s: the
score, a Kolmogorov-Smirnov distance, bounds the counting path from above and below at every point. So the multisets
below any bound on the score can be counted and drawn uniformly, and a law that depends on the score alone is a mixture
of such draws.

*Counting.* Let e_k be the number of ways to choose x_1 .. x_k. By inclusion and exclusion over decreasing ends,
e_k = sum over r = 1 .. k of (-1)^(r - 1) e_(k - r) C(U_(k - r + 1) - L_k + 1, r): the determinant of Kreweras 1965 and
Steck 1971, expanded. It takes O(m^2) integer operations for any M. With all windows capped at x it counts the multisets
with x_k <= x, so a bisection for every k turns a rank into its multiset.

*Scores are integers*: n m times the largest gap between the two distribution functions. Replacing one record moves
them by at most m, nothing is rounded, and the law is that of an enumeration.

*Drawing.* e^(-s/scale) is a mixture of the steps 1[s <= s_j] on levels s_j, up to a factor in [e^-1/2, 1], which is
applied by rejection. A level is drawn by comparing a uniform number with bounds on the levels' weights, both to as many
digits as needed; the rank is a uniform integer, and the last coin is exact. The running time depends on the data and is
not protected; the outcome is.

Sources: Haghtalab, Roughgarden & Shetty 2020, Algorithm 4; Kreweras 1965; Steck 1971; Canonne, Kamath & Steinke 2020,
Algorithm 1 (the coin).
"""

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.common import arguments
from hockeystick.mechanisms.contract.arguments import generator, run_count
from hockeystick.mechanisms.lazy.lazy_switching import exponential_coin
from hockeystick.mechanisms.randomness.noise import Noise, check_noise

_MOST_SCORE = 2**53  # n m
_WORD = 62  # bits of a uniform number that are drawn at once
_TAIL = math.log(2.0**-10)  # the largest share of the last level in all proposals, as these are often rejected
_NEGLIGIBLE = math.log(2.0**-60)
_LEAST_SCALE = 1e-3  # below it practically only the best multisets are drawn
_GUARD = 10  # decimal digits computed beyond those that are used


def count_multisets(low: Sequence[int], high: Sequence[int]) -> int:
    """Returns the exact number of integer x_1 <= .. <= x_m in windows [low_i, high_i], both non-decreasing in i."""
    counts = [1]
    for k, bottom in enumerate(low):
        total = 0
        for r in range(1, k + 2):
            room = high[k - r + 1] - bottom + 1
            if room < r:  # which holds for all larger r too
                break
            ways = counts[k - r + 1] * math.comb(room, r)
            total += ways if r % 2 else -ways
        counts.append(total)
    return counts[-1]


def unranked(low: Sequence[int], high: Sequence[int], rank: int) -> list[int]:
    """Returns the multiset of a rank in 0 .. ``count_multisets(low, high)`` - 1; the ranks enumerate the multisets."""
    found, cap = [0] * len(low), list(high)
    for k in range(len(low), 0, -1):
        first, last, before = low[k - 1], cap[k - 1], 0  # before: the number with x_k < first
        while first < last:
            middle = (first + last) // 2
            some = count_multisets(low[:k], [min(top, middle) for top in cap[:k]])
            if rank < some:
                last = middle
            else:
                first, before = middle + 1, some
        found[k - 1] = first
        rank -= before  # the ranks of one x_k enumerate the choices of x_1 .. x_(k-1) up to it
        cap = [min(top, first) for top in cap[: k - 1]]
    return found


def _sorted_domain(value: object) -> FloatArray:
    points: FloatArray = array("domain", value, ndim=1).astype(float)
    if not points.size or (np.diff(points) <= 0.0).any():
        raise InvalidArgumentError("domain", value, "is not strictly increasing", "give sorted, distinct points")
    return points


def _data(value: object) -> FloatArray:
    points: FloatArray = np.sort(array("data", value, ndim=1, data=True).astype(float))
    if not points.size:
        raise InvalidDataError("data", value, "is empty", "give at least one record")
    return points


def _scale(value: object) -> float:
    return real("scale", value, low=_LEAST_SCALE)


@frozen(eq=False, kw_only=True)
class ThresholdNet:
    """The law with odds e^(-score/scale) over all multisets of m points of a domain, for one data set. Private.

    The score is max over real b of |n #{i: x_i < b} - m #{records < b}|, an integer: n m times the largest gap over all
    thresholds, infinite ones included. Multisets are given by indices ("places") in the domain, from 0.

    Args:
        domain: Public points, strictly increasing, shape (M,).
        data: The records, shape (n,); they need not lie in the domain.
        size: m >= 1.
        scale: The scale of the score, >= 0.001. One replaced record moves the score by at most m, so the privacy event
            is BoundedRange(2 m/scale).

    Raises:
        InvalidArgumentError: an argument outside its domain, or n m above 2^53.

    Example:
        >>> from hockeystick.learners import ThresholdNet
        >>> net = ThresholdNet(domain=[0.1, 0.3, 0.5, 0.9], data=[0.1, 0.3, 0.3, 0.6], size=5, scale=10.0)
        >>> net.multisets, net.least_score, net.count(net.least_score), net.scores([[0, 1, 1, 2, 2]]).tolist()
        (56, 4, 4, [5])
    """

    domain: FloatArray = field(converter=_sorted_domain, repr=False)
    data: FloatArray = field(converter=_data, repr=False)
    size: int = field(converter=arguments.size)
    scale: float = field(converter=_scale)
    _upto: IntArray = field(
        init=False, repr=False
    )  # for j = 0 .. M: the number of records <= the j-th point, 0 for j = 0
    _before: IntArray = field(init=False, repr=False)  # the number of records < the (j+1)-th point, n for j = M

    @_upto.default
    def _count_upto(self) -> IntArray:
        return np.concatenate(([0], np.searchsorted(self.data, self.domain, side="right")))

    @_before.default
    def _count_before(self) -> IntArray:
        return np.concatenate((np.searchsorted(self.data, self.domain, side="left"), [len(self.data)]))

    def __attrs_post_init__(self) -> None:
        if len(self.data) * self.size > _MOST_SCORE:
            raise InvalidArgumentError("size", self.size, "makes n m more than 2^53", "use a smaller size")

    @property
    def multisets(self) -> int:
        """The number C(M + m - 1, m) of multisets."""
        return math.comb(len(self.domain) + self.size - 1, self.size)

    def scores(self, places: npt.ArrayLike) -> IntArray:
        """Returns the scores, shape (..), of multisets of places, shape (.., m), each sorted."""
        given = array("places", places, low=0, high=len(self.domain) - 1).astype(np.int64) + 1
        if given.shape[-1:] != (self.size,):
            raise InvalidArgumentError("places", given.shape, f"is not a shape (.., {self.size})")
        edge = (*given.shape[:-1], 1)
        padded = np.concatenate((np.zeros(edge, np.int64), given, np.full(edge, len(self.domain) + 1)), axis=-1)
        left, right = padded[..., :-1], padded[..., 1:]
        taken = np.arange(self.size + 1) * len(self.data)
        above = taken - self.size * self._upto[left]
        below = self.size * self._before[right - 1] - taken
        return np.asarray(np.where(left < right, np.maximum(above, below), 0).max(axis=-1))

    def count(self, score: int) -> int:
        """Returns the exact number of multisets of a score of at most ``score``."""
        return count_multisets(*self._windows(integer("score", score, low=0, high=len(self.data) * self.size)))

    @property
    def least_score(self) -> int:
        """The least score of all multisets."""
        low, high = 0, len(self.data) * self.size
        while low < high:
            middle = (low + high) // 2
            bottom, top = self._windows(middle)
            feasible = all(a <= b for a, b in zip(bottom, top, strict=True))
            low, high = (low, middle) if feasible else (middle + 1, high)
        return low

    def log_normaliser(self) -> float:
        """Returns ln of the sum of e^(-score/scale) over all multisets, by O(scale ln(multisets)) counts."""
        most, everything, mass, below = len(self.data) * self.size, math.log(self.multisets), -math.inf, 0
        for score in range(self.least_score, most + 1):
            if everything - score / self.scale < mass + _NEGLIGIBLE:
                break
            if (upto := self.count(score)) > below:
                mass = float(np.logaddexp(mass, math.log(upto - below) - score / self.scale))
            below = upto
        return mass

    def draw(self, noise: Noise | None = None) -> IntArray:
        """Draws m sorted places in the domain, shape (m,), with exactly the stated law.

        Takes about (2 ln(multisets) + 14) O(m^2) + O(m^3 log M) integer operations.

        Args:
            noise: The source of all randomness; default: secure.
        """
        source, levels = check_noise(noise), self._levels()
        while True:
            low, high = self._windows(levels.bounds[levels.drawn(source)])
            rank = _uniform_below(count_multisets(low, high), source)
            places = np.array(unranked(low, high, rank)) - 1
            excess = levels.excess(self.scores(places))
            if exponential_coin(Fraction(int(excess)) / Fraction(self.scale), source):
                return places

    def simulate(self, rng: np.random.Generator, runs: int) -> IntArray:
        """Returns ``runs`` draws of the same law in floating point, shape (runs, m). Not a release."""
        source, count, levels = generator(rng), run_count(runs), self._levels()
        found, probabilities = np.empty((count, self.size), dtype=np.int64), levels.probabilities()
        waiting = np.arange(count)
        while len(waiting):
            level = source.choice(len(probabilities), size=len(waiting), p=probabilities)
            for j in np.unique(level):
                mine = waiting[level == j]
                found[mine] = self._uniform(levels.bounds[j], source, len(mine)) - 1
            excess = levels.excess(self.scores(found[waiting]))
            waiting = waiting[source.random(len(waiting)) >= np.exp(-excess / self.scale)]
        return found

    def _windows(self, score: int) -> tuple[list[int], list[int]]:
        """Returns the windows of x_i, counted from 1, for which the score is at most ``score``."""
        n, m, i = len(self.data), self.size, np.arange(1, self.size + 1)
        low = np.searchsorted(self._upto, -((score - i * n) // m))
        high = np.searchsorted(self._before, ((i - 1) * n + score) // m + 1)
        return np.maximum(low, 1).tolist(), np.minimum(high, len(self.domain)).tolist()

    def _levels(self) -> "_Levels":
        least, most = self.least_score, len(self.data) * self.size
        step = max(1, min(int(self.scale / 2), most + 1))
        bounds: list[int] = []
        counts: list[int] = []
        total, everything, mass = self.multisets, math.log(self.multisets), -math.inf
        while True:
            fall = len(bounds) * step / self.scale
            bound = least + (len(bounds) + 1) * step - 1
            if bound >= most or everything - fall < mass + _TAIL:
                break
            bounds.append(bound)
            counts.append(self.count(bound))
            mass = float(np.logaddexp(mass, math.log(counts[-1]) - fall + math.log(-math.expm1(-step / self.scale))))
        return _Levels(least, step, Fraction(self.scale), (*bounds, most), (*counts, total))

    def _uniform(self, score: int, rng: np.random.Generator, runs: int) -> IntArray:
        """Returns uniform draws among the multisets of at most a given score: places from 1, shape (runs, m)."""
        low, high = self._windows(score)
        tables: list[FloatArray] = []  # for each i: the shares of x_1 .. x_i with x_i <= low_i, low_i + 1, ...
        for i, (bottom, top) in enumerate(zip(low, high, strict=True)):
            ways = np.ones(top - bottom + 1)
            if i:
                ways = tables[-1][np.minimum(np.arange(bottom, top + 1), high[i - 1]) - low[i - 1]]
            table = np.cumsum(ways)
            tables.append(table / table[-1])
        found, cap = np.empty((runs, self.size), dtype=np.int64), np.full(runs, high[-1])
        for i in range(self.size - 1, -1, -1):
            last = np.minimum(cap, high[i]) - low[i]
            level = rng.random(runs) * tables[i][last]
            cap = low[i] + np.minimum(np.searchsorted(tables[i], level, side="right"), last)
            found[:, i] = cap
        return found


@frozen
class _Levels:
    """The weights of the steps 1[s <= bound_j], whose sum is e^(-j*step/scale) for s in the j-th interval of scores."""

    least: int
    step: int
    scale: Fraction
    bounds: tuple[int, ...]
    counts: tuple[int, ...]  # of multisets below the bounds; the last one is of all multisets

    def excess(self, scores: IntArray) -> IntArray:
        """Returns the amounts by which scores exceed the start of their interval."""
        beyond = scores - self.least
        return np.asarray(beyond - np.minimum(beyond // self.step, len(self.bounds) - 1) * self.step)

    def probabilities(self) -> FloatArray:
        """Returns the probabilities of the levels, in floating point."""
        fall = float(self.step / self.scale)
        logs = np.array([math.log(count) for count in self.counts]) - fall * np.arange(len(self.counts))
        logs[:-1] += math.log(-math.expm1(-fall))
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    def drawn(self, noise: Noise) -> int:
        """Draws a level with exactly its probability."""
        drawn, bits = 0, 0
        while True:
            drawn = (drawn << _WORD) + int(noise.uniform(1 << _WORD, 1)[0])  # U is in [drawn, drawn + 1] / 2^bits
            bits += _WORD
            lows, highs = self._weight_bounds(bits // 3)
            least, most = list(accumulate(lows)), list(accumulate(highs))
            for j in range(len(lows)):
                if j == len(lows) - 1 or (drawn + 1) * most[-1] <= least[j] << bits:
                    if not j or drawn * least[-1] >= most[j - 1] << bits:
                        return j
                    break  # U is too close to a border: more digits

    def _weight_bounds(self, digits: int) -> tuple[list[int], list[int]]:
        """Returns integers below and above the weights, in a unit in which their sum has at least ``digits`` digits."""
        steps = [Fraction(j * self.step) / self.scale for j in range(len(self.counts))]
        places = digits + len(str(self.counts[-1])) + int(steps[-1] / 2) + _GUARD
        powers = [_exponential_bounds(x, places) for x in steps]
        after = [*powers[1:], (0, 0)]
        lows = [n * max(0, p[0] - q[1]) for n, p, q in zip(self.counts, powers, after, strict=True)]
        highs = [n * (p[1] - q[0]) for n, p, q in zip(self.counts, powers, after, strict=True)]
        return lows, highs


def _exponential_bounds(x: Fraction, places: int) -> tuple[int, int]:
    """Returns integers below and above 10^places e^-x, at most 3 apart, for 0 <= x < 10^8."""
    context = Context(prec=places + _GUARD)
    exponent = context.divide(Decimal(-x.numerator), Decimal(x.denominator))
    # The quotient and its exponential are both correctly rounded, so the error is at most (x + 2) 10^(1 - GUARD).
    value = int(context.scaleb(context.exp(exponent), places))
    return max(0, value - 1), value + 2


def _uniform_below(bound: int, noise: Noise) -> int:
    """Draws a uniform integer in 0 .. bound - 1."""
    bits = bound.bit_length()
    while True:
        found = 0
        for word in noise.uniform(1 << _WORD, -(-bits // _WORD)).tolist():
            found = (found << _WORD) + word
        found >>= -bits % _WORD
        if found < bound:
            return found
