"""Calibration of one parameter and of a budget's split: against closed forms, and never on the wrong side."""

import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from hockeystick.accounting import (
    ZCDP,
    AccountantGraph,
    Advantage,
    EpsilonDelta,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    NonPrivate,
    NumericalError,
    PureDP,
    TruePositiveRate,
    VisibleMixture,
    calibrate,
    compose,
    delta,
    epsilon,
    split_budget,
)
from hockeystick.mechanisms import Laplace as LaplaceMechanism

# One parameter --------------------------------------------------------------------------------------------------------


@given(eps=st.floats(0.05, 10), log_delta=st.floats(-12, -3), count=st.sampled_from([1, 30, 10_000]))
@settings(deadline=None, max_examples=30)
def test_gaussian_noise_is_the_closed_forms(eps, log_delta, count):
    target = EpsilonDelta(eps, 10**log_delta)
    found = calibrate(lambda sigma: compose((Gaussian(sigma), count)), target)
    truth = math.sqrt(count) * dp_accounting.get_sigma_gaussian(eps, 10**log_delta)
    assert found.rejected is not None and found.rejected < truth * (1 + 1e-9) and found.value > truth * (1 - 1e-9)
    assert found.value / found.rejected < 1 + 2e-6
    assert epsilon(found.event, target.delta).upper <= eps
    assert delta(found.event, eps).upper <= target.delta


def test_the_returned_value_meets_the_target_and_the_rejected_one_does_not():
    target = EpsilonDelta(1.0, 1e-6)
    found = calibrate(lambda scale: compose((Laplace(scale), 20), Gaussian(10.0)), target)
    assert found.rejected is not None
    assert epsilon(compose((Laplace(found.value), 20), Gaussian(10.0)), 1e-6).upper <= 1.0
    assert epsilon(compose((Laplace(found.rejected), 20), Gaussian(10.0)), 1e-6).upper > 1.0
    assert 0 < found.value - found.rejected <= 1e-6 * found.value
    assert float(found) == found.value and found.evaluations < 40


def test_pure_privacy_at_delta_zero():
    found = calibrate(lambda scale: compose((Laplace(scale), 7)), EpsilonDelta(0.5))
    assert found.value == pytest.approx(14.0, rel=2e-6) and found.value >= 14.0 * (1 - 1e-15)


def test_a_parameter_may_work_the_other_way():
    found = calibrate(lambda eps: compose((PureDP(eps), 10)), EpsilonDelta(2.0), guess=5.0)
    assert (
        found.rejected is not None
        and found.value <= 0.2 < found.rejected
        and found.value == pytest.approx(0.2, rel=2e-6)
    )
    kept = calibrate(lambda p: VisibleMixture(p, Gaussian(0.5)), EpsilonDelta(0.5, 0.01), guess=0.5, high=1.0)
    assert kept.value == pytest.approx(0.01 / delta(Gaussian(0.5), 0.5).upper, rel=1e-5)


def test_whole_numbers_within_a_domain_that_ends_between_two():
    found = calibrate(
        lambda n: compose((Gaussian(20.0), int(n))), EpsilonDelta(5.0, 1e-6), integer=True, low=1.5, high=3.7, guess=2
    )
    assert found.value == 3 and found.rejected is None


def test_whole_numbers():
    target = EpsilonDelta(1.0, 1e-6)
    found = calibrate(lambda n: compose((Gaussian(20.0), int(n))), target, integer=True, guess=3)
    assert isinstance(found.value, float) and found.value == int(found.value)
    assert found.rejected is not None and found.rejected == found.value + 1
    assert epsilon(compose((Gaussian(20.0), int(found.value))), 1e-6).upper <= 1.0
    assert epsilon(compose((Gaussian(20.0), int(found.rejected))), 1e-6).upper > 1.0


def test_a_graph_a_guarantee_and_a_mechanism_can_be_calibrated():
    def graph(sigma: float) -> AccountantGraph:
        start = AccountantGraph().source("s").transform("sum", reads=["s"], stability={("records", "l2"): 2.0})
        return start.release("r", Gaussian(sigma), reads=["sum"])

    target = EpsilonDelta(1.0, 1e-6)
    truth = 2 * dp_accounting.get_sigma_gaussian(1.0, 1e-6)
    assert calibrate(graph, target).value == pytest.approx(truth, rel=2e-6)
    assert calibrate(lambda sigma: graph(sigma).guarantee(group=3), target).value == pytest.approx(3 * truth, rel=2e-6)
    assert calibrate(lambda b: LaplaceMechanism(scale=b), EpsilonDelta(0.25)).value == pytest.approx(4.0, rel=2e-6)


def test_attack_advantage():
    found = calibrate(lambda sigma: compose((Gaussian(sigma), 4)), Advantage(0.1))
    mu = 2 * math.sqrt(2) * special.erfinv(0.1)  # the total variation distance is 2·Φ(μ/2) − 1
    assert found.value == pytest.approx(2 / mu, rel=2e-6) and delta(found.event, 0.0).upper <= 0.1


