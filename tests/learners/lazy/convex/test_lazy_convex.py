"""Tests of the lazy learner of convex losses: exact marginals, certificates against exact laws, mutants, plan and
utility."""

from __future__ import annotations

import math

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.catalogue import GaussianDP
from hockeystick.audits import Claim
from hockeystick.audits.fixed_sample import audit
from hockeystick.learners import LazyConvex
from hockeystick.learners.lazy import (
    Ball,
    Box,
    ConvexLosses,
    ConvexTranscripts,
    GridSampler,
    LangevinSampler,
    LinearLosses,
    ProximalSampler,
    QuadraticLosses,
    RegressionLosses,
    RegularizedWeights,
    TangentSampler,
    paper_epsilon,
)
from hockeystick.learners.lazy.convex.losses.convex_losses import Domain
from hockeystick.learners.lazy.convex.sampling.samplers import sampling_failure

FALSE_ALARM = 1e-6


def _learner(rounds: int, batch: int, beta: float, lam: float, p: float, **more: object) -> LazyConvex:
    given: dict[str, object] = {"domain": Ball(1, 1.0), "lipschitz": 1.0, "failure": 1e-7}
    return LazyConvex(
        rounds=rounds,
        batch=batch,
        inverse_temperature=beta,
        regularisation=lam,
        fake_switch_probability=p,
        **(given | more),  # type: ignore[arg-type]
    )


def _grid(domain: Domain, count: int) -> FloatArray:
    """Midpoints of a grid over the domain, shape (N, d): the measures restricted to it are measures like any other."""
    axis = (np.arange(count) + 0.5) * (2.0 / count) - 1.0
    points = np.stack(np.meshgrid(*[axis] * domain.dimension, indexing="ij"), axis=-1).reshape(-1, domain.dimension)
    return np.asarray(points[domain.contains(points)])


def _law(learner: LazyConvex, losses: ConvexLosses, batch: int, points: FloatArray) -> FloatArray:
    log = -learner.measure(losses, batch).potential(points)
    law = np.exp(log - log.max())
    return np.asarray(law / law.sum())


def _keep(learner: LazyConvex, losses: ConvexLosses, batch: int, points: FloatArray) -> FloatArray:
    """Probability of keeping x, table [x, y]."""
    size = len(points)
    x, y = np.repeat(points, size, axis=0), np.tile(points, (size, 1))
    return np.exp(learner.log_keep(losses, batch, x, y)).reshape(size, size)


def _joint_laws(learner: LazyConvex, losses: ConvexLosses, points: FloatArray) -> list[FloatArray]:
    """Exact joint law [x, y] of point and shadow in every batch, on a grid of points."""
    first = _law(learner, losses, 0, points)
    joint = np.outer(first, first)
    laws = [joint]
    for s in range(1, learner.batches):
        keep, fresh = _keep(learner, losses, s, points), _law(learner, losses, s, points)
        joint = joint * keep + np.outer(fresh, (joint * (1.0 - keep)).sum(axis=0))
        again = learner.refresh_probability
        joint = (1.0 - again) * joint + again * np.outer(joint.sum(axis=1), fresh)
        laws.append(joint)
    return laws


def _drifting(rounds: int, dimension: int) -> LinearLosses:
    """All losses as steep as allowed: a drift one way, with turns in between."""
    gradients = np.zeros((rounds, dimension))
    gradients[:, 0] = np.where(np.arange(rounds) % 5 == 4, -1.0, 1.0)
    return LinearLosses(gradients)


# --- marginals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [Ball(1, 1.0), Ball(2, 1.0)])
@pytest.mark.parametrize(("p", "shadow"), [(0.05, None), (0.3, 0.0), (0.0, 0.7)])
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_points_follow_the_measures_exactly(domain: Domain, p: float, shadow: float | None, kind: str) -> None:
    """For every p, p_y and c >= r: the whole chain is computed on a grid of points."""
    losses: ConvexLosses = _drifting(12, domain.dimension)
    if kind == "logistic":
        losses = RegressionLosses(_drifting(12, domain.dimension).gradients, np.ones(12))
    points = _grid(domain, 41 if domain.dimension == 1 else 13)
    for normaliser in (None, 3.0):
        learner = _learner(12, 2, 0.4, 1.5, p, domain=domain, shadow_probability=shadow, normaliser=normaliser)
        learner = evolve(learner, normaliser=learner.largest_log_ratio if normaliser is None else normaliser)
        for s, joint in enumerate(_joint_laws(learner, losses, points)):
            assert np.abs(joint.sum(axis=1) - _law(learner, losses, s, points)).sum() <= 1e-12


