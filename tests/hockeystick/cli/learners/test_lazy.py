"""Tests of ``hockeystick run``: plans, simulations and releases of the lazy learners, their JSON, and refusals."""

from __future__ import annotations

import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import command_line
import numpy as np
import pytest
from command_line import assert_refused, strict_json

from hockeystick._runs.bundled_data import DATA, classifier_errors, logistic_losses
from hockeystick.accounting import Adjacency, DurableLedger, RDPFilter
from hockeystick.learners import LazyConvex, LazyExperts
from hockeystick.learners.lazy import Ball, exact_loss, paper_epsilon
from hockeystick.learners.lazy.theory.actions_view import actions_epsilon
from hockeystick.learners.lazy.theory.printed_guarantee import paper_epsilon_convex

PLAN = shlex.split("--plan --rounds 200 --experts 4 --batch 2 --eta 0.05 --fake-switch 0.3 --delta 1e-3")
CONVEX_PLAN = shlex.split(
    "--plan --rounds 1e3 --dimension 2 --batch 5 --inverse-temperature 1e-3 --regularisation 10 --radius 100 "
    "--fake-switch 0.2 --delta 1e-4"
)
TARGET = ["--epsilon", "1", "--delta", "1e-3"]

run, result_of = partial(command_line.run, "run"), partial(command_line.result_of, "run")


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    np.save(tmp_path / "L.npy", np.random.default_rng(1).integers(0, 2, (60, 4)).astype(np.float32))
    return tmp_path / "L.npy"


# --- plans -----------------------------------------------------------------------------------------------------------


def test_a_plan_reports_the_librarys_numbers() -> None:
    learner = LazyExperts(
        rounds=200, experts=4, batch=2, learning_rate=0.05, fake_switch_probability=0.3, normaliser="paper"
    )
    bracket = learner.graph().guarantee().epsilon(1e-3, bracket=True)
    printed = paper_epsilon(rounds=200, batch=2, learning_rate=0.05, fake_switch_probability=0.3, delta=1e-3)
    exact = exact_loss(*(learner.chain(stream) for stream in learner.worst_case_neighbours())).epsilon(1e-3)

    found = result_of("lazy-experts", *PLAN)

    assert (found["epsilon"], found["epsilon_lower"], found["method"]) == (bracket.upper, bracket.lower, bracket.method)
    assert found["epsilon_printed"] == printed.epsilon and found["view"] == "white-box"
    assert [row["holds"] for row in found["printed"]["conditions"]] == [True, False, True, True, True]
    assert not found["printed"]["applies"]
    assert found["epsilon_exact_pair"] == exact[0] <= found["epsilon"] <= found["epsilon_printed"]
    assert (found["mode"], found["learner"], found["delta"], found["group"]) == ("plan", "lazy-experts", 1e-3, 1)
    assert found["parameters"]["log_normaliser"] == pytest.approx(0.2)
    assert found["parameters"]["shadow_probability"] == 0.3 and "loss" not in found


def test_the_plans_report() -> None:
    result = run("lazy-experts", *PLAN)

    assert (result.exit_code, result.stderr) == (0, "")
    words = " ".join(result.stdout.split())
    for text in ("certified: ε ≤ ", "bracket", "printed ε = ", "T p / B >= 1", "not all hold", "white-box", "bad pair"):
        assert text in words
    shown = float(words.split("certified: ε ≤ ")[1].split()[0])
    assert result_of("lazy-experts", *PLAN)["epsilon"] <= shown


