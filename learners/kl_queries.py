"""The public coins of the divergence estimators: which symbols are asked for, and of whom.

Neither may depend on data. The estimator needs the symbols' weights alone, so each symbol is asked for once, however
often it was drawn.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import MOST, integer
from hockeystick.learners.count_logarithms import FloatArray
from hockeystick.learners.kl_sensitivity import reference
from hockeystick.mechanisms.arguments import generator

Numbers = npt.NDArray[np.int64]
CohortMode = Literal["fixed", "disjoint", "independent"]

_DENSE = 4  # symbols per draw up to which counts of all symbols are drawn at once


@frozen(eq=False)
class Queries:
    """Symbols drawn from the reference.

    Attributes:
        symbols: The different ones, ascending, shape (u,).
        counts: How often each was drawn, shape (u,); T in sum.
    """

    symbols: Numbers
    counts: Numbers

    @property
    def samples(self) -> int:
        """T."""
        return int(self.counts.sum())

    @property
    def shares(self) -> FloatArray:
        """The weights of the symbols, shape (u,)."""
        return np.asarray(self.counts / self.samples)

    def weights(self, symbols: int) -> FloatArray:
        """The weights of all symbols, shape (k,)."""
        found = np.zeros(symbols)
        found[self.symbols] = self.shares
        return found

    def in_rounds(self, rng: np.random.Generator) -> Numbers:
        """The symbols one by one in random order, with repetitions, shape (T,)."""
        return rng.permutation(np.repeat(self.symbols, self.counts))


def draw_queries(pi: npt.ArrayLike, samples: int, rng: np.random.Generator) -> Queries:
    """T symbols, independent draws of the reference, in time O(k + T).

    Raises:
        InvalidArgumentError: no reference (see ``kl_sensitivity.reference``), or no sample.
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
) -> list[Numbers]:
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
