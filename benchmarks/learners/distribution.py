"""Online distribution learning within limits of CPU time: whole runs, devices, servers and audits.

    python -m benchmarks.learners.distribution [--quick] [--write]

A run of 10^8 rounds holds one chunk of them at a time; its peak of memory, beyond that of a run of a tenth of the
length, is measured too. ``--write`` puts the table into docs/benchmarks-distribution.md. CPU time of one process, the
least of several where it is short.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.frame import Row, compare, seconds, within
from hockeystick._runs.distribution_models import half_uniform
from hockeystick.audits import audit
from hockeystick.learners.distribution.channels.all_channels import (
    Channel,
    OneBit,
    RandomizedLabels,
    SampledDiscreteLaplace,
    SampledLaplace,
)
from hockeystick.learners.distribution.channels.levels import UniformMixture
from hockeystick.learners.distribution.channels.wire import MessageFormat
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.server import DistributionServer

_MANY_CALLS, _MANY_MESSAGES = 1e5, 1e7  # a second


def runs(quick: bool) -> Iterator[Row]:
    """Whole runs: draw labels and messages, learn, and rate every round's prediction."""
    part = 0.1 if quick else 1.0
    rounds = round(1e6 * part)
    learner = OnlineDistribution.build(half_uniform(16, 16), rounds=rounds, epsilon=1.0)
    for block, limit in ((10, 0.8), (1, 4.5)):
        spent = seconds(3, lambda: learner.simulate(0, np.random.default_rng(1), 1, block=block))[0]  # noqa: B023
        how = "exact" if block == 1 else f"weights move every {block} rounds"
        yield within(f"a run of {rounds:g} rounds, K = 16, {how}", spent, limit * part)
    rounds = round(1e8 * part)
    (short, memory), (spent, peak) = _apart(rounds // 10), _apart(rounds)
    yield within(f"a run of {rounds:g} rounds, K = 4, weights move every 10 rounds", spent, 20.0 * part)
    yield within("its peak of memory beyond that of a tenth of the rounds", max(0.0, peak - memory), 20.0, "MB")
    yield within("its CPU time, as a multiple of that of a tenth of the rounds", spent / short, 15.0, "times")


def _apart(rounds: int) -> tuple[float, float]:
    """CPU seconds, and the most memory in MB, of a run in a process of its own."""
    script = f"""
import json, resource, sys, time
import numpy as np
from hockeystick._runs.distribution_models import half_uniform
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
learner = OnlineDistribution.build(half_uniform(4, 4), rounds={rounds}, epsilon=1.0)
start = time.process_time()
learner.simulate(0, np.random.default_rng(1), 1, block=10)
spent = time.process_time() - start
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([spent, memory / (1e6 if sys.platform == "darwin" else 1e3)]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    spent, memory = json.loads(done.stdout)
    return spent, memory


def channels(quick: bool) -> Iterator[Row]:
    """Messages: one by one with secure noise, as on a device, and many at once in a simulation."""
    calls, many = (2000, 10**6) if quick else (20000, 10**7)
    levels = UniformMixture().levels(half_uniform(16, 16), 10**6)
    labels = np.random.default_rng(1).integers(0, 16, size=many)

    def one_by_one(channel: Channel) -> None:
        for label in range(calls):
            channel.privatise(label & 15)

    made = [kind(levels, epsilon=1.0) for kind in (OneBit, SampledLaplace, SampledDiscreteLaplace, RandomizedLabels)]
    for channel in made:
        channel.privatise(0)  # its tables
        name = type(channel).__name__
        spent = seconds(3, lambda: one_by_one(channel))[0]  # noqa: B023
        yield within(f"{name}.privatise, call by call", calls / spent, _MANY_CALLS, "/s", at_least=True)
    for each in (made[0], made[1], made[3]):
        spent = seconds(3, lambda: each.simulate(labels, np.random.default_rng(2)))[0]  # noqa: B023
        yield within(
            f"{type(each).__name__}.simulate of {many:g} labels", many / spent, _MANY_MESSAGES, "/s", at_least=True
        )


def servers(quick: bool) -> Iterator[Row]:
    """A server that reads messages from bytes, one by one."""
    count = 2000 if quick else 20000
    learner = OnlineDistribution.build(half_uniform(16, 16), rounds=count, epsilon=1.0)
    channel, form = learner.channels[0], MessageFormat.of(learner.channels[0], run=bytes(8))
    sent = [form.write(number, channel.privatise(number & 15)) for number in range(count)]

    def receive() -> None:
        server = DistributionServer(learner)
        for data in sent:
            server.receive(data, form)

    yield within("DistributionServer.receive, call by call", count / seconds(3, receive)[0], 1e4, "/s", at_least=True)


def audits(quick: bool) -> Iterator[Row]:
    """Audits of a message at its own claim: by its likelihood ratio, and as it is, an index and a value."""
    messages = 10**5 if quick else 10**6
    levels = UniformMixture().levels(half_uniform(2, 2), 1000)
    for channel in (OneBit(levels, epsilon=1.0), SampledLaplace(levels, epsilon=1.0)):

        def ratios(label: int, rng: np.random.Generator, runs: int, channel: Channel = channel) -> Any:
            return channel.log_likelihood_ratio(channel.simulate(np.full(runs, label), rng), 0, 1)

        def told(label: int, rng: np.random.Generator, runs: int, channel: Channel = channel) -> Any:
            found = channel.simulate(np.full(runs, label), rng)
            return np.stack([np.asarray(found.index, dtype=np.float64), found.value], axis=1)

        name = type(channel).__name__
        for seen, samples, what in (
            (ratios, messages, f"likelihood ratios of {messages:g} messages about each of two labels"),
            (told, messages // 2, f"{messages:g} messages about two labels, as they are"),
        ):
            spent = seconds(1, lambda: _passed(seen, samples))[0]  # noqa: B023
            yield within(f"an audit of {name}: {what}", spent, 5.0)


def _passed(target: Callable[..., Any], samples: int) -> None:
    verdict = audit(target, claim=(1.0, 0.0), neighbours=(0, 1), samples=samples, rng=1)
    if verdict.refuted:
        raise RuntimeError(f"a true claim was refuted: {verdict}")


def rows(quick: bool) -> Iterator[Row]:
    """Yields all rows."""
    for part in (runs, channels, servers, audits):
        yield from part(quick)


PAGE = """# Online distribution learning: beside its limits

{met} A run of 10⁸ rounds may take 20 s, and a device has to make at least 100,000
messages per second.

Written by `python -m benchmarks.learners.distribution --write`; edit that instead.

The table has the CPU time of one process, the least of three measurements. Audits and the longest runs were measured
once. A run draws all labels and messages and computes the exact risk of every prediction. Each candidate is a mixture
of the uniform law and of a label of its own, with weight 1/2 each; ε = 1. A device draws secure random bits for each
message.

{table}
"""


if __name__ == "__main__":
    quick = "a tenth of the sizes, and of the time for whole runs"
    sys.exit(compare("benchmarks-distribution.md", "| | what | measured | limit |", rows, PAGE, quick=quick))
