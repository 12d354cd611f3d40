"""Every online learner beside one numpy pass over its losses: CPU time, memory, and secure releases.

    python -m benchmarks.learners.performance [--only NAME] [--kept] [--write]

writes its table into docs/benchmarks-online-learners.md, with all results that are kept. Each learner has a fresh
process, in one thread, and reads its losses from a memory-mapped file. The pass is ``np.add.reduce`` over the file's
rounds, the least of five; all learners run once. CPU time is that of ``getrusage``, of the user and of the system
together. Memory is the largest private memory of the process, with the interpreter and all libraries, without the pages
of the file, which the system may drop at any time. After an interruption the command goes on, as results are kept;
``--only`` measures some learners.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

import hockeystick.learners as L
from benchmarks.frame import DOCS, ROOT, WORK, Cells, Result, arguments, command, digest, machine, markdown, replaced
from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.lazy import Ball, ExactSampler, LinearLosses, MultiplicativeMeasure, PointMeasure
from hockeystick.mechanisms import SimulationNoise

PAGE = DOCS / "benchmarks-online-learners.md"
ROUNDS, WIDTH, CLIENTS = 10**6, 100, 100
SECURE = 2**14  # rounds of a release
GOAL: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


@frozen
class Task:
    """A learner and how it is measured.

    Attributes:
        build: Returns the learner for a number of rounds.
        rounds: The rounds of a run; the file has 100 numbers for each, of each client.
        run: Plays a simulated run.
        secure: The rounds of a secure release; 0 for none.
        clients: The clients of a federated learner.
        read: Returns what the learner reads of the numbers of some rounds.
        exact: Whether to compute the exact expected regret, if the learner has one.
    """

    build: Callable[[int], Any]
    rounds: int = ROUNDS
    run: Callable[[Any, Any], Any] = lambda learner, losses: learner.release(losses, noise=SimulationNoise(1))
    secure: int = SECURE
    clients: int = 0
    read: Callable[[Any], Any] = lambda losses: losses
    exact: bool = True


def expert(kind: Any, **given: Any) -> Callable[[int], Any]:
    """A learner of 100 experts."""
    return lambda rounds: kind.calibrated(rounds=rounds, experts=WIDTH, **GOAL, **given)


def federated(kind: Any, **given: Any) -> Callable[[int], Any]:
    """One of 100 clients."""
    return lambda rounds: kind.calibrated(rounds=rounds, clients=CLIENTS, experts=WIDTH, **given)


def restarted(rounds: int) -> Any:
    """The dartboard, restarted, for at least so many rounds."""
    return L.Anytime(expert(L.LazyExperts), ratio=4, first=2**8, epochs=math.ceil(math.log(3 * rounds / 2**8 + 1, 4)))


def of_rng(learner: Any, losses: Any) -> Any:
    """The faster code of simulations."""
    return learner.run(losses, np.random.default_rng(1))


def gradients(table: Any) -> LinearLosses:
    """Returns linear losses of Lipschitz constant 1 in 100 dimensions."""
    return LinearLosses(table / math.sqrt(WIDTH))


def contexts(table: Any) -> L.ContextualRewards:
    """Returns 10 arms in 10 dimensions, of length at most 1, and their rewards."""
    return L.ContextualRewards(table.reshape(-1, 10, 10) / math.sqrt(10.0), 2.0 * table[:, :10] - 1.0)


def in_blocks(learner: Any, losses: Any) -> Any:
    """Plays clients that read a few rounds at a time."""
    blocks = (losses[:, at : at + 250] for at in range(0, losses.shape[1], 250))
    return learner.run(blocks, range(1, CLIENTS + 1), server_seed=0)


def normals(losses: Any) -> None:
    """Draws what a tree's run draws at least: noise for two nodes, and for the padding of a round's sum."""
    rng, room = np.random.default_rng(1), np.empty(2**15)
    for _ in range(3 * losses.size // len(room)):
        rng.standard_normal(out=room)


BALL: dict[str, Any] = {"domain": Ball(WIDTH, 1.0), "lipschitz": 1.0}
EACH = ROUNDS // CLIENTS
TASKS = {
    "MultiplicativeWeights, not private": Task(
        lambda rounds: L.MultiplicativeWeights(rounds=rounds, experts=WIDTH), run=lambda learner, losses: None, secure=0
    ),
    "three normal numbers for each loss": Task(
        lambda rounds: None, run=lambda learner, losses: normals(losses), secure=0
    ),
    "LazyExperts, dartboard": Task(expert(L.LazyExperts), run=of_rng),
    "LazyExperts, L2P": Task(expert(L.LazyExperts, variant="l2p"), run=of_rng),
    "ShrinkingDartboard": Task(expert(L.ShrinkingDartboard), run=of_rng, exact=False),
    "TreeExperts, leader": Task(expert(L.TreeExperts), exact=False),
    "TreeExperts, Hedge": Task(expert(L.TreeExperts, policy="hedge"), rounds=ROUNDS // 10),
    "TreeExperts, leader by buffers": Task(
        expert(L.TreeExperts, sums="buffered"), rounds=2**14, secure=2**12, exact=False
    ),
    "TreeExperts, leader by the square root": Task(
        expert(L.TreeExperts, sums="square root"), rounds=2**12, secure=2**10, exact=False
    ),
    "AnytimeTreeExperts, leader": Task(expert(L.AnytimeTreeExperts)),
    "Anytime, dartboard": Task(restarted, rounds=ROUNDS // 10),
    "SleepingExperts": Task(expert(L.SleepingExperts), rounds=ROUNDS // 50, secure=2**11),
    "LimitedUpdates": Task(expert(L.LimitedUpdates), run=of_rng),
    "NormalisedLazyExperts, simulated": Task(
        lambda rounds: L.NormalisedLazyExperts(
            rounds=rounds, experts=WIDTH, learning_rate=0.01, fake_switch_probability=0.01
        ),
        rounds=2**12,
        run=of_rng,
        secure=0,
    ),
    "LazyTransform of 100 points, simulated": Task(
        lambda rounds: L.LazyTransform(
            measure=PointMeasure(measure=MultiplicativeMeasure(learning_rate=0.01), points=WIDTH),
            rounds=rounds,
            fake_switch_probability=0.01,
        ),
        rounds=2**12,
        run=of_rng,
        secure=0,
    ),
    "NoisyBandit": Task(
        lambda rounds: L.NoisyBandit.calibrated(rounds=rounds, arms=WIDTH, epsilon=1.0), rounds=ROUNDS // 10
    ),
    "PrivateElimination": Task(lambda rounds: L.PrivateElimination.calibrated(rounds=rounds, arms=WIDTH, epsilon=1.0)),
    "PrivateUCB": Task(
        lambda rounds: L.PrivateUCB.calibrated(rounds=rounds, arms=WIDTH, epsilon=1.0), rounds=ROUNDS // 10
    ),
    "PrivateLinUCB, 10 arms in 10 dimensions": Task(
        lambda rounds: L.PrivateLinUCB.calibrated(rounds=rounds, dimension=10, **GOAL),
        rounds=2**13,
        secure=2**12,
        read=contexts,
    ),
    "PrivateFTRL, linear losses": Task(
        lambda rounds: L.PrivateFTRL.calibrated(rounds=rounds, **BALL, **GOAL), rounds=ROUNDS // 100, read=gradients
    ),
    "LazyConvex, linear losses": Task(
        lambda rounds: L.LazyConvex.calibrated(rounds=rounds, **BALL, **GOAL, sampler=ExactSampler()),
        rounds=ROUNDS // 10,
        secure=2**11,
        read=gradients,
        exact=False,
    ),
    "NoisyHedge": Task(federated(L.NoisyHedge, epsilon=1.0), rounds=EACH, clients=CLIENTS, secure=EACH),
    "AnytimeNoisyHedge": Task(federated(L.AnytimeNoisyHedge, **GOAL), rounds=EACH, clients=CLIENTS, secure=EACH),
    "FedSVT": Task(federated(L.FedSVT, epsilon=1.0, delta=1e-6, period=8), rounds=EACH, clients=CLIENTS, secure=EACH),
    "FedStoch": Task(federated(L.FedStoch, epsilon=1.0), rounds=EACH, run=in_blocks, clients=CLIENTS, secure=EACH),
}


def stream() -> Any:
    """Returns the memory-mapped losses of 10^6 rounds and 100 experts, single precision; one expert is better."""
    place = WORK / "losses-of-online-learners.npy"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        made = place.with_suffix(f".{os.getpid()}.npy")
        table = np.lib.format.open_memmap(made, "w+", np.float32, (ROUNDS, WIDTH))
        rng = np.random.default_rng(1)
        for block in np.split(table, 100):
            block[:] = rng.random(block.shape, dtype=np.float32)
            block[:, 0] *= 0.95
        table.flush()
        made.rename(place)
    return np.load(place, mmap_mode="r")


def losses_of(task: Task, rounds: int) -> Any:
    """Returns the losses of a task's first rounds, as its learner reads them."""
    table = stream()
    if task.clients:
        return table.reshape(task.clients, -1, WIDTH)[:, :rounds]
    return task.read(table[:rounds])


