"""Tests of the lazy transform of any measure: exact laws, and certificates that no exact privacy loss exceeds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from attrs import evolve, field, frozen
from divergences import larger_hockey_stick
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from samples import deep_examples

from hockeystick.accounting import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.catalogue import ApproximateDP, BoundedRange, GaussianDP, PureDP
from hockeystick.learners import LazyConvex, LazyExperts, LazyTransform
from hockeystick.learners.lazy import (
    Ball,
    Box,
    Certificate,
    ClosedFormSampler,
    ConvexMeasure,
    ConvexTranscripts,
    LangevinSampler,
    LinearLosses,
    MultiplicativeMeasure,
    PointMeasure,
    RegularizedMeasure,
    RegularizedWeights,
    Transcripts,
    check_measure,
)
from hockeystick.learners.lazy.transform import rare_ratios
from hockeystick.learners.lazy.transform.lazy_transform import Normaliser
from hockeystick.learners.lazy.transform.rare_ratios import ratio_bounds


@frozen(eq=False)
class _Added:
    """The measure to which a loss adds itself, whatever it is: exp(start + sum of losses)."""

    start: FloatArray
    eta: float
    delta0: float = 0.0
    ratio_width: float | None = None

    def log_measure(self, losses: FloatArray) -> FloatArray:
        return np.asarray(self.start + losses.sum(axis=0))

    def log_func(self, loss: FloatArray) -> FloatArray:
        return loss


def _transform(
    measure: _Added,
    rounds: int,
    batch: int = 1,
    *,
    p: float = 0.3,
    shadow: float | None = None,
    normaliser: Normaliser | float = "safe",
    budget: int | None = None,
) -> LazyTransform:
    return LazyTransform(
        measure=PointMeasure(measure=measure, points=len(measure.start), lowest=-50.0, highest=50.0),
        rounds=rounds,
        batch=batch,
        fake_switch_probability=p,
        shadow_probability=shadow,
        normaliser=normaliser,
        draw_budget=budget,
    )


def _softmax(log_weights: FloatArray) -> FloatArray:
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())


def _histories(start: FloatArray, losses: FloatArray, rounds: int) -> list[FloatArray]:
    """Log-weights after every multiset of fewer than ``rounds`` losses: nothing else can come before a loss."""
    return [
        start + losses[list(chosen)].sum(axis=0)
        for t in range(rounds)
        for chosen in itertools.combinations_with_replacement(range(len(losses)), t)
    ]


def _least_eta(start: FloatArray, losses: FloatArray, rounds: int) -> float:
    """The eta of delta_0 = 0, by looking at all pairs of consecutive measures."""
    pasts = _histories(start, losses, rounds)
    return max(float(np.abs(np.log(_softmax(a + f)) - np.log(_softmax(a))).max()) for a in pasts for f in losses)


def _least_delta0(start: FloatArray, losses: FloatArray, rounds: int, eta: float) -> float:
    pasts = _histories(start, losses, rounds)
    return max(float(larger_hockey_stick(_softmax(a + f), _softmax(a), eta)) for a in pasts for f in losses)


def _transcripts(learner: LazyTransform, *streams: FloatArray) -> tuple[Transcripts, list[FloatArray]]:
    """All transcripts of a learner without a budget, and their probabilities on each stream, by brute force."""
    paths = [learner.path(stream) for stream in streams]
    m, again = learner.measure.points, learner.refresh_probability  # type: ignore[attr-defined]
    pairs = np.array(list(itertools.product(range(m), repeat=2)))
    points = np.arange(m)
    x, y = pairs[:, :1], pairs[:, 1:]
    moves = [np.zeros((len(pairs), 1), dtype=bool)] * 2
    masses = [np.exp(path.log_density(0, pairs[:, 0]) + path.log_density(0, pairs[:, 1])) for path in paths]
    for s in range(1, learner.batches):
        now = (x[:, -1], y[:, -1])
        found: list[tuple[NDArray[np.int64], NDArray[np.int64], bool, bool, list[FloatArray]]] = []
        for new_x, new_y in itertools.product([None, *points], repeat=2):
            chances = []
            for path, mass in zip(paths, masses, strict=True):
                keep = np.exp(learner.log_keep(path, s, *now))
                law = np.exp(path.log_density(s, points))
                chance = mass * (keep if new_x is None else (1 - keep) * law[new_x])
                chances.append(chance * ((1 - again) if new_y is None else again * law[new_y]))
            to_x, to_y = (
                old if new is None else np.full_like(old, new) for old, new in zip(now, (new_x, new_y), strict=True)
            )
            found.append((to_x, to_y, new_x is not None, new_y is not None, chances))
        x, y = (np.concatenate([np.column_stack([old, row[i]]) for row in found]) for i, old in enumerate((x, y)))
        moves = [
            np.concatenate([np.column_stack([moves[i], np.full(len(row[0]), row[2 + i])]) for row in found])
            for i in range(2)
        ]
        masses = [np.concatenate([row[4][i] for row in found]) for i in range(len(paths))]
    return Transcripts(x, moves[0], y, moves[1]), masses


def _joint_laws(learner: LazyTransform, stream: FloatArray) -> list[FloatArray]:
    """Exact law, shape (m, m), of (action, shadow) in each batch, by the forward chain."""
    path, points = learner.path(stream), np.arange(learner.measure.points)  # type: ignore[attr-defined]
    x, y = (grid.ravel() for grid in np.meshgrid(points, points, indexing="ij"))
    law, again, m = np.exp(path.log_density(0, points)), learner.refresh_probability, len(points)
    joint = np.outer(law, law)
    found = [joint]
    for s in range(1, learner.batches):
        law = np.exp(path.log_density(s, points))
        keep = np.exp(learner.log_keep(path, s, x, y)).reshape(m, m)
        joint = joint * keep + law[:, None] * (joint * (1 - keep)).sum(axis=0)
        joint = (1 - again) * joint + again * joint.sum(axis=1, keepdims=True) * law
        found.append(joint)
    return found


# --- the same learner where there is one already ---------------------------------------------------------------------


@pytest.mark.parametrize("normaliser", ["tight", "paper", 0.05])
@pytest.mark.parametrize("budget", [None, 1])
def test_over_multiplicative_weights_it_is_the_learner_of_experts(
    normaliser: Normaliser | float, budget: int | None
) -> None:
    """The same plan, the same transcripts bit by bit, the same likelihood ratios."""
    measure = PointMeasure(measure=MultiplicativeMeasure(learning_rate=0.07), points=4)
    common = {"rounds": 23, "batch": 3, "fake_switch_probability": 0.2, "shadow_probability": 0.1}
    experts = LazyExperts(experts=4, learning_rate=0.07, normaliser=normaliser, draw_budget=budget, **common)
    general = LazyTransform(measure=measure, normaliser=normaliser, draw_budget=budget, **common)
    assert general.graph() == experts.graph()
    assert general.worst_case_neighbours()[0] == pytest.approx(experts.worst_case_neighbours()[0])
    rng = np.random.default_rng(1)
    losses = rng.random((23, 4))
    other = losses.copy()
    other[4] = rng.random(4)
    path, chain = general.path(losses), experts.chain(losses)
    x, y = np.arange(4), np.array([3, 1, 0, 2])
    for s in range(1, 8):
        assert general.log_keep(path, s, x, y) == pytest.approx(chain.log_keep(s, x, y), rel=1e-13, abs=1e-15)
        assert path.log_density(s, x) == pytest.approx(chain.log_weights[s], rel=1e-13)
    one = general.simulate(losses, np.random.default_rng(2), 500)
    two = experts.simulate(losses, np.random.default_rng(2), 500)
    assert isinstance(one, Transcripts) and one.shadows is not None and two.shadows is not None
    if budget is None:
        assert np.array_equal(one.actions, two.actions) and np.array_equal(one.shadows, two.shadows)
    for transcripts in (one, two):
        ratios = [learner.log_likelihood_ratio(transcripts, losses, other) for learner in (general, experts)]
        assert ratios[0] == pytest.approx(ratios[1], abs=1e-12)


def test_over_regularised_weights_it_has_the_law_of_the_learner_of_convex_losses() -> None:
    """The same likelihood ratios of the same transcripts, and worst-case neighbours."""
    weights = RegularizedWeights(inverse_temperature=0.02, regularisation=2.0, lipschitz=1.0)
    box = Box.cube(2, 1.0)
    convex = LazyConvex(
        rounds=12,
        domain=box,
        lipschitz=1.0,
        batch=2,
        inverse_temperature=0.02,
        regularisation=2.0,
        fake_switch_probability=0.2,
        normaliser=0.1,
    )
    general = LazyTransform(
        measure=ConvexMeasure(weights=weights, domain=box),
        rounds=12,
        batch=2,
        fake_switch_probability=0.2,
        normaliser=0.1,
    )
    rng = np.random.default_rng(3)
    gradients = rng.uniform(-0.5, 0.5, (12, 2))
    losses, other = LinearLosses(gradients), LinearLosses(np.vstack([-gradients[:1], gradients[1:]]))
    transcripts = convex.simulate(losses, np.random.default_rng(4), 300)
    ratios = [learner.log_likelihood_ratio(transcripts, losses, other) for learner in (general, convex)]
    assert ratios[0] == pytest.approx(ratios[1], abs=1e-10)
    own = general.simulate(losses, np.random.default_rng(5), 40)
    assert isinstance(own, ConvexTranscripts) and own.actions.shape == (40, 6, 2)
    run = general.run(losses, np.random.default_rng(6))
    assert run.actions.shape == (12, 2) and box.contains(run.actions).all()
    assert run.loss == pytest.approx(float(np.sum(gradients * run.actions)))
    assert run.regret == pytest.approx(run.loss - float(gradients.sum(axis=0) @ run.best)) and run.regret > 0.0
    for one, two in zip(general.worst_case_neighbours(), convex.worst_case_neighbours(), strict=True):
        assert np.array_equal(one.gradients, two.gradients)


def test_over_a_wide_domain_the_learner_of_convex_losses_costs_less() -> None:
    """It uses that draws are Gaussian-DP, and how ratios concentrate."""
    common = {"rounds": 30, "fake_switch_probability": 0.2}
    beta, ridge, box = 2e-6, 0.02, Box.cube(1, 1e5)
    convex = LazyConvex(domain=box, lipschitz=1.0, inverse_temperature=beta, regularisation=ridge, **common)  # type: ignore[arg-type]
    weights = RegularizedWeights(inverse_temperature=beta, regularisation=ridge, lipschitz=1.0)
    general = LazyTransform(measure=ConvexMeasure(weights=weights, domain=box, delta0=1e-13), **common)
    assert isinstance(general.draw, ApproximateDP) and isinstance(convex.draw, GaussianDP)
    assert general.bounds.once < 1e-7
    costs = [learner.graph().guarantee().epsilon(1e-5).upper for learner in (convex, general)]
    assert 0.0 < costs[0] < costs[1] < 20 * costs[0]


# --- marginals -------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@given(
    st.sampled_from((2, 5)),
    st.sampled_from((0.0, 0.05, 0.6)),
    st.sampled_from((0.0, 0.2, 0.9)),
    st.sampled_from((1.0, 1.7, 4.0)),
    st.integers(0, 10**6),
)
def test_actions_follow_their_measure_exactly(m: int, p: float, shadow: float, slack: float, seed: int) -> None:
    """Whatever p, p_y and any c that r never exceeds; and they are independent of the shadow's past."""
    rng = np.random.default_rng(seed)
    losses = rng.normal(size=(9, m))
    width = float(np.ptp(losses, axis=1).max())
    measure = _Added(rng.normal(size=m), eta=width, ratio_width=width)
    learner = _transform(measure, 9, 2, p=p, shadow=shadow, normaliser=slack * 2 * width)
    path = learner.path(losses)
    for s, joint in enumerate(_joint_laws(learner, losses)):
        law = np.exp(path.log_density(s, np.arange(m)))
        assert np.abs(joint.sum(axis=1) - law).max() < 1e-12


