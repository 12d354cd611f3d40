"""Tests that no error about data shows the data: every public method that takes data gets bad data with a canary.

What an error holds is looked at in full: its text, its attributes, its pickle, and those of its cause and context; and
so are warnings and the log.
"""

from __future__ import annotations

import functools
import inspect
import logging
import pickle
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from canary import NUMBER, TEXT, traces
from command_line import run
from private_doors import DATA, EXEMPT, FILL, LEARNERS, OUTPUTS, PUBLIC, ROWS, Row, public

from hockeystick import learners, mechanisms
from hockeystick.accounting import HockeystickError, InvalidArgumentError, InvalidDataError


class Record:
    """A user-defined object whose text shows everything."""

    def __repr__(self) -> str:
        return str(TEXT)


def bad_values(good: Any) -> Iterator[Any]:
    """Values that are wrong in one way each, and nearly all of which hold the canary."""
    yield from (NUMBER, -NUMBER, 918273, TEXT, TEXT.encode(), Record(), {TEXT: NUMBER}, {NUMBER}, None, True)
    yield from (Decimal(918273), Fraction(918273, 7), complex(NUMBER, 1), 918273 * 10**5000, np.float32(NUMBER))
    yield from (
        np.datetime64(918273, "D"),
        np.longdouble(NUMBER),
        iter([NUMBER]),
        [NUMBER, [NUMBER, 1.0]],
        Decimal("sNaN"),
    )
    if isinstance(good, (np.ndarray, list)):
        shape = np.shape(good)
        size = int(np.prod(shape))
        numbers = np.full(shape, NUMBER)
        for wrong in (np.nan, np.inf, -np.inf, 0.5):
            spoilt = numbers.copy()
            spoilt.flat[0] = wrong
            yield spoilt
        yield from (numbers, numbers.astype(int), numbers.astype(np.float32), numbers.astype(np.longdouble))
        yield from (numbers[..., None], numbers[:0], np.full((size + 3, 2, 2), NUMBER), numbers.tolist())
        yield from (np.full(shape, TEXT), np.full(shape, TEXT).tolist(), np.full(shape, Record()), numbers + 1j)
        yield from (numbers.astype(bool), numbers.astype(object), np.ma.masked_greater(numbers, 0.0))
        yield from ([TEXT, *numbers.ravel().tolist()], [numbers], [numbers, TEXT], [[NUMBER], [NUMBER, 1.0]])
        yield np.array([(NUMBER, TEXT)] * max(size, 1), dtype=[("a", float), ("b", "U20")])
    if isinstance(good, learners.ClientCounts):
        where = np.zeros(918, int)
        yield learners.ClientCounts.of_records(where, where, symbol_count=7)
        yield np.full((4, 4), NUMBER)
    if isinstance(good, learners.lazy.LinearLosses):
        n, d = good.gradients.shape
        steep = np.full((n, d), NUMBER)
        yield from (
            learners.lazy.LinearLosses(steep),
            learners.lazy.LinearLosses(steep[:, :1]),
            learners.lazy.QuadraticLosses(steep),
        )
        yield learners.lazy.RegressionLosses(steep, np.ones(n))
    if isinstance(good, learners.ContextualRewards):
        long, high = np.full(good.contexts.shape, NUMBER), np.full(good.rewards.shape, NUMBER)
        yield from (
            learners.ContextualRewards(long, good.rewards),
            learners.ContextualRewards(good.contexts, high),
            learners.ContextualRewards(long[:, :, :1], high),
            learners.ContextualRewards(long[:2], high[:2]),
        )


def doors(name: str) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """The public methods of a row's object, or the function that the row is about."""
    made = ROWS[name].make()
    if inspect.isclass(made) or inspect.isroutine(made) or isinstance(made, functools.partial):
        yield name, "", made
        return
    for method in dir(type(made)):
        if (method == "__call__" or not method.startswith("_")) and callable(getattr(type(made), method, None)):
            yield f"{name}.{method}", method, getattr(made, method)


