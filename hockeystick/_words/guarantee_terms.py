"""What a guarantee is about, in words: how far one record moves what is read, and which records are read.

An ε is nothing without its neighbouring relation and its unit: replacing a record moves a sum of clipped values twice
as far as adding it, and a sample of fixed size has a cost under replace-one alone.
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
    SampledWithoutReplacement,
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
"""What changes between two neighbouring data sets."""

_UNITS = {"l1": "in L1", "l2": "in L2", "linf": "in L∞"}
_SAMPLES = (PoissonSampled, PoissonSampledReplace, SampledWithoutReplacement, TruncatedPoissonSampled)
_MOST_NAMES = 3

Way = tuple[float, str, bool]  # how far, in which norm, and whether that is within a sample
Ways = tuple[Way, ...]
Said = TypeVar("Said", bound=Hashable)


def terms(guarantee: Guarantee) -> dict[str, str]:
    """Returns ``unit`` and ``sampling`` of a graph's guarantee, in words; nothing where its graph is not at hand."""
    graph = guarantee.graph
    if not isinstance(graph, AccountantGraph):
        return {}
    readings = [(release, distance) for release, distance in graph.readings(view=guarantee.view) if distance]
    moved = _together((release.name, _moved(release.event, distance)) for release, distance in readings)
    drawn = _together((release.name, tuple(dict.fromkeys(_samples(release.event)))) for release, _ in readings)
    how_far = ", ".join(f"{_listed(names)} by at most {_how_far(ways)}" for ways, names in moved.items())
    unit = f"{RECORD[graph.adjacency]} moves {how_far or 'nothing that is released'}"
    if guarantee.adjacency is not graph.adjacency:
        unit += "; a replaced record is one that leaves and one that enters"
    return {"unit": unit, "sampling": _sampling(drawn)}


def about(result: Mapping[str, Any]) -> str:
    """Returns one line on what the ε of a result is about; empty for results of before this line."""
    if "unit" not in result:
        return ""
    group = f", groups of {result['group']}" if result["group"] != 1 else ""
    return f"{result['adjacency']}{group}: {result['unit']}; {result['sampling']}"


def _moved(event: PrivacyEvent, distance: float) -> Ways:
    return tuple(dict.fromkeys(_ways(event, distance, False)))


def _ways(event: PrivacyEvent, distance: float, sampled: bool) -> Iterator[Way]:
    """Yields the event's own parts: how far each is moved, discrete noise being stated at a distance of its own."""
    if isinstance(event, _SAMPLES):  # what is inside is stated per sampled record, whatever is outside
        sampled, distance = True, 2.0 if isinstance(event, PoissonSampledReplace) else 1.0
    elif isinstance(event, Chain):
        distance *= event.length
    if isinstance(event, TruncatedPoissonSampled):  # its children are what bounds it
        yield 1.0, "l2", True
    elif children := event.children():
        for child in children:
            yield from _ways(child, distance, sampled)
    else:
        yield distance * float(getattr(event, "distance", 1.0)), event.norm, sampled


def _samples(event: PrivacyEvent) -> Iterator[str]:
    """Yields the secret samples that the event reads, outermost first; nothing where it reads all records."""
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
            return  # its children are the samples that bound it
        case MixtureOfGaussians():
            yield "a secret choice of how far a record moves it"
        case Assignment() | InputMix():
            yield "a random choice of what reads a record"
    for child in event.children():
        yield from _samples(child)


def _together(pairs: Iterable[tuple[str, Said]]) -> dict[Said, list[str]]:
    """Returns names by what is said of them."""
    found: dict[Said, list[str]] = {}
    for name, said in pairs:
        found.setdefault(said, []).append(name)
    return found


def _how_far(ways: Ways) -> str:
    amounts = " and ".join(
        f"{upper(distance)} {_UNITS.get(norm, 'record' if distance == 1.0 else 'records')}"
        for distance, norm, _ in ways
    )
    return f"{amounts} (if sampled)" if any(sampled for _, _, sampled in ways) else amounts


def _sampling(drawn: Mapping[tuple[str, ...], list[str]]) -> str:
    told = [(names, ", in them ".join(said) or NO_SAMPLING) for said, names in drawn.items()]
    if len(told) <= 1:
        return told[0][1] if told else NO_SAMPLING
    return "; ".join(f"{_listed(names)}: {said}" for names, said in told)


def _listed(names: list[str]) -> str:
    if len(names) <= _MOST_NAMES + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
