"""Tests of simulations of the federated stochastic learner: laws, the options of audits, and regret."""

import math
from collections.abc import Callable

import fed_stoch_cases as cases
import numpy as np
import pytest
from attrs import evolve
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.losses import ExpertLosses, LossFamily, SquaredDistances, SquaredProducts
from hockeystick.learners.federated.stochastic.phase import score_noise, summed_noise
from hockeystick.learners.federated.stochastic.privacy_plan import places
from hockeystick.mechanisms import NoisyMax

ALARM, FAMILIES, data = cases.ALARM, cases.FAMILIES, cases.data
learner: Callable[..., FedStoch] = cases.learner


# --- noise -----------------------------------------------------------------------------------------------------------


def test_noise_on_the_average_has_its_stated_scale():
    """Standard deviation sqrt(2)*mu of what a server adds to the average. n = 2e5; kurtosis 6 gives the sample variance
    a relative standard error of sqrt(5/n) = 0.5 %, and six of them are less than 1e-6; twice the noise is caught."""
    n, m, mu = 200_000, 7, 0.3
    rng = np.random.default_rng(2)
    for factor, proper in ((1.0, True), (2.0, False)):
        average = score_noise("laplace", factor * m * mu, rng, (n,)) / m
        assert (abs(average.var() / (2 * mu**2) - 1) < 6 * math.sqrt(5 / n)) == proper


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "gumbel", "exponential"])
def test_noise_in_one_is_the_sum_of_the_clients_noise(noise):
    """Kolmogorov-Smirnov of 4000 against 4000, alarm 1e-6; one client too many is caught."""
    rng = np.random.default_rng(3)
    singly = score_noise(noise, 2.0, rng, (6, 4000)).sum(axis=0)
    assert stats.ks_2samp(singly, summed_noise(noise, 2.0, rng, (4000,), 6)).pvalue > ALARM
    assert stats.ks_2samp(singly, summed_noise(noise, 2.0, rng, (4000,), 12)).pvalue < ALARM


@pytest.mark.parametrize("noise", ["laplace", "gumbel", "exponential"])
@pytest.mark.parametrize("where", ["client", "server"])
@pytest.mark.parametrize("uplinks", [True, False])
def test_the_winner_has_the_law_of_the_noisy_minimum(noise, where, uplinks):
    """One client, one release: chi-square against ``NoisyMax``'s exact law, the exponential mechanism's for Gumbel
    noise. 8000 runs, alarm 1e-6; half the noise is caught."""
    losses = np.array([[[0.1, 0.9, 0.3, 0.0], [0.5, 0.5, 0.5, 0.5]]])
    one = learner(m=1, rounds=2, epsilon=8.0, noise=noise, where=where)
    found = one.simulate(losses, np.random.default_rng(4), 8000, uplinks=uplinks)
    counts = np.bincount(found.winners[0][:, 0], minlength=4)
    for factor, proper in ((1.0, True), (0.5, False)):
        law = np.exp(NoisyMax(factor * 0.5, noise, minimum=True).log_probabilities(losses[0, 0]))
        statistic = stats.chisquare(counts, 8000 * law / law.sum()).statistic
        assert (statistic < stats.chi2.isf(ALARM, 3)) == proper


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["laplace", "gumbel"])
def test_a_trusted_server_adds_the_noise_of_the_average(noise):
    """Four clients: 8000 simulated and 600 seeded runs, chi-square each at half of 1e-6 against the noisy minimum of
    the *average* at scale mu; noise of scale mu on the sum, a quarter of it, is caught."""
    mu = 0.25
    one = learner(m=4, rounds=2, noise=noise, where="server")
    one = evolve(one, setting=evolve(one.setting, phases=(TreePhase(records=1, trees=0, batch=1, scales=[mu]),)))
    losses = np.random.default_rng(1).random((4, 2, 4))
    simulated = one.simulate(losses, np.random.default_rng(2), 8000).winners[0][:, 0]
    seeded = [one.run(losses, range(4), server_seed=i).broadcasts.winners[0][0] for i in range(600)]
    for found in (simulated, np.array(seeded)):
        counts = np.bincount(found, minlength=4)
        for scale, proper in ((mu, True), (mu / 4, False)):
            law = np.exp(NoisyMax(scale, noise, minimum=True).log_probabilities(losses[:, 0].mean(axis=0)))
            statistic = stats.chisquare(counts, len(found) * law / law.sum()).statistic
            assert (statistic < stats.chi2.isf(ALARM / 2, 3)) == proper


