"""Where the pieces of a long audit are computed: in this process, on all cores, or on a cluster.

Everything goes through joblib, so that any backend registered with it will do: "loky" (processes, the default), "dask",
"threading", or another library's by its name. A piece says by itself all that it needs, seeds included; results do not
depend on how many workers there are, nor on which of them computes what and in which order.

A worker that dies takes only unfinished pieces with it; they are computed again. Where pieces are tasks of their own,
one that kills its workers again and again is given up, and the others are finished (:meth:`Crew.survivors`).
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import attrs
from attrs import field, frozen

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.optional_packages import require
from hockeystick.accounting.validate import integer

Job = TypeVar("Job")
Result = TypeVar("Result")

_MOST_WORKERS = 1 << 16
_MOST_DEATHS = 3  # of workers in a row, without any piece finished
_SUSPECT = 2  # deaths during which a piece was under way, before it has to be computed alone


class WorkerError(HockeystickError):
    """Workers died again and again on the same pieces."""


@frozen
class Lost:
    """Stands for the result of a piece that was given up.

    Attributes:
      reason: how its last worker ended.
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
        raise InvalidArgumentError("backend", value, "is no name", 'give a joblib backend: "loky", "dask", ...')
    return value


@frozen
class Workers:
    """Who computes.

    Attributes:
      count: processes; -1 for all cores, or all workers of a cluster.
      backend: a joblib backend; None for this process if ``count`` is 1, else for processes on this machine.
      address: of a Dask scheduler; None for the client that is current.

    Raises:
      InvalidArgumentError: no number of processes, no name, or an address for another backend than "dask".
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
        """Keeps the workers for several rounds.

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
            pool = joblib.Parallel(n_jobs=count, batch_size=1, return_as="generator_unordered", pre_dispatch="3*n_jobs")
            yield Crew(pool, joblib.effective_n_jobs(count) if count == -1 else count)


def _current(distributed: Any) -> Any:
    try:
        return distributed.get_client()
    except ValueError:
        raise InvalidArgumentError(
            "address", None, "is missing, and there is no current Dask client", "give the scheduler's address"
        ) from None


@frozen(eq=False)
class Crew:
    """Workers at hand.

    Attributes:
      pool: of joblib; None for this process.
      size: how many pieces are computed at a time.
    """

    pool: Any
    size: int

    def results(self, function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[tuple[int, Result]]:
        """Yields (number of the job, ``function(job)``) as they come.

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
        """Yields (number of the job, ``function(job)``) as they come, and :class:`Lost` for a job that kills workers.

        Who was at work when a worker died can't be told from those beside it. So all of them are computed again, and
        those that two deaths have met are computed alone: one whose worker dies then as well is lost, and no other.
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
        found = self.pool(delayed(_numbered)(code, *item) for item in list(jobs.items()))
        try:
            for item in found:  # noqa: UP028  # "yield from" would close what it yields from before we can
                yield item
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that unfinished work is given up, which is what is meant
                found.close()


def packed(function: Any) -> bytes:
    """Returns a function as bytes. What it uses of modules that are not installed goes along: workers lack them.

    Raises:
      InvalidArgumentError: it can't be pickled.
    """
    cloudpickle = require("cloudpickle", "several workers", extra="parallel")
    alone = [module for name in _modules(function) if (module := sys.modules.get(name)) and not _installed(module)]
    for module in alone:
        cloudpickle.register_pickle_by_value(module)
    try:
        found: bytes = cloudpickle.dumps(function)
    except Exception as error:
        raise InvalidArgumentError(
            "workers", type(error).__name__, f"need a target and data that can be pickled ({error})", "give workers=1"
        ) from error
    finally:
        for module in alone:
            cloudpickle.unregister_pickle_by_value(module)
    return found


def _modules(value: Any, depth: int = 6) -> set[str]:
    """Returns the names of the modules that a function, and what it is made of, come from."""
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
    return pickle.loads(code)  # our own, from the process that hired this one


def _numbered(code: bytes, number: int, job: Any) -> tuple[int, Any]:
    return number, _unpacked(code)(job)


def _died(error: Exception) -> bool:
    from concurrent.futures.process import BrokenProcessPool

    names = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, BrokenProcessPool) or bool(names & {"KilledWorker", "TerminatedWorkerError"})
