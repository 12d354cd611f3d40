"""A private PostgreSQL server on the loopback, in a temporary folder, where PostgreSQL is installed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Server:
    """A running cluster.

    Attributes:
      url: of its superuser, without a database.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder, self._programs = folder, programs
        # PostgreSQL does not run as root; its package brings a user of that name.
        self._user: dict[str, Any] = {"user": "postgres"} if os.geteuid() == 0 else {}
        if self._user:
            shutil.chown(folder, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._call("initdb", "-U", "owner", "-A", "trust", "--no-sync")
        self.start()
        self.url = f"postgresql://owner@127.0.0.1:{self._port}"

    def start(self) -> None:
        """Starts the server again, and returns when it answers."""
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1"
        self._call("pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """Stops the server as a crash would: what is not on disk is lost."""
        self._call("pg_ctl", "-w", "-m", "immediate", "stop")

    def _call(self, program: str, *arguments: str) -> None:
        words = [str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        null = subprocess.DEVNULL
        subprocess.run(words, check=True, cwd=self._folder, stdout=null, stderr=null, **self._user)


def programs() -> Path | None:
    """Returns the folder of the newest server on this machine; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: float(file.parts[4]))
    path = str(found[-1]) if found else shutil.which("initdb")
    return None if path is None else Path(path).parent


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """Yields a server, which ends with the ``with`` block; there must be ``programs``."""
    where = programs()
    assert where is not None
    # Another user may not be let into the folder of TMPDIR.
    place = "/tmp" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="hs-pg-", dir=place, ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        running = Server(Path(folder), where)
        try:
            yield running
        finally:
            running.stop()
