"""``hockeystick audit``: its three outcomes and exit statuses, its JSON and page, and every kind of bad input.

False alarms: correct mechanisms are audited at confidence 0.999999, with a fixed seed; the one with half the noise is
the planted violation. Laplace noise of half the scale at 20,000 samples is refuted with probability
1 - 1e-9 or more: P(output <= 0) is 1/2 on d0 and e^-2/2 = 0.068 on d1, 40 standard errors from what ε = 1 allows.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from command_line import assert_refused, run, strict_json

import hockeystick.audits

TARGETS = """
import numpy as np

def correct(data, rng, runs):
    return data + rng.laplace(0.0, 1.0, runs)

def half_noise(data, rng, runs):
    print("the target talks")
    return data + rng.laplace(0.0, 0.5, runs)

def one(data, rng):
    return float(np.sum(data)) + rng.laplace()

def always_raises(data, rng):
    raise RuntimeError("no such\\nthing\\x1b[31m")

def sometimes_raises(data, rng):
    if rng.random() < 0.3:
        raise ValueError("three of ten")
    return 1

def exits(data, rng):
    raise SystemExit(0)

def interrupted(data, rng):
    raise KeyboardInterrupt

def hostile(data, rng):
    return "<script>alert('&')</script>\\x1b[31m" if rng.random() < 0.1 + 0.8 * data else "no"

def typed(data, rng):
    return type(data).__name__

def shaped(data, rng):
    return f"{data.dtype} {data.shape}"

def no_arguments():
    return 1

def leaky(data, rng, runs):
    return data + (data > 0) * (rng.geometric(0.632, runs) - rng.geometric(0.632, runs))

def total(data, rng, runs):
    return sum(data) + rng.geometric(0.632, runs) - rng.geometric(0.632, runs)

def some_pairs(rng):
    size = int(rng.integers(4))
    return [1] * size, [1] * (size + 1)

def a_domain():
    from hockeystick.audits import FiniteRecords
    return FiniteRecords(values=[0, 1], most=4)

