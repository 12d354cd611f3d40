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

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.event import NO_EVENT, Array, PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian, Laplace
from hockeystick.accounting.events.noise.participations import checked_pattern, fullest, participation_sensitivity
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

    In L2 it is the value of ``participation_sensitivity``, which also tells whether it is exact. In L1, a set of steps
    π moves it by at most Σ_{i∈π} ‖C_i‖₁.

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
    if norm == "l2":
        return participation_sensitivity(
            encoder, participations=participations, separation=separation, patterns=patterns
        ).value
    if norm != "l1":
        raise InvalidArgumentError("norm", norm, "is unknown", "use 'l1' or 'l2'")
    c = validate.array("encoder", encoder, ndim=2, low=-1e50, high=1e50)
    count = validate.integer("participations", participations, low=1)
    gap = validate.integer("separation", separation, low=1)
    if not c.size:
        return 0.0
    steps: int = c.shape[1]
    lengths = np.abs(c).sum(axis=0)
    if patterns is None:
        best = fullest(lengths, min(count, -(-steps // gap)), gap)[-1]
    elif count != 1 or gap != 1:
        raise InvalidArgumentError("patterns", patterns, "can't be combined with participations or separation")
    else:
        best = max((float(lengths[checked_pattern(p, steps)].sum()) for p in patterns), default=0.0)
    # Sums over rows and over steps: each term is off by U for each term before it.
    return best * (1.0 + 4 * U * float(len(c) + steps + 4))


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
