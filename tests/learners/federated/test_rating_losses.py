"""Tests of losses from ratings: their definition by hand, the files, the made-up twin, and the check of the range."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.learners.experts import checked_losses
from hockeystick.learners.federated.limited_updates import LimitedUpdates
from hockeystick.learners.federated.one_good_expert.fed_svt import FedSVT
from hockeystick.learners.federated.rating_losses import (
    Ratings,
    assigned,
    read_movielens,
    scaled_losses,
    synthetic_ratings,
)
from hockeystick.learners.federated.stochastic.calibration import one_release
from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting

MOVIES = """1::Amélie (2001)::Comedy|Romance
2::Alien (1979)::Sci-Fi
3::Airplane! (1980)::Comedy
9::Untitled::(no genres listed)
"""
RATINGS = """7::1::5::978300760
7::3::2::978300761
3::2::4::978300762
3::1::1::978300763
12::9::3::978300764
"""


def files(folder: Path, movies: str = MOVIES, ratings: str = RATINGS) -> Path:
    (folder / "movies.dat").write_bytes(movies.encode("latin-1"))
    (folder / "ratings.dat").write_bytes(ratings.encode("latin-1"))
    return folder


def close(found: npt.ArrayLike, rows: list[list[float]]) -> None:
    np.testing.assert_allclose(np.asarray(found), np.array(rows))


def small() -> Ratings:
    """People 3, 7 and 12 of the files."""
    return Ratings(
        genres=("Comedy", "Romance", "Sci-Fi"),
        counts=np.array([[1, 1, 1], [2, 1, 0], [0, 0, 0]]),
        sums=np.array([[1, 1, 4], [7, 5, 0], [0, 0, 0]]),
    )


# --- the definition --------------------------------------------------------------------------------------------------


def test_tables_by_hand() -> None:
    ratings = small()
    assert ratings.people == 3
    close([ratings.genre_means()], [[8 / 3, 3.0, 4.0]])
    close(ratings.table("zero"), [[1, 1, 4], [3.5, 5, 0], [0, 0, 0]])
    close(ratings.table("mean"), [[1, 1, 4], [3.5, 5, 4], [8 / 3, 3, 4]])


def test_losses_by_hand() -> None:
    ratings = small()
    assert ratings.best_genre("zero") == "Romance" and ratings.best_genre("mean") == "Sci-Fi"
    close(ratings.losses("zero"), [[0, 0, 0], [1.5, 0, 5], [0, 0, 0]])
    close(ratings.losses("mean"), [[3, 3, 0], [0.5, 0, 0], [4 / 3, 1, 0]])
    close(ratings.losses("mean", reference="Comedy"), [[0, 0, 0], [0, 0, 0], [0, 0, 0]])
    close(ratings.losses("zero", reference="Comedy"), [[0, 0, 0], [0, 0, 3.5], [0, 0, 0]])


def test_a_genre_that_nobody_has_rated_has_the_mean_of_all() -> None:
    ratings = Ratings(genres=("a", "b"), counts=[[2, 0]], sums=[[6, 0]])
    np.testing.assert_allclose(ratings.table("mean"), [[3.0, 3.0]])
    np.testing.assert_allclose(Ratings(genres=("a", "b"), counts=[[0, 0]], sums=[[0, 0]]).table("mean"), 0.0)


@given(people=st.integers(1, 30), seed=st.integers(0, 2**32), fill=st.sampled_from(["zero", "mean"]))
def test_the_best_genre_never_loses(people: int, seed: int, fill: Any) -> None:
    ratings = synthetic_ratings(np.random.default_rng(seed), people=people)
    losses = ratings.losses(fill)
    assert losses.min() >= 0.0 and losses.max() <= 5.0
    assert not losses[:, ratings.genres.index(ratings.best_genre(fill))].any()


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"genres": ("a",)}, "genres"),
        ({"genres": ("a", "a")}, "genres"),
        ({"genres": ("a", "")}, "genres"),
        ({"genres": "ab"}, "genres"),
        ({"counts": [[1, 2]]}, "sums"),
        ({"counts": [[1, 2, 3], [1, 2, 3]]}, "counts"),
        ({"counts": [[0.5, 2], [1, 1]]}, "whole"),
        ({"counts": [[-1, 2], [1, 1]]}, "counts"),
        ({"counts": [[math.nan, 2], [1, 1]]}, "counts"),
        ({"sums": [[6, 0], [0, 0]]}, "more than 5"),
        ({"sums": [[-1, 0], [0, 0]]}, "sums"),
        ({"counts": np.zeros((0, 2)), "sums": np.zeros((0, 2))}, "people"),
    ],
)
def test_tables_are_checked(changed: dict[str, Any], match: str) -> None:
    good: dict[str, Any] = {"genres": ("a", "b"), "counts": [[1, 2], [1, 1]], "sums": [[5, 6], [1, 2]]}
    assert Ratings(**good).people == 2
    with pytest.raises(InvalidArgumentError, match=match):
        Ratings(**{**good, **changed})


def test_choices_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="fill"):
        small().losses("median")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="reference"):
        small().losses("zero", reference="Western")


# --- the range -------------------------------------------------------------------------------------------------------


def test_losses_in_stars_are_refused_unless_declared() -> None:
    raw = small().losses("zero")
    for refused in (lambda: scaled_losses(raw), lambda: assigned(raw, clients=1, rng=np.random.default_rng(1))):
        with pytest.raises(InvalidArgumentError, match="sensitivity") as error:
            refused()
        assert error.value.argument.startswith("losses[") and "5.0" not in str(error.value)
    with pytest.raises(InvalidArgumentError, match=r"\[0, 1\]"):
        checked_losses("losses", raw, rounds=3, experts=3)  # the door of every learner of experts
    np.testing.assert_allclose(scaled_losses(raw, sensitivity=5), raw / 5.0)
    scaled = scaled_losses(raw, sensitivity=5)
    np.testing.assert_array_equal(checked_losses("losses", scaled, rounds=3, experts=3), scaled)


def test_federated_learners_refuse_losses_in_stars() -> None:
    raw = synthetic_ratings(np.random.default_rng(1), people=30).losses("zero")
    svt = FedSVT.calibrated(clients=2, rounds=15, experts=18, epsilon=1.0)
    alone = LimitedUpdates(rounds=15, experts=18, learning_rate=1.0)
    setting = one_release(StochSetting(clients=2, phases=(None, None, None)))
    stochastic = FedStoch(setting=setting, rounds=15, experts=18)

    def play(losses: npt.ArrayLike) -> None:
        rows = np.asarray(losses).reshape(2, 15, 18)
        for run in (svt.simulate, stochastic.simulate):
            run(rows, np.random.default_rng(1), 1)
        alone.average(rows)

    play(scaled_losses(raw, sensitivity=5))
    for learner in (svt, stochastic):
        with pytest.raises(InvalidArgumentError):
            learner.simulate(raw.reshape(2, 15, 18), np.random.default_rng(1), 1)
    with pytest.raises(InvalidArgumentError):
        alone.average(raw.reshape(2, 15, 18))


@pytest.mark.parametrize("bad", [0.0, -5, math.nan, math.inf, True, "5"])
def test_sensitivities_are_checked(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="sensitivity"):
        scaled_losses([[0.5]], sensitivity=bad)


@pytest.mark.parametrize("bad", [[[math.nan]], [[-0.1]], [[1.0, 2.0], [1.0]], [["x"]], [[True]]])
def test_losses_are_checked(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="losses"):
        scaled_losses(bad, sensitivity=5)


@given(people=st.integers(1, 40), data=st.data(), seed=st.integers(0, 2**32))
def test_each_person_is_assigned_at_most_once(people: int, data: st.DataObject, seed: int) -> None:
    clients = data.draw(st.integers(1, people))
    losses = np.stack([np.arange(people), np.zeros(people)], axis=1) / people
    dealt = assigned(losses, clients=clients, rng=np.random.default_rng(seed))
    assert dealt.shape == (clients, people // clients, 2)
    numbers = np.sort(dealt[:, :, 0].ravel())
    assert (np.diff(numbers) > 0.0).all() and np.isin(numbers, losses[:, 0]).all()


def test_more_clients_than_people_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="clients"):
        assigned(np.zeros((3, 2)), clients=4, rng=np.random.default_rng(1))


# --- the files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rating_files_are_read(tmp_path: Path, end: str) -> None:
    read = read_movielens(files(tmp_path, MOVIES.replace("\n", end), RATINGS.replace("\n", end)))
    assert read.genres == small().genres
    np.testing.assert_array_equal(read.counts, small().counts)
    np.testing.assert_array_equal(read.sums, small().sums)


def test_a_genre_named_twice_counts_once(tmp_path: Path) -> None:
    read = read_movielens(files(tmp_path, MOVIES.replace("Comedy|Romance", "Comedy|Romance|Comedy")))
    np.testing.assert_array_equal(read.counts, small().counts)


def test_files_give_the_same_pipeline_as_the_twin(tmp_path: Path) -> None:
    """Ratings written as files and read again give the same losses."""
    rng = np.random.default_rng(3)
    people, films = 30, 12
    kinds = [f"genre {j}" for j in range(4)]
    movies = "".join(f"{n}::Film {n}::{kinds[n % 4]}\n" for n in range(films))
    stars = rng.integers(1, 6, (people, films))
    ratings = "".join(f"{u + 1}::{n}::{stars[u, n]}::0\n" for u in range(people) for n in range(films) if (u + n) % 3)
    read = read_movielens(files(tmp_path, movies, ratings))
    table = np.array([
        [np.mean([stars[u, n] for n in range(films) if n % 4 == j and (u + n) % 3]) for j in range(4)]
        for u in range(people)
    ])  # fmt: skip
    best = int(np.argmax(table.mean(axis=0)))
    assert read.best_genre("zero") == kinds[best]
    np.testing.assert_allclose(read.losses("zero"), np.maximum(0.0, table[:, [best]] - table))


@pytest.mark.parametrize(
    ("movies", "ratings", "match"),
    [
        ("", RATINGS, "movies.dat"),
        (MOVIES, "", "ratings.dat"),
        (MOVIES + "4::Only two\n", RATINGS, "movies.dat:5"),
        (MOVIES + "x::Film::Drama\n", RATINGS, "movies.dat:5"),
        (MOVIES + "1::Film::Drama\n", RATINGS, "earlier film"),
        (MOVIES, RATINGS + "7::1::5\n", "ratings.dat:6"),
        (MOVIES, RATINGS + "7::1::x::0\n", "ratings.dat:6"),
        (MOVIES, RATINGS + "x::1::3::0\n", "ratings.dat:6"),
        (MOVIES, RATINGS + "7::4::3::0\n", "ratings.dat:6"),
        (MOVIES, RATINGS + "7::1::6::0\n", "stars"),
        (MOVIES, RATINGS + "7::1::0::0\n", "stars"),
        (MOVIES, RATINGS + "7::1::nan::0\n", "stars"),
        (MOVIES, RATINGS + "7::1::inf::0\n", "stars"),
        (MOVIES, RATINGS + "7::1::3.2::0\n", "stars"),
        ("1::Film::Drama\n2::Film::(no genres listed)\n", "1::1::3::0\n", "genres"),
    ],
)
def test_files_are_checked(tmp_path: Path, movies: str, ratings: str, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        read_movielens(files(tmp_path, movies, ratings))


@pytest.mark.parametrize("line", ["7::1::4.321::0", "7::4321::3::0", "4321", "7::1::x4321::0", "x4321::1::3::0"])
def test_errors_do_not_show_a_record(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidDataError) as caught:
        read_movielens(files(tmp_path, MOVIES, RATINGS + line + "\n"))
    assert caught.value.argument == "ratings.dat:6" and caught.value.__context__ is None
    assert "321" not in repr(caught.value) + str(caught.value) + str(vars(caught.value))


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"movies\.dat"):
        read_movielens(tmp_path)


# --- the twin --------------------------------------------------------------------------------------------------------


def test_the_made_up_twin_has_the_stated_statistics() -> None:
    """The best genres are those of the two fillings; sizes are those of the definition."""
    ratings = synthetic_ratings(np.random.default_rng(1))
    assert ratings.people == 6040 and len(ratings.genres) == 18
    each = ratings.counts.sum(axis=1)
    assert each.min() == 20 and each.max() == 2314 and each.sum() > 700_000
    assert ratings.best_genre("zero") == "Drama" and ratings.best_genre("mean") == "Film-Noir"
    shares = dict(zip(ratings.genres, ratings.counts.sum(axis=0) / each.sum(), strict=True))
    assert shares["Comedy"] == pytest.approx(356580 / 2101815, abs=0.01)
    assert shares["Documentary"] == pytest.approx(7910 / 2101815, abs=0.001)
    means = dict(zip(ratings.genres, ratings.genre_means(), strict=True))
    assert min(means, key=lambda name: means[name]) == "Horror" and means["Horror"] == pytest.approx(3.2, abs=0.1)
    assert ratings.losses("zero").max() == 5.0 and ratings.losses("mean").max() <= 4.0
    np.testing.assert_array_equal(ratings.sums, synthetic_ratings(np.random.default_rng(1)).sums)


@pytest.mark.parametrize("bad", [0, 1.5, True, math.nan])
def test_people_are_checked(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="people"):
        synthetic_ratings(np.random.default_rng(1), people=bad)
