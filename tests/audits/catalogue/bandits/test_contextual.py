"""Tests of the contextual bandit's cases: the correct learner is not refuted, and every mutant is.

Audits are at confidence 1 - 1e-6: the correct learner is refuted with at most that probability. Mutants were refuted in
10 of 10 audits of the stated size.
"""

from __future__ import annotations

import numpy as np
import pytest

from hockeystick.audits.catalogue.bandits.contextual import TwoTriangles, contextual_cases

CASES = {case.name.removeprefix("learner/"): case for case in contextual_cases()}


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_mutants_alone_are_refuted(name: str) -> None:
    case = CASES[name]
    assert case.audit(rng=3).refuted == case.broken == ("[" in name)


def test_mutants_move_further_than_the_claim_covers() -> None:
    """By √2 or more in noise: the spread of the log-likelihood ratio, against that of the correct learner."""

    def spread(name: str) -> float:
        case = CASES[name]
        return float(case.target(case.neighbours[0], np.random.default_rng(1), 2000).std())

    honest = spread("private-linucb")
    for name, case in CASES.items():
        assert spread(name) / honest == pytest.approx(1.414 if case.broken else 1.0, rel=0.06), name
    assert isinstance(CASES["private-linucb[two independent triangles]"].target.learner, TwoTriangles)
