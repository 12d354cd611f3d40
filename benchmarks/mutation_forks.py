"""Work in forked processes: each job in one of its own, which starts with all that this process has imported.

A job may loop for ever, take all memory or end the process; the next one does not notice.
"""

from __future__ import annotations

import os

# Each process gets one core. It has to be said before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import multiprocessing
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

from attrs import frozen

Job = TypeVar("Job")

_FORK = multiprocessing.get_context("fork")


@frozen
class Ended:
    """How a job ended.

    Attributes:
      result: what its function returned; None if it did not return.
      reason: "" if it returned, "timed out", or how its process ended.
      seconds: that it took.
    """

    result: Any
    reason: str
    seconds: float


@frozen
class _Running:
    job: Any
    process: ForkProcess
    started: float
    limit: float


def forked(
    function: Callable[[Job], Any],
    jobs: Iterable[Job],
    *,
    workers: int,
    limit: Callable[[Job], float],
    memory: float = 4.0,
) -> Iterator[tuple[Job, Ended]]:
    """Yields each job as it ends, and how.

    Args:
      function: called with a job, in a process of its own; what it returns has to be small and picklable.
      jobs: begun in this order.
      workers: how many run at once.
      limit: seconds after which a job and all that it started are ended.
      memory: GiB of addresses that a job may have.
    """
    waiting = deque(jobs)
    running: dict[Any, _Running] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.popleft()
                receiving, sending = _FORK.Pipe(duplex=False)
                process = _FORK.Process(target=_work, args=(function, job, sending, memory))
                process.start()
                sending.close()
                running[receiving] = _Running(job, process, time.monotonic(), limit(job))
            now = time.monotonic()
            patience = max(0.0, min(one.started + one.limit - now for one in running.values()))
            ready = wait(list(running), timeout=patience)
            now = time.monotonic()
            for channel, one in list(running.items()):
                if channel in ready or now - one.started > one.limit:
                    del running[channel]
                    yield one.job, _ended(channel, one, channel in ready)
    finally:
        for channel, one in running.items():
            _end(channel, one)


def _ended(channel: Any, one: _Running, ready: bool) -> Ended:
    result, reason = None, "timed out"
    if ready:
        try:
            result, reason = channel.recv()
        except EOFError:
            one.process.join()
            late = one.process.exitcode in (-signal.SIGPROF, -signal.SIGXCPU)
            reason = "timed out" if late else f"ended with status {one.process.exitcode}"
    _end(channel, one)
    return Ended(result, reason, time.monotonic() - one.started)


def _end(channel: Any, one: _Running) -> None:
    """Ends a job's process, and those that it started."""
    channel.close()
    if one.process.pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(one.process.pid, signal.SIGKILL)
    one.process.kill()
    one.process.join()


def _work(function: Callable[[Any], Any], job: Any, sending: Connection, memory: float) -> None:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    size = int(memory * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    try:
        sent = function(job), ""
    except BaseException as error:
        sent = None, f"{type(error).__name__}: {error}"[:300]
    sending.send(sent)
    sending.close()
    os._exit(0)  # what a mutant left behind can't be trusted to end
