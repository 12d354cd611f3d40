"""Servers that receive private messages in any order and decode them in the order of their numbers.

The mean of a learner's predictions depends on the order of the messages, which do not arrive in it. So a server records
every message at the place that its number names, and decodes them as one run. The result does not depend on the order
of arrival, to the last bit.

A message is refused, and changes nothing, if its number was received before, is beyond the last, or is not this
device's to answer, if its bytes do not have the format of the run, or if the server is closed. The format does not
authenticate devices: use a secure connection. All state is post-processing of messages.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.validate import boolean, integer
from hockeystick.learners.common.stream_checkpoint import refused, seal, unseal
from hockeystick.learners.distribution.channels.all_channels import Message, Messages
from hockeystick.learners.distribution.channels.wire import MessageFormat, RefusedMessageError
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

_VERSION = 1
_TYPES = {"bit": np.int8, "whole": np.int64, "label": np.int64, "real": np.float64, "reals": np.float64}


def sent(
    event: PrivacyEvent,
    draw: Callable[[], Message],
    form: MessageFormat,
    number: int,
    *,
    noise: Noise | None,
    ledger: AnyLedger | None,
    name: str | None,
    reads: Iterable[str] | None,
) -> bytes:
    """Returns the bytes of a device's message, after its cost is charged to the person's ledger.

    Args:
        event: The cost of the message.
        draw: Draws it.
        form: The format of the run.
        number: The number of the person or round.
        noise: That of ``draw``; None for secure noise.
        ledger: A ledger of this person, under local adjacency; it is charged before the first coin.
        name, reads: As for a mechanism's release.

    Raises:
        InvalidArgumentError: a number that is not an integer >= 0.
        HockeystickError: the ledger refuses; then nothing is drawn.
    """
    source, place = ReleaseNoise() if noise is None else check_noise(noise), integer("number", number, low=0)
    return form.write(place, charged(event, draw, source, ledger, name, reads, adjacency=Adjacency.LOCAL))


class Recorded:
    """The messages of one run of a learner, each at its place."""

    __slots__ = ("contexts", "heard", "index", "value")

    def __init__(self, form: MessageFormat, length: int) -> None:
        shape = (length, form.experts) if form.payload == "reals" else (length,)
        self.heard = np.zeros(length, dtype=np.bool_)
        self.contexts = np.zeros(length, dtype=np.int64)
        self.value: npt.NDArray[Any] = np.zeros(shape, dtype=_TYPES[form.payload])
        self.index = np.zeros(length, dtype=np.int64) if form.payload in ("bit", "real", "whole") else None

    def add(self, place: int, message: Message, context: int) -> None:
        """Records a message that was checked."""
        self.value[place] = message.value
        self.contexts[place] = context
        if self.index is not None and message.index is not None:
            self.index[place] = message.index
        self.heard[place] = True

    def messages(self) -> tuple[Messages, npt.NDArray[np.int64]]:
        """Returns the received messages in the order of their places, and their contexts."""
        index = None if self.index is None else self.index[self.heard]
        return Messages(index, self.value[self.heard]), self.contexts[self.heard]


class RecordingServer(ABC):
    """Base of the servers that record messages; a subclass maps numbers to places and decodes.

    See :class:`~hockeystick.learners.distribution.hypothesis_selection.SelectionServer` for an example.

    Args:
        run: 8 bytes that identify the run; messages of another run are refused.
    """

    def __init__(self, run: bytes) -> None:
        self._run = run
        self._parts: dict[int, Recorded] = {}
        self._heard = 0
        self._closed = False

    @abstractmethod
    def _place(self, number: int) -> tuple[int, int]:
        """Returns the part of the run and the place in it, or refuses the number."""

    @abstractmethod
    def _part(self, part: int) -> tuple[MessageFormat, int]:
        """Returns the format and the length of a part."""

    @abstractmethod
    def _number(self, part: int, place: int) -> int:
        """Returns the number of a place."""

    @abstractmethod
    def _identity(self) -> Any:
        """Returns a frozen attrs object that is equal for servers that decode all messages alike."""

    def _index(self, number: int) -> int | None:
        """Returns the candidate that the message of this number must be about; None for any."""
        return None

    @property
    def _contexts(self) -> int:
        """The number of contexts."""
        return 1

    @property
    def heard(self) -> int:
        """The number of received messages."""
        return self._heard

    @property
    def closed(self) -> bool:
        """Whether all further messages are late and refused."""
        return self._closed

    def close(self) -> None:
        """Ends the run: later messages are refused."""
        self._closed = True

    def receive(self, data: bytes, *, context: int = 0) -> int:
        """Receives the bytes of a message, in any order, and returns its number. A refusal changes nothing.

        Args:
            data: The bytes.
            context: The context of the round, for learners with several.

        Raises:
            RefusedMessageError: malformed, of another run, out of range, received before, or late.
            InvalidArgumentError: an unknown context.
        """
        if self._closed:
            raise RefusedMessageError("the run is closed: the message is late")
        part, place = self._place(MessageFormat.number_in(data))
        form, length = self._part(part)
        number, message = form.read(data)
        integer("context", context, low=0, high=self._contexts - 1)
        if self._index(number) not in (None, message.index):
            raise RefusedMessageError("field 'index' is not what this number is asked about")
        if part in self._parts and self._parts[part].heard[place]:
            raise RefusedMessageError(f"the message of number {number} was received before")
        self._parts.setdefault(part, Recorded(form, length)).add(place, message, context)
        self._heard += 1
        return number

    def checkpoint(self) -> dict[str, Any]:
        """Returns the state as values for JSON, from which ``resume`` continues: the messages as they were sent."""
        every = list(self._every())
        body = {
            "messages": base64.b64encode(b"".join(data for data, _ in every)).decode(),
            "contexts": [context for _, context in every] if any(context for _, context in every) else [],
            "closed": self._closed,
        }
        return seal(body, kind=self._kind(), version=_VERSION, learner=self._identity(), simulated=False)

    @unchained()
    def resumed(self, checkpoint: dict[str, Any]) -> Self:
        """Receives the messages of a ``checkpoint`` on a new server of the same run, and returns the server.

        Raises:
            InvalidArgumentError: it is not a checkpoint, was changed, or belongs to another rule or run; or the server
                has received messages.
        """
        if self._heard or self._closed:
            raise InvalidArgumentError("server", self._heard, "has received messages", "resume a new server")
        body = unseal(checkpoint, kind=self._kind(), version=_VERSION, learner=self._identity(), simulated=False)
        try:
            data, closed = base64.b64decode(body["messages"], validate=True), boolean("closed", body["closed"])
            size = self._part(0)[0].size
            if len(data) % size:
                raise ValueError
            contexts = body["contexts"] or [0] * (len(data) // size)
            for k, context in zip(range(0, len(data), size), contexts, strict=True):
                self.receive(data[k : k + size], context=context)
        except (KeyError, TypeError, ValueError, RefusedMessageError, InvalidArgumentError):
            raise refused("lacks parts of a checkpoint") from None
        self._closed = closed
        return self

    def merge(self, other: Self) -> None:
        """Receives all messages of another server of the same run, which received other numbers.

        Raises:
            InvalidArgumentError: a server of another rule or run, or a number that both have received.
            RefusedMessageError: this server is closed.
        """
        if type(other) is not type(self) or other._identity() != self._identity():
            raise InvalidArgumentError("other", type(other).__name__, "is of another run", "merge shards of one run")
        for part, recorded in self._parts.items():
            if part in other._parts and (recorded.heard & other._parts[part].heard).any():
                raise InvalidArgumentError("other", "...", "has a number that this server has", "shards are disjoint")
        for data, context in list(other._every()):
            self.receive(data, context=context)

    def _every(self) -> Iterator[tuple[bytes, int]]:
        for part in sorted(self._parts):
            recorded, form = self._parts[part], self._part(part)[0]
            messages, contexts = recorded.messages()
            for k, place in enumerate(np.flatnonzero(recorded.heard).tolist()):
                yield form.write(self._number(part, place), messages.one(k)), int(contexts[k])

    @classmethod
    def _kind(cls) -> str:
        return f"checkpoint of a {cls.__name__}"


def check_complete(heard: int, expected: int, incomplete: object) -> None:
    """Raises an error if messages are missing and the caller does not accept that."""
    if heard < expected and not boolean("incomplete", incomplete):
        raise InvalidArgumentError(
            "heard", heard, f"is fewer than {expected} messages", "wait for them, or pass incomplete=True"
        )


@frozen
class RunIdentity:
    """The identity of a run: its rule, its number of batches or persons, and its name."""

    rule: str
    parts: int
    run: str
