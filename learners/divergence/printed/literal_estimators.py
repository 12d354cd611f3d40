"""The estimators of KL(Pi || P) as printed and as run in the paper: NOT PRIVATE, for figures and audits only.

Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478):

* :class:`LiteralKL`: Algorithms 1 to 3 word by word. Counts are divided by the number of *clients*; the noise has the
  variance of Corollary 3.1; one draw of it serves both sums, which are added; and every repetition of a symbol has its
  own noise, calibrated for N the number of samples.
* :class:`PublishedExperiment`: the published experiments, which do not implement these algorithms.

The results are :class:`NotPrivate`, which no accountant takes. ``divergence.printed.claims`` examines the claims.
"""

from __future__ import annotations

import math
from typing import Literal, NoReturn

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, one_of, probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.divergence import sensitivity as kl_sensitivity
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.printed.claims import CODE_SENSITIVITY, Reading, Sign, printed_noise
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.variance import query
from hockeystick.mechanisms.contract.arguments import blocks, generator, run_count

Model = Literal["trusted", "aggregated", "distributed"]
Normaliser = Literal["clients", "records"]
Sweep = Literal["epsilon", "cohort"]

_SYMBOLS = 17  # in the partial divergence of the published experiments


class Unguarded:
    """Base of the estimators and estimates without a guarantee."""

    __slots__ = ()

    @property
    def reason(self) -> str:
        """The reason why there is no guarantee."""
        raise NotImplementedError

    def graph(self) -> NoReturn:
        """Raises an error, because there is no guarantee.

        Raises:
            UnsupportedEventError: always, with the reason.
        """
        raise UnsupportedEventError(f"not private: {self.reason}; use TrustedKL, AggregatedKL or DistributedKL")


@frozen(eq=False, kw_only=True)
class NotPrivate(Unguarded):
    """Estimates without a guarantee; see :class:`LiteralKL`.

    Attributes:
        estimates: The estimates, shape (runs,).
        reason: The reason why there is no guarantee.
    """

    estimates: FloatArray = field(repr=False)
    reason: str


def _model(value: object) -> Model:
    return one_of("model", value, "trusted", "aggregated", "distributed")


def _samples(value: object) -> int:
    return integer("samples", value, low=1)


def _delta(value: object) -> float:
    return probability("delta", value, open=True)


# --- as printed ------------------------------------------------------------------------------------------------------

_REASONS: dict[Model, str] = {
    "trusted": "a variance linear in sensitivity/epsilon, for the exact divergence's sensitivity",
    "aggregated": "one draw of noise in both sums, whose difference has none",
    "distributed": "fresh noise for every repetition of a symbol, for N the number of samples",
}


