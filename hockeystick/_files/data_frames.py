"""Data frames as tables in Arrow's format, through ``pyarrow`` (extra ``tables``).

A data frame is one of pandas or polars (a LazyFrame is collected), a table or batch of Arrow, a relation of DuckDB, any
other object with the Arrow PyCapsule interface (``__arrow_c_stream__``) or the older interchange protocol
(``__dataframe__``), or a dictionary of columns. An index of pandas is not a column.

Records are private, so neither reprs nor errors show them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.optional_packages import require

_FRAME = "a data frame"
_REMEDY = "give a data frame of pandas or polars, an Arrow table, or a dictionary of columns"


@frozen(eq=False)
class Frame:
    """A data frame in Arrow's format.

    Attributes:
        kind: The name of its original type, for messages.
        table: The data, as a ``pyarrow.Table``.
    """

    kind: str
    table: Any = field(repr=False)

    def __repr__(self) -> str:
        return f"<{self.kind}>"

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [str(name) for name in self.table.schema.names]


def is_frame(value: object) -> bool:
    """Returns whether a value has named columns in Arrow's format, or is a dictionary of columns."""
    if isinstance(value, (Frame, Mapping)) or _is_lazy(value):
        return True
    return not isinstance(value, type) and (
        hasattr(value, "__dataframe__") or (hasattr(value, "__arrow_c_stream__") and hasattr(value, "columns"))
    )


@unchained()
def as_frame(argument: str, value: Any) -> Frame:
    """Returns a data frame in Arrow's format, without copying where Arrow can share the memory.

    Raises:
        InvalidArgumentError: The value is not a data frame, or has columns that Arrow can't hold.
        MissingExtraError: ``pyarrow`` is not installed.
    """
    if isinstance(value, Frame):
        return value
    kind = type(value).__name__
    if not is_frame(value):
        raise InvalidArgumentError(argument, f"<{kind}>", "is not a data frame", _REMEDY)
    arrow = require("pyarrow", _FRAME, extra="tables")
    try:
        if _is_lazy(value):
            value = value.collect()
        if _is_pandas(value):  # its index would become a column, unless it is 0, 1, ...
            table = arrow.Table.from_pandas(value, preserve_index=False)
        elif hasattr(value, "__arrow_c_stream__") or isinstance(value, Mapping):
            table = arrow.table(value)
        else:
            table = require("pyarrow.interchange", _FRAME, extra="tables").from_dataframe(value)
    except Exception:  # from Arrow or the frame's own library; its message may hold values
        reason = "has columns that Arrow can't hold"
        raise InvalidArgumentError(argument, f"<{kind}>", reason, "give columns of one type and one length") from None
    return Frame(kind, table)


def _is_lazy(value: object) -> bool:
    polars = sys.modules.get("polars")  # imported if the value is one of its frames
    return isinstance(value, getattr(polars, "LazyFrame", ()))


def _is_pandas(value: object) -> bool:
    pandas = sys.modules.get("pandas")  # imported if the value is one of its frames
    return isinstance(value, getattr(pandas, "DataFrame", ()))
