"""Tests of buffered filters: dense linear algebra, exact fractions for the rounding, and losses of jax_privacy."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from hockeystick.accounting import Gaussian, InvalidArgumentError, matrix_sensitivity
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms import MatrixMechanism, SimulationNoise, factorisations
from hockeystick.mechanisms.streams.buffer_search import best
from hockeystick.mechanisms.streams.buffered_filters import BufferedToeplitz, _share
from hockeystick.mechanisms.streams.factor_encoders import UNIT

ONE = BufferedToeplitz(12, (0.9, 0.5), (0.2, 0.3))


def dense(f: BufferedToeplitz) -> FloatArray:
    column = [1.0, *(sum(w * d**i for d, w in zip(f.decays, f.weights, strict=True)) for i in range(f.steps - 1))]
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(f.steps)] for i in range(f.steps)])


def test_it_is_the_matrix_of_its_coefficients() -> None:
    c, sums = dense(ONE), np.tril(np.ones((12, 12)))
    assert np.allclose(ONE.matrix(), c, rtol=1e-14)
    b = sums @ np.linalg.inv(c)
    assert np.allclose(ONE.variances(), (b**2).sum(axis=1), rtol=1e-12)
    y = np.random.default_rng(1).normal(size=(3, 12, 2))
    assert np.allclose(ONE.decode(y), b @ y)
    decays, weights = ONE.inverse()
    inverse = [1.0, *((weights * decays**i).sum() for i in range(11))]
    assert np.allclose(np.linalg.inv(c)[:, 0], inverse)
    shift, errors = np.random.default_rng(2).normal(size=(12, 2)), np.random.default_rng(3).normal(size=(4, 12, 2))
    score = np.einsum("td,rtd->r", np.linalg.inv(b @ b.T) @ (sums @ shift), errors)
    assert np.allclose(ONE.projected(shift, errors), score)


@pytest.mark.parametrize(("count", "gap"), [(1, 1), (3, 4), (4, 3), (2, 5), (12, 1), (2, 1), (5, 5)])
def test_sensitivity_is_that_of_the_matrix(count: int, gap: int) -> None:
    found = ONE.participation_sensitivity(participations=count, separation=gap)
    assert found.exact
    exact = matrix_sensitivity(dense(ONE), participations=count, separation=gap)
    assert exact * (1 - 1e-14) <= found.value <= exact * (1 + 1e-12)


def test_shares_are_exact_floors() -> None:
    rng = np.random.default_rng(4)
    whole = np.concatenate([rng.integers(-(2**61), 2**61, size=50), [0, 1, -1, 2**61, -(2**61)]])
    for factor in (0.0, 1.0, 1 - 2.0**-30, 2.0**-30, ONE.decays[0]):
        exact = [math.floor(Fraction(factor) * int(w)) for w in whole]
        assert _share(factor, whole).tolist() == exact


@pytest.mark.parametrize("size", [1, 10**6, 3 * 10**12])
def test_the_encoder_is_off_by_at_most_its_rounding_and_downwards(size: int) -> None:
    values = np.random.default_rng(5).integers(-size, size + 1, size=(12, 3))
    assert size * ONE.amplification() <= 2**62
    found = ONE.encode(values)
    theta, omega = [Fraction(d) for d in ONE.decays], [Fraction(w) for w in ONE.weights]
    off = []
    for entry in range(3):
        states = [Fraction(0)] * 2
        for t in range(12):
            x = int(values[t, entry]) * 2**16
            y = x + sum(w * s for w, s in zip(omega, states, strict=True))
            states = [d * s + x for d, s in zip(theta, states, strict=True)]
            off.append(y - int(found[t, entry]))
    assert min(off) >= 0
    assert max(off) <= ONE.rounding()
    assert max(off) > 0


def test_the_noise_of_a_release_covers_the_rounding() -> None:
    """The scale in units is at least σ·(S·(Δ + √d·step) + E·√(T·d)·step·2^-16)/(S·Δ) over the unit."""
    mechanism = MatrixMechanism(ONE, 3.0, sensitivity=2.0, participations=2, separation=4)
    reach = ONE.sensitivity(participations=2, separation=4)
    scale, step = mechanism._on_grid(10)
    moved = reach * (2.0 + math.sqrt(10) * step) + ONE.rounding() * UNIT * math.sqrt(12 * 10) * step
    assert scale * step * UNIT >= 3.0 * moved / (reach * 2.0)
    assert scale * step * UNIT <= 3.0 * 1.001
    # a filter with long memory needs a finer grid, and not much more noise
    slow = BufferedToeplitz(10**6, (1 - 2.0**-20,), (0.5,))
    scale, step = MatrixMechanism(slow, 3.0)._on_grid(10**4)
    assert scale * step * UNIT == pytest.approx(3.0, rel=1e-3)


def test_a_running_release_equals_the_release_at_once() -> None:
    mechanism = MatrixMechanism(ONE, 1e-3)
    values = np.random.default_rng(6).normal(size=(12, 2))
    stream = mechanism.stream((2,), noise=SimulationNoise(3))
    found = []
    for t, value in enumerate(values):
        if t == 7:
            stream = pickle.loads(pickle.dumps(stream))  # a checkpoint
        found.append(stream.add(value))
    assert np.allclose(found, np.cumsum(values, axis=0), atol=0.05)
    whole = mechanism.release(values, noise=SimulationNoise(3))
    assert np.allclose(whole.value if hasattr(whole, "value") else whole, np.cumsum(values, axis=0), atol=0.05)
    state = stream._state
    assert len(state._sums) + len(state._estimates) == 4  # type: ignore[attr-defined]


def test_the_cost_is_one_gaussian_at_the_sensitivity() -> None:
    mechanism = MatrixMechanism(ONE, 5.0, participations=3, separation=4)
    assert mechanism.event() == Gaussian(5.0).at(ONE.sensitivity(participations=3, separation=4))


# jax_privacy 8967688, buffered_toeplitz.optimize: the square root of the loss, in 14 to 95 CPU seconds each
LOSSES = [
    (1000, 1, 1, "max", 2, 3.3212617376501186),
    pytest.param(1000, 1, 1, "max", 4, 3.2653795260946317, marks=pytest.mark.deep),
    pytest.param(1000, 100, 10, "max", 2, 14.952974918635913, marks=pytest.mark.deep),
    (1000, 100, 10, "mean", 2, 12.193851565550721),
    pytest.param(10000, 1, 1, "max", 2, 4.215848112983548, marks=pytest.mark.deep),
    (10000, 1, 1, "max", 4, 4.003116867750962),
    pytest.param(10000, 1000, 10, "mean", 2, 14.583607052033411, marks=pytest.mark.deep),
    pytest.param(10000, 1000, 10, "mean", 4, 14.510680812120478, marks=pytest.mark.deep),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("steps", "gap", "count", "error", "buffers", "theirs"), LOSSES)
def test_the_search_finds_what_jax_privacy_finds(
    steps: int, gap: int, count: int, error: str, buffers: int, theirs: float
) -> None:
    found = factorisations.blt(steps, buffers, participations=count, separation=gap, error=error)  # type: ignore[arg-type]
    kind = found.max_error if error == "max" else found.root_mean_square_error
    assert kind(participations=count, separation=gap) <= theirs * (1 + 1e-6)


# jax_privacy 8967688, toeplitz.optimize_banded_toeplitz(1000, 10)
def test_the_optimised_band_is_that_of_jax_privacy() -> None:
    band = factorisations.optimised_band(1000, 10)
    assert band.root_mean_square_error() == pytest.approx(7.590657143717792, rel=1e-6)


@pytest.mark.statistical
def test_the_search_is_reproducible_and_chooses_its_buffers() -> None:
    first, second = best(200, 2, 3, 50, False), best(200, 2, 3, 50, False)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    chosen = factorisations.blt(200, participations=3, separation=50)
    fewer = factorisations.blt(200, 1, participations=3, separation=50)
    assert chosen.max_error(participations=3, separation=50) <= fewer.max_error(participations=3, separation=50)
    assert chosen.max_error(participations=1) >= factorisations.lower_bound(200)


@pytest.mark.parametrize(("n", "band"), [(9, 3), (9, 1), (9, 9), (30, 5)])
def test_the_banded_inverse_has_a_banded_inverse(n: int, band: int) -> None:
    c = factorisations.banded_inverse(n, band).matrix()
    inverse = np.linalg.inv(c)
    assert np.allclose(np.tril(inverse, -band), 0.0, atol=1e-3)  # coefficients of C are rounded to 2^-16
    root = np.linalg.inv(factorisations.square_root(n).matrix())
    assert np.allclose(np.triu(inverse, 1 - band), np.triu(root, 1 - band), atol=1e-3)
    found = factorisations.banded_inverse(n, band).participation_sensitivity(participations=2, separation=4)
    assert found.exact


@pytest.mark.parametrize(
    ("decays", "weights", "message"),
    [
        ((0.9,), (0.2, 0.3), "one for each decay"),
        ((1.0,), (0.2,), "hold a 1"),
        ((0.9, 0.5), (0.6, 0.6), "increase"),
        ((0.9,), (-0.1,), "weights"),
        ((1.5,), (0.1,), "decays"),
        ((math.nan,), (0.1,), "decays"),
    ],
)
def test_bad_buffers_are_refused(decays: tuple[float, ...], weights: tuple[float, ...], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        BufferedToeplitz(10, decays, weights)


def test_discounted_sums_are_those_of_the_dense_matrices() -> None:
    discount, steps = 0.8, 30
    f = BufferedToeplitz(steps, (0.9 * discount, 0.4 * discount), (0.2 * discount, 0.3 * discount), discount=discount)
    age = np.subtract.outer(np.arange(steps), np.arange(steps))
    sums = np.tril(discount ** np.maximum(age, 0))
    decoder, x = sums @ np.linalg.inv(f.matrix()), np.random.default_rng(1).normal(size=(steps, 2))
    plain = BufferedToeplitz(steps, (0.9, 0.4), (0.2, 0.3))
    assert f.coefficients() == pytest.approx(plain.coefficients() * discount ** np.arange(steps), abs=1e-8)
    assert f.variances() == pytest.approx((decoder**2).sum(axis=1))
    np.testing.assert_allclose(f.apply(x), sums @ x)
    np.testing.assert_allclose(f.decode(x[None])[0], decoder @ x)
    np.testing.assert_allclose(
        f.projected(x, x[None] + 1.0), [np.sum((sums @ x) * (np.linalg.inv(decoder @ decoder.T) @ (x + 1.0)))]
    )
    mechanism = MatrixMechanism(f, 1e-9)
    stream = mechanism.stream((2,), noise=SimulationNoise(1))
    for found in (np.array([stream.add(row) for row in x]), mechanism.release(x, noise=SimulationNoise(1))):
        np.testing.assert_allclose(found, sums @ x, atol=1e-6)


@pytest.mark.statistical
def test_discounted_buffers_are_about_as_good_as_the_root() -> None:
    """Whose largest error is 2 K(γ²)/π, within the rounding of its coefficients; it grows without a discount."""
    root = factorisations.square_root(5000, discount=0.97)
    assert root.max_error() == pytest.approx(2 * special.ellipk(0.97**2) / math.pi, rel=1e-4)
    assert len(root.coefficients) < 400
    assert factorisations.square_root(5000).max_error() > 1.5 * root.max_error()
    assert factorisations.blt(5000, 2, discount=0.97).max_error() < 1.05 * root.max_error()


@pytest.mark.parametrize("discount", [0.0, 1.5, math.nan, "a"])
def test_bad_discounts_are_refused(discount: float) -> None:
    for call in (factorisations.square_root, lambda steps, discount: factorisations.blt(steps, 1, discount=discount)):
        with pytest.raises(InvalidArgumentError, match="discount"):
            call(5, discount=discount)
