"""Made-up populations on which the divergence estimators are measured: who holds how many records of which symbol.

* :func:`digit_patterns`: writers who each write every digit a few times; a record is the black-and-white pattern that
  an image leaves on a coarse grid. It stands in, offline, for the federated handwriting data that Scott, Biswas,
  Cormode & Maple 2024 (arXiv 2411.16478) measure on: the same number of writers, about as many images and, on the 4 x 4
  grid, the same number of symbols. Images are scikit-learn's bundled digits of 8 x 8 grey levels, resampled in the
  writer's own style.
* :func:`laplace_against_normal`: points of a Laplace law against a normal reference, rounded to two decimals, with
  clients who are all alike, or each of whom holds one sign, or one stretch of the line.
* :func:`dirichlet_law`, :func:`tilted` and :func:`clients_of`: laws without any structure, at any distance.

None of this is anybody's data. How it is drawn depends on the generator alone.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy.optimize import brentq

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.optional_packages import require
from hockeystick.accounting.validate import as_array, integer, one_of, real
from hockeystick.learners.divergence.client_counts import ClientCounts, checked_cohort
from hockeystick.learners.divergence.count_logarithms import Smoothed
from hockeystick.learners.divergence.sensitivity import reference
from hockeystick.learners.divergence.variance import kl
from hockeystick.mechanisms.contract.arguments import generator

Order = Literal["alike", "signs", "sorted"]

WRITERS, IMAGES = 3580, 11.0  # of the handwriting data; images of each digit by each writer, on average
_SIDE, _INK = 8, 16.0  # of an image; its darkest grey level
_SHIFTS, _SHIFT_PROBABILITIES = (-1, 0, 1), (0.2, 0.6, 0.2)
_GAINS = (0.8, 1.0, 1.2)
_THRESHOLD = 4.0  # grey level above which a block is dark


def _whole(name: str, value: npt.ArrayLike) -> IntArray:
    found = as_array(name, value, data=True)
    if found.ndim != 1 or found.dtype.kind not in "iu" or (found.size and found.min() < 0):
        raise InvalidDataError(name, found, "is no list of whole numbers >= 0")
    return found.astype(np.int64)


def _clients(value: npt.ArrayLike) -> IntArray:
    return _whole("clients", value)


def _labels(value: npt.ArrayLike) -> IntArray:
    return _whole("labels", value)


def _symbols(value: npt.ArrayLike) -> IntArray:
    return _whole("symbols", value)


def _client_count(value: object) -> int:
    return integer("client_count", value, low=1)


def _label_count(value: object) -> int:
    return integer("label_count", value, low=1)


def _symbol_count(value: object) -> int:
    return integer("symbol_count", value, low=2)


@frozen(eq=False, kw_only=True)
class LabelledRecords:
    """Records, each of a client, with a label that says which data set it belongs to, and a symbol.

    Args:
        clients, labels, symbols: Of each record, whole numbers from 0, shape (N,).
        client_count, label_count, symbol_count: How many there are of each.

    Raises:
        InvalidArgumentError: shapes that differ, or numbers out of range.
    """

    clients: IntArray = field(converter=_clients, repr=False)
    labels: IntArray = field(converter=_labels, repr=False)
    symbols: IntArray = field(converter=_symbols, repr=False)
    client_count: int = field(converter=_client_count)
    label_count: int = field(converter=_label_count)
    symbol_count: int = field(converter=_symbol_count)

    def __attrs_post_init__(self) -> None:
        for name, below in (("clients", self.client_count), ("labels", self.label_count)):
            found = getattr(self, name)
            if found.shape != self.symbols.shape:
                raise InvalidDataError(name, found, f"has another shape than symbols, {self.symbols.shape}")
            if found.max(initial=0) >= below:
                raise InvalidDataError(name, found, f"holds a number outside 0, ..., {below - 1}")
        if self.symbols.max(initial=0) >= self.symbol_count:
            raise InvalidDataError("symbols", self.symbols, f"holds a number outside 0, ..., {self.symbol_count - 1}")

    def counts(self, label: int, *, clients: npt.ArrayLike | None = None) -> ClientCounts:
        """The records of one label, by client; of some clients, numbered anew in their order, or of all.

        Raises:
            InvalidArgumentError: a label or client that does not exist, or a client named twice.
        """
        chosen = self.labels == integer("label", label, low=0, high=self.label_count - 1)
        asked = np.arange(self.client_count) if clients is None else checked_cohort(clients, self.client_count)
        place = np.full(self.client_count, -1)
        place[asked] = np.arange(len(asked))
        who = place[self.clients[chosen]]
        return ClientCounts.of_records(
            who[who >= 0], self.symbols[chosen][who >= 0], symbol_count=self.symbol_count, client_count=len(asked)
        )

    def law(self, label: int, *, clients: npt.ArrayLike | None = None, pseudo_count: float = 1.0) -> FloatArray:
        """The smoothed frequencies of one label's symbols, shape (k,), of some clients or of all.

        Raises:
            InvalidArgumentError: as :meth:`counts`, or a pseudo-count that is not positive.
        """
        held = self.counts(label, clients=clients).total()
        found = Smoothed(pseudo_count).frequencies(held, int(held.sum()), self.symbol_count)
        return found / math.fsum(found)


# --- handwriting -----------------------------------------------------------------------------------------------------


def digit_patterns(
    rng: np.random.Generator,
    *,
    grid: tuple[int, int] = (2, 2),
    writers: int = WRITERS,
    images: float = IMAGES,
) -> LabelledRecords:
    """Digits written by many writers, as patterns of dark and light blocks; the label is the digit.

    A writer's style is a shift by at most one pixel each way and a gain of the ink. Of each digit a writer has a
    Poisson number of images, one at least, drawn from that digit's images and set in the style. A block is dark if its
    mean grey level exceeds 4 of 16. The same generator gives the same images on every grid.

    Args:
        rng: Of writers and images.
        grid: Rows and columns of blocks; each of 1, 2, 4 or 8. (2, 2) has 16 symbols, (4, 2) 256, (4, 4) 65,536.
        writers: How many.
        images: Of each digit by each writer, on average.

    Raises:
        InvalidArgumentError: an argument outside its domain, or more than 24 blocks.
        MissingExtraError: scikit-learn is not installed.
    """
    rows, columns = _blocks(grid)
    people, mean = integer("writers", writers, low=1, high=10**6), real("images", images, low=0.0, high=1e4)
    source = generator(rng)
    pixels, digits = _bundled()
    # Styles: down, across, gain.
    down, across = (source.choice(3, people, p=_SHIFT_PROBABILITIES) for _ in range(2))
    style = (down * 3 + across) * 3 + source.integers(0, 3, people)
    many = np.maximum(1, source.poisson(mean, (people, 10)))
    who, which = (
        np.repeat(np.arange(people * 10), many.ravel()) // 10,
        np.repeat(np.tile(np.arange(10), people), many.ravel()),
    )
    order = np.argsort(digits, kind="stable")  # images of each digit lie together
    sizes = np.bincount(digits, minlength=10)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    image = order[starts[which] + source.integers(0, sizes[which])]
    codes = _codes(pixels, rows, columns)
    return LabelledRecords(
        clients=who,
        labels=which,
        symbols=codes[style[who], image],
        client_count=people,
        label_count=10,
        symbol_count=2 ** (rows * columns),
    )


def _blocks(grid: object) -> tuple[int, int]:
    if not isinstance(grid, tuple) or len(grid) != 2:
        raise InvalidArgumentError("grid", grid, "is no pair", "give rows and columns of blocks, as (2, 2)")
    rows, columns = (integer("grid", side, low=1, high=_SIDE) for side in grid)
    if _SIDE % rows or _SIDE % columns or rows * columns > 24:
        raise InvalidArgumentError("grid", grid, "does not cut 8 x 8 pixels into at most 24 equal blocks", "use (2, 2)")
    return rows, columns


def _bundled() -> tuple[FloatArray, IntArray]:
    """Images of shape (images, 8, 8), and their digits."""
    loaded = require("sklearn.datasets", "the digit patterns", extra="demo").load_digits()
    return np.asarray(loaded.images, dtype=np.float64), np.asarray(loaded.target, dtype=np.int64)


def _codes(pixels: FloatArray, rows: int, columns: int) -> IntArray:
    """The pattern of every image in every style, shape (27, images)."""
    padded = np.pad(pixels, ((0, 0), (1, 1), (1, 1)))
    powers = 1 << np.arange(rows * columns, dtype=np.int64)
    found = []
    for dy in _SHIFTS:
        for dx in _SHIFTS:
            moved = padded[:, 1 - dy : 1 - dy + _SIDE, 1 - dx : 1 - dx + _SIDE]
            for gain in _GAINS:
                inked = np.minimum(moved * gain, _INK)
                means = inked.reshape(-1, rows, _SIDE // rows, columns, _SIDE // columns).mean(axis=(2, 4))
                found.append((means.reshape(len(means), -1) > _THRESHOLD) @ powers)
    return np.array(found)


# --- a Laplace law against a normal one ------------------------------------------------------------------------------


def laplace_against_normal(
    rng: np.random.Generator,
    *,
    location: float = 0.1,
    draws: int = 500_000,
    clients: int = 200,
    records: int = 125,
    order: Order = "alike",
) -> tuple[FloatArray, ClientCounts]:
    """A reference of rounded standard normal draws, and clients with points of a Laplace law of scale 1.

    Points are rounded to two decimals. The reference is the frequencies of the values drawn twice or more; a client's
    point that is none of these counts for the nearest, so that everybody has the same number of records.

    Args:
        rng: Of all draws.
        location: Of the Laplace law: 0.1 for a small divergence, 1 for a large one.
        draws: Of the reference.
        clients: How many.
        records: Of each.
        order: "alike": everybody has the same law. "signs": clients with even numbers have the points above the median,
            the others those below. "sorted": each has one stretch of the line.

    Returns:
        The reference, shape (k,), and the counts.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    centre, source = real("location", location), generator(rng)
    n, each = integer("clients", clients, low=1), integer("records", records, low=1)
    one_of("order", order, "alike", "signs", "sorted")
    normal = np.rint(100.0 * source.standard_normal(integer("draws", draws, low=100))).astype(np.int64)
    values, counts = np.unique(normal, return_counts=True)
    values, counts = values[counts > 1], counts[counts > 1]
    points = np.rint(100.0 * source.laplace(centre, 1.0, n * each)).astype(np.int64)
    middles = (values[1:] + values[:-1]) / 2.0
    symbols = np.searchsorted(middles, points)
    who = np.repeat(np.arange(n), each)
    if order != "alike":
        symbols = np.sort(symbols)
    if order == "signs":
        low_first = np.concatenate([np.arange(1, n, 2), np.arange(0, n, 2)])  # odd clients take the lower points
        who = np.repeat(low_first, each)
        lower = len(np.arange(1, n, 2)) * each
        symbols = np.concatenate([source.permutation(symbols[:lower]), source.permutation(symbols[lower:])])
    data = ClientCounts.of_records(who, symbols, symbol_count=len(values), client_count=n)
    return counts / math.fsum(counts), data


