"""Readers of .npy and .npz files of unknown origin, which refuse damaged files and never trust a stated size.

A file's header states the size of its array. numpy allocates that much before it reads on, so a few bytes could claim
all of the memory. These readers first compare the stated size with that of the file. They refuse arrays of Python
objects, because loading them runs code.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from hockeystick.accounting import HockeystickError

Array = np.ndarray[Any, Any]
T = TypeVar("T")

_FACTOR = 200
"""The largest accepted ratio of an archive's arrays to its size. Repetitive data come near it; forged archives reach
a thousand."""

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class UnreadableArrayError(HockeystickError, ValueError):
    """A file holds no array, or an array that can't be read or is smaller than its header says."""


def read_array(path: str | os.PathLike[str]) -> Array:
    """Returns the array in an .npy file.

    Raises:
      UnreadableArrayError: the file holds no readable array.
      OSError: the file can't be read.
    """
    with Path(path).open("rb") as file:
        return _only(lambda: _read(file, os.fstat(file.fileno()).st_size))


def map_array(path: str | os.PathLike[str]) -> Array:
    """Returns the array in an .npy file as a memory map: its pages are read when they are accessed.

    Raises:
      UnreadableArrayError: the file holds no readable array.
      OSError: the file can't be read.
    """
    with Path(path).open("rb") as file:
        _only(lambda: _sized(file, os.fstat(file.fileno()).st_size))
    return _only(lambda: np.lib.format.open_memmap(path, mode="r"))


def read_archive(path: str | os.PathLike[str], *names: str) -> dict[str, Array]:
    """Returns the arrays in an .npz file by their names: all of them, or those of ``names`` that the file has.

    Raises:
      UnreadableArrayError: the file is not an .npz file, or an array is damaged or larger than the file can hold.
      OSError: the file can't be read.
    """
    with Path(path).open("rb") as file:
        return _only(lambda: _members(file, frozenset(names)))


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file begins like an .npz file.

    Raises:
      OSError: the file can't be read.
    """
    with Path(path).open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _only(read: Callable[[], T]) -> T:
    """Returns ``read()``; any exception about a damaged file becomes an UnreadableArrayError without a context."""
    try:
        return read()
    except OSError:
        raise
    except UnreadableArrayError as error:
        reason = str(error)
    except Exception:  # ValueError, EOFError, SyntaxError, TokenError, OverflowError, BadZipFile, zlib.error, ...
        reason = "holds no array, or a damaged one"
    raise UnreadableArrayError(reason)


def _members(file: IO[bytes], names: frozenset[str]) -> dict[str, Array]:
    most, found = _FACTOR * (os.fstat(file.fileno()).st_size + (1 << 12)), {}
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if names and name not in names:
                continue
            most -= info.file_size
            if most < 0:
                raise UnreadableArrayError(f"says that it holds {_FACTOR} times what it has")
            with archive.open(info) as member:
                found[name] = _read(member, info.file_size)
    return found


def _read(file: IO[bytes], size: int) -> Array:
    _sized(file, size)
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def _sized(file: IO[bytes], size: int) -> None:
    """Raises UnreadableArrayError if the file has fewer bytes than the array's header says."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise UnreadableArrayError("is of another version of the .npy format")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise UnreadableArrayError("holds Python objects, which are not loaded (that would run code)")
    if min(shape, default=0) < 0 or file.tell() + math.prod(shape) * dtype.itemsize > size:
        raise UnreadableArrayError("ends before its array does")
