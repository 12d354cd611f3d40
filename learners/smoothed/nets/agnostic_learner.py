"""Private agnostic learning: the predicate of least error on a private synthetic law of labelled pairs.

Let q_h(x, y) = 1[h(x) != y]. If a synthetic law has |q_h(law) - q_h(data)| <= α for every h of the class, then the
predicate of least error on the law has at most 2α more error on the data than the best one of the class. Choosing it
is post-processing, so learning costs as much privacy as the law, and any private law of pairs will do: a net
(:class:`AgnosticLearner`), or the released law of multiplicative weights, by :func:`best_predicate`.

Labels may be noisy; no predicate has to be correct. For smooth data the law is over pairs, with half the smoothness of
the points, see ``net_bounds.labelled_smoothness``.

Source: Haghtalab, Roughgarden & Shetty 2020, section 2 (queries of errors); the learner is implied there.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array
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
    """Returns a predicate of least error on weighted pairs, among the whole class, and that error.

    The result may be published if the pairs may: on a released law it costs nothing, on data it is private.

    Args:
        concepts: The class.
        points: Shape (n, d), or (n,) on the line; n >= 1.
        labels: Shape (n,), bools or 0 and 1.
        weights: Shape (n,), >= 0 and not all 0; default: all 1. They are normalised.

    Returns:
        The parameters of the predicate, shape (p,), and the share of the weight on which it errs.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a class that cannot list its labellings of the points.

    Example:
        >>> from hockeystick.learners.smoothed import Thresholds, best_predicate
        >>> predicate, share = best_predicate(Thresholds(), [0.1, 0.2, 0.6, 0.8], [0, 1, 1, 1])
        >>> predicate.tolist(), share
        ([0.2], 0.0)
    """
    queries = ErrorQueries(concepts)
    pairs = queries.checked_points(labelled_points(points, labels))
    given = (
        np.ones(len(pairs)) if weights is None else array("weights", weights, shape=(len(pairs),), low=0.0, data=True)
    )
    if not given.sum() > 0.0:
        raise InvalidDataError("weights", weights, "has a sum of 0", "give at least one positive weight")
    values, where = np.unique(pairs, axis=0, return_inverse=True)
    errors, witnesses = queries.labelings(values)
    shares = errors @ np.bincount(where.ravel(), weights=given / given.sum(), minlength=len(values))
    best = int(np.argmin(shares))
    return witnesses[best], float(shares[best])


def error(
    concepts: ConceptClass, parameters: npt.ArrayLike, points: npt.ArrayLike, labels: npt.ArrayLike
) -> FloatArray:
    """Returns the shares of pairs on which predicates (K, p) err, shape (K,); private if the pairs are."""
    queries = ErrorQueries(concepts)
    return np.asarray(queries.predict(parameters, labelled_points(points, labels)).mean(axis=1))


@frozen(eq=False, kw_only=True)
class LearnedPredicate:
    """A released predicate. See :meth:`AgnosticLearner.release`.

    Attributes:
        parameters: The parameters of the predicate, shape (p,).
        net: The synthetic pairs that were released with it.
    """

    parameters: FloatArray
    net: NetRelease


def _net(value: object) -> SubsampledNet:
    if not isinstance(value, SubsampledNet) or not isinstance(value.concepts, ErrorQueries):
        raise InvalidArgumentError("net", value, "is not a SubsampledNet of ErrorQueries", "use AgnosticLearner.draw")
    return value


@frozen(eq=False, kw_only=True)
class AgnosticLearner:
    """A learner of a predicate from a private net of labelled pairs, (ε, 0)-DP.

    Neighbouring data sets differ in one pair (replace-one); the number of pairs is public.

    Args:
        net: The mechanism over pairs; its class is an ``ErrorQueries``.

    Raises:
        InvalidArgumentError: a mechanism of other queries.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import AgnosticLearner
        >>> from hockeystick.learners.smoothed import Thresholds, UniformGrid
        >>> coins = np.random.default_rng(0)
        >>> learner = AgnosticLearner.draw(
        ...     Thresholds(), UniformGrid(5), coins, sigma=1.0, accepted=4, size=8, epsilon=4.0, records=500)
        >>> points = coins.integers(0, 5, 500) / 4
        >>> learner.simulate(points, points >= 0.5, coins, 3).tolist(), learner.event()
        ([[0.5], [0.5], [0.5]], BoundedRange(width=4.0))
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
        """Returns the learner on a fresh sub-domain of pairs, for *points* that are σ-smooth.

        Args:
            concepts: The class of predicates on points.
            measure: The base measure of points.
            rng: Public coins.
            sigma: The smoothness of the points; the sub-domain is planned for half of it.
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
        """Returns the privacy event of one pair, which is that of the net."""
        return self.net.event()

    def graph(self) -> AccountantGraph:
        """Returns the plan: the net, and the predicate as post-processing of it."""
        return self.net.graph().post("predicate", reads=("net",))

    def simulate(self, points: npt.ArrayLike, labels: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the predicates of ``runs`` simulated nets, shape (runs, p). Not a release."""
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
        """Releases one net with secure noise, and its predicate; for the arguments see ``SubsampledNet.release``."""
        net = self.net.release(labelled_points(points, labels), ledger=ledger, name=name, reads=reads, noise=noise)
        return LearnedPredicate(parameters=self.learned(net.places[None])[0], net=net)

    def learned(self, places: IntArray) -> FloatArray:
        """Returns the predicates (runs, p) of least error on nets (runs, m); post-processing of released nets."""
        errors, witnesses = self.net.concepts.labelings(self.net.domain)
        top = len(self.net.domain) - 1
        places = array("places", places, ndim=2, low=0, high=top, dtype=np.int64)
        counts = np.zeros((len(places), top + 1))
        np.add.at(counts, (np.arange(len(places))[:, None], places), 1.0)
        return np.asarray(witnesses[np.argmin(counts @ errors.T, axis=1)])
