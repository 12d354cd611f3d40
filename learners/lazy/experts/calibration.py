"""Calibration of the lazy learners of experts: least worst-case regret at a certified ε that meets a target.

There are two steps. A fast vectorised search over batch, fake-switch probability and learning rate uses closed Rényi
curves; it may err a little in either direction and promises nothing. Then the learning rate is moved, at fixed batch
and fixed ratio of fake-switch probability to learning rate, until the *graph's* ε is as large as the target
allows. Only that last number counts, and it never exceeds the target. Neither step takes longer for more rounds.

``learners/common/calibration_search.py`` holds the parts that all calibrations share.
"""

import math
from collections.abc import Callable

import numpy as np
from attrs import frozen

from hockeystick.accounting import PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.common import arguments
from hockeystick.learners.common.calibration_search import (
    LARGEST_FAKE,
    LOOK_BELOW,
    Target,
    approximate_delta,
    batch_grid,
    largest_certified,
    mixture_curve,
)
from hockeystick.learners.experts.multiplicative_weights import best_learning_rate, regret_bound


@frozen
class LazyParameters:
    """Batch B, learning rate η and fake-switch probability p (of the action and of the shadow)."""

    batch: int
    learning_rate: float
    fake_switch_probability: float


def calibrate(
    *,
    rounds: int,
    experts: int,
    epsilon: float,
    delta: float,
    shadow: bool,
    event: Callable[[LazyParameters], PrivacyEvent],
    group: int = 1,
    beyond: float | None = None,
) -> LazyParameters:
    """Returns parameters that nearly minimise ln(d)/η + η*T*B/8 at a certified ε of at most ``epsilon``.

    Args:
        rounds: T >= 2.
        experts: d >= 2.
        epsilon: Target, > 0.
        delta: The δ of the target, in (0, 1).
        shadow: True for L2P with the tight normaliser, False for the dartboard.
        event: Returns the privacy cost to a group of the learner with given parameters: its graph's guarantee.
        group: Number of people that the target protects together, >= 1.
        beyond: The probability that a run would draw more often than the budget that ``event`` charges in full; None
            without a budget.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a target that no learning rate meets.
    """
    search = _Search(
        arguments.two_rounds(rounds),
        arguments.experts(experts),
        Target(epsilon=epsilon, delta=delta, group=group),
        shadow,
        beyond,
    )
    found = search.best()
    ratio = found.fake_switch_probability / found.learning_rate

    def at(log_rate: float) -> LazyParameters:
        rate = math.exp(log_rate)
        return LazyParameters(found.batch, rate, min(LARGEST_FAKE, ratio * rate))

    start, cap = math.log(found.learning_rate), math.log(search.cap(found.batch))
    best = largest_certified(search.target, lambda log_rate: event(at(log_rate)), start, cap)
    if best is None:
        raise search.target.unmet()
    return at(best)


@frozen
class _Search:
    """The fast search: a coarse grid, then a finer one around its optimum."""

    rounds: int
    experts: int
    target: Target
    shadow: bool
    beyond: float | None

    def cap(self, batch: int) -> float:
        return best_learning_rate(rounds=self.rounds, experts=self.experts, batch=batch)

    def best(self) -> LazyParameters:
        largest = max(1, int(min(self.rounds / 50.0, 200.0 / self.target.epsilon)))
        batches, multiples = batch_grid(largest), np.geomspace(0.5, 100.0, 24)
        best: tuple[float, LazyParameters, float] | None = None
        for _ in range(2):
            for batch in batches:
                for bound, parameters, multiple in self._rates(batch, multiples):
                    if best is None or bound < best[0]:
                        best = (bound, parameters, multiple)
            if best is None:
                raise self.target.unmet()
            centre = best[1].batch
            batches = sorted({round(b) for b in np.linspace(max(1.0, centre / 1.5), min(largest, centre * 1.5), 9)})
            multiples = best[2] * np.geomspace(0.8, 1.25, 13)
        assert best is not None
        return best[1]

    def _rates(self, batch: int, multiples: FloatArray) -> list[tuple[float, LazyParameters, float]]:
        """Returns the largest rate that meets the target, and its bound, for each multiple m with p = m*η/ε."""
        high = np.full(multiples.shape, math.log(self.cap(batch)))
        start = low = high - LOOK_BELOW
        low = np.where(self._meets(batch, high, multiples), high, low)
        for _ in range(40):
            middle = 0.5 * (low + high)
            meets = self._meets(batch, middle, multiples)
            low, high = np.where(meets, middle, low), np.where(meets, high, middle)
        found = []
        for log_rate, multiple in zip(low[low > start], multiples[low > start], strict=True):
            rate = math.exp(log_rate)
            fake = min(LARGEST_FAKE, float(multiple) * rate / self.target.epsilon)
            bound = regret_bound(rounds=self.rounds, experts=self.experts, batch=batch, learning_rate=rate)
            found.append((bound, LazyParameters(batch, rate, fake), float(multiple)))
        return found

    def _meets(self, batch: int, log_rate: FloatArray, multiples: FloatArray) -> FloatArray:
        orders, n, k = self.target.orders(), -(-self.rounds // batch), self.target.group
        eta = np.exp(log_rate)[:, None]
        p = np.minimum(LARGEST_FAKE, multiples[:, None] * eta / self.target.epsilon)
        draw = np.minimum(orders * (k * eta) ** 2 / 2.0, 2.0 * k * eta)  # range 2*k*η: ρ = (2*k*η)^2/8
        log_ratio = (2.0 if self.shadow else 1.0) * eta
        redraw = -np.expm1(np.log1p(-p) - batch * log_ratio)
        if self.beyond is None:
            draws, own = max(0, n - 2) * mixture_curve(orders, redraw, draw), draw
            if self.shadow:
                draws = draws + (n - 1) * mixture_curve(orders, p, draw)
        else:
            draws, own = _binomial_quantile(n - 1, redraw, self.beyond) * draw, 0.0 * draw
        found = approximate_delta(
            self.target,
            orders,
            fake=p[:, 0],
            log_ratios=k * log_ratio,
            weights=np.ones_like(log_ratio),
            draws=draws,
            draw=own,
        )
        return np.asarray(found <= self.target.delta)


def _binomial_quantile(trials: int, chance: FloatArray, beyond: float) -> FloatArray:
    """Returns about the number of successes that a binomial law exceeds with probability ``beyond``."""
    z = math.sqrt(-2.0 * math.log(beyond))
    mean = trials * chance
    return np.asarray(np.minimum(trials, mean + z * np.sqrt(mean) + z * z / 3.0))
