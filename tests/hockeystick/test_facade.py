"""The facade keeps what it promises, type checkers see what there is, and nothing is loaded before its use."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hockeystick as hs
from hockeystick.accounting.events import event_json

SOURCE = Path(hs.__file__).read_text(encoding="utf-8")


def names_for_type_checkers() -> dict[str, str]:
    """Name -> module that it is imported from, as the ``if TYPE_CHECKING`` block says."""
    tree = ast.parse(SOURCE)
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    found = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names:
            assert alias.asname in (None, alias.name)
            found[alias.name] = node.module
    return found


def test_all_the_lazy_table_and_the_type_checkers_agree() -> None:
    lazy = {name: hs._HOME.get(name, "hockeystick.accounting") for name in hs.__all__ if name != "__version__"}

    assert names_for_type_checkers() == lazy | dict.fromkeys(hs._MODULES, "hockeystick")
    assert hs._HOME.keys() | set(hs._MODULES) <= set(hs.__all__)
    assert len(set(hs.__all__)) == len(hs.__all__)
    assert dir(hs) == sorted(hs.__all__)


@pytest.mark.parametrize("name", hs.__all__)
def test_every_name_resolves(name: str) -> None:
    value = hs.__getattr__(name) if name != "__version__" else hs.__version__

    assert value is getattr(hs, name)
    if name not in (*hs._MODULES, "__version__"):
        assert value is getattr(sys.modules[hs._HOME.get(name, "hockeystick.accounting")], name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Acountant'"):
        hs.Acountant  # noqa: B018
    assert not hasattr(hs, "numpy")


def modules_after(code: str) -> set[str]:
    """Top-level modules and modules of ours that are loaded in a fresh interpreter after ``code``."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = modules_after("import hockeystick; dir(hockeystick); hockeystick.__version__")

    assert {name for name in loaded if name.partition(".")[0] == "hockeystick"} == {"hockeystick"}
    assert not loaded & {"numpy", "scipy", "dp_accounting", "networkx", "attrs", "attr", "rich", "click", "pytest"}


def test_a_name_loads_its_part_only() -> None:
    loaded = modules_after("import hockeystick as hs; hs.Adjacency")

    assert "hockeystick.accounting" in loaded
    assert not loaded & {
        "hockeystick.audits",
        "hockeystick.learners",
        "hockeystick.mechanisms",
        "hockeystick._cli.main",
    }


def test_the_events_are_the_public_events_of_the_accounting() -> None:
    def is_event(value: object) -> bool:
        return isinstance(value, type) and issubclass(value, hs.PrivacyEvent)

    public = {name for name in hs.accounting.__all__ if is_event(getattr(hs.accounting, name))}

    assert {name for name in hs.events.__all__ if is_event(getattr(hs.events, name))} == public
    assert event_json.EVENTS.keys() | {"PrivacyEvent"} == public
    assert all(getattr(hs.events, name) is getattr(hs.accounting, name) for name in hs.events.__all__)
