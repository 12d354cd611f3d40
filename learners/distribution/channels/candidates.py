"""Known candidate laws of a private label: the finite class F = {f_1 .. f_K} of online distribution learning.

In every round a public context x is shown and a person's private label is drawn from f(x), f one of K known candidates.
There are two kinds of class: a table of masses for labels 0 .. M - 1 (:class:`LabelTable`), and log-densities with
samplers for labels that are any real numbers (:class:`LabelDensities`), such as unbounded counts.

Candidates and contexts are public and are checked; a label is private and never refused, because a refusal or a missing
message would reveal it. So a label outside every support, a NaN, a text or a list has log-mass -inf under all
candidates, and all such labels are treated alike.

Source: Sima, Wu, Milenkovic & Szpankowski 2024; the rule for labels outside all supports, which they leave open, ours.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer
from hockeystick.mechanisms.contract.arguments import array_length

LogDensities = Callable[[FloatArray, Any], npt.ArrayLike]
"""A function from labels, shape (n,), and a context to log-densities, shape (n, K)."""
Sampler = Callable[[int, int, np.random.Generator, Any], npt.ArrayLike]
"""A function from a candidate, a count, a generator and a context to that number of its labels."""

_SUM_TOLERANCE = 1e-9
_LARGEST_LOG_DENSITY = 1e6  # finite, so that differences of logarithms are numbers


class Hypotheses(ABC):
    """Base class of K >= 2 candidate laws of a label, each for every context.

    See :class:`LabelTable` for an example.
    """

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of candidates K."""

    @property
    @abstractmethod
    def labels(self) -> int | None:
        """M if labels are 0 .. M - 1, else None."""

    @abstractmethod
    def log_masses(self, labels: object, context: Any = None) -> FloatArray:
        """Returns ln f_j(y) of n labels, shape (n, K), masses or densities; -inf for a value that is not a label.

        Raises:
            InvalidArgumentError: an unknown context.
        """

    @abstractmethod
    def sample(self, expert: int, count: int, rng: np.random.Generator, context: Any = None) -> npt.NDArray[Any]:
        """Returns ``count`` independent labels of candidate ``expert`` (0 .. K - 1), shape (count,).

        Raises:
            InvalidArgumentError: an unknown candidate or context, or a count that is not an integer >= 0.
        """

    @abstractmethod
    def check(self, context: Any = None) -> None:
        """Raises an InvalidArgumentError for an unknown context or unusable candidates. It reads no label."""

    def table(self, context: Any = None) -> FloatArray:
        """Returns the masses f_j(y), shape (K, M).

        Raises:
            InvalidArgumentError: labels without a table, or an unknown context.
        """
        raise InvalidArgumentError("hypotheses", self, "have no table of masses", "use log_masses, or a LabelTable")


def label_array(labels: object) -> FloatArray:
    """Returns private labels as floats, shape (n,); NaN for each that is not a real number. A single label is n = 1.

    The first axis counts labels, so a row of numbers is one label that is not a number. Nothing is ever refused.
    """
    items: list[object] = [labels]
    try:
        raw = np.asarray(labels)
        if raw.dtype.kind in "biuf":
            return raw.reshape(-1).astype(np.float64) if raw.ndim < 2 else np.full(len(raw), math.nan)
        items = raw.tolist() if raw.ndim else items
    except Exception:  # ragged, or an object that can't be converted
        pass
    if isinstance(labels, (list, tuple)):
        items = list(labels)  # one array of all might turn numbers into texts
    return np.array([_number(label) for label in items], dtype=np.float64)


def _number(label: object) -> float:
    """A label as a float; NaN if it is not a number. A text is not one, even if it spells a number."""
    if isinstance(label, (str, bytes)):
        return math.nan
    try:
        return float(label)  # type: ignore[arg-type]
    except Exception:  # whatever a foreign object does
        return math.nan


# --- labels 0 .. M - 1 -----------------------------------------------------------------------------------------------


def _tables(value: npt.ArrayLike) -> FloatArray:
    found = array("tables", value, low=0.0, high=1.0)
    if found.ndim not in (2, 3):
        raise InvalidArgumentError("tables", value, f"have {found.ndim} axes", "give (K, M) or (contexts, K, M)")
    if found.shape[-2] < 2 or found.shape[-1] < 2 or found.shape[0] < 1:
        raise InvalidArgumentError(
            "tables", value, f"have shape {found.shape}", "give two candidates and labels or more"
        )
    excess = np.abs(found.sum(axis=-1) - 1.0).max()
    if excess > _SUM_TOLERANCE:
        raise InvalidArgumentError(
            "tables", value, f"have a row whose sum is off 1 by {excess:.2g}", "normalise the rows"
        )
    owned = found + 0.0  # a copy, and no -0.0: equal columns have equal bits
    owned.setflags(write=False)
    return owned


