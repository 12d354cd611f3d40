"""Hedge and its perturbed-leader forms: on a table of experts, and on the thresholds of a continuum without any cover.

* :class:`DenseHedge`: K experts in R runs, O(RK) per round. Rules: "hedge" draws from weights exp(-ηL); "gumbel" takes
  the largest of -ηL plus fresh Gumbel noise, which has the same law; "exponential" takes the least of L minus fresh
  exponential noise of scale 1/η, which has another law (Kalai & Vempala 2005). The noise is drawn anew in each round,
  because an adaptive adversary could infer fixed noise from earlier rounds.
* :class:`CellHedge`: weights over *all* thresholds at once. After t examples there are at most t + 1 cells of
  thresholds with equal losses, and the state is one number per cell.

For long lists of thresholds see ``smoothed.online.threshold_tree``. Draws are simulated, in floats, without secure
randomness.

Source: Freund & Schapire 1997; regret bounds are in ``smoothed.measures.regret_bounds``.
"""

import bisect
import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import as_array, integer, one_of, place, real
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure
from hockeystick.mechanisms.contract.arguments import generator, run_count

Rule = Literal["hedge", "gumbel", "exponential"]

_MOST_CELLS = 1 << 25  # of the table of losses


def rule_of(value: object) -> Rule:
    """Returns ``value``, checked to be one of the three rules."""
    return one_of("rule", value, "hedge", "gumbel", "exponential")


def best_rate(rounds: int, size: int) -> float:
    """Returns Hedge's best rate, sqrt(8 ln(K) / T), with K = 2 for a single expert, whose rate has no effect."""
    return math.sqrt(8.0 * math.log(max(2, integer("size", size, low=1))) / arguments.rounds(rounds))


class DenseHedge:
    """Hedge with K experts in R runs, on a table of all losses.

    Args:
        size: K >= 1.
        learning_rate: η > 0 per unit of loss.
        runs: R >= 1; K * R at most 2^25.
        rule: "hedge", "gumbel" or "exponential".

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed import DenseHedge
        >>> hedge = DenseHedge(3, 1.0)
        >>> hedge.update([0.0, 1.0, 1.0])
        >>> hedge.probabilities().round(3).tolist()
        [[0.576, 0.212, 0.212]]
    """

    def __init__(self, size: int, learning_rate: float, *, runs: int = 1, rule: Rule = "hedge") -> None:
        self.size, self.runs = integer("size", size, low=1), run_count(runs)
        self.learning_rate = arguments.learning_rate(learning_rate)
        self.rule = rule_of(rule)
        if self.size * self.runs > _MOST_CELLS:
            raise InvalidArgumentError(
                "runs", runs, f"times {size} experts exceed 2^25 losses", "use fewer runs or experts"
            )
        self.losses = np.zeros((self.runs, self.size))  # integers stay exact
        self._weights: FloatArray | None = None  # relative to the largest

    def draw(self, rng: np.random.Generator) -> IntArray:
        """Returns an expert for each run, shape (R,), drawn with fresh randomness."""
        coins = generator(rng)
        if self.rule == "gumbel":
            noisy = coins.gumbel(size=self.losses.shape) - self.learning_rate * self.losses
            return np.asarray(noisy.argmax(axis=1))
        if self.rule == "exponential":
            noisy = coins.exponential(1.0 / self.learning_rate, self.losses.shape) - self.losses
            return np.asarray(noisy.argmax(axis=1))
        sums = np.cumsum(self._relative(), axis=1)
        wanted = coins.random(self.runs) * sums[:, -1]
        if self.runs == 1:
            return np.minimum(np.searchsorted(sums[0], wanted, side="right"), self.size - 1)
        found: IntArray = np.minimum((sums <= wanted[:, None]).sum(axis=1), self.size - 1)
        return found

    def probabilities(self) -> FloatArray:
        """Returns the weights exp(-ηL) of each run, normalised, shape (R, K): the law of "hedge" and "gumbel".

        The law of "exponential" is another one, with the experts in the same order.
        """
        weights = self._relative()
        found: FloatArray = weights / weights.sum(axis=1, keepdims=True)
        return found

    def share(self, marked: npt.NDArray[np.bool_]) -> FloatArray:
        """Returns the probability of the experts ``marked`` (R, K), shape (R,)."""
        return np.asarray(np.einsum("rk,rk->r", self.probabilities(), marked))

    def update(self, losses: npt.ArrayLike) -> None:
        """Adds losses in [0, 1], shape (R, K), or (K,) for all runs.

        Raises:
            InvalidDataError: another shape, or a loss that is not a number in [0, 1].
        """
        given = as_array("losses", losses, data=True)
        if given.shape not in ((self.size,), self.losses.shape) or given.dtype.kind not in "biuf":
            raise InvalidDataError(
                "losses", losses, "do not have one number for each run and expert", f"give shape {self.losses.shape}"
            )
        if given.dtype.kind != "b" and not ((given >= 0.0) & (given <= 1.0)).all():
            where = place("losses", ~((given >= 0.0) & (given <= 1.0)))
            raise InvalidDataError(where, given.dtype, "is not in [0, 1]", "rescale the losses")
        self.losses += given
        self._weights = None

    def _relative(self) -> FloatArray:
        if self._weights is None:
            lead = self.losses - self.losses.min(axis=1, keepdims=True)
            self._weights = np.asarray(np.exp(-self.learning_rate * lead))
        return self._weights


