"""The format of a federated algorithm's requests and answers between machines.

A message is one flat record of whole numbers, texts, lists of them, and bytes. Values and answers are little-endian
64-bit floats; a reader unpickles nothing and allocates nothing on the sender's word. Every record names its version and
its kind. A reader takes exactly the fields of the kind, each of its type, and refuses anything else with a
:class:`WireError` that names the wrong field and never shows its content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.network.protocol import Request

T = TypeVar("T")
Record = dict[str, int | str | bytes | list[int] | list[float]]

VERSION = 1
REQUESTS, ANSWER, REFUSAL, SEAT, LETTER = "requests", "answer", "refusal", "seat", "letter"
_FLOATS = np.dtype("<f8")


class WireError(HockeystickError):
    """A message that is not in the format of this version."""


def requests_record(requests: Sequence[Request]) -> Record:
    """Returns requests to one client, oldest first, as a record.

    Raises:
        InvalidArgumentError: there is no request, or they are not numbered consecutively.
    """
    if not _consecutive([request.number for request in requests]):
        raise InvalidArgumentError("requests", len(requests), "are not consecutive", "give one run's, oldest first")
    return {
        "version": VERSION,
        "kind": REQUESTS,
        "first": requests[0].number,
        "sizes": [request.size for request in requests],
        "step lengths": [len(request.step) for request in requests],
        "steps": [each for request in requests for each in request.step],
        "value lengths": [request.values.size for request in requests],
        "values": _packed(np.concatenate([request.values for request in requests])),
        "ranges": _packed(np.array([(request.low, request.high) for request in requests]).ravel()),
    }


def read_requests(record: Mapping[str, object]) -> tuple[Request, ...]:
    """Returns the requests of a record of :func:`requests_record`; at least one, numbered consecutively.

    Raises:
        WireError: the record is malformed.
    """
    _check_kind(record, REQUESTS, "first", "sizes", "step lengths", "steps", "value lengths", "values", "ranges")
    first, sizes = _whole(record, "first"), _wholes(record, "sizes")
    steps = _cut(_integers(record, "steps"), _wholes(record, "step lengths"), len(sizes), "steps")
    values = _cut(_unpacked(record, "values").tolist(), _wholes(record, "value lengths"), len(sizes), "values")
    ranges = _cut(_unpacked(record, "ranges").tolist(), [2] * len(sizes), len(sizes), "ranges")
    if not sizes:
        raise WireError("field 'sizes' is empty")
    try:
        return tuple(
            Request(first + i, tuple(steps[i]), np.array(values[i], dtype=np.float64), size, *ranges[i])
            for i, size in enumerate(sizes)
        )
    except InvalidArgumentError as error:
        raise WireError(f"a request's {error.argument} is not valid") from None


def answer_record(number: int, answer: FloatArray) -> Record:
    """Returns a client's answer to request ``number``, shape (size,), as a record."""
    return {"version": VERSION, "kind": ANSWER, "number": number, "values": _packed(answer)}


def refusal_record() -> Record:
    """Returns the record of a client that does not answer. It gives no reason: a reason could depend on its losses."""
    return {"version": VERSION, "kind": REFUSAL}


def read_answer(record: Mapping[str, object], number: int) -> FloatArray | None:
    """Returns the answer to request ``number``, a vector of any size and content, or None for a refusal.

    Raises:
        WireError: the record is malformed, or answers another request.
    """
    if record.get("kind") == REFUSAL:
        _check_kind(record, REFUSAL)
        return None
    _check_kind(record, ANSWER, "number", "values")
    if _whole(record, "number") != number:
        raise WireError("field 'number' is not that of the request")
    return _unpacked(record, "values")


def letter_record(number: int, text: bytes) -> Record:
    """Returns message ``number`` = 1, 2, ... of a secure sum, to a client or from it, as a record."""
    return {"version": VERSION, "kind": LETTER, "number": number, "text": text}


def read_letter(record: Mapping[str, object]) -> tuple[int, bytes]:
    """Returns number and text of a :func:`letter_record`.

    Raises:
        WireError: the record is malformed.
    """
    _check_kind(record, LETTER, "number", "text")
    text = record["text"]
    if type(text) is not bytes:
        raise WireError("field 'text' is not bytes")
    return _whole(record, "number"), text


def seat_question() -> Record:
    """Returns the server's question for a node's client number."""
    return {"version": VERSION, "kind": SEAT}


def read_seat_question(record: Mapping[str, object]) -> None:
    """Checks that the record is a :func:`seat_question`.

    Raises:
        WireError: it is not.
    """
    _check_kind(record, SEAT)


def seat_record(partition: int) -> Record:
    """Returns a node's answer to a :func:`seat_question`."""
    return {"version": VERSION, "kind": SEAT, "partition": partition}


def read_seat(record: Mapping[str, object]) -> int:
    """Returns the client number of a :func:`seat_record`.

    Raises:
        WireError: the record is malformed.
    """
    _check_kind(record, SEAT, "partition")
    return _whole(record, "partition")


def _check_kind(record: Mapping[str, object], kind: str, *fields: str) -> None:
    version = record.get("version")
    if type(version) is not int or version != VERSION:
        raise WireError(f"field 'version' is not {VERSION}: server and clients need the same version of the format")
    if record.get("kind") != kind:
        raise WireError(f"field 'kind' is not '{kind}'")
    if set(record) != {"version", "kind", *fields}:
        raise WireError(f"the fields are not those of '{kind}'")


def _whole(record: Mapping[str, object], name: str) -> int:
    value = record[name]
    if type(value) is not int or value < 0:
        raise WireError(f"field '{name}' is not a whole number >= 0")
    return value


def _integers(record: Mapping[str, object], name: str) -> list[int]:
    value = record[name]
    if not isinstance(value, list) or any(type(each) is not int for each in value):
        raise WireError(f"field '{name}' is not a list of whole numbers")
    return value


def _wholes(record: Mapping[str, object], name: str) -> list[int]:
    value = _integers(record, name)
    if any(each < 0 for each in value):
        raise WireError(f"field '{name}' holds a negative number")
    return value


def _packed(values: npt.NDArray[np.float64]) -> bytes:
    return values.astype(_FLOATS).tobytes()


def _unpacked(record: Mapping[str, object], name: str) -> FloatArray:
    value = record[name]
    if type(value) is not bytes or len(value) % _FLOATS.itemsize:
        raise WireError(f"field '{name}' is not made of 64-bit floats")
    return np.frombuffer(value, dtype=_FLOATS).astype(np.float64)


def _cut(flat: list[T], lengths: list[int], pieces: int, name: str) -> list[list[T]]:
    """Cuts a flat list into lists of the given lengths."""
    if len(lengths) != pieces or sum(lengths) != len(flat):
        raise WireError(f"field '{name}' does not have the stated length")
    return [flat[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]


def _consecutive(numbers: Sequence[int]) -> bool:
    return bool(numbers) and list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))
