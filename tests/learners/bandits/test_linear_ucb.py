"""Tests of LinUCB under joint differential privacy: its sensitivity, its guarantee, its sessions and its refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import asdict, evolve, frozen
from samples import chi_square_of_counts

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    GraphError,
    InvalidArgumentError,
    Ledger,
    UnsupportedAdjacencyError,
    epsilon,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import ContextualRewards, PrivateLinUCB
from hockeystick.learners.bandits.contextual_rewards import (
    SENSITIVITY,
    checked_contexts,
    coordinates,
    entries,
    matrix_and_vector,
)
from hockeystick.mechanisms import SimulationNoise, TreeAggregation
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError

FALSE_ALARM = 1e-6
FAR = 2.0 * math.sqrt(2.0)


def small(**changes: Any) -> PrivateLinUCB:
    return PrivateLinUCB(**({"rounds": 5, "dimension": 2, "scale": 1.0} | changes))


def random_data(rounds: int = 5, actions: int = 3, dimension: int = 2, seed: int = 1) -> ContextualRewards:
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-1, 1, (rounds, actions, dimension)) / math.sqrt(dimension)
    return ContextualRewards(contexts, rng.uniform(-1, 1, (rounds, actions)))


# --- sensitivity -----------------------------------------------------------------------------------------------------


def in_range(point: FloatArray, dimension: int) -> tuple[FloatArray, FloatArray]:
    """A context of norm at most 1 and a reward in [-1, 1], from any numbers."""
    x, y = point[:dimension], np.clip(point[dimension], -1, 1)
    return x / max(1.0, float(np.linalg.norm(x))), np.asarray(y)


def test_people_are_as_far_apart_as_the_sensitivity() -> None:
    """The largest squared distance on a grid of norms, rewards and angles is 8; a sensitivity of 2 would be too small.

    Without the other person, as under add-or-remove-one, the largest is 3; with the square of the reward it is 4.
    """
    a, b = np.linspace(0, 1, 9)[:, None, None, None, None], np.linspace(0, 1, 9)[:, None, None, None]
    y, u, cosine = np.linspace(-1, 1, 9)[:, None, None], np.linspace(-1, 1, 9)[:, None], np.linspace(-1, 1, 17)
    p = a * b * cosine
    far = a**4 + b**4 - 2 * p**2 + 2 * (a**2 * y**2 + b**2 * u**2 - 2 * y * u * p)
    assert far.max() == 8.0 and 8.0 <= SENSITIVITY**2 <= 8.0 * (1 + 1e-11)
    one, two = (coordinates(np.array([0.6, 0.8]), np.array(y)) for y in (1.0, -1.0))
    assert np.linalg.norm(one - two) == pytest.approx(FAR)
    alone = a**4 + 2 * a**2 * y**2
    assert alone.max() == 3.0 and (alone + y**4).max() == 4.0


def test_distances_are_those_of_matrices_without_the_squared_reward() -> None:
    """Frobenius distances of v vᵀ; the closed form ‖v‖⁴ + ‖w‖⁴ − 2⟨v, w⟩² less (y² − y'²)², at most 8."""
    rng = np.random.default_rng(2)
    for _ in range(40):
        d = int(rng.integers(1, 6))
        (x, y), (z, u) = (in_range(rng.normal(size=d + 1), d) for _ in range(2))
        v, w = np.append(x, y), np.append(z, u)
        far, a, b, p = float(((coordinates(x, y) - coordinates(z, u)) ** 2).sum()), x @ x, z @ z, x @ z
        matrices = float(((np.outer(v, v) - np.outer(w, w)) ** 2).sum())
        closed = (v @ v) ** 2 + (w @ w) ** 2 - 2 * (v @ w) ** 2
        assert matrices == pytest.approx(closed) and far == pytest.approx(closed - (y**2 - u**2) ** 2)
        assert far == pytest.approx(a**2 + b**2 - 2 * p**2 + 2 * (a * y**2 + b * u**2 - 2 * y * u * p))
        assert far <= 8 + 1e-12
        matrix, vector = matrix_and_vector(coordinates(x, y), d)
        np.testing.assert_allclose(matrix, np.outer(x, x), atol=1e-15)
        np.testing.assert_allclose(vector, y * x, atol=1e-15)
        assert len(coordinates(x, y)) == entries(d)


def test_long_contexts_that_pass_are_within_the_sensitivity() -> None:
    """The margin: the longest floating-point norm that counts as 1."""
    long = np.array([0.6, 0.8]) * (1 + 2.0**-41)
    passed = checked_contexts("contexts", [long], shape=(None, 2), clip=False)[0]
    np.testing.assert_array_equal(passed, long)
    assert np.linalg.norm(coordinates(long, np.array(1.0)) - coordinates(long, np.array(-1.0))) <= SENSITIVITY
    with pytest.raises(InvalidArgumentError, match=r"contexts\[1\]"):
        checked_contexts("contexts", [long, 1.001 * long], shape=(None, 2), clip=False)


def test_clipping_comes_before_the_product() -> None:
    """Clipped data move the sums by 2√2 as others do; entries that are clipped after the product, by more."""
    learner, wild = small(clip=True, dimension=4), np.full((5, 1, 4), 3.0)
    first, second = (ContextualRewards(wild, np.full((5, 1), y)) for y in (7.0, -math.inf))
    one, two = (learner._checked(data) for data in (first, second))
    moved = learner._statistics(one.contexts[0, 0], one.rewards[0, 0]) - learner._statistics(
        two.contexts[0, 0], two.rewards[0, 0]
    )
    assert np.linalg.norm(moved) == pytest.approx(FAR)
    after = [np.clip(coordinates(wild[0, 0], np.array(y)), -1, 1) for y in (7.0, -7.0)]
    assert np.linalg.norm(after[0] - after[1]) == 4.0 > SENSITIVITY
    session = learner.start(noise=SimulationNoise(1))
    session.predict(wild[0])
    session.update(math.inf)
    np.testing.assert_allclose(np.linalg.norm(checked_contexts("c", [[3e307, 4e307]], shape=(1, 2), clip=True)), 1.0)
    np.testing.assert_array_equal(checked_contexts("c", [[0.3, 0.1]], shape=(1, 2), clip=True), [[0.3, 0.1]])


# --- guarantee -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [2, 3, 5, 1025])
@pytest.mark.parametrize("scale", [3.0, 40.0])
def test_the_view_of_others_costs_the_tree(rounds: int, scale: float) -> None:
    learner = small(rounds=rounds, scale=scale)
    guarantee, tree = learner.guarantee("others"), TreeAggregation(rounds - 1, scale, sensitivity=FAR)
    levels = (rounds - 1).bit_length()
    assert guarantee.event.zcdp_rho() == pytest.approx(levels * 8 / (2 * scale**2), rel=1e-10)
    for delta in (1e-9, 1e-5, 0.01):
        claimed, own = guarantee.epsilon(delta).upper, epsilon(tree.event(), delta).upper
        assert own <= claimed <= own * (1 + 1e-9)
        assert epsilon(learner.event(), delta).upper == pytest.approx(claimed)
    graph = learner.graph()
    assert AccountantGraph.from_json(graph.to_json()) == graph


def test_plain_privacy_is_refused_with_the_reason() -> None:
    learner = small(scale=100.0)
    with pytest.raises(InvalidArgumentError, match="linear in the number of rounds.*joint differential privacy"):
        learner.guarantee()
    assert learner.graph().guarantee().epsilon(0.5).upper == math.inf
    with pytest.raises(GraphError, match="everybody"):
        learner.guarantee("everybody")
    text = "; ".join(learner.guarantee("others").assumptions)
    for words in ("person t alone sees action t", "regret is not published", "do not depend on action t"):
        assert words in text


@pytest.mark.parametrize("sums", ["tree", "square root"])
@pytest.mark.parametrize("group", [1, 3])
def test_targets_are_met(sums: Any, group: int) -> None:
    learner = PrivateLinUCB.calibrated(rounds=40, dimension=3, epsilon=0.7, delta=1e-6, sums=sums, group=group)
    assert 0.69 <= learner.guarantee("others", group=group).epsilon(1e-6).upper <= 0.7
    if group == 3:
        assert learner.guarantee("others").epsilon(1e-6).upper < 0.3


def test_ledgers_are_charged_for_replacement() -> None:
    learner, graphs = small(), []
    for relation in (Adjacency.REPLACE_ONE, Adjacency.ADD_OR_REMOVE_ONE):
        plan = AccountantGraph(adjacency=relation, pinned=True).source("rounds", size=5)
        graphs.append(Ledger(plan.release("sums", learner.event(), reads=("rounds",))))
    learner.start(ledger=graphs[0], name="sums", noise=SimulationNoise(1))
    assert graphs[0].recorded("sums") == 1
    with pytest.raises(UnsupportedAdjacencyError):
        learner.start(ledger=graphs[1], name="sums", noise=SimulationNoise(1))


def test_bad_data_are_refused_before_the_charge() -> None:
    learner, data = small(), random_data()
    plan = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True).source("rounds", size=5)
    ledger = Ledger(plan.release("sums", learner.event(), reads=("rounds",)))
    bad = data.rewards.copy()
    bad[3, 1] = 1.5
    with pytest.raises(InvalidArgumentError, match=r"rewards\[3, 1\]"):
        learner.release(ContextualRewards(data.contexts, bad), ledger=ledger, name="sums")
    long = data.contexts.copy()
    long[4, 2] = 1.0
    with pytest.raises(InvalidArgumentError, match=r"contexts\[4, 2\]"):
        learner.release(ContextualRewards(long, data.rewards), ledger=ledger, name="sums")
    assert ledger.recorded("sums") == 0


