"""Tests of the notebook representations: escaped, without extras, fast, and rounded in the safe direction."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hockeystick.accounting import AccountantGraph, Gaussian, Laplace, NumericalError, PoissonSampled, epsilon
from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.graph.drawing.mermaid import to_mermaid
from hockeystick.accounting.notebook_tables import markdown_table, markdown_text
from hockeystick.accounting.numerics import rounded_text
from hockeystick.audits import Claim, Verdict

HOSTILE = "<script>alert(1)</script> | `x` @somebody #12 https://evil.example [a](b) **b** www.evil.example"
MARKDOWN = MarkdownIt("gfm-like", {"linkify": False}).enable("table")


def graph(name: str = "people") -> AccountantGraph:
    plain = AccountantGraph(assumptions=[f"values of {name} lie in [0, 1]"]).source(name)
    return plain.release("mean", Gaussian(5.0), reads=[name]).release("count", Laplace(2.0), reads=[name])


def verdict(event: str = "output < 0.5") -> Verdict:
    return Verdict(
        outcome="refuted",
        epsilon_claimed=1.0,
        delta=0.0,
        epsilon_lower=1.73456789,
        confidence=0.999,
        samples=1000,
        timed=False,
        direction="d1->d0",
        event=event,
        count_p=250,
        count_q=30,
        trials=500,
        epsilon_tested=1.0,
        delta_tested=0.0,
        detectable_epsilon=1.01234567,
        float_leak=False,
        bits=False,
        seed=7,
        seconds=3.2,
        warnings=(event,),
    )


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", ["people", HOSTILE])
def test_html_is_well_formed_and_escaped(name: str) -> None:
    for value in (graph(name), graph(name).guarantee(), verdict(name)):
        text = value._repr_html_()
        assert {"script", "a", "img"} & Tags(text).seen == set()
        assert "&lt;script&gt;" in text or name != HOSTILE


def test_bounds_events_and_claims_are_tables() -> None:
    bound = epsilon(Gaussian(5.0), 1e-6, bracket=True)
    shown = bound._repr_html_()
    assert bound.lower is not None
    assert rounded_text.upper(bound.upper) in shown and f"[{rounded_text.lower(bound.lower)}, " in shown
    assert "computed" not in epsilon(Gaussian(5.0), 1e-6)._repr_html_()
    assert ">noise_multiplier<" in Gaussian(5.0)._repr_html_() and ">5.0<" in Gaussian(5.0)._repr_html_()
    assert "34 points" in Claim.gdp(1.0, delta=1e-5)._repr_html_() and "points" not in Claim(1.0)._repr_html_()
    for value in (bound, Gaussian(5.0), PoissonSampled(0.1, Gaussian(5.0)), Claim(1.0), Claim.gdp(1.0)):
        assert Tags(value._repr_html_()).seen == {"table", "caption", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize("name", ["people", HOSTILE])
def test_markdown_shows_texts_as_they_are(name: str) -> None:
    for value in (graph(name), graph(name).guarantee(), verdict(name)):
        page = MARKDOWN.render(value._repr_markdown_())
        page, drawings = re.subn("<pre><code class=.*?</code></pre>", "", page, flags=re.DOTALL)  # inert
        assert drawings == isinstance(value, AccountantGraph) != ("<table>" in page)
        for markup in ("<script", "<a ", "<code", "<em>"):
            assert markup not in page
        assert "@somebody" not in page and "#12" not in page and "://evil" not in page


@given(st.text())
def test_text_in_markdown_stays_one_paragraph(text: str) -> None:
    tokens = MARKDOWN.parse(markdown_text(text))
    expected = " ".join("".join(c for c in " ".join(text.split()) if c.isprintable()).split())

    assert [token.type for token in tokens] in ([], ["paragraph_open", "inline", "paragraph_close"])
    children = tokens[1].children or [] if tokens else []
    assert {child.type for child in children} <= {"text", "text_special", "html_inline"}
    assert {child.content for child in children if child.type == "html_inline"} <= {"<!-- -->"}
    words = "".join(child.content for child in children if child.type != "html_inline")
    assert " ".join(words.split()) == expected


@given(st.text())
def test_a_cell_stays_one_cell(text: str) -> None:
    tokens = MARKDOWN.parse(markdown_table(("a", "b"), [(text, "x")]))

    assert (
        sum(token.type == "td_open" for token in tokens) == 2 and sum(token.type == "tr_open" for token in tokens) == 2
    )


def test_a_guarantee_shows_upper_bounds_and_a_verdict_lower_ones() -> None:
    guarantee = graph().guarantee()
    shown = guarantee._repr_html_()

    for delta in (1e-9, 1e-6, 1e-5):
        found = guarantee.epsilon(delta).upper
        assert rounded_text.upper(found) in shown and float(rounded_text.upper(found)) >= found
        assert f">{guarantee.epsilon(delta).method}<" in shown
    assert ">none<" in shown  # at δ = 0
    assert "ε ≥ 1.7345" in verdict()._repr_html_() and "values of people lie" in shown
    assert (
        str(guarantee) == f"({rounded_text.upper(guarantee.epsilon(1e-6).upper, 4)}, 1e-06)-DP under add-or-remove-one"
    )


def test_a_cost_that_cannot_be_computed_does_not_break_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    guarantee = graph().guarantee()

    def fail(*_: object, **__: object) -> None:
        raise NumericalError("no")

    monkeypatch.setattr(best_bound, "epsilon", fail)
    assert guarantee._repr_html_().count("not computed") == 4


def test_a_graph_computes_nothing_and_is_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_bound, "epsilon", None)

    assert graph()._repr_html_() == graph()._repr_html_() != graph("others")._repr_html_()
    assert "<svg" in graph()._repr_html_() and to_mermaid(graph()) in graph()._repr_markdown_()
    large = AccountantGraph()
    for i in range(301):
        large = large.source(str(i))
    assert "<svg" not in large._repr_html_() and "301 nodes" in large._repr_html_()


@pytest.mark.statistical
def test_representations_need_no_extra() -> None:
    code = (
        "import sys\n"
        "for name in ('matplotlib', 'jinja2', 'rich', 'plotext', 'click'): sys.modules[name] = None\n"
        "import hockeystick as hs\n"
        "graph = hs.AccountantGraph().source('s').release('r', hs.events.Gaussian(2.0), reads=['s'])\n"
        "assert '<svg' in graph._repr_html_() and '<table>' in graph.guarantee()._repr_html_()\n"
        "assert 'flowchart' in graph._repr_markdown_() and '| --- |' in graph.guarantee()._repr_markdown_()"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
