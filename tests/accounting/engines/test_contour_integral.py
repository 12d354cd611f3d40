"""Tests of the contour engine against closed forms, exact enumeration, quadrature, and the grid engine."""

import functools
import itertools
import math

import mpmath
import numpy as np
import pytest
from attrs import evolve, frozen
from hypothesis import strategies as st
from samples import deep_examples
from scipy import integrate, optimize, special
from spies import spied

from hockeystick.accounting import delta
from hockeystick.accounting.engines import best_bound, contour_integral, event_laws, loss_distribution, methods
from hockeystick.accounting.errors import InvalidArgumentError, NumericalError, UnsupportedEventError
from hockeystick.accounting.events.answers.drifting_law import LogLipschitz
from hockeystick.accounting.events.answers.randomized_response import LazySwitchDecision, RandomizedResponse
from hockeystick.accounting.events.answers.selection import BoundedRange
from hockeystick.accounting.events.basic.composition import VisibleMixture, compose, parallel
from hockeystick.accounting.events.basic.declared import ZCDP, ApproximateDP, NonPrivate, PureDP
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent
from hockeystick.accounting.events.basic.given_laws import DiscretePair
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian, Laplace
from hockeystick.accounting.events.sampling.poisson import PoissonSampled
from hockeystick.accounting.losses import gaussian_profile, normal_mixture_moments
from hockeystick.accounting.losses.dominating_pairs import Atoms, GaussianPair
from hockeystick.accounting.losses.loss_moments import (
    AtomsLaw,
    ExponentialLaw,
    GaussianLaw,
    Law,
    Line,
    MixtureLaw,
    SumLaw,
    discretised,
    oscillating_sum,
)
from hockeystick.accounting.losses.normal_mixture_moments import MixturesLaw, NormalMixtureLaw
from hockeystick.accounting.losses.normal_mixtures import ORIGIN, NormalMixture
from hockeystick.accounting.numerics import directed_rounding
from hockeystick.accounting.numerics.work_limit import Work

DELTAS = (1e-4, 1e-6, 1e-10, 1e-15)


LITTLE = 2.0**29  # of work: integrals that would take longer are refused


def ends(event, delta, work=contour_integral.WORK):
    low, high = (contour_integral.epsilon(event, delta, upper=upper, work=work) for upper in (False, True))
    assert low <= high
    return low, high


# ---------------------------------------------------------------- closed forms


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("sigma", "count"), [(1.0, 1), (1.0, 100), (100.0, 10_000), (1.0, 100_000), (1e4, 10)])
def test_gaussian_closed_form(sigma, count, delta):
    low, high = ends(compose((Gaussian(sigma), count)), delta)
    mu = math.sqrt(count) / sigma
    assert low <= gaussian_profile.epsilon(mu, delta) and gaussian_profile.epsilon(mu, delta, upper=False) <= high
    assert high <= low * (1 + 1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("width", [0.01, pytest.param(0.5, marks=pytest.mark.deep), 4.0])
@pytest.mark.parametrize("share", [0.0, pytest.param(0.3, marks=pytest.mark.deep), 0.9])
def test_bounded_range_closed_form(width, share):
    epsilon = share * width
    exact = math.expm1((epsilon - width) / 2) ** 2 / -math.expm1(-width)  # Dong, Durfee & Rogers 2020
    for event in (BoundedRange(width), VisibleMixture(1.0, BoundedRange(width))):  # by its masses, and on a line
        low, high = contour_integral.delta(event, epsilon)
        assert low <= exact * (1 + 1e-14) and exact * (1 - 1e-14) <= high <= low * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.49])
def test_one_laplace_closed_form(epsilon):
    exact = -math.expm1((epsilon - 0.5) / 2)
    for event in (Laplace(2.0), VisibleMixture(1.0, Laplace(2.0))):
        low, high = contour_integral.delta(event, epsilon)
        assert low <= exact * (1 + 1e-14) and exact * (1 - 1e-14) <= high <= low * (1 + 1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("removal", [True, False])
@pytest.mark.parametrize(("q", "sigma"), [(0.01, 0.8), (0.3, 2.0), pytest.param(0.001, 1.1, marks=pytest.mark.deep)])
def test_one_sampled_gaussian(removal, q, sigma):
    event = PoissonSampled(q, Gaussian(sigma)).towards("removal" if removal else "addition")
    for epsilon in (0.0001, 0.5 * q) if not removal else (0.001, 0.3, 2.0):
        low, high = contour_integral.delta(event, epsilon)
        gap = math.expm1(epsilon) if removal else math.expm1(-epsilon)
        x = sigma**2 * math.log1p(gap / q) + 0.5  # where the likelihood ratio is e^{±ε}
        with mpmath.workdps(40):
            below, below_shifted = mpmath.ncdf(x / sigma), mpmath.ncdf((x - 1) / sigma)
            above, above_shifted = mpmath.ncdf(-x / sigma), mpmath.ncdf((1 - x) / sigma)
            if removal:
                exact = (1 - q) * above + q * above_shifted - mpmath.exp(epsilon) * above
            else:
                exact = below - mpmath.exp(epsilon) * ((1 - q) * below + q * below_shifted)
        assert low <= exact * (1 + 1e-12) and exact * (1 - 1e-12) <= high <= low * (1 + 1e-6)


# ---------------------------------------------------------------- exact enumeration


def atoms(event):
    pair = event.pair()
    assert isinstance(pair, Atoms)
    return pair


def exact_profile(losses, masses, epsilon):
    """Σ p·(1 − e^{ε−l})₊ over all combinations of independent parts."""
    total = mpmath.mpf(0)
    for choice in itertools.product(*(list(zip(x, p, strict=True)) for x, p in zip(losses, masses, strict=True))):
        loss = mpmath.fsum(x for x, _ in choice)
        if loss > epsilon:
            total += mpmath.fprod(p for _, p in choice) * -mpmath.expm1(epsilon - loss)
    return total


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.4, *(pytest.param(e, marks=pytest.mark.deep) for e in (0.3, 1.7))])
def test_atoms_by_enumeration(epsilon):
    events = [
        RandomizedResponse(0.7, 4),
        PureDP(0.3),
        LazySwitchDecision(0.6, 0.5),
        RandomizedResponse(0.7, 4),
        PureDP(0.5),
    ]
    pairs = [atoms(event) for event in events]
    exact = exact_profile([p.losses for p in pairs], [p.p for p in pairs], epsilon)
    low, high = contour_integral.delta(compose(*events), epsilon)
    assert low <= exact * (1 + 1e-14) and exact * (1 - 1e-14) <= high <= low * (1 + 1e-4)


