"""Tests of the experiments of divergence estimators at small sizes: their numbers and checks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from benchmark_scripts import benchmark
from benchmark_scripts import experiment_script as script

from hockeystick import accounting
from hockeystick.learners.divergence.count_logarithms import Smoothed
from hockeystick.learners.divergence.made_up_populations import LabelledRecords, digit_patterns
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import AggregatedKL, TrustedKL
from hockeystick.learners.divergence.variance import parabola

frame, digit_pairs = benchmark("frame"), script("divergence.digit_pairs")


# --- the setting -----------------------------------------------------------------------------------------------------


def plan() -> QueryAverage:
    return QueryAverage(
        reference=[0.7, 0.2, 0.1],
        symbols=[0, 1, 2],
        shares=[0.6, 0.3, 0.1],
        cohorts=[np.arange(20)],
        client_records=np.full(20, 5),
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("delta", [1e-5, 0.05])
def test_noise_is_that_of_the_estimators(epsilon: float, delta: float) -> None:
    """The experiments' formulas for the noise agree with calibrated estimators."""
    average = plan()
    for lam in (0.1, 1.0):
        for auto in (True, False):
            noise: Any = "auto" if auto else "gaussian"
            alone = TrustedKL.calibrated(average, epsilon=epsilon, delta=delta, multiplier=lam, noise=noise)
            found = digit_pairs.trusted_variance(average.sensitivity(lam), epsilon, delta, auto=auto)
            assert found == pytest.approx(alone.noise_deviation**2, rel=1e-9)
            pair = AggregatedKL.calibrated(average, epsilon=epsilon, delta=delta, multiplier=lam, noise=noise)
            found = digit_pairs.pair_variance(average.sum_sensitivities(), lam, epsilon, delta, auto=auto)
            assert found == pytest.approx(pair.noise_deviation(lam) ** 2, rel=1e-9)


def test_noise_falls_as_epsilon_squared() -> None:
    """Laplace noise exactly; Gaussian noise more slowly, as a fixed delta is larger beside a smaller epsilon."""
    laplace = [digit_pairs.trusted_variance(1.0, eps, 1e-12) for eps in (0.1, 0.2, 0.4)]
    assert laplace == pytest.approx([2.0 / eps**2 for eps in (0.1, 0.2, 0.4)])
    gaussian = [digit_pairs.trusted_variance(1.0, eps, 1e-12, auto=False) for eps in (0.1, 0.2)]
    assert -2.0 < math.log2(gaussian[1] / gaussian[0]) < -1.85


def test_pairs_are_split_by_writer() -> None:
    pairs = digit_pairs.digit_pairs((2, 2), 40)
    assert len(pairs.labels) == 90 and (1, 1) not in pairs.labels
    assert pairs.references.shape == (10, 16) and all(data.clients == 20 for data in pairs.held)
    assert (np.array([pairs.truths[a, b] for a, b in pairs.labels]) > 0.0).all()
    held = pairs.held[3].total()
    law = Smoothed().frequencies(held, int(held.sum()), 16)
    assert pairs.truths[5, 3] == pytest.approx(pairs.references[5] @ np.log(pairs.references[5] / law))


def test_a_trial_without_noise_is_the_same_for_all() -> None:
    """With hardly any noise all errors are those without it; with much, they are the noise."""
    pairs = digit_pairs.digit_pairs((2, 2), 40)
    quiet = digit_pairs.Setting(
        epsilons=(1e6,), delta=1e-5, variances=(1e-9,), multipliers=(0.0, 1.0), cohort=10, samples=50
    )
    found = digit_pairs.trial(pairs, quiet, np.random.default_rng(1))
    for name in ("trusted realised", "pair realised", "dist"):
        assert found[name] == pytest.approx(found["plain"], rel=1e-3, abs=1e-6)
    assert found["dist noise"].max() < 1e-6
    loud = digit_pairs.Setting(epsilons=(0.01,), delta=1e-5, variances=(1e6,), cohort=10, samples=50)
    noisy = digit_pairs.trial(pairs, loud, np.random.default_rng(1))
    assert (noisy["trusted realised"] > 100.0 * noisy["plain"]).all()
    assert (noisy["dist"] > noisy["plain"]).mean() > 0.8


