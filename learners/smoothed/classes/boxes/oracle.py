"""Covers of any class from a consistency oracle: one predicate for each way in which the class labels a public sample.

Draw z_1 .. z_m from the base measure and keep one predicate for each labeling. Two predicates that agree on the whole
sample differ on little mass, for the sample is a net for all symmetric differences, so that these are a gamma-cover.

The labelings are found depth first. A node holds labels of z_1 .. z_j and a witness; the child with the witness' own
next label inherits it, and the other child costs one call of the oracle, which may prune it. That makes one call for
each inner node: the sum over j < m of the number of ways to label z_1 .. z_j, of order m^(d+1), and not the m^d that is
printed, which is the number of leaves.

The sample is public randomness: its generator is neither seeded by the data nor shared with a private draw.

Sources: Haghtalab, Roughgarden & Shetty 2020, Appendix C.1 (corrected: calls, and a sample of order (d/gamma) *
ln(1/gamma)); Haussler & Welzl 1987 and Blumer, Ehrenfeucht, Haussler & Warmuth 1989 for nets; Anthony & Shawe-Taylor
1993 for relative deviations; Haussler 1995 for separated sets.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.validate import integer, probability
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, Cover, checked_scale
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure

_MOST_CALLS = 1_000_000
_LARGEST_SAMPLE = 2**62


@frozen(eq=False, kw_only=True)
class OracleTree:
    """The tree of labelings of points z_1 .. z_m.

    Args:
        labels: The leaves, all labelings of the points, shape (L, m).
        witnesses: A predicate for each, shape (L, p).
        nodes: How many ways there are to label the first j points, for j = 0 .. m.
    """

    labels: BoolArray
    witnesses: FloatArray
    nodes: tuple[int, ...]

    @property
    def calls(self) -> int:
        """How often the oracle was asked: once for each inner node."""
        return sum(self.nodes[:-1])


@frozen(eq=False, kw_only=True)
class OracleCover:
    """A gamma-cover, and the tree that it was read from.

    Args:
        cover: Its reference points are the public sample; nearest means least disagreement on it.
        tree: The tree of labelings of the sample.
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
    """A gamma-cover from the oracle ``concepts.consistent``; it fails to be one with at most a small probability.

    Args:
        concepts: The class.
        gamma: In (0, 1].
        measure: The base measure.
        rng: Public randomness, of the sample alone.
        failure_probability: In (0, 1); add it, times the largest loss, to whatever is proved with the cover.
        samples: m >= 1, for a smaller tree or a surer cover; the cover then states the failure probability that its
            theorem gives for m, which may be 1: no promise. None for the least m that keeps to ``failure_probability``.
        thin: Keep a maximal subset of pairwise empirical distance > gamma/2, whose size obeys Haussler's bound at
            gamma/2. It needs some six times larger m.
        most_calls: Refuse a tree that needs more calls of the oracle.

    Raises:
        InvalidArgumentError: an argument outside its domain, or too many calls.
    """
    if not isinstance(concepts, ConceptClass):
        raise InvalidArgumentError("concepts", concepts, "is not a concept class")
    gamma, measure = checked_scale("gamma", gamma), concepts.checked_measure(measure)
    if samples is None:
        count = sample_size(concepts, gamma, failure_probability=failure_probability, thin=thin)
    else:
        count = integer("samples", samples, low=1)
    if count >= most_calls:  # a tree has at least one call for each point
        raise _too_many(most_calls)
    points = measure.sample(rng, count)
    tree = oracle_tree(concepts, points, most_calls=most_calls)
    kept = separated(tree.labels, gamma / 2.0) if thin else np.arange(len(tree.labels))
    cover = Cover(
        concepts=concepts,
        parameters=tree.witnesses[kept],
        measure=measure,
        gamma=gamma,
        reference=points,
        failure_probability=failure_bound(concepts, gamma, count, thin=thin),
    )
    return OracleCover(cover=cover, tree=tree)


