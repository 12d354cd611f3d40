"""Fed-SVT: a federated learner for losses of which one expert is good in all rounds (Gao, Huang & Yang 2024).

All m clients play one expert. Every N rounds each client sends the exact sums of its losses to a trusted server. The
server compares the total loss of the expert since it was drawn with a noisy threshold; if the loss is above, it draws
another expert by the exponential mechanism. The published experts are private. A single server adds the noise, so its
price per client falls with their number.

The printed algorithm is corrected in three places: all clients begin with one common expert; draws score every expert
and not only the one played; and with ``indexing="clean"`` a block is the N rounds that were played with its expert (in
print it is the N rounds before round n*N, so the first block is one round short).

:meth:`FedSVT.graph` computes the guarantee (:mod:`hockeystick.learners.federated.one_good_expert.plan`),
``federated.one_good_expert.calibration`` the parameters, and ``federated.one_good_expert.exact_law`` the exact law of
the published experts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import asdict, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, one_of, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, refuse_adaptive
from hockeystick.learners.experts.expert_losses import checked_losses, opposite_halves
from hockeystick.learners.federated.one_good_expert import calibration, exact_law, svt_stream
from hockeystick.learners.federated.one_good_expert import runs as fed_svt_run
from hockeystick.learners.federated.one_good_expert.losses import segment_sums
from hockeystick.learners.federated.one_good_expert.releases import ExactSteps, SVTRelease, release
from hockeystick.learners.federated.one_good_expert.runs import SVTClient, SVTRuns
from hockeystick.learners.federated.one_good_expert.setting import Indexing, SVTSetting
from hockeystick.learners.network.protocol import Communication, Server, seed_or_noise
from hockeystick.learners.network.threat_models import ThreatModel
from hockeystick.mechanisms.contract.arguments import blocks, generator, run_count
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger


@frozen(kw_only=True)
class FedSVT(SVTSetting):
    """The federated learner of experts by the sparse vector technique.

    Neighbouring streams differ in one client's losses of one round, replaced by any others in [0, 1]^d (replace-one;
    rounds and clients keep their places).

    Losses are an array of shape (clients, rounds, experts) with entries in [0, 1]; or of shape (rounds, experts),
    summed over the clients, with entries in [0, clients]; or an iterable of blocks of rounds of either shape.

    Source: Gao, Huang & Yang 2024, Algorithms 7 and 8, corrected.

    Args:
        clients: m >= 1.
        rounds: T >= 1.
        experts: d >= 2.
        period: N in 1 .. T, the number of rounds between two messages. A tail shorter than N is played and never sent.
        switches: kappa >= 1, the largest number of redraws of the expert.
        learning_rate: eta > 0. A draw has odds exp(-eta*score/2), where the score is a sum over clients.
        threshold: L, the threshold for the losses of all clients together since the last draw.
        best_loss: Lstar >= 0, per client: scores are at least m*Lstar.
        threshold_scale: b1 > 0, the scale of the Laplace noise on the threshold, redrawn with each expert.
        query_scale: b2 > 0, the scale of the Laplace noise on each sum that is compared with the threshold.
        indexing: "clean", or "paper" for the printed blocks.
        lazy_vectors: If True, clients send only the sum of the played expert, the sums of all experts only before a
            draw, and nothing after the last switch: the same plays with fewer messages.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import FedSVT
        >>> from hockeystick.learners.federated import UniformLosses
        >>> learner = FedSVT.calibrated(clients=100, rounds=200, experts=8, epsilon=1.0)
        >>> losses = UniformLosses(clients=100, rounds=200, experts=8, best=3).losses(np.random.default_rng(1))
        >>> run = learner.run(losses, server_seed=1)
        >>> int(run.experts[-1]), round(float(learner.regret(run, losses)[0]), 1)  # the last expert, the regret
        (3, 1.5)
        >>> round(learner.guarantee("client").epsilon(0.0).upper, 3)
        1.0
    """

    refuses = {"expected_regret": "the plays depend on all earlier answers; simulate, and see regret()"}

    @classmethod
    def calibrated(
        cls,
        *,
        clients: int,
        rounds: int,
        experts: int,
        epsilon: float,
        delta: float = 0.0,
        period: int = 1,
        best_loss: float = 0.0,
        rho: float = 0.1,
        indexing: Indexing = "clean",
        lazy_vectors: bool = False,
        group: int = 1,
    ) -> FedSVT:
        """Returns the learner whose certified ε at ``delta`` is at most ``epsilon``.

        Args:
            clients, rounds, experts, period, best_loss, indexing, lazy_vectors: As for the learner.
            epsilon: Target, at least 1e-90, against adversaries who do not see the clients' messages.
            delta: In [0, 1).
            rho: Probability, in (0, 1), that the switches do not suffice, and also that the noise is too large.
            group: The number of losses that are protected together; see :meth:`guarantee`.

        Raises:
            InvalidArgumentError: an argument outside its domain, or a target that nothing meets.
        """
        count, people = arguments.rounds(rounds), arguments.group(group)
        length = integer("period", period, low=1, high=count)

        def learner(found: calibration.SVTParameters) -> FedSVT:
            return cls(
                clients=clients,
                rounds=count,
                experts=experts,
                period=length,
                best_loss=best_loss,
                indexing=indexing,
                lazy_vectors=lazy_vectors,
                **asdict(found),
            )

        found = calibration.calibrate(
            clients=arguments.clients(clients),
            tests=count // length,
            experts=experts,
            epsilon=epsilon,
            delta=real("delta", delta, low=0.0, high=1.0, high_open=True),
            best_loss=best_loss,
            rho=rho,
            event=lambda numbers: learner(numbers).guarantee(ThreatModel.CENTRAL, group=people).event,
            group=people,
        )
        return learner(found)

    @classmethod
    def printed(
        cls,
        *,
        clients: int = 1,
        rounds: int,
        experts: int,
        epsilon: float,
        delta: float = 0.0,
        period: int = 1,
        best_loss: float = 0.0,
        rho: float = 0.1,
        budget: calibration.Budget = "printed",
        margin: calibration.Margin = "printed",
        indexing: Indexing = "clean",
    ) -> FedSVT:
        """Returns the learner with the printed noise and learning rate; :meth:`graph` certifies its guarantee.

        With one client and a period of 1 it is the sparse-vector learner of Asi, Feldman, Koren & Talwar 2023, Alg. 2.

        Args:
            clients, rounds, experts, period, best_loss, indexing: As for the learner.
            epsilon, delta: The printed target; δ = 0 for the pure one.
            rho: As for :meth:`calibrated`.
            budget, margin: The formulas of switches and threshold; see ``switch_budget`` and ``noise_margin``.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        count = arguments.rounds(rounds)
        length = integer("period", period, low=1, high=count)
        found = calibration.printed(
            clients=clients,
            tests=count // length,
            experts=experts,
            epsilon=epsilon,
            delta=delta,
            best_loss=best_loss,
            rho=rho,
            budget=budget,
            margin=margin,
        )
        return cls(
            clients=clients,
            rounds=count,
            experts=experts,
            period=length,
            best_loss=best_loss,
            indexing=indexing,
            **asdict(found),
        )

    # --- privacy -----------------------------------------------------------------------------------------------------

    def worst_case_neighbours(self, *, focus: Literal["run", "threshold"] = "run") -> tuple[FloatArray, FloatArray]:
        """Returns two neighbouring streams that are easy to tell apart, summed over clients, shape (rounds, experts).

        Args:
            focus: "run": client 0's first losses are 1 on one half of the experts, or on the other; all clients lose 1
                on every expert in all later rounds, so that experts are redrawn as often as possible. "threshold": all
                experts have equal losses, until the first window's sum is L; then one loss of client 0 is 0 or 1, and
                all later ones are 0. The draws have the same law for both streams.
        """
        if one_of("focus", focus, "run", "threshold") == "threshold":
            return exact_law.threshold_neighbours(self)
        first, second = opposite_halves(self.rounds, self.experts)
        first[1:] = second[1:] = self.clients
        return first, second

    def log_probability(self, runs: SVTRuns, losses: object) -> FloatArray:
        """Returns ln P(answers and experts | losses) of each run, shape (R,), by quadrature to about 12 digits.

        Raises:
            InvalidArgumentError: invalid losses, or runs that are impossible for this learner.
        """
        return exact_law.log_probability(self, runs, self.sums(losses))

    def log_likelihood_ratio(self, runs: SVTRuns, losses0: object, losses1: object) -> FloatArray:
        """Returns ln P(answers and experts | losses0) / P(... | losses1) of each run, shape (R,).

        Raises:
            InvalidArgumentError: as for :meth:`log_probability`.
        """
        return exact_law.log_likelihood_ratio(self, runs, self.sums(losses0), self.sums(losses1))

    # --- runs --------------------------------------------------------------------------------------------------------

    def run(self, losses: object, seeds: object = None, *, server_seed: int) -> SVTRuns:
        """Returns one simulated run, without a leading axis. The losses are read once.

        Args:
            losses: See the class; with blocks memory does not depend on T.
            seeds: Not used, as clients draw nothing; present as in other federated learners.
            server_seed: A whole number >= 0. ``conduct`` of :meth:`server` with the same seed plays the same experts.
        """
        rows = segment_sums(losses, clients=self.clients, experts=self.experts, edges=self.edges)
        return fed_svt_run.run(self, rows, server_seed)

    def simulate(self, losses: object, rng: np.random.Generator, runs: int) -> SVTRuns:
        """Returns ``runs`` independent runs, with runs on the leading axis; each takes O(blocks) time."""
        return fed_svt_run.simulate(self, self.sums(losses), generator(rng), run_count(runs))

    start = svt_stream.start
    resume = svt_stream.resume

    def release(
        self,
        losses: object,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> SVTRelease:
        """Returns one run for publication, at a server that has all losses; arguments as for a mechanism's release.

        Losses must be given client by client, because each is rounded before it is added up.

        Raises:
            InvalidArgumentError: invalid losses. An array is checked before anything is recorded; an invalid block of
                an iterable ends the run, and the charge remains.
            HockeystickError: the ledger refuses.
        """
        return release(self, losses, ledger=ledger, name=name, reads=reads, noise=noise)

    # --- over a network ----------------------------------------------------------------------------------------------

    def server(self, source: int | Noise | None = None, *, server_seed: int | None = None) -> Server[Any]:
        """Returns the server for ``conduct``. A client that does not answer is left out of that sum.

        Args:
            source: ``ReleaseNoise()`` to publish a run as an ``SVTRelease``. Its cost is :meth:`event`.
            server_seed: The seed of a simulation, instead of ``source``.

        Raises:
            InvalidArgumentError: neither is given, or both.
        """
        found = server_seed if source is None else source
        if found is None or (source is not None and server_seed is not None):
            raise InvalidArgumentError(
                "source", source, "or server_seed is needed, and not both", "give one of the two"
            )
        return fed_svt_run.server(self, seed_or_noise("source", found))

    def client(self, losses: npt.ArrayLike, source: object = None) -> SVTClient:
        """Returns a client with its losses of shape (rounds, experts).

        Args:
            losses: In [0, 1].
            source: ``ReleaseNoise()`` for a run to be published: the losses are then rounded to the grid of the
                server's noise. A seed is ignored, as clients draw nothing.

        Raises:
            InvalidArgumentError: invalid losses.
        """
        own = checked_losses("losses", losses, rounds=self.rounds, experts=self.experts)
        return SVTClient(self, ExactSteps.of(self).on_grid(own) if isinstance(source, Noise) else own)

    def communication(self, run: SVTRuns) -> Communication:
        """Returns the numbers sent in one run over a network if all clients answer."""
        return fed_svt_run.communication(self, run)

    # --- utility -----------------------------------------------------------------------------------------------------

    def plays(self, runs: SVTRuns | SVTRelease) -> npt.NDArray[np.integer]:
        """Returns the expert of each round, shape (..., rounds)."""
        given = SVTRuns(runs.experts, runs.above) if isinstance(runs, SVTRelease) else runs
        experts = exact_law.checked(self, given)[0]
        return np.repeat(experts.reshape(np.shape(runs.experts)), np.diff(self.edges), axis=-1)

    def regret(self, runs: SVTRuns, losses: object) -> FloatArray:
        """Returns the regret per client of each run against the best single expert, shape (R,)."""
        return self.regret_of(runs, self.sums(losses))

    def regret_of(self, runs: SVTRuns, sums: FloatArray) -> FloatArray:
        """Returns the regret per client of each run, from the :meth:`sums` of the losses."""
        return np.asarray((self._lost(runs, sums) - sums.sum(axis=0).min()) / self.clients)

    def losses_of(self, runs: SVTRuns, losses: object) -> FloatArray:
        """Returns the losses of all clients together in each run, shape (R,)."""
        return self._lost(runs, self.sums(losses))

    def _lost(self, runs: SVTRuns, sums: FloatArray) -> FloatArray:
        rows = exact_law.checked(self, runs)[0]
        found, at = np.empty(len(rows)), np.arange(self.blocks + 1)
        for part in blocks(len(rows), self.blocks + 1):
            found[part] = sums[at, rows[part]].sum(axis=1)
        return found

    def regret_bound(self, rho: float = 0.1, *, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns a bound on the regret per client that fails with probability at most 2*rho.

        The bound assumes that the best expert loses at most Lstar per client and that the losses are fixed before the
        run. With A the margin of the noise it is (kappa + 1) ((L + A)/m + N): a window exceeds L + A by at most one
        block. For L = m*Lstar + A + 4/eta that is (kappa + 1) (Lstar + N + (2A + 4/eta)/m).

        Raises:
            InvalidArgumentError: ``rho`` is not in (0, 1); the switches do not suffice for this rho, or the threshold
                is below m*Lstar + A + 4/eta; or adaptive losses.
        """
        checked = refuse_adaptive(adversary, "may hit the expert that all clients keep in every round")
        least = calibration.switch_budget(self.experts, rho)
        if self.switches < min(least, self.blocks):
            raise InvalidArgumentError("switches", self.switches, f"is below {least}", "allow more, or a larger rho")
        margin = calibration.noise_margin(
            rho, tests=self.blocks, threshold_scale=self.threshold_scale, query_scale=self.query_scale
        )
        level = calibration.threshold_level(
            margin, clients=self.clients, best_loss=self.best_loss, learning_rate=self.learning_rate
        )
        if self.threshold < level * (1.0 - 1e-12):
            raise InvalidArgumentError("threshold", self.threshold, f"is below {level:g}", "raise it, or rho")
        bound = (self.switches + 1) * ((self.threshold + margin) / self.clients + self.period)
        return RegretBound(bound, most=self.rounds, adversary=checked)
