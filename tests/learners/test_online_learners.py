"""The interface of the online learners: what each has, or refuses, and what holds for all of them."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import frozen

import hockeystick.learners as L
from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    DurableLedger,
    FilteredLedger,
    HockeystickError,
    InvalidArgumentError,
    Ledger,
    LedgerError,
    RDPFilter,
    epsilon,
)
from hockeystick.learners.common.online_learner import METHODS, Learner, OnlineLearner, RefusedMethodError, Session
from hockeystick.learners.lazy import (
    Ball,
    ExactSampler,
    LinearLosses,
    MultiplicativeMeasure,
    PointMeasure,
)
from hockeystick.mechanisms import ReleaseNoise, SimulationNoise
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError

ROUNDS, EXPERTS, CLIENTS = 13, 3, 4
TARGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
SHAPE: dict[str, Any] = {"rounds": ROUNDS, "experts": EXPERTS}
RNG = np.random.default_rng(5)
ROWS = RNG.random((ROUNDS, EXPERTS))
TABLES = RNG.random((CLIENTS, ROUNDS, EXPERTS))
GRADIENTS = RNG.uniform(-0.5, 0.5, (ROUNDS, 2))
CONTEXTUAL = L.ContextualRewards(RNG.uniform(-0.7, 0.7, (ROUNDS, EXPERTS, 2)), 2.0 * ROWS - 1.0)


@frozen
class Row:
    """A learner; the losses of a whole run; those of one round; and the actions in a release of T rounds.

    Contextual learners read contexts when they predict, and have a guarantee in one view alone.
    """

    build: Callable[..., Any]
    data: Any
    feedback: Callable[[int], Any]
    actions: Callable[[Any, Any], Any] = lambda learner, found: found
    told: Callable[[Any, Any], Any] = lambda feedback, session: feedback
    predict: Callable[[Any, int], Any] = lambda session, t: session.predict()
    view: str | None = None

    def update(self, session: Any, t: int) -> None:
        """Gives a session what it may read of round t."""
        session.update(self.told(self.feedback(t), session))


def experts(build: Callable[..., Any], actions: Callable[[Any, Any], Any] = lambda learner, found: found) -> Row:
    return Row(build, ROWS, lambda t: ROWS[t], actions)


def tree(**given: Any) -> Callable[..., Any]:
    return lambda **target: L.TreeExperts.calibrated(**SHAPE, **{**TARGET, **target}, **given)


def convex(**target: Any) -> Any:
    shape: dict[str, Any] = {"rounds": ROUNDS, "domain": Ball(2, 1.0), "lipschitz": 1.0}
    return L.LazyConvex.calibrated(**shape, **{**TARGET, **target}, sampler=ExactSampler())


def ftrl(**target: Any) -> Any:
    return L.PrivateFTRL.calibrated(rounds=ROUNDS, domain=Ball(2, 1.0), lipschitz=1.0, **{**TARGET, **target})


def linear(rows: Any) -> LinearLosses:
    return LinearLosses(rows)


def stoch(**target: Any) -> Any:
    return L.FedStoch.calibrated(clients=CLIENTS, **SHAPE, **{**TARGET, **target})


def bandit(build: Callable[..., Any]) -> Row:
    """One that reads the loss of the arm that it plays, has no delta, and shows its sums."""
    return Row(
        lambda *, epsilon=1.0, delta=0.0, **target: build(rounds=ROUNDS, arms=EXPERTS, epsilon=epsilon, **target),
        ROWS,
        lambda t: ROWS[t],
        lambda learner, found: found.arms,
        lambda losses, session: float(losses[session.predict()]),
    )


def restarted(*, epsilon: float = 1.0, delta: float = 1e-6, group: int = 1) -> Any:
    def fresh(rounds: int) -> Any:
        """Hedge with a fresh draw in each round; the first one reads no data."""
        if rounds == 1:
            return L.LazyExperts(
                rounds=1, experts=EXPERTS, learning_rate=1.0, fake_switch_probability=1.0, variant="dartboard"
            )
        return L.LazyExperts.calibrated(
            rounds=rounds, experts=EXPERTS, epsilon=epsilon, delta=delta, group=min(group, rounds), adversary="adaptive"
        )

    return L.Anytime(fresh, ratio=3, first=1, epochs=3)  # 1 + 3 + 9 rounds


DEPLOYED = {
    "NoisyBandit": bandit(L.NoisyBandit.calibrated),
    "PrivateElimination": bandit(lambda **given: L.PrivateElimination.calibrated(**given, pulls=(1, 2))),
    "PrivateUCB": bandit(L.PrivateUCB.calibrated),
    "PrivateLinUCB": Row(
        lambda **target: L.PrivateLinUCB.calibrated(rounds=ROUNDS, dimension=2, **{**TARGET, **target}),
        CONTEXTUAL,
        lambda t: (CONTEXTUAL.contexts[t], CONTEXTUAL.rewards[t]),
        lambda learner, found: found.actions,
        lambda feedback, session: float(feedback[1][session.predict(feedback[0])]),
        lambda session, t: session.predict(CONTEXTUAL.contexts[t]),
        "others",
    ),
    "LazyExperts": experts(
        lambda **target: L.LazyExperts.calibrated(**SHAPE, **{**TARGET, **target}), lambda learner, found: found.actions
    ),
    "LazyExperts, l2p": experts(
        lambda **target: L.LazyExperts.calibrated(**SHAPE, variant="l2p", **{**TARGET, **target}),
        lambda learner, found: found.actions,
    ),
    "ShrinkingDartboard": experts(
        lambda **target: L.ShrinkingDartboard.calibrated(**SHAPE, **{**TARGET, **target}),
        lambda learner, found: found.actions,
    ),
    "Anytime": experts(restarted),
    "AnytimeTreeExperts": experts(lambda **target: L.AnytimeTreeExperts.calibrated(**SHAPE, **{**TARGET, **target})),
    "AnytimeTreeExperts, Hedge": experts(
        lambda **target: L.AnytimeTreeExperts.calibrated(**SHAPE, policy="hedge", **{**TARGET, **target})
    ),
    "TreeExperts": experts(tree()),
    "TreeExperts, Hedge": experts(tree(policy="hedge", sums="square root")),
    "TreeExperts, bare": experts(tree(perturbation=2.0, sums="buffered")),
    "TreeExperts, discounted": experts(tree(policy="hedge", sums="square root", discount=0.8)),
    "SleepingExperts": experts(lambda **target: L.SleepingExperts.calibrated(**SHAPE, **{**TARGET, **target})),
    "LimitedUpdates": experts(lambda **target: L.LimitedUpdates.calibrated(**SHAPE, **{**TARGET, **target})),
    "LazyConvex": Row(
        convex, linear(GRADIENTS), lambda t: linear(GRADIENTS[[t]]), lambda learner, found: found.actions
    ),
    "PrivateFTRL": Row(ftrl, linear(GRADIENTS), lambda t: GRADIENTS[t]),
    "NoisyHedge": Row(
        lambda *, epsilon=1.0, delta=0.0, **target: L.NoisyHedge.calibrated(
            clients=CLIENTS, **SHAPE, epsilon=epsilon, **target
        ),
        TABLES,
        lambda t: TABLES[:, t],
    ),
    "NoisyHedge, normal": Row(
        lambda **target: L.NoisyHedge.calibrated(clients=CLIENTS, **SHAPE, **{**TARGET, **target}),
        TABLES,
        lambda t: TABLES[:, t],
    ),
    "AnytimeNoisyHedge": Row(
        lambda **target: L.AnytimeNoisyHedge.calibrated(clients=CLIENTS, **SHAPE, **{**TARGET, **target}),
        TABLES,
        lambda t: TABLES[:, t],
    ),
    "FedSVT": Row(
        lambda **target: L.FedSVT.calibrated(clients=CLIENTS, period=2, **SHAPE, **{**TARGET, **target}),
        TABLES,
        lambda t: TABLES[:, t],
        lambda learner, found: learner.plays(found),
    ),
}
PURE = ("NoisyBandit", "NoisyHedge", "PrivateElimination", "PrivateUCB")
OTHERS: dict[str, Callable[[], Any]] = {
    "NormalisedLazyExperts": lambda: L.NormalisedLazyExperts(**SHAPE, learning_rate=0.1, fake_switch_probability=0.1),
    "LazyTransform": lambda: L.LazyTransform(
        measure=PointMeasure(measure=MultiplicativeMeasure(learning_rate=0.05), points=EXPERTS),
        rounds=ROUNDS,
        fake_switch_probability=0.2,
    ),
    "FedStoch": stoch,
    "MultiplicativeWeights": lambda: L.MultiplicativeWeights(**SHAPE),
}


@pytest.fixture(scope="module")
def learners() -> dict[str, Any]:
    return {name: row.build() for name, row in DEPLOYED.items()} | {name: build() for name, build in OTHERS.items()}


def test_every_online_learner_is_here(learners: dict[str, Any]) -> None:
    public = (getattr(L, name) for name in L.__all__)
    wanted = {one for one in public if isinstance(one, type) and issubclass(one, OnlineLearner)}
    assert {type(learner) for learner in learners.values()} == wanted


@pytest.mark.parametrize("name", [*DEPLOYED, *OTHERS])
def test_each_method_exists_or_is_refused_with_its_reason(name: str, learners: dict[str, Any]) -> None:
    learner = learners[name]
    for method in METHODS:
        refused = type(learner).refuses.get(method)
        if refused is None:
            assert callable(getattr(learner, method)), method
            continue
        for owner in (learner, type(learner)):
            assert not hasattr(owner, method)
            with pytest.raises(RefusedMethodError, match=type(learner).__name__) as caught:
                getattr(owner, method)
            assert str(caught.value).endswith(refused) and isinstance(caught.value, HockeystickError)
    assert isinstance(learner, Learner) == (name in DEPLOYED)


@pytest.mark.parametrize("name", DEPLOYED)
def test_targets_are_met_and_nearly_used_up(name: str, learners: dict[str, Any]) -> None:
    """For one person and for two; the event is the graph's; a group may leave more unused."""
    learner, delta, view = learners[name], 0.0 if name in PURE else 1e-6, DEPLOYED[name].view
    found = learner.guarantee(view).epsilon(delta).upper
    budgets = name in ("FedSVT", "ShrinkingDartboard")  # whole numbers of draws
    assert (0.8 if budgets else 0.98) <= found <= 1.0
    for at in (delta, 1e-3, 0.1):
        own, exact = epsilon(learner.event(), at).upper, learner.guarantee(view).epsilon(at).upper
        assert own == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("name", DEPLOYED)
