"""Tests of bounds that rare large losses dominate: the law cut off above ε, closed forms of one step, and their
order."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from attrs import evolve
from benchmark_scripts import benchmark
from divergences import exact_gaussian_delta
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special
from spies import spied

from hockeystick.accounting import (
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PoissonSampledReplace,
    RandomizedResponse,
    UnsupportedEventError,
    compose,
    delta,
    epsilon,
    parallel,
)
from hockeystick.accounting.engines import best_bound, contour_integral, cut_loss, exact_profile, tilted_law
from hockeystick.accounting.engines.tilted_law import FewFrequencies, Tilted
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.losses import loss_grid
from hockeystick.accounting.losses.normal_mixtures import ORIGIN, MixturePair, NormalMixture

reference = benchmark("accountants.sampled_reference")
composed, one_step = reference.composed, reference.one_step


def removal(q: float, sigma: float, steps: int) -> Any:
    return compose((PoissonSampled(q, Gaussian(sigma)), steps)).directions()[0]


def two_removals(q: float, sigma: float, eps: float) -> float:
    """δ of two steps by one quadrature: E_P[δ₁(ε − L)], with the closed form of one step at any loss."""
    mu = 1 / sigma
    x, w = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(-13.0, 14.0 + mu, 4000)
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1] - edges[0]) / 2
    z, weights = (middle[:, None] + half * x).ravel(), np.tile(half * w, len(middle))
    v = mu * z - mu * mu / 2
    losses = np.where(v > 30, math.log(q) + v, np.log1p(q * np.expm1(np.minimum(v, 30.0))))
    left = eps - losses
    found = -np.expm1(np.minimum(left, 0.0))
    k = left > math.log1p(-q)
    at = (np.log(np.maximum(np.expm1(left[k]) + q, 1e-300)) - math.log(q) + mu * mu / 2) / mu
    found[k] = q * (special.ndtr(mu - at) - special.ndtr(-at)) - np.expm1(left[k]) * special.ndtr(-at)
    p = np.exp(-z * z / 2 + losses) / math.sqrt(2 * math.pi) * weights
    return float(p @ np.maximum(found, 0.0))


# One step -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [1e-12, 1e-8, 1e-4, 0.1])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 10.0])
@pytest.mark.every(3)
def test_one_step_is_the_closed_form_in_50_digits(q: float, sigma: float) -> None:
    for d in (1e-5, 1e-20, 1e-290):
        exact, found = one_step(q, sigma, d), epsilon(PoissonSampled(q, Gaussian(sigma)), d, bracket=True)
        assert found.method == "direct" and found.lower is not None and found.lower <= exact * (1 + 1e-15)
        assert exact * (1 - 1e-15) <= found.upper <= exact * (1 + 1e-9)


def test_delta_of_one_step_is_the_closed_form() -> None:
    q, sigma, eps = 1e-6, 0.75, 0.005
    with mp.workdps(50):
        mu, t = 1 / mp.mpf(sigma), mp.log1p(mp.expm1(eps) / mp.mpf(q))
        exact = mp.mpf(q) * exact_gaussian_delta(mu, t)
    found = delta(PoissonSampled(q, Gaussian(sigma)), eps, bracket=True)
    assert found.lower is not None and found.lower <= exact <= found.upper <= exact * (1 + 1e-10)


def exact_gain(p: NormalMixture, q: NormalMixture, z: float) -> tuple[Any, Any]:
    """Returns the loss at z and δ there in 150 digits, because most of them cancel."""
    with mp.workdps(150):
        at = mp.mpf(z)  # a float, or a number of as many digits

        def ratio(m: NormalMixture) -> Any:
            return sum(
                mp.mpf(w) * mp.exp(c * at - mp.mpf(c) ** 2 / 2) for c, w in zip(m.centres, m.weights, strict=True)
            )

        def above(m: NormalMixture) -> Any:
            return sum(mp.mpf(w) * mp.ncdf(c - at) for c, w in zip(m.centres, m.weights, strict=True))

        scale = sum(map(mp.mpf, p.weights)), sum(map(mp.mpf, q.weights))
        loss = mp.log(ratio(p) / scale[0]) - mp.log(ratio(q) / scale[1])
        return loss, above(p) / scale[0] - mp.exp(loss) * above(q) / scale[1]


@pytest.mark.statistical
@settings(max_examples=60, deadline=None)
@given(
    st.floats(-12.0, -0.1),
    st.floats(0.01, 12.0),
    st.floats(-1.0, 25.0),
    st.sampled_from(["removal", "addition", "replacement", "group"]),
)
def test_the_profile_of_mixtures_holds_the_exact_one(log_q: float, mu: float, z: float, kind: str) -> None:
    q = 10.0**log_q
    mixture, normal = NormalMixture((0.0, mu), (1 - q, q)), NormalMixture((0.0,), (1.0,))
    if kind == "group":
        mixture = NormalMixture((0.0, mu, 2 * mu), ((1 - q) ** 2, 2 * q * (1 - q), q * q))
    other = mixture.mirrored()
    pair = MixturePair(*{"addition": (normal, other), "replacement": (mixture, other)}.get(kind, (mixture, normal)))
    curve = exact_profile.Normals(pair)
    loss, gain = exact_gain(pair.p, pair.q, z)
    # The weights are rounded to a sum of 1: 1e-16 of it may be missing on both sides.
    assert curve.loss(z, False) - 2e-16 <= loss <= curve.loss(z, True) + 2e-16
    if gain > 1e-200:
        log_gain = mp.log(gain)
        low, high = curve.log_delta(z, False), curve.log_delta(z, True)
        assert low <= log_gain + 1e-13 and log_gain <= high + 1e-13 and high - low < 1e-8


@pytest.mark.parametrize("inner, exact", [(Laplace(0.7), lambda t: -math.expm1((t - 1 / 0.7) / 2)),
                                          (GaussianDP(1.2), None), (RandomizedResponse(1.1, 2), None)])  # fmt: skip
@pytest.mark.parametrize("q", [1e-7, 0.2])
@pytest.mark.every(2)
def test_a_sampled_access_costs_what_its_profile_says(inner: Any, exact: Any, q: float) -> None:
    for share in (0.3, 0.01, 1e-6):
        d = q * share
        t = epsilon(inner, share).upper if exact is None else optimize.brentq(lambda t: exact(t) - share, 0, 1 / 0.7)
        found = epsilon(PoissonSampled(q, inner), d)
        assert found.method in ("direct", "pure")
        assert found.upper == pytest.approx(math.log1p(q * math.expm1(t)), rel=1e-6)


def test_an_addition_is_as_exact() -> None:
    q, mu = 1e-3, 1.2
    event = PoissonSampled(q, GaussianDP(mu), "addition")
    for d in (1e-4, 1e-9, 1e-30):
        found = epsilon(event, d, bracket=True)
        with mp.workdps(50):  # P(z ≥ a) − e^ε·((1−q)·P(z ≥ a) + q·Q(z ≥ a)), at its best a
            eps = mp.mpf(found.upper)
            ratio = mp.exp(eps) * q / (1 - mp.exp(eps) * (1 - mp.mpf(q)))  # dP/dQ there
            a = mp.log(ratio) / mu - mp.mpf(mu) / 2
            p, other = mp.ncdf(-a), mp.ncdf(-a - mp.mpf(mu))
            exact = p - mp.exp(eps) * ((1 - mp.mpf(q)) * p + q * other)
        assert found.lower is not None and exact <= d <= exact * (1 + 1e-6)
        assert found.lower <= found.upper <= found.lower * (1 + 1e-9)


def test_a_sampled_composition_goes_through_its_own_profile() -> None:
    q, inner = 1e-6, compose((Laplace(2.0), 3))
    event = PoissonSampled(q, inner)
    t = epsilon(inner, 1e-3).upper
    found = epsilon(event, 1e-9, bracket=True)
    assert found.method == "direct" and found.upper == pytest.approx(math.log1p(q * math.expm1(t)), rel=1e-9)
    assert found.lower is not None and 0.99 * found.upper < found.lower <= found.upper
    assert delta(event, found.upper).upper == pytest.approx(1e-9, rel=1e-5)
    replaced = PoissonSampledReplace(q, compose((Laplace(4.0), 3)))
    assert epsilon(replaced, 1e-9).upper == pytest.approx(found.upper, rel=1e-9)


GROUPED = PoissonSampled(1e-6, Gaussian(0.75)).at(3)
TWO = PoissonSampled(1e-6, compose((Gaussian(1), 1), (Gaussian(1.1), 1)))


def exact_delta(pair: MixturePair, eps: float) -> Any:
    low, high = mp.mpf(-60), mp.mpf(60)
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (middle, high) if exact_gain(pair.p, pair.q, middle)[0] < eps else (low, middle)
    return exact_gain(pair.p, pair.q, high)[1]


@pytest.mark.statistical
@pytest.mark.parametrize(
    "event, d", [(GROUPED, 1e-8), (PoissonSampledReplace(1e-6, Gaussian(0.75)), 1e-10), (TWO, 1e-10)]
)
def test_groups_and_other_samples_of_one_step_are_exact(event: Any, d: float) -> None:
    found = epsilon(event, d)
    exact = exact_delta(event.directions()[0].pair(), found.upper)
    assert found.method == "direct" and d * (1 - 1e-6) <= exact <= d


# Many steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(
    "q, sigma, d",
    [(1e-4, 1, 1e-20), (1e-2, 1, 1e-8), (1e-8, 0.5, 1e-12)]
    + [pytest.param(1e-6, 0.75, d, marks=pytest.mark.deep) for d in (1e-15, 1e-9)],
)
def test_two_steps_are_the_integral(q: float, sigma: float, d: float) -> None:
    event = removal(q, sigma, 2)
    low, high = (cut_loss.epsilon(event, d, upper=side) for side in (False, True))
    exact = optimize.brentq(
        lambda e: math.log(max(two_removals(q, sigma, e), 1e-300) / d), high / 2, 2 * high, xtol=1e-13 * high
    )
    assert low <= exact <= high * (1 + 1e-9) and high <= exact * (1 + 1e-5)
    assert composed(q, sigma, 2, d, high)[0] == pytest.approx(exact, rel=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "q, sigma, steps, d",
    [
        (1e-6, 0.75, 1000, 1e-12),
        (1e-8, 0.5, 10, 1e-15),
        (1e-7, 2, 1000, 1e-8),
        (1e-2, 1, 999, 1e-5),
        (1e-6, 0.5, 1000, 1e-20),  # few cells are left once the largest losses are cut off
        (1e-5, 0.5, 10, 1e-20),
        # rare large losses dominate δ: the round-off of the others must not exceed it
        pytest.param(1e-5, 1, 10**6, 1e-20, marks=pytest.mark.deep),
        pytest.param(1e-6, 1, 10**6, 1e-15, marks=pytest.mark.deep),
        (1e-8, 0.5, 10**6, 1e-20),
        (1e-7, 10, 10**6, 1e-8),  # in a million sums rounding must not add up
        pytest.param(1e-8, 5, 10**6, 1e-15, marks=pytest.mark.deep),
        # the grid is as fine as its window lets it be, and the cell in which the losses end is wide
        (1e-8, 0.5, 10**6, 1e-5),
        pytest.param(1e-7, 1, 10**6, 1e-20, marks=pytest.mark.deep),
    ],
)
def test_many_steps_are_the_reference(q: float, sigma: float, steps: int, d: float) -> None:
    found = epsilon(compose((PoissonSampled(q, Gaussian(sigma)), steps)), d)
    exact, error = composed(q, sigma, steps, d, found.upper)
    assert exact * (1 - 1e-7 - 3 * error) <= found.upper <= exact * (1 + 1e-5)


@pytest.mark.parametrize("q", [1e-8, 1e-5, 1e-3])
@pytest.mark.parametrize("mu", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["removal", "addition", "replacement"])
@pytest.mark.every(7)
def test_the_rise_of_narrow_cells_is_known_where_their_difference_is_round_off(q: float, mu: float, kind: str) -> None:
    """By quadrature in 40 digits; p − e^l·q in floats is off by more than the cell's own rise."""
    sampled, away = NormalMixture((0.0, mu), (1 - q, q)), NormalMixture((-mu, 0.0), (q, 1 - q))
    origin = NormalMixture((0.0,), (1.0,))
    pair = {
        "removal": MixturePair(sampled, origin),
        "addition": MixturePair(origin, away),
        "replacement": MixturePair(sampled, away),
    }[kind]
    step = 9e-4 * q * mu
    edges = np.arange(-200, 400) * step
    cells = pair.cells(edges)
    assert (cells.rise is not None) == (step < 1e-8)
    if cells.rise is None:
        return
    with mp.workdps(40):

        def density(mixture: NormalMixture, x: Any) -> Any:
            weights = (1 - mp.mpf(q), mp.mpf(q)) if mixture is sampled else (mp.mpf(q), 1 - mp.mpf(q))
            if mixture is origin:
                return mp.npdf(x)
            return sum(w * mp.npdf(x, c) for w, c in zip(weights, mixture.centres, strict=True))

        z = pair._locate(edges)
        for i in range(7, len(edges) - 1, 151):
            edge = mp.mpf(float(edges[i]))
            ends = [float(z[i]), float(z[i + 1])]
            exact = mp.quad(lambda x, e=edge: density(pair.p, x) - mp.exp(e) * density(pair.q, x), ends)
            assert 0 < exact <= cells.rise[i] <= exact * (1 + mp.mpf(10) ** -8) + cells.p[i] * 1e-3 * step * 1e-3


