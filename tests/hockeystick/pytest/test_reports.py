"""What a run with the plugin leaves behind: the terminal's summary, JSON, SARIF, Markdown; and the workflow for users.

Seeds are fixed by the names of the tests. A correct mechanism is refuted with probability at most 1e-6 per audit.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

import hockeystick._pytest.report  # pytester forgets what the inner runs import
import hockeystick.audits

WORKFLOW = Path(__file__).parents[3] / "docs" / "privacy-ci-workflow.yml"

TESTS = """
import pytest
import hockeystick as hs

pytestmark = pytest.mark.filterwarnings("ignore::hockeystick._pytest.audit_fixtures.FloatLeakWarning")

def laplace(total, rng, runs):
    return total + rng.laplace(scale=1.0, size=runs)

def half(total, rng, runs):
    return total + rng.laplace(scale=0.5, size=runs)

@pytest.mark.privacy(epsilon=1.0)
class TestAudits:
    def test_right(self, privacy_audit):
        privacy_audit(laplace, neighbours=(0.0, 1.0), confidence=1 - 1e-6, samples=20_000)

    def test_wrong(self, privacy_audit):
        privacy_audit(half, neighbours=(0.0, 1.0), samples=20_000)

    @pytest.mark.xfail(strict=True)
    def test_wrong_as_expected(self, privacy_audit):
        privacy_audit(half, neighbours=(0.0, 1.0), samples=20_000)

    def test_little(self, privacy_audit):
        privacy_audit(laplace, neighbours=(0.0, 1.0), confidence=1 - 1e-6, samples=20)

    def test_bets(self, privacy_evidence):
        privacy_evidence(laplace, neighbours=(0.0, 1.0), samples=1000)

def test_budget(privacy_lock):
    privacy_lock("a|b <new>", hs.events.Laplace(1.0), delta=0, adjacency=hs.Adjacency.LOCAL)
