"""Levels: what a person's message is about, bounded log-likelihoods of the private label under all candidates.

Candidates f_1 .. f_K are mixed with a little of a public reference law q, P_j = (1 - 1/T) f_j + q/T, and compared with
a public base measure r, so that they lie in a range which is known before any label is seen:

    v_j(y) = ln(P_j(y) / r(y)) = ln((1 - 1/T) f_j(y)/r(y) + 1/(T R)),      R = total mass of r,   q = r/R.

Exponential weights ignore what all candidates share, so any base measure will do; it decides how wide the range is:

====================  ====================  =====================  ==================================================
reference             r(y)                  R                      span of levels, at most
====================  ====================  =====================  ==================================================
CeiledBlocks (R1)     ceil(M max_j f_j)/M   N'/M < min(K, M) + 1   ln(1 + (T-1) N'/M) <= ln((T-1)(K+1) + 1)
Envelope (R2)         max_j f_j             S <= min(K, M)         ln(1 + (T-1) S) <= ln(K T)
UniformMixture (R3)   mean_j f_j            1                      ln(1 + (T-1) K) <= ln(K T)
====================  ====================  =====================  ==================================================

CeiledBlocks is the published construction, a block of equal symbols for each label, N' in all; as all is constant on a
block, none is ever made. Its published span, ln(K T), is too small: N' <= K M is false. Noise is scaled to the
span, so it is taken from the levels themselves and rounded up, and no label of whatever kind has a level outside.

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
from hockeystick.accounting.validate import boolean, integer, real
from hockeystick.learners.distribution.channels.candidates import Hypotheses, LabelTable, draw

_LEAST_SPAN = 1e-9  # candidates that all agree: messages about nothing still need a range


def _rounds(value: object) -> int:
    return integer("horizon", value, low=2, high=2**53)


# --- levels ----------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Levels(ABC):
    """The levels of one class of candidates in one context; made by ``Reference.levels``.

    Attributes:
        hypotheses, context, reference: What they are made from.
        horizon: T; the reference law has weight 1/T.
        total: R, the base measure's mass.
        bottom, top: The range of levels: every label's are in it, whatever the label.
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
        """K."""
        return self.hypotheses.count

    @property
    def labels(self) -> int | None:
        """M, or None."""
        return self.hypotheses.labels

    @property
    def span(self) -> float:
        """Delta > 0: at least top - bottom, rounded up. What replacing a label moves a level by, at most."""
        return math.nextafter(self.top - self.bottom, math.inf)

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return self.bottom / 2 + self.top / 2

    @property
    def smoothing(self) -> float:
        """What smoothing adds to the risk of T rounds, at most: -T ln(1 - 1/T) <= 2 ln 2."""
        return -self.horizon * math.log1p(-1.0 / self.horizon)

    @abstractmethod
    def of(self, labels: object) -> FloatArray:
        """Levels v_j(y), shape (n, K), in [bottom, top], of n labels of any kind; never refuses one.

        A label without mass under all candidates has level 0, or what of the range is nearest, for all of them.
        """

    @abstractmethod
    def pick(self, labels: object, experts: IntArray) -> FloatArray:
        """Of n labels of any kind the levels of one candidate each, shape (n,), for experts in 0 .. K - 1."""

    @abstractmethod
    def level(self, label: object, expert: int) -> float:
        """The level of one label and one candidate, 0 <= expert < K: what a device computes; never refuses a label."""

    @abstractmethod
    def outside(self, labels: object) -> npt.NDArray[np.bool_]:
        """Which labels have no mass under all candidates, shape (n,). As private as the labels."""

    @abstractmethod
    def log_masses(self, labels: object) -> FloatArray:
        """ln P_j(y), shape (n, K), of n labels: what predictions give them. -inf outside every support."""

    @abstractmethod
    def resample(self, count: int, rng: np.random.Generator) -> npt.NDArray[Any]:
        """``count`` independent labels of the reference law q."""

    def masses(self) -> FloatArray:
        """P_j(y), shape (K, M): a prediction is a weighted mean of its rows. Refused where labels have no table."""
        raise InvalidArgumentError("hypotheses", self.hypotheses, "have no table of masses", "use log_masses")

    def resampling_law(self) -> FloatArray:
        """q(y), shape (M,). Refused where labels have no table."""
        raise InvalidArgumentError("hypotheses", self.hypotheses, "have no table of masses", "use resample")


@frozen(eq=False)
class TableLevels(Levels):
    """Levels of labels 0 .. M - 1, computed once for each distinct column of the table.

    Attributes:
        rows: Levels of the U distinct columns and, in the last row, of everything else: shape (U + 1, K).
        column: The column of each label, and U for what is none, at M: shape (M + 1,).
        column_masses: P_j of one label of each column, shape (K, U).
        column_sizes: How many labels share each column, shape (U,).
        column_law: q of each column, all its labels together, shape (U,).
        supported: Whether a column has mass under some candidate, shape (U + 1,); False in the last place.
    """

    hypotheses: LabelTable
    rows: FloatArray
    column: IntArray
    column_masses: FloatArray
    column_sizes: IntArray
    column_law: FloatArray
    supported: npt.NDArray[np.bool_]

    def columns(self, labels: object) -> IntArray:
        """The column of each of n labels, shape (n,); U for what is no label."""
        return self.column[self.hypotheses.places(labels)]

    def of(self, labels: object) -> FloatArray:
        return self.rows[self.columns(labels)]

    def pick(self, labels: object, experts: IntArray) -> FloatArray:
        place = self.columns(labels) * self.count
        place += experts
        return self.rows.ravel()[place]

    def level(self, label: object, expert: int) -> float:
        return self.rows.item(self.column.item(self.hypotheses.place(label)), expert)

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
        return draw(self.resampling_law(), integer("count", count, low=0), rng)


