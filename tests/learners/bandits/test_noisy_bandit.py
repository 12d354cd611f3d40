"""Tests of the bandit in batches: its exact privacy on tiny instances, its published sums, its bound, its runs."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from attrs import asdict, evolve, frozen
from samples import least_mean
from scipy import integrate, optimize

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import BanditRuns, NoisyBandit
from hockeystick.learners.bandits.arm_stream import ArmStream
from hockeystick.mechanisms import SimulationNoise

FALSE_ALARM = 1e-6
Defect = Literal["", "all batches", "half the noise", "no noise on 0"]


def small(**changes: Any) -> NoisyBandit:
    known: dict[str, Any] = {"rounds": 3, "arms": 2, "batch": 1, "scale": 1.0, "learning_rate": 0.3, "exploration": 0.2}
    return NoisyBandit(**known | {"floor": -2.0} | changes)


def weights_of(estimates: FloatArray, rate: float) -> FloatArray:
    """The weights 1/(rate*(L - x))² that add up to 1, by bisection."""
    least = float(estimates.min())

    def over(x: float) -> float:
        return float((1.0 / (rate * (estimates - x)) ** 2).sum() - 1.0)

    x = optimize.brentq(over, least - math.sqrt(len(estimates)) / rate - 1e-9, least - 0.999 / rate, xtol=1e-15)
    return np.asarray(1.0 / (rate * (estimates - x)) ** 2)


def told(learner: NoisyBandit, noisy: float) -> float:
    """What a noisy sum adds to the estimate of its arm, but for the arm's probability."""
    return max(noisy / learner.batch, learner.floor) - 0.5


# --- exact privacy, by enumeration -----------------------------------------------------------------------------------


def clipped_noise(total: int, scale: float, low: int, high: int) -> FloatArray:
    """ln of the law of total + discrete Laplace noise, clipped to a window that does not depend on the data."""
    a, k = math.exp(-1 / scale), np.arange(low, high + 1)
    found = (1 - a) / (1 + a) * a ** np.abs(k - total)
    found[0], found[-1] = a ** (total - low) / (1 + a), a ** (high - total) / (1 + a)
    assert found.sum() == pytest.approx(1.0)
    return np.asarray(np.log(found))


def of_policies(learner: NoisyBandit, low: int, high: int) -> FloatArray:
    """The part of ln P of each (I_1, z_1, …, I_N) that comes from the policies, an axis for each of them."""
    width, steps = high - low + 1, learner.batches - 1
    found = np.zeros([learner.arms, width] * steps + [learner.arms])

    def follow(path: tuple[int, ...], estimates: FloatArray) -> None:
        weights = weights_of(estimates, learner.learning_rate)
        law = (1 - learner.exploration) * weights + learner.exploration / learner.arms
        for arm in range(learner.arms):
            found[(*path, arm)] += math.log(law[arm])
            for at in range(width if len(path) < 2 * steps else 0):
                moved = estimates.copy()
                moved[arm] += told(learner, low + at) / law[arm]
                follow((*path, arm, at), moved)

    follow((), np.zeros(learner.arms))
    return found


def every_law(learner: NoisyBandit, defect: Defect = "", reach: int = 6) -> FloatArray:
    """ln P of all transcripts, of all tables of losses 0 or 1; the first axis is that of ``tables``."""
    low, high, steps = -reach, reach + learner.rounds, learner.batches - 1
    policies, laws = of_policies(learner, low, high), []
    scale = learner.scale / (2 if defect == "half the noise" else 1)
    for table in tables(learner):
        sums = [table[learner.batch * j : learner.batch * (j + 1)].sum(axis=0) for j in range(steps)]
        law = policies.copy()
        for arms in itertools.product(range(learner.arms), repeat=steps):
            own = [int(total[arm]) for total, arm in zip(sums, arms, strict=True)]
            place: list[Any] = [part for arm in arms for part in (arm, slice(None))]
            view = law[tuple(place)]  # one axis a batch, and I_N
            for j in range(steps):
                total = sum(own[: j + 1]) if defect == "all batches" else own[j]
                noise = clipped_noise(total, scale, low, high)
                if defect == "no noise on 0" and total == 0:
                    noise = np.where(np.arange(low, high + 1) == 0, 0.0, -600.0)
                view += noise.reshape([-1 if axis == j else 1 for axis in range(steps + 1)])
        laws.append(law)
    return np.array(laws)


