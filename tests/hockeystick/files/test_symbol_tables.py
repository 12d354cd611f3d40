"""Tests of tables of symbols: reading CSV and Parquet, capping records, and errors that show no record."""

from __future__ import annotations

import datetime
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick._files.symbol_tables import Records, Reference, read_records, read_reference, unread
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.optional_packages import MissingExtraError

REFERENCE = Reference(("a", "b", "10"), np.array([0.5, 0.25, 0.25]))
SECRET = "patient-zero"


def file(folder: Path, text: str | bytes, name: str = "t.csv") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def parquet(folder: Path, **columns: Any) -> str:
    arrow, tables = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = folder / "t.parquet"
    tables.write_table(arrow.table(columns), path)
    return str(path)


def records(path: str, **more: Any) -> Records:
    return read_records(path, REFERENCE, column="symbol", client_column="client", **more)


# --- references ------------------------------------------------------------------------------------------------------


def test_a_reference_of_counts_keeps_its_order(tmp_path: Path) -> None:
    found = read_reference(file(tmp_path, "count,symbol\r\n3,z\r\n1,a\r\n"), column="symbol")
    assert found.symbols == ("z", "a")
    np.testing.assert_array_equal(found.probabilities, [0.75, 0.25])


def test_a_reference_of_probabilities_is_made_to_sum_to_one(tmp_path: Path) -> None:
    found = read_reference(file(tmp_path, "\ufeffs,probability\n1,0.3333333\n2,0.6666667\n"), column="s")
    assert found.symbols == ("1", "2") and abs(found.probabilities.sum() - 1.0) < 1e-15
    assert found.probabilities == pytest.approx([1 / 3, 2 / 3], abs=1e-6)


def test_a_reference_of_records_counts_them(tmp_path: Path) -> None:
    path = file(tmp_path, 'who\tsymbol\n1\tb\n2\ta\n3\t"b"\n\n', "t.tsv")
    found = read_reference(path, column="symbol")
    assert found.symbols == ("a", "b")
    np.testing.assert_array_equal(found.probabilities, [1 / 3, 2 / 3])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("symbol,count\na,1\nb,0\n", "does not give 'b' a whole number above 0"),
        ("symbol,count\na,1\nb,1.5\n", "does not give 'b' a whole number above 0"),
        ("symbol,probability\na,nan\nb,1\n", "does not give 'a' a probability above 0"),
        ("symbol,probability\na,-1\nb,2\n", "does not give 'a' a probability above 0"),
        ("symbol,probability\na,.4\nb,.5\n", "sum 0.9"),
        ("symbol,count\na,1\na,1\n", "names the symbol 'a' twice"),
        ("symbol,count,probability\na,1,1\n", "counts and probabilities"),
        ("symbol\na\na\n", "has 1 symbols"),
        ("symbol\n", "has 0 symbols"),
        ("", "no column 'symbol'"),
        ("symbol,symbol\na,b\n", "more than one column 'symbol'"),
    ],
)
def test_bad_references_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        read_reference(file(tmp_path, text), column="symbol")


def test_other_symbols_get_their_mass() -> None:
    found = REFERENCE.with_other("rest", 0.2)
    assert found.symbols == ("a", "b", "10", "rest")
    assert found.probabilities == pytest.approx([0.4, 0.2, 0.2, 0.2])
    assert REFERENCE.with_other("a", None) is REFERENCE
    for symbol, mass in (("rest", None), ("rest", 0.0), ("rest", 1.0), ("rest", float("nan")), ("a", 0.1)):
        with pytest.raises(InvalidArgumentError):
            REFERENCE.with_other(symbol, mass)


# --- records ---------------------------------------------------------------------------------------------------------


