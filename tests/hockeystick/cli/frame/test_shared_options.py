"""Tests of the shared parts of commands: a command made only of them, its options, refusals and exit status."""

from __future__ import annotations

import json
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import click
import command_line
import pytest

from hockeystick._cli.frame.destinations import ResultFiles, result_files
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.shared_options import (
    absent,
    mode_options,
    need,
    picked,
    refuse,
    refuse_seeded_release,
    refuse_with_plan,
    seed_of,
    target_options,
)
from hockeystick._cli.frame.streams import Progress
from hockeystick._cli.program import _Program

PLAN = {
    "mode": "plan",
    "learner": "lazy-experts",
    "epsilon": 1.0,
    "epsilon_lower": 0.9,
    "delta": 0.0,
    "method": "pure",
    "view": "white-box",
    "view_note": "all is seen",
    "adjacency": "replace-one",
    "assumptions": [],
    "epsilon_exact_pair": None,
    "epsilon_printed": None,
    "printed": {"reason": "nothing is printed"},
    "parameters": {"rounds": 3},
}
PLAYED = {
    "mode": "simulation",
    "data": "coins",
    "epsilon_target": 1.0,
    "expected_regret_bound": 2.0,
    "switches": 1,
    "loss": 1.0,
    "best_expert_loss": 0.0,
    "regret": 1.0,
}


@click.group(cls=_Program)
def program() -> None:
    """A program with one command."""


@program.command()
@target_options("The ε of a toy.")
@mode_options(seed="the toy")
@click.option("--crash", is_flag=True)
def toy(**given: Any) -> int:
    """A toy."""
    files = result_files(given)
    if given["plan"]:
        refuse_with_plan(given, "seed", "crash")
    with working() as progress:
        progress("playing")
        if given["crash"]:
            raise KeyboardInterrupt
        content = PLAN | picked(given, "epsilon", "delta")
        if not given["plan"]:
            content |= PLAYED | {"seed": seed_of(given)}
    conclude(given, content, files)
    return 0


run = partial(command_line.run, "toy", program=program)


def test_a_command_of_shared_parts(tmp_path: Path) -> None:
    planned = run("--epsilon", "0.5", "--plan")
    assert planned.exit_code == 0 and planned.stdout.startswith("certified: ε ≤ 0.5 at δ = 0")
    assert "simulated" not in planned.stderr
    played = run("--epsilon", "0.5", "--delta", "1e-3", "--seed", "7", "--json", str(tmp_path / "out.json"))
    assert played.stdout.startswith("simulated: ε ≤ 0.5 at δ = 0.001, for those who")
    assert played.stderr.splitlines()[-1].endswith(
        "simulated with seed 7: don't publish this run, for the seed gives away its noise"
    )
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["command"], found["epsilon"], found["seed"]) == ("run", 0.5, 7)
    assert json.loads(run("--epsilon", "1", "--json", "-").stdout)["seed"] == 0
    shown = " ".join(run("--help").stdout.split())
    assert "The ε of a toy." in shown and "The seed of the toy. Default: 0." in shown and "[default: 0.0]" in shown


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("", "--epsilon"),
        ("--epsilon 0", "above 0"),
        ("--epsilon nan", "nan"),
        ("--epsilon 1 --delta 1", "below 1"),
        ("--epsilon 1 --seed -1", "--seed"),
        ("--epsilon 1 --plan --seed 0", "--seed can't be combined with --plan, which runs nothing"),
        ("--epsilon 1 --plan --crash", "--crash can't be combined with --plan, which runs nothing"),
    ],
)
def test_bad_options_are_refused(args: str, said: str) -> None:
    result = run(*args.split())
    assert (result.exit_code, result.stdout) == (2, "") and said in result.stderr.splitlines()[-1]


def test_an_interrupted_command_leaves_its_files(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("old")
    result = run("--epsilon", "1", "--crash", "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 130 and "result files are unchanged" in result.stderr
    assert (tmp_path / "out.json").read_text() == "old"


def test_absent_and_given_options_are_listed() -> None:
    given: dict[str, Any] = {"a_b": None, "c": 0, "d": False, "seed": None, "release": True}
    assert absent(given, "a_b", "c", "d") == ["--a-b"] and picked(given, "c", "d") == {"c": 0, "d": False}
    assert seed_of(given) is None and seed_of(given | {"release": False}) == 0
    refuse(given, "is refused", "a_b", "d")
    refuse_seeded_release(given)
    for call, said in (
        (lambda: refuse(given, "is refused", "a_b", "c"), "--c is refused"),
        (lambda: need(given, "a plan", "c", "a_b", "seed"), "a plan needs --a-b, --seed"),
        (lambda: refuse_seeded_release(given | {"seed": 0}), "--release can't be combined with --seed"),
    ):
        with pytest.raises(click.UsageError, match=said):
            call()


def test_a_simulation_by_a_releasing_command_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    conclude({"release": False}, PLAN | PLAYED | {"seed": 1}, ResultFiles({}))
    assert "--release gives one that may be published" in capsys.readouterr().err


def test_every_form_of_a_result(tmp_path: Path) -> None:
    piped = run("--epsilon", "0.5", "--plan", "--markdown", "-", "--json", str(tmp_path / "out.json"))
    assert piped.stdout.startswith("## Lazy learner of experts: plan\n\n**certified: ε ≤ 0.5 at δ = 0**")
    assert "certified: ε ≤ 0.5 at δ = 0" in piped.stderr and (tmp_path / "out.json").exists()
    twice = run("--epsilon", "0.5", "--plan", "--markdown", "-", "--json", "-")
    assert (twice.exit_code, twice.stdout) == (2, "") and "which --json takes too" in twice.stderr
    same = run("--epsilon", "1", "--markdown", str(tmp_path / "x"), "--json", str(tmp_path / "y" / ".." / "x"))
    assert same.exit_code == 2
    page = run("--epsilon", "0.5", "--plan", "--html", "-")
    assert page.exit_code == 0 and page.stdout.startswith("<!doctype html>") and page.stdout.endswith("</html>\n")


def test_plain_progress_waits_for_the_given_interval() -> None:
    stream = StringIO()
    with Progress(stream, patience=60.0) as progress:
        progress("soon over", 0.5)
    assert stream.getvalue() == ""
