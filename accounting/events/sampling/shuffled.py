"""The shuffle model: a trusted shuffler publishes the reports of n persons without saying whose each is."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.answers.drifting_law import OneWay
from hockeystick.accounting.events.answers.local_randomizer import LocalRandomizer
from hockeystick.accounting.events.answers.randomized_response import Oriented
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.basic.given_curves import WorstPair, worst_under_profile
from hockeystick.accounting.events.sampling.shuffle_bounds import (
    MOST_EXACT,
    Blanket,
    Clone,
    ShuffleBound,
    TwoReports,
    distinct_pairs,
)
from hockeystick.accounting.losses.dominating_pairs import Atoms, GaussianPair

_MOST_REPORTS = 10**12
_MOST_PAIRS = 64  # of different rows, one search each
_POINTS = 100
_NEGLIGIBLE = 1e-18  # δ of the last point before the largest loss
_FARTHEST = 690.0  # a loss whose exponential is a float
_BEYOND = 40.0  # losses of reports that some inputs never send are charged as infinite


def _n(value: int) -> int:
    number = validate.integer("n", value, low=1, high=_MOST_REPORTS)
    if number == 1:
        raise InvalidArgumentError("n", value, "is one report, which nothing hides", "use the local event itself")
    return number


@frozen
class Shuffled(WorstPair):
    """The multiset of ``n`` reports, one from each person by the same local randomiser, after a trusted shuffler.

    The number of reports is public, so it is meant only under replace-one: one person's input takes another value. The
    randomiser must not depend on other reports, and a public part of a message (a hash, a candidate's index) is part of
    the report. The bound holds for any inputs of the others, known or not, and is one of

    * ``shuffle-exact``: ``local`` is a ``LocalRandomizer`` with two reports and n ≤ 20,000: the exact curve.
    * ``shuffle-blanket``: any other ``LocalRandomizer``. It is exact to the decomposition into a common part of all
      inputs' laws and a rest that is revealed (Balle, Bell, Gascón & Nissim 2019; Su, Cheng & Wang 2025).
    * ``shuffle-clone``: any other event of finite pure ε, and Gaussian noise in any dimension. It uses the local ε and
      δ(ε) alone, as the event bounds more than one mechanism: ``RandomizedResponse`` is also the cost of one bit about
      one of many public candidates. With the largest δ(ε) at that ε it is the "strong clone" (Feldman, McMillan &
      Talwar 2023).

    The lower end of a bracket is that of the counts of reports in two classes.

    The formulas are in ``accounting/events/sampling/shuffle_bounds.py``. In a composition, chords of the curve between
    some hundred points are convolved, which are above it. No bound is above that of the local event.

    Attributes:
      local: the cost of one report to its sender: a ``LocalRandomizer`` with the complete table, or any event that is
        meaningful under local adjacency with a finite pure ε and no failure, or ``Gaussian``.
      n: the number of persons, from 2 to 1e12.

    Raises:
      InvalidArgumentError: a number out of range, or an event without a known bound.

    Example:
      >>> from hockeystick.accounting import LocalRandomizer, RandomizedResponse, Shuffled, epsilon
      >>> bit = LocalRandomizer.randomized_response(1.0)
      >>> found = [epsilon(Shuffled(local, 1000), 1e-6) for local in (bit, RandomizedResponse(1.0))]
      >>> [(f"{bound:.4f}", bound.method) for bound in found]
      [('0.1267', 'shuffle-exact'), ('0.1487', 'shuffle-clone')]
    """

    local: PrivacyEvent = field()
    n: int = field(converter=_n)
    adjacencies: ClassVar[frozenset[Adjacency] | None] = frozenset({Adjacency.REPLACE_ONE})

    def __attrs_post_init__(self) -> None:
        local = self.local
        if not isinstance(local, PrivacyEvent):
            remedy = "give the event of one report, or a LocalRandomizer"
            raise InvalidArgumentError("local", local, "is not a privacy event", remedy)
        check_event(local)
        if not local.accepts(Adjacency.LOCAL):
            raise InvalidArgumentError("local", local, "has no meaning for one report", "give a local event")
        if _is_one_way(local):
            raise InvalidArgumentError("local", local, "bounds one direction alone", "give the event of both")
        if local.pure_epsilon() > _FARTHEST and not isinstance(local.pair(), GaussianPair):
            remedy = "use the local event itself, or a LocalRandomizer with the report's table"
            reason = f"is neither Gaussian nor known to be ε-DP at an ε of at most {_FARTHEST:g}, as the bound needs"
            raise InvalidArgumentError("local", local, reason, remedy)
        if local.failure_delta() > 0.0 and not isinstance(local, LocalRandomizer):
            remedy = "charge its failure of all n reports apart, and give the event without it"
            raise InvalidArgumentError("local", local, "fails with a probability above 0", remedy)

    def bound(self) -> ShuffleBound:
        """Returns the bound on δ at each ε; see ``shuffle_bounds``."""
        return _bound_of(self)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return (self.local,)

    def has_profile(self) -> bool:
        return True

    def pure_epsilon(self) -> float:
        return super().pure_epsilon() if self._reveals() else self.local.pure_epsilon()

    def failure_delta(self) -> float:
        return super().failure_delta() if self._reveals() else 0.0

    def _reveals(self) -> bool:
        """Whether what lies beyond the last point of the curve is charged as a failure."""
        return self.local.failure_delta() > 0.0 or math.isinf(self.local.pure_epsilon())

    def _worst(self) -> Atoms:
        return _worst_of(self)


def _is_one_way(event: PrivacyEvent) -> bool:
    own = isinstance(event, (Oriented, OneWay)) or getattr(event, "orientation", "free") != "free"
    return own or any(map(_is_one_way, event.children()))


@lru_cache(maxsize=64)
def _bound_of(event: Shuffled) -> ShuffleBound:
    local, n = event.local, event.n
    if not isinstance(local, LocalRandomizer):
        return Clone(local.pure_epsilon(), local.pair(), n)
    rows = local.table()
    pure = math.inf if local.failure_delta() > 0.0 else local.pure_epsilon()
    if rows.shape[1] == 2 and n <= MOST_EXACT:
        ordered = rows[np.argsort(rows[:, 1])]
        (none, one), (zero, few) = ordered[-1].tolist(), ordered[0].tolist()
        return TwoReports((one, none), (few, zero), n)
    pairs = distinct_pairs(rows)
    if len(pairs) > _MOST_PAIRS and math.isfinite(pure):
        return Clone(pure, local.pair(), n)
    return Blanket(pure, pairs, n)


@lru_cache(maxsize=64)
def _worst_of(event: Shuffled) -> Atoms:
    """The pair of the largest profile below the bound at points from 0 to where it is negligible, and at the end."""
    bound, largest, ends = event.bound(), event.local.pure_epsilon(), not event._reveals()
    if ends and largest == 0.0:
        return worst_under_profile((0.0,), (0.0,))
    top = largest if ends else _BEYOND
    far = min(top, 1.0 / math.sqrt(event.n))
    while far < top and bound.delta(far) > _NEGLIGIBLE:
        far = min(2 * far, top)
    places = np.unique(np.concatenate([np.linspace(0.0, far, _POINTS), np.geomspace(far / 1e4, far, _POINTS // 2)]))
    points = [(place, bound.delta(place)) for place in places.tolist() if place < top or not ends]
    if ends:
        points.append((top, 0.0))
    return worst_under_profile(*map(tuple, zip(*points, strict=True)))
