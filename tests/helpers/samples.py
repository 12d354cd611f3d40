"""p-values of a sample against a discrete law; the power of a test of two binomial counts, by a sum over all of them.

A test that demands ``p > 1e-6`` has a false-alarm rate of 1e-6, as far as Pearson's statistic has a chi-square law
where every cell is met at least ten times on average. Rarer outcomes are counted together; if even all of them are
rarer than that, their number is judged by the binomial law's own tail, for what is all but impossible must not be met.

``deep_examples`` has few samples of Hypothesis in CI, which are the first of the many that the tier *deep* tries;
``diagonal`` has each of the values of two parameters there, and all their pairs in the tier *deep*.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from numpy.typing import ArrayLike, NDArray
from scipy import stats

LEAST = 10  # met on average, of a cell of its own


def chi_square_of_counts(counts: ArrayLike, masses: ArrayLike, *, least: float = LEAST) -> float:
    """Of how often each outcome was met, against a law of those outcomes."""
    seen, p = np.asarray(counts, dtype=float).ravel(), np.asarray(masses, dtype=float).ravel()
    assert seen.shape == p.shape and abs(p.sum() - 1) < 1e-6
    p = p / p.sum()
    common = p * seen.sum() >= least
    rare, chance = seen[~common].sum(), p[~common].sum()
    cells, weights = seen[common], p[common]
    if chance * seen.sum() >= least:
        return _pearson(np.append(cells, rare), np.append(weights, chance))
    if rare == chance == 0:
        return _pearson(cells, weights)
    tail = float(stats.binom.sf(rare - 1, seen.sum(), chance))
    return min(1.0, 2 * min(tail, _pearson(cells, weights)))


def chi_square(draws: ArrayLike, masses: NDArray[np.float64], *, first: int | None = None) -> float:
    """Of whole numbers, against a law on ``first``, ``first`` + 1, …, or else on −reach … reach."""
    start = -(len(masses) // 2) if first is None else first
    at = np.clip(np.asarray(draws).ravel() - start, 0, len(masses) - 1)  # what lies outside is at the rarest ends
    return chi_square_of_counts(np.bincount(at, minlength=len(masses)), masses)


def chi_square_of_outcomes(
    outcomes: Iterable[Hashable] | NDArray[Any], law: Mapping[Any, float], *, least: float = LEAST
) -> float:
    """Of outcomes of any kind, of an array's rows, or of counted ones, against a law that lists them with masses."""
    found = Counter(map(tuple, outcomes.tolist()) if isinstance(outcomes, np.ndarray) else outcomes)
    if not found.keys() <= law.keys():
        return 0.0
    return chi_square_of_counts([found[outcome] for outcome in law], list(law.values()), least=least)


def least_mean(values: NDArray[np.float64], *, false_alarm: float = 1e-6) -> float:
    """Returns a lower bound on the mean by Student's t, for nearly normal values such as means of runs."""
    spread = stats.t.isf(false_alarm, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - spread)


def _pearson(counts: NDArray[np.float64], masses: NDArray[np.float64]) -> float:
    if len(counts) < 2:
        return 1.0
    means = masses / masses.sum() * counts.sum()
    return float(stats.chi2.sf(((counts - means) ** 2 / means).sum(), len(counts) - 1))


def exact_power(refutes: Callable[[int, int], bool], n: int, p: float, q: float, *, least: float = 1e-7) -> float:
    """P(refutes(x, y)) of independent x ~ Bin(n, p) and y ~ Bin(n, q).

    The test must refute at larger x too, and at smaller y. Counts y of less mass than ``least`` are left out.
    """
    total, x, rise = 0.0, 0, n // 2
    for y in np.flatnonzero(stats.binom.pmf(np.arange(n + 1), n, q) > least).tolist():
        before, x = x, least_refuted(lambda x: refutes(x, y), n, x + rise)
        rise = x - before
        total += float(stats.binom.pmf(y, n, q) * stats.binom.sf(x - 1, n, p))
    return total


def least_refuted(refuted: Callable[[int], bool], n: int, guess: int) -> int:
    """The least x in 0..n that is refuted, found by steps that double from ``guess``; n + 1 if none is."""
    low, high, step, x = -1, n + 1, 1, min(max(guess, 0), n)
    while high - low > 1:
        low, high = (low, x) if refuted(x) else (x, high)
        x = max(high - step, 0) if low < 0 else min(low + step, n) if high > n else (low + high) // 2
        step *= 2
    return high


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
Test = Callable[..., None]


def deep_examples(few: int, many: int, *args: Any, **strategies: Any) -> Callable[[Test], Test]:
    """Returns ``@given`` with these strategies: a statistical test of ``few`` examples and a deep one of ``many``."""

    def decorate(check: Test) -> Test:
        @pytest.mark.hypothesis
        @pytest.mark.statistical
        @pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.deep)])
        def test(examples: int) -> None:
            settings(max_examples=examples, suppress_health_check=QUIET)(given(*args, **strategies)(check))()

        test.__doc__ = check.__doc__
        return test

    return decorate


def diagonal(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Parameters of a statistical test: the pairs of two lists, a tuple being several values.

    In CI are those on the diagonals, by which each value of either list is met; the others are for the tier deep.
    """
    few = min(len(first), len(second))

    def values(one: Any) -> tuple[Any, ...]:
        return one if isinstance(one, tuple) else (one,)

    return [
        pytest.param(*values(one), *values(two), marks=[pytest.mark.deep] if (i - j) % few else [])
        for i, one in enumerate(first)
        for j, two in enumerate(second)
    ]
