"""Bounds on the log-ratios of the lazy learner of convex losses, and so on the costs of its decisions and redraws.

At a boundary the learner's coin depends on r = -β*(l(x) - l(y)), with l the last batch's loss, x the point and y its
shadow. Replacing a loss in that batch surely moves r by at most 2*β*L*D, with D the diameter. Where that is large,
tail bounds are used. Points are drawn from m-strongly log-concave measures, m = 2*β*λ, μ = 2*β*L/sqrt(m).
For these measures

* a G-Lipschitz function exceeds its median by u*G/sqrt(m) with probability at most 1 - Φ(u), also on products of
  such measures (Bakry & Ledoux 1996; by Caffarelli's contraction theorem, 2000, from Sudakov & Tsirelson 1974);
* two measures whose potentials differ by a G-Lipschitz function have draws, suitably coupled, at distance at most G/m:
  let one Brownian motion drive the Langevin diffusions of both.

**Losses fixed in advance** ("oblivious"), exact draws. Say x was drawn k boundaries ago and y was l ago.

1. A draw of x survives k boundaries with probability at most (1-p)^k, and a draw of y with exactly (1-p_y)^k. A redraw
   of x has a probability of at most q in all states with |r| <= R, q = 1 - (1-p)*exp(-c-R). So for any set A, with ν_k
   the measure k boundaries ago,

       P[(x, y) in A, ages k and l, |r| <= R at the draw of x] <= w_k * P[l] * (ν_k x ν_l)(A),

   w_k = q*(1-p)^k, except (1-p)^k for the very first draw: the later of the two draws is independent of the earlier
   one. The w_k sum to W = (1-p)^a + q*(1-(1-p)^a)/p over a boundaries, and those from k on to at most (1-p)^k*W. The
   argument does not assume that (x, y) follow the current measure, which fails as soon as a coin is clipped.
2. Let g be the difference of the two losses. Were x and y from one measure, β*(g(x) - g(y)) would have the median
   0; it is sqrt(2)*μ-Lipschitz in units of 1/sqrt(m). Measures that are k boundaries apart move it by up to
   k*B*μ^2/2. Hence

       P[|r - r'| > t] <= sum over ages of w_k * P[l] * 2*(1 - Φ((t - max(k, l)*B*μ^2/2)_+ / (sqrt(2)*μ))).

3. The same argument bounds r itself, for a batch of B losses, by B/2 times as much. As q depends on R, it is applied
   twice, first with q = 1.

A learner with a budget of draws stops deciding once the budget is spent; until then all of this holds.

**Losses chosen after seeing x and y** ("adaptive"). Then |r - r'| <= 2*β*L*||x - y||. A draw lies within
(sqrt(d) + u)/sqrt(m) of its measure's mode except with probability exp(-u^2/2), and modes move by β*L*B/m per batch.
Since the adversary may wait for a bad draw, all 2n draws must be good: κ = 2*μ*(sqrt(d) + u) + a*B*μ^2/2.

Draws of samplers within a total variation of τ are exact ones except with probability 2n*τ per run.
"""

import math
from typing import Literal

import numpy as np
from attrs import field, frozen
from scipy import special

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import one_of
from hockeystick.learners.lazy.convex.losses.convex_losses import LIPSCHITZ_SLACK, Domain
from hockeystick.learners.lazy.convex.losses.regularized_measure import RegularizedWeights

Adversary = Literal["oblivious", "adaptive"]

_CELLS, _POINTS, _AGES = 24, 8, 40
_AT_DRAW = 0.05
# 9000 times 2^-53: the error of products, roots and sums of at most a few hundred positive terms is smaller.
_SLACK = 1.0 + 1e-12
# A normal tail at x multiplies its argument's rounding error by x²: 40² * 10 * 2^-53 is far below 1e-9.
_TAIL_SLACK = 1.0 + 1e-9


def adversary_of(value: object) -> Adversary:
    """Returns ``value``, which must be "oblivious" or "adaptive"; raises InvalidArgumentError for anything else."""
    return one_of("adversary", value, "oblivious", "adaptive")


@frozen
class RatioTails:
    """Bounds on the log-ratio r of the last batch, and on its change when one of the batch's losses is replaced.

    Attributes:
        change: κ, the bound on |r - r'| at the boundary after the batch with the replaced loss.
        largest: R, the bound on |r| at any boundary; (B/2)*κ.
        per_boundary: Probability that the bound at one given boundary fails; 0 if the bounds are sure.
        overall: Probability, charged once, that any bound fails.
        grid: Increasing numbers up to κ.
        chances: For each number, the mean of P[t < |r - r'| <= κ] over t from the previous number (0 at first) to
            it, for a state with the law before the replaced loss. Empty where the average does not improve on κ.
    """

    change: float
    largest: float
    per_boundary: float
    overall: float
    grid: tuple[float, ...] = field(default=())
    chances: tuple[float, ...] = field(default=())


