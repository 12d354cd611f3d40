"""Private estimates of the KL divergence between a public reference and the data of many clients."""

from hockeystick._guess.names import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
