"""Tests of subset selection: the law of its reports, by enumeration of all draws and simulated, and its variance."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.mechanisms import HadamardResponse, RandomizedResponse, SubsetSelection, UnaryEncoding
from hockeystick.mechanisms.local.randomized_response import lie_probability


class Given:
    """A source that draws what it is told, and tells the probability of that."""

    simulated = True

    def __init__(self, wanted: list[int]) -> None:
        self.wanted, self.probability = list(wanted), Fraction(1)

    def uniform(self, below: int, count: int) -> np.ndarray:
        if not count:
            return np.zeros(0, dtype=np.int64)
        value = self.wanted.pop(0)
        self.probability *= Fraction(int(value < below), below)
        return np.array([value if value < below else 0])

    def coins(self, probability: Fraction, count: int) -> np.ndarray:
        value = self.wanted.pop(0)
        self.probability *= probability if value else 1 - probability if value == 0 else 0
        return np.array([value == 1])


def exact_law(mechanism: SubsetSelection, truth: int) -> dict[tuple[int, ...], Fraction]:
    """The law of a released report, by enumeration of all that a source may draw."""
    found: dict[tuple[int, ...], Fraction] = {}
    k, d = mechanism.categories, mechanism.size
    for lie in (0, 1):
        for drawn in itertools.product(range(k), repeat=d - 1 + lie):
            source = Given([*drawn[: d - 1], lie, *drawn[d - 1 :]])
            report = mechanism._draw(np.array(truth), source)  # type: ignore[arg-type]
            if source.probability:
                chosen = tuple(np.flatnonzero(report).tolist())
                found[chosen] = found.get(chosen, Fraction(0)) + source.probability
    return found


@pytest.mark.parametrize(("k", "d"), [(4, 2), (4, 3), (3, 1), (5, 2), (2, 1)])
def test_a_report_is_uniform_among_sets_with_the_truth_and_among_those_without(k: int, d: int) -> None:
    mechanism = SubsetSelection(1.0, categories=k, size=d)
    lie = lie_probability(1.0, k, d)
    for truth in {0, 1, k - 1}:
        law = exact_law(mechanism, truth)
        with_truth = [law[one] for one in itertools.combinations(range(k), d) if truth in one]
        others = [law[one] for one in itertools.combinations(range(k), d) if truth not in one]
        assert sum(law.values()) == 1 and set(with_truth) == {(1 - lie) / len(with_truth)}
        assert set(others) == {lie / len(others)}
        assert with_truth[0] <= Fraction(math.exp(1.0)) * (1 + Fraction(1, 2**50)) * others[0]  # a float's e
        assert with_truth[0] / others[0] == pytest.approx(math.exp(1.0), rel=1e-14)


@pytest.mark.statistical
def test_simulated_and_released_reports_follow_the_law() -> None:
    """Chi-squared tests at 1e-6 each; the planted law, with the odds of another ε, is refuted."""
    mechanism = SubsetSelection(1.0, categories=4, size=2)
    subsets: list[tuple[int, ...]] = list(itertools.combinations(range(4), 2))
    number = {one: i for i, one in enumerate(subsets)}
    exact = np.array([float(exact_law(mechanism, 3)[one]) for one in subsets])
    persons = np.full(20_000, 3)
    for reports in (mechanism.simulate(3, np.random.default_rng(5), 20_000), mechanism.release(persons)):
        seen = np.bincount([number[tuple(np.flatnonzero(one))] for one in reports], minlength=6)
        assert stats.chisquare(seen, 20_000 * exact).pvalue > 1e-6
        planted = np.array([float(exact_law(SubsetSelection(1.3, categories=4, size=2), 3)[one]) for one in subsets])
        assert stats.chisquare(seen, 20_000 * planted).pvalue < 1e-6


def test_frequencies_are_unbiased_and_have_the_stated_variance() -> None:
    mechanism = SubsetSelection(1.0, categories=5, size=2)
    law = exact_law(mechanism, 1)
    reports = np.zeros((len(law), 5), dtype=bool)
    for i, one in enumerate(law):
        reports[i, list(one)] = True
    weights = np.array([float(each) for each in law.values()])
    each = np.stack([mechanism.frequencies(report[None]) for report in reports])
    mean = weights @ each
    np.testing.assert_allclose(mean, [0, 1, 0, 0, 0], atol=1e-12)
    spread = weights @ (each - mean) ** 2
    np.testing.assert_allclose(spread[1], mechanism.variance(respondents=1, frequency=1.0), rtol=1e-12)
    np.testing.assert_allclose(spread[0], mechanism.variance(respondents=1), rtol=1e-12)
    np.testing.assert_allclose(each.sum(axis=1), 1.0)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("k", [2, 3, 10, 64, 256])
def test_no_other_report_has_a_smaller_total_variance(epsilon: float, k: int) -> None:
    """The sum over all categories' counts, of which one holds the record."""

    def total(one: Any) -> float:
        return float(one.variance(respondents=1, frequency=1.0) + (k - 1) * one.variance(respondents=1))

    best = SubsetSelection(epsilon, categories=k)
    least = min(total(SubsetSelection(epsilon, categories=k, size=d)) for d in range(1, k))
    assert total(best) == pytest.approx(least, rel=1e-12)
    p, q = 1 - RandomizedResponse(epsilon, categories=k).lie_probability(), 0.0
    q = (1 - p) / (k - 1)
    assert total(best) <= (p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2 * (1 + 1e-9)
    for other in (UnaryEncoding.optimised(epsilon, categories=k), UnaryEncoding.symmetric(epsilon, categories=k)):
        assert total(best) <= total(other) * (1 + 1e-9)
    code = HadamardResponse(epsilon, categories=k)
    beside = len(range(0, k, code.blocks)) - 1  # categories in the block of the true one, number 0
    spread = code.variance(respondents=1, frequency=1.0) + beside * code.variance(respondents=1)
    spread += (k - 1 - beside) * code.variance(respondents=1, block_frequency=0.0)
    assert total(best) <= spread * (1 + 1e-9)


def test_bad_arguments_and_reports_are_refused() -> None:
    for bad in ({"size": 4}, {"size": 0}, {"categories": 1}, {"size": True}):
        with pytest.raises(InvalidArgumentError):
            SubsetSelection(1.0, **{"categories": 4} | bad)
    mechanism = SubsetSelection(1.0, categories=4, size=2)
    for reports in ([[1, 1, 1, 0]], [[1, 0, 0]], [1, 1, 0, 0], []):
        with pytest.raises(InvalidArgumentError):
            mechanism.frequencies(reports)
    with pytest.raises(InvalidArgumentError, match="pure noise"):
        SubsetSelection(0.0, categories=4).frequencies([[1, 1, 0, 0]])
