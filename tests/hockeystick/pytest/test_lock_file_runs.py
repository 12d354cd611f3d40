"""The privacy lock from outside: small projects whose budgets change from run to run. Nothing here is random."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

# pytester forgets what the inner runs import: numpy bears that once, and all of it takes time
import hockeystick._pytest.report
import hockeystick.audits
import hockeystick.mechanisms  # noqa: F401

HEAD = """
import os
import pytest
import hockeystick as hs

def graph(scale):
    return hs.AccountantGraph().source("people").release("mean", hs.events.Gaussian(scale), reads=["people"])
"""


def training(scale: float, name: str = "training") -> str:
    return f"\ndef test_{name}(privacy_lock):\n    privacy_lock({name!r}, graph({scale}), delta=1e-6)\n"


OTHER = training(8.0, "other")


class Project:
    """A folder with tests and a lock file, in which pytest runs."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.lock = pytester.path / "privacy.lock.json"

    def run(self, tests: str, *arguments: str, ini: str = "") -> pytest.RunResult:
        self.pytester.makeini("[pytest]\nfilterwarnings = default\n" + ini)
        (self.pytester.path / "test_it.py").write_text(HEAD + tests, encoding="utf-8")
        return self.pytester.runpytest("-p", "no:cacheprovider", *arguments)

    @property
    def budgets(self) -> dict[str, float]:
        found = json.loads(self.lock.read_text(encoding="utf-8"))["budgets"]
        return {name: entry["epsilon"]["1e-06"] for name, entry in found.items()}


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester)


@pytest.mark.statistical
def test_a_budget_is_new_then_locked_then_rises_and_falls(project: Project) -> None:
    first = project.run(training(5.0))
    first.assert_outcomes(failed=1)
    first.stdout.fnmatch_lines(
        ["privacy budget 'training' is not in privacy.lock.json", "*run pytest --privacy-update*", "*NOT LOCKED"]
    )
    first.stdout.no_fnmatch_line("*Traceback*")
    assert not project.lock.exists()

    written = project.run(training(5.0), "--privacy-update")
    written.assert_outcomes(passed=1)
    written.stdout.fnmatch_lines(["privacy.lock.json: new: 'training', ε = 0.834* at δ = 1e-06"])
    approved = project.lock.read_bytes()

    same = project.run(training(5.0))
    same.assert_outcomes(passed=1)
    same.stdout.fnmatch_lines(["budget training: ε = 0.834* at δ = 1e-06, add-or-remove-one: as locked"])

    rise = project.run(training(4.99), "-k", "training")
    rise.assert_outcomes(failed=1)
    rise.stdout.fnmatch_lines(
        [
            "privacy budget 'training' rose above privacy.lock.json",
            "  at δ = 1e-06: ε = 0.834* -> 0.835*",
            "  event graph: graph/1 * -> graph/1 *",
            "different from privacy.lock.json: training; run pytest --privacy-update, and review the difference",
        ]
    )
    fall = project.run(training(6.0))
    fall.assert_outcomes(passed=1, warnings=1)
    fall.stdout.fnmatch_lines(
        ["*PrivacyLockWarning: privacy budget 'training' fell below*", "budget training: *: fell"]
    )
    assert project.run(training(6.0), ini="privacy_strict = true").ret == pytest.ExitCode.TESTS_FAILED
    assert project.run(training(5.0), ini="privacy_strict = true").ret == pytest.ExitCode.OK
    assert project.lock.read_bytes() == approved  # nothing but an update writes

    project.run(training(4.99), "--privacy-update").stdout.fnmatch_lines(["privacy.lock.json: rise: 'training', *->*"])
    assert project.budgets["training"] > 0.8345
    project.run(training(4.99), "--privacy-update").stdout.fnmatch_lines(["privacy.lock.json: nothing changed"])


