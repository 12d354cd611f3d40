"""Every bound of this package under one signature, to be rated beside one another and beside the bounds of others.

An estimator is ``estimate(samples0, samples1, claim, alpha, rng) -> (refuted, epsilon_lower)``:

* ``samples0``, ``samples1``: independent outputs (numbers, shape (n,)) on two neighbouring data sets, and all that it
  gets: outputs that choose an event count too. Small numbers are typical of the first, large ones of the second.
* ``claim``: a :class:`hockeystick.audits.claims.claim.Claim`; ``alpha``: the largest probability with which a true
  claim may be refuted.
* ``rng``: the source of all its randomness.
* ``refuted``: whether the claim is refuted; ``epsilon_lower``: a lower bound, at level alpha, on epsilon at
  ``claim.delta``.

An estimator that ``reads`` the event is given the best one: its samples are bools, whether the event happened (it is
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
from hockeystick.audits.bounds.whole_curve import Method, curve_bounds
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.fixed_sample import audit
from hockeystick.audits.one_run.model_based import estimate_sum_statistic
from hockeystick.audits.one_run.one_run import Rule, one_run_verdict
from hockeystick.audits.sequential.audit import sequential_audit
from hockeystick.audits.targets.recorded import Recorded

Samples = npt.NDArray[Any]
Rng = np.random.Generator
Answer = tuple[bool, float]
Estimate = Callable[[Samples, Samples, Claim, float, Rng], Answer]


@frozen
class Estimator:
    """A bound to be rated.

    Attributes:
        name: Its name, which is unique.
        estimate: The function; see the module for its signature.
        reads: "outputs", or "event" for an estimator that is given the best event.
        assumes: Its assumption beyond independent samples; empty for none.
    """

    name: str
    estimate: Estimate
    reads: Literal["outputs", "event"] = "outputs"
    assumes: str = ""

    def __call__(self, samples0: Samples, samples1: Samples, claim: Claim, alpha: float, rng: Rng) -> Answer:
        """Returns the answer, checked.

        Raises:
            InvalidArgumentError: It is not a pair of a bool and a number (which may be infinite, not NaN).
        """
        answer = self.estimate(samples0, samples1, claim, alpha, rng)
        try:
            refuted, bound = answer
        except (TypeError, ValueError):
            raise InvalidArgumentError(self.name, answer, "is not a pair", "return (refuted, epsilon_lower)") from None
        if not isinstance(refuted, (bool, np.bool_)):
            raise InvalidArgumentError(self.name, refuted, "is not a bool", "return (refuted, epsilon_lower)")
        return bool(refuted), real(f"{self.name}: epsilon_lower", bound, allow_inf=True)


def whole_audit(kind: type[Recorded] = Recorded, **options: Any) -> Estimate:
    """Returns the whole audit, with options of ``hockeystick.audit``; it chooses an event on part of the samples."""

    def estimate(s0: Samples, s1: Samples, claim: Claim, alpha: float, rng: Rng) -> Answer:
        target = kind(s0, s1)
        verdict = audit(target, claim=claim, samples=target.left, rng=rng, confidence=1 - alpha, **options)
        return verdict.refuted, verdict.epsilon_lower

    return estimate


def event_given(bound: Literal["joint", "rectangle"]) -> Estimate:
    """Returns a bound from the counts of a given event.

    It is the joint one (``bounds.two_counts.frontier``), or the one of two Clopper-Pearson bounds at alpha/2 each
    (``bounds.two_counts.rectangle``).
    """

    def estimate(s0: Samples, s1: Samples, claim: Claim, alpha: float, rng: Rng) -> Answer:
        counts = int(s0.sum()), len(s0), int(s1.sum()), len(s1)
        region: Region
        if bound == "joint":
            region = frontier(*counts, slope=math.exp(min(claim.epsilon, 25.0)), alpha=alpha)
        else:
            region = rectangle(*counts, alpha=alpha)
        return any(region.refutes(*point) for point in claim.points), region.epsilon(claim.delta)

    return estimate


def curves(method: Method) -> Estimate:
    """Returns bounds on the whole curve: by up to 17 events ("joint"), or by all thresholds at once ("band")."""

    def estimate(s0: Samples, s1: Samples, claim: Claim, alpha: float, rng: Rng) -> Answer:
        found = curve_bounds(s0, s1, confidence=1 - alpha, method=method, rng=rng)
        return found.refutes(claim), found.epsilon(claim.delta)

    return estimate


def bets(**options: Any) -> Estimate:
    """Returns the sequential audit, which bets on events until the capital or the samples are gone."""

    def estimate(s0: Samples, s1: Samples, claim: Claim, alpha: float, rng: Rng) -> Answer:
        most = min(len(s0), len(s1))
        verdict = sequential_audit(Recorded(s0, s1), claim=claim, alpha=alpha, most_samples=most, rng=rng, **options)
        return verdict.refuted, verdict.epsilon_lower

    return estimate


def canaries(samples0: Samples, samples1: Samples, rng: Rng) -> tuple[Samples, Samples] | None:
    """Returns scores of canaries, and which of them were included, by fair coins.

    The score of an included canary is an output on the first data set, of any other one on the second. Nearly all
    outputs are used. Where the coins need more of one side than there are (3 in 100,000), it returns None.
    """
    n = min(len(samples0), len(samples1))
    included = rng.random(2 * n - math.ceil(4 * math.sqrt(2 * n))) < 0.5
    inside = int(included.sum())
    if inside > n or len(included) - inside > n:
        return None
    scores = np.empty(len(included))
    scores[included], scores[~included] = samples0[:inside], samples1[: len(included) - inside]
    return -scores, included


def one_run(rule: Rule | tuple[float, float] = "held-out") -> Estimate:
    """Returns the bound of guesses which canaries of one run were included; here canaries are independent.

    Args:
        rule: A rule of ``one_run_verdict``, or the shares of all canaries that are guessed in and out.
    """

    def estimate(s0: Samples, s1: Samples, claim: Claim, alpha: float, rng: Rng) -> Answer:
        tossed = canaries(s0, s1, rng)
        if tossed is None:
            return False, 0.0
        size = len(tossed[0])
        fixed = (int(size * rule[0]), int(size * rule[1])) if isinstance(rule, tuple) else rule
        verdict = one_run_verdict(claim, *tossed, rule=fixed, confidence=1 - alpha)
        return verdict.refuted, verdict.epsilon_lower

    return estimate


def sum_statistic(s0: Samples, s1: Samples, claim: Claim, alpha: float, rng: Rng) -> Answer:
    """Returns the interval of a Gaussian model (``one_run.model_based``), as if it were a bound."""
    tossed = canaries(s0, s1, rng) if claim.delta > 0 else None
    if tossed is None:  # a Gaussian has no finite epsilon at delta = 0
        return False, 0.0
    low = estimate_sum_statistic(*tossed, delta=claim.delta, confidence=1 - alpha).low
    return low > claim.epsilon, low


ESTIMATORS: tuple[Estimator, ...] = (
    Estimator("audit", whole_audit()),
    Estimator("event given", event_given("joint"), reads="event"),
    Estimator("event given, rectangle", event_given("rectangle"), reads="event"),
    Estimator("curve, joint", curves("joint")),
    Estimator("curve, band", curves("band")),
    Estimator("sequential", bets()),
    Estimator("sequential, event given", bets(events=np.asarray), reads="event"),
    Estimator("one run", one_run()),
    Estimator("sum statistic", sum_statistic, assumes="scores are normal, of one variance"),
)


def estimator(name: str) -> Estimator:
    """Returns the estimator of that name.

    Raises:
        InvalidArgumentError: There is none.
    """
    for known in ESTIMATORS:
        if known.name == name:
            return known
    names = ", ".join(repr(known.name) for known in ESTIMATORS)
    raise InvalidArgumentError("estimator", name, "is unknown", f"give one of {names}, or module:callable")
