"""Private estimates of KL(Pi || P) with a trusted server or a trusted aggregator.

* :class:`TrustedKL` publishes one number, the average of the queries with noise.
* :class:`AggregatedKL` publishes two, the averages V of ln r and U of r - 1, each with its own noise, and the server
  subtracts. For the same multiplier that is never better than one number. But the two serve *every* multiplier at once,
  as post-processing, because U is published without the multiplier.

After Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478), Algorithms 1 and 2, corrected: the noise is calibrated
exactly to the published numbers (the average over drawn symbols, both sums), and no two numbers share their noise.

In the views of a graph, "output" is everything published. The coins (symbols, cohorts) are public.
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
from hockeystick.accounting.validate import array, one_of, probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.graph import record_graph
from hockeystick.learners.divergence.query_average import Draw, QueryAverage
from hockeystick.mechanisms import Gaussian, Laplace
from hockeystick.mechanisms.contract.arguments import generator
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

Law = Literal["auto", "laplace", "gaussian"]
Additive = Laplace | Gaussian
Estimator = TypeVar("Estimator", "TrustedKL", "AggregatedKL")

# 32 U: a power or root, off by 2 U, and five products and quotients.
_UP = 1.0 + 2.0**-48


def _average(value: object) -> QueryAverage:
    if not isinstance(value, QueryAverage):
        raise InvalidArgumentError("average", type(value).__name__, "is not a QueryAverage", "use QueryAverage.drawn")
    return value


def _laws(noise: Law, delta: float) -> tuple[type[Laplace] | type[Gaussian], ...]:
    """The laws to choose among."""
    one_of("noise", noise, "auto", "laplace", "gaussian")
    if noise == "gaussian" and delta == 0.0:
        raise InvalidArgumentError(
            "delta", delta, "is too small for Gaussian noise", 'give one above 0, or noise="laplace"'
        )
    if noise == "auto" and delta > 0.0:
        return Laplace, Gaussian
    return (Gaussian,) if noise == "gaussian" else (Laplace,)


def _check_law(name: str, value: object) -> None:
    if not isinstance(value, Laplace | Gaussian):
        raise InvalidArgumentError(name, value, "is not a Laplace or Gaussian mechanism")


def _check_covers(name: str, value: Additive, least: float, of: str = "", *, learner: str) -> None:
    if value.sensitivity < least:
        raise InvalidArgumentError(
            name, value, f"is for a sensitivity below {least:g}{of}", f"use {learner}.calibrated"
        )


def deviation(mechanism: Additive) -> float:
    """Returns the standard deviation of a mechanism's noise."""
    return mechanism.sigma if isinstance(mechanism, Gaussian) else math.sqrt(2.0) * mechanism.scale


