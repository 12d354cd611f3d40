"""Tests of ``hockeystick catalogue``: its list, verdicts and exit statuses, resuming, workers, and bad input.

False alarms: all correct cases together are refuted with probability at most 1e-6, as stated in each run.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from audit_commands import SURE, last_line
from command_line import assert_refused, run, strict_json

import hockeystick.audits


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def catalogue(*args: str) -> Any:
    return run("catalogue", "run", *args)


PAIR = ("zoo/laplace@1", "zoo/svt-5@1")  # a correct case, and one that a thousand samples refute


@pytest.mark.statistical
def test_the_catalogue_distinguishes_correct_from_broken_cases(folder: Path) -> None:
    result = catalogue(*PAIR, "--samples", "2000", "--seed", "7", "--json", "out.json", *SURE)

    assert result.exit_code == 0, result.output
    assert "2 of 2 cases: 2 as expected, 0 broken but not refuted, 0 correct but refuted" in result.stdout
    assert "at most 1e-06" in result.stdout and "seed 7" in result.stdout
    for word in ("zoo/laplace@1", "not refuted", "inf", "consistent"):
        assert word in result.stdout
    written = strict_json((folder / "out.json").read_text())
    assert written["complete"] is True and written["cases"] == list(PAIR) and written["unexpected"] == []
    assert written["confidence_per_case"] == pytest.approx(1 - 0.5e-6, abs=1e-12)
    assert [row["verdict"]["refuted"] for row in written["results"]] == [False, True]
    assert written["results"][1]["truth"] == "inf" and written["seed"] == 7


def test_the_catalogue_shows_unexpected_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.catalogue.parts import cases

    monkeypatch.setattr(cases.Case, "target", property(lambda case: lambda data, rng, runs: rng.random(runs)))

    result = catalogue("zoo/svt-5@1", "--seed", "7")
    few = catalogue("zoo/svt-5@1", "--seed", "7", "--samples", "100")

    assert result.exit_code == 1 and "1 broken but not refuted" in result.stdout
    assert "unexpected: zoo/svt-5@1: " in result.stdout
    assert few.exit_code == 0 and "1 broken but not refuted with fewer samples" in " ".join(few.stdout.split())


def test_the_catalogue_is_listed() -> None:
    result = run("catalogue", "list", "zoo/svt-*@1", "mechanism/laplace[half the scale]")

    assert result.exit_code == 0 and result.stderr == ""
    assert "zoo/svt-6@1" in result.stdout and "Lyu, Su & Li 2017" in result.stdout
    assert "mechanism/laplace[half the scale]" in result.stdout and "zoo/svt-6@0.1" not in result.stdout


def test_a_pattern_without_a_case_is_a_usage_error() -> None:
    assert_refused(run("catalogue", "list", "zoo/none-such"), "matches no case", "hockeystick catalogue list")


@pytest.mark.statistical
def test_ctrl_c_keeps_finished_cases_and_resume_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.catalogue.parts import cases

    audited, args = hockeystick.audits.audit, (*PAIR, "zoo/noisy-sum@1", "--samples", "500", "--seed", "7", *SURE)
    whole = catalogue(*args, "--json", "whole.json")
    assert whole.exit_code == 0
    calls: list[str] = []

    def interrupted(*given: Any, **more: Any) -> Any:
        calls.append("")
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return audited(*given, **more)

    monkeypatch.setattr(cases, "audit", interrupted)
    stopped = catalogue(*args, "--json", "part.json")
    left = strict_json((folder / "part.json").read_text())
    assert stopped.exit_code == 130 and "after 1 of 3 cases" in last_line(stopped)
    assert "--resume" in last_line(stopped) and "1 of 3 cases: 1 as expected" in stopped.stdout
    assert left["complete"] is False and [row["name"] for row in left["results"]] == ["zoo/laplace@1"]

    monkeypatch.undo()
    monkeypatch.chdir(folder)
    resumed = catalogue("--resume", "part.json")
    assert resumed.exit_code == 0, resumed.output
    first, second = (strict_json((folder / name).read_text()) for name in ("whole.json", "part.json"))
    for content in (first, second):
        for row in content["results"]:
            del row["seconds"], row["verdict"]["seconds"]
    assert first == second


def comparable(file: Path) -> dict[str, Any]:
    content = dict(strict_json(file.read_text()))
    for row in content["results"]:
        del row["seconds"], row["verdict"]["seconds"]
    return content


HANDS = ("--workers", "3", "--backend", "threading")


@pytest.mark.statistical
def test_the_catalogue_on_workers_gives_the_same_results(folder: Path) -> None:
    args = (*PAIR, "zoo/noisy-sum@1", "--samples", "300", "--seed", "7", *SURE)
    here, there = catalogue(*args, "--json", "here.json"), catalogue(*args, *HANDS, "--json", "there.json")

    assert here.exit_code == there.exit_code == 0, there.output
    assert comparable(folder / "here.json") == comparable(folder / "there.json")
    assert "hockeystick: audited 3 of 3 cases" in there.stderr


@pytest.mark.statistical
def test_ctrl_c_with_workers_keeps_finished_cases_and_resume_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hockeystick.audits.drawing import workers

    args = (*PAIR, "zoo/noisy-sum@1", "--samples", "300", "--seed", "7", *SURE)
    catalogue(*args, "--json", "whole.json")
    survivors = workers.Crew.survivors

    def interrupted(crew: Any, function: Any, jobs: Any) -> Any:
        yield next(iter(survivors(crew, function, jobs)))
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(workers.Crew, "survivors", interrupted)
        stopped = catalogue(*args, *HANDS, "--json", "part.json")
    assert stopped.exit_code == 130 and "after 1 of 3 cases; --resume" in last_line(stopped)
    resumed = catalogue("--resume", "part.json", *HANDS)
    assert resumed.exit_code == 0, resumed.output
    assert comparable(folder / "part.json") == comparable(folder / "whole.json")


@pytest.mark.statistical
def test_a_lost_case_is_named_and_the_others_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.drawing import workers

    survivors = workers.Crew.survivors

    def dying(crew: Any, function: Any, jobs: Any) -> Any:
        for number, result in survivors(crew, function, jobs):
            yield number, workers.Lost("killed") if number == 1 else result

    with monkeypatch.context() as patch:
        patch.setattr(workers.Crew, "survivors", dying)
        result = catalogue(*PAIR, "--samples", "300", "--seed", "7", *HANDS, "--json", "part.json")
    assert result.exit_code == 2
    for said in ("repeatedly on zoo/svt-5@1", "without workers", "--resume", "part.json continues"):
        assert said in last_line(result)
    assert "1 of 2 cases" in result.stdout
    content = strict_json((folder / "part.json").read_text())
    assert content["complete"] is False and [row["name"] for row in content["results"]] == ["zoo/laplace@1"]


def test_ctrl_c_without_a_file_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.catalogue.parts import cases

    def interrupted(*_: Any, **__: Any) -> Any:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(cases, "audit", interrupted)
    result = catalogue(*PAIR)
    assert result.exit_code == 130 and "nothing was saved" in last_line(result)


def test_catalogue_json_on_the_standard_output_is_alone_there() -> None:
    result = catalogue("zoo/laplace@1", "--samples", "100", "--seed", "1", "--json", "-")

    assert result.exit_code == 0 and strict_json(result.stdout)["complete"] is True
    assert "1 of 1 cases" in result.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nothing"], "matches no case"),
        (["zoo/laplace@1", "--samples", "3"], "--samples=3"),
        (["zoo/laplace@1", "--seconds", "0"], "--seconds"),
        (["--checkpoint", "x"], "No such option"),
        (["zoo/laplace@1", "--workers", "0"], "--workers=0"),
        (["zoo/laplace@1", "--address", "tcp://x"], "--address="),
        (["--epsilon", "1"], "No such option"),
        (["--html", "x.html", "--markdown", "x.html"], "is the file of another result too"),
        (["--resume", "missing.json"], "there is no such file"),
        (["--resume", "words.json"], "is not a run"),
        (["--resume", "other.json"], "is not a run"),
        (["--resume", "gone.json"], "is not in this catalogue"),
        (["zoo/*", "--resume", "gone.json"], "can't be combined with --resume"),
        (["--seed", "1", "--resume", "gone.json"], "can't be combined with --resume"),
        (["--json", "no/folder/x.json"], "there is no folder"),
    ],
)
def test_bad_arguments_are_refused_before_any_audit(folder: Path, args: list[str], said: str) -> None:
    (folder / "words.json").write_text("words")
    (folder / "other.json").write_text('{"command": "audit", "schema_version": 1}')
    plan: dict[str, Any] = {
        "samples": None,
        "seconds": None,
        "confidence": 0.9,
        "seed": 1,
        "results": [],
        "versions": {},
    }
    gone = {"command": "audit --catalogue", "schema_version": 1, "cases": ["zoo/unicorn"], **plan}
    (folder / "gone.json").write_text(json.dumps(gone))

    result = catalogue(*args)

    assert result.exit_code == 2 and result.stdout == ""
    assert said in last_line(result)
