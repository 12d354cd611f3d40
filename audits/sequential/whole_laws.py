"""Bets on whole laws: growth-rate optimal bets against both orders of a claim, and all of its points, at once.

For independent outputs x ~ P and y ~ Q, a bet pays F(x) G(y). Let a claim have the points (eps_j, delta_j), and let
L_j = e^eps_j. For any l, m and v_j, w_j >= 0, and any functions a_j, b_j of an output with values in [0, 1], let

    F = l + sum_j (v_j a_j - L_j w_j b_j),    G = m + sum_j (w_j b_j - L_j v_j a_j),

where F, G >= 0 and l + m + sum_j (v_j + w_j) delta_j = 2. Here a_j bets on P > L_j Q + delta_j, b_j on the other order.

*It is an e-value for the claim.* The claim bounds means of functions with values in [0, 1] as it bounds probabilities:
E_P a_j - L_j E_Q a_j <= delta_j, and E_Q b_j - L_j E_P b_j <= delta_j. So E_P F + E_Q G <= l + m + sum_j (v_j + w_j)
delta_j = 2, and as x and y are independent, E[F(x) G(y)] = E_P F E_Q G <= ((E_P F + E_Q G) / 2)^2 <= 1. The pairs of
laws that satisfy the claim form a convex set H, but their products do not; the inequality of the means closes this gap.
F and G may depend on earlier pairs. The bets of :mod:`hockeystick.audits.sequential.betting` are those with one a_j,
l = 1 - s p and m = 1 + s L q.

*There are no others of this form.* If F(x) G(y) is an e-value for all (P, Q) in H, the points (E_P F, E_Q G) make a
convex set below the hyperbola u v = 1, hence below one of its tangents t u + v / t = 2; so t F and G / t have
E_P (t F) + E_Q (G / t) <= 2 on H, and are, by linear duality, no larger than such a pair.

*The best one is a likelihood ratio.* Let (P*, Q*) be the pair of H with the least KL(P || P*) + KL(Q || Q*). Since the
divergence does not decrease along any line from there into H, F = dP/dP* and G = dQ/dQ* have E_P' F + E_Q' G <= 2 for
all (P', Q') in H. Their product is an e-value, and a likelihood ratio to an element of the null. So no e-value of any
form grows faster (Grünwald, de Heide, Koolen 2024, Theorem 1; Larsson, Ramdas, Ruf 2025 call it the numeraire), and its
rate is KLinf of both orders (:mod:`hockeystick.audits.bounds.sample_limits`).

P and Q are unknown. They are estimated from earlier pairs by several smoothings, each of which has an account of its
own. The smoothing with most of the money is an average of several rules and models (of shifted or scaled noise),
weighted by how well they predict the earlier outputs: a rule by leave-one-out prediction, a model by its likelihood
minus its number of parameters (Akaike 1974). A bad estimate only costs speed. The multipliers are found by Newton's
method; the two equations above then define the bet, so that it is fair for all multipliers.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.audits.attacks.half_lines import BREAKS, fitted, shapes, standardised

_EMPTY = 1e-3  # counts added to each cell, so that the likelihood ratio of an empty one is about 1
_RANGE = 0.02  # least share of either data set in a cell
_MOST_EPSILON = 300.0  # largest epsilon to bet against; a larger one can't be refuted with any number of pairs
_NEIGHBOURS = (-8, -4, 0, 4, 8)  # points of a curve to bet on, around the one with the largest excess
_STEPS = 25
_LENGTHS = np.array([1.0, 0.5, 0.2, 0.05, 0.01, 0.001])[:, None, None]
_CLOSE = 1e-6  # nats
_LEAST = 1e-9  # of a factor
_TOTAL = 2.0 * (1 - 1e-14)  # of the means, with room for round-off


@frozen
class _Rule:
    """A rule of smoothing: a kernel of width ``width * pairs ** -shrinks`` in ranks, and added counts ``more``.

    If ``linear``, it fits a line instead of a constant. If ``folded``, ranks at the same distance from the median are
    pooled, which suits data sets that scale the noise.
    """

    width: float
    shrinks: float
    more: float
    linear: bool = False
    folded: bool = False


_ORDERED = (
    (
        _Rule(0.25, 0.2, 0.45, linear=True),
        _Rule(0.25, 0.2, 0.45, linear=True, folded=True),
        _Rule(0.17, 0.1, 2.0),
    ),
    (_Rule(0.17, 0.2, 1.0),),
    (_Rule(0.0, 0.0, 1.0),),
)
_UNORDERED = ((_Rule(0.0, 0.0, 0.5),), (_Rule(0.0, 0.0, 1.0),), (_Rule(0.0, 0.0, 2.0),))
SMOOTHINGS = np.array([0.88, 0.06, 0.06])  # the money on each
_PENALTY = 1.0  # for a model's slope, see :func:`hockeystick.audits.attacks.half_lines.fitted`
_PARAMETERS = 2.0  # of a model: the optimism of its log-likelihood on the outputs to which it was fitted


def smoothed(counts: IntArray, *, ordered: bool) -> tuple[FloatArray, FloatArray]:
    """Returns estimates of the laws of both data sets over cells, shape (smoothings, cells) each, all positive.

    A cell's mass is that of both data sets together. It is divided between them by the counts near the cell, in their
    ratio or by a line through them.

    Args:
      counts: shape (sides, cells).
      ordered: whether neighbouring cells are similar.
    """
    pooled = counts.sum(axis=0) + _EMPTY
    mass = pooled / pooled.sum()
    place = np.cumsum(mass) - mass / 2
    smoothings = _ORDERED if ordered else _UNORDERED
    share = np.stack([_share(counts.astype(float), mass, place, rules) for rules in smoothings])
    found = np.stack([share * mass, (1 - share) * mass])
    found /= found.sum(axis=-1, keepdims=True)
    return found[0], found[1]


def _share(counts: FloatArray, mass: FloatArray, place: FloatArray, rules: tuple[_Rule, ...]) -> FloatArray:
    """Returns the first data set's share of each cell: the average of rules and models by their predictions."""
    fits = [_Fit.of(counts, place, rule) for rule in rules]
    if len(fits) == 1:
        return fits[0].share()
    shares = np.stack([fit.share() for fit in fits])
    # leave-one-out: each output is predicted from the others
    found = np.array([special.xlogy(counts, [fit.share(1.0, 1.0), 1 - fit.share(0.0, 1.0)]).sum() for fit in fits])
    modelled, likelihood = _modelled(counts, mass, place)
    weight = special.softmax(np.concatenate([found, likelihood]))
    return np.asarray(weight @ np.concatenate([shares, modelled]))


