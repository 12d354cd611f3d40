"""Data sets and outputs on their way to a system outside and back: as files, JSON values and lines of text."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import Hidden
from hockeystick.audits.targets.json_values import decode_json

_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf(inity)?)", re.IGNORECASE | re.ASCII)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_TOKEN = re.compile(r"[\w.+-]+")
_HIDDEN = "…"
_WIDTH = 120  # of another program's message


def plain_json(value: Any) -> Any:
    """Returns a data set in types that JSON has.

    Raises:
      InvalidArgumentError: there are none for it; the error does not show it.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    reason = "has no form in JSON"
    raise InvalidArgumentError("data", Hidden.of(value), reason, "give numbers, texts, lists and dicts, or a path")


def data_file(data: Any, folder: Path) -> Path:
    """Returns a new file in ``folder`` with a data set: a copy of the one that a path names, or its JSON.

    The file's name is the same for all data sets of a kind, so that no output can tell them by it.

    Raises:
      InvalidArgumentError: the path names no readable file, or the data set has no form in JSON.
    """
    if isinstance(data, os.PathLike):
        source = Path(data)
        copy = folder / f"data{source.suffix}"
        try:
            copy.write_bytes(source.read_bytes())
        except OSError as error:
            raise InvalidArgumentError(
                "data", os.fspath(source), f"can't be read ({error.strerror})", "give a file"
            ) from None
        return copy
    file = folder / "data.json"
    file.write_text(json.dumps(plain_json(data)), encoding="utf-8")
    return file


def output_of(line: str) -> Any:
    """Returns the output that a line of text holds: a JSON value, a number, or else the text itself."""
    text = line.strip()
    try:
        return decode_json(text)
    except ValueError:
        return float(text) if _REAL.fullmatch(text) else text


def outputs_of(lines: list[str]) -> list[Any]:
    """Returns the outputs of lines; whole numbers among other numbers are floats, which many programs print so."""
    found = [output_of(line) for line in lines]
    return [float(value) for value in found] if {type(value) for value in found} == {int, float} else found


def lines_of(text: str) -> list[str]:
    """Returns the lines of a text, without an empty one at its end; only a newline ends a line."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def without_data(message: str, *data: bytes) -> str:
    """Returns another program's message without all that may come from a data set.

    Numbers, quoted parts, and words that occur in the data are replaced.
    """
    words = set(_TOKEN.findall(" ".join(part.decode("utf-8", "replace") for part in data)))
    bare = {word.strip(".+-").lower() for word in words}

    def public(match: re.Match[str]) -> str:
        word = match[0]
        hide = any(c.isdigit() for c in word) or word in words or word.strip(".+-").lower() in bare - {""}
        return _HIDDEN if hide else word

    line = _TOKEN.sub(public, _QUOTED.sub(_HIDDEN, " ".join(message.split())))
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