@pytest.mark.statistical
def test_another_graph_or_another_meaning_of_the_same_number(project: Project) -> None:
    project.run(training(5.0), "--privacy-update")
    renamed = training(5.0).replace("graph(5.0)", "graph(5.0).post('rounded', reads=['mean'])")
    result = project.run(renamed)
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        ["*has the ε of privacy.lock.json, but from another event graph", "*event graph: graph/1*"]
    )

    unit = project.run(training(5.0).replace("1e-6", "1e-6, unit='one person'"))
    unit.assert_outcomes(failed=1)
    unit.stdout.fnmatch_lines(["*has other terms than in privacy.lock.json", "  unit: one record -> one person"])


@pytest.mark.statistical
def test_stale_entries_are_reported_and_removed_only_by_complete_runs(project: Project) -> None:
    both = training(5.0) + OTHER
    project.run(both, "--privacy-update")
    gone = training(5.0)

    stale = project.run(gone, "--privacy-report", "found.sarif")
    stale.assert_outcomes(passed=1)
    stale.stdout.fnmatch_lines(["warning: no test records the privacy budget 'other' of privacy.lock.json any more*"])
    (result,) = json.loads(Path("found.sarif").read_text())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "privacy.lock.json"
    assert '"other": {' in project.lock.read_text().splitlines()[place["region"]["startLine"] - 1]
    assert project.run(gone, ini="privacy_strict = true").ret == pytest.ExitCode.TESTS_FAILED
    # where no test uses the plugin any more
    project.run("\ndef test_nothing(): pass\n").stdout.fnmatch_lines(["*'other'*", "*'training'*"])

    # a selection that selects everything leaves the run a whole one
    for whole in (["-k", "training"], ["--deselect", "test_it.py::x"], ["-m", "not slow"], ["--ignore", "none.py"]):
        project.run(gone, *whole).stdout.fnmatch_lines(["*'other' of privacy.lock.json any more*"])
    unlike = gone + "\ndef test_unlike(): pass\n"
    for partial, why in [
        (["-k", "training"], "1 tests were deselected"),
        (["-m", "slow"], "2 tests were deselected; no test was collected"),
        (["-k", "nothing"], "2 tests were deselected; no test was collected"),
        (["test_it.py"], "only a part of the tests was selected"),
        (["-o", "python_functions=test_t"], "python_functions=test_t was given"),
        (["--setup-only"], "0 of 2 tests ran to their end; test_it.py::test_training did not run to its end"),
        (["--setup-plan"], "0 of 2 tests ran to their end; test_it.py::test_training did not run to its end"),
    ]:
        run = project.run(unlike, *partial, "--privacy-update")
        missing = 2 if "no test" in why or "--setup" in partial[0] else 1
        run.stdout.fnmatch_lines([f"{missing} unrecorded entries were not removed ({why})"])
        run.stdout.no_fnmatch_line("*any more*")
        plain = project.run(unlike, *partial, "--privacy-report", "found.json", "--privacy-report", "found.md")
        said = f"{missing} locked budgets were not checked in this run ({why})"
        plain.stdout.fnmatch_lines([said])
        assert f"- {said}" in Path("found.md").read_text(encoding="utf-8")
        found = json.loads(Path("found.json").read_text(encoding="utf-8"))
        assert found["lock"]["unchecked"] == ["other", "training"][:missing] and not found["failed"]
    for listing in ("--fixtures", "--cache-show", "--collect-only"):
        project.pytester.runpytest(listing, "--privacy-update")
        project.pytester.runpytest(listing).stdout.no_fnmatch_line("*locked budgets*")
    skipped = both.replace("def test_other", "@pytest.mark.skip\ndef test_other")
    project.run(skipped, "--privacy-update").stdout.fnmatch_lines(
        ["1 unrecorded entries were not removed (*test_other skipped)"]
    )
    project.run(skipped).stdout.fnmatch_lines(["1 locked budgets were not checked * (test_it.py::test_other skipped)"])
    broken = gone + "\nraise ValueError\n"
    project.run(broken, "--privacy-update", "--continue-on-collection-errors")
    assert project.budgets.keys() == {"training", "other"}

    project.run(gone, ".", "--privacy-update").stdout.fnmatch_lines(["privacy.lock.json: removed: 'other', ε = *"])
    assert project.budgets.keys() == {"training"}


