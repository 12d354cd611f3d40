"""Optional packages: imported where they are used, and asked for by the name of the extra that brings them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from hockeystick.accounting.errors import HockeystickError


class MissingExtraError(HockeystickError, ImportError):
    """Packages that an optional part needs are not installed; the message has the command that installs them."""


def require(module: str, what: str, *, extra: str) -> ModuleType:
    """Returns an optional module.

    Args:
      module: its dotted name.
      what: what needs it, as the subject of the error message.
      extra: of hockeystick, that brings it.

    Raises:
      MissingExtraError: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or module.split(".")[0] != error.name.split(".")[0]:
            raise  # it is installed, and lacks something itself
        package = module.split(".")[0]
        raise MissingExtraError(f"{what} needs {package}: pip install 'hockeystick[{extra}]'") from error
