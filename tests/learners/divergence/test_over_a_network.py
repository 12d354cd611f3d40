"""Tests of the distributed estimate over a transport: the sum of the shares, dropouts, and uniform single messages."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.over_a_network import KLClient, kl_server
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.network.protocol import FederationError, InProcess, Request, conduct, substream
from hockeystick.mechanisms import DiscreteGaussianShares, SkellamShares
from hockeystick.mechanisms.distributed.secure_aggregation import AggregationError
from hockeystick.mechanisms.randomness.noise import SimulationNoise

RECORDS = np.full(6, 20)
KEY = b"a key of the clients, for a test"


def data() -> ClientCounts:
    symbols = np.random.default_rng(3).integers(0, 4, RECORDS.sum())
    return ClientCounts.of_records(np.repeat(np.arange(6), RECORDS), symbols, symbol_count=4)


def estimator(survivors: int = 4, factor: int = 1) -> DistributedKL:
    average = QueryAverage.drawn([0.4, 0.3, 0.2, 0.1], RECORDS, samples=30, rng=np.random.default_rng(1))
    if factor > 1:
        return DistributedKL(average=average, shares=DiscreteGaussianShares(2.0, survivors=survivors, factor=factor))
    return DistributedKL(average=average, shares=SkellamShares(3.0, survivors=survivors))


def clients(plan: DistributedKL) -> list[KLClient]:
    own = data().of_symbols(plan.average.symbols)
    return [KLClient(plan, i, own[i], KEY, 100 + i) for i in range(6)]


@pytest.mark.parametrize("missing", [set(), {2}, {0, 5}])
@pytest.mark.parametrize("factor", [1, 3])
def test_the_server_finds_the_survivors_sum(missing: set[int], factor: int) -> None:
    plan = estimator(factor=factor)
    transport = InProcess(clients(plan), silent=lambda client, number: client in missing)
    found = conduct(kl_server(plan, simulated=True), transport, clients=6)
    kept = [i for i in range(6) if i not in missing]
    noise = sum(plan.shares.share(4, noise=SimulationNoise(substream(100 + i))) for i in kept)
    exact = plan.factor * data().of_symbols(plan.average.symbols)[kept].sum(axis=0) + noise

    assert (found.result.counts == exact / plan.factor).all() and found.result.simulated
    share = plan.shares.variance() / plan.shares.survivors
    assert found.result.deviation == pytest.approx(math.sqrt(len(kept) * share) / plan.factor)
    size = 20 * len(kept)  # of those alone who have answered
    p = np.maximum(exact / plan.factor + 1.0, 1.0) / (size + 4.0)
    ratios = p / np.array([0.4, 0.3, 0.2, 0.1])
    for lam in (0.0, 1.0):
        known = float(plan.average.shares @ (lam * (ratios - 1.0) - np.log(ratios)))
        assert found.result.estimate(lam) == pytest.approx(known, rel=1e-12)
    assert found.result.average.records.tolist() == [size]
    asked = len(kept) * len(plan.average.symbols)
    assert found.communication.up == asked * (2 if missing else 1)


def test_too_many_or_too_late_dropouts_end_the_run() -> None:
    plan = estimator(survivors=5)
    gone = InProcess(clients(plan), silent=lambda client, number: client in (1, 2))
    with pytest.raises(AggregationError, match="4 of 6"):
        conduct(kl_server(plan, simulated=True), gone, clients=6)
    late = InProcess(clients(plan), silent=lambda client, number: client == 1 or (client == 3 and number == 2))
    with pytest.raises(AggregationError, match="not the second"):
        conduct(kl_server(plan, simulated=True), late, clients=6)


@pytest.mark.statistical
def test_a_single_message_is_uniform() -> None:
    """3200 residues: a chi-square test of residues in 16 classes; it fails by chance with probability 1e-6."""
    plan = estimator()
    own, request = data().of_symbols(plan.average.symbols)[0], Request(1, (1,), np.empty(0), 4, 0.0, 1e9)
    drawn = []
    for i in range(800):
        client = KLClient(plan, 0, own, i.to_bytes(16, "big"), 7)
        drawn.append(client.answer(client.start(), request)[1])
    counts = np.bincount((np.concatenate(drawn) * 16 // plan.modulus()).astype(int), minlength=16)
    unmasked_share = plan.shares.share(10_000, noise=SimulationNoise(1)) % plan.modulus() * 16 // plan.modulus()

    assert stats.chisquare(counts).pvalue > 1e-6
    assert stats.chisquare(np.bincount(unmasked_share, minlength=16)).pvalue < 1e-6


def test_clients_answer_once_and_keep_their_own_masks() -> None:
    plan = estimator()
    client = clients(plan)[2]
    first = Request(1, (1,), np.empty(0), 4, 0.0, 1e9)
    state, _ = client.answer(client.start(), first)
    with pytest.raises(FederationError, match="answered before"):
        client.answer(state, first)
    with pytest.raises(FederationError, match="masks stay secret"):
        client.answer(state, Request(2, (2,), np.array([2.0]), 4, 0.0, 1e9))
    assert "key" not in repr(client) and str(client.counts.tolist()) not in repr(client)


def test_bad_arguments_are_refused() -> None:
    plan = estimator()
    for arguments, reason in (
        ((plan, 6, [0] * 4, KEY, 1), "number"),
        ((plan, 0, [0] * 3, KEY, 1), "counts"),
        ((plan, 0, [-1, 0, 0, 0], KEY, 1), "counts"),
        ((plan, 0, [0] * 4, b"short", 1), "key"),
        ((plan, 0, [0] * 4, KEY, -1), "source"),
        (("plan", 0, [0] * 4, KEY, 1), "estimator"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            KLClient(*arguments)
    rounds = QueryAverage.drawn(
        [0.5, 0.5], RECORDS, samples=3, rng=np.random.default_rng(1), cohort_size=2, mode="disjoint"
    )
    with pytest.raises(InvalidArgumentError, match="only one can be asked"):
        kl_server(DistributedKL(average=rounds, shares=SkellamShares(3.0, survivors=2)), simulated=True)
