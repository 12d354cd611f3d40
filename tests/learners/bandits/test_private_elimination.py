"""Tests of successive elimination: its exact privacy on tiny instances, what it reads, its intervals, its bound."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from attrs import asdict, evolve, frozen
from samples import least_mean
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import EliminationRuns, EliminationStream, PrivateElimination
from hockeystick.learners.bandits.arm_stream import ArmStream
from hockeystick.learners.bandits.epochs import Intervals
from hockeystick.learners.bandits.sum_noise import SumNoise
from hockeystick.learners.common.stream_checkpoint import seal
from hockeystick.mechanisms import SimulationNoise

FALSE_ALARM = 1e-6


@frozen(kw_only=True)
class Short(PrivateElimination):
    """With given thresholds on the difference of two sums, for epochs of few rounds."""

    thresholds: tuple[float, ...] = (0.0, 1.0)

    @property
    def widths(self) -> tuple[float, ...]:
        return tuple(each / (2 * n) for each, n in zip(self.thresholds, self.pulls, strict=True))


def short(**changes: Any) -> Short:
    known: dict[str, Any] = {"rounds": 7, "arms": 2, "scale": 1.0, "pulls": (1, 2), "failure": 0.5}
    return Short(**known | changes)


# --- exact privacy, by enumeration -----------------------------------------------------------------------------------


@cache
def sums_of_tables() -> FloatArray:
    """The sums of both epochs while both arms are left, for each loss of the six rounds; shape (64, epochs, arms)."""
    learner, both, found = short(), np.ones((1, 3, 2), bool), []
    for bits in itertools.product((0.0, 1.0), repeat=6):
        table = np.zeros((7, 2))
        table[np.arange(6), np.arange(6) % 2] = bits
        found.append([learner._exact(table, both, epoch)[0] for epoch in range(2)])
    return np.array(found)


def epsilon_of_eliminations(learner: Short, defect: str = "") -> float:
    """The exact ε of which arm is dropped after which epoch, K = 2: all 64 tables of the losses that are read."""
    a, k = math.exp(-1 / learner.scale * (2 if defect == "half the noise" else 1)), np.arange(-40, 41)
    mass = (1 - a) / (1 + a) * a ** np.abs(k)
    pairs, weights = np.stack(np.meshgrid(k, k, indexing="ij"), axis=-1).reshape(-1, 2), np.outer(mass, mass).ravel()

    @cache
    def outcomes(epoch: int, first: float, second: float) -> FloatArray:
        """P(both stay), P(arm 0 is dropped), P(arm 1 is dropped), of lattice noise on the sums."""
        kept = learner._kept(pairs + [first, second], epoch)
        return np.array([weights[cell].sum() for cell in (kept.all(axis=1), ~kept[:, 0], ~kept[:, 1])])

    sums = sums_of_tables()
    if defect == "all epochs":
        sums = np.cumsum(sums, axis=1)
    steps = [[outcomes(epoch, *own.tolist()) for epoch, own in enumerate(each)] for each in sums]
    laws = np.log([[first[1], first[2], *(first[0] * second)] for first, second in steps])
    moved = np.arange(64)[:, None] ^ (1 << np.arange(6))  # the loss of one round that is read
    return float(np.abs(laws[:, None] - laws[moved]).max())


GOLDEN = {"": (0.215, 0.865, 1.850), "all epochs": (0.252, 1.277, 3.149), "half the noise": (0.483, 1.850, 3.846)}


@pytest.mark.statistical
@pytest.mark.parametrize("defect", GOLDEN)
def test_the_exact_epsilon_of_eliminations(defect: str) -> None:
    """At ε = .3, 1, 2, the worst of five pairs of thresholds: within the certificate, and not for mutants.

    Sums of all epochs are not seen in the eliminations at ε = .3, but in the sums, as an audit sees them.
    """
    for epsilon, expected in zip((0.3, 1.0, 2.0), GOLDEN[defect], strict=True):
        worst = 0.0
        for thresholds in ((0, 0), (1, 1), (0, 1), (1, 2), (2, 3)):
            learner = short(scale=1 / epsilon, thresholds=thresholds)
            assert learner.guarantee().epsilon(0.0).upper == pytest.approx(epsilon, rel=1e-12)
            worst = max(worst, epsilon_of_eliminations(learner, defect))
        assert worst == pytest.approx(expected, abs=1e-3)
        assert (worst <= epsilon) == (not defect or (defect, epsilon) == ("all epochs", 0.3))


def test_neighbours_attain_the_certificate_in_the_sums() -> None:
    learner = short(scale=0.5, rounds=9)
    pair = learner.worst_case_neighbours()
    found = learner.simulate(pair[0], np.random.default_rng(3), 500)
    ratios = learner.log_likelihood_ratio(found, *pair)
    assert ratios.max() == pytest.approx(2.0) and ratios.min() >= -2.0 - 1e-12
    group = np.zeros((9, 2))
    group[:2] = 1.0
    together = learner.log_likelihood_ratio(found, group, np.zeros((9, 2)))
    assert together.max() == pytest.approx(4.0)
    assert learner.guarantee(group=2).epsilon(0.0).upper == pytest.approx(4.0)


@pytest.mark.parametrize("group", [2, 3])
def test_a_group_pays_as_if_it_shared_a_block(group: int) -> None:
    """Which covers people who are spread over blocks, as what was published before decides; at other δ, too."""
    certified = short(rounds=50, pulls=(1, 2, 3), thresholds=(1, 1, 1)).guarantee(group=group)
    for delta in (0.0, 1e-3, 0.1):
        shared = accounting.epsilon(accounting.Laplace(1.0 / group), delta).upper
        assert certified.epsilon(delta).upper >= shared * (1 - 1e-9)
        spread = accounting.compose(*(accounting.Laplace(1.0) for _ in range(group)))
        assert certified.epsilon(delta).upper >= accounting.epsilon(spread, delta).upper * (1 - 1e-6)


# --- what a session reads and publishes ------------------------------------------------------------------------------


class Silent(SimulationNoise):
    """Noise of 0, which shows the sums."""

    def laplace(self, scale: float, count: int) -> Any:
        return np.zeros(count, dtype=np.int64)


def transcription(learner: PrivateElimination, table: FloatArray) -> tuple[list[int], list[FloatArray]]:
    """The arms and the sums without noise, round by round."""
    left = list(range(learner.arms))
    played: list[int] = []
    published: list[FloatArray] = []
    for n, width in zip(learner.pulls, learner.widths, strict=True):
        if len(left) == 1 or len(played) + n * len(left) >= learner.rounds:
            break
        sums = np.full(learner.arms, np.nan)
        sums[left] = 0.0
        for _ in range(n):
            for arm in left:
                sums[arm] += float(table[len(played)][arm])
                played.append(arm)
        published.append(sums)
        least = min(sums[arm] for arm in left)
        left = [arm for arm in left if sums[arm] / n <= least / n + 2 * width]
    rest = itertools.cycle(left)
    return played + [next(rest) for _ in range(learner.rounds - len(played))], published


TABLES = np.random.default_rng(5).random((12, 60, 4)) ** np.array([1, 1.2, 2, 3])


def follows_the_algorithm(learner: PrivateElimination) -> bool:
    """Sessions that are saved again and again, and releases, on 12 tables: against the transcription."""
    for table in TABLES:
        arms, sums = transcription(learner, table)
        session, played = learner.start(noise=Silent(1)), []
        for row in table:
            played.append(session.predict())
            session.update(float(row[played[-1]]))
            if session.round % 5 == 2:
                session = learner.resume(json.loads(json.dumps(session.checkpoint())), noise=Silent(1))
        released = learner.release(table, noise=Silent(1))
        same = played == arms and released.arms.tolist() == arms and len(released.sums) == len(sums)
        if not same or not np.allclose(released.sums, np.reshape(sums, (-1, 4)), atol=1e-4, equal_nan=True):
            return False
    return True


def test_sessions_and_releases_follow_the_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = short(rounds=60, arms=4, pulls=(2, 3, 5, 40), thresholds=(0.8, 1.2, 1.5, 1.0))
    assert {len({*transcription(learner, table)[0][-8:]}) for table in TABLES} > {1, 2}
    assert follows_the_algorithm(learner)

    def unreset(self: Any, turn: list[int]) -> None:
        before = self._sums if hasattr(self, "_sums") else [0] * len(turn)
        self._first, self._turn, self._sums = self._round, turn, before[: len(turn)]
        self._until = min(self._learner.rounds, self._first + self._length())

    monkeypatch.setattr(ArmStream, "_begin", unreset)
    assert not follows_the_algorithm(learner)


def test_simulations_follow_the_algorithm() -> None:
    """With next to no noise: the arms left, the sums, the losses; where an epoch would end with the last round, too."""
    for rounds in (59, 60):
        learner = short(rounds=rounds, arms=4, scale=1e-9, pulls=(2, 3, 5, 40), thresholds=(0.8, 1.2, 1.5, 1.0))
        for table in TABLES[:, :rounds]:
            arms, sums = transcription(learner, table)
            found = learner.simulate(table, np.random.default_rng(1), 2)
            assert learner.plays(found.left).tolist() == [arms, arms]
            seen = found.sums[0][~np.isnan(found.sums[0]).all(axis=1)]
            np.testing.assert_allclose(seen, np.reshape(sums, (-1, 4)), atol=1e-6)
            np.testing.assert_allclose(found.losses, table[np.arange(rounds), arms].sum())
    exact = short(rounds=8, pulls=(2, 2), thresholds=(9.0, 9.0))  # 4 rounds, then 4: the second epoch publishes nothing
    assert exact.release(np.zeros((8, 2)), noise=Silent(1)).sums.shape == (1, 2)
    assert np.isnan(exact.simulate(np.zeros((8, 2)), np.random.default_rng(1), 3).sums[:, 1]).all()


@pytest.mark.statistical
def test_runs_and_releases_have_one_law() -> None:
    """P(arm 0 is dropped after the first epoch), by the law of a difference of Laplace noises; 1e-6 each."""
    learner, table = short(pulls=(2, 1), thresholds=(1.0, 9.0)), np.ones((7, 2))
    table[:, 1] = 0.25

    def dropped(difference: float) -> float:
        gap = 1.0 - difference  # of the noises, above which arm 0 goes
        tail = 0.25 * (2 + abs(gap)) * math.exp(-abs(gap))
        return tail if gap > 0 else 1 - tail

    exact, other = dropped(1.5), dropped(-1.5)
    simulated = ~learner.simulate(table, np.random.default_rng(1), 20_000).left[:, 1, 0]
    noise = SimulationNoise(2)
    released = np.array([learner.release(table, noise=noise).arms[4:].min() == 1 for _ in range(300)])
    for found in (simulated, released):
        allowed = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * len(found)))
        assert abs(found.mean() - exact) <= allowed < abs(found.mean() - other)


def test_ratios_of_runs_are_those_of_their_densities() -> None:
    learner, rng = (
        short(rounds=20, arms=3, pulls=(1, 2, 2), thresholds=(1.5, 1.5, 1.5), scale=0.7),
        np.random.default_rng(1),
    )
    tables = rng.random((2, 20, 3))
    found = learner.simulate(tables[0], rng, 200)
    assert len(np.unique(found.left.reshape(200, -1), axis=0)) > 5
    arms, expected = learner.plays(found.left), np.zeros(200)
    for run in range(200):
        start = 0
        for epoch, n in enumerate(learner.pulls):
            noisy = found.sums[run, epoch]
            for arm in np.flatnonzero(np.isfinite(noisy)):
                own = np.arange(start, start + n * int(found.left[run, epoch].sum()))
                own = own[arms[run, own] == arm]
                assert len(own) == n
                x = [table[own, arm].sum() for table in tables]
                expected[run] += (abs(noisy[arm] - x[1]) - abs(noisy[arm] - x[0])) / 0.7
            start += n * int(found.left[run, epoch].sum())
    np.testing.assert_allclose(learner.log_likelihood_ratio(found, *tables), expected, atol=1e-12)


# --- intervals and schedule ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounds", "arms", "epsilon", "pulls"),
    [(10**5, 5, 1.0, (700, 2562, 9716)), (10**6, 10, 0.1, (2641, 7191, 20747, 64860, 219961))],
)
def test_schedules(rounds: int, arms: int, epsilon: float, pulls: tuple[int, ...]) -> None:
    """Golden; and no fewer pulls have widths of 2^-e / 4, for which a transcription of the intervals is the judge."""
    learner = PrivateElimination.calibrated(rounds=rounds, arms=arms, epsilon=epsilon)
    assert learner.pulls == pulls
    intervals = Intervals(arms, learner.failure, learner.sum_noise)

    def width(e: int, n: int) -> float:
        q = 2 * arms * e * (e + 1) * rounds
        return math.sqrt(math.log(2 * q) / (2 * n)) + math.log(q) / (epsilon * n)

    for e, n in enumerate(pulls, 1):
        assert learner.widths[e - 1] <= 2.0**-e / 4 < intervals.width(e, n - 1)
        assert learner.widths[e - 1] == pytest.approx(width(e, n), rel=1e-5)
    spent = rounds - arms * pulls[0] - 2 * sum(pulls[1:])
    assert 0 < spent <= 2 * intervals.pulls(len(pulls) + 1, rounds)


@pytest.mark.parametrize("steps", [0.3, 1.0, 3.0, 50.0])
def test_the_noise_is_beyond_its_share_of_a_width_rarely_enough(steps: float) -> None:
    """On a coarse grid; ln(q) in place of ln(2q/(1 + a)), as for Laplace noise, would be exceeded too often."""
    noise, a, naive = SumNoise(unit=2.0**-30, step=1.0, steps=steps), math.exp(-1 / steps), 0.0
    for failure in np.geomspace(1e-9, 0.5, 300):
        q = 4 * 2 / failure  # two arms, the first epoch
        share = Intervals(2, float(failure), noise).width(1, 1) - math.sqrt(math.log(2 * q) / 2) - 0.5 - 2.0**-31
        beyond = 2 * a ** (math.floor(share) + 1) / (1 + a)
        assert beyond <= 1 / q * (1 + 1e-9)
        naive = max(naive, q * 2 * a ** (math.floor(math.log(q) * steps) + 1) / (1 + a))
    assert naive > 1.0 + 0.3 * (steps < 2)


@pytest.mark.parametrize(("epoch", "pulls", "mean"), [(1, 30, 0.5), (2, 200, 0.9), (1, 4, 0.3)])
def test_intervals_are_missed_rarely_enough(epoch: int, pulls: int, mean: float) -> None:
    """Of a sum of coins with Laplace noise, exactly: below the share of one arm in one epoch."""
    learner = PrivateElimination(rounds=10**4, arms=3, scale=2.0, pulls=(pulls,), failure=0.2)
    width = Intervals(3, 0.2, learner.sum_noise).width(epoch, pulls)
    k = np.arange(pulls + 1)
    heads, off = stats.binom.pmf(k, pulls, mean), k - pulls * mean
    missed = [
        float(heads @ stats.laplace.sf(w * pulls - off, scale=2) + heads @ stats.laplace.cdf(-w * pulls - off, scale=2))
        for w in (width, 0.3 * width)
    ]
    share = 0.2 / (3 * epoch * (epoch + 1))
    assert missed[0] <= share < missed[1]


# --- the bound -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounds", "arms", "epsilon", "expected"),
    [(10**5, 5, 1.0, 9880), (10**6, 10, 1.0, 29_151), (10**6, 10, 0.1, 51_920)],
)
def test_bounds_for_gaps(rounds: int, arms: int, epsilon: float, expected: int) -> None:
    """Golden, of means .1 … .5; and by hand: an arm goes after the first epoch with 2^-e below its gap."""
    learner = PrivateElimination.calibrated(rounds=rounds, arms=arms, epsilon=epsilon)
    gaps = np.linspace(0.0, 0.4, arms)
    bound = learner.pseudo_regret_bound(gaps)
    assert bound == pytest.approx(expected, abs=1) and bound.adversary == "stochastic"
    by_hand = 1.0  # failure * T
    for gap in gaps[1:].tolist():
        epoch = next((e for e in range(1, len(learner.pulls) + 1) if 2.0**-e < gap), None)
        by_hand += gap * min((rounds + 1) / 2, sum(learner.pulls[:epoch]) if epoch else rounds)
    assert bound == pytest.approx(by_hand, rel=1e-6)


@pytest.mark.statistical
def test_the_bound_without_gaps_holds_for_all_of_them() -> None:
    rng = np.random.default_rng(2)
    for rounds, arms, epsilon in ((3000, 2, 4.0), (10**5, 5, 1.0), (10**6, 3, 0.2)):
        learner = PrivateElimination.calibrated(rounds=rounds, arms=arms, epsilon=epsilon)
        every = learner.pseudo_regret_bound()
        most = 0.0
        for _ in range(400):
            gaps = np.minimum(1.0, 2.0 ** -rng.uniform(0, 8, arms) * rng.choice([1.0, 1.0001], arms))
            gaps[rng.integers(arms)] = 0.0
            most = max(most, learner.pseudo_regret_bound(gaps))
        assert 0.3 * every < most <= every * (1 + 1e-9) + learner.failure * rounds
        assert learner.regret_bound() == pytest.approx(every + math.sqrt(rounds * math.log(arms) / 2))


@frozen(kw_only=True)
class KeepsTheWorst(PrivateElimination):
    """A mutant that drops the arms of small losses."""

    def _kept(self, sums: FloatArray, epoch: int) -> Any:
        return super()._kept(-sums, epoch)


@pytest.mark.statistical
def test_measured_regrets_are_below_the_bound() -> None:
    """Lower limits of the mean excess over the best mean, 1e-6 each; a learner that keeps the worst arm is above."""
    learner = PrivateElimination.calibrated(rounds=20_000, arms=3, epsilon=1.0)
    for means in ([0.2, 0.5, 0.9], [0.5, 0.45, 0.5], [0.0, 1.0, 1.0]):
        rng, gaps = np.random.default_rng(4), np.array(means) - min(means)
        excess = {kind: np.zeros(12) for kind in (PrivateElimination, KeepsTheWorst)}
        for i in range(12):
            table = (rng.random((20_000, 3)) < means).astype(float)
            for kind, found in excess.items():
                made = kind(**asdict(learner))
                arms = made.plays(made.simulate(table, rng, 1).left)
                found[i] = gaps[arms].sum()
        bound = learner.pseudo_regret_bound(gaps)
        assert least_mean(excess[PrivateElimination]) <= bound <= 20_000 * max(gaps)
        if means[0] == 0.2:
            assert least_mean(excess[KeepsTheWorst]) > bound


def test_bounds_at_the_ends() -> None:
    few = PrivateElimination.calibrated(rounds=13, arms=3, epsilon=1.0)
    assert few.pulls == () and few.guarantee().epsilon(0.0).upper == 0.0  # no epoch would end: nothing is published
    assert few.regret_bound().vacuous and few.release(np.zeros((13, 3)), noise=Silent(1)).sums.shape == (0, 3)
    assert few.simulate(np.zeros((13, 3)), np.random.default_rng(1), 2).sums.shape == (2, 0, 3)
    assert few.pseudo_regret_bound([0.0, 0.1, 0.1]) == pytest.approx(1.3)
    one = PrivateElimination.calibrated(rounds=1, arms=2, epsilon=1.0)
    assert one.start(noise=Silent(1)).predict() == 0 and one.failure == 0.5
    for adversary in ("oblivious", "adaptive"):
        with pytest.raises(InvalidArgumentError, match="after it was dropped"):
            few.regret_bound(adversary=adversary)


# --- calibration, arguments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("epsilon", [0.03, 1.0, 7.0])
def test_targets_are_met(epsilon: float, group: int) -> None:
    learner = PrivateElimination.calibrated(rounds=10**6, arms=3, epsilon=epsilon, group=group)
    certified = learner.guarantee(group=group).epsilon(0.0).upper
    assert epsilon * (1 - 1e-12) <= certified <= epsilon
    assert learner.graph().nodes[0].size == 3 * len(learner.pulls)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("argument", "value"),
    [("rounds", 0), ("arms", 1), ("scale", 0.0), ("scale", math.nan), ("pulls", (0,)), ("pulls", (1.5,)), ("pulls", 3)]
    + [("failure", 0.0), ("failure", 1.0), ("failure", math.nan), ("clip", 1)],
)
def test_bad_parameters_are_refused(argument: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=argument):
        short(**{argument: value})


def runs(left: Any, sums: Any) -> EliminationRuns:
    return EliminationRuns(np.array(left, bool), np.array(sums, float), np.zeros(len(left)))


@pytest.mark.parametrize(
    "call",
    [
        lambda made: made.simulate(np.zeros((7, 3)), np.random.default_rng(1), 2),
        lambda made: made.simulate(np.zeros((7, 2)), 1, 2),
        lambda made: made.simulate(np.zeros((7, 2)), np.random.default_rng(1), 0),
        lambda made: made.release(np.full((7, 2), math.nan)),
        lambda made: made.plays(np.ones((1, 2, 2))),
        lambda made: made.plays(np.zeros((1, 3, 2))),
        lambda made: made.pseudo_regret_bound([0.0]),
        lambda made: made.pseudo_regret_bound([0.1, 0.2]),
        lambda made: made.pseudo_regret_bound([0.0, 1.2]),
        lambda made: made.log_likelihood_ratio(np.ones((1, 3, 2)), np.zeros((7, 2)), np.zeros((7, 2))),
        lambda made: made.log_likelihood_ratio(runs([np.ones((3, 2))], np.zeros((1, 1, 2))), *np.zeros((2, 7, 2))),
        lambda made: made.log_likelihood_ratio(
            runs([np.ones((3, 2))], np.full((1, 2, 2), np.nan)), *np.zeros((2, 7, 2))
        ),
        lambda made: PrivateElimination.calibrated(rounds=3, arms=2, epsilon=0.0),
        lambda made: PrivateElimination.calibrated(rounds=3, arms=2, epsilon=1.0, group=0),
        lambda made: PrivateElimination.calibrated(rounds=3, arms=2, epsilon=1.0, failure=2.0),
        lambda made: PrivateElimination.calibrated(rounds=3, arms=2, epsilon=1.0, pulls=(0,)),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[PrivateElimination], object]) -> None:
    with pytest.raises(InvalidArgumentError):
        call(short())


def test_checkpoints_of_another_state_are_refused() -> None:
    learner = evolve(short(rounds=30, arms=3), pulls=(1, 2))
    good = {"round": 5, "first": 3, "turn": [0, 2], "sums": [0, 1], "epoch": 1}

    def resumed(**changes: Any) -> Any:
        saved = seal(good | changes, kind=EliminationStream._kind(), version=1, learner=learner, simulated=True)
        return learner.resume(saved, noise=SimulationNoise(1))

    assert resumed().predict() == 0 and resumed().left == (0, 2)
    bad: list[dict[str, Any]] = [{"turn": [2, 0]}, {"turn": [0, 0]}, {"turn": [0, 3]}, {"epoch": 3}, {"epoch": -1}]
    bad += [{"sums": [0]}, {"round": 8}, {"round": 2}, {"first": "x"}]
    for changes in bad:
        with pytest.raises(InvalidArgumentError, match="checkpoint"):
            resumed(**changes)
