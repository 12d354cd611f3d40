"""Tests of the facade: its public names, type checkers, and lazy loading."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hockeystick as hs
from hockeystick.accounting.events import event_json

STUB = Path(hs.__file__).with_suffix(".pyi").read_text(encoding="utf-8")


def homes() -> dict[str, str]:
    """Name -> module that it is imported from, as type checkers and the lazy face read it."""
    return {
        alias.name: f"hockeystick{'.' if node.module else ''}{node.module or ''}"
        for node in ast.parse(STUB).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_public_names_are_those_that_type_checkers_see() -> None:
    assert set(hs.__all__) == set(homes()) and len(set(hs.__all__)) == len(hs.__all__)
    assert dir(hs) == sorted(hs.__all__)


@pytest.mark.parametrize("name", homes())
def test_every_name_resolves(name: str) -> None:
    value, home = getattr(hs, name), homes()[name]

    assert value is (sys.modules[f"hockeystick.{name}"] if home == "hockeystick" else getattr(sys.modules[home], name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Acountant'; did you mean hockeystick.Accountant"):
        getattr(hs, "Acountant")  # noqa: B009 - mypy would read the plain form, and rightly refuse it
    assert not hasattr(hs, "numpy")


def modules_after(code: str) -> set[str]:
    """Top-level modules and modules of ours that are loaded in a fresh interpreter after ``code``."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = modules_after("import hockeystick; dir(hockeystick); hockeystick.__version__")

    assert {name for name in loaded if name.partition(".")[0] == "hockeystick"} == {
        "hockeystick",
        "hockeystick._guess",
        "hockeystick._guess.names",
    }
    assert not loaded & {"numpy", "scipy", "dp_accounting", "networkx", "attrs", "attr", "rich", "click", "pytest"}


def test_a_name_loads_its_part_only() -> None:
    loaded = modules_after("import hockeystick as hs; hs.Adjacency")

    assert "hockeystick.accounting" in loaded
    assert not loaded & {
        "hockeystick.audits",
        "hockeystick.learners",
        "hockeystick.mechanisms",
        "hockeystick._cli.program",
    }


HEAVY = {"networkx", "dp_accounting", "scipy.stats", "scipy.signal", "pandas", "matplotlib", "sklearn", "rich", "click"}


BOUNDS = """
import hockeystick as hs, hockeystick.accounting

hs.epsilon(hs.compose((hs.events.Gaussian(20.0), 7), hs.events.Laplace(5.0)), 1e-6)
hs.epsilon(hs.mechanisms.Gaussian(2.0).event(), 1e-6)
hs.mechanisms.Laplace(2.0).release(1.0)
graph = hs.AccountantGraph().source('a').release('b', hs.events.Gaussian(5.0), reads=['a'])
graph.guarantee().epsilon(1e-6)
hs.AccountantGraph.from_json(graph.to_json())
hs.DPSGD(records=60_000, batch=256, epochs=10, sampling='poisson').epsilon(1.0, 1e-5)

from hockeystick.accounting.engines.tradeoff_curve import trade_off
trade_off(hs.compose((hs.events.Laplace(5.0), 3)), [0.01, 0.1])
"""


@pytest.mark.statistical
def test_bounds_load_no_package_that_they_do_not_use() -> None:
    assert not modules_after(BOUNDS) & (HEAVY | {"pytest"})


def test_the_events_are_the_public_events_of_the_accounting() -> None:
    def is_event(value: object) -> bool:
        return isinstance(value, type) and issubclass(value, hs.PrivacyEvent)

    public = {name for name in hs.accounting.__all__ if is_event(getattr(hs.accounting, name))}

    assert {name for name in hs.events.__all__ if is_event(getattr(hs.events, name))} == public
    assert event_json.EVENTS.keys() | {"PrivacyEvent"} == public
    assert all(getattr(hs.events, name) is getattr(hs.accounting, name) for name in hs.events.__all__)