@pytest.mark.parametrize("q, sigma", [(1e-8, 0.5), (1e-8, 0.25), (1e-7, 0.5)])
@pytest.mark.parametrize("kind", ["removal", "addition"])
@pytest.mark.every(3)
def test_the_rise_of_the_cell_in_which_the_losses_end_is_known(q: float, sigma: float, kind: str) -> None:
    """There a narrow cell has many outcomes: by quadrature in 40 digits, from the end of the losses on."""
    mu, step = 1 / sigma, min(q / 8.5, 9e-9)
    sampled, away = NormalMixture((0.0, mu), (1 - q, q)), NormalMixture((-mu, 0.0), (q, 1 - q))
    origin = NormalMixture((0.0,), (1.0,))
    pair = MixturePair(sampled, origin) if kind == "removal" else MixturePair(origin, away)
    edges = np.arange(-14, 14) * step
    cells, z = pair.cells(edges), pair._locate(edges)
    assert cells.rise is not None and not np.isnan(cells.rise).any()
    ends = [i for i in range(len(z) - 1) if math.isinf(z[i]) != math.isinf(z[i + 1])]
    assert len(ends) == 1 and cells.p[ends[0]] > 0.01
    with mp.workdps(40):
        w, m, edge = mp.mpf(q), mp.mpf(mu), mp.mpf(float(edges[ends[0]]))

        def gained(x: Any) -> Any:
            other = (1 - w) * mp.npdf(x) + w * mp.npdf(x, m if kind == "removal" else -m)
            return other - mp.exp(edge) * mp.npdf(x) if kind == "removal" else mp.npdf(x) - mp.exp(edge) * other

        low, high = (max(-15.0 - mu, min(15.0, float(z[ends[0] + j]))) for j in (0, 1))
        exact = mp.quad(gained, np.linspace(low, high, 40).tolist())
    assert 0 < exact <= cells.rise[ends[0]] <= exact * (1 + mp.mpf(10) ** -8) + cells.p[ends[0]] * 1e-6 * step


