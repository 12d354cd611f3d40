#!/usr/bin/env python3
"""Says whether a wheel holds the whole product and nothing else.

    .ci/wheel_files.py WHEEL

Run it in the checkout that the wheel was built from. The exit status is 1 if a file is missing or too many.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("accounting", "mechanisms", "learners", "audits")
BESIDE = "hockeystick_verify"


def expected() -> set[str]:
    """The names of all that belongs to the packages: the main one's folder with the four parts, and the checker."""
    own = [*(path for path in (ROOT / "hockeystick").iterdir() if path.name not in PARTS), ROOT / BESIDE]
    files = [file for path in own for file in ([path] if path.is_file() else path.rglob("*"))]
    names = {file.relative_to(ROOT).as_posix() for file in files if file.is_file()}
    for part in PARTS:
        found = (file for file in (ROOT / part).rglob("*") if file.is_file())
        names |= {f"hockeystick/{file.relative_to(ROOT).as_posix()}" for file in found}
    return {name for name in names if "__pycache__" not in name}


def main() -> int:
    """Compares, and prints what differs."""
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        held = {name for name in wheel.namelist() if name.startswith(("hockeystick/", f"{BESIDE}/"))}
    wanted = expected()
    for title, names in (("missing", wanted - held), ("too many", held - wanted)):
        if names:
            print(f"{title}: {', '.join(sorted(names))}")
    print(f"{len(held)} files")
    return int(held != wanted)


if __name__ == "__main__":
    raise SystemExit(main())