NUMBER = 3
"""
SURE = ("--confidence", "0.999999")
FIELDS: dict[str, Any] = {
    "outcome": str,
    "refuted": bool,
    "epsilon_claimed": float,
    "delta": float,
    "epsilon_lower": float,
    "confidence": float,
    "samples": int,
    "direction": str,
    "event": str,
    "seconds": float,
    "detectable_epsilon": (float, str),
    "float_leak": bool,
    "count_p": int,
    "count_q": int,
    "trials": int,
    "seed": int,
    "warnings": list,
    "tradeoff": list,
    "versions": dict,
    "schema_version": int,
    "command": str,
    "target": str,
    "d0": str,
    "d1": str,
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a module of targets."""
    (tmp_path / "mymech.py").write_text(TARGETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("mymech", None)


def audit(target: str, *args: str, d0: str = "0", d1: str = "1", epsilon: str = "1") -> Any:
    fixed = ["audit", target, "--d0", d0, "--d1", d1, "--epsilon", epsilon, "--seed", "7"]
    return run(*fixed, *args)


def last_line(result: Result) -> str:
    return result.stderr.splitlines()[-1]


# ------------------------------------------------------------------------------------------------------ outcomes


def test_a_correct_mechanism_is_consistent() -> None:
    result = audit("mymech:correct", "--samples", "20000", *SURE)

    assert result.exit_code == 0
    assert result.stdout.startswith("consistent: no violation of (1, 0)-differential privacy was found")
    for word in ("measured", "could have caught", "event", "d0", "seed", "20,000 from each data set", "misses (up)"):
        assert word in result.stdout


def test_half_the_noise_is_refuted() -> None:
    result = audit("mymech:half_noise", "--samples", "20000", *SURE)

    assert result.exit_code == 1
    assert result.stdout.startswith("refuted: the claim of (1, 0)-differential privacy is false (confidence 0.999999)")


def test_too_few_samples_are_inconclusive_with_a_warning() -> None:
    result = audit("mymech:correct", "--samples", "20")

    assert result.exit_code == 0
    assert result.stdout.startswith("inconclusive: ")
    assert last_line(result).startswith("hockeystick: warning: inconclusive: ")


@pytest.mark.parametrize("samples", ["20", "20000"])
@pytest.mark.parametrize("target", ["mymech:correct", "mymech:half_noise"])
def test_no_output_promises_too_much(folder: Path, target: str, samples: str) -> None:
    result = audit(target, "--samples", samples, "--json", "out.json", "--html", "out.html")

    everything = result.output + (folder / "out.json").read_text() + (folder / "out.html").read_text()
    assert "verified" not in everything.lower()


def test_a_float_leak_warns_and_counts_only_with_bits(folder: Path) -> None:
    args = ["mymech:correct", "--samples", "40000", *SURE]
    without = audit(*args, "--json", "out.json", epsilon="1.5")
    leak = strict_json((folder / "out.json").read_text())["float_leak"]
    with_bits = audit(*args, "--bits", "--json", "bits.json", epsilon="1.5")

    assert without.exit_code == 0 and leak is True
    assert "--bits" in last_line(without) and "bits=True" not in without.output
    assert with_bits.exit_code == 1
    assert strict_json((folder / "bits.json").read_text())["refuted"] is True


def test_exceptions_as_output() -> None:
    result = audit("mymech:sometimes_raises", "--samples", "2000", "--exceptions-as-output", *SURE)

    assert result.exit_code == 0 and "consistent" in result.stdout


# --------------------------------------------------------------------------------------------- streams and files


def test_json_has_the_promised_fields(folder: Path) -> None:
    result = audit("mymech:half_noise", "--samples", "20000", "--delta", "1e-6", "--json", "out.json")

    written = strict_json((folder / "out.json").read_text(encoding="utf-8"))
    assert f"wrote {folder.resolve() / 'out.json'}" in result.stderr
    for name, kind in FIELDS.items():
        assert isinstance(written[name], kind), name
    assert written["outcome"] == "refuted" and written["refuted"] is True
    assert (written["epsilon_claimed"], written["delta"], written["samples"]) == (1.0, 1e-6, 20000)
    assert (written["confidence"], written["seed"], written["schema_version"]) == (0.999, 7, 1)
    assert (written["target"], written["d0"], written["d1"]) == ("mymech:half_noise", "0", "1")
    assert written["epsilon_lower"] > 1.0
    assert 0 <= written["count_q"] < written["count_p"] <= written["trials"] <= written["samples"]


def test_an_infinite_number_in_the_json_is_a_string(folder: Path) -> None:
    audit("mymech:correct", "--samples", "20", "--json", "out.json", epsilon="0.1")

    assert strict_json((folder / "out.json").read_text())["detectable_epsilon"] == "inf"


def test_the_same_seed_gives_the_same_result(folder: Path) -> None:
    for name in ("a.json", "b.json"):
        audit("mymech:one", "--samples", "500", "--json", name)
    first, second = (strict_json((folder / name).read_text()) for name in ("a.json", "b.json"))

    del first["seconds"], second["seconds"]
    assert first == second


def test_without_a_seed_a_new_one_is_shown(folder: Path) -> None:
    args = ["audit", "mymech:one", "--d0", "0", "--d1", "1", "--epsilon", "1", "--samples", "100", "--json", "-"]
    seeds = {strict_json(run(*args).stdout)["seed"] for _ in range(2)}

    assert len(seeds) == 2


def test_json_on_the_standard_output_is_alone_there_though_the_target_prints() -> None:
    result = audit("mymech:half_noise", "--samples", "2000", "--json", "-")

    assert result.exit_code == 1
    assert strict_json(result.stdout)["outcome"] == "refuted"
    assert "the target talks" in result.stderr and "refuted: the claim" in result.stderr


@pytest.mark.slow
def test_a_real_process(folder: Path) -> None:
    command = [sys.executable, "-m", "hockeystick", "audit", "mymech:half_noise", "--d0", "0", "--d1", "1"]
    command += ["--epsilon", "1", "--samples", "2e3", "--seed", "7", "--json", "-"]

    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, cwd=folder)

    assert done.returncode == 1
    assert strict_json(done.stdout)["samples"] == 2000
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_exit_status_survives_a_reader_that_goes_away(folder: Path) -> None:
    command = [sys.executable, "-m", "hockeystick", "audit", "mymech:half_noise", "--d0", "0", "--d1", "1"]
    command += ["--epsilon", "1", "--samples", "2000", "--seed", "7"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder) as program:
        assert program.stdout is not None
        program.stdout.close()

    assert program.returncode == 1