@pytest.mark.parametrize("delta", DELTAS)
def test_randomised_response_is_binomial(delta):
    epsilon, n = 0.1, 100

    def exact(x):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        terms = ((2 * k - n) * mpmath.mpf(epsilon) for k in range(n + 1))
        weights = (mpmath.binomial(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1))
        return mpmath.fsum(w * -mpmath.expm1(x - t) for w, t in zip(weights, terms, strict=True) if t > x)

    low, high = ends(compose((PureDP(epsilon), n)), delta)
    assert high <= low * (1 + 1e-8)
    with mpmath.workdps(40):
        assert exact(low * (1 - 1e-15)) >= delta >= exact(high * (1 + 1e-15))


@pytest.mark.statistical
@pytest.mark.parametrize("where", [5, 10, 40])
def test_both_ends_are_valid_at_an_atom(where):
    """ε is on a point of the lattice, where smoothing has the largest effect."""
    n, p = 60, 1 / (1 + math.exp(-0.1))
    epsilon = where * 0.1 * 2
    losses = (2 * np.arange(n + 1) - n) * 0.1
    masses = np.exp(
        special.gammaln(n + 1) - special.gammaln(np.arange(n + 1) + 1) - special.gammaln(n - np.arange(n + 1) + 1)
    )
    masses *= p ** np.arange(n + 1) * (1 - p) ** (n - np.arange(n + 1))
    exact = float(masses @ np.maximum(-np.expm1(epsilon - losses), 0.0)) if epsilon < n * 0.1 else 0.0
    low, high = contour_integral.delta(compose((PureDP(0.1), n)), epsilon)
    assert low <= exact * (1 + 1e-11) and exact * (1 - 1e-11) <= high


@pytest.mark.statistical
def test_visible_mixture_by_enumeration():
    inner = compose(PureDP(0.4), RandomizedResponse(1.0, 3))
    event = compose((VisibleMixture(0.25, inner), 2), PureDP(0.1))
    pairs = [atoms(PureDP(0.4)), atoms(RandomizedResponse(1.0, 3))]
    combined = list(itertools.product(*(list(zip(p.losses, p.p, strict=True)) for p in pairs)))
    losses = [0.0, *(a + b for (a, _), (b, _) in combined)]
    masses = [0.75, *(0.25 * p * q for (_, p), (_, q) in combined)]
    last = atoms(PureDP(0.1))
    for epsilon in (0.05, 0.65, 1.9):
        exact = exact_profile([losses, losses, last.losses], [masses, masses, last.p], epsilon)
        low, high = contour_integral.delta(event, epsilon)
        assert low <= exact * (1 + 1e-13) and exact * (1 - 1e-13) <= high <= low * (1 + 1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [1e-4, 1e-8])
def test_laplace_composition_between_two_grids(delta):
    """Laplace noise of scale 76.19, 109 times: its continuous part rounded to a grid, up and down, atoms exact."""
    reach, count, half = 1 / 76.19, 109, 1000
    step = reach / half
    edges = np.arange(-half, half + 1) * step
    middle = np.diff(0.5 * np.exp((edges - reach) / 2))
    size = 2 * half * count + 1
    losses = (np.arange(size) - half * count) * step

    def epsilon(up):
        p = np.zeros(2 * half + 1)
        p[0], p[-1] = 0.5 * math.exp(-reach), 0.5
        p[1:] += middle if up else 0.0
        p[:-1] += 0.0 if up else middle
        law = np.fft.irfft(np.fft.rfft(p, 2 * size) ** count, 2 * size)[:size]  # off by 1e-15, δ by far less than 1e-10
        return optimize.brentq(lambda x: law @ np.maximum(-np.expm1(x - losses), 0.0) - delta, 0.0, 1.4, xtol=1e-12)

    low, high = ends(compose((Laplace(76.19), count)), delta)
    assert epsilon(False) < low <= high < epsilon(True)
    assert high <= low * (1 + 1e-7)


# ---------------------------------------------------------------- sampled Gaussian noise


@pytest.mark.parametrize(
    ("q", "sigma", "count", "delta", "reference"),
    [  # a trapezoidal sum on 6001 nodes in x and a contour of its own
        (0.01, 0.8, 1000, 1e-6, 3.706185469),
        (0.01, 0.8, 1000, 1e-12, 6.992031146),
        (0.01, 0.8, 10_000, 1e-6, 11.183164195),
        (0.001, 1.1, 100_000, 1e-6, 1.584011722),
    ],
)
def test_sampled_gaussian_is_the_reference_integral(q, sigma, count, delta, reference):
    low, high = ends(compose((PoissonSampled(q, Gaussian(sigma)), count)), delta)
    assert low <= reference * (1 + 1e-8) and reference * (1 - 1e-8) <= high <= low * (1 + 1e-8)


def moment(p, q, z, k):
    """e^{−k}·∫ φ·r_P^{1+z}·r_Q^{−z} on the real axis, with enough nodes that the quadrature error is below rounding."""
    reach = 30 + (2 + z.real) * max(p.most, -q.least)
    x, step = np.linspace(-reach, reach, 40_001, retstep=True)

    def log_ratio(mixture):
        terms = [math.log(w) + c * x - c * c / 2 for c, w in zip(mixture.centres, mixture.weights, strict=True)]
        return special.logsumexp(terms, axis=0)

    y = -(x**2) / 2 + (1 + z) * log_ratio(p) - z * log_ratio(q) - k
    return complex(np.exp(y).sum() * step / math.sqrt(2 * math.pi))


