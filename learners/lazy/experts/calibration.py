"""Calibration of the lazy learners of experts: least worst-case regret at a certified ε that meets a target.

There are two steps. A fast vectorised search over batch, fake-switch probability and learning rate uses closed Rényi
curves; it may err a little in either direction and promises nothing. Without shadow and budget it also tries to draw
every batch's expert afresh (p = 1), which is best where ε * T is small. Then the learning rate is moved, at fixed batch
and fixed ratio of fake-switch probability to learning rate (or at p = 1), until the *graph's* ε is as large as the
target allows. Only that last number counts, and it never exceeds the target. Neither step takes longer for more rounds.

``learners/common/calibration_search.py`` holds the parts that all calibrations share.
"""

import math
from collections.abc import Callable
from functools import lru_cache

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
    renyi_delta,
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
    adaptive: bool = False,
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
        adaptive: Take a fresh draw in every round, whose bound holds against adaptive losses too.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a target that no learning rate meets.
    """
    search = _Search(
        arguments.two_rounds(rounds),
        arguments.experts(experts),
        Target(epsilon=epsilon, delta=delta, group=group),
        shadow,
        beyond,
        adaptive,
    )
    found = _best(search)
    ratio = found.fake_switch_probability / found.learning_rate

    def at(log_rate: float) -> LazyParameters:
        rate = math.exp(log_rate)
        fake = 1.0 if found.fake_switch_probability == 1.0 else min(LARGEST_FAKE, ratio * rate)
        return LazyParameters(found.batch, rate, fake)

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
    adaptive: bool = False

    def cap(self, batch: int) -> float:
        return best_learning_rate(rounds=self.rounds, experts=self.experts, batch=batch)

    def _bound(self, at: LazyParameters) -> float:
        return regret_bound(rounds=self.rounds, experts=self.experts, batch=at.batch, learning_rate=at.learning_rate)

    def best(self) -> LazyParameters:
        """Returns the parameters of least bound."""
        found = [] if self.adaptive else self._lazy()
        if not self.shadow and self.beyond is None:
            found += self._fresh()
        if not found:
            raise self.target.unmet()
        return min(found, key=lambda one: one[0])[1]

    def _lazy(self) -> list[tuple[float, LazyParameters]]:
        """Returns the least bound of lazy learners, p < 1; none if none meets."""
        largest = max(1, int(min(self.rounds, 200.0 / self.target.epsilon)))
        batches, multiples = batch_grid(largest), np.geomspace(0.5, 100.0, 24)
        best: tuple[float, LazyParameters, float] | None = None
        for _ in range(2):
            for batch in batches:
                for bound, parameters, multiple in self._rates(batch, multiples):
                    if best is None or bound < best[0]:
                        best = (bound, parameters, multiple)
            if best is None:
                return []
            centre = best[1].batch
            batches = sorted({round(b) for b in np.linspace(max(1.0, centre / 1.5), min(largest, centre * 1.5), 9)})
            multiples = best[2] * np.geomspace(0.8, 1.25, 13)
        return [] if best is None else [best[:2]]

    def _fresh(self) -> list[tuple[float, LazyParameters]]:
        """Returns the least bound of learners that draw every batch's expert afresh, p = 1; none if none meets."""
        best: tuple[float, LazyParameters] | None = None
        batches = np.array([1.0]) if self.adaptive else np.array(batch_grid(self.rounds), dtype=float)
        for _ in range(2):
            high = np.array([math.log(self.cap(int(batch))) for batch in batches])
            start = low = high - LOOK_BELOW
            for step in range(41):
                trial = high if step == 0 else 0.5 * (low + high)
                meets = self._fresh_meets(batches, trial)
                low, high = np.where(meets, trial, low), np.where(meets, high, trial)
            for batch, rate in zip(batches[low > start].astype(int), np.exp(low[low > start]), strict=True):
                at = LazyParameters(int(batch), float(rate), 1.0)
                bound = self._bound(at)
                if best is None or bound < best[0]:
                    best = (bound, at)
            if best is None:
                return []
            if self.adaptive:
                break
            centre = best[1].batch
            batches = np.unique(np.round(np.geomspace(max(1.0, centre / 2.0), min(self.rounds, centre * 2.0), 33)))
        return [best] if best else []

    def _fresh_meets(self, batches: FloatArray, log_rate: FloatArray) -> FloatArray:
        orders, eta = self.target.orders(), np.exp(log_rate)[:, None] * self.target.group
        draws = np.ceil(self.rounds / batches)[:, None] - 1.0
        found = renyi_delta(self.target.epsilon, orders, draws * np.minimum(orders * eta**2 / 2.0, 2.0 * eta))
        return np.asarray(found <= self.target.delta)

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
            at = LazyParameters(batch, rate, fake)
            found.append((self._bound(at), at, float(multiple)))
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


@lru_cache(maxsize=64)
def _best(search: _Search) -> LazyParameters:
    """Returns what the search finds; a choice among learners, and what it chose, ask for the same one several times."""
    return search.best()


def _binomial_quantile(trials: int, chance: FloatArray, beyond: float) -> FloatArray:
    """Returns about the number of successes that a binomial law exceeds with probability ``beyond``."""
    z = math.sqrt(-2.0 * math.log(beyond))
    mean = trials * chance
    return np.asarray(np.minimum(trials, mean + z * np.sqrt(mean) + z * z / 3.0))
