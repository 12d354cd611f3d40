"""diffprivlib's mechanisms as targets; the claim is the epsilon and delta that they were made with."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from hockeystick.accounting import ApproximateDP, InvalidArgumentError
from hockeystick.audits.adapters.adapted import Adapted, pair
from hockeystick.audits.claims.claim import Claim


def mechanism(target: Any, *, neighbours: object = None) -> Adapted:
    """Returns a diffprivlib mechanism, an object with ``randomise(value)``, as a target.

    Its randomness is its own: the operating system's, or that of the ``random_state`` it was made with, which then goes
    on from run to run.

    Args:
      target: the mechanism, with ``epsilon`` and ``delta``.
      neighbours: two values as far apart as its sensitivity. By default (0, sensitivity), or from its lower bound where
        it has bounds; the two labels of ``Binary``.

    Raises:
      InvalidArgumentError: it can't be called on a value, has no sensitivity, or claims an infinite epsilon.
    """
    if not callable(getattr(target, "randomise", None)) or not hasattr(target, "epsilon"):
        raise InvalidArgumentError("target", target, "is no mechanism with randomise(value)", "audit f(data, rng)")
    claim = Claim.curve(ApproximateDP(target.epsilon, target.delta), target.delta)
    name = f"diffprivlib {importlib.metadata.version('diffprivlib')} {type(target).__name__}"
    found = _canonical(target) if neighbours is None else pair(neighbours)
    return Adapted(name, lambda data, rng: target.randomise(data), claim, found)


def _canonical(target: Any) -> tuple[Any, Any]:
    if hasattr(target, "value0") and hasattr(target, "value1"):
        return target.value0, target.value1
    if hasattr(target, "utility"):
        reason = f"has no default for a {type(target).__name__}, which holds its data (the utilities) itself"
        remedy = "audit f(utility, rng), which makes one and calls it"
        raise InvalidArgumentError("neighbours", None, reason, remedy)
    sensitivity = getattr(target, "sensitivity", None)
    if sensitivity is None:
        reason = f"has no default for a {type(target).__name__}, which has no sensitivity"
        raise InvalidArgumentError("neighbours", None, reason, "give two neighbouring values")
    lower = getattr(target, "lower", None)
    if lower is None or lower == -float("inf"):
        return type(sensitivity)(0), sensitivity
    return lower, min(lower + sensitivity, target.upper)
