"""Data frames as tables: whatever hands its columns over in Arrow's format, by ``pyarrow`` (extra ``tables``).

These are data frames of pandas and polars, tables and batches of Arrow, DuckDB's relations and others with the Arrow
PyCapsule interface (``__arrow_c_stream__``), older ones with the interchange protocol (``__dataframe__``), and a
dictionary of columns. An index of pandas is no column.

Records are private, so a frame is never shown: not in an error either.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.optional_packages import require

_WHAT = "a data frame"
_WAY_OUT = "give a data frame of pandas or polars, an Arrow table, or a dictionary of columns"


@frozen(eq=False)
class Frame:
    """A data frame in Arrow's format.

    Attributes:
        kind: What it was, for messages.
        table: As a ``pyarrow.Table``.
    """

    kind: str
    table: Any = field(repr=False)

    def __repr__(self) -> str:
        return f"<{self.kind}>"

    @property
    def columns(self) -> list[str]:
        """Names of its columns."""
        return [str(name) for name in self.table.schema.names]


def is_frame(value: object) -> bool:
    """Returns whether a value has named columns in Arrow's format, or is a dictionary of columns."""
    if isinstance(value, (Frame, Mapping)):
        return True
    return not isinstance(value, type) and (
        hasattr(value, "__dataframe__") or (hasattr(value, "__arrow_c_stream__") and hasattr(value, "columns"))
    )


@unchained()
def as_frame(argument: str, value: object) -> Frame:
    """Returns a data frame in Arrow's format; nothing is copied that Arrow can share.

    Raises:
        InvalidArgumentError: It is none, or has columns that Arrow can't hold or that are named alike.
        MissingExtraError: There is no ``pyarrow``.
    """
    if isinstance(value, Frame):
        return value
    kind = type(value).__name__
    if not is_frame(value):
        raise InvalidArgumentError(argument, f"<{kind}>", "is no data frame", _WAY_OUT)
    arrow = require("pyarrow", _WHAT, extra="tables")
    try:
        if _is_pandas(value):  # which hands over its index as a column else, if it is not 0, 1, ...
            table = arrow.Table.from_pandas(value, preserve_index=False)
        elif hasattr(value, "__arrow_c_stream__") or isinstance(value, Mapping):
            table = arrow.table(value)
        else:
            table = require("pyarrow.interchange", _WHAT, extra="tables").from_dataframe(value)
    except Exception:  # of Arrow, or of the frame's own library; its text may hold values
        reason = "has columns that Arrow can't hold"
        raise InvalidArgumentError(argument, f"<{kind}>", reason, "give columns of one type and one length") from None
    return Frame(kind, table)


def _is_pandas(value: object) -> bool:
    pandas = sys.modules.get("pandas")  # a frame of its own has imported it
    return isinstance(value, getattr(pandas, "DataFrame", ()))
