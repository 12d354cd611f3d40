"""The estimators of KL(Pi || P), broken on purpose: what no honest parameter of an estimator can express.

Mutants that only have too little noise are estimators themselves, sampled under another one's claim; they stand in
:mod:`hockeystick.audits.catalogue.divergence.cases` and :mod:`hockeystick.audits.catalogue.divergence.counts`. Those
here publish something else: noise that is shared, folded, seeded or put in the wrong place, or numbers that are made of
the data in another way. Most are printed in, or suggested by, Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478) or
the experiments behind it.

Each has ``simulate(data, rng, runs)`` with runs on the leading axis. ``event()`` or ``cost(data0, data1)``, where there
is one, is what it truly costs. Functions at the end break the estimate and not the privacy.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from hockeystick.accounting import GaussianDP, PrivacyEvent, compose
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import Smoothed
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import AggregatedKL, KLEstimate, TrustedKL
from hockeystick.learners.divergence.variance import printed_multiplier

# --- one number ------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class WithoutSmoothing:
    """The estimate with plain logarithms of counts as they are: infinite where one is 0."""

    estimator: TrustedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` estimates."""
        average = self.estimator.average
        p = average.counts(data) / average.records[0]
        with np.errstate(divide="ignore"):
            logs = np.log(p / average.reference[average.symbols])
        return np.asarray(self.estimator.mechanism.simulate(0.0, rng, runs) - average.shares @ logs)


@frozen(eq=False)
class SeededNoise:
    """Every release has the same noise, of a constant seed."""

    estimator: TrustedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` estimates: one, again and again."""
        return np.full(runs, self.estimator.simulate(data, np.random.default_rng(2024), 1)[0])


@frozen(eq=False)
class Sweep:
    """One release for each of many multipliers, of which the best is to be found, each charged as if it were alone."""

    estimators: tuple[TrustedKL, ...]

    @classmethod
    def calibrated(cls, average: QueryAverage, *, epsilon: float, delta: float) -> Sweep:
        """41 releases at the multipliers 0, 0.05, ..., 2, the grid of the paper."""
        grid = [step / 20 for step in range(41)]
        return cls(
            tuple(
                TrustedKL.calibrated(average, epsilon=epsilon, delta=delta, multiplier=lam, noise="gaussian")
                for lam in grid
            )
        )

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` times all estimates, shape (runs, 41)."""
        return np.stack([one.simulate(data, rng, runs) for one in self.estimators], axis=1)

    def cost(self, data0: ClientCounts, data1: ClientCounts) -> PrivacyEvent:
        """What the mean of all of them costs on two data sets."""
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
        """The estimate without noise."""
        p = data.total() / data.total().sum()
        return self.average.value(data, printed_multiplier(self.average.reference, p))

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` estimates."""
        return np.asarray(rng.normal(self.value(data), self.sigma, runs))

    def cost(self, data0: ClientCounts, data1: ClientCounts) -> PrivacyEvent:
        """The exact cost on two data sets."""
        return GaussianDP(abs(self.value(data0) - self.value(data1)) / self.sigma)


@frozen(kw_only=True)
class TalkativeEstimate:
    """A result that keeps the clean frequencies it was made of."""

    estimate: KLEstimate
    frequencies: tuple[float, ...]

    @classmethod
    def of(cls, estimate: KLEstimate, average: QueryAverage, data: ClientCounts) -> TalkativeEstimate:
        """An estimate together with P(x_t) of the data."""
        sizes, k = average.records, average.symbol_count
        found = average.logarithm.frequencies(average.counts(data), sizes, k)
        return cls(estimate=estimate, frequencies=tuple(found.tolist()))


# --- two numbers -----------------------------------------------------------------------------------------------------


@frozen(eq=False)
class OneNoiseForBoth:
    """A = V + noise and B = lambda*U + noise, with one draw for both, as printed."""

    estimator: AggregatedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` pairs, shape (runs, 2)."""
        v, u = self.estimator.average.sums(data)
        noise = self.estimator.logs.simulate(0.0, rng, runs)
        return np.stack([v + noise, u + noise], axis=1)


# --- noisy counts ----------------------------------------------------------------------------------------------------


def _noise(
    plan: DistributedKL, data: ClientCounts, rng: np.random.Generator, runs: int
) -> tuple[FloatArray, FloatArray]:
    """The counts, shape (u,), and noise for ``runs`` releases, shape (runs, u)."""
    counts = plan.average.counts(data).astype(np.float64)
    return counts, plan.simulate(data, rng, runs) - counts


@frozen(eq=False)
class FoldedNoise:
    """The noise's absolute value is added."""

    plan: DistributedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` vectors of counts, shape (runs, u)."""
        counts, noise = _noise(self.plan, data, rng, runs)
        return np.asarray(counts + np.abs(noise))


@frozen(eq=False)
class OneNoiseForAll:
    """All counts have the noise of the first."""

    plan: DistributedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` vectors of counts, shape (runs, u)."""
        counts, noise = _noise(self.plan, data, rng, runs)
        return np.asarray(counts + noise[:, :1])


