"""Readers of .npy and .npz files of unknown origin, which refuse damaged files and never trust a stated size.

A file's header states the size of its array. numpy allocates that much before it reads on, so a few bytes could claim
all of the memory. These readers first compare the stated size with that of the file. They refuse arrays of Python
objects, because loading them runs code.
"""

from __future__ import annotations

import io
import math
import os
import sys
import zipfile
from collections.abc import Callable
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from hockeystick.accounting.errors import HockeystickError
from hockeystick.accounting.files.reading import UnreadableFileError, opened

Array = np.ndarray[Any, Any]
T = TypeVar("T")

_FACTOR = 200
"""The largest accepted ratio of an archive's arrays to its size. Repetitive data come near it; forged archives reach
a thousand."""

_EMPTY_ROWS = 1 << 20
"""The most rows of an array without content: a header of a few bytes can state any number of them."""

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class UnreadableArrayError(UnreadableFileError):
    """A file holds no array, or an array that can't be read or is smaller than its header says."""


def read_array(path: str | os.PathLike[str]) -> Array:
    """Returns the array in an .npy file.

    Raises:
      UnreadableFileError: the file can't be read, or (UnreadableArrayError) holds no readable array.
    """
    with opened(path) as file:
        return _only(lambda: _read(file, os.fstat(file.fileno()).st_size))


def map_array(path: str | os.PathLike[str]) -> Array:
    """Returns the array in an .npy file as a memory map: its pages are read when they are accessed.

    Raises:
      UnreadableFileError: the file can't be read, or (UnreadableArrayError) holds no readable array.
    """
    with opened(path) as file:
        _only(lambda: _sized(file, os.fstat(file.fileno()).st_size))
        return _only(lambda: np.lib.format.open_memmap(path, mode="r"))


def read_archive(path: str | os.PathLike[str], *names: str) -> dict[str, Array]:
    """Returns the arrays in an .npz file by their names: all of them, or those of ``names`` that the file has.

    Raises:
      UnreadableFileError: the file can't be read; or (UnreadableArrayError) is not an .npz file, or an array is damaged
        or larger than the file can hold.
    """
    with opened(path) as file:
        return _only(lambda: _members(file, frozenset(names)))


def encoded(array: npt.ArrayLike) -> bytes:
    """Returns the content of an .npy file with an array."""
    held = io.BytesIO()
    np.save(held, np.asarray(array), allow_pickle=False)
    return held.getvalue()


def decoded(content: bytes) -> Array:
    """Returns the array in the content of an .npy file.

    Raises:
      UnreadableArrayError: it holds no readable array.
    """
    return _only(lambda: _read(io.BytesIO(content), len(content)))


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file begins like an .npz file.

    Raises:
      UnreadableFileError: the file can't be read.
    """
    with opened(path) as file:
        return file.read(4) == b"PK\x03\x04"


def _only(read: Callable[[], T]) -> T:
    """Returns ``read()``; any exception about a damaged file becomes an UnreadableArrayError without a context."""
    try:
        return read()
    except OSError:
        raise
    except UnreadableFileError as error:
        reason = str(error)
    except HockeystickError:
        raise
    except MemoryError:
        reason = "does not fit into memory"
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
            if name in found:
                raise UnreadableArrayError("holds two arrays of one name")
            with archive.open(info) as member:
                found[name] = _read(member, info.file_size)
    return found


def _read(file: IO[bytes], size: int) -> Array:
    if _sized(file, size) > _memory():
        raise UnreadableArrayError("does not fit into memory")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def _memory() -> int:
    """Returns the memory of this machine in bytes, where the system tells it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


def _sized(file: IO[bytes], size: int) -> int:
    """Returns the array's size in bytes; raises UnreadableArrayError if the file has less than its header says."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise UnreadableArrayError("is of another version of the .npy format")
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise UnreadableArrayError("holds Python objects, which are not loaded (that would run code)")
    held = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or file.tell() + held > size:
        raise UnreadableArrayError("ends before its array does")
    if not held and max(shape, default=0) > _EMPTY_ROWS:
        raise UnreadableArrayError(f"says that it holds {max(shape)} rows, and holds nothing")
    return held
