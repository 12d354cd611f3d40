"""Tests of the wire format of federated algorithms: it carries everything exactly, and refuses anything else."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.optional_packages import MissingExtraError
from hockeystick.learners.network import flower
from hockeystick.learners.network import flower_wire as wire
from hockeystick.learners.network.protocol import Request

FINITE = st.floats(allow_nan=False, allow_infinity=False)
BOUNDS = st.floats(allow_nan=False)


@st.composite
def several_requests(draw: st.DrawFn) -> list[Request]:
    first = draw(st.integers(1, 2**40))
    steps = draw(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4), min_size=1, max_size=4))
    return [
        Request(
            first + i,
            tuple(step),
            np.array(draw(st.lists(FINITE, max_size=4)), dtype=float),
            draw(st.integers(0, 2**40)),
            *sorted([draw(BOUNDS), draw(BOUNDS)]),
        )
        for i, step in enumerate(steps)
    ]


def fields(request: Request) -> tuple[object, ...]:
    return request.number, request.step, request.values.tolist(), request.size, request.low, request.high


@pytest.mark.statistical
@given(several_requests())
def test_requests_arrive_as_they_were_sent(requests: list[Request]) -> None:
    found = wire.read_requests(wire.requests_record(requests))

    assert [fields(each) for each in found] == [fields(each) for each in requests]


@given(st.integers(1, 2**40), st.lists(st.floats(), max_size=5))
def test_answers_arrive_to_the_bit_finite_or_not(number: int, values: list[float]) -> None:
    answer = np.array(values, dtype=float)
    found = wire.read_answer(wire.answer_record(number, answer), number)

    assert found is not None and found.dtype == np.float64
    np.testing.assert_array_equal(found, answer)


def test_a_refusal_is_no_answer_and_gives_no_reason() -> None:
    assert wire.read_answer(wire.refusal_record(), 7) is None
    assert wire.refusal_record() == {"version": 1, "kind": "refusal"}


def test_seats_are_asked_and_told() -> None:
    wire.read_seat_question(wire.seat_question())
    assert wire.read_seat(wire.seat_record(3)) == 3


REQUESTS = wire.requests_record([Request(4, (1, 2), np.array([0.5]), 3, 0.0, 1.0), Request(5, (), np.zeros(2), 0)])
READERS: dict[str, tuple[wire.Record, Callable[[Any], object]]] = {
    "requests": (REQUESTS, wire.read_requests),
    "answer": (wire.answer_record(4, np.array([0.5, 0.25])), lambda record: wire.read_answer(record, 4)),
    "refusal": (wire.refusal_record(), lambda record: wire.read_answer(record, 4)),
    "seat question": (wire.seat_question(), wire.read_seat_question),
    "seat": (wire.seat_record(1), wire.read_seat),
}
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=9),
    st.binary(max_size=9),
    st.lists(st.one_of(st.booleans(), st.floats(), st.text(max_size=3)), min_size=1, max_size=3),
)


@pytest.mark.parametrize("name", READERS)
def test_every_field_is_needed_and_no_other_is_taken(name: str) -> None:
    record, read = READERS[name]
    read(record)
    for missing in record:
        with pytest.raises(wire.WireError):
            read({key: value for key, value in record.items() if key != missing})
    for extra in ({"more": 1}, {"number": 4, "partition": 1, "values": b"", "sizes": []}):
        with pytest.raises(wire.WireError):
            read({**extra, **record} | {"more": 1})
    for other, (foreign, _) in READERS.items():
        if other != name and {name, other} != {"answer", "refusal"}:
            with pytest.raises(wire.WireError):
                read(foreign)


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_junk_in_a_field_is_refused_without_being_shown(name: str, data: st.DataObject) -> None:
    record, read = READERS[name]
    field = data.draw(st.sampled_from(sorted(record)))
    junk = data.draw(JUNK)
    try:
        read({**record, field: junk})
    except wire.WireError as error:
        assert field in str(error) or "kind" in str(error) or "fields" in str(error) or "length" in str(error)
        if isinstance(junk, (str, bytes)) and len(junk) > 6 and not field.startswith(("version", "kind")):
            assert str(junk) not in str(error)
    else:  # the only junk that may pass is a value that would have been right
        assert type(junk) is type(record[field])


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": 0},
        {"version": True},
        {"version": "1"},
        {"version": 1.0},
        {"kind": "answer"},
        {"kind": None},
        {"first": 0},
        {"first": -1},
        {"first": True},
        {"first": 1.0},
        {"sizes": []},
        {"sizes": [3]},
        {"sizes": [3, 0, 0]},
        {"sizes": [3, -1]},
        {"sizes": [3, True]},
        {"sizes": (3, 0)},
        {"step lengths": [2]},
        {"step lengths": [3, -1]},
        {"step lengths": [2, 1]},
        {"steps": [1]},
        {"steps": [1, 2.0]},
        {"value lengths": [1, 1]},
        {"value lengths": [2**62, 2**62]},
        {"values": b""},
        {"values": b"12345678" * 3 + b"1"},
        {"values": "12345678" * 3},
        {"values": np.array([0.5, np.nan, 0]).tobytes()},
        {"values": np.array([0.5, np.inf, 0]).tobytes()},
        {"ranges": np.array([0.0, 1.0]).tobytes()},
        {"ranges": np.array([1.0, 0.0, 0.0, 1.0]).tobytes()},
        {"ranges": np.array([np.nan, 1.0, 0.0, 1.0]).tobytes()},
    ],
)
def test_malformed_requests_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(wire.WireError):
        wire.read_requests({**REQUESTS, **change})


@pytest.mark.parametrize(
    "change",
    [{"number": 5}, {"number": True}, {"number": "4"}, {"values": b"1234567"}, {"values": [0.5]}, {"kind": "refusal"}],
)
def test_malformed_answers_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(wire.WireError):
        wire.read_answer({**wire.answer_record(4, np.zeros(2)), **change}, 4)


@pytest.mark.parametrize("numbers", [[], [1, 3], [2, 1], [1, 1]])
def test_only_one_runs_requests_travel_together(numbers: list[int]) -> None:
    with pytest.raises(InvalidArgumentError):
        wire.requests_record([Request(number, (), np.zeros(1), 1) for number in numbers])


PAGE = Path(__file__).parents[3] / "docs" / "federated-deployment.md"


def test_the_example_of_the_page_guarantees_what_the_page_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (text,) = re.findall(r"^```python\n(# learner.py\n.*?)^```$", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(text, names)

    plan = names["LEARNER"].graph()
    epsilon = {view: plan.guarantee(view=view).epsilon(0.0).upper for view in ("output", "client", "server")}
    assert epsilon == pytest.approx({"output": 1.0, "client": 1.0, "server": 2.5}, abs=1e-9)
    assert "ε is 1 against `output` and `client`, and 2.5 against `server`" in " ".join(page.split())


def test_without_flower_the_apps_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("flwr", "flwr.app", "flwr.clientapp", "flwr.serverapp"):
        monkeypatch.setitem(sys.modules, module, None)
    anything: Any = print

    for make in (lambda: flower.client_app(anything), lambda: flower.server_app(anything, clients=1, done=anything)):
        with pytest.raises(MissingExtraError, match=r"needs flwr: pip install 'hockeystick\[federated\]'"):
            make()
