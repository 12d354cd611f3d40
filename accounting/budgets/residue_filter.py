"""A privacy filter that prices each event against the rest of the interaction, and a choice among filters.

Let R_b be the Gaussian pair of μ² = b, and let an event be admitted at the rest b, at the price c and the slack s, if
its composition with R_{b−c} has in each direction, at every ε, a hockey stick of at most that of R_b plus s. Then the
whole interaction that begins at the rest B has at most that of R_B plus all slack, whatever is chosen from earlier
outcomes. By induction on the rounds: given an outcome of loss ℓ, what follows has at most δ_{R_{b−c}} + S'. The whole
then has at most E[δ_{R_{b−c}}(ε − ℓ)] + S' = δ_{E, R_{b−c}}(ε) + S' ≤ δ_{R_b}(ε) + s + S'. The number of rounds
does not matter. The idea is that of Regehr, Hu, Leeman, Manurangsi, Tholoniat & Lécuyer 2026.

A price at the *current* rest matters: the price at the full budget, charged throughout, breaks the promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from attrs import field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.budgets.filters import (
    ADD_OR_REMOVE,
    BudgetExceededError,
    GDPFilter,
    PrivacyFilter,
    PureFilter,
    ZCDPFilter,
    checked,
    gaussian_charge,
    known_mu,
    largest,
    promised,
    target,
)
from hockeystick.accounting.budgets.renyi_filter import RDPFilter
from hockeystick.accounting.budgets.rest_prices import residue_price
from hockeystick.accounting.errors import HockeystickError, InvalidArgumentError
from hockeystick.accounting.events.basic.composition import Composed, Parallel
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.numerics.exact_sums import exact, rounded

_COARSE = 2.0**-20  # of the budget: rests are rounded down to it, so that prices can be used again


def _slack(value: float) -> float:
    return validate.real("slack", value, low=1e-100, high=1e-3)


def _uses(value: int) -> int:
    return validate.integer("uses", value, low=1, high=10**6)


@frozen(repr=False)
class ResidueFilter(PrivacyFilter):
    """A filter whose promise is that of ``mu``-Gaussian DP and δ = ``slack``, with prices that depend on the rest.

    Gaussian events cost exactly 1/σ². Every other event with a privacy profile costs what it takes from the rest, at
    most what a ``GDPFilter`` charges, and usually little more than it adds to a composition that is fixed in advance.
    Samples have a price, too. An event costs more when little is left.

    Args:
      mu: the budget, μ.
      slack: the part of δ that all prices share, at most 1e-3.
      uses: the number of events that can have such a price, each with an equal part of the slack. Gaussian events, and
        those that pay what a ``GDPFilter`` charges, do not count.

    Source: Regehr, Hu, Leeman, Manurangsi, Tholoniat & Lécuyer (2026) for the idea; the proof is in the module.

    Example: 20 events of ε = 1 fit into ε = 30.9; a ``GDPFilter`` admits them from 40.7 on.

      >>> from hockeystick.accounting import GDPFilter, PureDP, ResidueFilter
      >>> plan = {"event": PureDP(1.0), "count": 20}
      >>> ResidueFilter.for_target(30.9, 1e-6, uses=20).would_exceed(**plan)
      False
      >>> [GDPFilter.for_target(epsilon, 1e-6).would_exceed(**plan) for epsilon in (30.9, 40.7)]
      [True, False]
    """

    mu: float = field(converter=known_mu)
    slack: float = field(default=1e-9, kw_only=True, converter=_slack)
    uses: int = field(default=1000, kw_only=True, converter=_uses)

    @classmethod
    def for_target(
        cls,
        epsilon: float,
        delta: float,
        *,
        slack: float | None = None,
        uses: int = 1000,
        failure_delta: float = 0.0,
        adjacency: Adjacency = ADD_OR_REMOVE,
    ) -> ResidueFilter:
        """Returns the filter with the largest budget for which the interaction is (``epsilon``, ``delta``)-DP.

        Args:
          epsilon, delta: the target.
          slack: as above; by default a hundredth of ``delta``.
          uses, failure_delta, adjacency: as above.

        Raises:
          InvalidArgumentError: epsilon or delta is not positive, or slack and failure_delta leave nothing of delta.
        """
        share = 0.01 * validate.probability("delta", delta, open=True) if slack is None else slack
        wanted = target(epsilon, delta, min(1.0, failure_delta + share))

        def at(mu: float) -> ResidueFilter:
            return cls(mu, slack=min(share, 1e-3), uses=uses, failure_delta=failure_delta, adjacency=adjacency)

        return largest(at, *wanted, low=1e-15, high=1e15)

    def price(self, event: PrivacyEvent) -> float:
        """Returns what the event costs of μ² now, its failure set aside; inf if it does not fit.

        Raises:
          UnsupportedAdjacencyError, InvalidArgumentError: as for ``would_exceed``.
        """
        event, _ = checked(event, 1, self.adjacency)
        (before, _), (after, _) = self._done(), self._charged(self._done(), event, 1)
        return rounded(after - before, up=True) if after <= exact(self.mu * self.mu) else math.inf

    def promised_failure(self) -> float:
        return min(1.0, super().promised_failure() + self.slack * (1 + 1e-12))  # the base rounds as generously

    def _budgets(self) -> dict[str, float]:
        return {"mu^2": self.mu * self.mu, "uses": float(self.uses)}

    def _charges(self, event: PrivacyEvent) -> tuple[float, ...]:
        return (self.price(event), 1.0)

    def _curve(self) -> PrivacyEvent:
        return Gaussian(1.0 / promised(self.mu))

    def _after(self, event: PrivacyEvent, count: int) -> tuple[tuple[int, ...], int]:
        return self._charged(self._done(), event, count), self._failed + count * exact(event.failure_delta())

    def _admits(self, spent: tuple[int, ...], failed: int) -> bool:
        return all(done <= exact(whole) for done, whole in zip(spent, self._budgets().values(), strict=True)) and (
            failed <= exact(self.failure_delta)
        )

    def _charged(self, done: tuple[int, ...], event: PrivacyEvent, count: int) -> tuple[int, ...]:
        """Returns what is spent after ``count`` times the event: parts of compositions one after the other."""
        if isinstance(event, Composed):
            for _ in range(count if len(event.parts) > 1 else 1):
                for part, times in event.parts:
                    done = self._charged(done, part, times * (1 if len(event.parts) > 1 else count))
            return done
        if isinstance(event, Parallel):
            for _ in range(count):
                ways = [self._charged(done, branch, 1) for branch in event.branches]
                done = tuple(max(amounts) for amounts in zip(*ways, strict=True))
            return done
        spent, used = done
        whole, known = exact(self.mu * self.mu), gaussian_charge(event)
        if type(event) is Gaussian:
            return spent + count * exact(known), used
        for left in range(count, 0, -1):
            if used >= exact(float(self.uses)):
                return (spent + left * exact(known) if math.isfinite(known) else whole + 1), used
            # The product, the difference and the quotient below are off by U each.
            rest = self.mu * self.mu * (1 - 1e-15) - rounded(spent, up=True)
            step = self.mu * self.mu * _COARSE
            rest = math.floor(rest / step) * step
            price = known
            if rest > 0.0:
                price = min(known, residue_price(event, rest, self.slack / self.uses, known))
                used += exact(1.0) if price < known else 0
            if not math.isfinite(price) or spent + exact(price) > whole:
                return whole + 1, used
            spent += exact(price)
        return spent, used


def filter_for(
    epsilon: float,
    delta: float,
    *,
    expect: Iterable[PrivacyEvent | tuple[PrivacyEvent, int]],
    failure_delta: float = 0.0,
    adjacency: Adjacency = ADD_OR_REMOVE,
) -> PrivacyFilter:
    """Returns the filter for a target that has the most room after the events that are expected.

    It must be chosen before the first event, and its promise does not depend on what comes. Running several filters and
    keeping the one with room at the end would have to share δ among them. Room is what a filter has left in proportion
    to its budget; a filter that does not admit all expected events has as much as the share of them that it admits,
    less 1.

    Args:
      epsilon, delta: the target.
      expect: the expected events in their order, each alone or with a count.
      failure_delta, adjacency: see ``PrivacyFilter``.

    Raises:
      InvalidArgumentError: the target can't be kept, or nothing is expected.
      UnsupportedAdjacencyError: an event is not defined under the relation.

    Example:
      >>> from hockeystick.accounting import Gaussian, PureDP, filter_for
      >>> type(filter_for(20.1, 1e-6, expect=[(PureDP(1.0), 20)])).__name__
      'PureFilter'
      >>> type(filter_for(1.0, 1e-6, expect=[(Gaussian(20.0), 10)])).__name__
      'GDPFilter'
    """
    plan = [part if isinstance(part, tuple) else (part, 1) for part in validate.items("expect", expect)]
    plan = [checked(event, count, adjacency) for event, count in plan]
    if not plan:
        raise InvalidArgumentError("expect", expect, "is empty", "give the events that you expect")
    options = {"failure_delta": failure_delta, "adjacency": adjacency}
    uses = min(10**6, max(1, sum(count for _, count in plan)))
    kinds: list[PrivacyFilter] = [
        GDPFilter.for_target(epsilon, delta, **options),  # type: ignore[arg-type]
        PureFilter(epsilon, **options),  # type: ignore[arg-type]
        ZCDPFilter.for_target(epsilon, delta, **options),  # type: ignore[arg-type]
        RDPFilter.for_target(epsilon, delta, **options),  # type: ignore[arg-type]
        ResidueFilter.for_target(epsilon, delta, uses=2 * uses, **options),  # type: ignore[arg-type]
    ]
    return max(kinds, key=lambda kind: room(kind, plan))


def room(budget: PrivacyFilter, plan: list[tuple[PrivacyEvent, int]]) -> float:
    """Returns the share of its budget that a filter has left after a plan; below 0 if it does not admit all of it."""
    admitted, whole = 0, sum(count for _, count in plan)
    for event, count in plan:
        try:
            budget = budget.after(event, count=count)
        except BudgetExceededError:
            low, high = 0, count
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if budget.would_exceed(event, count=middle) else (middle, high)
            return (admitted + low) / whole - 1.0
        except HockeystickError:
            return -1.0
        admitted += count
    left, total = budget.remaining(), budget.total()
    return max(left[name] / total[name] for name in total if name not in ("failure_delta", "uses") and total[name])
