"""Smooth laws and smooth data: generators of known smoothness, and the smoothness of given masses or records.

A law is σ-smooth against a base measure μ if its density is at most 1/σ. Generators work in the quantile coordinate u
of one axis: if u is uniform on a part of (0, 1] of length s, then x = Q(u) is s-smooth for *every* μ, atoms included,
because Q turns lengths into masses.

Records are (σ, χ)-smooth for a class of queries if some σ-smooth law answers every query within χ of the records'
answer (Hardt & Rothblum 2010; Haghtalab, Roughgarden & Shetty 2020). Utility rests on smoothness; privacy never does.
No parameter may be set from the smoothness of private records.
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
from hockeystick.accounting.validate import array, as_array, function, integer, probability
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, checked_masses, points_of
from hockeystick.mechanisms.contract.arguments import array_length, generator

ROUNDING = 1e-12  # relative, between a stated and a computed smoothness

_LEAST_ACCEPTANCE = 1e-6


class SmoothLaw(ABC):
    """A law with a density against a base measure, or one such law for each of R runs."""

    measure: BaseMeasure

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """A σ for which all the laws are σ-smooth; the largest one if the base measure has no atoms."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Returns n independent points (n, d): all from the one law, or one from each of n laws."""


def _base(value: object) -> BaseMeasure:
    if not isinstance(value, BaseMeasure):
        raise InvalidArgumentError(
            "measure", value, "is not a base measure", "use UniformCube, UniformGrid or ListedMeasure"
        )
    return value


def _measure(value: object) -> BaseMeasure:
    if not _base(value).independent:
        raise InvalidArgumentError(
            "measure", value, "has dependent coordinates", "use a ProductMeasure, or AcceptedLaw"
        )
    return _base(value)


def _at_quantiles(
    measure: BaseMeasure, axis: int, quantiles: FloatArray, rng: np.random.Generator, n: int
) -> FloatArray:
    spots = measure.sample(rng, n) if measure.dimension > 1 else np.empty((n, 1))
    spots[:, axis] = measure.quantile(axis, np.clip(quantiles, 0.0, 1.0))
    return spots


def _each(rows: FloatArray, n: int) -> FloatArray:
    if len(rows) not in (1, n):
        raise InvalidArgumentError("n", n, f"is not the number of laws, {len(rows)}", "draw one point from each")
    return np.broadcast_to(rows, (n, *rows.shape[1:]))


def _axis(value: object) -> int:
    return integer("axis", value, low=0)


def _starts(value: object) -> FloatArray:
    found = array("starts", value, low=0.0, high=1.0)
    return array("starts", np.atleast_1d(found), ndim=1)


