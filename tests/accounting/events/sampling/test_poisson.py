"""Tests of Poisson sampling: profiles and Rényi curves against high-precision integrals, enumeration, peers and their
tables.

B1, B14 and B16 are defects of other accountants and traps of the theory, listed in docs/accounting.md.
"""

import csv
import itertools
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import dp_accounting
import mpmath
import numpy as np
import pytest
from divergences import hockey_stick, renyi
from dp_accounting import NeighboringRelation as Relation
from hypothesis import given
from hypothesis import strategies as st
from samples import deep_examples, diagonal
from scipy import special, stats

from hockeystick.accounting import (
    NO_EVENT,
    ZCDP,
    Accountant,
    Adjacency,
    ApproximateDP,
    BoundedRange,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    NonPrivate,
    PureDP,
    RandomizedResponse,
    UnsupportedEventError,
    compose,
    delta,
    epsilon,
    from_dp_event,
    parallel,
    to_dp_event,
)
from hockeystick.accounting.engines.renyi import _GRID
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.noise.gaussian_mixture import MixtureOfGaussians
from hockeystick.accounting.events.sampling.poisson import PoissonSampled, binomial
from hockeystick.accounting.events.sampling.shared import gaussian_shift

DATA = Path(__file__).parents[3] / "data" / "sampled_gaussian_rdp.csv"
P, G, L = dp_accounting.PoissonSampledDpEvent, dp_accounting.GaussianDpEvent, dp_accounting.LaplaceDpEvent
Self = dp_accounting.SelfComposedDpEvent


def exact_delta(shifts, weights, eps, direction):
    """δ of Σ w·N(c, 1) against N(0, 1), or the reverse: the half-line where the likelihood ratio exceeds e^ε."""
    with mpmath.workdps(30):

        def log_ratio(x):
            return mpmath.log(
                sum(w * mpmath.e ** (c * x - mpmath.mpf(c) ** 2 / 2) for c, w in zip(shifts, weights, strict=True))
            )

        target = eps if direction == "removal" else -eps
        if target <= math.log(sum(w for c, w in zip(shifts, weights, strict=True) if c == 0)):
            return 0.0 if direction == "addition" else -math.expm1(eps)
        low, high = mpmath.mpf(-60), mpmath.mpf(60)
        for _ in range(110):
            middle = (low + high) / 2
            low, high = (low, middle) if log_ratio(middle) > target else (middle, high)
        mixture = sum(w * mpmath.ncdf(c - low) for c, w in zip(shifts, weights, strict=True))
        if direction == "removal":
            return float(mixture - mpmath.e**eps * mpmath.ncdf(-low))
        below = sum(w * mpmath.ncdf(low - c) for c, w in zip(shifts, weights, strict=True))
        return float(mpmath.ncdf(low) - mpmath.e**eps * below)


def exact_rdp(q, sigma, order, digits=30):
    """By the trapezoidal rule, to 10^−digits: the integrand is analytic up to πσ² off the real line.

    So the error falls like e^{−2π·πσ²/h} in the step h, or faster (Trefethen & Weideman 2014, Thm 5.1).
    """
    with mpmath.workdps(digits + 8):
        q, s, a = mpmath.mpf(q), mpmath.mpf(sigma), mpmath.mpf(order)
        step = min(s / 3, 2 * (mpmath.pi * s) ** 2 / ((digits + 8) * mpmath.log(10)))
        at = (step * i for i in range(int(-14 * s / step), int((a + 14 * s) / step)))
        density = mpmath.fsum(
            mpmath.npdf(x, 0, s) * (1 - q + q * mpmath.exp((2 * x - 1) / (2 * s * s))) ** a for x in at
        )
        return mpmath.log(density * step) / (a - 1)


def fine_law(event, upper):
    """The law of one access, on a grid of 2^18 cells."""
    low, high = event.loss_support()
    return discretise(event, (high - low) / 2**18, upper)


def law_delta(law, eps):
    with np.errstate(over="ignore"):
        return law.infinity + float(law.p @ -np.expm1(np.minimum(eps - law.losses(), 0.0)))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("q", "sigma", "direction"),
    diagonal([(0.01, 0.8), (0.3, 2.0), (1e-6, 0.5), (0.999, 1.0), (0.5, 0.1), (0.02, 30.0)], ["removal", "addition"]),
)
def test_profile_is_the_integral_of_the_hockey_stick(q, sigma, direction):
    event = PoissonSampled(q, Gaussian(sigma), direction)
    below, above = fine_law(event, False), fine_law(event, True)
    for eps in (0.0, 0.003, 0.3, 2.0):
        exact = exact_delta((0.0, 1 / sigma), (mpmath.fsub(1, q, exact=True), q), eps, direction)
        assert law_delta(below, eps) * (1 - 1e-9) <= exact <= law_delta(above, eps) * (1 + 1e-13)
        if eps < event.loss_support()[1]:
            # a cell is narrow or wide where the loss hardly moves
            wide = 1e-3 if q > 1e-3 else 10.0
            assert law_delta(above, eps) <= exact * (1 + wide) + 1e-40
        assert delta(event, eps).upper >= exact * (1 - 1e-13)


