"""One look at drift: eight divergences of a table from a reference, each with an interval, from one noisy histogram.

Each divergence has two estimates, one without bias (``cell_terms``) and the plug-in of counts of half a record at
least. The one whose simulated mean square error is smaller, at the worst of several centres, is reported.

Its **interval is simulated, not proved**: at each centre the error of the estimate is simulated, and the interval takes
the widest errors of all centres. So it covers as often as stated where the centres resemble the data, which
``docs/watch-drift.md`` shows by measured coverage. The **proved interval** needs no such thing: with the stated
probability no count is off by more than q, a bound from the law of the noise, and it is the range of the sum of terms
over all such counts. It is several times wider.

A distance moves by at most the size of the noise. So the interval of Wasserstein distance, and the proved one of total
variation, is the distance of the noisy table ± a quantile of the size of the noise, which is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, one_of, real
from hockeystick.learners.divergence import sensitivity
from hockeystick.learners.divergence.drift.cell_terms import (
    MEANINGS,
    Divergence,
    Target,
    cell_term,
    checked_divergences,
    pair_term,
)
from hockeystick.learners.divergence.drift.centres import Centre, centres_of
from hockeystick.learners.divergence.drift.noisy_histogram import NoisyHistogram
from hockeystick.learners.divergence.drift.proved_intervals import Distances, box_interval, prefixes

Kind = Literal["simulated, not proved", "proved"]
Estimator = Literal["unbiased", "bias-corrected", "plug-in"]

_NUMBERS = 1 << 15  # of simulated counts at a centre
_MOST, _LEAST = 399, 99
_SHORTFALL = 0.6  # of the failure probability that the simulated errors leave: several centres don't make up for all


@frozen(kw_only=True)
class DivergenceEstimate:
    """One divergence of a look; see ``drift_look``.

    Attributes:
        divergence: Its name, such as "kl".
        estimate: The estimate, at least 0.
        low, high: The interval.
        kind: How that interval is known: "simulated, not proved" or "proved".
        proved_low, proved_high: An interval that holds with the stated confidence whatever the data are.
        estimator: "unbiased" (for the noise), "bias-corrected" or "plug-in".
        error: The root mean square error of the estimate in the simulation, at the worst centre.
        other_error: That of the estimate that was not taken.
    """

    divergence: Divergence
    estimate: float
    low: float
    high: float
    kind: Kind
    proved_low: float
    proved_high: float
    estimator: Estimator
    error: float
    other_error: float

    @property
    def meaning(self) -> str:
        """The divergence in words."""
        return MEANINGS[self.divergence]


@frozen(kw_only=True)
class DriftLook:
    """The divergences that one noisy histogram tells; see ``drift_look``.

    Attributes:
        divergences: The estimates by name.
        target: "table": of the table's own frequencies. "law": of the law that its records were drawn from.
        confidence: That of each single interval.
        records: N of the table.
        simulated: Whether the noise of the histogram was simulated, so that it is not a release.
    """

    divergences: Mapping[Divergence, DivergenceEstimate]
    target: Target
    confidence: float
    records: int
    simulated: bool

    def __getitem__(self, name: Divergence) -> DivergenceEstimate:
        """Returns one divergence.

        Raises:
            InvalidArgumentError: it was not asked for.
        """
        if name not in self.divergences:
            known = ", ".join(self.divergences)
            raise InvalidArgumentError("name", name, "is not a divergence of this look", f"take one of {known}")
        return self.divergences[name]

    def __str__(self) -> str:
        lines = [f"{'of the ' + self.target:<14}{'estimate':>12}{'low':>12}{'high':>12}  interval, estimator"]
        for name, one in self.divergences.items():
            numbers = "".join(f"{value:>12.4g}" for value in (one.estimate, one.low, one.high))
            lines.append(f"{name:<14}{numbers}  {one.kind}, {one.estimator}")
        return "\n".join(lines)


def drift_look(
    histogram: NoisyHistogram,
    reference: npt.ArrayLike | NoisyHistogram,
    *,
    divergences: Sequence[Divergence] | Divergence = (
        "kl",
        "kl_reverse",
        "js",
        "psi",
        "chi2",
        "hellinger2",
        "tv",
        "wasserstein",
    ),
    target: Target = "table",
    confidence: float = 0.95,
    positions: npt.ArrayLike | None = None,
    seed: int = 0,
) -> DriftLook:
    """Returns how far a table is from a reference: eight divergences with intervals, from its noisy histogram alone.

    It is post-processing: it costs no privacy beyond that of the histogram, for any number of divergences. With
    q = h/N and the reference π the divergences are

    * "kl": KL(π || q) = Σ π ln(π/q), and "kl_reverse": KL(q || π), in nats;
    * "js": Jensen–Shannon; "psi": the population stability index Σ (q − π) ln(q/π);
    * "chi2": Σ (q − π)²/π; "hellinger2": ½ Σ (√q − √π)²; "tv": ½ Σ |q − π|;
    * "wasserstein": Σ |F − G|·(distance to the next cell), for ordered cells.

    Where the logarithm of q stands, in "kl" and "psi", q is at least that of half a record.

    Args:
        histogram: The noisy counts (k,), from ``release_histogram``, a secure sum or local reports.
        reference: π > 0 with sum 1, public; or another ``NoisyHistogram``, of private reference data, which then stands
            for π. Its cells count half a record at least.
        divergences: The names of those that are wanted; all by default.
        target: "table" for the frequencies of this table, or "law" for the law that its records were independently
            drawn from.
        confidence: The confidence of each single interval, in [0.5, 0.99].
        positions: The places of ordered cells (k,), which rise, for "wasserstein"; by default 0, 1, …, k − 1.
        seed: That of the public simulation.

    Returns:
        A look; ``look["kl"]`` is a ``DivergenceEstimate``.

    Raises:
        InvalidArgumentError: an argument is outside its domain.

    Example:
        >>> from hockeystick.learners import drift_look, release_histogram
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> noisy = release_histogram([7000, 2500, 500], epsilon=1.0, noise=SimulationNoise(1))
        >>> look = drift_look(noisy, [0.65, 0.25, 0.1])  # the exact KL divergence is 0.0211
        >>> print(f"{look['kl'].estimate:.4f} in {look['kl'].low:.4f} … {look['kl'].high:.4f}, {look['kl'].kind}")
        0.0212 in 0.0203 … 0.0220, simulated, not proved
    """
    if not isinstance(histogram, NoisyHistogram):
        reason, way = "is not a NoisyHistogram", "make one, for instance by release_histogram"
        raise InvalidArgumentError("histogram", type(histogram).__name__, reason, way)
    names = checked_divergences(divergences)
    one_of("target", target, "table", "law")
    level = real("confidence", confidence, low=0.5, high=0.99)
    rng = np.random.default_rng(integer("seed", seed, low=0))
    cells = len(histogram.counts)
    known: FloatArray | None = None
    tables: tuple[NoisyHistogram, ...] = (histogram,)
    if isinstance(reference, NoisyHistogram):
        tables = (histogram, reference)
    else:
        known = sensitivity.reference(reference)
    if len(tables[-1].counts if known is None else known) != cells:
        raise InvalidArgumentError("reference", "...", f"is not for the {cells} cells of the histogram")
    places = np.arange(float(cells)) if positions is None else array("positions", positions, shape=(cells,))
    if (np.diff(places) <= 0.0).any():
        raise InvalidArgumentError("positions", places, "do not rise", "order the cells")
    work = _Work(tables, known, target, level, rng)
    found: dict[Divergence, DivergenceEstimate] = {}
    for name in names:
        found[name] = work.transport(np.diff(places)) if name == "wasserstein" else work.divergence(name)
    simulated = any(table.simulated for table in tables)
    return DriftLook(divergences=found, target=target, confidence=level, records=histogram.records, simulated=simulated)


class _Work:
    """The tables and simulations of one look, which its divergences share."""

    def __init__(
        self,
        tables: tuple[NoisyHistogram, ...],
        reference: FloatArray | None,
        target: Target,
        level: float,
        rng: np.random.Generator,
    ) -> None:
        self.tables, self.reference, self.target, self.level, self.rng = tables, reference, target, level, rng
        self.noisy = tuple(table.counts for table in tables)
        self._centres: list[tuple[Centre, Centre]] = []

    # --- estimates ---------------------------------------------------------------------------------------------------

    def centres(self) -> list[tuple[Centre, Centre]]:
        """The centres, and the simulated noisy tables (runs, k) at each."""
        if not self._centres:
            middle = _common(self.tables) if self.reference is None else self.reference
            runs = min(_MOST, max(_LEAST, _NUMBERS // len(middle)))
            for centre in centres_of(self.tables, middle, self.target, self.rng):
                self._centres.append((centre, tuple(map(self._again, self.tables, centre, [runs] * len(centre)))))
        return self._centres

    def _again(self, table: NoisyHistogram, centre: FloatArray, runs: int) -> FloatArray:
        noise = table.noise.draw(centre, self.rng, runs)
        if self.target == "table":
            return np.asarray(centre + noise)
        return np.asarray(self.rng.multinomial(table.records, centre / centre.sum(), size=runs) + noise)

    def estimates(self, name: str, noisy: Centre) -> FloatArray:
        """Both estimates (2, runs): corrected, and plug-in."""
        floored = []
        for table, counts in zip(self.tables, noisy, strict=True):
            kept = np.maximum(counts, 0.5)
            floored.append(kept * (table.records / kept.sum(axis=-1, keepdims=True)))
        return np.stack([self._corrected(name, noisy), self.truth(name, tuple(floored))])

    def _corrected(self, name: str, noisy: Centre) -> FloatArray:
        first = self.tables[0]
        if self.reference is not None:
            term = cell_term(name, self.reference, first.records, self.target)
            return np.asarray(first.noise.corrected(term)(noisy[0]).sum(axis=-1))
        pair, second = pair_term(name, self._sizes(), self.target), self.tables[1]

        def given(counts: FloatArray) -> FloatArray:
            return second.noise.corrected(lambda other: pair(counts, other))(noisy[1])

        return np.asarray(first.noise.corrected(given)(noisy[0]).sum(axis=-1))

    def truth(self, name: str, counts: Centre) -> FloatArray:
        """The divergence of tables without noise."""
        if self.reference is not None:
            return np.asarray(cell_term(name, self.reference, self.tables[0].records, "table")(counts[0]).sum(axis=-1))
        return np.asarray(pair_term(name, self._sizes(), "table")(*counts).sum(axis=-1))

    def _sizes(self) -> tuple[float, float]:
        return self.tables[0].records, self.tables[-1].records

    def divergence(self, name: Divergence) -> DivergenceEstimate:
        """The estimate of smaller simulated error, with its intervals."""
        here = self.estimates(name, self.noisy)
        errors = [self.estimates(name, again) - float(self.truth(name, centre)) for centre, again in self.centres()]
        square = np.max([(each * each).mean(axis=1) for each in errors], axis=0)
        taken = int(np.argmin(square))
        low, high = self._reach(here[taken], [each[taken] for each in errors])
        proved, kind = self._proved(name), "simulated, not proved"
        if name == "tv" and self.target == "law":
            (low, high), kind = proved, "proved"
        exact = all(table.noise.exact for table in self.tables) and self.target == "table"
        corrected: Estimator = "unbiased" if exact else "bias-corrected"
        return DivergenceEstimate(
            divergence=name,
            estimate=max(0.0, float(here[taken])),
            low=low,
            high=high,
            kind="proved" if kind == "proved" else "simulated, not proved",
            proved_low=proved[0],
            proved_high=proved[1],
            estimator=corrected if taken == 0 else "plug-in",
            error=math.sqrt(float(square[taken])),
            other_error=math.sqrt(float(square[1 - taken])),
        )

    def _reach(self, here: float, errors: Sequence[FloatArray]) -> tuple[float, float]:
        """The interval that the errors at all centres leave for the truth."""
        inner, runs = 1.0 - (1.0 - self.level) * _SHORTFALL, len(errors[0])
        above = min(runs, math.ceil((runs + 1) * (1.0 + inner) / 2.0)) - 1
        below = max(1, math.floor((runs + 1) * (1.0 - inner) / 2.0)) - 1
        ordered = [np.sort(each) for each in errors]
        low = float(here) - max(float(each[above]) for each in ordered)
        high = float(here) - min(float(each[below]) for each in ordered)
        return max(0.0, low), max(0.0, high)

    # --- proved intervals --------------------------------------------------------------------------------------------

    def _proved(self, name: Divergence) -> tuple[float, float]:
        if name == "tv":
            return self._distances(None).interval(self._seen(None))
        if self.reference is not None:
            term = cell_term(name, self.reference, self.tables[0].records, "table")
            return box_interval(lambda counts: term(counts[0]), self.tables, self.reference, self.target, self.level)
        pair = pair_term(name, self._sizes(), "table")
        return box_interval(lambda counts: pair(*counts), self.tables, None, self.target, self.level)

    def _distances(self, steps: FloatArray | None) -> Distances:
        return Distances.of(self.tables, steps, target=self.target, level=self.level, rng=self.rng)

    def _seen(self, steps: FloatArray | None) -> float:
        """The distance of the noisy tables."""
        return float(self._distance_of(self.noisy, steps))

    def _distance_of(self, noisy: Centre, steps: FloatArray | None) -> FloatArray:
        if steps is None:
            shares = [counts / table.records for counts, table in zip(noisy, self.tables, strict=True)]
            other = self.reference if self.reference is not None else shares[1]
            return np.asarray(0.5 * np.abs(shares[0] - other).sum(axis=-1))
        sums = [prefixes(each, table) for each, table in zip(noisy, self.tables, strict=True)]
        other = np.cumsum(self.reference)[:-1] if self.reference is not None else sums[1]
        return np.asarray(np.abs(sums[0] - other) @ steps)

    def transport(self, steps: FloatArray) -> DivergenceEstimate:
        """Wasserstein distance: the interval is proved, the estimate its point nearest to the bias-corrected one."""
        seen = self._seen(steps)
        low, high = self._distances(steps).interval(seen)
        errors = []
        for centre, again in self.centres():
            errors.append(self._distance_of(again, steps) - float(self._distance_of(centre, steps)))
        bias = float(errors[0].mean())
        plain, corrected = (math.sqrt(max(float(((e - b) ** 2).mean()) for e in errors)) for b in (0.0, bias))
        better = corrected <= plain
        return DivergenceEstimate(
            divergence="wasserstein",
            estimate=min(max(seen - (bias if better else 0.0), low), high),
            low=low,
            high=high,
            kind="proved",
            proved_low=low,
            proved_high=high,
            estimator="bias-corrected" if better else "plug-in",
            error=min(plain, corrected),
            other_error=max(plain, corrected),
        )


def _common(tables: Sequence[NoisyHistogram]) -> FloatArray:
    """The joint frequencies of two noisy tables, of half a record at least."""
    kept = np.maximum(sum(table.counts for table in tables), 0.5)
    return np.asarray(kept / kept.sum())
