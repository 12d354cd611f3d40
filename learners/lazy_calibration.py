"""Calibration of the lazy learner: the parameters of least worst-case regret whose certified epsilon meets a target.

Two steps. A fast search over batch, fake-switch probability and learning rate uses closed Renyi curves, vectorised;
it may err by a little in either direction and promises nothing. Then the learning rate is moved, at fixed batch and
fixed ratio of fake-switch probability to learning rate, until the *graph's* epsilon is as large as the target allows.
Only that last number counts, and it never exceeds the target.
"""

import math
from collections.abc import Callable

import numpy as np
from attrs import frozen

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.expert_losses import FloatArray
from hockeystick.learners.multiplicative_weights import best_learning_rate, regret_bound

_ORDERS = 1.0 + np.geomspace(0.02, 1e5, 96)
_LARGEST_FAKE = 0.999


@frozen
class LazyParameters:
    """Batch B, learning rate eta and fake-switch probability p (of the action and of the shadow)."""

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
) -> LazyParameters:
    """Parameters that (nearly) minimise ln(d)/eta + eta*T*B/8 subject to a certified epsilon of at most ``epsilon``.

    Args:
        rounds: T >= 2.
        experts: d >= 2.
        epsilon: Target, > 0.
        delta: The delta at which epsilon is meant, in (0, 1).
        shadow: True for L2P with the tight normaliser, False for the dartboard.
        event: What the learner with given parameters costs: its graph's guarantee, as an event.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a target that no learning rate meets.
    """
    rounds = integer("rounds", rounds, low=2)
    experts = integer("experts", experts, low=2)
    epsilon = real("epsilon", epsilon, low=0.0, low_open=True)
    delta = real("delta", delta, low=0.0, high=1.0, low_open=True, high_open=True)

    found = _search(rounds, experts, epsilon, delta, shadow)
    ratio = found.fake_switch_probability / found.learning_rate
    cap = math.log(best_learning_rate(rounds=rounds, experts=experts, batch=found.batch))

    def at(log_rate: float) -> LazyParameters:
        rate = math.exp(log_rate)
        return LazyParameters(found.batch, rate, min(_LARGEST_FAKE, ratio * rate))

    def meets(log_rate: float, method: str | None) -> bool:
        return accounting.epsilon(event(at(log_rate)), delta, method=method).upper <= epsilon

    # The Renyi bound alone costs milliseconds and is sound; all methods together can only add to it.
    start = math.log(found.learning_rate)
    best = _largest(lambda log_rate: meets(log_rate, "rdp"), start, cap, step=0.02, accuracy=1e-4)
    best = _largest(lambda log_rate: meets(log_rate, None), start if best is None else best, cap, 2e-3, 1e-3)
    if best is None:
        raise InvalidArgumentError(
            "epsilon", epsilon, f"no learning rate meets it at delta={delta:g}", "ask for a larger epsilon or delta"
        )
    return at(best)


def _largest(meets: Callable[[float], bool], start: float, cap: float, step: float, accuracy: float) -> float | None:
    """The largest number up to ``cap`` that meets a decreasing condition, up to ``accuracy``; None if none is found."""
    good: float | None = None
    bad: float | None = None
    trial = min(start, cap)
    for _ in range(64):
        if meets(trial):
            good = trial
        else:
            bad = trial
        if good is not None and (good == cap or (bad is not None and bad - good <= accuracy)):
            break
        if good is not None and bad is not None:
            trial = 0.5 * (good + bad)
        else:  # one side is missing: walk towards it, in steps that double
            trial = min(cap, trial + step) if bad is None else trial - step
            step *= 2.0
    return good


