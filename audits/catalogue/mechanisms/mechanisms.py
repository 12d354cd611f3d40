"""The mechanisms of this package as cases of the catalogue, each with mutants that make the same claim.

A correct case claims the whole curve of the mechanism's own event, on its own worst-case neighbours. A mutant is an
:class:`Impostor`: it claims the event of one mechanism and samples from another, or from a function. Half the scale of
noise, and a sensitivity declared at half its value, are the same mistake: only the ratio matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from hockeystick import accounting
from hockeystick.accounting import Adjacency, PrivacyEvent
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.claims.claim import Claim
from hockeystick.mechanisms import (
    AboveThreshold,
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
    NoisyMax,
    OneBitChannel,
    OptimalRule,
    PartitionSelection,
    PermuteAndFlip,
    PoissonSample,
    RandomizedResponse,
    Released,
    Skellam,
    SparseVector,
    Staircase,
    Subsampled,
    SubsetSelection,
    ThresholdRule,
    TopK,
    TreeAggregation,
    UnaryEncoding,
)
from hockeystick.mechanisms.streams import factorisations

STATED_AT = 1e-6
"""The delta of the claims."""

Sampler = Callable[[Any, np.random.Generator, int], Any]


@frozen
class Impostor:
    """Claims the event of one mechanism and samples from another.

    Attributes:
      claimed: The mechanism whose ``event`` is claimed.
      sampled: A mechanism, or a function ``f(value, rng, runs)``.
      neighbours: Values of two neighbouring data sets; by default the worst-case neighbours of ``claimed``.
    """

    claimed: Any
    sampled: Any
    neighbours: tuple[Any, Any] | None = field(default=None, kw_only=True)

    def event(self) -> PrivacyEvent:
        """Returns the claimed event."""
        found: PrivacyEvent = self.claimed.event()
        return found

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        """Returns outputs of ``sampled``, with runs on the leading axis."""
        return getattr(self.sampled, "simulate", self.sampled)(value, rng, runs)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns the two values."""
        return self.claimed.worst_case_neighbours() if self.neighbours is None else self.neighbours


# --- broken samplers -------------------------------------------------------------------------------------------------


def one_noise_for_all(values: Any, rng: np.random.Generator, runs: int, *, scale: float) -> Any:
    """Returns all queries with the same draw of Laplace noise."""
    return np.asarray(values) + rng.laplace(scale=scale, size=(runs, 1))


def every_query_whole(values: Any, rng: np.random.Generator, runs: int, *, scale: float) -> Any:
    """Returns queries with independent noise, each with the whole budget."""
    return np.asarray(values) + rng.laplace(scale=scale, size=(runs, len(values)))


def largest_then_noise(scores: Any, rng: np.random.Generator, runs: int, *, scale: float) -> Any:
    """Returns the best candidate by exact scores, and its noisy score."""
    best = int(np.argmax(scores))
    return np.stack([np.full(runs, float(best)), scores[best] + rng.laplace(scale=scale, size=runs)], axis=1)


def inverted_response(value: int, rng: np.random.Generator, runs: int, *, epsilon: float, categories: int) -> Any:
    """Returns randomised responses that lie with the probability that the truth should have."""
    truth = np.exp(epsilon) / (np.exp(epsilon) + categories - 1)
    other = rng.integers(1, categories, size=runs)
    return np.where(rng.random(runs) < truth, (value + other) % categories, value)


def heights_not_charged(value: Any, rng: np.random.Generator, runs: int, *, hybrid: HybridTree) -> Any:
    """Returns the answers of a hybrid tree of which all epochs have noise of the first one's scale."""
    answers, before = [], np.zeros((runs, 1))
    for k in range(hybrid.steps.bit_length()):
        here = slice((1 << k) - 1, (1 << k + 1) - 1)
        tree = TreeAggregation(1 << k, hybrid.scale, estimate="plain")
        answers.append(before + tree.simulate(value[here], rng, runs))
        before = answers[-1][:, -1:]
    return np.concatenate(answers, axis=1)


# --- the cases -------------------------------------------------------------------------------------------------------


def mechanism_cases() -> Iterator[Case]:
    """Yields the cases of this package's mechanisms."""
    for name, mechanism, mutants in chain(_scaled(), _scaled_streams()):
        yield _case(name, mechanism)
        for what, mutant, samples in mutants:
            yield _case(f"{name}[{what}]", Impostor(mechanism, mutant), samples)
    yield from _classics()


