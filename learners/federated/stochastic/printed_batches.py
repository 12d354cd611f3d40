"""The number of trees of a phase and the batch of a root: the printed rules, and a rule that always fits.

A phase p has 2^(p-2) losses of each client. The printed batches need more than that in early phases, and those of
Corollary 1 in all phases: :func:`printed_batch` computes them phase by phase, and :func:`printed_phases` refuses or
replaces such phases. :func:`certified_phases` fit by construction.

All phases have the printed noise, 4*alpha*2^j/(b*ε) for tree j. The graph computes the resulting guarantee;
``calibration.calibrated`` computes the scales for a target.

Source: Gao, Huang & Yang 2024, Theorems 1 and 7, Corollary 1; the certified rule is our own.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, one_of, real
from hockeystick.learners.common import arguments
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import (
    MOST_TREES,
    TreePhase,
    Where,
    checked_where,
    records_needed,
)

Infeasible = Literal["refuse", "hold", "one release"]


def _smoothness(value: float) -> float:
    return real("smoothness", value, low=0.0)


@frozen(kw_only=True)
class Sizes:
    """The sizes and constants from which the number of trees is computed.

    See :func:`certified_phases` for an example.

    Args:
        clients: m >= 1.
        experts: d >= 2.
        epsilon: > 0.
        lipschitz: alpha > 0, the largest gradient coordinate.
        smoothness: beta >= 0.
        where: "client" or "server": the one that adds noise. The noise on the average falls with sqrt(m) if clients add
            it, and with m if the server does.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    clients: int = field(converter=arguments.clients)
    experts: int = field(converter=arguments.experts)
    epsilon: float = field(converter=arguments.epsilon)
    lipschitz: float = field(default=1.0, converter=arguments.lipschitz)
    smoothness: float = field(default=0.0, converter=_smoothness)
    where: Where = field(default="client", converter=checked_where)

    def trees(self, batch: float) -> float:
        """Returns T1 = log2(b*ε*beta*sqrt(m) / (alpha*ln d))/2 of Theorem 1 (7: m for sqrt(m)), not rounded.

        Raises:
            InvalidArgumentError: ``batch`` is not a number > 0.
        """
        size = real("batch", batch, low=0.0, low_open=True)
        gain = float(self.clients) if self.where == "server" else math.sqrt(self.clients)
        if self.smoothness == 0.0:
            return -math.inf
        over = (size, self.epsilon, self.smoothness, gain)  # their product may be no float
        under = (self.lipschitz, math.log(self.experts))
        return 0.5 * (math.fsum(map(math.log2, over)) - math.fsum(map(math.log2, under)))

    def phase(self, records: int, trees: int, batch: int) -> TreePhase:
        """Returns a phase with the printed noise.

        Raises:
            InvalidArgumentError: no such phase, or no such noise.
        """
        depth, size = integer("trees", trees, low=0, high=MOST_TREES), arguments.batch(batch)
        unit = 4.0 * self.lipschitz / (size * self.epsilon) / (self.clients if self.where == "server" else 1)
        scales = tuple(unit * 2**j for j in range(1, depth + 1)) or (unit,)
        return TreePhase(records=records, trees=depth, batch=size, scales=scales)


def printed_communication(sizes: Sizes, rounds: int) -> float:
    """Returns the printed order of the numbers that all clients send and receive in T rounds, with the constant 1.

    It is m d log2(T) for smoothness 0 (Corollary 1), otherwise m^(5/4) d sqrt(T ε beta/(alpha ln d)) (Theorem 1), with
    m^(3/2) for m^(5/4) if the server adds the noise (Theorem 7). ``FedStoch.communication`` counts.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.federated import Sizes, printed_communication
        >>> printed_communication(Sizes(clients=10, experts=8, epsilon=1.0), 1024)
        800.0
    """
    length = arguments.rounds(rounds)
    if sizes.smoothness == 0.0:
        return sizes.clients * sizes.experts * math.log2(length)
    depth = length * sizes.epsilon * sizes.smoothness / (sizes.lipschitz * math.log(sizes.experts))
    return float(sizes.clients ** (1.5 if sizes.where == "server" else 1.25) * sizes.experts * math.sqrt(depth))