@frozen(kw_only=True)
class KLEstimate:
    """A published estimate of KL(Pi || P); see :class:`TrustedKL`.

    Attributes:
        estimate: λ·U − V with noise.
        noise_deviation: The standard deviation of its noise.
        simulated: Whether the noise was simulated, so that it is not a release.
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
        average: The average of queries, with its public coins.
        multiplier: λ ≥ 0. It must not depend on the data.
        mechanism: The noise, for the sensitivity of the average.
        group: The number of records of one client that may be replaced.

    Raises:
        InvalidArgumentError: an argument is outside its domain, or the noise is for a smaller sensitivity than that of
            the average for the drawn symbols.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts, QueryAverage, TrustedKL
        >>> data = ClientCounts.of_records([0] * 4, np.arange(4), times=[400, 300, 200, 100], symbol_count=4)
        >>> average = QueryAverage.drawn(np.full(4, 0.25), data.records(), samples=100, rng=np.random.default_rng(1))
        >>> estimator = TrustedKL.calibrated(average, epsilon=1.0)
        >>> round(average.value(data, 0.0), 3), round(estimator.noise_deviation, 3)  # the exact value, not private
        (0.121, 0.245)
        >>> estimator.simulate(data, np.random.default_rng(2), runs=3).round(3)
        array([0.008, 0.031, 0.292])
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
        """Returns the estimator with the least noise that is (ε, δ)-DP.

        Args:
            average: The average of queries.
            epsilon, delta: The target; delta may be 0 for Laplace noise.
            multiplier: λ ≥ 0, public. 1 suits small drifts; 0 has the least sensitivity if one cell is rare.
            noise: "auto" takes the law with the smaller variance.
            draw: "realised" calibrates to the drawn symbols, "worst" to the worst ones.
            group: The number of records of one client that may be replaced.

        Raises:
            InvalidArgumentError: an argument is outside its domain.
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
            return cls(average=average, multiplier=multiplier, mechanism=wider(least, factor), group=group)

        return _certified(built, least, epsilon, allowed)

    @property
    def noise_deviation(self) -> float:
        """The standard deviation of the noise in the estimate."""
        return deviation(self.mechanism)

    def event(self) -> PrivacyEvent:
        """Returns the cost of one record (or of a client's group of records)."""
        return self.mechanism.event()

    def graph(self) -> AccountantGraph:
        """Returns the plan: one release that reads the records."""
        plan = record_graph(self.group, self.average.logarithm.assumption)
        return plan.release("estimate", self.event(), reads=("records", "coins"))

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` estimates with independent noise and the same public coins, shape (runs,)."""
        return self.mechanism.simulate(self.average.value(data, self.multiplier), rng, runs)

    def log_likelihood_ratio(self, output: npt.ArrayLike, data0: ClientCounts, data1: ClientCounts) -> FloatArray:
        """Returns ln(p(output | data0)/p(output | data1)), shape (runs,)."""
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
        """Returns one estimate with secure noise, to be published; arguments as for a mechanism's release."""
        source = check_noise(noise)
        value = self.average.value(data, self.multiplier)

        def drawn() -> float:
            return float(self.mechanism.release(value, noise=source))

        found = charged(self.event(), drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)
        return KLEstimate(estimate=found, noise_deviation=self.noise_deviation, simulated=source.simulated)

    def worst_case_neighbours(self) -> tuple[ClientCounts, ClientCounts]:
        """Returns data sets that differ in one record, at the largest distance of the average."""
        return self.average.worst_case_neighbours(self.multiplier)


# --- two numbers -----------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class KLPair:
    """Published averages of ln r and of r - 1, from which estimates are post-processing; see :class:`AggregatedKL`.

    Attributes:
        logs: V with noise.
        ratios: U with noise.
        deviations: The standard deviations of the noise in the two.
        simulated: Whether the noise was simulated.
    """

    logs: float
    ratios: float
    deviations: tuple[float, float]
    simulated: bool

    def estimate(self, multiplier: float) -> KLEstimate:
        """Returns λ·U − V for any multiplier, at no further cost."""
        lam = arguments.multiplier(multiplier)
        spread = math.hypot(self.deviations[0], lam * self.deviations[1])
        return KLEstimate(estimate=lam * self.ratios - self.logs, noise_deviation=spread, simulated=self.simulated)


@frozen(kw_only=True)
class AggregatedKL:
    """Publishes noisy averages of ln r and of r - 1, side by side.

    One record moves both, so their costs are composed.

    Args:
        average: The average of queries, with its public coins.
        logs: The noise on V.
        ratios: The noise on U.
        group: The number of records of one client that may be replaced.

    Raises:
        InvalidArgumentError: a noise is for a smaller sensitivity than that of V or U, or the two have different laws.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import AggregatedKL, ClientCounts, QueryAverage
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> data = ClientCounts.of_records([0] * 4, np.arange(4), times=[400, 300, 200, 100], symbol_count=4)
        >>> average = QueryAverage.drawn(np.full(4, 0.25), data.records(), samples=100, rng=np.random.default_rng(1))
        >>> pair = AggregatedKL.calibrated(average, epsilon=1.0).release(data, noise=SimulationNoise(1))
        >>> [round(pair.estimate(multiplier).estimate, 3) for multiplier in (0.0, 0.5, 1.0)]
        [-0.016, 0.064, 0.144]
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
                "ratios", self.ratios, "has noise of another law than logs", "use the same law for both"
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
        """Returns the pair that is (ε, δ)-DP with the least noise in the estimate at one multiplier.

        Let a and b be the sensitivities of V and λ·U. With Gaussian noise (a/s_a)^2 + (b/s_b)^2 = mu^2 is given,
        and s_a^2 + s_b^2 is least for s_a^2 = a(a + b)/mu^2. With Laplace noise a/s_a + b/s_b = epsilon is given, and
        it is least for s_a = a^(1/3) (a^(2/3) + b^(2/3))/epsilon.

        Args:
            average: The average of queries.
            epsilon, delta: The target; delta may be 0 for Laplace noise.
            multiplier: λ > 0 for which the noise is optimal; the pair serves all multipliers.
            noise: "auto" takes the law with the smaller variance at that multiplier.
            draw, group: See :meth:`TrustedKL.calibrated`.

        Raises:
            InvalidArgumentError: an argument is outside its domain.
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
            return cls(average=average, logs=wider(logs, factor), ratios=wider(ratios, factor), group=group)

        return _certified(built, logs, target, allowed)

    def noise_deviation(self, multiplier: float) -> float:
        """Returns the standard deviation of the noise in the estimate at a multiplier."""
        return math.hypot(deviation(self.logs), arguments.multiplier(multiplier) * deviation(self.ratios))

    def event(self) -> PrivacyEvent:
        """Returns the cost of one record (or of a client's group of records) in both releases together."""
        return compose(self.logs.event(), self.ratios.event())

    def graph(self) -> AccountantGraph:
        """Returns the plan: one release of both sums; the estimate is post-processing."""
        plan = record_graph(self.group, self.average.logarithm.assumption)
        return plan.release("sums", self.event(), reads=("records", "coins")).post("estimate", reads=("sums",))

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` pairs (V, U) with noise, shape (runs, 2)."""
        found, (first, second) = self.average.sums(data), generator(rng).spawn(2)
        drawn = self.logs.simulate(found[0], first, runs), self.ratios.simulate(found[1], second, runs)
        return np.stack(drawn, axis=1)

    def log_likelihood_ratio(self, output: npt.ArrayLike, data0: ClientCounts, data1: ClientCounts) -> FloatArray:
        """Returns ln(p(output | data0)/p(output | data1)) for pairs of shape (runs, 2)."""
        drawn = array("output", output, shape=(None, 2), data=True)
        here, there = self.average.sums(data0), self.average.sums(data1)
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
        """Returns one pair with secure noise; the cost of both is recorded once, before anything is drawn."""
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
        """Returns data sets that differ in one record, at the largest distance of V."""
        return self.average.worst_case_neighbours(0.0)


# --- calibration -----------------------------------------------------------------------------------------------------


def _certified(built: Callable[[float], Estimator], mechanism: Additive, epsilon: float, delta: float) -> Estimator:
    """The estimator whose noise is raised until the accountant's bound, with its rounding, meets the target."""
    found, step = built(1.0), 2.0**-48
    at = 0.0 if isinstance(mechanism, Laplace) else delta
    while accounting.epsilon(found.event(), at).upper > epsilon:
        found, step = built(1.0 + step), 2.0 * step
    return found


def wider(mechanism: Additive, factor: float) -> Additive:
    """Returns the mechanism with noise that is larger by a factor."""
    if isinstance(mechanism, Gaussian):
        return evolve(mechanism, sigma=mechanism.sigma * factor)
    return evolve(mechanism, scale=mechanism.scale * factor)