@pytest.mark.parametrize("direction", ["removal", "addition"])
@pytest.mark.parametrize("q, mu", [(0.01, 1.25), (0.7, 0.3), (1e-7, 3.0)])
def test_cells_hold_exact_masses_far_into_the_tails(q, mu, direction):
    pair = PoissonSampled(q, Gaussian(1 / mu), direction).pair()
    assert pair is not None
    low, high = pair.support()
    for count in (40, 4001):
        edges = np.linspace(low, high, count)
        cells = pair.cells(edges)
        sign = 1 if direction == "removal" else -1
        with mpmath.workdps(90):
            for i in {0, 1, count // 3, count // 2, count - 5, count - 2}:
                ends = []
                for edge in edges[i : i + 2]:
                    inside = (mpmath.e ** (sign * mpmath.mpf(edge)) - 1 + mpmath.mpf(q)) / q
                    ends.append(mpmath.log(inside) / mu + mpmath.mpf(mu) / 2 if inside > 0 else mpmath.mpf(-60))
                a, b = sorted(ends)
                normal, shifted = (mpmath.ncdf(b - c) - mpmath.ncdf(a - c) for c in (0, mpmath.mpf(mu)))
                mixed = (1 - mpmath.mpf(q)) * normal + q * shifted
                p, q_mass = (mixed, normal) if direction == "removal" else (normal, mixed)
                # An edge is a float: an ulp of it moves the narrowest cells.
                slack = 1e-12 + 40 * 2.0**-52 * max(abs(low), abs(high)) / (edges[1] - edges[0])
                assert abs(cells.p[i] - p) <= slack * p and abs(cells.q[i] - q_mass) <= slack * q_mass
        inside = (cells.p > 1e-290) & (cells.q > 1e-290)
        loss = np.log(cells.p[inside]) - np.log(cells.q[inside])
        assert (loss <= edges[1:][inside] + 1e-14 * (1 + high)).all()
        assert (loss >= edges[:-1][inside] - 1e-14 * (1 + high)).all()


@pytest.mark.statistical
def test_rdp_agrees_with_rows_of_tensorflow_privacy():
    """240 rows; the peer's value is exact up to rounding, which is larger than 1e-9 where the divergence is tiny."""
    below = []
    with DATA.open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert len(rows) == 240
    for row in rows:
        order, q, sigma, theirs = (float(row[key]) for key in ("order", "q", "sigma", "rdp"))
        ours = float(PoissonSampled(q, Gaussian(sigma)).rdp(np.array([order]))[0])
        if ours > theirs * (1 + 1e-9):
            below.append((order, q, sigma))
            assert theirs < exact_rdp(q, sigma, order), "theirs is below the truth"
            assert ours <= float(exact_rdp(q, sigma, order)) * (1 + 1e-11)
        else:
            assert ours >= theirs * (1 - 1e-7)
    assert len(below) <= 6


RENYI = [
    (0.01, 1.0, 1.0001), (0.01, 10.0, 1.25), (1e-6, 0.1, 1.5), (1e-6, 100.0, 1.01), (1e-6, 100.0, 300.5),
    (0.999999, 1.0, 1.0001), (0.999, 0.3, 7.3), (0.2, 0.1, 2.25), (0.01, 2.0, 40.5), (0.5, 0.25, 1.1),
]  # fmt: skip


@pytest.mark.parametrize("q, sigma, order", RENYI)
@pytest.mark.every(3)
def test_rdp_is_the_integral(q, sigma, order):
    exact = exact_rdp(q, sigma, order, digits=36)
    got = float(PoissonSampled(q, Gaussian(sigma)).rdp(np.array([order]))[0])
    assert exact <= got <= exact * (1 + 1e-8)


@pytest.mark.parametrize("q, sigma", [(0.01, 0.8), (0.3, 0.2), (1e-4, 5.0), (0.9, 3.0), (0.01, 0.01), (0.5, 1e6)])
def test_rdp_of_integer_orders_is_the_binomial_sum(q, sigma):
    """Mironov, Talwar & Zhang 2019, Eq. (4), at all orders in one call with huge ones."""
    orders = np.array([2.0, 3.0, 17.0, 64.0, 1e3, 1e6, 1e12])
    got = PoissonSampled(q, Gaussian(sigma)).rdp(orders)
    for order, value in zip(orders[:5].astype(int), got, strict=False):
        i = np.arange(order + 1)
        log_binomial = special.gammaln(order + 1) - special.gammaln(i + 1) - special.gammaln(order - i + 1)
        with np.errstate(divide="ignore"):
            terms = log_binomial + i * math.log(q) + (order - i) * math.log1p(-q)
            terms = terms + np.log(np.expm1(np.minimum(i * (i - 1) / (2 * sigma**2), 600.0)))
        if (i[-1] * (i[-1] - 1) / (2 * sigma**2)) < 600.0:
            exact = np.logaddexp(0.0, special.logsumexp(terms)) / (order - 1)
            assert exact * (1 - 1e-10) <= value <= exact * (1 + 1e-9)
    assert (got <= orders / (2 * sigma**2) * (1 + 1e-15)).all() and (np.diff(got) >= 0).all() and np.isfinite(got).all()
    # the whole mass of the sampled world alone, from below
    assert (got >= orders / (orders - 1) * math.log(q) + orders / (2 * sigma**2) - 1e-9 * orders / sigma**2).all()


def test_rdp_of_addition_is_no_larger():
    """Mironov, Talwar & Zhang 2019, Thm 5, which "both" relies on, by integrals; and the bound for one direction."""
    x = np.linspace(-60, 60, 6_001)  # so smooth that the sum is exact to rounding
    for q, sigma in itertools.product([1e-3, 0.1, 0.5, 0.95], [0.4, 1.0, 4.0]):
        mixed = np.logaddexp(math.log1p(-q) - x**2 / 2, math.log(q) - (x - 1 / sigma) ** 2 / 2)
        for order in (1.05, 1.5, 2.0, 6.0, 20.0):
            integrals = [
                special.logsumexp(order * a + (1 - order) * b) + math.log((x[1] - x[0]) / math.sqrt(2 * math.pi))
                for a, b in ((mixed, -(x**2) / 2), (-(x**2) / 2, mixed))
            ]
            removal, addition = (value / (order - 1) for value in integrals)
            assert addition <= removal + 1e-10 / (order - 1)
            event = PoissonSampled(q, Gaussian(sigma))
            at = np.array([order])
            assert event.rdp(at)[0] == event.towards("removal").rdp(at)[0]
            assert event.rdp(at)[0] == pytest.approx(removal, rel=1e-6, abs=1e-9)
            assert event.towards("addition").rdp(at)[0] == pytest.approx(addition, rel=1e-6, abs=1e-9)


@deep_examples(
    40,
    100,
    q=st.floats(0.001, 0.999),
    tables=st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=8, max_size=8),
    eps=st.floats(0.05, 3.0),
    at=st.floats(0, 2),
    order=st.floats(1.05, 40),
)
def test_dominates_every_mechanism_on_three_records(q, tables, eps, at, order):
    """A mechanism is a table of laws, one for each subset, any two within ε; record 2 is present or not."""
    laws = {}
    for subset, row in zip(itertools.product([0, 1], repeat=3), tables, strict=True):
        weights = np.exp(np.array(row) * eps / 4)  # and their sums: a ratio of e^{ε/2} each
        laws[subset] = weights / weights.sum()

    def sampled(present):
        total = np.zeros(4)
        for subset in itertools.product([0, 1], repeat=present):
            chance = math.prod(q if joined else 1 - q for joined in subset)
            total += chance * laws[subset + (0,) * (3 - present)]
        return total

    with_record, without = sampled(3), sampled(2)
    event = PoissonSampled(q, PureDP(eps))
    for direction, p, r in (("removal", with_record, without), ("addition", without, with_record)):
        claim = event.towards(direction)
        assert hockey_stick(p, r, at) <= delta(claim, at).upper * (1 + 1e-9) + 1e-15
        assert np.log(p / r).max() <= claim.pure_epsilon() * (1 + 1e-12) + 1e-15
        assert renyi(p, r, order) <= claim.rdp(np.array([order]))[0] * (1 + 1e-9) + 1e-13
        assert renyi(p, r, order) <= event.zcdp_rho() * order + 1e-13
    # a group: both other records go as well
    empty = sampled(1)
    group = event.at(2)
    assert hockey_stick(with_record, empty, at) <= delta(group, at).upper * (1 + 1e-9) + 1e-15
    assert hockey_stick(empty, with_record, at) <= delta(group, at).upper * (1 + 1e-9) + 1e-15
    assert renyi(with_record, empty, order) <= group.rdp(np.array([order]))[0] * (1 + 1e-9) + 1e-13


