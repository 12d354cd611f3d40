"""Tests of the federated stochastic learner: its steps against a deterministic oracle, and the agreement of its two
ways of running."""

import io
import math
from collections.abc import Callable
from typing import Any

import fed_stoch_cases as cases
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.loss_pool import ordered_labels, pinned, vertex_labels
from hockeystick.learners.federated.stochastic.losses import ExpertLosses, SquaredDistances, SquaredProducts
from hockeystick.learners.federated.stochastic.printed_batches import Sizes, certified_phases
from hockeystick.learners.federated.stochastic.results import Broadcasts
from hockeystick.learners.network.protocol import FederationError, InProcess, Request, conduct

ALARM, FAMILIES, data = cases.ALARM, cases.FAMILIES, cases.data
learner: Callable[..., FedStoch] = cases.learner


def clients(one: FedStoch, losses: np.ndarray, seeds: range) -> list[Any]:
    return [one.client(own, seed) for own, seed in zip(losses, seeds, strict=True)]


# --- what is computed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("trees", [0, 1, 2, 3])
def test_without_noise_and_with_one_loss_it_is_frank_wolfe(name, trees):
    """All losses are one function, so that any batch is all of it; noise is 1e-100. Oracle: Frank-Wolfe in a line."""
    family = FAMILIES[name]
    one = learner(family, trees=trees, rounds=127)
    one = evolve(
        one,
        setting=evolve(
            one.setting, phases=tuple(evolve(p, scales=[1e-100] * len(p.scales)) for p in one.setting.phases if p)
        ),
    )
    record = data(one)[0, 0]
    found = one.run(np.broadcast_to(record, (3, 127, 4)).copy(), range(3)).broadcasts
    point = np.full(4, 0.25)
    for p, phase in enumerate(one.setting.phases, start=2):
        assert phase is not None
        for k in range(1, phase.leaves() + 1):
            winner = int(np.argmin(family.gradients(record[None], point)[0]))
            assert found.winners[p - 2][k - 1] == winner
            point = (1 - 2 / (k + 1)) * point + 2 / (k + 1) * np.eye(4)[winner]
        assert found.points[p - 1] == pytest.approx(point)


def test_one_tree_ends_at_a_third_and_two_thirds_of_its_winners():
    found = learner(trees=1).run(data(learner(trees=1)), range(3)).broadcasts
    for winners, point in zip(found.winners[3:], found.points[4:], strict=True):
        expected = np.zeros(4)
        expected[winners[0]] += 1 / 3
        expected[winners[1]] += 2 / 3
        assert point == pytest.approx(expected)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("where", ["client", "server"])
@pytest.mark.parametrize("noise", ["laplace", "gumbel", "exponential", "gaussian"])
@pytest.mark.every(3)
def test_a_run_in_one_process_is_a_conducted_one(name, where, noise):
    one = learner(FAMILIES[name], rounds=50, where=where, noise=noise, assignment="secret")
    losses = data(one)
    run = one.run(losses, range(3), server_seed=9)
    outcome = conduct(one.server(9), InProcess(clients(one, losses, range(3))), clients=3)
    assert outcome.result.winners == run.broadcasts.winners
    assert (outcome.result.points == run.broadcasts.points).all()
    assert one.regrets(run.broadcasts.points[None], losses) == pytest.approx([run.regret])


@pytest.mark.parametrize("name", ["experts", "products"])
@given(st.integers(1, 60), st.sampled_from(["secret", "contiguous"]))
@settings(max_examples=15)
def test_blocks_of_rounds_are_as_good_as_an_array(name, block, assignment):
    one = learner(FAMILIES[name], rounds=45, assignment=assignment)
    losses = data(one)
    whole = one.run(losses, range(3))
    cut = one.run((losses[:, t : t + block] for t in range(0, 45, block)), range(3))
    assert cut.broadcasts.winners == whole.broadcasts.winners
    assert cut.losses == pytest.approx(whole.losses)
    assert cut.expert_losses == pytest.approx(whole.expert_losses)


