"""Tests that hypothesis uses the same examples in every run, whatever ran before in the same process."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[float]:
    seen: list[float] = []

    @settings(max_examples=300, database=None)
    @given(st.lists(st.floats(0, 1e9)))
    def look(values: list[float]) -> None:
        seen.extend(values)

    look()
    return seen


@pytest.mark.skipif(not settings().derandomize, reason="a profile with other examples was asked for")
def test_examples_do_not_come_from_modules_that_happen_to_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypothesis takes constants from the project's modules: which are imported depends on the tests before."""
    before = drawn()
    numbers = [123456789.0625 + i for i in range(50)]
    (tmp_path / "full_of_numbers.py").write_text(f"NUMBERS = {numbers}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("full_of_numbers")
    after = drawn()
    assert len(after) > 300 and not set(after) & set(numbers)
    assert after == before
