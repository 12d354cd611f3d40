"""Tests of report-noisy-max: the exact law of random instances by quadrature, against the event of each noise."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from divergences import hockey_stick, larger_hockey_stick, renyi
from samples import diagonal
from scipy import special

from hockeystick.accounting import BoundedRange, InvalidArgumentError, Laplace, compose, delta
from hockeystick.accounting.events.answers.noisy_max import NOISES, ReportNoisyMax, gumbel_top
from hockeystick.accounting.events.answers.selection import PermuteAndFlip

ORDERS = np.array([1.001, 1.3, 2.0, 4.0, 16.0, 200.0])
LAWS: dict[str, Any] = {  # (density, mass below); scipy.stats takes most of the time to check arguments
    "laplace": lambda x: ((e := np.exp(-np.abs(x)) / 2), np.where(x < 0, e, 1 - e)),
    "gumbel": lambda x: (np.exp(-x - np.exp(-x)), np.exp(-np.exp(-x))),
    "exponential": lambda x: ((x >= 0) * (e := np.exp(-np.maximum(x, 0.0))), 1 - e),
}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def law(scores, scale, noise):
    """P(r wins) = ∫ f(x − s_r)·Π_{k≠r} F(x − s_k) dx, by Gauss–Legendre between the kinks (at the scores)."""
    scores = np.asarray(scores, dtype=float) / scale
    cuts = np.unique(np.concatenate([scores, np.arange(scores.min() - 42, scores.max() + 42)]))
    half = np.diff(cuts) / 2
    x = ((cuts[:-1] + cuts[1:]) / 2 + np.outer(NODES, half)).ravel()
    weight = np.outer(WEIGHTS, half).ravel()
    density, below = LAWS[noise](x[:, None] - scores)
    others = [np.delete(below, r, axis=1).prod(axis=1) for r in range(len(scores))]
    return np.array([weight @ (density[:, r] * of_others) for r, of_others in enumerate(others)])


def random_scores(rng, candidates, score_range):
    """Two score vectors whose difference has the range ``score_range``."""
    scores = rng.normal(size=candidates) * rng.choice([0.0, 0.5, 3.0])
    change = rng.integers(0, 2, candidates) if rng.random() < 0.6 else rng.uniform(0, 1, candidates)
    return scores, scores + score_range * (change - rng.uniform(0, 1))


def test_law_agrees_with_closed_forms():
    scores = np.array([0.3, -0.2, 1.0, 0.9])
    np.testing.assert_allclose(law(scores, 0.7, "gumbel"), special.softmax(scores / 0.7), atol=1e-13)
    for noise in NOISES:
        assert law(scores, 0.7, noise).sum() == pytest.approx(1.0, abs=1e-12)
    two = law([0.0, 1.2], 1.0, "laplace")  # the difference of two Laplace variables: tail (2 + x)·e^{−x}/4
    assert two[0] == pytest.approx((2 + 1.2) * math.exp(-1.2) / 4, abs=1e-13)
    two = law([0.0, 1.2], 1.0, "exponential")  # the difference of two exponential ones: tail e^{−x}/2
    assert two[0] == pytest.approx(math.exp(-1.2) / 2, abs=1e-13)


@pytest.mark.statistical
@pytest.mark.parametrize(("noise", "scale", "score_range"), diagonal(NOISES, [(1.0, 2.0), (4.0, 1.0), (1.5, 0.3)]))
def test_no_instance_exceeds_the_event(noise, scale, score_range):
    rng = np.random.default_rng(81)
    event = ReportNoisyMax(scale, noise, score_range=score_range)
    assert score_range / scale <= event.pure_epsilon() <= math.nextafter(score_range / scale, math.inf)
    levels = np.array([0.0, 0.2, 0.6, 0.95]) * event.pure_epsilon()
    claims = [delta(event, level).upper for level in levels]
    rdp, near = event.rdp(ORDERS), 0.0
    for _ in range(250):
        worlds = random_scores(rng, int(rng.integers(2, 9)), score_range)
        p, q = (law(scores, scale, noise) for scores in worlds)
        loss = float(np.abs(np.log(p / q)).max())
        assert loss <= event.pure_epsilon() * (1 + 1e-9)
        near = max(near, loss / event.pure_epsilon())
        for first, second in ((p, q), (q, p)):
            for level, claim in zip(levels, claims, strict=True):
                assert hockey_stick(first, second, level) <= claim * (1 + 1e-9) + 1e-11
            assert (renyi(first, second, ORDERS) <= rdp * (1 + 1e-9) + 1e-11).all()
    assert near > 0.75


def test_pure_loss_is_attained():
    """One candidate passes the others, which are equal: from 1 below to 1 above, the others' unit being 1."""

    def loss(candidates, noise):
        first = np.eye(candidates)[0]
        return float(np.abs(np.log(law(first, 1.0, noise) / law(-first, 1.0, noise))).max())

    assert loss(8, "laplace") == pytest.approx(1.905, abs=5e-4)
    for noise in NOISES:
        event = ReportNoisyMax(1.0, noise)  # each score may move by 1 either way
        assert 0.85 * event.pure_epsilon() < loss(8, noise) < loss(64, noise) <= event.pure_epsilon() * (1 + 1e-9)
        assert loss(8, noise) > 1.7 * ReportNoisyMax(1.0, noise, score_range=1.0).pure_epsilon()  # Claim 3.9 taken wide
    assert loss(64, "laplace") > 1.999


