"""Outputs that are all one and the same value, such as None: the sign of a function that returns nothing."""

from __future__ import annotations

import numpy as np
from attrs import field, frozen

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.audits.outputs.reading import Table


@frozen(eq=False)
class OneValue:
    """A single output, bit by bit, which counts the outputs that equal it.

    Attributes:
      code: code of its layout in the codebook of the tables.
      numbers: its numbers; None for an output without numbers.
      cells: number of cells: the outputs that equal it, and all others.
    """

    code: int
    numbers: FloatArray | None
    cells: int = field(default=2, init=False)
    view: None = field(default=None, init=False)  # it compares the outputs themselves

    @classmethod
    def of(cls, tables: tuple[Table, Table]) -> OneValue | None:
        """Returns the value of all outputs of two tables of one book; None if there are several."""
        code, block = tables[0].codes, None
        if not isinstance(code, int) or code < 0 or not tables[0].runs:
            return None
        block = tables[0].blocks.get(code)
        found = cls(code, None if block is None else block[0].copy())
        return found if all(found.count(table, {})[1] == 0 for table in tables) else None

    def count(self, table: Table, real: dict[int, FloatArray]) -> IntArray:
        """Returns the number of runs that equal this output, and that of the others; ``real`` is not used."""
        block = table.blocks.get(self.code)
        if self.numbers is None or block is None:
            equal = int(np.count_nonzero(np.broadcast_to(table.codes, table.runs) == self.code))
        else:
            equal = int(np.count_nonzero((_bits(block) == _bits(self.numbers)).all(axis=1)))
        return np.array([equal, table.runs - equal], dtype=np.int64)


def equal_tables(first: Table, second: Table) -> bool:
    """Returns whether two tables of one book have the same outputs in the same order, bit by bit."""
    return (
        first.runs == second.runs
        and np.array_equal(np.broadcast_to(first.codes, first.runs), np.broadcast_to(second.codes, second.runs))
        and first.blocks.keys() == second.blocks.keys()
        and all(np.array_equal(_bits(block), _bits(second.blocks[code])) for code, block in first.blocks.items())
    )


def _bits(numbers: FloatArray) -> IntArray:
    return np.ascontiguousarray(numbers, dtype=np.float64).view(np.int64)
