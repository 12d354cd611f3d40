"""Alarms of drift: which windows have a KL(Pi || P) above a threshold, at a price that no number of windows raises.

It is the sparse vector technique (see ``mechanisms.AboveThreshold``) on the average of queries of
:class:`~hockeystick.learners.divergence.trusted.TrustedKL`. For an estimate of each window there is
``divergence.drift.monitor``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidDataError, PrivacyEvent
from hockeystick.accounting.validate import integer, items
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.drift.watch import Watch
from hockeystick.mechanisms import AboveThreshold
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged
from hockeystick.mechanisms.thresholds.threshold_stream import ThresholdSession

# 32 U: a sensitivity is rounded up already; this product is off by U.
_UP = 1.0 + 2.0**-48


def _alarms(value: object) -> int:
    return integer("alarms", value, low=1)


@frozen(kw_only=True, eq=False)
class DriftAlarms(Watch):
    """Publishes which windows are above the threshold, up to a number of alarms, at a price that windows do not raise.

    The query of a window is (D - threshold)/Delta, with Delta its own sensitivity: so all have the sensitivity 1, which
    ``AboveThreshold`` needs. epsilon is pure, for both scopes. Where windows are disjoint data (scope "record")
    estimates cost no more; alarms pay where one client is in many windows.

    Args:
        reference, threshold, epsilon, scope, group, samples, multiplier, logarithm: As for :class:`DriftMonitor`.
        alarms: After so many the watch ends.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    alarms: int = field(default=1, converter=_alarms)

    def mechanism(self) -> AboveThreshold:
        """What compares the queries with 0."""
        return AboveThreshold.calibrated(0.0, epsilon=self.epsilon, answers=self.alarms)

    def event(self) -> PrivacyEvent:
        """What the whole watch costs."""
        return self.mechanism().event()

    def graph(self) -> AccountantGraph:
        """The plan: one release, of the windows that are above."""
        return self.plan(1).release("alarms", self.event(), reads=("windows", "coins"))

    def query(self, data: ClientCounts, rng: np.random.Generator) -> float:
        """(D - threshold)/Delta of one window: not private."""
        if not isinstance(data, ClientCounts):
            raise InvalidDataError("data", data, "is no ClientCounts")
        average = self.average(data.records(), rng)
        distance = average.sensitivity(self.multiplier, group=self.group) * _UP
        return (average.value(data, self.multiplier) - self.threshold) / distance

    def start(
        self, *, noise: Noise | None = None, ledger: AnyLedger | None = None, reads: Iterable[str] | None = None
    ) -> AlarmSession:
        """A session that is asked window by window; all of its cost is recorded here. Arguments as for a monitor's.

        It holds the noise of the threshold, which is secret, so that there are no checkpoints of it.
        """
        name = None if ledger is None else "alarms"
        source, mechanism = check_noise(noise), self.mechanism()

        def begun() -> ThresholdSession:
            return mechanism.start(noise=source)

        asked = charged(mechanism.event(), begun, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)
        return AlarmSession(self, asked)

    def simulate(
        self, data: Sequence[ClientCounts], coins: np.random.Generator, rng: np.random.Generator, runs: int
    ) -> npt.NDArray[np.int8]:
        """Answers of shape (runs, windows): 1 "above", 0 "below", -1 not asked any more."""
        queries = [self.query(own, coins) for own in items("data", data, data=True)]
        return np.asarray(self.mechanism().simulate(queries, rng, runs))


class AlarmSession:
    """One watch for alarms; ``DriftAlarms.start``."""

    def __init__(self, watch: DriftAlarms, stream: ThresholdSession) -> None:
        self._watch, self._stream = watch, stream

    @property
    def halted(self) -> bool:
        """Whether all alarms were given."""
        return self._stream.halted

    def look(self, data: ClientCounts, rng: np.random.Generator) -> bool:
        """Whether the next window is reported as above the threshold.

        Raises:
            StreamHaltedError: all alarms were given.
            InvalidArgumentError: data that do not fit the watch.
        """
        return bool(self._stream.ask(self._watch.query(data, rng)))
