"""The values of JSON texts of unknown origin, without what Python's parser lets pass or loses."""

from __future__ import annotations

from typing import Any

from hockeystick.accounting.files.reading import json_value


def decode_json(text: str) -> Any:
    """Returns the Python value of a JSON text; besides standard JSON it may have NaN, Infinity and -Infinity.

    Raises:
      UnreadableFileError: The text is malformed or nested too deeply, has a repeated key (whose first value would be
        lost), or a number that does not fit in a float.
    """
    return json_value(text, constants=True, private=True)  # keys may be people's names
