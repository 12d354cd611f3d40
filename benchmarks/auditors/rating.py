"""Measures auditors: how often a bound refutes a true claim, and how many samples it needs to refute a false one.

Targets have a privacy that is known exactly (:mod:`benchmarks.auditors.targets`). Two properties of an estimator are
measured on them:

* **False alarms.** A claim that holds with equality may be refuted (or a lower bound on epsilon above it given) in at
  most a share alpha of audits. The observed share gets an exact Clopper-Pearson interval, whose confidence allows for
  all targets. An interval above alpha makes the estimator *INVALID*, one below 1.25 alpha *valid*. Otherwise it is
  *undecided*, and more replications would decide.
* **Samples.** The least n per data set, every sample counted, at which 90 % of audits refute a claim that is too small.
  It is found from powers at several n, and compared with the optimum and the hard bound of
  :mod:`hockeystick.audits.bounds.sample_limits`.

A measurement is a pure function of its names, numbers and seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

import numpy as np
from attrs import frozen

from benchmarks.auditors.estimators import Estimator, Samples
from benchmarks.auditors.targets import AuditorTarget
from hockeystick.accounting.validate import integer, probability
from hockeystick.audits.bounds.power_search import samples_for_power
from hockeystick.audits.bounds.sample_limits import Limit, klinf
from hockeystick.audits.bounds.two_counts import clopper_pearson

Judgement = Literal["valid", "INVALID", "undecided"]

POWER = 0.9
TOLERANCE = 1.25  # of the level: a rate that is surely below it counts as within
_FAMILY = 0.999  # confidence that no valid estimator is called invalid, over all targets
_LEAST, _STRETCH = 20, 100.0  # samples to start from, and how many times the optimum is tried
_DRAWN_AT_ONCE = 1 << 20


@frozen
class FalseAlarms:
    """How often an estimator refuted a claim that holds.

    Attributes:
        alarms: Refutations among ``replications`` audits with ``samples`` outputs of each data set, at level ``alpha``.
        low, high: Clopper-Pearson interval of the false-alarm rate, at 99.9 % for all targets of the run together.
    """

    estimator: str
    target: str
    alpha: float
    samples: int
    replications: int
    alarms: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """The share of audits that refuted."""
        return self.alarms / self.replications

    @property
    def judgement(self) -> Judgement:
        """Whether the level is kept, as far as the replications can tell."""
        if self.low > self.alpha:
            return "INVALID"
        return "valid" if self.high <= TOLERANCE * self.alpha else "undecided"


@frozen
class Efficiency:
    """How many samples an estimator needs.

    Attributes:
        n90: Outputs of each data set at which it refutes in 90 % of audits; infinite above 100 times the optimum.
        low, high: 95 % interval of ``n90``, from the number of replications.
        optimum: Samples of the best test of one order of the data sets, to first order.
        optimum_both: Samples of the best test of both orders.
        least: A lower bound for every test.
    """

    estimator: str
    target: str
    alpha: float
    n90: float
    low: float
    high: float
    optimum: float
    optimum_both: float
    least: float

    @property
    def ratio(self) -> float:
        """Samples against those of the best test of one order."""
        return self.n90 / self.optimum


def measure_false_alarms(
    estimator: Estimator,
    target: AuditorTarget,
    *,
    alpha: float = 0.05,
    samples: int = 500,
    replications: int = 2000,
    targets: int = 1,
    seed: int = 0,
) -> FalseAlarms:
    """Returns how often ``estimator`` refutes a target that is as private as it claims.

    Args:
        estimator: The estimator.
        target: A target whose claim holds with equality.
        alpha: The level.
        samples: Outputs of each data set, in each audit.
        replications: Number of audits.
        targets: Number of targets that share the confidence of the interval.
        seed: Seed of all random numbers.

    Raises:
        InvalidArgumentError: A number is out of its domain, or the estimator does not keep to its signature.
    """
    alpha = probability("alpha", alpha, open=True)
    samples, replications = integer("samples", samples, low=_LEAST), integer("replications", replications, low=1)
    targets = integer("targets", targets, low=1)
    alarms = _alarms(estimator, target, alpha, samples, replications, (seed, 0))
    low, high = clopper_pearson(alarms, replications, confidence=1 - (1 - _FAMILY) / targets)
    return FalseAlarms(
        estimator.name, target.name, alpha, samples, replications, alarms, low=float(low), high=float(high)
    )


def measure_efficiency(
    estimator: Estimator,
    target: AuditorTarget,
    *,
    alpha: float = 0.05,
    replications: int = 200,
    seed: int = 0,
    most: float = math.inf,
) -> Efficiency:
    """Returns how many samples ``estimator`` needs to refute a target that claims too little.

    See :func:`hockeystick.audits.bounds.power_search.samples_for_power`; the search starts at the optimum.

    Args:
        estimator: The estimator.
        target: A target whose claim is false.
        alpha: The level.
        replications: Number of audits at each n; twice as many towards the end.
        seed: Seed of all random numbers.
        most: Largest n to try.
    """
    alpha = probability("alpha", alpha, open=True)
    replications = integer("replications", replications, low=10)
    one, both = _limits(target)
    optimum = one.local(alpha, POWER)
    looks = 0

    def hits(n: int, times: int) -> int:
        nonlocal looks
        looks += 1
        return _alarms(estimator, target, alpha, n, times, (seed, 1, looks))

    found = samples_for_power(
        hits,
        max(_LEAST, math.ceil(optimum)),
        least=_LEAST,
        most=min(most, _STRETCH * optimum),
        level=alpha,
        power=POWER,
        replications=replications,
    )
    return Efficiency(
        estimator.name,
        target.name,
        alpha,
        *found,
        optimum=optimum,
        optimum_both=both.local(alpha, POWER),
        least=both.samples(alpha, POWER),
    )


def judge(found: Iterable[FalseAlarms]) -> Judgement:
    """Returns the worst judgement of an estimator over all targets."""
    judgements = {one.judgement for one in found}
    return "INVALID" if "INVALID" in judgements else "undecided" if "undecided" in judgements else "valid"


@lru_cache(maxsize=64)
def _limits(target: AuditorTarget) -> tuple[Limit, Limit]:
    return klinf(target.law, target.claim, both=False), klinf(target.law, target.claim)


def _alarms(
    estimator: Estimator,
    target: AuditorTarget,
    alpha: float,
    n: int,
    replications: int,
    seed: tuple[int, ...],
) -> int:
    """How many of the audits refuted. Outputs of many audits are drawn at once; they depend on the seed alone."""
    reads_event = estimator.reads == "event"
    claim = type(target.claim)(*target.point) if reads_event else target.claim
    bound = claim.epsilon * (1 + 1e-9) if target.factor == 1.0 else math.inf  # a bound above the truth is as wrong
    rng = np.random.default_rng([*seed, *target.name.encode()])
    alarms = done = 0
    while done < replications:
        runs = min(replications - done, max(1, _DRAWN_AT_ONCE // n))
        sides: tuple[Samples, Samples] = target.draw(rng, runs * n)
        if reads_event:
            sides = sides[0] <= target.event, sides[1] <= target.event
        for i in range(runs):
            refuted, lower = estimator(sides[0][i * n : i * n + n], sides[1][i * n : i * n + n], claim, alpha, rng)
            alarms += refuted or lower > bound
        done += runs
    return alarms