@pytest.mark.parametrize(
    ("options", "learner"),
    [
        ("--normaliser tight", {"normaliser": "tight"}),
        ("--normaliser 0.4", {"normaliser": 0.4}),
        ("--normaliser 0", {"normaliser": 0.0}),
        ("--shadow-switch 0.6", {"normaliser": "paper", "shadow_probability": 0.6}),
        ("--variant frozen-shadow", {"normaliser": "paper", "shadow_probability": 0.0}),
        ("--variant dartboard", {"variant": "dartboard"}),
        ("--draw-budget 5", {"normaliser": "paper", "draw_budget": 5}),
    ],
)
@pytest.mark.every(3)
def test_options_of_a_plan(options: str, learner: dict[str, Any]) -> None:
    known = LazyExperts(rounds=200, experts=4, batch=2, learning_rate=0.05, fake_switch_probability=0.3, **learner)
    found = result_of("lazy-experts", *PLAN, *options.split())

    assert found["epsilon"] == known.graph().guarantee().epsilon(1e-3).upper
    own = "shadow_probability" in learner or learner.get("normaliser") != "paper"
    if found["epsilon_printed"] is None:
        assert "printed theorem" in found["printed"]["reason"]
    else:
        assert own and not found["printed"]["conditions"][-1 if "normaliser" in options else -2]["holds"]


@pytest.mark.statistical
def test_groups_people_and_views() -> None:
    learner = LazyExperts(
        rounds=200, experts=4, batch=2, learning_rate=0.05, fake_switch_probability=0.3, normaliser="paper"
    )
    graph = learner.graph()

    assert result_of("lazy-experts", *PLAN, "--group", "2")["epsilon"] == graph.guarantee(group=2).epsilon(1e-3).upper
    last = result_of("lazy-experts", *PLAN, "--user-batch", "90")
    assert last["epsilon"] == graph.epsilon_for("batches", 1e-3, member=90) and last["user_batch"] == 90
    assert last["epsilon"] == pytest.approx(learner.epsilon_for(178, 1e-3))
    assert result_of("lazy-experts", *PLAN, "--user-batch", "100")["epsilon"] == 0.0
    later = result_of("lazy-experts", *PLAN, "--user-batch", "90", "--view", "actions")
    assert later["epsilon"] == actions_epsilon(learner, 1e-3, round_=178).upper < last["epsilon"]
    full, actions = (result_of("lazy-experts", *PLAN, "--view", view) for view in ("white-box", "actions"))
    assert actions["epsilon"] == actions_epsilon(learner, 1e-3).upper < full["epsilon"]
    assert actions["view"] == "actions" and "shadow costs only" in actions["view_note"]
    assert actions["epsilon_exact_pair"] < full["epsilon_exact_pair"]
    for more in (["--group", "2"], ["--variant", "dartboard"]):
        same = [result_of("lazy-experts", *PLAN, *more, "--view", view)["epsilon"] for view in ("white-box", "actions")]
        assert same[0] == same[1]
    assert "no tighter epsilon" in result_of("lazy-experts", *PLAN, "--group", "2", "--view", "actions")["view_note"]
    assert result_of("lazy-experts", *PLAN, "--group", "2")["epsilon_printed"] is None


def test_a_plan_without_fake_switches_warns() -> None:
    result = run("lazy-experts", *PLAN, "--fake-switch", "0", "--variant", "dartboard", "--json", "-")

    assert result.exit_code == 0 and "no finite ε" in result.stderr
    assert strict_json(result.stdout)["epsilon"] == "inf"


