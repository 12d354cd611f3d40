"""Tests of the matrix of Pythons and dependencies: its rows are the supported versions, and failures are reported."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest
from benchmark_scripts import benchmark

ROOT = Path(__file__).resolve().parents[2]

compatibility = benchmark("compatibility")
main = compatibility.main


def test_every_supported_python_has_a_row() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [text.rsplit(" ", 1)[1] for text in project["classifiers"] if "Python :: 3." in text]
    assert (*(f"{version}-newest" for version in named), f"{named[0]}-oldest") == compatibility.ROWS
    assert project["requires-python"] == f">={named[0]}"
    # Without a floor there is no oldest version to try.
    optional = [text for name, extra in project["optional-dependencies"].items() if name != "dev" for text in extra]
    for requirement in [*project["dependencies"], *optional]:
        assert ">=" in requirement or requirement.startswith("hockeystick["), requirement


def test_a_missing_interpreter_is_no_failure_and_a_failed_installation_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def uv(*arguments: str) -> str:
        if arguments[0] == "python" and arguments[-1] == "3.11":
            return "/usr/bin/python3.11\n"
        raise subprocess.CalledProcessError(1, ["uv"], stderr="first\nno wheel for this\n")

    monkeypatch.setattr(compatibility, "_uv", uv)
    given = ["--wheel", "mine.whl", "--work", str(tmp_path)]
    assert main([*given, "--only", "3.12-*"]) == 0
    assert "| 3.12 | newest | no such interpreter here | uv finds no Python 3.12 |" in capsys.readouterr().out
    assert main(given) == 1
    assert "| 3.11 | oldest | not installed | no wheel for this |" in capsys.readouterr().out


def test_a_cell_that_passed_is_not_run_again_until_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[str] = []

    def tried(row: str, *_: object) -> tuple[str, str, str]:
        runs.append(row)
        return "failed" if row == "3.13-newest" and len(runs) < 6 else "passed", f"{len(runs)} passed", "numpy 2.0"

    monkeypatch.setattr(compatibility, "tried", tried)
    monkeypatch.setattr(compatibility, "state", lambda tests: f"abc{len(tests)}")
    given = ["--wheel", "mine.whl", "--work", str(tmp_path)]
    assert main(given) == 1 and runs == list(compatibility.ROWS)
    first = capsys.readouterr().out
    assert main(given) == 0 and runs == [*compatibility.ROWS, "3.13-newest"]
    assert set(capsys.readouterr().out.splitlines()) - set(first.splitlines()) >= {
        "| 3.13 | newest | passed | 6 passed | numpy 2.0 |"
    }
    assert main([*given, "--only", "3.11-*", "--tests", "tests/audits"]) == 0 and len(runs) == 8


def test_the_tests_of_the_matrix_exist_and_its_state_depends_on_them() -> None:
    assert all((ROOT / path).exists() for path in compatibility.SOME)
    assert compatibility.state(compatibility.SOME) != compatibility.state(["tests"])


def test_the_oldest_row_fails_if_something_newer_was_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []

    def uv(*arguments: str) -> str:
        calls.append(arguments)
        return json.dumps([{"name": "numpy", "version": "99.1"}, {"name": "unseen", "version": "1"}])

    monkeypatch.setattr(compatibility, "_uv", uv)
    outcome = compatibility.tried("3.11-oldest", Path("x.whl"), tmp_path, [])
    assert outcome == ("not installed", "newer than the oldest: numpy 99.1", "numpy 99.1")
    # The direct dependencies have to be named: uv takes those of a wheel for indirect ones.
    assert calls[2][-4:-1] == (str(ROOT / "pyproject.toml"), "--extra", "test") and "lowest-direct" in calls[2]
    assert compatibility.above_floors({"numpy": "1.26.0", "pytest": "8.1.1"}) == ""


def test_the_counts_of_pytest_are_read() -> None:
    counted = compatibility.counted
    assert counted("....\n=== 2 failed, 14 passed in 709.34s (0:11:49) ===\n") == "2 failed, 14 passed"
    assert counted("3 passed, 1 skipped in 0.10s\nException ignored in x\n") == "3 passed, 1 skipped"
    assert counted("ImportError: x\n\n") == "ImportError: x"
    assert counted("") == "nothing"


@pytest.mark.parametrize("arguments", [["--only", "2.7-*"], ["--only", "3.12-*", "--write"]])
def test_bad_arguments_are_refused(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "--work", str(tmp_path)])
