"""A histogram with noise, which a drift look is computed from, and its release by a party that is trusted with counts.

A look needs the number of records N. If neighbours replace a record, N is public. If a record may be added or removed,
N is private: it is declared (a public number, such as the size that a window was planned for), or paid for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError, InvalidDataError, PrivacyEvent, compose
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.drift.cell_terms import Term
from hockeystick.learners.divergence.drift.count_noise import LaplaceCounts
from hockeystick.learners.divergence.drift.report_noise import ReportCounts
from hockeystick.learners.divergence.noisy_estimates import NoisyCounts as CountSums
from hockeystick.mechanisms import (
    CellCounts,
    DiscreteLaplace,
    PolyaShares,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

LocalOracle = RandomizedResponse | SubsetSelection | UnaryEncoding
"""The mechanisms whose reports a look is computed from."""

_MOST_CELLS = 2**16
_LARGEST = 2.0**52


class CountNoise(Protocol):
    """The law of the noise in a histogram; see ``LaplaceCounts`` and ``ReportCounts``."""

    @property
    def exact(self) -> bool: ...

    @property
    def free(self) -> bool: ...

    def variances(self, counts: FloatArray) -> FloatArray: ...

    def draw(self, counts: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray: ...

    def corrected(self, term: Term) -> Term: ...

    def largest(self, cells: int, level: float) -> float: ...


def _counts(value: npt.ArrayLike) -> FloatArray:
    found = array("counts", value, ndim=1, low=-_LARGEST, high=_LARGEST)
    if not 2 <= len(found) <= _MOST_CELLS:
        raise InvalidArgumentError("counts", len(found), "are not the counts of 2 to 65536 cells", "merge rare cells")
    return found


def _records(value: object) -> int:
    return integer("records", value, low=1, high=int(_LARGEST))


@frozen(kw_only=True, eq=False)
class NoisyHistogram:
    """Published noisy counts, from which ``drift_look`` computes divergences at no further cost.

    It is made by ``release_histogram``, from a secure sum of Pólya shares by :meth:`of_sums`, or
    from local reports by :meth:`of_reports`.

    Attributes:
        counts: The noisy counts (k,), before any clipping, weighting or projection; whole numbers from a server or an
            aggregator.
        records: N: public, declared or paid for.
        noise: The law of the noise.
        total_known: Whether the true counts add up to ``records``.
        simulated: Whether the noise was simulated, so that it is not a release.

    Raises:
        InvalidArgumentError: an entry is outside its domain.

    See ``drift_look`` for an example.
    """

    counts: FloatArray = field(converter=_counts)
    records: int = field(converter=_records)
    noise: CountNoise = field()
    total_known: bool = True
    simulated: bool = False

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.noise, LaplaceCounts | ReportCounts):
            raise InvalidArgumentError("noise", type(self.noise).__name__, "is not the noise of a count")
        if isinstance(self.noise, LaplaceCounts) and (self.counts != np.floor(self.counts)).any():
            reason = "are not whole numbers, though their noise is"
            raise InvalidArgumentError("counts", self.counts, reason, "give them as published, before any correction")

    @classmethod
    def of_sums(cls, estimator: DistributedKL, sums: CountSums) -> NoisyHistogram:
        """Returns the histogram of secure sums, to which each client added Pólya shares of noise.

        Clients that dropped out take their records with them: N is that of the clients that answered, and so is the
        noise. Who answers must not depend on the data.

        Args:
            estimator: A ``DistributedKL`` with ``PolyaShares`` that asks one cohort for all symbols.
            sums: What it published, a ``NoisyCounts``.

        Raises:
            InvalidArgumentError: the shares have another law, or not all symbols are asked for.
        """
        shares, average = getattr(estimator, "shares", None), sums.average
        if not isinstance(shares, PolyaShares):
            reason = "has noise that is not discrete Laplace when added up"
            raise InvalidArgumentError("estimator", type(shares).__name__, reason, 'calibrate it with law="polya"')
        k = average.symbol_count
        if len(average.cohorts) != 1 or not np.array_equal(average.symbols, np.arange(k)):
            reason = "does not ask one cohort for all symbols"
            raise InvalidArgumentError("estimator", "...", reason, "ask for as many samples as there are symbols")
        noise = LaplaceCounts(shares.scale, len(average.cohorts[0]) / shares.whole)
        return cls(counts=sums.counts, records=int(average.records[0]), noise=noise, simulated=sums.simulated)

    @classmethod
    def of_reports(cls, oracle: LocalOracle, reports: npt.ArrayLike, *, simulated: bool = False) -> NoisyHistogram:
        """Returns the histogram of local reports, one of each person, which nobody is trusted with.

        Its counts are unbiased estimates, whose noise is far larger than that of a trusted server. A look takes the
        bias of the noise off to second order, and simulates it as normal.

        Args:
            oracle: The mechanism that each person's category was reported by; see ``local_oracle``.
            reports: The reports of all persons that answered.
            simulated: Whether they were simulated.

        Raises:
            InvalidArgumentError: another mechanism.
            InvalidDataError: the reports are not those of the mechanism.
        """
        if not isinstance(oracle, LocalOracle):
            reason = "is not a mechanism whose reports are read here"
            raise InvalidArgumentError("oracle", type(oracle).__name__, reason, "take that of local_oracle")
        found = oracle.frequencies(reports)
        size = len(np.asarray(reports))
        p, q = rates(oracle)
        noise = ReportCounts(p=p, q=q, respondents=size, fixed=not isinstance(oracle, UnaryEncoding))
        return cls(counts=size * found, records=size, noise=noise, simulated=simulated)


def local_oracle(categories: int, *, epsilon: float) -> RandomizedResponse | SubsetSelection:
    """Returns the mechanism for each person's category whose estimated counts have the least total variance.

    That of a count is N·q(1 − q)/(p − q)² for a category that nobody has, and N·p(1 − p)/(p − q)² for one that all
    have, where p and q are the probabilities that a report supports the true category and another one. The total is
    compared, not that of rare categories alone, which favours randomised response too long. It is least for subset
    selection; with sets of one, that is randomised response.

    Args:
        categories: k.
        epsilon: ε of each report.

    Raises:
        InvalidArgumentError: an argument is outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import NoisyHistogram, drift_look, local_oracle
        >>> oracle = local_oracle(4, epsilon=2.0)  # randomised response
        >>> answers = np.repeat(np.arange(4), [40_000, 30_000, 20_000, 10_000])
        >>> reports = oracle.simulate(answers, np.random.default_rng(1), runs=1)[0]
        >>> noisy = NoisyHistogram.of_reports(oracle, reports, simulated=True)
        >>> look = drift_look(noisy, [0.25, 0.25, 0.25, 0.25], divergences="kl_reverse")
        >>> look["kl_reverse"].low < 0.106 < look["kl_reverse"].high  # the exact divergence
        True
    """
    sets = SubsetSelection(epsilon, categories=categories)
    if sets.epsilon == 0.0:
        raise InvalidArgumentError("epsilon", 0.0, "makes the reports pure noise", "use a larger one")
    return sets if sets.size > 1 else RandomizedResponse(epsilon, categories=categories)


def rates(oracle: LocalOracle) -> tuple[float, float]:
    """Returns the probabilities that a report supports the true category, and another one."""
    if isinstance(oracle, UnaryEncoding):
        return oracle.p, oracle.q
    if isinstance(oracle, SubsetSelection):
        return oracle.rates()
    lie = oracle.lie_probability()
    return 1.0 - lie, lie / (oracle.categories - 1.0)


@frozen(kw_only=True)
class HistogramRelease:
    """The mechanism of a look by a trusted server: whole-number Laplace noise on the count of each cell.

    Args:
        counts: The noise on the cells, ``CellCounts`` without a tree.
        total: The noise on N, if N is paid for.
        declared: N, if it is declared.

    See ``release_histogram`` for an example.
    """

    counts: CellCounts
    total: DiscreteLaplace | None = None
    declared: int | None = None

    @classmethod
    def calibrated(
        cls,
        *,
        cells: int,
        epsilon: float,
        records: int,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        declared: bool = False,
        total_share: float = 0.1,
    ) -> HistogramRelease:
        """Returns the release that is ε-DP; the arguments are those of ``release_histogram``."""
        if adjacency is Adjacency.REPLACE_ONE:
            return cls(counts=CellCounts.calibrated(cells=cells, epsilon=epsilon, records=records))
        if adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            reason = "is not a relation of records here"
            raise InvalidArgumentError("adjacency", adjacency, reason, "give REPLACE_ONE or ADD_OR_REMOVE_ONE")
        if declared:
            return cls(counts=CellCounts.calibrated(cells=cells, epsilon=epsilon), declared=records)
        share = real("total_share", total_share, low=0.0, low_open=True, high=1.0, high_open=True)
        target = real("epsilon", epsilon, low=0.0, low_open=True)
        total = DiscreteLaplace.calibrated(epsilon=share * target)
        rest = target - total.event().pure_epsilon()
        # 4 U: the difference, and the sum of the two costs, are rounded.
        counts = CellCounts.calibrated(cells=cells, epsilon=rest * (1.0 - 2.0**-50))
        return cls(counts=counts, total=total)

    def event(self) -> PrivacyEvent:
        """Returns the cost for one record."""
        own = self.counts.event()
        return own if self.total is None else compose(own, self.total.event())

    @property
    def adjacency(self) -> Adjacency:
        """The relation of the cost."""
        return Adjacency.ADD_OR_REMOVE_ONE if self.counts.records is None else Adjacency.REPLACE_ONE

    def release(
        self,
        counts: IntArray,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> NoisyHistogram:
        """Returns the histogram with secure noise; arguments as for a mechanism's release."""
        source, checked = check_noise(noise), checked_counts(counts, self.counts.cells)
        if self.counts.records is not None and int(checked.sum()) != self.counts.records:
            raise InvalidDataError("counts", counts, "do not add up to records", "count each record once")

        def drawn() -> NoisyHistogram:
            found, size = self.counts.release(checked, noise=source), self.declared or self.counts.records
            if self.total is not None:
                size = max(1, int(self.total.release(int(checked.sum()), noise=source)))
            return NoisyHistogram(
                counts=found,
                records=size or 1,
                noise=LaplaceCounts(self.counts.scale),
                total_known=self.counts.records is not None,
                simulated=source.simulated,
            )

        return charged(self.event(), drawn, source, ledger, name, reads, adjacency=self.adjacency)


