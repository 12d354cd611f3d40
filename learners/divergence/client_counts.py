"""The private data of the divergence estimators: the counts of every client and symbol.

Records are symbols 0, ..., k - 1, each of one client. Neighbouring data sets differ in the symbol of one record, which
stays with its client (replace-one). So the number of records of each client is the same in both, and public.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import sparse

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.validate import as_array, integer, items
from hockeystick.mechanisms.contract.arguments import array_length, generator

Counts = npt.NDArray[np.int64]

LARGEST = 2**31 - 1
"""The largest count of a cell."""
_MOST_SYMBOLS = 2**32  # the symbol of a place has 32 bits
_MOST_PLACES = 2**62  # whose numbers are 64-bit integers
_MOST_RECORDS = 1 << 25  # whose keys are computed in one call, some seconds
_PIECE = 1 << 20  # records whose keys are computed at a time


def _table(value: object) -> sparse.csr_array:
    if not sparse.issparse(value):
        raise InvalidDataError("table", value, "is not a sparse matrix", "use ClientCounts.of_records")
    found = sparse.csr_array(value)
    if found.dtype.kind not in "iu":
        raise InvalidDataError("table", found.data, "does not hold whole numbers")
    if found.shape[0] < 1 or found.shape[1] < 2:
        raise InvalidDataError("table", found, "is too small", "give one row per client, and two symbols or more")
    if found.shape[1] > _MOST_SYMBOLS:
        raise InvalidDataError("table", found, f"has more than {_MOST_SYMBOLS} symbols", "merge rare ones")
    if found.nnz and (found.data.min() < 0 or found.data.max() > LARGEST):
        raise InvalidDataError("table", found, f"holds a count outside 0, ..., {LARGEST}")
    found = found.astype(np.int64)
    found.sum_duplicates()
    return found


@frozen(eq=False)
class ClientCounts:
    """The counts of every client and symbol.

    Args:
        table: A sparse matrix of whole numbers >= 0, of shape (clients, symbols).

    Raises:
        InvalidDataError: ``table`` is not such a matrix.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts
        >>> data = ClientCounts.of_records([0, 0, 0, 1, 2], [1, 1, 0, 2, 2], symbol_count=3)
        >>> data.records(), data.total()
        (array([3, 1, 1]), array([1, 2, 2]))
        >>> data.capped(1, np.random.default_rng(1)).total()  # one record of each client
        array([1, 0, 2])
    """

    table: sparse.csr_array = field(converter=_table, repr=False)

    @classmethod
    def of_records(
        cls,
        clients: npt.ArrayLike,
        symbols: npt.ArrayLike,
        *,
        symbol_count: int,
        client_count: int | None = None,
        times: npt.ArrayLike | None = None,
    ) -> ClientCounts:
        """Returns the counts of records that are given one by one, or with multiplicities.

        Args:
            clients: The client of each record, 0, ..., n - 1, shape (N,).
            symbols: The symbol of each record, 0, ..., k - 1, shape (N,).
            symbol_count: k >= 2.
            client_count: n; by default one more than the largest client, which may reveal who has records.
            times: The number of records of each entry, shape (N,); by default 1.

        Raises:
            InvalidDataError: the shapes differ, or numbers are out of range.
            InvalidArgumentError: there are more clients or symbols than an array has room for.
        """
        k = array_length("symbol_count", symbol_count, integer("symbol_count", symbol_count, low=2))
        if client_count is not None:
            client_count = array_length("client_count", client_count, integer("client_count", client_count, low=1))
        owners, held = _whole("clients", clients, client_count), _whole("symbols", symbols, k)
        if owners.shape != held.shape:
            raise InvalidDataError("symbols", held, f"has another shape than clients, {owners.shape}")
        n = (int(owners.max(initial=-1)) + 1 or 1) if client_count is None else client_count
        if times is None and n * k <= _MOST_PLACES:
            return cls(_counted(owners, held, n, k))
        each = np.ones(len(owners), dtype=np.int64) if times is None else _numbers("times", times, None)
        if each.shape != owners.shape:
            raise InvalidDataError("times", each, f"has another shape than clients, {owners.shape}")
        return cls(sparse.coo_array((each, (owners, held)), shape=(n, k)).tocsr())

    @property
    def clients(self) -> int:
        """n."""
        return int(self.table.shape[0])

    @property
    def symbols(self) -> int:
        """k."""
        return int(self.table.shape[1])

    def records(self) -> Counts:
        """Returns the public number of records of each client, shape (n,)."""
        return np.asarray(self.table.sum(axis=1), dtype=np.int64)

    def total(self, cohort: npt.ArrayLike | None = None) -> Counts:
        """Returns h(x), the counts of all symbols over a cohort, shape (k,).

        Args:
            cohort: The indices of its clients; by default all.

        Raises:
            InvalidArgumentError: a client does not exist, or is named twice.
        """
        rows = self.table if cohort is None else self.table[checked_cohort(cohort, self.clients)]
        return np.asarray(rows.sum(axis=0), dtype=np.int64)

    def of_symbols(self, symbols: npt.ArrayLike, cohort: npt.ArrayLike | None = None) -> Counts:
        """Returns each client's counts of some symbols, shape (clients asked, symbols asked)."""
        wanted = _numbers("symbols", symbols, self.symbols)
        rows = self.table if cohort is None else self.table[checked_cohort(cohort, self.clients)]
        return np.asarray(rows[:, wanted].todense(), dtype=np.int64)

    def at(self, symbols: npt.ArrayLike, cohorts: Sequence[npt.ArrayLike]) -> Counts:
        """Returns the count of one symbol per round, each in the cohort of that round, shape (rounds,)."""
        wanted = _numbers("symbols", symbols, self.symbols)
        asked = items("cohorts", cohorts)
        if len(wanted) != len(asked):
            raise InvalidArgumentError("cohorts", len(asked), f"are not one for each of {len(wanted)} symbols")
        columns, found = self.table.tocsc(), np.zeros(len(wanted), dtype=np.int64)
        present = np.zeros(self.clients, dtype=np.bool_)
        for i, (symbol, cohort) in enumerate(zip(wanted, asked, strict=True)):
            members = checked_cohort(cohort, self.clients)
            present[members] = True
            part = slice(columns.indptr[symbol], columns.indptr[symbol + 1])
            found[i] = columns.data[part][present[columns.indices[part]]].sum()
            present[members] = False
        return found

    def capped(self, most: int, rng: np.random.Generator, *, fill: int | None = None) -> ClientCounts:
        """Returns at most ``most`` records of each client; all subsets of a client's records are equally likely.

        For the same state of the generator a replaced record changes at most one kept record of its client, and none of
        other clients. So the coins may be public, and a guarantee for records (or groups of them) of the capped table
        is one for those of this table. One word is drawn, for any data.

        Args:
            most: B.
            rng: The source of the coins.
            fill: A public symbol that is added to clients with fewer records, so that all have exactly B and the
                numbers of records reveal nothing.

        Raises:
            InvalidArgumentError: ``most`` is not an integer >= 1, or ``fill`` is not a symbol.
            InvalidDataError: clients with more records than ``most`` have more than 2^25 in all.
        """
        # The place of a record is (client, symbol, index among the client's records of that symbol), and a client keeps
        # the records with the B smallest keys. The key of a place, and the order of equal keys, depend only on the
        # drawn word and the place, not on data. Replacing one of c records of symbol a by one of symbol b
        # vacates the place (a, c - 1), takes the first free place of b, and moves nobody else. So before and after the
        # client's places are R and one more. The B smallest of R and one more are the B - 1 smallest of R, and either
        # that one or the B-th of R: they differ in one place at most. Other clients' places are what they were.
        #
        # Indices in the order of the table would not work: between a and b all records would move up by one.
        limit, source = integer("most", most, low=1), generator(rng)
        word = int(source.integers(0, 2**64, dtype=np.uint64))
        table, size = self.table.sorted_indices(), self.records()
        remaining, owners = table.data.copy(), np.repeat(np.arange(self.clients), np.diff(table.indptr))
        many = np.flatnonzero(size[owners] > limit)
        if remaining[many].sum() > _MOST_RECORDS:
            reason = f"has more than {_MOST_RECORDS} records of clients with more than {limit}"
            raise InvalidDataError("table", self.table, reason, "cap parts of the clients one after the other")
        remaining[many] = _smallest(word, owners[many], table.indices[many], remaining[many], limit)
        found = sparse.csr_array((remaining, table.indices, table.indptr), shape=table.shape)
        if fill is not None:
            symbol = integer("fill", fill, low=0, high=self.symbols - 1)
            lacking = np.maximum(limit - size, 0)
            owners = np.flatnonzero(lacking)
            more = sparse.coo_array((lacking[owners], (owners, np.full(len(owners), symbol))), shape=table.shape)
            found = found + more.tocsr()
        return ClientCounts(sparse.csr_array(found))

    def neighbours(self) -> Iterator[ClientCounts]:
        """Yields all data sets in which one record has another symbol: for small examples."""
        dense = np.asarray(self.table.todense())
        for client, y, x in itertools.product(range(self.clients), range(self.symbols), range(self.symbols)):
            if x != y and dense[client, y]:
                moved = dense.copy()
                moved[client, [x, y]] += [1, -1]
                yield ClientCounts(sparse.csr_array(moved))


