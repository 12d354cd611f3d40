"""Tests of factorisations: algebra and sensitivity by brute force, and errors between the known bounds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.noise.correlated_noise import matrix_sensitivity, tree_encoder, tree_levels
from hockeystick.mechanisms.streams import tree_blocks
from hockeystick.mechanisms.streams.factor_encoders import UNIT, Dense, Toeplitz
from hockeystick.mechanisms.streams.factorisations import identity, lower_bound, optimised_band, square_root

FILTERS = [
    identity(1),
    identity(7),
    square_root(7),
    square_root(9, band=3),
    square_root(8, band=4, workload="stream"),
    optimised_band(9, 3),
    Toeplitz(6, (1.0, -0.5, 2.0)),
    square_root(80),
    square_root(80, workload="stream"),
    square_root(9, discount=0.7),
    square_root(80, discount=0.95),
    Toeplitz(6, (1.0, -0.5, 2.0), discount=0.5),
]


def prefix_matrix(steps: int) -> FloatArray:
    return np.tril(np.ones((steps, steps)))


def workload(f: Toeplitz) -> FloatArray:
    if f.workload == "stream":
        return np.eye(f.steps)
    age = np.subtract.outer(np.arange(f.steps), np.arange(f.steps))
    return prefix_matrix(f.steps) * f.discount ** np.maximum(age, 0)


def largest_move(c: FloatArray, count: int, gap: int) -> float:
    """Over all sets of steps ``gap`` apart and all signs of contributions ±1."""
    worst = 0.0
    for size in range(1, count + 1):
        for chosen in itertools.combinations(range(c.shape[1]), size):
            if all(b - a >= gap for a, b in itertools.pairwise(chosen)):
                for signs in itertools.product((1.0, -1.0), repeat=size - 1):
                    worst = max(worst, float(np.linalg.norm(c[:, list(chosen)] @ np.array([1.0, *signs]))))
    return worst


@pytest.mark.parametrize("f", FILTERS, ids=str)
class TestAlgebra:
    def test_factors_multiply_to_the_workload(self, f: Toeplitz) -> None:
        c = f.matrix()
        assert c.shape == (f.steps, f.steps) and not np.triu(c, 1).any()
        b = workload(f) @ np.linalg.inv(c)
        np.testing.assert_allclose(b[:, 0], f.noise_filter(), atol=1e-9)
        np.testing.assert_allclose((b**2).sum(axis=1), f.variances(), rtol=1e-9)
        y = np.random.default_rng(401).normal(size=(2, f.steps, 3))
        np.testing.assert_allclose(f.decode(y), b @ y, atol=1e-8)
        np.testing.assert_allclose(f.apply(y[0]), workload(f) @ y[0], atol=1e-12)
        np.testing.assert_allclose(f.projected(y[0], y), np.einsum("td,rtd->r", c.T @ c @ y[0], _back(f, y)), rtol=1e-6)

    def test_encoding_is_exact(self, f: Toeplitz) -> None:
        limit = 2**61 // f.amplification()
        n = np.random.default_rng(402).integers(-limit, limit, size=(f.steps, 2), endpoint=True)
        whole = np.rint(f.matrix() / UNIT).astype(np.int64).astype(object)
        np.testing.assert_array_equal(f.encode(n), whole @ n.astype(object))
        assert abs(f.encode(np.full((f.steps, 1), limit))).max() <= 2**61
        np.testing.assert_array_equal(f.matrix(), whole.astype(float) * UNIT)

    @pytest.mark.parametrize(("count", "gap"), [(1, 1), (2, 1), (2, 3), (3, 2), (3, 4)])
    def test_sensitivities_are_at_most_the_general_bound(self, f: Toeplitz, count: int, gap: int) -> None:
        stated = f.sensitivity(participations=count, separation=gap)
        general = matrix_sensitivity(f.matrix(), participations=count, separation=gap)
        assert stated <= general * (1 + 1e-12)
        if f.steps <= 9:
            truth = largest_move(f.matrix(), count, gap)
            assert truth * (1 - 1e-15) <= stated
            if count == 1 or min(f.coefficients) >= 0.0:
                assert stated <= truth * (1 + 1e-12)


def _back(f: Toeplitz, y: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.solve(workload(f), y))


@given(st.lists(st.floats(-2, 2), min_size=0, max_size=4), st.integers(5, 7), st.integers(1, 3), st.integers(1, 6))
def test_sensitivity_is_never_below_brute_force(tail: list[float], steps: int, count: int, gap: int) -> None:
    f = Toeplitz(steps, [1.0, *tail])
    truth = largest_move(f.matrix(), count, gap)
    assert truth * (1 - 1e-15) <= f.sensitivity(participations=count, separation=gap)


def test_bands_narrower_than_the_separation_are_exact_and_need_no_matrix() -> None:
    f = square_root(10, band=3)
    truth = largest_move(f.matrix(), 4, 3)
    assert f.sensitivity(participations=4, separation=3) == pytest.approx(truth, rel=1e-12)
    long = square_root(1 << 20, band=8)
    assert long.sensitivity(participations=10**6, separation=8) == pytest.approx(
        math.sqrt(sum(c * c for c in long.coefficients) * 2**17), rel=1e-5
    )
    bound = Toeplitz(4096, (1.0, -0.5, 0.2)).participation_sensitivity(participations=2, separation=1)
    assert not bound.exact
    shorter = Toeplitz(2048, (1.0, -0.5, 0.2)).sensitivity(participations=2, separation=1)  # up to 2e-12 too large
    assert bound.value >= shorter * (1 - 1e-11)


class TestSquareRoot:
    def test_coefficients_are_the_closed_form(self) -> None:
        found = square_root(30).coefficients
        exact = [math.comb(2 * k, k) / 4**k for k in range(30)]
        np.testing.assert_allclose(found, exact, atol=UNIT / 2)
        assert np.abs(np.linalg.matrix_power(square_root(30).matrix(), 2) - prefix_matrix(30)).max() < 30 * UNIT

    @pytest.mark.parametrize("steps", [2, 3, 10, 100, 1000, 4096])
    def test_errors_lie_between_the_known_bounds(self, steps: int) -> None:
        root = square_root(steps)
        low = lower_bound(steps)
        fixed_point = 1 + steps * UNIT
        assert low <= root.root_mean_square_error() <= root.max_error()
        assert root.max_error() <= (1 + (1 + math.log(max(1, steps - 1))) / math.pi) * fixed_point
        assert root.max_error() - low < 0.45
        exact = np.cumprod(np.concatenate([[1.0], (2 * np.arange(1, steps) - 1) / (2 * np.arange(1, steps))]))
        assert root.max_error() == pytest.approx(float(exact @ exact), rel=2e-3)

    @pytest.mark.parametrize("steps", [1, 2, 5, 33])
    def test_lower_bound_is_the_nuclear_norm(self, steps: int) -> None:
        nuclear = float(np.linalg.norm(prefix_matrix(steps), "nuc"))
        assert lower_bound(steps) == pytest.approx(nuclear / steps, rel=1e-9)
        assert lower_bound(steps) <= nuclear / steps

    @given(st.integers(1, 6), st.integers(0, 2**32))
    def test_no_factorisation_beats_the_lower_bound(self, steps: int, seed: int) -> None:
        encoder = np.random.default_rng(seed).normal(size=(steps + 2, steps))
        found = Dense(encoder)
        assert lower_bound(steps) <= found.root_mean_square_error() <= found.max_error() * (1 + 1e-12)

    def test_a_band_costs_little(self) -> None:
        whole = square_root(64).root_mean_square_error()
        bands = [square_root(64, band=b).root_mean_square_error() for b in (1, 4, 16, 64)]
        assert bands == sorted(bands, reverse=True) and bands[2] < 1.06 * whole and bands[3] == whole
        assert bands[0] == identity(64).root_mean_square_error()


class TestIdentityAndTree:
    def test_errors_of_the_identity_are_closed_forms(self) -> None:
        assert identity(100).max_error() == pytest.approx(10.0, rel=1e-12)
        assert identity(100).root_mean_square_error() == pytest.approx(math.sqrt(50.5), rel=1e-12)
        assert identity(100, workload="stream").max_error() == pytest.approx(1.0, rel=1e-12)

    @pytest.mark.parametrize("steps", [1, 6, 8, 33, 64])
    def test_the_binary_tree_agrees_with_its_dense_matrix(self, steps: int) -> None:
        tree, variances = Dense(tree_encoder(steps)), tree_blocks.variances(steps, "full")
        np.testing.assert_allclose(tree.variances(), variances, rtol=1e-9)
        assert tree.sensitivity() == pytest.approx(math.sqrt(tree_levels(steps)), rel=1e-9)
        assert tree.max_error() == pytest.approx(math.sqrt(tree_levels(steps) * variances.max()), rel=1e-9)
        assert lower_bound(steps) <= tree.root_mean_square_error()
        if steps > 2:
            assert square_root(steps).root_mean_square_error() < tree.root_mean_square_error()


class TestOptimisedBand:
    @pytest.mark.parametrize(("steps", "band"), [(1, 1), (2, 2), (9, 3), (64, 4), (64, 64), (1000, 16)])
    def test_it_beats_the_square_root_and_is_stationary(self, steps: int, band: int) -> None:
        found = optimised_band(steps, band)
        least = found.root_mean_square_error()
        assert len(found.coefficients) <= band
        assert lower_bound(steps) <= least <= square_root(steps, band=band).root_mean_square_error()
        for j in range(1, len(found.coefficients)):
            for change in (-0.02, 0.02):
                other = list(found.coefficients)
                other[j] += change
                assert Toeplitz(steps, other).root_mean_square_error() >= least * (1 - 1e-6)

    def test_two_steps_in_closed_form(self) -> None:
        """(2 + (1 − c)²)(1 + c²)/2 is least where its derivative is 0."""
        c = np.linspace(0, 1, 100_001)
        truth = math.sqrt(((2 + (1 - c) ** 2) * (1 + c**2) / 2).min())
        assert optimised_band(2, 2).root_mean_square_error() == pytest.approx(truth, rel=1e-8)
        assert truth > lower_bound(2)


class TestDense:
    def test_factorisations_are_values(self) -> None:
        a, b = Dense(tree_encoder(4)), Dense(tree_encoder(4))
        assert a == b and hash(a) == hash(b) and a != Dense(np.eye(4)) and a != 3

    def test_any_workload_can_be_factorised(self) -> None:
        rng = np.random.default_rng(403)
        f = Dense(rng.normal(size=(6, 4)), rng.normal(size=(3, 6)))
        assert (f.steps, f.measurements, f.answers) == (4, 6, 3)
        x = rng.normal(size=(4, 2))
        np.testing.assert_allclose(f.apply(x), f.decoder @ f.encoder @ x)
        n = rng.integers(-(2**40), 2**40, size=(4, 2))
        np.testing.assert_allclose(f.encode(n) * UNIT, f.encoder @ n, rtol=1e-9)
        assert f.sensitivity() == pytest.approx(np.linalg.norm(f.encoder, axis=0).max(), rel=1e-9)


BAD: list[tuple[str, Any]] = [
    ("steps", lambda: Toeplitz(0, (1.0,))),
    ("steps", lambda: square_root(True)),
    ("coefficients", lambda: Toeplitz(3, ())),
    ("coefficients", lambda: Toeplitz(3, (0.0, 1.0))),
    ("coefficients", lambda: Toeplitz(3, (-1.0,))),
    ("coefficients", lambda: Toeplitz(3, (1.0, math.nan))),
    ("coefficients", lambda: Toeplitz(3, (1e4,))),
    ("coefficients", lambda: Toeplitz(3, (1.0, 1.0, 1.0, 1.0))),
    ("coefficients", lambda: Toeplitz(3, (1e-9,))),
    ("workload", lambda: Toeplitz(3, (1.0,), workload="sums")),  # type: ignore[arg-type]
    ("band", lambda: square_root(3, band=4)),
    ("band", lambda: optimised_band(3, 0)),
    ("participations", lambda: identity(3).sensitivity(participations=0)),
    ("separation", lambda: identity(3).sensitivity(separation=0)),
    ("encoder", lambda: Dense(np.zeros(3))),
    ("encoder", lambda: Dense(np.zeros((2, 0)))),
    ("encoder", lambda: Dense(np.zeros((2, 2)))),
    ("encoder", lambda: Dense(np.array([[math.inf]]))),
    ("decoder", lambda: Dense(np.eye(2), np.zeros((2, 3)))),
    ("steps", lambda: lower_bound(0)),
]


@pytest.mark.parametrize(("argument", "call"), BAD, ids=[f"{name}-{i}" for i, (name, _) in enumerate(BAD)])
def test_bad_input_is_refused(argument: str, call: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert caught.value.argument == argument
