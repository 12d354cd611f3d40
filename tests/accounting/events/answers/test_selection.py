"""Tests of the exponential mechanism and permute-and-flip: exact laws of random instances, worst cases, many digits."""

import math

import mpmath
import numpy as np
import pytest
from divergences import hockey_stick, larger_hockey_stick, renyi
from mutant_table import each_third
from numpy.polynomial import Polynomial

from hockeystick.accounting import BoundedRange, Laplace, compose, delta
from hockeystick.accounting.events.answers.selection import PermuteAndFlip

ORDERS = np.array([1.001, 1.3, 2.0, 4.0, 16.0, 200.0])


def random_scores(rng, candidates):
    """Two score vectors whose difference has the range 1."""
    scores = rng.normal(size=candidates) * rng.choice([0.1, 1.0, 5.0])
    change = rng.integers(0, 2, candidates) if rng.random() < 0.6 else rng.uniform(0, 1, candidates)
    change = change - rng.uniform(0, 1)  # an equal change of all scores has no effect
    return scores, scores + change


@pytest.mark.statistical
@pytest.mark.parametrize("width", [0.02, 0.5, 3.0])
def test_exponential_mechanism_is_dominated(width):
    rng = np.random.default_rng(71)
    event = BoundedRange(width)
    levels = np.array([0.0, 0.2, 0.6, 0.95]) * width
    claims = [delta(event, level).upper for level in levels]
    rdp, near = event.rdp(ORDERS), 0.0
    for _ in range(2000):
        worlds = [np.exp(width * (s - s.max())) for s in random_scores(rng, int(rng.integers(2, 6)))]
        p, q = (w / w.sum() for w in worlds)
        assert np.abs(np.log(p / q)).max() <= event.pure_epsilon() * (1 + 1e-9)
        for level, claim in zip(levels, claims, strict=True):
            assert hockey_stick(p, q, level) <= claim * (1 + 1e-9) + 1e-12
        found = renyi(p, q, ORDERS)
        assert (found <= rdp * (1 + 1e-9) + 1e-12).all()
        near = max(near, float((found / rdp).max()))
    assert near > 0.97


def worst_two_point(width, order):
    """The largest divergence over pairs with losses t and t − w, in many digits, by ternary search."""
    w, a = mpmath.mpf(width), mpmath.mpf(order)

    def moment(t):
        high = (mpmath.exp(-t) - mpmath.exp(-w)) / -mpmath.expm1(-w)  # Q's mass at loss w − t is the rest
        return high * mpmath.exp(a * t) + (1 - high) * mpmath.exp(a * (t - w))

    low, high = mpmath.mpf(0), w
    for _ in range(250):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if moment(left) < moment(right) else (low, right)
    return mpmath.log(moment(low)) / (a - 1)


@pytest.mark.parametrize("width", [1e-30, 1e-6, 0.03, 1.0, 9.0, 300.0])
@pytest.mark.parametrize("order", [1 + 1e-7, 1.01, 2.0, 33.0, 1e6])
@pytest.mark.every(7)
def test_bounded_range_rdp_in_many_digits(width, order):
    with mpmath.workdps(120):
        exact = worst_two_point(width, order)
        got = mpmath.mpf(float(BoundedRange(width).rdp(np.array([order]))[0]))
        assert exact <= got <= exact * (1 + mpmath.mpf(10) ** -12)


@pytest.mark.statistical
@pytest.mark.parametrize("width", each_third([1e-100, 1e-9, 1e-3, 2.0, 0.4, 50.0, 900.0]))
def test_bounded_range_rho(width):
    """w/(e^w − 1) − 1 + ln((e^w − 1)/w), Harrison & Manurangsi 2025."""
    event = BoundedRange(width)
    with mpmath.workdps(250):
        w = mpmath.mpf(width)
        exact = w / mpmath.expm1(w) - 1 + mpmath.log(mpmath.expm1(w) / w)
        assert exact <= mpmath.mpf(event.zcdp_rho()) <= exact * (1 + mpmath.mpf(10) ** -12)
    if width < 100:
        with mpmath.workdps(80):
            for order in (1 + 1e-6, 1.1, 2.0, 10.0, 300.0):
                assert worst_two_point(width, order) <= order * mpmath.mpf(event.zcdp_rho())
    assert event.zcdp_rho() <= width**2 / 8 * (1 + 1e-13)  # Cesar & Rogers 2021, Lemma 3.4
    orders = 1 + np.geomspace(1e-9, min(1e4 * max(1, 1 / width), 9e99), 50_001)
    assert (event.rdp(orders) <= event.zcdp_rho() * orders * (1 + 1e-13)).all()


