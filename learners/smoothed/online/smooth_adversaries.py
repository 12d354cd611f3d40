"""Smooth adversaries of online learners, from harmless ones to those that prove lower bounds.

All act along one axis of a base measure with independent coordinates, in the axis's quantile coordinate, and label by
thresholds 1[x >= b] on that axis, which belong to the intervals, boxes and halfspaces too.

Sources: Haghtalab, Roughgarden & Shetty 2020 (Lemma 3.2, appendix B); binary search: Littlestone 1988, smoothed here;
the block adversary and its bound sqrt(T log2(1/σ) / 8) are new here.
"""

import math

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.validate import probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, UniformCube
from hockeystick.learners.smoothed.measures.regret_bounds import block_depth, block_lengths
from hockeystick.learners.smoothed.measures.smooth_data import CellLaw, SmoothLaw, WindowLaw, around
from hockeystick.learners.smoothed.online.online_game import Play, SmoothAdversary, View
from hockeystick.mechanisms.contract.arguments import run_count


def _coins(rng: np.random.Generator, runs: int) -> BoolArray:
    return rng.random(runs) < 0.5


# --- laws that are fixed in advance ----------------------------------------------------------------------------------


@frozen
class RandomLabels(SmoothAdversary):
    """Points of a fixed law with fair coins as labels: every learner errs on half of them.

    Args:
        law: The law of the points; the base measure itself is ``WindowLaw(measure, 0.0, 1.0)``.

    Example:
        >>> from hockeystick.learners.smoothed import RandomLabels, UniformCube, WindowLaw
        >>> RandomLabels(WindowLaw(UniformCube(1), 0.2, 0.5)).sigma
        0.5
    """

    law: SmoothLaw

    @property
    def sigma(self) -> float:
        """The smoothness of the law."""
        return self.law.smoothness

    adaptive = False

    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        return _Fixed(self.law, None, rng)


def _boundary(value: object) -> float:
    return probability("boundary", value, open=True)


@frozen
class NearBoundary(SmoothAdversary):
    """Points in a window of mass σ around one threshold, labelled by it without noise.

    A cover that is too coarse near that threshold errs at every second point, in all rounds.

    Args:
        measure: The base measure.
        sigma: In (0, 1].
        boundary: The quantile of the threshold, in (0, 1).
        axis: The threshold's axis.

    Example:
        >>> from hockeystick.learners.smoothed import NearBoundary, UniformCube
        >>> NearBoundary(UniformCube(1, 0.0, 10.0), 0.1, 0.3).threshold
        3.0
    """

    measure: BaseMeasure
    sigma: float = field(converter=arguments.sigma)
    boundary: float = field(converter=_boundary)
    axis: int = field(default=0, kw_only=True)

    adaptive = False

    @property
    def threshold(self) -> float:
        """The threshold b: the label of x is 1[x >= b]."""
        return float(self.measure.quantile(self.axis, self.boundary))

    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        law = around(self.measure, self.boundary, self.sigma, axis=self.axis)
        return _Fixed(law, (self.axis, self.threshold), rng)


class _Fixed(Play):
    """The play with one law for all rounds; labels are those of a threshold, or coins."""

    def __init__(self, law: SmoothLaw, cut: tuple[int, float] | None, rng: np.random.Generator) -> None:
        self._law, self._cut, self._rng = law, cut, rng

    def law(self, view: View) -> SmoothLaw:
        return self._law

    def labels(self, view: View, points: FloatArray) -> BoolArray:
        if self._cut is None:
            return _coins(self._rng, len(points))
        axis, threshold = self._cut
        return points[:, axis] >= threshold


# --- adaptive laws ---------------------------------------------------------------------------------------------------


def _search_sigma(value: object) -> float:
    return real("sigma", value, low=0.0, high=1.0)


@frozen
class BinarySearch(SmoothAdversary):
    """Smoothed binary search: points around the middle of the open interval, labelled against the learner's majority.

    Some threshold is consistent with all labels, so the best one makes no error. With σ = 0 the point is the middle:
    the worst case, in which every learner of thresholds errs in every second round (in floats for about 50 rounds).

    Args:
        measure: The base measure.
        sigma: In [0, 1].
        axis: The axis of the search.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import SmoothedOnline
        >>> from hockeystick.learners.smoothed import BinarySearch, Thresholds, UniformCube
        >>> learner = SmoothedOnline(concepts=Thresholds(), measure=UniformCube(1), sigma=0.1, rounds=40, gamma=1e-4)
        >>> game = {"secret": np.random.default_rng(0), "nature": np.random.default_rng(1)}
        >>> runs = learner.simulate(BinarySearch(UniformCube(1), 0.0), 5, **game)
        >>> bool((runs.mean_regrets(Thresholds()) >= 20).all())
        True
    """

    measure: BaseMeasure
    sigma: float = field(converter=_search_sigma)
    axis: int = field(default=0, kw_only=True)

    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        return _Search(self, run_count(runs))