def test_actions_do_not_follow_their_measure_if_coins_are_clipped() -> None:
    measure = _Added(np.zeros(2), eta=1.0, ratio_width=1.0)
    losses = np.tile([[-1.0, 0.0]], (5, 1))
    learner = _transform(measure, 5, normaliser=0.0, p=0.05)
    law = np.exp(learner.path(losses).log_density(4, np.arange(2)))
    assert np.abs(_joint_laws(learner, losses)[4].sum(axis=1) - law).max() > 0.05


def test_simulation_follows_the_exact_law() -> None:
    """Frequencies of (action, shadow) within 5.4 standard deviations: 180 comparisons, false alarm below 2e-5."""
    rng = np.random.default_rng(7)
    losses = rng.normal(size=(20, 3)) * 0.3
    measure = _Added(rng.normal(size=3), eta=2.0, ratio_width=2.0)
    learner = _transform(measure, 20, 1, p=0.1, shadow=0.3, normaliser=0.2)
    runs = 40_000
    found = learner.simulate(losses, np.random.default_rng(8), runs)
    assert isinstance(found, Transcripts) and found.shadows is not None
    for s, joint in enumerate(_joint_laws(learner, losses)):
        counts = np.bincount(found.actions[:, s] * 3 + found.shadows[:, s], minlength=9)
        expected = joint.ravel()
        assert np.all(np.abs(counts / runs - expected) <= 5.4 * np.sqrt(expected * (1 - expected) / runs))


