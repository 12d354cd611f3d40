"""Tests of drawings of graphs: no overlaps, valid SVG with a text description, and the tree in the terminal."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy import optimize

import hockeystick as hs
from hockeystick._report.parts.graph_tree import GraphTree
from hockeystick.accounting import AccountantGraph, Adjacency, Gaussian, InvalidArgumentError, Laplace, NonPrivate
from hockeystick.accounting.graph.drawing.mermaid import charged, costs
from hockeystick.accounting.graph.drawing.node_places import _heights, _isotonic, layout, text_width
from hockeystick.accounting.graph.drawing.svg import MOST_NODES, to_svg

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '"><script>alert(1)</script>&\x1b[31m'


def graph() -> AccountantGraph:
    return (
        AccountantGraph(adjacency=Adjacency.ADD_OR_REMOVE_ONE)
        .source("clinic")
        .source("survey", size=3)
        .public("weights")
        .transform("sum", reads=["clinic"], stability={("records", "l2"): 0.5})
        .release("mean", Gaussian(3.0), reads=["sum"])
        .release("histogram", Laplace(2.0), reads=["clinic"], count=3)
        .release("answers", Laplace(2.0), reads=["survey"])
        .post("report", reads=["mean", "histogram", "weights"])
        .view("press", sees=["report"])
    )


@st.composite
def joined(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    """Names of up to ten nodes, and which of them earlier ones are read by."""
    names = [f"n{i}" for i in range(draw(st.integers(0, 10)))]
    pairs = [pair for pair in itertools.combinations(names, 2) if draw(st.booleans())]
    return names, pairs


@pytest.mark.statistical
@given(joined())
def test_no_two_boxes_meet_and_lines_run_to_the_right(drawn: tuple[list[str], list[tuple[str, str]]]) -> None:
    names, pairs = drawn
    found = layout({name: ["kind", name, "x" * (7 * i % 30)] for i, name in enumerate(names)}, pairs)

    for one, other in itertools.combinations(found.boxes.values(), 2):
        apart = (
            one.x + one.width <= other.x
            or other.x + other.width <= one.x
            or one.y + one.height <= other.y
            or other.y + other.height <= one.y
        )
        assert apart
    for box in found.boxes.values():
        assert box.x >= 0 and box.y >= 0
        assert box.x + box.width <= found.width and box.y + box.height <= found.height + 1e-9
    assert set(found.lines) == set(pairs)
    for (a, b), points in found.lines.items():
        assert found.boxes[a].x < found.boxes[b].x
        assert [x for x, _ in points] == sorted(x for x, _ in points)
        for (x0, y0), (x1, y1) in zip(points[1:-1:2], points[2:-1:2], strict=True):  # straight through each column
            assert y0 == y1
            inside = [one for one in found.boxes.values() if x0 <= one.x + one.width / 2 <= x1]
            assert all(y0 <= one.y or y0 >= one.y + one.height for one in inside)


def test_a_line_that_crosses_columns_has_two_points_in_each() -> None:
    names = [f"n{i}" for i in range(4)]
    found = layout({name: [name] for name in names}, [*itertools.pairwise(names), ("n0", "n3")])
    assert len(found.lines["n0", "n1"]) == 2 and len(found.lines["n0", "n3"]) == 2 + 2 * 2


def test_a_column_of_unconnected_nodes_is_centred() -> None:
    sizes = {"a": (1.0, 30.0), "b": (1.0, 10.0), "c": (1.0, 50.0)}
    middle = _heights([["a", "b"], ["c"]], {"a": [], "b": [], "c": []}, sizes)
    assert middle["a"] - 15.0 == pytest.approx(-(middle["b"] + 5.0)) and middle["c"] == pytest.approx(0.0)


@given(st.lists(st.floats(-1e3, 1e3), max_size=12))
def test_isotonic_values_are_the_nearest_non_decreasing_ones(values: list[float]) -> None:
    nearest = optimize.isotonic_regression(values).x if values else np.zeros(0)
    np.testing.assert_allclose(_isotonic(values), nearest, atol=1e-9)


@pytest.mark.parametrize(("size", "written"), [(40, "a" * 40), (41, "a" * 39 + "…")])
def test_a_long_name_is_cut(size: int, written: str) -> None:
    root = ElementTree.fromstring(to_svg(AccountantGraph().source("a" * size)))
    assert written in [one.text for one in root.iter(f"{SVG}text")]


def test_wide_characters_take_twice_the_room() -> None:
    assert text_width("漢字") == text_width("kana") == 2 * text_width("ab")


def test_the_drawing_is_xml_and_has_a_text_description() -> None:
    root = ElementTree.fromstring(to_svg(graph(), delta=1e-6))

    assert root.tag == f"{SVG}svg" and root.attrib["role"] == "img"
    identifiers = {one.attrib["id"] for one in root.iter() if "id" in one.attrib}
    assert set(root.attrib["aria-labelledby"].split()) <= identifiers
    words = "".join(next(root.iter(f"{SVG}desc")).itertext())
    for node in graph().nodes:
        assert node.name in words
    assert "release histogram reads clinic, ε ≤ 1.5 alone." in words
    groups = [one for one in root.iter(f"{SVG}g")]
    assert len(groups) == len(graph().nodes)
    edges = graph().networkx().number_of_edges()
    paths = [one for one in root if one.tag == f"{SVG}path"]
    written = [one.text or "" for one in root.iter(f"{SVG}text")]
    assert all(node.name in written for node in graph().nodes)
    assert len(paths) == edges and sum("stroke-dasharray" in one.attrib for one in paths) == 3


def test_lines_of_a_box_are_inside_it_and_one_below_the_other() -> None:
    root = ElementTree.fromstring(to_svg(graph(), delta=1e-6))

    for group in root.iter(f"{SVG}g"):
        box = next(group.iter(f"{SVG}rect")).attrib
        left, top = float(box["x"]), float(box["y"])
        texts = [one.attrib for one in group.iter(f"{SVG}text")]
        heights = [float(one["y"]) for one in texts]
        assert heights == sorted(set(heights)) and top < heights[0] and heights[-1] < top + float(box["height"])
        assert all(float(one["x"]) == pytest.approx(left + float(box["width"]) / 2, abs=0.11) for one in texts)


def test_costs_are_rounded_up_and_the_bar_is_the_share() -> None:
    cheap, dear = 1.00001, 2.00001
    plain = (
        AccountantGraph().source("s").release("a", Laplace(1.0), reads=["s"]).release("b", Laplace(1.0), reads=["s"])
    )
    text = to_svg(plain, spent={"a": cheap, "b": dear})

    assert "ε = 1.001" in text and "ε = 2.001" in text
    root = ElementTree.fromstring(text)
    bars = [float(one.attrib["width"]) for one in root.iter(f"{SVG}rect") if one.attrib["height"] == "3"]
    assert bars[0] / bars[1] == pytest.approx(0.5, abs=0.01)
    assert "inf" in to_svg(plain, spent={"a": math.inf, "b": 0.0})


def test_draw_graph_returns_this_drawing() -> None:
    picture: Any = hs.draw_graph(graph(), delta=1e-6, view="press")
    assert picture == picture._repr_svg_() == to_svg(graph(), delta=1e-6, view="press") != hs.draw_graph(graph())
    with pytest.raises(InvalidArgumentError, match="delta"):
        hs.draw_graph(graph(), delta=-1.0)


def test_hostile_names_are_escaped() -> None:
    bad = AccountantGraph().source(HOSTILE).release("r", Laplace(1.0), reads=[HOSTILE])
    text = to_svg(bad)

    assert "<script" not in text and "\x1b" not in text
    assert ElementTree.fromstring(text) is not None


def test_empty_graphs_are_drawn_and_too_large_ones_refused() -> None:
    assert ElementTree.fromstring(to_svg(AccountantGraph())).tag == f"{SVG}svg"
    large = AccountantGraph()
    for i in range(MOST_NODES):
        large = large.source(str(i))
    assert ElementTree.fromstring(to_svg(large)).tag == f"{SVG}svg"
    large = large.source("one more")
    with pytest.raises(InvalidArgumentError, match="use to_mermaid"):
        to_svg(large)


def test_a_view_shows_the_cost_of_what_it_sees() -> None:
    assert charged(graph()) == ("mean", "histogram", "answers")
    assert charged(graph(), "press") == ("mean", "histogram")
    every, some = costs(graph(), 1e-6), costs(graph(), 1e-6, view="press")
    assert some == {name: every[name] for name in ("mean", "histogram")}


def shown(tree: GraphTree, *, encoding: str = "utf-8") -> str:
    from io import BytesIO, TextIOWrapper

    console = Console(file=TextIOWrapper(BytesIO(), encoding=encoding), width=120, color_system=None)
    with console.capture() as capture:
        console.print(tree)
    return capture.get()


def test_the_tree_has_every_node_once_under_what_it_reads() -> None:
    text = shown(GraphTree(graph(), {"mean": 0.7, "histogram": 1.4, "answers": math.inf}))

    for node in graph().nodes:
        assert sum(f"{type(node).__name__.lower()} {node.name}" in line for line in text.splitlines()) == 1
    lines = {line.split()[line.split().index("release") + 1]: line for line in text.splitlines() if "release " in line}
    assert lines["mean"].count("█") == 10 and lines["histogram"].count("█") == 20 == lines["answers"].count("█")
    assert "(also reads histogram, weights)" in text
    assert "█" not in shown(GraphTree(graph(), {"mean": 1.0}), encoding="ascii")
    assert "(no nodes)" in shown(GraphTree(AccountantGraph(), {}))
    assert "\x1b" not in shown(GraphTree(AccountantGraph().source(HOSTILE), {}))


def test_a_release_that_costs_everything_is_shown_so() -> None:
    leak = AccountantGraph().source("s").release("all", NonPrivate(), reads=["s"])
    assert "ε ≤ inf" in shown(GraphTree(leak, costs(leak, 1e-6)))
