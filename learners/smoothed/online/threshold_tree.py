"""Hedge on sorted thresholds in O(log K) per round: a binary tree of log-odds.

The predicates are 1[x >= b_0], ..., 1[x >= b_{K-1}] with b sorted. An example is a loss of a prefix or of a suffix of
them. Common factors of the weights do not matter, so a loss of a prefix is a gain of the rest, and each round
multiplies the weights of a suffix by one factor. Each inner node stores only ln(weight of its right half / weight of
its left half). A factor on a suffix changes these log-odds on one path, by numbers of the order of η. So there are no
lazy factors to propagate, nothing under- or overflows however different the weights become, and after T rounds the
error of the log-odds is that of a sum of T small numbers.

:class:`ThresholdTree` is one run in plain Python, for streams of millions of rounds. :class:`ThresholdForest` is many
runs at once in numpy, for simulations.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.mechanisms.contract.arguments import array_length

_BELOW_ONE = math.nextafter(1.0, 0.0)
LARGEST_FACTOR = 500.0  # of one tilt, on the logarithmic scale: its exponential is a float


def _even_odds(size: int) -> tuple[int, FloatArray]:
    """Returns the depth of the tree, and the log-odds of equal weights on ``size`` leaves, 0 on the others."""
    array_length("size", size, 2 * size)
    depth = (size - 1).bit_length()
    leaves = 1 << depth
    odds = np.zeros(max(1, leaves))
    counts = np.zeros(leaves)
    counts[:size] = 1.0
    while leaves > 1:
        left, right = counts[0::2], counts[1::2]
        leaves >>= 1
        with np.errstate(divide="ignore"):
            found = np.log(right) - np.log(np.maximum(left, 1.0))
        odds[leaves : 2 * leaves] = found  # minus infinity where the right half is padding
        counts = left + right
    return depth, odds


class ThresholdTree:
    """The weights of K >= 1 sorted experts in one run, equal at the start.

    Args:
        size: K, up to several millions; memory is O(K).

    Raises:
        InvalidArgumentError: ``size`` is not an integer >= 1.

    Example:
        >>> from hockeystick.learners.smoothed import ThresholdTree
        >>> tree = ThresholdTree(4)
        >>> before = tree.tilt(3, -1.0)  # a loss of the last expert
        >>> before, round(tree.suffix(3), 4), tree.draw(0.5)
        (0.25, 0.1092, 1)
    """

    def __init__(self, size: int) -> None:
        self.size = integer("size", size, low=1)
        self._depth, odds = _even_odds(self.size)
        self._leaves = 1 << self._depth
        self._odds: list[float] = odds.tolist()
        left, right = _halves(odds)
        self._left: list[float] = left.tolist()
        self._right: list[float] = right.tolist()

    def tilt(self, first: int, log_factor: float) -> float:
        """Multiplies the weights of experts ``first``, first + 1, ... by e^log_factor; first may be K.

        Returns:
            The probability of these experts before.

        Raises:
            InvalidArgumentError: ``first`` is not in 0 .. K, or the factor is not finite or beyond e^500 either way.
        """
        # Valid plain numbers are not converted, for speed: streams have millions of them.
        k, factor = first, log_factor
        if type(k) is not int or not 0 <= k <= self.size:
            k = integer("first", first, low=0, high=self.size)
        if type(factor) is not float or not -LARGEST_FACTOR <= factor <= LARGEST_FACTOR:
            factor = real("log_factor", log_factor, low=-LARGEST_FACTOR, high=LARGEST_FACTOR)
        if k >= self.size:
            return 0.0
        if k == 0:
            return 1.0
        odds, lefts, rights, log, exp = self._odds, self._left, self._right, math.log, math.exp
        boost = exp(factor)
        node = self._leaves + k
        # The shares of the suffix and of the rest in this node's weight, and the change of its log-weight. Both shares
        # are stored, because either may be much smaller than the rounding error of the other.
        share, rest, change = 1.0, 0.0, factor
        while node > 1:
            parent = node >> 1
            left, right = lefts[parent], rights[parent]
            if node & 1:
                found = odds[parent] + change
                share, rest = right * share, left + right * rest
            else:
                found = odds[parent] + factor - change
                share, rest = right + left * share, left * rest
            change = log(rest + share * boost)
            odds[parent] = found
            if found > 0.0:
                weight = exp(-found)
                rights[parent] = large = 1.0 / (1.0 + weight)
                lefts[parent] = weight * large
            else:
                weight = exp(found)
                lefts[parent] = large = 1.0 / (1.0 + weight)
                rights[parent] = weight * large
            node = parent
        return share

    def draw(self, uniform: float) -> int:
        """Returns the expert of a uniform number in [0, 1), so that expert k has its probability.

        One number is used for all levels, so the total error of the probabilities is about K times 2^-53.
        """
        u = uniform
        if type(u) is not float or not 0.0 <= u < 1.0:
            u = real("uniform", uniform, low=0.0, high=1.0, high_open=True)
        chances, leaves, node = self._right, self._leaves, 1
        while node < leaves:
            chance = chances[node]
            if u < chance:
                u /= chance
                node += node + 1
            else:
                u = (u - chance) / (1.0 - chance)
                node += node
            if u >= 1.0:  # only by rounding
                u = _BELOW_ONE
        return node - leaves

    def suffix(self, first: int) -> float:
        """Returns the probability of experts ``first``, first + 1, ...; 0 for first = K."""
        k = integer("first", first, low=0, high=self.size)
        if k >= self.size:
            return 0.0
        node, share = self._leaves + k, 1.0
        while node > 1:
            left, right = self._left[node >> 1], self._right[node >> 1]
            share = right * share if node & 1 else right + left * share
            node >>= 1
        return share

    def log_probabilities(self) -> FloatArray:
        """Returns ln of all K probabilities, in O(K)."""
        return np.asarray(_log_probabilities(np.array([self._odds]), self._depth, self.size)[0])


class ThresholdForest:
    """The weights of K >= 1 sorted experts in each of R independent runs; see :class:`ThresholdTree`.

    Args:
        size: K >= 1.
        runs: R >= 1.

    Raises:
        InvalidArgumentError: an argument is not an integer >= 1.

    Example:
        >>> from hockeystick.learners.smoothed import ThresholdForest
        >>> forest = ThresholdForest(4, 2)
        >>> before = forest.tilt([3, 0], [-1.0, -1.0])
        >>> forest.suffix([3, 3]).round(4).tolist()
        [0.1092, 0.25]
    """

    def __init__(self, size: int, runs: int) -> None:
        self.size, self.runs = integer("size", size, low=1), integer("runs", runs, low=1)
        self._depth, odds = _even_odds(self.size)
        array_length("runs", runs, self.runs * len(odds))
        self._leaves = 1 << self._depth
        self._odds = np.tile(odds, (self.runs, 1))
        self._flat = self._odds.reshape(-1)
        self._start = np.arange(self.runs, dtype=np.int64) * self._odds.shape[1]
        self._shifts = np.arange(1, self._depth + 1)  # from a leaf's parent up to the root

    def tilt(self, first: npt.ArrayLike, log_factor: npt.ArrayLike) -> FloatArray:
        """Multiplies, in each run, the weights of experts first, first + 1, ... by e^log_factor.

        Args:
            first: Shape (R,), in 0 .. K.
            log_factor: Shape (R,), in [-500, 500].

        Returns:
            The probabilities of these experts before, shape (R,).
        """
        k = self._places(first)
        factors = array("log_factor", log_factor, shape=(self.runs,), low=-LARGEST_FACTOR, high=LARGEST_FACTOR)
        inside = k < self.size
        leaves = self._leaves + np.where(inside, k, 0)
        factor = np.where(inside, factors, 0.0)
        where, before, from_right = self._path(leaves)
        share, rest = self._shares(before, from_right)
        change = np.concatenate([factor[None], np.log(rest[1:-1] + share[1:-1] * np.exp(factor))])[: self._depth]
        self._flat[where] = before + np.where(from_right, change, factor - change)
        return np.where(inside, share[-1], 0.0)

    def suffix(self, first: npt.ArrayLike) -> FloatArray:
        """Returns the probabilities of experts first, first + 1, ... in each run, shape (R,)."""
        k = self._places(first)
        inside = k < self.size
        _, before, from_right = self._path(self._leaves + np.where(inside, k, 0))
        return np.where(inside, self._shares(before, from_right)[0, -1], 0.0)

    def draw(self, uniform: npt.ArrayLike) -> IntArray:
        """Returns the experts (R,) of uniform numbers in [0, 1), shape (R,)."""
        u = np.minimum(array("uniform", uniform, shape=(self.runs,), low=0.0), _BELOW_ONE)
        node = np.ones(self.runs, dtype=np.int64)
        for _ in range(self._depth):
            chance = special.expit(self._flat[self._start + node])
            right = u < chance
            u = np.where(right, u, u - chance) / np.where(right, chance, 1.0 - chance)
            u = np.minimum(u, _BELOW_ONE)
            node = 2 * node + right
        return node - self._leaves

    def log_probabilities(self) -> FloatArray:
        """Returns ln of all probabilities, shape (R, K)."""
        return _log_probabilities(self._odds, self._depth, self.size)

    def _places(self, first: npt.ArrayLike) -> IntArray:
        found: IntArray = array("first", first, shape=(self.runs,), low=0, high=self.size, dtype=np.int64)
        return found

    def _path(self, leaves: IntArray) -> tuple[IntArray, FloatArray, npt.NDArray[np.bool_]]:
        """Returns the positions of the odds on the paths from leaves to the root, these odds, and the paths' sides."""
        nodes = leaves >> self._shifts[:, None]
        where = self._start + nodes
        from_right = ((leaves >> (self._shifts[:, None] - 1)) & 1).astype(np.bool_)
        return where, self._flat[where], from_right

    def _shares(self, odds: FloatArray, from_right: npt.NDArray[np.bool_]) -> FloatArray:
        """Returns the shares of the suffix and of the rest in each node of the paths, shape (2, depth + 1, R)."""
        left, right = _halves(odds)
        branch = np.where(from_right, right, left)
        found = np.stack([np.where(from_right, 0.0, right), np.where(from_right, left, 0.0)])  # of the sibling
        found = np.concatenate([np.repeat([[[1.0]], [[0.0]]], self.runs, axis=2), found], axis=1)
        for level in range(self._depth):
            found[:, level + 1] += branch[level] * found[:, level]
        return found


def _halves(odds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the shares of a node's left and right half, both accurate however small."""
    weight = np.exp(-np.abs(odds))
    large, up = 1.0 / (1.0 + weight), odds > 0.0
    small = weight * large
    return np.where(up, small, large), np.where(up, large, small)


def _log_probabilities(odds: FloatArray, depth: int, size: int) -> FloatArray:
    logs = np.zeros((len(odds), 1))
    for level in range(depth):
        here = odds[:, 1 << level : 2 << level]
        both = np.stack([logs - np.logaddexp(0.0, here), logs - np.logaddexp(0.0, -here)], axis=2)
        logs = both.reshape(len(odds), -1)
    found: FloatArray = logs[:, :size]
    return found
