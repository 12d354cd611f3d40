"""Tests that objects of wrong classes are refused by typed errors, which name the argument and tell no value."""

from __future__ import annotations

import inspect
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Protocol

import attrs
import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import hockeystick as hs
from hockeystick.accounting import AccountantGraph, Adjacency, EpsilonDelta, InvalidDataError, argument_classes
from hockeystick.accounting.argument_classes import typed


class Drawer(Protocol):
    def draw(self) -> float: ...


FITTING: list[tuple[Any, Any]] = [
    (float, 1), (float, np.float32(1)), (float, Fraction(1, 3)), (float, Decimal(1)), (float, np.array(1.0)),
    (str, "a"), (str | None, None), (Any, object()), (object, object()), (Callable[[int], int], len), (type[int], int),
    (Iterable[str], ("a", "b")), (Sequence[int], np.arange(3)), (Mapping[str, int], {"a": 1}), (Literal["a"], 3),
    (ArrayLike, [[1]]), (ArrayLike, np.ones(2)), (ArrayLike, 3), (NDArray[np.float64], [1.0]), (int, True),
    (tuple[int, str], (1, "a")), (tuple[int, ...], (1, 2, 3)), (list[str], []), (os.PathLike[str] | str, "a"),
]  # fmt: skip
WRONG: list[tuple[Any, Any]] = [
    (float, "1"), (float, None), (float, [1.0]), (int, object()), (str, 3), (str | None, 3), (Callable[[int], int], 3),
    (type[int], 3), (Iterable[str], 3), (Iterable[str], ["a", 3]), (Sequence[int], None), (Mapping[str, int], [1]),
    (ArrayLike, object()), (ArrayLike, None), (NDArray[np.float64], "x"), (Drawer, 3), (tuple[int, str], ("a", 1)),
    (Adjacency, 3), (None, 3), (np.random.Generator, 7),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "value"), FITTING)
def test_what_may_be_meant_fits(hint: Any, value: Any) -> None:
    assert argument_classes._fits(value, hint)


@pytest.mark.parametrize(("hint", "value"), WRONG)
def test_what_cannot_be_meant_does_not_fit(hint: Any, value: Any) -> None:
    assert not argument_classes._fits(value, hint)


def longest(names: Iterable[str], *, by: Callable[[str], int] = len) -> int:
    return max(map(by, names))


longest.__module__ = "hockeystick.planted"


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "hockeystick.planted", types.ModuleType("hockeystick.planted"))
    return typed(longest)


def test_the_first_argument_that_explains_an_error_is_named_by_its_class_alone(handled: Any) -> None:
    assert handled(["a", "bc"]) == 2
    with pytest.raises(
        InvalidDataError, match=r"^names=<int>: is of a wrong class; expected Iterable\[str\]$"
    ) as found:
        handled(12345)
    assert found.value.__context__ is None and "12345" not in repr(vars(found.value))
    with pytest.raises(InvalidDataError, match=r"^by=<str>"):
        handled(["a"], by="secret")


def test_errors_that_no_argument_explains_are_left_alone(handled: Any) -> None:
    with pytest.raises(ZeroDivisionError):  # of the caller's own function
        handled(["a"], by=lambda name: 1 // 0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        handled(["a"], bye=len)
    with pytest.raises(ValueError, match="empty"):
        handled([])


def test_public_functions_and_classes_keep_their_identity_and_signature() -> None:
    assert pickle.loads(pickle.dumps(hs.accounting.calibrate)) is hs.accounting.calibrate
    assert typed(hs.accounting.calibrate) is hs.accounting.calibrate
    assert "tolerance" in inspect.signature(hs.accounting.calibrate).parameters
    event = pickle.loads(pickle.dumps(hs.events.Laplace(2.0)))
    assert event == hs.events.Laplace(2.0) and attrs.evolve(event, noise_multiplier=3.0) == hs.events.Laplace(3.0)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda odd: AccountantGraph().source("a").release("b", hs.events.Laplace(1.0), reads=odd), "reads"),
        (lambda odd: hs.accounting.split_budget(odd, EpsilonDelta(1.0, 1e-6), cost=sum, guess=[1.0, 2.0]), "build"),
        (lambda odd: hs.accounting.ZCDPFilter(1.0).after(odd), "event"),
        (lambda odd: hs.mechanisms.check_mechanism(odd, 42), "mechanism"),
    ],
)
@pytest.mark.parametrize("odd", [3, None, object()])
def test_a_public_call_with_an_object_of_a_wrong_class_is_refused(call: Any, argument: str, odd: object) -> None:
    with pytest.raises(hs.accounting.HockeystickError, match=argument):
        call(odd)


def test_methods_of_what_a_public_call_returned_are_public_too() -> None:
    """The classes of sessions, moves and plans are in no face of the packages."""
    session = hs.learners.LazyExperts(rounds=4, experts=3, learning_rate=0.1, fake_switch_probability=0.1).start()
    graph = AccountantGraph().source("a").release("b", hs.events.Laplace(1.0), reads=["a"])
    for found in (session, graph.guarantee().moves[0]):
        assert argument_classes.MARK in vars(type(found))


def test_the_class_of_a_returned_object_is_learned_once(monkeypatch: pytest.MonkeyPatch, handled: Any) -> None:
    class Box:
        def put(self, names: list[str]) -> int:
            return len(names)

    Box.__module__ = Box.put.__module__ = "hockeystick.planted"
    pick = types.FunctionType((lambda kind: kind()).__code__, globals(), "pick")
    pick.__module__ = "hockeystick.planted"
    box = typed(pick)(Box)
    assert box.put(["a"]) == 1
    with pytest.raises(InvalidDataError, match=r"^names=<int>"):
        box.put(3)
