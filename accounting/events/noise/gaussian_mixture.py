"""Gaussian noise around a value that a secret draw shifts: the event of a mixture of Gaussians.

It is what a group of records costs under Poisson sampling, and what amplification for matrix mechanisms reduces to.
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
        raise InvalidArgumentError("probabilities", value, f"sum to {total!r}", "give numbers that sum to 1")
    return tuple(float(x) for x in numbers)


@frozen
class MixtureOfGaussians(DirectedEvent):
    """Gaussian noise added to a value that one record moves by a *secret random* amount.

    Without the record the output is N(x, s²·I); with it, N(x + v, s²·I) with a vector v drawn in secret: of L2 norm at
    most ``sensitivities[i]`` with probability ``probabilities[i]``, independent of the data of others. The standard
    deviation is s = ``noise_multiplier``, in the unit of the sensitivities.

    For any set of outcomes of a given probability without the record, each of the shifted normals gives it at most the
    probability of the half-line of that probability (Neyman & Pearson), and on a line with shifts ≥ 0 one half-line
    attains all of these at once. So the mixtures on a line dominate in both directions (also Choquette-Choo, Ganesh,
    Steinke & Thakurta 2023).

    It has no rule for groups: the amounts by which two records move the value may depend on each other.

    Raises:
      InvalidArgumentError: lengths differ, a negative number, or probabilities whose sum is not 1.
    """

    sensitivities: tuple[float, ...] = field(converter=_sensitivities)
    probabilities: tuple[float, ...] = field(converter=_probabilities)
    noise_multiplier: float = field(converter=field_checks.noise_multiplier)
    direction: str = field(default="both", converter=direction)
    adjacencies = frozenset({Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL})

    def __attrs_post_init__(self) -> None:
        if len(self.sensitivities) != len(self.probabilities):
            raise InvalidArgumentError(
                "probabilities", self.probabilities, f"are not {len(self.sensitivities)}", "give one per sensitivity"
            )

    def _scaled(self, distance: float) -> PrivacyEvent:
        if distance < 1.0:
            return self
        raise UnsupportedEventError(
            f"{type(self).__name__} has no rule for {distance:g} records: state the mixture for the group, "
            "or use PoissonSampled, which knows it"
        )

    def _mixture(self) -> NormalMixture:
        return coarse(tuple(c / self.noise_multiplier for c in self.sensitivities), self.probabilities)

    def pure_epsilon(self) -> float:
        mixture = self._mixture()
        if mixture.most == 0.0:
            return 0.0
        if self.direction != "addition" or mixture.least > 0.0:
            return math.inf
        return -math.log(mixture.weights[0]) * (1 + 1e-15)

    def zcdp_rho(self) -> float:
        return 0.5 * self._mixture().most ** 2  # of the worst term: Rényi divergences are jointly quasi-convex

    def _rdp(self, orders: Array) -> Array:
        return mixture_rdp(self._mixture(), orders, self.direction)

    def _directed_pair(self) -> DominatingPair:
        return mixture_pair(self._mixture(), self.direction)


def mixture_pair(mixture: NormalMixture, direction: str) -> DominatingPair:
    """Returns the pair of a mixture of centres ≥ 0 and N(0, 1), with P the mixture for "removal"."""
    if len(mixture.centres) == 1:
        return GaussianPair(mixture.most) if mixture.most else Atoms((0.0,), (1.0,))
    return MixturePair(mixture, ORIGIN) if direction == "removal" else MixturePair(ORIGIN, mixture.mirrored())


def mixture_rdp(mixture: NormalMixture, orders: Array, direction: str) -> Array:
    """Returns a bound on the Rényi divergence of a mixture of centres ≥ 0 from N(0, 1), of the reverse, or of both."""
    a, most = np.asarray(orders, dtype=float), mixture.most
    worst = a * most**2 / 2
    if len(mixture.centres) == 1:
        return worst
    parts = []
    if direction != "addition":
        parts.append(normal_mixture_renyi.divergence(mixture, ORIGIN, a, np.minimum(worst, _norm_bound(mixture, a))))
    # Where every centre is 0 or one number, the removal is the larger one (Mironov, Talwar & Zhang 2019, Thm 5).
    if direction == "addition" or (direction == "both" and not (len(mixture.centres) == 2 and mixture.least == 0.0)):
        most_loss = -math.log(mixture.weights[0]) if mixture.least == 0.0 else math.inf
        bound = np.minimum(worst, most_loss * (1 + 1e-15))
        parts.append(normal_mixture_renyi.divergence(ORIGIN, mixture.mirrored(), a, bound))
    return np.asarray(np.max(parts, axis=0))


def _norm_bound(mixture: NormalMixture, a: Array) -> Array:
    """By Minkowski's inequality in L_α(Q) the norm of Σ w·(dP_i/dQ) is at most Σ w·e^{(α−1)c²/2}; exact as α → ∞."""
    with np.errstate(divide="ignore"):
        terms = [math.log(w) + (a - 1) * c * c / 2 for c, w in zip(mixture.centres, mixture.weights, strict=True)]
    peak = np.max(terms, axis=0)
    # The weights sum to 1: near the order 1 nothing cancels if 1 is taken from every exponential.
    small = [
        w * np.expm1(np.minimum((a - 1) * c * c / 2, 700.0))
        for c, w in zip(mixture.centres, mixture.weights, strict=True)
    ]
    log_norm = np.where(
        peak < 1.0, np.log1p(np.sum(small, axis=0)), peak + np.log(np.sum(np.exp(np.array(terms) - peak), axis=0))
    )
    # Exponents up to 745 + |ln w|, three roundings each, may cancel to a sum of 1: 4e3 of the 9e3 U that this comes to.
    return np.asarray(a / (a - 1) * log_norm * (1 + 1e-12))
