"""The catalogue on workers: the same results as in process, and a case that kills workers costs itself alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, TargetError
from hockeystick.audits.catalogue.every_case import select
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.run import CaseResult, run_catalogue
from hockeystick.audits.drawing.workers import Crew, Lost, WorkerError

HOME = os.getpid()


def laplace(data: float, rng: np.random.Generator, runs: int) -> Any:
    return data + rng.laplace(size=runs)


def deadly(data: float, rng: np.random.Generator, runs: int) -> Any:
    """Ends every process but that of the tests."""
    if os.getpid() != HOME:
        os.kill(os.getpid(), signal.SIGKILL)
    return laplace(data, rng, runs)


def case(name: str, target: Any = laplace, samples: int = 500) -> Case:
    def build() -> Subject:
        return Subject(target=target, neighbours=(0.0, 1.0), claim=Claim(1.0), truth=1.0)

    return Case(name=name, build=build, broken=False, samples=samples)


def plain(results: Any) -> dict[str, Any]:
    """What results say by name, but for the time they took."""
    found: dict[str, Any] = {}
    for result in results:
        content = {**attrs.asdict(result), "seconds": 0.0}
        content["verdict"]["seconds"] = 0.0
        found[result.name] = content
    return found


PATTERNS = ("zoo/laplace@1", "zoo/svt-[56]@1", "mechanism/laplace*", "mechanism/clipped-sum*", "learner/tree-experts*")


@pytest.mark.statistical
@pytest.mark.parametrize("workers", [2, 3])
def test_results_do_not_depend_on_workers(workers: int) -> None:
    cases = [case(f"case {i}", samples=300 + 100 * i) for i in range(6)]
    here = plain(run_catalogue(cases, rng=5))
    there = plain(run_catalogue(cases, rng=5, workers=workers, backend="threading"))
    assert there == here and len(here) == 6
    assert plain(run_catalogue(cases, rng=6, workers=workers, backend="threading")) != here


@pytest.mark.statistical
def test_processes_find_the_same_in_the_catalogue() -> None:
    cases = select(*PATTERNS)
    assert len(cases) > 10
    here = plain(run_catalogue(cases, samples=200, rng=5))
    there = plain(run_catalogue(select(*PATTERNS), samples=200, rng=5, workers=2))
    assert there == here


@pytest.mark.statistical
def test_all_cases_can_be_sent_to_workers() -> None:
    """And are sent without what was built of them here."""
    from hockeystick.audits.drawing.workers import packed

    every = select()
    built = next(one for one in every if one.name == "learner/l2p")
    assert built.truth is not None
    sizes = {one.name: len(packed(attrs.evolve(one))) for one in every}
    assert max(sizes.values()) < 100_000, max(sizes, key=lambda name: sizes[name])


def test_skipped_cases_are_not_sent_and_count_for_the_confidence() -> None:
    cases = [case(f"case {i}") for i in range(4)]
    shown: list[tuple[str, float]] = []
    hands: dict[str, Any] = {"workers": 2, "backend": "threading"}
    found = run_catalogue(
        cases, confidence=0.99, rng=1, skip=["case 2"], progress=lambda *at: shown.append(at), **hands
    )
    results = list(found)
    assert sorted(result.name for result in results) == ["case 0", "case 1", "case 3"]
    assert {result.verdict.confidence for result in results} == {1 - (1 - 0.99) / 4}
    assert sorted(shown) == [("case 0", 1.0), ("case 1", 1.0), ("case 3", 1.0)]


def test_a_defect_of_a_case_ends_the_run_there_too() -> None:
    def raises(data: float, rng: np.random.Generator, runs: int) -> Any:
        raise ValueError("no")

    with pytest.raises(TargetError):
        list(run_catalogue([case("fine"), case("bad", raises)], rng=1, workers=2, backend="threading"))


def leaves(data: float, rng: np.random.Generator, runs: int) -> Any:
    os._exit(0)


def exits(data: float, rng: np.random.Generator, runs: int) -> Any:
    raise SystemExit(0)


def closes(data: float, rng: np.random.Generator, runs: int) -> Any:
    raise GeneratorExit


def unbuilt(name: str) -> Case:
    def build() -> Subject:
        os._exit(0)

    return Case(name=name, build=build, broken=False, samples=500)


@pytest.mark.statistical
@pytest.mark.parametrize("hands", [{}, {"workers": 2}, {"workers": 2, "backend": "threading"}])
def test_only_the_cases_that_end_the_program_are_lost(hands: dict[str, Any]) -> None:
    sound = [case("fine"), case("also fine")]
    failing = [case("leaves", leaves), case("exits", exits), case("closes", closes), unbuilt("unbuilt")]
    found: list[CaseResult] = []
    with pytest.raises(TargetError) as error:
        for result in run_catalogue([failing[0], sound[0], *failing[1:], sound[1]], rng=5, **hands):
            found.append(result)
    assert str(error.value).startswith("no verdict on 4 of the cases: closes: target raised GeneratorExit")
    for told in (
        "exits: target raised SystemExit",
        "leaves: target called os._exit(0)",
        "unbuilt: target called os._e",
    ):
        assert told in str(error.value)
    six = run_catalogue([*sound, *(case(f"case {i}") for i in range(4))], rng=5)
    assert plain(found) == {name: one for name, one in plain(six).items() if "fine" in name}


@pytest.mark.parametrize(
    ("hands", "named"),
    [({"workers": 0}, "workers"), ({"backend": ""}, "backend"), ({"workers": 2, "address": "tcp://x"}, "address")],
)
def test_workers_are_checked_before_anything_is_drawn(hands: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        run_catalogue([case("x")], **hands)
    assert error.value.argument == named


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")  # of Dask and its event loop
def test_a_dask_cluster_finds_the_same() -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    cases = [case(f"case {i}") for i in range(5)]
    # In threads: drawing/test_workers.py has a cluster of processes, and other processes are sent cases above.
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=50
    ) as cluster:
        hands: dict[str, Any] = {"workers": -1, "backend": "dask", "address": cluster.scheduler_address}
        there = plain(run_catalogue(cases, rng=5, **hands))
    assert there == plain(run_catalogue(cases, rng=5))


@pytest.mark.statistical
def test_only_the_case_that_kills_its_workers_is_lost() -> None:
    cases = [case(f"case {i}") for i in range(2)]
    cases.insert(1, case("deadly", deadly))
    found: list[CaseResult] = []
    with pytest.raises(WorkerError, match="repeatedly on deadly"):
        for result in run_catalogue(cases, rng=5, workers=2):
            found.append(result)
    assert plain(found) == {name: one for name, one in plain(run_catalogue(cases, rng=5)).items() if name != "deadly"}


# --- who is lost -----------------------------------------------------------------------------------------------------


class Deadly(Exception):
    """Stands for the error that a pool gives when a process has died."""


class Pool:
    """Computes jobs in order; some end it, always or the first so many times."""

    def __init__(self, dies: dict[int, int], size: int) -> None:
        self.dies, self.size = dict(dies), size
        self.asked: list[int] = []

    def __call__(self, jobs: Any) -> Iterator[Any]:
        under_way: list[Any] = []
        for function, arguments, _ in jobs:
            self.asked.append(arguments[1])
            under_way.append((function, arguments))
            if len(under_way) == self.size:
                yield from self._end(under_way)
        while under_way:
            yield from self._end(under_way)

    def _end(self, under_way: list[Any]) -> Iterator[Any]:
        """One of those under way dies, or the first is finished."""
        for _, arguments in under_way:
            if self.dies.get(arguments[1], 0) > 0:
                self.dies[arguments[1]] -= 1
                raise Deadly("gone")
        function, arguments = under_way.pop(0)
        yield function(*arguments)


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hockeystick.audits.drawing.workers._died", lambda error: isinstance(error, Deadly))


ALWAYS = 10**6


@pytest.mark.usefixtures("deaths")
@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("bad", [[], [0], [4], [1, 2], [0, 5, 9], list(range(10))])
def test_only_those_that_always_die_are_lost(size: int, bad: list[int]) -> None:
    found = dict(Crew(Pool(dict.fromkeys(bad, ALWAYS), size), size).survivors(lambda job: 10 * job, range(10)))
    assert sorted(found) == list(range(10))
    assert {number for number, result in found.items() if isinstance(result, Lost)} == set(bad)
    assert all(result == 10 * number for number, result in found.items() if number not in bad)


@pytest.mark.usefixtures("deaths")
@pytest.mark.parametrize("times", [1, 2])
def test_one_that_dies_once_or_twice_is_not_lost(times: int) -> None:
    pool = Pool({3: times}, 4)
    found = dict(Crew(pool, 4).survivors(lambda job: 10 * job, range(10)))
    assert found == {i: 10 * i for i in range(10)}
    assert pool.asked.count(9) == 1  # what was not under way is not begun again


@pytest.mark.usefixtures("deaths")
def test_without_giving_up_all_would_be_lost() -> None:
    with pytest.raises(WorkerError):
        dict(Crew(Pool({0: ALWAYS}, 2), 2).results(lambda job: job, range(10)))


def test_other_errors_are_raised_unchanged() -> None:
    def pool(jobs: Any) -> Iterator[Any]:
        yield from ()
        raise KeyError("x")

    with pytest.raises(KeyError):
        list(Crew(pool, 2).survivors(lambda job: job, [1]))