def test_the_page_stands_alone_and_escapes_what_the_target_says(folder: Path) -> None:
    result = audit("mymech:hostile", "--samples", "2000", "--html", "out.html")

    page = (folder / "out.html").read_text(encoding="utf-8")
    assert result.exit_code == 1
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "\x1b" not in result.stdout and "\x1b" not in page
    for outside in ("http://", "https://", "src=", "@import", "url(//", "<link"):
        assert outside not in page


def test_a_crash_while_writing_leaves_the_old_result(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "out.json").write_text("old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", str(folder / "out.json"))

    monkeypatch.setattr(os, "fsync", full)
    result = audit("mymech:half_noise", "--samples", "2000", "--json", "out.json")

    assert result.exit_code == 2 and "No space left on device" in last_line(result)
    assert (folder / "out.json").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith("__")) == ["mymech.py", "out.json"]


def test_ctrl_c_says_what_became_of_the_result(folder: Path) -> None:
    (folder / "out.json").write_text("old")

    result = audit("mymech:interrupted", "--json", "out.json")

    assert result.exit_code == 130
    assert "interrupted" in last_line(result) and "unchanged" in last_line(result)
    assert (folder / "out.json").read_text() == "old" and result.stdout == ""


# ------------------------------------------------------------------------------------------------------ data sets


@pytest.mark.parametrize(
    "text, kind",
    [("0", "int"), ("0.5", "float"), ("[1, 2]", "list"), ('{"a": 1}', "dict"), ('"x"', "str"), ("null", "NoneType")],
)
def test_inline_json_reaches_the_target_as_the_python_value(text: str, kind: str) -> None:
    assert f"'{kind}'" in audit("mymech:typed", "--samples", "20", d0=text, d1=text).stdout


def test_files_reach_the_target_as_arrays(folder: Path) -> None:
    (folder / "d0.csv").write_text("a,b\n1,2\n3,4\n")
    np.save(folder / "d1.npy", np.zeros((2, 2)))

    result = audit("mymech:shaped", "--samples", "20", d0="d0.csv", d1="d1.npy")

    assert result.exit_code == 0 and "'float64 (2, 2)'" in result.stdout


def test_equal_data_sets_are_warned_of() -> None:
    result = audit("mymech:one", "--samples", "100", d0="1", d1="1")

    assert any("equal" in line for line in result.stderr.splitlines() if "warning" in line)


