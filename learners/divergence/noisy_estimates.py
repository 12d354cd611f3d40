"""Published noisy counts, and estimates of KL(Pi || P) from them: post-processing, which costs nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy.special import digamma

from hockeystick.accounting import InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, real
from hockeystick.learners.divergence.count_logarithms import Harmonic, Smoothed
from hockeystick.learners.divergence.query_average import QueryAverage

_SURE = 5.0  # the bias of a noisy frequency is corrected if it is this many standard deviations above 0


@frozen(kw_only=True)
class Bits:
    """The communication of one run, in bits for each client that is asked.

    Attributes:
        down: The bits of the different symbols that it is asked for.
        up: The bits of one residue for each of them.
        residues: The number of residues that it sends.
    """

    down: int
    up: int
    residues: int


@frozen(kw_only=True)
class NoisyCounts:
    """The published noisy counts of a cohort, from which estimates are post-processing. See ``DistributedKL``.

    Attributes:
        counts: Sums over the clients that answered, in records, shape (u,).
        deviations: The standard deviations of their noise, shape (u,), with the shares of the clients that answered.
        simulated: Whether the noise was simulated, so that it is not a release.
        average: The public plan with the cohorts and records of the clients that answered.
        bits: The communication of each client of the first cohort.
    """

    counts: FloatArray = field(repr=False, eq=False)
    deviations: FloatArray = field(repr=False, eq=False)
    simulated: bool
    average: QueryAverage = field(repr=False)
    bits: Bits

    @property
    def deviation(self) -> float:
        """The largest standard deviation of the noise on a count."""
        return float(self.deviations.max())

    def estimate(self, multiplier: float = 0.0, *, floor: float | None = None, debias: bool = False) -> float:
        """Returns λ·U − V for any multiplier; see :func:`estimates`."""
        spread = self.deviations if debias else 0.0
        return float(estimates(self.average, self.counts, multiplier, deviation=spread, floor=floor))


def estimates(
    average: QueryAverage,
    counts: npt.ArrayLike,
    multiplier: float = 0.0,
    *,
    deviation: float | FloatArray = 0.0,
    floor: float | None = None,
) -> FloatArray:
    """Returns λ·U − V of published noisy counts, shape (...) for counts of shape (..., u).

    Frequencies are clamped from below, because noise can make counts negative: by default to that of a count of zero,
    or of half a record without smoothing.

    Args:
        average: The public plan as it was answered (``QueryAverage.answered_by``); N is for the clients that answered.
        counts: Noisy counts, in records.
        multiplier: λ ≥ 0.
        deviation: The standard deviation of the noise of each count, or of all, to subtract the logarithm's bias
            σ^2/(2 P^2) if P is far from 0; 0 for no correction.
        floor: The least frequency, > 0.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    noisy = np.asarray(counts, dtype=np.float64)
    if noisy.shape[-1:] != average.symbols.shape or not np.isfinite(noisy).all():
        raise InvalidDataError("counts", noisy, f"are not {len(average.symbols)} finite numbers each")
    return np.asarray(terms(average, noisy, slice(None), multiplier, deviation, floor) @ average.shares)


def terms(
    average: QueryAverage,
    noisy: FloatArray,
    which: int | slice,
    multiplier: float,
    deviation: float | FloatArray,
    floor: float | None,
) -> FloatArray:
    """Returns λ·(r − 1) − ln r for noisy counts of one symbol, or of all symbols on the last axis."""
    lam, spread = real("multiplier", multiplier, low=0.0, high=1e100), array("deviation", deviation, low=0.0)
    sizes = average.records if len(average.cohorts) == 1 else average.records[which]
    rule, k = average.logarithm, average.symbol_count
    pi = average.reference[average.symbols][which]
    added = rule.pseudo_count if isinstance(rule, Smoothed) else 0.0
    mass = sizes + added * k
    least = np.maximum(added, 0.5) / mass if floor is None else real("floor", floor, low=0.0, high=1.0, low_open=True)
    p = np.maximum((noisy + added) / mass, least)
    if isinstance(rule, Harmonic):
        logs = digamma(np.maximum(noisy, 0.0) + 1.0) - digamma(np.asarray(sizes) + 1.0)
    else:
        logs = np.log(p)
    at = spread / mass
    correction = np.where(p > _SURE * at, 0.5 * (at / p) ** 2, 0.0)
    return np.asarray(lam * (p / pi - 1.0) - (logs - np.log(pi)) - correction)
