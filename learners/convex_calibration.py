"""Calibration of the lazy learner of convex losses: least worst-case regret bound at a certified epsilon.

For a batch size B and a draw's Gaussian-DP parameter mu, the best regularisation is

    lambda = (L/D0) * sqrt(T*B/4 + 2*d*ln(T)/mu^2),   beta = mu^2*lambda/(2*L^2),

and the regret bound 2*L*D0*sqrt(T*B/4 + 2*d*ln(T)/mu^2) + L*D. So at each B the largest mu is wanted that the target
allows, over fake-switch probabilities p. Two steps, as for experts: a fast search with closed Renyi curves, which
promises nothing; then mu is moved, at fixed B and p/mu, until the *graph's* epsilon is as large as the target allows.
"""

import math
from collections.abc import Callable

import numpy as np
from attrs import frozen

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.convex_losses import Domain, FloatArray
from hockeystick.learners.lazy_calibration import _largest, _mixture
from hockeystick.learners.regularized_measure import Adversary, RegularizedWeights, ratio_tails

_ORDERS = 1.0 + np.geomspace(0.02, 1e5, 96)
_LARGEST_FAKE = 0.999
_SMALLEST_MU, _LARGEST_MU = 1e-9, 30.0
_FAILURE_SHARE = 0.05  # of delta, for the tails of log-ratios: they depend on its logarithm alone


@frozen
class ConvexParameters:
    """What a calibration chooses."""

    batch: int
    inverse_temperature: float
    regularisation: float
    fake_switch_probability: float
    failure: float


@frozen
class _Problem:
    rounds: int
    domain: Domain
    lipschitz: float
    epsilon: float
    delta: float
    adversary: Adversary

    def squared_bound(self, batch: int, mu: float) -> float:
        """T*B/4 + 2*d*ln(T)/mu^2."""
        return 0.25 * self.rounds * batch + 2.0 * self.domain.dimension * math.log(self.rounds) / mu**2

    def weights(self, batch: int, mu: float) -> RegularizedWeights:
        regularisation = self.lipschitz / self.domain.largest_norm * math.sqrt(self.squared_bound(batch, mu))
        return RegularizedWeights.of_replacement(mu, regularisation=regularisation, lipschitz=self.lipschitz)

    def parameters(self, batch: int, mu: float, fake: float) -> ConvexParameters:
        weights = self.weights(batch, mu)
        return ConvexParameters(
            batch, weights.inverse_temperature, weights.regularisation, fake, _FAILURE_SHARE * self.delta
        )


def calibrate(
    *,
    rounds: int,
    domain: Domain,
    lipschitz: float,
    epsilon: float,
    delta: float,
    adversary: Adversary,
    event: Callable[[ConvexParameters], PrivacyEvent],
) -> ConvexParameters:
    """Parameters that (nearly) minimise the regret bound subject to a certified epsilon of at most ``epsilon``.

    Args:
        rounds: T >= 2.
        domain: Where points lie.
        lipschitz: L > 0.
        epsilon: Target, > 0.
        delta: The delta at which epsilon is meant, in (0, 1).
        adversary: See ``ratio_tails``.
        event: What the learner with given parameters costs: its graph's guarantee, as an event.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a target that no parameters meet.
    """
    problem = _Problem(
        integer("rounds", rounds, low=2),
        domain,
        real("lipschitz", lipschitz, low=0.0, low_open=True),
        real("epsilon", epsilon, low=0.0, low_open=True),
        real("delta", delta, low=0.0, high=1.0, low_open=True, high_open=True),
        adversary,
    )
    batch, mu, fake = _search(problem)
    ratio = fake / mu

    def at(log_mu: float) -> ConvexParameters:
        return problem.parameters(batch, math.exp(log_mu), min(_LARGEST_FAKE, ratio * math.exp(log_mu)))

    def meets(log_mu: float, method: str | None) -> bool:
        if log_mu < math.log(_SMALLEST_MU):
            return False
        return accounting.epsilon(event(at(log_mu)), delta, method=method).upper <= epsilon

    # The Renyi bound alone costs milliseconds and is sound; all methods together can only add to it.
    cap = math.log(_LARGEST_MU)
    best = _largest(lambda log_mu: meets(log_mu, "rdp"), math.log(mu), cap, step=0.02, accuracy=1e-4)
    best = _largest(lambda log_mu: meets(log_mu, None), math.log(mu) if best is None else best, cap, 2e-3, 1e-3)
    if best is None:
        raise InvalidArgumentError(
            "epsilon", epsilon, f"no parameters meet it at delta={delta:g}", "ask for a larger epsilon or delta"
        )
    return at(best)