def _case(name: str, mechanism: Any, samples: int | None = None, **more: Any) -> Case:
    """Returns a case that claims the whole curve of the mechanism's event; a broken one if ``samples`` is given."""
    tight = _tight_law(mechanism)
    oracle = "the tight curve of its event" if tight is not None else ""
    build = partial(_subject, mechanism, tight)
    return Case.of(f"mechanism/{name}", build, samples, correct=100_000, oracle=oracle, **more)


def _subject(mechanism: Any, tight: Any) -> Subject:
    claim = Claim.curve(mechanism.event(), STATED_AT)
    truth = None if tight is None else float(accounting.epsilon(tight.event(), claim.delta))
    return Subject(target=mechanism, neighbours=mechanism.worst_case_neighbours(), claim=claim, truth=truth)


_TIGHT = (
    Laplace,
    Gaussian,
    DiscreteLaplace,
    DiscreteGaussian,
    Skellam,
    Staircase,
    RandomizedResponse,
    UnaryEncoding,
    SubsetSelection,
    OneBitChannel,
    MatrixMechanism,
)
"""Mechanisms whose event has the exact curve of their worst-case neighbours, at every delta."""


def _tight_law(mechanism: Any) -> Any:
    """Returns the sampled mechanism if its curve is exact on the case's neighbours; otherwise None."""
    if isinstance(mechanism, Impostor):
        same = mechanism.neighbours is None and type(mechanism.sampled) is type(mechanism.claimed)
        return _tight_law(mechanism.sampled) if same else None
    return mechanism if isinstance(mechanism, _TIGHT) else None


def _counted() -> Iterator[tuple[str, Any, list[tuple[str, Any, int]]]]:
    """Yields mechanisms for counts of a table with mutants of the same kind that have less noise."""
    half = "half the scale"
    yield (
        "partition-selection-optimal",
        PartitionSelection(rule=OptimalRule(0.5, 1e-9), partitions=2),
        [("twice the epsilon of a key", PartitionSelection(rule=OptimalRule(1.0, 1e-16), partitions=2), 4_000)],
    )
    yield (
        "partition-selection-threshold",
        PartitionSelection(rule=ThresholdRule("gaussian", 3.0, 24), partitions=2),
        [(half, PartitionSelection(rule=ThresholdRule("gaussian", 1.5, 24), partitions=2), 2_000)],
    )
    optimised = CellCounts(cells=40, scale=2.0, records=20, strategy="optimised-thresholds")
    added = CellCounts(cells=40, scale=1.0, records=20, strategy="optimised-thresholds")
    yield "cell-counts-optimised", optimised, [("charged of one more record", added, 4_000)]
    root = CellCounts(cells=9, scale=4.0, records=20, law="gaussian", strategy="square-root")
    yield (
        "cell-counts-square-root",
        root,
        [(half, CellCounts(cells=9, scale=2.0, records=20, law="gaussian", strategy="square-root"), 16_000)],
    )
    yield (
        "marginals",
        Marginals(sizes=(2, 3), marginals=1, scale=4.0, records=20),
        [("one marginal charged of two", Marginals(sizes=(2, 3), marginals=1, scale=2.0, records=20), 8_000)],
    )
    residuals = Marginals(sizes=(2, 2), marginals=2, scale=6.0, law="gaussian", strategy="residual", records=20)
    yield "marginals-residual", residuals, [(half, evolve(residuals, scale=3.0), 8_000)]
    quantile = GridQuantiles(grid=(0.0, 1.0, 2.0), levels=(0.5,), scale=2.0, adjacency=Adjacency.REPLACE_ONE)
    yield "grid-quantiles", quantile, [(half, evolve(quantile, scale=0.5), 16_000)]


