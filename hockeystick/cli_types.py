"""Options of commands: numbers of which all is checked (click's own types let NaN pass every range), and groups."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Returns a decorator that adds all options, to be listed in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


class Real(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on; older ones are supported
    """A finite number within a range; what is outside is a usage error that states the range."""

    name = "number"

    def __init__(self, low: float, high: float = math.inf, *, low_open: bool = False, high_open: bool = False) -> None:
        self.low, self.high = low, high
        self.low_open, self.high_open = low_open, high_open

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns ``value`` as a float, or fails with what was expected."""
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


class Count(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on; older ones are supported
    """A whole number from ``low`` on; ``200000``, ``200_000`` and ``2e5`` are the same."""

    name = "integer"

    def __init__(self, low: int) -> None:
        self.low = low

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns ``value`` as an int, or fails with what was expected."""
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
        return number