# --- laws without structure ------------------------------------------------------------------------------------------


def dirichlet_law(symbols: int, rng: np.random.Generator, *, concentration: float = 5.0) -> FloatArray:
    """A random law on k symbols, shape (k,), with full support.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    k, alpha = integer("symbols", symbols, low=2), real("concentration", concentration, low=0.01)
    found = np.maximum(generator(rng).dirichlet(np.full(k, alpha)), 1e-12)
    return found / math.fsum(found)


def tilted(pi: npt.ArrayLike, divergence: float, rng: np.random.Generator) -> FloatArray:
    """A law P with KL(Pi || P) as given: Pi times exp(s Z), with independent normal Z and s as large as it has to be.

    Raises:
        InvalidArgumentError: no reference, or a divergence that is not in [1e-8, 10] or that no s reaches.
    """
    law, target = reference(pi), real("divergence", divergence, low=1e-8, high=10.0)
    direction = generator(rng).standard_normal(len(law))

    def at(s: float) -> FloatArray:
        exponent = s * direction
        found = law * np.exp(exponent - exponent.max())
        return np.asarray(found / math.fsum(found))

    high = 1.0
    while kl(law, at(high)) < target:
        high *= 2.0
        if high * float(np.ptp(direction)) > 600.0:
            raise InvalidArgumentError("divergence", divergence, "is out of reach of this law", "ask for less")
    return at(float(brentq(lambda s: kl(law, at(s)) - target, 0.0, high, xtol=1e-13, rtol=1e-12)))


def clients_of(p: npt.ArrayLike, rng: np.random.Generator, *, clients: int, records: int = 1) -> ClientCounts:
    """Clients with independent records of one law, the same number each.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    law = reference(p)
    n, each = integer("clients", clients, low=1), integer("records", records, low=1)
    symbols = generator(rng).choice(len(law), n * each, p=law)
    return ClientCounts.of_records(np.repeat(np.arange(n), each), symbols, symbol_count=len(law), client_count=n)
