"""How far the log-ratios of the lazy learner of convex losses stray: what its decisions and its redraws cost.

At a boundary the learner's coin looks at r = -beta*(l(x) - l(y)), l the last batch's loss, x the point and y its
shadow. Replacing a loss in that batch moves r by at most 2*beta*L*D, D the diameter, for sure. Where that is large,
tails are used. Points are drawn from m-strongly log-concave measures, m = 2*beta*lambda, mu = 2*beta*L/sqrt(m), and of
those

* a G-Lipschitz function exceeds its median by u*G/sqrt(m) with probability at most 1 - Phi(u), also on products of
  such measures (Bakry & Ledoux 1996; by Caffarelli's contraction theorem, 2000, from Sudakov & Tsirelson 1974);
* two whose potentials differ by a G-Lipschitz function have draws, suitably coupled, at distance at most G/m: let one
  Brownian motion drive the Langevin diffusions of both.

**Losses fixed in advance** ("oblivious"), exact draws. Say x was drawn k boundaries ago and y was l ago.

1. A draw of x outlives k boundaries with probability at most (1-p)^k, whatever else happens; that of y with exactly
   (1-p_y)^k. A redraw of x has a probability of at most q in all states with |r| <= R, q = 1 - (1-p)*exp(-c-R). So for
   any set A, with nu_k the measure k boundaries ago,

       P[(x, y) in A, ages k and l, |r| <= R at the draw of x] <= w_k * P[l] * (nu_k x nu_l)(A),

   w_k = q*(1-p)^k, but (1-p)^k for the very first draw: whichever of the two draws came first, the later one is
   independent of it. The w_k add up to W = (1-p)^a + q*(1-(1-p)^a)/p for a boundaries, and those from k on to at most
   (1-p)^k*W. That (x, y) follow the current measure is not used: it fails as soon as a coin is clipped.
2. Let g be the difference of the two losses. Were x and y from one measure, beta*(g(x) - g(y)) would have the median
   0; it is sqrt(2)*mu-Lipschitz in units of 1/sqrt(m). Measures that are k boundaries apart move it by up to
   k*B*mu^2/2. Hence

       P[|r - r'| > t] <= sum over ages of w_k * P[l] * 2*(1 - Phi((t - max(k, l)*B*mu^2/2)_+ / (sqrt(2)*mu))).

3. r itself, of a batch of B losses, is bounded in the same way by B/2 times as much. As q depends on R, that is done
   twice: at first with q = 1.

A learner with a budget of draws decides nothing more once it is spent; until then all of this holds.

**Losses chosen after seeing x and y** ("adaptive"). Then |r - r'| <= 2*beta*L*||x - y||. A draw lies within
(sqrt(d) + u)/sqrt(m) of its measure's mode but for exp(-u^2/2), modes move by beta*L*B/m per batch, and since the
adversary may wait for a bad draw, all 2n draws must be good: kappa = 2*mu*(sqrt(d) + u) + a*B*mu^2/2.

Draws of samplers within a total variation of tau are exact ones but for a probability of 2n*tau in a run.
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
# 9000 U: sums of at most a few hundred positive terms, products and roots.
_SLACK = 1.0 + 1e-12
# A normal tail at x counts its argument's round-off x² times: 40² times 10 U, of 9e6 U.
_TAIL_SLACK = 1.0 + 1e-9


def adversary_of(value: object) -> Adversary:
    """``value``, if it is one of the two; else raises InvalidArgumentError."""
    return one_of("adversary", value, "oblivious", "adaptive")


@frozen
class RatioTails:
    """How far the log-ratio r of the last batch may stray, and how it may change when one of its losses is replaced.

    Attributes:
        change: kappa, the bound on |r - r'| at the boundary after the batch with the replaced loss.
        largest: R, the bound on |r| at any boundary; (B/2)*kappa.
        age: Boundaries for which no action and no shadow lives on (up to the failure).
        per_boundary: Chance that the bound needed at one given boundary fails; 0 where they hold for sure.
        overall: Chance, paid once, that any of them fails.
        grid: Increasing numbers up to kappa.
        chances: For each of them, the mean of P[t < |r - r'| <= kappa] over t from the number before (at first, 0) to
            it: for a state whose law is that before the replaced loss. Empty where it is as good as kappa for sure.
    """

    change: float
    largest: float
    age: int
    per_boundary: float
    overall: float
    grid: tuple[float, ...] = field(default=())
    chances: tuple[float, ...] = field(default=())


@frozen
class _Walk:
    """The ages that x and y may have at a boundary, and how far r may change there.

    Attributes:
        mu: The Gaussian-DP parameter of a draw.
        batch: B.
        fake, shadow: p and p_y.
        longest: The largest age there can be.
    """

    mu: float
    batch: int
    fake: float
    shadow: float
    longest: int

    def total(self, redraw: float) -> float:
        """W, if x is redrawn with probability at most ``redraw`` (> p)."""
        log_first = self.longest * math.log1p(-self.fake)
        others = float(self.longest) if self.fake == 0.0 else -math.expm1(log_first) / self.fake
        return (math.exp(log_first) + redraw * others) * _SLACK

    def age(self, tail: float) -> int:
        """An age that neither x nor y exceeds, but for twice ``tail``."""
        return max(_age(chance, tail, self.longest) for chance in (self.fake, self.shadow))

    def drift(self, age: FloatArray | float) -> FloatArray:
        """How far measures of that age move |r - r'|."""
        return np.asarray(0.5 * self.batch * self.mu**2 * np.asarray(age, dtype=float))

    def change(self, total: float, failure: float) -> float:
        """A bound on |r - r'|, but for ``failure``: half of it for the ages, half for the draws."""
        deviations = -special.ndtri(0.25 * failure / total)
        return float(math.sqrt(2.0) * self.mu * deviations + self.drift(self.age(0.25 * failure))) * _SLACK

    def exceeds(self, total: float, change: FloatArray) -> FloatArray:
        """A bound on P[|r - r'| > change], at each of several numbers."""
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
    """The bounds that hold at all boundaries, in either of two neighbouring worlds, up to a ``failure`` in total.

    Args:
        weights: The family of measures.
        domain: Where points lie.
        batch: B.
        batches: n.
        fake: p in [0, 1), the chance of a redraw of x for no reason.
        shadow: p_y in [0, 1), that of a redraw of y.
        normaliser: c >= 0, the log-normaliser.
        failure: In (0, 1).
        adversary: "oblivious" or "adaptive", see above.
        total_variation: How far the sampler's draws may be from their measure.
    """
    n, mu = batches, weights.replacement_mu
    certain = 2.0 * weights.inverse_temperature * weights.lipschitz * domain.diameter * (1.0 + 2.0 * LIPSCHITZ_SLACK)
    if n < 2:
        return RatioTails(certain, 0.5 * batch * certain, 0, 0.0, 0.0)
    inexact = 2.0 * n * total_variation
    walk = _Walk(mu, batch, fake, shadow, n - 2)
    if adversary == "adaptive":
        age = walk.age(0.25 * failure / n)
        deviations = math.sqrt(domain.dimension) + math.sqrt(2.0 * math.log(4.0 * n / failure))
        change = float(2.0 * mu * deviations + walk.drift(age)) * _SLACK
        if change >= certain:
            return RatioTails(certain, 0.5 * batch * certain, age, 0.0, 0.0)
        return RatioTails(change, 0.5 * batch * change, age, 0.0, failure + inexact)

    # A boundary's share is for the bounds there; a little of it for those at the draw of x, as long as x lives on.
    share, little = (1.0 - _AT_DRAW) * failure / (n - 1), _AT_DRAW * failure / (n - 1)
    crude = walk.total(1.0)
    first = min(certain, walk.change(crude, little / crude))
    total = walk.total(-math.expm1(math.log1p(-fake) - normaliser - 0.5 * batch * first) * _SLACK)
    change = min(certain, walk.change(total, share))
    grid, chances = _averages(walk, total, change)
    sure = change == certain  # and so was the bound on r
    return RatioTails(
        change,
        0.5 * batch * change,
        walk.age(0.25 * share),
        0.0 if sure else share + little,
        0.0 if sure and not grid else inexact,
        grid,
        chances,
    )


def _averages(walk: _Walk, total: float, change: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Grid and chances of ``RatioTails``: means of a decreasing function, from the left ends of small steps."""
    steps: FloatArray = np.asarray(np.arange(_CELLS * _POINTS) * (change / (_CELLS * _POINTS)), dtype=np.float64)
    chances = walk.exceeds(total, steps).reshape(_CELLS, _POINTS).mean(axis=1) * _TAIL_SLACK
    if chances.mean() > 0.9:
        return (), ()
    grid = change * (np.arange(_CELLS) + 1.0) / _CELLS
    grid[-1] = change
    return tuple(grid.tolist()), tuple(np.minimum.accumulate(np.minimum(1.0, chances)).tolist())


def _age(chance: float, tail: float, longest: int) -> int:
    """The least age a with (1 - chance)^(a + 1) <= tail, or the ``longest`` that there can be."""
    if chance == 0.0:
        return longest
    return min(longest, max(0, math.ceil(math.log(tail) / math.log1p(-chance) * _SLACK) - 1))
