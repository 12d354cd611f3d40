"""The server of online distribution learning: predicts, receives messages, and can be saved, resumed and merged.

The state of a server is the sum of losses of each candidate and the set of rounds of the received messages. Losses are
added up without rounding (every float is a whole multiple of the smallest one), so the state does not depend on the
order of messages: shards that received disjoint rounds merge into exactly the server that received all of them. Until
it is merged, a shard predicts from its own messages.

A message is refused, and leaves the state unchanged, if its round was received before or lies beyond the horizon, or if
the channel cannot send it. The state is post-processing of messages.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.numerics.exact_sums import exact
from hockeystick.accounting.validate import integer
from hockeystick.learners.common.stream_checkpoint import refused, seal, unseal
from hockeystick.learners.distribution.channels.all_channels import Channel, Message, Messages
from hockeystick.learners.distribution.channels.levels import TableLevels
from hockeystick.learners.distribution.channels.wire import MessageFormat, RefusedMessageError
from hockeystick.learners.distribution.online_distribution import OnlineDistribution

_KIND, _VERSION = "checkpoint of a DistributionServer", 1
UNIT = 1 << 1074  # of exact sums


class DistributionServer:
    """The server of one run of ``OnlineDistribution``. It receives messages and never labels.

    Args:
        learner: The learner.

    Raises:
        InvalidArgumentError: it is not an ``OnlineDistribution``.

    Example:
        >>> from hockeystick.learners import DistributionServer, OnlineDistribution
        >>> from hockeystick.learners.distribution import LabelTable
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = OnlineDistribution.build(LabelTable([[0.9, 0.1], [0.1, 0.9]]), rounds=50, epsilon=4.0)
        >>> server, noise = DistributionServer(learner), SimulationNoise(1)
        >>> for t in range(50):  # every person's label is 1
        ...     server.update(learner.channels[0].privatise(1, noise=noise), round=t)
        >>> server.heard, bool(server.predict()[1] > 0.85)
        (50, True)
    """

    __slots__ = ("_counts", "_heard", "_learner", "_scores", "_totals")

    def __init__(self, learner: OnlineDistribution) -> None:
        if not isinstance(learner, OnlineDistribution):
            raise InvalidArgumentError(
                "learner", type(learner).__name__, "is not an OnlineDistribution", "use OnlineDistribution.build"
            )
        self._learner = learner
        self._totals = [0] * learner.experts
        self._counts = [0] * learner.experts
        self._scores = np.zeros(learner.experts)  # the totals as floats
        self._heard = _Rounds()

    # --- predictions -------------------------------------------------------------------------------------------------

    @property
    def learner(self) -> OnlineDistribution:
        """The learner."""
        return self._learner

    @property
    def heard(self) -> int:
        """The number of received messages."""
        return self._heard.count

    @property
    def totals(self) -> FloatArray:
        """The sum of losses of each candidate, correctly rounded, shape (K,)."""
        return self._scores.copy()

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The number of messages about each candidate, shape (K,)."""
        return np.array(self._counts, dtype=np.int64)

    def weights(self) -> FloatArray:
        """Returns softmax(-eta * totals), shape (K,)."""
        odds = np.exp(-self._learner.learning_rate * (self._scores - self._scores.min()))
        return np.asarray(odds / odds.sum())

    def predict(self, context: int = 0) -> FloatArray:
        """Returns the published law of the next label in this context, shape (M,).

        Raises:
            InvalidArgumentError: an unknown context, or labels without a table, for which use ``log_density``.
        """
        return np.asarray(self.weights() @ self._channel(context).levels.masses())

    def log_density(self, labels: npt.ArrayLike, context: int = 0) -> FloatArray:
        """Returns the logarithm of the published law's mass or density at public points, shape (n,)."""
        logs = self._channel(context).levels.log_masses(labels)
        with np.errstate(divide="ignore"):
            weighted = logs + np.log(self.weights())
        return np.asarray(np.logaddexp.reduce(weighted, axis=1))

    # --- messages ----------------------------------------------------------------------------------------------------

    def update(self, message: Message, *, round: int, context: int = 0) -> None:
        """Receives the message of one round. If it raises an error, the state is unchanged.

        Args:
            message: The message of the device.
            round: 0 .. horizon - 1; each once, in any order.
            context: The context of the round.

        Raises:
            InvalidArgumentError: an unknown round or context.
            RefusedMessageError: a malformed message, or a round that was received before.
        """
        number = integer("round", round, low=0, high=self._learner.horizon - 1)
        if number in self._heard:
            raise RefusedMessageError(f"the message of round {number} was received before")
        channel = self._channel(context)
        index, losses = self._learner.losses(_one(channel, message), context)
        values = [float(loss) for loss in np.ravel(losses)]
        if not all(map(math.isfinite, values)):
            raise _malformed("has a loss that is not finite")
        self._heard.add(number)
        for j, loss in zip(range(len(values)) if index is None else map(int, np.ravel(index)), values, strict=True):
            self._totals[j] += exact(loss)
            self._counts[j] += 1
            self._scores[j] = self._totals[j] / UNIT

    def receive(self, data: bytes, form: MessageFormat, *, context: int = 0) -> int:
        """Receives the bytes of a message, and returns its round; errors as for ``update``."""
        number, message = form.read(data)
        if number >= self._learner.horizon:
            raise RefusedMessageError("field 'round' is beyond the horizon")
        self.update(message, round=number, context=context)
        return number

    # --- states ------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> dict[str, Any]:
        """Returns the state as values for JSON, from which ``resume`` continues."""
        body = {
            "totals": [str(total) for total in self._totals],
            "counts": list(self._counts),
            "heard": [list(part) for part in self._heard.parts],
        }
        return seal(body, kind=_KIND, version=_VERSION, learner=identity(self._learner), simulated=False)

    @classmethod
    @unchained()
    def resume(cls, learner: OnlineDistribution, checkpoint: dict[str, Any]) -> DistributionServer:
        """Returns the server with the state of a ``checkpoint``.

        For candidates without a table only their range is compared with that of the checkpoint.

        Raises:
            InvalidArgumentError: it is not a checkpoint, was changed, or belongs to another learner.
        """
        server = cls(learner)
        body = unseal(checkpoint, kind=_KIND, version=_VERSION, learner=identity(learner), simulated=False)
        try:
            totals, counts = [int(each) for each in body["totals"]], [int(each) for each in body["counts"]]
            server._heard = _Rounds([(int(first), int(end)) for first, end in body["heard"]])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise refused("lacks parts of a checkpoint") from None
        if len(totals) != learner.experts or len(counts) != learner.experts or server._heard.end > learner.horizon:
            raise refused("does not fit the learner")
        server._totals, server._counts = totals, counts
        server._scores = np.array([total / UNIT for total in totals])
        return server

    @classmethod
    def merged(cls, shards: Iterable[DistributionServer]) -> DistributionServer:
        """Returns the server that has received all messages of the shards, exact to the last bit.

        Raises:
            InvalidArgumentError: no shards, servers of different learners, or a round that two of them have received.
        """
        parts = list(shards)
        if not parts or not all(isinstance(part, DistributionServer) for part in parts):
            raise InvalidArgumentError("shards", parts, "is not a list of DistributionServers", "give at least one")
        own = identity(parts[0]._learner)
        if any(identity(part._learner) != own for part in parts[1:]):
            raise InvalidArgumentError("shards", len(parts), "are of different learners", "merge shards of one learner")
        found = cls(parts[0]._learner)
        found._heard = _Rounds.union([part._heard for part in parts])
        found._totals = [sum(column) for column in zip(*(part._totals for part in parts), strict=True)]
        found._counts = [sum(column) for column in zip(*(part._counts for part in parts), strict=True)]
        found._scores = np.array([total / UNIT for total in found._totals])
        return found

    def _channel(self, context: int) -> Channel:
        channels = self._learner.channels
        return channels[integer("context", context, low=0, high=len(channels) - 1)]


