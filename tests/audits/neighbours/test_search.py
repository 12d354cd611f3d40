"""The search for the worst neighbours: planted leaks are found within a budget, and no sample serves twice.

Every audit of a correct target here runs at confidence 1 - 1e-6, with fixed seeds, so it fails by chance with a
probability of
at most 1e-6, over the choice of the seed. What is searched and rated bounds nothing and so can't raise a false alarm.
"""

from __future__ import annotations

import json
import math
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.accounting.files.records import RecordFile
from hockeystick.audits import Claim, TargetError, audit
from hockeystick.audits.neighbours import journal
from hockeystick.audits.neighbours.answers import Answers
from hockeystick.audits.neighbours.audit import SearchedAudit, audit_with_search
from hockeystick.audits.neighbours.domains import Domain, PairsFrom
from hockeystick.audits.neighbours.pairs import NotNeighboursError
from hockeystick.audits.neighbours.records import FiniteRecords, RealRecords
from hockeystick.audits.neighbours.search import SearchResult, search_neighbours

Batch = Callable[[Any, np.random.Generator, int], Any]

ADD, REPLACE, LOCAL = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE, Adjacency.LOCAL
SURE = 1 - 1e-6


def noise(rng: np.random.Generator, size: Any, scale: float = 1.0) -> np.ndarray:
    """Two-sided geometric noise with parameter exp(-1/scale): whole numbers, so no bits leak."""
    p = 1 - math.exp(-1 / scale)
    return np.asarray(rng.geometric(p, size) - rng.geometric(p, size))


def clipped_sum(data, rng, runs):
    return int(np.clip(data, 0, 1).sum()) + noise(rng, runs)


def forgets_to_clip(data, rng, runs):
    """Records above 90 are summed as they are."""
    values = np.asarray(data)
    return int(np.where(values > 90, values, np.clip(values, 0, 1)).sum()) + noise(rng, runs)


def count(data, rng, runs):
    return int(data) + noise(rng, runs)


def silent_at_zero(data, rng, runs):
    """No noise where the count is 0."""
    return np.where(data == 0, 0, count(data, rng, runs))


def noisy_max(data, rng, runs):
    return (np.asarray(data) + noise(rng, (runs, len(data)), scale=2.0)).argmax(axis=1)


def noisy_max_scaled_by_its_data(data, rng, runs):
    scale = 2.0 / (1.0 + np.ptp(data) / 4)
    return (np.asarray(data) + noise(rng, (runs, len(data)), scale=scale)).argmax(axis=1)


def keyword(data, rng, runs):
    """Randomised response that is exact on one of 40 inputs."""
    keep = math.e / (1 + math.e)
    return np.where(rng.random(runs) < (1.0 if data == 23 else keep), data % 2, 1 - data % 2)


def response(data, rng, runs):
    keep = math.e / (1 + math.e)
    return np.where(rng.random(runs) < keep, data % 2, 1 - data % 2)


