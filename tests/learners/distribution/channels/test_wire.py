"""Tests of messages about labels as bytes, and of the server's inbox: only written messages are read, exactly."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.distribution.channels.all_channels import (
    Channel,
    Message,
    OneBit,
    RandomizedLabels,
    SampledDiscreteLaplace,
    SampledLaplace,
    VectorGaussian,
    VectorLaplace,
)
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import UniformMixture
from hockeystick.learners.distribution.channels.wire import Inbox, MessageFormat, RefusedMessageError
from hockeystick.mechanisms.randomness.noise import SimulationNoise

RUN, OTHER = b"\x00run one", b"run two\xff"
LEVELS = UniformMixture().levels(LabelTable(np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])), 100)
CHANNELS: tuple[Channel, ...] = (
    OneBit(LEVELS, epsilon=1.0),
    SampledLaplace(LEVELS, epsilon=1.0),
    SampledDiscreteLaplace(LEVELS, epsilon=1.0),
    VectorLaplace(LEVELS, scale=2.0),
    VectorGaussian(LEVELS, sigma=2.0),
    RandomizedLabels(LEVELS, epsilon=1.0),
)
BIT = MessageFormat.of(CHANNELS[0], run=RUN)
REAL = MessageFormat.of(CHANNELS[1], run=RUN)


@pytest.mark.parametrize("channel", CHANNELS)
def test_messages_survive_a_round_trip(channel: Channel) -> None:
    form, noise = MessageFormat.of(channel, run=RUN), SimulationNoise(1)
    sizes = set()
    for number, label in enumerate((0, 1, 2, -1, None, "x", math.nan) * 5):
        message = channel.privatise(label, noise=noise)
        data = form.write(number, message)
        sizes.add(len(data))
        assert form.read(data) == (number, message)
        assert type(form.read(data)[1].value) is type(message.value)
    assert sizes == {form.size}  # the length says nothing of the label


def test_the_layout_is_the_stated_one() -> None:
    """Golden bytes, so that devices of another make can be written from the table."""
    assert BIT.write(258, Message(1, 1)) == b"HSL\x01\x01" + RUN + b"\x02\x01" + bytes(6) + b"\x01\0\0\0" + b"\x01"
    assert REAL.write(0, Message(0, -1.5)) == b"HSL\x01\x02" + RUN + bytes(12) + struct.pack("<d", -1.5)


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_changed_message_is_refused_or_another_valid_message(channel: Channel) -> None:
    form = MessageFormat.of(channel, run=RUN)
    data = form.write(5, channel.privatise(1, noise=SimulationNoise(3)))
    for place in range(len(data)):
        for flip in (1, 0x80, 0xFF):
            changed = bytearray(data)
            changed[place] ^= flip
            try:
                number, message = form.read(bytes(changed))
            except RefusedMessageError:
                continue
            assert place >= 13 and 0 <= number < 2**63
            values = message.value if isinstance(message.value, tuple) else (message.value,)
            assert all(abs(value) <= form.limit for value in values)
            assert message.index is None or 0 <= message.index < 2
    for size in (0, 1, len(data) - 1, len(data) + 1):
        with pytest.raises(RefusedMessageError, match="bytes"):
            form.read((data + b"\0")[:size])


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(CHANNELS), st.binary(max_size=60), st.booleans())
def test_noise_on_the_line_is_refused(channel: Channel, junk: bytes, sized: bool) -> None:
    form = MessageFormat.of(channel, run=RUN)
    data = (junk * 60)[: form.size] if sized and junk else junk
    with pytest.raises(RefusedMessageError):
        form.read(data)


def header(**changes: Any) -> bytes:
    values = {"magic": b"HSL", "version": 1, "kind": 2, "run": RUN, "number": 3, "index": 1} | changes
    return struct.pack("<3sBB8sQI", *values.values())


@pytest.mark.parametrize(
    ("changes", "value", "field"),
    [
        ({"magic": b"XSL"}, 0.0, "version"),
        ({"version": 2}, 0.0, "version"),
        ({"kind": 3}, 0.0, "kind"),
        ({"run": OTHER}, 0.0, "run"),
        ({"number": 2**63}, 0.0, "round"),
        ({"index": 2}, 0.0, "index"),
        ({"index": 2**32 - 1}, 0.0, "index"),
        ({}, math.nan, "value"),
        ({}, math.inf, "value"),
        ({}, 1e300, "value"),
        ({}, -1e300, "value"),
    ],
)
def test_a_refusal_names_the_field_and_not_its_content(changes: dict[str, Any], value: float, field: str) -> None:
    with pytest.raises(RefusedMessageError, match=f"field '{field}'") as caught:
        REAL.read(header(**changes) + struct.pack("<d", value))
    assert "e+300" not in str(caught.value) and "nan" not in str(caught.value)
    assert REAL.read(header() + struct.pack("<d", 0.0)) == (3, Message(1, 0.0))


def test_other_payloads_out_of_range() -> None:
    noise = SimulationNoise(1)
    whole, reals, label = (MessageFormat.of(CHANNELS[i], run=RUN) for i in (2, 3, 5))
    for form, channel, bad in (
        (BIT, CHANNELS[0], b"\x02"),
        (whole, CHANNELS[2], struct.pack("<q", int(whole.limit) + 1)),
        (whole, CHANNELS[2], struct.pack("<q", -(2**63))),
        (reals, CHANNELS[3], struct.pack("<2d", 0.0, math.nan)),
        (label, CHANNELS[5], struct.pack("<Q", 3)),
        (label, CHANNELS[5], struct.pack("<Q", 2**64 - 1)),
    ):
        good = form.write(0, channel.privatise(0, noise=noise))
        with pytest.raises(RefusedMessageError, match="value"):
            form.read(good[:25] + bad)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (BIT, Message(0, 2)),
        (BIT, Message(0, 1.0)),
        (BIT, Message(None, 1)),
        (BIT, Message(2, 1)),
        (BIT, Message(-1, 1)),
        (REAL, Message(0, math.nan)),
        (REAL, Message(0, (1.0, 2.0))),
        (MessageFormat.of(CHANNELS[2], run=RUN), Message(0, 0.5)),
        (MessageFormat.of(CHANNELS[3], run=RUN), Message(None, (1.0,))),
        (MessageFormat.of(CHANNELS[3], run=RUN), Message(0, (1.0, 1.0))),
        (MessageFormat.of(CHANNELS[5], run=RUN), Message(None, 3)),
        (MessageFormat.of(CHANNELS[5], run=RUN), Message(None, -1)),
    ],
)
def test_a_message_of_another_channel_is_not_written(form: MessageFormat, message: Message) -> None:
    with pytest.raises(InvalidArgumentError):
        form.write(0, message)


def test_numbers_beyond_the_limit_are_clipped_when_written() -> None:
    assert REAL.read(REAL.write(0, Message(0, 1e9)))[1].value == REAL.limit
    assert REAL.read(REAL.write(0, Message(0, -math.inf)))[1].value == -REAL.limit


def test_bad_formats_are_refused() -> None:
    bad: list[Callable[[], object]] = [
        lambda: MessageFormat.of(CHANNELS[0], run=b"short"),
        lambda: MessageFormat.of(CHANNELS[0], run="run text"),  # type: ignore[arg-type]
        lambda: MessageFormat.of("bit", run=RUN),  # type: ignore[arg-type]
        lambda: MessageFormat(payload="byte", experts=2, limit=1.0, run=RUN),  # type: ignore[arg-type]
        lambda: MessageFormat(payload="bit", experts=0, limit=1.0, run=RUN),
        lambda: MessageFormat(payload="bit", experts=2, limit=math.nan, run=RUN),
        lambda: BIT.write(-1, Message(0, 1)),
        lambda: BIT.write(True, Message(0, 1)),
        lambda: Inbox("bit"),  # type: ignore[arg-type]
        lambda: Inbox(BIT, rounds=0),
        lambda: Inbox(BIT, window=0),
        lambda: Inbox(BIT, latest=3, taken=0),
        lambda: Inbox(BIT, latest=-1, taken=1),
        lambda: Inbox(BIT, latest=1, taken=0b101),
        lambda: Inbox(BIT, latest=9, taken=0b101, window=2),
        lambda: Inbox(BIT).admit(-1),
    ]
    for call in bad:
        with pytest.raises(InvalidArgumentError):
            call()


# --- the inbox -------------------------------------------------------------------------------------------------------


def test_a_replayed_message_changes_nothing() -> None:
    inbox, data = Inbox(BIT, rounds=10), BIT.write(4, Message(1, 0))
    once, number, message = inbox.receive(data)
    assert (number, message) == (4, Message(1, 0)) and inbox == Inbox(BIT, rounds=10)
    with pytest.raises(RefusedMessageError, match="taken before"):
        once.receive(data)
    with pytest.raises(RefusedMessageError, match="beyond"):
        once.receive(BIT.write(10, Message(1, 0)))
    with pytest.raises(RefusedMessageError, match="run"):
        once.receive(MessageFormat.of(CHANNELS[0], run=OTHER).write(5, Message(1, 0)))
    assert once.receive(BIT.write(3, Message(0, 1)))[1] == 3  # late, but new


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 40))
def test_an_inbox_takes_each_round_of_its_window_once(numbers: list[int], window: int) -> None:
    """Against a set of all rounds so far."""
    inbox, seen = Inbox(BIT, window=window), set[int]()
    for number in numbers:
        latest = max(seen, default=-1)
        allowed = number not in seen and latest - number < window
        try:
            inbox = inbox.admit(number)
            assert allowed
            seen.add(number)
        except RefusedMessageError:
            assert not allowed
        assert inbox.taken < 2**window and inbox.latest == max(seen, default=-1)
        assert Inbox(BIT, window=window, latest=inbox.latest, taken=inbox.taken) == inbox


def test_old_rounds_are_refused_after_a_jump() -> None:
    inbox = Inbox(BIT).admit(0).admit(2**40).admit(2**40 - 1023)
    for number in (0, 2**40, 2**40 - 1023, 2**40 - 1024):
        with pytest.raises(RefusedMessageError):
            inbox.admit(number)
