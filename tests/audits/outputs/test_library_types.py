"""Tables, sparse matrices and models of other libraries: each channel that differs is seen, without importing any."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from hockeystick.audits import Claim, TargetError, audit
from hockeystick.audits.outputs.cells import ordinal
from hockeystick.audits.outputs.reading import Codebook, read
from hockeystick.audits.outputs.values import flatten, slots, words

Maker = Callable[[Any], Any]


def library(name: str) -> Any:
    pytest.importorskip(name, reason=f"{name} is not installed")
    return import_module(name)


def pandas(make: Callable[[Any, int], Any]) -> Maker:
    return lambda d: make(library("pandas"), d)


def polars(make: Callable[[Any, int], Any]) -> Maker:
    return lambda d: make(library("polars"), d)


def word(d: int) -> str:
    return "HIV" if d else "cold"


def with_attrs(frame: Any, d: int) -> Any:
    frame.attrs["n"] = d
    return frame


def fitted(model: Any, d: int) -> Any:
    x = np.array([[0.0], [1.0], [2.0], [3.0 + d]])
    return model.fit(x, np.array([0, 0, 1, 1]))


PANDAS: dict[str, Maker] = {
    "cells": pandas(lambda pd, d: pd.DataFrame({"n": [1.0, d]})),
    "columns": pandas(lambda pd, d: pd.DataFrame({word(d): [1.0]})),
    "order of columns": pandas(lambda pd, d: pd.DataFrame({"a": [1], "b": [2]})[["a", "b"] if d else ["b", "a"]]),
    "type of columns": pandas(lambda pd, d: pd.DataFrame({1 if d else "1": [1.0]})),
    "name of columns": pandas(lambda pd, d: pd.DataFrame({"n": [1.0]}).rename_axis(columns=word(d))),
    "index": pandas(lambda pd, d: pd.DataFrame({"n": [1.0, 2.0]}, index=["flu", word(d)])),
    "name of the index": pandas(lambda pd, d: pd.DataFrame({"n": [1.0]}).rename_axis(word(d))),
    "start of the index": pandas(lambda pd, d: pd.DataFrame({"n": [1.0]}, index=pd.RangeIndex(d, d + 1))),
    "kind of the index": pandas(lambda pd, d: pd.DataFrame({"n": [1.0]}, index=[0] if d else pd.RangeIndex(1))),
    "two levels": pandas(lambda pd, d: pd.Series([1.0], index=pd.MultiIndex.from_tuples([("a", word(d))]))),
    "unused level": pandas(
        lambda pd, d: pd.Series([1.0, 2.0], index=pd.MultiIndex.from_tuples([("a", "b"), ("a", word(d))])).iloc[:1]
    ),
    "dtype": pandas(lambda pd, d: pd.DataFrame({"n": np.array([1], dtype="int64" if d else "int32")})),
    "attrs": pandas(lambda pd, d: with_attrs(pd.DataFrame({"n": [1.0]}), d)),
    "name": pandas(lambda pd, d: pd.Series([1.0], name=word(d))),
    "labels of counts": pandas(lambda pd, d: pd.Series(["flu"] * 3 + [word(d)]).value_counts()),
    "strings": pandas(lambda pd, d: pd.Series(["flu", word(d)])),
    "objects": pandas(lambda pd, d: pd.Series(["flu", None if d else float("nan")], dtype=object)),
    "missing": pandas(lambda pd, d: pd.Series([1, None if d else 0], dtype="Int64")),
    "category": pandas(lambda pd, d: pd.Series(["flu", word(d)], dtype="category")),
    "unused category": pandas(lambda pd, d: pd.Series(pd.Categorical(["flu"], categories=["flu", word(d)]))),
    "plain category": pandas(lambda pd, d: pd.Categorical(["flu"], categories=["flu", word(d)])),
    "order of categories": pandas(lambda pd, d: pd.Categorical(["a"], categories=["a", "b"], ordered=bool(d))),
    "times": pandas(lambda pd, d: pd.Series(pd.to_datetime(["2026-01-01", f"2026-01-0{1 + d}"]))),
    "times with a zone": pandas(lambda pd, d: pd.Series(pd.to_datetime([f"2026-01-0{1 + d}"], utc=True))),
    "zones": pandas(
        lambda pd, d: pd.Series(pd.to_datetime(["2026-01-01"], utc=True).tz_convert("UTC" if d else "Europe/Paris"))
    ),
    "periods": pandas(lambda pd, d: pd.Series(pd.period_range(f"2026-0{1 + d}", periods=1, freq="M"))),
    "intervals": pandas(lambda pd, d: pd.Series(pd.interval_range(0, 1 + d, periods=1))),
    "sparse": pandas(lambda pd, d: pd.Series(pd.arrays.SparseArray([0, 0, 1 + d]))),
    "Arrow": pandas(lambda pd, d: pd.Series([1, 1 + d], dtype=pd.ArrowDtype(pa.int64()))),
    "time": pandas(lambda pd, d: pd.Timestamp(2026, 1, 1, nanosecond=d)),
    "period": pandas(lambda pd, d: pd.Period(f"2026-0{1 + d}")),
    "interval": pandas(lambda pd, d: pd.Interval(0, 1, closed="left" if d else "right")),
    "no value": pandas(lambda pd, d: pd.NA if d else pd.NaT),
    "an index": pandas(lambda pd, d: pd.Index(["flu", word(d)])),
}
POLARS: dict[str, Maker] = {
    "cells": polars(lambda pl, d: pl.DataFrame({"n": [1.0, d]})),
    "columns": polars(lambda pl, d: pl.DataFrame({word(d): [1.0]})),
    "order of columns": polars(lambda pl, d: pl.DataFrame({"a": [1], "b": [2]}).select(*("ab" if d else "ba"))),
    "dtype": polars(lambda pl, d: pl.DataFrame({"n": [1]}, schema={"n": pl.Int32 if d else pl.Int64})),
    "name": polars(lambda pl, d: pl.Series(word(d), [1.0])),
    "strings": polars(lambda pl, d: pl.Series("s", ["flu", word(d)])),
    "missing": polars(lambda pl, d: pl.Series("s", [1, None if d else 0])),
    "truth": polars(lambda pl, d: pl.Series("s", [True, None, bool(d)])),
    "times": polars(lambda pl, d: pl.Series("s", [d, None], dtype=pl.Int64).cast(pl.Datetime("us"))),
    "enum": polars(lambda pl, d: pl.Series("s", ["flu"], dtype=pl.Enum(["flu", word(d)]))),
    "decimals": polars(lambda pl, d: pl.Series("s", [d, 1]).cast(pl.Decimal(10, 2))),
    "lists": polars(lambda pl, d: pl.Series("s", [[1], [d]])),
}
ARROW: dict[str, Maker] = {
    "cells": lambda d: pa.table({"n": [1.0, d * 1.0]}),
    "columns": lambda d: pa.table({word(d): [1.0]}),
    "dtype": lambda d: pa.table({"n": pa.array([1], pa.int32() if d else pa.int64())}),
    "metadata": lambda d: pa.table({"n": [1]}).replace_schema_metadata({"who": word(d)}),
    "metadata of a field": lambda d: pa.table(
        [pa.array([1])], pa.schema([pa.field("n", pa.int64(), metadata={"who": word(d)})])
    ),
    "nullable": lambda d: pa.table([pa.array([1])], pa.schema([pa.field("n", pa.int64(), nullable=bool(d))])),
    "strings": lambda d: pa.table({"s": ["flu", word(d)]}),
    "missing": lambda d: pa.array([1, None if d else 0]),
    "truth": lambda d: pa.array([True, None, bool(d)]),
    "unused category": lambda d: pa.DictionaryArray.from_arrays([0], ["flu", word(d)]),
    "times": lambda d: pa.array([d, None], pa.timestamp("us", tz="UTC")),
    "chunks": lambda d: pa.chunked_array([[1, 2], [3]] if d else [[1], [2, 3]]),
    "decimals": lambda d: pa.array([d, 1], pa.decimal128(10, 2)),
    "scalar": lambda d: pa.scalar(d),
    "batch": lambda d: pa.record_batch({"n": [d]}),
}
OTHERS: dict[str, Maker] = {
    "sparse": lambda d: sp.csr_matrix(np.eye(2) * (1 + d)),
    "format": lambda d: (sp.csr_matrix if d else sp.csc_matrix)(np.eye(2)),
    "explicit zero": lambda d: sp.csr_matrix(([0.0], ([0], [0])), shape=(2, 2)) if d else sp.csr_matrix((2, 2)),
    "shape": lambda d: sp.csr_matrix((2, 2 + d)),
    "large": lambda d: sp.coo_matrix(([1.0], ([d], [0])), shape=(1000, 1000)),
    "twice": lambda d: sp.coo_matrix(([1.0, 1.0] if d else [2.0], ([0] * (1 + d), [0] * (1 + d))), shape=(2, 2)),
    "model": lambda d: fitted(LogisticRegression(), d),
    "parameters": lambda d: fitted(LogisticRegression(C=1.0 + d), 0),
    "not fitted": lambda d: fitted(GaussianNB(), 0) if d else GaussianNB(),
    "pipeline": lambda d: fitted(make_pipeline(StandardScaler(), GaussianNB()), d),
    "tree": lambda d: DecisionTreeClassifier(random_state=1).fit(
        np.array([[0.0], [1.0], [2.0 + d]]), np.array([0, 0, 1])
    ),
}
CASES = {
    f"{kind}: {name}": make
    for kind, cases in (("pandas", PANDAS), ("polars", POLARS), ("Arrow", ARROW), ("other", OTHERS))
    for name, make in cases.items()
}


def identity(output: Any) -> tuple[Any, bytes]:
    values: list[float] = []
    kinds: list[str] = []
    key = flatten(output, values, kinds)
    assert len(values) == len(kinds) == len(list(slots(key, "output"))) and words(key)
    return key, ordinal(np.array(values, dtype=float)).tobytes()


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_each_channel_that_differs_is_seen(make: Maker) -> None:
    assert identity(make(0)) != identity(make(1))
    assert identity(make(0)) == identity(make(0))


LEAKS = ["pandas: index", "pandas: labels of counts", "polars: strings", "Arrow: unused category", "other: model"]


@pytest.mark.statistical
@pytest.mark.parametrize("name", LEAKS)
def test_and_audits_refute(name: str) -> None:
    found = audit(
        lambda d, rng: CASES[name](d), claim=Claim(1.0), neighbours=(0, 1), samples=100, confidence=1 - 1e-6, rng=1
    )

    assert found.refuted


def test_a_lazy_frame_is_refused() -> None:
    with pytest.raises(TargetError, match=r"LazyFrame.*collect\(\)"):
        flatten(library("polars").LazyFrame({"a": [1]}), [], [])


def test_derived_frames_are_refused() -> None:
    class Own(library("pandas").DataFrame):  # type: ignore[misc]
        pass

    with pytest.raises(TargetError, match="a class derived from one of pandas"):
        flatten(Own({"a": [1]}), [], [])


def test_a_model_with_what_can_not_be_read_is_refused_with_what_to_return() -> None:
    model = fitted(LogisticRegression(random_state=np.random.RandomState(1)), 0)

    with pytest.raises(TargetError, match=r"attribute random_state \(RandomState\).*'classes_': model.classes_"):
        flatten(model, [], [])


def test_columns_are_named_in_events() -> None:
    pd = library("pandas")
    key = flatten(pd.DataFrame({"age": [1.0, 2.0]}), [], [])

    assert list(slots(key, "output"))[-2:] == ["column age[0]", "column age[1]"]


BATCHES: dict[str, Maker] = {
    "pandas": pandas(lambda pd, _: pd.DataFrame({"n": [1.0, 2.0], "s": ["a", "b"]})),
    "polars": polars(lambda pl, _: pl.DataFrame({"n": [1.0, 2.0], "s": ["a", "b"]})),
    "Arrow": lambda _: pa.table({"n": [1.0, 2.0], "s": ["a", "b"]}),
}


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES.keys())
def test_a_table_of_a_vectorised_target_has_a_run_in_each_row(make: Maker) -> None:
    book = Codebook()

    table = read(make(0), 2, book, vectorised=True)

    assert np.asarray(table.codes).tolist() == [0, 1] and [table.blocks[c].tolist() for c in (0, 1)] == [
        [[1.0]],
        [[2.0]],
    ]
    assert "'a'" in str(book.layouts[0]) and book.layouts[0].slot(0) == "output.n"


def test_a_series_of_a_vectorised_target_with_an_index_is_refused() -> None:
    pd = library("pandas")
    assert read(pd.Series([1.0, 2.0]), 2, Codebook(), vectorised=True).blocks[0].tolist() == [[1.0], [2.0]]

    with pytest.raises(TargetError, match="index is not 0, 1"):
        read(pd.Series([1.0, 2.0], index=["flu", "HIV"]), 2, Codebook(), vectorised=True)


@pytest.mark.statistical
def test_no_library_is_imported() -> None:
    code = (
        "import sys, hockeystick as hs\n"
        "hs.audit(lambda d, rng: ['a', d, {'b': None}], claim=(1.0, 0.0), neighbours=(0, 1), samples=40, rng=1)\n"
        "print(sorted({'pandas', 'polars', 'pyarrow', 'sklearn', 'torch'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
