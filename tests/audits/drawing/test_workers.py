"""Long audits: on several workers, after the death of one, and after an interruption, the verdict is the same."""

from __future__ import annotations

import contextlib
import enum
import math
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.files.records import RecordFile, joined, split
from hockeystick.accounting.optional_packages import MissingExtraError, require
from hockeystick.audits import Claim, TargetError, Verdict, audit
from hockeystick.audits.drawing import checkpoint, draws
from hockeystick.audits.drawing.workers import Crew, WorkerError, Workers
from hockeystick.audits.outputs.reading import Codebook, Table
from hockeystick.audits.targets.array_files import decoded, encoded

CLAIM = Claim(1.0)


def vectorised(data: float, rng: np.random.Generator, runs: int) -> Any:
    return data + rng.laplace(scale=0.5, size=runs)


def wide(data: float, rng: np.random.Generator, runs: int) -> Any:
    return data + rng.laplace(scale=2.0, size=(runs, 5))


def single(data: float, rng: np.random.Generator) -> Any:
    return None if rng.random() < 0.2 else data + rng.laplace(scale=0.5)


def strange(data: float, rng: np.random.Generator) -> Any:
    return "yes" if rng.random() < 0.2 + 0.5 * data else ("no", rng.random())


DEEP = [pytest.param(target, marks=pytest.mark.deep) for target in (wide, single)]
TARGETS = [vectorised, strange, *DEEP]


def result(verdict: Verdict) -> dict[str, Any]:
    """What a verdict says, but for the time it took."""
    return {name: value for name, value in attrs.asdict(verdict).items() if name != "seconds"}


def once(target: Callable[..., Any], **options: Any) -> Verdict:
    options = {"samples": 6000, "rng": 5, "first_look": False} | options
    return audit(target, claim=CLAIM, neighbours=(0.0, 1.0), **options)


@cache
def alone(target: Callable[..., Any], samples: int = 6000) -> dict[str, Any]:
    """The result of an audit in this process, without interruption."""
    return result(once(target, samples=samples))


def stopped(target: Callable[..., Any], file: Path, after: int, **options: Any) -> None:
    """Interrupts an audit with a checkpoint after so many outputs."""
    with pytest.raises(Stop):
        once(target, checkpoint=file, progress=stopping(after), **options)


@pytest.mark.statistical
@pytest.mark.parametrize("target", [vectorised, wide, single, strange])
@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.deep)])
def test_the_verdict_does_not_depend_on_the_number_of_workers(target: Callable[..., Any], workers: int) -> None:
    assert result(once(target, workers=workers, backend="threading")) == alone(target)


@pytest.mark.statistical
@pytest.mark.parametrize("target", TARGETS)
def test_processes_of_this_machine_find_the_same(target: Callable[..., Any]) -> None:
    assert result(once(target, workers=2)) == alone(target)


def test_a_target_that_raises_on_a_worker_is_refused() -> None:
    def broken(data: float, rng: np.random.Generator, runs: int) -> Any:
        raise KeyError("x")

    with pytest.raises(TargetError, match="raised in 128 of 128 runs on d0 and 128 of 128 on d1"):
        once(broken, workers=2, backend="threading")


@pytest.mark.statistical
def test_more_samples_than_the_first_pieces() -> None:
    """Enough calls that pieces of several calls are computed at once."""
    options = {"samples": 200_000, "rng": 9}
    assert result(once(vectorised, workers=2, backend="threading", **options)) == result(once(vectorised, **options))


class Dying:
    """A target whose first call in another process ends that process."""

    def __init__(self, flag: Path) -> None:
        self.flag, self.home = flag, os.getpid()

    def __call__(self, data: float, rng: np.random.Generator, runs: int) -> Any:
        if os.getpid() != self.home:
            try:
                self.flag.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return vectorised(data, rng, runs)


@pytest.mark.statistical
def test_the_pieces_of_a_process_that_dies_are_computed_again(tmp_path: Path) -> None:
    found = once(Dying(tmp_path / "died"), workers=2, samples=100_000)

    assert (tmp_path / "died").exists()
    assert result(found) == alone(vectorised, 100_000)


class Deadly(Exception):
    """Stands for the error that a pool gives when a process has died."""


def test_workers_that_always_die_end_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hockeystick.audits.drawing.workers._died", lambda error: isinstance(error, Deadly))
    calls = 0

    def pool(jobs: Any) -> Iterator[Any]:
        nonlocal calls
        calls += 1
        yield from ()
        raise Deadly

    with pytest.raises(WorkerError, match="died 4 times in a row with 2 pieces left"):
        list(Crew(pool, 2).results(lambda job: job, [1, 2]))
    assert calls == 4


