"""Workers that compute the pieces of a long audit: in this process, on all cores, or on a cluster.

All parallel work uses joblib, so any backend registered with it will do: "loky" (processes, the default), "dask",
"threading", or another library's by its name. A piece contains all that it needs, seeds included. Results do not depend
on the number of workers, nor on which worker computes which piece, nor on the order.

If a worker dies, its unfinished pieces are computed again. If the pieces are independent tasks, a piece that kills its
workers repeatedly is given up, and the others are finished (:meth:`Crew.survivors`).
"""

from __future__ import annotations

import contextlib
import io
import pickle
import sys
import sysconfig
import warnings
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar

import attrs
from attrs import field, frozen

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.optional_packages import require
from hockeystick.accounting.validate import integer
from hockeystick.audits.drawing.warnings_once import Shown, collected, show

Job = TypeVar("Job")
Result = TypeVar("Result")

_FORMS = ("generator_unordered", "generator", "list")  # of joblib's results, the best one first
_AHEAD = 3  # pieces for each worker that are asked for at a time, where results come as a list
_MOST_WORKERS = 1 << 16
_MOST_DEATHS = 3  # of workers in a row, without any finished piece
_SUSPECT = 2  # deaths while a piece was being computed, before that piece is computed alone


class WorkerError(HockeystickError):
    """Workers died repeatedly on the same pieces. See :class:`Workers`."""


@frozen
class Lost:
    """The placeholder for the result of a piece that was given up.

    Attributes:
      reason: the error with which its last worker ended.
    """

    reason: str


def _count(value: object) -> int:
    found = integer("workers", value, low=-1, high=_MOST_WORKERS)
    if found == 0:
        raise InvalidArgumentError(
            "workers", value, "computes nothing", "give a number of processes, or -1 for all cores"
        )
    return found


def _name(value: object) -> str | None:
    if value is not None and not (isinstance(value, str) and value):
        raise InvalidArgumentError("backend", value, "is not a name", 'give a joblib backend: "loky", "dask", ...')
    return value


@frozen
class Workers:
    """The workers that compute an audit.

    Attributes:
      count: number of processes; -1 for all cores, or all workers of a cluster.
      backend: a joblib backend; None for this process if ``count`` is 1, else for local processes.
      address: address of a Dask scheduler; None for the current Dask client.

    Raises:
      InvalidArgumentError: ``count`` is not a number of processes, ``backend`` is not a name, or an address is given
        for a backend other than "dask".

    Example:
      >>> from hockeystick.audits import Workers
      >>> with Workers(1).hired() as crew:  # one process: this one
      ...     print(dict(crew.results(lambda job: job**2, [3, 4])))
      {0: 9, 1: 16}
    """

    count: int = field(default=1, converter=_count)
    backend: str | None = field(default=None, converter=_name)
    address: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.address is not None and self.backend != "dask":
            raise InvalidArgumentError("address", self.address, "is for backend='dask'", "leave it out")

    @property
    def here(self) -> bool:
        """Whether everything is computed in this process, one piece after the other."""
        return self.count == 1 and self.backend is None

    @contextlib.contextmanager
    def hired(self) -> Iterator[Crew]:
        """Starts the workers, and stops them at the end of the ``with`` block.

        Raises:
          MissingExtraError: joblib, or Dask's distributed, is not installed.
        """
        if self.here:
            yield Crew(None, 1)
            return
        with contextlib.ExitStack() as stack:
            joblib = require("joblib", "several workers", extra="parallel")
            count = self.count
            if self.backend == "dask":
                distributed = require("distributed", "backend='dask'", extra="dask")
                client = (
                    stack.enter_context(distributed.Client(self.address)) if self.address else _current(distributed)
                )
                if count == -1:
                    count = max(1, sum(client.nthreads().values()))
            if self.backend is not None:
                try:
                    stack.enter_context(joblib.parallel_config(backend=self.backend))
                except ValueError as error:
                    raise InvalidArgumentError(
                        "backend", self.backend, f"is unknown to joblib ({error})", 'use "loky", or register it'
                    ) from None
            pool, gives = _pool(joblib, count, self.backend)
            yield Crew(pool, joblib.effective_n_jobs(count) if count == -1 else count, gives)


def _pool(joblib: Any, count: int, backend: str | None) -> tuple[Any, str]:
    """Returns joblib's pool, and the best form of results that its backend has.

    Raises:
      InvalidArgumentError: the backend has none.
    """
    refused = ""
    for gives in _FORMS:
        try:
            return joblib.Parallel(n_jobs=count, batch_size=1, return_as=gives, pre_dispatch="3*n_jobs"), gives
        except ValueError as error:  # it does not support this form
            refused = str(error)
    reason = f"gives no results to wait for ({refused})"
    raise InvalidArgumentError("backend", backend, reason, 'use "loky", "threading" or "dask"')


def _current(distributed: Any) -> Any:
    try:
        return distributed.get_client()
    except ValueError:
        raise InvalidArgumentError(
            "address", None, "is missing, and there is no current Dask client", "give the scheduler's address"
        ) from None


