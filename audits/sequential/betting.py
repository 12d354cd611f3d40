"""Test martingales against P(T) <= e^epsilon Q(T) + delta: fair bets on pairs of outputs, and their wealth.

A pair (x, y) has one output from each data set, independent of each other and of all earlier pairs. The event T, the
stake and all other parts of a bet are *predictable*: they may depend on earlier pairs, but not on this one. Let
a = 1[x in T], b = 1[y in T] and L = e^epsilon. For any point (p, q) of the claim's boundary p = L q + delta, and any s
with 0 <= s <= min(1/p, 1/(L (1 - q))), the bet pays

    E(a, b) = (1 + s (a - p)) (1 - s L (b - q)).

*It is an e-value for the claim.* Both factors are at least 0 for a, b in {0, 1}. Let P, Q be the true probabilities; a
and b are independent, so E[E] = (1 + s (P - p)) (1 - s L (Q - q)). This increases in P, and the claim says P <= L Q +
delta, so with t = L (Q - q) it is at most (1 + s t) (1 - s t) = 1 - s^2 t^2 <= 1.

*Graded events.* The proof does not need a and b to be 0 or 1. They may be values h(x), h(y) in [0, 1] of any function
h, with means P and Q, since the claim bounds the mean of h as it bounds probabilities (integrate over the events
{h >= u}). For a pure claim the best bet has this form. Let f and g be the densities of the outputs and r = f / (f + g).
The nearest pair of the claim has likelihood ratios r / (e^epsilon c) and (1 - r) / c where r is large, and constant
ones elsewhere. These are the two factors for an h that is affine in r there and constant elsewhere. On four published
examples of too little noise, the wealth grows 1.4 to 1.8 times as fast as with the best plain event.

*No e-value grows faster.* E is the likelihood ratio of independent coins with P = p + s p (1 - p) and
Q = q - s L q (1 - q) to the pair (p, q), which is the nearest point of the claim in Kullback-Leibler divergence (the
two slopes above are its Lagrange condition). A likelihood ratio to an element of the null that is an e-value for the
whole null is growth-rate optimal (Grünwald, de Heide, Koolen 2024, Theorem 1), and its growth rate is that divergence,
KLinf. For two streams of coins and a convex null these are the e-values of Turner, Ly, Grünwald 2024. The usual linear
bet 1 + s (a - L b - delta) lacks the term -s^2 L (a - p) (b - q). With g = P - L Q - delta and
V = P (1 - P) + L^2 Q (1 - Q) it grows by g^2 / (2 (V + g^2)) against g^2 / (2 V), to leading order: the same for a
violation that is small against its noise, and up to 1.3 times less for one that shows within fifty pairs.

*Wealth.* The money is divided among accounts, one for each event, direction and stake. Each account is multiplied by
its bet's E. Between pairs, money may be moved among accounts by any predictable rule that does not increase the total.
The total starts at 1 and is a non-negative supermartingale under the claim, for all outputs, events and stopping rules.
So it ever reaches 1/alpha with probability at most alpha (Ville 1939). Between two changes of bets, an account's
log-wealth is linear in three counts (pairs, a, b), so a batch can be settled at once, or in parts with the same result.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray, IntArray

STAKES = 0.97 * 0.5 ** (np.arange(26) / 2)  # fractions of the largest stake
_PRIOR = 1 / (np.arange(len(STAKES)) + 2.0) ** 1.2  # decreases slowly: costs about log log of a violation's size
PRIOR = _PRIOR / _PRIOR.sum()
_LARGEST = 300.0  # largest exponent; a larger epsilon can't be refuted with any number of pairs
ROUND_OFF = 4e-15  # relative, per pair: above the error of E in floating point


@frozen(eq=False)
class Bets:
    """Bets of any shape on events, or on graded events with values 0, 1/m, ..., 1 that are m nested events.

    An account's log-wealth gains ``rest`` per pair, ``on_p[..., j]`` if x is in the j-th of the nested events, and
    ``on_q[..., j]`` if y is.
    """

    rest: FloatArray
    on_p: FloatArray
    on_q: FloatArray

    @classmethod
    def at(
        cls, epsilon: npt.ArrayLike, delta: npt.ArrayLike, q: npt.ArrayLike, stake: npt.ArrayLike, *, grades: int = 1
    ) -> Bets:
        """Returns the bets of the module's docstring.

        Args:
          epsilon, delta: the claimed point, epsilon >= 0 and delta in [0, 1].
          q: the point of the claim's boundary, clipped to [0, (1 - delta) / e^epsilon].
          stake: in [0, 1), as a fraction of the largest s; there is no bet against an epsilon above 300. All arguments
            so far broadcast.
          grades: m; 1 for plain events.
        """
        ratio = np.exp(np.minimum(epsilon, _LARGEST))
        q = np.clip(q, 0.0, (1 - np.asarray(delta)) / ratio)
        p = np.minimum(ratio * q + delta, 1.0)
        with np.errstate(divide="ignore", over="ignore"):  # the least of two quotients, one of them finite
            s = np.where(np.asarray(epsilon) > _LARGEST, 0.0, stake) * np.minimum(1 / p, 1 / (ratio * (1 - q)))
        value = np.arange(grades + 1) / grades
        p, q, s, slope = (np.asarray(v)[..., None] for v in (p, q, s, s * ratio))
        for_p, for_q = np.log1p(s * (value - p)), np.log1p(-slope * (value - q))
        rest = np.asarray(for_p[..., 0] + for_q[..., 0])
        return cls(rest, np.diff(for_p, axis=-1), np.diff(for_q, axis=-1))

    @classmethod
    def on_cells(cls, first: FloatArray, second: FloatArray) -> Bets:
        """Returns bets that pay F(x) G(y), functions of the cells of the outputs, at all stakes.

        A stake s replaces F by 1 + s (F - 1), and G likewise. If the means of F and G add up to at most 2, so do these.

        Args:
          first, second: F and G, shape (roles, cells); positive.
        """
        for_x, for_y = (np.log1p(STAKES[:, None] * (factor[:, None] - 1)) for factor in (first, second))
        return cls(np.zeros(for_x.shape[:-1]), for_x, for_y)

    def of(self, hypothesis: int) -> Bets:
        """Returns the bets of one entry of the first axis."""
        return Bets(self.rest[hypothesis], self.on_p[hypothesis], self.on_q[hypothesis])

    def settle(self, pairs: npt.ArrayLike, x: npt.ArrayLike, y: npt.ArrayLike) -> FloatArray:
        """Returns the gain in log-wealth over ``pairs`` pairs.

        Args:
          pairs: number of pairs.
          x, y: counts of each nested event among the first and among the second outputs of the pairs; they broadcast
            against the bets' shape and an axis of length m.
        """
        from_p = np.einsum("...j,...j", self.on_p, np.asarray(x, dtype=float))
        from_q = np.einsum("...j,...j", self.on_q, np.asarray(y, dtype=float))
        return np.asarray(self.rest * np.asarray(pairs) + from_p + from_q)

    def settle_each(self, pairs: IntArray, x: IntArray, y: IntArray) -> FloatArray:
        """Returns :meth:`settle` of bets (roles, stakes) at each of several times, shape (times, roles, stakes).

        Args:
          pairs: shape (times,).
          x, y: shape (roles, m, times).
        """
        gain = self.rest * pairs[:, None, None]
        for on, counts in ((self.on_p, x), (self.on_q, y)):
            gain = gain + (on @ counts.astype(float)).transpose(2, 0, 1)
        return np.asarray(gain)


def share_out(log_money: FloatArray, share: float, prior: FloatArray) -> FloatArray:
    """Returns the money after the part ``share`` of every account is collected and redistributed by ``prior``.

    Args:
      log_money: shape (..., roles, stakes); the total over the last two axes does not grow.
      share: in (0, 1].
      prior: of the same shape, non-negative, with a sum of at most 1 over the last two axes.
    """
    with np.errstate(divide="ignore"):
        paid = log_total(log_money)[..., None, None] + math.log(share) + np.log(prior)
        return np.asarray(np.logaddexp(log_money + np.log1p(-share), paid))


def log_total(log_money: FloatArray) -> FloatArray:
    """Returns the log of the money in all accounts, over the last two axes; minus infinity if there is none."""
    most = log_money.max(axis=(-2, -1), keepdims=True)
    most = np.where(np.isneginf(most), 0.0, most)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(log_money - most).sum(axis=(-2, -1))) + most[..., 0, 0])


def nearest_boundary(
    x: npt.ArrayLike, y: npt.ArrayLike, trials: npt.ArrayLike, epsilon: npt.ArrayLike, delta: npt.ArrayLike
) -> FloatArray:
    """Returns the q of the boundary point nearest to the frequencies of x and y in ``trials`` pairs each.

    It uses weighted least squares with half a count of smoothing. A bet at any other q is valid too, but slower.
    """
    trials = np.asarray(trials, dtype=float)
    ratio = np.exp(np.minimum(epsilon, _LARGEST))
    p, q = (np.asarray(x) + 0.5) / (trials + 1), (np.asarray(y) + 0.5) / (trials + 1)
    top = (1 - np.asarray(delta)) / ratio
    near = np.clip((p - delta) / ratio, 0.0, top)
    for _ in range(3):
        at_p, at_q = np.clip(ratio * near + delta, 1e-12, 1 - 1e-3), np.clip(near, 1e-300, 1 - 1e-3)
        of_p, of_q = ratio / (at_p * (1 - at_p)), 1 / (at_q * (1 - at_q))  # weights, the first times e^epsilon
        near = np.clip((of_p * (p - delta) + of_q * q) / (of_p * ratio + of_q), 0.0, top)
    return np.asarray(near)


def standing(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    trials: npt.ArrayLike,
    epsilon: npt.ArrayLike,
    delta: npt.ArrayLike,
    squares: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Returns the excess over the claim in standard errors, and a measure of how well a violation would show.

    The measure is P over the standard deviation of a - e^epsilon b: the effect of a given relative excess of P.

    Args:
      x, y: sums of a and b over ``trials`` pairs.
      trials: number of pairs.
      epsilon, delta: the claimed point.
      squares: sums of the squares of a and b, if these differ from x and y.
    """
    ratio, n = np.exp(np.minimum(epsilon, _LARGEST)), np.asarray(trials, dtype=float) + 1
    p, q = (np.asarray(x) + 0.5) / n, (np.asarray(y) + 0.5) / n
    p2, q2 = ((np.asarray(s) + 0.5) / n for s in squares or (x, y))
    spread = np.sqrt(p2 - p**2 + ratio**2 * (q2 - q**2))
    return np.asarray((np.asarray(x) / n - ratio * q - delta) / spread * np.sqrt(n)), np.asarray(p / spread)
