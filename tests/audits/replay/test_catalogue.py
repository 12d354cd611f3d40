"""Replays of the catalogue: no correct case is convicted, whatever a replay can follow of it."""

from __future__ import annotations

import pytest

from hockeystick.audits.catalogue.every_case import Case, select
from hockeystick.audits.replay.run import replay
from hockeystick.audits.replay.verdict import ReplayVerdict

SMALL = [case for case in select("zoo/*", "mechanism/*") if not case.broken]
LEARNERS = [case for case in select() if not case.broken and case not in SMALL]
CONVICTED = ("zoo/noisy-hist-2@0.1", "mechanism/laplace[clipping skipped]", "mechanism/clipped-sum[not clipped]")


def replayed(case: Case, paths: int) -> ReplayVerdict:
    claim = case.claim
    return replay(case.target, *case.neighbours, epsilon=claim.epsilon, delta=claim.delta, paths=paths, seed=1)


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
@pytest.mark.every(3)
def test_no_correct_mechanism_is_convicted(case: Case) -> None:
    assert not replayed(case, 2).violated


@pytest.mark.statistical
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.deep)])
def test_no_correct_learner_is_convicted(every: int) -> None:
    found = {case.name: replayed(case, 1) for case in LEARNERS[::every]}

    assert [str(one) for one in found.values() if one.violated] == []
    assert sum(one.agrees for one in found.values()) > 45 / every


@pytest.mark.parametrize("case", select(*CONVICTED), ids=lambda case: case.name)
def test_faults_of_the_catalogue_are_convicted(case: Case) -> None:
    assert replayed(case, 20).violated
