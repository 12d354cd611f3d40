"""Levels: bounded log-likelihoods of the private label under all candidates, which the messages report.

Candidates f_1 .. f_K are mixed with a little of a public reference law q, P_j = (1 - 1/T) f_j + q/T, and compared with
a public base measure r, so that the levels lie in a range that is known before any label is seen:

    v_j(y) = ln(P_j(y) / r(y)) = ln((1 - 1/T) f_j(y)/r(y) + 1/(T R)),      R = total mass of r,   q = r/R.

Exponential weights ignore a term that all candidates share, so any base measure is valid; it determines the range:

====================  ====================  =====================  ==================================================
reference             r(y)                  R                      span of levels, at most
====================  ====================  =====================  ==================================================
CeiledBlocks (R1)     ceil(M max_j f_j)/M   N'/M < min(K, M) + 1   ln(1 + (T-1) N'/M) <= ln((T-1)(K+1) + 1)
Envelope (R2)         max_j f_j             S <= min(K, M)         ln(1 + (T-1) S) <= ln(K T)
UniformMixture (R3)   mean_j f_j            1                      ln(1 + (T-1) K) <= ln(K T)
====================  ====================  =====================  ==================================================

CeiledBlocks is the published construction with a block of equal symbols for each label, N' in all; as levels are
constant on a block, blocks are never built. Its published span, ln(K T), is too small: N' <= K M is false. Noise is
scaled to the span, so the span is computed from the levels themselves and rounded up; no label has a level outside.

Source: Sima, Wu, Milenkovic & Szpankowski 2024, section 4 and inequality (7), corrected; R2 and R3 are ours.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, boolean, integer, real
from hockeystick.learners.distribution.channels.candidates import Hypotheses, LabelTable, draw
from hockeystick.mechanisms.contract.arguments import array_length

_LEAST_SPAN = 1e-9  # of equal candidates, whose messages still need a range


def _rounds(value: object) -> int:
    return integer("horizon", value, low=2, high=2**53)


# --- levels ----------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Levels(ABC):
    """The levels of one class of candidates in one context, as returned by ``Reference.levels``.

    See :class:`UniformMixture` for an example.

    Attributes:
        hypotheses, context, reference: The candidates, the context and the reference.
        horizon: T; the reference law has weight 1/T.
        total: R, the mass of the base measure.
        bottom, top: The range of the levels of every label.
    """

    hypotheses: Hypotheses
    context: Any
    reference: "Reference"
    horizon: int
    total: float
    bottom: float
    top: float

    @property
    def count(self) -> int:
        """The number of candidates K."""
        return self.hypotheses.count

    @property
    def labels(self) -> int | None:
        """The number of labels M, or None."""
        return self.hypotheses.labels

    @property
    def span(self) -> float:
        """Delta > 0, top - bottom rounded up: a bound on the change of a level when the label is replaced."""
        return math.nextafter(self.top - self.bottom, math.inf)

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return self.bottom / 2 + self.top / 2

    @property
    def smoothing(self) -> float:
        """A bound on the risk that smoothing adds to T rounds: -T ln(1 - 1/T) <= 2 ln 2."""
        return -self.horizon * math.log1p(-1.0 / self.horizon)

    @abstractmethod
    def of(self, labels: object) -> FloatArray:
        """Returns the levels v_j(y), shape (n, K), in [bottom, top], of n labels of any kind; never refuses one.

        A label without mass under all candidates has level 0, or the nearest level in the range, for all of them.
        """

    @abstractmethod
    def pick(self, labels: object, experts: IntArray) -> FloatArray:
        """Returns the level of one candidate for each of n labels, shape (n,), for experts in 0 .. K - 1."""

    def chosen(self, experts: object, count: int) -> IntArray:
        """Returns ``experts`` as an array of ``count`` whole numbers.

        Raises:
            InvalidArgumentError: they are not that many candidates, each in 0 .. K - 1.
        """
        return array("experts", experts, shape=(count,), low=0, high=self.count - 1, dtype=np.int64)

    @abstractmethod
    def level(self, label: object, expert: int) -> float:
        """Returns the level of one label and one candidate, 0 <= expert < K; never refuses a label."""

    @abstractmethod
    def outside(self, labels: object) -> npt.NDArray[np.bool_]:
        """Returns which labels have no mass under any candidate, shape (n,). It is as private as the labels."""

    @abstractmethod
    def log_masses(self, labels: object) -> FloatArray:
        """Returns ln P_j(y) of n labels, shape (n, K), on which predictions are based; -inf outside every support."""

    @abstractmethod
    def resample(self, count: int, rng: np.random.Generator) -> npt.NDArray[Any]:
        """Returns ``count`` independent labels of the reference law q."""

    def masses(self) -> FloatArray:
        """Returns P_j(y), shape (K, M); predictions average its rows. Labels without a table are refused."""
        raise InvalidArgumentError("hypotheses", self.hypotheses, "have no table of masses", "use log_masses")

    def resampling_law(self) -> FloatArray:
        """Returns q(y), shape (M,). Raises an error for labels without a table."""
        raise InvalidArgumentError("hypotheses", self.hypotheses, "have no table of masses", "use resample")


@frozen(eq=False)
class TableLevels(Levels):
    """Levels of labels 0 .. M - 1, computed once for each distinct column of the table.

    Attributes:
        rows: Levels of the U distinct columns and, in the last row, of values that are not labels: shape (U + 1, K).
        column: The column of each label, and at M the column U of values that are not labels: shape (M + 1,).
        column_masses: P_j of one label of each column, shape (K, U).
        column_sizes: The number of labels of each column, shape (U,).
        column_law: The mass under q of all labels of each column, shape (U,).
        supported: Whether a column has mass under some candidate, shape (U + 1,); the last entry is False.
    """

    hypotheses: LabelTable
    rows: FloatArray
    column: IntArray
    column_masses: FloatArray
    column_sizes: IntArray
    column_law: FloatArray
    supported: npt.NDArray[np.bool_]

    def columns(self, labels: object) -> IntArray:
        """Returns the column of each of n labels, shape (n,); U for a value that is not a label."""
        return self.column[self.hypotheses.places(labels)]

    def of(self, labels: object) -> FloatArray:
        return self.rows[self.columns(labels)]

    def pick(self, labels: object, experts: IntArray) -> FloatArray:
        place = self.columns(labels) * self.count
        place += self.chosen(experts, len(place))
        return self.rows.ravel()[place]

    def level(self, label: object, expert: int) -> float:
        place = integer("expert", expert, low=0, high=self.count - 1)
        return self.rows.item(self.column.item(self.hypotheses.place(label)), place)

    def outside(self, labels: object) -> npt.NDArray[np.bool_]:
        return ~self.supported[self.columns(labels)]

    def log_masses(self, labels: object) -> FloatArray:
        columns = self.columns(labels)
        known = columns < len(self.column_sizes)
        found = np.full((len(columns), self.count), -math.inf)
        with np.errstate(divide="ignore"):
            found[known] = np.log(self.column_masses)[:, columns[known]].T
        return found

    def masses(self) -> FloatArray:
        return self.column_masses[:, self.column[:-1]]

    def resampling_law(self) -> FloatArray:
        return (self.column_law / self.column_sizes)[self.column[:-1]]

    def resample(self, count: int, rng: np.random.Generator) -> IntArray:
        return draw(self.resampling_law(), array_length("count", count), rng)


@frozen(eq=False)
class DensityLevels(Levels):
    """Levels of labels without a table: the K likelihoods of a label are evaluated on demand."""

    def of(self, labels: object) -> FloatArray:
        log_f = self.hypotheses.log_masses(labels, self.context)
        found = _raw(log_f, self.reference.log_base(log_f, None), self.horizon, self.total)
        return np.clip(found, self.bottom, self.top)

    def pick(self, labels: object, experts: IntArray) -> FloatArray:
        found = self.of(labels)
        return np.asarray(np.take_along_axis(found, self.chosen(experts, len(found))[:, None], axis=1)[:, 0])

    def level(self, label: object, expert: int) -> float:
        return float(self.of([label])[0, integer("expert", expert, low=0, high=self.count - 1)])

    def outside(self, labels: object) -> npt.NDArray[np.bool_]:
        return np.asarray(np.isneginf(self.hypotheses.log_masses(labels, self.context)).all(axis=1))

    def log_masses(self, labels: object) -> FloatArray:
        log_f = self.hypotheses.log_masses(labels, self.context)
        base = self.reference.log_base(log_f, None)
        return _raw(log_f, base, self.horizon, self.total) + base[:, None]

    def resample(self, count: int, rng: np.random.Generator) -> npt.NDArray[Any]:
        wanted = array_length("count", count)
        found: list[npt.NDArray[Any]] = []
        while wanted > 0:
            # Rejection sampling from the mean of the candidates, by the ratio of the base measure to it.
            drawn = rng.multinomial(wanted, np.full(self.count, 1.0 / self.count))
            labels = np.concatenate([self.hypotheses.sample(j, n, rng, self.context) for j, n in enumerate(drawn)])
            rng.shuffle(labels)
            log_f = self.hypotheses.log_masses(labels, self.context)
            mean = _log_mean(log_f)
            share = self.reference.log_base(log_f, None) - np.where(np.isfinite(mean), mean, 0.0)
            keep = rng.random(len(labels)) * self.reference.largest_share(self.count) < np.exp(share)
            keep |= np.isneginf(mean)  # so that a sampler beyond its own support can't make this loop endless
            found.append(labels[keep])
            wanted -= int(keep.sum())
        return np.concatenate(found) if found else self.hypotheses.sample(0, 0, rng, self.context)


def _raw(log_f: FloatArray, log_base: FloatArray, rounds: int, total: float) -> FloatArray:
    """v_j of labels in rows, shape (n, K), before clipping: 0 for a label without mass."""
    inside = np.isfinite(log_base)
    ratio = log_f - np.where(inside, log_base, 0.0)[:, None]
    found = np.logaddexp(math.log1p(-1.0 / rounds) + ratio, -math.log(rounds) - math.log(total))
    return np.where(inside[:, None], found, 0.0)


def _log_mean(log_f: FloatArray) -> FloatArray:
    """ln of the mean over candidates, shape (n,), -inf where all are."""
    largest = log_f.max(axis=1)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(shift + np.log(np.exp(log_f - shift[:, None]).mean(axis=1)))


# --- references ------------------------------------------------------------------------------------------------------


def _calibrated(value: object) -> bool:
    return boolean("calibrated", value)


@frozen
class Reference(ABC):
    """Base class of references: public base measures r of labels.

    Attributes:
        calibrated: If True, the default, the range is computed from the levels of the table, if there is one. If False
            it is computed from the formulas of this module with the N' or S of the context; it always contains the
            levels.
    """

    calibrated: bool = field(default=True, converter=_calibrated, kw_only=True)

    @abstractmethod
    def log_base(self, log_masses: FloatArray, labels: int | None) -> FloatArray:
        """Returns ln r(y), shape (n,), from ln f_j(y), shape (n, K); -inf if no candidate has mass. ``labels`` is M."""

    @abstractmethod
    def density_total(self, count: int) -> float:
        """Returns R, or an upper bound on it, for labels without a table; ``count`` is K.

        Raises:
            InvalidArgumentError: the reference needs a table.
        """

    def largest_ratio(self, count: int) -> float:
        """Returns an upper bound on f_j(y)/r(y); ``count`` is K."""
        return 1.0

    def largest_share(self, count: int) -> float:
        """Returns an upper bound on the ratio of r(y) to the candidates' mean; ``count`` is K."""
        return float(_candidates(count))

    def levels(self, hypotheses: Hypotheses, horizon: int, context: Any = None) -> Levels:
        """Returns the levels of these candidates in a context, for T = ``horizon`` rounds.

        Raises:
            InvalidArgumentError: T is not an integer >= 2, an unknown context, unusable candidates, or labels without
                a table if the reference needs one.
        """
        if not isinstance(hypotheses, Hypotheses):
            raise InvalidArgumentError(
                "hypotheses", hypotheses, "is not a Hypotheses object", "give a LabelTable or LabelDensities"
            )
        rounds = _rounds(horizon)
        hypotheses.check(context)
        if isinstance(hypotheses, LabelTable):
            return self._tabulated(hypotheses, rounds, context)
        total = self.density_total(hypotheses.count)
        bottom, top = self._formula(hypotheses.count, rounds, total)
        return DensityLevels(
            hypotheses=hypotheses, context=context, reference=self, horizon=rounds, total=total, bottom=bottom, top=top
        )

    def _formula(self, count: int, rounds: int, total: float) -> tuple[float, float]:
        bottom = -math.log(rounds) - math.log(total)
        top = float(np.logaddexp(math.log1p(-1.0 / rounds) + math.log(self.largest_ratio(count)), bottom))
        return bottom, top

    def _tabulated(self, hypotheses: LabelTable, rounds: int, context: Any) -> TableLevels:
        masses, column = hypotheses.columns(context)
        sizes = np.bincount(column)
        with np.errstate(divide="ignore"):
            log_f = np.log(masses.T)
        log_base = self.log_base(log_f, hypotheses.labels)
        base = np.exp(log_base)
        total = math.fsum(base * sizes)
        rows, supported = _raw(log_f, log_base, rounds, total), np.isfinite(log_base)
        bottom, top = float(rows[supported].min()), float(rows[supported].max())
        if not self.calibrated:
            low, high = self._formula(hypotheses.count, rounds, total)
            bottom, top = min(bottom, low), max(top, high)
        top = max(top, bottom + _LEAST_SPAN)
        none = np.zeros((1, hypotheses.count))
        return TableLevels(
            hypotheses=hypotheses,
            context=context,
            reference=self,
            horizon=rounds,
            total=total,
            bottom=bottom,
            top=top,
            rows=np.clip(np.concatenate([rows, none]), bottom, top),
            column=np.append(column, len(sizes)),
            column_masses=(1.0 - 1.0 / rounds) * masses + base / (rounds * total),
            column_sizes=sizes,
            column_law=base * sizes / total,
            supported=np.append(supported, False),
        )


