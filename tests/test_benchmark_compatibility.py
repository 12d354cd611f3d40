"""The matrix of Pythons and dependencies: its rows are the package's promise, and what is finished stays finished."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import benchmark

ROOT = Path(__file__).resolve().parents[1]


compatibility = benchmark("compatibility")
ROWS, Result, Row = compatibility.ROWS, compatibility.Result, compatibility.Row
main, run = compatibility.main, compatibility.run


def test_every_promised_python_has_a_row() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [text.rsplit(" ", 1)[1] for text in project["classifiers"] if "Python :: 3." in text]
    assert [row.python for row in ROWS if row.dependencies == "newest"] == named
    assert project["requires-python"] == f">={named[0]}"
    assert Row(named[0], "oldest") in ROWS
    # Without a floor there is no oldest version to try.
    optional = [text for name, extra in project["optional-dependencies"].items() if name != "dev" for text in extra]
    for requirement in [*project["dependencies"], *optional]:
        assert ">=" in requirement or requirement.startswith("hockeystick["), requirement


def test_a_missing_interpreter_is_told_and_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compatibility, "interpreter", lambda version: None)
    assert main(["--only", "3.12-*", "--cache", str(tmp_path)]) == 0
    assert "| 3.12 | newest | no such interpreter here | no python3.12 on the path |" in capsys.readouterr().out
    assert compatibility.interpreter("3.12") is None


def test_finished_rows_are_kept_and_others_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def passed(row: Any, *_: object) -> Any:
        tried.append(row.name)
        return Result(row.name, "passed" if row.python == "3.11" else "failed", "3 passed", {"numpy": "1.26.0"})

    monkeypatch.setattr(compatibility, "interpreter", lambda version: Path("python"))
    monkeypatch.setattr(compatibility, "build", lambda cache: Path("wheel"))
    monkeypatch.setattr(compatibility, "tried", passed)
    first = list(run(ROWS, tmp_path))
    assert first == list(run(ROWS, tmp_path)) and tried == [row.name for row in ROWS]
    assert "| 3.11 | oldest | passed | 3 passed | numpy 1.26.0 |" in compatibility.table(first)
    assert main(["--cache", str(tmp_path)]) == 1  # a failed row stays one until the sources change
    monkeypatch.setattr(compatibility, "sources", lambda: "others")
    list(run(ROWS[:1], tmp_path))
    assert len(tried) == len(ROWS) + 1

    def broken(*_: object) -> None:
        raise subprocess.CalledProcessError(1, ["uv"], stderr="first\nno wheel for this\n")

    monkeypatch.setattr(compatibility, "sources", lambda: "more")
    monkeypatch.setattr(compatibility, "tried", broken)
    (result,) = run(ROWS[:1], tmp_path)
    assert (result.status, result.told) == ("not installed", "no wheel for this")
    assert not list(tmp_path.glob("*-more.json"))


def test_results_belong_to_the_sources(tmp_path: Path) -> None:
    kept = tmp_path / f"3.11-newest-{compatibility.sources()}.json"
    kept.write_text(json.dumps({"name": "3.11-newest", "status": "passed", "told": "all", "versions": {}}))
    assert list(run(ROWS[:1], tmp_path)) == [Result("3.11-newest", "passed", "all", {})]


@pytest.mark.parametrize("arguments", [["--only", "2.7-*"], ["--only", "3.12-*", "--write"]])
def test_bad_arguments(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as left:
        main([*arguments, "--cache", str(tmp_path)])
    assert left.value.code == 2
