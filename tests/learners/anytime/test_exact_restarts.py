"""The largest ratio of probabilities of whole runs, in exact fractions, over all outcomes of all coins.

The sessions are those of the library. The learner draws one of two experts with odds 3 to the power of minus their
losses, afresh in each of its rounds; of an epoch of two rounds the second draw alone depends on losses. So a person
costs ln 3 in an epoch, exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from attrs import define, field

from hockeystick.accounting import AccountantGraph, Adjacency, PureDP
from hockeystick.learners import Anytime, RegretBound
from hockeystick.learners.anytime import restart_stream
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.mechanisms import SimulationNoise

ROUNDS = 4
ODDS = Fraction(1, 3)
NOTHING, HIT = (0, 0), "the expert just played has loss 1"


@define
class Coins:
    """Coins whose outcomes are given in advance, as far as they go, and 0 from there on."""

    script: list[int]
    chance: Fraction = Fraction(1)
    at: int = 0

    def expert(self, sums: list[int]) -> int:
        if self.at == len(self.script):
            self.script.append(0)
        found = self.script[self.at]
        weights = [ODDS**loss for loss in sums]
        self.chance *= weights[found] / sum(weights)
        self.at += 1
        return found


def law(run: Callable[[Coins], Any]) -> dict[Any, Fraction]:
    """Returns the probability of each outcome of ``run``."""
    found: dict[Any, Fraction] = {}
    script: list[int] = []
    while True:
        coins = Coins(script)
        outcome = run(coins)
        found[outcome] = found.get(outcome, Fraction(0)) + coins.chance
        while script and script[-1] == 1:
            script.pop()
        if not script:
            return found
        script[-1] = 1


@define(eq=False)
class Fresh(OnlineLearner):
    """The learner, whose runs take their coins from ``world``."""

    rounds: int
    world: World

    def graph(self) -> AccountantGraph:
        plan = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True).source("rounds")
        return plan.release("draws", PureDP(math.log(3.0)), reads=("rounds",)) if self.rounds > 1 else plan

    def start(self, **given: Any) -> Any:
        return Draws(self.world.coins, self.world.sums if self.world.mutant == "warm start" else [0, 0])

    resume = release = start

    def regret_bound(self, *, adversary: Any = "oblivious") -> RegretBound:
        return RegretBound(self.rounds, most=self.rounds, adversary=adversary)


@define(eq=False)
class Draws:
    """A run of it."""

    coins: Coins
    sums: list[int]
    round: int = 0
    simulated: bool = True
    _drawn: int | None = field(default=None, init=False)

    def predict(self) -> int:
        if self._drawn is None:
            self._drawn = self.coins.expert(self.sums)
        return self._drawn

    def update(self, losses: tuple[int, int]) -> None:
        self.sums[:] = [total + loss for total, loss in zip(self.sums, losses, strict=True)]
        self.round, self._drawn = self.round + 1, None


class World:
    """A restarted learner, and what its mutants remember of a run."""

    def __init__(self, mutant: str | None) -> None:
        self.mutant = mutant
        self.learner = Anytime(
            lambda rounds: (Fresh(1, self), Fresh(2, self)), ratio=2, first=2, epochs=ROUNDS, select=self.select
        )

    def select(self, epoch: int, played: Any) -> int:
        if self.mutant == "cut at a sum of losses":
            return int(sum(self.seen) < 1)
        return int(not len(played) or played[-1] == 0)  # by the last play

    def transcript(self, stream: tuple[Any, ...], coins: Coins) -> tuple[int, ...]:
        """Returns what a run publishes: the plays, and in which epoch each of them is."""
        self.coins, self.sums, self.seen = coins, [0, 0], []
        session, found = restart_stream.AnytimeStream(self.learner, SimulationNoise(1)), []
        session._begin()  # what start does when the ledger has taken the charge
        for losses in stream:
            play = session.predict()
            found += [play, session.epoch]
            given = tuple(int(play == i) for i in (0, 1)) if losses == HIT else losses
            session.update(given)
            self.seen.append(given[0])
        return tuple(found)


def largest_ratio(mutant: str | None) -> Fraction | float:
    """Returns it over all rounds, neighbouring losses of it, and streams of the others that may follow the plays."""
    worst: Fraction | float = Fraction(0)
    world = World(mutant)
    for at in range(ROUNDS):
        for others in itertools.product((NOTHING, HIT), repeat=ROUNDS - 1):
            streams = [(*others[:at], own, *others[at:]) for own in ((0, 1), (1, 0))]
            p, q = (law(partial(world.transcript, stream)) for stream in streams)
            assert sum(p.values()) == sum(q.values()) == 1
            if p.keys() != q.keys():
                return math.inf
            worst = max(worst, *(p[seen] / q[seen] for seen in p), *(q[seen] / p[seen] for seen in p))
    return worst


def test_the_largest_ratio_is_that_of_one_epoch() -> None:
    """With adaptive losses, and with epochs whose length is set by the play before them."""
    assert largest_ratio(None) == 3
    assert World(None).learner.guarantee().epsilon(0.0).upper == pytest.approx(math.log(3.0))


def test_a_warm_start_is_paid_for_again() -> None:
    assert largest_ratio("warm start") == 105


def test_a_cut_at_an_unpublished_sum_shows_it() -> None:
    assert largest_ratio("cut at a sum of losses") == math.inf
