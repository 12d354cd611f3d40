"""The catalogue: its cases, their selection, and audits of many with one false-alarm budget.

Correct cases are audited at confidence 1 - 1e-6 each with fixed seeds; the broken ones beside them show the power.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim
from hockeystick.audits.catalogue.every_case import catalogue, select
from hockeystick.audits.catalogue.mechanisms.mechanisms import (
    Impostor,
    inverted_response,
    largest_then_noise,
    mechanism_cases,
    one_noise_for_all,
)
from hockeystick.audits.catalogue.parts.cases import STATED_CONFIDENCE, Case, Subject
from hockeystick.audits.catalogue.parts.views import LossOf
from hockeystick.audits.catalogue.run import CaseResult, case_seed, run_catalogue
from hockeystick.audits.targets.calling import TargetError
from hockeystick.mechanisms import Gaussian, Laplace, check_mechanism

CASES = {case.name: case for case in catalogue()}
BASELINES = ("learner/noisy-hedge", "learner/laplace-per-query", "learner/limited-updates")


def laplace_case(name: str = "laplace", *, scale: float = 1.0, samples: int = 2_000, **more: Any) -> Case:
    """Laplace noise claimed to be 1-DP."""

    def target(data: float, rng: np.random.Generator, runs: int) -> Any:
        return data + rng.laplace(scale=scale, size=runs)

    def build() -> Subject:
        return Subject(target=target, neighbours=(0.0, 1.0), claim=Claim(1.0), truth=1 / scale)

    return Case(name=name, build=build, broken=scale < 1, samples=samples, **more)


# --- cases -----------------------------------------------------------------------------------------------------------


def test_names_are_unique_and_state_the_kind() -> None:
    assert len(CASES) == len(catalogue()) > 150
    assert {name.split("/")[0] for name in CASES} == {"zoo", "mechanism", "learner"}
    for case in CASES.values():  # a mutant stands beside what it mutates
        if case.name.startswith(("mechanism/", "learner/")) and "[" in case.name and case.broken:
            assert case.name.split("[")[0] in CASES, case.name


def test_a_case_is_built_once_on_first_use() -> None:
    built = []

    def build() -> Subject:
        built.append(1)
        return Subject(target=len, neighbours=(0, 1), claim=Claim(1.0), truth=math.inf)

    case = Case(name="x", build=build, broken=True, samples=100, options={"bits": True})
    assert not built
    assert case.target is len and case.neighbours == (0, 1) and case.claim == Claim(1.0) and case.truth == math.inf
    assert built == [1] and case.options["bits"] is True
    with pytest.raises(TypeError):
        case.options["bits"] = False  # type: ignore[index]


def test_a_case_is_audited_with_its_own_options() -> None:
    """Exceptions count as outputs, unless the audit says that they do not."""

    def fails(data: float, rng: np.random.Generator) -> float:
        raise ValueError("no number")

    subject = Subject(target=fails, neighbours=(0.0, 1.0), claim=Claim(1.0), truth=0.0)
    case = Case(name="fails", build=lambda: subject, broken=False, samples=60, options={"exceptions_as_output": True})
    verdict = case.audit(rng=1)
    assert verdict.samples == 60 and verdict.confidence == STATED_CONFIDENCE and not verdict.refuted
    assert case.audit(rng=1, samples=40, confidence=0.99).samples == 40
    with pytest.raises(TargetError):
        case.audit(rng=1, exceptions_as_output=False)


def test_bad_cases_are_refused() -> None:
    fine: dict[str, Any] = {"name": "x", "build": lambda: None, "broken": False, "samples": 100}
    changed: list[dict[str, Any]] = [{"name": " "}, {"samples": 3}, {"samples": 2.5}, {"samples": True}]
    for changes in changed:
        with pytest.raises(InvalidArgumentError):
            Case(**fine | changes)
    for truth in (math.nan, -1.0, True):
        with pytest.raises(InvalidArgumentError, match="truth"):
            Subject(target=len, neighbours=(0, 1), claim=Claim(1.0), truth=truth)


def test_patterns_select_cases() -> None:
    assert [case.name for case in select()] == list(CASES)
    zoo = [case.name for case in select("zoo/svt-?@1")]
    assert zoo == [f"zoo/svt-{i}@1" for i in range(1, 7)]
    whole = select("mechanism/laplace[half the scale]", "zoo/laplace@1", "zoo/laplace@?")
    assert [case.name for case in whole] == ["zoo/laplace@1", "mechanism/laplace[half the scale]"]
    assert [case.name for case in select("*laplace[[]half*")] == [
        "mechanism/laplace[half the scale]",
        "mechanism/discrete-laplace[half the scale]",
    ]
    with pytest.raises(InvalidArgumentError, match="'Zoo/\\*': matches no case"):
        select("zoo/*", "Zoo/*")


@pytest.mark.statistical
def test_mutants_claim_more_privacy_than_they_have_where_it_is_known() -> None:
    for case in CASES.values():
        if case.name.startswith(("mechanism/", *BASELINES)) and case.oracle:
            truth = case.truth
            assert truth is not None
            assert case.broken == (truth > case.claim.epsilon * (1 + 1e-9)), case.name


@pytest.mark.parametrize("case", [c for c in mechanism_cases() if c.oracle and not c.broken], ids=lambda c: c.name)
def test_tight_curves_are_those_of_the_neighbours(case: Case) -> None:
    """Hockey-stick divergences of simulated losses: within 5 standard errors (6e-7) of the event's curve."""
    mechanism, pair = case.target, case.neighbours
    losses = mechanism.log_likelihood_ratio(mechanism.simulate(pair[0], np.random.default_rng(1), 20_000), *pair)
    other = -mechanism.log_likelihood_ratio(mechanism.simulate(pair[1], np.random.default_rng(2), 20_000), *pair)
    for epsilon in (0.0, case.claim.epsilon / 2):
        found = []
        for loss in (losses, other):
            excess = np.maximum(0.0, -np.expm1(epsilon - loss))
            found.append((excess.mean(), 5 * excess.std() / math.sqrt(len(loss))))
        exact = float(accounting.delta(mechanism.event(), epsilon))
        assert all(mean <= exact + error for mean, error in found), epsilon
        assert any(mean >= exact - error for mean, error in found), epsilon