def release_histogram(
    counts: npt.ArrayLike | ClientCounts,
    *,
    epsilon: float,
    declared: int | None = None,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    total_share: float = 0.1,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> NoisyHistogram:
    """Returns counts of k cells with discrete Laplace noise, to be published: ε-DP for one record.

    The noise is P(z) ∝ e^(−|z|ε/2) if neighbours differ in the cell of one record (replace-one), and P(z) ∝ e^(−|z|ε)
    if they differ by one record. In the second case N is private. Give ``declared``, a public number;
    otherwise a share of ε pays for N, and shares are those of the noisy N.

    Args:
        counts: The private counts (k,), or ``ClientCounts``, whose clients' records are added up.
        epsilon: ε > 0.
        declared: N as a public number, under add-or-remove-one only.
        adjacency: ``Adjacency.REPLACE_ONE`` or ``Adjacency.ADD_OR_REMOVE_ONE``.
        total_share: The share of ε for N, if it is neither public nor declared.
        ledger, name, reads, noise: As for a mechanism's release; ``SimulationNoise`` makes it repeatable.

    Raises:
        InvalidDataError: the counts are not whole numbers >= 0, or all are 0.
        InvalidArgumentError: another argument is outside its domain.
        HockeystickError: the ledger refuses; nothing is drawn.

    Example:
        >>> from hockeystick.learners import release_histogram
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> found = release_histogram([700, 250, 50], epsilon=1.0, noise=SimulationNoise(1))
        >>> found.counts, found.records
        (array([696., 256.,  49.]), 1000)
    """
    own = checked_counts(counts)
    replaced = adjacency is Adjacency.REPLACE_ONE
    if replaced and declared is not None:
        raise InvalidArgumentError("declared", declared, "is not needed where N is public", "leave it out")
    mechanism = HistogramRelease.calibrated(
        cells=len(own),
        epsilon=epsilon,
        records=int(own.sum()) if declared is None else _records(declared),
        adjacency=adjacency,
        declared=declared is not None,
        total_share=total_share,
    )
    return mechanism.release(own, ledger=ledger, name=name, reads=reads, noise=noise)


def checked_counts(value: Any, cells: int | None = None) -> IntArray:
    """Returns private counts (k,), whole numbers with at least one record; the error tells none of them."""
    if isinstance(value, ClientCounts):
        found = value.total()
    else:
        numbers = array("counts", value, ndim=1, low=0.0, high=_LARGEST, data=True)
        if (numbers != np.floor(numbers)).any():
            raise InvalidDataError("counts", value, "are not whole numbers", "count records")
        found = numbers.astype(np.int64)
    if not 2 <= len(found) <= _MOST_CELLS or (cells is not None and len(found) != cells):
        wanted = "2 to 65536" if cells is None else str(cells)
        raise InvalidDataError("counts", len(found), f"are not the counts of {wanted} cells")
    if not 0 < int(found.sum()) <= _LARGEST:
        raise InvalidDataError("counts", value, "hold no record, or more than 2^52")
    return found
