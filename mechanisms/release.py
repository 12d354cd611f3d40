"""The release of a mechanism: it checks the value, records the cost and then draws, in this order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from hockeystick._guess.arguments import guessing_arguments
from hockeystick.accounting import (
    Adjacency,
    DurableLedger,
    FilteredLedger,
    InvalidArgumentError,
    Ledger,
    PrivacyEvent,
    UnsupportedAdjacencyError,
)
from hockeystick.accounting.validate import text
from hockeystick.mechanisms.randomness.noise import Noise, check_noise

AnyLedger = Ledger | FilteredLedger | DurableLedger
T = TypeVar("T")


class Releasable(ABC):
    """Base of the mechanisms that release: they state their cost, check a value and draw one output for it."""

    __slots__ = ()

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        guessing_arguments(cls)

    @abstractmethod
    def event(self) -> PrivacyEvent:
        """Returns the cost for one record."""

    def _relation(self) -> Adjacency | None:
        """The neighbouring relation of the cost; None where the caller states a sensitivity for the relation in use."""
        return None

    @abstractmethod
    def _checked(self, value: Any) -> Any:
        """Returns the value in the form that ``_draw`` takes; refuses an invalid one."""

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

        The cost is recorded before anything is drawn, so a crash may leave a charge without a release, never a release
        without a charge. A refusal leaves the ledger unchanged, and nothing is drawn.

        Args:
          value: the noiseless value, as ``simulate`` takes it.
          ledger: the ledger that is charged: the ``Ledger`` of a plan, a ``FilteredLedger`` or a ``DurableLedger``.
          name: the name of the release in the ledger; for a ``DurableLedger`` a note.
          reads: the sources that the release reads, for a ``FilteredLedger``.
          noise: ``SimulationNoise`` runs the same code repeatably. The output is then not a release, and the ledger
            records it as simulated.

        Raises:
          InvalidArgumentError: the value is not valid for this mechanism, or ``ledger`` and its arguments don't fit.
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
        if ledger is None and name is None and reads is None:  # nothing is recorded: the event is not needed
            return draw()
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
    run: str | None = None,
) -> T:
    """Records ``event`` in ``ledger``, if one is given, and returns ``draw()``.

    Args:
      adjacency: the neighbouring relation under which ``event`` is the cost. The event alone does not determine it: to
        publish the number of records costs nothing under replace-one and is not private under add-or-remove-one. None
        where the caller states a sensitivity, which is for the relation of the caller's own ledger.
      run: a new name, for a run that may be continued; see ``DurableLedger.record_session``.

    Raises:
      InvalidArgumentError: ``ledger`` is not a ledger, or ``name`` or ``reads`` is missing, or given where it has no
        meaning.
      UnsupportedAdjacencyError: the ledger is for another relation; nothing is recorded.
    """
    if ledger is None:
        if name is not None or reads is not None:
            raise InvalidArgumentError(
                "ledger", None, "is missing although name or reads is given", "give the ledger too"
            )
        return draw()
    if not isinstance(ledger, (Ledger, FilteredLedger, DurableLedger)):
        raise InvalidArgumentError(
            "ledger", ledger, "is not a ledger", "give a Ledger, FilteredLedger or DurableLedger"
        )
    if adjacency is not None and ledger.adjacency is not adjacency:
        raise UnsupportedAdjacencyError(
            f"the ledger is for {ledger.adjacency.value}, but the cost of this release is under {adjacency.value}; "
            f"charge a ledger made with adjacency=Adjacency.{adjacency.name}"
        )
    if isinstance(ledger, DurableLedger):
        _refuse("reads", reads, ledger)
        return ledger.spend(event, draw, note=f"{name or ''}{' (simulated)' if noise.simulated else ''}", run=run)
    name = text("name", name, "name the release in the ledger")
    if isinstance(ledger, FilteredLedger):
        if reads is None:
            raise InvalidArgumentError("reads", reads, "is missing", "name the sources that the release reads")
        ledger.record(name, event, reads=reads, simulated=noise.simulated)
    else:
        _refuse("reads", reads, ledger)
        ledger.record(name, event, simulated=noise.simulated)
    if run is not None:
        ledger.record_session(run, 0)
    return draw()


def _refuse(argument: str, value: object, ledger: AnyLedger) -> None:
    if value is not None:
        raise InvalidArgumentError(argument, value, f"has no meaning for a {type(ledger).__name__}", "leave it out")