CLIPPING = RealRecords(low=0, high=100, integral=True, most=8)
PLANTED: dict[str, tuple[Batch, Batch, Domain, Adjacency]] = {
    "forgets to clip": (forgets_to_clip, clipped_sum, CLIPPING, ADD),
    "silent at zero": (silent_at_zero, count, Answers(), ADD),
    "scale from the data": (noisy_max_scaled_by_its_data, noisy_max, Answers(size=4), REPLACE),
    "one keyword": (keyword, response, FiniteRecords(values=range(40)), LOCAL),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_leak_is_found_and_the_correct_target_is_not_refuted(name) -> None:
    """32,000 outputs for the search, 8,000 for the audit, from each data set."""
    broken, correct, domain, adjacency = PLANTED[name]
    budget: dict[str, Any] = {"search_samples": 32_000, "samples_per_pair": 200, "samples": 8_000, "confidence": SURE}

    found = audit_with_search(broken, domain, Claim(1.0), adjacency=adjacency, rng=1, **budget)
    passed = audit_with_search(correct, domain, Claim(1.0), adjacency=adjacency, rng=1, **budget)

    assert found.refuted and found.search.best.score > 0
    assert not passed.refuted
    assert found.search.samples <= 32_000 and found.verdict.planned == 8_000
    assert "searched" in str(found) and "d0 =" in str(found)


def test_on_ordinary_neighbours_those_leaks_do_not_show() -> None:
    """Why there is a search: audits of unremarkable pairs of the same targets pass."""
    ordinary = {
        "forgets to clip": (np.array([1, 0, 1]), np.array([1, 0, 1, 1])),
        "silent at zero": (3.0, 4.0),
        "scale from the data": (np.array([2.0, 2, 2, 2]), np.array([2.0, 3, 2, 2])),
        "one keyword": (0, 1),
    }
    for name, neighbours in ordinary.items():
        target = PLANTED[name][0]
        verdict = audit(target, claim=Claim(1.0), neighbours=neighbours, samples=4000, rng=1, confidence=SURE)
        assert not verdict.refuted, name


def far_apart(pair: tuple[np.ndarray, np.ndarray]) -> float:
    """Exact epsilon of a coin whose log-odds grow with some coordinates of a cube and fall with the others."""
    odds = [6 * (np.where(np.arange(10) % 2, data, 1 - data).mean() - 0.5) for data in pair]
    p, q = (1 / (1 + math.exp(-odd)) for odd in odds)
    return max(abs(math.log(p / q)), abs(math.log((1 - p) / (1 - q))))


@pytest.mark.statistical
def test_changed_pairs_climb_further_than_random_ones_reach() -> None:
    """Changes alone, without the noise of a search: as many steps as there are random pairs beside them."""
    cube, reached, drawn = RealRecords(low=0, high=1, dimension=10), [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        pairs = [cube.random_pair(rng, LOCAL, 1) for _ in range(10)]
        for _ in range(90):
            pairs.sort(key=far_apart, reverse=True)
            pairs.append(cube.mutate(pairs[int(rng.integers(4))], rng, LOCAL, 1))
        reached.append(max(map(far_apart, pairs)))
        drawn.append(max(far_apart(cube.random_pair(rng, LOCAL, 1)) for _ in range(100)))

    assert np.mean(reached) > np.mean(drawn) + 0.4


@pytest.mark.statistical
def test_a_search_climbs() -> None:
    """The noise shrinks as records come near 0.6: no canonical pair is as bad as what changes find."""

    def hill(data, rng, runs):
        off = float(np.abs(np.asarray(data) - 0.6).mean()) if len(data) else 1.0
        return sum(data) + np.round(rng.laplace(scale=min(1.0, 0.2 + 2 * off), size=runs) * 2.0**20) / 2.0**20

    domain = RealRecords(low=0, high=1, least=2, most=10)
    found = search_neighbours(
        hill, domain, Claim(1.0), adjacency=ADD, samples=60_000, samples_per_pair=400, rounds=6, rng=1
    )
    canonical = max(rated.score for rated in found.pairs if rated.origin == "canonical")
    assert found.best.origin != "canonical" and found.best.score > canonical + 0.2
    assert found.history[-1][1] > found.history[0][1] + 0.2


class Recording:
    """A target that notes the seeds of all generators it is given, and what it drew from them."""

    repeatable = True  # so that no audit draws twice from one generator to see it

    def __init__(self, target: Batch) -> None:
        self.target = target
        self.seeds: list[tuple[Any, ...]] = []
        self.drawn: list[float] = []
        self.outputs = 0

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        sequence: Any = rng.bit_generator.seed_seq
        self.seeds.append((sequence.entropy, *sequence.spawn_key))
        self.drawn.append(float(np.random.default_rng(sequence).random()))
        self.outputs += runs
        return self.target(value, rng, runs)


@pytest.mark.statistical
@pytest.mark.parametrize("finalists", [1, 3])
def test_no_generator_serves_twice(finalists) -> None:
    searching, whole, alone = Recording(count), Recording(count), Recording(count)
    budget: dict[str, Any] = {"adjacency": ADD, "samples_per_pair": 40, "rng": 5}
    search_neighbours(searching, Answers(), Claim(1.0), samples=2000, **budget)
    found = audit_with_search(
        whole, Answers(), Claim(1.0), search_samples=2000, samples=500, finalists=finalists, confidence=SURE, **budget
    )

    assert len(set(whole.seeds)) == len(whole.seeds) and len(set(whole.drawn)) == len(whole.drawn)
    assert whole.seeds[: len(searching.seeds)] == searching.seeds  # the search is the same, and then come the audits
    assert searching.outputs <= 2 * 2000
    assert whole.outputs - searching.outputs == 2 * 500 * finalists
    for pair, verdict in zip(found.pairs, found.verdicts, strict=True):
        assert verdict.confidence == pytest.approx(1 - 1e-6 / finalists, abs=1e-12)
        again = audit(
            alone,
            claim=Claim(1.0),
            neighbours=(pair.d0, pair.d1),
            samples=500,
            rng=verdict.seed,
            confidence=verdict.confidence,
        )
        assert (again.count_p, again.count_q, again.event) == (verdict.count_p, verdict.count_q, verdict.event)
    assert not set(alone.seeds) & set(searching.seeds)


def shown(found: SearchResult) -> list[tuple[Any, ...]]:
    return [(pair.pair.d0, pair.pair.d1, pair.score, pair.samples) for pair in found.pairs]


@pytest.mark.statistical
def test_a_seed_repeats_the_search() -> None:
    budget: dict[str, Any] = {"adjacency": ADD, "samples": 1000, "samples_per_pair": 40}
    first = search_neighbours(count, Answers(), Claim(1.0), rng=3, **budget)

    assert shown(search_neighbours(count, Answers(), Claim(1.0), rng=first.seed, **budget)) == shown(first)
    assert shown(search_neighbours(count, Answers(), Claim(1.0), rng=4, **budget)) != shown(first)
    fresh = search_neighbours(count, Answers(), Claim(1.0), **budget)
    assert shown(search_neighbours(count, Answers(), Claim(1.0), rng=fresh.seed, **budget)) == shown(fresh)
    seeded = search_neighbours(count, Answers(), Claim(1.0), rng=np.random.default_rng(1), **budget)
    assert seeded.seed != first.seed


@pytest.mark.parametrize("budget", [20, 100, 333, 2000])
@pytest.mark.every(2)
def test_the_budget_is_never_exceeded(budget) -> None:
    target, calls = Recording(silent_at_zero), []
    found = search_neighbours(
        target,
        Answers(size=None, high=3),
        Claim(1.0),
        adjacency=ADD,
        samples=budget,
        samples_per_pair=20,
        rng=1,
        progress=lambda done, total: calls.append((done, total)),
    )

    assert target.outputs == 2 * found.samples <= 2 * budget
    assert sum(pair.samples for pair in found.pairs) == found.samples
    assert calls == sorted(calls) and calls[-1] == (2 * found.samples, 2 * budget)
    assert found.history[-1] == (found.samples, found.best.score)
    assert [pair.score for pair in found.pairs] == sorted((pair.score for pair in found.pairs), reverse=True)


def test_an_interruption_keeps_the_best_so_far() -> None:
    left = [0]

    def impatient(data, rng, runs):
        left[0] -= 1
        if left[0] < 0:
            signal.raise_signal(signal.SIGINT)
        return silent_at_zero(data, rng, runs)

    left[0] = 25
    found = search_neighbours(impatient, Answers(), Claim(1.0), adjacency=ADD, samples=20_000, rng=1)
    assert found.interrupted and 1 <= len(found.pairs) <= 25

    left[0] = 1
    with pytest.raises(KeyboardInterrupt):
        search_neighbours(impatient, Answers(), Claim(1.0), adjacency=ADD, samples=20_000, rng=1)


@pytest.mark.statistical
def test_pairs_on_which_the_target_raises_are_set_aside() -> None:
    def picky(data, rng):
        if len(data) > 4:
            raise ValueError("too many")
        return sum(data) + float(rng.integers(3))

    domain = FiniteRecords(values=(0, 1), most=8)
    found = search_neighbours(picky, domain, Claim(1.0), adjacency=ADD, samples=600, samples_per_pair=20, rng=1)
    assert found.failures and all(len(pair.d1) > 4 for pair, _ in found.failures)
    assert "too many" in str(found.failures[0][1])
    assert all(len(rated.pair.d1) <= 4 for rated in found.pairs)

    always = FiniteRecords(values=(0, 1), least=6, most=8)
    with pytest.raises(TargetError, match="too many"):
        search_neighbours(picky, always, Claim(1.0), adjacency=ADD, samples=600, samples_per_pair=20, rng=1)
    told = search_neighbours(
        picky, domain, Claim(1.0), adjacency=ADD, samples=3000, samples_per_pair=20, rng=1, exceptions_as_output=True
    )
    assert not told.failures and told.best.score > 0  # [.., 4 records] answers and [.., 5 records] raises


def test_data_sets_that_are_not_neighbours_are_refused() -> None:
    strangers = PairsFrom(random=lambda rng: ([0], [1]))
    with pytest.raises(NotNeighboursError):
        search_neighbours(clipped_sum, strangers, Claim(1.0), adjacency=ADD, samples=1000)
    equals = PairsFrom(random=lambda rng: ([0], [0]))
    with pytest.raises(InvalidArgumentError, match="no two data sets that differ"):
        search_neighbours(clipped_sum, equals, Claim(1.0), adjacency=ADD, samples=1000)
    nothing = PairsFrom(random=lambda rng: 3)  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidArgumentError, match="not a pair"):
        search_neighbours(clipped_sum, nothing, Claim(1.0), adjacency=ADD, samples=1000)


@pytest.mark.parametrize(
    "given",
    [
        {"claim": 1.0},
        {"samples": 10},
        {"samples": float("nan")},
        {"samples_per_pair": 5},
        {"samples_per_pair": 2000},
        {"rounds": 0},
        {"group": 0},
        {"adjacency": "add"},
        {"rng": -1},
        {"rng": True},
        {"rng": "x"},
        {"target": 3},
    ],
)
def test_domains_that_cannot_be_searched_are_refused(given) -> None:
    arguments: dict[str, Any] = {"target": count, "domain": Answers(), "claim": Claim(1.0), "adjacency": ADD}
    with pytest.raises(InvalidArgumentError):
        search_neighbours(**{**arguments, "samples": 1000, **given})


@pytest.mark.parametrize(
    "given", [{"finalists": 0}, {"confidence": 1.0}, {"samples": 1}, {"neighbours": (0, 1)}, {"search_samples": 3}]
)
def test_targets_that_cannot_be_audited_are_refused(given) -> None:
    with pytest.raises(InvalidArgumentError):
        audit_with_search(count, Answers(), Claim(1.0), adjacency=ADD, **given)


def test_a_curve_and_a_group_are_searched_as_well() -> None:
    claim = Claim(2.0, 0.0, also=[(1.0, 0.5)])
    found = search_neighbours(count, Answers(), claim, adjacency=ADD, group=2, samples=4000, rng=1)
    assert all(abs(rated.pair.d1 - rated.pair.d0) <= 2 for rated in found.pairs)
    assert abs(found.best.pair.d1 - found.best.pair.d0) == 2  # one record shows less than two


def refutations(claim: Claim, seed: int, audits: int, level: float) -> int:
    refuted = 0
    for number in range(audits):
        found = audit_with_search(
            count,
            Answers(),
            claim,
            adjacency=ADD,
            search_samples=160,
            samples_per_pair=20,
            rounds=2,
            samples=200,
            finalists=1 + number % 2,
            confidence=1 - level,
            rng=number + 1_000_000 * seed,
        )
        refuted += found.refuted
    return refuted


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("level", "audits", "smaller"), [(0.01, 40, 0.2), pytest.param(0.05, 200, 0.6, marks=pytest.mark.deep)]
)
def test_search_and_audit_together_keep_their_false_alarm_rate(level: float, audits: int, smaller: float) -> None:
    """The count is exactly 1-DP on every pair. A valid pipeline refutes more often with probability 1e-6; and so many
    refutations are made of a smaller claim, so the measurement is no formality."""
    allowed = int(stats.binom.isf(1e-6, audits, level))

    refuted, caught = refutations(Claim(1.0), 1, audits, level), refutations(Claim(smaller), 2, audits, level)

    print(f"{refuted} of {audits} refuted at {level}, allowed {allowed}; {caught} at a claim of {smaller}")
    assert refuted <= allowed < caught


