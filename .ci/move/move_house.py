"""Moves every module to its floor (house.tsv: old path, new path) and rewrites all that names it.

    python move_house.py CHECKOUT && cd CHECKOUT && ruff check --fix --select I,F401 . && ruff format .

Imports become absolute. A module that is imported as a name takes its new name, unless that is taken in the file.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from collections import OrderedDict
from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).parent
PARTS = ("accounting", "mechanisms", "learners", "audits")
MOVED = dict(line.split("\t") for line in (HERE / "house.tsv").read_text().splitlines())
TEXT = {".py", ".md", ".toml", ".yml", ".txt", ".cfg", ".in", ".html", ".json", ".sh", ""}


def module_of(path: str) -> str | None:
    """The dotted name of a file of the product or of benchmarks/."""
    if not path.endswith(".py"):
        return None
    parts = path[:-3].split("/")
    if parts[0] in PARTS:
        parts = ["hockeystick", *parts]
    if parts[0] not in ("hockeystick", "benchmarks"):
        return None
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {m: module_of(new) for old, new in MOVED.items() if (m := module_of(old))}
PACKAGES = {m for old in MOVED if old.endswith("__init__.py") and (m := module_of(old))}
PUBLIC = {"hockeystick.estimators"}  # becomes a folder with the same face
DOTTED = {m: n for m, n in MODULES.items() if m not in PACKAGES | PUBLIC and n != m}
# A name that a face gives away is no module: `from hockeystick.audits import audit` is the function.
exported: dict[str, set[str]] = {}
homes: dict[str, set[str]] = {}  # package -> modules whose names it gives away


def exports(root: Path) -> None:
    for package in PACKAGES:
        path = root / (
            "/".join(
                package.split(".")[1:] if package.count(".") and package.split(".")[1] in PARTS else package.split(".")
            )
            + "/__init__.py"
        )
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                base = absolute(package, True, node)
                homes.setdefault(package, set()).add(str(base))
                names |= {a.asname or a.name for a in node.names if f"{base}.{a.name}" not in MODULES}
            elif isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "_HOME" for t in node.targets
            ):
                assert isinstance(node.value, ast.Dict)
                names |= {k.value for k in node.value.keys if isinstance(k, ast.Constant)}
        exported[package] = names | ({"chain", "sparse_vector"} if package == "hockeystick.accounting" else set())


def absolute(module: str | None, is_package: bool, node: ast.ImportFrom) -> str | None:
    if not node.level:
        return node.module
    if module is None:
        return None
    above = module.split(".")
    above = above[: len(above) - node.level + is_package]
    return ".".join(above + ([node.module] if node.module else []))


dotted = re.compile(
    r"(?<![\w./])(" + "|".join(re.escape(m) for m in sorted(DOTTED, key=len, reverse=True)) + r")(?!\w)"
)
PATHS = {old: new for old, new in MOVED.items() if old != new}
paths = re.compile(
    r"(?<![\w./-])((?:hockeystick/(?=accounting/|mechanisms/|learners/|audits/))?)("
    + "|".join(re.escape(m) for m in sorted(PATHS, key=len, reverse=True))
    + r")(?!\w)"
)
called = re.compile(r"""\b(benchmark|experiment_script)\("(\w+)"\)""")
STEMS: dict[tuple[str, str], str] = {}
for old, new in MOVED.items():
    part, _, name = old.rpartition("/")
    if part in (*PARTS, "hockeystick"):
        STEMS[part, name] = new[len(part) + 1 :]
stems = re.compile(r"``(\w+\.py)``")


def words(text: str, old: str) -> str:
    """Rewrites names of modules and paths in text that is no import."""

    def known(m: re.Match[str]) -> str:
        package, _, name = m[1].rpartition(".")
        of_the_face = name in exported.get(package, ()) and not text[m.end() : m.end() + 1] == "."
        return m[1] if of_the_face else DOTTED[m[1]]

    text = dotted.sub(known, text)
    text = paths.sub(lambda m: m[1] + PATHS[m[2]], text)
    part = old.split("/")[0]
    text = stems.sub(lambda m: f"``{STEMS.get((part, m[1]), m[1])}``", text)

    def script(m: re.Match[str]) -> str:
        before = "benchmarks." if m[1] == "benchmark" else "benchmarks.experiments."
        return f'{m[1]}("{DOTTED.get(before + m[2], before + m[2])[len(before) :]}")'

    return called.sub(script, text)


def plain(text: str, old: str) -> str:
    """Rewrites text with `from package import module` lines in it, such as pages."""

    def line(m: re.Match[str]) -> str:
        names = [n.strip() for n in m[2].split(",")]
        out: OrderedDict[str, list[str]] = OrderedDict()
        for name in names:
            full = f"{m[1]}.{name}"
            if full in DOTTED and name not in exported.get(m[1], ()):
                home, _, leaf = DOTTED[full].rpartition(".")
                out.setdefault(home, []).append(leaf)
            else:
                out.setdefault(DOTTED.get(m[1], m[1]), []).append(name)
        before = text[: m.start()].rpartition("\n")[2]
        newline = (
            "\\n" if before.count('"') % 2 and '"""' not in before else "\n" + (before if before.isspace() else "")
        )
        return newline.join(f"from {home} import {', '.join(ns)}" for home, ns in out.items())

    pieces, at = [], 0
    for m in re.finditer(r"from (hockeystick(?:\.\w+)?) import (\w+(?:, \w+)*)", text):
        pieces += [words(text[at : m.start()], old), line(m)]
        at = m.end()
    return "".join(pieces) + words(text[at:], old)


