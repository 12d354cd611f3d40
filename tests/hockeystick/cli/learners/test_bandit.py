"""``hockeystick run bandit``: plans, runs and releases of both bandits, and refusals."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import command_line
import numpy as np
import pytest
from command_line import assert_refused

from hockeystick.accounting import Adjacency, DurableLedger, RDPFilter
from hockeystick.learners import NoisyBandit, PrivateElimination, PrivateUCB

TARGET = ["--epsilon", "1"]
run, result_of = partial(command_line.run, "run", "bandit"), partial(command_line.result_of, "run", "bandit")


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    np.save(tmp_path / "L.npy", np.random.default_rng(1).integers(0, 2, (60, 4)).astype(np.float32))
    return tmp_path / "L.npy"


@pytest.mark.parametrize("group", [1, 2])
def test_a_plan_is_that_of_the_library(group: int) -> None:
    for method, kind in (("tsallis", NoisyBandit), ("elimination", PrivateElimination), ("ucb", PrivateUCB)):
        words = ["--plan", "--rounds", "1e5", "--arms", "5", "--method", method, "--group", group, *TARGET]
        found, learner = result_of(*words), kind.calibrated(rounds=10**5, arms=5, epsilon=1.0, group=group)
        assert found["regret_bound"] == learner.regret_bound() and found["bandit"] == method
        assert found["epsilon"] == learner.guarantee(group=group).epsilon(0.0).upper <= 1.0
        assert found["parameters"]["scale"] == group and (found["mode"], found["delta"]) == ("plan", 0.0)
        text = run(*words).stdout
        assert text.startswith("certified: ε ≤ 1") and ("700, 2,562, 9,716" in text) == (
            method == "elimination" and group == 1
        )


@pytest.mark.parametrize("method", ["tsallis", "elimination", "ucb"])
def test_a_simulation_has_its_loss_and_its_arms(method: str, losses: Path, tmp_path: Path) -> None:
    args = ["--losses", str(losses), *TARGET, "--seed", "7", "--method", method]
    found = result_of(*args, "--actions", str(tmp_path / "played.npy"))
    stream, arms = np.load(losses).astype(float), np.load(tmp_path / "played.npy")
    assert arms.shape == (60,) and found["loss"] == stream[np.arange(60), arms].sum()
    assert found["best_arm_loss"] == stream.sum(axis=0).min()
    assert found["regret"] == found["loss"] - found["best_arm_loss"]
    assert "best arm loss" in run(*args).stdout


def test_a_release_is_charged_and_has_no_loss(losses: Path, tmp_path: Path) -> None:
    budget = RDPFilter.for_target(1.5, 1e-3, adjacency=Adjacency.REPLACE_ONE)
    ledger = DurableLedger.create(tmp_path / "people.db", budget)
    args = ["--losses", str(losses), *TARGET, "--release", "--ledger", str(tmp_path / "people.db")]
    found = result_of(*args, "--actions", str(tmp_path / "played.npy"))
    assert found["loss"] is found["regret"] is found["seed"] is None and found["simulated"] is False
    assert np.load(tmp_path / "played.npy").shape == (60,)
    assert [charge.note for charge in ledger.charges()] == ["hockeystick run bandit"]
    assert_refused(run(*args), "is left")
    assert "were not saved" in run("--losses", str(losses), *TARGET, "--release").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--plan --rounds 60", "--arms"),
        ("--plan --rounds 60 --arms 4 --seed 1", "--seed"),
        ("--rounds 60", "needs --plan"),
        ("", "one of --losses and --plan"),
        ("--losses L.npy --release --seed 1", "--seed"),
        ("--plan --rounds 60 --arms 1", "--arms"),
        ("--plan --rounds 60 --arms 3 --method best", "--method"),
        ("--plan --rounds 60 --arms 3 --clip", "--clip"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: str, said: str) -> None:
    assert_refused(run(*shlex.split(words), *TARGET), said)
