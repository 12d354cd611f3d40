"""One simulated run of a lazy learner of experts over a stream of any length, as fast as the losses can be read.

Most coins say "keep" whatever the losses are. Between two draws the action x and the shadow y do not change, so the
other coins are compared, many at once, with the keep probabilities that two columns of the losses give. No other loss
is read.

A draw does not compute the weights of all d experts either. Slightly outdated weights dominate the present ones: an
expert drawn from them is accepted with probability e^(-rate*(its losses since then)), otherwise another one is drawn.
The weights are recomputed when that probability may fall below 1/e. The memory holds the sum of all losses so far and a
few chunks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.experts.batches import Batches, loss_batches
from hockeystick.learners.lazy.experts.lazy_chain import Transcripts, substreams
from hockeystick.learners.lazy.experts.setting import ExpertsSetting

_STALE = 1.0  # weights are recomputed after so many rounds times the learning rate
_FEW = 4  # places examined one by one after a draw; then as many at once, and twice as many each time


@frozen(eq=False)
class LazyRun:
    """One simulated run of a lazy learner of experts. Its noise is seeded, so it is not a private release.

    See ``LazyExperts`` for an example.

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
        """Number of draws of the action after the first, whether the expert changed or not."""
        return int(self.transcript.switched.sum())


def play(learner: ExpertsSetting, losses: npt.ArrayLike | Iterable[npt.ArrayLike], rng: np.random.Generator) -> LazyRun:
    """Plays ``learner`` on ``losses``: see ``LazyExperts.run``."""
    walk = _Walk(learner, *substreams(rng, 5))
    blocks = loss_batches(
        losses, rounds=learner.rounds, experts=learner.experts, batch=learner.batch, clip=learner.clip
    )
    for batches in blocks:
        walk.through(batches)
    found = walk.transcript()
    best = int(np.argmin(walk.total))
    actions = np.repeat(found.actions[0], learner.batch)[: learner.rounds]
    return LazyRun(actions, found, walk.loss, best, walk.loss - float(walk.total[best]))


