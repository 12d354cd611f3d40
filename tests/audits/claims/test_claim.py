"""Claims of every kind: each point of a claim follows from what is claimed, and little is given away."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import deep_examples
from scipy import special, stats

from hockeystick import accounting, audits
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.audits import Claim
from hockeystick.audits.claims.claim import _RATES, _EventCurve

ORDERS = 1 + np.geomspace(1e-3, 1e4, 16_001)


def gaussian_delta(mu: float, epsilon: float) -> float:
    return math.exp(gaussian_profile.log_delta(mu, epsilon))


def coins_renyi(p: float, q: float, orders: np.ndarray) -> np.ndarray:
    """The larger Rényi divergence of two coins, of either order of theirs."""
    ways = []
    for a, b in ((p, q), (q, p)):
        terms = np.stack([orders * np.log(a) - (orders - 1) * np.log(b)] * 2)
        terms[1] = orders * np.log1p(-a) - (orders - 1) * np.log1p(-b)
        ways.append(special.logsumexp(terms, axis=0) / (orders - 1))
    return np.asarray(np.maximum(*ways))


def violated(claim: Claim, p: float, q: float) -> bool:
    """Whether a mechanism that answers with one of two coins breaks the claim, in either order, at either side."""
    pairs = ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p))
    return any(a > math.exp(e) * b + d + 1e-15 for e, d in claim.points for a, b in pairs)


PROBABILITY = st.floats(1e-6, 1 - 1e-6)


@deep_examples(3, 30, PROBABILITY, PROBABILITY)
@example(0.1484375, 1e-6)
def test_a_zcdp_or_renyi_claim_holds_for_every_coin_that_keeps_it(p: float, q: float) -> None:
    renyi = coins_renyi(p, q, ORDERS)
    rho = float(np.max(renyi / ORDERS)) * (1 + 1e-6) + 1e-12

    if rho < 50:
        assert not violated(Claim.zcdp(rho, delta=1e-3), p, q)
        assert not violated(
            Claim.zcdp(rho / 2, float(np.max(renyi - rho / 2 * ORDERS)) * (1 + 1e-6) + 1e-9, 1e-3), p, q
        )
    few = ORDERS[[8000, 10_000, 12_000]]
    found = coins_renyi(p, q, few) * (1 + 1e-9) + 1e-12
    if found.max() < 50:
        assert not violated(Claim.rdp(few, found, 1e-3), p, q)


@pytest.mark.statistical
@pytest.mark.parametrize("rho", [0.02, 0.5, 3.0])
def test_a_zcdp_claim_is_the_best_that_data_processing_gives(rho: float) -> None:
    """Coins that keep the claim come within 1 % of the total variation that it allows, below Pinsker's inequality."""
    claim = Claim.zcdp(rho)
    total_variation = dict(claim.also)[0.0]
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        kept = bool((coins_renyi((1 + middle) / 2, (1 - middle) / 2, ORDERS) <= rho * ORDERS).all())
        low, high = (middle, high) if kept else (low, middle)

    assert low <= total_variation <= 1.01 * low
    bound = accounting.delta(accounting.ZCDP(rho), 0.0).upper
    assert total_variation <= bound <= math.sqrt(rho / 2) * (1 + 1e-4)
    for epsilon, delta in claim.also:
        assert delta <= accounting.delta(accounting.ZCDP(rho), epsilon).upper * (1 + 1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("mu", [1.0, *(pytest.param(mu, marks=pytest.mark.deep) for mu in (0.2, 3.0))])
def test_a_claim_that_a_gaussian_satisfies_is_never_refuted(mu: float) -> None:
    """Every curve that N(0, 1) against N(mu, 1) has claims at least its profile, which is exact as GDP."""
    exact = Claim.gdp(mu)
    weaker = [
        Claim.tradeoff(lambda x: float(stats.norm.cdf(stats.norm.isf(x) - mu))),
        Claim.zcdp(mu**2 / 2),
        Claim.zcdp(mu**2 / 4, xi=mu**2 * 10, delta=1e-3),
        Claim.rdp([1.5, 2.0, 8.0, 64.0], lambda order: order * mu**2 / 2, 1e-3),
    ]

    for epsilon, delta in exact.points[1:]:
        assert delta == pytest.approx(gaussian_delta(mu, epsilon), rel=1e-9)
    for claim in weaker:
        for epsilon, delta in claim.points:
            assert delta >= gaussian_delta(mu, epsilon) * (1 - 1e-9)
    for epsilon, delta in weaker[0].points:
        if delta > 1e-3:
            assert delta <= gaussian_delta(mu, epsilon) * 1.005


CORNERS = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=0, max_size=4)