def _search(problem: _Problem) -> tuple[int, float, float]:
    """The best (B, mu, p) by the fast curves: a coarse grid, then a finer one around its optimum."""
    largest = max(1, int(min(problem.rounds / 10.0, 400.0 / problem.epsilon)))
    batches = np.unique(np.round(np.geomspace(1.0, largest, 10)).astype(int))
    multiples = np.geomspace(0.3, 100.0, 20)
    best: tuple[float, int, float, float, float] | None = None
    for _ in range(2):
        for batch in batches:
            for multiple in multiples:
                mu = _largest_mu(problem, int(batch), float(multiple))
                if mu is None:
                    continue
                bound = problem.squared_bound(int(batch), mu)
                if best is None or bound < best[0]:
                    fake = min(_LARGEST_FAKE, float(multiple) * mu / problem.epsilon)
                    best = (bound, int(batch), mu, fake, float(multiple))
        if best is None:
            raise InvalidArgumentError(
                "epsilon",
                problem.epsilon,
                f"no parameters meet it at delta={problem.delta:g}",
                "ask for a larger epsilon or delta",
            )
        batches = np.unique(np.round(np.linspace(max(1.0, best[1] / 1.5), min(largest, best[1] * 1.5), 7)).astype(int))
        multiples = best[4] * np.geomspace(0.75, 1.33, 9)
    assert best is not None
    return best[1], best[2], best[3]


def _largest_mu(problem: _Problem, batch: int, multiple: float) -> float | None:
    """The largest mu, with p = multiple*mu/epsilon, at which the fast curves meet the target; None if none does."""
    low, high = math.log(_SMALLEST_MU), math.log(_LARGEST_MU)
    if _delta(problem, batch, math.exp(low), multiple) > problem.delta:
        return None
    for _ in range(22):
        middle = 0.5 * (low + high)
        meets = _delta(problem, batch, math.exp(middle), multiple) <= problem.delta
        low, high = (middle, high) if meets else (low, middle)
    return math.exp(low)


def _delta(problem: _Problem, batch: int, mu: float, multiple: float) -> float:
    """Delta at the target epsilon of the first person's events.

    The decision has two outcomes, so its loss is averaged over exactly; the draws behind it are charged by their
    Renyi curve.
    """
    n, target, a = -(-problem.rounds // batch), problem.epsilon, _ORDERS
    p = min(_LARGEST_FAKE, multiple * mu / target)
    tails = ratio_tails(
        problem.weights(batch, mu),
        domain=problem.domain,
        batch=batch,
        batches=n,
        fake=p,
        shadow=p,
        failure=_FAILURE_SHARE * problem.delta,
        adversary=problem.adversary,
    )
    kappa = tails.change
    # The log-normaliser for a clip tail of 1e-3 lies a little below that for the privacy tails.
    normaliser = min(tails.largest, batch * mu * math.sqrt(math.log(1e3 * n)))
    draw = 0.5 * a * mu**2
    redraw = min(1.0 - 1e-12, -math.expm1(math.log1p(-p) - normaliser - tails.largest))
    draws = max(0, n - 2) * _mixture(a, np.array([redraw]), draw) + (n - 1) * _mixture(a, np.array([p]), draw)
    keep, other = 1.0 - p, (1.0 - p) * math.exp(-kappa)
    loss = math.log((1.0 - other) / p)

    def tail(left: float, curve: FloatArray) -> float:
        # Canonne, Kamath & Steinke 2020, Prop. 12, at epsilon = left.
        log_delta = (a - 1.0) * (curve - left) - np.log(a - 1.0) + a * np.log1p(-1.0 / a)
        return math.exp(min(0.0, float(log_delta.min())))

    # A draw follows for sure where the learner moved.
    keeps_more = keep * tail(target - kappa, draws) + p * tail(target + loss, draws + draw)
    keeps_less = other * tail(target + kappa, draws) + (1.0 - other) * tail(target - loss, draws + draw)
    return max(keeps_more, keeps_less) + _FAILURE_SHARE * problem.delta
