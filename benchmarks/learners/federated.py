"""Federated learners compared with their limits: one pass over the clients' losses, and numbers of seconds.

    python -m benchmarks.learners.federated [--quick] [--write]

A thousand clients with a hundred experts over 2^14 rounds have 1.6 * 10^9 losses; they come in blocks, as from a
generator, and are never all held. Losses are drawn before the clock starts: the same few blocks come again and again.
``--write`` puts the table into docs/benchmarks-federated.md. Wall time; the machine should have nothing else to do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.frame import Row, compare, seconds
from benchmarks.learners.lazy import COLUMNS, compared
from hockeystick.learners import FedStoch, FedSVT
from hockeystick.learners.federated import Sizes, StochSetting, certified_phases

CLIENTS, EXPERTS, ROUNDS = 1000, 100, 2**14
_BLOCK = 64  # rounds
_DIFFERENT = 8  # blocks, more than any cache holds


def spent(repeats: int, *calls: Callable[[], Any]) -> list[float]:
    """Returns the least wall time of each call."""
    return seconds(repeats, *calls, clock=time.perf_counter)


def rows(quick: bool) -> Iterator[Row]:
    """Yields all rows."""
    clients, rounds = (100, 2**12) if quick else (CLIENTS, ROUNDS)
    rng = np.random.default_rng(1)
    parts = [rng.random((clients, _BLOCK, EXPERTS), dtype=np.float32) for _ in range(_DIFFERENT)]

    def blocks() -> Iterator[npt.NDArray[np.float32]]:
        return (parts[i % _DIFFERENT] for i in range(rounds // _BLOCK))

    def one_pass() -> None:
        for part in blocks():
            part.sum(axis=0)

    svt = FedSVT.calibrated(clients=clients, rounds=rounds, experts=EXPERTS, epsilon=1.0)
    summed = svt.sums(blocks())[:-1]
    whole, once, from_sums = spent(
        3, lambda: svt.run(blocks(), server_seed=1), one_pass, lambda: svt.run(summed, server_seed=1)
    )
    size = f"{clients} clients, {rounds} rounds, {EXPERTS} experts"
    yield compared(f"FedSVT.run, {size}", whole, "one pass that adds up clients", once, 3.0)
    yield compared("the same, from losses summed over clients", from_sums, "the limit", 10.0, 1.0)

    setting = StochSetting(
        clients=clients,
        phases=certified_phases(Sizes(clients=clients, experts=EXPERTS, epsilon=1.0), rounds - 1, trees=1),
    )
    stoch = FedStoch(setting=setting, rounds=rounds - 1, experts=EXPERTS).recalibrated("output", epsilon=1.0)
    seeds = list(range(clients))

    def played() -> None:
        left = rounds - 1

        def short() -> Iterator[npt.NDArray[np.float32]]:
            nonlocal left
            for part in blocks():
                yield part[:, : min(_BLOCK, left)]
                left -= _BLOCK

        stoch.run(short(), seeds)

    yield compared(f"FedStoch.run, {size} less one", spent(1, played)[0], "the limit", 120.0, 1.0)

    runs = 10**4 if quick else 10**5
    audited = FedSVT.calibrated(clients=1, rounds=2**9, experts=EXPERTS, epsilon=1.0)
    pair = audited.worst_case_neighbours()

    def audit() -> None:
        found = audited.simulate(pair[0], np.random.default_rng(3), runs)
        audited.log_likelihood_ratio(found, *pair)

    name = f"{runs:g} runs of FedSVT, 512 rounds, with their likelihood ratios"
    yield compared(name, spent(1, audit)[0], "the limit", 60.0, 1.0)
    small = FedStoch(
        setting=StochSetting(clients=2, phases=certified_phases(Sizes(clients=2, experts=8, epsilon=1.0), 63, trees=1)),
        rounds=63,
        experts=8,
    ).recalibrated("output", epsilon=1.0)
    losses = small.worst_case_neighbours()[0]
    simulated = spent(1, lambda: small.simulate(losses, np.random.default_rng(3), runs, uplinks=True))[0]
    yield compared(f"{runs:g} runs of FedStoch, 63 rounds, with all messages", simulated, "the limit", 60.0, 1.0)


PAGE = """# Federated learners: side by side

{met} A Fed-SVT run may take three times as long as one numpy pass over the
losses, and 100,000 runs with their likelihood ratios 60 s.

Written by `python -m benchmarks.learners.federated --write`; edit that instead.

The table has the wall time in one process. A learner has to read every loss once, so its limit is a numpy pass that
adds up the clients' single-precision losses. The learner also checks that each loss is in range. Losses come in blocks
and are never all in memory.

{table}
"""


if __name__ == "__main__":
    quick = "a tenth of the clients and of the runs, a quarter of the rounds"
    sys.exit(compare("benchmarks-federated.md", COLUMNS, rows, PAGE, quick=quick))
