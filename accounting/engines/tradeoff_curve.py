"""Bounds on every attacker: the error rates of any test, and its advantage, for any event.

An attacker sees a release and decides which of two neighbouring inputs it came from. With δ(ε) the event's profile, any
test of false-positive rate α has a false-negative rate of at least

    f(α) = max over ε ≥ 0 of  1 − δ(ε) − e^ε·α  and  e^{−ε}·(1 − δ(ε) − α)

(Wasserman & Zhou 2010, Thm 2.4; Dong, Roth & Su 2022, Prop. 2.13). Any set of ε gives a bound, so they are chosen where
they matter and all read off one composed law. Where the two directions differ, the first term is of the profile of
alternative against null, the second of the reverse, and the worse assignment counts. An event without a profile is
charged by its Rényi curve: the divergence of the two decision probabilities exceeds it at no order (data processing).
"""

from __future__ import annotations

import contextlib
import math

import numpy as np
from scipy import special

from hockeystick.accounting import validate
from hockeystick.accounting.engines import best_bound, event_parts, loss_distribution, renyi_profile
from hockeystick.accounting.engines import renyi as rdp
from hockeystick.accounting.errors import NumericalError
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.composition import Parallel
from hockeystick.accounting.events.basic.declared import ZCDP
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.accounting.numerics import directed_rounding
from hockeystick.accounting.numerics.directed_rounding import U

_ORDERS = 1.0 + np.geomspace(1e-4, 1e8, 385)
_AT_ONCE = 2048
_NEGLIGIBLE = 1e-12  # of the least rate asked for: a δ that changes none
_FIRST, _MORE = 256, 2048  # how many ε are tried at first, and about how many more, at most, in each of two rounds


def trade_off(event: PrivacyEvent, false_positive_rates: object) -> Array:
    """Returns the least false-negative rate that any test of each false-positive rate can have, rounded down.

    Args:
      event: what the release cost, composed or not.
      false_positive_rates: a number or an array of numbers in [0, 1].

    Returns:
      An array of the same shape.

    Raises:
      InvalidArgumentError: no event, or a rate outside [0, 1].
    """
    return _rates(event, false_positive_rates)[0]


def true_positive_rate(event: PrivacyEvent, false_positive_rates: object) -> Array:
    """Returns the greatest true-positive rate of any test at each false-positive rate, rounded up.

    It is 1 − ``trade_off``, with a relative accuracy where both rates are small.

    Raises:
      InvalidArgumentError: no event, or a rate outside [0, 1].
    """
    return _rates(event, false_positive_rates)[1]


def advantage(event: PrivacyEvent) -> float:
    """Returns the greatest true-positive minus false-positive rate of any test: δ(0), the total variation distance.

    Raises:
      InvalidArgumentError: no event.
    """
    check_event(event)
    if isinstance(event, Parallel):
        return max(map(advantage, event.branches))
    found = best_bound.delta(event, 0.0).upper
    if renyi_profile.completed(event) is not None or event.failure_delta() >= 1.0:
        return found
    # The pairs of rates that a Rényi curve allows are a convex set (van Erven & Harremoës 2014, Thm 13) that is
    # symmetric about FPR + TPR = 1: the greatest difference is on that line.
    low, high = 0.0, 1.0
    orders = _ORDERS[None]
    renyi = np.max([_renyi(way, orders) for way in event.directions()], axis=0)
    for _ in range(60):
        middle = (low + high) / 2
        fpr, fnr = np.array([(1 - middle) / 2]), np.array([(1 - middle) / 2])
        allowed = (_excess(fpr, fnr, orders, renyi, renyi) <= 0.0).all()
        low, high = (middle, high) if allowed else (low, middle)
    return min(found, math.nextafter(high + event.failure_delta(), 2.0))


def deltas(event: PrivacyEvent, epsilons: object) -> Array:
    """Returns δ at each of many ε at once, rounded up: from one composed law where the event has a profile.

    Args:
      epsilons: an array of numbers ≥ 0.

    Raises:
      InvalidArgumentError: no event, or an ε that is negative or not finite.
    """
    check_event(event)
    wanted = validate.array("epsilons", epsilons, low=0.0)
    flat = wanted.ravel()
    if isinstance(event, Parallel):
        found = np.max([deltas(branch, flat) for branch in event.branches], axis=0)
    else:
        whole = renyi_profile.completed(event) or event
        found = np.max([_Profile(way).deltas(flat) for way in whole.directions()], axis=0)
    return np.asarray(found.reshape(wanted.shape))


def _rates(event: PrivacyEvent, false_positive_rates: object) -> tuple[Array, Array]:
    """FNR from below and TPR from above."""
    check_event(event)
    wanted = validate.array("false_positive_rates", false_positive_rates, low=0.0, high=1.0)
    flat = wanted.ravel().astype(float)
    pieces = [_worst_rates(event, flat[i : i + _AT_ONCE]) for i in range(0, max(1, len(flat)), _AT_ONCE)]
    fnr, tpr = (np.concatenate(rates) for rates in zip(*pieces, strict=True))
    fnr, tpr = np.clip(fnr, 0.0, 1.0 - flat), np.clip(tpr, flat, 1.0)
    return fnr.reshape(wanted.shape), tpr.reshape(wanted.shape)


