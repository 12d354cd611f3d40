"""Estimators in the manner of scikit-learn: ``fit``, ``get_params``, ``clone``."""

from hockeystick._guess.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