def test_neighbours_attain_the_sensitivity() -> None:
    """The log-likelihood ratio is normal with mean μ²/2, where μ² sums over what the noisy sums tell."""
    for sums in ("square root", "tree"):
        learner = small(scale=4.0, sums=sums)
        first, second = learner.worst_case_neighbours()
        assert (first.rewards != second.rewards).sum() == 1
        ratio = learner.log_likelihood_ratio(learner.simulate(first, np.random.default_rng(1), 4000), first, second)
        mu = math.sqrt(2 * learner.event().zcdp_rho())
        if sums == "square root":
            assert abs((ratio - mu**2 / 2).mean()) < 6 * mu / math.sqrt(4000)
            assert ratio.std() == pytest.approx(mu, rel=0.05)
        assert 0.7 * mu < ratio.std() < 1.05 * mu
    with pytest.raises(InvalidArgumentError, match="several actions"):
        learner.log_likelihood_ratio(learner.simulate(first, np.random.default_rng(1), 2), random_data(), first)


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sums", ["tree", "square root"])
def test_a_release_is_a_session(sums: Any) -> None:
    learner, data = small(sums=sums), random_data()
    found = learner.release(data, noise=SimulationNoise(3))
    session, played = learner.start(noise=SimulationNoise(3)), []
    for t in range(5):
        played.append(session.predict(data.contexts[t]))
        session.update(data.rewards[t, played[-1]])
        if t == 2:
            assert learner.resume(session.checkpoint(), noise=SimulationNoise(4)).checkpoint() == session.checkpoint()
    assert played == found.actions.tolist()
    np.testing.assert_array_equal(session.estimate, found.estimate)
    with pytest.raises(StreamHaltedError):
        session.predict(data.contexts[0])
    with pytest.raises(StreamHaltedError):
        session.update(0.0)


