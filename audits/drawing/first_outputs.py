"""The first choosing samples, divided into two parts: a complete audit of its own looks at them.

One part chooses an event and the other is counted. Whatever the first part has not shown must not enter the choice: the
layouts are numbered anew, those of the first part first, and a choice is given only these.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from hockeystick.audits.outputs.reading import Layout, Table

FIRST_LOOK = 2000
"""Number of outputs from each data set after which an audit may end, by default."""

FIRST_SHARE = 1 / 20
"""The part of the level that the first look has; the rest is the last look's."""


@frozen(eq=False)
class FirstOutputs:
    """Outputs of both data sets in two parts.

    Attributes:
      choosing, counted: the two parts, one table for each data set.
      layouts: the layouts of ``choosing``.
      every: these, and after them those that only ``counted`` has; to them the codes of both parts refer.
    """

    choosing: tuple[Table, Table]
    counted: tuple[Table, Table]
    layouts: tuple[Layout, ...]
    every: tuple[Layout, ...]

    @classmethod
    def of(cls, tables: tuple[Table, Table], layouts: tuple[Layout, ...], share: int) -> FirstOutputs:
        """Returns the first ``share`` runs of each table as ``choosing``, and the rest as ``counted``.

        Args:
          tables: the outputs of both data sets.
          layouts: the layouts to which their codes refer.
          share: number of runs, at most those of either table.
        """
        parts = [(rows(table, 0, share), rows(table, share, table.runs)) for table in tables]
        seen = np.zeros(len(layouts), dtype=bool)
        for first, _ in parts:
            seen[first.codes] = True
        order = np.argsort(~seen, kind="stable")
        new = np.argsort(order).astype(np.int32)
        (a, b), (c, d) = [[_renumbered(part, new) for part in pair] for pair in parts]
        every = tuple(layouts[code] for code in order.tolist())
        return cls((a, c), (b, d), every[: int(seen.sum())], every)


def rows(table: Table, start: int, stop: int) -> Table:
    """Returns the runs from ``start`` to ``stop`` of a table."""
    if isinstance(table.codes, int):
        return Table(stop - start, table.codes, {code: block[start:stop] for code, block in table.blocks.items()})
    codes = table.codes[start:stop]
    before = {code: int(np.count_nonzero(table.codes[:start] == code)) for code in table.blocks}
    within = {code: int(np.count_nonzero(codes == code)) for code in table.blocks}
    blocks = {code: block[before[code] : before[code] + within[code]] for code, block in table.blocks.items()}
    return Table(stop - start, codes, {code: block for code, block in blocks.items() if len(block)})


def _renumbered(table: Table, new: np.typing.NDArray[np.int32]) -> Table:
    codes = int(new[table.codes]) if isinstance(table.codes, int) else new[table.codes]
    blocks = {int(new[code]): block for code, block in table.blocks.items()}
    return Table(table.runs, codes, blocks)
