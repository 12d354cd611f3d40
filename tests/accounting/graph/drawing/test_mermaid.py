"""Tests of graphs as Mermaid text, and of the schema of the files."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Literal

import attrs
import jsonschema
import pytest

import hockeystick
from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    Gaussian,
    GraphError,
    Guarantee,
    Laplace,
    NonPrivate,
    PureDP,
    Reach,
    compose,
    epsilon,
)
from hockeystick.accounting.graph import json_schema as schema
from hockeystick.accounting.graph.drawing.mermaid import costs, to_mermaid
from hockeystick.accounting.graph.json_schema import files, graph_schema, guarantee_schema

SCHEMAS = Path(hockeystick.__file__).parent / "schemas"


def graph() -> AccountantGraph:
    return (
        AccountantGraph(adjacency=Adjacency.ADD_OR_REMOVE_ONE, assumptions=["values lie in [0, 1]"])
        .source("clinic")
        .source("survey", size=3)
        .public("weights of the index")
        .transform("sum", reads=["clinic"], stability={("records", "l2"): 0.5})
        .release("mean", Gaussian(3.0), reads=["sum"])
        .release("histogram", Laplace(2.0), reads=["clinic"], count=3)
        .release('"answers"', Laplace(2.0), reads=["survey"], reach=Reach(0, 0))
        .post("report", reads=["mean", "histogram", '"answers"', "weights of the index"])
        .view("press", sees=["report"])
    )


# Text and costs -------------------------------------------------------------------------------------------------------


def test_a_release_costs_what_it_would_cost_alone():
    found = costs(graph(), 1e-6)
    assert found == {
        "mean": epsilon(Gaussian(6.0), 1e-6).upper,
        "histogram": epsilon(compose((Laplace(2.0), 3)), 1e-6).upper,
        '"answers"': epsilon(Laplace(2.0), 1e-6).upper,
    }


def test_a_release_is_charged_to_the_source_with_the_largest_cost():
    both = AccountantGraph().source("a").source("b")
    both = both.transform("twice", reads=["b"], stability={("records", "l1"): 2.0})
    both = both.release("r", Laplace(1.0), reads=["a", "twice"])
    assert costs(both, 0.0) == {"r": 2.0}


def test_releases_show_their_cost():
    text = to_mermaid(graph().release("leak", NonPrivate(), reads=["clinic"]), delta=0.0)
    assert "ε = 1.5" in text and "3 blocks" in text and "3 times" in text and "records → l2: ×0.5" in text
    assert "ε = inf" in text


def test_without_delta_nothing_is_evaluated():
    replace = AccountantGraph(adjacency=Adjacency.REPLACE_ONE).source("a").source("b")  # has no guarantee
    replace = replace.release("r", Laplace(1.0), reads=["a"])
    assert "ε" not in to_mermaid(replace)


def test_the_text_is_a_valid_mermaid_flowchart():
    small = AccountantGraph().source("a", 2).release('r "1"', PureDP(0.25), reads=["a"]).post("p", reads=['r "1"'])
    assert to_mermaid(small, delta=0.0) == (
        "flowchart LR\n"
        '  n0[("a<br/>2 blocks")]\n'
        '  n1(["r #34;1#34;<br/>PureDP(epsilon=0.25)<br/>ε = 0.25"])\n'
        '  n2>"p"]\n'
        "  n0 --> n1\n"
        "  n1 -.-> n2\n"
    )
    assert to_mermaid(graph()).count("\n") == 1 + len(graph().nodes) + graph().networkx().number_of_edges()


# Schema ---------------------------------------------------------------------------------------------------------------


def valid(schema, text):
    return jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))


@pytest.mark.statistical
def test_the_shipped_schema_is_that_of_the_code():
    assert {path.name: path.read_text(encoding="utf-8") for path in SCHEMAS.glob("*.schema.json")} == files()
    for described in (graph_schema(), guarantee_schema()):
        jsonschema.Draft202012Validator.check_schema(described)


def test_the_shipped_example_is_valid_and_loads():
    text = (SCHEMAS / "graph.example.json").read_text(encoding="utf-8")
    assert valid(graph_schema(), text)
    assert AccountantGraph.from_json(text) == graph()
    again = AccountantGraph.from_json(text).guarantee(view="press")
    assert math.isfinite(again.epsilon(1e-6).upper)


def test_written_files_satisfy_the_schema():
    assert valid(graph_schema(), graph().to_json())
    assert valid(guarantee_schema(), graph().guarantee(group=2, view="press").to_json())
    assert valid(graph_schema(), AccountantGraph().to_json())
    assert Guarantee.from_json(graph().guarantee().to_json()) == graph().guarantee()


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: data.update(schema_version=2),
        lambda data: data.update(colour="red"),
        lambda data: data["nodes"][0].update(colour="red"),
        lambda data: data["nodes"][0].update(kind="sink"),
        lambda data: data["nodes"][4]["event"].update(type="os.system"),
        lambda data: data["nodes"][4]["event"].update(sigma=1.0),
        lambda data: data["nodes"][4]["event"].pop("noise_multiplier"),
        lambda data: data["nodes"][5].update(count=0),
        lambda data: data["views"][0].pop("sees"),
    ],
)
def test_the_schema_refuses_files_that_loading_refuses(edit):
    data = json.loads(graph().to_json())
    edit(data)
    assert not valid(graph_schema(), json.dumps(data))
    with pytest.raises(ValueError):
        AccountantGraph.from_json(json.dumps(data))


def test_every_event_has_a_schema():
    events = {option["properties"]["type"]["const"]: option for option in graph_schema()["$defs"]["event"]["oneOf"]}
    from hockeystick.accounting.events.event_json import EVENTS

    assert events.keys() == EVENTS.keys()
    for name, cls in EVENTS.items():
        assert set(events[name]["properties"]) == {"type", *(field.name for field in attrs.fields(cls))}


def test_literal_types_have_a_schema_and_bytes_are_refused():
    assert schema._type(Literal["add", "remove"]) == {"enum": ["add", "remove"]}
    with pytest.raises(TypeError, match="no JSON form"):
        schema._type(bytes)


@pytest.mark.statistical
def test_the_schemas_are_written_by_running_the_module(tmp_path):
    subprocess.run([sys.executable, "-m", schema.__name__, str(tmp_path)], check=True)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == files()


def test_an_unknown_view_is_refused():
    assert "histogram" in costs(graph(), 1e-6, view="press")
    with pytest.raises(GraphError, match="no view 'nobody': choose one of 'press'"):
        costs(graph(), 1e-6, view="nobody")
