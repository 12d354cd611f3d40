"""Tests of Fed-SVT runs: against a transcription of the algorithm, over the protocol, from all forms of losses, for
release."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    InvalidArgumentError,
    InvalidDataError,
    Ledger,
    RefinementError,
)
from hockeystick.learners.federated.one_good_expert.exact_law import all_runs
from hockeystick.learners.federated.one_good_expert.fed_svt import FedSVT
from hockeystick.learners.federated.one_good_expert.releases import SVTRelease
from hockeystick.learners.federated.one_good_expert.runs import SVTClient, SVTRuns
from hockeystick.learners.network.protocol import (
    Communication,
    FederationError,
    InProcess,
    Request,
    State,
    conduct,
    substream,
)
from hockeystick.mechanisms.randomness.noise import SimulationNoise

FALSE_ALARM = 1e-6


def learner(**changes: Any) -> FedSVT:
    settings: dict[str, Any] = {
        "clients": 3,
        "rounds": 20,
        "experts": 4,
        "switches": 3,
        "learning_rate": 0.5,
        "threshold": 3.0,
        "threshold_scale": 0.5,
        "query_scale": 1.0,
    }
    return FedSVT(**settings | changes)


def streams(seed: int, *shape: int) -> np.ndarray:
    """Losses whose sums are exact in floats, in whatever order they are added up."""
    return np.random.default_rng(seed).integers(0, 65, shape) / 64.0


# --- the algorithm ---------------------------------------------------------------------------------------------------


def transcription(made: FedSVT, losses: np.ndarray, seed: int) -> list[int]:
    """The plays of Gao, Huang & Yang 2024, Algorithms 7 and 8, round by round, in their own order of statements.

    "paper": at round t = nN, before it is played, clients send rounds t - N .. t - 1, where round 0 is empty. "clean":
    after round nN. Corrected: one first expert for all clients, and scores of each expert.
    """
    first, limits, queries, draws = (substream(seed, purpose) for purpose in range(4))
    m, rounds, d = losses.shape
    padded = np.concatenate([np.zeros((m, 1, d)), losses], axis=1)  # round t is padded[:, t]
    x = int(first.integers(d))
    k, window, cumulative, plays = 0, 0.0, np.zeros(d), []
    level = made.threshold + limits.laplace(scale=made.threshold_scale)

    def communicate(sums: np.ndarray) -> None:
        nonlocal x, k, window, cumulative, level
        cumulative = cumulative + sums.sum(axis=0)
        window += sum(client[x] for client in sums)
        if k < made.switches and window + queries.laplace(scale=made.query_scale) > level:
            scores = np.maximum(cumulative, m * made.best_loss)
            x = int(np.argmax(-made.learning_rate / 2 * (scores - scores.min()) + draws.gumbel(size=d)))
            k, window = k + 1, 0.0
            if k < made.switches:
                level = made.threshold + limits.laplace(scale=made.threshold_scale)

    for t in range(1, rounds + 1):
        if made.indexing == "paper" and t % made.period == 0:
            communicate(padded[:, t - made.period : t].sum(axis=1))
        plays.append(x)
        if made.indexing == "clean" and t % made.period == 0:
            communicate(padded[:, t - made.period + 1 : t + 1].sum(axis=1))
    return plays


@pytest.mark.parametrize("indexing", ["clean", "paper"])
@pytest.mark.parametrize(("rounds", "period"), [(20, 1), (20, 3), (21, 7), (5, 5), (9, 5)])
def test_plays_are_those_of_the_algorithm(indexing: str, rounds: int, period: int) -> None:
    made = learner(rounds=rounds, period=period, indexing=indexing, best_loss=1.5)
    losses = streams(1, 3, rounds, 4)
    for seed in range(20):
        run = made.run(losses, server_seed=seed)
        np.testing.assert_array_equal(made.plays(run), transcription(made, losses, seed))
    assert made.plays(run).shape == (rounds,)


def test_one_client_and_one_round_is_the_single_player_algorithm() -> None:
    """Asi, Feldman, Koren & Talwar 2023, Algorithm 2, is the case m = N = 1."""
    made = learner(clients=1, rounds=60, period=1)
    losses = streams(2, 60, 4)
    for seed in range(10):
        plays = made.plays(made.run(losses, [7], server_seed=seed))
        np.testing.assert_array_equal(plays, transcription(made, losses[None], seed))


def test_the_transcription_detects_a_changed_learner() -> None:
    losses = streams(3, 3, 20, 4)
    for changed in (
        {"learning_rate": 1.0},
        {"threshold_scale": 0.6},
        {"query_scale": 1.1},
        {"best_loss": 2.0},
        {"switches": 2},
        {"indexing": "paper"},
        {"threshold": 2.5},
    ):
        other = learner(**changed)
        assert any(
            (other.plays(other.run(losses, server_seed=seed)) != transcription(learner(), losses, seed)).any()
            for seed in range(60)
        ), changed


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("indexing", ["clean", "paper"])
@pytest.mark.parametrize(("rounds", "period"), [(20, 1), (20, 3), (6, 6)])
@pytest.mark.every(3)
def test_over_the_protocol_it_plays_the_same(lazy: bool, indexing: str, rounds: int, period: int) -> None:
    made = learner(rounds=rounds, period=period, indexing=indexing, lazy_vectors=lazy)
    losses = streams(4, 3, rounds, 4)
    for seed in range(12):
        run = made.run(losses, server_seed=seed)
        outcome = conduct(made.server(server_seed=seed), InProcess([made.client(each) for each in losses]), clients=3)
        np.testing.assert_array_equal(outcome.result.experts, run.experts)
        np.testing.assert_array_equal(outcome.result.above, run.above)
        assert outcome.communication == made.communication(run)
        assert not outcome.problems


def test_messages_are_counted() -> None:
    """floor(T/N) m (d + 1) scalars as printed, and one more for each client where a tail is left."""
    losses = streams(5, 3, 20, 4)
    for period, tail in ((1, 0), (5, 0), (7, 1)):
        made = learner(period=period)
        cost = made.communication(made.run(losses, server_seed=1))
        assert cost == Communication((20 // period) * 3 * 4, (20 // period + tail) * 3)
        assert cost.printed == 3 * 4 * 20 / period  # Theorem 4: m d T/N
    lazy, seen = learner(lazy_vectors=True, threshold=9.0), []
    for seed in range(30):
        run = lazy.run(losses, server_seed=seed)
        tops, last = int(run.above.sum()), 20 if run.above.sum() < 3 else int(np.flatnonzero(run.above)[-1]) + 1
        assert lazy.communication(run) == Communication(3 * (last + 4 * tops), 3 * (last + (last < 20)))
        np.testing.assert_array_equal(run.experts, learner(threshold=9.0).run(losses, server_seed=seed).experts)
        seen.append(tops)
    assert set(seen) >= {2, 3}


def test_silent_clients_are_left_out() -> None:
    made, losses = learner(), streams(6, 3, 20, 4)
    transport = InProcess([made.client(each) for each in losses], lambda client, number: client == 2)
    outcome = conduct(made.server(server_seed=5), transport, clients=3)
    without = losses.copy()
    without[2] = 0.0
    np.testing.assert_array_equal(outcome.result.experts, made.run(without, server_seed=5).experts)
    assert {(p.client, p.reason) for p in outcome.problems} == {(2, "no answer")}
    with pytest.raises(FederationError):
        conduct(made.server(server_seed=5), InProcess(transport.clients, lambda i, n: n > 3), clients=3)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_client_that_was_away_catches_up(lazy: bool) -> None:
    """It missed requests 2 to 4, and answers the fifth as if it had been there: no stale sums are sent."""
    made, losses = learner(lazy_vectors=lazy, rounds=8), streams(7, 2, 8, 4)
    made = evolve(made, clients=2)
    away = InProcess([made.client(each) for each in losses], lambda client, number: client == 1 and 2 <= number <= 4)
    outcome = conduct(made.server(server_seed=1), away, clients=2)
    expected = np.ones_like(outcome.answered)
    expected[1:4, 1] = False
    np.testing.assert_array_equal(outcome.answered, expected)
    if not lazy:
        seen = losses.copy()
        seen[1, 1:4] = 0.0
        np.testing.assert_array_equal(outcome.result.experts, made.run(seen, server_seed=1).experts)


def test_sums_out_of_range_are_not_used() -> None:
    made, losses = learner(), streams(8, 3, 20, 4)

    class Loud(SVTClient):
        def answer(self, state: State, request: Request) -> tuple[State, np.ndarray]:
            return state, np.full(request.size, request.high + 0.01)

    clients = [made.client(losses[0]), made.client(losses[1]), Loud(made, losses[2])]
    outcome = conduct(made.server(server_seed=2), InProcess(clients), clients=3)
    assert {p.reason for p in outcome.problems} == {"out of range"}
    quiet = np.concatenate([losses[:2], np.zeros((1, 20, 4))])
    np.testing.assert_array_equal(outcome.result.experts, made.run(quiet, server_seed=2).experts)


# --- losses ----------------------------------------------------------------------------------------------------------


def reused(losses: np.ndarray, sizes: list[int]) -> Iterator[np.ndarray]:
    """Blocks of rounds that all come in the same memory."""
    room, at = np.empty((*losses.shape[:-2], max(sizes), losses.shape[-1])), 0
    for size in sizes:
        block = room[..., :size, :]
        block[...] = losses[..., at : at + size, :]
        yield block
        at += size


@settings(max_examples=30, deadline=None)
@given(
    rounds=st.integers(1, 40),
    clients=st.integers(1, 130),
    indexing=st.sampled_from(["clean", "paper"]),
    data=st.data(),
)
def test_losses_in_every_form_have_the_same_sums(rounds: int, clients: int, indexing: str, data: st.DataObject) -> None:
    period = data.draw(st.integers(1, rounds))
    cuts = data.draw(st.lists(st.integers(0, rounds), max_size=5))
    made = learner(rounds=rounds, clients=clients, period=period, indexing=indexing, experts=2)
    losses = streams(rounds + clients, clients, rounds, 2)
    sizes: list[int] = np.diff([0, *sorted(cuts), rounds]).tolist()
    expected = np.zeros((made.blocks + 1, 2))
    for n in range(made.blocks + 1):
        expected[n] = losses[:, made.edges[n] : made.edges[n + 1]].sum(axis=(0, 1))
    summed = losses.sum(axis=0)
    forms: list[Any] = []
    blocks = [np.ascontiguousarray(part) for part in np.split(losses, np.cumsum(sizes)[:-1], axis=1)]
    forms += [
        losses,
        losses.astype(np.float32),
        np.asfortranarray(losses),
        losses[:, ::-1][:, ::-1],
        summed,
        blocks,
        iter(blocks),
        reused(losses, sizes),
        reused(summed, sizes),
        summed.tolist(),
    ]
    for form in forms:
        np.testing.assert_array_equal(made.sums(form), expected)
    np.testing.assert_array_equal(
        learner(rounds=rounds, clients=1, experts=2).sums(np.round(losses[0]).astype(int))[:-1], np.round(losses[0])
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-9, 1.0 + 1e-6, 5.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_losses_out_of_range_are_refused(bad: float, dtype: type) -> None:
    made = learner(clients=70)
    losses: np.ndarray = streams(9, 70, 20, 4).astype(dtype)
    losses[66, 13, 2] = bad
    with pytest.raises(InvalidArgumentError) as caught:
        made.run(losses, server_seed=1)
    assert caught.value.argument == "losses[66, 13, 2]"
    summed = losses.sum(axis=0)
    summed[3, 1] = bad if not math.isfinite(bad) or bad < 0 else 70.5
    with pytest.raises(InvalidArgumentError, match=r"losses\[0, 3, 1\]"):
        made.sums(summed)
    with pytest.raises(InvalidArgumentError):
        learner().client(losses[66])


@pytest.mark.parametrize(
    "losses",
    [
        np.zeros((3, 19, 4)),
        np.zeros((3, 20, 5)),
        np.zeros((2, 20, 4)),
        np.zeros(4),
        np.zeros((20, 4), dtype=complex),
        "zeros",
        7,
        None,
        [],
        [np.zeros((3, 15, 4)), np.zeros((3, 6, 4))],
        [np.zeros((3, 15, 4))],
        [[0.0, 0.1], [0.2]],
    ],
    ids=str,
)
def test_other_losses_are_refused(losses: object) -> None:
    with pytest.raises(InvalidArgumentError):
        learner().run(losses, server_seed=1)


@pytest.mark.parametrize(
    "changes",
    [
        {"clients": 0},
        {"rounds": 0},
        {"experts": 1},
        {"period": 0},
        {"period": 21},
        {"switches": 0},
        {"switches": True},
        {"learning_rate": 0.0},
        {"learning_rate": math.nan},
        {"threshold": math.inf},
        {"best_loss": -1.0},
        {"threshold_scale": 0.0},
        {"query_scale": -1.0},
        {"query_scale": math.nan},
        {"indexing": "other"},
        {"lazy_vectors": 1},
        {"period": 1.5},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        learner(**changes)


@pytest.mark.parametrize("call", [{"rng": 3, "runs": 1}, {"rng": np.random.default_rng(1), "runs": 0}])
def test_bad_simulations_are_refused(call: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        learner().simulate(streams(1, 20, 4), **call)
    with pytest.raises(InvalidArgumentError):
        learner().run(streams(1, 20, 4), server_seed=-1)


# --- the law of many runs --------------------------------------------------------------------------------------------


SMALL = FedSVT(
    clients=2,
    rounds=5,
    experts=2,
    switches=2,
    period=2,
    learning_rate=0.7,
    threshold=1.0,
    best_loss=0.4,
    threshold_scale=0.8,
    query_scale=0.6,
)


def keys(runs: SVTRuns) -> list[tuple[int, ...]]:
    return [tuple(row) for row in np.concatenate([runs.experts, runs.above], axis=1).astype(int).tolist()]


def largest_difference(drawn: SVTRuns, made: FedSVT, losses: np.ndarray) -> tuple[float, float]:
    """The largest difference of a frequency from its exact probability, and what Hoeffding allows at 1e-6 over all."""
    every, counts = all_runs(made), Counter(keys(drawn))
    law = dict(zip(keys(every), np.exp(made.log_probability(every, losses)), strict=True))
    assert set(counts) <= set(law)
    total = sum(counts.values())
    gap = max(abs(counts.get(key, 0) / total - p) for key, p in law.items())
    return gap, math.sqrt(math.log(2 * len(law) / FALSE_ALARM) / (2 * total))


@pytest.mark.statistical
def test_simulated_runs_follow_the_exact_law() -> None:
    """Hoeffding over every transcript, false alarm 1e-6; the law of another learner is caught."""
    losses = streams(10, 2, 5, 2)
    drawn = SMALL.simulate(losses, np.random.default_rng(11), 40_000)
    gap, allowed = largest_difference(drawn, SMALL, losses)
    assert gap <= allowed
    for wrong in ({"threshold_scale": 0.4}, {"query_scale": 2.4}, {"learning_rate": 1.4}, {"best_loss": 2.0}):
        gap, allowed = largest_difference(drawn, evolve(SMALL, **wrong), losses)
        assert gap > allowed, wrong


@pytest.mark.statistical
def test_single_runs_follow_the_exact_law() -> None:
    """As above, for runs with a seed each."""
    losses = streams(10, 2, 5, 2)
    found = [SMALL.run(losses, server_seed=seed) for seed in range(1500)]
    drawn = SVTRuns(np.array([run.experts for run in found]), np.array([run.above for run in found]))
    gap, allowed = largest_difference(drawn, SMALL, losses)
    assert gap <= allowed
    gap, allowed = largest_difference(drawn, evolve(SMALL, threshold=3.0), losses)
    assert gap > allowed


def test_budget_is_kept_and_used() -> None:
    made = learner(threshold=0.5)
    runs = made.simulate(streams(12, 3, 20, 4), np.random.default_rng(13), 3000)
    assert runs.above.sum(axis=1).max() == 3
    moved = runs.experts[:, 1:] != runs.experts[:, :-1]
    assert not (moved & ~runs.above).any()
    assert runs.experts.shape == (3000, 21) and runs.experts.dtype == np.uint8


# --- releases --------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_releases_follow_the_exact_law_and_are_recorded() -> None:
    """Hoeffding over every transcript, false alarm 1e-6, for the code of releases on seeded noise."""
    losses, noise = streams(10, 2, 5, 2), SimulationNoise(14)
    found = [SMALL.release(losses, noise=noise) for _ in range(500)]
    drawn = SVTRuns(np.array([run.experts for run in found]), np.array([run.above for run in found]))
    gap, allowed = largest_difference(drawn, SMALL, losses)
    assert gap <= allowed
    gap, allowed = largest_difference(drawn, evolve(SMALL, threshold=3.0), losses)
    assert gap > allowed
    assert found[0].simulated


def test_a_release_is_charged_before_it_is_drawn() -> None:
    plan = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True).source("losses")
    ledger = Ledger(plan.release("run", SMALL.event(), reads=("losses",)))
    losses = streams(10, 2, 5, 2)
    with pytest.raises(InvalidArgumentError):
        SMALL.release(losses + 1.0, ledger=ledger, name="run", noise=SimulationNoise(1))
    SMALL.release(losses, ledger=ledger, name="run", noise=SimulationNoise(1))
    with pytest.raises(RefinementError):
        SMALL.release(losses, ledger=ledger, name="run", noise=SimulationNoise(1))
    with pytest.raises(InvalidArgumentError, match="summed over the clients"):
        SMALL.release(losses.sum(axis=0), noise=SimulationNoise(1))
    blocks = SMALL.release(iter([losses[:, :3], losses[:, 3:]]), noise=SimulationNoise(2))
    np.testing.assert_array_equal(blocks.experts, SMALL.release(losses, noise=SimulationNoise(2)).experts)


# --- utility ---------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_the_second_figure() -> None:
    """Uniform losses and one expert that loses nothing, m = 10, T = 2^9, d = 100, eps = 10, 600 runs each.

    Golden numbers of 30 runs, literal constants: 160.5 +- 36.6 for one client alone, 14.8 +- 4.8 for m = 10, and
    26.0 +- 7.9 with N = 50; with the least switch budget 67.2 +- 20.9 and 6.8 +- 2.6, and with equal noise
    36.3 +- 10.7 and 4.1 +- 1.4.
    The means of 30 are off by more than their spread with negligible probability.
    """
    rng = np.random.default_rng(23)
    each = rng.random((10, 512, 100))
    each[:, :, 7] = 0.0

    def mean(made: FedSVT) -> float:
        losses = each[0] if made.clients == 1 else each
        return float(made.regret(made.simulate(losses, rng, 600), losses).mean())

    def printed(**changes: Any) -> FedSVT:
        return FedSVT.printed(rounds=512, experts=100, epsilon=10.0, **changes)

    alone, together, seldom = mean(printed()), mean(printed(clients=10)), mean(printed(clients=10, period=50))
    assert abs(alone - 160.5) < 36.6 and abs(together - 14.8) < 4.8 and abs(seldom - 26.0) < 7.9
    assert 7.0 <= alone / together <= 13.0 and seldom < alone
    least = [mean(printed(clients=m, budget="negative binomial")) for m in (1, 10)]
    assert abs(least[0] - 67.2) < 20.9 and abs(least[1] - 6.8) < 2.6
    best = [mean(FedSVT.calibrated(clients=m, rounds=512, experts=100, epsilon=10.0)) for m in (1, 10)]
    assert abs(best[0] - 36.3) < 10.7 and abs(best[1] - 4.1) < 1.4
    assert printed().guarantee().epsilon(0.0).upper == pytest.approx(7.5)
    claim = printed(delta=1e-6)
    assert claim.guarantee().epsilon(1e-6).upper < 10.0 and claim.learning_rate > printed().learning_rate


def realizable(clients: int, rounds: int = 512, experts: int = 100) -> np.ndarray:
    """Sums over clients of uniform losses, one expert's all zero."""
    losses: np.ndarray = np.random.default_rng(clients).random((clients, rounds, experts)).sum(axis=0)
    losses[:, 7] = 0.0
    return losses