KINDS = {
    "removal": (NormalMixture((0.0, 1.2), (0.9, 0.1)), ORIGIN),
    "addition": (ORIGIN, NormalMixture((-1.2, 0.0), (0.1, 0.9))),
    "group": (NormalMixture((0.0, 0.7, 1.4), (0.81, 0.18, 0.01)), ORIGIN),
    "no origin": (ORIGIN, NormalMixture((-1.5, -0.5), (0.4, 0.6))),
    "replacement": (NormalMixture((0.0, 0.8), (0.7, 0.3)), NormalMixture((-0.8, 0.0), (0.3, 0.7))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("c", [0.3, 8.0])
@pytest.mark.every(2)
def test_moments_of_normal_mixtures(kind, c):
    law = NormalMixtureLaw(*KINDS[kind])
    k, k_error = law.log_moment(c)
    step, count = 2.0, 9
    line = law.line(c, step, count)
    assert k_error < 1e-11 and line.error.max() < 1e-10
    for i in range(count):
        exact = moment(*KINDS[kind], c + 1j * i * step, k)
        assert abs(exact - line.phi[i]) <= line.error[i] + k_error + 1e-12
        if i:
            assert abs(exact) <= math.exp(law.log_envelope(c, i * step)) * (1 + 1e-9)


@pytest.mark.parametrize("c", [1, 2, 5, 12, 30, 60])
def test_rounding_of_a_mixtures_moment_is_within_its_error(c):
    """At whole c the moment is a binomial sum."""
    q, mu = 0.18, 0.7
    k, error = NormalMixtureLaw(NormalMixture((0.0, mu), (1 - q, q)), ORIGIN).log_moment(float(c))
    with mpmath.workdps(50):
        terms = (
            mpmath.binomial(c + 1, j) * mpmath.mpf(1 - q) ** (c + 1 - j) * mpmath.mpf(q) ** j
            * mpmath.exp((j * j - j) * mpmath.mpf(mu) ** 2 / 2) for j in range(c + 2)
        )  # fmt: skip
        assert abs(k - mpmath.log(mpmath.fsum(terms))) <= error < 1e-11


@pytest.mark.parametrize("c", [0.3, 4.0])
def test_the_rounding_of_an_integrand_is_relative_to_the_integrand(c):
    p, q = NormalMixture((0.0, 0.7), (0.82, 0.18)), ORIGIN
    z = np.linspace(-13.0, 13.0, 27)
    y, losses, scale = NormalMixtureLaw(p, q).log_integrand(c, z)
    parts = z**2 / 2, (1 + c) * np.abs(p.log_ratio(z)), math.log(2 * math.pi) / 2
    assert (np.maximum(parts[0], parts[1]) <= scale + parts[2]).all()
    assert y == pytest.approx(-parts[0] - parts[2] + (1 + c) * losses, rel=1e-12)


@pytest.mark.statistical
def test_moduli_are_those_of_the_integrand():
    """Bounds the decay of the moment: the integral of the modulus at each height, by quadrature."""
    law, c = NormalMixtureLaw(NormalMixture((0.0, 3.0), (0.82, 0.18)), ORIGIN), 6.0
    heights, _, _ = MixturesLaw((law,), (1,)).at_heights(c)
    k, _ = law.log_moment(c)
    imaginary = np.geomspace(0.003, 2.9, 12) / 3.0  # the widest centre
    for row, height in zip(heights[:9], imaginary, strict=False):
        exact, _ = integrate.quad(
            lambda x, h=height: float(np.exp(law.log_integrand(c, np.array([x + 1j * h]))[0].real[0] - k)),
            -15,
            45,
            limit=400,
        )
        assert row.sum() == pytest.approx(exact, rel=1e-8)


def shapes(rng, kind, many=5):
    """Laws of one kind with counts, which differ like the sampled Gaussians of a schedule."""
    laws = []
    for q, mu in zip(10 ** rng.uniform(-4, -0.3, many), 10 ** rng.uniform(-0.7, 0.5, many), strict=True):
        mixture = NormalMixture((0.0, mu), (1 - q, q))
        pair = {"removal": (mixture, ORIGIN), "addition": (ORIGIN, mixture.mirrored())}
        laws.append(NormalMixtureLaw(*pair.get(kind, (mixture, mixture.mirrored()))))
    return tuple(laws), tuple(int(n) for n in rng.integers(1, 30, many))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("c", [0.4, 7.0])
def test_laws_side_by_side_are_the_sum_of_each(kind, c):
    laws, counts = shapes(np.random.default_rng(3), kind)
    together, apart = MixturesLaw(laws, counts), SumLaw(tuple(zip(laws, counts, strict=True)))
    (k, error), (other, other_error) = together.log_moment(c), apart.log_moment(c)
    assert abs(k - other) <= error + other_error < 1e-9
    step, count = 0.7, 12
    line, others = together.line(c, step, count), apart.line(c, step, count)
    assert (np.abs(line.phi - others.phi) <= line.error + others.error + 1e-15).all()
    assert line.error.max() < 1e-9
    for t in (0.1, 1.0, 5.0):
        assert together.log_envelope(c, t) == pytest.approx(apart.log_envelope(c, t), rel=1e-9, abs=1e-12)
    assert together.top() == pytest.approx(apart.top())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("c", [0.02, 1.0, 20.0])
def test_cumulants_that_lead_a_search_are_near_those_of_the_law(kind, c):
    laws, counts = shapes(np.random.default_rng(4), kind, 3)
    for law in (MixturesLaw(laws, counts), SumLaw(((laws[0], 3), (GaussianLaw(0.3), 2)))):
        d = 1e-3 * c
        low, exact, high = (law.log_moment(x)[0] for x in (c - d, c, c + d))
        k, first, second = law.cumulants(c)
        assert k == pytest.approx(exact, rel=1e-4, abs=1e-9)
        assert first == pytest.approx((high - low) / (2 * d), rel=1e-4, abs=1e-6)
        assert second == pytest.approx((high - 2 * exact + low) / d**2, rel=1e-2, abs=1e-4)


def test_log_ratios_are_solved_up_to_the_end_of_the_table():
    mixture = NormalMixture((0.0, 0.7, 1.4), (0.81, 0.18, 0.01))
    z = np.array([-3.0, 0.0, 0.4, 5.0, 20.0, 41.3, 41.39])
    assert mixture.solve(mixture.log_ratio(z)) == pytest.approx(z, abs=1e-11)
    beyond = mixture.log_ratio(np.array([41.4, 41.5]))  # 40 above the largest centre
    assert (mixture.solve(beyond) == math.inf).all()
    assert mixture.solve(np.array([math.log(0.81) - 1e-9]))[0] == -math.inf


@pytest.mark.parametrize("count", [1, 2, 3, 4, 10, 17])
def test_oscillating_sums_of_any_number_of_places(count):
    rng = np.random.default_rng(2)
    weights, losses = rng.random(30), rng.normal(0.5, 1.0, 30)
    got, error = oscillating_sum(weights, losses, 0.3, count)
    exact = np.exp(1j * 0.3 * np.multiply.outer(np.arange(count), losses)) @ weights
    assert got.shape == error.shape == (count,)
    assert (np.abs(got - exact) <= error + 1e-14).all()


@pytest.mark.statistical
def test_moments_of_random_normal_mixtures():
    rng = np.random.default_rng(5)
    for _ in range(30):
        terms, widest = int(rng.integers(2, 6)), 10 ** rng.uniform(-3, 1)
        weights = np.maximum(rng.dirichlet(np.full(terms, 10 ** rng.uniform(-1.5, 1))), 1e-30)
        mixture = NormalMixture((0.0, *rng.uniform(0.05, 1.0, terms - 1) * widest), weights)
        p, q = [(mixture, ORIGIN), (ORIGIN, mixture.mirrored()), (mixture, mixture.mirrored())][rng.integers(3)]
        law, c = NormalMixtureLaw(p, q), min(10 ** rng.uniform(-2, 2), 30 / widest)
        k, k_error = law.log_moment(c)
        step = 10 ** rng.uniform(-1, 1) / max(widest, 0.1)
        line = law.line(c, step, 3)
        for i in range(3):
            exact = moment(p, q, c + 1j * i * step, k)
            assert abs(exact - line.phi[i]) <= line.error[i] + k_error + 1e-12 * (10 + c * widest)
            if i:
                assert abs(exact) <= math.exp(law.log_envelope(c, i * step)) * (1 + 1e-6) + 1e-9


def schedule(many):
    """A training run with decreasing noise."""
    return compose(*((PoissonSampled(0.02, Gaussian(float(s))), 5) for s in np.linspace(2.0, 1.0, many)))


@pytest.mark.statistical
def test_a_schedule_of_noise_scales_is_left_to_the_moments(monkeypatch):
    event = schedule(9)
    found = best_bound.epsilon(event, 1e-6, bracket=True)
    assert found.method == "contour" and found.lower is not None and found.upper <= found.lower * (1 + 1e-8)
    grid = best_bound.epsilon(event, 1e-6, bracket=True, method="pld")
    assert grid.lower is not None and grid.lower <= found.upper
    assert found.lower <= grid.upper <= found.upper * (1 + 1e-6)
    assert delta(event, found.upper).method == "contour"
    assert delta(event, found.upper).upper == pytest.approx(1e-6, rel=1e-7)
    monkeypatch.setattr(contour_integral, "_MANY", 10)
    assert best_bound.epsilon(event, 1.01e-6).method == "pld"


@pytest.mark.statistical
def test_the_work_for_a_schedule_is_that_for_a_few_quadratures(monkeypatch):
    """Counts the nodes of all quadratures in proofs, without those of searches, for 60 events and both directions."""
    calls = spied(monkeypatch, normal_mixture_moments, "_log_integrand")
    assert 0.0 < best_bound.epsilon(schedule(60), 1e-7).upper < 10.0
    assert len(calls) <= 40 and sum(z.size for _, _, z, _ in (call.args for call in calls)) <= 60 * 40 * 400


@pytest.mark.statistical
@pytest.mark.parametrize("target", [*(pytest.param(target, marks=pytest.mark.deep) for target in (0.5, 1.0)), 1.95])
def test_a_schedules_additions_take_a_few_orders_and_no_grid(monkeypatch, target):
    """Their largest loss is 100·ln(1/0.98) = 2.02; close to it the moments would take more than 1e9 terms."""
    event = schedule(20)
    removal, addition = event.directions()
    orders = methods.FewOrders.of(addition, 0.0)
    assert orders is not None
    few = orders.delta(target, True)
    sound = best_bound.delta(addition, target, method="rdp").upper
    assert sound * (1 - 1e-9) <= few <= sound**0.85  # a suboptimal order loses part of the logarithm
    monkeypatch.setattr(methods.LossGrid, "_delta", None)
    found = best_bound.delta(event, target)
    assert found.method == "contour" and few < found.upper == best_bound.delta(removal, target).upper
    few = orders.epsilon(found.upper, True)
    assert best_bound.epsilon(addition, found.upper, method="rdp").upper * (1 - 1e-9) <= few < target


@pytest.mark.statistical
def test_a_bracket_that_is_wide_leaves_a_schedule_to_the_other_methods(monkeypatch):
    monkeypatch.setattr(contour_integral, "sharp_epsilon", lambda *_: (_ for _ in ()).throw(NumericalError("wide")))
    assert best_bound.epsilon(schedule(8), 1.1e-6).method == "pld"


# ---------------------------------------------------------------- the parts


LAWS = {
    "gaussian": (GaussianLaw(0.3), None),
    "laplace": (ExponentialLaw(0.8, 0.25, 0.5), lambda z: laplace_moment(0.8, 0.25, 0.5, z)),
    "range": (ExponentialLaw(1e-3, -0.5 / math.expm1(-1e-3), 0.0), None),
    "atoms": (AtomsLaw.of((0.4, -0.4, 0.0), (0.5, 0.3, 0.1), 0.1), None),
    "many atoms": (AtomsLaw.of(np.linspace(-1, 2, 900), np.full(900, 1 / 900)), None),
    "mixture": (MixtureLaw(0.2, ExponentialLaw(0.8, 0.25, 0.5)), None),
    "sum": (
        SumLaw(((ExponentialLaw(0.8, 0.25, 0.5), 3), (GaussianLaw(0.3), 1), (AtomsLaw.of((1.0, -1.0), (0.7, 0.3)), 5))),
        None,
    ),
}


def laplace_moment(reach, density, atom, z):
    reach, density = mpmath.mpf(reach), mpmath.mpf(density)
    smooth = mpmath.quad(lambda x: density * mpmath.exp((x - reach) / 2 + z * x), [-reach, 0, reach])
    return atom * (mpmath.exp(z * reach) + mpmath.exp(-reach - z * reach)) + smooth


def exact_moment(law, z):
    match law:
        case GaussianLaw():
            return mpmath.exp(z * (z + 1) * mpmath.mpf(law.variance) / 2)
        case ExponentialLaw():
            return laplace_moment(law.reach, law.density, law.atom, z)
        case AtomsLaw():
            return mpmath.fsum(
                mpmath.exp(mpmath.mpf(y) + z * mpmath.mpf(x)) for x, y in zip(law.losses, law.log_p, strict=True)
            )
        case MixtureLaw():
            return (1 - mpmath.mpf(law.probability)) + mpmath.mpf(law.probability) * exact_moment(law.inner, z)
    return mpmath.fprod(exact_moment(part, z) ** count for part, count in law.parts)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("c", [0.05, 3.0])
@pytest.mark.every(3)
def test_lines_are_within_their_errors(name, c):
    law = LAWS[name][0]
    k, k_error = law.log_moment(c)
    line = law.line(c, 0.7, 500)
    assert k_error < 1e-12 and line.error.max() < 1e-10
    with mpmath.workdps(40):
        for i in (0, 1, 17, 250, 499):
            exact = complex(exact_moment(law, mpmath.mpc(c, i * 0.7)) / mpmath.exp(mpmath.mpf(k)))
            assert abs(exact - line.phi[i]) <= line.error[i] + k_error
            if i:
                assert abs(exact) <= math.exp(law.log_envelope(c, 0.7 * i)) * (1 + 1e-12)


@frozen
class OffLaw(Law):
    """All moments are 1, but are given with a small stated error."""

    off: float

    def top(self):
        return 1.0

    def log_moment(self, c):
        return 0.0, 0.0

    def line(self, c, step, count):
        return Line(np.full(count, 1.0 + self.off, dtype=complex), np.full(count, self.off))


def test_errors_of_parts_add_up():
    line = SumLaw(((OffLaw(1e-5), 1000), (MixtureLaw(0.5, OffLaw(0.02)), 3))).line(1.0, 1.0, 2)
    assert (np.abs(line.phi - 1.0) <= line.error).all()
    assert (line.error < 0.1).all()


@pytest.mark.statistical
@pytest.mark.parametrize("mu", [0.05, 1.0, 4.0])
def test_finite_laws_lie_above_and_below_their_pair(mu):
    for epsilon in np.linspace(0.0, mu * mu / 2 + 4 * mu, 5):
        exact = math.exp(gaussian_profile.log_delta(mu, epsilon))
        for upper in (True, False):
            law = discretised(GaussianPair(mu), upper=upper, tilt=max(0.0, epsilon / mu**2 - 0.5))
            found = float(np.exp(law.log_p) @ np.maximum(-np.expm1(epsilon - law.losses), 0.0)) + law.at_infinity
            assert found >= exact * (1 - 1e-12) if upper else found <= exact * (1 + 1e-12)
            assert abs(found - exact) <= 1e-4 * exact


@pytest.mark.statistical
@pytest.mark.parametrize("event", [compose((Gaussian(2.0), 3)), compose((PureDP(0.3), 12))])
def test_a_short_period_lowers_only_the_lower_end(event, monkeypatch):
    """With a much too short period the sum is too large, and the lower end corrects for it."""
    exact = contour_integral.delta(event, 1.0)
    period = contour_integral._period

    def shorter(*args):
        width, up, down = period(*args)
        return width / 5, up, down

    monkeypatch.setattr(contour_integral, "_period", shorter)
    monkeypatch.setattr(contour_integral, "_REFUSE", math.inf)
    low, high = contour_integral.delta(event, 1.0)
    assert low < exact[0] and high > exact[1] * (1 + 1e-6)


@pytest.mark.parametrize("mu", [0.05, 3.0])  # periods below and above 1
def test_the_aliased_part_is_the_sum_over_all_periods(mu):
    inverse = contour_integral._on_line(GaussianLaw(mu**2), 2.0 / mu, mu, None)
    assert inverse is not None
    period, none = 2 * math.pi / inverse.step, (1.0, -800.0)
    bare, _ = evolve(inverse, above=none, below=none).logs(mu)
    first = bare - inverse.k + inverse.c * mu - 4.0  # of the first period, tilted as the sum is
    a, lost = 0.3 / period, math.fsum(math.exp(-4.0 - 0.3 * m) for m in range(200))
    for above, below in (((a, first + a * (period + mu)), none), (none, (a, first + a * (period - mu)))):
        low, _ = evolve(inverse, above=above, below=below, top=math.inf).logs(mu)
        assert low - bare == pytest.approx(math.log1p(-lost), rel=1e-9)


def test_a_line_within_its_errors_gives_bounds_within_the_bounds():
    """This holds even for an error that hardly affects δ but affects the mass that smoothing may have added."""
    inverse = contour_integral._on_line(event_laws.law_of(compose((PureDP(0.3), 12)))[0], 2.0, 1.0, 2**10)
    assert inverse is not None and inverse.smoothing > 0.0 and inverse.plain is not None
    phi, t = inverse.plain.values.copy(), np.arange(2**10) * inverse.step
    phi[0] *= 2
    weight = 1 / ((2.0 + 1j * t) * (3.0 + 1j * t))

    def logs(phi, error):
        terms, plain = (contour_integral._Terms.of(Line(phi, error), inverse.step, w) for w in (weight, 1.0))
        return evolve(inverse, terms=terms, plain=plain).logs(1.0)

    for place in (0, 10, -1):
        error = np.zeros(len(t))
        error[place] = 1e-3
        low, high = logs(phi, error)
        for turn in (1, -1, 1j, -1j, np.exp(1j * t[place])):
            inner = logs(phi + error * turn, 0.0 * error)
            assert low <= inner[0] <= inner[1] <= high


@pytest.mark.statistical
def test_a_composition_without_a_formula_is_resolved(monkeypatch):
    """The first of its sums, of 2^13 terms, leaves a bracket of 1e-3."""
    monkeypatch.setattr(event_laws, "discretised", functools.partial(discretised, cells=64))
    inverse, exact = contour_integral._resolved(
        compose((LogLipschitz(1.0, 0.5), 2)), 2.0, 1.0, True, Work(contour_integral.WORK)
    )
    low, high = inverse.logs(1.0)
    assert not exact and low <= high <= low + 1e-5


def test_bounds_include_the_error_of_the_moment():
    inverse = contour_integral._on_line(GaussianLaw(1.0), 2.0, 1.0, None)
    assert inverse is not None
    low, high = evolve(inverse, k_error=0.0).logs(1.0)
    wider = evolve(inverse, k_error=1e-3).logs(1.0)
    assert wider == pytest.approx((low - 1e-3, high + 1e-3), abs=1e-12)
    # At a moment of e^1000 round-off of the exponent alone is 1e-13.
    far = evolve(inverse, k_error=0.0, k=1000.0).logs(1.0)
    assert far[1] - far[0] > (high - low) + 2 * 1000 * 4 * 2.0**-53


def test_a_wide_bracket_of_a_small_delta_is_refused(monkeypatch):
    event = compose((Gaussian(1.0), 2), (Laplace(1.0), 2))
    low, high = contour_integral.delta(event, 8.0)
    assert high < 1e-2 and low < high * (1 - 1e-15)
    monkeypatch.setattr(contour_integral, "_REFUSE", (1 - low / high) / 2)
    with pytest.raises(NumericalError, match="too wide a bracket"):
        contour_integral.delta(event, 8.0)


@pytest.mark.parametrize("c", [0.5, 30.0, 3000.0])
def test_a_line_of_laplace_noise_is_within_its_errors(c):
    law = ExponentialLaw(1.0, 0.25, 0.5)
    line = law.line(c, 0.7, 40)
    error = np.broadcast_to(line.error, line.phi.shape)
    with mpmath.workdps(60):

        def moment(z):
            atoms = law.atom * (mpmath.exp(z) + mpmath.exp(-z - 1))
            return atoms + law.density * (mpmath.exp(z) - mpmath.exp(-z - 1)) / (z + 0.5)

        for i in (0, 1, 2, 3):
            exact = moment(mpmath.mpc(c, 0.7 * i)) / moment(mpmath.mpf(c))
            assert abs(exact - mpmath.mpc(complex(line.phi[i]))) <= error[i]


@pytest.mark.statistical
def test_both_ends_of_a_composition_without_a_formula():
    event = compose((LogLipschitz(1.0, 0.5), 2))
    low, high = ends(event, 1e-3)
    assert low < high <= low * (1 + 1e-4)
    assert loss_distribution.epsilon(event, 1e-3, upper=False) <= high and low <= loss_distribution.epsilon(event, 1e-3)


@pytest.mark.statistical
def test_pairs_without_a_formula():
    event = compose((PoissonSampled(0.1, Laplace(2.0)), 5))
    low, high = ends(event, 1e-6)
    ways = event.directions()
    assert max(loss_distribution.epsilon(way, 1e-6, upper=False) for way in ways) <= high <= low * (1 + 1e-4)
    assert low <= max(loss_distribution.epsilon(way, 1e-6) for way in ways)


# ---------------------------------------------------------------- laws


noise = st.floats(-1.0, 4.0).map(math.exp)
leaves = st.one_of(
    noise.map(Gaussian),
    noise.map(Laplace),
    noise.map(lambda s: BoundedRange(1 / s)),
    noise.map(lambda s: PureDP(1 / s)),
    st.builds(lambda s, k: RandomizedResponse(1 / s, k), noise, st.integers(2, 5)),
    st.builds(lambda k, s: LazySwitchDecision(k, 1 / s), st.floats(0.01, 0.99), noise),
    st.builds(lambda q, s: PoissonSampled(q, Gaussian(s)), st.floats(0.001, 0.9), st.floats(0.7, 10.0)),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(st.tuples(inner, st.sampled_from([1, 2, 7, 60])), min_size=1, max_size=3).map(lambda x: compose(*x)),
        st.builds(VisibleMixture, st.sampled_from([0.01, 0.3, 1.0]), inner),
    ),
    max_leaves=4,
)


@deep_examples(10, 25, trees, st.floats(-14.0, -3.0))
def test_brackets_overlap_those_of_the_grid_engine(event, exponent):
    delta = 10.0**exponent
    try:
        low, high = ends(event, delta, LITTLE)
        grid = [
            (loss_distribution.epsilon(way, delta, upper=False), loss_distribution.epsilon(way, delta))
            for way in event.directions()
        ]
    except NumericalError:
        return
    if any(math.isinf(high) for _, high in grid):  # round-off of the grid's transforms exceeds this δ
        return
    assert max(low for low, _ in grid) <= high * (1 + 1e-13)
    assert low <= max(high for _, high in grid) * (1 + 1e-13)


@deep_examples(10, 25, leaves, st.integers(1, 30), st.floats(0.01, 0.9))
def test_delta_and_epsilon_are_inverse(event, count, share):
    event = compose((event, count))
    try:
        low, high = contour_integral.delta(event, share * min(event.pure_epsilon(), 5.0), work=LITTLE)
        epsilon = ends(event, low, LITTLE)
    except NumericalError:
        return
    assert low <= high
    assert epsilon[1] >= share * min(event.pure_epsilon(), 5.0) * (1 - 1e-12)


def test_a_million_copies_are_bounded_like_a_list():
    one = ends(compose((Laplace(1e3), 10**6)), 1e-6)
    assert one[1] < one[0] * (1 + 1e-7)
    assert contour_integral.epsilon(compose((Laplace(1e3), 999_999)), 1e-6) < one[0]


@frozen
class Tied(PrivacyEvent):
    """An event that costs more in its second direction."""

    def directions(self):
        return Laplace(10.0), Laplace(5.0)


@pytest.mark.statistical
def test_branches_and_directions_are_both_maximised():
    a, b = compose((Laplace(10.0), 20)), compose((Gaussian(5.0), 3))
    both = contour_integral.epsilon(parallel(a, b), 1e-6)
    assert both == max(contour_integral.epsilon(a, 1e-6), contour_integral.epsilon(b, 1e-6))
    assert contour_integral.epsilon(Tied(), 1e-6) == contour_integral.epsilon(Laplace(5.0), 1e-6)
    assert contour_integral.delta(Tied(), 0.01) == contour_integral.delta(Laplace(5.0), 0.01)
    with pytest.raises(UnsupportedEventError):
        contour_integral.epsilon(compose((parallel(Laplace(1.0), Gaussian(1.0)), 2)), 1e-6)
    with pytest.raises(UnsupportedEventError):
        contour_integral.delta(ZCDP(1.0), 1.0)


def test_a_sum_of_masses_is_no_more_than_one():
    assert contour_integral._total(0.7, 0.5) == contour_integral._total(1.0, 0.0) == 1.0
    assert 0.75 < contour_integral._total(0.5, 0.25) < 0.75 * (1 + 1e-13)
    assert 0.75 * (1 - 1e-13) < contour_integral._bare(0.5, 0.25) < 0.75


def test_trivial_events_and_extreme_deltas_have_exact_bounds():
    assert contour_integral.epsilon(NO_EVENT, 0.0) == 0.0 and contour_integral.delta(NO_EVENT, 0.0) == (0.0, 0.0)
    assert contour_integral.epsilon(NonPrivate(), 0.5) == math.inf and contour_integral.delta(NonPrivate(), 3.0) == (
        1.0,
        1.0,
    )
    assert (
        contour_integral.epsilon(Gaussian(1.0), 1.0) == 0.0 and contour_integral.epsilon(Gaussian(1.0), 0.0) == math.inf
    )
    assert contour_integral.epsilon(Laplace(2.0), 0.0) == pytest.approx(0.5, rel=1e-15)
    low, high = ends(Laplace(1.0), 1e-15)  # 1 + 2·ln(1 − δ) is 2e-15 below the largest loss
    assert low <= 1.0 - 2e-15 <= high
    assert contour_integral.delta(compose((PureDP(0.1), 10)), 1.0)[0] == 0.0
    assert contour_integral.epsilon(ApproximateDP(0.5, 0.1), 1e-9) <= 0.5 * (
        1 + 1e-15
    )  # the failure is the caller's to add
    one_sided = LazySwitchDecision(1.0, 0.2)  # a redraw never happens in one world
    infinite = one_sided.pair().infinity()
    assert contour_integral.epsilon(one_sided, infinite / 2) == math.inf
    assert contour_integral.delta(one_sided, 50.0)[1] >= infinite >= contour_integral.delta(one_sided, 50.0)[0]


@pytest.mark.statistical
@pytest.mark.parametrize("target", [pytest.param(1e-10, marks=pytest.mark.deep), 1e-18])
@pytest.mark.parametrize("event", [compose((RandomizedResponse(1.0), 10)), compose((Laplace(0.5), 5))])
def test_next_to_the_largest_loss_the_ends_are_close(event, target):
    assert 10 * (1 - 1e-8) <= contour_integral.epsilon(event, target, upper=False) <= 10 * (1 - 1e-15)
    assert 10 <= contour_integral.epsilon(event, target) <= 10 * (1 + 1e-15)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, True, "1"])