@frozen(eq=False)
class _PointLaw(SmoothLaw):
    """The law at the middle point, of smoothness 0."""

    measure: BaseMeasure
    quantiles: FloatArray
    axis: int

    smoothness = 0.0

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        points = self.measure.sample(rng, n)
        places = np.maximum(self.quantiles, np.nextafter(0.0, 1.0))  # the least point, if none lies below
        points[:, self.axis] = self.measure.quantile(self.axis, places)
        return points


class _Search(Play):
    def __init__(self, adversary: BinarySearch, runs: int) -> None:
        self._of = adversary
        self._low, self._high = np.full(runs, -np.inf), np.full(runs, np.inf)  # thresholds in (low, high] are open

    def law(self, view: View) -> SmoothLaw:
        measure, axis = self._of.measure, self._of.axis
        low, high = measure.cdf(axis, self._low), measure.cdf(axis, self._high, left=True)
        middle = (low + np.maximum(low, high)) / 2.0
        if self._of.sigma == 0.0:
            return _PointLaw(measure, middle, axis)
        return around(measure, middle, self._of.sigma, axis=axis)

    def labels(self, view: View, points: FloatArray) -> BoolArray:
        x = points[:, self._of.axis]
        against = view.policy(points) < 0.5
        return np.where(x <= self._low, False, (x >= self._high) | against)

    def observe(self, points: FloatArray, labels: BoolArray) -> None:
        x = points[:, self._of.axis]
        self._high = np.where(labels, np.minimum(self._high, x), self._high)
        self._low = np.where(labels, self._low, np.maximum(self._low, x))


@frozen
class Blocks(SmoothAdversary):
    """Fair coins in D = floor(log2(1/σ)) nested cells: every learner's regret is at least sqrt(T D / 8).

    The line is cut into 2^D cells of equal mass. For T/D rounds points come from the middle one of the remaining cells,
    labelled by fair coins. Then the cells on the side of the best threshold for these labels remain.

    Args:
        measure: The base measure.
        sigma: In (0, 1].
        axis: The axis that is cut.

    Example:
        >>> from hockeystick.learners.smoothed import Blocks, UniformCube
        >>> from hockeystick.learners.smoothed.measures.regret_bounds import printed_regret_floor
        >>> Blocks(UniformCube(1), 1 / 16).sigma, round(printed_regret_floor(rounds=1000, sigma=1 / 16), 1)
        (0.0625, 22.4)
    """

    measure: BaseMeasure
    sigma: float = field(converter=arguments.sigma)
    axis: int = field(default=0, kw_only=True)

    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        return _BlockPlay(self, rounds, run_count(runs), rng)