# --- one message -----------------------------------------------------------------------------------------------------


def _one(channel: Channel, message: object) -> Messages:
    """The message in an array of one, if the channel's devices can send it."""
    if not isinstance(message, Message):
        raise _malformed("is not a Message")
    sampled = channel.payload in ("bit", "real", "whole")
    if sampled:
        value: Any = np.array([_number(channel, message.value)])
        index = message.index
        if not isinstance(index, (int, np.integer)) or isinstance(index, bool) or not 0 <= index < channel.count:
            raise _malformed(f"is not about a candidate 0 .. {channel.count - 1}")
        return Messages(np.array([int(index)]), value)
    if message.index is not None:
        raise _malformed("is about one candidate instead of all")
    if channel.payload == "label":
        return Messages(None, np.array([_number(channel, message.value)]))
    if not isinstance(message.value, tuple) or len(message.value) != channel.count:
        raise _malformed(f"does not have {channel.count} numbers")
    return Messages(None, np.array([[_number(channel, each) for each in message.value]]))


def _number(channel: Channel, value: object) -> int | float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise _malformed("holds a value that is not a number")
    if not math.isfinite(value):
        raise _malformed("holds a number that is not finite")
    if channel.payload == "real" or channel.payload == "reals":
        number: int | float = float(value)
    elif value == int(value):
        number = int(value)
    else:
        raise _malformed("holds a number that is not whole")
    low, high = _range(channel)
    if not low <= number <= high:
        raise _malformed(f"holds a number outside [{low:g}, {high:g}]")
    return number


