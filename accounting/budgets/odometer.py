"""The odometer: a bound on the privacy loss spent so far, valid at all times at once. It has no budget.

With L_n the privacy loss of the transcript after n steps, P its law, and S_n(α) the sum of the rdp(α) of the steps (all
of them functions of the past), W_n = Σ_j w_j·exp((α_j−1)(L_n − S_n(α_j))) over a fixed grid of orders with Σ w_j = 1 is
a non-negative supermartingale under P that starts at 1. By Ville's inequality it ever reaches 1/δ with probability at
most δ; as W_n grows with L_n, the u_n at which it would do so bounds L_n for all n at once. That is the union bound of
Lécuyer 2021 over orders, as one mixture (Whitehouse, Ramdas, Rogers & Wu 2023), with no budget to double.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NoReturn

import numpy as np
from attrs import evolve, field, frozen
from scipy import optimize, special

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.budgets.filters import BudgetExceededError, checked, known_adjacency
from hockeystick.accounting.budgets.renyi_filter import orders_above_one, renyi_charges
from hockeystick.accounting.errors import NumericalError, RenamedMethodError
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.numerics.exact_sums import exact, rounded, shown

ORDERS = tuple(float(a) for a in 1.0 + np.geomspace(0.05, 5e5, 52))
"""Default orders; between neighbours a reading loses about one per cent."""

_ROUNDING = 1e-12


def _open_probability(value: float) -> float:
    return validate.probability("delta", value, open=True)


def _shown(spent: tuple[int | None, ...]) -> str:
    return f"({', '.join('inf' if amount is None else shown(amount) for amount in spent)})"


@frozen
class OdometerReading:
    """The privacy loss spent so far: a statement about one run, never a guarantee of the algorithm.

    With probability at least 1 − ``delta`` over the run, in either of two neighbouring worlds, the privacy loss of all
    that was released is at most ``epsilon`` at every time that the odometer is read. See ``Odometer`` for an example.
    """

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"odometer: privacy loss so far ≤ {self.epsilon:.4g}, except with probability {self.delta:g}"


@frozen
class Odometer:
    """A running total of the privacy loss spent: an immutable value; ``after`` returns the next one.

    ``odometer = odometer.after(event)`` counts an event; if the result is dropped, nothing is counted. A
    ``FilteredLedger`` counts by itself.

    Args:
      delta: in (0, 1); the probability with which a reading may fail at some time.
      orders: the fixed grid of Rényi orders.
      failure_delta: the most that the events' failure probabilities may add up to; it is added to ``delta``.
      adjacency: the neighbouring relation of the data.

    Source: Lécuyer (2021); Whitehouse, Ramdas, Rogers & Wu (2023).

    Example:
      >>> from hockeystick.accounting import Gaussian
      >>> odometer = Odometer(1e-6).after(Gaussian(10.0), count=4)
      >>> round(odometer.reading().epsilon, 3)
      1.202
    """

    delta: float = field(converter=_open_probability)
    orders: tuple[float, ...] = field(default=ORDERS, kw_only=True, converter=orders_above_one)
    failure_delta: float = field(default=0.0, kw_only=True, converter=field_checks.delta)
    adjacency: Adjacency = field(default=Adjacency.ADD_OR_REMOVE_ONE, kw_only=True, converter=known_adjacency)
    _spent: tuple[int | None, ...] = field(default=(), kw_only=True, repr=_shown, alias="_spent")
    _failed: int = field(default=0, kw_only=True, repr=shown, alias="_failed")

    def after(self, event: PrivacyEvent, *, count: int = 1) -> Odometer:
        """Returns the odometer after ``count`` times ``event``; this value stays as it is.

        Raises:
          BudgetExceededError: the event's failure passes what ``failure_delta`` allows.
          UnsupportedAdjacencyError: the event is not defined under the adjacency.
          InvalidArgumentError: ``event`` is not an event, or ``count`` is not an integer ≥ 1.
        """
        event, count = checked(event, count, self.adjacency)
        failed = self._failed + count * exact(event.failure_delta())
        if failed > exact(self.failure_delta):
            left = rounded(exact(self.failure_delta) - self._failed, up=False)
            need = {"failure_delta": count * event.failure_delta()}
            raise BudgetExceededError(event, count, need, {"failure_delta": left})
        charges = (event.pure_epsilon(), *renyi_charges(event, self.orders))
        spent = tuple(
            None if done is None or math.isinf(charge) else done + count * exact(charge)
            for done, charge in zip(self._spent or (0,) * len(charges), charges, strict=True)
        )
        return evolve(self, _spent=spent, _failed=failed)

    def record(self, *_: object, **__: object) -> NoReturn:
        """Raises an error: it would count nothing if its result were dropped. Use ``after``.

        Raises:
          RenamedMethodError: always.
        """
        raise RenamedMethodError(
            "Odometer.record: an odometer never changes, so nothing was counted; "
            "use odometer = odometer.after(event), or a FilteredLedger, which keeps count itself"
        )

    def reading(self) -> OdometerReading:
        """Returns the privacy loss so far."""
        spent = self._spent or (0,) * (len(self.orders) + 1)
        pure, *renyi = (math.inf if done is None else rounded(done, up=True) for done in spent)
        return read(self.orders, renyi, pure, self.delta, self.failure_delta)


def read(
    orders: Sequence[float], renyi: Iterable[float], pure: float, delta: float, failure_delta: float
) -> OdometerReading:
    """Returns the reading at Rényi divergences that sum up to ``renyi`` at ``orders``, and pure ε to ``pure``.

    Args:
      delta: of the bound on the loss.
      failure_delta: a bound, known in advance, on the failures of all events.
    """
    exponents = np.asarray(orders) - 1.0
    sums = np.asarray(list(renyi)) * (1 + _ROUNDING)
    total = min(1.0, math.nextafter(delta + failure_delta, 2.0) if failure_delta else delta)
    usable = np.isfinite(sums)
    best = pure * (1 + _ROUNDING)
    if usable.any() and best > 0.0:
        exponents, sums = exponents[usable], sums[usable]
        target = math.log(len(orders)) - math.log(delta)  # every order weighs one over their number

        def excess(loss: float) -> float:
            return float(special.logsumexp(exponents * (loss - sums))) - target

        high = float(np.min(sums + target / exponents))  # where one order alone suffices
        root = float(optimize.brentq(excess, 0.0, high, xtol=1e-14 * high, rtol=1e-14)) if excess(high) > 0.0 else high
        root += _ROUNDING * (1.0 + high)
        if math.isfinite(root) and excess(root) < 0.0:
            raise NumericalError("the odometer's reading could not be rounded up: use fewer orders")
        best = min(best, root)
    return OdometerReading(best, total)
