"""Private lazy online learning."""

from hockeystick._guess.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
