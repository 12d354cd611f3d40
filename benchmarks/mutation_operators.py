"""Mutants of a source file: small changes that a test should notice, as cuts of its text.

mutmut's operators make them from the file's tree (libcst), and a few more that matter here: a minimum for a maximum, a
ceiling for a floor, a condition turned round, a refusal or a check left out. What would tell nothing of the tests is
left out by rule; the rules are the functions ``_left_out`` and ``_of_interest``.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import libcst as cst
from attrs import frozen
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, PositionProvider
from mutmut.mutation import mutators

_OPERATORS: tuple[tuple[type[cst.CSTNode], Callable[[Any], Iterable[cst.CSTNode]]], ...] = (
    (cst.BaseNumber, mutators.operator_number),
    (cst.SimpleString, mutators.operator_string),
    (cst.Name, mutators.operator_name),
    (cst.AugAssign, mutators.operator_augmented_assignment),
    (cst.UnaryOperation, mutators.operator_remove_unary_ops),
    (cst.Call, mutators.operator_arg_removal),
    (cst.Call, mutators.operator_symmetric_string_methods_swap),
    (cst.Call, mutators.operator_unsymmetrical_string_methods_swap),
    (cst.CSTNode, mutators.operator_keywords),
    (cst.CSTNode, mutators.operator_swap_op),
    (cst.Match, mutators.operator_match),
    (cst.IfExp, mutators.operator_if_exp),
)
_PAIRS = (("max", "min"), ("maximum", "minimum"), ("floor", "ceil"), ("any", "all"))
_SWAPPED = {old: new for pair in _PAIRS for old, new in (pair, pair[::-1])}
_WORDING = ("__repr__", "__str__", "_repr_html_", "_repr_pretty_", "_repr_markdown_")

Path = tuple[cst.CSTNode, ...]


@frozen
class Mutant:
    """One change of a file: the text between two offsets is replaced.

    Attributes:
      name: the same for the same change of the same text.
      file: in the folder of sources.
      start: offset of the first character that is replaced.
      end: offset behind the last one.
      text: what stands there instead.
      operator: that made it.
      first: line, counted from 1, on which the statement begins that holds it.
      last: line on which it ends.
      at_import: whether the change is in force while the module is imported, and not only when a function is called.
    """

    name: str
    file: str
    start: int
    end: int
    text: str
    operator: str
    first: int
    last: int
    at_import: bool

    def applied(self, source: str) -> str:
        """The mutated file."""
        return source[: self.start] + self.text + source[self.end :]

    def lines(self, source: str) -> tuple[str, str]:
        """The lines that change, and what they change to, without indentation and line breaks."""
        before = source[source.rfind("\n", 0, self.start) + 1 : self.start]
        rest = source[self.end :].split("\n", 1)[0]
        old, new = before + source[self.start : self.end] + rest, before + self.text + rest
        return " ".join(old.split()), " ".join(new.split())


def mutants(file: str, source: str) -> tuple[Mutant, ...]:
    """Returns all mutants of a file, in the order of its text; no two give the same text."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    spans, positions = wrapper.resolve(ByteSpanPositionProvider), wrapper.resolve(PositionProvider)
    offsets = _characters(source)
    found: dict[tuple[int, int, str], Mutant] = {}
    for path in _walk((wrapper.module,)):
        node = path[-1]
        for operator, changed in _changes(path):
            if node in spans:
                span = spans[node]
                start, end = offsets[span.start], offsets[span.start + span.length]
                text = _replacement(wrapper.module, node, changed, source[start:end])
            else:
                text = None
            if text is None:  # parentheses or white space around it change as well
                whole = cst.ensure_type(wrapper.module.deep_replace(node, changed), cst.Module)
                start, end, text = 0, len(source), whole.code
            start, end, text = _trimmed(source, start, end, text)
            if start == end and not text or (start, end, text) in found or not _compiles(source, start, end, text):
                continue
            statement = next((part for part in reversed(path) if isinstance(part, cst.SimpleStatementLine)), node)
            lines = positions[statement if statement in positions else path[-2]]
            name = hashlib.sha256(f"{file}\0{source}\0{start}\0{end}\0{text}".encode()).hexdigest()[:16]
            found[start, end, text] = Mutant(
                name, file, start, end, text, operator, lines.start.line, lines.end.line, not _in_function(path)
            )
    return tuple(sorted(found.values(), key=lambda mutant: (mutant.start, mutant.end, mutant.text)))


def _walk(path: Path) -> Iterator[Path]:
    """The tree's nodes, each with those that it stands in, but for what is left out."""
    if _left_out(path):
        return
    yield path
    for child in path[-1].children:
        yield from _walk((*path, child))


