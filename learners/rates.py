"""Rates of private online learning, as printed and as they hold, and a line through points on two logarithmic axes.

A rate is a sum of terms T^a d^b eps^-c, or the best of several such sums. With eps = T^-alpha and d = T^gamma its
exponent beta (regret = T^beta up to logarithms) is the largest of a + b gamma + c alpha over a sum's terms, the least
of that over the alternatives, and never above 1. That is Table 1 and Figure 1 of Asi, Koren, Liu & Talwar 2024, with
one curve more: their Proposition 3.3 lets batches of B rounds cost T B^2 eta^2, while a learner that plays one action
per batch can be made to lose eta T B / 8 (alternating losses). Its best batch is then shorter than 1/eps where
d < (T eps)^(1/3), and its rate is larger than printed.

:func:`free_instances` measures another rate, of how many problems can share one budget.
"""

import math
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, VisibleMixture
from hockeystick.accounting.validate import array, integer, probability, real
from hockeystick.learners.expert_losses import FloatArray
from hockeystick.learners.lazy_experts import LazyExperts, Variant

# --- exponents -------------------------------------------------------------------------------------------------------


@frozen
class Term:
    """T^rounds * d^dimension * eps^-privacy."""

    rounds: Fraction = field(converter=Fraction)
    dimension: Fraction = field(default=Fraction(0), converter=Fraction)
    privacy: Fraction = field(default=Fraction(0), converter=Fraction)


@frozen
class Rate:
    """A regret bound up to constants and logarithms: the best of its alternatives, each a sum of terms.

    Attributes:
        alternatives: Sums of terms.
        source: Where it is from.
    """

    alternatives: tuple[tuple[Term, ...], ...]
    source: str

    def exponent(self, privacy: npt.ArrayLike, *, dimension: float = 0.0) -> FloatArray:
        """beta for each alpha in ``privacy`` (eps = T^-alpha, alpha >= 0) at d = T^dimension; of the same shape."""
        alpha = array("privacy", privacy, low=0.0)
        gamma = real("dimension", dimension, low=0.0)
        sums = [
            np.max([float(t.rounds) + float(t.dimension) * gamma + float(t.privacy) * alpha for t in terms], axis=0)
            for terms in self.alternatives
        ]
        found: FloatArray = np.minimum(1.0, np.min(sums, axis=0))
        return found

    def free_privacy(self, *, dimension: Fraction | int = 0) -> Fraction | None:
        """The largest alpha at which regret is still T^(1/2), as without privacy; None if there is none."""
        gamma, best = Fraction(dimension), None
        for terms in self.alternatives:
            room = [(Fraction(1, 2) - t.rounds - t.dimension * gamma, t.privacy) for t in terms]
            if all(spare >= 0 for spare, _ in room):
                limit = min((spare / slope for spare, slope in room if slope), default=None)
                if limit is not None and (best is None or limit > best):
                    best = limit
        return best


_F = Fraction
_ROOT = Term(_F(1, 2))
_PAPER = "Asi, Koren, Liu & Talwar 2024"

