"""Loads the product before pytest runs inside pytest.

``pytester`` forgets the modules that such a run was the first to load. A later test would load them again, and have
classes other than those of the modules loaded before.
"""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import suppress

import pytest

import hockeystick
from hockeystick.accounting.optional_packages import MissingExtraError


@pytest.fixture(autouse=True, scope="session")
def loaded() -> None:
    """All modules but the learners are loaded, and those whose packages are missing."""
    for module in pkgutil.walk_packages(hockeystick.__path__, "hockeystick."):
        if not module.name.startswith("hockeystick.learners"):
            with suppress(ImportError, MissingExtraError):
                importlib.import_module(module.name)
