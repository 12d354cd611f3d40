"""Fed-SVT: clients that choose experts together, where one expert is good in all rounds (Gao, Huang & Yang 2024).

All m clients play one expert. Every N rounds each sends the sums of its losses, as they are, to a server that is
trusted with them; the server compares what the expert has cost all of them since it was drawn with a noisy threshold,
and when that is above, draws another by the exponential mechanism. What is published, the experts, is private: the
noise is that of one server, so that its price per client falls with their number.

The printed algorithm is corrected in three places: all clients begin with one common expert, draws score every expert
and not the one played, and with ``indexing="clean"`` a block is the N rounds that were played with its expert (printed
are the N rounds before round n*N, so that the first block is one round short).

:meth:`FedSVT.graph` has the guarantee (:mod:`hockeystick.learners.federated.one_good_expert.plan`),
``federated.one_good_expert.calibration`` the parameters, ``federated.one_good_expert.exact_law`` the exact law of what
is published.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import asdict, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.common import arguments
from hockeystick.learners.experts.expert_losses import checked_losses
from hockeystick.learners.federated.one_good_expert import calibration, exact_law
from hockeystick.learners.federated.one_good_expert import run as fed_svt_run
from hockeystick.learners.federated.one_good_expert.losses import segment_sums
from hockeystick.learners.federated.one_good_expert.release import ExactSteps, SVTRelease, release
from hockeystick.learners.federated.one_good_expert.run import SVTClient, SVTRuns
from hockeystick.learners.federated.one_good_expert.setting import (
    Indexing,
    SVTSetting,
)
from hockeystick.learners.network.conduct import Communication, Server, seed_or_noise
from hockeystick.mechanisms.contract.arguments import blocks, generator, run_count
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger


@frozen(kw_only=True)
class FedSVT(SVTSetting):
    """The federated learner of experts by sparse vector.

    Neighbouring streams differ in one client's loss of one round, replaced by any other in [0, 1]^d (replace-one;
    rounds and clients keep their places).

    Losses are arrays of shape (clients, rounds, experts) with entries in [0, 1]; or of shape (rounds, experts), summed
    over the clients, with entries in [0, clients]; or an iterable of blocks of rounds of either shape.

    Source: Gao, Huang & Yang 2024, Algorithms 7 and 8, corrected.

    Args:
        clients: m >= 1.
        rounds: T >= 1.
        experts: d >= 2.
        period: N in 1 .. T: rounds between two messages. A tail shorter than N is played and never sent.
        switches: kappa >= 1: how often an expert is drawn anew at most.
        learning_rate: eta > 0: a draw has odds exp(-eta*score/2), a score being a sum over clients.
        threshold: L: of the losses of all clients together since the last draw.
        best_loss: Lstar >= 0, per client: scores are at least m*Lstar.
        threshold_scale: b1 > 0, of the threshold's Laplace noise, drawn anew with each expert.
        query_scale: b2 > 0, of the Laplace noise on each sum that is compared with it.
        indexing: "clean", or "paper" for the printed blocks.
        lazy_vectors: Clients send the played expert's sum alone, all experts' only before a draw, and nothing once the
            switches are spent: the same plays for fewer messages.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

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
    ) -> FedSVT:
        """The learner whose certified epsilon at ``delta`` is at most ``epsilon``, with the tight planners' numbers.

        Args:
            clients, rounds, experts, period, best_loss, indexing, lazy_vectors: As for the learner.
            epsilon: Target, > 0, for whoever does not see the clients' messages.
            delta: In [0, 1).
            rho: Chance, in (0, 1), with which the switches do not suffice, and again with which noise is too large.

        Raises:
            InvalidArgumentError: an argument outside its domain, or a target that nothing meets.
        """
        count = integer("rounds", rounds, low=1)
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
            event=lambda numbers: learner(numbers).event(),
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
        """The learner with the printed noise and learning rate; its guarantee is what the graph says.

        With one client and a period of 1 it is the sparse-vector learner of Asi, Feldman, Koren & Talwar 2023, Alg. 2.

        Args:
            clients, rounds, experts, period, best_loss, indexing: As for the learner.
            epsilon, delta: The printed target; delta = 0 for the pure one.
            rho: Of both planners.
            budget, margin: Their forms; see ``switch_budget`` and ``noise_margin``.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        count = integer("rounds", rounds, low=1)
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
        """Two neighbouring streams that are hard to keep apart, summed over clients, shape (rounds, experts).

        Args:
            focus: "run": client 0's first losses are 1 on one half of the experts, or on the other; all clients lose 1
                on every expert in all later rounds, so that experts are drawn as often as can be. "threshold": all
                experts lose alike, until the first window's sum is L; then one loss of client 0 is 0 or 1, and all
                later ones are 0. No draw tells these apart.
        """
        first, second = np.zeros((2, self.rounds, self.experts))
        if focus == "threshold":
            return exact_law.threshold_neighbours(self)
        if focus == "run":
            first[1:] = second[1:] = self.clients
            first[0, : self.experts // 2] = second[0, self.experts // 2 :] = 1.0
            return first, second
        raise InvalidArgumentError("focus", focus, "is unknown", 'use "run" or "threshold"')

    def log_probability(self, runs: SVTRuns, losses: object) -> FloatArray:
        """ln P(answers and experts | losses) of each run, shape (R,), by quadrature to about 12 digits.

        Raises:
            InvalidArgumentError: bad losses, or runs that this learner can't have made.
        """
        return exact_law.log_probability(self, runs, self.sums(losses))

    def log_likelihood_ratio(self, runs: SVTRuns, losses0: object, losses1: object) -> FloatArray:
        """ln P(answers and experts | losses0) / P(... | losses1), one number per run.

        Raises:
            As ``log_probability``.
        """
        return exact_law.log_likelihood_ratio(self, runs, self.sums(losses0), self.sums(losses1))

    # --- runs --------------------------------------------------------------------------------------------------------

    def run(self, losses: object, seeds: object = None, *, server_seed: int) -> SVTRuns:
        """One simulated run, over losses that are read once; its experts and answers have no leading axis.

        Args:
            losses: See the class; memory does not depend on T if they come in blocks.
            seeds: Unused: clients draw nothing. It is there as in other federated learners.
            server_seed: A whole number >= 0; ``conduct`` of :meth:`server` with the same one plays the same experts.
        """
        rows = segment_sums(losses, clients=self.clients, experts=self.experts, edges=self.edges)
        return fed_svt_run.run(self, rows, server_seed)

    def simulate(self, losses: object, rng: np.random.Generator, runs: int) -> SVTRuns:
        """``runs`` independent runs, runs on the leading axis, in O(blocks) each and one sum of the losses for all."""
        return fed_svt_run.simulate(self, self.sums(losses), generator(rng), run_count(runs))

    def release(
        self,
        losses: object,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> SVTRelease:
        """One run for publication, at a server that has all losses; arguments as for a mechanism's release.

        Losses must come client by client: each is rounded before it is added up.

        Raises:
            InvalidArgumentError: bad losses. An array is checked before anything is recorded; where losses come in
                blocks a bad one ends the run, and the charge remains.
            SecureReleaseUnavailableError: there is no secure source of noise.
            HockeystickError: the ledger refuses.
        """
        return release(self, losses, ledger=ledger, name=name, reads=reads, noise=noise)

    # --- over a network ----------------------------------------------------------------------------------------------

    def server(self, source: int | Noise | None = None, *, server_seed: int | None = None) -> Server[Any]:
        """The server for ``conduct``, which returns the run; a client that does not answer is left out of that sum.

        Args:
            source: ``ReleaseNoise()``, to publish a run, which is then an ``SVTRelease``. Its cost is :meth:`event`.
            server_seed: In its place, the seed of a simulation.

        Raises:
            InvalidArgumentError: neither is given, or both.
        """
        found = server_seed if source is None else source
        if found is None or (source is not None and server_seed is not None):
            raise InvalidArgumentError("source", source, "and server_seed: give one of the two", "server_seed=1")
        return fed_svt_run.server(self, seed_or_noise("source", found))

    def client(self, losses: npt.ArrayLike, source: object = None) -> SVTClient:
        """A client with its losses of shape (rounds, experts).

        Args:
            losses: In [0, 1].
            source: It draws nothing, so that a seed is unused; with ``ReleaseNoise()``, as in other federated
                learners, it is one of a run to be published: its losses are rounded to the grid of its server's noise.

        Raises:
            InvalidArgumentError: bad losses.
        """
        own = checked_losses("losses", losses, rounds=self.rounds, experts=self.experts)
        return SVTClient(self, ExactSteps.of(self).on_grid(own) if isinstance(source, Noise) else own)

    def communication(self, run: SVTRuns) -> Communication:
        """The scalars that one run costs over a network where everybody answers."""
        return fed_svt_run.communication(self, run)

    # --- utility -----------------------------------------------------------------------------------------------------

    def plays(self, runs: SVTRuns) -> npt.NDArray[np.integer]:
        """The expert of each round, shape (..., rounds)."""
        return np.repeat(runs.experts, np.diff(self.edges), axis=-1)

    def regret(self, runs: SVTRuns, losses: object) -> FloatArray:
        """Each run's regret per client against the best single expert, shape (R,)."""
        return self.regret_of(runs, self.sums(losses))

    def regret_of(self, runs: SVTRuns, sums: FloatArray) -> FloatArray:
        """The same, from the losses' :meth:`sums`."""
        return np.asarray((self._lost(runs, sums) - sums.sum(axis=0).min()) / self.clients)

    def losses_of(self, runs: SVTRuns, losses: object) -> FloatArray:
        """The losses of all clients together in each run, shape (R,)."""
        return self._lost(runs, self.sums(losses))

    def _lost(self, runs: SVTRuns, sums: FloatArray) -> FloatArray:
        rows = np.atleast_2d(runs.experts)
        found, at = np.empty(len(rows)), np.arange(self.blocks + 1)
        for part in blocks(len(rows), self.blocks + 1):
            found[part] = sums[at, rows[part]].sum(axis=1)
        return found

    def regret_bound(self, rho: float) -> float:
        """A bound on the regret per client, if the best expert loses at most Lstar; it fails with probability <= 2*rho.

        With A the margin of the noise it is (kappa + 1) ((L + A)/m + N): no window goes on beyond L + A, but for one
        block. For L = m*Lstar + A + 4/eta that is (kappa + 1) (Lstar + N + (2A + 4/eta)/m). The losses have to be
        fixed before the run.

        Raises:
            InvalidArgumentError: ``rho`` is not in (0, 1); for that rho the switches do not suffice, or the threshold
                is below m*Lstar + A + 4/eta.
        """
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
        return (self.switches + 1) * ((self.threshold + margin) / self.clients + self.period)
