"""Tests of samplers of the regularised measures: their laws, their certificates, and the cost of a certificate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from attrs import frozen
from divergences import hockey_stick
from samples import chi_square_of_counts
from scipy import integrate, stats

from hockeystick.accounting import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.losses.gaussian_profile import log_delta
from hockeystick.learners.lazy import (
    Ball,
    Box,
    ClosedFormSampler,
    ConvexLosses,
    GridSampler,
    LangevinSampler,
    LinearLosses,
    ProximalSampler,
    QuadraticLosses,
    RegressionLosses,
    RegularizedMeasure,
    TangentSampler,
)
from hockeystick.learners.lazy.convex.losses.convex_losses import Domain
from hockeystick.learners.lazy.convex.sampling import samplers
from hockeystick.learners.lazy.convex.sampling.samplers import Sampler, restricted_normal, sampling_failure

FALSE_ALARM = 1e-6


def _measure(losses: ConvexLosses, domain: Domain, *, beta: float = 1.0, lam: float = 1.0) -> RegularizedMeasure:
    return RegularizedMeasure(
        domain=domain, losses=losses, seen=losses.rounds, inverse_temperature=beta, regularisation=lam
    )


def _losses(kind: str, dimension: int) -> ConvexLosses:
    rng = np.random.default_rng(17)
    rows = rng.normal(size=(12, dimension)) + 0.4
    if kind == "linear":
        return LinearLosses(rows)
    if kind == "quadratic":
        return QuadraticLosses(rows, 0.6)
    if kind == "absolute":
        return RegressionLosses(rows, rng.normal(size=12), "absolute")
    return RegressionLosses(rows, np.where(rng.random(12) < 0.5, -1.0, 1.0), "hinge" if kind == "hinge" else "logistic")


def _p_values(draws: FloatArray, measure: RegularizedMeasure) -> list[float]:
    """Kolmogorov-Smirnov tests of linear functions of the draws against quadrature (one or two dimensions)."""
    dimension, reach = measure.domain.dimension, measure.domain.largest_norm
    directions = [np.ones(1)] if dimension == 1 else [np.array([math.cos(t), math.sin(t)]) for t in (0.0, 1.0, 2.3)]
    found = []
    for e in directions:
        along = np.linspace(-reach, reach, 601)
        points = along[:, None, None] * e
        if dimension == 2:
            across = np.linspace(-reach, reach, 401)
            points = points + across[None, :, None] * np.array([-e[1], e[0]])
        flat = points.reshape(-1, dimension)
        density = np.where(measure.domain.contains(flat), np.exp(-measure.potential(flat) + _floor(measure)), 0.0)
        marginal = density.reshape(points.shape[:2]).sum(axis=1)
        law = integrate.cumulative_trapezoid(marginal, along, initial=0.0)
        law /= law[-1]
        found.append(float(stats.kstest(draws @ e, lambda z, a=along, c=law: np.interp(z, a, c)).pvalue))
    return found


def _floor(measure: RegularizedMeasure) -> float:
    return float(measure.potential(measure.mode()[None])[0])


EXACT: list[tuple[str, Sampler, str, Domain]] = [
    (f"{type(sampler).__name__} {kind} {domain}", sampler, kind, domain)
    for domain in (Ball(1, 1.0), Box.cube(1, 1.0), Ball(2, 1.0), Box((-1.0, -0.2), (0.5, 1.0)))
    for kind in ("linear", "quadratic", "hinge", "logistic", "absolute")
    for sampler in (
        ClosedFormSampler(),
        TangentSampler(),
        TangentSampler(start=(0.5,) * domain.dimension),  # far from the mode
        GridSampler(40),
        GridSampler(3),  # coarse
    )
    if kind in ("linear", "quadratic") or not isinstance(sampler, ClosedFormSampler)
]


@pytest.mark.parametrize(("name", "sampler", "kind", "domain"), EXACT, ids=[case[0] for case in EXACT])
@pytest.mark.every(3)
def test_exact_samplers_follow_the_measure(name: str, sampler: Sampler, kind: str, domain: Domain) -> None:
    measure = _measure(_losses(kind, domain.dimension), domain, beta=0.7)
    draws = sampler.sample(measure, np.random.default_rng(2), 6000)
    assert sampler.certificate().exact and sampler.certificate().required() == 0.0
    assert draws.shape == (6000, domain.dimension) and measure.domain.contains(draws * (1 - 1e-12)).all()
    p_values = _p_values(draws, measure)
    assert min(p_values) >= FALSE_ALARM / len(p_values)


def _cell_p_value(draws: FloatArray, measure: RegularizedMeasure, cells: int = 6) -> float:
    """Chi-square test of the joint law on a grid of cells over a square, against quadrature; for two dimensions."""
    reach, fine = measure.domain.largest_norm, 60 * cells
    axis = (np.arange(fine) + 0.5) * (2.0 * reach / fine) - reach
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.where(measure.domain.contains(points), np.exp(-measure.potential(points) + _floor(measure)), 0.0)
    law = density.reshape(cells, 60, cells, 60).sum(axis=(1, 3))
    edges = np.linspace(-reach, reach, cells + 1)
    counts = np.histogram2d(draws[:, 0], draws[:, 1], bins=[edges, edges])[0]
    return float(chi_square_of_counts(counts, law / law.sum(), least=5))


@pytest.mark.parametrize(
    ("sampler", "kind"),
    [
        (ClosedFormSampler(), "linear"),
        (ClosedFormSampler(), "quadratic"),
        (TangentSampler(), "logistic"),
        (GridSampler(12), "hinge"),
    ],
)
@pytest.mark.parametrize("domain", [Ball(2, 1.0), Box((-1.0, -0.2), (0.5, 1.0))])
def test_the_joint_law_in_the_plane_is_exact(sampler: Sampler, kind: str, domain: Domain) -> None:
    """Linear functions alone would not see, say, coordinates drawn with one and the same noise."""
    check_joint_law(sampler, kind, domain)


@pytest.mark.statistical
@pytest.mark.parametrize("domain", [Box((-1.0, -0.2), (0.5, 1.0)), pytest.param(Ball(2, 1.0), marks=pytest.mark.deep)])
def test_the_joint_law_of_the_proximal_sampler(domain: Domain) -> None:
    check_joint_law(ProximalSampler(1e-4, step=0.05), "logistic", domain)


def check_joint_law(sampler: Sampler, kind: str, domain: Domain) -> None:
    measure = _measure(_losses(kind, 2), domain, beta=0.3, lam=1.5)
    assert _cell_p_value(sampler.sample(measure, np.random.default_rng(6), 4000), measure) >= FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["logistic", "absolute", "hinge"])
def test_tangents_may_be_taken_at_the_worst_point(kind: str) -> None:
    """At the least likely corner, and at a point outside, which is moved in: a bad tangent costs time alone."""
    measure = _measure(_losses(kind, 2), Box.cube(2, 1.0), beta=0.4)
    corners = np.array([[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
    worst = corners[int(np.argmax(measure.potential(corners)))]
    best = TangentSampler().sample(measure, np.random.default_rng(0), 1200)
    for start in (worst, 50.0 * worst):
        draws = TangentSampler(start=tuple(start)).sample(measure, np.random.default_rng(1), 1200)
        assert min(_p_values(draws, measure)) >= FALSE_ALARM / 3
        assert _cell_p_value(draws, measure) >= FALSE_ALARM
        assert min(float(stats.ks_2samp(draws[:, i], best[:, i]).pvalue) for i in range(2)) >= FALSE_ALARM


@pytest.mark.parametrize("dimension", [2, 5, 40])
@pytest.mark.parametrize("scale", [0.1, 3.0, 300.0])
@pytest.mark.parametrize("precision", [0.5, 50.0])
@pytest.mark.every(5)
def test_the_normal_law_in_a_ball_is_exact(dimension: int, scale: float, precision: float) -> None:
    """The component along the mean and the direction across, for means far inside and far outside."""
    mean = np.zeros(dimension)
    mean[-1] = -scale / (2 * precision)
    draws = restricted_normal(mean, 0.5 / precision, Ball(dimension, 1.3), np.random.default_rng(8), 20_000)
    along = np.linspace(-1.3, 1.3, 20_001)
    room = precision * np.maximum(0.0, 1.69 - along**2)
    with np.errstate(divide="ignore"):
        log = -scale * along - precision * along**2 + stats.gamma.logcdf(room, 0.5 * (dimension - 1))
    law = integrate.cumulative_trapezoid(np.exp(log - log.max()), along, initial=0.0)
    law /= law[-1]
    assert stats.kstest(draws[:, -1], lambda z: np.interp(z, along, law)).pvalue >= FALSE_ALARM
    radius = np.sum(draws**2, axis=1) - draws[:, -1] ** 2
    below = stats.gamma.cdf(precision * radius, 0.5 * (dimension - 1))
    below = below / stats.gamma.cdf(precision * np.maximum(0.0, 1.69 - draws[:, -1] ** 2), 0.5 * (dimension - 1))
    assert stats.kstest(below, "uniform").pvalue >= FALSE_ALARM
    if dimension == 2:
        assert abs(np.mean(draws[:, 0] > 0) - 0.5) <= math.sqrt(math.log(2 / FALSE_ALARM) / 40_000)


def test_staircase_is_exact_however_coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "_LEVELS", np.array([1.0, 6.0, 40.0]))
    test_the_normal_law_in_a_ball_is_exact(5, 3.0, 0.5)
    test_the_normal_law_in_a_ball_is_exact(2, 3.0, 50.0)


def test_truncated_normal_far_in_the_tail() -> None:
    draws = restricted_normal(np.array([-1e4]), 1.0, Ball(1, 1.0), np.random.default_rng(0), 5000)
    assert stats.kstest((draws[:, 0] + 1.0) * 9999.0, "expon").pvalue >= FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        (kind, domain) if (i + k) % 3 == 0 else pytest.param(kind, domain, marks=pytest.mark.deep)
        for k, kind in enumerate(("linear", "quadratic", "logistic", "hinge"))
        for i, domain in enumerate((Box.cube(1, 1.0), Ball(2, 1.0), Box.cube(2, 1.0)))
    ],
)
def test_proximal_sampler_follows_the_measure(kind: str, domain: Domain) -> None:
    measure = _measure(_losses(kind, domain.dimension), domain, beta=0.2, lam=4.0)
    sampler = ProximalSampler(total_variation=1e-4, step=0.02)
    draws = sampler.sample(measure, np.random.default_rng(4), 4000)
    p_values = _p_values(draws, measure)
    assert not sampler.certificate().exact and sampler.certificate().required() == 1e-4
    assert min(p_values) >= FALSE_ALARM / len(p_values)


@pytest.mark.parametrize("kind", ["linear", "logistic", "absolute"])
@pytest.mark.parametrize("step", [0.02, 0.2])
@pytest.mark.every(2)
def test_proximal_certificate_holds_round_by_round(kind: str, step: float) -> None:
    """The exact law after each round, on a fine grid of the line: divergence and total variation under their bounds."""
    measure = _measure(_losses(kind, 1), Box.cube(1, 1.0), beta=0.3, lam=3.0)
    x: FloatArray = np.asarray((np.arange(801) + 0.5) * (2.0 / 801) - 1.0, dtype=float)
    points: FloatArray = np.asarray(x[:, None], dtype=float)
    target = np.exp(-measure.potential(points))
    target /= target.sum()
    wide = np.linspace(-1.0 - 6 * math.sqrt(step), 1.0 + 6 * math.sqrt(step), 1201)
    forward = np.exp(-((x[:, None] - wide) ** 2) / (2 * step))
    forward /= forward.sum(axis=1, keepdims=True)
    backward = np.exp(-((wide[:, None] - x) ** 2) / (2 * step)) * target
    backward /= backward.sum(axis=1, keepdims=True)
    steepness = measure.inverse_temperature * measure.losses.lipschitz(measure.domain).sum()
    for z in (measure.mode(), np.array([1.0]), np.array([-1.0])):  # the start's tangent may be anywhere
        slope = measure.slope_at(z[None])[0]
        law = np.exp(-points @ slope - 0.5 * measure.strong_convexity * x**2)
        law /= law.sum()
        bound = 2.0 * steepness * 2.0
        for rounds in range(40):
            divergence = float(np.sum(law * np.log(np.maximum(law, 1e-300) / target)))
            assert divergence <= bound * (1 + 1e-9) + 1e-12
            for tau in (0.1, 0.01, 1e-3):
                if rounds >= ProximalSampler(tau, step).plan(measure)[1]:
                    assert 0.5 * np.abs(law - target).sum() <= tau
            law = law @ forward @ backward
            bound /= (1.0 + measure.strong_convexity * step) ** 2
    least = ProximalSampler(1e-3, step).plan(measure)[1]
    assert 0 < least < ProximalSampler(1e-9, step).plan(measure)[1]


def test_proximal_default_step_and_the_first_measure() -> None:
    losses = _losses("logistic", 2)
    sampler = ProximalSampler(1e-6)
    measure = _measure(losses, Ball(2, 1.0), beta=0.02, lam=50.0)
    step, rounds = sampler.plan(measure)
    steepness = 0.02 * losses.lipschitz(Ball(2, 1.0)).sum()
    assert step == pytest.approx(1.0 / (32.0 * steepness**2)) and rounds > 0
    assert sampler.sample(measure, np.random.default_rng(0), 10).shape == (10, 2)
    first = RegularizedMeasure(
        domain=Ball(2, 1.0), losses=losses, seen=0, inverse_temperature=0.02, regularisation=50.0
    )
    assert sampler.plan(first)[1] == 0  # the start is the measure itself


@pytest.mark.statistical
def test_proximal_rounds_are_needed_and_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its rounds the sampler is seen to be off."""
    measure = _measure(_losses("absolute", 1), Box.cube(1, 1.0), beta=1.0, lam=0.5)
    sampler = ProximalSampler(1e-3, step=0.05)
    step, rounds = sampler.plan(measure)
    assert min(_p_values(sampler.sample(measure, np.random.default_rng(1), 1500), measure)) >= FALSE_ALARM
    assert rounds >= 40
    monkeypatch.setattr(ProximalSampler, "plan", lambda self, measure: (step, 0))
    assert min(_p_values(sampler.sample(measure, np.random.default_rng(1), 1500), measure)) < FALSE_ALARM


