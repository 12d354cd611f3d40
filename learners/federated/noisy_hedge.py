"""Hedge on noisy sums of the losses of all clients: for many clients privacy costs almost no regret.

The server adds up the clients' losses and publishes prefix sums with Laplace noise over a binary tree. All clients draw
from the exponential weights of the latest noisy sum. One loss of one client moves the sums by at most 1 per expert, for
any number of clients, so the noise on the *mean* vanishes as clients are added: at any fixed ε the regret falls
to sqrt(T ln(d) / 2), that of Hedge without privacy, on every sequence of losses.

Gao, Huang & Yang 2024, Theorem 2, print a lower bound of order min(ln(d) / ε, T) for every number of clients;
:meth:`NoisyHedge.regret_bound` disproves it.

Sources: Dwork, Naor, Pitassi & Rothblum 2010 and Chan, Shi & Song 2011 (the tree); Freund & Schapire 1997 (Hedge).
"""

import math
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen
from scipy import special

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    Guarantee,
    InvalidArgumentError,
    NonPrivate,
    PrivacyEvent,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, as_array, integer, one_of
from hockeystick.learners.common import arguments, noisy_sum_stream
from hockeystick.learners.common.noisy_sum_stream import Coins, PublishedMixtures
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, refuse_adaptive
from hockeystick.learners.experts import multiplicative_weights, quantile_regret
from hockeystick.learners.experts.expert_losses import (
    TakesLosses,
    binary_digits,
    checked_losses,
    on_grid,
    opposite_halves,
    regret_floor,
)
from hockeystick.learners.experts.quantile_regret import RegretReport
from hockeystick.learners.federated import laplace_minima
from hockeystick.learners.network.protocol import Communication
from hockeystick.learners.network.threat_models import ThreatModel, threat_model
from hockeystick.mechanisms import TreeAggregation
from hockeystick.mechanisms.contract.arguments import generator, target_epsilon, zeros
from hockeystick.mechanisms.contract.arguments import noise_scale as _scale
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger
from hockeystick.mechanisms.streams import tree_blocks

Estimate = Literal["plain", "below"]

_CELLS = 1 << 22  # numbers of simulated policies in memory at once


def _learning_rate(value: object) -> float | None:
    return None if value is None else arguments.learning_rate(value)


def _estimate(value: object) -> Estimate:
    return one_of("estimate", value, "plain", "below")