@frozen(eq=False)
class LabelTable(Hypotheses):
    """Candidates over labels 0 .. M - 1, by their masses.

    Args:
        tables: Masses, shape (K, M) for candidates that do not depend on the context, or (contexts, K, M) for contexts
            0, 1, ..; K, M >= 2. Rows sum to 1 up to 1e-9.

    Raises:
        InvalidArgumentError: wrong shape, a mass outside [0, 1] or not finite, or a row with another sum.

    Example:
        >>> from hockeystick.learners.distribution import LabelTable
        >>> candidates = LabelTable([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])
        >>> candidates.count, candidates.labels
        (2, 3)
        >>> candidates.log_masses([2, 7]).round(2).tolist()  # 7 is not a label
        [[-inf, -0.69], [-inf, -inf]]
    """

    tables: FloatArray = field(converter=_tables)

    @property
    def count(self) -> int:
        return int(self.tables.shape[-2])

    @property
    def labels(self) -> int:
        return int(self.tables.shape[-1])

    @property
    def contexts(self) -> int | None:
        """The number of contexts; None if candidates do not depend on them."""
        return int(self.tables.shape[0]) if self.tables.ndim == 3 else None

    def check(self, context: Any = None) -> None:
        self.table(context)

    def table(self, context: Any = None) -> FloatArray:
        if self.contexts is None:
            return self.tables
        return np.asarray(self.tables[integer("context", context, low=0, high=self.contexts - 1)])

    def log_masses(self, labels: object, context: Any = None) -> FloatArray:
        table, places = self.table(context), self.places(labels)
        known = places < self.labels
        found = np.full((len(places), self.count), -math.inf)
        with np.errstate(divide="ignore"):
            found[known] = np.log(table[:, places[known]].T)
        return found

    def places(self, labels: object) -> IntArray:
        """Returns labels as integers, shape (n,); M stands for any value that is not a label."""
        if isinstance(labels, np.ndarray) and labels.ndim == 1 and labels.dtype.kind in "iu":
            inside = (labels >= 0) & (labels < self.labels)
            if inside.all():
                return labels.astype(np.int64, copy=False)
            return np.where(inside, labels, self.labels).astype(np.int64)
        numbers = label_array(labels)
        inside = (numbers >= 0) & (numbers < self.labels) & (numbers == np.floor(numbers))  # False for NaN
        return np.where(inside, numbers, float(self.labels)).astype(np.int64)

    def place(self, label: object) -> int:
        """Returns one label as an integer, fast; M for a value that is not a label."""
        try:
            found = int(label)  # type: ignore[call-overload]
            if found == label and 0 <= found < self.labels:
                return int(found)
        except Exception:  # NaN, infinities, and whatever a foreign object does
            return self.labels
        return self.labels

    def columns(self, context: Any = None) -> tuple[FloatArray, IntArray]:
        """Returns the distinct columns of the table, shape (K, U), and the column of each label, shape (M,).

        Labels with equal masses under every candidate share a column. Time is O(K M + M ln M).
        """
        return distinct_columns(self.table(context))

    def sample(self, expert: int, count: int, rng: np.random.Generator, context: Any = None) -> IntArray:
        j = integer("expert", expert, low=0, high=self.count - 1)
        return draw(self.table(context)[j], array_length("count", count), rng)