# --- kept searches ---------------------------------------------------------------------------------------------------


class Stop(BaseException):
    """The end of a process, as far as a search can tell."""


class Lasting:
    """A target that lasts for so many calls, and counts what it gave."""

    def __init__(self, target: Batch, calls: int) -> None:
        self.target, self.left, self.outputs, self.made = target, calls, 0, 0

    def __call__(self, data: Any, rng: np.random.Generator, runs: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise Stop
        self.outputs, self.made = self.outputs + runs, self.made + 1
        return self.target(data, rng, runs)


KEPT: dict[str, Any] = {"adjacency": ADD, "samples": 4000, "samples_per_pair": 100, "rounds": 3}


def kept(target: Any, file: Any = None, **options: Any) -> SearchResult:
    return search_neighbours(target, Answers(), Claim(1.0), **{"checkpoint": file, "rng": 3, **KEPT, **options})


@cache
def whole(target: Batch) -> tuple[SearchResult, Lasting]:
    """A search without interruption, and its target."""
    lasting = Lasting(target, 10**6)
    return kept(lasting), lasting


def stopped(target: Any, calls: int, file: Any) -> None:
    """Interrupts a search after so many calls."""
    with pytest.raises(Stop):
        kept(Lasting(target, calls), file)


@pytest.mark.parametrize("share", [0.05, 0.4, 0.75, 0.98])
@pytest.mark.parametrize("target", [silent_at_zero, count])
@pytest.mark.every(3)
def test_an_interrupted_search_goes_on_and_finds_the_same(target: Batch, share: float, tmp_path: Any) -> None:
    file = tmp_path / "search.db"
    expected, first = whole(target)
    stopped(target, int(share * first.made), file)
    assert file.exists()
    again = Lasting(target, 10**6)
    found = kept(again, file, rng=None)
    assert shown(found) == shown(expected) and found.history == expected.history and found.seed == 3
    assert found.samples == expected.samples and not file.exists()
    if share > 0.7:  # rated pairs are not drawn again, except for those that are rated once more
        assert again.outputs < first.outputs


def test_a_search_that_is_interrupted_again_and_again_arrives(tmp_path: Any) -> None:
    file, rounds = tmp_path / "search.db", 0
    while True:
        rounds += 1
        try:
            found = kept(Lasting(silent_at_zero, 12 + 4 * rounds), file)
            break
        except Stop:
            assert rounds < 60
    assert rounds > 3 and shown(found) == shown(whole(silent_at_zero)[0])


KILLED = """
import os, signal, sys
from hockeystick.accounting import Adjacency
from hockeystick.audits import Answers, Claim, search_neighbours

left = int(sys.argv[2])

def count(data, rng, runs):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return data + rng.laplace(size=runs)

search_neighbours(count, Answers(), Claim(1.0), adjacency=Adjacency.ADD_OR_REMOVE_ONE, samples=4000,
    samples_per_pair=100, rounds=3, rng=3, checkpoint=sys.argv[1])
"""


@pytest.mark.statistical
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_search_that_was_killed_goes_on_and_finds_the_same(tmp_path: Any) -> None:
    def noisy(data: Any, rng: np.random.Generator, runs: int) -> Any:
        return data + rng.laplace(size=runs)

    file = tmp_path / "search.db"
    for calls in (30, 45):
        done = subprocess.run([sys.executable, "-c", KILLED, str(file), str(calls)], capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert journal.Journal.at(file, json.loads(head(file))["asked"], 3).seed == 3
    found, expected = kept(noisy, file, rng=None), kept(noisy)
    assert shown(found) == shown(expected) and found.samples == expected.samples and not file.exists()


def head(file: Any) -> bytes:
    return RecordFile(file, journal.KIND, timeout=1.0).read()["head"]


def test_pairs_that_raised_are_remembered(tmp_path: Any) -> None:
    def picky(data: Any, rng: np.random.Generator, runs: int) -> Any:
        if data > 6:
            raise ValueError("too many")
        return count(data, rng, runs)

    file = tmp_path / "search.db"
    expected = kept(picky)
    stopped(picky, 60, file)
    found = kept(picky, file)
    assert shown(found) == shown(expected) and expected.failures
    assert [str(error) for _, error in found.failures] == [str(error) for _, error in expected.failures]


def test_ctrl_c_keeps_the_file_and_gives_the_best_so_far(tmp_path: Any) -> None:
    left = [60]

    def impatient(data: Any, rng: np.random.Generator, runs: int) -> Any:
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)
        return count(data, rng, runs)

    file = tmp_path / "search.db"
    assert kept(impatient, file).interrupted and file.exists()
    assert shown(kept(count, file, rng=None)) == shown(whole(count)[0])


@pytest.mark.parametrize(
    "change",
    [{"rng": 4}, {"samples": 5000}, {"samples_per_pair": 200}, {"rounds": 2}, {"adjacency": REPLACE}, {"group": 2}],
)
def test_the_file_of_another_search_is_refused_and_left_unchanged(change: dict[str, Any], tmp_path: Any) -> None:
    file = tmp_path / "search.db"
    stopped(count, 20, file)
    before = file.read_bytes()
    with pytest.raises(InvalidArgumentError, match="is of another search"):
        kept(count, file, **change)
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [b"oops", b"{}\n", b"\x80\x81\n", b"SQLite format 3\x00"])
def test_a_file_that_is_not_a_search_is_refused_and_left_unchanged(content: bytes, tmp_path: Any) -> None:
    file = tmp_path / "search.db"
    file.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match="is not a checkpoint"):
        kept(count, file, rng=None)
    assert file.read_bytes() == content


