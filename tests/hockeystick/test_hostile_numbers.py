"""Tests of numbers of odd kinds and sizes: every argument accepts them, or refuses them by a readable typed error.

Too many digits for Python to write, signalling NaN, floats of more than 64 bits, masked and ragged arrays, bools,
texts: they are put in the place of every number that a public class of events, mechanisms or learners is made of, and
into the targets of their calibrations. Warnings are errors here.
"""

from __future__ import annotations

import doctest
import inspect
import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import attrs
import numpy as np
import pytest
from event_instances import INSTANCES
from hypothesis import given
from hypothesis import strategies as st
from private_doors import ROWS

from hockeystick import accounting, events, learners, mechanisms
from hockeystick.accounting import HockeystickError, InvalidArgumentError, InvalidDataError, validate
from hockeystick.audits.bounds.two_counts import clopper_pearson

DIGITS = 10**5000
HOSTILE: tuple[Any, ...] = (
    DIGITS, -DIGITS, Fraction(DIGITS, 3), Fraction(1, DIGITS), Decimal("sNaN"), Decimal("NaN"), Decimal("Infinity"),
    Decimal("1E+400000"), Decimal("1E-400000"), np.longdouble("1e4000"), np.longdouble("1e-4000"), np.longdouble("nan"),
    float("nan"), float("inf"), -float("inf"), -1, 5e-324, 1.7e308, 2**64, np.uint64(2**64 - 1), np.float16(6e4),
    np.ma.masked, np.ma.array([1.0, 2.0], mask=[False, True]), [1, [2]], [DIGITS], [Decimal("sNaN")], np.array([1.0]),
    "7", b"7", None, 1j, True, np.bool_(True), np.array("x"), np.datetime64("2020"), np.timedelta64(3, "D"), object(),
)  # fmt: skip


def outcome(call: Any) -> str | None:
    """Returns the fault in the end of a call; None if it returns or raises a readable typed error."""
    try:
        call()
    except HockeystickError as error:
        return None if str(error) else "says nothing"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    return None


def numbers(made: Any) -> Iterator[str]:
    """The names of the arguments that numbers, or None in a number's place, were given for."""
    if attrs.has(type(made)):
        for field in attrs.fields(type(made)):
            value = getattr(made, field.name)
            if field.init and not isinstance(value, bool) and isinstance(value, int | float | None):
                yield field.alias


@pytest.mark.statistical
def test_every_number_of_an_event_is_checked() -> None:
    wrong, tried = [], 0
    for event in INSTANCES:
        for name in numbers(event):
            for odd in HOSTILE:
                tried += 1
                if (what := outcome(lambda: attrs.evolve(event, **{name: odd}))) is not None:
                    wrong.append(f"{type(event).__name__}({name}={type(odd).__name__}): {what}")
    assert tried > 2000 and not wrong, "\n".join(dict.fromkeys(wrong))


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_number_of_a_mechanism_or_learner_is_checked(name: str) -> None:
    made = ROWS[name].make()
    wrong = []
    for argument in numbers(made):
        for odd in HOSTILE:
            if (what := outcome(lambda: attrs.evolve(made, **{argument: odd}))) is not None:
                wrong.append(f"{argument}={type(odd).__name__}: {what}")
    assert not wrong, "\n".join(dict.fromkeys(wrong))


TARGETS: dict[str, Any] = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "sensitivity": 1.0,
    "entries": 2,
    "answers": 1,
    "queries": 3,
    "survivors": 2,
}
TARGETS |= {"threshold": 1.0, "k": 2, "categories": 3, "steps": 4, "rise": 1, "fall": 0, "participations": 1}
TARGETS |= {"separation": 1, "normaliser": 0.0, "rounds": 16, "experts": 3, "clients": 2, "cells": 4, "sizes": (2, 3)}
TARGETS |= {"marginals": 1}
TARGETS |= {"partitions": 2, "grid": [0.0, 1.0, 2.0], "levels": [0.5]}


# Skellam noise takes seconds to calibrate, by the code that the discrete Gaussian's goes through as well.
CALIBRATED = [n for n in mechanisms.__all__ if hasattr(getattr(mechanisms, n), "calibrated") and "Skellam" not in n]


