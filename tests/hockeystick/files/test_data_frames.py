"""Tests of data frames in place of files: the same tables from every library, and never shown in an error."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hockeystick._files.data_frames import as_frame, is_frame
from hockeystick._files.release_table import read_columns
from hockeystick._files.symbol_tables import Reference, read_records, read_reference
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.optional_packages import MissingExtraError

COLUMNS: dict[str, list[Any]] = {
    "symbol": ["a", "b", "b", "c", "a"],
    "client": [3, 1, 3, 2, 1],
    "age": [30.5, 41.0, 22.25, 90.0, 17.0],
    "day": [datetime.date(2026, 1, d) for d in (2, 1, 1, 2, 2)],
}
SECRET = "secret-of-somebody"


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed")


def pandas_frame(columns: dict[str, Any]) -> Any:
    return library("pandas").DataFrame(columns, index=range(100, 100 + len(columns["symbol"])))


def pandas_arrow(columns: dict[str, Any]) -> Any:
    return pandas_frame(columns).convert_dtypes(dtype_backend="pyarrow")


def pandas_category(columns: dict[str, Any]) -> Any:
    return pandas_frame(columns).astype({"symbol": "category"})


def polars_frame(columns: dict[str, Any]) -> Any:
    return library("polars").DataFrame(columns)


def polars_lazy(columns: dict[str, Any]) -> Any:
    return polars_frame(columns).lazy()


def capsules(columns: dict[str, Any]) -> Any:
    """A frame that has nothing but Arrow's own interface and names."""
    table = pa.table(columns)

    class Frame:
        columns = list(table.column_names)

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return table.__arrow_c_stream__(requested_schema)

    return Frame()


def interchange(columns: dict[str, Any]) -> Any:
    """A frame that has nothing but the older interchange protocol."""
    frame = pa.table(columns).__dataframe__()

    class Frame:
        def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
            return frame

    return Frame()


MAKERS = [
    dict,
    pa.table,
    pandas_frame,
    pandas_arrow,
    pandas_category,
    polars_frame,
    polars_lazy,
    capsules,
    interchange,
]


@pytest.mark.parametrize("make", MAKERS)
def test_a_frame_is_the_table_that_its_file_would_be(make: Any, tmp_path: Path) -> None:
    columns = {name: values for name, values in COLUMNS.items() if name != "day"}
    path = tmp_path / "table.csv"
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]), encoding="utf-8")
    frame = make(columns)

    assert is_frame(frame)
    here, there = (read_reference(source, column="symbol") for source in (frame, str(path)))
    assert here.symbols == there.symbols and (here.probabilities == there.probabilities).all()
    mine, theirs = (
        read_records(source, there, column="symbol", client_column="client") for source in (frame, str(path))
    )
    assert (mine.clients == theirs.clients).all() and (mine.symbols == theirs.symbols).all()
    assert mine.client_count == theirs.client_count == 3
    numbers, expected = (read_columns("table", source, ["age", "client"]) for source in (frame, str(path)))
    assert (numbers == expected).all() and numbers.shape == (5, 2)


@pytest.mark.parametrize("index", [[7, 3], ["x", SECRET], [0.5, 1.5]])
def test_a_pandas_index_is_not_a_column(index: list[Any]) -> None:
    """Nor where it has a name, or several levels, as that of rows picked from another frame."""
    pandas = library("pandas")
    for named in (pandas.Index(index), pandas.Index(index, name="who")):
        frame = pandas.DataFrame({"age": [1.0, 2.0], "b": [3, 4]}, index=named)
        assert as_frame("X", frame).columns == ["age", "b"]
        assert as_frame("X", frame.set_index("b", append=True)).columns == ["age"]
        assert as_frame("X", frame.iloc[::-1]).table.to_pydict() == {"age": [2.0, 1.0], "b": [4, 3]}
    assert as_frame("X", pandas.DataFrame({"age": [1.0], "who": ["x"]})).columns == ["age", "who"]


class PandasFrame:
    """As pandas's, which hands an index that is not 0, 1, ... over as a column."""

    def __init__(self, **columns: Any) -> None:
        self.columns = list(columns)
        self._table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.append_column("__index_level_0__", [[7] * len(self._table)]).__arrow_c_stream__()