def _scaled() -> Iterator[tuple[str, Any, list[tuple[str, Any, int]]]]:
    """Yields mechanisms with mutants of the same kind that have less noise."""
    half, slightly = "half the scale", "0.9 of the scale"
    yield "laplace", Laplace(2.0), [(half, Laplace(1.0), 2_000), (slightly, Laplace(1.8), 256_000)]
    yield (
        "gaussian",
        Gaussian(2.0),
        [(half, Gaussian(1.0), 4_000), (slightly, Gaussian(1.8), 256_000)],
    )
    yield (
        "discrete-laplace",
        DiscreteLaplace(2.0, sensitivity=2),
        [(half, DiscreteLaplace(1.0, sensitivity=2), 1_000), (slightly, DiscreteLaplace(1.8, sensitivity=2), 64_000)],
    )
    yield (
        "discrete-gaussian",
        DiscreteGaussian(3.0, sensitivity=2.0),
        [
            (half, DiscreteGaussian(1.5, sensitivity=2.0), 2_000),
            (slightly, DiscreteGaussian(2.7, sensitivity=2.0), 128_000),
        ],
    )
    yield (
        "cell-counts",
        CellCounts(cells=9, scale=4.0, branching=3, records=20),
        [("one level charged of two", CellCounts(cells=9, scale=2.0, branching=3, records=20), 4_000)],
    )
    yield from _counted()
    yield "skellam", Skellam(8.0), [("half the variance", Skellam(4.0), 16_000)]
    yield "staircase", Staircase(1.0), [("twice the epsilon", Staircase(2.0), 1_000)]
    yield (
        "exponential",
        ExponentialMechanism(2.0),
        [(half, ExponentialMechanism(1.0), 16_000), (slightly, ExponentialMechanism(1.8), 256_000)],
    )
    yield "permute-and-flip", PermuteAndFlip(2.0), [(half, PermuteAndFlip(1.0), 1_000)]
    yield "noisy-max", NoisyMax(2.0), [(half, NoisyMax(1.0), 8_000)]
    yield (
        "noisy-min-gumbel",
        NoisyMax(2.0, "gumbel", minimum=True),
        [(half, NoisyMax(1.0, "gumbel", minimum=True), 16_000)],
    )
    yield "top-k", TopK(4.0, k=2), [(half, TopK(2.0, k=2), 8_000)]
    yield (
        "randomized-response",
        RandomizedResponse(0.5, categories=10),
        [("twice the epsilon", RandomizedResponse(1.0, categories=10), 8_000)],
    )
    yield (
        "unary-encoding",
        UnaryEncoding.symmetric(1.0, categories=4),
        [("every bit charged alone", UnaryEncoding.symmetric(2.0, categories=4), 2_000)],
    )
    yield (
        "subset-selection",
        SubsetSelection(1.0, categories=5),
        [("twice the epsilon", SubsetSelection(2.0, categories=5, size=1), 4_000)],
    )
    yield (
        "hadamard-response",
        HadamardResponse(1.0, categories=5),
        [("twice the epsilon", HadamardResponse(2.0, categories=5), 2_000)],
    )
    yield (
        "one-bit-channel",
        OneBitChannel(1.0, low=-1.0, high=1.0),
        [("twice the epsilon", OneBitChannel(2.0, low=-1.0, high=1.0), 1_000)],
    )


def _scaled_streams() -> Iterator[tuple[str, Any, list[tuple[str, Any, int]]]]:
    """Yields the same for mechanisms that answer more than once, or read groups and samples."""
    half = "half the scale"
    yield (
        "above-threshold",
        AboveThreshold(5.0, threshold_scale=2.0, query_scale=4.0),
        [
            (half, AboveThreshold(5.0, threshold_scale=1.0, query_scale=2.0), 64_000),
            ("threshold without noise", AboveThreshold(5.0, threshold_scale=1e-6, query_scale=4.0), 512_000),
        ],
    )
    sparse = SparseVector(0.0, threshold_scale=4.0, query_scale=8.0, answers=2, answer_scale=8.0)
    yield (
        "sparse-vector",
        sparse,
        [
            (half, evolve(sparse, threshold_scale=2.0, query_scale=4.0, answer_scale=4.0), 512_000),
            ("numbers not charged", evolve(sparse, answer_scale=0.5), 4_000),
        ],
    )
    gaussian_stream = GaussianAboveThreshold(0.0, threshold_scale=2.0, query_scale=4.0, queries=3)
    yield (
        "gaussian-above-threshold",
        gaussian_stream,
        [("a quarter of the scale", evolve(gaussian_stream, threshold_scale=0.5, query_scale=1.0), 4_000)],
    )
    cumulative = CumulativeAboveThreshold(0.0, threshold_scale=2.0, query_scale=2.0)
    yield (
        "cumulative-above-threshold",
        cumulative,
        [("a quarter of the scale", evolve(cumulative, threshold_scale=0.5, query_scale=0.5), 2_000)],
    )
    yield (
        "lazy-switch-dartboard",
        LazySwitch.dartboard(0.2, sensitivity=0.1),
        [("half the fake switches", LazySwitch.dartboard(0.1, sensitivity=0.1), 32_000)],
    )
    switch = LazySwitch(0.1, normaliser=0.4, sensitivity=0.2, lowest=-0.4, highest=0.4)
    yield (
        "lazy-switch",
        switch,
        [("no fake switches", LazySwitch(0.0, normaliser=0.4, sensitivity=0.2, lowest=-0.4, highest=0.4), 1_000)],
    )
    yield (
        "tree-aggregation",
        TreeAggregation(5, 2.0),
        [(half, TreeAggregation(5, 1.0), 2_000)],
    )
    hybrid = HybridTree(2.0, estimate="plain", steps=7)
    yield (
        "hybrid-tree",
        hybrid,
        [
            (half, HybridTree(1.0, estimate="plain", steps=7), 4_000),
            ("heights not charged", partial(heights_not_charged, hybrid=hybrid), 4_000),
        ],
    )
    yield (
        "matrix",
        MatrixMechanism(factorisations.square_root(5), 2.0),
        [(half, MatrixMechanism(factorisations.square_root(5), 1.0), 2_000)],
    )
    yield (
        "for-groups",
        ForGroups(Laplace(4.0), size=2),
        [("group not charged", ForGroups(Laplace(2.0), size=2), 2_000)],
    )
    sampled = Subsampled(PoissonSample(0.5), Gaussian(1.0))
    yield (
        "subsampled-gaussian",
        sampled,
        # The largest probability that a Poisson sample takes is below 1.
        [("everybody in the sample", Subsampled(PoissonSample(1.0 - 1e-9), Gaussian(1.0)), 4_000)],
    )


