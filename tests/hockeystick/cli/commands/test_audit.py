"""``hockeystick audit``: its three outcomes and exit statuses, its JSON and page, and every kind of bad input.

False alarms: correct mechanisms are audited at confidence 0.999999, with a fixed seed; the one with half the noise is
the planted violation. Laplace noise of half the scale at 20,000 samples is refuted with probability
1 - 1e-9 or more: P(output <= 0) is 1/2 on d0 and e^-2/2 = 0.068 on d1, 40 standard errors from what ε = 1 allows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_commands import SURE, folder_of_targets, interrupt, last_line
from click.testing import Result
from command_line import assert_refused, run, strict_json

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
    with folder_of_targets(tmp_path, monkeypatch) as made:
        yield made


def audit(target: str, *args: str, d0: str = "0", d1: str = "1", epsilon: str = "1") -> Any:
    fixed = ["audit", target, "--d0", d0, "--d1", d1, "--epsilon", epsilon, "--seed", "7"]
    return run(*fixed, *args)


# ------------------------------------------------------------------------------------------------------ outcomes


@pytest.mark.statistical
def test_a_correct_mechanism_is_consistent() -> None:
    result = audit("mymech:correct", "--samples", "20000", *SURE)

    assert result.exit_code == 0
    assert result.stdout.startswith("consistent: no violation of (1, 0)-differential privacy was found")
    for word in ("measured", "detectable", "event", "d0", "seed", "20,000 from each data set", "misses (up)"):
        assert word in result.stdout


@pytest.mark.statistical
def test_half_the_noise_is_refuted() -> None:
    result = audit("mymech:half_noise", "--samples", "20000", *SURE)

    assert result.exit_code == 1
    assert result.stdout.startswith(
        "refuted: the claim of (1, 0)-differential privacy is false (confidence level 0.999999)"
    )


@pytest.mark.statistical
def test_several_pairs_are_audited_together_and_the_tested_one_is_named(folder: Path) -> None:
    """Two sums with one draw of noise: each is 1-DP, and their difference is exact."""
    (folder / "twice.py").write_text(
        "import numpy as np\ndef sums(data, rng, runs):\n    return np.array(data) + rng.laplace(0.0, 2.0, (runs, 1))\n"
    )
    both = ["--pair", "[0, 0]", "[1, 1]", "--pair", "[0, 0]", "[1, 0]"]

    result = run("audit", "twice:sums", *both, "--epsilon", "1", "--seed", "7", "--json", "out.json", *SURE)

    assert result.exit_code == 1, result.stderr
    assert "pair 2 of 2: d0 = [0, 0], d1 = [1, 0]" in " ".join(result.stdout.split())
    saved = strict_json((folder / "out.json").read_text())
    assert (saved["pair"], saved["d0"], saved["d1"]) == (2, "[0, 0]", "[1, 0]")
    assert [row["samples"] for row in saved["pairs"]] == [2000, 2000]


@pytest.mark.statistical
def test_each_pair_may_have_an_epsilon_of_its_own(folder: Path) -> None:
    """Noise of scale 1/2: epsilon is 1 on the first pair and 2 on the second; the power is above 0.999."""
    both = ["--pair", "0", "0.5", "--pair", "0", "1", "--seed", "7", "--samples", "20000", "--json", "out.json", *SURE]

    true = run("audit", "mymech:half_noise", *both, "--epsilon", "1", "--epsilon", "2")
    saved = strict_json((folder / "out.json").read_text())
    false = run("audit", "mymech:half_noise", *both, "--epsilon", "2", "--epsilon", "1")

    assert true.exit_code == 0, true.stderr
    assert [row["claim"] for row in saved["pairs"]] == ["(1, 0)", "(2, 0)"]
    assert false.exit_code == 1, false.stderr
    assert "pair 2 of 2, claim (1, 0): d0 = 0" in " ".join(false.stdout.split())


def test_as_many_epsilons_as_pairs_are_needed() -> None:
    both = ["--pair", "0", "1", "--pair", "0", "1"]
    for pairs, count in ((both, 3), (["--d0", "0", "--d1", "1"], 2)):
        result = run("audit", "mymech:correct", *pairs, *["--epsilon", "1"] * count)
        assert result.exit_code == 2
        assert f"--epsilon is given {count} times" in result.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--pair", "0", "1", "--d0", "0"], "--d0 can't be combined with --pair"),
        (["--pair", "0", "1", "--sequential"], "--pair can't be combined with --sequential"),
        (["--pair", "0"], "'--pair' requires 2 arguments"),
        (["--d0", "0", "--d1", "1", "--coin-walk", "--sequential"], "--coin-walk can't be combined with --sequential"),
        (
            ["--d0", "0", "--d1", "1", "--method", "auto", "--sequential"],
            "--method can't be combined with --sequential",
        ),
    ],
)
def test_pairs_that_do_not_fit_are_refused(given: list[str], message: str) -> None:
    result = run("audit", "mymech:correct", "--epsilon", "1", *given)

    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.statistical
def test_a_coin_walk_counts_guesses(folder: Path) -> None:
    """Epsilon is 2: the power is above 0.999."""
    result = audit("mymech:half_noise", "--coin-walk", "--samples", "600", "--json", "out.json")

    assert result.exit_code == 1, result.stderr
    saved = strict_json((folder / "out.json").read_text())
    assert 0 < saved["right_guesses"] <= saved["guesses"] <= 1200
    words = " ".join(result.stdout.split())
    assert f"{saved['right_guesses']} of {saved['guesses']} rightly" in words


@pytest.mark.statistical
def test_the_method_is_chosen_and_the_report_says_why(folder: Path) -> None:
    """Epsilon is 2: the power is above 0.999."""
    result = audit("mymech:half_noise", "--method", "auto", "--samples", "600", "--json", "out.json")

    assert result.exit_code == 1, result.stderr
    assert strict_json((folder / "out.json").read_text())["method"] == "coin walk"
    assert "coin walk, because it puts no outputs aside" in " ".join(result.stdout.split())


@pytest.mark.parametrize("output", ["None", "0.5"])
def test_outputs_that_are_all_one_value_are_an_error_and_leave_no_result(folder: Path, output: str) -> None:
    (folder / "forgotten.py").write_text(f"def total(data, rng):\n    data + rng.laplace()\n    return {output}\n")
    result = audit("forgotten:total", "--samples", "400", "--json", "out.json")

    assert result.exit_code == 2 and not (folder / "out.json").exists()
    assert "every output was the same value on both data sets: does the function return" in last_line(result)


def test_too_few_samples_are_inconclusive_with_a_warning() -> None:
    result = audit("mymech:correct", "--samples", "20")

    assert result.exit_code == 0
    assert result.stdout.startswith("inconclusive: ")
    assert last_line(result).startswith("hockeystick: warning: inconclusive: ")


@pytest.mark.statistical
@pytest.mark.parametrize("samples", ["20", "20000"])
@pytest.mark.parametrize("target", ["mymech:correct", "mymech:half_noise"])
def test_no_output_claims_too_much(folder: Path, target: str, samples: str) -> None:
    result = audit(target, "--samples", samples, "--json", "out.json", "--html", "out.html")

    everything = result.output + (folder / "out.json").read_text() + (folder / "out.html").read_text()
    assert "verified" not in everything.lower()


@pytest.mark.statistical
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


@pytest.mark.statistical
def test_json_has_the_documented_fields(folder: Path) -> None:
    result = audit("mymech:half_noise", "--samples", "20000", "--delta", "1e-6", "--json", "out.json")

    written = strict_json((folder / "out.json").read_text(encoding="utf-8"))
    assert f"wrote {folder.resolve() / 'out.json'}" in result.stderr
    for name, kind in FIELDS.items():
        assert isinstance(written[name], kind), name
    assert written["outcome"] == "refuted" and written["refuted"] is True
    assert (written["epsilon_claimed"], written["delta"], written["planned"]) == (1.0, 1e-6, 20000)
    assert (written["confidence"], written["seed"], written["schema_version"]) == (0.999, 7, 1)
    assert (written["target"], written["d0"], written["d1"]) == ("mymech:half_noise", "0", "1")
    assert written["epsilon_lower"] > 1.0
    assert 0 <= written["count_q"] < written["count_p"] <= written["trials"] <= written["samples"]


def test_an_infinite_number_in_the_json_is_a_string(folder: Path) -> None:
    audit("mymech:correct", "--samples", "20", "--json", "out.json", epsilon="0.1")

    assert strict_json((folder / "out.json").read_text())["detectable_epsilon"] == "inf"


@pytest.mark.statistical
def test_the_same_seed_gives_the_same_result(folder: Path) -> None:
    for name in ("a.json", "b.json"):
        audit("mymech:one", "--samples", "500", "--json", name)
    first, second = (strict_json((folder / name).read_text()) for name in ("a.json", "b.json"))

    del first["seconds"], second["seconds"]
    assert first == second


@pytest.mark.statistical
def test_without_a_seed_a_new_one_is_shown(folder: Path) -> None:
    args = ["audit", "mymech:one", "--d0", "0", "--d1", "1", "--epsilon", "1", "--samples", "100", "--json", "-"]
    seeds = {strict_json(run(*args).stdout)["seed"] for _ in range(2)}

    assert len(seeds) == 2


def test_json_on_the_standard_output_is_alone_there_though_the_target_prints() -> None:
    result = audit("mymech:half_noise", "--samples", "2000", "--json", "-")

    assert result.exit_code == 1
    assert strict_json(result.stdout)["outcome"] == "refuted"
    assert "the target talks" in result.stderr and "refuted: the claim" in result.stderr


@pytest.mark.statistical
def test_a_real_process(folder: Path) -> None:
    command = [sys.executable, "-m", "hockeystick", "audit", "mymech:half_noise", "--d0", "0", "--d1", "1"]
    command += ["--epsilon", "1", "--samples", "2e3", "--seed", "7", "--json", "-"]

    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, cwd=folder)

    assert done.returncode == 1
    assert strict_json(done.stdout)["samples"] == 2000
    assert "Traceback" not in done.stderr


@pytest.mark.statistical
def test_the_exit_status_survives_a_reader_that_goes_away(folder: Path) -> None:
    command = [sys.executable, "-m", "hockeystick", "audit", "mymech:half_noise", "--d0", "0", "--d1", "1"]
    command += ["--epsilon", "1", "--samples", "2000", "--seed", "7"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder) as program:
        assert program.stdout is not None
        program.stdout.close()

    assert program.returncode == 1


@pytest.mark.statistical
def test_the_page_is_self_contained_and_escapes_the_targets_text(folder: Path) -> None:
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


def test_ctrl_c_reports_the_state_of_the_result(folder: Path) -> None:
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
    assert re.search(f"'{kind}!?'", audit("mymech:typed", "--samples", "20", d0=text, d1=text).stdout)


def test_files_reach_the_target_as_arrays(folder: Path) -> None:
    (folder / "d0.csv").write_text("a,b\n1,2\n3,4\n")
    np.save(folder / "d1.npy", np.zeros((2, 2)))

    result = audit("mymech:shaped", "--samples", "20", d0="d0.csv", d1="d1.npy")

    assert result.exit_code == 0 and "'float64 (2, 2)" in result.stdout


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
        (["--json", "same", "--html", "./same"], "is the file of another result too"),
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
        ("mymech:exits", "target raised SystemExit, which would have ended the program"),
    ],
)
def test_bad_targets_are_refused(target: str, said: str) -> None:
    assert_refused(audit(target), "mymech" if "exits" not in target else "ended", said)


ENDING = [
    (f"ends:f{j} {more}", (i + j) % 4)
    for i, more in enumerate(["", "--sequential", "--coin-walk --samples 100", "--workers 2", "--timeout 3"])
    for j in range(4)
]
ENDINGS = """
import os

