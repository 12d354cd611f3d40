"""Tests of sleeping experts: the sensitivity by enumeration, the bound in every run, and what a run publishes."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from hockeystick.accounting import InvalidArgumentError, Ledger
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import SleepingExperts
from hockeystick.learners.lazy.comparators.sleeping_experts import _sensitivity, contribution
from hockeystick.mechanisms import SimulationNoise

FALSE_ALARM = 1e-6
RNG = np.random.default_rng(1)
LOSSES = RNG.random((30, 4))
AWAKE = RNG.random((30, 4)) < 0.6
AWAKE[:, 0] |= ~AWAKE.any(axis=1)


def learner(**given: Any) -> SleepingExperts:
    return SleepingExperts(**{"rounds": 30, "experts": 4, "scale": 1.0, "learning_rate": 0.4, **given})


@pytest.mark.parametrize("awake", [2, 3, 4])
def test_the_sensitivity_is_the_largest_distance_of_contributions(awake: int) -> None:
    """Over pairs of losses in {0, 1/2, 1} and mixtures, point masses among them; one expert of five always sleeps."""
    mask, worst = np.arange(5) < awake, 0.0
    rows = np.array(list(itertools.product([0.0, 0.5, 1.0], repeat=awake)))
    rows = np.concatenate([rows, np.zeros((len(rows), 5 - awake))], axis=1)
    weights = [np.eye(awake)[0], np.full(awake, 1 / awake), *np.random.default_rng(2).dirichlet(np.ones(awake), 20)]
    for weight in weights:
        moved = contribution(rows, np.append(weight, np.zeros(5 - awake)), mask)
        assert not moved[:, awake:].any()
        worst = max(worst, float(np.linalg.norm(moved[:, None] - moved[None], axis=2).max()))
    assert worst == pytest.approx(2 * math.sqrt(awake - 1)) and worst <= _sensitivity(awake)
    assert worst > math.sqrt(awake) or awake == 1  # the planted mistake: the losses alone


def _adversarial(asked: SleepingExperts, seed: int, masks: Any) -> tuple[FloatArray, float]:
    """Returns regrets and the sum of τ_t if experts lose whose weight is above that without noise."""
    session, totals, drift = asked.start(noise=SimulationNoise(seed)), np.zeros(4), 0.0
    counts, rate = np.zeros(4), asked.learning_rate
    for mask in masks:
        session.predict(mask)
        mixture, noise = session.mixture(), (session._sums - totals)[mask]
        fair = special.softmax(np.where(mask, -rate * totals - rate**2 / 8 * counts, -np.inf))
        losses = (mixture > fair).astype(float)
        drift += math.tanh(rate * float(np.ptp(noise)) / 4)
        totals = totals + np.where(mask, losses - mixture @ losses, 0.0)
        counts = counts + mask
        session.update(losses)
    return -totals, drift


@pytest.mark.parametrize("scale", [1e-6, 0.5, 3.0])
def test_the_proof_holds_in_every_run_for_every_expert(scale: float) -> None:
    """R_T(i) ≤ ln(d)/η + η n_T(i)/8 + Σ τ_t, with the noise as it fell, against an adversary that reads mixtures."""
    asked, needed = learner(scale=scale, rounds=60), False
    masks = np.concatenate([AWAKE, AWAKE[:, ::-1]])
    for seed in range(2):
        regrets, drift = _adversarial(asked, seed, masks)
        without = math.log(4) / 0.4 + 0.4 * masks.sum(axis=0) / 8
        assert (regrets <= without + drift + 1e-4).all()
        needed |= bool((regrets > without).any())
        assert drift <= 60 * math.tanh(0.4 * 20 * scale) and regrets.max() <= asked.regret_bound(adversary="adaptive")
    assert needed == (scale > 0.1)  # the planted mistake: a bound that forgets the noise


def test_a_bound_counts_awake_rounds() -> None:
    asked = SleepingExperts.calibrated(rounds=10**6, experts=4, epsilon=4.0, delta=1e-6)
    whole, some = asked.regret_bound(), asked.regret_bound(awake=400_000)
    assert whole - some == pytest.approx(asked.learning_rate * 600_000 / 8, rel=1e-6)
    assert not whole.vacuous and asked.regret_bound(awake=5) == 5.0
    assert asked.guarantee().epsilon(1e-6).upper <= 4.0
    few = SleepingExperts.calibrated(rounds=10**6, experts=40, epsilon=4.0, delta=1e-6, most_awake=2)
    assert few.scale == pytest.approx(asked.scale / math.sqrt(3), rel=1e-4)


def test_regrets_of_runs_are_those_of_a_loop() -> None:
    asked = learner()
    found = asked.simulate(LOSSES, np.random.default_rng(3), 3, awake=AWAKE)
    assert AWAKE[np.arange(30), found.actions.astype(int)].all()
    regrets = asked.regrets(LOSSES, found, awake=AWAKE)
    for sums, own in zip(found.sums, regrets, strict=True):
        total, read = np.zeros(4), np.zeros(4)
        for t in range(30):
            weights = np.where(AWAKE[t], np.exp(-0.4 * read - 0.02 * AWAKE[:t].sum(axis=0)), 0.0)
            loss = float(weights @ LOSSES[t] / weights.sum())
            total += np.where(AWAKE[t], loss - LOSSES[t], 0.0)
            read = sums[min(t, 28)]
        np.testing.assert_allclose(own, total, atol=1e-12)


@pytest.mark.parametrize("sums", ["tree", "square root"])
def test_a_release_publishes_what_a_session_shows(sums: Any) -> None:
    asked, ledger = learner(sums=sums), Ledger(learner(sums=sums).graph())
    run = asked.release_mixtures(LOSSES, awake=AWAKE, ledger=ledger, name="prefix sums", noise=SimulationNoise(4))
    assert ledger.recorded("prefix sums") == 1 and run.actions is not None
    np.testing.assert_array_equal(run.actions, asked.release(LOSSES, awake=AWAKE, noise=SimulationNoise(4)))
    np.testing.assert_allclose(run.mixtures.sum(axis=1), 1.0)
    assert not run.mixtures[~AWAKE].any() and AWAKE[np.arange(30), run.actions].all()
    session = asked.start(noise=SimulationNoise(4))
    for t in range(30):
        assert session.predict(AWAKE[t]) == run.actions[t]
        np.testing.assert_array_equal(session.mixture(), run.mixtures[t])
        saved = json.loads(json.dumps(session.checkpoint()))
        again = asked.resume(saved, noise=SimulationNoise(5))
        assert again.predict() == run.actions[t] and again.mixture().tolist() == run.mixtures[t].tolist()
        session.update(np.where(AWAKE[t], LOSSES[t], math.nan))  # the losses of sleepers are ignored


def test_bands_of_regrets_are_within_the_noise() -> None:
    asked = learner(scale=2.0)
    run = asked.release_mixtures(LOSSES, awake=AWAKE, noise=SimulationNoise(6))
    true = -contribution(np.where(AWAKE, LOSSES, 0.0), run.mixtures, AWAKE).sum(axis=0)
    bands = asked.regret_bands(run, confidence=1 - FALSE_ALARM)
    assert all(band.lower <= one <= band.upper for band, one in zip(bands, true, strict=True))
    narrow = asked.regret_bands(run, confidence=1e-12)
    assert not all(band.lower <= one <= band.upper for band, one in zip(narrow, true, strict=True))


@pytest.mark.statistical
def test_the_mean_log_likelihood_ratio_is_within_the_cost_and_near_it() -> None:
    """It is the KL divergence, at most ρ; with noise for the losses alone it is above."""
    asked = learner(rounds=17, scale=4.0, learning_rate=4.0, sums="square root")
    pair, means = asked.worst_case_neighbours(), []
    for scale in (4.0, 4.0 / math.sqrt(3)):
        drawn = learner(rounds=17, scale=scale, learning_rate=4.0, sums="square root")
        ratio = drawn.log_likelihood_ratio(drawn.simulate(pair[0], np.random.default_rng(7), 1500), *pair)
        means.append((float(ratio.mean()), 5.0 * float(ratio.std()) / math.sqrt(1500)))
    rho = asked.event().zcdp_rho()
    assert 0.7 * rho - means[0][1] < means[0][0] < rho + means[0][1]
    assert means[1][0] - means[1][1] > rho


@pytest.mark.statistical
def test_experts_are_drawn_from_the_mixture_of_those_awake() -> None:
    asked, mask = learner(rounds=2, learning_rate=2.0), np.array([True, False, True, True])
    noise, drawn, expected = SimulationNoise(8), np.zeros(4), np.zeros(4)
    for _ in range(600):
        session = asked.start(noise=noise)
        session.update([1.0, 0.0, 0.0, 0.2])
        drawn[session.predict(mask)] += 1
        expected += session.mixture()
    assert drawn[1] == expected[1] == 0.0
    assert stats.chisquare(drawn[mask], expected[mask]).pvalue > FALSE_ALARM
    assert stats.chisquare(drawn[mask], np.full(3, 200.0)).pvalue < FALSE_ALARM


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: learner(most_awake=1), "most_awake"),
        (lambda: learner(most_awake=5), "most_awake"),
        (lambda: learner(learning_rate=0.0), "learning_rate"),
        (lambda: learner().release(LOSSES, awake=AWAKE[:5], noise=SimulationNoise(1)), "awake"),
        (lambda: learner().release(LOSSES, awake=AWAKE.astype(float), noise=SimulationNoise(1)), "awake"),
        (lambda: learner(most_awake=2).release(LOSSES, noise=SimulationNoise(1)), r"awake\[0\]"),
        (lambda: learner().start(noise=SimulationNoise(1)).predict([False] * 4), r"awake\[0\]"),
        (lambda: learner(most_awake=2).start(noise=SimulationNoise(1)).predict(), r"awake\[0\]"),
        (lambda: learner().release(LOSSES + 1.0, awake=AWAKE, noise=SimulationNoise(1)), "losses"),
        (lambda: learner().regret_bound(awake=31), "awake"),
        (lambda: learner().regret_bands([]), "run"),  # type: ignore[arg-type]
        (lambda: SleepingExperts.calibrated(rounds=5, experts=3, epsilon=1.0, delta=1e-6, most_awake=4), "most_awake"),
    ],
)
def test_bad_arguments_are_refused(call: Any, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        call()


def test_who_is_awake_is_decided_once_a_round() -> None:
    session = learner().start(noise=SimulationNoise(1))
    session.predict(AWAKE[0])
    for call in (session.predict, session.mixture, lambda mask: session.update(LOSSES[0], mask)):
        with pytest.raises(InvalidArgumentError, match="differs"):
            call(~AWAKE[0] | AWAKE[1])
    session.update(LOSSES[0], AWAKE[0])
    assert session.round == 1 and AWAKE[1][session.predict(AWAKE[1])]