def feasible_batch(records: int, trees: int) -> int:
    """Returns the largest b, a multiple of 2^T1, with b*c(T1) <= N; all losses for T1 = 0; 0 if no b fits.

    Raises:
        InvalidArgumentError: ``records`` is not an integer >= 1, or ``trees`` is not one >= 0.
    """
    records, trees = integer("records", records, low=1), integer("trees", trees, low=0, high=MOST_TREES)
    return (1 << trees) * (records // records_needed(trees, 1 << trees))


def certified_trees(sizes: Sizes, records: int) -> int:
    """Returns T1 of the certified rule: the printed formula at a batch of N/4, rounded, at least 1, reduced to fit."""
    wished = sizes.trees(integer("records", records, low=1) / 4)
    trees = min(MOST_TREES, max(1, round(wished))) if wished > 0 else 1
    while trees and not feasible_batch(records, trees):
        trees -= 1
    return trees


def certified_phases(sizes: Sizes, rounds: int, *, trees: int | None = None) -> tuple[TreePhase, ...]:
    """Returns the phases p = 2, ..., P of T rounds, each with the largest batch that fits.

    Args:
        sizes: Sizes and constants.
        rounds: T >= 1.
        trees: T1 of every phase with enough losses, fewer in others; 0 is one release from all losses, best for linear
            ones. None, the default, uses :func:`certified_trees`.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.federated import Sizes, certified_phases
        >>> phases = certified_phases(Sizes(clients=10, experts=8, epsilon=1.0), 63, trees=2)
        >>> [(phase.records, phase.trees, phase.batch) for phase in phases]
        [(1, 0, 1), (2, 0, 2), (4, 1, 2), (8, 1, 4), (16, 2, 4)]
    """
    found = []
    for k in range(arguments.rounds(rounds).bit_length() - 1):
        records = 2**k
        t = certified_trees(sizes, records) if trees is None else integer("trees", trees, low=0, high=MOST_TREES)
        while not feasible_batch(records, t):
            t -= 1
        found.append(sizes.phase(records, t, feasible_batch(records, t)))
    return tuple(found)


@frozen(kw_only=True)
class PrintedBatch:
    """A printed batch, compared with the number of losses in the phase.

    See :func:`printed_batch`, which returns it.

    Attributes:
        phase: p.
        records: N = 2^(p-2).
        trees: T1.
        batch: b as printed, not always a whole number.
        usable: b rounded down to a multiple of 2^T1 if its trees read at most N losses, else 0.
    """

    phase: int
    records: int
    trees: int
    batch: Fraction
    usable: int

    @property
    def needed(self) -> Fraction:
        """The number of losses that the printed batch would read, b*c(T1)."""
        return self.batch * records_needed(self.trees, 4) / 4 if self.trees else self.batch


def printed_batch(phase: int, *, trees: int = 1, corollary: bool = False) -> PrintedBatch:
    """Returns the printed batch: b = 2^(p-1)/(p-1)^2 of Theorem 1, or b = 2^(p-1) of Corollary 1.

    Raises:
        InvalidArgumentError: ``phase`` is not an integer >= 2, or ``trees`` is not one >= 1.

    Example:
        >>> from hockeystick.learners.federated import printed_batch
        >>> early, late = printed_batch(3), printed_batch(12)
        >>> (early.needed, early.records), (late.usable, late.records)
        ((Fraction(3, 2), 2), (16, 1024))
    """
    p = integer("phase", phase, low=2, high=1000)
    trees = integer("trees", trees, low=1, high=MOST_TREES)
    batch = Fraction(2 ** (p - 1), 1 if corollary else (p - 1) ** 2)
    whole = (batch // (1 << trees)) << trees
    fits = records_needed(trees, whole) <= 2 ** (p - 2)
    return PrintedBatch(phase=p, records=2 ** (p - 2), trees=trees, batch=batch, usable=whole if fits else 0)


def printed_phases(
    sizes: Sizes, rounds: int, *, corollary: bool = False, infeasible: Infeasible = "refuse"
) -> tuple[TreePhase | None, ...]:
    """Returns the printed phases p = 2, ..., P: of Theorem 1 (7 with noise at the server), or of Corollary 1.

    Args:
        sizes: Sizes and constants.
        rounds: T >= 1.
        corollary: Use the batch of Corollary 1, with one tree, for which no phase has enough losses.
        infeasible: For a phase without enough losses: "refuse" raises an error, "hold" keeps the point of the phase
            before, and "one release" makes one release from all its losses.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a phase without the losses that it needs and
            ``infeasible="refuse"``.

    Example:
        >>> from hockeystick.learners.federated import Sizes, printed_phases
        >>> phases = printed_phases(Sizes(clients=10, experts=8, epsilon=1.0), 255, infeasible="hold")
        >>> [None if phase is None else phase.batch for phase in phases]
        [None, None, None, None, None, None, 2]
    """
    infeasible = one_of("infeasible", infeasible, "refuse", "hold", "one release")
    found: list[TreePhase | None] = []
    for p in range(2, arguments.rounds(rounds).bit_length() + 1):
        records = 2 ** (p - 2)
        wished = 1.0 if corollary else sizes.trees(float(printed_batch(p).batch))
        row = printed_batch(p, trees=min(MOST_TREES, max(1, round(max(wished, 1.0)))), corollary=corollary)
        if row.usable:
            found.append(sizes.phase(records, row.trees, row.usable))
        elif infeasible == "refuse":
            raise InvalidArgumentError(
                "rounds",
                rounds,
                f"phase {p}: the printed batch {float(row.batch):g} with {row.trees} trees reads "
                f"{float(row.needed):g} losses in multiples of {2**row.trees}, and there are {records}",
                'use certified_phases, or infeasible="hold" or "one release"',
            )
        else:
            found.append(None if infeasible == "hold" else sizes.phase(records, 0, records))
    return tuple(found)