@pytest.mark.statistical
@pytest.mark.parametrize("noise", [30.0, 300.0])
def test_a_mix_with_other_noise_holds_what_the_other_engine_finds(noise: float) -> None:
    event = compose((PoissonSampled(1e-3, Gaussian(1.0)), 10), Gaussian(noise)).directions()[0]
    found, low = cut_loss.epsilon(event, 1e-9), cut_loss.epsilon(event, 1e-9, upper=False)
    least, most = (contour_integral.epsilon(event, 1e-9, upper=side) for side in (False, True))
    assert least <= found <= most * (1 + 1e-5) and 0.99 * found < low <= most


def test_the_probability_to_fall_below_the_level_again_is_known_for_every_part() -> None:
    """A part that is not cut off above has losses below the level, which are distinguished from Q's mass."""
    event = compose((PoissonSampled(1e-3, Gaussian(1.0)), 10), Gaussian(300.0)).directions()[0]
    planned = cut_loss.plan(event, 0.17, math.log(1e-9))
    cut = cut_loss.CutLaw(event, planned, True, 0)
    assert 0.0 < cut.beneath < 1e-12  # below where the Gaussian's losses are kept
    highs = [high for _, high in planned.ends]
    assert min(highs) < max(highs) == planned.level


def test_delta_of_many_steps_meets_epsilon() -> None:
    event = compose((PoissonSampled(1e-6, Gaussian(0.75)), 1000))
    eps = epsilon(event, 1e-12).upper
    assert 0.004943532 < eps < 0.00494354  # dp-accounting 0.6.0: .0050442
    found = delta(event, eps, bracket=True)
    assert found.lower is not None and found.lower <= 1e-12 * (1 + 1e-9) and 0.9 * found.upper < found.lower
    assert found.upper == pytest.approx(1e-12, rel=1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "q, sigma, steps, eps",
    [(1e-2, 1.0, 10, 1e-9), (1e-4, 1.0, 1000, 1e-12), pytest.param(1e-6, 1.0, 1000, 1e-12, marks=pytest.mark.deep)]
    + [pytest.param(q, 1.0, 1000, 1e-9, marks=pytest.mark.deep) for q in (1e-6, 1e-4)],
)
def test_delta_at_a_tiny_epsilon_is_the_reference(q: float, sigma: float, steps: int, eps: float) -> None:
    found = delta(compose((PoissonSampled(q, Gaussian(sigma)), steps)), eps).upper
    exact = []
    for way in ("removal", "addition"):
        log_delta, error = reference.Composed(q, sigma, steps, way, eps, math.log(found)).log_delta(eps)
        exact.append((math.exp(log_delta), error))
    value, error = max(exact)
    assert value * (1 - 3 * error - 1e-9) <= found <= value * (1 + 1e-6)