def test_finished_pieces_are_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hockeystick.audits.drawing.workers._died", lambda error: isinstance(error, Deadly))
    asked: list[int] = []

    def pool(jobs: Any) -> Iterator[Any]:
        for i, (function, arguments, _) in enumerate(jobs):
            asked.append(arguments[1])
            if i == 2:
                raise Deadly
            yield function(*arguments)

    found = dict(Crew(pool, 2).results(lambda job: 10 * job, range(5)))

    assert found == {i: 10 * i for i in range(5)}
    assert asked == [0, 1, 2, 2, 3, 4, 4]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")  # of Dask and its event loop
@pytest.mark.parametrize("target", TARGETS)
def test_a_dask_cluster_finds_the_same(scheduler: str, target: Callable[..., Any]) -> None:
    assert result(once(target, workers=-1, backend="dask", address=scheduler)) == alone(target)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")  # of Dask and its event loop
def test_a_dask_worker_that_dies_takes_only_its_own_piece(scheduler: str, tmp_path: Path) -> None:
    found = once(Dying(tmp_path / "died"), workers=-1, backend="dask", address=scheduler, samples=100_000)

    assert (tmp_path / "died").exists()
    assert result(found) == alone(vectorised, 100_000)


class Stop(BaseException):
    """An interruption."""


def stopping(after: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done >= after:
            raise Stop

    return progress


@pytest.mark.statistical
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("after", [400, 5000, 9000])
def test_an_interrupted_audit_goes_on(target: Callable[..., Any], after: int, tmp_path: Path) -> None:
    kept = tmp_path / "audit.db"
    stopped(target, kept, after)
    again: list[int] = []
    found = once(
        target, checkpoint=kept, progress=lambda done, total: again.append(done), workers=2, backend="threading"
    )

    assert result(found) == alone(target)
    assert not kept.exists()
    if after == 9000:  # what had been counted was not drawn again
        assert all(done > 5000 for done in again)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("target", "after"),
    [
        (wide, 7000),
        (strange, 9000),
        *(pytest.param(*one, marks=pytest.mark.deep) for one in ((wide, 9000), (strange, 7000))),
        *(pytest.param(single, after, marks=pytest.mark.deep) for after in (7000, 9000)),
    ],
)
def test_counts_of_an_interrupted_audit_are_kept_once(
    target: Callable[..., Any], after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are small, and more so for outputs of several numbers; each is a piece of its own."""
    monkeypatch.setattr("hockeystick.audits.targets.calling._NUMBERS", 512)
    monkeypatch.setattr("hockeystick.audits.drawing.draws._PILOT_SECONDS", 1e-9)
    kept = tmp_path / "audit.db"
    stopped(target, kept, after)
    records = RecordFile(kept, checkpoint.KIND, timeout=10.0).read()
    counted, counts = (decoded(joined(name, records)) for name in ("counted", "counts0"))
    assert len(counted) > 0 and counts.sum() < 12_000
    again: list[int] = []
    found = once(target, checkpoint=kept, progress=lambda done, total: again.append(done))

    assert result(found) == result(once(target))  # under the same patches
    assert again[0] > after


@pytest.mark.statistical
def test_an_interruption_between_counting_and_keeping_loses_a_piece_or_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever line of the bounding the interruption hits, nothing is counted twice."""
    monkeypatch.setattr("hockeystick.audits.targets.calling._NUMBERS", 512)
    monkeypatch.setattr("hockeystick.audits.drawing.draws._PILOT_SECONDS", 1e-9)
    plain = result(once(vectorised))
    files = [draws.__file__, checkpoint.__file__]
    for line in range(20):
        kept, left = tmp_path / f"audit{line}.db", 40 + line  # lines of the two functions that run before it

        def step(frame: Any, event: str, _: Any) -> Any:
            nonlocal left
            left -= event == "line"
            if left == 0:
                raise Stop
            return step

        def trace(frame: Any, event: str, _: Any) -> Any:
            code = frame.f_code
            return step if code.co_filename in files and code.co_name in ("bounding", "keep_counts") else None

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with pytest.raises(Stop):
                once(vectorised, checkpoint=kept)
        finally:
            sys.settrace(before)
        assert result(once(vectorised, checkpoint=kept)) == plain


def fair(data: float, rng: np.random.Generator, runs: int) -> Any:
    return data + rng.laplace(scale=4.0, size=runs)


def test_an_interrupted_audit_goes_on_with_what_its_first_look_left_of_the_level(tmp_path: Path) -> None:
    kept = tmp_path / "audit.db"
    plain = once(fair, samples=30_000, first_look=True)
    stopped(fair, kept, 12_000, samples=30_000, first_look=True)
    again = once(fair, samples=30_000, first_look=True, checkpoint=kept)

    assert result(again) == result(plain)
    assert again.level == (1 - 1 / 20) * (1 - again.confidence) and again.samples == 30_000


def test_counts_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hockeystick.audits.drawing.draws._PILOT_SECONDS", 1e-9)
    kept = tmp_path / "audit.db"
    stopped(vectorised, kept, 80_000, samples=60_000, first_look=False)
    file = RecordFile(kept, checkpoint.KIND, timeout=1.0)
    counts = decoded(joined("counts0", file.read()))
    for wrong in (counts + 1, counts[:, 1:]):
        file.put(split("counts0", encoded(wrong)))
        with pytest.raises(InvalidArgumentError, match="does not fit"):
            once(vectorised, samples=60_000, checkpoint=kept, first_look=False)


@pytest.mark.statistical
def test_a_checkpoint_remembers_seed_and_number_of_samples(tmp_path: Path) -> None:
    kept = tmp_path / "audit.db"
    stopped(vectorised, kept, 1_000_000, rng=None, samples=None)
    found = once(vectorised, checkpoint=kept, rng=None, samples=None)

    assert result(found) == result(once(vectorised, rng=found.seed, samples=found.samples)) | {"timed": found.timed}


@pytest.mark.parametrize(
    "change",
    [{"rng": 6}, {"samples": 7000}, {"bits": True}, {"confidence": 0.99}, {"grid": 0.5}, {"statistic": lambda x: x}],
)
def test_the_checkpoint_of_another_audit_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    kept = tmp_path / "audit.db"
    stopped(vectorised, kept, 9000)
    before = kept.read_bytes()

    with pytest.raises(InvalidArgumentError, match="is of another audit"):
        once(vectorised, checkpoint=kept, **change)
    assert kept.read_bytes() == before


@pytest.mark.parametrize("content", [b"oops", b"PK\x03\x05 broken", b"SQLite format 3\x00" + bytes(200)])
def test_a_file_that_is_not_a_checkpoint_is_refused_and_left_unchanged(content: bytes, tmp_path: Path) -> None:
    kept = tmp_path / "audit.db"
    kept.write_bytes(content)

    with pytest.raises(InvalidArgumentError, match="is not a checkpoint"):
        once(vectorised, checkpoint=kept)
    assert kept.read_bytes() == content


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.mark.statistical
def test_outputs_without_a_json_form_are_drawn_again(tmp_path: Path) -> None:
    def colours(data: float, rng: np.random.Generator) -> Colour:
        return Colour.RED if rng.random() < 0.2 + 0.5 * data else Colour.BLUE

    kept = tmp_path / "audit.db"
    stopped(colours, kept, 9000)

    assert result(once(colours, checkpoint=kept)) == result(once(colours))


def test_data_that_cannot_be_pickled_has_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        audit(
            lambda data, rng: rng.random(),
            claim=CLAIM,
            neighbours=(lambda: 0, lambda: 1),
            samples=100,
            checkpoint=tmp_path / "x",
        )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"count": 0}, "workers"),
        ({"count": -2}, "workers"),
        ({"count": 1.5}, "workers"),
        ({"count": True}, "workers"),
        ({"backend": ""}, "backend"),
        ({"backend": 3}, "backend"),
        ({"address": "tcp://x"}, "address"),
        ({"backend": "loky", "address": "tcp://x"}, "address"),
    ],
)
def test_workers_are_checked(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        Workers(**arguments)
    assert error.value.argument == named


def test_a_missing_package_is_named_by_its_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"this needs no_such_package: pip install 'hockeystick\[x\]'"):
        require("no_such_package.part", "this", extra="x")


