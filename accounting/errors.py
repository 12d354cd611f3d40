"""Typed errors: every refusal of the library is one of these.

A number that is too small is worse than no number, so a bound that cannot be computed soundly is refused. Each message
is one line that names the argument, its value, the reason and the way out. Records are private, and messages end up in
logs: an error about data tells their type and shape in place of the value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np


class HockeystickError(Exception):
    """The base class of every error that the library raises on purpose."""


class InvalidArgumentError(HockeystickError, ValueError):
    """The error of an argument outside its domain.

    Attributes:
      argument: the name of the argument as the caller knows it.
      value: the value that was given.
      reason: why that value cannot be used.
      remedy: the value to give instead; may be empty.

    Example:
      >>> from hockeystick.accounting import Gaussian
      >>> try:
      ...     Gaussian(-1.0)
      ... except InvalidArgumentError as error:
      ...     print(error.argument, error.value)
      noise_multiplier -1.0
    """

    def __init__(self, argument: str, value: object, reason: str, remedy: str = "") -> None:
        super().__init__(argument, value, reason, remedy)
        self.argument = argument
        self.value = value
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        shown = " ".join(_repr(self.value).split())
        if len(shown) > 80:
            shown = shown[:77] + "..."
        return f"{self.argument}={shown}: {self.reason}" + (f"; {self.remedy}" if self.remedy else "")


class InvalidDataError(InvalidArgumentError):
    """The error of data outside their domain: records, and values computed from them that were not released.

    It takes the same arguments as ``InvalidArgumentError`` but keeps only the type and the shape of the value. So its
    text, its attributes and a pickle of it do not tell the data. ``argument`` tells the place where there
    is one, as in ``losses[3, 1]``; ``reason`` and ``remedy`` must not tell the value, and no other error that does may
    be its cause or context.

    Attributes:
      argument: the name of the argument as the caller knows it, and where in it the reason is found.
      value: a ``Hidden``: the type and the shape of what was given.
      reason: why that can't be used.
      remedy: what to give instead; may be empty.
    """

    def __init__(self, argument: str, value: object, reason: str, remedy: str = "") -> None:
        super().__init__(argument, Hidden.of(value), reason, remedy)


class Hidden:
    """The substitute for data in an error: their type and shape.

    Attributes:
      kind: these in words, such as ``float64 array of shape (4, 3)``.
    """

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @classmethod
    def of(cls, value: object) -> Hidden:
        """Returns what may be shown of a value."""
        if isinstance(value, Hidden):
            return value
        if isinstance(value, np.dtype):  # of an entry
            # The name of a type of text tells the length of the longest one, that of a structured one the fields.
            return cls({"U": "str", "S": "bytes", "V": "void"}.get(value.kind, value.name))
        if isinstance(value, np.ndarray):
            kind = cls.of(value.dtype).kind
            return cls(f"{kind} array of shape {value.shape}" if value.ndim else kind)
        if isinstance(value, (list, tuple)):
            return cls(f"{type(value).__name__} of {len(value)}")
        return cls(type(value).__name__)

    def __repr__(self) -> str:
        return f"<{self.kind}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hidden) and self.kind == other.kind

    def __hash__(self) -> int:
        return hash((Hidden, self.kind))


@contextlib.contextmanager
def unchained() -> Iterator[None]:
    """Lets refusals out without the errors that they were made of: those of parsers hold the text that they parse.

    ``raise ... from None`` is not enough: a traceback is silent then, while the context is still there.
    """
    try:
        yield
    except HockeystickError as error:
        error.__cause__ = error.__context__ = None
        raise


class UnsupportedEventError(HockeystickError):
    """The error of an event that is not defined, or has no sound curve, where it was used."""


class UnsupportedAdjacencyError(HockeystickError):
    """The error of an event or a graph that is not defined under the requested neighbouring relation."""


class GraphError(HockeystickError, ValueError):
    """The error of a malformed graph: an unknown node, a repeated name, or data where a node takes values only."""


class NumericalError(HockeystickError, ArithmeticError):
    """The error of a bound that could not be computed to a useful accuracy; no number is returned."""


class RenamedMethodError(HockeystickError):
    """The error of a method that was renamed because its old name promised something else; nothing was done."""


def visible(text: str) -> str:
    """Returns a text in which characters that are not printed are written as Python escapes them.

    Among them are the commands of terminals, line ends, and the characters that change the direction of text.

    Example:
      >>> visible("a\\x1b[31mb")
      'a\\\\x1b[31mb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _repr(value: object) -> str:
    """A value as text. Not every value has one: Python writes no whole number of more than 4300 digits, say."""
    try:
        return repr(value)
    except Exception:  # whatever a foreign class raises there, the refusal itself must be readable
        if isinstance(value, int):
            return f"<int of {value.bit_length()} bits>"
        return f"<{type(value).__name__}>"