def test_shares_of_noise_are_certified() -> None:
    noise = digit_pairs.SkellamShares(digit_pairs.shared_noise(1.0, 1e-5)["variance"], survivors=1)
    twice = accounting.compose((noise.event(), 2))  # one count up, one down
    assert accounting.epsilon(twice, 1e-5).upper <= 1.0
    assert 2.0 < noise.variance() / (2.0 * 3.0) < 6.0  # near 2/mu^2 = 27.8


# --- experiments -----------------------------------------------------------------------------------------------------


def test_reference_numbers() -> None:
    module = script("divergence.kl_reference")
    report = module.experiment(frame.Cells(), cases=((16, 1e-5),), parts=1, repetitions=1, writers=200, epsilons=(6.0,))
    assert "trusted server, realised draw" in report.table and "clients' shares" in report.table
    assert report.table.count("quoted") >= 6
    # A cohort of ten errs more than one of 179, and the report says so.
    assert list(report.checks.values())[:2] == [False, True]


@pytest.mark.deep
def test_the_variance_experiment_holds() -> None:
    """A mean square of 1e5 runs is off by 0.6 % in standard deviation: 3 % are five of them, 1e-6 for each of 42."""
    module = script("divergence.kl_variance")
    report = module.experiment(frame.Cells(), runs=100_000, pairs=200)
    assert report.holds
    exact = parabola(*module.laws("two symbols"), samples=1)
    assert exact.variance(0.0) == pytest.approx(0.010067, rel=1e-3)
    assert exact.least == 0.0 and exact.best_multiplier == pytest.approx(1.0034, abs=1e-4)
    assert exact.variance(1.0) == pytest.approx(1.1e-7, rel=0.05)
    assert frame.svg(report.draw).count("<svg") == 1


def test_a_wrong_variance_law_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, with six mean squares; averages that are 5 % too large have 10 % too much variance, and a bias."""
    module = script("divergence.kl_variance")
    true = module.averages
    monkeypatch.setattr(module, "NAMES", ("20 symbols",))
    monkeypatch.setattr(module, "SAMPLES", (30, 100, 300))
    assert list(module.experiment(frame.Cells(), runs=100_000, pairs=10).checks.values())[:2] == [True, True]
    monkeypatch.setattr(module, "averages", lambda *a: true(*a) * 1.05)
    report = module.experiment(frame.Cells(), runs=100_000, pairs=10)
    assert list(report.checks.values())[:2] == [False, False]


def test_the_bias_experiment_holds() -> None:
    module = script("divergence.kl_bias")
    report = module.experiment(frame.Cells(), records=(400, 800, 1600, 3200))
    assert report.holds
    # Two symbols, two records, by hand: h = 0, 1, 2 with probabilities 1/4, 1/2, 1/4.
    half = np.array([0.5, 0.5])
    found = module.biases(half, half, 2)
    assert found["harmonic"] == pytest.approx(-(0.5 * 1.0 + 0.25 * 1.5 - 1.5 + math.log(2.0)))
    assert found["plain"] == pytest.approx(-(2 / 3 * math.log(0.5) + math.log(2.0)))
    assert found["smoothed"] == pytest.approx(
        -(0.25 * math.log(0.25) + 0.5 * math.log(0.5) + 0.25 * math.log(0.75)) - math.log(2.0)
    )
    # All four records of a population leave the plain logarithm no bias.
    assert module.biases(half, half, 4, 4)["plain"] == pytest.approx(0.0, abs=1e-12)


def test_the_attacks_experiment_holds() -> None:
    module = script("divergence.kl_attacks")
    report = module.experiment(
        frame.Cells(), samples=100_000, repeats=(1, 5, 50), audited=(1, 5), shared_samples=50_000
    )
    assert report.holds
    assert module.repeated(2, 0)["exact"] == pytest.approx(1.465, rel=0.03)
    assert frame.svg(report.draw).count("<svg") == 1


def test_attacks_with_weak_claims_are_reported() -> None:
    """Exact costs, without audits."""
    module = script("divergence.kl_attacks")
    assert module.gaussian_epsilon(1.0 / module.unit()) == pytest.approx(1.0, abs=1e-9)
    assert module.gaussian_epsilon(math.sqrt(10.0) / module.unit()) == pytest.approx(3.619, abs=2e-3)


def test_the_frontier_experiment_holds() -> None:
    module = script("divergence.kl_frontier")
    report = module.experiment(
        frame.Cells(), grids=(16, 256), samples=(10, 100), sizes=(1000, 3000, 10_000), pairs=4, writers=400
    )
    assert report.holds
    assert frame.svg(report.draw).count("<svg") == 1


def test_bits_of_the_full_histogram() -> None:
    """Every symbol's number, and no more: k log2(k) bits down, k log2(R) up."""
    module = script("divergence.kl_frontier")
    rows = module.frontier(16, (5,), 27.8, 2, 400)["rows"]
    assert rows[-1][0] == 16 * 4
    assert rows[-1][1] % 8 == 0  # the mean of two pairs, whose cohorts' sizes may need different moduli
    assert rows[0][1] < rows[-1][1]