@frozen(kw_only=True)
class NoisyHedge(TakesLosses, OnlineLearner):
    """A federated learner of experts: exponential weights of noisy prefix sums of all clients' losses.

    Neighbouring data differ in one loss vector of one client in one round, replaced by any other in [0, 1]^d
    (replace-one; clients and rounds keep their places). Losses do not depend on the plays (oblivious).

    Sources: Dwork, Naor, Pitassi & Rothblum 2010 and Chan, Shi & Song 2011 (the tree); Freund & Schapire 1997 (Hedge).

    Args:
        clients: m >= 1.
        rounds: T >= 2.
        experts: d >= 2.
        scale: The scale of the Laplace noise on each of the tree's sums over clients and rounds, in units of loss.
        learning_rate: eta > 0 per unit of a client's loss; None for Hedge's own, sqrt(8 ln(d) / T).
        estimate: The estimate of prefix sums from the tree: "plain", or "below" with less variance at the same cost.
        clip: Clip losses to [0, 1] at ingestion, infinite ones too, instead of refusing those outside; NaN is refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners import NoisyHedge
        >>> few, many = (NoisyHedge.calibrated(clients=m, rounds=256, experts=4, epsilon=1.0) for m in (10, 10**6))
        >>> round(many.guarantee("client").epsilon(0.0).upper, 6)
        1.0
        >>> [round(learner.regret_bound(), 1) for learner in (few, many)]  # without privacy 13.3
        [237.0, 13.3]
    """

    refuses = {
        "log_likelihood_ratio": "improved estimates from Laplace noise have no closed density",
        "expected_regret": "the laws are softmax functions of Laplace noise; simulate, and see regrets()",
    }

    clients: int = field(converter=arguments.clients)
    rounds: int = field(converter=arguments.two_rounds)
    experts: int = field(converter=arguments.experts)
    scale: float = field(converter=_scale)
    learning_rate: float | None = field(default=None, converter=_learning_rate)
    estimate: Estimate = field(default="below", converter=_estimate)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        _ = self.mechanism  # refuses a scale that is no noise

    @classmethod
    def calibrated(
        cls,
        *,
        clients: int,
        rounds: int,
        experts: int,
        epsilon: float,
        group: int = 1,
        learning_rate: float | None = None,
        estimate: Estimate = "below",
        clip: bool = False,
    ) -> "NoisyHedge":
        """Returns the learner with the least noise that is ε-DP against all who do not see clients' messages.

        The target holds for ``group`` losses together.
        """
        steps = arguments.two_rounds(rounds) - 1
        tree = TreeAggregation.calibrated(
            steps,
            epsilon=target_epsilon(epsilon) / integer("group", group, low=1),
            sensitivity=arguments.experts(experts),
            estimate=_estimate(estimate),
        )
        return cls(
            clients=clients,
            rounds=rounds,
            experts=experts,
            scale=tree.scale,
            learning_rate=learning_rate,
            estimate=estimate,
            clip=clip,
        )

    @property
    def mechanism(self) -> TreeAggregation:
        """The mechanism of the prefix sums of the first T - 1 rounds; one loss moves a step by at most d in L1."""
        return TreeAggregation(
            self.rounds - 1, self.scale, law="laplace", sensitivity=float(self.experts), estimate=self.estimate
        )

    @property
    def rate(self) -> float:
        """The learning rate eta, per unit of loss of one client."""
        if self.learning_rate is not None:
            return self.learning_rate
        return multiplicative_weights.best_learning_rate(rounds=self.rounds, experts=self.experts)

    # --- privacy -----------------------------------------------------------------------------------------------------

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan, with one view for each :class:`ThreatModel`, named by its value.

        The plays are computed from the tree. The server alone adds noise, so colluding clients know no part of it. The
        server itself sees the exact losses: there is no guarantee for its view, nor for the graph without a view.
        """
        plan = (
            AccountantGraph(
                adjacency=Adjacency.REPLACE_ONE,
                pinned=True,
                assumptions=(
                    "every loss lies in [0, 1]",
                    "each record is one client's losses of one round",
                    "losses do not depend on what is played",
                ),
            )
            .source("losses", size=self.clients * self.rounds)
            .release("messages", NonPrivate(), reads=("losses",))
            .release("noisy sums", self.mechanism.event(), reads=("losses",))
            .post("plays", reads=("noisy sums",))
        )
        for model in ThreatModel:
            seen = ("messages", "plays") if model is ThreatModel.SERVER else ("plays",)
            plan = plan.view(model.value, sees=seen)
        return plan

    def guarantee(self, view: ThreatModel | str | None = None, *, group: int = 1) -> Guarantee:
        """Returns the guarantee for ``group`` losses together; use group = m to protect a round of all clients.

        Args:
            view: The threat model; None for the plays.
            group: The number of losses that are replaced.

        Raises:
            InvalidArgumentError: the threat model is unknown, or is the server, which receives the exact losses.
        """
        adversary = threat_model(ThreatModel.OUTPUT if view is None else view)
        if adversary is ThreatModel.SERVER:
            raise InvalidArgumentError(
                "view",
                adversary.value,
                "has no guarantee: clients send their exact losses",
                'trust the server ("central")',
            )
        return self.graph().guarantee(view=adversary.value, group=group)

    def event(self) -> PrivacyEvent:
        """Returns the cost of a whole run to a client's loss, as one event, for a larger graph or a ledger."""
        return self.mechanism.event()

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two neighbouring sets of losses, shape (clients, rounds, experts), whose policies are far apart.

        Client 0's first losses are 1 on one half of the experts, or on the other half; all other losses are 0.
        """
        first, second = zeros((2, self.clients, self.rounds, self.experts))
        first[0], second[0] = opposite_halves(self.rounds, self.experts)
        return first, second

    # --- runs --------------------------------------------------------------------------------------------------------

    def simulate(self, average: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the laws that all clients draw from in ``runs`` independent runs, with floating-point noise.

        Args:
            average: Losses averaged over clients, shape (rounds, experts). Time and memory do not depend on the number
                of clients.
            rng: Generator of the noise.
            runs: Number of runs.

        Returns:
            Shape (runs, rounds, experts); each law sums to 1.
        """
        mean = self._stream(average, "average")
        noisy = self.mechanism.simulate(self.clients * mean[:-1], generator(rng), runs)
        found = np.empty((len(noisy), self.rounds, self.experts))
        found[:, 0] = 1.0 / self.experts
        found[:, 1:] = special.softmax(noisy * (-self.rate / self.clients), axis=2)
        return found

    def run(self, losses: npt.ArrayLike, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Returns the experts that the clients play in one simulated run. Its noise is seeded: it is not a release.

        Args:
            losses: Shape (clients, rounds, experts).
            rng: Generator of the noise and of the clients' draws.

        Returns:
            Shape (clients, rounds).
        """
        mean = np.minimum(sum(self._checked(losses)) / self.clients, 1.0)
        noise, draws = generator(rng).spawn(2)
        sums = np.cumsum(self.simulate(mean, noise, 1)[0], axis=1)
        places = draws.random((self.clients, self.rounds)) * sums[:, -1]
        return np.asarray((places[:, :, None] >= sums[:, :-1]).sum(axis=2), dtype=np.int64)

    # --- one round at a time, and releases, at the server -------------------------------------------------------------

    start = noisy_sum_stream.start
    resume = noisy_sum_stream.resume

    def release(
        self,
        losses: npt.ArrayLike,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> FloatArray:
        """Returns the law of each round's experts, shape (rounds, experts), from secure noise.

        Clients draw their experts from these laws by themselves, as post-processing.

        Args:
            losses: Shape (clients, rounds, experts); each is rounded to a multiple of 2^-30 (coarser beyond 2^22
                clients) before the sum, so that one client moves the sum by no more than its loss.
            ledger, name, reads, noise: As for ``start``.

        Raises:
            InvalidArgumentError: bad losses; nothing was recorded.
            HockeystickError: the ledger refuses.
        """
        sums = self._added_up(losses)
        stream = self.start(ledger=ledger, name=name, reads=reads, noise=noise)
        found: FloatArray = noisy_sum_stream.played(stream, iter([sums]))
        return found

    def release_mixtures(
        self,
        losses: npt.ArrayLike,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> PublishedMixtures:
        """Returns the laws of ``release`` with the noisy sums of the mean losses that they follow from.

        The laws are post-processing of the sums: both together cost what the laws cost. ``actions`` is None, as each
        client draws its own experts.

        Args:
            losses, ledger, name, reads, noise: As for ``release``.

        Raises:
            HockeystickError: as for ``release``.
        """
        sums = self._added_up(losses)
        stream = self.start(ledger=ledger, name=name, reads=reads, noise=noise)
        found = noisy_sum_stream.played_mixtures(stream, iter([sums]))
        return evolve(found, sums=found.sums / self.clients)

    def _added_up(self, losses: npt.ArrayLike) -> FloatArray:
        """Returns the checked losses, added up over the clients, shape (rounds, experts)."""
        sums = zeros((self.rounds, self.experts))
        for each in self._checked(losses):
            sums += self._on_grid(each)
        return sums

    def _checked(self, losses: npt.ArrayLike) -> Iterator[FloatArray]:
        """Returns the checked losses of one client after the other, of which one at a time is copied."""
        given, shape = as_array("losses", losses, data=True), (self.clients, self.rounds, self.experts)
        if given.dtype.kind not in "biuf" or given.shape != shape:
            array("losses", losses, shape=shape, infinite=self.clip, bools=True, data=True)  # raises, with the reason
        return (self._stream(each, f"losses[{i}]") for i, each in enumerate(given))

    @property
    def _entries(self) -> int:
        """d, the length of the sums."""
        return self.experts

    @property
    def _shift_scale(self) -> float:
        """0: the laws have no coins beyond the noise of the sums."""
        return 0.0

    def _contribution(self, losses: npt.ArrayLike, action: FloatArray, at: int) -> FloatArray:
        """Returns the sum of one round's losses, which have the shape (clients, experts), over the clients."""
        given = checked_losses("losses", losses, rounds=self.clients, experts=self.experts, clip=self.clip)
        return np.asarray(self._on_grid(given).sum(axis=0))

    def _padded(self, sums: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns the noisy sums."""
        return sums

    def _mixtures_of(self, read: FloatArray) -> FloatArray:
        """Returns the laws after the noisy sums, in the shape of the sums."""
        return np.asarray(special.softmax(read * (-self.rate / self.clients), axis=-1))

    def _actions_of(self, read: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns the laws, from which clients draw."""
        return self._mixtures_of(read)

    def _on_grid(self, losses: FloatArray) -> FloatArray:
        """Rounds losses such that their sums over all clients are exact."""
        return on_grid(losses, self.clients)

    def communication(self) -> Communication:
        """Returns the numbers sent in a run: each round d losses up from every client, and d weights down to it."""
        each = self.clients * self.rounds * self.experts
        return Communication(up=each, down=each)

    # --- utility -----------------------------------------------------------------------------------------------------

    def regrets(self, average: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the regret per client in ``runs`` independent runs, shape (runs,), expected over the clients' draws.

        It is (1/m) [sum over i, t of l_it(x_it) - min_x sum over i, t of l_it(x)]; arguments as in :meth:`simulate`.
        """
        mean, source = self._stream(average, "average"), generator(rng)
        runs = integer("runs", runs, low=1)
        step, floor = max(1, _CELLS // mean.size), regret_floor(mean)[1]
        parts = [
            np.einsum("rtd,td->r", self.simulate(mean, source, min(step, runs - start)), mean)
            for start in range(0, runs, step)
        ]
        return np.concatenate(parts) - floor

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
        errs = self.mechanism.accuracy(failure, entries=self.experts) / self.clients
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
        """Returns an upper bound on the regret per client, for every oblivious sequence of losses.

        Noise of range r = max_x n(x) - min_x n(x) on the mean losses moves log-ratios of weights by at most eta r, and
        the law by at most tanh(eta r / 4) in total variation. So each round costs at most that much more than with
        Hedge, whose regret is at most ln(d)/eta + eta T/8; at its own rate that is sqrt(T ln(d) / 2).

        Args:
            failure: None, the default, bounds the expected regret. A number in (0, 1) gives a bound that holds with
                probability at least 1 - ``failure`` over the noise, for the expectation over the clients' draws.
            adversary: "oblivious" or "stochastic".

        Raises:
            InvalidArgumentError: adaptive losses, which the plan excludes.
        """
        checked = refuse_adaptive(adversary, "is excluded by the plan, whose losses do not depend on what is played")
        hedge = multiplicative_weights.regret_bound(
            rounds=self.rounds, experts=self.experts, batch=1, learning_rate=self.rate
        )
        if failure is None:
            # tanh and the bound are concave: the mean of a tree's variances stands for each of them.
            weight = tree_blocks.mean_variance(self.rounds - 1, self.estimate)
            largest = self.scale * laplace_minima.maximum_bound(weight, self.experts)
        else:
            largest = self.mechanism.accuracy(failure, entries=self.experts)
        more = (self.rounds - 1) * math.tanh(self.rate * largest / (2.0 * self.clients))
        kept = None if failure is None else 1.0 - failure
        return RegretBound(hedge + more, most=self.rounds, adversary=checked, probability=kept)
