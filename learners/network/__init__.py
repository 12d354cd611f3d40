"""Rounds between a server and clients, in one process or on Flower."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
