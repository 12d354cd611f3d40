"""Tests of DP-SGD with hidden states: the numbers that enter its event, and what it refuses."""

import math
from fractions import Fraction
from typing import Any

import pytest
from scipy import stats

from hockeystick.accounting import (
    DPSGD,
    Adjacency,
    Gaussian,
    InvalidArgumentError,
    LastIterateOfDPSGD,
    PoissonSampled,
    last_iterate,
)

FULL = DPSGD(records=100, batch=100, epochs=50, clip=2.0, sampling="full")
SAMPLED = DPSGD(records=1000, batch=100, epochs=20, clip=2.0)
TERMS: dict[str, Any] = {"learning_rate": 0.5, "smoothness": 1.0, "regulariser": 0.4}


def event_of(last, noise) -> Any:
    (move,) = last.guarantee(noise).moves
    return move.event()


def test_full_batches_pay_for_the_last_model_alone():
    last = LastIterateOfDPSGD(FULL, **TERMS)
    assert last.contraction.factor == 0.8
    assert event_of(last, 3.0) == last_iterate(Gaussian(3.0), 50, contraction=0.8)
    assert last.epsilon(3.0, 1e-5).upper < FULL.epsilon(3.0, 1e-5).upper


def test_the_diameter_is_in_moves_of_one_record():
    last = LastIterateOfDPSGD(FULL, learning_rate=0.5, smoothness=1.0, diameter=0.1)
    assert event_of(last, 3.0) == last_iterate(Gaussian(3.0), 50, contraction=1.0, diameter=last._moves) and Fraction(
        last._moves
    ) >= Fraction(0.1) * 100 / (Fraction(0.5) * 2)
    replaced = DPSGD(records=100, batch=100, epochs=50, clip=2.0, sampling="full", adjacency=Adjacency.REPLACE_ONE)
    found = (
        LastIterateOfDPSGD(replaced, learning_rate=0.5, smoothness=1.0, diameter=0.1).guarantee(3.0).moves[0].event()
    )
    assert found == last_iterate(Gaussian(1.5), 50, contraction=1.0, diameter=last._moves / 2)


def test_poisson_samples_need_a_step_that_suits_all_records_or_pay_for_large_batches():
    everybody = LastIterateOfDPSGD(SAMPLED, learning_rate=0.5, smoothness=1.0, regulariser=0.4)
    assert everybody.contraction.factor == pytest.approx(0.5 * 10.4 - 1)  # ten times the normaliser: it expands
    capped = LastIterateOfDPSGD(SAMPLED, **TERMS, largest_batch=170)
    exact = 200 * stats.binom.sf(170, 1000, 0.1)
    assert exact <= capped.failure <= exact * (1 + 1e-5) and capped.contraction.factor == 0.8
    assert event_of(capped, 2.0).failure_delta() == capped.failure
    sampled: Any = last_iterate(PoissonSampled(0.1, Gaussian(2.0)), 200, contraction=0.8)
    parts = {type(part) for part, _ in event_of(capped, 2.0).parts}
    assert parts >= {type(p) for p, _ in sampled.parts}
    assert any("only the last one is seen" in words for words in capped.guarantee(2.0).assumptions)


def test_calibrated_noise_keeps_the_target():
    last = LastIterateOfDPSGD(FULL, **TERMS)
    noise = last.calibrated(1.0, 1e-5).value
    assert last.epsilon(noise, 1e-5).upper <= 1.0 < last.epsilon(noise * 0.99, 1e-5).upper
    assert noise < FULL.calibrated(1.0, 1e-5).value / 2


@pytest.mark.parametrize("wrong", [{"learning_rate": 0.0}, {"smoothness": -1.0}, {"diameter": math.inf},
                                   {"largest_batch": 50}])  # fmt: skip
def test_bad_terms_are_refused(wrong):
    with pytest.raises(InvalidArgumentError):
        LastIterateOfDPSGD(FULL, **(TERMS | wrong))


def test_other_trainings_are_refused():
    shuffled = DPSGD(records=100, batch=10, epochs=5, clip=1.0, sampling="shuffle")
    banded = DPSGD(records=100, batch=10, epochs=5, clip=1.0, strategy="banded:2")
    for run in (shuffled, banded):
        with pytest.raises(InvalidArgumentError, match="last iterate"):
            LastIterateOfDPSGD(run, **TERMS)
    with pytest.raises(InvalidArgumentError, match="clip"):
        LastIterateOfDPSGD(DPSGD(records=100, batch=10, epochs=5), **TERMS, diameter=1.0)
