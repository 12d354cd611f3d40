"""The event of Gaussian noise around a value that a secret draw shifts: a mixture of Gaussians.

It is the cost of a group of records under Poisson sampling, and amplification for matrix mechanisms reduces to it.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.directions import DirectedEvent, direction
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses import normal_mixture_renyi
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair, GaussianPair
from hockeystick.accounting.losses.normal_mixtures import ORIGIN, MixturePair, NormalMixture, coarse


def _sensitivities(value: object) -> tuple[float, ...]:
    numbers = validate.array("sensitivities", value, ndim=1, low=0.0, high=field_checks.LARGEST)
    return tuple(max(float(x), field_checks.SMALLEST) if x else 0.0 for x in numbers)


def _probabilities(value: object) -> tuple[float, ...]:
    numbers = validate.array("probabilities", value, ndim=1, low=0.0, high=1.0)
    total = math.fsum(numbers)
    if abs(total - 1.0) > 1e-9:
        raise InvalidArgumentError("probabilities", value, f"has the sum {total!r}", "give numbers that sum to 1")
    return tuple(float(x) for x in numbers)


@frozen
class MixtureOfGaussians(DirectedEvent):
    """Gaussian noise added to a value that one record moves by a *secret random* amount.

    Without the record the output is N(x, s²·I). With it, the output is N(x + v, s²·I) with a secretly drawn vector v,
    independent of the data of others: its L2 norm is at most ``sensitivities[i]`` with probability
    ``probabilities[i]``. It is meant under add-or-remove-one and replace-with-null.

    For any set of outcomes with a given probability without the record, each of the shifted normal laws gives the set
    at most the probability of a half-line (Neyman & Pearson), and on a line with shifts ≥ 0 one half-line attains all
    of these maxima at once. So the mixtures on a line dominate in both directions (see also Choquette-Choo, Ganesh,
    Steinke & Thakurta 2023).

    It has no rule for groups, as the shifts of two records may depend on each other.

    Attributes:
      sensitivities: ≥ 0.
      probabilities: one for each; they add up to 1 within 1e-9.
      noise_multiplier: the standard deviation s, in the unit of the sensitivities.
      direction: "both", "removal" (P is the law with the record) or "addition".

    Raises:
      InvalidArgumentError: lengths differ, a negative number, or probabilities whose sum is not 1.

    Example:
      >>> from hockeystick.accounting import MixtureOfGaussians, epsilon
      >>> event = MixtureOfGaussians((0.0, 1.0, 2.0), (0.8, 0.15, 0.05), 2.0)
      >>> round(epsilon(event, 1e-5).upper, 3)
      1.346
    """

    sensitivities: tuple[float, ...] = field(converter=_sensitivities)
    probabilities: tuple[float, ...] = field(converter=_probabilities)
    noise_multiplier: float = field(converter=field_checks.noise_multiplier)
    direction: str = field(default="both", converter=direction)
    adjacencies = frozenset({Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL})

    def __attrs_post_init__(self) -> None:
        if len(self.sensitivities) != len(self.probabilities):
            reason = f"doesn't have {len(self.sensitivities)} entries"
            raise InvalidArgumentError("probabilities", self.probabilities, reason, "give one per sensitivity")

    def _scaled(self, distance: float) -> PrivacyEvent:
        if distance < 1.0:
            return self
        raise UnsupportedEventError(
            f"{type(self).__name__} has no rule for {distance:g} records: state the mixture for the group, "
            "or use PoissonSampled, which has such a rule"
        )

    def _mixture(self) -> NormalMixture:
        return coarse(tuple(c / self.noise_multiplier for c in self.sensitivities), self.probabilities)

    def pure_epsilon(self) -> float:
        mixture = self._mixture()
        if mixture.most == 0.0:
            return 0.0
        if self.direction != "addition" or mixture.least > 0.0:
            return math.inf
        return _most_loss(mixture)

    def zcdp_rho(self) -> float:
        return 0.5 * self._mixture().most ** 2  # that of the worst term, as Rényi divergences are jointly quasi-convex

    def _rdp(self, orders: Array) -> Array:
        return mixture_rdp(self._mixture(), orders, self.direction)

    def _directed_pair(self) -> DominatingPair:
        return mixture_pair(self._mixture(), self.direction)


def mixture_pair(mixture: NormalMixture, direction: str) -> DominatingPair:
    """Returns the pair of a mixture with centres ≥ 0 and N(0, 1); P is the mixture for "removal"."""
    if len(mixture.centres) == 1:
        return GaussianPair(mixture.most) if mixture.most else Atoms((0.0,), (1.0,))
    return MixturePair(mixture, ORIGIN) if direction == "removal" else MixturePair(ORIGIN, mixture.mirrored())


def mixture_rdp(mixture: NormalMixture, orders: Array, direction: str) -> Array:
    """Returns a bound on the Rényi divergence of a mixture with centres ≥ 0 from N(0, 1), the reverse, or both."""
    a, most = np.asarray(orders, dtype=float), mixture.most
    worst = a * most**2 / 2
    if len(mixture.centres) == 1:
        return worst
    parts = []
    if direction != "addition":
        parts.append(normal_mixture_renyi.divergence(mixture, ORIGIN, a, np.minimum(worst, _norm_bound(mixture, a))))
    # If every centre is 0 or one other number, the removal has the larger curve (Mironov, Talwar & Zhang 2019, Thm 5).
    if direction == "addition" or (direction == "both" and not (len(mixture.centres) == 2 and mixture.least == 0.0)):
        bound = np.minimum(worst, _most_loss(mixture) if mixture.least == 0.0 else math.inf)
        parts.append(normal_mixture_renyi.divergence(ORIGIN, mixture.mirrored(), a, bound))
    return np.asarray(np.max(parts, axis=0))


def _most_loss(mixture: NormalMixture) -> float:
    """Returns the largest loss of an addition, −ln of the weight at 0, rounded up."""
    rest = math.fsum(mixture.weights[1:])
    # The weight at 0 has lost the digits of a small rest: 1 − 1e-17 is 1.
    loss = max(-math.log(mixture.weights[0]), -math.log1p(-rest) if rest < 0.5 else 0.0)
    # A logarithm is off by 2 U of itself, of 9 U.
    return loss * (1 + 1e-15)


def _norm_bound(mixture: NormalMixture, a: Array) -> Array:
    """Returns Minkowski's bound: the L_α(Q) norm of Σ w·(dP_i/dQ) is at most Σ w·e^{(α−1)c²/2}; exact as α → ∞."""
    with np.errstate(divide="ignore"):
        terms = [math.log(w) + (a - 1) * c * c / 2 for c, w in zip(mixture.centres, mixture.weights, strict=True)]
    peak = np.max(terms, axis=0)
    # The weights sum to 1: if 1 is subtracted from every exponential, nothing cancels near order 1.
    small = [
        w * np.expm1(np.minimum((a - 1) * c * c / 2, 700.0))
        for c, w in zip(mixture.centres, mixture.weights, strict=True)
    ]
    log_norm = np.where(
        peak < 1.0, np.log1p(np.sum(small, axis=0)), peak + np.log(np.sum(np.exp(np.array(terms) - peak), axis=0))
    )
    # Exponents up to 745 + |ln w|, three roundings each, may cancel to a sum of 1: 4e3 U; the factor allows 9e3 U.
    return np.asarray(a / (a - 1) * log_norm * (1 + 1e-12))
