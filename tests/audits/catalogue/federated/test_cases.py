"""Tests of audits of the federated learners: exact numbers of worst pairs, the laws of targets, the catalogue's correct
cases.

Audits are at confidence 1 - 1e-6: a correct learner is refuted with at most that probability, whatever its true loss.
The mutants, which have to be refuted, are in test_mutants.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from benchmark_scripts import experiment_script
from mutant_table import each_third

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, audit
from hockeystick.audits.catalogue.federated.cases import federated_cases, for_one_expert, read_twice, svt_learner
from hockeystick.audits.catalogue.federated.one_good_expert import SVT_DEFECTS, BrokenThresholds, SVTDefect, one_loss
from hockeystick.audits.catalogue.federated.stochastic import (
    KinkedLosses,
    StochTarget,
    kinked_target,
    one_phase,
    root_target,
)
from hockeystick.audits.catalogue.parts.cases import STATED_CONFIDENCE, Case
from hockeystick.learners.federated.limited_updates import LimitedUpdates
from hockeystick.learners.federated.stochastic.exact_winners import leaf_law
from hockeystick.learners.network.threat_models import ThreatModel

FALSE_ALARM = 1e-6
CASES = {case.name.removeprefix("learner/"): case for case in federated_cases()}


def audited(case: Case, samples: int) -> Any:
    return case.audit(samples=samples, rng=7)


def epsilon_at(target: StochTarget) -> float:
    return target.exact().epsilon(0.0)[0]


# --- exact numbers of worst pairs (golden values) -------------------------------------------------


@pytest.mark.parametrize(("experts", "expected"), [(2, 0.498), (8, 0.989), (32, 1.000)])
def test_a_root_record_nearly_attains_the_printed_epsilon(experts: int, expected: float) -> None:
    assert epsilon_at(root_target(one_phase(scale=4.0, experts=experts))) == pytest.approx(expected, abs=1e-3)


def test_a_secret_order_costs_at_most_the_amplified_epsilon() -> None:
    """Two thirds of 1024 losses are read: 0.656, within 0.763."""
    secret = one_phase(scale=8.0 / 682, doublings=10, batch=682, assignment="secret")
    certified = secret.graph().guarantee(view="output").epsilon(0.0).upper
    assert certified == pytest.approx(0.763, abs=1e-3)
    assert epsilon_at(root_target(secret)) == pytest.approx(0.656, abs=1e-3)
    assert epsilon_at(root_target(evolve(secret, setting=evolve(secret.setting, assignment="contiguous")))) > certified


@pytest.mark.parametrize("clients", [2, 4, 7])
def test_colluding_clients_leave_the_loss_of_one(clients: int) -> None:
    """F40. Unknown noise of other clients hides more; a trusted server's noise hides as much as one client's."""
    alone = epsilon_at(root_target(one_phase(scale=4.0)))
    many = one_phase(scale=4.0, clients=clients)
    central = one_phase(scale=4.0 / clients, clients=clients, where="server")
    assert epsilon_at(root_target(many, view=ThreatModel.CLIENT)) == pytest.approx(alone, abs=1e-9)
    assert epsilon_at(root_target(central, view=ThreatModel.CLIENT)) == pytest.approx(alone, abs=1e-9)
    assert epsilon_at(root_target(many)) < 0.8 * alone


@pytest.mark.statistical
def test_known_noise_never_exceeds_the_certificate() -> None:
    """Given any noise of the others, the privacy loss of winners of two leaves is at most 1; constant noise gives the
    largest loss."""
    rng, up = np.random.default_rng(1), np.full(8, 0.5)
    up[0] = -0.5
    most = 0.0
    for size in (0.1, 1.0, 4.0):
        for _ in range(15):
            known = rng.laplace(scale=size, size=(2, 8))
            found = sum(np.abs(leaf_law(z + up, scale=4.0) - leaf_law(z - up, scale=4.0)).max() for z in known)
            most = max(most, float(found))
    assert 0.9 < most <= 1.0 + 1e-9


def test_a_right_child_costs_twice_the_printed_epsilon() -> None:
    """R/lambda = 2 at the printed scale; 5.3 (1) doubles it. With a record's correction clipped, hardly anything."""
    kinked = KinkedLosses(kink=0.8)
    printed = one_phase(scale=4.0, family=kinked, smoothness=None)
    assert 1.6 < epsilon_at(kinked_target(printed)) < 1.9
    assert epsilon_at(kinked_target(evolve(printed, setting=one_phase(scale=8.0, smoothness=None).setting))) <= 1.0
    assert epsilon_at(kinked_target(one_phase(scale=4.0, family=kinked, smoothness=0.01))) < 0.02


