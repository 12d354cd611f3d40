"""Independent Laplace noise on every query: the baseline of Smooth MWEM."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, Adjacency, EpsilonDelta, InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import probability
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.queries.answers import checked_counts
from hockeystick.learners.smoothed.queries.cells import QueryCells
from hockeystick.mechanisms import Laplace
from hockeystick.mechanisms.contract.arguments import target_epsilon
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged


@frozen(kw_only=True, eq=False)
class LaplacePerQuery:
    """The release of n*q(D_B) for every query of a cover, each with independent Laplace noise.

    Other queries are answered by the nearest query of the cover.

    Neighbours differ in the value of one of n records (replace-one; n is public), which may move all K answers by w.

    Args:
        cells: The public cover.
        records: n >= 1.
        scale: The scale of the noise, in units of records.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners import LaplacePerQuery
        >>> from hockeystick.learners.smoothed import BoxCells, Thresholds, UniformCube
        >>> cells = BoxCells.of(Thresholds().cover(0.05, UniformCube(1)))
        >>> plan = LaplacePerQuery.calibrated(cells, records=1000, epsilon=1.0)
        >>> cells.queries, round(plan.scale, 6), round(plan.event().pure_epsilon(), 6)
        (10, 10.0, 1.0)
    """

    cells: QueryCells
    records: int = field(converter=arguments.records)
    scale: float

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.cells, QueryCells):
            raise InvalidArgumentError(
                "cells", type(self.cells).__name__, "is not a QueryCells", "use BoxCells.of(cover)"
            )
        _ = self.mechanism

    @classmethod
    def calibrated(cls, cells: QueryCells, *, records: int, epsilon: float, delta: float = 0.0) -> LaplacePerQuery:
        """Returns the learner with the least noise that is (ε, δ)-DP by the accountant.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        target, allowed = target_epsilon(epsilon), probability("delta", delta)
        guess = cls(cells=cells, records=records, scale=1.0).cells.queries * cells.width / target

        def event(scale: float) -> PrivacyEvent:
            return cls(cells=cells, records=records, scale=scale).event()

        if allowed > 0.0:
            return cls(
                cells=cells,
                records=records,
                scale=accounting.calibrate(event, EpsilonDelta(target, allowed), guess=guess).value,
            )
        more = 2.0**-50
        scale = guess
        while event(scale).pure_epsilon() > target:
            scale, more = guess * (1.0 + more), 2.0 * more
        return cls(cells=cells, records=records, scale=scale)

    @property
    def mechanism(self) -> Laplace:
        """The noise of one query."""
        return Laplace(self.scale, sensitivity=self.cells.width)

    def graph(self) -> AccountantGraph:
        """Returns the plan: K releases that all read the records."""
        found = AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE,
            pinned=True,
            assumptions=(f"neighbours differ in the value of one of {self.records} records; their number is public",),
        )
        return found.source("records").release(
            "answers", self.mechanism.event(), reads=("records",), count=self.cells.queries
        )

    def event(self) -> PrivacyEvent:
        """Returns the privacy event of all answers, for one record."""
        return self.graph().guarantee().event

    def simulate(self, records: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns noisy answers of the cover's queries, clipped to their range, shape (runs, K)."""
        return self._shares(self.mechanism.simulate(self._sums(records), rng, runs))

    def release(
        self,
        records: npt.ArrayLike,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> FloatArray:
        """Releases noisy answers, shape (K,), with secure noise; for the arguments see the release of a mechanism."""
        sums, source = self._sums(records), check_noise(noise)

        def drawn() -> FloatArray:
            return self._shares(np.asarray(self.mechanism.release(sums, noise=source)))

        return charged(self.event(), drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)

    def answer(self, parameters: npt.ArrayLike, published: npt.ArrayLike) -> FloatArray:
        """Returns answers (..., M) to queries (M, p) of the class, from published answers (..., K)."""
        return np.asarray(np.asarray(published)[..., self.cells.nearest(parameters)])

    def _sums(self, records: npt.ArrayLike) -> FloatArray:
        return self.cells.answers(checked_counts(self.cells, records, self.records))

    def _shares(self, noisy: FloatArray) -> FloatArray:
        return np.clip(noisy / self.records, self.cells.low, self.cells.low + self.cells.width)
