"""Privacy filters: budgets for an analysis whose steps are chosen as it goes, from earlier outcomes.

A filter fixes its budget at creation and admits an event only while the sum of the charges stays within it. The whole
interaction then keeps the filter's guarantee, in whatever order the events come, though neither they nor their number
were fixed in advance.

| filter       | charge of an event | the interaction is | source                                            |
|--------------|--------------------|--------------------|---------------------------------------------------|
| `PureFilter` | pure ε             | ε-DP               | Rogers, Roth, Ullman & Vadhan 2016                |
| `ZCDPFilter` | ρ                  | ρ-zCDP             | Feldman & Zrnic 2021, at every order; Lécuyer 2021 |
| `RDPFilter`  | rdp(α)             | rdp(α) ≤ budget    | Feldman & Zrnic 2021; Lécuyer 2021                |
| `GDPFilter`  | μ²                 | μ-Gaussian DP      | Smith & Thakurta 2022; Koskela et al. 2023        |

With L the privacy loss of the transcript, P its law and S(α) the sum of the rdp(α) of its steps (all of them functions
of the past), exp((α−1)(L − S(α))) is a supermartingale under P that starts at 1. Where S(α) ≤ B on every path, E_P
e^{(α−1)L} ≤ e^{(α−1)B} follows, which is rdp(α) ≤ B. For Gaussian events, or what can be computed from them, fill the
budget up to μ² at the end: the losses are then increments of one Brownian motion with drift, up to the fixed time μ².

Failures, of probability ``failure_delta`` each, have a budget of their own, whose whole is added to δ at the end
(Whitehouse, Ramdas, Rogers & Wu 2023, Thm 1: adaptively chosen approximate zCDP). There is no such filter for privacy
loss distributions, whose composition can't be cut short for free (Regehr et al. 2026).

Sums are exact. Charges are floats, right to about their last digits, so a sum may pass its budget by a relative 1e-12
(ten times 0.1 fits into 1.0); what a filter promises counts twice that.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NoReturn, Self, TypeVar

from attrs import evolve, field, fields, frozen
from scipy import special

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.errors import (
    HockeystickError,
    InvalidArgumentError,
    RenamedMethodError,
    UnsupportedAdjacencyError,
)
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.composition import Composed, Parallel, VisibleMixture, compose
from hockeystick.accounting.events.basic.declared import ZCDP, ApproximateDP, Failure, PureDP
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.numerics.exact_sums import exact, rounded, shown

ADD_OR_REMOVE = Adjacency.ADD_OR_REMOVE_ONE
_SLACK = 1e-12


class BudgetExceededError(HockeystickError):
    """The error that a filter raises when an event does not fit into its budget; nothing is spent.

    Attributes:
      event, count: the event that was refused, and how many times it was to be charged.
      need, remaining: the amounts needed and left, {name of the budget: amount}, rounded to floats.

    Example:
      >>> try:
      ...     PureFilter(1.0).after(PureDP(1.5))
      ... except BudgetExceededError as error:
      ...     print(error.need["epsilon"], error.remaining["epsilon"])
      1.5 1.0
    """

    def __init__(
        self, event: PrivacyEvent, count: int, need: Mapping[str, float], remaining: Mapping[str, float]
    ) -> None:
        super().__init__(event, count, dict(need), dict(remaining))
        self.event, self.count, self.need, self.remaining = event, count, dict(need), dict(remaining)

    def __str__(self) -> str:
        lacking = [name for name, amount in self.need.items() if amount > self.remaining[name]] or list(self.need)
        name = min(lacking, key=lambda key: self.need[key] - self.remaining[key])
        times = f" × {self.count}" if self.count > 1 else ""
        return (
            f"{self.event}{times} needs {name}={self.need[name]:.6g}, but {self.remaining[name]:.6g} is left: "
            "stop here, or choose a cheaper event"
        )


def promised(budget: float) -> float:
    """Returns what a filter of this budget promises, with what its charges and their sum may be off by."""
    return budget * (1 + 2.1 * _SLACK)


def _limit(budget: float) -> int:
    return exact(budget * (1 + _SLACK))


def checked(event: PrivacyEvent, count: int, adjacency: Adjacency) -> tuple[PrivacyEvent, int]:
    """Returns the event and the count where they can be charged under ``adjacency``."""
    check_event(event)
    if not event.accepts(adjacency):
        raise UnsupportedAdjacencyError(
            f"{type(event).__name__} has no meaning under {adjacency.value}: "
            "create the filter or odometer with the adjacency of the data, or use an event that has"
        )
    return event, validate.integer("count", count, low=1)


def known_adjacency(value: object) -> Adjacency:
    """Returns ``value`` where it is an ``Adjacency``."""
    if not isinstance(value, Adjacency):
        raise InvalidArgumentError("adjacency", value, "is not an Adjacency", "use hockeystick.Adjacency")
    return value


def known_mu(value: float) -> float:
    """Returns a budget μ in [1e-50, 1e50]."""
    return validate.real("mu", value, low=1e-50, high=1e50)


def _shown(spent: tuple[int, ...]) -> str:
    return f"({', '.join(map(shown, spent))})"


def gaussian_charge(event: PrivacyEvent) -> float:
    """Returns μ² such that the event, its failure set aside, is μ-Gaussian-DP in both directions; inf if none is known.

    An ε-DP mechanism is μ-Gaussian-DP at e^{−ε} = Φ(−μ/2)/Φ(μ/2): both trade-off curves pass the point where they meet
    the diagonal, one is straight on either side of it and the other convex.
    """
    if type(event) is Gaussian:
        return (1.0 / event.noise_multiplier) ** 2
    if isinstance(event, Composed):
        return math.fsum(count * gaussian_charge(part) for part, count in event.parts)  # Dong, Roth & Su 2022, Cor 3.3
    if isinstance(event, Parallel):
        return max(gaussian_charge(branch) for branch in event.branches)
    if isinstance(event, VisibleMixture):
        return gaussian_charge(event.event) if event.probability else 0.0
    epsilon = event.pure_epsilon()
    if math.isinf(epsilon):
        return math.inf
    if epsilon < 1.0:
        mu = math.sqrt(8.0) * float(special.erfinv(math.tanh(epsilon / 2)))
    else:
        mu = -2.0 * float(special.ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))
    return mu * mu


@frozen(repr=False)
class PrivacyFilter(ABC):
    """A privacy budget and the amount spent of it: an immutable value; ``after`` returns the next one.

    ``budget = budget.after(event)`` charges an event; if the result is dropped, nothing is charged. Keep the newest
    value and go on from that one alone: an older one has forgotten the releases since. A ``FilteredLedger`` counts by
    itself, and a ``DurableLedger`` does so on disk. See ``PureFilter`` for an example.

    Args:
      failure_delta: the budget for the events' failure probabilities.
      adjacency: the neighbouring relation of the data; an event that is not defined under it is refused.
    """

    failure_delta: float = field(default=0.0, kw_only=True, converter=field_checks.delta)
    adjacency: Adjacency = field(default=ADD_OR_REMOVE, kw_only=True, converter=known_adjacency)
    _spent: tuple[int, ...] = field(default=(), kw_only=True, repr=_shown, alias="_spent")
    _failed: int = field(default=0, kw_only=True, repr=shown, alias="_failed")

    def __repr__(self) -> str:
        """The fields and the spent budget, in full: equal texts are equal filters."""
        own = sorted(fields(type(self)), key=lambda attribute: attribute.kw_only)
        told = {one.name: repr(getattr(self, one.name)) for one in own if not one.name.startswith("_")}
        told["adjacency"] = self.adjacency.value
        # Nothing charged yet is not the same value as charges of 0.
        spent = dict(zip(self._budgets(), map(shown, self._spent), strict=False)) | {
            "failure_delta": shown(self._failed)
        }
        told["spent"] = f"{{{', '.join(f'{name}: {amount}' for name, amount in spent.items())}}}"
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in told.items())})"

    @abstractmethod
    def _budgets(self) -> dict[str, float]:
        """The budgets, of which one must hold (where there are several, each has its share of δ)."""

    @abstractmethod
    def _charges(self, event: PrivacyEvent) -> tuple[float, ...]:
        """The charge of the event to each of the budgets."""

    def would_exceed(self, event: PrivacyEvent, *, count: int = 1) -> bool:
        """Says whether ``count`` times ``event`` no longer fits.

        Raises:
          UnsupportedAdjacencyError: the event is not defined under the filter's adjacency.
          InvalidArgumentError: ``event`` is not an event, or ``count`` is not an integer ≥ 1.
        """
        return not self._admits(*self._after(*checked(event, count, self.adjacency)))

    def after(self, event: PrivacyEvent, *, count: int = 1) -> Self:
        """Returns the filter after ``count`` times ``event``; call it before any noise is drawn.

        This value stays as it is: ``budget = budget.after(event)``.

        Raises:
          BudgetExceededError: the event does not fit; this value can still be used for cheaper events.
          UnsupportedAdjacencyError, InvalidArgumentError: as for ``would_exceed``.
        """
        event, count = checked(event, count, self.adjacency)
        spent, failed = self._after(event, count)
        if not self._admits(spent, failed):
            need = dict(zip(self._budgets(), (count * c for c in self._charges(event)), strict=True))
            raise BudgetExceededError(
                event, count, need | {"failure_delta": count * event.failure_delta()}, self.remaining()
            )
        return evolve(self, _spent=spent, _failed=failed)

    def spend(self, *_: object, **__: object) -> NoReturn:
        """Raises an error: it would charge nothing if its result were dropped. Use ``after``.

        Raises:
          RenamedMethodError: always.
        """
        raise RenamedMethodError(
            f"{type(self).__name__}.spend: a filter never changes, so nothing was charged; "
            "use budget = budget.after(event), or a FilteredLedger or DurableLedger, which keep count themselves"
        )

    def remaining(self) -> dict[str, float]:
        """Returns the amount left of each budget, rounded down, by name; "failure_delta" is the last."""
        budgets = self._budgets()
        left = {
            name: rounded(exact(budget) - done, up=False)
            for (name, budget), done in zip(budgets.items(), self._done(), strict=True)
        }
        return left | {"failure_delta": rounded(exact(self.failure_delta) - self._failed, up=False)}

    def total(self) -> dict[str, float]:
        """Returns each budget before anything was spent, by the names of ``remaining``."""
        return self._budgets() | {"failure_delta": self.failure_delta}

    def event(self, *, delta: float | None = None) -> PrivacyEvent:
        """Returns the whole interaction as one event, for composition with others once it is over.

        The event is that of the whole budget, however little of it is spent.

        Args:
          delta: the δ at which to state the event as (ε, δ)-DP, which is all that an ``RDPFilter`` can do; by default
            the event has the whole curve.

        Raises:
          InvalidArgumentError: ``delta`` is not in [0, 1], or is missing for an ``RDPFilter``.
        """
        if delta is not None:
            return ApproximateDP(self.epsilon(delta), delta)
        failure = self.promised_failure()
        return compose(self._curve(), Failure(failure)) if failure else self._curve()

    def epsilon(self, delta: float) -> float:
        """Returns ε such that the interaction is (ε, ``delta``)-DP, however much is spent; inf if there is none.

        The budget alone decides it, so it never changes; nor does any number that ``delta()`` returns.
        """
        spare = validate.probability("delta", delta) - self.promised_failure()
        if self.promised_failure():
            spare = math.nextafter(spare, -1.0)
        if delta >= 1.0:
            return 0.0
        return math.inf if spare < 0.0 else self._curve_epsilon(spare)

    def delta(self, epsilon: float) -> float:
        """Returns δ such that the interaction is (``epsilon``, δ)-DP, however much is spent."""
        curve = self._curve_delta(validate.real("epsilon", epsilon, low=0.0))
        failure = self.promised_failure()
        return min(1.0, math.nextafter(curve + failure, 2.0) if failure else curve)

    def _curve_epsilon(self, delta: float) -> float:
        return best_bound.epsilon(self._curve(), delta).upper

    def _curve_delta(self, epsilon: float) -> float:
        return best_bound.delta(self._curve(), epsilon).upper

    @abstractmethod
    def _curve(self) -> PrivacyEvent:
        """The interaction without its failures, in its promised budget."""

    def promised_failure(self) -> float:
        """Returns the part of δ that stands for the events' failures."""
        return min(1.0, promised(self.failure_delta))

    def _done(self) -> tuple[int, ...]:
        return self._spent or (0,) * len(self._budgets())

    def _after(self, event: PrivacyEvent, count: int) -> tuple[tuple[int, ...], int]:
        spent = []
        for done, budget, charge in zip(self._done(), self._budgets().values(), self._charges(event), strict=True):
            past = max(done, _limit(budget)) + 1  # where an infinite charge leaves a budget for good
            spent.append(done + count * exact(charge) if math.isfinite(charge) else past)
        return tuple(spent), self._failed + count * exact(event.failure_delta())

    def _admits(self, spent: tuple[int, ...], failed: int) -> bool:
        fits = any(done <= _limit(budget) for done, budget in zip(spent, self._budgets().values(), strict=True))
        return fits and failed <= _limit(self.failure_delta)