def test_a_loss_read_at_the_root_and_its_right_child_costs_no_more() -> None:
    """With one tree, the correction cancels the record's effect at the root. Two places at the root cost twice."""
    for scale, most in ((8.0, 1.0), (4.0, 2.0)):
        target = kinked_target(one_phase(scale=scale, family=KinkedLosses(kink=0.8), smoothness=None))
        for stream in target.neighbours:
            stream[0, target.round - 2] = stream[0, target.round - 1]  # the root's second place
        first, second = (target._gradients(stream)[0, 0] for stream in target.neighbours)
        assert float(np.ptp(first - second, axis=1).sum()) / scale == pytest.approx(most)
    assert epsilon_at(read_twice(one_phase(scale=4.0))) == pytest.approx(1.963, abs=1e-3)


def test_thresholds_of_the_printed_noise() -> None:
    """b1 = 4 and b2 = 8: 0.247 of 1/b1 on "below, eight times"; and M10's numbers where b1 is 0."""
    made = svt_learner(threshold=0.0, threshold_scale=4.0, query_scale=8.0)
    first, second = one_loss(made, at=1)
    below = np.zeros((1, 8), np.bool_)
    ratio = BrokenThresholds(learner=made).log_likelihood_ratio(below, first, second)
    assert float(ratio[0]) == pytest.approx(0.247, abs=1e-3) and ratio[0] <= 0.25
    for threshold, expected in ((20.0, (0.0151, 0.0085)), (10.0, None)):
        long = evolve(made, rounds=100, threshold=threshold)
        silent = BrokenThresholds(learner=long, defect="threshold without noise")
        p, q = (math.exp(silent.log_law(np.zeros((1, 100), np.bool_), each)[0]) for each in one_loss(long, at=1))
        if expected:
            assert (p, q) == pytest.approx(expected, abs=1e-4) and math.log(p / q) == pytest.approx(0.571, abs=1e-3)
        else:
            assert math.log(p / q) == pytest.approx(2.251, abs=1e-3)


def test_draws_of_limited_updates() -> None:
    """d = 64, ties: log-ratio .98 of an outcome of probability .026; d = 2: half of eta."""
    for experts, probability, ratio in ((64, 0.026, 0.98), (2, 0.622, 0.474)):
        law = [
            LimitedUpdates(rounds=2, experts=experts, learning_rate=1.0).marginals(stream)[1, 0]
            for stream in reversed(LimitedUpdates(rounds=2, experts=experts, learning_rate=1.0).worst_case_neighbours())
        ]
        p, q = max(law), min(law)
        assert p == pytest.approx(probability, abs=1e-3) and math.log(p / q) == pytest.approx(ratio, abs=0.03)


# --- the laws of targets ---------------------------------------------------------------------------------------------


def furthest(drawn: np.ndarray, law: np.ndarray) -> float:
    """The largest difference of frequencies and probabilities, over what Hoeffding allows at 1e-6 over all of them."""
    counts = np.bincount(drawn, minlength=len(law)) / len(drawn)
    return float(np.abs(counts - law).max() / math.sqrt(math.log(2 * len(law) / FALSE_ALARM) / (2 * len(drawn))))


