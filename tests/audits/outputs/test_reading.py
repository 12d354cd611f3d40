"""Reading outputs: what differs stays different, vectorised or not; and numbers keep their order."""

from __future__ import annotations

import dataclasses
import enum
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hockeystick.audits.outputs.cells import as_real, from_ordinal, ordinal
from hockeystick.audits.outputs.reading import UNSEEN, Codebook, Table, read
from hockeystick.audits.targets.calling import Raised, TargetError

NAN = float("nan")


class Answer(enum.Enum):
    YES = 1
    NO = 2


@attrs.frozen
class Reply:
    value: float
    label: str | None = None


@dataclasses.dataclass
class Point:
    x: float
    y: float


# Any two of these are different outputs.
DIFFERENT: list[Any] = [
    None,
    True,
    1,
    1.0,
    0.0,
    -0.0,
    NAN,
    math.inf,
    -math.inf,
    1j,
    np.float32(1),
    np.int8(1),
    np.float16(1),
    "1",
    "",
    b"1",
    (),
    (1.0,),
    [1.0],
    (1.0, None),
    (None, 1.0),
    ((1.0,), 2.0),
    (1.0, (2.0,)),
    {"a": 1.0},
    {"b": 1.0},
    {"a": 1.0, "b": 1.0},
    {1, 2},
    {1, 3},
    np.array([1.0]),
    np.array([[1.0]]),
    np.array([1.0, 2.0]),
    np.array([1]),
    np.array([True]),
    np.array(["a"]),
    np.array(["b"]),
    np.array([]),
    np.ma.masked_array([1.0], mask=[False]),
    np.ma.masked_array([1.0], mask=[True]),
    Fraction(1, 2),
    Decimal("0.5"),
    Answer.YES,
    Answer.NO,
    Reply(1.0),
    Reply(1.0, "a"),
    Reply(2.0, "a"),
    Point(1.0, 2.0),
    Raised("ValueError"),
    Raised("KeyError"),
    np.datetime64("2026-01-01"),
    10**400,
]


def identity(table: Table, run: int) -> tuple[int, bytes]:
    """What the reader keeps of one run."""
    codes = np.broadcast_to(table.codes, table.runs)
    code = int(codes[run])
    row = int(np.count_nonzero(codes[:run] == code))
    return code, ordinal(table.blocks[code][row]).tobytes() if code in table.blocks else b""


def test_all_kinds_of_outputs_are_distinguished() -> None:
    table = read(DIFFERENT, len(DIFFERENT), Codebook(), vectorised=False)

    seen = [identity(table, run) for run in range(len(DIFFERENT))]

    assert len(set(seen)) == len(DIFFERENT)


@pytest.mark.parametrize("output", DIFFERENT, ids=repr)
def test_every_kind_is_read_alike_each_time_and_has_words(output: Any) -> None:
    book = Codebook()

    table = read([output, None, output], 3, book, vectorised=False)

    assert identity(table, 0) == identity(table, 2)
    assert str(book.layouts[0])
    assert len({book.layouts[0].slot(i) for i in range(len(book.layouts[0].kinds))}) == len(book.layouts[0].kinds)


@pytest.mark.parametrize(
    ("plain", "numpy_like"),
    [(1.5, np.float64(1.5)), (2, np.int64(2)), (True, np.bool_(True)), ("a", np.str_("a")), (1.5, np.array(1.5))],
)
def test_python_values_count_as_their_numpy_twins(plain: Any, numpy_like: Any) -> None:
    table = read([plain, numpy_like], 2, Codebook(), vectorised=False)

    assert identity(table, 0) == identity(table, 1)


BATCHES: list[Any] = [
    np.array([1.5, -0.0, NAN]),
    np.array([1, 2, 3]),
    np.array([True, False, True]),
    np.array([1.0, 2.0, 3.0], dtype=np.float32),
    np.array([1j, 2.0, 3 + 1j]),
    np.arange(6.0).reshape(3, 2),
    np.arange(12).reshape(3, 2, 2),
    np.zeros((3, 0)),
    np.array(["a", "b", "a"]),
    np.array([b"a", b"b", b"a"]),
    np.array([["a", "b"]] * 3),
    np.array([None, 1.0, "x"], dtype=object),
    [1.0, None, "x"],
    [(1.0, 2), None, (3.0, 4)],
]


