"""Inputs of this library's mechanisms: their distance in the norm that the mechanism states, and the cost at it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting import Adjacency, HockeystickError, PrivacyEvent, UnsupportedEventError, compose
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.replay import values
from hockeystick.audits.replay.queries import laplace_event
from hockeystick.audits.replay.tape import Met, Query
from hockeystick.mechanisms.counts.cell_counts import CellCounts
from hockeystick.mechanisms.counts.marginals import Marginals
from hockeystick.mechanisms.data.group_privacy import ForGroups
from hockeystick.mechanisms.data.subsampled_sum import Subsampled
from hockeystick.mechanisms.lazy.lazy_switching import LazySwitch
from hockeystick.mechanisms.local.one_bit_channel import OneBitChannel
from hockeystick.mechanisms.local.randomized_response import CategoryRandomiser
from hockeystick.mechanisms.numbers.added_integers import AdditiveIntegers
from hockeystick.mechanisms.numbers.added_reals import AdditiveNoise
from hockeystick.mechanisms.numbers.discrete_laplace import DiscreteLaplace
from hockeystick.mechanisms.numbers.laplace import Laplace
from hockeystick.mechanisms.numbers.staircase import Staircase
from hockeystick.mechanisms.partitions.partition_selection import PartitionSelection
from hockeystick.mechanisms.selection.common import Selection
from hockeystick.mechanisms.streams.hybrid_tree import HybridTree
from hockeystick.mechanisms.streams.matrix_mechanism import MatrixMechanism
from hockeystick.mechanisms.streams.tree_aggregation import TreeAggregation
from hockeystick.mechanisms.thresholds.cumulative_above_threshold import CumulativeAboveThreshold
from hockeystick.mechanisms.thresholds.threshold_stream import ThresholdStream

Pair = tuple[FloatArray, FloatArray]
_DEFAULT = 1.0  # the sensitivity of every class where none is given
_NUMBERS = (AdditiveNoise, AdditiveIntegers, Staircase)


@frozen
class Input:
    """The way in which one kind of mechanism reads its input.

    Attributes:
      met: ``met(mechanism, pair)`` is the distance of a pair of inputs.
      event: ``event(mechanism, pair, distance)`` is the cost at it.
      any_shape: whether neighbouring inputs may differ in shape.
    """

    met: Callable[[Any, Pair], Met]
    event: Callable[[Any, Pair, float], PrivacyEvent]
    any_shape: bool = False


def _number(mechanism: Any, pair: Pair) -> Met:
    norm = "l1" if isinstance(mechanism, (Laplace, DiscreteLaplace, Staircase)) else "l2"
    return _stated(norm, mechanism.sensitivity, pair)


def _stated(norm: str, stated: float, pair: Pair, broken: str = "") -> Met:
    slack = values.slack(norm, stated, *pair)
    each = pair[0].size > 1 and norm in ("l1", "l2") and values.distance("linf", *pair) <= stated + slack
    return Met(values.distance(norm, *pair), norm, float(stated), slack, broken, stated == _DEFAULT, each)


def _at_sensitivity(mechanism: Any, pair: Pair, distance: float) -> PrivacyEvent:
    """The event for the met distance in place of the stated one; a mechanism that can't have it has that of its own."""
    if isinstance(mechanism, Laplace):
        return laplace_event(*pair, np.full(pair[0].shape, mechanism.scale))
    if isinstance(mechanism, DiscreteLaplace):
        distance = math.ceil(distance)
    if isinstance(mechanism, Staircase):  # its noise has steps of the stated sensitivity
        share = distance / mechanism.sensitivity
        return mechanism.event().at(share if share == 1.0 else values.up(share, 4))
    try:
        found: PrivacyEvent = evolve(mechanism, sensitivity=distance).event()
    except HockeystickError:
        if distance > mechanism.sensitivity:
            raise
        found = mechanism.event()
    return found


