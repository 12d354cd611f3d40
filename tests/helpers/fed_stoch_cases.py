"""Federated stochastic learners, losses and exact laws for the tests of their plays and simulations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen
from scipy import special

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.federated.stochastic.exact_winners import leaf_law
from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.losses import (
    ExpertLosses,
    LossFamily,
    SmoothedCrossEntropy,
    SquaredDistances,
    SquaredProducts,
)
from hockeystick.learners.federated.stochastic.printed_batches import Sizes, certified_phases

ALARM = 1e-6
FAMILIES: dict[str, LossFamily] = {
    "experts": ExpertLosses(),
    "distances": SquaredDistances(),
    "products": SquaredProducts(),
    "entropy": SmoothedCrossEntropy(experts=4, mixing=0.2),
}


def learner(
    family: LossFamily | None = None, *, m: int = 3, rounds: int = 63, d: int = 4, trees: int = 2,
    epsilon: float = 1.0, **changed: Any,
) -> FedStoch:  # fmt: skip
    family = ExpertLosses() if family is None else family
    phases = certified_phases(Sizes(clients=m, experts=d, epsilon=epsilon), rounds, trees=trees)
    setting = StochSetting(
        clients=m, phases=phases, low=family.low, high=family.high, smoothness=family.smoothness
    )  # fmt: skip
    return FedStoch(setting=evolve(setting, **changed), rounds=rounds, experts=d, family=family)


def data(one: FedStoch, seed: int = 0) -> npt.NDArray[np.float64]:
    found = np.random.default_rng(seed).random((one.setting.clients, one.rounds, one.experts))
    return found / found.sum(axis=-1, keepdims=True) if isinstance(one.family, SmoothedCrossEntropy) else found


# --- exact laws of all winners of a phase ----------------------------------------------------------------------------

Gradient = Callable[[FloatArray], FloatArray]
"""A record's gradient at a point of the simplex, both of shape (d,)."""


def winners_law(
    setting: StochSetting, phase: TreePhase, records: Sequence[Gradient], *, start: Sequence[float] | FloatArray
) -> FloatArray:
    """Returns ln P(winners of all leaves), shape (d, ..., d) with one axis per leaf, for records in order of reading.

    The noiseless gradients at the leaves are not computed as by the learner, but recursively from the paper's
    definition, one record after the other.

    Args:
        setting: Clipping and noise; one client, and noise that is not Gaussian.
        phase: At most two trees.
        records: The gradients of at least the phase's ``used()`` records: root of tree 1 first.
        start: The initial point of the phase, shape (d,), d >= 2.
    """
    d = len(start)
    assert setting.clients == 1 and setting.noise != "gaussian" and len(records) >= phase.used()
    tree = _Tree(setting, phase, tuple(records), np.asarray(start, dtype=float))
    law = np.zeros(1)
    for k, leaf in enumerate(tree.leaves()):
        rows = [
            leaf_law(tree.gradient(*leaf, winners), scale=phase.scale(leaf[0]), noise=setting.noise)
            for winners in itertools.product(range(d), repeat=k)
        ]
        law = (law[:, None] + np.array(rows)).ravel()
    return law.reshape((d,) * phase.leaves())


def secret_winners_law(
    setting: StochSetting, phase: TreePhase, records: Sequence[Gradient], *, start: Sequence[float] | FloatArray
) -> FloatArray:
    """Returns the law of :func:`winners_law` for records in a uniformly random order; all N of the phase are given."""
    assert len(records) == phase.records
    laws = [winners_law(setting, phase, order, start=start) for order in itertools.permutations(records)]
    return np.asarray(special.logsumexp(np.stack(laws), axis=0)) - math.log(len(laws))


@frozen
class _Tree:
    """The noiseless gradients of a phase, each computed from the first record on, without any cache."""

    setting: StochSetting
    phase: TreePhase
    records: tuple[Gradient, ...]
    start: FloatArray

    def leaves(self) -> list[tuple[int, str]]:
        """(tree, path from its root) of every leaf, in order."""
        if self.phase.trees == 0:
            return [(0, "")]
        return [(j, format(i, f"0{j}b")) for j in range(1, self.phase.trees + 1) for i in range(2**j)]

    def gradient(self, tree: int, path: str, winners: Sequence[int]) -> FloatArray:
        """V[path] of a tree, shape (d,), given the winners of the leaves before."""
        here = self.point(tree, path, winners)
        if not path:
            return self.mean(tree, path, lambda record: self.clipped(record, here))
        parent = self.gradient(tree, path[:-1], winners)
        if path[-1] == "0" or self.setting.smoothness == 0.0:
            return parent
        there = self.point(tree, path[:-1], winners)
        most = math.inf
        if self.setting.smoothness is not None:
            most = self.setting.smoothness * float(np.abs(here - there).sum())
        return parent + self.mean(
            tree, path, lambda record: np.clip(self.clipped(record, here) - self.clipped(record, there), -most, most)
        )

    def clipped(self, record: Gradient, point: FloatArray) -> FloatArray:
        return np.asarray(np.clip(record(point), self.setting.low, self.setting.high))

    def point(self, tree: int, path: str, winners: Sequence[int]) -> FloatArray:
        """The iterate at the vertex: a left child is reached together with its parent."""
        before = max(0, 2**tree - 2)  # leaves of earlier trees
        if path:
            before += int(path, 2) << (tree - len(path))
        x = self.start
        for k, winner in enumerate(winners[:before], start=1):
            x = x * (1.0 - 2.0 / (k + 1)) + np.eye(len(x))[winner] * (2.0 / (k + 1))
        return x

    def mean(self, tree: int, path: str, value: Callable[[Gradient], FloatArray]) -> FloatArray:
        first, count = self.block(tree, path)
        return np.asarray(np.mean([value(record) for record in self.records[first : first + count]], axis=0))

    def block(self, tree: int, path: str) -> tuple[int, int]:
        """The place of the first record of the vertex, and the number of its records."""
        b = self.phase.batch
        first = sum(b + b * j // 2 for j in range(1, tree))
        for depth in range(tree + 1):
            for bits in itertools.product("01", repeat=depth):
                other = "".join(bits)  # pre-order is the order of strings
                if other < path and (not other or other[-1] == "1"):
                    first += b >> depth
        return first, b >> len(path)
