"""Checked reading: the one way from a file, or a text of unknown origin, into the library.

Nothing here takes memory on the word of a file, runs what it holds, or raises anything but ``UnreadableFileError``. The
error's text is a reason such as "is not UTF-8 text", after which callers name the file and what to do.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO

from hockeystick.accounting.errors import HockeystickError, InvalidArgumentError

Path = str | os.PathLike[str]

LARGEST_TEXT = 1 << 30
"""The largest accepted text file, in bytes; larger tables belong into arrays or Parquet files."""

LARGEST_JSON = 1 << 28
"""The largest accepted JSON document: Python's values take up to twenty times its size."""

DEEPEST = 200
"""The deepest accepted nesting of JSON values, which everything that walks them can follow."""

_PIECE = 1 << 20


class UnreadableFileError(HockeystickError, ValueError):
    """A file can't be read, or does not hold what it should; the text is the reason.

    Attributes:
      missing: whether there is no such file.
    """

    missing = False

    def about(self, argument: str, path: object, remedy: str) -> InvalidArgumentError:
        """Returns the error about the argument that names the file."""
        return InvalidArgumentError(argument, str(path), str(self), remedy)


def read_bytes(path: Path, *, most: int = LARGEST_TEXT) -> bytes:
    """Returns the content of a file.

    Args:
      path: the file; also a pipe, of which no more than ``most`` bytes are read.
      most: the largest accepted size, in bytes.

    Raises:
      UnreadableFileError: it can't be read, or is larger.
    """
    with opened(path, most=most) as file:
        return read_stream(file, most=most)


def read_stream(file: IO[bytes], *, most: int = LARGEST_TEXT) -> bytes:
    """Returns all that is left in an open file or pipe.

    Raises:
      UnreadableFileError: it can't be read, or is larger than ``most`` bytes.
    """
    pieces, left = [], most
    with _refusing():
        while piece := file.read(min(_PIECE, left + 1)):
            left -= len(piece)
            if left < 0:  # a pipe, or a file that grows
                raise _too_large(most)
            pieces.append(piece)
        return b"".join(pieces)


def read_text(path: Path, *, most: int = LARGEST_TEXT) -> str:
    """Returns the text of a UTF-8 file, without a byte order mark; the other names are those of ``read_bytes``.

    Raises:
      UnreadableFileError: it can't be read, is larger, or is not UTF-8.
    """
    return decoded(read_bytes(path, most=most))


def decoded(content: bytes) -> str:
    """Returns the text of UTF-8 bytes, without a byte order mark.

    Raises:
      UnreadableFileError: they are not UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 text ({error.reason} at byte {error.start})"
    raise UnreadableFileError(reason)


@contextmanager
def opened(path: Path, *, most: int | None = None) -> Iterator[IO[bytes]]:
    """Yields a file, opened to be read; errors of the system inside the block become refusals too.

    Raises:
      UnreadableFileError: it can't be opened or read, or is larger than ``most`` bytes.
    """
    with _refusing(), open(path, "rb") as file:
        if most is not None and os.fstat(file.fileno()).st_size > most:
            raise _too_large(most)
        yield file


@contextmanager
def opened_text(path: Path, *, most: int | None = None) -> Iterator[TextIO]:
    """Yields a UTF-8 file, opened to be read, with its line ends as they are; see ``opened``.

    Raises:
      UnreadableFileError: as ``opened``, or a part that is read in the block is not UTF-8.
    """
    with _refusing(), open(path, encoding="utf-8-sig", newline="") as file:
        if most is not None and os.fstat(file.fileno()).st_size > most:
            raise _too_large(most)
        yield file


@contextmanager
def _refusing() -> Iterator[None]:
    missing = False
    try:
        yield
        return
    except HockeystickError:
        raise
    except FileNotFoundError:
        reason, missing = "there is no such file", True
    except OSError as error:
        reason = f"can't be read ({error.strerror or type(error).__name__})"
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 text ({error.reason} at byte {error.start})"
    except MemoryError:
        reason = "does not fit into memory"
    except ValueError as error:
        if "null" not in str(error):  # of the name; any other is not from reading
            raise
        reason = "is not the name of a file"
    found = UnreadableFileError(reason)
    found.missing = missing
    raise found


def _too_large(most: int) -> UnreadableFileError:
    return UnreadableFileError(f"is larger than {most >> 20} MiB")


def json_value(text: str, *, constants: bool = False, private: bool = False) -> Any:
    """Returns the Python value of a JSON text.

    Args:
      text: the text.
      constants: accept NaN, Infinity and -Infinity, which are not JSON.
      private: the text holds data, so that no error shows a key of it.

    Raises:
      UnreadableFileError: it is not JSON or too long; values are nested more than ``DEEPEST`` deep; a key is repeated,
        whose first value would be lost; or a number does not fit in a float.
    """
    if len(text) > LARGEST_JSON:
        raise _too_large(LARGEST_JSON)
    try:
        found = json.loads(
            text,
            parse_float=_finite,
            parse_constant=None if constants else _no_constant,
            object_pairs_hook=_private if private else _public,
        )
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        reason = "nested too deeply"
    except MemoryError:
        reason = "it does not fit into memory"
    except ValueError as error:  # from the hooks, or a whole number of too many digits
        reason = str(error) if isinstance(error, _Refused) else "a number has too many digits"
    else:
        if _is_deep(found):
            raise UnreadableFileError(f"nested more than {DEEPEST} deep")
        return found
    raise UnreadableFileError(reason)


class _Refused(ValueError):
    """The refusal of a hook of the parser."""


def _public(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _Refused(f"repeated key {pairs[_repeated(pairs)][0]!r}")
    return value


def _private(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _Refused(f"key {_repeated(pairs) + 1} of {len(pairs)} in an object repeats an earlier one")
    return value


def _repeated(pairs: list[tuple[str, Any]]) -> int:
    """Returns the place of the first key that was there before."""
    known: set[str] = set()
    for place, (key, _) in enumerate(pairs):
        if key in known:
            return place
        known.add(key)
    raise AssertionError("no key is repeated")


def _finite(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise _Refused("a number does not fit in a float; write Infinity if that is meant")
    return value


def _no_constant(name: str) -> None:
    raise _Refused(f"{name} is not allowed")


def _is_deep(found: Any) -> bool:
    level = [found] if type(found) in (list, dict) else []
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) in (list, dict)
        ]
        if not level:
            return False
    return True
