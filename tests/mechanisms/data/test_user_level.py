"""Tests of users as the unit: bounded owners by brute force, sums clipped by user, and laws of sampled users."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from hockeystick.accounting import (
    Adjacency,
    Gaussian,
    InvalidArgumentError,
    InvalidDataError,
    Laplace,
    PoissonSampled,
    PoissonSampledReplace,
    UnsupportedAdjacencyError,
)
from hockeystick.mechanisms import BoundedOwners, SimulationNoise, UserClippedSum, UserSample

ADD, NULL, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL, Adjacency.REPLACE_ONE


class TestBoundedOwners:
    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("most", [1, 2, 3])
    def test_no_user_owns_more_and_no_record_could_be_added(self, seed: int, most: int) -> None:
        rng = np.random.default_rng(seed)
        owners = [rng.choice(6, size=rng.integers(1, 4), replace=False).tolist() for _ in range(20)]
        mask = BoundedOwners(most)(owners, priorities=rng.random(20))
        counts = {user: sum(user in one for one, kept in zip(owners, mask, strict=True) if kept) for user in range(6)}
        assert max(counts.values()) <= most
        for one, kept in zip(owners, mask, strict=True):
            assert kept or any(counts[user] == most for user in one)

    def test_records_with_few_owners_come_first_then_priorities(self) -> None:
        owners = [["a", "b"], ["a"], ["b"], ["b"]]
        assert BoundedOwners(1)(owners).tolist() == [False, True, True, False]
        assert BoundedOwners(1)(owners, priorities=[0, 0, 2, 1]).tolist() == [False, True, False, True]
        assert BoundedOwners(1)([]).tolist() == []

    def test_a_user_who_leaves_may_make_room_for_any_number_of_records(self) -> None:
        """Why add-or-remove-one is refused: without u, who owns one kept record with each other user, all change."""
        others = range(1, 6)
        owners = [[0, user] for user in others] + [[user, 10 + user, 20 + user] for user in others]
        with_user = BoundedOwners(5)(owners).sum()
        bound = BoundedOwners(1)
        first = bound([[0], *owners])  # u has a record of its own, and its common ones are out: the others' are in
        assert first.tolist() == [True, *[False] * 5, *[True] * 5]
        assert with_user == 10
        with pytest.raises(UnsupportedAdjacencyError, match="makes room"):
            bound.stability(ADD)

    def test_contents_of_one_user_change_at_most_that_many_kept_records(self) -> None:
        owners = [one for size in (1, 2, 3) for one in itertools.combinations(range(4), size)]
        for most in (1, 2, 5):
            bound = BoundedOwners(most)
            mask = bound(owners)
            for user in range(4):
                changed = sum(user in one for one, kept in zip(owners, mask, strict=True) if kept)
                assert changed <= bound.stability(NULL)["records", "records"] == most
        assert BoundedOwners(3).stability(REPLACE, unit="record") == {("records", "records"): 1.0}

    def test_bad_owners_are_refused(self) -> None:
        for owners, message in (([[]], "no owner"), ([["a", "a"]], "twice"), ("ab", "list")):
            with pytest.raises(InvalidArgumentError, match=message):
                BoundedOwners(1)(owners)
        with pytest.raises(InvalidArgumentError, match="priorities"):
            BoundedOwners(1)([["a"]], priorities=[math.nan])
        with pytest.raises(InvalidArgumentError, match="unit"):
            BoundedOwners(1).stability(NULL, unit="client")


class TestUserClippedSum:
    @pytest.mark.parametrize("seed", range(5))
    def test_a_person_moves_it_by_at_most_the_bound(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        rows, persons = rng.normal(scale=3.0, size=(12, 3)), rng.integers(0, 4, size=12)
        total = UserClippedSum(1.5)
        whole = total(rows, persons)
        for person in range(4):
            stay = persons != person
            assert np.linalg.norm(whole - total(rows[stay], persons[stay])) <= 1.5 * (1 + 1e-12)
        assert total.stability(ADD)["records", "l2"] == 1.5
        assert total.stability(REPLACE)["records", "l2"] == 3.0
        exact = sum(
            (part := rows[persons == p].sum(axis=0)) * min(1.0, 1.5 / np.linalg.norm(part)) for p in set(persons)
        )
        assert np.allclose(whole, exact, atol=1e-6)

    def test_bad_data_are_refused(self) -> None:
        with pytest.raises(InvalidDataError, match="each row"):
            UserClippedSum(1.0)([[1.0]], ["a", "b"])
        with pytest.raises(InvalidDataError):
            UserClippedSum(1.0)([[math.nan]], ["a"])
        with pytest.raises(InvalidArgumentError):
            UserClippedSum(0.0)
        assert UserClippedSum(1.0)(np.zeros((0, 2)), []).tolist() == [0.0, 0.0]


class TestUserSample:
    persons = np.array([3, 5, 3, 3, 5, 9])

    def test_users_join_with_all_their_records(self) -> None:
        masks = UserSample(0.5).simulate(self.persons, np.random.default_rng(1), 500)
        for user in (3, 5, 9):
            part = masks[:, self.persons == user]
            assert (part.all(axis=1) == part.any(axis=1)).all()
        drawn = UserSample(1.0).draw(self.persons, noise=SimulationNoise(1))
        assert drawn.tolist() == list(range(6))
        assert not len(UserSample(0.0).draw(self.persons, noise=SimulationNoise(1)))
        assert not len(UserSample(1.0, most_records=2).draw([], noise=SimulationNoise(1)))

    @pytest.mark.statistical
    def test_rates_of_records_are_those_of_the_two_steps(self) -> None:
        """Hoeffding: a mean of n coins is off by √(ln(2e6·14)/2n) with probability at most 1e-6 for all 14 of them."""
        sample, n = UserSample(0.4, most_records=2), 40_000
        off = math.sqrt(math.log(2e6 * 14) / (2 * n))
        masks = sample.simulate(self.persons, np.random.default_rng(2), n)
        rates = np.where(self.persons == 3, 0.4 * 2 / 3, 0.4)
        assert np.abs(masks.mean(axis=0) - rates).max() <= off
        assert abs((masks[:, 0] & masks[:, 2]).mean() - 0.4 / 3) <= off
        assert masks[:, self.persons == 3].sum(axis=1).max() == 2
        noise, few = SimulationNoise(3), 2_000
        counts = np.zeros(6)
        for _ in range(few):
            counts[sample.draw(self.persons, noise=noise)] += 1
        assert np.abs(counts / few - rates).max() <= math.sqrt(math.log(2e6 * 14) / (2 * few))
        # the twin: rates of records that join on their own would be found out
        assert np.abs(masks.mean(axis=0) - 0.4).max() > off

    def test_events_are_those_of_a_user(self) -> None:
        sample = UserSample(0.1, most_records=4)
        assert sample.event(Gaussian(8.0)) == PoissonSampled(0.1, Gaussian(8.0).at(4))
        assert sample.event(Laplace(8.0), adjacency=REPLACE) == PoissonSampledReplace(0.1, Laplace(8.0).at(4))
        assert UserSample(0.1).event(Gaussian(8.0), clipped_by="user") == PoissonSampled(0.1, Gaussian(8.0))
        with pytest.raises(InvalidArgumentError, match="most_records"):
            UserSample(0.1).event(Gaussian(8.0))
        with pytest.raises(InvalidArgumentError, match="clipped_by"):
            sample.event(Gaussian(8.0), clipped_by="batch")
        with pytest.raises(UnsupportedAdjacencyError):
            sample.event(Gaussian(8.0), adjacency=Adjacency.LOCAL)
