"""Exact lower bounds on a whole privacy curve at once, from scores of outputs on two data sets, for every sample size.

A score, fixed beforehand or learned on other outputs, is larger where an output is more typical of data set 1. Each
threshold t gives an event, "score >= t", likelier on data set 1, and its complement, likelier on data set 0. Confidence
sets for the pairs (P, Q) of probabilities of such events, which hold *together* at the stated confidence level, bound
every measure of privacy that cannot grow when an output is reduced to "did the event happen" (data processing):

* delta(epsilon) >= P - e^epsilon Q, and epsilon(delta) by inversion (Dwork & Roth 2014; total variation is delta(0));
* mu >= Phi^-1(P) - Phi^-1(Q), since no test of N(0, 1) against N(mu, 1) exceeds mu (Dong, Roth & Su 2022, Def. 2.6);
* the Rényi divergence of order a, at least that of two coins P and Q (van Erven & Harremoës 2014, Thm 1);
* rho >= sup over a of that divergence / a (Bun & Steinke 2016, Def. 1.1);
* the trade-off function, at most 1 - P at Q.

All of these increase in P and decrease in Q where P >= Q, so each is least at a corner of the confidence set. All
statements from one set of samples hold together, because they follow from one event: the true pairs lie in their sets.

There are two methods:

* ``joint``: a part of the samples, the pilot, chooses at most 17 events, each for one slope of the trade-off curve. The
  rest bound each pair jointly (:func:`hockeystick.audits.bounds.two_counts.frontier`) at an equal share of the level
  (union bound). This is the sharper method, since a pair's two counts need not both be unlucky.
* ``band``: Clopper-Pearson bounds on P and on Q at all thresholds, at one level such that none of them misses
  (:mod:`hockeystick.audits.bounds.order_statistics`). For fixed cells the bounds at K thresholds may each have level
  1 - (1 - a)^(1/K) instead, as the counts of nested events are associated (Esary, Proschan & Walkup 1967). This is the
  better method for the trade-off curve itself.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen
from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, probability, real
from hockeystick.audits.bounds.order_statistics import MOST_EXACT, equal_level, lower_bounds
from hockeystick.audits.bounds.two_counts import frontier
from hockeystick.audits.claims.claim import Claim

Method = Literal["joint", "band"]

SCHEMA_VERSION = 1

_TARGETS, _MANY = (5, 9), 100_000  # slopes for each direction, below and above so many outputs; each costs level
_REACH = 25.0  # logarithm of the largest slope
_PILOT_SHARE, _LEAST_PILOT, _MOST_PILOT = 0.1, 100, 20_000
_THRESHOLDS = 256  # from the pilot
_ORDERS = 1.0 + np.geomspace(1e-2, 1e3, 120)  # at which rho is looked for, beside 1
_BLOCK = 2**16  # numbers at a time
_SHOWN = 65  # points of each curve in to_dict


@frozen(eq=False)
class CurveBounds:
    """Bounds that hold together with probability at least ``confidence``, for both orders of the data sets.

    See :func:`curve_bounds` for an example.

    Attributes:
      confidence: confidence level of all bounds together.
      method: "joint" or "band".
      trials: number of counted outputs of data sets 0 and 1.
      direction: for each event, the data set on which it is likelier.
      threshold: the event is "score >= threshold" for direction 1, "score < threshold" for direction 0. For counts of
        cells, the threshold is the number of the first cell above.
      count: counts of each event on its likelier data set and on the other; shape (events, 2).
      p_low, q_high: the events' confidence sets, shape (events, parts): (P, Q) lies in one of the parts, where
        P >= p_low and Q <= q_high.
    """

    confidence: float
    method: Method
    trials: tuple[int, int]
    direction: IntArray
    threshold: FloatArray
    count: IntArray
    p_low: FloatArray
    q_high: FloatArray

    def epsilon(self, delta: float) -> float:
        """Returns a lower bound on the least epsilon >= 0 with which the target is (epsilon, ``delta``)-DP."""
        gain = self.p_low - probability("delta", delta)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._largest(np.where(gain > 0, np.log(gain / self.q_high), 0.0))

    def delta(self, epsilon: float) -> float:
        """Returns a lower bound on the least delta with which the target is (``epsilon``, delta)-DP."""
        ratio = math.exp(real("epsilon", epsilon, low=0.0, high=700.0))
        return self._largest(self.p_low - ratio * self.q_high)

    def total_variation(self) -> float:
        """Returns a lower bound on the total variation distance of the outputs, delta at epsilon = 0."""
        return self.delta(0.0)

    def mu(self) -> float:
        """Returns a lower bound on the least mu with which the target is mu-Gaussian-DP."""
        with np.errstate(invalid="ignore"):
            apart = special.ndtri(self.p_low) - special.ndtri(self.q_high)
        return self._largest(np.where(self.p_low > self.q_high, apart, 0.0))

    def renyi(self, order: float) -> float:
        """Returns a lower bound on the Rényi divergence of ``order`` in [1, inf], of the worse order of the laws."""
        a = real("order", order, low=1.0, allow_inf=True)
        return self._largest(np.maximum(*_renyi(self.p_low, self.q_high, a)))

    def rho(self) -> float:
        """Returns a lower bound on the least rho with which the target is rho-zCDP."""
        best = np.maximum(*_renyi(self.p_low, self.q_high, 1.0))
        block = max(1, _BLOCK // max(1, self.p_low.size))
        for i in range(0, len(_ORDERS), block):
            orders = _ORDERS[i : i + block, None, None]
            best = np.maximum(best, (np.maximum(*_renyi(self.p_low, self.q_high, orders)) / orders).max(axis=0))
        return self._largest(best)

    def tradeoff(self) -> tuple[FloatArray, FloatArray]:
        """Returns (false-positive rates, false-negative rates), the corners of a convex upper bound on the truth.

        The trade-off function of the target, and any f with which it is f-DP, lies below this bound. With ``joint``,
        each corner uses the worst P and the worst Q of a set, and is weaker than the other bounds.
        """
        fpr, fnr = self.q_high.max(axis=1, initial=0.0), 1.0 - self.p_low.min(axis=1, initial=1.0)
        points = np.column_stack([np.concatenate([[0.0], fpr, [1.0]]), np.concatenate([[1.0], fnr, [0.0]])])
        corners: list[tuple[float, float]] = []
        for x, y in points[np.lexsort((points[:, 1], points[:, 0]))].tolist():
            while len(corners) > 1 and _above(corners[-1], corners[-2], (x, y)):
                corners.pop()
            if not corners or x > corners[-1][0]:
                corners.append((x, y))
        found = np.array(corners)
        return found[:, 0], found[:, 1]

    def refutes(self, claim: object) -> bool:
        """Returns whether the bounds exclude at least one point of the claim, given as for :meth:`Claim.of`.

        Raises:
          InvalidArgumentError: ``claim`` is not a claim.
        """
        return any(self.delta(epsilon) > delta for epsilon, delta in Claim.of(claim).points)

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON-compatible values: the bounds, curves for a plot, and the events if they are few."""
        top = self.epsilon(0.0)
        few = len(self.direction) <= _SHOWN
        columns = (self.direction, self.threshold, self.count[:, 0], self.count[:, 1]) if few else ((),) * 4
        names = ("direction", "threshold", "count_p", "count_q")
        rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
        return {
            "schema": SCHEMA_VERSION,
            "confidence": self.confidence,
            "method": self.method,
            "trials": list(self.trials),
            "epsilon": [[at, self.epsilon(at)] for at in (0.0, *(10.0**-k for k in range(9, 0, -1)))],
            "delta": [[at, self.delta(at)] for at in np.linspace(0.0, min(top, 700.0), _SHOWN).tolist()],
            "total_variation": self.total_variation(),
            "mu": self.mu(),
            "rho": self.rho(),
            "tradeoff": np.column_stack(self.tradeoff()).tolist(),
            "events": [dict(zip(names, _finite(row), strict=True)) for row in rows],
        }

    def _largest(self, bound: FloatArray) -> float:
        """Returns the best event's bound, at least 0; each bound is the least over the parts of the event's set."""
        return float(np.max(np.min(bound, axis=1), initial=0.0))