def tables(learner: NoisyBandit) -> FloatArray:
    cells = itertools.product((0.0, 1.0), repeat=learner.rounds * learner.arms)
    return np.reshape(list(cells), (-1, learner.rounds, learner.arms))


def of_arms(laws: FloatArray) -> FloatArray:
    """ln P of (I_1, …, I_N) from that of the transcripts."""
    return np.asarray(np.log(np.exp(laws).sum(axis=tuple(range(2, laws.ndim, 2)))))


def exact_epsilon(laws: FloatArray, learner: NoisyBandit, group: int = 1) -> float:
    """The largest log-ratio between tables that differ in ``group`` rounds."""
    every, flat, most = tables(learner), laws.reshape(len(laws), -1), 0.0
    assert np.exp(flat).sum(axis=1) == pytest.approx(1.0)
    for law, table in zip(flat, every, strict=True):
        near = (every != table).any(axis=2).sum(axis=1) == group
        most = max(most, float(np.abs(flat[near] - law).max()))
    return most


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "arms_alone"), [(0.3, 0.1945), (1.0, 0.4776), (2.0, 0.6547)])
def test_the_exact_epsilon_of_all_that_is_published(epsilon: float, arms_alone: float) -> None:
    """T = 3, K = 2, all 64 tables and all their neighbours; the certificate is attained. The arms alone tell less."""
    learner = small(scale=1 / epsilon)
    laws = every_law(learner, reach=8)
    assert exact_epsilon(laws, learner) == pytest.approx(epsilon, abs=1e-12)
    assert learner.guarantee().epsilon(0.0).upper == pytest.approx(epsilon, rel=1e-12)
    assert exact_epsilon(of_arms(laws), learner) == pytest.approx(arms_alone, abs=1e-4)


def test_the_exact_epsilon_of_batches_and_of_groups() -> None:
    """Two rounds a batch; two people of one batch, or of two, together."""
    learner = small(rounds=4, batch=2)
    laws = every_law(learner, reach=3)
    assert exact_epsilon(laws, learner) == pytest.approx(1.0, abs=1e-12)
    assert exact_epsilon(laws, learner, group=2) == pytest.approx(2.0, abs=1e-12)
    assert learner.guarantee(group=2).epsilon(0.0).upper == pytest.approx(2.0)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_mutants_have_another_epsilon(epsilon: float) -> None:
    learner = small(scale=1 / epsilon)
    for defect in ("all batches", "half the noise"):
        assert exact_epsilon(every_law(learner, defect, reach=3), learner) == pytest.approx(2 * epsilon, abs=1e-12)
    assert exact_epsilon(every_law(learner, "no noise on 0", reach=3), learner) > 100.0


def test_ratios_of_runs_are_those_of_their_densities() -> None:
    """Against a transcription: the arms' laws cancel, and each noisy sum is compared with that of its own arm."""
    learner, rng = small(rounds=5, batch=2, scale=0.7), np.random.default_rng(1)
    tables = rng.random((2, 5, 2))
    found = learner.simulate(tables[0], rng, 50)
    expected = [
        sum(
            (abs(z - tables[1][2 * j : 2 * j + 2, arm].sum()) - abs(z - tables[0][2 * j : 2 * j + 2, arm].sum())) / 0.7
            for j, (arm, z) in enumerate(zip(arms[:-1], sums, strict=True))
        )
        for arms, sums in zip(found.arms, found.sums, strict=True)
    ]
    np.testing.assert_allclose(learner.log_likelihood_ratio(found, *tables), expected, atol=1e-12)


# --- what a session reads and publishes ------------------------------------------------------------------------------


class Silent(SimulationNoise):
    """Noise of 0, which shows the sums."""

    def laplace(self, scale: float, count: int) -> Any:
        return np.zeros(count, dtype=np.int64)


class Low(SimulationNoise):
    """Noise far below 0."""

    def laplace(self, scale: float, count: int) -> Any:
        return np.full(count, -(10**9), dtype=np.int64)