def blocks(text: str) -> str:
    """The words of ``public-api`` blocks are modules of a package, or patterns of them."""

    def block(m: re.Match[str]) -> str:
        if m[1] == "hockeystick":
            return m[0]
        found: OrderedDict[str, None] = OrderedDict()
        for word in m[2].split():
            before = f"{m[1]}."
            here = [
                (o, n[len(before) :])
                for o, n in MODULES.items()
                if fnmatch(o[len(before) :], word) and o.startswith(before)
            ]
            for o, new in here:
                if "*" not in word or o in homes[m[1]]:
                    found[new] = None
        return (
            f":::{{public-api}} {m[1]}\n"
            + "\n".join(textwrap.wrap(" ".join(found) or m[2].strip(), 120, break_on_hyphens=False))
            + "\n:::"
        )

    return re.sub(r":::\{public-api\} (\S+)\n(.*?)\n:::", block, text, flags=re.DOTALL)


def bound(tree: ast.AST) -> set[str]:
    """Names that the file binds otherwise than by imports of modules."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
    return found


def used(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def code(text: str, old: str) -> str:
    tree = ast.parse(text)
    module, is_package = module_of(old), old.endswith("__init__.py")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    taken = bound(tree) | used(tree)
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} | {
        n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)
    }
    edits: list[tuple[int, int, str]] = []
    renamed: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = absolute(module, is_package, node)
        if base is None or base.split(".")[0] not in ("hockeystick", "benchmarks"):
            continue
        out: OrderedDict[str, list[str]] = OrderedDict()
        for a in node.names:
            full = f"{base}.{a.name}"
            if full in DOTTED and a.name not in exported.get(base, ()):
                home, _, leaf = DOTTED[full].rpartition(".")
                known = a.asname or a.name
                if renamed.get(a.name) == leaf and a.asname is None:
                    known = leaf
                elif a.asname is None and leaf != a.name and leaf not in taken and a.name not in stored:
                    renamed[a.name] = known = leaf
                    taken.add(leaf)
                out.setdefault(home, []).append(leaf if leaf == known else f"{leaf} as {known}")
            else:
                home = DOTTED.get(base, base)
                out.setdefault(home, []).append(a.name if a.asname is None else f"{a.name} as {a.asname}")
        lines = []
        for home, names in out.items():
            items = ", ".join(names)
            lines.append(
                f"from {home} import ({items})" if len(items) + len(home) > 90 else f"from {home} import {items}"
            )
        at, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        edits.append((at, end, ("\n" + " " * node.col_offset).join(lines)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in renamed:
            at = starts[node.lineno - 1] + node.col_offset
            edits.append((at, at + len(node.id.encode()), renamed[node.id]))
    raw, pieces, at = text.encode(), [], 0
    for a, b, s in sorted(edits):
        pieces += [plain(raw[at:a].decode(), old), s]
        at = b
    return "".join(pieces) + plain(raw[at:].decode(), old)


def deeper(text: str, old: str, new: str) -> str:
    """``Path(__file__).parents[k]`` counts from the new place."""
    more = new.count("/") - old.count("/")
    if more:
        file = r"(Path\(__file__\)(?:\.resolve\(\))?)"
        text = re.sub(file + r"\.parents\[(\d)\]", lambda m: f"{m[1]}.parents[{int(m[2]) + more}]", text)
        text = re.sub(file + r"\.parent\.parent\b", lambda m: f"{m[1]}.parents[{1 + more}]", text)
        text = re.sub(file + r'\.parent / "data"', lambda m: f'{m[1]}.parents[{more}] / "data"', text)
    return text


def main(root: Path) -> None:
    tracked = subprocess.check_output(["git", "-C", str(root), "ls-files", "-z"], text=True).split("\0")[:-1]
    exports(root)
    texts: dict[str, str] = {}
    for old in tracked:
        path = root / old
        if path.is_symlink() or path.suffix not in TEXT or old.startswith("docs/figures/") or old == "LICENSE":
            continue
        text = path.read_text(encoding="utf-8")
        new = MOVED.get(old, old)
        if old.startswith("docs/api/"):
            text = blocks(text)
        changed = code(text, old) if old.endswith(".py") else plain(text, old)
        texts[new] = deeper(changed, old, new) if old.endswith(".py") else changed
    for old, new in MOVED.items():
        if old != new:
            (root / new).parent.mkdir(parents=True, exist_ok=True)
    # two steps: a new folder may have the name of an old file without its ending, never of a file
    for old, new in MOVED.items():
        if old != new:
            os.rename(root / old, root / new)
    for new, text in texts.items():
        if (root / new).read_text(encoding="utf-8") != text:
            (root / new).write_text(text, encoding="utf-8")
    rooms = dict(line.split("\t") for line in (HERE / "rooms.tsv").read_text().splitlines())
    for room, sentence in rooms.items():
        (root / room / "__init__.py").write_text(f'"""{sentence}"""\n')
    folders = {
        str(Path(n).parent) for n in MOVED.values() if n.endswith(".py") and n.split("/")[0] in (*PARTS, "hockeystick")
    }
    folders |= {str(p) for f in folders for p in Path(f).parents if str(p) != "."}
    missing = [f for f in sorted(folders) if not (root / f / "__init__.py").exists()]
    if missing:
        sys.exit(f"no sentence for {missing}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
