"""``hockeystick run regret``: plans, simulations and releases of the regret of published plays, and refusals."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import command_line
import numpy as np
import pytest
from command_line import assert_refused

from hockeystick.accounting import Adjacency, DurableLedger, RDPFilter
from hockeystick.learners.experts import RegretRelease
from hockeystick.mechanisms import SimulationNoise

TARGET = ["--epsilon", "1", "--delta", "1e-3"]
run, result_of = partial(command_line.run, "run", "regret"), partial(command_line.result_of, "run", "regret")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(1)
    losses = rng.integers(0, 2, (60, 4)).astype(np.float32)
    np.save(tmp_path / "L.npy", losses)
    np.save(tmp_path / "P.npy", rng.integers(0, 4, 60).astype(np.uint8))
    np.save(tmp_path / "M.npy", np.full((60, 4), 0.25))
    return ["--losses", str(tmp_path / "L.npy"), "--plays", str(tmp_path / "P.npy")]


def test_a_plan_tells_the_width_before_anything_is_read() -> None:
    found = result_of("--plan", "--rounds", "60", "--experts", "4", *TARGET, "--group", "2")
    release = RegretRelease.calibrated(rounds=60, experts=4, epsilon=1.0, delta=1e-3, group=2)
    assert found["parameters"]["sigma"] == release.sigma and found["error"] == 2 * release.error(0.95)
    assert found["epsilon"] == release.guarantee(group=2).epsilon(1e-3).upper <= 1.0 and found["regret_bands"] is None


@pytest.mark.parametrize("plays", ["P.npy", "M.npy"])
def test_a_simulation_is_that_of_the_library(plays: str, files: list[str], tmp_path: Path) -> None:
    words = [*files[:3], str(tmp_path / plays), *TARGET, "--quantiles", "0,0.5", "--confidence", "0.9", "--seed", "7"]
    found, losses = result_of(*words), np.load(tmp_path / "L.npy")
    release = RegretRelease.calibrated(rounds=60, experts=4, epsilon=1.0, delta=1e-3)
    asked: dict[str, Any] = {"quantiles": (0.0, 0.5), "confidence": 0.9}
    report = release.release(losses, np.load(tmp_path / plays), noise=SimulationNoise(7), **asked)
    assert [(one["rank"], one["lower"], one["upper"]) for one in found["regret_bands"]] == [
        (rank, band.lower, band.upper) for rank, band in zip((1, 2), report.regrets, strict=True)
    ]
    assert found["loss_band"] == {"lower": report.loss.lower, "upper": report.loss.upper}
    assert (found["mode"], found["seed"], found["confidence"]) == ("simulation", 7, 0.9)
    text = run(*words).stdout
    assert text.startswith("simulated") and "loss of the plays" in text and "quantile" in text


def test_a_release_is_charged(files: list[str], tmp_path: Path) -> None:
    budget = RDPFilter.for_target(1.5, 1e-3, adjacency=Adjacency.REPLACE_ONE)
    ledger = DurableLedger.create(tmp_path / "people.db", budget)
    words = [*files, *TARGET, "--release", "--ledger", str(tmp_path / "people.db")]
    found = result_of(*words)
    assert (found["mode"], found["seed"]) == ("release", None) and len(found["regret_bands"]) == 3
    assert [charge.note for charge in ledger.charges()] == ["hockeystick run regret"]
    assert_refused(run(*words), "is left")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--plan --rounds 60", "--experts"),
        ("--plan --rounds 60 --experts 4 --seed 1", "--seed"),
        ("--plan --rounds 60 --experts 4 --plays P.npy", "--plays"),
        ("--losses L.npy", "--plays"),
        ("--losses L.npy --plays P.npy --rounds 3", "needs --plan"),
        ("--losses L.npy --plays P.npy --ledger l.db", "--release"),
        ("--plan --rounds 60 --experts 4 --quantiles 0,2", "out of range"),
        ("--plan --rounds 60 --experts 4 --confidence 1", "--confidence"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: str, said: str) -> None:
    assert_refused(run(*shlex.split(words), *TARGET), said)


def test_plays_that_do_not_fit_are_refused(files: list[str], tmp_path: Path) -> None:
    for bad, said in (
        (np.full(60, 4), "plays"),
        (np.zeros(59, dtype=int), "plays"),
        (np.full((60, 4), 0.3), "plays"),
        (np.zeros(60, dtype=bool), "--plays"),
        (np.zeros((2, 3, 4)), "--plays"),
    ):
        np.save(tmp_path / "P.npy", bad)
        assert_refused(run(*files, *TARGET), said)
