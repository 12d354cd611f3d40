"""Tests that the fast single run equals the slow one, coin for coin, and of runs that stop after a number of draws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners import LazyExperts
from hockeystick.learners.experts import batch_sums, batches
from hockeystick.learners.experts.batches import Batches
from hockeystick.learners.lazy import exact_marginals
from hockeystick.learners.lazy.experts import lazy_run
from hockeystick.learners.lazy.experts.lazy_chain import substreams


def one_boundary_at_a_time(learner, losses, rng):
    """The algorithm as it is written, a step at a time, with the same coins."""
    real, fake, again, x_draw, y_draw = substreams(rng, 5)
    sums, left = batch_sums(losses, learner.batch), learner.draw_budget if learner.draw_budget is not None else math.inf

    def draw(rng, total):
        weights = np.cumsum(np.exp(-learner.learning_rate * (total - total.min())))
        at, _ = rng.random(2)  # the second one would decide on an expert from older weights
        return int(np.searchsorted(weights[:-1], at * weights[-1], side="right"))

    total = np.zeros(learner.experts)
    x, y = draw(x_draw, total), draw(y_draw, total) if learner.variant == "l2p" else None
    rows = [(x, False, y, False)]
    for s in range(1, len(sums)):
        last, total = sums[s - 1], total + sums[s - 1]
        ratio = -learner.learning_rate * (last[x] - (0.0 if y is None else last[y])) - learner.log_normaliser
        moves = real.random() >= math.exp(min(0.0, ratio))
        moves |= fake.random() < learner.fake_switch_probability
        refreshes = y is not None and again.random() < learner.refresh_probability
        moves = moves and left > 0
        left -= moves
        refreshes = refreshes and left > 0
        left -= refreshes
        if moves:
            x = draw(x_draw, total)
        if refreshes:
            y = draw(y_draw, total)
        rows.append((x, moves, y, refreshes))
    return rows


@pytest.fixture(scope="module")
def fresh():
    """Every draw from weights of its own time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy_run, "_STALE", 0.0)
        yield


@pytest.mark.statistical
@given(
    rounds=st.integers(1, 300),
    experts=st.integers(2, 6),
    batch=st.integers(1, 9),
    rate=st.sampled_from([0.01, 0.1, 1.0]),
    p=st.sampled_from([0.0, 0.02, 0.5]),
    shadow=st.sampled_from([None, 0.0, 0.3]),
    variant=st.sampled_from(["l2p", "dartboard"]),
    budget=st.none() | st.integers(0, 12),
    seed=st.integers(0, 10**6),
    few=st.sampled_from([1, 1 << 20]),
)
@settings(deadline=None, max_examples=80)
def test_run_is_the_algorithm_step_by_step(fresh, rounds, experts, batch, rate, p, shadow, variant, budget, seed, few):
    """With batches as they are and with their sums, whole and in blocks."""
    learner = LazyExperts(
        rounds=rounds,
        experts=experts,
        batch=min(batch, rounds),
        learning_rate=rate,
        fake_switch_probability=p,
        shadow_probability=shadow if variant == "l2p" else None,
        variant=variant,
        draw_budget=budget,
    )
    # Whole multiples of 1/8: sums are exact in either precision and in any order.
    losses = np.random.default_rng(seed).integers(0, 9, (rounds, experts)) / 8
    expected = one_boundary_at_a_time(learner, losses, np.random.default_rng(seed))
    cuts = np.sort(np.random.default_rng(seed).integers(0, rounds + 1, 3))
    for stream in (losses, losses.astype(np.float32), iter(np.split(losses, cuts))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batches, "_FEW_BYTES", few)
            run = learner.run(stream, np.random.default_rng(seed))
        found = run.transcript
        assert found.actions[0].tolist() == [row[0] for row in expected]
        assert found.switched[0].tolist() == [row[1] for row in expected]
        if found.shadows is not None and found.refreshed is not None:
            assert found.shadows[0].tolist() == [row[2] for row in expected]
            assert found.refreshed[0].tolist() == [row[3] for row in expected]
        assert run.actions.shape == (rounds,)
        assert run.loss == pytest.approx(losses[np.arange(rounds), run.actions].sum())
        assert run.best_expert_loss == pytest.approx(losses.sum(axis=0).min())
        assert run.best_expert == int(np.argmin(losses.sum(axis=0)))
        assert run.switches == sum(row[1] for row in expected)


