"""Hedge on noisy sums of the losses of all clients: for many clients privacy costs almost no regret.

The server adds up the clients' losses and publishes prefix sums with Laplace or Gaussian noise over a binary tree. All
clients draw from the exponential weights of the latest noisy sum. One loss of one client moves the sums by at most 1
per expert, for any number of clients, so the noise on the *mean* vanishes as clients are added: at any fixed ε the
regret falls to sqrt(T ln(d) / 2), that of Hedge without privacy, on every sequence of losses.

*Regret.* Let N be the noise of a round on the mean losses.

* Noise of range r moves log-ratios of weights by at most ηr, and the law by at most tanh(ηr/4) in total variation. So
  each round costs at most that much more than with Hedge, whose regret is at most ln d/η + ηT/8.
* *Steady* noise has one law in every round. The server pads the sums for that by fresh noise, which needs no secure
  source and has no cost. Let Ψ(L) = −E ln Σ exp(−η(L_i + N_i))/η. Its gradient is the law that is played after losses
  L, and a round costs at most Ψ(L + ℓ) − Ψ(L) + η/8 (Hoeffding's lemma for each value of N). The sum telescopes, Ψ(L)
  is at most min L_i, and −Ψ(0) at most ln d/η + E max N_i. So the regret is at most ln d/η + ηT/8 + min(E max N_i,
  ln E exp(ηN)/η): noise costs once, and not in every round. In the first round, where all experts are alike, the law
  is uniform on average, and the learner plays that law.
* Normal noise: as in ``noisy_sum_bounds``. Laplace noise of scale b in each of H levels: ln E exp(ηN) = −H·ln(1 −
  η²b²). Released noise is on a grid of step g, and padding is continuous. A coupling of discrete with continuous
  Laplace noise of one scale moves no value by more than g, so that a law is off by at most ηHg/2 in total variation.

Gao, Huang & Yang 2024, Theorem 2, print a lower bound of order min(ln(d) / ε, T) for every number of clients;
:meth:`NoisyHedge.regret_bound` disproves it.

Sources: Dwork, Naor, Pitassi & Rothblum 2010 and Chan, Shi & Song 2011 (the tree); Freund & Schapire 1997 (Hedge);
Abernethy, Lee, Sinha & Tewari 2014 (smoothing).
"""

import math
from collections.abc import Iterable
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from attrs import field, frozen
from scipy import optimize, special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import boolean, one_of, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.choices import Choice, compared
from hockeystick.learners.common.noisy_sum_stream import Coins, PublishedMixtures
from hockeystick.learners.common.prefix_sums import PADDING, RELEASED, ROUNDING, largest_variance, losses_sensitivity
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, refuse_adaptive
from hockeystick.learners.experts import multiplicative_weights, noisy_sum_bounds, quantile_regret
from hockeystick.learners.experts.expert_losses import binary_digits
from hockeystick.learners.experts.quantile_regret import RegretReport
from hockeystick.learners.federated import laplace_minima
from hockeystick.learners.federated.clients_hedge import ClientsHedge
from hockeystick.learners.network.protocol import Communication
from hockeystick.mechanisms import TreeAggregation
from hockeystick.mechanisms.contract.arguments import noise_scale as _scale
from hockeystick.mechanisms.contract.arguments import target_epsilon
from hockeystick.mechanisms.streams import tree_blocks
from hockeystick.mechanisms.streams.tree_aggregation import Law, largest_error

Estimate = Literal["plain", "below"]


def _learning_rate(value: object) -> float | None:
    return None if value is None else arguments.learning_rate(value)


def _estimate(value: object) -> Estimate:
    return one_of("estimate", value, "plain", "below")


def _law(value: object) -> Law:
    return one_of("law", value, "laplace", "gaussian")


def _steady(value: object) -> bool:
    return boolean("steady", value)


