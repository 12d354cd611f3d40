"""Calibration of the lazy learner of convex losses: least worst-case regret bound at a certified ε.

For a batch size B and a draw's Gaussian-DP parameter μ, the best regularisation is

    λ = (L/D0) * sqrt(T*B/4 + 2*d*ln(T)/μ^2),   β = μ^2*λ/(2*L^2),

and the regret bound 2*L*D0*sqrt(T*B/4 + 2*d*ln(T)/μ^2) + L*D. The calibration therefore looks, at each B and over
fake-switch probabilities p, for the largest μ that the target allows. There are two steps, as for experts: a fast
search with closed Rényi curves, which promises nothing; then μ is moved, at fixed B and p/μ, until the *graph's*
ε is as large as the target allows.
"""

import math
from collections.abc import Callable

import numpy as np
from attrs import frozen

from hockeystick.accounting import PrivacyEvent
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.common.calibration_search import (
    LARGEST_FAKE,
    Target,
    approximate_delta,
    batch_grid,
    largest_certified,
    mixture_curve,
)
from hockeystick.learners.lazy.convex.log_ratio_bounds import Adversary, ratio_tails
from hockeystick.learners.lazy.convex.losses.convex_losses import Domain
from hockeystick.learners.lazy.convex.losses.regularized_measure import RegularizedWeights

_LARGEST_MU = 30.0
_FAILURE_SHARE = 0.05  # share of δ for the tails of log-ratios, which depend on its logarithm only
_CLIP_SHARE = 1e-3  # share of the regret bound for clipped coins; the normaliser depends on its logarithm only


@frozen
class ConvexParameters:
    """The parameters that a calibration chooses, as in :class:`~hockeystick.learners.LazyConvex`; see there."""

    batch: int
    inverse_temperature: float
    regularisation: float
    fake_switch_probability: float
    failure: float
    clip_tail: float


def calibrate(
    *,
    rounds: int,
    domain: Domain,
    lipschitz: float,
    epsilon: float,
    delta: float,
    adversary: Adversary,
    event: Callable[[ConvexParameters], PrivacyEvent],
    group: int = 1,
) -> ConvexParameters:
    """Returns parameters that nearly minimise the regret bound at a certified ε of at most ``epsilon``.

    Args:
        rounds: T >= 2.
        domain: The set of points.
        lipschitz: L > 0.
        epsilon: Target, > 0.
        delta: The δ of the target, in (0, 1).
        adversary: See ``ratio_tails``.
        event: Returns the privacy cost to a group of the learner with given parameters: its graph's guarantee.
        group: Number of people that the target protects together, >= 1.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a target that no parameters meet.
    """
    search = _Search(
        integer("rounds", rounds, low=2),
        domain,
        real("lipschitz", lipschitz, low=0.0, low_open=True),
        Target(epsilon=epsilon, delta=delta, group=group),
        adversary,
    )
    batch, mu, fake = search.best()
    ratio = fake / mu

    def at(log_mu: float) -> ConvexParameters:
        mu = math.exp(log_mu)
        weights = search.weights(batch, mu)
        return ConvexParameters(
            batch,
            weights.inverse_temperature,
            weights.regularisation,
            min(LARGEST_FAKE, ratio * mu),
            search.failure,
            search.clip_tail(batch, mu),
        )

    best = largest_certified(search.target, lambda log_mu: event(at(log_mu)), math.log(mu), math.log(_LARGEST_MU))
    if best is None:
        raise search.target.unmet()
    return at(best)