@pytest.mark.statistical
def test_regret_falls_as_one_over_clients_and_budget() -> None:
    """Slopes -1 +- 0.1 in m and in epsilon, 400 runs each: a deviation of 0.1 is more than ten standard errors."""
    sizes, found = np.array([1, 2, 4, 8, 16]), []
    for m in sizes:
        made = FedSVT.calibrated(clients=int(m), rounds=512, experts=100, epsilon=5.0)
        losses = realizable(int(m))
        regrets = made.regret(made.simulate(losses, np.random.default_rng(15), 400), losses)
        assert (regrets <= made.regret_bound(0.1)).mean() >= 0.8  # all of them, in fact
        found.append(regrets.mean())
    assert abs(np.polyfit(np.log(sizes), np.log(found), 1)[0] + 1.0) <= 0.1
    budgets, found, losses = np.array([2.0, 4.0, 8.0, 16.0]), [], realizable(4)
    for epsilon in budgets:
        made = FedSVT.calibrated(clients=4, rounds=512, experts=100, epsilon=epsilon)
        found.append(made.regret(made.simulate(losses, np.random.default_rng(16), 400), losses).mean())
    assert abs(np.polyfit(np.log(budgets), np.log(found), 1)[0] + 1.0) <= 0.1


def test_a_longer_period_costs_half_a_unit_per_round() -> None:
    """With noise out of the way the first block is lost, and nothing else: 0.495 N for uniform losses, d = 100.

    400 runs; the standard error of the mean is below 0.02 N.
    """
    losses = np.random.default_rng(17).binomial(4000, 0.5, (512, 100)).astype(float)
    losses[:, 7] = 0.0
    for period in (1, 8, 32):
        made = FedSVT.calibrated(clients=4000, rounds=512, experts=100, epsilon=20.0, period=period)
        regret = made.regret(made.simulate(losses, np.random.default_rng(18), 400), losses).mean()
        assert 0.44 * period < regret < 0.55 * period