# ------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "args, said",
    [
        (["--epsilon", "nan"], "--epsilon"),
        (["--epsilon", "inf"], "--epsilon"),
        (["--epsilon", "-1"], "--epsilon"),
        (["--epsilon", "abc"], "'abc' is not a number"),
        (["--epsilon", "701"], "--epsilon"),
        (["--delta", "2"], "--delta"),
        (["--delta", "-1e-9"], "--delta"),
        (["--delta", "nan"], "--delta"),
        (["--samples", "3"], "--samples"),
        (["--samples", "0"], "--samples"),
        (["--samples", "-5"], "--samples"),
        (["--samples", "1.5"], "--samples"),
        (["--samples", "many"], "--samples"),
        (["--confidence", "1.5"], "--confidence"),
        (["--confidence", "1"], "--confidence"),
        (["--confidence", "0"], "--confidence"),
        (["--confidence", "nan"], "--confidence"),
        (["--seed", "-1"], "--seed"),
        (["--seed", "x"], "--seed"),
        (["--d0", "missing.json"], "there is no such file"),
        (["--d0", "{"], "neither JSON"),
        (["--d0", "ragged.csv"], "line 2 has 1 cells"),
        (["--d1", "words.csv"], "not a number"),
        (["--d1", "objects.npy"], "Python objects"),
        (["--json", "no/folder/out.json"], "there is no folder"),
        (["--json", "."], "is a folder"),
        (["--html", "."], "is a folder"),
        (["--json", "same", "--html", "./same"], "is another result's file too"),
        (["--exceptions-as-output"], "--exceptions-as-output"),
    ],
)
def test_bad_arguments_run_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], said: str) -> None:
    (folder / "ragged.csv").write_text("1,2\n3\n")
    (folder / "words.csv").write_text("1\nx\n")
    np.save(folder / "objects.npy", np.array([None, 1]), allow_pickle=True)

    result = audit("mymech:correct", *args)

    assert_refused(result, said)


@pytest.mark.parametrize(
    "target, said",
    [
        ("nowhere:f", "there is no module 'nowhere'"),
        ("mymec:correct", "did you mean mymech.py?"),
        ("mymech:corect", "did you mean correct?"),
        ("mymech:NUMBER", "can't be called"),
        ("mymech", "MODULE:CALLABLE"),
        ("mymech:no_arguments", "give f(data, rng)"),
        ("mymech:exits", "the target ended the program"),
    ],
)
def test_bad_targets(target: str, said: str) -> None:
    assert_refused(audit(target), "mymech" if "exits" not in target else "ended", said)


def test_a_target_that_always_raises() -> None:
    result = audit("mymech:always_raises")

    assert_refused(result, "on d0", "on d1", "RuntimeError: no such thing", "--traceback", "--exceptions-as-output")
    assert "\x1b" not in result.stderr


def test_a_target_that_sometimes_raises_is_told_the_counts() -> None:
    result = audit("mymech:sometimes_raises", "--samples", "2000")

    assert_refused(result, "three of ten", "runs on d0 and", "on d1")


def test_traceback_shows_all_of_a_targets_error(folder: Path) -> None:
    (folder / "broken.py").write_text("def deep():\n    return 1 / 0\ndeep()\n")

    raising = audit("mymech:always_raises", "--traceback")
    importing = audit("broken:f", "--traceback")

    for result, place in ((raising, 'raise RuntimeError("no such'), (importing, "return 1 / 0")):
        assert result.exit_code == 2 and result.stdout == ""
        assert "Traceback (most recent call last)" in result.stderr and place in result.stderr
        assert last_line(result).startswith("hockeystick: error: ")
    assert_refused(audit("broken:f"), "ZeroDivisionError: division by zero (broken.py, line 2)")


def test_html_without_its_packages_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))

    result = audit("mymech:always_raises", "--html", "out.html")

    assert_refused(result, "matplotlib", "pip install 'hockeystick[report]'")


# ------------------------------------------------------------------------------------------------------- long audits


def without_time(result: Result) -> str:
    return re.sub(r"took .*", "", result.stdout)


def test_workers_change_nothing_but_the_time() -> None:
    alone = audit("mymech:correct", "--samples", "2000", "--seed", "7")
    several = audit("mymech:correct", "--samples", "2000", "--seed", "7", "--workers", "2", "--backend", "threading")

    assert alone.exit_code == several.exit_code == 0
    assert without_time(alone) == without_time(several)