def curve_bounds(
    scores0: npt.ArrayLike,
    scores1: npt.ArrayLike,
    *,
    confidence: float = 0.999,
    method: Method = "joint",
    rng: int | np.random.Generator = 0,
) -> CurveBounds:
    """Returns bounds on a whole privacy curve from scores of independent outputs on two data sets.

    Args:
      scores0, scores1: one number for each output on data set 0 and 1, larger where the output is more typical of data
        set 1. The score must not depend on these outputs. Infinite scores are allowed.
      confidence: confidence level of all statements together, in (0.5, 1).
      method: "joint" or "band"; see the module. "joint" sets aside a tenth of the samples as a pilot (at least 100 of
        each data set, or half of fewer than 200), and so does "band" for more than 10,000 of either data set.
      rng: a seed or generator that draws the pilot.

    Raises:
      InvalidArgumentError: a score is NaN, there are not at least two numbers, or another argument is out of its
        domain.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import curve_bounds
      >>> rng = np.random.default_rng(1)
      >>> bounds = curve_bounds(rng.normal(0, 1, 5000), rng.normal(1, 1, 5000))  # mu = 1
      >>> round(bounds.mu(), 2), round(bounds.delta(1.0), 2)  # the truth: 1 and 0.13
      (0.92, 0.09)
    """
    scores = _scores("scores0", scores0), _scores("scores1", scores1)
    alpha, method = 1 - _confidence(confidence), _method(method)
    if method == "band" and max(map(len, scores)) <= MOST_EXACT:
        return _exact_band(scores, alpha)
    generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(integer("rng", rng, low=0))
    chosen = [_pilot(len(side), generator) for side in scores]
    cuts = _cuts(np.sort(np.concatenate([side[mask] for side, mask in zip(scores, chosen, strict=True)])))
    pilot, counts = np.empty((2, 2, len(cuts) + 1), dtype=np.int64)
    for i, (side, mask) in enumerate(zip(scores, chosen, strict=True)):
        cell = np.searchsorted(cuts, side, side="right")
        pilot[i] = np.bincount(cell[mask], minlength=len(cuts) + 1)
        counts[i] = np.bincount(cell[~mask], minlength=len(cuts) + 1)
    found = _joint(counts, pilot, alpha) if method == "joint" else _cell_band(counts, alpha)
    return _with_thresholds(found, cuts)