def _worst_rates(event: PrivacyEvent, alpha: Array) -> tuple[Array, Array]:
    if isinstance(event, Parallel):
        found = [_worst_rates(branch, alpha) for branch in event.branches]
    elif event.failure_delta() >= 1.0 or not alpha.size:
        return np.zeros(alpha.shape), np.ones(alpha.shape)
    else:
        whole = renyi_profile.completed(event) or event
        ways = whole.directions()
        merged, mu = event_parts.merge_gaussians(event)
        if merged is None:
            return _gaussian_rates(mu, alpha)
        if whole.has_profile():
            found = _rates_by_profile(ways, alpha)
        else:
            orders = {(0, -1), (-1, 0)} if len(ways) > 1 else {(0, 0)}
            found = [_rates_by_renyi(ways[i], ways[j], alpha) for i, j in orders]
    return np.min([fnr for fnr, _ in found], axis=0), np.max([tpr for _, tpr in found], axis=0)


def _gaussian_rates(mu: float, alpha: Array) -> tuple[Array, Array]:
    """Φ(Φ⁻¹(1 − α) − μ) and Φ(Φ⁻¹(α) + μ)."""
    z = special.ndtri(alpha)  # −inf and inf at the ends stay what they are
    wobble = 8 * U * (1 + np.abs(np.where(np.isfinite(z), z, 0.0)) + mu)
    fnr, tpr = special.ndtr(-z - mu - wobble), special.ndtr(z + mu + wobble)
    return fnr * (1 - 64 * U), tpr * (1 + 64 * U)