def test_rare_and_fat_cells() -> None:
    module = script("divergence.kl_frontier")
    found = module.rare(1000, 0.5)
    assert found["bound"] <= min(found["trusted"], found["dist"])
    first, second = module.fat(1000, 0.5), module.fat(10_000, 0.5)
    assert second["dist"] < 0.2 * first["dist"] and second["trusted"] > 0.9 * first["trusted"]


@pytest.mark.deep
def test_the_figures_experiment_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """All panels, of three digits, with noise that grows as it should but is not calibrated."""
    module = script("divergence.kl_figures")
    monkeypatch.setattr(module, "shared_noise", lambda epsilon, delta: {"variance": 2.0 + 2.0 / epsilon**2})
    monkeypatch.setattr(module, "MULTIPLIERS", (0.0, 0.05, 0.1, 1.0))
    people = digit_patterns(np.random.default_rng(1), writers=400)
    few = people.labels < 3
    records = LabelledRecords(
        clients=people.clients[few],
        labels=people.labels[few],
        symbols=people.symbols[few],
        client_count=400,
        label_count=3,
        symbol_count=16,
    )
    pairs = digit_pairs.Pairs.of(records)
    monkeypatch.setattr(module, "digit_pairs", lambda grid, writers: pairs)
    report = module.experiment(frame.Cells(), repetitions=2, sizes=(20, 80), swept=(10, 20, 80), usual=40)
    assert report.holds
    picture = frame.svg(report.draw)
    assert picture.count("<svg") == 1 and all(f"{number}: " in picture for number in range(1, 6))
    assert report.table.count("cohort 40, ε") == 3


def test_the_literal_figures_experiment_holds() -> None:
    module = script("divergence.kl_figures_literal")
    found = module.literal(20, [0.05, 6.0], [0.0, 0.1], [6.0], 1, 200, "epsilon")
    errors = {model: np.array(found["errors"][model]["mean"])[:, 1:] for model in module.MODELS}
    assert np.isnan(found["errors"]["dist"]["mean"][0][0]) and found["errors"]["dist"]["mean"][1][0] > 0.0
    assert 10**2.7 < errors["trusted"][0][0] < 10**3.7  # 2 (1 + ln 2)^2/0.05^2 = 2293
    assert 10**3.5 < errors["pair"][0][0] < 10**4.5
    assert errors["dist"][0][0] < errors["trusted"][0][0]
    assert errors["trusted"][1][0] < errors["trusted"][0][0] / 100
    assert found["noise"]["trusted"]["mean"][0][1] > found["noise"]["trusted"]["mean"][1][1]
