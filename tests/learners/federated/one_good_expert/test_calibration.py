"""Tests of the planners of Fed-SVT: values, quantiles and tails against other derivations, and their coverage."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.federated.one_good_expert import calibration as planners
from hockeystick.learners.federated.one_good_expert.fed_svt import FedSVT

FALSE_ALARM = 1e-6


@pytest.mark.parametrize(
    ("experts", "rho", "expected"),
    [(18, 0.1, (65, 101, 17)), (100, 0.1, (71, 119, 23)), (100, 0.01, (126, 174, 30)), (1000, 0.1, (77, 146, 31))],
)
def test_switch_budgets_agree_with_known_values(experts: int, rho: float, expected: tuple[int, int, int]) -> None:
    """3 ceil(ln d) + ceil(24 ln(1/rho)), 9 ceil(log2 d) + the same, s + nbinom.ppf(1 - rho, s, 0.42174), by hand."""
    forms: tuple[planners.Budget, ...] = ("printed", "safe", "negative binomial")
    assert tuple(planners.switch_budget(experts, rho, form=form) for form in forms) == expected
    assert math.isclose(1.0 - planners.FURTHER, 0.42174, abs_tol=1e-5)


@given(st.integers(2, 10**6), st.floats(1e-9, 0.9))
def test_the_quantile_is_the_least(experts: int, rho: float) -> None:
    s = math.ceil(math.log2(experts))
    if 2**s < experts or 2 ** (s - 1) >= experts:  # a logarithm that was rounded
        s = (experts - 1).bit_length()
    further = planners.switch_budget(experts, rho) - s
    law = stats.nbinom(s, 1.0 - planners.FURTHER)
    assert law.sf(further) <= rho and (further == 0 or law.sf(further - 1) > rho * (1.0 - 1e-9))
    assert planners.switch_budget(experts, rho) <= planners.switch_budget(experts, rho, form="safe")


def hard_switches(experts: int, share: float, rng: np.random.Generator, runs: int) -> np.ndarray:
    """Switches on hard oblivious losses, without noise.

    In each step a share of the experts that are still good go bad. A bad one loses 4/eta per step, which makes whoever
    plays it switch, and its weight falls by e^2.
    """
    good, bad, switches = experts, 0.0, np.zeros(runs, int)
    at_good = np.ones(runs, bool)
    while good > 1 or bad > 1e-6:
        falling = min(good - 1, math.ceil(share * good))
        at_good &= rng.random(runs) >= falling / good
        good, bad = good - falling, (bad + falling) * math.exp(-2.0)
        switches += ~at_good
        at_good |= rng.random(runs) < good / (good + bad)
    return switches


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
def test_the_budget_covers_hard_instances(share: float) -> None:
    """The budget is exceeded by a share rho = 0.05 at most; Hoeffding, false alarm 1e-6. An eighth is too little."""
    runs = 20_000
    switches = hard_switches(128, share, np.random.default_rng(1), runs)
    budget, slack = planners.switch_budget(128, 0.05), math.sqrt(math.log(1.0 / FALSE_ALARM) / (2 * runs))
    assert (switches > budget).mean() < 0.05 + slack
    assert (switches > budget / 8).mean() > 0.05 + slack


# --- tails and margins -----------------------------------------------------------------------------------------------


@pytest.mark.statistical
@settings(max_examples=15, deadline=None)
@given(st.floats(0.1, 10.0), st.one_of(st.floats(0.1, 10.0), st.floats(0.999999, 1.000001)), st.floats(0.0, 30.0))
def test_the_tail_of_two_noises(b1: float, ratio: float, t: float) -> None:
    b2 = b1 * ratio

    # P(X + Y > t): the second tail, averaged over the first noise, in units of b1 and cut at its kinks
    def integrand(x: float) -> float:
        return 0.5 * math.exp(-abs(x)) * float(stats.laplace.sf((t * b1 - x * b1) / b2))

    pieces = sorted({-60.0, 0.0, t, t + 60.0 * max(1.0, ratio)})
    exact = sum(
        integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-10)[0] for a, b in zip(pieces, pieces[1:], strict=False)
    )
    found = math.exp(planners.log_tail(t * b1, b1, b2))
    assert found == pytest.approx(exact, rel=1e-5)
    assert found == pytest.approx(math.exp(planners.log_tail(t * b1, b2, b1)))


def test_the_tight_margin_is_below_the_printed_and_the_proved_one() -> None:
    """Printed: 8 ln(2 T^2/(N^2 rho))/eps at b1 = 4/eps and b2 = 8/eps; proved: 16; the least one is below both."""
    eps, tests, rho = 0.7, 512, 0.1
    scales = {"threshold_scale": 4.0 / eps, "query_scale": 8.0 / eps}
    forms: tuple[planners.Margin, ...] = ("printed", "proved", "tight")
    printed, proved, tight = (planners.noise_margin(rho, tests=tests, **scales, form=form) for form in forms)
    assert printed == pytest.approx(8.0 * math.log(2.0 * tests**2 / rho) / eps)
    assert proved == pytest.approx(2.0 * printed)
    assert tight < printed
    assert 2 * tests * math.exp(planners.log_tail(tight, 4.0 / eps, 8.0 / eps)) == pytest.approx(rho)
    assert planners.noise_margin(0.9, tests=1, threshold_scale=1.0, query_scale=1e-9) >= 0.1
    level = planners.threshold_level(proved, clients=10, best_loss=1.5, learning_rate=0.2)
    assert level == pytest.approx(15.0 + proved + 20.0)


def false_tops(form: planners.Margin, rho: float, tests: int, runs: int, factor: float = 1.0) -> float:
    """How often an expert is switched away from before it has lost m*Lstar + 4/eta, where it stops just before that."""
    eta, m = 0.5, 1000
    scales = (
        {"threshold_scale": 4.0, "query_scale": 8.0}
        if form != "tight"
        else {"threshold_scale": 3.0, "query_scale": 3.0}
    )
    margin = factor * planners.noise_margin(rho, tests=tests, **scales, form=form)
    level = planners.threshold_level(margin, clients=m, best_loss=0.0, learning_rate=eta)
    made = FedSVT(clients=m, rounds=tests, experts=2, switches=1, learning_rate=eta, threshold=level, **scales)
    losses = np.zeros((tests, 2))
    losses[0] = 4.0 / eta - 1e-6
    return float(made.simulate(losses, np.random.default_rng(3), runs).above.any(axis=1).mean())


@pytest.mark.parametrize("rho", [0.2, 0.01])
@pytest.mark.parametrize("tests", [1, 64])
@pytest.mark.parametrize("form", ["printed", "proved", "tight"])
@pytest.mark.every(3)
def test_no_expert_is_switched_away_from_too_early(form: planners.Margin, tests: int, rho: float) -> None:
    """The window-loss event of Lemma 12 holds with probability 1 - rho; Hoeffding, false alarm 1e-6.

    Also with the printed 8: its logarithm has (T/N)^2 where T/N would do.
    """
    runs = 40_000
    allowed = rho + math.sqrt(math.log(1.0 / FALSE_ALARM) / (2 * runs))
    assert false_tops(form, rho, tests, runs) <= allowed


def test_half_of_the_printed_margin_is_too_little() -> None:
    """The twin: with 4 in place of 8 the event fails more often than rho; false alarm 1e-6."""
    runs, rho = 40_000, 0.005
    assert false_tops("printed", rho, 64, runs, factor=0.5) > rho + math.sqrt(math.log(1.0 / FALSE_ALARM) / (2 * runs))


# --- calibration -----------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@settings(max_examples=8, deadline=None)
@given(
    st.integers(1, 100), st.integers(1, 4000), st.integers(2, 500), st.floats(0.01, 20.0), st.sampled_from([0.0, 1e-6])
)
def test_calibrated_learners_meet_their_target(m: int, rounds: int, d: int, epsilon: float, delta: float) -> None:
    made = FedSVT.calibrated(clients=m, rounds=rounds, experts=d, epsilon=epsilon, delta=delta, best_loss=0.3)
    found = made.guarantee().epsilon(delta).upper
    assert 0.98 * epsilon <= found <= epsilon
    assert made.regret_bound(0.1) > made.best_loss


def test_a_share_of_the_budget_is_well_chosen() -> None:
    """No other share of a pure budget has a regret bound that is much better."""
    made = FedSVT.calibrated(clients=10, rounds=512, experts=100, epsilon=2.0)
    bounds = []
    for share in np.linspace(0.05, 0.95, 19):
        scale, rate = 1.0 / (2.0 * share), 2.0 * (1.0 - share) / made.switches
        margin = planners.noise_margin(0.1, tests=512, threshold_scale=scale, query_scale=scale)
        bounds.append((made.switches + 1) * ((2 * margin + 4 / rate) / 10 + 1))
    assert made.regret_bound(0.1) <= min(bounds) * 1.001


@pytest.mark.parametrize(
    "call",
    [
        lambda: planners.switch_budget(1, 0.1),
        lambda: planners.switch_budget(10, 0.0),
        lambda: planners.switch_budget(10, 1.0),
        lambda: planners.switch_budget(10, 0.1, form="other"),  # type: ignore[arg-type]
        lambda: planners.log_tail(-1.0, 1.0, 1.0),
        lambda: planners.log_tail(1.0, 0.0, 1.0),
        lambda: planners.log_tail(math.nan, 1.0, 1.0),
        lambda: planners.noise_margin(0.1, tests=0, threshold_scale=1.0, query_scale=1.0),
        lambda: planners.noise_margin(0.1, tests=5, threshold_scale=1.0, query_scale=1.0, form="printed"),
        lambda: planners.noise_margin(0.1, tests=5, threshold_scale=1.0, query_scale=2.0, form="other"),  # type: ignore[arg-type]
        lambda: planners.threshold_level(1.0, clients=0, best_loss=0.0, learning_rate=1.0),
        lambda: planners.threshold_level(1.0, clients=1, best_loss=-1.0, learning_rate=1.0),
        lambda: FedSVT.calibrated(clients=1, rounds=10, experts=3, epsilon=0.0),
        lambda: FedSVT.calibrated(clients=1, rounds=10, experts=3, epsilon=1.0, delta=1.0),
        lambda: FedSVT.calibrated(clients=1, rounds=10, experts=3, epsilon=1.0, period=11),
        lambda: FedSVT.calibrated(clients=0, rounds=10, experts=3, epsilon=1.0),
        lambda: FedSVT.calibrated(clients=1, rounds=10, experts=3, epsilon=math.nan),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgumentError):
        call()
