"""Tests of restarts: cost, groups, sessions and bounds."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen

from hockeystick import accounting
from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    ApproximateDP,
    InvalidArgumentError,
    PrivacyEvent,
    PureDP,
    compose,
    parallel,
)
from hockeystick.learners import (
    Anytime,
    LazyConvex,
    LazyExperts,
    LimitedUpdates,
    NoisyBandit,
    NoisyHedge,
    PrivateFTRL,
    PrivateLinUCB,
    RefusedMethodError,
    RegretBound,
    TreeExperts,
)
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.lazy import Ball, ExactSampler, LinearLosses
from hockeystick.mechanisms import SimulationNoise
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError

DELTA = 1e-6


@frozen
class Priced(OnlineLearner):
    """A learner with a given event, which draws nothing and has the bound 3·√T."""

    rounds: int
    price: PrivacyEvent = PureDP(1.0)

    def graph(self) -> AccountantGraph:
        plan = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True).source("rounds")
        return plan.release("plays", self.price, reads=("rounds",))

    def start(self, **given: Any) -> Any:
        raise NotImplementedError

    resume = release = start

    def regret_bound(self, *, adversary: Any = "oblivious") -> RegretBound:
        return RegretBound(3.0 * math.sqrt(self.rounds), most=self.rounds, adversary=adversary)


def hedge(rounds: int, experts: int = 2) -> LazyExperts:
    return LazyExperts(
        rounds=rounds, experts=experts, learning_rate=0.3, fake_switch_probability=1.0, variant="dartboard"
    )


def dartboard(rounds: int) -> LazyExperts:
    return LazyExperts.calibrated(rounds=rounds, experts=10, epsilon=1.0, delta=DELTA)


# --- cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_nine_epochs_of_the_dartboard_cost_as_much_as_the_most_expensive_one() -> None:
    learner = Anytime(dartboard, ratio=2, epochs=9)
    each = [accounting.epsilon(one.event(), DELTA).upper for (one,) in learner.choices]
    assert [one.rounds for (one,) in learner.choices] == [64 << k for k in range(9)]
    for found in (
        learner.guarantee().epsilon(DELTA).upper,
        accounting.epsilon(learner.event(), DELTA).upper,
        learner.graph().guarantee().epsilon(DELTA).upper,
    ):
        assert found == pytest.approx(max(each), rel=1e-4) and found >= max(each) * (1 - 1e-9)


def test_epochs_of_different_cost_count_by_their_maximum() -> None:
    prices = {1: PureDP(0.3), 2: ApproximateDP(0.1, 0.01), 4: PureDP(0.7)}
    learner = Anytime(lambda rounds: Priced(rounds, prices[rounds]), ratio=2, first=1, epochs=3)
    for epsilon in (0.0, 0.2, 0.5, 0.7):
        most = max(accounting.delta(price, epsilon).upper for price in prices.values())
        assert learner.guarantee().delta(epsilon).upper == pytest.approx(most, rel=1e-9, abs=1e-15)
    assert [node.name for node in learner.graph().nodes][:2] == ["people of epoch 1", "epoch 1"]
    assert AccountantGraph.from_json(learner.graph().to_json()) == learner.graph()


def test_a_group_is_split_over_fixed_epochs_in_the_worst_way() -> None:
    """Against all splits, written out; two people in one epoch cost most here, two epochs more than one person."""
    learner = Anytime(lambda rounds: TreeExperts(rounds=rounds, experts=2, scale=9.0), ratio=2, first=2, epochs=3)
    first, second, third = (one for (one,) in learner.choices)
    splits = [one.guarantee(group=2).event for one in (first, second, third)]
    splits += [compose(a.event(), b.event()) for a, b in ((first, second), (first, third), (second, third))]
    found = learner.guarantee(group=2)
    assert found.group == 2 and len(found.moves) == 6
    assert found.epsilon(DELTA).upper == pytest.approx(max(accounting.epsilon(e, DELTA).upper for e in splits))
    one, apart = learner.guarantee().epsilon(DELTA).upper, accounting.epsilon(splits[-1], DELTA).upper
    assert one < apart < found.epsilon(DELTA).upper


def _responses(epsilon: float) -> dict[int, tuple[float, float]]:
    yes = math.exp(epsilon) / (1 + math.exp(epsilon))
    return {0: (yes, 1 - yes), 1: (1 - yes, yes)}


def _delta(first: dict[int, Any], second: dict[int, dict[int, Any]], epsilon: float) -> float:
    """δ(ε) of two people's outputs by enumeration; the mechanism of the second is chosen by the first output."""
    pairs = [(p * r, q * s) for a, (p, q) in first.items() for r, s in second[a].values()]
    sides = pairs, [(q, p) for p, q in pairs]
    return max(math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in side) for side in sides)


