"""The public coins of the divergence estimators: the symbols that are asked for, and the cohorts that are asked.

Neither may depend on data. The estimator needs only the weights of the symbols, so each symbol is asked for once,
however often it was drawn. The number of draws of a symbol is random, so ``Queries.expected_shares`` are better
weights.
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
        symbols: The different symbols, ascending, shape (u,).
        counts: The number of draws of each, shape (u,), with sum T.
    """

    symbols: IntArray
    counts: IntArray

    @property
    def samples(self) -> int:
        """T."""
        return int(self.counts.sum())

    @property
    def shares(self) -> FloatArray:
        """The frequency of each symbol among the draws, shape (u,)."""
        return np.asarray(self.counts / self.samples)

    def weights(self, symbols: int) -> FloatArray:
        """Returns the weights of all symbols, shape (k,)."""
        found = np.zeros(symbols)
        found[self.symbols] = self.shares
        return found

    def expected_shares(self, pi: npt.ArrayLike) -> FloatArray:
        """Returns the expected weights of the drawn symbols, given which were drawn, shape (u,), with sum 1.

        As weights of an average they are unbiased like :attr:`shares` and never have a larger variance, because the
        number of draws of each symbol is pure noise (Rao 1945, Blackwell 1947).

        Args:
            pi: The reference that they were drawn from, shape (k,).

        Raises:
            InvalidArgumentError: ``pi`` is not a reference.
        """
        return _expected_counts(reference(pi)[self.symbols], self.samples) / self.samples

    def in_rounds(self, rng: np.random.Generator) -> IntArray:
        """Returns the symbols one by one in random order, with repetitions, shape (T,)."""
        return rng.permutation(np.repeat(self.symbols, self.counts))


def draw_queries(pi: npt.ArrayLike, samples: int, rng: np.random.Generator) -> Queries:
    """Returns T symbols, independent draws from the reference, in time O(k + T).

    Raises:
        InvalidArgumentError: ``pi`` is not a reference (see ``divergence.sensitivity.reference``), or ``samples`` < 1.
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
    """Returns the clients that are asked, round by round; a list of one if the cohort is fixed.

    Args:
        clients: n.
        size: The size of each cohort, at most n.
        rng: The source of the public coins.
        mode: "fixed": one uniform cohort for all rounds. "disjoint": cohorts of a random partition; rounds * size <= n.
            "independent": a fresh uniform cohort each round.
        rounds: The number of rounds; ignored for "fixed".

    Raises:
        InvalidArgumentError: an argument is outside its domain.
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
_SMALL = 1e-18  # of the first term: a sum over angles ends below it
_ANGLES = 16  # at a time


def _expected_counts(masses: FloatArray, draws: int) -> FloatArray:
    """The expectations of u multinomial counts with the sum T, given that none of them is 0, shape (u,).

    Under this condition the counts have the law of independent Poisson variables that are not 0, given their sum. The
    law does not change if all rates are multiplied by a factor; choose the one for which the means add up to T. The
    expectation of a count and the event that the sum is T is then, up to a constant, an integral over characteristic
    functions that decay quickly. A sum over angles is that integral up to the probability of sums that are sixteen
    deviations off.
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
    """The factor of the masses for which Poisson variables that are not 0 have means with (nearly) the sum T > u.

    With rate r this mean is between r and 1 + r.
    """
    whole = math.fsum(masses)
    low, high = (draws - len(masses)) / whole, draws / whole
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        rates = masses * middle
        low, high = (middle, high) if float((-rates / np.expm1(-rates)).sum()) < draws else (low, middle)
    return high
