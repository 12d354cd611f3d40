"""Alarms of drift: windows with a KL(Pi || P) above a threshold, at a cost independent of the number of windows.

With method "histogram", for scope "record", each window's noisy histogram gives an estimate that is compared with the
threshold: windows are disjoint data, so they cost no more than one. With method "priest" it is the sparse vector
technique (see ``mechanisms.AboveThreshold``) on the average of queries of
:class:`~hockeystick.learners.divergence.trusted.TrustedKL`. For an estimate of each window see
``divergence.drift.monitor``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, InvalidDataError, PrivacyEvent
from hockeystick.accounting.validate import integer, items
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.drift.look import drift_look
from hockeystick.learners.divergence.drift.noisy_histogram import HistogramRelease
from hockeystick.learners.divergence.drift.watch import Watch
from hockeystick.mechanisms import AboveThreshold
from hockeystick.mechanisms.contract.arguments import generator, run_count
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError, ThresholdSession

# 32 U: a sensitivity is rounded up already; this product is off by U.
_UP = 1.0 + 2.0**-48


def _alarms(value: object) -> int:
    return integer("alarms", value, low=1)


@frozen(kw_only=True, eq=False)
class DriftAlarms(Watch):
    """Publishes which windows are above the threshold, up to a number of alarms.

    The cost does not grow with the number of windows, and it is pure ε-DP. With scope "record" windows are compared by
    noisy histograms (``drift_look``), whose error falls as 1/N. With scope "client", or the arguments of method
    "priest", it is the sparse vector technique: the query of a window is (D - threshold)/Delta, with Delta its own
    sensitivity, so all queries have the sensitivity 1, as ``AboveThreshold`` requires. For a bounded rate of false
    alarms see ``DriftWatch``.

    Args:
        reference, threshold, epsilon, scope, group, samples, multiplier, logarithm, method: As for
            :class:`DriftMonitor`, but "auto" with scope "client" is "priest".
        alarms: The number of alarms after which the watch ends.

    Raises:
        InvalidArgumentError: an argument is outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts, DriftAlarms
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> counts = ([500, 500], [510, 490], [990, 10])  # of two symbols in three windows
        >>> windows = [ClientCounts.of_records([0, 0], [0, 1], times=one, symbol_count=2) for one in counts]
        >>> alarms = DriftAlarms(reference=[0.5, 0.5], threshold=0.5, epsilon=20.0)
        >>> session, rng = alarms.start(noise=SimulationNoise(1)), np.random.default_rng(1)
        >>> [session.look(data, rng) for data in windows], session.halted
        ([False, False, True], True)
    """

    alarms: int = field(default=1, converter=_alarms)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.method == "histogram" and self.scope == "client":
            reason = "would cost anew in each window of a client"
            raise InvalidArgumentError("method", self.method, reason, 'use "priest", or DriftMonitor')

    @property
    def by_histogram(self) -> bool:
        """Whether windows are looked at by noisy histograms."""
        return super().by_histogram and self.scope == "record"

    def mechanism(self) -> AboveThreshold | HistogramRelease:
        """Returns the mechanism that compares the queries with 0, or that of a window's histogram."""
        if self.by_histogram:
            return self._histogram(1)
        return self._comparison()

    def _histogram(self, records: int) -> HistogramRelease:
        return HistogramRelease.calibrated(cells=len(self.reference), epsilon=self.epsilon, records=records)

    def _comparison(self) -> AboveThreshold:
        return AboveThreshold.calibrated(0.0, epsilon=self.epsilon, answers=self.alarms)

    def event(self) -> PrivacyEvent:
        """Returns the cost of the whole watch."""
        return self.mechanism().event()

    def graph(self) -> AccountantGraph:
        """Returns the plan: one release, which tells the windows above the threshold."""
        return self.plan(1).release("alarms", self.event(), reads=("windows", "coins"))

    def query(self, data: ClientCounts, rng: np.random.Generator) -> float:
        """Returns (D - threshold)/Delta of one window: not private."""
        if not isinstance(data, ClientCounts):
            raise InvalidDataError("data", data, "is not a ClientCounts")
        average = self.average(data.records(), rng)
        distance = average.sensitivity(self.multiplier, group=self.group) * _UP
        return (average.value(data, self.multiplier) - self.threshold) / distance

    def start(
        self, *, noise: Noise | None = None, ledger: AnyLedger | None = None, reads: Iterable[str] | None = None
    ) -> AlarmSession:
        """Returns a session that takes one window at a time; its whole cost is recorded here.

        The arguments are those of :meth:`DriftMonitor.start`. The session holds the secret noise of the threshold, so
        it has no checkpoints.
        """
        name = None if ledger is None else "alarms"
        source = check_noise(noise)

        def begun() -> ThresholdSession | None:
            return None if self.by_histogram else self._comparison().start(noise=source)

        stream = charged(self.event(), begun, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)
        return AlarmSession(self, stream, source)

    def above(self, data: ClientCounts, noise: Noise) -> bool:
        """Returns whether the KL divergence of a noisy histogram of the window is above the threshold."""
        counts = self.window_counts(data)
        found = self._histogram(int(counts.sum())).release(counts, noise=noise)
        return drift_look(found, self.reference, divergences="kl")["kl"].estimate > self.threshold

    def simulate(
        self, data: Sequence[ClientCounts], coins: np.random.Generator, rng: np.random.Generator, runs: int
    ) -> npt.NDArray[np.int8]:
        """Returns answers of shape (runs, windows): 1 for "above", 0 for "below", -1 after the last alarm."""
        own = items("data", data, data=True)
        if not self.by_histogram:
            return np.asarray(self._comparison().simulate([self.query(each, coins) for each in own], rng, runs))
        found, noise = np.full((run_count(runs), len(own)), -1, dtype=np.int8), SimulationNoise(generator(rng))
        for row in found:
            left = self.alarms
            for window, each in enumerate(own):
                row[window] = self.above(each, noise)
                left -= int(row[window])
                if not left:
                    break
        return found


class AlarmSession:
    """One watch for alarms, started by :meth:`DriftAlarms.start`; see :class:`DriftAlarms`."""

    def __init__(self, watch: DriftAlarms, stream: ThresholdSession | None, noise: Noise) -> None:
        self._watch, self._stream, self._noise, self._left = watch, stream, noise, watch.alarms

    @property
    def halted(self) -> bool:
        """Whether all alarms have been given."""
        return self._left == 0 if self._stream is None else self._stream.halted

    def look(self, data: ClientCounts, rng: np.random.Generator) -> bool:
        """Returns whether the next window is reported as above the threshold.

        Raises:
            StreamHaltedError: all alarms have been given.
            InvalidArgumentError: the data do not fit the watch.
        """
        if self._stream is not None:
            return bool(self._stream.ask(self._watch.query(data, rng)))
        if self.halted:
            raise StreamHaltedError(f"all {self._watch.alarms} alarms have been given; start a new watch")
        found = self._watch.above(data, self._noise)
        self._left -= found
        return found
