"""The assignment of the losses of a phase to vertices, and the averages that the vertices read.

A client assigns a vertex to each of its losses before the losses of the phase arrive: :func:`vertex_labels` draws the
whole secret assignment. For linear losses one running sum for each root is stored; for others, the losses themselves.
The leading axis is runs, the next one clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
from attrs import define, field

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase, Vertex
from hockeystick.learners.federated.stochastic.losses import LossFamily, clipped_corrections, clipped_gradients

Labels = npt.NDArray[np.int32]

UNREAD = -1
_MOST_NUMBERS = 2**22  # coordinates of gradients in memory at once


def ordered_labels(phase: TreePhase) -> Labels:
    """Returns the vertex of each loss of a phase, read in the order of rounds, then UNREAD; shape (records,)."""
    counts = [vertex.records for vertex in phase.vertices()]
    labels = np.full(phase.records, UNREAD, dtype=np.int32)
    labels[: phase.used()] = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return labels


def vertex_labels(phase: TreePhase, setting: StochSetting, rng: np.random.Generator) -> Labels:
    """Returns one client's assignment for a phase, shape (records,): in the order of rounds, or a uniform secret."""
    labels = ordered_labels(phase)
    return rng.permutation(labels) if setting.assignment == "secret" else labels


def pinned(labels: Labels, pins: Mapping[tuple[int, int], int], rng: np.random.Generator) -> Labels:
    """Returns assignments with the vertices of some losses fixed, from uniform ones; shape (runs, clients, records).

    Args:
        labels: Uniform assignments.
        pins: The vertex (or UNREAD) of (client, position in the phase), at most one position of each client. The loss
            is exchanged with a uniformly chosen one of that vertex, which keeps the others uniform.
        rng: Generator.
    """
    found = labels.copy()
    for (client, position), vertex in pins.items():
        there = found[:, client] == vertex
        other = np.where(there, rng.random(there.shape), -1.0).argmax(axis=-1)
        runs = np.flatnonzero(~there[:, position])
        found[runs, client, other[runs]] = found[runs, client, position]
        found[runs, client, position] = vertex
    return found


def pieces(
    family: LossFamily,
    losses: npt.NDArray[np.floating] | Iterable[npt.ArrayLike],
    shape: tuple[int, int, int],
) -> Iterator[tuple[int, FloatArray]]:
    """Yields the losses, cut where phases begin, each piece with its phase.

    Args:
        family: The losses.
        losses: An array, or an iterable of arrays of successive rounds.
        shape: (clients, rounds, experts).

    Raises:
        InvalidArgumentError: wrong shapes, too few or too many rounds, or losses that the family refuses.
    """
    clients, rounds, experts = shape
    seen = 0
    if not isinstance(losses, Iterable) or isinstance(losses, str | bytes):
        raise InvalidDataError("losses", losses, "is neither an array nor an iterable of blocks", "give an array")
    for block in [losses] if isinstance(losses, np.ndarray) else losses:
        whole = family.checked(array("losses", block, shape=(clients, None, experts), bools=True, data=True))
        first = 0
        while first < whole.shape[1]:
            p = (seen + 1).bit_length()
            count = min(whole.shape[1] - first, 2**p - 1 - seen)
            if seen + count > rounds:
                raise InvalidArgumentError("losses", seen + count, f"are more than {rounds} rounds", "cut them")
            yield p, whole[:, first : first + count]
            first += count
            seen += count
    if seen != rounds:
        raise InvalidArgumentError("losses", seen, f"are fewer than {rounds} rounds", "give all of them")


class Pool(Protocol):
    """The losses of a phase, of all clients and runs, by vertex."""

    def gradient(self, vertex: int, point: FloatArray) -> FloatArray:
        """Returns the average clipped gradient at points of shape (runs, d), shape (runs, clients, d)."""

    def correction(self, vertex: int, point: FloatArray, parent: FloatArray) -> FloatArray:
        """Returns the average clipped change of the gradient from the parents, shape (runs, clients, d)."""

    def add(self, losses: FloatArray) -> None:
        """Adds the next losses of the phase, shape (clients, n, d)."""