@pytest.mark.statistical
def test_an_update_keeps_entries_of_failed_or_skipped_tests(project: Project) -> None:
    project.run(training(5.0) + OTHER, "--privacy-update")
    before = project.budgets
    failing = training(1.0) + "    assert False\n" + training(2.0, "other")

    result = project.run(failing, "--privacy-update")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["'training' was not updated: its test failed"])
    assert project.budgets["training"] == before["training"] and project.budgets["other"] > before["other"]

    alone = project.run(training(1.0) + training(1.0, "other"), "-k", "training", "--privacy-update")
    alone.assert_outcomes(passed=1, deselected=1)
    assert project.budgets["training"] > before["training"]


def test_a_fixture_requested_at_run_time_counts_as_well(project: Project) -> None:
    asking = """
def test_asking(request):
    lock = request.getfixturevalue("privacy_lock")
    assert "BAD" not in os.environ
    lock("asking", graph(5.0), delta=1e-6)
"""
    project.run(asking + OTHER, "--privacy-update")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAD", "")
        result = project.run(asking + OTHER, "--privacy-update")
    result.stdout.fnmatch_lines(["1 unrecorded entries were not removed (test_it.py::test_asking failed)"])
    assert project.budgets.keys() == {"asking", "other"}


@pytest.mark.statistical
def test_ignored_files_make_a_run_a_part_where_pytest_would_have_looked_into_them(project: Project) -> None:
    path = project.pytester.path
    (path / "test_more.py").write_text(HEAD + OTHER)
    project.run(training(5.0), "--privacy-update")
    for folder in ("venv", ".hidden", "__pycache__", "environment"):
        (path / folder).mkdir(exist_ok=True)  # pytest may have made the third
        (path / folder / "test_none.py").write_text("")
    (path / "environment" / "pyvenv.cfg").write_text("")
    (path / "setup.py").write_text("")
    conftest = path / "conftest.py"
    for text, arguments, first in [
        ("collect_ignore = ['test_more.py', 'setup.py']", (), "test_more.py"),
        ("collect_ignore_glob = ['*_more.py']", (), "test_more.py"),
        (
            "def pytest_ignore_collect(collection_path): return collection_path.name == 'test_more.py' or None",
            (),
            "test_more.py",
        ),
        ("", ("--ignore", "test_more.py"), "test_more.py"),
        ("", ("--ignore-glob", "*more*"), "test_more.py"),
    ]:
        conftest.write_text(text)
        result = project.run(training(5.0), "--privacy-update", *arguments)
        result.stdout.fnmatch_lines(
            [f"1 unrecorded entries were not removed (1 paths with tests were ignored, the first {first})"]
        )
    (path / "sub").mkdir()
    (path / "test_more.py").rename(path / "sub" / "test_more.py")
    conftest.write_text("collect_ignore = ['sub', 'docs', 'setup.py']")
    (path / "docs").mkdir()
    result = project.run(training(5.0), "--privacy-update")
    result.stdout.fnmatch_lines(
        ["1 unrecorded entries were not removed (1 paths with tests were ignored, the first sub)"]
    )
    assert project.budgets.keys() == {"training", "other"}
    (path / "sub" / "test_more.py").unlink()
    project.run(training(5.0), "--privacy-update").stdout.fnmatch_lines(["*removed: 'other', *"])


SUBTESTS = """
def test_parts(privacy_lock, subtests):
    for name in ("one", "two"):
        with subtests.test(name):
            if name == os.environ.get("SKIP"):
                pytest.skip("later")
            privacy_lock(name, graph(5.0), delta=1e-6)
"""