@given(noise=st.lists(st.tuples(st.floats(0.01, 100.0), st.integers(1, 10**6)), min_size=1, max_size=5))
def test_the_shift_of_several_gaussians_is_rounded_up(noise):
    event = compose(*((Gaussian(sigma), count) for sigma, count in noise))
    exact = sum(count / Fraction(sigma) ** 2 for sigma, count in noise)
    mu = Fraction(gaussian_shift(event))
    if len(noise) > 1 or noise[0][1] > 1:
        assert exact <= mu**2
    assert mu**2 <= exact * (1 + Fraction(1, 10**14))


@pytest.mark.parametrize("rate", [1e-14, 1e-9, 1e-6, 0.5, 1.0 - 1e-6, 1.0 - 1e-12])
@pytest.mark.parametrize("loss", [0.9, 1.3, 5.0, 40.0])
@pytest.mark.parametrize("direction", ["removal", "addition"])
@pytest.mark.parametrize("method", ["pld", "contour"])
@pytest.mark.every(7)
def test_profiles_at_extreme_rates_keep_their_digits(rate, loss, direction, method):
    """Of two outcomes; at half of the largest loss, where an error of that loss counts twice."""
    event = PoissonSampled(rate, PureDP(loss), direction)
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(loss)))
        with_record = [mpmath.mpf(rate) * a + (1 - mpmath.mpf(rate)) * (1 - a) for a in (p, 1 - p)]
        first, second = (with_record, [1 - p, p])[:: 1 if direction == "removal" else -1]
        at = float(max(mpmath.log(a / b) for a, b in zip(first, second, strict=True)) / 2)
        assert event.pure_epsilon() >= max(mpmath.log(a / b) for a, b in zip(first, second, strict=True))
        exact = sum(max(0, a - mpmath.exp(at) * b) for a, b in zip(first, second, strict=True))
        found = delta(event, at, method=method, bracket=True)
        assert found.lower <= exact <= found.upper
        assert method != "pld" or found.upper <= (2.1 if loss == 40.0 else 1.01) * exact + 1e-16