def test_losses_of_runs_are_the_losses_of_plays() -> None:
    made, losses = learner(period=3, indexing="paper"), streams(19, 3, 20, 4)
    runs = made.simulate(losses, np.random.default_rng(20), 50)
    plays = made.plays(runs)
    by_hand = losses[:, np.arange(20), plays].sum(axis=(0, 2))
    np.testing.assert_allclose(made.losses_of(runs, losses), by_hand)
    best = losses.sum(axis=(0, 1)).min()
    np.testing.assert_allclose(made.regret(runs, losses), (by_hand - best) / 3)


def test_the_bound_checks_its_premises_and_holds_for_a_lossy_best_expert() -> None:
    """The best expert loses Lstar in all; 2000 runs, of which at most a share 2 rho may be above (none is)."""
    rounds, m, floor = 256, 8, 6.0
    losses = np.random.default_rng(21).binomial(m, 0.5, (rounds, 10)).astype(float)
    losses[:, 3] = m * floor / rounds
    made = FedSVT.calibrated(clients=m, rounds=rounds, experts=10, epsilon=8.0, best_loss=floor, rho=0.1)
    regrets = made.regret(made.simulate(losses, np.random.default_rng(22), 2000), losses)
    bound = made.regret_bound(0.1)
    assert (regrets > bound).mean() <= 0.2
    tight = evolve(made, best_loss=0.0, threshold=made.threshold - m * floor)
    assert bound == pytest.approx(tight.regret_bound(0.1) + (made.switches + 1) * floor)
    for changed in ({"switches": made.switches - 1}, {"threshold": made.threshold - 1.0}):
        with pytest.raises(InvalidArgumentError):
            evolve(made, **changed).regret_bound(0.1)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_run_over_a_network_can_be_published(lazy: bool) -> None:
    """The same exact draws as a release in one process; clients round their own losses."""
    learner = FedSVT.calibrated(clients=3, rounds=40, experts=4, epsilon=4.0, period=2, lazy_vectors=lazy)
    losses = np.random.default_rng(2).random((3, 40, 4))
    clients = [learner.client(own, SimulationNoise(9)) for own in losses]
    found = conduct(learner.server(SimulationNoise(5)), InProcess(clients), clients=3).result
    released = learner.release(losses, noise=SimulationNoise(5))

    assert isinstance(found, SVTRelease) and found.simulated
    assert found.above.any()
    assert (found.experts == released.experts).all() and (found.above == released.above).all()
    with pytest.raises(InvalidArgumentError, match="one of the two"):
        learner.server()
    with pytest.raises(InvalidArgumentError, match="one of the two"):
        learner.server(SimulationNoise(1), server_seed=2)