def oracle_tree(concepts: ConceptClass, points: npt.ArrayLike, *, most_calls: int = _MOST_CALLS) -> OracleTree:
    """All labelings of points (m, d) by a class, found depth first by its consistency oracle.

    Raises:
        InvalidArgumentError: bad points, too many calls, or an oracle whose answer has other labels than asked for.
    """
    spots, most_calls = concepts.checked_points(points), integer("most_calls", most_calls, low=1)
    m, calls = len(spots), 0

    def ask(wanted: BoolArray) -> tuple[FloatArray, BoolArray] | None:
        found = concepts.consistent(spots[: len(wanted)], wanted)
        if found is None:
            return None
        labels = concepts.predict(found[None], spots)[0]
        if not np.array_equal(labels[: len(wanted)], wanted):
            raise InvalidArgumentError("concepts", concepts, "answers with a predicate of other labels")
        return found, labels

    nodes = [0] * (m + 1)
    leaves: list[tuple[FloatArray, BoolArray]] = []
    root = ask(np.zeros(0, dtype=bool))
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
            if (found := ask(wanted)) is not None:
                waiting.append((j + 1, *found))
    nodes[m] = len(leaves)
    return OracleTree(
        labels=np.array([labels for _, labels in leaves], dtype=bool).reshape(len(leaves), m),
        witnesses=np.array([witness for witness, _ in leaves]).reshape(len(leaves), concepts.parameter_count),
        nodes=tuple(nodes),
    )


def separated(labels: npt.ArrayLike, distance: float) -> IntArray:
    """Indices of a maximal subset of labelings (L, m) of which any two differ on a share > ``distance`` of the points.

    Greedy, in the given order.
    """
    table = np.asarray(labels, dtype=bool)
    left, kept = np.arange(len(table)), []
    while len(left):
        kept.append(left[0])
        left = left[(table[left] != table[left[0]]).sum(axis=1) > distance * table.shape[1]]
    return np.array(kept, dtype=np.int64)


def sample_size(concepts: ConceptClass, gamma: float, *, failure_probability: float = 1e-6, thin: bool = False) -> int:
    """The least m >= 8/gamma for which ``failure_bound`` is proved to be at most ``failure_probability``, in (0, 1)."""
    gamma = checked_scale("gamma", gamma)
    goal = math.log(probability("failure_probability", failure_probability, open=True))
    bound, top = _log_failure(concepts, gamma, thin)
    if top > _LARGEST_SAMPLE:
        raise InvalidArgumentError("gamma", gamma, "needs a sample beyond counting", "take a larger one")
    low = math.ceil(top)  # the bounds rise up to there, where they exceed 1, and fall from there
    high = max(1, low)
    while bound(high) > goal:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) <= goal else (middle, high)
    return high


def failure_bound(concepts: ConceptClass, gamma: float, samples: int, *, thin: bool = False) -> float:
    """A bound on the probability that the oracle's predicates on m public points are no gamma-cover, at most 1.

    For thresholds (m + 1) * (1 - gamma)^m, as one of the gaps between points would need mass > gamma. In general
    2 * Pi(2m)^2 * 2^(-gamma*m/2) for m >= 8/gamma, and 4 * Pi(2m)^2 * e^(-gamma*m/16) for a thinned cover, where the
    class labels k points in at most Pi(k) <= (e*k/d)^d ways.
    """
    gamma, m = checked_scale("gamma", gamma), integer("samples", samples, low=1)
    bound, top = _log_failure(concepts, gamma, thin)
    return min(1.0, math.exp(min(0.0, bound(m)))) if m >= top else 1.0


def enumerated_max_gap(
    concepts: ConceptClass, points: FloatArray, difference: FloatArray, *, most_points: int
) -> float:
    """The largest absolute sum of ``difference`` (n,) over a class of predicates, by all labelings of points (n, d).

    Raises:
        InvalidArgumentError: more than ``most_points`` distinct points of a sum other than 0.
    """
    spots, where = np.unique(points + 0.0, axis=0, return_inverse=True)
    weight = np.bincount(where.reshape(-1), weights=difference, minlength=len(spots)).astype(float)
    spots, weight = spots[weight != 0.0], weight[weight != 0.0]
    if len(spots) > most_points:
        raise InvalidArgumentError(
            "points", len(spots), "are too many to list their labelings", f"give at most {most_points} distinct points"
        )
    if not len(spots):
        return 0.0
    labels, _ = concepts.labelings(spots)
    return float(np.abs(labels @ weight).max())


def _log_failure(concepts: ConceptClass, gamma: float, thin: bool) -> tuple[Callable[[int], float], float]:
    """ln of a bound as a function of m, and the m from where on it holds and falls."""
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
        "is less than what the tree needs",
        "take fewer samples, a larger gamma, or allow more",
    )
