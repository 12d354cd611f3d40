"""Tests of the private bandit that is optimistic: its exact privacy on tiny instances, what it reads, its bound."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from attrs import asdict, evolve, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import PrivateElimination, PrivateUCB, UCBRuns
from hockeystick.learners.bandits.epochs import Intervals
from hockeystick.mechanisms import SimulationNoise


def small(**changes: Any) -> PrivateUCB:
    known: dict[str, Any] = {"rounds": 5, "arms": 2, "scale": 1.0, "failure": 0.5}
    return PrivateUCB(**known | changes)


# --- exact privacy, by enumeration -----------------------------------------------------------------------------------


def law(learner: PrivateUCB, table: FloatArray, times: float = 1.0, remembered: bool = False) -> FloatArray:
    """The exact logarithms of probabilities of all noisy sums in a window, of two arms in five rounds.

    Noise is on the whole numbers. The episodes are those of arm 0, of arm 1 and of the chosen arm in two rounds; the
    last round publishes nothing.
    """
    a, window = math.exp(-times / learner.scale), np.arange(-6.0, 8.0)
    first, second = np.meshgrid(window, window, indexing="ij")
    last = np.stack([first.ravel(), second.ravel()], axis=1)
    arm = learner._chosen(np.ones(last.shape, np.int64), last).reshape(first.shape)
    third = table[2:4].sum(axis=0)[arm] + (table[arm, arm] if remembered else 0.0)
    off = np.abs(first - table[0, 0]) + np.abs(second - table[1, 1])
    off = off[..., None] + np.abs(window - third[..., None])
    return np.asarray(off * math.log(a) + 3 * math.log((1 - a) / (1 + a)))


def worst(learner: PrivateUCB, times: float = 1.0, remembered: bool = False) -> float:
    """The largest log-ratio of the laws of all neighbouring tables of losses 0 and 1 that are read."""
    laws = {}
    for bits in itertools.product((0.0, 1.0), repeat=4):
        table = np.zeros((5, 2))
        table[:4] = np.array(bits)[:, None]  # one loss a round, whichever arm reads it
        laws[bits] = law(learner, table, times, remembered)
    pairs = itertools.combinations(laws, 2)
    near = [(x, y) for x, y in pairs if sum(p != q for p, q in zip(x, y, strict=True)) == 1]
    return max(float(np.abs(laws[x] - laws[y]).max()) for x, y in near)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_the_exact_epsilon_is_the_certificate(epsilon: float) -> None:
    """Of plays and sums together; half the noise, or sums that remember an arm's first episode, cost twice that."""
    learner = small(scale=1.0 / epsilon)
    assert learner.guarantee().epsilon(0.0).upper == pytest.approx(epsilon, rel=1e-12)
    assert worst(learner) == pytest.approx(epsilon, abs=1e-12)
    assert worst(learner, times=2.0) == pytest.approx(2 * epsilon, abs=1e-12)
    assert worst(learner, remembered=True) == pytest.approx(2 * epsilon, abs=1e-12)


def test_neighbours_attain_the_certificate_in_the_sums() -> None:
    learner = small(rounds=12, scale=0.5)
    pair = learner.worst_case_neighbours()
    found = learner.simulate(pair[0], np.random.default_rng(3), 500)
    ratios = learner.log_likelihood_ratio(found, *pair)
    assert ratios.max() == pytest.approx(2.0) and ratios.min() >= -2.0 - 1e-12
    for at in range(12):  # a person of any round, who is in one sum or in none
        other = pair[0].copy()
        other[at] = 1.0 - other[at]
        assert np.abs(learner.log_likelihood_ratio(found, pair[0], other)).max() <= 2.0 + 1e-12
    group = np.zeros((12, 2))
    group[:3] = 1.0
    together = learner.log_likelihood_ratio(found, group, np.zeros((12, 2)))
    assert together.max() <= learner.guarantee(group=3).epsilon(0.0).upper == pytest.approx(6.0)


