"""Noisy sums of a table's rows by group, from which counts, sums, means and variances follow with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from attrs import frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.data.noisy_quotients import moment_intervals
from hockeystick.mechanisms.data.row_moments import RowMoments
from hockeystick.mechanisms.numbers.gaussian import Gaussian
from hockeystick.mechanisms.numbers.laplace import Laplace
from hockeystick.mechanisms.randomness.noise import Noise

_ROUNDED = 1 + 2.0**-14  # above what a release adds to the scale, and to the output, by its grid


@frozen
class Measure:
    """A column and what is asked of it.

    Attributes:
        column: Its name; empty for the count of rows.
        moments: The sums that are released.
    """

    column: str
    moments: RowMoments

    @classmethod
    def of(cls, argument: str, kind: Literal["mean", "sum", "variance"], text: str) -> Measure:
        """Returns the measure that a text ``NAME=LOW:HIGH`` states.

        Raises:
            InvalidArgumentError: The text has another form.
        """
        name, _, ends = text.rpartition("=")
        low, colon, high = ends.partition(":")
        try:
            bounds = float(low), float(high)
        except ValueError:
            bounds = math.nan, math.nan
        if not (name and colon and math.isfinite(bounds[0]) and math.isfinite(bounds[1]) and bounds[0] < bounds[1]):
            remedy = "give its public bounds, age=0:120; do not read them off the records"
            raise InvalidArgumentError(argument, text, "is not a column with bounds", remedy)
        return cls(name, RowMoments(kind, *bounds))


def merged(measures: Sequence[Measure]) -> tuple[Measure, ...]:
    """Returns one measure a column: a mean gives the sum as well, and a variance the mean.

    Raises:
        InvalidArgumentError: A column has different bounds.
    """
    order, found = ("sum", "mean", "variance"), dict[str, Measure]()
    for one in measures:
        other = found.setdefault(one.column, one)
        if other.moments.bounds != one.moments.bounds:
            raise InvalidArgumentError("bounds", one.column, "has two pairs of bounds", "give one for each column")
        if order.index(one.moments.kind) > order.index(other.moments.kind):
            found[one.column] = one
    return tuple(found.values())


@frozen(kw_only=True)
class MomentNoise:
    """Noise on the sums of several measures, for persons of whom so many rows are kept.

    Attributes:
        measures: The measures; a count alone if there are none.
        rows: The largest number of rows of a person.
        adjacency: The neighbouring relation.
        records: The number of rows, where it is public: one for each person, under replace-one.
        mechanism: The noise on each sum.
    """

    measures: tuple[Measure, ...]
    rows: int
    adjacency: Adjacency
    records: int | None
    mechanism: Laplace | Gaussian

    @classmethod
    def calibrated(
        cls,
        measures: Sequence[Measure],
        *,
        epsilon: float,
        delta: float,
        rows: int,
        adjacency: Adjacency,
        records: int | None = None,
    ) -> MomentNoise:
        """Returns the noise of the smaller deviation, of Laplace and, for δ > 0, Gaussian noise."""
        asked = tuple(measures) or (Measure("", RowMoments("count")),)
        length, root = _distances(asked, rows, adjacency, records)
        plain = Laplace.calibrated(epsilon=epsilon, sensitivity=length)
        found: Laplace | Gaussian = plain
        if delta > 0.0:
            normal = Gaussian.calibrated(epsilon=epsilon, delta=delta, sensitivity=root)
            if normal.sigma < math.sqrt(2.0) * plain.scale:
                found = normal
        return cls(measures=asked, rows=rows, adjacency=adjacency, records=records, mechanism=found)

    def event(self) -> PrivacyEvent:
        """Returns the cost for one person."""
        return self.mechanism.event()

    @property
    def law(self) -> Literal["laplace", "gaussian"]:
        """The law of the noise."""
        return "laplace" if isinstance(self.mechanism, Laplace) else "gaussian"

    @property
    def scale(self) -> float:
        """The scale or deviation of the noise on each sum."""
        return self.mechanism.scale if isinstance(self.mechanism, Laplace) else self.mechanism.sigma

    def exact(self, numbers: FloatArray, where: IntArray, groups: int) -> list[FloatArray]:
        """Returns the exact sums of each measure, shape (groups, shares); ``numbers`` has a column for each."""
        columns = numbers.T if numbers.shape[1] else [np.zeros(len(where))]
        return [one.moments(column, where, groups=groups) for one, column in zip(self.measures, columns, strict=True)]

    def draw(self, exact: list[FloatArray], noise: Noise) -> list[FloatArray]:
        """Returns noisy sums; the number of rows of a single group is put in where it is public."""
        stacked = np.concatenate(exact, axis=1)
        noisy = np.asarray(self.mechanism.release(stacked, noise=noise)).reshape(stacked.shape)
        ends = np.cumsum([part.shape[1] for part in exact])[:-1]
        parts = np.split(noisy, ends, axis=1)
        if self.records is not None:
            for part in parts:
                if part.shape[1] > 1:
                    part[:, 0] = self.records - part[:, 1:].sum(axis=1)
        return parts

    def answers(self, noisy: list[FloatArray], failure: float) -> dict[str, tuple[FloatArray, FloatArray, FloatArray]]:
        """Returns each answer with the ends of its interval, by name: count, and mean, sum, variance of a column."""
        found: dict[str, tuple[FloatArray, FloatArray, FloatArray]] = {}
        for one, sums in zip(self.measures, noisy, strict=True):
            values = one.moments.estimates(sums)
            known = self.records is not None and one.moments.shares > 1
            ends = moment_intervals(
                one.moments, sums, law=self.law, scale=self.scale * _ROUNDED, failure=failure, known=known
            )
            for name, value in values.items():
                title = name if name == "count" else f"{name} of {one.column}"
                if name == "count" and (title in found or known):
                    continue
                found[title] = (value, *ends[name])
        return found


def _distances(
    measures: Sequence[Measure], rows: int, adjacency: Adjacency, records: int | None
) -> tuple[float, float]:
    """The largest L1 and L2 distance of the sums of neighbours.

    A row's shares of a measure have the length 1 at most, in either norm, and all rows of a person may be in one group:
    in all norms ``rows`` for one measure. Replaced, she takes as much away and brings as much. In L2 that is √2 times
    the length where shares are not negative, for then no two rows are farther apart, and twice of it where they are.
    """
    if records is not None and rows == 1 and all(one.moments.kind != "count" for one in measures):
        # The first share is what the others leave. Those of a mean move by 1. Those of a variance, (u − u², u²), move
        # by 9/8 in L1, from u = 1/4 to 1, and by 1 in L2. A sum moves by b − a.
        each = [
            {"mean": 1.0, "variance": 1.125}.get(
                one.moments.kind, (one.moments.bounds[1] - one.moments.bounds[0]) / one.moments.unit
            )
            for one in measures
        ]
        squares = [
            1.0 if one.moments.kind in ("mean", "variance") else size**2
            for one, size in zip(measures, each, strict=True)
        ]
        slack = 2.0**-18 * len(measures)  # shares are rounded to steps of 2^-20
        return sum(each) + slack, math.sqrt(sum(squares)) + slack
    if adjacency is not Adjacency.REPLACE_ONE:
        return float(rows * len(measures)), rows * _root(len(measures))
    return 2.0 * rows * len(measures), rows * _root(sum(4 if one.moments.signed else 2 for one in measures))


def _root(square: int) -> float:
    found = math.isqrt(square)
    return float(found) if found * found == square else math.nextafter(math.sqrt(square), math.inf)


def measure_content(noise: MomentNoise) -> list[dict[str, Any]]:
    """Returns the entries of the measures in a result."""
    return [
        {
            "column": one.column,
            "kind": one.moments.kind,
            "low": one.moments.bounds[0],
            "high": one.moments.bounds[1],
        }
        for one in noise.measures
    ]