def _search(rounds: int, experts: int, epsilon: float, delta: float, shadow: bool) -> LazyParameters:
    """The best parameters by the fast curves: a coarse grid, then a finer one around its optimum."""
    largest = max(1, int(min(rounds / 50.0, 200.0 / epsilon)))
    batches = np.unique(np.round(np.geomspace(1.0, largest, 12)).astype(int))
    multiples = np.geomspace(0.5, 100.0, 24)
    best: tuple[float, LazyParameters, float] | None = None
    for _ in range(2):
        for batch in batches:
            for bound, parameters, multiple in _rates(rounds, experts, int(batch), epsilon, delta, shadow, multiples):
                if best is None or bound < best[0]:
                    best = (bound, parameters, multiple)
        if best is None:
            raise InvalidArgumentError(
                "epsilon", epsilon, f"no parameters meet it at delta={delta:g}", "ask for a larger epsilon or delta"
            )
        centre, multiple = best[1].batch, best[2]
        batches = np.unique(np.round(np.linspace(max(1.0, centre / 1.5), min(largest, centre * 1.5), 9)).astype(int))
        multiples = multiple * np.geomspace(0.8, 1.25, 13)
    assert best is not None
    return best[1]


def _rates(
    rounds: int, experts: int, batch: int, epsilon: float, delta: float, shadow: bool, multiples: FloatArray
) -> list[tuple[float, LazyParameters, float]]:
    """For each multiple m, with p = m*eta/epsilon: the largest learning rate that meets the target, and its bound."""
    n = -(-rounds // batch)
    cap = best_learning_rate(rounds=rounds, experts=experts, batch=batch)
    low = np.full(multiples.shape, math.log(1e-12))
    high = np.full(multiples.shape, math.log(cap))
    meets = _delta(n, batch, np.exp(high), multiples, epsilon, shadow) <= delta
    low = np.where(meets, high, low)
    for _ in range(40):
        middle = 0.5 * (low + high)
        meets = _delta(n, batch, np.exp(middle), multiples, epsilon, shadow) <= delta
        low, high = np.where(meets, middle, low), np.where(meets, high, middle)
    found = []
    for log_rate, multiple in zip(low, multiples, strict=True):
        rate = math.exp(log_rate)
        if rate <= 2e-12:
            continue
        parameters = LazyParameters(batch, rate, min(_LARGEST_FAKE, float(multiple) * rate / epsilon))
        bound = regret_bound(rounds=rounds, experts=experts, batch=batch, learning_rate=rate)
        found.append((bound, parameters, float(multiple)))
    return found


def _delta(n: int, batch: int, rate: FloatArray, multiples: FloatArray, target: float, shadow: bool) -> FloatArray:
    """Delta at epsilon = ``target`` of the worst person's events, one number per learning rate.

    The decision has two outcomes, so its loss is averaged over exactly; the draws behind it are charged by their
    Renyi curve.
    """
    eta, a = rate[:, None], _ORDERS[None, :]
    p = np.minimum(_LARGEST_FAKE, multiples[:, None] * eta / target)
    draw = np.minimum(a * eta**2 / 2.0, 2.0 * eta)  # bounded range of width 2 eta: rho = (2 eta)^2 / 8, pure 2 eta
    log_ratio = (2.0 if shadow else 1.0) * eta
    redraw = -np.expm1(np.log1p(-p) - batch * log_ratio)
    draws = (n - 2) * _mixture(a, redraw, draw)
    if shadow:
        draws = draws + (n - 1) * _mixture(a, p, draw)
    keep = 1.0 - p
    other = keep * np.exp(-log_ratio)
    loss = np.log((1.0 - other) / p)

    def tail(left: FloatArray, curve: FloatArray) -> FloatArray:
        # Canonne, Kamath & Steinke 2020, Prop. 12, at epsilon = left.
        log_delta = (a - 1.0) * (curve - left) - np.log(a - 1.0) + a * np.log1p(-1.0 / a)
        smallest: FloatArray = np.exp(np.minimum(0.0, log_delta.min(axis=1)))
        return smallest

    # A draw follows for sure where the learner moved.
    keeps_more = keep[:, 0] * tail(target - log_ratio, draws) + p[:, 0] * tail(target + loss, draws + draw)
    keeps_less = other[:, 0] * tail(target + log_ratio, draws) + (1.0 - other[:, 0]) * tail(target - loss, draws + draw)
    larger: FloatArray = np.maximum(keeps_more, keeps_less)
    return larger


def _mixture(a: FloatArray, chance: FloatArray, inner: FloatArray) -> FloatArray:
    """Renyi divergence of a draw that happens with a public probability, visibly."""
    mixed: FloatArray = np.logaddexp(np.log1p(-chance), np.log(chance) + (a - 1.0) * inner) / (a - 1.0)
    return mixed
