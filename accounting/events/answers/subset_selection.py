"""Subset selection: a category reported as one set among all sets of some size."""

from __future__ import annotations

import math

from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.events.answers.one_category import OneCategory


def _size(value: int) -> int:
    return validate.integer("size", value, low=1)


@frozen
class SubsetSelection(OneCategory):
    """Subset selection: a set of d of k categories, which has odds e^ε if it holds the true category.

    The loss is ε if only the first of two categories is in the set, −ε if only the second is, and 0 otherwise: k-ary
    randomised response is d = 1 (Ye & Barg 2018). One input takes another value, so the event is meant only under
    replace-one and local adjacency. A group of n records may change n reports and is charged for all of them.

    Attributes:
      epsilon: ≥ 0.
      categories: k, ≥ 2.
      size: d, from 1 to k − 1.

    Example:
      >>> from hockeystick.accounting import SubsetSelection, delta
      >>> [round(delta(SubsetSelection(1.0, 10, d), 0.5).upper, 4) for d in (1, 3, 5)]
      [0.0913, 0.1647, 0.1598]
    """

    categories: int = field(converter=field_checks.categories)
    size: int = field(converter=_size)

    def __attrs_post_init__(self) -> None:
        validate.integer("size", self.size, low=1, high=self.categories - 1)

    def _masses(self) -> tuple[float, float, float]:
        """Returns P's mass at loss +ε, −ε and 0."""
        k, d, odds = self.categories, self.size, math.exp(-self.epsilon)
        more = d / (d + (k - d) * odds) * ((k - d) / (k - 1))
        same = d / (d + (k - d) * odds) * ((d - 1) / (k - 1)) + (k - d) * odds / (d + (k - d) * odds) * (
            (k - d - 1) / (k - 1)
        )
        return more, more * odds, same

    def two_point(self) -> tuple[float, float] | None:
        return (self.epsilon, 0.0) if self.categories == 2 else None
