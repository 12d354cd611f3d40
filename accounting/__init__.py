"""Accounting: events, privacy curves, the accountant graph and its guarantee. No sampling, no data."""

from typing import Any

from hockeystick._guess.names import attach, on_first_use

if __name__ != "hockeystick.accounting":  # found at the root of a checkout: a second set of classes
    raise ImportError("import hockeystick.accounting")


def _typed(found: Any) -> Any:
    from hockeystick.accounting.argument_classes import typed  # with numpy, which the import of a face does not take

    return typed(found)


on_first_use.append(_typed)

__getattr__, __dir__, __all__ = attach(__name__, __file__)
