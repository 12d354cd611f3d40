"""The record of a test for the end of the run, and the test's name there.

The record travels as an attribute of the test's reports, in JSON, so that a parallel run passes it on unchanged. It is
separate from the user properties, which a test may change; these have a copy for JUnit files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

AUDIT, EVIDENCE, BUDGET = "privacy", "privacy_evidence", "privacy_lock"  # kinds of entries, and user properties

_AUDITING = ("privacy_audit", "privacy_evidence")


@define
class Record:
    """The record of a test so far.

    Attributes:
      calls: The number of audits that it began.
      values: The entries (kind, JSON) in order.
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
    """Adds an entry to a test's record."""
    text = json.dumps(plain, allow_nan=False)
    record(item).values.append((kind, text))
    item.user_properties.append((kind, text))


def attachment(item: pytest.Item, uses: Iterable[str], *, last: bool) -> dict[str, Any]:
    """Returns the attachment of a test's report.

    Args:
      item: The test.
      uses: The fixtures of this plugin that it uses.
      last: Whether this is its last report; if the test is run again, its record starts again.
    """
    found = {"uses": list(uses), "key": key(item), "values": [list(value) for value in record(item).values]}
    if last:
        item.stash[_RECORD] = Record()
    return found


def key(item: pytest.Item) -> str:
    """Returns the name of a test: the file that collects it, from the root folder, and its names within.

    It has neither the file that defines the test (several files may collect a function of a base class or an import),
    nor the line number, nor the suffix of node ids in parallel runs.
    """
    try:
        file = Path(os.path.relpath(item.path, item.config.rootpath))
    except ValueError:  # on another drive
        file = item.path
    above = (pytest.Session, pytest.Directory, pytest.File)
    return "::".join([file.as_posix(), *(node.name for node in item.listchain() if not isinstance(node, above))])


def check_keys(items: Iterable[pytest.Item]) -> None:
    """Refuses two auditing tests with the same name, which would share a level and seeds.

    A worker of a parallel run can't raise a usage error, so there both tests fail.

    Raises:
      pytest.UsageError: There are such tests.
    """
    first: dict[str, pytest.Item] = {}
    for item in items:
        if any(name in _AUDITING for name in getattr(item, "fixturenames", ())):
            other = first.setdefault(key(item), item)
            if other.location != item.location:  # otherwise it is the same test, given twice
                text = f"{key(item)}: two auditing tests have this name and would share level and seeds; rename one"
                if not hasattr(item.config, "workerinput"):
                    raise pytest.UsageError(text)
                item.stash[_TWIN] = other.stash[_TWIN] = text


def fail_twin(item: pytest.Item) -> None:
    """Fails a test that shares its name with another one."""
    if _TWIN in item.stash:
        pytest.fail(item.stash[_TWIN], pytrace=False)
