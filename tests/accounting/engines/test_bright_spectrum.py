"""Tests of high powers of accurate transforms against sums in 50 digits."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from hockeystick.accounting.engines import bright_spectrum, tilted_law

SIZE = 128


def law(seed: int, length: int, rare: float) -> np.ndarray:
    """An atom near the lower end, and ``rare`` mass beside it, some of it far away."""
    weights = rare * np.random.default_rng(seed).dirichlet(np.full(length, 0.3))
    weights[2] = 1.0 - rare
    return weights


def exact_transform(weights: np.ndarray, k: int, size: int = SIZE) -> mp.mpc:
    turn = mp.mpf(2) * mp.pi * k / size
    return mp.fsum(mp.mpf(float(w)) * mp.expj(-turn * (i - 2)) for i, w in enumerate(weights))


@pytest.mark.parametrize("products", [2**22, 2**10])  # with the second some cells are far
@pytest.mark.parametrize("rare", [1e-12, 1e-5, 0.05, 0.6])
@pytest.mark.every(3)
def test_the_logarithm_is_within_its_error(monkeypatch: pytest.MonkeyPatch, products: int, rare: float) -> None:
    monkeypatch.setattr(bright_spectrum, "_PRODUCTS", products)
    weights, k = law(3, 100, rare), np.arange(0, SIZE // 2 + 1)
    found = bright_spectrum.log_transform(weights, 2, SIZE, k)
    if found is None:
        assert products == 2**10 and rare == 0.6  # too much is far
        return
    with mp.workdps(50):
        for i, log_z, off in zip(k, *found, strict=True):
            missed = abs(mp.exp(mp.mpc(complex(log_z))) / exact_transform(weights, int(i)) - 1)
            assert missed <= off
            assert off <= 1e-12 * rare + 2e-15 * abs(complex(log_z))


def test_many_frequencies_are_refused() -> None:
    assert bright_spectrum.log_transform(law(3, 100, 1e-5), 2, 2**22, np.arange(2**20)) is None


@pytest.mark.statistical
@pytest.mark.parametrize("products", [2**22, 2**9])
def test_high_powers_are_within_an_error_that_is_small(monkeypatch: pytest.MonkeyPatch, products: int) -> None:
    """The sum spreads over a hundred cells and more; frequencies from 50 on are below 1e-40."""
    monkeypatch.setattr(bright_spectrum, "_PRODUCTS", products)
    monkeypatch.setattr(tilted_law, "_FELT", 0.0)
    size, counts = 1024, (20_000, 500)
    laws = [np.array([0.3, 0.2, 0.45, 0.04999, 0.0, 0.0, 1e-5]), np.array([0.1, 0.3, 0.4, 0.2])]
    careful, plain = tilted_law._Spectrum(size, careful=True), tilted_law._Spectrum(size)
    for spectrum in (careful, plain):
        for weights, count in zip(laws, counts, strict=True):
            spectrum.multiply(weights, 2, count)
    (got, error), (rough, rough_error) = (spectrum.inverse(sum(counts), 0) for spectrum in (careful, plain))
    with mp.workdps(50):
        powers = [
            mp.fprod(exact_transform(weights, k, size) ** count for weights, count in zip(laws, counts, strict=True))
            for k in range(51)
        ]
        assert abs(powers[-1]) < mp.mpf(10) ** -40
        turns = [mp.expj(2 * mp.pi * i / size) for i in range(size)]
        exact = [
            (powers[0].real + 2 * mp.fsum((powers[k] * turns[k * x % size]).real for k in range(1, 51))) / size
            for x in range(size)
        ]
        off, rough_off = (
            math.sqrt(math.fsum(float(mp.mpf(float(a)) - b) ** 2 for a, b in zip(t, exact, strict=True)))
            for t in (got, rough)
        )
    assert off <= error and rough_off <= rough_error
    assert careful.sharp == sum(counts) and error <= 0.05 * rough_error
    assert (got >= 0.0).all()


# Sparse laws ----------------------------------------------------------------------------------------------------------


def sparse_law(seed: int, length: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Most mass at places next to 0, some at ever fewer further away."""
    rng = np.random.default_rng(seed)
    at = np.unique(np.concatenate([np.arange(-12, 30), np.floor(30 * 1.3 ** np.arange(length - 42)).astype(np.int64)]))
    weights = rng.dirichlet(np.exp(-((at / 9.0) ** 2)) + 1e-3)
    return weights, at


@pytest.mark.parametrize("count", [1, 2, 37])
def test_the_logarithm_of_a_sparse_law_is_within_its_error(count: int) -> None:
    weights, at = sparse_law(5)
    size = 2**14
    found = bright_spectrum.sparse_log_transform(weights, at, size, count)
    assert found is not None and len(found[0]) == count
    with mp.workdps(50):
        for k, (log_z, off) in enumerate(zip(*found, strict=True)):
            turn = mp.mpf(2) * mp.pi * k / size
            exact = mp.fsum(mp.mpf(float(w)) * mp.expj(-turn * int(i)) for w, i in zip(weights, at, strict=True))
            assert abs(mp.exp(mp.mpc(complex(log_z))) / exact - 1) <= off <= 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_a_transform_is_nowhere_brighter_than_its_bound_from_an_angle_on(seed: int) -> None:
    weights, at = sparse_law(seed)
    angles = np.geomspace(1e-5, 3.0, 60)
    dim = bright_spectrum.dimming(weights, at, 2**7, angles)
    every = np.concatenate([np.geomspace(1e-5, np.pi, 4000), np.linspace(0.01, np.pi, 4000)])
    size = np.abs(np.exp(-1j * np.multiply.outer(every, at)) @ weights)
    for angle, least in zip(angles, dim, strict=True):
        assert float(size[every >= angle].max()) <= np.exp(-least) * (1 + 1e-12)
    # At small angles −ln|φ| is half the variance times the square, of which most is seen.
    variance = float(weights @ at**2 - (weights @ at) ** 2)
    assert np.all(dim[:10] >= 0.3 * variance * angles[:10] ** 2 / 2)


def test_a_law_that_repeats_itself_has_no_bound() -> None:
    """On even places alone |φ(π)| is 1."""
    weights, at = sparse_law(1)
    assert not bright_spectrum.dimming(weights, 2 * at, 2**7, np.array([0.1, 1.0, 3.0])).any()