def cell_curve_bounds(
    counts: npt.ArrayLike, pilot: npt.ArrayLike | None = None, *, confidence: float = 0.999
) -> CurveBounds:
    """Returns bounds on a whole privacy curve from counts of ordered cells that were fixed beforehand.

    Args:
      counts: counts of independent outputs on data sets 0 and 1, shape (2, cells); the last cell is the most typical of
        data set 1.
      pilot: counts of *other* outputs in the same cells, such as those on which the cells were chosen. With a pilot the
        method is "joint", else "band".
      confidence: confidence level of all statements together, in (0.5, 1).

    Raises:
      InvalidArgumentError: counts are not nonnegative whole numbers of this shape, or are all 0 for one data set;
        or ``confidence`` is out of range.

    Example:
      >>> from hockeystick.audits import cell_curve_bounds
      >>> bounds = cell_curve_bounds([[730, 270], [270, 730]])  # randomised response with epsilon = 1
      >>> round(bounds.epsilon(0.0), 2)
      0.76
    """
    alpha, known = 1 - _confidence(confidence), _counts("counts", counts)
    if pilot is None:
        return _cell_band(known, alpha)
    others = _counts("pilot", pilot)
    if others.shape != known.shape:
        raise InvalidArgumentError("pilot", pilot, f"has shape {others.shape}", f"give {known.shape}, as counts")
    return _joint(known, others, alpha)


