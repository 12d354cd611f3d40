"""Programs as targets: what reaches them, what is read, and how their failures are told without the data.

The programs are scripts of a few lines, started by this interpreter without its site.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, TargetError, audit
from hockeystick.audits.systems.programs import Command, CommandError
from hockeystick.audits.systems.wire import lines_of, output_of, outputs_of, plain_json, without_data

SURE = 1 - 1e-6
RNG = np.random.default_rng(0)
ECHO = "import sys; print(open(sys.argv[1]).read())"


def python(code: str, *words: str, **options: Any) -> Command:
    return Command([sys.executable, "-I", "-S", "-c", code, *words], **options)


def one(target: Command, data: object = 0, runs: int = 1) -> Any:
    return target.simulate(data, np.random.default_rng(1), runs)


# --------------------------------------------------------------------------------------------------- words and lines


@pytest.mark.parametrize(
    ("text", "output"),
    [("3", 3), (" 2.5 ", 2.5), (".5", 0.5), ("+1e3", 1000.0), ("nan", None), ("inf", np.inf), ("yes", "yes"), ("", "")]
    + [("null", None), ("true", True), ('{"a": [1]}', {"a": [1]}), ("1e999", np.inf), ("1_0", "1_0"), ("[1,", "[1,")],
)
def test_a_line_is_a_json_value_a_number_or_a_text(text: str, output: object) -> None:
    found = output_of(text)
    assert np.isnan(found) if text == "nan" else (found == output and type(found) is type(output))


def test_whole_numbers_among_others_are_floats() -> None:
    assert list(map(type, outputs_of(["1", "2.5"]))) == [float, float]
    assert list(map(type, outputs_of(["1", "2"]))) == [int, int]
    assert outputs_of(["1", "x"]) == [1, "x"]


def test_only_a_newline_ends_a_line() -> None:
    assert lines_of("a\x0bb\u2028c\r\n\nd\n") == ["a\x0bb\u2028c", "", "d"]
    assert lines_of("") == [] and lines_of("\n") == [""]


def test_a_message_keeps_no_word_of_the_data() -> None:
    data = b'[{"name": "Ada", "age": 36}]'
    message = "ValueError: row 7 of Ada (aged 36.0) has 'disease' but no ada.\nsecond line"

    assert without_data(message, data) == "ValueError: row … of … (aged …) has … but no … second line"
    assert len(without_data("word " * 100)) == 120


def test_data_without_a_form_in_json_are_refused_without_being_shown() -> None:
    assert plain_json({"a": (1, np.arange(2), None)}) == {"a": [1, [0, 1], None]}
    for value in ({1: "secret"}, {"secret"}, object()):
        with pytest.raises(InvalidArgumentError, match="has no form in JSON") as caught:
            plain_json(value)
        assert "secret" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------ what reaches it


def test_a_value_reaches_the_program_as_json_and_a_file_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text('"x"\n')
    where = python("import os, sys; print(os.path.basename(sys.argv[1]))", "{data}")

    assert one(python(ECHO, "{data}"), [1, {"a": None}]) == [[1, {"a": None}]]
    assert one(python(ECHO, "{data}"), tmp_path / "people.csv") == [("x", "")]
    assert one(where, tmp_path / "people.csv") == ["data.csv"]  # the same name for both data sets
    assert one(python("import sys; print(sys.stdin.read())"), "on stdin") == ["on stdin"]


def test_no_shell_reads_the_words() -> None:
    assert one(python("import sys; print(sys.argv[1])", "$HOME; {runs}|{data:}{x}"), runs=1) == ["$HOME; 1|{data:}{x}"]


def test_a_program_that_changes_its_input_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("1")
    spoil = "import sys; f = open(sys.argv[1], 'r+'); print(f.read()); f.write('2')"

    assert one(python(spoil, "{data}"), tmp_path / "d.txt", runs=2) == [1, 1]
    assert (tmp_path / "d.txt").read_text() == "1"


def test_batches_and_seeds_are_the_same_for_any_number_of_processes() -> None:
    code = "import sys; print(*[sys.argv[2]] * int(sys.argv[1]), sep='\\n')"
    alone, together = (one(python(code, "{runs}", "{seed}", batch=4, processes=p), runs=10) for p in (1, 3))

    assert alone == together and len(alone) == 10
    assert [len(set(alone[i : i + 4])) for i in (0, 4, 8)] == [1, 1, 1] and len(set(alone)) == 3
    assert python(code, "{runs}", "{seed}").repeatable and not python(code, "{runs}").repeatable


def test_the_size_of_calls_suits_the_program() -> None:
    assert python("", "{runs}", batch=50).runs_per_call == 800 and python("").runs_per_call == 16
    assert python("", processes=2).runs_per_call == 16  # or outputs would depend on the number of processes


# ---------------------------------------------------------------------------------------------------------- failures

FAILURES = {
    "status": ("import sys; print('bad row 7 of Ada', file=sys.stderr); sys.exit(3)", "status 3: bad row … of …$"),
    "traceback": ("raise ValueError('Ada')", "status 1: ValueError: …$"),
    "silent": ("import sys; sys.exit(2)", "status 2$"),
    "bytes": ("import sys; sys.stdout.buffer.write(b'\\xff')", "not UTF-8"),
}


@pytest.mark.parametrize(("code", "said"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_told_without_the_data(code: str, said: str) -> None:
    with pytest.raises(CommandError, match=said) as caught:
        one(python(code, "{data}"), {"name": "Ada"})
    assert "Ada" not in str(caught.value)


def test_a_failure_may_be_an_output() -> None:
    target = python("import sys; sys.exit(int(open(sys.argv[1]).read()))", "{data}", failures_as_output=True)

    assert one(target, 3) == [{"exit status": 3}] and one(target, 0) == [""]


def test_another_number_of_lines_is_refused() -> None:
    with pytest.raises(CommandError, match="printed 2 lines for 3 runs"):
        one(python("print(1); print(2)", "{runs}"), runs=3)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="this system has no groups of processes")
def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    """The child would write its file after the limit."""
    late = f"import time; time.sleep(2); open({str(tmp_path / 'late')!r}, 'w')"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {late!r}]); time.sleep(60)"
    with pytest.raises(CommandError, match=r"longer than 0\.7 s"):
        one(python(code, timeout=0.7))
    time.sleep(2.5)
    assert not (tmp_path / "late").exists()


BAD: dict[str, tuple[Any, dict[str, Any]]] = {
    "no program": ("no-such-program {data}", {}),
    "empty": ("", {}),
    "quotes": ("prog 'x", {}),
    "no words": ([], {}),
    "batch": (sys.executable, {"batch": 0}),
    "timeout": (sys.executable, {"timeout": 0}),
    "processes": (sys.executable, {"processes": 0}),
    "failures": (f"{sys.executable} {{runs}}", {"failures_as_output": True}),
}


@pytest.mark.parametrize(("command", "options"), BAD.values(), ids=BAD)
def test_bad_arguments_start_nothing(command: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        Command(command, **options)


def test_an_audit_names_the_status_and_both_sides() -> None:
    target = python("import sys; sys.exit(4)")
    with pytest.raises(TargetError, match=r"on d0 and .* on d1 \(CommandError: the program ended with status 4"):
        audit(target, claim=Claim(1.0), neighbours=(0, 1), samples=20, rng=1)


# ------------------------------------------------------------------------------------------------------------ verdicts

NOISY = """import json, random, sys
data, runs, scale = json.load(open(sys.argv[1])), int(sys.argv[2]), float(sys.argv[4])
noise = random.Random(sys.argv[3])
for _ in range(runs): print(round(sum(data) + scale * (noise.expovariate(1) - noise.expovariate(1)), 6))
"""


@pytest.mark.statistical
def test_a_private_program_is_not_refuted_and_one_with_half_the_noise_is() -> None:
    """Laplace noise of scale 1 and 1/2 at ε = 1, 4,000 outputs; the first is refuted with probability 1e-6 at most.

    P(output <= 0) is 1/2 and 0.068 with half the noise, 20 standard errors from what ε = 1 allows.
    """
    words = "{data}", "{runs}", "{seed}"
    options: dict[str, Any] = {"claim": Claim(1.0), "neighbours": ([], [1]), "samples": 4000, "rng": 1}

    fine = audit(python(NOISY, *words, "1.0", batch=2000), confidence=SURE, **options)
    wrong = audit(python(NOISY, *words, "0.5", batch=2000), **options)
    again = audit(python(NOISY, *words, "0.5", processes=2, batch=2000), **options)

    assert not fine.refuted and wrong.refuted and not fine.warnings
    assert (again.count_p, again.count_q) == (wrong.count_p, wrong.count_q)
