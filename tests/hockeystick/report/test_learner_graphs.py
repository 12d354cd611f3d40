"""Tests that every learner's result has the graph that certifies its ε, and that its report draws it without
computing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import result_of

from hockeystick._report import results
from hockeystick._report.results import to_html, to_markdown, to_report
from hockeystick.accounting import AccountantGraph
from hockeystick.accounting.graph.drawing.mermaid import costs

FED = "--clients 4 --rounds 127 --experts 5 --epsilon 1 --plan"
KL = "kl --epsilon 2 --delta 1e-6 --plan"
PLANS = {
    "experts": "run experts --plan --rounds 40 --experts 4 --epsilon 1 --delta 1e-6",
    "regret": "run regret --plan --rounds 40 --experts 4 --epsilon 1 --delta 1e-6",
    "bandit": "run bandit --plan --rounds 400 --arms 3 --epsilon 1",
    "lazy-experts": "run lazy-experts --plan --rounds 40 --experts 4 --batch 2 --eta 0.05 --fake-switch 0.3 "
    "--delta 1e-3",
    "lazy-convex": "run lazy-convex --plan --rounds 1e3 --dimension 2 --batch 5 --inverse-temperature 1e-3 "
    "--regularisation 10 --radius 100 --fake-switch 0.2 --delta 1e-4",
    "fed-svt": f"run fed-svt {FED} --threat-model client",
    "fed-stoch": f"run fed-stoch {FED} --threat-model server",
    "online-distribution": "run online-distribution --models half-uniform --experts 4 --rounds 50 --epsilon 1 "
    "--delta 1e-6 --channel gaussian-all --answers 3 --plan",
    "smoothed-online": "run smoothed-online --sigma 0.1 --rounds 100 --delta 1e-5 --plan",
    "kl-trusted": f"{KL} --model trusted --method priest",
    "kl-histogram": "kl --epsilon 2 --plan",
    "kl-watch": "kl --epsilon 2 --plan --false-alarms 0.1 --windows 3",
    "kl-aggregated": f"{KL} --model aggregated --method priest",
    "kl-dist": f"{KL} --model dist --samples 10",
    "kl-monitor": f"{KL} --threshold 0.2 --windows 3",
    "kl-alarms": "kl --epsilon 2 --plan --threshold 0.2 --windows 3 --alarms 2 --method priest",
    "query-release": "release --plan --records 3000 --column age --low 0 --high 120 --sigma 0.25 --epsilon 2 "
    "--rounds 6 --vacuous",
    "marginals": "release --plan --records 3000 --marginals 1 --column age=0:90:30 --column sex=f,m --epsilon 1",
    "cell-counts": "release --plan --records 3000 --column age --low 0 --high 120 --epsilon 1",
    "group-by": "group-by --plan --by town --keys private --mean age=0:120 --epsilon 1 --delta 1e-6",
    "summary": "summary --plan --column age=0:120 --quantiles 0.5 --epsilon 1",
    "survey": "survey ask --categories red,blue --epsilon 1 --clients 100 --round ROUND",
    "histogram": "histogram --plan --column age=0:100:10 --epsilon 1",
}
SLOW = ("lazy-convex", "kl-dist")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kl") / "R.csv"
    path.write_text("symbol,probability\na,0.4\nb,0.3\nc,0.2\nd,0.1\n")
    return path


def plan(learner: str, reference: Path) -> dict[str, Any]:
    tables = ["--reference", reference, "--population", 40, "--records-each", 6] if learner.startswith("kl-") else []
    words = [reference.parent / "round.json" if word == "ROUND" else word for word in PLANS[learner].split()]
    return dict(result_of(*words, *tables))


def test_no_learner_is_left_out() -> None:
    """The owner's report on a release has no graph, because it is not a result on privacy."""
    every = {learner for reports in results._LEARNERS for learner in reports}
    assert every - {"query-release-private"} == set(PLANS)


@pytest.mark.parametrize(
    "learner", [pytest.param(one, marks=[pytest.mark.statistical] if one in SLOW else []) for one in PLANS]
)
@pytest.mark.every(2)
def test_the_graph_is_the_one_that_is_certified(learner: str, reference: Path) -> None:
    found = plan(learner, reference)

    graph = AccountantGraph.from_json(json.dumps(found["graph"]))
    views = [view.name for view in graph.views]
    view = found["view"] if views else None
    assert view in views or not views
    assert graph.guarantee(view=view).epsilon(found["delta"]).upper == found["epsilon"] > 0.0
    assert found["costs"] == costs(graph, found["delta"], view=view) and max(found["costs"].values()) > 0.0

    *_, drawn, nodes = to_report(found).sections
    assert (drawn.heading, nodes.heading, nodes.in_terminal) == ("Graph", "Nodes", False)
    (picture,), (table,) = drawn.pictures, nodes.tables
    assert picture.graph == graph and dict(picture.spent) == found["costs"]
    assert (f"(threat model {view})" in picture.title) == bool(views)
    assert [row[0] for row in table.rows] == [node.name for node in graph.nodes]
    assert {str(row[0]) for row in table.rows if row[-1] != "–"} == set(found["costs"])
    assert "```mermaid\n" in to_markdown(found)
    page = to_html(found)
    assert "<svg" in page and "Accountant graph" in page and "Nodes, in the order in which" in page


@pytest.mark.parametrize("learner", ["kl-trusted", "smoothed-online", "query-release", "online-distribution"])
def test_a_file_of_an_earlier_version_has_a_report_without_a_picture(learner: str, reference: Path) -> None:
    found = plan(learner, reference)
    del found["graph"], found["costs"]
    if learner == "smoothed-online":
        del found["epsilon"], found["delta"]
    assert not any(section.pictures for section in to_report(found).sections)


def test_costs_are_those_of_the_threat_model(reference: Path) -> None:
    """Against a server that sees messages, each message costs more than the plays."""
    output, server = (
        result_of(*f"run fed-stoch {FED} --noise laplace --known-order --threat-model {view}".split())
        for view in ("output", "server")
    )
    graph = AccountantGraph.from_json(json.dumps(output["graph"]))
    assert output["costs"] != costs(graph, output["delta"], view="server")
    assert output["graph"] != server["graph"]


def test_the_draws_have_the_cost_of_the_graph() -> None:
    """At another δ another ε; at 0 the sum of 99 draws of bounded range 2 eta."""
    words = ["run", "smoothed-online", "--sigma", "0.1", "--rounds", "100", "--plan", "--delta"]
    some, pure = result_of(*words, 1e-6), result_of(*words, 0)
    assert pure["epsilon"] == pytest.approx(99 * 2 * pure["learning_rate"], rel=1e-12)
    assert 0.0 < some["epsilon"] < pure["epsilon"] and some["delta"] == 1e-6
