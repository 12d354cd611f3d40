"""``python -m benchmarks.auditors.rate``: its output, its saved results, resuming, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmark_scripts import benchmark

script = benchmark("auditors.rate")

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


def rated(*names: str, **options: object) -> int:
    words = [word for name in names for word in ("--estimator", name)]
    words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return int(script.main(["--quick", "--samples", "20", *words]))


def test_valid_and_invalid_estimators(module: Path, capsys) -> None:
    assert rated(f"{module}:never", f"{module}:always") == 1

    printed = capsys.readouterr().out
    assert "| 300 of 300 |" in printed and "| 0 of 300 |" in printed
    assert f"| {module}:never | valid |" in printed and f"| {module}:always | INVALID |" in printed
    assert f"| {module}:never | laplace 1, true 2x | ∞ |" in printed


def test_resume_measures_nothing_again(module: Path, tmp_path: Path, capsys) -> None:
    kept = tmp_path / "kept.json"
    assert rated(f"{module}:never", json=kept) == 0
    first = capsys.readouterr().out
    module.write_text("def never(*_):\n    raise AssertionError\n")
    assert rated(f"{module}:never", json=kept) == 0 and capsys.readouterr().out == first

    module.write_text(MODULE)
    assert rated(f"{module}:never", json=kept, alpha=0.01) == 0  # other settings are measured, and kept beside these
    capsys.readouterr()
    assert rated(f"{module}:never", json=kept) == 0 and capsys.readouterr().out == first


def test_a_file_of_something_else_is_left_alone(module: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "mine.json").write_text("[1]")
    with pytest.raises(SystemExit, match="2"):
        rated(f"{module}:never", json=tmp_path / "mine.json")
    assert (tmp_path / "mine.json").read_text() == "[1]" and "does not hold results" in capsys.readouterr().err


def test_an_interruption_keeps_finished_results(module: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    with pytest.raises(KeyboardInterrupt):
        rated(f"{module}:never", f"{module}:stops", json=kept)
    found = [json.loads(line)["result"]["estimator"] for line in kept.read_text().splitlines() if line]
    assert found == [f"{module}:never"] * 4


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("nobody", {}, "is unknown"),
        ("{}:broken", {}, "return (refuted, epsilon_lower)"),
        ("{}:never", {"alpha": 0.0}, "alpha"),
        ("{}:never", {"samples": 3}, "samples"),
    ],
)
def test_unusable_input_could_not_run(module: Path, name: str, options: dict[str, object], said: str, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        rated(name.format(module), **options)
    assert said in capsys.readouterr().err
