"""All public classes and functions that take data: how to construct one, and good data for it.

``ROWS`` names the arguments that hold data. The canary test gives bad ones to every public method that has such an
argument, and finds the other arguments in ``FILL``. ``EXEMPT`` gives the reason for arguments that have the name of
data but are not data.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from attrs import frozen
from fed_stoch_cases import learner as fed_stoch

from hockeystick import learners as L
from hockeystick import mechanisms as M

PAPERS = (L.lazy, L.federated, L.divergence, L.distribution, L.smoothed)
LEARNERS = (L, *PAPERS, L.experts, L.network, L.analytics)


def public(*parts: ModuleType) -> dict[str, Any]:
    """Returns {name: value} of the classes, functions and constants that the parts give."""
    found = {name: getattr(part, name) for part in parts for name in part.__all__}
    return {name: value for name, value in found.items() if not inspect.ismodule(value)}


PUBLIC = public(M, *LEARNERS)

# Names of arguments that hold data. A method with one of them needs a row, or in EXEMPT a reason why it has none.
DATA = frozenset(
    {
        "value",
        "value0",
        "value1",
        "values",
        "rows",
        "persons",
        "vectors",
        "contribution",
        "query",
        "term",
        "log_ratio",
        "losses",
        "losses0",
        "losses1",
        "loss",
        "records",
        "records0",
        "records1",
        "data",
        "data0",
        "data1",
        "table",
        "points",
        "labels",
        "label",
        "label0",
        "label1",
        "features",
        "targets",
        "gradients",
        "centres",
        "private",
        "reward",
        "rewards",
    }
)

PI = [0.4, 0.3, 0.2, 0.1]
RECORDS = np.full(4, 5)


@frozen
class Row:
    """How to make one, and good data by the name of the argument; ``fill`` are values of further arguments.

    What changes in use, such as a session, is made anew for each call (``stateful``).
    """

    make: Callable[[], Any]
    good: dict[str, Any]
    fill: dict[str, Any] = {}
    stateful: bool = False


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def _first(records: Any, rng: np.random.Generator) -> Any:
    """An online algorithm that plays the first expert."""
    return np.zeros(records.shape[:2], dtype=int)


def counts(symbols: int = 4, each: int = 5, clients: int = 4) -> L.ClientCounts:
    which = np.arange(clients * each) % symbols
    return L.ClientCounts.of_records(np.repeat(np.arange(clients), each), which, symbol_count=symbols)


@functools.cache
def average() -> L.QueryAverage:
    return L.QueryAverage.drawn(PI, RECORDS, samples=3, rng=rng(), weights="draws")


@functools.cache
def distributed(survivors: int = 3) -> L.DistributedKL:
    return L.DistributedKL(average=average(), shares=M.SkellamShares(3.0, survivors=survivors))


def levels() -> Any:
    return L.distribution.UniformMixture().levels(L.distribution.LabelTable([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]), 10)


def bandit() -> L.NoisyBandit:
    return L.NoisyBandit(rounds=4, arms=3, batch=1, scale=1.0, learning_rate=0.1, exploration=0.1, floor=-3.0)


def optimist() -> L.PrivateUCB:
    return L.PrivateUCB(rounds=4, arms=3, scale=1.0, failure=0.1)


def elimination() -> L.PrivateElimination:
    return L.PrivateElimination(rounds=4, arms=3, scale=1.0, pulls=(1,), failure=0.1)


def linucb() -> L.PrivateLinUCB:
    return L.PrivateLinUCB(rounds=4, dimension=2, scale=1.0)


def contextual() -> L.ContextualRewards:
    return L.ContextualRewards(np.full((4, 1, 2), 0.5), np.full((4, 1), 0.5))


def contextual_session() -> L.LinUCBStream:
    found = linucb().start(noise=M.SimulationNoise(1))
    found.predict(np.full((3, 2), 0.5))
    return found


def drift_watch() -> L.DriftWatch:
    return L.DriftWatch(reference=PI, epsilon=1.0, windows=2, false_alarms=0.05)


RUN = b"8 bytes."  # of a server's run


def online(rounds: int = 10) -> L.OnlineDistribution:
    return L.OnlineDistribution.build(
        L.distribution.LabelTable([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]), rounds=rounds, epsilon=1.0
    )


def mwem() -> L.SmoothMWEM:
    cells = L.smoothed.BoxCells.of(L.smoothed.Thresholds().cover(0.25, L.smoothed.UniformCube(1)))
    return L.SmoothMWEM(cells=cells, records=6, sigma=1.0, rounds=2, epsilon_em=1.0, epsilon_lap=1.0)


def release_of_queries() -> L.QueryRelease:
    column = L.smoothed.PublicColumn(name="age", low=0.0, high=100.0)
    return L.QueryRelease.calibrated(
        (column,), queries="thresholds", records=500, sigma=0.5, epsilon=4.0, largest_cover=64
    )


def net() -> L.SubsampledNet:
    return L.SubsampledNet.draw(
        L.smoothed.Thresholds(), L.smoothed.UniformCube(1), rng(), sigma=0.5, accepted=3, size=2, epsilon=1.0, records=4
    )


def choice() -> L.AgnosticLearner:
    return L.AgnosticLearner.draw(
        L.smoothed.Thresholds(), L.smoothed.UniformCube(1), rng(), sigma=0.5, accepted=2, size=2, epsilon=1.0, records=4
    )


def player() -> L.smoothed.OnlinePlayer:
    learner = L.SmoothedOnline(concepts=L.smoothed.Thresholds(), measure=L.smoothed.UniformCube(1), sigma=0.5, rounds=4)
    found = learner.player(rng())
    found.predict()
    return found


def step(log_ratio: Any) -> None:
    switch = M.LazySwitch(0.1, normaliser=0.4, sensitivity=0.2, lowest=-0.4, highest=0.4)
    plan = M.LazySampler(switch, M.ExponentialMechanism(2.0).event(), boundaries=3)
    plan.start(lambda noise: 1, noise=M.SimulationNoise(1)).step(lambda action: log_ratio, lambda noise: 1)


def convex(**more: Any) -> L.LazyConvex:
    given: dict[str, Any] = {
        "domain": L.lazy.Ball(2, 1.0),
        "lipschitz": 1.0,
        "inverse_temperature": 0.2,
        "regularisation": 1.0,
        "fake_switch_probability": 0.1,
        "clip_tail": 1e-3,
        "failure": 1e-6,
        "sampler": L.lazy.ExactSampler(),
    }
    return L.LazyConvex(rounds=4, **(given | more))


def transform() -> L.LazyTransform:
    measure = L.lazy.PointMeasure(measure=L.lazy.MultiplicativeMeasure(learning_rate=0.1), points=3)
    return L.LazyTransform(measure=measure, rounds=4, fake_switch_probability=0.2)


def svt_run() -> L.federated.SVTRuns:
    return svt().run(CLIENTS["losses"], server_seed=1)


def svt() -> L.FedSVT:
    return L.FedSVT(
        clients=2,
        rounds=4,
        experts=3,
        switches=2,
        learning_rate=0.5,
        threshold=1.0,
        threshold_scale=2.0,
        query_scale=4.0,
    )


def watch() -> dict[str, Any]:
    return {"reference": PI, "threshold": 0.2, "epsilon": 5.0}


VALUE = {"value": [1.0, 2.0, 3.0], "value0": [1.0, 2.0, 3.0], "value1": [1.0, 2.0, 3.0]}
WHOLE = {name: [1, 2, 3] for name in VALUE}
CATEGORY = {name: np.array([1, 0]) for name in VALUE}
STEPS = {name: [1.0, 0.0, 1.0, 1.0] for name in VALUE}
TABLE = np.full((4, 3), 0.5)
LOSSES = {"losses": TABLE, "losses0": TABLE, "losses1": TABLE}
LINEAR = L.lazy.LinearLosses(np.full((4, 2), 0.1))
CONVEX = {"losses": LINEAR, "losses0": LINEAR, "losses1": LINEAR}
CLIENTS = {"losses": np.full((2, 4, 3), 0.5), "losses0": np.full((2, 4, 3), 0.5), "losses1": np.full((2, 4, 3), 0.5)}
LABELS = {"label": 1, "label0": 1, "label1": 0, "labels": [0, 1, 2]}
COUNTS = {"data": counts(), "data0": counts(), "data1": counts()}
LINE = {"points": np.array([0.2, 0.4, 0.6])}
PLANE = {"points": np.array([[0.2, 0.1], [0.4, 0.7], [0.6, 0.3]])}
MARKS = {"labels": np.array([True, False, True]), "first": [1.0, 0.0, 1.0], "second": [0.0, 1.0, 1.0]}


def _mechanisms() -> dict[str, Row]:
    found = {
        "AboveThreshold": Row(lambda: M.AboveThreshold(5.0, threshold_scale=2.0, query_scale=4.0), VALUE),
        "BoundedContribution": Row(lambda: M.BoundedContribution(2), {"persons": ["a", "b", "a"]}),
        "BoundedHistogram": Row(
            lambda: M.BoundedHistogram(4, most_partitions=2), {"persons": ["a", "b", "a"], "where": [0, 1, 2]}
        ),
        "UserSample": Row(lambda: M.UserSample(0.5, most_records=1), {"persons": ["a", "b", "a"]}),
        "UserClippedSum": Row(lambda: M.UserClippedSum(1.0), {"rows": np.ones((3, 2)), "persons": ["a", "b", "a"]}),
        "ClipNorm": Row(lambda: M.ClipNorm(1.0), {"rows": np.ones((3, 2))}),
        "ClipNumbers": Row(lambda: M.ClipNumbers(0.0, 1.0), {"values": [0.5, 0.25]}),
        "ClippedMean": Row(lambda: M.ClippedMean(0.0, 1.0, records=2), {"values": [0.5, 0.25]}),
        "ClippedSum": Row(lambda: M.ClippedSum(0.0, 1.0), {"values": [0.5, 0.25]}),
        "ClippedVectorSum": Row(lambda: M.ClippedVectorSum(1.0), {"rows": np.ones((3, 2))}),
        "CumulativeAboveThreshold": Row(
            lambda: M.CumulativeAboveThreshold(2.0, threshold_scale=2.0, query_scale=2.0),
            {name: [0.5, 1.0, 0.5] for name in VALUE},
        ),
        "Marginals": Row(
            lambda: M.Marginals(sizes=(2, 3), marginals=1, scale=4.0),
            {name: [[0, 1], [1, 2], [0, 0]] for name in VALUE},
        ),
        "CellCounts": Row(lambda: M.CellCounts(cells=4, scale=2.0), {name: [1, 2, 0, 1] for name in VALUE}),
        "GridQuantiles": Row(
            lambda: M.GridQuantiles.calibrated(grid=[0.0, 1.0, 2.0], levels=[0.5], epsilon=1.0),
            {name: [0.5, 1.5, 2.0] for name in VALUE},
        ),
        "KeptRows": Row(lambda: M.KeptRows(1), {"persons": ["a", "b", "a"], "where": [0, 1, 2]}),
        "RowMoments": Row(
            lambda: M.RowMoments("mean", 0.0, 1.0), {"values": [0.5, 0.25], "where": [0, 1]}, {"groups": 2}
        ),
        "PartitionSelection": Row(
            lambda: M.PartitionSelection.calibrated(epsilon=1.0, delta=1e-3),
            {name: [1, 2, 0, 1] for name in (*VALUE, "persons")},
        ),
        "CumulativeSession": Row(
            lambda: M.CumulativeAboveThreshold(2.0, threshold_scale=2.0, query_scale=2.0).start(
                noise=M.SimulationNoise(1)
            ),
            {"term": 0.5},
            stateful=True,
        ),
        "DiscreteGaussian": Row(lambda: M.DiscreteGaussian(2.0), WHOLE),
        "DiscreteGaussianShares": Row(lambda: M.DiscreteGaussianShares(2.0, survivors=2), WHOLE),
        "DiscreteLaplace": Row(lambda: M.DiscreteLaplace(2.0), WHOLE),
        "ExponentialMechanism": Row(lambda: M.ExponentialMechanism(2.0), VALUE),
        "ForGroups": Row(lambda: M.ForGroups(M.Laplace(2.0), size=2), VALUE),
        "Gaussian": Row(lambda: M.Gaussian(2.0), VALUE),
        "GaussianAboveThreshold": Row(
            lambda: M.GaussianAboveThreshold(5.0, threshold_scale=2.0, query_scale=4.0, queries=5), VALUE
        ),
        "HadamardResponse": Row(lambda: M.HadamardResponse(1.0, categories=4), CATEGORY),
        "Laplace": Row(lambda: M.Laplace(2.0), VALUE),
        "LazySwitch": Row(
            lambda: M.LazySwitch(0.1, normaliser=0.4, sensitivity=0.2, lowest=-0.4, highest=0.4),
            {name: 0.1 for name in (*VALUE, "log_ratio")},
        ),
        "LazyWalk": Row(lambda: step, {"log_ratio": 0.1}),
        "MatrixMechanism": Row(lambda: M.MatrixMechanism(M.factorisations.square_root(4), 2.0), STEPS),
        "MatrixStream": Row(
            lambda: M.MatrixMechanism(M.factorisations.square_root(4), 2.0).stream(noise=M.SimulationNoise(1)),
            {"contribution": 1.0},
            stateful=True,
        ),
        "NoisyMax": Row(lambda: M.NoisyMax(2.0, "gumbel"), VALUE),
        "OneBitChannel": Row(lambda: M.OneBitChannel(1.0, low=0.0, high=1.0), VALUE),
        "PermuteAndFlip": Row(lambda: M.PermuteAndFlip(2.0), VALUE),
        "PolyaShares": Row(lambda: M.PolyaShares(2.0, survivors=2), WHOLE),
        "RandomizedResponse": Row(lambda: M.RandomizedResponse(1.0, categories=3), CATEGORY),
        "Released": Row(lambda: M.Released(M.Laplace(2.0)), {"value": VALUE["value"]}),
        "Skellam": Row(lambda: M.Skellam(8.0), WHOLE),
        "SkellamShares": Row(lambda: M.SkellamShares(3.0, survivors=2), WHOLE),
        "SparseVector": Row(
            lambda: M.SparseVector(0.0, threshold_scale=4.0, query_scale=8.0, answers=2, answer_scale=8.0), VALUE
        ),
        "SparseVectorSession": Row(
            lambda: M.SparseVector(0.0, threshold_scale=4.0, query_scale=8.0, answers=2, answer_scale=8.0).start(
                noise=M.SimulationNoise(1)
            ),
            {"query": 1.0},
            stateful=True,
        ),
        "Staircase": Row(lambda: M.Staircase(1.0), {name: 1.0 for name in VALUE}),
        "Subsampled": Row(
            lambda: M.Subsampled(M.PoissonSample(0.5), M.Gaussian(2.0)), {n: np.ones((3, 1)) for n in VALUE}
        ),
        "SubsetSelection": Row(lambda: M.SubsetSelection(1.0, categories=3), CATEGORY),
        "ThresholdSession": Row(
            lambda: M.AboveThreshold(5.0, threshold_scale=2.0, query_scale=4.0).start(noise=M.SimulationNoise(1)),
            {"query": 1.0},
            stateful=True,
        ),
        "TopK": Row(lambda: M.TopK(4.0, k=2), VALUE),
        "HybridTree": Row(lambda: M.HybridTree(2.0, steps=4), STEPS),
        "HybridStream": Row(
            lambda: M.HybridTree(2.0, steps=4).stream(noise=M.SimulationNoise(1)), {"contribution": 1.0}, stateful=True
        ),
        "TreeAggregation": Row(lambda: M.TreeAggregation(4, 2.0), STEPS),
        "TreeStream": Row(
            lambda: M.TreeAggregation(4, 2.0).stream(noise=M.SimulationNoise(1)), {"contribution": 1.0}, stateful=True
        ),
        "UnaryEncoding": Row(lambda: M.UnaryEncoding(0.75, 0.25, categories=3), CATEGORY),
        "count_cells": Row(lambda: M.count_cells, {"values": [1.0, 2.0]}, {"edges": [0.0, 1.0, 2.0]}),
        "public_priorities": Row(lambda: M.public_priorities, {"records": ["a", 1]}, {"seed": 1}),
        "secure_sum": Row(lambda: M.secure_sum, {"vectors": np.ones((3, 2), int)}, {"modulus": 2**20, "largest": 10.0}),
    }
    return found


def _experts() -> dict[str, Row]:
    lazy = functools.partial(L.LazyExperts, rounds=4, experts=3, learning_rate=0.1, fake_switch_probability=0.1)
    phases = {"losses": np.full((3, 63, 4), 0.25)}

    def restarted() -> L.Anytime:
        return L.Anytime(lambda rounds: lazy(rounds=rounds), ratio=3, first=1, epochs=2)

    return {
        "Anytime": Row(restarted, LOSSES),
        "AnytimeStream": Row(
            lambda: restarted().start(noise=M.SimulationNoise(1)), {"losses": np.full(3, 0.5)}, stateful=True
        ),
        "AnytimeTreeExperts": Row(lambda: L.AnytimeTreeExperts(rounds=4, experts=3, scale=1.0), LOSSES),
        "ConvexMeasure": Row(
            lambda: L.lazy.ConvexMeasure(
                weights=L.lazy.RegularizedWeights(inverse_temperature=0.2, regularisation=1.0, lipschitz=1.0),
                domain=L.lazy.Ball(2, 1.0),
            ),
            CONVEX,
            {"rounds": 4, "batch": 2},
        ),
        "ConvexStream": Row(
            lambda: convex().start(noise=M.SimulationNoise(1)),
            {"loss": L.lazy.LinearLosses(np.full((1, 2), 0.1))},
            stateful=True,
        ),
        "DenseHedge": Row(lambda: L.smoothed.DenseHedge(3, 0.1), {"losses": np.full(3, 0.5)}, stateful=True),
        "ExpertLosses": Row(L.federated.ExpertLosses, {"records": TABLE}),
        "FedStoch": Row(
            fed_stoch,
            phases,
            {
                "seeds": [1, 2, 3],
                "server_seed": 4,
                "threat_model": "output",
                "source": 5,
                "points": np.full((1, 7, 4), 0.25),
                "pins": None,
                "outcomes": None,
            },
        ),
        "FedSVT": Row(
            svt,
            CLIENTS,
            {
                "server_seed": 1,
                "seeds": [1, 2],
                "log_probability.runs": svt_run,
                "regret.runs": svt_run,
                "log_likelihood_ratio.runs": svt_run,
                "losses_of.runs": svt_run,
            },
        ),
        "LazyChain": Row(lambda: lazy().chain(TABLE), {}),
        "LazyConvex": Row(convex, CONVEX, {"batch": 1, "x": np.zeros((1, 2)), "y": np.zeros((1, 2))}),
        "LazyExperts": Row(lazy, LOSSES),
        "LazyStream": Row(lambda: lazy().start(noise=M.SimulationNoise(1)), {"loss": np.full(3, 0.5)}, stateful=True),
        "LazyTransform": Row(transform, LOSSES),
        "NoisySumStream": Row(
            lambda: L.TreeExperts(rounds=4, experts=3, scale=1.0).start(noise=M.SimulationNoise(1)),
            {"losses": np.full(3, 0.5)},
            stateful=True,
        ),
        "SVTStream": Row(
            lambda: svt().start(noise=M.SimulationNoise(1)), {"losses": np.full((2, 3), 0.5)}, stateful=True
        ),
        "ContextualRewards": Row(
            lambda: L.ContextualRewards, {"contexts": np.full((4, 3, 2), 0.5), "rewards": np.full((4, 3), 0.5)}
        ),
        "LinUCBStream": Row(contextual_session, {"contexts": np.full((3, 2), 0.5), "reward": 0.5}, stateful=True),
        "PrivateLinUCB": Row(
            linucb, {name: contextual() for name in ("data", "data0", "data1")}, {"parameter": np.zeros(2)}
        ),
        "BanditStream": Row(lambda: bandit().start(noise=M.SimulationNoise(1)), {"loss": 0.5}, stateful=True),
        "EliminationStream": Row(lambda: elimination().start(noise=M.SimulationNoise(1)), {"loss": 0.5}, stateful=True),
        "UCBStream": Row(lambda: optimist().start(noise=M.SimulationNoise(1)), {"loss": 0.5}, stateful=True),
        "PrivateUCB": Row(optimist, LOSSES),
        "PrivateElimination": Row(elimination, LOSSES, {"left": np.ones((1, 2, 3), bool)}),
        "NoisyBandit": Row(bandit, LOSSES, {"arms": np.zeros(4, int), "estimates": np.zeros(3)}),
        "UpdatesStream": Row(
            lambda: L.LimitedUpdates(rounds=4, experts=3, learning_rate=0.5).start(noise=M.SimulationNoise(1)),
            {"losses": np.full(3, 0.5)},
            stateful=True,
        ),
        "LimitedUpdates": Row(lambda: L.LimitedUpdates(rounds=4, experts=3, learning_rate=0.5), LOSSES),
        "MultiplicativeWeights": Row(lambda: L.MultiplicativeWeights(rounds=4, experts=3), LOSSES),
        "AnytimeNoisyHedge": Row(
            lambda: L.AnytimeNoisyHedge(clients=2, rounds=4, experts=3, scale=1.0), CLIENTS | {"average": TABLE}
        ),
        "NoisyHedge": Row(
            lambda: L.NoisyHedge(clients=2, rounds=4, experts=3, scale=1.0), CLIENTS | {"average": TABLE}
        ),
        "NormalisedLazyExperts": Row(
            lambda: L.NormalisedLazyExperts(rounds=4, experts=3, learning_rate=0.1, fake_switch_probability=0.1), LOSSES
        ),
        "ParallelEpochLearner": Row(
            lambda: L.lazy.ParallelEpochLearner(rounds=4, experts=3, epoch=2, epsilon=1.0), LOSSES
        ),
        "PointMeasure": Row(lambda: transform().measure, LOSSES, {"rounds": 4, "batch": 1}),
        "PrivateFTRL": Row(
            lambda: L.PrivateFTRL(rounds=4, domain=L.lazy.Ball(2, 1.0), lipschitz=1.0, scale=1.0), CONVEX
        ),
        "RegretRelease": Row(
            lambda: L.experts.RegretRelease(rounds=4, experts=3, sigma=1.0), LOSSES, {"plays": [0, 1, 2, 0]}
        ),
        "RegularizedWeights": Row(
            lambda: L.lazy.RegularizedWeights(inverse_temperature=0.2, regularisation=1.0, lipschitz=1.0), {}
        ),
        "ShrinkingDartboard": Row(lambda: L.ShrinkingDartboard(rounds=4, experts=3, learning_rate=0.1), LOSSES),
        "SleepingExperts": Row(
            lambda: L.SleepingExperts(rounds=4, experts=3, scale=1.0, learning_rate=0.5),
            LOSSES,
        ),
        "SleepingStream": Row(
            lambda: L.SleepingExperts(rounds=4, experts=3, scale=1.0, learning_rate=0.5).start(
                noise=M.SimulationNoise(1)
            ),
            {"losses": np.full(3, 0.5)},
            stateful=True,
        ),
        "SmoothedCrossEntropy": Row(
            lambda: L.federated.SmoothedCrossEntropy(experts=3, mixing=0.1), {"records": np.full((4, 3), 1 / 3)}
        ),
        "SquaredDistances": Row(L.federated.SquaredDistances, {"records": TABLE}),
        "SquaredProducts": Row(L.federated.SquaredProducts, {"records": TABLE}),
        "TreeExperts": Row(lambda: L.TreeExperts(rounds=4, experts=3, scale=1.0), LOSSES),
        "LinearLosses": Row(lambda: L.lazy.LinearLosses, {"gradients": np.full((4, 2), 0.1)}),
        "QuadraticLosses": Row(lambda: L.lazy.QuadraticLosses, {"centres": np.full((4, 2), 0.1)}),
        "RegressionLosses": Row(
            lambda: L.lazy.RegressionLosses, {"features": np.full((4, 2), 0.1), "targets": np.ones(4)}
        ),
        "Ratings": Row(
            lambda: L.federated.Ratings, {"counts": np.ones((2, 2)), "sums": np.ones((2, 2))}, {"genres": ["a", "b"]}
        ),
        "assigned": Row(lambda: L.federated.assigned, {"losses": np.full((4, 3), 0.5)}, {"clients": 2}),
        "check_measure": Row(
            lambda: functools.partial(L.lazy.check_measure, L.lazy.MultiplicativeMeasure(learning_rate=0.1)),
            {"losses": TABLE},
        ),
        "checked_losses": Row(
            lambda: functools.partial(L.experts.checked_losses, "losses"),
            {"losses": TABLE},
            {"rounds": 4, "experts": 3},
        ),
        "scaled_losses": Row(lambda: L.federated.scaled_losses, {"losses": TABLE}, {"sensitivity": 1.0}),
        "federated_regret": Row(
            lambda: L.federated.federated_regret,
            {"losses": np.full((1, 4, 3), 0.5)},
            {"policies": np.full((1, 4, 3), 1 / 3)},
        ),
        "one_select": Row(
            lambda: functools.partial(L.federated.one_select, algorithm=_first), {"records": np.full((2, 4, 3), 0.5)}
        ),
        "printed_one_select": Row(
            lambda: functools.partial(L.federated.printed_one_select, algorithm=_first),
            {"records": np.full((2, 4, 3), 0.5)},
        ),
    }


def _smoothed() -> dict[str, Row]:
    return {
        "AgnosticLearner": Row(choice, {"points": np.array([0.1, 0.2, 0.3, 0.4]), "labels": np.array([0, 1, 1, 0])}),
        "BoxCells": Row(lambda: mwem().cells, {"records": np.full((6, 1), 0.5)}, {"parameters": np.array([[0.5]])}),
        "CellHedge": Row(
            lambda: L.smoothed.CellHedge(L.smoothed.UniformCube(1), 0.1), {"x": 0.5, "label": True}, stateful=True
        ),
        "ErrorQueries": Row(
            lambda: L.smoothed.ErrorQueries(L.smoothed.Thresholds()),
            MARKS | {"points": np.array([[0.2, 1.0], [0.4, 0.0], [0.6, 1.0]])},
        ),
        "Halfspaces": Row(lambda: L.smoothed.Halfspaces(2), PLANE | MARKS),
        "Intervals": Row(L.smoothed.Intervals, LINE | MARKS),
        "LaplacePerQuery": Row(
            lambda: L.LaplacePerQuery(cells=mwem().cells, records=6, scale=1.0), {"records": np.full((6, 1), 0.5)}
        ),
        "MatrixCells": Row(
            lambda: L.smoothed.MatrixCells(matrix=np.eye(3)), {"records": [0, 1, 2]}, {"parameters": np.eye(3)}
        ),
        "OnlinePlayer": Row(player, {"x": 0.5, "label": True}, stateful=True),
        "PolynomialThresholds": Row(lambda: L.smoothed.PolynomialThresholds(1, 2), LINE | MARKS),
        "QueryRelease": Row(release_of_queries, {"table": np.full(500, 50.0), "points": np.full((500, 1), 50.0)}),
        "Rectangles": Row(lambda: L.smoothed.Rectangles(2), PLANE | MARKS),
        "ReleasedQueries": Row(
            lambda: release_of_queries().run(np.full(500, 50.0), rng()), {"table": np.full(500, 50.0)}, {"ends": [50.0]}
        ),
        "SmoothMWEM": Row(mwem, {name: np.full((6, 1), 0.5) for name in ("records", "records0", "records1")}),
        "SubsampledNet": Row(net, {name: np.full((4, 1), 0.5) for name in ("data", "data0", "data1")}),
        "ThresholdNet": Row(
            lambda: L.ThresholdNet, {"data": [0.5, 0.6]}, {"domain": [0.1, 0.5, 0.6], "size": 2, "scale": 1.0}
        ),
        "Thresholds": Row(L.smoothed.Thresholds, LINE | MARKS),
        "Cover": Row(lambda: L.smoothed.Thresholds().cover(0.25, L.smoothed.UniformCube(1)), LINE),
        "PublicColumn": Row(lambda: L.smoothed.PublicColumn(name="age", low=0.0, high=100.0), {"values": [50.0, 60.0]}),
        "private_report": Row(
            lambda: functools.partial(L.private_report, mwem().run(np.full((6, 1), 0.5), rng())),
            {"records": np.full((6, 1), 0.5)},
        ),
        "best_predicate": Row(
            lambda: functools.partial(L.smoothed.best_predicate, L.smoothed.Thresholds()),
            LINE | {"labels": [0, 1, 1], "weights": np.ones(3)},
        ),
        "labelled_points": Row(lambda: L.smoothed.labelled_points, LINE | {"labels": [0, 1, 1]}),
        "least_errors": Row(
            lambda: functools.partial(L.smoothed.least_errors, L.smoothed.Thresholds()),
            {"points": np.full((3, 1), 0.5), "labels": MARKS["labels"]},
        ),
    }


def _divergence() -> dict[str, Row]:
    return {
        "AggregatedKL": Row(lambda: L.AggregatedKL.calibrated(average(), epsilon=1.0), COUNTS),
        "AlarmSession": Row(lambda: L.DriftAlarms(**watch()).start(noise=M.SimulationNoise(1)), COUNTS, stateful=True),
        "ClientCounts": Row(
            lambda: L.ClientCounts.of_records, {"clients": [0, 1, 1], "symbols": [0, 1, 2]}, {"symbol_count": 4}
        ),
        "DistributedKL": Row(distributed, COUNTS),
        "DriftAlarms": Row(lambda: L.DriftAlarms(**watch()), COUNTS),
        "DriftMonitor": Row(
            lambda: L.DriftMonitor(windows=1, **watch()), {"data": [counts()]}, {"windows": [average()]}
        ),
        "DriftWatch": Row(drift_watch, {}),
        "HistogramRelease": Row(
            lambda: L.HistogramRelease.calibrated(cells=4, epsilon=1.0, records=20), {"counts": np.full(4, 5)}
        ),
        "WatchSession": Row(
            lambda: drift_watch().start(noise=M.SimulationNoise(1)), {"data": counts(each=1)}, stateful=True
        ),
        "release_histogram": Row(lambda: L.release_histogram, {"counts": np.full(4, 5)}, {"epsilon": 1.0}),
        "KLClient": Row(
            lambda: L.divergence.KLClient,
            {"counts": np.ones(len(average().symbols), int)},
            {"estimator": distributed(), "number": 0, "source": 1},
        ),
        "LabelledRecords": Row(
            lambda: L.divergence.LabelledRecords,
            {"clients": [0, 1], "labels": [0, 1], "symbols": [0, 1]},
            {"client_count": 2, "label_count": 2, "symbol_count": 2},
        ),
        "LiteralKL": Row(
            lambda: L.divergence.LiteralKL(average=average(), samples=3, model="trusted", epsilon=1.0, delta=0.05),
            COUNTS,
        ),
        "LocalKL": Row(lambda: L.LocalKL(plan=distributed(1)), COUNTS, {"client": 0}),
        "MonitorSession": Row(
            lambda: L.DriftMonitor(windows=3, **watch()).start(noise=M.SimulationNoise(1)), COUNTS, stateful=True
        ),
        "QueryAverage": Row(average, COUNTS, {"multiplier": 0.1}),
        "RandomizedKL": Row(
            lambda: L.RandomizedKL(reference=PI, clients=4, epsilon=1.0),
            {"data": counts(each=1), "counts": np.full((1, 4), 1.0)},
        ),
        "TrustedHistogram": Row(lambda: L.TrustedHistogram(plan=distributed(1)), COUNTS),
        "TrustedKL": Row(lambda: L.TrustedKL.calibrated(average(), epsilon=1.0), COUNTS),
    }


def _distribution() -> dict[str, Row]:
    channels: dict[str, Callable[[], Any]] = {
        "OneBit": lambda: L.distribution.OneBit(levels(), epsilon=1.0),
        "RandomizedLabels": lambda: L.distribution.RandomizedLabels(levels(), epsilon=1.0),
        "SampledDiscreteLaplace": lambda: L.distribution.SampledDiscreteLaplace(levels(), epsilon=1.0),
        "SampledLaplace": lambda: L.distribution.SampledLaplace(levels(), epsilon=1.0),
        "VectorGaussian": lambda: L.distribution.VectorGaussian(levels(), sigma=3.0),
        "VectorLaplace": lambda: L.distribution.VectorLaplace(levels(), scale=3.0),
    }
    return {name: Row(make, LABELS) for name, make in channels.items()} | {
        "LabelTable": Row(
            lambda: L.distribution.LabelTable([[0.5, 0.5], [0.25, 0.75]]), {"labels": [0, 1], "label": 1}
        ),
        "LabelDensities": Row(lambda: L.distribution.LabelDensities.poisson([1.0, 4.0]), {"labels": [0, 1]}),
        "DistributionServer": Row(lambda: L.DistributionServer(online()), {"labels": [0, 1]}, stateful=True),
        "HypothesisSelection": Row(
            lambda: L.HypothesisSelection(learner=online()), {"label": 1}, {"person": 3, "run": RUN}
        ),
        "ScheffeSelection": Row(
            lambda: L.ScheffeSelection(candidates=online().channels[0].levels.hypotheses, epsilon=1.0, persons=9),
            {"label": 1},
            {"person": 3, "run": RUN},
        ),
        "AnytimeDistribution": Row(lambda: L.AnytimeDistribution(online), {"label": 1}, {"round": 3, "run": RUN}),
        "InteractiveDistribution": Row(
            lambda: L.InteractiveDistribution(online()),
            {"label": 1},
            {"request": L.distribution.Request(number=0, index=0), "run": RUN},
        ),
        "OnlineDistribution": Row(online, {"labels": np.array([0, 1, 2])}, {"truth": 0, "rounds": 3}),
        "CeiledBlocks": Row(L.distribution.CeiledBlocks, {}),
        "Envelope": Row(L.distribution.Envelope, {}),
        "UniformMixture": Row(L.distribution.UniformMixture, {}),
        "Levels": Row(levels, LABELS, {"expert": 0, "experts": np.array([0, 1, 0])}),
    }


def _analytics() -> dict[str, Row]:
    colours = L.analytics.CategoryQuestion(("red", "blue"))
    survey = L.analytics.Survey(question=colours, epsilon=1.0, clients=3, run=RUN)
    known = {"asked": survey.first(), "number": 1, "most_epsilon": 1.0}
    return {
        "CategoryQuestion": Row(lambda: colours, {"value": "red"}),
        "ItemQuestion": Row(lambda: L.analytics.ItemQuestion("abc", length=2), {"value": "ab"}),
        "MeanQuestion": Row(lambda: L.analytics.MeanQuestion(0, 1), {"value": 0.5}),
        "QuantileQuestion": Row(lambda: L.analytics.QuantileQuestion(0, 1), {"value": 0.5}),
        "SurveyClient": Row(lambda: L.analytics.SurveyClient, {"value": "red"}, known | {"source": 1}),
        "answer_round": Row(lambda: L.analytics.answer_round, {"value": "red"}, known),
    }


ROWS: dict[str, Row] = _mechanisms() | _experts() | _smoothed() | _divergence() | _distribution() | _analytics()

# Arguments that are outputs of what they are asked about, as ``simulate`` draws them.
OUTPUTS = frozenset({"output", "transcripts", "messages", "found", "experts", "places"})

FILL: dict[str, Any] = {
    "rng": rng,
    "runs": lambda: 2,
    "noise": lambda: M.SimulationNoise(1),
    "coins": rng,
    "block": lambda: 1,
}
"""Values of arguments that are no data, made anew for every call."""

_PROTOCOL = "says what others must have; those that have it are tested"
_COUNT = "a public number of records"
_PUBLIC = "public points, a domain or a sample of the base measure"
_ACTIONS = "points that a learner may play, which it publishes"
_CHECKED = "takes what ``checked`` has returned"
_WIRE = "a published report"

EXEMPT: dict[str, str] = {
    "AuditableMechanism": _PROTOCOL,
    "Mechanism": _PROTOCOL,
    "Brackets": "rows are numbers of brackets",
    "Ball": _ACTIONS,
    "Box": _ACTIONS,
    "CellConcentration": "points of a simulated adversary",
    "Channel": _PROTOCOL,
    "ConceptClass": _PROTOCOL,
    "ConvexLosses": _PROTOCOL,
    "FiniteMeasure": _PROTOCOL,
    "Hypotheses": _PROTOCOL,
    "Inbox": _WIRE,
    "MessageFormat": _WIRE,
    "LazyMeasure": _PROTOCOL,
    "LossFamily": _PROTOCOL,
    "MultiplicativeMeasure": "PointMeasure calls it with losses that it has checked",
    "PoissonSample": _COUNT,
    "QueryCells": _PROTOCOL,
    "SampleWithoutReplacement": _COUNT,
    "Sizes": _COUNT,
    "TruncatedPoissonSample": _COUNT,
    "RegularizedMeasure": _ACTIONS,
    "check_mechanism": "it says what is wrong with a mechanism by an AssertionError",
    "AssumedCounts": _COUNT,
    "CellCounts.calibrated(records)": _COUNT,
    "GridQuantiles.calibrated(records)": _COUNT,
    "OptimalRule.draw(persons)": _CHECKED,
    "OptimalRule.log_masses(persons)": _CHECKED,
    "OptimalRule.probabilities(persons)": _CHECKED,
    "ThresholdRule.draw(persons)": _CHECKED,
    "ThresholdRule.log_masses(persons)": _CHECKED,
    "ThresholdRule.probabilities(persons)": _CHECKED,
    "choose_drift_method": _COUNT,
    "DriftWatch.mechanism(records)": _COUNT,
    "HistogramRelease.calibrated(records)": _COUNT,
    "choose_counts": _COUNT,
    "Marginals.calibrated(records)": _COUNT,
    "choose_marginals": _COUNT,
    "CountsBound.of(records)": _COUNT,
    "synthetic_rows": _COUNT,
    "Harmonic": _COUNT,
    "Smoothed": _COUNT,
    "ExactSampler.check_losses(losses)": "takes losses that their class has checked",
    "SecureTangentSampler.check_losses(losses)": "takes losses that their class has checked",
    "ExpertLosses.gradients(records)": _CHECKED,
    "ExpertLosses.totals(records)": _CHECKED,
    "SmoothedCrossEntropy.gradients(records)": _CHECKED,
    "SmoothedCrossEntropy.totals(records)": _CHECKED,
    "SquaredDistances.gradients(records)": _CHECKED,
    "SquaredDistances.totals(records)": _CHECKED,
    "SquaredProducts.gradients(records)": _CHECKED,
    "SquaredProducts.totals(records)": _CHECKED,
    "LazyConvex.log_keep(losses)": _CHECKED,
    "LazyConvex.measure(losses)": _CHECKED,
    "RegularizedWeights.log_ratio(losses)": _CHECKED,
    "RegularizedWeights.measure(losses)": _CHECKED,
    "DistributionServer.receive(data)": _WIRE,
    "AnytimeServer": _WIRE,
    "InteractiveServer": _WIRE,
    "ScheffeServer": _WIRE,
    "SelectionServer": _WIRE,
    "LabelledRecords.law(label)": "the label that is asked for",
    "LaplacePerQuery.calibrated(records)": _COUNT,
    "Levels.pick(labels)": "a vectorised look-up of as many labels as experts",
    "batch_sums": "takes what checked_losses has returned",
    "choose_channel": "how many labels there are",
    "hard_gap": _COUNT,
    "net_bound": _COUNT,
    "oracle_tree": _PUBLIC,
    "plan_net": _COUNT,
    "small_db": _PUBLIC,
    "threshold_chi": _PUBLIC,
    "AgnosticLearner.draw(records)": _COUNT,
    "BoxCells.checked_indices(query)": "the number of a query",
    "BoxCells.inside(query)": "the number of a query",
    "CeiledBlocks.log_base(labels)": "how many labels there are",
    "Envelope.log_base(labels)": "how many labels there are",
    "UniformMixture.log_base(labels)": "how many labels there are",
    "FedStoch.regrets(points)": "points that were published",
    "Learner.release(losses)": "a protocol without code",
    "Session.update(losses)": "a protocol without code",
    "LabelledRecords.counts(label)": "the label that is asked for",
    "LinearLosses.gradient(points)": _ACTIONS,
    "LinearLosses.total(points)": _ACTIONS,
    "QuadraticLosses.gradient(points)": _ACTIONS,
    "QuadraticLosses.total(points)": _ACTIONS,
    "RegressionLosses.gradient(points)": _ACTIONS,
    "RegressionLosses.total(points)": _ACTIONS,
    "MatrixCells.checked_indices(query)": "the number of a query",
    "MatrixCells.inside(query)": "the number of a query",
    "PublicColumn.ends(values)": "ends of queries",
    "QueryRelease.calibrated(records)": _COUNT,
    "ReleasedQueries.synthetic(rows)": "how many rows to draw",
    "SubsampledNet.draw(records)": _COUNT,
}
"""What is called like data and is none: a class or function, or ``Class.method(argument)``; with the reason."""