# --- without a certificate -------------------------------------------------------------------------------------------


def test_uncertified_samplers_are_refused() -> None:
    sampler = LangevinSampler(steps=10, step=0.01)
    assert sampler.certificate().total_variation is None and not sampler.certificate().exact
    with pytest.raises(UnsupportedEventError, match="no certificate"):
        sampler.certificate().required()
    declared = LangevinSampler(steps=10, step=0.01, declared_total_variation=0.01)
    assert declared.certificate().required() == 0.01


def test_unconverged_steps_differ_from_the_measure() -> None:
    """Few Langevin steps are far from the measure, which is the reason for refusing them."""
    measure = _measure(_losses("logistic", 1), Box.cube(1, 1.0), beta=0.3)
    draws = LangevinSampler(steps=3, step=1e-3).sample(measure, np.random.default_rng(0), 4000)
    assert min(_p_values(draws, measure)) < FALSE_ALARM


@frozen
class _WarmStart:
    """A broken sampler: a few Langevin steps that go on from earlier points, as if these were draws already."""

    earlier: FloatArray

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        x, step = self.earlier[:runs], 2e-3
        for _ in range(5):
            drift = measure.slope_at(x) + measure.strong_convexity * x
            noise = math.sqrt(2.0 * step) * rng.standard_normal(x.shape)
            x = measure.domain.project(x - step * drift + noise)
        return x


