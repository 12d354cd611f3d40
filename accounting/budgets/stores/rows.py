"""The rows of a durable ledger and the contract of the databases that keep them.

A ledger is one *head* and its charges. The head has the filter, the number of charges and the digest of the last row.
Each charge has its number, its text and the SHA-256 of its text and of the digest before. So a row that was edited,
lost or repeated shows, and with the head also a missing last one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

from attrs import frozen

from hockeystick.accounting.errors import HockeystickError


class LedgerError(HockeystickError):
    """The error of a ledger that can't be trusted, read or written; nothing was drawn."""


class LedgerTimeoutError(LedgerError):
    """The error of a ledger that another process kept for longer than the time limit; nothing was charged."""


@frozen
class Row:
    """One charge as it is stored.

    Attributes:
      number: 1 for the first charge.
      text: the charge, in JSON.
      digest: of ``text`` and the row before, in hexadecimal.
    """

    number: int
    text: str
    digest: str


@frozen
class Snapshot:
    """The state of a store at one moment.

    Attributes:
      header: the filter, in JSON.
      charges: number of charges.
      digest: digest of the last row, or of the header if there is none.
      rows: the charges after the first ``known`` ones, in order.
      known_digest: digest of the row ``known``, or None if there is none.
    """

    header: str
    charges: int
    digest: str
    rows: tuple[Row, ...]
    known_digest: str | None


class Store(Protocol):
    """A place that keeps one ledger. One thread at a time calls it; a forked process may go on with it."""

    @property
    def place(self) -> str:
        """The file or database, as error messages name it; without a password."""

    def create(self, header: str, digest: str, rows: list[Row]) -> None:
        """Stores a new ledger, with its first rows, in one step; a ``LedgerError`` if there is one."""

    def read(self, known: int) -> Snapshot:
        """Returns the state now, with the rows after the first ``known``. It needs no right to write."""

    def append(self, known: int, charge: Callable[[Snapshot], Row]) -> None:
        """Appends what ``charge`` returns for the state now; other processes wait until it is on disk.

        If ``charge`` raises, nothing is stored. If this method raises, the row may be stored or not.
        """

    def problems(self) -> list[str]:
        """Returns what the database itself finds wrong with its storage."""


def chained(previous: str, text: str) -> str:
    """Returns the digest of a row with this text after a row with digest ``previous``."""
    return hashlib.sha256((previous + text).encode()).hexdigest()
