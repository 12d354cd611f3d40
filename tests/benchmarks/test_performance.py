"""Tests of the benchmark of online learners: every learner has a row, and results are kept."""

from __future__ import annotations

import hockeystick.learners
from benchmarks.learners.performance import TASKS, row
from hockeystick.learners.common.online_learner import OnlineLearner


def test_every_online_learner_has_a_row() -> None:
    public = (getattr(hockeystick.learners, name) for name in hockeystick.learners.__all__)
    wanted = {one.__name__ for one in public if isinstance(one, type) and issubclass(one, OnlineLearner)}
    measured = {name.partition(",")[0].partition(" ")[0] for name in TASKS}
    assert wanted <= measured


def test_rows_show_passes_and_milliseconds() -> None:
    found = {"rounds": 1000, "pass": 0.5, "run": 2.0, "regret": None, "memory": 90.4, "secure": 200, "release": 0.1}
    assert row("TreeExperts, leader", found) == ("TreeExperts, leader", "1,000", "0.500", "4.0", "", "90", "0.500")
