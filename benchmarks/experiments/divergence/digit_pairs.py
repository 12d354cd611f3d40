"""The setting of the divergence experiments: one digit's patterns as the reference, another digit's as private data.

Half of the writers are public: a digit's smoothed patterns of theirs are a reference. The other half is private, and
the truth is the divergence from a reference to another digit's smoothed patterns in the whole private half: 90 pairs of
different digits. Of the private half a cohort is asked.

Errors are squared, against the truth. Where noise is added to an estimate, its variance is added to the error, rather
than noise drawn; where it is added to counts it is drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import CountLogarithm, Smoothed
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.made_up_populations import LabelledRecords, digit_patterns
from hockeystick.learners.divergence.noisy_estimates import estimates
from hockeystick.learners.divergence.query_average import Draw, QueryAverage
from hockeystick.learners.divergence.variance import kl
from hockeystick.mechanisms import Gaussian, SkellamShares

SEED = 20241124
COHORT = 179  # 1/20 of all writers
SAMPLES = 1000  # T


@frozen(eq=False)
class Pairs:
    """References and private data of every label, and the divergences between them.

    Attributes:
        references: Pi of each label, shape (labels, k).
        held: The private half's counts, by label.
        truths: KL(Pi of a || P of b), shape (labels, labels).
    """

    references: FloatArray
    held: tuple[ClientCounts, ...]
    truths: FloatArray

    @classmethod
    def of(cls, records: LabelledRecords, *, pseudo_count: float = 1.0) -> Pairs:
        """Clients with even numbers are public, those with odd numbers private."""
        public, private = np.arange(0, records.client_count, 2), np.arange(1, records.client_count, 2)
        labels = range(records.label_count)
        references = np.array([records.law(i, clients=public, pseudo_count=pseudo_count) for i in labels])
        laws = [records.law(i, clients=private, pseudo_count=pseudo_count) for i in labels]
        truths = np.array([[kl(pi, p) for p in laws] for pi in references])
        return cls(references, tuple(records.counts(i, clients=private) for i in labels), truths)

    @property
    def labels(self) -> list[tuple[int, int]]:
        """The pairs of different labels."""
        return list(itertools.permutations(range(len(self.held)), 2))

    def plan(
        self, a: int, b: int, rng: np.random.Generator, *, cohort: int, samples: int, logarithm: CountLogarithm
    ) -> QueryAverage:
        """Returns the public coins of one estimate: its symbols and its cohorts, weighted by draws as in the paper."""
        return QueryAverage.drawn(
            self.references[a],
            self.held[b].records(),
            samples=samples,
            rng=rng,
            cohort_size=cohort,
            logarithm=logarithm,
            weights="draws",
        )


@lru_cache(maxsize=2)
def digit_pairs(grid: tuple[int, int] = (2, 2), writers: int = 3580, pseudo_count: float = 1.0) -> Pairs:
    """The pairs of digits."""
    records = digit_patterns(np.random.default_rng(SEED), grid=grid, writers=writers)
    return Pairs.of(records, pseudo_count=pseudo_count)


# --- how much noise --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def unit_sigma(epsilon: float, delta: float) -> float:
    """Standard deviation of Gaussian noise for sensitivity 1."""
    return Gaussian.calibrated(epsilon=epsilon, delta=delta).sigma


def trusted_variance(sensitivity: float, epsilon: float, delta: float, *, auto: bool = True) -> float:
    """The variance of the noise in a trusted server's estimate; with ``auto`` Laplace's where that is less."""
    gaussian = (sensitivity * unit_sigma(epsilon, delta)) ** 2
    return min(gaussian, 2.0 * (sensitivity / epsilon) ** 2) if auto else gaussian


def pair_variance(
    sensitivities: tuple[float, float], multiplier: float, epsilon: float, delta: float, *, auto: bool = True
) -> float:
    """The variance of the noise in the estimate of a pair of sums, split best for this multiplier."""
    a, b = sensitivities[0], multiplier * sensitivities[1]
    gaussian = ((a + b) * unit_sigma(epsilon, delta)) ** 2
    laplace = 2.0 * (a ** (2 / 3) + b ** (2 / 3)) ** 3 / epsilon**2
    return min(gaussian, laplace) if auto else gaussian


def shared_noise(epsilon: float, delta: float) -> dict[str, float]:
    """The variance of the sum of Skellam shares for a fixed cohort that is asked for each symbol once."""
    # It depends on nothing else of the plan, and this one is the smallest.
    plan = QueryAverage(
        reference=[0.5, 0.5], symbols=[0, 1], shares=[0.5, 0.5], cohorts=[np.array([0])], client_records=[1]
    )
    return {"variance": DistributedKL.calibrated(plan, epsilon=epsilon, delta=delta).shares.variance()}


# --- errors ----------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Setting:
    """The setting of a trial.

    Attributes:
        epsilons, delta: Of each release.
        variances: Of the sum of the shares of noise on a count, one for each epsilon; see :func:`shared_noise`.
        multipliers: lambda.
        cohort, samples: Clients that are asked, and T.
        draws: Whether noise is calibrated to the symbols that were drawn, or to the worst.
        auto: Laplace noise where it has less variance than Gaussian.
        runs: Draws of noise on counts.
    """

    epsilons: tuple[float, ...]
    delta: float
    variances: tuple[float, ...]
    multipliers: tuple[float, ...] = (0.0,)
    cohort: int = COHORT
    samples: int = SAMPLES
    draws: tuple[Draw, ...] = ("realised",)
    auto: bool = True
    runs: int = 1
    logarithm: CountLogarithm = Smoothed()


Errors = Mapping[str, FloatArray]


def trial(pairs: Pairs, setting: Setting, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Squared errors of one draw of all coins, by model, shape (epsilons, pairs, multipliers).

    Models: "plain" without noise, "trusted DRAW" and "pair DRAW" for each draw, "dist"; "dist noise" is the mean square
    of what noise changes in the last, which for the others is the difference from "plain".
    """
    lam = np.array(setting.multipliers)
    shape = (len(setting.epsilons), len(pairs.labels), len(lam))
    names = [
        "plain",
        *(f"{model} {draw}" for model in ("trusted", "pair") for draw in setting.draws),
        "dist",
        "dist noise",
    ]
    found = {name: np.empty(shape) for name in names}
    for j, (a, b) in enumerate(pairs.labels):
        plan = pairs.plan(a, b, rng, cohort=setting.cohort, samples=setting.samples, logarithm=setting.logarithm)
        data, truth = pairs.held[b], float(pairs.truths[a, b])
        v, u = plan.sums(data)
        plain = (lam * u - v - truth) ** 2
        found["plain"][:, j] = plain
        for draw in setting.draws:
            moved = [plan.sensitivity(x, draw=draw) for x in setting.multipliers]
            both = plan.sum_sensitivities(draw=draw)
            for i, eps in enumerate(setting.epsilons):
                alone = [trusted_variance(s, eps, setting.delta, auto=setting.auto) for s in moved]
                split = [pair_variance(both, x, eps, setting.delta, auto=setting.auto) for x in setting.multipliers]
                found[f"trusted {draw}"][i, j] = plain + alone
                found[f"pair {draw}"][i, j] = plain + split
        counts = plan.counts(data)
        for i, variance in enumerate(setting.variances):
            noise = SkellamShares(variance, survivors=1).simulate(np.zeros_like(counts), rng, setting.runs)
            noisy = counts + noise
            at = [estimates(plan, noisy, x) for x in (0.0, 1.0)]  # linear in the multiplier
            drawn = at[0][:, np.newaxis] + np.outer(at[1] - at[0], lam)
            found["dist"][i, j] = ((drawn - truth) ** 2).mean(axis=0)
            found["dist noise"][i, j] = ((drawn - (lam * u - v)) ** 2).mean(axis=0)
    return found


def mean_errors(pairs: Pairs, setting: Setting, seed: Sequence[int], repetitions: int) -> dict[str, FloatArray]:
    """:func:`trial`, averaged over repetitions with coins of their own."""
    total: dict[str, FloatArray] = {}
    for rng in np.random.default_rng(list(seed)).spawn(repetitions):
        for name, errors in trial(pairs, setting, rng).items():
            total[name] = total.get(name, 0.0) + errors / repetitions
    return total
