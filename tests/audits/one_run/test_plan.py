"""Plans of one-run audits: shares of errors by quadrature, powers by simulation, and the fewest canaries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from hockeystick.accounting import InvalidArgumentError, NumericalError
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.one_run import plan as plans
from hockeystick.audits.one_run.one_run import one_run_verdict
from hockeystick.audits.one_run.plan import OneRunPlan

CURVE = Claim.gdp(1.0, delta=1e-5)


@pytest.mark.parametrize(("strength", "share"), [(0.3, 0.9), (1.0, 0.62), (2.0, 0.1), (5.0, 0.8), (1.0, 1.0)])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.every(2)
def test_the_share_of_errors_is_that_of_quadrature(law, strength, share) -> None:
    """Guesses are made where |x - shift/2| is largest; the canary is out, so x > shift/2 is an error."""
    noise, shift = (stats.norm(), strength) if law == "gaussian" else (stats.laplace(scale=1 / strength), 1.0)
    errors = plans._gaussian_errors if law == "gaussian" else plans._laplace_errors

    found = errors(strength, share)

    def guessed(t):
        return noise.sf(shift / 2 + t) + noise.cdf(shift / 2 - t)

    low, high = 0.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if guessed(middle) > share else (low, middle)
    wrong, _ = integrate.quad(noise.pdf, shift / 2 + low, np.inf, epsabs=1e-12)
    if guessed(0.0) - share > 1e-9 or share == 1.0:
        assert found == pytest.approx(wrong / share, rel=1e-6)
    else:
        assert found > 0


def test_the_model_is_the_strongest_gaussian_that_meets_the_claim() -> None:
    law, mu = plans._model(CURVE.points)
    _, one = plans._model(Claim(1.0, 1e-5).points)

    assert law == "gaussian"
    assert mu == pytest.approx(1.0, rel=1e-6)
    assert gaussian_profile.epsilon(one, 1e-5) == pytest.approx(1.0, rel=1e-6)
    assert plans._model(Claim(2.0).points) == ("laplace", 2.0)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("claim", "canaries", "runs"),
    [
        pytest.param(CURVE, 3000, 1, marks=pytest.mark.deep),
        (CURVE, 600, 5),
        (Claim(1.0), 1000, 1),
        pytest.param(Claim(1.0, 1e-5), 500, 2, marks=pytest.mark.deep),
    ],
)
def test_the_power_is_the_planned_one(claim, canaries, runs) -> None:
    """2,000 audits: false with probability below 1e-6, as .9 +- .035 is more than 5 standard deviations."""
    plan = OneRunPlan.of(claim, canaries, runs=runs, confidence=0.95)
    rng = np.random.default_rng(3)
    strength = plan.strength / plan.noise
    assert plan.power_at(plan.noise) == pytest.approx(0.9, abs=1e-6)
    refuted = 0
    for _ in range(2000):
        coins = rng.random((runs, canaries)) < 0.5
        noise = rng.normal(size=coins.shape) if claim.delta else rng.laplace(scale=1 / strength, size=coins.shape)
        scores = noise + coins * (strength if claim.delta else 1.0)
        ordered = np.take_along_axis(coins, np.argsort(-scores, axis=1), axis=1)
        right = ordered[:, : plan.k_plus].sum() + (~ordered[:, canaries - plan.k_minus :]).sum()
        refuted += right >= plan.needed

    assert 0.865 <= refuted / 2000 <= 0.96  # counts vary a little less than binomial ones, as ranks do


@pytest.mark.statistical
def test_more_runs_and_more_canaries_find_smaller_faults() -> None:
    noise = [OneRunPlan.of(CURVE, n, runs=runs, confidence=0.95).noise for n, runs in ((100, 1), (100, 3), (300, 3))]

    assert 0 < noise[0] < noise[1] < noise[2] < 1


@pytest.mark.statistical
def test_the_fewest_canaries_for_a_fault() -> None:
    plan = OneRunPlan.for_noise(CURVE, 0.5, runs=3, confidence=0.95)

    assert plan.noise >= 0.5
    assert OneRunPlan.of(CURVE, math.floor(plan.canaries / 1.1), runs=3, confidence=0.95).noise < 0.5
    assert str(plan).startswith(f"{plan.canaries} canaries in each of 3 runs: noise x 0.5")


@pytest.mark.statistical
def test_a_plan_says_so_if_nothing_can_be_refuted() -> None:
    plan = OneRunPlan.of(CURVE, 10)

    assert plan.noise == 0.0
    assert plan.needed == 11
    assert "which can't refute it" in str(plan)
    shown = Claim(1.0, 0.1)  # a run may show all coins with probability 0.1
    with pytest.raises(NumericalError, match="give more runs"):
        OneRunPlan.for_noise(shown, 0.9)


@pytest.mark.statistical
@pytest.mark.parametrize("rule", ["planned", "held-out"])
def test_planned_numbers_are_those_of_the_plan(rule) -> None:
    rng = np.random.default_rng(1)
    included = rng.random(3000) < 0.5
    scores = rng.normal(size=3000) + 4.0 * included
    plan = OneRunPlan.of(CURVE, 3000, confidence=0.999)

    verdict = one_run_verdict(CURVE, scores, included, rule=rule)

    assert verdict.refuted
    sizes = {round((plan.k_plus + plan.k_minus) * factor) for factor in (0.5, 1, 2)}
    assert (verdict.guesses in sizes) == (rule == "planned")
    assert verdict.share in ((0.8, 0.1) if rule == "planned" else (1.0,))


def test_bad_input_is_refused() -> None:
    good: dict[str, Any] = {"claim": CURVE, "canaries": 100}
    for bad in ({"claim": 1.0}, {"canaries": 0}, {"canaries": 2.5}, {"runs": 0}, {"power": 0.5}, {"confidence": 1.0}):
        with pytest.raises(InvalidArgumentError):
            OneRunPlan.of(**{**good, **bad})
    for noise in (0.0, 1.0, math.nan, -1):
        with pytest.raises(InvalidArgumentError, match="noise"):
            OneRunPlan.for_noise(CURVE, noise)
    with pytest.raises(InvalidArgumentError, match="noise"):
        OneRunPlan.of(CURVE, 100).power_at(0.0)
