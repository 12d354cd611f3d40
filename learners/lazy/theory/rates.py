"""Rates of private online learning, as printed and as they hold, and a line through points on two logarithmic axes.

A rate is a sum of terms T^a d^b eps^-c, or the best of several such sums. With eps = T^-alpha and d = T^gamma its
exponent beta (regret = T^beta up to logarithms) is the largest of a + b gamma + c alpha over a sum's terms, the least
of that over the alternatives, and never above 1. That is Table 1 and Figure 1 of Asi, Koren, Liu & Talwar 2024, with
one curve more: their Proposition 3.3 lets batches of B rounds cost T B^2 eta^2, while a learner that plays one action
per batch can be made to lose eta T B / 8 (alternating losses). Its best batch is then shorter than 1/eps where
d < (T eps)^(1/3), and its rate is larger than printed.

:func:`small_epsilon_bound` is that learner's bound for sizes at which no accountant is asked any more.
"""

import math
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import optimize, special, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real

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


# --- the bound for small epsilon --------------------------------------------------------------------------------------


def small_epsilon_bound(*, rounds: float, experts: int, epsilon: float, delta: float) -> float:
    """Least regret bound of the shrinking dartboard at (epsilon, delta), by its leading terms: certified by nothing.

    For delta << epsilon << 1 the decision after a person's batch loses eta/p at most, and the (T/B)(p + B eta) draws
    behind it are close to one Gaussian release of mu^2 = (T/B)(p + B eta) eta^2, which is (x mu, delta)-DP for the root
    x of phi(x)/x - Phi(-x) = delta/(x mu). With p = m eta/eps and x for x mu = epsilon, the two make epsilon if

        eta = eps ((1 - 1/m)^2 / (x^2 T eps (1 + m/(B eps))))^(1/3),

    and ln(d)/eta + eta T B/8 is minimised over m > 1 and real B >= 1, up to 1e-3 of it. In the limit of large T*eps it
    is of order T^(2/5) eps^(-3/5) (ln d)^(4/5), while B > 1.

    Args:
        rounds: T >= 2, possibly larger than any computer could play.
        experts: d >= 2.
        epsilon: In (0, 1].
        delta: In (0, epsilon).
    """
    rounds = real("rounds", rounds, low=2.0)
    experts = integer("experts", experts, low=2)
    epsilon = real("epsilon", epsilon, low=0.0, high=1.0, low_open=True)
    delta = real("delta", delta, low=0.0, high=epsilon, low_open=True, high_open=True)
    level = math.log(delta / epsilon) + 0.5 * math.log(2.0 * math.pi)
    x = optimize.brentq(
        lambda x: math.log(1.0 / x - math.sqrt(math.pi / 2.0) * special.erfcx(x / math.sqrt(2.0))) - x**2 / 2.0 - level,
        1e-9,
        60.0,
    )
    m = 1.0 + np.geomspace(0.1, 100.0, 100)[:, None]
    batch = np.geomspace(1.0, max(2.0, min(rounds, 1e3 / epsilon)), 800)
    shared = (1.0 - 1.0 / m) ** 2 / (x**2 * rounds * epsilon * (1.0 + m / (batch * epsilon)))
    rate = np.minimum(epsilon * np.cbrt(shared), np.sqrt(8.0 * math.log(experts) / (rounds * batch)))
    return float(np.min(math.log(experts) / rate + rate * rounds * batch / 8.0))