def test_frames_of_pandas_are_read_as_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where pandas is not installed: Arrow is told to leave the index out."""
    asked: list[bool] = []

    class Table:
        @staticmethod
        def from_pandas(frame: Any, *, preserve_index: bool) -> Any:
            asked.append(preserve_index)
            return frame._table

    arrow = SimpleNamespace(Table=Table, table=pa.table)
    monkeypatch.setattr("hockeystick._files.data_frames.require", lambda *names, **more: arrow)
    frame = PandasFrame(age=[1, 2])
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=PandasFrame))
    assert as_frame("X", frame).columns == ["age"] and asked == [False]
    for other in (None, SimpleNamespace(), SimpleNamespace(DataFrame=int)):
        monkeypatch.setitem(sys.modules, "pandas", other)
        assert len(as_frame("X", frame).columns) == 2


@pytest.mark.parametrize("make", [dict, pa.table, polars_frame, capsules])
def test_dates_are_windows(make: Any) -> None:
    frame = make(COLUMNS)
    records = read_records(
        frame, read_reference(frame, column="symbol"), column="symbol", client_column="client", window_column="day"
    )
    assert records.window_names == ("2026-01-01", "2026-01-02") and records.windows.tolist() == [1, 0, 0, 1, 1]


@pytest.mark.parametrize("make", MAKERS)
def test_frames_are_never_shown(make: Any) -> None:
    """No error shows the values in them either."""
    reference = Reference(("a", "b"), np.array([0.5, 0.5]))
    frame = make({"symbol": ["a", SECRET], "client": ["x", SECRET], "age": [1.0, 2.0]})
    attempts = [
        lambda: read_records(frame, reference, column="symbol", client_column="client"),
        lambda: read_records(frame, reference, column="nobody", client_column="client"),
        lambda: read_records(frame, reference, column="age", client_column="client"),
        lambda: read_columns("table", frame, ["client"]),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidArgumentError) as caught:
            attempt()
        assert SECRET not in str(caught.value) and SECRET not in repr(caught.value)


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
def test_missing_values_are_refused(missing: Any) -> None:
    reference = Reference(("a", "b"), np.array([0.5, 0.5]))
    symbols = ["a", missing] if missing == "" or missing is None else None
    if symbols is not None:
        frame = {"symbol": symbols, "client": ["x", "y"]}
        with pytest.raises(InvalidArgumentError, match="has no 'symbol' in record 2"):
            read_records(frame, reference, column="symbol", client_column="client")
    if missing != "":
        with pytest.raises(InvalidArgumentError, match="in record 2"):
            read_columns("table", {"age": [1.0, missing]}, ["age"])


@pytest.mark.parametrize("bad", [3.0, [1, 2], np.ones(3), "text", None, dict, pa.Table])
def test_objects_that_are_not_frames_are_refused(bad: object) -> None:
    assert not is_frame(bad)
    with pytest.raises(InvalidArgumentError, match="is not a data frame"):
        as_frame("table", bad)


@pytest.mark.parametrize("columns", [{"a": [1, SECRET]}, {"a": [1], "b": [1, 2]}, {"a": 3}])
def test_columns_that_arrow_cannot_hold_are_refused(columns: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="Arrow can't hold") as caught:
        as_frame("table", columns)
    assert SECRET not in str(caught.value) and caught.value.__suppress_context__


def test_without_arrow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"a data frame needs pyarrow: pip install 'hockeystick\[tables\]'"):
        as_frame("table", {"a": [1]})


@pytest.mark.parametrize("make", [pandas_frame, polars_frame])
def test_learners_take_frames_of_losses_as_arrays(make: Any) -> None:
    """A learner plays the same actions on a frame as on the array of its values."""
    from hockeystick.learners import LazyExperts

    losses = np.random.default_rng(1).random((40, 3))
    frame = make({"symbol": losses[:, 0], "client": losses[:, 1], "age": losses[:, 2]})
    learner = LazyExperts(rounds=40, experts=3, batch=4, learning_rate=0.5, fake_switch_probability=0.1)
    mine, theirs = (learner.run(data, np.random.default_rng(2)) for data in (frame, losses))
    assert (mine.actions == theirs.actions).all()
