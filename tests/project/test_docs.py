"""Every code block of the documentation runs, every command in it exists, every link leads somewhere.

Blocks are read by their language. ``python`` is executed, all blocks of a page in one namespace; a block whose first
line is ``# NAME.py`` becomes that file, and is run by pytest if it is a test; one whose first line is ``# needs NAME``
is left out, visibly, where that package is not installed. ``console`` holds commands after a ``$``:
of one that is written with placeholders (``--epsilon E``) the options are looked up in the command's help; any other is
run, and ends with status 0 or with the one that a comment ``# exit status N`` promises. Such a command may be pytest:
it runs a test file of the page in place of the plain run. ``text`` is what the ``python`` block or the command before
it prints, if there is one: these lines in this order, where `` ...`` stands for the rest of a line and seconds may be
others.
``bash`` is for readers' own shells (environments, hours of work, servers): its programs and the options of ours are
looked up; README.md's is what .ci/run does. ``yaml`` and ``toml`` are read.
"""

from __future__ import annotations

import io
import itertools
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from hockeystick._cli.program import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_has_a_language_that_is_checked(page: Path) -> None:
    assert {language for language, _, _ in blocks(page)} <= {"python", "console", "bash", "text", "yaml", "toml"}


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings: lower case, words joined by dashes, a number behind those that come again."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    slugs = [
        re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        for title in re.findall(r"^#{1,6} (.*)$", text, re.MULTILINE)
    ]
    seen: Counter[str] = Counter()
    found = set()
    for slug in slugs:
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(found)


def dead_links(page: Path, prose: str) -> list[str]:
    """Links to a file or a heading that is not there."""
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if not target.startswith("https://"):
            file, _, anchor = target.partition("#")
            there = (page.parent / file).resolve() if file else page
            if not there.exists() or (anchor and anchor not in anchors(there)):
                dead.append(target)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert dead_links(page, prose) == []
    for named in re.findall(r"`((?:docs|tests|benchmarks|accounting|mechanisms|learners|audits)/[\w/]+\.\w+)`", prose):
        if "NAME" not in named:
            assert (ROOT / named).exists(), named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "docs"}
    absent: list[str] = []
    printed: str | None = None
    for language, text, line in blocks(page):
        name = re.match(r"# (\w+\.py)\n", text)
        if language == "python" and (package := missing(text)):
            absent.append(f"{package} (line {line})")
            printed = None
        elif language == "python" and name:
            Path(name[1]).write_text(text, encoding="utf-8")
            if name[1].startswith("test_") and not is_run_by_a_command(page, name[1]):
                run_tests(name[1], text.count("\ndef test_"))
        elif language == "python":
            with redirect_stdout(io.StringIO()) as output:
                exec(compile("\n" * (line - 1) + text, str(page), "exec"), namespace)
            printed = output.getvalue()
        elif language == "text" and printed is not None:
            assert not_printed(text, printed) == []
        elif language == "console":
            for command in commands(text):
                if not has_placeholder(command):
                    printed = run(command)
    if absent:
        pytest.skip(f"all other blocks ran; not installed: {', '.join(absent)}")


def not_printed(text: str, printed: str) -> list[str]:
    """Lines of a block that are not among those that were printed after the ones before them."""
    lines, lacking = iter(printed.splitlines()), []
    for line in text.splitlines():
        start, shortened, _ = line.partition(" ...")
        pattern = re.sub(r"\d+\.\d\d s$", "SECONDS s", start)
        pattern = re.escape(pattern).replace("SECONDS", r"\d+\.\d\d") + (".*" if shortened else "")
        if not any(re.fullmatch(pattern, one) for one in lines):
            lacking.append(line)
    return lacking


def missing(block: str) -> str | None:
    """The package that a block says it needs, where it is not installed."""
    named = re.match(r"# needs (\w+)\n", block)
    return named[1] if named and find_spec(named[1]) is None else None


def is_run_by_a_command(page: Path, file: str) -> bool:
    """Whether the page itself shows how pytest is called on its test file."""
    shown = [command for language, text, _ in blocks(page) if language == "console" for command in commands(text)]
    return any(command.startswith("pytest ") and file in shlex.split(command) for command in shown)