# --- certificates without delta_0 ------------------------------------------------------------------------------------


def _exceeds(learner: LazyTransform, first: FloatArray, second: FloatArray) -> float:
    """Exact delta over the certified one, the largest at some epsilons of interest."""
    _, (p, q) = _transcripts(learner, first, second)
    guarantee, unit = learner.graph().guarantee(), learner.bounds.change
    return max(
        float(larger_hockey_stick(p, q, e)) / max(1e-300, guarantee.delta(e).upper)
        for e in (0.0, 0.4 * unit, 1.5 * unit)
    )


def _case(
    seed: int, batch: int, known: bool, normaliser: Normaliser | float, p: float
) -> tuple[LazyTransform, FloatArray, FloatArray]:
    """A random measure whose claims are the least true ones, and neighbouring streams of its losses."""
    rng = np.random.default_rng(seed)
    m = 2 if seed % 2 else 3
    n = 4 if m == 2 else 3
    rounds = n * batch
    losses = rng.normal(size=(3, m)) * 0.2
    losses[1] = -losses[0]  # the two that are farthest apart
    start = rng.normal(size=m)
    eta = _least_eta(start, losses, rounds)
    width = float(np.ptp(losses, axis=1).max()) if known else None
    learner = _transform(_Added(start, eta, ratio_width=width), rounds, batch, p=p, normaliser=normaliser)
    chosen = rng.integers(0, 3, rounds)
    chosen[0] = 0
    first, second = losses[chosen], losses[chosen]
    second[0] = losses[1]
    return learner, first, second


