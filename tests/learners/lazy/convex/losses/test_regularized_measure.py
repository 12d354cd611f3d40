"""Tests of the measure of the lazy learner of convex losses: checks of losses, closed forms, Gaussian-DP,
minimisers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from divergences import hockey_stick
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.catalogue import GaussianDP
from hockeystick.learners.lazy import (
    Ball,
    Box,
    ConvexLosses,
    LinearLosses,
    QuadraticLosses,
    RegressionLosses,
    RegularizedMeasure,
    RegularizedWeights,
)
from hockeystick.learners.lazy.convex.losses.convex_losses import Domain, checked_losses
from hockeystick.learners.lazy.convex.losses.regularized_measure import log_interval, minimiser

KINDS = ("linear", "quadratic", "absolute", "hinge", "logistic")


def _stream(kind: str, rng: np.random.Generator, rounds: int, dimension: int) -> ConvexLosses:
    """Random losses that are 1-Lipschitz over the domains of half-width 1 in use here."""
    rows = rng.normal(size=(rounds, dimension))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    if kind == "linear":
        return LinearLosses(rows)
    if kind == "quadratic":
        return QuadraticLosses(rows, 1.0 / (1.0 + 2.0 * math.sqrt(dimension)))
    if kind == "absolute":
        return RegressionLosses(rows, rng.normal(size=rounds), "absolute")
    labels = np.where(rng.random(rounds) < 0.5, -1.0, 1.0)
    return RegressionLosses(rows, labels, "hinge" if kind == "hinge" else "logistic")


def _nodes(half_width: float, dimension: int, count: int) -> tuple[FloatArray, FloatArray]:
    """Points (N, d) and log-weights (N,) over a cube: panels of ten Gauss-Legendre nodes along each axis."""
    x, w = np.polynomial.legendre.leggauss(10)
    panels = count // 10
    x = (2.0 * np.arange(panels)[:, None] + 1.0 + x).reshape(-1) / panels - 1.0
    w = np.tile(w, panels) / panels
    points = np.stack(np.meshgrid(*[half_width * x] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    weights = np.ones(1)
    for _ in range(dimension):
        weights = np.multiply.outer(weights, half_width * w).reshape(-1)
    return points, np.log(weights)


def _masses(measure: RegularizedMeasure, points: FloatArray, log_weights: FloatArray) -> tuple[FloatArray, float]:
    log = log_weights - measure.potential(points)
    shift = float(log.max())
    total = float(np.exp(log - shift).sum())
    return np.exp(log - shift) / total, shift + math.log(total)


# --- Gaussian-DP -----------------------------------------------------------------------------------------------------


def _profile(p: FloatArray, q: FloatArray, epsilon: float) -> float:
    return float(hockey_stick(p, q, epsilon))


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.every(3)
def test_draws_are_gaussian_dp(kind: str, dimension: int) -> None:
    """delta of neighbouring measures, by quadrature, against the formula at every epsilon; both for replacement."""
    rng = np.random.default_rng(sum(map(ord, kind)) + dimension)
    points, log_weights = _nodes(1.0, dimension, 4000 if dimension == 1 else 300)
    largest = 0.0
    for _ in range(8):
        losses, other = _stream(kind, rng, 6, dimension), _stream(kind, rng, 6, dimension)
        regularisation, beta = 10.0 ** rng.uniform(-1, 1.5), 10.0 ** rng.uniform(-1, 1)
        weights = RegularizedWeights(inverse_temperature=beta, regularisation=regularisation, lipschitz=1.0)
        domain = Box.cube(dimension, 1.0)
        # One loss more in each of two worlds with a common past: a replacement.
        past = weights.measure(domain, losses, 5).potential(points)
        logs = [log_weights - past - beta * one.total(points, 5, 6) for one in (losses, other)]
        p, q = (np.exp(log - log.max()) / np.exp(log - log.max()).sum() for log in logs)
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            truth = _profile(p, q, epsilon)
            allowed = accounting.delta(GaussianDP(weights.replacement_mu), epsilon).upper
            assert truth <= allowed * (1 + 1e-3) + 1e-9
            if allowed > 1e-6:
                largest = max(largest, truth / allowed)
        before, _ = _masses(weights.measure(domain, losses, 5), points, log_weights)
        for epsilon in (0.0, 0.3, 1.0):
            allowed = accounting.delta(GaussianDP(weights.step_mu), epsilon).upper
            assert max(_profile(before, p, epsilon), _profile(p, before, epsilon)) <= allowed * (1 + 1e-3) + 1e-9
    assert largest > (0.3 if kind in ("linear", "absolute") else 0.01)


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
def test_linear_losses_on_the_line_attain_the_formula(mu: float) -> None:
    weights = RegularizedWeights.of_replacement(mu, regularisation=2.0, lipschitz=3.0)
    assert weights.replacement_mu == pytest.approx(mu, rel=1e-8)
    half_width = 12.0 / math.sqrt(2 * weights.inverse_temperature * 2.0) + 1.0
    points, log_weights = _nodes(half_width, 1, 8000)
    p, q = (
        _masses(weights.measure(Box.cube(1, half_width), LinearLosses([[slope]]), 1), points, log_weights)[0]
        for slope in (3.0, -3.0)
    )
    for epsilon in (0.0, 0.5 * mu, mu):
        truth, formula = _profile(p, q, epsilon), accounting.delta(GaussianDP(mu), epsilon).upper
        assert truth == pytest.approx(formula, rel=2e-3)
    half = accounting.delta(GaussianDP(mu / 2), 0.5 * mu).upper
    assert _profile(p, q, 0.5 * mu) > 1.2 * half  # charged as if a loss were added, a replacement costs too little


# --- closed forms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "quadratic"])
@pytest.mark.parametrize("scale", [0.1, 3.0, 300.0])
def test_closed_forms_agree_with_quadrature(kind: str, scale: float) -> None:
    rng = np.random.default_rng(5)
    losses = _stream(kind, rng, 7, 2)
    measure = RegularizedMeasure(
        domain=Box.cube(2, 1.0), losses=losses, seen=7, inverse_temperature=scale, regularisation=0.3
    )
    points, log_weights = _nodes(1.0, 2, 400)
    mass, log_z = _masses(measure, points, log_weights)
    assert measure.log_normaliser() == pytest.approx(log_z, rel=1e-8, abs=1e-8)
    assert measure.mean() == pytest.approx(mass @ points, rel=1e-6, abs=1e-8)
    cut = points[np.searchsorted(np.cumsum(mass), 0.5)]  # somewhere in the middle
    truth = [mass[points[:, i] <= cut[i]].sum() for i in range(2)]
    assert measure.marginals(cut[None])[0] == pytest.approx(truth, abs=0.06)
    corner = np.array([[1.0, 1.0], [-1.0, -1.0]])
    assert measure.marginals(corner).tolist() == [[1.0, 1.0], [0.0, 0.0]]
    ball = RegularizedMeasure(
        domain=Ball(1, 1.0), losses=LinearLosses([[1.0]]), seen=1, inverse_temperature=1.0, regularisation=1.0
    )
    assert ball.log_normaliser() == pytest.approx(
        RegularizedMeasure(
            domain=Box.cube(1, 1.0), losses=ball.losses, seen=1, inverse_temperature=1.0, regularisation=1.0
        ).log_normaliser()
    )


def test_families_without_a_closed_form_are_refused() -> None:
    rng = np.random.default_rng(0)
    hinge = _stream("hinge", rng, 3, 2)
    linear = _stream("linear", rng, 3, 2)
    for domain, losses in ((Box.cube(2, 1.0), hinge), (Ball(2, 1.0), linear)):
        measure = RegularizedMeasure(domain=domain, losses=losses, seen=3, inverse_temperature=1.0, regularisation=1.0)
        for method in (measure.log_normaliser, measure.mean):
            with pytest.raises(InvalidArgumentError, match="closed form"):
                method()


def test_interval_probabilities_in_the_tails() -> None:
    low, high = np.array([-40.0, 39.0, -1.0, 0.0]), np.array([-39.0, 40.0, 2.0, 50.0])
    found = log_interval(low, high)
    assert found[0] == found[1] == pytest.approx(-765.0831565, rel=1e-6)
    assert found[2:] == pytest.approx(np.log([0.8185946141203637, 0.5]), rel=1e-12)


@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS))
@settings(max_examples=30)
def test_measure_does_not_depend_on_the_order_and_log_ratio_is_that_of_densities(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    losses = _stream(kind, rng, 8, 3)
    weights = RegularizedWeights(inverse_temperature=0.7, regularisation=1.3, lipschitz=1.0)
    x, y = rng.uniform(-0.5, 0.5, (2, 5, 3))
    before, after = weights.measure(Ball(3, 1.0), losses, 5), weights.measure(Ball(3, 1.0), losses, 8)
    ratio = before.potential(x) - after.potential(x) - before.potential(y) + after.potential(y)
    assert weights.log_ratio(losses, 5, 8, x, y) == pytest.approx(ratio, abs=1e-10)
    if isinstance(losses, LinearLosses):
        shuffled = LinearLosses(losses.gradients[rng.permutation(8)])
        assert weights.measure(Ball(3, 1.0), shuffled, 8).potential(x) == pytest.approx(after.potential(x), abs=1e-10)


# --- losses ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.booleans())
@settings(max_examples=60)
def test_families_satisfy_their_stated_properties(seed: int, kind: str, ball: bool) -> None:
    """Subgradient inequality, Lipschitz constants, sums over windows."""
    rng = np.random.default_rng(seed)
    losses = _stream(kind, rng, 6, 3)
    domain: Domain = Ball(3, 1.0) if ball else Box.cube(3, 0.6)
    x, y = domain.project(rng.normal(size=(2, 20, 3)))
    assert domain.contains(x * (1 - 1e-12)).all()
    start, stop = sorted(rng.choice(7, 2, replace=False).tolist())
    fx, fy = losses.total(x, start, stop), losses.total(y, start, stop)
    slope = losses.gradient(x, start, stop)
    assert (fy >= fx + np.einsum("ri,ri->r", slope, y - x) - 1e-9).all()
    bound = losses.lipschitz(domain)[start:stop].sum()
    assert (np.abs(fx - fy) <= bound * np.linalg.norm(x - y, axis=1) + 1e-9).all()
    assert (np.linalg.norm(slope, axis=1) <= bound + 1e-9).all()
    single = sum(losses.total(x, t, t + 1) for t in range(start, stop))
    assert fx == pytest.approx(single, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("domain", [Ball(2, 1.0), Box((-1.0, -0.5), (0.5, 1.0))])
def test_the_minimiser_is_found(kind: str, domain: Domain) -> None:
    rng = np.random.default_rng(11)
    losses = _stream(kind, rng, 9, 2)
    for ridge in (0.0, 0.7):
        best = minimiser(losses, domain, start=0, stop=9, ridge=ridge)
        assert domain.contains(best[None] * (1 - 1e-9)).all()
        grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), axis=-1).reshape(-1, 2)
        grid = grid[domain.contains(grid)]
        floor = (losses.total(grid, 0, 9) + ridge * (grid**2).sum(axis=1)).min()
        reached = losses.total(best[None], 0, 9)[0] + ridge * best @ best
        assert reached <= floor + (1e-9 if kind in ("linear", "quadratic", "logistic") else 0.05)


def test_steep_losses_are_refused_or_scaled_down() -> None:
    steep = LinearLosses([[0.6, 0.8], [3.0, 4.0]])
    with pytest.raises(InvalidArgumentError, match=r"lipschitz\[1\]=<float>"):
        checked_losses("losses", steep, rounds=2, domain=Ball(2, 1.0), lipschitz=1.0)
    mild = steep.clipped(1.0)
    assert checked_losses("losses", mild, rounds=2, domain=Ball(2, 1.0), lipschitz=1.0) is mild
    assert mild.gradients == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8]]), rel=1e-15)
    regression = RegressionLosses([[3.0, 4.0]], [1.0]).clipped(2.0)
    assert regression.lipschitz(Ball(2, 1.0)) == pytest.approx([2.0])
    far = QuadraticLosses([[3.0, 4.0]], 0.5)
    assert far.lipschitz(Ball(2, 1.0)) == pytest.approx([3.0])
    assert far.lipschitz(Box.cube(2, 1.0)) == pytest.approx([0.5 * math.hypot(4.0, 5.0)])


class _Own:
    """A user-defined family: |x_1 - x_2|, whose constant is sqrt(2)."""

    rounds = 4
    dimension = 2

    def __init__(self, constant: float = math.sqrt(2.0), sign: float = 1.0) -> None:
        self.constant, self.sign = constant, sign

    def lipschitz(self, domain: Domain) -> FloatArray:
        return np.full(4, self.constant)

    def total(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        return np.asarray(self.sign * (stop - start) * np.abs(points[:, 0] - points[:, 1]))

    def gradient(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        steep = self.sign * (stop - start)
        return np.asarray(steep * np.sign(points[:, :1] - points[:, 1:]) * np.array([1.0, -1.0]))


def test_user_defined_families_are_checked() -> None:
    good = _Own()
    assert checked_losses("losses", good, rounds=4, domain=Ball(2, 1.0), lipschitz=1.5) is good
    with pytest.raises(InvalidArgumentError, match="exceeded between two points"):
        checked_losses("losses", _Own(constant=1.0), rounds=4, domain=Ball(2, 1.0), lipschitz=1.5)
    with pytest.raises(InvalidArgumentError, match="not a subgradient"):
        checked_losses("losses", _Own(sign=-1.0), rounds=4, domain=Ball(2, 1.0), lipschitz=1.5)
    with pytest.raises(InvalidArgumentError, match="not a stream of convex losses"):
        checked_losses("losses", np.zeros((4, 2)), rounds=4, domain=Ball(2, 1.0), lipschitz=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="rounds, dimension"):
        checked_losses("losses", good, rounds=5, domain=Ball(2, 1.0), lipschitz=1.5)


# --- how far log-ratios stray ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_a_draw_lies_near_its_mode(kind: str) -> None:
    """E||x - mode||^2 <= d/m, also where the mode is on the boundary; modes move by at most G/m."""
    rng = np.random.default_rng(2)
    points, log_weights = _nodes(1.0, 2, 150)
    for _ in range(10):
        losses = _stream(kind, rng, 20, 2)
        weights = RegularizedWeights(
            inverse_temperature=10.0 ** rng.uniform(-1, 1), regularisation=10.0 ** rng.uniform(-1, 1), lipschitz=1.0
        )
        measures = [weights.measure(Box.cube(2, 1.0), losses, seen) for seen in (10, 20)]
        modes = [measure.mode() for measure in measures]
        for measure, mode in zip(measures, modes, strict=True):
            mass, _ = _masses(measure, points, log_weights)
            assert mass @ ((points - mode) ** 2).sum(axis=1) <= 2.0 / measure.strong_convexity * (1 + 1e-6)
        gap = 10 * weights.inverse_temperature / measures[0].strong_convexity
        assert np.linalg.norm(modes[0] - modes[1]) <= gap * (1 + 1e-6)


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Ball(0, 1.0), "dimension"),
        (lambda: Ball(True, 1.0), "dimension"),
        (lambda: Ball(2, 0.0), "radius"),
        (lambda: Ball(2, math.nan), "radius"),
        (lambda: Box((0.0,), (0.0,)), "upper"),
        (lambda: Box((0.0,), (1.0, 2.0)), "upper"),
        (lambda: Box((), ()), "lower"),
        (lambda: Box.cube(2, -1.0), "half_width"),
        (lambda: LinearLosses([1.0, 2.0]), "gradients"),
        (lambda: LinearLosses([[math.nan]]), "gradients"),
        (lambda: LinearLosses([[math.inf]]), "gradients"),
        (lambda: LinearLosses(np.zeros((0, 2))), "gradients"),
        (lambda: QuadraticLosses([[0.0]], 0.0), "curvature"),
        (lambda: RegressionLosses([[1.0]], [1.0, 1.0]), "targets"),
        (lambda: RegressionLosses([[1.0]], [0.5]), "targets"),
        (lambda: RegressionLosses([[1.0]], [1.0], "square"), "link"),
        (lambda: RegularizedWeights(inverse_temperature=0.0, regularisation=1.0, lipschitz=1.0), "inverse_temp"),
        (lambda: RegularizedWeights(inverse_temperature=1.0, regularisation=-1.0, lipschitz=1.0), "regularisation"),
        (lambda: RegularizedWeights(inverse_temperature=1.0, regularisation=1.0, lipschitz=math.inf), "lipschitz"),
        (lambda: RegularizedWeights.of_replacement(0.0, regularisation=1.0, lipschitz=1.0), "mu"),
    ],
)
def test_bad_arguments_are_refused(build: object, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        build()  # type: ignore[operator]
