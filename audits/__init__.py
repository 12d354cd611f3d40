"""Audits: claims, the search for events that refute them, bounds that hold for every sample size, and verdicts."""

from hockeystick._guess.names import attach

if __name__ != "hockeystick.audits":  # found at the root of a checkout: a second set of classes
    raise ImportError("import hockeystick.audits")

__getattr__, __dir__, __all__ = attach(__name__, __file__)