@frozen(eq=False)
class DensityLevels(Levels):
    """Levels of labels without a table: K likelihoods of a label are evaluated when its level is asked for."""

    def of(self, labels: object) -> FloatArray:
        log_f = self.hypotheses.log_masses(labels, self.context)
        found = _raw(log_f, self.reference.log_base(log_f, None), self.horizon, self.total)
        return np.clip(found, self.bottom, self.top)

    def pick(self, labels: object, experts: IntArray) -> FloatArray:
        return np.asarray(np.take_along_axis(self.of(labels), experts[:, None], axis=1)[:, 0])

    def level(self, label: object, expert: int) -> float:
        return float(self.of([label])[0, expert])

    def outside(self, labels: object) -> npt.NDArray[np.bool_]:
        return np.asarray(np.isneginf(self.hypotheses.log_masses(labels, self.context)).all(axis=1))

    def log_masses(self, labels: object) -> FloatArray:
        log_f = self.hypotheses.log_masses(labels, self.context)
        base = self.reference.log_base(log_f, None)
        return _raw(log_f, base, self.horizon, self.total) + base[:, None]

    def resample(self, count: int, rng: np.random.Generator) -> npt.NDArray[Any]:
        wanted = integer("count", count, low=0)
        found: list[npt.NDArray[Any]] = []
        while wanted > 0:
            # From the mean of the candidates, kept in proportion to the base measure's share of it.
            drawn = rng.multinomial(wanted, np.full(self.count, 1.0 / self.count))
            labels = np.concatenate([self.hypotheses.sample(j, n, rng, self.context) for j, n in enumerate(drawn)])
            rng.shuffle(labels)
            log_f = self.hypotheses.log_masses(labels, self.context)
            mean = _log_mean(log_f)
            share = self.reference.log_base(log_f, None) - np.where(np.isfinite(mean), mean, 0.0)
            keep = rng.random(len(labels)) * self.reference.largest_share(self.count) < np.exp(share)
            keep |= np.isneginf(mean)  # a sampler beyond its own support must not stop this loop
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
    """A public base measure r of labels.

    Attributes:
        calibrated: Take the range from the levels of the table, where there is one: as narrow as these candidates in
            this context allow. Otherwise from the table above, with this context's N' or S; it is never less than the
            levels' own.
    """

    calibrated: bool = field(default=True, converter=_calibrated, kw_only=True)

    @abstractmethod
    def log_base(self, log_masses: FloatArray, labels: int | None) -> FloatArray:
        """ln r(y), shape (n,), from ln f_j(y), shape (n, K); -inf where no candidate has mass. ``labels`` is M."""

    @abstractmethod
    def density_total(self, count: int) -> float:
        """R, or an upper bound, where labels have no table; ``count`` is K.

        Raises:
            InvalidArgumentError: the reference needs a table.
        """

    def largest_ratio(self, count: int) -> float:
        """The largest f_j(y)/r(y) that there can be; ``count`` is K."""
        return 1.0

    def largest_share(self, count: int) -> float:
        """The largest r(y) over the candidates' mean that there can be; ``count`` is K."""
        return float(count)

    def levels(self, hypotheses: Hypotheses, horizon: int, context: Any = None) -> Levels:
        """The levels of these candidates in a context, for T = ``horizon`` rounds.

        Raises:
            InvalidArgumentError: T is not an integer >= 2, an unknown context, candidates that can't be used, or labels
                without a table where the reference needs one.
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
    """R1, the published construction: label y becomes ceil(M max_j f_j(y)) equal symbols. Needs a table."""

    def log_base(self, log_masses: FloatArray, labels: int | None) -> FloatArray:
        if labels is None:
            raise _needs_table()
        # A product that is a whole number but for rounding is that number.
        product = labels * np.exp(log_masses.max(axis=1))
        sizes = np.where(product > 0.0, np.maximum(np.ceil(product * (1.0 - 1e-12)), 1.0), 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(sizes) - math.log(labels))

    def density_total(self, count: int) -> float:
        raise _needs_table()


def _needs_table() -> InvalidArgumentError:
    way_out = "use UniformMixture or Envelope"
    return InvalidArgumentError("hypotheses", "without a table", "blocks need a number of labels", way_out)


def _total(value: object) -> float | None:
    return None if value is None else real("total", value, low=1.0)


@frozen
class Envelope(Reference):
    """R2: the largest of the candidates. Close candidates (in total variation) have S near 1 and a narrow range.

    Args:
        total: S, the integral of max_j f_j, or an upper bound; for labels without a table only. By default K, which
            always is one. Masses P_j then sum to a little less than 1, by at most 1/T.

    Raises:
        InvalidArgumentError: ``total`` is not a number >= 1.
    """

    total: float | None = field(default=None, converter=_total, kw_only=True)

    def log_base(self, log_masses: FloatArray, labels: int | None) -> FloatArray:
        return np.asarray(log_masses.max(axis=1))

    def density_total(self, count: int) -> float:
        return float(count) if self.total is None else min(self.total, float(count))


@frozen
class UniformMixture(Reference):
    """R3: the mean of the candidates. One label's K likelihoods are all it takes, for labels of any kind."""

    def log_base(self, log_masses: FloatArray, labels: int | None) -> FloatArray:
        return _log_mean(log_masses)

    def density_total(self, count: int) -> float:
        return 1.0

    def largest_ratio(self, count: int) -> float:
        return float(count)

    def largest_share(self, count: int) -> float:
        return 1.0
