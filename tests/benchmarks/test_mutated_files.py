"""Tests that the benchmark of damaged files sees raw errors, hangs and lost numbers, and that readers have none."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks import mutated_files
from benchmarks.file_formats import FORMATS, Format, graph, graph_states, guarantee_states
from hockeystick.accounting import AccountantGraph, HockeystickError

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGPROF"), reason="needs a timer of CPU")


def test_mutations_differ_and_repeat_with_the_seed() -> None:
    content = graph().to_json().encode()
    found = [mutated_files.mutated(content, Random(seed)) for seed in range(300)]
    assert found == [mutated_files.mutated(content, Random(seed)) for seed in range(300)]
    assert len(set(found)) > 250 and max(map(len, found)) > 1000 + len(content) and min(map(len, found)) < 100


def spins(path: Path) -> Any:
    while path.stat().st_size != 9:
        pass


def raises(path: Path) -> Any:
    if path.read_bytes() != b"012345678":
        raise KeyError("raw")


def refuses(path: Path) -> Any:
    if path.read_bytes() != b"012345678":
        raise HockeystickError("typed")


@pytest.mark.parametrize(
    ("read", "below", "found"),
    [(raises, True, "raw"), (refuses, True, "refused"), (Path.read_bytes, False, "below"), (spins, True, "hangs")],
)
def test_whatever_is_wrong_is_counted(monkeypatch: pytest.MonkeyPatch, read: Any, below: bool, found: str) -> None:
    def compare(content: bytes, value: Any) -> bool:
        return below or content == b"012345678"

    monkeypatch.setitem(FORMATS, "planted", Format(".txt", lambda _: b"012345678", read, compare))
    monkeypatch.setattr(mutated_files, "SECONDS", 0.01)
    counts = mutated_files.cell("planted", 0, each=8)
    assert counts[found] > 2
    assert sum(counts[name] for name in ("accepted", "refused", "raw", "hangs")) == counts["tried"]


def test_the_other_reading_of_a_graph_notices_a_lower_bound() -> None:
    text = graph().to_json()
    plain = json.loads(text)
    assert graph_states(text.encode(), AccountantGraph.from_json(text)) is True
    plain["nodes"][1]["count"] = 4  # by 1/2 more than the graph that was read
    assert graph_states(json.dumps(plain).encode(), AccountantGraph.from_json(text)) is False
    guarantee = graph().guarantee()
    more = json.loads(guarantee.to_json())
    more["moves"][0]["charges"][0]["count"] += 1
    assert guarantee_states(guarantee.to_json().encode(), guarantee) is True
    assert guarantee_states(json.dumps(more).encode(), guarantee) is False


@pytest.mark.parametrize("name", FORMATS)
def test_readers_raise_typed_errors_only(name: str) -> None:
    if "parquet" in name:
        pytest.importorskip("pyarrow")
    counts = mutated_files.cell(name, 1000, each=20)
    assert counts["tried"] > 10 and not counts["raw"] + counts["hangs"] + counts["below"], counts["wrong"]