EXPERTS_BEFORE = Rate(
    (
        (_ROOT, Term(0, _F(1, 2), 1)),
        (_ROOT, Term(_F(1, 3), 0, 1)),
        (_ROOT, Term(_F(2, 5), 0, _F(4, 5))),
    ),
    f"Agarwal & Singh 2017; Asi, Feldman, Koren & Talwar 2023; as in {_PAPER}, Table 1",
)
EXPERTS_PRINTED = Rate(((_ROOT, Term(_F(1, 3), 0, _F(2, 3))),), f"{_PAPER}, Theorem 3.10 (does not hold)")
EXPERTS_CORRECTED = Rate(
    ((_ROOT, Term(_F(2, 5), 0, _F(3, 5)), Term(_F(1, 3), 0, _F(2, 3))),), f"{_PAPER}, Algorithm 1 at its best batch"
)
CONVEX_BEFORE = Rate(
    (
        (Term(_F(1, 2), _F(1, 4), _F(1, 2)),),
        (_ROOT, Term(_F(1, 3), _F(1, 2), 1), Term(_F(3, 8), _F(1, 2), _F(3, 4))),
    ),
    f"Kairouz et al. 2021; Agarwal, Kale, Singh & Thakurta 2023; as in {_PAPER}, Table 1",
)
CONVEX_PRINTED = Rate(
    ((_ROOT, Term(_F(1, 3), _F(1, 2), _F(2, 3))),), f"{_PAPER}, Theorem 3.12 (holds for d >= (T eps)^(1/3))"
)
CONVEX_CORRECTED = Rate(
    ((_ROOT, Term(_F(2, 5), _F(3, 10), _F(3, 5)), Term(_F(1, 3), _F(1, 2), _F(2, 3))),),
    f"{_PAPER}, Algorithm 1 at its best batch",
)

Panel = Literal["a", "b", "c"]


@frozen
class Curves:
    """One panel of Figure 1: beta against alpha for d = T^dimension (0 for a power of ln T)."""

    title: str
    dimension: Fraction
    before: Rate
    printed: Rate
    corrected: Rate

    def table(self, privacy: npt.ArrayLike) -> dict[str, FloatArray]:
        """beta of each curve at each alpha in ``privacy``: what to plot."""
        gamma = float(self.dimension)
        return {
            name: getattr(self, name).exponent(privacy, dimension=gamma) for name in ("before", "printed", "corrected")
        }


def figure(panel: Panel) -> Curves:
    """Panel "a" (convex losses, few dimensions), "b" (convex, d = T^(1/3)) or "c" (experts, d = T) of Figure 1.

    The number of experts enters by its logarithm, except in sqrt(d)/eps.
    """
    if panel == "a":
        return Curves("convex, d = polylog T", _F(0), CONVEX_BEFORE, CONVEX_PRINTED, CONVEX_CORRECTED)
    if panel == "b":
        return Curves("convex, d = T^(1/3)", _F(1, 3), CONVEX_BEFORE, CONVEX_PRINTED, CONVEX_CORRECTED)
    if panel == "c":
        return Curves("experts, d = T", _F(1), EXPERTS_BEFORE, EXPERTS_PRINTED, EXPERTS_CORRECTED)
    raise InvalidArgumentError("panel", panel, "is unknown", 'use "a", "b" or "c"')


# --- slopes ----------------------------------------------------------------------------------------------------------


@frozen
class Slope:
    """A line ln y = intercept + slope * ln x through points, by least squares.

    Attributes:
        slope: The exponent.
        intercept: ln y at x = 1.
        error: The slope's standard error, from the residuals: 0 for points on a line. It knows nothing of errors that
            all points share, nor of a curve that is no line.
    """

    slope: float
    intercept: float
    error: float


def log_log_slope(x: npt.ArrayLike, y: npt.ArrayLike) -> Slope:
    """Fits a power law to at least three points with positive coordinates, at two places at least.

    Raises:
        InvalidArgumentError: fewer points, coordinates that are not positive, or all x equal.
    """
    given = {}
    for name, value in (("x", x), ("y", y)):
        given[name] = array(name, value, ndim=1)
        if (given[name] <= 0.0).any():
            raise InvalidArgumentError(name, value, "is not positive throughout", "a logarithm is taken")
    if given["x"].size < 3 or given["x"].shape != given["y"].shape:
        raise InvalidArgumentError("y", given["y"].shape, f"does not make 3 points with x of shape {given['x'].shape}")
    if np.ptp(given["x"]) == 0.0:
        raise InvalidArgumentError("x", x, "is the same throughout", "vary it")
    fit = stats.linregress(np.log(given["x"]), np.log(given["y"]))
    return Slope(float(fit.slope), float(fit.intercept), float(fit.stderr))


# --- many problems under one budget ----------------------------------------------------------------------------------


