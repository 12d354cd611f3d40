"""A private classifier for scikit-learn's pipelines: a predicate that separates two classes.

See ``estimators.base`` for the conventions of all estimators.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, items
from hockeystick.estimators.base import PrivateEstimator, column, first_absent, is_absent, sklearn_base
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass
from hockeystick.learners.smoothed.classes.error_queries import ErrorQueries, labelled_points
from hockeystick.learners.smoothed.nets.agnostic_learner import AgnosticLearner
from hockeystick.learners.smoothed.nets.net_scores import multiset_count
from hockeystick.learners.smoothed.nets.subsampled_net import small_db
from hockeystick.mechanisms import ExponentialMechanism
from hockeystick.mechanisms.randomness.noise import Noise

_MOST_NETS = 200_000  # the largest number of candidates for a chosen size of nets
_CLASSES: dict[str, Any] = {"thresholds": Thresholds, "intervals": Intervals, "rectangles": Rectangles}


class PrivateClassifier(sklearn_base.ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """An ε-DP classifier of two classes by a predicate, without assumptions on the labels (agnostic).

    Neighbouring data sets differ in one labelled record (replace-one). Each record is clipped to the bounds and rounded
    to a public grid. The method "choice" selects a predicate by the exponential mechanism, with probabilities
    proportional to e^(−ε·errors/2), among all that differ on the grid (Kasiviswanathan, Lee, Nissim, Raskhodnikova &
    Smith 2011). The method "net" selects the best predicate on a private net of labelled points (``AgnosticLearner``);
    the net is released too and approximates the errors of all predicates, coarsely because it has few points.

    Args:
        method: "choice" or "net".
        concepts: "thresholds" or "intervals" of one feature, "rectangles" of one or two, or a ``ConceptClass``.
        low, high: Public bounds, for all features or for each.
        points: Points of the public grid per feature; None for 65 with one feature, 9 with two, 5 with more.
        size: The size of a net; None for the largest with at most 200,000 candidates.
        epsilon: ε, at δ = 0.
        classes: The two labels, which are public; the predicate holds for the second.
        random_state: None for a release; a seed or a generator for a simulation.

    Attributes:
        classes_: The two labels.
        parameters_: The predicate's parameters on rounded records, shape (p,); in units of the features for named
            classes, otherwise on [0, 1]^d.
        concepts_: The class of predicates.
        net_: The released net of labelled points, in units of the features, shape (m, d + 1); None with "choice".
        guarantee_, simulated_, n_features_in_, feature_names_in_: See ``estimators.base``.

    Example:
        >>> import numpy as np
        >>> ages = np.arange(100.0)[:, None]
        >>> model = PrivateClassifier(low=0.0, high=100.0, epsilon=2.0, random_state=1).fit(ages, ages[:, 0] >= 40)
        >>> model.predict([[10.0], [90.0]]).tolist(), model.guarantee_.epsilon(0.0).upper
        ([0, 1], 2.0)
    """

    def __init__(
        self,
        *,
        method: str = "choice",
        concepts: str | ConceptClass = "thresholds",
        low: Any = 0.0,
        high: Any = 1.0,
        points: int | None = None,
        size: int | None = None,
        epsilon: float = 1.0,
        classes: Any = (0, 1),
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.concepts = concepts
        self.low = low
        self.high = high
        self.points = points
        self.size = size
        self.epsilon = epsilon
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> PrivateClassifier:
        """Learns a predicate from records (n, d) with labels (n,); n is public.

        Raises:
            InvalidArgumentError: A parameter is outside its domain, or the records are invalid.
        """
        noise, _ = self._randomness()
        known = self._known_classes()
        rows = self._rows(X, reset=True)
        low, high = self._bounds(rows.shape[1])
        concepts, steps = self._concepts(rows.shape[1]), self._steps(rows.shape[1])
        if self.method not in ("choice", "net"):
            raise InvalidArgumentError("method", self.method, "is unknown", 'use "choice" or "net"')
        spots = self._rounded(rows, low, high)
        pairs = labelled_points(spots, self._labels(y, known, len(rows)))
        grid = np.array(list(itertools.product(*[np.arange(steps + 1) / steps] * rows.shape[1], (0.0, 1.0))))
        net = None
        if self.method == "choice":
            unit, graph = _chosen(ErrorQueries(concepts), grid, pairs, self.epsilon, noise)
        else:
            size = _largest_net(len(grid)) if self.size is None else integer("size", self.size, low=1)
            made = small_db(ErrorQueries(concepts), grid, size=size, epsilon=self.epsilon, records=len(rows))
            learner = AgnosticLearner(net=made)
            found = learner.release(spots, pairs[:, -1], noise=noise)
            unit, graph = found.parameters, learner.graph()
            net = np.column_stack((low + found.net.points[:, :-1] * (high - low), found.net.points[:, -1:]))
        self.concepts_, self.classes_, self.net_ = concepts, known, net
        self._unit, self.parameters_ = unit, _in_units(concepts, unit, low, high)
        self.guarantee_, self.simulated_ = graph.guarantee(), noise.simulated
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Returns the class of each record, shape (n,)."""
        self._check_fitted()
        rows = self._rows(X, reset=False)
        spots = self._rounded(rows, *self._bounds(rows.shape[1]))
        inside = self.concepts_.predict(self._unit[None], spots)[0]
        return np.asarray(self.classes_[inside.astype(int)])

    def _known_classes(self) -> npt.NDArray[Any]:
        found = items("classes", self.classes)
        if len(found) != 2 or any(map(is_absent, found)) or found[0] == found[1]:
            raise InvalidArgumentError("classes", self.classes, "are not two different labels", "they are public")
        return np.array(found)

    def _bounds(self, d: int) -> tuple[FloatArray, FloatArray]:
        ends = []
        for name, given in (("low", self.low), ("high", self.high)):
            found = array(name, given)
            if found.shape not in ((), (d,)):
                raise InvalidArgumentError(name, given, "is not one bound or one per feature", f"give one, or {d}")
            ends.append(np.broadcast_to(found, (d,)).astype(float))
        low, high = ends
        if not (low < high).all():
            raise InvalidArgumentError("high", self.high, "is not above low", "give public bounds of each feature")
        return low, high

    def _steps(self, d: int) -> int:
        if self.points is None:
            return {1: 64, 2: 8}.get(d, 4)  # powers of 2: halfspaces need exact points
        return integer("points", self.points, low=2, high=1 << 12) - 1

    def _rounded(self, rows: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Returns each record's point of the grid in [0, 1]^d."""
        steps = self._steps(rows.shape[1])
        return np.asarray(np.rint((np.clip(rows, low, high) - low) / (high - low) * steps) / steps)

    def _concepts(self, d: int) -> ConceptClass:
        if isinstance(self.concepts, ConceptClass):
            found = self.concepts
        elif isinstance(self.concepts, str) and self.concepts in _CLASSES:
            kind = _CLASSES[self.concepts]
            found = kind(d) if kind is Rectangles else kind()
        else:
            known = ", ".join(_CLASSES)
            raise InvalidArgumentError(
                "concepts", self.concepts, "is not a class of predicates", f"use {known}, or a ConceptClass"
            )
        if found.dimension != d:
            reason = f"is a class on {found.dimension} features, but there are {d}"
            raise InvalidArgumentError("concepts", self.concepts, reason, "choose features, or another class")
        return found

    def _labels(self, y: Any, known: npt.NDArray[Any], n: int) -> npt.NDArray[np.bool_]:
        given = column("y", y)
        if (nothing := first_absent(given)) is not None:
            reason = f"has no label in record {nothing + 1}"
            raise InvalidDataError("y", y, reason, "leave such records out")
        second = given == known[1]
        if len(given) != n or not (second | (given == known[0])).all():
            reason = f"is not one of the classes {known.tolist()} for each record"
            raise InvalidDataError("y", y, reason, "give classes=, which is public")
        return np.asarray(second)


def _chosen(
    queries: ErrorQueries, grid: FloatArray, pairs: FloatArray, epsilon: float, noise: Noise
) -> tuple[FloatArray, AccountantGraph]:
    """Returns a predicate by the exponential mechanism, and its graph; a replaced record moves a count by at most 1."""
    errors, witnesses = queries.labelings(grid)
    places = {tuple(pair): i for i, pair in enumerate(grid.tolist())}
    counts = np.bincount([places[tuple(pair)] for pair in pairs.tolist()], minlength=len(grid))
    mechanism = ExponentialMechanism.calibrated(epsilon=epsilon)
    chosen = int(mechanism.release(-(errors @ counts), noise=noise))
    plan = AccountantGraph(
        adjacency=Adjacency.REPLACE_ONE, pinned=True, assumptions=("the number of records and the grid are public",)
    )
    plan = plan.source("records").release("predicate", mechanism.event(), reads=("records",))
    return np.asarray(witnesses[chosen]), plan


def _largest_net(points: int) -> int:
    size = 1
    while size < 64 and multiset_count(points, size + 1) <= _MOST_NETS:
        size += 1
    return size


def _in_units(concepts: ConceptClass, parameters: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    if not isinstance(concepts, tuple(_CLASSES.values())):
        return parameters
    place = np.arange(len(parameters)) % len(low)
    return np.asarray(low[place] + parameters * (high - low)[place])
