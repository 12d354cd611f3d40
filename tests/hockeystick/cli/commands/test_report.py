"""Tests of ``hockeystick report`` and ``completion``: every kind of result read back and drawn, and hostile or broken
files."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from command_line import run as run_cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import hockeystick as hs
from hockeystick._cli.program import cli
from hockeystick._report.result_reader import read_results
from hockeystick._report.results import account_result, audit_result, graph_result, to_json, to_markdown, to_report
from hockeystick.accounting import AccountantGraph, Gaussian, InvalidArgumentError, Laplace
from hockeystick.audits import Claim, TradeoffPoint, Verdict, sequential_audit

HOSTILE = "<script>alert(1)</script>|`x` @somebody #12 https://evil.example\x1b[31m"
SMALL: dict[str, Any] = {"claim": Claim(1.0), "neighbours": (0, 1), "rng": 1}
POINTS = (TradeoffPoint(0.06, 0.5, 0.05, 0.07, 0.49, 0.51), TradeoffPoint(0.5, 0.1, 0.49, 0.51, 0.09, 0.11))
MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})


def graph(name: str = "people") -> AccountantGraph:
    plain = AccountantGraph().source(name).release("mean", Gaussian(5.0), reads=[name])
    return plain.release("count", Laplace(2.0), reads=[name], count=3)


def verdict(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "outcome": "refuted",
        "epsilon_claimed": 1.0,
        "delta": 0.0,
        "epsilon_lower": 1.7,
        "confidence": 0.999,
        "samples": 1_000_000,
        "timed": False,
        "direction": "d1->d0",
        "event": "output < 0.5",
        "count_p": 250_000,
        "count_q": 30_000,
        "trials": 500_000,
        "epsilon_tested": 1.0,
        "delta_tested": 0.0,
        "detectable_epsilon": 1.01,
        "float_leak": False,
        "bits": False,
        "seed": 7,
        "seconds": 3.2,
        "tradeoff": POINTS,
    }
    return audit_result(Verdict(**(values | changes)), target="mymech.py:release", d0="[0]", d1="[1]")


CASE = {"name": "zoo/a", "broken": True, "truth": "inf", "seconds": 1.0, "as_expected": False}
CATALOGUE = {
    "schema_version": 1,
    "command": "audit --catalogue",
    "complete": True,
    "cases": ["zoo/a"],
    "confidence": 0.9,
    "seed": 1,
    "unexpected": ["zoo/a"],
    "results": [CASE | {"verdict": {k: v for k, v in verdict().items() if k not in ("target", "d0", "d1")}}],
    "versions": {"python": "3"},
}

run = partial(run_cli, "report")


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """A result of each kind that has a report of its own."""
    found = {
        "account": account_result(graph().guarantee(), 1e-6),
        "audit": verdict(),
        "graph": graph_result(graph(), 1e-6, None),
        "catalogue": CATALOGUE,
    }
    calibrated = run_cli("calibrate", "laplace", "--epsilon", "1", "--json", "-").stdout
    return found | {"calibrate": json.loads(calibrated)}


@pytest.mark.parametrize("kind", ["account", "audit", "graph", "catalogue", "calibrate"])
def test_each_kind_is_drawn_from_its_file_alone(results: dict[str, Any], tmp_path: Path, kind: str) -> None:
    (tmp_path / "r.json").write_text(to_json(results[kind]), encoding="utf-8")
    shown = run(tmp_path / "r.json", "--markdown", tmp_path / "r.md", "--json", tmp_path / "again.json")

    assert shown.exit_code == 0, shown.output
    assert to_report(results[kind]).headline.text in " ".join(shown.stdout.split())
    assert (tmp_path / "again.json").read_text(encoding="utf-8") == (tmp_path / "r.json").read_text(encoding="utf-8")
    page = MARKDOWN.render((tmp_path / "r.md").read_text(encoding="utf-8"))
    assert page.count("<h2>") == 1 and "<table>" in page and "| ---" not in page.split("<pre>")[0]
    assert run("-", "--markdown", "-", text=to_json(results[kind])).stdout == to_markdown(results[kind])


def test_several_are_put_together_and_read_again(results: dict[str, Any], tmp_path: Path) -> None:
    for kind in ("account", "audit"):
        (tmp_path / f"{kind}.json").write_text(to_json(results[kind]), encoding="utf-8")
    first = run(tmp_path / "account.json", tmp_path / "audit.json", "--json", tmp_path / "both.json")
    second = run(tmp_path / "both.json")

    assert first.exit_code == second.exit_code == 0 and first.stdout == second.stdout
    both = read_results("both", (tmp_path / "both.json").read_text(encoding="utf-8"))
    assert [one["command"] for one in both] == ["account", "audit"]
    assert list(both) == [json.loads(to_json(results[kind])) for kind in ("account", "audit")]


def test_a_certificate_stands_beside_the_audit(results: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(to_json(verdict(delta=1e-6, epsilon_lower=99.0)), encoding="utf-8")
    (tmp_path / "account.json").write_text(to_json(results["account"]), encoding="utf-8")
    plain = run(tmp_path / "audit.json", "--certificate", tmp_path / "account.json", "--json", "-")

    assert plain.exit_code == 0
    found = json.loads(plain.stdout)["certificate"]
    assert found["certified_curve"] == results["account"]["certified_curve"]
    assert "which the audit contradicts" in plain.stderr
    labels = [series.label for series in to_report(json.loads(plain.stdout)).sections[0].plots[0].series]
    assert [label.split(":")[0].split(",")[0] for label in labels[:3]] == ["claimed", "certified", "measured bound"]
    (tmp_path / "audit.json").write_text(to_json(verdict(delta=0.0, epsilon_lower=99.0)), encoding="utf-8")
    other = run(tmp_path / "audit.json", "--certificate", tmp_path / "account.json")
    assert "contradicts" not in other.stdout  # an ε at δ = 1e-6 says nothing at δ = 0
    for wrong, said in (("audit.json", "is not a result of account"), ("no.json", "no such file")):
        assert said in run(tmp_path / "audit.json", "--certificate", tmp_path / wrong).stderr
    assert (
        "needs the result of an audit"
        in run(tmp_path / "account.json", "--certificate", tmp_path / "account.json").stderr
    )
    assert "can be read only once" in run("-", "--certificate", "-").stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("words", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "is not the result of a command"),
        ("{}", "is not the result of a command"),
        ('{"command": "audit"}', "schema_version None"),
        ('{"command": "audit", "schema_version": 2}', "schema_version 2"),
        ('{"command": "audit", "schema_version": 1}', "can't be shown as a result of 'audit' (KeyError"),
        ('{"command": "unicorn", "schema_version": 1}', "is not a command"),
        ('{"command": "run", "learner": [1], "schema_version": 1}', "can't be shown"),
        ('{"command": "audit", "schema_version": NaN}', "NaN is not allowed"),
        ('{"command": "report", "results": []}', "not hold a list of results"),
        ('{"command": "graph", "schema_version": 1, "graph": {"nodes": 1}, "delta": null}', "can't be shown"),
    ],
)
def test_files_that_are_not_results_are_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "r.json").write_text(text)
    result = run(tmp_path / "r.json", "--markdown", tmp_path / "r.md")

    assert (result.exit_code, result.stdout) == (2, "") and said in result.stderr, result.stderr
    assert not (tmp_path / "r.md").exists()


def test_the_json_of_a_verdict_is_shown_as_the_result_of_its_command(tmp_path: Path) -> None:
    """An infinite ε is null in a verdict's own JSON, and "inf" in a result."""
    plain = verdict(data=("list of 3", "list of 2"))
    names = {field.name for field in attrs.fields(Verdict)}
    stated = {name: value for name, value in plain.items() if name in names} | {"detectable_epsilon": math.inf}
    made = Verdict.from_dict(Verdict(**stated | {"tradeoff": POINTS}).to_dict())
    (tmp_path / "v.json").write_text(made.to_json(), encoding="utf-8")
    (found,) = read_results("v.json", (tmp_path / "v.json").read_text(encoding="utf-8"))
    same = {name: plain[name] for name in ("command", "outcome", "event", "count_p", "epsilon_lower")}
    assert {name: found[name] for name in same} == same and found["detectable_epsilon"] == "inf"
    assert (found["d0"], found["d1"]) == ("list of 3", "list of 2") and "not recorded" in found["target"]
    shown = run(tmp_path / "v.json", "--markdown", tmp_path / "v.md")
    assert shown.exit_code == 0 and shown.stdout.startswith("refuted: the claim of (1, 0)")


