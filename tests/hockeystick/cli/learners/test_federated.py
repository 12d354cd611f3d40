"""Tests of ``hockeystick run fed-svt`` and ``fed-stoch``: plans, simulations and releases under each threat model, and
refusals."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import command_line
import numpy as np
import pytest
from command_line import assert_refused

from hockeystick.accounting import Adjacency, DurableLedger, PureFilter
from hockeystick.learners import FedSVT
from hockeystick.learners.federated.stochastic import release as stoch_release
from hockeystick.mechanisms import ReleaseNoise

SIZES = ["--clients", "4", "--rounds", "127", "--experts", "5"]

run, result_of = partial(command_line.run, "run"), partial(command_line.result_of, "run")


@pytest.mark.parametrize("learner", ["fed-svt", "fed-stoch"])
@pytest.mark.parametrize("model", ["output", "client", "central", "server"])
@pytest.mark.every(3)
def test_plans_are_certified_for_their_threat_model(learner: str, model: str) -> None:
    arguments = (learner, *SIZES, "--epsilon", "1", "--threat-model", model, "--plan")
    if (learner, model) == ("fed-svt", "server"):
        assert_refused(run(*arguments), "has no guarantee", "clients send exact sums")
        return
    found = result_of(*arguments)
    assert 0.9 < found["epsilon"] <= 1.0 and found["epsilon_lower"] <= found["epsilon"]
    assert (found["mode"], found["threat_model"], found["learner"]) == ("plan", model, learner)
    assert (found["epsilon_printed"] is None) == (learner == "fed-stoch") and "regret" not in found
    if learner == "fed-stoch":
        assert found["parameters"]["trees"] == 0 and "with trees" in found["printed"]["reason"]
        assert result_of(*arguments, "--trees", "1")["epsilon_printed"] is not None
    shown = run(*arguments)
    assert shown.exit_code == 0 and f"threat model {model}" in shown.stdout and "ε ≤" in shown.stdout


@pytest.mark.parametrize("adversary", ["zero-expert", "coins", "gap", "classes", "shared", "packing"])
@pytest.mark.parametrize("learner", ["fed-svt", "fed-stoch"])
def test_simulations_report_regret_and_communication(learner: str, adversary: str) -> None:
    found = result_of(learner, *SIZES, "--epsilon", "2", "--adversary", adversary, "--seed", "3")
    assert found["mode"] == "simulation" and found["seed"] == 3 and found["data"] == adversary
    assert -127 <= found["regret"] <= 127 and found["regret_per_round"] == found["regret"] / 127
    assert found["scalars_up"] == 5 * found["scalars_down"] or learner == "fed-svt"
    assert found["scalars_up"] > 0
    again = result_of(learner, *SIZES, "--epsilon", "2", "--adversary", adversary, "--seed", "3")
    assert again["regret"] == found["regret"]


def test_communication_of_fed_svt() -> None:
    """T/N blocks of m(d + 1) scalars, and one more announcement for a tail."""
    found = result_of("fed-svt", *SIZES, "--epsilon", "1", "--period", "10", "--adversary", "zero-expert")
    assert (found["scalars_up"], found["scalars_down"]) == (12 * 4 * 5, 13 * 4)
    lazy = result_of(
        "fed-svt", *SIZES, "--epsilon", "1", "--period", "10", "--adversary", "zero-expert", "--lazy-vectors"
    )
    assert lazy["regret"] == found["regret"] and lazy["scalars_up"] < found["scalars_up"]


@pytest.mark.parametrize("summed", [False, True])
def test_losses_of_a_file(summed: bool, tmp_path: Path) -> None:
    losses = np.random.default_rng(1).random((3, 64, 4)).astype(np.float32)
    np.save(tmp_path / "L.npy", losses.sum(axis=0) if summed else losses)
    file, clients = str(tmp_path / "L.npy"), ["--clients", "3"] if summed else []
    found = result_of("fed-svt", "--losses", file, "--epsilon", "1", "--delta", "1e-6", *clients, "--seed", "2")
    assert (found["clients"], found["rounds"], found["experts"]) == (3, 64, 4)
    learner = FedSVT.calibrated(clients=3, rounds=64, experts=4, epsilon=1.0, delta=1e-6)
    regret = learner.regret(learner.run(losses.astype(float), server_seed=2), losses.astype(float))
    assert found["regret"] == pytest.approx(float(regret[0]), abs=1e-4)
    if summed:
        assert_refused(run("fed-svt", "--losses", file, "--epsilon", "1"), "--clients")
        assert_refused(
            run("fed-stoch", "--losses", file, "--epsilon", "1", *clients),
            "summed over clients",
            "each client's losses",
        )
    else:
        assert_refused(run("fed-svt", "--losses", file, "--epsilon", "1", "--rounds", "9"), "--rounds", "64")


@pytest.mark.parametrize("learner", ["fed-svt", "fed-stoch"])
def test_groups_and_clients_are_protected(learner: str) -> None:
    """A client has T losses; fed-stoch never reads those of the last 64 rounds."""
    one = result_of(learner, *SIZES, "--epsilon", "1", "--plan")
    many = result_of(learner, *SIZES, "--epsilon", "1", "--plan", "--group", "3")
    assert (one["group"], many["group"]) == (1, 3) and 0.99 < many["epsilon"] <= 1.0
    assert one["client_losses"] == (127 if learner == "fed-svt" else 63)
    assert one["epsilon_client"] == pytest.approx(one["client_losses"] * one["epsilon"])
    assert many["epsilon_client"] == pytest.approx(one["epsilon_client"] / 3, rel=1e-3)
    assert many["epsilon_printed"] is None and "one loss" in many["printed"]["reason"]
    shown = run(learner, *SIZES, "--epsilon", "1", "--plan", "--group", "3").stdout
    assert "3 losses, of any clients and rounds" in shown and f"its {one['client_losses']} losses together" in shown
    assert_refused(run(learner, *SIZES, "--epsilon", "1", "--plan", "--group", "0"), "--group")


# --- releases --------------------------------------------------------------------------------------------------------


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    table = np.random.default_rng(1).random((3, 63, 4)).astype(np.float32)
    table[:, :, 2] *= 0.02
    np.save(tmp_path / "L.npy", table)
    return tmp_path / "L.npy"


def ledger_for(place: Path, epsilon: float) -> DurableLedger:
    return DurableLedger.create(place, PureFilter(epsilon, adjacency=Adjacency.REPLACE_ONE))


@pytest.mark.parametrize("learner", ["fed-svt", "fed-stoch"])
def test_a_release_is_charged_and_has_no_regret(learner: str, losses: Path, tmp_path: Path) -> None:
    ledger = ledger_for(tmp_path / "people.db", 3.0)
    args = [learner, "--losses", str(losses), "--epsilon", "2", "--release", "--ledger", str(tmp_path / "people.db")]
    found = result_of(*args, "--actions", str(tmp_path / "played.npy"))
    assert (found["mode"], found["simulated"]) == ("release", False) and found["epsilon"] <= 2.0
    assert found["regret"] is found["regret_per_round"] is found["seed"] is None and "guarantee" in found["withheld"]
    assert [charge.note for charge in ledger.charges()] == [f"hockeystick run {learner}"]
    played = np.load(tmp_path / "played.npy")
    if learner == "fed-svt":
        assert played.shape == (63,) and set(played) <= {0, 1, 2, 3} and found["switches_made"] >= 0
    else:
        assert played.shape == (6, 4) and played.sum(axis=1) == pytest.approx(1.0)
    assert found["scalars_up"] > 0
    again = run(*args)
    assert_refused(again, "is left")
    assert len(ledger.charges()) == 1
    shown = run(*args[:-2])
    assert shown.exit_code == 0 and "was not saved" in shown.stderr
    assert shown.stdout.startswith("released: ε ≤ ") and "not released" in shown.stdout and "seed" not in shown.stdout


def test_nothing_is_drawn_if_the_ledger_refuses_and_nothing_charged_for_bad_losses(
    losses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(self: object, *given: object) -> None:
        raise RuntimeError("drawn")

    for name in ("laplace", "gaussian", "uniform"):
        monkeypatch.setattr(ReleaseNoise, name, draw)
    monkeypatch.setattr(stoch_release, "secret_labels", draw)
    ledger = ledger_for(tmp_path / "small.db", 0.5)
    for learner in ("fed-svt", "fed-stoch"):
        args = [learner, "--losses", str(losses), "--epsilon", "2", "--release"]
        assert_refused(run(*args, "--ledger", str(tmp_path / "small.db")), "is left")
        assert "drawn" in run(*args).stderr  # the trap works
    bad = np.load(losses)
    bad[1, 5, 2] = 1.5
    np.save(tmp_path / "bad.npy", bad)
    rich = ledger_for(tmp_path / "rich.db", 30.0)
    for learner in ("fed-svt", "fed-stoch"):
        args = [learner, "--losses", str(tmp_path / "bad.npy"), "--epsilon", "2", "--release"]
        assert_refused(run(*args, "--ledger", str(tmp_path / "rich.db")), "losses")
    gumbel = run("fed-stoch", *args[1:], "--noise", "gumbel", "--ledger", str(tmp_path / "rich.db"))
    assert_refused(gumbel, "hides no message")
    np.save(tmp_path / "sums.npy", np.load(losses).sum(axis=0))
    summed = ("--losses", str(tmp_path / "sums.npy"), "--clients", "3", "--epsilon", "2", "--release")
    assert_refused(run("fed-svt", *summed, "--ledger", str(tmp_path / "rich.db")), "summed over clients")
    assert not ledger.charges() and not rich.charges()


def test_the_ledger_is_charged_for_the_threat_model(losses: Path, tmp_path: Path) -> None:
    """For messages, a mutant would charge the plays of the same noise, a half: d/2 = 2 times less."""
    ledger = ledger_for(tmp_path / "people.db", 30.0)
    args = ["fed-stoch", "--losses", str(losses), "--epsilon", "2", "--release", "--known-order"]
    result_of(*args, "--threat-model", "server", "--ledger", str(tmp_path / "people.db"))
    (charge,) = ledger.charges()
    assert charge.event.pure_epsilon() == pytest.approx(2.0)
    result_of(*args, "--threat-model", "output", "--ledger", str(tmp_path / "people.db"))
    assert ledger.charges()[1].event.pure_epsilon() == pytest.approx(2.0)


def test_bad_options_are_refused(tmp_path: Path) -> None:
    base = ("fed-stoch", *SIZES, "--epsilon", "1")
    assert_refused(run(*base), "--losses, --adversary and --plan")
    assert_refused(run(*base, "--plan", "--adversary", "gap"), "--adversary")
    assert_refused(run(*base, "--plan", "--release"), "--release")
    assert_refused(run(*base, "--adversary", "gap", "--release"), "--losses")
    assert_refused(run(*base, "--adversary", "gap", "--release", "--seed", "1"), "--seed")
    assert_refused(run(*base, "--adversary", "gap", "--ledger", "people.db"), "needs --release")
    assert_refused(run(*base, "--adversary", "nobody"), "nobody", "is unknown")
    assert_refused(run("fed-svt", "--rounds", "9", "--epsilon", "1", "--plan"), "--clients, --experts")
    assert_refused(run(*base, "--adversary", "gap", "--threat-model", "insider"), "threat-model")
    assert_refused(run(*base, "--plan", "--noise", "gaussian"), "delta")
    assert_refused(run(*base, "--plan", "--noise", "gumbel", "--threat-model", "server"), "server")
    assert_refused(run("fed-svt", "--epsilon", "1", "--losses", str(tmp_path / "none.npy")), "no such file")
    np.save(tmp_path / "L.npy", np.full((2, 8, 3), 1.5))
    assert_refused(run("fed-svt", "--epsilon", "1", "--losses", str(tmp_path / "L.npy")), "losses")


def test_server_noise_costs_more_of_the_clients() -> None:
    """The same ε against a server that sees messages takes noise of d/2 times the scale, for expert losses."""
    sizes = ("--clients", "4", "--rounds", "127", "--experts", "20", "--epsilon", "1", "--plan", "--known-order")
    scales = [
        result_of("fed-stoch", *sizes, "--threat-model", model)["parameters"]["last_scale"]
        for model in ("output", "server", "central")
    ]
    assert scales[1] == pytest.approx(10 * scales[0], rel=1e-6)
    assert scales[2] == pytest.approx(scales[0] / 4, rel=1e-6)
