"""One simulated run of a lazy learner of experts over a stream of any length, as fast as the losses can be read.

Between two draws the action x and the shadow y stand still, so the coins of a whole block of boundaries are compared at
once with the keep probabilities that two columns of the losses give. The weights of all d experts are looked at when a
coin falls on "draw", and at no other boundary. What is held is the sum of all losses so far, and one block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from hockeystick.learners.expert_losses import FloatArray
from hockeystick.learners.lazy_chain import Transcripts, substreams
from hockeystick.learners.loss_batches import Sums, column_sums, loss_batches

if TYPE_CHECKING:
    from hockeystick.learners.lazy_experts import LazyExperts

_FEW = 16  # boundaries that are looked at together after a draw; twice as many each time that there is none


@frozen(eq=False)
class LazyRun:
    """One simulated run. Simulation noise is seeded and reproducible, so this is not a private release.

    Attributes:
        actions: Shape ``(rounds,)``: the expert played in each round.
        transcript: The full view, one run.
        loss: Total loss of the played experts.
        best_expert: Index of the best single expert in hindsight.
        regret: ``loss`` minus the best single expert's loss.
    """

    actions: npt.NDArray[np.integer]
    transcript: Transcripts
    loss: float
    best_expert: int
    regret: float

    @property
    def best_expert_loss(self) -> float:
        """Total loss of the best single expert in hindsight."""
        return self.loss - self.regret

    @property
    def switches(self) -> int:
        """How often the action was drawn afresh after the first draw, the same expert or another."""
        return int(self.transcript.switched.sum())


def play(learner: LazyExperts, losses: npt.ArrayLike | Iterable[npt.ArrayLike], rng: np.random.Generator) -> LazyRun:
    """Plays ``learner`` on ``losses``: see ``LazyExperts.run``."""
    walk = _Walk(learner, *substreams(rng, 5))
    blocks = loss_batches(
        losses, rounds=learner.rounds, experts=learner.experts, batch=learner.batch, clip=learner.clip
    )
    for sums in blocks:
        walk.through(sums)
    found = walk.transcript()
    best = int(np.argmin(walk.total))
    actions = np.repeat(found.actions[0], learner.batch)[: learner.rounds]
    return LazyRun(actions, found, walk.loss, best, walk.loss - float(walk.total[best]))


@define(eq=False)
class _Walk:
    """The learner between two blocks; the five generators serve one kind of coin or draw each."""

    learner: LazyExperts
    real: np.random.Generator
    fake: np.random.Generator
    again: np.random.Generator
    x_draw: np.random.Generator
    y_draw: np.random.Generator
    total: FloatArray = field(init=False)
    loss: float = field(init=False, default=0.0)
    _batch: int = field(init=False, default=0)
    _left: float = field(init=False)
    _x: int = field(init=False)
    _y: int | None = field(init=False)
    _actions: npt.NDArray[np.integer] = field(init=False)
    _switched: npt.NDArray[np.bool_] = field(init=False)
    _shadows: npt.NDArray[np.integer] | None = field(init=False, default=None)
    _refreshed: npt.NDArray[np.bool_] | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        learner, n = self.learner, self.learner.batches
        label = np.min_scalar_type(learner.experts - 1)
        self.total = np.zeros(learner.experts)
        self._left = math.inf if learner.draw_budget is None else learner.draw_budget
        self._x = self._drawn(self.x_draw)
        self._y = None
        self._actions, self._switched = np.empty(n, label), np.zeros(n, np.bool_)
        if learner.variant == "l2p":
            self._y = self._drawn(self.y_draw)
            self._shadows, self._refreshed = np.empty(n, label), np.zeros(n, np.bool_)

    def through(self, sums: Sums) -> None:
        """Plays the batches whose losses are the rows of ``sums``."""
        count = len(sums)
        real, fake = self.real.random(count), self.fake.random(count) < self.learner.fake_switch_probability
        again = np.zeros(count, np.bool_)
        if self._y is not None:
            again = np.asarray(self.again.random(count) < self.learner.refresh_probability)
        start = at = 0
        ahead = _FEW
        while at < count:
            stop = min(count, at + ahead) if self._left else count
            switch = fake[at:stop] | (real[at:stop] >= np.exp(self._log_keep(sums[at:stop])))
            events = np.flatnonzero(switch | again[at:stop])
            if not events.size or not self._left:
                at, ahead = stop, 2 * ahead
                continue
            first = int(events[0])
            at += first + 1
            self._stay(sums[start:at])
            start, ahead = at, max(_FEW, 2 * first)
            if self._batch < self.learner.batches:  # no boundary follows the last batch
                self._draw(bool(switch[first]), bool(again[at - 1]))
        self._stay(sums[start:])

    def _log_keep(self, sums: Sums) -> FloatArray:
        here = sums[:, self._x].astype(np.float64)
        if self._y is not None:
            here -= sums[:, self._y]
        ratio: FloatArray = -self.learner.learning_rate * here - self.learner.log_normaliser
        return np.minimum(0.0, ratio)

    def _stay(self, sums: Sums) -> None:
        """Batches in which nothing moves."""
        span = slice(self._batch, self._batch + len(sums))
        self._actions[span] = self._x
        if self._shadows is not None and self._y is not None:
            self._shadows[span] = self._y
        self.loss += float(sums[:, self._x].sum(dtype=np.float64))
        self.total += column_sums(sums)
        self._batch = span.stop

    def _draw(self, switch: bool, again: bool) -> None:
        if switch:
            self._x, self._switched[self._batch] = self._drawn(self.x_draw), True
            self._left -= 1
        if again and self._left and self._refreshed is not None:
            self._y, self._refreshed[self._batch] = self._drawn(self.y_draw), True
            self._left -= 1

    def _drawn(self, rng: np.random.Generator) -> int:
        """An expert from the weights after all losses so far, by inverting their sums."""
        sums = np.cumsum(np.exp(-self.learner.learning_rate * (self.total - self.total.min())))
        return int(np.searchsorted(sums[:-1], rng.random() * sums[-1], side="right"))

    def transcript(self) -> Transcripts:
        """The full view, one run."""
        shadows, refreshed = self._shadows, self._refreshed
        return Transcripts(
            self._actions[None],
            self._switched[None],
            None if shadows is None else shadows[None],
            None if refreshed is None else refreshed[None],
        )