@pytest.mark.parametrize("experts", [2**31, 2**64])
def test_more_experts_than_an_array_has_room_for_have_a_guarantee_and_no_run(experts: int) -> None:
    learner, losses = evolve(SMALL, experts=experts), np.zeros((SMALL.rounds, 2))
    assert learner.guarantee("client").epsilon(0.0).upper == SMALL.guarantee("client").epsilon(0.0).upper
    for run in (
        lambda: learner.run(losses, server_seed=1),
        lambda: learner.simulate(losses, np.random.default_rng(1), 1),
        lambda: learner.release(losses, noise=SimulationNoise(1)),
        lambda: learner.sums(losses),
    ):
        with pytest.raises(InvalidArgumentError, match="experts"):
            run()


@pytest.mark.parametrize("totals", [[math.nan] * 3, [math.inf, 0.0, 0.0], [0.0], [], "x", 1.0])
def test_log_odds_of_what_are_no_totals_are_refused(totals: Any) -> None:
    learner = evolve(SMALL, experts=3)
    with pytest.raises(InvalidDataError, match="totals"):
        learner.logits(totals)
    assert (evolve(learner, best_loss=1.7e308).logits(np.array([1.0, 2.0, 3.0])) == 0.0).all()  # all are at the floor


@pytest.mark.parametrize("wrong", [{"rounds": 10**308}, {"epsilon": 2.0**31}])
def test_printed_parameters_beyond_floats_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        FedSVT.printed(**({"clients": 2, "rounds": 8, "experts": 3, "epsilon": 1.0, "delta": 1e-5} | wrong))
