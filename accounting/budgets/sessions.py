"""The sessions of runs that a ledger was charged for: which of them may go on with a run.

A run is charged once. A checkpoint of it that is resumed twice becomes two runs, which publish two draws for one
charge. So the sessions of a run are numbered, each of its checkpoints has the number of its session, and a session that
goes on from a checkpoint takes the next number, which nobody else can take again.
"""

from __future__ import annotations

from collections.abc import Mapping

from hockeystick.accounting import validate
from hockeystick.accounting.budgets.stores.rows import LedgerError


def checked_run(value: object) -> str:
    """Returns the name of a run."""
    return validate.text("run", value, "name the run")


class Sessions:
    """The last session of each run. See ``DurableLedger.record_session``."""

    def __init__(self, known: Mapping[str, int] | None = None) -> None:
        self._known: Mapping[str, int] = {} if known is None else known
        self._last: dict[str, int] = {}

    def check(self, run: str, session: int) -> None:
        """Refuses a session that is not the next one of its run.

        Raises:
          LedgerError: so it is.
        """
        last = self._last.get(run, self._known.get(run, -1))
        if session == last + 1:
            return
        if last < 0:
            raise LedgerError("this ledger was not charged for this run: give the ledger that its start was given")
        raise LedgerError(
            "this checkpoint, or one of the same session, was resumed before: two runs would be published for one "
            "charge; go on with the later session"
        )

    def record(self, run: str, session: int) -> None:
        """Records the next session of a run.

        Raises:
          LedgerError: as :meth:`check`.
        """
        self.check(run, session)
        self._last[run] = session

    def later(self) -> Sessions:
        """Returns what may follow, to record in it without changing this."""
        return Sessions(self._last)

    def take(self, later: Sessions) -> None:
        """Takes over what was recorded in a value of :meth:`later`."""
        self._last |= later._last