@pytest.mark.parametrize("rate", [1e-14, 1e-9, 1e-4])
@pytest.mark.parametrize("loss", [0.9, 1.0, 1.1, 3.0, 20.0])
def test_divergences_at_small_rates_keep_their_digits(rate, loss):
    """At an infinite order removal is worth ln(1 + q·(e^loss - 1)), to which a pure event comes as close as 1e-9."""
    event = PoissonSampled(rate, PureDP(loss), "removal")
    with mpmath.workdps(60):
        p = mpmath.exp(loss) / (1 + mpmath.exp(loss))
        order, q = mpmath.mpf(2) ** 40, mpmath.mpf(rate)
        ratios = [(1 - p, 1 + q * mpmath.expm1(loss)), (p, 1 + q * mpmath.expm1(-loss))]
        exact = mpmath.log(sum(weight * ratio**order for weight, ratio in ratios)) / (order - 1)
    assert event.rdp(np.array([2.0**40]))[0] >= exact * (1 - mpmath.mpf("1e-16"))


@pytest.mark.parametrize("eps, q, n", [(1.0, 0.3, 6), (3.0, 0.05, 20), (0.2, 0.9, 50)])
def test_compositions_of_randomised_response_by_enumeration(eps, q, n):
    """PureDP's pair is attained by binary randomised response: its n-fold sampled composition is a binomial law."""
    more = 1 / (1 + math.exp(-eps))
    p, r = np.array([more, 1 - more]), np.array([1 - more, more])
    mixed = (1 - q) * r + q * p
    event = compose((PoissonSampled(q, PureDP(eps)), n))
    k = np.arange(n + 1)
    for at in (0.0, 0.3, 1.5):
        exact = []
        for a, b in ((mixed, r), (r, mixed)):
            laws = [np.exp(stats.binom.logpmf(k, n, side[0])) for side in (a, b)]
            exact.append(hockey_stick(laws[0], laws[1], at))
        got = delta(event, at).upper
        assert max(exact) * (1 - 1e-9) <= got <= max(exact) * (1 + 2e-3) + 1e-12


def test_b1_integers_are_floats():
    """B1: dp-accounting's RDP accountant drops an inner composition of integer noise: 2.583 instead of 16.751."""
    values = {
        Accountant().compose(P(0.1, Self(G(one), 10))).get_epsilon(1e-6)
        for one in (1, 1.0, np.int64(1), np.float32(1), Decimal(1), Fraction(1))
    }
    assert len(values) == 1 and values.pop() == pytest.approx(15.554, abs=1e-3)
    looks = PoissonSampled(0.1, compose((Gaussian(1), 10)))
    assert looks == from_dp_event(P(0.1, Self(G(1), 10)))
    native = dp_accounting.rdp.RdpAccountant().compose(P(0.1, Self(G(1.0), 10))).get_epsilon(1e-6)
    assert 16.7 < epsilon(looks, 1e-6, method="rdp").upper <= native == pytest.approx(16.751, abs=1e-3)


@pytest.mark.parametrize("direction", ["removal", "addition"])
@pytest.mark.parametrize("eps", [0.05, 0.5, 2.0])
def test_a_sampled_mixture_is_the_mixture_of_both_draws(direction, eps):
    """It costs as much as the mixture of both draws, and is evaluated on the whole line at once without a warning."""
    q, shifts, weights = 0.1, (0.0, 1.0, 2.0), (0.5, 0.3, 0.2)
    event = PoissonSampled(q, MixtureOfGaussians(shifts, weights, 1.0, direction), direction)
    both = (1 - q + q * weights[0], q * weights[1], q * weights[2])
    exact = exact_delta(shifts, both, eps, direction)
    assert exact <= delta(event, eps).upper <= exact * (1 + 1e-4) + 1e-9
    pair = cast(Any, event.pair()).pair
    law = pair.p if direction == "removal" else pair.q
    ends = np.array([-math.inf, 0.5]), np.array([0.5, math.inf])
    assert law.masses(*ends) == pytest.approx([law.below(0.5), law.above(0.5)], rel=1e-14)
    assert law.masses(np.array([-math.inf]), np.array([math.inf])) == pytest.approx([1.0], rel=1e-15)