def _both_ways(pair: Pair) -> bool:
    change = pair[1] - pair[0]
    return bool((change > 0).any() and (change < 0).any())


def _scores(mechanism: Any, pair: Pair) -> Met:
    broken = "the scores move in both directions, but are stated to be monotone"
    return _stated("linf", mechanism.sensitivity, pair, broken if mechanism.monotone and _both_ways(pair) else "")


def _choice(mechanism: Any, pair: Pair, distance: float) -> PrivacyEvent:
    found: PrivacyEvent = evolve(mechanism, sensitivity=distance, monotone=not _both_ways(pair)).event()
    return found


def _persons(mechanism: Any, pair: Pair) -> Met:
    return Met(values.distance("entries", *pair), "entries", 1.0, default=True)


def _reports(mechanism: Any, pair: Pair, distance: float) -> PrivacyEvent:
    found: PrivacyEvent = mechanism.event().at(distance)
    return found


def _steps(mechanism: Any, pair: Pair) -> tuple[float, list[int], str]:
    """The largest change of a step, the steps that changed, and the norm."""
    norm = "l1" if getattr(mechanism, "law", "gaussian") == "laplace" else "l2"
    changes = [values.distance(norm, one, other) for one, other in zip(*pair, strict=True)]
    return max(changes, default=0.0), [i for i, change in enumerate(changes) if change > 0.0], norm


def _contributions(mechanism: Any, pair: Pair) -> Met:
    largest, changed, norm = _steps(mechanism, pair)
    apart = min((b - a for a, b in zip(changed, changed[1:], strict=False)), default=mechanism.separation)
    broken = ""
    if len(changed) > mechanism.participations:
        broken = f"{len(changed)} steps change, above the {mechanism.participations} participations stated"
    elif apart < mechanism.separation:
        broken = f"changed steps are {apart} apart, below the separation {mechanism.separation} stated"
    slack = values.slack(norm, mechanism.sensitivity, *(x.reshape(-1) for x in pair))
    return Met(largest, f"{norm} of a step", float(mechanism.sensitivity), slack, broken)


def _stream_event(mechanism: Any, pair: Pair, distance: float) -> PrivacyEvent:
    _, changed, _ = _steps(mechanism, pair)
    if _contributions(mechanism, pair).broken:
        mechanism = evolve(mechanism, participations=len(changed), separation=1)
    found: PrivacyEvent = evolve(mechanism, sensitivity=distance).event()
    return found


def _one_step(mechanism: Any, pair: Pair) -> Met:
    largest, changed, norm = _steps(mechanism, pair)
    broken = f"{len(changed)} steps change, but each record is stated to have one" if len(changed) > 1 else ""
    slack = values.slack(norm, mechanism.sensitivity, *(x.reshape(-1) for x in pair))
    return Met(largest, f"{norm} of a step", float(mechanism.sensitivity), slack, broken)


def _steps_together(mechanism: Any, pair: Pair, distance: float) -> PrivacyEvent:
    """Changes of several steps cost at most as much as all of them in one."""
    changed = len(_steps(mechanism, pair)[1])
    found: PrivacyEvent = evolve(mechanism, sensitivity=distance).event().at(max(1.0, float(changed)))
    return found


def _terms(mechanism: Any, pair: Pair) -> Met:
    changed = int(values.distance("entries", *pair))
    broken = f"{changed} terms change, but each record is stated to have one" if changed > 1 else ""
    return _stated("linf", mechanism.sensitivity, pair, broken)


def _summed_terms(mechanism: Any, pair: Pair, distance: float) -> PrivacyEvent:
    changed = values.distance("entries", *pair)
    found: PrivacyEvent = mechanism.event().at(max(1.0, changed))
    return found


def _ratios(mechanism: Any, pair: Pair) -> Met:
    return _stated("linf", mechanism.sensitivity, pair)