def test_a_person_who_leaves_has_left_no_trace() -> None:
    learner, data = small(), random_data()
    sessions = [learner.start(noise=SimulationNoise(3)) for _ in range(2)]
    sessions[0].predict(data.contexts[4])  # leaves
    for session in sessions:
        assert session.predict(data.contexts[0]) == session.predict(data.contexts[0])
        session.update(0.5)
        with pytest.raises(InvalidArgumentError, match=r"predict\(contexts\)"):
            session.update(0.5)
        session.predict(data.contexts[1, :1])  # with one action alone
    assert sessions[0].checkpoint() == sessions[1].checkpoint()


def test_a_checkpoint_between_prediction_and_reward_goes_on() -> None:
    learner, data = small(), random_data()
    session = learner.start(noise=SimulationNoise(3))
    for t in range(2):
        session.predict(data.contexts[t])
        if t == 0:
            session.update(0.25)
    again = learner.resume(json.loads(json.dumps(session.checkpoint())), noise=SimulationNoise(4))
    assert again.checkpoint() == session.checkpoint() and again.round == 1
    again.update(1.0)
    assert again.round == 2


def test_checkpoints_of_another_state_are_refused() -> None:
    from hockeystick.learners.bandits.linear_stream import LinUCBStream
    from hockeystick.learners.common.stream_checkpoint import seal

    learner = small()
    session = learner.start(noise=SimulationNoise(3))
    session.predict([[0.5, 0.5]])
    good = {key: session.checkpoint()[key] for key in ("round", "running", "shift", "action", "chosen")}

    def resumed(**changes: Any) -> Any:
        saved = seal(good | changes, kind=LinUCBStream._kind(), version=1, learner=learner, simulated=True)
        return learner.resume(saved, noise=SimulationNoise(1))

    resumed().update(0.5)
    for changes in ({"chosen": [0.5]}, {"chosen": [3.0, 0.0]}, {"chosen": "x"}, {"round": 1}, {"action": [0.0]}):
        with pytest.raises(InvalidArgumentError, match="checkpoint"):
            resumed(**changes)