def test_b14_renyi_of_pure_dp_is_the_worst_pairs_and_both_directions_are_taken():
    """B14: prv bounds a pure mechanism's RDP by (α−1)·ε/α, which is below the truth, and has only the removal
    direction."""
    eps, q = 1.0, 0.4
    more = 1 / (1 + math.exp(-eps))
    p, r = np.array([more, 1 - more]), np.array([1 - more, more])
    mixed = (1 - q) * r + q * p
    for order in (1.01, 2.0, 3.5, 10.0, 500.0):
        got = PoissonSampled(q, PureDP(eps)).rdp(np.array([order]))[0]
        assert got >= max(renyi(mixed, r, order), renyi(r, mixed, order)) * (1 - 1e-12)
    assert PoissonSampled(1.0, PureDP(eps)).rdp(np.array([1.01]))[0] > 0.01 / 1.01 * eps
    event = PoissonSampled(q, Laplace(1.0))
    ways: Any = event.directions()
    assert [way.direction for way in ways] == ["removal", "addition"] and all(
        way.directions() == (way,) for way in ways
    )
    for at in (0.0, 0.2, 0.4):
        assert delta(event, at).upper == max(delta(way, at).upper for way in ways)


def test_b16_the_worse_direction_of_the_composition_and_not_of_each_step():
    """B16: neither direction of one step bounds a composition of steps whose directions differ; the maximum does."""
    eps, q = 2.0, 0.5
    more = 1 / (1 + math.exp(-eps))
    p, r = np.array([more, 1 - more]), np.array([1 - more, more])
    mixed = (1 - q) * r + q * p
    event = PoissonSampled(q, PureDP(eps))
    tied = compose((event, 2))
    free = parallel(event, NO_EVENT)  # its law is the maximum of the two directions
    law = discretise(event, 1e-3, True)
    assert law.p.sum() + law.infinity == pytest.approx(1.0, abs=1e-9)
    for at in (0.0, 0.1, 0.4, 0.9):
        removal = hockey_stick(np.outer(mixed, mixed), np.outer(r, r), at)
        addition = hockey_stick(np.outer(r, r), np.outer(mixed, mixed), at)
        crossed = hockey_stick(np.outer(mixed, r), np.outer(r, mixed), at)
        got = delta(tied, at).upper
        assert max(removal, addition) <= got <= max(removal, addition) * (1 + 1e-3) + 1e-6
        # the law for free use dominates any mixture of directions
        losses = law.losses()
        two = np.convolve(law.p, law.p)
        sums = np.arange(len(two)) * law.step + 2 * losses[0]
        bound = float(two @ np.maximum(0.0, -np.expm1(np.minimum(at - sums, 0.0))))
        assert max(removal, addition, crossed) <= bound * (1 + 1e-9) + 1e-12
    assert free.directions() != (free,)


PEERS = [
    (P(0.01, G(0.8)), 1000, 1e-6), (P(0.5, G(3.0)), 20, 1e-8), (P(0.5, L(3.0)), 30, 1e-5),
    (P(0.01, L(1.0)), 1000, 1e-6),
]  # fmt: skip
SLOW_PEERS = [  # the peer takes a second or more, or there are others of the kind, here or in test_peers.py
    (dp_accounting.dp_event.MixtureOfGaussiansDpEvent(1.7, [0, 1, 2.5], [0.9, 0.07, 0.03]), 60, 1e-6),
    (dp_accounting.TruncatedSubsampledGaussianDpEvent(100, 0.1, 200, 1.0), 10, 1e-6),
    (P(0.1, G(2.0)), 100, 1e-5), (P(0.04, G(1.5)), 2249, 1e-5), (P(0.1, L(0.5)), 100, 1e-6),
    (P(0.05, G(5.0)), 1000, 1e-5), (P(0.9, G(1.0)), 5, 1e-5),
    (P(0.02, G(0.5)), 100, 1e-5), (P(0.3, G(0.7)), 3, 1e-6), (P(0.2, G(1.0)), 1, 1e-5),
    (P(0.001, G(0.6)), 5000, 1e-7), (dp_accounting.TruncatedSubsampledGaussianDpEvent(1000, 0.1, 110, 1.0), 50, 1e-6),
    (dp_accounting.dp_event.MixtureOfGaussiansDpEvent(2.0, [1, 2], [0.5, 0.5]), 5, 1e-7),
]  # fmt: skip


@pytest.mark.statistical
@pytest.mark.parametrize(
    "event, count, at", [*PEERS, *(pytest.param(*case, marks=pytest.mark.deep) for case in SLOW_PEERS)], ids=str
)
def test_never_above_dp_accounting(event, count, at):
    grid = 1e-3 if "Mixture" in str(event) else 1e-4  # the peer is slow there
    theirs = dp_accounting.pld.PLDAccountant(value_discretization_interval=grid).compose(event, count).get_epsilon(at)
    got = Accountant().compose(event, count).bracket(at)
    assert got.upper <= theirs * (1 + 2e-6)
    assert got.lower is not None and got.upper >= got.lower >= 0
    if "Truncated" not in str(event):  # where the peer's own pair is not the tight one
        assert got.upper >= theirs * (1 - 1e-3)