def _decisions(mechanism: Any, pair: Pair, distance: float) -> PrivacyEvent:
    """Each value is that of a decision; those that change are charged."""
    changed = int(values.distance("entries", *pair))
    return compose((_at_sensitivity(mechanism, pair, distance), changed))


def _rows(mechanism: Any, pair: Pair) -> Met:
    """The number of records that were added, removed or replaced."""
    counts = [Counter(row.tobytes() for row in np.ascontiguousarray(side)) for side in pair]
    apart = sum(((counts[0] - counts[1]) + (counts[1] - counts[0])).values())
    relation = mechanism._relation() if isinstance(mechanism, Marginals) else mechanism.adjacency
    replaced = relation is not Adjacency.ADD_OR_REMOVE_ONE
    return Met(float(math.ceil(apart / 2) if replaced else apart), "records", 1.0, default=True)


def _counted(mechanism: Any, pair: Pair) -> Met:
    """The number of records that were added, removed or replaced, in a table of counts."""
    apart = values.distance("l1", *pair)
    return Met(apart if mechanism.records is None else math.ceil(apart / 2.0), "records", 1.0, default=True)


def _persons_of_keys(mechanism: Any, pair: Pair) -> Met:
    """The least number of persons, in so many keys each, who can have changed the numbers of persons of all keys."""
    change = pair[1] - pair[0]
    ways = [float(np.maximum(change, 0.0).sum()), float(np.maximum(-change, 0.0).sum())]
    moved = max(ways) if mechanism.adjacency is Adjacency.REPLACE_ONE else sum(ways)
    least = max(math.ceil(moved / mechanism.partitions), float(np.abs(change).max(initial=0.0)))
    return Met(least, "records", 1.0, default=True)


def _group(mechanism: Any, pair: Pair) -> Met:
    inner = input_of(mechanism.mechanism)
    assert inner is not None
    met = inner.met(mechanism.mechanism, pair)
    return evolve(met, stated=None if met.stated is None else met.stated * mechanism.size)


def _group_event(mechanism: Any, pair: Pair, distance: float) -> PrivacyEvent:
    inner = input_of(mechanism.mechanism)
    assert inner is not None
    return inner.event(mechanism.mechanism, pair, distance)


_INPUTS: tuple[tuple[tuple[type, ...], Input], ...] = (
    (_NUMBERS, Input(_number, _at_sensitivity)),
    ((Selection,), Input(_scores, _choice)),
    ((ThresholdStream,), Input(_scores, _choice)),
    ((CategoryRandomiser, OneBitChannel), Input(_persons, _reports)),
    ((MatrixMechanism, TreeAggregation), Input(_contributions, _stream_event)),
    ((HybridTree,), Input(_one_step, _steps_together)),
    ((CumulativeAboveThreshold,), Input(_terms, _summed_terms)),
    ((LazySwitch,), Input(_ratios, _decisions)),
    ((Subsampled, Marginals), Input(_rows, _reports, any_shape=True)),
    ((CellCounts,), Input(_counted, _reports)),
    ((PartitionSelection,), Input(_persons_of_keys, _reports)),
)


def input_of(mechanism: Any) -> Input | None:
    """Returns how a mechanism reads its input, or None for a mechanism whose distances are not known."""
    if isinstance(mechanism, ForGroups):
        return Input(_group, _group_event) if input_of(mechanism.mechanism) is not None else None
    return next((found for kinds, found in _INPUTS if isinstance(mechanism, kinds)), None)


