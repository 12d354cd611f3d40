"""Exact joint bounds on two probabilities from two held-out counts, for every sample size.

An event was fixed beforehand. It happened ``x`` times in ``n`` outputs on one data set, where its probability is P, and
``y`` times in ``m`` outputs on the other, where its probability is Q. A claim says P <= e^epsilon Q + delta.

:func:`rectangle` combines two Clopper-Pearson bounds. It is simple, but it needs up to twice as many samples, because
it allows both counts to be unlucky at once. :func:`frontier` bounds P and Q jointly, at the same confidence level:

    Fix a slope L >= 0 before the counts are seen, and levels a + b + c = alpha. Let T(x', y') = x' - L y' and, for
    X' ~ Bin(n, P) and Y' ~ Bin(m, Q) independent, g(P, Q) = Pr[T(X', Y') >= T(x, y)]. With [u, v] the two-sided
    Clopper-Pearson interval of Q at level 1 - b, and w the lower bound of P at level 1 - c, the region
    R = {(P, Q): u <= Q <= v, P >= w, g(P, Q) > a} contains the true pair with probability at least 1 - alpha: Q misses
    [u, v] with probability at most b, P lies below w with at most c, and g at the true pair is the p-value of a test of
    that pair, so it is at most a with probability at most a.

    g increases in P and decreases in Q (T does in x' and y', and binomials are stochastically ordered), so R lies above
    the increasing curve P = f(Q) = sup{P: g(P, Q) <= a}. Cut [u, v] into cells [q_j, q_(j+1)]: in cell j, P >= f(q_j).
    Each statement below takes, in every cell, the least P = max(w, f(q_j)) with the largest Q = q_(j+1), hence holds
    for all of R. All statements drawn from one region hold *together* with probability at least 1 - alpha, for all
    epsilon and delta.

The confidence set for the nuisance parameter Q follows Berger and Boos (1994). With the slope e^epsilon, the linear
statistic T is that of the two-proportion test of P = e^epsilon Q, so nothing is lost to first order in n. The bound w
matters when the slope was far off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import optimize, special

from hockeystick.accounting import InvalidArgumentError, validate
from hockeystick.accounting.arrays import FloatArray

SHARE_Q = 0.005  # of alpha, spent on the interval of Q
SHARE_P = 0.003  # of alpha, spent on the lower bound of P alone
CELLS = 257  # of the interval of Q; they cost 1 % of the bound's width
_STRIDE = 8  # every eighth cell is solved; the others are interpolated, then checked
_WINDOW = 7.0  # standard deviations that are summed term by term; the tails are added whole
ROUND_OFF = 1e-14  # relative, per trial: above the error of a log-gamma
STEEPEST = 25.0  # logarithm of the largest slope: beyond it, only y matters


def clopper_pearson(
    count: npt.ArrayLike, trials: int, *, confidence: float, side: Literal["two", "lower", "upper"] = "two"
) -> tuple[FloatArray, FloatArray]:
    """Returns exact bounds (low, high) on a probability from ``count`` successes in ``trials`` (Clopper, Pearson 1934).

    Args:
      count: a number or an array.
      trials: number of independent trials.
      confidence: confidence level of the interval.
      side: "two" for an interval with equal tails; "lower" or "upper" for one bound, where the other is 1 or 0.

    Raises:
      InvalidArgumentError: ``trials`` is not an integer ≥ 0, a count is not in [0, trials], ``confidence`` is not in
        [0, 1], or ``side`` is unknown.

    Example:
      >>> from hockeystick.audits import clopper_pearson
      >>> low, high = clopper_pearson(0, 100, confidence=0.95, side="upper")
      >>> round(float(high), 4)  # about 3 / trials
      0.0295
    """
    if side not in ("two", "lower", "upper"):
        raise InvalidArgumentError("side", side, "is unknown", "use 'two', 'lower' or 'upper'")
    confidence = validate.probability("confidence", confidence)
    trials = validate.integer("trials", trials, low=0)
    k = validate.array("count", count, low=0, high=trials)
    tail = (1.0 - confidence) / (2.0 if side == "two" else 1.0)
    low, high = np.zeros_like(k), np.ones_like(k)
    if side != "upper":
        low = np.where(k > 0, special.betaincinv(np.maximum(k, 1), trials - k + 1, tail), 0.0)
    if side != "lower":
        high = np.where(k < trials, special.betainccinv(k + 1, np.maximum(trials - k, 1), tail), 1.0)
    return low, high


@frozen(eq=False)
class Region:
    """A confidence region for (P, Q): Q lies in one of the cells [q_low[j], q_high[j]], and there P >= p_low[j].

    See :func:`frontier` for an example.
    """

    p_low: FloatArray
    q_low: FloatArray
    q_high: FloatArray

    def refutes(self, epsilon: float, delta: float) -> bool:
        """Returns whether no pair of the region satisfies P <= e^epsilon Q + delta."""
        return bool(np.all(self.p_low > math.exp(epsilon) * self.q_high + delta))

    def epsilon(self, delta: float) -> float:
        """Returns the least epsilon >= 0 that the region leaves possible at ``delta``."""
        excess = self.p_low - delta
        if not np.all(excess > 0):
            return 0.0
        return max(0.0, float(np.min(np.log(excess / self.q_high))))

    def delta(self, epsilon: float) -> float:
        """Returns the least delta >= 0 that the region leaves possible at ``epsilon``, rounded down."""
        allowed = math.exp(epsilon) * self.q_high
        excess = self.p_low - allowed
        slack = 1e-15 * (1 + allowed[np.isfinite(excess)])  # above the round-off of the difference
        least = np.min(excess[np.isfinite(excess)] - slack, initial=1.0)
        return min(1.0, max(0.0, float(least)))


def rectangle(x: int, n: int, y: int, m: int, *, alpha: float) -> Region:
    """Returns the region of two one-sided Clopper-Pearson bounds at level alpha/2 each.

    Args:
      x, n, y, m, alpha: as in :func:`frontier`.

    Example:
      >>> from hockeystick.audits import frontier, rectangle
      >>> counts = 600, 1000, 200, 1000  # ln(600/200) = 1.10
      >>> joint = frontier(*counts, slope=2.7, alpha=1e-3)
      >>> round(rectangle(*counts, alpha=1e-3).epsilon(0.0), 2), round(joint.epsilon(0.0), 2)
      (0.81, 0.89)
    """
    low, _ = clopper_pearson(x, n, confidence=1 - alpha / 2, side="lower")
    _, high = clopper_pearson(y, m, confidence=1 - alpha / 2, side="upper")
    return Region(p_low=np.atleast_1d(low), q_low=np.zeros(1), q_high=np.atleast_1d(high))


@lru_cache(maxsize=1 << 14)
def frontier(x: int, n: int, y: int, m: int, *, slope: float, alpha: float) -> Region:
    """Returns a joint confidence region for the probabilities (P, Q) of one event on two data sets.

    It is the region R of the module's docstring, which extends Berger and Boos (1994).

    Args:
      x, n: the event's count and trials on the data set where it is likelier.
      y, m: the same on the other data set.
      slope: any number >= 0 that was chosen without these counts; e^epsilon is the sharpest for a claim of epsilon.
      alpha: probability that the region misses the true pair.

    Example:
      >>> from hockeystick.audits import frontier
      >>> region = frontier(600, 1000, 200, 1000, slope=2.7, alpha=1e-3)
      >>> region.refutes(epsilon=0.5, delta=0.0), region.refutes(epsilon=1.0, delta=0.0)
      (True, False)
    """
    level = alpha * (1 - SHARE_P - SHARE_Q)
    least, _ = clopper_pearson(x, n, confidence=1 - alpha * SHARE_P, side="lower")
    low, high = clopper_pearson(y, m, confidence=1 - alpha * SHARE_Q)
    start, end = np.arcsin(np.sqrt(low)), np.arcsin(np.sqrt(high))  # the scale on which the spread of Y/m is constant
    q_edges = np.sin(np.linspace(start, end, CELLS + 1)) ** 2
    q_edges[0], q_edges[-1] = low, high
    threshold = x - slope * y
    q = q_edges[:-1]
    # where g(1, q) <= a, no P is left; g decreases in q, so none is left in the rest of the cell either
    empty = at_most(np.floor((n - threshold) / slope + 1e-9 * (1 + y)), m, q) <= level
    window = window_of(m, q)

    def tail(p: FloatArray, rows: Rows) -> FloatArray:
        return _upper_tail(n, threshold, slope, p, window.rows(rows))

    def spread(p: FloatArray, rows: Rows) -> FloatArray:
        return _spread(n, m, slope, p, q[rows]) / n

    start = np.clip((threshold + slope * m * q) / n, 0.0, 1.0)
    p = least_shares(tail, spread, start, np.ones_like(q), level, empty)
    return Region(p_low=np.where(empty, np.inf, np.maximum(p, least)), q_low=q, q_high=q_edges[1:])


Rows = slice | npt.NDArray[np.intp]


def least_shares(
    tail: Callable[[FloatArray, Rows], FloatArray],
    spread: Callable[[FloatArray, Rows], FloatArray],
    start: FloatArray,
    top: FloatArray,
    level: float,
    empty: npt.NDArray[np.bool_],
) -> FloatArray:
    """Returns, for each cell of the nuisance parameter, nearly the largest P with g(P, q_j) <= ``level``, never more.

    Args:
      tail: an upper bound on g(P, q_j) for some of the cells; increasing in P, decreasing from cell to cell.
      spread: the standard deviation of the statistic, on the scale of P.
      start: the P at which the statistic's mean is its observed value.
      top: the largest possible P.
      level: of g.
      empty: cells in which no P is left, and which are not solved.
    """
    every, nodes = np.arange(len(start)), slice(None, None, _STRIDE)
    solved, sure = _solve_p(tail, spread, start[nodes], top[nodes], level, empty[nodes])
    p = np.minimum(np.interp(every, every[nodes], solved), top)
    sure = np.maximum.accumulate(sure)[every // _STRIDE]  # P increases, so a bound at one node holds to its right
    unit = spread(p, slice(None))
    p -= 0.01 * unit
    checked = empty.copy()
    for _ in range(4):
        todo = np.flatnonzero(~checked & (p > sure))
        if not len(todo):
            break
        g = tail(p[todo], todo)
        checked[todo] = g <= level
        excess = special.ndtri(np.minimum(g, 0.999)) - special.ndtri(level)
        p[todo] -= np.where(g <= level, 0.0, (1.1 * excess + 0.01) * unit[todo])
    return np.maximum.accumulate(np.where(checked, np.maximum(p, sure), sure))


def sharpest_slope(p: float, q: float, *, epsilon: float, delta: float) -> float:
    """Returns the slope with the most power to refute P <= e^epsilon Q + delta at the pair (p, q), both in (0, 1).

    Of all pairs that satisfy the claim, the hardest to distinguish from (p, q) is the nearest one in Kullback-Leibler
    divergence. The likelihood ratio of the two is linear in the counts; its slope is returned, rounded to 5 % steps
    because the optimum is flat. If (p, q) satisfies the claim, or nearly does, the slope is e^epsilon.
    """
    ratio = math.exp(min(epsilon, STEEPEST))
    if p <= ratio * q + delta:
        return ratio
    top = (p - delta) / ratio

    def slant(at: float) -> float:
        near = ratio * at + delta
        return ratio * (near - p) / (near * (1 - near)) + (at - q) / (at * (1 - at))

    nearest = optimize.brentq(slant, q, top, xtol=1e-15) if slant(top) > 0 else top
    there = ratio * nearest + delta
    steps = (special.logit(nearest) - special.logit(q)) / (special.logit(p) - special.logit(there)) / ratio
    return ratio * 1.05 ** round(math.log(min(max(steps, 1.0), 1e3)) / math.log(1.05))


@lru_cache(maxsize=1 << 12)
def detectable_probability(
    n: int, m: int, q: float, *, alpha: float, epsilon: float, delta: float, power: float = 0.9
) -> float:
    """Returns the least P such that :func:`frontier` refutes (epsilon, delta) with probability ``power`` at (P, q).

    The slope is e^epsilon, as for a violation that can just be detected. The result is infinite if P = 1 is refuted
    less often. The region refutes the claim if and only if T(x, y) exceeds the critical value t(Q) of the pair
    (e^epsilon Q + delta, Q) for every Q in the interval that y gives. So the power is a sum of binomial tails over y;
    t is solved on a grid and interpolated.
    """
    level = alpha * (1 - SHARE_P - SHARE_Q)
    slope = math.exp(min(epsilon, STEEPEST))
    window = window_of(m, np.array([q]))
    width = window.mass.shape[1]
    stride = -(-width // 400)  # where Y has many values, neighbouring ones are merged
    weight = np.add.reduceat(window.mass[0], np.arange(0, width, stride))
    y = np.minimum(window.first[0] + np.arange(0, width, stride) + (stride - 1) / 2, m)
    start, end = (np.arcsin(np.sqrt(edge)) for edge in clopper_pearson(y, m, confidence=1 - alpha * SHARE_Q))
    places = np.linspace(start[0], end[-1], 33)
    cell = float(np.interp(m * q, y, end - start)) / CELLS
    low, high = np.sin(places) ** 2, np.sin(np.minimum(places + cell, np.pi / 2)) ** 2
    critical = _solve_threshold(n, m, slope, np.minimum(slope * high + delta, 1.0), low, level)
    within = start + (end - start) * np.linspace(0, 1, 9)[:, None]
    # A tie counts as reached; this estimates a power.
    needed = np.ceil(slope * y + np.interp(within, places, critical).max(axis=0) - 1e-9)

    def shortfall(p: float) -> float:
        return power - float(weight @ more_than(needed - 1, n, p))

    if shortfall(1.0) > 0:
        return math.inf
    return float(optimize.brentq(shortfall, 0.0, 1.0, xtol=1e-9)) if shortfall(0.0) > 0 else 0.0


def _solve_threshold(n: int, m: int, slope: float, p: FloatArray, q: FloatArray, level: float) -> FloatArray:
    """Returns t with Pr[X' - slope Y' >= t] close to ``level`` in each row."""
    target = -float(special.ndtri(level))
    spread = _spread(n, m, slope, p, q)
    t, y = np.asarray(n * p - slope * m * q + target * spread), window_of(m, q)
    for _ in range(4):
        g = _upper_tail(n, t, slope, p, y)
        t = t + (target + special.ndtri(np.clip(g, 1e-200, 0.9999))) * spread
    return t


def _spread(n: int, m: int, slope: float, p: FloatArray, q: FloatArray) -> FloatArray:
    """Returns the standard deviation of X' - slope Y', at least that of a count of one."""
    return np.sqrt(n * p * (1 - p) + slope**2 * m * q * (1 - q) + 1.0)


def _solve_p(
    tail: Callable[[FloatArray, Rows], FloatArray],
    spread: Callable[[FloatArray, Rows], FloatArray],
    start: FloatArray,
    top: FloatArray,
    level: float,
    empty: npt.NDArray[np.bool_],
) -> tuple[FloatArray, FloatArray]:
    """Returns P with g(P, q) close to ``level``, and P with g(P, q) <= ``level``, at every ``_STRIDE``-th cell.

    Newton's method on the normal scale; once a bracket is known, the secant method.
    """
    nodes = slice(None, None, _STRIDE)
    target = -float(special.ndtri(level))
    low, high = np.zeros_like(start), top.copy()
    at_low, at_high = np.full_like(start, np.inf), np.full_like(start, -np.inf)
    p = np.where(empty, top, np.clip(start - target * spread(start, nodes), 0.0, top))
    for _ in range(12):
        g = tail(p, nodes)
        unit = spread(p, nodes)
        short = -special.ndtri(np.clip(g, 1e-200, 0.9999)) - target
        below = g <= level
        low, at_low = np.where(below, p, low), np.where(below, short, at_low)
        high, at_high = np.where(below, high, p), np.where(below, at_high, short)
        if np.all((np.abs(short) < 0.01) | (high - low < 0.01 * unit) | empty):
            break
        step = p + short * unit
        known = (at_low > at_high) & np.isfinite(at_low - at_high)
        share = np.divide(at_low, at_low - at_high, out=np.full_like(p, 0.5), where=known)
        inside = np.where((step > low) & (step < high) & ~known, step, low + np.clip(share, 0.02, 0.98) * (high - low))
        p = np.where(empty, top, inside)
    return p, low


@frozen(eq=False)
class Window:
    """Consecutive values around the means of some binomials.

    Attributes:
      first: the first value for each binomial.
      mass: the values' probabilities, shape (binomials, values).
      outside: the probability of all other values.
    """

    first: npt.NDArray[np.int64]
    mass: FloatArray
    outside: FloatArray

    def rows(self, index: slice | npt.NDArray[np.intp]) -> Window:
        return Window(self.first[index], self.mass[index], self.outside[index])


def window_of(trials: int, p: FloatArray, spreads: float = _WINDOW) -> Window:
    """Returns the values within ``spreads`` standard deviations of the mean of Bin(trials, p), for each of ``p``."""
    mean = trials * p
    half = spreads * np.sqrt(np.max(mean * (1 - p))) + 12
    width = int(min(trials + 1, 2 * math.ceil(half) + 1))
    first = np.clip(np.floor(mean - half), 0, trials + 1 - width).astype(np.int64)
    base = int(first.min())
    values = np.arange(base, int(first.max()) + width, dtype=float)
    log_choose = special.gammaln(trials + 1) - special.gammaln(values + 1) - special.gammaln(trials - values + 1)
    k = first[:, None] + np.arange(width)
    log_p, log_rest = np.log(np.maximum(p, 1e-300)), np.log(np.maximum(1 - p, 1e-300))
    with np.errstate(under="ignore"):
        mass = np.exp(log_choose[k - base] + k * (log_p - log_rest)[:, None] + (trials * log_rest)[:, None])
    last = first + width - 1
    all_values = width == trials + 1
    outside = np.zeros(len(p)) if all_values else more_than(last, trials, p) + at_most(first - 1, trials, p)
    return Window(first, mass, outside)


def at_most(k: npt.ArrayLike, trials: int, p: npt.ArrayLike) -> FloatArray:
    """Returns Pr[X <= k] of X ~ Bin(trials, p), for whole numbers k, by the incomplete beta function.

    ``scipy.special.bdtr`` stops at 2^31 trials; searches for a sample size need more.
    """
    inside = np.clip(k, 0, trials - 1)
    found = special.betaincc(inside + 1, trials - inside, p)
    return np.asarray(np.where(np.less(k, 0), 0.0, np.where(np.greater_equal(k, trials), 1.0, found)))


def more_than(k: npt.ArrayLike, trials: int, p: npt.ArrayLike) -> FloatArray:
    """Returns Pr[X > k] of X ~ Bin(trials, p), for whole numbers k."""
    inside = np.clip(k, 0, trials - 1)
    found = special.betainc(inside + 1, trials - inside, p)
    return np.asarray(np.where(np.less(k, 0), 1.0, np.where(np.greater_equal(k, trials), 0.0, found)))


def _upper_tail(n: int, threshold: float | FloatArray, slope: float, p: FloatArray, y: Window) -> FloatArray:
    """Returns Pr[X - slope Y >= threshold] for each row's X ~ Bin(n, p) and Y, never below the truth.

    It sums over a window of values of Y and of X, and adds the probability outside both windows.
    """
    x = window_of(n, p)
    width = x.mass.shape[1]
    above = np.zeros((len(p), width + 1))
    np.cumsum(x.mass[:, ::-1], axis=1, out=above[:, -2::-1])
    at = np.broadcast_to(threshold, p.shape)
    # the least X that reaches the threshold with each Y; a tie counts as reached
    slack = 1e-12 * (1 + np.abs(at) + slope * (y.first + y.mass.shape[1]))
    need = (at - slack + slope * y.first - x.first)[:, None] + slope * np.arange(y.mass.shape[1])
    index = np.ceil(np.clip(need, 0, width)).astype(np.intp)
    index += np.arange(len(p))[:, None] * (width + 1)
    reach = np.where(need <= 0, 1.0, above.ravel()[index])
    total = np.einsum("ij,ij->i", y.mass, reach) + x.outside + y.outside
    # 1e-6 is far above the error of betainc and of sums; ``ROUND_OFF`` is that of the masses.
    return np.asarray(np.minimum(total * (1 + 1e-6 + ROUND_OFF * n), 1.0))
