"""Tests of lower bounds on federated regret: exact values, never violated by private learners, violated by others."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_scripts import benchmark
from benchmark_scripts import experiment_script as script
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import LazyExperts, MultiplicativeWeights
from hockeystick.learners.federated.limited_updates import LimitedUpdates
from hockeystick.learners.federated.lower_bounds import (
    PackingAdversary,
    federated_regret,
    group_curve,
    independent_floor,
    one_select,
    packing_floor,
    packing_margin,
    policy_average,
    printed_one_select,
    printed_private_floor,
    printed_step,
    regret_floor,
    shared_floor,
    shared_losses,
    theorem_3,
)
from hockeystick.learners.federated.noisy_hedge import NoisyHedge
from hockeystick.learners.lazy import ParallelEpochLearner

FALSE_ALARM = 1e-6
WITHIN = float(stats.norm.isf(FALSE_ALARM / 2))


# --- shared losses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rounds", "experts"), [(1, 2), (3, 3), (4, 3), (6, 2)])
def test_the_shared_floor_is_the_mean_over_all_coins(rounds: int, experts: int) -> None:
    streams = itertools.product((0, 1), repeat=rounds * experts)
    least = [min(np.reshape(coins, (rounds, experts)).sum(axis=0)) for coins in streams]
    assert shared_floor(rounds=rounds, experts=experts) == pytest.approx(rounds / 2.0 - np.mean(least), rel=1e-12)


def test_the_shared_floor_grows_like_its_rate() -> None:
    """Over sqrt(T ln(d) / 2): E max of d normals for many rounds, and from there to 1, slowly, with the experts."""
    shares = []
    for experts in (2, 64, 1000, 10**6, 10**12):
        z = np.linspace(-12.0, 12.0, 4801)
        density = experts * np.exp(-0.5 * z**2 + (experts - 1) * special.log_ndtr(z)) / math.sqrt(2.0 * math.pi)
        rate = math.sqrt(10**6 * math.log(experts) / 2.0)
        shares.append(shared_floor(rounds=10**6, experts=experts) / rate)
        assert shares[-1] == pytest.approx(math.sqrt(10**6 / 4.0) * np.sum(z * density) * 0.005 / rate, rel=2e-3)
    np.testing.assert_allclose(shares[:3], [0.479, 0.813, 0.872], atol=1e-3)
    assert all(a < b < 1.0 for a, b in zip(shares, shares[1:], strict=False))


@pytest.mark.parametrize("clients", [1, 16, 10**4])
def test_regret_on_shared_coins_is_the_floor_for_any_number_of_clients(clients: int) -> None:
    """Mean over 300 streams within the interval of level 1 - 1e-6; on constant losses, the twin, it is not."""
    learner = NoisyHedge.calibrated(clients=clients, rounds=64, experts=4, epsilon=1.0)
    floor = shared_floor(rounds=64, experts=4)
    rng = np.random.default_rng(21)
    found = np.array([learner.regrets(shared_losses(rounds=64, experts=4, rng=rng), rng, 1)[0] for _ in range(300)])
    assert abs(found.mean() - floor) <= WITHIN * found.std(ddof=1) / math.sqrt(len(found))
    constant = learner.regrets(np.tile([0.0, 1.0, 1.0, 1.0], (64, 1)), rng, 300)
    assert abs(constant.mean() - floor) > WITHIN * constant.std(ddof=1) / math.sqrt(len(constant))


def test_separate_losses_are_easier_by_the_root_of_the_number_of_clients() -> None:
    shared = shared_floor(rounds=1000, experts=8)
    assert independent_floor(clients=1, rounds=1000, experts=8) == shared
    for clients in (4, 100, 10_000):
        assert independent_floor(clients=clients, rounds=1000, experts=8) == pytest.approx(
            shared / math.sqrt(clients), rel=1e-3
        )


# --- the price of privacy --------------------------------------------------------------------------------------------


@pytest.mark.statistical
@settings(max_examples=200)
@given(st.floats(0.0, 1.0), st.integers(0, 40), st.floats(1e-3, 10.0), st.one_of(st.just(0.0), st.floats(1e-9, 1.0)))
def test_the_group_curve_is_the_iterate(chance: float, changes: int, epsilon: float, delta: float) -> None:
    p = chance
    for _ in range(changes):
        p = min(math.exp(epsilon) * p + delta, 1.0 - math.exp(-epsilon) * (1.0 - delta - p), 1.0)
    found = group_curve(chance, np.array([changes, 0]), epsilon=epsilon, delta=delta)
    np.testing.assert_allclose(found, [p, chance], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 1e3])
def test_extreme_groups_have_the_limit_values(epsilon: float) -> None:
    found = group_curve(0.25, [0, 1, 10**12], epsilon=epsilon)
    assert found[0] == 0.25 and (np.diff(found) >= 0.0).all() and found[-1] == pytest.approx(1.0)
    np.testing.assert_array_equal(group_curve(0.0, [0, 5], epsilon=epsilon), [0.0, 0.0])
    np.testing.assert_array_equal(group_curve(1.0, [0, 5], epsilon=epsilon), [1.0, 1.0])


def best_private_regret(rounds: int, clients: int, experts: int, epsilon: float, delta: float) -> float:
    """The least mean regret per client of chances that obey privacy along the packing sequences alone: iterated."""
    total, p = 0.0, 1.0 / experts
    for _ in range(rounds):
        total += 1.0 - p
        for _ in range(clients):
            p = min(math.exp(epsilon) * p + delta, 1.0 - math.exp(-epsilon) * (1.0 - delta - p), 1.0)
    return total


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize(
    ("clients", "rounds", "experts", "epsilon"), [(1, 50, 2, 0.1), (3, 9, 5, 0.2), (7, 4, 33, 1.0)]
)
def test_the_packing_floor_adds_up_what_privacy_leaves(
    clients: int, rounds: int, experts: int, epsilon: float, delta: float
) -> None:
    setting: dict[str, Any] = {
        "clients": clients,
        "rounds": rounds,
        "experts": experts,
        "epsilon": epsilon,
        "delta": delta,
    }
    assert packing_floor(**setting) == pytest.approx(best_private_regret(rounds, clients, experts, epsilon, delta))
    # The first play of a changed entry has heard of none.
    assert packing_floor(**setting, entries=1) == pytest.approx((1.0 - 1.0 / experts) / clients)
    by_entries = [packing_floor(**setting, entries=q) for q in range(1, clients * rounds + 1)]
    assert by_entries[-1] == packing_floor(**setting) > max(by_entries) - 1.0


@pytest.mark.statistical
@settings(max_examples=200)
@given(st.integers(1, 1000), st.integers(1, 5000), st.integers(2, 10**4), st.floats(1e-4, 1.0), st.booleans())
def test_the_packing_floor_is_above_theorem_3(
    clients: int, rounds: int, experts: int, epsilon: float, pure: bool
) -> None:
    """At its entries and at all of them, for 5 experts or more (2 under pure privacy) at delta = eps/d."""
    delta = 0.0 if pure else epsilon / experts
    setting: dict[str, Any] = {"clients": clients, "rounds": rounds, "experts": experts, "epsilon": epsilon}
    printed = theorem_3(**setting, delta=delta).value
    if printed > 0.0:
        q = PackingAdversary.printed(**setting).entries
        assert printed == pytest.approx(q / (16.0 * clients))
        direct = packing_floor(**setting, delta=delta, entries=q)
        loss = 1.0 / math.sqrt(experts) * (1.0 if pure else 2.0)
        assert min(direct, packing_floor(**setting, delta=delta)) >= q / clients * (1.0 - loss) * (1 - 1e-9)
        if pure or experts >= 5:
            assert 1.0 - loss >= 1.0 / 16.0
    # Rounding q down costs at most half of ln(d) / (32 m eps), where that many entries exist.
    if experts >= 32 and math.log(experts) / (2.0 * epsilon) <= clients * rounds:
        assert printed >= 0.5 * math.log(experts) / (32.0 * clients * epsilon)


def test_the_thresholds_of_theorem_3() -> None:
    """0.4990 at 31 experts, 0.5135 at 32; the printed step from 75 on; pure privacy from 8 on."""
    assert packing_margin(31) == pytest.approx(0.4990, abs=5e-5)
    assert packing_margin(32) == pytest.approx(0.5135, abs=5e-5)
    assert [d for d in range(3, 500) if not printed_step(d).holds][-1] == 74
    assert [d for d in range(2, 500) if packing_margin(d) <= 0.5][-1] == 31
    assert [d for d in range(2, 500) if packing_margin(d, pure=True) <= 0.5][-1] == 7
    for experts, holds in ((31, False), (32, True)):
        found = theorem_3(clients=2, rounds=1000, experts=experts, epsilon=0.1, delta=0.1 / experts)
        assert [condition.holds for condition in found.conditions] == [True, True, holds]
    # q = 17 of ln(32) / 0.2 = 17.3
    assert found.value == pytest.approx(17 / 32.0)


def test_the_printed_floor_does_not_depend_on_the_number_of_clients() -> None:
    few, many = (printed_private_floor(clients=m, rounds=4096, experts=2, epsilon=1 / 1024) for m in (1, 10**6))
    assert few.value == many.value == pytest.approx(709.78, abs=0.01)
    assert "does not hold" in few.source and few.conditions[0].holds
    # For one client (or where a whole round is protected as one) what is proved here is of its order.
    for experts in (2, 64, 10**4):
        setting: dict[str, Any] = {"rounds": 10**5, "experts": experts, "epsilon": 0.01}
        proved = packing_floor(clients=1, **setting)
        assert 0.6 < proved / printed_private_floor(clients=1, **setting).value <= 1.0


@pytest.mark.parametrize("clients", [1, 16, 1000, 10**6])
@pytest.mark.parametrize(("rounds", "experts", "inverse"), [(1024, 2, 128), (512, 64, 32)])
@pytest.mark.every(3)
def test_no_private_learner_is_below_the_corrected_floor(clients: int, rounds: int, experts: int, inverse: int) -> None:
    """On the packing adversary, by the mean of 20 runs and 4.9 standard errors.

    The experts are alike to this learner, so that one secret expert stands for all. Its regret is so far above the
    floor that a false alarm has a probability far below 1e-6.
    """
    learner = NoisyHedge.calibrated(clients=clients, rounds=rounds, experts=experts, epsilon=1.0 / inverse)
    floor = regret_floor(clients=clients, rounds=rounds, experts=experts, epsilon=1.0 / inverse)
    assert floor.value == max(floor.shared, floor.packing)
    rng = np.random.default_rng(22)
    for entries in {
        clients * rounds,
        PackingAdversary.printed(clients=clients, rounds=rounds, experts=experts, epsilon=1.0 / inverse).entries,
    }:
        adversary = PackingAdversary(clients=clients, rounds=rounds, experts=experts, entries=entries)
        found = learner.regrets(adversary.average(1), rng, 20)
        least = packing_floor(clients=clients, rounds=rounds, experts=experts, epsilon=1.0 / inverse, entries=entries)
        assert found.mean() + WITHIN * found.std(ddof=1) / math.sqrt(20) >= least
    assert learner.regret_bound() >= floor.value


def test_other_private_learners_are_above_the_floor() -> None:
    """Of one client: pure epsilon from each graph; exact expected regret, so no false alarms."""
    rounds, experts = 600, 8
    adversary = PackingAdversary(clients=1, rounds=rounds, experts=experts, entries=rounds)
    parallel = ParallelEpochLearner(rounds=rounds, experts=experts, epoch=600, epsilon=0.02)
    lazy = LazyExperts(rounds=rounds, experts=experts, batch=60, learning_rate=0.01, fake_switch_probability=0.3)
    limited = LimitedUpdates(rounds=rounds, experts=experts, learning_rate=0.02)
    for learner in (parallel, lazy, limited):
        graph: Any = learner.graph()
        epsilon = graph.guarantee().epsilon(0.0).upper
        regret = np.mean([learner.expected_regret(adversary.average(j)) for j in range(experts)])
        floor = packing_floor(clients=1, rounds=rounds, experts=experts, epsilon=epsilon)
        assert regret >= floor > 0.0


def test_learners_without_privacy_are_below_the_floor() -> None:
    """The planted violations: Hedge, and the noisy learner with a hundredth of the noise that it claims."""
    rounds, experts, epsilon = 2000, 8, 0.01
    floor = packing_floor(clients=1, rounds=rounds, experts=experts, epsilon=epsilon)
    losses = PackingAdversary(clients=1, rounds=rounds, experts=experts, entries=rounds).average(3)
    assert MultiplicativeWeights(rounds=rounds, experts=experts).expected_regret(losses) < floor
    honest = NoisyHedge.calibrated(clients=1, rounds=rounds, experts=experts, epsilon=epsilon)
    cheat = NoisyHedge(clients=1, rounds=rounds, experts=experts, scale=honest.scale / 1000.0)
    found = cheat.regrets(losses, np.random.default_rng(23), 20)
    assert found.mean() + WITHIN * found.std(ddof=1) / math.sqrt(20) < floor


# --- adversaries -----------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(2, 5), st.data())
def test_packing_losses_have_one_perfect_expert(clients: int, rounds: int, experts: int, data: st.DataObject) -> None:
    entries = data.draw(st.integers(1, clients * rounds))
    j = data.draw(st.integers(0, experts - 1))
    adversary = PackingAdversary(clients=clients, rounds=rounds, experts=experts, entries=entries)
    losses = adversary.losses(j)
    np.testing.assert_allclose(losses.mean(axis=0), adversary.average(j), atol=1e-15)
    in_order = losses.transpose(1, 0, 2).reshape(-1, experts)  # by rounds, and in a round by clients
    expected = np.zeros((clients * rounds, experts))
    expected[-entries:] = 1.0
    expected[:, j] = 0.0
    np.testing.assert_array_equal(in_order, expected)


def test_the_printed_number_of_entries_is_whole_and_fits() -> None:
    setting: dict[str, Any] = {"rounds": 10, "experts": 100}
    assert PackingAdversary.printed(clients=5, epsilon=0.1, **setting).entries == 23  # ln(100) / 0.2 = 23.03
    assert PackingAdversary.printed(clients=2, epsilon=1e-6, **setting).entries == 20  # all there are
    with pytest.raises(InvalidArgumentError, match="entries"):
        PackingAdversary.printed(clients=2, epsilon=10.0, **setting)  # ln(100) / 20 < 1


def test_shared_losses_are_coins() -> None:
    losses = shared_losses(rounds=10_000, experts=4, rng=np.random.default_rng(24))
    assert set(np.unique(losses)) == {0.0, 1.0}
    assert np.abs(losses.mean(axis=0) - 0.5).max() <= float(stats.norm.isf(FALSE_ALARM / 8)) * 0.005


# --- reductions ------------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.integers(1, 6), st.integers(1, 20), st.integers(2, 5), st.integers(0, 2**32))
def test_policies_average_on_shared_losses(clients: int, rounds: int, experts: int, seed: int) -> None:
    """To 1e-12; where losses differ between clients, the planted violation, the identity does not hold."""
    rng = np.random.default_rng(seed)
    policies = rng.dirichlet(np.ones(experts), size=(clients, rounds))
    shared = shared_losses(rounds=rounds, experts=experts, rng=rng)
    regret = federated_regret(policies, np.broadcast_to(shared, policies.shape))
    assert regret == pytest.approx(federated_regret(policy_average(policies)[None], shared[None]), abs=1e-12)


def test_policies_do_not_average_on_separate_losses() -> None:
    rng = np.random.default_rng(25)
    policies = rng.dirichlet(np.ones(3), size=(4, 10))
    losses = rng.random(policies.shape)
    averaged = federated_regret(policy_average(policies)[None], losses.mean(axis=0)[None])
    assert abs(federated_regret(policies, losses) - averaged) > 1e-3


def follow_the_leader(records: FloatArray, rng: np.random.Generator) -> NDArray[np.int64]:
    before = np.concatenate([np.zeros_like(records[:, :1]), np.cumsum(records, axis=1)[:, :-1]], axis=1)
    return np.asarray(np.argmin(before, axis=2))


def ends_badly(records: FloatArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """Follows the leader, and in the last round whom that has been furthest from: at most one unit of regret more."""
    plays = follow_the_leader(records, rng)
    plays[:, -1] = np.argmax(records[:, :-1].sum(axis=1), axis=1)
    return plays


def test_low_regret_does_not_determine_the_last_play() -> None:
    """Selection by an algorithm of low regret that ends badly: printed it fails every time, repaired it does not.

    The repaired one's excess loss is at most the regret over n, plus 6 standard errors of 4000 runs (1e-6 or less).
    """
    rng = np.random.default_rng(26)
    means, n, runs = np.array([0.2, 0.4, 0.4, 0.8]), 100, 4000
    records = (rng.random((runs, n, 4)) < means).astype(float)
    for algorithm, fails in ((follow_the_leader, False), (ends_badly, True)):
        regret = means[algorithm(records, rng)].sum(axis=1) - n * means.min()
        assert regret.mean() < 2.0
        printed = means[printed_one_select(records, algorithm, rng)] - means.min()
        fixed = means[one_select(records, algorithm, rng)] - means.min()
        assert fixed.mean() <= regret.mean() / n + WITHIN * fixed.std(ddof=1) / math.sqrt(runs)
        assert bool(printed.mean() > 0.5) is fails


# --- the experiment --------------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[3]


@pytest.mark.statistical
def test_the_experiment_at_small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, module = benchmark("frame"), script("federated.fed_lower_bounds")
    monkeypatch.setattr(module, "GOOD", (1024, 64, 100))
    report = module.experiment(
        frame.Cells(), settings=((512, 2, 128), (256, 16, 32)), clients=(1, 10**6, 10**8), runs=4, streams=50
    )
    kept = dict(report.checks)
    assert len(kept) == 8
    # So few rounds are no refutation: Hedge's own regret is above a tenth of the printed bound; all else holds.
    assert sum(kept.values()) >= 6
    assert all(holds for statement, holds in kept.items() if "tenth" not in statement)
    assert report.table.count("\n| 512 | 2 | 128 |") == 3
    assert frame.svg(report.draw).count("<svg") == 1


def test_the_experiments_sequences() -> None:
    module = script("federated.fed_lower_bounds")
    totals = {name: module.sequence(name, 4, 3, 1).sum(axis=0).tolist() for name in ("constant", "alternating", "flip")}
    assert totals == {"constant": [0, 4, 4], "alternating": [2, 2, 0], "flip": [2, 2, 4]}
    packing = module.sequence("packing", 100, 3, 100)  # ln(3) 100 / 2 = 54.9
    np.testing.assert_array_equal(packing.sum(axis=0), [54, 54, 0])
    assert packing[:46].sum() == 0


# --- arguments -------------------------------------------------------------------------------------------------------


def test_bad_arguments_are_refused() -> None:
    setting: dict[str, Any] = {"clients": 2, "rounds": 3, "experts": 4, "epsilon": 0.5}
    laws = np.full((2, 3, 4), 0.25)
    for name, bad in (("clients", 0), ("clients", True), ("rounds", 0), ("rounds", 2.5), ("experts", 1)) + (
        ("epsilon", 0.0),
        ("epsilon", math.nan),
        ("epsilon", math.inf),
        ("delta", -0.1),
        ("delta", 1.1),
    ):
        for call in (packing_floor, regret_floor, theorem_3):
            with pytest.raises(InvalidArgumentError, match=name):
                call(**{**setting, name: bad})
    for other in (
        lambda: packing_floor(**setting, entries=0),
        lambda: packing_floor(**setting, entries=7),
        lambda: PackingAdversary(clients=2, rounds=3, experts=4, entries=7),
        lambda: PackingAdversary(clients=2, rounds=3, experts=4, entries=6).average(4),
        lambda: PackingAdversary(clients=2, rounds=3, experts=4, entries=6).losses(-1),
        lambda: group_curve(0.5, [-1], epsilon=1.0),
        lambda: group_curve(0.5, [0.5], epsilon=1.0),
        lambda: group_curve(0.5, [math.nan], epsilon=1.0),
        lambda: group_curve(1.5, [1], epsilon=1.0),
        lambda: shared_floor(rounds=0, experts=2),
        lambda: independent_floor(clients=0, rounds=1, experts=2),
        lambda: packing_margin(1),
        lambda: policy_average(laws * 2.0),
        lambda: policy_average(np.zeros((0, 3, 4))),
        lambda: policy_average(laws[0]),
        lambda: federated_regret(laws, np.full((2, 3, 3), 0.5)),
        lambda: federated_regret(laws, np.full((2, 3, 4), 1.5)),
        lambda: one_select(np.full((2, 3, 4), math.nan), follow_the_leader, np.random.default_rng(0)),
        lambda: printed_one_select(np.zeros((0, 3, 4)), follow_the_leader, np.random.default_rng(0)),
        lambda: printed_one_select(laws, lambda records, rng: np.full((2, 3), 4), np.random.default_rng(0)),
        lambda: printed_one_select(laws, lambda records, rng: np.zeros((2, 2), int), np.random.default_rng(0)),
    ):
        with pytest.raises(InvalidArgumentError):
            other()