def test_results_for_other_pairs_are_refused(tmp_path: Any) -> None:
    """A domain that makes other pairs in the second run, under the same name."""

    class Moody:
        offset = 0

        def canonical(self, adjacency: Adjacency, group: int) -> Any:
            return []

        def random_pair(self, rng: np.random.Generator, adjacency: Adjacency, group: int) -> Any:
            at = int(rng.integers(9)) + Moody.offset
            return float(at), float(at + 1)

        mutate = lambda self, pair, rng, adjacency, group: self.random_pair(rng, adjacency, group)  # noqa: E731

        def check(self, d0: Any, d1: Any, adjacency: Adjacency, group: int) -> int:
            return 1

        def __reduce__(self) -> Any:
            return str, ("moody",)

    file = tmp_path / "search.db"
    with pytest.raises(Stop):
        search_neighbours(Lasting(count, 20), Moody(), Claim(1.0), rng=3, checkpoint=file, **KEPT)
    Moody.offset = 1
    with pytest.raises(InvalidArgumentError, match="does not fit"):
        search_neighbours(count, Moody(), Claim(1.0), checkpoint=file, **KEPT)


def test_a_domain_without_a_name_cannot_be_saved(tmp_path: Any) -> None:
    pairs = PairsFrom(random=lambda rng: ([1], [1, 1]))
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        search_neighbours(count, pairs, Claim(1.0), checkpoint=tmp_path / "x", **KEPT)