@pytest.mark.parametrize("defect", [None, *SVT_DEFECTS])
def test_answers_follow_their_law(defect: SVTDefect | None) -> None:
    """40,000 runs, false alarm 1e-6; the law of twice the noise is caught."""
    made = svt_learner(rounds=4, switches=2)
    target, (stream, _) = BrokenThresholds(learner=made, defect=defect), one_loss(made, at=2, before=1.0, later=0.5)
    every = ((np.arange(16)[:, None] >> np.arange(4)) & 1).astype(np.bool_)
    every = every[every.sum(axis=1) <= 2]
    drawn = target.simulate(stream, np.random.default_rng(5), 40_000) @ (1 << np.arange(4))
    where = np.full(16, -1)
    where[every @ (1 << np.arange(4))] = np.arange(len(every))
    assert (where[drawn] >= 0).all()
    law = np.exp(target.log_law(every, stream))
    assert law.sum() == pytest.approx(1.0, abs=1e-9)
    assert furthest(where[drawn], law) <= 1.0
    other = BrokenThresholds(learner=evolve(made, threshold_scale=2.0, query_scale=2.0), defect=defect)
    assert furthest(where[drawn], np.exp(other.log_law(every, stream))) > 1.0


def test_without_a_defect_answers_are_those_of_the_learner() -> None:
    made = svt_learner(switches=3)
    pair = one_loss(made, at=3, before=1.0, later=0.5)
    runs = made.simulate(pair[0], np.random.default_rng(3), 500)
    ratios = made.log_likelihood_ratio(runs, *pair)
    np.testing.assert_allclose(
        BrokenThresholds(learner=made).log_likelihood_ratio(runs.above, *pair), ratios, atol=1e-9
    )


@pytest.mark.parametrize("name", ["root", "secret-order", "right-child", "colluding-clients", "trusted-server"])
def test_ratios_follow_their_law(name: str) -> None:
    """The mean of exp(-ratio) is 1 under the first world, and that of exp(ratio) under the second.

    Hoeffding over 30,000 runs with ratios in [-1, 1], false alarm 1e-6. With the opposite sign they fail.
    """
    target, runs = CASES[f"fed-stoch-{name}"].target, 30_000
    allowed = (math.e - 1 / math.e) * math.sqrt(math.log(4 / FALSE_ALARM) / (2 * runs))
    for stream, sign in zip(target.neighbours, (-1.0, 1.0), strict=True):
        ratio = target(stream, np.random.default_rng(2), runs)
        assert np.abs(ratio).max() <= 1.0 + 1e-9
        assert abs(np.exp(sign * ratio).mean() - 1.0) <= allowed
        if name == "right-child":
            assert abs(np.exp(-sign * ratio).mean() - 1.0) > allowed


def test_targets_are_checked() -> None:
    learner = one_phase(scale=4.0)
    with pytest.raises(InvalidArgumentError, match="defect"):
        root_target(learner, defect="none")
    with pytest.raises(InvalidArgumentError, match="defect"):
        BrokenThresholds(learner=svt_learner(), defect="none")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="learner"):
        root_target(one_phase(scale=4.0, noise="gumbel"))
    with pytest.raises(InvalidArgumentError, match="losses"):
        BrokenThresholds(learner=svt_learner()).simulate(for_one_expert(svt_learner())[0], np.random.default_rng(1), 10)
    with pytest.raises(InvalidArgumentError, match="blocks"):
        BrokenThresholds(learner=svt_learner(rounds=20)).exact(*one_loss(svt_learner(rounds=20), at=1))
    with pytest.raises(InvalidArgumentError, match="view"):
        root_target(learner, view=ThreatModel.SERVER).exact()
    with pytest.raises(InvalidArgumentError, match="kink"):
        KinkedLosses(kink=math.nan)
    with pytest.raises(InvalidArgumentError, match="runs"):
        root_target(learner)(root_target(learner).neighbours[0], np.random.default_rng(1), 0)