@frozen(kw_only=True, slots=False)
class NoisyHedge(ClientsHedge):
    """A federated learner of experts: exponential weights of noisy prefix sums of all clients' losses.

    Neighbouring data differ in one loss vector of one client in one round, replaced by any other in [0, 1]^d
    (replace-one; clients and rounds keep their places). Losses do not depend on the plays (oblivious).

    Sources: Dwork, Naor, Pitassi & Rothblum 2010 and Chan, Shi & Song 2011 (the tree); Freund & Schapire 1997 (Hedge).

    Args:
        clients: m >= 1.
        rounds: T >= 2.
        experts: d >= 2.
        scale: The scale of the noise on each of the tree's sums over clients and rounds, in units of loss: b of Laplace
            noise, or the standard deviation of Gaussian noise.
        law: "laplace" or "gaussian".
        steady: Pad the noise of every round to one law, by fresh noise, with a much smaller bound for few clients.
        learning_rate: eta > 0 per unit of a client's loss; None for the rate of least bound, which is sqrt(8 ln(d) / T)
            if the noise is not steady.
        estimate: The estimate of prefix sums from the tree: "plain", or "below" with less variance at the same cost.
            Steady Laplace noise needs "plain".
        clip: Clip losses to [0, 1] at ingestion, infinite ones too, instead of refusing those outside; NaN is refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners import NoisyHedge
        >>> few, many = (NoisyHedge.calibrated(clients=m, rounds=256, experts=4, epsilon=1.0) for m in (10, 10**6))
        >>> round(many.guarantee("client").epsilon(0.0).upper, 6)
        1.0
        >>> [round(learner.regret_bound(), 1) for learner in (few, many)]  # without privacy 13.3
        [25.7, 13.3]
        >>> print(NoisyHedge.choose(clients=10, rounds=256, experts=4, epsilon=1.0, delta=1e-6))
        steady gaussian noise: expected regret at most 15.92, for oblivious losses
          steady laplace noise: 25.69
          gaussian noise: 109.7
          laplace noise: 237
    """

    refuses = {
        "log_likelihood_ratio": "improved estimates from Laplace noise have no closed density",
        "expected_regret": "the laws are softmax functions of the noise; simulate, and see regrets()",
    }

    clients: int = field(converter=arguments.clients)
    rounds: int = field(converter=arguments.two_rounds)
    experts: int = field(converter=arguments.experts)
    scale: float = field(converter=_scale)
    law: Law = field(default="laplace", converter=_law)
    steady: bool = field(default=False, converter=_steady)
    learning_rate: float | None = field(default=None, converter=_learning_rate)
    estimate: Estimate = field(default="below", converter=_estimate)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        _ = self.mechanism  # refuses a scale that is no noise
        if self.steady and self.law == "laplace" and self.estimate != "plain":
            raise InvalidArgumentError(
                "estimate", self.estimate, "weighs Laplace noise in another way in each round", 'use "plain"'
            )

    @classmethod
    def calibrated(
        cls,
        *,
        clients: int,
        rounds: int,
        experts: int,
        epsilon: float,
        delta: float = 0.0,
        group: int = 1,
        law: Law | None = None,
        steady: bool | None = None,
        learning_rate: float | None = None,
        estimate: Estimate | None = None,
        clip: bool = False,
    ) -> "NoisyHedge":
        """Returns the learner of least regret bound that is (ε, δ)-DP against all who do not see clients' messages.

        Its noise is the least of its law. See :meth:`choose` for the bounds of all candidates.

        Args:
            clients, rounds, experts, learning_rate, clip: As for the learner.
            epsilon: Target, > 0.
            delta: The δ of the target; 0 for pure differential privacy, by Laplace noise alone.
            group: The target holds for ``group`` losses together.
            law, steady, estimate: As for the learner; None for the best.

        Raises:
            InvalidArgumentError: an argument outside its domain, or Gaussian noise for δ = 0.
        """
        found: NoisyHedge = cls.choose(
            clients=clients,
            rounds=rounds,
            experts=experts,
            epsilon=epsilon,
            delta=delta,
            group=group,
            law=law,
            steady=steady,
            learning_rate=learning_rate,
            estimate=estimate,
            clip=clip,
        ).learner
        return found

    @classmethod
    def choose(
        cls,
        *,
        clients: int,
        rounds: int,
        experts: int,
        epsilon: float,
        delta: float = 0.0,
        group: int = 1,
        law: Law | None = None,
        steady: bool | None = None,
        learning_rate: float | None = None,
        estimate: Estimate | None = None,
        clip: bool = False,
    ) -> Choice:
        """Returns the learner that :meth:`calibrated` returns, with the bounds of all that it was compared with.

        Laplace noise is calibrated to ε at δ = 0. Where the accounting at δ > 0 would allow less of it, by a tenth in
        deep trees, Gaussian noise has the lesser bound by far.

        Args:
            clients, rounds, experts, epsilon, delta, group, law, steady, learning_rate, estimate, clip: As for
                ``calibrated``.

        Raises:
            InvalidArgumentError: as for ``calibrated``.
        """
        shape: dict[str, Any] = {
            "clients": arguments.clients(clients),
            "rounds": arguments.two_rounds(rounds),
            "experts": arguments.experts(experts),
            "learning_rate": _learning_rate(learning_rate),
            "clip": arguments.clip(clip),
        }
        allowed, people = real("delta", delta, low=0.0, high=1.0, high_open=True), arguments.group(group)
        goal, fixed = target_epsilon(epsilon), None if estimate is None else _estimate(estimate)
        laws: list[Law] = ["laplace", "gaussian"] if law is None else [_law(law)]
        if not allowed:
            if laws == ["gaussian"]:
                raise InvalidArgumentError("delta", delta, "is too small for Gaussian noise", "give a delta above 0")
            laws = ["laplace"]
        makers: dict[str, Any] = {}
        for each in laws:
            scale = _calibrated_scale(each, shape["rounds"], shape["experts"], goal, allowed, people)
            for even in (True, False) if steady is None else (_steady(steady),):
                plain = even and each == "laplace"
                if steady is None and plain and fixed == "below":
                    continue
                own: Estimate = fixed or ("plain" if plain else "below")
                name = f"{'steady ' if even else ''}{each} noise"
                makers[name] = cls, partial(cls, **shape, scale=scale, law=each, steady=even, estimate=own)
        choice = compared(makers, lambda learner: learner.regret_bound())
        if not choice.candidates:  # of one candidate, as defaults are never refused
            next(iter(makers.values()))[1]()
        return choice

    @property
    def mechanism(self) -> TreeAggregation:
        """The mechanism of the prefix sums of the first T - 1 rounds; one loss moves a step by 1 in each of d entries.

        So it moves by at most d in L1 (Laplace noise), and sqrt(d) in L2 (Gaussian noise).
        """
        return _mechanism(self.law, self.rounds, self.experts, self.scale, self.estimate)

    @property
    def rate(self) -> float:
        """The learning rate eta, per unit of loss of one client."""
        return self.learning_rate if self.learning_rate is not None else self._best_rate

    @cached_property
    def _best_rate(self) -> float:
        own = multiplicative_weights.best_learning_rate(rounds=self.rounds, experts=self.experts)
        if not self.steady:
            return own
        if self.law == "gaussian":
            return noisy_sum_bounds.best_rate(self.rounds, self.experts, self._spread / self.clients)
        found = optimize.minimize_scalar(
            lambda x: self._steady_bound(own * math.exp(x)), bounds=(-12.0, 0.0), method="bounded"
        )
        return own * math.exp(float(found.x))

    def communication(self) -> Communication:
        """Returns the numbers sent in a run: each round d losses up from every client, and d weights down to it."""
        each = self.clients * self.rounds * self.experts
        return Communication(up=each, down=each)

    # --- noise -------------------------------------------------------------------------------------------------------

    @cached_property
    def _released_scale(self) -> float:
        return self.mechanism.released_scale(self.experts)

    @cached_property
    def _weight(self) -> float:
        """The largest sum of the squared weights of a round's noises; a number of Laplace variables, if plain."""
        return largest_variance(self.mechanism)

    @property
    def _spread(self) -> float:
        """The standard deviation of steady Gaussian noise on the sums, rounded up; see ``prefix_sums.least_spread``."""
        return self._released_scale * math.sqrt(self._weight + PADDING**2) * ROUNDING

    def _padded(self, sums: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns the noisy sums; if their noise is to be steady, with what each round's lacks, but the first one's."""
        if not self.steady:
            return sums
        rounds = np.arange(first, first + sums.shape[-2])
        missing = np.where(rounds > 0, self._weight - tree_blocks.prefix_weights(rounds, self.estimate), 0.0)[:, None]
        if self.law == "laplace":  # a sum of n Laplace variables is a difference of two of Gamma's law
            shape = np.broadcast_to(np.maximum(missing, 0.0)[..., None], (*sums.shape, 2))
            return np.asarray(sums - self._released_scale * np.diff(coins.normal.standard_gamma(shape))[..., 0])
        missing = np.where(rounds[:, None] > 0, missing + PADDING**2, 0.0)
        return np.asarray(sums + self._released_scale * np.sqrt(missing) * coins.normal.standard_normal(sums.shape))

    def _mixtures_of(self, read: FloatArray) -> FloatArray:
        """Returns the laws after the sums that are read, in their shape."""
        return np.asarray(special.softmax(read * (-self.rate / self.clients), axis=-1))

    # --- utility -----------------------------------------------------------------------------------------------------

    def regret_report(
        self, run: PublishedMixtures, *, quantiles: Iterable[float] = (0.0, 0.1, 0.5), confidence: float = 0.95
    ) -> RegretReport:
        """Returns the regret per client of a finished run against quantiles of the experts, with bands.

        It reads what the release published, and costs nothing; all bands hold together with the stated confidence, for
        the expectation over the clients' draws.

        Args:
            run: From ``release_mixtures`` of this learner.
            quantiles: In [0, 1], 0 for the best expert; see ``quantile_regret``.
            confidence: The probability, over the noise, with which all bands hold.

        Raises:
            InvalidArgumentError: an argument outside its domain, or a run of another shape.
        """
        failure = quantile_regret.checked_confidence(confidence)
        errs = self.mechanism.accuracy(failure, entries=self.experts) / self.clients * RELEASED
        # Losses are rounded, and sums and their noise to a grid: by less than two of its steps per round.
        errs += 2.0 * self.rounds * self.mechanism.rounding(self.experts) / self.clients
        errs += self.rounds * 2.0 ** -binary_digits(self.clients)
        return quantile_regret.reported(
            quantile_regret.checked_run(run, self.rounds, self.experts),
            errs=errs,
            failure=failure,
            rate=self.rate,
            quantiles=quantiles,
            confidence=confidence,
            plays="mixtures",
        )

    def regret_bound(self, failure: float | None = None, *, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns an upper bound on the regret per client, for every oblivious sequence of losses; see the module.

        The bound holds for releases, too: it includes the rounding of losses.

        Args:
            failure: None, the default, bounds the expected regret. A number in (0, 1) gives a bound that holds with
                probability at least 1 - ``failure`` over the noise, for the expectation over the clients' draws.
            adversary: "oblivious" or "stochastic".

        Raises:
            InvalidArgumentError: adaptive losses, which the plan excludes.
        """
        checked = refuse_adaptive(adversary, "is excluded by the plan, whose losses do not depend on what is played")
        drift = math.tanh(self.rate * self._largest(failure) / (2.0 * self.clients))
        bound = self._hedge(self.rate) + (self.rounds - 1) * drift
        if self.steady and failure is None:
            bound = min(bound, self._steady_bound(self.rate))
        bound += self._rounding(self.rounds, self.mechanism.rounding(self.experts))
        kept = None if failure is None else 1.0 - failure
        return RegretBound(bound, most=self.rounds, adversary=checked, probability=kept)

    def _hedge(self, rate: float) -> float:
        return multiplicative_weights.regret_bound(
            rounds=self.rounds, experts=self.experts, batch=1, learning_rate=rate
        )

    def _steady_bound(self, rate: float) -> float:
        """Returns the bound for steady noise at a rate."""
        if self.law == "gaussian":
            return noisy_sum_bounds.hedge(self.rounds, self.experts, self._spread / self.clients, rate)
        scale, levels = self._released_scale / self.clients, self._weight
        once = scale * laplace_minima.maximum_bound(levels, self.experts)
        if rate * scale < 1.0:
            once = min(once, -levels * math.log1p(-((rate * scale) ** 2)) / rate)
        grid = levels * self.mechanism.rounding(self.experts) / self.clients
        return self._hedge(rate) + once + (self.rounds - 1) * rate * grid / 2.0

    def _largest(self, failure: float | None) -> float:
        """Returns a bound on the largest noise of a round on the sums: expected in the mean of all rounds, or likely.

        tanh and the bounds on an expected maximum are concave: the mean of a tree's variances stands for each of them.
        """
        if failure is not None:
            if not self.steady:
                return self.mechanism.accuracy(failure, entries=self.experts)
            weight = self._weight + (PADDING**2 if self.law == "gaussian" else 0.0)
            counts = np.array([(self.rounds - 1.0) * self.experts])
            return self._released_scale * largest_error(self.law, failure, np.array([weight]), counts)
        weight = self._weight if self.steady else tree_blocks.mean_variance(self.rounds - 1, self.estimate)
        if self.law == "laplace":
            return self._released_scale * laplace_minima.maximum_bound(weight, self.experts)
        spread = self._released_scale * math.sqrt(weight + PADDING**2) * ROUNDING
        return spread * noisy_sum_bounds.expected_maximum(self.experts)


def _mechanism(law: Law, rounds: int, experts: int, scale: float, estimate: Estimate) -> TreeAggregation:
    distance = float(experts) if law == "laplace" else losses_sensitivity(experts)
    return TreeAggregation(rounds - 1, scale, law=law, sensitivity=distance, estimate=estimate)


def _calibrated_scale(law: Law, rounds: int, experts: int, epsilon: float, delta: float, group: int) -> float:
    """Returns the least scale that meets the target for ``group`` losses together."""
    if law == "laplace":
        return TreeAggregation.calibrated(rounds - 1, epsilon=epsilon / group, sensitivity=float(experts)).scale
    distance = losses_sensitivity(experts) * group
    scale = TreeAggregation.calibrated(rounds - 1, epsilon=epsilon, delta=delta, sensitivity=distance).scale
    step = 2.0**-52  # a person's share of the scale is rounded apart from the group's: the last bits are tried

    def certified(scale: float) -> float:
        learner = NoisyHedge(clients=1, rounds=rounds, experts=experts, scale=scale, law=law)
        return learner.guarantee(group=group).epsilon(delta).upper

    while certified(scale) > epsilon:
        scale, step = scale * (1.0 + step), 2.0 * step
    return scale