def _modelled(counts: FloatArray, mass: FloatArray, place: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the shares by models with two parameters, and the log-likelihoods of the models."""
    # Clipped below 1, where the logarithm is finite; this is a model's feature, not a bound.
    far = np.clip(2 * np.abs(place - 0.5), 0.0, 1 - 1e-9)
    scaled = np.stack([far, -np.log1p(-far), special.ndtri((1 + far) / 2) ** 2])
    models = standardised(np.concatenate([shapes(place, BREAKS, 1 - BREAKS), scaled]), mass)
    logits, likelihood = fitted(models, counts[0], counts.sum(axis=0), _PENALTY)
    return np.clip(special.expit(logits), _RANGE, 1 - _RANGE), likelihood - _PARAMETERS


@frozen(eq=False)
class _Fit:
    """Kernel sums around each cell: of outputs, of their distances, and of their squared distances.

    Without distances, the fit is a constant near each cell. The shares are clipped to [least, 1 - least].
    """

    first: FloatArray
    both: FloatArray
    first_turned: FloatArray | float = 0.0
    both_turned: FloatArray | float = 0.0
    square: FloatArray | float = 1.0
    least: float = 0.0

    @classmethod
    def of(cls, counts: FloatArray, place: FloatArray, rule: _Rule) -> _Fit:
        all_counts = counts.sum(axis=0)
        if not rule.width:
            return cls(counts[0] + rule.more / 2, all_counts + rule.more)
        width = rule.width * max(1.0, float(counts[0].sum())) ** -rule.shrinks
        place = np.abs(place - 0.5) if rule.folded else place
        apart = place[:, None] - place
        near = np.exp(-0.5 * np.square(apart / width))
        first, both = np.stack([counts[0], all_counts]) @ near
        first, both = first + rule.more / 2, both + rule.more
        if not rule.linear:
            return cls(first, both)
        # least squares; the added counts also shrink the slope, as if they lay a little more than a width away
        turned = near * apart
        first_turned, both_turned = np.stack([counts[0], all_counts]) @ turned
        square = all_counts @ (turned * apart) + 2 * rule.more * width**2
        return cls(first, both, first_turned, both_turned, square, _RANGE)

    def share(self, fewer_first: float = 0.0, fewer: float = 0.0) -> FloatArray:
        """Returns the first data set's share of each cell, if so many of the cell's own outputs are left out."""
        first, both = self.first - fewer_first, self.both - fewer
        line = (first * self.square - self.both_turned * self.first_turned) / (both * self.square - self.both_turned**2)
        return np.asarray(np.clip(line, self.least, 1 - self.least))


def worst_points(p: FloatArray, q: FloatArray, epsilon: FloatArray, delta: FloatArray) -> IntArray:
    """Returns the points of a curve to bet on: the one with the largest excess in standard errors, and some around it.

    Args:
      p, q: laws over cells, shape (cells,).
      epsilon, delta: the curve, shape (points,).
    """
    ratio = np.exp(np.minimum(epsilon, _MOST_EPSILON))[:, None]
    best = np.full(len(epsilon), -np.inf)
    for x, y in ((p, q), (q, p)):
        front = x > ratio * y
        at_x, at_y = (front * x).sum(axis=1), (front * y).sum(axis=1)
        # The term 1e-12 avoids division by 0; it affects the choice of points only.
        spread = np.sqrt(at_x * (1 - at_x) + ratio[:, 0] ** 2 * at_y * (1 - at_y)) + 1e-12
        best = np.maximum(best, (at_x - ratio[:, 0] * at_y - delta) / spread)
    order = np.argsort(epsilon, kind="stable")
    at = int(best[order].argmax()) + np.array(_NEIGHBOURS)
    return np.asarray(order[at[(at >= 0) & (at < len(order))]])


@frozen(eq=False)
class _Forms:
    """F and G on pieces and kinks, as linear forms of z = (l, m, multipliers).

    Constraints are sorted by their kinks, the ratios P*/Q* at which they begin to count (``above``) or cease to count.
    Piece k is between the kinks k - 1 and k.
    """

    kinks: FloatArray  # (constraints,)
    first: FloatArray  # F on pieces, (pieces, multipliers)
    second: FloatArray  # G
    held: FloatArray  # kink F + G on kinks, (constraints, multipliers)
    charge: FloatArray  # coefficient of each multiplier in the total of 2
    rows: FloatArray  # first, second and held, one after the other

    @classmethod
    def of(cls, epsilon: FloatArray, delta: FloatArray) -> _Forms:
        ratio = np.exp(epsilon)
        one = np.ones(len(ratio))
        kinks = np.concatenate([1 / ratio, ratio])
        above = np.repeat([False, True], len(ratio))
        order = np.lexsort((above, kinks))
        kinks, above = kinks[order], above[order]
        weights = np.stack([np.concatenate([-ratio, one]), np.concatenate([one, -ratio])])[:, order]
        piece = np.arange(len(kinks) + 1)[:, None]
        on = np.where(above, piece > np.arange(len(kinks)), piece <= np.arange(len(kinks)))
        own = np.repeat(np.eye(2)[:, None], len(piece), axis=1)
        first, second = np.concatenate([own, weights[:, None] * on], axis=-1)
        held = kinks[:, None] * first[1:] + second[1:]
        charge = np.concatenate([np.ones(2), np.tile(delta, 2)[order]])
        return cls(kinks, first, second, held, charge, np.concatenate([first, second, held]))

    def ends(self, heights: FloatArray) -> FloatArray:
        """Returns the ratios of the laws between states (piece 0, kink 0, piece 1, ...), increasing, shape (..., ends).

        Args:
          heights: F and G on pieces; further columns are ignored.
        """
        pieces = len(self.first)
        f, g = heights[..., :pieces], heights[..., pieces : 2 * pieces]
        with np.errstate(over="ignore"):
            slope = np.where(g > 0, np.maximum(f, 0.0) / np.where(g > 0, g, 1.0), np.inf)
            ends = np.repeat(self.kinks, 2) * slope[..., np.repeat(np.arange(pieces), 2)[1:-1]]
        return np.asarray(np.maximum.accumulate(ends, axis=-1))

    def states(self, z: FloatArray, ratio: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Returns each cell's state (2 k on piece k, 2 k + 1 on kink k), and F and G on pieces, shape (..., pieces).

        Args:
          z: shape (..., multipliers).
          ratio: ratio of the laws, shape (..., cells).
        """
        heights = z @ self.rows[: 2 * len(self.first)].T
        f, g = np.split(heights, 2, axis=-1)
        return (ratio[..., None] > self.ends(heights)[..., None, :]).sum(axis=-1), f, g


def best_factors(p: FloatArray, q: FloatArray, epsilon: FloatArray, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the positive F and G of the module's docstring that grow fastest if the laws are p and q.

    They are fair for every claim that implies P <= e^epsilon Q + delta, in both orders, at each of the points.

    Args:
      p, q: laws over cells, positive; shape (laws, cells).
      epsilon, delta: the points, shape (points,).
    """
    known = (epsilon <= _MOST_EPSILON) & (delta < 1.0)
    if not known.any():
        return np.ones_like(p), np.ones_like(q)
    forms = _Forms.of(epsilon[known], delta[known])
    laws, every = _Laws.of(p, q), np.arange(len(p))
    z = np.zeros((len(p), len(forms.charge)))
    z[:, :2] = 1.0
    at = _At.of(z, laws, forms)
    for _ in range(_STEPS):
        tried = np.maximum(z + _LENGTHS * _direction(z, at, forms), 0.0)
        there = _At.of(tried, laws, forms)
        best = there.value.argmax(axis=0)
        gain = there.value[best, every] - at.value
        better = gain > 0
        z = np.where(better[:, None], tried[best, every], z)
        at = at.or_else(there, best, better)
        if np.all(gain < _CLOSE):
            break
    return _factors(z, p, q, p / q, p + q, forms)


@frozen(eq=False)
class _Laws:
    """Cumulative sums of laws over cells in the order of their ratio p/q.

    Attributes:
      ratio: shape (laws, cells), sorted.
      sums: sums of p, of q, and of p log(p/(p + q)) + q log(q/(p + q)), over the first 0, 1, ... cells;
        shape (3, laws * (cells + 1)).
    """

    ratio: FloatArray
    sums: FloatArray

    @classmethod
    def of(cls, p: FloatArray, q: FloatArray) -> _Laws:
        order = np.argsort(p / q, axis=1)
        p, q = np.take_along_axis(p, order, axis=1), np.take_along_axis(q, order, axis=1)
        sums = np.zeros((3, len(p), p.shape[1] + 1))
        np.cumsum([p, q, p * np.log(p / (p + q)) + q * np.log(q / (p + q))], axis=2, out=sums[:, :, 1:])
        return cls(p / q, sums.reshape(3, -1))

    def between(self, ends: FloatArray) -> FloatArray:
        """Returns the sums over cells below, between and above ``ends``, shape (3, ..., laws, ends + 1).

        Args:
          ends: ratios, increasing; shape (..., laws, ends).
        """
        laws, cells = self.ratio.shape
        place = np.empty((*ends.shape[:-1], ends.shape[-1] + 2), dtype=np.intp)
        place[..., 0], place[..., -1] = 0, cells
        np.sum(self.ratio[:, None, :] <= ends[..., None], axis=-1, out=place[..., 1:-1])
        return np.diff(self.sums[:, place + (np.arange(laws) * (cells + 1))[:, None]], axis=-1)


@frozen(eq=False)
class _At:
    """The objective and its parts at some multipliers z, of shape (..., laws, multipliers).

    Attributes:
      value: the expected log of the bet, without the scaling to a total of 2; minus infinity outside the domain.
      heights: F and G on pieces, and kink F + G on kinks.
      masses: mass of p for each F, of q for each G, and of both for each kink.
    """

    value: FloatArray
    heights: FloatArray
    masses: FloatArray

    @classmethod
    def of(cls, z: FloatArray, laws: _Laws, forms: _Forms) -> _At:
        heights = z @ forms.rows.T
        p, q, rest = laws.between(forms.ends(heights))
        masses = np.concatenate([p[..., ::2], q[..., ::2], p[..., 1::2] + q[..., 1::2]], axis=-1)
        held = rest[..., 1::2].sum(axis=-1) - p[..., 1::2] @ np.log(forms.kinks)
        total = special.xlogy(masses, np.maximum(heights, 0.0)).sum(axis=-1)
        value = total + held - z @ forms.charge
        return cls(np.where(np.isnan(value), -np.inf, value), heights, masses)

    def or_else(self, tried: _At, best: IntArray, better: BoolArray) -> _At:
        """Returns this state, with the ``best`` tried one for the laws in ``better``."""
        rows, wide = np.arange(len(best)), better[:, None]
        return _At(
            np.where(better, tried.value[best, rows], self.value),
            np.where(wide, tried.heights[best, rows], self.heights),
            np.where(wide, tried.masses[best, rows], self.masses),
        )


def _direction(z: FloatArray, at: _At, forms: _Forms) -> FloatArray:
    """Returns Newton's ascent step for the multipliers that are not fixed at 0."""
    some = at.masses > 0
    over = np.divide(at.masses, at.heights, out=np.zeros_like(at.masses), where=some)
    slope = over @ forms.rows - forms.charge
    square = np.divide(over, at.heights, out=over, where=some)
    curve = (forms.rows.T * square[:, None, :]) @ forms.rows
    fixed = (z <= 0) & (slope <= 0)
    slope = np.where(fixed, 0.0, slope)
    curve[fixed[:, :, None] | fixed[:, None, :]] = 0.0
    size = np.einsum("ijj->ij", curve)
    # The diagonal is raised so that the matrix has an inverse; any multipliers give a valid bet.
    curve[:, np.arange(z.shape[1]), np.arange(z.shape[1])] += np.where(fixed, 1.0, 1e-9 * size + np.abs(slope) + 1e-9)
    return np.asarray(np.linalg.solve(curve, slope[..., None])[..., 0])


def _factors(
    z: FloatArray, p: FloatArray, q: FloatArray, ratio: FloatArray, both: FloatArray, forms: _Forms
) -> tuple[FloatArray, FloatArray]:
    """Returns F and G of each cell, interpolated between pieces on kinks; 1 for laws where they are out of bounds."""
    state, f, g = forms.states(z, ratio)
    kink = np.minimum(state // 2, len(forms.kinks) - 1)
    low_f, low_g = (np.take_along_axis(v, state // 2, axis=-1) for v in (f, g))
    high_f, high_g = (np.take_along_axis(v, kink + 1, axis=-1) for v in (f, g))
    wanted = q * np.take_along_axis(z @ forms.held.T, kink, axis=-1) / both
    span = high_g - low_g
    part = np.divide(wanted - low_g, span, out=np.zeros_like(span), where=span != 0)
    part = np.where(state % 2 == 1, np.clip(part, 0.0, 1.0), 0.0)
    scale = _TOTAL / (z @ forms.charge)[:, None]
    found = scale * (low_f + part * (high_f - low_f)), scale * (low_g + part * span)
    sound: BoolArray = np.all([np.all(np.isfinite(v) & (v > _LEAST), axis=1) for v in found], axis=0)[:, None]
    return np.where(sound, found[0], 1.0), np.where(sound, found[1], 1.0)
