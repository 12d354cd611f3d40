"""The example of docs/federated-deployment.md on a SuperLink and SuperNodes, each a process of its own."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from attrs import field, frozen

from hockeystick.learners.network.protocol import InProcess, conduct

pytest.importorskip("flwr", reason="needs Flower: pip install 'hockeystick[federated]'")

pytestmark = [
    pytest.mark.statistical,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds its processes by /proc"),
]

PAGE = Path(__file__).parents[3] / "docs" / "federated-deployment.md"
CLIENTS = 3
DOOMED = 2

# The page's client with a seed in place of secure noise; client 2's node is killed while it works on request 3, and its
# task with it, which would go on trying to reach the node.
TRIAL = f"""
import os, signal
from pathlib import Path
from forecast import client
from hockeystick.learners.network.flower import client_app


def watched(node, seed):
    calls = Path(str(node.config["calls"]))
    with calls.open("a") as file:
        file.write("x")
    if node.partition == {DOOMED} and calls.read_text() == "xxx":
        os.kill(int(calls.with_suffix(".pid").read_text()), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    client.ReleaseNoise = lambda: seed
    return client.client(node, seed)


app = client_app(watched, seed=lambda node: 1000 + node.partition)
"""


@frozen
class Deployment:
    """Processes of one Flower home, found by it, so that none can be left over unnoticed."""

    home: Path
    started: list[subprocess.Popen[bytes]] = field(factory=list)

    def environment(self) -> dict[str, str]:
        paths = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        return {
            **os.environ,
            "PATH": os.pathsep.join(paths),
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "PYTHONWARNINGS": "default",
        }

    def start(self, name: str, *command: str) -> int:
        with (self.home / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=self.home,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(process)
        return process.pid

    def alive(self) -> set[int]:
        """Every process with this home in its environment, whoever has started it."""
        mark = f"FLWR_HOME={self.home}".encode()
        found = set()
        for process in self.started:
            process.poll()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.add(int(folder.name))
        return found

    def stop(self) -> set[int]:
        """Ends what has been started, and returns what had to be killed."""
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            wait_for(lambda: not self.alive(), 120.0)
        left = self.alive()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.wait()
        return left

    def logs(self) -> str:
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.home.glob("*.log")))


def wait_for(event: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not event():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(tmp_path)
    yield made
    left = made.stop()
    assert not made.alive()
    assert not left, made.logs()


def seconds_to_start() -> float:
    """Returns the time that this machine needs at present to start a process with all imports."""
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", "import flwr.app, hockeystick.learners.network.flower"], check=True)
    return time.monotonic() - start


def write_app(folder: Path, *, timeout: float) -> None:
    """The files of the page, and the trial in place of its client."""
    page = PAGE.read_text(encoding="utf-8")
    (folder / "forecast").mkdir(parents=True)
    (folder / "forecast" / "__init__.py").touch()
    for text in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        (folder / "forecast" / text.split()[1]).write_text(text, encoding="utf-8")
    (project,) = re.findall(r"^```toml\n(\[project\].*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert "forecast.client:app" in project
    (folder / "pyproject.toml").write_text(project.replace("forecast.client:app", "forecast.trial:app"))
    (folder / "forecast" / "trial.py").write_text(TRIAL)
    server = folder / "forecast" / "server.py"
    assert "least=2, timeout=60.0" in server.read_text()
    server.write_text(server.read_text().replace("least=2, timeout=60.0", f"least=1, timeout={timeout}"))


def learner_of(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_learner", folder / "forecast" / "learner.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_killed_node_is_left_out_and_the_plays_are_those_of_one_process(deployment: Deployment) -> None:
    home = deployment.home
    write_app(home / "app", timeout=5 + 6 * seconds_to_start())
    port = free_port()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    losses = np.random.default_rng(1).random((CLIENTS, 7, 5))

    link = ["--insecure", "--host", "127.0.0.1", "--port", str(port), "--disable-runtime-dependency-installation"]
    deployment.start("superlink", "flower-superlink", *link)
    wait_for(lambda: listens(port), 60.0)
    for i in range(CLIENTS):
        np.save(home / f"losses-{i}.npy", losses[i])
        config = f'partition-id={i} losses="{home}/losses-{i}.npy" calls="{home}/calls-{i}"'
        local = ["--insecure", "--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1", "--port", str(free_port())]
        pid = deployment.start(f"node-{i}", "flower-supernode", *local, "--node-config", config)
        (home / f"calls-{i}.pid").write_text(str(pid))
    result = home / "result.npz"
    subprocess.run(
        ["flwr", "run", str(home / "app"), "here", "--run-config", f'result="{result}"'],
        env=deployment.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=60,
    )
    try:
        wait_for(result.exists, 300.0)
    except TimeoutError:
        pytest.fail(deployment.logs())

    with np.load(result) as kept:
        points, answered = kept["points"], kept["answered"]
    learner = learner_of(home / "app").LEARNER
    clients = [learner.client(losses[i], 1000 + i) for i in range(CLIENTS)]
    expected = conduct(learner.server(), InProcess(clients, lambda i, n: not answered[n - 1, i]), clients=CLIENTS)
    np.testing.assert_array_equal(points, expected.result.points)
    assert answered.shape == (4, CLIENTS)
    assert not answered[2:, DOOMED].any()  # from its death on
    assert deployment.started[1 + DOOMED].poll() == -signal.SIGKILL