def checked_cohort(value: npt.ArrayLike, clients: int) -> npt.NDArray[np.int64]:
    """Returns the indices of a cohort's clients, at least one, each once.

    Raises:
        InvalidArgumentError: the cohort is empty, or a client does not exist or is named twice.
    """
    found = _numbers("cohort", value, clients)
    if not len(found) or len(np.unique(found)) != len(found):
        raise InvalidArgumentError("cohort", "...", "is empty or names a client twice")
    return found


def _counted(
    owners: npt.NDArray[np.integer], held: npt.NDArray[np.integer], clients: int, symbols: int
) -> sparse.csr_array:
    """The table of records that are given one by one, with one sorted list of places in memory."""
    places = owners.astype(np.int64)
    places *= symbols
    places += held.astype(np.int64, copy=False)
    places.sort()
    fresh = np.ones(len(places), dtype=np.bool_)
    np.not_equal(places[1:], places[:-1], out=fresh[1:])
    first = np.flatnonzero(fresh)
    places = places[first]
    ends = np.searchsorted(places, np.arange(clients + 1) * symbols)
    places %= symbols
    counts = np.diff(first, append=len(owners)).astype(np.int32 if len(owners) <= LARGEST else np.int64)
    del first
    return sparse.csr_array((counts, places, ends), shape=(clients, symbols))