@define(eq=False)
class _Walk:
    """The state of a run between two blocks; each of the five generators serves one kind of coin or draw."""

    learner: ExpertsSetting
    real: np.random.Generator
    fake: np.random.Generator
    again: np.random.Generator
    x_draw: np.random.Generator
    y_draw: np.random.Generator
    total: FloatArray = field(init=False)  # losses of all batches before number `_added` of the current block
    loss: float = field(init=False, default=0.0)
    _batch: int = field(init=False, default=0)
    _block: Batches | None = field(init=False, default=None)  # the current block; batches before `_row` are over
    _added: int = field(init=False, default=0)
    _row: int = field(init=False, default=0)
    _old: FloatArray = field(init=False)  # the total from which the weights were computed
    _weights: FloatArray = field(init=False)  # running sums of the weights
    _taken: int = field(init=False)  # the batch before which the weights were computed
    _left: float = field(init=False)  # draws that the budget still allows
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
        self._take_weights(self.total)
        self._left = math.inf if learner.draw_budget is None else learner.draw_budget
        self._x = self._drawn(self.x_draw)
        self._y = None
        self._actions, self._switched = np.empty(n, label), np.zeros(n, np.bool_)
        if learner.variant == "l2p":
            self._y = self._drawn(self.y_draw)
            self._shadows, self._refreshed = np.empty(n, label), np.zeros(n, np.bool_)

    def through(self, batches: Batches) -> None:
        """Plays the next batches."""
        count, rate = len(batches), self.learner.learning_rate
        places, limit, any_draw, again = self._coins(count)
        first_batch, at = self._batch, 0
        self._block, self._added, self._row = batches, 0, 0
        moves = [(0, self._x, self._y)]  # (first row, expert, shadow)
        while self._left:
            at, switch = self._next(batches, places, limit, any_draw, at)
            if at == len(places):
                break
            self._row = row = places.item(at) + 1
            self._batch = first_batch + row
            if self._batch < self.learner.batches:  # no boundary follows the last batch
                if rate * self.learner.batch * (self._batch - self._taken) > _STALE:
                    self._add_up_to(row - row % batches.size)
                    self._take_weights(self.total + batches.total(self._added, row))
                self._draw(switch, again.item(at))
                moves.append((row, self._x, self._y))
            at += 1
        self._batch = first_batch + count
        self._record(batches, first_batch, moves)
        self._add_up_to(count)
        self._block = None

    def _add_up_to(self, row: int) -> None:
        """Adds the batches of the current block before ``row`` to the total."""
        if self._block is not None:
            self.total = self.total + self._block.total(self._added, row)
        self._added = row

    def _coins(self, count: int) -> tuple[npt.NDArray[np.intp], FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Tosses the coins of the next batches.

        Returns:
            The places where a draw is possible, and for each of them, shape ``(places,)``: the least gap at which the
            expert is drawn, the least gap at which anything is, and whether the shadow is.
        """
        learner = self.learner
        coin, moves = self.real.random(count), self.fake.random(count) < learner.fake_switch_probability
        again = np.zeros(count, np.bool_)
        if self._y is not None:
            again = np.asarray(self.again.random(count) < learner.refresh_probability)
        # A coin u keeps if u < e^(r - c), r = -rate*gap: it moves where the gap reaches (-ln u - c)/rate. As no gap is
        # above B, no other coin can move. Coins that are clearly too small are dropped before any logarithm is taken.
        largest = math.exp(-learner.log_normaliser - learner.learning_rate * learner.batch)
        places = np.flatnonzero((coin >= (1.0 - 1e-9) * largest) | moves | again)
        again = again[places]
        with np.errstate(divide="ignore"):
            limit = (-np.log(coin[places]) - learner.log_normaliser) / learner.learning_rate
        limit[moves[places]] = -np.inf
        any_draw = np.where(again, -np.inf, limit)
        near = any_draw <= learner.batch
        return places[near], limit[near], any_draw[near], again[near]

    def _next(
        self, batches: Batches, places: npt.NDArray[np.intp], limit: FloatArray, any_draw: FloatArray, at: int
    ) -> tuple[int, bool]:
        """Returns the first place from ``at`` on with a draw, or the number of places; also whether x is drawn."""
        x, y, most = self._x, self._y, self.learner.batch
        few = min(at + _FEW, len(places))
        while at < few:
            row, gap, least = places.item(at), 0.0, limit.item(at)
            if -math.inf < least <= most:  # otherwise the coins alone decide
                gap = batches.loss(row, x) - (0.0 if y is None else batches.loss(row, y))
            if gap >= any_draw.item(at):
                return at, gap >= least
            at += 1
        ahead = _FEW
        while at < len(places):
            rows = places[at : at + ahead]
            gaps = batches.losses(rows, x)
            if y is not None:
                gaps -= batches.losses(rows, y)
            draws = gaps >= any_draw[at : at + ahead]
            first = int(draws.argmax())
            if draws[first]:
                return at + first, gaps.item(first) >= limit.item(at + first)
            at, ahead = at + len(rows), 2 * ahead
        return at, False

    def _record(self, batches: Batches, first: int, moves: list[tuple[int, int, int | None]]) -> None:
        """Records the plays in ``batches``, of which the first has the number ``first``."""
        rows, span = len(batches), slice(first, first + len(batches))
        lengths = np.diff([row for row, _, _ in moves], append=rows)
        played = np.repeat([x for _, x, _ in moves], lengths)
        self._actions[span] = played
        if self._shadows is not None:
            self._shadows[span] = np.repeat([y for _, _, y in moves], lengths)
        self.loss += batches.played(played)

    def _draw(self, switch: bool, again: bool) -> None:
        if switch:
            self._x, self._switched[self._batch] = self._drawn(self.x_draw), True
            self._left -= 1
        if again and self._left and self._refreshed is not None:
            self._y, self._refreshed[self._batch] = self._drawn(self.y_draw), True
            self._left -= 1

    def _drawn(self, rng: np.random.Generator) -> int:
        """Returns an expert drawn from the present weights, by rejection from the weights computed last."""
        rate = self.learner.learning_rate
        # A lower bound on the acceptance probability below, in floats: it saves work and changes no outcome.
        surely = (1.0 - 1e-9) * math.exp(-rate * self.learner.batch * (self._batch - self._taken))
        while True:
            at, accept = rng.random(2).tolist()
            x = int(self._weights[:-1].searchsorted(at * self._weights.item(-1), side="right"))
            if accept < surely:
                return x
            since = self.total.item(x) - self._old.item(x)
            if self._block is not None:
                since += self._block.lost(x, self._added, self._row)
            if accept < math.exp(-rate * since):
                return x

    def _take_weights(self, total: FloatArray) -> None:
        """Computes running sums of the weights from ``total``, the sum of all batches so far."""
        self._old, self._taken = total, self._batch
        self._weights = np.cumsum(np.exp(-self.learner.learning_rate * (total - total.min())))

    def transcript(self) -> Transcripts:
        """Returns the full view, one run."""
        shadows, refreshed = self._shadows, self._refreshed
        return Transcripts(
            self._actions[None],
            self._switched[None],
            None if shadows is None else shadows[None],
            None if refreshed is None else refreshed[None],
        )
