"""The cases of learners for an unknown number of rounds: correct ones stand, and each mutant is refuted."""

from __future__ import annotations

import pytest

from hockeystick.audits.catalogue.lazy.restarts import restart_cases
from hockeystick.audits.catalogue.parts.cases import Case


@pytest.mark.deep  # test_every_case.py audits each of them too, with fewer samples
@pytest.mark.parametrize("case", list(restart_cases()), ids=lambda case: case.name)
def test_cases_are_refuted_if_they_are_broken(case: Case) -> None:
    """At a confidence of 1 - 1e-6; a mutant by 1.5 times the samples that refute it nine times of ten."""
    samples = case.samples * 3 // 2 if case.broken else case.samples
    assert case.audit(rng=3, samples=samples).refuted == case.broken