@pytest.mark.parametrize("width, count", [(0.3, 6), (1.0, 4)])
def test_composition_covers_the_best_adaptive_choice_of_two_point_draws(width, count):
    """δ of the best adaptive adversary by dynamic programming: at each step the best t given the loss so far."""
    cells = 20  # losses are multiples of width/cells, as t runs over that grid
    h = width / cells
    levels = np.arange(-(count + 1) * cells, (count + 1) * cells + 1)  # ε still to be exceeded
    values = np.maximum(0.0, -np.expm1(levels * h))
    t = np.arange(1, cells)
    high = -np.expm1(t * h - width) / -math.expm1(-width)  # P's mass at loss t
    for _ in range(count):
        inner = levels[cells:-cells]
        options = [
            p * values[inner - step - levels[0]] + (1 - p) * values[inner - step + cells - levels[0]]
            for step, p in zip(t, high, strict=True)
        ]
        options.append(values[inner - levels[0]])  # or an uninformative draw
        values = values.copy()
        values[cells:-cells] = np.max(options, axis=0)
    event = compose((BoundedRange(width), count))
    for at in (0, cells, 2 * cells):
        best = values[at - levels[0]]
        claim = delta(event, at * h).upper
        assert 0 < best <= claim * (1 + 1e-9)
        assert claim < 2.5 * best


def flip_law(t, scores):
    """P(r) = w_r·∫ Π_{k≠r}(1 − x·w_k) dx over [0, 1], w = e^{t(s − max s)}: r comes at a uniform time."""
    weights = np.exp(t * (scores - scores.max()))
    law = []
    for r, weight in enumerate(weights):
        others = Polynomial([1.0])
        for k, w in enumerate(weights):
            if k != r:
                others *= Polynomial([1.0, -w])
        law.append(weight * (others.integ()(1.0) - others.integ()(0.0)))
    return np.array(law)


def test_flip_law_is_that_of_the_procedure():
    """All orders of three candidates, by hand."""
    scores, t = np.array([0.0, -0.4, -1.1]), 1.3
    accept = np.exp(t * (scores - scores.max()))
    law = np.zeros(3)
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        left = 1 / 6
        for r in order:
            law[r] += left * accept[r]
            left *= 1 - accept[r]
    np.testing.assert_allclose(flip_law(t, scores), law, atol=1e-14)


@pytest.mark.statistical
@pytest.mark.parametrize("eps", [*(pytest.param(eps, marks=pytest.mark.deep) for eps in (0.1, 1.0)), 4.0])
def test_permute_and_flip_is_dominated_and_attained(eps):
    rng = np.random.default_rng(72)
    event = PermuteAndFlip(eps)
    levels = np.array([0.0, 0.2, 0.6, 0.95]) * eps
    claims = [delta(event, level).upper for level in levels]
    rdp = event.rdp(ORDERS)
    for _ in range(400):
        worlds = random_scores(rng, int(rng.integers(2, 8)))
        p, q = (flip_law(eps, scores) for scores in worlds)
        assert np.abs(np.log(p / q)).max() <= event.pure_epsilon() * (1 + 1e-9)
        for level, claim in zip(levels, claims, strict=True):
            assert hockey_stick(p, q, level) <= claim * (1 + 1e-9) + 1e-12
        assert (renyi(p, q, ORDERS) <= rdp * (1 + 1e-9) + 1e-12).all()
    for level, claim in zip(levels, claims, strict=True):  # two candidates, at the best gap
        best = 0.0
        for gap in np.linspace(0, 1, 201):
            p, q = flip_law(eps, np.array([0.0, gap])), flip_law(eps, np.array([1.0, gap]))
            best = max(best, larger_hockey_stick(p, q, level))
        assert best >= claim * (1 - 1e-3) - 1e-6


def test_permute_and_flip_is_not_of_bounded_range():
    """Opendp's noisy max claimed ε²/8 for it: two outcomes' losses may be almost 2ε apart."""
    eps = 0.5
    scores = np.array([0.0, 0.0, -30.0])
    p, q = flip_law(eps, scores), flip_law(eps, scores + [0.0, 1.0, 1.0])
    loss = np.log(p / q)
    assert loss.max() - loss.min() > 1.5 * eps
    law = flip_law(eps, np.array([0.0, 0.0])), flip_law(eps, np.array([0.0, 1.0]))
    assert (renyi(*law, ORDERS) > BoundedRange(eps).rdp(ORDERS) * 1.5)[:3].all()


def test_permute_and_flip_has_the_curves_of_laplace_noise():
    event, noise = PermuteAndFlip(0.7), Laplace(1 / 0.7)
    np.testing.assert_allclose(event.rdp(ORDERS), noise.rdp(ORDERS), rtol=1e-10)
    for eps in (0.0, 0.3):
        assert delta(event, eps).upper == pytest.approx(-math.expm1((eps - 0.7) / 2), rel=1e-5)
    assert event.at(2.5) == PermuteAndFlip(1.75)
    assert event.orientations() == (event,)
