"""Plans, bounds and baselines of Smooth MWEM: reference numbers, rates, and errors below their bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from hockeystick import accounting
from hockeystick.accounting import (
    BoundedRange,
    DiscreteLaplace,
    InvalidArgumentError,
    Laplace,
    PrivacyEvent,
    compose,
    split_budget,
)
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformGrid
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.cells import MatrixCells
from hockeystick.learners.smoothed.queries.error_bounds import (
    error_bound,
    paper_constants,
    tuned_approximate,
    tuned_pure,
)
from hockeystick.learners.smoothed.queries.laplace_per_query import LaplacePerQuery
from hockeystick.learners.smoothed.queries.plan import PURE_SPLIT, ZCDP_SPLIT, calibrated, mwem, printed, step_epsilon
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM
from hockeystick.mechanisms import SimulationNoise

DELTAS = (0.1, 0.01, 0.001, 1e-6)


def thresholds(points: int = 4096) -> BoxCells:
    return BoxCells.of(Thresholds().cover(0.5 / points, UniformGrid(points)))


def rounds_of(epsilon: float, rounds: int, *, whole: bool = False) -> PrivacyEvent:
    """R rounds at pure epsilon in total, both steps alike."""
    each = epsilon / (2.0 * rounds)
    noise = DiscreteLaplace(1.0 / each, distance=1) if whole else Laplace(1.0 / each)
    return compose((BoundedRange(each), rounds), (noise, rounds))


# --- F24: the table of compositions, to 2 %. Source: specification, section 3.3, checked there twice ------------------

TABLE = {
    "pure": (0.1, 0.05, 0.0167, 0.005, 0.00167, 0.0005),
    "simple": (0.0301, 0.0213, 0.0123, 0.0067, 0.00388, 0.00213),
    "advanced": (0.0581, 0.0411, 0.0237, 0.0130, 0.0075, 0.00411),
    "zcdp": (0.0883, 0.0624, 0.0360, 0.0197, 0.0114, 0.00624),
    "rdp": (0.1165, 0.0720, 0.0378, 0.0200, 0.01146, 0.00626),
    "pld": (0.1150, 0.0719, 0.0387, 0.0207, 0.01188, 0.00649),
}


@pytest.mark.parametrize(
    "composition", [pytest.param(one, marks=[pytest.mark.statistical] * (one in ("rdp", "pld"))) for one in TABLE]
)
def test_budgets_of_a_step_by_every_composition(composition: str) -> None:
    found = [
        step_epsilon(R, epsilon=1.0, delta=1e-6, composition=composition)  # type: ignore[arg-type]
        for R in (5, 10, 30, 100, 300, 1000)
    ]
    np.testing.assert_allclose(found, TABLE[composition], rtol=0.02)


def test_the_numerical_accountant_allows_more_than_the_papers_composition() -> None:
    certified = step_epsilon(30, epsilon=1.0, delta=1e-6)
    assert certified >= step_epsilon(30, epsilon=1.0, delta=1e-6, composition="pld") * (1 - 1e-4)
    assert accounting.epsilon(compose((BoundedRange(certified), 30), (Laplace(1 / certified), 30)), 1e-6).upper <= 1.0


@pytest.mark.parametrize(
    ("rounds", "curve"),
    [  # specification, section 7.2: what a run at pure epsilon = 1 certifies, at each of DELTAS
        (1, (0.379, 0.818, 0.943, 0.998)),
        (2, (0.163, 0.628, 0.828, 0.983)),
        (3, (0.079, 0.502, 0.723, 0.948)),
        (10, (0.0, 0.228, 0.395, 0.683)),
        (30, (0.0, 0.101, 0.209, 0.408)),
    ],
)
@pytest.mark.every(2)
def test_a_pure_run_certifies_less_at_positive_delta(rounds: int, curve: tuple[float, ...]) -> None:
    found = [accounting.epsilon(rounds_of(1.0, rounds), delta).upper for delta in DELTAS]
    np.testing.assert_allclose(found, curve, rtol=0.02, atol=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "rounds", "delta", "whole", "expected"),
    [  # sections 3.2 and 3.3: whole noise costs more, other totals
        (1.0, 1, 0.1, True, 0.4215),
        (1.0, 1, 0.01, True, 0.835),
        (1.0, 10, 0.01, True, 0.231),
        (4.0, 1, 0.1, True, 3.25),
        (4.0, 10, 1e-6, True, 3.00),
        (1.0, 4, 1e-6, False, 0.901),
        (1.0, 100, 1e-6, False, 0.219),
        (4.0, 10, 1e-6, False, 2.92),
        (4.0, 30, 1e-6, False, 1.79),
        (4.0, 100, 1e-6, False, 0.963),
    ],
)
def test_further_reference_values(epsilon: float, rounds: int, delta: float, whole: bool, expected: float) -> None:
    found = accounting.epsilon(rounds_of(epsilon, rounds, whole=whole), delta).upper
    assert found == pytest.approx(expected, rel=0.02)


# --- F26: the split --------------------------------------------------------------------------------------------------


@frozen
class _Spent:
    """The target that a curve, of pure epsilon or zCDP, is at most 1 in units of ``unit``."""

    curve: Callable[[PrivacyEvent], float]
    unit: float = 1.0

    def excess(self, event: PrivacyEvent, method: str | None = None) -> float:
        return math.log(self.curve(event) / self.unit)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (_Spent(lambda event: event.pure_epsilon()), PURE_SPLIT),
        (_Spent(lambda event: event.zcdp_rho(), 1e-6), ZCDP_SPLIT),
    ],
)
def test_the_best_split_is_found_by_search(target: Any, expected: float) -> None:
    """The error goes with 4/eps_em + 1/eps_lap; the search is over scales, which grow with the noise."""
    found = split_budget(
        lambda scales: compose(BoundedRange(1.0 / scales[0]), Laplace(scales[1])),
        target,
        cost=lambda scales: float(4.0 * scales[0] + scales[1]),
        guess=[5.0, 5.0],
    )
    assert found.values[1] / found.values[0] == pytest.approx(expected, rel=0.01)


# --- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, pytest.param(1e-6, marks=pytest.mark.statistical)])
def test_a_calibrated_plan_meets_its_target_and_hardly_misses_the_best(delta: float) -> None:
    """Certified by its graph; no other number of rounds has a bound that is smaller by more than a few percent."""
    cells, n = thresholds(), 2**16
    found = calibrated(cells, records=n, sigma=1 / 16, epsilon=1.0, delta=delta)
    assert 1.0 - 1e-4 < found.graph().guarantee().epsilon(delta).upper <= 1.0
    assert found.epsilon_em / found.epsilon_lap == pytest.approx(ZCDP_SPLIT if delta else PURE_SPLIT)
    best = found.error_bound().error
    for R in (found.rounds // 2, found.rounds * 2):
        if cells.queries > 4 * R:
            other = calibrated(cells, records=n, sigma=1 / 16, epsilon=1.0, delta=delta, rounds=R)
            assert best <= other.error_bound().error * 1.03
    equal = calibrated(cells, records=n, sigma=1 / 16, epsilon=1.0, delta=delta, rounds=found.rounds, split="equal")
    assert best < equal.error_bound().error


@pytest.mark.statistical
def test_groups_and_whole_noise_are_calibrated_for() -> None:
    cells = thresholds(256)
    group = calibrated(cells, records=2**16, sigma=0.25, epsilon=1.0, group=4, rounds=5)
    assert group.graph().guarantee(group=4).epsilon(0.0).upper <= 1.0
    assert group.event().pure_epsilon() == pytest.approx(0.25, rel=1e-9)
    whole = calibrated(
        cells, records=2**16, sigma=0.25, epsilon=1.0, delta=0.01, rounds=3, split="equal", noise="discrete laplace"
    )
    real = calibrated(cells, records=2**16, sigma=0.25, epsilon=1.0, delta=0.01, rounds=3, split="equal")
    assert whole.graph().guarantee().epsilon(0.01).upper <= 1.0
    assert whole.epsilon_em < real.epsilon_em


def test_what_promises_nothing_is_refused() -> None:
    cells = thresholds()
    with pytest.raises(InvalidArgumentError, match="too few"):
        calibrated(cells, records=100, sigma=1 / 16, epsilon=1.0)
    assert calibrated(cells, records=100, sigma=1 / 16, epsilon=1.0, vacuous=True).rounds >= 1
    few = MatrixCells(matrix=np.eye(4))
    with pytest.raises(InvalidArgumentError, match="leaves no room"):
        calibrated(few, records=10**6, sigma=0.25, epsilon=1.0)
    found = calibrated(few, records=10**6, sigma=0.25, epsilon=1.0, failure=0.01)
    assert found.error_bound(failure=0.01).error < 0.2
    with pytest.raises(InvalidArgumentError, match="half of"):
        found.error_bound()
    with pytest.raises(InvalidArgumentError, match="gamma"):
        mwem(BoxCells.of(Thresholds().cover(0.1, UniformGrid(4096))), records=10**6, epsilon=1.0)


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_slopes_of_the_rates_are_exact() -> None:
    """F34: -1/3 in n, 1/3 in l*L for pure, -1/2 in n, 1/4 in l for approximate; the bound is least at T*."""
    common = {"epsilon": 1.0, "sigma": 0.1, "log_queries": 12.0}
    for tuned, extra, slope in ((tuned_pure, {}, -1 / 3), (tuned_approximate, {"delta": 1e-6}, -1 / 2)):
        values = [tuned(records=n, **common, **extra) for n in (1e4, 1e8)]
        assert math.log(values[1].error / values[0].error) / math.log(1e4) == pytest.approx(slope)
    pure = tuned_pure(records=1e6, **common)

    def total(laws: float) -> float:
        return 2.0 * math.sqrt(math.log(10.0) / laws) + 10.0 * laws * 12.0 / 1e6

    assert pure.error == pytest.approx(total(pure.laws))
    assert pure.error < min(total(0.9 * pure.laws), total(1.1 * pure.laws))
    steeper = tuned_pure(records=1e6, epsilon=1.0, sigma=0.01, log_queries=48.0)
    assert steeper.error / pure.error == pytest.approx((2.0 * 4.0) ** (1 / 3))
    near = [tuned_approximate(records=1e6, epsilon=1.0, delta=1e-6, sigma=s, log_queries=12.0) for s in (0.1, 1e-16)]
    assert near[1].error / near[0].error == pytest.approx(2.0)


def test_printed_constants_beside_corrected_ones() -> None:
    """F39: n = 1000, sigma = 0.1, d = 1: 9.90 printed against 13.62 (specification, E2)."""
    rows = {
        row.what: (row.printed, row.corrected)
        for row in paper_constants(records=1000, sigma=0.1, vc_dimension=1, rounds=10, epsilon=1.0, width=2.0)
    }
    np.testing.assert_allclose(rows["ln of the cover's size, answers"], (9.90, 13.62), atol=0.005)
    assert rows["total epsilon of the noise with sensitivity 1/n"] == (1.0, 2.0)
    assert rows["rounds that are paid for, T laws"] == (10, 9)
    assert rows["gamma for a cover error of 1/n, release"] == (5e-5, 2.5e-5)


@given(
    st.integers(1, 200),
    st.sampled_from([1.0, 2.0]),
    st.floats(0.01, 1.0),
    st.sampled_from(["paper", "hoeffding"]),
    st.booleans(),
)
def test_the_default_bound_is_the_papers_corrected_form(
    rounds: int, width: float, sigma: float, step: str, projected: bool
) -> None:
    """(1 or 2) w gamma/sigma + P + (4w/eps_em + w/eps_lap) L/n + 4 chi at failure 2R/K; smaller failures cost more."""
    given_: dict[str, Any] = {"width": width, "sigma": sigma, "rounds": rounds, "step": step, "projected": projected}
    given_ |= {"records": 1000, "gamma": 1e-3, "queries": 4096, "epsilon_em": 0.5, "epsilon_lap": 0.25, "chi": 0.01}
    found = error_bound(**given_)
    left = math.log(1 / sigma) / (rounds + 1)
    moved = 2.0 * math.sqrt(left) if step == "paper" else width * math.sqrt(left / 2.0)
    noise = (4.0 * width / 0.5 + width / 0.25) * math.log(4096) / 1000
    expected = (1 + projected) * width * 1e-3 / sigma + moved + noise + 0.04
    assert found.error == pytest.approx(expected)
    assert found.failure == pytest.approx(2 * rounds / 4096)
    assert error_bound(**given_, failure=found.failure / 10).error > found.error
    assert error_bound(**given_, whole_noise=True).error >= found.error


def measured(n: int, laws: int, **options: Any) -> tuple[float, SmoothMWEM]:
    """Mean largest error over 5 runs on data uniform on a window of width 1/16; equal budgets at epsilon = 1."""
    cells, rng, R = thresholds(), np.random.default_rng(21), laws - 1
    given_: dict[str, Any] = {"cells": cells, "records": n, "sigma": 1 / 16, "rounds": R}
    learner = SmoothMWEM(**given_, epsilon_em=0.5 / R, epsilon_lap=0.5 / R, **options)
    records = UniformGrid(4096).position(0, 1700 + rng.integers(0, 256, n))
    truth = cells.answers(cells.counts(records)) / n
    weights = learner.weights(learner.simulate(records, rng, 5))
    return float(np.abs(cells.answers(weights) - truth).max(axis=1).mean()), learner


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"step": "paper"}, 0.372),
        ({"step": "paper", "project": True}, 0.372),
        ({"step": "hoeffding", "project": True}, 0.099),
    ],
)
def test_reference_errors_at_sixteen_thousand_records(options: dict[str, Any], expected: float) -> None:
    """Specification, section 5.2, measured there with other seeds; here within a tenth, and below the bound."""
    found, learner = measured(2**14, 30, **options)
    assert found == pytest.approx(expected, rel=0.1)
    assert found < learner.error_bound(chi=math.sqrt(math.log(2e9) / 2**15)).error


@pytest.mark.statistical
def test_the_measured_rate() -> None:
    """F34: with the paper's step and T*, the slope in n is at most -0.30 where the bound says something."""
    few, many = (measured(n, laws, step="paper")[0] for n, laws in ((2**14, 30), (2**18, 170)))
    assert math.log(many / few) / math.log(2**4) <= -0.30


