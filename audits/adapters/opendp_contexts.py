"""Queries of OpenDP's contexts, on data frames or vectors, as targets; the claim is the map of the query's measurement.

A query is a plan without data. OpenDP resolves it into a measurement, which takes any data set of its domain: the audit
gives it both data sets of the pair. So nothing is charged to the context, and its own data are not read.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.errors import InvalidDataError
from hockeystick.accounting.interop.opendp import mapped
from hockeystick.accounting.validate import probability
from hockeystick.audits.adapters.adapted import Adapted, pair
from hockeystick.audits.adapters.opendp import claim_of, plain


def context_query(query: Any, *, neighbours: object, delta: float = 1e-6) -> Adapted:
    """Returns a query of an OpenDP ``Context`` as a target: one output is one release of it.

    The claim is the cost of the query, ``map(d_in)`` of its measurement at the context's privacy unit: a whole curve
    for zero-concentrated DP, stated at ``delta``. OpenDP has randomness of its own, so outputs can't be repeated.

    The audit tests what the context is told about a person, too. Give two data sets that differ in all records of one
    person: if the unit understates them, the claim is refuted.

    Args:
      query: a query before ``release()``: of a context on a polars frame (any plan that can be released), or on a
        vector. Or a function that makes a context for a data set and returns its query, if something in it comes from
        the data (bounds, keys, margins). It is called once for each data set, and the claim is the larger cost.
      neighbours: two data sets, polars frames (lazy or not) or vectors, that differ in one person.
      delta: the delta at which the verdict states epsilon of a curve.

    Raises:
      InvalidArgumentError: not a query of a context, one that can't be released, or not two data sets.
      InvalidDataError: a data set is outside the domain of the query, such as a frame with other columns.
      UnsupportedEventError: a measure without a curve, or two costs that can't be compared.

    Example:
      >>> import opendp.prelude as dp
      >>> import hockeystick as hs
      >>> dp.enable_features("contrib")
      >>> context = dp.Context.compositor(
      ...     data=[31, 34], privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(epsilon=1.0),
      ...     split_evenly_over=1,
      ... )
      >>> visits = context.query().count().laplace()
      >>> target = hs.audits.context_query(visits, neighbours=([31, 34], [31, 34, 97, 97, 97]))  # one person, thrice
      >>> target.claim().epsilon, hs.audit(target, samples=400, rng=1).outcome
      (1.0, 'refuted')
    """
    probability("delta", delta)
    data = pair(neighbours)
    if callable(query) and not is_query(query):
        made = _Made(query)
        found = [made(each) for each in data]
    else:
        found = [_resolved(query)] * 2
        made = _Made(lambda _: query)
    _check_members(found, data)
    largest = _larger(*(mapped(one.measurement, one.distance) for one in found))
    domain, measure = found[0].measurement.input_domain, found[0].measurement.output_measure
    name = f"opendp {importlib.metadata.version('opendp')} context, {domain} to {measure}"
    return Adapted(name, lambda value, rng: _release(made(value).measurement, value), claim_of(*largest, delta), data)


@frozen
class _Resolved:
    """A measurement, and the distance of neighbouring data sets in its input metric."""

    measurement: Any
    distance: Any


@frozen
class _Made:
    """Queries by data set, each resolved on its first use, which takes seconds."""

    query: Callable[[Any], Any]
    found: list[tuple[Any, _Resolved]] = field(factory=list, init=False)

    def __call__(self, data: Any) -> _Resolved:
        for own, resolved in self.found:
            if own is data:
                return resolved
        resolved = _resolved(self.query(data))
        self.found.append((data, resolved))
        return resolved


def _attributes(query: Any) -> dict[str, Any]:
    """Returns the query's own attributes; a query on a frame passes all others on to its plan."""
    try:
        found: dict[str, Any] = object.__getattribute__(query, "__dict__")
    except AttributeError:
        return {}
    return dict(getattr(found.get("_query"), "__dict__", found))


def _distance(query: Any) -> Any:
    return _attributes(query).get("_d_in")


def is_query(value: object) -> bool:
    """Returns whether a value is a query of an OpenDP context."""
    return _distance(value) is not None


def _resolved(query: Any) -> _Resolved:
    distance = _distance(query)
    if distance is None:
        remedy = "give context.query()... as it is before release(), or a function that returns it"
        raise InvalidArgumentError("query", query, "is not a query of an OpenDP context", remedy)
    try:
        return _Resolved(object.__getattribute__(query, "resolve")(), distance)
    except Exception as error:  # of OpenDP, or a ValueError; a query holds no data
        reason = f"can't be released ({' '.join(str(error).split())[:200]})"
        raise InvalidArgumentError("query", query, reason, "give one for which release() works") from None


def _lazy(data: Any) -> Any:
    """Returns an eager frame as a lazy one, and any other data unchanged."""
    return data.lazy() if type(data).__module__.startswith("polars.") and hasattr(data, "lazy") else data


def _check_members(found: list[_Resolved], data: tuple[Any, Any]) -> None:
    """Checks that data are of the query's domain; of frames, that both have the same columns, as OpenDP does not."""
    frames = [_lazy(each) for each in data]
    if all(hasattr(each, "collect_schema") for each in frames):
        same = frames[0].collect_schema() == frames[1].collect_schema()
        reason = "have different columns"
    else:
        same = all(_is_member(one.measurement, each) for one, each in zip(found, frames, strict=True))
        reason = f"are not both in the query's domain {found[0].measurement.input_domain}"
    if not same:
        raise InvalidDataError("neighbours", data, reason, "give two data sets of the context's form")


def _is_member(measurement: Any, data: Any) -> bool:
    try:
        return bool(measurement.input_domain.member(data))
    except Exception:  # its text may have values of the data
        return False


def _release(measurement: Any, data: Any) -> Any:
    released = measurement(_lazy(data))
    return released.collect() if hasattr(released, "collect") else plain(released)


def _larger(first: tuple[str, Any], second: tuple[str, Any]) -> tuple[str, Any]:
    """Returns the measure, and a cost that is at least both; a pair is compared number by number."""
    (measure, cost), (other, more) = first, second
    if measure != other:
        raise UnsupportedEventError(f"the query costs {measure} on one data set and {other} on the other")
    if isinstance(cost, tuple) and isinstance(more, tuple):
        return measure, tuple(np.maximum(cost, more).tolist())
    if isinstance(cost, (int, float)) and isinstance(more, (int, float)):
        return measure, max(cost, more)
    if cost is more:
        return measure, cost
    raise UnsupportedEventError(f"two costs in {measure} can't be compared: give one query for both data sets")