def test_records_are_numbered_by_names_and_not_by_their_order(tmp_path: Path) -> None:
    lines = ["u9,b,2", "u1,a,10", "u9,10,2", "u5,a,9"]
    for order in ([0, 1, 2, 3], [3, 1, 2, 0]):
        text = "client,symbol,day\n" + "\n".join(lines[i] for i in order)
        found = records(file(tmp_path, text), window_column="day")
        assert found.window_names == ("2", "9", "10")  # as numbers
        assert found.client_count == 3
        np.testing.assert_array_equal(np.asarray(found.counts(0).table.todense()), [[0, 0, 0], [0, 0, 0], [0, 1, 1]])
        np.testing.assert_array_equal(found.counts(2).total(), [1, 0, 0])


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    columns = {
        "client": [7, 7, 12],
        "symbol": arrow.array(["b", "10", "a"]).dictionary_encode(),
        "day": [datetime.date(2024, 1, d) for d in (2, 1, 2)],
    }
    first = records(parquet(tmp_path, **columns), window_column="day")
    text = "client,symbol,day\n7,b,2024-01-02\n7,10,2024-01-01\n12,a,2024-01-02\n"
    second = records(file(tmp_path, text), window_column="day")
    for name in ("clients", "symbols", "windows", "window_names", "client_count"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    table = read_reference(parquet(tmp_path, symbol=[1, 2], probability=[0.25, 0.75]), column="symbol")
    assert table.symbols == ("1", "2") and table.probabilities[0] == 0.25


def test_large_files_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hockeystick._files.symbol_tables._ROWS", 7)
    rng = np.random.default_rng(1)
    who, what = rng.integers(0, 9, 100), rng.integers(0, 3, 100)
    names = np.array(REFERENCE.symbols)[what]
    text = "client,symbol\n" + "\n".join(f"{a},{b}" for a, b in zip(who, names, strict=True))
    for path in (file(tmp_path, text), parquet(tmp_path, client=who, symbol=names)):
        found = records(path)
        np.testing.assert_array_equal(found.clients, who)
        np.testing.assert_array_equal(found.symbols, what)


def test_unknown_symbols_are_refused_or_put_together(tmp_path: Path) -> None:
    text = f"client,symbol\n1,a\n2,{SECRET}\n"
    for path in (file(tmp_path, text), parquet(tmp_path, client=["1", "2"], symbol=["a", SECRET])):
        with pytest.raises(InvalidArgumentError, match="record 2 ") as error:
            records(path)
        assert SECRET not in str(error.value)
        np.testing.assert_array_equal(records(path, other="10").symbols, [0, 2])
        with pytest.raises(InvalidArgumentError):
            records(path, other="nothing")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"client,symbol\n1,a\n{SECRET},a,b\n", "line 3"),
        (f"client,symbol\n{SECRET}\n", "line 2"),
        (f'client,symbol\n1,a\n{SECRET},""\n', "no 'symbol' in line 3"),
        (f"client,symbol\n,{SECRET}\n", "no 'client' in line 2"),
        (f'client,symbol\n1,"{SECRET}"x\n', "not valid CSV in line 2"),
        (f'client,symbol\n1,a\n1,"{SECRET}\n', "not valid CSV in line"),
        (f"client,symbol\n1,{SECRET}".encode() + b"\xff\n", "UTF-8"),
        (f"{SECRET},a\n1,b\n", "no column 'symbol'"),
        ("client,symbol\n", "no records"),
        (b"\xff\xfe" + SECRET.encode("utf-16-le"), "UTF-8"),
        (b"PAR1" + SECRET.encode(), "damaged Parquet"),
    ],
)
def test_errors_do_not_show_records(tmp_path: Path, text: str | bytes, said: str) -> None:
    if isinstance(text, bytes) and text.startswith(b"PAR1"):
        pytest.importorskip("pyarrow")
    with pytest.raises(InvalidArgumentError, match=said) as error:
        records(file(tmp_path, text))
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("value", [[1.5, 2.0], [b"x", b"y"], [None, "a"], ["a", ""]])
def test_parquet_columns_that_are_not_symbols_are_refused(tmp_path: Path, value: list[object]) -> None:
    with pytest.raises(InvalidArgumentError, match="'symbol'"):
        records(parquet(tmp_path, client=[1, 2], symbol=value))


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no such file"):
        records(str(tmp_path / "nothing.csv"))
    with pytest.raises(InvalidArgumentError, match="can't be read"):
        records(str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="named twice"):
        read_records("x", REFERENCE, column="symbol", client_column="symbol")