@pytest.mark.statistical
@settings(max_examples=20)
@given(CORNERS)
def test_a_trade_off_claim_covers_the_laws_it_is_of(corners: list[tuple[float, float]]) -> None:
    """f is any polygon: the largest convex function below some points, and symmetric. Its own delta is a maximum over
    its corners, and the claim may not be below."""
    points = [(0.0, 1.0), (1.0, 0.0), *[(x, (1 - x) * y) for x, y in corners]]
    points += [(y, x) for x, y in points]
    slopes = np.concatenate([-np.geomspace(1e-6, 1e6, 401)])
    xs, ys = np.array(points).T
    support = np.min(ys[:, None] - slopes * xs[:, None], axis=0)  # tangents below all points

    def f(x: float) -> float:
        return float(max(0.0, np.max(support + slopes * x)))

    claim = Claim.tradeoff(f, delta=1.0)

    dense = np.linspace(0, 1, 2001)
    values = np.array([f(x) for x in dense])
    for at, delta in claim.points:
        if at <= 700:
            assert delta >= np.max(1 - values - math.exp(at) * dense) - 1e-12


def test_trade_off_claims_of_perfect_and_no_privacy_are_exact() -> None:
    nothing = Claim.tradeoff(lambda x: 1 - x)
    everything = Claim.tradeoff(lambda x: 0.0, delta=1.0)

    assert nothing.epsilon == 0.0
    assert max(delta for _, delta in nothing.also) < 1e-9
    assert min(delta for _, delta in everything.points) == 1.0


def test_a_profile_claims_its_points_and_nothing_else() -> None:
    claim = Claim.profile([0.0, 0.5, 1.0], [0.3, 0.1, 0.02])
    both = Claim.profile([0.0, 0.5, 1.0], lambda e: 0.3 * math.exp(-e), reverse=[0.1, 0.2, 0.3])

    assert claim.points == ((1.0, 0.02), (0.0, 0.3), (0.5, 0.1))
    assert both.points == ((1.0, 0.3), (0.0, 0.3), (0.5, 0.2))


class HasEvent:
    def event(self) -> accounting.PrivacyEvent:
        return accounting.Laplace(1.0)


def guarantee() -> accounting.Guarantee:
    move = accounting.Move("a record", (accounting.Charge("sum", accounting.Gaussian(1.0), 1),))
    return accounting.Guarantee((move,), accounting.Adjacency.ADD_OR_REMOVE_ONE)


def test_claims_are_made_from_claims_pairs_and_curves() -> None:
    gaussian = accounting.Gaussian(1.0)
    curve = Claim.curve(gaussian, 1e-6)

    assert Claim.of(curve) is curve
    assert Claim.of((1, 0)) == Claim.of([1.0, 0.0]) == Claim(1.0)
    assert Claim.of(accounting.EpsilonDelta(1.0, 1e-3)) == Claim(1.0, 1e-3)
    assert Claim.of(gaussian) == curve == Claim.of(guarantee())
    assert Claim.of(gaussian, 1e-3).delta == 1e-3
    assert Claim.of(HasEvent()) == Claim.curve(accounting.Laplace(1.0), 1e-6)