class Odd(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")

    def __reduce__(self) -> tuple[type[Odd], tuple[str]]:
        """Said here because Dask, once it is imported, teaches pickle to restore errors that don't say it."""
        return Odd, (str(self),)


def test_errors_that_do_not_travel_between_processes_become_ones_that_do() -> None:
    error = draws.portable(Odd(1, 2))
    assert type(error) is RuntimeError and str(error) == "Odd: 1 and 2"
    plain = ValueError("as it is")
    assert draws.portable(plain) is plain


def test_an_error_of_a_piece_is_raised_and_not_taken_for_a_death() -> None:
    def work(job: int) -> int:
        if job == 3:
            raise ZeroDivisionError(f"job {job}")
        return job * job

    with Workers(2, backend="threading").hired() as crew:
        assert dict(crew.results(work, [0, 1, 2])) == {0: 0, 1: 1, 2: 4}
        with pytest.raises(ZeroDivisionError, match="job 3"):
            dict(crew.results(work, range(5)))
        with pytest.raises(ZeroDivisionError, match="job 3"):
            dict(crew.survivors(work, range(5)))
        assert dict(crew.survivors(work, [4, 5])) == {0: 16, 1: 25}
    with Workers().hired() as crew:
        assert list(crew.survivors(work, [1, 2])) == [(0, 1), (1, 4)]


def test_dask_needs_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> None:
        raise ValueError("No global client found")

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(get_client=nobody))
    with (
        pytest.raises(InvalidArgumentError, match="there is no current Dask client"),
        Workers(-1, backend="dask").hired(),
    ):
        pass


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    kept = tmp_path / "audit.db"
    stopped(vectorised, kept, 9000)
    with sqlite3.connect(kept) as db:
        db.execute("PRAGMA user_version = 3")
    db.close()
    np.savez(tmp_path / "old.npz", plain=np.array("{}"))
    for file, said in ((kept, "has schema 3; this version reads 2"), (tmp_path / "old.npz", "of an earlier version")):
        before = file.read_bytes()
        with pytest.raises(InvalidArgumentError, match=said):
            once(vectorised, checkpoint=file)
        assert file.read_bytes() == before


