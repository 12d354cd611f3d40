"""Alarms of drift whose rate of false alarms is bounded over all time, from the noisy histograms of windows.

Each window's histogram gives a p-value of the null, and their e-values multiply (``evidence``). Two nulls:

* *no drift*: the records of all windows are drawn from the reference;
* *drift within a radius*: the law of each window's records, which may change from window to window, is within a
  divergence τ of the reference. The cells that are watched are chosen from earlier windows.

Both need independent records: one of each person, in one window. Two equal records a person would make false alarms
certain, and windows that share records make them frequent, so both are refused.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import (
    SAME,
    AccountantGraph,
    Adjacency,
    Guarantee,
    InvalidArgumentError,
    InvalidDataError,
    Ledger,
    PrivacyEvent,
    RefinementError,
)
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import boolean, integer, one_of, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.stream_checkpoint import reading_a_state, refused, seal, unseal
from hockeystick.learners.divergence import sensitivity
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.drift.count_noise import LaplaceCounts
from hockeystick.learners.divergence.drift.evidence import Ball, exceeding, log_evidence, p_no_drift, p_within
from hockeystick.learners.divergence.drift.noisy_histogram import HistogramRelease, NoisyHistogram, checked_counts
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

_KIND, _VERSION = "checkpoint of a drift watch", 1


def _windows(value: object) -> int:
    return integer("windows", value, low=1)


def _within(value: object) -> float | None:
    return None if value is None else real("within", value, low=0.0, low_open=True)


def _false_alarms(value: object) -> float | None:
    return None if value is None else real("false_alarms", value, low=1e-12, high=0.5)


def _run_length(value: object) -> float | None:
    return None if value is None else real("run_length", value, low=2.0, high=1e12)


def _independent(value: object) -> bool:
    return boolean("independent", value)


def _simulations(value: object) -> int:
    return integer("simulations", value, low=99, high=10**6)


@frozen(kw_only=True, eq=False)
class WatchLook:
    """The published result for one window; see ``DriftWatch``.

    Attributes:
        window: The index of the window, in the order of the looks.
        p_value: The p-value of the null for this window; 1 where earlier windows point to no cells.
        evidence: What has been gathered against the null so far: an alarm is given at 1/false_alarms, or run_length.
        alarm: Whether there is an alarm. With ``false_alarms`` it stays; with ``run_length`` the evidence starts anew.
        histogram: The noisy histogram; ``drift_look`` computes divergences from it at no further cost.
        simulated: Whether the noise was simulated, so that it is not a release.
    """

    window: int
    p_value: float
    evidence: float
    alarm: bool
    histogram: NoisyHistogram
    simulated: bool


@frozen(kw_only=True, eq=False)
class DriftWatch:
    """Gives alarms of drift over time, with a bounded rate of false alarms, at ε for each record.

    Neighbours differ in the cell of one record (replace-one); which window a record is in is public. A record is in
    one window, so windows compose in parallel.

    Give one of the two rates. ``false_alarms`` = α: the probability that there is *ever* a false alarm is at most α.
    ``run_length`` = A: on average there are A windows or more until a false alarm, and later drift is found sooner.

    Args:
        reference: π > 0, shape (k,), public.
        epsilon: ε of each window's histogram.
        windows: The largest number of windows.
        false_alarms: α, up to 0.5.
        run_length: A.
        within: None for the null of no drift; otherwise τ, for drift of at most τ.
        divergence: The divergence that τ is of: "kl", "kl_reverse", "js", "psi", "chi2", "hellinger2" or "tv".
        independent: States that records are independent, one of each person and window. It is needed for bare counts;
            of ``ClientCounts`` it is checked that no client has two records.
        simulations: The number of simulated tables, for the null of no drift.

    Raises:
        InvalidArgumentError: an argument is outside its domain; not one of the rates is given.

    Example:
        >>> from hockeystick.learners import DriftWatch
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> watch = DriftWatch(reference=[0.5, 0.5], epsilon=1.0, windows=9, false_alarms=0.01, independent=True)
        >>> session = watch.start(noise=SimulationNoise(1), seed=1)
        >>> [session.look(counts).alarm for counts in ([500, 500], [510, 490], [900, 100], [910, 90])]
        [False, False, False, True]
    """

    reference: FloatArray = field(converter=sensitivity.reference, repr=False)
    epsilon: float = field(converter=arguments.epsilon)
    windows: int = field(converter=_windows)
    false_alarms: float | None = field(default=None, converter=_false_alarms)
    run_length: float | None = field(default=None, converter=_run_length)
    within: float | None = field(default=None, converter=_within)
    divergence: Ball = "kl"
    independent: bool = field(default=False, converter=_independent)
    simulations: int = field(default=999, converter=_simulations)

    def __attrs_post_init__(self) -> None:
        if (self.false_alarms is None) == (self.run_length is None):
            reason = "is given, and so is run_length" if self.run_length else "is not given, nor is run_length"
            raise InvalidArgumentError("false_alarms", self.false_alarms, reason, "give one of them")
        one_of("divergence", self.divergence, "kl", "kl_reverse", "js", "psi", "chi2", "hellinger2", "tv")

    def mechanism(self, records: int) -> HistogramRelease:
        """Returns the mechanism of a window of N records."""
        return HistogramRelease.calibrated(cells=len(self.reference), epsilon=self.epsilon, records=records)

    def event(self) -> PrivacyEvent:
        """Returns the cost of one look for the records of its window, which does not depend on their number."""
        return self.mechanism(1).event()

    def graph(self) -> AccountantGraph:
        """Returns the plan: a histogram of each window, of disjoint data."""
        graph = AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE,
            pinned=True,
            assumptions=(
                "neighbours differ in the symbol of one record; in which window a record is is public",
                "the server, which is trusted, sees the counts",
            ),
        ).source("windows", size=self.windows)
        reach = SAME if self.windows > 1 else None
        return graph.release("look", self.event(), reads=("windows",), reach=reach)

    def start(
        self,
        *,
        seed: int | None = None,
        noise: Noise | None = None,
        ledger: AnyLedger | None = None,
        reads: Iterable[str] | None = None,
    ) -> WatchSession:
        """Returns a session that looks at one window after the other.

        Args:
            seed: That of the public simulations; by default fresh entropy. Each window has simulations of its own.
            noise: ``SimulationNoise`` runs it repeatably; the output is then not a release.
            ledger: A ledger that each look is charged to as "look".
            reads: The sources that a look reads, for a ``FilteredLedger``.
        """
        entropy = np.random.SeedSequence().entropy if seed is None else integer("seed", seed, low=0)
        assert isinstance(entropy, int)
        return WatchSession(self, entropy, check_noise(noise), ledger, reads)

    def resume(
        self,
        checkpoint: object,
        *,
        noise: Noise | None = None,
        ledger: AnyLedger | None = None,
        reads: Iterable[str] | None = None,
    ) -> WatchSession:
        """Returns the session that wrote a checkpoint, for instance on the day before; arguments as for ``start``.

        Raises:
            InvalidArgumentError: ``checkpoint`` is not a checkpoint of this watch, or was changed.
        """
        source = check_noise(noise)
        body = unseal(checkpoint, kind=_KIND, version=_VERSION, learner=self._identity(), simulated=source.simulated)
        with reading_a_state():
            found = WatchSession(self, int(body["entropy"]), source, ledger, reads)
            found._restore(body)
        return found

    def _identity(self) -> _Identity:
        digest = hashlib.sha256(self.reference.tobytes()).hexdigest()
        return _Identity(f"{self!r} of the reference {digest}")

    @property
    def bar(self) -> float:
        """The evidence at which there is an alarm."""
        return 1.0 / self.false_alarms if self.false_alarms is not None else self.run_length or math.inf


@frozen
class _Identity:
    """The watch that a checkpoint belongs to."""

    text: str


class WatchSession:
    """One watch, started by ``DriftWatch.start``: looks at windows in order, each charged before noise is drawn.

    See ``DriftWatch``.
    """

    def __init__(
        self,
        watch: DriftWatch,
        entropy: int,
        noise: Noise,
        ledger: AnyLedger | None,
        reads: Iterable[str] | None,
    ) -> None:
        self._watch, self._entropy, self._noise = watch, entropy, noise
        self._ledger = Ledger(watch.graph())
        self._outer, self._reads = ledger, None if reads is None else tuple(reads)
        self._log_evidence = -math.inf if watch.false_alarms is None else 0.0
        self._alarmed = False
        self._past, self._past_records, self._past_variance = np.zeros(len(watch.reference)), 0, 0.0
        self._seen: set[int] = set()

    @property
    def looks(self) -> int:
        """The number of looks so far."""
        return self._ledger.recorded("look")

    def look(self, data: npt.ArrayLike | ClientCounts) -> WatchLook:
        """Publishes the noisy histogram of the next window, and whether there is an alarm.

        Args:
            data: ``ClientCounts`` of the window, whose clients have the same places in all windows; or bare counts
                (k,), if the watch states that records are independent.

        Raises:
            RefinementError: the plan is for no further window; nothing is drawn.
            InvalidDataError: the data do not fit, a client has two records, or was in an earlier window.
            HockeystickError: the outer ledger refuses.
        """
        watch, window = self._watch, self.looks
        if window >= watch.windows:
            reason = f"this would be window {window + 1} of a watch that is for {watch.windows}"
            raise RefinementError("look", reason)
        self._ledger.check("look")
        counts, persons = self._checked(data)
        mechanism = watch.mechanism(int(counts.sum()))

        def drawn() -> NoisyHistogram:
            self._ledger.record("look", simulated=self._noise.simulated)
            return mechanism.release(counts, noise=self._noise)

        name = None if self._outer is None else "look"
        found = charged(
            watch.event(), drawn, self._noise, self._outer, name, self._reads, adjacency=Adjacency.REPLACE_ONE
        )
        self._seen.update(persons)
        return self._judged(window, found)

    def _checked(self, data: Any) -> tuple[IntArray, list[int]]:
        counts = checked_counts(data, len(self._watch.reference))
        if self._watch.independent:
            return counts, []
        if not isinstance(data, ClientCounts):
            reason = "are bare counts, which do not show that no person has two records"
            raise InvalidDataError("data", "...", reason, "give ClientCounts, or state independent=True")
        each = data.records()
        if each.max() > 1:
            reason = f"has {int((each > 1).sum())} clients with more than one record, which are not independent"
            raise InvalidDataError(
                "data", "...", reason, "keep one of each, for instance by ClientCounts.capped(1, rng)"
            )
        persons = np.flatnonzero(each).tolist()
        again = len(self._seen.intersection(persons))
        if again:
            reason = f"has {again} clients of earlier windows, so that windows are not independent"
            raise InvalidDataError(
                "data", "...", reason, "leave them out, or state independent=True if they are others"
            )
        return counts, persons

    def _judged(self, window: int, histogram: NoisyHistogram) -> WatchLook:
        """Adds a window's evidence: a function of published counts and public simulations."""
        watch, noise = self._watch, histogram.noise
        assert isinstance(noise, LaplaceCounts)
        p_value, gained = 1.0, 0.0
        if watch.within is None:
            rng = np.random.default_rng([self._entropy, window])
            p_value = p_no_drift(watch.reference, histogram.records, noise, histogram.counts, rng, watch.simulations)
            gained = log_evidence(p_value)
        else:
            own = exceeding(self._past, self._past_records, watch.reference, self._past_variance)
            if own.any() and not own.all():
                p_value = p_within(
                    float(watch.reference[own].sum()),
                    histogram.records,
                    noise,
                    int(own.sum()),
                    float(histogram.counts[own].sum()),
                    ball=watch.divergence,
                    radius=watch.within,
                )
                gained = log_evidence(p_value)
        self._past = self._past + histogram.counts
        self._past_records += histogram.records
        self._past_variance += float(noise.variances(np.zeros(1))[0])
        return self._look_of(window, histogram, p_value, gained)

    def _look_of(self, window: int, histogram: NoisyHistogram, p_value: float, gained: float) -> WatchLook:
        watch = self._watch
        if watch.false_alarms is None:
            self._log_evidence = float(np.logaddexp(self._log_evidence, 0.0))
        self._log_evidence += gained
        evidence = math.exp(min(self._log_evidence, 700.0))
        crossed = self._log_evidence >= math.log(watch.bar)
        self._alarmed = crossed or (self._alarmed and watch.false_alarms is not None)
        if crossed and watch.false_alarms is None:
            self._log_evidence = -math.inf
        return WatchLook(
            window=window,
            p_value=p_value,
            evidence=evidence,
            alarm=self._alarmed,
            histogram=histogram,
            simulated=histogram.simulated,
        )

    def guarantee(self) -> Guarantee:
        """Returns the guarantee of the whole watch, which does not depend on the looks so far."""
        return self._ledger.guarantee()

    def checkpoint(self) -> dict[str, object]:
        """Returns the state of the watch as a value for ``json.dumps``; of the data it contains public sizes alone."""
        found = -1e300 if math.isinf(self._log_evidence) else self._log_evidence
        body = {
            "looks": self.looks,
            "entropy": str(self._entropy),
            "evidence": found,
            "alarmed": self._alarmed,
            "past": [int(count) for count in self._past],
            "past_records": self._past_records,
            "past_variance": self._past_variance,
            "seen": sorted(self._seen),
        }
        return seal(
            body,
            kind=_KIND,
            version=_VERSION,
            learner=self._watch._identity(),
            simulated=self._noise.simulated,
        )

    def _restore(self, body: Mapping[str, Any]) -> None:
        looks = int(body["looks"])
        if not 0 <= looks <= self._watch.windows or len(body["past"]) != len(self._past):
            raise refused("does not contain a valid state")
        if looks:
            self._ledger.record("look", count=looks, simulated=self._noise.simulated)
        found = float(body["evidence"])
        self._log_evidence = -math.inf if found < -1e299 else found
        self._alarmed = bool(body["alarmed"])
        self._past = np.array(body["past"], dtype=np.float64)
        self._past_records, self._past_variance = int(body["past_records"]), float(body["past_variance"])
        self._seen = {int(person) for person in body["seen"]}