def _rates_by_profile(ways: tuple[PrivacyEvent, ...], alpha: Array) -> list[tuple[Array, Array]]:
    smallest = float(np.min(np.minimum(alpha, 1 - alpha), initial=0.5, where=(alpha > 0) & (alpha < 1)))
    smallest = max(smallest, 1e-15)
    reach = max(
        # Only how far the curve is looked at.
        min(best_bound.epsilon(way, min(1.0, way.failure_delta() + 1e-6 * smallest)).upper, 700.0)
        for way in ways
    )
    reach = min(reach, 45.0 - math.log(smallest))
    pure = max(way.pure_epsilon() for way in ways)
    reach = pure if pure < 2 * reach else reach
    profiles = [_Profile(way, _NEGLIGIBLE * smallest) for way in ways]
    epsilons = np.linspace(0.0, reach, _FIRST + 1) if reach > 0 else np.zeros(1)
    curves = [profile.deltas(epsilons) for profile in profiles]
    for _ in range(2 if reach > 0 else 0):
        used = np.zeros(len(epsilons), dtype=bool)
        for first, second in {(0, -1), (-1, 0)}:
            for term in _terms(epsilons, curves[first], curves[second], alpha):
                used[np.argmax(term, axis=0)] = True
        (where,) = np.nonzero(used[:-1] | used[1:])  # the intervals on either side of an ε that is best for some rate
        cuts = min(16, max(2, _MORE // max(1, len(where))))
        inside = np.arange(1, cuts) / cuts
        more = (epsilons[where, None] + np.diff(epsilons)[where, None] * inside).ravel()
        order = np.argsort(np.concatenate([epsilons, more]))
        curves = [np.append(c, p.deltas(more))[order] for c, p in zip(curves, profiles, strict=True)]
        epsilons = np.append(epsilons, more)[order]
    ends = [profile.at_infinity() for profile in profiles]
    found = []
    for first, second in {(0, -1), (-1, 0)} if len(ways) > 1 else {(0, 0)}:
        direct, inverse = (np.max(term, axis=0) for term in _terms(epsilons, curves[first], curves[second], alpha))
        fnr = np.maximum(direct, inverse) - 8 * U
        x = np.exp(epsilons)[:, None]
        tpr = np.min(curves[first][:, None] + x * alpha, axis=0) * (1 + 1e-13)
        # At ε → ∞ the first term is left with α = 0 alone.
        fnr = np.where(alpha == 0.0, np.maximum(fnr, 1.0 - ends[first] - 2 * U), fnr)
        tpr = np.where(alpha == 0.0, np.minimum(tpr, ends[first]), tpr)
        found.append((np.where(alpha == 1.0, 0.0, fnr), np.minimum(tpr, 1.0 - inverse + 1e-15)))
    return found


def _terms(epsilons: Array, first: Array, second: Array, alpha: Array) -> tuple[Array, Array]:
    x = np.exp(epsilons)[:, None]
    # The exponential is off by 2 U, and U for each unit of ε; two products or the difference and quotient by 2 U.
    slack = 8 * U * (1 + epsilons[:, None])
    return 1.0 - first[:, None] - x * alpha * (1 + slack), (1.0 - second[:, None] - alpha) / x * (1 - slack)


class _Profile:
    """δ(ε) of one direction from above, at many ε: by the best way of composing it that gives a whole curve."""

    def __init__(self, way: PrivacyEvent, negligible: float = 0.0) -> None:
        self.way, self.failure, self.pure = way, way.failure_delta(), way.pure_epsilon()
        self.merged, self.mu = event_parts.merge_gaussians(way)
        self.curve = None if self.merged is None else loss_distribution.Curve(self.merged, negligible=negligible)

    def deltas(self, epsilons: Array) -> Array:
        if self.failure >= 1.0:
            return np.ones(epsilons.shape)
        if self.curve is None:
            return np.array([directed_rounding.exp(gaussian_profile.log_delta(self.mu, float(e))) for e in epsilons])
        found = np.where(epsilons >= self.pure, 0.0, 1.0)
        if (open_ := epsilons < self.pure).any():
            found[open_] = self._composed(self.curve, epsilons[open_])
        return np.minimum(1.0, np.nextafter(found + self.failure, 2.0)) if self.failure else found

    def _composed(self, curve: loss_distribution.Curve, epsilons: Array) -> Array:
        if self.way.has_profile():
            with contextlib.suppress(NumericalError):
                return curve.deltas(epsilons)
        return self._by_renyi(epsilons)

    def _by_renyi(self, epsilons: Array) -> Array:
        events = [self.way] if math.isinf(rho := self.way.zcdp_rho()) else [self.way, ZCDP(rho)]
        return np.array(
            [min(directed_rounding.exp(rdp.log_delta(event, float(e))) for event in events) for e in epsilons]
        )

    def at_infinity(self) -> float:
        """P's mass where Q has none, failure included."""
        if math.isfinite(self.pure) or self.merged is None or math.isfinite(self.way.zcdp_rho()):
            return self.failure
        return float(self.deltas(np.array([min(700.0, max(0.0, self.way.loss_support()[1]) + 1.0)]))[0])


def _renyi(way: PrivacyEvent, orders: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        least = np.minimum(way.rdp(orders.ravel()).reshape(orders.shape), way.zcdp_rho() * orders)
        return np.asarray(np.minimum(np.where(np.isnan(least), math.inf, least), way.pure_epsilon()))


def _rates_by_renyi(forward: PrivacyEvent, backward: PrivacyEvent, alpha: Array) -> tuple[Array, Array]:
    """The greatest FNR that is excluded, by bisection: the smaller it is, the larger are the divergences.

    What a failure adds may put both outside of [0, 1].
    """
    failure, low = forward.failure_delta(), np.zeros(alpha.shape)
    orders = _ORDERS[None, ::4]
    for _ in range(4):
        curves = _renyi(forward, orders), _renyi(backward, orders)
        high = 1.0 - alpha
        for _ in range(52):
            middle = (low + high) / 2
            excluded = (_excess(alpha, middle, orders, *curves) > 0.0).any(axis=1)
            low, high = np.where(excluded, middle, low), np.where(excluded, high, middle)
        # Each rate is decided at one order: look on either side of it.
        best = np.argmax(_excess(alpha, high, orders, *curves), axis=1)[:, None]
        logs = np.broadcast_to(np.log(orders - 1.0), (len(alpha), orders.shape[1]))
        left = np.take_along_axis(logs, np.maximum(best - 1, 0), axis=1)
        right = np.take_along_axis(logs, np.minimum(best + 1, logs.shape[1] - 1), axis=1)
        orders = 1.0 + np.exp(left + (right - left) * np.linspace(0.0, 1.0, 13))
    none = math.isfinite(_renyi(forward, _ORDERS).min())  # a finite divergence leaves P nothing where Q has nothing
    fnr = np.where(alpha == 0.0, 1.0 if none else 0.0, low - 4 * U)
    return fnr - failure, np.where(fnr == 1.0, 0.0, 1.0 - fnr + 2 * U) + failure


def _excess(fpr: Array, fnr: Array, orders: Array, forward: Array, backward: Array) -> Array:
    """The excess, by order, of a decision's Rényi divergences at these rates over the curves, beyond rounding.

    ``orders`` and the curves are of shape (1 or number of rates, number of orders).
    """
    with np.errstate(divide="ignore"):
        p, p_not, q, q_not = (np.log(x)[:, None] for x in (1.0 - fnr, fnr, fpr, 1.0 - fpr))
    worst = np.full((len(fpr), orders.shape[1]), -math.inf)
    t = orders - 1.0
    size = sum(np.where(np.isfinite(x), np.abs(x), 0.0) for x in (p, p_not, q, q_not))
    for curve, (a, b, c, d) in ((forward, (p, p_not, q, q_not)), (backward, (q, q_not, p, p_not))):
        with np.errstate(invalid="ignore", over="ignore"):
            one, two = orders * a - t * c, orders * b - t * d
            moment = np.logaddexp(np.where(np.isnan(one), -math.inf, one), np.where(np.isnan(two), -math.inf, two))
            # Products and differences are off by 3 U of each term, logarithms by 2 U of theirs; logaddexp by 4 U of 1.
            over = (moment - 16 * U * (orders * size + 2)) / t - curve
        worst = np.maximum(worst, np.where(np.isfinite(curve) & ~np.isnan(over), over, -math.inf))
    return worst
