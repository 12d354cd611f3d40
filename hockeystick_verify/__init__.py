"""An independent checker of certificates: δ at the certified ε in ball arithmetic, without any code of hockeystick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hockeystick_verify.documents import UnusableError
    from hockeystick_verify.verdicts import Point, Verdict, check

__all__ = ["Point", "UnusableError", "Verdict", "check"]


def __getattr__(name: str) -> Any:
    """Loads a name on its first use, so that ``documents`` alone needs no ball arithmetic."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hockeystick_verify import documents

    if name == "UnusableError":
        return documents.UnusableError
    from hockeystick_verify import verdicts

    return getattr(verdicts, name)
