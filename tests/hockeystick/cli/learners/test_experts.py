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


def test_an_unknown_horizon_takes_a_learner_that_may_go_on(losses: Path) -> None:
    plan = result_of("--plan", "--rounds", "60", "--experts", "4", "--horizon", "unknown", *TARGET)
    choice = choose(rounds=60, experts=4, epsilon=1.0, delta=1e-3, horizon="unknown")
    assert [row["name"] for row in plan["candidates"]] == [one.name for one in choice.candidates]
    assert "leader of noisy sums (growing tree)" in [one.name for one in choice.candidates]
    assert plan["regret_bound"] == choice.learner.regret_bound(60) == choice.bound
    found = result_of(
        "--losses", str(losses), *TARGET, "--horizon", "unknown", "--adversary", "adaptive", "--seed", "7"
    )
    assert found["horizon"] == "unknown" and found["parameters"]["policy"] == "adaptive hedge"


def test_restarts_run_where_they_have_the_least_bound(tmp_path: Path) -> None:
    stream = np.random.default_rng(1).random((200, 300))
    np.save(tmp_path / "L.npy", stream)
    args = ["--losses", str(tmp_path / "L.npy"), "--epsilon", "8", "--delta", "1e-3", "--horizon", "unknown"]
    found = result_of(*args, "--seed", "7", "--actions", str(tmp_path / "played.npy"))
    assert found["chosen"] == "dartboard, restarted"
    assert found["parameters"] == {"ratio": 4, "first": 64, "epochs": 3}
    assert found["loss"] == pytest.approx(stream[np.arange(200), np.load(tmp_path / "played.npy")].sum(), abs=1e-4)


def test_mixtures_are_written_by_learners_that_publish_them(losses: Path, tmp_path: Path) -> None:
    args = ["--losses", str(losses), *TARGET, "--seed", "7", "--mixtures", str(tmp_path / "mixed.npy")]
    found = result_of(*args, "--actions", str(tmp_path / "played.npy"))
    mixtures, actions = np.load(tmp_path / "mixed.npy"), np.load(tmp_path / "played.npy")
    assert mixtures.shape == (60, 4) and (mixtures[np.arange(60), actions] > 0).all()
    np.testing.assert_allclose(mixtures.sum(axis=1), 1.0)
    assert "noisy sums" in found["chosen"] and "dartboard" in found["refused"]
    assert found["regret_bands"] is None
    quantiles = result_of(*args[:-2], "--quantiles", "0,0.5")
    assert [band["rank"] for band in quantiles["regret_bands"]] == [1, 2] and quantiles["confidence"] == 0.95
    assert quantiles["regret_bands"][0]["lower"] <= quantiles["regret"] <= quantiles["regret_bands"][0]["upper"]
    text = run(*args[:-2], "--quantiles", "0,0.5").stdout
    assert "quantile" in text and "confidence 0.95" in text


def test_experts_that_sleep(losses: Path, tmp_path: Path) -> None:
    awake = np.random.default_rng(2).random((60, 4)) < 0.6
    awake[:, 0] = True
    np.save(tmp_path / "A.npy", awake)
    args = ["--losses", str(losses), *TARGET, "--awake", str(tmp_path / "A.npy")]
    found = result_of(*args, "--seed", "7", "--actions", str(tmp_path / "played.npy"))
    played, stream = np.load(tmp_path / "played.npy"), np.load(losses).astype(float)
    assert awake[np.arange(60), played].all() and found["best_expert_loss"] is None
    own = stream[np.arange(60), played]
    assert found["regret"] == max((own - stream[:, i])[awake[:, i]].sum() for i in range(4))
    assert len(found["regret_bands"]) == 4 and found["parameters"]["most_awake"] == awake.sum(axis=1).max()
    assert "expert" in run(*args).stdout
    released = result_of(*args, "--release", "--actions", str(tmp_path / "played.npy"))
    assert released["loss"] is released["regret"] is None and len(released["regret_bands"]) == 4
    assert_refused(run(*args, "--quantiles", "0"), "--awake can't be combined with --quantiles")
    np.save(tmp_path / "A.npy", awake[:50])
    assert_refused(run(*args), "--awake")
    np.save(tmp_path / "A.npy", awake.astype(int))
    assert_refused(run(*args), "bools")


@pytest.mark.parametrize("command", ["experts", "bandit", "lazy-experts"])
def test_bad_losses_are_told_before_a_learner_is_calibrated(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = np.full((30, 2), 0.5)
    stream[3, 1] = np.nan
    np.save(tmp_path / "L.npy", stream)
    for learner in ("LazyExperts", "NoisyBandit", "TreeExperts"):
        monkeypatch.setattr(f"hockeystick.learners.{learner}.calibrated", None)
    target = ["--epsilon", "1"] if command == "bandit" else TARGET
    assert_refused(command_line.run("run", command, "--losses", str(tmp_path / "L.npy"), *target), "losses[3, 1]")


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
        ("--plan --rounds 60 --experts 4 --quantiles 0", "--quantiles"),
        ("--dataset wine --quantiles 0,1.5", "out of range"),
        ("--dataset wine --quantiles 0,x", "not a number"),
        ("--dataset wine --quantiles 0 --horizon unknown", "fixed rate"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: str, said: str) -> None:
    assert_refused(run(*shlex.split(words), *TARGET), said)
