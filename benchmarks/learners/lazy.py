"""Learners compared with their limits: one pass over their losses, and a number of seconds.

    python -m benchmarks.learners.lazy [--quick] [--write]

times a lazy learner of experts on 10^6 rounds of 10^3 single-precision losses against one numpy pass that adds the same
losses up in batches, in turns in this one process, and 10^5 runs at once against the limit of an audit. Both run in one
thread. The pass is ``np.add.reduce`` over the rounds of each batch; beside it, without a limit, stands what moves the
same bytes fastest: ``np.einsum``, or ``np.copyto`` where a batch is one round. ``--write`` puts the table into
docs/benchmarks-learners.md. Seconds of processor time, all threads together, and of wall time beside the limit of an
audit; the least of several, since whatever else the machine does only adds to it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.frame import Row, compare, seconds
from hockeystick.learners import LazyExperts

EXPERTS = 1000
REPEATS = 9


def compared(name: str, ours: float, beside: str, other: float, most: float = math.inf) -> Row:
    """Returns a row: our seconds, other seconds, and the most that their ratio may be; infinite for no limit."""
    limited = math.isfinite(most)
    cells = name, f"{ours:.3g} s", beside, f"{other:.3g} s", f"{ours / other:.2f}", f"{most:.2f}" if limited else ""
    return Row(cells, ours <= most * other if limited else None)


def reading(rounds: int) -> Iterator[Row]:
    """The learner's whole time on a stream, against one pass of numpy over it."""
    losses = np.empty((rounds, EXPERTS), np.float32)
    rng = np.random.default_rng(1)
    for start in range(0, rounds, 10_000):
        rng.random(out=losses[start : start + 10_000], dtype=np.float32)

    def blocks() -> Iterator[npt.NDArray[np.float32]]:
        for start in range(0, rounds, 8192):
            yield losses[start : start + 8192]

    for epsilon in (2.0, 1.0, 0.2, 0.05):
        learner = LazyExperts.calibrated(rounds=rounds, experts=EXPERTS, epsilon=epsilon, delta=1e-6, variant="l2p")
        batch = learner.batch
        whole = rounds // batch * batch

        sums = np.zeros((rounds // batch, EXPERTS), np.float32)  # its pages are there before the clock starts
        passes = one_pass(losses[:whole].reshape(-1, batch, EXPERTS), sums)
        spent = seconds(
            REPEATS,
            lambda learner=learner: learner.run(losses, np.random.default_rng(2)),  # type: ignore[misc]
            lambda learner=learner: learner.run(blocks(), np.random.default_rng(2)),  # type: ignore[misc]
            *passes.values(),
        )
        ours, fed, plain, fastest = spent
        name, other = passes
        size = f"{rounds:g} rounds, {EXPERTS} experts, ε = {epsilon:g}: batches of {batch}"
        yield compared(f"LazyExperts.run, {size}", ours, f"one {name}", plain, 1.5)
        yield compared("the same, fed in blocks of 8192 rounds", fed, f"one {name}", plain, 1.5)
        yield compared("the first", ours, f"one {other}", fastest)


def one_pass(batches: npt.NDArray[np.float32], sums: npt.NDArray[np.float32]) -> dict[str, Callable[[], Any]]:
    """Numpy's sum over the middle axis, and what gives the same numbers fastest."""
    found: dict[str, Callable[[], Any]] = {"np.add.reduce": lambda: np.add.reduce(batches, axis=1, out=sums)}
    if batches.shape[1] == 1:
        return found | {"np.copyto": lambda: np.copyto(sums, batches[:, 0])}
    return found | {"np.einsum": lambda: np.einsum("kbe->ke", batches, out=sums)}


def auditing(runs: int) -> Iterator[Row]:
    """Many runs at once, against the seconds that an audit may take."""
    for variant in ("l2p", "dartboard"):
        learner = LazyExperts(
            rounds=1000, experts=10, learning_rate=0.02, fake_switch_probability=0.05, variant=variant
        )
        pair = learner.worst_case_neighbours()

        def once(learner: LazyExperts = learner, pair: Any = pair) -> None:
            found = learner.simulate(pair[0], np.random.default_rng(3), runs)
            learner.log_likelihood_ratio(found, *pair)

        name = f"{runs:g} runs of 1000 batches with their likelihood ratios, {variant}"
        yield compared(name, seconds(1, once, clock=time.perf_counter)[0], "the limit", 20.0, 1.0)


def rows(quick: bool) -> Iterator[Row]:
    """Yields all rows."""
    shrink = 10 if quick else 1
    yield from reading(10**6 // shrink)
    yield from auditing(10**5 // shrink)


PAGE = """# Learners: side by side

{met} A run of `LazyExperts` may take 1.5 times as long as one numpy pass over its
losses, and 100,000 runs of 1000 batches 20 s.

Written by `python -m benchmarks.learners.lazy --write`; edit that instead.

The table has the least CPU time (of all threads together; there is one) of several alternating runs in one process.
Rows with a limit in seconds have the wall time. A learner has to read its losses, so the limit is one numpy pass that
adds up the same single-precision losses in batches: `np.add.reduce`, into memory that is already allocated. Rows
without a limit are compared with the fastest way to move the same bytes, `np.einsum`, or `np.copyto` for batches of one
round. The learner also checks that every loss is in range, which is a second pass over data in the cache. It tosses the
coins of all batches, draws, and adds up the losses of the played experts. The pass adds up batches of up to 8 rounds
one by one. The learner instead adds up about 64 rounds at a time, and in single batches only the two experts that it
needs.

{table}
"""


COLUMNS = "| | ours | seconds | beside | seconds | ratio | at most |"

if __name__ == "__main__":
    sys.exit(compare("benchmarks-learners.md", COLUMNS, rows, PAGE, quick="a tenth of the sizes"))
