"""Tests of ``hockeystick search``: domains of every kind, the verdict on fresh samples, resuming, and bad input.

False alarms: as in ``test_audit.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audit_commands import SURE, folder_of_targets, interrupt, last_line
from command_line import run, strict_json


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a module of targets."""
    with folder_of_targets(tmp_path, monkeypatch) as made:
        yield made


def search(target: str, domain: str, *args: str, adjacency: str = "add-or-remove-one") -> Any:
    fixed = ["search", target, "--domain", domain, "--adjacency", adjacency, "--epsilon", "1", "--samples", "3000"]
    return run(*fixed, "--search-samples", "2000", "--seed", "7", *SURE, *args)


@pytest.mark.statistical
def test_the_worst_pair_is_searched_and_audited_with_other_samples(folder: Path) -> None:
    found = search("mymech:leaky", "counts", "--json", "out.json", "--finalists", "2")

    assert found.exit_code == 1, found.output
    assert (
        found.stdout.startswith("refuted: ") and "The search rated" in found.stdout and "fresh outputs" in found.stdout
    )
    assert "hockeystick: searching neighbours for mymech:leaky" in found.stderr
    assert "hockeystick: auditing mymech:leaky on pair 2" in found.stderr
    written = strict_json((folder / "out.json").read_text())
    told = written["search"]
    assert (told["seed"], told["adjacency"], told["group"], told["domain"]) == (7, "add-or-remove-one", 1, "counts")
    assert told["samples"] <= 2000 and len(told["finalists"]) == 2 and told["pairs_searched"] >= len(told["pairs"]) > 3
    assert {written["d0"], written["d1"]} == {"0.0", "1.0"} and written["samples"] == 3000
    assert written["confidence"] == pytest.approx(1 - 0.5e-6, abs=1e-12)  # of each of two
    data = ["--d0", written["d0"], "--d1", written["d1"]]
    again = run(
        *("audit", "mymech:leaky", *data, "--epsilon", "1", "--samples", "3000", "--seed", written["seed"], *SURE)
    )
    assert again.exit_code == 1  # the pair is as --d0 and --d1 take it


@pytest.mark.parametrize(
    "domain",
    [
        "[0, 1]",
        '{"values": [0, 1], "most": 6}',
        '{"low": 0, "high": 1, "integral": true, "most": 6}',
        '{"answers": "histogram", "size": 2}',
        "mymech:a_domain",
        "mymech:some_pairs",
        "values.json",
    ],
)
def test_domains_of_every_kind(folder: Path, domain: str) -> None:
    (folder / "values.json").write_text("[0, 1, 1]")

    result = search("mymech:total", domain, "--json", "-")

    assert result.exit_code == 0, result.output
    assert strict_json(result.stdout)["refuted"] is False and "The search rated" in result.stderr


def test_an_interrupted_search_says_how_to_continue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.drawing import draws

    whole = search("mymech:leaky", "counts", "--json", "whole.json")
    with monkeypatch.context() as patch:
        patch.setattr(draws.Counter, "__call__", interrupt)  # in the audit: the search is over by then
        stopped = search("mymech:leaky", "counts", "--checkpoint", "kept.jsonl")
    assert stopped.exit_code == 130 and "the same command resumes from kept.jsonl" in last_line(stopped)
    assert (folder / "kept.jsonl").exists()

    result = search("mymech:leaky", "counts", "--checkpoint", "kept.jsonl", "--json", "part.json")
    assert result.exit_code == whole.exit_code == 1
    assert not list(folder.glob("kept*"))
    first, second = (strict_json((folder / name).read_text()) for name in ("whole.json", "part.json"))
    for content in (
        first,
        second,
        first["search"]["finalists"][0]["verdict"],
        second["search"]["finalists"][0]["verdict"],
    ):
        del content["seconds"]
    assert first == second


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        ("{", "neither JSON"),
        ("3", "describes no data sets"),
        ('{"low": 0}', "lacks 'high'"),
        ('{"low": 0, "high": 1, "size": 3}', "unknown entry 'size'"),
        ('{"answers": "sums", "low": 3, "high": 1}', "high leaves no room"),
        ('{"answers": "many"}', "kind is unknown"),
        ("nothing.json", "there is no such file"),
        ("mymech:nothing", "has no 'nothing'"),
        ("mymech:NUMBER", "is of type int, not a domain"),
        ("mymech:total", "not a domain"),
        ("nowhere:domain", "there is no module"),
    ],
)
def test_bad_domains_are_refused(domain: str, said: str) -> None:
    result = search("mymech:total", domain)

    assert result.exit_code == 2 and result.stdout == ""
    assert "--domain=" in last_line(result) and said in last_line(result)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Missing option '--domain'"),
        (["--domain", "counts"], "Missing option '--adjacency'"),
        (["--domain", "counts", "--adjacency", "any"], "--adjacency"),
        (["--domain", "counts", "--adjacency", "replace-one", "--d0", "1"], "No such option"),
        (["--domain", "counts", "--adjacency", "replace-one", "--group", "0"], "--group"),
        (["--domain", "counts", "--adjacency", "replace-one", "--search-samples", "3"], "--samples"),
        (["--domain", "counts", "--adjacency", "local"], "--adjacency"),
    ],
)
def test_bad_arguments_search_nothing(args: list[str], said: str) -> None:
    result = run("search", "mymech:leaky", "--epsilon", "1", *args)

    assert result.exit_code == 2 and result.stdout == "" and said in last_line(result)