def run_tests(file: str, count: int) -> None:
    """Runs a test file; all of its tests pass, or fail where they say so (xfail)."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    assert result.returncode == 0, result.stdout
    assert count and sum(map(int, re.findall(r"(\d+) (?:passed|xfailed)", result.stdout))) == count, result.stdout


def run(command: str) -> str:
    """Runs ``hockeystick ...`` or ``pytest ...``, compares its status with the promised one, returns the output."""
    program, *arguments = shlex.split(command, comments=True)
    assert program in ("hockeystick", "pytest")
    promised = re.search(r"# exit status (\d)", command)
    if program == "pytest":
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        status, output = ended.returncode, ended.stdout
    else:
        result = CliRunner().invoke(cli, arguments)
        status, output = result.exit_code, result.output

    assert status == (int(promised[1]) if promised else 0), output
    return output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_forms_of_commands_name_options_that_exist(page: Path) -> None:
    for command in (one for language, text, _ in blocks(page) if language == "console" for one in commands(text)):
        program, *words = shlex.split(command, comments=True)
        if program == "pytest" and not has_placeholder(command):
            continue  # it is run
        assert program == "hockeystick"
        path = list(itertools.takewhile(lambda word: re.fullmatch("[a-z][a-z-]*", word), words))
        help_text = CliRunner().invoke(cli, [*path, "--help"])
        assert help_text.exit_code == 0, command
        for option in re.findall(r"--[a-z][\w-]*", command):
            assert re.search(rf"{option}\b", help_text.output), f"{command}: no {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_programs_and_options_for_the_reader_exist(page: Path) -> None:
    """In ``bash``: our modules, and the options that they are given. Programs of others are on a list."""
    others = {
        "curl",
        "pip",
        "python",
        "python3",
        "export",
        "ruff",
        "mypy",
        "sphinx-build",
        "flwr",
        "flower-superlink",
        "flower-supernode",
        "openssl",
    }
    for language, text, _ in blocks(page):
        if language != "bash":
            continue
        for command in re.split(r"\n|&&", text.replace("\\\n", " ")):
            program, *words = shlex.split(command, comments=True) or ["export"]
            program = Path(program).name
            module = words[1] if program == "python" and words[0] == "-m" else program
            if module in ("pytest", "hockeystick"):
                source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "hockeystick").rglob("*.py"))
            elif module.startswith("benchmarks."):
                source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
            else:
                assert program in others, command
                continue
            for option in re.findall(r"--[a-z][\w-]*", command):
                assert option in source, f"{command}: no {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_settings_can_be_read(page: Path) -> None:
    for language, text, _ in blocks(page):
        if language in ("yaml", "toml"):
            assert isinstance(yaml.safe_load(text) if language == "yaml" else tomllib.loads(text), dict)


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title, with ε\n\n## Twice\n\n## Twice\n", encoding="utf-8")
    links = (
        "[a](#a-title-with-ε) [b](page.md#twice-1) [c](page.md#twice-2) [d](other.md) [e](#twice) [f](https://a.b/c)"
    )

    assert dead_links(page, links) == ["page.md#twice-2", "other.md"]


def test_lines_that_were_not_printed_are_found() -> None:
    printed = "claim\nseed 7, 0.12 s\nwarning: (a. b) and so on\n"

    assert not_printed("claim\nseed 7, 9.34 s\nwarning: (a. b) ...\n", printed) == []
    assert not_printed("claim\nseed 8, 9.34 s\n", printed) == ["seed 8, 9.34 s"]
    assert not_printed("warning: (a. b)\n", printed) == ["warning: (a. b)"]
    assert not_printed("seed 7, 0.12 s\nclaim\n", printed) == ["claim"]


def test_the_parts_of_the_checks_work() -> None:
    readme = list(blocks(ROOT / "README.md"))

    assert {language for language, _, _ in readme} == {"python", "text", "console", "bash"}
    assert has_placeholder("hockeystick account GRAPH.json --delta D")
    assert not has_placeholder("hockeystick account graph.json --delta 1e-6")
    assert commands("$ hockeystick account\n      g.json\noutput\n$ hockeystick demo\n") == [
        "hockeystick account g.json",
        "hockeystick demo",
    ]
