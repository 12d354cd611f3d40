"""Groups over sources and blocks: every way, by brute force, and no work beyond the limits."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import GraphError
from hockeystick.accounting.graph.parts.group_splittings import compositions, maximal_rows, partitions


@pytest.mark.parametrize("total, parts", [(0, 1), (3, 1), (0, 3), (4, 2), (3, 4), (6, 3)])
def test_a_group_is_split_over_sources_in_every_way_once(total, parts):
    every = [way for way in itertools.product(range(total + 1), repeat=parts) if sum(way) == total]
    assert Counter(compositions(total, parts)) == Counter(every)


def test_a_group_over_no_sources_has_no_splitting():
    assert list(compositions(2, 0)) == []


@pytest.mark.parametrize("total, most_parts", [(0, 3), (1, 1), (5, 2), (6, 6), (7, 3), (3, 0)])
def test_a_group_is_split_over_blocks_in_every_way_once(total, most_parts):
    every = itertools.product(range(total + 1), repeat=most_parts)
    wanted = {tuple(sorted(filter(None, way), reverse=True)) for way in every if sum(way) == total}
    assert Counter(partitions(total, most_parts)) == Counter(wanted)


def test_too_many_splittings_are_refused_in_advance():
    assert len(list(compositions(139, 3))) == 9870
    with pytest.raises(GraphError, match="group=140 over 3 sources"):
        next(compositions(140, 3))
    assert len(partitions(40, 2)) == 21
    with pytest.raises(GraphError, match="give at most 40"):
        partitions(41, 2)


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=12))
def test_each_block_is_dominated_by_one_that_is_kept_and_none_of_those_by_another(rows):
    counts = np.array(rows)
    kept = maximal_rows(counts)
    assert kept == sorted(kept)
    assert all(any((row <= counts[i]).all() for i in kept) for row in counts)
    assert not any((counts[i] <= counts[j]).all() for i, j in itertools.permutations(kept, 2))


def test_more_incomparable_blocks_than_can_be_tried_are_refused():
    ladder = np.arange(1000)
    assert maximal_rows(np.stack([ladder, ladder[::-1]], axis=1)) == ladder.tolist()
    ladder = np.arange(1001)
    with pytest.raises(GraphError, match="more than 1000 blocks"):
        maximal_rows(np.stack([ladder, ladder[::-1]], axis=1))
