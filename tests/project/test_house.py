"""Tests of the checks of the structure, each on a fault, and of two rules more: readers of files, and random numbers.

The checkout itself is checked by ``.ci/house.py`` and ``lint-imports``, which .ci/run calls before these tests.
"""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import networkx as nx
import pytest

ROOT = Path(__file__).parents[2]
RANDOM = ("random", "secrets", "numpy.random")

pytestmark = pytest.mark.skipif(not (ROOT / ".ci" / "house.py").exists(), reason="is no checkout")


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", ROOT / ".ci" / "house.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def contracts() -> list[dict[str, Any]]:
    """The contracts of ``lint-imports``."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(config["tool"]["importlinter"]["contracts"])


@pytest.fixture(scope="module")
def lint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], subprocess.CompletedProcess[str]]:
    """Runs ``lint-imports``; modules are read once for all configurations."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--cache-dir", str(tmp_path_factory.mktemp("imports"))]

    def run(config: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, "--config", str(config)], capture_output=True, text=True, cwd=config.parent)

    return run


def test_an_inverted_floor_is_detected(
    lint: Callable[[Path], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    contract = next(one for one in contracts() if one["name"] == "accounting")
    layers = contract["layers"][::-1]
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_package = "hockeystick"\n[[tool.importlinter.contracts]]\nname = "x"\n'
        f'type = "layers"\ncontainers = ["hockeystick.accounting"]\nlayers = {layers}\n'
    )
    found = lint(tmp_path / "pyproject.toml")

    assert found.returncode == 1 and "is not allowed to import" in " ".join(found.stdout.split())


def test_every_package_of_packages_has_floors() -> None:
    """But for those whose folders do not know each other's names, or hold one folder."""
    floors = {container for one in contracts() if one["type"] == "layers" for container in one["containers"]}
    assert all(one["exhaustive"] for one in contracts() if one["type"] == "layers")

    assert {f"hockeystick.{part}" for part in ("accounting", "mechanisms", "learners", "audits")} | {
        "hockeystick"
    } <= floors


def test_modules_that_import_each_other_are_found(house: ModuleType) -> None:
    graph = house.arrows()

    assert graph.number_of_edges() > 2000
    assert house.cycles(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])) == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("x * (1 + 1e-12)", True),
        ("x * (1.0 - 2.0**-40)", True),
        ("x + 4e-16", True),
        ("1.01 * x", True),
        ("16 * U * x", True),
        ("x + 1e-12 * abs(x)", True),
        ("2.0 * x + 1.0", False),
        ("x * 1e-12", False),
        ("x / -1", False),
        ("x > y * (1 + 1e-12)", False),
        ("'a' * 2", False),
    ],
)
def test_factors_against_round_off_are_found(house: ModuleType, line: str, found: bool) -> None:
    assert list(house.safety_factors(f"{line}\n").values()) == [False] * found
    far = "\n" * (house.NEAR + 1)
    assert not any(house.safety_factors(f"# why{far}y = {line}\n").values())
    assert all(house.safety_factors(f"# why\n\n\ny = {line}\n").values())


def test_violations_of_a_rule_are_found(house: ModuleType, tmp_path: Path) -> None:
    for part in (*house.PARTS, "tests", "benchmarks"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "__init__.py").write_text('"""Is for this."""\n')
    (tmp_path / "audits" / "__init__.py").write_text("")
    for i in range(16):
        (tmp_path / "learners" / f"m{i}.py").write_text("")
    (tmp_path / "mechanisms" / "long.py").write_text("def f():\n" + "    x = 1\n" * 81)

    assert house.crowded(tmp_path) == {"learners": 16}
    assert house.without_sentence(tmp_path) == ["audits"]
    assert house.long_functions(tmp_path) == {"mechanisms/long.py:f": 81}


def test_a_name_means_a_module_or_a_function(house: ModuleType, tmp_path: Path) -> None:
    for part in house.PARTS:
        (tmp_path / part).mkdir()
    (tmp_path / "audits" / "__init__.pyi").write_text("from . import events\nfrom .rooms.walls import wall as wall\n")
    codes = {"events": "x = 1", "wall": "x = 1", "door": "def door(): ...", "roof": "class Roof: ..."}
    for name, code in codes.items():
        (tmp_path / "audits" / f"{name}.py").write_text(f"{code}\n")

    assert house.named_twice(tmp_path) == ["audits/door.py", "audits/wall.py"]