def _numbers(name: str, value: npt.ArrayLike, below: int | None) -> npt.NDArray[np.int64]:
    return _whole(name, value, below).astype(np.int64, copy=False)


def _whole(name: str, value: npt.ArrayLike, below: int | None) -> npt.NDArray[np.integer]:
    found = as_array(name, value, data=True)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InvalidDataError(name, found, "is not a list of whole numbers")
    if found.size and (found.min() < 0 or (below is not None and found.max() >= below)):
        most = "" if below is None else f", ..., {below - 1}"
        raise InvalidDataError(name, found, f"holds a number outside 0{most}")
    return found if found.dtype.kind in "iu" else found.astype(np.int64)


# --- keys of places --------------------------------------------------------------------------------------------------


def _smallest(
    word: int, clients: npt.NDArray[np.int64], symbols: npt.NDArray[np.integer], counts: Counts, limit: int
) -> Counts:
    """The number of records of each cell among the ``limit`` with the smallest keys of their client.

    Cells are in the order of clients and symbols. Records are processed in pieces, so memory is needed only for one
    piece, the cells, and the ``limit`` records of the client that the next piece may continue.
    """
    ends, found = np.cumsum(counts), np.zeros(len(counts), dtype=np.int64)
    cells, keys = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.uint64)
    for start in range(0, int(counts.sum()), _PIECE):
        places = np.arange(start, min(start + _PIECE, ends[-1]))
        at = np.searchsorted(ends, places, side="right")
        which = places - (ends[at] - counts[at])
        cells = np.concatenate([cells, at])
        keys = np.concatenate([keys, _keys(word, which, symbols[at], clients[at])])
        order = np.lexsort((keys, clients[cells]))  # stable: equal keys are in the order of their places
        owners = clients[cells[order]]
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        rank = np.arange(len(owners)) - np.repeat(first, np.diff(first, append=len(owners)))
        order = np.sort(order[rank < limit])
        cells, keys = cells[order], keys[order]
        goes_on = clients[cells] == clients[cells[-1]]
        found += np.bincount(cells[~goes_on], minlength=len(found))
        cells, keys = cells[goes_on], keys[goes_on]
    return found + np.bincount(cells, minlength=len(found))


def _keys(
    word: int, which: npt.NDArray[np.int64], symbols: npt.NDArray[np.integer], clients: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """A pseudo-random function of places, keyed by a word: Philox 4x32-10 (Salmon, Moraes, Dror & Shaw 2011).

    A place is a counter with 32 bits for the index among records of its symbol, 32 for the symbol, 64 for the client.
    """
    a, b, c = (np.asarray(each).astype(np.uint64) for each in (which, symbols, clients))
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    c, d = c & low, c >> half
    first, second = word & 0xFFFFFFFF, word >> 32
    for _ in range(10):
        one, two = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (two >> half) ^ b ^ np.uint64(first), two & low, (one >> half) ^ d ^ np.uint64(second), one & low
        first, second = (first + 0x9E3779B9) & 0xFFFFFFFF, (second + 0xBB67AE85) & 0xFFFFFFFF
    return np.asarray((b << half) | a)