# --- runs ------------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Sure(PrivateUCB):
    """With intervals of no width, so that the last means alone decide."""

    @property
    def widths(self) -> tuple[float, ...]:
        return (0.0,) * self.rounds.bit_length()


def test_episodes_double_and_forget() -> None:
    """Arm 1 is best at first; from round 7 on it loses, which its next episodes show."""
    learner, table = Sure(**asdict(small(rounds=40, scale=1e-9))), np.full((40, 2), 0.5)
    table[:, 1] = 0.25
    table[6:, 1] = 1.0
    found = learner.simulate(table, np.random.default_rng(1), 2)
    # Rounds 0 | 1 | 2-3 | 4-7 with mean 0.625, and then arm 0 for the rest.
    episodes, lengths = [0, 1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 2, 4, 2, 4, 8, 16, 2]
    assert found.arms[0].tolist() == episodes
    np.testing.assert_allclose(found.sums[0, :-1], [0.5, 0.25, 0.5, 2.5, 1.0, 2.0, 4.0, 8.0], atol=1e-6)
    assert math.isnan(found.sums[0, -1]) and found.losses[0] == pytest.approx(0.25 * 5 + 2.0 + 0.5 * 33)
    session, played = learner.start(noise=SimulationNoise(2)), []
    for row in table:
        played.append(session.predict())
        session.update(float(row[played[-1]]))
        session = learner.resume(json.loads(json.dumps(session.checkpoint())), noise=SimulationNoise(2))
    assert played == np.repeat(episodes, lengths).tolist()
    released = learner.release(table, noise=SimulationNoise(3))
    assert released.arms.tolist() == played
    rows = np.where(np.isnan(released.sums), 0.0, released.sums).sum(axis=1)
    np.testing.assert_allclose(rows, found.sums[0, :-1], atol=1e-3)


