"""How a mechanism publishes: check the value, record the cost, then draw, in this order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from hockeystick.accounting import (
    Adjacency,
    DurableLedger,
    FilteredLedger,
    InvalidArgumentError,
    Ledger,
    PrivacyEvent,
    UnsupportedAdjacencyError,
)
from hockeystick.mechanisms.randomness.noise import Noise, check_noise

AnyLedger = Ledger | FilteredLedger | DurableLedger
T = TypeVar("T")


class Releasable(ABC):
    """Base of the mechanisms that release: they say what they cost, check a value, and draw one output for it."""

    __slots__ = ()

    @abstractmethod
    def event(self) -> PrivacyEvent:
        """Returns the cost for one record."""

    def _relation(self) -> Adjacency | None:
        """The relation that the cost is meant for; None where the caller stated a sensitivity for that of the data."""
        return None

    @abstractmethod
    def _checked(self, value: Any) -> Any:
        """Returns the value as ``_draw`` takes it; refuses what is none."""

    @abstractmethod
    def _draw(self, checked: Any, noise: Noise) -> Any:
        """Draws one output."""

    def release(
        self,
        value: Any,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> Any:
        """Returns one output for a value, to be published.

        The cost is recorded before anything is drawn, so a crash leaves a charge and never an uncharged release. A
        refusal leaves the ledger as it was, and nothing was drawn.

        Args:
          value: the noiseless value, as ``simulate`` takes it.
          ledger: where the release is recorded: a ``Ledger`` of a plan, a ``FilteredLedger`` or a ``DurableLedger``.
          name: the release's name in the ledger; for a ``DurableLedger`` a note.
          reads: what it reads, for a ``FilteredLedger``.
          noise: ``SimulationNoise`` to run the same code repeatably. That is no release, and is recorded as simulated.

        Raises:
          SecureReleaseUnavailableError: there is no secure source of noise (the extra ``secure``).
          InvalidArgumentError: the value is none of this mechanism's, or ``ledger`` and its arguments don't fit.
          HockeystickError: the ledger refuses; see ``Ledger.record``, ``FilteredLedger.record``,
            ``DurableLedger.reserve``.
        """
        checked, source = self._checked(value), check_noise(noise)
        return self._charged(lambda: self._draw(checked, source), source, ledger, name, reads)

    def _charged(
        self,
        draw: Callable[[], T],
        noise: Noise,
        ledger: AnyLedger | None,
        name: str | None,
        reads: Iterable[str] | None,
    ) -> T:
        return charged(self.event(), draw, noise, ledger, name, reads, adjacency=self._relation())


def charged(
    event: PrivacyEvent,
    draw: Callable[[], T],
    noise: Noise,
    ledger: AnyLedger | None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    *,
    adjacency: Adjacency | None,
) -> T:
    """Records ``event`` in ``ledger``, if there is one, and returns ``draw()``.

    Args:
      adjacency: the relation that ``event`` is the cost under. An event alone does not tell: a learner may publish how
        many records there are, at no cost under replace-one and at an infinite one under add-or-remove-one. None where
        the caller has stated a sensitivity, which is for the relation of the caller's own ledger.

    Raises:
      InvalidArgumentError: it is no ledger, or ``name`` and ``reads`` are missing or given where they mean nothing.
      UnsupportedAdjacencyError: the ledger is for another relation; nothing was recorded.
    """
    if ledger is None:
        if name is not None or reads is not None:
            raise InvalidArgumentError("ledger", None, "is missing beside name or reads", "give the ledger, too")
        return draw()
    if not isinstance(ledger, (Ledger, FilteredLedger, DurableLedger)):
        raise InvalidArgumentError("ledger", ledger, "is no ledger", "give a Ledger, FilteredLedger or DurableLedger")
    if adjacency is not None and ledger.adjacency is not adjacency:
        raise UnsupportedAdjacencyError(
            f"the ledger is for {ledger.adjacency.value}, and what this release costs is known for {adjacency.value}; "
            f"charge a ledger that was made with adjacency=Adjacency.{adjacency.name}"
        )
    if isinstance(ledger, DurableLedger):
        _refuse("reads", reads, ledger)
        return ledger.spend(event, draw, note=f"{name or ''}{' (simulated)' if noise.simulated else ''}")
    if name is None:
        raise InvalidArgumentError("name", name, "is missing", "name the release in the ledger")
    if isinstance(ledger, FilteredLedger):
        if reads is None:
            raise InvalidArgumentError("reads", reads, "is missing", "say what the release reads")
        ledger.record(name, event, reads=reads, simulated=noise.simulated)
    else:
        _refuse("reads", reads, ledger)
        ledger.record(name, event, simulated=noise.simulated)
    return draw()


def _refuse(argument: str, value: object, ledger: AnyLedger) -> None:
    if value is not None:
        raise InvalidArgumentError(argument, value, f"means nothing to a {type(ledger).__name__}", "leave it out")
