"""Federated analytics: surveys of clients that keep their values, in three models of trust."""

from hockeystick._guess.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