def test_actions_are_optimistic() -> None:
    """Against the formula by a dense inverse, for statistics of several runs."""
    learner = small(dimension=3, scale=0.5)
    rng = np.random.default_rng(1)
    statistics, contexts = rng.normal(size=(50, 9)), rng.uniform(-0.5, 0.5, (6, 3))
    sets = learner.confidence
    for row, action in zip(statistics, learner._choose(statistics, contexts, 7), strict=True):
        matrix, vector = matrix_and_vector(row, 3)
        inverse = np.linalg.inv(matrix + sets.shift * np.eye(3))
        scores = contexts @ inverse @ vector + sets.width(7) * np.sqrt(np.diag(contexts @ inverse @ contexts.T))
        assert action == np.argmax(scores)
        np.testing.assert_allclose(learner._estimate(row), inverse @ vector)
    assert learner._choose(np.zeros((1, 9)), np.zeros((2, 3)), 0).tolist() == [0]


def test_a_matrix_beyond_its_error_still_gives_an_action() -> None:
    """Of failure probability: its eigenvalues are raised to U."""
    learner = small()
    values, _, estimate = learner._ridge(np.full((1, 5), -1e6))
    assert (values >= learner.confidence.matrix_error).all() and np.isfinite(estimate).all()


@pytest.mark.statistical
def test_sessions_have_the_law_of_simulations() -> None:
    """The actions of three rounds, which noise decides, by a χ² test; a third of the noise is told apart."""
    learner = small(rounds=3, dimension=1, scale=0.6)
    data = ContextualRewards(np.tile([[[1.0], [-1.0]]], (3, 1, 1)), np.full((3, 2), 0.8))
    noise = SimulationNoise(7)
    released = np.array([learner.release(data, noise=noise).actions for _ in range(400)])
    drawn, third = (
        one.simulate(data, np.random.default_rng(8), 40_000).actions.astype(int)
        for one in (learner, evolve(learner, scale=0.2))
    )
    code = [x @ [4, 2, 1] for x in (released, drawn, third)]
    laws = [np.bincount(x, minlength=8) + 0.5 for x in code]
    counts = np.bincount(code[0], minlength=8)
    assert chi_square_of_counts(counts, laws[1] / laws[1].sum()) > FALSE_ALARM
    assert chi_square_of_counts(counts, laws[2] / laws[2].sum()) < FALSE_ALARM


