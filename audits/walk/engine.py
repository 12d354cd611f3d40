"""The coin walk: batches of trials, whose data sets are guessed by scores that learn from all earlier batches.

A coin picks the data set of each trial before its output is drawn. Before a batch is drawn, the plan is made from the
outputs and coins of earlier batches: the number of guesses, and the claimed point. Then the outputs of the batch with
the largest absolute scores are guessed (ties: the earlier trial), by scores that were fitted to earlier batches alone.
Then the coins are shown. :mod:`hockeystick.audits.bounds.side_guesses` has the test and its proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
from attrs import define, evolve, field, frozen

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.audits.attacks.classifiers import Attack
from hockeystick.audits.attacks.partitions import Evidence
from hockeystick.audits.bounds.side_guesses import GuessWalk
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.outputs.cells import real_blocks
from hockeystick.audits.outputs.reading import Layout, Table
from hockeystick.audits.walk.scores import Scores, learned
from hockeystick.audits.walk.shares import NUMBERS, OTHERS, Prior, best_aim

GROWTH = 1.25
"""Factor by which the number of trials grows from one fit of the scores to the next."""

_GROWTH_WIDE = 1.6  # the same for outputs of several numbers, whose scores take long to fit
_FIRST = 12  # trials that only teach
_FIRST_SHARE = 1 / 40  # of all trials, that only teach, if the outputs are not single numbers
_LEAST = 4  # trials in a batch
_SIDE = 2  # outputs of either data set from which on scores are fitted
_FEW_VALUES, _SPREAD = 16, 0.99  # see :class:`Prior`

Pair = tuple[Table | None, Table | None]


class Trials(Protocol):
    """A source of outputs."""

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts of all outputs so far."""
        ...

    def draw(self, sizes: tuple[int, int]) -> Pair:
        """Returns so many fresh outputs of each data set; None where there are none."""
        ...


@frozen
class Batch:
    """A batch as it was planned and played.

    Attributes:
      planned: numbers of guesses and of trials in the plan for all that was to come.
      point: the claimed (epsilon, delta) of the plan.
      guesses, trials: those of the batch.
      right: number of right guesses.
    """

    planned: tuple[int, int]
    point: tuple[float, float]
    guesses: int
    trials: int
    right: int

    def settle(self, walk: GuessWalk, point: tuple[float, float]) -> GuessWalk:
        """Returns a walk against ``point`` after the batch."""
        if walk.refuted:
            return walk
        walk = walk.planned(*self.planned, epsilon=point[0], delta=point[1])
        return walk.after(self.guesses, self.trials, right=self.right)


@frozen(eq=False)
class Played:
    """A walk that has ended.

    Attributes:
      walk: the test of the claim.
      batches: all batches with guesses.
      table: how often either data set was guessed, shape (data set, guessed data set).
      counted: number of trials of each data set in batches with guesses.
      drawn: number of outputs of each data set.
      scores: the last scores; None if there were too few outputs.
    """

    walk: GuessWalk
    batches: tuple[Batch, ...]
    table: IntArray
    counted: tuple[int, int]
    drawn: tuple[int, int]
    scores: Scores | None