@frozen(eq=False)
class WeightedNoise:
    """Noise is multiplied by the symbol's weight in the average, and then added to a count that is not."""

    plan: DistributedKL

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` vectors of counts, shape (runs, u)."""
        counts, noise = _noise(self.plan, data, rng, runs)
        return np.asarray(counts + self.plan.average.shares * noise)

    def event(self) -> PrivacyEvent:
        """The exact cost, for weights that are 1 over a whole number: a record moves w*noise by 1, noise by 1/w."""
        shift = round(1.0 / float(self.plan.average.shares.min()))
        return evolve(self.plan.shares, rise=shift, fall=shift).event()


@frozen(eq=False)
class FreshNoiseForRepeats:
    """A symbol that was drawn c times is asked for c times, each time with fresh noise; the answers are averaged."""

    plan: DistributedKL
    repeats: int

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` averages of the repeated answers, shape (runs, u)."""
        return np.asarray(np.mean([self.plan.simulate(data, rng, runs) for _ in range(self.repeats)], axis=0))

    def event(self) -> PrivacyEvent:
        """What all the answers cost."""
        return compose((self.plan.event(), self.repeats))


# --- what breaks the estimate, not the privacy -----------------------------------------------------------------------


def printed_sum(v: float, u: float, multiplier: float) -> float:
    """(A + B)/T as printed, where the estimate is B - A."""
    return multiplier * u + v


def inverted(pi: npt.ArrayLike, p: npt.ArrayLike, multiplier: float) -> FloatArray:
    """The query at each symbol, with Pi/P for P/Pi."""
    r = np.asarray(pi, dtype=np.float64) / np.asarray(p, dtype=np.float64)
    return np.asarray(multiplier * (r - 1.0) - np.log(r))


def per_client(average: QueryAverage, data: ClientCounts, multiplier: float) -> float:
    """The average with counts divided by how many *clients* were asked, as printed, for how many records they have."""
    r = average.counts(data) / len(average.cohorts[0]) / average.reference[average.symbols]
    return float(average.shares @ (multiplier * (r - 1.0) - np.log(r)))


def clamped_first(average: QueryAverage, counts: npt.ArrayLike, noise: FloatArray) -> FloatArray:
    """Estimates (lambda = 0) of counts (u,) whose frequencies are clamped *before* noise (runs, u) is added to them."""
    a = average.logarithm.pseudo_count if isinstance(average.logarithm, Smoothed) else 0.0
    mass = average.records[0] + a * average.symbol_count
    p = np.maximum((np.asarray(counts) + a) / mass, 0.5 / mass) + noise / mass
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(-np.log(p / average.reference[average.symbols]) @ average.shares)


def wrapped_sum(vectors: npt.ArrayLike, modulus: int) -> npt.NDArray[np.int64]:
    """The sum modulo R, read in [-R/2, R/2), whether it fits there or not."""
    found = np.asarray(vectors, dtype=np.int64).sum(axis=0) % modulus
    return np.asarray(np.where(found >= modulus // 2, found - modulus, found))


def printed_sigma(*, epsilon: float, delta: float, sensitivity: float, inside: bool) -> float:
    """The deviation of Corollary 3.1: variance 2 ln(1.25/delta)*D/epsilon, or 2 ln(1.25 D/delta)/epsilon."""
    if inside:
        return math.sqrt(2.0 * math.log(1.25 * sensitivity / delta) / epsilon)
    return math.sqrt(2.0 * math.log(1.25 / delta) * sensitivity / epsilon)


def classical_sigma(*, epsilon: float, delta: float, sensitivity: float) -> float:
    """sensitivity*sqrt(2 ln(1.25/delta))/epsilon, which is proved for epsilon <= 1 alone."""
    return sensitivity * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon
