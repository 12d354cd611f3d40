"""Outside libraries' mechanisms as targets of an audit: one call for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits.adapters import diffprivlib, opendp, pydp
from hockeystick.audits.adapters.adapted import Adapted, AdaptedBatch

_LIBRARIES: dict[str, tuple[Callable[..., Adapted | AdaptedBatch], frozenset[str]]] = {
    "opendp": (opendp.measurement, frozenset({"distance", "delta", "coordinatewise"})),
    "diffprivlib": (diffprivlib.mechanism, frozenset()),
    "pydp": (pydp.algorithm, frozenset()),
}


def adapt(target: Any, *, neighbours: object = None, **options: Any) -> Adapted | AdaptedBatch:
    """Returns an outside library's mechanism as a target, with its claim and a pair of neighbouring data sets.

    Known are OpenDP measurements (:func:`hockeystick.audits.adapters.opendp.measurement`), diffprivlib mechanisms
    (:func:`hockeystick.audits.adapters.diffprivlib.mechanism`), and PyDP algorithms and mechanisms
    (:func:`hockeystick.audits.adapters.pydp.algorithm`). Training with Opacus is not one object: see
    :func:`hockeystick.audits.adapters.opacus.dp_sgd`. Nothing is imported that the target has not.

    Args:
      target: the object.
      neighbours: two data sets; by default the library's canonical pair, where there is one.
      options: of the library's own function.

    Raises:
      InvalidArgumentError: of no library known here, an unknown option, or what the library's own function refuses.
    """
    for base in type(target).__mro__:
        library = base.__module__.partition(".")[0]
        if library in _LIBRARIES:
            make, known = _LIBRARIES[library]
            if unknown := sorted(options.keys() - known):
                remedy = f"give {', '.join(sorted(known))}" if known else "it has none but neighbours"
                raise InvalidArgumentError(unknown[0], options[unknown[0]], f"is no option for {library}", remedy)
            return make(target, neighbours=neighbours, **options)
    remedy = "give an object with simulate(data, rng, runs), f(data, rng, runs) or f(data, rng) to the audit as it is"
    raise InvalidArgumentError("target", target, f"is of none of {', '.join(_LIBRARIES)}", remedy)
