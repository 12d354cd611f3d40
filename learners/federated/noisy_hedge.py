"""Hedge on noisy sums of all clients' losses: private for many clients at next to no cost, whatever the losses.

The server adds up what the clients lost, publishes prefix sums with Laplace noise over a binary tree, and all clients
draw from the exponential weights of the latest noisy sum. One loss of one client moves the sums by at most 1 per
expert however many clients there are, so that the noise on their *mean* vanishes as clients are added: at any fixed
epsilon the regret falls to sqrt(T ln(d) / 2), that of Hedge without privacy, on every sequence of losses.

That is the use of this learner: Gao, Huang & Yang 2024, Theorem 2, print a lower bound of order
min(ln(d) / epsilon, T) for every number of clients, and :meth:`NoisyHedge.regret_bound` proves it false.

Sources: Dwork, Naor, Pitassi & Rothblum 2010 and Chan, Shi & Song 2011 (the tree); Freund & Schapire 1997 (Hedge).
"""

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import special

from hockeystick.accounting import AccountantGraph, Adjacency, Guarantee, InvalidArgumentError, NonPrivate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, one_of
from hockeystick.learners.common import arguments
from hockeystick.learners.experts import multiplicative_weights
from hockeystick.learners.experts.expert_losses import TakesLosses, opposite_halves, regret_floor
from hockeystick.learners.federated import laplace_minima
from hockeystick.learners.network.conduct import Communication
from hockeystick.learners.network.threat_models import ThreatModel, threat_model
from hockeystick.mechanisms import TreeAggregation
from hockeystick.mechanisms.contract.arguments import generator
from hockeystick.mechanisms.contract.arguments import scale as _scale

Estimate = Literal["plain", "below"]

_CELLS = 1 << 22  # of simulated policies that are held at once


def _learning_rate(value: object) -> float | None:
    return None if value is None else arguments.learning_rate(value)


def _estimate(value: object) -> Estimate:
    return one_of("estimate", value, "plain", "below")


