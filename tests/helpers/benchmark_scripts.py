"""Loads scripts of benchmarks/, which are not installed, for their tests."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def benchmark(name: str) -> Any:
    """The module ``benchmarks.NAME``; the path is put back: pytest finds plugins on it."""
    sys.path.insert(0, str(ROOT))
    try:
        return import_module(f"benchmarks.{name}")
    finally:
        sys.path.remove(str(ROOT))


def experiment_script(name: str) -> Any:
    """The module ``benchmarks.experiments.NAME``."""
    return benchmark(f"experiments.{name}")
