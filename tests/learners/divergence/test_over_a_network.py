"""Tests of the distributed estimate over a transport: the sum of the shares, dropouts, and whose noise is charged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import HockeystickError, InvalidArgumentError, Ledger, epsilon
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.over_a_network import KLClient, kl_plan, kl_server
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.network.protocol import substream
from hockeystick.mechanisms import ClientsInProcess, DiscreteGaussianShares, PolyaShares, SkellamShares
from hockeystick.mechanisms.distributed.pairwise.messages import MessageError
from hockeystick.mechanisms.distributed.secure_aggregation import AggregationError
from hockeystick.mechanisms.randomness.noise import SimulationNoise

pytest.importorskip("cryptography", reason="needs the extra secure-sum")

from hockeystick.mechanisms import new_identity

RECORDS = np.full(6, 20)


def data() -> ClientCounts:
    symbols = np.random.default_rng(3).integers(0, 4, RECORDS.sum())
    return ClientCounts.of_records(np.repeat(np.arange(6), RECORDS), symbols, symbol_count=4)


def estimator(survivors: int = 4, factor: int = 1, **more: Any) -> DistributedKL:
    average = QueryAverage.drawn([0.4, 0.3, 0.2, 0.1], RECORDS, samples=30, rng=np.random.default_rng(1))
    shares = SkellamShares(3.0, survivors=survivors)
    if factor > 1:
        return DistributedKL(average=average, shares=DiscreteGaussianShares(2.0, survivors=survivors, factor=factor))
    return DistributedKL(average=average, shares=shares, **more)


def clients(plan: DistributedKL) -> Any:
    own = data().of_symbols(plan.average.symbols)
    return [KLClient(plan, i, own[i], 100 + i) for i in range(6)]


@pytest.mark.parametrize("missing", [dict[int, int](), {2: 0}, {0: 2, 5: 3}, {0: 1, 5: 2}])
@pytest.mark.parametrize("factor", [1, 3])
def test_the_server_finds_the_survivors_sum(missing: dict[int, int], factor: int) -> None:
    """``missing`` has the step before which a client drops out: one that has sent its counts is in the sum."""
    plan = estimator(factor=factor)
    post = ClientsInProcess(clients(plan), lambda client, step: missing.get(client, 9) <= step)
    found, outcome = kl_server(plan, post, simulated=True)
    kept = [i for i in range(6) if missing.get(i, 9) > 2]
    noise = sum(plan.shares.share(4, noise=SimulationNoise(substream(100 + i))) for i in kept)
    exact = plan.factor * data().of_symbols(plan.average.symbols)[kept].sum(axis=0) + noise

    assert (found.counts == exact / plan.factor).all() and found.simulated and outcome.clients == tuple(kept)
    share = plan.shares.variance() / plan.shares.survivors
    assert found.deviation == pytest.approx(math.sqrt(len(kept) * share) / plan.factor)
    size = 20 * len(kept)  # of those alone who have answered
    p = np.maximum(exact / plan.factor + 1.0, 1.0) / (size + 4.0)
    ratios = p / np.array([0.4, 0.3, 0.2, 0.1])
    for lam in (0.0, 1.0):
        known = float(plan.average.shares @ (lam * (ratios - 1.0) - np.log(ratios)))
        assert found.estimate(lam) == pytest.approx(known, rel=1e-12)
    assert found.average.records.tolist() == [size]


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_more_dropouts_than_the_threshold_allows_end_the_run(step: int) -> None:
    plan = estimator(survivors=5)
    gone = ClientsInProcess(clients(plan), lambda client, at: client in (1, 2) and at >= step)
    with pytest.raises(AggregationError, match=f"step {step}: 4 of 6 .* threshold is 5"):
        kl_server(plan, gone, simulated=True)


@pytest.mark.parametrize(("step", "spent"), [(1, 0), (2, 1), (3, 1), (4, 1)])
def test_the_ledger_is_charged_with_the_masked_counts_and_keeps_the_charge(step: int, spent: int) -> None:
    plan = estimator()
    ledger = Ledger(plan.graph())
    post = ClientsInProcess(clients(plan), lambda client, at: client < 3 and at >= step)
    try:
        kl_server(plan, post, simulated=True, ledger=ledger, name="counts")
    except AggregationError:
        assert step < 4
    assert ledger.recorded("counts") == spent

    def nobody(letters: dict[int, bytes]) -> Any:
        asked.append(len(letters))
        return inner(letters)

    asked: list[int] = []
    inner = ClientsInProcess(clients(plan))
    if spent:
        with pytest.raises(HockeystickError):  # the plan has one release of the counts
            kl_server(plan, nobody, simulated=True, ledger=ledger, name="counts")
        assert asked == [6, 6]


def test_a_leaked_client_shows_nothing_of_the_others() -> None:
    """Today's only key is gone: the pair of two other clients has a secret that is in no third client's state."""
    plan = estimator()
    those = clients(plan)
    states: dict[int, list[dict[str, bytes]]] = {}
    inner = ClientsInProcess(those)

    def spied(letters: dict[int, bytes]) -> Any:
        found = inner(letters)
        for client, state in inner._states.items():
            states.setdefault(client, []).append({name: each.tobytes() for name, each in state.items()})
        return found

    kl_server(plan, spied, simulated=True)
    leaked = b"".join(each for state in states[5] for each in state.values())
    for other in range(5):
        for secret in {state["secret"] for state in states[other] if "secret" in state}:
            assert len(secret) == 32 and secret not in leaked


def test_a_client_answers_once_and_its_repr_shows_no_counts() -> None:
    plan = estimator()
    client = clients(plan)[2]
    from hockeystick.mechanisms.distributed.pairwise.sum_server import serve

    text = next(serve(kl_plan(plan)))[2]
    state, _ = client.answer(client.start(), text)
    with pytest.raises(MessageError, match="not due"):
        client.answer(state, text)
    assert str(client.counts.tolist()) not in repr(client) and "source" not in repr(client)


def test_the_noise_of_threshold_minus_colluders_is_charged() -> None:
    plan = estimator(survivors=3, threshold=5)
    for colluders, honest in ((None, 3), (0, 5), (2, 3), (4, 1)):
        same = DistributedKL(average=plan.average, shares=SkellamShares(3.0, survivors=honest))
        found = plan.guarantee("server", colluders=colluders)
        assert found.epsilon(1e-6).upper == epsilon(same.event(), 1e-6).upper
        assert f"at most {5 - honest} of the clients" in found.assumptions[1] and "X25519" in found.assumptions[3]
    assert plan.guarantee("client").epsilon(1e-6) == plan.guarantee("output").epsilon(1e-6)
    for wrong in (-1, 5, 1.5):
        with pytest.raises(InvalidArgumentError, match="colluders"):
            plan.guarantee("server", colluders=wrong)  # type: ignore[arg-type]
    polya = DistributedKL(average=plan.average, shares=PolyaShares(5.0, survivors=5))
    assert polya.guarantee("server", colluders=1).epsilon(0.0).upper > polya.guarantee("server").epsilon(0.0).upper


def test_a_lying_server_needs_signed_lists_and_a_higher_threshold() -> None:
    with pytest.raises(InvalidArgumentError, match="two lists"):
        estimator(survivors=3, threshold=4).guarantee("server", colluders=2, lying=True)
    found = estimator(survivors=3, threshold=5).guarantee("server", colluders=2, lying=True)
    assert "Ed25519" in found.assumptions[2] and not any("semi-honest" in each for each in found.assumptions)
    secret, public = zip(*(new_identity() for _ in range(6)), strict=True)
    plan, own = estimator(), data().of_symbols(estimator().average.symbols)
    signing = [KLClient(plan, i, own[i], 100 + i, identities=public, identity=secret[i]) for i in range(6)]
    signed, outcome = kl_server(plan, ClientsInProcess(signing), simulated=True, identities=public)
    plain, _ = kl_server(plan, ClientsInProcess(clients(plan)), simulated=True)
    assert (signed.counts == plain.counts).all() and outcome.clients == tuple(range(6))


def test_bad_arguments_are_refused() -> None:
    plan = estimator()
    for arguments, reason in (
        ((plan, 6, [0] * 4, 1), "number"),
        ((plan, 0, [0] * 3, 1), "counts"),
        ((plan, 0, [-1, 0, 0, 0], 1), "counts"),
        ((plan, 0, [0] * 4, -1), "source"),
        (("plan", 0, [0] * 4, 1), "estimator"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            KLClient(*arguments)
    for threshold in (3, 7):
        with pytest.raises(InvalidArgumentError, match="threshold"):
            estimator(threshold=threshold)
    rounds = QueryAverage.drawn(
        [0.5, 0.5], RECORDS, samples=3, rng=np.random.default_rng(1), cohort_size=2, mode="disjoint"
    )
    several = DistributedKL(average=rounds, shares=SkellamShares(3.0, survivors=2))
    with pytest.raises(InvalidArgumentError, match="only one can be asked"):
        kl_server(several, lambda letters: [], simulated=True)
