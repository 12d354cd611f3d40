"""Noise correlated over steps: the matrix mechanism and tree aggregation.

A linear map A of a stream x of T contributions is released as B·(C·x + noise) with A = B·C. Applying B is
post-processing, so the cost is that of C·x with independent noise: for Gaussian noise exactly one ``Gaussian`` event at
the L2 sensitivity of C·x. That also holds for adaptively chosen contributions if A is lower triangular and of full
rank, so that the answer of step t needs only the steps up to t (Denisov, McMahan, Rush, Smith & Thakurta 2022,
Thm 2.1). For Laplace noise there is no such theorem, and B and C must both be lower triangular. Decoding the same noisy
values with less variance (Honaker 2015) changes B and costs nothing.

One record may contribute to several steps, each time a value of norm at most 1 (for another bound, scale the event with
``at``). Either ``participations`` and ``separation`` bound the possible sets of steps, or ``patterns`` lists them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from scipy import linalg

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.event import NO_EVENT, Array, PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian, Laplace
from hockeystick.accounting.numerics.directed_rounding import U

Noise = Literal["gaussian", "laplace"]

_MOST_STEPS = 2**20  # in a list of patterns

_NOISES: dict[str, type[Gaussian] | type[Laplace]] = {"gaussian": Gaussian, "laplace": Laplace}


def matrix_mechanism(
    encoder: Any,
    *,
    noise_multiplier: float,
    participations: int = 1,
    separation: int = 1,
    patterns: Iterable[Iterable[int]] | None = None,
    noise: Noise = "gaussian",
) -> PrivacyEvent:
    """Returns the event of publishing ``encoder @ x`` with independent noise on every entry, for a stream x.

    Args:
      encoder: the matrix C, shape (measurements, steps); public.
      noise_multiplier: scale of each entry's noise (Gaussian: standard deviation), per unit of the norm of one
        contribution: L2 for Gaussian, L1 for Laplace noise.
      participations, separation, patterns: as in ``matrix_sensitivity``.
      noise: "gaussian" or "laplace".

    Raises:
      InvalidArgumentError: an argument outside its domain.

    Example:
      >>> import numpy as np
      >>> from hockeystick.accounting import epsilon, matrix_mechanism
      >>> event = matrix_mechanism(np.eye(64), noise_multiplier=5.0, participations=4, separation=16)
      >>> round(epsilon(event, 1e-6).upper, 3)
      1.766
    """
    kind = _kind(noise)
    multiplier = field_checks.noise_multiplier(noise_multiplier)
    sensitivity = matrix_sensitivity(
        encoder,
        participations=participations,
        separation=separation,
        patterns=patterns,
        norm="l2" if kind is Gaussian else "l1",
    )
    return kind(multiplier).at(sensitivity)


def matrix_sensitivity(
    encoder: Any,
    *,
    participations: int = 1,
    separation: int = 1,
    patterns: Iterable[Iterable[int]] | None = None,
    norm: Literal["l2", "l1"] = "l2",
) -> float:
    """Returns the sensitivity of ``encoder @ x`` to one record whose contributions each have norm at most 1.

    With G = CᵀC, a set of steps π moves it by at most √(Σ_{i,j∈π} |G_ij|) in L2, with equality if G has no negative
    entry (Choquette-Choo, McMahan, Rush & Thakurta 2023), and by at most Σ_{i∈π} ‖C_i‖₁ in L1. Over all sets with a
    minimal separation, each step i is charged the largest Σ_j |G_ij| over the sets that hold it. That is exact if steps
    at least ``separation`` apart share no measurement (banded C), and an upper bound otherwise. It is also exact for a
    filter with decreasing coefficients, such as the square root of the prefix sums, for which the steps 0,
    ``separation``, 2·``separation``, ... are worst (Kalinin & Lampert 2024, Thm 2).

    Args:
      encoder: shape (measurements, steps).
      participations: the largest number of steps that one record contributes to.
      separation: the least distance between two of these steps; 1 allows any steps.
      patterns: instead of these two, the possible sets of steps, such as ``fixed_epochs(steps, epochs)``.
      norm: of the contributions and of the result.

    Returns:
      The sensitivity, rounded up.

    Raises:
      InvalidArgumentError: not a matrix of finite numbers, a step outside it, or patterns together with participations.

    Example:
      >>> import numpy as np
      >>> from hockeystick.accounting import fixed_epochs, matrix_sensitivity
      >>> sums, twice = np.tril(np.ones((6, 6))), fixed_epochs(6, 2)
      >>> round(matrix_sensitivity(sums), 3), round(matrix_sensitivity(sums, patterns=twice), 3)
      (2.449, 3.873)
    """
    c = validate.array("encoder", encoder, ndim=2, low=-1e50, high=1e50)
    count = validate.integer("participations", participations, low=1)
    gap = validate.integer("separation", separation, low=1)
    if norm not in ("l1", "l2"):
        raise InvalidArgumentError("norm", norm, "is unknown", "use 'l1' or 'l2'")
    if not c.size:
        return 0.0
    steps: int = c.shape[1]
    # Sums over rows and over steps: each term is off by U for each term before it. Squares, roots and products: 4 U.
    slack = 1.0 + 4 * U * float(len(c) + steps + 4)
    cost = _l1_costs(c) if norm == "l1" else _overlaps(c)
    if patterns is not None:
        if count != 1 or gap != 1:
            raise InvalidArgumentError("patterns", patterns, "can't be combined with participations or separation")
        best = max((_of_pattern(cost, _pattern(p, steps)) for p in patterns), default=0.0)
    elif count == 1:
        best = float(np.diagonal(cost).max())
    else:
        count = min(count, -(-steps // gap))
        if norm == "l2" and _is_decreasing_filter(c):
            best = _of_pattern(cost, list(range(0, count * gap, gap)))
        else:
            shares = np.array([_fullest_with(cost[i], i, count, gap) for i in range(steps)])
            best = _fullest(shares, count, gap)[-1]
    return math.sqrt(best) * slack if norm == "l2" else best * slack


def fixed_epochs(steps: int, epochs: int) -> tuple[tuple[int, ...], ...]:
    """Returns the possible sets of steps of one record if every epoch visits the records in the same order.

    Raises:
      InvalidArgumentError: ``steps`` is not a multiple of ``epochs``, or is more than 2^20, too many to list.

    Example:
      >>> from hockeystick.accounting import fixed_epochs
      >>> fixed_epochs(6, 2)
      ((0, 3), (1, 4), (2, 5))
    """
    total, k = validate.integer("steps", steps, low=1), validate.integer("epochs", epochs, low=1)
    if total > _MOST_STEPS:
        remedy = "give matrix_sensitivity participations=epochs and separation=steps // epochs instead"
        raise InvalidArgumentError("steps", steps, f"is more than the {_MOST_STEPS} steps that can be listed", remedy)
    if total % k:
        raise InvalidArgumentError("epochs", epochs, f"does not divide steps={total}", "give a divisor")
    length = total // k
    return tuple(tuple(range(first, total, length)) for first in range(length))


def tree_aggregation(
    steps: int | Iterable[int],
    *,
    noise_multiplier: float,
    branching: int = 2,
    every_tree: bool = False,
    noise: Noise = "gaussian",
) -> PrivacyEvent:
    """Returns the event of tree aggregation: noisy sums over the complete nodes of trees, which give all prefix sums.

    A node is published when its last leaf is complete. With b = ``branching``, a leaf lies in at most
    ⌊log_b steps⌋ + 1 nodes, the number of levels.

    Args:
      steps: the number of leaves of the tree, or of each tree if it is restarted.
      noise_multiplier: scale of each node's noise per unit of norm of one contribution (L2, or L1 for Laplace noise).
      branching: the number of children of a node.
      every_tree: whether a record contributes once to *every* tree (epochs) instead of to one leaf of one tree.
      noise: "gaussian" or "laplace".

    Raises:
      InvalidArgumentError: an argument outside its domain.

    Example:
      >>> from hockeystick.accounting import tree_aggregation
      >>> tree_aggregation(1000, noise_multiplier=20.0)
      Composed(parts=((Gaussian(noise_multiplier=20.0), 10),))
    """
    kind = _kind(noise)
    event = kind(field_checks.noise_multiplier(noise_multiplier))
    sizes = [steps] if not isinstance(steps, Iterable) else list(steps)
    heights = [tree_levels(size, branching=branching) for size in sizes]
    if not heights:
        return NO_EVENT
    levels = sum(heights) if every_tree else max(heights)
    # A leaf moves each of its nodes by the same vector, and later contributions may depend on published nodes.
    return compose((event, levels))


def tree_levels(steps: int, *, branching: int = 2) -> int:
    """Returns the largest number of complete nodes that hold a leaf of a tree: ⌊log_branching steps⌋ + 1.

    Raises:
      InvalidArgumentError: steps < 1, or branching < 2.

    Example:
      >>> from hockeystick.accounting import tree_levels
      >>> tree_levels(1000), tree_levels(1000, branching=10)
      (10, 4)
    """
    rest, b = validate.integer("steps", steps, low=1), validate.integer("branching", branching, low=2)
    levels = 0
    while rest:
        rest, levels = rest // b, levels + 1
    return levels


def tree_encoder(steps: int, *, branching: int = 2) -> Array:
    """Returns the encoder of ``tree_aggregation``, shape (nodes, steps), for records that contribute several times.

    Raises:
      InvalidArgumentError: steps is not in 1 … 8192, or branching < 2.

    Example:
      >>> from hockeystick.accounting import matrix_sensitivity, tree_encoder
      >>> [round(matrix_sensitivity(tree_encoder(8), participations=k) ** 2, 6) for k in (1, 2)]  # more than twice
      [4.0, 14.0]
    """
    total, b = validate.integer("steps", steps, low=1, high=8192), validate.integer("branching", branching, low=2)
    rows: list[Array] = []
    length = 1
    while length <= total:
        for first in range(0, total - length + 1, length):
            row = np.zeros(total)
            row[first : first + length] = 1.0
            rows.append(row)
        length *= b
    return np.stack(rows)


def _kind(noise: str) -> type[Gaussian] | type[Laplace]:
    if noise not in _NOISES:
        raise InvalidArgumentError("noise", noise, "is unknown", "use 'gaussian' or 'laplace'")
    return _NOISES[noise]


def _overlaps(c: Array) -> Array:
    """Returns |CᵀC|, plus a bound on the rounding of each entry that is not certainly zero."""
    magnitude = np.abs(c)
    touching = magnitude.T @ magnitude
    # A sum of n products is off by at most n U times the sum of their absolute values, which is itself off by n U.
    return np.asarray(np.abs(c.T @ c) + 2 * U * len(c) * touching)


def _l1_costs(c: Array) -> Array:
    return np.diag(np.abs(c).sum(axis=0))


def _pattern(pattern: Iterable[int], steps: int) -> list[int]:
    found = [validate.integer("patterns", step, low=0, high=steps - 1) for step in pattern]
    if len(set(found)) != len(found):
        raise InvalidArgumentError("patterns", found, "names a step twice")
    return found


def _of_pattern(cost: Array, pattern: list[int]) -> float:
    return float(cost[np.ix_(pattern, pattern)].sum()) if pattern else 0.0


def _fullest(values: Array, count: int, gap: int) -> list[float]:
    """Returns the largest sums of at most 0, 1, ... ``count`` of ``values`` ≥ 0 at places ``gap`` or more apart."""
    best = np.zeros(len(values) + gap)  # best[t + gap]: among the steps up to t
    sums = [0.0]
    for _ in range(count):
        best = np.concatenate([np.zeros(gap), np.maximum.accumulate(values + best[: len(values)])])
        sums.append(float(best[-1]))
    return sums


def _fullest_with(row: Array, step: int, count: int, gap: int) -> float:
    """Returns the largest sum of at most ``count`` values ``gap`` or more apart that include row[step]."""
    before = _fullest(row[: max(0, step - gap + 1)], count - 1, gap)
    after = _fullest(row[step + gap :], count - 1, gap)
    return float(row[step]) + max(before[k] + after[count - 1 - k] for k in range(count))


def _is_decreasing_filter(c: Array) -> bool:
    """Returns whether C is lower triangular Toeplitz with a nonincreasing first column ≥ 0."""
    first = c[:, 0]
    if len(c) != c.shape[1] or np.diff(first, append=0.0).max() > 0.0:
        return False
    return np.array_equal(c, linalg.toeplitz(first, np.zeros(len(first))))