@frozen(eq=False)
class Crew:
    """Workers that have been started.

    Attributes:
      pool: joblib's pool; None for this process.
      size: number of pieces that are computed at a time.
      gives: form of the pool's results: as they finish, in order, or as a list, for which a few pieces are asked for at
        a time (Ray's backend knows lists only).
    """

    pool: Any
    size: int
    gives: str = "generator_unordered"

    def results(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[tuple[int, Result]]:
        """Yields (number of the job, ``function(job)``) in the order in which the jobs finish.

        Raises:
          WorkerError: workers died three times in a row without any result.
        """
        if self.pool is None:
            for number, job in enumerate(jobs):
                yield number, function(job)
            return
        code = packed(function)
        left, deaths = dict(enumerate(jobs)), 0
        while left:
            try:
                for number, result in self._pooled(code, left):
                    del left[number]
                    deaths = 0
                    yield number, result
            except Exception as error:
                if not _died(error):
                    raise
                deaths += 1
                if deaths > _MOST_DEATHS:
                    raise WorkerError(
                        f"workers died {deaths} times in a row with {len(left)} pieces left ({type(error).__name__}: "
                        f"{error}): memory may be short; give fewer workers"
                    ) from error

    def survivors(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[tuple[int, Result | Lost]]:
        """Yields (number of the job, ``function(job)``), with :class:`Lost` as the result of a job that kills workers.

        When a worker dies, the jobs in progress can't be told apart. So all of them are computed again. A job that was
        in progress at two deaths is computed alone; if its worker dies then, this job, and no other, is lost.
        """
        if self.pool is None:
            yield from self.results(function, jobs)
            return
        code = packed(function)
        left: dict[int, Job] = dict(enumerate(jobs))
        met: Counter[int] = Counter()
        while left:
            alone = next((number for number in left if met[number] >= _SUSPECT), None)
            try:
                for number, result in self._pooled(code, left if alone is None else {alone: left[alone]}):
                    del left[number]
                    yield number, result
            except Exception as error:
                if not _died(error):
                    raise
                if alone is None:
                    met.update(list(left)[: self.size])  # jobs are begun in the order of their numbers
                else:
                    del left[alone]
                    yield alone, Lost(f"{type(error).__name__}: {' '.join(str(error).split())}")

    def _pooled(self, code: bytes, jobs: dict[int, Job]) -> Iterator[tuple[int, Any]]:
        delayed = require("joblib", "several workers", extra="parallel").delayed
        found = self._finished([delayed(_numbered)(code, *item) for item in jobs.items()])
        try:
            for number, result, texts in found:
                show(texts)
                yield number, result
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # joblib warns that unfinished work is dropped: intended
                found.close()

    def _finished(self, tasks: list[Any]) -> Any:
        """Returns a generator of the results of joblib's tasks."""
        if self.gives != "list":
            return self.pool(iter(tasks))
        few = _AHEAD * self.size
        return (one for start in range(0, len(tasks), few) for one in self.pool(tasks[start : start + few]))


def packed(function: Any, argument: str = "workers") -> bytes:
    """Returns a pickled function, including what it uses of modules that are not installed, which workers lack.

    Raises:
      InvalidArgumentError: the function can't be pickled; ``argument`` is what needs that.
    """
    feature = "several workers" if argument == "workers" else f"{argument}="
    cloudpickle = require("cloudpickle", feature, extra="parallel")
    alone = [module for name in _modules(function) if (module := sys.modules.get(name)) and not _installed(module)]
    for module in alone:
        cloudpickle.register_pickle_by_value(module)
    try:
        found = _pickled(cloudpickle, function)
    except Exception as error:
        raise InvalidArgumentError(
            argument, type(error).__name__, f"needs a target and data that can be pickled ({error})", "leave it out"
        ) from error
    finally:
        for module in alone:
            cloudpickle.unregister_pickle_by_value(module)
    return found


def _pickled(cloudpickle: Any, function: Any) -> bytes:
    """Returns a pickled function with the names of its files, which tell places in code; cloudpickle omits them."""
    plain, file = cloudpickle.CloudPickler, io.BytesIO()

    def kept(found: CodeType) -> tuple[Any, ...]:
        make, arguments = plain.dispatch_table[CodeType](found)[:2]
        return _with_file, (found.co_filename, make, arguments)

    table = {"dispatch_table": ChainMap({CodeType: kept}, plain.dispatch_table)}  # read when a pickler is made
    type("Pickler", (plain,), table)(file).dump(function)
    return file.getvalue()


def _with_file(file: str, make: Callable[..., CodeType], arguments: tuple[Any, ...]) -> CodeType:
    return make(*arguments).replace(co_filename=file)


def _modules(value: Any, depth: int = 6) -> set[str]:
    """Returns the names of the modules of a function and of its parts."""
    found = {getattr(value, "__module__", None), type(value).__module__}
    parts = [getattr(value, name, None) for name in ("func", "__func__", "__self__", "__wrapped__")]
    if isinstance(value, partial):
        parts += [*value.args, *value.keywords.values()]
    if attrs.has(type(value)):
        parts += [getattr(value, one.name) for one in attrs.fields(type(value))]
    for part in parts if depth else ():
        if part is not None:
            found |= _modules(part, depth - 1)
    return {name for name in found if isinstance(name, str)}


def _installed(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or module.__name__.partition(".")[0] == "hockeystick":
        return True
    homes = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return any(Path(file).is_relative_to(home) for home in homes)


@lru_cache(maxsize=4)
def _unpacked(code: bytes) -> Any:
    return pickle.loads(code)  # from ``packed``, in the process that started this worker


def _numbered(code: bytes, number: int, job: Any) -> tuple[int, Any, list[Shown]]:
    with collected() as texts:
        result = _unpacked(code)(job)
    return number, result, texts


def _died(error: Exception) -> bool:
    from concurrent.futures.process import BrokenProcessPool

    names = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, BrokenProcessPool) or bool(names & {"KilledWorker", "TerminatedWorkerError"})
