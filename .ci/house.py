#!/usr/bin/env python3
"""Says how the house stands: folders, arrows, cycles, lines, functions, the time that imports take.

    .ci/house.py

The exit status is 1 if a rule is broken. Which folder may import which stands in pyproject.toml and is held by
``lint-imports``; complexity is held by ruff. Needs the extra ``dev``.
"""

from __future__ import annotations

import ast
import functools
import gc
import io
import itertools
import os
import re
import resource
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import grimp
import networkx as nx

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("accounting", "mechanisms", "learners", "audits", "hockeystick", "hockeystick_verify")
MODULES = 15  # of one folder
FUNCTION = 80  # lines of one function, without its docstring
NEAR = 3  # lines from a factor to the comment that gives its reason
UNEXPLAINED = 0  # factors of the product that may be without one
LINES = {"code": 91_500, "product": 155_000, "tests": 118_000, "benchmarks": 19_000}
WITHOUT_EXAMPLE = 0  # public names whose docstring has neither an example nor a word of where there is one
QUESTION = re.compile(r"(What|How|Who|Whose|Where|Which) ")  # "Whether" is how the docstring of a bool begins
INDIRECT = re.compile(r"(What|How|Who|Whose|Where|Which|Why|When|Whether) ")
NO_NOUN = re.compile(
    r"(?<!there )(?<!There )\b(is|are|was|were) no "
    r"(?!more|less|longer|shorter|smaller|larger|worse|better|easier|harder|greater|higher|lower|wider|fewer|one)"
)
WITHOUT = re.compile(r"[.;:]\s+[Ww]ithout (it|them)\b")  # by default; "with the record and without it" is well said
EXAMPLE = re.compile(r">>>|\b[Ss]ee(?: also)?\s+(?::\w+:)?`|has an example|is an example|see there")


def sources(part: str, root: Path = ROOT) -> Iterator[Path]:
    """The Python files of a folder of the root, without what lies behind a link."""
    for folder, names, files in os.walk(root / part):  # it follows no link
        names.sort()
        yield from (Path(folder) / file for file in sorted(files) if file.endswith(".py"))


@functools.cache
def tree_of(text: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(text)


@functools.cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """The nodes of that tree: several rules read all of them, and to walk the trees is most of the work here."""
    return tuple(ast.walk(tree_of(text)))


def crowded(root: Path = ROOT) -> dict[str, int]:
    """Folders with more modules than a folder may have."""
    count: dict[str, int] = {}
    for part in (*PARTS, "tests", "benchmarks"):
        for file in sources(part, root):
            if file.name != "__init__.py":
                name = file.parent.relative_to(root).as_posix()
                count[name] = count.get(name, 0) + 1
    return {name: number for name, number in count.items() if number > MODULES}


def long_functions(root: Path = ROOT) -> dict[str, int]:
    """Functions of the product with more lines than one may have."""
    found = {}
    for part in PARTS:
        for file in sources(part, root):
            for node in nodes_of(file.read_text(encoding="utf-8")):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    lines = (node.end_lineno or 0) - node.lineno - len((ast.get_docstring(node) or "").splitlines())
                    if lines > FUNCTION:
                        found[f"{file.relative_to(root).as_posix()}:{node.name}"] = lines
    return found


def _constant(node: ast.expr) -> float | None:
    """The value of an expression of numbers alone."""
    names = [
        inner for inner in ast.walk(node) if not isinstance(inner, (ast.Constant, ast.UnaryOp, ast.BinOp, ast.USub))
    ]
    if any(isinstance(inner, ast.expr) for inner in names):
        return None
    try:
        return float(eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}))
    except (ArithmeticError, TypeError, ValueError):
        return None


def _is_safety_factor(node: ast.AST) -> bool:
    """Whether it multiplies by a number near 1 or by round-off, or adds a tiny number."""
    if isinstance(node, ast.BinOp):
        operands = [node.left, node.right]
    elif isinstance(node, ast.AugAssign):
        operands = [node.value]
    else:
        return False
    for operand in operands:
        named = isinstance(operand, (ast.Name, ast.Attribute)) and ast.unparse(operand) in ("U", "directed_rounding.U")
        if named and isinstance(node.op, (ast.Mult, ast.Add, ast.Sub)):
            return True
        value = abs(_constant(operand) or 0.0)
        if isinstance(node.op, (ast.Mult, ast.Div)) and 0.0 < abs(value - 1.0) <= 0.0201:
            return True
        if isinstance(node.op, (ast.Add, ast.Sub)):
            tiny = [value, *(abs(_constant(x) or 0.0) for x in _factors(operand))]
            if any(1e-20 <= x <= 1e-6 for x in tiny):
                return True
    return False


