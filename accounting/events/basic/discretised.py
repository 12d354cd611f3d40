"""The law of an event's loss on a grid, kept where it is small: engines ask for the same ones again."""

from __future__ import annotations

from functools import lru_cache

from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.losses.loss_grid import LossPmf

_CACHED_CELLS = 2**14


def discretise(event: PrivacyEvent, step: float, upper: bool) -> LossPmf:
    """Returns a law of losses on the grid of ``step`` above (or below) the event's, its failure left out.

    Small ones are cached.

    Raises:
      UnsupportedEventError: a leaf has no profile.
      NumericalError: the event's losses span too many cells.
    """
    low, high = event.loss_support()
    return _cached(event, step, upper) if high - low <= _CACHED_CELLS * step else event.loss_law(step, upper)


@lru_cache(maxsize=256)
def _cached(event: PrivacyEvent, step: float, upper: bool) -> LossPmf:
    return event.loss_law(step, upper)
