"""One test with both orders of the data sets: two disjoint events, one likelier on each data set.

A claim binds both orders: P(A) <= e^epsilon Q(A) + delta, and Q(B) <= e^epsilon P(B) + delta. So it bounds their mean,

    E+ <= e^epsilon E- + delta,   E+ = (P(A) + Q(B)) / 2,   E- = (Q(A) + P(B)) / 2,

and the mean of two events shows a violation with fewer samples than either event.

*Coins.* In each of N trials a fair coin decides whether the output is one of P or one of Q. The trial is a "plus" with
probability E+ and a "minus" with probability E-, for all P and Q. So the counts K+ and K- are a trinomial with two
parameters. Each trial uses an output of its own, so with n outputs from each data set N is a little below 2n
(:func:`tosses`). If a data set has too few outputs, the missing ones are treated as unknown.

*The region* is that of :mod:`hockeystick.audits.bounds.two_counts`, with a trinomial in the place of two binomials. Let
T = K+ - L K- with a slope L fixed beforehand and g(E+, E-) = Pr[T >= T observed]. g increases in E+ and decreases in
E-, because T increases if a neutral trial becomes a plus, and decreases if it becomes a minus. Take levels with
a + b + c = alpha, [u, v] the two-sided Clopper-Pearson interval of E- at level 1 - b, and w the lower bound of E+ at
level 1 - c. Then the region {u <= E- <= v, E+ >= w, g > a} contains the true (E+, E-) with probability at least
1 - alpha. It is evaluated cell by cell as there. If m outputs are missing, T, u, v and w take their worst values: u at
K-, v at K- + m, w at K+ and T at K+ - L (K- + m). As all four are monotone in the counts, the resulting region contains
that of the complete trials.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import frozen
from scipy import optimize, special

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.audits.bounds import two_counts
from hockeystick.audits.bounds.two_counts import Region, Rows, at_most, clopper_pearson

MOST_TRIALS = 10**9 - 1  # outputs from a data set: numpy draws from no larger urn

_SHORT = 0.5  # over sqrt(n): the probability that a data set has too few outputs
_BLOCKS = 256  # most blocks of values of K-
_OUTSIDE = 1e-3  # of the level, about: the probability of the values of K- that are added whole instead of summed


@frozen
class Tossed:
    """Counts of ``trials`` tosses.

    Attributes:
      plus: number of trials with A on P, or B on Q.
      minus: number of trials with B on P, or A on Q.
      trials: N.
      missing: number of trials without an output, counted neither in ``plus`` nor in ``minus``.
    """

    plus: int
    minus: int
    trials: int
    missing: int = 0


def tosses(n: int) -> int:
    """Returns the number N of trials for n outputs from each data set, such that few outputs will be missing."""
    quantile = -float(special.ndtri(min(0.3, _SHORT / math.sqrt(n))))
    return max(1, math.floor(2 * n - quantile * math.sqrt(2 * n)))


def toss(counts: IntArray, n: int, rng: np.random.Generator) -> Tossed:
    """Returns the counts of trials on random sides.

    Args:
      counts: counts of A and B in ``n`` independent outputs on P (first row) and on Q.
      n: at most :data:`MOST_TRIALS`.
      rng: must be independent of the outputs.
    """
    trials = tosses(n)
    heads = int(rng.binomial(trials, 0.5))
    wanted = np.array([heads, trials - heads])
    used = np.minimum(wanted, n)
    # outputs are exchangeable, so the ones that the trials use are drawn without replacement
    on_p, on_q = (
        rng.multivariate_hypergeometric([a, b, n - a - b], taken, method="marginals")
        for (a, b), taken in zip(counts.tolist(), used, strict=True)
    )
    return Tossed(int(on_p[0] + on_q[1]), int(on_p[1] + on_q[0]), trials, int((wanted - used).sum()))


@lru_cache(maxsize=1 << 12)
def both_frontier(tossed: Tossed, *, slope: float, alpha: float) -> Region:
    """Returns the joint region of (E+, E-), see the module's docstring.

    Args:
      tossed: the counts.
      slope: e^epsilon for the claimed epsilon, chosen without these counts.
      alpha: probability that the region misses the true pair.
    """
    n = tossed.trials
    most = tossed.minus + tossed.missing
    level = alpha * (1 - two_counts.SHARE_P - two_counts.SHARE_Q)
    least, _ = clopper_pearson(tossed.plus, n, confidence=1 - alpha * two_counts.SHARE_P, side="lower")
    edges, window = _cells_of_minus(n, tossed.minus, most, alpha)
    q = edges[:-1]
    threshold = tossed.plus - slope * most
    # where g(1 - q, q) <= a, no E+ is left; g(1 - q, q) decreases in q
    empty = at_most(np.floor((n - threshold) / (1 + slope) + 1e-9 * (1 + most)), n, q) <= level
    law = _Minus.of(n, q, slope, threshold, level, window)

    def tail(p: FloatArray, rows: Rows) -> FloatArray:
        return law.upper_tail(p, rows)

    def spread(p: FloatArray, rows: Rows) -> FloatArray:
        return _spread(n, slope, p, q[rows]) / n

    start = np.clip(threshold / n + slope * q, 0.0, 1 - q)
    p = two_counts.least_shares(tail, spread, start, 1 - q, level, empty)
    return Region(p_low=np.where(empty, np.inf, np.maximum(p, least)), q_low=q, q_high=edges[1:])


@lru_cache(maxsize=1 << 8)
def _cells_of_minus(n: int, least: int, most: int, alpha: float) -> tuple[FloatArray, two_counts.Window]:
    """Returns the edges of the cells of E- if K- is between ``least`` and ``most``, and the law of K- in each cell."""
    low, _ = clopper_pearson(least, n, confidence=1 - alpha * two_counts.SHARE_Q)
    _, high = clopper_pearson(most, n, confidence=1 - alpha * two_counts.SHARE_Q)
    edges = np.sin(np.linspace(np.arcsin(np.sqrt(low)), np.arcsin(np.sqrt(high)), two_counts.CELLS + 1)) ** 2
    edges[0], edges[-1] = low, high
    level = alpha * (1 - two_counts.SHARE_P - two_counts.SHARE_Q)
    return edges, two_counts.window_of(n, edges[:-1], _spreads(level))


def both_slope(p: float, q: float, *, epsilon: float, delta: float) -> float:
    """Returns the slope with the most power to refute E+ <= e^epsilon E- + delta at (E+, E-) = (p, q).

    It is that of the likelihood ratio to the nearest trinomial that satisfies the claim; see
    :func:`hockeystick.audits.bounds.two_counts.sharpest_slope`.
    """
    ratio = math.exp(min(epsilon, two_counts.STEEPEST))
    rest = 1 - p - q
    top = (1 - delta) / (1 + ratio)
    if p <= ratio * q + delta or q <= 0.0 or top <= q:
        return ratio

    def divergence(at: float) -> float:
        there = ratio * at + delta
        return -p * math.log(there) - q * math.log(at) - (rest * math.log(1 - there - at) if rest > 0 else 0.0)

    # The bounds lie inside the domain, where the logarithms are finite; the result guides a choice only.
    found = optimize.minimize_scalar(divergence, bounds=(1e-9 * top, top * (1 - 1e-9)), method="bounded")
    near = float(found.x)
    there = ratio * near + delta
    zero = math.log(rest / (1 - there - near)) if rest > 1e-9 else 0.0
    gain, loss = math.log(p / there) - zero, math.log(near / q) + zero
    steps = loss / gain / ratio if gain > 0 else 1e3
    return ratio * 1.05 ** round(math.log(min(max(steps, 1.0), 1e3)) / math.log(1.05))


@lru_cache(maxsize=1 << 12)
def detectable_epsilon(
    trials: int, share: float, *, alpha: float, epsilon: float, delta: float, power: float = 0.9
) -> float:
    """Returns about the least epsilon' with which :func:`both_frontier` refutes (epsilon, delta) at the given power.

    The truth is E+ = e^epsilon' E- + delta and E+ + E- = ``share``; the slope is e^epsilon, and no output is missing.
    The result is infinite if even E- = 0 is refuted less often.
    """
    level = alpha * (1 - two_counts.SHARE_P - two_counts.SHARE_Q)
    slope, target = math.exp(min(epsilon, two_counts.STEEPEST)), -float(special.ndtri(level))

    def shortfall(q: float) -> float:
        _, high = clopper_pearson(trials * q, trials, confidence=1 - alpha * two_counts.SHARE_Q)
        worst = np.array([min(float(high), (1 - delta) / (1 + slope))])
        claimed = slope * worst + delta
        spread = float(_spread(trials, slope, claimed, worst)[0])
        critical = trials * delta + target * spread
        window = two_counts.window_of(trials, worst, _spreads(level))
        for step in range(40):  # the critical value at the upper end of the interval of E-
            g = _Minus.of(trials, worst, slope, critical, level, window).upper_tail(claimed, slice(None))[0]
            if step >= 3 and g <= level:
                break
            up = target + float(special.ndtri(np.clip(g, 0.01 * level, 0.9999)))
            critical += spread * (up if step < 3 else max(up, 0.05))
        law = _Minus.of(trials, np.array([q]), slope, critical, level)
        return power - float(law.upper_tail(np.array([share - q]), slice(None))[0])

    most = (share - delta) / (1 + slope)
    if most <= 0 or shortfall(0.0) > 0:
        return math.inf
    q = float(optimize.brentq(shortfall, 0.0, most, xtol=1e-4 * most, rtol=1e-4)) if shortfall(most) > 0 else most
    return math.log((share - q - delta) / q) if q > 0 else math.inf


def _spreads(level: float) -> float:
    """Returns the number of standard deviations of a count that are summed value by value."""
    return -float(special.ndtri(_OUTSIDE * level))


def _spread(trials: int, slope: float, p: FloatArray, q: FloatArray) -> FloatArray:
    """Returns the standard deviation of K+ - slope K-, at least that of a count of one."""
    return np.sqrt(trials * np.maximum(p + slope**2 * q - (p - slope * q) ** 2, 0.0) + 1.0)


@frozen(eq=False)
class _Minus:
    """Values of K- in blocks, for some values of E-, and the least K+ with which T reaches a threshold.

    Attributes:
      q: values of E-.
      mass: probability of each block.
      rest: number of trials that are not a minus, at the first value of each block.
      need: the least K+ there.
      outside: probability of all values outside the blocks.
      trials: N.
      spreads: number of standard deviations of K+ that matter.
    """

    q: FloatArray
    mass: FloatArray
    rest: FloatArray
    need: FloatArray
    outside: FloatArray
    trials: int
    spreads: float

    @classmethod
    def of(
        cls,
        trials: int,
        q: FloatArray,
        slope: float,
        threshold: float,
        level: float,
        window: two_counts.Window | None = None,
    ) -> _Minus:
        """Returns the blocks for some values of E-; ``window`` is the law of K-, if it is known already."""
        window = two_counts.window_of(trials, q, _spreads(level)) if window is None else window
        width = window.mass.shape[1]
        starts = np.arange(0, width, -(-width // _BLOCKS))
        first = (window.first[:, None] + starts).astype(float)
        slack = 1e-12 * (1 + abs(threshold) + slope * first)  # a tie counts as reached
        need = np.ceil(threshold + slope * first - slack)
        mass = np.add.reduceat(window.mass, starts, axis=1)
        return cls(q, mass, trials - first, need, window.outside, trials, _spreads(level))

    def upper_tail(self, p: FloatArray, rows: Rows) -> FloatArray:
        """Returns Pr[T >= threshold] for each row's E+ and E-, never below the truth.

        Given K- = k, K+ is binomial among the other trials, and the larger k is, the less likely K+ is to reach what it
        needs. So a block counts as its first value, values after the last that matters count as that one, and values
        before the first that matters count as certain.
        """
        share = np.minimum(p / np.maximum(1 - self.q[rows], 1e-300), 1.0)[:, None]
        need, rest = self.need[rows], self.rest[rows]
        far = (need - rest * share) / np.sqrt(rest * share * (1 - share) + 1)
        matters = far > -self.spreads
        matters[:, 1:] &= far[:, :-1] < self.spreads
        inside = matters & (need > 0) & (need <= rest)
        reach = np.ones(need.shape)
        reach[matters & (need > rest)] = 0.0
        needed, others = need[inside], rest[inside]
        shares = np.broadcast_to(share, need.shape)[inside]
        reach[inside] = special.betainc(needed, others - needed + 1, shares)
        np.minimum.accumulate(reach, axis=1, out=reach)
        total = np.einsum("ij,ij->i", self.mass[rows], reach) + self.outside[rows]
        # 1e-6 is far above the error of betainc and of sums; ``ROUND_OFF`` is that of the masses.
        return np.asarray(np.minimum(total * (1 + 1e-6 + two_counts.ROUND_OFF * self.trials), 1.0))
