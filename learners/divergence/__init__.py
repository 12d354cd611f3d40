"""Private estimates of the KL divergence between a public reference and the data of many clients."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
