"""Tests of the cryptography of secure sums: published values, and keys that are used once."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs the extra secure-sum")

from hockeystick.mechanisms import ClientsInProcess, PairwiseSum, SumClient, conduct_sum
from hockeystick.mechanisms.distributed.pairwise import primitives
from hockeystick.mechanisms.distributed.pairwise.primitives import agreeing, derived, keystream, public_key
from hockeystick.mechanisms.distributed.secure_aggregation import Residues

ONE = bytes(31) + b"\x01"


def words(text: str) -> list[int]:
    return [int(each) for each in np.frombuffer(bytes.fromhex(text), "<u4")]


def test_masks_are_the_published_keystream() -> None:
    """RFC 8439, A.1: vector 1 for the key of zeros, vector 3, whose block is the second one, for the key ...01."""
    assert keystream(bytes(32), 4, 2**32).tolist() == words("76b8e0ada0f13d90405d6ae55386bd28")
    assert keystream(ONE, 20, 2**32)[16:].tolist() == words("3aeb5224ecf849929b9d828db1ced4dd")
    assert keystream(bytes(32), 4, 2**5).tolist() == [each % 32 for each in words("76b8e0ada0f13d90405d6ae55386bd28")]
    low, high = words("76b8e0ada0f13d90")
    assert keystream(bytes(32), 1, 2**62).tolist() == [(low + (high << 32)) % 2**62]


def test_keys_agree_as_published() -> None:
    """RFC 7748, 6.1."""
    alice = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
    shared = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    assert agreeing(alice)(bob) == shared
    assert agreeing(alice)(bytes(32)) is None
    assert public_key(alice).hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"


def test_keys_are_derived_as_published() -> None:
    """RFC 5869, A.3, of which the first 32 bytes are used."""
    assert derived(b"\x0b" * 22, b"").hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"


def test_no_key_is_used_for_two_boxes_or_for_two_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nonces are zeros, so every box has a key of its own, also the two of a pair; a pair has one mask, used twice."""
    boxes: list[bytes] = []
    masks: list[bytes] = []
    boxed, stream = primitives.boxed, primitives.keystream

    def box(key: bytes, *rest: bytes) -> bytes:
        boxes.append(key)
        return boxed(key, *rest)

    def mask(key: bytes, count: int, modulus: int) -> Residues:
        masks.append(key)
        return stream(key, count, modulus)

    monkeypatch.setattr(primitives, "boxed", box)
    monkeypatch.setattr(primitives, "keystream", mask)
    plan = PairwiseSum(clients=4, length=1, modulus=4)
    clients = [SumClient(plan, i, lambda: [0]) for i in range(4)]
    for runs in (1, 2):
        conduct_sum(plan, ClientsInProcess(clients))
        assert len(boxes) == len(set(boxes)) == 12 * runs
        counts = sorted(masks.count(key) for key in set(masks))
        assert counts == [2] * 10 * runs  # six pairs, each added and subtracted; four own masks, sent and taken off
    assert not set(boxes) & set(masks)


def test_a_signature_is_of_one_key_and_one_text() -> None:
    secret, public = primitives.new_identity()
    other = primitives.new_identity()[1]
    signature = primitives.signed(secret, b"text")
    assert primitives.is_signed(public, signature, b"text") and primitives.identity_of(secret) == public
    assert not primitives.is_signed(public, signature, b"texts")
    assert not primitives.is_signed(other, signature, b"text")
    assert not primitives.is_signed(public, bytes(64), b"text")
