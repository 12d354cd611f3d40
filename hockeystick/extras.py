"""Optional parts: what is raised where the packages they need are not installed."""

from hockeystick.accounting.extras import MissingExtraError, require

__all__ = ["MissingExtraError", "require"]