# --- who reads what --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["experts", "distances"])
def test_a_phase_reads_nothing_of_its_own_rounds_or_later(name):
    """It does read the previous phase: with hardly any noise, reversing that phase changes it."""
    one = learner(FAMILIES[name], rounds=63, epsilon=1e6)
    losses = data(one)
    before = one.run(losses, range(3)).broadcasts.points
    for p in range(2, 7):
        later, earlier = losses.copy(), losses.copy()
        later[:, 2 ** (p - 1) - 1 :] = 1 - losses[:, 2 ** (p - 1) - 1 :]
        earlier[:, 2 ** (p - 2) - 1 : 2 ** (p - 1) - 1] = 1 - losses[:, 2 ** (p - 2) - 1 : 2 ** (p - 1) - 1]
        assert (one.run(later, range(3)).broadcasts.points[:p] == before[:p]).all()
        if p < 6:
            assert (one.run(later, range(3)).broadcasts.points[p] != before[p]).any()
        assert (one.run(earlier, range(3)).broadcasts.points[p - 1] != before[p - 1]).any()


@given(st.integers(0, 3), st.integers(0, 40), st.integers(0, 2**20))
def test_no_loss_is_read_twice(trees, spare, seed):
    batch = 2**trees * 2
    phase = TreePhase(
        records=batch * (1 + trees * (trees + 5)) + spare if trees else batch,
        trees=trees, batch=batch, scales=[1.0] * max(1, trees),
    )  # fmt: skip
    counts = [vertex.records for vertex in phase.vertices()]
    in_order = ordered_labels(phase)
    setting = StochSetting(clients=1, phases=(), assignment="secret")
    for labels in (in_order, vertex_labels(phase, setting, np.random.default_rng(seed))):
        assert [int((labels == v).sum()) for v in range(len(counts))] == counts
        assert (labels == -1).sum() == phase.records - phase.used()
    read = in_order[in_order >= 0]
    assert (np.diff(read) >= 0).all() and (in_order[len(read) :] == -1).all()
    contiguous = vertex_labels(phase, evolve(setting, assignment="contiguous"), np.random.default_rng(seed))
    assert (contiguous == in_order).all()


def orders(counts: dict[tuple[int, ...], int], wanted: list[tuple[int, ...]]) -> float:
    observed = [counts.get(order, 0) for order in wanted]
    assert sum(observed) == sum(counts.values())
    return float(stats.chisquare(observed).statistic)


def test_secret_assignments_are_uniform_also_around_a_pin():
    """Chi-square over all arrangements, alarm 1e-6 / 4 each; a shuffle that spares the first loss is caught."""
    phase = TreePhase(records=4, trees=1, batch=2, scales=[1.0])  # two at the root, one at the child, one unread
    everything = sorted({tuple(np.random.default_rng(i).permutation([0, 0, 1, -1])) for i in range(400)})
    assert len(everything) == 12
    rng = np.random.default_rng(5)
    setting = StochSetting(clients=1, phases=())
    drawn = np.array([vertex_labels(phase, setting, rng) for _ in range(6000)])[:, None, :]

    def counted(labels: np.ndarray) -> dict[tuple[int, ...], int]:
        rows, found = np.unique(labels[:, 0], axis=0, return_counts=True)
        return {tuple(row.tolist()): int(n) for row, n in zip(rows, found, strict=True)}

    assert orders(counted(drawn), everything) < stats.chi2.isf(ALARM / 4, 11)
    for vertex in (0, 1, -1):
        at = [order for order in everything if order[2] == vertex]
        held = pinned(drawn, {(0, 2): vertex}, rng)
        assert orders(counted(held), at) < stats.chi2.isf(ALARM / 4, len(at) - 1)
    rest = rng.permuted(np.tile([0, 1, -1], (6000, 1, 1)), axis=2)
    biased = np.concatenate([np.zeros((6000, 1, 1), dtype=int), rest], axis=2)
    assert orders(counted(biased), everything) > stats.chi2.isf(ALARM, 11)