def test_an_interrupted_audit_says_how_to_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.drawing import draws

    arguments = ("mymech:correct", "--samples", "40000", "--checkpoint", "kept.npz")
    with monkeypatch.context() as patch:
        patch.setattr(draws.Counter, "__call__", interrupt)
        stopped = audit(*arguments)
    assert stopped.exit_code != 0
    assert "the same command continues from kept.npz" in stopped.stderr and (folder / "kept.npz").exists()

    result = audit(*arguments)
    assert result.exit_code == 0 and not (folder / "kept.npz").exists()


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("wrong", [("--workers", "0"), ("--address", "tcp://x"), ("--attack", "magic")])
def test_workers_are_checked(wrong: tuple[str, str]) -> None:
    assert_refused(audit("mymech:correct", *wrong), wrong[0])


# -------------------------------------------------------------------------------------------------- neighbour search


def search(target: str, domain: str, *args: str, adjacency: str = "add-or-remove-one") -> Any:
    fixed = ["audit", target, "--search", domain, "--adjacency", adjacency, "--epsilon", "1", "--samples", "3000"]
    return run(*fixed, "--search-samples", "2000", "--seed", "7", *SURE, *args)


def test_the_worst_pair_is_searched_and_audited_with_other_samples(folder: Path) -> None:
    found = search("mymech:leaky", "counts", "--json", "out.json", "--finalists", "2")

    assert found.exit_code == 1, found.output
    assert found.stdout.startswith("refuted: ") and "searched" in found.stdout and "with other outputs" in found.stdout
    assert "hockeystick: searching neighbours for mymech:leaky" in found.stderr
    assert "hockeystick: auditing mymech:leaky on pair 2" in found.stderr
    written = strict_json((folder / "out.json").read_text())
    told = written["search"]
    assert (told["seed"], told["adjacency"], told["group"], told["domain"]) == (7, "add-or-remove-one", 1, "counts")
    assert told["samples"] <= 2000 and len(told["finalists"]) == 2 and told["pairs_searched"] >= len(told["pairs"]) > 3
    assert {written["d0"], written["d1"]} == {"0.0", "1.0"} and written["samples"] == 3000
    assert written["confidence"] == pytest.approx(1 - 0.5e-6, abs=1e-12)  # of each of two
    again = audit(
        "mymech:leaky", "--samples", "3000", "--seed", str(written["seed"]), *SURE, d0=written["d0"], d1=written["d1"]
    )
    assert again.exit_code == 1  # the pair is as --d0 and --d1 take it


@pytest.mark.parametrize(
    "domain",
    [
        "[0, 1]",
        '{"values": [0, 1], "most": 6}',
        '{"low": 0, "high": 1, "integral": true, "most": 6}',
        '{"answers": "histogram", "size": 2}',
        "mymech:a_domain",
        "mymech:some_pairs",
        "values.json",
    ],
)
def test_domains_of_every_kind(folder: Path, domain: str) -> None:
    (folder / "values.json").write_text("[0, 1, 1]")

    result = search("mymech:total", domain, "--json", "-")

    assert result.exit_code == 0, result.output
    assert strict_json(result.stdout)["refuted"] is False and "searched" in result.stderr


