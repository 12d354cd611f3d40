"""A target in a process of its own, which is ended when one call takes too long.

A call that hangs in the loop of a C library can't be stopped in the process that it hangs in: Python's signal handlers
run between two of its own instructions, and a thread can't be ended. So the target runs in another process. There, the
kernel's timer ends the process when a call takes longer than the limit, whatever the call does, and also if this
process is gone. The same holds for a target that ends its process: by a crash, ``os._exit``, or ``exec``.

Data sets and the target are sent as they are to workers (:func:`hockeystick.audits.drawing.workers.packed`), so they
must be such that they can be pickled. Generators are sent with each block of calls, and come back: the outputs are the
same as in this process. What the target prints goes to the standard error stream.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any, NoReturn

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.optional_packages import require
from hockeystick.accounting.validate import real
from hockeystick.audits.drawing.draws import portable
from hockeystick.audits.drawing.unchanged_data import Unchanged
from hockeystick.audits.drawing.warnings_once import Shown, collected, show
from hockeystick.audits.drawing.workers import packed
from hockeystick.audits.targets.calling import Outputs, Target, TargetEndedError, TargetError

MOST_BYTES = 1 << 30
"""The largest size of the outputs of one call, or of eight calls of a target that returns one output, in bytes."""

_LONGEST = 1e6  # seconds
_START = 300.0  # seconds to load the target, which may import what it likes
_GRACE = 30.0  # seconds beyond the limit, for a target that has set the kernel's timer itself
_LOOK = 0.2  # seconds between two looks whether the process is still there
_KEPT = 4  # data sets that the other process keeps
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from hockeystick.audits.drawing.own_process import serve; serve(int(sys.argv[1]))"
)


def limited(target: Target, timeout: float | None) -> Target:
    """Returns a target whose calls may take ``timeout`` seconds each; the same target for None.

    Raises:
      InvalidArgumentError: ``timeout`` is not a number of seconds, or the target can't be sent to another process.
      MissingExtraError: cloudpickle is not installed.
    """
    if timeout is None:
        return target
    return evolve(target, elsewhere=OwnProcess(packed(target, "timeout"), checked_timeout(timeout)))


def checked_timeout(timeout: object) -> float:
    """Returns a number of seconds that one call may take.

    Raises:
      InvalidArgumentError: it is not a number of seconds, or the system has no timers that end a process.
    """
    seconds = real("timeout", timeout, low=0.0, high=_LONGEST, low_open=True)
    if not hasattr(signal, "setitimer"):
        raise InvalidArgumentError("timeout", timeout, "needs a POSIX system, whose timers end a call", "leave it out")
    return seconds


class OwnProcess:
    """Draws the outputs of a target in another process, which is started when it is first needed.

    Args:
      code: the packed target.
      seconds: that one call may take.
      calls: the most calls of the caller's code in one of the target's; with several, the target itself limits each of
        them, by :class:`Timed`.
    """

    def __init__(self, code: bytes, seconds: float, calls: int = 1) -> None:
        self.code, self.seconds, self.calls = code, seconds, calls
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def __reduce__(self) -> tuple[type[OwnProcess], tuple[bytes, float, int]]:
        return OwnProcess, (self.code, self.seconds, self.calls)

    def __call__(self, data: object, rng: np.random.Generator, runs: int) -> Outputs:
        """Returns the outputs of ``runs`` runs; see :meth:`hockeystick.audits.targets.calling.Target.outputs`.

        Raises:
          TargetEndedError: a call took too long, or ended the process.
          TargetError: the outputs can't be sent, are too large, or the target changed its input.
          InvalidArgumentError: the data can't be sent.
        """
        with self._lock:
            if self._child is None or self._child.owner != os.getpid():
                self._child = _Child(self.code, self.seconds, self.calls)
            try:
                found, texts = self._child.outputs(data, rng, runs)
            except BaseException:
                self._child.end()
                self._child = None
                raise
        show(texts)
        return found


class _Child:
    """The other process, seen from this one."""

    def __init__(self, code: bytes, seconds: float, calls: int) -> None:
        if not sys.executable:
            raise InvalidArgumentError("timeout", seconds, "needs a Python program to start", "leave it out")
        self.owner, self.seconds, self.calls = os.getpid(), seconds, calls
        self._data: dict[int, object] = {}  # by number: those that the process has
        self._sent = 0
        self._connection, theirs = Pipe()
        words = [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), json.dumps(sys.path)]
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=_stderr(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for this process, which ends the other one
            )
        finally:
            theirs.close()
        self.end = weakref.finalize(self, _end, self._process, self._connection)
        self._ask((code, seconds if calls == 1 else None), _START)

    def outputs(self, data: object, rng: np.random.Generator, runs: int) -> tuple[Outputs, list[Shown]]:
        number = next((number for number, known in self._data.items() if known is data), None)
        if number is None:
            number = self._sent = self._sent + 1
            self._data[number] = data
            if len(self._data) > _KEPT:
                del self._data[min(self._data)]
            self._ask(("data", number, packed(data, "timeout")), _START)
        patience = runs * self.calls * self.seconds + _GRACE
        answer: tuple[Outputs, list[Shown]] = self._ask(("draw", number, rng, runs), patience)
        return answer

    def _ask(self, request: object, patience: float) -> Any:
        """Returns the answer to a request.

        Raises:
          TargetError: the answer is an error; or there is none, since the process has ended or takes too long.
        """
        until = time.monotonic() + patience
        try:
            self._connection.send_bytes(pickle.dumps(request, protocol=5))
            while not self._connection.poll(_LOOK):
                if time.monotonic() > until:
                    raise TargetEndedError(self._late())
                if self._process.poll() is not None and not self._connection.poll(0):
                    raise EOFError
            answer = pickle.loads(self._connection.recv_bytes())  # from the user's own code
        except (EOFError, OSError):
            raise TargetEndedError(self._ended()) from None
        if isinstance(answer, TargetError):
            raise answer
        return answer

    def _late(self) -> str:
        return f"target took longer than {self.seconds:g} s in one call, and was stopped; give a larger timeout"

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        status = self._process.returncode
        if status == -signal.SIGALRM:
            return self._late()
        if status is None or status >= 0:
            return f"target ended its process{'' if status is None else f' with status {status}'}"
        name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
        return f"target's process was ended by signal {name}{'; memory may be short' * (name == 'SIGKILL')}"


def _stderr() -> int:
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    """Ends a process and those that it started."""
    connection.close()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# --- in the other process --------------------------------------------------------------------------------------------


@frozen(eq=False)
class Timed:
    """Calls that end this process when they take too long."""

    call: Callable[..., Any]
    seconds: float

    def __call__(self, *arguments: Any) -> Any:
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        try:
            return self.call(*arguments)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)


@frozen(eq=False)
class _Data:
    """A data set, which is compared with what it was after the 1st, 2nd, 4th, 8th, ... block of calls."""

    value: object
    unchanged: Unchanged
    blocks: list[None]

    @classmethod
    def of(cls, value: object) -> _Data:
        return cls(value, Unchanged((value, None), names=("a data set", "")), [])

    def check(self) -> None:
        self.blocks.append(None)
        if not len(self.blocks) & (len(self.blocks) - 1):
            self.unchanged.check()


def serve(number: int) -> NoReturn:
    """Answers requests on a connection until its other end is closed."""
    connection = Connection(number)
    os.set_inheritable(number, False)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    data: dict[int, _Data] = {}
    target: Target | None = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            request = pickle.loads(connection.recv_bytes())
            answer: Any = None
            try:
                if target is None:
                    code, seconds = request
                    target = pickle.loads(code)
                    target = target if seconds is None else evolve(target, call=Timed(target.call, seconds))
                elif request[0] == "data":
                    data[request[1]] = _Data.of(pickle.loads(request[2]))
                    if len(data) > _KEPT:
                        del data[min(data)]
                else:
                    answer = _drawn(target, data[request[1]], *request[2:])
            except TargetError as error:
                answer = error
            except BaseException as error:  # of a module that is imported here, say
                answer = TargetError(f"target can't be loaded in another process ({type(error).__name__})")
            connection.send_bytes(_packed_answer(answer))
    sys.exit(0)


def _drawn(target: Target, data: _Data, rng: np.random.Generator, runs: int) -> tuple[Outputs, list[Shown]]:
    with collected() as texts:
        found = target.outputs(data.value, rng, runs)
    data.check()
    if found.error is not None:
        found = evolve(found, error=portable(found.error))
    return found, texts


def _packed_answer(answer: Any) -> bytes:
    cloudpickle = require("cloudpickle", "timeout=", extra="parallel")
    try:
        code: bytes = cloudpickle.dumps(answer)
    except Exception as error:
        reason = f"target returned what can't be sent from its process ({type(error).__name__}): return numbers, "
        return pickle.dumps(TargetError(reason + "strings, None, arrays, tables, or tuples, lists and dicts of them"))
    if len(code) > MOST_BYTES:
        said = f"target returned {len(code):,} bytes at once, above the {MOST_BYTES:,} of an audit: return less"
        return pickle.dumps(TargetError(said))
    return code
