"""Prefix sums of a stream: tree aggregation and matrix factorisations."""

from lazy_loader import attach

__getattr__, __dir__, __all__ = attach(__name__, submodules=["factorisations"])
