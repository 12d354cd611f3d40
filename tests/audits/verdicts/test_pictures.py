"""Tests of the pictures of verdicts: the event beside the claim, and the power over the number of outputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from matplotlib.figure import Figure

from hockeystick.accounting import ApproximateDP, InvalidArgumentError
from hockeystick.accounting.engines.tradeoff_curve import trade_off
from hockeystick.audits import Verdict
from hockeystick.audits.bounds.sample_limits import refutation_power
from hockeystick.audits.verdicts.pictures import claimed_misses, plot_power

VERDICT = Verdict(
    outcome="consistent",
    epsilon_claimed=1.0,
    delta=0.0,
    epsilon_lower=0.9,
    confidence=0.999,
    samples=1200,
    timed=False,
    direction="d0->d1",
    event="output >= 3",
    count_p=400,
    count_q=150,
    trials=1000,
    epsilon_tested=1.0,
    delta_tested=0.0,
    detectable_epsilon=1.3,
    float_leak=False,
    bits=False,
    seed=1,
    seconds=0.1,
    event_probability=0.15,
)


def axes() -> Any:
    return Figure().subplots()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (1.0, 0.0), (2.0, 1e-3)])
def test_the_claim_s_curve_is_that_of_the_event_with_this_epsilon_and_delta(epsilon: float, delta: float) -> None:
    alarms = np.linspace(0.0, 1.0, 101)

    np.testing.assert_allclose(
        claimed_misses([(epsilon, delta)], alarms), trade_off(ApproximateDP(epsilon, delta), alarms), atol=1e-12
    )


def test_the_event_of_the_verdict_is_drawn_at_its_rates() -> None:
    found: Any = VERDICT.plot(ax=axes())
    event = found.lines[-1]

    assert event.get_label() == "event of the verdict"
    assert (event.get_xdata()[0], event.get_ydata()[0]) == (0.15, 0.6)


@pytest.mark.statistical
def test_powers_are_those_of_the_test() -> None:
    found: Any = plot_power(
        probability_of_event=0.15,
        epsilon=1.0,
        delta=0.0,
        true_epsilons=[1.3, 2.0],
        alpha=1e-3,
        least=100,
        most=200,
        ax=axes(),
    )
    (line,) = found.lines  # e^2 times 0.15 is above 1
    last = int(line.get_xdata()[-1])

    assert last == 200 and line.get_label() == "true ε = 1.3"
    p = math.exp(1.3) * 0.15
    assert line.get_ydata()[-1] == refutation_power(last, p, 0.15, epsilon=1.0, delta=0.0, alpha=1e-3)


@pytest.mark.statistical
def test_the_power_of_a_verdict_marks_its_own_samples() -> None:
    found = VERDICT.plot("power", ax=axes())

    assert [line.get_label() for line in found.lines] == [
        *("true ε = 1.1", "true ε = 1.25", "true ε = 1.5"),
        "1,000 outputs",
    ]


@pytest.mark.parametrize("changes", [{"epsilon_claimed": 0.0, "epsilon_tested": 0.0}, {"event_probability": 1.0}])
def test_a_verdict_without_a_power_says_so(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="can't be drawn"):
        evolve(VERDICT, **changes).plot("power", ax=axes())


def test_a_coin_walk_has_no_two_rates() -> None:
    with pytest.raises(InvalidArgumentError, match="coin walk"):
        evolve(VERDICT, guesses=100, right_guesses=60, method="coin walk").plot(ax=axes())