AUDITED: dict[str, Any] = {"adjacency": ADD, "search_samples": 2000, "samples_per_pair": 100, "samples": 3000}


def two_audits(target: Any, file: Any = None) -> SearchedAudit:
    return audit_with_search(target, Answers(), Claim(1.0), checkpoint=file, finalists=2, rng=3, **AUDITED)


@cache
def whole_audit() -> tuple[SearchedAudit, int]:
    """An audit without interruption, and its number of calls."""
    lasting = Lasting(silent_at_zero, 10**6)
    return two_audits(lasting), lasting.made


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.85, 0.9, 0.95, 0.99])
@pytest.mark.every(3)
def test_an_interrupted_searched_audit_goes_on(share: float, tmp_path: Any) -> None:
    """In the search, in the first audit and in the second: every verdict is what it would have been."""
    file = tmp_path / "search.db"
    expected, made = whole_audit()
    with pytest.raises(Stop):
        two_audits(Lasting(silent_at_zero, int(share * made)), file)
    found = two_audits(silent_at_zero, file)
    assert shown(found.search) == shown(expected.search)
    for one, other in zip(found.verdicts, expected.verdicts, strict=True):
        assert attrs.evolve(one, seconds=0.0) == attrs.evolve(other, seconds=0.0)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_in_the_search_of_an_audit_is_one(tmp_path: Any) -> None:
    left = [30]

    def impatient(data: Any, rng: np.random.Generator, runs: int) -> Any:
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)
        return count(data, rng, runs)

    with pytest.raises(KeyboardInterrupt):
        audit_with_search(impatient, Answers(), Claim(1.0), rng=3, checkpoint=tmp_path / "kept", **AUDITED)
    with pytest.raises(InvalidArgumentError, match="another search"):  # other audits after the same search
        audit_with_search(count, Answers(), Claim(1.0), checkpoint=tmp_path / "kept", **{**AUDITED, "samples": 4000})


