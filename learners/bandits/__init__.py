"""Bandits: learners that see the loss of the arm that they play, and no other, with the whole loss vector private."""

from hockeystick._guess.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