@deep_examples(
    8,
    60,
    st.integers(0, 10**6),
    st.sampled_from((1, 2)),
    st.booleans(),
    st.sampled_from(("safe", "paper", "tight", 0.0)),
    st.sampled_from((0.05, 0.3)),
)
def test_no_certificate_below_the_truth(
    seed: int, batch: int, known: bool, normaliser: Normaliser | float, p: float
) -> None:
    assert _exceeds(*_case(seed, batch, known, normaliser, p)) <= 1.0 + 1e-9


def test_no_certificate_below_the_truth_at_one_measure() -> None:
    assert 0.3 < _exceeds(*_case(11, 1, True, "tight", 0.05)) <= 1.0


def test_half_the_change_falls_below_the_truth() -> None:
    """|r - r'| <= w, and draws of range w, would be the bounds if a person's losses were added, not replaced."""
    width = 0.4
    learner = _transform(_Added(np.zeros(2), eta=width, ratio_width=width), 2, normaliser="tight")
    first = np.array([[0.2, -0.2], [0.0, 0.0]])
    _, (p, q) = _transcripts(learner, first, -first)
    exact = float(np.abs(np.log(p / q)).max())
    plan = learner.plan()
    half = evolve(learner.switch, sensitivity=0.5 * learner.switch.sensitivity)
    mutant = evolve(plan, switch=half.event(), draw=BoundedRange(width))
    assert mutant.graph().guarantee().epsilon(0.0).upper < 0.9 * exact
    assert exact <= plan.graph().guarantee().epsilon(0.0).upper


