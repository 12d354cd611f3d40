"""Places in the user's code: the file and the line from which a recorded call was made."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

_LIBRARIES = ("numpy", "scipy", "opendp", "diffprivlib")
_STANDARD = os.path.join(os.path.abspath(sysconfig.get_path("stdlib")), "")
_HERE = os.path.dirname(os.path.abspath(__file__))
_ABOVE = os.path.dirname(os.path.dirname(_HERE))
_HOUSE = tuple(os.path.join(_ABOVE, part, "") for part in ("accounting", "audits", "learners", "mechanisms"))


def run_algorithm(call: Any, data: object, rng: object) -> Any:
    """Calls the algorithm. Its frames are those between this function's and a recorded call's."""
    return call(data, rng)


_START: CodeType = run_algorithm.__code__


@lru_cache(maxsize=1 << 12)
def rank(file: str) -> int:
    """Returns 0 for the user's files, 1 for this library and others, 2 for the recorder and what it watches."""
    path = os.path.abspath(file)
    if file.startswith("<attrs generated"):
        return 2
    if path.startswith(_HERE + os.sep):
        return 2
    parts = path.split(os.sep)
    if "site-packages" in parts:
        package = parts[len(parts) - parts[::-1].index("site-packages")]
        return 2 if package in _LIBRARIES else 1
    if path.startswith(_STANDARD):
        return 2
    if file.endswith((".pyx", ".pxi", ".pxd")):  # Cython's, of packages; their paths are where they were built
        return 1
    return 1 if path.startswith(_HOUSE) else 0


def place_of_call() -> str:
    """Returns ``file:line`` of the innermost line of the user's algorithm that led here."""
    found: dict[int, FrameType] = {}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _START:
        found.setdefault(rank(frame.f_code.co_filename), frame)
        frame = frame.f_back
    best = found.get(0) or found.get(1)
    return place(best.f_code.co_filename, best.f_lineno) if best is not None else ""


def place(file: str, line: int) -> str:
    """Returns ``file:line``, the file relative to the working directory if it lies there."""
    inside = os.path.abspath(file)
    here = os.getcwd() + os.sep
    return f"{inside[len(here) :] if inside.startswith(here) else file}:{line}"


class LastLine:
    """A context in which the line of the algorithm's own return is noted; ``place`` is empty if there was none."""

    def __init__(self) -> None:
        self.place = ""
        self._before: Any = None

    def __enter__(self) -> LastLine:
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is not _START and frame.f_back is not None:
            outer = frame.f_back
            while outer is not None and outer.f_code is not _START and rank(outer.f_code.co_filename):
                outer = outer.f_back  # type: ignore[assignment]
            if outer is not None and outer.f_code is _START and not rank(frame.f_code.co_filename):
                self.place = place(frame.f_code.co_filename, frame.f_lineno)
