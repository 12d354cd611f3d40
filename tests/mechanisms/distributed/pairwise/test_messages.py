"""Tests of the messages of a secure sum: residues without gaps, sets, and texts of a wrong length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.mechanisms.distributed.pairwise import messages
from hockeystick.mechanisms.distributed.pairwise.messages import MessageError

RUN = bytes(range(16))


@given(st.integers(1, 62), st.data())
def test_residues_take_their_bits_and_come_back(bits: int, data: st.DataObject) -> None:
    values = np.array(data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=9)), dtype=np.uint64)
    text = messages.packed_residues(values, bits)
    assert len(text) == messages.residues_bytes(len(values), bits) == -(-len(values) * bits // 8)
    assert (messages.read_residues(text, len(values), bits) == values).all()


@given(st.sets(st.integers(0, 18)))
def test_sets_come_back_in_order(members: set[int]) -> None:
    text = messages.packed_set(members, 19)
    assert len(text) == 3 and messages.read_set(text, 19) == tuple(sorted(members))


def test_rows_are_those_of_the_set() -> None:
    text = messages.message(2, 0, RUN, 1, messages.packed_set([0, 1, 4], 5), b"aabb")
    assert messages.set_and_rows(text, 5, 2, skip=1) == {0: b"aa", 1: b"", 4: b"bb"}
    assert messages.head(text) == (2, 0, RUN, 1)


BAD = {
    "no bytes": "hss1",
    "too short": b"hss1" + bytes(10),
    "another format": messages.message(2, 0, RUN, 1).replace(b"hss1", b"hss2"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_begin_as_a_message_is_refused(name: str) -> None:
    with pytest.raises(MessageError, match="not one of a secure sum"):
        messages.head(BAD[name])


@pytest.mark.parametrize("rest", [b"", b"\x98", b"\x98aab", b"\x98aabbb", b"\x99aabb"])
def test_a_wrong_length_or_a_client_that_does_not_exist_is_refused(rest: bytes) -> None:
    with pytest.raises(MessageError, match="bytes|exist"):
        messages.set_and_rows(messages.message(2, 0, RUN, 1, rest), 5, 2, skip=0)


def test_a_client_that_does_not_exist_is_refused_at_the_right_length() -> None:
    with pytest.raises(MessageError, match="does not exist"):
        messages.set_and_rows(messages.message(2, 0, RUN, 1, b"\xc1aabb"), 5, 2, skip=0)
