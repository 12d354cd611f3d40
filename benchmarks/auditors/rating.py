"""Auditors audited: how often a bound refutes what is true, and how many samples it needs for what is false.

On targets whose privacy is known exactly (:mod:`benchmarks.auditors.targets`), two things are measured of an
estimator:

* **False alarms.** On a target that is as private as it claims, and no more, the claim may be refuted (or a lower bound
  on epsilon above it given) in at most a share alpha of audits. The share seen gets an exact Clopper-Pearson interval,
  whose confidence allows for all targets that are looked at. All of it above alpha: the estimator is *INVALID*. All of
  it below 1.25 alpha: *valid*. Else *undecided*: more replications would tell.
* **Samples.** The least n per data set, every sample counted, at which 90 % of audits refute a claim that is too small.
  It is found from powers at several n, and set against the optimum and the hard bound of
  :mod:`hockeystick.audits.bounds.sample_limits`.

A measurement is a pure function of its names, numbers and seed, so a long run can be resumed from what is finished.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

import attrs
import numpy as np
from attrs import frozen

from benchmarks.auditors.estimators import Estimator, Samples
from benchmarks.auditors.targets import AuditorTarget
from hockeystick.accounting import InvalidArgumentError
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
      alarms: of ``replications`` audits with ``samples`` outputs of each data set, at level ``alpha``.
      low, high: Clopper-Pearson interval of the false-alarm rate, all targets of the run together at 99.9 %.
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
      n90: outputs of each data set at which it refutes in 90 % of audits; infinite if not within 100 times the optimum.
      low, high: 95 % interval of ``n90``, from the number of replications.
      optimum: what the best test of one order of the data sets takes, to first order.
      optimum_both: what the best test of both orders takes.
      least: no test whatever takes fewer.
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
      samples: outputs of each data set, in each audit.
      targets: how many targets share the confidence of the interval.

    Raises:
      InvalidArgumentError: a number out of its domain, or an estimator that does not keep to its signature.
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
      replications: audits at each n; twice as many towards the end.
      most: largest n to try.
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
    """Returns what is to be said of an estimator from all targets: the worst."""
    judgements = {one.judgement for one in found}
    return "INVALID" if "INVALID" in judgements else "undecided" if "undecided" in judgements else "valid"


@frozen
class Settings:
    """What a run of measurements is made with; results of equal settings may be put together.

    Attributes:
      alpha: nominal level.
      samples: outputs of each data set in each audit for false alarms.
      replications: audits for each false-alarm rate; a tenth as many, at least 50, for each power.
      seed: of all random numbers.
    """

    alpha: float = 0.05
    samples: int = 500
    replications: int = 2000
    seed: int = 0


def rate(
    estimators: Sequence[Estimator],
    tight: Sequence[AuditorTarget],
    broken: Sequence[AuditorTarget],
    settings: Settings,
    *,
    finished: Iterable[FalseAlarms | Efficiency] = (),
) -> Iterator[FalseAlarms | Efficiency]:
    """Yields every measurement of every estimator, false alarms first, as it is made.

    Args:
      finished: results of an earlier run of the same settings; they are not yielded and not made again.
    """
    known = {(type(one), one.estimator, one.target) for one in finished}
    cells = [(True, one, target) for one in estimators for target in tight]
    cells += [(False, one, target) for one in estimators for target in broken]
    for correct, estimator, target in cells:
        if (FalseAlarms if correct else Efficiency, estimator.name, target.name) in known:
            continue
        if correct:
            yield measure_false_alarms(estimator, target, **attrs.asdict(settings), targets=max(1, len(tight)))
        else:
            times = max(50, settings.replications // 10)
            yield measure_efficiency(estimator, target, alpha=settings.alpha, replications=times, seed=settings.seed)


def to_dict(result: FalseAlarms | Efficiency) -> dict[str, Any]:
    """Returns plain values that JSON can hold; what is infinite is None."""
    plain = attrs.asdict(result)
    return {name: None if value == math.inf else value for name, value in plain.items()}


def from_dict(plain: dict[str, Any]) -> FalseAlarms | Efficiency:
    """Returns the result of :func:`to_dict`.

    Raises:
      InvalidArgumentError: fields are missing or unknown.
    """
    values: dict[str, Any] = {name: math.inf if value is None else value for name, value in plain.items()}
    try:
        return FalseAlarms(**values) if "alarms" in values else Efficiency(**values)
    except TypeError as error:
        raise InvalidArgumentError("result", plain, f"can't be read ({error})") from None


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
