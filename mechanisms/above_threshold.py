"""AboveThreshold, or the sparse vector technique: which of many queries exceed a threshold, for the price of a few.

The variant is Algorithm 1 of Lyu, Su & Li 2017 ("Understanding the Sparse Vector Technique for Differential Privacy"):
one noisy threshold for the whole stream, fresh noise for each query with a scale that grows with the number of
above-threshold answers, bits alone published, and a halt at the last of those answers. Each variant there that drops
one of these four is not private at the ε it states.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, NumericalError, parameters, validate
from hockeystick.mechanisms import arguments
from hockeystick.mechanisms.protocol import SimulationOnly

ABOVE, BELOW, NOT_ASKED = 1, 0, -1
"""The codes of ``simulate``'s outputs."""

_MOST_PIECES = 100_000


def _threshold(value: float) -> float:
    return validate.real("threshold", value)


@frozen
class AboveThreshold(SimulationOnly):
    """Answers for each query of a stream whether it is above a threshold, and halts after ``answers`` times "above".

    One ρ ~ Laplace(threshold_scale) is drawn for the run and a fresh ν ~ Laplace(query_scale) for each query; the
    answer is "above" where query + ν ≥ threshold + ρ. The cost does not grow with the number of queries: it is
    ε = sensitivity / threshold_scale + 2·answers·sensitivity / query_scale, without the 2 if ``monotone`` (Lyu, Su & Li
    2017, Thms 2 and 3).

    Args:
      threshold: what the queries are compared with; public.
      threshold_scale: scale of the threshold's noise, in the units of the queries.
      query_scale: scale of each query's noise, in the same units.
      sensitivity: the most by which any single query changes between two neighbouring data sets. For queries that count
        records that is 1 both under add-or-remove-one and under replace-one.
      answers: how many queries may be reported as above before the stream is halted.
      monotone: all queries change in the same direction, or not at all, between any two neighbouring data sets. Counts
        of records do so under add-or-remove-one; under replace-one they do not.

    Raises:
      InvalidArgumentError: a number is not finite, not positive where it must be, or ``monotone`` is not a bool.
    """

    threshold: float = field(converter=_threshold)
    threshold_scale: float = field(converter=parameters.threshold_scale, kw_only=True)
    query_scale: float = field(converter=parameters.query_scale, kw_only=True)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)
    answers: int = field(default=1, converter=parameters.answers, kw_only=True)
    monotone: bool = field(default=False, converter=arguments.monotone, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses scales per unit of sensitivity that no event can hold

    @classmethod
    def calibrated(
        cls,
        threshold: float,
        *,
        epsilon: float,
        sensitivity: float = 1.0,
        answers: int = 1,
        monotone: bool = False,
    ) -> AboveThreshold:
        """Returns an ``epsilon``-DP mechanism whose comparisons have the least variance.

        The threshold's and the queries' shares of ε stand as 1 : (2·answers)^(2/3), or 1 : answers^(2/3) if monotone
        (Lyu, Su & Li 2017, §4.2).

        Raises:
          InvalidArgumentError: an argument is out of its domain, see the class.
        """
        target = validate.real("epsilon", epsilon, low=0.0, low_open=True)
        distance = arguments.sensitivity(sensitivity)
        weight = (1 if monotone else 2) * parameters.answers(answers)
        share = target / (1.0 + weight ** (2.0 / 3.0))
        threshold_scale = arguments.quotient_up(distance, share)
        query_scale = arguments.quotient_up(weight * distance, target - share)
        while True:
            found = cls(
                threshold,
                threshold_scale=threshold_scale,
                query_scale=query_scale,
                sensitivity=distance,
                answers=answers,
                monotone=monotone,
            )
            if found.event().pure_epsilon() <= target:
                return found
            query_scale = math.nextafter(query_scale, math.inf)  # the sum of the shares was rounded too

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``AboveThreshold`` with both scales per unit of sensitivity."""
        return accounting.AboveThreshold(
            arguments.quotient_down(self.threshold_scale, self.sensitivity),
            arguments.quotient_down(self.query_scale, self.sensitivity),
            self.answers,
            self.monotone,
        )

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.int8]:
        """Returns answers of shape (runs, queries) for the true values of the queries, of shape (queries,).

        An entry is 1 for "above", 0 for "below", and −1 after the halt, where the query was not asked.

        Raises:
          InvalidArgumentError: there is no query, a value is not numeric or not finite, ``runs`` is no integer ≥ 1, or
            ``rng`` no generator.
        """
        queries = self._queries("value", value)
        source, count = arguments.generator(rng), arguments.run_count(runs)
        limits = self.threshold + source.laplace(scale=self.threshold_scale, size=(count, 1))
        outputs = np.empty((count, len(queries)), dtype=np.int8)
        for rows in arguments.blocks(count, len(queries)):
            noisy = source.laplace(scale=self.query_scale, size=outputs[rows].shape)
            noisy += queries
            above = noisy >= limits[rows]
            earlier = above.cumsum(axis=1) - above
            outputs[rows] = np.where(earlier < self.answers, above, NOT_ASKED)
        return outputs

    def decode(self, output: ArrayLike) -> tuple[int, ...] | None:
        """Returns one run's bits up to the halt as its reader sees them, or None if no query was reported as above.

        Raises:
          InvalidArgumentError: it is no row of ``simulate``'s output.
        """
        (row,) = self._outputs(np.asarray(output)[np.newaxis], None)
        return tuple(int(bit) for bit in row if bit != NOT_ASKED) if (row == ABOVE).any() else None

    def worst_case_neighbours(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the values of 4 + ``answers`` queries, all equal to the threshold in the first world.

        In the second the first four go up and the others down (or stay, if monotone), by the sensitivity, so that
        "below" four times and "above" ever after is the telling output. Its loss nears ε only as the number of queries
        below grows and such an output becomes rare; with four, a test can still see it happen.
        """
        value = np.full(4 + self.answers, self.threshold)
        change = np.full(len(value), 0.0 if self.monotone else -self.sensitivity)
        change[:4] = self.sensitivity
        return value, value + change

    def log_probability(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(output | value), shape (runs,), for outputs of shape (runs, queries) as ``simulate`` makes them.

        By quadrature over the threshold's noise, to about 12 digits; the time is in proportion to the number of
        distinct outputs, times the queries, times the span of the queries in units of the smaller scale.

        Raises:
          InvalidArgumentError: the outputs or the value have another form.
          NumericalError: the values of the queries are too far apart for the scales.
        """
        queries = self._queries("value", value)
        rows = self._outputs(output, len(queries))
        distinct, where = np.unique(rows, axis=0, return_inverse=True)
        nodes, log_weights = self._quadrature(queries - self.threshold)
        log_integrand = log_weights - np.abs(nodes) / self.threshold_scale - math.log(2 * self.threshold_scale)
        log_p = np.tile(log_integrand, (len(distinct), 1))
        for column, query in zip(distinct.T, queries - self.threshold, strict=True):
            gap = (nodes - query) / self.query_scale  # "above" where ν / query_scale ≥ gap
            log_p[column == ABOVE] += _log_tail(gap)
            log_p[column == BELOW] += _log_tail(-gap)
        return np.asarray(special.logsumexp(log_p, axis=1)[where.reshape(-1)])

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)), shape (runs,), for outputs of shape (runs, queries).

        Raises:
          As ``log_probability``.
        """
        return self.log_probability(output, value0) - self.log_probability(output, value1)

    def accuracy(self, beta: float, *, queries: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` no answer among ``queries`` is off by more than t.

        That is, each query reported as above is at least threshold − t, and each reported as below at most
        threshold + t (Dwork & Roth 2014, Thm 3.24, with both tails exact).

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``queries`` no integer ≥ 1.
        """
        failure = validate.probability("beta", beta, open=True) / 2  # half for the threshold, half for the queries
        count = validate.integer("queries", queries, low=1)
        one = -math.expm1(math.log1p(-failure) / count)
        return -self.threshold_scale * math.log(failure) - self.query_scale * math.log(one)

    def _queries(self, name: str, value: ArrayLike) -> NDArray[np.float64]:
        queries = validate.array(name, value, ndim=1)
        if not len(queries):
            raise InvalidArgumentError(name, value, "has no queries", "give at least one")
        return queries

    def _outputs(self, output: ArrayLike, queries: int | None) -> NDArray[np.int8]:
        rows = validate.array("output", output, shape=(None, queries), low=NOT_ASKED, high=ABOVE)
        above = rows == ABOVE
        halted = above.cumsum(axis=1) - above >= self.answers
        if (rows != np.floor(rows)).any() or ((rows == NOT_ASKED) != halted).any():
            raise InvalidArgumentError(
                "output",
                output,
                "is not an output of this mechanism",
                f"expected 1 or 0 up to the halt, which is at 1 number {self.answers}, and -1 after it",
            )
        return rows.astype(np.int8)

    def _quadrature(self, offsets: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Nodes and logarithms of weights on pieces between which the integrand is smooth; 40 scales reach e^-40."""
        kinks = np.unique(np.append(offsets, 0.0))
        reach = 40 * self.threshold_scale
        ends = np.concatenate([[kinks[0] - reach], kinks, [kinks[-1] + reach]])
        parts = np.ceil(np.diff(ends) / min(self.threshold_scale, self.query_scale))
        if not parts.sum() <= _MOST_PIECES:
            raise NumericalError(
                f"log_probability: the queries span {parts.sum():.3g} of the smaller noise scale, more than "
                f"{_MOST_PIECES}; compare queries nearer to the threshold"
            )
        edges = np.concatenate(
            [np.linspace(a, b, int(n), endpoint=False) for a, b, n in zip(ends[:-1], ends[1:], parts, strict=True)]
            + [ends[-1:]]
        )
        points, weights = np.polynomial.legendre.leggauss(16)
        half = np.diff(edges)[:, np.newaxis] / 2
        nodes = edges[:-1, np.newaxis] + half * (1 + points)
        return nodes.ravel(), np.log(half * weights).ravel()


def _log_tail(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln P(Laplace(1) ≥ z), without cancellation on either side."""
    half = 0.5 * np.exp(-np.abs(z))
    return np.where(z > 0, -np.abs(z) - math.log(2.0), np.log1p(-half))