def test_true_positive_rate_at_a_false_positive_rate():
    found = calibrate(Gaussian, TruePositiveRate(0.05, 0.01))
    mu = stats.norm.ppf(0.05) - stats.norm.ppf(0.01)
    assert found.value == pytest.approx(1 / mu, rel=1e-3) and found.value >= 1 / mu * (1 - 1e-9)


def test_the_whole_domain_may_meet_the_target():
    found = calibrate(lambda p: VisibleMixture(p, Laplace(10.0)), EpsilonDelta(0.5), guess=0.5, high=1.0)
    assert found.value == 1.0 and found.rejected is None


@pytest.mark.parametrize("guess", [1e-6, 1e-3, 1e4, 1e8])
def test_a_bad_guess_costs_time_only(guess):
    found = calibrate(lambda sigma: compose((Gaussian(sigma), 100)), EpsilonDelta(1.0, 1e-6), guess=guess)
    assert found.value == pytest.approx(10 * dp_accounting.get_sigma_gaussian(1.0, 1e-6), rel=2e-6)


@pytest.mark.parametrize("guess", [0.0, -1.0, 4.0, math.nan])
def test_a_guess_beyond_the_domain_is_refused(guess):
    with pytest.raises(InvalidArgumentError, match="guess"):
        calibrate(Gaussian, EpsilonDelta(1.0, 1e-6), guess=guess, high=3.0)
    with pytest.raises(InvalidArgumentError, match="low"):
        calibrate(Gaussian, EpsilonDelta(1.0, 1e-6), low=-1.0)
    with pytest.raises(InvalidArgumentError, match="guess"):
        calibrate(Gaussian, EpsilonDelta(1.0, 1e-6), guess=0.5, low=1.0)


@pytest.mark.parametrize("guess", [1.0, 100.0])
def test_renyi_bounds_lead_from_a_poor_guess_to_a_good_start(guess):
    """Without them it takes about 20 bounds to narrow the first bracket down."""
    assert calibrate(lambda s: compose((Gaussian(s), 100)), EpsilonDelta(1.0, 1e-6), guess=guess).evaluations <= 14


def test_what_cant_be_calibrated_is_refused():
    target = EpsilonDelta(1.0, 1e-6)
    with pytest.raises(NumericalError, match="no value"):
        calibrate(lambda sigma: compose(Gaussian(sigma), NonPrivate()), target)
    with pytest.raises(NumericalError, match="does the parameter matter"):
        calibrate(lambda sigma: Gaussian(100.0), target)
    with pytest.raises(InvalidArgumentError, match="has no event"):
        calibrate(lambda sigma: sigma, target)
    bad: list[dict[str, Any]] = [{"guess": 0.0}, {"guess": math.nan}, {"low": 2.0, "high": 1.0}]
    for arguments in [*bad, {"tolerance": 0.0}, {"tolerance": 0.6}]:
        with pytest.raises(InvalidArgumentError):
            calibrate(Gaussian, target, **arguments)


@pytest.mark.parametrize(
    "make",
    [
        lambda: EpsilonDelta(0.0, 0.1),
        lambda: EpsilonDelta(math.nan),
        lambda: EpsilonDelta(1.0, 2.0),
        lambda: Advantage(0.0),
        lambda: Advantage(1.0),
        lambda: TruePositiveRate(0.01, 0.05),
        lambda: TruePositiveRate(1.0, 0.05),
        lambda: TruePositiveRate(0.1, 0.0),
    ],
)
def test_bad_targets_are_refused(make):
    with pytest.raises(InvalidArgumentError):
        make()


# Splitting a budget ---------------------------------------------------------------------------------------------------


def test_split_of_gaussian_noise_is_lagranges():
    weights = np.array([1.0, 16.0, 81.0])
    target = EpsilonDelta(1.0, 1e-6)
    found = split_budget(
        lambda sigmas: compose(*map(Gaussian, sigmas)), target, cost=lambda s: float(weights @ s**2), guess=[9.0] * 3
    )
    # Minimise Σ w σ² with Σ 1/σ² = μ²: σ² = Σ√w / (√w μ²), at cost (Σ√w)²/μ².
    mu = 1 / dp_accounting.get_sigma_gaussian(1.0, 1e-6)
    assert found.cost == pytest.approx(np.sqrt(weights).sum() ** 2 / mu**2, rel=1e-4)
    assert np.array(found.values) == pytest.approx(np.sqrt(np.sqrt(weights).sum() / np.sqrt(weights)) / mu, rel=0.01)
    assert epsilon(found.event, 1e-6).upper <= 1.0


def test_split_of_pure_budgets_is_the_cube_root_rule():
    weights = np.array([1.0, 8.0])  # minimise Σ w b² with Σ 1/b = ε: b ∝ w^{-1/3}
    found = split_budget(
        lambda b: compose(*map(Laplace, b)), EpsilonDelta(1.0), cost=lambda b: float(weights @ b**2), guess=[2.0, 2.0]
    )
    assert found.cost == pytest.approx((weights ** (1 / 3)).sum() ** 3, rel=1e-4)
    assert epsilon(found.event, 0.0).upper <= 1.0