@pytest.mark.statistical
def test_a_plan_for_convex_losses() -> None:
    weights: dict[str, Any] = {"inverse_temperature": 1e-3, "regularisation": 10.0, "lipschitz": 1.0}
    printed = paper_epsilon_convex(rounds=1000, batch=5, fake_switch_probability=0.2, delta=1e-4, **weights)
    eta = dict(printed.constants)["eta"]
    learner = LazyConvex(
        rounds=1000, domain=Ball(2, 100.0), batch=5, fake_switch_probability=0.2, normaliser=10 * eta, failure=5e-6,
        **weights,
    )  # fmt: skip
    found = result_of("lazy-convex", *CONVEX_PLAN)

    assert found["epsilon"] == learner.graph().guarantee().epsilon(1e-4).upper
    assert found["epsilon_printed"] == printed.epsilon and found["printed"]["constants"]["eta"] == eta
    assert found["printed"]["conditions"][-1]["holds"] and found["learner"] == "lazy-convex"
    actions = result_of("lazy-convex", *CONVEX_PLAN, "--view", "actions")
    assert actions["epsilon"] == found["epsilon"] and "no tighter epsilon" in actions["view_note"]
    others = ["--normaliser", "tight", "--adversary", "adaptive", "--failure", "1e-6", "--draw-budget", "9"]
    assert result_of("lazy-convex", *CONVEX_PLAN, *others)["parameters"]["draw_budget"] == 9
    assert "ε ≤" in run("lazy-convex", *CONVEX_PLAN, "--domain", "box", "--group", "2").stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--plan", "--delta", "1e-3"], "--plan needs --rounds, --experts, --batch, --eta, --fake-switch"),
        ([*PLAN, "--epsilon", "1"], "--epsilon can't be combined with --plan"),
        ([*PLAN, "--losses", "x.npy"], "--losses can't be combined with --plan"),
        ([*PLAN, "--seed", "0"], "--seed can't be combined with --plan"),
        ([*PLAN, "--release"], "--release can't be combined with --plan"),
        ([*PLAN, "--group", "2", "--user-batch", "1"], "can't be combined with a --group"),
        ([*PLAN, "--user-batch", "101"], "there are 100 batches"),
        ([*PLAN, "--user-batch", "0"], "--user-batch"),
        ([*PLAN, "--batch", "201"], "exceeds rounds"),
        ([*PLAN, "--normaliser", "loose"], "paper, tight or a finite number"),
        ([*PLAN, "--normaliser", "nan"], "paper, tight or a finite number"),
        ([*PLAN, "--variant", "dartboard", "--normaliser", "paper"], "can't be combined with --variant dartboard"),
        (
            [*PLAN, "--variant", "frozen-shadow", "--shadow-switch", "0.1"],
            "can't be combined with --variant frozen-shadow",
        ),
        ([*PLAN, "--fake-switch", "1"], "below 1"),
        ([*PLAN, "--eta", "0"], "above 0"),
        ([*PLAN, "--view", "none"], "--view"),
        ([*PLAN, "--delta", "0"], "above 0"),
        ([*PLAN, "--json", "no/such/folder.json"], "there is no folder"),
    ],
)
def test_plans_that_are_refused(args: list[str], said: str) -> None:
    assert_refused(run("lazy-experts", *args), said)


def test_a_convex_plan_without_fake_switches_has_no_printed_normaliser() -> None:
    assert_refused(run("lazy-convex", *CONVEX_PLAN, "--fake-switch", "0"), "--normaliser")
    assert_refused(run("lazy-convex", "--plan", "--delta", "0.1", "--rounds", "3"), "--dimension, --batch")


# --- simulated runs --------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_a_simulated_run(losses: Path, tmp_path: Path) -> None:
    args = ["lazy-experts", "--losses", str(losses), *TARGET, "--seed", "7"]
    result = run(*args, "--json", str(tmp_path / "out.json"), "--actions", str(tmp_path / "played.npy"))

    assert result.exit_code == 0 and result.stdout.startswith("simulated: ε ≤ ")
    assert "warning: simulated with seed 7" in result.stderr and "calibrating" in result.stderr
    found = strict_json((tmp_path / "out.json").read_text(encoding="utf-8"))
    stream, actions = np.load(losses).astype(float), np.load(tmp_path / "played.npy")
    assert found["simulated"] is True and (found["mode"], found["seed"], found["view"]) == (
        "simulation",
        7,
        "white-box",
    )
    assert found["epsilon_lower"] <= found["epsilon"] <= 1.0 == found["epsilon_target"]
    learner = LazyExperts.calibrated(rounds=60, experts=4, epsilon=1.0, delta=1e-3)
    assert found["parameters"]["learning_rate"] == learner.learning_rate
    assert found["expected_regret_bound"] == learner.regret_bound()
    assert actions.shape == (60,) and set(actions) <= set(range(4))
    assert found["loss"] == pytest.approx(stream[np.arange(60), actions].sum())
    assert found["best_expert_loss"] == pytest.approx(stream.sum(axis=0).min())
    assert found["regret"] == pytest.approx(found["loss"] - found["best_expert_loss"])
    played = actions[:: found["parameters"]["batch"]]
    assert np.count_nonzero(np.diff(played)) <= found["switches"] < found["parameters"]["batches"]
    again = result_of(*args)
    assert {key: again[key] for key in ("loss", "regret", "switches")} == {
        key: found[key] for key in ("loss", "regret", "switches")
    }


