"""dp-accounting's class of events without the rest of dp-accounting, whose import takes longer than most uses here."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import PathFinder

_PACKAGE, _MODULE = "dp_accounting", "dp_accounting.dp_event"


def native_event_class() -> type:
    """Returns ``dp_accounting.DpEvent``.

    Its module is loaded alone, under its own name. A later ``import dp_accounting`` takes that module as its own, so
    there is one class, whichever import comes first. Where the module is not found alone, all of dp-accounting is
    imported.
    """
    if _PACKAGE not in sys.modules and _MODULE not in sys.modules:
        package = importlib.util.find_spec(_PACKAGE)
        spec = PathFinder.find_spec(_MODULE, package.submodule_search_locations) if package is not None else None
        if spec is not None and spec.loader is not None:
            module = sys.modules[_MODULE] = importlib.util.module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[_MODULE]
                raise
    native: type = importlib.import_module(_MODULE).DpEvent
    return native
