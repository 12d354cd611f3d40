"""Broken variants of the lazy learner of convex losses: what each does, measured, and the check that catches it.

| mutant | effect, measured | caught by |
| --- | --- | --- |
| no fake switches; half the Lipschitz constant | claim exceeded | audits (lazy_convex) |
| shared coins, y = x, inverted ratio | the points' law moves by 1e-4 to 1e-3 and more | marginals (lazy_convex) |
| draws charged with mu/2: one loss added, not replaced | n = 100, mu = 0.1: delta(1) >= 0.141, claimed 0.017 | GDP |
| draws charged with mu/sqrt(2): twice the convexity | the same: delta(1) >= 0.141, claimed 0.066 | GDP |
| 1, 3, 8 Langevin steps from the last point as a draw | correlation with it 0.8, 0.5, 0.17; | correlation, |
| | the points' law is off by 0.45, 0.13, less than 0.05 | Kolmogorov-Smirnov |
| | on a drift: delta(3) = 0.30 of one decision, claimed 0.16 | audit of the actions |

The worst pair of streams does not show the last mutant, because steps that have not converged also depend less on the
changed loss (``test_unconverged_draws_reveal_less``). But if losses drift, points and shadows lag behind it by
different amounts. They are then farther apart than points that follow the drift, and a decision reveals more of the
loss the farther they are apart. No plan accepts such a sampler, since it has no certificate (lazy_convex).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from attrs import evolve
from divergences import gaussian_delta
from numpy.typing import NDArray
from scipy import stats

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.catalogue import GaussianDP
from hockeystick.audits import Claim, audit
from hockeystick.learners import LazyConvex
from hockeystick.learners.lazy import Box, LinearLosses, RegularizedMeasure

FALSE_ALARM = 1e-6


@cache
def _learner(rounds: int, mu: float, p: float, width: float = 20.0) -> LazyConvex:
    """On an interval of ``width`` standard deviations to each side; one replaced loss shifts a draw by mu of them."""
    beta = mu**2 / 2.0
    reach = width / math.sqrt(2.0 * beta)
    return LazyConvex(
        rounds=rounds,
        domain=Box((-reach,), (reach,)),
        lipschitz=1.0,
        inverse_temperature=beta,
        regularisation=1.0,
        fake_switch_probability=p,
        failure=1e-7,
    )


# --- draws charged too little ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "least"), [(20.0, 1.0 - 1e-6), (3.0, 0.9), (0.2, 0.0)])
def test_one_draw_is_as_private_as_charged(width: float, least: float) -> None:
    """By the best test of a draw, x below 0: its errors are those of mu-GDP on a wide domain, and larger on others."""
    learner = _learner(3, 0.3, 0.3, width)
    levels = [float(learner.measure(losses, 1).marginals(np.zeros((1, 1)))[0, 0]) for losses in _pair(learner)]
    found = abs(float(np.diff(stats.norm.ppf(levels))[0]))
    assert least * 0.3 <= found <= learner.weights.replacement_mu


def _pair(learner: LazyConvex) -> tuple[LinearLosses, LinearLosses]:
    return learner.worst_case_neighbours()


def test_redraws_add_up_as_charged() -> None:
    """The draws' log-likelihood ratio has mean N mu^2/2 and deviation mu sqrt(N) given N draws (6 sigma each)."""
    learner, runs = _learner(40, 0.3, 0.3), 20_000
    first, _ = _pair(learner)
    view = learner.simulate(first, np.random.default_rng(51), runs)
    slope = -2.0 * learner.inverse_temperature * learner.lipschitz
    drawn = np.concatenate([view.switched, view.refreshed], axis=1)
    ratio = slope * np.sum(drawn * np.concatenate([view.actions, view.shadows], axis=1)[:, :, 0], axis=1)
    count = drawn.sum(axis=1)
    mu = learner.weights.replacement_mu
    standard = (ratio - count * mu**2 / 2.0)[count > 0] / np.sqrt(count[count > 0])
    assert abs(standard.mean()) <= 6 * mu / math.sqrt(standard.size)
    assert abs(standard.std() / mu - 1.0) <= 6 / math.sqrt(2 * standard.size)
    assert 6 / math.sqrt(2 * standard.size) < 1.0 - math.sqrt(0.5)  # the mutants' mu lies outside