@frozen(eq=False)
class OurCall(Query):
    """One call of a mechanism of this library, with its noiseless input."""

    mechanism: Any
    value: Any
    runs: int
    simulated: bool

    @property
    def name(self) -> str:
        return type(self.mechanism).__name__

    @property
    def is_number(self) -> bool:
        return isinstance(self.mechanism, _NUMBERS)

    def flow(self) -> object:
        found = input_of(self.mechanism)
        shape = None if found is not None and found.any_shape else np.shape(self.value)
        return "mechanism", self.name, shape, self.runs, self.simulated

    def parameters(self) -> object:
        return self.mechanism

    def _pair(self, other: Query) -> Pair:
        assert isinstance(other, OurCall)
        one, two = (np.asarray(call.value, dtype=np.float64) for call in (self, other))
        return one, two

    def met(self, other: Query) -> Met | None:
        found = input_of(self.mechanism)
        return found.met(self.mechanism, self._pair(other)) if found is not None else None

    def event(self, other: Query) -> PrivacyEvent | None:
        assert isinstance(other, OurCall)
        found = input_of(self.mechanism)
        if found is None:
            raise UnsupportedEventError("a replay does not know the distance of its inputs")
        pair = self._pair(other)
        distance = found.met(self.mechanism, pair).distance
        if distance == 0.0:
            return None
        if self.mechanism != other.mechanism:
            raise UnsupportedEventError("its parameters differ between the data sets")
        one = found.event(self.mechanism, pair, distance)
        return compose((one, self.runs)) if self.runs > 1 else one

    def loss(self, other: Query, answer: Any) -> float | None:
        """The law of a simulation is exact.

        A release of Laplace noise on its own grid rounds its value by at most half a step of at most 2^-16 scales, and
        has a scale that is larger by one part in 2^16 at most; four times as much is taken off the loss.
        """
        assert isinstance(other, OurCall)
        if not self.is_number or self.mechanism != other.mechanism:
            return None
        if self.simulated:
            return float(np.sum(self.mechanism.log_likelihood_ratio(answer, self.value, other.value)))
        if not isinstance(self.mechanism, Laplace) or self.mechanism.grid is not None:
            return None
        given = np.asarray(answer)[np.newaxis]
        loss = float(np.sum(self.mechanism.log_likelihood_ratio(given, self.value, other.value)))
        # Less than the loss of the grid's law: four times its rounding.
        return math.copysign(max(0.0, abs(loss) * (1 - 2.0**-14) - given.size * 2.0**-14), loss)


@frozen(eq=False)
class Opening(Query):
    """The start of a session, whose queries are charged together."""

    mechanism: Any

    @property
    def name(self) -> str:
        return f"{type(self.mechanism).__name__}.start"

    def flow(self) -> object:
        return "start", type(self.mechanism).__name__

    def parameters(self) -> object:
        return self.mechanism

    def met(self, other: Query) -> Met | None:
        return None

    def event(self, other: Query) -> PrivacyEvent | None:
        return None


@frozen(eq=False)
class Asked(Query):
    """One query of a session."""

    mechanism: Any
    session: int
    value: Any

    @property
    def name(self) -> str:
        return f"{type(self.mechanism).__name__} session"

    def flow(self) -> object:
        return "ask", type(self.mechanism).__name__, self.session

    def parameters(self) -> object:
        return self.mechanism

    def met(self, other: Query) -> Met | None:
        return _stated("linf", self.mechanism.sensitivity, self._pair(other))

    def event(self, other: Query) -> PrivacyEvent | None:
        return None

    def _pair(self, other: Query) -> Pair:
        assert isinstance(other, Asked)
        one, two = (np.array([float(query.value)]) for query in (self, other))
        return one, two


def session_event(pairs: list[tuple[Asked, Asked]]) -> PrivacyEvent | None:
    """Returns the cost of a session's queries together, None if none of them moved.

    Raises:
      HockeystickError: no finite cost is known.
    """
    one, other = (np.array([float(pair[side].value) for pair in pairs]) for side in (0, 1))
    mechanism = pairs[0][0].mechanism
    found = input_of(mechanism)
    if found is None or any(pair[0].mechanism != pair[1].mechanism for pair in pairs):
        raise UnsupportedEventError("the parameters of a session differ between the data sets")
    distance = values.distance("linf", one, other)
    return found.event(mechanism, (one, other), distance) if distance else None
