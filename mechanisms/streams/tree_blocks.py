"""The linear algebra of a binary tree over T steps: its blocks, estimates of their sums, prefix sums, variances.

At height h are the complete blocks of 2^h steps that start at multiples of 2^h. If T is not a power of two, they form
several full trees with disjoint steps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np

from hockeystick.accounting import UnsupportedEventError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.events.noise.correlated_noise import tree_levels
from hockeystick.mechanisms.contract.arguments import array_length

Estimate = Literal["plain", "below", "full"]

_KEPT = 2**16  # steps up to which variances are kept
_DENSE = 2048  # steps up to which the covariance of the answers "below" is a dense matrix


def counts(steps: int) -> list[int]:
    """Returns the numbers of blocks, by height."""
    return [steps >> h for h in range(tree_levels(steps))]


def weight(height: int) -> float:
    """Returns a block's own weight in its best estimate from below, which is also that estimate's variance."""
    return 1.0 / (2.0 - 0.5**height)


def blocks(leaves: Any) -> list[Any]:
    """Returns the sums over all blocks, by height, of contributions along the first axis."""
    found = [leaves.copy()]
    while (half := len(found[-1]) // 2) > 0:
        found.append(found[-1][: 2 * half : 2] + found[-1][1 : 2 * half : 2])
    return found


def closing_order(height: int, count: int) -> IntArray:
    """Returns the places of a height's first ``count`` blocks among all blocks, in the order of their last steps.

    Of the blocks that end at one step the lower ones come first. The first t steps close 2t − (ones of t) blocks.
    """
    ones = np.zeros(1, dtype=np.int64)
    while len(ones) < count:
        ones = np.concatenate([ones, ones + 1])
    return np.asarray(2 * (np.arange(1, count + 1) << height) - 2 - ones[:count])


def improved(noisy: list[FloatArray], estimate: Estimate) -> list[FloatArray]:
    """Returns the chosen estimates of the blocks' sums; each height has shape (runs, blocks, entries)."""
    if estimate == "plain":
        return noisy
    found = [noisy[0]]
    for h, own in enumerate(noisy[1:], start=1):
        pairs = own.shape[1]
        children = found[-1][:, : 2 * pairs : 2] + found[-1][:, 1 : 2 * pairs : 2]
        found.append(weight(h) * own + (1 - weight(h)) * children)
    if estimate == "full":
        for h in range(len(found) - 1, 0, -1):  # two children of equal variance share the correction by their parent
            pairs, lower = found[h].shape[1], found[h - 1]
            left, right = lower[:, : 2 * pairs : 2], lower[:, 1 : 2 * pairs : 2]
            gain = (found[h] - left - right) / 2
            lower = lower.copy()
            lower[:, : 2 * pairs : 2] += gain
            lower[:, 1 : 2 * pairs : 2] += gain
            found[h - 1] = lower
    return found


def prefixes(blocks: list[FloatArray], steps: int, start: FloatArray | float = 0.0) -> FloatArray:
    """Returns the prefix sums, shape (runs, steps, entries), on top of ``start``: by blocks, the largest first."""
    runs, _, width = blocks[0].shape
    found = np.zeros((runs, steps + 1, width))
    found[:, 0] = start
    for h in range(len(blocks) - 1, -1, -1):
        used = blocks[h][:, ::2]
        stride = 2 << h
        found[:, 1 << h :: stride] = found[:, ::stride][:, : used.shape[1]] + used
    return found[:, 1:]


def last_blocks(prefixes: FloatArray) -> FloatArray:
    """Returns the sums of the blocks that plain prefix sums use, by their last step: the inverse of ``prefixes``."""
    t = np.arange(1, prefixes.shape[1] + 1)
    padded = np.concatenate([np.zeros_like(prefixes[:, :1]), prefixes], axis=1)
    return np.asarray(padded[:, t] - padded[:, t & (t - 1)])


def block_sums(prefixes: FloatArray) -> list[FloatArray]:
    """Returns the sums over all blocks, by height, from prefix sums of shape (runs, steps, entries)."""
    padded = np.concatenate([np.zeros_like(prefixes[:, :1]), prefixes], axis=1)
    return [np.diff(padded[:, :: 1 << h], axis=1) for h in range(tree_levels(prefixes.shape[1]))]