def test_the_json_of_other_verdicts_is_shown() -> None:
    walked = sequential_audit(lambda value, rng, runs: value + rng.laplace(size=runs), most_samples=600, **SMALL)
    replayed = hs.replay(lambda data, rng: sum(data) + rng.laplace(), [1.0], [0.0], epsilon=1.0, paths=2, rng=1)
    for made, command in ((walked, "audit --sequential"), (replayed, "replay")):
        (found,) = read_results("v.json", made.to_json())
        assert found["command"] == command and found["outcome"] == made.outcome and to_markdown(found)
        broken = json.loads(made.to_json()) | {"outcome": "fine"}
        with pytest.raises(InvalidArgumentError, match="is not the result of a command or a verdict"):
            read_results("v.json", json.dumps(broken))


@pytest.mark.statistical
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_a_damaged_result_is_shown_or_refused(results: dict[str, Any], data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(results)))
    plain = json.loads(to_json(results[kind]))
    name = data.draw(st.sampled_from(sorted(set(plain) - {"command", "schema_version"})))
    shapes: st.SearchStrategy[Any] = st.just([]) | st.just({"a": [[]]})
    odd: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers(-1, 1) | st.text(max_size=3) | shapes
    plain[name] = data.draw(odd)
    try:
        found = read_results("r.json", json.dumps(plain))
    except InvalidArgumentError:
        return
    assert to_markdown(*found).startswith("## ")