@pytest.mark.parametrize("batch", BATCHES, ids=lambda b: f"{type(b).__name__}-{getattr(b, 'dtype', '')}")
def test_a_batch_is_read_like_its_outputs_one_by_one(batch: Any) -> None:
    book = Codebook()

    whole = read(batch, 3, book, vectorised=True)
    single = read(list(batch), 3, book, vectorised=False)

    assert [identity(whole, run) for run in range(3)] == [identity(single, run) for run in range(3)]


@pytest.mark.parametrize(
    "made",
    [np.float64, np.float32, np.float16, np.longdouble, np.int8, np.int64, np.uint64, np.bool_, np.complex64]
    + [lambda value: np.int64(2**60 + int(value)), lambda value: np.timedelta64(int(value), "s")]
    + [lambda value: np.datetime64(int(value), "D"), lambda value: np.str_(value)],
)
def test_scalars_of_one_type_are_read_like_scalars_among_others(made: Any) -> None:
    """The former are read at once, the latter one by one."""
    scalars, book = [made(1), made(2), made(1)], Codebook()
    at_once = read(scalars, 3, book, vectorised=False)
    one_by_one = read([*scalars, None], 4, book, vectorised=False)
    assert [identity(at_once, run) for run in range(3)] == [identity(one_by_one, run) for run in range(3)]
    assert identity(at_once, 0) == identity(at_once, 2) != identity(at_once, 1) or made is np.bool_


@pytest.mark.parametrize(
    ("batch", "outputs"),
    [
        ((np.arange(3.0), np.arange(3)), [(float(i), i) for i in range(3)]),
        ({"n": np.arange(3.0), "s": np.array(["a", "b", "a"])}, [{"n": float(i), "s": "aba"[i]} for i in range(3)]),
        (Reply(np.arange(3.0), np.array(["a", "b", "a"])), [Reply(float(i), "aba"[i]) for i in range(3)]),  # type: ignore[arg-type]
        (Point(np.arange(3.0), np.zeros(3)), [Point(float(i), 0.0) for i in range(3)]),  # type: ignore[arg-type]
    ],
)
def test_a_batch_in_parts_is_read_like_its_outputs_one_by_one(batch: Any, outputs: list[Any]) -> None:
    book = Codebook()

    whole = read(batch, 3, book, vectorised=True)
    single = read(outputs, 3, book, vectorised=False)

    assert [identity(whole, run) for run in range(3)] == [identity(single, run) for run in range(3)]


def test_parts_of_a_batch_that_are_none_are_omitted() -> None:
    table = read(Reply(np.arange(3.0)), 3, Codebook(), vectorised=True)  # type: ignore[arg-type]

    assert table.codes == 0
    assert table.blocks[0].tolist() == [[0.0], [1.0], [2.0]]


@pytest.mark.parametrize("batch", [np.zeros(4), np.float64(1), 1.0, None, [1.0], (1.0, 2.0), {"a": np.zeros(2)}])
def test_a_batch_without_the_runs_on_its_leading_axis_is_refused(batch: Any) -> None:
    with pytest.raises(TargetError, match="called for 3 runs"):
        read(batch, 3, Codebook(), vectorised=True)


def test_outputs_that_cannot_be_compared_are_refused() -> None:
    class Opaque:
        pass

    with pytest.raises(TargetError, match="Opaque, whose values can't be distinguished"):
        read([Opaque()], 1, Codebook(), vectorised=False)


def test_a_closed_book_learns_nothing() -> None:
    book = Codebook()
    read(["a", 1.0], 2, book, vectorised=False)
    book.closed = True

    table = read(["a", "b", (1.0,), 2.0], 4, book, vectorised=False)

    assert np.asarray(table.codes).tolist() == [0, UNSEEN, UNSEEN, 1]
    assert len(book.layouts) == 2
    assert read(np.zeros((2, 2)), 2, book, vectorised=True).codes == UNSEEN


def test_tables_are_joined_in_order() -> None:
    book = Codebook()
    tables = [read(part, len(part), book, vectorised=False) for part in ([1.0], ["a", 2.0], [3.0, "a"])]

    joined = Table.join(tables)

    assert np.asarray(joined.codes).tolist() == [0, 1, 0, 0, 1]
    assert joined.blocks[0].ravel().tolist() == [1.0, 2.0, 3.0]