@define(eq=False)
class Game:
    """A coin walk.

    Attributes:
      trials: source of the outputs.
      claim: to refute, at any one of its points.
      total: number of trials.
      walk: the test, before the first plan.
      coins: random stream of the coins; no other may depend on it.
      grid: as in :func:`hockeystick.audits.audit`.
      attack, seed: of classifiers.
      whole: whether to go on after a refutation.
      progress: called with the number of trials so far.
    """

    trials: Trials
    claim: Claim
    total: int
    walk: GuessWalk
    coins: np.random.Generator
    grid: float | None = None
    attack: Attack = "auto"
    seed: int = 0
    whole: bool = False
    progress: Callable[[int], object] | None = None
    _tables: tuple[list[Table], list[Table]] = field(factory=lambda: ([], []), init=False)
    _drawn: IntArray = field(factory=lambda: np.zeros(2, dtype=np.int64), init=False)

    def play(self) -> Played:
        """Draws all batches."""
        batches: list[Batch] = []
        table, counted = np.zeros((2, 2), dtype=np.int64), np.zeros(2, dtype=np.int64)
        prior, scores = self._learn_first(), None
        growth = GROWTH if prior is NUMBERS else _GROWTH_WIDE
        while (rest := self.total - int(self._drawn.sum())) and (self.whole or not self.walk.refuted):
            size = min(max(_LEAST, int((growth - 1) * self._drawn.sum())), rest)
            scores = learned(self._evidence())
            level = self.walk.budget if not self.walk.refuted else self.walk.alpha
            aim = best_aim(scores, self.claim, rest=rest, level=level, prior=prior)
            planned = max(1, round(aim.share * rest)), rest
            guesses = planned[0] if size == rest else min(planned[0], round(aim.share * size))
            coins, values = self._batch(size, scores)
            first = np.argsort(-np.abs(values), kind="stable")[:guesses]  # ties: the earlier trial, whatever its coin
            guessed = np.where(values[first] > 0, 0, 1)
            np.add.at(table, (coins[first], guessed), 1)
            counted += np.bincount(coins, minlength=2)
            right = int(np.count_nonzero(guessed == coins[first]))
            batches.append(Batch(planned, aim.point, guesses, size, right))
            self.walk = batches[-1].settle(self.walk, aim.point)
        drawn = int(self._drawn[0]), int(self._drawn[1])
        return Played(self.walk, tuple(batches), table, (int(counted[0]), int(counted[1])), drawn, scores)

    def _learn_first(self) -> Prior:
        """Draws the trials that only teach; returns the prior that suits the outputs."""
        self._teach(_FIRST)
        single = len(self.trials.layouts) == 1 and len(self.trials.layouts[0].kinds) == 1
        if single:
            values = np.concatenate([one.blocks[0][:, 0] for side in self._tables for one in side])
            distinct = len(np.unique(values))
            single = distinct <= _FEW_VALUES or distinct > _SPREAD * len(values)
        if not single:
            self._teach(int(self.total * _FIRST_SHARE))
        return NUMBERS if single else OTHERS

    def _teach(self, most: int) -> None:
        while (rest := self.total - int(self._drawn.sum())) and (self._drawn.sum() < most or self._drawn.min() < _SIDE):
            self._batch(min(rest, max(_LEAST, most - int(self._drawn.sum()))), None)

    def _batch(self, size: int, scores: Scores | None) -> tuple[IntArray, FloatArray]:
        """Draws a batch; returns its coins, and its scores in the order of the trials."""
        coins = self.coins.integers(0, 2, size)
        zeros = int(np.count_nonzero(coins == 0))
        values = np.zeros(size)
        for side, table in enumerate(self.trials.draw((zeros, size - zeros))):
            if table is None:
                continue
            if scores is not None:
                known = _without_new(table, len(scores.partition.layouts))
                values[coins == side] = scores.of(known, real_blocks(known, scores.partition.layouts, self.grid))
            self._tables[side].append(table)
            self._drawn[side] += table.runs
        if self.progress is not None:
            self.progress(int(self._drawn.sum()))
        return coins, values

    def _evidence(self) -> Evidence:
        tables = Table.join(self._tables[0]), Table.join(self._tables[1])
        return Evidence.of(tables, self.trials.layouts, self.grid, attack=self.attack, seed=self.seed)


def _without_new(table: Table, layouts: int) -> Table:
    """Returns a table in which layouts that are new since the last fit belong to no known one."""
    blocks = {code: block for code, block in table.blocks.items() if code < layouts}
    codes: int | npt.NDArray[np.int32]
    if isinstance(table.codes, int):
        codes = table.codes if table.codes < layouts else -1
    else:
        codes = np.where(table.codes < layouts, table.codes, np.int32(-1)).astype(np.int32)
    return evolve(table, codes=codes, blocks=blocks)


def replayed(batches: Sequence[Batch], point: tuple[float, float], alpha: float) -> bool:
    """Returns whether a walk with a budget of its own against another point is refuted by the same guesses."""
    walk = GuessWalk(alpha)
    for batch in batches:
        walk = batch.settle(walk, point)
        if walk.refuted:
            return True
    return False