def test_parquet_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"hockeystick\[tables\]"):
        records(file(tmp_path, b"PAR1", "t.parquet"))


# --- lines that stand for many records -------------------------------------------------------------------------------


def test_counts_of_records(tmp_path: Path) -> None:
    text = "client,symbol,count,day\n1,a,3,1\n2,b,0,1\n1,a,2,2\n2,10, +007.0 ,2\n"
    frame = {
        "client": [1, 2, 1, 2],
        "symbol": ["a", "b", "a", "10"],
        "count": [3.0, 0.0, 2.0, 7.0],
        "day": [1, 1, 2, 2],
    }
    for path in (file(tmp_path, text), parquet(tmp_path, **frame)):
        found = records(path, window_column="day")
        assert found.client_records().tolist() == [5, 7]
        assert found.client_records(1).tolist() == [2, 7]
        assert np.asarray(found.counts(0).table.todense()).tolist() == [[3, 0, 0], [0, 0, 0]]
        assert found.counts(1).total().tolist() == [2, 0, 7]
        together = records(path)
        assert together.counts().total().tolist() == [5, 0, 7]


def test_bad_counts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error gives only the place and not the content."""
    wrong = ["-1", "1.5", "nan", "inf", SECRET, "1_000", "2147483648", "9" * 5000, "1e2", "\u0663", "0x1"]
    monkeypatch.chdir(tmp_path)
    path = "counts.csv"  # a short one, which the message gives in full
    for count in wrong:
        Path(path).write_text(f"client,symbol,count\n1,a,3\n2,b,{count}\n", encoding="utf-8")
        with pytest.raises(InvalidArgumentError, match="has no valid count in record 2: a whole number") as error:
            records(path)
        assert error.value.value == path
        assert count not in str(error.value).replace(path, "")
    frame = parquet(tmp_path, client=[1, 1], symbol=["a", "b"], count=[2.0, math.nan])
    with pytest.raises(InvalidArgumentError, match="has no valid count in record 2: a whole number"):
        records(frame)


def test_counts_of_zero_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no records"):
        records(file(tmp_path, "client,symbol,count\n1,a,0\n"))
    with pytest.raises(InvalidArgumentError, match="no record in the window '2'"):
        records(file(tmp_path, "client,symbol,count,day\n1,a,1,1\n1,a,0,2\n"), window_column="day")
    with pytest.raises(InvalidArgumentError, match="no 'count' in line 2"):
        records(file(tmp_path, "client,symbol,count\n1,a,\n"))
    with pytest.raises(InvalidArgumentError, match="more than one column 'count'"):
        records(file(tmp_path, "client,symbol,count,count\n1,a,1,1\n"))
    named = read_records(file(tmp_path, "count,symbol\n7,a\n7,b\n"), REFERENCE, column="symbol", client_column="count")
    assert named.client_records().tolist() == [2]  # the clients' names: no counts


def test_columns_that_are_not_read(tmp_path: Path) -> None:
    path = file(tmp_path, "client,symbol,count,day\n1,a,1,1\n")
    assert unread("--clients", path, ("symbol", "client", None, "count")) == ["day"]
    assert unread("--clients", path, ("day", "symbol", "client", "count")) == []
    table = parquet(tmp_path, client=[1], symbol=["a"], age=[3])
    assert unread("--clients", table, ("symbol",)) == ["client", "age"]


# --- caps ------------------------------------------------------------------------------------------------------------


def made(who: Any, what: Any, when: Any) -> Records:
    windows = tuple(str(i) for i in range(max(when) + 1))
    clients, symbols, at = (np.array(each, dtype=np.int32) for each in (who, what, when))
    return Records(clients, symbols, at, client_count=max(who) + 1, symbol_count=3, window_names=windows)


rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=60)


@pytest.mark.statistical
@given(rows=rows, most=st.integers(1, 5), seed=st.integers(0, 100))
def test_caps_keep_the_records_that_fit(rows: list[tuple[int, int, int]], most: int, seed: int) -> None:
    before = made(*map(list, zip(*rows, strict=True)))
    after = before.capped(most, np.random.default_rng(seed))
    for i in range(len(before.window_names)):
        whole, kept = before.counts(i), after.counts(i)
        np.testing.assert_array_equal(kept.records(), np.minimum(whole.records(), most))
        assert (np.asarray(kept.table.todense()) <= np.asarray(whole.table.todense())).all()


@pytest.mark.statistical
@given(rows=rows, most=st.integers(1, 5), seed=st.integers(0, 100))
def test_kept_records_do_not_depend_on_symbols(rows: list[tuple[int, int, int]], most: int, seed: int) -> None:
    who, what, when = map(list, zip(*rows, strict=True))
    first = made(who, what, when).capped(most, np.random.default_rng(seed))
    places = made(who, list(range(len(what))), when)
    kept = places.capped(most, np.random.default_rng(seed)).symbols
    np.testing.assert_array_equal(first.symbols, np.array(what)[kept])


@pytest.mark.statistical
@given(rows=rows, most=st.integers(1, 3), seed=st.integers(0, 100), shuffle=st.randoms(use_true_random=False))
def test_kept_records_do_not_depend_on_other_clients(
    rows: list[tuple[int, int, int]], most: int, seed: int, shuffle: Any
) -> None:
    """Another client's record with another symbol is at another place, in a file that is sorted by symbols."""
    places = list(range(len(rows)))
    shuffle.shuffle(places)
    moved: list[tuple[int, int, int]] = []
    own = {i: iter([row for row in rows if row[0] == i]) for i in range(5)}
    for i in places:  # clients in another order, and each one's records in their own
        moved.append(next(own[rows[i][0]]))
    found = []
    for table in (rows, moved):
        who, what, when = map(list, zip(*table, strict=True))
        kept = made(who, what, when).capped(most, np.random.default_rng(seed))
        found.append([np.asarray(kept.counts(i).table.todense()).tolist() for i in range(len(kept.window_names))])
    assert found[0] == found[1]