@pytest.mark.statistical
@pytest.mark.parametrize("name", CALIBRATED)
def test_every_target_of_a_calibration_is_checked(name: str) -> None:
    make, wrong = getattr(mechanisms, name).calibrated, []
    known = inspect.signature(make).parameters
    needed: dict[str, Any] = {each: TARGETS[each] for each in known if each in TARGETS}
    if name == "MatrixMechanism":
        needed["factorisation"] = mechanisms.factorisations.square_root(4)
    if name == "ForGroups":
        needed |= {"make": lambda epsilon: mechanisms.Laplace(1.0 / epsilon), "size": 2, "delta": 0.0}
    if name in ("CellCounts", "DiscreteLaplace", "Marginals", "TopK"):
        needed["delta"] = 0.0
    if name == "TreeAggregation":
        needed["delta"] = None
    assert outcome(lambda: make(**needed)) is None
    for argument in needed:
        for odd in HOSTILE:
            if isinstance(odd, float | np.integer | np.floating) or type(odd) is int:
                continue  # some are targets that are fair, and take long
            if (what := outcome(lambda: make(**(needed | {argument: odd})))) is not None:
                wrong.append(f"{argument}={type(odd).__name__}: {what}")
    assert not wrong, "\n".join(dict.fromkeys(wrong))


# --- arguments of public examples ------------------------------------------------------------------------------------


class Recorder:
    """Stands for a class or function in its example, and keeps the calls of it and of its class methods."""

    def __init__(self, what: Any, calls: list[Any]) -> None:
        self.what, self.calls = what, calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((self.what, inspect.signature(self.what).bind(*args, **kwargs)))
        return self.what(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.what, name)
        return Recorder(found, self.calls) if callable(found) else found


SWEPT = (learners.smoothed, learners.experts, learners.network)
# An oracle is asked up to ``most_calls`` times, which takes minutes; the errors of an Enum are Python's.
LEFT_OUT = {"oracle_cover", "ThreatModel"}
EXAMPLES = sorted({name for part in SWEPT for name in part.__all__} - LEFT_OUT | {"RegretBound"})