def test_bad_arguments_are_refused(bad):
    with pytest.raises(InvalidArgumentError):
        contour_integral.delta(Gaussian(1.0), bad)
    with pytest.raises(InvalidArgumentError):
        contour_integral.epsilon(Gaussian(1.0), bad)
    with pytest.raises(InvalidArgumentError):
        contour_integral.epsilon(bad, 0.5)


@pytest.mark.statistical
def test_integrals_that_cannot_be_resolved_are_refused():
    with pytest.raises(NumericalError):
        contour_integral.delta(compose((Gaussian(1e-7), 10**9)), 10.0)


@pytest.mark.statistical
def test_branches_that_cannot_be_the_worst_need_not_be_resolved():
    small = compose((PureDP(1e-12), 10**12))  # its losses lie within 1 of 0
    with pytest.raises(NumericalError):
        contour_integral.epsilon(small, 1e-15)
    assert contour_integral.epsilon(parallel(PureDP(5.0), small), 1e-15) == contour_integral.epsilon(PureDP(5.0), 1e-15)
    with pytest.raises(NumericalError):
        contour_integral.epsilon(parallel(PureDP(0.5), small), 1e-15)


@pytest.mark.parametrize("c", [0.5, 3.0])
def test_laws_that_hold_nothing_but_certain_losses(c):
    naked = AtomsLaw.of([0.0], [0.0], 1.0)
    assert naked.log_moment(c)[0] == -math.inf
    assert SumLaw(((naked, 2), (GaussianLaw(1.0), 1))).infinity() == 1.0
    none = np.zeros(0)
    summed, error = oscillating_sum(none, none, 0.1, 5)
    assert (summed == 0.0).all() and (error == 0.0).all()


