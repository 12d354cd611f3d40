"""False alarms over a whole suite and over many runs, from outside: levels under selection, processes and new tests.

Seeds are fixed by the names of the tests, but for those of a ledger, whose runs here are given theirs by name, too. A
correct mechanism is refuted with probability at most 1e-6 per audit, or nothing is asserted of its verdict.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import hockeystick._pytest.report  # noqa: F401  # pytester forgets what the inner runs import
from hockeystick._pytest.levels import call_share, part
from hockeystick.audits import EvidenceLedger, SequentialVerdict

HEAD = """
import pytest
import hockeystick as hs

pytestmark = [
    pytest.mark.privacy(epsilon=1.0),
    pytest.mark.filterwarnings("ignore::hockeystick._pytest.audit_fixtures.PrivacyAuditWarning"),
]
PAIR = {"neighbours": (0.0, 1.0)}

def laplace(total, rng, runs):
    return total + rng.laplace(scale=1.0, size=runs)

def half(total, rng, runs):
    return total + rng.laplace(scale=0.5, size=runs)

def above(outputs):
    return outputs >= 1
"""


def auditing(name: str, calls: int = 1) -> str:
    return f"\ndef test_{name}(privacy_audit):\n" + calls * "    privacy_audit(laplace, **PAIR, samples=200)\n"


def run(pytester: pytest.Pytester, tests: str, *arguments: str, ini: str = "") -> pytest.RunResult:
    pytester.makeini("[pytest]\nfilterwarnings = default\n" + ini)
    (pytester.path / "test_it.py").write_text(HEAD + tests, encoding="utf-8")
    return pytester.runpytest("-p", "no:cacheprovider", "--privacy-report", "found.json", *arguments)


def levels() -> dict[str, list[float]]:
    """The level of each audit of the last run, by the name of its test."""
    found: dict[str, list[float]] = {}
    for audit in json.loads(Path("found.json").read_text(encoding="utf-8"))["audits"]:
        verdict = audit["verdict"]
        level = verdict["alpha"] if "alpha" in verdict else 1 - verdict["confidence"]
        found.setdefault(audit["test"].rpartition("::test_")[2], []).append(level)
    return found


def seeds_of_last_run() -> list[int]:
    return [audit["verdict"]["seed"] for audit in json.loads(Path("found.json").read_text(encoding="utf-8"))["audits"]]


def numbered(**numbers: int | None) -> dict[str, Any]:
    return {name: [pytest.approx(1e-3 * part(k) * 0.75, rel=1e-8)] for name, k in numbers.items()}


@pytest.mark.statistical
def test_levels_do_not_depend_on_the_selection_or_on_other_tests(pytester: pytest.Pytester) -> None:
    tests = auditing("c") + auditing("b") + auditing("a")
    for arguments, names in [
        ([], "abc"),
        (["-k", "test_b or test_c"], "bc"),
        (["test_it.py::test_b"], "b"),
        (["test_it.py::test_c", "test_it.py::test_a"], "ac"),
    ]:
        run(pytester, tests, *arguments)
        assert levels() == numbered(**dict.fromkeys(names))

    run(pytester, auditing("c") + auditing("b"), "--privacy-update")
    lock = json.loads(Path("privacy.lock.json").read_text())
    assert lock["audits"] == {"test_it.py::test_b": 1, "test_it.py::test_c": 2}
    # a is new and first by name, and changes nothing for the others
    run(pytester, auditing("a") + auditing("b") + auditing("c"))
    assert levels() == numbered(a=None, b=1, c=2)
    run(pytester, auditing("a") + auditing("b") + auditing("c"), "test_it.py::test_c", "test_it.py::test_a")
    assert levels() == numbered(a=None, c=2)
    more = run(pytester, auditing("a") + auditing("b") + auditing("c"))
    more.stdout.fnmatch_lines(["1 audits have no number in privacy.lock.json, which determines their levels: *"])
    assert more.ret == pytest.ExitCode.OK
    strict = run(pytester, auditing("a") + auditing("b"), ini="privacy_strict = true")
    assert strict.ret == pytest.ExitCode.TESTS_FAILED

    # c goes; its number is not given again
    run(pytester, auditing("b"), "--privacy-update")
    run(pytester, auditing("b") + auditing("d") + auditing("c"), "--privacy-update")
    lock = json.loads(Path("privacy.lock.json").read_text())
    assert lock["audits"] == {"test_it.py::test_b": 1, "test_it.py::test_c": 3, "test_it.py::test_d": 4}
    assert lock["audits_registered"] == 4


@pytest.mark.statistical
def test_calls_share_the_level_of_their_test_and_a_rerun_of_it_begins_again(pytester: pytest.Pytester) -> None:
    run(pytester, auditing("a", calls=3))
    (found,) = levels().values()
    assert found == pytest.approx([1e-3 * part(None) * call_share(c) for c in (1, 2, 3)], rel=1e-8)
    seeds = seeds_of_last_run()
    # somebody runs the same item twice in one session: the same seeds and levels
    pytester.makeconftest(
        """
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            runtestprotocol(item, nextitem=nextitem, log=False)
        """
    )
    twice = auditing("a", calls=3) + "    print('SEEDS', *[verdict.seed for verdict in privacy_audit.verdicts])\n"
    result = run(pytester, twice, "-s")
    printed = [line.partition("SEEDS ")[2] for line in result.outlines if "SEEDS " in line]
    assert printed == 2 * [" ".join(map(str, seeds))] and len(set(seeds)) == 3
    assert seeds_of_last_run() == seeds and levels() == {"a": found}


@pytest.mark.statistical
def test_the_larger_confidence_counts_and_the_sharing_can_be_off(pytester: pytest.Pytester) -> None:
    tests = (
        auditing("default")
        + auditing("lax").replace("samples=200", "samples=200, confidence=0.9")
        + auditing("sure").replace("samples=200", "samples=200, confidence=1 - 1e-7")
        + auditing("own").replace(", samples=200", "")
    )
    run(pytester, tests, "--privacy-samples", "300")
    found = levels()
    assert found | numbered(default=None, lax=None, own=None) == found
    assert found["sure"] == [pytest.approx(1e-7, rel=1e-6)]
    samples = [a["verdict"]["samples"] for a in json.loads(Path("found.json").read_text())["audits"]]
    assert sorted(samples) == [200, 200, 200, 300]
    run(pytester, tests, ini="privacy_false_alarms = off\nprivacy_samples = 400\nprivacy_confidence = 0.99")
    assert levels() == {
        name: [pytest.approx(level, rel=1e-6)]
        for name, level in {"default": 0.01, "lax": 0.1, "own": 0.01, "sure": 1e-7}.items()
    }


@pytest.mark.statistical
def test_an_audit_that_was_not_seen_when_tests_were_collected_is_like_any_other(pytester: pytest.Pytester) -> None:
    tests = "\ndef test_hidden(request):\n    request.getfixturevalue('privacy_audit')(laplace, **PAIR, samples=200)\n"
    run(pytester, tests, "--privacy-update").assert_outcomes(passed=1)
    assert levels() == numbered(hidden=None)
    run(pytester, tests).assert_outcomes(passed=1)
    assert levels() == numbered(hidden=1)


@pytest.mark.statistical
def test_a_run_with_too_many_unregistered_audits_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hockeystick._pytest.session.UNREGISTERED", 2)
    tests = auditing("a") + auditing("b") + auditing("c")
    assert run(pytester, tests, "-k", "not test_c").ret == pytest.ExitCode.OK
    result = run(pytester, tests)
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["error: 3 auditing tests have no number in *; *at most 2 of them: run pytest *"])
    assert run(pytester, tests, ini="privacy_false_alarms = off").ret == pytest.ExitCode.OK
    assert run(pytester, tests, "--privacy-update").ret == run(pytester, tests).ret == pytest.ExitCode.OK


OWN = """
    record_property('privacy', 'high')
    record_property('privacy', '{"epsilon_claimed": 1}')
    record_property('privacy_evidence', '{"epsilon_claimed": 1, "delta": NaN}')
    record_property('privacy_lock', '{"budget": {}, "name": 3}')
    record_property('privacy_lock', '[]')