# --- what mutants are made of ----------------------------------------------------------------------------------------


def test_an_impostor_claims_one_mechanism_and_samples_another() -> None:
    impostor = Impostor(Gaussian(2.0), Laplace(1.0), neighbours=(0.0, 3.0))
    assert impostor.event() == Gaussian(2.0).event() and impostor.worst_case_neighbours() == (0.0, 3.0)
    assert Impostor(Gaussian(2.0), Laplace(1.0)).worst_case_neighbours() == Gaussian(2.0).worst_case_neighbours()
    drawn = impostor.simulate(5.0, np.random.default_rng(1), 9)
    assert np.array_equal(drawn, Laplace(1.0).simulate(5.0, np.random.default_rng(1), 9))
    check_mechanism(impostor, 1.0)


def test_functions_that_mutants_sample() -> None:
    rng = np.random.default_rng(1)
    same = one_noise_for_all([1.0, 4.0], rng, 50, scale=2.0)
    assert same[:, 1] - same[:, 0] == pytest.approx(3.0) and len(np.unique(same[:, 0])) == 50
    after = largest_then_noise(np.array([0.0, 2.0, 1.0]), rng, 50, scale=2.0)
    assert set(after[:, 0]) == {1.0} and len(np.unique(after[:, 1])) == 50
    lies = inverted_response(3, rng, 40_000, epsilon=0.5, categories=10)
    share = math.exp(0.5) / (math.exp(0.5) + 9)
    assert abs(np.mean(lies != 3) - share) < 5 * math.sqrt(share / 40_000)
    assert set(lies) == set(range(10))


def test_losses_of_learners_are_cut() -> None:
    class Learner:
        def simulate(self, losses: float, rng: np.random.Generator, runs: int) -> Any:
            return np.full(runs, losses)

        def log_likelihood_ratio(self, found: Any, first: float, second: float) -> Any:
            return found * (first - second)

    target = LossOf(Learner(), (math.inf, 0.0))
    assert target(1.0, np.random.default_rng(1), 3).tolist() == [100.0] * 3


# --- runs ------------------------------------------------------------------------------------------------------------


def test_the_error_is_shared_out() -> None:
    """Bonferroni: 1 - (1 - 0.99)/4 for each of four cases, whether or not some are skipped."""
    cases = [laplace_case(f"case {i}", samples=100) for i in range(4)]
    results = list(run_catalogue(cases, confidence=0.99, rng=1, skip=["case 2"]))
    assert [result.name for result in results] == ["case 0", "case 1", "case 3"]
    assert {result.verdict.confidence for result in results} == {1 - (1 - 0.99) / 4}


def test_outputs_depend_on_the_seed_and_the_name_alone() -> None:
    alone = next(run_catalogue([laplace_case("b")], rng=5))
    last = list(run_catalogue([laplace_case("a"), laplace_case("b")], rng=5))
    assert alone.verdict.seed == last[1].verdict.seed == case_seed(5, "b") != last[0].verdict.seed
    assert case_seed(6, "b") != case_seed(5, "b")
    assert alone.verdict.seed != next(run_catalogue([laplace_case("b")])).verdict.seed


