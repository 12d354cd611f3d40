"""Broken variants of Fed-SVT as audit targets, each with its exact law.

Mistakes in a parameter (too little noise, too large a learning rate, a budget that is exceeded) need no class: they are
a :class:`~hockeystick.learners.FedSVT` with other parameters than the claimed ones. Two classes hold the rest:

* :class:`BrokenThresholds`: the answers if all experts have equal losses, so that draws show nothing. Given the
  windows, an answer depends on running sums and noise only; the law of all answers is a product of one-dimensional
  integrals.
* :class:`ThresholdFromData`: the threshold depends on the best expert's loss in the data.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen
from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.numerics.table_rows import distinct_rows
from hockeystick.accounting.validate import array, integer
from hockeystick.learners import ExactLoss, FedSVT
from hockeystick.learners.federated.one_good_expert.runs import SVTRuns
from hockeystick.learners.federated.stochastic.exact_winners import losses as losses_between
from hockeystick.mechanisms.selection.common import panels
from hockeystick.mechanisms.thresholds.comparison_law import LAPLACE

Above = npt.NDArray[np.bool_]
Pair = tuple[FloatArray, FloatArray]
SVTDefect = Literal[
    "threshold without noise",
    "queries without noise",
    "one query noise in a window",
    "one threshold for all windows",
    "sums not reset",
]

SVT_DEFECTS: tuple[SVTDefect, ...] = (
    "threshold without noise",
    "queries without noise",
    "one query noise in a window",
    "one threshold for all windows",
    "sums not reset",
)

_REACH = 45.0  # in scales; the noise's mass beyond is below 1e-19
_MOST_BLOCKS = 14  # for the enumeration of all answers


@frozen(kw_only=True, eq=False, slots=False)
class BrokenThresholds:
    """The answers of Fed-SVT on losses that are equal for all experts, correct or with one defect.

    Attributes:
        learner: The learner whose parameters are used; draws do not matter.
        defect: The mistake; None for the correct answers.
    """

    learner: FedSVT
    defect: SVTDefect | None = None

    def __attrs_post_init__(self) -> None:
        if self.defect not in (None, *SVT_DEFECTS):
            raise InvalidArgumentError("defect", self.defect, "is unknown", f"use one of {', '.join(SVT_DEFECTS)}")

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Above:
        """Returns whether an expert was drawn after each block, shape (runs, blocks)."""
        increments, runs = self._increments(losses), integer("runs", runs, low=1)
        b1, b2 = self._scales
        found = np.zeros((runs, len(increments)), np.bool_)
        left, window = np.full(runs, self.learner.switches), np.zeros(runs)
        limit, query = rng.laplace(scale=b1, size=runs), rng.laplace(scale=b2, size=runs)
        for n, increment in enumerate(increments):
            window += increment
            if self.defect != "one query noise in a window":
                query = rng.laplace(scale=b2, size=runs)
            hit = (window + query > self.learner.threshold + limit) & (left > 0)
            found[:, n] = hit
            left -= hit
            if self.defect != "sums not reset":
                window[hit] = 0.0
            if self.defect != "one threshold for all windows":
                limit = np.where(hit, rng.laplace(scale=b1, size=runs), limit)
            query = np.where(hit, rng.laplace(scale=b2, size=runs), query)
        return found

    def log_likelihood_ratio(self, above: Above, losses0: npt.ArrayLike, losses1: npt.ArrayLike) -> FloatArray:
        """Returns ln P0/P1 of answers of shape (runs, blocks), shape (runs,); infinite if one of them is impossible."""
        distinct, where = distinct_rows(above)
        first, second = self.log_law(distinct, losses0), self.log_law(distinct, losses1)
        return np.asarray((first - second)[where])

    def exact(self, losses0: npt.ArrayLike, losses1: npt.ArrayLike) -> ExactLoss:
        """Returns the exact privacy loss of the answers, by enumeration.

        Raises:
            InvalidArgumentError: There are more than 14 blocks.
        """
        blocks = integer("blocks", self.learner.blocks, high=_MOST_BLOCKS)
        every = np.array(list(itertools.product((False, True), repeat=blocks)))
        every = every[every.sum(axis=1) <= self.learner.switches]
        return losses_between(self.log_law(every, losses0), self.log_law(every, losses1))

    def log_law(self, above: Above, losses: npt.ArrayLike) -> FloatArray:
        """Returns ln P(answers | losses) of answers of shape (n, blocks), shape (n,)."""
        increments = self._increments(losses)
        return np.array([self._log_probability(row, increments) for row in above])

    def _log_probability(self, row: Above, increments: FloatArray) -> float:
        ends = [int(end) for end in np.flatnonzero(row) + 1]
        if len(ends) < self.learner.switches and len(row) not in ends:
            ends.append(len(row))
        cuts = list(zip([0, *ends], ends, strict=False))
        if self.defect == "one threshold for all windows":
            return self._joint(row, increments, cuts)
        return sum(self._joint(row, increments, [cut]) for cut in cuts)

    def _joint(self, row: Above, increments: FloatArray, cuts: list[tuple[int, int]]) -> float:
        """Returns ln P of the answers of windows with one threshold; cached, for many rows share them."""
        tested = np.concatenate([np.arange(first, end) for first, end in cuts])
        key = increments.tobytes(), tested.tobytes(), row[tested].tobytes()
        if key not in self._known:
            self._known[key] = self._integral(row, increments, tested)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[bytes, bytes, bytes], float]:
        return {}

    def _integral(self, row: Above, increments: FloatArray, tested: npt.NDArray[np.int64]) -> float:
        sums = self._sums(row, increments)[tested]
        nodes, log_weights = self._quadrature(sums)
        return float(special.logsumexp(log_weights + self._log_answers(row[tested], sums, nodes).sum(axis=0)))

    def _sums(self, row: Above, increments: FloatArray) -> FloatArray:
        """Returns the sums that are compared with the threshold after each block."""
        sums = np.cumsum(increments)
        if self.defect == "sums not reset":
            return sums
        before = np.concatenate([[0.0], np.where(row, sums, 0.0)[:-1]])
        return np.asarray(sums - np.maximum.accumulate(before))

    def _log_answers(self, row: Above, sums: FloatArray, nodes: FloatArray) -> FloatArray:
        """Returns ln P(answer | noise of the threshold), shape (blocks, nodes)."""
        z = self.learner.threshold + nodes - sums[:, None]
        if self.defect in ("queries without noise", "one query noise in a window"):
            with np.errstate(divide="ignore"):
                return np.log(np.where(row[:, None], z < 0.0, z >= 0.0))
        z /= self.learner.query_scale
        return np.where(row[:, None], LAPLACE.log_tail(z), LAPLACE.log_tail(-z))

    def _quadrature(self, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns nodes and log-weights of the noise that the answers of a window have in common."""
        b1, b2 = self._scales
        if self.defect == "threshold without noise":
            return np.zeros(1), np.zeros(1)
        common = [b1, b2] if self.defect == "one query noise in a window" else [b1]
        reach = _REACH * max(common)
        kinks = np.append(sums - self.learner.threshold, 0.0)
        step = 0.5 * min(self.learner.threshold_scale, self.learner.query_scale)
        nodes, log_weights = panels(np.unique(np.concatenate([kinks, np.arange(-reach, reach, step)])))
        return nodes, log_weights + _log_density(nodes, *common)

    @property
    def _scales(self) -> tuple[float, float]:
        b1, b2 = self.learner.threshold_scale, self.learner.query_scale
        silent = self.defect == "threshold without noise", self.defect == "queries without noise"
        return (0.0 if silent[0] else b1), (0.0 if silent[1] else b2)

    def _increments(self, losses: npt.ArrayLike) -> FloatArray:
        sums = self.learner.sums(array("losses", losses))[: self.learner.blocks]
        if (sums != sums[:, :1]).any():
            raise InvalidArgumentError("losses", sums.shape, "differ between experts", "give all experts the same")
        return np.asarray(sums[:, 0])


