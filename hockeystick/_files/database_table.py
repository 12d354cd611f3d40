"""The rows of a query on a DuckDB database, as a table (extra ``sql``)."""

from __future__ import annotations

from pathlib import Path

from hockeystick._files.data_frames import Frame, as_frame
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.optional_packages import require

_SCHEME = "duckdb:///"


@unchained()
def read_query(url: str, query: str) -> Frame:
    """Returns the rows of a query, read from a database that is opened for reading only.

    Args:
        url: ``duckdb:///FILE``; an absolute path makes a fourth slash.
        query: One SELECT. What it leaves out or joins decides which records there are, and so what one person changes.

    Raises:
        InvalidArgumentError: Another URL, no such file, or a query that can't be run. The message does not tell
            DuckDB's reason, which may hold values.
        MissingExtraError: DuckDB or ``pyarrow`` is not installed.
    """
    file = url.removeprefix(_SCHEME)
    if file == url or not file:
        raise InvalidArgumentError("--sql", url, "is not a DuckDB database", "give duckdb:///FILE")
    if not Path(file).is_file():
        raise InvalidArgumentError("--sql", url, "is not there", "give duckdb:///FILE of a database")
    duckdb = require("duckdb", "a DuckDB database", extra="sql")
    require("pyarrow", "rows of a query", extra="tables")
    try:
        database = duckdb.connect(file, read_only=True)
    except Exception as error:
        raise InvalidArgumentError("--sql", url, f"can't be opened ({type(error).__name__})", "check it") from None
    try:
        found = as_frame("--query", database.sql(query))
    except Exception as error:
        reason = f"can't be run ({type(error).__name__})"
        raise InvalidArgumentError("--query", query, reason, "try it in DuckDB") from None
    finally:
        database.close()
    return Frame(f"rows of a query on {Path(file).name}", found.table)
