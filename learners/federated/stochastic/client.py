"""One client of the federated stochastic learner: reads its own losses and sends noisy gradients."""

from __future__ import annotations

import numpy as np
from attrs import field, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.loss_pool import Labels, new_pool, vertex_labels
from hockeystick.learners.federated.stochastic.losses import LossFamily
from hockeystick.learners.federated.stochastic.phase import ASSIGNING, SCORING, Path, Winners, moved, score_noise
from hockeystick.learners.federated.stochastic.release import released_scores, secret_labels
from hockeystick.learners.network.protocol import FederationError, Request, State, substream
from hockeystick.mechanisms import Noise


@frozen(eq=False)
class StochClient:
    """A :class:`~hockeystick.learners.network.protocol.Client` of :class:`~hockeystick.learners.FedStoch`.

    The state holds the gradients of one path and the assignment of one phase: it is as private as the losses. Requests
    have to follow the public schedule: one that would make the client release a leaf twice, or out of order, is
    refused. A repeated request changes nothing: the answer to the latest request is repeated, and an older answer,
    which is no longer stored, is NaN.

    Args:
        setting: The learner's setting.
        experts: d.
        family: The losses.
        losses: The client's losses, shape (rounds, d); phase p reads rows 2^(p-2) - 1, ..., 2^(p-1) - 2.
        source: The client's secret seed, for simulations: an adversary who knows it can remove the noise. Or a source
            of noise: ``ReleaseNoise()`` to publish, ``SimulationNoise`` to test a release.
    """

    setting: StochSetting
    experts: int
    family: LossFamily
    losses: FloatArray = field(repr=False)
    source: int | Noise = field(repr=False)

    def start(self) -> State:
        depth = max((phase.trees for phase in self.setting.phases if phase is not None), default=0)
        return {
            "number": np.zeros(1, dtype=np.int64),
            "place": np.array([1, 0], dtype=np.int64),  # phase and leaf; leaf 0: the phase is over
            "point": np.full(self.experts, 1.0 / self.experts),
            "points": np.zeros((depth + 1, self.experts)),
            "gradients": np.zeros((depth + 1, self.experts)),
            "labels": np.zeros(0, dtype=np.int32),
            "answer": np.zeros(0),
        }

    def answer(self, state: State, request: Request) -> tuple[State, FloatArray]:
        """See :class:`~hockeystick.learners.network.protocol.Client`.

        Raises:
            FederationError: the request is not the next one of the schedule, or names no expert where it has to.
        """
        last = int(state["number"][0])
        if request.number == last:
            return state, np.array(state["answer"], dtype=np.float64)
        if request.number < last:
            return state, np.full(request.size, np.nan)
        p, number, phase = self._next(state, request)
        point = np.array(state["point"], dtype=np.float64)[None, :]
        if number != 1:
            before = phase.leaves() if number == 0 else number - 1
            point = moved(point, self._winner(request), phase.schedule()[before - 1])
        found = dict(state)
        found["number"] = np.array([request.number], dtype=np.int64)
        found["place"] = np.array([p, number], dtype=np.int64)
        found["point"] = point[0]
        found["answer"] = np.zeros(0)
        if number:
            if number == 1:
                found["labels"] = self._labels(p, phase)
            self._at_leaf(found, p, number, phase)
        return found, np.array(found["answer"], dtype=np.float64)

    def _at_leaf(self, state: State, p: int, number: int, phase: TreePhase) -> None:
        leaf = phase.schedule()[number - 1]
        labels: Labels = np.array(state["labels"], dtype=np.int32)
        pool = new_pool(self.family, self.setting, phase, labels[None, None, :], self.experts)
        pool.add(self.losses[None, phase.records - 1 : 2 * phase.records - 1])
        path = Path(
            np.array(state["points"], dtype=np.float64)[:, None, :],
            np.array(state["gradients"], dtype=np.float64)[:, None, None, :],
        )
        scores = path.to(leaf, pool, np.array(state["point"], dtype=np.float64)[None, :])[0, 0]
        if self.setting.where == "client":
            scores = self._noisy(scores, p, number, phase)
        state["points"], state["gradients"] = path.points[:, 0], path.gradients[:, 0, 0]
        state["answer"] = scores.copy()

    def _labels(self, p: int, phase: TreePhase) -> Labels:
        if isinstance(self.source, int):
            return vertex_labels(phase, self.setting, substream(self.source, p, ASSIGNING, 0))
        return secret_labels(phase, self.setting, self.source)

    def _noisy(self, scores: FloatArray, p: int, number: int, phase: TreePhase) -> FloatArray:
        tree = phase.schedule()[number - 1].tree
        if isinstance(self.source, int):
            rng = substream(self.source, p, SCORING, number)
            return scores + score_noise(self.setting.noise, phase.scale(tree), rng, scores.shape)
        return released_scores(self.setting, phase, tree, scores, self.source)

    def _next(self, state: State, request: Request) -> tuple[int, int, TreePhase]:
        """Phase and leaf (0 at the end of a phase) of a request, if it is the next one of the schedule."""
        if len(request.step) == 2:
            p, number = request.step
            at, leaf = (int(place) for place in state["place"])
            current = self.setting.phases[p - 2] if 2 <= p < len(self.setting.phases) + 2 else None
            if current is not None:
                after = 0 if leaf == current.leaves() else leaf + 1
                starts = leaf == 0 and p > at and number == 1 and request.values.shape == (0,)
                goes_on = leaf != 0 and p == at and number == after and request.values.shape == (1,)
                proper = request.size == (self.experts if number else 0)
                if (starts or goes_on) and proper:
                    return p, number, current
        raise FederationError(f"request {request.number}: step {request.step} is not the next one of the schedule")

    def _winner(self, request: Request) -> Winners:
        winner = float(request.values[0])
        if not (0 <= winner < self.experts and winner == int(winner)):
            raise FederationError(f"request {request.number} names no expert below {self.experts}")
        return np.array([int(winner)], dtype=np.intp)
