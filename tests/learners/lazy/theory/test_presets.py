"""Tests of the printed formula of the lazy learners, and of the theorems' parameters as presets with their defects."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import strategies as st
from samples import deep_examples

from hockeystick.accounting import InvalidArgumentError, NumericalError
from hockeystick.learners import LazyConvex
from hockeystick.learners.common.calibration_search import LARGEST_FAKE
from hockeystick.learners.lazy import (
    Ball,
    Box,
    Preset,
    exact_actions_loss,
    exact_loss,
    paper_3_12,
    paper_epsilon,
    paper_epsilon_convex,
    paper_proof_3_10,
    paper_rate,
    paper_stmt_3_10,
)

CONVEX: dict[str, Any] = {
    "rounds": 10**6,
    "batch": 10,
    "inverse_temperature": 2e-4,
    "regularisation": 1e4,
    "lipschitz": 1.0,
    "fake_switch_probability": 0.01,
    "delta": 1e-6,
}


# --- the printed formula for convex losses ---------------------------------------------------------------------------


def test_printed_formula_spends_its_delta() -> None:
    printed = paper_epsilon_convex(**CONVEX)
    eta, delta_1, delta_0 = (dict(printed.constants)[name] for name in ("eta", "delta_1", "delta_0"))
    mu = math.sqrt(2 * 2e-4 / 1e4)
    assert eta == pytest.approx(mu**2 + 2 * mu * math.sqrt(math.log(2 / delta_0)), rel=1e-12)
    spent = 2e6 * (2 / eta + math.log(1 / delta_1) / 0.01) * math.e * 10 * delta_0 + 2e6 * delta_1
    assert spent == pytest.approx(1e-6, rel=1e-9) and spent <= 1e-6 * (1 + 1e-12)
    variance = 1e6 * eta**2 * 0.01 / 10
    log = math.log(1 / delta_1)
    assert printed.epsilon == pytest.approx(
        2 * eta / 0.01 + eta + 1.5 * variance * log + math.sqrt(6 * variance) * log, rel=1e-12
    )
    assert [condition.holds for condition in printed.conditions] == [True, False, True]


@pytest.mark.parametrize(("batch", "mu", "p", "value"), [(1, 1e-4, 0.003, 5.981), (10, 2e-4, 0.01, 6.576)])
def test_printed_values_for_convex_losses(batch: int, mu: float, p: float, value: float) -> None:
    settings_of = CONVEX | {"batch": batch, "inverse_temperature": mu**2 * 1e4 / 2, "fake_switch_probability": p}
    assert paper_epsilon_convex(**settings_of).epsilon == pytest.approx(value, abs=1e-3)


def test_without_measures_to_tell_apart_both_formulas_agree() -> None:
    """At a delta so small that all of it could go to either part, the experts' formula at the same eta is close."""
    convex = paper_epsilon_convex(**CONVEX)
    eta = dict(convex.constants)["eta"]
    experts = paper_epsilon(
        rounds=10**6, batch=10, learning_rate=eta, fake_switch_probability=0.01, delta=CONVEX["delta"] / 2
    )
    assert convex.epsilon == pytest.approx(experts.epsilon, rel=1e-12)


def test_printed_rate_is_above_what_gaussian_draws_need() -> None:
    """Consecutive measures are mu/2-Gaussian-DP: P[loss > eta] <= delta_0 at mu^2/8 + mu/2 * sqrt(2 ln(1/delta_0))."""
    for mu, delta_0 in ((1e-3, 1e-9), (0.5, 1e-3), (3.0, 0.1)):
        printed = paper_rate(delta_0, inverse_temperature=mu**2 / 2, regularisation=1.0, lipschitz=1.0)
        sharp = mu**2 / 8 + mu / 2 * math.sqrt(2 * math.log(1 / delta_0))
        assert printed >= 2 * math.sqrt(2) * sharp


@deep_examples(5, 50, st.integers(500, 5000), st.integers(1, 5), st.floats(0.1, 0.9), st.floats(0.05, 1.0))
def test_convex_certificate_is_below_the_printed_value_where_its_conditions_hold(
    rounds: int, batch: int, p: float, share: float
) -> None:
    delta = 1e-4
    mu = share * p / (batch * 30.0 * 12.0)
    weights: dict[str, Any] = {"inverse_temperature": mu**2 * 1e3 / 2, "regularisation": 1e3, "lipschitz": 1.0}
    printed = paper_epsilon_convex(rounds=rounds, batch=batch, fake_switch_probability=p, delta=delta, **weights)
    assert printed.applies
    learner = LazyConvex(
        rounds=rounds, domain=Ball(2, 1e4), batch=batch, fake_switch_probability=p, failure=0.05 * delta, **weights
    )
    assert learner.graph().guarantee().epsilon(delta).upper <= printed.epsilon


