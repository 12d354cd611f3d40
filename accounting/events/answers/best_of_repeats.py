"""Private hyperparameter tuning: repeat a mechanism a random number of times and publish only the best run.

The number of runs K is drawn first, independently of the data, and each run uses fresh randomness. "Best" refers to a
fixed total order of the outcomes (ties are broken at random, as part of the outcome). With f(x) = E[x^K], the published
outcome y has the law Q(y)·E_t[f'(Q(<y) + t·Q(y))]: the law of one run, weighted by the probability that all other runs
are worse. The bounds concern the privacy loss that this weight adds.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import field, frozen
from scipy import optimize

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.built_event import BuiltEvent
from hockeystick.accounting.events.basic.checked_event import is_event
from hockeystick.accounting.events.basic.composition import parallel
from hockeystick.accounting.events.basic.declared import two_point_rdp
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair
from hockeystick.accounting.losses.loss_grid import _profile
from hockeystick.accounting.numerics.directed_rounding import U

_ORDERS = 1.0 + np.geomspace(1e-4, 1e12, 321)
_CONVERSION_ORDERS = 1.0 + np.geomspace(1e-3, 1e6, 721)
_CELLS = 2**14
_POINTS = 2**12
_LARGEST_LOSS = 690.0


def _mean(value: float) -> float:
    return validate.real("mean", value, low=0.0, high=1e100, low_open=True)


def _shape(value: float) -> float:
    return validate.real("shape", value, low=-1.0, low_open=True, allow_inf=True)


@frozen
class Repetitions:
    """The law of the number of runs K, given that none of them failed.

    Attributes:
      shape: η of the truncated negative binomial, inf for Poisson.
      rate: its γ, rounded down; for Poisson the mean, rounded up.
    """

    shape: float
    rate: float

    @property
    def is_poisson(self) -> bool:
        return math.isinf(self.shape)

    def any_of(self, probability: Array) -> Array:
        """Returns 1 − E[(1 − probability)^K], the probability of an event of ``probability`` in at least one run."""
        if self.is_poisson:
            return np.asarray(-np.expm1(-self.rate * probability))
        gamma, eta = self.rate, self.shape
        if gamma == 1.0:
            return np.asarray(probability)
        log_ratio = np.log1p((1.0 - gamma) * probability / gamma)
        total = -math.log(gamma)
        return np.asarray(log_ratio / total if eta == 0.0 else np.expm1(-eta * log_ratio) / math.expm1(-eta * total))

    def log_mean(self) -> float:
        """Returns ln E[K]."""
        if self.is_poisson:
            return math.log(self.rate)
        return _log_mean(self.shape, -math.log(self.rate))

    def without_failures(self, failure: float) -> Repetitions:
        """Returns the law given that no run failed, which is of the same kind and smaller."""
        if self.is_poisson:
            # The difference, the product and the product with the factor are off by U each.
            return Repetitions(self.shape, self.rate * (1.0 - failure) * (1 + 4 * U) if failure else self.rate)
        # The difference and two products are off by U each; 1e-15 is 9 U, and ``nextafter`` covers the sum.
        rate = self.rate + (1.0 - self.rate) * failure * (1 - 1e-15)
        return Repetitions(self.shape, min(1.0, math.nextafter(rate, 0.0) if failure else self.rate))


@frozen
class RepeatAndSelect(BuiltEvent):
    """The best of K runs of ``event``, with K from a truncated negative binomial or a Poisson law.

    Its curves, with γ the parameter of the negative binomial law:

    * Rényi: Papernot & Steinke 2022, Thm 2 (negative binomial) and Thm 6 (Poisson). The moment of K = 0 is added to the
      latter, which is false without it for a mean below 1;
    * pure: ε + (1+η)·ln((e^ε + γ)/(1 + γe^ε)), at most (2+η)·ε (Liu & Talwar 2019 for η = 1); for Poisson
      ε + mean·tanh(ε/2);
    * profile: the convex envelope of 1 − E[(1 − δ(ε − s))^K] (plus a tail for Poisson), where s bounds the loss of the
      weight, symmetric in both orders; cf. Koskela, Redberg & Wang 2024;
    * failure: 1 − E[(1 − failure)^K], at most mean·failure. Given that no run failed, K has a law of the same kind.

    Attributes:
      event: the cost of one run, which may also publish its score.
      mean: E[K]; at least 1 unless K is Poisson, for which K = 0 publishes nothing.
      shape: η > −1 of the truncated negative binomial: 1 is geometric, 0 logarithmic; inf is Poisson.

    Raises:
      InvalidArgumentError: not an event, or no law of K has this mean and shape.

    Example:
      >>> from hockeystick.accounting import PureDP, RepeatAndSelect
      >>> round(RepeatAndSelect(PureDP(0.1), mean=100, shape=1.0).pure_epsilon(), 4)
      0.296
    """

    event: PrivacyEvent = field(validator=is_event)
    mean: float = field(kw_only=True, converter=_mean)
    shape: float = field(kw_only=True, converter=_shape)

    def __attrs_post_init__(self) -> None:
        if not math.isinf(self.shape):
            validate.real("mean", self.mean, low=1.0)
            validate.real("shape", self.shape, high=1e6)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return RepeatAndSelect(self.event.at(distance), mean=self.mean, shape=self.shape)

    def repetitions(self) -> Repetitions:
        """Returns the law of K, with its parameter rounded to the more expensive side."""
        if math.isinf(self.shape):
            return Repetitions(self.shape, self.mean)
        return Repetitions(self.shape, _gamma(self.shape, self.mean))

    def _sound_runs(self) -> Repetitions:
        return self.repetitions().without_failures(self.event.failure_delta())

    def one_run(self) -> PrivacyEvent:
        """Returns one run in the worse of its directions, as the best run and the others may have opposite ones."""
        return parallel(*self.event.directions())

    def failure_delta(self) -> float:
        failure = self.event.failure_delta()
        # Six operations on positive numbers and three functions off by 2 U: 12 U; 1e-14 is 90 U.
        return min(1.0, float(self.repetitions().any_of(np.array(failure))) * (1 + 1e-14)) if failure else 0.0

    def pure_epsilon(self) -> float:
        epsilon, runs = self.event.pure_epsilon(), self._sound_runs()
        if math.isinf(epsilon) or epsilon == 0.0:
            return epsilon
        if runs.is_poisson:
            # tanh is off by 4 U, two products and the sum by U each: 7 U; 1e-15 is 9 U.
            return (epsilon + runs.rate * math.tanh(epsilon / 2)) * (1 + 1e-15)
        weight = math.log1p((1.0 - runs.rate) * -math.expm1(-epsilon) / (runs.rate + math.exp(-epsilon)))
        # exp, expm1 and log1p are off by 2 U each, the eight other operations by U: 14, and all terms are positive.
        return min((2.0 + self.shape) * epsilon, epsilon + (1.0 + self.shape) * weight) * (1 + 16 * U)

    def _rdp(self, orders: Array) -> Array:
        a, runs = np.asarray(orders, dtype=float), self._sound_runs()
        if runs.rate == 0.0:
            return np.zeros_like(a)
        # Rényi divergences grow with the order: a bound at a larger order holds at a smaller one.
        every = np.unique(np.concatenate([a.ravel(), _ORDERS]))
        curve = self.one_run().rdp(every)
        with np.errstate(invalid="ignore", over="ignore"):
            if runs.is_poisson:
                added = runs.rate * self._best_delta(np.log1p(1.0 / (every - 1.0)))
                # With probability e^{−mean} nothing is published for either data set; the moment includes that outcome.
                bound = _log_moment(runs.rate, (every - 1.0) * (curve + added)) / (every - 1.0)
            else:
                spread = -math.log(runs.rate)
                least = min(spread, float(np.min((1 - 1 / every) * curve + spread / every)))
                bound = curve + (1.0 + runs.shape) * least + runs.log_mean() / (every - 1.0)
        # The rest are sums, products and quotients of positive terms and logarithms: about 20 U; 1e-14 is 90 U.
        bound = np.minimum.accumulate(np.where(np.isnan(bound), math.inf, bound)[::-1])[::-1] * (1 + 1e-14)
        found = np.maximum(bound[np.searchsorted(every, a)], 0.0)
        pure = self.pure_epsilon()
        return np.asarray(found if math.isinf(pure) else np.minimum(found, two_point_rdp(pure, a)))

    def _best_delta(self, epsilons: Array) -> Array:
        """Returns δ of one run at each of ``epsilons``, by its Rényi curve and its profile, if it has one."""
        inner, orders = self.one_run(), _CONVERSION_ORDERS
        with np.errstate(invalid="ignore", over="ignore"):
            fixed = (orders - 1) * (inner.rdp(orders) + np.log1p(-1 / orders)) - np.log(orders)
            logs = fixed[:, None] - (orders - 1)[:, None] * epsilons  # Canonne, Kamath & Steinke 2020, Prop. 12
        best = np.exp(np.minimum(0.0, np.where(np.isnan(logs), 0.0, logs).min(axis=0))) * (1 + 1e-12)
        if inner.has_profile():
            best = np.minimum(best, _run_profile(inner).delta(epsilons))
        return np.asarray(best)

    def pair(self) -> DominatingPair | None:
        if self.pure_epsilon() == 0.0:
            return Atoms((0.0,), (1.0,))
        return _dominating_pair(self) if self.has_profile() else None

    def bound(self, run: RunProfile, epsilons: Array) -> Array:
        """Returns δ at each of ``epsilons`` from the profile of one run, not yet convex."""
        runs, found = self._sound_runs(), np.ones(len(epsilons))
        for shift, tail in self._shifts(run):
            found = np.minimum(found, runs.any_of(np.minimum(1.0, run.delta(epsilons - shift))) + tail)
        return found

    def reach(self, run: RunProfile) -> float:
        """Returns a loss beyond which the bound is constant."""
        return run.top + max(shift for shift, _ in self._shifts(run))

    def _shifts(self, run: RunProfile) -> list[tuple[float, float]]:
        """Returns pairs (s, tail): outside a set of outcomes of probability ``tail``, the weight's loss is at most s.

        Let h and h' be the probabilities of a better outcome under the two laws: h' ≤ e^t·h + δ(t) for each t.
        """
        runs, t, delta = self._sound_runs(), run.losses(), run.values
        if not runs.is_poisson:
            # The weight is (γ + (1−γ)h)^{−1−η} up to a constant, and the ratio of two of them, at its worst h,
            # max(e^t, 1 + δ(t)·(1−γ)/γ)^{1+η}.
            gamma = runs.rate
            worst = np.maximum(t, np.log1p(delta * (1.0 - gamma) / gamma))
            return [((1.0 + runs.shape) * max(0.0, float(worst.min())), 0.0)]
        # The weight is e^{−mean·h}: the ratio is e^{mean·(h'−h)}, small unless h is large, where the weight is small.
        ways = []
        for reach in np.append(np.geomspace(1e-3, 1.0, 40) * min(1.0, 60.0 / runs.rate), 1.0):
            gap = max(0.0, float(np.min(delta + np.expm1(np.minimum(t, 700.0)) * reach)))
            tail = math.exp(-runs.rate * reach) * -math.expm1(-runs.rate * (1.0 - reach))
            ways.append((runs.rate * gap, tail))
        return ways


def _log_mean(shape: float, total: float) -> float:
    """Returns ln E[K], where E[K] = (1−γ)/γ · η/(1 − γ^η), (1−γ)/γ / ln(1/γ) at η = 0, and ``total`` = ln(1/γ)."""
    if total == 0.0:
        return 0.0
    mean_if_zero = total + math.log(-math.expm1(-total))
    if shape == 0.0:
        return mean_if_zero - math.log(total)
    if shape > 0.0:
        return mean_if_zero - math.log(-math.expm1(-shape * total)) + math.log(shape)
    z = -shape * total
    return mean_if_zero - (z + math.log(-math.expm1(-z))) + math.log(-shape)


@lru_cache(maxsize=256)
def _gamma(shape: float, mean: float) -> float:
    """Returns γ of the truncated negative binomial with this mean, rounded down, as K grows when γ falls."""
    if mean == 1.0:
        return 1.0
    target = math.log(mean)

    def excess(total: float) -> float:
        return _log_mean(shape, total) - target

    low, high = 1e-17, 1.0
    while excess(high) < 0.0:
        low, high = high, 2.0 * high
        if high > 690.0:
            raise InvalidArgumentError("mean", mean, f"is out of reach with shape={shape}", "use a smaller mean")
    total = float(optimize.brentq(excess, low, high, xtol=1e-17, rtol=1e-14)) if excess(low) < 0.0 else low
    nudge = 1e-14
    while excess(total) < 1e-14:
        total, nudge = total * (1 + nudge), 2 * nudge
    return math.nextafter(math.exp(-total), 0.0)


@frozen(eq=False)
class RunProfile:
    """A bound on the profile δ(ε) of one run, on a grid of losses from 0 on and linear in e^ε between them."""

    step: float
    values: Array
    top: float

    def losses(self) -> Array:
        return np.asarray(np.arange(len(self.values)) * self.step)

    def delta(self, epsilons: Array) -> Array:
        """Returns δ at each of ``epsilons``; below 0 by exchanging the laws, δ(−ε) = 1 − e^{−ε} + e^{−ε}·δ(ε)."""
        e = np.abs(epsilons)
        i = np.minimum((e / self.step).astype(int), len(self.values) - 1)
        j = np.minimum(i + 1, len(self.values) - 1)
        share = np.expm1(np.clip(e - i * self.step, 0.0, self.step)) / math.expm1(self.step)
        value = (1.0 - share) * self.values[i] + share * self.values[j]
        return np.asarray(np.where(epsilons < 0.0, -np.expm1(-e) + np.exp(-e) * value, value))


def _log_moment(rate: float, exponents: Array) -> Array:
    """Returns ln(e^{−rate} + rate·e^x), rounded up."""
    log_mean = math.log(rate)
    # Both terms may cancel: x is off by 3 U of itself, ln by 2 U of itself; both sums by U, functions by 2 U.
    slack = 8 * U * (1 + exponents + abs(log_mean))
    return np.asarray(np.logaddexp(-rate, exponents + log_mean) + slack)


@lru_cache(maxsize=64)
def _run_profile(event: PrivacyEvent) -> RunProfile:
    """Returns the profile of ``event`` without its failure, in the worse of its directions."""
    low, high = event.loss_support()
    if max(high, -low) == 0.0:  # the only finite loss is 0
        low, high = -1e-6, 1e-6
    law = discretise(event, max(high, -low) / _CELLS, True)
    start = min(law.start, 0) - 1
    values = _profile(law, start, max(law.start + len(law.p), 1) - start)[-start:]
    # The cumulative sum is off by U per cell and the recursion by 3 U; its factors and this product add a few U.
    slack = 4 * U * (len(values) + 4)
    return RunProfile(law.step, np.minimum(values * (1 + slack), 1.0), (len(values) - 1) * law.step)


@lru_cache(maxsize=64)
def _dominating_pair(event: RepeatAndSelect) -> DominatingPair:
    run = _run_profile(event.one_run())
    top = min(event.reach(run), _LARGEST_LOSS)
    losses = np.unique(np.append(np.linspace(0.0, top, _POINTS), np.geomspace(1e-4 * top, top, _POINTS))).clip(0.0, top)
    # Exponentials and integrals of bounded exponents are off by 1e-12 at most.
    return symmetric_pair(losses, np.minimum(1.0, event.bound(run, losses) * (1 + 1e-10)))


def symmetric_pair(losses: Array, deltas: Array) -> Atoms:
    """Returns the pair with the greatest profile, in both orders, that respects δ(losses[i]) ≤ deltas[i].

    That is the convex hull over x = e^ε of the points and their mirror images δ(1/x) = 1 − 1/x + δ/x. The line through
    a point at x and its image has the value (x − 1 + 2δ)/(x + 1) at ε = 0.

    Args:
      losses: increasing from 0, at most 700.
      deltas: nonincreasing, in [0, 1].
    """
    x = np.exp(losses)
    xs, ds = [1.0], [float(np.min((np.expm1(losses) + 2 * deltas) / (x + 1)))]
    for c, d in zip(x[1:].tolist(), np.minimum(deltas[1:], ds[0]).tolist(), strict=True):
        while len(xs) > 1 and (d - ds[-1]) * (xs[-1] - xs[-2]) <= (ds[-1] - ds[-2]) * (c - xs[-1]):
            xs.pop()
            ds.pop()
        xs.append(c)
        ds.append(d)
    at, height = np.array(xs), np.array(ds)
    slopes = np.append((height[:-1] - height[1:]) / np.diff(at), 0.0)  # Q's mass above each corner
    q = np.maximum(slopes[:-1] - slopes[1:], 0.0)
    p, positive = at[1:] * q, np.log(at[1:])
    zero = max(0.0, 1.0 - float(p.sum() + q.sum() + height[-1]))
    masses = np.concatenate([q[::-1], [zero], p])
    return Atoms(tuple(np.concatenate([-positive[::-1], [0.0], positive]).tolist()), tuple(masses.tolist()), ds[-1])
