"""What a test leaves behind for the end of the run, and the name by which it is known there.

It travels as an attribute of the test's reports, in JSON, so that a parallel run carries it unchanged. It is kept apart
from the user properties, where a test may put what it likes under any name; these only have a copy, for JUnit files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

AUDIT, EVIDENCE, BUDGET = "privacy", "privacy_evidence", "privacy_lock"  # kinds of what is left, and user properties

_AUDITING = ("privacy_audit", "privacy_evidence")


@define
class Record:
    """What a test has left so far.

    Attributes:
      calls: Audits that it began.
      values: (kind, JSON), in order.
    """

    calls: int = 0
    values: list[tuple[str, str]] = field(factory=list)

    def next_call(self) -> int:
        """Returns the index of the next audit, from 0."""
        self.calls += 1
        return self.calls - 1


_RECORD = pytest.StashKey[Record]()
_TWIN = pytest.StashKey[str]()  # why the test can't run


def record(item: pytest.Item) -> Record:
    """Returns the record of a test."""
    return item.stash.setdefault(_RECORD, Record())


def leave(item: pytest.Item, kind: str, plain: dict[str, Any]) -> None:
    """Adds something to a test's record."""
    text = json.dumps(plain, allow_nan=False)
    record(item).values.append((kind, text))
    item.user_properties.append((kind, text))


def attachment(item: pytest.Item, uses: Iterable[str], *, last: bool) -> dict[str, Any]:
    """Returns what a test's report carries.

    Args:
      item: The test.
      uses: Which of our fixtures it uses.
      last: Whether this is its last report. Should anybody run the test again, it begins anew, and draws the same.
    """
    found = {"uses": list(uses), "key": key(item), "values": [list(value) for value in record(item).values]}
    if last:
        item.stash[_RECORD] = Record()
    return found


def key(item: pytest.Item) -> str:
    """Returns the name of a test: the file that collects it, from the root folder, and its names in there.

    Not the file that defines it: several files may collect one function, of a base class or an import. Nor the line
    number, nor what a parallel run appends to a node id.
    """
    try:
        file = Path(os.path.relpath(item.path, item.config.rootpath))
    except ValueError:  # on another drive
        file = item.path
    above = (pytest.Session, pytest.Directory, pytest.File)
    return "::".join([file.as_posix(), *(node.name for node in item.listchain() if not isinstance(node, above))])


def check_keys(items: Iterable[pytest.Item]) -> None:
    """Refuses two tests that audit under one name: their false alarms would be counted once, and their samples equal.

    A process of a parallel run can't refuse a run in words, so there both tests fail.

    Raises:
      pytest.UsageError: there are such tests.
    """
    first: dict[str, pytest.Item] = {}
    for item in items:
        if any(name in _AUDITING for name in getattr(item, "fixturenames", ())):
            other = first.setdefault(key(item), item)
            if other.location != item.location:  # else it is one test that was asked for twice
                text = f"{key(item)}: two tests that audit have this name and would share level and seeds; rename one"
                if not hasattr(item.config, "workerinput"):
                    raise pytest.UsageError(text)
                item.stash[_TWIN] = other.stash[_TWIN] = text


def fail_twin(item: pytest.Item) -> None:
    """Fails a test whose name another one has."""
    if _TWIN in item.stash:
        pytest.fail(item.stash[_TWIN], pytrace=False)
