"""A monitor of the drift of private data from a public reference, window by window, within a privacy budget.

For each window an estimate of KL(Pi || P) is published, with a confidence interval and whether that is above a
threshold. With scope "record" (see ``divergence.drift.watch``) windows are disjoint data, and each has the whole
budget; with scope "client" they share it. For alarms without estimates see ``divergence.drift.alarms``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import (
    SAME,
    AccountantGraph,
    Adjacency,
    EpsilonDelta,
    Guarantee,
    InvalidArgumentError,
    InvalidDataError,
    Ledger,
    OdometerReading,
    PrivacyEvent,
    RefinementError,
    calibrate,
    compose,
)
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, items, one_of, probability
from hockeystick.learners.common.stream_checkpoint import refused, seal, unseal
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.drift.cell_terms import Divergence
from hockeystick.learners.divergence.drift.count_noise import LaplaceCounts
from hockeystick.learners.divergence.drift.look import DriftLook, drift_look
from hockeystick.learners.divergence.drift.noisy_histogram import NoisyHistogram
from hockeystick.learners.divergence.drift.watch import Watch
from hockeystick.learners.divergence.intervals import Spread, interval, largest_divergence, variance_factor
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import Additive, Law, TrustedKL, deviation, wider
from hockeystick.mechanisms import DiscreteLaplace, Gaussian, Laplace
from hockeystick.mechanisms.contract.arguments import generator, run_count
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

Finding = Literal["above", "below", "unclear"]

# 32 U: two products, off by U each.
_UP = 1.0 + 2.0**-48
_KIND, _VERSION = "checkpoint of a drift monitor", 1


def _delta(value: object) -> float:
    return probability("delta", value)


def _windows(value: object) -> int:
    return integer("windows", value, low=1)


def _confidence(value: object) -> float:
    return probability("confidence", value, open=True)


@frozen(kw_only=True)
class WindowLook:
    """The published result for one window; see :class:`DriftMonitor`.

    Attributes:
        window: The index of the window, in the order of the looks.
        estimate: The estimate of KL(Pi || P), with noise.
        noise_deviation: The standard deviation of its noise; of a histogram, the simulated root mean square error.
        low, high: A confidence interval, within the possible divergences: of a histogram simulated, not proved.
        finding: Whether the interval is "above" the threshold, "below" it, or "unclear".
        simulated: Whether the noise was simulated, so that it is not a release.
        histogram: The published histogram, of which ``drift_look`` tells all divergences and proved intervals; None
            with method "priest".
    """

    window: int
    estimate: float
    noise_deviation: float
    low: float
    high: float
    finding: Finding
    simulated: bool
    histogram: NoisyHistogram | None = None


@frozen(kw_only=True, eq=False)
class DriftMonitor(Watch):
    """Publishes an estimate, an interval and a finding for each of some windows.

    Args:
        reference: Pi, shape (k,), public.
        threshold: The public divergence >= 0 that intervals are compared with.
        epsilon, delta: The budget of the whole watch; delta may be 0 for Laplace noise.
        windows: The number of windows.
        scope: "record" or "client"; see ``divergence.drift.watch``.
        group: With scope "client", the largest number of records of a client in one window.
        samples: With method "priest": T, the number of symbols that are drawn anew for each window; None (or T >= k)
            asks for all, weighted by the reference.
        multiplier: λ ≥ 0, with samples. At 0 intervals are shortest: they hold for any data of these sizes, among which
            ratios vary far more than logarithms.
        logarithm: With method "priest": Smoothed(1.0) by default, or AssumedCounts.
        method: "histogram" publishes noisy counts of each window, from which all divergences of ``drift_look`` follow;
            "priest" publishes one noisy number. "auto" is "histogram", unless samples, a multiplier, a logarithm or
            Gaussian noise are asked for; ``choose_drift_method`` compares both by public sizes.
        noise: "auto", "laplace" or "gaussian".
        confidence: The confidence level of each single interval.

    Raises:
        InvalidArgumentError: an argument is outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts, DriftMonitor
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> monitor = DriftMonitor(reference=[0.5, 0.5], threshold=0.1, epsilon=10.0, windows=12)
        >>> session = monitor.start(noise=SimulationNoise(1))
        >>> data = ClientCounts.of_records([0, 0], [0, 1], times=[900, 100], symbol_count=2)
        >>> look = session.look(data, np.random.default_rng(1))  # the exact divergence is 0.51
        >>> round(look.estimate, 2), round(look.low, 2), round(look.high, 2), look.finding
        (0.51, 0.51, 0.51, 'above')
    """

    delta: float = field(default=0.0, converter=_delta)
    windows: int = field(converter=_windows)
    noise: Law = "auto"
    confidence: float = field(default=0.95, converter=_confidence)
    _mechanism: Additive | DiscreteLaplace = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        object.__setattr__(self, "_mechanism", self._calibrated())

    @property
    def by_histogram(self) -> bool:
        """Whether windows are looked at by noisy histograms."""
        return super().by_histogram and self.noise != "gaussian"

    def _histogram_noise(self) -> DiscreteLaplace:
        """The noise on counts, of which a group of records moves twice its size."""
        moved, shared = 2 * self.group, 1 if self.scope == "record" else self.windows
        # 4 U: the quotient, and the sum over windows, are rounded.
        found = DiscreteLaplace.calibrated(epsilon=self.epsilon / shared * (1.0 - 2.0**-50), sensitivity=moved)
        if self.delta > 0.0 and shared > 1:
            target, times = EpsilonDelta(self.epsilon, self.delta), shared

            def composed(scale: float) -> PrivacyEvent:
                return compose((DiscreteLaplace(scale, sensitivity=moved).event(), times))

            scale, step = calibrate(composed, target).value, 2.0**-50
            while accounting.epsilon(composed(scale), self.delta).upper > self.epsilon:
                scale, step = scale * (1.0 + step), 2.0 * step  # the accountant's bound includes its rounding
            found = DiscreteLaplace(min(found.scale, scale), sensitivity=moved)
        return found

    def _calibrated(self) -> Additive | DiscreteLaplace:
        """The noise on a query of sensitivity 1, or on counts, for which all looks that share the budget meet it."""
        one_of("noise", self.noise, "auto", "laplace", "gaussian")
        if self.noise == "gaussian" and self.method == "histogram":
            raise InvalidArgumentError("noise", self.noise, "is not the noise of whole counts", 'use "laplace"')
        if self.by_histogram:
            return self._histogram_noise()
        if self.noise == "gaussian" and self.delta == 0.0:
            raise InvalidArgumentError("delta", self.delta, "is too small for Gaussian noise", "give one above 0")
        shared = 1 if self.scope == "record" else self.windows
        found: list[Additive] = []
        if self.noise != "gaussian":
            scale = Laplace.calibrated(epsilon=self.epsilon / shared).scale
            if self.delta > 0.0 and shared > 1:
                target = EpsilonDelta(self.epsilon, self.delta)
                scale = min(scale, calibrate(lambda b: compose((Laplace(b).event(), shared)), target).value)
            found.append(Laplace(scale))
        if self.noise != "laplace" and self.delta > 0.0:
            sigma = Gaussian.calibrated(epsilon=self.epsilon, delta=self.delta).sigma
            found.append(Gaussian(sigma * math.sqrt(shared)))
        least, step = min(found, key=deviation), 2.0**-50
        while accounting.epsilon(compose((least.event(), shared)), self._at(least)).upper > self.epsilon:
            least, step = wider(least, 1.0 + step), 2.0 * step  # the accountant's bound includes its rounding
        return least

    def _at(self, mechanism: Additive) -> float:
        """The δ at which the budget is met: 0 for Laplace noise and a single look."""
        return 0.0 if isinstance(mechanism, Laplace) and self.scope == "record" else self.delta

    def event(self) -> PrivacyEvent:
        """Returns the cost of one look for the records of its window."""
        return self._mechanism.event()

    def graph(self) -> AccountantGraph:
        """Returns the plan: a look at each window, of disjoint data or of the same clients."""
        if self.scope == "record":
            reach = SAME if self.windows > 1 else None
            return self.plan(self.windows).release("look", self.event(), reads=("windows", "coins"), reach=reach)
        return self.plan(1).release("look", self.event(), reads=("windows", "coins"), count=self.windows)

    def estimator(self, average: QueryAverage) -> TrustedKL:
        """Returns the estimator of one window."""
        distance = average.sensitivity(self.multiplier, group=self.group)
        unit = self._mechanism
        if isinstance(unit, DiscreteLaplace):
            raise InvalidArgumentError("method", self.method, "has no estimator of one number", 'use "priest"')
        scaled = (
            Laplace(unit.scale * distance * _UP, sensitivity=distance)
            if isinstance(unit, Laplace)
            else Gaussian(unit.sigma * distance * _UP, sensitivity=distance)
        )
        return TrustedKL(average=average, multiplier=self.multiplier, mechanism=scaled, group=self.group)

    def start(
        self, *, noise: Noise | None = None, ledger: AnyLedger | None = None, reads: Iterable[str] | None = None
    ) -> MonitorSession:
        """Returns a session that looks at one window after the other.

        Args:
            noise: ``SimulationNoise`` runs it repeatably; the output is then not a release.
            ledger: An additional ledger that each look is charged to as "look"; a ``DurableLedger`` survives crashes.
            reads: The sources that a look reads, for a ``FilteredLedger``.
        """
        return MonitorSession(self, check_noise(noise), ledger, reads)

    def resume(
        self,
        checkpoint: object,
        *,
        noise: Noise | None = None,
        ledger: AnyLedger | None = None,
        reads: Iterable[str] | None = None,
    ) -> MonitorSession:
        """Returns the session that wrote a checkpoint; arguments as for :meth:`start`.

        A checkpoint contains no noise, but to resume twice spends the budget twice: charge a ``DurableLedger`` to
        prevent it.

        Raises:
            InvalidArgumentError: ``checkpoint`` is not a checkpoint of this monitor, or was changed.
        """
        found = self.start(noise=noise, ledger=ledger, reads=reads)
        body = unseal(
            checkpoint, kind=_KIND, version=_VERSION, learner=self._identity(), simulated=found._noise.simulated
        )
        looks = body.get("looks")
        if isinstance(looks, bool) or not isinstance(looks, int) or not 0 <= looks <= self.windows:
            raise refused("does not contain a valid number of looks")
        if looks:
            found._ledger.record("look", count=looks, simulated=found._noise.simulated)
        return found

    def _identity(self) -> _Identity:
        digest = hashlib.sha256(self.reference.tobytes()).hexdigest()
        return _Identity(f"{self!r} {self._mechanism!r} of the reference {digest}")

    def simulate(
        self, windows: Sequence[QueryAverage], data: Sequence[ClientCounts], rng: np.random.Generator, runs: int
    ) -> FloatArray:
        """Returns estimates with independent noise, shape (runs, windows), for windows whose coins are tossed."""
        own = items("data", data, data=True)
        if len(own) > self.windows:
            reason = f"are more windows than the {self.windows} that the budget is for"
            raise InvalidDataError("data", data, reason, "give fewer, or use a monitor for more")
        if len(own) != len(windows) or not own:
            raise InvalidDataError("data", data, f"is not one ClientCounts for each of {len(windows)} windows")
        if self.by_histogram:
            return self._simulated_looks(own, generator(rng), run_count(runs))
        drawn = [
            self.estimator(average).simulate(counts, source, runs)
            for average, counts, source in zip(windows, own, generator(rng).spawn(len(own)), strict=True)
        ]
        return np.stack(drawn, axis=1)

    def _simulated_looks(self, data: Sequence[ClientCounts], rng: np.random.Generator, runs: int) -> FloatArray:
        found, noise = np.empty((runs, len(data))), SimulationNoise(rng)
        for column, own in enumerate(data):
            counts = self.window_counts(own)
            for run in range(runs):
                found[run, column] = self.look_at(self.histogram(counts, noise))["kl"].estimate
        return found

    @property
    def count_noise(self) -> LaplaceCounts:
        """The law of the noise in the counts of a histogram."""
        return LaplaceCounts(self._counts_mechanism().scale)

    def _counts_mechanism(self) -> DiscreteLaplace:
        if not isinstance(self._mechanism, DiscreteLaplace):
            raise InvalidArgumentError("method", self.method, "publishes no histogram", 'use "histogram"')
        return self._mechanism

    def histogram(self, counts: IntArray, noise: Noise) -> NoisyHistogram:
        """Returns the noisy histogram of a window's counts (k,), which one look publishes."""
        return NoisyHistogram(
            counts=np.asarray(self._counts_mechanism().release(counts, noise=noise), dtype=np.float64),
            records=int(counts.sum()),
            noise=self.count_noise,
            simulated=noise.simulated,
        )

    def look_at(self, histogram: NoisyHistogram, divergences: Sequence[Divergence] = ("kl",)) -> DriftLook:
        """Returns the divergences of a published histogram, at no further cost."""
        return drift_look(histogram, self.reference, divergences=divergences, confidence=min(self.confidence, 0.99))

    def interval(self, average: QueryAverage, estimates: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Returns the ends of confidence intervals for KL(Pi || P) of a window, for published estimates of any shape.

        See ``divergence.intervals``: they follow from the law of the noise and, with samples, a public bound on the
        variance of the queries. The ends are within the possible divergences.
        """
        return self._interval(average, self.estimator(average).mechanism, array("estimates", estimates))

    def _interval(
        self, average: QueryAverage, noise: Additive, estimates: npt.ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        spread = Spread(
            noise=noise,
            largest=largest_divergence(average),
            factor=0.0 if average.whole else variance_factor(average, self.multiplier),
            samples=self.samples or 1,
        )
        return interval(np.asarray(estimates, dtype=np.float64), spread, 0.5 * (1.0 - self.confidence))


@frozen
class _Identity:
    """The monitor that a checkpoint belongs to."""

    text: str


class MonitorSession:
    """One watch, started by :meth:`DriftMonitor.start`: looks at windows in order, each charged before noise is drawn.

    See :class:`DriftMonitor`.
    """

    def __init__(
        self, monitor: DriftMonitor, noise: Noise, ledger: AnyLedger | None, reads: Iterable[str] | None
    ) -> None:
        self._monitor, self._noise = monitor, noise
        self._ledger = Ledger(monitor.graph())
        self._outer, self._reads = ledger, None if reads is None else tuple(reads)

    @property
    def looks(self) -> int:
        """The number of looks so far."""
        return self._ledger.recorded("look")

    def look(self, data: ClientCounts, rng: np.random.Generator) -> WindowLook:
        """Publishes the estimate of the next window.

        Args:
            data: The counts of the records of the window.
            rng: The source of the public coins; its state must not depend on data.

        Raises:
            RefinementError: the budget covers no further window; nothing is drawn.
            InvalidArgumentError: the data do not fit the monitor.
            HockeystickError: the outer ledger refuses.
        """
        monitor, window = self._monitor, self.looks
        if window >= monitor.windows:
            reason = f"this would be window {window + 1} of a watch whose budget is for {monitor.windows}"
            raise RefinementError("look", reason)
        self._ledger.check("look")
        if monitor.by_histogram:
            counts = monitor.window_counts(data)
            return self._paid(lambda: self._histogram_look(window, counts))
        if not isinstance(data, ClientCounts):
            raise InvalidDataError("data", data, "is not a ClientCounts")
        average = monitor.average(data.records(), rng)
        estimator = monitor.estimator(average)

        def drawn() -> WindowLook:
            self._ledger.record("look", simulated=self._noise.simulated)
            found = estimator.release(data, noise=self._noise)
            low, high = (float(end) for end in monitor._interval(average, estimator.mechanism, found.estimate))
            return self._found(window, found.estimate, found.noise_deviation, (low, high))

        return self._paid(drawn)

    def _histogram_look(self, window: int, counts: IntArray) -> WindowLook:
        self._ledger.record("look", simulated=self._noise.simulated)
        histogram = self._monitor.histogram(counts, self._noise)
        kl = self._monitor.look_at(histogram)["kl"]
        return self._found(window, kl.estimate, kl.error, (kl.low, kl.high), histogram)

    def _found(
        self,
        window: int,
        estimate: float,
        deviation: float,
        ends: tuple[float, float],
        histogram: NoisyHistogram | None = None,
    ) -> WindowLook:
        above, below = ends[0] > self._monitor.threshold, ends[1] < self._monitor.threshold
        return WindowLook(
            window=window,
            estimate=estimate,
            noise_deviation=deviation,
            low=ends[0],
            high=ends[1],
            finding="above" if above else "below" if below else "unclear",
            simulated=self._noise.simulated,
            histogram=histogram,
        )

    def _paid(self, drawn: Callable[[], WindowLook]) -> WindowLook:
        name, event = None if self._outer is None else "look", self._monitor.event()
        return charged(event, drawn, self._noise, self._outer, name, self._reads, adjacency=Adjacency.REPLACE_ONE)

    def guarantee(self) -> Guarantee:
        """Returns the guarantee of the whole budget, which does not depend on the looks so far."""
        return self._ledger.guarantee()

    def reading(self, delta: float) -> OdometerReading:
        """Returns the cost of the looks so far, by an odometer: not a guarantee."""
        return self._ledger.reading(delta)

    def checkpoint(self) -> dict[str, object]:
        """Returns the state of the watch as a value for ``json.dumps``; it contains no data."""
        return seal(
            {"looks": self.looks},
            kind=_KIND,
            version=_VERSION,
            learner=self._monitor._identity(),
            simulated=self._noise.simulated,
        )
