"""Sums over a stream: tree aggregation and factorised matrices."""

from lazy_loader import attach

__getattr__, __dir__, __all__ = attach(__name__, submodules=["factorisations"])
