"""Tests of secure aggregation: the masked sum is the ideal one, messages are uniform, dropouts, and wrapping around."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import skellam
from samples import chi_square
from scipy import stats

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.mechanisms.distributed.secure_aggregation import (
    AggregationError,
    MaskedSum,
    check_modulus,
    modulus_for,
    secure_sum,
)
from hockeystick.mechanisms.distributed.skellam_shares import SkellamShares

FALSE_ALARM = 1e-6
KEY = b"0123456789abcdef"


@pytest.mark.statistical
@settings(max_examples=60)
@given(st.data(), st.integers(2, 7), st.integers(0, 5), st.sampled_from([2**8, 2**32, 2**62]))
def test_the_masked_sum_is_the_ideal_one(data: st.DataObject, clients: int, entries: int, modulus: int) -> None:
    """Whoever drops out; and where nothing wraps around, it is the plain sum."""
    numbers = st.integers(-(2**61), 2**61)
    vectors = np.array(
        data.draw(st.lists(st.lists(numbers, min_size=entries, max_size=entries), min_size=clients, max_size=clients)),
        dtype=np.int64,
    )
    survivors = data.draw(st.sets(st.integers(0, clients - 1), min_size=2))
    protocol = MaskedSum(modulus, clients)
    found = protocol.unmask({c: protocol.mask(c, vectors[c]) for c in survivors})
    ideal = secure_sum(vectors, modulus=modulus, largest=1, survivors=survivors)
    assert found.tolist() == ideal.tolist() and found.dtype == np.int64
    exact = [sum(int(vectors[c, i]) for c in survivors) for i in range(entries)]
    for got, true in zip(found.tolist(), exact, strict=True):
        assert (got - true) % modulus == 0 and -modulus // 2 <= got < modulus // 2
        assert got == true or not -modulus // 2 <= true < modulus // 2


def test_sums_keep_the_shape_of_the_values() -> None:
    protocol = MaskedSum(2**20, 3)
    for shape in ((), (4,), (2, 3)):
        value = np.arange(math.prod(shape)).reshape(shape) - 2
        assert (protocol.unmask({c: protocol.mask(c, value) for c in range(3)}) == 3 * value).all()
    assert secure_sum([1, 2, 3], modulus=16, largest=6) == 6


@pytest.mark.parametrize(("rows", "found"), [([-4, -4], -8), ([4, 4], -8), ([4, 3], 7), ([-5, -4], 7)])
def test_residues_are_read_from_the_lower_end_on(rows: list[int], found: int) -> None:
    assert secure_sum(rows, modulus=16, largest=7) == found


@pytest.mark.parametrize("modulus", [2**4, 2**62])
def test_masked_messages_are_uniform_for_every_value(modulus: int) -> None:
    for value in (0, 7):
        sent = MaskedSum(modulus, 3, key=KEY).mask(1, np.full(40_000, value))
        assert sent.dtype == np.uint64 and sent.max() < modulus
        counts = np.bincount((sent >> np.uint64(int(math.log2(modulus)) - 4)).astype(np.int64), minlength=16)
        assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_sums_of_fewer_messages_than_arrived_stay_masked() -> None:
    """With one honest survivor's message left out, what the seeds of the dropped reveal does not unmask the rest."""
    protocol = MaskedSum(2**32, 4, key=KEY)
    sent = {c: protocol.mask(c, np.full(20_000, 5)) for c in range(3)}  # client 3 drops out
    assert (protocol.unmask(sent) == 15).all()
    partial = sent[0] + sent[1]
    for dropped in (3,):
        partial -= protocol._signed_mask(0, dropped, (20_000,)) + protocol._signed_mask(1, dropped, (20_000,))
    counts = np.bincount(((partial & np.uint64(2**32 - 1)) >> np.uint64(28)).astype(np.int64), minlength=16)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_a_key_repeats_the_masks_and_is_not_shown() -> None:
    value = np.arange(50)
    assert not np.array_equal(MaskedSum(2**32, 3).mask(0, value), MaskedSum(2**32, 3).mask(0, value))
    first, again = (MaskedSum(2**32, 3, key=KEY).mask(0, value) for _ in range(2))
    assert np.array_equal(first, again)
    assert "key" not in repr(MaskedSum(2**32, 3, key=KEY)) and "abcdef" not in repr(MaskedSum(2**32, 3, key=KEY))


