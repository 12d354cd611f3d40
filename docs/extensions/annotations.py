"""Signatures as they are written, with links; and docstrings in which a vertical bar is one of mathematics.

Evaluated annotations are unreadable (``ArrayLike`` is a union of twelve types); in the source they are short. A public
name of ours is a link, any other is text. What a docstring says to be raised has to be known.
"""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import itertools
import re
import sys
from importlib.util import find_spec
from typing import Any

import attrs
from docutils import nodes
from public_names import PACKAGES, meant, public
from sphinx import addnodes
from sphinx.application import Sphinx

NOT_RST = re.compile(r"``.*?``|\||\*(?=[\w.]+[),])|(?<=\w)_(?=[^\w`]|$)", re.DOTALL)
MOST_OF_A_DEFAULT = 60  # characters
NAME = re.compile(r"[A-Za-z_][\w.]*")


def as_written(
    app: Sphinx, what: str, name: str, value: Any, options: Any, arguments: str | None, result: str
) -> tuple[str, str] | None:
    """Puts the source's annotations in the place of evaluated ones."""
    if getattr(value, "_is_protocol", False):  # nobody makes one
        return "", ""
    function = value.__init__ if inspect.isclass(value) else inspect.unwrap(value)
    notes = {key: text(note) for key, note in getattr(function, "__annotations__", {}).items()}
    try:
        (stub,) = ast.parse(f"def stub{arguments}: ...").body
    except SyntaxError:  # a default that can't be written down, or no arguments at all
        return None
    assert isinstance(stub, ast.FunctionDef)
    listed = stub.args
    for argument in (*listed.posonlyargs, *listed.args, *listed.kwonlyargs, listed.vararg, listed.kwarg):
        if argument is not None:
            note = notes.get(argument.arg)
            argument.annotation = ast.parse(note, mode="eval").body if note else None
    if attrs.has(value):
        as_in_the_class(listed, value)
    return f"({ast.unparse(listed)})", "" if inspect.isclass(value) else notes.get("return", "")


def as_in_the_class(listed: ast.arguments, value: type) -> None:
    """Gives a constructor that attrs made the defaults of its fields, and drops private parameters.

    The source of such a constructor takes them from a dictionary. A default that a function makes, or a long one, is
    written ``...``.
    """
    defaults = {one.alias: default(one.default) for one in attrs.fields(value) if one.init}
    defaults = {name: node for name, node in defaults.items() if node is not None}
    by_place = [one for one in (*listed.posonlyargs, *listed.args) if not one.arg.startswith("_") or one.arg == "self"]
    listed.posonlyargs, listed.args = [], by_place
    listed.defaults = [defaults[one.arg] for one in by_place if one.arg in defaults]
    listed.kwonlyargs = [one for one in listed.kwonlyargs if not one.arg.startswith("_")]
    listed.kw_defaults = [defaults.get(one.arg) for one in listed.kwonlyargs]


def default(given: object) -> ast.expr | None:
    """Returns a field's default as it is shown; None for a field without one."""
    if given is attrs.NOTHING:
        return None
    if isinstance(given, enum.Enum):
        return ast.Name(f"{type(given).__name__}.{given.name}")
    if inspect.isroutine(given) or isinstance(given, type):
        return ast.Name(given.__name__)
    if isinstance(given, attrs.Factory) and given.factory in (dict, list, tuple):
        return ast.parse(repr(given.factory()), mode="eval").body
    try:
        found = ast.parse(repr(given), mode="eval").body
    except SyntaxError:  # made by a function, or a value that no expression gives
        return ast.Constant(...)
    return found if len(repr(given)) <= MOST_OF_A_DEFAULT else ast.Constant(...)


def text(note: object) -> str:
    return note if isinstance(note, str) else inspect.formatannotation(note)


def as_rst(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Makes a docstring's tables tables; |x| is no substitution in it, (runs, *shape) no emphasis, I_|k| no target."""
    # A comment, or the first words of a property's "Which one: the first" would be taken for its type.
    found = ["..", ""] if what in ("property", "attribute") else []
    for is_table, part in itertools.groupby(lines, lambda line: line.lstrip()[:2] in ("| ", "|-")):
        rows = list(part)
        if is_table and len(rows) > 1:
            found += [*table(rows), ""]
        else:
            escaped = NOT_RST.sub(lambda match: match[0] if match[0][0] == "`" else f"\\{match[0]}", "\n".join(rows))
            found += escaped.split("\n")
    lines[:] = found


def table(rows: list[str]) -> list[str]:
    """A table between vertical bars, its second line being a rule, as the directive ``list-table``."""
    indent = rows[0][: rows[0].index("|")]
    made = [".. list-table::", "   :header-rows: 1", ""]
    for row in (rows[0], *rows[2:]):
        cells = row.strip().strip("|").split("|")
        made += [f"   {'*' if i == 0 else ' '} - {cell.strip()}" for i, cell in enumerate(cells)]
    return [indent + line if line else "" for line in made]


def link_names(app: Sphinx, document: nodes.document) -> None:
    """Points references at what is public; what is private, or of another package, is text."""
    for reference in list(document.findall(addnodes.pending_xref)):
        if reference.get("refdomain") != "py":
            continue
        target, package, owner = reference["reftarget"], reference.get("py:module"), reference.get("py:class")
        written = any(isinstance(child, nodes.literal) for child in reference.children)  # by a role, in a docstring
        checked = written or (reference["reftype"] == "exc" and NAME.fullmatch(target))
        full = meant(target, package if package in PACKAGES else None)
        if full is None and owner and is_member(f"{package}.{owner}", target):
            full = f"{package}.{owner}.{target}"
        if full:
            reference["reftarget"], reference["reftype"], reference["refspecific"] = full, "obj", False
        elif not checked or is_private(target, package):
            reference.replace_self(shown(reference))


def shown(reference: addnodes.pending_xref) -> list[nodes.Node]:
    """What a reference shows: of its two forms, the short one."""
    forms = [child for child in reference.children if isinstance(child, addnodes.pending_xref_condition)]
    short = [child for form in forms if form["condition"] == "resolved" for child in form.children]
    return short or list(reference.children)


def is_member(owner: str, name: str) -> bool:
    """Whether a public class has a member with a docstring, which is therefore described."""
    member = getattr(public().get(owner), name, None)
    return member is not None and bool(inspect.getdoc(member))


def is_private(target: str, package: str | None) -> bool:
    """Whether something of that name is a module, or defined in one, of ours or of Python; or a field of a class."""
    head, _, rest = target.removeprefix(f"{package}.").partition(".")
    if hasattr(builtins, target) or target in sys.modules or package not in PACKAGES or find_spec(f"{package}.{head}"):
        return True
    ours = {name: module for name, module in sys.modules.items() if name.startswith("hockeystick.")}
    values = [getattr(module, head) for module in ours.values() if hasattr(module, head)]
    fields = any(head in getattr(value, "__annotations__", {}) for value in public().values())
    return fields or any(not rest or hasattr(value, rest) for value in values)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-signature", as_written)
    app.connect("autodoc-process-docstring", as_rst, priority=400)  # before google sections are read
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
