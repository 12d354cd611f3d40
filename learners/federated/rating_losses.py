"""Losses from people's ratings of films: each client and round is one person, and the experts are genres.

R[u, g] is person u's mean rating of genre g, in stars, and g* the genre that is rated best on average. The loss of
recommending g to u is max(0, R[u, g*] - R[u, g]), so that g* never loses (Gao, Huang & Yang 2024, figure 6). Losses are
in stars, between 0 and 5, and **a learner's guarantee is for losses in [0, 1]**: they are divided by 5 before a learner
sees them (:func:`scaled_losses`), and its regret is multiplied by 5.

The guarantee is for one person's row of losses. g*, and what unrated genres are filled with, are computed from
everybody's ratings and count as known; declare g* where that won't do.

Ratings are read from the files of MovieLens-1M, which you have to have (:func:`read_movielens`), or made up to look
like them (:func:`synthetic_ratings`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, items, place, real

Fill = Literal["zero", "mean"]
Number = TypeVar("Number", int, float)

_MOST_PEOPLE = 2**20  # of made-up ratings: some hundred million ratings

STARS = 5.0
"""The best rating, and with it the largest loss."""

# Genres of MovieLens-1M: how many ratings are of films of that genre, and their mean; approximate.
_GENRES = {
    "Action": (257457, 3.49),
    "Adventure": (133953, 3.48),
    "Animation": (43293, 3.68),
    "Children's": (72186, 3.42),
    "Comedy": (356580, 3.52),
    "Crime": (79541, 3.71),
    "Documentary": (7910, 3.93),
    "Drama": (354529, 3.77),
    "Fantasy": (36301, 3.45),
    "Film-Noir": (18261, 4.1),
    "Horror": (76386, 3.2),
    "Musical": (41533, 3.67),
    "Mystery": (40178, 3.67),
    "Romance": (147523, 3.61),
    "Sci-Fi": (157294, 3.47),
    "Thriller": (189680, 3.57),
    "War": (68527, 3.89),
    "Western": (20683, 3.64),
}


def _genres(value: object) -> tuple[str, ...]:
    names = items("genres", value)
    if len(names) < 2 or len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
        raise InvalidArgumentError("genres", value, "are not two or more different names")
    return tuple(names)


def _counts(value: object) -> FloatArray:
    counts: FloatArray = array("counts", value, ndim=2, low=0.0, data=True)
    return counts


def _sums(value: object) -> FloatArray:
    sums: FloatArray = array("sums", value, ndim=2, low=0.0, data=True)
    return sums


@frozen(eq=False, kw_only=True)
class Ratings:
    """How many ratings each person gave to films of each genre, and their sum.

    A film of several genres counts in each.

    Args:
        genres: Names, different ones, length >= 2.
        counts: Shape (people, genres), whole numbers >= 0.
        sums: Stars, same shape, at most 5 per rating.

    Raises:
        InvalidArgumentError: shapes that differ, a count that is not whole, or more than 5 stars per rating.
    """

    genres: tuple[str, ...] = field(converter=_genres)
    counts: FloatArray = field(converter=_counts)
    sums: FloatArray = field(converter=_sums)

    def __attrs_post_init__(self) -> None:
        people = integer("people", self.counts.shape[0], low=1)
        array("counts", self.counts, shape=(people, len(self.genres)), data=True)
        array("sums", self.sums, shape=(people, len(self.genres)), data=True)
        if (self.counts != np.floor(self.counts)).any():
            raise InvalidDataError("counts", self.counts, "are not whole numbers")
        if (self.sums > STARS * self.counts).any():
            raise InvalidDataError("sums", self.sums, "hold more than 5 stars per rating")

    @property
    def people(self) -> int:
        """Number of people."""
        return len(self.counts)

    def genre_means(self) -> FloatArray:
        """Mean rating of each genre over all ratings, shape (genres,); that of all genres together where none is."""
        everything = self.sums.sum() / max(1.0, self.counts.sum())
        counts = self.counts.sum(axis=0)
        found: FloatArray = np.where(counts > 0.0, self.sums.sum(axis=0) / np.maximum(counts, 1.0), everything)
        return found

    def table(self, fill: Fill) -> FloatArray:
        """R: each person's mean rating of each genre, shape (people, genres), in stars.

        Args:
            fill: What stands for a genre that a person has not rated: "zero", or the genre's "mean" over all ratings.

        Raises:
            InvalidArgumentError: an unknown ``fill``.
        """
        if fill not in get_args(Fill):
            raise InvalidArgumentError("fill", fill, "is unknown", 'use "zero" or "mean"')
        missing = self.genre_means() if fill == "mean" else np.zeros(len(self.genres))
        rated: FloatArray = np.where(self.counts > 0.0, self.sums / np.maximum(self.counts, 1.0), missing)
        return rated

    def best_genre(self, fill: Fill) -> str:
        """g*: the genre of largest mean over people; the first of several.

        Raises:
            InvalidArgumentError: an unknown ``fill``.
        """
        return self.genres[int(np.argmax(self.table(fill).mean(axis=0)))]

    def losses(self, fill: Fill, *, reference: str | None = None) -> FloatArray:
        """max(0, R[u, g*] - R[u, g]) in **stars**, in [0, 5], shape (people, genres); see :func:`scaled_losses`.

        Args:
            fill: As for :meth:`table`.
            reference: g*, if it is to be declared rather than computed from the ratings.

        Raises:
            InvalidArgumentError: an unknown ``fill`` or genre.
        """
        best = self.best_genre(fill) if reference is None else reference
        if best not in self.genres:
            raise InvalidArgumentError("reference", reference, "is no genre", f"use one of {', '.join(self.genres)}")
        table = self.table(fill)
        return np.maximum(0.0, table[:, [self.genres.index(best)]] - table)


def scaled_losses(losses: npt.ArrayLike, *, sensitivity: float = 1.0) -> FloatArray:
    """Losses in [0, sensitivity] divided by it: what a learner of losses in [0, 1] may see.

    Losses in stars need ``sensitivity=5`` (:data:`STARS`), said by whoever knows their unit: it is no property of the
    numbers at hand, and the largest of them would be private.

    Raises:
        InvalidArgumentError: a loss outside [0, sensitivity], NaN, or a sensitivity that is not positive.
    """
    sensitivity = real("sensitivity", sensitivity, low=0.0, low_open=True)
    raw: FloatArray = array("losses", losses, data=True)
    outside = (raw < 0.0) | (raw > sensitivity)
    if outside.any():
        raise InvalidDataError(
            place("losses", outside),
            raw.dtype,
            f"is outside [0, {sensitivity:g}]: the privacy guarantee rests on that range",
            f"declare how large a loss can be with sensitivity; {STARS:g} for losses in stars",
        )
    return raw / sensitivity


def assigned(losses: npt.ArrayLike, *, clients: int, rng: np.random.Generator) -> FloatArray:
    """People's losses dealt to clients and rounds in random order, shape ``(clients, people // clients, experts)``.

    Each person is one client's loss of one round; people left over are in none.

    Args:
        losses: Shape (people, experts), scaled to [0, 1].
        clients: m, from 1 to the number of people.
        rng: Shuffles the people.

    Raises:
        InvalidArgumentError: losses outside [0, 1] or of the wrong shape, or more clients than people.
    """
    rows = scaled_losses(array("losses", losses, ndim=2, data=True))
    m = integer("clients", clients, low=1, high=len(rows))
    rounds = len(rows) // m
    return rows[rng.permutation(len(rows))[: m * rounds]].reshape(m, rounds, -1)


# --- where ratings come from -----------------------------------------------------------------------------------------


def read_movielens(folder: str | Path) -> Ratings:
    """Ratings from ``ratings.dat`` and ``movies.dat`` of a folder, in the format of MovieLens-1M.

    Lines are ``UserID::MovieID::Rating::Timestamp`` and ``MovieID::Title::Genre|Genre|...``, in Latin-1. People are in
    ascending order of their number, genres in alphabetical order; films without a genre count in none.

    Raises:
        InvalidArgumentError: a file that can't be read or has no line; a line of another form, a rating outside 1 .. 5
            (or 0.5 .. 5 in halves), a film rated that is unknown or a number of a film twice.
    """
    films: dict[int, list[str]] = {}
    for where, parts in _lines(Path(folder) / "movies.dat", fields=3):
        number = _number(where, parts[0], int)
        if number in films:
            raise InvalidArgumentError(where, parts[0], "is the number of two films")
        names = dict.fromkeys(parts[-1].split("|"))
        films[number] = [name for name in names if name and name != "(no genres listed)"]
    genres = tuple(sorted({name for names in films.values() for name in names}))
    column = {name: j for j, name in enumerate(genres)}
    everybody: set[int] = set()
    people, kinds, stars = [], [], []
    for where, parts in _lines(Path(folder) / "ratings.dat", fields=4):
        film, rating = _number(where, parts[1], int), _number(where, parts[2], float)
        if film not in films:
            raise InvalidArgumentError(where, parts[1], "is a film that movies.dat does not have")
        if not (0.5 <= rating <= STARS and float(2.0 * rating).is_integer()):
            raise InvalidArgumentError(where, parts[2], "is no number of stars", "expected 0.5, 1, ..., 5")
        person = _number(where, parts[0], int)
        everybody.add(person)
        for name in films[film]:
            people.append(person)
            kinds.append(column[name])
            stars.append(rating)
    rows = np.searchsorted(np.array(sorted(everybody)), np.array(people, dtype=np.int64))
    kind = np.array(kinds, dtype=np.int64)
    return _summed(genres, len(everybody), rows, kind, np.array(stars, dtype=np.float64))


def _lines(file: Path, *, fields: int) -> list[tuple[str, list[str]]]:
    """The lines of a file in fields, each with its place for an error message."""
    try:
        text = file.read_text(encoding="latin-1")
    except OSError as error:
        reason = f"{file.name} can't be read: {error.strerror}"
        raise InvalidArgumentError("folder", str(file.parent), reason) from error
    found = [(f"{file.name}:{n}", line.split("::")) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not found:
        raise InvalidArgumentError("folder", str(file.parent), f"{file.name} is empty")
    for where, parts in found:
        if len(parts) != fields:
            raise InvalidArgumentError(where, "::".join(parts), f"has {len(parts)} fields", f"expected {fields}, by ::")
        parts[-1] = parts[-1].rstrip("\r")
    return found


def _number(where: str, text: str, kind: Callable[[str], Number]) -> Number:
    try:
        return kind(text)
    except ValueError:
        raise InvalidArgumentError(where, text, "is no number") from None


def _summed(
    genres: tuple[str, ...], people: int, rows: npt.NDArray[Any], kinds: npt.NDArray[Any], stars: FloatArray
) -> Ratings:
    shape = (people, len(genres))
    cells, size = rows * len(genres) + kinds, people * len(genres)
    return Ratings(
        genres=genres,
        counts=np.bincount(cells, minlength=size).reshape(shape),
        sums=np.bincount(cells, weights=stars, minlength=size).reshape(shape),
    )


def synthetic_ratings(rng: np.random.Generator, *, people: int = 6040) -> Ratings:
    """Made-up ratings with the sizes of MovieLens-1M: 18 genres, and 6040 people unless you want more or fewer.

    A person gives exp(N(4.45, 1)) ratings, within 20 .. 2314, spread over genres by a Dirichlet draw around their
    shares in MovieLens-1M. A rating is the genre's mean there, plus the person's leaning N(0, 0.43^2), plus its taste
    for the genre N(0, 0.25^2), plus N(0, 1.05^2), in whole stars from 1 to 5. The shares and means are approximate, and
    every rating counts in one genre, as if films had one each.

    Raises:
        InvalidArgumentError: ``people`` is no integer from 1 to 2^20.
    """
    people = integer("people", people, low=1, high=_MOST_PEOPLE)
    genres = tuple(_GENRES)
    shares, means = np.array(list(_GENRES.values())).T
    many = np.clip(np.rint(rng.lognormal(4.45, 1.0, people)), 20, 2314).astype(np.int64)
    counts = rng.multinomial(many, rng.dirichlet(60.0 * shares / shares.sum(), people))
    centres = means + rng.normal(0.0, 0.43, (people, 1)) + rng.normal(0.0, 0.25, (people, len(genres)))
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    stars = np.clip(np.rint(rng.normal(centres.ravel()[cells], 1.05)), 1.0, STARS)
    return _summed(genres, people, cells // len(genres), cells % len(genres), stars)