@pytest.mark.every(3, 1)
def test_group_targets_are_met(name: str) -> None:
    row, delta = DEPLOYED[name], 0.0 if name in PURE else 1e-6
    learner = row.build(group=2)
    group = learner.guarantee(row.view, group=2).epsilon(delta).upper
    assert group <= 1.0 and (group >= 0.5 or name == "LazyExperts, l2p")  # which never moves in so few rounds
    assert group == 0.0 or learner.guarantee(row.view).epsilon(delta).upper < 0.95 * group


class OneByOne(SimulationNoise):
    """Noise of which many numbers at once are the same as one after the other."""

    def laplace(self, scale: float, count: int) -> Any:
        return np.array([SimulationNoise.laplace(self, scale, 1)[0] for _ in range(count)], dtype=np.int64)


@pytest.mark.parametrize("name", DEPLOYED)
def test_a_session_plays_what_a_release_plays(name: str, learners: dict[str, Any]) -> None:
    """With the same noise, number by number."""
    learner, row = learners[name], DEPLOYED[name]
    found = np.asarray(row.actions(learner, learner.release(row.data, noise=OneByOne(3))))
    session, played = learner.start(noise=OneByOne(3)), []
    assert isinstance(session, Session) and session.simulated
    for t in range(ROUNDS):
        assert session.round == t
        played.append(row.predict(session, t))
        np.testing.assert_array_equal(row.predict(session, t), played[-1])
        row.update(session, t)
    np.testing.assert_array_equal(np.array(played), found)
    for late in (lambda: row.predict(session, 0), lambda: session.update(0.5)):
        with pytest.raises(StreamHaltedError, match="rounds are over"):
            late()


