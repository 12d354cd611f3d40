"""Tests of reports on quantile regret: from published runs, and by a separate release."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from samples import diagonal
from scipy import special, stats

from hockeystick.accounting import InvalidArgumentError, Ledger
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import NoisyHedge, PublishedMixtures, TreeExperts
from hockeystick.learners.experts import RegretRelease, quantile_regret
from hockeystick.learners.experts.quantile_regret import Band, RegretReport
from hockeystick.mechanisms import SimulationNoise
from hockeystick.mechanisms.streams.factor_encoders import discounted

FALSE_ALARM = 1e-6


def true_regrets(losses: FloatArray, mixtures: FloatArray, ranks: tuple[int, ...]) -> FloatArray:
    ordered = np.sort(losses.sum(axis=0))
    return np.asarray((mixtures * losses).sum() - ordered[[k - 1 for k in ranks]])


def wrong(report: RegretReport, losses: FloatArray, mixtures: FloatArray, discount: float = 1.0) -> bool:
    """Whether a band of the report misses the truth."""
    losses = losses * (discount ** np.arange(len(losses) - 1.0, -1.0, -1.0))[:, None]
    own = float((mixtures * losses).sum())
    truth = true_regrets(losses, mixtures, report.ranks)
    missed = any(not band.lower <= true <= band.upper for band, true in zip(report.regrets, truth, strict=True))
    return missed or not report.loss.lower <= own <= report.loss.upper


# --- from published runs ----------------------------------------------------------------------------------------------


def test_the_bound_on_a_mixtures_move_holds_for_every_noise_in_the_band() -> None:
    """Random mixtures, each against all corners of the noise; mixtures with nearly all weight on one expert, too."""
    rng, tightest, plain = np.random.default_rng(1), 0.0, 0
    for _ in range(300):
        d, rate, errs = int(rng.integers(2, 5)), rng.choice([0.1, 1.0, 3.0]), rng.choice([0.01, 0.3, 2.0])
        sums = rng.normal(size=d) * rng.choice([0.1, 3.0, 10.0, 2000.0])
        mixture = special.softmax(-rate * (sums + rng.normal(size=d) * rng.choice([0.0, 1.0])))
        run = PublishedMixtures(sums[None], np.stack([np.full(d, 1 / d), mixture]), None)
        first, moved = quantile_regret._drift(run, errs, rate, 1.0)
        corners = np.array(list(itertools.product([-errs, errs], repeat=d)))
        apart = np.abs(special.softmax(-rate * (sums + corners), axis=1) - mixture).sum(axis=1).max() / 2
        assert apart <= moved + 1e-15 and first < 1e-15
        if moved > 1e-9:
            tightest = max(tightest, apart / moved)
        plain += apart > 0.5 * moved > 1e-6
    assert tightest > 0.99 and plain > 30


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("rate", [None, 0.3])
def test_a_report_without_noise_is_exact_up_to_the_last_round(rate: float | None, discount: float) -> None:
    losses = np.random.default_rng(2).random((64, 5))
    sums = discounted(losses, discount, np.zeros(5))
    read = discount * np.concatenate([np.zeros((1, 5)), sums[:-1]])
    learner = TreeExperts(rounds=64, experts=5, scale=1.0, learning_rate=rate)
    mixtures = learner._mixtures_of(read)
    run = PublishedMixtures(sums[:-1], mixtures, mixtures.argmax(axis=1))
    report = quantile_regret.reported(
        run,
        errs=0.0,
        failure=0.05,
        rate=rate,
        quantiles=(0.0, 0.2, 0.21, 1.0),
        confidence=0.9,
        plays="mixtures",
        discount=discount,
    )
    assert report.ranks == (1, 1, 2, 5) and report.confidence == 0.9
    weights = (discount ** np.arange(63.0, 0.0, -1.0))[:, None]
    own = float((weights * mixtures[:-1] * losses[:-1]).sum())
    assert report.loss.lower == pytest.approx(own) and report.loss.upper == pytest.approx(own + 1.0)
    for band, k in zip(report.regrets, report.ranks, strict=True):
        true = own - np.sort((weights * losses[:-1]).sum(axis=0))[k - 1]
        assert band.lower == pytest.approx(true - 1.0) and band.upper <= true + 1.0 + 1e-9
    assert not wrong(report, losses, mixtures, discount)
    assert discount == 1.0 or wrong(report, losses, mixtures)  # the planted mistake: all rounds alike
    assert "regret against quantile 0.21 (rank 2)" in str(report)


RUNS: dict[str, Any] = {
    "hedge": TreeExperts(rounds=120, experts=4, scale=1.0, learning_rate=0.3),
    "padded hedge": TreeExperts(rounds=120, experts=4, scale=1.0, learning_rate=0.3, spread=4.0, sums="square root"),
    "leader": TreeExperts(rounds=120, experts=4, scale=0.5, spread=6.0),
    "forgetful hedge": TreeExperts(
        rounds=120, experts=4, scale=1.0, learning_rate=0.3, sums="square root", discount=0.95
    ),
    "forgetful leader": TreeExperts(rounds=120, experts=4, scale=0.5, spread=6.0, sums="buffered", discount=0.95),
    "clients": NoisyHedge(clients=5, rounds=120, experts=4, scale=1.0),
}


@pytest.mark.statistical
@pytest.mark.parametrize(("plays", "name"), diagonal(["experts", "mixtures"], list(RUNS)))
def test_bands_cover_the_truth_as_often_as_they_say(name: str, plays: Any) -> None:
    """Of 30 runs at confidence 0.5, as simulated releases; bands for a hundredth of the noise miss nearly always."""
    learner, many = RUNS[name], name == "clients"
    if many and plays == "experts":
        return
    rng, missed, missed_by_narrow = np.random.default_rng(3), 0, 0
    kind, discount = ({}, 1.0) if many else ({"plays": plays}, learner.discount)
    for seed in range(30):
        losses = (rng.random((120, 4)) < [0.2, 0.3, 0.5, 0.8]).astype(float)
        run = learner.release_mixtures(np.stack([losses] * 5) if many else losses, noise=SimulationNoise(seed))
        played = np.eye(4)[run.actions] if plays == "experts" else run.mixtures
        report = learner.regret_report(run, quantiles=(0.0, 0.5, 0.75), confidence=0.5, **kind)
        missed += wrong(report, losses, played, discount)
        rate = learner.rate if many else learner.learning_rate
        narrow = quantile_regret.reported(
            run,
            errs=0.01,
            failure=0.99,
            rate=rate,
            quantiles=(0.0, 0.5, 0.75),
            confidence=0.5,
            plays=plays,
            discount=discount,
        )
        missed_by_narrow += wrong(narrow, losses, played, discount)
    assert missed <= stats.binom.isf(FALSE_ALARM, 30, 0.5)
    assert missed_by_narrow >= 20


def test_bad_reports_are_refused() -> None:
    learner = TreeExperts(rounds=5, experts=2, scale=1.0, learning_rate=0.5)
    run = learner.release_mixtures(np.zeros((5, 2)), noise=SimulationNoise(1))
    other = TreeExperts(rounds=6, experts=2, scale=1.0)
    many = NoisyHedge(clients=2, rounds=5, experts=2, scale=1.0)
    for call, name in (
        (lambda: learner.regret_report(run, quantiles=(0.5, 1.5)), "quantiles"),
        (lambda: learner.regret_report(run, quantiles=0.5), "quantiles"),  # type: ignore[arg-type]
        (lambda: learner.regret_report(run, quantiles=("a",)), "quantiles"),  # type: ignore[arg-type]
        (lambda: learner.regret_report(run, confidence=1.0), "confidence"),
        (lambda: learner.regret_report(run, confidence=math.nan), "confidence"),
        (lambda: learner.regret_report(run, plays="both"), "plays"),  # type: ignore[arg-type]
        (lambda: other.regret_report(run), "run"),
        (lambda: many.regret_report([]), "run"),  # type: ignore[arg-type]
        (lambda: learner.regret_report(evolve(run, actions=None)), "plays"),
    ):
        with pytest.raises(InvalidArgumentError, match=name):
            call()
    assert isinstance(many.regret_report(run), RegretReport)


def test_bands_that_contradict_each_other_leave_the_gap_between() -> None:
    assert Band(0.0, 1.0).meeting(0.5, 3.0) == Band(0.5, 1.0)
    assert Band(0.0, 1.0).meeting(2.0, 3.0) == Band(1.0, 2.0)


# --- by a separate release --------------------------------------------------------------------------------------------


def release(**given: Any) -> RegretRelease:
    return RegretRelease(**{"rounds": 3, "experts": 2, "sigma": 1.0, **given})


@pytest.mark.parametrize("experts", [2, 3])
def test_the_sensitivity_is_that_of_the_worst_corner(experts: int) -> None:
    """Over all losses in {0, 1/2, 1} of one round, each play, and mixtures; the distance is convex in both."""
    asked = release(rounds=1, experts=experts)
    worst = 0.0
    plays = [np.eye(experts)[[i]] for i in range(experts)] + [np.full((1, experts), 1 / experts)]
    rows = [np.array([row]) for row in itertools.product([0.0, 0.5, 1.0], repeat=experts)]
    for play in plays:
        totals = np.array([asked.totals(row, play) for row in rows])
        worst = max(worst, float(np.linalg.norm(totals[:, None] - totals[None], axis=2).max()))
    assert worst == pytest.approx(math.sqrt(experts + 1)) and worst <= asked.mechanism.sensitivity
    first, second = asked.worst_case_neighbours()
    assert np.linalg.norm(asked.totals(first, [0]) - asked.totals(second, [0])) == pytest.approx(worst)


def test_totals_are_exact_sums_of_rounded_losses() -> None:
    losses, asked = np.random.default_rng(4).random((50, 3)), release(rounds=50, experts=3)
    plays = np.random.default_rng(5).integers(0, 3, 50)
    rounded = [[Fraction(round(x * 2**30), 2**30) for x in row] for row in losses.tolist()]
    exact = [sum(row[i] for row in rounded) for i in range(3)]
    exact.append(sum(row[i] for row, i in zip(rounded, plays, strict=True)))
    assert [Fraction(x) for x in asked.totals(losses, plays)] == exact


@pytest.mark.parametrize("group", [1, 3])
def test_calibrated_releases_meet_their_target(group: int) -> None:
    found = RegretRelease.calibrated(rounds=100, experts=4, epsilon=0.7, delta=1e-6, group=group)
    assert 0.69999 < found.guarantee(group=group).epsilon(1e-6).upper <= 0.7
    ledger = Ledger(found.graph())
    plays = np.zeros(100, dtype=int)
    with pytest.raises(InvalidArgumentError, match=r"losses\[7, 2\]"):
        bad = np.zeros((100, 4))
        bad[7, 2] = 7731.5
        found.release(bad, plays, ledger=ledger, name="totals", noise=SimulationNoise(1))
    assert ledger.recorded("totals") == 0
    found.release(np.zeros((100, 4)), plays, ledger=ledger, name="totals", noise=SimulationNoise(1))
    assert ledger.recorded("totals") == 1


@pytest.mark.parametrize(
    "plays", [[0, 1], [0, 1, 2], [0.5, 0, 0], ["a", "b", "c"], [[0.5, 0.4]] * 3, [[1.5, -0.5]] * 3, [[1.0, 0.0]] * 2]
)
def test_bad_plays_are_refused(plays: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="plays"):
        release().release(np.zeros((3, 2)), plays, noise=SimulationNoise(1))


@pytest.mark.statistical
def test_released_bands_cover_the_truth_as_often_as_they_say() -> None:
    """Of 200 releases at confidence 0.5; bands at confidence 0.01 miss more often than that."""
    asked, rng, noise = release(rounds=60, experts=4, sigma=3.0), np.random.default_rng(6), SimulationNoise(7)
    losses, mixtures = rng.random((60, 4)), rng.dirichlet(np.ones(4), 60)

    def missed(confidence: float) -> int:
        reports = (asked.release(losses, mixtures, confidence=confidence, noise=noise) for _ in range(200))
        return sum(wrong(report, losses, mixtures) for report in reports)

    assert missed(0.5) <= stats.binom.isf(FALSE_ALARM, 200, 0.5) < missed(0.01)
