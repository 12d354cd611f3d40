"""Bounds on errors that depend on public numbers alone, from simulated errors.

Let X_1 … X_m and X be independent and equally distributed, X the error of a release. Given the simulation, X exceeds
the r-th smallest of the others with a probability that has the law Beta(m + 1 − r, r) over simulations. The rank is
such that this probability is above the stated one in at most one simulation of a thousand. The draws must not be those
by which a mechanism was chosen: the least of several bounds is too small.
"""

from __future__ import annotations

from attrs import frozen
from scipy import stats

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import real

STATED = 1  # the seed of the simulation that states a bound
COMPARED = 2  # and of the one that compares mechanisms
_DRAWS, _FEWEST = 1999, 150
_NUMBERS = 2**22  # of noise, in a simulation of many sums: more draws take longer than a few seconds
_UNCERTAIN = 1e-3  # the probability over simulations that a bound fails more often than stated
_COMPARED, _MOST, _LEAST, _LEVEL = 2**19, 199, 19, 0.9  # of comparisons: numbers, draws and the compared quantile


@frozen(kw_only=True)
class CountsBound:
    """A bound on the largest error of all answers of a kind.

    Attributes:
        count: The largest error, in records.
        share: The same as a share of the records; None where their number is not public.
        confidence: The probability with which it holds.
        draws: The number of simulated errors from which it was taken.

    See ``CellCounts`` for an example.
    """

    count: float
    share: float | None
    confidence: float
    draws: int

    @classmethod
    def of(cls, errors: FloatArray, level: float, records: int | None) -> CountsBound:
        """Returns the bound that sorted errors state."""
        worst = float(errors[_rank(level, len(errors)) - 1]) * (1.0 + 1e-9)  # the sums are rounded
        share = None if records is None else min(1.0, worst / records)
        return cls(count=worst, share=share, confidence=level, draws=len(errors))


def checked_confidence(value: float) -> float:
    """Returns the probability with which a bound holds; a higher one would need too many simulations."""
    return real("confidence", value, low=0.0, low_open=True, high=0.98)


def stated_draws(level: float, measurements: int) -> int:
    """Returns the number of simulated errors that state a bound: 1999, or fewer for many sums."""
    least = _FEWEST
    while _rank(level, least) > least:
        least *= 2
    return min(_DRAWS, max(least, _NUMBERS // measurements))


def compared_draws(measurements: int) -> int:
    """Returns the number of simulated errors by which a mechanism is compared with others."""
    return min(_MOST, max(_LEAST, _COMPARED // measurements))


def compared_error(errors: FloatArray) -> float:
    """Returns the nine-tenths quantile of sorted errors."""
    return float(errors[int(_LEVEL * len(errors))])


def _rank(level: float, draws: int) -> int:
    """The rank whose value has probability ``level`` below it, except for one simulation in a thousand."""
    return int(stats.binom.isf(_UNCERTAIN, draws, level)) + 1
