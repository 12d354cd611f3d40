"""``hockeystick run experts``: the library's choice, runs and releases, and refusals."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import command_line
import numpy as np
import pytest
from command_line import assert_refused, strict_json

from hockeystick.accounting import Adjacency, DurableLedger, RDPFilter
from hockeystick.learners import choose

TARGET = ["--epsilon", "1", "--delta", "1e-3"]
run, result_of = partial(command_line.run, "run", "experts"), partial(command_line.result_of, "run", "experts")


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    np.save(tmp_path / "L.npy", np.random.default_rng(1).integers(0, 2, (60, 4)).astype(np.float32))
    return tmp_path / "L.npy"


@pytest.mark.parametrize("more", ["", "--adversary adaptive", "--adversary stochastic --group 2"])
def test_a_plan_reports_the_librarys_choice(more: str) -> None:
    words = shlex.split(f"--plan --rounds 60 --experts 4 {more}")
    found, options = result_of(*words, *TARGET), dict(zip(words[5::2], words[6::2], strict=True))
    adversary: Any = options.get("--adversary", "oblivious")
    group = int(options.get("--group", 1))
    choice = choose(rounds=60, experts=4, epsilon=1.0, delta=1e-3, adversary=adversary, group=group)
    assert found["chosen"] == choice.candidates[0].name and found["regret_bound"] == choice.bound
    assert [row["name"] for row in found["candidates"]] == [one.name for one in choice.candidates]
    assert found["epsilon"] == choice.learner.guarantee(group=group).epsilon(1e-3).upper <= 1.0
    assert found["parameters"]["rounds"] == 60 and (found["mode"], found["group"]) == ("plan", group)
    text = run(*words, *TARGET).stdout
    assert text.startswith("certified: ε ≤ ") and choice.candidates[1].name in text


def test_a_simulation_has_its_loss_and_its_experts(losses: Path, tmp_path: Path) -> None:
    args = ["--losses", str(losses), *TARGET, "--seed", "7"]
    done = run(*args, "--json", str(tmp_path / "out.json"), "--actions", str(tmp_path / "played.npy"))
    assert done.exit_code == 0 and "warning: simulated with seed 7" in done.stderr
    found = strict_json((tmp_path / "out.json").read_text(encoding="utf-8"))
    stream, actions = np.load(losses).astype(float), np.load(tmp_path / "played.npy")
    assert actions.shape == (60,) and found["loss"] == stream[np.arange(60), actions].sum()
    assert found["best_expert_loss"] == stream.sum(axis=0).min()
    assert found["regret"] == found["loss"] - found["best_expert_loss"]
    assert result_of(*args)["loss"] == found["loss"]


def test_a_release_is_charged_and_has_no_loss(losses: Path, tmp_path: Path) -> None:
    budget = RDPFilter.for_target(1.5, 1e-3, adjacency=Adjacency.REPLACE_ONE)
    ledger = DurableLedger.create(tmp_path / "people.db", budget)
    args = ["--losses", str(losses), *TARGET, "--release", "--ledger", str(tmp_path / "people.db")]
    found = result_of(*args, "--actions", str(tmp_path / "played.npy"))
    assert found["loss"] is found["regret"] is found["seed"] is None and found["simulated"] is False
    assert np.load(tmp_path / "played.npy").shape == (60,)
    assert [charge.note for charge in ledger.charges()] == ["hockeystick run experts"]
    assert_refused(run(*args), "is left")
    assert "were not saved" in run("--losses", str(losses), *TARGET, "--release").stderr


def test_losses_are_clipped_on_demand_alone(tmp_path: Path) -> None:
    stream = np.full((30, 2), 0.5)
    stream[3, 1] = 1.5
    np.save(tmp_path / "L.npy", stream)
    assert_refused(run("--losses", str(tmp_path / "L.npy"), *TARGET), "losses[3, 1]")
    assert result_of("--losses", str(tmp_path / "L.npy"), *TARGET, "--clip")["best_expert_loss"] == 15.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--plan --rounds 60", "--experts"),
        ("--plan --rounds 60 --experts 4 --seed 1", "--seed"),
        ("--rounds 60", "needs --plan"),
        ("", "one of --losses, --dataset and --plan"),
        ("--dataset wine --losses L.npy", "one of --losses, --dataset and --plan"),
        ("--dataset wine --release --seed 1", "--seed"),
        ("--dataset beer", "beer"),
        ("--plan --rounds 60 --experts 1", "--experts"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: str, said: str) -> None:
    assert_refused(run(*shlex.split(words), *TARGET), said)