def test_draws_are_charged_by_the_smaller_sound_event() -> None:
    """Width 2w against pure 2 eta, for eta between w/2 and w."""

    def draw(eta: float, width: float | None) -> object:
        return _transform(_Added(np.zeros(2), eta, ratio_width=width), 5).draw

    assert draw(0.1, 0.1) == BoundedRange(0.2)
    assert draw(0.3, 0.1) == BoundedRange(0.2)  # eta is at most w
    assert draw(0.1, None) == PureDP(0.2)
    assert draw(0.1, 0.2) == draw(0.1, 0.5) == PureDP(0.2)  # and w at most 2 eta
    assert draw(0.1, 0.15) == BoundedRange(0.3)
    assert BoundedRange(0.3).zcdp_rho() < PureDP(0.2).zcdp_rho() < BoundedRange(0.4).zcdp_rho()


def test_likelihood_ratios_of_all_transcripts() -> None:
    learner, first, second = _case(4, 2, True, 0.01, 0.3)
    transcripts, (p, q) = _transcripts(learner, first, second)
    assert p.sum() == pytest.approx(1.0) and q.sum() == pytest.approx(1.0)
    ratio = learner.log_likelihood_ratio(transcripts, first, second)
    assert ratio[p > 0] == pytest.approx(np.log(p[p > 0] / q[p > 0]), abs=1e-10)


# --- certificates with delta_0 ---------------------------------------------------------------------------------------


@frozen
class _Rare:
    """Three points, of which the third is rare and moves a lot; claims are the least true ones at ``eta``."""

    rounds: int
    batch: int = 1
    rarity: float = 1e-6
    jump: float = 1.5
    eta: float = 0.1
    p: float = 0.3
    normaliser: Normaliser | float = "safe"
    margin: float = 1.0
    losses: FloatArray = field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        e = 0.75 * self.eta
        rows = [[e, -e, self.jump], [-e, e, -self.jump], [-e, e, self.jump], [0.0, 0.0, 0.0]]
        object.__setattr__(self, "losses", np.array(rows))

    @property
    def learner(self) -> LazyTransform:
        start = np.array([0.0, 0.0, math.log(self.rarity)])
        delta0 = _least_delta0(start, self.losses, self.rounds, self.eta)
        measure = _Added(start, self.eta, delta0)
        learner = _transform(measure, self.rounds, self.batch, p=self.p, normaliser=self.normaliser)
        return evolve(learner, margin=self.margin)

    def streams(self, *chosen: int) -> tuple[FloatArray, FloatArray]:
        first = self.losses[list(chosen)]
        second = first.copy()
        second[0] = self.losses[1]
        return first, second


RARE = [
    (_Rare(4), (0, 3, 3, 3)),
    (_Rare(4), (0, 0, 0, 0)),
    (_Rare(4, normaliser=0.0, margin=0.1), (0, 2, 1, 0)),
    (_Rare(6, batch=2, rarity=1e-8), (0, 0, 0, 1, 2, 3)),
    (_Rare(4, rarity=1e-4, jump=0.6, p=0.6), (0, 0, 2, 2)),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("rare", "chosen"), RARE)
def test_with_rare_points_no_certificate_below_the_truth(rare: _Rare, chosen: tuple[int, ...]) -> None:
    learner = rare.learner
    assert learner.measure.delta0 > 0.0 and isinstance(learner.draw, ApproximateDP)
    first, second = rare.streams(*chosen)
    _, (p, q) = _transcripts(learner, first, second)
    guarantee = learner.graph().guarantee()
    for epsilon in (0.0, 0.4, 2.0, 8.0):
        exact, certified = larger_hockey_stick(p, q, epsilon), guarantee.delta(epsilon).upper
        assert exact <= certified * (1 + 1e-9)
        assert certified < 1.0


def test_delta0_must_be_charged() -> None:
    """Without it, the certificate has no privacy loss beyond some epsilon, but the exact loss has some."""
    rare, chosen = RARE[1]
    learner = rare.learner
    _, (p, q) = _transcripts(learner, *rare.streams(*chosen))
    plan = evolve(learner.plan(), draw=PureDP(2 * rare.eta), failure=0.0, boundary_failure=0.0)
    epsilon = 1.001 * plan.graph().guarantee().epsilon(0.0).upper
    assert plan.graph().guarantee().delta(epsilon).upper == 0.0 < larger_hockey_stick(p, q, epsilon)