@pytest.mark.slow
def test_split_over_a_graph_of_two_kinds_beats_the_even_one():
    def graph(values: tuple[float, ...]) -> AccountantGraph:
        start = AccountantGraph().source("s").release("g", Gaussian(values[0]), reads=["s"])
        return start.release("l", Laplace(values[1]), reads=["s"], count=3)

    def cost(values: np.ndarray) -> float:
        return float(values[0] ** 2 + 200 * values[1] ** 2)

    target = EpsilonDelta(1.0, 1e-6)
    found = split_budget(graph, target, cost=cost, guess=[5.0, 5.0], certified_steps=10)
    even = calibrate(lambda s: graph((s, s)), target).value
    assert found.cost < 0.95 * cost(np.array([even, even]))
    assert graph(found.values).guarantee().epsilon(1e-6).upper <= 1.0


def test_one_parameter_is_calibration():
    found = split_budget(lambda v: Gaussian(v[0]), EpsilonDelta(1.0, 1e-6), cost=lambda v: float(v[0]), guess=[1.0])
    assert found.values[0] == pytest.approx(dp_accounting.get_sigma_gaussian(1.0, 1e-6), rel=2e-6)


@pytest.mark.slow
def test_bad_splits_are_refused():
    target = EpsilonDelta(1.0, 1e-6)
    guesses: list[Any] = [[], [1.0, 0.0], [[1.0]], [math.nan]]
    for guess in guesses:
        with pytest.raises(InvalidArgumentError):
            split_budget(lambda v: Gaussian(v[0]), target, cost=lambda v: 1.0, guess=guess)
    with pytest.raises(InvalidArgumentError, match="cost"):
        split_budget(lambda v: compose(*map(Gaussian, v)), target, cost=lambda v: math.nan, guess=[1.0, 1.0])
    with pytest.raises(NumericalError):
        split_budget(lambda v: compose(ZCDP(1.0), Gaussian(v[0])), target, cost=lambda v: 1.0, guess=[1.0])


def test_a_split_led_by_renyi_bounds_alone_still_meets_the_target():
    target, shares = EpsilonDelta(1.0, 1e-6), np.array([1.0, 9.0])
    found = split_budget(
        lambda v: compose(*map(Gaussian, v)),
        target,
        cost=lambda v: float(shares @ v**2),
        guess=[5.0, 5.0],
        certified_steps=0,
    )
    assert 1.0 - 1e-5 < epsilon(found.event, 1e-6).upper <= 1.0
    assert found.values[0] / found.values[1] == pytest.approx(math.sqrt(3.0), rel=1e-3)  # Lagrange's


@pytest.mark.parametrize("guess", [[], [1.0, 0.0], [1.0, -1.0], [[1.0]], [math.nan]])
def test_a_split_needs_positive_guesses(guess):
    with pytest.raises(InvalidArgumentError, match="^guess="):
        split_budget(lambda v: Gaussian(v[0]), EpsilonDelta(1.0, 1e-6), cost=lambda v: 1.0, guess=guess)


def test_a_split_needs_finite_costs():
    with pytest.raises(InvalidArgumentError, match="^cost=nan"):
        split_budget(
            lambda v: compose(*map(Gaussian, v)), EpsilonDelta(1.0, 1e-6), cost=lambda v: math.nan, guess=[1.0, 1.0]
        )


def test_a_value_whose_cost_can_not_be_computed_does_not_meet_the_target():
    class Steep:
        refused = 0

        def excess(self, event: PureDP, method: str | None = None) -> float:
            if event.epsilon > 1.5:
                self.refused += 1
                raise NumericalError("beyond what floats can hold")
            return math.log(event.epsilon)

    target = Steep()
    found = calibrate(lambda scale: PureDP(1.0 / scale), target, guess=0.01)
    assert target.refused and 1.0 <= found.value <= 1.0 + 2e-6


def test_a_count_that_costs_next_to_nothing_is_searched_to_its_end():
    """Not to the other end: one use would be reported as the most."""
    found = calibrate(lambda n: compose((Laplace(1e17), int(n))), EpsilonDelta(1.0), integer=True)
    assert found.value == 2.0**53 and found.rejected is None
    found = calibrate(lambda n: compose((Laplace(1e9), int(n))), EpsilonDelta(500.0), integer=True)
    assert found.value == pytest.approx(5e11) and found.rejected == found.value + 1


def test_the_end_of_a_domain_on_the_private_side_is_no_answer():
    with pytest.raises(NumericalError, match="does the parameter matter"):
        calibrate(lambda n: Laplace(1e17 / n), EpsilonDelta(1.0), low=0.5)


@pytest.mark.parametrize("guess", [1.0, 10.0, 4000.0])
def test_a_count_far_from_its_guess_is_found(guess):
    found = calibrate(lambda n: compose((PureDP(2.0**-10), int(n))), EpsilonDelta(1.0, 0.0), integer=True, guess=guess)
    assert (found.value, found.rejected) == (1024, 1025)
    assert found.evaluations <= 40
