"""The shared part of Hedge on noisy sums of all clients' losses, for a number of rounds that is known or not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from attrs import evolve

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    Guarantee,
    InvalidArgumentError,
    NonPrivate,
    PrivacyEvent,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, as_array, integer
from hockeystick.learners.common import noisy_sum_stream
from hockeystick.learners.common.noisy_sum_stream import Coins, PublishedMixtures
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.experts.expert_losses import (
    TakesLosses,
    binary_digits,
    checked_losses,
    on_grid,
    opposite_halves,
    regret_floor,
)
from hockeystick.learners.network.threat_models import ThreatModel, threat_model
from hockeystick.mechanisms import HybridTree, TreeAggregation
from hockeystick.mechanisms.contract.arguments import generator, zeros
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger

_CELLS = 1 << 22  # numbers of simulated policies in memory at once


class ClientsHedge(TakesLosses, OnlineLearner):
    """Base of ``NoisyHedge`` and ``AnytimeNoisyHedge``.

    See ``NoisyHedge`` for an example.
    """

    __slots__ = ()

    clients: int

    @property
    @abstractmethod
    def mechanism(self) -> HybridTree | TreeAggregation:
        """The prefix sums of all rounds but the last."""

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

        In one round client 0's losses are 1 on one half of the experts, or on the other half; all others are 0.

        Raises:
            InvalidArgumentError: they are too long for an array.
        """
        first, second = zeros((2, self.clients, self.rounds, self.experts))
        at = self._dearest_round
        first[0, at:], second[0, at:] = opposite_halves(self.rounds - at, self.experts)
        return first, second

    @property
    def _dearest_round(self) -> int:
        """A round, from 0, in which a loss costs most."""
        return 0

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
        mean, source = self._whole_stream(average, "average"), generator(rng)
        padding = source.spawn(1)[0]
        noisy = self.mechanism.simulate(self.clients * mean[:-1], source, runs)
        found = np.empty((len(noisy), *mean.shape))
        found[:, 0] = 1.0 / self.experts
        found[:, 1:] = self._mixtures_of(self._padded(noisy, 1, Coins(np.zeros(1), padding, padding)))
        return found

    def run(self, losses: npt.ArrayLike, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Returns the experts that the clients play in one simulated run. Its noise is seeded: it is not a release.

        Args:
            losses: Shape (clients, rounds, experts).
            rng: Generator of the noise and of the clients' draws.

        Returns:
            Shape (clients, rounds).
        """
        checked = self._checked(losses)
        mean = np.minimum(sum(checked) / self.clients, 1.0)
        noise, draws = generator(rng).spawn(2)
        sums = np.cumsum(self.simulate(mean, noise, 1)[0], axis=1)
        places = draws.random((self.clients, len(sums))) * sums[:, -1]
        return np.asarray((places[:, :, None] >= sums[:, :-1]).sum(axis=2), dtype=np.int64)

    # --- one round at a time, and releases, at the server -------------------------------------------------------------

    start = noisy_sum_stream.start
    resume = noisy_sum_stream.resume

    release = noisy_sum_stream.release

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
        found = noisy_sum_stream.release_mixtures(self, losses, ledger=ledger, name=name, reads=reads, noise=noise)
        return evolve(found, sums=found.sums / self.clients)

    def _read_blocks(self, losses: npt.ArrayLike) -> Iterator[FloatArray]:
        """Returns the losses, checked and added up over the clients, in one block."""
        return iter([self._added_up(losses)])

    def _added_up(self, losses: npt.ArrayLike) -> FloatArray:
        """Returns the checked losses, added up over the clients, shape (rounds, experts)."""
        return np.asarray(sum(self._on_grid(each) for each in self._checked(losses)))

    def _checked(self, losses: npt.ArrayLike) -> Iterator[FloatArray]:
        """Returns the checked losses of one client after the other, of which one at a time is copied."""
        given = as_array("losses", losses, data=True)
        if given.dtype.kind not in "biuf" or given.ndim != 3 or given.shape[::2] != (self.clients, self.experts):
            shape = (self.clients, None, self.experts)
            array("losses", losses, shape=shape, infinite=self.clip, bools=True, data=True)  # raises, with the reason
        return (self._whole_stream(each, f"losses[{i}]") for i, each in enumerate(given))

    def _whole_stream(self, losses: npt.ArrayLike, name: str) -> FloatArray:
        """Returns the checked losses of a whole run, shape (rounds, experts)."""
        return self._stream(losses, name)

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

    @abstractmethod
    def _padded(self, sums: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns what the rounds ``first`` … read of the noisy sums before them."""

    @abstractmethod
    def _mixtures_of(self, read: FloatArray) -> FloatArray:
        """Returns the laws after what their rounds read, in its shape."""

    def _actions_of(self, read: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns the laws, from which clients draw."""
        return self._mixtures_of(read)

    def _on_grid(self, losses: FloatArray) -> FloatArray:
        """Rounds losses such that their sums over all clients are exact."""
        return on_grid(losses, self.clients)

    def _rounding(self, rounds: int, step: float) -> float:
        """Returns a bound on the regret from rounding losses, and their sums to a grid with this step."""
        return rounds * (2.0 ** -binary_digits(self.clients) + step / self.clients)

    # --- utility -----------------------------------------------------------------------------------------------------

    def regrets(self, average: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the regret per client in ``runs`` independent runs, shape (runs,), expected over the clients' draws.

        It is (1/m) [sum over i, t of l_it(x_it) - min_x sum over i, t of l_it(x)]; arguments as in :meth:`simulate`.
        """
        mean, source = self._whole_stream(average, "average"), generator(rng)
        runs = integer("runs", runs, low=1)
        step, floor = max(1, _CELLS // mean.size), regret_floor(mean)[1]
        parts = [
            np.einsum("rtd,td->r", self.simulate(mean, source, min(step, runs - start)), mean)
            for start in range(0, runs, step)
        ]
        return np.concatenate(parts) - floor