REFUSED_CONVEX: dict[str, tuple[float, ...]] = {
    "rounds": (0,), "batch": (0, 10**6 + 1), "inverse_temperature": (0.0,), "regularisation": (math.nan,),
    "lipschitz": (-1.0,), "fake_switch_probability": (0.0, 1.0), "delta": (0.0, True),
}  # fmt: skip


@pytest.mark.parametrize(("argument", "values"), REFUSED_CONVEX.items())
def test_the_printed_convex_formula_refuses_bad_arguments(argument: str, values: tuple[float, ...]) -> None:
    for value in values:
        with pytest.raises(InvalidArgumentError, match=argument):
            paper_epsilon_convex(**(CONVEX | {argument: value}))


def test_the_printed_convex_formula_refuses_overflow() -> None:
    with pytest.raises(NumericalError, match="delta_0"):
        paper_epsilon_convex(**(CONVEX | {"delta": 1e-300}))
    for delta_0 in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidArgumentError, match="delta_0"):
            paper_rate(delta_0, inverse_temperature=1.0, regularisation=1.0, lipschitz=1.0)


# --- presets ---------------------------------------------------------------------------------------------------------


def defects(preset: Preset[Any]) -> list[str]:
    return [warning.defect for warning in preset.warnings]


@pytest.mark.statistical
def test_the_statement_of_theorem_3_10() -> None:
    """T = 1e4, d = 2, eps = 0.1: its parameters, and the exact privacy loss."""
    preset = paper_stmt_3_10(rounds=10**4, experts=2, epsilon=0.1, delta=1e-6)
    learner = preset.learner
    assert (learner.batch, learner.normaliser, learner.variant) == (10, "paper", "l2p")
    assert learner.learning_rate == pytest.approx(0.0083255, rel=1e-4)
    assert learner.fake_switch_probability == pytest.approx(10 * learner.learning_rate / 0.1)
    assert defects(preset) == ["missing", "condition", "not private"] and not preset.certified_private
    assert "gives no fake-switch" in str(preset.warnings[0])
    exact = exact_loss(*(learner.chain(losses) for losses in learner.worst_case_neighbours())).epsilon(1e-6)
    assert exact[0] == pytest.approx(1.49, abs=5e-3)
    assert 0.1 < exact[0] <= preset.certified.upper == pytest.approx(1.6083, abs=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "p", [1e-3, 0.999, *(pytest.param(p, marks=pytest.mark.deep) for p in (0.01, 0.05, 0.1, 0.3, 0.6, 0.9))]
)
def test_no_fake_switch_probability_repairs_the_statement(p: float) -> None:
    preset = paper_stmt_3_10(rounds=10**4, experts=2, epsilon=0.1, delta=1e-6, fake_switch_probability=p)
    assert f"{p:g}" in preset.warnings[0].text
    learner = preset.learner
    exact = exact_loss(*(learner.chain(losses) for losses in learner.worst_case_neighbours())).epsilon(1e-6)
    assert exact[0] > 2.0 * preset.epsilon
    assert exact[0] <= preset.certified.upper


@pytest.mark.statistical
def test_the_statement_is_refuted_by_the_played_actions_alone() -> None:
    learner = paper_stmt_3_10(rounds=10**4, experts=2, epsilon=0.1, delta=1e-6).learner
    law = exact_actions_loss(*(learner.chain(losses) for losses in learner.worst_case_neighbours()))
    assert law.delta(0.1)[0] == pytest.approx(0.052, abs=1e-3)
    assert law.epsilon(1e-6)[0] == pytest.approx(0.96, abs=1e-2)


@pytest.mark.statistical
@pytest.mark.parametrize(("rounds", "epsilon"), [(10**5, 0.1), (10**6, 0.05), (10**4, 0.05)])
def test_the_proof_of_theorem_3_10_is_private_and_breaks_its_own_condition(rounds: int, epsilon: float) -> None:
    preset = paper_proof_3_10(rounds=rounds, experts=10, epsilon=epsilon, delta=1e-6)
    assert preset.certified_private and preset.certified.upper < 0.5 * epsilon
    assert defects(preset) == ["condition"]
    condition = preset.printed.failing[0]
    assert condition.statement.startswith("eta B ln")
    assert condition.value == pytest.approx(math.log(2 * rounds / 1e-6) / 10)  # whatever eta: eta B / p = 1/10
    learner = preset.learner
    stated = paper_stmt_3_10(rounds=rounds, experts=10, epsilon=epsilon, delta=1e-6).learner
    assert learner.learning_rate == pytest.approx(stated.learning_rate / math.log(rounds / 1e-6))