"""


def test_foreign_properties_of_the_same_name_are_left_alone(pytester: pytest.Pytester) -> None:
    run(pytester, f"\npytestmark = []\ndef test_theirs(record_property):\n{OWN}").assert_outcomes(passed=1)
    assert levels() == {}
    mixed = auditing("a").replace("(privacy_audit)", "(privacy_audit, record_property, privacy_lock)") + OWN
    mixed += "    privacy_lock('a', hs.events.Laplace(1.0), delta=0, adjacency=hs.Adjacency.LOCAL)\n"
    run(pytester, mixed, "--privacy-update").assert_outcomes(passed=1)
    assert levels() == numbered(a=None)
    assert list(json.loads(Path("privacy.lock.json").read_text())["budgets"]) == ["a"]


@pytest.mark.statistical
def test_evidence_without_a_ledger_repeats_and_has_its_share(pytester: pytest.Pytester) -> None:
    tests = """
def test_right(privacy_evidence):
    verdict = privacy_evidence(laplace, **PAIR, events=above, samples=500)
    assert privacy_evidence.verdicts == [verdict]

def test_wrong(privacy_evidence):
    privacy_evidence(half, **PAIR, events=above, samples=2000)

def test_forgotten(privacy_evidence):
    pass
"""
    seeds = []
    for _ in range(2):
        result = run(pytester, tests)
        result.assert_outcomes(passed=2, failed=1)
        result.stdout.fnmatch_lines(["privacy claim (1, 0) is refuted after * samples from each data set *"])
        assert levels() == numbered(right=None, wrong=None)
        seeds.append([a["verdict"]["seed"] for a in json.loads(Path("found.json").read_text())["audits"]])
    assert seeds[0] == seeds[1]
    run(
        pytester, "\ndef test_it(privacy_evidence):\n    privacy_evidence(laplace, **PAIR, samples=20.5)\n"
    ).stdout.fnmatch_lines(["E*InvalidArgumentError: samples=20.5: is not an integer*"])


GATHERING = """
def test_right(privacy_evidence):
    privacy_evidence(laplace, **PAIR, events=above, samples=60)