def test_bounds_agree_with_opacus_and_published_values():
    """Opacus' accountants_test.py: PRV 6.777395712150674; its GDP, in (6.59, 6.60), is below the truth."""
    steps = 2249
    got = epsilon(compose((PoissonSampled(0.04, Gaussian(1.5)), steps)), 1e-5).upper
    assert 6.60 < got <= 6.777395712150674
    rdp = epsilon(compose((PoissonSampled(0.04, Gaussian(1.5)), 2250)), 1e-5, method="rdp").upper
    assert got < rdp <= 7.32911117143


@pytest.mark.parametrize("k, expected", [(1, 2.1245), (2, 4.5541), (4, 10.0153), (8, 23.0825)])
@pytest.mark.every(2)
def test_group_of_a_sampled_gaussian_is_a_binomial_mixture(k, expected):
    """Values of dp-accounting 0.6's PLD for MixtureOfGaussians with binomial weights, q = 0.01, σ = 1, 1000 steps."""
    event = PoissonSampled(0.01, Gaussian(1.0)).at(k)
    if k > 1:
        assert isinstance(event, MixtureOfGaussians) and event.sensitivities == tuple(range(k + 1))
        assert event.probabilities == pytest.approx(stats.binom.pmf(np.arange(k + 1), k, 0.01), rel=1e-12)
    assert epsilon(compose((event, 1000)), 1e-6).upper == pytest.approx(expected, abs=2e-4)


@pytest.mark.statistical
def test_groups_of_other_events_are_sampled_more_often():
    three: Any = PoissonSampled(0.1, Laplace(2.0)).at(3)
    assert three == PoissonSampled(three.probability, Laplace(2.0 / 3))
    pure: Any = PoissonSampled(0.1, PureDP(0.2)).at(3)
    assert pure.probability == pytest.approx(1 - 0.9**3, rel=1e-12)
    assert PoissonSampled(0.1, Gaussian(2.0)).at(0) == NO_EVENT
    assert PoissonSampled(0.1, Gaussian(2.0)).at(0.4) == PoissonSampled(0.1, Gaussian(2.0))
    assert PoissonSampled(0.1, Gaussian(2.0)).at(1.5) == PoissonSampled(0.1, Gaussian(2.0)).at(2)
    assert PoissonSampled(1.0, Gaussian(2.0)).at(4) == PoissonSampled(1.0, Gaussian(0.5))
    sizes = [epsilon(PoissonSampled(0.01, Gaussian(50.0)).at(k), 1e-6).upper for k in (100, 1200, 70_000)]
    assert sizes == sorted(sizes)
    # 1200 records: between the mean and all of them
    assert epsilon(Gaussian(50.0 / 12), 1e-6).upper < sizes[1] < epsilon(Gaussian(50.0 / 1200), 1e-6).upper


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(2, 6))])
def test_group_dominates_vectors_in_the_plane(seed):
    """The vectors of k records are anywhere in the unit disc: no set of outcomes exceeds the bound."""
    rng = np.random.default_rng(seed)
    k, q, sigma = int(rng.integers(1, 4)), rng.uniform(0.05, 0.9), rng.uniform(0.5, 2.0)
    angle, radius = rng.uniform(0, 2 * math.pi, k), rng.choice([1.0, rng.uniform(0, 1)], k)
    vectors = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = np.linspace(-k - 8 * sigma, k + 8 * sigma, 601)
    cell = (x[1] - x[0]) ** 2
    plane = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)

    def normal(at):
        return np.exp(-((plane - at) ** 2).sum(-1) / (2 * sigma**2)) / (2 * math.pi * sigma**2) * cell

    without, with_all = normal(np.zeros(2)), np.zeros(plane.shape[:2])
    for joined in itertools.product([0, 1], repeat=k):
        chance = math.prod(q if j else 1 - q for j in joined)
        with_all += chance * normal(np.array(joined) @ vectors)
    event: Any = PoissonSampled(q, Gaussian(sigma)).at(k)
    for eps in (0.0, 0.2, 0.8, 1.6):
        for direction, a, b in (("removal", with_all, without), ("addition", without, with_all)):
            assert hockey_stick(a, b, eps) <= delta(event.towards(direction), eps).upper * (1 + 1e-3) + 1e-9
    for order in (1.5, 3.0, 8.0):
        assert renyi(with_all, without, order) <= event.towards("removal").rdp(np.array([order]))[0] * (1 + 1e-6)
        assert renyi(without, with_all, order) <= event.towards("addition").rdp(np.array([order]))[0] * (1 + 1e-6)


MIXED = compose(Gaussian(2.0), Laplace(1.0))