def _factors(node: ast.expr) -> list[ast.expr]:
    return [node.left, node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else []


def safety_factors(text: str) -> dict[int, bool]:
    """The lines with factors against round-off, and whether a comment or a docstring of a name is near.

    Comparisons say what is near enough; they are left out, and so are the conditions of loops.
    """
    nodes = nodes_of(text)
    factors = [node for node in nodes if isinstance(node, (ast.BinOp, ast.AugAssign)) and _is_safety_factor(node)]
    if not factors:
        return {}
    near = {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith(("# type:", "# noqa"))
    }
    bodies = [node.body for node in nodes if isinstance(node, (ast.Module, ast.ClassDef))]
    near |= {
        after.lineno
        for body in bodies
        for before, after in itertools.pairwise(body)
        if isinstance(before, (ast.Assign, ast.AnnAssign)) and isinstance(after, ast.Expr)
    }
    compared = {id(inner) for node in nodes if isinstance(node, ast.Compare) for inner in ast.walk(node)}
    return {
        node.lineno: any(abs(line - node.lineno) <= NEAR for line in near)
        for node in factors
        if id(node) not in compared
    }


def unexplained(root: Path = ROOT) -> tuple[list[str], int]:
    """Where factors against round-off are without a reason, and how many there are in all."""
    found = {
        f"{file.relative_to(root).as_posix()}:{line}": said
        for part in PARTS
        for file in sources(part, root)
        for line, said in safety_factors(file.read_text(encoding="utf-8")).items()
    }
    return [place for place, said in found.items() if not said], len(found)


def without_sentence(root: Path = ROOT) -> list[str]:
    """Folders of the product whose ``__init__.py`` does not say what the folder is for."""
    folders = sorted({file.parent for part in PARTS for file in sources(part, root)})
    said = {folder: folder / "__init__.py" for folder in folders}
    return [
        folder.relative_to(root).as_posix()
        for folder, file in said.items()
        if not file.exists() or not ast.get_docstring(tree_of(file.read_text(encoding="utf-8")))
    ]


def wording(text: str) -> list[str]:
    """Sentences of docstrings and other strings of a module that no English engineer would write."""
    found = []
    for node in nodes_of(text):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = (ast.get_docstring(node) or "").split("\n")[0]
            found += [first] if QUESTION.match(first) else []
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            matches = [*NO_NOUN.finditer(node.value), *WITHOUT.finditer(node.value)]
            found += [match.string[match.start() :][:60] for match in matches]
    return found


def page_wording(text: str) -> list[str]:
    """Headings and sentences of a page of the documentation that no English engineer would write.

    A heading is a noun, an instruction or a question with its mark. Code, and tables of measured results, are left out.
    """
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`|^\|.*$", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,6} (.*)$", prose, re.MULTILINE)
    found = [heading for heading in headings if INDIRECT.match(heading) and not heading.endswith("?")]
    matches = [*NO_NOUN.finditer(prose), *WITHOUT.finditer(prose)]
    return found + [" ".join(prose[match.start() :].split())[:60] for match in matches]


def pages() -> list[Path]:
    """The pages of the documentation, and those at the root."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def _linked(file: Path, root: Path) -> bool:
    """Says whether a file lies behind a link."""
    return file.resolve() != root.resolve() / file.relative_to(root)


def without_example(root: Path = ROOT) -> list[str]:
    """Public classes and functions without an example, or a word of where there is one; errors need none."""
    found = set()
    for part in PARTS:
        for face in sorted(path for path in (root / part).rglob("__init__.pyi") if not _linked(path, root)):
            for source, name in re.findall(r"^from \.(\S+) import (\w+) as", face.read_text(encoding="utf-8"), re.M):
                file = face.parent / f"{source.replace('.', '/')}.py"
                nodes = tree_of(file.read_text(encoding="utf-8")).body if file.is_file() else []
                for node in nodes:
                    named = isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name
                    if named and not EXAMPLE.search(ast.get_docstring(node) or ""):
                        found.add(f"{file.relative_to(root).as_posix()}:{name}")
    return sorted(place for place in found if not place.endswith("Error"))


def named_twice(root: Path = ROOT) -> list[str]:
    """Modules named like a class or function that they define, or that their package's face takes from elsewhere.

    Such a name would mean one or the other in the package, depending on what was imported first.
    """
    found = []
    for file in (file for part in PARTS for file in sources(part, root)):
        face = file.parent / "__init__.pyi"
        shown = re.findall(r"^from \.\S+ import (\w+)", face.read_text(encoding="utf-8"), re.M) if face.exists() else []
        defined = [
            node.name
            for node in tree_of(file.read_text(encoding="utf-8")).body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        found += [file.relative_to(root).as_posix()] if file.stem in (*shown, *defined) else []
    return found


def code_lines(root: Path = ROOT) -> int:
    """The number of lines of the product that are neither blank, nor comments, nor docstrings."""
    number = 0
    for file in (file for part in PARTS for file in sources(part, root)):
        text = file.read_text(encoding="utf-8")
        described = {
            line
            for node in nodes_of(text)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        lines = enumerate(text.splitlines(), 1)
        number += sum(bool(line.strip()) and line.strip()[0] != "#" and i not in described for i, line in lines)
    return number


def arrows() -> nx.DiGraph:
    """Which module imports which, in functions and for type checkers too."""
    graph = grimp.build_graph("hockeystick", "hockeystick_verify", cache_dir=None)
    return nx.DiGraph((one, other) for one in graph.modules for other in graph.find_modules_directly_imported_by(one))


def cycles(graph: nx.DiGraph) -> list[list[str]]:
    """The groups of modules that import each other, by however long a way."""
    return [sorted(group) for group in nx.strongly_connected_components(graph) if len(group) > 1]


def between_folders(graph: nx.DiGraph) -> nx.DiGraph:
    """The arrows between the folders of the modules; a package is its own folder."""
    packages = {module.rpartition(".")[0] for module in graph}
    folder = {module: module if module in packages else module.rpartition(".")[0] for module in graph}
    pairs = ((folder[a], folder[b]) for a, b in graph.edges)
    return nx.DiGraph((a, b) for a, b in pairs if a != b)


def lines(root: Path = ROOT) -> dict[str, int]:
    """The number of lines of the product's code, and of all the product, its tests and its benchmarks."""
    told = {"product": PARTS, "tests": ("tests",), "benchmarks": ("benchmarks",)}
    return {"code": code_lines(root)} | {
        name: sum(len(file.read_text(encoding="utf-8").splitlines()) for part in parts for file in sources(part, root))
        for name, parts in told.items()
    }


def import_seconds(module: str) -> float:
    """Processor seconds that importing a module takes in a fresh interpreter."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Prints the facts; returns 1 if a rule is broken."""
    gc.disable()  # the trees stay: to look through them for garbage takes as long as to read them
    graph = arrows()
    folders = between_folders(graph)
    modules = sum(1 for part in PARTS for file in sources(part) if file.name != "__init__.py")
    print(f"{modules} modules in {folders.number_of_nodes()} folders; {graph.number_of_edges()} arrows between modules")
    print(f"{folders.number_of_edges()} arrows between folders")
    for module in ("hockeystick", "hockeystick.accounting", "hockeystick.learners.lazy.experts.lazy_experts"):
        print(f"import {module}: {import_seconds(module):.2f} CPU s")
    counted = lines()
    print("; ".join(f"{name} {number} lines of {LINES[name]}" for name, number in counted.items()))
    bare, factors = unexplained()
    print(f"{factors} factors against round-off, {len(bare)} of them without a reason near by")
    broken = bare if len(bare) > UNEXPLAINED else []
    broken = [f"{place}: a factor, and no comment says which round-off it covers" for place in broken]
    bare = without_example()
    print(f"{len(bare)} public names without an example")
    broken += [f"{name}: no example" for name in (bare if len(bare) > WITHOUT_EXAMPLE else [])]
    broken += [
        f"{file.relative_to(ROOT).as_posix()}: {sentence!r} is not plain English"
        for part in PARTS
        for file in sources(part)
        for sentence in wording(file.read_text(encoding="utf-8"))
    ]
    broken += [
        f"{file.relative_to(ROOT).as_posix()}: {sentence!r} is not plain English"
        for file in pages()
        for sentence in page_wording(file.read_text(encoding="utf-8"))
    ]
    broken += [f"{folder} has {number} modules" for folder, number in crowded().items()]
    broken += [f"{name} has {number} lines" for name, number in long_functions().items()]
    broken += [f"{folder}/__init__.py does not say what it is for" for folder in without_sentence()]
    broken += [f"{file} is named like a class or function of its package" for file in named_twice()]
    broken += [f"these import each other: {', '.join(group)}" for group in cycles(graph)]
    broken += [f"these folders import each other: {', '.join(group)}" for group in cycles(folders)]
    broken += [f"{name} has {number} lines" for name, number in counted.items() if number > LINES[name]]
    print("\n".join(broken) or "The house stands.")
    return bool(broken)


if __name__ == "__main__":
    raise SystemExit(main())
