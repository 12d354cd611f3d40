"""Private estimates of KL(Pi || P) where somebody is trusted with the counts: the server, or an aggregator before it.

* :class:`TrustedKL`: one number is published, the average of the queries with noise.
* :class:`AggregatedKL`: an aggregator publishes two, the averages V of ln r and U of r - 1, each with noise of its own,
  and the server subtracts. For the same multiplier that is never better than one number. But the two serve *every*
  multiplier at once, as post-processing, if U is published without its factor.

After Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478), Algorithms 1 and 2, corrected: the noise is calibrated to
what is released (the average over drawn symbols, both sums), by exact laws, and no two numbers share their noise.

What is seen, in a graph's views: "output" is everything published. The coins (symbols, cohorts) are public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, PrivacyEvent, compose
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import one_of, probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.graph import record_graph
from hockeystick.learners.divergence.query_average import Draw, QueryAverage
from hockeystick.mechanisms import Gaussian, Laplace
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

Law = Literal["auto", "laplace", "gaussian"]
Additive = Laplace | Gaussian
Estimator = TypeVar("Estimator", "TrustedKL", "AggregatedKL")

# 32 U: a power or root, off by 2 U, and five products and quotients.
_UP = 1.0 + 2.0**-48


def _average(value: object) -> QueryAverage:
    if not isinstance(value, QueryAverage):
        raise InvalidArgumentError("average", type(value).__name__, "is no QueryAverage", "use QueryAverage.drawn")
    return value


def _laws(noise: Law, delta: float) -> tuple[type[Laplace] | type[Gaussian], ...]:
    """The laws to choose among."""
    one_of("noise", noise, "auto", "laplace", "gaussian")
    if noise == "gaussian" and delta == 0.0:
        raise InvalidArgumentError("delta", delta, "is no δ for Gaussian noise", 'give one above 0, or noise="laplace"')
    if noise == "auto" and delta > 0.0:
        return Laplace, Gaussian
    return (Gaussian,) if noise == "gaussian" else (Laplace,)


def _check_law(name: str, value: object) -> None:
    if not isinstance(value, Laplace | Gaussian):
        raise InvalidArgumentError(name, value, "is no Laplace or Gaussian mechanism")


def _check_covers(name: str, value: Additive, least: float, of: str = "", *, learner: str) -> None:
    if value.sensitivity < least:
        raise InvalidArgumentError(
            name, value, f"is for a sensitivity below {least:g}{of}", f"use {learner}.calibrated"
        )


def deviation(mechanism: Additive) -> float:
    """The standard deviation of a mechanism's noise."""
    return mechanism.sigma if isinstance(mechanism, Gaussian) else math.sqrt(2.0) * mechanism.scale


@frozen(kw_only=True)
class KLEstimate:
    """A published estimate of KL(Pi || P).

    Attributes:
        estimate: lambda*U - V with noise.
        noise_deviation: Standard deviation of the noise in it.
        simulated: Whether the noise was simulated, so that it is no release.
    """

    estimate: float
    noise_deviation: float
    simulated: bool