def test_a_file_of_another_version_is_refused_and_left(tmp_path: Any) -> None:
    file = tmp_path / "search.db"
    stopped(count, 20, file)
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    (tmp_path / "old.jsonl").write_text('{"schema": 1, "asked": "", "seed": 1}\n')
    for one, said in ((file, "has schema 99"), (tmp_path / "old.jsonl", "of an earlier version: finish it")):
        before = one.read_bytes()
        with pytest.raises(InvalidArgumentError, match=said):
            kept(count, one)
        assert one.read_bytes() == before


def test_an_unreadable_file_is_refused(tmp_path: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is a folder"):
        kept(count, tmp_path, rng=None)
    with pytest.raises(InvalidArgumentError, match="there is no folder"):
        kept(Lasting(count, 0), tmp_path / "none" / "search.db", rng=None)


def test_an_invalid_verdict_is_refused(tmp_path: Any) -> None:
    file = tmp_path / "search.db"
    begun = journal.Journal.at(file, "asked", 1)
    assert begun.seed == 1 and not begun.left
    RecordFile(file, journal.KIND, timeout=1.0).put({"verdict 0": b'{"outcome": "perhaps"}'})
    with pytest.raises(InvalidArgumentError, match="is not a checkpoint"):
        journal.Journal.at(file, "asked", 1)


def test_data_sets_are_distinguished_unless_they_cannot_be_pickled() -> None:
    assert journal.mark([1.0, 2.0]) == journal.mark([1.0, 2.0]) != journal.mark([1.0, 3.0])
    assert journal.mark(lambda: 0) == 0
