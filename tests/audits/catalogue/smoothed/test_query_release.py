"""What private query release publishes: audits of releases, mutants that are refuted, and where outputs come from."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mutant_table import each_third

from hockeystick.audits.catalogue.every_case import catalogue
from hockeystick.audits.catalogue.smoothed.query_release import (
    Reading,
    measured,
    released_cases,
    table_scene,
    true_error,
)
from hockeystick.mechanisms.randomness.noise import SimulationNoise

CASES = {case.name.removeprefix("learner/"): case for case in released_cases()}
BROKEN = [name for name, case in CASES.items() if case.broken]
CORRECT = [name for name, case in CASES.items() if not case.broken]


def refuted(name: str, samples: int | None = None) -> bool:
    """Whether an audit at 1 - 1e-6 refutes a case; also checks that its lower bound is no larger than the truth."""
    case = CASES[name]
    found = case.audit(samples=samples, rng=1)
    if case.truth is not None:  # with probability 1 - 1e-6
        assert found.epsilon_lower <= case.truth * (1 + 1e-9)
    return bool(found.refuted)


def test_they_are_in_the_catalogue_and_claims_hold_exactly_where_they_should() -> None:
    assert {case.name for case in released_cases()} <= {case.name for case in catalogue()}
    assert len(CASES) == 13 and sum(CASES[name].samples <= 200 for name in BROKEN) == 5
    for name, case in CASES.items():
        assert case.broken or "[" not in name
        assert (case.truth is not None) == bool(case.oracle)
        if case.truth is not None:
            right = case.truth > case.claim.epsilon * 1.05 if case.broken else case.truth <= case.claim.epsilon
            assert right, (name, case.truth, case.claim.epsilon)


@pytest.mark.statistical
@pytest.mark.parametrize("name", each_third(BROKEN))
def test_leaks_and_larger_budgets_are_refuted(name: str) -> None:
    """At the stated sample sizes, with probability at least 0.9 each."""
    assert refuted(name)


@pytest.mark.statistical
@pytest.mark.parametrize("name", each_third(CORRECT))
def test_releases_are_not_refuted(name: str) -> None:
    """False alarm 1e-6 each; as many samples refute every mutant that leaks."""
    assert not refuted(name, 200)


def test_the_measured_error_depends_on_the_transcript_alone_and_the_true_one_on_the_records() -> None:
    """Both tables, the same transcript: one value, and two."""
    of, pair = table_scene()
    found = of.release(pair[0], noise=SimulationNoise(1))
    assert found.measured().cover == found.measured().cover
    errors = [found.private_report(table).cover for table in pair]
    assert errors[0] != errors[1] and max(errors) <= found.measured().cover
    for read in (measured, true_error):
        runs = Reading(of, read)(pair[1], np.random.default_rng(2), 5)
        assert runs.shape == (5, 1) and (runs > 0.0).all() and math.isfinite(runs.sum())
