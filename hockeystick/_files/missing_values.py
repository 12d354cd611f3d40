"""The rule for missing values of a table: what a row without a value, or with none that is a number, counts as.

A rule is stated before the data are read. An error about a missing value would tell that there is one, so the only rule
that promises nothing about such tables is ``refuse``. All others act on each row by itself: a row that is left out, or
whose value is replaced, changes by no more than the row does. Where rows are left out, the number of the others is
private, also where the number of all rows is public.
"""

from __future__ import annotations

import math
from typing import Literal

from attrs import frozen

from hockeystick._files.histogram_table import MISSING as MISSING
from hockeystick._files.release_table import numbers_of
from hockeystick.accounting import InvalidArgumentError


@frozen
class MissingRule:
    """The rule for rows that lack a value.

    Attributes:
        kind: "drop" leaves the row out; "category" puts it in a group of its own, if a key is missing, and leaves it
            out otherwise; "value" takes ``value`` for a missing number, and leaves a row without a key out; "refuse"
            ends with an error, which tells that there is such a row.
        value: The number of the kind "value".
    """

    kind: Literal["drop", "category", "value", "refuse"]
    value: float = math.nan

    @classmethod
    def of(cls, argument: str, text: str) -> MissingRule:
        """Returns the rule that a text states: drop, category, refuse or a number.

        Raises:
            InvalidArgumentError: The text states none.
        """
        for kind in ("drop", "category", "refuse"):
            if text == kind:
                return cls(kind)
        number = float(numbers_of([text])[0])
        if not math.isfinite(number):
            remedy = "give drop, category, refuse, or the number that replaces missing ones"
            raise InvalidArgumentError(argument, text, "is not a rule for missing values", remedy)
        return cls("value", number)

    def __str__(self) -> str:
        return {
            "drop": "rows that lack a value are left out",
            "category": f"rows that lack a key are the group {MISSING}, rows that lack a number are left out",
            "value": f"missing numbers count as {self.value:g}, rows that lack a key are left out",
            "refuse": "every row has all values; the error for other rows must not be published",
        }[self.kind]
