"""Tests of the bandits' cases: correct learners are not refuted, every mutant is, and truths are those of the ratios.

Audits are at confidence 1 - 1e-6: a correct learner is refuted with at most that probability.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from hockeystick.audits.catalogue.bandits.cases import bandit_cases

CASES = {case.name.removeprefix("learner/"): case for case in bandit_cases()}


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.broken])
def test_correct_bandits_are_not_refuted(name: str) -> None:
    verdict = CASES[name].audit(samples=4_000, rng=7)
    assert verdict.outcome != "refuted" and verdict.epsilon_lower <= 1.0


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.broken])
def test_mutants_are_refuted(name: str) -> None:
    assert CASES[name].audit(rng=3).refuted


@pytest.mark.parametrize("name", CASES)
def test_the_largest_ratio_of_many_runs_is_the_truth(name: str) -> None:
    """The truths were enumerated; ratios reach them with noise that is far off to one side."""
    case = CASES[name]
    assert case.claim.epsilon == pytest.approx(1.0) and case.broken == (case.truth > 1.0)  # type: ignore[operator]
    largest = max(
        float(np.abs(case.target(losses, np.random.default_rng(1), 2_000)).max()) for losses in case.neighbours
    )
    assert largest == (100.0 if math.isinf(case.truth or 0.0) else pytest.approx(case.truth, abs=1e-9))
    assert name.split("[")[0] in CASES and case.broken == ("[" in name)
