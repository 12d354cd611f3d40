"""Tests of audits of private messages about labels: correct cases are not refuted, and attacks find the expected
bounds.

Audits are at confidence 1 - 1e-6 each or higher, with fixed seeds that were not tuned. The twin of every correct case
is a mutant that claims the same; each is refuted in ``test_mutants.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from mutant_table import each_third

from hockeystick.audits import audit
from hockeystick.audits.bounds.two_counts import clopper_pearson, frontier
from hockeystick.audits.catalogue.distribution.cases import (
    calibrated,
    distribution_cases,
    learning,
    published,
    rare_levels,
    sampled,
    with_range,
)
from hockeystick.audits.catalogue.distribution.views import Published, Ratio, Told, WeightMove, extremes, number
from hockeystick.audits.catalogue.parts.cases import STATED_CONFIDENCE
from hockeystick.learners.distribution.channels.all_channels import (
    Channel,
    OneBit,
    SampledDiscreteLaplace,
    SampledLaplace,
)
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import CeiledBlocks, Envelope, Reference, UniformMixture
from hockeystick.learners.distribution.channels.printed import printed_sensitivity
from hockeystick.learners.distribution.server import DistributionServer

CASES = {case.name.removeprefix("learner/labels-"): case for case in distribution_cases()}
CORRECT = [name for name, case in CASES.items() if not case.broken]
BROKEN = [name for name, case in CASES.items() if case.broken]


def verdict(name: str, samples: int) -> Any:
    """The verdict on a case; also checks that its lower bound is no larger than the truth, where that is known."""
    case = CASES[name]
    found = case.audit(samples=samples, rng=1)
    if case.truth is not None:  # with the same confidence
        assert found.epsilon_lower <= case.truth * (1 + 1e-9)
    return found


# --- cases -----------------------------------------------------------------------------------------------------------


def test_names_are_unique_and_mutants_stand_beside_what_they_mutate() -> None:
    assert len(CASES) == len(list(distribution_cases())) == 50
    for name in BROKEN:
        assert CASES[name.split("[")[0]].broken is False, name
    for name in CORRECT:
        assert any(other.startswith(f"{name}[") for other in BROKEN), f"{name} has no twin"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.every(3)
def test_claims_hold_exactly_where_they_should(name: str) -> None:
    case = CASES[name]
    claimed = case.claim.epsilon
    truth = (math.inf if case.broken else 0.0) if case.truth is None else case.truth
    assert truth > claimed * 1.05 if case.broken else truth <= claimed * (1 + 1e-9)


def test_most_truths_are_known() -> None:
    """The others are differences of two messages, shown numbers of a part, and exchanged vectors."""
    unknown = {name for name, case in CASES.items() if case.truth is None}
    assert unknown == {name for name, case in CASES.items() if not case.oracle}
    assert len(unknown) == 6


@pytest.mark.parametrize("name", CORRECT)
@pytest.mark.every(3)
def test_correct_cases_are_not_refuted(name: str) -> None:
    """False alarm 1e-6 each; the twins are the mutants."""
    assert not verdict(name, 8_000).refuted


@pytest.mark.statistical
@pytest.mark.parametrize("name", each_third(CORRECT))
def test_correct_cases_are_not_refuted_with_many_samples(name: str) -> None:
    """False alarm 1e-6 each; two thirds are deep. The twins are the mutants, refuted by fewer samples."""
    assert not verdict(name, 100_000).refuted


# --- views ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channel", [SampledLaplace, OneBit])
def test_views_are_those_of_the_server(channel: type[Channel]) -> None:
    """Moves of log-weights and published predictions are those of a server that takes the messages in."""
    learner = learning(channel)
    messages = learner.channels[0].simulate(np.array([0, 1] * 20), np.random.default_rng(2))
    moves, predicted = WeightMove(learner).moves(messages), Published(learner)(messages)
    for place in range(40):
        server = DistributionServer(learner)
        before = np.log(server.weights())
        server.update(messages.one(place), round=0)
        moved = np.log(server.weights()) - before
        assert moved - moved[0] == pytest.approx(moves[place] - moves[place, 0], abs=1e-12)
        assert server.predict()[0] == pytest.approx(predicted[place], abs=1e-12)


def test_answers_are_added_up() -> None:
    channel = OneBit(sampled().levels, epsilon=1.0)
    pair = extremes(channel.levels)
    told = Told(channel=channel, read=Ratio(channel, pair), index=0, answers=3)
    found = told(pair[0], np.random.default_rng(3), 500)
    assert sorted(set(np.round(found, 6))) == pytest.approx([-3.0, -1.0, 1.0, 3.0], abs=1e-6)


def test_ratios_of_laplace_messages_have_clean_atoms() -> None:
    """Two thirds of the ratios are +-epsilon, each one number: dust at an atom would look like a violation."""
    channel = evolve(sampled(), resample=False)
    told = Told(channel=channel, read=Ratio(channel, extremes(channel.levels)), index=0)
    found = told(0, np.random.default_rng(4), 10_000)
    atoms, counts = np.unique(found, return_counts=True)
    assert set(np.round(atoms[counts > 10], 6)) == {-1.0, 1.0}
    assert counts[counts > 10].sum() > 6_000


# --- exactness without sampling --------------------------------------------------------------------------------------


def point_masses() -> LabelTable:
    return LabelTable(np.eye(3))


def identical() -> LabelTable:
    return LabelTable(np.full((3, 5), 0.2))


def impossible_labels() -> LabelTable:
    return LabelTable(np.array([[0.6, 0.4, 0.0, 0.0], [0.0, 0.3, 0.7, 0.0]]))


def random_table() -> LabelTable:
    return LabelTable(np.random.default_rng(5).dirichlet(np.full(6, 0.2), size=3))


@pytest.mark.parametrize("table", [point_masses, identical, impossible_labels, random_table])
@pytest.mark.parametrize("reference", [CeiledBlocks(), Envelope(), UniformMixture()])
@pytest.mark.parametrize("resample", [False, True])
@pytest.mark.every(5)
def test_exact_losses_are_within_claims_and_grow_with_them(table: Any, reference: Reference, resample: bool) -> None:
    for make in (SampledLaplace, SampledDiscreteLaplace, OneBit):
        found = []
        for epsilon in (0.25, 1.0, 3.0):
            levels = reference.levels(table(), 20)
            channel = make(levels, epsilon=epsilon, resample=resample)
            found.append(channel.exact_epsilon())
            claimed = channel.graph(users=7).guarantee().epsilon(0.0).upper
            assert found[-1] <= claimed * (1 + 1e-9) <= epsilon * (1 + 2e-9)
        assert found == sorted(found)


# --- expected bounds of an attack -------------------------------------------------------------------------------------

EXPECTED = {
    "corrected": (0.919, 0.959, 0.978),
    "ln(K T)": (0.982, 1.030, 1.052),
    "ln T": (1.14, 1.18, 1.21),
}
"""Lower bounds from 1e4, 1e5, 1e6 messages about each label, Clopper-Pearson at 99.95 % a side, one upper tail."""


def ranged(what: str) -> SampledLaplace:
    """The channel with noise for a claim of 1, scaled to the range of that name."""
    levels = sampled().levels
    known = {"corrected": levels.span, "ln(K T)": printed_sensitivity(levels), "ln T": math.log(100.0)}
    return with_range(sampled(), known[what])


def tails(channel: SampledLaplace) -> tuple[float, float]:
    """The probabilities that a message lies beyond the least loss, given the two extreme labels: by closed form."""
    labels = extremes(channel.levels)
    every = np.arange(channel.levels.labels or 0)
    losses = channel.levels.middle - channel.levels.of(every)[:, 0]
    edge = losses.min()
    below = 0.5 * np.exp(-(losses - edge) / channel.scale)  # every loss is at least the edge
    kept, law = 1.0 - channel.exchange_probability, channel.levels.resampling_law()
    first, second = (kept * below[label] + (1.0 - kept) * (law @ below) for label in labels)
    return float(first), float(second)


@pytest.mark.parametrize("what", EXPECTED)
@pytest.mark.parametrize(("place", "trials"), [(0, 10**4), (1, 10**5), (2, 10**6)])
def test_expected_bounds_of_the_upper_tail(what: str, place: int, trials: int) -> None:
    """Golden numbers for two candidates, 100 labels and 100 rounds: each of one run, so within 3 standard errors."""
    hits, others = (probability * trials for probability in tails(ranged(what)))
    least = clopper_pearson(hits, trials, confidence=0.9995, side="lower")[0]
    most = clopper_pearson(others, trials, confidence=0.9995, side="upper")[1]
    error = math.sqrt(1.0 / hits + 1.0 / others - 2.0 / trials)
    assert float(np.log(least / most)) == pytest.approx(EXPECTED[what][place], abs=max(3.0 * error, 0.005))


def test_tails_attain_the_exact_loss() -> None:
    for what in EXPECTED:
        channel = ranged(what)
        first, second = tails(channel)
        assert math.log(first / second) == pytest.approx(channel.exact_epsilon(), rel=1e-9)


@pytest.mark.parametrize(("what", "refuted"), [("corrected", False), ("ln(K T)", True), ("ln T", True)])
def test_a_hundred_thousand_messages_refute_the_published_sensitivity(what: str, refuted: bool) -> None:
    """A claim of 1, by one event that was fixed beforehand, at 1 - 1e-6: the corrected one is refuted that rarely.

    The published one is refuted with probability above 0.999 (its logarithm of ratios lies 8 standard errors above 1).
    """
    channel, trials = ranged(what), 100_000
    here, there = extremes(channel.levels)
    edge = channel.levels.middle - channel.levels.of([here])[0, 0]
    told, rng = Told(channel=channel, read=number, index=0), np.random.default_rng(6)
    hits, others = (int((told(label, rng, trials) < edge).sum()) for label in (here, there))
    region = frontier(hits, trials, others, trials, slope=math.e, alpha=1e-6)
    assert region.refutes(1.0, 0.0) is refuted


@pytest.mark.statistical
def test_a_million_messages_are_audited() -> None:
    """A bit for each; false alarm 1e-6. The bound comes within 3 % of the claim; the twin, at 1.3, is refuted."""
    levels, pair = sampled().levels, extremes(sampled().levels)
    for epsilon, refuted in ((1.0, False), (1.3, True)):
        channel = OneBit(levels, epsilon=epsilon)
        told = Told(channel=channel, read=number, index=0)
        options: dict[str, Any] = {"samples": 1_000_000, "first_look": False, "rng": 7, "confidence": STATED_CONFIDENCE}
        found = audit(told, neighbours=pair, claim=(1.0, 0.0), **options)
        assert found.refuted is refuted
        assert 0.97 * epsilon <= found.epsilon_lower <= epsilon


def test_noise_multipliers_of_sixteen_numbers() -> None:
    """Published and needed noise over the range, (1, 1e-6): golden numbers 46.05 and 15.17."""
    assert published().scale / rare_levels().span == pytest.approx(46.05, abs=0.01)
    assert calibrated().scale / rare_levels().span == pytest.approx(15.17, abs=0.02)
    assert CASES["vector-published"].claim.epsilon == pytest.approx(0.303, abs=1e-3)
    moves = np.abs(np.diff(rare_levels().of([0, 1]), axis=0))
    assert moves == pytest.approx(9.63, abs=0.01)  # all sixteen levels at once
