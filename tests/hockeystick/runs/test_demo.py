"""Tests of the demonstration: its data, its refusals and its results."""

from __future__ import annotations

import inspect
import json
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from command_line import run, strict_json

from hockeystick._report.results import demo_result, to_json
from hockeystick._runs import demo
from hockeystick._runs.demo import DemoResult, run_demo
from hockeystick._runs.demo_data import PUBLIC_ROWS, breast_cancer_stream
from hockeystick.accounting import AccountantGraph, InvalidArgumentError
from hockeystick.accounting.optional_packages import MissingExtraError
from hockeystick.audits.bounds.two_counts import clopper_pearson


def test_stream_is_one_pass_over_rows_disjoint_from_the_public_ones() -> None:
    stream = breast_cancer_stream(0)
    assert stream.losses.shape == (569 - PUBLIC_ROWS, 10) == (stream.rounds, len(stream.experts))
    assert sorted([*stream.rows, *stream.public_rows]) == list(range(569))
    assert set(np.unique(stream.losses)) == {0.0, 1.0}


def test_rules_depend_on_the_public_rows_alone() -> None:
    """Applied to the raw data, the rules in words give the very losses of the stream."""
    from sklearn.datasets import load_breast_cancer

    stream, data = breast_cancer_stream(3), load_breast_cancer()
    for j, words in enumerate(stream.experts):
        name, side, threshold = words.removeprefix("benign if ").rsplit(" ", 2)
        assert name == data.feature_names[j]
        below = data.data[stream.rows, j] < float(threshold)
        errors = (below == (side == "<")) != (data.target[stream.rows] == 1)
        assert (errors != stream.losses[:, j]).mean() < 0.02  # the words round the threshold
        public = data.data[stream.public_rows, j]
        assert public.min() < float(threshold) < public.max()


def test_split_and_order_follow_the_seed() -> None:
    first, again, other = (breast_cancer_stream(seed) for seed in (0, 0, 1))
    assert np.array_equal(first.losses, again.losses) and first.experts == again.experts
    assert not np.array_equal(first.rows, other.rows)


def test_neighbour_replaces_the_first_person_by_another_real_one() -> None:
    stream = breast_cancer_stream(0)
    other = stream.neighbour()
    assert np.flatnonzero((other != stream.losses).any(axis=1)).tolist() == [0]
    assert (stream.public_losses == other[0]).all(axis=1).any()


def test_missing_scikit_learn_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "hockeystick._runs.demo_data.importlib.util.find_spec",
        lambda name: None if name == "sklearn" else find_spec(name),
    )
    with pytest.raises(MissingExtraError, match=r"pip install 'hockeystick\[demo\]'"):
        run_demo()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("epsilon", 0.0),
        ("epsilon", math.nan),
        ("epsilon", math.inf),
        ("delta", 0.0),
        ("delta", 1.0),
        ("confidence", 1.0),
        ("confidence", 0.4),
        ("seed", -1),
        ("seed", 0.5),
        ("quick", 1),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(argument: str, value: object) -> None:
    stages: list[str] = []
    with pytest.raises(InvalidArgumentError, match=argument):
        run_demo(**{argument: value}, progress=lambda stage, done, total: stages.append(stage))  # type: ignore[arg-type]
    assert stages == []


@pytest.fixture(scope="module")
def found() -> tuple[DemoResult, list[tuple[str, int, int]]]:
    """One run at confidence 1 - 1e-7 per audit: a false refutation in at most 6 of 1e7 seeds."""
    steps: list[tuple[str, int, int]] = []
    result = run_demo(
        confidence=1 - 1e-7, quick=True, progress=lambda stage, done, total: steps.append((stage, done, total))
    )
    return result, steps


