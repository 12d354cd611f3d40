"""The wire format of messages about labels, and an inbox that accepts the message of each round once.

A message is a fixed header and a payload, little-endian. Its length depends on the channel alone, never on its content.
A reader has a :class:`MessageFormat` and refuses everything else: another version, run or kind, a wrong length, an
index or a value out of range, a number that is not finite. A refusal names the field and never shows its content.
Values lie within the channel's ``limit``, which bounds the effect of one message on a learner.

======  =====  ==================================================
offset  bytes  field
======  =====  ==================================================
0       3      b"HSL"
3       1      version, 1
4       1      kind of the payload
5       8      the run, chosen by the server
13      8      round, 0, 1, 2, ..
21      4      index of a candidate; 2^32 - 1 if the message is about all
25      ..     bit: 1 byte; real: float64; whole: int64; label: uint64; reals: K times float64
======  =====  ==================================================

The format authenticates neither the sender nor the content: use a secure connection.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from attrs import evolve, field, frozen

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.distribution.channels.messages import Channel, Message, Payload

VERSION = 1

_MAGIC = b"HSL"
_HEADER = struct.Struct("<3sBB8sQI")
_KINDS: dict[Payload, int] = {"bit": 1, "real": 2, "whole": 3, "reals": 4, "label": 5}
_NONE = 2**32 - 1
_MOST_ROUNDS = 2**63
_RUN = 8


class RefusedMessageError(HockeystickError):
    """A message that a server refuses: malformed, out of range, of another run, or received before.

    See :class:`Inbox` for an example.
    """


def _run(value: object) -> bytes:
    if not isinstance(value, bytes) or len(value) != _RUN:
        raise InvalidArgumentError("run", value, "is not 8 bytes", "give secrets.token_bytes(8)")
    return value


def _payload(value: Payload) -> Payload:
    if not isinstance(value, str) or value not in _KINDS:
        raise InvalidArgumentError("payload", value, "is unknown", f"use one of {', '.join(_KINDS)}")
    return value


def _experts(value: object) -> int:
    return integer("experts", value, low=1, high=_NONE - 1)


def _limit(value: object) -> float:
    return real("limit", value, low=0.0, low_open=True)


@frozen
class MessageFormat:
    """The format of the messages of a run; server and devices have equal ones.

    Attributes:
        payload: The kind of the value.
        experts: K.
        limit: The largest absolute value.
        run: 8 bytes that identify the run; messages of another run are refused.

    Raises:
        InvalidArgumentError: an attribute outside its domain.

    Example:
        >>> from hockeystick.learners.distribution import LabelTable, Message, MessageFormat, OneBit, UniformMixture
        >>> channel = OneBit(UniformMixture().levels(LabelTable([[0.9, 0.1], [0.1, 0.9]]), 100), epsilon=1.0)
        >>> form = MessageFormat.of(channel, run=b"8 bytes.")
        >>> data = form.write(5, Message(index=1, value=0))
        >>> len(data), form.read(data)
        (26, (5, Message(index=1, value=0)))
    """

    payload: Payload = field(converter=_payload, kw_only=True)
    experts: int = field(converter=_experts, kw_only=True)
    limit: float = field(converter=_limit, kw_only=True)
    run: bytes = field(converter=_run, kw_only=True)

    @classmethod
    def of(cls, channel: Channel, *, run: bytes) -> MessageFormat:
        """Returns the format of a channel's messages.

        Raises:
            InvalidArgumentError: ``channel`` is not a Channel, or ``run`` is not 8 bytes.
        """
        if not isinstance(channel, Channel):
            raise InvalidArgumentError("channel", channel, "is not a Channel", "use OneBit or another channel")
        return cls(payload=channel.payload, experts=channel.count, limit=channel.limit, run=run)

    @property
    def size(self) -> int:
        """The number of bytes of every message."""
        return _HEADER.size + {"bit": 1, "reals": 8 * self.experts}.get(self.payload, 8)

    def write(self, number: int, message: Message) -> bytes:
        """Returns the bytes of the message of round ``number``; values beyond the limit are clipped to it.

        Raises:
            InvalidArgumentError: a round that is not an integer from 0 to 2^63 - 1, or a message of another channel.
        """
        place = integer("number", number, low=0, high=_MOST_ROUNDS - 1)
        index = _NONE if message.index is None else message.index
        try:
            body = self._packed(message.value)
            header = _HEADER.pack(_MAGIC, VERSION, _KINDS[self.payload], self.run, place, index)
            self._read_index(index)
        except (struct.error, TypeError, ValueError, OverflowError, RefusedMessageError):
            raise InvalidArgumentError(
                "message", "...", "does not fit this format", "use the format's channel"
            ) from None
        return header + body

    def read(self, data: bytes) -> tuple[int, Message]:
        """Returns the round and the message from the bytes of :meth:`write`.

        Raises:
            RefusedMessageError: the bytes do not have this format.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)) or len(data) != self.size:
            raise RefusedMessageError(f"a message of this run has {self.size} bytes")
        magic, version, kind, run, number, index = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != VERSION:
            raise RefusedMessageError(f"field 'version' is not {VERSION}: both sides need the same version")
        if kind != _KINDS[self.payload]:
            raise RefusedMessageError(f"field 'kind' is not the one of '{self.payload}'")
        if run != self.run:
            raise RefusedMessageError("field 'run' is that of another run")
        if number >= _MOST_ROUNDS:
            raise RefusedMessageError("field 'round' is out of range")
        return number, Message(self._read_index(index), self._unpacked(bytes(data[_HEADER.size :])))

    @staticmethod
    def number_in(data: bytes) -> int:
        """Returns the round that a header states, before it is read: it chooses the format, and proves nothing.

        Raises:
            RefusedMessageError: there is no header.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)) or len(data) < _HEADER.size:
            raise RefusedMessageError(f"a message has at least {_HEADER.size} bytes")
        return int(_HEADER.unpack_from(data)[4])

    def _read_index(self, index: int) -> int | None:
        sampled = self.payload in ("bit", "real", "whole")
        if not (0 <= index < self.experts if sampled else index == _NONE):
            raise RefusedMessageError("field 'index' is out of range")
        return index if sampled else None

    def _packed(self, value: Any) -> bytes:
        match self.payload:
            case "bit":
                if isinstance(value, float) or value not in (0, 1):
                    raise ValueError
                return bytes([value])
            case "real":
                return struct.pack("<d", self._clipped(value))
            case "whole":
                return struct.pack("<q", min(max(value, -math.floor(self.limit)), math.floor(self.limit)))
            case "label":
                if value > self.limit:
                    raise ValueError
                return struct.pack("<Q", value)
            case "reals":
                if len(value) != self.experts:
                    raise ValueError
                return struct.pack(f"<{self.experts}d", *map(self._clipped, value))

    def _clipped(self, value: float) -> float:
        if math.isnan(value):
            raise ValueError
        return min(max(float(value), -self.limit), self.limit)

    def _unpacked(self, data: bytes) -> int | float | tuple[float, ...]:
        match self.payload:
            case "bit":
                value: int = data[0]
                self._check(value <= 1)
                return value
            case "whole" | "label":
                (whole,) = struct.unpack("<q" if self.payload == "whole" else "<Q", data)
                self._check(abs(whole) <= self.limit)
                return int(whole)
            case "real" | "reals":
                numbers = struct.unpack(f"<{len(data) // 8}d", data)
                self._check(all(abs(number) <= self.limit for number in numbers))  # False for NaN
                return numbers if self.payload == "reals" else float(numbers[0])

    def _check(self, inside: bool) -> None:
        if not inside:
            raise RefusedMessageError("field 'value' is out of range")


def _window(value: object) -> int:
    return integer("window", value, low=1, high=2**20)


def _rounds(value: object) -> int | None:
    return None if value is None else integer("rounds", value, low=1, high=_MOST_ROUNDS)


def _latest(value: object) -> int:
    return integer("latest", value, low=-1, high=_MOST_ROUNDS - 1)


def _taken(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:  # too long for a float
        raise InvalidArgumentError("taken", value, "is not an integer >= 0", "use a former inbox's")
    return value


@frozen
class Inbox:
    """An inbox of a server: accepts the message of each round at most once, in constant memory.

    Messages may arrive out of order by less than ``window`` rounds; an older one is refused, because the inbox does not
    store whether it was received before. An inbox is an immutable value: receiving a message returns the next inbox.

    Args:
        format: The format of the messages.
        rounds: Rounds are 0 .. rounds - 1; None, the default, for no limit.
        window: The number of latest rounds that are remembered.
        latest: The latest round received, -1 before the first.
        taken: The received rounds of the window, bit i for round latest - i.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.distribution import Inbox, Message, MessageFormat
        >>> form = MessageFormat(payload="bit", experts=2, limit=1.0, run=b"8 bytes.")
        >>> inbox, number, message = Inbox(form).receive(form.write(0, Message(1, 0)))
        >>> inbox.receive(form.write(0, Message(1, 0)))
        Traceback (most recent call last):
        hockeystick.learners.distribution.channels.wire.RefusedMessageError: field 'round' was taken before
    """

    format: MessageFormat
    rounds: int | None = field(default=None, converter=_rounds, kw_only=True)
    window: int = field(default=1024, converter=_window, kw_only=True)
    latest: int = field(default=-1, converter=_latest, kw_only=True)
    taken: int = field(default=0, converter=_taken, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.format, MessageFormat):
            raise InvalidArgumentError("format", self.format, "is not a MessageFormat", "use MessageFormat.of(channel)")
        fits = self.taken >> self.window == 0 and self.taken >> (self.latest + 1) == 0
        if not fits or (self.latest >= 0) != bool(self.taken & 1):
            raise InvalidArgumentError("taken", self.taken, "does not fit latest and window", "use a former inbox's")

    def receive(self, data: bytes) -> tuple[Inbox, int, Message]:
        """Returns the next inbox, and the round and the message from bytes.

        Raises:
            RefusedMessageError: malformed, out of range, of another run, received before, or older than the window.
        """
        number, message = self.format.read(data)
        return self.admit(number), number, message

    def admit(self, number: int) -> Inbox:
        """Returns the next inbox, after a message of round ``number``.

        Raises:
            InvalidArgumentError: ``number`` is not an integer >= 0.
            RefusedMessageError: a round beyond the last, received before, or older than the window.
        """
        place = integer("number", number, low=0)
        if self.rounds is not None and place >= self.rounds:
            raise RefusedMessageError("field 'round' is beyond the run's last")
        ahead = place - self.latest
        if ahead > 0:
            kept = self.taken << ahead if ahead < self.window else 0
            return evolve(self, latest=place, taken=(kept & ((1 << self.window) - 1)) | 1)
        if -ahead >= self.window:
            raise RefusedMessageError("field 'round' is older than the window")
        if self.taken >> -ahead & 1:
            raise RefusedMessageError("field 'round' was taken before")
        return evolve(self, taken=self.taken | 1 << -ahead)
