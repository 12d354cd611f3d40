"""Runs of Fed-SVT: the decisions of the server block by block, the messages of a client, and simulations of many runs.

A request of step (n, 0) names the expert to play in block n (from 0) and asks for the block's sums: of all experts, or
of this one only with lazy vectors. A request of step (n, 1) asks, before a draw, for the sums of all rounds up to block
n. The last request names the expert of the remaining rounds, if there are any, and asks for nothing.

The server draws from four substreams of its seed: the first expert, thresholds, queries and draws. A run in one process
draws the same numbers and plays the same experts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array
from hockeystick.learners.federated.one_good_expert.releases import ExactCourse, SVTRelease
from hockeystick.learners.federated.one_good_expert.setting import SVTSetting
from hockeystick.learners.network.protocol import Communication, Request, Server, State, substream
from hockeystick.mechanisms.randomness.noise import Noise

_FIRST, _LIMIT, _QUERY, _DRAW = range(4)  # purposes of the substreams
_RUNS = 1 << 15  # runs simulated at a time, so that their state stays in the cache


@frozen(eq=False)
class SVTRuns:
    """Simulated outputs of runs, with runs on the leading axis; or of one run without that axis.

    See :class:`~hockeystick.learners.federated.one_good_expert.fed_svt.FedSVT` for an example.

    Attributes:
        experts: Shape (R, blocks + 1): the expert played in each block, and in the tail after the last one.
        above: Shape (R, blocks), bool: whether an expert was drawn after the block, the same one or another.
    """

    experts: npt.NDArray[np.integer]
    above: npt.NDArray[np.bool_]


def run(learner: SVTSetting, sums: Iterable[FloatArray], seed: int) -> SVTRuns:
    """Returns one run in one process, from the sums of blocks, the tail's last; see ``FedSVT.run``."""
    course, total = _Course(learner, seed), np.zeros(learner.experts)
    for rows in sums:
        for row in rows[: learner.blocks - course.blocks]:  # the tail is only read and checked
            total += row
            if course.above(float(row[course.expert])):
                course.draw(total)
    return course.found()


def server(learner: SVTSetting, source: int | Noise) -> Server[SVTRuns | SVTRelease]:
    """The server as a generator of requests; see the module. Its noise is simulated from a seed, or exact."""
    course = _Course(learner, source) if isinstance(source, int) else ExactCourse(learner, source)
    edges, number, lazy = learner.edges, 0, learner.lazy_vectors
    total: npt.NDArray[Any] = course.whole(np.zeros((1, learner.experts)))
    while course.blocks < learner.blocks and (course.left or not lazy):
        n = course.blocks
        number += 1
        size = 1 if lazy else learner.experts
        length, sofar = float(edges[n + 1] - edges[n]), float(edges[n + 1])
        replies = yield Request(number, (n, 0), np.array([float(course.expert)]), size, 0.0, length)
        sums = course.whole(replies.values)
        if not lazy:
            total = total + sums
        if course.above(sums[0 if lazy else course.expert].item()):
            if lazy:
                number += 1
                replies = yield Request(number, (n, 1), np.empty(0), learner.experts, 0.0, sofar)
                total = course.whole(replies.values)
            course.draw(total)
    if edges[course.blocks] < learner.rounds:
        yield Request(number + 1, (course.blocks, 0), np.array([float(course.expert)]), 0)
    return course.found()


@frozen(eq=False)
class SVTClient:
    """One client of a ``FedSVT``: adds up its losses and sends the requested sums.

    See :meth:`~hockeystick.learners.federated.one_good_expert.fed_svt.FedSVT.client`, which returns it.
    """

    learner: SVTSetting
    losses: FloatArray

    def start(self) -> State:
        """Returns the state before the first request: sums of 0."""
        return {"total": np.zeros(self.learner.experts)}

    def answer(self, state: State, request: Request) -> tuple[State, FloatArray]:
        """Returns the state after ``request`` and the requested sums; see the module."""
        block, whole = request.step
        total: FloatArray = np.asarray(state["total"], dtype=np.float64)
        if whole:
            return state, total
        if request.size == 0:
            return state, np.empty(0)
        first, stop = self.learner.edges[block : block + 2]
        sums: FloatArray = self.losses[first:stop].sum(axis=0)
        answer = sums if request.size == len(sums) else sums[[int(request.values[0])]]
        return {"total": total + sums}, answer


