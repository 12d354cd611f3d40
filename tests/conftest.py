"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["pytester"]  # runs pytest on small projects of its own, for the tests of our plugin

# The same examples in every run, and no time limit for one: a test must not fail because a machine is busy.
settings.register_profile("hockeystick", derandomize=True, deadline=None)
settings.load_profile("hockeystick")