"""

# The essentials of SARIF 2.1.0 as code hosts read it: what they require of a run, and nothing that they refuse.
ESSENTIALS: dict[str, Any] = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {"$ref": "#/$defs/tool"},
                    "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
                },
            },
        },
    },
    "$defs": {
        "text": {
            "type": "object",
            "required": ["text"],
            "properties": {"text": {"type": "string", "minLength": 1}},
            "additionalProperties": False,
        },
        "tool": {
            "type": "object",
            "required": ["driver"],
            "properties": {
                "driver": {
                    "type": "object",
                    "required": ["name", "rules"],
                    "properties": {
                        "rules": {
                            "type": "array",
                            "uniqueItems": True,
                            "items": {
                                "type": "object",
                                "required": ["id", "shortDescription"],
                                "properties": {"shortDescription": {"$ref": "#/$defs/text"}},
                            },
                        }
                    },
                }
            },
        },
        "result": {
            "type": "object",
            "required": ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
            "properties": {
                "level": {"enum": ["none", "note", "warning", "error"]},
                "message": {"$ref": "#/$defs/text"},
                "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
                "locations": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["physicalLocation"],
                        "properties": {
                            "physicalLocation": {
                                "type": "object",
                                "required": ["artifactLocation", "region"],
                                "properties": {
                                    "artifactLocation": {
                                        "type": "object",
                                        "required": ["uri"],
                                        "properties": {"uri": {"type": "string", "pattern": r"^[^/\\: ][^\\: ]*$"}},
                                    },
                                    "region": {
                                        "type": "object",
                                        "required": ["startLine"],
                                        "properties": {"startLine": {"type": "integer", "minimum": 1}},
                                    },
                                },
                            }
                        },
                    },
                },
            },
        },
    },
}


@pytest.mark.statistical
def test_one_run_in_every_form(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = default")
    repository = pytester.path
    (repository / ".git").mkdir()
    package = repository / "a package"
    package.mkdir()
    (package / "pytest.ini").write_text("[pytest]\nfilterwarnings = default\n")
    (package / "test_it.py").write_text(TESTS)
    reports = [word for kind in ("json", "sarif", "md") for word in ("--privacy-report", f"found.{kind}")]
    result = pytester.runpytest("-p", "no:cacheprovider", f"--rootdir={package}", str(package), *reports)
    result.assert_outcomes(passed=3, failed=2, xfailed=1, warnings=1)

    # the terminal has one line for each claim: what is bounded, and what could have been detected if nothing was
    line = r"test_it.py::TestAudits::{}: claim \(1, 0\) {}; ε ≥ [\d.e-]+,{} false alarm .+"
    detectable = r" detectable: (ε ≥ [\d.]+|nothing),"
    for name, outcome in [
        ("test_right", "consistent"),
        ("test_wrong", "refuted"),
        ("test_wrong_as_expected", "refuted"),
        ("test_little", "inconclusive"),
        ("test_bets", "(consistent|inconclusive)"),
    ]:
        shown = line.format(name, outcome, "" if outcome == "refuted" else detectable)
        result.stdout.re_match_lines([shown])
    result.stdout.fnmatch_lines(
        ["budget a|b <new>: ε = 1 at δ = 0, local: NOT LOCKED", "different from *: a|b <new>; run *"]
    )

    found = json.loads(Path("found.json").read_text(encoding="utf-8"))
    audits = {audit["test"].rpartition("::")[2]: audit for audit in found["audits"]}
    assert {name: audit["outcome"] for name, audit in audits.items()} == {
        "test_right": "passed",
        "test_wrong": "failed",
        "test_wrong_as_expected": "expected",
        "test_little": "passed",
        "test_bets": "passed",
    }
    assert hockeystick.audits.Verdict.from_dict(audits["test_wrong"]["verdict"]).refuted
    assert hockeystick.audits.SequentialVerdict.from_dict(audits["test_bets"]["verdict"]).samples <= 1000
    assert all(audit["number"] is None for audit in audits.values())  # none is registered
    assert found["failed"] and not found["interrupted"] and found["false_alarms"] == 1e-3
    assert [(row["name"], row["epsilon"], row["change"]) for row in found["budgets"]] == [
        ("a|b <new>", {"0.0": 1.0}, "new")
    ]

    sarif = json.loads(Path("found.sarif").read_text(encoding="utf-8"))
    jsonschema.validate(sarif, ESSENTIALS)
    (run,) = sarif["runs"]
    results = {one["ruleId"]: one for one in run["results"]}
    assert len(results) == len(run["results"]) == 3  # not the one that was expected to fail
    assert {rule: one["level"] for rule, one in results.items()} == {
        "budget-new": "error",
        "claim-refuted": "error",
        "audit-inconclusive": "note",
    }
    assert all(run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] == rule for rule, one in results.items())
    place = results["claim-refuted"]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20package/test_it.py"  # from the root of the repository
    assert TESTS.splitlines()[place["region"]["startLine"] - 1].strip() == "def test_wrong(self, privacy_audit):"

    table = Path("found.md").read_text(encoding="utf-8")
    assert r"| a\|b &lt;new> | ε = 1 at δ = 0 | local | new |" in table
    assert "| test_it.py::TestAudits::test_wrong | failed | claim (1, 0) refuted;" in table


@pytest.mark.parametrize(
    "arguments, ini, complaint",
    [
        (
            ["--privacy-report", "x.html"],
            "",
            "--privacy-report: 'x.html' has an unknown suffix; use one of .json, .sarif, .md",
        ),
        (["--privacy-report", "no/x.json"], "", "--privacy-report=*there is no folder*"),
        (
            ["--privacy-samples", "many"],
            "",
            "privacy-samples: 'many' is not a number; give a whole number of at least 20",
        ),
        (["--privacy-samples", "2.5"], "", "privacy-samples: 2.5 is out of range*"),
        (["--privacy-confidence", "1"], "", "privacy-confidence: 1 is out of range*"),
        (["--privacy-confidence", "nan"], "", "privacy-confidence: 'nan' is not a number*"),
        ([], "privacy_false_alarms = 0.7", "privacy_false_alarms: 0.7 is out of range*or off"),
        ([], "privacy_ledger_false_alarms = off", "privacy_ledger_false_alarms: 'off' is not a number*"),
        ([], "privacy_samples = 3", "privacy-samples: 3 is out of range*"),
        (["--privacy-samples", ""], "", "--privacy-samples: '' is empty; give a value, or leave it out"),
        (["--privacy-confidence", ""], "", "--privacy-confidence: '' is empty; *"),
        (["--privacy-ledger", ""], "", "--privacy-ledger: '' is empty; *"),
        ([], "privacy_strict = maybe", "*maybe*"),
        (
            ["--privacy-report", "privacy.lock.json"],
            "",
            "--privacy-report privacy.lock.json: *is also the lock file; *",
        ),
        (
            ["--privacy-report", "a/../l.json"],
            "privacy_lock = l.json",
            "--privacy-report l.json: *is also the lock file; *",
        ),
        (
            ["--privacy-report", "e.json", "--privacy-ledger", "e.json"],
            "",
            "--privacy-report e.json: *is also the evidence ledger; give another file",
        ),
        ([], "privacy_ledger = privacy.lock.json", "the evidence ledger: *is also the lock file; *"),
        (
            ["--privacy-report", "x.md", "--privacy-report", "./x.md"],
            "",
            "--privacy-report x.md: *is also --privacy-report x.md; *",
        ),
    ],
)
def test_a_setting_that_cannot_be_used_is_a_usage_error_before_any_test(
    pytester: pytest.Pytester, arguments: list[str], ini: str, complaint: str
) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")
    (pytester.path / "a").mkdir()
    result = pytester.runpytest(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {complaint}"])


@pytest.mark.parametrize(
    "setting, complaint",
    [
        ("privacy_samples = ['5000']", "*privacy_samples*5000*"),
        ("privacy_false_alarms = ['off']", "*privacy_false_alarms*off*"),
        ("privacy_lock = ['a.json']", "*privacy_lock*a.json*"),
        ("privacy_strict = ['maybe']", "*maybe*"),
    ],
)
@pytest.mark.parametrize("table", ["tool.pytest.ini_options", "tool.pytest"])
def test_a_list_where_one_text_belongs_is_a_usage_error(
    pytester: pytest.Pytester, table: str, setting: str, complaint: str
) -> None:
    pytester.makepyprojecttoml(f"[{table}]\nfilterwarnings = ['ignore']\n{setting}\n")
    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_inprocess()
    if table == "tool.pytest" and result.ret == pytest.ExitCode.OK:
        pytest.skip("this pytest does not read the table")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {complaint}"])


def test_paths_of_findings_are_from_the_root_of_the_repository_and_have_no_dots(pytester: pytest.Pytester) -> None:
    repository = pytester.path / "repository"
    below = repository / "sub"
    below.mkdir(parents=True)
    (repository / ".git").mkdir()
    (repository / "locks").mkdir()
    (below / "test_it.py").write_text(TESTS.partition("@pytest.mark.privacy(")[0] + "def test_nothing(): pass\n")
    for lock, uri in [("../locks/p.json", "locks/p.json"), ("../../p.json", (pytester.path / "p.json").as_uri())]:
        (below / "pytest.ini").write_text(f"[pytest]\nprivacy_lock = {lock}\n")
        (below / lock).write_text("damaged")
        arguments = ("-p", "no:cacheprovider", f"--rootdir={below}", str(below), "--privacy-report=found.sarif")
        assert pytester.runpytest(*arguments).ret == pytest.ExitCode.TESTS_FAILED
        sarif = json.loads(Path("found.sarif").read_text(encoding="utf-8"))
        (result,) = sarif["runs"][0]["results"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


@pytest.mark.statistical
def test_a_run_without_findings_writes_only_the_requested_reports(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing(): pass")
    pytester.runpytest("-p", "no:cacheprovider").stdout.no_fnmatch_line("*= privacy =*")
    pytester.runpytest("-p", "no:cacheprovider", "--privacy-report", "x.sarif", "--privacy-report", "x.md")
    sarif = json.loads(Path("x.sarif").read_text())
    jsonschema.validate(sarif, ESSENTIALS)
    assert sarif["runs"][0]["results"] == []
    assert Path("x.md").read_text() == "## Privacy\n\nNothing was audited or recorded.\n"


# ------------------------------------------------------------------------------------------------ the workflow of docs/


def runs(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def test_the_workflow_parses_and_its_commands_exist(pytester: pytest.Pytester) -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    assert set(workflow) == {"name", True, "permissions", "env", "concurrency", "jobs"}  # YAML 1.1 reads "on" as true
    assert set(workflow["jobs"]) == {"tests", "evidence"}
    help_text = pytester.runpytest("--help").stdout.str()
    commands = [shlex.split(line) for job in workflow["jobs"].values() for line in runs(job) if " pytest " in line]
    commands = [words for words in commands if words[:3] == ["python", "-m", "pytest"]]
    assert len(commands) == 2
    for words in commands:
        for word in words[3:]:
            if word.startswith("-"):
                assert re.search(rf"(?<![\w-]){word}\b", help_text), word
    written = {words[i + 1] for words in commands for i, word in enumerate(words) if word == "--privacy-report"}
    assert written == {"privacy.json", "privacy.sarif", "privacy.md"}
    # what later steps read is what the commands write, and evidence is saved where it was restored
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    (upload,) = (step["with"] for step in steps if "upload-sarif" in step.get("uses", ""))
    assert upload["sarif_file"] in written
    restore, save = (step["with"] for step in steps if "actions/cache/" in step.get("uses", ""))
    ledger = next(words[words.index("--privacy-ledger") + 1] for words in commands if "--privacy-ledger" in words)
    assert restore["path"] == save["path"] == ledger and restore["key"] == save["key"]
    assert restore["key"].startswith(restore["restore-keys"])
    assert workflow["jobs"]["tests"]["permissions"]["security-events"] == "write"


@pytest.mark.skipif(shutil.which("bash") is None, reason="the workflow's shell is not here")
def test_the_workflow_installs_only_the_source_named_at_its_head() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    assert workflow["env"] == {"HOCKEYSTICK": ""}  # to be filled in
    lines = [line for job in workflow["jobs"].values() for line in runs(job) if " pip " in line]
    assert len(lines) == 2
    for line in lines:
        show = ["bash", "-ec", line.replace("python -m pip install", "printf '%s\\n'")]
        empty = subprocess.run(show, env=workflow["env"], capture_output=True, text=True)
        assert empty.returncode and "name its source" in empty.stderr and not empty.stdout
        source = "hockeystick @ git+https://host/a b@c"
        filled = subprocess.run(show, env={"HOCKEYSTICK": source}, capture_output=True, text=True)
        assert filled.stdout.splitlines() == ["-e", ".", source, "pytest", "pytest-xdist"]


ROOT = Path(__file__).parents[3]


def test_the_gitlab_template_runs_the_commands_of_the_page() -> None:
    template = yaml.safe_load((ROOT / "docs" / "privacy-ci-gitlab.yml").read_text(encoding="utf-8"))
    jobs = {name: job for name, job in template.items() if isinstance(job, dict) and "script" in job}
    page = (ROOT / "docs" / "privacy-tests-in-ci.md").read_text(encoding="utf-8")

    assert set(jobs) == {"privacy tests", "privacy evidence"}
    for name, expected in (
        ("privacy tests", "--privacy-report privacy.md"),
        ("privacy evidence", "privacy-evidence.db"),
    ):
        (command,) = jobs[name]["script"]
        start = command[: command.index(expected) + len(expected)]
        assert jobs[name]["extends"] == ".privacy" and start in page
    assert template["variables"]["HOCKEYSTICK"] == "" and "${HOCKEYSTICK:?" in template[".privacy"]["before_script"][0]
    assert jobs["privacy evidence"]["resource_group"] and jobs["privacy evidence"]["cache"]["when"] == "always"


def test_the_pre_commit_hook_stops_a_budget_that_rose(pytester: pytest.Pytester) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    arguments = hook["entry"].removeprefix("python -m pytest ").split()
    budget = "privacy_lock('a', hs.events.Laplace({}), delta=0, adjacency=hs.Adjacency.LOCAL)"
    test = "import hockeystick as hs\ndef test_a(privacy_lock):\n    " + budget
    pytester.makepyfile(test_budgets=test.format("2.0"))

    assert hook["id"] == "privacy-lock" and hook["language"] == "system" and hook["pass_filenames"] is False
    assert pytester.runpytest(*arguments, "test_budgets.py").ret != 0  # the lock file is to be written first
    assert pytester.runpytest("--privacy-update", "-p", "no:cacheprovider", "test_budgets.py").ret == 0
    assert pytester.runpytest(*arguments, "test_budgets.py").ret == 0
    pytester.makepyfile(test_budgets=test.format("1.0"))
    assert pytester.runpytest(*arguments, "test_budgets.py").ret != 0