@pytest.mark.statistical
@pytest.mark.parametrize("stale", [0.0, 1.0, 100.0])
def test_draws_from_older_weights_follow_the_present_ones(stale, monkeypatch):
    """Chi-square over 5 experts, 20000 draws after each of several batches; false alarm 1e-6 each."""
    monkeypatch.setattr(lazy_run, "_STALE", stale)
    learner = LazyExperts(rounds=40, experts=5, batch=2, learning_rate=0.15, fake_switch_probability=0.3)
    losses = np.random.default_rng(1).random((40, 5)) * np.linspace(0.1, 1.0, 5)
    walk = lazy_run._Walk(learner, *substreams(np.random.default_rng(2), 5))
    sums, rng, renewed = batch_sums(losses, 2), np.random.default_rng(3), set()
    for chunk in (
        Batches(sums[:7], sums[:7], 1),
        Batches(losses[14:16], sums[7:8], 1, 2),
        Batches(sums[8:19], sums[8:19], 1),
    ):
        walk.through(chunk)
        renewed.add(walk._taken)
        counts = np.bincount([walk._drawn(rng) for _ in range(20_000)], minlength=5)
        weights = np.exp(-0.15 * sums[: walk._batch].sum(axis=0))
        assert stats.chisquare(counts, 20_000 * weights / weights.sum()).pvalue > 1e-6
    assert (renewed == {0}) == (stale == 100.0)


def test_memory_does_not_hold_the_stream():
    """Ten million losses come and go; the result alone remains (one byte a round)."""

    def blocks():
        block = np.full((1000, 1000), 0.5, np.float32)
        for _ in range(10):
            yield block

    learner = LazyExperts(rounds=10_000, experts=1000, batch=10, learning_rate=0.001, fake_switch_probability=0.01)
    run = learner.run(blocks(), np.random.default_rng(1))
    assert run.loss == pytest.approx(5000.0) and run.regret == pytest.approx(0.0, abs=1e-6)


# --- a budget of draws -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["l2p", "dartboard"])
def test_stopped_runs_are_the_free_ones_until_the_budget_is_spent(variant):
    free = LazyExperts(rounds=60, experts=3, batch=2, learning_rate=0.3, fake_switch_probability=0.1, variant=variant)
    losses = np.random.default_rng(1).random((60, 3))
    runs = free.simulate(losses, np.random.default_rng(2), 500)
    for budget in (0, 1, 4, 1000):
        found = runs.stopped(budget)
        assert (found.draws <= budget).all()
        np.testing.assert_array_equal(found.draws, np.minimum(runs.draws, budget))
        same = runs.draws <= budget
        np.testing.assert_array_equal(found.actions[same], runs.actions[same])
        assert (found.actions[:, 1:] == found.actions[:, :-1])[~found.switched[:, 1:]].all()


def test_budget_is_charged_in_full_and_bounds_the_regret():
    def learner(budget):
        return LazyExperts(
            rounds=400, experts=4, batch=4, learning_rate=0.02, fake_switch_probability=0.05, draw_budget=budget
        )

    charges = {charge.node: charge.count for charge in learner(7).graph().guarantee().moves[0].charges}
    assert charges == {"switch": 1, "draws": 7}
    assert learner(0).graph().guarantee().epsilon(0.0).upper == 0.0
    most = 2 * (learner(None).batches - 1)
    assert learner(10**6).graph() == learner(most).graph()
    bounds = [learner(budget).regret_bound() for budget in (0, 5, 20, 60, most)]
    assert bounds[0] == 400 * (1 - 1 / 4) and bounds[1] == 400  # one uniform draw; a bound that says nothing
    assert bounds[1:] == sorted(bounds[1:], reverse=True)
    assert bounds[-1] == pytest.approx(learner(None).regret_bound())
    with pytest.raises(InvalidArgumentError, match="draw_budget"):
        learner(5).expected_regret(np.zeros((400, 4)))
    with pytest.raises(InvalidArgumentError, match="draw_budget"):
        learner(-1)


def test_budget_moves_the_law_no_farther_than_its_bound():
    """Measured over 20000 runs, with 6 standard errors to spare."""
    learner = LazyExperts(
        rounds=60, experts=2, batch=2, learning_rate=0.02, fake_switch_probability=0.05, draw_budget=9
    )
    losses = np.zeros((60, 2))
    losses[:, 0] = 1.0
    runs = learner.simulate(losses, np.random.default_rng(3), 20_000)
    free = LazyExperts(rounds=60, experts=2, batch=2, learning_rate=0.02, fake_switch_probability=0.05)
    more = np.mean(free.simulate(losses, np.random.default_rng(4), 20_000).draws[:, -1] > 9)
    bound = learner._chance_of_more(9)
    assert more - 6 * 0.5 / math.sqrt(20_000) <= bound <= 0.1
    exact = float(exact_marginals(learner.chain(losses))[-1, 0])
    assert abs(np.mean(runs.actions[:, -1] == 0) - exact) <= bound + 6 * 0.5 / math.sqrt(20_000)