@frozen(repr=False)
class PureFilter(PrivacyFilter):
    """A filter of pure ε: admits events while their ε sum up to at most ``budget``; the interaction is ``budget``-DP.

    Source: Rogers, Roth, Ullman & Vadhan (2016).

    Example:
      >>> budget = PureFilter(1.0).after(PureDP(0.75))
      >>> budget
      PureFilter(budget=1.0, failure_delta=0.0, adjacency=add-or-remove-one, spent={epsilon: 0.75, failure_delta: 0.0})
      >>> budget.would_exceed(PureDP(0.5)), budget.would_exceed(PureDP(0.25))
      (True, False)
    """

    budget: float = field(converter=field_checks.epsilon)

    def _budgets(self) -> dict[str, float]:
        return {"epsilon": self.budget}

    def _charges(self, event: PrivacyEvent) -> tuple[float, ...]:
        return (event.pure_epsilon(),)

    def _curve(self) -> PrivacyEvent:
        return PureDP(promised(self.budget))


@frozen(repr=False)
class ZCDPFilter(PrivacyFilter):
    """A filter of zCDP: admits events while their ρ sum up to at most ``rho``; the interaction is ``rho``-zCDP.

    Source: Feldman & Zrnic (2021), applied at every order; Lécuyer (2021).

    Example:
      >>> budget = ZCDPFilter.for_target(1.0, 1e-6)
      >>> budget.would_exceed(Gaussian(10.0), count=4), budget.would_exceed(Gaussian(10.0), count=5)
      (False, True)
    """

    rho: float = field(converter=field_checks.rho)

    @classmethod
    def for_target(
        cls, epsilon: float, delta: float, *, failure_delta: float = 0.0, adjacency: Adjacency = ADD_OR_REMOVE
    ) -> ZCDPFilter:
        """Returns the filter with the largest budget for which the interaction is (``epsilon``, ``delta``)-DP.

        Raises:
          InvalidArgumentError: epsilon or delta is not positive, or failure_delta leaves nothing of delta.
        """

        def at(rho: float) -> ZCDPFilter:
            return cls(rho, failure_delta=failure_delta, adjacency=adjacency)

        return largest(at, *target(epsilon, delta, failure_delta), low=1e-30, high=1e30)

    def _budgets(self) -> dict[str, float]:
        return {"rho": self.rho}

    def _charges(self, event: PrivacyEvent) -> tuple[float, ...]:
        return (event.zcdp_rho(),)

    def _curve(self) -> PrivacyEvent:
        return ZCDP(promised(self.rho))


