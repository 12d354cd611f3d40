"""Tests of covers from a consistency oracle: calls and leaves of the tree, sizes of samples, and the cover property."""

import math

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.oracle import (
    failure_bound,
    oracle_cover,
    oracle_tree,
    sample_size,
    separated,
)
from hockeystick.learners.smoothed.classes.concept_class import log_size_bound
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.classes.polynomials.polynomials import PolynomialThresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformCube, UniformGrid


@frozen
class Counted(Thresholds):
    """Thresholds that count their calls; the first call, without points, is the root's."""

    asked: list[int]

    def consistent(self, points, labels):
        self.asked.append(len(labels))
        return super().consistent(points, labels)


@pytest.mark.parametrize("m", [0, 1, 13])
def test_thresholds_take_m_times_m_plus_one_halves_calls(m):
    """One call for each inner node, sum over j < m of (j + 1), and m + 1 leaves: of order m^2, not m as printed."""
    asked: list[int] = []
    tree = oracle_tree(Counted(asked), UniformCube(1).sample(np.random.default_rng(0), m))
    assert tree.nodes == tuple(range(1, m + 2))
    assert tree.calls == m * (m + 1) // 2 == len(asked) - 1
    assert len(tree.labels) == len(tree.witnesses) == m + 1


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([Thresholds(), Intervals(), PolynomialThresholds(1, 2), Halfspaces(1)]), st.integers(0, 2**32))
def test_leaves_are_all_labelings_and_nodes_those_of_each_prefix(concepts, seed):
    """Against the classes' own lists; points repeat, so that most children are pruned."""
    points = np.random.default_rng(seed).integers(0, 6, (7, 1)).astype(float)
    tree = oracle_tree(concepts, points)
    for j in range(1, 8):
        labels, _ = concepts.labelings(points[:j])
        assert tree.nodes[j] == len(np.unique(labels, axis=0))
    assert {tuple(row) for row in tree.labels} == {tuple(row) for row in concepts.labelings(points)[0]}
    np.testing.assert_array_equal(concepts.predict(tree.witnesses, points), tree.labels)


class OfDimensionOne(Halfspaces):
    __slots__ = ()

    @property
    def vc_dimension(self) -> int:
        return 1


def test_sizes_of_samples():
    """119,081 and 7.3e5 for VC dimension 1, gamma 1e-3, failure 1e-6; thresholds by their own, exact condition."""
    assert sample_size(OfDimensionOne(1), 1e-3) == 119_081
    assert sample_size(OfDimensionOne(1), 1e-3, thin=True) == pytest.approx(7.3e5, rel=0.01)
    m = sample_size(Thresholds(), 1e-3)
    assert (m + 1) * (1 - 1e-3) ** m <= 1e-6 < m * (1 - 1e-3) ** (m - 1)
    for thin in (False, True):
        m = sample_size(Intervals(), 0.01, thin=thin)
        assert failure_bound(Intervals(), 0.01, m, thin=thin) <= 1e-6
        assert failure_bound(Intervals(), 0.01, m - 1, thin=thin) > 1e-6


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-4, 1.0), st.floats(1e-12, 0.9), st.booleans())
def test_samples_keep_to_their_failure_probability(gamma, failure, thin):
    for concepts in (Thresholds(), Halfspaces(3)):
        m = sample_size(concepts, gamma, failure_probability=failure, thin=thin)
        assert failure_bound(concepts, gamma, m, thin=thin) <= failure * (1.0 + 1e-9)


@pytest.mark.statistical
def test_the_oracles_thresholds_are_a_cover():
    """On the true masses: no fresh sample is needed. False alarm 1e-6, the cover's own failure probability."""
    gamma, measure = 0.15, UniformCube(1)
    found = oracle_cover(Thresholds(), gamma, measure, np.random.default_rng(3), failure_probability=1e-6)
    assert found.cover.failure_probability <= 1e-6
    assert found.tree.calls == sum(found.tree.nodes[:-1])
    thresholds = np.linspace(-0.1, 1.1, 4001)[:, None]
    nearest = found.cover.parameters[found.cover.nearest(thresholds)]
    distance = np.abs(np.clip(nearest, 0.0, 1.0) - np.clip(thresholds, 0.0, 1.0))
    assert distance.max() <= gamma
    few = oracle_cover(Thresholds(), gamma, measure, np.random.default_rng(3), samples=6)
    assert few.cover.failure_probability == 1.0  # a planted violation: six points make no promise, and no cover
    nearest = few.cover.parameters[few.cover.nearest(thresholds)]
    assert np.abs(np.clip(nearest, 0.0, 1.0) - np.clip(thresholds, 0.0, 1.0)).max() > gamma


