"""A limit to the work of one numerical bound, counted in terms and not in time: the same on every machine."""

from __future__ import annotations

import threading

from hockeystick.accounting.errors import NumericalError

CELL, FREQUENCY = 400.0, 75.0
"""Terms that take about as long as one cell of a law of losses, and as one value of a Fourier transform."""

_done = threading.local()


def done() -> float:
    """Returns how much work the engines of this thread have done since it began, in terms of a sum."""
    return float(getattr(_done, "terms", 0.0))


def count(terms: float) -> None:
    """Adds to :func:`done`."""
    _done.terms = done() + terms


class Work:
    """The rest of a number of terms that may be summed.

    Raises:
      NumericalError: by ``spend``, once there would be more.
    """

    def __init__(self, most: float) -> None:
        self.most = self.left = most

    def spend(self, terms: float) -> None:
        """Takes ``terms`` off what is left, before they are summed."""
        self.left -= terms
        if self.left < 0.0:
            raise NumericalError(f"the bound would take more than the {self.most:g} terms that one may")
        count(terms)
