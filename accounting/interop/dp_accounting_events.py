"""Translations between the events of ``dp_accounting`` ("native") and those of this library.

A native event states a mechanism and leaves the neighbouring relation to the accountant; ours are normalised per unit
of distance. The meaning of one record for a native event, under each relation:

| native event                | add-or-remove-one | replace-one            | replace-special |
|-----------------------------|-------------------|------------------------|-----------------|
| Gaussian, Laplace           | distance 1        | distance 2             | distance 1      |
| DiscreteLaplace             | its sensitivity   | –                      | its sensitivity |
| RandomizedResponse          | –                 | one input replaced     | –               |
| ZCDp (with xi = 0)          | as declared       | as declared            | as declared     |
| PoissonSampled              | PoissonSampled    | PoissonSampledReplace  | PoissonSampled  |
| SampledWithoutReplacement   | –                 | one record is replaced | –               |
| RandomAllocation (> 0.6)    | RandomAllocation  | –                      | RandomAllocation|
| MixtureOfGaussians          | as declared       | –                      | as declared     |
| TruncatedSubsampledGaussian | the larger size   | …PoissonSampledReplace | …SampledNull    |
| SingleEpochTreeAggregation  | –                 | –                      | as declared     |
| RepeatAndSelect             | as its event      | as its event           | as its event    |
| DiscreteGaussian (> 0.6)    | its sensitivity   | –                      | its sensitivity |
| EpsilonDelta, Exponential…, | as declared       | as declared            | as declared     |
| PermuteAndFlip (> 0.6)      |                   |                        |                 |
| NoOp, NonPrivate, our own   | as they are       | as they are            | as they are     |

Native Gaussian and Laplace noise is for a value whose norm is at most 1 per record, so that replacing a record moves it
by 2. Here dp-accounting's RDP accountant takes 1, also in a sample without replacement, and its PLD accountant takes 2.
An event inside a Poisson sample is always for a record added to the sample.

Events that versions after 0.6 have are known by their names, and written where the installed version has them. Two are
not written where dp-accounting would charge too little. Its RDP accountant charges the exponential mechanism once in a
``SelfComposedDpEvent``, whatever its count, so bounded range is never written; and it charges samples of discrete
Gaussian noise as samples of Gaussian noise, for which there is no proof, so that they stay events of this library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import dp_accounting
from dp_accounting import NeighboringRelation, dp_event

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import HockeystickError, UnsupportedEventError
from hockeystick.accounting.events.answers.best_of_repeats import RepeatAndSelect
from hockeystick.accounting.events.answers.randomized_response import RandomizedResponse
from hockeystick.accounting.events.answers.selection import BoundedRange, PermuteAndFlip
from hockeystick.accounting.events.basic.composition import Composed, compose
from hockeystick.accounting.events.basic.declared import ZCDP, ApproximateDP, NonPrivate, PureDP
from hockeystick.accounting.events.basic.event import NO_EVENT, NoEvent, PrivacyEvent
from hockeystick.accounting.events.noise.correlated_noise import tree_aggregation
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian, Laplace
from hockeystick.accounting.events.noise.gaussian_mixture import MixtureOfGaussians
from hockeystick.accounting.events.noise.integer_noise import DiscreteGaussian, DiscreteLaplace
from hockeystick.accounting.events.sampling.allocation import RandomAllocation
from hockeystick.accounting.events.sampling.poisson import PoissonSampled
from hockeystick.accounting.events.sampling.replace_one import PoissonSampledReplace, SampledWithoutReplacement
from hockeystick.accounting.events.sampling.truncated_poisson import (
    TruncatedPoissonSampled,
    TruncatedPoissonSampledNull,
    TruncatedPoissonSampledReplace,
)
from hockeystick.accounting.numerics.directed_rounding import quotient_up

ADJACENCY = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: Adjacency.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE: Adjacency.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL: Adjacency.REPLACE_WITH_NULL,
}
"""The relations of this library, by the native ones."""


# Not in every version:
_ALLOCATION, _DISCRETE_GAUSSIAN = "RandomAllocationDpEvent", "DiscreteGaussianDpEvent"
_EPSILON_DELTA, _EXPONENTIAL, _PERMUTE = "EpsilonDeltaDpEvent", "ExponentialMechanismDpEvent", "PermuteAndFlipDpEvent"

DECLARED = frozenset({_EPSILON_DELTA, _EXPONENTIAL, _PERMUTE})
"""Names of native events that state a cost under one relation, and not which."""


class Refusal(Exception):
    """The reason why an event, or a part of it, can't be translated."""

    def __init__(self, event: object, reason: str) -> None:
        super().__init__(event, reason)
        self.event, self.reason = event, reason


