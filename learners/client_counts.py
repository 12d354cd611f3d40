"""Who holds how many records of which symbol: the private data of the divergence estimators.

Records are symbols 0, ..., k - 1, each of one client. Neighbouring data sets differ in one record's symbol, and the
record stays with its client (replace-one), so that how many records each client has is the same in both, and public.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import sparse

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer
from hockeystick.mechanisms.arguments import generator

Counts = npt.NDArray[np.int64]

_LARGEST = 2**31 - 1


def _table(value: object) -> sparse.csr_array:
    if not sparse.issparse(value):
        raise InvalidArgumentError("table", type(value).__name__, "is no sparse matrix", "use ClientCounts.of_records")
    found = sparse.csr_array(value)
    if found.dtype.kind not in "iu":
        raise InvalidArgumentError("table", found.dtype, "does not hold whole numbers")
    if found.shape[0] < 1 or found.shape[1] < 2:
        raise InvalidArgumentError("table", found.shape, "is too small", "give a row per client, two symbols or more")
    if found.nnz and (found.data.min() < 0 or found.data.max() > _LARGEST):
        raise InvalidArgumentError("table", "...", f"holds a count outside 0, ..., {_LARGEST}")
    found = found.astype(np.int64)
    found.sum_duplicates()
    return found


@frozen(eq=False)
class ClientCounts:
    """Counts of every client and symbol.

    Args:
        table: Sparse whole numbers >= 0 of shape (clients, symbols).

    Raises:
        InvalidArgumentError: it is no such matrix.
    """

    table: sparse.csr_array = field(converter=_table, repr=False)

    @classmethod
    def of_records(
        cls, clients: npt.ArrayLike, symbols: npt.ArrayLike, *, symbol_count: int, client_count: int | None = None
    ) -> ClientCounts:
        """The counts of records, given one by one.

        Args:
            clients: The client of each record, 0, ..., n - 1, shape (N,).
            symbols: Its symbol, 0, ..., k - 1, shape (N,).
            symbol_count: k >= 2.
            client_count: n; one more than the largest client by default, which may tell who has records.

        Raises:
            InvalidArgumentError: shapes that differ, or numbers out of range.
        """
        k = integer("symbol_count", symbol_count, low=2)
        who, what = _numbers("clients", clients, client_count), _numbers("symbols", symbols, k)
        if who.shape != what.shape:
            raise InvalidArgumentError("symbols", what.shape, f"has another shape than clients, {who.shape}")
        n = (int(who.max(initial=-1)) + 1 or 1) if client_count is None else client_count
        ones = np.ones(len(who), dtype=np.int64)
        return cls(sparse.coo_array((ones, (who, what)), shape=(n, k)).tocsr())

    @property
    def clients(self) -> int:
        """n."""
        return int(self.table.shape[0])

    @property
    def symbols(self) -> int:
        """k."""
        return int(self.table.shape[1])

    def records(self) -> Counts:
        """How many records each client has, shape (n,): public."""
        return np.asarray(self.table.sum(axis=1), dtype=np.int64)

    def total(self, cohort: npt.ArrayLike | None = None) -> Counts:
        """h(x) over a cohort, shape (k,).

        Args:
            cohort: Clients, by number; everybody by default.

        Raises:
            InvalidArgumentError: a client that does not exist, or one named twice.
        """
        rows = self.table if cohort is None else self.table[checked_cohort(cohort, self.clients)]
        return np.asarray(rows.sum(axis=0), dtype=np.int64)

    def of_symbols(self, symbols: npt.ArrayLike, cohort: npt.ArrayLike | None = None) -> Counts:
        """The counts that each client of a cohort has of some symbols, shape (clients asked, symbols asked)."""
        asked = _numbers("symbols", symbols, self.symbols)
        rows = self.table if cohort is None else self.table[checked_cohort(cohort, self.clients)]
        return np.asarray(rows[:, asked].todense(), dtype=np.int64)

    def at(self, symbols: npt.ArrayLike, cohorts: Sequence[npt.ArrayLike]) -> Counts:
        """h of one symbol per round, each in that round's cohort, shape (rounds,)."""
        asked = _numbers("symbols", symbols, self.symbols)
        if len(asked) != len(cohorts):
            raise InvalidArgumentError("cohorts", len(cohorts), f"are not one for each of {len(asked)} symbols")
        columns, found = self.table.tocsc(), np.zeros(len(asked), dtype=np.int64)
        present = np.zeros(self.clients, dtype=np.bool_)
        for i, (symbol, cohort) in enumerate(zip(asked, cohorts, strict=True)):
            members = checked_cohort(cohort, self.clients)
            present[members] = True
            part = slice(columns.indptr[symbol], columns.indptr[symbol + 1])
            found[i] = columns.data[part][present[columns.indices[part]]].sum()
            present[members] = False
        return found

    def capped(self, most: int, rng: np.random.Generator, *, fill: int | None = None) -> ClientCounts:
        """At most ``most`` records of each client, drawn without replacement.

        Each client's draw looks at its own records alone, and a record that is replaced changes one of those that are
        kept at most, for the same draw.

        Args:
            most: B.
            rng: Of the draws.
            fill: A public symbol that is added to clients with fewer records, so that all have exactly B, and numbers
                of records tell nothing.

        Raises:
            InvalidArgumentError: ``most`` is no integer >= 1, or ``fill`` no symbol.
        """
        limit, source = integer("most", most, low=1), generator(rng)
        table = self.table.sorted_indices()
        kept, size = table.data.copy(), self.records()
        for client in np.flatnonzero(size > limit):
            own = slice(table.indptr[client], table.indptr[client + 1])
            kept[own] = source.multivariate_hypergeometric(table.data[own], limit)
        found = sparse.csr_array((kept, table.indices, table.indptr), shape=table.shape)
        if fill is not None:
            symbol = integer("fill", fill, low=0, high=self.symbols - 1)
            lacking = np.maximum(limit - size, 0)
            who = np.flatnonzero(lacking)
            more = sparse.coo_array((lacking[who], (who, np.full(len(who), symbol))), shape=table.shape)
            found = found + more.tocsr()
        return ClientCounts(sparse.csr_array(found))

    def neighbours(self) -> Iterator[ClientCounts]:
        """All data sets in which one record has another symbol: for small examples."""
        dense = np.asarray(self.table.todense())
        for client, y, x in itertools.product(range(self.clients), range(self.symbols), range(self.symbols)):
            if x != y and dense[client, y]:
                moved = dense.copy()
                moved[client, [x, y]] += [1, -1]
                yield ClientCounts(sparse.csr_array(moved))


def checked_cohort(value: npt.ArrayLike, clients: int) -> npt.NDArray[np.int64]:
    """Clients by number, each once, at least one.

    Raises:
        InvalidArgumentError: they are not, or do not exist.
    """
    found = _numbers("cohort", value, clients)
    if not len(found) or len(np.unique(found)) != len(found):
        raise InvalidArgumentError("cohort", "...", "is empty or names a client twice")
    return found


def _numbers(name: str, value: npt.ArrayLike, below: int | None) -> npt.NDArray[np.int64]:
    found = np.asarray(value)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InvalidArgumentError(name, f"{found.dtype} of shape {found.shape}", "is no list of whole numbers")
    if found.size and (found.min() < 0 or (below is not None and found.max() >= below)):
        most = "" if below is None else f", ..., {below - 1}"
        raise InvalidArgumentError(name, "...", f"holds a number outside 0{most}")
    return found.astype(np.int64)
