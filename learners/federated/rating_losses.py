"""Losses from ratings of films: each client and round is one person, and the experts are genres.

R[u, g] is person u's mean rating of genre g, in stars, and g* is the genre with the best mean. The loss of recommending
g to u is max(0, R[u, g*] - R[u, g]), so g* never loses (Gao, Huang & Yang 2024, figure 6). Losses are in stars, between
0 and 5, and **a learner's guarantee is for losses in [0, 1]**: divide them by 5 before a learner sees them
(:func:`scaled_losses`), and multiply its regret by 5.

The guarantee protects one person's row of losses. g*, and the values that replace missing ratings, are computed from
all ratings and count as public; declare g* with ``reference`` if they are not.

:func:`read_movielens` reads ratings from the files of MovieLens-1M, which you have to download yourself;
:func:`synthetic_ratings` draws similar ones.
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
from hockeystick.accounting.files.reading import UnreadableFileError, read_bytes
from hockeystick.accounting.validate import array, integer, items, one_of, place, real

Fill = Literal["zero", "mean"]
Number = TypeVar("Number", int, float)

_MOST_PEOPLE = 2**18  # of made-up ratings: some forty million ratings

STARS = 5.0
"""The best rating, and with it the largest loss."""

# Genres of MovieLens-1M: the number of ratings of films of that genre, and their mean; approximate.
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
        raise InvalidArgumentError("genres", value, "are not two or more different names", "give distinct strings")
    return tuple(names)


def _counts(value: object) -> FloatArray:
    return array("counts", value, ndim=2, low=0.0, data=True)


def _sums(value: object) -> FloatArray:
    return array("sums", value, ndim=2, low=0.0, data=True)


@frozen(eq=False, kw_only=True)
class Ratings:
    """The number and the sum of each person's ratings of films of each genre.

    A film of several genres counts in each. See :func:`synthetic_ratings` for an example.

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
            raise InvalidDataError("counts", self.counts, "are not whole numbers", "give numbers of ratings")
        if (self.sums > STARS * self.counts).any():
            raise InvalidDataError("sums", self.sums, "hold more than 5 stars per rating", "give ratings in stars")

    @property
    def people(self) -> int:
        """The number of people."""
        return len(self.counts)

    def genre_means(self) -> FloatArray:
        """Returns the mean rating of each genre, shape (genres,); for a genre without ratings the overall mean."""
        everything = self.sums.sum() / max(1.0, self.counts.sum())
        counts = self.counts.sum(axis=0)
        found: FloatArray = np.where(counts > 0.0, self.sums.sum(axis=0) / np.maximum(counts, 1.0), everything)
        return found

    def table(self, fill: Fill) -> FloatArray:
        """Returns R: each person's mean rating of each genre, shape (people, genres), in stars.

        Args:
            fill: The value for a genre that a person has not rated: "zero", or the genre's "mean" over all ratings.

        Raises:
            InvalidArgumentError: an unknown ``fill``.
        """
        one_of("fill", fill, *get_args(Fill))
        missing = self.genre_means() if fill == "mean" else np.zeros(len(self.genres))
        rated: FloatArray = np.where(self.counts > 0.0, self.sums / np.maximum(self.counts, 1.0), missing)
        return rated

    def best_genre(self, fill: Fill) -> str:
        """Returns g*: the genre with the largest mean over people, and the first of them if several tie.

        Raises:
            InvalidArgumentError: an unknown ``fill``.
        """
        return self.genres[int(np.argmax(self.table(fill).mean(axis=0)))]

    def losses(self, fill: Fill, *, reference: str | None = None) -> FloatArray:
        """Returns max(0, R[u, g*] - R[u, g]) in **stars**, shape (people, genres); see :func:`scaled_losses`.

        Args:
            fill: As for :meth:`table`.
            reference: g*. By default it is computed from the ratings.

        Raises:
            InvalidArgumentError: an unknown ``fill`` or genre.
        """
        best = self.best_genre(fill) if reference is None else reference
        if best not in self.genres:
            raise InvalidArgumentError(
                "reference", reference, "is not a genre of these ratings", f"use one of {', '.join(self.genres)}"
            )
        table = self.table(fill)
        return np.maximum(0.0, table[:, [self.genres.index(best)]] - table)


def scaled_losses(losses: npt.ArrayLike, *, sensitivity: float = 1.0) -> FloatArray:
    """Returns losses in [0, sensitivity] divided by ``sensitivity``, for a learner of losses in [0, 1].

    Losses in stars need ``sensitivity=5`` (:data:`STARS`). The caller declares it, because it must not be computed from
    the losses: their maximum is private.

    Raises:
        InvalidArgumentError: a loss outside [0, sensitivity], NaN, or a sensitivity that is not positive.

    Example:
        >>> from hockeystick.learners.federated import scaled_losses
        >>> scaled_losses([[0.0, 2.5, 5.0]], sensitivity=5).tolist()
        [[0.0, 0.5, 1.0]]
    """
    sensitivity = real("sensitivity", sensitivity, low=0.0, low_open=True)
    raw: FloatArray = array("losses", losses, data=True)
    outside = (raw < 0.0) | (raw > sensitivity)
    if outside.any():
        raise InvalidDataError(
            place("losses", outside),
            raw.dtype,
            f"is outside [0, {sensitivity:g}]: the privacy guarantee rests on that range",
            f"declare the largest possible loss with sensitivity; {STARS:g} for losses in stars",
        )
    return raw / sensitivity