def test_no_noise_is_drawn_twice():
    """All losses are ties, so a client's answer is only its noise. Leaves, phases and clients all draw independent
    noise."""
    one = learner(low=-1.0, high=1.0, rounds=63)
    told: list[np.ndarray] = []
    transport = InProcess(clients(one, np.zeros((3, 63, 4)), range(3)))

    def listening(requests: Any) -> Any:
        found = transport(requests)
        told.extend(answer for answer in found.values() if answer.size)
        return found

    conduct(one.server(), listening, clients=3)
    heard = np.concatenate(told)
    assert len(np.unique(heard)) == len(heard) == 3 * 4 * sum(p.leaves() for p in one.setting.phases if p)


# --- federation ------------------------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(2, 9), st.integers(1, 6), st.booleans())
@settings(max_examples=20)
def test_communication_of_one_tree_is_counted_exactly(m, d, doublings, hold):
    """2*(active phases)*m*(d + 1) scalars: d up and one down at each of two leaves."""
    one = learner(m=m, d=d, rounds=2 ** (3 + doublings) - 1, trees=1)
    phases = (None, None) + ((None,) if hold else one.setting.phases[2:3]) + one.setting.phases[3:]
    one = evolve(one, setting=evolve(one.setting, phases=phases))
    outcome = conduct(one.server(), InProcess(clients(one, data(one), range(m))), clients=m)
    active = sum(phase is not None for phase in phases)
    leaves = sum(phase.leaves() for phase in phases if phase)
    assert outcome.communication.up == leaves * m * d and outcome.communication.down == leaves * m
    assert outcome.communication == one.communication() and one.communication().printed is None
    if one.setting.phases[2] is None or one.setting.phases[2].trees:
        assert outcome.communication.up + outcome.communication.down == 2 * active * m * (d + 1)


@pytest.mark.parametrize(("smoothness", "where"), [(0.0, "client"), (1.0, "client"), (1.0, "server")])
@pytest.mark.parametrize("clients", [10, 1000])
def test_counts_are_at_most_twice_the_printed_order(smoothness, where, clients):
    """Corollary 1: m d log2 T. Theorems 1 and 7: m^(5/4) and m^(3/2), times d sqrt(T eps beta/(alpha ln d))."""
    given = Sizes(clients=clients, experts=100, epsilon=1.0, lipschitz=1.2, smoothness=smoothness, where=where)
    for doublings in (12, 16, 20, 26):
        rounds = 2**doublings - 1
        phases = certified_phases(given, rounds, trees=None if smoothness else 1)
        setting = StochSetting(clients=clients, phases=phases, low=-1.2, high=1.2, smoothness=smoothness, where=where)
        family = SquaredDistances(least=-0.2, most=1.2) if smoothness else ExpertLosses()
        sent = FedStoch(setting=setting, rounds=rounds, experts=100, family=family).communication(given)
        by_hand = clients * 100 * math.log2(rounds)
        if smoothness:
            power = 1.5 if where == "server" else 1.25
            by_hand = clients**power * 100 * math.sqrt(rounds / (1.2 * math.log(100)))
        assert sent.printed == pytest.approx(by_hand) and sent.up + sent.down <= 2.0 * by_hand
    assert sent.up + sent.down > by_hand  # of the last: a count without the second leaf would be below


def test_all_clients_reach_the_same_point_even_late_ones():
    one = learner(SquaredDistances(), m=4, rounds=63)
    losses = data(one)
    late = InProcess(clients(one, losses, range(4)), silent=lambda client, n: client == 2 and n < 12 and n != 5)
    outcome = conduct(one.server(), late, clients=4)
    assert {problem.reason for problem in outcome.problems} == {"no answer"}
    prompt = InProcess(clients(one, losses, range(4)))
    conduct(one.server(), prompt, clients=4)
    for client in range(4):
        assert (late._states[client]["point"] == outcome.result.points[-1]).all()
    assert late._states[2]["labels"].tolist() == prompt._states[2]["labels"].tolist()


