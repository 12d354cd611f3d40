"""Tests of the server's view of secure sums: claims that hold are consistent, and each mutant is refuted.

A case fails by chance with probability at most 1e-6 if it is correct, and at most 0.1 per seed, which is fixed, if it
is a mutant.
"""

from __future__ import annotations

import pytest

pytest.importorskip("cryptography", reason="needs the extra secure-sum")

from hockeystick.audits.catalogue.mechanisms.secure_sums import secure_sum_cases
from hockeystick.audits.catalogue.parts.cases import Case

CASES = {case.name: case for case in secure_sum_cases()}


def test_each_view_has_a_mutant_beside_it() -> None:
    correct = {name for name, case in CASES.items() if not case.broken}
    assert len(correct) == 4 and {name.split("[")[0] for name, case in CASES.items() if case.broken} == correct


# Those that are for the tier deep are audited in test_every_case.py too, the correct ones with fewer samples.
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.statistical if case.samples > 8_000 and case.broken else pytest.mark.deep)
        for case in CASES.values()
    ],
    ids=CASES,
)
def test_only_mutants_are_refuted(case: Case) -> None:
    verdict = case.audit(rng=1, confidence=1 - 1e-6)
    assert verdict.outcome == ("refuted" if case.broken else "consistent")