@frozen
class _Walk:
    """The possible ages of x and y at a boundary, and the resulting change of r.

    Attributes:
        mu: The Gaussian-DP parameter of a draw.
        batch: B.
        fake, shadow: p and p_y.
        longest: The largest possible age.
    """

    mu: float
    batch: int
    fake: float
    shadow: float
    longest: int

    def total(self, redraw: float) -> float:
        """Returns W, if x is redrawn with probability at most ``redraw`` (> p)."""
        log_first = self.longest * math.log1p(-self.fake)
        others = float(self.longest) if self.fake == 0.0 else -math.expm1(log_first) / self.fake
        return (math.exp(log_first) + redraw * others) * _SLACK

    def age(self, tail: float) -> int:
        """Returns an age that x or y exceeds with probability at most twice ``tail``."""
        return max(_age(chance, tail, self.longest) for chance in (self.fake, self.shadow))

    def drift(self, age: FloatArray | float) -> FloatArray:
        """Returns the contribution of measures of that age to |r - r'|."""
        return np.asarray(0.5 * self.batch * self.mu**2 * np.asarray(age, dtype=float))

    def change(self, total: float, failure: float) -> float:
        """Returns a bound on |r - r'| that fails with probability ``failure``, half of it for ages, half for draws."""
        deviations = -special.ndtri(0.25 * failure / total)
        return float(math.sqrt(2.0) * self.mu * deviations + self.drift(self.age(0.25 * failure))) * _SLACK

    def exceeds(self, total: float, change: FloatArray) -> FloatArray:
        """Returns a bound on P[|r - r'| > change], for each of several numbers."""
        ages = np.floor(np.geomspace(1.0, max(1.0, float(self.age(1e-40))), _AGES))
        edges = np.unique(np.concatenate([[0.0], ages]))
        older = 1.0 - (1.0 - self._outlives(self.fake, edges)) * (1.0 - self._outlives(self.shadow, edges))
        weights = total * (older - np.append(older[1:], 0.0))
        oldest = np.append(edges[1:] - 1.0, self.longest)
        beyond = np.maximum(0.0, change[:, None] - self.drift(oldest)) / (math.sqrt(2.0) * self.mu)
        return np.asarray(np.minimum(1.0, 2.0 * _TAIL_SLACK * (special.ndtr(-beyond) @ weights)))

    @staticmethod
    def _outlives(chance: float, age: FloatArray | float) -> FloatArray:
        return np.asarray(np.exp(np.asarray(age, dtype=float) * math.log1p(-chance)))


def ratio_tails(
    weights: RegularizedWeights,
    *,
    domain: Domain,
    batch: int,
    batches: int,
    fake: float,
    shadow: float,
    normaliser: float,
    failure: float,
    adversary: Adversary = "oblivious",
    total_variation: float = 0.0,
) -> RatioTails:
    """Returns bounds for all boundaries, in either of two neighbouring worlds, up to a ``failure`` in total.

    Args:
        weights: The family of measures.
        domain: The set of points.
        batch: B.
        batches: n.
        fake: p in [0, 1), the fake-switch probability of x.
        shadow: p_y in [0, 1), the probability of a redraw of y.
        normaliser: c >= 0, the log-normaliser.
        failure: In (0, 1).
        adversary: "oblivious" or "adaptive"; see the module.
        total_variation: Bound on the distance of the sampler's draws from their measure.
    """
    n, mu = batches, weights.replacement_mu
    certain = 2.0 * weights.inverse_temperature * weights.lipschitz * domain.diameter * (1.0 + 2.0 * LIPSCHITZ_SLACK)
    if n < 2:
        return RatioTails(certain, 0.5 * batch * certain, 0.0, 0.0)
    inexact = 2.0 * n * total_variation
    walk = _Walk(mu, batch, fake, shadow, n - 2)
    if adversary == "adaptive":
        deviations = math.sqrt(domain.dimension) + math.sqrt(2.0 * math.log(4.0 * n / failure))
        change = float(2.0 * mu * deviations + walk.drift(walk.age(0.25 * failure / n))) * _SLACK
        if change >= certain:
            return RatioTails(certain, 0.5 * batch * certain, 0.0, 0.0)
        return RatioTails(change, 0.5 * batch * change, 0.0, failure + inexact)

    # Each boundary has a share for its own bounds, and a little for the bounds at the draw of x, while x is played.
    share, little = (1.0 - _AT_DRAW) * failure / (n - 1), _AT_DRAW * failure / (n - 1)
    crude = walk.total(1.0)
    first = min(certain, walk.change(crude, little / crude))
    total = walk.total(-math.expm1(math.log1p(-fake) - normaliser - 0.5 * batch * first) * _SLACK)
    change = min(certain, walk.change(total, share))
    grid, chances = _averages(walk, total, change)
    sure = change == certain  # then the bound on r is sure as well
    return RatioTails(
        change,
        0.5 * batch * change,
        0.0 if sure else share + little,
        0.0 if sure and not grid else inexact,
        grid,
        chances,
    )


def _averages(walk: _Walk, total: float, change: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns ``grid`` and ``chances`` of ``RatioTails``: means of a decreasing function, from left ends of steps."""
    steps: FloatArray = np.asarray(np.arange(_CELLS * _POINTS) * (change / (_CELLS * _POINTS)), dtype=np.float64)
    chances = walk.exceeds(total, steps).reshape(_CELLS, _POINTS).mean(axis=1) * _TAIL_SLACK
    if chances.mean() > 0.9:
        return (), ()
    grid = change * (np.arange(_CELLS) + 1.0) / _CELLS
    grid[-1] = change
    return tuple(grid.tolist()), tuple(np.minimum.accumulate(np.minimum(1.0, chances)).tolist())


def _age(chance: float, tail: float, longest: int) -> int:
    """Returns the least age a with (1 - chance)^(a + 1) <= tail, at most ``longest``."""
    if chance == 0.0:
        return longest
    return min(longest, max(0, math.ceil(math.log(tail) / math.log1p(-chance) * _SLACK) - 1))