def test_a_group_meets_the_worst_of_all_choices_in_every_epoch() -> None:
    """One person in each epoch, and the second learner chosen by the first release: no fixed list covers it."""
    first, bits, shown = PureDP(0.5), _responses(1.5), {0: (0.3, 0.0), 1: (0.0, 0.3), 2: (0.7, 0.7)}
    chosen = max(_delta(_responses(0.5), {0: a, 1: b}, 1.0) for a, b in ((bits, shown), (shown, bits)))
    fixed = max(_delta(_responses(0.5), {0: one, 1: one}, 1.0) for one in (bits, shown))
    assert (round(chosen, 4), round(fixed, 4)) == (0.4350, 0.3217)

    both = PureDP(1.5), ApproximateDP(0.0, 0.3)
    learner = Anytime(
        lambda rounds: Priced(1, first) if rounds == 1 else tuple(Priced(2, price) for price in both),
        ratio=2,
        first=1,
        epochs=2,
        select=lambda epoch, played: 0,
    )
    (apart,) = (move for move in learner.guarantee(group=2).moves if move.label == "epoch 1: 1, epoch 2: 1")
    certified = accounting.delta(apart.event(), 1.0).upper
    assert round(certified, 4) == 0.6217 and certified >= chosen
    lists = [compose(first, price) for price in both]
    assert max(accounting.delta(event, 1.0).upper for event in lists) < chosen  # what would be below the truth
    assert accounting.delta(learner.event(), 1.0).upper == accounting.delta(parallel(first, *both), 1.0).upper


def test_views_are_those_of_the_learners() -> None:
    learner = Anytime(
        lambda rounds: NoisyHedge.calibrated(clients=2, rounds=rounds, experts=3, epsilon=1.0), first=2, epochs=2
    )
    assert learner.guarantee("central").epsilon(0.0).upper == pytest.approx(1.0)
    assert "central" in learner.guarantee("central").threat_model
    with pytest.raises(InvalidArgumentError, match="server"):
        learner.guarantee("server")
    rows = np.random.default_rng(1).random((7, 2, 3))
    assert learner.release(rows, noise=SimulationNoise(1)).shape == (7, 3)


def test_learners_without_a_guarantee_of_their_plays_are_refused() -> None:
    """The plays of a contextual bandit are private to each person; those of other bandits are not."""
    with pytest.raises(InvalidArgumentError, match="no guarantee of all its plays"):
        Anytime(lambda n: PrivateLinUCB.calibrated(rounds=n, dimension=2, epsilon=1.0, delta=DELTA), first=4, epochs=1)
    learner = Anytime(lambda n: NoisyBandit.calibrated(rounds=n, arms=2, epsilon=1.0), first=4, ratio=2, epochs=2)
    assert learner.guarantee().epsilon(0.0).upper == pytest.approx(1.0, abs=0.02)
    session = learner.start(noise=SimulationNoise(1))
    for _ in range(12):
        session.update([0.2, 0.9][session.predict()])
    assert session.round == 12


# --- sessions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (lambda n: TreeExperts(rounds=n, experts=3, scale=2.0), list(np.random.default_rng(1).random((14, 3)))),
        (
            lambda n: LimitedUpdates(rounds=n, experts=3, learning_rate=0.5),
            list(np.random.default_rng(1).random((14, 3))),
        ),
        (
            lambda n: PrivateFTRL(rounds=n, domain=Ball(2, 1.0), lipschitz=1.0, scale=1.0),
            list(np.random.default_rng(1).uniform(-0.5, 0.5, (14, 2))),
        ),
        (
            lambda n: LazyConvex(
                rounds=n,
                domain=Ball(2, 1.0),
                lipschitz=1.0,
                inverse_temperature=0.2,
                regularisation=5.0,
                fake_switch_probability=0.3,
                sampler=ExactSampler(),
            ),
            [LinearLosses(row[None]) for row in np.random.default_rng(1).uniform(-0.5, 0.5, (14, 2))],
        ),
    ],
    ids=["tree", "limited", "ftrl", "convex"],
)
def test_an_epoch_plays_what_its_learner_plays_alone(make: Any, rows: list[Any]) -> None:
    """With the same noise, one session after the other: nothing passes between epochs."""
    learner = Anytime(make, ratio=2, first=2, epochs=3)
    found = learner.release(rows, noise=SimulationNoise(3))
    source, played = SimulationNoise(3), []
    for (one,) in learner.choices:
        session = one.start(noise=source)
        for _ in range(one.rounds):
            played.append(session.predict())
            session.update(rows[len(played) - 1])
    np.testing.assert_array_equal(found, np.array(played))