@pytest.mark.parametrize("inner", [MIXED, compose((Laplace(4.0), 5)), BoundedRange(1.0), ApproximateDP(0.5, 1e-5)])
def test_every_event_may_be_sampled(inner):
    """Two independent curves are consistent as upper bounds, and sampling lowers the cost in both directions."""
    event = PoissonSampled(0.1, inner)
    law = [epsilon(compose((way, 20)), 1e-3).upper for way in event.directions()]
    assert max(law) <= epsilon(compose((inner, 20)), 1e-3).upper / 2
    by_rdp = [epsilon(compose((way, 20)), 1e-3, method="rdp").upper for way in event.directions()]
    assert max(law) <= max(by_rdp) <= epsilon(compose((inner, 20)), 1e-3, method="rdp").upper
    assert event.failure_delta() == pytest.approx(0.1 * inner.failure_delta(), rel=1e-12)


@pytest.mark.statistical
def test_a_sampled_composition_is_the_composed_loss_and_not_the_composed_sample():
    """Ten accesses to one sample are compared with an integral over the outcomes of two Laplace accesses and a Gaussian
    one."""
    q, eps = 0.2, 0.4
    x = np.linspace(-30, 30, 3001)
    h = x[1] - x[0]
    gauss = [np.exp(-((x - c) ** 2) / 8) / math.sqrt(8 * math.pi) * h for c in (1, 0)]
    lap = [np.diff(stats.laplace.cdf(np.append(x, x[-1] + h), c, 1.5)) for c in (x[1510], x[1500])]
    step = x[1510] - x[1500]  # the shift is a whole number of cells, so that this is Laplace noise of another scale
    p, r = (np.outer(a, b) for a, b in zip(gauss, lap, strict=True))
    mixed = (1 - q) * r + q * p
    event = PoissonSampled(q, compose(Gaussian(2.0), Laplace(1.5 / step)))
    for direction, a, b in (("removal", mixed, r), ("addition", r, mixed)):
        exact = hockey_stick(a, b, eps if direction == "removal" else 0.1)
        got = delta(event.towards(direction), eps if direction == "removal" else 0.1).upper
        assert exact * (1 - 2e-3) <= got <= exact * (1 + 2e-2)


def test_nested_samples_are_one_sample():
    twice, once = PoissonSampled(0.2, PoissonSampled(0.1, Laplace(1.0))), PoissonSampled(0.02, Laplace(1.0))
    for way, nested in zip(once.directions(), twice.directions(), strict=True):
        assert epsilon(nested, 1e-4).upper == pytest.approx(epsilon(way, 1e-4).upper, rel=1e-4)
        assert nested.pure_epsilon() == pytest.approx(way.pure_epsilon(), rel=1e-12)
    for method in ("pld", "pure"):
        one, two = (epsilon(compose((e, 30)), 1e-5, method=method).upper for e in (once, twice))
        assert two == pytest.approx(one, rel=1e-4)
    orders = np.array([1.5, 2.0, 10.0])
    removal = PoissonSampled(0.2, PoissonSampled(0.1, Gaussian(1.0)), "removal").rdp(orders)
    assert removal[1:] == pytest.approx(PoissonSampled(0.02, Gaussian(1.0)).rdp(orders)[1:], rel=1e-6)


@deep_examples(
    40,
    100,
    q=st.floats(1e-6, 0.9),
    more=st.floats(1.0, 1.1),
    sigma=st.floats(0.3, 30),
    order=st.floats(1.001, 300),
    k=st.integers(1, 5),
)
def test_rdp_is_monotone(q, more, sigma, order, k):
    at = np.array([order, order * 1.1, 50 * order])
    event = PoissonSampled(q, Gaussian(sigma))
    curve = event.rdp(at)
    slack = 1e-7 * curve + 1e-25
    assert (curve <= PoissonSampled(min(1.0, q * more), Gaussian(sigma)).rdp(at) + slack).all()
    assert (curve <= PoissonSampled(q, Gaussian(sigma / more)).rdp(at) + slack).all()
    assert (curve <= event.at(2).rdp(at) + slack).all()
    assert (event.at(k).rdp(at) <= event.at(k + 1).rdp(at) * (1 + 1e-7) + 1e-25).all()
    assert curve[0] <= curve[1] * (1 + 1e-9) and curve[1] <= curve[2] * (1 + 1e-9)
    assert (curve <= Gaussian(sigma).rdp(at)).all()


@pytest.mark.statistical
def test_extreme_parameters_give_bounds_or_typed_errors():
    for q, sigma in itertools.product([1e-300, 1e-12, 0.5, 1 - 1e-15], [1e-100, 1e-3, 1e3, 1e100]):
        event = PoissonSampled(q, Gaussian(sigma))
        curve = event.rdp(_GRID)
        assert (
            not np.isnan(curve).any() and (curve >= 0).all() and (curve <= _GRID / (2 * sigma**2) * (1 + 1e-12)).all()
        )
        assert epsilon(event, 1e-6).upper >= 0
        assert event.at(3).rdp(np.array([2.0]))[0] >= event.rdp(np.array([2.0]))[0] * (1 - 1e-9)