@pytest.mark.parametrize("eps", [1e-12, 1e-9, 1e-6])
def test_delta_of_two_steps_at_a_tiny_epsilon_is_the_integral(eps: float) -> None:
    event, exact = removal(1e-2, 1.0, 2), two_removals(1e-2, 1.0, eps)
    low, high = (cut_loss.delta(event, eps, upper=side) for side in (False, True))
    assert low <= exact * (1 + 1e-9) and exact * (1 - 1e-9) <= high <= exact * (1 + 1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("q, steps", [pytest.param(1e-6, 1000, marks=pytest.mark.deep), (1e-8, 10)])
def test_delta_at_none_is_hardly_above_that_at_hardly_any_epsilon(q: float, steps: int) -> None:
    event = compose((PoissonSampled(q, Gaussian(1.0)), steps))
    none, above = delta(event, 0.0, bracket=True), delta(event, 1e-12, bracket=True)
    assert above.lower is not None and above.lower <= none.upper <= above.upper + 1e-12 * (1 + 1e-9) + 1e-6 * none.upper
    assert none.lower is not None and none.upper * (1 - 1e-4) <= none.lower <= none.upper


@pytest.mark.statistical
def test_delta_at_the_epsilon_of_a_delta_is_that_delta_where_windows_are_large() -> None:
    event = removal(1e-4, 0.8613780046391402, 10**6)
    at = cut_loss.epsilon(event, 1e-10)
    assert 1e-10 * (1 - 1e-6) <= cut_loss.delta(event, at) <= 1e-10 * (1 + 3e-5)


def test_a_poor_first_guess_is_mended_on_a_coarse_grid() -> None:
    """ε = 100 needs two large losses; the sketch gives 37, as if one were enough."""
    event = removal(1e-4, 0.1588, 10**4)
    guess = cut_loss.sketch(event).epsilon(math.log(1e-5))
    closer, *_ = cut_loss._closer(event, guess, math.log(1e-5), True, 1)
    assert guess < 40.0 < 99.0 < closer < 101.0


def test_bounds_from_other_cut_levels_hold_the_same_delta() -> None:
    """Bounds from cuts at other levels than the planned one still hold the same δ."""
    event, eps, log_delta = removal(1e-6, 0.75, 100), 0.004, math.log(1e-13)
    planned = cut_loss.plan(event, eps, log_delta)
    found = []
    for level in (planned.level, planned.level * 1.5):
        ends = [(low, level) for low, _ in planned.ends]
        moved = cut_loss.Plan(planned.margin, level, planned.tilt, ends, planned.step, planned.excess)
        for upper in (False, True):
            cut = cut_loss.CutLaw(event, moved, upper, 0)
            points = cut_loss._CutPoints(cut, cut.law.tilted(cut.tilt, eps))
            found.append(points.log_delta(round(eps / cut.step)))
    assert max(found[0], found[2]) <= min(found[1], found[3])


def test_a_cut_below_epsilon_is_reported() -> None:
    event = removal(1e-6, 0.75, 1000)
    planned = cut_loss.plan(event, 0.003, math.log(1e-12))
    cut = cut_loss.CutLaw(event, planned, True, 0)
    assert cut.rare(0.01, 0.01) >= cut.mean_q  # nothing is given back
    assert cut.rare(0.002, 0.002) < cut.rare(0.002, 0.01)


def test_only_mixtures_of_normals_are_cut() -> None:
    with pytest.raises(UnsupportedEventError, match="not a mixture of normals"):
        cut_loss.epsilon(compose((Laplace(1.0), 2)), 1e-6)
    assert not cut_loss.is_better(compose((Laplace(1.0), 2)), None, 1e-6)
    assert not cut_loss.is_better(removal(0.05, 2.0, 100), None, 1e-6)
    assert cut_loss.is_better(removal(1e-6, 0.75, 1000), None, 1e-12)


# The order of the methods ---------------------------------------------------------------------------------------------


def test_the_other_engine_runs_where_the_first_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def other_engine(event: PrivacyEvent, *_: Any, **__: Any) -> float:
        asked.append(event)
        return 0.0116

    monkeypatch.setattr(contour_integral, "epsilon", other_engine)
    assert epsilon(compose((PoissonSampled(0.01, Gaussian(0.9)), 900)), 1.1e-6).method == "pld" and not asked
    event = compose((PoissonSampled(1e-4, Gaussian(1.0)), 7))
    assert epsilon(event, 1.1e-9).method == "pld" and not asked
    monkeypatch.setattr(cut_loss, "excess", lambda *_: 1e-3)
    found = epsilon(event, 1.2e-9)
    assert asked and (found.upper, found.method) == (0.0116, "contour")


def test_a_direction_that_cannot_be_the_worst_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = spied(monkeypatch, best_bound, "_methods")
    epsilon(PoissonSampled(1.5e-6, Gaussian(0.75)), 1e-12)
    # The cheap bounds are computed by explicit methods.
    assert [call.args[0].direction for call in calls if call.args[1:] in ((), (None,))] == ["removal"]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("q", "sigma", "steps", "d"),
    [pytest.param(1e-6, 0.75, 1000, 1e-12, marks=pytest.mark.deep), (1e-3, 0.8, 50, 1e-8)],
)
def test_a_direction_left_out_by_a_coarse_bound_is_never_the_worst(
    q: float, sigma: float, steps: int, d: float
) -> None:
    """One direction is slightly worse, by less than the coarse grid's error and more than the fine grid's."""
    ways = [removal(p, sigma, steps) for p in (q, q * 1.001)]
    first, second = (best_bound._epsilon(way, d, True, None) for way in ways)
    coarse = best_bound._epsilon(ways[1], d, True, best_bound._COARSE)
    assert coarse.lower is not None and second.lower is not None
    assert (
        coarse.lower < first.upper < second.lower <= coarse.upper
    )  # a bound with an error downwards would leave it out
    assert epsilon(parallel(*ways), d).upper >= second.lower
    assert epsilon(parallel(*ways[::-1]), d).upper >= second.lower
    at = second.upper
    deltas = [best_bound._delta(way, at, True, None) for way in ways]
    assert deltas[1].lower is not None and deltas[0].upper < deltas[1].lower
    assert best_bound._delta(ways[1], at, False, best_bound._COARSE).upper >= deltas[1].lower
    assert delta(parallel(*ways), at).upper >= deltas[1].lower


