"""Exact laws of the winners of the federated stochastic learner on tiny instances, to test its certificates.

There is one client, or a server that adds the noise. The noiseless gradients at the leaves are not computed as by the
learner, but recursively from the paper's definition, one record after the other. The law of the winner of a leaf is a
one-dimensional integral, and that of all winners is a product along each path through the d^K outcomes.

* :func:`leaf_law`: the winner of one leaf, also for noise that is the sum of m Laplace variables. If an adversary sees
  only the winners and colludes with nobody, the noise of all m clients protects each of them, and this law says how
  well. No certificate relies on it.
* :func:`winners_law`: all winners of a phase, with its records in given places.
* :func:`secret_winners_law`: the same, over all orders in which the records may be read.

Laws are arrays of logarithms of probabilities; :func:`losses` returns the exact privacy losses between two of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.exact_loss import ExactLoss, LossLaw
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.mechanisms import NoisyMax
from hockeystick.mechanisms.selection.common import log_integrals, panels

Gradient = Callable[[FloatArray], FloatArray]
"""A record's gradient at a point of the simplex, both of shape (d,)."""

_MOST_OUTCOMES = 1 << 16
_MOST_ORDERS = 720
_ACCURACY = 1e-9  # of a log-ratio, by quadrature
_REACH = 45.0  # in scales; less than 1e-19 of the noise's mass lies beyond


# --- one leaf --------------------------------------------------------------------------------------------------------


def leaf_law(scores: npt.ArrayLike, *, scale: float, noise: str = "laplace", summands: int = 1) -> FloatArray:
    """Returns ln P(n has the least noisy score), shape (d,).

    Args:
        scores: Shape (d,).
        scale: The scale of the noise, or of each summand.
        noise: "laplace", "gumbel" or "exponential" (the last two are subtracted).
        summands: m: the noise on a score is the sum of m independent Laplace variables.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a sum of noise other than Laplace.
    """
    values = array("scores", scores, ndim=1)
    scale = real("scale", scale, low=0.0, low_open=True)
    m = integer("summands", summands, low=1, high=200)
    if m == 1:
        return np.asarray(NoisyMax(scale, noise, minimum=True).log_probabilities(values))
    if noise != "laplace":
        raise InvalidArgumentError("noise", noise, "is not supported with summands > 1", 'use "laplace" or summands=1')
    units = (values - values.min()) / scale
    width = _REACH + 3.0 * math.sqrt(2.0 * m)
    edges = np.unique(np.concatenate([units, np.arange(-width, float(units.max()) + width, 0.5)]))
    nodes, weights = panels(edges)  # smooth between the edges: the noise has its kink at 0

    def log_integrand(x: FloatArray) -> FloatArray:
        density, survival = _sum_of_laplaces(x - units, m)
        return np.asarray(density + survival.sum(axis=1, keepdims=True) - survival)

    return log_integrals(nodes, weights, log_integrand, len(units))


def _sum_of_laplaces(x: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    """ln density and ln P(> x) of the sum of m Laplace variables of scale 1: the difference of two gamma variables.

    Run both as Poisson processes. If the second has its m-th arrival first, when the first has had m - k, the
    difference is a gamma variable of shape k; that has probability C(2m-1-k, m-1) 2^-(2m-k).
    """
    k = np.arange(1, m + 1)
    weights = special.gammaln(2 * m - k) - special.gammaln(m) - special.gammaln(m - k + 1) - (2 * m - k) * math.log(2.0)
    size = np.abs(x)[..., None]
    with np.errstate(divide="ignore"):
        density = special.logsumexp(weights + special.xlogy(k - 1, size) - size - special.gammaln(k), axis=-1)
        upper = np.log(np.sum(np.exp(weights) * special.gammaincc(k, size), axis=-1))
    return np.asarray(density), np.where(x >= 0.0, upper, np.log1p(-np.exp(upper)))


# --- one phase -------------------------------------------------------------------------------------------------------


def winners_law(
    setting: StochSetting, phase: TreePhase, records: Sequence[Gradient], *, start: npt.ArrayLike
) -> FloatArray:
    """Returns ln P(winners of all leaves), shape (d, ..., d) with one axis per leaf, for records in order of reading.

    Args:
        setting: Clipping and noise; one client, and noise that is not Gaussian.
        phase: At most two trees.
        records: The gradients of at least the phase's ``used()`` records: root of tree 1 first.
        start: The initial point of the phase, shape (d,), d >= 2.

    Raises:
        InvalidArgumentError: an argument outside its domain, or an instance that is too large.
    """
    start = array("start", start, ndim=1, low=0.0, high=1.0)
    d = arguments.experts(len(start))
    if setting.clients != 1 or setting.noise == "gaussian":
        raise InvalidArgumentError("setting", setting, "is not covered", "use one client and noise other than Gaussian")
    if d ** phase.leaves() > _MOST_OUTCOMES:
        raise InvalidArgumentError("phase", phase, "has too many outcomes", f"at most {_MOST_OUTCOMES}")
    if len(records) < phase.used():
        raise InvalidArgumentError("records", len(records), "are too few", f"the phase reads {phase.used()}")
    tree = _Tree(setting, phase, tuple(records), start)
    law = np.zeros(1)
    for k, leaf in enumerate(tree.leaves()):
        rows = [
            leaf_law(tree.gradient(*leaf, winners), scale=phase.scale(leaf[0]), noise=setting.noise)
            for winners in itertools.product(range(d), repeat=k)
        ]
        law = (law[:, None] + np.array(rows)).ravel()
    return law.reshape((d,) * phase.leaves())


def secret_winners_law(
    setting: StochSetting, phase: TreePhase, records: Sequence[Gradient], *, start: npt.ArrayLike
) -> FloatArray:
    """Returns the law of :func:`winners_law` for records in a uniformly random order; all N of the phase are given.

    Raises:
        InvalidArgumentError: as for :func:`winners_law`, or not N records, or more than 720 orders.
    """
    if len(records) != phase.records or math.factorial(phase.records) > _MOST_ORDERS:
        raise InvalidArgumentError(
            "records", len(records), f"are not the {phase.records} of the phase, or too many", "give all, at most 6"
        )
    laws = [winners_law(setting, phase, order, start=start) for order in itertools.permutations(records)]
    return np.asarray(special.logsumexp(np.stack(laws), axis=0)) - math.log(len(laws))


def losses(law0: npt.ArrayLike, law1: npt.ArrayLike) -> ExactLoss:
    """Returns the exact privacy losses between two laws: logarithms of probabilities, of equal shapes.

    Raises:
        InvalidArgumentError: the shapes differ.
    """
    p, q = np.asarray(law0, dtype=float).ravel(), np.asarray(law1, dtype=float).ravel()
    if np.shape(law0) != np.shape(law1):
        raise InvalidArgumentError(
            "law1", np.shape(law1), f"is not the shape {np.shape(law0)} of law0", "use equal phases"
        )
    forward, backward = _loss_law(p, q), _loss_law(q, p)
    return ExactLoss((forward, forward), (backward, backward))


def _loss_law(p: FloatArray, q: FloatArray) -> LossLaw:
    possible = p > -math.inf
    ratios, masses = p[possible] - q[possible], np.exp(p[possible])
    order = np.argsort(ratios)
    ratios, masses = ratios[order], masses[order]
    finite = np.isfinite(ratios)
    return LossLaw(ratios[finite], masses[finite], float(masses[~finite].sum()), _ACCURACY)


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