@pytest.mark.parametrize("name", DEPLOYED)
@pytest.mark.every(3)
def test_checkpoints_go_on_and_belong_to_their_run(name: str, learners: dict[str, Any]) -> None:
    learner, row = learners[name], DEPLOYED[name]
    session = learner.start(noise=SimulationNoise(4))
    for t in range(5):
        row.update(session, t)
    saved = json.loads(json.dumps(session.checkpoint()))
    again = learner.resume(saved, noise=SimulationNoise(9))
    assert again.round == 5 and json.dumps(again.checkpoint()) == json.dumps(saved)
    np.testing.assert_array_equal(row.predict(again, 5), row.predict(session, 5))
    for t in range(5, ROUNDS):
        row.update(again, t)
    assert again.round == ROUNDS

    other = DEPLOYED[name].build(epsilon=2.0)
    for bad in ({**saved, "round": 4}, {**saved, "simulated": False}, {}, None, [saved]):
        with pytest.raises(InvalidArgumentError):
            learner.resume(bad, noise=SimulationNoise(9))
    with pytest.raises(InvalidArgumentError, match="other parameters"):
        other.resume(saved, noise=SimulationNoise(9))
    with pytest.raises(InvalidArgumentError, match="simulated"):
        learner.resume(saved, noise=ReleaseNoise())
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="checkpoint"):
            copied(session)


