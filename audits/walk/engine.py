"""The coin walk: batches of trials, whose data sets are guessed by scores that learn from all earlier batches.

A coin picks the data set of each trial before its output is drawn. Before a batch is drawn, the plan is made from the
outputs and coins of earlier batches: the number of guesses, and the claimed point. Then the outputs of the batch with
the largest absolute scores are guessed (ties: the earlier trial), by scores that were fitted to earlier batches alone.
Then the coins are shown. :mod:`hockeystick.audits.bounds.side_guesses` has the test and its proof.

*Outputs may run out* where their number on each data set is fixed, as in a file. A trial whose output is missing then
counts as one of the batch's guesses, and as wrong. Had there been an output, the batch's guesses would have been all
that are made now, and others, so there would have been at least as many right ones.

*A walk may follow another one* on the same data sets: the outputs of the first are earlier outputs to the second, which
has a level of its own. By the union bound both together refute a true claim with at most the sum of their levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from attrs import define, field, frozen

from hockeystick.accounting.arrays import IntArray
from hockeystick.audits.attacks.classifiers import Attack
from hockeystick.audits.attacks.partitions import Evidence
from hockeystick.audits.bounds.side_guesses import GuessWalk
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.first_outputs import rows
from hockeystick.audits.outputs.one_value import OneValue
from hockeystick.audits.outputs.reading import Layout, Table
from hockeystick.audits.walk.scores import Scores, learned
from hockeystick.audits.walk.shares import NUMBERS, OTHERS, Aim, Prior, best_aim, sharpest_aim

GROWTH = 1.25
"""Factor by which the number of trials grows from one fit of the scores to the next."""

_GROWTH_WIDE = 1.6  # the same for outputs of several numbers, whose scores take long to fit
_FIRST = 12  # trials that only teach
_TEACHING = 1 / 40  # of all trials, that only teach, if the outputs are not single numbers
_LEAST = 4  # trials in a batch
_SIDE = 2  # outputs of either data set from which on scores are fitted
_FEW_VALUES, _SPREAD = 16, 0.99  # see :class:`Prior`
_MOST_KNOWN, _MOST_NUMBERS = 1 << 17, 1 << 21  # outputs that scores learn from, and numbers in them
_TOLERANCE = 0.05  # of a number of guesses, by which a new plan has to differ from the old one
_PIECE = 1 << 15  # outputs that are drawn and scored at once

Pair = tuple[Table | None, Table | None]


class Trials(Protocol):
    """A source of outputs."""

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts of all outputs so far."""
        ...

    @property
    def constant(self) -> OneValue | None:
        """The value of all outputs so far; None if there are several."""
        ...

    def draw(self, sizes: tuple[int, int]) -> Pair:
        """Returns so many fresh outputs of each data set, or fewer if no more are left; None for no output."""
        ...