@frozen(eq=False, kw_only=True)
class LiteralKL(Unguarded):
    """An algorithm as printed, without a guarantee.

    Args:
        average: The symbols, the cohorts and the rule for logarithms.
        samples: T; the shares of the average have to be multiples of 1/T.
        model: Algorithm 1 ("trusted"), 2 ("aggregated") or 3 ("distributed").
        epsilon, delta: The claim.
        multiplier: λ ≥ 0.
        reading: The reading of Corollary 3.1; see ``divergence.printed.claims.printed_noise``.
        normaliser: Counts are divided by "clients", as printed, or by "records".
        sign: Algorithm 2 returns (A + B)/T, as "printed", or (B - A)/T, "corrected": then its noise cancels.
        floor: tau of Algorithm 3, a "small constant".

    Raises:
        InvalidArgumentError: an argument is outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts, QueryAverage
        >>> from hockeystick.learners.divergence import LiteralKL
        >>> data = ClientCounts.of_records([0] * 4, np.arange(4), times=[400, 300, 200, 100], symbol_count=4)
        >>> coins = {"samples": 10, "rng": np.random.default_rng(1), "weights": "draws"}
        >>> average = QueryAverage.drawn(np.full(4, 0.25), data.records(), **coins)
        >>> literal = LiteralKL(average=average, samples=10, model="aggregated", epsilon=1.0, delta=1e-5)
        >>> literal.simulate(data, np.random.default_rng(1), runs=2).reason
        'one draw of noise in both sums, whose difference has none'
    """

    average: QueryAverage
    samples: int = field(converter=_samples)
    model: Model = field(converter=_model)
    epsilon: float = field(converter=arguments.epsilon)
    delta: float = field(converter=_delta)
    multiplier: float = field(default=0.0, converter=arguments.multiplier)
    reading: Reading = "outside"
    normaliser: Normaliser = "clients"
    sign: Sign = "printed"
    floor: float = 1e-6

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.average, QueryAverage) or self.average.weighting != "record":
            raise InvalidArgumentError("average", self.average, "is not a QueryAverage weighted by record")
        repeats = self.average.shares * self.samples
        if (np.abs(repeats - np.rint(repeats)) > 1e-6).any():
            remedy = 'weight by draws: QueryAverage.drawn(..., weights="draws")'
            raise InvalidArgumentError("samples", self.samples, "is not the number of draws of this average", remedy)
        one_of("normaliser", self.normaliser, "clients", "records")
        one_of("sign", self.sign, "printed", "corrected")
        real("floor", self.floor, low=0.0, low_open=True)
        self.noise_deviation  # noqa: B018  # refuses a reading, or a delta without a variance

    @property
    def noise_deviation(self) -> float:
        """The standard deviation of one draw of noise: on the output, a sum, or a frequency."""
        sensitivity = math.sqrt(2.0) / self.samples if self.model == "distributed" else math.log(2.0)
        sigma = printed_noise(self.epsilon, self.delta, sensitivity=sensitivity, reading=self.reading)
        return sigma * self.samples / math.sqrt(2.0) if self.model == "aggregated" else sigma

    @property
    def reason(self) -> str:
        """The reason why there is no guarantee."""
        return _REASONS[self.model]

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> NotPrivate:
        """Returns ``runs`` estimates with the same public coins.

        Raises:
            InvalidArgumentError: the data do not fit the average, or its logarithm refuses the counts.
        """
        source, count = generator(rng), run_count(runs)
        if self.model == "distributed":
            return self._found(self._distributed(data, source, count))
        logs, ratios = self.sums(data)
        noise = self.noise_deviation * source.standard_normal(count)
        if self.model == "trusted":
            return self._found(self.multiplier * ratios - logs + noise)
        first, second = self.samples * logs + noise, self.samples * self.multiplier * ratios + noise
        return self._found((first + second if self.sign == "printed" else second - first) / self.samples)

    def sums(self, data: ClientCounts) -> tuple[float, float]:
        """Returns the averages of ln r and of r - 1 with the literal normaliser: not private."""
        counts, pi = self.average.counts(data), self.average.reference[self.average.symbols]
        rule, k = self.average.logarithm, self.average.symbol_count
        logs = rule.logarithms(counts, self._sizes(), k) - np.log(pi)
        ratios = rule.frequencies(counts, self._sizes(), k) / pi - 1.0
        return float(self.average.shares @ logs), float(self.average.shares @ ratios)

    def _sizes(self) -> IntArray:
        if self.normaliser == "records":
            return self.average.records
        return np.array([len(cohort) for cohort in self.average.cohorts])

    def _distributed(self, data: ClientCounts, source: np.random.Generator, runs: int) -> FloatArray:
        """Noise on each of T frequencies, then the clamp."""
        repeats = np.rint(self.average.shares * self.samples).astype(np.int64)
        where = np.repeat(np.arange(len(repeats)), repeats)
        sizes = np.broadcast_to(self._sizes(), repeats.shape)
        rule, pi = self.average.logarithm, self.average.reference[self.average.symbols]
        p = rule.frequencies(self.average.counts(data), sizes, self.average.symbol_count)[where]
        found = np.empty(runs)
        for block in blocks(runs, len(where)):
            shape = (len(found[block]), len(where))
            noisy = np.maximum(p + self.noise_deviation * source.standard_normal(shape), self.floor)
            found[block] = query(noisy / pi[where], self.multiplier).mean(axis=1)
        return found

    def _found(self, estimates: FloatArray) -> NotPrivate:
        return NotPrivate(estimates=np.asarray(estimates), reason=self.reason)


# --- as run ----------------------------------------------------------------------------------------------------------


