"""The federated stochastic learner as an audit target: one phase with one tree, in each threat model.

A target returns one number per run: the log-likelihood ratio, between two neighbouring arrays of losses, of the
adversary's view of the last phase, under the exact law of the sampled learner. The adversary also knows all other
losses, which are ties; the vertex that reads the loss, unless it is secret; and the winners before the attacked leaf.

* OUTPUT sees the winners.
* CLIENT also knows the noise of all other clients, which is then a constant; without loss of generality it is 0, which
  leaves the noise of a single client.
* SERVER sees every message.

Each defect is one that an implementation could have; the learner itself has no option for any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, reduce
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen
from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners import ExactLoss, FedStoch
from hockeystick.learners.federated.stochastic.exact_winners import leaf_law, losses
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.losses import ExpertLosses, LossFamily
from hockeystick.learners.network.threat_models import ThreatModel

Pair = tuple[FloatArray, FloatArray]
StochDefect = Literal["one noise for both leaves", "one seed for all clients", "scores rounded before noise"]

STOCH_DEFECTS: tuple[StochDefect, ...] = (
    "one noise for both leaves",
    "one seed for all clients",
    "scores rounded before noise",
)

_PROOF = 100.0  # stands for an infinite log-likelihood ratio
_SILENT = 1e-100  # a noise scale that changes no sum


def _kink(value: object) -> float:
    return real("kink", value)


@frozen(kw_only=True)
class KinkedLosses:
    """The losses |<u, x> - kink|: convex, not smooth, with the gradient ±u, which changes sign at <u, x> = kink.

    Args:
        kink: The kink; records should lie in [-1, 1]^d.
    """

    kink: float = field(converter=_kink)

    @property
    def linear(self) -> bool:
        return False

    @property
    def low(self) -> float:
        return -1.0

    @property
    def high(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 1.0  # false; a client's declaration may be

    def checked(self, records: npt.ArrayLike) -> FloatArray:
        return np.asarray(array("losses", records))

    def gradients(self, records: FloatArray, point: FloatArray) -> FloatArray:
        side = np.sign((records * point[..., None, :]).sum(axis=-1, keepdims=True) - self.kink)
        return np.asarray(side * records)

    def totals(self, records: FloatArray, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        here = np.abs((records * point[..., None, :]).sum(axis=-1) - self.kink).sum(axis=-1)
        return np.asarray(here), np.asarray(np.abs(records - self.kink).sum(axis=-2))


@frozen(kw_only=True, eq=False, slots=False)
class StochTarget:
    """An adversary's view of the last phase.

    Attributes:
        learner: The sampled learner, with Laplace noise and at most one tree in the last phase.
        neighbours: Two arrays of losses of shape (clients, rounds, d) that differ in one loss of client 0.
        round: The round of that loss, from 1.
        view: OUTPUT, CLIENT or SERVER.
        outcomes: Winners at leaves before the attacked one, by (phase, leaf), which are conditioned on; for curved
            losses with a tree, the winner at the first leaf.
        defect: The mistake, if it is not in the learner's parameters.
        grid: The unit to whose multiples scores are rounded, for that defect.
    """

    learner: FedStoch
    neighbours: Pair
    round: int
    view: ThreatModel = ThreatModel.OUTPUT
    outcomes: Mapping[tuple[int, int], int] = field(factory=dict)
    defect: StochDefect | None = None
    grid: float = 1.0

    def __attrs_post_init__(self) -> None:
        if self.defect not in (None, *STOCH_DEFECTS):
            raise InvalidArgumentError("defect", self.defect, "is unknown", f"use one of {', '.join(STOCH_DEFECTS)}")
        if self.phase.trees > 1 or self.learner.setting.noise != "laplace":
            raise InvalidArgumentError(
                "learner", self.learner, "has no exact law here", "give one tree and Laplace noise"
            )

    @property
    def phase(self) -> TreePhase:
        """The attacked phase."""
        phase = self.learner.setting.phases[-1]
        if phase is None:
            raise InvalidArgumentError("learner", self.learner, "reads no data in its last phase", "give a last phase")
        return phase

    def __call__(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns one ratio per run on ``losses``, shape (runs,); infinite ones are ±100."""
        runs = integer("runs", runs, low=1)
        if self.defect == "one seed for all clients":
            return self._ratio_by_winner(losses, rng, runs)
        if self.defect == "one noise for both leaves":
            return self._ratio_by_difference(losses, rng, runs)
        if self.view is ThreatModel.SERVER:
            return self._clip(self._ratio_of_messages(self._messages(losses, rng, runs)))
        first, second = self._tables
        return self._clip((first - second)[tuple(self._winners(losses, rng, runs).T)])

    def exact(self) -> ExactLoss:
        """Returns the exact privacy loss of the winners at the leaves that are not conditioned on.

        Raises:
            InvalidArgumentError: The adversary sees messages, or knows all noise.
        """
        if self.view is ThreatModel.SERVER or self.defect in STOCH_DEFECTS[:2]:
            raise InvalidArgumentError("view", self.view, "has infinitely many outcomes", "use OUTPUT or CLIENT")
        return losses(*self._tables)

    def largest_loss(self) -> float:
        """Returns the largest log-likelihood ratio of messages, sum |v - v'|/lambda, if the reading vertex is known."""
        first, second = (self._gradients(each)[:, 0] for each in self.neighbours)
        return float(np.abs(first - second).sum(axis=(1, 2)).max() / self.phase.scales[0])

    # --- views -------------------------------------------------------------------------------------------------------

    def _winners(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> npt.NDArray[np.intp]:
        """Returns the winners at the free leaves, shape (runs, leaves)."""
        if self.view is ThreatModel.OUTPUT and self.defect is None or self.learner.setting.where == "server":
            found = self.learner.simulate(losses, rng, runs, outcomes=self.outcomes)
            return found.winners[-1][:, self._free]
        others = self._gradients(losses)[0, 1:].sum(axis=0)  # ties, whichever vertex reads the attacked loss
        return np.asarray((self._messages(losses, rng, runs)[:, 0] + others).argmin(axis=-1)[:, self._free])

    def _messages(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns messages of shape (runs, clients, leaves, d)."""
        if self.defect is None:
            sent = self.learner.simulate(losses, rng, runs, outcomes=self.outcomes, uplinks=True).uplinks
            assert sent is not None
            return sent[-1]
        noiseless = self._gradients(losses)[0]
        return np.asarray(noiseless + rng.laplace(scale=self.phase.scales[0], size=(runs, *noiseless.shape)))

    @cached_property
    def _tables(self) -> Pair:
        first, second = (self._winners_table(each) for each in self.neighbours)
        return first, second

    def _winners_table(self, losses: npt.ArrayLike) -> FloatArray:
        """Returns ln P(winners at the free leaves), one axis each."""
        setting, scale = self.learner.setting, self.phase.scales[0]
        alone = self.view is ThreatModel.CLIENT or setting.where == "server"
        scale *= setting.clients if setting.where == "server" else 1
        tables = []
        for weight, gradients in zip(self._weights, self._gradients(losses), strict=True):
            rows = [
                leaf_law(score, scale=scale, summands=1 if alone else setting.clients)
                for score in gradients.sum(axis=0)[self._free]
            ]
            tables.append(np.log(weight) + reduce(np.add.outer, rows))
        return np.asarray(special.logsumexp(np.stack(tables), axis=0))

    def _ratio_of_messages(self, sent: FloatArray) -> FloatArray:
        """Returns the ratio of client 0's messages; the laws of the others are equal on both data sets."""
        found = []
        for each in self.neighbours:
            rows = [
                np.log(weight) - np.abs(sent[:, 0] - gradients[0]).sum(axis=(1, 2)) / self.phase.scales[0]
                for weight, gradients in zip(self._weights, self._gradients(each), strict=True)
            ]
            found.append(special.logsumexp(np.stack(rows), axis=0))
        return np.asarray(found[0] - found[1])

    def _ratio_by_difference(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ratios for leaves with the same noise: their difference has none, so it identifies the data set."""
        scale = self.phase.scales[0]
        noiseless, first, second = (self._gradients(each)[0, 0] for each in (losses, *self.neighbours))
        sent = noiseless + rng.laplace(scale=scale, size=(runs, 1, noiseless.shape[-1]))
        shown = sent[:, 1] - sent[:, 0]
        far = [np.abs(shown - (each[1] - each[0])).sum(axis=-1) for each in (first, second)]
        return self._clip(_PROOF * (far[1] - far[0]))

    def _ratio_by_winner(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ratios for equal noise of all clients, of whom each can predict the winners on both data sets."""
        noiseless, *worlds = (self._gradients(each)[0].sum(axis=0) for each in (losses, *self.neighbours))
        clients = self.learner.setting.clients
        noise = clients * rng.laplace(scale=self.phase.scales[0], size=(runs, *noiseless.shape))
        winners, first, second = ((each + noise).argmin(axis=-1)[:, self._free] for each in (noiseless, *worlds))
        right = [(winners == each).all(axis=-1) for each in (first, second)]
        return np.asarray(_PROOF * (right[0].astype(float) - right[1].astype(float)))

    # --- noiseless values --------------------------------------------------------------------------------------------

    @cached_property
    def _free(self) -> list[int]:
        """The leaves, from 0, that are not conditioned on."""
        number = len(self.learner.setting.phases) + 1
        return [leaf for leaf in range(self.phase.leaves()) if (number, leaf + 1) not in self.outcomes]

    @cached_property
    def _weights(self) -> tuple[float, ...]:
        """The probabilities that each vertex reads the attacked loss, and last that none does."""
        if self.learner.setting.assignment == "contiguous":
            return (1.0,)
        records = self.phase.records
        read = [vertex.records / records for vertex in self.phase.vertices()]
        return (*read, 1.0 - sum(read)) if sum(read) < 1.0 else tuple(read)

    def _gradients(self, losses: npt.ArrayLike) -> FloatArray:
        """Returns noiseless gradients for each vertex that may read the loss, shape (vertices, clients, leaves, d)."""
        quiet = evolve(self.phase, scales=[_SILENT] * len(self.phase.scales))
        setting = self.learner.setting
        learner = evolve(self.learner, setting=evolve(setting, phases=(*setting.phases[:-1], quiet)))
        pins: list[dict[tuple[int, int], int]] = [{}]
        if setting.assignment == "secret":
            vertices = len(self._weights) - (self.phase.used() < self.phase.records)
            pins = [{(0, self.round): v if v < vertices else -1} for v in range(len(self._weights))]
        rows = []
        for pin in pins:
            sent = learner.simulate(
                losses, np.random.default_rng(0), 1, pins=pin, outcomes=self.outcomes, uplinks=True
            ).uplinks
            assert sent is not None
            rows.append(sent[-1][0])
        found = np.stack(rows)
        if self.defect == "scores rounded before noise":
            found = np.rint(found / self.grid) * self.grid
        return found

    @staticmethod
    def _clip(ratio: FloatArray) -> FloatArray:
        return np.asarray(np.clip(ratio, -_PROOF, _PROOF), dtype=np.float64)


# --- pairs that attain the claim -------------------------------------------------------------------------------------


def one_phase(
    *,
    clients: int = 1,
    experts: int = 8,
    doublings: int = 2,
    batch: int = 2,
    scale: float,
    family: LossFamily | None = None,
    **setting: object,
) -> FedStoch:
    """Returns a learner that reads data in its last phase only: 2^doublings losses of each client, and one tree."""
    phase = TreePhase(records=2**doublings, trees=1, batch=batch, scales=(scale,))
    known: dict[str, object] = {"low": -1.0, "high": 1.0, "smoothness": 0.0, "assignment": "contiguous"}
    return FedStoch(
        setting=StochSetting(clients=clients, phases=(*[None] * doublings, phase), **known | setting),
        rounds=2 ** (doublings + 1),
        experts=experts,
        family=ExpertLosses(low=-1.0, high=1.0) if family is None else family,
    )


def root_target(learner: FedStoch, **changes: object) -> StochTarget:
    """Returns the target with linear losses at a root: for expert 0 and against all others, or the reverse."""
    first, second = learner.worst_case_neighbours()
    changed = int(np.flatnonzero((first != second).any(axis=(0, 2)))[0]) + 1
    return StochTarget(learner=learner, neighbours=(first, second), round=changed, **changes)  # type: ignore[arg-type]


def kinked_target(learner: FedStoch, **changes: object) -> StochTarget:
    """Returns the target with kinked losses at the right child, whose gradients change sign at the first winner.

    The first winner is expert 0, on which the two neighbouring losses agree. One of them is for expert 1 and against
    the rest, the other is the reverse. All other losses are 0, except one at the root, against expert 0. The kink has
    to be above 1 - 2/d.
    """
    phase, d = learner.setting.phases[-1], learner.experts
    assert phase is not None
    first = np.zeros((learner.setting.clients, learner.rounds, d))
    first[0, phase.records - 1, 0] = -1.0  # its gradient is +1 at the centre
    second = first.copy()
    at = phase.records - 1 + phase.batch
    first[0, at], second[0, at] = 1.0, -1.0
    first[0, at, 1], second[0, at, 1] = -1.0, 1.0
    second[0, at, 0] = 1.0
    outcomes = {(len(learner.setting.phases) + 1, 1): 0}
    return StochTarget(
        learner=learner,
        neighbours=(first, second),
        round=at + 1,
        outcomes=outcomes,
        **changes,  # type: ignore[arg-type]
    )
