"""Rounds between a server and clients, in one process or on Flower."""

from hockeystick._guess.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
