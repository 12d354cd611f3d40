"""The shared part of the learners' calibrations: the target, and searches for the largest parameter that meets it."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, real

LARGEST_FAKE = 0.999
"""The largest fake-switch probability in use; a search or a printed statement that asks for more gets this one."""

LOOK_BELOW = 60.0  # a search goes this far below its start, in logarithms
_ALL_METHODS = 4  # with more ways to spread a group over batches than these, the Rényi curve alone gives the bound


def _epsilon(value: float) -> float:
    return real("epsilon", value, low=0.0, low_open=True)


def _delta(value: float) -> float:
    return real("delta", value, low=0.0, high=1.0, low_open=True, high_open=True)


def _group(value: int) -> int:
    return integer("group", value, low=1)


@frozen(kw_only=True)
class Target:
    """The target of a calibration: ``epsilon`` at ``delta`` for any ``group`` of people, where each round is a person.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    epsilon: float = field(converter=_epsilon)
    delta: float = field(converter=_delta)
    group: int = field(default=1, converter=_group)

    def orders(self) -> FloatArray:
        """Returns Rényi orders around the best one, near 1 + sqrt(ln(1/δ)/ρ) for a zCDP parameter ρ."""
        log = max(1.0, -math.log(self.delta))
        root = self.epsilon / (math.sqrt(log + self.epsilon) + math.sqrt(log))  # of ρ
        if root < 1e-290:  # the orders would overflow
            raise self.unmet()
        return _orders_around(math.sqrt(log) / root)

    def unmet(self) -> InvalidArgumentError:
        """Returns the error for a target that no parameters meet."""
        return InvalidArgumentError(
            "epsilon",
            self.epsilon,
            f"no parameters meet it at delta={self.delta:g}",
            "ask for a larger epsilon or delta",
        )


@lru_cache(maxsize=64)  # a search asks for those of its target at every step
def _orders_around(middle: float) -> FloatArray:
    orders = np.asarray(1.0 + np.geomspace(middle / 300.0, middle * 1000.0, 96))
    orders.flags.writeable = False
    return orders


def batch_grid(largest: int, per_decade: int = 4) -> list[int]:
    """Returns batch sizes from 1 to ``largest``, evenly spaced on a logarithmic scale."""
    count = 2 + math.ceil(per_decade * math.log10(largest))
    return [int(b) for b in np.unique(np.round(np.geomspace(1.0, largest, count)))]


def mixture_curve(orders: FloatArray, chance: FloatArray, inner: FloatArray) -> FloatArray:
    """Returns the Rényi divergence of a draw that happens with a public probability and visibly."""
    mixed: FloatArray = np.logaddexp(np.log1p(-chance), np.log(chance) + (orders - 1.0) * inner) / (orders - 1.0)
    return mixed


def renyi_delta(epsilon: float | FloatArray, orders: FloatArray, curve: FloatArray) -> FloatArray:
    """Returns δ at ``epsilon`` of Rényi curves, orders on the last axis (Canonne, Kamath & Steinke 2020, Prop. 12)."""
    order = orders - 1.0
    constant = -np.log(order) + orders * np.log1p(-1.0 / orders)
    log_delta = order * curve + constant - order * epsilon
    return np.asarray(np.exp(np.minimum(0.0, log_delta.min(axis=-1))))


def approximate_delta(
    target: Target,
    orders: FloatArray,
    *,
    fake: FloatArray,
    log_ratios: FloatArray,
    weights: FloatArray,
    draws: FloatArray,
    draw: FloatArray,
) -> FloatArray:
    """Returns δ at the target's ε for a decision and the draws after it, for each of R settings.

    The decision has two outcomes, and its log-ratio has a known law: its loss is averaged exactly. The draws are
    charged by their Rényi curve. Nothing is rounded up: the result serves a search, not a certificate.

    Args:
        target: The target, for its ``epsilon``.
        orders: Rényi orders, shape (A,).
        fake: The fake-switch probability p, shape (R,).
        log_ratios, weights: The values of |ln(k/k')| and their probabilities, shape (R, m).
        draws: Curve of all draws except the decision's own, shape (R, A).
        draw: Curve of the decision's own draw, which follows if the learner moves, shape (R, A).
    """
    keep = 1.0 - fake[:, None]
    other = keep * np.exp(-log_ratios)
    moved = fake[:, None] - keep * np.expm1(-log_ratios)
    loss = np.log(moved / fake[:, None])

    def tail(left: FloatArray, curve: FloatArray) -> FloatArray:  # at the ε that remains
        return renyi_delta(left[:, :, None], orders, curve[:, None, :])

    left, behind = np.full_like(log_ratios, target.epsilon), draws + draw
    keeps_more = keep * tail(left - log_ratios, draws) + fake[:, None] * tail(left + loss, behind)
    keeps_less = other * tail(left + log_ratios, draws) + moved * tail(left - loss, behind)
    found: FloatArray = np.sum(weights * np.maximum(keeps_more, keeps_less), axis=1)
    return found


def largest_certified(target: Target, event: Callable[[float], PrivacyEvent], start: float, cap: float) -> float | None:
    """Returns about the largest number up to ``cap`` whose event meets the target; None if none is near ``start``."""

    def excess(x: float, all_methods: bool) -> float:
        """ln(certified ε / target ε)."""
        cost = event(x)
        few = len(getattr(cost, "branches", ())) <= _ALL_METHODS
        found = accounting.epsilon(cost, target.delta, method=None if all_methods and few else "rdp").upper
        if found <= target.epsilon:  # the sign must not depend on rounding
            return min(0.0, math.log(found / target.epsilon)) if found > 0.0 else -math.inf
        return max(5e-324, math.log(found / target.epsilon)) if math.isfinite(found) else math.inf

    # The Rényi bound takes milliseconds and is sound; all methods together can only improve on it, sometimes by much:
    # a decision whose total variation is below δ costs nothing.
    best = largest_meeting(lambda x: excess(x, False), start, cap, step=0.02, accuracy=1e-4)
    start = start if best is None else max(best, start)
    return largest_meeting(lambda x: excess(x, True), start, cap, step=2e-3, accuracy=2e-3)


def largest_meeting(
    excess: Callable[[float], float], start: float, cap: float, *, step: float, accuracy: float
) -> float | None:
    """Returns the largest number up to ``cap`` at which an increasing function is at most 0; None if none is near.

    The function is at least -``accuracy`` there, or it is positive within ``accuracy`` of that number. The search
    interpolates, because each call may be slow.
    """
    good: tuple[float, float] | None = None
    bad: tuple[float, float] | None = None
    trial = min(start, cap)
    while trial > start - LOOK_BELOW:
        value = excess(trial)
        if value <= 0.0:
            good = trial, value
        else:
            bad = trial, value
        if good is not None and (
            good[0] == cap or good[1] >= -accuracy or (bad and bad[0] - good[0] <= 0.1 * accuracy)
        ):
            break
        if good is not None and bad is not None:
            share = (-0.5 * accuracy - good[1]) / (bad[1] - good[1]) if math.isfinite(bad[1] - good[1]) else 0.5
            trial = good[0] + min(max(share, 0.1), 0.9) * (bad[0] - good[0])
        else:  # the root is not bracketed yet: go towards it in steps that double
            stride = max(step, min(1.0, abs(value))) if math.isfinite(value) else step
            trial = min(cap, trial + stride) if bad is None else trial - stride
            step *= 2.0
    return None if good is None else good[0]
