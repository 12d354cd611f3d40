"""Rates of private online learning, as printed and as corrected, and the fit of a power law.

A rate is a sum of terms T^a d^b ε^-c, or the best of several such sums. With ε = T^-α and d = T^γ its
exponent β (regret = T^β up to logarithms) is the largest a + b γ + c α over a sum's terms, minimised over
the alternatives, and at most 1. These are Table 1 and Figure 1 of Asi, Koren, Liu & Talwar 2024, with one additional
curve. Their Proposition 3.3 states a cost of T B^2 η^2 for batches of B rounds, while alternating losses make a
learner with one action per batch lose η T B / 8. Its best batch is then shorter than 1/ε if d < (T ε)^(1/3), and
its rate is larger than printed.

:func:`small_epsilon_bound` is that learner's bound for sizes beyond the reach of the accountant.
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
    """T^rounds * d^dimension * ε^-privacy."""

    rounds: Fraction = field(converter=Fraction)
    dimension: Fraction = field(default=Fraction(0), converter=Fraction)
    privacy: Fraction = field(default=Fraction(0), converter=Fraction)


@frozen
class Rate:
    """A regret bound up to constants and logarithms: the best of its alternatives, each a sum of terms.

    Attributes:
        alternatives: Sums of terms.
        source: The publication.
    """

    alternatives: tuple[tuple[Term, ...], ...]
    source: str

    def exponent(self, privacy: npt.ArrayLike, *, dimension: float = 0.0) -> FloatArray:
        """Returns β for each α in ``privacy`` (ε = T^-α, α >= 0) at d = T^dimension; the same shape."""
        alpha = array("privacy", privacy, low=0.0)
        gamma = real("dimension", dimension, low=0.0)
        sums = [
            np.max([float(t.rounds) + float(t.dimension) * gamma + float(t.privacy) * alpha for t in terms], axis=0)
            for terms in self.alternatives
        ]
        found: FloatArray = np.minimum(1.0, np.min(sums, axis=0))
        return found

    def free_privacy(self, *, dimension: Fraction | int = 0) -> Fraction | None:
        """Returns the largest α at which regret is still T^(1/2), as without privacy; None if there is none."""
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
    """One panel of Figure 1: β against α for d = T^dimension (0 for a power of ln T)."""

    title: str
    dimension: Fraction
    before: Rate
    printed: Rate
    corrected: Rate

    def table(self, privacy: npt.ArrayLike) -> dict[str, FloatArray]:
        """Returns β of each curve at each α in ``privacy``, for a plot."""
        gamma = float(self.dimension)
        return {
            name: getattr(self, name).exponent(privacy, dimension=gamma) for name in ("before", "printed", "corrected")
        }


def figure(panel: Panel) -> Curves:
    """Returns panel "a" (convex losses, few dimensions), "b" (convex, d = T^(1/3)) or "c" (experts, d = T) of Figure 1.

    The number of experts enters through its logarithm, except in sqrt(d)/ε.
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
        error: The slope's standard error, from the residuals: 0 for points on a line. It ignores errors that all points
            share, and curvature.
    """

    slope: float
    intercept: float
    error: float


def log_log_slope(x: npt.ArrayLike, y: npt.ArrayLike) -> Slope:
    """Fits a power law to at least three points with positive coordinates, not all with the same x.

    Raises:
        InvalidArgumentError: fewer points, coordinates that are not positive, or all x equal.

    Example:
        >>> round(log_log_slope([1.0, 10.0, 100.0], [2.0, 20.0, 200.0]).slope, 6)
        1.0
    """
    given = {}
    for name, value in (("x", x), ("y", y)):
        given[name] = array(name, value, ndim=1)
        if (given[name] <= 0.0).any():
            raise InvalidArgumentError(name, value, "is not positive throughout", "give positive coordinates")
    if given["x"].size < 3 or given["x"].shape != given["y"].shape:
        raise InvalidArgumentError("y", given["y"].shape, f"does not give 3 points with x of shape {given['x'].shape}")
    if np.ptp(given["x"]) == 0.0:
        raise InvalidArgumentError("x", x, "is constant", "give different values")
    fit = stats.linregress(np.log(given["x"]), np.log(given["y"]))
    return Slope(float(fit.slope), float(fit.intercept), float(fit.stderr))


# --- the bound for small ε --------------------------------------------------------------------------------------


def small_epsilon_bound(*, rounds: float, experts: int, epsilon: float, delta: float) -> float:
    """Returns the least regret bound of the shrinking dartboard at (ε, δ), by leading terms: not certified.

    For δ << ε << 1 the decision after a person's batch loses at most η/p, and the (T/B)(p + B η) draws
    after it are close to one Gaussian release of μ^2 = (T/B)(p + B η) η^2, which is (x μ, δ)-DP for the root
    x of φ(x)/x - Φ(-x) = δ/(x μ). With p = m η/ε and x for x μ = ε, the sum of both is ε if

        η = ε ((1 - 1/m)^2 / (x^2 T ε (1 + m/(B ε))))^(1/3),

    and ln(d)/η + η T B/8 is minimised over m > 1 and real B >= 1, to a relative error of 1e-3. For large T*ε it
    is of order T^(2/5) ε^(-3/5) (ln d)^(4/5), as long as B > 1.

    Args:
        rounds: T >= 2, possibly too large for any run.
        experts: d >= 2.
        epsilon: In (0, 1].
        delta: In (0, ε).
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