def test_a_folded_law_has_no_smaller_mean_of_an_exponential_and_hardly_a_larger_one() -> None:
    losses = 1e-4 * np.arange(-3001, 30_000)
    masses = np.exp(-0.5 * (losses / 0.1) ** 2)
    masses /= masses.sum()
    few, ends = cut_loss._folded(masses, losses)
    assert len(few) * 10 < len(masses) and few @ ends == pytest.approx(float(masses @ losses), abs=1e-13)
    for rate in (1.0, 10.0, 100.0):
        fine, folded = float(masses @ np.exp(-rate * losses)), float(few @ np.exp(-rate * ends))
        assert fine * (1 - 1e-12) <= folded <= fine * math.exp((rate * 0.1 / 16) ** 2 / 8)


def test_the_gain_is_a_product_of_exponentials_to_the_last_digits() -> None:
    law = SimpleNamespace(step=4e-8)
    found = Tilted.gain(SimpleNamespace(t=np.zeros(100_000), last=100_000, slope=1e-3, law=law))  # type: ignore[arg-type]
    places = [1, 2, 32_768, 32_769, len(found)]
    with mp.workdps(40):
        exact = [float(mp.exp(mp.mpf(-1e-3) * g) * -mp.expm1(mp.mpf(-4e-8) * g)) for g in places]
    assert found[[g - 1 for g in places]] == pytest.approx(exact, rel=64 * 2.0**-53)


