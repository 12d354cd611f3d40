"""Subsampled Net: a private synthetic data set of m points from a public random sub-domain, accurate for a whole class.

The exponential mechanism chooses among all multisets of m points of a public sub-domain V, by the largest gap over the
class between the multiset and the data. V limits the number of candidates for any domain. If the data are near a
σ-smooth law, a sample of M = O(1/σ) points of the base measure is a good V (``net_bounds``). With V the whole domain
the mechanism is SmallDB. The released points answer every query of the class, and all post-processing of them is free.

* *Privacy rests on no smoothness.* The mechanism is one draw of bounded range for all V and data, as long as V, m, ε
  and n are public. Neighbours differ in one record's value; n is public.
* *Exact draws.* By counting for thresholds on the line, at any size (``threshold_net``); by enumeration for any class
  with at most a million candidates. A Markov chain has only approximately the right law: it is opt-in, its event is
  ``NonPrivate``, and it makes no releases.
* *The range w of the queries* divides the score. The printed weight is right for w = 1. For queries in {-1, 1} it costs
  twice the claimed ε, and the event of ``printed`` says so.

Sources: Haghtalab, Roughgarden & Shetty 2020, Algorithm 4 and Theorem G.1, corrected; Blum, Ligett & Roth 2008
(SmallDB); McSherry & Talwar 2007; Durfee & Rogers 2019 (bounded range).
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy.special import logsumexp

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    BoundedRange,
    InvalidArgumentError,
    InvalidDataError,
    NonPrivate,
    PrivacyEvent,
)
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, boolean, integer, real
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, checked_class
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure
from hockeystick.learners.smoothed.nets.net_bounds import domain_size
from hockeystick.learners.smoothed.nets.net_scores import NetScores, multiset_count, multisets
from hockeystick.learners.smoothed.nets.threshold_net import ThresholdNet
from hockeystick.mechanisms.contract.arguments import generator, quotient_up, run_count
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged
from hockeystick.mechanisms.selection.common import ExactScores, softmax_draw


@frozen(eq=False, kw_only=True)
class NetRelease:
    """A released net. See :meth:`SubsampledNet.release`.

    Attributes:
        places: The indices of its points in the sub-domain, sorted, shape (m,).
        points: The points, shape (m, d).
        simulated: Whether the noise was simulated, so that this is not a release.
    """

    places: IntArray
    points: FloatArray
    simulated: bool


def _domain(value: object) -> FloatArray:
    points: FloatArray = array("domain", value).astype(float)
    points = points[:, None] if points.ndim == 1 else array("domain", points, ndim=2)
    if not points.size:
        raise InvalidArgumentError("domain", value, "is empty", "give at least one point")
    points = np.unique(points, axis=0)
    points.flags.writeable = False
    return points


def _epsilon(value: object) -> float:
    return real("epsilon", value, low=1e-90, high=1e3)


def _width(value: object) -> int:
    return integer("width", value, low=1, high=2)


def _printed(value: object) -> bool:
    return boolean("printed", value)


def _steps(value: object) -> int | None:
    return None if value is None else integer("metropolis_steps", value, low=1)


@frozen(eq=False, kw_only=True)
class SubsampledNet:
    """The choice of m points of a public sub-domain with odds e^(-ε n s/(2 w)), s the largest gap over the class.

    Neighbouring data sets differ in one record's value (replace-one); n is public.

    Sources: Haghtalab, Roughgarden & Shetty 2020, Algorithm 4 and Theorem G.1, corrected; Blum, Ligett & Roth 2008.

    Args:
        concepts: The class of predicates.
        domain: V, public points of shape (M, d), or (M,) on the line; duplicates are removed. They must not depend on
            the data.
        size: m >= 1, the number of points of a net; they may repeat.
        epsilon: ε in (0, 1000], of bounded range and so also pure.
        records: n >= 1, public.
        width: The range w of the queries: 1 for predicates as {0, 1}, 2 for {-1, 1}. It changes the errors, and the law
            if ``printed``; the corrected law is the same for both.
        printed: Use the odds e^(-ε n s/2) of the paper. With them a release costs w·ε.
        metropolis_steps: Run a Markov chain of this many steps, whose law is only near the stated one. The event is
            then ``NonPrivate``, and ``release`` raises. Default: exact draws.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import SubsampledNet
        >>> from hockeystick.learners.smoothed import Thresholds
        >>> net = SubsampledNet(concepts=Thresholds(), domain=[0.1, 0.3, 0.5, 0.9], size=5, epsilon=1.0, records=6)
        >>> net.multisets, net.event()
        (56, BoundedRange(width=1.0))
        >>> net.simulate([0.1, 0.2, 0.3, 0.5, 0.5, 0.9], np.random.default_rng(0), 2).shape
        (2, 5)
    """

    concepts: ConceptClass = field(converter=checked_class)
    domain: FloatArray = field(converter=_domain, repr=False)
    size: int = field(converter=arguments.size)
    epsilon: float = field(converter=_epsilon)
    records: int = field(converter=arguments.records)
    width: int = field(default=1, converter=_width)
    printed: bool = field(default=False, converter=_printed)
    metropolis_steps: int | None = field(default=None, converter=_steps)

    def __attrs_post_init__(self) -> None:
        self.concepts.checked_points(self.domain)
        if self.records * self.size > 2**53:
            raise InvalidArgumentError("size", self.size, "makes n m more than 2^53", "use a smaller size")

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
        width: int = 1,
    ) -> "SubsampledNet":
        """Returns the mechanism on M = ceil(4 k/σ) fresh points of a base measure.

        Args:
            concepts: The class.
            measure: The base measure, public; ``LabelledMeasure`` for labelled pairs.
            rng: Public coins; they must be independent of the data.
            sigma: The smoothness of the law near the data, in (0, 1]; σ/2 for labelled pairs.
            accepted: k, see ``net_bounds.plan_net``.
            size, epsilon, records, width: See the class.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        public = checked_class(concepts).checked_measure(measure)
        points = public.sample(generator(rng), domain_size(accepted, sigma))
        return cls(concepts=concepts, domain=points, size=size, epsilon=epsilon, records=records, width=width)

    @property
    def multisets(self) -> int:
        """The number |C| = C(M + m - 1, m) of candidates."""
        return multiset_count(len(self.domain), self.size)

    @property
    def scale(self) -> float:
        """The scale of the integer scores n m s/w in the log-odds: 2 m/ε, rounded up."""
        return quotient_up(2.0 * self.size, self._range())

    def _range(self) -> float:
        return self.epsilon * (self.width if self.printed else 1)  # exact: the width is 1 or 2

    # --- privacy -----------------------------------------------------------------------------------------------------

    def event(self) -> PrivacyEvent:
        """Returns the event of one record: ``BoundedRange`` of ε, or w ε if ``printed``; ``NonPrivate`` for a chain."""
        return BoundedRange(self._range()) if self.metropolis_steps is None else NonPrivate()

    def graph(self) -> AccountantGraph:
        """Returns the plan: one release that reads the records; all answers are post-processing."""
        plan = AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE,
            pinned=True,
            assumptions=("the number of records is public", "the sub-domain was chosen without the data"),
        )
        plan = plan.source("records").public("sub-domain")
        return plan.release("net", self.event(), reads=("records", "sub-domain")).post("answers", reads=("net",))

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns all records at the first point of the sub-domain, and with one moved to the last, both (n, d)."""
        first = np.repeat(self.domain[:1], self.records, axis=0)
        second = first.copy()
        second[0] = self.domain[-1]
        return first, second

    def log_likelihood_ratio(self, output: npt.ArrayLike, data0: npt.ArrayLike, data1: npt.ArrayLike) -> FloatArray:
        """Returns ln P(output | data0)/P(output | data1), shape (runs,), for outputs (places) of shape (runs, m).

        Raises:
            InvalidArgumentError: the law is unknown, because of too many candidates or ``metropolis_steps``.
        """
        return self._log_odds(output, data0) - self._log_odds(output, data1)

    def _log_odds(self, output: npt.ArrayLike, data: npt.ArrayLike) -> FloatArray:
        self._check_exact("log_likelihood_ratio")
        records = self._checked(data)
        if isinstance(self.concepts, Thresholds):
            net = self._threshold_net(records)
            return np.asarray(-net.scores(array("output", output, ndim=2)) / net.scale - net.log_normaliser())
        nets, scores = self.candidates(), self._scores(records)
        total = logsumexp(-scores(nets) / self.scale)
        return np.asarray(-scores(output) / self.scale - total)

    # --- draws -------------------------------------------------------------------------------------------------------

    def candidates(self) -> IntArray:
        """Returns all nets, as sorted places in the domain, shape (|C|, m).

        Raises:
            InvalidArgumentError: there are more than a million.
        """
        return multisets(len(self.domain), self.size)

    def law(self, data: npt.ArrayLike) -> FloatArray:
        """Returns the probability of each candidate for one data set, shape (|C|,), by enumeration. Private.

        Raises:
            InvalidArgumentError: more than a million candidates, data of another shape, or a chain.
        """
        self._check_exact("law")
        records, nets = self._checked(data), self.candidates()
        logits = -self._scores(records)(nets) / self.scale
        weights = np.exp(logits - logits.max())
        return np.asarray(weights / weights.sum())

    def simulate(self, data: npt.ArrayLike, rng: np.random.Generator, runs: int) -> IntArray:
        """Returns ``runs`` simulated nets for one data set: sorted places, shape (runs, m). Not a release.

        Raises:
            InvalidArgumentError: more than a million candidates of a class other than thresholds, or data of another
                shape.
        """
        records, source, count = self._checked(data), generator(rng), run_count(runs)
        if self.metropolis_steps is not None:
            return self._chain(records, source, count, self.metropolis_steps)
        if isinstance(self.concepts, Thresholds):
            return self._threshold_net(records).simulate(source, count)
        sums = np.cumsum(self.law(records))
        found = np.searchsorted(sums, source.random(count) * sums[-1], side="right")
        return np.asarray(self.candidates()[np.minimum(found, len(sums) - 1)])

    def release(
        self,
        data: npt.ArrayLike,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> NetRelease:
        """Releases one net with secure noise; for the arguments see the release of a mechanism.

        The net has exactly the stated law: scores are integers, and no coin is rounded.

        Raises:
            InvalidArgumentError: as for ``simulate``, or ``metropolis_steps`` is given.
        """
        self._check_exact("release")
        records, source = self._checked(data), check_noise(noise)
        if not isinstance(self.concepts, Thresholds):
            self.candidates()  # raises before anything is charged

        def drawn() -> IntArray:
            if isinstance(self.concepts, Thresholds):
                return self._threshold_net(records).draw(source)
            nets = self.candidates()
            scores = (-self._scores(records)(nets)).tolist()
            return np.asarray(nets[softmax_draw(ExactScores.of(scores, self.scale).gaps(), source)])

        places = charged(self.event(), drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)
        return NetRelease(places=places, points=self.domain[places], simulated=source.simulated)

    def largest_error(self, places: npt.ArrayLike, data: npt.ArrayLike) -> FloatArray:
        """Returns max over q of |q(net) - q(data)|, shape (runs,), for nets (places) of shape (runs, m). Private.

        In the units of the queries, whose range is w.
        """
        records = self._checked(data)
        if isinstance(self.concepts, Thresholds):
            scores = self._threshold_net(records).scores(np.sort(array("places", places, ndim=2), axis=-1))
        else:
            scores = self._scores(records)(places)
        return np.asarray(self.width * (scores / (self.records * self.size)))

    def _checked(self, data: npt.ArrayLike) -> FloatArray:
        points = self.concepts.checked_points(data)
        if len(points) != self.records:
            raise InvalidDataError("data", data, f"has {len(points)} records", f"the public number is {self.records}")
        return points

    def _check_exact(self, what: str) -> None:
        if self.metropolis_steps is not None:
            raise InvalidArgumentError(
                "metropolis_steps",
                self.metropolis_steps,
                f"gives an unknown law, which rules out {what}",
                "leave it out",
            )

    def _scores(self, records: FloatArray) -> NetScores:
        return NetScores(concepts=self.concepts, domain=self.domain, data=records, size=self.size)

    def _threshold_net(self, records: FloatArray) -> ThresholdNet:
        return ThresholdNet(domain=self.domain[:, 0], data=records[:, 0], size=self.size, scale=self.scale)

    def _chain(self, records: FloatArray, rng: np.random.Generator, runs: int, steps: int) -> IntArray:
        """Returns the states of independent Metropolis chains from uniform points; a step replaces one random point."""
        scores, every = self._scores(records), np.arange(runs)
        places = rng.integers(len(self.domain), size=(runs, self.size))
        now = scores(places)
        for _ in range(steps):
            proposed, spot = places.copy(), rng.integers(self.size, size=runs)
            proposed[every, spot] = rng.integers(len(self.domain), size=runs)
            then = scores(proposed)
            # Proposals are uniform over ordered tuples; a multiset with repeated points has fewer orders.
            left = (places == places[every, spot][:, None]).sum(axis=1)
            joined = (proposed == proposed[every, spot][:, None]).sum(axis=1)
            odds = np.exp(np.minimum((now - then) / self.scale, 700.0)) * joined / left
            moved = rng.random(runs) < odds
            places[moved], now[moved] = proposed[moved], then[moved]
        return np.sort(places, axis=-1)


def small_db(
    concepts: ConceptClass, points: npt.ArrayLike, *, size: int, epsilon: float, records: int, width: int = 1
) -> SubsampledNet:
    """Returns SmallDB (Blum, Ligett & Roth 2008), the same mechanism on the whole of a finite domain.

    Args:
        concepts: The class.
        points: The whole domain X, shape (N, d).
        size, epsilon, records, width: See :class:`SubsampledNet`.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners import small_db
        >>> from hockeystick.learners.smoothed import Intervals
        >>> mechanism = small_db(Intervals(), [0.0, 0.25, 0.5, 0.75, 1.0], size=3, epsilon=4.0, records=20)
        >>> law = mechanism.law([0.25] * 20)
        >>> mechanism.candidates()[law.argmax()].tolist()
        [1, 1, 1]
    """
    return SubsampledNet(concepts=concepts, domain=points, size=size, epsilon=epsilon, records=records, width=width)
