"""Tests of ``hockeystick demo``: exit statuses and errors with a made-up result; runs/test_demo.py has a real one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import command_line
import pytest
from command_line import strict_json

import hockeystick._runs.demo
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import TradeoffPoint, Verdict

run = partial(command_line.run, "demo")


# ---------------------------------------------------------------------------------------------- a result by hand


class Audited:
    """One audit of a made-up demonstration."""

    def __init__(self, mutation: str | None, outcome: Any) -> None:
        self.mutation = mutation
        self.verdict = Verdict(
            outcome=outcome,
            epsilon_claimed=1.0,
            delta=1e-5,
            epsilon_lower=3.456789,
            confidence=0.999,
            samples=30_000,
            timed=False,
            direction="d0->d1",
            event="output >= 100",
            count_p=200,
            count_q=0,
            trials=15_000,
            epsilon_tested=0.9,
            delta_tested=4e-5,
            detectable_epsilon=float("inf"),
            float_leak=False,
            bits=False,
            seed=1,
            seconds=0.5,
            warnings=("mind <this>",),
            tradeoff=(TradeoffPoint(0.0, 0.99, 0.0, 0.001, 0.98, 0.995),),
        )

    def row(self) -> dict[str, Any]:
        return {
            "learner": "L2P",
            "mutation": self.mutation,
            "neighbours": "worst case",
            "view": "run",
            "as_expected": self.verdict.refuted == (self.mutation is not None),
            "epsilon_exact": [float("inf"), float("inf")] if self.mutation else [0.7, 0.7],
            "samples_needed": 7000.0 if self.mutation else float("inf"),
            "exact_curve": [[0.0, 1.0], [1.0, 0.0]],
            "verdict": self.verdict.to_dict(),
        }


class Demonstration:
    """The part of a demonstration's result that the command reads."""

    def __init__(self, correct: str, broken: str) -> None:
        self.audits = (Audited(None, correct), Audited("no fake switches", broken))

    def to_dict(self) -> dict[str, Any]:
        rows = [audited.row() for audited in self.audits]
        data = {"name": "patients", "rounds": 550, "public_rows": 19, "experts": ["rule <1>"], "best_expert": 0}
        share = {"node": "switch", "event": "E(1.23456789)", "count": 2, "epsilon_alone": 0.5, "epsilon_without": 0.6}
        learner = {
            "name": "L2P",
            "epsilon_certified": 0.999999,
            "epsilon_certified_lower": 0.9,
            "method": "rdp",
            "epsilon_printed": 5.8,
            "printed": {"applies": False, "conditions": [{"statement": "a <= 1", "value": 20.5, "holds": False}]},
            "epsilon_exact": [0.7, 0.7],
            "epsilon_measured": 0.3,
            "contributions": [share],
            "claimed_curve": [[0.0, 1.0], [1.0, 0.0]],
        }
        regret = {
            "name": "open",
            "epsilon": float("inf"),
            "expected_loss": 60.0,
            "expected_regret": 12.0,
            "bound": 25.0,
        }
        return {
            "epsilon": 1.0,
            "delta": 1e-5,
            "confidence": 0.999,
            "seed": 0,
            "as_expected": all(row["as_expected"] for row in rows),
            "notes": ["One pass, no repetition."],
            "data": {**data, "best_loss": 48.0},
            "regrets": [regret],
            "learners": [learner],
            "audits": rows,
            "seconds": 1.0,
        }


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes the demonstration end with the given outcomes of the correct and of the broken learner."""

    def prepare(correct: str, broken: str) -> None:
        def run_demo(*, progress: Callable[[str, int, int], None], **_: Any) -> Demonstration:
            progress("loading", 0, 2)
            progress("done", 2, 2)
            return Demonstration(correct, broken)

        monkeypatch.setattr(hockeystick._runs.demo, "run_demo", run_demo)

    return prepare


@pytest.mark.parametrize(
    "correct, broken, status",
    [
        ("consistent", "refuted", 0),
        ("inconclusive", "refuted", 0),
        ("refuted", "refuted", 1),
        ("consistent", "consistent", 1),
        ("consistent", "inconclusive", 1),
    ],
)
def test_the_exit_status_is_1_if_a_verdict_is_unexpected(
    outcomes: Callable[[str, str], None], correct: str, broken: str, status: int
) -> None:
    outcomes(correct, broken)

    result = run()

    assert result.exit_code == status
    assert ("unexpectedly" in result.stdout) == bool(status)
    assert result.stdout.startswith("(ε, δ) = (1, 1e-05): " + ("some verdicts" if status else "no audit"))
    assert "hockeystick: loading (0 s)" in result.stderr
    assert "hockeystick: warning: L2P, no fake switches, worst case neighbours: mind <this>" in result.stderr


@pytest.mark.statistical
def test_json_and_page(outcomes: Callable[[str, str], None], tmp_path: Path) -> None:
    outcomes("consistent", "refuted")

    result = run("--json", str(tmp_path / "demo.json"), "--html", str(tmp_path / "demo.html"))

    written = strict_json((tmp_path / "demo.json").read_text(encoding="utf-8"))
    assert result.exit_code == 0
    assert written["regrets"][0]["epsilon"] == "inf"
    assert written["audits"][1]["verdict"]["detectable_epsilon"] == "inf"
    assert written["audits"][1]["verdict"]["refuted"] is True
    page = (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert "rule &lt;1&gt;" in page and "rule <1>" not in page
    assert not re.search(r"https?:|\bsrc=|<script|<link|@import", page)


def test_json_alone_on_the_standard_output(outcomes: Callable[[str, str], None]) -> None:
    outcomes("consistent", "refuted")

    result = run("--json", "-")

    assert strict_json(result.stdout)["command"] == "demo"
    assert "Regret" in result.stderr


def test_ctrl_c_leaves_the_old_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(**_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(hockeystick._runs.demo, "run_demo", interrupted)
    (tmp_path / "demo.json").write_text("old")

    result = run("--json", str(tmp_path / "demo.json"))

    assert result.exit_code == 130 and "interrupted" in result.stderr and "unchanged" in result.stderr
    assert (tmp_path / "demo.json").read_text() == "old"


@pytest.mark.parametrize(
    "args, said",
    [
        (["--epsilon", "0"], "above 0"),
        (["--epsilon", "nan"], "--epsilon"),
        (["--epsilon", "inf"], "--epsilon"),
        (["--delta", "0"], "--delta"),
        (["--delta", "1"], "--delta"),
        (["--seed", "-1"], "--seed"),
        (["--json", "no/such/folder.json"], "there is no folder"),
    ],
)
def test_bad_arguments_run_nothing(monkeypatch: pytest.MonkeyPatch, args: list[str], said: str) -> None:
    monkeypatch.delattr(hockeystick._runs.demo, "run_demo")

    result = run(*args)

    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.count("\n") == 1 and said in result.stderr


def test_errors_of_the_demonstration_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> Any:
        raise InvalidArgumentError("epsilon", 1e-9, "no parameters meet it", "ask for more")

    monkeypatch.setattr(hockeystick._runs.demo, "run_demo", refuse)

    result = run("--epsilon", "1e-9")

    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr == "hockeystick: error: epsilon=1e-09: no parameters meet it; ask for more\n"
