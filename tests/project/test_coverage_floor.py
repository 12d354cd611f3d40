"""Tests of the coverage floor: reports just above and just below it, and incomplete reports."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "coverage_floor.py"

pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="is no checkout")


def file(lines: tuple[int, int], branches: tuple[int, int]) -> dict[str, Any]:
    """What coverage reports of a file of which so many lines and branches of so many are run."""
    of_lines = {"covered_lines": lines[0], "num_statements": lines[1]}
    return {
        "summary": {**of_lines, "covered_branches": branches[0], "num_branches": branches[1]},
        "missing_lines": [100 + i for i in range(lines[1] - lines[0])],
        "missing_branches": [[7, -1] if i else [7, 9] for i in range(branches[1] - branches[0])],
    }


FULL, HALF = file((50, 50), (20, 20)), file((25, 50), (10, 20))
SITE = "lib/python3.11/site-packages/hockeystick/"


def floor(path: Path, files: object) -> subprocess.CompletedProcess[str]:
    path.write_text(json.dumps({"files": files}))
    return subprocess.run([sys.executable, SCRIPT, path], capture_output=True, text=True, encoding="utf-8")


@pytest.mark.parametrize("folder", ["", SITE, SITE.replace("/", "\\")])
@pytest.mark.parametrize(
    ("lines", "branches", "short"),
    [((950, 1000), (95, 100), 0), ((949, 1000), (95, 100), 1), ((950, 1000), (94, 100), 1), ((90, 100), (0, 9), 2)],
)
@pytest.mark.parametrize("part", ["accounting", "audits"])
def test_each_part_has_a_floor_for_lines_and_for_branches(
    part: str, lines: tuple[int, int], branches: tuple[int, int], short: int, folder: str, tmp_path: Path
) -> None:
    other = {"accounting": "audits", "audits": "accounting"}[part]
    separator = "\\" if "\\" in folder else "/"
    measured = {
        f"{folder}{part}{separator}one.py": file(lines, branches),
        f"{folder}{other}{separator}one.py": FULL,
        "learners/one.py": HALF,  # has no floor
        "tests/accounting/deep/one.py": HALF,
    }
    said = floor(tmp_path / "report.json", measured)
    assert said.returncode == (1 if short else 0) and not said.stderr
    assert said.stdout.count("below 95 %") == short
    assert f"{lines[0]} of {lines[1]}" in said.stdout and f"{branches[0]} of {branches[1]}" in said.stdout
    assert f"{part}/one.py: " in said.stdout and "learners" not in said.stdout and f"{other}/one.py" not in said.stdout


def test_the_files_that_miss_most_come_first(tmp_path: Path) -> None:
    measured = {f"accounting/part{i}.py": file((100 - i, 100), (50, 50)) for i in range(8)}
    said = floor(tmp_path / "report.json", {**measured, "audits/all.py": file((99, 100), (98, 100))}).stdout
    shown = [line.strip() for line in said.splitlines() if line.startswith("  ")]
    assert [line.split(":")[0] for line in shown] == [f"accounting/part{i}.py" for i in (7, 6, 5, 4)] + [
        "accounting/part3.py"
    ]
    assert shown[4] == "accounting/part3.py: 3 missed: 100, 101, 102"
    many = floor(tmp_path / "report.json", {"accounting/a.py": file((80, 100), (9, 9)), "audits/b.py": FULL}).stdout
    assert "accounting/a.py: 20 missed: 100, 101, " in many and "111, ...\n" in many
    only = floor(tmp_path / "report.json", {"accounting/a.py": FULL, "audits/b.py": file((99, 100), (98, 100))}).stdout
    assert "audits/b.py: 3 missed: 7->9, 7->exit, 100" in only and "accounting/a.py" not in only


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"accounting/one.py": FULL}, "no file of audits/ was measured"),
        ({}, "no file of accounting/"),
        ({"accounting/one.py": {"summary": {}}, "audits/one.py": FULL}, "branches were not measured"),
        (None, "no report to go by"),
    ],
)
def test_an_incomplete_report_is_refused(files: object, words: str, tmp_path: Path) -> None:
    said = floor(tmp_path / "report.json", files)
    assert said.returncode == 1 and words in said.stderr and "Traceback" not in said.stderr


def test_the_settings_state_measured_and_omitted_files() -> None:
    """A file that coverage leaves out needs a package that the tests' environment lacks."""
    run = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"]["run"]
    assert run["branch"] is True and run["source_pkgs"] == ["hockeystick.accounting", "hockeystick.audits"]
    left_out = [path.removeprefix("*/") for path in run["omit"]]
    assert left_out and all((ROOT / path).is_file() for path in left_out)
    for path in left_out:
        assert 'extra="' in (ROOT / path).read_text(encoding="utf-8")
