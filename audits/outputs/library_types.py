"""Tables, sparse matrices, tensors and fitted models of other libraries, as parts that are read value by value.

No library is imported: an object of its type exists only where it was imported before. What is not in a cell is read as
well: labels and their order, dtypes, the index and its names, attributes, categories that no row has, schema metadata.
Objects of derived classes are refused, as their further attributes are not known; estimators are read whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hockeystick.audits.outputs.values import (
    NUMERIC,
    OF_LIBRARIES,
    Frame,
    Record,
    Words,
    column,
    flatten,
    mapping,
    refuse,
    words,
)
from hockeystick.audits.targets.calling import TargetError

Found = Record | Frame | Words | npt.NDArray[Any]

_LARGEST_DENSE = 4096  # cells of a sparse matrix that is read cell by cell
_TENSORS = ("torch", "jax", "jaxlib", "tensorflow")


def of_library(value: Any) -> Found | None:
    """Returns the parts of an object of a known library; None for any other object.

    Raises:
      TargetError: the library is known, but not this type, or not all of its values.
    """
    estimator = getattr(sys.modules.get("sklearn.base"), "BaseEstimator", None)
    if estimator is not None and isinstance(value, estimator):
        return _estimator(value)
    root = type(value).__module__.partition(".")[0]
    reader = _READERS.get(root)
    if reader is not None:
        return reader(value)
    known = next((r for c in type(value).__mro__ if (r := c.__module__.partition(".")[0]) in _READERS), None)
    if known is not None:
        refuse(value, f"a class derived from one of {known}")
    return None


# --- pandas ----------------------------------------------------------------------------------------------------------


def _pandas(value: Any) -> Found | None:
    pandas = sys.modules["pandas"]
    if isinstance(value, pandas.DataFrame):
        labels = [str(label) for label in value.columns]
        meta = ["columns", "attrs", "duplicates"], [_index(value.columns), value.attrs, _duplicates(value)]
        return _pandas_frame("DataFrame", value.index, *meta, labels, [value.iloc[:, i] for i in range(len(labels))])
    if isinstance(value, pandas.Series):
        label = "values" if value.name is None else str(value.name)
        meta = ["name", "attrs", "duplicates"], [value.name, value.attrs, _duplicates(value)]
        return _pandas_frame("Series", value.index, *meta, [label], [value])
    if isinstance(value, pandas.Index):
        return _index(value)
    if isinstance(value, pandas.Interval):
        return Record(f"Interval, closed {value.closed}", ("left", "right"), [value.left, value.right])
    if isinstance(value, pandas.Period):
        return Record(f"Period[{value.freqstr}]", ("ordinal",), [value.ordinal])
    if isinstance(value, pandas.api.extensions.ExtensionArray):
        return _pandas_column(value)
    return None


def _duplicates(value: Any) -> bool:
    return bool(value.flags.allows_duplicate_labels)


def _pandas_frame(
    head: str, index: Any, names: list[str], meta: list[Any], labels: list[str], columns: list[Any]
) -> Frame:
    pandas = sys.modules["pandas"]
    found = [_pandas_column(one.array) for one in columns]
    if type(index) is pandas.RangeIndex:
        return Frame(head, Record("", (*names, "index"), [*meta, _index(index)]), tuple(labels), found)
    levels = [index.get_level_values(i) for i in range(index.nlevels)]
    shown = ["index"] if len(levels) == 1 else [f"index level {i}" for i in range(len(levels))]
    record = Record("", (*names, "index"), [*meta, _index_names(index)])
    return Frame(head, record, (*shown, *labels), [*(_pandas_column(one.array) for one in levels), *found])


def _index(index: Any) -> Record:
    """Returns an index as names and values."""
    pandas = sys.modules["pandas"]
    if type(index) is pandas.RangeIndex:
        parts = [index.start, index.stop, index.step]
        return Record("RangeIndex", ("names", "start", "stop", "step"), [list(index.names), *parts])
    levels = [_pandas_column(index.get_level_values(i).array) for i in range(index.nlevels)]
    return Record(type(index).__name__, ("names", "values"), [list(index.names), levels])


def _index_names(index: Any) -> Record:
    unused = [_pandas_column(level.array) for level in index.levels] if index.nlevels > 1 else []
    return Record(type(index).__name__, ("names", "levels"), [list(index.names), unused])


def _pandas_column(values: Any) -> Found:
    """Returns the items of an array of pandas: its dtype is part of what is read."""
    pandas = sys.modules["pandas"]
    dtype = values.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        names = ("values", "categories", "ordered")
        categories = _pandas_column(dtype.categories.array)
        return Record("category", names, [column(list(values), "category"), categories, bool(dtype.ordered)])
    base = getattr(dtype, "numpy_dtype", None)
    if isinstance(dtype, np.dtype) or (
        isinstance(base, np.dtype) and type(values) is pandas.arrays.NumpyExtensionArray
    ):
        own, dtype = np.asarray(values), np.asarray(values).dtype
        return column(own.tolist(), f"column {dtype}") if dtype.kind == "O" else own
    if isinstance(dtype, pandas.StringDtype):
        return column(list(values), f"column {dtype} {dtype.storage}")
    if isinstance(dtype, pandas.IntervalDtype):
        parts = [_pandas_column(side.array) for side in (values.left, values.right)]
        return Record(f"column {dtype} {dtype.closed}", ("left", "right", "missing"), [*parts, values.isna()])
    if isinstance(dtype, pandas.SparseDtype):
        stored = [values.sp_values, values.sp_index.indices, values.fill_value, len(values)]
        return Record(f"column {dtype}", ("values", "places", "fill_value", "length"), stored)
    if hasattr(values, "asi8"):  # times with a zone, and periods
        return Record(f"column {dtype}", ("values",), [values.asi8])
    if isinstance(dtype, pandas.ArrowDtype):
        return Record(f"column {dtype}", ("values",), [_arrow_column(values.__arrow_array__())])
    if isinstance(base, np.dtype) and base.kind in NUMERIC:
        missing = np.asarray(values.isna())
        return Record(f"column {dtype}", ("values", "missing"), [values.to_numpy(dtype=base, na_value=0), missing])
    refuse(values, f"a column of {dtype}")


# --- polars ----------------------------------------------------------------------------------------------------------


def _polars(value: Any) -> Found | None:
    polars = sys.modules["polars"]
    if type(value) is polars.DataFrame:
        columns = value.get_columns()
        return Frame("DataFrame", None, tuple(value.columns), [_polars_column(one) for one in columns])
    if type(value) is polars.Series:
        return Frame("Series", value.name, (value.name or "values",), [_polars_column(value)])
    if isinstance(value, polars.LazyFrame):
        raise TargetError("target returned a LazyFrame, which has no values yet: return its collect()")
    return None


def _polars_column(series: Any) -> Found:
    polars = sys.modules["polars"]
    head = f"column {series.dtype}"
    if series.dtype == polars.Categorical or series.dtype == polars.Enum:
        fixed = series.dtype.categories if series.dtype == polars.Enum else None
        categories = (series.unique(maintain_order=True) if fixed is None else fixed).to_list()
        parts = [column(series.to_list(), head), column(categories, "categories")]
        return Record(f"category {head}", ("values", "categories"), parts)
    whole = series.dtype.is_temporal()
    if whole or ((series.dtype.is_numeric() or series.dtype == polars.Boolean) and not series.dtype.is_decimal()):
        plain = series.to_physical() if whole else series
        missing = plain.is_null()
        filled = plain.fill_null(False if series.dtype == polars.Boolean else 0)
        if missing.any():
            return Record(head, ("values", "missing"), [filled.to_numpy(), missing.to_numpy()])
        return Record(head, ("values",), [filled.to_numpy()]) if whole else filled.to_numpy()
    return column(series.to_list(), head)


# --- Arrow -----------------------------------------------------------------------------------------------------------


def _pyarrow(value: Any) -> Found | None:
    arrow = sys.modules["pyarrow"]
    if isinstance(value, (arrow.Table, arrow.RecordBatch)):
        fields = [
            Record("field", ("name", "type", "nullable", "metadata"), [f.name, str(f.type), f.nullable, f.metadata])
            for f in value.schema
        ]
        meta = Record("schema", ("fields", "metadata"), [fields, value.schema.metadata])
        columns = [_arrow_column(one) for one in value.columns]
        return Frame(type(value).__name__, meta, tuple(value.schema.names), columns)
    if isinstance(value, (arrow.Array, arrow.ChunkedArray)):
        return Record(type(value).__name__, ("values",), [_arrow_column(value)])
    if isinstance(value, arrow.Scalar):
        return Record(f"scalar {value.type}", ("value",), [value.as_py()])
    return None


def _arrow_column(values: Any) -> Found:
    arrow = sys.modules["pyarrow"]
    if isinstance(values, arrow.ChunkedArray):
        if values.num_chunks == 1:
            return _arrow_column(values.chunk(0))
        parts = [[len(chunk) for chunk in values.chunks], _arrow_column(values.combine_chunks())]
        return Record("chunks", ("lengths", "values"), parts)
    kind, types = values.type, arrow.types
    head = f"column {kind}"
    if types.is_dictionary(kind):
        parts = [column(values.to_pylist(), head), column(values.dictionary.to_pylist(), "categories")]
        return Record("category", ("values", "categories"), parts)
    if types.is_temporal(kind) and not types.is_interval(kind):
        width = {32: arrow.int32(), 64: arrow.int64()}[kind.bit_width]
        return Record(head, ("values",), [_arrow_column(values.view(width))])
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        if values.null_count:
            filled = values.fill_null(False if types.is_boolean(kind) else arrow.scalar(0, type=kind))
            missing = values.is_null().to_numpy(zero_copy_only=False)
            return Record(head, ("values", "missing"), [filled.to_numpy(zero_copy_only=False), missing])
        return np.asarray(values.to_numpy(zero_copy_only=False))
    return column(values.to_pylist(), head)


# --- scipy, tensors, estimators ---------------------------------------------------------------------------------------


def _scipy(value: Any) -> Found | None:
    sparse = sys.modules.get("scipy.sparse")
    if sparse is None or not sparse.issparse(value):
        return None
    head, entries = f"{type(value).__name__} {value.dtype} {value.shape}", value.tocoo()
    places = list(getattr(entries, "coords", (entries.row, entries.col)))
    code = np.ravel_multi_index(places, value.shape) if entries.nnz else np.empty(0, dtype=np.int64)
    if np.prod(value.shape) <= _LARGEST_DENSE and np.all(np.diff(code) > 0):
        dense, stored = np.zeros(value.shape, dtype=value.dtype), np.zeros(value.shape, dtype=bool)
        dense.ravel()[code], stored.ravel()[code] = entries.data, True
        return Record(head, ("values", "stored"), [dense, stored])
    return Record(head, ("data", "places"), [entries.data, places])


def _tensor(value: Any) -> Found | None:
    if hasattr(value, "detach"):  # torch's
        value = value.detach().cpu()
    if not hasattr(value, "__array__"):
        return None
    try:
        return np.asarray(value)
    except Exception as error:
        refuse(value, f"{type(error).__name__} while it was made an array")


def _estimator(value: Any) -> Record:
    """Returns all attributes of an estimator: its parameters, and those that were fitted."""
    head, own = type(value).__name__, vars(value)
    fitted = sorted(name for name in own if name.endswith("_") and not name.startswith("_"))
    for name, part in own.items():
        try:
            flatten(part, [], [])
        except TargetError as error:
            example = ", ".join(f"{n!r}: model.{n}" for n in fitted[:3]) or "'coef': model.coef_"
            raise TargetError(
                f"target returned a {head} whose attribute {name} ({type(part).__name__}) can't be read value by "
                f"value: return the fitted attributes that are released, say {{{example}}}"
            ) from error
    return mapping(head, own)


def _sklearn(value: Any) -> Found | None:
    tree = getattr(sys.modules.get("sklearn.tree._tree"), "Tree", None)
    if tree is not None and type(value) is tree:
        return mapping("Tree", value.__getstate__())
    bunch = getattr(sys.modules.get("sklearn.utils"), "Bunch", None)
    return mapping("Bunch", value) if bunch is not None and type(value) is bunch else None


_READERS: dict[str, Callable[[Any], Found | None]] = {
    "pandas": _pandas,
    "polars": _polars,
    "pyarrow": _pyarrow,
    "scipy": _scipy,
    "sklearn": _sklearn,
    **dict.fromkeys(_TENSORS, _tensor),
}


def batch_columns(value: Any, runs: int) -> Record | npt.NDArray[Any] | None:
    """Returns a batch that a vectorised target returned as a table, with the runs as its rows; None for other types.

    Raises:
      TargetError: its rows have an index of their own, or its type is not known.
    """
    root = type(value).__module__.partition(".")[0]
    if root in _TENSORS:
        found = _tensor(value)
        return found if isinstance(found, np.ndarray) else None
    if root not in ("pandas", "polars", "pyarrow"):
        return None
    frame = _READERS[root](value)
    if isinstance(frame, Record) and len(frame.parts) == 1:
        frame = Frame(frame.head, None, ("values",), frame.parts)
    if not isinstance(frame, Frame):
        return None
    if root == "pandas" and frame.labels[:1] != () and not _plain_rows(value, runs):
        raise TargetError(
            f"target was called for {runs} runs and returned a {frame.head} whose index is not 0, 1, ...: the rows are "
            "the runs; return reset_index(), or one output a call"
        )
    columns = [_rows(part) for part in frame.columns]
    if any(one is None or len(one) != runs for one in columns):
        return None
    kinds = [f"{label}: {_kind(part)}" for label, part in zip(frame.labels, frame.columns, strict=True)]
    values: list[float] = []
    meta = words(flatten(frame.meta, values, []))
    return Record(f"{frame.head} {meta} {values} {'; '.join(kinds)}", frame.labels, columns)


def _plain_rows(value: Any, runs: int) -> bool:
    pandas = sys.modules["pandas"]
    index = value.index
    return type(index) is pandas.RangeIndex and (index.start, index.step, len(index)) == (0, 1, runs)


def _kind(part: Found) -> str:
    return str(part.dtype) if isinstance(part, np.ndarray) else part.head


def _rows(part: Found) -> Sequence[Any] | npt.NDArray[Any] | None:
    """Returns a column with one item for each row."""
    if isinstance(part, np.ndarray):
        return part
    if isinstance(part, Words):
        return list(part.tokens)
    if isinstance(part, Record) and not part.names:
        return part.parts
    if isinstance(part, Record) and part.names == ("values", "missing"):
        values, missing = part.parts
        return [None if gone else one for one, gone in zip(values.tolist(), missing.tolist(), strict=True)]
    return _rows(part.parts[0]) if isinstance(part, Record) and part.names == ("values",) else None


OF_LIBRARIES.append(of_library)