# Sparse laws ----------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(
    "event, log_delta",
    [
        pytest.param(removal(1e-5, 1.0, 10**6), math.log(1e-6), marks=pytest.mark.deep),
        (removal(1e-4, 0.8, 10**4), math.log(1e-8)),
        (compose((PoissonSampled(1e-3, Gaussian(1.1)), 10**5)).directions()[1], math.log(1e-6)),
        (
            compose(
                (PoissonSampled(1e-4, Gaussian(1.0)), 10**5), (PoissonSampled(3e-5, Gaussian(0.7)), 10**4)
            ).directions()[0],
            math.log(1e-7),
        ),
    ],
)
def test_a_sparse_law_bounds_the_delta_that_a_law_on_all_steps_bounds(event: PrivacyEvent, log_delta: float) -> None:
    at = cut_loss.sketch(event).epsilon(log_delta)
    planned = cut_loss.plan(event, at, log_delta, sparse=True)
    assert planned.sparse is not None
    dense = evolve(planned, sparse=None, step=8 * planned.step)
    ends = []
    for one in (planned, dense):
        points = [cut_loss._points(event, one, at, upper, 0, True) for upper in (False, True)]
        assert [p.cut.law.sparse for p in points] == [one.sparse is not None] * 2
        ends.append([cut_loss._delta(each, at) for each in points])
    (low, high), (dense_low, dense_high) = ends
    assert 0.0 < low <= dense_high and dense_low <= high
    assert low <= high <= low * 1.03 and high <= dense_high  # on a coarser grid


