"""Tests that spied functions work as before, and that every call is recorded."""

from __future__ import annotations

import math
from fractions import Fraction
from unittest import mock

import pytest
from spies import spied


def test_calls_of_functions_and_methods_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        hypot, limited = spied(patched, math, "hypot"), spied(patched, Fraction, "limit_denominator")
        assert math.hypot(3, 4) == 5.0 and Fraction(1, 3).limit_denominator(max_denominator=2) == Fraction(1, 2)
        with pytest.raises(TypeError):
            math.hypot("a")  # type: ignore[arg-type]
    math.hypot(1, 2)
    assert hypot == [mock.call(3, 4), mock.call("a")]
    assert limited == [mock.call(Fraction(1, 3), max_denominator=2)] and limited[0].args == (Fraction(1, 3),)
