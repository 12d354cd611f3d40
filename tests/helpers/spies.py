"""Functions whose calls are recorded while they work as usual."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest


def spied(monkeypatch: pytest.MonkeyPatch, where: object, name: str) -> list[Any]:
    """Lists every call of ``where.name`` from now on (its ``args`` and ``kwargs``), and lets it answer."""
    found = getattr(where, name)
    calls: list[Any] = []

    def spy(*args: Any, **kwargs: Any) -> Any:
        calls.append(mock.call(*args, **kwargs))
        return found(*args, **kwargs)

    monkeypatch.setattr(where, name, spy)
    return calls
