"""The estimators of KL(Pi || P) as cases of the catalogue, with mutants that make the same claim.

The estimators have the worst coins and data (:mod:`hockeystick.audits.catalogue.divergence.views`), so that their
claims are attained, except in views that show less. A mutant is either an estimator with less noise, whose own event is
the truth, or one of :mod:`hockeystick.audits.catalogue.divergence.mutants`. Claims are whole curves, calibrated to
(1, 1e-5) unless a case says otherwise. Mistakes that cost utility, or that are in the accounting or in a result's
fields only, need other checks and are not here.

Source: Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478), Algorithms 1-3, corrected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
from attrs import evolve

from hockeystick.accounting import GaussianDP, SampledWithoutReplacement
from hockeystick.audits.catalogue.divergence.counts import counts_cases
from hockeystick.audits.catalogue.divergence.mutants import (
    MultiplierFromData,
    OneNoiseForBoth,
    SeededNoise,
    Sweep,
    WithoutSmoothing,
    classical_sigma,
    printed_sigma,
)
from hockeystick.audits.catalogue.divergence.views import (
    DELTA,
    FOUR,
    Shown,
    difference,
    kl_case,
    kl_subject,
    logs,
    mean,
    one_symbol,
    ratios,
    total,
    two_cells,
)
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.views import LossOf, exact_epsilon
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners.divergence import sensitivity
from hockeystick.learners.divergence.count_logarithms import AssumedCounts, Harmonic, Smoothed
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import AggregatedKL, TrustedKL
from hockeystick.mechanisms import Gaussian

_RARE_AND_FULL = np.array([2] + [1000] * 50)


def kl_cases() -> Iterator[Case]:
    """Yields the cases of the divergence estimators."""
    yield from trusted_cases()
    yield from pair_cases()
    yield from counts_cases()


# --- one number ------------------------------------------------------------------------------------------------------


def trusted_cases() -> Iterator[Case]:
    """Yields the cases of one published number."""
    correct: dict[str, Callable[[], Subject]] = {
        "kl-log-dominated": lambda: kl_subject(logged()),
        "kl-lambda-dominated": lambda: kl_subject(rare()),
        "kl-harmonic": lambda: kl_subject(trusted(one_symbol(logarithm=Harmonic()))),
        "kl-laplace": lambda: kl_subject(TrustedKL.calibrated(one_symbol(), epsilon=1.0, noise="laplace")),
        "kl-little-smoothing": lambda: kl_subject(thin()),
        "kl-distance-2": lambda: kl_subject(two_apart()),
        "kl-loose": lambda: kl_subject(loose(), delta=0.05),
        "kl-fixed-multiplier": lambda: kl_subject(fixed(), pair=two_cells(_RARE_AND_FULL), truth=0.0),
    }
    mutants: list[tuple[str, str, Callable[[], Subject], int]] = [
        ("kl-log-dominated", "sensitivity of the divergence", _for_the_divergence, 1_000),
        (
            "kl-log-dominated",
            "no smoothing",
            lambda: kl_subject(logged(), WithoutSmoothing(logged()), truth=math.inf),
            1_000,
        ),
        ("kl-log-dominated", "one seed", lambda: kl_subject(logged(), SeededNoise(logged()), truth=math.inf), 1_000),
        ("kl-log-dominated", "cohort taken for secret", _amplified, 16_000),
        ("kl-log-dominated", "a release for each multiplier", _swept, 1_000),
        ("kl-lambda-dominated", "logarithm's part alone", _without_linear_part, 1_000),
        ("kl-little-smoothing", "ln 2 all the same", _as_if_smoothed_by_one, 1_000),
        ("kl-distance-2", "variance as printed", _printed, 16_000),
        ("kl-loose", "classical noise", _classical, 64_000),
        ("kl-fixed-multiplier", "multiplier from data", _tuned, 1_000),
    ]
    for name, build in correct.items():
        yield kl_case(name, build)
        for owner, what, broken, samples in mutants:
            if owner == name:
                yield kl_case(f"{name}[{what}]", broken, samples)


def trusted(average: QueryAverage, *, epsilon: float = 1.0, delta: float = DELTA, multiplier: float = 0.0) -> TrustedKL:
    """Returns the estimator with Gaussian noise, for the realised draw of symbols."""
    return TrustedKL.calibrated(average, epsilon=epsilon, delta=delta, multiplier=multiplier, noise="gaussian")


@lru_cache
def logged() -> TrustedKL:
    """Returns an estimator in which a record moves the estimate by ln 2."""
    return trusted(one_symbol())


@lru_cache
def rare() -> TrustedKL:
    """Returns an estimator in which a record moves the estimate by nearly lambda/(N m) = 10."""
    return trusted(one_symbol(reference=(0.01, 0.99)), multiplier=1.0)


@lru_cache
def thin() -> TrustedKL:
    """Returns an estimator in which a record moves the estimate by ln 101."""
    return trusted(one_symbol(logarithm=Smoothed(0.01)))


@lru_cache
def two_apart() -> TrustedKL:
    """Returns an estimator in which a record moves the estimate by 2, calibrated to (0.5, 1e-5)."""
    return trusted(one_symbol(logarithm=Smoothed(1.0 / math.expm1(2.0))), epsilon=0.5)


@lru_cache
def loose() -> TrustedKL:
    """Returns an estimator calibrated to (10, 0.05)."""
    return trusted(one_symbol(), epsilon=10.0, delta=0.05)


@lru_cache
def fixed() -> TrustedKL:
    """Returns an estimator with all draws at the rare cell of counts (2, 50 x 1000), at the paper's multiplier."""
    reference = np.array([52] + [999] * 50) / _RARE_AND_FULL.sum()
    average = one_symbol(reference=tuple(reference), records=int(_RARE_AND_FULL.sum()), logarithm=AssumedCounts(2))
    return trusted(average, multiplier=3.256)