@pytest.mark.statistical
@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="this pytest has no subtests")
def test_a_skipped_part_of_a_test_is_not_the_test(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIP", "two")
    project.run(SUBTESTS, "--privacy-update").stdout.fnmatch_lines(["privacy.lock.json: new: 'one', *"])
    monkeypatch.delenv("SKIP")
    project.run(SUBTESTS, "--privacy-update").stdout.fnmatch_lines(["privacy.lock.json: new: 'two', *"])
    monkeypatch.setenv("SKIP", "two")
    project.run(SUBTESTS, "--privacy-update").stdout.fnmatch_lines(
        ["1 unrecorded entries were not removed (*test_parts has skipped parts)"]
    )
    assert project.budgets.keys() == {"one", "two"}


@pytest.mark.statistical
@pytest.mark.parametrize("passes", [False, True])
def test_budgets_of_xfail_tests_are_reported_and_not_approved(project: Project, passes: bool) -> None:
    project.run(training(5.0), "--privacy-update")
    approved = project.lock.read_bytes()
    rise = training(4.0)
    marked = f"\n@pytest.mark.xfail{rise}" if passes else f"\n@pytest.mark.xfail{rise}    assert False\n"
    reports = ("--privacy-report", "found.json", "--privacy-report", "found.sarif")

    plain = project.run(marked, *reports)
    plain.assert_outcomes(xfailed=1)
    assert plain.ret == pytest.ExitCode.OK
    (result,) = json.loads(Path("found.sarif").read_text())["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("budget-rise", "error")
    assert json.loads(Path("found.json").read_text())["findings"][0]["rule"] == "budget-rise"
    strict = project.run(marked, ini="privacy_strict = true")
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    strict.stdout.fnmatch_lines(["budget training: *: ROSE", "the run fails for this reason"])

    updated = project.run(marked, "--privacy-update")
    updated.assert_outcomes(xpassed=int(passes), xfailed=int(not passes))
    updated.stdout.fnmatch_lines(["'training' was not updated: its test is marked as expected to fail"])
    caught = rise.replace("    privacy_lock", "    with pytest.raises(pytest.fail.Exception): privacy_lock")
    assert project.run(caught, *reports).ret == pytest.ExitCode.OK
    assert json.loads(Path("found.json").read_text())["findings"][0]["rule"] == "budget-rise"
    assert project.run(caught, ini="privacy_strict = true").ret == pytest.ExitCode.TESTS_FAILED
    # another test that passes does not hide it
    beside = marked + training(5.0).replace("def test_training", "def test_again")
    assert project.run(beside, ini="privacy_strict = true").ret == pytest.ExitCode.TESTS_FAILED
    assert project.lock.read_bytes() == approved


@pytest.mark.statistical
def test_an_infinite_budget_is_a_rise_and_cannot_be_locked(project: Project) -> None:
    def at_zero(event: str) -> str:
        return (
            training(5.0)
            .replace("graph(5.0)", f"hs.AccountantGraph().source('people').release('x', {event}, reads=['people'])")
            .replace("1e-6", "0")
        )

    project.run(at_zero("hs.events.Laplace(2.0)"), "--privacy-update").assert_outcomes(passed=1)
    approved = project.lock.read_bytes()
    infinite = at_zero("hs.events.Gaussian(2.0)")
    reports = [word for kind in ("json", "sarif", "md") for word in ("--privacy-report", f"found.{kind}")]
    rise = project.run(infinite, *reports)
    rise.assert_outcomes(failed=1)
    rise.stdout.fnmatch_lines(
        [
            "privacy budget 'training' rose above privacy.lock.json",
            "  at δ = 0: ε = 0.5 -> infinite",
            "  an infinite ε can't be locked: give a larger δ",
        ]
    )
    rise.stdout.no_fnmatch_line("*Error*")
    found = json.loads(Path("found.json").read_text(encoding="utf-8"))
    assert found["budgets"][0]["change"] == "rise" and found["budgets"][0]["epsilon"] == {"0.0": None}
    (result,) = json.loads(Path("found.sarif").read_text())["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("budget-rise", "error") and "-> infinite" in result["message"][
        "text"
    ]
    assert "| training | ε = infinite at δ = 0 |" in Path("found.md").read_text(encoding="utf-8")

    for tests in (
        infinite,
        infinite.replace("privacy_lock('t", "pytest.raises(pytest.fail.Exception, privacy_lock, 't"),
    ):
        updated = project.run(tests, "--privacy-update")
        updated.stdout.fnmatch_lines(["'training' was not updated: an infinite ε can't be locked"])
        assert project.lock.read_bytes() == approved
    project.lock.unlink()
    project.run(infinite).stdout.fnmatch_lines(["privacy budget 'training' is not in *", "  ε = infinite at δ = 0"])


@pytest.mark.statistical
def test_a_budget_that_was_not_certified_is_a_finding(project: Project) -> None:
    project.run(training(5.0) + OTHER, "--privacy-update")
    refused = training(5.0).replace("1e-6", "1e-6, under=hs.Adjacency.LOCAL")
    early = OTHER.replace("    privacy_lock", "    assert 1 == 2\n    privacy_lock")
    for mark in ("", "\n@pytest.mark.xfail"):
        result = project.run(mark + refused + early, "--privacy-report", "found.json")
        result.stdout.no_fnmatch_line("*pytest_budget.py*")
        findings = json.loads(Path("found.json").read_text(encoding="utf-8"))["findings"]
        assert [(one["rule"], one["subject"]) for one in findings] == [
            ("budget-unknown", "training"),
            ("budget-unknown", "test_it.py::test_other"),
        ]
        assert findings[0]["message"].startswith("the privacy budget 'training' could not be certified: ")
        assert findings[1]["message"].endswith(
            "failed before it recorded a privacy budget: its locked budget was not checked"
        )
    # a test of the refusal itself is no news, unless the name is a locked one
    own = (
        training(5.0)
        + OTHER
        + """
def test_refusal(privacy_lock):
    with pytest.raises(hs.UnsupportedAdjacencyError):
        privacy_lock("NAME", graph(5.0), delta=1e-6, under=hs.Adjacency.LOCAL)
"""
    )
    assert project.run(own, ini="privacy_strict = true").ret == pytest.ExitCode.OK
    gone = own.replace("NAME", "training").replace(training(5.0), "")
    assert project.run(gone, ini="privacy_strict = true").ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.statistical
@pytest.mark.parametrize("status", [0, 1])
def test_a_run_that_ends_early_is_interrupted_for_every_exit_status(project: Project, status: int) -> None:
    project.run(training(5.0) + OTHER, "--privacy-update")
    approved = project.lock.read_bytes()
    stop = f"\ndef test_stop():\n    pytest.exit('enough', returncode={status})\n"
    result = project.run(training(4.0) + stop + OTHER, "--privacy-update")
    assert result.ret == status
    result.stdout.fnmatch_lines(["the run was interrupted: privacy.lock.json is unchanged"])
    assert project.lock.read_bytes() == approved


@pytest.mark.statistical
@pytest.mark.parametrize("how", ["KeyboardInterrupt", "pytest.exit('enough')"])
def test_an_interrupted_update_leaves_the_lock_file_and_still_reports(project: Project, how: str) -> None:
    project.run(training(5.0), "--privacy-update")
    approved = project.lock.read_bytes()
    stop = f"\ndef test_stop():\n    {'raise ' if how[0] == 'K' else ''}{how}\n"
    (project.pytester.path / "test_it.py").write_text(HEAD + training(1.0) + stop, encoding="utf-8")

    arguments = ("-p", "no:cacheprovider", "--privacy-update", "--privacy-report", "found.json")
    result = project.pytester.runpytest(*arguments, no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["the run was interrupted: privacy.lock.json is unchanged"])
    assert project.lock.read_bytes() == approved
    found = json.loads(Path("found.json").read_text(encoding="utf-8"))
    assert found["interrupted"] and found["budgets"][0]["change"] == "rise"
    assert not list(project.pytester.path.glob(".*.tmp"))


def test_a_broken_lock_file_is_one_line_and_never_overwritten(project: Project) -> None:
    project.lock.write_text("<<<<<<< HEAD\n", encoding="utf-8")
    result = project.run(training(5.0))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*privacy.lock.json is not JSON (*), perhaps after a merge; restore it, *"])
    result.stdout.no_fnmatch_line("*Traceback*")

    updated = project.run(training(5.0), "--privacy-update")
    assert updated.ret == pytest.ExitCode.TESTS_FAILED
    updated.stdout.fnmatch_lines(["error: *privacy.lock.json is not JSON*", "the run fails for this reason"])
    assert project.lock.read_text(encoding="utf-8") == "<<<<<<< HEAD\n"


@pytest.mark.statistical
def test_one_name_for_two_budgets_fails_and_one_for_two_equal_ones_does_not(project: Project) -> None:
    twice = training(5.0) + training(5.0).replace("test_training", "test_again")
    assert project.run(twice, "--privacy-update").ret == pytest.ExitCode.OK
    unequal = training(5.0) + training(4.0).replace("test_training", "test_again")
    result = project.run(unequal, "--privacy-update")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["error: the privacy budget 'training' is ε = 1.06* here and ε = 0.834* in test_it.py::*"]
    )
    assert project.budgets["training"] < 0.9

    inside = training(5.0) + "    privacy_lock('training', graph(4.0), delta=1e-6)\n"
    project.run(inside).stdout.fnmatch_lines(["privacy budget 'training' is recorded twice in this test*"])


def test_bad_arguments_point_at_the_line_of_the_test(project: Project) -> None:
    result = project.run("\ndef test_it(privacy_lock):\n    privacy_lock('x', graph(5.0), delta=2)\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([">   *privacy_lock('x', graph(5.0), delta=2)", "E*delta=2*: is out of range; *"])
    result.stdout.no_fnmatch_line("*pytest_budget.py*")
    project.run(
        "\ndef test_it(privacy_lock):\n    privacy_lock('a\\n', graph(5.0), delta=1e-6)\n"
    ).stdout.fnmatch_lines(["E*name='a\\n': is not printable text; *"])


def test_a_locked_budget_can_be_audited(project: Project) -> None:
    tests = """
@pytest.mark.filterwarnings("ignore::hockeystick._pytest.audit_fixtures.FloatLeakWarning")
def test_both(privacy_lock, privacy_audit):
    certified = privacy_lock("noise", graph(2.0), delta=1e-6)
    verdict = privacy_audit(hs.mechanisms.Gaussian(2.0), claim=certified, samples=2000, confidence=1 - 1e-6)
    assert not verdict.refuted and verdict.confidence >= 1 - 1e-6
"""
    project.run(tests, "--privacy-update").assert_outcomes(passed=1)
    lock = json.loads(project.lock.read_text(encoding="utf-8"))
    assert lock["audits"] == {"test_it.py::test_both": 1} and lock["audits_registered"] == 1


@pytest.mark.statistical
def test_a_parallel_run_gives_the_same_report(project: Project) -> None:
    # two lock files: one written by one process, the other by two workers' tests
    tests = training(5.0) + OTHER + training(3.0, "third")
    project.run(tests, "--privacy-update", ini="privacy_lock = alone.json")
    result = project.run(tests + training(2.0, "fourth"), "-n", "2", "--privacy-update", "-k", "not fourth")
    result.assert_outcomes(passed=3)
    assert project.lock.read_bytes() == (project.pytester.path / "alone.json").read_bytes()

    (project.pytester.path / "conftest.py").write_text("collect_ignore = ['test_more.py']")
    (project.pytester.path / "test_more.py").write_text("")
    rise = project.run(training(4.0) + OTHER, "-n", "1", "--privacy-report", "found.json", "--junitxml", "junit.xml")
    rise.assert_outcomes(passed=1, failed=1)
    found = json.loads(Path("found.json").read_text(encoding="utf-8"))
    assert {row["name"]: row["change"] for row in found["budgets"]} == {"training": "rise", "other": "same"}
    failed, ignored = "test_it.py::test_training failed", "1 paths with tests were ignored, the first test_more.py"
    assert sorted(found["lock"]["partial"]) == [ignored, failed]  # so that "third" is not called stale
    assert found["lock"]["unchecked"] == ["third"]
    assert Path("junit.xml").read_text(encoding="utf-8").count('name="privacy_lock"') == 2
