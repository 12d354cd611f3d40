"""Tests of all mechanisms: the protocol, the refusal to release, and a cost that an audit does not refute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen

from hockeystick import accounting
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import (
    AboveThreshold,
    AuditableMechanism,
    CellCounts,
    CumulativeAboveThreshold,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    ForGroups,
    Gaussian,
    GaussianAboveThreshold,
    GridQuantiles,
    HadamardResponse,
    HybridTree,
    Laplace,
    LazySwitch,
    Marginals,
    MatrixMechanism,
    Mechanism,
    NoisyMax,
    OneBitChannel,
    OptimalRule,
    PartitionSelection,
    PermuteAndFlip,
    PoissonSample,
    RandomizedResponse,
    SimulationNoise,
    Skellam,
    SparseVector,
    Staircase,
    Subsampled,
    SubsetSelection,
    ThresholdRule,
    TopK,
    TreeAggregation,
    UnaryEncoding,
    check_mechanism,
)
from hockeystick.mechanisms.streams import factorisations

CONFIDENCE = 1 - 1e-6

# Each mechanism, and what it really does with (about) half the noise that it declares.
CATALOGUE: list[tuple[AuditableMechanism, AuditableMechanism]] = [
    (Laplace(2.0), Laplace(1.0)),
    (Laplace(5.0, sensitivity=3.0), Laplace(2.5, sensitivity=3.0)),
    (Gaussian(2.0), Gaussian(1.0)),
    (Gaussian(5.0, sensitivity=3.0), Gaussian(2.5, sensitivity=3.0)),
    (ExponentialMechanism(2.0), ExponentialMechanism(1.0)),
    (ExponentialMechanism(2.0, sensitivity=3.0, monotone=True), ExponentialMechanism(1.0, sensitivity=3.0)),
    (
        AboveThreshold(5.0, threshold_scale=2.0, query_scale=4.0),
        AboveThreshold(5.0, threshold_scale=1.0, query_scale=2.0),
    ),
    (
        AboveThreshold(0.0, threshold_scale=3.0, query_scale=6.0, sensitivity=2.0, answers=2, monotone=True),
        AboveThreshold(0.0, threshold_scale=1.5, query_scale=3.0, sensitivity=2.0, answers=2, monotone=True),
    ),
    (RandomizedResponse(1.0), RandomizedResponse(2.0)),
    (RandomizedResponse(0.5, categories=10), RandomizedResponse(1.0, categories=10)),
    (LazySwitch.dartboard(0.2, sensitivity=0.1), LazySwitch.dartboard(0.1, sensitivity=0.1)),
    (
        LazySwitch(0.1, normaliser=0.4, sensitivity=0.2, lowest=-0.4, highest=0.4),
        LazySwitch(0.0, normaliser=0.4, sensitivity=0.2, lowest=-0.4, highest=0.4),
    ),
    (DiscreteLaplace(2.0, sensitivity=2), DiscreteLaplace(1.0, sensitivity=2)),
    (DiscreteGaussian(3.0, sensitivity=2.0), DiscreteGaussian(1.5, sensitivity=2.0)),
    (Skellam(8.0), Skellam(2.0)),
    (Staircase(1.0), Staircase(2.0)),
    (PermuteAndFlip(2.0), PermuteAndFlip(1.0)),
    (NoisyMax(2.0), NoisyMax(1.0)),
    (NoisyMax(2.0, "gumbel", minimum=True), NoisyMax(1.0, "gumbel", minimum=True)),
    (TopK(4.0, k=2), TopK(2.0, k=2)),
    (
        SparseVector(0.0, threshold_scale=4.0, query_scale=8.0, answers=2, answer_scale=8.0),
        SparseVector(0.0, threshold_scale=1.5, query_scale=3.0, answers=2, answer_scale=3.0),
    ),
    (
        GaussianAboveThreshold(0.0, threshold_scale=2.0, query_scale=4.0, queries=3),
        GaussianAboveThreshold(0.0, threshold_scale=0.5, query_scale=1.0, queries=3),
    ),
    (
        CumulativeAboveThreshold(0.0, threshold_scale=2.0, query_scale=2.0),
        CumulativeAboveThreshold(0.0, threshold_scale=0.5, query_scale=0.5),
    ),
    (CellCounts(cells=9, scale=4.0, branching=3, records=20), CellCounts(cells=9, scale=2.0, branching=3, records=20)),
    (
        PartitionSelection(rule=ThresholdRule("laplace", 2.0, 24), partitions=2),
        PartitionSelection(rule=ThresholdRule("laplace", 1.0, 24), partitions=2),
    ),
    (
        PartitionSelection(rule=OptimalRule(0.5, 1e-12), partitions=2),
        PartitionSelection(rule=OptimalRule(1.2, 1e-12), partitions=2),
    ),
    (
        CellCounts(cells=9, scale=2.0, strategy="optimised-thresholds"),
        CellCounts(cells=9, scale=1.0, strategy="optimised-thresholds"),
    ),
    (
        CellCounts(cells=9, scale=4.0, records=20, law="gaussian", strategy="square-root"),
        CellCounts(cells=9, scale=2.0, records=20, law="gaussian", strategy="square-root"),
    ),
    (
        Marginals(sizes=(2, 3), marginals=1, scale=4.0, records=20),
        Marginals(sizes=(2, 3), marginals=1, scale=2.0, records=20),
    ),
    (
        Marginals(sizes=(2, 3), marginals=2, scale=4.0, law="gaussian", strategy="residual"),
        Marginals(sizes=(2, 3), marginals=2, scale=2.0, law="gaussian", strategy="residual"),
    ),
    (
        GridQuantiles(grid=(0.0, 1.0, 2.0), levels=(0.5, 0.5), scale=3.0),
        GridQuantiles(grid=(0.0, 1.0, 2.0), levels=(0.5, 0.5), scale=1.2),
    ),
    (UnaryEncoding.symmetric(1.0, categories=4), UnaryEncoding.symmetric(2.0, categories=4)),
    (HadamardResponse(1.0, categories=5), HadamardResponse(2.0, categories=5)),
    (SubsetSelection(1.0, categories=5), SubsetSelection(2.0, categories=5, size=1)),
    (OneBitChannel(1.0, low=-1.0, high=1.0), OneBitChannel(2.0, low=-1.0, high=1.0)),
    (TreeAggregation(5, 2.0), TreeAggregation(5, 1.0)),
    (HybridTree(2.0, steps=7), HybridTree(1.0, steps=7)),
    (MatrixMechanism(factorisations.square_root(5), 2.0), MatrixMechanism(factorisations.square_root(5), 1.0)),
    (ForGroups(Laplace(4.0), size=2), ForGroups(Laplace(2.0), size=2)),
    (Subsampled(PoissonSample(0.5), Gaussian(1.0)), Subsampled(PoissonSample(0.5), Gaussian(0.5))),
]
MECHANISMS = [mechanism for mechanism, _ in CATALOGUE]


def name(given: object) -> str:
    return f"{type(given).__name__}"


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name)
class TestContract:
    def test_every_mechanism_satisfies_the_protocol(self, mechanism: AuditableMechanism) -> None:
        assert isinstance(mechanism, Mechanism) and isinstance(mechanism, AuditableMechanism)
        for value in mechanism.worst_case_neighbours():
            check_mechanism(mechanism, value)

    def test_mechanisms_are_values(self, mechanism: Any) -> None:
        assert mechanism == evolve(mechanism) and hash(mechanism) == hash(evolve(mechanism))
        with pytest.raises(AttributeError):
            mechanism.sensitivity = 3.0

    @pytest.mark.statistical
    def test_log_likelihood_ratio_fits_the_neighbours(self, mechanism: AuditableMechanism) -> None:
        """E over P of P'/P is 1 in both directions, and the loss never exceeds the pure ε."""
        pair = mechanism.worst_case_neighbours()
        for side, sign in ((0, -1), (1, 1)):
            outputs = mechanism.simulate(pair[side], np.random.default_rng(801), 50_000)
            loss = mechanism.log_likelihood_ratio(outputs, *pair)
            assert loss.shape == (50_000,)
            assert np.abs(loss).max() <= mechanism.event().pure_epsilon() * (1 + 1e-9)
            inverse = np.exp(sign * loss)
            # 6 standard errors of a mean of 50,000: below 1e-8 for each of the two
            assert abs(inverse.mean() - 1) <= 6 * inverse.std() / np.sqrt(50_000)

    def test_release_publishes_one_output_of_the_form_that_simulate_shows(self, mechanism: Any) -> None:
        for value in mechanism.worst_case_neighbours():
            shown = mechanism.simulate(value, np.random.default_rng(1), 1)[0]
            for noise in (SimulationNoise(1), None):
                assert np.shape(mechanism.release(value, noise=noise)) == np.shape(shown)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mechanism", "twin"),
    [pytest.param(*both, marks=[pytest.mark.deep] if i % 3 else []) for i, both in enumerate(CATALOGUE)],
    ids=name,
)
def test_audit_refutes_half_the_noise_and_not_the_full_noise(
    mechanism: AuditableMechanism, twin: AuditableMechanism
) -> None:
    """Both are tested against the stated curve; a true claim is refuted with probability at most 1e-6.

    In CI is every third of them: audits of the catalogue's cases, fewer samples each, have all kinds.
    """
    claim = Claim.curve(mechanism.event(), 1e-3)
    neighbours = mechanism.worst_case_neighbours()
    fair, planted = (
        audit(m, claim=claim, neighbours=neighbours, samples=40_000, rng=802, confidence=CONFIDENCE)
        for m in (mechanism, twin)
    )
    assert not fair.refuted, fair
    assert planted.refuted, planted