@pytest.mark.parametrize("mu, step", [(1.0, 1e-4), (3.0, 1e-3), (0.1, 2e-9)])
@pytest.mark.parametrize("eps", [-0.5, 0.0, 0.02, 1.0])
@pytest.mark.every(2)
def test_sparse_laws_of_one_step_bound_its_delta(mu: float, step: float, eps: float) -> None:
    pair, found = MixturePair(NormalMixture((mu,), (1.0,)), ORIGIN), []
    for upper in (False, True):
        law = loss_grid.sparse_from_pair(pair, step, upper)
        assert len(law.at) == len(law.p) < 45_000 and (np.diff(law.at) > 0).all() and law.last - law.start > 80_000
        found.append(float(law.p @ np.maximum(-np.expm1(eps - law.losses()), 0.0)))
    assert found[0] <= exact_gaussian_delta(mu, eps) <= found[1] <= found[0] + 1e-5


def test_sums_over_few_frequencies_are_those_over_the_law() -> None:
    """The law itself, made from the same frequencies, summed place by place, also next to the window's end."""
    event, log_delta = removal(1e-4, 1.0, 10**5), math.log(1e-6)
    at = cut_loss.sketch(event).epsilon(log_delta)
    planned = cut_loss.plan(event, at, log_delta, sparse=True)
    few = cut_loss._points(event, planned, at, True, 3, True).tilted
    assert isinstance(few, FewFrequencies)
    spectrum = np.zeros(few.size // 2 + 1, dtype=complex)
    spectrum[few.frequencies] = few.transform
    law = np.fft.irfft(spectrum, few.size)
    plain = np.exp(-few.slope * np.arange(1, few.size)) * -np.expm1(-few.law.step * np.arange(1, few.size))
    for place in (round(at / few.law.step), few.last - 3, few.last - 1000, few.last):
        seen = law[np.arange(place + 1, few.last + 1) % few.size]
        expected = float(seen @ plain[: len(seen)])
        assert (
            abs(few.sum_above(place, np.empty(0)) - max(expected, 0.0)) <= float(few.lost(np.array(place), 0.0)) + 1e-12
        )
    assert few.gain()[0] == pytest.approx(plain.max(), rel=1e-6)


def test_a_law_with_too_many_frequencies_is_left_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    event = removal(1e-5, 0.5, 10**5)
    at = cut_loss.epsilon(event, 1e-6)
    monkeypatch.setattr(tilted_law, "_MOST_FREQUENCIES", 8)
    asked = spied(monkeypatch, tilted_law.Law, "_few")
    assert cut_loss.epsilon(event, 1e-6) == pytest.approx(at, rel=1e-5)
    assert len(asked) == 1


@pytest.mark.statistical
@pytest.mark.parametrize("q, steps, d", [(1e-8, 10**9, 1e-10), (1e-7, 10**8, 1e-9)])
def test_a_thousand_million_steps_are_the_reference(q: float, steps: int, d: float) -> None:
    found = epsilon(compose((PoissonSampled(q, Gaussian(1.0)), steps)), d)
    exact, error = composed(q, 1.0, steps, d, found.upper)
    assert exact * (1 - 1e-7 - 3 * error) <= found.upper <= exact * (1 + 1e-4)
