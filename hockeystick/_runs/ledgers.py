"""The ledger that a released result is charged to."""

from __future__ import annotations

from typing import Any

from hockeystick.accounting import Adjacency, DurableLedger, UnsupportedAdjacencyError

WITHHELD = "a function of the data that the guarantee does not cover: not released"
"""Why a release has no loss and no regret."""


def opened(place: str | None, relation: Adjacency = Adjacency.REPLACE_ONE) -> DurableLedger | None:
    """Returns a ledger, after checking its neighbouring relation before any record is read; None for None.

    Args:
        place: A file or a URL, as in ``DurableLedger.open``.
        relation: The relation under which the cost of the release is stated.

    Raises:
        LedgerError: It can't be read, or is damaged.
        UnsupportedAdjacencyError: It is for another relation.
    """
    if place is None:
        return None
    found = DurableLedger.open(place)
    if found.adjacency is not relation:
        why = "this release hides no record's presence, only its values"
        if relation is not Adjacency.REPLACE_ONE:
            why = f"the cost of this release is under {relation.value}"
        raise UnsupportedAdjacencyError(
            f"--ledger is for {found.adjacency.value}, but {why}: "
            f"make one with hockeystick ledger create --adjacency {relation.value}"
        )
    return found


def charging(ledger: DurableLedger | None, command: str) -> dict[str, Any]:
    """Returns the arguments of a learner's ``release`` that charge a ledger, with the command as its note."""
    return {} if ledger is None else {"ledger": ledger, "name": f"hockeystick {command}"}