# --- simulations -----------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_simulations_have_the_law_of_runs():
    """Last winner of 3 clients with curved losses, 700 runs one by one against 6000 together: chi-square of the
    two-sample table, alarm 1e-6; simulations at a quarter of the noise are caught."""
    one = learner(SquaredProducts(), rounds=15, d=3, trees=1, epsilon=20.0)
    losses = data(one)
    singly = [one.run(losses, range(3 * i, 3 * i + 3)).broadcasts.winners[-1] for i in range(700)]
    counted = np.bincount([first * 3 + last for first, last in singly], minlength=9)
    sharp = evolve(one, setting=learner(one.family, rounds=15, d=3, trees=1, epsilon=80.0).setting)
    for other, proper in ((one, True), (sharp, False)):
        found = other.simulate(losses, np.random.default_rng(6), 6000).winners[-1]
        table = np.array([counted, np.bincount(found[:, 0] * 3 + found[:, 1], minlength=9)])
        assert (stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > ALARM) == proper


@pytest.mark.parametrize("name", ["experts", "distances"])
def test_pins_outcomes_and_uplinks(name):
    """Without noise: a loss of 1 among zeros is seen at its vertex's leaves, at its weight, and at no other."""
    one = learner(FAMILIES[name], rounds=31, trees=2, epsilon=1e100, m=2, low=-1.0, high=1.0)
    phase = one.setting.phases[3]
    assert phase is None or phase.trees == 1
    losses = np.zeros((2, 31, 4))
    losses[1, 9] = [1.0, 0.0, 0.0, 0.0]
    batch = phase.batch if phase else 0
    outcomes = {(p, leaf): 0 for p, leaf in ((2, 1), (3, 1), (4, 1), (4, 2))} | {(5, 1): 2, (5, 2): 1}
    for vertex, leaves in ((0, (0, 1)), (1, (1,)), (-1, ())):
        found = one.simulate(
            losses, np.random.default_rng(0), 20, pins={(1, 10): vertex}, outcomes=outcomes, uplinks=True
        )
        assert found.winners[3].tolist() == [[2, 1]] * 20
        assert found.points[:, 4] == pytest.approx(np.tile([0, 2 / 3, 1 / 3, 0], (20, 1)))
        assert found.uplinks is not None
        free = one.simulate(np.zeros((2, 31, 4)), np.random.default_rng(0), 1, outcomes=outcomes, uplinks=True)
        assert free.uplinks is not None
        moved = found.uplinks[3] - free.uplinks[3]
        weight = 1.0 if name == "experts" else -1.0
        expected = np.zeros((20, 2, 2, 4))
        for leaf in leaves if vertex == 0 or name != "experts" else ():
            # at a right child a squared distance's gradient moves as much at both points: nothing is seen
            expected[:, 1, leaf, 0] = weight / batch if vertex == 0 else 0.0
        assert moved == pytest.approx(expected, abs=1e-9)


def test_winners_of_a_pinned_record_have_their_exact_law():
    """One client, eight ties, gradients in [-1, 1] at the printed noise: the record's expert wins both leaves with
    log-ratio 0.989 (two noisy minima by quadrature), near the claim of 1. 40 000 runs; each count within six standard
    errors (2e-9 each); a record at the right child, which reads no linear loss, is caught."""
    phase = TreePhase(records=4, trees=1, batch=2, scales=[4.0])
    one = FedStoch(
        setting=StochSetting(clients=1, phases=(None, None, phase), low=-1.0), rounds=15, experts=8,
        family=ExpertLosses(low=-1.0),
    )  # fmt: skip
    pair = one.worst_case_neighbours()
    (place,) = np.argwhere((pair[0] != pair[1]).any(axis=(0, 2)))[0] + 1
    n, logs = 40_000, []
    for losses in pair:
        win = NoisyMax(4.0, "laplace", minimum=True).log_probabilities(losses[0, place - 1] / 2)[0]
        logs.append(2 * win)
        for vertex, proper in ((0, True), (1, False)):
            found = one.simulate(losses, np.random.default_rng(8), n, pins={(0, place): vertex})
            count = int((found.winners[2] == 0).all(axis=1).sum())
            p = math.exp(2 * win)
            assert (abs(count - n * p) < 6 * math.sqrt(n * p * (1 - p))) == proper
    assert logs[0] - logs[1] == pytest.approx(0.989, abs=5e-4)