def test_a_run_is_saved_between_and_inside_epochs() -> None:
    def pick(epoch: int, played: Any) -> int:
        assert played.shape == ((1 + last[-1],) if epoch else (0,))
        last.append(int(played.sum()) % 2 if epoch else 0)
        return last[-1]

    last: list[int] = []
    learner = Anytime(lambda n: (hedge(1), hedge(2)), first=2, ratio=2, epochs=4, select=pick)
    session = learner.start(noise=SimulationNoise(1))
    rows = np.random.default_rng(2).random((8, 2))
    with pytest.raises(StreamHaltedError, match="rounds are over"):
        for row in rows:
            session.update(row)
            saved = json.loads(json.dumps(session.checkpoint()))
            again = learner.resume(saved, noise=SimulationNoise(9))
            assert (again.round, again.epoch) == (session.round, session.epoch)
            assert json.dumps(again.checkpoint()) == json.dumps(saved)
            if session.epoch < 3 or session.round < sum(1 + one for one in last):
                assert again.predict() == session.predict()
    assert len(last) == 4 and session.round == sum(1 + one for one in last)
    for bad in ({**saved, "taken": []}, {**saved, "taken": [0, 0, 0, 5]}, {**saved, "epoch": {}}):
        with pytest.raises(InvalidArgumentError):
            learner.resume(bad, noise=SimulationNoise(9))
    with pytest.raises(InvalidArgumentError, match="other parameters"):
        Anytime(lambda n: hedge(n), first=2, ratio=2, epochs=4).resume(saved, noise=SimulationNoise(9))


def test_places_of_bad_losses_say_the_round() -> None:
    session = Anytime(hedge, first=2, ratio=2, epochs=2).start(noise=SimulationNoise(1))
    for _ in range(3):
        session.update([0.0, 1.0])
    with pytest.raises(InvalidArgumentError, match=r"round 3: losses\[1, 1\]"):
        session.update([0.0, 2.0])
    assert session.round == 3


# --- simulation, and exact regret ------------------------------------------------------------------------------------


