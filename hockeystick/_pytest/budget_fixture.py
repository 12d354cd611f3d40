"""The value of the fixture ``privacy_lock``: a call certifies a budget and compares it with the locked one.

A budget that is not locked, that rose, or whose terms changed fails the test. One that fell, or that has another event
graph at the same ε, passes with a :class:`PrivacyLockWarning`. With ``--privacy-update`` nothing is compared: the
budget travels with the test's report to the process that writes the file at the end. An infinite ε is above every
locked one, and can't be locked. A budget that can't be certified is recorded as such.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable
from importlib import metadata
from typing import Any

import pytest
from attrs import frozen

from hockeystick import accounting
from hockeystick._pytest.lock_file import (
    INFINITE,
    Budget,
    Change,
    LockFile,
    PrivacyLockError,
    compare,
    digest,
    round_up,
)
from hockeystick._pytest.plugin_settings import settings
from hockeystick._pytest.records import BUDGET, leave
from hockeystick.accounting import AccountantGraph, Adjacency, Guarantee, InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.errors import HockeystickError, UnsupportedAdjacencyError, UnsupportedEventError
from hockeystick.accounting.events import event_json
from hockeystick.accounting.graph.parts.charges import EVERYTHING
from hockeystick.accounting.validate import integer, items, real

_LOCK = pytest.StashKey[LockFile]()


class PrivacyLockWarning(UserWarning):
    """A privacy test passed, but its locked budget should be updated."""


class PrivacyLock:
    """The value of the fixture ``privacy_lock``: call it with a name and an object to certify."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._settings = settings(item.config)
        self._seen: dict[str, Budget] = {}
        self._locked = None if self._settings.update else locked(item.config)

    @classmethod
    def for_test(cls, item: pytest.Item) -> PrivacyLock:
        """Returns the fixture's value for a test; a lock file that can't be read is an error at the test's set-up."""
        try:
            return cls(item)
        except PrivacyLockError as error:
            pytest.fail(str(error), pytrace=False)

    def __call__(
        self,
        name: str,
        what: object,
        *,
        delta: float | Iterable[float],
        group: int = 1,
        view: str | None = None,
        under: Adjacency | None = None,
        adjacency: Adjacency | None = None,
        unit: str = "one record",
    ) -> Guarantee | PrivacyEvent:
        """Certifies the budget of ``what``, records it under ``name``, and fails the test if it is not as locked.

        Args:
          name: The algorithm's name, unique in the suite.
          what: A graph, a guarantee, an event, or an object with ``graph()``, ``guarantee()`` or ``event()``: a learner
            or a mechanism.
          delta: One δ in [0, 1) or several, at which ε is locked.
          group, view, under: See :meth:`hockeystick.AccountantGraph.guarantee`. An event takes ``group`` only.
          adjacency: The neighbouring relation; required for an event or a mechanism, and refused otherwise.
          unit: The unit of privacy in words.

        Returns:
          The guarantee, or the event (of the whole group), which an audit takes as ``claim=``.

        Raises:
          InvalidArgumentError: An argument is outside its domain.
          UnsupportedAdjacencyError, UnsupportedEventError, GraphError, NumericalError: The budget can't be certified.
        """
        __tracebackhide__ = True
        for argument, text in (("name", name), ("unit", unit)):
            if not isinstance(text, str) or not text.strip() or not text.isprintable():
                raise InvalidArgumentError(argument, text, "is not printable text", "give a text in one line")
        try:
            source = Certified.of(what, group=group, view=view, under=under, adjacency=adjacency)
            budget = source.budget(delta, unit)
        except HockeystickError as error:
            leave(self._item, BUDGET, {"name": name, "error": str(error)})
            raise error.with_traceback(None)  # noqa: B904  # the traceback should end at the test's line
        before = self._seen.setdefault(name, budget)
        if before != budget:
            pytest.fail(f"privacy budget {name!r} is recorded twice in this test, as {before} and as {budget}", False)
        leave(self._item, BUDGET, {"name": name, "budget": budget.to_dict()})
        file = self._settings.lock.name
        if self._locked is not None:
            change = compare(self._locked.budgets.get(name), budget)
            if change.refused:
                pytest.fail(sentence(name, change, file), pytrace=False)
            if change.kind != "same":
                warnings.warn(PrivacyLockWarning(sentence(name, change, file)), stacklevel=2)
        elif not budget.finite:
            pytest.fail(f"privacy budget {name!r}: {budget}; {INFINITE}", pytrace=False)
        return source.value


def locked(config: pytest.Config) -> LockFile:
    """Returns the content of the lock file, which is read once per process.

    Raises:
      PrivacyLockError: The file can't be read.
    """
    if _LOCK not in config.stash:
        config.stash[_LOCK] = LockFile.read(settings(config).lock)
    return config.stash[_LOCK]


