"""Accounting: events, privacy curves, the accountant graph and its guarantee. No sampling, no data."""

from hockeystick._guess.names import attach

if __name__ != "hockeystick.accounting":  # found at the root of a checkout: a second set of classes
    raise ImportError("import hockeystick.accounting")

__getattr__, __dir__, __all__ = attach(__name__, __file__)
