"""Tests of privacy-loss distributions: rounding in many digits, composition against exact laws and contour
integrals."""

import bisect
import math
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import mpmath as mp
import numpy as np
import pytest
from divergences import exact_gaussian_delta, gaussian_delta
from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import deep_examples, diagonal
from scipy import fft, integrate, optimize, stats
from spies import spied

from hockeystick.accounting import (
    BoundedRange,
    Gaussian,
    Laplace,
    LazySwitchDecision,
    NumericalError,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    RandomizedResponse,
    VisibleMixture,
    compose,
    parallel,
)
from hockeystick.accounting.engines import grid_plan, loss_distribution, renyi, tilted_law
from hockeystick.accounting.events.basic.given_laws import LossDistribution
from hockeystick.accounting.losses import loss_grid
from hockeystick.accounting.losses.dominating_pairs import (
    MASS_ERROR,
    RATIO_ERROR,
    Atoms,
    DominatingPair,
    ExponentialLossPair,
    GaussianPair,
)
from hockeystick.accounting.numerics import fft_round_off

U = 2.0**-53


# The transform ----------------------------------------


@pytest.mark.parametrize("stages", [2, 3, 6, 9, 12, 15, 18, 20])
@pytest.mark.every(4)
def test_roots_of_unity_are_as_accurate_as_the_transforms_bound_assumes(stages):
    """An impulse passes a single multiplication, which reveals the roots of unity of its stage."""
    size, rng = 1 << stages, np.random.default_rng(stages)
    worst = 0.0
    with mp.workdps(30):
        for place in (1 << j for j in range(stages)):
            impulse = np.zeros(size)
            impulse[place] = 1.0
            found = fft.rfft(impulse)
            for k in rng.integers(0, size // 2 + 1, 24).tolist():
                exact = mp.expjpi(mp.mpf(-2 * place * k) / size)
                worst = max(worst, float(abs(mp.mpc(complex(found[k])) - exact)))
    assert worst <= fft_round_off.TWIDDLE
    assert worst <= 2.9 * U  # what was measured for SciPy's transforms: 2.5 u up to 1.17, 2.9 u with 1.18


def exact_transform(values):
    """The discrete Fourier transform in many digits, by halves."""
    n = len(values)
    if n == 1:
        return values
    even, odd = exact_transform(values[::2]), exact_transform(values[1::2])
    turned = [mp.expjpi(mp.mpf(-2 * k) / n) * odd[k] for k in range(n // 2)]
    return [even[k] + turned[k] for k in range(n // 2)] + [even[k] - turned[k] for k in range(n // 2)]


def norm(values):
    return mp.sqrt(mp.fsum(abs(v) ** 2 for v in values))


@pytest.mark.statistical
@pytest.mark.parametrize(("kind", "stages"), diagonal(["flat", "peaked", "wide range"], [4, 7, 10]))
def test_transform_errors_are_below_the_bound(stages, kind):
    """Higham 2002, Thm 24.2, for SciPy's real transform and its inverse."""
    size, rng = 1 << stages, np.random.default_rng(stages)
    x = {
        "flat": rng.random(size),
        "peaked": np.exp(-0.5 * ((np.arange(size) - 5) / 3) ** 2),
        "wide range": rng.standard_normal(size) * np.exp(rng.uniform(-40, 0, size)),
    }[kind]
    bound = fft_round_off.transform(size)
    with mp.workdps(40):
        exact = exact_transform([mp.mpf(float(v)) for v in x])
        got = fft.rfft(x)
        full = [mp.mpc(complex(v)) for v in np.concatenate([got, np.conj(got[1:-1][::-1])])]
        off = [a - b for a, b in zip(full, exact, strict=True)]
        forward = float(norm(off) / norm(exact))
        each = float(max(map(abs, off)) / mp.fsum(abs(mp.mpf(float(v))) for v in x))
        # The inverse of the rounded spectrum, exactly: the conjugate of the transform of its conjugate, over N.
        back = [mp.conj(v) / size for v in exact_transform([mp.conj(v) for v in full])]
        y = fft.irfft(got, size)
        backward = float(norm([mp.mpf(float(a)) - b for a, b in zip(y, back, strict=True)]) / norm(back))
    assert max(forward, backward) <= bound
    assert bound <= 200 * max(forward, backward)
    assert each <= bound  # any one of the transform's values, for the 1-norm


def test_the_transform_bound_is_for_powers_of_two():
    with pytest.raises(ValueError, match="powers of two"):
        fft_round_off.transform(96)
    u = 2.0**-53
    eta = fft_round_off.TWIDDLE + 4 * u / (1 - 4 * u) * (math.sqrt(2) + fft_round_off.TWIDDLE)
    assert fft_round_off.transform(1 << 20) == pytest.approx(20 * eta / (1 - 20 * eta), rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "size, length, counts",
    [(256, 9, (7, 1)), (1024, 30, (25,)), (64, 20, (40, 3)), (1024, 3, (250,)), (256, 2, (120, 30))]
    + [pytest.param(2048, 5, (150,), marks=pytest.mark.deep)],
)
def test_powers_of_spectra_are_within_their_error_of_exact_ones(size, length, counts):
    """Compares with wrapped powers of integer polynomials; the largest mass is treated separately."""
    rng = np.random.default_rng(size)
    spectrum, offset = tilted_law._Spectrum(size), 0
    exact = [1]
    bits = 53 * sum(counts) + 64
    scale = 0
    for count in counts:
        masses = np.round(rng.dirichlet(np.full(length, 0.4)) * 2**40)
        total = float(2.0 ** math.ceil(math.log2(masses.sum())))
        peak = int(np.argmax(masses))
        spectrum.multiply(masses / total, peak, count)
        offset += peak * count
        packed = sum(int(m) << (bits * i) for i, m in enumerate(masses)) ** count
        scale += count * int(math.log2(total))
        part = []
        while packed:
            part.append(packed & ((1 << bits) - 1))
            packed >>= bits
        exact = [sum(exact[i] * part[k - i] for i in range(max(0, k - len(part) + 1), min(k, len(exact) - 1) + 1))
                 for k in range(len(exact) + len(part) - 1)] if len(exact) > 1 else part  # fmt: skip
    wrapped = [0] * size
    for k, mass in enumerate(exact):
        wrapped[k % size] += mass
    got, error = spectrum.inverse(sum(counts), offset % size)
    off = math.sqrt(
        math.fsum(
            float(mp.mpf(float(a)) - mp.mpf(b) / (mp.mpf(2) ** scale)) ** 2 for a, b in zip(got, wrapped, strict=True)
        )
    )
    assert off <= error
    assert error <= 1e-9
    assert (got >= 0.0).all()  # sums of them are taken for sums of positive terms


@pytest.mark.parametrize("count", [9, 10**6, 10**9, 4 * 10**13])
def test_the_share_by_which_a_power_may_be_off_is_no_less_than_errors_add_up_to(count):
    """A number with relative error x has a power with relative error (1 + x)^n − 1, which is more than n·x."""
    spectrum = tilted_law._Spectrum(16)
    spectrum.multiply(np.array([0.5, 0.5]), 0, count)
    ((_, share),) = spectrum.errors
    with mp.workdps(40):  # of the mass one half is moved by the transform
        assert share >= (1 + mp.mpf(fft_round_off.transform(16)) / 2) ** count - 1


def test_round_off_that_would_dominate_is_refused():
    spectrum = tilted_law._Spectrum(64)
    spectrum.multiply(np.array([0.5, 0.5]), 0, 10**16)
    with pytest.raises(NumericalError, match="round-off"):
        spectrum.inverse(10**16, 0)


# Masses ----------------------------------------


def normal_mass(low, high):
    if low > 0:
        return (mp.erfc(low / mp.sqrt(2)) - mp.erfc(high / mp.sqrt(2))) / 2
    return (mp.erfc(-high / mp.sqrt(2)) - mp.erfc(-low / mp.sqrt(2))) / 2


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.5, 3.0, 12.0])
@pytest.mark.parametrize("count", [2, 30, 4e3, 3e5])
@pytest.mark.every(3)
def test_gaussian_cells_keep_their_relative_accuracy_on_the_narrowest_cells(mu, count):
    pair, rng = GaussianPair(mu), np.random.default_rng(7)
    low, high = pair.support()
    reach, width = max(-low, high), (high - low) / count
    with mp.workdps(60):
        for a in rng.uniform(low, high - width, 25):
            edges = np.array([a, a + width])
            cells, m = pair.cells(edges), mp.mpf(mu)
            z = [mp.mpf(float(edge)) / m for edge in edges]
            p, q = (normal_mass(z[0] + s * m / 2, z[1] + s * m / 2) for s in (-1, 1))
            got_p, got_q = mp.mpf(float(cells.p[0])), mp.mpf(float(cells.q[0]))
            assert abs(got_p / p - 1) <= MASS_ERROR * (1 + reach / 8)
            assert abs(got_p / got_q * q / p - 1) <= RATIO_ERROR * (1 + reach)


@pytest.mark.parametrize("pair", [ExponentialLossPair(0.1, 0.25, 0.5), ExponentialLossPair(300.0, 0.25, 0.5),
                                  BoundedRange(3.0).pair(), Laplace(1e6).pair()])  # fmt: skip
@pytest.mark.parametrize("count", [2, 1000, 1e6])
def test_exponential_cells_keep_their_relative_accuracy(pair, count):
    r, rng = pair.reach, np.random.default_rng(3)
    width = 2 * r / count
    with mp.workdps(60):
        for a in rng.uniform(-r + 1e-9 * r, r - width * (1 + 1e-9), 25):
            edges = np.array([a, a + width])
            cells = pair.cells(edges)
            x, y = (mp.mpf(float(edge)) for edge in edges)
            y = min(y, mp.mpf(r))
            p = 2 * mp.mpf(pair.density) * (mp.exp((y - r) / 2) - mp.exp((x - r) / 2))
            q = 2 * mp.mpf(pair.density) * (mp.exp((-x - r) / 2) - mp.exp((-y - r) / 2))
            assert abs(mp.mpf(float(cells.p[0])) / p - 1) <= MASS_ERROR * (1 + r / 8)
            assert abs(mp.mpf(float(cells.p[0])) / mp.mpf(float(cells.q[0])) * q / p - 1) <= RATIO_ERROR * (1 + r)


@pytest.mark.parametrize("pair", [GaussianPair(0.7), GaussianPair(4.0), ExponentialLossPair(2.5, 0.25, 0.5),
                                  BoundedRange(3.0).pair()])  # fmt: skip
@pytest.mark.parametrize("edges", [[0.1, 0.4], [-0.3, 0.0, 0.2], [-1.2, 1.9]])
def test_cells_and_tails_have_total_mass_one(pair, edges):
    cells = pair.cells(np.array(edges))
    assert math.fsum([*cells.p, cells.p_below, cells.p_above]) == pytest.approx(1.0, abs=1e-14)
    assert math.fsum([*cells.q, cells.q_below, cells.q_above]) == pytest.approx(1.0, abs=1e-14)


# Laws of one event ----------------------------------------


class Profile:
    """δ of a law on a grid at any real ε, in many digits."""

    def __init__(self, law):
        self.step, places = mp.mpf(law.step), np.flatnonzero(law.p)
        self.places, self.above = (places + law.start).tolist(), [(mp.mpf(law.infinity), mp.mpf(0))]
        for place, mass in zip(self.places[::-1], law.p[places].tolist()[::-1], strict=True):  # P and Q from a place on
            p, q = self.above[-1]
            self.above.append((p + mp.mpf(mass), q + mp.mpf(mass) * mp.exp(-place * self.step)))

    def __call__(self, eps):
        from_here = bisect.bisect_right(self.places, eps, key=lambda place: place * self.step)
        p, q = self.above[len(self.places) - from_here]
        return p - mp.exp(eps) * q


def exact_pair_delta(pair: DominatingPair, eps):
    if isinstance(pair, Atoms):
        return pair.at_infinity + mp.fsum(
            -mp.mpf(p) * mp.expm1(eps - mp.mpf(x)) for x, p in zip(pair.losses, pair.p, strict=True) if x > eps
        )
    if isinstance(pair, GaussianPair):
        return exact_gaussian_delta(pair.mu, eps)
    assert isinstance(pair, ExponentialLossPair)
    r, d, atom = mp.mpf(pair.reach), mp.mpf(pair.density), mp.mpf(pair.atom)
    if eps >= r:
        return mp.mpf(0)
    e = max(eps, -r)  # below −r nothing changes but e^ε
    inside = 2 * d * (1 - mp.exp((e - r) / 2)) - mp.exp(eps) * 2 * d * (mp.exp((-e - r) / 2) - mp.exp(-r))
    low = atom * mp.exp(-r) * -mp.expm1(eps + r) if eps < -r else 0
    return inside + atom * -mp.expm1(eps - r) + low


PAIR = st.one_of(
    st.builds(GaussianPair, st.floats(1e-3, 4)),
    st.builds(lambda r: ExponentialLossPair(r, 0.25, 0.5), st.floats(1e-3, 4)),
    st.builds(lambda w: BoundedRange(w).pair(), st.floats(1e-3, 4)),
    st.builds(
        lambda losses, weights: Atoms(tuple(losses), tuple(w / math.fsum(weights) for w in weights[: len(losses)])),
        st.lists(st.floats(-3, 3), min_size=1, max_size=6, unique=True),
        st.lists(st.floats(1e-6, 1), min_size=6, max_size=6),
    ),
    st.builds(lambda e, k: RandomizedResponse(e, k).pair(), st.floats(0.01, 3), st.integers(2, 5)),
)


@deep_examples(
    50,
    150,
    pair=PAIR,
    cells=st.integers(2, 300),
    shares=st.lists(st.floats(-1.2, 1.2), min_size=4, max_size=4),
    grid=st.booleans(),
)
def test_a_law_on_a_grid_has_a_profile_above_or_below_at_every_epsilon(pair, cells, shares, grid):
    """There is no tolerance, because rounding is accounted for. A profile that is above at all real ε stays above in
    compositions (Blackwell)."""
    low, high = pair.support()
    reach = max(abs(low), abs(high), 1e-9)
    step = reach / cells if grid else reach / (cells + 0.382)
    upper, lower = (loss_grid.from_pair(pair, step, above) for above in (True, False))
    snap = mp.mpf(loss_grid.SNAP) * reach * 1.5
    with mp.workdps(50):
        above, below = Profile(upper), Profile(lower)
        for share in shares:
            for eps in (mp.mpf(share * reach), round(share * cells) * mp.mpf(step)):
                exact = exact_pair_delta(pair, eps)
                assert exact - 1e-39 <= above(eps)
                assert below(eps) <= exact_pair_delta(pair, eps - snap)


@pytest.mark.parametrize("pair", [GaussianPair(0.3), ExponentialLossPair(0.2, 0.25, 0.5), Laplace(2.0).pair()])
def test_laws_from_above_and_below_close_in_with_the_square_of_the_step(pair):
    low, high = pair.support()
    gaps = []
    for cells in (500, 1000, 2000):
        step = (high - low) / cells
        laws = [loss_grid.from_pair(pair, step, above) for above in (True, False)]
        second = [float(law.p @ np.expm1(2 * law.losses())) for law in laws]  # an increasing function
        assert second[1] <= second[0]
        gaps.append(second[0] - second[1])
    assert gaps[1] <= 0.3 * gaps[0] and gaps[2] <= 0.3 * gaps[1]


@pytest.mark.parametrize("pair", [GaussianPair(0.05), ExponentialLossPair(0.2, 0.25, 0.5), BoundedRange(2.0).pair(),
                                  PureDP(0.37).pair(), PoissonSampled(0.01, Gaussian(0.8)).directions()[0].pair(),
                                  PoissonSampled(0.01, Gaussian(0.8)).directions()[1].pair(),
                                  PoissonSampled(0.2, Laplace(0.5)).directions()[0].pair()])  # fmt: skip
@pytest.mark.parametrize("cells", [50, 3000, 200_001])
@pytest.mark.every(3)
def test_q_has_mass_at_most_one_from_above_and_at_least_one_from_below(pair, cells):
    """Q's mass is Σ p·e^{−loss}: at most 1 for a law from above, where mass only moves up, and at least 1 from
    below."""
    low, high = pair.support()
    step = (high - low) / cells
    for above in (True, False):
        law = loss_grid.from_pair(pair, step, above)
        q = math.fsum(law.p * np.exp(-law.losses()))
        room = 3 * loss_grid._mass_error(max(-low, high)) + 1e-13 + abs(pair.infinity())
        if above:
            assert q <= 1 + room
            assert q >= 1 - room - 200 * U * (1 + max(-low, high)) - 1e-9 * step  # what rounding moved up is little
        else:
            assert q >= 1 - room
            assert q <= 1 + 2 * step


@given(seed=st.integers(0, 2**32 - 1), most=st.integers(1, 30), t=st.floats(-3, 3))
@settings(deadline=None, max_examples=60)
def test_blocks_have_larger_moments(seed, most, t):
    weights = np.random.default_rng(seed).dirichlet(np.full(23, 0.5))
    blocks = tilted_law._blocks(weights, most)
    with mp.workdps(30):
        exact = mp.log(
            mp.fsum(mp.mpf(float(w)) * mp.exp(mp.mpf(t) * (i - blocks.centre)) for i, w in enumerate(weights))
        )
    assert exact <= blocks.log_mean(t) + 1e-13
    if most >= 23:
        assert blocks.log_mean(t) <= exact + 1e-11
    assert blocks.mean == pytest.approx(float(weights @ np.arange(23)), abs=1e-9)


def test_from_below_what_is_lighter_above_an_atom_lifts_it():
    """An atom in the middle of its cell, nothing below it, and light cells above it; the first few of these lift it too
    little."""
    step, k = 1e-3, 3
    loss = (np.arange(40) + 0.5) * step
    p = np.where(np.arange(40) > k, 1 / 80, 0.0)
    p[k], p[-1] = 1.0, 0.0
    q = p * np.exp(-loss)
    over, under = p - q * np.exp(loss - step / 2), q * np.exp(loss + step / 2) - p
    mass = np.zeros(41)
    loss_grid._gather((p, q, over, under), 0, step, 0.0, 0.0, mass)
    assert mass[k] == 0.0 and 1.0 < mass[k + 1] == mass.sum() < 1.2
    assert mass.sum() + p.sum() == pytest.approx(1.0 + 35 / 80, rel=1e-14)
    lifted = math.exp(-loss[k]) + math.fsum(np.exp(-loss[k + 1 : -1][p[k + 1 : -1] == 0.0]) / 80)  # Q's mass of them
    assert lifted <= mass[k + 1] * math.exp(-(k + 1) * step) <= lifted * (1 + step)


@pytest.mark.parametrize("needed", range(4, 12))
def test_from_below_an_atom_is_lifted_only_as_far_as_masses_that_may_be_off_allow(needed):
    """The lighter cells above have a part in 1e9 too little mass until the next one is added."""
    step, k, error = 1e-3, 3, 1e-5
    loss, high = (np.arange(40) + 0.5) * step, (k + 1) * step
    p = np.where(np.arange(40) > k, 1 / 80, 0.0)
    p[k], p[-1] = 1.0, 0.0
    q = p * np.exp(-loss)
    # The worst that the masses may be.
    spare = math.fsum((p * (1 - error) - q * math.exp(high) * (1 + error))[k + 1 : k + needed])
    q[k] = (spare * (1 + 5e-10) + p[k] * (1 - error)) / (math.exp(high) * (1 + error))
    over, under = p - q * np.exp(loss - step / 2), q * np.exp(loss + step / 2) * (1 + error) - p * (1 - error)
    left, mass = p.copy(), np.zeros(41)
    loss_grid._gather((left, q.copy(), over, under), 0, step, 0.0, error, mass)
    merged = left < p
    assert merged[k] and mass[k] == 0.0 and mass[k + 1] == mass.sum() == pytest.approx(p[merged].sum(), rel=1e-15)
    with mp.workdps(30):
        likelier, other = (mp.fsum(map(mp.mpf, law[merged].tolist())) for law in (p, q))
        assert other * (1 + mp.mpf(error)) * mp.exp(high) <= likelier * (1 - mp.mpf(error))


def test_atoms_on_the_grid_are_where_they_were_from_above_and_below():
    pair = RandomizedResponse(0.7, 4).pair()
    assert isinstance(pair, Atoms)
    for above in (True, False):
        law = loss_grid.from_pair(pair, 0.7 / 6, above)
        heavy = law.p > 1e-9
        assert law.losses()[heavy] == pytest.approx([-0.7, 0.0, 0.7], rel=1e-12)
        assert law.p[heavy] == pytest.approx([pair.p[1], pair.p[2], pair.p[0]], rel=1e-9)


@pytest.mark.parametrize("step", [1e-3, 0.1 / 3, 0.7])
def test_atoms_an_ulp_from_a_far_grid_point_go_up_by_no_less_than_their_distance(step):
    rng = np.random.default_rng(12)
    places = np.unique(rng.integers(2**15, 2**18, 150)) * 4 * rng.choice([-1, 1])
    pair = Atoms(tuple((places * step * (1 + rng.integers(-4, 5, len(places)) * 2 * U)).tolist()), (1.0,) * len(places))
    law = loss_grid.from_pair(pair, step, True)
    with mp.workdps(50):
        width = mp.mpf(step)
        for loss in map(mp.mpf, pair.losses):
            place = int(mp.floor(loss / width))
            i, up = place - law.start, mp.expm1(place * width - loss) / mp.expm1(-width)
            stayed, went = law.p[i], law.p[i + 1] if i + 1 < len(law.p) else 0.0
            assert up <= went <= up * (1 + mp.mpf(1e-11)) + 8 * U
            assert 1.0 <= stayed + went <= 1 + 1e-11


def test_huge_losses_give_no_negative_mass():
    """The edges of the cells are off by more than a loss of 1, but by a small part of a cell."""
    law = loss_grid.from_pair(ExponentialLossPair(1e15, 0.25, 0.5), 1e13, True)
    assert (law.p >= 0.0).all() and 1.0 <= law.p.sum() <= 1 + loss_grid._mass_error(1.01e15)
    assert law.losses()[-1] >= 1e15


@pytest.mark.statistical
@given(lengths=st.tuples(st.integers(1, 40), st.integers(1, 40)), seed=st.integers(0, 2**32 - 1), upper=st.booleans())
@settings(deadline=None, max_examples=40)
def test_convolution_inside_an_event_is_rounded_outwards(lengths, seed, upper):
    rng = np.random.default_rng(seed)
    laws = [loss_grid.LossPmf(0.1, 3, rng.dirichlet(np.full(n, 0.3)), 0.01) for n in lengths]
    got = loss_grid._convolve(laws[0], laws[1], upper)
    exact = [mp.mpf(0)] * (sum(lengths) - 1)
    with mp.workdps(40):
        for i, x in enumerate(laws[0].p):
            for j, y in enumerate(laws[1].p):
                exact[i + j] += mp.mpf(float(x)) * mp.mpf(float(y))
        for mass, value in zip(got.p, exact, strict=True):
            assert (mass >= value - 1e-300) if upper else (mass <= value)
    assert got.start == 6 and got.infinity == pytest.approx(1 - 0.99**2, rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("upper", [True, False])
def test_long_convolutions_by_transform_are_rounded_outwards(upper):
    """Exact integers of 20 bits: their convolution is exact in integers."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 2**20, n) for n in (12000, 9000))
    laws = [loss_grid.LossPmf(0.1, start, x / 2.0**40, 0.0) for start, x in ((-5, a), (7, b))]
    got = loss_grid._convolve(laws[0], laws[1], upper)
    assert got.start == 2
    exact = np.convolve(a, b)  # below 2^63
    off = np.abs([int(x) - round(mass * 2.0**80) for x, mass in zip(exact, got.p, strict=True)]) / 2.0**80
    if upper:
        assert float(laws[0].p.sum() * laws[1].p.sum()) * 1e-11 >= got.infinity >= float(np.sum(off)) > 0.0
    else:
        assert all(mp.mpf(float(mass)) * 2**80 <= int(x) for x, mass in zip(exact, got.p, strict=True))


# The tilted law ----------------------------------------


@pytest.mark.statistical
@given(seed=st.integers(0, 2**32 - 1), slope=st.floats(1e-6, 3), start=st.integers(-3000, 3000))
@settings(deadline=None, max_examples=40)
def test_tilted_masses_are_rounded_outwards(seed, slope, start):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(50, 0.2))
    law = loss_grid.LossPmf(0.1, start, p, 0.0)
    with mp.workdps(50):
        exact = [mp.mpf(float(mass)) * mp.exp(mp.mpf(slope) * (start + i)) for i, mass in enumerate(p)]
        for upper in (True, False):
            weights, log_total, rounding = tilted_law._tilted_masses(law, slope, upper)
            assert rounding <= 1e-11
            scale = mp.exp(mp.mpf(log_total) + (rounding if upper else -rounding))
            for got, want in zip(weights, exact, strict=True):
                outwards = mp.mpf(float(got)) * scale
                if want > scale * mp.mpf(10) ** -300:
                    assert outwards >= want if upper else outwards <= want


def test_tilted_masses_of_a_long_law_are_those_of_a_short_one(monkeypatch):
    """They are made piece by piece."""
    law = loss_grid.LossPmf(0.1, -17, np.random.default_rng(2).dirichlet(np.full(50, 0.2)), 0.0)
    whole = tilted_law._tilted_masses(law, 0.3, True)
    monkeypatch.setattr(tilted_law, "_CHUNK", 8)
    weights, log_total, rounding = tilted_law._tilted_masses(law, 0.3, True)
    assert weights == pytest.approx(whole[0], rel=1e-13)
    assert (log_total, rounding) == pytest.approx(whole[1:], rel=1e-13)


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 30), share=st.floats(-1, 1))
@settings(deadline=None, max_examples=40)
def test_tails_of_a_sum_are_below_their_bounds(seed, count, share):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(12, 0.5))
    blocks = tilted_law._blocks(weights, 4)
    tails = tilted_law._Tails([(-5, count, blocks)], -5 * count, 6 * count)
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, weights)
    place = round(tails.mean + 6 * share * tails.spread)
    index = np.arange(len(total)) - 5 * count
    assert total[index >= place].sum() <= tails.above(np.array(place)) * (1 + 1e-12)
    assert total[index <= place].sum() <= tails.below(np.array(place)) * (1 + 1e-12)


@pytest.mark.parametrize("place", [0, 500, 990, 995])
@pytest.mark.parametrize("last", [996, 999])
def test_mass_above_the_window_of_a_sum_is_counted_as_lost(place, last):
    weights, slope = np.zeros(1001), 0.01
    weights[[0, 1000]] = 0.4, 0.6  # the last place is never in the window
    law: Any = SimpleNamespace(upper=True, step=3.0, top=1000)
    tails = tilted_law._Tails([(0, 1, tilted_law._blocks(weights, 2000))], 0, 1000)
    tilted = tilted_law.Tilted(law, slope, 0.0, 0.0, tails, last, weights[: last + 1], 0.0)
    lacking = 0.6 * math.exp(-slope * (1000 - place)) * -math.expm1(-law.step * (1000 - place))
    assert lacking <= float(tilted.lost(np.array(place), 1.0)) <= 1.08 * lacking


@pytest.mark.parametrize("upper", [True, False])
def test_the_logarithm_of_a_sum_is_rounded_outwards_with_its_margins(upper):
    law: Any = SimpleNamespace(upper=upper, step=0.1, top=1000)
    tilted = tilted_law.Tilted(law, 0.3, -3.0, 1e-9, cast("tilted_law._Tails", None), 40, np.zeros(64), 0.0)
    values, places, lost = np.array([0.3, 1e-5, 1e-9]), np.array([-7, 0, 33]), np.array([1e-3, 2e-12, 1e-20])
    side = 1 if upper else -1
    with mp.workdps(40):
        for value, place, off, got in zip(values, places, lost, tilted.logs(values, places, lost), strict=True):
            exact = -3 - mp.mpf(0.3) * int(place) + mp.log(mp.mpf(float(value)) + side * mp.mpf(float(off)))
            assert 1e-9 <= side * (mp.mpf(float(got)) - exact) <= 1.1e-9


# Whole compositions ----------------------------------------


def binomial_delta(epsilon, n, eps):
    """δ of n-fold ε-DP at ``eps``, in many digits."""
    e = mp.mpf(epsilon)
    more = 1 / (1 + mp.exp(-e))
    return mp.fsum(
        mp.binomial(n, k) * more**k * (1 - more) ** (n - k) * -mp.expm1(eps - (2 * k - n) * e)
        for k in range(n + 1)
        if (2 * k - n) * e > eps
    )


@deep_examples(30, 100, e=st.floats(1e-4, 2), n=st.integers(1, 60), share=st.floats(0, 1))
@example(e=1.0601097304625864, n=5, share=1.0)  # half an ulp below the largest loss
@example(e=1.0, n=11, share=1.0)  # the largest loss itself, where δ is 0
def test_pure_compositions_against_the_binomial_in_many_digits(e, n, share):
    event, eps = compose((PureDP(e), n)), share * n * e
    with mp.workdps(60):
        exact = binomial_delta(e, n, mp.mpf(eps))
        upper, lower = loss_distribution.delta(event, eps), loss_distribution.delta(event, eps, upper=False)
        assert lower <= exact <= upper
        # δ falls from its value a loss before: where ε stands between two losses is known to a few units of 2⁻⁵³
        rounded = 2.0**-49 * (1 + n) * binomial_delta(e, n, mp.mpf(eps) - e)
        assert upper <= exact * (1 + 1e-6) + 1e-11 * math.exp(-abs(eps)) + rounded + 1e-280


LEAF = st.one_of(
    st.builds(PureDP, st.floats(0.01, 2)),
    st.builds(RandomizedResponse, st.floats(0.01, 2), st.integers(3, 6)),
    st.builds(
        lambda k, kappa: LazySwitchDecision(k, kappa).orientations()[0], st.floats(0.05, 0.95), st.floats(0.01, 1)
    ),
    st.builds(
        lambda k, kappa: LazySwitchDecision(k, kappa).orientations()[1], st.floats(0.05, 0.95), st.floats(0.01, 1)
    ),
)


@deep_examples(
    10,
    60,
    parts=st.lists(st.tuples(LEAF, st.integers(1, 4)), min_size=1, max_size=3),
    shares=st.lists(st.floats(0, 1), min_size=3, max_size=3),
)
@example(parts=[(LazySwitchDecision(0.75, 1.0).orientations()[0], 4)], shares=[0.0, 0.0, 1.0])
def test_mixed_atoms_against_enumeration_without_tolerance(parts, shares):
    law = {mp.mpf(0): mp.mpf(1)}
    event = compose(*parts)
    with mp.workdps(40):
        for leaf, count in parts:
            pair = leaf.pair()
            for _ in range(count):
                grown: dict[Any, Any] = {}
                for loss, mass in law.items():
                    for x, p in zip(pair.losses, pair.p, strict=True):
                        key = loss + mp.mpf(x)
                        grown[key] = grown.get(key, 0) + mass * mp.mpf(p)
                law = grown
        wanted = np.array([share * max(float(max(law)), 0.0) for share in shares])
        q = {loss: mass * mp.exp(-loss) for loss, mass in law.items()}
        exacts = [mp.fsum(law[x] - mp.exp(mp.mpf(eps)) * q[x] for x in law if x > eps) for eps in wanted]
        for upper in (True, False):
            many = loss_distribution.deltas(event, wanted, upper=upper)
            for eps, exact, several in zip(wanted, exacts, many, strict=True):
                for got in (loss_distribution.delta(event, float(eps), upper=upper), several):
                    assert got >= exact if upper else got <= exact
                    assert abs(got - exact) <= 2e-3


def gaussian_epsilon(mu, d):
    """The exact ε of μ-Gaussian-DP in many digits (Balle & Wang 2018, Thm 8)."""
    with mp.workdps(60):
        m = mp.mpf(mu)
        f = lambda e: mp.log(exact_gaussian_delta(m, e)) - mp.log(mp.mpf(d))  # noqa: E731
        if f(mp.mpf(0)) <= 0:
            return mp.mpf(0)
        low, high = mp.mpf(0), m * m / 2 + m * mp.sqrt(-2 * mp.log(mp.mpf(d)))
        for _ in range(90):
            middle = (low + high) / 2
            low, high = (middle, high) if f(middle) > 0 else (low, middle)
        return high


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mu", "count", "d"),
    diagonal(
        [(1.0, 1), (1.0, 100), (0.01, 10), (7.0, 30), (1.0, 10**4), (1.0, 10**6), (1e-5, 7)], [1e-6, 1e-30, 1e-3, 1e-12]
    ),
)
def test_gaussians_composed_on_the_grid_are_within_a_millionth_of_the_closed_form(mu, count, d):
    """B7: bounds are from above at every δ and count, without using the closed form."""
    noise = Gaussian(math.sqrt(count) / mu)
    exact = gaussian_epsilon(mp.sqrt(count) / mp.mpf(noise.noise_multiplier), d)
    upper, lower = (loss_distribution.epsilon(compose((noise, count)), d, upper=side) for side in (True, False))
    assert lower <= exact <= upper
    loose = 1e-6 if count < 10**6 else 1e-5  # as fine a grid as memory allows
    assert upper <= exact + loose * (exact + mp.mpf(mu) / 10)  # near ε = 0 the accuracy is that of the loss's size
    assert lower >= exact - 3 * loose * (exact + mp.mpf(mu) / 10)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "q, sigma, n, d, expected",
    [
        (0.01, 0.8, 1000, 1e-6, 3.706185469),
        (0.01, 0.8, 1000, 1e-12, 6.992031146),
        pytest.param(0.001, 1.1, 10**5, 1e-12, 2.472984603, marks=pytest.mark.deep),
        pytest.param(0.01, 0.8, 10**4, 1e-6, 11.183164195, marks=pytest.mark.deep),
        pytest.param(0.001, 1.1, 10**5, 1e-6, 1.584011722, marks=pytest.mark.deep),
    ],
)
def test_sampled_gaussians_against_contour_integrals(q, sigma, n, d, expected):
    """Golden values, to nine digits: inversion of the characteristic function along a vertical line, by quadrature."""
    for_each = [compose((way, n)) for way in PoissonSampled(q, Gaussian(sigma)).directions()]
    upper, lower = (
        max(loss_distribution.epsilon(event, d, upper=side) for event in for_each) for side in (True, False)
    )
    assert expected * (1 - 1e-9) <= upper <= expected * (1 + 1e-6)
    assert expected * (1 - 1e-5) <= lower <= expected * (1 + 1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("d, expected", [pytest.param(1e-6, 2.082021523, marks=pytest.mark.deep), (1e-12, 4.957929492)])
def test_twenty_different_events_against_contour_integrals(d, expected):
    def world(way):
        return compose(
            *(Gaussian(10.0 + i) for i in range(8)),
            *(Laplace(20.0 + 2 * i) for i in range(6)),
            *((PoissonSampled(0.01, Gaussian(0.8 + 0.1 * i)).directions()[way], 50) for i in range(6)),
        )

    upper, lower = (
        max(loss_distribution.epsilon(world(way), d, upper=side) for way in (0, 1)) for side in (True, False)
    )
    assert expected * (1 - 1e-9) <= upper <= expected * (1 + 1e-6)
    assert expected * (1 - 1e-5) <= lower <= expected * (1 + 1e-9)


@pytest.mark.parametrize("d, expected", [(1e-6, 18.950287368), (1e-12, 26.021301256)])
def test_laplace_noise_against_contour_integrals(d, expected):
    event = compose((Laplace(10), 1000))
    assert expected * (1 - 1e-9) <= loss_distribution.epsilon(event, d) <= expected * (1 + 1e-7)
    assert expected * (1 - 1e-6) <= loss_distribution.epsilon(event, d, upper=False) <= expected * (1 + 1e-9)


ANY = st.one_of(
    LEAF,
    st.builds(Gaussian, st.floats(0.5, 50)),
    st.builds(Laplace, st.floats(0.5, 50)),
    st.builds(BoundedRange, st.floats(0.001, 1)),
    st.builds(lambda r, w: VisibleMixture(r, BoundedRange(w)), st.floats(0.01, 0.99), st.floats(0.01, 1)),
    st.builds(lambda a, b: parallel(Laplace(a), PureDP(b)), st.floats(0.5, 5), st.floats(0.1, 2)),
    st.builds(
        lambda q, s, way: PoissonSampled(q, Gaussian(s)).directions()[way],
        st.floats(0.01, 0.9),
        st.floats(0.5, 5),
        st.integers(0, 1),
    ),
)


@deep_examples(
    20,
    60,
    parts=st.lists(st.tuples(ANY, st.integers(1, 30)), min_size=1, max_size=3),
    d=st.sampled_from([0.1, 1e-3, 1e-6, 1e-13, 1e-30]),
)
def test_epsilon_and_delta_bracket_each_other(parts, d):
    event = compose(*parts)
    upper, lower = loss_distribution.epsilon(event, d), loss_distribution.epsilon(event, d, upper=False)
    assert 0.0 <= lower <= upper
    if upper < math.inf:
        assert loss_distribution.delta(event, upper, upper=False) <= d * (1 + 1e-12)
        assert loss_distribution.delta(event, upper) <= d * (1 + 1e-5) + 16 * U * (1 + upper)  # the rounding of ε
    if lower > 0.0:
        assert loss_distribution.delta(event, lower) >= d * (1 - 1e-12)


@deep_examples(10, 30, event=ANY, n=st.integers(1, 20), seed=st.integers(0, 2**32 - 1))
def test_many_epsilons_at_once_agree_with_one_at_a_time(event, n, seed):
    whole = compose((event, n))
    low, high = whole.loss_support()
    wanted = np.random.default_rng(seed).uniform(0, max(high, 1e-3), (3, 4))
    above, below = (loss_distribution.deltas(whole, wanted, upper=side) for side in (True, False))
    assert above.shape == (3, 4)
    assert (below <= above).all()
    order = np.argsort(wanted.ravel())
    assert (np.diff(above.ravel()[order]) <= 1e-6 * above.ravel()[order][:-1]).all()
    for eps, up, down in zip(wanted.ravel()[::4], above.ravel()[::4], below.ravel()[::4], strict=True):
        one, other = loss_distribution.delta(whole, float(eps)), loss_distribution.delta(whole, float(eps), upper=False)
        assert down <= one and other <= up
        assert up == pytest.approx(one, rel=1e-4, abs=1e-280)


@pytest.mark.statistical
def test_a_curve_shares_its_laws_and_is_not_refined_where_it_is_negligible(monkeypatch):
    """Additions have losses up to 10·ln(1/0.99), just below which every ε took a law of its own."""
    event = compose((PoissonSampled(0.01, Gaussian(0.6), "addition"), 10))
    coarse = np.append(np.linspace(0.0, 0.09, 10), np.linspace(0.092, 0.1005, 60))
    fine = np.sort(np.append(coarse, (coarse[1:] + coarse[:-1]) / 2))
    calls = spied(monkeypatch, loss_distribution, "_computed")
    whole = loss_distribution.deltas(event, coarse)
    alone = len(calls)
    calls.clear()
    curve = loss_distribution.Curve(event, negligible=1e-16)
    found = curve.deltas(coarse)
    first = len(calls)
    finer = curve.deltas(fine)
    assert 2 * first <= alone
    for many in (found, finer[::2]):
        assert (many >= whole * (1 - 1e-6)).all() and (many < 1e-16)[whole < 1e-30].all()
        assert many[whole > 1e-16] == pytest.approx(whole[whole > 1e-16], rel=1e-4)
    assert (np.diff(finer) <= 1e-6 * finer[:-1]).all()
    assert (whole < 1e-16).sum() >= 2  # else nothing is tested
    calls.clear()
    wide = loss_distribution.Curve(event)
    wide.deltas(coarse[:10])
    first = len(calls)
    wide.deltas(np.linspace(0.0, 0.09, 200))
    assert len(calls) == first  # where δ does not fall steeply, a second call takes no law


def test_an_empty_array_of_epsilons_gives_an_empty_array():
    assert loss_distribution.deltas(Laplace(1), np.zeros(0)).shape == (0,)


def test_many_epsilons_at_once_hold_the_closed_form_of_gaussians():
    event, at = compose((Gaussian(9.0), 30), (Gaussian(12.0), 10)), np.linspace(0.0, 3.5, 40)
    mu = math.sqrt(30 / 81 + 10 / 144)
    exact = gaussian_delta(mu, at)
    above, below = loss_distribution.deltas(event, at), loss_distribution.deltas(event, at, upper=False)
    assert (below <= exact * (1 + 1e-11)).all() and (exact * (1 - 1e-11) <= above).all()
    assert (above <= below * (1 + 1e-4)).all()


def test_from_below_mass_beyond_the_last_grid_point_comes_down_to_it():
    """No mass may be placed above its loss, even in the last cell or beyond it."""
    pair = Atoms((-0.5, 2.04), (0.4, 0.6))
    law = loss_grid._trim(loss_grid.LossPmf(0.1, -10, *loss_grid._lowered(pair, 0.1, [(-10, 20, 1)])))
    assert float(law.losses()[-1]) == pytest.approx(2.0)
    assert 0.6 * (1 - 1e-9) <= float(law.p[-1]) <= 0.6
    for eps in (1.5, 1.99, 2.04):
        assert Profile(law)(eps) <= exact_pair_delta(pair, eps)


@pytest.mark.parametrize("pair", [GaussianPair(0.7), GaussianPair(5.0), ExponentialLossPair(0.3, 0.25, 0.5)])
@pytest.mark.parametrize("step", [0.3, 1e-3])
def test_no_mass_is_lost_from_above_nor_made_up_from_below(pair, step):
    above, below = (loss_grid.from_pair(pair, step, upper) for upper in (True, False))
    assert 1.0 <= math.fsum(above.p) + above.infinity <= 1 + 1e-10
    assert 1 - 1e-6 <= math.fsum(below.p) + below.infinity <= 1.0


@pytest.mark.parametrize("upper", [True, False])
def test_beyond_the_window_next_to_nothing_is_left_from_above_and_nothing_from_below(upper):
    tilted = loss_distribution._computed(compose((Gaussian(20.0), 100)), 10.0, 2.0, upper, False)
    points = loss_distribution.Points(tilted)
    assert tilted.last < tilted.law.top
    for place in (tilted.last, tilted.last + 1, tilted.last + 1000, tilted.law.top, tilted.law.top + 1):
        assert points.log_delta(place) < (-30.0 if upper else -1e300)


@pytest.mark.parametrize(("start", "slope"), [(0, 1.0), (0, 1e-6), (10**9, 1e-6), (10**6, 3.0)])
def test_few_sums_find_a_crossing_where_rare_losses_make_delta_fall_far_less_steeply_than_the_tilt(start, slope):
    asked: list[int] = []

    def log_delta(place: int) -> float:
        asked.append(place)
        return float(-slope * place)

    law = SimpleNamespace(upper=True)
    tilted = SimpleNamespace(law=law, slope=1.0, tails=None)
    points: Any = SimpleNamespace(tilted=tilted, top=10**9, start=start, log_delta=log_delta)
    assert loss_distribution._crossing(points, -slope * (10**6 + 0.5)) == 10**6
    assert len(asked) < 100


def test_the_default_direction_is_the_upper_bound():
    event = compose((RandomizedResponse(0.3), 4))
    assert (
        loss_distribution.delta(event, 0.5)
        == loss_distribution.delta(event, 0.5, upper=True)
        > loss_distribution.delta(event, 0.5, upper=False)
    )
    assert (
        loss_distribution.epsilon(event, 0.1)
        == loss_distribution.epsilon(event, 0.1, upper=True)
        > loss_distribution.epsilon(event, 0.1, upper=False)
    )
    at = np.array([0.1, 0.5])
    assert (loss_distribution.deltas(event, at) == loss_distribution.deltas(event, at, upper=True)).all()
    assert (loss_distribution.deltas(event, at) > loss_distribution.deltas(event, at, upper=False)).all()


def test_the_search_for_an_order_takes_a_bound_that_is_the_same_at_all():
    for level in (1.0, 0.0, math.inf):
        assert renyi._search(partial(np.full_like, fill_value=level))[0] == level


@pytest.mark.parametrize("mu", [1e-3, 1.0, 30.0, 300.0])
def test_cells_of_gaussian_pairs_of_any_distance(mu):
    z = np.linspace(-8.0, 8.0, 17)
    cells = GaussianPair(mu).cells(mu**2 / 2 + mu * z)
    np.testing.assert_allclose(cells.p, np.diff(stats.norm.cdf(z)), rtol=1e-9, atol=1e-17)


def test_a_maximum_that_a_coarse_grid_cannot_represent_is_refused():
    first = loss_grid.LossPmf(30.0, 2, np.array([3e-14, 0.0, 1.5e-11]), 1 - 1.503e-11)
    second = loss_grid.LossPmf(30.0, 4, np.array([2e-3]), 1 - 2e-3)
    with pytest.raises(NumericalError, match="2 profiles can't be represented on a grid of 30"):
        loss_grid.maximum([first, second], True)


def test_laws_without_a_finite_loss():
    """No mass is invented for them, and the mass at infinity is at most 1."""
    none = [loss_grid.LossPmf(0.1, start, np.zeros(1), 1.0) for start in (0, 3)]
    worst = loss_grid.maximum(none, True)
    assert worst.infinity == 1.0 and not worst.p.any()
    over = loss_grid._trim(loss_grid.LossPmf(0.1, 0, np.array([0.0, 1e-20]), math.nextafter(1.0, 2.0)))
    assert over.infinity == 1.0 and over.start == 1


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("step", [0.3, 1e-3])
def test_where_an_epsilon_is_between_two_grid_points_is_rounded_outwards(step, upper):
    """δ increases as the stated share of the upper point decreases."""
    rng = np.random.default_rng(9)
    at = np.concatenate([rng.uniform(0, 40, 200), np.arange(60) * step, np.nextafter(np.arange(1, 60) * step, 0)])
    law: Any = SimpleNamespace(step=step, upper=upper)
    places, shares = loss_distribution.between(law, at)
    with mp.workdps(40):
        for epsilon, place, share in zip(at.tolist(), places.tolist(), shares.tolist(), strict=True):
            exact = mp.expm1(mp.mpf(epsilon) - place * mp.mpf(step)) / mp.expm1(step)
            assert share <= max(exact, 0) if upper else share >= min(exact, 1)
            assert share == pytest.approx(float(exact), abs=1e-14 * (1 + place) / min(1.0, step) + 1e-15)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("infinity", [0.0, 1e-9, 0.3])
def test_a_delta_between_two_grid_points_is_rounded_outwards(infinity, upper):
    law: Any = SimpleNamespace(infinity=infinity, upper=upper)
    rng = np.random.default_rng(8)
    logs, shares = np.append(-rng.exponential(3.0, (2, 60)) - 0.7, np.full((2, 4), -math.inf), axis=1), rng.random(64)
    got = loss_distribution.values(law, logs, shares)
    with mp.workdps(40):
        for low, high, share, value in zip(*logs.tolist(), shares.tolist(), got.tolist(), strict=True):
            exact = infinity + (1 - mp.mpf(share)) * mp.exp(low) + share * mp.exp(high)
            assert (exact <= value) if upper else (value <= exact)
            assert value == pytest.approx(float(exact), rel=1e-13, abs=1e-280)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize(
    "event",
    [compose((PureDP(0.5), 6)), compose((LossDistribution((1.0, -1.0), (0.7, 0.2), 0.1, orientation="forward"), 2))],
)
def test_the_delta_that_finite_losses_may_have_is_rounded_to_the_safe_side(monkeypatch, event, upper):
    """A smaller target has a larger ε; near 1 the rounding of its logarithm is too small to hide a wrong sign."""
    seen: list[tuple[float, float]] = []

    def root(points, target):
        seen.append((points.tilted.law.infinity, target))
        return 1.0, True

    monkeypatch.setattr(loss_distribution, "root_of", root)
    for chance in (0.999, 0.97, 0.9, 0.7, 0.3):
        assert loss_distribution.epsilon(event, chance, upper=upper) == 1.0
        infinity, target = seen.pop()
        with mp.workdps(40):
            exact = mp.log(mp.mpf(chance) - mp.mpf(infinity))
            assert target <= exact if upper else target >= exact
            assert abs(target - exact) <= 1e-14 * (1 + abs(exact))


def test_delta_equal_to_the_infinite_mass_gives_the_largest_finite_loss():
    event = compose((LossDistribution((1.0, -1.0), (0.7, 0.2), 0.1, orientation="forward"), 3))
    rough = grid_plan.sketch(event)
    assert rough.infinity == pytest.approx(1 - 0.9**3, rel=1e-12)
    for upper in (True, False):
        law = loss_distribution._law(event, upper, True, 0)
        got = loss_distribution.epsilon(event, law.infinity, upper=upper)
        assert got >= 3.0 if upper else 3.0 * (1 - 1e-9) <= got <= 3.0


@pytest.mark.parametrize("coarser", [2, 4])
def test_a_coarser_grid_and_another_tilt_only_move_the_bounds_apart(coarser):
    event = compose((Laplace(3), 40), (Gaussian(5), 20))
    rough = grid_plan.sketch(event)
    d = 1e-8
    tilt, near = rough.for_delta(math.log(d))
    fine = loss_distribution.epsilon(event, d)
    for factor in (0.7, 1.0, 1.4):
        for upper in (True, False):
            law = tilted_law.Law(event, grid_plan.grid(event, upper, coarser=coarser), upper)
            root, _ = loss_distribution.root_of(
                loss_distribution.Points(law.tilted(factor * tilt, near)), math.log(d - law.infinity)
            )
            assert root >= fine * (1 - 1e-6) if upper else root <= fine
            assert root == pytest.approx(fine, rel=5e-3)


def test_the_round_off_of_transforms_is_added_to_the_infinite_mass():
    """Two transforms ahead, one back and the product, each by its own bound, of laws with known norms."""
    n, size = 10_000, 2**15
    law = loss_grid.LossPmf(0.1, 0, np.full(n, 1.0 / n), 0.0)
    found = loss_grid._convolve(law, law, True).infinity
    assert found >= (3 * fft_round_off.transform(size) + fft_round_off.COMPLEX_PRODUCT) * math.sqrt(size / n)
    assert found <= 1.1 * (3 * fft_round_off.transform(size) + fft_round_off.COMPLEX_PRODUCT) * math.sqrt(size / n)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("tilt", [0.1, 10.0, 500.0])
def test_the_moment_of_a_tilted_sum_is_within_its_margin(tilt, upper):
    law = tilted_law.Law(compose((Laplace(1.0), 100), (PureDP(0.5), 7)), 0.01, upper)
    sum_ = law.tilted(tilt, 30.0)
    with mp.workdps(40):
        exact = mp.mpf(0)
        for pmf, count in law.parts:
            at = enumerate(pmf.p, pmf.start)
            exact += count * mp.log(mp.fsum(mp.mpf(float(p)) * mp.exp(mp.mpf(sum_.slope) * i) for i, p in at))
        outwards = 200 * 2.0**-53 * 107 * (1 + abs(sum_.slope) * 100)  # each mass is rounded up, or down
        low, high = (0.0, outwards) if upper else (-outwards, 0.0)
        assert low - sum_.margin <= sum_.k - exact <= high + sum_.margin
    assert 4 * 2.0**-53 * abs(sum_.k) < sum_.margin < 1e-12 * (1 + abs(sum_.k))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "event, d",
    [
        (compose((Gaussian(1e4), 10**7)), 1e-15),
        pytest.param(compose((Laplace(1e6), 10**6)), 1e-9, marks=pytest.mark.deep),
        (compose((PureDP(1e-6), 10**7)), 1e-6),
        (compose((PureDP(1000.0), 50)), 1e-6),
        (Laplace(1e-3), 1e-6),
        (Laplace(1e6), 1e-15),
        (Gaussian(1e8), 1e-15),
    ],
)
def test_brackets_at_extreme_sizes_are_narrow(event: PrivacyEvent, d):
    upper, lower = loss_distribution.epsilon(event, d), loss_distribution.epsilon(event, d, upper=False)
    assert 0.0 < lower <= upper <= lower * 1.05
    assert upper <= event.pure_epsilon() * (1 + 1e-12)


def test_bounds_that_cannot_be_computed_raise_a_typed_error():
    with pytest.raises(NumericalError, match="too small"):
        loss_distribution.epsilon(Laplace(1), 1e-300)
    with pytest.raises(NumericalError, match="beyond"):
        loss_distribution.epsilon(PureDP(1e6), 1e-6)
    with pytest.raises(NumericalError):
        loss_distribution.epsilon(compose((PureDP(1e-9), 10**12)), 1e-6)
    assert (
        loss_distribution.epsilon(Gaussian(1), 1e-60) == math.inf
    )  # less than what is cut off: no bound, but no wrong one
    assert loss_distribution.epsilon(Gaussian(1), 1e-60, upper=False) <= gaussian_epsilon(1.0, 1e-60)


def test_mass_at_infinity_always_counts_in_delta():
    event = compose((LazySwitchDecision(1.0, 1e-3), 5), PureDP(0.5))
    leak = 1 - math.exp(-5e-3)
    assert loss_distribution.epsilon(event, leak * 0.99) == math.inf
    assert loss_distribution.epsilon(event, leak * 1.01) <= 0.5
    assert leak <= loss_distribution.delta(event, 10.0) <= leak * (1 + 1e-12)
    assert leak * (1 - 1e-12) <= loss_distribution.delta(event, 10.0, upper=False) <= leak


# From Rényi curves ----------------------------------------


def in_many_digits(event, orders, values):
    """Yields each order, its divergence and a value, to be compared with a formula in many digits."""
    for numbers in zip(orders, event.rdp(orders), values, strict=True):
        yield (mp.mpf(float(number)) for number in numbers)


@pytest.mark.parametrize("event", [RandomizedResponse(0.5), PureDP(1e-4), Laplace(3), Gaussian(2), Laplace(1e4)])
@pytest.mark.parametrize("d", [0.5, 1e-3, 1e-12])
def test_conversion_of_renyi_curves_is_rounded_up(event, d):
    """Each order's ε by the same formula in many digits (Canonne, Kamath & Steinke 2020, Prop. 12)."""
    orders = 1.0 + np.geomspace(1e-4, 1e9, 60)
    with mp.workdps(50):
        for a, r, value in in_many_digits(event, orders, renyi._epsilons(event, math.log(d), orders)):
            exact = r + mp.log(1 - 1 / a) - (mp.mpf(math.log(d)) + mp.log(a)) / (a - 1)
            assert exact <= value <= exact + 1e-14 * (abs(exact) + 40 / (a - 1) + r)


@pytest.mark.parametrize("event", [PureDP(1e-4), Gaussian(2), Laplace(1e4)])
@pytest.mark.parametrize("eps", [0.0, 0.3, 1000.0])
def test_delta_of_each_order_is_rounded_up(event, eps):
    orders = 1.0 + np.geomspace(1e-4, 1e9, 60)
    with mp.workdps(50):
        for a, r, value in in_many_digits(event, orders, renyi._log_deltas(event, np.array(eps), orders)):
            exact = (a - 1) * (r - mp.mpf(eps) + mp.log(1 - 1 / a)) - mp.log(a)
            assert exact <= value <= exact + 1e-14 * (abs(exact) + (a - 1) * r + 40)


@pytest.mark.parametrize("rho, d", [(1 / 8, 1e-6), (1e-4, 1e-5), (1 / 2, 0.3)])
def test_the_best_order_is_found_to_twelve_digits(rho, d):
    def by_order(log_excess: float) -> float:
        excess = math.exp(log_excess)
        shrink = math.log1p(-1 / (1 + excess))
        return float((1 + excess) * rho + shrink - (math.log(d) + math.log1p(excess)) / excess)

    around = np.linspace(-8.0, 12.0, 400)
    start = float(around[np.argmin([by_order(x) for x in around])])
    best = optimize.minimize_scalar(
        by_order, bounds=(start - 0.06, start + 0.06), method="bounded", options={"xatol": 1e-10}
    ).fun
    assert best * (1 - 1e-12) <= renyi.epsilon(Gaussian(math.sqrt(0.5 / rho)), d) <= best * (1 + 1e-12)


@pytest.mark.parametrize("other", [Laplace(1e30), Gaussian(1e30)])
@pytest.mark.parametrize("d", [1e-3, 1e-8, 1e-12])
def test_a_steep_tilt_gives_no_bound_below_its_window(other, d):
    """Losses far smaller than a step, and one atom; at this δ only the atom has weight under the tilt."""
    exact = 0.1 + math.log1p(-d * (1 + math.exp(-0.1)))  # binary randomised response
    assert loss_distribution.epsilon(compose(other, PureDP(0.1)), d) >= exact * (1 - 1e-12)
    assert loss_distribution.epsilon(compose(other, PureDP(0.1)), d, upper=False) <= exact * (1 + 1e-12)


def test_laws_that_span_too_many_cells_are_refused():
    with pytest.raises(NumericalError, match=r"cells of 1e-09"):
        loss_grid.from_pair(GaussianPair(1.0), 1e-9, True)
    wide = loss_grid.LossPmf(0.1, 0, np.zeros(2**22 + 1), 0.0)
    with pytest.raises(NumericalError, match=f"spans {2**23 + 1} cells"):
        loss_grid.convolution([(wide, 2)], 0.1, True)


@pytest.mark.parametrize("upper", [True, False])
def test_a_non_private_part_makes_the_composition_non_private(upper):
    naked, other = loss_grid.LossPmf(0.1, 0, np.zeros(1), 1.0), loss_grid.LossPmf(0.1, 2, np.array([0.5, 0.5]), 0.0)
    for parts in ([(naked, 1)], [(other, 3), (naked, 1)], [(naked, 2), (other, 1)]):
        law = loss_grid.convolution(parts, 0.1, upper)
        assert law.infinity == 1.0 and not law.p.any()


def test_no_renyi_order_gives_a_finite_epsilon_at_delta_zero():
    assert renyi.epsilon(Gaussian(1.0), 0.0) == math.inf


@pytest.mark.parametrize("upper", [True, False])
def test_the_logarithm_of_a_target_is_rounded_to_the_safe_side(upper, monkeypatch):
    calls = spied(monkeypatch, loss_distribution, "root_of")
    event = compose((Gaussian(10.0), 4))
    with mp.workdps(40):
        for i in range(30):
            wanted = math.exp(-5.0 - 2.0 * i)
            loss_distribution.epsilon(event, wanted, upper=upper)
            exact = mp.log(wanted)
            targets = [call.args[1] for call in calls]
            assert targets and all(t <= exact if upper else t >= exact for t in targets)
            assert targets == pytest.approx([float(exact)] * len(targets), abs=1e-9)
            calls.clear()


def test_sums_for_places_below_the_window_are_those_of_its_places():
    tilted = loss_distribution._computed(compose((Gaussian(10.0), 100)), 40.0, 40.0, True, False)
    assert tilted.first > 1000
    points, steps = loss_distribution.Points(tilted), np.arange(tilted.first, tilted.last + 1)
    for below in (1, 2, 10, 100):
        place = tilted.first - below
        gain = np.exp(-tilted.slope * (steps - place)) * -np.expm1((place - steps) * tilted.law.step)
        exact = tilted.k - tilted.slope * place + math.log(float(tilted.t @ gain))
        assert exact <= points.log_delta(place) <= exact + (1e-9 if below == 1 else 1e-5)


def test_the_constant_of_four_roundings_is_rounded_once():
    exact = 4 * Fraction(U) / (1 - 4 * Fraction(U))
    assert abs(Fraction(fft_round_off._GAMMA_4) / exact - 1) <= U


@pytest.mark.parametrize("tilt", [0.5, 40.0])
def test_the_gain_ends_where_next_to_nothing_is_left_or_beyond_the_window(tilt):
    tilted = loss_distribution._computed(compose((Gaussian(10.0), 100)), tilt, tilt, True, False)
    count = len(tilted.gain())
    assert count * tilted.slope >= tilted_law._BEYOND or count >= max(len(tilted.t), tilted.last + 1)


def test_just_above_an_atom_the_grid_is_as_fine_as_delta_is_steep():
    """Laplace noise has an atom at its largest loss, and a rare sample adds almost nothing to it, so δ(ε) has a
    kink."""
    q, at = math.exp(-6.0), 1e-4

    def of_laplace(t: float) -> float:
        return 0.0 if t >= 1.0 else -math.expm1((t - 1.0) / 2) if t >= -1.0 else -math.expm1(t)

    def exact(eps: float) -> float:
        def density(x: float) -> float:
            p = (1 - q) * math.exp(-x * x / 2) + q * math.exp(-((x - 1) ** 2) / 2)
            return p / math.sqrt(2 * math.pi) * of_laplace(eps - math.log1p(q * math.expm1(x - 0.5)))

        kink = 0.5 + math.log1p(math.expm1(eps - 1.0) / q)
        pieces = [(kink, kink + 1), (kink + 1, kink + 4), (kink + 4, 14.0)]
        return math.fsum(integrate.quad(density, *piece, epsabs=0, epsrel=1e-11)[0] for piece in pieces)

    truth = optimize.brentq(lambda eps: exact(eps) - at, 1.0001, 1.1, xtol=1e-13)
    event = compose(Laplace(1.0), PoissonSampled(q, Gaussian(1.0)))
    found = max(loss_distribution.epsilon(way, at) for way in event.directions())
    assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-6)


@pytest.mark.parametrize("refusal", [tilted_law.TooLarge, NumericalError])
def test_a_finer_grid_that_is_refused_leaves_the_bound_as_it_was(
    monkeypatch: pytest.MonkeyPatch, refusal: type[NumericalError]
) -> None:
    def refused(*_: object) -> float:
        raise refusal("planted")

    event, _ = compose((PoissonSampled(0.01, Gaussian(1.0)), 100)).directions()
    monkeypatch.setattr(loss_distribution, "_finer", lambda *_: 0)
    coarse = loss_distribution.epsilon(event, 1e-6)
    monkeypatch.setattr(loss_distribution, "_finer", lambda *_: 1)
    monkeypatch.setattr(loss_distribution, "_again", refused)
    assert loss_distribution.epsilon(event, 1e-6) == coarse
