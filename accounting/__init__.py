"""Accounting: events, privacy curves, the accountant graph and its guarantee. No sampling, no data."""

from lazy_loader import attach_stub

if __name__ != "hockeystick.accounting":  # found at the root of a checkout: a second set of classes
    raise ImportError("import hockeystick.accounting")

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
