"""Queries on databases as targets: what is compared, what is an output, and that the original never changes."""

from __future__ import annotations

import hashlib
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.audits import Claim, TargetError, audit
from hockeystick.audits.systems.databases import Database, SqlError, SqlQuery

SURE = 1 - 1e-6
TABLE = "CREATE TABLE people (id INTEGER, age INTEGER, name TEXT)"
ROWS = [(1, 20, "Kim"), (2, 40, "Lee"), (3, 40, None)]
NEW = {"people": [{"id": 4, "age": 97, "name": "Ada"}]}


@pytest.fixture(params=["sqlite", "duckdb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database of three people, of either kind."""
    file = tmp_path / "it's people.db"
    if request.param == "duckdb":
        made: Any = pytest.importorskip("duckdb").connect(str(file))
    else:
        made = sqlite3.connect(file, isolation_level=None)
    made.execute(TABLE)
    made.executemany("INSERT INTO people VALUES (?, ?, ?)", ROWS)
    made.execute("CREATE VIEW old AS SELECT * FROM people WHERE age > 30")
    made.close()
    return f"{request.param}:///{file}"


def digest(url: str) -> str:
    return hashlib.sha256(Path(url.partition(":///")[2]).read_bytes()).hexdigest()


def result(url: str, query: str, *, changed: bool = True, **rows: Any) -> Any:
    target = SqlQuery(url, query, **(rows or {"insert": NEW}))
    return target.simulate(Database(changed), np.random.default_rng(1), 1)[0]


def test_the_two_data_sets_differ_in_the_rows(url: str) -> None:
    count = "SELECT count(*) FROM people"

    assert result(url, count, changed=False) == 3 and result(url, count) == 4
    assert result(url, "SELECT count(*) FROM old") == 3  # views see the row
    assert result(url, "SELECT max(age) FROM people", delete={"people": [{"age": 20}]}, insert=NEW) == 97
    assert result(url, count, delete={"people": [{"age": 40, "name": None}]}) == 2


def test_an_output_is_a_value_a_row_or_rows(url: str) -> None:
    assert result(url, "SELECT age, age + 1 AS more, name FROM people WHERE id = 1") == {
        "age": 20,
        "more": 21,
        "name": "Kim",
    }
    assert result(url, "SELECT id, name FROM people WHERE id > 1 ORDER BY id") == [(2, "Lee"), (3, None), (4, "Ada")]
    assert result(url, "SELECT id FROM people WHERE id > 9") == []
    assert list(result(url, "SELECT id AS a, id AS a FROM people WHERE id = 1")) == ["a", "a (2)"]


def test_nothing_that_a_query_does_lasts_or_reaches_the_original(url: str, tmp_path: Path) -> None:
    before = digest(url)
    target = SqlQuery(url, "DELETE FROM people RETURNING id", insert=NEW)

    first, second = target.simulate(Database(True), np.random.default_rng(1), 2)

    assert sorted(first) == sorted(second) == [(1,), (2,), (3,), (4,)]
    assert digest(url) == before
    with pytest.raises(SqlError):
        result(url, f"ATTACH '{tmp_path / 'other.db'}' AS other")
    assert not (tmp_path / "other.db").exists()


def test_a_seed_repeats_what_can_be_seeded(url: str) -> None:
    target = SqlQuery(url, "SELECT random()", insert=NEW)
    first, again = (target.simulate(Database(False), np.random.default_rng(7), 5) for _ in range(2))

    assert len(set(first)) == 5 and target.repeatable == url.startswith("duckdb") == (first == again)


def test_a_target_can_be_sent_to_other_processes(url: str) -> None:
    target = SqlQuery(url, "SELECT count(*) FROM people", insert=NEW)
    target.simulate(Database(True), np.random.default_rng(1), 1)
    sent = pickle.loads(pickle.dumps(target))

    assert sent == target and sent.simulate(Database(True), np.random.default_rng(1), 2) == [4, 4]


@pytest.mark.statistical
def test_a_private_query_is_not_refuted_and_one_with_half_the_noise_is(url: str) -> None:
    """Geometric noise at ε = 1 and at ε = 2 for one; the first is refuted with probability 1e-6 at most."""
    noise = "ln(1 - abs(random() % 1000000007) / 1000000007.0)" if url.startswith("sqlite") else "ln(1 - random())"

    def query(epsilon: float) -> str:
        two = f"CAST({noise} / -{epsilon} AS INTEGER) - CAST({noise} / -{epsilon} AS INTEGER)"
        floor = two if url.startswith("sqlite") else two.replace("CAST", "floor").replace(" AS INTEGER", "")
        return f"SELECT (SELECT count(*) FROM people) + {floor}"

    options: dict[str, Any] = {"claim": Claim(1.0), "samples": 4000, "rng": 1}

    fine = audit(SqlQuery(url, query(1.0), insert=NEW), confidence=SURE, **options)
    wrong = audit(SqlQuery(url, query(2.0), delete={"people": [{"id": 1}]}), **options)

    assert not fine.refuted and wrong.refuted
    assert any("source of random numbers" in said for said in fine.warnings) == url.startswith("sqlite")


BAD_ROWS: dict[str, dict[str, Any]] = {
    "no row": {},
    "no such column": {"insert": {"people": [{"secret": 1}]}},
    "no such table": {"insert": {"secrets": [{"id": 1}]}},
    "two rows": {"delete": {"people": [{"age": 40}]}},
    "no match": {"delete": {"people": [{"name": "secret"}]}},
    "no such column to delete": {"delete": {"people": [{"secret": 1}]}},
    "a list": {"insert": [{"id": 1}]},
    "a row alone": {"insert": {"people": {"id": 1}}},
    "an empty row": {"delete": {"people": [{}]}},
}


@pytest.mark.parametrize("rows", BAD_ROWS.values(), ids=BAD_ROWS)
def test_rows_that_make_no_neighbour_are_refused_and_not_shown(url: str, rows: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        SqlQuery(url, "SELECT 1", **rows).simulate(Database(True), np.random.default_rng(1), 1)
    assert isinstance(caught.value, InvalidDataError) == bool(rows)
    shown = str(caught.value).replace("'secrets'", "")
    assert "secret" not in shown and caught.value.__context__ is None


@pytest.mark.parametrize(
    "query", ["SELECT nothing FROM people", "SELEC", "SELECT CAST('Ada 36' AS DATE) + secret(name) FROM people"]
)
def test_a_bad_query_is_an_error_without_values(url: str, query: str) -> None:
    with pytest.raises(TargetError, match="refused the query") as caught:
        result(url, query)
    assert "Ada" not in str(caught.value) and "36" not in str(caught.value)


def test_a_query_without_a_result_is_refused(url: str) -> None:
    if url.startswith("sqlite"):
        with pytest.raises(SqlError, match="has no result"):
            result(url, "CREATE TABLE t (a INTEGER)")


@pytest.mark.parametrize("bad", ["postgres://host/db", "duckdb:people.db", "sqlite:///", "sqlite:///none.db", "x"])
def test_other_addresses_are_refused(bad: str) -> None:
    with pytest.raises(InvalidArgumentError, match="duckdb:///FILE or sqlite:///FILE"):
        SqlQuery(bad, "SELECT 1", insert=NEW)


def test_a_damaged_file_and_other_data_sets_are_refused(tmp_path: Path, url: str) -> None:
    (tmp_path / "bad.db").write_bytes(b"no database of secrets" * 99)
    kind = url.partition(":")[0]
    with pytest.raises(InvalidArgumentError, match="can't be read"):
        result(f"{kind}:///{tmp_path / 'bad.db'}", "SELECT 1")
    with pytest.raises(InvalidArgumentError, match="leave neighbours out"):
        SqlQuery(url, "SELECT 1", insert=NEW).simulate(0, np.random.default_rng(1), 1)
