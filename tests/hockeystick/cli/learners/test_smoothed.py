"""Tests of ``hockeystick run smoothed-online``: regret against whole classes, bounds, adversaries, and refusals."""

from __future__ import annotations

import math
from typing import Any

import command_line
import numpy as np
import pytest

from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.measures import regret_bounds
from hockeystick.learners.smoothed.measures.base_measure import UniformCube
from hockeystick.learners.smoothed.online.smooth_adversaries import Blocks
from hockeystick.learners.smoothed.online.smoothed_online import SmoothedOnline


def run(options: str) -> Any:
    return command_line.run("run", "smoothed-online", *options.split())


def result_of(options: str) -> dict[str, Any]:
    return dict(command_line.result_of("run", "smoothed-online", *options.split()))


@pytest.mark.statistical
def test_a_game_is_the_librarys() -> None:
    found = result_of("--sigma 0.1 --rounds 120 --adversary block --runs 6 --seed 3")
    learner = SmoothedOnline(concepts=Thresholds(), measure=UniformCube(1), sigma=0.1, rounds=120)
    secret, nature = np.random.default_rng(3).spawn(2)
    known = learner.simulate(Blocks(UniformCube(1), 0.1), 6, secret=secret, nature=nature)
    assert found["per_run"] == known.regrets(Thresholds()).tolist()
    assert found["regret"] == pytest.approx(np.mean(found["per_run"]))
    assert found["regret_bound"] == learner.regret_bound() == found["bounds"]["brackets"]
    assert (found["cover_size"], found["bound_applies"], found["adaptive"]) == (learner.size, True, True)
    assert found["rho"] == pytest.approx(4.0 * math.log(learner.size))
    assert found["regret_floor"] == regret_bounds.thresholds_regret_floor(rounds=120, sigma=0.1)
    assert result_of("--sigma 0.1 --rounds 120 --adversary block --runs 6 --seed 3") == found


@pytest.mark.parametrize("adversary", ["random", "near-boundary", "binary-search", "block", "cell", "app-b"])
@pytest.mark.parametrize("concepts", ["thresholds", "intervals", "rectangles", "halfspaces"])
@pytest.mark.every(5)
def test_adversaries_play_against_all_classes_of_their_domain(concepts: str, adversary: str) -> None:
    options = f"--class {concepts} --sigma 0.5 --rounds 12 --runs 2 --gamma 0.9 --adversary {adversary}"
    if adversary == "app-b" and concepts in ("rectangles", "halfspaces"):
        assert run(options).exit_code == 2
        return
    found = result_of(options)
    assert found["regret"] <= found["errors"] and found["errors"] - found["least_errors"] == found["regret"]
    assert found["cover_size"] >= 2 and found["regret_bound"] > 0.0
    if adversary in ("near-boundary", "binary-search", "app-b"):
        assert found["least_errors"] == 0.0  # a member of the class labels all points, also off the cover
    if adversary == "app-b":
        assert set(found["shares_above_half"]) <= {0.0, 1.0}


def test_the_worst_case_errs_in_half_of_all_rounds_and_is_marked_as_outside_the_bound() -> None:
    """Labels go against the learner's majority at points that are still open: 1/2 a round at least, for 40 rounds."""
    worst, smooth = "--sigma 0.25 --rounds 40 --adversary-sigma 0", "--sigma 0.25 --rounds 40"
    found, words = result_of(worst), run(worst).stdout
    assert not found["bound_applies"] and "less smooth than the bound requires" in words
    assert found["least_errors"] == 0.0 and found["expected_regret"] >= 20.0
    other = result_of(smooth)
    assert other["bound_applies"] and other["expected_regret"] < 15.0 and other["regret"] <= other["regret_bound"]


def test_a_plan_has_bounds_and_plays_nothing() -> None:
    options = "--class rectangles --sigma 0.5 --rounds 100 --variant paper --plan"
    found, words = result_of(options), " ".join(run(options).stdout.split())
    assert found["mode"] == "plan" and "regret" not in found and "brackets" not in found["bounds"]
    assert found["regret_bound"] == pytest.approx(found["bounds"]["cover"])
    assert found["gamma"] > found["gamma_of_theory"] and "coarser than" in words and "the bound is above" in words


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--rounds 10", "--sigma"),
        ("--sigma 0.1", "--rounds"),
        ("--sigma 0 --rounds 10", "out of range"),
        ("--sigma nan --rounds 10", "out of range"),
        ("--sigma 0.1 --rounds 10 --plan --adversary block", "--adversary"),
        ("--sigma 0.1 --rounds 10 --plan --seed 0", "--seed"),
        ("--sigma 0.1 --rounds 10 --adversary block --adversary-sigma 0", "binary-search"),
        ("--sigma 0.9 --rounds 10 --adversary app-b", "1/2"),
        ("--class halfspaces --sigma 0.5 --rounds 10 --points 7", "measure"),
        ("--class circles --sigma 0.5 --rounds 10", "circles"),
    ],
)
def test_bad_options_are_refused(options: str, said: str) -> None:
    found = run(options)
    assert (found.exit_code, found.stdout) == (2, "") and said in found.stderr