@pytest.mark.parametrize("change", [{"counts": [0, 0]}, {"counts": [9, 1]}, {"last": [0.0]}, {"turn": [0, 1]}])
def test_other_checkpoints_are_refused(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    learner = small(rounds=40)
    session = learner.start(noise=SimulationNoise(2))
    for _ in range(9):
        session.update(0.5)
    body = {**session._body(), **change}
    monkeypatch.setattr(type(session), "_body", lambda self: body)
    with pytest.raises(InvalidArgumentError):
        learner.resume(session.checkpoint(), noise=SimulationNoise(2))


def test_the_number_of_sums_is_that_of_the_most_episodes() -> None:
    """As many of the shortest episodes of all arms as fit before the last round."""
    for rounds in range(1, 60):
        for arms in (2, 3):
            lengths = sorted(2**e for e in range(7) for _ in range(arms))
            most = max(n for n in range(len(lengths) + 1) if sum(lengths[:n]) < rounds or n == 0)
            source: Any = small(rounds=rounds, arms=arms).graph().nodes[0]
            assert source.size == max(1, most)


# --- regret ----------------------------------------------------------------------------------------------------------


def test_the_bound_by_hand() -> None:
    learner = small(rounds=10**6, arms=3, failure=1e-3)
    widths = [Intervals(3, 1e-3, learner.sum_noise).width(e + 1, 2**e) for e in range(20)]
    np.testing.assert_allclose(learner.widths, widths)
    for gap in (0.9, 0.3, 0.02):
        last = next(e for e in range(20) if 2 * widths[e] < gap)
        bound = learner.pseudo_regret_bound([0.0, gap, 0.0])
        assert bound == pytest.approx(min(gap * (2.0 ** (last + 1) - 1) + 1e3, gap * 1e6))
        assert learner.pseudo_regret_bound([0.0, gap, gap]) <= learner.pseudo_regret_bound()
    assert learner.pseudo_regret_bound([0.0, 0.0, 0.0]) == 0.0
    assert learner.pseudo_regret_bound() < learner.regret_bound() < 10**6
    other = PrivateElimination.calibrated(rounds=10**6, arms=3, epsilon=1.0)
    assert PrivateUCB.calibrated(rounds=10**6, arms=3, epsilon=1.0).regret_bound() < other.regret_bound()


@pytest.mark.parametrize("gap", [0.5, 0.2])
def test_plays_and_regrets_keep_their_bounds(gap: float) -> None:
    """50 runs on coins: no arm is played more often than the proof says, but with probability 1e-6 in all."""
    learner = PrivateUCB.calibrated(rounds=20_000, arms=3, epsilon=1.0, failure=1e-6 / 50)
    losses = (np.random.default_rng(4).random((20_000, 3)) < [0.2, 0.2 + gap, 0.2 + gap]).astype(float)
    found = learner.simulate(losses, np.random.default_rng(5), 50)
    assert (found.losses - losses[:, 0].sum()).mean() < learner.pseudo_regret_bound([0.0, gap, gap])
    last = next(e for e, width in enumerate(learner.widths) if 2 * width < gap)
    episodes = max((found.arms == arm).sum(axis=1).max() for arm in (1, 2))
    assert 0 < episodes <= last + 1


def test_a_wrong_arm_is_kept_if_noise_is_forgotten() -> None:
    """Widths without the noise's share: at little ε the best arm is lost for good; with it, it is found."""

    @frozen(kw_only=True)
    class Overconfident(PrivateUCB):
        @property
        def widths(self) -> tuple[float, ...]:
            return tuple(math.sqrt(math.log(1e3) / (2.0 * 2**e)) / 8 for e in range(self.rounds.bit_length()))

    learner = small(rounds=3000, scale=20.0, failure=1e-3)
    losses = np.tile([0.2, 0.9], (3000, 1))
    lost = [
        (one.regrets(losses, np.random.default_rng(6), 400) > 0.7 * 1500).mean()
        for one in (learner, Overconfident(**asdict(learner)))
    ]
    assert lost[0] == 0.0 and lost[1] > 0.1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: small(rounds=0), "rounds"),
        (lambda: small(arms=1), "arms"),
        (lambda: small(scale=math.nan), "scale"),
        (lambda: small(failure=1.0), "failure"),
        (lambda: PrivateUCB.calibrated(rounds=5, arms=2, epsilon=-1.0), "epsilon"),
        (lambda: PrivateUCB.calibrated(rounds=5, arms=2, epsilon=1.0, failure=0.0), "failure"),
        (lambda: small().pseudo_regret_bound([0.1, 0.2]), "gaps"),
        (lambda: small().regret_bound(adversary="oblivious"), "adversary"),
        (lambda: small().simulate(np.zeros((5, 3)), np.random.default_rng(1), 2), "losses"),
        (lambda: small().log_likelihood_ratio(3, np.zeros((5, 2)), np.zeros((5, 2))), "found"),  # type: ignore[arg-type]
        (
            lambda: small().log_likelihood_ratio(
                UCBRuns(np.zeros((1, 2), np.int64), np.zeros((1, 3)), np.zeros(1)), np.zeros((5, 2)), np.zeros((5, 2))
            ),
            "found",
        ),
    ],
)
def test_bad_arguments_are_refused(call: Any, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        call()


def test_groups_and_clips() -> None:
    learner = PrivateUCB.calibrated(rounds=50, arms=2, epsilon=1.0, group=3)
    assert 0.999 <= learner.guarantee(group=3).epsilon(0.0).upper <= 1.0
    wild = np.full((50, 2), 3.0)
    with pytest.raises(InvalidArgumentError, match="losses"):
        learner.release(wild, noise=SimulationNoise(1))
    clipped = evolve(learner, clip=True)
    np.testing.assert_array_equal(
        clipped.release(wild, noise=SimulationNoise(1)).sums,
        learner.release(np.ones((50, 2)), noise=SimulationNoise(1)).sums,
    )