def test_a_mean_counts_for_no_less_than_the_floor() -> None:
    session = small(floor=-1.5).start(noise=Low(1))
    arm = session.predict()
    session.update(1.0)
    assert session.sums[0, arm] < -1000.0
    assert session.estimates.tolist() == [-4.0 if arm == 0 else 0.0, -4.0 if arm == 1 else 0.0]  # (-1.5 - 0.5)/0.5


class Unreset(ArmStream):
    """Mistakes that a session could have: one of its methods in place of the right one."""

    def _begin(self, turn: list[int]) -> None:
        before = list(self._sums) if hasattr(self, "_sums") else [0]
        self._first, self._turn, self._sums = self._round, turn, before
        self._until = min(self._learner.rounds, self._first + self._length())

    def _body(self) -> dict[str, Any]:
        body = {"first": self._first, "turn": self._turn, "sums": [2 * x for x in self._sums]}
        return body | self._state()


def estimates_are_of_own_batches(learner: NoisyBandit, table: FloatArray) -> bool:
    """Whether a session that is saved and resumed after every round has the estimates of a transcription."""
    session, played = learner.start(noise=Silent(3)), []
    for row in table:
        played.append(session.predict())
        session.update(float(row[played[-1]]))
        session = learner.resume(json.loads(json.dumps(session.checkpoint())), noise=Silent(3))
    estimates = np.zeros(learner.arms)
    for first in range(0, learner.rounds - learner.batch, learner.batch):
        arm = played[first]
        total = float(table[first : first + learner.batch, arm].sum())
        estimates[arm] += told(learner, total) / learner.policy(estimates)[arm]
    constant = all(len({*played[at : at + learner.batch]}) == 1 for at in range(0, learner.rounds, learner.batch))
    return constant and bool(np.allclose(session.checkpoint()["estimates"], estimates, atol=1e-3))