@frozen(kw_only=True)
class NoisyHedge(TakesLosses):
    """Exponential weights of noisy prefix sums of all clients' losses.

    Neighbouring data differ in one loss vector of one client in one round, replaced by any other in [0, 1]^d
    (replace-one; clients and rounds keep their places). Losses do not depend on what is played (oblivious).

    Sources: Dwork, Naor, Pitassi & Rothblum 2010 and Chan, Shi & Song 2011 (the tree); Freund & Schapire 1997 (Hedge).

    Args:
        clients: m >= 1.
        rounds: T >= 2.
        experts: d >= 2.
        scale: Of the Laplace noise on each of the tree's sums over clients and rounds, per expert, in units of loss.
        learning_rate: eta > 0 per unit of a client's loss; None for Hedge's own, sqrt(8 ln(d) / T).
        estimate: How prefix sums are read off the tree: "plain", or "below" with less variance at the same cost.
        clip: Clip losses to [0, 1] at ingestion, infinite ones too, instead of refusing those outside; NaN is refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

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
        learning_rate: float | None = None,
        estimate: Estimate = "below",
        clip: bool = False,
    ) -> "NoisyHedge":
        """The learner with the least noise that is epsilon-DP, for all that do not see the clients' messages."""
        tree = TreeAggregation.calibrated(
            arguments.two_rounds(rounds) - 1,
            epsilon=epsilon,
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
        """The prefix sums of the first T - 1 rounds over all clients; one loss moves a step by at most d in L1."""
        return TreeAggregation(
            self.rounds - 1, self.scale, law="laplace", sensitivity=float(self.experts), estimate=self.estimate
        )

    @property
    def rate(self) -> float:
        """eta, per unit of loss of one client."""
        if self.learning_rate is not None:
            return self.learning_rate
        return multiplicative_weights.best_learning_rate(rounds=self.rounds, experts=self.experts)

    # --- privacy -----------------------------------------------------------------------------------------------------

    def graph(self) -> AccountantGraph:
        """The data-independent plan, with a view for each :class:`ThreatModel`, by its value.

        What is played follows from the tree, and the server alone adds noise: colluding clients know no part of it. The
        server itself sees every loss as it is, so that there is no guarantee for its view, nor without a view.
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

    def guarantee(self, model: ThreatModel | str = ThreatModel.OUTPUT, *, group: int = 1) -> Guarantee:
        """What is guaranteed to ``group`` losses together against an adversary; m of them for a round of all clients.

        Raises:
            InvalidArgumentError: the adversary is unknown, or is the server, which is sent the losses as they are.
        """
        asked = threat_model(model)
        if asked is ThreatModel.SERVER:
            raise InvalidArgumentError(
                "model", asked.value, "is not private: clients send their losses as they are", "trust the server"
            )
        return self.graph().guarantee(view=asked.value, group=group)

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Two neighbouring sets of losses, shape (clients, rounds, experts), whose policies are far apart.

        Client 0's first losses are 1 on one half of the experts, or on the other; all else is 0.
        """
        first, second = np.zeros((2, self.clients, self.rounds, self.experts))
        first[0], second[0] = opposite_halves(self.rounds, self.experts)
        return first, second

    # --- runs --------------------------------------------------------------------------------------------------------

    def simulate(self, average: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """The laws that all clients draw from in ``runs`` independent runs, with real noise.

        Args:
            average: Shape (rounds, experts): the clients' losses, averaged over clients, which is all that is read. So
                time and memory do not depend on how many clients there are.
            rng: Of the noise.
            runs: How many.

        Returns:
            Shape (runs, rounds, experts); each law sums to 1.
        """
        mean = self._stream(average, "average")
        noisy = self.mechanism.simulate(self.clients * mean[:-1], generator(rng), runs)
        noisy *= -self.rate / self.clients
        found = np.empty((len(noisy), self.rounds, self.experts))
        found[:, 0] = 1.0 / self.experts
        found[:, 1:] = special.softmax(noisy, axis=2)
        return found

    def run(self, losses: npt.ArrayLike, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """The experts that the clients play in one simulated run: seeded, so not a private release.

        Args:
            losses: Shape (clients, rounds, experts).
            rng: Of the noise and of the clients' draws.

        Returns:
            Shape (clients, rounds).
        """
        shape = (self.clients, self.rounds, self.experts)
        given = array("losses", losses, shape=shape, infinite=self.clip, bools=True, data=True)
        checked = np.stack([self._stream(each, f"losses[{i}]") for i, each in enumerate(given)])
        noise, draws = generator(rng).spawn(2)
        sums = np.cumsum(self.simulate(checked.mean(axis=0), noise, 1)[0], axis=1)
        places = draws.random((self.clients, self.rounds)) * sums[:, -1]
        return np.asarray((places[:, :, None] >= sums[:, :-1]).sum(axis=2), dtype=np.int64)

    def communication(self) -> Communication:
        """Scalars sent in a run: each round d losses up from every client and the d weights of a law down to it."""
        each = self.clients * self.rounds * self.experts
        return Communication(up=each, down=each)

    # --- utility -----------------------------------------------------------------------------------------------------

    def regrets(self, average: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Regret per client, expected over the clients' draws, in ``runs`` independent runs; shape (runs,).

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

    def regret_bound(self, failure: float | None = None) -> float:
        """A bound on the regret per client that holds for every oblivious sequence of losses.

        Where noise of range r = max_x n(x) - min_x n(x) is added to the mean losses, log-ratios of weights move by at
        most eta r, and the law by at most tanh(eta r / 4) in total variation. So each round costs at most that more
        than Hedge, whose regret is at most ln(d)/eta + eta T/8, which is sqrt(T ln(d) / 2) at its own rate.

        Args:
            failure: None for expected regret, with a bound on the noise's expected range. Otherwise the bound holds
                with probability at least 1 - ``failure`` over the noise, for the expectation over the clients' draws.
        """
        hedge = multiplicative_weights.regret_bound(
            rounds=self.rounds, experts=self.experts, batch=1, learning_rate=self.rate
        )
        if failure is None:
            # tanh and the bound are concave: the mean of a tree's variances stands for each of them.
            weight = float(self.mechanism.variances().mean()) / (2.0 * self.scale**2)
            largest = self.scale * laplace_minima.maximum_bound(weight, self.experts)
        else:
            largest = self.mechanism.accuracy(failure, entries=self.experts)
        more = (self.rounds - 1) * math.tanh(self.rate * largest / (2.0 * self.clients))
        return min(float(self.rounds), hedge + more)