class CellHedge:
    """Hedge over all thresholds 1[x >= b] of a line, with the base measure as the prior of b: no cover, one run.

    Its regret is at most that of Hedge on one representative of each of 1/ε brackets, for every ε at once, because a
    bracket has prior mass ε. After t examples a round takes O(t) memory and time.

    Args:
        measure: A base measure on the line without atoms.
        learning_rate: η > 0.

    Raises:
        InvalidArgumentError: a measure that has atoms (a threshold above the highest would have no weight) or is not on
            the line, or an invalid learning rate.

    Example:
        >>> from hockeystick.learners.smoothed import CellHedge, UniformCube
        >>> hedge = CellHedge(UniformCube(1), 1.0)
        >>> hedge.update(0.3, True)
        >>> hedge.update(0.7, False)
        >>> hedge.cells, round(hedge.policy(0.3), 3), round(hedge.policy(0.9), 3)
        (3, 0.402, 0.866)
    """

    def __init__(self, measure: BaseMeasure, learning_rate: float) -> None:
        if not isinstance(measure, BaseMeasure) or measure.dimension != 1 or measure.atoms:
            raise InvalidArgumentError(
                "measure", measure, "is not a measure on the line without atoms", "use UniformCube(1)"
            )
        self.measure = measure
        self.learning_rate = arguments.learning_rate(learning_rate)
        self._edges = [0.0, 1.0]  # of the cells, as quantiles
        self._losses = np.zeros(1, dtype=np.int64)

    @property
    def cells(self) -> int:
        """The number of cells so far."""
        return len(self._losses)

    def draw(self, rng: np.random.Generator) -> float:
        """Returns a threshold b."""
        coins = generator(rng)
        sums = np.cumsum(self._weights())
        cell = min(int(np.searchsorted(sums, coins.random() * sums[-1], side="right")), self.cells - 1)
        low, high = self._edges[cell], self._edges[cell + 1]
        return float(self.measure.quantile(0, min(1.0, low + (high - low) * (1.0 - coins.random()))))

    def policy(self, x: float) -> float:
        """Returns the probability of predicting True at x."""
        share = float(self.measure.cdf(0, real("x", x, data=True)))
        weights = self._weights()
        edges = np.array(self._edges)
        widths = np.diff(edges)
        inside = np.clip(share - edges[:-1], 0.0, widths) / widths
        return min(1.0, float(weights @ inside) / float(weights.sum()))

    def update(self, x: float, label: bool) -> None:
        """Learns from one example."""
        learned = as_array("label", label, data=True)
        if learned.dtype != np.bool_ or learned.ndim:
            raise InvalidDataError("label", label, "is not a bool")
        share = float(self.measure.cdf(0, real("x", x, data=True)))
        place = bisect.bisect_left(self._edges, share)
        if self._edges[place] != share:
            self._edges.insert(place, share)
            self._losses = np.insert(self._losses, place, self._losses[place - 1])
        # Thresholds up to x predict True.
        if label:
            self._losses[place:] += 1
        else:
            self._losses[:place] += 1

    def _weights(self) -> FloatArray:
        lead = self._losses - self._losses.min()
        return np.asarray(np.diff(self._edges) * np.exp(-self.learning_rate * lead))