def test_state_lives_between_requests_in_a_file():
    one = learner(SquaredProducts(), rounds=40)
    losses = data(one)
    all_of_them = clients(one, losses, range(3))
    files: dict[int, bytes] = {}

    def stored(requests: Any) -> Any:
        found = {}
        for i, waiting in requests.items():
            state = dict(np.load(io.BytesIO(files[i]))) if i in files else all_of_them[i].start()
            for request in waiting:
                state, found[i] = all_of_them[i].answer(state, request)
            kept = io.BytesIO()
            np.savez(kept, **state)
            files[i] = kept.getvalue()
        return found

    outcome = conduct(one.server(), stored, clients=3)
    assert outcome.result.winners == one.run(losses, range(3)).broadcasts.winners


def test_malformed_answers_are_left_out():
    """A client that sends nonsense is as good as none; where raw gradients are sent, so is one out of their range."""
    for where, bad in (("client", np.full(4, np.nan)), ("client", np.zeros(3)), ("server", np.full(4, 1e6))):
        one = learner(where=where, rounds=31)
        losses = data(one)
        honest = InProcess(clients(one, losses, range(3)))
        alone = InProcess(clients(one, losses, range(3)), silent=lambda client, n: client == 1)

        def spoilt(requests: Any, bad: Any = bad, honest: Any = honest) -> Any:
            return {i: bad if i == 1 and len(answer) else answer for i, answer in honest(requests).items()}

        found, expected = (conduct(one.server(1), each, clients=3).result for each in (spoilt, alone))
        assert found.winners == expected.winners


def test_dropouts_do_not_reduce_the_servers_noise():
    """With losses of 0 the noise decides the winner, which is the same for all subsets of answers."""
    one = learner(where="server", m=5, rounds=63, low=-1.0)
    losses = np.zeros((5, 63, 4))
    everybody = conduct(one.server(3), InProcess(clients(one, losses, range(5))), clients=5)
    few = conduct(one.server(3), InProcess(clients(one, losses, range(5)), silent=lambda i, n: i != n % 5), clients=5)
    assert few.result.winners == everybody.result.winners


def test_a_client_answers_each_leaf_once_and_in_turn():
    one = learner(trees=1, rounds=31)
    client = one.client(data(one)[0], 0)
    none, nobody = np.zeros(0), np.zeros(1)
    start = client.start()
    first = Request(3, (4, 1), none, 4)
    state, answer = client.answer(start, first)
    again, repeated = client.answer(state, first)
    assert again is state and (repeated == answer).all()
    assert np.isnan(client.answer(state, Request(2, (3, 1), none, 4))[1]).all()
    for step, values, size in [
        ((4, 1), none, 4), ((4, 1), nobody, 4), ((3, 1), none, 4), ((5, 1), none, 4), ((4, 2), nobody, 3),
        ((4, 0), nobody, 0), ((4, 2), none, 4), ((4, 2), np.array([4.0]), 4), ((4, 2), np.array([0.5]), 4),
        ((4, 2), -np.ones(1), 4), ((9, 1), none, 4), ((4,), none, 4),
    ]:  # fmt: skip
        with pytest.raises(FederationError):
            client.answer(state, Request(4, step, values, size))
    last, _ = client.answer(state, Request(4, (4, 2), nobody, 4))
    over, nothing = client.answer(last, Request(5, (4, 0), nobody, 0))
    assert nothing.shape == (0,) and (over["point"] == np.eye(4)[0]).all()
    for step in ((4, 1), (3, 1), (5, 2)):
        with pytest.raises(FederationError):
            client.answer(over, Request(6, step, none, 4))
    assert client.answer(over, Request(6, (5, 1), none, 4))[1].shape == (4,)


# --- arguments -------------------------------------------------------------------------------------------------------