@frozen
class FreeInstances:
    """How many problems share one budget, and the learner of each; certified by the learners' graphs."""

    instances: int
    learner: LazyExperts


def free_instances(
    *,
    rounds: int,
    experts: int,
    epsilon: float,
    delta: float,
    excess: float = 2.0,
    variant: Variant = "dartboard",
) -> FreeInstances:
    """The most problems of experts that can all take the same people's losses at (epsilon, delta) in total.

    Each has a worst-case regret of at most ``excess`` * sqrt(T ln d); without privacy it is sqrt(T ln d / 2). Batches
    and fake-switch probabilities are searched on a grid, and every learner has the smallest learning rate that its
    regret allows. The count is certified by the Renyi curve of the composed graphs.

    With rate ~ T^(-1/2), a decision costs rate^2/p in Renyi terms and all redraws T p rate^2, so that p ~ T^(-1/2) and
    the count grows like T^(1/2), as printed (Asi et al. 2024, section 1.1). A single decision's worst loss is then of
    order 1: counted by the epsilon of each problem alone, which forces rate/p down, it would grow like T^(1/3).

    Raises:
        InvalidArgumentError: an argument outside its domain (``excess`` at least 0.75), or not one problem fits.
    """
    rounds = integer("rounds", rounds, low=2)
    experts = integer("experts", experts, low=2)
    epsilon, delta = real("epsilon", epsilon, low=0.0, low_open=True), probability("delta", delta, open=True)
    allowed = real("excess", excess, low=0.75) * math.sqrt(rounds * math.log(experts))
    orders = 1.0 + np.geomspace(0.02, 1e5, 96)
    spare = epsilon - (np.log1p(-1.0 / orders) - math.log(delta) / (orders - 1.0) - np.log(orders) / (orders - 1.0))
    best: tuple[int, LazyExperts] | None = None
    for batch in range(1, rounds + 1):
        root = allowed**2 - rounds * batch * math.log(experts) / 2.0
        if root < 0.0:
            break
        # The smaller root of ln(d)/rate + rate*T*B/8 = allowed, by the stable one of its two forms.
        rate = 2.0 * math.log(experts) / (allowed + math.sqrt(root))
        for p in np.minimum(0.9, rate * np.geomspace(0.5, 200.0, 24)):
            learner = LazyExperts(
                rounds=rounds,
                experts=experts,
                batch=batch,
                learning_rate=rate,
                fake_switch_probability=float(p),
                variant=variant,
            )
            fits = math.floor(float(np.max(spare / _paid(learner, orders))))
            if fits >= 1 and (best is None or fits > best[0]):
                best = fits, learner
    if best is None:
        raise InvalidArgumentError("epsilon", epsilon, "is not enough for one problem", "allow more epsilon or regret")
    return _certified(*best, epsilon, delta)


def _paid(learner: LazyExperts, orders: FloatArray) -> FloatArray:
    """The Renyi curve of the first person's events, as in the learner's graph; a search may err, it certifies none."""
    draw = learner.draw.event()
    later = VisibleMixture(learner.largest_redraw_probability, draw).rdp(orders)
    shadow = VisibleMixture(learner.refresh_probability, draw).rdp(orders)
    first = learner.switch.event().rdp(orders) + draw.rdp(orders)
    found: FloatArray = first + max(0, learner.batches - 2) * later + max(0, learner.batches - 1) * shadow
    return found


def _certified(instances: int, learner: LazyExperts, epsilon: float, delta: float) -> FreeInstances:
    """The count, lowered until the composed event's own bound meets the target."""
    event = learner.graph().guarantee().event
    while accounting.epsilon(accounting.compose((event, instances)), delta, method="rdp").upper > epsilon:
        if instances == 1:
            raise InvalidArgumentError("epsilon", epsilon, "is not enough for one problem", "allow more of it")
        instances -= 1
    return FreeInstances(instances, learner)
