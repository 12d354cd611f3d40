"""The matrix of Pythons and dependencies: its rows are the package's promise, and what is finished stays finished."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import benchmark

ROOT = Path(__file__).resolve().parents[2]


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
    assert (
        "| 3.12 | newest | no such interpreter here | no python3.12 on the PATH or kept by pyenv |"
        in capsys.readouterr().out
    )
    assert compatibility.interpreter("3.12") is None


def test_finished_rows_are_kept_and_others_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def passed(row: Any, *_: object) -> Any:
        tried.append(row.name)
        return Result(row.name, "passed" if row.python == "3.11" else "failed", "3 passed", {"numpy": "1.26.0"})

    monkeypatch.setattr(compatibility, "interpreter", lambda version: Path("python"))
    monkeypatch.setattr(compatibility, "build", lambda cache: Path("wheel"))
    monkeypatch.setattr(compatibility, "tried", passed)
    monkeypatch.setattr(compatibility, "sources", lambda: "these")
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


def test_results_belong_to_the_areas_that_were_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "interpreter", lambda version: Path("python"))
    monkeypatch.setattr(compatibility, "build", lambda cache: Path("wheel"))
    monkeypatch.setattr(compatibility, "sources", lambda: "files")
    monkeypatch.setattr(compatibility, "tried", lambda row, *rest: Result(row.name, "passed", f"{len(rest[-1])} files"))
    assert [result.told for result in run(ROWS[:1], tmp_path, ["hockeystick/cli", AUDIT[6:-3]])] == [
        f"{len(CLI)} files"
    ]
    assert [result.told for result in run(ROWS[:1], tmp_path)] == ["0 files"]  # pytest's own choice: all of them
    wheels: list[Path] = []

    def noted(row: Any, python: Path, wheel: Path, *rest: object) -> Any:
        wheels.append(wheel)
        return Result(row.name, "passed", "1 passed")

    monkeypatch.setattr(compatibility, "tried", noted)
    assert main(["--only", "3.12-newest", "--cache", str(tmp_path)]) == 0
    assert main(["--only", "3.13-newest", "--cache", str(tmp_path), "--wheel", "mine.whl"]) == 0
    assert wheels == [Path("wheel"), Path("mine.whl")]
    written = " ".join(compatibility.page([Result("3.11-newest", "passed", "1 passed")], ["cli", "audit"]).split())
    assert "`python -m benchmarks.compatibility --tests cli audit --write`" in written
    assert "fast tests of these areas alone (" in written and "Areas: cli, audit;" in written
    assert "The fast tests (" in compatibility.page([Result("3.11-newest", "passed", "1 passed")])


CLI = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "hockeystick" / "cli").rglob("test_*.py"))
AUDIT = "tests/hockeystick/cli/commands/test_audit.py"


def test_files_of_areas() -> None:
    assert compatibility.tests_of(()) == []
    assert compatibility.tests_of([AUDIT[6:-3], "hockeystick/cli"]) == [AUDIT, *(file for file in CLI if file != AUDIT)]


def test_a_row_is_not_kept_when_files_changed_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states = iter(["before", "after"])
    monkeypatch.setattr(compatibility, "interpreter", lambda version: Path("python"))
    monkeypatch.setattr(compatibility, "build", lambda cache: Path("wheel"))
    monkeypatch.setattr(compatibility, "sources", lambda: next(states))
    monkeypatch.setattr(compatibility, "tried", lambda row, *_: Result(row.name, "passed", "1 passed"))
    assert main(["--only", "3.13-*", "--cache", str(tmp_path)]) == 1
    assert "| not finished | files changed while the tests ran |" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_every_file_of_the_checkout_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "ROOT", tmp_path)
    monkeypatch.setattr(compatibility, "PAGE", tmp_path / "docs" / "compatibility.md")
    for name in ("pyproject.toml", "README.md", "tests/data/a.json", "docs/limits.md", "audits/bounds/two_counts.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    seen = [compatibility.sources()]
    for name in ("README.md", "tests/data/a.json", "docs/limits.md", "audits/bounds/two_counts.py", "audits/new.py"):
        (tmp_path / name).write_text("2")
        seen.append(compatibility.sources())
    (tmp_path / "audits/new.py").rename(tmp_path / "audits/newer.py")
    seen.append(compatibility.sources())
    assert len(set(seen)) == len(seen)
    (tmp_path / "audits/__pycache__").mkdir()
    (tmp_path / "audits/__pycache__/bounds.pyc").write_text("3")
    (tmp_path / "docs/compatibility.md").write_text("3")  # which this command writes
    assert compatibility.sources() == seen[-1]


def planted(folder: Path, version: str, status: int = 0) -> Path:
    """An interpreter that pyenv keeps."""
    python = folder / "versions" / version / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nexit {status}\n")
    python.chmod(0o755)
    return python


def test_the_newest_interpreter_of_pyenv_stands_in_for_a_shim_that_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [planted(tmp_path, version) for version in ("3.12.9", "3.12.10", "3.12.11t", "3.12-dev", "3.1.99")]
    shims = tmp_path / "shims"
    shims.mkdir()
    shim = shims / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(shims))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert compatibility.interpreter("3.12") == kept[1]
    assert compatibility.interpreter("3.11") is None
    shim.write_text("#!/bin/sh\nexit 0\n")
    assert compatibility.interpreter("3.12") == shim


def test_the_oldest_row_is_no_row_if_something_newer_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    floors = compatibility.floors()
    assert set(compatibility.SHOWN) <= set(floors)
    assert compatibility.above_floors(dict(floors)) == ""
    assert compatibility.above_floors({**floors, "numpy": floors["numpy"] + ".7"}) == ""
    assert compatibility.above_floors({**floors, "numpy": "99.1", "click": "99"}) == "numpy 99.1, click 99"
    calls: list[tuple[str, ...]] = []

    def uv(*arguments: str) -> str:
        calls.append(arguments)
        return json.dumps([{"name": "numpy", "version": "99.1"}, {"name": "unseen", "version": "1"}])

    monkeypatch.setattr(compatibility, "_uv", uv)
    result = compatibility.tried(Row("3.11", "oldest"), Path("python"), Path("x.whl"), tmp_path, [])
    assert (result.status, result.told) == ("not installed", "newer than the oldest: numpy 99.1")
    # The direct dependencies have to be named: uv takes those of a wheel for indirect ones.
    assert calls[1][-4:-1] == (str(ROOT / "pyproject.toml"), "--extra", "test") and "lowest-direct" in calls[1]


def test_what_pytest_counted() -> None:
    counted = compatibility.counted
    assert counted("....\n=== 2 failed, 14 passed in 709.34s (0:11:49) ===\n") == "2 failed, 14 passed"
    assert counted("3 passed, 1 skipped in 0.10s\nException ignored in x\n") == "3 passed, 1 skipped"
    assert counted("no tests ran in 0.01s\n") == "no tests ran in 0.01s"
    assert counted("ImportError: x\n\n") == "ImportError: x"
    assert counted("") == "nothing"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--only", "2.7-*"],
        ["--only", "3.12-*", "--write"],
        ["--tests", "nowhere"],
        ["--tests", "../tests/test_cli"],
    ],
)
def test_bad_arguments(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as left:
        main([*arguments, "--cache", str(tmp_path)])
    assert left.value.code == 2
