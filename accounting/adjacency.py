"""Neighbouring relations: which two data sets count as differing in one person's data."""

from __future__ import annotations

import enum


class Adjacency(enum.Enum):
    """The neighbouring relation: when two data sets differ in one person's data.

    An event is normalised per unit of *distance*, so a sensitivity must be stated for the relation in use: for a sum of
    values in [0, 1] it is 1 under every relation, for a histogram (L1) it is 1 under add-or-remove and 2 under replace.

    Example:
      >>> from hockeystick.accounting import AccountantGraph, Laplace
      >>> graph = AccountantGraph(Adjacency.REPLACE_ONE).source("people")
      >>> graph.release("histogram", Laplace(2.0).at(2), reads=["people"]).guarantee().epsilon(0.0).upper
      1.0
    """

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    """One record is present in one data set and absent from the other; the sizes differ by one."""

    REPLACE_ONE = "replace-one"
    """One record has another value; the sizes agree and are public."""

    REPLACE_WITH_NULL = "replace-with-null"
    """One record is replaced by a fixed null record (zeroed out)."""

    LOCAL = "local"
    """The input of one local randomiser takes another value (local differential privacy)."""