def _joint(counts: IntArray, pilot: IntArray, alpha: float) -> CurveBounds:
    trials, size = counts.sum(axis=1), pilot.sum(axis=1)
    plans: dict[tuple[int, int, float], None] = {}
    for direction in (1, 0):
        p, q = (_inside(pilot, direction)[side] / (size[side] + 1) for side in (direction, 1 - direction))
        q += 1 / (size[1 - direction] + 1)
        sides = [direction, 1 - direction]
        for at, slope in _targets(p, q, trials[sides], size[sides], alpha, skip=direction == 0):
            plans[direction, at + 1, slope] = None
    rows, share = [], alpha / len(plans)
    for direction, cell, slope in plans:
        inside = counts[:, cell:] if direction == 1 else counts[:, :cell]
        x, y = int(inside[direction].sum()), int(inside[1 - direction].sum())
        n, m = int(trials[direction]), int(trials[1 - direction])
        rows.append((direction, cell, x, y, frontier(x, n, y, m, slope=slope, alpha=share)))
    return CurveBounds(
        confidence=1 - alpha,
        method="joint",
        trials=(int(trials[0]), int(trials[1])),
        direction=np.array([row[0] for row in rows], dtype=np.int64),
        threshold=np.array([row[1] for row in rows], dtype=float),
        count=np.array([row[2:4] for row in rows], dtype=np.int64),
        p_low=np.array([np.minimum(row[4].p_low, 1.0) for row in rows]),
        q_high=np.array([row[4].q_high for row in rows]),
    )


def _targets(
    p: FloatArray, q: FloatArray, trials: IntArray, size: IntArray, alpha: float, *, skip: bool
) -> list[tuple[int, float]]:
    """Returns pairs (index of an event in p and q, slope for which it is predicted to bound P - slope Q best).

    The slopes range from 1 to the largest one with a predicted bound above 0. ``skip`` leaves out the slope 1, for
    which both directions give the same bound.
    """
    targets = _TARGETS[int(trials.min()) >= _MANY]
    critical = -float(special.ndtri(alpha / (2 * targets)))
    slopes = np.exp(np.linspace(0.0, _REACH, 501))[:, None]
    spread = [p * (1 - p) / n + slopes**2 * q * np.maximum(1 - q, 0) / m for n, m in (trials, size)]
    predicted = p - slopes * q - critical * np.sqrt(spread[0]) - np.sqrt(spread[1])
    some = np.flatnonzero(predicted.max(axis=1) > 0)
    last = int(some[-1]) if len(some) else 0
    rows = np.unique(np.linspace(0, last, targets).astype(int))[1 if skip else 0 :]
    return [(int(predicted[row].argmax()), float(slopes[row, 0])) for row in rows]


def _inside(counts: IntArray, direction: int) -> IntArray:
    """Returns the counts of the events of a direction, by data set; the k-th event splits cells k and k + 1."""
    sums = np.cumsum(counts, axis=1)[:, :-1]
    return np.asarray(counts.sum(axis=1, keepdims=True) - sums if direction == 1 else sums)


def _cell_band(counts: IntArray, alpha: float) -> CurveBounds:
    trials = [int(total) for total in counts.sum(axis=1)]
    above, below = _inside(counts, 1)[1], _inside(counts, 0)[0]
    levels = [-math.expm1(math.log1p(-alpha / 2) / len(above))] * 2
    for i, n in enumerate(trials):
        if n <= MOST_EXACT and len(above) > 4 * math.log(n):  # otherwise, the level of order statistics is smaller
            levels[i] = max(levels[i], equal_level(n, alpha / 2))
    low0, low1 = lower_bounds(below, trials[0], levels[0]), lower_bounds(above, trials[1], levels[1])
    return _band(low0, low1, below, above, (trials[0], trials[1]), np.arange(1.0, len(above) + 1), alpha)


def _exact_band(scores: tuple[FloatArray, FloatArray], alpha: float) -> CurveBounds:
    cuts = np.unique(np.concatenate(scores))
    below = np.searchsorted(np.sort(scores[0]), cuts)
    above = len(scores[1]) - np.searchsorted(np.sort(scores[1]), cuts)
    n0, n1 = len(scores[0]), len(scores[1])
    low0, low1 = (lower_bounds(k, n, equal_level(n, alpha / 2)) for k, n in ((below, n0), (above, n1)))
    return _band(low0, low1, below, above, (n0, n1), cuts, alpha)