@frozen(eq=False, kw_only=True)
class PublishedExperiment(Unguarded):
    """The computation of the published experiments, without a guarantee. It is not one of the printed algorithms.

    The query is evaluated once, at r = |sum over 17 random symbols of Pi ln(Pi/P)| / |KL(Pi || P)|, and its absolute
    value compared with KL. Noise is Laplace of scale (1 + ln 2)/epsilon, or normal with standard deviation

        s = 2 (ln(1.25)/delta) (1 + ln 2)/epsilon^2

    for "trusted"; normal with s sqrt(2)/90 for "aggregated"; and the absolute value of normal noise with s sqrt(2)/9000
    on every summand for "distributed". (90 is the number of pairs of digits.)

    Args:
        reference: Pi, shape (k,), k >= 17.
        private: P, shape (k,), with full support.
        model, epsilon, delta, multiplier: As for :class:`LiteralKL`.
        sweep: Over "epsilon", where trusted noise is Laplace, or "cohort" sizes, where it is normal.

    Raises:
        InvalidArgumentError: an argument is outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.divergence import PublishedExperiment
        >>> reference, private = np.full(20, 0.05), np.arange(1, 21) / 210
        >>> experiment = PublishedExperiment(reference=reference, private=private, model="distributed", epsilon=1.0)
        >>> experiment.simulate(np.random.default_rng(1), runs=2).reason
        'noise that is never negative'
    """

    reference: FloatArray = field(converter=kl_sensitivity.reference, repr=False)
    private: FloatArray = field(converter=kl_sensitivity.reference, repr=False)
    model: Model = field(converter=_model)
    epsilon: float = field(converter=arguments.epsilon)
    delta: float = field(default=0.05, converter=_delta)
    multiplier: float = field(default=0.0, converter=arguments.multiplier)
    sweep: Sweep = "epsilon"

    def __attrs_post_init__(self) -> None:
        array("private", self.private, shape=self.reference.shape)
        if len(self.reference) < _SYMBOLS:
            raise InvalidArgumentError("reference", len(self.reference), f"has fewer than {_SYMBOLS} symbols")
        one_of("sweep", self.sweep, "epsilon", "cohort")
        if math.isclose(float(self._summands().sum()), 0.0, abs_tol=1e-12):
            raise InvalidArgumentError("private", "...", "is the reference: its ratio is undefined")

    @property
    def noise_deviation(self) -> float:
        """The standard deviation of one draw of noise, before its absolute value is taken."""
        s = 2.0 * (math.log(1.25) / self.delta) * CODE_SENSITIVITY / self.epsilon**2
        if self.model == "trusted":
            return math.sqrt(2.0) * CODE_SENSITIVITY / self.epsilon if self.sweep == "epsilon" else s
        return s * math.sqrt(2.0) / (90.0 if self.model == "aggregated" else 9000.0)

    @property
    def reason(self) -> str:
        """The reason why there is no guarantee."""
        if self.model == "distributed":
            return "noise that is never negative"
        return "noise for another statistic's sensitivity"

    def simulate(self, rng: np.random.Generator, runs: int) -> NotPrivate:
        """Returns ``runs`` estimates, each with 17 fresh symbols."""
        source, summands = generator(rng), self._summands()
        chosen = summands[_distinct(source, len(summands), _SYMBOLS, run_count(runs))]
        scale = self.noise_deviation
        if self.model == "distributed":
            chosen = chosen + np.abs(scale * source.standard_normal(chosen.shape))
        ratios = np.abs(chosen.sum(axis=1)) / abs(float(summands.sum()))
        found = np.abs(query(np.maximum(ratios, np.finfo(float).tiny), self.multiplier))
        if self.model == "trusted" and self.sweep == "epsilon":
            found = found + source.laplace(0.0, scale / math.sqrt(2.0), size=found.shape)
        elif self.model != "distributed":
            found = found + scale * source.standard_normal(found.shape)
        return NotPrivate(estimates=np.asarray(found), reason=self.reason)

    def _summands(self) -> FloatArray:
        return np.asarray(self.reference * np.log(self.reference / self.private))


def _distinct(source: np.random.Generator, population: int, count: int, runs: int) -> npt.NDArray[np.int64]:
    """Uniform samples without replacement, shape (runs, count), by Floyd's algorithm."""
    found = np.empty((runs, count), dtype=np.int64)
    for i in range(count):
        last = population - count + i
        drawn = source.integers(0, last + 1, size=runs)
        taken = (found[:, :i] == drawn[:, np.newaxis]).any(axis=1)
        found[:, i] = np.where(taken, last, drawn)
    return found