@pytest.mark.parametrize("normaliser", [0.0, 0.05, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("p", [0.02, 0.3])
def test_clipping_moves_points_no_farther_than_its_bound(normaliser: float, p: float) -> None:
    losses, points = _drifting(24, 1), _grid(Ball(1, 1.0), 61)
    learner = _learner(24, 3, 0.2, 1.0, p, normaliser=normaliser)
    laws = _joint_laws(learner, losses, points)
    distances = [0.5 * np.abs(j.sum(axis=1) - _law(learner, losses, s, points)).sum() for s, j in enumerate(laws)]
    assert max(distances) <= learner.clip_bound(normaliser) + 1e-12
    if normaliser == 0.0:
        assert max(distances) > 1e-3  # the normaliser is there for a reason


def test_normaliser_is_the_least_that_keeps_the_clip_bound() -> None:
    learner = _learner(1000, 1, 1e-3, 50.0, 0.1, clip_tail=1e-4)
    c = learner.log_normaliser
    assert learner.clip_bound(c) <= 1e-4 < learner.clip_bound(c * (1 - 1e-6))
    assert learner.clip_bound(learner.largest_log_ratio) == 0.0
    assert _learner(1000, 1, 1e-3, 50.0, 0.1, normaliser=0.25).log_normaliser == 0.25


def test_mutants_that_lose_the_marginal() -> None:
    """Shared coins, a shadow that is the point itself, look-behind: each moves the law of the points."""
    losses, points = _drifting(12, 1), _grid(Ball(1, 1.0), 41)
    learner = _learner(12, 2, 0.4, 1.5, 0.3, normaliser=1.6)
    fresh = [_law(learner, losses, s, points) for s in range(6)]
    ratio = [_keep(evolve(learner, fake_switch_probability=0.0), losses, s, points) for s in range(1, 6)]

    def distance(keep: list[FloatArray], lag: int = 0) -> float:
        joint = np.outer(fresh[0], fresh[0])
        for s in range(1, 6):
            k, new = keep[s - 1], fresh[s - lag]
            joint = joint * k + np.outer(new, (joint * (1.0 - k)).sum(axis=0))
            joint = 0.7 * joint + 0.3 * np.outer(joint.sum(axis=1), fresh[s])
        return float(0.5 * np.abs(joint.sum(axis=1) - fresh[5]).sum())

    assert distance([0.7 * q for q in ratio]) <= 1e-12
    assert distance([np.minimum(q, 0.7) for q in ratio]) > 1e-4  # one uniform for both coins
    assert distance([np.full_like(q, 0.7 * math.exp(-1.6)) for q in ratio]) > 1e-3  # y = x: the ratio is 1
    assert distance([0.7 * q.T for q in ratio]) > 1e-3  # the ratio turned upside down
    assert distance([0.7 * q for q in ratio], lag=1) > 1e-3  # redrawn from the measure before


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_log_ratios_stay_within_their_tails(adversary: str) -> None:
    """At every boundary, in the exact law of (x, y), and with tails so short that they are put to use."""
    losses, points = _drifting(60, 1), _grid(Ball(1, 1.0), 161)
    for failure in (0.05, 0.9):
        lam = 30.0 if adversary == "oblivious" else 300.0
        learner = _learner(60, 2, 0.6, lam, 0.5, normaliser=0.1, failure=failure, adversary=adversary)
        tails = learner.tails
        assert tails.change < 2 * 0.6 * 2.0  # less than for sure
        gap = np.abs(points - points.T)  # linear losses: |r - r'| = 2*beta*|x - y| at most, |r| = B*beta*|x - y|
        missed = [float(j[2 * 0.6 * gap > tails.change].sum()) for j in _joint_laws(learner, losses, points)]
        assert max(missed) <= max(tails.per_boundary, tails.overall)
        assert tails.largest == pytest.approx(tails.change)
        assert bool(tails.grid) == (adversary == "oblivious")


@pytest.mark.parametrize(
    ("p", "shadow", "lam", "normaliser"),
    [
        (0.5, None, 30.0, 0.0),
        (0.05, 0.2, 30.0, 0.02),
        (0.05, 0.0, 8.0, 0.3),
        (0.01, 0.9, 2.0, 5.0),
        (0.0, 0.3, 30.0, 0.1),
    ],
)
def test_large_changes_of_log_ratios_are_rare(p: float, shadow: float | None, lam: float, normaliser: float) -> None:
    """Mean exceedances over each cell, at every boundary, in the exact law of (x, y): with coins clipped or not."""
    losses, points = _drifting(60, 1), _grid(Ball(1, 1.0), 161)
    learner = _learner(60, 2, 0.6, lam, p, shadow_probability=shadow, normaliser=normaliser, failure=1e-7)
    tails = learner.tails
    change = 1.2 * np.abs(points - points.T).ravel()
    grid = np.array(tails.grid)
    starts = np.append(0.0, grid[:-1])
    shares = np.clip((change[:, None] - starts) / (grid - starts), 0.0, 1.0)
    largest = np.max([joint.ravel() @ shares for joint in _joint_laws(learner, losses, points)], axis=0)
    assert (largest <= np.array(tails.chances) + tails.per_boundary).all()
    if p == 0.5:  # and that bound is not idle where measures drift little
        assert largest[8] >= 0.1 * tails.chances[8]


@pytest.mark.statistical
def test_average_costs_less_than_the_worst_state_and_groups_pay_it_where_they_may() -> None:
    learner = _learner(1000, 1, 5e-5, 1e4, 0.01, domain=Ball(3, 1e3), failure=1e-8)
    plain = evolve(learner.plan(), switch=learner.switch.event()).graph()
    for group in (1, 2):
        found = learner.graph().guarantee(group=group)
        assert found.epsilon(1e-6).upper < plain.guarantee(group=group).epsilon(1e-6).upper * (1 + 1e-9)
    assert learner.graph().guarantee().epsilon(1e-6).upper < 0.5 * plain.guarantee().epsilon(1e-6).upper
    apart = [move.event() for move in learner.graph().guarantee(group=2).moves]
    assert any((learner.decision, 2) in getattr(event, "parts", ()) for event in apart)
    adaptive = evolve(learner, adversary="adaptive")
    assert adaptive.decision == adaptive.switch.event()
    tiny = evolve(learner, domain=Ball(3, 1e-3))  # the bound that holds for sure is as good
    assert tiny.decision == tiny.switch.event() and tiny.tails.per_boundary == 0.0


# --- certificates against exact laws ---------------------------------------------------------------------------------


def _exact_delta(learner: LazyConvex, pair: tuple[ConvexLosses, ConvexLosses], epsilon: float, nodes: int) -> float:
    """delta(epsilon) of the full view of two batches, the larger direction, by quadrature: first point and shadow,
    the decision, the draws behind it."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    points = x[:, None]

    def law(losses: ConvexLosses, batch: int) -> FloatArray:
        log = np.log(w) - learner.measure(losses, batch).potential(points)
        mass = np.exp(log - log.max())
        return np.asarray(mass / mass.sum())

    start = law(pair[0], 0)
    keep0, keep1 = (_keep(learner, losses, 1, points).ravel() for losses in pair)
    weight = np.outer(start, start).ravel()
    new0, new1 = (law(losses, 1) for losses in pair)
    again = learner.refresh_probability
    # Draws behind the decision: none, or the shadow; a point, or both. Atoms of (P, Q) given the decision.
    one = (new0, new1)
    both = (np.outer(new0, new0).ravel(), np.outer(new1, new1).ravel())
    branches = [(0, (1 - again), (np.ones(1), np.ones(1))), (0, again, one), (1, (1 - again), one), (1, again, both)]
    largest = 0.0
    for swap in (False, True):
        total = 0.0
        for moved, chance, (d0, d1) in branches:
            b0, b1 = (1 - keep0, 1 - keep1) if moved else (keep0, keep1)
            a, b, e, f = (b1, b0, d1, d0) if swap else (b0, b1, d0, d1)
            for index in np.array_split(np.arange(len(weight)), max(1, len(weight) * len(e) // 2_000_000)):
                gap = np.outer(a[index], e) - math.exp(epsilon) * np.outer(b[index], f)
                total += chance * float(weight[index] @ np.maximum(0.0, gap).sum(axis=1))
        largest = max(largest, total)
    return largest


@pytest.mark.parametrize(
    ("beta", "lam", "p", "batch"), [(0.3, 2.0, 0.2, 1), (0.05, 0.5, 0.05, 1), (0.3, 30.0, 0.2, 1), (0.2, 8.0, 0.1, 3)]
)
@pytest.mark.every(2)
def test_certificate_covers_the_exact_law_of_two_batches(beta: float, lam: float, p: float, batch: int) -> None:
    learner = _learner(2 * batch, batch, beta, lam, p)
    pair = learner.worst_case_neighbours()
    guarantee = learner.graph().guarantee()
    for delta in (1e-2, 1e-3, 1e-4):
        epsilon = guarantee.epsilon(delta).upper
        exact = _exact_delta(learner, pair, epsilon, 24)
        assert exact <= delta * (1 + 1e-3)
        assert _exact_delta(learner, pair, 0.1 * epsilon, 24) > delta  # and is not idle


def test_draws_of_a_small_domain_cost_their_range() -> None:
    """By the smaller zCDP; what it is worth is checked against exact laws above (beta = 0.05)."""
    small, large = _learner(20, 1, 0.05, 0.5, 0.05), _learner(20, 1, 0.3, 30.0, 0.2)
    assert small.draw.pure_epsilon() == pytest.approx(2 * 0.05 * 2.0, rel=1e-6)
    assert small.draw.zcdp_rho() < small.weights.replacement_mu**2 / 2
    assert large.draw == GaussianDP(large.weights.replacement_mu)
    mus = [0.1, 0.5, 2.0]
    for mu in mus:  # at the same mu the smaller domain never costs more
        weights = RegularizedWeights.of_replacement(mu, regularisation=1.0, lipschitz=1.0)
        costs = [
            _learner(20, 1, weights.inverse_temperature, 1.0, 0.1, domain=Ball(1, radius)).draw.zcdp_rho()
            for radius in (0.01, 0.3, 1.0, 10.0)
        ]
        assert costs == sorted(costs) and costs[-1] == pytest.approx(mu**2 / 2)


@pytest.mark.statistical
def test_mutants_that_cost_more_than_they_claim() -> None:
    """By exact laws: no fake switches; half the sensitivity."""
    delta, beta, lam, p = 1e-3, 0.3, 2.0, 0.2
    learner = _learner(2, 1, beta, lam, p)
    pair = learner.worst_case_neighbours()
    claimed = learner.graph().guarantee().epsilon(delta).upper
    broken = evolve(learner, fake_switch_probability=0.0, shadow_probability=p, normaliser=0.0)
    assert _exact_delta(broken, pair, claimed, 24) > 2 * delta
    learner = _learner(2, 1, 3.3, 6.6, 0.9999)  # draws alone matter
    modest = evolve(learner, lipschitz=0.5, normaliser=learner.log_normaliser)
    claimed = modest.graph().guarantee().epsilon(delta).upper
    assert _exact_delta(learner, pair, claimed, 40) > 10 * delta
    assert _exact_delta(learner, pair, learner.graph().guarantee().epsilon(delta).upper, 40) <= delta


def test_log_likelihood_ratio_is_one() -> None:
    """E[P1/P0] under P0 = 1 within six standard errors; equal streams give exactly 0; the first batch is
    uninformative."""
    learner = _learner(6, 2, 0.5, 1.0, 0.3, domain=Box((-1.0, -0.5), (0.5, 1.0)))
    rng = np.random.default_rng(5)
    streams = [QuadraticLosses(rng.uniform(-0.2, 0.2, (6, 2)), 0.5) for _ in range(2)]
    streams[1] = QuadraticLosses(np.concatenate([[[-0.3, 0.3]], streams[0].centres[1:]]), 0.5)
    view = learner.simulate(streams[0], np.random.default_rng(6), 40_000)
    ratio = np.exp(learner.log_likelihood_ratio(view, streams[1], streams[0]))
    assert abs(ratio.mean() - 1.0) <= 6 * ratio.std() / 200.0
    assert ratio.std() > 0.05
    assert (learner.log_likelihood_ratio(view, streams[0], streams[0]) == 0.0).all()
    with pytest.raises(InvalidArgumentError, match="closed form"):
        ball = _learner(6, 2, 0.5, 1.0, 0.3, domain=Ball(2, 1.0))
        ball.log_likelihood_ratio(view, *ball.worst_case_neighbours())


class _Target:
    """The full view's log-likelihood ratio on runs of a learner, broken or not."""

    def __init__(self, learner: LazyConvex) -> None:
        self.learner = learner

    def __call__(self, losses: LinearLosses, rng: np.random.Generator, runs: int) -> FloatArray:
        view = self.learner.simulate(losses, rng, runs)
        return np.clip(self.learner.log_likelihood_ratio(view, *self.learner.worst_case_neighbours()), -100.0, 100.0)


@pytest.mark.statistical
def test_audit_passes_the_learner_and_refutes_mutants() -> None:
    learner = _learner(40, 1, 0.6, 30.0, 0.9, failure=1e-4)
    learner = evolve(learner, normaliser=learner.log_normaliser)
    pair = learner.worst_case_neighbours()

    def refuted(target: _Target) -> bool:
        found = audit(target, claim=claim, neighbours=pair, samples=60_000, rng=1, confidence=1 - FALSE_ALARM)
        return bool(found.refuted)

    claim = Claim(learner.graph().guarantee().epsilon(1e-3).upper, 1e-3)
    assert not refuted(_Target(learner))
    claim = Claim(evolve(learner, lipschitz=0.5).graph().guarantee().epsilon(1e-3).upper, 1e-3)
    assert refuted(_Target(learner))  # half the sensitivity
    few = _learner(2, 1, 0.3, 2.0, 0.2)
    claim = Claim(few.graph().guarantee().epsilon(1e-3).upper, 1e-3)
    pair = few.worst_case_neighbours()
    broken = evolve(few, fake_switch_probability=0.0, shadow_probability=0.2, normaliser=0.0)
    assert not refuted(_Target(few))
    assert refuted(_Target(broken))  # no fake switches


# --- simulation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [Ball(1, 1.0), Box((-1.0, -0.5), (0.5, 1.0))])
def test_simulated_points_follow_the_measures(domain: Domain) -> None:
    runs = 20_000
    losses = _drifting(20, domain.dimension)
    learner = _learner(20, 4, 0.3, 1.5, 0.2, domain=domain, shadow_probability=0.4)
    view = learner.simulate(losses, np.random.default_rng(3), runs)
    assert view.runs == runs and view.actions.shape == view.shadows.shape == (runs, 5, domain.dimension)
    assert not view.switched[:, 0].any() and not view.refreshed[:, 0].any()
    for s in range(5):
        for i in range(domain.dimension):
            law = learner.measure(losses, s)

            def cdf(z: FloatArray, law: object = law, i: int = i) -> FloatArray:
                at = np.zeros((len(z), domain.dimension))
                at[:, i] = z
                return np.asarray(learner.measure(losses, s).marginals(at)[:, i])

            assert stats.kstest(view.actions[:, s, i], cdf).pvalue >= FALSE_ALARM / 10
    refreshed = int(view.refreshed[:, 1:].sum())
    assert stats.binomtest(refreshed, 4 * runs, 0.4).pvalue >= FALSE_ALARM
    same = np.all(view.actions[:, 1:] == view.actions[:, :-1], axis=2)
    assert (same == ~view.switched[:, 1:]).all()
    assert np.all(view.shadows[:, 1:] == view.shadows[:, :-1], axis=2).sum() == 4 * runs - refreshed
    # Real and fake switches, and the shadow's coin, are independent: rates given the state multiply.
    for s in range(1, 5):
        keep = np.exp(learner.log_keep(losses, s, view.actions[:, s - 1], view.shadows[:, s - 1]))
        excess = float(np.sum(~view.switched[:, s] - keep))
        assert abs(excess) <= 6 * math.sqrt(float((keep * (1 - keep)).sum()))
        table = np.histogram2d(view.switched[:, s], view.refreshed[:, s], bins=2)[0]
        assert stats.chi2_contingency(table).pvalue >= FALSE_ALARM
        assert keep.max() <= 0.8 and 1 - keep.min() <= learner.largest_redraw_probability


def test_seeds_repeat_and_runs_are_reported() -> None:
    learner = _learner(11, 3, 0.3, 1.5, 0.2, domain=Ball(3, 1.0))
    losses = _drifting(11, 3)
    first, second = (learner.simulate(losses, np.random.default_rng(1), 50) for _ in range(2))
    assert (first.actions == second.actions).all() and (first.refreshed == second.refreshed).all()
    run = learner.run(losses, np.random.default_rng(1))
    assert run.actions.shape == (11, 3) and (run.actions[0] == run.actions[2]).all()
    assert run.loss == pytest.approx(float(np.einsum("ti,ti->", losses.gradients, run.actions)))
    assert run.best_point == pytest.approx([-1.0, 0.0, 0.0])
    assert run.regret == pytest.approx(run.loss + 7.0)


@pytest.mark.statistical
@pytest.mark.parametrize("sampler", [TangentSampler(), GridSampler(16), ProximalSampler(1e-6, step=0.05)])
def test_other_samplers_and_losses(sampler: object) -> None:
    rng = np.random.default_rng(4)
    losses = RegressionLosses(rng.uniform(-0.6, 0.6, (9, 2)), np.where(rng.random(9) < 0.5, -1.0, 1.0))
    learner = _learner(9, 2, 0.2, 2.0, 0.3, domain=Ball(2, 1.0), sampler=sampler)
    view = learner.simulate(losses, np.random.default_rng(0), 30)
    assert learner.domain.contains(view.actions * (1 - 1e-12)).all()
    assert learner.graph().guarantee().epsilon(1e-3).upper < math.inf
    closed = evolve(learner, sampler=_learner(9, 2, 0.2, 2.0, 0.3).sampler)
    with pytest.raises(InvalidArgumentError, match="closed form"):
        closed.simulate(losses, np.random.default_rng(0), 3)


def test_draw_budget_is_kept_and_charged() -> None:
    learner = _learner(40, 1, 0.3, 2.0, 0.4, draw_budget=5)
    losses, _ = learner.worst_case_neighbours()
    view = learner.simulate(losses, np.random.default_rng(2), 2000)
    draws = view.switched.sum(axis=1) + view.refreshed.sum(axis=1)
    assert draws.max() == 5 and view.switched[:, -1].sum() == 0
    free = evolve(learner, draw_budget=None)
    assert len(learner.graph().nodes) == 3 + (learner.tails.per_boundary > 0)
    assert learner.graph().guarantee().epsilon(1e-4).upper < free.graph().guarantee().epsilon(1e-4).upper
    other = learner.worst_case_neighbours()[1]
    ratio = np.exp(learner.log_likelihood_ratio(view, other, losses))
    assert abs(ratio.mean() - 1.0) <= 6 * ratio.std() / math.sqrt(2000)
    with pytest.raises(InvalidArgumentError, match="draw_budget"):
        learner.regret_bound()


# --- the plan --------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_plan_does_not_grow_with_the_rounds_and_later_people_pay_less() -> None:
    def of(n: int) -> LazyConvex:
        return _learner(n, 1, 5e-5, 1e4, 0.003, domain=Ball(3, 1e3), failure=1e-8)

    small, large = of(10).graph(), of(10**6).graph()
    assert len(small.nodes) == len(large.nodes) == 6  # the source and five families
    assert large.adjacency is Adjacency.REPLACE_ONE and large.pinned
    assert AccountantGraph.from_json(large.to_json()) == large
    learner = of(1000)
    paid = [learner.epsilon_for(t, 1e-6) for t in (0, 500, 998, 999)]
    assert paid == sorted(paid, reverse=True) and paid[0] > paid[2] > paid[3] == 0.0
    assert paid[0] == pytest.approx(learner.graph().guarantee().epsilon(1e-6).upper, rel=1e-9)
    one = learner.graph().guarantee().epsilon(1e-6).upper
    two = learner.graph().guarantee(group=2).epsilon(1e-6).upper
    assert one < two < math.inf


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("batch", "mu", "p", "known", "printed"),
    [(10, 2e-4, 0.01, 0.36, 7.4), pytest.param(1, 1e-4, 0.003, 0.48, 6.65, marks=pytest.mark.deep)],
)
def test_certificate_is_below_known_and_printed_values(
    batch: int, mu: float, p: float, known: float, printed: float
) -> None:
    """T = 1e6, delta = 1e-6: values for coarser tails and the worst state, and the printed formula with its own eta."""
    delta, lam = 1e-6, 1e4
    learner = _learner(10**6, batch, mu**2 * lam / 2, lam, p, domain=Ball(3, 1e3), failure=0.05 * delta)
    certified = learner.graph().guarantee().epsilon(delta).upper
    assert 0.2 * known < certified <= 0.33 * known
    # Its eta = mu^2 + 2*mu*sqrt(ln(2/delta_0)) at the delta_0 that its delta needs.
    eta = mu**2 + 2 * mu * math.sqrt(math.log(2e18))
    formula = paper_epsilon(rounds=10**6, batch=batch, learning_rate=eta, fake_switch_probability=p, delta=delta)
    assert certified < 0.2 * formula.epsilon
    assert formula.epsilon == pytest.approx(printed, rel=0.5)


@pytest.mark.statistical
def test_adaptive_adversaries_cost_more() -> None:
    oblivious = _learner(2000, 1, 5e-5, 1e4, 0.02, domain=Ball(20, 1e3), failure=1e-8)
    adaptive = evolve(oblivious, adversary="adaptive")
    assert adaptive.tails.change > 1.3 * oblivious.tails.change
    assert adaptive.graph().guarantee().epsilon(1e-6).upper > oblivious.graph().guarantee().epsilon(1e-6).upper
    assert any("fixed in advance" in sentence for sentence in oblivious.graph().assumptions)
    assert any("may depend" in sentence for sentence in adaptive.graph().assumptions)


def test_one_batch_costs_nothing_and_no_fake_switch_is_not_certified() -> None:
    assert _learner(7, 7, 1.0, 1.0, 0.5).graph().guarantee().epsilon(0.0).upper == 0.0
    lazy = _learner(10, 1, 0.1, 1.0, 0.0, normaliser=0.05)
    assert lazy.graph().guarantee().epsilon(1e-3).upper == math.inf


@pytest.mark.statistical
def test_inexact_samplers_are_charged_and_uncertified_ones_refused() -> None:
    exact = _learner(50, 1, 0.05, 2.0, 0.2, domain=Ball(1, 3.0))  # wide: draws are charged as Gaussian-DP
    rough, fine = (evolve(exact, sampler=ProximalSampler(tau)) for tau in (1e-6, 1e-15))
    values = [one.graph().guarantee().epsilon(1e-3).upper for one in (exact, fine, rough)]
    assert max(values[:2]) < values[2]
    assert values[1] == pytest.approx(values[0], rel=1e-6)
    failing = rough.graph().guarantee().event.failure_delta()
    draws = 1.0 + 48 * rough.largest_redraw_probability + 49 * 0.2
    tails = 49 * rough.tails.per_boundary + rough.tails.overall
    each = sampling_failure(rough.weights.replacement_mu, 1e-6)
    assert each > 2e-6 and failing == pytest.approx(tails + each * draws, rel=1e-6)
    assert rough.graph().guarantee().epsilon(0.5 * failing).upper == math.inf
    with pytest.raises(UnsupportedEventError, match="distance 2"):
        rough.graph().guarantee(group=2).epsilon(1e-3)
    wild = evolve(exact, sampler=LangevinSampler(steps=5, step=0.01))
    for refused in (wild.graph, lambda: wild.epsilon_for(0, 1e-3)):
        with pytest.raises(UnsupportedEventError, match="no certificate"):
            refused()
    losses, _ = exact.worst_case_neighbours()
    fixed = evolve(wild, normaliser=1.0)
    assert fixed.simulate(losses, np.random.default_rng(0), 5).runs == 5  # for experiments
    declared = evolve(exact, sampler=LangevinSampler(steps=5, step=0.01, declared_total_variation=1e-6))
    assert declared.graph().guarantee().epsilon(1e-3).upper == pytest.approx(values[2])


# --- utility ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 4), st.integers(1, 5))
@settings(max_examples=40)
def test_expected_regret_is_below_its_bound(seed: int, rounds: int, dimension: int, batch: int) -> None:
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(rounds, dimension)) + rng.normal(size=dimension)
    losses = LinearLosses(gradients).clipped(1.0)
    learner = _learner(
        rounds,
        min(batch, rounds),
        10.0 ** rng.uniform(-1, 2),
        10.0 ** rng.uniform(-1, 1.5),
        0.1,
        domain=Box.cube(dimension, 1.0),
    )
    assert learner.expected_regret(losses) <= learner.regret_bound() + 1e-9