@pytest.mark.parametrize("dtype", ["float16", "float64", "uint8"])
def test_losses_of_any_number_type(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "L.npy", np.asfortranarray(np.ones((30, 2)), dtype=dtype))
    found = result_of("lazy-experts", "--losses", str(tmp_path / "L.npy"), *TARGET, "--variant", "dartboard")
    assert (found["loss"], found["regret"], found["seed"]) == (30.0, 0.0, 0)
    assert found["epsilon_printed"] is None and found["parameters"]["variant"] == "dartboard"


@pytest.mark.statistical
def test_losses_are_clipped_on_demand_alone(tmp_path: Path) -> None:
    stream = np.full((30, 2), 0.5)
    stream[3, 1] = 1.5
    np.save(tmp_path / "L.npy", stream)
    args = ["lazy-experts", "--losses", str(tmp_path / "L.npy"), *TARGET]
    assert_refused(run(*args), "[0, 1]")
    assert result_of(*args, "--clip")["best_expert_loss"] == pytest.approx(15.0)


@pytest.mark.parametrize("learner", ["lazy-experts", "lazy-convex"])
def test_bad_files_are_refused(tmp_path: Path, learner: str) -> None:
    def refused(content: Any, *said: str) -> None:
        path = tmp_path / "L.npy"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            np.save(path, content, allow_pickle=True)
        assert_refused(run(learner, "--losses", str(path), *TARGET), "--losses", *said)

    refused(np.zeros(3), "shape (3,)")
    refused(np.zeros((3, 2, 2)), "shape (3, 2, 2)")
    refused(np.zeros((0, 2)))
    refused(np.array([["a", "b"]]), "not a table of numbers")
    if learner == "lazy-convex":  # of experts they are losses of 1 and 0
        refused(np.array([[True, False]]), "not a table of numbers")
    refused(np.array([[1j, 0]]), "not a table of numbers")
    refused(np.array([[None, {}]], dtype=object), "Python objects, which are not loaded")
    refused(b"", "holds no array")
    refused(b"0.5,0.5\n", "holds no array")
    refused(b"PK\x03\x04 broken")
    assert_refused(run(learner, "--losses", str(tmp_path / "none.npy"), *TARGET), "there is no such file")
    assert_refused(run(learner, "--losses", str(tmp_path), *TARGET), "can't be read")
    np.savez(tmp_path / "L.npz", other=np.zeros((3, 2)))
    assert_refused(run(learner, "--losses", str(tmp_path / "L.npz"), *TARGET), "--losses")