class _BlockPlay(Play):
    def __init__(self, adversary: Blocks, rounds: int, runs: int, rng: np.random.Generator) -> None:
        self._of, self._rng = adversary, rng
        self._cells = 1 << block_depth(adversary.sigma)
        self._ends = set(np.cumsum(block_lengths(rounds, adversary.sigma)).tolist())
        self._first, self._last = np.zeros(runs, dtype=np.int64), np.full(runs, self._cells, dtype=np.int64)
        self._balance, self._seen = np.zeros(runs, dtype=np.int64), 0

    def law(self, view: View) -> SmoothLaw:
        return WindowLaw(self._of.measure, self._middle() / self._cells, 1.0 / self._cells, axis=self._of.axis)

    def labels(self, view: View, points: FloatArray) -> BoolArray:
        return _coins(self._rng, len(points))

    def observe(self, points: FloatArray, labels: BoolArray) -> None:
        self._balance += np.where(labels, 1, -1)
        self._seen += 1
        if self._seen in self._ends:
            middle, up = self._middle(), self._balance > 0
            # With a majority of ones the best threshold lies to the left of the cell.
            self._last = np.where(up, middle, self._last)
            self._first = np.where(up, self._first, middle + 1)
            self._balance[:] = 0

    def _middle(self) -> IntArray:
        middle: IntArray = np.minimum((self._first + self._last - 1) // 2, self._cells - 1)
        return middle


@frozen
class CellConcentration(SmoothAdversary):
    """The uniform law on the floor(σK) of K cells of equal mass with the most hits so far; labels are fair coins.

    It maximises the hits of the most frequent cell, which Lemma 3.2 bounds.

    Args:
        measure: The base measure.
        sigma: In (0, 1], at least 1/K.
        cells: K.
        axis: The axis that is cut.

    Raises:
        InvalidArgumentError: σ < 1/K, or an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed import CellConcentration, UniformCube
        >>> adversary = CellConcentration(UniformCube(1), 0.1, 25)
        >>> adversary.kept, adversary.sigma
        (2, 0.08)
    """

    measure: BaseMeasure
    stated: float = field(converter=arguments.sigma, alias="sigma")
    cells: int = field(converter=arguments.cells)
    axis: int = field(default=0, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.kept < 1:
            raise InvalidArgumentError("sigma", self.stated, f"is below 1/K = {1 / self.cells:g}", "use more cells")

    @property
    def kept(self) -> int:
        """The number floor(σK) of cells in use, with a margin for the rounding of products such as 0.1 * 30."""
        # The margin exceeds the product's rounding error U.
        return math.floor(self.stated * self.cells * (1.0 + 1e-12))

    @property
    def sigma(self) -> float:
        """The smoothness of its laws, floor(σK) / K."""
        return self.kept / self.cells

    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        return _Concentrate(self, run_count(runs, self.cells), rng)

    def hits(self, points: FloatArray) -> IntArray:
        """Returns the hits of each cell, shape (R, K), by points (R, T, d)."""
        cell = _cell_of(self, points[:, :, self.axis])
        runs = len(cell)
        flat = cell + self.cells * np.arange(runs)[:, None]
        return np.bincount(flat.ravel(), minlength=runs * self.cells).reshape(runs, self.cells).astype(np.int64)


def _cell_of(adversary: CellConcentration, x: FloatArray) -> IntArray:
    share = adversary.measure.cdf(adversary.axis, x)
    cell: IntArray = np.clip(np.ceil(share * adversary.cells) - 1, 0, adversary.cells - 1).astype(np.int64)
    return cell


class _Concentrate(Play):
    def __init__(self, adversary: CellConcentration, runs: int, rng: np.random.Generator) -> None:
        self._of, self._rng = adversary, rng
        self._hits = np.zeros((runs, adversary.cells), dtype=np.int64)

    def law(self, view: View) -> SmoothLaw:
        order = np.argsort(-self._hits, axis=1, kind="stable")
        return CellLaw(self._of.measure, self._of.cells, order[:, : self._of.kept], axis=self._of.axis)

    def labels(self, view: View, points: FloatArray) -> BoolArray:
        return _coins(self._rng, len(points))

    def observe(self, points: FloatArray, labels: BoolArray) -> None:
        self._hits[np.arange(len(points)), _cell_of(self._of, points[:, self._of.axis])] += 1


@frozen
class NoUniformConvergence(SmoothAdversary):
    """The process of appendix B: the first point determines the half of [0, 1] of all later points. σ = 1/2.

    So the share of points above 1/2 is 0 or 1, each with probability 1/2, for every T: averages over an adaptive
    sequence need not converge to the mean of any law. All labels are False.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import SmoothedOnline
        >>> from hockeystick.learners.smoothed import NoUniformConvergence, Thresholds, UniformCube
        >>> learner = SmoothedOnline(concepts=Thresholds(), measure=UniformCube(1), sigma=0.5, rounds=20)
        >>> game = {"secret": np.random.default_rng(0), "nature": np.random.default_rng(1)}
        >>> runs = learner.simulate(NoUniformConvergence(), 100, **game)
        >>> np.unique((runs.points[:, :, 0] > 0.5).mean(axis=1)).tolist()
        [0.0, 1.0]
    """

    @property
    def sigma(self) -> float:
        """1/2."""
        return 0.5

    def begin(self, rounds: int, runs: int, rng: np.random.Generator) -> Play:
        return _Halves(run_count(runs))


class _Halves(Play):
    def __init__(self, runs: int) -> None:
        self._starts, self._opening = np.full(runs, 0.25), True

    def law(self, view: View) -> SmoothLaw:
        return WindowLaw(UniformCube(1), self._starts, 0.5)

    def labels(self, view: View, points: FloatArray) -> BoolArray:
        return np.zeros(len(points), dtype=np.bool_)

    def observe(self, points: FloatArray, labels: BoolArray) -> None:
        if self._opening:
            self._starts = np.where(points[:, 0] <= 0.5, 0.0, 0.5)
            self._opening = False
