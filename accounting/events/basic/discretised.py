"""The law of an event's privacy loss on a grid. Short laws are cached, as engines need the same ones repeatedly."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.losses.loss_grid import LossPmf

_CACHED_CELLS = 2**14


def discretise(event: PrivacyEvent, step: float, upper: bool) -> LossPmf:
    """Returns the law of the event's privacy loss rounded to multiples of ``step``, without its failure.

    Args:
      event: an event with a profile.
      step: the width of a cell.
      upper: whether losses are rounded up, for upper bounds, or down.

    Raises:
      UnsupportedEventError: an event in it has no profile.
      NumericalError: the losses span too many cells.
    """
    low, high = event.loss_support()
    return _cached(event, step, upper) if high - low <= _CACHED_CELLS * step else event.loss_law(step, upper)


def mixed_law(parts: Iterable[tuple[float, PrivacyEvent]], step: float, upper: bool) -> LossPmf:
    """Returns the sum of the laws of several events, each times its weight: the law behind a coin that is published."""
    laws = [(weight, discretise(event, step, upper)) for weight, event in parts]
    start = min(law.start for _, law in laws)
    p = np.zeros(max(law.start + len(law.p) for _, law in laws) - start)
    for weight, law in laws:
        p[law.start - start : law.start - start + len(law.p)] += weight * law.p
    return LossPmf(step, start, p, min(1.0, math.fsum(weight * law.infinity for weight, law in laws)))


@lru_cache(maxsize=256)
def _cached(event: PrivacyEvent, step: float, upper: bool) -> LossPmf:
    return event.loss_law(step, upper)
