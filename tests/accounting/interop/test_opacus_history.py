"""Tests of reading the history of an Opacus accountant."""

import math
from collections import OrderedDict
from types import SimpleNamespace

import pytest

from hockeystick.accounting import (
    NO_EVENT,
    Gaussian,
    InvalidArgumentError,
    NonPrivate,
    PoissonSampled,
    compose,
    epsilon,
    from_opacus,
)

HISTORY = [(1.5, 0.04, 2250), (1.0, 1.0, 3), (1.5, 0.04, 50)]


def test_rows_are_sampled_steps_and_equal_rows_are_one():
    expected = compose((PoissonSampled(0.04, Gaussian(1.5)), 2300), (Gaussian(1.0), 3))
    assert from_opacus(HISTORY) == expected
    assert from_opacus(OrderedDict(history=HISTORY, mechanism="prv")) == expected
    assert from_opacus(SimpleNamespace(history=HISTORY)) == expected
    assert from_opacus([]) == NO_EVENT == from_opacus([(1.0, 0.1, 0), (1.0, 0.0, 5), (0.0, 0.0, 1)])


def test_epsilon_lies_between_opacus_own_numbers():
    """Opacus 1.6's tests: RDP 7.32911117143 for 2250 steps, PRV 6.7774 (an upper bound) and GDP below 6.60 for 2249."""
    assert epsilon(from_opacus([(1.5, 0.04, 2250)]), 1e-5).upper < 7.32911117143
    assert 6.60 < epsilon(from_opacus([(1.5, 0.04, 2249)]), 1e-5).upper < 6.777395712150674


def test_a_step_without_noise_is_not_private():
    assert from_opacus([(0.0, 0.1, 2)]) == compose((NonPrivate(), 2))
    assert epsilon(from_opacus([(1.0, 0.1, 5), (0.0, 0.1, 1)]), 0.5).upper == math.inf


@pytest.mark.parametrize(
    "history",
    [None, 3, "history", {"mechanism": "rdp"}, [(1.0, 0.1)], ["abc"], [(1.0, 0.1, -1)], [(1.0, 0.1, 1.5)],
     [(-1.0, 0.1, 1)], [(math.nan, 0.1, 1)], [(1.0, 1.1, 1)], [(1.0, True, 1)]],
)  # fmt: skip
def test_invalid_histories_are_refused(history):
    with pytest.raises(InvalidArgumentError, match="history"):
        from_opacus(history)
