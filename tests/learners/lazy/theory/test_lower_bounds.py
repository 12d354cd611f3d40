"""Tests of lower bounds: the learners of the class, the adversary's gain, and the cost of one epoch."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from divergences import hockey_stick
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits import Claim, audit
from hockeystick.learners import LazyExperts
from hockeystick.learners.lazy import EpochAdversary, ParallelEpochLearner, Resamplings, Transcripts, resamplings
from hockeystick.learners.lazy.theory.lower_bounds import printed_regret_floor
from hockeystick.mechanisms.streams.tree_aggregation import TreeAggregation

FALSE_ALARM = 1e-6


# --- the class -------------------------------------------------------------------------------------------------------


def fresh_draws_pvalue(found: Resamplings, log_law: FloatArray) -> float:
    """An exact p-value of the hypothesis that every draw is fresh, from the stated law (rounds, experts) of its round.

    Under Condition 4.1, among the runs that draw for round t and played z before, the number of draws of each expert is
    binomial, whatever the runs did earlier. All these counts are tested together (Bonferroni); a draw that depends on
    the noise of the draw before it, as in tree-based learners, shows in the expert played before.
    """
    law = np.exp(log_law)
    experts = law.shape[1]
    drawn = found.times < found.rounds
    before = np.full_like(found.samples, experts)  # nothing was played before the first draw
    before[:, 1:] = found.samples[:, :-1]
    cell = (found.times[drawn] * (experts + 1) + before[drawn]) * experts + found.samples[drawn]
    counts = np.bincount(cell, minlength=found.rounds * (experts + 1) * experts).reshape(-1, experts + 1, experts)
    totals = counts.sum(axis=2, keepdims=True)
    seen = np.broadcast_to(totals > 0, counts.shape)
    k, n = counts[seen], np.broadcast_to(totals, counts.shape)[seen]
    q = np.broadcast_to(law[:, None, :], counts.shape)[seen]
    tails = np.minimum(stats.binom.cdf(k, n, q), stats.binom.sf(k - 1, n, q))
    return float(min(1.0, 2.0 * counts.size * tails.min(initial=1.0)))  # the number of cells is fixed beforehand


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("variant", ["l2p", "dartboard"])
def test_lazy_learners_draw_independently_of_the_past(variant: str, batch: int) -> None:
    rounds = 11
    learner = LazyExperts(
        rounds=rounds, experts=3, batch=batch, learning_rate=0.3, fake_switch_probability=0.3, variant=variant
    )
    losses = np.random.default_rng(3).random((rounds, 3))
    transcripts = learner.simulate(losses, np.random.default_rng(4), 60_000)
    found = resamplings(transcripts, batch=batch, rounds=rounds)
    law = np.repeat(learner.chain(losses).log_weights, batch, axis=0)[:rounds]
    assert fresh_draws_pvalue(found, law) > FALSE_ALARM
    np.testing.assert_array_equal(found.actions(), np.repeat(transcripts.actions, batch, axis=1)[:, :rounds])
    # Judged by a law that lags one batch behind, they are not.
    stale = np.vstack([law[:batch], law[:-batch]])
    assert fresh_draws_pvalue(found, stale) < FALSE_ALARM


def test_the_epoch_learner_draws_independently_of_the_past() -> None:
    learner = ParallelEpochLearner(rounds=17, experts=3, epoch=4, epsilon=0.8)
    losses = np.random.default_rng(5).random((17, 3))
    found = learner.simulate(losses, np.random.default_rng(6), 50_000)
    assert fresh_draws_pvalue(found, learner.log_law(losses)) > FALSE_ALARM
    assert fresh_draws_pvalue(found, np.full((17, 3), -math.log(3))) < FALSE_ALARM
    np.testing.assert_array_equal(found.times[0], [0, 2, 4, 6, 8, 10, 12, 14])


def test_tree_learners_do_not_draw_independently_of_the_past() -> None:
    """The leader of noisy prefix sums has the right law in every round, and leans on the rounds before."""
    rounds = 8
    noisy = TreeAggregation(rounds, 1.0, estimate="plain").simulate(
        np.zeros((rounds, 2)), np.random.default_rng(7), 20_000
    )
    leaders = noisy.argmin(axis=2)
    times = np.broadcast_to(np.arange(rounds), leaders.shape)
    fair = np.full((rounds, 2), -math.log(2))
    first_only = Resamplings(rounds, times[:, 2:3], leaders[:, 2:3])
    assert fresh_draws_pvalue(first_only, fair) > FALSE_ALARM
    assert fresh_draws_pvalue(Resamplings(rounds, times, leaders), fair) < FALSE_ALARM


def test_resamplings_are_read_off_the_transcript() -> None:
    seen = Transcripts(
        np.array([[2, 2, 1], [0, 0, 0]]), np.array([[False, False, True], [False, True, True]]), None, None
    )
    found = resamplings(seen, batch=2, rounds=5)
    np.testing.assert_array_equal(found.times, [[0, 4, 5], [0, 2, 4]])  # an expert drawn again counts as a draw
    np.testing.assert_array_equal(found.samples, [[2, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(found.actions(), [[2, 2, 2, 2, 1], [0] * 5])
    with pytest.raises(InvalidArgumentError, match="transcripts"):
        resamplings(seen, batch=2, rounds=7)


# --- the epoch learner -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("epochs", [1, 7, 10**6])
def test_plan_is_one_draw_per_person(epsilon: float, epochs: int) -> None:
    learner = ParallelEpochLearner(rounds=5 * epochs, experts=2, epoch=5, epsilon=epsilon)
    graph = learner.graph()
    assert len(graph.nodes) == 2
    event = graph.guarantee().event
    assert 0.9 * epsilon**2 <= event.zcdp_rho() <= epsilon**2 * (1 + 1e-12)
    assert event.pure_epsilon() == pytest.approx(2 * math.sqrt(2) * epsilon)


@pytest.mark.statistical
@settings(max_examples=25)
@given(st.integers(2, 5), st.integers(2, 9), st.floats(0.01, 1.0), st.integers(0, 10**6))
def test_exact_loss_is_within_the_claim(experts: int, epoch: int, epsilon: float, seed: int) -> None:
    """All draws of the run enumerated: only one epoch's law differs, and its hockey-stick is below the event's."""
    rng = np.random.default_rng(seed)
    rounds = 2 * epoch + 1
    learner = ParallelEpochLearner(rounds=rounds, experts=experts, epoch=epoch, epsilon=epsilon)
    first = rng.integers(0, 2, (rounds, experts)).astype(float)
    second = first.copy()
    changed = int(rng.integers(0, rounds))
    second[changed] = 1.0 - first[changed]
    laws = [np.exp(learner.log_law(stream)[[epoch - 1, 2 * epoch - 1]]) for stream in (first, second)]
    joint = [np.outer(law[0], law[1]).ravel() for law in laws]
    event = learner.graph().guarantee().event
    for at in (0.0, 0.3 * epsilon, epsilon, 2 * epsilon):
        exact = max(hockey_stick(p, q, at) for p, q in (joint, joint[::-1]))
        assert exact <= accounting.delta(event, at).upper + 1e-12


def test_draws_follow_their_law() -> None:
    learner = ParallelEpochLearner(rounds=9, experts=3, epoch=4, epsilon=0.5)
    losses = np.random.default_rng(8).random((9, 3))
    found = learner.simulate(losses, np.random.default_rng(9), 60_000)
    law = np.exp(learner.log_law(losses))
    played = found.actions()
    for t in range(9):
        counts = np.bincount(played[:, t], minlength=3)
        assert stats.chisquare(counts, law[t] * len(played)).pvalue > FALSE_ALARM
    np.testing.assert_allclose(law[2], law[3])
    weights = np.exp(-math.sqrt(2) * 0.5 * losses[:2].sum(axis=0))  # the watched half alone
    np.testing.assert_allclose(law[3], weights / weights.sum())
    np.testing.assert_allclose(law[8], law[7])  # what is left over keeps the last draw


def _target(learner: ParallelEpochLearner, rate: float, history: bool) -> tuple[object, tuple[FloatArray, FloatArray]]:
    """The log-likelihood ratio of a learner whose draws use ``rate``, and all earlier epochs where ``history``."""
    neighbours = learner.worst_case_neighbours()

    def laws(stream: FloatArray) -> FloatArray:
        whole = stream[: learner.epochs * learner.epoch].reshape(learner.epochs, learner.epoch, -1)
        scores = -rate * whole[:, : learner.watched].sum(axis=1)
        scores = np.cumsum(scores, axis=0) if history else scores
        return np.asarray(np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)))

    ratios = np.log(laws(neighbours[0])) - np.log(laws(neighbours[1]))

    def run(stream: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
        total = np.zeros(runs)
        for weights, ratio in zip(laws(stream), ratios, strict=True):
            total += ratio[rng.choice(len(weights), size=runs, p=weights)]
        return total

    return run, neighbours


@pytest.mark.parametrize(
    ("factor", "history", "caught"),
    [(1.0, False, False), (2.0, False, True), (1.0, True, True)],
    ids=["correct", "sensitivity halved", "reads all epochs"],
)
def test_audit_refutes_the_mutants(factor: float, history: bool, caught: bool) -> None:
    learner = ParallelEpochLearner(rounds=60, experts=4, epoch=5, epsilon=0.25)
    target, neighbours = _target(learner, factor * learner.learning_rate, history)
    verdict = audit(
        target,
        claim=Claim.curve(learner.graph().guarantee(), 1e-6),
        neighbours=neighbours,
        samples=60_000,
        rng=11,
        confidence=1 - FALSE_ALARM,
    )
    assert verdict.refuted == caught


def test_likelihood_ratio_is_one_on_average() -> None:
    learner = ParallelEpochLearner(rounds=12, experts=4, epoch=6, epsilon=0.7)
    first, second = learner.worst_case_neighbours()
    seen = learner.simulate(second, np.random.default_rng(12), 50_000)
    ratio = np.exp(learner.log_likelihood_ratio(seen, first, second))
    assert ratio.std() > 0.1
    assert abs(ratio.mean() - 1.0) <= 6 * ratio.std() / math.sqrt(len(ratio))


# --- regret on the adversary -----------------------------------------------------------------------------------------


def test_adversary_repeats_fair_coins() -> None:
    adversary = EpochAdversary(rounds=20_000, experts=3, epsilon=0.02)
    assert (adversary.epochs, adversary.epoch) == (2947, 6)
    stream = adversary.losses(np.random.default_rng(13))
    whole = stream[: 2947 * 6].reshape(2947, 6, 3)
    assert (whole == whole[:, :1]).all() and not stream[2947 * 6 :].any()
    assert stats.binomtest(int(whole[:, 0].sum()), 3 * 2947, 0.5).pvalue > FALSE_ALARM


@pytest.mark.parametrize("experts", [2, 5])
def test_best_expert_by_enumeration(experts: int) -> None:
    adversary = EpochAdversary(rounds=40, experts=experts, epsilon=0.25)
    pmf = stats.binom.pmf(np.arange(adversary.epochs + 1), adversary.epochs, 0.5)
    tails = np.append(np.cumsum(pmf[::-1])[::-1], 0.0) ** experts
    least = float(np.arange(adversary.epochs + 1) @ (tails[:-1] - tails[1:]))
    assert adversary.expected_floor() == pytest.approx(adversary.epoch * least, rel=1e-12)


def test_expected_regret_agrees_with_streams_and_runs() -> None:
    adversary = EpochAdversary(rounds=2000, experts=3, epsilon=0.05)
    learner = ParallelEpochLearner(rounds=2000, experts=3, epoch=adversary.epoch, epsilon=0.05)
    rng = np.random.default_rng(14)
    seen = np.array([learner.expected_regret(adversary.losses(rng)) for _ in range(400)])
    assert abs(seen.mean() - learner.expected_regret_on(adversary)) <= 6 * seen.std() / math.sqrt(len(seen))
    stream = adversary.losses(rng)
    actions = learner.simulate(stream, rng, 300).actions()
    lost = stream[np.arange(2000), actions].sum(axis=1) - stream.sum(axis=0).min()
    assert abs(lost.mean() - learner.expected_regret(stream)) <= 6 * lost.std() / math.sqrt(len(lost))
    assert learner.run(stream, rng).shape == (2000,)


@pytest.mark.parametrize(("rounds", "regret"), [(10**8, -7.74e4), (10**9, -4.13e5)])
def test_negative_regret_inside_the_class(rounds: int, regret: float) -> None:
    """eps^2-zCDP, fresh draws, the printed conditions met: and yet below any positive floor."""
    epsilon = 1e-3
    adversary = EpochAdversary(rounds=rounds, experts=2, epsilon=epsilon)
    learner = ParallelEpochLearner(rounds=rounds, experts=2, epoch=adversary.epoch, epsilon=epsilon)
    printed = printed_regret_floor(rounds=rounds, experts=2, epsilon=epsilon)
    assert all(condition.holds for condition in printed.conditions)
    assert learner.draw.event().zcdp_rho() <= epsilon**2  # a person meets one draw, see the plan
    found = learner.expected_regret_on(adversary)
    assert found == pytest.approx(regret, rel=0.01)
    assert found < -printed.value < 0


# --- the price of one epoch ------------------------------------------------------------------------------------------


def repeated_loss_law(copies: int, epsilon: float, delta: float = 0.0) -> FloatArray:
    """P(the best private rule for two experts plays expert 0 | expert 0 lost in k of T copies), for k = 0 .. T.

    Losses are (c, 1 - c) in every copy. The rule is (ε, δ)-DP under replacement of one copy and symmetric in the
    experts. Each step away from the middle, where it has 1/2, loses as much probability as privacy allows. For odd T
    the middle is between two values of k, which mirror each other.
    """
    steps = [0.5] if copies % 2 == 0 else [(1.0 - delta) / (1.0 + math.exp(epsilon))]
    while len(steps) < (copies + 2) // 2:
        steps.append(max(0.0, (steps[-1] - delta) * math.exp(-epsilon)))
    below = np.array(steps)
    above = 1.0 - below[::-1]
    return np.concatenate([above[:-1] if copies % 2 == 0 else above, below])


def repeated_loss_floor(copies: int, epsilon: float, delta: float = 0.0) -> float:
    """The sharp lower bound on the expected loss of T plays, given T private copies of one loss of fair coins.

    For each play, going from T copies of a loss l to T copies of 1 - l in T steps can move the probability of an expert
    with l = 1 only as far as the T-fold trade-off curve of (ε, δ)-DP allows (Dong, Roth & Su 2022, Thm 2.14), and the
    two ends are equally likely. For δ = 0 it is T e^(-T ε/2) / 2 (even T) or T e^(-(T-1) ε/2) / (1 + e^ε) (odd T).
    """
    return copies * float(repeated_loss_law(copies, epsilon, delta)[-1])


def _best_by_programme(copies: int, epsilon: float, delta: float) -> float:
    """The least chance of playing the losing one of two experts, over all rules on {0,1}^copies, by linear programming.

    The rule plays expert 0 with probability x[c] where its losses are c; an (epsilon, delta) step for every neighbour.
    """
    cells = list(itertools.product((0, 1), repeat=copies))
    index = {cell: i for i, cell in enumerate(cells)}
    rows, limits = [], []
    for cell in cells:
        for j in range(copies):
            other = cell[:j] + (1 - cell[j],) + cell[j + 1 :]
            row = np.zeros(len(cells))
            row[index[cell]], row[index[other]] = 1.0, -math.exp(epsilon)
            rows += [row, -row]
            # of the other expert: (1 - x) <= e^eps (1 - x') + delta
            limits += [delta, delta + math.exp(epsilon) - 1.0]
    loss = np.zeros(len(cells))
    loss[index[(1,) * copies]], loss[index[(0,) * copies]] = 0.5, -0.5
    found = optimize.linprog(loss, A_ub=np.array(rows), b_ub=np.array(limits), bounds=(0, 1))
    return float(found.fun) + 0.5


@pytest.mark.parametrize("copies", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 0.0), (0.5, 0.0), (1.0, 0.01), (0.2, 0.05), (0.0, 0.1), (3.0, 0.3)]
)
def test_floor_is_sharp(copies: int, epsilon: float, delta: float) -> None:
    floor = repeated_loss_floor(copies, epsilon, delta) / copies
    assert floor == pytest.approx(_best_by_programme(copies, epsilon, delta), abs=1e-9)


@given(st.integers(1, 200), st.floats(0.0, 3.0), st.floats(0.0, 0.5))
def test_attaining_law_is_private(copies: int, epsilon: float, delta: float) -> None:
    law = repeated_loss_law(copies, epsilon, delta)
    assert law.shape == (copies + 1,) and (law >= 0).all() and (law <= 1).all()
    np.testing.assert_allclose(law, 1.0 - law[::-1], atol=1e-15)
    for p in (law, 1.0 - law):
        for before, after in ((p[:-1], p[1:]), (p[1:], p[:-1])):
            assert (before <= math.exp(epsilon) * after + delta + 1e-12).all()


@given(st.integers(1, 60), st.floats(0.0, 1.0), st.floats(0.0, 0.5), st.integers(2, 50))
def test_printed_and_coarse_floors_are_below_the_sharp_one(
    copies: int, epsilon: float, delta: float, experts: int
) -> None:
    sharp = repeated_loss_floor(copies, epsilon, delta)
    step = delta * (copies if epsilon == 0 else math.expm1(copies * epsilon) / math.expm1(epsilon))
    assert copies * (1.0 - step) / (1.0 + math.exp(copies * epsilon)) <= sharp + 1e-9
    printed = copies * (0.5 - copies * epsilon / 2.0) - copies**2 * experts * delta / 2.0  # Asi et al. 2024, Lemma 4.4
    assert printed <= sharp + 1e-9


def test_coarse_floor_is_attained_for_one_copy_only() -> None:
    for epsilon in (0.1, 1.0):
        assert repeated_loss_floor(1, epsilon) == pytest.approx(1 / (1 + math.exp(epsilon)))
        for copies in range(2, 12):
            assert repeated_loss_floor(copies, epsilon) > copies / (1 + math.exp(copies * epsilon)) * (1 + 1e-4)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: EpochAdversary(rounds=100, experts=2, epsilon=0.5), "epsilon"),
        (lambda: EpochAdversary(rounds=100, experts=2, epsilon=0.001), "epsilon"),
        (lambda: EpochAdversary(rounds=100, experts=1, epsilon=0.1), "experts"),
        (lambda: ParallelEpochLearner(rounds=9, experts=2, epoch=1, epsilon=0.1), "epoch"),
        (lambda: ParallelEpochLearner(rounds=9, experts=2, epoch=10, epsilon=0.1), "epoch"),
        (lambda: ParallelEpochLearner(rounds=9, experts=2, epoch=3, epsilon=math.nan), "epsilon"),
        (lambda: ParallelEpochLearner(rounds=9, experts=2, epoch=3, epsilon=1).log_law(np.full((9, 2), 2.0)), "losses"),
        (lambda: printed_regret_floor(rounds=10, experts=2, epsilon=0.0), "epsilon"),
    ],
)
def test_bad_arguments_are_refused(call, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        call()