@pytest.mark.statistical
@pytest.mark.parametrize("part", [0.5, math.sqrt(0.5)])
def test_smaller_charges_fall_below_the_truth(part: float) -> None:
    """The exact loss of the later draws alone, a mixture of Gaussian ones, exceeds the mutants' whole claims."""
    n, mu, p = 100, 0.1, 0.5
    learner = _learner(n, mu, p)
    keep = (1.0 - p) * math.exp(-learner.log_normaliser)  # later losses are 0: every coin is the same
    draws = np.convolve(stats.binom.pmf(np.arange(n - 1), n - 2, 1.0 - keep), stats.binom.pmf(np.arange(n), n - 1, p))
    correct = learner.graph().guarantee()
    mutant = evolve(learner.plan(), draw=GaussianDP(part * mu)).graph().guarantee()
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        truth = sum(mass * gaussian_delta(mu * math.sqrt(count), epsilon) for count, mass in enumerate(draws) if count)
        assert 1.2 * mutant.delta(epsilon).upper < truth <= correct.delta(epsilon).upper


# --- draws that have not converged -----------------------------------------------------------------------------------


def _langevin(
    learner: LazyConvex, measure: RegularizedMeasure, x: FloatArray, rng: np.random.Generator, steps: int, h: float
) -> FloatArray:
    size = h / measure.strong_convexity
    for _ in range(steps):
        drift = measure.slope_at(x) + measure.strong_convexity * x
        x = learner.domain.project(x - size * drift + math.sqrt(2 * size) * rng.standard_normal(x.shape))
    return x


