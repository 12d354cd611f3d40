"""Synthetic populations for measurements of the divergence estimators: clients with records of symbols.

* :func:`digit_patterns`: writers who each write every digit a few times; a record is the black-and-white pattern of an
  image on a coarse grid. It is an offline substitute for the federated handwriting data of Scott, Biswas, Cormode &
  Maple 2024 (arXiv 2411.16478), with the same number of writers, about as many images and, on the 4 x 4 grid, the same
  number of symbols. The images are scikit-learn's bundled digits of 8 x 8 grey levels, resampled in the style of the
  writer.
* :func:`laplace_against_normal`: points of a Laplace law against a normal reference, rounded to two decimals; all
  clients are alike, or each has one sign, or one interval of the line.
* :func:`dirichlet_law` and :func:`tilted`: random laws, at any distance.

None of this is real personal data. All draws depend only on the generator.
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
        raise InvalidDataError(name, found, "is not a list of whole numbers >= 0")
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
    """Records with a client, a symbol, and a label that tells the data set.

    Args:
        clients, labels, symbols: Those of each record, whole numbers from 0, shape (N,).
        client_count, label_count, symbol_count: The numbers of clients, labels and symbols.

    Raises:
        InvalidDataError: the shapes differ, or numbers are out of range.

    Example:
        >>> from hockeystick.learners.divergence import LabelledRecords
        >>> shape = {"client_count": 2, "label_count": 2, "symbol_count": 3}
        >>> records = LabelledRecords(clients=[0, 0, 1, 1], labels=[0, 1, 0, 1], symbols=[2, 0, 2, 1], **shape)
        >>> records.counts(0).total(), records.law(1).round(2)
        (array([0, 0, 2]), array([0.4, 0.4, 0.2]))
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
        """Returns the records of one label, by client: of all clients, or of some, renumbered in their order.

        Raises:
            InvalidArgumentError: a label or client does not exist, or a client is named twice.
        """
        chosen = self.labels == integer("label", label, low=0, high=self.label_count - 1)
        members = np.arange(self.client_count) if clients is None else checked_cohort(clients, self.client_count)
        place = np.full(self.client_count, -1)
        place[members] = np.arange(len(members))
        owners = place[self.clients[chosen]]
        return ClientCounts.of_records(
            owners[owners >= 0],
            self.symbols[chosen][owners >= 0],
            symbol_count=self.symbol_count,
            client_count=len(members),
        )

    def law(self, label: int, *, clients: npt.ArrayLike | None = None, pseudo_count: float = 1.0) -> FloatArray:
        """Returns the smoothed frequencies of one label's symbols, shape (k,), of some clients or of all.

        Raises:
            InvalidArgumentError: as for :meth:`counts`, or the pseudo-count is not positive.
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
    """Returns digits by many writers, as patterns of dark and light blocks; the label is the digit.

    A writer's style is a shift by at most one pixel in each direction and a gain of the ink. Of each digit a writer has
    a Poisson number of images, at least one, drawn from the images of that digit and transformed to the style. A block
    is dark if its mean grey level exceeds 4 of 16. The same generator gives the same images on every grid.

    Args:
        rng: The source of writers and images.
        grid: The rows and columns of blocks, each 1, 2, 4 or 8. (2, 2) has 16 symbols, (4, 2) 256, (4, 4) 65,536.
        writers: The number of writers.
        images: The mean number of images of each digit by each writer.

    Raises:
        InvalidArgumentError: an argument is outside its domain, or there are more than 24 blocks.
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
    owners, which = (
        np.repeat(np.arange(people * 10), many.ravel()) // 10,
        np.repeat(np.tile(np.arange(10), people), many.ravel()),
    )
    order = np.argsort(digits, kind="stable")  # images of each digit lie together
    sizes = np.bincount(digits, minlength=10)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    image = order[starts[which] + source.integers(0, sizes[which])]
    codes = _codes(pixels, rows, columns)
    return LabelledRecords(
        clients=owners,
        labels=which,
        symbols=codes[style[owners], image],
        client_count=people,
        label_count=10,
        symbol_count=2 ** (rows * columns),
    )


def _blocks(grid: object) -> tuple[int, int]:
    if not isinstance(grid, tuple) or len(grid) != 2:
        raise InvalidArgumentError("grid", grid, "is not a pair", "give rows and columns of blocks, such as (2, 2)")
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
    """Returns a reference (k,) of rounded normal draws, and the counts of clients with points of a Laplace law.

    Both have scale 1; points are rounded to two decimals. The reference has the values that were drawn twice or more;
    other points of clients count for the nearest value, so that all clients have the same number of records.

    Args:
        rng: The source of all draws.
        location: The location of the Laplace law: 0.1 for a small divergence, 1 for a large one.
        draws, clients, records: The numbers of draws of the reference, of clients, and of records of each client.
        order: The heterogeneity of clients. "alike": all have the same law. "signs": clients with even numbers have the
            points above the median, the others those below. "sorted": each has one interval of the line.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    centre, source = real("location", location), generator(rng)
    n, each = integer("clients", clients, low=1), integer("records", records, low=1)
    one_of("order", order, "alike", "signs", "sorted")
    normal = np.rint(100.0 * source.standard_normal(integer("draws", draws, low=100))).astype(np.int64)
    values, counts = np.unique(normal, return_counts=True)
    values, counts = values[counts > 1], counts[counts > 1]
    points = np.rint(100.0 * source.laplace(centre, 1.0, n * each)).astype(np.int64)
    symbols = np.searchsorted((values[1:] + values[:-1]) / 2.0, points)
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
    """Returns a random law on k symbols, shape (k,), with full support.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    k, alpha = integer("symbols", symbols, low=2), real("concentration", concentration, low=0.01)
    found = np.maximum(generator(rng).dirichlet(np.full(k, alpha)), 1e-12)
    return found / math.fsum(found)


def tilted(pi: npt.ArrayLike, divergence: float, rng: np.random.Generator) -> FloatArray:
    """Returns a law P with a given KL(Pi || P): Pi times exp(s Z), with independent normal Z and a suitable s.

    Raises:
        InvalidArgumentError: ``pi`` is not a reference, or the divergence is not in [1e-8, 10] or out of reach.
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
            raise InvalidArgumentError("divergence", divergence, "is out of reach of this law", "use a smaller one")
    return at(float(brentq(lambda s: kl(law, at(s)) - target, 0.0, high, xtol=1e-13, rtol=1e-12)))