def cpu() -> float:
    """Returns the CPU seconds of this process so far."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


def timed(call: Callable[[], Any]) -> float:
    """Returns the CPU seconds of a call."""
    start = cpu()
    call()
    return cpu() - start


@contextmanager
def watched() -> Iterator[list[float]]:
    """The largest private memory of this process within the block, in MB, in a list of one number."""
    found, ended = [0.0], threading.Event()

    def look() -> None:
        while True:
            lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
            held = next(line.split()[1] for line in lines if line.startswith("RssAnon"))
            found[0] = max(found[0], int(held) * 1024 / 1e6)
            if ended.wait(0.01):
                return

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


def measured_here(name: str) -> Result:
    """Measures a learner in this process."""
    task = TASKS[name]
    found: Result = {"rounds": task.rounds}
    losses, table = losses_of(task, task.rounds), stream()
    read = table[: task.rounds * max(1, task.clients)]
    found["pass"] = min(timed(lambda: np.add.reduce(read, axis=0)) for _ in range(5))
    made: list[Any] = []
    found["calibration"] = timed(lambda: made.append(task.build(task.rounds)))
    (learner,) = made
    with watched() as memory:
        found["run"] = timed(lambda: task.run(learner, losses))
        found["regret"] = exact_regret(learner, losses) if task.exact else None
    found["memory"] = memory[0]
    if task.secure:
        short, first = task.build(task.secure), losses_of(task, task.secure)
        started = time.perf_counter()
        spent = timed(lambda: short.release(first))
        found |= {"secure": task.secure, "release": spent, "wall": time.perf_counter() - started}
    return found


def exact_regret(learner: Any, losses: Any) -> float | None:
    """Returns the CPU seconds of an exact expected regret, or None where the learner has none."""
    if not hasattr(learner, "expected_regret"):
        return None
    try:
        return timed(lambda: learner.expected_regret(losses))
    except InvalidArgumentError:  # a leader has one, and Hedge on noisy sums has none
        return None


def measured(name: str, rounds: int, secure: int) -> Result:
    """Measures a learner in a fresh process of one thread; its rounds are those of its task."""
    stream()
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.learners.performance", "--measure", name],
        cwd=ROOT, env={**os.environ, **threads}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    found: Result = json.loads(done.stdout)
    return found


HEADER = (
    "learner | rounds | one pass, s | a run, passes | exact regret, passes | memory, MB | secure release, ms a round"
)


def row(name: str, found: Result) -> tuple[object, ...]:
    """Returns a line of the table."""
    passes = [None if found[part] is None else found[part] / found["pass"] for part in ("run", "regret")]
    if name.startswith("Multiplicative"):
        passes[0] = None
    shown = ["" if number is None else f"{number:.1f}" for number in passes]
    secure = f"{1e3 * found['release'] / found['secure']:.3f}" if "secure" in found else ""
    return name, f"{found['rounds']:,}", f"{found['pass']:.3f}", *shown, f"{found['memory']:.0f}", secure


def main() -> int:
    """Measures the learners that are not known yet, and prints or writes the table."""
    parser = arguments(
        (__doc__ or "").splitlines()[0], page=PAGE.name, only="measure only learners whose names match, as Tree*"
    )
    parser.add_argument("--measure", help="measure one learner in this process, and print the result as JSON")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured_here(options.measure)))
        return 0
    cells = Cells(
        options.work / "online-learners.jsonl",
        digest("learners", "mechanisms"),
        quiet=False,
    )
    keys = [
        key
        for name, task in TASKS.items()
        for key in ({"name": name, "rounds": task.rounds, "secure": task.secure},)
        if cells.knows(key, measured) or (fnmatch(name, options.only or "*") and not options.kept)
    ]
    lines = [row(str(key["name"]), cells.one(measured, **key)) for key in keys]
    table = markdown(HEADER, lines)
    print(table)
    if options.write:
        text = f"{machine()}, numpy {np.__version__}.\n\n{table}\n\nWritten by `{command()} --write`."
        PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "performance", text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
