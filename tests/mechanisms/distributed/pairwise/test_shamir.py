"""Tests of Shamir's shares: a known polynomial, any t shares, and the exact law of t − 1 of them."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.mechanisms.distributed.pairwise import shamir
from hockeystick.mechanisms.distributed.pairwise.shamir import combined, shares_of, weights_at_zero


def is_prime(number: int) -> bool:
    """Miller and Rabin's test with the bases below 60: a composite of 2^256 that passes it is not known."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 60):
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def test_the_field_has_the_least_prime_above_all_secrets() -> None:
    assert shamir.PRIME > 2**256 and is_prime(shamir.PRIME)
    assert not any(is_prime(2**256 + k) for k in range(1, 297, 2))
    assert shamir.PRIME.bit_length() <= 8 * shamir.SHARE_BYTES


def test_shares_are_values_of_the_polynomial() -> None:
    drawn = iter([3, 2])  # 7 + 3x + 2x²
    shares = shares_of((7).to_bytes(32, "big"), threshold=3, clients=4, below=lambda _: next(drawn))
    assert [int.from_bytes(share, "big") for share in shares] == [12, 21, 34, 51]
    assert all(len(share) == 33 for share in shares)
    drawn = iter([shamir.PRIME - 1])  # 2 − x: negative values are read in the field
    wrapped = shares_of((2).to_bytes(32, "big"), threshold=2, clients=3, below=lambda _: next(drawn))
    assert [int.from_bytes(share, "big") for share in wrapped] == [1, 0, shamir.PRIME - 1]
    assert weights_at_zero([0, 1]) == [2, shamir.PRIME - 1] and weights_at_zero([4]) == [1]


@given(st.binary(min_size=32, max_size=32), st.data())
def test_any_t_shares_restore_the_secret_and_fewer_do_not(secret: bytes, data: st.DataObject) -> None:
    clients = data.draw(st.integers(1, 8))
    threshold = data.draw(st.integers(1, clients))
    shares = shares_of(secret, threshold=threshold, clients=clients)
    holders = data.draw(st.permutations(range(clients)))[:threshold]
    assert combined({i: shares[i] for i in holders}, weights_at_zero(holders)) == secret
    if threshold > 1:  # equal by chance with probability 2^-256
        fewer = holders[1:]
        assert combined({i: shares[i] for i in fewer}, weights_at_zero(fewer)) != secret


def test_a_value_beyond_32_bytes_is_not_a_secret() -> None:
    assert combined({0: (2**256 + 5).to_bytes(33, "big")}, [1]) is None
    assert combined({0: (2**256 - 1).to_bytes(33, "big")}, [1]) == b"\xff" * 32


@pytest.mark.parametrize("secret", [0, 1, 6])
def test_two_of_three_shares_have_one_law_for_every_secret(secret: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All polynomials over the field of seven elements: every pair of values comes from exactly one."""
    monkeypatch.setattr(shamir, "PRIME", 7)
    for seen in ((0, 1), (1, 2), (0, 4)):
        found: Counter[tuple[bytes, ...]] = Counter()
        for coefficients in itertools.product(range(7), repeat=2):
            drawn = iter(coefficients)
            shares = shares_of(secret.to_bytes(32, "big"), threshold=3, clients=5, below=lambda _: next(drawn))
            found[tuple(shares[i] for i in seen)] += 1
        assert len(found) == 49 and set(found.values()) == {1}
