"""Tests that a batch release has one entry per run with independent noise, and repeats with the seed."""

from __future__ import annotations

import numpy as np
from scored import ReleasedAtOnce

from hockeystick.mechanisms import DiscreteLaplace


def test_runs_are_entries_of_one_release() -> None:
    target = ReleasedAtOnce(DiscreteLaplace(2.0))
    first, again = (target.simulate(np.array([5, 9]), np.random.default_rng(1), 1000) for _ in range(2))
    assert first.shape == (1000, 2) and np.array_equal(first, again)
    assert np.abs(first.mean(axis=0) - [5, 9]).max() < 6 * 3 / np.sqrt(1000)  # six deviations of at most 3
    assert len(np.unique(first, axis=0)) > 20