@pytest.mark.parametrize(
    ("epsilon", "batch", "kinds"),
    [
        (0.05, 20, ["missing", "out of range", "condition", "not private"]),
        (0.3, 3, ["missing", "rounded", "condition", "not private"]),
        (2.0, 1, ["missing", "rounded", "condition"]),
        (1e-9, 10**4, ["missing", "rounded", "out of range", "condition"]),
    ],
)
def test_batches_are_whole_and_probabilities_below_one(epsilon: float, batch: int, kinds: list[str]) -> None:
    preset = paper_stmt_3_10(rounds=10**4, experts=2, epsilon=epsilon, delta=1e-6)
    assert preset.learner.batch == batch
    assert 0.0 < preset.learner.fake_switch_probability <= LARGEST_FAKE
    assert defects(preset) == kinds
    assert (preset.learner.fake_switch_probability == LARGEST_FAKE) == ("out of range" in kinds)


@pytest.mark.statistical
def test_theorem_3_12_agrees_with_golden_values() -> None:
    delta = 1e-6
    preset = paper_3_12(rounds=10**6, domain=Ball(3, 2.0), lipschitz=0.5, epsilon=0.01, delta=delta)
    learner = preset.learner
    eta = 0.01 ** (2 / 3) / (100.0 * math.log(1e12))
    assert learner.batch == 3  # 1/(2 * 0.01 * ln(1e6)) = 3.62
    assert learner.fake_switch_probability == pytest.approx(eta / 0.01)
    assert learner.regularisation == pytest.approx(0.5 / 4.0 * max(1e3, math.sqrt(3 * math.log(1e6)) / eta))
    assert learner.inverse_temperature == pytest.approx(eta**2 * learner.regularisation / (20 * 0.25))
    assert learner.log_normaliser == pytest.approx(2 * 3 * eta)
    assert defects(preset) == ["rounded", "condition", "condition", "condition"]
    lemma, proof, theorem = (warning.text for warning in preset.warnings[1:])
    assert "Lemma 3.11" in lemma and "epsilon / 2" in proof and theorem.startswith("eta B ln")
    assert preset.certified_private


def test_theorem_3_12_needs_a_large_delta_0() -> None:
    """mu^2 = eta^2/10 meets Lemma 3.11 at eta only where ln(2/delta_0) is at most 2.5, about."""
    eta, lam = 1e-3, 7.0
    weights = {"inverse_temperature": eta**2 * lam / 20.0, "regularisation": lam, "lipschitz": 1.0}
    assert paper_rate(2.0 * math.exp(-2.49), **weights) < eta < paper_rate(2.0 * math.exp(-2.51), **weights)


def test_large_targets_have_batches_of_one_round() -> None:
    preset = paper_3_12(rounds=10**4, domain=Box.cube(2, 1.0), lipschitz=1.0, epsilon=0.5, delta=1e-5)
    assert preset.learner.batch == 1 and "rounded" in defects(preset)
    assert preset.source.startswith("Asi, Koren, Liu & Talwar 2024, Theorem 3.12")


GOOD_EXPERTS: dict[str, Any] = {"rounds": 100, "experts": 2, "epsilon": 0.5, "delta": 1e-3}


@pytest.mark.parametrize(
    ("argument", "values"),
    {"rounds": (0,), "experts": (1,), "epsilon": (0.0, math.nan, math.inf), "delta": (0.0, 1.0, True)}.items(),
)
def test_presets_refuse_bad_arguments(argument: str, values: tuple[float, ...]) -> None:
    convex: dict[str, Any] = {"domain": Ball(1, 1.0), "lipschitz": 1.0, "rounds": 100, "epsilon": 0.5, "delta": 1e-3}
    for value in values:
        for preset in (paper_stmt_3_10, paper_proof_3_10):
            with pytest.raises(InvalidArgumentError, match=argument):
                preset(**(GOOD_EXPERTS | {argument: value}))
        if argument != "experts":
            with pytest.raises(InvalidArgumentError, match=argument):
                paper_3_12(**(convex | {argument: value}))


@pytest.mark.parametrize("p", [0.0, 1.0, math.nan, True])
def test_the_statement_refuses_invalid_probabilities(p: float) -> None:
    with pytest.raises(InvalidArgumentError, match="fake_switch_probability"):
        paper_stmt_3_10(**GOOD_EXPERTS, fake_switch_probability=p)
