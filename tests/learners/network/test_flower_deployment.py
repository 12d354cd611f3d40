"""A secure sum, and then the example of docs/federated-deployment.md, on one SuperLink and its SuperNodes.

Each of them is a process of its own, and so is each task of a node. The sum loses a client's task, and the example a
node, which is why it comes last.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
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

# A sum of three clients. Client 2's task dies before it sends its numbers, when the others have their masks for it.
SUM = f"""
import os, signal
from pathlib import Path
import numpy as np
from flwr.serverapp import ServerApp
from hockeystick.learners.network.flower import client_app, post_on_flower
from hockeystick.mechanisms import PairwiseSum, SumClient, conduct_sum

PLAN = PairwiseSum(clients={CLIENTS}, length=2, modulus=64, threshold=2)
server = ServerApp()


def numbers(i):
    if i == {DOOMED}:
        os.kill(os.getpid(), signal.SIGKILL)
    return [i + 5, -1]


client = client_app(lambda node, seed: SumClient(PLAN, node.partition, lambda: numbers(node.partition)))


@server.main()
def main(grid, context):
    found = conduct_sum(PLAN, post_on_flower(grid, clients={CLIENTS}, timeout=context.run_config["timeout"]))
    np.savez(context.run_config["result"], total=found.total, clients=found.clients, refused=len(found.refused))
"""


@frozen
class Deployment:
    """Processes of one Flower home, found by it, so that none can be left over unnoticed."""

    home: Path
    port: int
    losses: npt.NDArray[np.float64]
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

    def run(self, app: str, *config: str) -> Mapping[str, npt.NDArray[np.generic]]:
        """Returns what a run of the app has saved."""
        result = self.home / f"{app}.npz"
        settings = " ".join([f'result="{result}"', *config])
        subprocess.run(
            ["flwr", "run", str(self.home / app), "here", "--run-config", settings],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=300,
        )
        try:
            wait_for(result.exists, 1200.0)  # other jobs may keep the machine busy
        except TimeoutError:
            pytest.fail(self.logs())
        with np.load(result) as kept:
            return dict(kept)

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


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A SuperLink, and a SuperNode for each client."""
    home, port = tmp_path_factory.mktemp("flower"), free_port()
    made = Deployment(home, port, np.random.default_rng(1).random((CLIENTS, 7, 5)))
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    link = ["--insecure", "--host", "127.0.0.1", "--port", str(port), "--disable-runtime-dependency-installation"]
    try:
        made.start("superlink", "flower-superlink", *link)
        wait_for(lambda: listens(port), 60.0)
        for i, losses in enumerate(made.losses):
            np.save(home / f"losses-{i}.npy", losses)
            config = f'partition-id={i} losses="{home}/losses-{i}.npy" calls="{home}/calls-{i}"'
            local = [
                "--insecure",
                "--superlink",
                f"127.0.0.1:{port}",
                "--host",
                "127.0.0.1",
                "--port",
                str(free_port()),
            ]
            pid = made.start(f"node-{i}", "flower-supernode", *local, "--node-config", config)
            (home / f"calls-{i}.pid").write_text(str(pid))
        yield made
    finally:
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


def write_sum(folder: Path) -> None:
    """The files of the sum, with the settings of the page's project."""
    (folder / "adding").mkdir(parents=True)
    (folder / "adding" / "__init__.py").write_text(SUM, encoding="utf-8")
    (project,) = re.findall(
        r"^```toml\n(\[project\].*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    project = project.replace('"forecast"', '"adding"').replace("forecast.server:app", "adding:server")
    project = project.replace("forecast.client:app", "adding:client")
    assert project.count("adding") == 3
    (folder / "pyproject.toml").write_text(project + "timeout = 60.0\n")


def learner_of(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_learner", folder / "forecast" / "learner.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_secure_sum_survives_a_client_that_dies_between_two_requests(deployment: Deployment) -> None:
    """Its masks for the others are in their numbers; their shares of its key take them out again."""
    write_sum(deployment.home / "sum")
    found = deployment.run("sum", f"timeout={5 + 3 * seconds_to_start()}")
    assert found["clients"].tolist() == [0, 1] and found["refused"] == 0
    assert found["total"].tolist() == [5 + 6, -2]


def test_a_killed_node_is_left_out_and_the_plays_are_those_of_one_process(deployment: Deployment) -> None:
    home = deployment.home
    write_app(home / "app", timeout=5 + 6 * seconds_to_start())
    kept = deployment.run("app")
    points, answered = kept["points"], kept["answered"]
    learner = learner_of(home / "app").LEARNER
    clients = [learner.client(losses, 1000 + i) for i, losses in enumerate(deployment.losses)]
    expected = conduct(learner.server(), InProcess(clients, lambda i, n: not answered[n - 1, i]), clients=CLIENTS)
    np.testing.assert_array_equal(points, expected.result.points)
    assert answered.shape == (4, CLIENTS)
    assert not answered[2:, DOOMED].any()  # from its death on
    assert deployment.started[1 + DOOMED].poll() == -signal.SIGKILL
