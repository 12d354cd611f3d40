"""Tests of the lazy learner of experts: its plan, certificates, calibration and utility."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import diagonal
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, LazySwitchDecision
from hockeystick.learners import LazyExperts, MultiplicativeWeights
from hockeystick.learners.experts import batch_sums
from hockeystick.learners.lazy import exact_loss, paper_epsilon
from hockeystick.learners.lazy.experts.setting import Variant
from hockeystick.mechanisms import SimulationNoise


def _learner(n: int, batch: int, rate: float, p: float, variant: Variant = "l2p") -> LazyExperts:
    return LazyExperts(
        rounds=n * batch,
        experts=2,
        batch=batch,
        learning_rate=rate,
        fake_switch_probability=p,
        variant=variant,
        normaliser="paper" if variant == "l2p" else "tight",
    )


# --- certificates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "batch", "rate", "p", "delta", "by_pld", "by_rdp"),
    [
        (200, 1, 0.05, 0.3, 1e-2, 1.428, 1.447),
        (400, 1, 0.1, 0.3, 1e-2, 6.235, 5.932),
        (400, 5, 0.05, 0.3, 1e-2, 2.770, 2.719),
        (200, 1, 0.02, 0.1, 1e-6, 0.872, 0.840),
        (50, 1, 0.05, 0.3, 1e-3, 0.936, 0.935),
        (200, 1, 0.02, 0.1, 1e-3, 0.494, 0.513),
        (200, 1, 0.05, 0.3, 1e-6, 3.260, 3.009),
    ],
)
def test_certificates_agree_with_golden_values(
    n: int, batch: int, rate: float, p: float, delta: float, by_pld: float, by_rdp: float
) -> None:
    """No looser than the best of an independent accountant's two methods, within the three decimals it was noted in."""
    certified = _learner(n, batch, rate, p).graph().guarantee().epsilon(delta).upper
    best = min(by_pld, by_rdp)
    assert best * (1 - 5e-3) <= certified <= best + 1e-3


@pytest.mark.statistical
def test_later_people_pay_less_and_the_last_batch_nothing() -> None:
    learner = _learner(2000, 5, 0.01, 0.05)
    paid = [learner.epsilon_for((s - 1) * 5, 1e-6) for s in (1, 1000, 1900, 1999, 2000)]
    assert paid == pytest.approx([1.05, 0.77, 0.35, 0.20, 0.0], abs=6e-3)
    assert learner.epsilon_for(4, 1e-6) == paid[0]  # the same batch
    assert learner.graph().guarantee().epsilon(1e-6).upper == pytest.approx(paid[0], rel=1e-9)


def test_plan_does_not_grow_with_the_rounds() -> None:
    small, large = (_learner(n, 1, 1e-3, 0.01).graph() for n in (10, 10**6))
    assert len(small.nodes) == len(large.nodes) == 5  # the source and four families
    assert large.adjacency is Adjacency.REPLACE_ONE and large.pinned
    assert AccountantGraph.from_json(large.to_json()) == large
    assert len(_learner(10, 1, 1e-3, 0.01, "dartboard").graph().nodes) == 4


def test_one_batch_costs_nothing() -> None:
    learner = LazyExperts(rounds=7, experts=3, batch=7, learning_rate=1.0, fake_switch_probability=0.5)
    assert learner.graph().guarantee().epsilon(0.0).upper == 0.0


@pytest.mark.parametrize("variant", ["l2p", "dartboard"])
def test_without_fake_switches_nothing_is_certified(variant: Variant) -> None:
    learner = LazyExperts(
        rounds=10, experts=2, learning_rate=0.01, fake_switch_probability=0.0, shadow_probability=None, variant=variant
    )
    assert learner.graph().guarantee().epsilon(1e-3).upper == math.inf