@pytest.mark.parametrize(("name", "smoothness"), [("experts", 0.0), ("products", None), ("products", 0.01)])
def test_no_record_moves_a_message_by_more_than_is_charged(name, smoothness):
    """Losses far outside the declared range, at every vertex in turn: clipping keeps the sensitivity D of the plan."""
    family: LossFamily = ExpertLosses(low=-9.0, high=9.0) if name == "experts" else SquaredProducts(bound=9.0)
    phase = TreePhase(records=16, trees=2, batch=4, scales=[1e-90, 1e-90])
    one = FedStoch(
        setting=StochSetting(
            clients=1, phases=(None, None, None, None, phase), low=-0.5, high=0.5, smoothness=smoothness
        ),
        rounds=32, experts=4, family=family,
    )  # fmt: skip
    shifts = {(place.tree, place.depth): place.shift for place in places(one.setting, phase)}
    outcomes = {(6, leaf): leaf % 4 for leaf in range(1, 7)}
    rng = np.random.default_rng(3)
    largest: dict[tuple[int, int], float] = {}
    for number, vertex in enumerate(phase.vertices()):
        for _ in range(20):
            losses = np.tile(rng.uniform(-9, 9, 4), (1, 32, 1))
            sent = []
            for u in (rng.choice([-9.0, 9.0], 4), rng.choice([-9.0, 9.0], 4)):
                losses[0, 20] = u
                found = one.simulate(
                    losses, np.random.default_rng(0), 1, pins={(0, 21): number}, outcomes=outcomes, uplinks=True
                ).uplinks
                assert found is not None
                sent.append(found[4])
            moved = float(np.abs(sent[0] - sent[1]).max())
            at = (vertex.tree, vertex.depth)
            largest[at] = max(largest.get(at, 0.0), moved)
            assert moved <= shifts.get(at, 0.0) * (1 + 1e-9) + 1e-12
    assert all(largest[at] >= 0.5 * shift for at, shift in shifts.items())  # the bound is what the clips come to


def test_simulations_split_over_memory_are_whole(monkeypatch):
    one = learner(rounds=31)
    monkeypatch.setattr("hockeystick.learners.federated.stochastic.simulation._MOST_NUMBERS", 500)
    found = one.simulate(data(one), np.random.default_rng(0), 23, uplinks=True)
    assert found.points.shape == (23, 5, 4) and found.uplinks is not None
    assert [each.shape for each in found.uplinks] == [(23, 3, p.leaves(), 4) for p in one.setting.phases if p]
    assert found.points.sum(axis=-1) == pytest.approx(np.ones((23, 5)))


# --- utility ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "noise", "trees"),
    [("client", "laplace", 1), ("client", "gaussian", 2), ("server", "laplace", 1), ("server", "gumbel", 1),
     ("server", "exponential", 0), ("server", "gaussian", 1)],
)  # fmt: skip
@pytest.mark.every(5)
def test_regret_is_within_its_bound(where, noise, trees):
    """Bernoulli losses, one expert better. A mean of n regrets in [-T, T] that is above its expectation by more than
    2T*sqrt(ln(1e6)/(2n)) has probability 1e-6 at most (Hoeffding); always playing a bad expert is caught."""
    m, rounds, d, streams = 16, 127, 4, 150
    one = learner(m=m, rounds=rounds, d=d, trees=trees, epsilon=200.0, where=where, noise=noise)
    rng = np.random.default_rng(7)
    regrets = []
    for _ in range(streams):
        losses = (rng.random((m, rounds, d)) < [0.02, 0.98, 0.98, 0.98]).astype(float)
        regrets.append(float(one.regrets(one.simulate(losses, rng, 1).points, losses)[0]))
    allowed = one.regret_bound() + 2 * rounds * math.sqrt(math.log(1 / ALARM) / (2 * streams))
    assert np.mean(regrets) <= allowed
    wrong = np.tile(np.eye(d)[3], (1, rounds.bit_length(), 1))
    assert one.regrets(wrong, losses)[0] > allowed
    assert one.regret_bound(pseudo=True) < one.regret_bound()


