"""JSON of unknown origin: every text has one value, or is refused in one line that does not show it."""

from __future__ import annotations

import math

import pytest

from hockeystick.audits.targets.json_values import decode_json


def test_values_are_those_of_python_with_its_three_odd_numbers() -> None:
    assert decode_json('{"a": [1, 2.5, null, "x"]}') == {"a": [1, 2.5, None, "x"]}
    assert decode_json("-Infinity") == -math.inf and math.isnan(decode_json("NaN"))


def test_errors_are_one_line() -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+ at line \d, column \d$"):
        decode_json("[1,\n]")


@pytest.mark.parametrize("text", ['{"secret": 1, "secret": 2}', "1e999", "[" * 200_000])
def test_what_would_lose_a_value_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        decode_json(text)
    assert "secret" not in str(caught.value) and "e999" not in str(caught.value)
