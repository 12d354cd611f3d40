"""Tests of the command line as a whole: exit statuses, one-line errors, streams, imports of --help, Ctrl-C, closed
pipes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from command_line import assert_refused, run

from hockeystick._cli.frame.option_types import Count, Real
from hockeystick._cli.frame.streams import one_line
from hockeystick._cli.program import cli


def process(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs the program as a user does."""
    command = [sys.executable, "-m", "hockeystick", *args]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, **options)


@pytest.mark.parametrize("args", [["--help"], ["-h"], []])
def test_help_lists_the_commands_with_examples(args: list[str]) -> None:
    result = run(*args)

    assert result.exit_code == 0 and result.stderr == ""
    for word in (
        "demo",
        "audit",
        "search",
        "catalogue",
        "account",
        "hockeystick audit mymech.py:release --d0 0 --d1 1",
        "Exit status",
    ):
        assert word in result.stdout


@pytest.mark.parametrize("command", ["demo", "audit", "search", "catalogue run", "account"])
def test_each_command_has_help_with_an_example(command: str) -> None:
    result = run(*command.split(), "--help")

    assert result.exit_code == 0
    assert f"\n    hockeystick {command}" in result.stdout
    assert "--json" in result.stdout and "FILE" in result.stdout and "xit status" in result.stdout
    assert "verified" not in result.output.lower()


def test_the_version_is_printed() -> None:
    import hockeystick

    assert run("--version").stdout == f"hockeystick {hockeystick.__version__}\n"


@pytest.mark.parametrize(
    "args, said",
    [
        (["--nonsense"], "No such option"),
        (["acount"], "No such command"),
        (["audit"], "Missing option '--epsilon', or '--claim'"),
        (["audit", "m:f", "--epsilon", "1"], "Missing option '--d0'"),
        (["audit", "m:f", "--d0", "0", "--d1", "1"], "Missing option '--epsilon'"),
        (["audit", "m:f", "--d0", "0", "--d1", "1", "--epsilon", "1", "--bit"], "No such option"),
        (["audit", "m:f", "extra", "--d0", "0", "--d1", "1", "--epsilon", "1"], "unexpected extra argument"),
        (["account"], "Missing argument 'GRAPH.json'"),
        (["account", "g.json", "--delta"], "requires an argument"),
        (["demo", "--jsn", "x"], "No such option"),
    ],
)
def test_usage_errors_are_one_line_with_a_hint(args: list[str], said: str) -> None:
    assert_refused(run(*args), said, "--help')")


@pytest.mark.statistical
def test_help_and_version_import_nothing_heavy() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from hockeystick._cli.program import cli\n"
        "for args in ('--help', '--version', 'audit --help', 'search --help', 'catalogue run --help'):\n"
        "    assert CliRunner().invoke(cli, args.split()).exit_code == 0\n"
        "print(sorted({'numpy', 'scipy', 'rich', 'networkx', 'hockeystick.accounting'} & sys.modules.keys()))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_the_module_and_the_command_are_the_same_program() -> None:
    module = process("--version")
    command = [str(Path(sys.executable).with_name("hockeystick")), "--version"]
    script = subprocess.run(command, capture_output=True, text=True, check=False)

    assert module.returncode == script.returncode == 0
    assert module.stdout == script.stdout and module.stderr == script.stderr == ""


@pytest.mark.statistical
def test_a_real_process_keeps_its_streams_apart() -> None:
    done = process("account", "no-such-file.json", "--delta", "1e-6")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and "GRAPH.json='no-such-file.json': there is no such file" in done.stderr


@pytest.mark.parametrize(
    "error, status, said",
    [
        (RuntimeError("boom"), 2, "internal error, please report it: RuntimeError: boom"),
        (MemoryError(), 2, "not enough memory"),
        (OSError(28, "No space left on device", "/x/y.json"), 2, "/x/y.json: No space left on device"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_no_failure_ends_with_the_status_of_a_refuted_claim(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, said: str
) -> None:
    def fail(**_: Any) -> int:
        raise error

    monkeypatch.setattr(cli.commands["account"], "callback", fail)

    result = run("account", "g.json", "--delta", "0")

    assert result.exit_code == status
    assert said in result.stderr and result.stdout == ""


@pytest.mark.statistical
def test_a_closed_pipe_is_not_an_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "hockeystick", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None and program.stderr is not None
        program.stdout.close()
        errors = program.stderr.read()

    assert errors == ""
    assert program.returncode in (0, 141)


def test_terminal_control_characters_are_removed_from_errors() -> None:
    assert one_line("a\n\tb\x1b[31m\x07 ε") == "a b[31m ε"


@pytest.mark.parametrize(
    "text, value", [("7", 7), ("200_000", 200_000), ("2e5", 200_000), ("1.5e3", 1500), ("1E+2", 100), (3, 3)]
)
def test_counts_are_parsed(text: str | int, value: int) -> None:
    assert Count(1).convert(text, None, None) == value


@pytest.mark.parametrize(
    "text", ["0", "-1", "1.5", "1e-3", "nan", "inf", "x", "", "1__0", "1e999", "1.23e1", "٣", "9" * 50]
)
def test_bad_counts_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected a whole number"):
        Count(1).convert(text, None, None)


def test_real_numbers_are_parsed() -> None:
    closed, opened = Real(0.0, 1.0), Real(0.0, 1.0, low_open=True, high_open=True)

    assert [closed.convert(text, None, None) for text in ("0", "1", "1e-6")] == [0.0, 1.0, 1e-6]
    assert str(closed.convert("-0.0", None, None)) == "0.0"
    assert opened.convert("0.5", None, None) == 0.5
    for kind, texts in ((closed, ["nan", "inf", "-inf", "1.1", "-1e-9", "abc", ""]), (opened, ["0", "1"])):
        for text in texts:
            with pytest.raises(click.BadParameter, match="expected a number"):
                kind.convert(text, None, None)
    with pytest.raises(click.BadParameter, match="expected a finite number, at least 0"):
        Real(0.0).convert("inf", None, None)
