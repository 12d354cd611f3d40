"""Tests of the Scheffé tournament: its power, one law of simulated and received bits, and what it refuses."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from samples import chi_square_of_counts
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.scheffe_selection import ScheffeSelection
from hockeystick.mechanisms import SimulationNoise

RUN = b"run 0001"


def easy(experts: int) -> LabelTable:
    return LabelTable(0.5 / experts + 0.5 * np.eye(experts))


def test_pairs_are_distinguished_by_one_bit_of_randomised_response() -> None:
    """False alarm below 1e-6: at 3e4 persons a pair is lost with probability below 1e-9, by Hoeffding's inequality."""
    rng, own = np.random.default_rng(7), ScheffeSelection(candidates=easy(4), epsilon=1.0, persons=30_000)
    assert 1.0 - 1e-8 < own.graph().guarantee().epsilon(1e-9).upper <= 1.0
    # Candidate 0 against 1: label 0 makes it likelier, which it has with probability 5/8; elsewhere 1/8, or never 0.
    np.testing.assert_allclose(own.chances(0), [0.625, 0.625, 0.625, 0.125, 0.125, 0.125])
    contrast = math.tanh(0.5)
    assert math.exp(-2 * 5000 * (0.25 * contrast) ** 2) < 1e-9
    for truth in range(4):
        assert (own.simulate(truth, rng, 20) == truth).all()
    few = ScheffeSelection(candidates=easy(4), epsilon=1.0, persons=60).simulate(0, rng, 200)
    assert 0.25 < (few == 0).mean() < 1.0


def test_invalid_baselines_are_refused() -> None:
    right: dict[str, Any] = {"candidates": easy(4), "epsilon": 1.0, "persons": 100}
    for change in ({"candidates": 3}, {"epsilon": 0.0}, {"epsilon": math.inf}, {"persons": 5}, {"persons": True}):
        with pytest.raises(InvalidArgumentError):
            ScheffeSelection(**(right | change))
    own = ScheffeSelection(**right)
    for truth in (4, -1, True, [0.5, 0.6, 0.0, 0.0]):
        with pytest.raises(InvalidArgumentError):
            own.simulate(truth, np.random.default_rng(0), 1)
    with pytest.raises(InvalidArgumentError):
        own.simulate(0, np.random.default_rng(0), 0)


@pytest.mark.statistical
def test_received_bits_and_simulated_ones_have_the_enumerated_law() -> None:
    """Three pairs of two, two and one person: an independent enumeration. False alarm 1e-6 for each chi-square test."""
    table = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
    own, rng = ScheffeSelection(candidates=LabelTable(table), epsilon=2.0, persons=5), np.random.default_rng(1)
    pairs, lie = [(0, 1), (0, 2), (1, 2)], 1 / (1 + math.exp(2.0))
    law = dict.fromkeys(range(3), 0.0)
    for ones in itertools.product(range(3), range(3), range(2)):
        mass, wins = 1.0, Counter({0: 0, 1: 0, 2: 0})
        for (a, b), one, size in zip(pairs, ones, (2, 2, 1), strict=True):
            of = [float(law_of[table[a] > table[b]].sum()) for law_of in table]
            mass *= float(stats.binom.pmf(one, size, lie + (1 - 2 * lie) * of[1]))
            seen = (one / size - lie) / (1 - 2 * lie)
            wins[a if abs(seen - of[a]) <= abs(seen - of[b]) else b] += 1
        law[max(wins, key=lambda k: (wins[k], -k))] += mass
    masses = [law[k] for k in range(3)]
    assert chi_square_of_counts(np.bincount(own.simulate(1, rng, 20_000), minlength=3), masses) > 1e-6

    def selected(seed: int, persons: list[int], labels: Any) -> int:
        server, noise = own.server(run=RUN), SimulationNoise(seed)
        for person in persons:
            server.receive(own.privatise(labels[person], person=person, run=RUN, noise=noise))
        return server.selected()

    found = [selected(s, rng.permutation(5).tolist(), rng.choice(3, 5, p=table[1])) for s in range(800)]
    assert chi_square_of_counts(np.bincount(found, minlength=3), masses) > 1e-6
    lost = [selected(s, list(range(5)), ["no label"] * 5) for s in range(200)]  # a planted violation
    assert chi_square_of_counts(np.bincount(lost, minlength=3), masses) < 1e-6


def test_pairs_without_a_bit_count_for_nobody() -> None:
    own = ScheffeSelection(candidates=easy(3), epsilon=8.0, persons=300)
    server, noise = own.server(run=RUN), SimulationNoise(1)
    for person in range(2, 300, 3):  # candidates 1 and 2
        server.receive(own.privatise(1, person=person, run=RUN, noise=noise))
    with pytest.raises(InvalidArgumentError):
        server.selected()
    assert server.selected(incomplete=True) == 1
    assert own.server(run=RUN).selected(incomplete=True) == 0
