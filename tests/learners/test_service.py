"""The service of docs/online-learners.md, over HTTP on the loopback: it survives ``kill -9`` and pays once."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hockeystick.accounting import DurableLedger
from hockeystick.accounting.events.catalogue import NO_EVENT

PAGE = Path(__file__).parents[2] / "docs" / "online-learners.md"

pytestmark = pytest.mark.statistical  # for its seconds: it starts two processes


def asked(port: int, path: str, body: object = None) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@contextmanager
def service(folder: Path, port: int) -> Iterator[None]:
    """Starts the service, waits for it, and kills it at the end."""
    running = subprocess.Popen([sys.executable, str(folder / "service.py"), str(folder), str(port)])
    try:
        for _ in range(600):
            try:
                asked(port, "/metrics")
                break
            except (urllib.error.URLError, ConnectionError):
                assert running.poll() is None
                time.sleep(0.1)
        yield
    finally:
        running.kill()
        running.wait()


def test_it_survives_kill_9_and_pays_once(tmp_path: Path) -> None:
    code = re.search(r"```python\n(# service\.py\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert code
    (tmp_path / "service.py").write_text(code[1], encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with service(tmp_path, port):
        for _ in range(3):
            assert asked(port, "/predict")[1] in "012"
            status, _ = asked(port, "/losses", [0.0, 1.0, 0.5])
            assert status == 200
        before = asked(port, "/predict")
        status, said = asked(port, "/losses", [0.0, 1.0, 77.25])
        assert status == 400 and "losses[3, 2]" in said and "77.25" not in said
    with service(tmp_path, port):
        assert asked(port, "/predict") == before
        rounds, spent = (float(line.split()[1]) for line in asked(port, "/metrics")[1].splitlines())
        assert rounds == 3 and 0.98 <= spent <= 1.0
        assert asked(port, "/losses", [0.0, 1.0, 0.5]) == (200, "4")
    charges = DurableLedger.open(tmp_path / "people.ledger").charges()
    assert [one.session for one in charges] == [0, 1] and charges[1].event == NO_EVENT