def test_simulation_and_exact_regret_agree_with_sessions() -> None:
    learner = Anytime(hedge, ratio=2, first=3, epochs=2)
    losses = np.random.default_rng(4).random((7, 2))  # the second epoch is cut short
    first, second = learner.simulate(losses, np.random.default_rng(5), 20_000)
    played = np.concatenate([first.actions, second.actions], axis=1)[:, :7].astype(int)
    regret = losses[np.arange(7), played].sum(axis=1) - losses.sum(axis=0).min()
    exact = learner.expected_regret(losses)
    assert abs(regret.mean() - exact) < 6 * regret.std() / math.sqrt(len(regret))
    assert exact <= learner.regret_bound(7)
    ratio = learner.log_likelihood_ratio((first, second), losses, losses[::-1])
    assert ratio.shape == (20_000,) and ratio.std() > 0
    with pytest.raises(InvalidArgumentError, match="found"):
        learner.log_likelihood_ratio((first,), losses, losses)
    clipping = Anytime(lambda n: evolve(hedge(n), clip=True), ratio=2, first=3, epochs=2)
    assert clipping.expected_regret(np.where(losses > 0.5, np.inf, losses)) == pytest.approx(
        learner.expected_regret(np.where(losses > 0.5, 1.0, losses))
    )
    spoilt = losses.copy()
    spoilt[5, 1] = 1.5
    with pytest.raises(InvalidArgumentError, match=r"losses\[5, 1\]"):
        learner.expected_regret(spoilt)
    with pytest.raises(RefusedMethodError, match="NoisyHedge has no expected_regret"):
        Anytime(lambda n: NoisyHedge(clients=2, rounds=n, experts=2, scale=1.0), first=2, epochs=1).expected_regret(
            np.zeros((2, 2))
        )


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_the_bound_is_the_sum_of_epochs_and_never_above_the_rounds() -> None:
    learner = Anytime(Priced, first=16, ratio=4, epochs=3)  # bounds 12, 24, 48 of 16, 64, 256 rounds
    for rounds, bound in ((1, 1.0), (11, 11.0), (16, 12.0), (17, 13.0), (40, 36.0), (80, 36.0), (336, 84.0)):
        found = learner.regret_bound(rounds)
        assert found == bound and found.most == rounds
    assert learner.regret_bound() == 84.0 and learner.regret_bound(adversary="adaptive").adversary == "adaptive"

    costly = Anytime(lambda n: (Priced(n), Priced(n // 2)), first=16, epochs=2, select=lambda *_: 0)
    # 8 rounds of bound 8, then 64 of 24, then none; or 16 of 12, then 64 of 24: the worst sequence of choices.
    assert costly.regret_bound(80) == 12.0 + 24.0
    assert costly.regret_bound(40) == max(12.0 + 24.0, 8.0 + 24.0)


def test_the_factor_to_a_known_number_of_rounds() -> None:
    """√12 for bounds c·√T of whole epochs at the ratio 4, and 2.6 for Hedge, whose regret comes round by round."""
    learner = Anytime(lambda n: Priced(n), first=64, epochs=12)
    whole, paid, ends = [], [], 0
    for k, (one,) in enumerate(learner.choices):
        rate = math.sqrt(8.0 / one.rounds)  # for ln d = 1
        for share in np.geomspace(1 / one.rounds, 1.0, 40):
            count = max(1, round(share * one.rounds))
            whole.append(float(learner.regret_bound(ends + count)) / (3.0 * math.sqrt(ends + count)))
            before = sum(math.sqrt(earlier.rounds / 2.0) for (earlier,) in learner.choices[:k])
            paid.append((before + 1 / rate + rate * count / 8.0) / math.sqrt((ends + count) / 2.0))
        ends += one.rounds
    assert 3.4 < max(whole) <= math.sqrt(12)
    assert 2.5 < max(paid[40:]) <= 2.6


def test_bounds_inside_an_epoch_need_losses_that_may_go_on() -> None:
    """A bound for independent losses says nothing about fewer rounds; one for oblivious losses does."""
    learner = Anytime(lambda n: LimitedUpdates(rounds=n, experts=2, learning_rate=1.0), first=64, ratio=2, epochs=2)
    assert learner.regret_bound(64, adversary="stochastic") > 0
    with pytest.raises(InvalidArgumentError, match="adversary"):
        learner.regret_bound(70, adversary="stochastic")
    mixed = Anytime(hedge, first=64, ratio=2, epochs=2)
    assert mixed.regret_bound(70, adversary="stochastic") == mixed.regret_bound(70)


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Anytime(3), "learner_of_rounds"),
        (lambda: Anytime(lambda n: 3), "learner_of_rounds"),
        (lambda: Anytime(lambda n: []), "learner_of_rounds"),
        (lambda: Anytime(lambda n: hedge(64), epochs=2), "learner_of_rounds"),
        (lambda: Anytime(lambda n: (hedge(n), hedge(n)), epochs=1), "select"),
        (lambda: Anytime(lambda n: (hedge(n), hedge(2 * n)), epochs=1, select=lambda *_: 0), "learner_of_rounds"),
        (lambda: Anytime(hedge, ratio=1), "ratio"),
        (lambda: Anytime(hedge, ratio=2.5), "ratio"),
        (lambda: Anytime(hedge, first=0), "first"),
        (lambda: Anytime(hedge, epochs=0), "epochs"),
        (lambda: Anytime(hedge, epochs=65), "epochs"),
        (lambda: Anytime(hedge, select=3), "select"),
        (lambda: Anytime(hedge, epochs=1).regret_bound(65), "rounds"),
        (lambda: Anytime(hedge, epochs=1).regret_bound(adversary="nobody"), "adversary"),  # type: ignore[arg-type]
        (lambda: Anytime(hedge, epochs=1).guarantee(group=0), "group"),
        (lambda: Anytime(hedge, epochs=1).release(3), "losses"),  # type: ignore[arg-type]
        (lambda: Anytime(hedge, epochs=1).simulate(np.zeros((65, 2)), np.random.default_rng(1), 1), "losses"),
        (lambda: Anytime(hedge, epochs=1).simulate([[math.nan, 0.0]], np.random.default_rng(1), 1), "losses"),
        (
            lambda: Anytime(lambda n: (hedge(n), hedge(n)), epochs=1, select=lambda *_: 2).start(
                noise=SimulationNoise(1)
            ),
            "select",
        ),
        (
            lambda: Anytime(lambda n: (hedge(n), hedge(n)), epochs=1, select=lambda *_: 0).worst_case_neighbours(),
            "select",
        ),
        (
            lambda: Anytime(
                lambda n: NoisyHedge(clients=2, rounds=n, experts=2, scale=1.0), epochs=1
            ).worst_case_neighbours(),
            "learner_of_rounds",
        ),
    ],
)
def test_bad_arguments_are_refused(call: Any, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        call()


def test_learners_are_calibrated_by_the_function() -> None:
    with pytest.raises(RefusedMethodError, match="give a function"):
        getattr(Anytime, "calibrated")  # noqa: B009
    assert Anytime(hedge, epochs=1) == Anytime(lambda n: hedge(n), epochs=1)
