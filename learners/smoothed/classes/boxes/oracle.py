"""Covers of any class from a consistency oracle: one predicate for each labelling of a public sample by the class.

Draw z_1 .. z_m from the base measure and keep one predicate for each labelling. The sample is a net for all symmetric
differences, so two predicates that agree on it differ on little mass, and the kept ones are a γ-cover.

The labellings are found depth first. A node holds labels of z_1 .. z_j and a witness. The child with the witness's own
next label inherits the witness; the other child costs one call of the oracle, which may prune it. So each inner node
costs one call: the sum over j < m of the number of labellings of z_1 .. z_j, of order m^(d+1). The printed m^d is the
number of leaves.

The sample is public randomness: its generator is neither seeded by the data nor shared with a private draw.

Sources: Haghtalab, Roughgarden & Shetty 2020, Appendix C.1 (corrected: calls, and a sample of order (d/γ) *
ln(1/γ)); Haussler & Welzl 1987 and Blumer, Ehrenfeucht, Haussler & Warmuth 1989 for nets; Anthony & Shawe-Taylor
1993 for relative deviations; Haussler 1995 for separated sets.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.validate import boolean, integer, probability
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, Cover, checked_class, checked_scale
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure

_MOST_CALLS = 100_000  # of 60 to 160 microseconds each for classes whose oracle is a closed form
_LARGEST_SAMPLE = 2**62


@frozen(eq=False, kw_only=True)
class OracleTree:
    """The tree of labellings of points z_1 .. z_m; see :func:`oracle_tree`.

    Attributes:
        labels: The leaves, all labellings of the points, shape (L, m).
        witnesses: A predicate for each leaf, shape (L, p).
        nodes: The number of labellings of the first j points, for j = 0 .. m.
    """

    labels: BoolArray
    witnesses: FloatArray
    nodes: tuple[int, ...]

    @property
    def calls(self) -> int:
        """The number of calls of the oracle, one for each inner node."""
        return sum(self.nodes[:-1])


@frozen(eq=False, kw_only=True)
class OracleCover:
    """A γ-cover and the tree that it was read from; see :func:`oracle_cover`.

    Attributes:
        cover: The cover. Its reference points are the public sample; the nearest predicate disagrees least on it.
        tree: The tree of labellings of the sample.
    """

    cover: Cover
    tree: OracleTree


def oracle_cover(
    concepts: ConceptClass,
    gamma: float,
    measure: BaseMeasure,
    rng: np.random.Generator,
    *,
    failure_probability: float = 1e-6,
    samples: int | None = None,
    thin: bool = False,
    most_calls: int = _MOST_CALLS,
) -> OracleCover:
    """Returns a γ-cover from the oracle ``concepts.consistent``, except with a small probability.

    Args:
        concepts: The class.
        gamma: In (0, 1].
        measure: The base measure.
        rng: Public randomness, used for the sample alone.
        failure_probability: In (0, 1); add it, times the largest loss, to any bound that rests on the cover.
        samples: m >= 1. The cover then states the failure probability that its theorem gives for m, which may be 1: no
            guarantee. Default: the least m that meets ``failure_probability``.
        thin: Keep a maximal subset of pairwise empirical distance > γ/2, whose size obeys Haussler's bound at γ/2. m
            is then about six times larger.
        most_calls: The largest number of calls of the oracle. The default takes about 10 seconds for intervals, and
            five minutes for halfspaces, whose oracle solves a linear programme.

    Raises:
        InvalidArgumentError: an argument outside its domain, or more than ``most_calls`` calls.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.smoothed import Thresholds, UniformCube, oracle_cover
        >>> found = oracle_cover(Thresholds(), 0.2, UniformCube(1), np.random.default_rng(0), samples=50)
        >>> found.cover.size, found.tree.calls, round(found.cover.failure_probability, 5)
        (51, 1275, 0.00073)
    """
    gamma, measure = checked_scale("gamma", gamma), checked_class(concepts).checked_measure(measure)
    most_calls, thin = integer("most_calls", most_calls, low=1), boolean("thin", thin)
    if samples is None:
        count = sample_size(concepts, gamma, failure_probability=failure_probability, thin=thin)
    else:
        count = integer("samples", samples, low=1)
    if count >= most_calls:  # a tree has at least one call for each point
        raise _too_many(most_calls)
    points = measure.sample(rng, count)
    tree = oracle_tree(concepts, points, most_calls=most_calls)
    selected = separated(tree.labels, gamma / 2.0) if thin else np.arange(len(tree.labels))
    cover = Cover(
        concepts=concepts,
        parameters=tree.witnesses[selected],
        measure=measure,
        gamma=gamma,
        reference=points,
        failure_probability=failure_bound(concepts, gamma, count, thin=thin),
    )
    return OracleCover(cover=cover, tree=tree)


def oracle_tree(concepts: ConceptClass, points: npt.ArrayLike, *, most_calls: int = _MOST_CALLS) -> OracleTree:
    """Returns all labellings of points (m, d) by a class, found depth first by its consistency oracle.

    Raises:
        InvalidArgumentError: invalid points, too many calls, or an oracle that returns a predicate of other labels.

    Example:
        >>> from hockeystick.learners.smoothed import Thresholds, oracle_tree
        >>> tree = oracle_tree(Thresholds(), [[0.2], [0.7]])
        >>> tree.nodes, tree.labels.tolist()
        ((1, 2, 3), [[False, False], [False, True], [True, True]])
    """
    spots, most_calls = checked_class(concepts).checked_points(points), integer("most_calls", most_calls, low=1)
    m, calls = len(spots), 0

    def consult(wanted: BoolArray) -> tuple[FloatArray, BoolArray] | None:
        found = concepts.consistent(spots[: len(wanted)], wanted)
        if found is None:
            return None
        labels = concepts.predict(found[None], spots)[0]
        if not np.array_equal(labels[: len(wanted)], wanted):
            raise InvalidArgumentError(
                "concepts", concepts, "has an oracle that returns a predicate of other labels", "mend consistent"
            )
        return found, labels

    nodes = [0] * (m + 1)
    leaves: list[tuple[FloatArray, BoolArray]] = []
    root = consult(np.zeros(0, dtype=bool))
    waiting = [] if root is None else [(0, *root)]
    while waiting:  # a witness that is first met at some depth is the witness of one node of each depth below
        depth, witness, labels = waiting.pop()
        leaves.append((witness, labels))
        for j in range(depth, m):
            nodes[j] += 1
            calls += 1
            if calls > most_calls:
                raise _too_many(most_calls)
            wanted = labels[: j + 1].copy()
            wanted[j] = not wanted[j]
            if (found := consult(wanted)) is not None:
                waiting.append((j + 1, *found))
    nodes[m] = len(leaves)
    return OracleTree(
        labels=np.array([labels for _, labels in leaves], dtype=bool).reshape(len(leaves), m),
        witnesses=np.array([witness for witness, _ in leaves]).reshape(len(leaves), concepts.parameter_count),
        nodes=tuple(nodes),
    )


def separated(labels: npt.ArrayLike, distance: float) -> IntArray:
    """Returns the indices of a maximal subset of labellings (L, m) that pairwise differ on a share > ``distance``.

    Greedy, in the given order.
    """
    table = np.asarray(labels, dtype=bool)
    left, selected = np.arange(len(table)), []
    while len(left):
        selected.append(left[0])
        left = left[(table[left] != table[left[0]]).sum(axis=1) > distance * table.shape[1]]
    return np.array(selected, dtype=np.int64)


def sample_size(concepts: ConceptClass, gamma: float, *, failure_probability: float = 1e-6, thin: bool = False) -> int:
    """Returns the least m >= 8/γ for which ``failure_bound`` is proved to be at most ``failure_probability``."""
    gamma = checked_scale("gamma", gamma)
    goal = math.log(probability("failure_probability", failure_probability, open=True))
    bound, top = _log_failure(concepts, gamma, thin)
    if top > _LARGEST_SAMPLE:
        raise InvalidArgumentError("gamma", gamma, "needs a sample of more than 2^62 points", "use a larger gamma")
    low = math.ceil(top)  # the bounds rise up to there, where they exceed 1, and fall from there
    high = max(1, low)
    while bound(high) > goal:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) <= goal else (middle, high)
    return high


def failure_bound(concepts: ConceptClass, gamma: float, samples: int, *, thin: bool = False) -> float:
    """Returns a bound on the probability that the oracle's predicates on m public points are not a γ-cover, at most 1.

    For thresholds (m + 1) * (1 - γ)^m, as one of the gaps between points would need mass > γ. In general
    2 * Π(2m)^2 * 2^(-γm/2) for m >= 8/γ, and 4 * Π(2m)^2 * e^(-γm/16) for a thinned cover, where the class has at most
    Π(k) <= (ek/d)^d labellings of k points.
    """
    gamma, m = checked_scale("gamma", gamma), integer("samples", samples, low=1)
    bound, top = _log_failure(concepts, gamma, thin)
    return min(1.0, math.exp(min(0.0, bound(m)))) if m >= top else 1.0


def enumerated_max_gap(
    concepts: ConceptClass, points: FloatArray, difference: FloatArray, *, most_points: int
) -> float:
    """Returns the largest absolute sum of ``difference`` (n,) over a class, by all labellings of points (n, d).

    Raises:
        InvalidArgumentError: more than ``most_points`` distinct points have a sum other than 0.
    """
    spots, where = np.unique(points + 0.0, axis=0, return_inverse=True)
    weight = np.bincount(where.reshape(-1), weights=difference, minlength=len(spots)).astype(float)
    spots, weight = spots[weight != 0.0], weight[weight != 0.0]
    if len(spots) > most_points:
        raise InvalidArgumentError(
            "points", len(spots), "are too many to list their labellings", f"give at most {most_points} distinct points"
        )
    if not len(spots):
        return 0.0
    labels, _ = concepts.labelings(spots)
    return float(np.abs(labels @ weight).max())


def _log_failure(concepts: ConceptClass, gamma: float, thin: bool) -> tuple[Callable[[int], float], float]:
    """Returns ln of the bound as a function of m, and the m from which on the bound holds and decreases."""
    if isinstance(concepts, Thresholds) and not thin:
        rate = -math.log1p(-gamma) if gamma < 1.0 else math.inf
        return lambda m: math.log(m + 1.0) - m * rate, 1.0 / rate
    d = concepts.vc_dimension
    factor, rate = (math.log(4.0), gamma / 16.0) if thin else (math.log(2.0), gamma * math.log(2.0) / 2.0)
    return (
        lambda m: factor + 2.0 * d * math.log(2.0 * math.e * m / d) - rate * m,
        max(8.0 / gamma, 2.0 * d / rate),
    )


def _too_many(most_calls: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        "most_calls",
        most_calls,
        "is less than the number of calls that the tree needs",
        "use fewer samples, a larger gamma, or a larger most_calls",
    )
