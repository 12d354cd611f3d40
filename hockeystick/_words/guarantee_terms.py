"""The terms of a guarantee in words: the sensitivity of each release, and the sampling.

An ε means nothing without its neighbouring relation and its unit: replacing a record moves a sum of clipped values
twice as far as adding it, and samples of fixed size need replace-one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    Assignment,
    Chain,
    Guarantee,
    InputMix,
    MixtureOfGaussians,
    PoissonSampled,
    PoissonSampledReplace,
    PrivacyEvent,
    RandomAllocation,
    RecordByRecord,
    SampledWithoutReplacement,
    Shuffled,
    ShuffledBatches,
    ThresholdedCounts,
    TruncatedPoissonSampled,
)
from hockeystick.accounting.numerics.rounded_text import upper

NO_SAMPLING = "no sampling"
RECORD = {
    Adjacency.ADD_OR_REMOVE_ONE: "one record added or removed",
    Adjacency.REPLACE_ONE: "one replaced record",
    Adjacency.REPLACE_WITH_NULL: "one record replaced by null",
    Adjacency.LOCAL: "another value of one input",
}
"""The change between two neighbouring data sets."""

_UNITS = {"l1": "in L1", "l2": "in L2", "linf": "in L∞"}
_SAMPLES = (PoissonSampled, PoissonSampledReplace, RandomAllocation, SampledWithoutReplacement, TruncatedPoissonSampled)
_MOST_NAMES = 3

Shift = tuple[float, str, bool]  # distance, norm, and whether it is within a sample
Shifts = tuple[Shift, ...]
Value = TypeVar("Value", bound=Hashable)


def terms(guarantee: Guarantee) -> dict[str, str]:
    """Returns ``unit`` and ``sampling`` of a graph's guarantee in words; nothing for a guarantee without its graph."""
    graph = guarantee.graph
    if not isinstance(graph, AccountantGraph):
        return {}
    readings = [(release, distance) for release, distance in graph.readings(view=guarantee.view) if distance]
    moved = _by_value((release.name, _moved(release.event, distance)) for release, distance in readings)
    drawn = _by_value((release.name, tuple(dict.fromkeys(_samples(release.event)))) for release, _ in readings)
    distances = ", ".join(f"{_listed(names)} by at most {_amounts(shifts)}" for shifts, names in moved.items())
    unit = f"{RECORD[graph.adjacency]} moves {distances or 'nothing that is released'}"
    if guarantee.adjacency is not graph.adjacency:
        unit += "; a replaced record counts as one removed and one added"
    return {"unit": unit, "sampling": _sampling(drawn)}


def about(result: Mapping[str, Any]) -> str:
    """Returns one line with the terms of a result's ε; empty for results of versions without it."""
    if "unit" not in result:
        return ""
    group = f", groups of {result['group']}" if result["group"] != 1 else ""
    return f"{result['adjacency']}{group}: {result['unit']}; {result['sampling']}"


def _moved(event: PrivacyEvent, distance: float) -> Shifts:
    return tuple(dict.fromkeys(_shifts(event, distance, False)))


def _shifts(event: PrivacyEvent, distance: float, sampled: bool) -> Iterator[Shift]:
    """Yields the distance by which each part of the event is moved; discrete noise has a distance of its own."""
    if isinstance(event, _SAMPLES):  # the events inside are per sampled record
        sampled, distance = True, 2.0 if isinstance(event, PoissonSampledReplace) else 1.0
    elif isinstance(event, Chain):
        distance *= event.length
    if isinstance(event, TruncatedPoissonSampled):  # its children are bounds on it
        yield 1.0, "l2", True
    elif isinstance(event, ThresholdedCounts):  # its child is the noise of one of a person's counts
        yield distance, event.norm, sampled
    elif children := event.children():
        for child in children:
            yield from _shifts(child, distance, sampled)
    else:
        yield distance * float(getattr(event, "distance", 1.0)), event.norm, sampled


def _samples(event: PrivacyEvent) -> Iterator[str]:
    """Yields the secret samples that the event reads, outermost first; nothing if it reads all records."""
    match event:
        case PoissonSampled() | PoissonSampledReplace():
            yield f"Poisson samples, each record with probability {event.probability!r}"
        case SampledWithoutReplacement():
            yield f"samples of {event.sample} out of {event.population} records, without replacement"
        case TruncatedPoissonSampled():
            yield (
                f"Poisson samples of {event.population} records, each with probability {event.probability!r}, "
                f"cut to at most {event.batch}"
            )
            return  # its children are samples that bound it
        case Shuffled():
            yield f"{event.n} reports of as many persons, published by a trusted shuffler"
        case RandomAllocation():
            yield f"a random {event.chosen} of {event.steps} steps for each record"
        case RecordByRecord():
            yield "participations of a record that share no row of the encoder"
        case ShuffledBatches():
            yield f"batches of a shuffled list, {event.steps} a pass, charged without amplification"
        case MixtureOfGaussians():
            yield "a secret random sensitivity"
        case Assignment() | InputMix():
            yield "a random choice of the release that reads a record"
    for child in event.children():
        yield from _samples(child)


def _by_value(pairs: Iterable[tuple[str, Value]]) -> dict[Value, list[str]]:
    """Returns the names that share each value."""
    found: dict[Value, list[str]] = {}
    for name, value in pairs:
        found.setdefault(value, []).append(name)
    return found


def _amounts(shifts: Shifts) -> str:
    amounts = " and ".join(
        f"{upper(distance)} {_UNITS.get(norm, 'record' if distance == 1.0 else 'records')}"
        for distance, norm, _ in shifts
    )
    return f"{amounts} (if sampled)" if any(sampled for _, _, sampled in shifts) else amounts


def _sampling(drawn: Mapping[tuple[str, ...], list[str]]) -> str:
    rows = [(names, ", in them ".join(samples) or NO_SAMPLING) for samples, names in drawn.items()]
    if len(rows) <= 1:
        return rows[0][1] if rows else NO_SAMPLING
    return "; ".join(f"{_listed(names)}: {samples}" for names, samples in rows)


def _listed(names: list[str]) -> str:
    if len(names) <= _MOST_NAMES + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
