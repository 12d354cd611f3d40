"""Outputs that are all one value are noticed by each audit, and one other output is enough for there to be two."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from hockeystick.audits import Claim, Verdict, audit
from hockeystick.audits.outputs.one_value import OneValue
from hockeystick.audits.outputs.reading import Codebook, read
from hockeystick.audits.verdicts.verdict import CONSTANT


def verdict_on(target: Any, **more: Any) -> Verdict:
    return audit(target, **{"claim": Claim(1.0), "neighbours": (0.0, 1.0), "samples": 400, "rng": 1, **more})


@pytest.mark.parametrize("output", [None, 0.0, math.nan, "yes", (1, None), np.zeros(3), {"a": 1.5}])
def test_one_value_is_a_warning_and_a_field(output: Any) -> None:
    verdict = verdict_on(lambda data, rng: output)
    assert verdict.constant and verdict.warnings == (CONSTANT,) and not verdict.refuted
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_a_batch_of_one_value_is_noticed() -> None:
    assert verdict_on(lambda data, rng, runs: np.ones((runs, 2))).constant


@pytest.mark.parametrize("at", [0, 5, 799])
def test_one_other_output_is_enough_wherever_it_is(at: int) -> None:
    numbers = itertools.count()
    verdict = verdict_on(lambda data, rng: 1.0 if next(numbers) == at else None)
    assert not verdict.constant and CONSTANT not in verdict.warnings


def test_different_values_on_the_data_sets_and_random_ones_are_not_one_value() -> None:
    assert not verdict_on(lambda data, rng: data).constant
    assert not verdict_on(lambda data, rng: rng.random() < 0.5).constant


def test_a_statistic_that_never_happens_is_no_sign_of_a_missing_return() -> None:
    verdict = verdict_on(lambda data, rng: data + rng.laplace(), statistic=lambda output: output > 1e9)
    assert not verdict.constant and CONSTANT not in verdict.warnings


def test_of_several_pairs_all_must_have_the_one_value() -> None:
    pairs = [(0.0, 0.0), (0.0, 1.0)]
    assert verdict_on(lambda data, rng: None, neighbours=pairs, samples=4000).constant
    only_one = verdict_on(
        lambda data, rng: rng.random() * (data == 2), neighbours=[(2.0, 2.0), (0.0, 1.0)], samples=4000
    )
    assert not only_one.constant and CONSTANT not in only_one.warnings


def test_a_file_of_an_earlier_version_has_no_constant() -> None:
    plain = verdict_on(lambda data, rng: None).to_dict()
    del plain["constant"]
    assert not Verdict.from_dict(plain).constant


def test_zeros_of_two_signs_are_two_values() -> None:
    book = Codebook()
    zeros, other = (read(np.array(values), 2, book, vectorised=True) for values in ([0.0, 0.0], [0.0, -0.0]))
    value = OneValue.of((zeros, zeros))
    assert value is not None and OneValue.of((zeros, other)) is None
    assert value.count(other, {}).tolist() == [1, 1]