@pytest.mark.parametrize("moved", [True, False])
def test_warm_starts_are_caught(moved: bool) -> None:
    """A draw must be fresh: by its law where the measure has moved on, by its independence of the point before."""
    losses = RegressionLosses(np.ones((9, 1)), np.ones(9))
    now = _measure(losses, Box.cube(1, 1.0), beta=0.5, lam=0.3)
    before = now if not moved else _measure(_losses("linear", 1), Box.cube(1, 1.0), beta=0.2, lam=0.3)
    rng = np.random.default_rng(2)
    earlier = GridSampler(20).sample(before, rng, 3000)
    warm, fresh = (sampler.sample(now, rng, 3000) for sampler in (_WarmStart(earlier), TangentSampler()))
    assert min(_p_values(fresh, now)) >= FALSE_ALARM
    assert stats.spearmanr(fresh[:, 0], earlier[:, 0]).pvalue >= FALSE_ALARM
    assert stats.spearmanr(warm[:, 0], earlier[:, 0]).pvalue < FALSE_ALARM
    if moved:
        assert min(_p_values(warm, now)) < FALSE_ALARM


# --- what total variation costs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-4, 0.01, 0.3, 2.0])
@pytest.mark.parametrize("tau", [1e-15, 1e-6, 1e-2])
def test_failure_covers_every_pair_within_tau(mu: float, tau: float) -> None:
    """delta + (1 - delta)*H_e is above the least nonincreasing bound H_e + (1 + e^e)*tau, at every e >= 0."""
    delta = sampling_failure(mu, tau)
    assert 2.0 * tau <= delta <= 1.0
    best = 1.0
    for epsilon in np.concatenate([np.linspace(0.0, 12.0 * mu, 3000), np.linspace(12.0 * mu, 8.0, 300)]):
        profile = math.exp(log_delta(mu, float(epsilon)))
        best = min(best, profile + (1.0 + math.exp(epsilon)) * tau)
        assert best <= (delta + (1.0 - delta) * profile) * (1 + 1e-9)