def arguments(call: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [each for each in inspect.signature(call).parameters.values() if each.kind not in kinds]


def given(row: Row, method: str, call: Callable[..., Any]) -> dict[str, Any] | None:
    """Good arguments, made anew; None where one is not known, so that the method can't be called.

    Outputs are simulated, which the objects that are asked about outputs can do themselves.
    """
    made: Any = getattr(call, "__self__", None)
    found: dict[str, Any] = {}
    for each in arguments(call):
        if (own := f"{method}.{each.name}") in row.fill:
            found[each.name] = row.fill[own]()
        elif each.name in row.good:
            found[each.name] = row.good[each.name]
        elif each.name in row.fill:
            found[each.name] = row.fill[each.name]
        elif each.name in OUTPUTS and hasattr(made, "simulate"):
            found[each.name] = made.simulate(**(given(row, "simulate", made.simulate) or {}))
        elif each.name == "parameters" and hasattr(made, "parameter_count"):
            found[each.name] = np.zeros((1, made.parameter_count))
        elif each.name in FILL:
            found[each.name] = FILL[each.name]()
        elif each.default is inspect.Parameter.empty:
            return None
    return found


@pytest.mark.parametrize("name", sorted(ROWS))
def test_no_error_shows_the_data(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    row, told, untyped, asked = ROWS[name], [], [], 0
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for full_name, method, call in doors(name):
            for argument in (each.name for each in arguments(call)):
                if (
                    argument not in row.good
                    or f"{full_name}({argument})" in EXEMPT
                    or (known := given(row, method, call)) is None
                ):
                    continue
                for bad in bad_values(row.good[argument]):
                    asked += 1
                    target = getattr(row.make(), method) if method and row.stateful else call
                    try:
                        target(**(known | {argument: bad}))
                    except HockeystickError as error:
                        told += [f"{full_name}({argument}): {trace}" for trace in traces(error)]
                        if isinstance(error, InvalidArgumentError) and error.argument.startswith(argument):
                            assert isinstance(error, InvalidDataError), (full_name, argument, str(error))
                    except Exception as error:
                        what = f"{type(error).__name__}: {str(error)[:80]} of {type(bad).__name__}"
                        untyped.append(f"{full_name}({argument}): {what}")
    assert asked or not row.good
    assert not told and not untyped, "\n".join(dict.fromkeys(told + untyped))
    assert not [str(each.message) for each in warned if "918273" in str(each.message)]
    assert "918273" not in caplog.text


def takes_data(name: str) -> Iterator[tuple[str, str]]:
    """Methods, or the function itself, with the arguments that are called like data."""
    what = PUBLIC[name]
    if inspect.isfunction(what):
        members = {name: what}
    elif inspect.isclass(what):
        public = [each for each in dir(what) if each == "__call__" or not each.startswith("_")]
        members = {f"{name}.{each}": getattr(what, each) for each in public if hasattr(what, each)}
        members = {each: call for each, call in members.items() if inspect.isfunction(call) or inspect.ismethod(call)}
    else:
        return
    for each, call in members.items():
        yield from ((each, argument.name) for argument in arguments(call) if argument.name in DATA)


@pytest.mark.parametrize("parts", [(mechanisms,), LEARNERS], ids=["mechanisms", "learners"])
def test_every_function_that_takes_data_is_tried(parts: tuple[ModuleType, ...]) -> None:
    untried = {}
    for name in public(*parts):
        if name in EXEMPT:
            assert name not in ROWS
            continue
        for call, argument in takes_data(name):
            if f"{call}({argument})" in EXEMPT:
                continue
            known = ROWS.get(name)
            if known is None or argument not in known.good:
                untried[f"{call}({argument})"] = "has no row in private_doors.py"
            elif not inspect.isfunction(PUBLIC[name]) and name in call and hasattr(known.make(), call.split(".")[1]):
                method = call.split(".")[1]
                if given(known, method, getattr(known.make(), method)) is None:
                    untried[f"{call}({argument})"] = "needs other arguments, which the row does not give"
    assert not untried


@pytest.mark.parametrize("name", sorted(EXEMPT))
def test_exemptions_name_existing_functions(name: str) -> None:
    owner = name.split(".")[0]
    assert EXEMPT[name] and owner in PUBLIC
    if "(" in name:
        call, argument = name.rstrip(")").split("(")
        assert argument in inspect.signature(getattr(PUBLIC[owner], call.split(".")[1])).parameters
    elif not inspect.isfunction(PUBLIC[owner]):
        assert any(True for _ in takes_data(owner))


# --- the error itself, and what the command line prints --------------------------------------------------------------


def test_an_error_about_data_keeps_their_type_alone() -> None:
    for value, kind in (
        (np.full((2, 3), NUMBER), "float64 array of shape (2, 3)"),
        (np.array([TEXT]), "str array of shape (1,)"),
        (np.array([(NUMBER, TEXT)], dtype=[("a", float), (TEXT, "U20")]), "void array of shape (1,)"),
        ([NUMBER] * 4, "list of 4"),
        (Record(), "Record"),
        (np.float64(NUMBER), "float64"),
        ({TEXT: NUMBER}, "dict"),
    ):
        error = InvalidDataError("losses[3, 1]", value, "is not finite", "fill it")
        assert str(error) == f"losses[3, 1]=<{kind}>: is not finite; fill it"
        again = pickle.loads(pickle.dumps(error))
        assert not traces(error) and str(again) == str(error) and type(again) is InvalidDataError
        assert again.value == error.value and hash(again.value) == hash(error.value) and error.value != kind
        # Code that tells an error in its own words takes the value along, which stays what it is.
        assert not traces(InvalidArgumentError("--losses", error.value, error.reason, error.remedy))
    assert isinstance(error, InvalidArgumentError) and isinstance(error, ValueError)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reference.csv").write_text("symbol,probability\na,0.5\nb,0.5\n")
    (tmp_path / "clients.csv").write_text(f"symbol,client\na,1\n{TEXT},918273\n")
    (tmp_path / "table.csv").write_text(f"age\n40\n{TEXT}\n")
    (tmp_path / "ragged.csv").write_text(f"1,918273\n918273,{TEXT}\n")
    (tmp_path / "bad.json").write_text(f'{{"{TEXT}": 918273, "{TEXT}": NaN}}')
    (tmp_path / "own.py").write_text(
        "def target(data, rng):\n    secret = float('918' + '273')\n    return [secret][int(rng.random()) + 1]\n"
    )
    steep = np.full((6, 2), NUMBER)
    steep[0, 0] = np.nan
    np.save(tmp_path / "nan.npy", steep)
    np.save(tmp_path / "high.npy", np.full((6, 2), NUMBER))
    np.save(tmp_path / "text.npy", np.full((6, 2), TEXT))
    np.save(tmp_path / "clients.npy", np.full((2, 6, 2), NUMBER))
    return tmp_path


COMMANDS = [
    *(f"run lazy-experts --losses {file}.npy --epsilon 1 --delta 1e-6" for file in ("nan", "high", "text", "clients")),
    "run lazy-experts --losses nan.npy --epsilon 1 --delta 1e-6 --clip",
    *(f"run lazy-convex --losses {file}.npy --epsilon 1 --delta 1e-6" for file in ("nan", "high", "text")),
    "run fed-svt --losses clients.npy --epsilon 1",
    "kl --reference reference.csv --clients clients.csv --column symbol --client-column client --epsilon 1",
    "release --data table.csv --column age --low 0 --high 100 --queries thresholds --sigma 0.5 --epsilon 1",
    "audit own:target --d0 ragged.csv --d1 ragged.csv --epsilon 1",
    "audit own:target --d0 bad.json --d1 bad.json --epsilon 1",
    "audit own.py:target --d0 0 --d1 1 --epsilon 1 --samples 200 --traceback",
    "audit own.py:target --d0 0 --d1 1 --epsilon 1 --samples 200",
]


@pytest.mark.statistical
@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_prints_no_data(command: str, folder: Path) -> None:
    found = run(*command.split())
    assert found.exit_code == 2 and found.stderr
    assert "918273" not in found.stdout + found.stderr
    assert "internal error" not in found.stderr and "option" not in found.stderr.replace("--exceptions", "")
    if command.endswith("--traceback"):
        assert "IndexError" in found.stderr and "Traceback" in found.stderr


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["classifier", "net", "queries", "divergence", "labels"])
def test_estimators_show_no_data(name: str) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("pyarrow")
    from estimator_instances import MADE

    make, good = MADE[name]
    told, untyped = [], []
    for place, values in enumerate(good):
        for bad in bad_values(np.asarray(values)):
            for method in ("fit", "predict"):
                try:
                    made = make(random_state=1)
                    if method == "fit":
                        made.fit(*good[:place], bad, *good[place + 1 :])
                    elif place == 0 and hasattr(made, "predict"):
                        made.fit(*good).predict(bad)
                except HockeystickError as error:
                    told += traces(error)
                except Exception as error:
                    what = f"{type(error).__name__}: {str(error)[:80]} of {type(bad).__name__}"
                    untyped.append(f"{method}({place}): {what}")
    assert not told and not untyped, "\n".join(dict.fromkeys(told + untyped))