def test_delta_is_at_most_1():
    """The mass at infinity is rounded up, both near 0 and near 1."""
    event = compose(DiscretePair((0.5, 0.5, 0.0), (0.0, 0.5, 0.5)), (RandomizedResponse(0.3), 3))
    assert contour_integral.delta(event, 0.0)[1] <= 1.0
    for count in (50, 100):  # 1 − 2^(−50) is below 1, rounded up it is not
        assert contour_integral.delta(compose((event, count)), 100.0)[1] == 1.0


@pytest.mark.parametrize(("sigma", "count"), [(1e-3, 1), (0.1, 100)])
def test_a_likely_delta_of_a_large_loss_is_resolved(sigma, count):
    """Near the mean the saddle point is close to 0, and the line must be neither too short nor too fine."""
    low, high = ends(compose((Gaussian(sigma), count)), 0.3)
    mu = math.sqrt(count) / sigma
    assert low <= gaussian_profile.epsilon(mu, 0.3) and gaussian_profile.epsilon(mu, 0.3, upper=False) <= high
    assert high <= low * (1 + 1e-12)


@pytest.mark.parametrize("count", [3, 10])
def test_a_lower_end_next_to_the_largest_loss_is_near_the_closed_form(count, monkeypatch):
    """Above the second largest loss δ(x) = P(top)·(1 − e^(x − top)), and the first guess may lie too high."""
    monkeypatch.setattr(contour_integral, "_MOST", 2**15)  # more nodes bring nothing here
    delta, p = 1e-9, 1 / (1 + mpmath.exp(-1))
    exact = count + mpmath.log1p(-delta / p**count)
    low, high = ends(compose((PureDP(1.0), count)), delta)
    assert exact * (1 - 1e-8) <= low <= exact <= high <= exact * (1 + 1e-8)