@frozen(repr=False)
class GDPFilter(PrivacyFilter):
    """A filter of Gaussian DP: admits events while their μ² sum up to at most ``mu``²; the interaction is ``mu``-GDP.

    For Gaussian events adaptivity is free: the budget is the exact cost of as much Gaussian noise fixed in advance.
    Events with a pure ε cost somewhat more than with the other filters; all other events are refused.

    Source: Smith & Thakurta (2022); Koskela, Tobaben & Honkela (2023).

    Example:
      >>> budget = GDPFilter.for_target(1.0, 1e-6)
      >>> budget.would_exceed(Gaussian(10.0), count=5), budget.would_exceed(Gaussian(10.0), count=6)
      (False, True)
    """

    mu: float = field(converter=known_mu)

    @classmethod
    def for_target(
        cls, epsilon: float, delta: float, *, failure_delta: float = 0.0, adjacency: Adjacency = ADD_OR_REMOVE
    ) -> GDPFilter:
        """Returns the filter with the largest budget for which the interaction is (``epsilon``, ``delta``)-DP.

        Raises:
          InvalidArgumentError: epsilon or delta is not positive, or failure_delta leaves nothing of delta.
        """

        def at(mu: float) -> GDPFilter:
            return cls(mu, failure_delta=failure_delta, adjacency=adjacency)

        return largest(at, *target(epsilon, delta, failure_delta), low=1e-15, high=1e15)

    def _budgets(self) -> dict[str, float]:
        return {"mu^2": self.mu * self.mu}

    def _charges(self, event: PrivacyEvent) -> tuple[float, ...]:
        return (gaussian_charge(event),)

    def _curve(self) -> PrivacyEvent:
        return Gaussian(1.0 / promised(self.mu))


