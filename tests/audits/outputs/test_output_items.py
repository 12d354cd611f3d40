"""Items of outputs: which lists an output with words is read as, whatever holds them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.audits.outputs import reading  # noqa: F401  # knows the types of other libraries
from hockeystick.audits.outputs.output_items import Items, has_words, items_of
from hockeystick.audits.outputs.values import flatten


def library(name: str) -> Any:
    pytest.importorskip(name, reason=f"{name} is not installed")
    return import_module(name)


def items(output: Any) -> Items:
    values: list[float] = []
    return items_of(flatten(output, values, []), values)


@dataclasses.dataclass
class Answer:
    note: str
    count: float


WORDS = ["flu", "HIV", "flu"]
FORMS: dict[str, tuple[Any, Items]] = {
    "a list": (WORDS, {"output": WORDS}),
    "a tuple": (tuple(WORDS), {"output": WORDS}),
    "an array": (np.array(WORDS), {"output": WORDS}),
    "an array of objects": (np.array(["flu", None, 2.0], dtype=object), {"output[0]": ["flu"], "output[2]": [2.0]}),
    "a set": ({"b", "a"}, {"output": ["a", "b"]}),
    "missing values": (["a", None, float("nan")], {"output[0]": ["a"], "output[1]": [None]}),
    "a text": ("flu, HIV", {"output": ["flu, HIV"], "the words of output": ["flu", ",", "HIV"]}),
    "one word": ("flu", {"output": ["flu"], "the characters of output": ["f", "l", "u"]}),
    "lines": ("a\nb\na", {"the lines of output": ["a", "b", "a"], "the words of output": ["a", "b", "a"]}),
    "sentences": (["no flu", "HIV"], {"output": ["no flu", "HIV"], "the words of output": ["no", "flu", "HIV"]}),
    "bytes": ([b"flu", b"HIV"], {"output": [b"flu", b"HIV"]}),
    "a text beside a number": (("flu", 3.5), {"output[0]": ["flu"], "output[1]": [3.5]}),
    "rows": (
        [("flu", 1), ("HIV", 2)],
        {"output[*, 0]": ["flu", "HIV"], "output[*, 1]": [1, 2], "the rows of output": [("flu", 1), ("HIV", 2)]},
    ),
    "records": (
        [{"n": 1, "diag": "flu"}, {"n": 2, "diag": "HIV"}],
        {"output[*].diag": ["flu", "HIV"], "output[*].n": [1, 2], "the rows of output": [("flu", 1), ("HIV", 2)]},
    ),
    "columns": ({"diag": WORDS, "n": [1, 2, 3]}, {"output.diag": WORDS, "output.n": [1, 2, 3]}),
    "names": ({"flu": 1.5, "HIV": 2.5}, {"the names of output": ["HIV", "flu"], "output.HIV": [2.5]}),
    "names in another order": ({"b": 1, "a": 2}, {"the order of the names of output": ["b", "a"]}),
    "an array of two dimensions": (
        np.array([["flu", "m"], ["HIV", "f"]]),
        {
            "output[*, 0]": ["flu", "HIV"],
            "output[*, 1]": ["m", "f"],
            "the rows of output": [("flu", "m"), ("HIV", "f")],
        },
    ),
    "objects in two dimensions": (
        np.array([["flu", 1], ["HIV", 2]], dtype=object),
        {"output[*, 0]": ["flu", "HIV"], "the rows of output": [("flu", 1), ("HIV", 2)]},
    ),
    "a structured array": (np.array([("flu", 1)], dtype=[("diag", "U3"), ("n", "i8")]), {"output.diag": ["flu"]}),
    "an array of words a row": ([np.array(["a", "b"]), np.array(["c", "d"])], {"output[*, 1]": ["b", "d"]}),
    "a data class": (Answer("flu", 2.5), {"output.note": ["flu"], "output.count": [2.5]}),
    "rows of rows": ([[["a"], ["b"]], [["c"]]], {"the rows of output": [("a", "b"), ("c",)]}),
    "a complex number": ([1j, "a"], {"output[0]": [0.0, 1.0], "output[1]": ["a"]}),
    "a number beyond 2^53": ([2**60 + 1, "a"], {"output[1]": ["a"]}),
    "Arrow": (
        pa.table({"diag": ["flu", "HIV"], "n": [1.0, 2.0]}),
        {"column diag": ["flu", "HIV"], "column n": [1.0, 2.0], "the rows of output": [("flu", 1.0), ("HIV", 2.0)]},
    ),
    "categories of Arrow": (
        pa.table({"diag": pa.DictionaryArray.from_arrays([0, 0], ["flu", "HIV"])}),
        {"column diag": ["flu", "flu"], "column diag.categories": ["flu", "HIV"]},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_as_items_at_places(form: str) -> None:
    output, wanted = FORMS[form]

    found = items(output)

    assert {place: found.get(place) for place in wanted} == wanted


FRAMES: dict[str, tuple[Callable[[], Any], Items]] = {
    "pandas: a frame": (
        lambda: library("pandas").DataFrame({"diag": WORDS, "n": [1, 2, 3]}),
        {"column diag": WORDS, "column n": [1, 2, 3], "the rows of output": [("flu", 1), ("HIV", 2), ("flu", 3)]},
    ),
    "pandas: an unused category": (
        lambda: library("pandas").Series(library("pandas").Categorical(["flu"], categories=["flu", "HIV"])),
        {"column values": ["flu"], "column values.categories": ["flu", "HIV"]},
    ),
    "pandas: an index": (
        lambda: library("pandas").DataFrame({"n": [1, 2]}, index=["flu", "HIV"]),
        {"column index": ["flu", "HIV"], "the rows of output": [("flu", 1), ("HIV", 2)]},
    ),
    "pandas: missing values": (
        lambda: library("pandas").Series([1, None], dtype="Int64"),
        {"column values": [1, 0], "column values.missing": [0, 1]},
    ),
    "polars: a frame": (
        lambda: library("polars").DataFrame({"diag": WORDS, "n": [1, 2, 3]}),
        {"column diag": WORDS, "the rows of output": [("flu", 1), ("HIV", 2), ("flu", 3)]},
    ),
    "polars: categories": (
        lambda: library("polars").DataFrame(
            {"d": library("polars").Series(WORDS, dtype=library("polars").Categorical)}
        ),
        {"column d": WORDS, "column d.categories": ["flu", "HIV"]},
    ),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_data_frames_are_read_by_column_and_by_row(frame: str) -> None:
    make, wanted = FRAMES[frame]

    found = items(make())

    assert {place: found.get(place) for place in wanted} == wanted


_leaves = (
    st.none() | st.text(max_size=3) | st.integers(-3, 3) | st.floats(allow_nan=False, width=16) | st.binary(max_size=2)
)
_outputs = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=12,
)


def leaves(output: Any) -> list[Any]:
    if isinstance(output, dict):
        return [leaf for name in sorted(output) for leaf in leaves(output[name])]
    if isinstance(output, (list, tuple)):
        return [leaf for part in output for leaf in leaves(part)]
    return [float(output) if isinstance(output, (int, float)) else output]


@given(_outputs)
def test_every_leaf_is_an_item_once(output: Any) -> None:
    """Beside the leaves there are only names, rows, and parts of texts, whose places say so."""
    found = items(output)

    plain = [item for place, own in found.items() if not place.startswith("the ") for item in own]
    assert sorted(map(repr, plain)) == sorted(map(repr, leaves(output)))


@given(_outputs)
def test_json_is_split_into_its_words(output: Any) -> None:
    if isinstance(output, (dict, list)) and '"' in (text := repr(leaves(output)) + " HIV"):
        found = items(json.dumps([text]))
        assert "HIV" in found["the words of output"]


def test_numbers_by_position_have_no_words() -> None:
    for plain in (1.0, [1, 2.0], np.zeros(3), (1, (2, np.ones(2))), 2**60):
        assert not has_words(flatten(plain, [], []))
    for wordy in ("a", None, ["a"], {"n": 1}, pa.table({"n": [1]}), np.array(["a"]), (1.0, b"a")):
        assert has_words(flatten(wordy, [], []))
