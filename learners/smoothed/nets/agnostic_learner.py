"""Private agnostic learning: the predicate of least error on a private synthetic law of labelled pairs.

Let q_h(x, y) = 1[h(x) != y]. If a synthetic law has |q_h(law) - q_h(data)| <= alpha for every h of the class, then the
predicate of least error on the law has at most 2 alpha more error on the data than the best one of the class. That is
post-processing, so the learner costs what the law costs, and any private law of pairs will do: a net
(:class:`AgnosticLearner`), or the released law of multiplicative weights, through :func:`best_predicate`.

No realisable case is assumed: labels may be noisy. For smooth data the law is over pairs, with half of the points'
smoothness, see ``net_bounds.labelled_smoothness``.

Source: Haghtalab, Roughgarden & Shetty 2020, section 2 (queries of errors); the learner is implied there.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, real
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass
from hockeystick.learners.smoothed.classes.error_queries import ErrorQueries, LabelledMeasure, labelled_points
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure
from hockeystick.learners.smoothed.nets.net_bounds import labelled_smoothness
from hockeystick.learners.smoothed.nets.subsampled_net import NetRelease, SubsampledNet
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger


def best_predicate(
    concepts: ConceptClass, points: npt.ArrayLike, labels: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> tuple[FloatArray, float]:
    """A predicate of the whole class of least error on weighted pairs, and that error.

    As private as what it is given: free on a released law, private on data.

    Args:
        concepts: The class.
        points: Shape (n, d), or (n,) on the line; n >= 1.
        labels: Shape (n,), bools or 0 and 1.
        weights: Shape (n,), >= 0 and not all 0; 1 for each by default. They are normalised.

    Returns:
        Its parameters, shape (p,), and its share of the weight on which it errs.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a class that cannot list its labelings of the points.
    """
    queries = ErrorQueries(concepts)
    pairs = queries.checked_points(labelled_points(points, labels))
    given = (
        np.ones(len(pairs)) if weights is None else array("weights", weights, shape=(len(pairs),), low=0.0, data=True)
    )
    if not given.sum() > 0.0:
        raise InvalidDataError("weights", weights, "has no weight at all", "give at least one pair of weight")
    values, where = np.unique(pairs, axis=0, return_inverse=True)
    errors, witnesses = queries.labelings(values)
    shares = errors @ np.bincount(where.ravel(), weights=given / given.sum(), minlength=len(values))
    best = int(np.argmin(shares))
    return witnesses[best], float(shares[best])


def error(
    concepts: ConceptClass, parameters: npt.ArrayLike, points: npt.ArrayLike, labels: npt.ArrayLike
) -> FloatArray:
    """The shares of pairs on which predicates (K, p) err: shape (K,). Private on data."""
    queries = ErrorQueries(concepts)
    return np.asarray(queries.predict(parameters, labelled_points(points, labels)).mean(axis=1))


def excess_bound(alpha: float) -> float:
    """2 alpha: how much more error than the best a learner has, if the law is right to alpha on all error queries."""
    return 2.0 * real("alpha", alpha, low=0.0)


@frozen(eq=False, kw_only=True)
class LearnedPredicate:
    """A released predicate.

    Attributes:
        parameters: Of the predicate, shape (p,).
        net: The synthetic pairs that were released with it.
    """

    parameters: FloatArray
    net: NetRelease


def _net(value: object) -> SubsampledNet:
    if not isinstance(value, SubsampledNet) or not isinstance(value.concepts, ErrorQueries):
        raise InvalidArgumentError("net", value, "is no SubsampledNet of ErrorQueries", "use AgnosticLearner.draw")
    return value


@frozen(eq=False, kw_only=True)
class AgnosticLearner:
    """Learns a predicate from a private net of labelled pairs, (epsilon, 0)-DP.

    Neighbouring data sets differ in one pair (replace-one); their number is public.

    Args:
        net: The mechanism over pairs, its class an ``ErrorQueries``.

    Raises:
        InvalidArgumentError: a mechanism of other queries.
    """

    net: SubsampledNet = field(converter=_net)

    @classmethod
    def draw(
        cls,
        concepts: ConceptClass,
        measure: BaseMeasure,
        rng: np.random.Generator,
        *,
        sigma: float,
        accepted: int,
        size: int,
        epsilon: float,
        records: int,
    ) -> "AgnosticLearner":
        """The learner on a fresh sub-domain of pairs, for *points* that are sigma-smooth.

        Args:
            concepts: The class of predicates on points.
            measure: The base measure of points.
            rng: Public coins.
            sigma: Smoothness of the points; pairs are planned for half of it.
            accepted, size, epsilon, records: See ``SubsampledNet.draw``.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        return cls(
            net=SubsampledNet.draw(
                ErrorQueries(concepts),
                LabelledMeasure(measure),
                rng,
                sigma=labelled_smoothness(sigma),
                accepted=accepted,
                size=size,
                epsilon=epsilon,
                records=records,
            )
        )

    def event(self) -> PrivacyEvent:
        """What one pair costs: that of the net."""
        return self.net.event()

    def graph(self) -> AccountantGraph:
        """The plan: the net, and the predicate behind it."""
        return self.net.graph().post("predicate", reads=("net",))

    def simulate(self, points: npt.ArrayLike, labels: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """The predicates of ``runs`` nets, shape (runs, p). No release."""
        return self.learned(self.net.simulate(labelled_points(points, labels), rng, runs))

    def release(
        self,
        points: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> LearnedPredicate:
        """One net with secure noise, and its predicate; arguments as for ``SubsampledNet.release``."""
        net = self.net.release(labelled_points(points, labels), ledger=ledger, name=name, reads=reads, noise=noise)
        return LearnedPredicate(parameters=self.learned(net.places[None])[0], net=net)

    def learned(self, places: IntArray) -> FloatArray:
        """The predicates of least error on nets of places, shape (runs, m): shape (runs, p). Free on released nets."""
        errors, witnesses = self.net.concepts.labelings(self.net.domain)
        counts = np.zeros((len(places), len(self.net.domain)))
        np.add.at(counts, (np.arange(len(places))[:, None], places), 1.0)
        return np.asarray(witnesses[np.argmin(counts @ errors.T, axis=1)])
