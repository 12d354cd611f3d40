"""``hockeystick replay``: its outcomes and exit statuses, its JSON, page and Markdown, and bad input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import assert_refused, run, strict_json

TARGETS = """
import numpy as np

def correct(data, rng):
    print("the target talks")
    return len(data) + rng.laplace()

def slipped(data, rng, runs):
    return np.clip(data, 0, 1.03).sum() + rng.laplace(size=runs)

def dear(data, rng):
    return bool(len(data) + rng.laplace(scale=0.5) > 2)

def coin(data, rng):
    return len(data) > 2 if rng.random() < 0.7 else len(data) <= 2

def raises(data, rng):
    raise RuntimeError(f"records {data}")

def no_mechanism(data, rng):
    return 1
"""
PAIR = ("--d0", "[1, 2, 3]", "--d1", "[1, 2]", "--epsilon", "1", "--seed", "1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "replayed.py").write_text(TARGETS)
    monkeypatch.chdir(tmp_path)
    yield tmp_path


@pytest.mark.parametrize(
    ("name", "status", "outcome"),
    [("correct", 0, "agrees"), ("slipped", 1, "violation"), ("dear", 2, "not certified"), ("coin", 2, "not covered")],
)
def test_each_outcome_has_its_status(name: str, status: int, outcome: str) -> None:
    found = run("replay", f"replayed.py:{name}", *PAIR)

    assert found.exit_code == status, found.output
    assert outcome in found.stdout and "error" not in found.stderr
    if status:
        assert "replayed.py:" in found.stdout


def test_the_json_has_the_verdict_and_the_page_can_be_made_of_it(folder: Path) -> None:
    files = ["--json", "r.json", "--markdown", "r.md", "--html", "r.html"]
    found = run("replay", "replayed:slipped", *PAIR, *files)
    again = run("report", "r.json", "--markdown", "again.md")

    plain = strict_json((folder / "r.json").read_text())
    assert found.exit_code == 1 and again.exit_code == 0
    assert plain["command"] == "replay" and plain["outcome"] == "violation" and plain["seed"] == 1
    assert plain["findings"][0]["where"] == "replayed.py:9"
    assert plain["mechanisms"][0]["largest"] == pytest.approx(1.03)
    assert plain["epsilon_path"] == pytest.approx(1.03) and plain["graph"]["nodes"]
    page = (folder / "r.md").read_text()
    assert page == (folder / "again.md").read_text() and "replayed.py:9: loss" in page and "1.03" in page
    assert "1.03" in (folder / "r.html").read_text()


def test_an_infinite_price_is_written_as_text(folder: Path) -> None:
    (folder / "gumbel.py").write_text("def seen(data, rng):\n    return len(data) + rng.gumbel()\n")
    found = run("replay", "gumbel:seen", *PAIR, "--json", "-")

    assert found.exit_code == 2
    assert strict_json(found.stdout)["epsilon_path"] == "inf" and strict_json(found.stdout)["graph"] is None


def test_a_seed_repeats_a_replay_and_paths_are_counted() -> None:
    one, other = (run("replay", "replayed:dear", *PAIR, "--paths", "3", "--json", "-") for _ in range(2))

    first, second = strict_json(one.stdout), strict_json(other.stdout)
    assert first["paths"] == 3
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_the_target_s_prints_and_warnings_go_to_the_other_stream() -> None:
    assert "the target talks" in run("replay", "replayed:correct", *PAIR).stderr
    assert "warning: the algorithm called no mechanism" in run("replay", "replayed:no_mechanism", *PAIR).stderr


def test_an_error_in_the_target_is_one_line_without_data() -> None:
    found = run("replay", "replayed:raises", *PAIR)

    assert_refused(found, "the algorithm raised RuntimeError on d0 at replayed.py:18")
    assert "records" not in found.stderr
    assert "records [1, 2, 3]" in run("replay", "replayed:raises", *PAIR, "--traceback").stderr


@pytest.mark.statistical
def test_a_run_that_takes_too_long_has_no_verdict(folder: Path) -> None:
    (folder / "slow.py").write_text("import time\n\n\ndef waits(data, rng):\n    time.sleep(1000)\n")

    assert_refused(run("replay", "slow:waits", *PAIR, "--timeout", "0.5"), "took longer than 0.5 s in one call")
    kept = run("replay", "replayed.py:slipped", *PAIR, "--timeout", "600")
    assert kept.exit_code == 1 and "replayed.py:9" in kept.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("replayed:correct", *PAIR, "--timeout", "0"), "--timeout"),
        (("replayed:correct", "--d0", "[1]", "--epsilon", "1"), "--d1"),
        (("replayed:correct", "--d0", "[1]", "--d1", "[]"), "--epsilon"),
        (("replayed:missing", *PAIR), "missing"),
        (("replayed:correct", *PAIR, "--paths", "0"), "--paths"),
        (("replayed:correct", *PAIR, "--delta", "2"), "--delta"),
    ],
)
def test_bad_input_is_refused(args: tuple[str, ...], said: str) -> None:
    assert_refused(run("replay", *args), said)
