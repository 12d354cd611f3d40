"""The average behind every estimate of KL(Pi || P): public coins fixed, no noise yet.

Symbols x_1, ..., x_T were drawn from the reference Pi, and cohorts of clients from the population; both are public.
What remains is a function of the private counts,

    D = lambda*U - V,   V = mean of ln r(x_t),   U = mean of r(x_t) - 1,   r = P/Pi,

the means weighted by how often a symbol was drawn or, better, by what is expected of that (``QueryAverage.drawn``), and
with P(x) = h(x)/N of the cohort that is asked for x. Neighbours differ in one record's symbol; the record stays with
its client, so N of every cohort is public (replace-one).

P is that of the records (N counts them), or, with ``weighting="client"``, the mean of the clients' own distributions:
each sends floor(Q D(x)/|D|), so that a record moves a cell by ceil(Q/|D|) at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen
from scipy import sparse

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import MOST, array, integer, one_of
from hockeystick.learners.divergence import sensitivity as kl_sensitivity
from hockeystick.learners.divergence.client_counts import ClientCounts, checked_cohort
from hockeystick.learners.divergence.count_logarithms import CountLogarithm, Smoothed, count_logarithm
from hockeystick.learners.divergence.public_coins import CohortMode, draw_cohorts, draw_queries

Weighting = Literal["record", "client"]
Weights = Literal["reference", "draws"]
Draw = Literal["realised", "worst"]

_LEVELS = 2**20  # Q


def _whole(name: str, value: npt.ArrayLike) -> IntArray:
    found = np.asarray(value)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iu" or found.min() < 0:
        raise InvalidArgumentError(name, f"{found.dtype} of shape {found.shape}", "is no list of whole numbers >= 0")
    return found.astype(np.int64)


def _symbols(value: npt.ArrayLike) -> IntArray:
    return _whole("symbols", value)


def _client_records(value: npt.ArrayLike) -> IntArray:
    return _whole("client_records", value)


def _shares(value: npt.ArrayLike) -> FloatArray:
    return array("shares", value, ndim=1, low=0.0)


def _cohorts(value: Iterable[npt.ArrayLike]) -> tuple[IntArray, ...]:
    return tuple(_whole("cohorts", cohort) for cohort in value)


def _levels(value: object) -> int:
    return integer("levels", value, low=1, high=2**31)


@frozen(eq=False, kw_only=True)
class QueryAverage:
    """What is asked, of whom, and how the answers are averaged. Everything here is public.

    Args:
        reference: Pi, shape (k,).
        symbols: What is asked, shape (u,): the different symbols drawn, of one cohort, or one symbol a round.
        shares: Their weights in the average, shape (u,), with sum 1.
        cohorts: The clients that are asked, one array; or one for each symbol.
        client_records: How many records every client of the population has, shape (n,).
        logarithm: How logarithms of counts are taken.
        weighting: "record" or "client".
        levels: Q, with weighting by client.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a cohort without records.
    """

    reference: FloatArray = field(converter=kl_sensitivity.reference, repr=False)
    symbols: IntArray = field(converter=_symbols, repr=False)
    shares: FloatArray = field(converter=_shares, repr=False)
    cohorts: tuple[IntArray, ...] = field(converter=_cohorts, repr=False)
    client_records: IntArray = field(converter=_client_records, repr=False)
    logarithm: CountLogarithm = field(factory=Smoothed, converter=count_logarithm)
    weighting: Weighting = "record"
    levels: int = field(default=_LEVELS, converter=_levels)

    def __attrs_post_init__(self) -> None:
        if self.symbols.max() >= len(self.reference):
            raise InvalidArgumentError("symbols", "...", f"holds one outside 0, ..., {len(self.reference) - 1}")
        if self.shares.shape != self.symbols.shape or abs(math.fsum(self.shares) - 1.0) > 1e-9:
            raise InvalidArgumentError("shares", self.shares.shape, "are not one for each symbol, with sum 1")
        for cohort in self.cohorts:
            checked_cohort(cohort, len(self.client_records))
        if len(self.cohorts) not in (1, len(self.symbols)):
            raise InvalidArgumentError("cohorts", len(self.cohorts), f"are neither one nor {len(self.symbols)}")
        if len(self.cohorts) == 1 and len(np.unique(self.symbols)) != len(self.symbols):
            raise InvalidArgumentError("symbols", "...", "names one twice for one cohort", "add up its shares")
        one_of("weighting", self.weighting, "record", "client")
        if not self.records.min():
            raise InvalidArgumentError("cohorts", "...", "include one without any record", "ask more clients")
        if self.weighting == "client" and not self._asked_records().min():
            raise InvalidArgumentError("cohorts", "...", "include a client without any record", "leave it out")

    @classmethod
    def drawn(
        cls,
        reference: npt.ArrayLike,
        client_records: npt.ArrayLike,
        *,
        samples: int,
        rng: np.random.Generator,
        cohort_size: int | None = None,
        mode: CohortMode = "fixed",
        logarithm: CountLogarithm | None = None,
        weighting: Weighting = "record",
        weights: Weights = "reference",
    ) -> QueryAverage:
        """Tosses the public coins.

        With one cohort a symbol's answer is the same however often the symbol was drawn, so that its frequency among
        the draws only adds an error. Where T draws could be of all k symbols, k <= T, all are asked for, and weighted
        by the reference: the average is that over Pi, without any error of sampling. Of more symbols T are drawn, and
        those that were are weighted by the expected frequency, given which they are: unbiased, of no larger variance
        than the frequencies themselves. (To weight by the reference only where all happen to be drawn is not unbiased.)

        Args:
            reference: Pi, shape (k,).
            client_records: How many records each client has, shape (n,).
            samples: T, at most so many symbols are asked for.
            rng: Of the coins; they may depend on nothing private.
            cohort_size: Clients per cohort; everybody by default.
            mode: See ``divergence.public_coins.draw_cohorts``.
            logarithm: Smoothed(1.0) by default.
            weighting: "record" or "client".
            weights: "reference", as above; or "draws": T symbols are drawn, and weighted by how often each was, as in
                the literature and as ``FreshCoins`` accounts for. With a cohort for each round it has no effect: a
                symbol that is drawn twice is asked of other clients, and each round counts alike.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        records, law = _client_records(client_records), kl_sensitivity.reference(reference)
        count = integer("samples", samples, low=1, high=MOST)
        one_of("weights", weights, "reference", "draws")
        query_coins, cohort_coins, order_coins = rng.spawn(3)
        rounds = 1 if mode == "fixed" else count
        cohorts = draw_cohorts(len(records), cohort_size or len(records), cohort_coins, mode=mode, rounds=rounds)
        if mode != "fixed":
            symbols = draw_queries(law, count, query_coins).in_rounds(order_coins)
            shares = np.full(count, 1.0 / count)
        elif weights == "reference" and len(law) <= count:
            symbols, shares = np.arange(len(law)), law
        else:
            queries = draw_queries(law, count, query_coins)
            symbols = queries.symbols
            shares = queries.shares if weights == "draws" else queries.expected_shares(law)
        return cls(
            reference=reference,
            symbols=symbols,
            shares=shares,
            cohorts=cohorts,
            client_records=records,
            logarithm=logarithm or Smoothed(),
            weighting=weighting,
        )

    # What is public about it -----------------------------------------------------------------------------------------

    @property
    def symbol_count(self) -> int:
        """k."""
        return len(self.reference)

    @property
    def whole(self) -> bool:
        """Whether one cohort is asked for all symbols, and they are weighted by the reference: nothing is sampled."""
        together = len(self.cohorts) == 1 and len(self.symbols) == self.symbol_count
        return together and bool((self.shares == self.reference[self.symbols]).all())

    @property
    def records(self) -> IntArray:
        """N of each cohort, as the average divides by: records, or Q times clients; shape (cohorts,)."""
        if self.weighting == "client":
            return np.array([self.levels * len(cohort) for cohort in self.cohorts])
        return np.array([self.client_records[cohort].sum() for cohort in self.cohorts])

    @property
    def step(self) -> int:
        """How far one record moves a count: 1, or ceil(Q/|D|) of the smallest client."""
        return 1 if self.weighting == "record" else -(-self.levels // int(self._asked_records().min()))

    def weights(self) -> FloatArray:
        """The weight of every symbol, shape (k,)."""
        found = np.zeros(self.symbol_count)
        np.add.at(found, self.symbols, self.shares)
        return found / math.fsum(found)

    def answered_by(self, clients: Iterable[npt.ArrayLike]) -> QueryAverage:
        """The same queries of those alone who answer: N is then that of their records.

        It is unbiased for them. For everybody it is if who answers does not depend on records.

        Args:
            clients: Those of each cohort that have answered, by number.

        Raises:
            InvalidArgumentError: they are no part of the cohorts, or those of a cohort have no record at all.
        """
        found = tuple(_whole("clients", own) for own in clients)
        if len(found) != len(self.cohorts):
            raise InvalidArgumentError("clients", len(found), f"are not those of each of {len(self.cohorts)} cohorts")
        if not all(np.isin(own, cohort).all() for own, cohort in zip(found, self.cohorts, strict=True)):
            raise InvalidArgumentError("clients", "...", "were not asked", "name members of each cohort")
        return evolve(self, cohorts=found)

    def _asked_records(self) -> IntArray:
        return np.asarray(self.client_records[np.unique(np.concatenate(self.cohorts))])

    # How far a record moves it ---------------------------------------------------------------------------------------

    def sensitivity(self, multiplier: float, *, draw: Draw = "realised", group: int = 1) -> float:
        """How far ``group`` records of one client move D, over all data with these numbers of records; rounded up.

        Args:
            multiplier: lambda >= 0.
            draw: "realised": for the symbols that were drawn, which are public. "worst": whatever had been drawn.
            group: Records that are replaced, of one client.
        """
        many = integer("group", group, low=1)
        if draw == "realised":
            return self._swap(multiplier, many).sensitivity
        return kl_sensitivity.worst_draw(
            self.reference,
            multiplier=multiplier,
            records=self.records.tolist(),
            logarithm=self.logarithm,
            group=many * self.step,
        )

    def sum_sensitivities(self, *, draw: Draw = "realised", group: int = 1) -> tuple[float, float]:
        """How far ``group`` records of one client move V and U, which they may do together."""
        many, sizes = integer("group", group, low=1), self.records.tolist()
        worst = kl_sensitivity.sums(self.reference, records=sizes, logarithm=self.logarithm, group=many * self.step)
        if draw == "worst":
            return worst
        one = kl_sensitivity.sums(
            self.reference, records=sizes, logarithm=self.logarithm, w=self.weights(), group=self.step
        )
        return min(worst[0], many * one[0]), min(worst[1], many * one[1])

    def _swap(self, multiplier: float, group: int = 1) -> kl_sensitivity.Swap:
        return kl_sensitivity.realised_draw(
            self.reference,
            self.weights(),
            multiplier=multiplier,
            records=self.records.tolist() if len(self.cohorts) > 1 else int(self.records[0]),
            logarithm=self.logarithm,
            group=group,
            step=None if self.weighting == "record" else self.step,  # a record's shares may be rounded to the same
        )

    def worst_case_neighbours(self, multiplier: float) -> tuple[ClientCounts, ClientCounts]:
        """Two data sets that differ in one record and attain the sensitivity, with one cohort weighted by record.

        All records have one symbol, but for one (or the few that an assumption demands) of another, which it leaves.

        Raises:
            InvalidArgumentError: weighting by client, or an assumption that these records can't meet.
        """
        if self.weighting != "record":
            raise InvalidArgumentError("weighting", self.weighting, "has no known worst pair", "use record weighting")
        swap, k = self._swap(multiplier), self.symbol_count
        least = getattr(self.logarithm, "least", 0)
        everybody = np.repeat(np.arange(len(self.client_records)), self.client_records)
        asked = np.unique(np.concatenate(self.cohorts))
        order = np.concatenate([everybody[np.isin(everybody, asked)], everybody[~np.isin(everybody, asked)]])
        first = np.full(len(order), swap.gains)
        rare = [swap.loses, *np.repeat(np.setdiff1d(np.arange(k), [swap.gains]), least)]
        if len(rare) + least > len(order):
            raise InvalidArgumentError("logarithm", self.logarithm, f"can't be met by {len(order)} records")
        first[: len(rare)] = rare
        second = first.copy()
        second[0] = swap.gains
        sizes = {"symbol_count": k, "client_count": len(self.client_records)}
        return ClientCounts.of_records(order, first, **sizes), ClientCounts.of_records(order, second, **sizes)

    # The private part ------------------------------------------------------------------------------------------------

    def sums(self, data: ClientCounts) -> tuple[float, float]:
        """V and U of private data: not private; only noise makes a release of them.

        Raises:
            InvalidArgumentError: the data have other clients, symbols or numbers of records than is public.
        """
        logs, ratios = self._per_symbol(self.counts(data))
        return float(self.shares @ logs), float(self.shares @ (ratios - 1.0))

    def value(self, data: ClientCounts, multiplier: float) -> float:
        """D = lambda*U - V of private data: not private."""
        logs, ratios = self.sums(data)
        return multiplier * ratios - logs

    def counts(self, data: ClientCounts) -> IntArray:
        """The cohorts' counts of the symbols that are asked for, shape (u,): not private.

        Raises:
            InvalidArgumentError: as :meth:`sums`.
        """
        if not isinstance(data, ClientCounts):
            raise InvalidDataError("data", data, "is no ClientCounts")
        if (data.clients, data.symbols) != (len(self.client_records), self.symbol_count):
            fits = f"({len(self.client_records)}, {self.symbol_count})"
            raise InvalidDataError("data", data, f"has not the shape {fits} of the plan")
        if (data.records() != self.client_records).any():
            raise InvalidDataError("data", data, "has other numbers of records than the plan says are public")
        if self.weighting == "client":
            data = quantised(data, self.levels)
        if len(self.cohorts) == 1:
            return np.asarray(data.total(self.cohorts[0])[self.symbols])
        return data.at(self.symbols, self.cohorts)

    def _per_symbol(self, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """ln r and r of each symbol that is asked for."""
        pi, sizes = self.reference[self.symbols], self.records
        frequencies = self.logarithm.frequencies(counts, sizes, self.symbol_count)
        return self.logarithm.logarithms(counts, sizes, self.symbol_count) - np.log(pi), frequencies / pi


def quantised(data: ClientCounts, levels: int) -> ClientCounts:
    """floor(Q D(x)/|D|) of each client and symbol: rounding down keeps the sum at most Q.

    Raises:
        InvalidArgumentError: ``levels`` is no integer >= 1.
    """
    q, table = _levels(levels), data.table
    rows = np.repeat(np.arange(data.clients), np.diff(table.indptr))
    scaled = table.data * q // np.maximum(data.records(), 1)[rows]
    return ClientCounts(sparse.csr_array((scaled, table.indices, table.indptr), shape=table.shape))