@frozen
class CeiledBlocks(Reference):
    """R1, the published construction: label y becomes ceil(M max_j f_j(y)) equal symbols. It needs a table of labels.

    See :class:`UniformMixture`, the reference to use, for an example.

    Source: Sima, Wu, Milenkovic & Szpankowski 2024, section 4.
    """

    def log_base(self, log_masses: FloatArray, labels: int | None) -> FloatArray:
        if labels is None:
            raise _needs_table()
        # A product that is an integer up to rounding counts as that integer.
        product = labels * np.exp(log_masses.max(axis=1))
        sizes = np.where(product > 0.0, np.maximum(np.ceil(product * (1.0 - 1e-12)), 1.0), 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(sizes) - math.log(labels))

    def density_total(self, count: int) -> float:
        raise _needs_table()


def _needs_table() -> InvalidArgumentError:
    way_out = "use UniformMixture or Envelope"
    return InvalidArgumentError("hypotheses", "without a table", "blocks need a number of labels", way_out)


def _candidates(value: object) -> int:
    return integer("count", value, low=1, high=2**53)


def _total(value: object) -> float | None:
    return None if value is None else real("total", value, low=1.0)


@frozen
class Envelope(Reference):
    """R2: the largest of the candidates. Candidates that are close in total variation have S near 1 and a narrow range.

    See :class:`UniformMixture`, the reference to use, for an example.

    Args:
        total: S, the integral of max_j f_j, or an upper bound on it; for labels without a table only. The default K is
            always an upper bound. The masses P_j then sum to less than 1, by at most 1/T.

    Raises:
        InvalidArgumentError: ``total`` is not a number >= 1.
    """

    total: float | None = field(default=None, converter=_total, kw_only=True)

    def log_base(self, log_masses: FloatArray, labels: int | None) -> FloatArray:
        return np.asarray(log_masses.max(axis=1))

    def density_total(self, count: int) -> float:
        most = float(_candidates(count))
        return most if self.total is None else min(self.total, most)


@frozen
class UniformMixture(Reference):
    """R3: the mean of the candidates. It needs only the K likelihoods of a label, for labels of any kind.

    Example:
        >>> from hockeystick.learners.distribution import LabelTable, UniformMixture
        >>> levels = UniformMixture().levels(LabelTable([[0.9, 0.1], [0.1, 0.9]]), 100)
        >>> levels.of([0]).round(2).tolist(), round(levels.span, 2)
        ([[0.58, -1.57]], 2.15)
    """

    def log_base(self, log_masses: FloatArray, labels: int | None) -> FloatArray:
        return _log_mean(log_masses)

    def density_total(self, count: int) -> float:
        return 1.0

    def largest_ratio(self, count: int) -> float:
        return float(_candidates(count))

    def largest_share(self, count: int) -> float:
        return 1.0