# --- one number ------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class TrustedKL:
    """Publishes the average of the queries with Laplace or Gaussian noise.

    Neighbours differ in ``group`` records of one client, each replaced by any other symbol (replace-one; the numbers of
    clients and of their records are public).

    Source: Scott, Biswas, Cormode & Maple 2024, Algorithms 1 and 2, with corrected sensitivities.

    Args:
        average: What is averaged, with its public coins.
        multiplier: lambda >= 0. It must not depend on the data.
        mechanism: The noise, for the sensitivity of the average.

    Raises:
        InvalidArgumentError: an argument outside its domain, or noise for a smaller sensitivity than the average's
            for the symbols that were drawn.
    """

    average: QueryAverage = field(converter=_average)
    multiplier: float = field(converter=arguments.multiplier)
    mechanism: Additive = field()
    group: int = field(default=1, converter=arguments.group)

    @mechanism.validator
    def _mechanism_adds_noise(self, _: object, value: object) -> None:
        _check_law("mechanism", value)

    def __attrs_post_init__(self) -> None:
        least = self.average.sensitivity(self.multiplier, group=self.group)
        _check_covers("mechanism", self.mechanism, least, ", that of the average", learner="TrustedKL")

    @classmethod
    def calibrated(
        cls,
        average: QueryAverage,
        *,
        epsilon: float,
        delta: float = 0.0,
        multiplier: float = 0.0,
        noise: Law = "auto",
        draw: Draw = "realised",
        group: int = 1,
    ) -> TrustedKL:
        """The estimator of least noise that is (epsilon, delta)-DP.

        Args:
            average: What is averaged.
            epsilon, delta: The target; delta may be 0 for Laplace noise.
            multiplier: lambda >= 0, public. 1 suits small drifts; 0 costs least where one cell is rare.
            noise: "auto" takes the law of smaller variance.
            draw: "realised" calibrates to the symbols that were drawn, "worst" to the worst ones.
            group: Records of one client that may be replaced.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        allowed = probability("delta", delta)
        laws = _laws(noise, allowed)
        distance = _average(average).sensitivity(
            arguments.multiplier(multiplier), draw=draw, group=arguments.group(group)
        )
        found: list[Additive] = []
        if Laplace in laws:
            found.append(Laplace.calibrated(epsilon=epsilon, sensitivity=distance))
        if Gaussian in laws:
            found.append(Gaussian.calibrated(epsilon=epsilon, delta=allowed, sensitivity=distance))
        least = min(found, key=deviation)

        def built(factor: float) -> TrustedKL:
            return cls(average=average, multiplier=multiplier, mechanism=_wider(least, factor), group=group)

        return _certified(built, least, epsilon, allowed)

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise in the estimate."""
        return deviation(self.mechanism)

    def event(self) -> PrivacyEvent:
        """What one record (or a client's group of records) costs."""
        return self.mechanism.event()

    def graph(self) -> AccountantGraph:
        """The plan: one release that reads the records."""
        plan = record_graph(self.group, self.average.logarithm.assumption)
        return plan.release("estimate", self.event(), reads=("records", "coins"))

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` estimates with independent noise and the same public coins, shape (runs,)."""
        return self.mechanism.simulate(self.average.value(data, self.multiplier), rng, runs)

    def log_likelihood_ratio(self, output: npt.ArrayLike, data0: ClientCounts, data1: ClientCounts) -> FloatArray:
        """ln p(output | data0)/p(output | data1), shape (runs,)."""
        values = [self.average.value(data, self.multiplier) for data in (data0, data1)]
        return self.mechanism.log_likelihood_ratio(output, *values)

    def release(
        self,
        data: ClientCounts,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> KLEstimate:
        """One estimate with secure noise, to be published; arguments as for a mechanism's release."""
        source = check_noise(noise)
        value = self.average.value(data, self.multiplier)

        def drawn() -> float:
            return float(self.mechanism.release(value, noise=source))

        found = charged(self.event(), drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)
        return KLEstimate(estimate=found, noise_deviation=self.noise_deviation, simulated=source.simulated)

    def worst_case_neighbours(self) -> tuple[ClientCounts, ClientCounts]:
        """Data sets that differ in one record, at the largest distance of the average."""
        return self.average.worst_case_neighbours(self.multiplier)


# --- two numbers -----------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class KLPair:
    """Published averages of ln r and of r - 1, of which every estimate is post-processing.

    Attributes:
        logs: V with noise.
        ratios: U with noise.
        deviations: Standard deviations of the noise in the two.
        simulated: Whether the noise was simulated.
    """

    logs: float
    ratios: float
    deviations: tuple[float, float]
    simulated: bool

    def estimate(self, multiplier: float) -> KLEstimate:
        """lambda*U - V, for any multiplier, at no further cost."""
        lam = arguments.multiplier(multiplier)
        spread = math.hypot(self.deviations[0], lam * self.deviations[1])
        return KLEstimate(estimate=lam * self.ratios - self.logs, noise_deviation=spread, simulated=self.simulated)


@frozen(kw_only=True)
class AggregatedKL:
    """Publishes noisy averages of ln r and of r - 1, side by side.

    One record moves both, so their costs add up; neither is hidden by the other's noise.

    Args:
        average: What is averaged, with its public coins.
        logs: The noise on V.
        ratios: The noise on U.
        group: Records of one client that may be replaced.

    Raises:
        InvalidArgumentError: noise for a smaller sensitivity than V's or U's, or of two different laws.
    """

    average: QueryAverage = field(converter=_average)
    logs: Additive = field()
    ratios: Additive = field()
    group: int = field(default=1, converter=arguments.group)

    def __attrs_post_init__(self) -> None:
        for name, least in zip(("logs", "ratios"), self.average.sum_sensitivities(group=self.group), strict=True):
            found = getattr(self, name)
            _check_law(name, found)
            _check_covers(name, found, least, learner="AggregatedKL")
        if type(self.logs) is not type(self.ratios):
            raise InvalidArgumentError(
                "ratios", self.ratios, "has noise of another law than logs", "give both the same"
            )

    @classmethod
    def calibrated(
        cls,
        average: QueryAverage,
        *,
        epsilon: float,
        delta: float = 0.0,
        multiplier: float = 1.0,
        noise: Law = "auto",
        draw: Draw = "realised",
        group: int = 1,
    ) -> AggregatedKL:
        """The pair that is (epsilon, delta)-DP with the least noise in the estimate at one multiplier.

        Let a and b be the sensitivities of V and lambda*U. With Gaussian noise (a/s_a)^2 + (b/s_b)^2 = mu^2 is given,
        and s_a^2 + s_b^2 is least for s_a^2 = a(a + b)/mu^2. With Laplace noise a/s_a + b/s_b = epsilon is given, and
        it is least for s_a = a^(1/3) (a^(2/3) + b^(2/3))/epsilon.

        Args:
            average: What is averaged.
            epsilon, delta: The target; delta may be 0 for Laplace noise.
            multiplier: lambda > 0 for which it is best; the released pair serves all.
            noise: "auto" takes the law of smaller variance at that multiplier.
            draw, group: See :meth:`TrustedKL.calibrated`.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        allowed, lam = probability("delta", delta), real("multiplier", multiplier, low=0.0, low_open=True)
        laws, target = _laws(noise, allowed), real("epsilon", epsilon, low=0.0, low_open=True)
        a, b = _average(average).sum_sensitivities(draw=draw, group=arguments.group(group))
        both = (a, lam * b)
        pairs: list[tuple[Additive, Additive]] = []
        if Laplace in laws:
            cube = sum(x ** (2.0 / 3.0) for x in both)
            scales = [x ** (1.0 / 3.0) * cube / target * _UP for x in both]
            pairs.append((Laplace(scales[0], sensitivity=a), Laplace(scales[1] / lam, sensitivity=b)))
        if Gaussian in laws:
            unit = Gaussian.calibrated(epsilon=target, delta=allowed).sigma
            spread = [math.sqrt(x * sum(both)) * unit * _UP for x in both]
            pairs.append((Gaussian(spread[0], sensitivity=a), Gaussian(spread[1] / lam, sensitivity=b)))
        logs, ratios = min(pairs, key=lambda pair: math.hypot(deviation(pair[0]), lam * deviation(pair[1])))

        def built(factor: float) -> AggregatedKL:
            return cls(average=average, logs=_wider(logs, factor), ratios=_wider(ratios, factor), group=group)

        return _certified(built, logs, target, allowed)

    def noise_deviation(self, multiplier: float) -> float:
        """Standard deviation of the noise in the estimate at a multiplier."""
        return math.hypot(deviation(self.logs), arguments.multiplier(multiplier) * deviation(self.ratios))

    def event(self) -> PrivacyEvent:
        """What one record (or a client's group of records) costs: both releases together."""
        return compose(self.logs.event(), self.ratios.event())

    def graph(self) -> AccountantGraph:
        """The plan: one release of both sums, and the estimate behind it."""
        plan = record_graph(self.group, self.average.logarithm.assumption)
        return plan.release("sums", self.event(), reads=("records", "coins")).post("estimate", reads=("sums",))

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` published pairs (V, U), shape (runs, 2)."""
        found, (first, second) = self.average.sums(data), rng.spawn(2)
        drawn = self.logs.simulate(found[0], first, runs), self.ratios.simulate(found[1], second, runs)
        return np.stack(drawn, axis=1)

    def log_likelihood_ratio(self, output: npt.ArrayLike, data0: ClientCounts, data1: ClientCounts) -> FloatArray:
        """ln p(output | data0)/p(output | data1) of published pairs of shape (runs, 2)."""
        drawn, here, there = np.asarray(output), self.average.sums(data0), self.average.sums(data1)
        return self.logs.log_likelihood_ratio(drawn[:, 0], here[0], there[0]) + self.ratios.log_likelihood_ratio(
            drawn[:, 1], here[1], there[1]
        )

    def release(
        self,
        data: ClientCounts,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> KLPair:
        """One pair with secure noise, to be published; the cost of both is recorded once, before anything is drawn."""
        source, (v, u) = check_noise(noise), self.average.sums(data)

        def drawn() -> KLPair:
            return KLPair(
                logs=self.logs.release(v, noise=source),
                ratios=self.ratios.release(u, noise=source),
                deviations=(deviation(self.logs), deviation(self.ratios)),
                simulated=source.simulated,
            )

        return charged(self.event(), drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)

    def worst_case_neighbours(self) -> tuple[ClientCounts, ClientCounts]:
        """Data sets that differ in one record, at the largest distance of V."""
        return self.average.worst_case_neighbours(0.0)


# --- calibration -----------------------------------------------------------------------------------------------------


def _certified(built: Callable[[float], Estimator], mechanism: Additive, epsilon: float, delta: float) -> Estimator:
    """The estimator with noise of the mechanism's law raised, by what rounding costs the accountant's bound."""
    found, step = built(1.0), 2.0**-48
    at = 0.0 if isinstance(mechanism, Laplace) else delta
    while accounting.epsilon(found.event(), at).upper > epsilon:
        found, step = built(1.0 + step), 2.0 * step
    return found


def _wider(mechanism: Additive, factor: float) -> Additive:
    if isinstance(mechanism, Gaussian):
        return evolve(mechanism, sigma=mechanism.sigma * factor)
    return evolve(mechanism, scale=mechanism.scale * factor)
