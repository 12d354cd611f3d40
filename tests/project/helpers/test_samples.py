"""Tests of the law of the p-values for a known truth, and of their power."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import samples
from hypothesis import strategies as st
from laws import discrete_gaussian, discrete_laplace
from samples import chi_square, chi_square_of_counts, chi_square_of_outcomes, exact_power, least_mean, least_refuted
from scipy import stats

FALSE_ALARM = 1e-6
LAWS = {
    "a few alike": np.full(6, 1 / 6),
    "tails": discrete_laplace(2.0, 80),
    "rare together": np.array([0.6, 0.3993, *[1e-5] * 70]),  # 0.7 of a thousand: judged by the binomial tail
    "two": np.array([0.3, 0.7]),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_p_values_of_the_law_itself_are_rarely_small(law: np.ndarray) -> None:
    """At most as many below each level as the level says: six standard deviations, that is a false alarm of 1e-9."""
    counts = np.random.default_rng(1).multinomial(1000, law / law.sum(), size=3000)
    found = np.array([chi_square_of_counts(row, law) for row in counts])
    for level in (0.3, 0.1, 0.01):
        assert (found <= level).mean() <= 1.25 * level + 6 * np.sqrt(level / len(found))


def test_a_cell_of_every_common_outcome_gives_pearsons_statistic() -> None:
    counts, law = np.array([310, 190, 500]), np.array([0.3, 0.2, 0.5])
    assert chi_square_of_counts(counts, law) == pytest.approx(stats.chisquare(counts, 1000 * law).pvalue)
    # Five rare outcomes, of 12 on average, are one more cell.
    rare = np.array([0.3, 0.2, 0.488, *[0.0024] * 5])
    seen = np.array([305, 190, 493, 3, 2, 4, 1, 2])
    pooled = stats.chisquare([305, 190, 493, 12], [300, 200, 488, 12]).pvalue
    assert chi_square_of_counts(seen, rare) == pytest.approx(pooled)


def test_impossible_outcomes_are_detected() -> None:
    assert chi_square_of_counts([500, 499, 1], [0.5, 0.5, 0.0]) == 0.0
    assert chi_square_of_counts([500, 499, 1], [0.5, 0.5 - 1e-9, 1e-9]) == pytest.approx(2e-6, rel=1e-2)
    assert chi_square_of_counts([500, 498, 2], [0.5, 0.5 - 1e-9, 1e-9]) < FALSE_ALARM
    assert chi_square_of_outcomes(["a"] * 500 + ["c"], {"a": 1.0}) == 0.0
    assert chi_square_of_counts([999, 0], [1.0, 0.0]) == 1.0


@pytest.mark.parametrize(
    "wrong",
    [lambda k: k + 1, lambda k: np.where(k == 0, 1, k), lambda k: np.where(np.arange(len(k)) < 40, 60, k)],
    ids=["moved", "an outcome missing", "forty far away"],
)
def test_planted_mistakes_are_detected(wrong: Callable[[np.ndarray], np.ndarray]) -> None:
    law, k = discrete_gaussian(3.0, 40), np.arange(-40, 41)
    draws = np.random.default_rng(2).choice(k, 50_000, p=law / law.sum())
    assert chi_square(draws, law) > FALSE_ALARM > chi_square(wrong(draws), law)
    assert chi_square(draws + 47, law, first=7) == chi_square(draws, law)
    masses = dict(zip(zip(k.tolist(), strict=True), law, strict=True))
    assert chi_square_of_outcomes(draws[:, None], masses) == pytest.approx(chi_square(draws, law))


def test_masses_that_are_not_a_law_are_refused() -> None:
    with pytest.raises(AssertionError):
        chi_square_of_counts([5, 5], [0.5, 0.4])


def test_the_least_mean_is_rarely_above_the_mean() -> None:
    draws = np.random.default_rng(3).normal(5.0, 2.0, size=(4000, 30))
    found = np.array([least_mean(row, false_alarm=0.1) for row in draws])
    assert abs((found > 5.0).mean() - 0.1) < 6 * np.sqrt(0.09 / 4000)
    test = stats.ttest_1samp(draws[0], least_mean(draws[0]), alternative="greater")
    assert test.pvalue == pytest.approx(1e-6)


@pytest.mark.parametrize("slope", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("excess", [-50.0, 0.0, 4.5, 100.0])  # always, sometimes and never refuted
def test_the_power_is_the_sum_over_all_counts(slope: float, excess: float) -> None:
    n, p, q = 40, 0.4, 0.2
    x, y = np.arange(n + 1)[:, None], np.arange(n + 1)[None, :]
    weights = stats.binom.pmf(x, n, p) * stats.binom.pmf(y, n, q)
    found = exact_power(lambda x, y: x > slope * y + excess, n, p, q)
    assert found == pytest.approx(weights[x > slope * y + excess].sum(), abs=1e-5)


@pytest.mark.parametrize("guess", [-3, 0, 5, 9, 10, 99])
@pytest.mark.parametrize("start", range(12))
def test_the_least_is_found_from_any_guess(start: int, guess: int) -> None:
    asked: list[int] = []

    def refuted(x: int) -> bool:
        asked.append(x)
        return x >= start

    assert least_refuted(refuted, 10, guess) == start  # 11: nowhere
    assert min(asked) >= 0 and max(asked) <= 10 and len(asked) <= 9


seen: list[int] = []


@samples.deep_examples(5, 20, st.integers(0, 2**40))
def check(number: int) -> None:
    seen.append(number)


def test_the_few_examples_are_the_first_of_the_many() -> None:
    check(examples=5)
    check(examples=20)
    assert len(seen) == 25 and seen[:5] == seen[5:10]


def test_each_value_of_either_list_is_on_a_diagonal() -> None:
    for first, second in (([(1, "a"), (2, "b")], [3, 4, 5, 6, 7]), ([1, 2, 3], ["a", "b", "c"]), ([1], [2, 3])):
        pairs = samples.diagonal(first, second)
        kept = [pair.values for pair in pairs if not pair.marks]
        assert len(pairs) == len(first) * len(second) and len(kept) == max(len(first), len(second))
        assert {pair.values[:-1] for pair in pairs} == {values[:-1] for values in kept}
        assert {values[-1] for values in kept} == set(second)
        assert all(mark.name == "deep" for pair in pairs for mark in pair.marks)