def _left_out(path: Path) -> bool:
    """Whether nothing in a node is of interest: it is for type checkers or for people, or it is not code."""
    node = path[-1]
    if isinstance(node, (cst.Annotation, cst.Import, cst.ImportFrom, cst.Decorator, cst.FormattedString)):
        return True
    if isinstance(node, cst.FunctionDef):
        return node.name.value in _WORDING
    if isinstance(node, cst.ClassDef):
        return any(_name(base.value) in ("Protocol", "TypedDict") for base in node.bases)
    if isinstance(node, cst.If):
        return _name(node.test) == "TYPE_CHECKING"
    if isinstance(node, cst.Expr):
        return isinstance(node.value, (cst.BaseString, cst.Ellipsis))
    if isinstance(node, cst.Assign):
        return any(_name(target.target) in ("__all__", "__slots__") for target in node.targets)
    if isinstance(node, cst.Call) and _name(node.func).endswith(("Error", "TypeVar", "cast")):
        return True  # error messages, also of errors that are not raised at once
    return len(path) > 1 and isinstance(path[-2], cst.Raise)


def _changes(path: Path) -> Iterator[tuple[str, cst.CSTNode]]:
    """What a node is replaced by, each with the operator's name."""
    node = path[-1]
    for kind, operator in _OPERATORS:
        if isinstance(node, kind):
            made = list(operator(node))
            for changed in made[:1] if isinstance(node, cst.SimpleString) else made:
                if _of_interest(path, changed):
                    yield operator.__name__.removeprefix("operator_"), changed
    if isinstance(node, cst.Raise):
        yield "refusal left out", cst.Pass()
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        yield "call left out", cst.Pass()
    if isinstance(node, cst.Call) and _name(node.func) in _SWAPPED:
        name = node.func if isinstance(node.func, cst.Name) else cst.ensure_type(node.func, cst.Attribute).attr
        yield "swapped function", node.with_deep_changes(name, value=_SWAPPED[name.value])
    outer = path[-2] if len(path) > 1 else None
    if isinstance(outer, (cst.If, cst.While)) and node is outer.test:
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return  # an operator of mutmut's
        if node.lpar or isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
            yield "condition turned round", cst.UnaryOperation(cst.Not(), node)
        else:
            inner = node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
            yield "condition turned round", cst.UnaryOperation(cst.Not(), inner)


def _of_interest(path: Path, changed: cst.CSTNode) -> bool:
    """Whether a change of mutmut's tells something of the tests: one that is sure to break the program does not."""
    node = path[-1]
    if isinstance(node, cst.SimpleString):  # a word that is compared, or a key: any other is wording
        return isinstance(path[-2], (cst.Comparison, cst.ComparisonTarget, cst.Index, cst.DictElement)) or (
            isinstance(path[-2], cst.Element) and isinstance(path[-4], cst.ComparisonTarget)
        )
    if isinstance(node, cst.Call) and isinstance(changed, cst.Call) and changed.func is node.func:
        # None for an argument, or a positional one less, is a type error; a named one may have a default
        return len(changed.args) < len(node.args) and any(
            argument.keyword is not None and argument not in changed.args for argument in node.args
        )
    return True


def _in_function(path: Path) -> bool:
    return any(
        isinstance(inner, cst.BaseSuite) and isinstance(outer, cst.FunctionDef) for outer, inner in pairwise(path)
    ) or any(isinstance(outer, cst.Lambda) and inner is outer.body for outer, inner in pairwise(path))


def _name(node: cst.CSTNode) -> str:
    """The last part of a dotted name, or nothing."""
    if isinstance(node, cst.Subscript):
        return _name(node.value)
    if isinstance(node, cst.Attribute):
        return str(node.attr.value)
    return str(node.value) if isinstance(node, cst.Name) else ""


def _characters(source: str) -> list[int]:
    """The character at each offset in bytes."""
    found = []
    for place, character in enumerate(source):
        found += [place] * len(character.encode())
    return [*found, len(source)]


def _replacement(module: cst.Module, node: cst.CSTNode, changed: cst.CSTNode, text: str) -> str | None:
    """What replaces a node's own text, or None where more than this changes."""
    old, new = str(module.code_for_node(node)), str(module.code_for_node(changed))
    if not text or old.count(text) != 1:
        return None
    before, behind = old.split(text)
    if not new.startswith(before) or not new.endswith(behind) or len(new) < len(before) + len(behind):
        return None
    return new[len(before) : len(new) - len(behind)]


def _trimmed(source: str, start: int, end: int, text: str) -> tuple[int, int, str]:
    """The same change without what both texts begin and end with."""
    same = 0
    while same < min(end - start, len(text)) and source[start + same] == text[same]:
        same += 1
    start, text, same = start + same, text[same:], 0
    while same < min(end - start, len(text)) and source[end - 1 - same] == text[-1 - same]:
        same += 1
    return start, end - same, text[: len(text) - same]


def _compiles(source: str, start: int, end: int, text: str) -> bool:
    try:
        ast.parse(source[:start] + text + source[end:])
    except SyntaxError:
        return False
    return True