@define(eq=False)
class _Course:
    """The decisions of a server so far, with simulated noise from a seed."""

    learner: SVTSetting
    seed: int
    expert: int = field(init=False)
    left: int = field(init=False)
    blocks: int = 0
    _window: float = field(default=0.0, init=False)
    _limit: float = field(init=False)
    _coins: tuple[np.random.Generator, ...] = field(init=False)
    _experts: npt.NDArray[np.int64] = field(init=False)
    _above: npt.NDArray[np.bool_] = field(init=False)

    def __attrs_post_init__(self) -> None:
        learner = self.learner
        self._coins = tuple(substream(self.seed, purpose) for purpose in range(4))
        self._experts = np.empty(learner.blocks + 1, np.int64)
        self._above = np.zeros(learner.blocks, np.bool_)
        self.left = learner.switches
        self._begin(int(self._coins[_FIRST].integers(learner.experts)))

    def _begin(self, expert: int) -> None:
        self.expert, self._window = expert, 0.0
        self._experts[self.blocks :] = expert
        if self.left:
            noise = self._coins[_LIMIT].laplace(scale=self.learner.threshold_scale)
            self._limit = self.learner.threshold + noise

    def whole(self, sums: FloatArray) -> FloatArray:
        """Returns the clients' sums of losses, added up."""
        return np.asarray(sums.sum(axis=0))

    def above(self, increment: float) -> bool:
        """Returns whether the window's sum, increased by the losses of the next block, is reported as above."""
        self.blocks += 1
        if not self.left:
            return False
        self._window += increment
        found = self._window + self._coins[_QUERY].laplace(scale=self.learner.query_scale) > self._limit
        self._above[self.blocks - 1] = found
        return bool(found)

    def draw(self, total: FloatArray) -> None:
        """Draws an expert by the losses of all rounds so far, after ``above``."""
        self.left -= 1
        logits = self.learner.logits(total)
        self._begin(int(np.argmax(logits + self._coins[_DRAW].gumbel(size=logits.size))))

    def found(self) -> SVTRuns:
        """Returns the run so far; from here on its last expert is played."""
        return SVTRuns(self._experts, self._above)


def communication(learner: SVTSetting, run: SVTRuns) -> Communication:
    """Returns the numbers sent in one run over a network if all clients answer."""
    above = array("run.above", run.above.astype(np.int8), shape=(learner.blocks,))
    tops = int(above.sum())
    requests, vectors = learner.blocks, 0
    if learner.lazy_vectors:
        vectors = tops
        if tops == learner.switches:
            requests = int(np.flatnonzero(above)[-1]) + 1
    up = requests * (1 if learner.lazy_vectors else learner.experts) + vectors * learner.experts
    down = requests + int(learner.edges[requests] < learner.rounds)
    printed = learner.clients * learner.experts * learner.rounds / learner.period  # Theorem 4
    return Communication(learner.clients * up, learner.clients * down, printed)


# --- many runs -------------------------------------------------------------------------------------------------------


def simulate(learner: SVTSetting, sums: FloatArray, rng: np.random.Generator, runs: int) -> SVTRuns:
    """Returns ``runs`` runs from the sums of blocks of shape (blocks + 1, experts), by one loop over blocks."""
    experts = np.empty((learner.blocks + 1, runs), np.min_scalar_type(learner.experts - 1))
    above = np.zeros((learner.blocks, runs), np.bool_)
    totals = np.cumsum(sums, axis=0)
    for start in range(0, runs, _RUNS):
        part = slice(start, start + _RUNS)
        _simulate(learner, sums, totals, rng, experts[:, part], above[:, part])
    return SVTRuns(experts.T, above.T)


def _simulate(
    learner: SVTSetting,
    sums: FloatArray,
    totals: FloatArray,
    rng: np.random.Generator,
    experts: npt.NDArray[Any],
    above: npt.NDArray[np.bool_],
) -> None:
    size = experts.shape[1]
    playing = np.asarray(rng.integers(learner.experts, size=size), dtype=np.int64)
    live, played = np.arange(size), playing.copy()  # runs that may still switch, and their experts
    left, window = np.full(size, learner.switches), np.zeros(size)
    limit = learner.threshold + _laplace(rng, learner.threshold_scale, size)
    for n in range(learner.blocks):
        experts[n] = playing
        if not live.size:
            continue
        window += sums[n, played]
        hits = np.flatnonzero(window + _laplace(rng, learner.query_scale, live.size) > limit)
        if not hits.size:
            continue
        # All runs that draw after this block have the same odds.
        odds = np.exp(learner.logits(totals[n])).cumsum()
        drawn = np.searchsorted(odds, rng.random(hits.size) * odds[-1], side="right")
        above[n, live[hits]] = True
        playing[live[hits]] = played[hits] = np.minimum(drawn, learner.experts - 1)
        window[hits] = 0.0
        limit[hits] = learner.threshold + _laplace(rng, learner.threshold_scale, hits.size)
        left[hits] -= 1
        if not left[hits].all():
            keep = left > 0
            live, played, left, window, limit = live[keep], played[keep], left[keep], window[keep], limit[keep]
    experts[learner.blocks] = playing


def _laplace(rng: np.random.Generator, scale: float, size: int) -> FloatArray:
    found = rng.standard_exponential(size)
    found -= rng.standard_exponential(size)
    found *= scale
    return found
