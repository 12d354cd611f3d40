"""Tests of ``hockeystick account``: its output, its JSON, and bad graphs."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path
from typing import Any

import pytest
from command_line import assert_refused, run, strict_json

from hockeystick.accounting import AccountantGraph, Gaussian, Laplace, NonPrivate


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    built = AccountantGraph(assumptions=["noise is drawn afresh"]).source("people")
    built = built.release("mean", Gaussian(5.0), reads=["people"]).release(
        "count", Laplace(2.0), reads=["people"], count=3
    )
    (tmp_path / "graph.json").write_text(built.to_json(), encoding="utf-8")
    return tmp_path / "graph.json"


@pytest.mark.statistical
def test_the_report_has_bracket_method_and_cost_per_node(graph: Path) -> None:
    result = run("account", str(graph), "--delta", "1e-6")

    assert result.exit_code == 0 and result.stderr == ""
    guarantee = AccountantGraph.from_json(graph.read_text(encoding="utf-8")).guarantee()
    assert "ε ≤ " in result.stdout and guarantee.epsilon(1e-6).method in result.stdout
    for word in (
        "bracket",
        "mean",
        "count",
        "Gaussian(noise_multiplier=5)",
        "noise is drawn afresh",
        "add-or-remove-one",
    ):
        assert word in result.stdout
    assert not any(line.endswith(" ") for line in result.stdout.splitlines())


def test_printed_bounds_are_at_least_the_computed_ones(graph: Path) -> None:
    result = run("account", str(graph), "--delta", "1e-6")
    upper = AccountantGraph.from_json(graph.read_text(encoding="utf-8")).guarantee().epsilon(1e-6).upper

    printed = float(result.stdout.split("ε ≤ ")[1].split()[0])

    assert upper <= printed <= upper * 1.001


@pytest.mark.parametrize("delta", ["1e-6", "1e-3"])
def test_json_has_the_result(graph: Path, tmp_path: Path, delta: str) -> None:
    result = run("account", str(graph), "--delta", delta, "--json", str(tmp_path / "out.json"))

    assert result.exit_code == 0 and "wrote " in result.stderr
    written = strict_json((tmp_path / "out.json").read_text(encoding="utf-8"))
    guarantee = AccountantGraph.from_json(graph.read_text(encoding="utf-8")).guarantee()
    bracket = guarantee.epsilon(float(delta), bracket=True)
    assert (written["epsilon_upper"], written["epsilon_lower"], written["method"]) == (
        bracket.upper,
        bracket.lower,
        bracket.method,
    )
    assert written["schema_version"] == 1 and written["command"] == "account" and written["delta"] == float(delta)
    assert {row["node"]: row["epsilon_alone"] for row in written["nodes"]} == {
        share.node: share.epsilon_alone for share in guarantee.contributions(float(delta))
    }
    assert {row["node"]: row["count"] for row in written["nodes"]} == {"mean": 1, "count": 3}
    assert {"python", "numpy", "hockeystick"} <= written["versions"].keys()


def test_json_on_the_standard_output_is_alone_there(graph: Path) -> None:
    result = run("account", str(graph), "--delta", "1e-6", "--json", "-")

    assert strict_json(result.stdout)["command"] == "account"
    assert "ε ≤ " in result.stderr


def test_the_graph_can_come_from_the_standard_input(graph: Path) -> None:
    result = run("account", "-", "--delta", "1e-6", text=graph.read_bytes())

    assert (result.exit_code, result.stderr) == (0, "") and "ε ≤ " in result.stdout


def test_delta_zero_and_infinite_epsilon(tmp_path: Path) -> None:
    pure = AccountantGraph().source("people").release("count", Laplace(2.0), reads=["people"])
    (tmp_path / "pure.json").write_text(pure.to_json())
    (tmp_path / "none.json").write_text(pure.release("leak", NonPrivate(), reads=["people"]).to_json())

    finite = run("account", str(tmp_path / "pure.json"), "--delta", "0")
    infinite = run("account", str(tmp_path / "none.json"), "--delta", "0.5", "--json", str(tmp_path / "out.json"))

    assert finite.exit_code == 0 and "ε ≤ 0.5 at δ = 0" in finite.stdout and finite.stderr == ""
    assert infinite.exit_code == 0 and "inf" in infinite.stdout
    assert "warning: the graph has no finite ε" in infinite.stderr
    written = strict_json((tmp_path / "out.json").read_text())
    assert written["epsilon_upper"] == "inf" and math.isinf(float(written["epsilon_upper"]))


def test_an_empty_graph_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text(AccountantGraph().to_json())

    result = run("account", str(tmp_path / "empty.json"), "--delta", "0")

    assert result.exit_code == 0 and "ε ≤ 0 at δ = 0" in result.stdout


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[1]", "graph"),
        (b"{}", "schema_version"),
        (b'{"schema_version": 99, "adjacency": "local", "nodes": []}', "schema_version 99"),
        (b'{"schema_version": 1, "adjacency": "sideways", "nodes": []}', "adjacency"),
        (b'{"schema_version": 1, "adjacency": "local", "nodes": [{"kind": "portal", "name": "x"}]}', "portal"),
        (
            b'{"schema_version": 1, "adjacency": "local", "nodes": [{"kind": "source", "name": "x", "size": NaN}]}',
            "NaN",
        ),
        (b'{"schema_version": 1, "adjacency": "local", "nodes": [{"kind": "source", "name": "x", "size": 0}]}', "size"),
        (b'{"schema_version": 1, "adjacency": "local", "nodes": {}, "extra": 1}', "extra"),
        (b"[" * 100_000, "graph"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_bad_graphs_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "bad.json").write_bytes(content)

    assert_refused(run("account", str(tmp_path / "bad.json"), "--delta", "0"), said)


@pytest.mark.parametrize("delta", ["nan", "inf", "-1", "2", "abc", "", "1.0000001"])
def test_bad_deltas_are_refused(graph: Path, delta: str) -> None:
    assert_refused(run("account", str(graph), "--delta", delta), "--delta", "expected a number")


def test_bad_paths_are_refused(graph: Path, tmp_path: Path) -> None:
    assert_refused(run("account", str(tmp_path), "--delta", "0"), "can't be read")
    assert_refused(run("account", "missing.json", "--delta", "0"), "there is no such file")
    assert_refused(run("account", str(graph), "--delta", "0", "--json", str(tmp_path)), "--json", "is a folder")
    missing = str(tmp_path / "no" / "x")
    assert_refused(run("account", str(graph), "--delta", "0", "--json", missing), "there is no folder")


@pytest.mark.statistical
def test_groups_threat_models_and_relations_are_reported(tmp_path: Path) -> None:
    built = AccountantGraph().source("people").release("mean", Gaussian(5.0), reads=["people"])
    built = built.release("count", Laplace(2.0), reads=["people"]).view("press", sees=["count"])
    file = tmp_path / "graph.json"
    file.write_text(built.to_json(), encoding="utf-8")

    def found(*args: str) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(run("account", str(file), "--delta", "1e-6", "--json", "-", *args).stdout)
        return plain

    for args, guarantee in (
        ((), built.guarantee()),
        (("--group", "3"), built.guarantee(group=3)),
        (("--view", "press"), built.guarantee(view="press")),
    ):
        plain = found(*args)
        assert plain["epsilon_upper"] == guarantee.epsilon(1e-6).upper
        assert plain["methods"][plain["method"]] == plain["epsilon_upper"]
        assert {at["delta"]: at["epsilon"] for at in plain["curve"]}[1e-6] == plain["epsilon_upper"]
        assert AccountantGraph.from_json(json.dumps(plain["graph"])) == built
        alarms, misses = zip(*plain["certified_curve"], strict=True)
        least = [1 - 1e-6 - math.exp(plain["epsilon_upper"]) * alarm for alarm in alarms]
        assert all(miss >= bound - 1e-9 for miss, bound in zip(misses, least, strict=True))
        assert list(misses) == sorted(misses, reverse=True) and (alarms[0], alarms[-1]) == (0.0, 1.0)
    assert set(found("--view", "press")["costs"]) == {"count"}
    assert_refused(run("account", str(file), "--delta", "0", "--view", "nobody"), "no view 'nobody'")


ABOUT = {
    "add-or-remove-one": "one record added or removed",
    "replace-one": "one replaced record",
    "replace-with-null": "one record replaced by null",
    "local": "another value of one input",
}


@pytest.mark.statistical
@pytest.mark.parametrize("relation", ABOUT)
def test_the_first_line_states_relation_unit_and_sampling(graph: Path, tmp_path: Path, relation: str) -> None:
    data = json.loads(graph.read_text(encoding="utf-8")) | {"adjacency": relation}
    graph.write_text(json.dumps(data), encoding="utf-8")
    files = [str(word) for kind in ("json", "html", "markdown") for word in (f"--{kind}", tmp_path / kind)]
    result = run("account", str(graph), "--delta", "1e-6", *files)

    line = f"{relation}: {ABOUT[relation]} moves mean by at most 1 in L2, count by at most 1 in L1; no sampling"
    assert result.exit_code == 0 and " ".join(result.stdout.split()).startswith(f"{line} ε ≤ ")
    plain = strict_json((tmp_path / "json").read_text(encoding="utf-8"))
    assert f"{plain['adjacency']}: {plain['unit']}; {plain['sampling']}" == line
    assert f'<p class="about">{line}</p>' in html.unescape((tmp_path / "html").read_text(encoding="utf-8"))
    assert (tmp_path / "markdown").read_text(encoding="utf-8").replace("\\", "").split("\n")[2] == line


def test_results_from_before_that_line_can_still_be_reported(graph: Path, tmp_path: Path) -> None:
    run("account", str(graph), "--delta", "1e-6", "--json", str(tmp_path / "new.json"))
    old = strict_json((tmp_path / "new.json").read_text(encoding="utf-8"))
    del old["unit"], old["sampling"]
    (tmp_path / "old.json").write_text(json.dumps(old), encoding="utf-8")

    shown = run("report", str(tmp_path / "old.json"))
    assert shown.exit_code == 0 and shown.stdout.startswith("ε ≤ ") and "moves mean" not in shown.stdout
