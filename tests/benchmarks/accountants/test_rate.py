"""``python -m benchmarks.accountants.rate``: its output and files, too small values of ε, and its exit status."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_scripts import benchmark
from command_line import strict_json

script = benchmark("accountants.rate")

MODULE = """
from hockeystick.accounting import Accountant

def sound(event, delta):
    return Accountant().compose(event).get_epsilon(delta)

def too_small(event, delta):
    return 0.9999 * sound(event, delta)

def silent(event, delta):
    raise NotImplementedError("no such | event")

def no_number(event, delta):
    return float("nan")

number = 3
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    return path


def test_too_small_an_epsilon_is_invalid_and_exits_1(module: Path, tmp_path: Path, capsys) -> None:
    names = [f"{module}:{name}" for name in ("sound", "too_small", "silent")]
    options = [word for name in names for word in ("--accountant", name)]
    assert script.main(["--quick", *options, "--json", str(tmp_path / "found.json")]) == 1

    printed = capsys.readouterr().out
    for name, word in zip(names, ("not below", "INVALID", "no answer"), strict=True):
        assert f"| {name} | {word} |" in printed
    assert "no such \\| event" in printed
    found = strict_json((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["judgements"] == dict(zip(names, ("not below", "INVALID", "no answer"), strict=True))
    said = {(row["accountant"], row["composition"]): row for row in found["answers"]}
    for (name, composition), row in said.items():
        if name == names[2]:
            assert row["epsilon"] is None and "NotImplementedError" in row["refused"]
        elif name == names[1]:
            assert row["epsilon"] == pytest.approx(0.9999 * said[names[0], composition]["epsilon"], rel=1e-12)


def test_an_accountant_that_is_not_invalid_ends_well(module: Path) -> None:
    assert script.main(["--quick", "--accountant", f"{module}:silent"]) == 0


def test_without_names_all_are_rated(tmp_path: Path) -> None:
    """A Rényi bound is sound, and looser than the built-in accountant."""
    status = script.main(["--quick", "--json", str(tmp_path / "found.json")])

    found = strict_json((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert list(found["judgements"]) == ["hockeystick", "dp-accounting-pld", "dp-accounting-rdp"]
    assert found["judgements"]["dp-accounting-rdp"] == found["judgements"]["hockeystick"] == "not below"
    assert status == int("INVALID" in found["judgements"].values())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("prv", "is unknown; use one of hockeystick"),
        ("{}:nobody", "has no 'nobody'"),
        ("{}:number", "can't be called"),
        ("{}:no_number", "epsilon"),
    ],
)
def test_an_object_that_is_not_an_accountant_could_not_run(module: Path, name: str, said: str, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        script.main(["--quick", "--accountant", name.format(module)])
    assert said in capsys.readouterr().err
