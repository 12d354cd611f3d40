"""Fed-DP-OPE-Stoch: a federated learner for stochastic losses, in phases of doubling length.

In phase p, rounds 2^(p-1), ..., 2^p - 1, all clients play one point of the simplex of experts. It is computed from
their losses of the phase before, by a private Frank-Wolfe method over binary trees
(:mod:`~hockeystick.learners.federated.stochastic.frank_wolfe_tree`): at each leaf every client sends one gradient of d
numbers, and the server announces the expert with the least noisy average. Nothing else is ever sent.

Noise is added by the clients (Gao, Huang & Yang 2024, Algorithms 1 and 2) or by a trusted server (Algorithms 4 and 5).
:meth:`FedStoch.graph` computes the guarantee against each adversary; at equal scales the two differ.

The clients play the point: their regret is that of the loss at the point. A client that has to play a single expert
draws it from the point (:meth:`FedStoch.sampled`), which reveals nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, items
from hockeystick.learners.federated.stochastic.client import StochClient
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import (
    Leaf,
    TreePhase,
)
from hockeystick.learners.federated.stochastic.loss_pool import Kept, RunningMeans, new_pool, pieces, vertex_labels
from hockeystick.learners.federated.stochastic.phase import ASSIGNING, PLAYING, SCORING, Path, moved, score_noise
from hockeystick.learners.federated.stochastic.printed_batches import Sizes, printed_communication
from hockeystick.learners.federated.stochastic.release import check_release, released_winner
from hockeystick.learners.federated.stochastic.results import Broadcasts, StochRun
from hockeystick.learners.federated.stochastic.simulation import StochRuns, simulated
from hockeystick.learners.federated.stochastic.stoch_learner import StochLearner
from hockeystick.learners.network.protocol import (
    Communication,
    InProcess,
    Request,
    Server,
    conduct,
    seed_or_noise,
    substream,
)
from hockeystick.learners.network.threat_models import ThreatModel
from hockeystick.mechanisms import Noise
from hockeystick.mechanisms.contract.arguments import generator
from hockeystick.mechanisms.randomness.noise import check_noise
from hockeystick.mechanisms.release import AnyLedger, charged


@frozen(kw_only=True)
class FedStoch(StochLearner):
    """The federated stochastic learner.

    Neighbouring data differ in one client's loss of one round, replaced by any other (replace-one; rounds and clients
    keep their places). Losses do not depend on the run (stochastic or oblivious). The bounds on regret, but not the
    privacy guarantee, assume that losses are independent and identically distributed.

    Source: Gao, Huang & Yang 2024, Algorithms 1 and 2 (noise by the clients), 4 and 5 (by the server).

    Args:
        setting: Clients, phases, clipping and noise. One phase for every doubling: p = 2, ..., P with 2^(P-1) <= T.
        rounds: T >= 1; the last phase may be cut short.
        experts: d >= 2.
        family: The losses. Losses that are not linear need a ``smoothness`` other than 0.

    Raises:
        InvalidArgumentError: an argument outside its domain, or arguments that do not fit together.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import FedStoch
        >>> learner = FedStoch.calibrated(clients=20, rounds=255, experts=4, epsilon=1.0)
        >>> losses = np.random.default_rng(1).random((20, 255, 4)) * [1.0, 1.0, 0.2, 1.0]  # expert 2 is best
        >>> run = learner.run(losses, range(20))
        >>> run.broadcasts.points[-1].tolist(), round(run.regret / 255, 2)  # the last point, the regret per round
        ([0.0, 0.0, 1.0, 0.0], 0.01)
    """

    refuses = {
        "release_mixtures": "its points are mixtures of experts already; see release",
        **dict.fromkeys(
            ("start", "resume"), "clients read their own losses in a secret order; see server() and client()"
        ),
        **dict.fromkeys(
            ("log_likelihood_ratio", "expected_regret"), "they sum over all orders of the losses; simulate"
        ),
    }

    # --- runs --------------------------------------------------------------------------------------------------------

    def run(
        self,
        losses: npt.NDArray[np.floating] | Iterable[npt.ArrayLike],
        seeds: Sequence[int],
        *,
        server_seed: int | None = None,
    ) -> StochRun:
        """Returns a run of all clients in one process, with the plays of :func:`conduct` with the same seeds.

        Args:
            losses: An array of shape (clients, rounds, d); or an iterable of arrays of shape (clients, n, d) of
                successive rounds, which are not stored if losses are linear.
            seeds: One seed for each client: whole numbers >= 0, all different.
            server_seed: Another seed, for noise at the server.

        Raises:
            InvalidArgumentError: wrong shapes, too few or too many rounds, losses that the family refuses, or seeds
                that are invalid.
        """
        streams = self._seeds(seeds)
        server = self._server_source(server_seed)
        shape = (self.setting.clients, self.rounds, self.experts)
        point = np.full((1, self.experts), 1.0 / self.experts)
        points, winners = [point[0]], []
        paid, totals = np.zeros(self.setting.clients), np.zeros(self.experts)
        pool, phase = self._pool(2, streams), 1
        for p, block in pieces(self.family, losses, shape):
            if p > phase:
                phase = p
                current = self.setting.phases[p - 2]
                won: tuple[int, ...] = ()
                if current is not None and pool is not None:
                    point, won = self._phase(p, current, pool, point, streams, server)
                points.append(point[0])
                winners.append(won)
                pool = self._pool(p + 1, streams)
            if pool is not None:
                pool.add(block)
            here, experts = self.family.totals(block, point)
            paid += here
            totals += experts.sum(axis=0)
        return StochRun(Broadcasts(np.array(points), tuple(winners)), paid, totals)

    def release(
        self,
        losses: npt.ArrayLike,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
        view: ThreatModel | str | None = None,
    ) -> Broadcasts:
        """Returns a run of all clients in one process for publication, with their secret orders and noise.

        Args:
            losses: Shape (clients, rounds, d).
            ledger, name, reads: As for a mechanism's release; the cost is that in ``view``.
            noise: None for secure noise; ``SimulationNoise`` for reproducible runs, which are not releases.
            view: The threat model of :meth:`guarantee` whose cost is recorded; None for the plays (:meth:`event`).

        Raises:
            InvalidArgumentError: wrong shape, losses that the family refuses, or noise that a release can't draw;
                nothing was recorded.
            HockeystickError: the ledger refuses.
        """
        check_release(self.setting, experts=self.experts)
        event = self.guarantee(view).event
        shape = (self.setting.clients, self.rounds, self.experts)
        given = array("losses", losses, shape=shape, bools=True, data=True)
        source = check_noise(noise)
        clients = [self.client(own, source) for own in given]

        def drawn() -> Broadcasts:
            return conduct(self.server(source), InProcess(clients), clients=len(clients), least=len(clients)).result

        return charged(event, drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)

    def server(self, source: int | Noise | None = None) -> Server[Broadcasts]:
        """Returns the server for :func:`~hockeystick.learners.network.conduct`.

        At each leaf d numbers go up and one comes down.

        The server adds up the scores of the clients that have answered. Its noise does not depend on their number.

        Args:
            source: For noise at the server: its seed, for simulations; or ``ReleaseNoise()``, for exact choices.

        Raises:
            InvalidArgumentError: the server has to add noise, and ``source`` is missing.
        """
        return self._serve(self._server_source(source))

    def _serve(self, source: int | Noise) -> Server[Broadcasts]:
        low, high = self._range()
        point = np.full((1, self.experts), 1.0 / self.experts)
        points, winners = [point[0]], []
        number = 0
        for p, phase in enumerate(self.setting.phases, start=2):
            won: list[int] = []
            if phase is not None:
                for leaf in phase.schedule():
                    number += 1
                    announced = np.array(won[-1:], dtype=np.float64)
                    replies = yield Request(number, (p, leaf.number), announced, self.experts, low, high)
                    won.append(self._winner(p, leaf, phase, replies.total(), source))
                    point = moved(point, np.array(won[-1:]), leaf)
                number += 1
                yield Request(number, (p, 0), np.array(won[-1:], dtype=np.float64), 0)
            points.append(point[0])
            winners.append(tuple(won))
        return Broadcasts(np.array(points), tuple(winners))

    def communication(self, sizes: Sizes | None = None) -> Communication:
        """Returns the numbers sent if all clients answer, beside ``printed_communication`` if its sizes are given."""
        leaves = self.setting.clients * sum(phase.leaves() for phase in self.setting.phases if phase is not None)
        printed = None if sizes is None else printed_communication(sizes, self.rounds)
        return Communication(leaves * self.experts, leaves, printed)

    def client(self, losses: npt.ArrayLike, source: int | Noise) -> StochClient:
        """Returns one client.

        Args:
            losses: The client's losses, shape (rounds, d).
            source: The client's secret seed, for simulations; or ``ReleaseNoise()`` to publish: its order of reading is
                then drawn exactly, and Laplace and Gaussian noise are whole numbers on a grid, at no more cost.

        Raises:
            InvalidArgumentError: wrong shape, losses that the family refuses, or an invalid seed.
        """
        own = self.family.checked(array("losses", losses, shape=(self.rounds, self.experts), bools=True, data=True))
        return StochClient(self.setting, self.experts, self.family, own, seed_or_noise("source", source))

    def simulate(
        self,
        losses: npt.ArrayLike,
        rng: np.random.Generator,
        runs: int,
        *,
        pins: Mapping[tuple[int, int], int] | None = None,
        outcomes: Mapping[tuple[int, int], int] | None = None,
        uplinks: bool = False,
    ) -> StochRuns:
        """Returns ``runs`` independent runs on the same losses, with runs on the leading axis.

        Args:
            losses: Shape (clients, rounds, d).
            rng: Generator of all randomness.
            runs: Number of runs, >= 1.
            pins: The vertex at which a loss is read, an index into ``TreePhase.vertices()`` or -1 for none, by (client,
                round); clients from 0, rounds from 1, at most one loss of a client in each phase. The assignment of the
                other losses is uniform given the pins.
            outcomes: The winner at a leaf, by (phase, leaf); phases from 2, leaves from 1.
            uplinks: Whether to return the clients' messages. By default the clients' noise is drawn as one sum.

        Raises:
            InvalidArgumentError: wrong shape, losses that the family refuses, or a pin or outcome that can't be.
        """
        shape = (self.setting.clients, self.rounds, self.experts)
        return simulated(
            self.setting,
            self.family,
            self.family.checked(array("losses", losses, shape=shape, bools=True, data=True)),
            generator(rng),
            integer("runs", runs, low=1),
            pins=pins or {},
            outcomes=outcomes or {},
            uplinks=uplinks,
        )

    def regrets(self, points: npt.ArrayLike, losses: npt.ArrayLike) -> FloatArray:
        """Returns the regret per client of playing the points, against the best single expert, shape (runs,).

        Args:
            points: The points of each run and phase, shape (runs, phases, d), as in :class:`StochRuns`.
            losses: Shape (clients, rounds, d).

        Raises:
            InvalidArgumentError: wrong shapes, or losses that the family refuses.
        """
        played: FloatArray = array(
            "points", points, shape=(None, len(self.setting.phases) + 1, self.experts), data=True
        )
        paid, totals = np.zeros(len(played)), np.zeros(self.experts)
        shape = (self.setting.clients, self.rounds, self.experts)
        for p, block in pieces(self.family, array("losses", losses, ndim=3, bools=True, data=True), shape):
            here, experts = self.family.totals(block, played[:, p - 1][:, None, :])
            paid += here.sum(axis=-1)
            totals += experts.sum(axis=0)
        return np.asarray((paid - totals.min()) / self.setting.clients)

    def sampled(self, broadcasts: Broadcasts, seeds: Sequence[int]) -> npt.NDArray[np.intp]:
        """Returns the experts that the clients play, each drawn from the point of its round; shape (clients, rounds).

        Raises:
            InvalidArgumentError: seeds that are invalid.
        """
        found = np.empty((self.setting.clients, self.rounds), dtype=np.intp)
        for client, seed in enumerate(self._seeds(seeds)):
            for p, point in enumerate(broadcasts.points, start=1):
                first, last = 2 ** (p - 1), min(2**p - 1, self.rounds)
                uniform = substream(seed, p, PLAYING, 0).random(last - first + 1)
                ladder = np.cumsum(point)
                found[client, first - 1 : last] = np.searchsorted(ladder / ladder[-1], uniform, side="right")
        return found

    # --- parts -------------------------------------------------------------------------------------------------------

    def _phase(
        self,
        p: int,
        phase: TreePhase,
        pool: RunningMeans | Kept,
        point: FloatArray,
        seeds: Sequence[int],
        source: int | Noise,
    ) -> tuple[FloatArray, tuple[int, ...]]:
        path = Path.empty(phase.trees, 1, self.setting.clients, self.experts)
        won = []
        for leaf in phase.schedule():
            scores = path.to(leaf, pool, point)[0]
            if self.setting.where == "client":
                scale, shape = phase.scale(leaf.tree), (self.experts,)
                scores = scores + np.array(
                    [
                        score_noise(self.setting.noise, scale, substream(seed, p, SCORING, leaf.number), shape)
                        for seed in seeds
                    ]
                )
            won.append(self._winner(p, leaf, phase, scores.sum(axis=0), source))
            point = moved(point, np.array(won[-1:]), leaf)
        return point, tuple(won)

    def _winner(self, p: int, leaf: Leaf, phase: TreePhase, total: FloatArray, source: int | Noise) -> int:
        """The expert with the least total of scores, after the server's noise (m times that of the average)."""
        if self.setting.where == "client":
            return int(np.argmin(total))
        if not isinstance(source, int):
            return released_winner(self.setting, phase, leaf.tree, total, source)
        rng, scale = substream(source, p, SCORING, leaf.number), self.setting.clients * phase.scale(leaf.tree)
        return int(np.argmin(total + score_noise(self.setting.noise, scale, rng, (self.experts,))))

    def _pool(self, p: int, seeds: Sequence[int]) -> RunningMeans | Kept | None:
        phase = self.setting.phases[p - 2] if p - 2 < len(self.setting.phases) else None
        if phase is None:
            return None
        labels = np.array([vertex_labels(phase, self.setting, substream(seed, p, ASSIGNING, 0)) for seed in seeds])
        return new_pool(self.family, self.setting, phase, labels[None], self.experts)

    def _range(self) -> tuple[float, float]:
        """The range of a valid answer: unbounded with a client's noise; else that of a gradient and corrections."""
        if self.setting.where == "client":
            return -np.inf, np.inf
        most = max((phase.trees for phase in self.setting.phases if phase is not None), default=0)
        room = (most + 2.0**-20) * self.setting.span  # and for rounding
        return self.setting.low - room, self.setting.high + room

    def _seeds(self, seeds: Sequence[int]) -> list[int]:
        found = [integer("seeds", seed, low=0) for seed in items("seeds", seeds)]
        if len(found) != self.setting.clients or len(set(found)) != len(found):
            raise InvalidArgumentError(
                "seeds",
                len(found),
                f"are not {self.setting.clients} different seeds",
                "give one for each client: with equal seeds they would draw the same noise",
            )
        return found

    def _server_source(self, source: int | Noise | None) -> int | Noise:
        if self.setting.where == "client":
            return 0
        if source is None:
            raise InvalidArgumentError("server_seed", None, "is missing", "give a seed for the server's noise")
        return seed_or_noise("server_seed", source)
