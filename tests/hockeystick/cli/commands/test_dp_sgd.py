"""Tests of ``hockeystick calibrate dp-sgd`` and ``hockeystick account dp-sgd``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from command_line import assert_refused, run, strict_json

from hockeystick._report.results import to_markdown
from hockeystick.accounting import DPSGD
from hockeystick.mechanisms.streams.buffered_filters import BufferedToeplitz

SMALL = ("--records", 100, "--batch", 10, "--epochs", 1, "--delta", "1e-5")


def result_of(*words: object) -> dict[str, Any]:
    found = run(*words, "--json", "-")
    assert found.exit_code == 0, found.output
    loaded: dict[str, Any] = strict_json(found.stdout)
    return loaded


@pytest.mark.statistical  # by its time
def test_the_first_line_states_epsilon_delta_noise_relation_and_sampling() -> None:
    words = ("--records", 6000, "--batch", 70, "--epochs", 1, "--epsilon", 2, "--delta", "1e-5", "--clip", 0.5)
    found = run("calibrate", "dp-sgd", *words)
    assert found.exit_code == 0, found.output
    value = DPSGD(6000, 70, 1, clip=0.5).calibrated(2.0, 1e-5).value
    first = " ".join(found.stdout.split("\n\n")[0].split())
    assert first == (f"ε ≤ 2 at δ = 1e-05 with noise multiplier {value!r} under add-or-remove-one; sampling: poisson")
    told = " ".join(found.stdout.split())
    assert "86 (epochs · records/batch = 85.714286, rounded up)" in told
    assert f"standard deviation {value / 2!r} on the sum of a batch" in told
    assert "the loader must each step draws each record independently" in told
    assert "not comparable" in told and "does not meet the target" in told


@pytest.mark.statistical  # by its time
def test_other_samplings_meet_the_same_target_with_the_noise_that_is_shown() -> None:
    result = result_of("calibrate", "dp-sgd", *SMALL, "--epsilon", 4)
    assert result["command"] == "calibrate dp-sgd" and result["epsilon_upper"] <= 4.0
    assert result["training"] == {
        "records": 100, "batch": 10, "epochs": 1.0, "steps": 10, "clip": None, "user_records": 1,
    }  # fmt: skip
    rows = {row["sampling"]: row for row in result["others"]}
    for other in DPSGD(100, 10, 1).others():
        row = rows.pop(other.sampling)
        assert row["adjacency"] == other.relation.value and row["steps"] == other.steps
        assert other.epsilon(row["noise_multiplier"], 1e-5).upper <= 4.0
    assert not rows and "# DP-SGD" in to_markdown(result)


@pytest.mark.statistical  # by its time
@pytest.mark.parametrize("noise", [("--noise-multiplier", 2), ("--noise", 1, "--clip", 0.5)])
def test_account_takes_the_noise_in_both_units(noise: tuple[object, ...]) -> None:
    result = result_of("account", "dp-sgd", *SMALL, *noise, "--user-records", 2)
    training = DPSGD(100, 10, 1, user_records=2)
    assert result["command"] == "account dp-sgd" and result["noise_multiplier"] == 2.0
    assert result["epsilon_upper"] == training.guarantee(2.0).epsilon(1e-5).upper and result["group"] == 2
    for other in training.others():
        (row,) = (row for row in result["others"] if row["sampling"] == other.sampling)
        assert row["epsilon"] == other.epsilon(2.0, 1e-5).upper
        assert row["known_epsilon"] == other.known_epsilon(2.0, 1e-5)


def test_the_report_on_shuffled_batches_has_what_they_are_known_to_need() -> None:
    words = ("account", "dp-sgd", *SMALL, "--noise-multiplier", 1, "--sampling", "shuffle")
    told = " ".join(run(*words).stdout.split())
    assert "sampling: shuffle" in told and "under replace-with-null" in told
    assert "known to need ε ≥ " in told and "method shuffle-no-amplification" in told


@pytest.mark.statistical  # by its time
def test_full_batches_need_no_batch_and_replace_one_doubles_their_noise() -> None:
    words = ("calibrate", "dp-sgd", "--records", 100, "--epochs", 5, "--epsilon", 1, "--delta", "1e-5")
    removed = result_of(*words, "--sampling", "full")["noise_multiplier"]
    replaced = result_of(*words, "--sampling", "full", "--clip", 1, "--adjacency", "replace-one")["noise_multiplier"]
    assert replaced == pytest.approx(2.0 * removed, rel=1e-5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--batch", 200), "batch=200: is larger than records=100; give at most the number of records"),
        (("--batch", 0), "--batch"),
        (("--epochs", 0), "--epochs"),
        (("--epochs", "nan"), "--epochs"),
        (("--delta", 0), "--delta"),
        (("--sampling", 0.1), "--sampling"),
        (("--user-records", 101), "user_records=101: is larger than records=100"),
        (("--sampling", "without-replacement"), "replace-one needs --clip"),
        (("--adjacency", "replace-one"), "Give --clip C; the noise multiplier is noise/C"),
        (("--sampling", "full"), 'sampling="full" reads all records in each step; give batch=records'),
        (
            ("--sampling", "without-replacement", "--clip", 1, "--adjacency", "add-or-remove-one"),
            "has no bound under add-or-remove-one: use replace-one",
        ),
    ],
)
@pytest.mark.parametrize("command", [("calibrate", "--epsilon", 1), ("account", "--noise-multiplier", 1)])
def test_bad_numbers_are_refused(command: tuple[object, ...], words: tuple[object, ...], said: str) -> None:
    name, *own = command
    assert_refused(run(name, "dp-sgd", *SMALL, *own, *words), said)


def test_missing_numbers_are_refused() -> None:
    words = ("--records", 100, "--epochs", 1, "--delta", "1e-5")
    assert_refused(run("calibrate", "dp-sgd", *words, "--epsilon", 1), "--sampling poisson needs --batch")
    assert_refused(run("account", "dp-sgd", *SMALL), "give one of --noise-multiplier M, and --noise S with --clip C")
    assert_refused(
        run("account", "dp-sgd", *SMALL, "--noise", 1), "--noise needs --clip", "give it as --noise-multiplier"
    )
    both = ("--noise", 1, "--clip", 1, "--noise-multiplier", 1)
    assert_refused(run("account", "dp-sgd", *SMALL, *both), "give one of --noise-multiplier M")


@pytest.mark.parametrize("words", ["calibrate --epsilon 1 dp-sgd", "account --delta 1e-5 dp-sgd"])
def test_the_word_comes_first(words: str) -> None:
    assert_refused(run(*words.split()), "dp-sgd has its own options: write it before them")


def test_both_helps_lead_to_the_training_and_describe_it() -> None:
    for name in ("calibrate", "account"):
        assert f'"hockeystick {name} dp-sgd --help"' in " ".join(run(name, "--help").stdout.split())
        assert f"hockeystick {name} dp-sgd [OPTIONS]" in run(name, "dp-sgd", "--help").stdout


@pytest.mark.statistical
def test_a_filter_of_buffers_comes_with_its_sensitivity_and_the_noise_to_add() -> None:
    plain = "--records 1000 --batch 100 --epochs 4 --delta 1e-6 --noise-multiplier 4 --clip 0.5 --sampling shuffle"
    assert_refused(run("account", "dp-sgd", *plain.split(), "--strategy", "bisr:2"), "give banded:K, or blt:D")
    result = result_of("account", "dp-sgd", *plain.split(), "--strategy", "blt:2")
    made = BufferedToeplitz(40, result["filter"]["decays"], result["filter"]["weights"])
    # Steps 0, 10, 20 and 30 are the worst, as coefficients do not increase.
    exact = float(np.linalg.norm(made.matrix()[:, ::10].sum(axis=1)))
    assert exact <= result["filter"]["sensitivity"] <= exact * (1 + 1e-10)
    assert 2.0 * exact <= result["standard_deviation"] <= 2.0 * exact * (1 + 1e-10)
    assert "4 participations, 10 steps apart" in " ".join(to_markdown(result).split())
