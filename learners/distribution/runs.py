"""Simulated runs of exponential weights on private messages, vectorised over rounds, with their exact KL risk.

A channel without memory answers a label independently of earlier messages. So the messages of a run can be drawn first,
and the weights are then a softmax of sums of the losses of *earlier* messages: one cumulative sum instead of a loop
over rounds. The weights may be updated once per block of r rounds; r = 1 is the server of
:mod:`hockeystick.learners.distribution.server` itself, and larger blocks change little, as a round moves the weights by
about the learning rate. Rounds are processed in chunks, so memory does not grow with their number.

The risk of a round is KL(f || p) between the true law f of its label and the prediction p before its message, computed
from the laws and not from labels. Arrays of weights have shape (runs, experts, blocks).

Sources: Sima, Wu, Milenkovic & Szpankowski 2024 (arXiv 2402.00315) for the learner; Freund & Schapire 1997 for Hedge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.mechanisms.contract.arguments import run_count, steps_in_all

Losses = tuple[AnyIntArray | None, FloatArray]
"""Decoded messages: indices (runs, n) with one loss each, (runs, n); or None and all experts' losses, (runs, n, K)."""
Source = Callable[[int, int], Losses]
"""The messages of the rounds first .. last - 1, counted from 0; called in order, once for each round."""

_MESSAGE, _TURN = 3, 5  # steps of work, that of one message and that of one block of them
_CELLS, _ROUNDS = 2**17, 2**15  # weights and messages in memory at once, of all runs, so that they fit a cache


@frozen(eq=False)
class KLRisk:
    """KL(truth || prediction) in nats, for predictions that mix K laws.

    Labels whose masses under all laws agree up to a common factor share one column, so the time does not grow with the
    number of labels but with the number of columns.

    Attributes:
        experts: K.
        entropy: The part of the risk that does not depend on the mixture.
        truth: Probability of each column, shape (m,).
        masses: Each law's mass, up to the column's factor, shape (m, K).
    """

    entropy: float
    truth: FloatArray = field(repr=False)
    masses: FloatArray = field(repr=False)

    @classmethod
    def finite(cls, truth: npt.ArrayLike, masses: npt.ArrayLike) -> KLRisk:
        """Returns the risk for M labels: the true law has shape (M,), the mixed laws have shape (K, M).

        Raises:
            InvalidArgumentError: shapes that do not agree, a negative or non-finite mass, or a true law that does not
                sum to 1.
        """
        law = array("truth", truth, ndim=1, low=0.0)
        table = array("masses", masses, shape=(None, len(law)), low=0.0)
        if abs(float(law.sum()) - 1.0) > 1e-9:
            raise InvalidArgumentError("truth", float(law.sum()), "is not the total of a law", "give masses of sum 1")
        kept = law > 0.0
        largest = np.max(table[:, kept], axis=0, initial=0.0)
        if (largest == 0.0).any():
            raise _infinite("masses")
        entropy = float(np.sum(law[kept] * np.log(law[kept] / largest)))
        return cls._of_columns(entropy, law[kept], table[:, kept] / largest)

    @classmethod
    def quadrature(cls, nodes: npt.ArrayLike, log_truth: npt.ArrayLike, log_masses: npt.ArrayLike) -> KLRisk:
        """Returns the risk for any labels: weights of nodes, shape (m,), and log densities, shapes (m,) and (K, m).

        Nodes are labels that are counted one by one (weights 1), or points of a quadrature rule. The result is as
        accurate as the rule; labels beyond the nodes are left out.

        Raises:
            InvalidArgumentError: shapes that do not agree, a negative or non-finite weight, a NaN, or a node that has
                mass under the true law only, so that the risk is infinite.
        """
        weight = array("nodes", nodes, ndim=1, low=0.0)
        log_law = np.asarray(log_truth, dtype=np.float64)
        logs = np.asarray(log_masses, dtype=np.float64)
        for name, value, shape in (("log_truth", log_law, weight.shape), ("log_masses", logs, (-1, *weight.shape))):
            if value.ndim != len(shape) or value.shape[-1] != len(weight):
                raise InvalidArgumentError(name, value.shape, "is the wrong shape", f"there are {len(weight)} nodes")
            if np.isnan(value).any() or np.isposinf(value).any():
                raise InvalidArgumentError(name, "...", "holds NaN or +inf", "give log densities, -inf for none")
        kept = (weight > 0.0) & np.isfinite(log_law)
        factor = np.max(logs[:, kept], axis=0, initial=-np.inf)
        if np.isneginf(factor).any():
            raise _infinite("log_masses")
        mass = weight[kept] * np.exp(log_law[kept])
        entropy = float(np.sum(mass * (log_law[kept] - factor)))
        return cls._of_columns(entropy, mass, np.exp(logs[:, kept] - factor))

    @classmethod
    def _of_columns(cls, entropy: float, mass: FloatArray, columns: FloatArray) -> KLRisk:
        kinds, which = np.unique(columns.T, axis=0, return_inverse=True)
        together = np.bincount(which.ravel(), weights=mass, minlength=len(kinds))
        return cls(entropy=entropy, truth=np.asarray(together, np.float64), masses=np.ascontiguousarray(kinds))

    @property
    def experts(self) -> int:
        """K, the number of laws that are mixed."""
        return int(self.masses.shape[1])

    def of(self, weights: FloatArray) -> FloatArray:
        """Returns the risk of each mixture, shape (..., n), for positive weights of any sum, shape (..., K, n)."""
        mixture = self.masses @ weights
        np.log(mixture, out=mixture)
        value = self.entropy - self.truth @ mixture + self.truth.sum() * np.log(weights.sum(axis=-2))
        return np.asarray(np.maximum(value, 0.0))


