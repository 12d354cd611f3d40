"""The bit patterns of floats as features, for leaks of floating-point noise beyond the real number it represents.

A sum ``value + noise`` in floating point is a multiple of the last bit of the larger operand. So the number of low bits
of the result that are zero reveals which value was added (Mironov 2012). These features contain that number.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.audits.outputs.cells import Feature
from hockeystick.audits.outputs.reading import Layout

SLOTS = 6  # numbers of one output whose bits are features
_MANTISSA = np.int64((1 << 52) - 1)


@frozen
class LowBits:
    """Sign, exponent and position of the lowest set bit of one number, or that position alone."""

    slot: int
    alone: bool

    def keys(self, block: FloatArray, real: FloatArray) -> IntArray:
        pattern = np.ascontiguousarray(block[:, self.slot]).view(np.int64)
        mantissa = pattern & _MANTISSA
        exponent = (pattern >> 52) & np.int64(0x7FF)
        lowest = (mantissa & -mantissa).astype(np.float64)  # a power of two, or 0
        trailing = np.where(mantissa > 0, (lowest.view(np.int64) >> 52) - 1023, 52)
        place = exponent + trailing  # 1075 + log2 of the lowest set bit
        return place if self.alone else (((pattern >> 63) << 24) ^ (exponent << 12)) + trailing

    def words(self, layout: Layout) -> str:
        what = "position of the lowest set bit" if self.alone else "sign, exponent and lowest set bit"
        return f"the {what} of {layout.slot(self.slot)}"


@frozen
class Pattern:
    """The exact bits of one number."""

    slot: int

    def keys(self, block: FloatArray, real: FloatArray) -> IntArray:
        return np.ascontiguousarray(block[:, self.slot]).view(np.int64)

    def words(self, layout: Layout) -> str:
        return f"the exact bits of {layout.slot(self.slot)}"


@frozen(eq=False)
class Values:
    """Cells of a feature that are single ``values``, sorted."""

    feature: Feature
    values: IntArray

    @property
    def cells(self) -> int:
        return len(self.values)

    def index(self, keys: IntArray) -> IntArray:
        place = np.minimum(np.searchsorted(self.values, keys), max(self.cells - 1, 0))
        if not self.cells:
            return np.zeros(len(keys), dtype=np.int64)
        return np.where(self.values[place] == keys, place, self.cells)

    def words(self, chosen: BoolArray, layout: Layout, *, exact: bool = False) -> str:
        return f"{self.feature.words(layout)} is one of {int(chosen.sum())} of the {self.cells} frequent ones"


def features(layout: Layout, slots: list[int]) -> list[Feature]:
    """Returns the bit features of the given numbers of a layout; of floats only."""
    slots = [slot for slot in slots if layout.kinds[slot] != "i"]
    found: list[Feature] = []
    for slot in slots:
        found += [LowBits(slot, alone=False), LowBits(slot, alone=True)]
    return [*found, *(Pattern(slot) for slot in slots[:2])]
