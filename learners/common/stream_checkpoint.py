"""Envelopes for the checkpoints of streams: ready for JSON, versioned, and bound to one learner.

A checkpoint of a private stream is as private as its data. It must hold no state of a generator and no coin to come;
its writer has to see to that. The envelope names the kind of checkpoint and has a checksum, which detects accidents. A
checksum is not a signature: sign the checkpoint where somebody may forge it.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from hockeystick.accounting import InvalidArgumentError

_OWN = ("format", "version", "learner", "simulated", "digest")


def seal(body: dict[str, Any], *, kind: str, version: int, learner: Any, simulated: bool) -> dict[str, Any]:
    """Returns ``body`` in an envelope, as a value for ``json.dumps``.

    Args:
        body: The state: strings, whole numbers, finite floats, and lists and dictionaries of them.
        kind: The kind of checkpoint, such as "checkpoint of a LazyStream".
        version: The version of the body's layout.
        learner: A frozen attrs object. Its fields that are compared must have the same ``repr`` in every process.
        simulated: Whether the noise so far was simulated.
    """
    head = {"format": kind, "version": version, "learner": _fingerprint(learner), "simulated": simulated}
    return head | body | {"digest": _digest(head | body)}


def unseal(checkpoint: object, *, kind: str, version: int, learner: Any, simulated: bool) -> dict[str, Any]:
    """Returns the body of an envelope that :func:`seal` made with the same arguments.

    Raises:
        InvalidArgumentError: the value is not such an envelope, was changed, has another version, belongs to another
            learner, or has noise of the other kind: a run is simulated from beginning to end, or not at all.
    """
    if not isinstance(checkpoint, dict) or checkpoint.get("format") != kind:
        raise refused(f"is not a {kind}", "give the value that checkpoint() returned")
    if checkpoint.get("version") != version:
        raise refused("has another version", f"this library reads version {version}")
    try:
        digest = _digest({key: value for key, value in checkpoint.items() if key != "digest"})
    except (TypeError, ValueError, RecursionError) as error:
        raise refused(f"is not a JSON value ({type(error).__name__})") from None
    if checkpoint.get("digest") != digest:
        raise refused("was changed after it was written: its digest does not match")
    if checkpoint.get("learner") != _fingerprint(learner):
        raise refused("belongs to a learner with other parameters", "resume it with the learner that wrote it")
    if checkpoint.get("simulated") is not simulated:
        kind_of_noise = "simulated" if checkpoint.get("simulated") else "secure"
        raise refused(f"was written with {kind_of_noise} noise", "resume it with noise of that kind")
    return {key: value for key, value in checkpoint.items() if key not in _OWN}


def refused(reason: str, advice: str = "use the checkpoint as it was written") -> InvalidArgumentError:
    """Returns an error about a checkpoint, without the checkpoint itself, which is private."""
    return InvalidArgumentError("checkpoint", "...", reason, advice)


@contextmanager
def reading_a_state() -> Iterator[None]:
    """Refuses a checkpoint whose body can't be read as a state of the learner."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise refused(f"does not hold a state of this learner ({type(error).__name__})") from None


def _fingerprint(learner: Any) -> str:
    fields = attrs.asdict(learner, recurse=False, filter=lambda attribute, _: bool(attribute.eq))
    return _digest({key: f"{type(value).__name__} {value!r}" for key, value in fields.items()})


def _digest(value: dict[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