@pytest.mark.statistical
def test_a_loose_normaliser_replaces_fake_switches() -> None:
    """p = 0: the excess of the normaliser over the largest log-ratio acts as a rate of fake switches; the exact loss is
    within it."""
    values = []
    for excess in (0.1, 0.3, 1.0):
        learner = LazyExperts(
            rounds=40,
            experts=2,
            batch=2,
            learning_rate=0.05,
            fake_switch_probability=0.0,
            shadow_probability=0.2,
            normaliser=0.1 + excess,
        )
        values.append(learner.graph().guarantee().epsilon(1e-3).upper)
        streams = learner.worst_case_neighbours()
        exact = exact_loss(*(learner.chain(stream) for stream in streams)).epsilon(1e-3)[1]
        assert 0.3 * values[-1] < exact <= values[-1]
        assert learner.expected_regret(streams[0]) <= learner.regret_bound()
    assert values[0] > values[1] > 0.0 and math.isfinite(values[0])


def test_dartboard_is_cheaper_than_l2p_and_a_frozen_shadow_in_between() -> None:
    """n=2000, B=5, eta=.01, p=.05, delta=1e-6: 1.05 (paper's normaliser), and 0.70 without a shadow."""
    dartboard = _learner(2000, 5, 0.01, 0.05, "dartboard").graph().guarantee().epsilon(1e-6).upper
    tight, frozen = (
        LazyExperts(
            rounds=10_000,
            experts=2,
            batch=5,
            learning_rate=0.01,
            fake_switch_probability=0.05,
            shadow_probability=shadow,
        )
        .graph()
        .guarantee()
        .epsilon(1e-6)
        .upper
        for shadow in (None, 0.0)
    )
    assert dartboard == pytest.approx(0.70, abs=6e-3)
    assert dartboard < frozen < tight


@pytest.mark.parametrize("p", [1e-17, 1e-12, 1e-3, 0.5])
def test_keep_probability_is_rounded_up(p: float) -> None:
    """1 - p rounds; rounded the wrong way, a tiny p would look larger and the certificate too small."""
    learner = LazyExperts(rounds=9, experts=2, learning_rate=0.01, fake_switch_probability=p, variant="dartboard")
    event = learner.switch.event()
    assert isinstance(event, LazySwitchDecision)
    assert 1.0 - event.keep_probability <= p
    assert learner.largest_redraw_probability >= p


