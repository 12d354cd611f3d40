"""Tests of every event's curves against an independent computation: quadrature, brute force over mechanisms, closed
forms.

B6 is a defect of other accountants, listed in docs/accounting.md.
"""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from divergences import hockey_stick, larger_hockey_stick, renyi
from hypothesis import strategies as st
from samples import deep_examples
from scipy import integrate, stats

from hockeystick.accounting import (
    NO_EVENT,
    ZCDP,
    AboveThreshold,
    Adjacency,
    ApproximateDP,
    BoundedRange,
    Composed,
    Failure,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    LazySwitchDecision,
    NonPrivate,
    Oriented,
    Parallel,
    PureDP,
    RandomizedResponse,
    UnsupportedEventError,
    VisibleMixture,
    compose,
    delta,
    epsilon,
    parallel,
)

ORDERS = np.array([1.001, 1.1, 1.5, 2.0, 3.0, 7.5, 32.0, 200.0])


@pytest.mark.parametrize("sigma", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("eps", [0.0, 0.1, 1.0, 5.0])
def test_gaussian_profile_is_the_integral_of_the_hockey_stick(sigma, eps):
    at = sigma**2 * eps + 0.5
    exact, _ = integrate.quad(
        lambda x: stats.norm.pdf(x, 1, sigma) - math.exp(eps) * stats.norm.pdf(x, 0, sigma),
        at,
        at + 60 * sigma,
        epsabs=1e-14,
    )
    got = delta(Gaussian(sigma), eps, bracket=True)
    assert got.lower is not None
    assert got.lower <= exact + 1e-12 and exact - 1e-12 <= got.upper
    assert got.upper - got.lower <= 1e-12


@pytest.mark.parametrize("scale", [0.2, 1.0, 9.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0, 1.5])
def test_laplace_profile_is_the_closed_form(scale, share):
    eps = share / scale
    exact = max(0.0, -math.expm1((eps - 1 / scale) / 2))  # Balle, Barthe & Gaboardi 2018
    got = delta(Laplace(scale), eps).upper
    assert exact <= got * (1 + 1e-12) + 1e-300
    assert got <= exact * (1 + 1e-5) + 1e-9


@pytest.mark.parametrize("width", [0.01, 0.5, 4.0])
def test_bounded_range_dominates_every_exponential_mechanism_and_is_attained(width):
    rng = np.random.default_rng(5)
    for eps in (0.0, 0.2 * width, 0.7 * width):
        claim = delta(BoundedRange(width), eps).upper
        worst = 0.0
        for _ in range(300):
            scores = rng.normal(size=4) * rng.choice([0.1, 1, 5])
            change = rng.uniform(0, width, size=4) if rng.random() < 0.5 else width * rng.integers(0, 2, size=4)
            p, q = np.exp(scores), np.exp(scores - change)
            worst = max(worst, hockey_stick(p / p.sum(), q / q.sum(), eps))
        # two outcomes at the ends of the range, at the best odds
        t = np.linspace(1e-6, 1 - 1e-6, 20001)
        q2 = t * math.exp(-width) / (t * math.exp(-width) + 1 - t)
        worst = max(worst, float(np.max(np.maximum(t - math.exp(eps) * q2, 0))))
        assert worst <= claim * (1 + 1e-9)
        assert claim <= worst * (1 + 1e-3)


@pytest.mark.parametrize("width", [1e-4, 0.02, 0.5, 4.0])
def test_bounded_range_rdp_is_the_largest_over_two_point_pairs(width):
    t = np.linspace(0, width, 200_001)[1:-1]
    q = (np.exp(-t) - math.exp(-width)) / -math.expm1(-width)
    for order in ORDERS:
        brute = np.max(np.logaddexp(np.log(q) + order * t, np.log1p(-q) + order * (t - width))) / (order - 1)
        got = BoundedRange(width).rdp(np.array([order]))[0]
        assert brute <= got * (1 + 1e-9) + 1e-13 + 2e-15 / (order - 1)  # logarithms are rounded, then divided
        assert got <= brute * (1 + 1e-4) + 1e-12
        assert got <= order * width**2 / 8 * (1 + 1e-12) and got <= width


@pytest.mark.parametrize("event", [Gaussian(0.8), Laplace(0.4), BoundedRange(1.3), RandomizedResponse(1.0, 4)])
def test_rdp_of_the_dominating_pair_matches_or_exceeds_quadrature(event):
    low, high = event.pair().support()
    edges = np.linspace(low, high, 40_001)
    edges[0] -= 1e-9
    edges[-1] += 1e-9
    cells = event.pair().cells(edges)
    p, q = cells.p[cells.p > 0], cells.q[cells.p > 0]
    for order in (1.5, 2.0, 6.0):
        numeric = renyi(p, q, order)
        bound = event.rdp(np.array([order]))[0]
        if isinstance(event, BoundedRange):  # its Rényi curve lies below its dominating pair's
            assert bound <= numeric * (1 + 1e-6)
        else:
            assert numeric == pytest.approx(bound, rel=1e-5)


@deep_examples(
    100,
    300,
    k_max=st.floats(0.01, 0.999),
    kappa=st.floats(0.001, 2.0),
    at=st.floats(1e-3, 1),
    ratio=st.floats(-1, 1),
    eps=st.floats(0, 3),
    order=st.floats(1.01, 60),
)
def test_lazy_decision_dominates_every_pair_of_keep_probabilities(k_max, kappa, at, ratio, eps, order):
    first = k_max * at
    second = min(first * math.exp(kappa * ratio), k_max)
    p, q = np.array([first, 1 - first]), np.array([second, 1 - second])
    event = LazySwitchDecision(k_max, kappa)
    claim = delta(event, eps).upper
    exact = larger_hockey_stick(p, q, eps)
    assert exact <= claim * (1 + 1e-9) + 1e-12
    keep, less = k_max, k_max * math.exp(-kappa)
    worst = np.array([keep, 1 - keep]), np.array([less, 1 - less])
    tight = max(hockey_stick(*worst, eps), hockey_stick(*worst[::-1], eps))
    assert claim <= tight + 2e-4  # the grid
    if 0 < first < 1 and 0 < second < 1:
        rdp = renyi(p, q, order)
        assert rdp <= event.rdp(np.array([order]))[0] * (1 + 1e-9) + 1e-12
        assert abs(math.log(p[1] / q[1])) <= event.pure_epsilon() * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(
    "event, distance, scaled",
    [
        (Gaussian(3), 1.5, Gaussian(2)),
        (Laplace(3), 1.5, Laplace(2)),
        (PureDP(0.5), 3, PureDP(1.5)),
        (PureDP(0.5), 2.5, PureDP(1.5)),
        (ZCDP(0.5), 3, ZCDP(4.5)),
        (ZCDP(0.5), 2.5, ZCDP(4.5)),
        (Failure(0.01), 0.5, Failure(0.01)),
        (BoundedRange(0.5), 2.5, BoundedRange(1.25)),
        (AboveThreshold(2, 4, 3), 2, AboveThreshold(1, 2, 3)),
        (LazySwitchDecision(0.5, 0.1, 0.15), 2, LazySwitchDecision(0.5, 0.15, 0.15)),
        (VisibleMixture(0.2, Gaussian(3)), 1.5, VisibleMixture(0.2, Gaussian(2))),
        (compose((Gaussian(3), 4), Gaussian(6)), 1.5, compose((Gaussian(2), 4), Gaussian(4))),
        (parallel(Gaussian(1), Gaussian(2)), 0.5, parallel(Gaussian(2), Gaussian(4))),
    ],
)
def test_cost_at_a_distance(event, distance, scaled):
    """Additive noise by its scale, declared guarantees by group privacy."""
    assert event.at(distance) == scaled


def test_a_side_condition_refuses_groups():
    """k·δ would be below the truth: the steps between the group's members multiply a failure by e^ε."""
    with pytest.raises(UnsupportedEventError, match="ApproximateDP"):
        compose(PureDP(1.0), Failure(1e-6)).at(2)


def test_branches_refuse_groups():
    """Two records may be in two branches: two of these blocks cost 2ε, although each costs ε at any distance."""
    for event in (parallel(RandomizedResponse(1.0), RandomizedResponse(1.0)), parallel(Gaussian(1), PureDP(1.0))):
        assert event.at(1) == event
        with pytest.raises(UnsupportedEventError, match="group"):
            event.at(2)


@deep_examples(
    40, 100, r=st.floats(0.001, 0.999), e=st.floats(0.01, 2.0), order=st.floats(1.1, 30), eps=st.floats(0, 1.9)
)
def test_visible_mixture_is_the_enumerated_mixture_without_amplification(r, e, order, eps):
    more = 1 / (1 + math.exp(-e))
    p, q = np.array([1 - r, r * more, r * (1 - more)]), np.array([1 - r, r * (1 - more), r * more])
    event = VisibleMixture(r, PureDP(e))
    exact = renyi(p, q, order)
    assert event.rdp(np.array([order]))[0] == pytest.approx(exact, rel=1e-9, abs=1e-13)
    assert hockey_stick(p, q, eps) <= delta(event, eps).upper + 1e-15  # rounding of the enumeration
    # a secret coin would blend the two outcomes, with a privacy loss of at most ln(1 + r(e^e − 1))
    assert event.pure_epsilon() >= math.log1p(r * math.expm1(e))


def test_approximate_dp_scales_its_delta_with_repetition_and_group():
    """B6: a peer counts the δ of a repeated event once."""
    event = ApproximateDP(0.1, 1e-6)
    assert compose((event, 100)).failure_delta() == pytest.approx(1e-4)
    assert epsilon(compose((event, 100)), 1e-5).upper == math.inf
    k, e = 3, 0.1
    three: Any = event.at(3)
    assert three.delta == pytest.approx(1e-6 * sum(math.exp(i * e) for i in range(k)))
    assert event.at(2.5) == event.at(3)


@pytest.mark.parametrize("e, d, k", [(0.1, 1e-6, 3), (1e-9, 1e-12, 40), (3.0, 1e-9, 4), (0.7, 3e-5, 2), (0.0, 1e-7, 7)])
def test_the_delta_of_a_group_is_rounded_up(e, d, k):
    with mpmath.workdps(50):
        exact = mpmath.mpf(d) * mpmath.fsum(mpmath.exp(i * mpmath.mpf(e)) for i in range(k))
        group: Any = ApproximateDP(e, d).at(k)
        assert exact <= mpmath.mpf(group.delta) <= exact * (1 + 1e-13)


def test_composition_is_canonical():
    a, b = Gaussian(2), PureDP(0.5)
    assert compose(a, b, a) == compose((a, 2), b) == compose(b, compose(a, a)) == Composed(((a, 2), (b, 1)))
    assert compose(a) == a and compose() == NO_EVENT and compose((a, 0)) == NO_EVENT
    assert hash(compose(a, b)) == hash(compose(b, a))
    assert parallel(a, b) == parallel(b, a, a) and parallel(a) == a
    assert isinstance(parallel(a, b), Parallel) and parallel() == NO_EVENT


@pytest.mark.parametrize(
    "integer, real", [(Gaussian(1), Gaussian(1.0)), (Laplace(np.float64(2)), Laplace(2)), (ZCDP(1), ZCDP(1.0))]
)
def test_integer_and_float_parameters_are_one_value(integer, real):
    assert integer == real and hash(integer) == hash(real)


def test_counts_beyond_a_float_are_refused():
    for counts in ((10**400,), (10**200, 10**200)):
        event: Any = PureDP(0.1)
        with pytest.raises(InvalidArgumentError, match="count"):
            for count in counts:
                event = compose((event, count))


def test_above_threshold_is_lyu_su_li():
    assert AboveThreshold(2, 4, 3).pure_epsilon() == pytest.approx(1 / 2 + 2 * 3 / 4)
    assert AboveThreshold(2, 4, 3, monotone=True).pure_epsilon() == pytest.approx(1 / 2 + 3 / 4)


def test_binary_randomised_responses_have_the_exact_composition_of_guarantees():
    """Binary randomised response is the worst case of these guarantees; with more categories it is not."""
    binary, ternary = (compose((RandomizedResponse(1.0, categories=k), 4)) for k in (2, 3))
    found = epsilon(binary, 0.05, method="kov").upper
    assert found == pytest.approx(epsilon(binary, 0.05, method="pld").upper, rel=1e-6)
    assert epsilon(ternary, 0.05).upper < 0.999 * found
    assert epsilon(ternary, 0.05, method="kov").upper == math.inf  # it says nothing of them


def test_randomised_response_needs_a_replacement():
    event = RandomizedResponse(1.0, 3)
    assert event.accepts(Adjacency.REPLACE_ONE) and event.accepts(Adjacency.LOCAL)
    assert not event.accepts(Adjacency.ADD_OR_REMOVE_ONE)
    assert not compose(Gaussian(1), event).accepts(Adjacency.ADD_OR_REMOVE_ONE)
    assert event.at(0.5) == event and event.at(7) == compose((event, 7))


def test_non_private_is_never_private():
    for event in (NonPrivate(), compose(NonPrivate(), Gaussian(1)), parallel(NonPrivate(), PureDP(0.0))):
        assert epsilon(event, 1.0).upper == math.inf
        assert epsilon(event, 0.5).upper == math.inf
        assert delta(event, 100.0).upper == 1.0


def test_keep_probability_one_has_infinite_loss():
    event = LazySwitchDecision(1.0, 0.1)
    assert event.pure_epsilon() == math.inf
    assert delta(event, 50.0).upper == pytest.approx(-math.expm1(-0.1), rel=1e-6)
    assert epsilon(event, 0.05).upper == math.inf


def test_compositions_of_different_norms_cannot_be_scaled():
    mixed = compose(Gaussian(1), Laplace(1))
    assert mixed.at(1) == mixed
    with pytest.raises(Exception, match="different norms"):
        _ = mixed.norm


def test_a_group_far_beyond_floats_is_charged_in_full():
    assert ApproximateDP(1.0, 1e-9).at(1000) == ApproximateDP(1000.0, 1.0)
    assert ApproximateDP(1.0, 0.0).at(1000) == ApproximateDP(1000.0, 0.0)


def test_wrappers_keep_the_norm_and_the_replacement_flag():
    assert VisibleMixture(0.5, Laplace(1.0)).norm == Laplace(1.0).norm == "l1"
    twice: Any = LazySwitchDecision(0.5, 1.0).at(2)
    assert Oriented(LazySwitchDecision(0.5, 1.0), True).at(2) == Oriented(twice, True)
    pure, mixed = PureDP(0.5), VisibleMixture(0.25, PureDP(0.5))
    assert pure.replaced(1, 1) == PureDP(1.0) and mixed.replaced(1, 1) == VisibleMixture(0.25, PureDP(1.0))
    assert compose((pure, 3), mixed).replaced(2, 1) == compose((pure.at(3), 3), VisibleMixture(0.25, pure.at(3)))
