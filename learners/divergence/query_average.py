"""The average of queries behind every estimate of KL(Pi || P), given the public coins and without noise.

Symbols x_1, ..., x_T are drawn from the reference Pi, and cohorts of clients from the population; both are public. The
average is a function of the private counts,

    D = λ·U − V,   V = mean of ln r(x_t),   U = mean of r(x_t) - 1,   r = P/Pi,

with means weighted by the number of draws of a symbol or, better, by its expectation (``QueryAverage.drawn``), and with
P(x) = h(x)/N in the cohort that is asked for x. Neighbours differ in the symbol of one record, which stays with its
client, so N of every cohort is public (replace-one).

P is the distribution of the records, or with ``weighting="client"`` the mean of the clients' own distributions: each
client sends floor(Q D(x)/|D|), so a record moves a cell by at most ceil(Q/|D|).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, get_args

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
from hockeystick.mechanisms.contract.arguments import generator

Weighting = Literal["record", "client"]
Weights = Literal["reference", "draws"]
Draw = Literal["realised", "worst"]

_LEVELS = 2**20  # Q


def _whole(name: str, value: npt.ArrayLike) -> IntArray:
    found = np.asarray(value)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iu" or found.min() < 0:
        raise InvalidArgumentError(name, f"{found.dtype} of shape {found.shape}", "is not a list of whole numbers >= 0")
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
    """The public plan of an estimate: symbols, cohorts and the weights of the answers.

    Args:
        reference: Pi, shape (k,).
        symbols: The symbols that are asked for, shape (u,): different ones for one cohort, or one per round.
        shares: Their weights in the average, shape (u,), with sum 1.
        cohorts: One array of the clients that are asked; or one for each symbol.
        client_records: The number of records of every client of the population, shape (n,).
        logarithm: The rule for logarithms of counts.
        weighting: "record" or "client".
        levels: Q, for weighting by client.

    Raises:
        InvalidArgumentError: an argument is outside its domain, or a cohort has no records.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts, QueryAverage
        >>> data = ClientCounts.of_records([0] * 4, np.arange(4), times=[400, 300, 200, 100], symbol_count=4)
        >>> average = QueryAverage.drawn(np.full(4, 0.25), data.records(), samples=2, rng=np.random.default_rng(1))
        >>> average.symbols, average.shares  # public
        (array([0, 2]), array([0.5, 0.5]))
        >>> round(average.value(data, 0.0), 3), round(average.sensitivity(0.0), 3)
        (-0.123, 0.347)
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
            raise InvalidArgumentError("symbols", "...", "names a symbol twice for one cohort", "add up its shares")
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
        """Returns an average with fresh public coins.

        With one cohort the answer for a symbol does not depend on how often it was drawn, so its frequency among the
        draws only adds an error. If k <= T, all k symbols are asked for and weighted by the reference: the average is
        that over Pi, without sampling error. If k > T, T symbols are drawn and weighted by their expected frequencies,
        given which were drawn: this is unbiased, with at most the variance of the frequencies themselves. (Weighting by
        the reference only if all symbols happen to be drawn would be biased.)

        Args:
            reference: Pi, shape (k,).
            client_records: The number of records of each client, shape (n,).
            samples: T, the largest number of symbols that are asked for.
            rng: The source of the coins, which must not depend on private data.
            cohort_size: The number of clients per cohort; by default all.
            mode: See ``divergence.public_coins.draw_cohorts``.
            logarithm: Smoothed(1.0) by default.
            weighting: "record" or "client".
            weights: "reference", as above; or "draws": T symbols are drawn and weighted by their number of draws, as in
                the literature and in the accounting of ``FreshCoins``. With a cohort for each round this has no effect:
                a symbol that is drawn twice is asked of different clients, and all rounds have equal weight.

        Raises:
            InvalidArgumentError: an argument is outside its domain.
        """
        records, law = _client_records(client_records), kl_sensitivity.reference(reference)
        count = integer("samples", samples, low=1, high=MOST)
        one_of("weights", weights, "reference", "draws")
        one_of("mode", mode, *get_args(CohortMode))
        size = len(records) if cohort_size is None else cohort_size
        query_coins, cohort_coins, order_coins = generator(rng).spawn(3)
        rounds = 1 if mode == "fixed" else count
        cohorts = draw_cohorts(len(records), size, cohort_coins, mode=mode, rounds=rounds)
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
        """Whether one cohort is asked for all symbols, weighted by the reference: without sampling error."""
        together = len(self.cohorts) == 1 and len(self.symbols) == self.symbol_count
        return together and bool((self.shares == self.reference[self.symbols]).all())

    @property
    def records(self) -> IntArray:
        """N of each cohort, the denominator of frequencies: records, or Q times clients; shape (cohorts,)."""
        if self.weighting == "client":
            return np.array([self.levels * len(cohort) for cohort in self.cohorts])
        return np.array([self.client_records[cohort].sum() for cohort in self.cohorts])

    @property
    def step(self) -> int:
        """The largest change of a count by one record: 1, or ceil(Q/|D|) of the smallest client."""
        return 1 if self.weighting == "record" else -(-self.levels // int(self._asked_records().min()))

    def weights(self) -> FloatArray:
        """Returns the weight of every symbol, shape (k,)."""
        found = np.zeros(self.symbol_count)
        np.add.at(found, self.symbols, self.shares)
        return found / math.fsum(found)

    def answered_by(self, clients: Iterable[npt.ArrayLike]) -> QueryAverage:
        """Returns the same queries of only the clients that answer: N is then the number of their records.

        It is unbiased for these clients, and for all clients if answering does not depend on records.

        Args:
            clients: The indices of the clients of each cohort that answered.

        Raises:
            InvalidArgumentError: the clients are not part of the cohorts, or those of a cohort have no records.
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
        """Returns the largest change of D by ``group`` records of one client, over all such data; rounded up.

        Args:
            multiplier: λ ≥ 0.
            draw: "realised": for the drawn symbols, which are public. "worst": over all draws.
            group: Records that are replaced, of one client.
        """
        many = integer("group", group, low=1)
        if one_of("draw", draw, *get_args(Draw)) == "realised":
            return self._swap(multiplier, many).sensitivity
        return kl_sensitivity.worst_draw(
            self.reference,
            multiplier=multiplier,
            records=self.records.tolist(),
            logarithm=self.logarithm,
            group=many * self.step,
        )

    def sum_sensitivities(self, *, draw: Draw = "realised", group: int = 1) -> tuple[float, float]:
        """Returns the largest changes of V and U by ``group`` records of one client, which may coincide."""
        many, sizes = integer("group", group, low=1), self.records.tolist()
        worst = kl_sensitivity.sums(self.reference, records=sizes, logarithm=self.logarithm, group=many * self.step)
        if one_of("draw", draw, "realised", "worst") == "worst":
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
            step=None if self.weighting == "record" else self.step,  # two records may be rounded alike
        )

    def worst_case_neighbours(self, multiplier: float) -> tuple[ClientCounts, ClientCounts]:
        """Returns two data sets that differ in one record and attain the sensitivity of one cohort.

        All records have one symbol, except one (and the few that an assumption requires) of another, which it leaves.

        Raises:
            InvalidArgumentError: the weighting is by client, or the records can't satisfy the assumption.
        """
        if self.weighting != "record":
            raise InvalidArgumentError("weighting", self.weighting, "has no known worst pair", "use record weighting")
        swap, k = self._swap(multiplier), self.symbol_count
        least = getattr(self.logarithm, "least", 0)
        owners = np.repeat(np.arange(len(self.client_records)), self.client_records)
        members = np.unique(np.concatenate(self.cohorts))
        order = np.concatenate([owners[np.isin(owners, members)], owners[~np.isin(owners, members)]])
        first = np.full(len(order), swap.gains)
        rare = [swap.loses, *np.repeat(np.setdiff1d(np.arange(k), [swap.gains]), least)]
        if len(rare) + least > len(order):
            raise InvalidArgumentError("logarithm", self.logarithm, f"can't be satisfied by {len(order)} records")
        first[: len(rare)] = rare
        second = first.copy()
        second[0] = swap.gains
        sizes = {"symbol_count": k, "client_count": len(self.client_records)}
        return ClientCounts.of_records(order, first, **sizes), ClientCounts.of_records(order, second, **sizes)

    # The private part ------------------------------------------------------------------------------------------------

    def sums(self, data: ClientCounts) -> tuple[float, float]:
        """Returns V and U of private data: not private without noise.

        Raises:
            InvalidDataError: the data do not have the public numbers of clients, symbols and records.
        """
        logs, ratios = self._per_symbol(self.counts(data))
        return float(self.shares @ logs), float(self.shares @ (ratios - 1.0))

    def value(self, data: ClientCounts, multiplier: float) -> float:
        """Returns D = λ·U − V of private data: not private."""
        logs, ratios = self.sums(data)
        return multiplier * ratios - logs

    def counts(self, data: ClientCounts) -> IntArray:
        """Returns the cohorts' counts of the symbols that are asked for, shape (u,): not private.

        Raises:
            InvalidDataError: as for :meth:`sums`.
        """
        if not isinstance(data, ClientCounts):
            raise InvalidDataError("data", data, "is not a ClientCounts")
        if (data.clients, data.symbols) != (len(self.client_records), self.symbol_count):
            fits = f"({len(self.client_records)}, {self.symbol_count})"
            raise InvalidDataError("data", data, f"has not the shape {fits} of the plan")
        if (data.records() != self.client_records).any():
            raise InvalidDataError("data", data, "does not have the numbers of records of the plan")
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
    """Returns floor(Q D(x)/|D|) for each client and symbol; rounding down keeps the sum at most Q.

    Raises:
        InvalidArgumentError: ``levels`` is not an integer >= 1.
    """
    q, table = _levels(levels), data.table
    rows = np.repeat(np.arange(data.clients), np.diff(table.indptr))
    scaled = table.data * q // np.maximum(data.records(), 1)[rows]
    return ClientCounts(sparse.csr_array((scaled, table.indices, table.indptr), shape=table.shape))
