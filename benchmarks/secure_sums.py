"""Bytes and CPU seconds of secure sums, with clients that drop out at every step.

    python -m benchmarks.secure_sums [--write] [--work FOLDER]

Needs the extra ``secure-sum``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.frame import DOCS, Cells, Report, experiment, markdown
from hockeystick.mechanisms import PairwiseSum, SumClient, conduct_sum

PAGE = DOCS / "secure-sums.md"
MODULUS = 2**32
SETTINGS = (
    (10, 10_000, 0),
    (100, 10_000, 0),
    (100, 10_000, 31),
    (100, 1_000, 31),
    (100, 100_000, 31),
    (300, 10_000, 90),
)
LOST_FIRST, THEN = 1, 0.5  # of the lost: one before its shares, half of the rest before its numbers, half after


def one(clients: int, length: int, lost: int) -> dict[str, Any]:
    """Returns a client's bytes and CPU seconds, and the server's, of one sum."""
    plan = PairwiseSum(clients=clients, length=length, modulus=MODULUS)
    numbers = np.random.default_rng(1).integers(-1000, 1000, (clients, length))
    gone = {i: 1 if i < LOST_FIRST else 2 if i < LOST_FIRST + THEN * (lost - 1) else 3 for i in range(lost)}
    those = [SumClient(plan, i, lambda i=i: numbers[i]) for i in range(clients)]  # type: ignore[misc]
    states: dict[int, Any] = {i: each.start() for i, each in enumerate(those)}
    up, down, cpu, steps = np.zeros(clients), np.zeros(clients), np.zeros(clients), [0]

    def post(letters: Mapping[int, bytes]) -> list[tuple[int, bytes]]:
        step, found = len(steps) - 1, []
        steps.append(step)
        for i, text in letters.items():
            down[i] += len(text)
            if gone.get(i, 9) <= step:
                continue
            started = time.process_time()
            states[i], answer = those[i].answer(states[i], text)
            cpu[i] += time.process_time() - started
            up[i] += len(answer)
            found.append((i, answer))
        return found

    started = time.process_time()
    outcome = conduct_sum(plan, post)
    seconds = time.process_time() - started - cpu.sum()
    right = bool((outcome.total == numbers[list(outcome.clients)].sum(axis=0)).all())
    last = slice(lost, None)  # the clients that stayed to the end
    return {
        "threshold": plan.threshold,
        "in the sum": len(outcome.clients),
        "right": right,
        "up": up[last].max(),
        "down": down[last].max(),
        "client": float(np.median(cpu[last])),
        "server": seconds,
    }


def secure_sums(cells: Cells) -> Report:
    """Bytes and CPU seconds of secure sums, with clients that drop out at every step."""
    found = cells.each(one, SETTINGS, "summing")
    rows = [
        (
            *(f"{each:,}" for each in (n, result["threshold"], length, lost, result["in the sum"])),
            *(f"{result[way] / 1000:.1f} kB" for way in ("up", "down")),
            *(f"{result[who]:.3f} s" for who in ("client", "server")),
        )
        for (n, length, lost), result in found.items()
    ]
    hundred = found[100, 10_000, 31]
    return Report(
        markdown("clients | threshold | numbers | lost | in the sum | up | down | client's CPU | server's CPU", rows),
        {
            "all sums are right": all(result["right"] for result in found.values()),
            "of 100 clients with 10,000 numbers each sends at most 52 kB": hundred["up"] <= 52_000,
            "each of them takes at most 0.05 CPU s": hundred["client"] <= 0.05,
            "their server takes at most 0.3 CPU s": hundred["server"] <= 0.3,
        },
    )


def main() -> int:
    return experiment("secure_sums", secure_sums, None, page=PAGE, sources=("mechanisms/distributed/pairwise",))


if __name__ == "__main__":
    sys.exit(main())