@pytest.mark.parametrize(("rare", "chosen"), RARE)
def test_ratios_stay_within_their_bounds_but_for_the_stated_chance(rare: _Rare, chosen: tuple[int, ...]) -> None:
    """By the exact law of (action, shadow), also where coins are clipped; the bounds are exceeded with some chance."""
    learner = rare.learner
    bounds = learner.bounds
    streams = rare.streams(*chosen)
    paths = [learner.path(stream) for stream in streams]
    laws = [_joint_laws(learner, stream) for stream in streams]
    points = np.arange(3)

    def ratio(world: int, s: int) -> FloatArray:
        added = paths[world].log_func(s, points)
        return np.asarray(added[:, None] - added[None, :])

    exceeded = [float(laws[0][0][np.abs(ratio(0, 0) - ratio(1, 0)) > bounds.change].sum())]
    assert 0.0 < exceeded[0] <= bounds.once < 1.0
    for world, s in itertools.product(range(2), range(learner.batches - 1)):
        exceeded.append(float(laws[world][s][np.abs(ratio(world, s)) > bounds.largest].sum()))
        assert exceeded[-1] <= bounds.per_boundary < 1.0


def test_bounds_are_below_their_closed_forms() -> None:
    """With e^(a B eta) <= e, an age a = ln(1/tail)/p and 1 - e^-t >= 2t/3, sums over ages have simple bounds."""
    eta, delta0, batch, p, tail = 0.002, 1e-13, 3, 0.05, 1e-9
    age = math.ceil(math.log(1 / tail) / p)
    assert age * batch * eta <= 3.0
    found = ratio_bounds(eta, delta0, batch=batch, batches=5000, fake=p, shadow=p)
    tail_of_a_ratio = 1e-9 * (1 + math.exp(-0.02)) / -math.expm1(-0.01)  # above e^0.02 or below e^-0.02
    assert rare_ratios._tail(0.01, 1e-9, 1.0) == pytest.approx(tail_of_a_ratio, rel=1e-9)
    grown = math.exp((age + 1) * batch * eta)
    once = grown * (6 / eta + (age + 1) * batch) * delta0 * (1 + 1 / p) + 2 * tail
    each = grown * (3 * math.exp(batch * eta) / eta + age * batch) * delta0 * (1 + 1 / p) + 2 * tail
    assert 0.0 < found.once <= once and 0.0 < found.per_boundary <= each
    assert found.change == pytest.approx(8 * eta) and found.largest == pytest.approx(4 * batch * eta)


def test_bounds_grow_with_all_that_makes_them_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    def chances(**changed: float) -> tuple[float, float]:
        given: dict[str, float] = {"delta0": 1e-9, "batch": 2, "batches": 300, "fake": 0.1, "shadow": 0.1} | changed
        bounds = ratio_bounds(0.01, given.pop("delta0"), **given)  # type: ignore[arg-type]
        return bounds.once, bounds.per_boundary

    usual = chances()
    for worse in (
        {"delta0": 2e-9},
        {"margin": 0.5},
        {"batches": 3000},
        {"fake": 0.05},
        {"shadow": 0.05},
        {"total_variation": 1e-9},
    ):
        assert all(more > less for more, less in zip(chances(**worse), usual, strict=True)), worse
    assert chances(fake=0.0, shadow=0.0, batches=10**4) == (1.0, 1.0)  # nothing is known, and nothing claimed
    alone = ratio_bounds(0.01, 1e-9, batch=2, batches=1, fake=0.1, shadow=0.1)
    assert alone.once == alone.per_boundary == 0.0
    monkeypatch.setattr(rare_ratios, "_LONGEST", 100)  # ages beyond those that are looked at count in full
    assert all(1.0 > more > less for more, less in zip(chances(), usual, strict=True))


def test_a_small_margin_improves_the_bound_for_small_delta0() -> None:
    learner = _transform(_Added(np.zeros(2), 0.01, 1e-14), 100, p=0.1)
    costs = [evolve(learner, margin=m).graph().guarantee().epsilon(1e-6).upper for m in (1.0, 0.05)]
    assert costs[1] < 0.8 * costs[0]


def test_failures_are_in_the_plan() -> None:
    learner = RARE[0][0].learner
    bounds = learner.bounds
    events = {node.name: node.event for node in learner.graph().nodes if node.name != "batches"}  # type: ignore[union-attr]
    assert events["tails"] == ApproximateDP(0.0, bounds.per_boundary)
    assert events["failure"] == ApproximateDP(0.0, bounds.once)
    limited = {node.name for node in evolve(learner, draw_budget=3).graph().nodes}
    assert limited == {"batches", "switch", "draws", "failure"}


