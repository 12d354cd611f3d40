"""Tests of a lazy walk: the law of its transcripts, and their stated cost."""

from __future__ import annotations

import copy
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from divergences import larger_hockey_stick
from numpy.typing import NDArray
from samples import chi_square_of_outcomes
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, Adjacency, Ledger
from hockeystick.audits import Claim, audit
from hockeystick.learners.lazy.experts.lazy_experts import LazyExperts
from hockeystick.mechanisms import ExponentialMechanism, LazySwitch, SimulationNoise
from hockeystick.mechanisms.lazy.lazy_sampler import LazySampler
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError

FALSE_ALARM = 1e-6
RATE = 0.5
Law = dict[tuple[Any, ...], float]

DRAW = ExponentialMechanism(1.0, sensitivity=RATE).event()
L2P = LazySampler(
    LazySwitch(0.2, normaliser=RATE, sensitivity=2 * RATE, lowest=-RATE, highest=RATE),
    DRAW,
    boundaries=3,
    shadow=0.3,
)
DARTBOARD = LazySampler(LazySwitch.dartboard(0.2, sensitivity=RATE, lowest=-RATE), DRAW, boundaries=3)
PLANS = [
    L2P,
    evolve(L2P, budget=2),
    evolve(L2P, budget=1),
    evolve(L2P, shadow=0.0),
    DARTBOARD,
    evolve(DARTBOARD, budget=1),
    evolve(DARTBOARD, budget=2),
    evolve(DARTBOARD, budget=50),
]
IN_TIERS = [pytest.param(plan, marks=pytest.mark.deep) if i in (1, 2, 6, 7) else plan for i, plan in enumerate(PLANS)]
LOSSES = np.array([[1.0, 0.0], [0.25, 0.5], [0.0, 1.0], [0.0, 0.0]])


def share_of_second(losses: NDArray[np.float64], batch: int, rate: float = RATE) -> float:
    """Probability of the second of two actions under multiplicative weights, before a batch."""
    gap = rate * float(losses[:batch, 1].sum() - losses[:batch, 0].sum())
    return 1 / (1 + math.exp(gap))


def law(plan: LazySampler, losses: NDArray[np.float64]) -> Law:
    """P(transcript) of every transcript, by enumeration: per batch the action, shadow, and which were drawn anew."""
    switch, found = plan.switch, dict[tuple[Any, ...], float]()
    rate = -switch.lowest  # of learning: losses are at most 1

    def draws(batch: int) -> list[tuple[int, float]]:
        p = share_of_second(losses, batch, rate)
        return [(0, 1 - p), (1, p)]

    def go(batch: int, path: tuple[Any, ...], x: int, y: int | None, left: float, weight: float) -> None:
        if batch == len(losses):
            found[path] = found.get(path, 0.0) + weight
            return
        if left == 0:
            go(batch + 1, (*path, (x, y, False, False)), x, y, left, weight)
            return
        r = -rate * float(losses[batch - 1, x] - (0.0 if y is None else losses[batch - 1, y]))
        keep = (1 - switch.fake_switch) * math.exp(min(0.0, r - switch.normaliser))
        moves = [(x, False, keep), *((new, True, (1 - keep) * p) for new, p in draws(batch))]
        for new_x, moved, p in moves:
            now = left - moved
            again = plan.shadow if plan.shadow is not None and now > 0 else 0.0
            shadows = [(y, False, 1 - again), *((new, True, again * q) for new, q in draws(batch))]
            for new_y, renewed, q in shadows:
                if p * q > 0:
                    after = (*path, (new_x, new_y, moved, renewed))
                    go(batch + 1, after, new_x, new_y, now - renewed, weight * p * q)

    first = draws(0)
    for x, p in first:
        for y, q in first if plan.shadow is not None else [(None, 1.0)]:
            left = math.inf if plan.budget is None else plan.budget
            go(1, ((x, y, False, False),), x, y, left, p * q)
    return found


def walked(plan: LazySampler, losses: NDArray[np.float64], noise: Noise | None) -> tuple[Any, ...]:
    def sampler(batch: int) -> Any:
        share = Fraction(share_of_second(losses, batch))
        return lambda source: int(source.coins(share, 1)[0])

    walk = plan.start(sampler(0), noise=noise)
    path = [(walk.action, walk.shadow, False, False)]
    for batch in range(1, len(losses)):
        renewals: list[Any] = []

        def sample(source: Noise) -> int:
            renewals.append(None)
            return int(sampler(batch)(source))

        action = walk.step(lambda x: -RATE * float(losses[batch - 1, x]), sample)
        assert action == walk.action
        path.append((action, walk.shadow, walk.switched, len(renewals) > walk.switched))
    return tuple(path)


