"""Audits: claims, the search for events that refute them, bounds that hold for every sample size, and verdicts."""

from lazy_loader import attach_stub

if __name__ != "hockeystick.audits":  # found at the root of a checkout: a second set of classes
    raise ImportError("import hockeystick.audits")

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