def with_sigma(estimator: TrustedKL, sigma: float) -> TrustedKL:
    """Returns the estimator with another standard deviation of its noise, and the event of it."""
    return evolve(estimator, mechanism=Gaussian(sigma, sensitivity=estimator.mechanism.sensitivity))


def _for_the_divergence() -> Subject:
    share = sensitivity.exact_kl(FOUR, Smoothed()) / math.log(2.0)
    return kl_subject(logged(), with_sigma(logged(), logged().noise_deviation * share))


def _amplified() -> Subject:
    secret = SampledWithoutReplacement(3580, 179, logged().event())
    return kl_subject(logged(), claim=Claim.curve(secret, DELTA), truth=exact_epsilon(logged().event(), DELTA))


def _swept() -> Subject:
    sweep = Sweep.calibrated(one_symbol(records=1000), epsilon=1.0, delta=DELTA)
    pair = sweep.estimators[0].worst_case_neighbours()
    return kl_subject(
        logged(), sweep, pair=pair, shown=Shown(sweep, mean), truth=exact_epsilon(sweep.cost(*pair), DELTA)
    )


def _without_linear_part() -> Subject:
    share = math.log(2.0) / rare().mechanism.sensitivity
    return kl_subject(rare(), with_sigma(rare(), rare().noise_deviation * share))


def _as_if_smoothed_by_one() -> Subject:
    return kl_subject(thin(), with_sigma(thin(), thin().noise_deviation * math.log(2.0) / math.log(101.0)))


def _printed() -> Subject:
    sigma = printed_sigma(epsilon=0.5, delta=DELTA, sensitivity=2.0, inside=True)
    return kl_subject(two_apart(), with_sigma(two_apart(), sigma))


def _classical() -> Subject:
    sigma = classical_sigma(epsilon=10.0, delta=0.05, sensitivity=math.log(2.0))
    return kl_subject(loose(), with_sigma(loose(), sigma), delta=0.05)


def _tuned() -> Subject:
    tuned = MultiplierFromData(fixed().average, fixed().noise_deviation)
    pair = two_cells(_RARE_AND_FULL)
    return kl_subject(fixed(), tuned, pair=pair, truth=exact_epsilon(tuned.cost(*pair), DELTA))


# --- two numbers -----------------------------------------------------------------------------------------------------


def pair_cases() -> Iterator[Case]:
    """Yields the cases of two published sums: together, each alone, their difference (the estimate) and their sum."""
    yield kl_case("kl-pair", lambda: kl_subject(both(), shown=LossOf(both(), both().worst_case_neighbours())))
    yield kl_case("kl-pair[calibrated to the estimate]", _halved, 16_000)
    for view in ("logs", "ratios", "difference", "sum"):
        yield kl_case(f"kl-pair:{view}", partial(_part, view))
    yield kl_case("kl-pair:logs[calibrated to the estimate]", _halved_logs, 32_000)
    yield kl_case("kl-pair:difference[one noise for both]", _one_noise, 1_000)


@lru_cache
def both() -> AggregatedKL:
    """Returns both sums with Gaussian noise, at the multiplier that makes the ratios' distance half the logarithms'."""
    average = one_symbol(reference=(0.5, 0.5))
    return AggregatedKL.calibrated(average, epsilon=1.0, delta=DELTA, multiplier=_half(average), noise="gaussian")


def _half(average: QueryAverage) -> float:
    a, b = average.sum_sensitivities()
    return a / (2.0 * b)


@lru_cache
def halves_of_one() -> AggregatedKL:
    """Returns the sums, each with half the variance that the estimate needs if it is published alone."""
    a, b = both().average.sum_sensitivities()
    half = Gaussian.calibrated(epsilon=1.0, delta=DELTA, sensitivity=a).sigma / math.sqrt(2.0)
    ratio = Gaussian(half / _half(both().average), sensitivity=b)
    return evolve(both(), logs=Gaussian(half, sensitivity=a), ratios=ratio)


def _part(view: str) -> Subject:
    lam = _half(both().average)
    reads: dict[str, tuple[Callable[[Any], Any], tuple[float, float]]] = {
        "logs": (logs, (1.0, 0.0)),
        "ratios": (ratios, (0.0, 1.0)),
        "difference": (partial(difference, multiplier=lam), (-1.0, lam)),
        "sum": (partial(total, multiplier=lam), (1.0, lam)),
    }
    read, weights = reads[view]
    here, there = (both().average.sums(data) for data in both().worst_case_neighbours())
    distance = abs(math.fsum(w * (x - y) for w, x, y in zip(weights, here, there, strict=True)))
    spread = math.hypot(weights[0] * _sigma(both().logs), weights[1] * _sigma(both().ratios))
    return kl_subject(both(), shown=Shown(both(), read), truth=exact_epsilon(GaussianDP(distance / spread), DELTA))


def _sigma(mechanism: object) -> float:
    return mechanism.sigma if isinstance(mechanism, Gaussian) else math.nan


def _halved() -> Subject:
    return kl_subject(both(), halves_of_one(), shown=LossOf(halves_of_one(), both().worst_case_neighbours()))


def _halved_logs() -> Subject:
    truth = exact_epsilon(halves_of_one().logs.event(), DELTA)
    return kl_subject(both(), halves_of_one(), shown=Shown(halves_of_one(), logs), truth=truth)


def _one_noise() -> Subject:
    broken = OneNoiseForBoth(both())
    return kl_subject(both(), broken, shown=Shown(broken, difference), truth=math.inf)
