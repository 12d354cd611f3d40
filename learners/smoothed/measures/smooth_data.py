"""Smooth laws and smooth data: generators whose smoothness is known, and how smooth given masses or records are.

A law is sigma-smooth against a base measure mu if its density is at most 1/sigma. Generators work in the quantile
coordinate u of one axis: x = Q(u), with u uniform on a part of (0, 1] of length s, is s-smooth for *every* mu, atoms
included, since Q turns lengths into masses.

Records are (sigma, chi)-smooth for a class of queries if some sigma-smooth law answers every query to within chi as the
records do (Hardt & Rothblum 2010; Haghtalab, Roughgarden & Shetty 2020). Smoothness is what usefulness rests on.
Privacy never does: nothing here may be read off private records to set a parameter.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import optimize, sparse

from hockeystick.accounting import InvalidArgumentError, InvalidDataError, NumericalError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, probability
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, points_of
from hockeystick.learners.smoothed.measures.regret_bounds import sigma_of
from hockeystick.mechanisms.contract.arguments import generator

ROUNDING = 1e-12  # of a smoothness that is stated and computed

_LEAST_ACCEPTANCE = 1e-6


class SmoothLaw(ABC):
    """A law, or one for each of R runs, against a base measure."""

    measure: BaseMeasure

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """A sigma for which every one of the laws is sigma-smooth; without atoms the largest."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """n independent points (n, d): all from the one law, or one from each of n laws."""


def _base(value: object) -> BaseMeasure:
    if not isinstance(value, BaseMeasure):
        raise InvalidArgumentError("measure", value, "is no base measure", "use one of learners.base_measure")
    return value


def _measure(value: object) -> BaseMeasure:
    if not _base(value).independent:
        raise InvalidArgumentError("measure", value, "has dependent coordinates", "use a product, or AcceptedLaw")
    return _base(value)


def _at_quantiles(
    measure: BaseMeasure, axis: int, quantiles: FloatArray, rng: np.random.Generator, n: int
) -> FloatArray:
    spots = measure.sample(rng, n) if measure.dimension > 1 else np.empty((n, 1))
    spots[:, axis] = measure.quantile(axis, np.clip(quantiles, 0.0, 1.0))
    return spots


def _each(rows: FloatArray, n: int) -> FloatArray:
    if len(rows) not in (1, n):
        raise InvalidArgumentError("n", n, f"does not fit {len(rows)} laws", "draw one point from each")
    return np.broadcast_to(rows, (n, *rows.shape[1:]))


def _axis(value: object) -> int:
    return integer("axis", value, low=0)


def _starts(value: object) -> FloatArray:
    found = array("starts", value, low=0.0, high=1.0)
    return array("starts", np.atleast_1d(found), ndim=1)


@frozen(eq=False)
class WindowLaw(SmoothLaw):
    """The base measure between two quantiles of one axis: u uniform on (start, start + width].

    Args:
        measure: With independent coordinates.
        starts: Shape (R,), one window per run, or a number; start + width <= 1.
        width: In (0, 1]: the smoothness.
        axis: The axis that is restricted.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    measure: BaseMeasure = field(converter=_measure)
    starts: FloatArray = field(converter=_starts)
    width: float = field(converter=sigma_of)
    axis: int = field(default=0, converter=_axis, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.measure.marginal(self.axis)
        if (self.starts + self.width > 1.0 + ROUNDING).any():
            raise InvalidArgumentError("starts", float(self.starts.max()), f"is above 1 - width = {1 - self.width:g}")

    @property
    def smoothness(self) -> float:
        return self.width

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        starts = _each(self.starts, integer("n", n, low=0))
        uniform = 1.0 - generator(rng).random(n)  # in (0, 1]
        return _at_quantiles(self.measure, self.axis, starts + self.width * uniform, rng, n)


def around(measure: BaseMeasure, centres: npt.ArrayLike, sigma: float, *, axis: int = 0) -> WindowLaw:
    """Windows of mass sigma centred at quantiles ``centres`` (R,), moved inwards where they would leave (0, 1)."""
    middle = np.atleast_1d(array("centres", centres, low=0.0, high=1.0))
    width = sigma_of(sigma)
    return WindowLaw(measure, np.clip(middle - width / 2.0, 0.0, 1.0 - width), width, axis=axis)


@frozen(eq=False)
class CellLaw(SmoothLaw):
    """Uniform on m of K cells of equal base mass, cut at the quantiles j/K of one axis.

    Args:
        measure: With independent coordinates.
        cells: K.
        chosen: The cells, shape (R, m) or (m,): numbers in 0 .. K - 1, none twice.
        axis: The axis that is cut.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    measure: BaseMeasure = field(converter=_measure)
    cells: int = field(converter=arguments.cells)
    chosen: npt.NDArray[np.int64] = field()
    axis: int = field(default=0, converter=_axis, kw_only=True)

    @chosen.validator
    def _chosen_are_cells(self, _: object, value: object) -> None:
        rows = array("chosen", np.atleast_2d(np.asarray(value)), ndim=2, low=0, high=self.cells - 1)
        ordered = np.sort(rows, axis=1)
        if not rows.shape[1] or (np.diff(ordered, axis=1) < 1).any() or (rows != np.floor(rows)).any():
            raise InvalidArgumentError("chosen", value, "is empty or names a cell twice")
        self.measure.marginal(self.axis)

    @classmethod
    def random(
        cls, measure: BaseMeasure, sigma: float, rng: np.random.Generator, *, cells: int = 64, axis: int = 0
    ) -> "CellLaw":
        """Uniform on a random set of cells: the fewest that make it sigma-smooth."""
        count = arguments.cells(cells)
        kept = min(count, math.ceil(sigma_of(sigma) * count))
        return cls(measure, count, generator(rng).permutation(count)[:kept], axis=axis)

    @property
    def smoothness(self) -> float:
        return int(np.atleast_2d(self.chosen).shape[1]) / self.cells

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        rows = _each(np.atleast_2d(self.chosen).astype(float), integer("n", n, low=0))
        which = generator(rng).integers(0, rows.shape[1], n)
        uniform = 1.0 - rng.random(n)
        quantiles = (rows[np.arange(n), which] + uniform) / self.cells
        return _at_quantiles(self.measure, self.axis, quantiles, rng, n)


def _shares(value: object) -> FloatArray:
    found: FloatArray = array("masses", value, ndim=1, low=0.0)
    if not len(found) or abs(math.fsum(found) - 1.0) > 1e-9:
        raise InvalidArgumentError("masses", value, "do not sum to 1", "divide them by their sum")
    return found / math.fsum(found)


@frozen(eq=False)
class PiecewiseLaw(SmoothLaw):
    """Bumps: any masses on K cells of equal base mass, cut at the quantiles j/K of one axis.

    Args:
        measure: With independent coordinates.
        masses: Of the cells, shape (K,), summing to 1.
        axis: The axis that is cut.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    measure: BaseMeasure = field(converter=_measure)
    masses: FloatArray = field(converter=_shares)
    axis: int = field(default=0, converter=_axis, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.measure.marginal(self.axis)

    @property
    def smoothness(self) -> float:
        return 1.0 / (len(self.masses) * float(self.masses.max()))

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        count = integer("n", n, low=0)
        cell = generator(rng).choice(len(self.masses), count, p=self.masses)
        return _at_quantiles(self.measure, self.axis, (cell + 1.0 - rng.random(count)) / len(self.masses), rng, count)


def _checks(value: object) -> int:
    return integer("checks", value, low=1)


@frozen(eq=False)
class AcceptedLaw(SmoothLaw):
    """Base draws, each accepted with a probability a(x) in [0, 1]: density a / E a, so E a is its smoothness.

    E a cannot be computed for an arbitrary rule. It is estimated at construction from ``checks`` base draws, and what
    is stated must not exceed a bound that holds but with probability 1e-9 (Hoeffding 1963).

    Args:
        measure: Any base measure.
        accept: a, from points (n, d) to (n,).
        sigma: The smoothness that is stated, at most E a.
        rng: For the estimate.
        checks: Number of base draws for it.

    Raises:
        InvalidArgumentError: probabilities outside [0, 1], or a mean acceptance that may be below sigma.
    """

    measure: BaseMeasure = field(converter=_base)
    accept: Callable[[FloatArray], FloatArray]
    sigma: float = field(converter=sigma_of)
    rng: np.random.Generator = field(converter=generator)
    checks: int = field(default=200_000, converter=_checks, kw_only=True)

    def __attrs_post_init__(self) -> None:
        mean = float(self._chances(self.measure.sample(self.rng, self.checks)).mean())
        error = math.sqrt(math.log(1e9) / (2.0 * self.checks))
        if mean - error < self.sigma or mean < _LEAST_ACCEPTANCE:
            raise InvalidArgumentError(
                "sigma", self.sigma, f"is not shown: the mean acceptance is {mean:.4g} +- {error:.2g}", "state less"
            )

    @property
    def smoothness(self) -> float:
        return self.sigma

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        wanted, found = integer("n", n, low=0), [np.empty((0, self.measure.dimension))]
        missing = wanted
        while missing > 0:
            spots = self.measure.sample(generator(rng), 2 * missing + 16)
            kept = spots[rng.random(len(spots)) < self._chances(spots)]
            found.append(kept[:missing])
            missing -= len(found[-1])
        return np.concatenate(found)

    def _chances(self, points: FloatArray) -> FloatArray:
        found: FloatArray = array("accept", self.accept(points), shape=(len(points),), low=0.0, high=1.0)
        return found


# --- how smooth masses and records are -------------------------------------------------------------------------------


def smoothness(masses: npt.ArrayLike, base: npt.ArrayLike) -> float:
    """The largest sigma for which ``masses`` (N,) are sigma-smooth against the base masses (N,); 0 if for none."""
    law = _shares(masses)
    weights = array("base", base, low=0.0, shape=(len(law),))
    _ = _shares(weights)
    held = law > 0.0
    return float((weights[held] / law[held]).min())


def check_smooth(masses: npt.ArrayLike, base: npt.ArrayLike, sigma: float) -> None:
    """Refuses masses that are not sigma-smooth, but for rounding.

    Raises:
        InvalidArgumentError: some mass exceeds its base mass over sigma.
    """
    found = smoothness(masses, base)
    if found < sigma_of(sigma) * (1.0 - 1e-9):
        raise InvalidArgumentError("masses", found, f"are not smooth to sigma = {sigma:g}", "project them")


def threshold_chi(points: npt.ArrayLike, measure: BaseMeasure, sigma: float) -> float:
    """The least chi for which records on the line are (sigma, chi)-smooth for all thresholds; exact, O(n log n).

    A distribution function G is wanted within chi of the records' F, both sides of each jump, that nowhere climbs more
    than mu / sigma. With c(I) = F(I) - mu(I)/sigma the answer is the largest of c over rays and c/2 over intervals: a
    system of difference constraints is solvable if no cycle is negative, and the only cycles are these.

    Args:
        points: The records, n of them.
        measure: On the line.
        sigma: In (0, 1].
    """
    records = points_of("points", points, 1)[:, 0]
    if measure.dimension != 1 or not len(records):
        raise InvalidDataError("points", points, "are no records on the line, or none")
    width = sigma_of(sigma)
    values, counts = np.unique(records, return_counts=True)
    upto = np.cumsum(counts) / len(records)
    before = upto - counts / len(records)
    to, start = upto - measure.cdf(0, values) / width, before - measure.cdf(0, values, left=True) / width
    inside = float((to - np.minimum.accumulate(start)).max())
    left_ray, right_ray = float(to.max()), float((1.0 - 1.0 / width - start).max())
    return max(0.0, inside / 2.0, left_ray, right_ray)


def nearest_smooth(
    queries: npt.ArrayLike, masses: npt.ArrayLike, base: npt.ArrayLike, sigma: float
) -> tuple[float, FloatArray]:
    """The least chi for which masses are (sigma, chi)-smooth for given queries, and the smooth law: a linear program.

    Args:
        queries: Their values, shape (K, N).
        masses: Of the data on the domain, shape (N,).
        base: mu, shape (N,).
        sigma: In (0, 1].

    Raises:
        InvalidArgumentError: an argument outside its domain.
        NumericalError: the solver fails.
    """
    law, weights, width = _shares(masses), _shares(base), sigma_of(sigma)
    table = array("queries", queries, shape=(None, len(law)))
    array("base", base, shape=(len(law),))
    slack = -np.ones((len(table), 1))
    answers = table @ law
    rows = sparse.csr_array(np.block([[table, slack], [-table, slack]]))
    found = optimize.linprog(
        np.append(np.zeros(len(law)), 1.0),
        A_ub=rows,
        b_ub=np.concatenate([answers, -answers]),
        A_eq=np.append(np.ones(len(law)), 0.0)[None],
        b_eq=[1.0],
        bounds=[*((0.0, cap) for cap in weights / width), (0.0, None)],
        method="highs",
    )
    if found.status != 0:
        raise NumericalError(f"the linear program of the nearest smooth law was not solved: {found.message}")
    return max(0.0, float(found.x[-1])), np.asarray(found.x[:-1])


def sampling_chi(records: int, failure: float) -> float:
    """sqrt(ln(2/eta) / (2n)): chi of n draws of a sigma-smooth law for all thresholds, but for probability eta.

    Massart 1990.
    """
    eta = probability("failure", failure, open=True)
    return math.sqrt(math.log(2.0 / eta) / (2.0 * integer("records", records, low=1)))