@pytest.mark.statistical
def test_exponential_noise_attains_the_whole_profile():
    event = ReportNoisyMax(1.0, "exponential", score_range=1.5)
    for level in (0.0, 0.5, 1.2):
        best = 0.0
        for gap in np.linspace(-0.1, 1.6, 341):
            p, q = law([0.0, gap], 1.0, "exponential"), law([1.5, gap], 1.0, "exponential")
            best = max(best, larger_hockey_stick(p, q, level))
        claim = delta(event, level).upper
        assert claim * (1 - 1e-3) <= best <= claim * (1 + 1e-9)


def test_laplace_and_exponential_noise_are_not_of_bounded_range():
    eps = 0.5
    for noise in ("laplace", "exponential"):
        scores = np.array([0.0, 0.0]) if noise == "exponential" else np.zeros(4)
        moved = scores + eps * (np.arange(len(scores)) % 2)
        p, q = law(scores, 1.0, noise), law(moved, 1.0, noise)
        loss = np.log(p / q)
        assert loss.max() - loss.min() > 1.05 * eps
        assert (renyi(p, q, ORDERS) > BoundedRange(eps).rdp(ORDERS))[:3].all()


def test_gumbel_noise_is_the_exponential_mechanism():
    event = ReportNoisyMax(4.0, "gumbel", score_range=1.0)
    assert event.bound() == BoundedRange(0.25)
    np.testing.assert_array_equal(event.rdp(ORDERS), BoundedRange(0.25).rdp(ORDERS))
    assert delta(event, 0.1).upper == delta(BoundedRange(0.25), 0.1).upper
    assert event.zcdp_rho() == BoundedRange(0.25).zcdp_rho()


def test_laplace_and_exponential_noise_have_the_curves_of_laplace_noise():
    for event in (ReportNoisyMax(4.0), ReportNoisyMax(4.0, "exponential"), PermuteAndFlip(0.5)):
        np.testing.assert_allclose(event.rdp(ORDERS), Laplace(2.0).rdp(ORDERS), rtol=1e-9)
        assert event.zcdp_rho() == pytest.approx(0.5 + math.exp(-0.5) - 1, rel=1e-13)


def test_distance_divides_the_scale():
    event = ReportNoisyMax(4.0, "exponential", score_range=1.0)
    assert event.at(8) == ReportNoisyMax(0.5, "exponential", score_range=1.0)
    assert event.at(8).pure_epsilon() == pytest.approx(2.0)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_candidates_of_one_gumbel_draw_cost_a_composition(k):
    """The law of the order of the k largest noisy scores: draws from the softmax of those left."""
    rng = np.random.default_rng(82)
    scale, event = 1.25, gumbel_top(k, 1.25, score_range=1.0)
    assert event == compose((ReportNoisyMax(1.25, "gumbel", score_range=1.0), k))
    levels = np.array([0.0, 0.3, 0.8]) * event.pure_epsilon()
    claims = [delta(event, level).upper for level in levels]
    rdp = event.rdp(ORDERS)

    def ordered(scores):
        weights = np.exp(scores / scale)
        out = []
        for order in itertools.permutations(range(4), k):
            probability, left = 1.0, weights.sum()
            for r in order:
                probability *= weights[r] / left
                left -= weights[r]
            out.append(probability)
        return np.array(out)

    for _ in range(400):
        p, q = (ordered(scores) for scores in random_scores(rng, 4, 1.0))
        for level, claim in zip(levels, claims, strict=True):
            assert hockey_stick(p, q, level) <= claim * (1 + 1e-9) + 1e-12
        assert (renyi(p, q, ORDERS) <= rdp * (1 + 1e-9) + 1e-12).all()


def test_order_of_one_gumbel_draw_is_that_of_draws_without_replacement():
    """4·10⁵ simulated runs against the softmax law; one of 6 counts is off by 5.5 deviations with chance < 3e-7."""
    scores, runs = np.array([0.0, 0.8, -0.5]), 400_000
    noisy = scores + np.random.default_rng(83).gumbel(size=(runs, 3))
    order = np.argsort(-noisy, axis=1)[:, :2]
    weights = np.exp(scores)
    for first, second in itertools.permutations(range(3), 2):
        expected = weights[first] / weights.sum() * weights[second] / (weights.sum() - weights[first])
        seen = np.mean((order == [first, second]).all(axis=1))
        assert abs(seen - expected) <= 5.5 * math.sqrt(expected * (1 - expected) / runs)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, True, "1", None, 1j], ids=repr)
def test_bad_parameters_are_refused(bad):
    for make in (lambda v: gumbel_top(v, 1.0), lambda v: gumbel_top(2, v)):
        with pytest.raises(InvalidArgumentError):
            make(bad)


def test_unknown_noise_names_the_known_ones():
    with pytest.raises(InvalidArgumentError, match="exponential, gumbel, laplace"):
        ReportNoisyMax(1.0, "gaussian")
