"""The target of an audit on the command line, ``MODULE:CALLABLE``, and its data: inline JSON or a data file.

All mistakes of users raise an :class:`InvalidArgumentError`, before the audit starts.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import math
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from hockeystick.accounting.errors import HockeystickError, InvalidArgumentError, unchained
from hockeystick.accounting.files.reading import LARGEST_JSON, LARGEST_TEXT, UnreadableFileError, opened_text, read_text
from hockeystick.audits.targets.json_values import decode_json

DATA_SUFFIXES = (".json", ".npy", ".csv")
_EXAMPLE = "mymech.py:release"


class TargetImportError(HockeystickError, ImportError):
    """Running the module of the target raised an error, which is ``__cause__``."""


# ------------------------------------------------------------------------------------------------ MODULE:CALLABLE


def load_target(spec: str) -> Any:
    """Returns the object that ``MODULE:CALLABLE`` names: a callable, or an object with ``simulate``.

    Raises:
      InvalidArgumentError, TargetImportError: See :func:`load_object`; or the object is neither.
    """
    target = load_object(spec)
    if not callable(target) and not hasattr(target, "simulate"):  # a mechanism is an object that simulates
        reason = f"is of type {type(target).__name__} and can't be called"
        raise InvalidArgumentError("target", spec, reason, "name a function f(data, rng)")
    return target


def load_object(spec: str) -> Any:
    """Returns the object that ``MODULE:NAME`` names.

    MODULE is a file (``path/to/mymech.py``), the name of a file or package in the working directory (``mymech``), or
    any importable module (``package.module``); a file in the working directory takes precedence over an installed
    module. NAME may be dotted (``Class.method``). The module can import from its own folder, as a script can.

    Raises:
      InvalidArgumentError: The text is malformed, or the file, module or attribute does not exist; the error's argument
        is "target".
      TargetImportError: The module's own code raised an error.
    """
    where, colon, path = spec.rpartition(":")
    if not colon or not where or not all(part.isidentifier() for part in path.split(".")):
        remedy = f"write for example {_EXAMPLE}"
        raise InvalidArgumentError("target", spec, "is not of the form MODULE:CALLABLE", remedy)
    module = _load_module(spec, where)
    target: Any = module
    for depth, name in enumerate(path.split(".")):
        try:
            target = getattr(target, name)
        except AttributeError:
            owner = ".".join([where, *path.split(".")[:depth]])
            raise InvalidArgumentError("target", spec, f"{owner} has no {name!r}", _suggestion(target, name)) from None
    return target


def source_identity(spec: str, loaded: object) -> str:
    """Returns a text that identifies ``MODULE:NAME`` and the version of its code.

    It holds digests of the named module's file and of the file that defines the object, but not of their imports.

    Args:
      spec: The MODULE:NAME.
      loaded: The object that :func:`load_object` returned for it.
    """
    where = spec.rpartition(":")[0]
    module = sys.modules.get(where) if _file_of(where) is None else None
    files = {_file_of(where) or getattr(module, "__file__", None)}
    inner: Any = loaded
    while isinstance(inner, functools.partial):
        inner = inner.func
    for one in (inspect.unwrap(inner) if callable(inner) else inner, type(inner)):
        with contextlib.suppress(TypeError, OSError):  # built-in objects have no file; instances have their class's
            files.add(inspect.getfile(one))
    parts = [spec]
    for file in sorted({Path(file).resolve() for file in files if file is not None}):
        with contextlib.suppress(OSError):
            parts.append(f"{file} {hashlib.sha256(file.read_bytes()).hexdigest()}")
    return "\n".join(parts)


def _file_of(where: str) -> Path | None:
    """Returns the file that MODULE names; None if it is a module to import."""
    if where.endswith(".py") or os.sep in where or (os.altsep and os.altsep in where):
        return Path(where if where.endswith(".py") else where + ".py")
    return Path(where + ".py") if os.path.isfile(where + ".py") else None


def _load_module(spec: str, where: str) -> ModuleType:
    file = _file_of(where)
    if file is not None:
        if not os.path.isfile(file):
            raise InvalidArgumentError("target", spec, f"there is no file {file}", _nearby_files(file))
        return _run_file(spec, file)
    if not all(part.isidentifier() for part in where.split(".")):
        raise InvalidArgumentError("target", spec, f"{where!r} is not a module name", f"write for example {_EXAMPLE}")
    _make_importable(Path.cwd())
    importlib.invalidate_caches()  # the file may be newer than the cache of its folder
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and (where == error.name or where.startswith(error.name + ".")):
            reason = f"there is no module {error.name!r}, neither here nor installed"
            raise InvalidArgumentError("target", spec, reason, _nearby_files(Path(where + ".py"))) from None
        _refuse_module(spec, error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise anything, SystemExit included
        _refuse_module(spec, error)


def _run_file(spec: str, file: Path) -> ModuleType:
    """Imports a file under its own name, or under another one if a module of its name exists."""
    _make_importable(file.parent)
    taken = sys.modules.get(file.stem)
    known = getattr(taken, "__file__", None)
    ours = taken is None or (known is not None and Path(known).resolve() == file.resolve())
    name = file.stem if ours else f"_hockeystick_target_{file.stem}"
    module_spec = importlib.util.spec_from_file_location(name, file.resolve())
    assert module_spec is not None and module_spec.loader is not None  # the suffix is .py
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module  # before it runs: dataclasses and pickle look a class's module up
    try:
        module_spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        _refuse_module(spec, error)
    return module


def _refuse_module(spec: str, error: BaseException) -> NoReturn:
    raise TargetImportError(f"target={spec!r}: running the module failed: {describe_error(error)}") from error


def _make_importable(folder: Path) -> None:
    if (path := str(folder.resolve())) not in sys.path:
        sys.path.insert(0, path)


def _suggestion(owner: object, name: str) -> str:
    public = [known for known in dir(owner) if not known.startswith("_") and callable(getattr(owner, known, None))]
    if close := difflib.get_close_matches(name, public, n=3):
        return f"did you mean {' or '.join(close)}?"
    return f"it has {', '.join(public[:8])}" if public else "it defines nothing that can be called"


def _nearby_files(file: Path) -> str:
    known = sorted(path.name for path in file.parent.glob("*.py")) if file.parent.is_dir() else []
    if close := difflib.get_close_matches(file.name, known, n=3):
        return f"did you mean {' or '.join(close)}?"
    return "give a file (path/to/mymech.py) or the name of an importable module"


def describe_error(error: BaseException) -> str:
    """Returns an exception in one line: its type, its message, and the line that raised it."""
    text = " ".join(str(error).split())
    place = ""
    if isinstance(error, SyntaxError):
        text = error.msg  # str(error) repeats the place
        place = f" ({Path(error.filename or '?').name}, line {error.lineno})"
    elif (trace := error.__traceback__) is not None:
        while trace.tb_next is not None:
            trace = trace.tb_next
        place = f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
    return type(error).__name__ + (f": {text}" if text else "") + place


# ---------------------------------------------------------------------------------------------------- data sets


def load_data(argument: str, text: str) -> Any:
    """Returns the data set of a command-line argument.

    A text that ends in ``.json``, ``.npy`` or ``.csv`` is a path (no JSON text ends so); any other is inline JSON.

    * JSON, inline or in a file: the decoded Python value. Besides standard JSON, ``NaN``, ``Infinity`` and
      ``-Infinity`` are accepted, for targets that have to handle them.
    * ``.npy``: the array. Arrays of Python objects are refused, since loading them would run code.
    * ``.csv``: a float64 array of shape (rows, columns). Cells are numbers (also ``nan`` and ``inf``), separated by
      commas. The first line is a header if none of its cells is a number.

    Raises:
      InvalidArgumentError: The file does not exist, or the data are unreadable, malformed, ragged or not numeric.
    """
    with unchained():
        return _loaded(argument, text)


def _loaded(argument: str, text: str) -> Any:
    suffix = next((known for known in DATA_SUFFIXES if text.lower().endswith(known)), None)
    if suffix is None:
        return _inline(argument, text)
    try:
        return _READERS[suffix](argument, text, Path(text))
    except UnreadableFileError as error:
        raise error.about(argument, text, f"give a {', '.join(DATA_SUFFIXES)} file, or inline JSON") from None


def _inline(argument: str, text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError as error:
        if os.path.exists(text):
            remedy = f"a data file must end in {', '.join(DATA_SUFFIXES)}"
            raise InvalidArgumentError(argument, text, "is a file of unknown type, not JSON", remedy) from None
        reason = f"is neither JSON ({error}) nor an existing file"
        remedy = """write for example 0, '[0.5, 1]' or '"a string"', or give a .json, .npy or .csv file"""
        raise InvalidArgumentError(argument, text, reason, remedy) from None


def _read_json(argument: str, text: str, path: Path) -> Any:
    found = read_text(path, most=LARGEST_JSON)
    try:
        return decode_json(found)
    except UnreadableFileError as error:
        raise InvalidArgumentError(argument, text, f"is not valid JSON: {error}", "correct the file") from None


def _read_npy(argument: str, text: str, path: Path) -> np.ndarray[Any, Any]:
    from hockeystick.audits.targets.array_files import (  # here: it loads all of the audits
        UnreadableArrayError,
        read_array,
    )

    try:
        return read_array(path)
    except UnreadableArrayError as error:
        if "objects" in str(error):
            raise InvalidArgumentError(argument, text, str(error), "save it with a numeric or string dtype") from None
        reason = f"is not a readable .npy file: it {error}"
        raise InvalidArgumentError(argument, text, reason, "write it with numpy.save") from None


def _read_csv(argument: str, text: str, path: Path) -> np.ndarray[Any, Any]:
    def refuse(line: int, reason: str, remedy: str) -> NoReturn:
        raise InvalidArgumentError(argument, text, f"line {line} {reason}", remedy) from None

    rows: list[tuple[int, list[str]]] = []
    try:
        with opened_text(path, most=LARGEST_TEXT) as file:
            reader = csv.reader(file, strict=True)
            rows = [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        reason = f"is not a valid CSV file ({error})"
        raise InvalidArgumentError(argument, text, reason, "separate the cells by commas") from None
    while rows and not rows[-1][1]:
        rows.pop()  # empty lines at the end hold nothing; within the table one may be a missing value
    if not rows:
        raise InvalidArgumentError(argument, text, "is empty", "a header line alone makes a table of no rows")
    width = len(rows[0][1])
    numeric = [_number(cell) is not None for cell in rows[0][1]]
    if not any(numeric):
        if not all(cell.strip() for cell in rows[0][1]):
            refuse(rows[0][0], "has an empty cell", "fill it in")
        rows = rows[1:]
    table = np.empty((len(rows), width))
    for i, (line, cells) in enumerate(rows):
        if len(cells) != width:
            refuse(line, f"has {len(cells)} cells where the first line has {width}", "give every row the same number")
        for j, cell in enumerate(cells):
            value = _number(cell)
            if value is None:
                what = "not a number" if cell.strip() else "empty"
                refuse(line, f"column {j + 1} is {what}", "only numeric tables can be read")
            table[i, j] = value
    return table


def _number(cell: str) -> float | None:
    """Returns the cell's value; None if it is not a decimal number (``1_0`` is not) or does not fit in a float."""
    cell = cell.strip()
    if re.fullmatch(r"[+-]?(nan|inf(inity)?)", cell, re.IGNORECASE):
        return float(cell)
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", cell, re.IGNORECASE | re.ASCII):
        return None
    return value if math.isfinite(value := float(cell)) else None


_READERS: dict[str, Callable[[str, str, Path], Any]] = {".json": _read_json, ".npy": _read_npy, ".csv": _read_csv}
