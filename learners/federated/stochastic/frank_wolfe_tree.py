"""The Frank-Wolfe method over binary trees: its vertices, the order in which they read losses, and the noise scales.

A phase of the federated stochastic learner goes through trees j = 1, ..., T1 of depth j, each in pre-order. The root of
a tree reads b losses of every client; a right child at depth r reads b / 2^r others and corrects its parent's gradient
by them; a left child copies its parent. At every leaf the clients' gradients are averaged with noise, and the iterate
moves towards the best expert. No loss is read twice in a phase.

All of this is public and fixed before a run: server and clients follow the same :meth:`TreePhase.schedule`, and
accounting reads the same :class:`Vertex` values.

Sources: Asi, Feldman, Koren & Talwar 2021, "Private stochastic convex optimization: optimal rates in l1 geometry",
Algorithm 2; Gao, Huang & Yang 2024, Algorithm 3, with the leaves interleaved.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Literal

from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, items, one_of, real
from hockeystick.learners.common import arguments

Noise = Literal["laplace", "gumbel", "exponential", "gaussian"]
Where = Literal["client", "server"]
Assignment = Literal["secret", "contiguous"]

MOST_TREES = 40
_WIDEST = 1e100  # of the range of a gradient's coordinates, so that its square is finite
"""The largest depth of a tree; a deeper one would need more losses than can be counted."""


@frozen(kw_only=True)
class Vertex:
    """A vertex of a tree that reads losses of its own.

    See :class:`TreePhase` for an example.

    Attributes:
        tree: j >= 1, or 0 in a phase with one release from all losses.
        depth: r; the root has depth 0.
        records: The number of losses of each client that it reads.
        leaves: The number of leaves that it feeds, 2^(j - r).
        before: The number of leaves of the phase before it.
    """

    tree: int
    depth: int
    records: int
    leaves: int
    before: int

    def travel(self) -> Fraction:
        """Returns the largest distance in the 1-norm between this iterate and that of the parent, exactly; at most 2.

        Steps k0, ..., k0 + n - 1 of lengths 2/(k + 1) keep a share (k0 - 1)k0 / ((k0 + n - 1)(k0 + n)) of their start.
        """
        if self.depth == 0:
            return Fraction(0)
        last = self.before
        first = last - self.leaves + 1
        return 2 * (1 - Fraction((first - 1) * first, last * (last + 1)))


@frozen
class Step:
    """One vertex, on the way to a leaf.

    Attributes:
        depth: Its depth r; the stack of iterates and gradients is written at r and read at r - 1.
        path: Its bits from the root, "" for the root.
        vertex: Its index among those that read losses; None for a left child, which copies its parent.
    """

    depth: int
    path: str
    vertex: int | None


@frozen
class Leaf:
    """A leaf, where one release is made, and the steps that lead to it.

    Attributes:
        number: k = 1, 2, ... in the phase; the step towards the winner has length 2/(k + 1).
        tree: j, or 0.
        steps: The vertices between the leaf before and this one, in order; the last is the leaf itself.
    """

    number: int
    tree: int
    steps: tuple[Step, ...]

    def step_length(self) -> float:
        """Returns eta_k = 2/(k + 1); the first step, of length 1, discards the initial point of the phase."""
        return 2.0 / (self.number + 1)


def _trees(value: object) -> int:
    return integer("trees", value, low=0, high=MOST_TREES)


def _scales(value: object) -> tuple[float, ...]:
    return tuple(real("scales", scale, low=0.0, low_open=True) for scale in items("scales", value))


def records_needed(trees: int, batch: int) -> int:
    """Returns b*c(T1), with c(T1) = T1 + T1(T1 + 1)/4, or b for T1 = 0. ``batch`` is a multiple of 2^T1."""
    return batch if trees == 0 else batch * trees * (trees + 5) // 4


@frozen(kw_only=True)
class TreePhase:
    """One phase: its trees, its batch and its noise.

    Args:
        records: N >= 1, the number of losses of each client that the phase may read.
        trees: T1; 0 means one release from all losses.
        batch: b, the number of losses that a root reads: a multiple of 2^T1 with b*c(T1) <= N, where
            c(T1) = T1 + T1(T1 + 1)/4; for T1 = 0 it is N.
        scales: The noise scales of trees j = 1, ..., T1, or of the one release, each > 0, in units of a gradient
            coordinate averaged over one client's batch. With noise at the server: on the average over clients.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a batch that does not fit.

    Example:
        >>> from hockeystick.learners.federated import TreePhase
        >>> phase = TreePhase(records=16, trees=2, batch=4, scales=(1.0, 2.0))
        >>> phase.used(), phase.leaves()  # losses that are read, and releases
        (14, 6)
        >>> [(vertex.tree, vertex.depth, vertex.records, vertex.leaves) for vertex in phase.vertices()]
        [(1, 0, 4, 2), (1, 1, 2, 1), (2, 0, 4, 4), (2, 2, 1, 1), (2, 1, 2, 2), (2, 2, 1, 1)]
    """

    records: int = field(converter=arguments.records)
    trees: int = field(converter=_trees)
    batch: int = field(converter=arguments.batch)
    scales: tuple[float, ...] = field(converter=_scales)

    def __attrs_post_init__(self) -> None:
        if self.batch % 2**self.trees:
            raise InvalidArgumentError(
                "batch", self.batch, f"is not a multiple of 2^{self.trees}", "halves must be whole"
            )
        if self.used() > self.records or (self.trees == 0 and self.batch != self.records):
            raise InvalidArgumentError(
                "batch",
                self.batch,
                f"needs {self.used()} losses, and the phase has {self.records}",
                "use a batch from feasible_batch, or fewer trees; for trees=0 the batch is all losses",
            )
        if len(self.scales) != max(1, self.trees):
            reason = f"does not have {max(1, self.trees)} entries"
            raise InvalidArgumentError("scales", self.scales, reason, "give one per tree, or one for trees=0")

    def scale(self, tree: int) -> float:
        """Returns the noise scale of tree j, or of the one release (tree 0).

        Raises:
            InvalidArgumentError: there is no such tree.
        """
        return self.scales[max(0, integer("tree", tree, low=0, high=max(1, self.trees)) - 1)]

    def leaves(self) -> int:
        """Returns the number of releases in the phase: 2^(T1 + 1) - 2, or 1."""
        return 1 if self.trees == 0 else 2 ** (self.trees + 1) - 2

    def used(self) -> int:
        """Returns the number of losses of each client that the phase reads."""
        return records_needed(self.trees, self.batch)

    def vertices(self) -> tuple[Vertex, ...]:
        """Returns the vertices that read losses, in the order of reading."""
        return _walk(self)[0]

    def schedule(self) -> tuple[Leaf, ...]:
        """Returns the leaves of the phase, in order."""
        return _walk(self)[1]


@lru_cache(maxsize=256)
def _walk(phase: TreePhase) -> tuple[tuple[Vertex, ...], tuple[Leaf, ...]]:
    vertices: list[Vertex] = []
    leaves: list[Leaf] = []
    steps: list[Step] = []

    def visit(tree: int, path: str) -> None:
        depth = len(path)
        reads = not path or path[-1] == "1"
        steps.append(Step(depth, path, len(vertices) if reads else None))
        if reads:
            vertices.append(
                Vertex(
                    tree=tree,
                    depth=depth,
                    records=phase.batch >> depth,
                    leaves=2 ** (tree - depth),
                    before=len(leaves),
                )
            )
        if depth == tree:
            leaves.append(Leaf(len(leaves) + 1, tree, tuple(steps)))
            steps.clear()
        else:
            visit(tree, path + "0")
            visit(tree, path + "1")

    for tree in range(1, phase.trees + 1) if phase.trees else (0,):
        visit(tree, "")
    return tuple(vertices), tuple(leaves)


def _phases(value: object) -> tuple[TreePhase | None, ...]:
    phases = items("phases", value)
    for phase in phases:
        if phase is not None and not isinstance(phase, TreePhase):
            raise InvalidArgumentError(
                "phases", phase, "is not a TreePhase", "give TreePhases, and None to hold a point"
            )
    return phases


def _smoothness(value: object) -> float | None:
    return None if value is None else real("smoothness", value, low=0.0)


def _noise(value: object) -> Noise:
    return one_of("noise", value, "laplace", "gumbel", "exponential", "gaussian")


def checked_where(value: object) -> Where:
    """Returns the parameter ``where``."""
    return one_of("where", value, "client", "server")


def _assignment(value: object) -> Assignment:
    return one_of("assignment", value, "secret", "contiguous")


@frozen(kw_only=True)
class StochSetting:
    """The parameters of the federated stochastic learner that determine its privacy.

    Args:
        clients: m >= 1.
        phases: Entry k is phase p = k + 2, which reads losses of rounds 2^(p-2), ..., 2^(p-1) - 1; None holds the point
            of the phase before.
        low, high: The range of a gradient's coordinates, low < high; clients clip to it.
        smoothness: beta >= 0: a record's correction in a right child is clipped to beta times the distance that the
            iterate moved. 0: the losses are linear, one vector each, and there are no corrections. None: only
            gradients are clipped, and the guarantee does not use smoothness.
        noise: The law of the noise: "laplace", "gaussian" (scales are standard deviations), "gumbel" or "exponential"
            (subtracted from a score; they hide the winner, but not a message).
        where: "client": each client adds noise to its messages. "server": the server adds noise to the sum.
        assignment: "secret": the client assigns its losses to vertices uniformly at random, in secret. "contiguous":
            losses are read in the order of rounds.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.federated import Sizes, StochSetting, certified_phases
        >>> phases = certified_phases(Sizes(clients=10, experts=4, epsilon=1.0), 31, trees=1)
        >>> setting = StochSetting(clients=10, phases=phases, noise="gumbel")
        >>> setting.span, [phase.batch for phase in setting.phases]
        (1.0, [1, 2, 2, 4])
    """

    clients: int = field(converter=arguments.clients)
    phases: tuple[TreePhase | None, ...] = field(converter=_phases)
    low: float = field(default=0.0, converter=arguments.low)
    high: float = field(default=1.0, converter=arguments.high)
    smoothness: float | None = field(default=0.0, converter=_smoothness)
    noise: Noise = field(default="laplace", converter=_noise)
    where: Where = field(default="client", converter=checked_where)
    assignment: Assignment = field(default="secret", converter=_assignment)

    def __attrs_post_init__(self) -> None:
        if not self.low < self.high or not self.high - self.low <= _WIDEST:
            reason = f"is not above low = {self.low} by at most {_WIDEST:g}"
            raise InvalidArgumentError("high", self.high, reason, "give low < high")
        for k, phase in enumerate(self.phases):
            if phase is not None and phase.records != 2**k:
                raise InvalidArgumentError(
                    f"phases[{k}].records", phase.records, f"is not 2^{k}", f"phase {k + 2} reads {2**k} rounds"
                )

    @property
    def span(self) -> float:
        """high - low: the most by which one record moves a coordinate of a gradient."""
        return self.high - self.low