@pytest.mark.parametrize("method", ["", "_begin", "_body"])
def test_a_batch_is_read_once_also_after_checkpoints(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = small(rounds=23, arms=3, batch=4)
    table = np.random.default_rng(2).random((23, 3))
    if method:
        monkeypatch.setattr(ArmStream, method, getattr(Unreset, method))
    assert estimates_are_of_own_batches(learner, table) == (not method)


def test_a_release_shows_the_noisy_sums_of_its_arms() -> None:
    learner = small(rounds=23, arms=3, batch=4, scale=2.0)
    table = np.random.default_rng(2).random((23, 3))
    found = learner.release(table, noise=Silent(1))
    assert found.arms.shape == (23,) and found.sums.shape == (5, 3)
    for j, row in enumerate(found.sums):
        (arm,) = {*found.arms[4 * j : 4 * j + 4].tolist()}
        assert np.flatnonzero(np.isfinite(row)).tolist() == [arm]
        assert row[arm] == pytest.approx(table[4 * j : 4 * j + 4, arm].sum(), abs=2.0**-16)
    noisy = learner.release(table, noise=SimulationNoise(1))
    steps = noisy.sums[np.isfinite(noisy.sums)] / learner.sum_noise.step
    np.testing.assert_array_equal(steps, np.rint(steps))  # no digit below the grid
    last = table.copy()
    last[20:] = 1 - last[20:]
    np.testing.assert_array_equal(learner.release(last, noise=SimulationNoise(1)).arms, noisy.arms)


def test_a_session_shows_what_it_has_published() -> None:
    learner = small(rounds=23, arms=3, batch=4, scale=2.0)
    table = np.random.default_rng(2).random((23, 3))
    session, seen = learner.start(noise=SimulationNoise(1)), []
    for t, row in enumerate(table):
        assert session.sums.shape == (min(t // 4, 5), 3)
        seen.append(session.predict())
        session.update(float(row[seen[-1]]))
    found = learner.release(table, noise=SimulationNoise(1))
    np.testing.assert_array_equal(session.sums, found.sums)
    estimates = np.zeros(3)
    for row in found.sums:
        (arm,) = np.flatnonzero(np.isfinite(row))
        estimates[arm] += told(learner, row[arm]) / learner.policy(estimates)[arm]
    np.testing.assert_allclose(session.estimates, estimates)
    session.estimates[0] = 7.0  # a copy
    np.testing.assert_allclose(session.estimates, estimates)
    resumed = learner.resume(session.checkpoint(), noise=SimulationNoise(1))
    assert resumed.sums.shape == (0, 3)
    np.testing.assert_array_equal(resumed.estimates, session.estimates)


def test_the_noise_is_charged_in_full() -> None:
    """The discrete noise on the grid, with the rounding of sums, costs no more than the event."""
    for scale in (1e-3, 0.3, 1.0, 40.0):
        noise = small(scale=scale).sum_noise
        rounded = math.ceil(1 / noise.step) + 1  # steps that one person moves a sum by, at most
        assert rounded / noise.steps + 1 / (4 * noise.steps**2) <= 1 / scale
        assert scale < noise.scale <= scale * (1 + 2.0**-14)


# --- laws of the arms ------------------------------------------------------------------------------------------------


def second_arm(learner: NoisyBandit, table: FloatArray) -> float:
    """P(the second batch plays arm 0), by quadrature."""
    first = learner.policy(np.zeros(2))
    found = 0.0
    for arm in range(2):
        total = table[: learner.batch, arm].sum()

        def mass(z: float, arm: int = arm, total: float = total) -> float:
            estimates = np.zeros(2)
            estimates[arm] = told(learner, z) / first[arm]
            return float(learner.policy(estimates)[0] * math.exp(-abs(z - total) / learner.scale) / 2 / learner.scale)

        ends = total - 40 * learner.scale, total, total + 40 * learner.scale
        found += first[arm] * sum(integrate.quad(mass, a, b)[0] for a, b in itertools.pairwise(ends))
    return float(found)


@pytest.mark.statistical
def test_runs_and_releases_have_one_law() -> None:
    """The second arm, by Hoeffding at 1e-6 each; losses of the wrong arm are caught."""
    learner = small(rounds=3, batch=2, scale=0.5, learning_rate=2.0)
    table = np.array([[1.0, 0.0], [1.0, 0.5], [0.0, 0.0]])
    exact, other = second_arm(learner, table), second_arm(learner, table[:, ::-1])
    simulated = learner.simulate(table, np.random.default_rng(1), 20_000).arms[:, 1]
    noise = SimulationNoise(2)
    released = np.array([learner.release(table, noise=noise).arms[2] for _ in range(300)])
    for arms in (simulated, released):
        allowed = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * len(arms)))
        assert abs((arms == 0).mean() - exact) <= allowed < abs((arms == 0).mean() - other)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4, 1e9])
def test_policies_are_mixtures_of_the_weights_that_minimise(size: float) -> None:
    """The gradient of <w, L> - 2/eta*sum(sqrt(w)) is the same in all arms; many laws at once are those one by one."""
    learner = small(arms=4)
    estimates = size * np.random.default_rng(1).normal(size=(30, 4))
    laws = learner.policy(estimates)
    weights = (laws - 0.2 / 4) / 0.8
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    for row, law, own in zip(estimates, laws, weights, strict=True):
        np.testing.assert_allclose(learner.policy(row), law, atol=1e-13)
        np.testing.assert_allclose(own, weights_of(row, 0.3), rtol=1e-6, atol=1e-12)
        if size < 1e4:
            gradient = row - own**-0.5 / 0.3
            np.testing.assert_allclose(gradient, gradient[0], atol=1e-7)


# --- the bound -------------------------------------------------------------------------------------------------------


def second_moment(scale: float, kappa: float, depth: float, loss: float = 0.0) -> float:
    """E of y²/(1 - kappa*max(0, -y)), where y is loss - 1/2 + Laplace noise, but at least -depth, by quadrature."""

    def mass(z: float) -> float:
        y = max(loss - 0.5 + z, -depth)
        return y * y / (1 - kappa * max(0.0, -y)) * math.exp(-abs(z) / scale) / 2 / scale

    ends = sorted({-60 * scale, -depth + 0.5 - loss, 0.0, 0.5 - loss, 60 * scale})
    return float(sum(integrate.quad(mass, a, b, limit=200)[0] for a, b in itertools.pairwise(ends)))


