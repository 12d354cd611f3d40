"""Settings that all tests share."""

from __future__ import annotations

import gc
import importlib
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

# The processes of `pytest -n` share the cores already. It has to be said before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

pytest_plugins = ["pytester"]  # runs pytest on small projects of its own, for the tests of our plugin

# The same examples in every run, and no time limit for one: a test must not fail because a machine is busy.
settings.register_profile("hockeystick", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("random", derandomize=False, deadline=None, max_examples=500)  # for --hypothesis-profile
settings.load_profile("hockeystick")


def pytest_sessionstart() -> None:
    """Keeps Hypothesis from mixing in constants of whichever modules tests before have imported.

    Programs that a shell starts in the background may ignore Ctrl-C, which some tests send to themselves.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if settings().derandomize:
        with suppress(ImportError, AttributeError):  # not in all versions
            providers: Any = importlib.import_module("hypothesis.internal.conjecture.providers")
            none = providers._local_constants
            providers._get_local_constants = lambda: none


TIERS = {
    "statistical": ("statistical", "mutant_table", "deep_examples"),
    "deep": ("deep", "mark.every", "each_third", "diagonal"),
}
"""The marks of tiers, and the words of which a module with such tests has one: the mark, or the helper that sets it."""


def pytest_configure(config: pytest.Config) -> None:
    """Lets a run pass over files without tests for it: to import and search all takes as long as many tests."""
    config.pluginmanager.register(FilesWithExamples())
    if config.option.markexpr in ("fast", "project", *TIERS):
        config.pluginmanager.register(FilesOfTier(config.option.markexpr))


@cache
def of_project(module: Path) -> bool:
    """Whether the tests of a module are those of the tier *project*."""
    return any(module.is_relative_to(Path(__file__).parent / folder) for folder in ("project", "benchmarks"))


@cache
def may_be(tier: str, module: Path) -> bool:
    """Whether the text of a module names the mark of the tier."""
    text = module.read_text(encoding="utf-8")
    return any(word in text for word in TIERS[tier])


class FilesWithExamples:
    """Looks for doctests in files with a prompt only."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        found = yield
        if any(isinstance(each, DoctestModule) for each in found) and b">>>" not in file_path.read_bytes():
            return [each for each in found if not isinstance(each, DoctestModule)]
        return found


class FilesOfTier:
    """Passes over modules of other tiers."""

    def __init__(self, tier: str) -> None:
        self.tier = tier

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Ignores the folders of another tier, and a module that does not name the mark."""
        if collection_path.suffix != ".py":
            return None
        if of_project(collection_path) != (self.tier == "project") and self.tier != "deep":
            return True
        return True if self.tier in TIERS and not may_be(self.tier, collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keeps the tests themselves, hundreds of thousands of objects, from being looked at for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def thin(items: list[pytest.Item]) -> None:
    """Leaves every n-th case of a test with the mark ``every(n, first)``, and marks the others *deep*."""
    seen: Counter[str] = Counter()
    for item in items:
        if mark := item.get_closest_marker("every"):
            test = item.nodeid.partition("[")[0]
            n, first = (*mark.args, 0)[:2]
            if seen[test] % n != first:
                item.add_marker(pytest.mark.deep)
            seen[test] += 1


@pytest.hookimpl(tryfirst=True)  # before pytest's own, which chooses by -m
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts every test into one tier: by the mark deep, by its folder, by the mark statistical; all the rest is fast."""
    thin(items)
    for item in items:
        if of_project(item.path) and not item.get_closest_marker("deep"):
            item.add_marker(pytest.mark.project)
            continue
        tier = next((name for name in ("deep", "statistical") if item.get_closest_marker(name)), "fast")
        if tier == "fast":
            item.add_marker(pytest.mark.fast)
        elif not may_be(tier, item.path):
            raise pytest.UsageError(f"{item.nodeid} is marked by a word that is not in TIERS of tests/conftest.py")
        if tier == "deep":  # -m statistical would take it too
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "statistical"]
            if item.get_closest_marker("statistical"):
                raise pytest.UsageError(f"{item.nodeid}: its module or class is statistical, so it can't be deep")