@frozen
class Broken:
    """A mechanism that breaks one point of the contract."""

    fault: str

    def event(self) -> Any:
        if self.fault == "no event":
            return 1.0
        if self.fault == "not normalised":
            return Odd()
        return accounting.PureDP(np.random.default_rng().random() if self.fault == "fickle event" else 1.0)

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        if self.fault == "own generator":
            rng = np.random.default_rng()
        if self.fault == "fixed seed":
            rng = np.random.default_rng(7)
        if self.fault == "constant":
            return np.full(runs, value + rng.random())
        drawn = value + rng.laplace(size=(runs, 2))
        if self.fault == "runs last":
            return drawn.T
        return drawn[0] if self.fault == "one run squeezed" and runs == 1 else drawn


@frozen
class Odd(accounting.PrivacyEvent):
    def at(self, distance: float) -> accounting.PrivacyEvent:
        return self


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no event", "not a PrivacyEvent"),
        ("fickle event", "not one value"),
        ("not normalised", "not normalised"),
        ("own generator", "does not repeat"),
        ("fixed seed", "same under two seeds"),
        ("constant", "gave the same output"),
        ("runs last", r"shape \(2, 100\) for 100 runs"),
        ("one run squeezed", "for one run"),
    ],
)
def test_check_mechanism_names_the_fault(fault: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_mechanism(Broken(fault), 3.0)
    check_mechanism(Broken("none"), 3.0)


def test_objects_that_are_not_mechanisms_are_recognised() -> None:
    assert not isinstance(accounting.PureDP(1.0), Mechanism)
    assert isinstance(Broken("none"), Mechanism) and not isinstance(Broken("none"), AuditableMechanism)


@frozen
class SameSeedEveryCall:
    """A release whose noise starts from one seed at every call, as when a generator is made inside the function."""

    mechanism: Any

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        return np.array([self.mechanism.release(value, noise=SimulationNoise(7)) for _ in range(runs)])


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(2.0),
        Gaussian(2.0),
        DiscreteLaplace(2.0),
        NoisyMax(2.0),
        RandomizedResponse(0.5, categories=10),
        OneBitChannel(0.5, low=-1.0, high=1.0),
        AboveThreshold(0.0, threshold_scale=2.0, query_scale=4.0),
        TreeAggregation(3, 2.0),
    ],
    ids=name,
)
def test_audit_refutes_one_seed_for_every_call(mechanism: Any) -> None:
    """Where the two outputs differ at all: choose the neighbours so that they do."""
    pair = mechanism.worst_case_neighbours()
    shown = [mechanism.release(value, noise=SimulationNoise(7)) for value in pair]
    found = audit(
        SameSeedEveryCall(mechanism),
        claim=Claim.curve(mechanism.event(), 1e-3),
        neighbours=pair,
        samples=400,
        rng=803,
        confidence=CONFIDENCE,
    )
    # A seed that hides the difference on this pair is caught on none; noise added to a number never hides it.
    assert found.refuted == (not np.array_equal(shown[0], shown[1]))
    assert found.refuted or not isinstance(mechanism, (Laplace, Gaussian, DiscreteLaplace, TreeAggregation))
