"""A limit to the work of one numerical bound, counted in terms and not in time: the same on every machine."""

from __future__ import annotations

from hockeystick.accounting.errors import NumericalError


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