any_floats = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats())


@pytest.mark.statistical
@given(any_floats)
@example(np.array([-0.0, 0.0, NAN, math.inf, -math.inf, 5e-324, -5e-324]))
def test_ordinals_are_the_total_order_of_the_floats(values: np.ndarray) -> None:
    keys = ordinal(values)
    back = from_ordinal(keys)

    assert np.array_equal(back, values, equal_nan=True)
    assert (np.signbit(back) == np.signbit(values))[~np.isnan(values)].all()
    for i in range(len(values)):
        for j in range(len(values)):
            if values[i] < values[j] or (np.isnan(values[j]) and not np.isnan(values[i])):
                assert keys[i] < keys[j]
    assert ordinal(np.array([-0.0]))[0] + 1 == ordinal(np.array([0.0]))[0]


@pytest.mark.statistical
@pytest.mark.parametrize(("kind", "significant"), [("f8", 32), ("f4", 16), ("f2", 8)])
@given(values=any_floats)
@example(values=np.array([np.finfo(float).max, -np.finfo(float).max, 5e-324, -0.0, NAN, math.inf]))
def test_the_public_grid_rounds_to_significant_bits(kind: str, significant: int, values: np.ndarray) -> None:
    block = values[:, None]

    real = as_real(block, (kind,), None)

    assert np.array_equal(as_real(real, (kind,), None), real, equal_nan=True)
    assert (np.isfinite(real) == np.isfinite(block)).all()
    assert (np.signbit(real) == np.signbit(block))[~np.isnan(block)].all()
    normal = np.isfinite(block) & (np.abs(block) > 1e-300) & (np.abs(block) < 1e308)
    before, found = block[normal], real[normal]
    assert (np.abs(found - before) <= np.abs(before) * 2.0**-significant).all()
    mantissa, _ = np.frexp(found)
    assert (mantissa * 2.0**significant == np.round(mantissa * 2.0**significant)).all()


def test_the_public_grid_leaves_integers_alone() -> None:
    block = np.array([[2.0**52 + 1, 0.1], [3.0, 1 / 3]])

    real = as_real(block, ("i", "f8"), None)

    assert real[:, 0].tolist() == block[:, 0].tolist()
    assert (real[:, 1] != block[:, 1]).all()


@pytest.mark.statistical
@given(any_floats, st.sampled_from([1e-6, 0.25, 3.0]))
def test_a_given_grid_is_its_multiples(values: np.ndarray, grid: float) -> None:
    moderate = np.where(np.abs(values) < 1e6, values, 1.0)

    real = as_real(moderate[:, None], ("f8",), grid)[:, 0]

    assert (np.abs(real - moderate) <= grid * 0.500001).all()
    assert np.allclose(real / grid, np.round(real / grid), rtol=1e-9)
    assert not (np.signbit(real) & (real == 0) & (moderate != 0)).any()


def test_the_runs_of_a_layout() -> None:
    alike = read(np.arange(3.0), 3, Codebook(), vectorised=True)
    assert alike.of(0).tolist() == [0, 1, 2] and alike.of(1).tolist() == []
    mixed = read([1.0, "x", 2.0], 3, Codebook(), vectorised=False)
    assert mixed.of(0).tolist() == [0, 2] and mixed.of(1).tolist() == [1]


def test_structured_arrays_are_read_field_by_field() -> None:
    kind = np.dtype([("count", "i8"), ("mean", "f8")])
    batch, book = np.array([(1, 0.5), (2, 0.25)], dtype=kind), Codebook()
    table = read(batch, 2, book, vectorised=True)
    assert book.layouts[0].slot(1) == "output.mean" and book.layouts[0].kinds == ("i", "f8")
    single = read([batch[0], batch[1]], 2, book, vectorised=False)
    assert (table.blocks[0] == single.blocks[0]).all() and len(book.layouts) == 1


def test_a_number_that_cannot_be_read_is_refused() -> None:
    class Number(float):
        def __float__(self) -> float:
            raise ValueError("of the target")

    with pytest.raises(TargetError, match="Number that can't be read"):
        read([Number(1.0)], 1, Codebook(), vectorised=False)