def test_a_checkpoint_that_can_t_be_written_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    drawn = []

    def target(data: float, rng: np.random.Generator) -> float:
        drawn.append(data)
        return rng.random()

    for place in (tmp_path / "none" / "audit.db", tmp_path, "/dev/full", "a\0b"):
        with pytest.raises(InvalidArgumentError, match="checkpoint"):
            audit(target, claim=CLAIM, neighbours=(0.0, 1.0), samples=100, checkpoint=place)
    assert drawn == []


KILLED = """
import os, signal, sys
import hockeystick as hs
from hockeystick.audits.drawing import checkpoint, draws

counted = []
draws._PILOT_SECONDS = 1e-9  # many calls
keep = checkpoint.Checkpoint.keep_counts
checkpoint._SECONDS = 0.0
checkpoint.Checkpoint.keep_counts = lambda self, calls, counts: (keep(self, calls, counts), counted.append(1))

def target(data, rng, runs):
    if counted:
        os.kill(os.getpid(), signal.SIGKILL)
    return data[0] + rng.laplace(scale=4.0, size=runs)

names = {f"person {i}" for i in range(20)}
hs.audit(target, claim=hs.Claim(1.0), neighbours=((0.0, names), (1.0, names)), samples=20_000, rng=5,
    checkpoint=sys.argv[1], first_look=False)
"""


@pytest.mark.statistical
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_an_audit_that_was_killed_goes_on_in_a_process_with_another_hash_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With data in a set, whose order differs from process to process."""
    monkeypatch.setattr(draws, "_PILOT_SECONDS", 1e-9)
    kept, names = tmp_path / "kept", {f"person {i}" for i in range(20)}
    another = next(seed for seed in ("1", "2") if seed != os.environ.get("PYTHONHASHSEED"))
    command, environment = [sys.executable, "-c", KILLED, str(kept)], {**os.environ, "PYTHONHASHSEED": another}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(decoded(joined("counted", RecordFile(kept, checkpoint.KIND, timeout=1.0).read()))) > 0

    calls = []

    def target(data: Any, rng: np.random.Generator, runs: int) -> Any:
        calls.append(runs)
        return data[0] + rng.laplace(scale=4.0, size=runs)

    options: dict[str, Any] = {"samples": 20_000, "rng": 5, "first_look": False}
    options |= {"claim": Claim(1.0), "neighbours": ((0.0, names), (1.0, names))}
    resumed, resumed_calls = audit(target, checkpoint=kept, **options), len(calls)
    assert result(resumed) == result(audit(target, **options))
    assert resumed_calls < len(calls) / 2 and not kept.exists()


@pytest.mark.parametrize("unusual", [Colour.RED, 1 + 2j, math.nan])
def test_values_without_a_json_form_are_not_written(unusual: Any, tmp_path: Path) -> None:
    kept = checkpoint.Checkpoint(tmp_path / "audit.db", "asked", 1)
    kept.write()  # nothing was drawn so far
    assert not kept.path.exists()
    table = Table(1, 0, {})
    kept.keep_tables(4, Codebook(), 1.0, True, (table, table))
    assert kept.path.exists()
    kept.path.unlink()
    book = Codebook()
    book.code(("value", unusual), ())
    kept.keep_tables(4, book, 1.0, True, (table, table))
    assert not kept.path.exists()


def test_all_workers_of_a_cluster_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimpleNamespace(nthreads=lambda: {"tcp://one": 2, "tcp://two": 3})
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(get_client=lambda: client))
    asked: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def configured(**settings: Any) -> Iterator[None]:
        asked.append(settings)
        yield

    monkeypatch.setattr("joblib.parallel_config", configured)
    with Workers(-1, backend="dask").hired() as crew:
        assert crew.size == 5 and asked == [{"backend": "dask"}]
    with Workers(2, backend="dask").hired() as crew:
        assert crew.size == 2