def test_wrap_around_is_refused_at_the_bound() -> None:
    assert modulus_for(100) == 256 and modulus_for(127.9) == 256 and modulus_for(128) == 512
    assert modulus_for(0) == 2 and modulus_for(20, sigma=10) == 256
    check_modulus(256, largest=127, sigma=0)
    for largest, sigma in ((128, 0.0), (0, 16.0), (100, 4.0)):
        with pytest.raises(InvalidArgumentError, match=r"modulus.*wrap around.*give at least 512"):
            secure_sum([[1], [2]], modulus=256, largest=largest, sigma=sigma)
    with pytest.raises(InvalidArgumentError, match="2\\^62"):
        modulus_for(2.0**62)


@pytest.mark.statistical
@given(st.floats(0, 1e15), st.floats(0, 1e12))
def test_the_modulus_found_is_the_least(largest: float, sigma: float) -> None:
    modulus = modulus_for(largest, sigma)
    check_modulus(modulus, largest=largest, sigma=sigma)
    assert modulus == 2 or modulus / 2 <= 2 * (largest + 8 * sigma)


def test_noise_shares_in_a_secure_sum() -> None:
    """A count of 90 clients, of whom 80 surely stay; 85 do: the sum is theirs, with noise of the stated law."""
    shares = SkellamShares(0.5, survivors=80)
    counts = np.ones((90, 3000), dtype=np.int64)
    noisy = counts + shares.share(counts.size).reshape(counts.shape)
    modulus = modulus_for(90, math.sqrt(90 * 0.5))
    found = secure_sum(noisy, modulus=modulus, largest=90, sigma=math.sqrt(90 * 0.5), survivors=range(85), threshold=80)
    assert chi_square(found - 85, skellam(85 / 2, 90)) > FALSE_ALARM


def test_too_few_survivors_are_refused() -> None:
    protocol = MaskedSum(2**10, 5, threshold=3)
    sent = {c: protocol.mask(c, [1, 2]) for c in range(2)}
    for refused in (
        lambda: protocol.unmask(sent),
        lambda: protocol.unmask({}),
        lambda: secure_sum([[1], [2], [3]], modulus=64, largest=6, survivors=[1]),
        lambda: secure_sum([[1], [2], [3]], modulus=64, largest=6, threshold=4),
    ):
        with pytest.raises(AggregationError, match="threshold"):
            refused()
    assert issubclass(AggregationError, HockeystickError)


def test_messages_that_do_not_fit_are_refused() -> None:
    protocol = MaskedSum(2**10, 3)
    good = {c: protocol.mask(c, [1, 2]) for c in range(3)}
    for bad in (np.array([1], dtype=np.uint64), np.array([1, 2]), np.array([1, 2**10], dtype=np.uint64), [0.5, 1.0]):
        with pytest.raises(AggregationError, match="client 2 (sent|did not send)"):
            protocol.unmask({**good, 2: bad})
    with pytest.raises(InvalidArgumentError, match="sent"):
        protocol.unmask({**good, 3: good[0]})


BAD: list[tuple[str, dict[str, Any]]] = [
    ("modulus", {"modulus": bad}) for bad in (0, 1, 3, 100, -4, 2**63, 2.5, math.nan, True, None)
]
BAD += [("vectors", {"vectors": bad}) for bad in (3, [[0.5], [1]], [[math.nan], [1]], "ab", None)]
BAD += [("survivors", {"survivors": bad}) for bad in ([0, 0], [0, 3], [-1, 0], [0.5, 1], 3, "01")]
BAD += [("largest", {"largest": bad}) for bad in (-1, math.nan, math.inf, None)]
BAD += [("sigma", {"sigma": bad}) for bad in (-1, math.nan, math.inf, None)]
BAD += [("threshold", {"threshold": bad}) for bad in (0, -1, 1.5, None)]


@pytest.mark.parametrize(("name", "bad"), BAD)
def test_bad_arguments_are_refused(name: str, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        secure_sum(**{"vectors": [[1], [2], [3]], "modulus": 64, "largest": 6, **bad})


def test_bad_protocols_are_refused() -> None:
    for parameters, name in (
        ({"modulus": 3, "clients": 3}, "modulus"),
        ({"modulus": 4, "clients": 1}, "clients"),
        ({"modulus": 4, "clients": 3, "threshold": 4}, "threshold"),
        ({"modulus": 4, "clients": 3, "key": b"short"}, "key"),
        ({"modulus": 4, "clients": 3, "key": 5}, "key"),
    ):
        with pytest.raises(InvalidArgumentError, match=name):
            MaskedSum(**parameters)
    with pytest.raises(InvalidArgumentError, match="client"):
        MaskedSum(4, 3).mask(3, [1])
    with pytest.raises(InvalidArgumentError, match="values"):
        MaskedSum(4, 3).mask(0, [0.5])