def bound_of(learner: NoisyBandit) -> float:
    """The bound written again, with the moment itself in place of the sum above it."""
    batch, eta, gamma = learner.batch, learner.learning_rate, learner.exploration
    arms, batches, s, depth = learner.arms, learner.batches, learner.scale / learner.batch, 0.5 - learner.floor
    kappa = eta / 2 * math.sqrt(arms / (gamma * (1 - gamma)))
    if kappa * depth >= 1:
        return math.inf
    followed = 2 * (math.sqrt(arms) - 1) / eta + batches * s / 2 * math.exp(-(depth - 0.5) / s)
    squares = second_moment(s, kappa, depth)
    drawn = gamma * batches * (1 - 1 / arms)
    return batch * ((1 - gamma) * followed + eta * math.sqrt(arms) * batches * squares + drawn)


@pytest.mark.parametrize(("scale", "eta", "gamma", "floor"), [(1.0, 0.2, 0.3, -2.0), (0.3, 0.5, 0.3, -0.5)])
def test_a_batch_costs_what_the_proof_says(scale: float, eta: float, gamma: float, floor: float) -> None:
    """One batch of one round, at random weights and losses, with discrete noise in steps of a half, by summation.

    The weights after the batch are where <w - v, increment> - D(v, w) is largest over the simplex.
    """
    rng, arms, depth = np.random.default_rng(4), 2, 0.5 - floor
    kappa = eta / 2 * math.sqrt(arms / (gamma * (1 - gamma)))
    assert kappa * depth < 1
    k = np.arange(-40, 41)
    a = math.exp(-0.5 / scale)
    noise = (1 - a) / (1 + a) * a ** np.abs(k)
    assert noise.sum() == pytest.approx(1.0)
    allowed = eta * math.sqrt(arms) / (1 - gamma) * max(second_moment(scale, kappa, depth, x) for x in (0.0, 1.0))
    raised, closest = scale / 2 * math.exp(floor / scale), 0.0
    for _ in range(6):
        estimates, losses = rng.normal(size=arms) / eta, rng.integers(0, 5, arms) / 4
        weights = weights_of(estimates, eta)
        law = (1 - gamma) * weights + gamma / arms
        cost, moved = 0.0, np.zeros(arms)
        for arm in range(arms):
            for z, chance in zip(losses[arm] + k / 2, noise, strict=True):
                increment = np.zeros(arms)
                increment[arm] = (max(z, floor) - 0.5) / law[arm]
                after = weights_of(estimates + increment, eta)
                apart = ((np.sqrt(after) - np.sqrt(weights)) ** 2 / np.sqrt(weights)).sum() / eta
                cost += law[arm] * chance * float((weights - after) @ increment - apart)
                moved += law[arm] * chance * increment
        closest = max(closest, cost / allowed)
        assert 0.0 < cost <= allowed
        for fixed in np.eye(arms):
            assert (weights - fixed) @ losses <= (weights - fixed) @ moved + raised
    assert closest > 0.1


GOLDEN = [  # T, K, ε, and the least bound; that of EXP3 in such batches was 435, 3316, 10,527, 17,725 and 9490
    (10**4, 2, 1.0, 308),
    (10**5, 5, 1.0, 2130),
    (10**5, 5, 0.1, 7287),
    (10**6, 10, 1.0, 10_267),
    (10**6, 10, 4.0, 5141),
]


@pytest.mark.parametrize(("rounds", "arms", "epsilon", "least"), GOLDEN)
def test_the_search_finds_the_least_bound(rounds: int, arms: int, epsilon: float, least: int) -> None:
    """Against a minimisation of the bound, written again, that starts from the result."""
    learner = NoisyBandit.calibrated(rounds=rounds, arms=arms, epsilon=epsilon)
    bound, rounding = learner.regret_bound(), learner.sum_noise.rounding(rounds, learner.batches)
    assert bound == pytest.approx(least, abs=1) and bound.adversary == "oblivious" and not bound.vacuous
    assert bound_of(learner) <= bound <= 1.01 * bound_of(learner) + rounding

    def at(x: FloatArray) -> float:
        rate, share, depth = np.exp(x)
        if share >= 1:
            return math.inf
        return bound_of(evolve(learner, learning_rate=rate, exploration=share, floor=-depth))

    start = np.log([learner.learning_rate, learner.exploration, -learner.floor])
    near = optimize.minimize(at, start, method="Nelder-Mead", options={"maxfev": 60})
    assert bound <= near.fun * 1.01 + rounding
    for batch in (max(1, learner.batch - 1), learner.batch + 1):
        assert bound_of(learner) <= bound_of(evolve(learner, batch=batch))


