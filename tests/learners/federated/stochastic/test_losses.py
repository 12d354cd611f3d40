"""Tests of the losses of the federated stochastic learner: gradients, declared constants, and clipping."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.federated.stochastic.losses import (
    ExpertLosses,
    LossFamily,
    SmoothedCrossEntropy,
    SquaredDistances,
    SquaredProducts,
    clipped_corrections,
    clipped_gradients,
)

D = 5
FAMILIES: list[LossFamily] = [
    ExpertLosses(),
    ExpertLosses(low=-2.0, high=3.0),
    SquaredDistances(least=-0.2, most=1.2),
    SquaredProducts(bound=0.7),
    SmoothedCrossEntropy(experts=D, mixing=0.2),
    SmoothedCrossEntropy(experts=D, mixing=0.5, largest=0.6),
]


def records(family: LossFamily, rng: np.random.Generator, n: int) -> np.ndarray:
    """Such as the family is meant for, corners included."""
    if isinstance(family, ExpertLosses):
        return rng.choice([family.low, family.high, 0.5 * (family.low + family.high)], (n, D))
    if isinstance(family, SquaredDistances):
        return rng.choice([family.least, family.most, 0.3], (n, D))
    if isinstance(family, SquaredProducts):
        return rng.choice([-family.bound, family.bound, 0.1], (n, D))
    assert isinstance(family, SmoothedCrossEntropy)
    found = np.full((n, D), (1 - family.largest) / (D - 1))
    found[np.arange(n), rng.integers(D, size=n)] = family.largest
    return found


def points(rng: np.random.Generator, n: int) -> np.ndarray:
    """Of the simplex, corners among them."""
    return np.where(rng.random((n, 1)) < 0.3, np.eye(D)[rng.integers(D, size=n)], rng.dirichlet(np.full(D, 0.5), n))


def value(family: LossFamily, record: np.ndarray, point: np.ndarray) -> float:
    return float(family.totals(record[None], point)[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_the_slopes_of_the_losses(family):
    rng = np.random.default_rng(1)
    for record, point in zip(records(family, rng, 20), rng.dirichlet(np.ones(D), 20), strict=True):
        slopes = [
            (value(family, record, point + 1e-6 * e) - value(family, record, point - 1e-6 * e)) / 2e-6
            for e in np.eye(D)
        ]
        assert family.gradients(record[None], point)[0] == pytest.approx(slopes, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
def test_totals_at_experts_are_those_at_the_corners(family):
    rng = np.random.default_rng(2)
    some = records(family, rng, 2 * 7).reshape(2, 7, D)
    corners = family.totals(some, points(rng, 1))[1]
    assert corners.shape == (2, D)
    for n, corner in enumerate(np.eye(D)):
        assert family.totals(some, corner)[0] == pytest.approx(corners[:, n])
        each = [sum(value(family, record, corner) for record in client) for client in some]
        assert corners[:, n] == pytest.approx(each)


@pytest.mark.parametrize("family", FAMILIES)
def test_declared_constants_hold_and_are_attained(family):
    rng = np.random.default_rng(3)
    some, here, there = records(family, rng, 4000), points(rng, 4000), points(rng, 4000)
    first, second = (family.gradients(some[:, None], x)[:, 0] for x in (here, there))
    assert family.low * (1 + 1e-12) - 1e-12 <= first.min() and first.max() <= family.high * (1 + 1e-12) + 1e-12
    assert min(first.min() - family.low, family.high - first.max()) <= 1e-9
    way = np.abs(here - there).sum(axis=1)
    assert (np.abs(first - second).max(axis=1) <= family.smoothness * way * (1 + 1e-9) + 1e-12).all()


def test_smoothness_of_squared_distances_is_exactly_half():
    family = SquaredDistances()
    x, y = np.eye(D)[:2]
    change = family.gradients(np.zeros((1, D)), x) - family.gradients(np.zeros((1, D)), y)
    assert np.abs(change).max() == family.smoothness * np.abs(x - y).sum()


wild = st.floats(-1e100, 1e100) | st.sampled_from([0.0, 1e-300, -1e100])


@given(st.lists(wild, min_size=D, max_size=D), st.integers(0, 2**32), st.sampled_from(range(4)), st.floats(0, 2))
def test_no_record_exceeds_the_clips(record, seed, which, beta):
    """The contribution of one record lies in [low, high], or within beta times the path: a replacement moves an average
    by that."""
    family = FAMILIES[:4][which]
    x, y = points(np.random.default_rng(seed), 2)
    wild_record = np.array([record])
    gradient = clipped_gradients(family, wild_record, x, low=-0.5, high=0.25)
    assert gradient.min() >= -0.5 and gradient.max() <= 0.25
    most = np.array(beta * np.abs(x - y).sum())
    free = clipped_corrections(family, wild_record, x, y, low=-0.5, high=0.25, most=None)
    held = clipped_corrections(family, wild_record, x, y, low=-0.5, high=0.25, most=most)
    assert np.abs(free).max() <= 0.75
    assert np.abs(held).max() <= min(0.75, float(most))
    assert held == pytest.approx(np.clip(free, -most, most))


def test_corrections_are_clipped_if_the_declared_smoothness_is_wrong():
    """Mutant: beta declared a hundredth of the truth. Without the clip its correction would be a hundred times that."""
    family = SquaredProducts()
    u = np.array([[1.0, -1.0, 1.0, 1.0, -1.0]])
    x, y = np.eye(D)[:2]
    most = np.array(0.01 * np.abs(x - y).sum())
    free = clipped_corrections(family, u, x, y, low=-1.0, high=1.0, most=None)
    assert np.abs(free).max() == 2.0
    assert np.abs(clipped_corrections(family, u, x, y, low=-1.0, high=1.0, most=most)).max() == 0.02


def test_losses_of_experts_out_of_range_are_refused_or_clipped():
    raw = np.array([[0.0, 5.0, 0.5]])
    with pytest.raises(InvalidArgumentError):
        ExpertLosses().checked(raw)
    assert ExpertLosses(clip=True).checked(raw).tolist() == [[0.0, 1.0, 0.5]]


@pytest.mark.parametrize("family", FAMILIES)
def test_invalid_records_are_refused(family):
    for bad in (np.full((2, D), np.nan), np.full((2, D), np.inf), np.full((2, D), 1e200), np.zeros(D), "x", [[True]]):
        with pytest.raises(InvalidArgumentError):
            family.checked(bad)
    some = records(family, np.random.default_rng(0), 3)
    assert family.checked(some.tolist()).tolist() == some.tolist()


def test_distributions_are_checked():
    family = SmoothedCrossEntropy(experts=2, mixing=0.1)
    for bad in ([[0.5, 0.6]], [[1.5, -0.5]], [[0.2, 0.3, 0.5]]):
        with pytest.raises(InvalidArgumentError):
            family.checked(bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ExpertLosses(low=1.0, high=0.0),
        lambda: ExpertLosses(high=float("nan")),
        lambda: ExpertLosses(clip=1),
        lambda: SquaredDistances(least=2.0),
        lambda: SquaredProducts(bound=0.0),
        lambda: SmoothedCrossEntropy(experts=3, mixing=0.0),
        lambda: SmoothedCrossEntropy(experts=3, mixing=1.0),
        lambda: SmoothedCrossEntropy(experts=3, mixing=0.1, largest=0.0),
        lambda: SmoothedCrossEntropy(experts=1, mixing=0.1),
    ],
)
def test_inconsistent_families_are_refused(make):
    with pytest.raises(InvalidArgumentError):
        make()
