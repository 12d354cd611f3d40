"""A private PostgreSQL server on the loopback, where one is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Server:
    """A cluster in a temporary folder.

    Attributes:
      url: of the superuser, without a database.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder, self._programs = folder, programs
        # PostgreSQL does not run as root; its package brings a user of that name.
        self._as: dict[str, Any] = {"user": "postgres"} if os.geteuid() == 0 else {}
        if self._as:
            shutil.chown(folder, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._call("initdb", "-D", str(folder / "data"), "-U", "owner", "-A", "trust", "--no-sync")
        self.start()
        self.url = f"postgresql://owner@127.0.0.1:{self._port}"

    def start(self) -> None:
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1"
        self._call(
            "pg_ctl", "-D", str(self._folder / "data"), "-w", "-l", str(self._folder / "log"), "-o", options, "start"
        )

    def stop(self, mode: str = "immediate") -> None:
        self._call("pg_ctl", "-D", str(self._folder / "data"), "-w", "-m", mode, "stop")

    def _call(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            **self._as,
        )


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True), shutil.which("initdb")]
    if found[0] is None:
        pytest.skip("no PostgreSQL server on this machine")
    with tempfile.TemporaryDirectory(prefix="hs-pg-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        server = Server(Path(folder), Path(str(found[0])).parent)
        try:
            yield server
        finally:
            server.stop()