@pytest.mark.parametrize("name", DEPLOYED)
def test_the_whole_run_is_charged_once_before_it_begins(name: str, learners: dict[str, Any]) -> None:
    learner, row = learners[name], DEPLOYED[name]
    plan = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True).source("rounds")
    ledger = Ledger(plan.release("plays", learner.event(), reads=("rounds",)))
    session = learner.start(ledger=ledger, name="plays", noise=SimulationNoise(1))
    assert ledger.recorded("plays") == 1
    row.update(session, 0)
    learner.resume(session.checkpoint(), noise=SimulationNoise(1))
    assert ledger.recorded("plays") == 1

    class Never(SimulationNoise):
        def _words(self, count: int) -> Any:
            raise AssertionError("something was drawn")

    for refused in (learner.start, lambda **given: learner.release(row.data, **given)):
        with pytest.raises(HockeystickError):
            refused(ledger=ledger, name="plays", noise=Never(1))
    assert ledger.recorded("plays") == 1


def ledger_of(learner: Any, kind: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """A ledger of a kind with room for a run, and the arguments of a start that charges it."""
    graph = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True).source("rounds")
    budget = RDPFilter.for_target(9.0, 1e-6, adjacency=Adjacency.REPLACE_ONE)
    if kind == "plan":
        return Ledger(graph.release("plays", learner.event(), reads=("rounds",))), {"name": "plays"}
    if kind == "filter":
        return FilteredLedger(graph, budget), {"name": "plays", "reads": ("rounds",)}
    return DurableLedger.create(folder / "people.db", budget), {"name": "plays"}