@pytest.mark.statistical
@pytest.mark.parametrize("plan", IN_TIERS)
def test_walks_follow_the_law(plan: LazySampler) -> None:
    noise, runs = SimulationNoise(611), 1200
    expected = law(plan, LOSSES)
    seen = (walked(plan, LOSSES, noise) for _ in range(runs))
    assert chi_square_of_outcomes(seen, expected, least=5) > FALSE_ALARM


@pytest.mark.statistical
def test_secure_walks_follow_the_law() -> None:
    plan, runs = evolve(DARTBOARD, budget=1), 500
    expected, seen = law(plan, LOSSES), Counter(walked(plan, LOSSES, None) for _ in range(runs))
    actions = [sum(p for path, p in table.items() if path[-1][0] == 1) for table in (expected, seen)]
    assert stats.binomtest(int(actions[1]), runs, actions[0]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("plan", [L2P, evolve(L2P, shadow=0.0), DARTBOARD])
def test_actions_follow_the_measure_of_their_time(plan: LazySampler) -> None:
    for batch in range(len(LOSSES)):
        share = math.fsum(p for path, p in law(plan, LOSSES).items() if path[batch][0] == 1)
        assert share == pytest.approx(share_of_second(LOSSES, batch), abs=1e-12)


def test_a_budget_bounds_the_draws_the_same_action_drawn_again_included() -> None:
    for budget in (1, 2):
        for plan in (evolve(L2P, budget=budget), evolve(DARTBOARD, budget=budget)):
            for path in law(plan, LOSSES):
                assert sum(moved + renewed for _, _, moved, renewed in path) <= budget
    same = [path for path in law(evolve(DARTBOARD, budget=1), LOSSES) if path[0][0] == path[1][0] and path[1][2]]
    assert same and all(not moved for path in same for _, _, moved, _ in path[2:])


NEIGHBOURS = [
    (LOSSES, np.array([[0.0, 1.0], *LOSSES[1:]])),
    (np.array([[1.0, 0.0], [0, 0], [0, 0], [0, 0]]), np.array([[0.0, 1.0], [0, 0], [0, 0], [0, 0]])),
    (np.array([[0.0, 0.0], [1, 0], [1, 0], [0, 0]]), np.array([[0.0, 0.0], [0, 1], [1, 0], [0, 0]])),
    (np.array([[0.0, 0.0], [1, 0], [1, 0], [0, 0]]), np.array([[0.0, 0.0], [1, 0], [0, 1], [0, 0]])),
]


@pytest.mark.statistical
@pytest.mark.parametrize("plan", IN_TIERS)
def test_cost_covers_every_transcript(plan: LazySampler) -> None:
    event = plan.event()
    for first, second in NEIGHBOURS:
        p, q = law(plan, first), law(plan, second)
        for epsilon in (0.0, 0.3, 0.8, 1.5):
            assert larger_hockey_stick(p, q, epsilon) <= accounting.delta(event, epsilon).upper + 1e-12


def test_without_the_full_first_draw_the_cost_would_be_too_small() -> None:
    """The draw on the decision's own branch is not a visible mixture: its coin has already distinguished the data
    sets."""
    draw = ExponentialMechanism(1.0, sensitivity=0.1).event()
    plan = LazySampler(LazySwitch.dartboard(0.05, sensitivity=0.1, lowest=-0.1), draw, boundaries=1)
    p, q = (law(plan, np.array([row, [0.0, 0.0]])) for row in ([1.0, 0.0], [0.0, 1.0]))
    mixed = accounting.VisibleMixture(plan.switch.largest_switch_probability(), draw)
    too_small = accounting.compose(plan.switch.event(), mixed)
    points = (0.9, 1.0, 1.04, 1.08)
    assert any(larger_hockey_stick(p, q, e) > accounting.delta(too_small, e).upper for e in points)
    assert all(larger_hockey_stick(p, q, e) <= accounting.delta(plan.event(), e).upper for e in points)


@pytest.mark.statistical
def test_groups_may_be_spread_over_batches() -> None:
    first, second = np.zeros((4, 2)), np.zeros((4, 2))
    first[:2, 0], second[:2, 1] = 1.0, 1.0
    for plan in (DARTBOARD, evolve(L2P, budget=2)):
        p, q = law(plan, first), law(plan, second)
        for epsilon in (0.0, 0.6, 1.5):
            assert larger_hockey_stick(p, q, epsilon) <= accounting.delta(plan.event().at(2), epsilon).upper + 1e-12
    assert DARTBOARD.event().at(2) == accounting.Chain(DARTBOARD.event().children()[0], 2)
    assert DARTBOARD.event().at(1) == DARTBOARD.event() and DARTBOARD.event().at(0) == accounting.NO_EVENT


@pytest.mark.parametrize("variant", ["l2p", "dartboard"])
def test_cost_is_that_of_the_learner(variant: Any) -> None:
    learner = LazyExperts(
        rounds=200, experts=5, batch=4, learning_rate=0.02, fake_switch_probability=0.2, variant=variant
    )
    plan = LazySampler(
        learner.switch,
        learner.draw.event(),
        boundaries=learner.batches - 1,
        shadow=learner.shadow_probability or (0.2 if variant == "l2p" else None),
    )
    stated, expected = (accounting.epsilon(e, 1e-5).upper for e in (plan.event(), learner.graph().guarantee().event))
    assert stated == pytest.approx(expected, rel=1e-9)


def test_a_budget_costs_its_draws_in_full() -> None:
    plan = evolve(DARTBOARD, boundaries=1000, budget=7)
    for boundaries, draws in ((1000, 7), (3, 3)):
        ways = plan.switch.event().orientations()
        expected = accounting.parallel(*(accounting.compose(way, (DRAW, draws)) for way in ways))
        assert evolve(plan, boundaries=boundaries).event() == accounting.Chain(expected, 1)


def test_a_walk_is_one_charge_and_ends() -> None:
    graph = AccountantGraph(adjacency=Adjacency.REPLACE_ONE).source("stream")
    ledger = Ledger(graph.release("walk", DARTBOARD.event(), reads=("stream",)))
    walk = DARTBOARD.start(lambda noise: "a", ledger=ledger, name="walk", noise=SimulationNoise(1))
    assert walk.action == "a" and walk.shadow is None
    for _ in range(3):
        assert walk.step(lambda x: -0.5, lambda noise: "b") in ("a", "b")
    assert ledger.recorded("walk") == 1
    with pytest.raises(StreamHaltedError, match="3 boundaries"):
        walk.step(lambda x: 0.0, lambda noise: "b")
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="can't be copied"):
            copied(walk)


