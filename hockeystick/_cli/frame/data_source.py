"""``--sql`` and ``--query`` in place of ``--data``, for commands that read a table of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hockeystick._cli.frame.option_types import Command, together
from hockeystick._cli.frame.shared_options import Given, option, refuse

SOURCES = ("data", "sql", "query")


def sql_options() -> Callable[[Command], Command]:
    """``--sql`` and ``--query``."""
    return together(
        option("--sql URL", click.STRING, "In place of --data: a database, duckdb:///FILE, which is only read."),
        option("--query SQL", click.STRING, "With --sql: the query whose rows are the records."),
    )


def check_source(given: Given) -> None:
    """Refuses a query without a database, both a file and a database, and neither."""
    if given["sql"] is None:
        refuse(given, "needs --sql", "query")
        if given["data"] is None:
            raise click.UsageError("give --data, or --sql and --query, or --plan")
    else:
        refuse(given, "can't be combined with --sql", "data")
        if given["query"] is None:
            raise click.UsageError("--sql needs --query")


def source_of(given: Given) -> Any:
    """Returns the table that the options name: a file's name, or the rows of the query."""
    if given["sql"] is None:
        return given["data"]
    from hockeystick._files.database_table import read_query

    return read_query(given["sql"], given["query"])


def source_name(given: Given) -> str:
    """Returns the name of the table, for the result."""
    return str(given["data"] if given["sql"] is None else given["sql"])