def test_failure_covers_an_adversarial_pair() -> None:
    """On a lattice: P loses tau where Q is rare, Q loses tau where P is likely; both directions, all epsilon."""
    mu, tau = 0.5, 0.02
    x = np.linspace(-9.0, 9.0, 4001)
    p, q = (stats.norm.pdf(x, shift) / stats.norm.pdf(x, shift).sum() for shift in (mu, 0.0))
    worst_p, worst_q = p.copy(), q.copy()
    tail = np.cumsum(q[::-1])[::-1] <= tau
    moved = q[tail].sum()
    worst_q[tail] = 0.0
    worst_q[0] += moved
    left = np.cumsum(p) <= tau
    worst_p[-1] += p[left].sum()
    worst_p[left] = 0.0
    delta = sampling_failure(mu, tau)
    for epsilon in np.linspace(0.0, 6.0, 61):
        allowed = delta + (1.0 - delta) * math.exp(log_delta(mu, float(epsilon)))
        for a, b in ((worst_p, worst_q), (worst_q, worst_p)):
            assert hockey_stick(a, b, epsilon) <= allowed * (1 + 1e-6)
    assert hockey_stick(worst_p, worst_q, 6.0) > tau  # tau once alone would be too little


def test_small_distances_cost_about_twice_their_size() -> None:
    assert sampling_failure(1e-3, 1e-12) == pytest.approx(2e-12, rel=0.02)
    assert sampling_failure(1e-3, 0.0) == 0.0
    assert sampling_failure(1e-3, 1.0) == 1.0


# --- arguments -------------------------------------------------------------------------------------------------------


def test_closed_forms_and_grids_refuse_what_they_cannot_do() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidArgumentError, match="closed form"):
        ClosedFormSampler().sample(_measure(_losses("hinge", 2), Ball(2, 1.0)), rng, 3)
    with pytest.raises(InvalidArgumentError, match="dimension"):
        GridSampler(4).sample(_measure(_losses("hinge", 4), Ball(4, 1.0)), rng, 3)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: GridSampler(0), "cells"),
        (lambda: ProximalSampler(0.0), "total_variation"),
        (lambda: ProximalSampler(math.nan), "total_variation"),
        (lambda: ProximalSampler(1e-3, step=0.0), "step"),
        (lambda: LangevinSampler(steps=0, step=0.1), "steps"),
        (lambda: LangevinSampler(steps=1, step=-0.1), "step"),
        (lambda: LangevinSampler(steps=1, step=0.1, declared_total_variation=2.0), "declared_total_variation"),
        (lambda: sampling_failure(0.0, 0.1), "mu"),
        (lambda: sampling_failure(1.0, -0.1), "total_variation"),
    ],
)
def test_bad_arguments_are_refused(build: object, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        build()  # type: ignore[operator]
