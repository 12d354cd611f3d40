"""Tests of the corpus of released leaks: its table is valid, and its runner stores outputs and reports failures."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_scripts import benchmark

ROOT = Path(__file__).parents[2]


ladder = benchmark("version_ladder.run")
ROWS = ladder.corpus()
TOML = """
[[row]]
name = "fair"
packages = []
sampler = "numpy_laplace"
arguments = { grid = 9.5367431640625e-7 }
runs = 4000
neighbours = [0.0, 1.0]
epsilon = 1.0
expect = "green"
why = "test"

[[row]]
name = "leaks"
packages = []
sampler = "numpy_laplace"
runs = 4000
neighbours = [0.0, 1.0]
epsilon = 1.0
expect = "red"
why = "test"
"""


def row(**changes: Any) -> Any:
    given: dict[str, Any] = dict(
        name="x", packages=(), sampler="numpy_laplace", runs=4000, epsilon=1.0, expect="green", why="test"
    )
    return ladder.Row(**{**given, "neighbours": (0.0, 1.0), **changes})


def test_the_corpus_has_a_red_and_a_green_side_for_every_library_and_pins_every_package() -> None:
    sides = {colour: {row.name.split()[0] for row in ROWS if row.expect == colour} for colour in ("red", "green")}

    assert sides["red"] == sides["green"] == {"numpy", "opendp", "diffprivlib", "python-dp", "jax-privacy"}
    assert all(package.count("==") == 1 for row in ROWS for package in row.packages)
    assert all(row.name.split()[1] in row.packages[0] for row in ROWS if not row.name.startswith("numpy"))


def test_the_corpus_names_samplers_that_exist_with_arguments_that_they_take() -> None:
    tree = ast.parse(ladder.DRAW.read_text(encoding="utf-8"))
    functions = {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}

    for one in ROWS:
        own = functions[one.sampler]
        given = set(one.settings()) - {"neighbours"} | ({"value"} if one.neighbours else set())
        names = [argument.arg for argument in own.args]
        assert set(names[: len(names) - len(own.defaults)]) <= given, one.name
        assert own.kwarg is not None or given <= set(names), one.name


def test_the_sampler_script_knows_nothing_of_this_package() -> None:
    assert "hockeystick" not in ladder.DRAW.read_text(encoding="utf-8").replace("knows nothing of hockeystick", "")


@pytest.mark.parametrize(
    "changes", [{"neighbours": None}, {"significance": 0.05}, {"expect": "blue"}], ids=["neither", "both", "colour"]
)
def test_an_invalid_row_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        row(**changes)


def test_an_auditor_is_red_if_it_errs_more_often_than_stated() -> None:
    auditor = row(neighbours=None, significance=0.05)
    bounds = np.where(np.arange(200) < 40, 1.5, 0.5)

    wrong, fair = (ladder.judge(auditor, {"bounds": b}) for b in (bounds, bounds[30:]))  # 40 of 200, 10 of 170

    assert (wrong.status, fair.status) == ("red", "green")
    assert wrong.unexpected and not fair.unexpected
    assert "40 of 200" in wrong.found


def test_outputs_are_stored_and_drawn_again_if_the_row_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    drawn: Counter[str] = Counter()

    def command(status: str, words: list[str]) -> None:
        _, script, sampler, settings, out = words
        drawn[settings] += 1
        scale = json.loads(settings)["scale"]
        assert (words[0], script) == (sys.executable, str(ladder.DRAW))
        if sampler == "fails":
            raise ladder.StepError(status, "no such thing")
        np.savez(out, d0=rng.laplace(scale=scale, size=4000), d1=1 + rng.laplace(scale=scale, size=4000))

    monkeypatch.setattr(ladder, "_command", command)
    rows = row(arguments={"scale": 0.5}), row(sampler="fails", arguments={"scale": 1})

    first, second = list(ladder.run(rows, tmp_path)), list(ladder.run(rows, tmp_path))

    assert first == second and [result.status for result in first] == ["red", "not drawn"]
    assert [result.unexpected for result in first] == [True, False] and first[1].found == "no such thing"
    assert list(drawn.values()) == [1, 2]
    list(ladder.run((row(arguments={"scale": 0.4}),), tmp_path))
    assert list(drawn.values()) == [1, 2, 1]


def test_packages_that_cannot_be_installed_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder.venv, "create", lambda folder, **options: Path(folder).mkdir(parents=True))
    commands = []

    def command(status: str, words: list[str]) -> None:
        commands.append(words)
        if len(commands) == 1:
            raise ladder.StepError(status, "no index")

    monkeypatch.setattr(ladder, "_command", command)
    monkeypatch.setattr(ladder, "draw", lambda *arguments: pytest.fail("nothing to draw with"))
    rows = (row(packages=("nothing==1",)),)

    (result,) = ladder.run(rows, tmp_path)

    assert (result.status, result.found, result.finished) == ("not installed", "no index", False)
    assert commands[0][-1] == "nothing==1"
    folder = next((tmp_path / "environments").iterdir())
    folder.rmdir()
    assert ladder.environment(("nothing==1",), tmp_path).parents[1] == folder  # tried again, and then ready
    assert ladder.environment(("nothing==1",), tmp_path).parents[1] == folder and len(commands) == 2


def test_the_command_draws_audits_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus.toml"
    corpus.write_text(TOML, encoding="utf-8")

    status = ladder.main(["--corpus", str(corpus), "--cache", str(tmp_path / "cache")])

    shown = capsys.readouterr().out
    assert status == 0, shown
    assert "fair: green (expected green)" in shown and "leaks: red (expected red)" in shown
    assert "2 of 2 rows finished, 0 not as expected" in shown
    results = list(ladder.run(ladder.corpus(corpus), tmp_path / "cache"))
    assert ladder.table(results).count("\n") == 3
    corpus.write_text(TOML.replace('"red"', '"green"'), encoding="utf-8")
    assert ladder.main(["--corpus", str(corpus), "--cache", str(tmp_path / "cache"), "--only", "LEAK*"]) == 1


@pytest.mark.skipif(
    "HOCKEYSTICK_VERSION_LADDER" not in os.environ,
    reason="installs packages from an index: set HOCKEYSTICK_VERSION_LADDER to a pattern of rows, such as numpy*",
)
def test_rows_of_the_corpus_are_as_expected(tmp_path: Path) -> None:
    assert ladder.main(["--only", os.environ["HOCKEYSTICK_VERSION_LADDER"], "--cache", str(tmp_path)]) == 0