@frozen
class _Search:
    """The fast search: a coarse grid, then a finer one around its optimum."""

    rounds: int
    domain: Domain
    lipschitz: float
    target: Target
    adversary: Adversary

    @property
    def failure(self) -> float:
        return _FAILURE_SHARE * self.target.delta / self.target.group

    def squared_bound(self, batch: int, mu: float) -> float:
        """T*B/4 + 2*d*ln(T)/μ^2."""
        return 0.25 * self.rounds * batch + 2.0 * self.domain.dimension * math.log(self.rounds) / mu**2

    def clip_tail(self, batch: int, mu: float) -> float:
        regret = 2.0 * self.lipschitz * self.domain.largest_norm * math.sqrt(self.squared_bound(batch, mu))
        return min(_CLIP_SHARE, _CLIP_SHARE * regret / (self.lipschitz * self.domain.diameter * self.rounds))

    def weights(self, batch: int, mu: float) -> RegularizedWeights:
        regularisation = self.lipschitz / self.domain.largest_norm * math.sqrt(self.squared_bound(batch, mu))
        return RegularizedWeights.of_replacement(mu, regularisation=regularisation, lipschitz=self.lipschitz)

    def best(self) -> tuple[int, float, float]:
        """Returns the batch, μ and the fake-switch probability."""
        largest = max(1, int(min(self.rounds / 10.0, 400.0 / self.target.epsilon)))
        batches, multiples = batch_grid(largest), np.geomspace(0.1, 100.0, 16)
        least, found = math.inf, (0, 0.0, 0.0)
        for _ in range(2):
            for batch in batches:
                for multiple in multiples:
                    larger = self._largest_mu(batch, float(multiple), least)
                    if larger is not None:
                        least, found = self.squared_bound(batch, larger), (batch, larger, float(multiple))
            if not found[0]:
                raise self.target.unmet()
            batch, mu, multiple = found
            batches = sorted({round(b) for b in np.linspace(max(1.0, batch / 1.5), min(largest, batch * 1.5), 7)})
            multiples = multiple * np.geomspace(0.7, 1.4, 9)
        return batch, mu, self._fake(mu, multiple)

    def _fake(self, mu: float, multiple: float) -> float:
        return min(LARGEST_FAKE, multiple * mu / self.target.epsilon)

    def _largest_mu(self, batch: int, multiple: float, least: float) -> float | None:
        """Returns the largest μ, with p = multiple*μ/ε, that meets the target; None if not below ``least``."""
        high = math.log(_LARGEST_MU)
        spare = least - 0.25 * self.rounds * batch
        if spare <= 0.0:
            return None
        needed = 2.0 * self.domain.dimension * math.log(self.rounds) / spare
        low = 0.5 * math.log(needed) if needed else high - 60.0
        if low >= high or not self._meets(batch, math.exp(low), multiple):
            return None
        while high - low > 2e-3:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._meets(batch, math.exp(middle), multiple) else (low, middle)
        return math.exp(low)

    def _meets(self, batch: int, mu: float, multiple: float) -> bool:
        n, k, p, orders = -(-self.rounds // batch), self.target.group, self._fake(mu, multiple), self.target.orders()
        normaliser = batch * mu * math.sqrt(math.log(n / self.clip_tail(batch, mu)))  # approximately right for the tail
        tails = ratio_tails(
            self.weights(batch, mu),
            domain=self.domain,
            batch=batch,
            batches=n,
            fake=p,
            shadow=p,
            normaliser=normaliser,
            failure=self.failure,
            adversary=self.adversary,
        )
        # People of one batch are charged the average, and a group spread over batches the largest change for each.
        averaged = bool(tails.grid) and k == 1
        log_ratios = k * np.array(tails.grid if averaged else (tails.change,))
        weights = -np.diff(tails.chances, append=0.0) if averaged else np.ones(1)
        draw = (0.5 * orders * (k * mu) ** 2)[None]
        redraw = np.array(
            # Below 1, so that logarithms exist: this is a search, and the graph certifies its result.
            [min(1.0 - 1e-12, -math.expm1(math.log1p(-p) - min(normaliser, tails.largest) - tails.largest))]
        )
        draws = max(0, n - 2) * mixture_curve(orders, redraw, draw) + (n - 1) * mixture_curve(
            orders, np.array([p]), draw
        )
        found = approximate_delta(
            self.target,
            orders,
            fake=np.array([p]),
            log_ratios=log_ratios[None],
            weights=weights[None],
            draws=draws,
            draw=draw,
        )
        return bool(found[0] <= (1.0 - _FAILURE_SHARE) * self.target.delta)
