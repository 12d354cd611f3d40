"""Verdicts read from files: whatever stands in one, it is a whole verdict or a typed refusal, and can be shown."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick._runs.calibration import Template
from hockeystick.accounting import Gaussian, Guarantee, HockeystickError, InvalidArgumentError, Laplace, compose
from hockeystick.accounting.graph.accountant_graph import AccountantGraph
from hockeystick.audits import OneRunDesign, SequentialVerdict, TradeoffPoint, Verdict
from hockeystick.audits.targets.data_sizes import check_sizes
from hockeystick.audits.verdicts.pairs import in_short

VERDICT = Verdict(
    outcome="refuted",
    epsilon_claimed=1.0,
    delta=1e-6,
    epsilon_lower=1.25,
    confidence=0.999,
    samples=1000,
    timed=True,
    direction="d1->d0",
    event="output < 0.5",
    count_p=250,
    count_q=30,
    trials=500,
    epsilon_tested=0.5,
    delta_tested=1e-3,
    detectable_epsilon=math.inf,
    float_leak=False,
    bits=False,
    seed=2**127,
    seconds=3.2,
    warnings=("one",),
    tradeoff=(TradeoffPoint(0.06, 0.5, 0.05, 0.07, 0.49, 0.51),),
    event_back="output > 0.5",
    count_back_p=3,
    count_back_q=1,
    delta_lower=0.125,
    planned=100_000,
    level=5e-5,
)
SEQUENTIAL = SequentialVerdict(
    outcome="consistent",
    epsilon_claimed=1.0,
    delta=0.0,
    alpha=1e-6,
    log_wealth=2.5,
    log_wealth_end=-1.0,
    epsilon_lower=0.25,
    samples=4096,
    stopped_at=4096,
    direction="d0->d1",
    event="output < 0.5",
    frequency_p=0.5,
    frequency_q=0.25,
    epsilon_tested=1.0,
    delta_tested=0.0,
    detectable_epsilon=1.5,
    seed=7,
    seconds=0.5,
    count_p=512,
    count_q=256,
    trials=1024,
    event_exact="output < 0.5000000001",
    hint="the outputs look like noise",
    data=("list of 3", "list of 2"),
)
GRAPH = AccountantGraph().source("a").release("x", compose(Gaussian(2.0), (Laplace(3.0), 2)), reads=["a"], count=3)
DESIGN = OneRunDesign.draw(12, rng=1)


def read_verdict(text: str) -> None:
    found = Verdict.from_json(text)
    assert found.outcome in found.to_json()
    assert found.event in found.summary()
    assert Verdict.from_json(found.to_json()) == found
    assert found._repr_html_() and found._repr_markdown_() and repr(found)


def read_sequential(text: str) -> None:
    found = SequentialVerdict.from_json(text)
    assert found.event in found.summary()
    assert SequentialVerdict.from_json(found.to_json()) == found


def read_design(text: str) -> None:
    found = OneRunDesign.from_json(text)
    assert found.included.shape == (found.runs, found.canaries)
    assert OneRunDesign.from_json(found.to_json()) == found


def read_guarantee(text: str) -> None:
    found = Guarantee.from_json(text)
    assert Guarantee.from_json(found.to_json()) == found


def read_template(text: str) -> None:
    found = Template.read(text)
    assert isinstance(found.parameter, str)
    assert isinstance(found.graph(1.0), AccountantGraph)


def template() -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(GRAPH.to_json())
    plain["nodes"][-1]["event"]["parts"][0][0]["noise_multiplier"] = "?"
    return plain


DOCUMENTS = {
    "verdict": (VERDICT.to_dict(), read_verdict),
    "sequential": (SEQUENTIAL.to_dict(), read_sequential),
    "design": (json.loads(DESIGN.to_json()), read_design),
    "guarantee": (json.loads(GRAPH.guarantee().to_json()), read_guarantee),
    "template": (template(), read_template),
}


def nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


NUMBERS = [0, 1, -1, 3, 0.5, -0.5, 1e-300, 1e300, 2**53 + 1, 10**400, 1 - 1e-16, math.nan, math.inf]
OTHERS = [None, True, False, "", "x", "?", "\ud800", "refuted", [], {}, {"a": 1}, nested(60), nested(300)]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, one in inside for place in places(one, (*at, key)))]


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """A document with one to three values changed, left out or moved."""
    found = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        inner = [place for place in places(found) if place and len(place) < 40]
        if not inner:
            return found
        *path, last = draw(st.sampled_from(inner))
        here = found
        for key in path:
            here = here[key]
        match draw(st.sampled_from(["number", "other", "lost", "twice"])):
            case "number":
                here[last] = draw(st.sampled_from(NUMBERS))
            case "other":
                here[last] = copy.deepcopy(draw(st.sampled_from(OTHERS)))
            case "lost":
                del here[last]
            case "twice":
                here[last] = [copy.deepcopy(here[last])] * 2
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("name", DOCUMENTS)
@given(data=st.data())
def test_a_changed_document_is_read_whole_or_refused(name, data):
    document, read = DOCUMENTS[name]
    text = json.dumps(data.draw(changed(document)))
    try:
        read(text)
    except HockeystickError as error:
        assert str(error)


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 2_000 + "1" + "}" * 2_000, "1" * 5000, "nul", "[]", '"x"', "{}", "", "\ud800"]
)
def test_a_text_that_is_not_a_document_is_refused(name, text):
    with pytest.raises(HockeystickError) as caught:
        DOCUMENTS[name][1](text)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_as_written_is_read(name):
    document, read = DOCUMENTS[name]
    read(json.dumps(document))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", 2),
        ("unknown", 1),
        ("outcome", "certified private"),
        ("outcome", "consistent"),  # while "refuted" is true
        ("refuted", False),
        ("refuted", 1),
        ("epsilon_lower", -5),
        ("epsilon_lower", "1"),
        ("epsilon_claimed", None),
        ("delta", 1.5),
        ("confidence", 7),
        ("confidence", 1.0),
        ("count_p", 10**9),
        ("count_q", 1.5),
        ("count_back_p", 501),
        ("trials", 1001),
        ("planned", 999),
        ("planned", 1000.5),
        ("delta_lower", -0.1),
        ("level", 0),
        ("level", 1),
        ("samples", True),
        ("samples", 10**400),
        ("timed", 0),
        ("direction", "up"),
        ("event", 3),
        ("seed", -1),
        ("seconds", math.nan),
        ("warnings", "one"),
        ("warnings", [1]),
        ("tradeoff", [[0.1]]),
        ("tradeoff", [{"fpr": 0.1}]),
        ("versions", {"numpy": 2}),
        ("event", nested(300)),
    ],
)
def test_a_verdict_with_an_invalid_field_is_refused(field, value):
    with pytest.raises(InvalidArgumentError, match=f"^({field}|refuted|verdict|trials|count|samples)"):
        Verdict.from_dict(VERDICT.to_dict() | {field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("alpha", 0),
        ("log_wealth", math.inf),
        ("stopped_at", 5000),
        ("count_p", 1025),
        ("count_q", 1025),
        ("trials", 1.5),
        ("event_exact", 1),
        ("hint", None),
        ("data", [1]),
    ],
)
def test_a_sequential_verdict_with_an_invalid_field_is_refused(field, value):
    with pytest.raises(InvalidArgumentError, match=f"^{field}"):
        SequentialVerdict.from_dict(SEQUENTIAL.to_dict() | {field: value})


LATER_SEQUENTIAL = {"constant", "versions", "count_p", "count_q", "trials", "event_exact", "hint", "data"}
LATER = {"event_probability", "event_back", "count_back_p", "count_back_q", "versions"}
LATER |= {"delta_lower", "planned", "level", "constant", "pair", "pairs"}
LATER |= {"event_exact", "event_back_exact", "hint", "data"}
LATER |= {"guesses", "right_guesses", "method", "why"}
"""Fields that files of earlier versions lack."""


@pytest.mark.parametrize("field", sorted(VERDICT.to_dict()))
def test_every_field_of_a_verdict_is_needed_but_later_ones_and_what_follows_from_others(field):
    plain = VERDICT.to_dict()
    del plain[field]
    if field in {"refuted", "samples_to_detect"}:
        assert Verdict.from_dict(plain) == VERDICT
    elif field in LATER:
        assert Verdict.from_dict(plain).event == VERDICT.event
    else:
        with pytest.raises(InvalidArgumentError):
            Verdict.from_dict(plain)


@pytest.mark.parametrize("field", sorted(SEQUENTIAL.to_dict()))
def test_every_field_of_a_sequential_verdict_is_needed_but_later_ones_and_what_follows_from_others(field):
    plain = SEQUENTIAL.to_dict()
    del plain[field]
    if field == "refuted":
        assert SequentialVerdict.from_dict(plain) == SEQUENTIAL
    elif field in LATER_SEQUENTIAL:
        assert SequentialVerdict.from_dict(plain).event == SEQUENTIAL.event
    else:
        with pytest.raises(InvalidArgumentError):
            SequentialVerdict.from_dict(plain)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (0, "0"),
        (1.0, "1"),
        (True, "1"),
        (918.0, "a number"),
        ([918] * 3, "list of 3"),
        ({"918": 9}, "dict"),
        ("918", "str"),
    ],
)
def test_data_in_short_tell_no_value_but_0_and_1(data, words):
    assert in_short(data) == words


class LazyTable:
    """As a lazy frame: it has no length, and the names of its columns are a computation."""

    @property
    def columns(self) -> list[str]:
        raise AssertionError("computed")


class BrokenTable(LazyTable):
    def __len__(self) -> int:
        raise ValueError("918")


def test_data_in_short_compute_nothing_and_never_fail():
    assert (in_short(LazyTable()), in_short(BrokenTable())) == ("LazyTable", "BrokenTable")
    check_sizes((LazyTable(), BrokenTable()), None, None)  # no relation is stated
