"""One function that makes a target of any known library's mechanism."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits.adapters import diffprivlib, opendp, pydp
from hockeystick.audits.adapters.adapted import Adapted, AdaptedBatch
from hockeystick.audits.adapters.opendp_contexts import context_query, is_query

_LIBRARIES: dict[str, tuple[Callable[..., Adapted | AdaptedBatch], frozenset[str]]] = {
    "opendp": (opendp.measurement, frozenset({"distance", "delta", "coordinatewise"})),
    "diffprivlib": (diffprivlib.mechanism, frozenset()),
    "pydp": (pydp.algorithm, frozenset()),
}


def adapt(target: Any, *, neighbours: object = None, **options: Any) -> Adapted | AdaptedBatch:
    """Returns another library's mechanism as a target, with its claim and a pair of neighbouring data sets.

    The known libraries are OpenDP (:func:`hockeystick.audits.adapters.opendp.measurement`; for a query of a context,
    :func:`hockeystick.audits.adapters.opendp_contexts.context_query`), diffprivlib
    (:func:`hockeystick.audits.adapters.diffprivlib.mechanism`) and PyDP
    (:func:`hockeystick.audits.adapters.pydp.algorithm`). Training with Opacus is not a single object: see
    :func:`hockeystick.audits.adapters.opacus.dp_sgd`. No library is imported that the target does not use.

    Args:
      target: the mechanism.
      neighbours: two data sets; default: the library's canonical pair, if there is one.
      options: options of the function for the library.

    Raises:
      InvalidArgumentError: the library or an option is unknown, or the function for the library raises it.

    Example:
      >>> import hockeystick as hs
      >>> try:
      ...     hs.audits.adapt(sum)
      ... except hs.accounting.InvalidArgumentError as error:
      ...     print(error.reason)
      is of none of opendp, diffprivlib, pydp
    """
    for base in type(target).__mro__:
        library = base.__module__.partition(".")[0]
        if library in _LIBRARIES:
            make, known = _LIBRARIES[library]
            if library == "opendp" and is_query(target):
                make, known = context_query, frozenset({"delta"})
            if unknown := sorted(options.keys() - known):
                remedy = f"give {', '.join(sorted(known))}" if known else "it has none but neighbours"
                raise InvalidArgumentError(unknown[0], options[unknown[0]], f"is not an option of {library}", remedy)
            return make(target, neighbours=neighbours, **options)
    remedy = "give an object with simulate(data, rng, runs), f(data, rng, runs) or f(data, rng) to the audit as it is"
    raise InvalidArgumentError("target", target, f"is of none of {', '.join(_LIBRARIES)}", remedy)
