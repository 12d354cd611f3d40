"""One simulated run of a lazy learner of experts over a stream of any length, as fast as the losses can be read.

Most coins keep whatever the losses are. Between two draws the action x and the shadow y stand still, so the others are
compared, many at once, with the keep probabilities that two columns of the losses give. Nothing else is looked at.

Nor does every draw look at all d experts: weights that are a little old dominate the present ones, so that an expert
from the old ones is taken with probability e^(-rate*(its losses since then)), or another one is tried. They are renewed
when that probability may be below 1/e. What is held is the sum of all losses so far, and a few chunks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.experts.loss_batches import Batches, loss_batches
from hockeystick.learners.lazy.experts.lazy_chain import Transcripts, substreams
from hockeystick.learners.lazy.experts.setting import ExpertsSetting

_STALE = 1.0  # of learning rate times rounds, after which weights are renewed
_FEW = 4  # places that are looked at one by one after a draw; then as many at once, and twice as many each time


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
    """The learner between two blocks; the five generators serve one kind of coin or draw each."""

    learner: ExpertsSetting
    real: np.random.Generator
    fake: np.random.Generator
    again: np.random.Generator
    x_draw: np.random.Generator
    y_draw: np.random.Generator
    total: FloatArray = field(init=False)  # of all batches before number `_added` of those at hand
    loss: float = field(init=False, default=0.0)
    _batch: int = field(init=False, default=0)
    _at_hand: Batches | None = field(init=False, default=None)  # of which those before number `_row` are over
    _added: int = field(init=False, default=0)
    _row: int = field(init=False, default=0)
    _old: FloatArray = field(init=False)  # the total at which the weights were taken
    _weights: FloatArray = field(init=False)  # their running sums
    _taken: int = field(init=False)  # the batch before which they were taken
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
        self._at_hand, self._added, self._row = batches, 0, 0
        moves = [(0, self._x, self._y)]  # from which row on which expert and shadow
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
        self._at_hand = None

    def _add_up_to(self, row: int) -> None:
        """Adds the batches at hand before ``row`` to the total."""
        if self._at_hand is not None:
            self.total = self.total + self._at_hand.total(self._added, row)
        self._added = row

    def _coins(self, count: int) -> tuple[npt.NDArray[np.intp], FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Tosses the coins of the next batches.

        Returns:
            Where anything can be drawn: the places, the gaps from which on the expert is drawn, those from which on
            anything is, and whether the shadow is. Shape ``(places,)`` each.
        """
        learner = self.learner
        coin, moves = self.real.random(count), self.fake.random(count) < learner.fake_switch_probability
        again = np.zeros(count, np.bool_)
        if self._y is not None:
            again = np.asarray(self.again.random(count) < learner.refresh_probability)
        # A coin u keeps if u < e^(r - c), r = -rate*gap: it moves where the gap reaches (-ln u - c)/rate. No gap is
        # larger than B: elsewhere nothing can be drawn. Logarithms of coins that are clearly too small are not taken.
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
        """The first place from number ``at`` on where anything is drawn, or their number; whether the expert is."""
        x, y, most = self._x, self._y, self.learner.batch
        few = min(at + _FEW, len(places))
        while at < few:
            row, gap, least = places.item(at), 0.0, limit.item(at)
            if -math.inf < least <= most:  # elsewhere the coins alone decide
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
        """Writes down what was played in ``batches``, of which the first is number ``first``."""
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
        """An expert from the weights after all losses so far, by rejection from those taken last."""
        rate = self.learner.learning_rate
        # Below what the exponential of any such loss comes to in floats: it saves work and decides nothing else.
        surely = (1.0 - 1e-9) * math.exp(-rate * self.learner.batch * (self._batch - self._taken))
        while True:
            at, accept = rng.random(2).tolist()
            x = int(self._weights[:-1].searchsorted(at * self._weights.item(-1), side="right"))
            if accept < surely:  # whatever the expert has lost since then
                return x
            since = self.total.item(x) - self._old.item(x)
            if self._at_hand is not None:
                since += self._at_hand.lost(x, self._added, self._row)
            if accept < math.exp(-rate * since):
                return x

    def _take_weights(self, total: FloatArray) -> None:
        """Weights from ``total``, the sum of all batches so far, as running sums, to be inverted."""
        self._old, self._taken = total, self._batch
        self._weights = np.cumsum(np.exp(-self.learner.learning_rate * (total - total.min())))

    def transcript(self) -> Transcripts:
        """The full view, one run."""
        shadows, refreshed = self._shadows, self._refreshed
        return Transcripts(
            self._actions[None],
            self._switched[None],
            None if shadows is None else shadows[None],
            None if refreshed is None else refreshed[None],
        )
