"""A private PostgreSQL server, where one is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from benchmark_scripts import benchmark


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    module = benchmark("postgres_server")
    if module.programs() is None:
        pytest.skip("no PostgreSQL server on this machine")
    with module.server() as running:
        yield running