@pytest.mark.parametrize(
    "value", [None, 1.0, True, "claim", (1.0,), (1.0, 0.0, 0.0), {}, HasEvent, (math.nan, 0), (1, 2), (True, 0)]
)
def test_invalid_claims_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError):
        Claim.of(value)


def test_a_pure_claim_holds_its_pure_point() -> None:
    claim = Claim.curve(accounting.Laplace(0.5), 1e-3)

    assert claim.also[-1] == (2.0, 0.0)
    assert Claim.curve(accounting.Gaussian(0.5), 1e-3).also[-1][1] == pytest.approx(1e-6, rel=1e-6)


EVENTS = [
    accounting.PureDP(1.0),
    accounting.ApproximateDP(0.5, 1e-3),
    accounting.compose((accounting.Laplace(3.0), 10)),
    accounting.PoissonSampled(0.1, accounting.Gaussian(1.0)),
    accounting.DiscreteGaussian(2.0),
    accounting.compose((accounting.ZCDP(0.1), 1), (accounting.Laplace(1.0), 1)),
    accounting.RenyiCurve((2.0, 4.0, 8.0), (0.2, 0.5, 1.2)),
]


@pytest.mark.statistical
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_curve_claims_the_delta_of_the_accountant(event: accounting.PrivacyEvent) -> None:
    """Never less than the lower end of its bracket, and at most 1 % more than its upper one."""
    for epsilon, delta in Claim.curve(event, 1e-3).also:
        said = accounting.delta(event, epsilon, bracket=True)
        assert said.lower is not None
        if not isinstance(event, accounting.RenyiCurve):  # which the decision rates of a test bound more sharply
            assert delta >= said.lower * (1 - 1e-9)
        assert delta <= said.upper * 1.01


@pytest.mark.statistical
@given(st.floats(0, 700), st.floats(0, 1), st.lists(st.tuples(st.floats(0, 700), st.floats(0, 1)), max_size=5))
def test_a_claim_survives_json(epsilon: float, delta: float, also: list[tuple[float, float]]) -> None:
    claim = Claim(epsilon, delta, also=tuple(also))

    assert Claim.from_dict(json.loads(json.dumps(claim.to_dict(), allow_nan=False))) == claim