@pytest.mark.statistical
def test_nan_losses_are_refused(tmp_path: Path) -> None:
    stream = np.zeros((30, 2))
    stream[1, 1] = np.nan
    np.save(tmp_path / "L.npy", stream)
    for learner, more in (("lazy-experts", []), ("lazy-experts", ["--clip"]), ("lazy-convex", [])):
        assert_refused(run(learner, "--losses", str(tmp_path / "L.npy"), *TARGET, *more))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (TARGET, "one of --losses, --dataset and --plan"),
        (["--losses", "a.npy", "--dataset", "wine", *TARGET], "one of --losses, --dataset and --plan"),
        (["--dataset", "wine", "--delta", "0.1"], "--epsilon"),
        (["--dataset", "wine", "--epsilon", "1"], "--delta"),
        (["--dataset", "iris", *TARGET], "breast_cancer, wine, digits"),
        (["--dataset", "wine", *TARGET, "--eta", "0.1"], "--eta needs --plan"),
        (["--dataset", "wine", *TARGET, "--group", "1"], "--group needs --plan"),
        (["--dataset", "wine", *TARGET, "--view", "actions"], "--view needs --plan"),
        (["--dataset", "wine", *TARGET, "--variant", "frozen-shadow"], "can't be calibrated"),
        (["--dataset", "wine", *TARGET, "--release", "--seed", "1"], "--release can't be combined with --seed"),
        (["--dataset", "wine", *TARGET, "--release", "--seed", "0"], "--release can't be combined with --seed"),
        (["--dataset", "wine", *TARGET, "--actions", "no/such/x.npy"], "there is no folder"),
        (["--dataset", "wine", *TARGET, "--actions", "x", "--json", "x"], "is the file of another result too"),
        (["--dataset", "wine", "--delta", "1e-3", "--epsilon", "inf"], "--epsilon"),
    ],
)
def test_runs_that_are_refused(args: list[str], said: str) -> None:
    assert_refused(run("lazy-experts", *args), said)


