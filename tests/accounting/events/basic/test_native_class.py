"""dp-accounting's class of events is one class, whichever import comes first."""

import subprocess
import sys

import pytest

HERE = "from hockeystick.accounting.events.basic.native_class import native_event_class as native; native()"
WHOLE = "import dp_accounting"
USE = """
import sys
from dp_accounting import DpEvent, DpEventBuilder, dp_event
from dp_accounting.dp_event import NoOpDpEvent
from hockeystick.accounting.events.basic.event import NO_EVENT

assert native() is DpEvent is dp_event.DpEvent is sys.modules["dp_accounting.dp_event"].DpEvent
assert issubclass(NoOpDpEvent, DpEvent) and isinstance(NO_EVENT, DpEvent)
builder = DpEventBuilder()
builder.compose(NO_EVENT, 2)
assert builder.build().event is NO_EVENT
"""
AFRESH = """
ours = [name for name in sys.modules if name.partition(".")[0] in ("dp_accounting", "hockeystick")]
for name in ours:
    del sys.modules[name]
print({"dp_accounting.dp_event", "hockeystick.accounting.events.basic.event"} <= {*ours})
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.statistical
def test_there_is_one_class_in_any_order() -> None:
    """Afresh each time, though other packages that the two import stay."""
    orders = (HERE, WHOLE), (WHOLE, HERE), ("import dp_accounting.dp_event", HERE)
    assert run("\n".join("\n".join((*order, USE, AFRESH)) for order in orders)) == "True\n" * len(orders)


def test_the_class_is_loaded_without_its_package() -> None:
    assert run(f"{HERE}\nimport sys; print('dp_accounting' in sys.modules)") == "False\n"


@pytest.mark.statistical
def test_a_module_that_is_not_found_alone_is_imported_with_its_package() -> None:
    hidden = "from importlib.machinery import PathFinder as finder\nfind = finder.find_spec\n" + (
        "finder.find_spec = lambda name, *rest: None if name == 'dp_accounting.dp_event' and len(rest) == 1 else "
        "find(name, *rest)"
    )

    assert run(f"{hidden}\n{HERE}\nimport sys; print('dp_accounting' in sys.modules)\n{USE}") == "True\n"