def from_dp_event(
    event: dp_accounting.DpEvent, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
) -> PrivacyEvent:
    """Returns the event of a native tree, which may also hold events of this library, under ``relation``.

    Raises:
      UnsupportedEventError: a subevent is unknown or has no meaning under the relation, or a parameter is out of range.

    Example:
      >>> import dp_accounting
      >>> from hockeystick.accounting import from_dp_event
      >>> native = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(2.0))
      >>> from_dp_event(native)
      PoissonSampled(probability=0.1, event=Gaussian(noise_multiplier=2.0), direction='both')
      >>> from_dp_event(native, dp_accounting.NeighboringRelation.REPLACE_ONE)
      PoissonSampledReplace(probability=0.1, event=Gaussian(noise_multiplier=2.0), group=1)
    """
    try:
        return translate(event, relation)
    except Refusal as refusal:
        raise UnsupportedEventError(f"{refusal.event}: {refusal.reason}") from None


def translate(event: object, relation: NeighboringRelation) -> PrivacyEvent:
    """Returns the same as ``from_dp_event``, or raises a ``Refusal``, which holds the offending subevent."""
    try:
        return _translate(event, relation)
    except HockeystickError as error:
        raise Refusal(event, str(error)) from None


def _translate(event: object, relation: NeighboringRelation) -> PrivacyEvent:
    for kind in type(event).__mro__:
        if kind in _TRANSLATORS:
            return _TRANSLATORS[kind](event, relation)
    if isinstance(event, dp_accounting.DpEvent) and type(event).__name__ in _NEWER:
        return _NEWER[type(event).__name__](event, relation)
    raise Refusal(event, "is not a supported event type")


# --- one function for each native event -------------------------------------------------------------------------------


def _ours(event: PrivacyEvent, relation: NeighboringRelation) -> PrivacyEvent:
    if not event.accepts(ADJACENCY[relation]):
        raise Refusal(event, f"has no meaning under {relation}")
    return event