def test_public_names_have_examples(house: ModuleType, tmp_path: Path) -> None:
    for part in house.PARTS:
        (tmp_path / part).mkdir()
    names = ("Bare", "Shown", "Elsewhere", "OtherError")
    (tmp_path / "audits" / "__init__.pyi").write_text("".join(f"from .x import {one} as {one}\n" for one in names))
    docs = ("One.", "One.\n\n    >>> 1\n    1\n    ", "One. See ``Shown``.", "One.")
    classes = (f'class {name}:\n    """{doc}"""\n' for name, doc in zip(names, docs, strict=True))
    (tmp_path / "audits" / "x.py").write_text("\n".join(classes))

    assert house.without_example(tmp_path) == ["audits/x.py:Bare"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""What it costs."""', 1),
        ('def f():\n    """How far two laws are apart."""', 1),
        ('raise ValueError("x is no number")', 1),
        ('"""Needs a seed. Without it a new one is drawn."""', 1),
        ('"""The laws with the record and without it."""', 0),
        ('"""The cost."""', 0),
        ('def f():\n    """Whether it ends."""', 0),
        ('raise ValueError("there is no file; y is no larger than z")', 0),
    ],
)
def test_forbidden_wording_is_found(house: ModuleType, text: str, found: int) -> None:
    assert len(house.wording(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("## What is protected\n", ["What is protected"]),
        ("## Which one is mine?\n## Sampling\n", []),
        ("A median is no mean.\n", ["is no mean."]),
        ("Give a seed:\nwithout it, one is drawn.\n", [": without it, one is drawn."]),
        ("There is no mean. It is no more than 3.\n", []),
        ("```python\n# What is this\nx = 'is no y'\n```\n`is no y`\n| is no y |\n", []),
    ],
)
def test_forbidden_wording_of_pages_is_found(house: ModuleType, text: str, found: list[str]) -> None:
    assert house.page_wording(text) == found


def test_folders_that_import_each_other_are_found(house: ModuleType) -> None:
    graph = nx.DiGraph([("p.a.one", "p.b.two"), ("p.b.three", "p.a.four"), ("p.b.two", "p.b.three")])

    assert house.cycles(graph) == []
    assert house.cycles(house.between_folders(graph)) == [["p.a", "p.b"]]


def test_code_is_counted_without_comments_and_docstrings(house: ModuleType, tmp_path: Path) -> None:
    for part in house.PARTS:
        (tmp_path / part).mkdir()
    (tmp_path / "audits" / "x.py").write_text(
        '"""Doc.\n\nMore.\n"""\n\n# comment\nx = """a\nb"""\n\n\ndef f():\n    """Doc."""\n'
    )

    assert house.code_lines(tmp_path) == 3


READS = {
    "accounting/files": "the checked readers",
    "accounting/budgets": "rows of a ledger, whose digests were checked",
    "audits/targets/array_files.py": "the checked reader of arrays",
    "audits/drawing": "pickles and states of this process and its workers",
    "audits/catalogue/run.py": "pickles of this process and its workers",
    "audits/neighbours/journal.py": "lines of a journal",
    "audits/sequential/evidence_ledger.py": "rows of a ledger, whose digests were checked",
    "audits/replay": "graphs of this process, and pickles that are compared",
    "audits/systems/programs.py": "data of the audit itself",
    "audits/systems/wire.py": "data of the audit itself",
    "hockeystick/_guess/names.py": "lists of names in the package",
    "mechanisms/counts/cell_sums.py": "weights in the package, whose digest is checked",
    "hockeystick/_runs": "graphs of this process",
    "hockeystick/_pytest/session.py": "records of this process and its workers",
    "hockeystick/_pytest/budget_fixture.py": "graphs of this process",
    "hockeystick/_files/named_callables.py": "digests of source files",
    "hockeystick/_cli/frame/audit_targets.py": "digests of source files",
    "hockeystick/_report/forms/html.py": "the template in the package",
    "accounting/graph/certificate.py": "a graph of this process, and digests of source files",
    "hockeystick_verify/documents.py": "the checker's own reader, which shares no code with the rest",
    "hockeystick_verify/__main__.py": "bytes of at most 16 MiB for that reader",
}
"""Where files are opened, or texts parsed, besides the checked readers, and why that is safe."""


READING = {"read_text", "read_bytes", "genfromtxt", "loadtxt", "read_csv", "read_table", "open", "fdopen"}
LOADING = {"json", "np", "numpy", "pickle", "tomllib", "marshal"}


def readings(path: Path) -> Iterator[str]:
    """The calls in a file that read a file or parse what one holds; ``open`` only where it does not write."""
    text = path.read_text(encoding="utf-8")
    if not any(f"{name}(" in text for name in (*READING, "load", "loads")):
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name, given = ast.unparse(node.func), {ast.unparse(one) for one in node.args}
        owner, _, last = name.rpartition(".")
        if owner in ("reading", "os", "opener", "DurableLedger", "cls") or given & {"'wb'", "'ab'", "'w'", "'a'"}:
            continue
        if (last in READING and (owner or last == "open")) or (last in ("load", "loads") and owner in LOADING):
            yield name


def test_files_are_read_by_the_checked_readers(house: ModuleType, tmp_path: Path) -> None:
    """That is, with sizes, types and errors checked: see ``accounting/files/reading.py``."""
    found = {
        file.relative_to(ROOT).as_posix(): names
        for part in house.PARTS
        for file in house.sources(part)
        if (names := list(readings(file))) and not file.relative_to(ROOT).as_posix().startswith(tuple(READS))
    }
    assert found == {}, "read files by hockeystick.accounting.files.reading"
    probe = tmp_path / "probe.py"
    probe.write_text("json.loads(x); Path(x).read_text(); open(x); np.load(x); open(x, 'wb'); reading.read_text(x)\n")
    assert list(readings(probe)) == ["json.loads", "Path(x).read_text", "open", "np.load"]


def imported(path: Path) -> Iterator[str]:
    """Full dotted names of all that a file imports, and of ``np.random``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy"):
            yield f"numpy.{node.attr}"


def drawing(folder: Path) -> list[str]:
    """Files of a folder that draw numbers."""
    return [
        f"{path.relative_to(folder)} imports {name}"
        for path in sorted(folder.rglob("*.py"))
        for name in imported(path)
        if any(name == one or name.startswith(f"{one}.") for one in RANDOM)
    ]


def test_accounting_does_not_draw_random_numbers() -> None:
    assert drawing(ROOT / "accounting") == []


@pytest.mark.parametrize(
    "text",
    [
        "import random",
        "from numpy.random import default_rng",
        "from numpy import random",
        "import numpy as np\nrng = np.random.default_rng()",
    ],
)
def test_a_random_draw_in_accounting_is_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(text)

    assert len(drawing(tmp_path)) == 1
