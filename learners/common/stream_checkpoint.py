"""Envelopes for the checkpoints of streams: JSON-able, versioned, bound to one learner, and refused when changed.

A checkpoint of a private stream is as private as its data. It must hold no state of a generator and no coin to come;
that is the business of whoever fills it. The envelope says what it is a checkpoint of, and has a checksum, which is
good against accidents; against forgers, sign it.
"""

import hashlib
import json
from typing import Any

import attrs

from hockeystick.accounting import InvalidArgumentError

_OWN = ("format", "version", "learner", "simulated", "digest")


def seal(body: dict[str, Any], *, kind: str, version: int, learner: Any, simulated: bool) -> dict[str, Any]:
    """``body`` in an envelope, as a value for ``json.dumps``.

    Args:
        body: What to keep: strings, whole numbers, finite floats, and lists and dictionaries of them.
        kind: What it is a checkpoint of.
        version: Of the body's layout.
        learner: A frozen attrs object, whose fields have one and the same ``repr`` in every process.
        simulated: Whether the noise so far was simulated.
    """
    head = {"format": kind, "version": version, "learner": _fingerprint(learner), "simulated": simulated}
    return head | body | {"digest": _digest(head | body)}


def unseal(checkpoint: object, *, kind: str, version: int, learner: Any, simulated: bool) -> dict[str, Any]:
    """The body of an envelope that :func:`seal` made with these very arguments.

    Raises:
        InvalidArgumentError: it is none, was changed, is of another version or another learner, or its noise is of the
            other kind: a run is simulated from end to end, or not at all.
    """
    if not isinstance(checkpoint, dict) or checkpoint.get("format") != kind:
        raise refused(f"is no {kind}", "give what checkpoint() has returned")
    if checkpoint.get("version") != version:
        raise refused("is of another version", f"this library reads version {version}")
    try:
        digest = _digest({key: value for key, value in checkpoint.items() if key != "digest"})
    except (TypeError, ValueError, RecursionError) as error:
        raise refused(f"is no JSON value ({type(error).__name__})") from None
    if checkpoint.get("digest") != digest:
        raise refused("was changed since it was written: its digest does not fit")
    if checkpoint.get("learner") != _fingerprint(learner):
        raise refused("is of a learner with other parameters", "resume it with the learner that wrote it")
    if checkpoint.get("simulated") is not simulated:
        kind_of_noise = "simulated" if checkpoint.get("simulated") else "secure"
        raise refused(f"was written with {kind_of_noise} noise", "go on with that kind")
    return {key: value for key, value in checkpoint.items() if key not in _OWN}


def refused(reason: str, advice: str = "use the checkpoint as it was written") -> InvalidArgumentError:
    """An error about a checkpoint, which does not show it: it is private."""
    return InvalidArgumentError("checkpoint", "...", reason, advice)


def _fingerprint(learner: Any) -> str:
    fields = attrs.asdict(learner, recurse=False)
    return _digest({key: f"{type(value).__name__} {value!r}" for key, value in fields.items()})


def _digest(value: dict[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
