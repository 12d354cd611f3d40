"""The text files that kept durable ledgers in earlier versions, read for the last time.

The file has one JSON object a line: the filter first, then the charges. Every line has a SHA-256 of itself and of the
digest before. A last line without its end counts as spent if it is whole: a lost end must not give a charge back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from hockeystick.accounting.budgets.stores.rows import LedgerError, LedgerTimeoutError
from hockeystick.accounting.errors import GraphError
from hockeystick.accounting.events import event_json
from hockeystick.accounting.files.reading import UnreadableFileError, read_bytes
from hockeystick.accounting.files.result_files import sync_folder

IMPORT = "hockeystick ledger import {path} NEW moves it to a new file"
"""What to do with the file of an earlier version."""

_CHARGE = {"number", "event", "count", "note"}


@contextlib.contextmanager
def moved_once(path: Path, *, timeout: float) -> Iterator[None]:
    """Holds the lock of a file of an earlier version; gives the file another name when the work inside is done.

    Raises:
      LedgerError: the file can't be moved, or is still in use after ``timeout`` seconds.
    """
    try:
        with FileLock(f"{path}.lock", timeout=timeout):  # of the earlier version
            yield
            os.replace(path, f"{path}.imported")
            sync_folder(path.parent)
    except Timeout:
        raise LedgerTimeoutError(f"{path}: a process of the earlier version still uses it: end it") from None
    except OSError as error:
        raise LedgerError(f"{path} can't be moved ({error.strerror}): don't use both ledgers") from None


def read_text_ledger(path: Path) -> tuple[object, list[dict[str, Any]]]:
    """Returns the filter in JSON and the bodies of all charges, after checking every digest.

    Raises:
      LedgerError: it can't be read, is not such a file, or is damaged.
    """
    try:
        if not path.is_file():
            raise LedgerError(f"{path} is not a ledger of an earlier version: give its text file")
        raw = read_bytes(path)
    except OSError as error:
        raise LedgerError(f"{path} can't be read ({error.strerror})") from None
    except UnreadableFileError as error:
        raise LedgerError(f"{path} {error}") from None
    lines = raw.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    header, charges, digest = None, [], ""
    for number, line in enumerate(lines):
        whole = number < len(lines) - 1 or raw.endswith(b"\n")
        try:
            body, digest = _body(line, digest)
            if number:
                event_json.check_keys(body, _CHARGE, _CHARGE, "charge")
                if body["number"] != number:
                    raise GraphError(f"expected charge {number}")
                charges.append(body)
            else:
                event_json.check_keys(body, {"schema_version", "filter"}, {"schema_version", "filter"}, "first line")
                if body["schema_version"] != 1:
                    raise GraphError(f"schema_version {body['schema_version']!r} is not 1")
                header = body["filter"]
        except (ValueError, RecursionError) as error:
            if not whole and _is_start(line):
                break  # what a crash left of a line: it was never followed by a draw
            raise LedgerError(f"{path}: line {number + 1} is damaged: {error}") from None
    if header is None:
        raise LedgerError(f"{path}: it has no first line, so nothing was ever charged: make a new ledger")
    return header, charges


def _is_start(line: bytes) -> bool:
    """Whether bytes may be the beginning of a line, and are not a whole one."""
    start = b'{"digest": "'
    return line[: len(start)] == start[: len(line)] and not line.rstrip().endswith(b"}")


def _body(line: bytes, previous: str) -> tuple[dict[str, Any], str]:
    """Returns the body and the digest of a line, which must be byte for byte what its body makes."""
    body = dict(event_json.mapping(json.loads(line), "line"))
    body.pop("digest", None)
    text = json.dumps(body, allow_nan=False)
    digest = hashlib.sha256((previous + text).encode()).hexdigest()
    if line != json.dumps({"digest": digest, **body}).encode():
        raise GraphError("it does not follow from the lines before it")
    return body, digest