def test_an_interrupted_search_says_how_to_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.drawing import draws

    whole = search("mymech:leaky", "counts", "--json", "whole.json")
    with monkeypatch.context() as patch:
        patch.setattr(draws.Counter, "__call__", interrupt)  # in the audit: the search is over by then
        stopped = search("mymech:leaky", "counts", "--checkpoint", "kept.jsonl")
    assert stopped.exit_code == 130 and "the same command continues from kept.jsonl" in last_line(stopped)
    assert (folder / "kept.jsonl").exists()

    result = search("mymech:leaky", "counts", "--checkpoint", "kept.jsonl", "--json", "part.json")
    assert result.exit_code == whole.exit_code == 1
    assert not list(folder.glob("kept*"))
    first, second = (strict_json((folder / name).read_text()) for name in ("whole.json", "part.json"))
    for content in (
        first,
        second,
        first["search"]["finalists"][0]["verdict"],
        second["search"]["finalists"][0]["verdict"],
    ):
        del content["seconds"]
    assert first == second


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        ("{", "neither JSON"),
        ("3", "describes no data sets"),
        ('{"low": 0}', "lacks 'high'"),
        ('{"low": 0, "high": 1, "size": 3}', "unknown 'size'"),
        ('{"answers": "sums", "low": 3, "high": 1}', "high leaves no room"),
        ('{"answers": "many"}', "kind is unknown"),
        ("nothing.json", "there is no such file"),
        ("mymech:nothing", "has no 'nothing'"),
        ("mymech:NUMBER", "is of type int and no domain"),
        ("mymech:total", "no domain"),
        ("nowhere:domain", "there is no module"),
    ],
)
def test_bad_domains(domain: str, said: str) -> None:
    result = search("mymech:total", domain)

    assert result.exit_code == 2 and result.stdout == ""
    assert "--search" in last_line(result) and said in last_line(result)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--search", "counts"], "Missing option '--adjacency'"),
        (["--search", "counts", "--adjacency", "any"], "--adjacency"),
        (["--search", "counts", "--adjacency", "replace-one", "--d0", "1"], "leave out --d0 and --d1"),
        (["--search", "counts", "--adjacency", "replace-one", "--group", "0"], "--group"),
        (["--search", "counts", "--adjacency", "replace-one", "--search-samples", "3"], "--samples"),
        (["--d0", "0", "--d1", "1", "--finalists", "2"], "--finalists goes with --search"),
        (["--d0", "0", "--d1", "1", "--adjacency", "local"], "--adjacency goes with --search"),
        (["--search", "counts", "--adjacency", "local"], "--adjacency"),
    ],
)
def test_what_goes_with_a_search(args: list[str], said: str) -> None:
    result = run("audit", "mymech:leaky", "--epsilon", "1", *args)

    assert result.exit_code == 2 and result.stdout == "" and said in last_line(result)


# ------------------------------------------------------------------------------------------------------ the catalogue


def catalogue(*args: str) -> Any:
    return run("audit", "--catalogue", *args)


PAIR = ("zoo/laplace@1", "zoo/svt-5@1")  # a correct case, and one that a thousand samples refute


@pytest.mark.slow
def test_the_catalogue_tells_right_from_wrong(folder: Path) -> None:
    result = catalogue(*PAIR, "--samples", "2000", "--seed", "7", "--json", "out.json", *SURE)

    assert result.exit_code == 0, result.output
    assert "2 of 2 cases: 2 as expected, 0 broken and missed, 0 correct and refuted" in result.stdout
    assert "at most 1e-06" in result.stdout and "seed 7" in result.stdout
    for word in ("zoo/laplace@1", "not refuted", "inf", "consistent"):
        assert word in result.stdout
    written = strict_json((folder / "out.json").read_text())
    assert written["complete"] is True and written["cases"] == list(PAIR) and written["unexpected"] == []
    assert written["confidence_per_case"] == pytest.approx(1 - 0.5e-6, abs=1e-12)
    assert [row["verdict"]["refuted"] for row in written["results"]] == [False, True]
    assert written["results"][1]["truth"] == "inf" and written["seed"] == 7


def test_the_catalogue_shows_what_it_did_not_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.catalogue.parts import cases

    monkeypatch.setattr(cases.Case, "target", property(lambda case: lambda data, rng, runs: rng.random(runs)))

    result = catalogue("zoo/svt-5@1", "--seed", "7")
    few = catalogue("zoo/svt-5@1", "--seed", "7", "--samples", "100")

    assert result.exit_code == 1 and "1 broken and missed" in result.stdout
    assert "unexpected: zoo/svt-5@1: " in result.stdout
    assert few.exit_code == 0 and "1 broken with too few samples" in " ".join(few.stdout.split())