@pytest.mark.statistical
class TestFindings:
    def test_progress_counts_up_to_its_total(self, found: tuple[DemoResult, list[tuple[str, int, int]]]) -> None:
        steps = found[1]
        assert [done for _, done, _ in steps] == list(range(steps[0][2] + 1))
        assert len({total for _, _, total in steps}) == 1

    def test_the_program_ends_as_it_should(
        self, found: tuple[DemoResult, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def known(**given: Any) -> DemoResult:
            inspect.signature(run_demo).bind(**given)
            return found[0]

        monkeypatch.setattr(demo, "run_demo", known)
        result = run("demo", "--json", tmp_path / "demo.json", "--html", tmp_path / "demo.html")

        assert result.exit_code == 0, result.output
        written = strict_json((tmp_path / "demo.json").read_text(encoding="utf-8"))
        for audit in written["audits"]:
            assert audit["verdict"]["refuted"] == (audit["mutation"] is not None)
        mutants = {(audit["learner"], audit["mutation"]) for audit in written["audits"] if audit["mutation"]}
        assert {mutation for _, mutation in mutants} == {"no fake switches", "unclipped losses"} and len(mutants) == 4
        for learner in written["learners"]:
            assert learner["epsilon_measured"] <= learner["epsilon_certified"] <= written["epsilon"]
        page = (tmp_path / "demo.html").read_text(encoding="utf-8")
        words = ("Regret", "Privacy", "Verdicts", "Exact ε", "Trade-off", "Cost per node", "best expert", "printed")
        assert all(word in page and word in result.stdout for word in words)
        assert page.count("<svg") == 4 and "verified" not in (page + result.output).lower()

    def test_correct_learners_stand_and_mutants_fall(self, found: tuple[DemoResult, object]) -> None:
        result = found[0]
        assert result.as_expected
        correct = [row for row in result.audits if row.mutation is None]
        assert {(row.learner, row.neighbours) for row in correct} == {
            (name, on) for name in ("L2P", "dartboard") for on in ("worst case", "real data")
        }
        assert not any(row.verdict.refuted for row in correct)
        mutants = [row for row in result.audits if row.mutation is not None]
        assert {(row.learner, row.mutation, row.view) for row in mutants} == {
            (name, *what)
            for name in ("L2P", "dartboard")
            for what in (("no fake switches", "run"), ("no fake switches", "decision"), ("unclipped losses", "run"))
        }
        assert all(row.verdict.refuted for row in mutants)

    def test_oracle_agrees_with_the_certificates(self, found: tuple[DemoResult, object]) -> None:
        result = found[0]
        for row in result.learned:
            assert row.exact[0] <= row.certified.upper <= result.epsilon
            assert result.measured(row.name) <= row.exact[1]
        for audited in result.audits:
            if audited.mutation is not None:
                assert audited.exact is not None and audited.exact[0] > 1.2 * result.epsilon
                assert audited.samples_needed is not None and audited.samples_needed <= audited.verdict.planned
            elif audited.exact is not None:
                assert audited.samples_needed == math.inf

    def test_measured_exact_and_claimed_curves_are_in_order(self, found: tuple[DemoResult, object]) -> None:
        """No test misses less than the exact curve, which lies above the claimed one for correct learners only.

        False alarms: fewer than 200 rates, each bounded at confidence 1 - 1e-9, so 2e-7 in all.
        """
        result = found[0]
        claimed = {row.name: np.array(row.claimed_curve) for row in result.learned}
        for row in result.audits:
            if row.neighbours != "worst case" or row.view != "run":
                continue
            exact = np.array(row.exact_curve)
            above = exact[:, 1] >= claimed[row.learner][:, 1] - 1e-9
            assert above.all() == (row.mutation is None)
            trials = row.verdict.trials
            for point in row.verdict.tradeoff:
                rates = np.array([point.fpr, point.fnr])
                _, (fpr, fnr) = clopper_pearson(np.round(rates * trials), trials, confidence=1 - 1e-9, side="upper")
                # 1e-3: between the grid's points the drawn curve lies a little above the exact one
                assert fnr >= np.interp(fpr, exact[:, 0], exact[:, 1]) - 1e-3

    def test_learners_are_between_chance_and_no_privacy(self, found: tuple[DemoResult, object]) -> None:
        rows = {row.name: row for row in found[0].regrets}
        private = [rows["L2P"], rows["dartboard"]]
        assert all(row.epsilon <= found[0].epsilon for row in private)
        assert all(
            rows["multiplicative weights, no privacy"].expected_regret
            < row.expected_regret
            < rows["a random rule each time"].expected_regret
            for row in private
        )
        assert all(row.expected_regret <= row.bound for row in rows.values())

    def test_printed_formula_stands_beside_the_certificate(self, found: tuple[DemoResult, object]) -> None:
        l2p, dartboard = found[0].learned
        assert l2p.printed is not None and l2p.printed.epsilon > l2p.certified.upper
        assert dartboard.printed is None

    def test_result_is_plain_json(self, found: tuple[DemoResult, object]) -> None:
        result = found[0]
        plain = json.loads(to_json(demo_result(result)))
        assert plain["as_expected"] is True and plain["data"]["rounds"] == 550
        assert [row["name"] for row in plain["learners"]] == ["L2P", "dartboard"]
        graph = AccountantGraph.from_json(json.dumps(plain["learners"][0]["graph"]))
        assert graph == result.learned[0].learner.graph()
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            result.seed = 1  # type: ignore[misc]