@pytest.mark.parametrize("upper", [True, False])
def test_masses_of_finite_laws_are_rounded_to_their_side(upper):
    pair = Atoms((0.5, -0.3), (0.5, 0.25), 0.125)
    law = discretised(pair, upper=upper, tilt=1.0)
    with mpmath.workdps(40):
        total = mpmath.fsum(mpmath.exp(mpmath.mpf(y)) for y in law.log_p.tolist()) + law.at_infinity
        # Cells may be off by 2^-43 for each unit of loss, and twice that is taken.
        assert 0.875 <= total <= 0.875 * (1 + 1e-12) if upper else 0.875 * (1 - 1e-12) <= total <= 0.875


def test_the_mass_at_infinity_of_a_sum_is_that_any_part_is_infinite():
    finite, infinite = AtomsLaw.of((1.0, -1.0), (0.7, 0.3)), AtomsLaw.of((0.5,), (0.9,), 0.1)
    assert finite.infinity() == 0.0
    assert SumLaw(((finite, 3), (infinite, 2))).infinity() == pytest.approx(1 - 0.9**2, rel=1e-14)


@pytest.mark.parametrize("delta", [pytest.param(0.3, marks=pytest.mark.statistical), 0.2])
def test_a_root_next_to_an_atom_is_resolved_there(delta):
    """The first guess lies between two losses, where fewer nodes suffice."""
    low, high = ends(compose((PureDP(0.3), 1000)), delta)
    assert low <= loss_distribution.epsilon(compose((PureDP(0.3), 1000)), delta) and high <= low * (1 + 1e-9)