def _range(channel: Channel) -> tuple[float, float]:
    if channel.payload == "bit":
        return 0.0, 1.0
    if channel.payload == "label":
        return 0.0, float(channel.levels.labels or 0) - 1.0
    return -channel.limit, channel.limit


def _malformed(reason: str) -> RefusedMessageError:
    return RefusedMessageError(f"the message {reason}")


# --- rounds and identities -------------------------------------------------------------------------------------------


class _Rounds:
    """A set of whole numbers as intervals [first, end): a single one if numbers are added in order."""

    __slots__ = ("parts",)

    def __init__(self, parts: Iterable[tuple[int, int]] = ()) -> None:
        self.parts = sorted(parts)
        last = 0
        for first, end in self.parts:
            if not last <= first < end:
                raise ValueError("overlapping or empty intervals")
            last = end

    @property
    def count(self) -> int:
        return sum(end - first for first, end in self.parts)

    @property
    def end(self) -> int:
        return self.parts[-1][1] if self.parts else 0

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self.parts, (number, math.inf)) - 1
        return place >= 0 and number < self.parts[place][1]

    def add(self, number: int) -> None:
        """Adds a number that is not in the set."""
        place = bisect_right(self.parts, (number, math.inf))
        first, end, low, high = number, number + 1, place, place
        if place and self.parts[place - 1][1] == number:
            first, low = self.parts[place - 1][0], place - 1
        if place < len(self.parts) and self.parts[place][0] == number + 1:
            end, high = self.parts[place][1], place + 1
        self.parts[low:high] = [(first, end)]

    @classmethod
    def union(cls, sets: Iterable[_Rounds]) -> _Rounds:
        """The union of disjoint sets.

        Raises:
            InvalidArgumentError: two of them have a number in common.
        """
        joined: list[tuple[int, int]] = []
        for first, end in sorted(part for each in sets for part in each.parts):
            if joined and first < joined[-1][1]:
                raise InvalidArgumentError("shards", first, "is a round of two shards", "give each round to one shard")
            if joined and first == joined[-1][1]:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((first, end))
        return cls(joined)


@frozen
class Identity:
    """The identity of a learner in a state: learners of equal identity decode every message alike."""

    rule: str
    rate: float
    horizon: int
    experts: int
    channel: str
    cost: str
    span: float | None
    levels: str


def identity(learner: OnlineDistribution) -> Identity:
    """Returns the identity of a learner."""
    channel = learner.channels[0]
    digest = hashlib.sha256()
    for each in learner.channels:
        levels = each.levels
        digest.update(repr((levels.bottom, levels.top, levels.labels, type(levels.reference).__name__)).encode())
        if isinstance(levels, TableLevels):
            digest.update(levels.rows.tobytes() + levels.column.tobytes() + levels.masses().tobytes())
    return Identity(
        rule=learner.rule,
        rate=learner.learning_rate,
        horizon=learner.horizon,
        experts=learner.experts,
        channel=type(channel).__name__,
        cost=repr(channel.event()),
        span=getattr(channel, "span", None),
        levels=digest.hexdigest(),
    )
