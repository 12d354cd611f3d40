"""Noise correlated over steps: the matrix mechanism and tree aggregation.

A linear map A of a stream x of T contributions is released as B·(C·x + noise) with A = B·C. Applying B is
post-processing, so that what it costs is C·x with independent noise: for Gaussian noise exactly one ``Gaussian`` event
at the L2 sensitivity of C·x. That holds for contributions chosen adaptively too, if A is lower triangular and of full
rank, so that step t's answer needs the steps up to t alone (Denisov, McMahan, Rush, Smith & Thakurta 2022, Thm 2.1).
Laplace noise has no such theorem: there B and C must both be lower triangular. Decoding with less variance from the
same noisy values (Honaker 2015) changes B and costs nothing.

One record may contribute to several steps, each time a value of norm at most 1 (scale the event with ``at`` for another
bound). ``participations`` and ``separation`` say which sets of steps are possible, or ``patterns`` lists them.
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
      noise_multiplier: scale of each entry's noise (Gaussian: standard deviation), per unit of norm of one
        contribution: L2 for Gaussian, L1 for Laplace noise.
      participations, separation, patterns: as in ``matrix_sensitivity``.
      noise: "gaussian" or "laplace".

    Raises:
      InvalidArgumentError: an argument outside its domain.
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
    """Returns how far one record can move ``encoder @ x`` if each of its contributions has norm at most 1.

    With G = CᵀC, steps π move it by at most √(Σ_{i,j∈π} |G_ij|) in L2, attained where G has no negative entry
    (Choquette-Choo, McMahan, Rush & Thakurta 2023), and by at most Σ_{i∈π} ‖C_i‖₁ in L1. Over all sets with a minimal
    separation the sum is split by steps: each i is charged the largest Σ_j |G_ij| over sets that hold it. That is exact
    where steps at least ``separation`` apart share no measurement (banded C), and an upper bound otherwise. A filter
    with decreasing coefficients, such as the square root of the prefix sums, is exact too: there the steps 0,
    ``separation``, 2·``separation``, ... are worst (Kalinin & Lampert 2024, Thm 2).

    Args:
      encoder: shape (measurements, steps).
      participations: the most steps that one record contributes to.
      separation: the least distance between two of them; 1 for any steps.
      patterns: instead of the two, the sets of steps that are possible, such as ``fixed_epochs(steps, epochs)``.
      norm: of the contributions and of the result.

    Returns:
      The sensitivity, rounded up.

    Raises:
      InvalidArgumentError: not a matrix of finite numbers, a step outside it, or patterns besides participations.
    """
    c = validate.array("encoder", encoder, ndim=2, low=-1e50, high=1e50)
    count = validate.integer("participations", participations, low=1)
    gap = validate.integer("separation", separation, low=1)
    if norm not in ("l1", "l2"):
        raise InvalidArgumentError("norm", norm, "is unknown", "use 'l1' or 'l2'")
    if not c.size:
        return 0.0
    steps: int = c.shape[1]
    # Sums over rows and over steps, each term off by U for each before it; squares, roots and products by 4 U.
    slack = 1.0 + 4 * U * float(len(c) + steps + 4)
    cost = _l1_costs(c) if norm == "l1" else _overlaps(c)
    if patterns is not None:
        if count != 1 or gap != 1:
            raise InvalidArgumentError("patterns", patterns, "stands instead of participations and separation")
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
    """Returns the sets of steps of one record when every epoch visits the records in the same order.

    Raises:
      InvalidArgumentError: ``steps`` is no multiple of ``epochs``, or more than 2^20, all of which would be listed.
    """
    total, k = validate.integer("steps", steps, low=1), validate.integer("epochs", epochs, low=1)
    if total > _MOST_STEPS:
        remedy = "give matrix_sensitivity the participations=epochs and separation=steps // epochs instead"
        raise InvalidArgumentError("steps", steps, f"would list more than {_MOST_STEPS} steps", remedy)
    if total % k:
        raise InvalidArgumentError("epochs", epochs, f"does not divide steps={total}")
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
    """Returns the event of noisy sums over the complete nodes of trees, from which all prefix sums follow.

    A node is published when its last leaf is complete. A leaf lies in as many nodes as its tree has levels:
    ⌊log_b steps⌋ + 1.

    Args:
      steps: leaves of the tree, or of each tree where it is restarted.
      noise_multiplier: scale of each node's noise per unit of norm of one contribution (L2, or L1 for Laplace noise).
      branching: children of a node.
      every_tree: whether a record contributes once to *every* tree (epochs); else to one leaf of one tree.
      noise: "gaussian" or "laplace".

    Raises:
      InvalidArgumentError: an argument outside its domain.
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
    """Returns in how many complete nodes a leaf of a tree over ``steps`` leaves can lie: ⌊log_branching steps⌋ + 1.

    Raises:
      InvalidArgumentError: steps < 1, or branching < 2.
    """
    rest, b = validate.integer("steps", steps, low=1), validate.integer("branching", branching, low=2)
    levels = 0
    while rest:
        rest, levels = rest // b, levels + 1
    return levels


def tree_encoder(steps: int, *, branching: int = 2) -> Array:
    """Returns the matrix of ``tree_aggregation``, shape (nodes, steps), for records that contribute several times.

    Raises:
      InvalidArgumentError: steps < 1, more than 8192, or branching < 2.
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
    """|CᵀC|, with a bound on the rounding of its entries added where they are not zero for sure."""
    magnitude = np.abs(c)
    touching = magnitude.T @ magnitude
    # Of n terms a sum of products is off by at most n U times the sum of their absolute values, itself off by n U.
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
    """The largest sums of at most 0, 1, ... ``count`` of ``values`` ≥ 0, ``gap`` or more apart."""
    best = np.zeros(len(values) + gap)  # best[t + gap]: among the steps up to t
    sums = [0.0]
    for _ in range(count):
        best = np.concatenate([np.zeros(gap), np.maximum.accumulate(values + best[: len(values)])])
        sums.append(float(best[-1]))
    return sums


def _fullest_with(row: Array, step: int, count: int, gap: int) -> float:
    """The largest sum of at most ``count`` values that are ``gap`` or more apart, row[step] being one of them."""
    before = _fullest(row[: max(0, step - gap + 1)], count - 1, gap)
    after = _fullest(row[step + gap :], count - 1, gap)
    return float(row[step]) + max(before[k] + after[count - 1 - k] for k in range(count))


def _is_decreasing_filter(c: Array) -> bool:
    """Says whether C is lower triangular Toeplitz with a first column that does not increase and stays ≥ 0."""
    first = c[:, 0]
    if len(c) != c.shape[1] or np.diff(first, append=0.0).max() > 0.0:
        return False
    return np.array_equal(c, linalg.toeplitz(first, np.zeros(len(first))))
