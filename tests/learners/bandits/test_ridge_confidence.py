"""Tests of the confidence sets of ridge regression on noisy statistics, and of the bound on the regret.

Independent routes: exact laws of norms in one and two dimensions, the formulas written again, greedy sequences for
the potential, and simulated runs, with mutants that miss.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from attrs import asdict, evolve, field, frozen
from scipy import integrate, stats

from hockeystick.accounting import InvalidArgumentError, NumericalError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import ContextualRewards, PrivateLinUCB
from hockeystick.learners.bandits.contextual_rewards import matrix_and_vector
from hockeystick.learners.bandits.ridge_confidence import RidgeConfidence
from hockeystick.learners.common.prefix_sums import PADDING, largest_variance, mechanism_of

FALSE_ALARM = 1e-6


def sets(**changes: Any) -> RidgeConfidence:
    given = {"rounds": 1, "dimension": 2, "parameter_norm": 1.0, "failure": 0.4, "deviation": 1.0}
    return RidgeConfidence(**(given | changes))


# --- norms of the noise ----------------------------------------------------------------------------------------------


def tail_of_norm(dimension: int, at: float, off_diagonal: float = 0.5) -> float:
    """P(‖Z‖ > at) of a symmetric matrix with N(0, 1) on the diagonal, exactly.

    In two dimensions the eigenvalues are m ± r, m normal of variance 1/2, and r² the sum of the squares of normal
    numbers of variances 1/2 and ``off_diagonal``.
    """
    if dimension == 1:
        return float(2 * stats.norm.sf(at))

    def beyond(r: float) -> float:
        return float(2 * stats.norm.sf(max(0.0, at - r), scale=math.sqrt(0.5))) if r < at else 1.0

    def density(r: float) -> float:
        angle = integrate.quad(
            lambda a: math.exp(-(r**2) * (math.cos(a) ** 2 + math.sin(a) ** 2 / (2 * off_diagonal))), 0, math.pi / 2
        )[0]
        return float(4 * r * angle / (2 * math.pi * math.sqrt(0.5 * off_diagonal)))

    return float(integrate.quad(lambda r: density(r) * beyond(r), 0, at + 12, points=[at], limit=200)[0])


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("failure", [0.9, 0.4, 0.01])
def test_errors_keep_their_exact_tails(dimension: int, failure: float) -> None:
    """Each has a quarter of the failure, for one round."""
    found = sets(dimension=dimension, failure=failure)
    assert tail_of_norm(dimension, found.matrix_error) <= failure / 4
    assert stats.chi.sf(found.vector_error, dimension, scale=math.sqrt(0.5)) <= failure / 4


def test_the_tail_of_a_matrix_is_that_of_draws() -> None:
    """Of the matrices that the learner makes of isometric coordinates: within 6 standard errors."""
    drawn = np.random.default_rng(1).standard_normal((20_000, 5))
    matrices, vectors = matrix_and_vector(drawn, 2)
    norms = np.abs(np.linalg.eigvalsh(matrices)).max(axis=1)
    for at in (1.0, 2.0, 3.0):
        exact = tail_of_norm(2, at)
        assert abs((norms > at).mean() - exact) < 6 * math.sqrt(exact / 20_000)
    assert abs((norms > 2.0).mean() - tail_of_norm(2, 2.0, off_diagonal=1.0)) > 0.05  # two triangles would tell
    assert vectors.var() == pytest.approx(0.5, abs=0.02)
    np.testing.assert_array_equal(matrices, np.swapaxes(matrices, 1, 2))


@pytest.mark.parametrize("dimension", [8, 20])
def test_errors_cover_draws_in_more_dimensions(dimension: int) -> None:
    """Failure of each a tenth: of 4000 draws at most 400 and 6 standard deviations may be beyond.

    Without their first terms, of order √d, at least 800 would be.
    """
    found = sets(dimension=dimension, failure=0.4)
    drawn = np.random.default_rng(2).standard_normal((4000, dimension * (dimension + 3) // 2))
    matrices, vectors = matrix_and_vector(drawn, dimension)
    norms, lengths = np.abs(np.linalg.eigvalsh(matrices)).max(axis=1), np.linalg.norm(vectors, axis=1)
    for sizes, error, first in (
        (norms, found.matrix_error, math.sqrt(2 * dimension)),
        (lengths, found.vector_error, math.sqrt(dimension / 2)),
    ):
        assert (sizes > error).sum() < 400 + 6 * math.sqrt(360)
        assert (sizes > error - first).sum() > 800


def test_noise_on_a_grid_is_normal_with_continuous_noise_on_top() -> None:
    """The density factor is 1 ± 2·exp(−2π²r²), r² = σ²τ²/(σ² + τ²), in steps: a sum for small σ, τ, to 40 digits.

    The learner's τ, split over all noisy numbers in a sum, is far above the 3 steps at which this is 1e-38.
    """
    with mpmath.workdps(50):
        for sigma, tau in ((1, 1), (3, 3)):
            mass = [mpmath.exp(-mpmath.mpf(k * k) / (2 * sigma**2)) for k in range(-45, 46)]
            r2 = mpmath.mpf(sigma**2 * tau**2) / (sigma**2 + tau**2)
            most, worst = 2 * mpmath.exp(-2 * mpmath.pi**2 * r2), 0
            for x in (mpmath.mpf(0), mpmath.mpf("0.7"), mpmath.mpf("4.2")):
                sums = mpmath.fsum(m * mpmath.npdf(x, k, tau) for k, m in enumerate(mass, start=-45))
                smooth = mpmath.npdf(x, 0, mpmath.sqrt(sigma**2 + tau**2))
                worst = max(worst, abs(sums / mpmath.fsum(mass) / smooth - 1))
            assert 0.3 * most < worst < 1.1 * most
        assert most < 1e-38
    for sums in ("tree", "square root", "buffered"):
        mechanism = mechanism_of(sums, 1000, 7.0, 2.0)
        split = PADDING * mechanism.scale / math.sqrt(largest_variance(mechanism))
        assert split > 100 * mechanism.rounding(20)


# --- widths and bounds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rounds", "dimension", "failure"), [(1000, 2, 0.01), (10**6, 5, 0.02), (50, 1, 0.5)])
def test_formulas(rounds: int, dimension: int, failure: float) -> None:
    """Written again with α = failure/2; the bound is below that with 2 in place of m/ln(1 + m), by up to √2."""
    found = sets(rounds=rounds, dimension=dimension, failure=failure, deviation=30.0, parameter_norm=2.0)
    t, d, s, alpha = rounds, dimension, 30.0, failure / 2
    u = s * (math.sqrt(2 * d) + math.sqrt(2 * math.log(4 * t / alpha)))
    h = s / math.sqrt(2) * (math.sqrt(d) + math.sqrt(2 * math.log(2 * t / alpha)))
    beta = math.sqrt(2 * math.log(1 / alpha) + d * math.log(1 + t / (d * u))) + 2 * math.sqrt(3 * u) + h / math.sqrt(u)
    assert found.matrix_error == pytest.approx(u) and found.shift == pytest.approx(2 * u)
    assert found.vector_error == pytest.approx(h)
    assert found.width(rounds) == pytest.approx(beta)
    looser = 2 * max(1, beta) * math.sqrt(2 * t * d * math.log(1 + t / (d * u)))
    assert looser / math.sqrt(2) < found.regret() < looser
    assert all(
        a < b for a, b in zip([found.width(k) for k in (0, 1, 5)], [found.width(k) for k in (1, 5, 9)], strict=True)
    )


def test_rounding_moves_the_errors() -> None:
    """By half a step in every coordinate and round, all in one direction."""
    exact, rounded = (sets(rounds=100, dimension=3, rounding=r) for r in (0.0, 0.5))
    moved = np.full(9, 100 * 0.25)
    matrix, vector = matrix_and_vector(moved, 3)
    assert rounded.matrix_error - exact.matrix_error >= np.linalg.norm(matrix, 2)
    assert rounded.matrix_error - exact.matrix_error == pytest.approx(np.linalg.norm(matrix))
    assert rounded.vector_error - exact.vector_error == pytest.approx(np.linalg.norm(vector))


@pytest.mark.parametrize("error", [0.05, 0.7, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("dimension", [1, 3])
def test_the_potential_is_at_most_its_bound(error: float, dimension: int) -> None:
    """For the longest context along the weakest direction, which is the worst, and for random ones.

    With the constant 1 in place of m/ln(1 + m), one round at U = 1 would be above.
    """

    def totals(contexts: FloatArray) -> list[float]:
        matrix, total, found = error * np.eye(dimension), 0.0, []
        for x in contexts:
            x = np.linalg.eigh(matrix)[1][:, 0] if x is None else x
            total += min(1.0, float(x @ np.linalg.solve(matrix, x)))
            matrix += np.outer(x, x)
            found.append(total)
        return found

    small = min(1.0, 1.0 / error)
    steps = np.arange(1, 61)
    volume = dimension * np.log1p(steps / (dimension * error))
    random = np.random.default_rng(3).normal(size=(60, dimension))
    random /= np.maximum(1.0, np.linalg.norm(random, axis=1, keepdims=True))
    for contexts in ([None] * 60, random):
        assert (np.array(totals(contexts)) <= small / math.log1p(small) * volume * (1 + 1e-12)).all()  # type: ignore[arg-type]
    if dimension == 1 and error == 1.0:
        assert totals([None])[0] > volume[0]  # type: ignore[arg-type]


# --- simulated runs --------------------------------------------------------------------------------------------------


@frozen(kw_only=True, slots=False)
class Watched(PrivateLinUCB):
    """A learner that notes the largest error of its estimates in widths, and the least eigenvalue over U, of each run.

    Mutants: "shift seen" adds what makes the least eigenvalue that it sees a little positive; "no room" leaves the
    shift out of the width.
    """

    truth: Any = field(eq=False)
    mutant: str | None = None
    errors: list[FloatArray] = field(factory=list, eq=False)
    eigenvalues: list[FloatArray] = field(factory=list, eq=False)

    def _ridge(self, statistics: FloatArray) -> Any:
        if self.mutant != "shift seen":
            return super()._ridge(statistics)
        matrix, vector = matrix_and_vector(statistics, self.dimension)
        values, vectors = np.linalg.eigh(matrix)
        values = values + np.maximum(0.0, 1e-3 - values[:, :1])
        return values, vectors, np.einsum("rij,rj->ri", vectors, np.einsum("rij,ri->rj", vectors, vector) / values)

    def _choose(self, statistics: FloatArray, contexts: FloatArray, seen: int) -> Any:
        values, vectors, estimates = self._ridge(statistics)
        along = np.einsum("rij,ri->rj", vectors, estimates - self.truth)
        width = self.confidence.width(seen)
        if self.mutant == "no room":
            width -= self.parameter_norm * math.sqrt(3 * self.confidence.matrix_error)
        self.errors.append(np.sqrt((values * along**2).sum(axis=1)) / width)
        self.eigenvalues.append(values[:, 0] / self.confidence.matrix_error)
        return super()._choose(statistics, contexts, seen)


def linear(rounds: int, truth: FloatArray, rng: np.random.Generator, actions: int = 4) -> ContextualRewards:
    """Unit contexts, and rewards of ±1 with the mean ⟨truth, x⟩."""
    contexts = rng.normal(size=(rounds, actions, len(truth)))
    contexts /= np.linalg.norm(contexts, axis=2, keepdims=True) * (1 + 1e-15)
    means = contexts @ truth
    return ContextualRewards(contexts, np.where(rng.random(means.shape) < (1 + means) / 2, 1.0, -1.0))


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "mutant"), [(1.0, None), (100.0, None), (1.0, "shift seen"), (1.0, "no room")])
def test_confidence_sets_hold_in_all_rounds(epsilon: float, mutant: str | None) -> None:
    """At a failure of 0.01 more than 13 of 100 runs miss with probability below 1e-6 (binomial).

    Of the mutants' 100 runs at least 90 miss.
    """
    truth = np.array([0.6, -0.8])
    plain = PrivateLinUCB.calibrated(rounds=150, dimension=2, epsilon=epsilon, delta=1e-6)
    learner = Watched(**asdict(plain), truth=truth, mutant=mutant)
    learner.simulate(linear(150, truth, np.random.default_rng(4)), np.random.default_rng(5), 100)
    missed = int((np.max(learner.errors, axis=0) > 1.0).sum())
    assert stats.binom.sf(13, 100, 0.01) < FALSE_ALARM
    if mutant is None:
        assert missed <= 13 and np.min(learner.eigenvalues) >= 1.0
        assert np.max(learner.errors) > 0.3  # the width is of the errors' order
    else:
        assert missed >= 90


@frozen(kw_only=True, slots=False)
class Pessimistic(PrivateLinUCB):
    """A mutant that believes in the opposite of its estimate."""

    def _choose(self, statistics: FloatArray, contexts: FloatArray, seen: int) -> Any:
        return super()._choose(statistics * [1.0, 1.0, 1.0, -1.0, -1.0], contexts, seen)


@pytest.mark.statistical
def test_regrets_are_below_the_bound() -> None:
    """Of every one of 20 runs, where more than 5 may be above with probability below 1e-6; a mutant's 20 all are."""
    truth = np.array([0.6, -0.8])
    learner = PrivateLinUCB.calibrated(rounds=1200, dimension=2, epsilon=4000.0, delta=1e-6)
    bound = learner.regret_bound(expected=False)
    assert not bound.vacuous and bound.probability == 0.99 and stats.binom.sf(5, 20, 0.01) < FALSE_ALARM
    rng = np.random.default_rng(6)
    contexts = np.tile(np.array([truth, -truth])[None] * (1 - 1e-15), (1200, 1, 1))
    data = ContextualRewards(contexts, np.where(rng.random((1200, 2)) < (1 + contexts @ truth) / 2, 1.0, -1.0))
    found = learner.regrets(data, truth, rng, 20)
    assert (found > bound).sum() <= 5
    broken = Pessimistic(**asdict(learner))
    assert (broken.regrets(data, truth, rng, 20) > bound).all()


def test_bounds_say_what_they_are() -> None:
    learner = PrivateLinUCB.calibrated(rounds=10**6, dimension=5, epsilon=1.0, delta=1e-6)
    likely, mean = learner.regret_bound(expected=False), learner.regret_bound()
    assert 0.99e6 < likely < 1.0e6 and not likely.vacuous  # of 2e6
    assert mean == pytest.approx(likely + 0.01 * 2e6) and mean.probability is None and likely.probability == 0.99
    assert mean.adversary == likely.adversary == "stochastic" and mean.most == 2e6
    vacuous = PrivateLinUCB.calibrated(rounds=10**5, dimension=5, epsilon=1.0, delta=1e-6).regret_bound()
    assert vacuous.vacuous and vacuous == 2e5
    assert evolve(learner, scale=1e9).regret_bound().vacuous
    with pytest.raises(NumericalError):
        evolve(learner, scale=1e300).regret_bound()
    small = evolve(learner, parameter_norm=0.25)
    assert small.regret_bound().most == 5e5
    for adversary in ("oblivious", "adaptive", "nobody"):
        with pytest.raises(InvalidArgumentError, match="adversary"):
            learner.regret_bound(adversary=adversary)  # type: ignore[arg-type]