def test_sure_bounds_replace_those_that_may_fail() -> None:
    """A ratio width below 4 eta makes the decision certain; below 2 eta the draw, too."""
    for width, certain, pure in ((0.5, False, False), (0.35, True, False), (0.15, True, True)):
        learner = _transform(_Added(np.zeros(2), 0.1, 1e-9, width), 50)
        assert (learner.bounds.once == 0.0) == certain
        assert isinstance(learner.draw, BoundedRange) == pure
        fixed = "all losses are fixed in advance"
        assert (fixed not in learner.graph().assumptions) == certain
        if certain:
            evolve(learner, adversary="adaptive")
        else:
            with pytest.raises(InvalidArgumentError, match="adversary"):
                evolve(learner, adversary="adaptive")


# --- samplers, budgets -----------------------------------------------------------------------------------------------


@frozen
class _Inexact:
    tau: float

    def certificate(self) -> Certificate:
        return Certificate(self.tau, "as told")

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        return ClosedFormSampler().sample(measure, rng, runs)


def test_samplers_are_charged_for_their_error() -> None:
    weights = RegularizedWeights(inverse_temperature=1e-4, regularisation=1.0, lipschitz=1.0)

    def learner(radius: float, sampler: object, delta0: float) -> LazyTransform:
        measure = ConvexMeasure(weights=weights, domain=Ball(2, radius), sampler=sampler, delta0=delta0)  # type: ignore[arg-type]
        return LazyTransform(measure=measure, rounds=50, fake_switch_probability=0.2)

    exact = learner(1.0, ClosedFormSampler(), 0.0)
    assert exact.measure.eta == exact.measure.ratio_width == pytest.approx(2e-4)
    assert exact.draw == BoundedRange(2 * exact.measure.eta)
    inexact = learner(1.0, _Inexact(1e-9), 0.0).draw
    assert isinstance(inexact, ApproximateDP) and inexact.delta == pytest.approx(2e-9, rel=1e-3)
    wide, wide_inexact = (learner(5000.0, sampler, 1e-8) for sampler in (ClosedFormSampler(), _Inexact(1e-9)))
    assert 0.0 < wide.measure.eta < 0.25 * (wide.measure.ratio_width or 0.0)
    assert isinstance(wide.draw, ApproximateDP) and isinstance(wide_inexact.draw, ApproximateDP)
    assert wide_inexact.draw.delta > wide.draw.delta + 2e-9
    assert wide_inexact.bounds.once > wide.bounds.once > 0.0
    with pytest.raises(UnsupportedEventError, match="certificate"):
        learner(1.0, LangevinSampler(step=0.1, steps=3), 0.0).graph()


def test_a_budget_of_draws() -> None:
    learner, first, _ = _case(4, 1, True, "tight", 0.6)
    limited = evolve(learner, draw_budget=2)
    found = limited.simulate(first, np.random.default_rng(9), 2000)
    assert isinstance(found, Transcripts) and found.refreshed is not None
    draws = (found.switched + found.refreshed.astype(int)).sum(axis=1)
    assert draws.max() == 2
    assert {node.name for node in limited.graph().nodes} == {"batches", "switch", "draws"}
    assert evolve(learner, draw_budget=0).graph().guarantee().epsilon(0.0).upper == 0.0


def test_later_people_pay_less() -> None:
    learner, _, _ = _case(4, 2, True, "tight", 0.3)
    paid = [learner.epsilon_for(t, 1e-3) for t in range(learner.rounds)]
    assert paid == sorted(paid, reverse=True) and paid[0] > paid[-1] == 0.0
    assert paid[0] == pytest.approx(learner.graph().guarantee().epsilon(1e-3).upper)


# --- measures and arguments ------------------------------------------------------------------------------------------


