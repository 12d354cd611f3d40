"""``hockeystick bench accounting``: what it prints and writes, that too small an ε is seen, and how it exits."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import command_line
import pytest
from command_line import assert_refused

from hockeystick._report.results import to_html, to_markdown

MODULE = """
import dp_accounting
from hockeystick.accounting import Accountant

def sound(event, delta):
    print("asked")
    return Accountant().compose(event).get_epsilon(delta)

def too_small(event, delta):
    return 0.9999 * sound(event, delta)

def silent(event, delta):
    raise NotImplementedError("<b>no</b> such | event")

def no_number(event, delta):
    return float("nan")

def interrupted(event, delta):
    raise KeyboardInterrupt

number = 3
"""

run = partial(command_line.run, "bench", "accounting", "--quick")


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    return path


def test_too_small_an_epsilon_is_invalid_and_exits_1(module: Path, tmp_path: Path) -> None:
    names = [f"{module}:{name}" for name in ("sound", "too_small", "silent")]
    options = [word for name in names for word in ("--accountant", name)]
    files = [f"--{kind}={tmp_path / kind}" for kind in ("json", "html", "markdown")]
    result = run(*options, *files)

    assert result.exit_code == 1
    assert "INVALID: " in " ".join(result.stdout.split()) and "asked" not in result.stdout and "asked" in result.stderr
    found = command_line.strict_json((tmp_path / "json").read_text(encoding="utf-8"))
    assert (found["schema_version"], found["command"]) == (1, "bench accounting")
    assert found["judgements"] == dict(zip(names, ("not below", "INVALID", "no answer"), strict=True))
    said = {(row["accountant"], row["composition"]): row for row in found["answers"]}
    assert len(said) == 3 * found["settings"]["compositions"] and found["versions"]["dp-accounting"]
    for (name, composition), row in said.items():
        assert 0.0 < row["truth_lower"] <= row["truth_upper"] and 0.0 <= row["delta"] < 1.0 and row["seconds"] >= 0.0
        if name == names[2]:
            assert row["epsilon"] is None and "NotImplementedError" in row["refused"]
            continue
        assert row["ratio"] == row["epsilon"] / row["truth_upper"] <= row["ratio_most"]
        assert row["judgement"] == ("INVALID" if name == names[1] else "not below")
        if name == names[1]:
            assert row["epsilon"] == pytest.approx(0.9999 * said[names[0], composition]["epsilon"], rel=1e-12)

    assert (tmp_path / "markdown").read_text(encoding="utf-8") == to_markdown(found)
    assert to_html(found) == (tmp_path / "html").read_text(encoding="utf-8") and "<b>no" not in to_html(found)
    again = command_line.run("report", tmp_path / "json")
    assert again.exit_code == 0 and again.stdout == result.stdout


def test_ours_ends_well_and_has_a_lower_end() -> None:
    result = run("--accountant", "hockeystick", "--json", "-")

    assert result.exit_code == 0
    found = command_line.strict_json(result.stdout)
    assert found["judgements"] == {"hockeystick": "not below"}
    assert all(1.0 - 1e-5 < row["ratio_of_lower"] <= row["ratio_most"] < 1.0 + 1e-6 for row in found["answers"])
    assert "no ε is below the truth" in result.stderr


@pytest.mark.slow
def test_without_names_all_that_are_installed_are_rated() -> None:
    """How others' are judged is up to them; a Rényi bound is sound, and looser than ours."""
    result = run("--json", "-")

    found = command_line.strict_json(result.stdout)
    assert list(found["judgements"]) == ["hockeystick", "dp-accounting-pld", "dp-accounting-rdp"]
    assert found["judgements"]["dp-accounting-rdp"] == found["judgements"]["hockeystick"] == "not below"
    assert result.exit_code == int("INVALID" in found["judgements"].values())


def test_only_refusals_are_no_verdict(module: Path) -> None:
    result = run("--accountant", f"{module}:silent")

    assert result.exit_code == 0 and "no answer from" in result.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("prv", "is unknown; use one of hockeystick"),
        ("{}:nobody", "has no 'nobody'"),
        ("{}:number", "can't be called"),
        ("{}:no_number", "epsilon"),
        ("nowhere.py:f", "nowhere.py"),
    ],
)
def test_what_is_no_accountant_could_not_run(module: Path, name: str, said: str) -> None:
    assert_refused(run("--accountant", name.format(module)), said)


def test_an_interruption_leaves_files_as_they_were(module: Path, tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text(json.dumps({"old": 1}))
    result = run("--accountant", f"{module}:interrupted", "--json", tmp_path / "out.json")

    assert result.exit_code == 130 and "unchanged" in result.stderr
    assert json.loads((tmp_path / "out.json").read_text()) == {"old": 1}