def _unconverged(
    learner: LazyConvex, losses: LinearLosses, rng: np.random.Generator, runs: int, steps: int, h: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Points and redraws of the mutant: a "draw" is a few Langevin steps, ``h``/convexity long, from the last point."""
    points = learner.sampler.sample(learner.measure(losses, 0), rng, runs)
    shadows = learner.sampler.sample(learner.measure(losses, 0), rng, runs)
    seen, moves = [points.copy()], [np.zeros(runs, bool)]
    for s in range(1, learner.batches):
        measure = learner.measure(losses, s)
        leave = rng.random(runs) >= np.exp(learner.log_keep(losses, s, points, shadows))
        refresh = rng.random(runs) < learner.refresh_probability
        for x, drawn in ((points, leave), (shadows, refresh)):
            x[drawn] = _langevin(learner, measure, x[drawn], rng, steps, h)
        seen.append(points.copy())
        moves.append(leave)
    return np.stack(seen, axis=1)[:, :, 0], np.stack(moves, axis=1)


def _drift(rounds: int) -> LinearLosses:
    return LinearLosses(np.ones((rounds, 1)))


def _law(learner: LazyConvex, losses: LinearLosses, points: FloatArray) -> tuple[bool, float]:
    """Whether the last point follows its measure (Kolmogorov-Smirnov, level 1e-6), and the distance."""
    measure = learner.measure(losses, learner.batches - 1)
    found = stats.kstest(points[:, -1], lambda z: np.asarray(measure.marginals(z[:, None])[:, 0]))
    return bool(found.pvalue >= FALSE_ALARM), float(found.statistic)


def _forgets(points: FloatArray, moves: NDArray[np.bool_]) -> tuple[bool, float]:
    """Whether drawn points are uncorrelated with those they replace (Fisher's z at 1e-6), and the correlation."""
    old, new = points[:, :-1][moves[:, 1:]], points[:, 1:][moves[:, 1:]]
    found = float(np.corrcoef(old, new)[0, 1])
    return abs(math.atanh(found)) * math.sqrt(old.size - 3) <= stats.norm.isf(FALSE_ALARM / 2), found


def test_exact_draws_pass_the_checks_of_the_law() -> None:
    learner, runs = _learner(20, 0.5, 0.3), 4000
    for losses in (_pair(learner)[0], _drift(20)):
        view = learner.simulate(losses, np.random.default_rng(61), runs)
        assert _law(learner, losses, view.actions[:, :, 0])[0]
    still = LinearLosses(np.zeros((20, 1)))
    view = learner.simulate(still, np.random.default_rng(61), runs)
    assert _forgets(view.actions[:, :, 0], view.switched)[0]


@pytest.mark.parametrize(("steps", "distance"), [(1, 0.45), (3, 0.13), (8, 0.02)])
def test_unconverged_draws_fail_them(steps: int, distance: float) -> None:
    """Their correlation with the last point is (1 - h)^steps; on a drift of losses their law lags, if steps are few."""
    learner, runs, h = _learner(20, 0.5, 0.3), 4000, 0.2
    still = LinearLosses(np.zeros((20, 1)))
    independent, correlation = _forgets(*_unconverged(learner, still, np.random.default_rng(67), runs, steps, h))
    assert not independent and correlation == pytest.approx((1.0 - h) ** steps, abs=0.03)
    points, _ = _unconverged(learner, _drift(20), np.random.default_rng(67), runs, steps, h)
    follows, found = _law(learner, _drift(20), points)
    assert follows == (steps == 8)  # the law alone does not tell
    assert found == pytest.approx(distance, abs=0.045)


def _kernel(learner: LazyConvex, losses: LinearLosses, grid: FloatArray, steps: int, h: float) -> FloatArray:
    """Langevin steps, as a table [from, to] of probabilities on the grid."""
    measure = learner.measure(losses, 1)
    size = h / measure.strong_convexity
    at = grid[:, None]
    drift = (measure.slope_at(at) + measure.strong_convexity * at)[:, 0]
    log = -((grid[None, :] - grid[:, None] + size * drift[:, None]) ** 2) / (4.0 * size)
    one = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(np.linalg.matrix_power(one / one.sum(axis=1, keepdims=True), steps))


def _metropolis(learner: LazyConvex, losses: LinearLosses, grid: FloatArray, steps: int, reach: int) -> FloatArray:
    """Metropolis steps with proposals up to ``reach`` cells away; a rejected one stays, which the bit shows."""
    potential = learner.measure(losses, 1).potential(grid[:, None])
    size = grid.size
    one = np.zeros((size, size))
    for shift in (*range(-reach, 0), *range(1, reach + 1)):
        here = np.arange(max(0, -shift), min(size, size - shift))
        one[here, here + shift] = np.minimum(1.0, np.exp(potential[here] - potential[here + shift])) / (2 * reach)
    one[np.arange(size), np.arange(size)] = 1.0 - one.sum(axis=1)
    return np.asarray(np.linalg.matrix_power(one, steps))


@pytest.mark.parametrize("kind", ["langevin", "metropolis"])
@pytest.mark.parametrize("steps", [1, 5])
def test_unconverged_draws_reveal_less(kind: str, steps: int) -> None:
    """Given the point they start from, they are harder to tell apart than exact draws, which are mu-GDP."""
    mu = 0.5
    learner = _learner(3, mu, 0.3, 6.0)
    grid = np.linspace(-6.0, 6.0, 401) / math.sqrt(2.0 * learner.inverse_temperature)
    start = np.exp(-learner.measure(LinearLosses(np.zeros((3, 1))), 0).potential(grid[:, None]))
    start /= start.sum()
    if kind == "langevin":
        worlds = [_kernel(learner, losses, grid, steps, 0.2) for losses in _pair(learner)]
        a = 1.0 - 0.2
        share = math.sqrt((1.0 + a) / 2.0 * (1.0 - a**steps) / (1.0 + a**steps))  # of two Gaussians
        assert share < 1.0
    else:
        worlds = [_metropolis(learner, losses, grid, steps, 10) for losses in _pair(learner)]
    for epsilon in (0.0, 0.25, 0.5, 1.0):
        told = float(start @ np.maximum(worlds[0] - math.exp(epsilon) * worlds[1], 0.0).sum(axis=1))
        assert told <= gaussian_delta(mu, epsilon)
        if kind == "langevin":
            assert told == pytest.approx(gaussian_delta(share * mu, epsilon), abs=2e-4)


@pytest.mark.statistical
def test_unconverged_draws_break_the_claim_on_a_drift() -> None:
    """Audit at 1 - 1e-6 of one bit of the actions: whether the point changes right after the replaced loss."""
    n = 100
    learner = _learner(n, 0.5, 0.2, 60.0)
    gradients = np.ones((n, 1))
    gradients[n - 2] = -1.0
    streams = (_drift(n), LinearLosses(gradients))
    guarantee = learner.graph().guarantee_for("batches", member=n - 1)
    claim = Claim(3.0, guarantee.delta(3.0).upper)
    assert claim.delta == pytest.approx(0.157, abs=2e-3)

    def exact(losses: LinearLosses, rng: np.random.Generator, runs: int) -> NDArray[np.bool_]:
        points = learner.simulate(losses, rng, runs).actions[:, :, 0]
        return np.asarray(points[:, -1] != points[:, -2])

    def unconverged(losses: LinearLosses, rng: np.random.Generator, runs: int) -> NDArray[np.bool_]:
        points, _ = _unconverged(learner, losses, rng, runs, 1, 0.05)
        return np.asarray(points[:, -1] != points[:, -2])

    for target in (exact, unconverged):
        verdict = audit(target, claim=claim, neighbours=streams, samples=30_000, rng=71, confidence=1 - FALSE_ALARM)
        assert verdict.refuted == (target is unconverged)