def test_the_check_of_measures_agrees_with_the_paths() -> None:
    measure = _Added(np.array([0.0, 1.0, -np.inf]), eta=0.09, ratio_width=0.09)
    losses = np.array([[0.0, 0.09, 0.03], [0.05, 0.0, 0.05]])
    assert check_measure(measure, losses, rng=np.random.default_rng(0)).passes
    path = PointMeasure(measure=measure, points=3).path(losses, rounds=2, batch=1)
    for s in range(2):
        weights = measure.log_measure(losses[:s])
        expected = weights - np.logaddexp.reduce(weights)
        assert path.log_density(s, np.arange(3)) == pytest.approx(expected)
    assert set(path.sample(1, np.random.default_rng(0), 1000)) == {0, 1}
    best, least = path.best()
    assert best == 0 and least == pytest.approx(0.05) and path.loss(0, np.array([1]))[0] == 0.09


def test_extremes_of_a_measure() -> None:
    measure = _Added(np.zeros(2), eta=0.1, ratio_width=0.1)
    first, second = PointMeasure(measure=measure, points=2, extremes=((0.1, 0.0), (0.0, 0.1))).neighbours(3)
    assert first.tolist() == [[0.1, 0.0], [0.0, 0.0], [0.0, 0.0]] and second[0].tolist() == [0.0, 0.1]
    assert np.array_equal(first[1:], second[1:])


@pytest.mark.parametrize(
    ("losses", "name"),
    [
        ([[0.0, 0.5], [0.0, 0.06]], r"losses\[0\]"),  # range above the width
        ([[0.0, 2.0]] * 2, "losses"),
        ([[0.0, math.nan]] * 2, "losses"),
        ([[0.0, 0.05]], "losses"),
        ([[0.0, 0.05, 0.0]] * 2, "losses"),
    ],
)
@pytest.mark.parametrize("width", [0.1, None])
def test_losses_outside_of_the_class_are_refused(losses: list[list[float]], name: str, width: float | None) -> None:
    """Without a width, 2 eta is one."""
    measure = PointMeasure(measure=_Added(np.zeros(2), eta=0.1 if width else 0.05, ratio_width=width), points=2)
    with pytest.raises(InvalidArgumentError, match=name):
        measure.path(losses, rounds=2, batch=1)


REFUSED: dict[str, tuple[object, ...]] = {
    "rounds": (0,), "batch": (11,), "fake_switch_probability": (1.0,), "shadow_probability": (math.nan,),
    "normaliser": ("loose", -0.1, True), "margin": (0.0,), "adversary": ("kind",), "draw_budget": (-1,),
}  # fmt: skip
REFUSED_CLAIMS = {"eta": (0.0, math.inf), "delta0": (1.0, math.nan), "ratio_width": (-1.0,)}


def test_refused_arguments_and_measures() -> None:
    measure = _Added(np.zeros(2), eta=0.1)
    for name, values in REFUSED.items():
        for value in values:
            with pytest.raises(InvalidArgumentError, match=name):
                evolve(_transform(measure, 10), **{name: value})  # type: ignore[arg-type]
    for name, claims in REFUSED_CLAIMS.items():
        for claim in claims:
            with pytest.raises(InvalidArgumentError, match=name):
                _transform(evolve(measure, **{name: claim}), 10)  # type: ignore[arg-type]


def test_further_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="tight"):
        _transform(_Added(np.zeros(2), eta=0.1, delta0=1e-3), 10, normaliser="tight")
    learner = _transform(_Added(np.zeros(2), eta=0.1), 10)
    other = LazyExperts(
        rounds=10, experts=2, learning_rate=0.1, fake_switch_probability=0.1, variant="dartboard"
    ).simulate(np.zeros((10, 2)), np.random.default_rng(0), 3)
    with pytest.raises(InvalidArgumentError, match="transcripts"):
        learner.log_likelihood_ratio(other, np.zeros((10, 2)), np.zeros((10, 2)))
    for start in ([math.nan, 0.0], [-math.inf, -math.inf]):
        broken = PointMeasure(measure=_Added(np.array(start), eta=0.1), points=2)
        with pytest.raises(InvalidArgumentError, match="log_measure"):
            broken.path(np.zeros((1, 2)), rounds=1, batch=1)
    with pytest.raises(InvalidArgumentError, match="highest"):
        PointMeasure(measure=MultiplicativeMeasure(learning_rate=0.1), points=2, lowest=1.0)
    with pytest.raises(InvalidArgumentError, match="extremes"):
        PointMeasure(measure=MultiplicativeMeasure(learning_rate=0.1), points=2, extremes=((0.0,), (1.0,)))
