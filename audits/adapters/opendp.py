"""OpenDP measurements as targets; the claim is the measurement's own map at the distance of the neighbours."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick.accounting import ApproximateDP, InvalidArgumentError, PureDP
from hockeystick.accounting.interop.opendp import event_of, mapped
from hockeystick.accounting.validate import probability
from hockeystick.audits.adapters.adapted import Adapted, AdaptedBatch, pair
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.targets.calling import TargetError


def measurement(
    target: Any,
    *,
    neighbours: object = None,
    distance: object = 1,
    delta: float = 1e-6,
    coordinatewise: bool = False,
) -> Adapted | AdaptedBatch:
    """Returns an OpenDP ``Measurement`` as a target.

    The claim is ``target.map(distance)``: pure, zero-concentrated, Rényi or approximate DP, or a profile. It is a whole
    curve, stated at ``delta`` (pure DP at 0, approximate DP at its own delta). OpenDP takes its randomness from the
    operating system, so outputs can't be repeated.

    Args:
      target: a measurement of OpenDP 0.6 or newer.
      neighbours: two values of the input domain within ``distance`` of each other in the input metric; the distance is
        not checked. Default: (0, distance) for a number under the absolute distance, and (False, True) for a bool under
        the discrete distance. With ``coordinatewise``, two values of one coordinate.
      distance: distance in the input metric, in the type of ``map``'s argument.
      delta: the delta at which the verdict states epsilon of a curve.
      coordinatewise: whether to make many runs in one call: the input is a vector of copies of one value, and each
        coordinate of the output counts as a run. This is valid only if the measurement treats coordinates independently
        and alike, as Laplace and Gaussian noise on vectors do. This is not checked, and otherwise the audit is void.

    Raises:
      InvalidArgumentError: there are no canonical neighbours, the neighbours are outside the domain, or the map refuses
        the distance.
      UnsupportedEventError: the measure has no curve.
    """
    claim = claim_of(*mapped(target, distance), probability("delta", delta))
    domain = target.input_domain
    found = _canonical(target, distance, coordinatewise) if neighbours is None else pair(neighbours)
    for value in found:
        _check_member(domain, value, coordinatewise)
    name = f"opendp {importlib.metadata.version('opendp')}, {domain} to {target.output_measure}"
    if coordinatewise:
        return AdaptedBatch(name, lambda data, rng, runs: _coordinates(target, data, runs), claim, found)
    return Adapted(name, lambda data, rng: plain(target(data)), claim, found)


def _coordinates(target: Any, value: Any, runs: int) -> Any:
    outputs = np.asarray(target([value] * runs))
    if outputs.shape != (runs,):
        raise TargetError(f"target returned shape {outputs.shape} for {runs} coordinates: give coordinatewise=False")
    return outputs


def plain(output: Any) -> Any:
    """Returns a vector of numbers as an array, which is faster to read; any other output unchanged."""
    if isinstance(output, list) and output and len({type(x) for x in output}) == 1 and type(output[0]) in (int, float):
        return np.array(output)
    return output


def _canonical(target: Any, distance: Any, coordinatewise: bool) -> tuple[Any, Any]:
    domain, metric = str(target.input_domain), str(target.input_metric)
    if domain.startswith("AtomDomain(T=bool)") and metric.startswith("DiscreteDistance"):
        return False, True
    scalar = domain.startswith("AtomDomain(") and metric.startswith("AbsoluteDistance")
    vector = domain.startswith("VectorDomain(AtomDomain(") and metric.startswith(("L1Distance", "L2Distance"))
    if scalar or (coordinatewise and vector):
        return type(distance)(0), distance
    remedy = "give two values of the domain that are that far apart"
    raise InvalidArgumentError("neighbours", None, f"has no default for {domain} under {metric}", remedy)


def _check_member(domain: Any, value: Any, coordinatewise: bool) -> None:
    try:
        if all(domain.member([value] * size) for size in (3, 4)) if coordinatewise else domain.member(value):
            return
        reason = f"is not in the measurement's domain {domain}"
    except Exception as error:  # OpenDP raises several errors for a value of another type
        reason = f"can't be read as a value of {domain} ({' '.join(str(error).split())[:120]})"
    remedy = "coordinatewise needs vectors of any size" if coordinatewise else "give two values of the domain"
    raise InvalidArgumentError("neighbours", value, reason, remedy)


@frozen
class _Profile:
    """OpenDP's privacy profile, in the form that :meth:`Claim.curve` reads."""

    profile: Any

    def epsilon(self, delta: float) -> float:
        return float(self.profile.epsilon(delta))

    def delta(self, epsilon: float) -> float:
        return float(self.profile.delta(epsilon))


def claim_of(measure: str, cost: Any, delta: float) -> Claim:
    """Returns the claim that a cost in a measure makes.

    Raises:
      UnsupportedEventError: the measure has no curve.
    """
    if measure.startswith("SmoothedMaxDivergence"):
        return Claim.curve(_Profile(cost), delta)  # the whole curve; an event would have some of its points
    event = event_of(measure, cost)
    match event:
        case PureDP():
            return Claim.curve(event, 0.0)
        case ApproximateDP():
            return Claim.curve(event, event.delta)
    return Claim.curve(event, max(delta, 2 * event.failure_delta()))