def test_learners_that_cannot_be_run_are_refused():
    one = learner()
    losses = data(one)
    for bad in (
        losses[:, :-1],
        losses[:2],
        losses[..., :3],
        2 * losses,
        np.full_like(losses, np.nan),
        [losses, losses],
    ):
        with pytest.raises(InvalidArgumentError):
            one.run(bad, range(3))
    bad_seeds: list[list[Any]] = [[0, 1], [0, 1, 1], [0, 1, -1], [0, 1, 2.5], [0, True, 2]]
    for seeds in bad_seeds:
        with pytest.raises(InvalidArgumentError):
            one.run(losses, seeds)
    with pytest.raises(InvalidArgumentError):
        learner(where="server").run(losses, range(3))
    with pytest.raises(InvalidArgumentError):
        one.client(losses[0, :5], 0)
    with pytest.raises(InvalidArgumentError):
        one.simulate(losses, np.random.default_rng(0), 0)
    with pytest.raises(InvalidArgumentError):
        one.simulate(losses, 3, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        learner(SquaredDistances()).worst_case_neighbours()
    for pins in ({(0, 64): 0}, {(3, 5): 0}, {(0, 5): 9}, {(0, 33): 0, (0, 34): 0}, {(0, 1): -1}):
        with pytest.raises(InvalidArgumentError):
            one.simulate(losses, np.random.default_rng(0), 2, pins=pins)
    with pytest.raises(InvalidArgumentError):
        learner(assignment="contiguous").simulate(losses, np.random.default_rng(0), 2, pins={(0, 33): 0})
    for outcomes in ({(1, 1): 0}, {(7, 9): 0}, {(2, 1): 4}, {(2, 2): 0}):
        with pytest.raises(InvalidArgumentError):
            one.simulate(losses, np.random.default_rng(0), 2, outcomes=outcomes)


@pytest.mark.parametrize(
    "changed",
    [
        {"rounds": 64},
        {"rounds": 31},
        {"rounds": 0},
        {"experts": 1},
        {"setting": None},
        {"family": SquaredDistances()},
        {"family": None},
        {"family": ExpertLosses},
    ],
)
def test_inconsistent_learners_are_refused(changed):
    with pytest.raises(InvalidArgumentError):
        evolve(learner(), **changed)


@pytest.mark.parametrize("assignment", ["secret", "contiguous"])
@pytest.mark.parametrize("trees", [0, 1, 3])
def test_worst_case_neighbours_differ_in_one_loss_that_is_read_at_a_root(assignment, trees):
    one = learner(trees=trees, assignment=assignment, rounds=127)
    losses, other = one.worst_case_neighbours()
    (where,) = np.argwhere((losses != other).any(axis=-1))
    assert where[0] == 0
    k = int(where[1] + 1).bit_length() - 1
    phase = one.setting.phases[k]
    assert phase is not None
    if assignment == "contiguous":
        vertex = phase.vertices()[ordered_labels(phase)[where[1] + 1 - phase.records]]
        assert vertex.depth == 0
    assert (losses[0, where[1]] - other[0, where[1]]).tolist() == [-1.0, 1.0, 1.0, 1.0]
    with pytest.raises(InvalidArgumentError):
        evolve(one, setting=evolve(one.setting, phases=(None,) * 6)).worst_case_neighbours()


def test_a_point_is_held_where_a_phase_reads_nothing():
    one = learner(rounds=31)
    phases = one.setting.phases
    one = evolve(one, setting=evolve(one.setting, phases=(*phases[:2], None, *phases[3:])))
    found = one.run(data(one), range(3)).broadcasts
    assert found.winners[2] == () and (found.points[3] == found.points[2]).all()
    assert (found.play(8) == found.points[3]).all() and (found.play(7) == found.points[2]).all()


def test_one_round_is_played_at_the_centre():
    one = FedStoch(setting=StochSetting(clients=2, phases=()), rounds=1, experts=4)
    losses = np.random.default_rng(0).random((2, 1, 4))
    run = one.run(losses, range(2))
    assert run.losses == pytest.approx(losses[:, 0].mean(axis=1)) and run.broadcasts.winners == ()
    assert conduct(one.server(), InProcess(clients(one, losses, range(2))), clients=2).result.points.tolist() == [
        [0.25] * 4
    ]


def test_a_client_shows_neither_losses_nor_seed():
    shown = repr(learner().client(data(learner())[0], 12345))
    assert "array" not in shown and "12345" not in shown


@pytest.mark.parametrize("model", ["output", "client", "server"])
def test_a_calibrated_learner_certifies_its_target(model):
    one = learner().recalibrated(model, epsilon=0.7)
    assert 0.69 < one.graph().guarantee(view=model).epsilon(delta=0.0).upper <= 0.7
    assert one.rounds == 63 and one.setting.phases[-1] != learner().setting.phases[-1]


def last_phase(one: FedStoch) -> TreePhase:
    phase = one.setting.phases[-1]
    assert phase is not None
    return phase


@pytest.mark.parametrize("view", ["output", "client", "server", "central"])
@pytest.mark.parametrize("trees", [None, 1])
def test_a_learner_is_calibrated_from_its_sizes(view: str, trees: int | None) -> None:
    one = FedStoch.calibrated(clients=3, rounds=63, experts=4, epsilon=0.7, view=view, trees=trees)
    assert 0.69 < one.guarantee(view).epsilon(0.0).upper <= 0.7
    assert one.setting.where == ("server" if view == "central" else "client")
    assert last_phase(one).trees == (trees or 0) and one.family == ExpertLosses()


def test_a_learner_has_the_range_and_smoothness_of_its_losses() -> None:
    family = SquaredDistances(least=-1.0, most=2.0)
    one = FedStoch.calibrated(clients=3, rounds=255, experts=4, epsilon=8.0, view="output", family=family)
    made = one.setting
    assert (made.low, made.high, made.smoothness) == (family.low, family.high, family.smoothness)
    sizes = Sizes(
        clients=3, experts=4, epsilon=8.0, lipschitz=max(-family.low, family.high), smoothness=family.smoothness
    )
    depths = [each.trees for each in certified_phases(sizes, 255)]
    assert [each.trees for each in made.phases if each is not None] == depths and depths[-1] > 0


@pytest.mark.parametrize(
    ("target", "noise", "view", "assignment"),
    [
        ((1e-3, 0.0), "laplace", "output", "secret"),  # where a secret order helps trees most
        ((5.0, 0.0), "gumbel", "central", "contiguous"),
        ((0.1, 1e-6), "gaussian", "server", "secret"),
    ],
)
def test_one_release_needs_the_least_noise_for_linear_losses(target, noise, view, assignment) -> None:
    found = [
        FedStoch.calibrated(
            clients=3, rounds=15, experts=4, epsilon=target[0], delta=target[1], view=view, trees=trees, noise=noise,
            assignment=assignment,
        )
        for trees in (None, 1)
    ]  # fmt: skip
    one, more = (min(last_phase(each).scales) for each in found)
    assert one < more and found[0].regret_bound() <= found[1].regret_bound()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"clients": 0}, "clients"), ({"rounds": 0}, "rounds"), ({"experts": 1}, "experts"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"), ({"delta": 1.0}, "delta"), ({"view": "insider"}, "insider"),
        ({"trees": -1}, "trees"), ({"noise": "uniform"}, "noise"), ({"assignment": "none"}, "assignment"),
        ({"family": ExpertLosses}, "family"), ({"noise": "gumbel", "view": "server"}, "server"),
        ({"noise": "gaussian"}, "delta"), ({"amplified": 2}, "amplified"),
    ],
)  # fmt: skip
def test_bad_arguments_of_a_calibration_are_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        FedStoch.calibrated(**{"clients": 3, "rounds": 15, "experts": 4, "epsilon": 1.0, **change})


@pytest.mark.parametrize("points", [np.nan, [[np.nan]], [1.0], "x"])
def test_broadcasts_of_what_are_no_points_are_refused(points: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="points"):
        Broadcasts(points, ())