def _log_density(x: FloatArray, first: float, second: float | None = None) -> FloatArray:
    """Returns the log-density of Laplace noise, or of a sum of two."""
    one = LAPLACE.log_density(x / first) - math.log(first)
    if second is None:
        return np.asarray(one)
    if first == second:
        return np.asarray(one + np.log1p(np.abs(x) / first) - math.log(2.0))
    large, small = max(first, second), min(first, second)
    near = -np.abs(x) * (1.0 / small - 1.0 / large)
    return np.asarray(
        -np.abs(x) / large
        + np.log1p(-small / large * np.exp(near))
        + math.log(large / 2.0)
        - math.log(large**2 - small**2)
    )


@frozen(kw_only=True, eq=False)
class ThresholdFromData:
    """Fed-SVT with the best expert's loss in the data added to its threshold.

    Attributes:
        learner: The learner with the threshold to add to.
    """

    learner: FedSVT

    def of(self, losses: npt.ArrayLike) -> FedSVT:
        """Returns the learner with the threshold for these losses."""
        best = float(self.learner.sums(losses).sum(axis=0).min())
        return evolve(self.learner, threshold=self.learner.threshold + best)

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> SVTRuns:
        """Simulates runs; see ``FedSVT.simulate``."""
        return self.of(losses).simulate(losses, rng, runs)

    def log_likelihood_ratio(self, runs: SVTRuns, losses0: npt.ArrayLike, losses1: npt.ArrayLike) -> FloatArray:
        """Returns ln P0/P1 of each run; see ``FedSVT.log_likelihood_ratio``."""
        first, second = (self.of(losses).log_probability(runs, losses) for losses in (losses0, losses1))
        return np.asarray(first - second)


def one_loss(learner: FedSVT, *, at: int, later: float = 0.0, before: float = 0.0, size: float = 1.0) -> Pair:
    """Returns two streams, equal for all experts, whose sums in round ``at`` (from 1) are 0 and ``size``."""
    first = np.full((learner.rounds, learner.experts), later)
    first[: at - 1], first[at - 1] = before, 0.0
    second = first.copy()
    second[at - 1] = size
    return first, second