def test_probabilities_one_and_zero_give_the_event_and_nothing():
    for inner in (Gaussian(1.3), Laplace(0.7), MIXED, ZCDP(0.3), ApproximateDP(0.2, 1e-6)):
        always, never = PoissonSampled(1, inner), PoissonSampled(0, inner)
        orders = np.array([1.2, 2.0, 30.0])
        assert always.rdp(orders) == pytest.approx(inner.rdp(orders), rel=1e-15) and (never.rdp(orders) == 0).all()
        assert (always.rdp(orders) >= inner.rdp(orders)).all()
        assert always.pure_epsilon() == inner.pure_epsilon() and always.zcdp_rho() == inner.zcdp_rho()
        assert epsilon(always, 1e-5).upper == pytest.approx(epsilon(inner, 1e-5).upper, rel=1e-6)
        assert epsilon(never, 1e-9).upper == 0 and never.failure_delta() == 0
    assert delta(PoissonSampled(0.01, NonPrivate()), 0.0).upper == pytest.approx(0.01, rel=1e-12)
    assert delta(PoissonSampled(0.01, ApproximateDP(1.0, 1e-3)), 5.0).upper == pytest.approx(1e-5, rel=1e-9)


def test_events_without_a_profile_have_the_other_curves():
    event = PoissonSampled(0.05, ZCDP(0.1))
    assert not event.has_profile() and event.zcdp_rho() == 0.1
    orders = np.array([2.0, 3.0, 40.0])
    # the curve of a Gaussian with the same ρ; in the other direction a bound by the second moment
    gaussian = PoissonSampled(0.05, Gaussian(math.sqrt(5))).rdp(orders)
    assert event.towards("removal").rdp(orders) == pytest.approx(gaussian, rel=1e-6)
    assert (event.rdp(orders) <= 1.1 * gaussian).all()
    fractional = np.array([1.3, 2.5, 1000.5])
    exact = PoissonSampled(0.05, Gaussian(math.sqrt(5))).rdp(fractional)
    assert (event.rdp(fractional) >= exact * (1 - 1e-9)).all() and (event.rdp(fractional) <= exact * 2).all()


def test_relations_and_arguments_are_checked():
    event = PoissonSampled(0.1, Gaussian(1.0))
    assert event.accepts(Adjacency.ADD_OR_REMOVE_ONE) and event.accepts(Adjacency.REPLACE_WITH_NULL)
    assert not event.accepts(Adjacency.REPLACE_ONE)
    assert not PoissonSampled(0.1, RandomizedResponse(1.0)).accepts(Adjacency.ADD_OR_REMOVE_ONE)
    with pytest.raises(InvalidArgumentError, match="probabilities"):
        MixtureOfGaussians((0.0, 1.0), cast(Any, [[0.5, 0.5]]), 1.0)


def test_native_events_survive_a_round_trip():
    for native in (P(0.1, G(2.0)), P(0.2, Self(L(3.0), 4)), Self(P(0.1, G(2.0)), 9)):
        event = from_dp_event(native)
        assert to_dp_event(event) == native and from_dp_event(to_dp_event(event)) == event
    assert from_dp_event(P(0.1, G(2.0)), Relation.REPLACE_SPECIAL) == PoissonSampled(0.1, Gaussian(2.0))
    assert from_dp_event(P(0.0, G(2.0))) == NO_EVENT
    assert from_dp_event(P(0.5, dp_accounting.NoOpDpEvent())) == NO_EVENT
    directed = PoissonSampled(0.1, Gaussian(2.0), "removal")
    assert to_dp_event(directed) is directed
    assert delta(from_dp_event(P(0.25, dp_accounting.NonPrivateDpEvent())), 1.0).upper == pytest.approx(0.25)


def test_a_sampled_group_at_probability_zero_costs_nothing():
    assert PoissonSampled(0.0, Gaussian(1.0)).at(3) == PoissonSampled(0.0, Gaussian(1.0))


def test_a_sampled_group_without_gaussian_noise_is_one_record_that_joins_more_often():
    group: Any = PoissonSampled(0.1, Laplace(1.0)).at(3)
    assert group.event == Laplace(1.0).at(3) and group.direction == "both"
    assert 1 - 0.9**3 <= group.probability <= (1 - 0.9**3) * (1 + 1e-13)
    assert PoissonSampled(1.0, Gaussian(1.0)).at(3) == PoissonSampled(1.0, Gaussian(1.0).at(3))


def test_uneven_changes_of_a_sample_are_refused():
    with pytest.raises(UnsupportedEventError, match="2 records that leave while 0 enter"):
        PoissonSampled(0.1, Gaussian(1.0)).replaced(2, 0)


@pytest.mark.parametrize("k, q", [(257, 0.1), (400, 0.01), (5000, 0.5)])
def test_the_number_sampled_from_a_large_group_is_never_underestimated(k, q):
    law, at = binomial(k, q), np.arange(0, k + 1, max(1, k // 50))
    centres, weights = np.array(law.centres), np.array(law.weights)
    above = np.array([weights[centres >= x].sum() for x in at])
    exact = stats.binom.sf(at - 1, k, q)
    assert (above >= exact - 1e-9 * np.minimum(exact, 1.0) - 1e-12).all()
    mean = float(weights @ centres)
    assert k * q * (1 - 1e-9) <= mean <= k * q * 1.02 + 0.5