def example_calls(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    part = next(part for part in (*SWEPT, learners) if name in part.__all__)
    calls: list[Any] = []
    what = getattr(part, name)
    recorder = Recorder(what, calls)
    for module in (*SWEPT, learners):
        if name in module.__all__:
            monkeypatch.setattr(module, name, recorder)
    for test in doctest.DocTestFinder(recurse=False).find(what, name):
        test.globs[name] = recorder
        for example in test.examples:
            exec(example.source, test.globs)
    return calls


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_argument_of_an_example_is_checked(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    wrong = []
    for function, call in example_calls(monkeypatch, name)[:2]:
        parameters = inspect.signature(function).parameters
        for argument in (each for each in call.arguments if parameters[each].kind != inspect.Parameter.VAR_POSITIONAL):
            for odd in (*HOSTILE, {1, 2}, {"a": 1}, np.array([]), np.zeros((2, 3, 2)), np.array([0.5, np.nan]), "abc"):
                changed = inspect.signature(function).bind(*call.args, **call.kwargs)
                changed.arguments[argument] = odd
                if (what := outcome(lambda: function(*changed.args, **changed.kwargs))) is not None:
                    wrong.append(f"{argument}={type(odd).__name__}: {what}")
    assert not wrong, "\n".join(dict.fromkeys(wrong))


# --- the checks themselves -------------------------------------------------------------------------------------------

ANY_NUMBER = st.one_of(
    st.sampled_from(HOSTILE),
    st.integers(),
    st.floats(),
    st.fractions(),
    st.decimals(),
    st.integers(-(2**62), 2**62).map(np.int64),
    st.floats(width=32).map(np.float32),
    st.lists(st.floats(), max_size=3),
)


@given(ANY_NUMBER, st.booleans())
def test_a_number_is_taken_as_the_nearest_float_or_refused(value: Any, data: bool) -> None:
    try:
        found = validate.real("x", value, data=data)
    except InvalidArgumentError as error:
        assert str(error).startswith("x=") and isinstance(error, InvalidDataError) is data
        assert error.__context__ is None
    else:
        assert math.isfinite(found) and type(found) is float
        exact = value[()] if isinstance(value, np.ndarray) else value
        assert (found == 0.0) == (exact == 0)
        assert found == float(exact)


@given(ANY_NUMBER)
def test_a_whole_number_is_taken_exactly_or_refused(value: Any) -> None:
    try:
        found = validate.integer("x", value)
    except InvalidArgumentError as error:
        assert str(error).startswith("x=") and error.__context__ is None
    else:
        assert type(found) is int and found == value


@given(ANY_NUMBER, st.sampled_from([float, np.int64]), st.booleans())
def test_an_array_is_finite_and_as_it_was_given_or_refused(value: Any, dtype: Any, data: bool) -> None:
    try:
        found = validate.array("x", value, dtype=dtype, data=data)
    except InvalidArgumentError as error:
        assert str(error).startswith("x") and error.__context__ is None
    else:
        assert found.dtype == dtype and np.isfinite(found).all()
        assert dtype is float or (found == np.asarray(value)).all()


def test_masked_entries_are_not_read() -> None:
    """numpy returns the masked numbers, which the caller has marked as invalid."""
    hidden = np.ma.array([[0.5, 0.9], [0.5, 0.5]], mask=[[False, True], [False, False]])
    learner = learners.LazyExperts(rounds=2, experts=2, learning_rate=0.1, fake_switch_probability=0.1)
    for refused in (
        lambda: learner.run(hidden, np.random.default_rng(1)),
        lambda: mechanisms.Laplace(1.0).simulate(hidden, np.random.default_rng(1), 2),
        lambda: mechanisms.RandomizedResponse(1.0).simulate(hidden > 0.6, np.random.default_rng(1), 2),
    ):
        with pytest.raises(InvalidDataError, match="masked"):
            refused()
    learner.run(np.ma.array(hidden.data), np.random.default_rng(1))  # with nothing masked it is an array


def test_a_fraction_that_is_nearly_whole_is_not_whole() -> None:
    with pytest.raises(InvalidArgumentError, match="not an integer"):
        validate.integer("n", Fraction(2**60 + 1, 2))
    assert validate.integer("n", Fraction(2**60 + 2, 2)) == 2**59 + 1


# --- what was untyped, or not a number -------------------------------------------------------------------------------


def test_untyped_input_is_refused_with_a_message() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^k=.* bits>: does not fit in a float"):
        mechanisms.TopK(1.0, k=DIGITS)
    with pytest.raises(InvalidArgumentError, match="asks for an array of more than"):
        mechanisms.TopK.calibrated(k=10**18, epsilon=2.0).worst_case_neighbours()
    with pytest.raises(InvalidArgumentError, match="neighboring_relation"):
        accounting.Accountant(0.0)
    with pytest.raises(InvalidArgumentError, match="records"):
        learners.divergence.Harmonic().least_rise(records=0)
    with pytest.raises(InvalidArgumentError, match="epsilon"):
        mechanisms.DiscreteGaussian.calibrated(epsilon=Decimal("1E-400"), delta=1e-16)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="losses"):
        learners.experts.batch_sums(np.zeros(5), 2)
    with pytest.raises(InvalidArgumentError, match="batch"):
        learners.experts.batch_sums(np.zeros((5, 2)), 0)
    for odd in ({"confidence": 2.0}, {"confidence": math.nan}, {"count": 11}, {"count": [-1]}, {"trials": -1}):
        with pytest.raises(InvalidArgumentError):
            clopper_pearson(**({"count": 3, "trials": 10, "confidence": 0.9} | odd))
    with pytest.raises(InvalidArgumentError, match="delta"):
        accounting.RDPFilter.for_target(5.0, 5e-324)
    assert accounting.RDPFilter.for_target(800.0, 1e-300).delta(800.0) <= 1e-300


def test_numbers_at_the_end_of_their_domain_give_a_bound_and_no_warning() -> None:
    assert accounting.epsilon(events.PermuteAndFlip(2**64), 1e-6).upper >= 2.0**64
    assert accounting.epsilon(events.LogLipschitz(1e308), 1e-6).upper >= 1e308
    sizes = learners.federated.Sizes(clients=3, experts=3, epsilon=1.0, lipschitz=Decimal("0.1"))
    assert sizes.lipschitz == 0.1 and sizes.phase(4, 1, 2).scales
