"""Tests of the search for expanding pairs: steps whose Lipschitz constant is known, attained and not exceeded."""

import numpy as np
import pytest

from hockeystick.accounting import Contraction, InvalidArgumentError
from hockeystick.audits import largest_expansion


def quadratic(rate, curvatures):
    return lambda x: x - rate * np.array(curvatures) * x


@pytest.mark.parametrize(("rate", "constant"), [(0.1, 0.9), (0.19, 0.9), (0.25, 1.5)])
def test_a_quadratic_attains_its_constant_and_no_more(rate, constant):
    found = largest_expansion(quadratic(rate, [1.0, 10.0]), claimed=constant, dimension=2, rng=1, searches=5)
    assert not found.refuted and found.factor == pytest.approx(constant, rel=1e-3)
    assert largest_expansion(
        quadratic(rate, [1.0, 10.0]), claimed=0.99 * constant, dimension=2, rng=1, searches=5
    ).refuted


@pytest.mark.parametrize("condition", [2.0, 10.0, 100.0])
def test_clipping_in_the_plane_is_no_contraction(condition):
    def clipped(x):
        gradient = np.array([1.0, condition]) * x
        return x - gradient / max(1.0, np.linalg.norm(gradient)) / condition

    found = largest_expansion(clipped, claimed=1.0, dimension=2, rng=1, searches=5)
    assert found.refuted and 1.01 < found.factor < 1.152  # the exact suprema are 1.033, 1.120 and 1.151


def test_clipping_of_a_linear_predictor_is_harmless():
    row = np.array([0.6, 0.8])

    def clipped(x):
        gradient = (row @ x - 1.0) * row
        return x - gradient / max(1.0, np.linalg.norm(gradient))

    assert not largest_expansion(clipped, claimed=1.0, dimension=2, rng=1, searches=5).refuted


def test_a_kink_expands_without_limit():
    found = largest_expansion(lambda x: x - 5.0 * np.sign(x), claimed=1.0, dimension=1, rng=1)
    assert found.refuted and found.factor > 100


def test_an_empty_batch_refutes_strong_convexity_of_the_data_and_not_the_public_constant():
    claims = [0.9, Contraction.of_gradient_descent(0.1, smoothness=1.0, largest_batch=9, normaliser=9).factor]
    assert [largest_expansion(lambda x: x, claimed=c, dimension=3, rng=1, searches=2).refuted for c in claims] == [
        True,
        False,
    ]


def test_noisy_steps_and_bad_arguments_are_refused():
    rng = np.random.default_rng(1)
    with pytest.raises(InvalidArgumentError, match="noise"):
        largest_expansion(lambda x: x + rng.standard_normal(2), claimed=1.0, dimension=2, rng=1, searches=5)
    with pytest.raises(InvalidArgumentError):
        largest_expansion(lambda x: x[:1], claimed=1.0, dimension=2, rng=1, searches=5)
    with pytest.raises(InvalidArgumentError):
        largest_expansion(lambda x: x, claimed=-1.0, dimension=2, rng=1, searches=5)