def test_wrong(privacy_evidence):
    privacy_evidence(half, **PAIR, events=above, samples=60, seed=SEED)
"""


@pytest.mark.statistical
def test_a_ledger_to_which_no_test_adds_is_named(pytester: pytest.Pytester) -> None:
    audit = "\ndef test_it(privacy_audit):\n    privacy_audit(laplace, **PAIR, samples=2000)\n"
    evidence = "\ndef test_it(privacy_evidence):\n    privacy_evidence(laplace, **PAIR, events=above, samples=60)\n"
    note = "evidence.json: no test added evidence; only those that use the fixture privacy_evidence do"

    for tests in (audit, "\ndef test_it():\n    pass\n"):
        result = run(pytester, tests, "--privacy-ledger", "evidence.json")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines([note])
        assert not Path("evidence.json").exists()
    run(pytester, evidence, "--privacy-ledger", "evidence.json").stdout.no_fnmatch_line(note)
    run(pytester, audit).stdout.no_fnmatch_line(note)


@pytest.mark.statistical
def test_a_ledger_accumulates_evidence_over_runs(pytester: pytest.Pytester) -> None:
    for seed in range(20):
        result = run(pytester, GATHERING.replace("SEED", str(seed)), "--privacy-ledger", "evidence.db")
        if result.ret:
            break
    assert 2 < seed < 20  # one run of 60 samples never reaches a millionth
    result.assert_outcomes(passed=1, failed=1)
    ledger = EvidenceLedger("evidence.db", alpha=1e-6)
    right, wrong = ledger.evidence()
    assert (right.name, right.runs, right.alarmed) == ("test_it.py::test_right", seed + 1, False)
    assert (wrong.name, wrong.runs, wrong.alarmed_in) == ("test_it.py::test_wrong", seed + 1, seed + 1)
    assert len(set(right.seeds)) == seed + 1  # fresh in every run
    assert levels() == {name: [1e-6 * 6 / (math.pi * k) ** 2] for k, name in ((1, "right"), (2, "wrong"))}

    # a key that alarmed stays so, until somebody begins it anew: the message says how
    again = run(pytester, GATHERING.replace("SEED", "77"), ini="privacy_ledger = evidence.db")
    again.assert_outcomes(passed=1, failed=1)
    again.stdout.fnmatch_lines(
        ["the test fails in every run until *: EvidenceLedger('*evidence.db', alpha=1e-06).restart(*"]
    )
    ledger.restart("test_it.py::test_wrong")
    fixed = GATHERING.replace("half", "laplace").replace("SEED", "78")
    run(pytester, fixed, "--privacy-ledger", "evidence.db").assert_outcomes(passed=2)

    other = run(pytester, fixed, ini="privacy_ledger = evidence.db\nprivacy_ledger_false_alarms = 1e-3")
    other.assert_outcomes(failed=2)
    other.stdout.fnmatch_lines(["evidence ledger: *evidence.db has alpha 1e-06, not 0.001"])


@pytest.mark.statistical
def test_parallel_processes_share_one_ledger_and_one_numbering(pytester: pytest.Pytester) -> None:
    bets = "".join(
        f"\ndef test_bet{i}(privacy_evidence):\n    privacy_evidence(laplace, **PAIR, events=above, samples=60)\n"
        for i in range(6)
    )
    tests = bets + auditing("a") + auditing("b")
    run(pytester, tests, "-n", "2", "--privacy-ledger", "evidence.db", "--junit-xml", "junit.xml").assert_outcomes(
        passed=8
    )
    found = EvidenceLedger("evidence.db", alpha=1e-6).evidence()
    assert {own.name: own.runs for own in found} == {f"test_it.py::test_bet{i}": 1 for i in range(6)}
    assert sorted(own.number for own in found) == list(range(1, 7)) and not any(own.pending for own in found)
    shared = {name: level for name, level in levels().items() if name in "ab"}
    assert shared == numbered(a=None, b=None)
    text = Path("junit.xml").read_text(encoding="utf-8")
    assert text.count('name="privacy_evidence"') == 6 and text.count('name="privacy"') == 2
    audits = json.loads(Path("found.json").read_text())["audits"]
    assert all(SequentialVerdict.from_dict(a["verdict"]) for a in audits if a["kind"] == "privacy_evidence")
