"""Optional parts: what is raised where the packages they need are not installed."""

from __future__ import annotations

from hockeystick.accounting.errors import HockeystickError


class MissingExtraError(HockeystickError, ImportError):
    """Packages that an optional part needs are not installed; the message has the command that installs them."""