# --- baselines -------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_baselines_meet_the_same_target_and_the_cover_wins() -> None:
    """MWEM on all of X assumes nothing; noise on every query loses to both. Bounds and one run of each."""
    cells, n, rng = thresholds(1024), 2**17, np.random.default_rng(22)
    records = UniformGrid(1024).position(0, 300 + rng.integers(0, 64, n))
    smooth = calibrated(cells, records=n, sigma=1 / 16, epsilon=1.0)
    worst = mwem(cells, records=n, epsilon=1.0)
    assert worst.sigma == pytest.approx(1 / 1024)
    assert smooth.error_bound().error < worst.error_bound().error
    plain = LaplacePerQuery.calibrated(cells, records=n, epsilon=1.0)
    for learner in (smooth, worst, plain):
        assert 1.0 - 1e-9 < learner.event().pure_epsilon() <= 1.0
    assert plain.scale == pytest.approx(cells.queries)
    truth = cells.answers(cells.counts(records)) / n
    errors = [float(np.abs(cells.answers(m.run(records, rng).weights) - truth).max()) for m in (smooth, worst)]
    noisy = plain.simulate(records, rng, 4)
    loss = float(np.abs(noisy - truth).max())
    assert errors[0] < smooth.error_bound(chi=0.02).error
    assert loss > 0.02  # the largest of a thousand Laplace draws of scale K/n = 0.008
    assert plain.answer([[0.5]], noisy).shape == (4, 1)
    released = plain.release(records, noise=SimulationNoise(rng))
    assert released.shape == truth.shape and 0.0 < np.abs(released - truth).max() < 0.5
    loose = LaplacePerQuery.calibrated(thresholds(64), records=n, epsilon=1.0, delta=1e-6)
    assert 1.0 - 1e-4 < loose.graph().guarantee().epsilon(1e-6).upper <= 1.0
    assert loose.scale < thresholds(64).queries


def test_the_printed_algorithm_for_predicates_is_what_it_says() -> None:
    """F18: w = 1; T rounds of eps/(2T) twice are eps-DP, with the printed window's own bound."""
    found = printed(thresholds(), records=2**16, sigma=1 / 16, epsilon=1.0, rounds=20)
    assert found.event().pure_epsilon() == pytest.approx(1.0, rel=1e-9)
    assert found.error_bound().window == pytest.approx(1 / 20)