def test_the_catalogue_is_listed() -> None:
    result = catalogue("zoo/svt-*@1", "mechanism/laplace[half the scale]", "--list")

    assert result.exit_code == 0 and result.stderr == ""
    assert "zoo/svt-6@1" in result.stdout and "Lyu, Su & Li 2017" in result.stdout
    assert "mechanism/laplace[half the scale]" in result.stdout and "zoo/svt-6@0.1" not in result.stdout


@pytest.mark.slow
def test_ctrl_c_keeps_finished_cases_and_resume_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.catalogue.parts import cases

    audited, args = hockeystick.audits.audit, (*PAIR, "zoo/noisy-sum@1", "--samples", "500", "--seed", "7", *SURE)
    whole = catalogue(*args, "--json", "whole.json")
    assert whole.exit_code == 0
    calls: list[str] = []

    def interrupted(*given: Any, **more: Any) -> Any:
        calls.append("")
        if len(calls) == 2:
            raise KeyboardInterrupt
        return audited(*given, **more)

    monkeypatch.setattr(cases, "audit", interrupted)
    stopped = catalogue(*args, "--json", "part.json")
    left = strict_json((folder / "part.json").read_text())
    assert stopped.exit_code == 130 and "after 1 of 3 cases" in last_line(stopped)
    assert "--resume" in last_line(stopped) and "1 of 3 cases: 1 as expected" in stopped.stdout
    assert left["complete"] is False and [row["name"] for row in left["results"]] == ["zoo/laplace@1"]

    monkeypatch.undo()
    monkeypatch.chdir(folder)
    resumed = catalogue("--resume", "part.json")
    assert resumed.exit_code == 0, resumed.output
    first, second = (strict_json((folder / name).read_text()) for name in ("whole.json", "part.json"))
    for content in (first, second):
        for row in content["results"]:
            del row["seconds"], row["verdict"]["seconds"]
    assert first == second


def comparable(file: Path) -> dict[str, Any]:
    content = dict(strict_json(file.read_text()))
    for row in content["results"]:
        del row["seconds"], row["verdict"]["seconds"]
    return content


HANDS = ("--workers", "3", "--backend", "threading")


def test_the_catalogue_on_workers_says_the_same(folder: Path) -> None:
    args = (*PAIR, "zoo/noisy-sum@1", "--samples", "300", "--seed", "7", *SURE)
    here, there = catalogue(*args, "--json", "here.json"), catalogue(*args, *HANDS, "--json", "there.json")

    assert here.exit_code == there.exit_code == 0, there.output
    assert comparable(folder / "here.json") == comparable(folder / "there.json")
    assert "hockeystick: audited 3 of 3 cases" in there.stderr


def test_ctrl_c_with_workers_keeps_finished_cases_and_resume_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hockeystick.audits.drawing import workers

    args = (*PAIR, "zoo/noisy-sum@1", "--samples", "300", "--seed", "7", *SURE)
    catalogue(*args, "--json", "whole.json")
    survivors = workers.Crew.survivors

    def interrupted(crew: Any, function: Any, jobs: Any) -> Any:
        yield next(iter(survivors(crew, function, jobs)))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(workers.Crew, "survivors", interrupted)
        stopped = catalogue(*args, *HANDS, "--json", "part.json")
    assert stopped.exit_code == 130 and "after 1 of 3 cases; --resume" in last_line(stopped)
    resumed = catalogue("--resume", "part.json", *HANDS)
    assert resumed.exit_code == 0, resumed.output
    assert comparable(folder / "part.json") == comparable(folder / "whole.json")


