"""Simulations of many runs of the federated stochastic learner at once, with options for audits.

An audit may fix the vertex at which an attacked loss is read and the winners of the leaves before it, and may read the
clients' messages. A run for publication has none of these options.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import Leaf, StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.loss_pool import UNREAD, Labels, new_pool, ordered_labels, pinned
from hockeystick.learners.federated.stochastic.losses import LossFamily
from hockeystick.learners.federated.stochastic.phase import Path, Winners, moved, score_noise, summed_noise
from hockeystick.mechanisms.contract.arguments import zeros

_MOST_NUMBERS = 2**23  # in one array, for any number of runs


@frozen(eq=False)
class StochRuns:
    """Simulated runs.

    See :meth:`~hockeystick.learners.federated.stochastic.fed_stoch.FedStoch.simulate`, which returns it.

    Attributes:
        points: The point played in phase p = 1, 2, ..., shape (runs, phases, d).
        winners: The winners of phase p = 2, 3, ..., entry p - 2: shape (runs, leaves); no leaves if the point was held.
        uplinks: The clients' messages in each phase, shape (runs, clients, leaves, d); None unless requested.
    """

    points: FloatArray
    winners: tuple[Winners, ...]
    uplinks: tuple[FloatArray, ...] | None


def simulated(
    setting: StochSetting,
    family: LossFamily,
    losses: FloatArray,
    rng: np.random.Generator,
    runs: int,
    *,
    pins: Mapping[tuple[int, int], int],
    outcomes: Mapping[tuple[int, int], int],
    uplinks: bool,
) -> StochRuns:
    """Returns ``runs`` runs on losses of shape (clients, rounds, d); see ``FedStoch.simulate``."""
    clients, _, experts = losses.shape
    _check_pins(setting, pins)
    _check_outcomes(setting, outcomes, experts)
    parts = []
    together = _together(setting, family, experts)
    for first in range(0, runs, together):
        count = min(together, runs - first)
        point = np.full((count, experts), 1.0 / experts)
        points, winners, sent = [point], [], []
        for p, phase in enumerate(setting.phases, start=2):
            if phase is None:
                winners.append(np.zeros((count, 0), dtype=np.intp))
                sent.append(np.zeros((count, clients, 0, experts)))
            else:
                one = _Phase(setting, family, p, phase, outcomes, uplinks)
                labels = _labels(setting, p, phase, pins, rng, count)
                point, won, messages = one.play(losses, labels, point, rng)
                winners.append(won)
                sent.append(messages)
            points.append(point)
        parts.append((np.stack(points, axis=1), winners, sent))
    return StochRuns(
        np.concatenate([part[0] for part in parts]),
        tuple(np.concatenate(each) for each in zip(*(part[1] for part in parts), strict=True)),
        tuple(np.concatenate(each) for each in zip(*(part[2] for part in parts), strict=True)) if uplinks else None,
    )


def neighbours(setting: StochSetting, *, rounds: int, experts: int) -> tuple[FloatArray, FloatArray]:
    """Returns two neighbouring arrays of linear losses, shape (clients, rounds, d), that are easy to tell apart.

    All losses are equal, except for one of client 0, which favours expert 0 over all others, or the reverse. It is the
    loss with the largest effect if it is read at a root; with a contiguous assignment the round determines that.

    Raises:
        InvalidArgumentError: no phase reads losses.
    """
    best, place = 0.0, 0
    for phase in (each for each in setting.phases if each is not None):
        round = phase.records
        for vertex in phase.vertices():
            effect = vertex.leaves / (vertex.records * phase.scale(vertex.tree))
            if vertex.depth == 0 and effect > best:
                best, place = effect, round
            round += vertex.records
    if best == 0.0:
        raise InvalidArgumentError("phases", setting.phases, "read no losses", "give a phase that is not None")
    losses, other = zeros((2, setting.clients, rounds, experts)) + (setting.low / 2 + setting.high / 2)
    losses[0, place - 1], other[0, place - 1] = setting.high, setting.low
    losses[0, place - 1, 0], other[0, place - 1, 0] = setting.low, setting.high
    return losses, other


@frozen(eq=False)
class _Phase:
    setting: StochSetting
    family: LossFamily
    number: int
    phase: TreePhase
    outcomes: Mapping[tuple[int, int], int]
    uplinks: bool

    def play(
        self, losses: FloatArray, labels: Labels, point: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, Winners, FloatArray]:
        phase, runs = self.phase, len(point)
        clients, _, experts = losses.shape
        pool = new_pool(self.family, self.setting, phase, labels, experts)
        pool.add(losses[:, phase.records - 1 : 2 * phase.records - 1])
        path = Path.empty(phase.trees, runs, clients, experts)
        winners = np.empty((runs, phase.leaves()), dtype=np.intp)
        sent = np.empty((runs, clients, phase.leaves() if self.uplinks else 0, experts))
        for place, leaf in enumerate(phase.schedule()):
            scores = path.to(leaf, pool, point)
            total = self._total(scores, leaf, rng, sent[:, :, place] if self.uplinks else None)
            fixed = self.outcomes.get((self.number, leaf.number))
            winners[:, place] = total.argmin(axis=-1) if fixed is None else fixed
            point = moved(point, winners[:, place], leaf)
        return point, winners, sent

    def _total(self, scores: FloatArray, leaf: Leaf, rng: np.random.Generator, sent: FloatArray | None) -> FloatArray:
        noise, scale = self.setting.noise, self.phase.scale(leaf.tree)
        runs, clients, experts = scores.shape
        if self.setting.where == "client" and sent is not None:
            scores = scores + score_noise(noise, scale, rng, scores.shape)
        if sent is not None:
            sent[...] = scores
        total = scores.sum(axis=1)
        if self.setting.where == "server":
            return np.asarray(total + score_noise(noise, clients * scale, rng, (runs, experts)))
        if sent is None:
            return np.asarray(total + summed_noise(noise, scale, rng, (runs, experts), clients))
        return np.asarray(total)


def _labels(
    setting: StochSetting,
    p: int,
    phase: TreePhase,
    pins: Mapping[tuple[int, int], int],
    rng: np.random.Generator,
    runs: int,
) -> Labels:
    """Assignments of shape (runs, clients, records), or (1, clients, records) if they are equal in all runs."""
    labels = np.broadcast_to(ordered_labels(phase), (1, setting.clients, phase.records))
    if setting.assignment == "contiguous" or phase.trees == 0:
        return labels
    shuffled = rng.permuted(np.repeat(labels, runs, axis=0), axis=-1)
    here = {
        (client, round - phase.records): vertex
        for (client, round), vertex in pins.items()
        if phase.records <= round < 2 * phase.records
    }
    return pinned(shuffled, here, rng)


def _together(setting: StochSetting, family: LossFamily, experts: int) -> int:
    """The number of runs that fit in memory at once."""
    largest = 1
    for phase in setting.phases:
        if phase is not None:
            labels = setting.clients * phase.records * max(1, phase.trees)
            gradients = setting.clients * experts * (2 * (phase.trees + 1) + phase.leaves())
            read = 0 if family.linear else phase.batch * experts  # of one client after the other, if need be
            largest = max(largest, labels, gradients, read)
    return max(1, _MOST_NUMBERS // largest)


def _check_pins(setting: StochSetting, pins: Mapping[tuple[int, int], int]) -> None:
    seen: set[tuple[int, int]] = set()
    for (client, round), vertex in pins.items():
        client = integer("pins", client, low=0, high=setting.clients - 1)
        k = integer("pins", round, low=1, high=2 ** len(setting.phases) - 1).bit_length() - 1
        phase = setting.phases[k]
        if phase is None or (client, k) in seen or setting.assignment == "contiguous":
            raise InvalidArgumentError(
                "pins", (client, round), "can't be fixed", "pin one loss per client and phase of a secret assignment"
            )
        seen.add((client, k))
        integer("pins", vertex, low=UNREAD if phase.used() < phase.records else 0, high=len(phase.vertices()) - 1)


def _check_outcomes(setting: StochSetting, outcomes: Mapping[tuple[int, int], int], experts: int) -> None:
    for (p, leaf), winner in outcomes.items():
        phase = setting.phases[integer("outcomes", p, low=2, high=len(setting.phases) + 1) - 2]
        integer("outcomes", leaf, low=1, high=0 if phase is None else phase.leaves())
        integer("outcomes", winner, low=0, high=experts - 1)