@define(eq=False)
class RunningMeans:
    """Linear losses of a phase: one sum for each root.

    Args:
        setting: The setting; gradients are clipped to its range.
        phase: The phase.
        labels: Shape (runs, clients, records).
        experts: d.
    """

    setting: StochSetting
    phase: TreePhase
    labels: Labels
    experts: int
    _seen: int = field(default=0, init=False)
    _roots: dict[int, int] = field(init=False)
    _sums: FloatArray = field(init=False)

    def __attrs_post_init__(self) -> None:
        roots = [number for number, vertex in enumerate(self.phase.vertices()) if vertex.depth == 0]
        runs, clients, _ = self.labels.shape
        self._roots = {number: place for place, number in enumerate(roots)}
        self._sums = np.zeros((clients, runs, len(roots), self.experts))

    def add(self, losses: FloatArray) -> None:
        clients, count, _ = losses.shape
        labels = self.labels[:, :, self._seen : self._seen + count]
        self._seen += count
        roots = np.fromiter(self._roots, dtype=np.int32)
        which = labels.transpose(1, 0, 2)[:, :, None, :] == roots[:, None]  # (clients, runs, roots, n)
        clipped = _within(losses, self.setting.low, self.setting.high)
        self._sums += (which.reshape(clients, -1, count).astype(np.float64) @ clipped).reshape(self._sums.shape)

    def gradient(self, vertex: int, point: FloatArray) -> FloatArray:
        means = self._sums[:, :, self._roots[vertex]] / self.phase.batch
        return np.ascontiguousarray(means.transpose(1, 0, 2))

    def correction(self, vertex: int, point: FloatArray, parent: FloatArray) -> FloatArray:
        return np.zeros((len(point), self.labels.shape[1], self.experts))


@define(eq=False)
class Kept:
    """Losses of a phase that are not linear: all of them, until the phase is over.

    Args:
        family: The losses.
        setting: The setting, which defines the clipping.
        phase: The phase.
        labels: Shape (runs, clients, records).
    """

    family: LossFamily
    setting: StochSetting
    phase: TreePhase
    labels: Labels
    _losses: list[FloatArray] = field(factory=list, init=False)
    _order: npt.NDArray[np.intp] = field(init=False)
    _places: tuple[tuple[Vertex, int], ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._order = np.argsort(self.labels, axis=-1, kind="stable")
        vertices = self.phase.vertices()
        ends = np.cumsum([vertex.records for vertex in vertices]) + self.phase.records - self.phase.used()
        self._places = tuple(zip(vertices, ends.tolist(), strict=True))

    def add(self, losses: FloatArray) -> None:
        self._losses.append(losses)

    def gradient(self, vertex: int, point: FloatArray) -> FloatArray:
        setting = self.setting
        return self._average(
            vertex,
            len(point),
            lambda records: clipped_gradients(
                self.family, records, point[:, None, :], low=setting.low, high=setting.high
            ),
        )

    def correction(self, vertex: int, point: FloatArray, parent: FloatArray) -> FloatArray:
        setting = self.setting
        most = None
        if setting.smoothness is not None:
            # Rounded coordinates may add up to a little more than the distance that accounting assumes.
            way = np.minimum(np.abs(point - parent).sum(axis=-1), float(self._places[vertex][0].travel()))
            most = (setting.smoothness * way)[:, None]
        return self._average(
            vertex,
            len(point),
            lambda records: clipped_corrections(
                self.family,
                records,
                point[:, None, :],
                parent[:, None, :],
                low=setting.low,
                high=setting.high,
                most=most,
            ),
        )

    def _average(self, vertex: int, runs: int, gradients: Callable[[FloatArray], FloatArray]) -> FloatArray:
        if len(self._losses) != 1:
            self._losses = [np.concatenate(self._losses, axis=1)]
        losses = self._losses[0]
        place, end = self._places[vertex]
        chosen = self._order[:, :, end - place.records : end]
        _, clients, count = chosen.shape
        found = np.empty((runs, clients, losses.shape[-1]))
        together = max(1, _MOST_NUMBERS // (runs * count * losses.shape[-1]))
        for first in range(0, clients, together):
            some = np.arange(first, min(first + together, clients))
            records = losses[some[None, :, None], chosen[:, some]]
            found[:, some] = gradients(records).mean(axis=2)
        return found


def new_pool(
    family: LossFamily, setting: StochSetting, phase: TreePhase, labels: Labels, experts: int
) -> RunningMeans | Kept:
    """Returns an empty pool for a phase."""
    if family.linear:
        return RunningMeans(setting, phase, labels, experts)
    return Kept(family, setting, phase, labels)


def _within(losses: FloatArray, low: float, high: float) -> FloatArray:
    """Losses clipped to [low, high], without a copy if they lie within."""
    if losses.size and low <= losses.min() and losses.max() <= high:
        return losses
    return np.clip(losses, low, high)