@pytest.mark.parametrize("kind", ["plan", "filter", "file"])
@pytest.mark.parametrize("name", DEPLOYED)
@pytest.mark.every(5)
def test_a_ledger_refuses_a_second_session_of_one_checkpoint(
    name: str, kind: str, learners: dict[str, Any], tmp_path: Path
) -> None:
    if kind != "file" and name not in ("LazyExperts", "TreeExperts", "FedSVT"):
        return  # one store is enough for the others
    learner, row, noise = learners[name], DEPLOYED[name], SimulationNoise(4)
    ledger, words = ledger_of(learner, kind, tmp_path)
    first = learner.start(ledger=ledger, noise=noise, **words)
    early = first.checkpoint()
    row.update(first, 0)
    saved = json.loads(json.dumps(first.checkpoint()))
    with pytest.raises(HockeystickError):
        learner.resume({**saved, "round": 2}, ledger=ledger, noise=noise)
    second = learner.resume(saved, ledger=ledger, noise=noise)
    if kind == "file":
        ledger = DurableLedger.open(tmp_path / "people.db")  # as another process does
    row.update(first, 1)  # the first session lives on, and is too late
    for stale in (saved, early, first.checkpoint()):
        with pytest.raises(LedgerError, match="resumed before"):
            learner.resume(stale, ledger=ledger, noise=noise)
    third = learner.resume(second.checkpoint(), ledger=ledger, noise=noise)
    assert third.round == 1
    other, words = ledger_of(learner, "filter", tmp_path)
    with pytest.raises(LedgerError, match="was not charged"):
        learner.resume(third.checkpoint(), ledger=other, noise=noise)
    with pytest.raises(InvalidArgumentError, match="charged to no ledger"):
        learner.resume(learner.start(noise=noise).checkpoint(), ledger=ledger, noise=noise)
    with pytest.raises(InvalidArgumentError, match="is not a ledger"):
        learner.resume(third.checkpoint(), ledger=3, noise=noise)
    assert learner.resume(third.checkpoint(), ledger=ledger, noise=noise).round == 1  # refusals took no number


@pytest.mark.parametrize("name", DEPLOYED)
def test_a_secure_run_that_is_resumed_without_a_ledger_warns(name: str, learners: dict[str, Any]) -> None:
    saved = learners[name].start().checkpoint()
    with pytest.warns(UserWarning, match="without a ledger"):
        learners[name].resume(saved)


@pytest.mark.parametrize("name", ["LazyExperts", "TreeExperts", "LimitedUpdates"])
def test_bad_rows_in_a_list_are_refused_before_the_charge(name: str, learners: dict[str, Any]) -> None:
    learner = learners[name]
    plan = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True).source("rounds")
    ledger = Ledger(plan.release("plays", learner.event(), reads=("rounds",)))
    rows = ROWS.tolist()
    rows[11][1] = 1.5
    with pytest.raises(InvalidArgumentError, match=r"losses\[11, 1\]"):
        learner.release(rows, ledger=ledger, name="plays", noise=SimulationNoise(1))
    assert ledger.recorded("plays") == 0


BAD = (math.nan, math.inf, "x", None, "SECRET7731")


@pytest.mark.parametrize("name", DEPLOYED)
def test_bad_losses_name_their_place_and_change_nothing(name: str, learners: dict[str, Any]) -> None:
    learner, row = learners[name], DEPLOYED[name]
    session = learner.start(noise=SimulationNoise(2))
    row.update(session, 0)
    good = row.told(row.feedback(1), session)
    before = json.dumps(session.checkpoint())
    wrong: list[Any] = [*BAD, np.zeros(7), []]
    if not isinstance(good, LinearLosses):
        for value in (math.nan, 7731.5) if name != "PrivateFTRL" else (math.nan,):
            spoilt = np.array(good, dtype=float)
            spoilt.flat[-1] = value
            wrong.append(spoilt)
    for bad in wrong:
        with pytest.raises(HockeystickError) as caught:
            session.update(bad)
        assert "7731" not in str(caught.value) and "SECRET" not in str(caught.value)
    assert session.round == 1 and json.dumps(session.checkpoint()) == before
    session.update(good)


