"""Types of options: numbers within a range (click's own types accept NaN in every range), files and targets."""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from hockeystick.accounting import AccountantGraph

Command = TypeVar("Command", bound=Callable[..., Any])


_PRIVATE = re.compile(r"-*(losses|gradients|labels)\b")


@contextlib.contextmanager
def private_file(option: str, file: str | None) -> Iterator[None]:
    """Removes values from errors about private data and leaves their place: error messages end up in logs.

    Args:
      option: The option that names the file.
      file: The file; None if the data are public.
    """
    from hockeystick.accounting import InvalidArgumentError

    try:
        yield
    except InvalidArgumentError as error:
        if file is None or isinstance(error.value, str) or not _PRIVATE.match(error.argument):
            raise
        place = error.argument.lstrip("-")
        reason = error.reason if place == option.lstrip("-") else f"{place}: {error.reason}"
        remedy = error.remedy.replace("with clip=True", "with --clip")
    else:
        return
    raise InvalidArgumentError(option, file, reason, remedy)  # outside the except clause: a cause would hold the value


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Returns a decorator that adds all these options; ``--help`` lists them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


class Real(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on; older ones are supported
    """A finite number within a range; a number outside is a usage error that states the range."""

    name = "number"

    def __init__(self, low: float, high: float = math.inf, *, low_open: bool = False, high_open: bool = False) -> None:
        self.low, self.high = low, high
        self.low_open, self.high_open = low_open, high_open

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns ``value`` as a float; an error states the range."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number; expected {self._range()}", param, ctx)
        below = number < self.low or (self.low_open and number == self.low)
        above = number > self.high or (self.high_open and number == self.high)
        if not math.isfinite(number) or below or above:
            self.fail(f"{value} is out of range; expected {self._range()}", param, ctx)
        return number + 0.0  # no -0.0

    def _range(self) -> str:
        left = f"{'above' if self.low_open else 'at least'} {self.low:g}"
        if math.isinf(self.high):
            return f"a finite number, {left}"
        return f"a number, {left} and {'below' if self.high_open else 'at most'} {self.high:g}"


class Numbers(Real):
    """Finite numbers within a range, with commas between them."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the numbers as a tuple of floats; an error states the range."""
        if isinstance(value, tuple):  # click converts twice
            return value
        return tuple(super(Numbers, self).convert(one, param, ctx) for one in value.split(","))


class Count(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on; older ones are supported
    """A whole number of at least ``low``; ``200000``, ``200_000`` and ``2e5`` are the same.

    Args:
      low: The smallest value.
      high: The largest value, by default 2^53: floats above it skip whole numbers, so that a bound would be computed
        for another number. None: no limit, for a seed.
    """

    name = "integer"

    def __init__(self, low: int, high: int | None = 2**53) -> None:
        self.low, self.high = low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns ``value`` as an int; an error states the range."""
        wanted = f"expected a whole number, at least {self.low} (as 200000, 200_000 or 2e5)"
        if isinstance(value, int):
            return value
        if re.fullmatch(r"\d+(_\d+)*", value, re.ASCII) and len(value) <= 40:
            number = int(value)
        elif re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d{1,2}", value, re.ASCII) and float(value).is_integer():
            number = int(float(value))
        else:
            self.fail(f"{value!r} is not a whole number; {wanted}", param, ctx)
        if number < self.low:
            self.fail(f"{value} is too small; {wanted}", param, ctx)
        if self.high is not None and number > self.high:
            self.fail(f"{value} is too large; expected at most {self.high}", param, ctx)
        return number


class FileName(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on; older ones are supported
    """The name of a file, completed by the shell; it is checked where it is read or written.

    Args:
      role: "input": the command reads it; "output": a result replaces it; "state": the command both reads and writes
        it. A result may not replace an input or a state.
      beside: Suffixes of further files of the state, next to it.
      replaced_by: An option whose result may replace the file all the same.
    """

    name = "file"

    def __init__(
        self,
        role: Literal["input", "output", "state"] = "input",
        *,
        beside: tuple[str, ...] = (),
        replaced_by: str | None = None,
    ) -> None:
        self.role, self.beside, self.replaced_by = role, beside, replaced_by

    def files(self, value: str) -> list[str]:
        """Returns the files that a value of the option names."""
        return [] if value == "-" else [value + end for end in ("", *self.beside)]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Tells the shell to complete the name of a file."""
        return [CompletionItem(incomplete, type="file")]


class LedgerPlace(FileName):
    """The file of a ledger, or the URL of a database; no result may replace the file."""

    name = "ledger"

    def __init__(self) -> None:
        super().__init__("state", beside=("-journal",))

    def files(self, value: str) -> list[str]:
        """Returns the files that a value of the option names."""
        return [] if "://" in value else super().files(value)


class DataText(FileName):
    """JSON, or the name of a file that holds it or an array; see ``hockeystick._files.named_callables.load_data``."""

    def files(self, value: str) -> list[str]:
        """Returns the file that the value names, if it names one."""
        with contextlib.suppress(OSError, ValueError):  # inline JSON may be too long for a name
            if Path(value).is_file():
                return [value]
        return [value] if value.endswith((".json", ".npy", ".csv")) else TargetName().files(value)


class TargetName(FileName):
    """MODULE:CALLABLE, where MODULE may be a file."""

    def files(self, value: str) -> list[str]:
        """Returns the module's file: as named, or in the working directory."""
        where = value.rpartition(":")[0]
        return [where if where.endswith(".py") else where + ".py"] if where else []


def read_text(argument: str, file: str, remedy: str) -> str:
    """Returns the text of a file, or of the standard input for ``-``.

    Args:
      argument: The option or argument that names the file, for errors.
      file: The file's name.
      remedy: How to make such a file, for errors.

    Raises:
      InvalidArgumentError: The file can't be read, or is not UTF-8.
    """
    from hockeystick.accounting.errors import InvalidArgumentError
    from hockeystick.accounting.files import reading

    if file == "-" and sys.stdin is None:
        raise InvalidArgumentError(argument, file, "the standard input is closed", "give a file")
    try:
        if file == "-":
            return reading.decoded(reading.read_stream(sys.stdin.buffer, most=reading.LARGEST_JSON))
        return reading.read_text(file, most=reading.LARGEST_JSON)
    except reading.UnreadableFileError as error:
        raise error.about(argument, file, remedy) from None


def read_graph(file: str) -> AccountantGraph:
    """Returns the graph in a file, or on the standard input for ``-``.

    Raises:
      InvalidArgumentError: The file can't be read.
      GraphError: It does not hold a graph; the message names the file.
    """
    text = read_text("GRAPH.json", file, "write one with AccountantGraph.to_json()")
    from hockeystick.accounting import AccountantGraph, GraphError, InvalidArgumentError

    try:
        return AccountantGraph.from_json(text)
    except (GraphError, InvalidArgumentError) as error:
        raise GraphError(f"{file}: {error}") from error