@pytest.mark.statistical
def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    bad = account_result(graph(HOSTILE.replace("\x1b", "")).guarantee(), 1e-6)
    for content in (bad, verdict(event=HOSTILE) | {"target": HOSTILE}):
        (tmp_path / "r.json").write_text(to_json(content), encoding="utf-8")
        result = run(tmp_path / "r.json", "--markdown", tmp_path / "r.md")
        assert result.exit_code == 0 and "\x1b" not in result.stdout
        prose = MARKDOWN.render((tmp_path / "r.md").read_text(encoding="utf-8"))
        assert "<script" not in prose and "<a " not in prose
        outside = "".join(part.split("</pre>")[-1] for part in prose.split("<pre>"))
        assert "@somebody" not in outside and "#12" not in outside and "://evil" not in outside


# ------------------------------------------------------------------------------------------------------ completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_calls_the_program(shell: str) -> None:
    result = run_cli("completion", shell)

    assert result.exit_code == 0 and f"_HOCKEYSTICK_COMPLETE={shell}_complete" in result.stdout
    assert run_cli("completion", "tcsh").exit_code == 2


def completed(words: str, number: int) -> list[str]:
    environment = {"_HOCKEYSTICK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    done = subprocess.run(
        [sys.executable, "-c", "from hockeystick._cli.program import main; main()"],
        env={**environment, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("words", "number", "said"),
    [
        ("hockeystick re", 1, ["plain,release", "plain,replay", "plain,report"]),
        ("hockeystick calibrate laplace --fin", 3, ["plain,--find"]),
        ("hockeystick calibrate laplace --find ", 4, ["plain,noise", "plain,count", "plain,sampling"]),
        ("hockeystick account ", 2, ["file,"]),
        ("hockeystick audit m:f --json res", 4, ["file,res"]),
        ("hockeystick run fed", 2, ["plain,fed-svt", "plain,fed-stoch"]),
    ],
)
def test_commands_options_and_files_are_completed(words: str, number: int, said: list[str]) -> None:
    assert sorted(completed(words, number)) == sorted(said)


@pytest.mark.statistical
def test_bash_can_read_its_script() -> None:
    script = run_cli("completion", "bash").stdout
    done = subprocess.run(["bash", "-c", f"{script}\ncomplete -p hockeystick"], capture_output=True, text=True)

    assert done.returncode == 0 and done.stderr == "" and "_hockeystick_completion" in done.stdout


# -------------------------------------------------------------------------------------------------- one vocabulary


def commands() -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    pending: list[tuple[str, Any]] = [("hockeystick", cli)]
    while pending:
        path, command = pending.pop()
        inside = getattr(command, "commands", {})
        pending += [(f"{path} {name}", one) for name, one in inside.items()]
        if not inside:
            found.append((path, command))
    return found


@pytest.mark.parametrize(("path", "command"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_command_has_the_same_files_and_an_example(path: str, command: Any) -> None:
    options = {name: one for one in command.params for name in one.opts}
    # these have no result, and the checker of certificates has a verdict in text and JSON alone
    without = ("hockeystick completion", "hockeystick catalogue list", "hockeystick survey answer")
    if path not in without and " ledger " not in path:
        for name in ("--json",) if path == "hockeystick verify" else ("--json", "--html", "--markdown"):
            assert options[name].name == f"{name[2:]}_file" and options[name].metavar == "FILE"
    shown = run_cli(*path.split()[1:], "--help").stdout
    assert f"\n    {path}" in shown and "Exit status" in shown
    kinds = {"--epsilon": "E", "--delta": "D", "--seed": "S", "--samples": ("N", "T"), "--confidence": "C"}
    for name, metavar in kinds.items():
        if name in options:
            assert options[name].metavar in metavar, f"{path} {name}"