# --- the printed formula ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounds", "batch", "rate", "p", "delta", "value"),
    [
        (200, 1, 0.05, 0.3, 1e-2, 12.8),
        (400, 1, 0.1, 0.3, 1e-2, 51.4),
        (2000, 5, 0.05, 0.3, 1e-2, 23.5),
        (200, 1, 0.02, 0.1, 1e-6, 5.0),
        (50, 1, 0.05, 0.3, 1e-3, 6.49),
    ],
)
def test_the_printed_formula_agrees_with_golden_values(
    rounds: int, batch: int, rate: float, p: float, delta: float, value: float
) -> None:
    printed = paper_epsilon(rounds=rounds, batch=batch, learning_rate=rate, fake_switch_probability=p, delta=delta)
    assert printed.epsilon == pytest.approx(value, rel=5e-3)
    certified = _learner(-(-rounds // batch), batch, rate, p).graph().guarantee().epsilon(delta).upper
    assert certified < printed.epsilon


@pytest.mark.statistical
@settings(max_examples=20)
@given(st.integers(100, 3000), st.integers(1, 5), st.floats(0.05, 0.95), st.floats(1e-3, 1.0))
def test_certificate_is_below_the_printed_value_where_its_conditions_hold(
    rounds: int, batch: int, p: float, share: float
) -> None:
    delta = 1e-4
    rate = min(0.1, share * p / (batch * math.log(2 * rounds / delta)))
    printed = paper_epsilon(rounds=rounds, batch=batch, learning_rate=rate, fake_switch_probability=p, delta=delta)
    assert printed.applies
    learner = _learner(-(-rounds // batch), batch, rate, p)
    assert learner.graph().guarantee().epsilon(delta).upper <= printed.epsilon


def test_printed_conditions_are_checked() -> None:
    fine = paper_epsilon(rounds=10**6, batch=1, learning_rate=1e-3, fake_switch_probability=0.1, delta=1e-6)
    assert fine.applies and not fine.failing
    failing = paper_epsilon(rounds=100, batch=50, learning_rate=0.2, fake_switch_probability=0.1, delta=1e-6)
    assert not failing.applies
    assert [condition.statement[:3] for condition in failing.failing] == ["T p", "eta", "eta"]


REFUSED_PRINTED: dict[str, tuple[float, ...]] = {
    "rounds": (0,), "batch": (101,), "learning_rate": (0.0, math.nan), "fake_switch_probability": (0.0, 1.0),
    "delta": (0.0, True),
}  # fmt: skip


@pytest.mark.parametrize(("argument", "values"), REFUSED_PRINTED.items())
def test_the_printed_formula_refuses_bad_arguments(argument: str, values: tuple[float, ...]) -> None:
    good = {"rounds": 100, "batch": 1, "learning_rate": 0.01, "fake_switch_probability": 0.1, "delta": 1e-6}
    for value in values:
        with pytest.raises(InvalidArgumentError, match=argument):
            paper_epsilon(**(good | {argument: value}))  # type: ignore[arg-type]


# --- calibration -----------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("variant", "epsilon", "bound"),
    [
        ("l2p", 0.05, 9707),
        pytest.param("l2p", 0.2, 4334, marks=pytest.mark.deep),
        ("l2p", 1.0, 1695),
        ("dartboard", 0.05, 7623),
        pytest.param("dartboard", 0.2, 3377, marks=pytest.mark.deep),
        ("dartboard", 1.0, 1309),
    ],
)
def test_calibration_reaches_known_optima(variant: Variant, epsilon: float, bound: float) -> None:
    """T = 1e6, d = 10, delta = 1e-6: known worst-case regret bounds, within 5 %."""
    learner = LazyExperts.calibrated(rounds=10**6, experts=10, epsilon=epsilon, delta=1e-6, variant=variant)
    certified = learner.graph().guarantee().epsilon(1e-6).upper
    assert 0.995 * epsilon <= certified <= epsilon
    assert learner.regret_bound() <= 1.05 * bound


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("variant", "epsilon", "delta"), diagonal(["l2p", "dartboard"], [(0.1, 1e-5), (1.0, 1e-5), (8.0, 1e-3)])
)
def test_calibration_never_exceeds_its_target(variant: Variant, epsilon: float, delta: float) -> None:
    learner = LazyExperts.calibrated(rounds=300, experts=5, epsilon=epsilon, delta=delta, variant=variant)
    certified = learner.graph().guarantee().epsilon(delta).upper
    best = math.sqrt(8 * math.log(5) / (300 * learner.batch))
    assert certified <= epsilon
    assert certified >= 0.99 * epsilon or learner.learning_rate == pytest.approx(best)


def test_calibration_with_privacy_to_spare_takes_the_best_learning_rate() -> None:
    learner = LazyExperts.calibrated(rounds=50, experts=4, epsilon=300.0, delta=1e-3)
    assert learner.batch == 1
    assert learner.learning_rate == pytest.approx(MultiplicativeWeights(rounds=50, experts=4).learning_rate)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("epsilon", 0.0), ("epsilon", math.inf), ("delta", 0.0), ("delta", 1.0), ("rounds", 1), ("variant", "lazy")],
)
def test_calibration_refuses_bad_targets(argument: str, value: object) -> None:
    good: dict[str, object] = {"rounds": 300, "experts": 5, "epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(InvalidArgumentError, match=argument):
        LazyExperts.calibrated(**(good | {argument: value}))  # type: ignore[arg-type]


# --- utility ---------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(2, 6), st.integers(1, 5))
def test_expected_regret_is_below_its_bound(seed: int, rounds: int, experts: int, batch: int) -> None:
    rng = np.random.default_rng(seed)
    losses = rng.integers(0, 2, (rounds, experts)).astype(float)
    learner = LazyExperts(
        rounds=rounds,
        experts=experts,
        batch=min(batch, rounds),
        learning_rate=rng.uniform(0.01, 1.0),
        fake_switch_probability=0.1,
    )
    assert learner.expected_regret(losses) <= learner.regret_bound() + 1e-9
    baseline = MultiplicativeWeights(rounds=rounds, experts=experts)
    assert baseline.expected_regret(losses) <= baseline.regret_bound() + 1e-9


@pytest.mark.statistical
def test_batching_costs_the_exact_amount_on_alternating_losses() -> None:
    """eta*T*(B-1)/8 of extra regret, exactly in the limit: batches are not free (T = 1e6, B = 10, eta = 1e-3: 1125)."""
    rounds, batch, rate = 10**6, 10, 1e-3
    losses = np.repeat(np.tile([[1.0, 0.0], [0.0, 1.0]], (rounds // batch // 2, 1)), batch, axis=0)
    regrets = [
        LazyExperts(
            rounds=rounds, experts=2, batch=size, learning_rate=rate, fake_switch_probability=0.1
        ).expected_regret(losses if size == batch else np.tile([[1.0, 0.0], [0.0, 1.0]], (rounds // 2, 1)))
        for size in (batch, 1)
    ]
    assert regrets[0] - regrets[1] == pytest.approx(rate * rounds * (batch - 1) / 8, rel=1e-3)


@pytest.mark.parametrize("variant", ["l2p", "dartboard"])
def test_simulated_regret_agrees_with_the_exact_one(variant: Variant) -> None:
    """Hoeffding at 1e-6 over 20,000 runs; a learner that saw each batch before playing it would be far below."""
    runs, rounds, batch = 20_000, 60, 3
    losses = np.random.default_rng(3).random((rounds, 4))
    learner = LazyExperts(
        rounds=rounds, experts=4, batch=batch, learning_rate=0.4, fake_switch_probability=0.2, variant=variant
    )
    sums = batch_sums(losses, batch)
    actions = learner.simulate(losses, np.random.default_rng(4), runs).actions
    mean = float(np.take_along_axis(sums, actions.T.astype(int), axis=1).sum(axis=0).mean()) - losses.sum(axis=0).min()
    allowed = sums.max(axis=1).sum() * math.sqrt(math.log(2 / 1e-6) / (2 * runs))
    assert abs(mean - learner.expected_regret(losses)) <= allowed


def test_short_last_batch_counts_its_true_length() -> None:
    losses = np.ones((7, 2))
    assert batch_sums(losses, 3).tolist() == [[3.0, 3.0], [3.0, 3.0], [1.0, 1.0]]
    learner = LazyExperts(rounds=7, experts=2, batch=3, learning_rate=0.1, fake_switch_probability=0.1)
    assert learner.batches == 3
    assert learner.expected_regret(losses) == pytest.approx(0.0, abs=1e-12)


def test_clipped_coin_has_no_closed_form() -> None:
    learner = LazyExperts(rounds=9, experts=2, learning_rate=0.5, fake_switch_probability=0.1, normaliser=0.2)
    with pytest.raises(InvalidArgumentError, match="normaliser"):
        learner.expected_regret(np.zeros((9, 2)))
    assert learner.graph().guarantee().epsilon(1e-3).upper < math.inf  # a matter of utility, not of privacy


def test_neighbours_differ_in_one_round() -> None:
    variants: tuple[Variant, ...] = ("l2p", "dartboard")
    for variant in variants:
        learner = LazyExperts(
            rounds=20, experts=5, batch=4, learning_rate=0.1, fake_switch_probability=0.1, variant=variant
        )
        for first, second in (learner.worst_case_neighbours(), learner.worst_case_neighbours(focus="decision")):
            assert np.flatnonzero((first != second).any(axis=1)).tolist() == [0]
            assert first.min() >= 0.0 and first.max() <= 1.0
            assert second.min() >= 0.0 and second.max() <= 1.0


# --- arguments -------------------------------------------------------------------------------------------------------


GOOD: dict[str, Any] = {"rounds": 10, "experts": 3, "learning_rate": 0.1, "fake_switch_probability": 0.1}
REFUSED: dict[str, tuple[object, ...]] = {
    "rounds": (0, True, 2.5), "experts": (1,), "batch": (0, 11),
    "learning_rate": (0.0, -1.0, math.inf, math.nan, "0.1"), "fake_switch_probability": (-0.1, 1.0, math.nan),
    "shadow_probability": (1.0,), "variant": ("shrinking",), "normaliser": ("loose", -1.0, math.nan), "clip": (1,),
}  # fmt: skip


@pytest.mark.parametrize(("argument", "values"), REFUSED.items())
def test_bad_arguments_are_refused(argument: str, values: tuple[object, ...]) -> None:
    for value in values:
        with pytest.raises(InvalidArgumentError, match=argument):
            LazyExperts(**(GOOD | {argument: value}))


@pytest.mark.parametrize(("argument", "value"), [("shadow_probability", 0.1), ("normaliser", "paper")])
def test_dartboard_has_no_shadow_and_no_normaliser(argument: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=argument):
        LazyExperts(**GOOD, variant="dartboard", **{argument: value})


@pytest.mark.parametrize("group", [1, 2])
def test_fresh_draws_cost_their_enumerated_loss_and_no_decision(group: int) -> None:
    """p = 1: independent draws from the weights before each batch, as all transcripts of 4 rounds."""
    learner = LazyExperts(rounds=4, experts=2, learning_rate=0.8, fake_switch_probability=1.0, variant="dartboard")
    guarantee = learner.graph().guarantee(group=group)
    if group == 1:
        assert [(charge.node, charge.count) for charge in guarantee.moves[0].charges][0][0] != "switch"
        assert float(accounting.epsilon(learner.event(), 1e-3)) == float(guarantee.epsilon(1e-3))
    worlds = np.zeros((2, 4, 2))
    worlds[0, :group, 0] = worlds[1, :group, 1] = 1.0
    laws = []
    for losses in worlds:
        before = np.concatenate([np.zeros((1, 2)), np.cumsum(losses[:-1], axis=0)])
        weights = np.exp(-0.8 * before)
        law = np.ones(1)
        for row in weights / weights.sum(axis=1, keepdims=True):
            law = np.outer(law, row).ravel()
        laws.append(law)
    for epsilon in (0.0, 0.5, 1.5):
        exact = np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0.0).sum()
        assert exact <= guarantee.delta(epsilon).upper <= max(3.0 * exact, 0.05)
    losses = np.random.default_rng(1).random((4, 2))
    noise = SimulationNoise(2)
    for actions in (
        learner.simulate(losses, np.random.default_rng(3), 1000).actions,
        np.array([learner.release(losses, noise=noise).actions for _ in range(1000)]),
    ):
        share = 1.0 / (1.0 + np.exp(-0.8 * (np.append(0.0, np.cumsum(losses[:-1, 0] - losses[:-1, 1])))))
        for t in range(4):
            assert stats.binomtest(int(actions[:, t].sum()), 1000, share[t]).pvalue > 1e-6 / 8
    with pytest.raises(InvalidArgumentError, match="fake_switch_probability"):
        LazyExperts(rounds=4, experts=2, learning_rate=0.8, fake_switch_probability=1.0, variant="l2p")


@pytest.mark.parametrize("bad", [1.5, -0.1, math.inf, -math.inf, math.nan])
def test_losses_outside_the_unit_interval_are_refused_or_clipped_on_request(bad: float) -> None:
    losses = np.full((10, 3), 0.5)
    losses[4, 1] = bad
    strict, clipping = (LazyExperts(**GOOD, clip=clip) for clip in (False, True))
    for use in (strict.chain, strict.expected_regret, lambda x: strict.simulate(x, np.random.default_rng(0), 2)):
        with pytest.raises(InvalidArgumentError, match="losses"):
            use(losses)
    if math.isnan(bad):
        with pytest.raises(InvalidArgumentError, match="losses"):
            clipping.chain(losses)
    else:
        clipped = np.clip(losses, 0.0, 1.0)
        assert np.array_equal(clipping.chain(losses).batch_losses, strict.chain(clipped).batch_losses)


@pytest.mark.parametrize("losses", [np.zeros((9, 3)), np.zeros((10, 2)), np.zeros(10), [["a"] * 3] * 10, None])
def test_losses_of_another_shape_are_refused(losses: object) -> None:
    with pytest.raises(InvalidArgumentError, match="losses"):
        LazyExperts(**GOOD, clip=True).chain(losses)  # type: ignore[arg-type]


def test_numbers_of_runs_and_of_a_round_are_checked() -> None:
    learner = LazyExperts(**GOOD)
    for runs in (0, -1, 1.5, True):
        with pytest.raises(InvalidArgumentError, match="runs"):
            learner.simulate(np.zeros((10, 3)), np.random.default_rng(0), runs)  # type: ignore[arg-type]
    for round_ in (-1, 10):
        with pytest.raises(InvalidArgumentError, match="round_"):
            learner.epsilon_for(round_, 1e-5)
