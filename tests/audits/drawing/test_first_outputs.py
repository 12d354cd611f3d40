"""The first outputs in two parts: nothing that only the counted part has reaches the choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hockeystick.audits.drawing.first_outputs import FirstOutputs, rows
from hockeystick.audits.outputs.cells import Partition
from hockeystick.audits.outputs.reading import Codebook, Table, read


def table(outputs: list[Any], book: Codebook) -> Table:
    return read(outputs, len(outputs), book, vectorised=False)


def plain(found: Table) -> list[Any]:
    """The codes of a table's runs, and their numbers where they have some."""
    codes = np.broadcast_to(found.codes, found.runs)
    places = dict.fromkeys(found.blocks, 0)
    values = []
    for code in codes.tolist():
        values.append((code, found.blocks[code][places[code]].tolist()) if code in places else (code, None))
        if code in places:
            places[code] += 1
    assert all(places[code] == len(block) for code, block in found.blocks.items())
    return values


MIXED: list[Any] = [1.5, None, "a", (1, 2.0), 2.5, "b", None, (3, 4.0), 3.5]


@pytest.mark.parametrize("outputs", [MIXED, [1.0, 2.0, 3.0, 4.0], ["x"] * 5, [None, 1.0, None, 2.0]])
def test_rows_are_the_runs_in_order(outputs: list[Any]) -> None:
    whole = table(outputs, Codebook())

    for start in range(len(outputs) + 1):
        for stop in range(start, len(outputs) + 1):
            assert plain(rows(whole, start, stop)) == plain(whole)[start:stop]


def test_layouts_that_only_the_counted_part_has_come_last() -> None:
    book = Codebook()
    pair = table([None, 1.0, "new", 2.0, (1, 2)], book), table(["a", 1.0, "a", None, "newer"], book)

    parts = FirstOutputs.of(pair, tuple(book.layouts), 2)

    assert [str(layout) for layout in parts.layouts] == ["None", "a number (float64)", "'a'"]
    assert [str(layout) for layout in parts.every[3:]] == ["'new'", "(a number (int64), a number (int64))", "'newer'"]
    assert [plain(one) for one in parts.choosing] == [[(0, None), (1, [1.0])], [(2, None), (1, [1.0])]]
    assert plain(parts.counted[0]) == [(3, None), (1, [2.0]), (4, [1.0, 2.0])]
    assert plain(parts.counted[1]) == [(2, None), (0, None), (5, None)]


def test_partitions_of_the_chosen_part_know_no_later_layout() -> None:
    book = Codebook()
    pair = table(["a", "b", "new", "a"], book), table(["b", "b", "newer", "newest"], book)

    parts = FirstOutputs.of(pair, tuple(book.layouts), 2)
    cells = Partition(parts.layouts, np.array([0, 1]), {}, 3)

    assert [cells.index(one, {}).tolist() for one in parts.counted] == [[2, 0], [2, 2]]


def test_a_part_of_one_unknown_layout_is_unknown_as_a_whole() -> None:
    book = Codebook()
    pair = table([1.0, 2.0, 3.0], book), table([1.0, 2.0, 3.0], book)
    later = table(["x", "x"], book)

    parts = FirstOutputs.of((Table.join([pair[0], later]), Table.join([pair[1], later])), tuple(book.layouts), 3)

    assert len(parts.layouts) == 1
    assert plain(parts.counted[0]) == [(1, None)] * 2 and not parts.counted[0].blocks
    assert Partition(parts.layouts, np.array([0]), {}, 2).index(parts.counted[0], {}).tolist() == [1, 1]