def test_simulated_regret_agrees_with_the_expected_one() -> None:
    """Hoeffding at 1e-6: a learner that saw each batch before playing it would be far below."""
    rng, runs = np.random.default_rng(8), 4000
    losses = LinearLosses(rng.uniform(-0.5, 0.5, (30, 2)))
    learner = _learner(30, 3, 3.0, 1.0, 0.3, domain=Box.cube(2, 1.0))
    learner = evolve(learner, normaliser=learner.largest_log_ratio)
    points = learner.simulate(losses, np.random.default_rng(9), runs).actions
    sums = losses.gradients.reshape(10, 3, 2).sum(axis=1)
    mean = float(np.einsum("rsi,si->r", points, sums).mean()) + float(np.abs(losses.gradients.sum(axis=0)).sum())
    span = float(2 * np.abs(sums).sum())
    assert abs(mean - learner.expected_regret(losses)) <= span * math.sqrt(math.log(2 / FALSE_ALARM) / (2 * runs))


def test_neighbours_differ_in_one_round() -> None:
    for domain in (Ball(3, 2.0), Box((-1.0, -3.0), (1.0, 3.0))):
        first, second = _learner(9, 2, 0.1, 1.0, 0.1, domain=domain, lipschitz=2.5).worst_case_neighbours()
        assert np.flatnonzero((first.gradients != second.gradients).any(axis=1)).tolist() == [0]
        assert first.lipschitz(domain).max() == 2.5
    assert first.gradients[0].tolist() == [0.0, 2.5]  # along the longer side


