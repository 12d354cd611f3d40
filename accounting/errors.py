"""Typed errors: every refusal of the library is one of these.

A number that is too small is worse than no number, so whatever can't be computed soundly is refused. Each message is
one line that names the argument, its value, the reason and the way out.
"""

from __future__ import annotations


class HockeystickError(Exception):
    """Base class of every error that the library raises on purpose."""


class InvalidArgumentError(HockeystickError, ValueError):
    """An argument is outside its domain.

    Attributes:
      argument: its name as the caller knows it.
      value: what was given.
      reason: why that can't be used.
      remedy: what to give instead; may be empty.
    """

    def __init__(self, argument: str, value: object, reason: str, remedy: str = "") -> None:
        super().__init__(argument, value, reason, remedy)
        self.argument = argument
        self.value = value
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        shown = " ".join(repr(self.value).split())
        if len(shown) > 80:
            shown = shown[:77] + "..."
        return f"{self.argument}={shown}: {self.reason}" + (f"; {self.remedy}" if self.remedy else "")


class UnsupportedEventError(HockeystickError):
    """An event has no meaning, or no sound curve, where it was used."""


class UnsupportedAdjacencyError(HockeystickError):
    """An event or a graph is not defined under the neighbouring relation asked for."""


class GraphError(HockeystickError, ValueError):
    """A graph is malformed: unknown node, repeated name, a data edge into a node that takes values only."""


class NumericalError(HockeystickError, ArithmeticError):
    """A bound could not be computed to a useful accuracy; nothing is returned instead of a wrong number."""


class RenamedMethodError(HockeystickError):
    """A method has another name now, since under the old one it read as if it did something else; nothing was done."""