@frozen(kw_only=True, slots=False)
class _Doubled(PrivateLinUCB):
    """A learner whose statistics are twice as large."""

    def _statistics(self, contexts: FloatArray, rewards: FloatArray) -> FloatArray:
        return 2.0 * super()._statistics(contexts, rewards)


def test_sums_of_a_simulation_are_those_of_the_actions() -> None:
    for kind, factor in ((PrivateLinUCB, 1.0), (_Doubled, 2.0)):
        learner, data = kind(**asdict(small(scale=1e-9))), random_data()
        found = learner.simulate(data, np.random.default_rng(1), 3)
        for sums, actions in zip(found.sums, found.actions.astype(int), strict=True):
            chosen = data.contexts[np.arange(5), actions], data.rewards[np.arange(5), actions]
            np.testing.assert_allclose(sums, factor * np.cumsum(coordinates(*chosen), axis=0)[:-1], atol=1e-6)


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "value"),
    [("rounds", 1), ("rounds", True), ("dimension", 0), ("dimension", 1001), ("scale", 0.0), ("scale", math.nan)]
    + [("parameter_norm", 0.0), ("parameter_norm", math.inf), ("failure", 0.0), ("failure", 1.0), ("sums", "x")]
    + [("clip", 1)],
)
def test_bad_parameters_are_refused(argument: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=argument):
        small(**{argument: value})


@pytest.mark.parametrize(
    "call",
    [
        lambda made: made.simulate(random_data(4), np.random.default_rng(1), 2),
        lambda made: made.simulate(random_data(dimension=3), np.random.default_rng(1), 2),
        lambda made: made.simulate(random_data(), 1, 2),
        lambda made: made.simulate(random_data(), np.random.default_rng(1), 0),
        lambda made: made.simulate(random_data().contexts, np.random.default_rng(1), 2),
        lambda made: made.release(None),
        lambda made: made.regrets(random_data(), [1.0], np.random.default_rng(1), 2),
        lambda made: made.start(noise=SimulationNoise(1)).predict(np.zeros((0, 2))),
        lambda made: made.start(noise=SimulationNoise(1)).predict(np.zeros((2, 3))),
        lambda made: made.start(noise=SimulationNoise(1)).predict([[math.nan, 0.0]]),
        lambda made: made.start(noise=SimulationNoise(1)).predict([[True, False]]),
        lambda made: evolve(made, clip=True).start(noise=SimulationNoise(1)).predict([[math.inf, 0.0]]),
        lambda made: ContextualRewards(np.zeros((2, 3, 1)), np.zeros((2, 2))),
        lambda made: ContextualRewards(np.zeros((2, 3)), np.zeros((2, 3))),
        lambda made: ContextualRewards(np.zeros((2, 3, 1)), np.full((2, 3), math.nan)),
        lambda made: PrivateLinUCB.calibrated(rounds=5, dimension=2, epsilon=math.nan, delta=1e-6),
        lambda made: PrivateLinUCB.calibrated(rounds=5, dimension=2, epsilon=1.0, delta=0.0),
        lambda made: PrivateLinUCB.calibrated(rounds=5, dimension=2, epsilon=1.0, delta=1e-6, group=0),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[PrivateLinUCB], object]) -> None:
    with pytest.raises(InvalidArgumentError):
        call(small())


def test_rewards_may_be_bools_and_data_are_not_shown() -> None:
    session = small().start(noise=SimulationNoise(1))
    session.predict([[0.5, 0.5]])
    session.update(True)
    assert session.round == 1 and "0.5" not in repr(ContextualRewards([[[0.5]]], [[0.5]]))