def f0(data, rng): raise GeneratorExit
def f1(data, rng): raise KeyboardInterrupt
def f2(data, rng): os._exit(0)
def f3(data, rng): os._exit(1)
"""
EACH = """
import os, sys
from hockeystick._cli.program import main

for i, words in enumerate(sys.argv[1:]):
    if not (child := os.fork()):
        for descriptor, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{i}.{name}", os.O_WRONLY | os.O_CREAT), descriptor)
        sys.argv[1:] = ["audit", *words.split(), "--d0", "0", "--d1", "1", "--epsilon", "1"]
        main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.statistical
@pytest.mark.skipif(os.name == "nt", reason="fork is POSIX")
@pytest.mark.parametrize(
    "commands",
    [
        pytest.param([words for words, part in ENDING if part == 0], id="each way to draw, and each end"),
        pytest.param([words for words, part in ENDING if part], id="all other pairs", marks=pytest.mark.deep),
    ],
)
def test_targets_that_would_end_the_program_end_it_with_status_2(folder: Path, commands: list[str]) -> None:
    (folder / "ends.py").write_text(ENDINGS)
    found = subprocess.run([sys.executable, "-c", EACH, *commands], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["2"] * len(commands), found.stderr
    for i, command in enumerate(commands):
        assert (folder / f"{i}.out").read_text() == "", command
        assert last_line_of((folder / f"{i}.err").read_text()).startswith("hockeystick: error: target"), command


@pytest.mark.statistical
def test_a_function_that_hangs_in_c_is_ended_after_the_timeout(folder: Path) -> None:
    (folder / "hangs.py").write_text(
        "import ctypes\n\nprint('hello')\n\n\ndef f(data, rng):\n    print('world')\n"
        "    return ctypes.PyDLL(None).sleep(1000)\n"
    )
    words = ["audit", "hangs:f", "--d0", "0", "--d1", "1", "--epsilon", "1", "--timeout", "2", "--checkpoint", "c"]
    found = subprocess.run([sys.executable, "-m", "hockeystick", *words], capture_output=True, text=True, check=False)
    assert found.returncode == 2 and found.stdout == ""
    said = last_line_of(found.stderr)
    assert "took longer than 2 s in one call" in said and "nothing was saved in c yet" in said


def last_line_of(text: str) -> str:
    return [line for line in text.splitlines() if line.strip()][-1]


def test_a_target_that_always_raises() -> None:
    result = audit("mymech:always_raises")

    assert_refused(result, "on d0", "on d1", "RuntimeError: no such thing", "--traceback", "--exceptions-as-output")
    assert "\x1b" not in result.stderr


def test_the_error_for_a_target_that_sometimes_raises_has_the_counts() -> None:
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
    return re.sub(r"^time +.*$", "", result.stdout, flags=re.MULTILINE)


@pytest.mark.statistical
def test_workers_change_nothing_but_the_time() -> None:
    alone = audit("mymech:correct", "--samples", "2000", "--seed", "7")
    several = audit("mymech:correct", "--samples", "2000", "--seed", "7", "--workers", "2", "--backend", "threading")

    assert alone.exit_code == several.exit_code == 0
    assert without_time(alone) == without_time(several)


@pytest.mark.statistical
def test_an_interrupted_audit_says_how_to_continue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hockeystick.audits.drawing import draws

    arguments = ("mymech:correct", "--samples", "40000", "--checkpoint", "kept.npz")
    with monkeypatch.context() as patch:
        patch.setattr(draws.Counter, "__call__", interrupt)
        stopped = audit(*arguments)
    assert stopped.exit_code != 0
    assert "the same command resumes from kept.npz" in stopped.stderr and (folder / "kept.npz").exists()

    result = audit(*arguments)
    assert result.exit_code == 0 and not (folder / "kept.npz").exists()


@pytest.mark.parametrize("wrong", [("--workers", "0"), ("--address", "tcp://x"), ("--attack", "magic")])
def test_workers_are_checked(wrong: tuple[str, str]) -> None:
    assert_refused(audit("mymech:correct", *wrong), wrong[0])


# --------------------------------------------------------------------------------------------------- what has moved


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["mymech:correct", "--d0", "0", "--d1", "1"], "Missing option '--epsilon'"),
        (["--d0", "0", "--d1", "1", "--epsilon", "1"], "name what to audit: give MODULE:CALLABLE"),
        (["mymech:correct", "more", "--d0", "0", "--d1", "1", "--epsilon", "1"], "unexpected extra argument (more)"),
        (["mymech:correct", "--d0", "0", "--d1", "1", "--epsilon", "1", "--finalists", "2"], "No such option"),
    ],
)
def test_nothing_of_the_claim_is_optional(args: list[str], said: str) -> None:
    assert_refused(run("audit", *args), said)


@pytest.mark.parametrize(
    ("words", "now"),
    [
        ("mymech:leaky --search counts --adjacency replace-one --epsilon 1", "hockeystick search MODULE:CALLABLE"),
        ("mymech:leaky --epsilon 1 --search=counts", "hockeystick search MODULE:CALLABLE --domain DOMAIN"),
        ("--catalogue zoo/laplace@1 --samples 100 --resume x.json", "hockeystick catalogue run PATTERN"),
        ("--catalogue --list", "hockeystick catalogue list"),
    ],
)
def test_errors_for_former_options_name_the_new_commands(words: str, now: str) -> None:
    assert_refused(run("audit", *words.split()), "is a command of its own", now)
