"""The public coins of the divergence estimators: which symbols are asked for, and of whom.

Neither may depend on data. The estimator needs the symbols' weights alone, so each symbol is asked for once, however
often it was drawn. How often that was is chance, and known to be: ``Queries.expected_shares`` are better weights.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import MOST, integer
from hockeystick.learners.divergence.sensitivity import reference
from hockeystick.mechanisms.contract.arguments import generator

CohortMode = Literal["fixed", "disjoint", "independent"]

_DENSE = 4  # symbols per draw up to which counts of all symbols are drawn at once


@frozen(eq=False)
class Queries:
    """Symbols drawn from the reference.

    Attributes:
        symbols: The different ones, ascending, shape (u,).
        counts: How often each was drawn, shape (u,); T in sum.
    """

    symbols: IntArray
    counts: IntArray

    @property
    def samples(self) -> int:
        """T."""
        return int(self.counts.sum())

    @property
    def shares(self) -> FloatArray:
        """How often each symbol was drawn, of all draws, shape (u,)."""
        return np.asarray(self.counts / self.samples)

    def weights(self, symbols: int) -> FloatArray:
        """The weights of all symbols, shape (k,)."""
        found = np.zeros(symbols)
        found[self.symbols] = self.shares
        return found

    def expected_shares(self, pi: npt.ArrayLike) -> FloatArray:
        """The expected weights of the symbols, given which they are, shape (u,), with sum 1.

        As an average's weights they are as unbiased as :attr:`shares`, and never of a larger variance, as what they
        leave out is how often each symbol was drawn, which says nothing of any data (Rao 1945, Blackwell 1947).

        Args:
            pi: The reference that they were drawn from, shape (k,).

        Raises:
            InvalidArgumentError: it is no reference.
        """
        return _expected_counts(reference(pi)[self.symbols], self.samples) / self.samples

    def in_rounds(self, rng: np.random.Generator) -> IntArray:
        """The symbols one by one in random order, with repetitions, shape (T,)."""
        return rng.permutation(np.repeat(self.symbols, self.counts))


def draw_queries(pi: npt.ArrayLike, samples: int, rng: np.random.Generator) -> Queries:
    """T symbols, independent draws of the reference, in time O(k + T).

    Raises:
        InvalidArgumentError: no reference (see ``divergence.sensitivity.reference``), or no sample.
    """
    law, count, source = reference(pi), integer("samples", samples, low=1, high=MOST), generator(rng)
    if len(law) <= _DENSE * count:
        drawn = source.multinomial(count, law)
        symbols = np.flatnonzero(drawn)
        return Queries(symbols.astype(np.int64), drawn[symbols].astype(np.int64))
    running = np.cumsum(law)
    found = np.searchsorted(running, source.random(count) * running[-1], side="right")
    symbols, counts = np.unique(np.minimum(found, len(law) - 1), return_counts=True)
    return Queries(symbols.astype(np.int64), counts.astype(np.int64))


def draw_cohorts(
    clients: int, size: int, rng: np.random.Generator, *, mode: CohortMode = "fixed", rounds: int = 1
) -> list[IntArray]:
    """The clients that are asked, round by round; one list if the cohort is fixed.

    Args:
        clients: n.
        size: Of each cohort, at most n.
        rng: For the public coins.
        mode: "fixed": one uniform cohort for all rounds. "disjoint": cohorts of a random partition; rounds * size <= n.
            "independent": a fresh uniform cohort each round.
        rounds: How many rounds; ignored for "fixed".

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    n = integer("clients", clients, low=1)
    size, count, source = integer("size", size, low=1), integer("rounds", rounds, low=1), generator(rng)
    if size > n:
        raise InvalidArgumentError("size", size, f"is larger than the population of {n} clients", "ask fewer")
    if mode == "fixed":
        return [np.sort(source.choice(n, size, replace=False))]
    if mode == "independent":
        return [np.sort(source.choice(n, size, replace=False)) for _ in range(count)]
    if mode == "disjoint":
        if count * size > n:
            reason = f"is too large for {count} disjoint cohorts of {n} clients"
            raise InvalidArgumentError("size", size, reason, f"ask at most {n // count}")
        order = source.permutation(n)
        return [np.sort(order[i * size : (i + 1) * size]) for i in range(count)]
    raise InvalidArgumentError("mode", mode, "is unknown", 'use "fixed", "disjoint" or "independent"')


# --- how often each symbol is drawn, given which are -----------------------------------------------------------------

_STEPS = 30  # of a bisection
_SMALL = 1e-18  # of the first term, below which a sum over angles ends
_ANGLES = 16  # at a time


def _expected_counts(masses: FloatArray, draws: int) -> FloatArray:
    """E of each of u multinomial counts with the sum T, given that none of them is 0, shape (u,).

    Given that, counts have the law of independent Poisson numbers that are not 0, given their sum. Any factor of all
    rates gives the same; with the one for which their means add up to T, E of a count where the sum is T is up to a
    constant an integral over characteristic functions, which soon are as good as 0. A sum over angles is that integral
    up to the chance of sums that are sixteen deviations off.
    """
    if draws == len(masses):
        return np.ones(len(masses))
    rates = masses * _factor(masses, draws)
    means = -rates / np.expm1(-rates)
    spread = math.sqrt(float((means * (1.0 + rates - means)).sum()))
    count = 16 * math.ceil(spread) + 64
    found = np.zeros(len(masses))
    for start in range(0, count // 2 + 1, _ANGLES):
        places = np.arange(start, min(start + _ANGLES, count // 2 + 1))
        turn = np.exp(2j * np.pi / count * places)[:, np.newaxis]
        # exp(rate z) - 1 over exp(rate) - 1, of z on the unit circle
        laws = (np.exp(rates * (turn - 1.0)) - np.exp(-rates)) / -np.expm1(-rates)
        sums = laws.prod(axis=1) * np.exp(-2j * np.pi / count * ((places * draws) % count))
        sums *= np.where((places == 0) | (2 * places == count), 1.0, 2.0)  # the other half are conjugates
        found += (sums[:, np.newaxis] * (rates * turn / -np.expm1(-rates * turn))).sum(axis=0).real
        if np.abs(sums).max() < _SMALL:
            break
    return found * (draws / math.fsum(found))


def _factor(masses: FloatArray, draws: int) -> float:
    """What masses are multiplied by for Poisson numbers that are not 0 to have means with about the sum T > u.

    With a rate r that mean is between r and 1 + r.
    """
    whole = math.fsum(masses)
    low, high = (draws - len(masses)) / whole, draws / whole
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        rates = masses * middle
        low, high = (middle, high) if float((-rates / np.expm1(-rates)).sum()) < draws else (low, middle)
    return high
