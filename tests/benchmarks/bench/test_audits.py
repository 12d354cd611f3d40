"""``hockeystick bench audits``: what it prints, writes, resumes and how it exits."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import command_line
import pytest

MODULE = """
def never(samples0, samples1, claim, alpha, rng):
    return False, 0.0

def always(samples0, samples1, claim, alpha, rng):
    return True, 10.0

def broken(samples0, samples1, claim, alpha, rng):
    return "no"

def stops(samples0, samples1, claim, alpha, rng):
    raise KeyboardInterrupt
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "mybounds.py"
    path.write_text(MODULE)
    return path


bench = partial(command_line.run, "bench", "audits", "--quick", "--samples", "20")


def test_valid_and_invalid_estimators(module: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    result = bench("--estimator", f"{module}:never", "--estimator", f"{module}:always", "--json", out)

    assert result.exit_code == 1
    assert "INVALID" in result.stdout and "300 of 300" in result.stdout and "0 of 300" in result.stdout
    content = json.loads(out.read_text())
    assert content["judgements"] == {f"{module}:never": "valid", f"{module}:always": "INVALID"}
    assert {one["judgement"] for one in content["false_alarms"]} == {"valid", "INVALID"}
    needed = {one["estimator"]: one for one in content["samples"] if one["target"] == "laplace 1, true 2x"}
    assert needed[f"{module}:never"]["n90"] is None and needed[f"{module}:never"]["ratio"] is None
    assert needed[f"{module}:always"]["ratio"] < 1
    assert content["settings"] == {"alpha": 0.05, "samples": 20, "replications": 300, "seed": 0}


def test_only_valid_ones_end_well_and_json_takes_the_output(module: Path) -> None:
    result = bench("--estimator", f"{module}:never", "--json", "-")

    assert result.exit_code == 0
    assert json.loads(result.stdout)["judgements"] == {f"{module}:never": "valid"}
    assert "False alarms at alpha = 0.05" in result.stderr


def test_resume_measures_nothing_again(module: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    first = bench("--estimator", f"{module}:never", "--resume", kept)
    module.write_text("def never(*_):\n    raise AssertionError\n")
    second = bench("--estimator", f"{module}:never", "--resume", kept)

    assert first.exit_code == second.exit_code == 0
    assert first.stdout == second.stdout
    refused = bench("--estimator", f"{module}:never", "--resume", kept, "--alpha", "0.01")
    assert refused.exit_code == 2 and "--resume" in refused.stderr and "alpha" in refused.stderr
    kept.write_text("[1]")
    assert bench("--estimator", f"{module}:never", "--resume", kept).exit_code == 2


def test_an_interruption_keeps_what_is_finished(module: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    result = bench("--estimator", f"{module}:never", "--estimator", f"{module}:stops", "--resume", kept)

    assert result.exit_code == 130 and "finished" in result.stderr
    assert {one["estimator"] for one in json.loads(kept.read_text())["results"]} == {f"{module}:never"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--estimator", "nobody"], "--estimator='nobody': is unknown"),
        (["--estimator", "no_such_file.py:f"], "no_such_file.py"),
        (["--alpha", "0"], "--alpha"),
        (["--replications", "3"], "--replications"),
        (["--json", "no/such/folder.json"], "--json"),
        (["--resume", "no/such/folder.json"], "--resume"),
    ],
)
def test_unusable_input_could_not_run(args: list[str], said: str) -> None:
    result = bench(*args)

    assert result.exit_code == 2
    assert said in result.stderr and result.stdout == ""


def test_an_estimator_off_its_signature_could_not_run(module: Path) -> None:
    result = bench("--estimator", f"{module}:broken")

    assert result.exit_code == 2 and "return (refuted, epsilon_lower)" in result.stderr


def test_the_help_has_an_example() -> None:
    result = command_line.run("bench", "audits", "--help")

    assert result.exit_code == 0 and "\n    hockeystick bench audits" in result.stdout
