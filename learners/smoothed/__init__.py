"""Smoothed online learning and private query release."""

from hockeystick._guess.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