@pytest.mark.statistical
def test_a_refusal_in_one_order_of_the_data_sets_is_not_ignored(monkeypatch):
    """The refusal is raised unless all losses of that order are below the bound of the other one."""
    one_way = contour_integral._epsilon

    def refusing(event, *others):
        if event.direction == "removal":
            raise NumericalError("not to be had")
        return one_way(event, *others)

    monkeypatch.setattr(contour_integral, "_epsilon", refusing)
    with pytest.raises(NumericalError, match="not to be had"):
        contour_integral.epsilon(PoissonSampled(0.1, Gaussian(1.01)), 1e-6)


@pytest.mark.statistical
def test_two_sampled_laplace_releases_lie_between_the_ends():
    """By quadrature over two laws on grids, one above and one below: δ of the second at the rest of ε that the first
    leaves."""
    q, eps = 0.1, 0.1

    def once(x):
        y = math.log((math.exp(x) - 1 + q) / q) if math.exp(x) > 1 - q else -1.0
        if y >= 1.0:
            return 0.0
        if y <= -1.0:
            return 1 - math.exp(x)
        return q * (-math.expm1((y - 1) / 2) if y >= 0 else -math.expm1(y) - math.exp(y) * math.expm1((-y - 1) / 2))

    def left(y):  # times the sampled density where the first loss, before sampling, is y
        return once(eps - math.log(1 - q + q * math.exp(y)))

    ends_of_it = (q * 0.5 + (1 - q) * 0.5 * math.exp(-1)) * left(1.0) + (q * 0.5 * math.exp(-1) + (1 - q) * 0.5) * left(
        -1.0
    )
    between, _ = integrate.quad(
        lambda x: 0.5 * (q * math.exp(-x) + (1 - q) * math.exp(x - 1)) * left(1 - 2 * x),
        0.0, 1.0, points=[k / 8 for k in range(1, 8)], epsabs=1e-13, epsrel=1e-13, limit=500,
    )  # fmt: skip
    low, high = contour_integral.delta(compose((PoissonSampled(q, Laplace(1.0), "removal"), 2)), eps)
    assert low <= ends_of_it + between <= high <= low * (1 + 1e-4)


