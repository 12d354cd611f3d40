"""Values of outputs: whatever differs is told apart, and what can't be is refused."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import functools
import itertools
import pathlib
import types
import uuid
from array import array
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import attrs
import numpy as np
import pytest

from hockeystick.audits import Claim, TargetError, audit
from hockeystick.audits.outputs.cells import ordinal
from hockeystick.audits.outputs.reading import Codebook, read
from hockeystick.audits.outputs.values import flatten, slots

NamedX = collections.namedtuple("NamedX", "x")
NamedY = collections.namedtuple("NamedY", "y")


class Told(list[float]):
    """A list with something to tell beside its items."""

    secret = "a"


@dataclasses.dataclass
class Row:
    name: str
    value: float
    cached: Any = dataclasses.field(default=None, repr=False, compare=False)


@attrs.frozen
class Late:
    value: int = attrs.field(init=False)


def told(items: list[float], **more: Any) -> Told:
    found = Told(items)
    vars(found).update(more)
    return found


def row_with(**more: Any) -> Row:
    found = Row("a", 1.0)
    vars(found).update(more)
    return found


def hidden(value: float) -> np.ndarray:
    """A masked array, of which the value is under the mask."""
    return np.ma.masked_array([value], mask=[True], fill_value=0.0)


UTC, DAY = datetime.UTC, datetime.timedelta(days=1)
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "integers beyond 2^53": (2**60, 2**60 + 1),
    "huge integers": (2**2000, 2**2000 + 1),
    "negative ones": (-(2**60), 2**60),
    "in an array": (np.array([2**60, 1]), np.array([2**60 + 1, 1])),
    "unsigned": (np.uint64(2**64 - 1), np.uint64(2**64 - 2)),
    "decimals": (decimal.Decimal("0.1"), decimal.Decimal("0.1") + decimal.Decimal("1e-20")),
    "zeros of decimals": (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    "fractions": (Fraction(1, 3), Fraction(10**17 + 1, 3 * 10**17)),
    "dates": (datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)),
    "times": (datetime.time(1), datetime.time(1, microsecond=1)),
    "zones": (datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 1, tzinfo=UTC)),
    "durations": (DAY, -DAY),
    "numpy's times": (np.datetime64("2026-01-01"), np.datetime64("2026-01-02")),
    "nanoseconds": (np.array(["2026-01-01"], "M8[ns]"), np.array(["2026-01-01"], "M8[ns]") + np.timedelta64(1, "ns")),
    "no time": (np.datetime64("NaT"), np.datetime64("2026-01-01")),
    "order of a dictionary": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "types of its keys": ({1: 0}, {"1": 0}),
    "and truth": ({1: 0}, {True: 0}),
    "counters": (collections.Counter("ab"), collections.Counter("abb")),
    "default dictionaries": (collections.defaultdict(int, a=0), collections.defaultdict(int, a=1)),
    "sets of numbers": ({0.5, 1.5}, {0.5, 2.5}),
    "sets of words": ({"flu", "HIV"}, {"flu", "cold"}),
    "queues": (collections.deque([1, 2]), collections.deque([2, 1])),
    "ranges": (range(1), range(2)),
    "bytes": (bytearray(b"a"), bytearray(b"b")),
    "views of bytes": (memoryview(b"a"), memoryview(b"b")),
    "arrays of Python": (array("d", [1.0]), array("d", [2.0])),
    "masked numbers": (hidden(1.0), hidden(2.0)),
    "width of strings": (np.array(["a"], "U1"), np.array(["a"], "U12")),
    "objects in arrays": (np.array(["a", None], object), np.array(["a", float("nan")], object)),
    "mixed objects": (np.array(["a", 1], object), np.array(["a", 2], object)),
    "raw bytes": (np.void(b"ab"), np.void(b"ac")),
    "attributes of lists": (told([1.0], secret="HIV"), told([1.0], secret="flu")),
    "attributes beside fields": (row_with(name2="HIV"), row_with(name2="flu")),
    "fields not compared": (Row("a", 1.0, "HIV"), Row("a", 1.0, "flu")),
    "namespaces": (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    "identifiers": (uuid.UUID(int=1), uuid.UUID(int=2)),
    "paths": (pathlib.PurePosixPath("a"), pathlib.PurePosixPath("b")),
    "named tuples": (NamedX(1), NamedY(1)),
    "nested": ({"a": [{"b": 1.0}, ["x"]]}, {"a": [{"b": 1.0}, ["y"]]}),
}


def identity(output: Any) -> tuple[Any, bytes]:
    values: list[float] = []
    kinds: list[str] = []
    key = flatten(output, values, kinds)
    assert len(values) == len(kinds) == len(list(slots(key, "output")))
    return key, ordinal(np.array(values, dtype=float)).tobytes()


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_values_that_differ_are_told_apart(pair: tuple[Any, Any]) -> None:
    assert identity(pair[0]) != identity(pair[1])
    assert identity(pair[0]) == identity(pair[0])


@pytest.mark.statistical
@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_and_audits_see_it(pair: tuple[Any, Any]) -> None:
    """A leak for certain: the exact false-alarm rate is below 1e-6, and a refutation of it is certain."""
    found = audit(
        lambda d, rng: pair[int(d)], claim=Claim(1.0), neighbours=(0, 1), samples=200, confidence=1 - 1e-6, rng=1
    )

    assert found.refuted


def test_sets_are_read_in_one_order() -> None:
    words = ["flu", "cold", "HIV", "none"]
    found = {identity(frozenset(order)) for order in itertools.permutations(words)}

    assert len(found) == 1


def test_large_integers_of_a_batch_are_read_like_single_ones() -> None:
    batch = np.array([[1, 2**60], [1, 3], [2**62 + 1, 0]])
    book = Codebook()

    whole, single = read(batch, 3, book, vectorised=True), read(list(batch), 3, book, vectorised=False)

    assert np.broadcast_to(whole.codes, 3).tolist() == np.broadcast_to(single.codes, 3).tolist()
    assert all((whole.blocks[code] == single.blocks[code]).all() for code in whole.blocks)
    assert read(list(np.array([[1, 2**60]])), 1, book, vectorised=False).codes == np.broadcast_to(whole.codes, 3)[0]


class Opaque:
    def __repr__(self) -> str:
        return "Opaque()"


class Fitted:
    def __init__(self) -> None:
        self.coef, self.intercept = 1.0, 2.0

    def __repr__(self) -> str:
        return "Fitted()"


class Derived(np.ndarray):
    pass


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: Opaque(), "Opaque, whose values can't be distinguished"),
    (lambda: Fitted(), r"attributes \(coef, intercept\), say as a dictionary"),
    (lambda: (x for x in [1]), r"generator.*return list\(\.\.\.\)"),
    (lambda: iter([1]), r"return list\(\.\.\.\)"),
    (lambda: lambda: 1, "function.*the numbers that it holds"),
    (lambda: functools.partial(max, 1), "partial"),
    (lambda: int, "type.*return its name"),
    (lambda: ValueError("a"), "ValueError"),
    (lambda: object(), "object"),
    (lambda: [1.0, {"a": Opaque()}], "Opaque"),
    (lambda: {Opaque(): 1}, "Opaque"),
    (lambda: {Opaque()}, "Opaque"),
    (lambda: np.array([Opaque()]), "Opaque"),
    (lambda: np.zeros(2).view(Derived), r"Derived.*numpy\.asarray"),
    (lambda: told([1.0], secret=Opaque()), "Opaque"),
    (lambda: np.random.default_rng(1), "Generator"),
    (lambda: Late(), "Late whose field value was never set"),
]


@pytest.mark.parametrize(("make", "match"), REFUSED)
def test_what_can_not_be_read_value_by_value_is_refused(make: Callable[[], Any], match: str) -> None:
    with pytest.raises(TargetError, match=match):
        flatten(make(), [], [])


def test_an_output_that_contains_itself_is_refused() -> None:
    own: list[Any] = []
    own.append(own)

    with pytest.raises(TargetError, match="contains itself"):
        flatten(own, [], [])


def test_names_of_numbers_say_where_they_are() -> None:
    key = flatten({"mean": Fraction(1, 2), "when": datetime.date(2026, 1, 1), 3: [1.0, 2.0]}, [], [])

    assert list(slots(key, "output")) == [
        "output.mean",
        "output.mean (numerator)",
        "output.mean (denominator)",
        "output.when (day)",
        "output.3[0]",
        "output.3[1]",
    ]
