"""Programs as targets: a command is started with a data set in a file, and prints outputs."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.systems.wire import data_file, lines_of, output_of, outputs_of, without_data
from hockeystick.audits.targets.calling import TargetError

DATA, RUNS, SEED = "{data}", "{runs}", "{seed}"
_BATCH = 1000
_STARTS = 16  # of the program in a call, at most; a number of processes would make outputs depend on it


class CommandError(TargetError):
    """A program ended with another status than 0, took too long, or printed what can't be read as outputs.

    See :class:`Command`. The message has the exit status and the first line of the standard error stream, without
    numbers, quoted parts and words that occur in the data set.
    """


def _words(command: str | Sequence[str]) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command) if isinstance(command, str) else command)
    except ValueError as error:
        raise InvalidArgumentError("command", command, f"can't be split into words ({error})", "close quotes") from None
    if not words or not all(isinstance(word, str) for word in words):
        raise InvalidArgumentError("command", command, "is empty", "give a program and its arguments")
    if shutil.which(words[0]) is None:
        raise InvalidArgumentError("command", command, f"there is no program {words[0]!r}", "give its path")
    return words


def _batch(runs: int) -> int:
    return integer("batch", runs, low=1)


def _timeout(seconds: float) -> float:
    return real("timeout", seconds, low=0.0, low_open=True)


@frozen
class Command:
    """A program as a target, started anew for each batch of outputs; there is no shell.

    In the program's arguments ``{data}`` stands for the path of a file with the data set, ``{runs}`` for the number of
    outputs to print, and ``{seed}`` for a seed. Each start gets a copy of the data set of its own, so that a program
    which changes its input does no harm; it is called ``data`` with the suffix of the original. Without ``{data}`` the
    data set is on the standard input.

    With ``{runs}`` a program prints one output a line. By default each start makes one output, which is the whole text
    that the program prints. An output is a JSON value, a number or a text. Outputs must be independent: a program that
    draws several in one start must not reuse noise.

    Without ``{seed}`` the program has randomness of its own, so that a seed does not repeat an audit, and the verdict
    says so.

    Attributes:
      command: the program and its arguments; a text is split as a shell would split it.
      batch: the largest number of outputs of one start, if the command has ``{runs}``.
      timeout: seconds that one start may take.
      processes: number of programs that run at the same time; -1 for one per core. Outputs do not depend on it.
      failures_as_output: whether a status other than 0 is an output; for commands without ``{runs}``.

    A data set is a path (of any file), or a value that is written as JSON: numbers, texts, lists, dictionaries, arrays.

    Raises:
      InvalidArgumentError: there is no such program, or a number is out of range.

    Example:
      >>> import sys
      >>> import hockeystick as hs
      >>> code = "import json, random, sys; data = json.load(open(sys.argv[1])); r = random.Random(sys.argv[2])"
      >>> code += "; n = int(sys.argv[3])"
      >>> code += "; print(*[sum(data) + r.expovariate(4) - r.expovariate(4) for _ in range(n)], sep='\\\\n')"
      >>> noisy_sum = hs.targets.Command([sys.executable, "-c", code, "{data}", "{seed}", "{runs}"])
      >>> hs.audit(noisy_sum, claim=(1.0, 0.0), neighbours=([1], [1, 1]), samples=1000, rng=1).outcome
      'refuted'
    """

    command: str | Sequence[str]
    batch: int = field(default=_BATCH, kw_only=True, converter=_batch)
    timeout: float = field(default=60.0, kw_only=True, converter=_timeout)
    processes: int = field(default=1, kw_only=True)
    failures_as_output: bool = field(default=False, kw_only=True)
    words: tuple[str, ...] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "words", _words(self.command))
        processes = integer("processes", self.processes, low=-1)
        if processes == 0:
            raise InvalidArgumentError("processes", 0, "starts nothing", "give 1 or more, or -1 for one per core")
        object.__setattr__(self, "processes", processes if processes > 0 else os.cpu_count() or 1)
        if self.failures_as_output and self._has(RUNS):
            reason = f"needs a command without {RUNS}, whose status is that of one output"
            raise InvalidArgumentError("failures_as_output", True, reason, "let the program print its failures")

    @property
    def repeatable(self) -> bool:
        """Whether the command has ``{seed}``."""
        return self._has(SEED)

    @property
    def runs_per_call(self) -> int:
        """The most outputs that an audit asks for at once, so that it soon sees how long they take."""
        return _STARTS * (self.batch if self._has(RUNS) else 1)

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> list[Any]:
        """Returns ``runs`` outputs on data set ``value``.

        Raises:
          CommandError: a program failed, took too long, or printed another number of lines.
          InvalidArgumentError: the data set can't be written to a file.
        """
        batch = self.batch if self._has(RUNS) else 1
        sizes = [min(batch, runs - start) for start in range(0, runs, batch)]
        seeds = rng.integers(1 << 31, size=len(sizes)).tolist()
        if self.processes == 1 or len(sizes) == 1:
            return [one for size, seed in zip(sizes, seeds, strict=True) for one in self._start(value, size, seed)]
        with ThreadPoolExecutor(self.processes) as pool:
            started = [pool.submit(self._start, value, size, seed) for size, seed in zip(sizes, seeds, strict=True)]
            try:
                return [one for future in started for one in future.result()]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _has(self, name: str) -> bool:
        return any(name in word for word in self.words)

    def _start(self, value: Any, runs: int, seed: int) -> list[Any]:
        """Returns the outputs of one start of the program."""
        with tempfile.TemporaryDirectory(prefix="hockeystick-") as folder:
            file = data_file(value, Path(folder))
            data = file.read_bytes()
            filled = [w.replace(DATA, str(file)).replace(RUNS, str(runs)).replace(SEED, str(seed)) for w in self.words]
            status, printed, said = self._run(filled, None if self._has(DATA) else file)
        if status:
            if self.failures_as_output:
                return [{"exit status": status}]
            raise CommandError(f"the program ended with status {status}{_complaint(said, data)}")
        try:
            lines = lines_of(printed.decode())
        except UnicodeDecodeError:
            raise CommandError("the program printed what is not UTF-8 text") from None
        if not self._has(RUNS):
            return [output_of("\n".join(lines)) if len(lines) < 2 else _several(lines)]
        if len(lines) != runs:
            raise CommandError(f"the program printed {len(lines)} lines for {runs} runs: print one output a line")
        return outputs_of(lines)

    def _run(self, words: list[str], stdin: Path | None) -> tuple[int, bytes, bytes]:
        """Returns the exit status of a program, and its standard output and error streams."""
        with contextlib.ExitStack() as stack:
            source: Any = subprocess.DEVNULL if stdin is None else stack.enter_context(stdin.open("rb"))
            streams = {"stdin": source, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            try:
                process = subprocess.Popen(words, start_new_session=True, **streams)
            except OSError as error:
                raise CommandError(f"the program can't be started ({error.strerror})") from None
            stack.enter_context(_ended(process))
            try:
                printed, said = process.communicate(timeout=self.timeout)
            except subprocess.TimeoutExpired:
                raise CommandError(f"the program took longer than {self.timeout:g} s") from None
        return process.returncode, printed, said


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends a program and those that it started, whatever happens."""
    with process:
        try:
            yield
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    if hasattr(os, "killpg"):
                        os.killpg(process.pid, signal.SIGKILL)
                    else:
                        process.kill()


def _several(lines: list[str]) -> Any:
    """Returns the output that several lines are: one JSON value, or the outputs of its lines as a tuple."""
    whole = output_of("\n".join(lines))
    return tuple(outputs_of(lines)) if isinstance(whole, str) else whole


def _complaint(said: bytes, data: bytes) -> str:
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return ""
    told = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return f": {without_data(told, data)}"
