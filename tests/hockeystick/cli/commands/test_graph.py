"""Tests of ``hockeystick graph``: the tree, drawings to files and pipes, threat models, and refused options."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

import command_line
import pytest

from hockeystick.accounting import AccountantGraph, Gaussian, Laplace
from hockeystick.accounting.graph.drawing.mermaid import costs, to_mermaid

GRAPH = (
    AccountantGraph()
    .source("people")
    .release("mean", Gaussian(5.0), reads=["people"])
    .release("count", Laplace(2.0), reads=["people"], simulated=True)
    .post("page", reads=["mean"])
    .view("press", sees=["page"])
)

run = partial(command_line.run, "graph")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "graph.json").write_text(GRAPH.to_json(), encoding="utf-8")
    return tmp_path / "graph.json"


def test_without_delta_nothing_is_computed(file: Path) -> None:
    result = run(file)

    assert result.exit_code == 0 and "release mean" in result.stdout and "ε" not in result.stdout.replace("ε alone", "")
    assert "the noise of count was simulated" in result.stderr
    plain = json.loads(run(file, "--json", "-").stdout)
    assert (plain["command"], plain["delta"], plain["costs"]) == ("graph", None, None)


def test_costs_and_threat_models(file: Path) -> None:
    every = json.loads(run(file, "--delta", "1e-6", "--json", "-").stdout)
    press = json.loads(run(file, "--delta", "1e-6", "--view", "press", "--json", "-").stdout)

    assert every["costs"] == costs(GRAPH, 1e-6)
    assert press["costs"] == costs(GRAPH, 1e-6, view="press") and set(press["costs"]) == {"mean"}
    assert press["view"] == "press" and "threat model press" in run(file, "--delta", "0.1", "--view", "press").stdout
    assert AccountantGraph.from_json(json.dumps(every["graph"])) == GRAPH


def test_drawings_are_written(file: Path, tmp_path: Path) -> None:
    named = [f"--{name}={tmp_path / name}" for name in ("svg", "mermaid", "json", "markdown")]
    result = run("-", "--delta", "1e-6", *named, text=GRAPH.to_json())

    assert result.exit_code == 0 and result.stderr.count("wrote ") == 4
    assert ElementTree.parse(tmp_path / "svg").getroot().tag.endswith("svg")
    assert (tmp_path / "mermaid").read_text(encoding="utf-8") == to_mermaid(GRAPH, delta=1e-6)
    assert to_mermaid(GRAPH, delta=1e-6) in (tmp_path / "markdown").read_text(encoding="utf-8")
    piped = run(file, "--mermaid", "-")
    assert piped.stdout == to_mermaid(GRAPH) and "release mean" in piped.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--svg", "-", "--mermaid", "-"], "which --svg takes too"),
        (["--svg", "-", "--json", "-"], "which --json takes too"),
        (["--svg", "same", "--json", "same"], "the file of another result"),
        (["--svg", "no/folder/x.svg"], "there is no folder"),
        (["--view", "nobody"], "is not a threat model of the graph (press)"),
        (["--delta", "2"], "--delta"),
    ],
)
def test_bad_options_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], said: str) -> None:
    monkeypatch.chdir(file.parent)
    result = run(file, *args)

    assert (result.exit_code, result.stdout) == (2, "") and said in result.stderr
    assert [one.name for one in file.parent.iterdir()] == ["graph.json"]


def test_a_file_that_is_not_a_graph_is_refused(tmp_path: Path) -> None:
    assert "there is no such file" in run(tmp_path / "x.json").stderr
    assert run("-", text="{}").exit_code == 2
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8" in run(tmp_path / "b.json").stderr
    assert "can't be read" in run(tmp_path).stderr