def test_a_spent_budget_draws_nothing() -> None:
    def never(_: Any) -> Any:
        raise AssertionError

    walk = evolve(DARTBOARD, boundaries=9, budget=1).start(lambda noise: 0, noise=SimulationNoise(3))
    for _ in range(9):
        if walk.step(lambda x: -0.5, lambda noise: 1) == 1:
            break
    while True:
        try:
            assert walk.step(never, never) == 1 and not walk.switched
        except StreamHaltedError:
            break


def test_ratios_are_clipped_to_the_declared_range_and_must_be_numbers() -> None:
    kept = 0
    for seed in range(300):
        walk = DARTBOARD.start(lambda noise: 0, noise=SimulationNoise(seed))
        walk.step(lambda x: -1e9, lambda noise: 1)  # as if it were -RATE
        kept += not walk.switched
    assert stats.binomtest(kept, 300, 0.8 * math.exp(-RATE)).pvalue > FALSE_ALARM
    walk = L2P.start(lambda noise: 0, noise=SimulationNoise(1))
    for bad in (math.nan, math.inf, "1", None, True):
        with pytest.raises(accounting.InvalidArgumentError, match="log_ratio="):
            walk.step(lambda x, bad=bad: bad, lambda noise: 1)  # type: ignore[misc]
    assert [walk.step(lambda x: 0.0, lambda noise: 1) for _ in range(3)]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("switch", 0.2),
        ("draw", 0.1),
        ("boundaries", 0),
        ("boundaries", 1.5),
        ("shadow", 1.0),
        ("shadow", -0.1),
        ("shadow", True),
        ("budget", 0),
        ("budget", math.nan),
    ],
)
def test_bad_plans_are_refused(argument: str, value: Any) -> None:
    with pytest.raises(accounting.InvalidArgumentError, match=f"{argument}="):
        evolve(L2P, **{argument: value})


@frozen
class Transcripts:
    """Transcripts as rows of numbers."""

    plan: LazySampler

    def simulate(self, value: NDArray[np.float64], rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        noise = SimulationNoise(rng)
        return np.array([[(a, int(moved)) for a, _, moved, _ in walked(self.plan, value, noise)] for _ in range(runs)])


@pytest.mark.statistical
@pytest.mark.parametrize("fake_switch", [0.2, 0.0])
def test_audit_of_walks(fake_switch: float) -> None:
    plan = evolve(DARTBOARD, boundaries=1)
    real = evolve(plan, switch=evolve(plan.switch, fake_switch=fake_switch))
    first, second = np.zeros((2, 2)), np.zeros((2, 2))
    first[0, 0], second[0, 1] = 1.0, 1.0
    verdict = audit(
        Transcripts(real),
        claim=Claim(plan.event().pure_epsilon(), 0.0),
        neighbours=(first, second),
        samples=3_000,
        rng=612,
        confidence=1 - 1e-6,
        bits=True,
    )
    assert verdict.refuted is (fake_switch == 0.0), verdict