def test_bound_of_one_tree_is_below_the_printed_form():
    """sum_p 2^(p-1) [2 sqrt(ln(2d)/(2bm)) + (2/m) lambda max(2 sqrt(2m ln 2d), 4 ln 2d)], evaluated by hand."""
    m, d = 16, 100
    one = learner(m=m, d=d, rounds=2**12 - 1, trees=1, epsilon=5.0)
    total = 1.0
    for p, phase in enumerate(one.setting.phases, start=2):
        assert phase is not None
        ln = math.log(2 * d)
        noise = 2 / m * phase.scales[0] * max(2 * math.sqrt(2 * m * ln), 4 * ln)
        total += 2 ** (p - 1) * min(1.0, 2 * math.sqrt(ln / (2 * phase.batch * m)) + noise)
    assert 0.5 * total < one.regret_bound(pseudo=True) <= total


@pytest.mark.statistical
@pytest.mark.parametrize("trees", [pytest.param(1, marks=pytest.mark.deep), 2])
def test_regret_on_curves_is_within_its_bound(trees):
    """Squared distances to points near one expert, 200 streams; the alarm is that of the test above, for a range of
    2*span*T. Always playing a bad expert is caught."""
    m, rounds, d, streams = 100, 255, 4, 200
    one = learner(SquaredDistances(least=0.0, most=1.0), m=m, rounds=rounds, d=d, trees=trees, epsilon=1000.0)
    rng = np.random.default_rng(8)
    regrets = []
    for _ in range(streams):
        losses = np.clip(np.eye(d)[0] + 0.2 * (rng.random((m, rounds, d)) - 0.5), 0.0, 1.0)
        regrets.append(float(one.regrets(one.simulate(losses, rng, 1).points, losses)[0]))
    room = 2 * one.setting.span * rounds * math.sqrt(math.log(1 / ALARM) / (2 * streams))
    assert np.mean(regrets) <= one.regret_bound() + room
    wrong = np.tile(np.eye(d)[3], (1, rounds.bit_length(), 1))
    assert one.regrets(wrong, losses)[0] > one.regret_bound(pseudo=True)


def test_the_bound_on_curves_by_hand():
    """One tree, d = 4: two leaves, of weights 1/3 and 2/3; the second adds the right child's proxy to the root's."""
    one = learner(SquaredDistances(), m=5, d=4, rounds=3, trees=1)
    phase = TreePhase(records=64, trees=1, batch=32, scales=(0.01,))
    setting = evolve(one.setting, phases=(None,) * 6 + (phase,))
    whole = FedStoch(setting=setting, rounds=255, experts=4, family=one.family)
    root, right = 2.0**2 / (4 * 160), min(2.0, 0.5 * 2.0) ** 2 / 80  # w = 2; the iterate may have gone 2 far
    ln = math.log(8)
    u = np.linspace(0, 1, 100_001)[1:-1]
    noise = 0.01 * 2 / 5 * ((ln - 5 * np.log1p(-(u**2))) / u).min()
    worse = [2 * math.sqrt(2 * proxy * ln) + noise for proxy in (root, root + right)]
    excess = worse[0] / 3 + 2 * worse[1] / 3 + 8 * 0.5 / 6 * (1 / 2 + 2 / 3)
    assert whole.regret_bound(pseudo=True) == pytest.approx(2 * 127 + 128 * min(2.0, excess), rel=1e-4)


def test_a_bound_without_a_proof_is_refused():
    with pytest.raises(InvalidArgumentError):
        learner(noise="gumbel").regret_bound()
    with pytest.raises(InvalidArgumentError):
        learner(SquaredDistances(), smoothness=0.25).regret_bound()


def test_sampled_plays_follow_the_points():
    """Counts of 3*2048 draws of one phase against its point: chi-square, alarm 1e-6; another point is caught."""
    one = learner(rounds=4095, trees=1)
    run = one.run(data(one), range(3))
    drawn = one.sampled(run.broadcasts, range(3))
    assert drawn.shape == (3, 4095)
    counts = np.bincount(drawn[:, 2047:].ravel(), minlength=4)
    point = run.broadcasts.play(4095)
    assert (counts[point == 0] == 0).all()
    statistic = stats.chisquare(counts[point > 0], counts.sum() * point[point > 0] / point.sum()).statistic
    assert statistic < stats.chi2.isf(ALARM, 3)
    assert stats.chisquare(counts, np.full(4, counts.sum() / 4)).statistic > stats.chi2.isf(ALARM, 3)
    assert (drawn == one.sampled(run.broadcasts, range(3))).all()