def draw(weights: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """Returns ``count`` indices with probabilities in proportion to ``weights``; never one of weight 0."""
    steps = np.cumsum(weights)
    found = np.searchsorted(steps, rng.random(count) * steps[-1], side="right")
    # The product may round up to the last step.
    return np.asarray(np.minimum(found, int(np.flatnonzero(weights)[-1])), dtype=np.int64)


def distinct_columns(table: FloatArray) -> tuple[FloatArray, IntArray]:
    """Returns the distinct columns of ``table``, shape (K, M), and the place of each column among them."""
    bits = np.ascontiguousarray(table).view(np.uint64)
    # A hash of each column, exact in integers; sorting hashes is several times as fast as sorting columns.
    odd = np.random.default_rng(0).integers(0, 2**63, size=len(table), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = np.zeros(table.shape[1], dtype=np.uint64)
    for row, factor in zip(bits, odd, strict=True):
        mixed = (mixed ^ (row >> np.uint64(29)) ^ row) * factor
    _, first, place = np.unique(mixed, return_index=True, return_inverse=True)
    found = table[:, first]
    if not np.array_equal(found[:, place], table):  # two columns of one hash
        found, place = np.unique(table, axis=1, return_inverse=True)
    return found, place.reshape(-1).astype(np.int64, copy=False)


# --- any labels ------------------------------------------------------------------------------------------------------


def _callable(value: object) -> Any:
    if not callable(value):
        raise InvalidArgumentError("log_densities or sampler", value, "is not callable", "give a function")
    return value


def _count(value: object) -> int:
    return integer("count", value, low=2)


@frozen(eq=False)
class LabelDensities(Hypotheses):
    """Candidates over real labels, by their log-densities with respect to any one measure, such as Lebesgue's.

    Args:
        log_densities: A function from finite labels, shape (n,), and the context to ln f_j, shape (n, K), row by row;
            -inf outside a support. A NaN counts as -inf. A label for which it raises counts as outside every support.
        sampler: A function from a candidate, a count, a generator and the context to that number of labels, for
            simulations and for resampled labels.
        count: K >= 2.

    Raises:
        InvalidArgumentError: an argument that is not callable, or a count that is not an integer >= 2.

    Example:
        >>> from hockeystick.learners import OnlineDistribution
        >>> from hockeystick.learners.distribution import LabelDensities
        >>> candidates = LabelDensities.poisson([1.0, 3.0, 9.0])
        >>> learner = OnlineDistribution.build(candidates, rounds=1000, epsilon=1.0)
        >>> round(learner.channels[0].span, 2)  # about ln(K T)
        8.01
    """

    log_densities: LogDensities = field(converter=_callable)
    sampler: Sampler = field(converter=_callable)
    count: int = field(converter=_count, kw_only=True)

    @classmethod
    def poisson(cls, means: npt.ArrayLike) -> "LabelDensities":
        """Returns Poisson laws with these means, all > 0; labels are 0, 1, 2, .."""
        rates = array("means", means, ndim=1, low=1e-300)

        def log_densities(labels: FloatArray, context: Any) -> FloatArray:
            counts = np.where((labels >= 0) & (labels == np.floor(labels)), labels, np.nan)[:, None]
            return np.asarray(special.xlogy(counts, rates) - rates - special.gammaln(counts + 1.0))

        return cls(log_densities, lambda j, n, rng, context: rng.poisson(rates[j], n), count=len(rates))

    @classmethod
    def gaussian(cls, means: npt.ArrayLike, *, scale: npt.ArrayLike = 1.0) -> "LabelDensities":
        """Returns normal laws with these means; ``scale`` > 0 is one standard deviation, or one for each."""
        centres = array("means", means, ndim=1)
        one = array("scale", scale, low=1e-150, high=1e150)
        if one.ndim > 1 or one.size not in (1, len(centres)):
            raise InvalidArgumentError("scale", scale, "does not have the length of means", "give one, or one for each")
        spread = np.broadcast_to(one, centres.shape)

        def log_densities(labels: FloatArray, context: Any) -> FloatArray:
            z = (labels[:, None] - centres) / spread
            return np.asarray(-0.5 * z * z - np.log(spread) - 0.5 * math.log(2.0 * math.pi))

        return cls(log_densities, lambda j, n, rng, context: rng.normal(centres[j], spread[j], n), count=len(centres))

    @property
    def labels(self) -> None:
        return None

    def check(self, context: Any = None) -> None:
        """Raises an error unless the functions return a number for each candidate, tested on sampled labels."""
        rng = np.random.default_rng(0)
        own = np.concatenate([self.sample(j, 2, rng, context) for j in range(self.count)])
        found = np.asarray(self.log_densities(own, context))
        if found.shape != (len(own), self.count) or found.dtype.kind not in "iuf" or np.isnan(found).any():
            raise InvalidArgumentError(
                "log_densities", self.log_densities, f"gives shape {found.shape} for {len(own)} labels, or NaN",
                f"give numbers of shape (n, {self.count})",
            )  # fmt: skip

    def log_masses(self, labels: object, context: Any = None) -> FloatArray:
        numbers = label_array(labels)
        found = np.full((len(numbers), self.count), -math.inf)
        finite = np.isfinite(numbers)
        if not finite.any():
            return found
        logs = self._evaluated(numbers[finite], context)
        logs = np.where(np.isnan(logs), -math.inf, np.minimum(logs, _LARGEST_LOG_DENSITY))
        found[finite] = logs
        return found

    def _evaluated(self, numbers: FloatArray, context: Any) -> FloatArray:
        try:
            with np.errstate(all="ignore"):
                logs = np.asarray(self.log_densities(numbers, context), dtype=np.float64)
            if logs.shape == (len(numbers), self.count):
                return logs
        except Exception:  # the function does not handle this label
            pass
        if len(numbers) == 1:
            return np.full((1, self.count), -math.inf)
        return np.concatenate([self._evaluated(number, context) for number in numbers[:, None]])

    def sample(self, expert: int, count: int, rng: np.random.Generator, context: Any = None) -> npt.NDArray[Any]:
        j, n = integer("expert", expert, low=0, high=self.count - 1), array_length("count", count)
        found = np.asarray(self.sampler(j, n, rng, context))
        if found.shape != (n,):
            raise InvalidArgumentError("sampler", self.sampler, f"gives shape {found.shape}", f"give ({n},)")
        return found