@pytest.mark.parametrize(
    "plain",
    [
        {},
        None,
        {"schema": 2, "epsilon": 1.0, "delta": 0.0, "also": []},
        {"schema": 1, "epsilon": 1.0, "delta": 0.0},
        {"schema": 1, "epsilon": 1.0, "delta": 0.0, "also": [], "more": 1},
        {"schema": 1, "epsilon": "1", "delta": 0.0, "also": []},
        {"schema": 1, "epsilon": 1.0, "delta": 0.0, "also": 3},
        {"schema": 1, "epsilon": 1.0, "delta": 0.0, "also": [[1.0]]},
        {"schema": 1, "epsilon": 1.0, "delta": 0.0, "also": [[1.0, math.nan]]},
    ],
)
def test_invalid_serialised_claims_are_refused(plain: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        Claim.from_dict(plain)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Claim.gdp(0.0), "mu"),
        (lambda: Claim.gdp(math.nan), "mu"),
        (lambda: Claim.zcdp(-1.0), "rho"),
        (lambda: Claim.zcdp(True), "rho"),
        (lambda: Claim.zcdp(1.0, math.inf), "xi"),
        (lambda: Claim.rdp([2.0, 1.5], [1.0, 1.0]), "orders[1]"),
        (lambda: Claim.rdp([2.0, 3.0], [1.0]), "epsilons"),
        (lambda: Claim.rdp([2.0], lambda order: math.nan), "epsilons"),
        (lambda: Claim.tradeoff(0.5), "function"),  # type: ignore[arg-type]  # what is tested
        (lambda: Claim.tradeoff(lambda x: 1.0), "function"),
        (lambda: Claim.tradeoff(lambda x: math.nan), "function"),
        (lambda: Claim.tradeoff(lambda x: x / 2), "function"),
        (lambda: Claim.tradeoff(lambda x: math.sqrt(1 - x) - 1 + math.sqrt(1 - x) / 2), "function"),
        (lambda: Claim.tradeoff(lambda x: 1 - x if x < 0.5 else 0.5 * (1 - x) ** 0.2 * 0), "function"),
        (lambda: Claim.profile([1.0, 1.0], [0.1, 0.1]), "epsilons"),
        (lambda: Claim.profile([0.0, 1.0], [0.1, []]), "deltas"),  # type: ignore[arg-type]
        (lambda: Claim.profile([], []), "epsilons"),
        (lambda: Claim.profile([-1.0, 1.0], [0.1, 0.1]), "epsilons"),
        (lambda: Claim.profile([1.0, 2.0], [0.1]), "deltas"),
        (lambda: Claim.profile([1.0, 2.0], [0.1, 2.0]), "deltas"),
        (lambda: Claim.profile([1.0], [0.1], reverse=lambda e: -1.0), "reverse"),
    ],
)
def test_bad_curves_are_refused_by_name(make: Callable[[], Claim], name: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make()

    assert caught.value.argument.split("[")[0] == name.split("[")[0]


def power(points: tuple[tuple[float, float], ...], p: np.ndarray, q: np.ndarray) -> float:
    """The largest excess of P over e^epsilon Q + delta, of all events and points, in standard errors of one output."""
    epsilons, deltas = np.array(points).T
    ratio = np.exp(epsilons)
    spread = np.sqrt((p * (1 - p))[:, None] + ratio**2 * (q * (1 - q))[:, None] + 1e-12)
    return float(((p[:, None] - ratio * q[:, None] - deltas) / spread).max())


@pytest.mark.parametrize("scale", [0.9, 0.5])
@pytest.mark.parametrize(
    "event", [accounting.Gaussian(0.3), accounting.Gaussian(1.0), accounting.Gaussian(30.0), EVENTS[3]]
)
@pytest.mark.every(3)
def test_a_finer_grid_would_save_less_than_two_per_cent(event: accounting.PrivacyEvent, scale: float) -> None:
    """Samples needed go with the square of the excess; the target has ``scale`` times the noise."""
    t = np.linspace(-8.0, 12.0, 2001)
    noise = event.event if isinstance(event, accounting.PoissonSampled) else event
    assert isinstance(noise, accounting.Gaussian)
    with_it, without = special.ndtr(1 / (scale * noise.noise_multiplier) - t), special.ndtr(-t)
    p, q = (0.1 * with_it + 0.9 * without, without) if noise is not event else (with_it, without)
    claim = Claim.curve(event, 1e-6)
    top = claim.also[-1][0]
    grid = np.unique(np.concatenate([np.linspace(0, top, 1000), np.geomspace(top * 1e-4, top, 500)]))
    fine = tuple(zip(grid.tolist(), _EventCurve(event).deltas(grid).tolist(), strict=True))

    assert power(fine, p, q) ** 2 <= 1.02 * power(claim.points, p, q) ** 2


def test_rates_are_read_closely_enough_to_be_worth_it() -> None:
    assert (np.diff(_RATES) > 0).all()
    assert (_RATES[0], _RATES[-1]) == (0.0, 1.0)


@pytest.mark.statistical
def test_a_violation_of_a_zcdp_claim_is_found_and_a_tight_one_is_not() -> None:
    def noisy(data: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        return np.round((data + rng.standard_normal(runs)) * 2**20) / 2**20

    fair = audits.audit(noisy, claim=Claim.zcdp(0.5), neighbours=(0, 1), samples=20_000, rng=1, confidence=1 - 1e-6)
    broken = audits.audit(noisy, claim=Claim.zcdp(0.125), neighbours=(0, 1), samples=20_000, rng=1)

    assert not fair.refuted
    assert broken.refuted