@frozen(eq=False)
class Runs:
    """Results of whole runs, with runs on the leading axis.

    Attributes:
        rounds: T.
        risk: Shape (runs,): the sum over rounds of KL(truth || prediction), in nats.
        marks: Shape (m,): the numbers of rounds after which the risk is recorded; the last one is T.
        curve: Shape (runs, m): the risk up to each mark.
        mean_weights: Shape (runs, K): the average over rounds of the weights. With a single context the average
            prediction is their mixture.
        totals: Shape (runs, K): the sums of losses at the end.
        counts: Shape (runs, K): the number of messages about each expert.
    """

    rounds: int
    risk: FloatArray
    marks: AnyIntArray = field(repr=False)
    curve: FloatArray = field(repr=False)
    mean_weights: FloatArray = field(repr=False)
    totals: FloatArray = field(repr=False)
    counts: FloatArray = field(repr=False)

    def mean_losses(self) -> FloatArray:
        """Returns the mean loss of each expert over the messages about it, shape (runs, K); NaN if there are none.

        Means identify the best expert better than sums, as the numbers of messages differ by chance.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.totals / self.counts)


def steps(rounds: int, block: int) -> int:
    """Returns the steps of work of one run with few experts, each of some 30 nanoseconds."""
    return _MESSAGE * rounds + _TURN * (rounds // block)


def play(
    source: Source,
    risks: KLRisk | Sequence[KLRisk],
    *,
    rounds: int,
    runs: int,
    rate: float,
    block: int = 1,
    contexts: npt.ArrayLike | None = None,
    marks: Sequence[int] = (),
) -> Runs:
    """Returns runs of exponential weights: the weights at round t are softmax(-rate * losses before the block of t).

    Time is O(rounds + rounds/block * K * columns) per run; memory does not depend on the number of rounds.

    Args:
        source: The messages.
        risks: The risk of a prediction; one for each context, if there are contexts.
        rounds: T >= 1.
        runs: The number of runs, >= 1.
        rate: Learning rate >= 0, per unit of loss.
        block: r >= 1, the number of rounds between updates of the weights.
        contexts: Shape (rounds,), the context of each round, an index into ``risks``; None if there is only one.
        marks: Further rounds after which the risk is recorded; a mark is moved up to the end of its block.

    Raises:
        InvalidArgumentError: an argument outside its domain, or messages that are not finite losses of known experts.
    """
    length, count = integer("rounds", rounds, low=1), integer("runs", runs, low=1)
    size, eta = min(integer("block", block, low=1), length), real("rate", rate, low=0.0)
    rated = (risks,) if isinstance(risks, KLRisk) else tuple(risks)
    seen = _contexts(contexts, length, len(rated))
    experts = rated[0].experts
    steps_in_all("rounds", rounds, count * max(steps(length, size), length * (experts // size)))
    stops = {-(-integer("marks", mark, low=1, high=length) // size) * size for mark in marks}
    ends = sorted({min(length, stop) for stop in stops} | {length})
    blocks = min(_CELLS // (count * experts), _ROUNDS // (count * size))
    span = size * max(1, blocks)
    walk = _Walk(count, experts, eta)
    risk, curve, spent = np.zeros(count), np.empty((count, len(ends))), np.zeros((count, experts))
    first = 0
    for at, end in enumerate(ends):
        while first < end:
            last = min(end, first + span)
            weights = walk.step(*source(first, last), last - first, size)
            in_force = _lengths(last - first, size)
            spent += np.matmul(weights, (in_force / weights.sum(axis=1))[:, :, None])[:, :, 0]
            if seen is None:
                risk += rated[0].of(weights) @ in_force
            else:
                risk += _by_context(rated, weights, seen[first:last], size)
            first = last
        curve[:, at] = risk
    return Runs(
        rounds=length,
        risk=risk,
        marks=np.array(ends),
        curve=curve,
        mean_weights=spent / length,
        totals=walk.totals,
        counts=walk.counts,
    )


def replay(index: npt.ArrayLike | None, losses: npt.ArrayLike) -> Source:
    """Returns a source of given messages: arrays of :data:`Losses` for all rounds.

    Raises:
        InvalidArgumentError: an index that is not made of integers.
    """
    given, loss = None if index is None else np.asarray(index), np.asarray(losses, dtype=np.float64)
    if given is not None and given.dtype.kind not in "iu":
        raise InvalidArgumentError("index", given.dtype, "is not an integer type", "give the candidates' indices")

    def source(first: int, last: int) -> Losses:
        return (None if given is None else given[:, first:last]), loss[:, first:last]

    return source


def _infinite(name: str) -> InvalidArgumentError:
    reason = "gives no mass to a label of the true law, so the risk is infinite"
    return InvalidArgumentError(name, 0.0, reason, "mix the laws with one that has mass there")


def _contexts(contexts: npt.ArrayLike | None, rounds: int, known: int) -> AnyIntArray | None:
    if contexts is None:
        if known != 1:
            raise InvalidArgumentError("contexts", None, f"is missing for {known} contexts", "give one for each round")
        return None
    return context_numbers(contexts, rounds, known)


def context_numbers(contexts: npt.ArrayLike, size: int, known: int) -> AnyIntArray:
    """Returns ``size`` public contexts as integers 0 .. known - 1.

    Raises:
        InvalidArgumentError: a wrong shape, or an unknown context.
    """
    found = array("contexts", contexts, shape=(size,), low=0, high=known - 1)
    if (found != np.floor(found)).any():
        raise InvalidArgumentError("contexts", contexts, "are not whole numbers", f"use 0 .. {known - 1}")
    return found.astype(np.intp)


def _lengths(rounds: int, size: int) -> FloatArray:
    """The number of rounds of each block: ``size``, except for a shorter last one."""
    found = np.full(-(-rounds // size), float(size))
    found[-1] = rounds - size * (len(found) - 1)
    return found


def _by_context(rated: Sequence[KLRisk], weights: FloatArray, contexts: AnyIntArray, size: int) -> FloatArray:
    """The risk of rounds in several contexts, shape (runs,): a context counts as often as it occurs in a block."""
    found = np.zeros(len(weights))
    block = np.arange(len(contexts)) // size
    for which in np.unique(contexts):
        at, times = np.unique(block[contexts == which], return_counts=True)
        found += rated[which].of(np.ascontiguousarray(weights[:, :, at])) @ times
    return found


class _Walk:
    """The weights over chunks of messages; between chunks only the sums of losses are stored."""

    def __init__(self, runs: int, experts: int, rate: float) -> None:
        self.totals, self.counts = np.zeros((2, run_count(runs, 2 * experts), experts))
        self._rate = rate

    def step(self, index: AnyIntArray | None, losses: FloatArray, rounds: int, size: int) -> FloatArray:
        """Weights before each block of these rounds, the largest of each 1, shape (runs, K, blocks)."""
        runs, experts = self.totals.shape
        blocks = -(-rounds // size)
        if losses.shape != ((runs, rounds, experts) if index is None else (runs, rounds)):
            raise InvalidDataError("losses", losses, "have the wrong shape", "see Losses")
        before = np.empty((runs, experts, blocks + 1))
        before[:, :, 0] = self.totals
        before[:, :, 1:] = self._vectors(losses, size) if index is None else self._sampled(index, losses, size, blocks)
        np.cumsum(before, axis=2, out=before)
        if not np.isfinite(before[:, :, -1]).all():
            raise InvalidArgumentError("losses", "...", "hold a value that is not finite", "decode valid messages")
        self.totals = before[:, :, -1].copy()
        weights = before[:, :, :-1]
        weights -= weights.min(axis=1, keepdims=True)
        weights *= -self._rate
        np.exp(weights, out=weights)
        return np.ascontiguousarray(weights)

    def _vectors(self, losses: FloatArray, size: int) -> FloatArray:
        self.counts += losses.shape[1]
        starts = np.arange(0, losses.shape[1], size)
        sums = losses if size == 1 else np.add.reduceat(losses, starts, axis=1)
        return np.swapaxes(sums, 1, 2)

    def _sampled(self, index: AnyIntArray, losses: FloatArray, size: int, blocks: int) -> FloatArray:
        runs, experts = self.totals.shape
        spoken = index + experts * np.arange(runs)[:, None]  # (runs, rounds): which (run, expert)
        if index.shape != losses.shape or index.min() < 0 or index.max() >= experts:
            raise InvalidArgumentError("index", "...", "names an unknown expert", f"use 0 .. {experts - 1}")
        self.counts += np.bincount(spoken.ravel(), minlength=runs * experts).reshape(runs, experts)
        cell = spoken * blocks + np.arange(losses.shape[1]) // size
        sums = np.bincount(cell.ravel(), weights=losses.ravel(), minlength=runs * experts * blocks)
        return np.asarray(sums, np.float64).reshape(runs, experts, blocks)
