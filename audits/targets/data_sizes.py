"""The sizes of two data sets, compared with the neighbouring relation that the claim or the target states."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from hockeystick.accounting import Adjacency
from hockeystick.accounting.errors import InvalidDataError
from hockeystick.audits.targets.calling import equal_data

_REPLACING = (Adjacency.REPLACE_ONE, Adjacency.REPLACE_WITH_NULL)
_WAY_OUT = (
    "give data sets that the claim relates, or state it without a relation, as in hs.Claim.of(claim), if records are "
    "not what the sizes count"
)


def check_sizes(data: tuple[Any, Any], claim: object, target: object) -> None:
    """Checks that the sizes of two data sets agree with the relation of a claim, or else of the target.

    A relation is an attribute ``adjacency``, as a guarantee has it, and ``group`` the number of records that may
    differ. Sizes are numbers of records: of objects with ``records()``, tables, lists, tuples and arrays. Where they
    differ, the relation has to be add-or-remove, for at least as many records. Where they agree, records that are not
    numbers must be equal under add-or-remove; a list or an array of numbers may also hold answers, and passes.

    Raises:
      InvalidDataError: the sizes contradict the relation; the text has their difference alone.
    """
    source = claim if isinstance(getattr(claim, "adjacency", None), Adjacency) else target
    relation, group = getattr(source, "adjacency", None), getattr(source, "group", 1)
    sizes = _size(data[0]), _size(data[1])
    if not isinstance(relation, Adjacency) or not isinstance(group, int) or sizes[0] is None or sizes[1] is None:
        return
    more = abs(sizes[0] - sizes[1])
    larger = "d0" if sizes[0] > sizes[1] else "d1"
    added = relation is Adjacency.ADD_OR_REMOVE_ONE
    if more and relation in _REPLACING:
        reason = f"are not neighbours under {relation.value}: {larger} has {_records(more)} more"
    elif more > group and added:
        limit = f"a group of {group}" if group > 1 else "one record"
        reason = f"are not neighbours under {relation.value}: {larger} has {_records(more)} more, for {limit}"
    elif not more and added and _holds_records(data[0]) and not equal_data(*data):
        reason = f"are not neighbours under {relation.value}: they have as many records"
    else:
        return
    raise InvalidDataError("neighbours", data, reason, _WAY_OUT)


def _records(number: int) -> str:
    return f"{number:,} record{'s' * (number != 1)}"


def _size(data: Any) -> int | None:
    """Returns the number of records; None if it is not known."""
    try:
        if callable(getattr(data, "records", None)) and not isinstance(data, type):
            return len(data.records())
        table = hasattr(type(data), "columns")  # of a lazy frame even the names of its columns are a computation
        if isinstance(data, (list, tuple)) or table or isinstance(data, np.ndarray) and data.ndim:
            return len(data)
    except Exception:  # data may be of any type
        return None
    return None


def _holds_records(data: Any) -> bool:
    """Returns whether data are certainly records, and not answers, nor the parts of one data set."""
    if isinstance(data, list):
        return bool(data) and not any(isinstance(one, (numbers.Number, np.ndarray, np.generic)) for one in data)
    return not isinstance(data, (tuple, np.ndarray))
