"""Estimators of KL(Pi || P) with mistakes that no parameter of an estimator can express.

Mutants that only have too little noise are estimators themselves, sampled under another estimator's claim; they are in
:mod:`hockeystick.audits.catalogue.divergence.cases` and :mod:`hockeystick.audits.catalogue.divergence.counts`. The
mutants here share, fold or seed the noise, add it in the wrong place, or compute another number. Most are printed in,
or suggested by, Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478) or its experiments.

Each has ``simulate(data, rng, runs)`` with runs on the leading axis. ``event()`` or ``cost(data0, data1)``, if defined,
is the true cost. The functions at the end give the constants of printed noise.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting import GaussianDP, PrivacyEvent, compose
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import AggregatedKL, TrustedKL
from hockeystick.learners.divergence.variance import printed_multiplier

# --- one number ------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class WithoutSmoothing:
    """The estimate with logarithms of unsmoothed counts, infinite for a count of 0."""

    estimator: TrustedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` estimates."""
        average = self.estimator.average
        p = average.counts(data) / average.records[0]
        with np.errstate(divide="ignore"):
            logs = np.log(p / average.reference[average.symbols])
        return np.asarray(self.estimator.mechanism.simulate(0.0, rng, runs) - average.shares @ logs)


@frozen(eq=False)
class SeededNoise:
    """Every release has the same noise, from a constant seed."""

    estimator: TrustedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the same estimate ``runs`` times."""
        return np.full(runs, self.estimator.simulate(data, np.random.default_rng(2024), 1)[0])


@frozen(eq=False)
class Sweep:
    """One release for each multiplier of a grid, to find the best; each is charged as if it were the only one."""

    estimators: tuple[TrustedKL, ...]

    @classmethod
    def calibrated(cls, average: QueryAverage, *, epsilon: float, delta: float) -> Sweep:
        """Returns 41 releases at the multipliers 0, 0.05, ..., 2, the grid of the paper."""
        grid = [step / 20 for step in range(41)]
        return cls(
            tuple(
                TrustedKL.calibrated(average, epsilon=epsilon, delta=delta, multiplier=lam, noise="gaussian")
                for lam in grid
            )
        )

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns all estimates of each run, shape (runs, 41)."""
        return np.stack([one.simulate(data, rng, runs) for one in self.estimators], axis=1)

    def cost(self, data0: ClientCounts, data1: ClientCounts) -> PrivacyEvent:
        """Returns the event of the mean of all estimates, on two data sets."""
        moves = [
            one.average.value(data0, one.multiplier) - one.average.value(data1, one.multiplier)
            for one in self.estimators
        ]
        spread = math.hypot(*(one.noise_deviation for one in self.estimators))
        return GaussianDP(abs(math.fsum(moves)) / spread)


@frozen(eq=False)
class MultiplierFromData:
    """The estimate at the paper's multiplier J/(alpha - 1) of the data themselves, with noise for a fixed one."""

    average: QueryAverage
    sigma: float

    def value(self, data: ClientCounts) -> float:
        """Returns the estimate without noise."""
        p = data.total() / data.total().sum()
        return self.average.value(data, printed_multiplier(self.average.reference, p))

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` estimates."""
        return np.asarray(rng.normal(self.value(data), self.sigma, runs))

    def cost(self, data0: ClientCounts, data1: ClientCounts) -> PrivacyEvent:
        """Returns the exact event on two data sets."""
        return GaussianDP(abs(self.value(data0) - self.value(data1)) / self.sigma)


# --- two numbers -----------------------------------------------------------------------------------------------------


@frozen(eq=False)
class OneNoiseForBoth:
    """A = V + noise and B = lambda*U + noise, with one draw for both, as printed."""

    estimator: AggregatedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` pairs, shape (runs, 2)."""
        v, u = self.estimator.average.sums(data)
        noise = self.estimator.logs.simulate(0.0, rng, runs)
        return np.stack([v + noise, u + noise], axis=1)


# --- noisy counts ----------------------------------------------------------------------------------------------------


def _noise(
    plan: DistributedKL, data: ClientCounts, rng: np.random.Generator, runs: int
) -> tuple[FloatArray, FloatArray]:
    """Returns the counts, shape (u,), and noise for ``runs`` releases, shape (runs, u)."""
    counts = plan.average.counts(data).astype(np.float64)
    return counts, plan.simulate(data, rng, runs) - counts


@frozen(eq=False)
class FoldedNoise:
    """Adds the absolute value of the noise."""

    plan: DistributedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` vectors of counts, shape (runs, u)."""
        counts, noise = _noise(self.plan, data, rng, runs)
        return np.asarray(counts + np.abs(noise))


@frozen(eq=False)
class OneNoiseForAll:
    """Adds the noise of the first count to all counts."""

    plan: DistributedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` vectors of counts, shape (runs, u)."""
        counts, noise = _noise(self.plan, data, rng, runs)
        return np.asarray(counts + noise[:, :1])


@frozen(eq=False)
class WeightedNoise:
    """Multiplies the noise, but not the count, by the symbol's weight in the average."""

    plan: DistributedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` vectors of counts, shape (runs, u)."""
        counts, noise = _noise(self.plan, data, rng, runs)
        return np.asarray(counts + self.plan.average.shares * noise)

    def event(self) -> PrivacyEvent:
        """Returns the exact event, for weights w = 1/integer: relative to the unscaled noise a count moves by 1/w."""
        shift = round(1.0 / float(self.plan.average.shares.min()))
        return evolve(self.plan.shares, rise=shift, fall=shift).event()


@frozen(eq=False)
class FreshNoiseForRepeats:
    """A symbol that was drawn c times is queried c times, each time with fresh noise; the answers are averaged."""

    plan: DistributedKL
    repeats: int

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` averages of the repeated answers, shape (runs, u)."""
        return np.asarray(np.mean([self.plan.simulate(data, rng, runs) for _ in range(self.repeats)], axis=0))

    def event(self) -> PrivacyEvent:
        """Returns the event of all the answers."""
        return compose((self.plan.event(), self.repeats))


# --- printed noise ---------------------------------------------------------------------------------------------------


def printed_sigma(*, epsilon: float, delta: float, sensitivity: float, inside: bool) -> float:
    """Returns sigma of Corollary 3.1: the variance is 2 ln(1.25/delta)*D/epsilon, or 2 ln(1.25 D/delta)/epsilon."""
    if inside:
        return math.sqrt(2.0 * math.log(1.25 * sensitivity / delta) / epsilon)
    return math.sqrt(2.0 * math.log(1.25 / delta) * sensitivity / epsilon)


def classical_sigma(*, epsilon: float, delta: float, sensitivity: float) -> float:
    """Returns sensitivity*sqrt(2 ln(1.25/delta))/epsilon, which is proved for epsilon <= 1 only."""
    return sensitivity * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon
