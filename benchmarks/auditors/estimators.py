"""Every bound of this package under one signature, so that they can be rated side by side, and with those of others.

An estimator is ``estimate(samples0, samples1, claim, alpha, rng) -> (refuted, epsilon_lower)``:

* ``samples0``, ``samples1``: independent outputs (numbers, shape (n,)) on two neighbouring data sets, all that it gets:
  what it spends on choosing an event counts too. Small numbers are typical of the first, large ones of the second.
* ``claim``: a :class:`hockeystick.audits.claims.claim.Claim`; ``alpha``: the probability, at most, with which a true
  claim may be refuted.
* ``rng``: all of its randomness.
* ``refuted``: whether the claim is; ``epsilon_lower``: a lower bound, at level alpha, on epsilon at ``claim.delta``.

An estimator that ``reads`` the event is told the best one: its samples are bools, whether the event happened (it is
likelier on the first data set), and its claim is the one point that the event refutes soonest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import real
from hockeystick.audits.bounds.two_counts import Region, frontier, rectangle
from hockeystick.audits.bounds.whole_curve import curve_bounds
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.fixed_sample import audit
from hockeystick.audits.one_run.model_based import estimate_sum_statistic
from hockeystick.audits.one_run.one_run import one_run_verdict
from hockeystick.audits.sequential.audit import sequential_audit
from hockeystick.audits.targets.recorded import Recorded

Samples = npt.NDArray[Any]
Estimate = Callable[[Samples, Samples, Claim, float, np.random.Generator], tuple[bool, float]]


@frozen
class Estimator:
    """A bound to be rated.

    Attributes:
      name: unique.
      estimate: the signature is the module's.
      reads: "outputs", or "event": the best event is given.
      assumes: what it rests on beyond independent samples; empty where it is valid without.
    """

    name: str
    estimate: Estimate
    reads: Literal["outputs", "event"] = "outputs"
    assumes: str = ""

    def __call__(
        self, samples0: Samples, samples1: Samples, claim: Claim, alpha: float, rng: np.random.Generator
    ) -> tuple[bool, float]:
        """Returns what the estimator says, checked.

        Raises:
          InvalidArgumentError: it did not return a bool and a number (which may be infinite, not NaN).
        """
        said = self.estimate(samples0, samples1, claim, alpha, rng)
        try:
            refuted, bound = said
        except (TypeError, ValueError):
            raise InvalidArgumentError(self.name, said, "is no pair", "return (refuted, epsilon_lower)") from None
        if not isinstance(refuted, (bool, np.bool_)):
            raise InvalidArgumentError(self.name, refuted, "is no bool", "return (refuted, epsilon_lower)")
        return bool(refuted), real(f"{self.name}: epsilon_lower", bound, allow_inf=True)


def _by_region(region: Region, claim: Claim) -> tuple[bool, float]:
    return any(region.refutes(*point) for point in claim.points), region.epsilon(claim.delta)


def event_given(
    samples0: Samples, samples1: Samples, claim: Claim, alpha: float, rng: np.random.Generator
) -> tuple[bool, float]:
    """The joint bound (:func:`hockeystick.audits.bounds.two_counts.frontier`) of an event that is given."""
    slope = math.exp(min(claim.epsilon, 25.0))
    counts = int(samples0.sum()), len(samples0), int(samples1.sum()), len(samples1)
    return _by_region(frontier(*counts, slope=slope, alpha=alpha), claim)


def event_given_rectangle(
    samples0: Samples, samples1: Samples, claim: Claim, alpha: float, rng: np.random.Generator
) -> tuple[bool, float]:
    """Two Clopper-Pearson bounds at alpha/2 each (``bounds.two_counts.rectangle``) of an event that is given."""
    counts = int(samples0.sum()), len(samples0), int(samples1.sum()), len(samples1)
    return _by_region(rectangle(*counts, alpha=alpha), claim)


def held_out(
    samples0: Samples, samples1: Samples, claim: Claim, alpha: float, rng: np.random.Generator
) -> tuple[bool, float]:
    """The whole audit (``hockeystick.audit``): it chooses an event on some of the samples and bounds it on the rest."""
    target = Recorded(samples0, samples1)
    verdict = audit(target, claim=claim, samples=target.left, rng=rng, confidence=1 - alpha)
    return verdict.refuted, verdict.epsilon_lower


def curve_joint(
    samples0: Samples, samples1: Samples, claim: Claim, alpha: float, rng: np.random.Generator
) -> tuple[bool, float]:
    """Bounds on the whole curve by up to 17 events at once (``bounds.whole_curve.curve_bounds``, "joint")."""
    found = curve_bounds(samples0, samples1, confidence=1 - alpha, method="joint", rng=rng)
    return found.refutes(claim), found.epsilon(claim.delta)


def curve_band(
    samples0: Samples, samples1: Samples, claim: Claim, alpha: float, rng: np.random.Generator
) -> tuple[bool, float]:
    """Bounds on the whole curve by all thresholds at once (``bounds.whole_curve.curve_bounds``, "band")."""
    found = curve_bounds(samples0, samples1, confidence=1 - alpha, method="band", rng=rng)
    return found.refutes(claim), found.epsilon(claim.delta)


def sequential(
    samples0: Samples, samples1: Samples, claim: Claim, alpha: float, rng: np.random.Generator
) -> tuple[bool, float]:
    """Bets on learned events until the money or the samples are gone (``sequential.audit.sequential_audit``)."""
    target = Recorded(samples0, samples1)
    verdict = sequential_audit(
        target, claim=claim, alpha=alpha, most_samples=min(map(len, (samples0, samples1))), rng=rng
    )
    return verdict.refuted, verdict.epsilon_lower


def sequential_event_given(
    samples0: Samples, samples1: Samples, claim: Claim, alpha: float, rng: np.random.Generator
) -> tuple[bool, float]:
    """The same, on an event that is given."""
    target = Recorded(samples0, samples1)
    most = min(map(len, (samples0, samples1)))
    verdict = sequential_audit(target, claim=claim, alpha=alpha, most_samples=most, rng=rng, events=np.asarray)
    return verdict.refuted, verdict.epsilon_lower


def canaries(samples0: Samples, samples1: Samples, rng: np.random.Generator) -> tuple[Samples, Samples] | None:
    """Scores of canaries that were in by fair coins: an output on the first data set if so, else one on the second.

    Nearly all outputs are used. Where the coins ask for more of a side than there are (3 in 100,000), None.
    """
    n = min(len(samples0), len(samples1))
    included = rng.random(2 * n - math.ceil(4 * math.sqrt(2 * n))) < 0.5
    inside = int(included.sum())
    if inside > n or len(included) - inside > n:
        return None
    scores = np.empty(len(included))
    scores[included], scores[~included] = samples0[:inside], samples1[: len(included) - inside]
    return -scores, included


def one_run(
    samples0: Samples, samples1: Samples, claim: Claim, alpha: float, rng: np.random.Generator
) -> tuple[bool, float]:
    """Guesses which canaries of one run were in (``one_run.one_run_verdict``); here canaries are independent."""
    tossed = canaries(samples0, samples1, rng)
    if tossed is None:
        return False, 0.0
    verdict = one_run_verdict(claim, *tossed, confidence=1 - alpha)
    return verdict.refuted, verdict.epsilon_lower


def sum_statistic(
    samples0: Samples, samples1: Samples, claim: Claim, alpha: float, rng: np.random.Generator
) -> tuple[bool, float]:
    """The interval of a Gaussian model (``one_run.model_based.estimate_sum_statistic``), as if it were a bound."""
    tossed = canaries(samples0, samples1, rng) if claim.delta > 0 else None
    if tossed is None:  # a Gaussian has no finite epsilon at delta = 0
        return False, 0.0
    low = estimate_sum_statistic(*tossed, delta=claim.delta, confidence=1 - alpha).low
    return low > claim.epsilon, low


ESTIMATORS: tuple[Estimator, ...] = (
    Estimator("audit", held_out),
    Estimator("event given", event_given, reads="event"),
    Estimator("event given, rectangle", event_given_rectangle, reads="event"),
    Estimator("curve, joint", curve_joint),
    Estimator("curve, band", curve_band),
    Estimator("sequential", sequential),
    Estimator("sequential, event given", sequential_event_given, reads="event"),
    Estimator("one run", one_run),
    Estimator("sum statistic", sum_statistic, assumes="scores are normal, of one variance"),
)


def estimator(name: str) -> Estimator:
    """Returns the estimator of that name.

    Raises:
      InvalidArgumentError: there is none.
    """
    for known in ESTIMATORS:
        if known.name == name:
            return known
    names = ", ".join(repr(known.name) for known in ESTIMATORS)
    raise InvalidArgumentError("estimator", name, "is unknown", f"give one of {names}, or module:callable")
