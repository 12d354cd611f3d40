"""The paper's printed statements, lower bounds, rates, and exact oracles."""

from lazy_loader import attach

__getattr__, __dir__, __all__ = attach(__name__, submodules=["rates"])