@frozen
class Batch:
    """A batch as it was planned and played.

    Attributes:
      planned: numbers of guesses and of trials in the plan for all that was to come.
      anew: whether this plan was new; else it is what was left of the last one.
      point: the claimed (epsilon, delta) of the plan.
      guesses, trials: those of the batch.
      right: number of right guesses.
    """

    planned: tuple[int, int]
    point: tuple[float, float]
    guesses: int
    trials: int
    right: int
    anew: bool = True

    @property
    def left(self) -> tuple[int, int]:
        """The plan for all that is to come after the batch."""
        return self.planned[0] - self.guesses, self.planned[1] - self.trials

    def settle(self, walk: GuessWalk, point: tuple[float, float]) -> GuessWalk:
        """Returns a walk against ``point`` after the batch."""
        if walk.refuted:
            return walk
        if self.anew:
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
      last: counts of the last batch in the cells of these scores, shape (data set, cell).
    """

    walk: GuessWalk
    batches: tuple[Batch, ...]
    table: IntArray
    counted: tuple[int, int]
    drawn: tuple[int, int]
    scores: Scores | None
    last: IntArray = field(factory=lambda: np.zeros((2, 0), dtype=np.int64))


@define(eq=False)
class Game:
    """A coin walk, or several in turn: ``total`` and ``walk`` may be set anew after :meth:`play`.

    Attributes:
      trials: source of the outputs.
      claim: to refute, at any one of its points.
      total: number of trials, with those of earlier walks.
      walk: the test, before the first plan.
      coins: random stream of the coins; no other may depend on it.
      grid: as in :func:`hockeystick.audits.audit`.
      attack, seed: of classifiers.
      whole: whether to go on after a refutation.
      progress: called with the number of trials so far.
      made: number of trials so far.
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
    made: int = field(default=0, init=False)
    _kept: int = field(default=0, init=False)  # numbers in the outputs that scores learn from

    def play(self) -> Played:
        """Draws all batches."""
        batches: list[Batch] = []
        table, counted = np.zeros((2, 2), dtype=np.int64), np.zeros(2, dtype=np.int64)
        last = np.zeros((2, 0), dtype=np.int64)
        prior, scores = self._learn_first(), None
        growth = GROWTH if prior is NUMBERS else _GROWTH_WIDE
        while (rest := self.total - self.made) and (self.whole or not self.walk.refuted):
            size = rest if self._full else min(max(_LEAST, int((growth - 1) * self.made)), rest)
            scores = learned(self.evidence())
            aim = self._aim(scores, rest, prior)
            planned, anew = (max(1, round(aim.share * rest)), rest), True
            if batches and batches[-1].point == aim.point:
                left = batches[-1].left
                anew = not 0 < left[0] <= rest or abs(left[0] - planned[0]) > _TOLERANCE * planned[0]
                planned = planned if anew else left
            guesses = planned[0] if size == rest else min(planned[0], round(planned[0] * size / rest))
            coins, cells = self._batch(size, scores)
            values = np.append(scores.ratios, np.inf)[cells]
            values[(cells < 0) & (coins == 0)] = -np.inf  # a missing output: a certain guess of the other data set
            first = np.argsort(-np.abs(values), kind="stable")[:guesses]  # ties: the earlier trial, whatever its coin
            guessed = np.where(values[first] > 0, 0, 1)
            np.add.at(table, (coins[first], guessed), 1)
            counted += np.bincount(coins, minlength=2)
            held = cells >= 0
            last = np.stack([np.bincount(cells[held & (coins == s)], minlength=len(scores.ratios)) for s in (0, 1)])
            right = int(np.count_nonzero(guessed == coins[first]))
            batches.append(Batch(planned, aim.point, guesses, size, right, anew))
            self.walk = batches[-1].settle(self.walk, aim.point)
        drawn = int(self._drawn[0]), int(self._drawn[1])
        return Played(self.walk, tuple(batches), table, (int(counted[0]), int(counted[1])), drawn, scores, last)

    @property
    def tables(self) -> tuple[Table, Table]:
        """The outputs that scores learn from, of both data sets."""
        return Table.join(self._tables[0]), Table.join(self._tables[1])

    def evidence(self, *, balanced: bool = False) -> Evidence:
        """Returns these outputs as evidence; equally many of both data sets if ``balanced``."""
        first, second = self.tables
        if balanced:
            least = min(first.runs, second.runs)
            first, second = rows(first, 0, least), rows(second, 0, least)
        return Evidence.of((first, second), self.trials.layouts, self.grid, attack=self.attack, seed=self.seed)

    def _aim(self, scores: Scores, rest: int, prior: Prior) -> Aim:
        """Returns the aim of the next plan: to refute the claim, and after that a large bound."""
        if self.walk.refuted:
            return sharpest_aim(scores, self.claim, rest=rest, level=self.walk.alpha)
        return best_aim(scores, self.claim, rest=rest, level=self.walk.budget, prior=prior)

    @property
    def _full(self) -> bool:
        return self.made >= _MOST_KNOWN or self._kept >= _MOST_NUMBERS

    def _learn_first(self) -> Prior:
        """Draws the trials that only teach; returns the prior that suits the outputs."""
        self._teach(_FIRST)
        single = len(self.trials.layouts) == 1 and len(self.trials.layouts[0].kinds) == 1
        if single:
            values = np.concatenate([one.blocks[0][:, 0] for side in self._tables for one in side])
            distinct = len(np.unique(values))
            single = distinct <= _FEW_VALUES or distinct > _SPREAD * len(values)
        if not single:
            self._teach(min(int(self.total * _TEACHING), _MOST_KNOWN))
        return NUMBERS if single else OTHERS

    def _teach(self, most: int) -> None:
        while (rest := self.total - self.made) and (self.made < most or self._drawn.min() < _SIDE):
            self._batch(min(rest, max(_LEAST, most - self.made)), None)

    def _batch(self, size: int, scores: Scores | None) -> tuple[IntArray, IntArray]:
        """Draws a batch; returns its coins, and the cells of its outputs in the order of the trials; -1 for none."""
        coins = self.coins.integers(0, 2, size)
        cells = np.full(size, -1, dtype=np.int64)
        for start in range(0, size, _PIECE):
            piece = coins[start : start + _PIECE]
            zeros = int(np.count_nonzero(piece == 0))
            for side, table in enumerate(self.trials.draw((zeros, len(piece) - zeros))):
                if table is None:
                    continue
                if scores is not None:
                    where = start + np.flatnonzero(piece == side)[: table.runs]
                    cells[where] = scores.cells(table, self.trials.layouts, self.grid)
                if not self._full:
                    self._tables[side].append(table)
                    self._kept += table.runs * table.numbers
                self._drawn[side] += table.runs
            self.made += len(piece)
            if self.progress is not None:
                self.progress(self.made)
        return coins, cells


def replayed(batches: Sequence[Batch], point: tuple[float, float], alpha: float) -> bool:
    """Returns whether a walk with a budget of its own against another point is refuted by the same guesses."""
    walk = GuessWalk(alpha)
    for batch in batches:
        walk = batch.settle(walk, point)
        if walk.refuted:
            return True
    return False
