"""Tests of tables that are the rows of a DuckDB query, on the command line and in errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import assert_refused, result_of, run

from hockeystick._files.database_table import read_query
from hockeystick.accounting import InvalidArgumentError

duckdb: Any = pytest.importorskip("duckdb", reason="needs DuckDB: pip install 'hockeystick[sql]'")


@pytest.fixture
def database(tmp_path: Path) -> str:
    file = tmp_path / "f.db"
    with duckdb.connect(str(file)) as made:
        made.execute("create table people as select range as id, range % 50 as age, 'north' as region from range(200)")
        made.execute("insert into people values (200, null, 'Secret')")
    return f"duckdb:///{file}"


QUERY = "select * from people where id < 200"
COMMANDS: dict[str, list[object]] = {
    "histogram": ["--column", "age=0:50:10"],
    "release": ["--column", "age", "--low", 0, "--high", 50, "--cells", 10],
    "summary": ["--column", "age=0:50"],
    "group-by": ["--by", "region", "--keys", "private", "--delta", 1e-6],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_query_is_read_as_its_rows_in_a_file_are(command: str, database: str, tmp_path: Path) -> None:
    file = tmp_path / "T.csv"
    file.write_text("id,age,region\n" + "".join(f"{i},{i % 50},north\n" for i in range(200)))
    words = [*COMMANDS[command], "--epsilon", 5, "--simulate", "--seed", 1]
    found = result_of(command, "--sql", database, "--query", QUERY, *words)
    other = result_of(command, "--data", file, *words)
    assert found.pop("data") == database and other.pop("data") == str(file)
    assert found == other


def test_a_query_needs_a_database_and_stands_in_place_of_a_file(database: str) -> None:
    words = ["--column", "age=0:50:10", "--epsilon", 1]
    for extra, said in (
        (["--query", QUERY], "--sql"),
        (["--sql", database], "--query"),
        (["--sql", database, "--query", QUERY, "--data", "T.csv"], "can't be combined"),
        ([], "--data"),
        (["--sql", "sqlite:///x", "--query", QUERY], "duckdb:///FILE"),
        (["--plan", "--sql", database], "--plan"),
    ):
        assert_refused(run("histogram", *words, *extra), said)


def test_a_query_changes_nothing_and_its_errors_show_no_value(database: str) -> None:
    for query in ("select region::integer from people", "delete from people", "select", "drop table people"):
        with pytest.raises(InvalidArgumentError) as caught:
            read_query(database, query)
        assert "Secret" not in str(caught.value) and caught.value.__cause__ is None and caught.value.__context__ is None
    assert read_query(database, "select * from people").table.num_rows == 201
    for url in ("duckdb:///", "duckdb:///none.db", "people"):
        with pytest.raises(InvalidArgumentError, match="--sql"):
            read_query(url, QUERY)