@pytest.mark.statistical
@settings(max_examples=40)
@given(rows=rows, most=st.integers(1, 5), seed=st.integers(0, 100), times=st.lists(st.integers(0, 4), min_size=60))
def test_caps_count_records_and_not_lines(
    rows: list[tuple[int, int, int]], most: int, seed: int, times: list[int]
) -> None:
    plain = made(*map(list, zip(*rows, strict=True)))
    before = evolve(plain, times=np.array(times[: len(rows)], dtype=np.int64))
    after = before.capped(most, np.random.default_rng(seed))
    assert after.client_count == before.client_count
    for i in range(len(before.window_names)):
        whole, kept = before.counts(i), after.counts(i)
        np.testing.assert_array_equal(kept.records(), np.minimum(whole.records(), most))
        assert (np.asarray(kept.table.todense()) <= np.asarray(whole.table.todense())).all()


def test_every_record_is_as_likely_to_stay() -> None:
    """A fixed seed; a false alarm has probability 1e-6, and keeping the first two records is caught."""
    table = made([0] * 6, [0, 1, 2, 0, 1, 2], [0] * 6)
    places = Records(table.clients, np.arange(6, dtype=np.int32), table.windows, 1, 6, ("",))
    rng = np.random.default_rng(8)
    kept = np.bincount(np.concatenate([places.capped(2, rng).symbols for _ in range(3000)]), minlength=6)
    # Negative dependence within a draw makes the usual statistic smaller than its law, hence an alarm rarer.
    assert stats.chisquare(kept).pvalue > 1e-6
    assert stats.chisquare([3000, 3000, 0, 0, 0, 0]).pvalue < 1e-6
