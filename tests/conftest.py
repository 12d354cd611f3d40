"""Settings that all tests share."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The processes of `pytest -n` share the cores already. It has to be said before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

pytest_plugins = ["pytester"]  # runs pytest on small projects of its own, for the tests of our plugin

# The same examples in every run, and no time limit for one: a test must not fail because a machine is busy.
settings.register_profile("hockeystick", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None)  # for --hypothesis-profile
settings.load_profile("hockeystick")


def pytest_sessionstart() -> None:
    """Keeps Hypothesis from mixing in constants of whichever modules tests before have imported."""
    if settings().derandomize:
        with suppress(ImportError, AttributeError):  # not in all versions
            providers: Any = importlib.import_module("hypothesis.internal.conjecture.providers")
            none = providers._local_constants
            providers._get_local_constants = lambda: none


def pytest_configure(config: pytest.Config) -> None:
    """Lets the tier "statistical" pass over files without such tests: to import all takes as long as many tests."""
    if config.option.markexpr == "statistical":
        config.pluginmanager.register(StatisticalFiles())


MARKED = {"statistical", "mutant_table"}  # the mark, and the helper that sets it


@cache
def may_be_statistical(module: Path) -> bool:
    """Whether the text of a module names the mark."""
    text = module.read_text(encoding="utf-8")
    return any(word in text for word in MARKED)


class StatisticalFiles:
    """Passes over modules without the mark."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Ignores a module that does not name the mark."""
        return True if collection_path.suffix == ".py" and not may_be_statistical(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keeps the tests themselves, hundreds of thousands of objects, from being looked at for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before pytest's own, which chooses by -m
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts every test into its tier: by its folder, by its mark, and all the rest is fast."""
    tests = Path(__file__).parent
    for item in items:
        if any(item.path.is_relative_to(tests / folder) for folder in ("project", "benchmarks")):
            item.add_marker(pytest.mark.project)
        elif item.get_closest_marker("statistical") is None:
            item.add_marker(pytest.mark.fast)
        elif not may_be_statistical(item.path):
            raise pytest.UsageError(f"{item.nodeid} is marked by a word that is not in MARKED of tests/conftest.py")