def _band(
    low0: FloatArray,
    low1: FloatArray,
    below: IntArray,
    above: IntArray,
    trials: tuple[int, int],
    threshold: FloatArray,
    alpha: float,
) -> CurveBounds:
    """Returns the bounds that follow from lower bounds on Pr_0(score < t) and Pr_1(score >= t)."""
    up, down = np.column_stack([above, trials[0] - below]), np.column_stack([below, trials[1] - above])
    return CurveBounds(
        confidence=1 - alpha,
        method="band",
        trials=trials,
        direction=np.repeat([1, 0], len(low0)),
        threshold=np.tile(threshold, 2),
        count=np.concatenate([up, down]),
        p_low=np.concatenate([low1, low0])[:, None],
        q_high=1.0 - np.concatenate([low0, low1])[:, None],
    )


def _with_thresholds(found: CurveBounds, cuts: FloatArray) -> CurveBounds:
    """Returns the bounds with scores as thresholds instead of the numbers of cells."""
    return evolve(found, threshold=cuts[found.threshold.astype(np.int64) - 1])


def _renyi(p: FloatArray, q: FloatArray, order: float | FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the Rényi divergence of coins p and q, and of q and p; 0 where p <= q. They grow with the order.

    Several orders, all finite and above 1 + 1e-6, lie on axes in front of the coins'.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if np.ndim(order) == 0 and order < 1.0 + 1e-6:
            both = [special.rel_entr(a, b) + special.rel_entr(1 - a, 1 - b) for a, b in ((p, q), (q, p))]
        elif np.ndim(order) == 0 and np.isinf(order):
            both = [np.log(p / q), np.log((1 - q) / (1 - p))]
        else:
            logs = np.log(p), np.log(q), np.log1p(-p), np.log1p(-q)
            both = [
                np.logaddexp(order * a - (order - 1) * b, order * c - (order - 1) * d) / (order - 1)
                for a, b, c, d in (logs, (logs[1], logs[0], logs[3], logs[2]))
            ]
    forward, backward = (np.where(p > q, np.maximum(divergence, 0.0), 0.0) for divergence in both)
    return forward, backward


def _above(middle: tuple[float, float], before: tuple[float, float], after: tuple[float, float]) -> bool:
    """Returns whether ``middle`` lies on or above the chord of its neighbours."""
    (a, b), (x, y), (c, d) = before, middle, after
    return (y - b) * (c - a) >= (d - b) * (x - a)


def _pilot(n: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Returns a mask of the outputs in the pilot: a random subset, as the caller may have sorted them."""
    size = min(max(int(n * _PILOT_SHARE), min(_LEAST_PILOT, n // 2)), _MOST_PILOT)
    mask = np.zeros(n, dtype=bool)
    mask[rng.choice(n, size, replace=False)] = True
    return mask


def _cuts(ordered: FloatArray) -> FloatArray:
    """Returns thresholds from sorted scores: equal numbers of scores apart, and closer towards both ends."""
    n = len(ordered)
    tail = np.unique(np.geomspace(1, n / 2, _THRESHOLDS // 4).astype(np.int64)) - 1
    ranks = np.concatenate([tail, n - 1 - tail, np.linspace(0, n - 1, min(n, _THRESHOLDS // 2)).astype(np.int64)])
    return np.unique(ordered[ranks])


def _finite(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(str(value) if isinstance(value, float) and math.isinf(value) else value for value in row)


def _confidence(value: object) -> float:
    return real("confidence", value, low=0.5, high=1.0, low_open=True, high_open=True)


def _method(value: object) -> Method:
    if value not in ("joint", "band"):
        raise InvalidArgumentError("method", value, "is unknown", 'choose "joint" or "band"')
    return value


def _scores(name: str, value: npt.ArrayLike) -> FloatArray:
    raw = np.asarray(value)
    if raw.dtype.kind not in "iuf" or raw.ndim != 1 or len(raw) < 2:
        raise InvalidArgumentError(
            name, value, "is not a list of at least two numbers", "give one score for each output"
        )
    if np.isnan(raw).any():
        raise InvalidArgumentError(name, value, "holds a NaN", "give such outputs a score of their own, such as -inf")
    return raw.astype(float)


def _counts(name: str, value: npt.ArrayLike) -> IntArray:
    counts = array(name, value, shape=(2, None), low=0.0, high=float(1 << 53))
    if counts.shape[1] < 2 or (counts != np.floor(counts)).any() or not counts.sum(axis=1).all():
        raise InvalidArgumentError(name, value, "is not a table of counts", "give whole numbers, at least two cells")
    return counts.astype(np.int64)
