"""The Rényi filter, at one order or over several; see ``filters`` for what a filter is."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.budgets.filters import ADD_OR_REMOVE, PrivacyFilter, promised, target
from hockeystick.accounting.errors import InvalidArgumentError, NumericalError
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.numerics import directed_rounding

_LEAST_DELTA = 1e-300

ORDERS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0)
"""The orders among which an ``RDPFilter`` divides its δ by default."""


def orders_above_one(value: Iterable[float]) -> tuple[float, ...]:
    """Returns distinct orders in (1, 1e6]."""
    orders = tuple(validate.real("orders", a, low=1.0, low_open=True, high=1e6) for a in _several("orders", value))
    if len(set(orders)) != len(orders):
        raise InvalidArgumentError("orders", value, "names an order twice", "give distinct orders above 1")
    return orders


def _costs(value: Iterable[float]) -> tuple[float, ...]:
    return tuple(validate.real("budgets", b, low=0.0, high=field_checks.LARGEST) for b in _several("budgets", value))


def _several(name: str, value: Iterable[float]) -> tuple[float, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable) or not (items := tuple(value)):
        raise InvalidArgumentError(name, value, "is not a list of at least one number")
    return items


@lru_cache(maxsize=4096)
def renyi_charges(event: PrivacyEvent, orders: tuple[float, ...]) -> tuple[float, ...]:
    """Returns the event's Rényi divergence at each order, checked to be one.

    Raises:
      NumericalError: a value is negative or NaN, and so can't be summed to a bound.
    """
    values = tuple(float(x) for x in event.rdp(np.asarray(orders)))
    if not all(x >= 0.0 for x in values):
        raise NumericalError(f"the Rényi curve of {event} is lost in rounding at orders {orders}: use another filter")
    return values


@frozen(repr=False)
class RDPFilter(PrivacyFilter):
    """A filter of Rényi divergences: admits events while, at one order at least, their divergences fit into its budget.

    The orders and their budgets are fixed at creation. With one order α the interaction is of rdp(α) ≤ budget. With
    several, the order that still has room at the end depends on the outcomes, and the δ of all orders add up:
    δ(ε) = Σ_α c(α)·exp((α−1)(budget(α) − ε)), c(α) = (1 − 1/α)^(α−1)/α. For (1 − e^{ε−L})₊ ≤ c(α)·e^{(α−1)(L−ε)}
    holds at each order (Canonne, Kamath & Steinke 2020, Prop. 12), and where order α has room e^{(α−1)L} is at most
    e^{(α−1)·budget(α)} times the supermartingale of that order.

    Args:
      orders: the Rényi orders α, each above 1.
      budgets: the budget of each order, ≥ 0.

    Example:
      >>> from hockeystick.accounting import Gaussian
      >>> budget = RDPFilter.for_target(1.0, 1e-6)
      >>> round(budget.epsilon(1e-6), 6)
      1.0
      >>> budget.would_exceed(Gaussian(10.0), count=4), budget.would_exceed(Gaussian(10.0), count=5)
      (False, True)
    """

    orders: tuple[float, ...] = field(converter=orders_above_one)
    budgets: tuple[float, ...] = field(converter=_costs)

    @budgets.validator
    def _as_many(self, _: object, value: tuple[float, ...]) -> None:
        if len(value) != len(self.orders):
            raise InvalidArgumentError("budgets", value, f"are not {len(self.orders)}, as the orders are")

    @classmethod
    def for_target(
        cls,
        epsilon: float,
        delta: float,
        *,
        orders: Iterable[float] = ORDERS,
        failure_delta: float = 0.0,
        adjacency: Adjacency = ADD_OR_REMOVE,
    ) -> RDPFilter:
        """Returns the filter for an (``epsilon``, ``delta``)-DP interaction; δ is divided evenly over the orders.

        Orders whose share would leave no room for any event are left out, so that the others get more.

        Raises:
          InvalidArgumentError: epsilon or delta is not positive, delta is below 1e-300, failure_delta leaves nothing
            of delta, or no order has room: give larger ones.
        """
        epsilon, delta, failure_delta = target(epsilon, delta, failure_delta)
        spare = (delta - promised(failure_delta)) * (1 - 1e-9)
        if spare < _LEAST_DELTA / 2:  # shares of it, and a little less of it, have to be floats of full precision
            raise InvalidArgumentError("delta", delta, "is too small to be divided", f"allow {_LEAST_DELTA:g} and more")
        kept = orders_above_one(orders)
        if spare / len(kept) < sys.float_info.min:  # below it a float has no nine digits
            raise InvalidArgumentError("delta", delta, "is too small to be divided over orders", "give 1e-300 or more")
        while kept:
            # A little less, as the filter promises for a little more than its budget.
            shares = {
                a: (epsilon + (math.log(spare / len(kept)) - _log_factor(a)) / (a - 1)) * (1 - 1e-11) for a in kept
            }
            if all(share > 0.0 for share in shares.values()):
                found = cls(kept, tuple(shares.values()), failure_delta=failure_delta, adjacency=adjacency)
                if found.delta(epsilon) <= delta:
                    return found
                # A step of the search: what is returned has met the target above.
                spare *= 1 - 1e-6
            else:
                kept = tuple(a for a in kept if shares[a] > max(0.0, min(shares.values())))
        raise InvalidArgumentError(
            "orders", orders, f"have no room at ({epsilon:g}, {delta:g})-DP", "give larger orders"
        )

    def _budgets(self) -> dict[str, float]:
        return {f"rdp({_in_full(order)})": budget for order, budget in zip(self.orders, self.budgets, strict=True)}

    def _charges(self, event: PrivacyEvent) -> tuple[float, ...]:
        return renyi_charges(event, self.orders)

    def _curve(self) -> PrivacyEvent:
        raise InvalidArgumentError("delta", None, "is needed: an RDPFilter states (ε, δ)-DP at one δ", "give it")

    def _curve_delta(self, epsilon: float) -> float:
        total = 0.0
        for order, budget in zip(self.orders, self.budgets, strict=True):
            exponent = (order - 1) * (promised(budget) - epsilon)
            log_share = exponent + _log_factor(order)
            # The exponent is off by 3 U of itself, logarithms by 6 U of 1 and of theirs, sums by U: of 36 U.
            log_share += 4e-15 * (1 + abs(exponent) + abs(_log_factor(order)))
            total += directed_rounding.exp(log_share) if log_share < 0.0 else 1.0
        # So many sums, off by U each, and this product; 4 U are taken for each.
        return min(1.0, total * (1 + 4e-16 * len(self.orders)))

    def _curve_epsilon(self, delta: float) -> float:
        if delta == 0.0:
            return math.inf
        if self._curve_delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self._curve_delta(high) > delta:
            if math.isinf(high):  # each order's δ is rounded up, never to 0
                return math.inf
            low, high = high, 2 * high
        while high - low > 1e-13 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self._curve_delta(middle) > delta else (low, middle)
        return high


def _in_full(order: float) -> str:
    """An order as text, of which no two have the same."""
    return short if float(short := f"{order:g}") == order else repr(order)


def _log_factor(order: float) -> float:
    return (order - 1) * math.log1p(-1 / order) - math.log(order)
