"""diffprivlib's mechanisms as targets; the claim is their own epsilon and delta."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from hockeystick.accounting import ApproximateDP, InvalidArgumentError
from hockeystick.audits.adapters.adapted import Adapted, pair
from hockeystick.audits.claims.claim import Claim


def mechanism(target: Any, *, neighbours: object = None) -> Adapted:
    """Returns a diffprivlib mechanism, an object with ``randomise(value)``, as a target.

    The mechanism has its own source of randomness: the operating system, or its ``random_state``, which continues from
    run to run.

    Args:
      target: the mechanism, with ``epsilon`` and ``delta``.
      neighbours: two values whose distance is the sensitivity. Default: (0, sensitivity); (lower, lower + sensitivity)
        for a mechanism with bounds; the two labels of ``Binary``.

    Raises:
      InvalidArgumentError: the target has no ``randomise``, no sensitivity, or an infinite epsilon.
    """
    if not callable(getattr(target, "randomise", None)) or not hasattr(target, "epsilon"):
        raise InvalidArgumentError("target", target, "is not a mechanism with randomise(value)", "audit f(data, rng)")
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