def target(epsilon: float, delta: float, failure_delta: float) -> tuple[float, float, float]:
    """Returns a target that leaves something of δ after the failures."""
    epsilon = validate.real("epsilon", epsilon, low=1e-12, high=1e12)
    delta = validate.probability("delta", delta, open=True)
    failure_delta = validate.probability("failure_delta", failure_delta)
    if failure_delta >= delta * (1 - 1e-9):
        raise InvalidArgumentError("failure_delta", failure_delta, f"leaves nothing of delta={delta:g}", "give less")
    return epsilon, delta, failure_delta


FilterKind = TypeVar("FilterKind", bound=PrivacyFilter)


def largest(
    at: Callable[[float], FilterKind], epsilon: float, delta: float, _: float, *, low: float, high: float
) -> FilterKind:
    """The filter with the largest budget in [low, high] that keeps to the target, by bisection of its logarithm.

    Both ways to state it must hold: the best orders for ε at δ and for δ at ε are searched apart.
    """

    def keeps(budget: float) -> bool:
        found = at(budget)
        return found.epsilon(delta) <= epsilon and found.delta(epsilon) <= delta

    if not keeps(low):
        raise InvalidArgumentError("epsilon", epsilon, f"can't be kept at delta={delta:g} by any budget", "give more")
    while high > low * (1 + 1e-12):
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return at(low)
