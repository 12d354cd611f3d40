"""The values of JSON texts of unknown origin, without what Python's parser lets pass or loses."""

from __future__ import annotations

import json
import math
from typing import Any


def decode_json(text: str) -> Any:
    """Returns the Python value of a JSON text; besides standard JSON it may have NaN, Infinity and -Infinity.

    Raises:
      ValueError: The text is malformed or nested too deeply, has a repeated key (whose first value would be lost), or
        a number that does not fit in a float.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]  # not shown: keys may be people's names
        again = next(i for i, key in enumerate(keys) if key in keys[:i])
        raise ValueError(f"key {again + 1} of {len(keys)} in an object repeats an earlier one")
    return value


def _finite(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise ValueError("a number does not fit in a float; write Infinity if that is meant")
    return value