@pytest.mark.parametrize("arms", [2, 20])
def test_the_bound_grows_as_the_root_of_rounds_over_epsilon(arms: int) -> None:
    """3.364*sqrt(T K (1 - 1/sqrt(K))/ε) to leading order, for few arms or many; EXP3 has another sqrt(ln K)."""
    learner = NoisyBandit.calibrated(rounds=10**12, arms=arms, epsilon=0.1)
    leading = 2 * math.sqrt(2 * math.sqrt(2) * 1e13 * (arms - math.sqrt(arms)))
    assert 1.0 < bound_of(learner) / leading < 1.05


def test_bounds_at_the_ends() -> None:
    assert NoisyBandit.calibrated(rounds=1, arms=4, epsilon=1.0).regret_bound() == 0.75  # one uniform draw
    assert NoisyBandit.calibrated(rounds=10, arms=4, epsilon=1e-3).regret_bound().vacuous
    assert small(exploration=1.0).regret_bound() == 3.0
    assert small(learning_rate=5.0).regret_bound() == 3.0  # no moment of the noise
    assert small(rounds=1).guarantee().epsilon(0.0).upper == 0.0  # nothing is read
    assert small().regret_bound(adversary="stochastic").adversary == "stochastic"
    with pytest.raises(InvalidArgumentError, match="keeps for a batch"):
        small().regret_bound(adversary="adaptive")


@frozen(kw_only=True)
class Worst(NoisyBandit):
    """A mutant that prefers large losses."""

    def _laws(self, given: FloatArray) -> FloatArray:
        return super()._laws(-given)


def streams(rounds: int) -> dict[str, FloatArray]:
    """Losses of two arms, fixed in advance."""
    rng, turns = np.random.default_rng(6), np.arange(rounds)[:, None] % 2
    late = np.array([1.0, 0.0]) * np.ones((rounds, 1))
    late[: rounds // 3] = [0.4, 0.6]
    coins = (rng.random((rounds, 2)) < [0.45, 0.55]).astype(float)
    return {
        "coins": coins,
        "turns": np.hstack([turns, 1.0 - turns]),
        "late": late,
        "one": np.tile([1.0, 0.0], (rounds, 1)),
    }


@pytest.mark.statistical
def test_measured_regrets_are_below_the_bound() -> None:
    """Lower limits of mean regrets, 1e-6 each; a learner that prefers large losses is above."""
    learner = NoisyBandit.calibrated(rounds=1000, arms=2, epsilon=2.0)
    bound = learner.regret_bound()
    assert bound < 250
    for losses in streams(1000).values():
        assert least_mean(learner.regrets(losses, np.random.default_rng(7), 40)) <= bound
    broken = Worst(**asdict(learner))
    assert least_mean(broken.regrets(streams(1000)["one"], np.random.default_rng(7), 40)) > bound


# --- calibration, groups, arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [1, 2, 7])
@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 10.0])
def test_targets_are_met(epsilon: float, group: int) -> None:
    learner = NoisyBandit.calibrated(rounds=500, arms=3, epsilon=epsilon, group=group)
    certified = learner.guarantee(group=group).epsilon(0.0).upper
    assert epsilon * (1 - 1e-12) <= certified <= epsilon
    assert learner.scale == pytest.approx(group / epsilon)
    assert learner.batches >= 2


def test_neighbours_attain_the_certificate() -> None:
    learner = small(scale=0.5)
    pair = learner.worst_case_neighbours()
    assert np.flatnonzero((pair[0] != pair[1]).any(axis=1)).tolist() == [0]
    ratios = learner.log_likelihood_ratio(learner.simulate(pair[0], np.random.default_rng(3), 500), *pair)
    assert ratios.max() == pytest.approx(2.0) and ratios.min() >= -2.0 - 1e-12