def _classics() -> Iterator[Case]:
    """Yields mutants with other mistakes than too little noise."""
    laplace, gaussian = Laplace(2.0), Gaussian(2.0)

    def mutant(name: str, claimed: Any, sampled: Any, pair: tuple[Any, Any], samples: int, **more: Any) -> Case:
        return _case(name, Impostor(claimed, sampled, neighbours=pair), samples, **more)

    both = np.zeros(2), np.ones(2)
    apart = np.zeros(2), np.array([1.0, 0.0])
    yield mutant("laplace[budget not split]", laplace, partial(every_query_whole, scale=2.0), both, 8_000)
    yield mutant("laplace[noise reused]", laplace, partial(one_noise_for_all, scale=2.0), apart, 1_000)
    yield mutant("laplace[clipping skipped]", laplace, laplace, (0.0, 3.0), 1_000)
    # Four numbers that all move by 1: 2 in the L2 norm, 4 in the L1 norm that Laplace noise needs.
    four = np.zeros(4), np.ones(4)
    yield mutant(
        "laplace[l2 sensitivity]",
        Laplace(8.0, sensitivity=2.0),
        partial(every_query_whole, scale=8.0),
        four,
        128_000,
    )
    yield mutant("gaussian[largest entry for the l2 norm]", gaussian, gaussian, four, 4_000)
    scores = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    yield mutant(
        "noisy-max[noise after the maximum]", NoisyMax(2.0), partial(largest_then_noise, scale=2.0), scores, 1_000
    )
    fair = ExponentialMechanism(2.0)
    yield mutant(
        "exponential[monotone scores claimed]", evolve(fair, monotone=True), fair, fair.worst_case_neighbours(), 16_000
    )
    yield mutant(
        "randomized-response[probability inverted]",
        RandomizedResponse(0.5, categories=10),
        partial(inverted_response, epsilon=0.5, categories=10),
        (0, 1),
        1_000,
    )
    # The first query above then shows the order of the queries, whatever the threshold.
    bare = AboveThreshold(5.0, threshold_scale=2.0, query_scale=1e-6)
    order = np.array([5.0, 6.0]), np.array([6.0, 5.0])
    yield mutant("above-threshold[queries without noise]", evolve(bare, query_scale=4.0), bare, order, 2_000)
    tree = TreeAggregation(5, 2.0)
    yield mutant("tree-aggregation[levels not charged]", gaussian, tree, tree.worst_case_neighbours(), 8_000)
    yield mutant("for-groups[claim of one person]", Laplace(4.0), Laplace(4.0), (0.0, 2.0), 8_000)
    sampled = Subsampled(PoissonSample(0.5), gaussian, adjacency=Adjacency.ADD_OR_REMOVE_ONE)
    yield mutant(
        "subsampled-gaussian[the sample is published]", sampled, _with_sample, (np.zeros(0), np.ones(1)), 1_000
    )
    # The last bits of a floating-point sum show the exact summand (Mironov 2012).
    by_floats = Impostor(laplace, laplace.simulate)
    yield _case("laplace[float bits]", by_floats, 2_000, options={"bits": True}, source="Mironov 2012")
    yield _case("laplace[released, every bit]", Released(laplace), options={"bits": True})


def _with_sample(records: Any, rng: np.random.Generator, runs: int) -> Any:
    """Returns the sum of a Poisson sample under Gaussian noise of scale 2, with the size of the sample."""
    size = rng.binomial(len(records), 0.5, size=runs)
    return np.stack([size + 2.0 * rng.standard_normal(runs), size], axis=1)
