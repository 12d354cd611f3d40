"""Every code block of the documentation runs, every command in it exists, every link leads somewhere.

Blocks are read by their language. ``python`` is executed, all blocks of a page in one namespace; a block whose first
line is ``# NAME.py`` becomes that file, and is run by pytest if it is a test. ``console`` holds commands after a ``$``:
of one that is written with placeholders (``--epsilon E``) the options are looked up in the command's help; any other is
run, and ends with status 0 or with the one that a comment ``# exit status N`` promises. ``bash`` sets up environments,
which .ci/run does. ``text`` is text.
"""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from hockeystick.cli import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> Iterator[tuple[str, str, int]]:
    """Language, text and first line of every fenced block."""
    text = page.read_text(encoding="utf-8")
    assert text.count("```") == 2 * len(FENCE.findall(text)), "a fence is not closed"
    for match in FENCE.finditer(text):
        yield match[1], match[2], text[: match.start(2)].count("\n") + 1


def commands(block: str) -> list[str]:
    """Commands of a console block; an indented line continues the one before it."""
    return [line[2:] for line in block.replace("\n      ", " ").splitlines() if line.startswith("$ ")]


def has_placeholder(command: str) -> bool:
    """Whether a command shows its form rather than being one."""
    return "[--" in command or any(word.isupper() or "CALLABLE" in word for word in shlex.split(command))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_has_a_language_that_is_checked(page: Path) -> None:
    assert {language for language, _, _ in blocks(page)} <= {"python", "console", "bash", "text"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target
    for named in re.findall(r"`((?:docs|tests|benchmarks|accounting|mechanisms|learners|audits)/[\w/]+\.\w+)`", prose):
        if "NAME" not in named:
            assert (ROOT / named).exists(), named


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "docs"}
    for language, text, line in blocks(page):
        name = re.match(r"# (\w+\.py)\n", text)
        if language == "python" and name:
            Path(name[1]).write_text(text, encoding="utf-8")
            if name[1].startswith("test_"):
                run_tests(name[1], text.count("\ndef test_"))
        elif language == "python":
            exec(compile("\n" * (line - 1) + text, str(page), "exec"), namespace)
        elif language == "console":
            for command in commands(text):
                if not has_placeholder(command):
                    run(command)


def run_tests(file: str, count: int) -> None:
    """Runs a test file; all of its tests pass, or fail where they say so (xfail)."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    assert result.returncode == 0, result.stdout
    assert count and sum(map(int, re.findall(r"(\d+) (?:passed|xfailed)", result.stdout))) == count, result.stdout


def run(command: str) -> None:
    """Runs ``hockeystick ...`` and compares its exit status with the one that the page promises."""
    program, *arguments = shlex.split(command, comments=True)
    assert program == "hockeystick"
    promised = re.search(r"# exit status (\d)", command)
    result = CliRunner().invoke(cli, arguments)

    assert result.exit_code == (int(promised[1]) if promised else 0), result.output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_forms_of_commands_name_options_that_exist(page: Path) -> None:
    for command in (one for language, text, _ in blocks(page) if language == "console" for one in commands(text)):
        program, *words = shlex.split(command, comments=True)
        assert program == "hockeystick"
        path = list(itertools.takewhile(lambda word: re.fullmatch("[a-z][a-z-]*", word), words))
        help_text = CliRunner().invoke(cli, [*path, "--help"])
        assert help_text.exit_code == 0, command
        for option in re.findall(r"--[a-z][\w-]*", command):
            assert re.search(rf"{option}\b", help_text.output), f"{command}: no {option}"


def test_the_checks_find_something() -> None:
    readme = list(blocks(ROOT / "README.md"))

    assert {language for language, _, _ in readme} == {"python", "console", "bash"}
    assert has_placeholder("hockeystick account GRAPH.json --delta D")
    assert not has_placeholder("hockeystick account graph.json --delta 1e-6")
    assert commands("$ hockeystick account\n      g.json\noutput\n$ hockeystick demo\n") == [
        "hockeystick account g.json",
        "hockeystick demo",
    ]
