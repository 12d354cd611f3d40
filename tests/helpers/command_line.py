"""Runs the program in this process for the tests of its commands, with its output and errors."""

from __future__ import annotations

import json
import re
from typing import Any

import click
from click.testing import CliRunner, Result

from hockeystick._cli.program import cli

_PROGRESS = re.compile(r"hockeystick: .* \(\d+ s\)")


def run(*args: object, text: str | bytes | None = None, program: click.Command = cli) -> Result:
    """How the program ends that is given these words, and ``text`` on its standard input."""
    return CliRunner().invoke(program, [str(arg) for arg in args], input=text)


def strict_json(text: str) -> dict[str, Any]:
    """An object of JSON without NaN and infinities."""

    def no_constant(name: str) -> Any:
        raise AssertionError(f"{name} is not strict JSON")

    loaded = json.loads(text, parse_constant=no_constant)
    assert isinstance(loaded, dict)
    return loaded


def result_of(*args: object) -> dict[str, Any]:
    """The result of a command that ends well, whose first word is the command's name."""
    found = run(*args, "--json", "-")
    assert found.exit_code == 0, found.stderr
    loaded = strict_json(found.stdout)
    assert loaded["schema_version"] == 1 and loaded["command"] == args[0] and "hockeystick" in loaded["versions"]
    return loaded


def assert_refused(result: Result, *said: str) -> None:
    """Could not run: status 2, nothing on the standard output, and after progress at most, one line of error."""
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    *before, error = result.stderr.splitlines()
    assert all(_PROGRESS.fullmatch(line) for line in before), result.stderr
    assert error.startswith("hockeystick: error: ") and "internal error" not in error
    for text in said:
        assert text in error