@pytest.mark.parametrize("name", [*DEPLOYED, *OTHERS])
def test_bounds_say_for_which_losses_they_hold(name: str, learners: dict[str, Any]) -> None:
    learner = learners[name]
    if "regret_bound" in learner.refuses or name == "TreeExperts, bare":
        return
    holds = {}
    for adversary in ("oblivious", "adaptive", "stochastic"):
        try:
            bound = learner.regret_bound(adversary=adversary)
        except InvalidArgumentError as error:
            assert error.argument in ("adversary", "switches")
            continue
        holds[adversary] = bound
        assert isinstance(bound, L.RegretBound) and bound.adversary == adversary and 0 < bound <= bound.most
    lazy = any(word in name for word in ("Lazy", "Dartboard", "FedSVT", "Updates", "FedStoch"))
    assert holds and ("adaptive" not in holds) >= lazy
    assert learner.regret_bound() == holds[learner.regret_bound().adversary]
    with pytest.raises(InvalidArgumentError, match="adversary"):
        learner.regret_bound(adversary="nobody")


@pytest.mark.parametrize("name", ["LazyExperts", "TreeExperts", "TreeExperts, bare", "LimitedUpdates"])
def test_streams_in_blocks_and_bad_blocks(name: str, learners: dict[str, Any]) -> None:
    learner, row = learners[name], DEPLOYED[name]
    whole = row.actions(learner, learner.release(ROWS, noise=SimulationNoise(6)))
    blocks = row.actions(learner, learner.release(iter(np.split(ROWS, [1, 2, 9])), noise=SimulationNoise(6)))
    single = row.actions(learner, learner.release(ROWS.astype(np.float32), noise=SimulationNoise(6)))
    np.testing.assert_array_equal(whole, blocks)
    assert single.shape == (ROUNDS,)
    spoilt = ROWS.copy()
    spoilt[11, 1] = 1.5
    with pytest.raises(InvalidArgumentError, match=r"losses\[11, 1\]"):
        learner.release(spoilt, noise=SimulationNoise(6))
    with pytest.raises(InvalidArgumentError, match=r"losses\[11, 1\]"):
        learner.release(iter(np.split(spoilt, [5])), noise=SimulationNoise(6))
    for short in (ROWS[:5], np.tile(ROWS, (2, 1))):
        with pytest.raises(InvalidArgumentError):
            learner.release(iter([short]), noise=SimulationNoise(6))


@pytest.mark.parametrize("name", [*DEPLOYED, "FedStoch"])
def test_releases_need_no_seed(name: str, learners: dict[str, Any]) -> None:
    learner = learners[name]
    data = DEPLOYED[name].data if name in DEPLOYED else TABLES
    assert learner.release(data) is not None and np.size(learner.release(data, noise=SimulationNoise(1))) > 0


@pytest.mark.parametrize(
    "name", [name for name in DEPLOYED if not name.startswith(("NoisyHedge", "AnytimeNoisy", "LazyConvex"))]
)
def test_worst_case_neighbours_are_neighbours_and_tell_much(name: str, learners: dict[str, Any]) -> None:
    """They differ in one round, for one client; the likelihood ratio of simulated runs is not constant."""
    learner = learners[name]
    first, second = learner.worst_case_neighbours()
    one, two = (getattr(x, "gradients", getattr(x, "rewards", x)) for x in (first, second))
    differing = np.flatnonzero((np.asarray(one) != np.asarray(two)).reshape(ROUNDS, -1).any(axis=1))
    assert len(differing) == 1
    runs = learner.simulate(first, np.random.default_rng(8), 400)
    ratios = learner.log_likelihood_ratio(runs, first, second)
    assert ratios.shape == (400,) and np.isfinite(ratios).all() and np.abs(ratios).max() > 0.05
