"""Claims in words and in files are those of the constructors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hockeystick as hs
from hockeystick.audits import Claim, read_claim

WORDS = [
    ("gdp:1.5", Claim.gdp(1.5)),
    ("GDP:0.5", Claim.gdp(0.5)),
    ("zcdp:0.5", Claim.zcdp(0.5)),
    ("zcdp:0.5:0.1", Claim.zcdp(0.5, 0.1)),
    ("rdp:2:0.4", Claim.rdp(2.0, 0.4)),
    ("rdp:8:1.6,2:0.4", Claim.rdp([2.0, 8.0], [0.4, 1.6])),
]


@pytest.mark.parametrize(("text", "claim"), WORDS)
def test_words_are_the_constructors(text: str, claim: Claim) -> None:
    assert read_claim(text) == claim


def test_delta_is_where_epsilon_is_stated() -> None:
    assert read_claim("gdp:1", delta=1e-3) == Claim.gdp(1.0, 1e-3) != Claim.gdp(1.0)


def test_files_hold_guarantees_claims_and_points(tmp_path: Path) -> None:
    graph = hs.AccountantGraph(adjacency=hs.Adjacency.REPLACE_ONE).source("p")
    guarantee = graph.release("r", hs.events.Gaussian(2.0), reads=["p"]).guarantee()
    points: dict[str, Any] = {"epsilons": [0.5, 1.0], "deltas": [0.1, 0.0]}
    texts = [guarantee.to_json(), json.dumps(Claim.gdp(1.0).to_dict()), json.dumps(points)]
    for name, text in zip("gcp", texts, strict=True):
        (tmp_path / f"{name}.json").write_text(text)

    found = [read_claim(str(tmp_path / f"{name}.json"), delta=1e-4) for name in "gcp"]

    assert found == [Claim.curve(guarantee, 1e-4), Claim.gdp(1.0), Claim.profile([0.5, 1.0], [0.1, 0.0])]


BAD = [
    "",
    "gdp",
    "gdp:",
    "gdp:x",
    "gdp:1:2",
    "gdp:-1",
    "gdp:nan",
    "zcdp:1:2:3",
    "rdp:2",
    "rdp:0.5:1",
    "rdp:2:1,2:3",
    "dp:1",
]


@pytest.mark.parametrize("text", BAD)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(hs.InvalidArgumentError, match="claim="):
        read_claim(text)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"moves": []}', '{"also": []}', '{"epsilons": [2, 1], "deltas": [0, 0]}']
)
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(text)
    for file in "c.json", "none.json":
        with pytest.raises(hs.InvalidArgumentError, match="claim="):
            read_claim(str(tmp_path / file))