@pytest.mark.statistical
def test_samples_and_seconds() -> None:
    shown: list[tuple[str, float]] = []
    case = laplace_case(samples=3_000)
    assert next(run_catalogue([case], rng=1)).verdict.samples == 3_000
    assert next(run_catalogue([case], samples=100, rng=1)).verdict.samples == 100
    assert next(run_catalogue([case], seconds=1e4, rng=1)).verdict.samples == 3_000
    short = next(
        run_catalogue([evolve(case, samples=10**9)], seconds=0.3, rng=1, progress=lambda *at: shown.append(at))
    )
    assert 20 <= short.verdict.samples < 10**8
    assert shown[0] == ("laplace", 0.0) and shown[-1] == ("laplace", 1.0)


def test_each_case_states_its_expected_outcome() -> None:
    found = list(
        run_catalogue(
            [
                laplace_case("right"),
                laplace_case("wrong", scale=0.5),
                laplace_case("missed", scale=0.99),
                laplace_case("few", scale=0.99, samples=1_000_000),
            ],
            samples=2_000,
            rng=1,
        )
    )
    assert [result.as_expected for result in found] == [True, True, False, None]
    assert [result.truth for result in found] == [1.0, 2.0, 1 / 0.99, 1 / 0.99]
    alarm = evolve(found[1], broken=False)
    assert alarm.as_expected is False


def test_results_survive_json() -> None:
    result = next(run_catalogue([laplace_case(scale=0.5)], rng=1))
    for kept in (result, evolve(result, truth=math.inf), evolve(result, truth=None)):
        assert CaseResult.from_dict(json.loads(json.dumps(kept.to_dict(), allow_nan=False))) == kept
    for broken in ({}, {**result.to_dict(), "more": 1}, {**result.to_dict(), "verdict": 3}, None):
        with pytest.raises(InvalidArgumentError):
            CaseResult.from_dict(broken)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"samples": 3}, "samples"),
        ({"samples": 2.5}, "samples"),
        ({"seconds": 0.0}, "seconds"),
        ({"seconds": math.nan}, "seconds"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.4}, "confidence"),
        ({"rng": -1}, "rng"),
        ({"rng": True}, "rng"),
        ({"cases": []}, "cases"),
        ({"cases": [laplace_case(), laplace_case()]}, "cases"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_drawn(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{name}="):
        run_catalogue(**{"cases": [laplace_case()], **changes})


# --- the catalogue itself --------------------------------------------------------------------------------------------

ON_DEMAND = {name for name, case in CASES.items() if case.broken and case.samples > 16_000}
"""More samples than a test should draw: ``hockeystick catalogue run`` refutes these."""

ELSEWHERE = ("learner/fed-", "learner/kl-", "learner/labels-", "learner/smoothed", "learner/private-linucb")
"""All of these are audited in test_audit_federated*.py, _kl*.py, _distribution*.py, _smoothed*.py and bandits/."""


TWICE = {
    "learner/l2p[no fake switches]",
    "learner/l2p-rarely-fake:actions[inverted fake coin]",
    "learner/lazy-dartboard:actions[no fake switches]",
    "learner/lazy-dartboard[decisions every round]",
}
"""Mutants that lazy/test_experts.py plants in another view or variant as well, with many samples."""


ZOO = [name for name, case in CASES.items() if name.startswith("zoo/") and not case.broken][::4]
"""Of the correct ones of the literature, those that CI audits."""


def in_depth(case: Case) -> bool:
    """Whether a case adds little: exact curves are compared above, lazy experts audited in lazy/test_experts.py."""
    if case.broken:
        return case.name in TWICE or case.name.startswith("mechanism/") and case.samples > 8_000
    known = case.name.startswith("mechanism/") and case.oracle != ""
    known |= case.name.startswith("zoo/") and case.name not in ZOO
    return known or case.name.endswith("@0.1") or case.name.startswith(("learner/l2p", "learner/lazy-dartboard"))


@pytest.mark.statistical
@pytest.mark.parametrize("deep", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_broken_cases_are_refuted_and_correct_ones_are_not(deep: bool) -> None:
    """Broken ones at their stated samples, correct ones at 2,000 or 4,000 at most; each at 1 - 1e-6."""
    here = [case for name, case in CASES.items() if name not in ON_DEMAND and not name.startswith(ELSEWHERE)]
    chosen = [case for case in here if in_depth(case) is deep or (deep and not case.broken)]
    most = 4_000 if deep else 2_000
    chosen = [case if case.broken else evolve(case, samples=min(case.samples, most)) for case in chosen]
    assert sum(case.broken for case in chosen) > (9 if deep else 50)
    assert sum(not case.broken for case in chosen) > (90 if deep else 40)
    confidence = 1 - (1 - STATED_CONFIDENCE) * len(chosen)
    results = list(run_catalogue(chosen, confidence=confidence, rng=1))
    assert all(result.verdict.confidence == pytest.approx(STATED_CONFIDENCE, abs=1e-12) for result in results)
    assert [result.name for result in results if not result.as_expected] == []
    for result in results:
        if result.truth is not None:  # with probability 1 - 1e-6 each
            assert result.verdict.epsilon_lower <= result.truth * (1 + 1e-9), result.name