# --- arguments -------------------------------------------------------------------------------------------------------


REFUSED: dict[str, tuple[object, ...]] = {
    "rounds": (0, 2.5), "domain": (3,), "lipschitz": (0.0, math.nan), "batch": (0, 11),
    "inverse_temperature": (0.0, math.inf), "regularisation": (-1.0, True), "fake_switch_probability": (1.0, math.nan),
    "shadow_probability": (1.0,), "failure": (0.0, 1.0), "clip_tail": (0.0,), "normaliser": (-1.0,),
    "adversary": ("lazy",), "draw_budget": (0,),
}  # fmt: skip


@pytest.mark.parametrize(("argument", "values"), REFUSED.items())
def test_bad_arguments_are_refused(argument: str, values: tuple[object, ...]) -> None:
    good = _learner(10, 1, 0.1, 1.0, 0.1, domain=Ball(2, 1.0))
    for value in values:
        with pytest.raises(InvalidArgumentError, match=argument):
            evolve(good, **{argument: value})  # type: ignore[arg-type]


def test_bad_losses_are_refused() -> None:
    learner = _learner(10, 1, 0.1, 1.0, 0.1)
    rng = np.random.default_rng(0)
    for bad, match in (
        (LinearLosses(np.full((10, 1), 1.01)), "lipschitz"),
        (LinearLosses(np.full((9, 1), 1.0)), "rounds, dimension"),
        (LinearLosses(np.full((10, 2), 0.1)), "rounds, dimension"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            learner.simulate(bad, rng, 1)
    with pytest.raises(InvalidArgumentError, match="runs"):
        learner.simulate(_drifting(10, 1), rng, 0)
    with pytest.raises(InvalidArgumentError, match="rng"):
        learner.simulate(_drifting(10, 1), 3, 1)  # type: ignore[arg-type]
    assert isinstance(learner.simulate(_drifting(10, 1), rng, 1), ConvexTranscripts)