def variances(steps: int, estimate: Estimate) -> FloatArray:
    """Returns the variances of the prefix sums, shape (steps,), per unit of one block's noise; exact.

    Raises:
      InvalidArgumentError: more than 2^26 steps.
    """
    return _variances(steps, estimate) if steps <= _KEPT else _variances.__wrapped__(steps, estimate)


def prefix_weights(steps: IntArray, estimate: Estimate) -> FloatArray:
    """Returns the variances of the sums of so many steps, "plain" or "below", per unit of one block's noise."""
    found = np.zeros(steps.shape)
    for h in range(int(steps.max(initial=0)).bit_length()):
        found += (steps >> h & 1) * _own(h, estimate)
    return found


def mean_variance(steps: int, estimate: Literal["plain", "below"]) -> float:
    """Returns the mean of these variances, for any number of steps."""
    found = 0.0
    for h in range(tree_levels(steps)):
        whole, rest = divmod(steps + 1, 2 << h)  # of the numbers 0 … steps those with bit h
        found += ((whole << h) + max(0, rest - (1 << h))) / steps * _own(h, estimate)
    return found


def variance_counts(steps: int, estimate: Estimate) -> tuple[FloatArray, IntArray]:
    """Returns the different variances of the prefix sums, and how many have each.

    Of more than 2^16 sums the variances are rounded up to multiples of 2^-12, as of estimates from below nearly all
    differ.

    Raises:
      InvalidArgumentError: more than 2^26 steps.
    """
    found = variances(steps, estimate)
    if steps <= _KEPT:
        return np.unique(found, return_counts=True)
    counts = np.bincount(np.ceil(found * 2.0**12).astype(np.int64))
    (places,) = np.nonzero(counts)
    return places / 2.0**12, counts[places]


def _own(height: int, estimate: Estimate) -> float:
    return 1.0 if estimate == "plain" else weight(height)


@lru_cache(maxsize=16)
def _variances(steps: int, estimate: Estimate) -> FloatArray:
    array_length("steps", steps, 4 * steps)
    if estimate != "full":
        sums = np.zeros(steps + 1)
        for h in range(tree_levels(steps)):  # t = 2^h + rest has one more block than the rest
            rest = sums[: min(1 << h, steps + 1 - (1 << h))]
            sums[1 << h : (1 << h) + len(rest)] = rest + _own(h, estimate)
        return sums[1:]
    found = np.zeros(steps)
    # Variances of the sums of a block's first 1 … 2^h steps, and covariances with its sum, from the blocks inside it.
    inside = [(np.ones(1), np.ones(1))]
    for _ in range(1, tree_levels(steps)):
        variance, covariance = inside[-1]
        whole, both = variance[-1], 2 * variance[-1]
        variance = np.concatenate([variance, whole + variance])
        covariance = np.concatenate([covariance, whole + covariance])
        inside.append((variance - covariance**2 / (both + 1), covariance / (both + 1)))  # the block's own noise
    start, before = 0, 0.0
    for h in range(tree_levels(steps) - 1, -1, -1):  # the largest blocks are independent of each other
        if steps >> h & 1:
            variance = inside[h][0]
            found[start : start + len(variance)] = before + variance
            start, before = start + len(variance), before + float(variance[-1])
    return found


@lru_cache(maxsize=4)
def _covariance_factor(steps: int) -> tuple[Any, bool]:
    """The Cholesky factor of the covariance of the answers "below"."""
    from scipy import linalg

    sizes = counts(steps)
    unit = np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    answers = prefixes(improved([block[:, :, None] for block in unit], "below"), steps)[:, :, 0]
    factor: tuple[Any, bool] = linalg.cho_factor(answers.T @ answers)
    return factor


def precision_times(steps: int, shift: FloatArray) -> FloatArray:
    """Returns the inverse covariance of the answers "below", per unit of noise, times ``shift`` of shape (steps, …).

    Raises:
      UnsupportedEventError: more than 2048 steps.
    """
    from scipy import linalg

    if steps > _DENSE:
        raise UnsupportedEventError(f"{steps} steps are too many for the covariance of estimates from below")
    return np.asarray(linalg.cho_solve(_covariance_factor(steps), shift))
