"""PyDP (package ``python-dp``, Google's C++ library) as targets: bounded sums, means, counts, and its mechanisms."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from hockeystick.accounting import ApproximateDP, InvalidArgumentError
from hockeystick.audits.adapters.adapted import Adapted, pair
from hockeystick.audits.claims.claim import Claim


def algorithm(target: Any, *, neighbours: object = None) -> Adapted:
    """Returns a PyDP algorithm (``quick_result``) or mechanism (``add_noise``) as a target.

    The claim is the target's own epsilon and delta. Its outputs can't be repeated.

    Args:
      target: a ``BoundedSum``, ``BoundedMean``, ``Count``, ..., or a ``LaplaceMechanism`` or ``GaussianMechanism``.
      neighbours: two lists, one of which has one more entry, or two numbers whose distance is the mechanism's
        sensitivity. Default: ([1], [1, 1]) for a count and (0, sensitivity) for a mechanism. Other algorithms do not
        expose their bounds, so give the two lists, such as ([1.0], [1.0, 1.0]) for bounds [0, 1].

    Raises:
      InvalidArgumentError: the target is neither an algorithm nor a mechanism, or has no default neighbours.
    """
    name = f"python-dp {importlib.metadata.version('python-dp')} {type(target).__name__}"
    delta = float(getattr(target, "delta", 0.0))
    claim = Claim.curve(ApproximateDP(target.epsilon, delta), delta)
    if callable(getattr(target, "add_noise", None)):
        reach = getattr(target, "sensitivity", None) or getattr(target, "l2_sensitivity", None)
        found = (0.0, reach) if neighbours is None else pair(neighbours)
        return Adapted(name, lambda data, rng: target.add_noise(data), claim, found)
    if not callable(getattr(target, "quick_result", None)):
        reason = "has neither quick_result nor add_noise"
        raise InvalidArgumentError("target", target, reason, "audit f(data, rng) that calls it")
    if neighbours is None and type(target).__name__ != "Count":
        reason = f"has no default for a {type(target).__name__}, which does not expose its bounds"
        raise InvalidArgumentError("neighbours", None, reason, "give two lists, one with one entry more at a bound")
    found = ([1], [1, 1]) if neighbours is None else pair(neighbours)
    return Adapted(name, lambda data, rng: target.quick_result(list(data)), claim, found)