def test_plays_repeat_the_arms_of_batches() -> None:
    learner = small(rounds=5, batch=2)
    assert learner.plays([[0, 1, 0]]).tolist() == [[0, 0, 1, 1, 0]]
    found = learner.simulate(np.tile([0.25, 0.5], (5, 1)), np.random.default_rng(1), 9)
    totals = np.where(learner.plays(found.arms) == 0, 0.25, 0.5).sum(axis=1)
    np.testing.assert_allclose(found.losses, totals)


def test_losses_may_be_clipped_at_ingestion() -> None:
    learner, wild = small(clip=True), np.array([[-3.0, math.inf], [0.5, 7.0], [0.0, 1.0]])
    tame = np.clip(wild, 0, 1)
    first, second = (learner.release(x, noise=SimulationNoise(5)).sums for x in (wild, tame))
    np.testing.assert_array_equal(first, second)
    session = learner.start(noise=Silent(1))
    session.update(math.inf)
    assert session.checkpoint()["estimates"][0] + session.checkpoint()["estimates"][1] == pytest.approx(1.0)
    with pytest.raises(InvalidArgumentError, match="loss"):
        session.update(math.nan)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("rounds", 0), ("arms", 1), ("arms", True), ("batch", 0), ("scale", 0.0), ("scale", math.nan), ("scale", -1.0)]
    + [("learning_rate", 0.0), ("exploration", 0.0), ("exploration", 1.1), ("exploration", math.nan), ("clip", 1)]
    + [("floor", 0.1), ("floor", -math.inf)],
)
def test_bad_parameters_are_refused(argument: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=argument):
        small(**{argument: value})


@pytest.mark.parametrize(
    "call",
    [
        lambda made: made.simulate(np.zeros((3, 3)), np.random.default_rng(1), 2),
        lambda made: made.simulate(np.full((3, 2), math.nan), np.random.default_rng(1), 2),
        lambda made: made.simulate(np.zeros((3, 2)), 1, 2),
        lambda made: made.simulate(np.zeros((3, 2)), np.random.default_rng(1), 0),
        lambda made: made.release(np.full((3, 2), 1.5)),
        lambda made: made.policy([0.0]),
        lambda made: made.policy([0.0, math.nan]),
        lambda made: made.plays([0, 1]),
        lambda made: made.plays([0, 1, 2]),
        lambda made: made.log_likelihood_ratio(np.zeros((1, 3)), np.zeros((3, 2)), np.zeros((3, 2))),
        lambda made: made.log_likelihood_ratio(
            BanditRuns(np.full((1, 3), 2), np.zeros((1, 2)), np.zeros(1)), np.zeros((3, 2)), np.zeros((3, 2))
        ),
        lambda made: NoisyBandit.calibrated(rounds=3, arms=2, epsilon=0.0),
        lambda made: NoisyBandit.calibrated(rounds=3, arms=2, epsilon=math.nan),
        lambda made: NoisyBandit.calibrated(rounds=3, arms=2, epsilon=1.0, group=0),
        lambda made: NoisyBandit.calibrated(rounds=3, arms=1, epsilon=1.0),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[NoisyBandit], object]) -> None:
    with pytest.raises(InvalidArgumentError):
        call(small())


def test_checkpoints_of_another_state_are_refused() -> None:
    from hockeystick.learners.bandits.noisy_bandit import BanditStream
    from hockeystick.learners.common.stream_checkpoint import seal

    learner = small(rounds=9, batch=2)
    good = {"round": 3, "first": 2, "turn": [1], "sums": [0], "estimates": [0.0, 1.0]}

    def resumed(**changes: Any) -> Any:
        saved = seal(good | changes, kind=BanditStream._kind(), version=1, learner=learner, simulated=True)
        return learner.resume(saved, noise=SimulationNoise(1))

    assert resumed().predict() == 1
    bad: list[dict[str, Any]] = [{"turn": [0, 1], "sums": [0, 0]}, {"turn": []}, {"turn": [2]}, {"sums": [-1]}]
    bad += [{"sums": []}, {"first": 1}, {"round": 5}, {"round": 1}, {"estimates": [0.0]}, {"sums": [0.5]}]
    for changes in bad:
        with pytest.raises(InvalidArgumentError, match="checkpoint"):
            resumed(**changes)
    assert evolve(learner, scale=2.0) != learner