def assigned(losses: npt.ArrayLike, *, clients: int, rng: np.random.Generator) -> FloatArray:
    """Returns the losses of people, dealt to clients and rounds at random: ``(clients, people // clients, experts)``.

    Each person is one client's loss of one round; people who are left over are dropped.

    Args:
        losses: Shape (people, experts), scaled to [0, 1].
        clients: m, from 1 to the number of people.
        rng: Generator that shuffles the people.

    Raises:
        InvalidArgumentError: losses outside [0, 1] or of the wrong shape, or more clients than people.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import assigned
        >>> assigned(np.random.default_rng(1).random((100, 18)), clients=8, rng=np.random.default_rng(2)).shape
        (8, 12, 18)
    """
    rows = scaled_losses(array("losses", losses, ndim=2, data=True))
    m = integer("clients", clients, low=1, high=len(rows))
    rounds = len(rows) // m
    return rows[rng.permutation(len(rows))[: m * rounds]].reshape(m, rounds, -1)


# --- sources of ratings ----------------------------------------------------------------------------------------------


def read_movielens(folder: str | Path) -> Ratings:
    """Returns the ratings in ``ratings.dat`` and ``movies.dat`` of a folder, in the format of MovieLens-1M.

    Lines are ``UserID::MovieID::Rating::Timestamp`` and ``MovieID::Title::Genre|Genre|...``, in Latin-1. People are in
    ascending order of their numbers, genres in alphabetical order. Films without a genre are ignored.

    Raises:
        InvalidArgumentError: a file that can't be read or is empty; a line of another form, a rating outside 1 .. 5
            (or 0.5 .. 5 in halves), a rating of an unknown film, or two films with the same number.

    Example:
        >>> import pathlib, tempfile
        >>> from hockeystick.learners.federated import read_movielens
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "movies.dat").write_text("1::Alien::Horror|Sci-Fi\\n2::Heat::Crime\\n")
        >>> _ = (folder / "ratings.dat").write_text("7::1::5::0\\n7::2::3::0\\n9::2::4::0\\n")
        >>> ratings = read_movielens(folder)
        >>> ratings.people, dict(zip(ratings.genres, ratings.genre_means().tolist()))
        (2, {'Crime': 3.5, 'Horror': 5.0, 'Sci-Fi': 5.0})
    """
    films: dict[int, list[str]] = {}
    for where, parts in _lines(Path(folder) / "movies.dat", fields=3):
        number = _number(where, parts[0], int)
        if number in films:
            raise InvalidDataError(where, parts[0], "is the number of an earlier film", "number the films uniquely")
        names = dict.fromkeys(parts[-1].split("|"))
        films[number] = [name for name in names if name and name != "(no genres listed)"]
    genres = tuple(sorted({name for names in films.values() for name in names}))
    column = {name: j for j, name in enumerate(genres)}
    everybody: set[int] = set()
    people, kinds, stars = [], [], []
    for where, parts in _lines(Path(folder) / "ratings.dat", fields=4):
        film, rating = _number(where, parts[1], int), _number(where, parts[2], float)
        if film not in films:
            raise InvalidDataError(where, parts[1], "is not a film of movies.dat", "add it there")
        if not (0.5 <= rating <= STARS and float(2.0 * rating).is_integer()):
            raise InvalidDataError(where, parts[2], "is not a number of stars", "expected 0.5, 1, ..., 5")
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
    """The fields of each line of a file, with the line's place for an error message."""
    try:
        text = read_bytes(file).decode("latin-1")
    except UnreadableFileError as error:
        raise InvalidArgumentError("folder", str(file.parent), f"{file.name} {error}", "give a full copy") from None
    found = [(f"{file.name}:{n}", line.split("::")) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not found:
        raise InvalidArgumentError("folder", str(file.parent), f"{file.name} is empty", "give a full copy")
    for where, parts in found:
        if len(parts) != fields:
            raise InvalidDataError(where, "::".join(parts), f"has {len(parts)} fields", f"expected {fields}, by ::")
        parts[-1] = parts[-1].rstrip("\r")
    return found


def _number(where: str, text: str, kind: Callable[[str], Number]) -> Number:
    try:
        return kind(text)
    except ValueError:
        pass  # its text shows the record, so it must not be the context of the error
    raise InvalidDataError(where, text, "is not a number", "correct that line")


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
    """Returns synthetic ratings of the size of MovieLens-1M: 18 genres, and 6040 people by default.

    A person gives exp(N(4.45, 1)) ratings, within 20 .. 2314, spread over genres by a Dirichlet draw around their
    shares in MovieLens-1M. A rating is the mean of the genre there, plus the leniency N(0, 0.43^2) of the person, plus
    the person's taste N(0, 0.25^2) for the genre, plus N(0, 1.05^2), in whole stars from 1 to 5. The shares and means
    are approximate, and each rating counts in one genre, as if each film had one.

    Raises:
        InvalidArgumentError: ``people`` is not an integer from 1 to 2^18.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import synthetic_ratings
        >>> ratings = synthetic_ratings(np.random.default_rng(1), people=200)
        >>> ratings.best_genre("mean")
        'Film-Noir'
        >>> losses = ratings.losses("mean") / 5  # stars, divided by 5 for a learner
        >>> losses.shape, bool(losses.max() <= 1)
        ((200, 18), True)
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
