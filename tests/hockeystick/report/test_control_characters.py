"""Control characters of a target's names, labels, outputs and errors reach no terminal, page or drawing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run

import hockeystick as hs
from hockeystick.accounting import AccountantGraph, Adjacency
from hockeystick.accounting.errors import visible
from hockeystick.audits import TargetError, Verdict, audit

EVIL = "\x1b[31mX\x1b]8;;http://e\x07l\x1b]8;;\x07\u202eevil\x00\n</script><b>\u2066\x9b31m\u200b\u2028"

TARGETS = f"""
E = {EVIL!r}
class Bad(Exception): pass
Bad.__name__ = E.replace("\\x00", "")
def text(d, rng): return E + str(d) if rng.random() < 0.9 else "b"
def label(d, rng): return {{E: d + rng.laplace(scale=0.1), E + "2": 0.0}}
def error(d, rng): raise ValueError(E)
def kind(d, rng): raise Bad("x")
def some(d, rng):
    if d: raise Bad("x")
    return 1.0
"""


def clean(text: str) -> bool:
    return all(c.isprintable() for c in text.replace("\n", ""))


@pytest.mark.parametrize("name", ["text", "label", "error", "kind", "some"])
@pytest.mark.parametrize("way", ["", "--sequential"])
def test_no_control_character_gets_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(TARGETS)
    words = f"audit evil.py:{name} --d0 0 --d1 1 --epsilon 1 --samples 100 --seed 1 --html h.html --markdown m.md {way}"
    words += " --exceptions-as-output" * (name == "some")
    found = run(*words.split(), "--json", "j.json")
    assert clean(found.stdout) and clean(found.stderr)
    assert found.exit_code == (2 if name in ("error", "kind") else 1)
    files = [] if found.exit_code == 2 else ["h.html", "m.md", "j.json"]
    for file in files:
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert clean(text)
        assert "</script><b>" not in text or file == "j.json"  # which is no page
    if files:
        assert json.loads((tmp_path / "j.json").read_text())["refuted"]


def test_verdicts_and_errors_in_python_have_none_either() -> None:
    names: dict[str, object] = {}
    exec(TARGETS, names)
    verdict = audit(names["label"], claim=(1.0, 0.0), neighbours=(0, 1), samples=100, rng=1)
    assert isinstance(verdict, Verdict) and clean(str(verdict)) and clean(verdict.summary())
    assert "\\x1b[31mX" in str(verdict)
    with pytest.raises(TargetError) as found:
        audit(names["error"], claim=(1.0, 0.0), neighbours=(0, 1), samples=100, rng=1)
    assert clean(str(found.value)) and "\n" not in str(found.value)


def test_drawings_of_graphs_have_none() -> None:
    graph = AccountantGraph(Adjacency.REPLACE_ONE).source(EVIL.replace("\n", " "))
    graph = graph.release("mean", hs.events.Laplace(1.0), reads=[EVIL.replace("\n", " ")])
    for drawn in (hs.draw_graph(graph), graph.to_mermaid() if hasattr(graph, "to_mermaid") else ""):
        assert clean(str(drawn)) and "</script>" not in str(drawn)


def test_visible_text_is_one_line_and_tells_what_was_there() -> None:
    assert visible("plain ε") == "plain ε"
    assert visible(EVIL).startswith("\\x1b[31mX\\x1b]8;;http://e\\x07l") and clean(visible(EVIL))
    assert visible("\udc80") == "\\udc80" and "\\u202e" in visible(EVIL) and "\n" not in visible(EVIL)