@frozen(eq=False)
class WindowLaw(SmoothLaw):
    """The base measure restricted to a window between two quantiles of one axis: u uniform on (start, start + width].

    Args:
        measure: A base measure with independent coordinates.
        starts: Shape (R,), one window per run, or a number; start + width <= 1.
        width: In (0, 1]; equal to the smoothness.
        axis: The restricted axis.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.smoothed import UniformCube, WindowLaw
        >>> law = WindowLaw(UniformCube(1), 0.5, 0.25)
        >>> points = law.sample(np.random.default_rng(0), 1000)
        >>> law.smoothness, bool(points.min() > 0.5), bool(points.max() <= 0.75)
        (0.25, True, True)
    """

    measure: BaseMeasure = field(converter=_measure)
    starts: FloatArray = field(converter=_starts)
    width: float = field(converter=arguments.sigma)
    axis: int = field(default=0, converter=_axis, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.measure.marginal(self.axis)
        if (self.starts + self.width > 1.0 + ROUNDING).any():
            raise InvalidArgumentError("starts", float(self.starts.max()), f"is above 1 - width = {1 - self.width:g}")

    @property
    def smoothness(self) -> float:
        return self.width

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        starts = _each(self.starts, array_length("n", n))
        uniform = 1.0 - generator(rng).random(n)  # in (0, 1]
        return _at_quantiles(self.measure, self.axis, starts + self.width * uniform, rng, n)


def around(measure: BaseMeasure, centres: npt.ArrayLike, sigma: float, *, axis: int = 0) -> WindowLaw:
    """Returns windows of mass σ around quantiles ``centres`` (R,), moved inwards where they would leave (0, 1)."""
    middle = np.atleast_1d(array("centres", centres, low=0.0, high=1.0))
    width = arguments.sigma(sigma)
    return WindowLaw(measure, np.clip(middle - width / 2.0, 0.0, 1.0 - width), width, axis=axis)


@frozen(eq=False)
class CellLaw(SmoothLaw):
    """The uniform law on m of K cells of equal base mass, cut at the quantiles j/K of one axis.

    Args:
        measure: A base measure with independent coordinates.
        cells: K.
        chosen: The cells, shape (R, m) or (m,), distinct numbers in 0 .. K - 1.
        axis: The axis that is cut.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.smoothed import CellLaw, UniformCube
        >>> law = CellLaw(UniformCube(1), 8, np.array([1, 6]))
        >>> cells = np.ceil(8 * law.sample(np.random.default_rng(0), 100)) - 1
        >>> law.smoothness, np.unique(cells).tolist()
        (0.25, [1.0, 6.0])
    """

    measure: BaseMeasure = field(converter=_measure)
    cells: int = field(converter=arguments.cells)
    chosen: npt.NDArray[np.int64] = field()
    axis: int = field(default=0, converter=_axis, kw_only=True)

    @chosen.validator
    def _chosen_are_cells(self, _: object, value: object) -> None:
        rows = array("chosen", np.atleast_2d(as_array("chosen", value)), ndim=2, low=0, high=self.cells - 1)
        ordered = np.sort(rows, axis=1)
        if not rows.shape[1] or (np.diff(ordered, axis=1) < 1).any() or (rows != np.floor(rows)).any():
            raise InvalidArgumentError("chosen", value, "is empty or names a cell twice", "give distinct cells")
        self.measure.marginal(self.axis)

    @classmethod
    def random(
        cls, measure: BaseMeasure, sigma: float, rng: np.random.Generator, *, cells: int = 64, axis: int = 0
    ) -> "CellLaw":
        """Returns the uniform law on a random set of cells, the fewest for which it is σ-smooth."""
        count = arguments.cells(cells)
        chosen = min(count, math.ceil(arguments.sigma(sigma) * count))
        return cls(measure, count, generator(rng).permutation(count)[:chosen], axis=axis)

    @property
    def smoothness(self) -> float:
        return int(np.atleast_2d(self.chosen).shape[1]) / self.cells

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        rows = _each(np.atleast_2d(self.chosen).astype(float), array_length("n", n))
        which = generator(rng).integers(0, rows.shape[1], n)
        uniform = 1.0 - rng.random(n)
        quantiles = (rows[np.arange(n), which] + uniform) / self.cells
        return _at_quantiles(self.measure, self.axis, quantiles, rng, n)


def _masses(value: object) -> FloatArray:
    return checked_masses("masses", value)


@frozen(eq=False)
class PiecewiseLaw(SmoothLaw):
    """A law with a piecewise constant density: given masses on K cells of equal base mass, cut at the quantiles j/K.

    Args:
        measure: A base measure with independent coordinates.
        masses: The masses of the cells, shape (K,), of sum 1.
        axis: The axis that is cut.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed import PiecewiseLaw, UniformCube
        >>> PiecewiseLaw(UniformCube(1), [0.5, 0.0, 0.3, 0.2]).smoothness
        0.5
    """

    measure: BaseMeasure = field(converter=_measure)
    masses: FloatArray = field(converter=_masses)
    axis: int = field(default=0, converter=_axis, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.measure.marginal(self.axis)

    @property
    def smoothness(self) -> float:
        return 1.0 / (len(self.masses) * float(self.masses.max()))

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        count = array_length("n", n)
        cell = generator(rng).choice(len(self.masses), count, p=self.masses)
        return _at_quantiles(self.measure, self.axis, (cell + 1.0 - rng.random(count)) / len(self.masses), rng, count)


def _checks(value: object) -> int:
    count = integer("checks", value, low=1)
    return array_length("checks", value, count)


@frozen(eq=False)
class AcceptedLaw(SmoothLaw):
    """The law of base draws that are accepted with probability a(x): its density is a / E a, its smoothness E a.

    E a cannot be computed for an arbitrary rule. It is estimated at construction from ``checks`` base draws, and
    ``sigma`` must not exceed a lower confidence bound, at level 1 - 1e-9 (Hoeffding 1963).

    Args:
        measure: Any base measure.
        accept: a, from points (n, d) to probabilities (n,).
        sigma: The stated smoothness, at most E a.
        rng: The generator of the estimate.
        checks: The number of base draws of the estimate.

    Raises:
        InvalidArgumentError: probabilities outside [0, 1], or a mean acceptance that may be below σ.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.smoothed import AcceptedLaw, UniformCube
        >>> law = AcceptedLaw(UniformCube(1), lambda x: 1.0 * (x[:, 0] < 0.5), 0.49, np.random.default_rng(0))
        >>> bool(law.sample(np.random.default_rng(1), 1000).max() < 0.5)
        True
    """

    measure: BaseMeasure = field(converter=_base)
    accept: Callable[[FloatArray], FloatArray]
    sigma: float = field(converter=arguments.sigma)
    rng: np.random.Generator = field(converter=generator)
    checks: int = field(default=200_000, converter=_checks, kw_only=True)

    def __attrs_post_init__(self) -> None:
        function("accept", self.accept, "give a function of points (n, d)")
        mean = float(self._chances(self.measure.sample(self.rng, self.checks)).mean())
        error = math.sqrt(math.log(1e9) / (2.0 * self.checks))
        if mean - error < self.sigma or mean < _LEAST_ACCEPTANCE:
            raise InvalidArgumentError(
                "sigma", self.sigma, f"may exceed the mean acceptance, {mean:.4g} ± {error:.2g}", "use a smaller sigma"
            )

    @property
    def smoothness(self) -> float:
        return self.sigma

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        wanted, found = array_length("n", n), [np.empty((0, self.measure.dimension))]
        missing = wanted
        while missing > 0:
            spots = self.measure.sample(generator(rng), 2 * missing + 16)
            accepted = spots[rng.random(len(spots)) < self._chances(spots)]
            found.append(accepted[:missing])
            missing -= len(found[-1])
        return np.concatenate(found)

    def _chances(self, points: FloatArray) -> FloatArray:
        found: FloatArray = array("accept", self.accept(points), shape=(len(points),), low=0.0, high=1.0)
        return found


# --- the smoothness of masses and records ----------------------------------------------------------------------------


def smoothness(masses: npt.ArrayLike, base: npt.ArrayLike) -> float:
    """Returns the largest σ for which ``masses`` (N,) are σ-smooth against base masses (N,); 0 if there is none.

    Example:
        >>> from hockeystick.learners.smoothed import smoothness
        >>> smoothness([0.5, 0.5, 0.0], [0.25, 0.25, 0.5])
        0.5
    """
    law = _masses(masses)
    weights = checked_masses("base", base, len(law))
    support = law > 0.0
    return float((weights[support] / law[support]).min())


def threshold_chi(points: npt.ArrayLike, measure: BaseMeasure, sigma: float) -> float:
    """Returns the least χ for which records on the line are (σ, χ)-smooth for all thresholds; exact, O(n log n).

    There must be a distribution function G within χ of the records' F, on both sides of each jump, that nowhere rises
    by more than μ / σ. With c(I) = F(I) - μ(I)/σ the least χ is the largest of c over rays and c/2 over intervals: a
    system of difference constraints is solvable if and only if it has no negative cycle, and these are its cycles.

    Args:
        points: The n records.
        measure: A base measure on the line.
        sigma: In (0, 1].

    Example:
        >>> from hockeystick.learners.smoothed import UniformCube, threshold_chi
        >>> records = [(i + 0.5) / 100 for i in range(100)]
        >>> round(threshold_chi(records, UniformCube(1), 1.0), 6), threshold_chi([0.5] * 100, UniformCube(1), 0.1)
        (0.005, 0.5)
    """
    records = points_of("points", points, 1)[:, 0]
    if _base(measure).dimension != 1 or not len(records):
        raise InvalidDataError(
            "points", points, "are empty, or the measure is not on the line", "give at least one record"
        )
    width = arguments.sigma(sigma)
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
    """Returns the least χ for which masses are (σ, χ)-smooth for given queries, and the smooth law.

    Args:
        queries: The queries' values, shape (K, N).
        masses: The masses of the data on the domain, shape (N,).
        base: μ, shape (N,).
        sigma: In (0, 1].

    Raises:
        InvalidArgumentError: an argument outside its domain.
        NumericalError: the solver fails.

    Example:
        >>> from hockeystick.learners.smoothed import nearest_smooth
        >>> chi, law = nearest_smooth([[1.0, 0.0]], [1.0, 0.0], [0.5, 0.5], 0.8)
        >>> round(chi, 6), law.round(6).tolist()
        (0.375, [0.625, 0.375])
    """
    law, width = _masses(masses), arguments.sigma(sigma)
    weights = checked_masses("base", base, len(law))
    table = array("queries", queries, shape=(None, len(law)))
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
    """Returns sqrt(ln(2/η) / (2n)): a bound on χ of n draws of a σ-smooth law for all thresholds, at failure η.

    Source: Massart 1990.
    """
    eta = probability("failure", failure, open=True)
    return math.sqrt(math.log(2.0 / eta) / (2.0 * integer("records", records, low=1)))