def test_a_lost_case_is_named_and_the_others_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.drawing import workers

    survivors = workers.Crew.survivors

    def dying(crew: Any, function: Any, jobs: Any) -> Any:
        for number, result in survivors(crew, function, jobs):
            yield number, workers.Lost("killed") if number == 1 else result

    with monkeypatch.context() as patch:
        patch.setattr(workers.Crew, "survivors", dying)
        result = catalogue(*PAIR, "--samples", "300", "--seed", "7", *HANDS, "--json", "part.json")
    assert result.exit_code == 2
    for said in ("again and again on zoo/svt-5@1", "by themselves", "--resume", "part.json continues"):
        assert said in last_line(result)
    assert "1 of 2 cases" in result.stdout
    content = strict_json((folder / "part.json").read_text())
    assert content["complete"] is False and [row["name"] for row in content["results"]] == ["zoo/laplace@1"]


def test_ctrl_c_without_a_file_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.catalogue.parts import cases

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(cases, "audit", interrupted)
    result = catalogue(*PAIR)
    assert result.exit_code == 130 and "nothing was written" in last_line(result)


def test_catalogue_json_on_the_standard_output_is_alone_there() -> None:
    result = catalogue("zoo/laplace@1", "--samples", "100", "--seed", "1", "--json", "-")

    assert result.exit_code == 0 and strict_json(result.stdout)["complete"] is True
    assert "1 of 1 cases" in result.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nothing"], "matches no case"),
        (["zoo/laplace@1", "--samples", "3"], "--samples=3"),
        (["zoo/laplace@1", "--seconds", "0"], "--seconds"),
        (["--d0", "1"], "--d0 does not go with --catalogue"),
        (["--search", "counts"], "--search does not go with --catalogue"),
        (["--checkpoint", "x"], "--checkpoint does not go with --catalogue"),
        (["zoo/laplace@1", "--workers", "0"], "--workers=0"),
        (["zoo/laplace@1", "--address", "tcp://x"], "--address="),
        (["--epsilon", "1"], "--epsilon does not go with --catalogue"),
        (["--bits"], "--bits does not go with --catalogue"),
        (["--html", "x.html", "--markdown", "x.html"], "is another result's file too"),
        (["--resume", "missing.json"], "can't be read"),
        (["--resume", "words.json"], "is no run of the catalogue"),
        (["--resume", "other.json"], "is no run of the catalogue"),
        (["--resume", "gone.json"], "is not in this catalogue"),
        (["zoo/*", "--resume", "gone.json"], "leave it out"),
        (["--seed", "1", "--resume", "gone.json"], "leave it out"),
        (["--json", "no/folder/x.json"], "there is no folder"),
    ],
)
def test_bad_arguments_audit_no_case(folder: Path, args: list[str], said: str) -> None:
    (folder / "words.json").write_text("words")
    (folder / "other.json").write_text('{"command": "audit", "schema_version": 1}')
    plan: dict[str, Any] = {
        "samples": None,
        "seconds": None,
        "confidence": 0.9,
        "seed": 1,
        "results": [],
        "versions": {},
    }
    gone = {"command": "audit --catalogue", "schema_version": 1, "cases": ["zoo/unicorn"], **plan}
    (folder / "gone.json").write_text(json.dumps(gone))

    result = catalogue(*args)

    assert result.exit_code == 2 and result.stdout == ""
    assert said in last_line(result)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["mymech:correct", "--d0", "0", "--d1", "1"], "Missing option '--epsilon'"),
        (["--d0", "0", "--d1", "1", "--epsilon", "1"], "Missing argument 'MODULE:CALLABLE'"),
        (["mymech:correct", "more", "--d0", "0", "--d1", "1", "--epsilon", "1"], "unexpected extra argument (more)"),
        (["mymech:correct", "--d0", "0", "--d1", "1", "--epsilon", "1", "--list"], "--list goes with --catalogue"),
        (["mymech:correct", "--resume", "x"], "--resume goes with --catalogue"),
    ],
)
def test_without_the_catalogue_nothing_is_optional(args: list[str], said: str) -> None:
    assert_refused(run("audit", *args), said)