def sentence(name: str, change: Change, file: str) -> str:
    """Returns a message about a changed budget, with every changed value, and the way out."""
    what = {
        "new": f"is not in {file}",
        "terms": f"has other terms than in {file}",
        "rise": f"rose above {file}",
        "fall": f"fell below {file}",
        "graph": f"has the ε of {file}, but from another event graph",
        "same": f"is as in {file}",
    }[change.kind]
    return "\n  ".join([f"privacy budget {name!r} {what}", *change.lines, change.way_out])


@frozen
class Certified:
    """A guarantee or event with a certified ε at every δ, and the terms of the ε."""

    value: Guarantee | PrivacyEvent
    adjacency: Adjacency
    group: int
    threat_model: str
    assumptions: tuple[str, ...]
    digest: str | None

    @classmethod
    def of(
        cls,
        what: object,
        *,
        group: int = 1,
        view: str | None = None,
        under: Adjacency | None = None,
        adjacency: Adjacency | None = None,
    ) -> Certified:
        """Returns ``what`` with its terms; the arguments are those of :meth:`PrivacyLock.__call__`."""
        group = integer("group", group, low=1)
        what = _unwrapped(what)
        if adjacency is not None and not isinstance(adjacency, Adjacency):
            raise InvalidArgumentError("adjacency", adjacency, "is not an Adjacency", "use hockeystick.Adjacency")
        if isinstance(what, PrivacyEvent):
            if view is not None or under is not None:
                raise InvalidArgumentError("view", view or under, "can't be used with an event", "give a graph")
            if adjacency is None:
                raise InvalidArgumentError(
                    "adjacency", None, "is missing: an event has no neighbouring relation", "give adjacency="
                )
            if not what.accepts(adjacency):
                name = type(what).__name__
                raise UnsupportedAdjacencyError(f"{name} does not support {adjacency.value}; give another relation")
            event = what.at(group)
            return cls(event, adjacency, group, EVERYTHING, (), _digest(what))
        if adjacency is not None:
            raise InvalidArgumentError(
                "adjacency", adjacency, "is determined by the graph", "leave it out, or give under="
            )
        if isinstance(what, AccountantGraph):
            found = what.guarantee(group=group, view=view, under=under)
        elif isinstance(what, Guarantee) and (group, view, under) == (1, None, None):
            found = what
        elif isinstance(what, Guarantee):
            raise InvalidArgumentError("what", what, "already has its group, view and relation", "give the graph")
        else:
            raise InvalidArgumentError("what", what, "can't be certified", "give a graph, a guarantee or an event")
        graph = found.graph if isinstance(found.graph, AccountantGraph) else found
        return cls(found, found.adjacency, found.group, found.threat_model, found.assumptions, _digest(graph))

    def budget(self, delta: float | Iterable[float], unit: str = "one record") -> Budget:
        """Returns the budget at one δ or several.

        Raises:
          InvalidArgumentError: A δ is not in [0, 1), or no δ is given.
        """
        single = isinstance(delta, Iterable) and not isinstance(delta, str)
        deltas = {
            real("delta", one, low=0.0, high=1.0, high_open=True) + 0.0  # -0.0 is written as 0.0
            for one in (items("delta", delta) if single else [delta])
        }
        if not deltas:
            raise InvalidArgumentError("delta", delta, "is empty", "give one δ or several")
        rows = []
        for one in sorted(deltas):
            value = self.value
            bound = value.epsilon(one) if isinstance(value, Guarantee) else accounting.epsilon(value, one)
            rows.append((one, round_up(bound.upper) if math.isfinite(bound.upper) else math.inf, bound.method))
        terms = (self.adjacency.value, unit, self.group, self.threat_model, self.assumptions, self.digest)
        return Budget(tuple(rows), *terms, f"hockeystick {metadata.version('hockeystick')}")


def _unwrapped(what: object) -> object:
    if isinstance(what, (AccountantGraph, Guarantee, PrivacyEvent, type)):
        return what
    for name in ("graph", "guarantee", "event"):
        method = getattr(what, name, None)
        if callable(method):
            return method()
    return what


def _digest(what: AccountantGraph | Guarantee | PrivacyEvent) -> str | None:
    try:
        if isinstance(what, PrivacyEvent):
            return digest("event", event_json.event_to_json(what))
        plain: dict[str, Any] = json.loads(what.to_json())
    except UnsupportedEventError:  # an event of the user's own class
        return None
    return digest("graph" if isinstance(what, AccountantGraph) else "guarantee", plain)