def _composed(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    return compose(*(translate(inner, relation) for inner in event.events))


def _self_composed(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    return compose((translate(event.event, relation), validate.integer("count", event.count, low=0)))


def _noise(kind: type[Gaussian] | type[Laplace], noise: object, relation: NeighboringRelation) -> PrivacyEvent:
    multiplier = validate.real("noise_multiplier", noise, low=0.0)
    if multiplier == 0.0:
        return NonPrivate()
    return kind(multiplier).at(2.0 if relation is NeighboringRelation.REPLACE_ONE else 1.0)


def _discrete_laplace(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    if relation is NeighboringRelation.REPLACE_ONE:
        raise Refusal(event, "its sensitivity is meant for adding or removing a record")
    per_unit = validate.real("noise_parameter", event.noise_parameter, low=0.0, low_open=True)
    return DiscreteLaplace(1.0 / per_unit).at(validate.integer("sensitivity", event.sensitivity, low=1))


def _randomized_response(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    _require(event, relation, NeighboringRelation.REPLACE_ONE)
    r = validate.probability("noise_parameter", event.noise_parameter)
    k = validate.integer("num_buckets", event.num_buckets, low=1)
    if k == 1 or r == 1.0:
        return NO_EVENT
    if r == 0.0:
        return NonPrivate()
    return RandomizedResponse(math.log1p((1 - r) * k / r), k)


def _poisson(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    q = validate.probability("sampling_probability", event.sampling_probability)
    replaced = relation is NeighboringRelation.REPLACE_ONE
    inner = translate(event.event, NeighboringRelation.ADD_OR_REMOVE_ONE if replaced else relation)
    if q == 0.0 or inner == NO_EVENT:
        return NO_EVENT
    return PoissonSampledReplace(q, inner) if replaced else PoissonSampled(q, inner)


def _without_replacement(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    _require(event, relation, NeighboringRelation.REPLACE_ONE)
    return SampledWithoutReplacement(event.source_dataset_size, event.sample_size, translate(event.event, relation))


def _allocation(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    if relation is NeighboringRelation.REPLACE_ONE:
        raise Refusal(event, "is meant for adding or removing a record")
    return RandomAllocation(event.num_steps, event.num_selected, translate(event.event, relation))


def _discrete_gaussian(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    if relation is NeighboringRelation.REPLACE_ONE:
        raise Refusal(event, "its sensitivity is meant for adding or removing a record")
    distance = validate.real("sensitivity", event.sensitivity, low=0.0)
    if validate.real("sigma", event.sigma, low=0.0) == 0.0:
        return NonPrivate() if distance else NO_EVENT
    return DiscreteGaussian(event.sigma, coordinates=event.dimension).at(distance)


def _epsilon_delta(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    return ApproximateDP(event.epsilon, event.delta) if event.delta else PureDP(event.epsilon)


def _selected(kind: type[BoundedRange] | type[PermuteAndFlip], event: Any) -> PrivacyEvent:
    epsilon = validate.real("epsilon", event.epsilon, low=0.0)
    return kind(epsilon) if epsilon else NO_EVENT


def _mixture(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    if relation is NeighboringRelation.REPLACE_ONE:
        raise Refusal(event, "is meant for adding or removing a record")
    deviation = validate.real("standard_deviation", event.standard_deviation, low=0.0)
    sizes = validate.array("sensitivities", event.sensitivities, ndim=1, low=0.0)
    if not sizes.any():
        return NO_EVENT
    if deviation == 0.0:
        return NonPrivate()
    return MixtureOfGaussians(tuple(sizes), event.sampling_probs, deviation)


def _truncated(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    n = validate.integer("dataset_size", event.dataset_size, low=0)
    b = validate.integer("truncated_batch_size", event.truncated_batch_size, low=0)
    q = validate.probability("sampling_probability", event.sampling_probability)
    if q == 0.0 or not n or not b:
        return NO_EVENT
    multiplier = validate.real("noise_multiplier", event.noise_multiplier, low=0.0)
    return _TRUNCATED[relation](n, q, b, multiplier) if multiplier else NonPrivate()


_TRUNCATED = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: TruncatedPoissonSampled,
    NeighboringRelation.REPLACE_ONE: TruncatedPoissonSampledReplace,
    NeighboringRelation.REPLACE_SPECIAL: TruncatedPoissonSampledNull,
}


def _repeat_and_select(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    return RepeatAndSelect(translate(event.event, relation), mean=event.mean, shape=event.shape)


def _tree_aggregation(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    _require(event, relation, NeighboringRelation.REPLACE_SPECIAL)
    return tree_aggregation(event.step_counts, noise_multiplier=event.noise_multiplier)


def _zcdp(event: Any, relation: NeighboringRelation) -> PrivacyEvent:
    if validate.real("xi", event.xi, low=0.0) != 0.0:
        raise Refusal(event, "xi > 0 is not supported")
    return ZCDP(event.rho)


def _require(event: object, relation: NeighboringRelation, only: NeighboringRelation) -> None:
    if relation is not only:
        raise Refusal(event, f"has a meaning only under {only.name}")


_TRANSLATORS: Mapping[type, Callable[[Any, NeighboringRelation], PrivacyEvent]] = {
    PrivacyEvent: _ours,
    dp_accounting.NoOpDpEvent: lambda event, relation: NO_EVENT,
    dp_accounting.NonPrivateDpEvent: lambda event, relation: NonPrivate(),
    dp_accounting.ComposedDpEvent: _composed,
    dp_accounting.SelfComposedDpEvent: _self_composed,
    dp_accounting.GaussianDpEvent: lambda event, relation: _noise(Gaussian, event.noise_multiplier, relation),
    dp_accounting.LaplaceDpEvent: lambda event, relation: _noise(Laplace, event.noise_multiplier, relation),
    dp_event.DiscreteLaplaceDpEvent: _discrete_laplace,
    dp_accounting.RandomizedResponseDpEvent: _randomized_response,
    dp_accounting.PoissonSampledDpEvent: _poisson,
    dp_accounting.SampledWithoutReplacementDpEvent: _without_replacement,
    dp_event.MixtureOfGaussiansDpEvent: _mixture,
    dp_accounting.TruncatedSubsampledGaussianDpEvent: _truncated,
    dp_event.RepeatAndSelectDpEvent: _repeat_and_select,
    dp_accounting.SingleEpochTreeAggregationDpEvent: _tree_aggregation,
    dp_accounting.ZCDpEvent: _zcdp,
}

_NEWER: Mapping[str, Callable[[Any, NeighboringRelation], PrivacyEvent]] = {
    _ALLOCATION: _allocation,
    _DISCRETE_GAUSSIAN: _discrete_gaussian,
    _EPSILON_DELTA: _epsilon_delta,
    _EXPONENTIAL: lambda event, relation: _selected(BoundedRange, event),
    _PERMUTE: lambda event, relation: _selected(PermuteAndFlip, event),
}


# --- the other way ---------------------------------------------------------------------------------------------------


def to_dp_event(event: PrivacyEvent, *, strict: bool = False) -> dp_accounting.DpEvent:
    """Returns the native tree of ``event``, for add-or-remove-one.

    Leaves without a native form remain events of this library; accountants of dp-accounting refuse such a tree. Among
    these are randomised response and samples without replacement, whose native forms have no meaning under
    add-or-remove-one, and discrete noise at a distance that is not an integer.

    Args:
      event: to be translated.
      strict: whether to refuse an event with such leaves.

    Raises:
      UnsupportedEventError: ``strict``, and there are leaves without a native form; it names them.

    Example:
      >>> from hockeystick.accounting import Gaussian, compose, to_dp_event
      >>> to_dp_event(compose((Gaussian(2.0), 10)))
      SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=2.0), count=10)
    """
    native = _native(event)
    if strict and (foreign := _foreign(native)):
        named = ", ".join(sorted({type(one).__name__ for one in foreign}))
        raise UnsupportedEventError(
            f"{named}: no native form has the same meaning; use hs.Accountant, which takes the event itself"
        )
    return native


def _foreign(native: dp_accounting.DpEvent) -> list[PrivacyEvent]:
    """Returns the events of this library in a native tree."""
    match native:
        case PrivacyEvent():
            return [native]
        case dp_accounting.ComposedDpEvent(events=events):
            return [one for inner in events for one in _foreign(inner)]
        case dp_accounting.SelfComposedDpEvent(event=inner) | dp_accounting.PoissonSampledDpEvent(event=inner):
            return _foreign(inner)
    return []


def _holds(event: PrivacyEvent, kind: type[PrivacyEvent]) -> bool:
    return isinstance(event, kind) or any(_holds(inner, kind) for inner in event.children())


def _native(event: PrivacyEvent) -> dp_accounting.DpEvent:
    newer = getattr(dp_event, _DISCRETE_GAUSSIAN, None)
    match event:
        case Gaussian():
            return dp_accounting.GaussianDpEvent(event.noise_multiplier)
        case Laplace():
            return dp_accounting.LaplaceDpEvent(event.noise_multiplier)
        case ZCDP():
            return dp_accounting.ZCDpEvent(event.rho)
        case DiscreteLaplace() if event.distance.is_integer():
            return dp_event.DiscreteLaplaceDpEvent(quotient_up(1.0, event.scale), int(event.distance))
        case NonPrivate():
            return dp_accounting.NonPrivateDpEvent()
        case NoEvent():
            return dp_accounting.NoOpDpEvent()
        case PoissonSampled(direction="both") if not (newer and _holds(event.event, DiscreteGaussian)):
            return dp_accounting.PoissonSampledDpEvent(event.probability, _native(event.event))
        case RandomAllocation(direction="both", event=Gaussian()) if kind := getattr(dp_event, _ALLOCATION, None):
            return kind(event=_native(event.event), num_selected=event.chosen, num_steps=event.steps)
        case DiscreteGaussian() if newer:
            return newer(sigma=event.sigma, sensitivity=event.distance, dimension=event.coordinates)
        case PureDP() | ApproximateDP() if kind := getattr(dp_event, _EPSILON_DELTA, None):
            return kind(epsilon=event.epsilon, delta=event.failure_delta())
        case PermuteAndFlip() if kind := getattr(dp_event, _PERMUTE, None):
            return kind(epsilon=event.epsilon)
        case MixtureOfGaussians(direction="both"):
            return dp_event.MixtureOfGaussiansDpEvent(event.noise_multiplier, event.sensitivities, event.probabilities)
        case TruncatedPoissonSampled(direction="both"):
            return dp_accounting.TruncatedSubsampledGaussianDpEvent(
                event.population, event.probability, event.batch, event.noise_multiplier
            )
        case Composed():
            native = [
                _native(inner) if count == 1 else dp_accounting.SelfComposedDpEvent(_native(inner), count)
                for inner, count in event.parts
            ]
            return native[0] if len(native) == 1 else dp_accounting.ComposedDpEvent(native)
        case _:
            return event
