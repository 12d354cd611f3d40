"""Mechanisms: release a value, simulate a batch of releases, and say what one release costs."""

from hockeystick._guess.names import attach

if __name__ != "hockeystick.mechanisms":  # found at the root of a checkout: a second set of classes
    raise ImportError("import hockeystick.mechanisms")

__getattr__, __dir__, __all__ = attach(__name__, __file__)