def test_interrupted_runs_leave_files_as_they_were(
    losses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(LazyExperts, "calibrated", interrupt)
    (tmp_path / "out.json").write_text("old")
    result = run("lazy-experts", "--losses", str(losses), *TARGET, "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 130 and "unchanged" in result.stderr
    assert (tmp_path / "out.json").read_text() == "old"


# --- convex losses ---------------------------------------------------------------------------------------------------


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips the search of a calibration: a learner with fixed parameters, of a certified epsilon below 1 at 1e-3."""

    def calibrated(**known: Any) -> LazyConvex:
        assert (known.pop("epsilon"), known.pop("delta")) == (1.0, 1e-3)
        return LazyConvex(
            batch=2, inverse_temperature=1e-3, regularisation=50.0, fake_switch_probability=0.3, failure=5e-5, **known
        )

    monkeypatch.setattr(LazyConvex, "calibrated", calibrated)


@pytest.mark.statistical
def test_a_simulated_run_on_gradients(tmp_path: Path, ready: None) -> None:
    gradients = np.random.default_rng(3).choice([-0.5, 0.5], (40, 2)).astype(np.float32)
    np.savez(tmp_path / "G.npz", gradients=gradients)
    args = ["lazy-convex", "--losses", str(tmp_path / "G.npz"), "--domain", "box", "--radius", "2", *TARGET]
    result = run(*args, "--json", "-", "--actions", str(tmp_path / "x.npy"))

    assert result.exit_code == 0 and "simulated with seed 0" in result.stderr
    found = strict_json(result.stdout)
    points = np.load(tmp_path / "x.npy")
    assert points.shape == (40, 2) and np.abs(points).max() <= 2.0
    assert found["loss"] == pytest.approx(float((points * gradients).sum()), rel=1e-6)
    assert found["best_point_loss"] == pytest.approx(-2.0 * np.abs(gradients.sum(axis=0)).sum(), rel=1e-6)
    assert found["regret"] == pytest.approx(found["loss"] - found["best_point_loss"])
    assert found["epsilon"] <= 1.0 and found["parameters"]["domain"] == "box" and len(found["best_point"]) == 2

    steep = [*args[:2], str(tmp_path / "S.npy"), *args[3:]]
    np.save(tmp_path / "S.npy", 10.0 * gradients)
    assert_refused(run(*steep), "lipschitz")
    assert result_of(*steep, "--clip")["epsilon"] == found["epsilon"]


@pytest.mark.statistical
def test_logistic_regression_on_real_people() -> None:
    found = result_of("lazy-convex", "--dataset", "wine", "--epsilon", "2", "--delta", "1e-3", "--seed", "1")
    assert found["data"] == "wine" and found["parameters"]["dimension"] == 13
    assert found["parameters"]["rounds"] == 142 and found["epsilon"] <= 2.0
    assert 0.0 < found["best_point_loss"] <= found["loss"] < 2 * 142 * np.log(2)


# --- releases --------------------------------------------------------------------------------------------------------


def test_a_release_reports_only_what_the_guarantee_covers(losses: Path, tmp_path: Path) -> None:
    actions = tmp_path / "played.npy"
    ledger = DurableLedger.create(tmp_path / "l.db", RDPFilter.for_target(3.0, 1e-5, adjacency=Adjacency.REPLACE_ONE))
    args = ["lazy-experts", "--losses", str(losses), *TARGET, "--release", "--ledger", str(tmp_path / "l.db")]
    result = run(*args, "--json", "-", "--actions", str(actions))
    assert [charge.note for charge in ledger.charges()] == ["hockeystick run lazy-experts"]

    assert result.exit_code == 0 and "warning" not in result.stderr and "released: ε ≤ " in result.stderr
    found = strict_json(result.stdout)
    assert found["simulated"] is False and found["mode"] == "release" and found["epsilon"] <= 1.0
    for key in ("loss", "best_expert", "best_expert_loss", "regret", "seed"):
        assert found[key] is None
    assert "does not cover" in found["withheld"]
    assert np.load(actions).shape == (60,)
    assert isinstance(found["switches"], int)


@pytest.mark.statistical
def test_a_release_that_is_kept_nowhere_warns(losses: Path) -> None:
    result = run("lazy-experts", "--losses", str(losses), *TARGET, "--release", "--variant", "dartboard")
    assert result.exit_code == 0 and "were not saved" in result.stderr


@pytest.mark.statistical
def test_a_release_of_points(tmp_path: Path, ready: None) -> None:
    np.save(tmp_path / "G.npy", np.zeros((20, 1)))
    args = ["lazy-convex", "--losses", str(tmp_path / "G.npy"), *TARGET, "--release", "--actions"]
    found = result_of(*args, str(tmp_path / "x.npy"))
    assert found["best_point"] is found["loss"] is found["best_point_loss"] is None
    assert np.load(tmp_path / "x.npy").shape == (20, 1)


# --- the rest --------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_the_data_sets() -> None:
    for name in DATA:
        errors = classifier_errors(name)
        assert errors.shape[1] == 8 and set(np.unique(errors)) == {0.0, 1.0}
    losses = logistic_losses("wine")
    assert np.linalg.norm(losses.features, axis=1).max() <= 1.0 + 1e-12
    assert losses.rounds == len(classifier_errors("wine")) == 142


def test_data_sets_need_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for learner in ("lazy-experts", "lazy-convex"):
        assert_refused(run(learner, "--dataset", "wine", *TARGET), "hockeystick[demo]")


def test_help_lists_the_options() -> None:
    for args in ((), ("--help",), ("lazy-experts", "--help"), ("lazy-convex", "--help")):
        result = run(*args)
        assert (result.exit_code, result.stderr) == (0, "") and "Usage: hockeystick run" in result.stdout
    shown = " ".join(run("lazy-experts", "--help").stdout.split())
    assert all(name in shown for name in (*DATA, "--fake-switch", "--user-batch", "--release"))


@pytest.mark.statistical
def test_help_loads_no_numerics() -> None:
    code = (
        "import sys; from hockeystick._cli.program import cli\n"
        "try: cli.main(['run', 'lazy-experts', '--help'])\n"
        "except SystemExit: print('numpy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.rstrip().endswith("False")