def test_subnormal_masses_are_not_relied_on():
    """Q's mass above ε is a few units of the smallest float there, and e^ε times it no small part of δ."""
    event, eps = Laplace(1 / 740), 739.9
    exact = -math.expm1((eps - 740) / 2)  # δ of Laplace noise
    with pytest.raises(NumericalError):
        contour_integral.delta(event, eps)
    found = delta(event, eps, bracket=True)
    assert found.lower is not None and found.lower <= exact <= found.upper
    low, high = contour_integral.delta(event, 600.0)
    assert low <= -math.expm1((600.0 - 740) / 2) <= high


def test_masses_below_the_floats_give_a_zero_lower_and_a_positive_upper_bound():
    pair = GaussianPair(1.0)
    low, high = contour_integral._Direct(pair, GaussianLaw(1.0), 60.0).logs(60.0)
    assert low == -math.inf
    with mpmath.workdps(30):
        exact = mpmath.ncdf(-59.5) - mpmath.exp(60) * mpmath.ncdf(-60.5)
        assert 0 < exact <= directed_rounding.exp(high)


def test_a_moment_of_too_many_nodes_is_refused(monkeypatch):
    law = NormalMixtureLaw(NormalMixture((0.0, 1.0), (0.9, 0.1)), ORIGIN)
    nodes = 2 * law.terms(1.0)[1]
    monkeypatch.setattr(normal_mixture_moments, "_MOST", nodes)
    assert math.isfinite(law.log_moment(1.0)[0])
    normal_mixture_moments._planned.cache_clear()
    monkeypatch.setattr(normal_mixture_moments, "_MOST", nodes - 1)
    with pytest.raises(NumericalError, match=f"needs {nodes // 2} nodes"):
        law.log_moment(1.0)