# --- the catalogue's cases -------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_names_of_cases_agree_with_claims_and_truths() -> None:
    for name, case in CASES.items():
        assert case.name.startswith("learner/") and case.broken == ("[" in name)
        assert name.split("[")[0] in CASES
        if case.truth is not None:
            assert case.broken == (case.truth > case.claim.epsilon * (1 + 1e-9)), name


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.broken])
@pytest.mark.every(3)
def test_correct_learners_are_not_refuted(name: str) -> None:
    """False alarm 1e-6 each; the broken cases are the twins."""
    verdict = audited(CASES[name], 4_000)
    assert verdict.outcome != "refuted"
    truth = CASES[name].truth
    assert truth is None or verdict.epsilon_lower <= truth


@pytest.mark.statistical
@pytest.mark.parametrize("name", each_third([name for name, case in CASES.items() if not case.broken]))
def test_correct_learners_are_not_refuted_by_many_runs(name: str) -> None:
    """As above, 100,000 runs from each data set."""
    assert audited(CASES[name], 100_000).outcome != "refuted"


@pytest.mark.statistical
def test_collusion_is_needed_for_the_loss_of_one() -> None:
    """Four clients are claimed to be 0.5-DP, which their plays are (0.496 on this pair), at confidence 1 - 1e-6.

    An adversary that knows the others' noise refutes it: 0.989 exactly.
    """
    found = {}
    for view in (ThreatModel.OUTPUT, ThreatModel.CLIENT):
        target = root_target(one_phase(scale=4.0, clients=4), view=view)
        found[view] = audit(
            target, claim=Claim(0.5), neighbours=target.neighbours, samples=150_000, rng=3, confidence=STATED_CONFIDENCE
        ).outcome
    assert found[ThreatModel.OUTPUT] != "refuted" and found[ThreatModel.CLIENT] == "refuted"


# --- the experiment --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def experiment() -> Any:
    return experiment_script("federated.fed_audits")


@pytest.mark.statistical
def test_a_million_runs_find_the_expected_bounds(experiment: Any) -> None:
    """Golden values: 95 % Clopper-Pearson, except where the quoted estimate is too high (23 draws)."""
    found = {name: compute() for name, (_, compute) in experiment.ROWS.items() if "messages" not in name}
    expected = {
        "winners; root, d = 2": (0.498, 0.491),
        "winners; root, d = 8": (0.989, 0.957),
        "winners; root, d = 32": (1.000, 0.870),
        "winners; secret order, two thirds read": (0.655, 0.624),
        "winners; three of four collude": (0.989, 0.957),
        "Fed-SVT: answers, eight blocks": (0.247, 0.227),
        "Fed-SVT: 23 draws": (0.25, 0.0986),
        "limited updates, d = 64": (0.984, 0.952),
    }
    for name, (exact, shown) in expected.items():
        assert found[name]["exact"] == pytest.approx(exact, abs=1e-3), name
        assert found[name]["found"] == pytest.approx(shown, abs=1e-3), name
    assert experiment.found_at_most(0.0, 0.5) == 0.0 == experiment.found_at_most(1e-9, 0.0)


def test_a_report_names_failed_checks(experiment: Any) -> None:
    """Twin: with 100 runs a broken learner is not refuted."""
    names, rows = ("fed-stoch-root", "fed-svt-thresholds[no noise]"), ("limited updates, d = 2",)
    cells = experiment.Cells()
    assert experiment.experiment(cells, rows, names).holds
    report = experiment.experiment(cells, rows, names, 100)
    assert list(report.checks.values()) == [True, True, True, False]
    assert "| fed-stoch-root | 1 |" in report.table


@pytest.mark.statistical
def test_messages_exceed_their_claim(experiment: Any) -> None:
    """Ten coordinates at the noise of one: 10^6 runs find 3.1, of 5, where 1 is claimed.

    That they find less than 2.5 has a probability far below 1e-6: the event's is 0.006, seen 6,000 times. Twin: d = 2.
    """
    two, ten = (experiment.ROWS[f"messages; root, d = {d}"][1]() for d in (2, 10))
    assert 2.5 < ten["found"] <= ten["exact"] == pytest.approx(5.0)
    assert two["found"] < 1.2 and two["exact"] == pytest.approx(1.0)