@pytest.mark.statistical
def test_a_thinned_cover_is_smaller_and_still_a_cover():
    """Intervals on a grid, whose masses are exact. On the sample distances are at most gamma/2, whatever was drawn."""
    gamma, rng, measure, grid = 0.3, np.random.default_rng(4), UniformGrid(101), np.arange(101) / 100
    found = oracle_cover(Intervals(), gamma, measure, rng, samples=32, thin=True)
    assert found.cover.size < len(found.tree.labels) / 5
    assert found.cover.log_size <= log_size_bound(2, gamma / 2.0)  # pairwise distances exceed gamma/2 on the sample
    rows = np.sort(rng.random((300, 2)), axis=1)
    nearest = found.cover.parameters[found.cover.nearest(rows)]
    for points, most in ((found.cover.reference, gamma / 2.0), (grid, gamma)):
        assert points is not None
        apart = Intervals().predict(rows, points) != Intervals().predict(nearest, points)
        assert apart.mean(axis=1).max() <= most


@pytest.mark.statistical
def test_the_oracles_halfplanes_are_a_cover_on_a_fresh_sample():
    """With linear programs as oracle. A dozen points is far from a promise: gamma is .5, distances up to .4 are usual.

    In general position each prefix of the sample has as many labellings as Cover 1965 counts.

    False alarm: 400 shares of 20,000 are off by .025 (7 standard errors) together with probability < 1e-8.
    """
    gamma, rng, measure, concepts = 0.5, np.random.default_rng(6), UniformCube(2), Halfspaces(2)
    found = oracle_cover(concepts, gamma, measure, rng, samples=12)
    assert found.tree.nodes == (1, *(2 * sum(math.comb(j - 1, i) for i in range(3)) for j in range(1, 13)))
    assert found.cover.size == found.tree.nodes[-1]
    fresh, normals = measure.sample(rng, 20_000), rng.standard_normal((400, 2))
    rows = np.column_stack([normals, (normals * measure.sample(rng, 400)).sum(axis=1)])
    nearest = found.cover.parameters[found.cover.nearest(rows)]
    assert (concepts.predict(rows, fresh) != concepts.predict(nearest, fresh)).mean(axis=1).max() <= gamma - 0.025


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.0, 0.6))
def test_thinning_keeps_a_maximal_separated_subset(seed, distance):
    labels = np.random.default_rng(seed).random((12, 9)) < 0.5
    kept = separated(labels, distance)
    shares = (labels[:, None] != labels[kept][None]).mean(axis=-1)
    assert (shares.min(axis=1) <= distance).all()
    between = shares[kept] + np.eye(len(kept))
    assert (between > distance).all()


class _Lying(Thresholds):
    __slots__ = ()

    def consistent(self, points, labels):
        return np.array([-np.inf])


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda rng: oracle_cover(Thresholds(), 0.0, UniformCube(1), rng), "gamma"),
        (lambda rng: oracle_cover(Thresholds(), 0.1, UniformCube(2), rng), "measure"),
        (lambda rng: oracle_cover(Thresholds(), 0.1, UniformCube(1), rng, failure_probability=0.0), "failure"),
        (lambda rng: oracle_cover(Thresholds(), 0.1, UniformCube(1), rng, samples=0), "samples"),
        (lambda rng: oracle_cover(Thresholds(), 0.1, UniformCube(1), rng, samples=99, most_calls=4949), "most_calls"),
        (lambda rng: oracle_cover(Thresholds(), 1e-9, UniformCube(1), rng), "most_calls"),
        (lambda rng: oracle_cover(Thresholds(), 5e-324, UniformCube(1), rng), "gamma"),
        (lambda rng: oracle_cover(rng, 0.1, UniformCube(1), rng), "concepts"),
        (lambda rng: oracle_tree(_Lying(), [[0.0], [1.0]]), "concepts"),
    ],
)
def test_bad_input_is_refused(call, argument):
    with pytest.raises(InvalidArgumentError, match=argument):
        call(np.random.default_rng(0))
