"""Tests of lazy experts with normalised ratios: exact laws, and the necessary cost of a person at every boundary."""

from __future__ import annotations

import math

import numpy as np
import pytest
from attrs import evolve
from divergences import larger_hockey_stick
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick import accounting
from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    BoundedRange,
    InvalidArgumentError,
    LazySwitchDecision,
    UnsupportedEventError,
    VisibleMixture,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import LazyExperts, MultiplicativeWeights, NormalisedLazyExperts
from hockeystick.learners.experts import batch_sums
from hockeystick.learners.lazy import Transcripts
from hockeystick.learners.lazy.comparators.normalised_lazy import _decide_and_draw
from hockeystick.learners.lazy.walk.plan import LazyPlan, largest_redraw


def _learner(
    n: int, batch: int, rate: float, p: float, normaliser: float | None = None, experts: int = 2
) -> NormalisedLazyExperts:
    return NormalisedLazyExperts(
        rounds=n * batch,
        experts=experts,
        batch=batch,
        learning_rate=rate,
        fake_switch_probability=p,
        normaliser=normaliser,
    )


def _transcripts(learner: NormalisedLazyExperts, *streams: FloatArray) -> tuple[Transcripts, list[FloatArray]]:
    """All transcripts, and their probabilities on each stream, by brute force."""
    weights = [learner.log_weights(stream) for stream in streams]
    d = learner.experts
    x, moved = np.arange(d)[:, None], np.zeros((d, 1), dtype=bool)
    masses = [np.exp(one[0]) for one in weights]
    for s in range(1, learner.batches):
        keeps = [np.exp(learner.log_keep(one, s))[x[:, -1]] for one in weights]
        parts = [(x[:, -1], False, [m * k for m, k in zip(masses, keeps, strict=True)])]
        for new in range(d):
            chances = [m * (1 - k) * math.exp(one[s, new]) for m, k, one in zip(masses, keeps, weights, strict=True)]
            parts.append((np.full(len(x), new), True, chances))
        x = np.concatenate([np.column_stack([x, last]) for last, _, _ in parts])
        moved = np.concatenate([np.column_stack([moved, np.full(len(moved), bit)]) for _, bit, _ in parts])
        masses = [np.concatenate([part[2][i] for part in parts]) for i in range(len(weights))]
    return Transcripts(x, moved), masses


def _charged_once(learner: NormalisedLazyExperts) -> AccountantGraph:
    """The mutant plan: a person is read by the decision after their own batch, and by no other."""
    lowest = -(learner.log_normaliser + learner.batch * learner.learning_rate)
    return LazyPlan(
        batches=learner.batches,
        switch=learner.switch.event(),
        draw=learner.draw.event(),
        redraw=largest_redraw(learner.fake_switch_probability, lowest),
    ).graph()


def _shifted(masses: FloatArray, cells: int) -> FloatArray:
    """Masses moved up the grid; what leaves it is given up, which makes any event less likely."""
    found = np.zeros_like(masses)
    if abs(cells) < len(masses):
        found[max(0, cells) : len(masses) + min(0, cells)] = masses[max(0, -cells) : len(masses) - max(0, cells)]
    return found


def _lower_epsilon(learner: NormalisedLazyExperts, first: FloatArray, second: FloatArray, delta: float) -> float:
    """A lower bound on the exact epsilon of two experts: losses are rounded down to a grid, boundary by boundary."""
    step, half = 1e-3, 8000
    weights = learner.log_weights(first), learner.log_weights(second)
    table = np.zeros((2, 2 * half + 1))
    table[:, half] = np.exp(weights[0][0])
    for s in range(1, learner.batches):
        keeps = [learner.log_keep(one, s) for one in weights]
        moved = [np.log(-np.expm1(keep)) for keep in keeps]
        drawn = weights[0][s] - weights[1][s]
        new = np.zeros_like(table)
        for x in range(2):
            stay = math.floor((keeps[0][x] - keeps[1][x]) / step)
            new[x] += math.exp(keeps[0][x]) * _shifted(table[x], stay)
            for z in range(2):
                go = math.floor((moved[0][x] - moved[1][x] + drawn[z]) / step)
                new[z] += math.exp(moved[0][x] + weights[0][s, z]) * _shifted(table[x], go)
        table = new
    losses, mass = step * np.arange(-half, half + 1), table.sum(axis=0)
    low, high = 0.0, float(losses[-1])
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        above = losses > middle
        low, high = (middle, high) if mass[above] @ -np.expm1(middle - losses[above]) > delta else (low, middle)
    return low


# --- law -------------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@given(st.integers(2, 5), st.integers(1, 4), st.sampled_from((1.0, 2.5)), st.integers(0, 10**6))
def test_actions_follow_the_weights_where_nothing_is_clipped(d: int, batch: int, slack: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    learner = _learner(6, batch, 0.3, 0.1, slack * batch * 0.3, d)
    losses = rng.integers(0, 2, (learner.rounds, d)).astype(float)
    law = np.exp(learner.log_weights(losses))
    assert np.abs(learner.marginals(losses) - law).max() < 1e-12
    expected = float(np.sum(law * batch_sums(losses, batch))) - losses.sum(axis=0).min()
    assert learner.expected_regret(losses) == pytest.approx(expected, abs=1e-9)
    assert expected <= learner.regret_bound()


def test_clipped_coins_leave_the_weights_and_have_an_exact_law_too() -> None:
    learner = _learner(5, 1, 1.0, 0.05, 0.0)
    losses = np.tile([[1.0, 0.0]], (5, 1))
    transcripts, (masses,) = _transcripts(learner, losses)
    exact = learner.marginals(losses)
    for s in range(5):
        assert exact[s] == pytest.approx(np.bincount(transcripts.actions[:, s], masses), abs=1e-12)
    assert np.abs(exact - np.exp(learner.log_weights(losses))).max() > 0.05
    with pytest.raises(InvalidArgumentError, match="normaliser"):
        learner.regret_bound()


def test_simulation_follows_the_exact_law() -> None:
    """Frequencies within 5.6 standard deviations: 80 comparisons, false alarm below 2e-6; likewise the redraws."""
    learner = _learner(40, 2, 0.2, 0.1)
    losses = np.random.default_rng(1).random((80, 2))
    runs = 40_000
    found = learner.simulate(losses, np.random.default_rng(2), runs)
    chance = learner.marginals(losses)[:, 0]
    gap = np.abs((found.actions == 0).mean(axis=0) - chance)
    assert np.all(gap <= 5.6 * np.sqrt(chance * (1 - chance) / runs))
    # Given nothing else, a redraw has the same chance at every boundary: 1 - (1 - p)/C.
    redraw = 1 - 0.9 * math.exp(-0.4)
    assert np.all(np.abs(found.switched[:, 1:].mean(axis=0) - redraw) <= 5.6 * math.sqrt(redraw / runs))
    assert not found.switched[:, 0].any() and found.shadows is None


def test_a_run_is_consistent_with_its_transcript() -> None:
    learner = _learner(5, 3, 0.2, 0.1)
    losses = np.random.default_rng(3).random((15, 2))
    run = learner.run(losses, np.random.default_rng(4))
    assert run.actions.tolist() == np.repeat(run.transcript.actions[0], 3).tolist()
    assert run.loss == pytest.approx(losses[np.arange(15), run.actions].sum())
    assert run.regret == pytest.approx(run.loss - losses.sum(axis=0).min())
    assert learner.regret_bound() > MultiplicativeWeights(rounds=15, experts=2).regret_bound()


# --- what tells it apart from the lazy transform ---------------------------------------------------------------------


def test_coins_of_later_batches_remember_a_person() -> None:
    """Equal (x, y) have bit-identical coins in both worlds with a shadow, two boundaries on; here they do not."""
    first, second = _learner(6, 2, 0.1, 0.1).worst_case_neighbours()
    shadowed = LazyExperts(rounds=12, experts=2, batch=2, learning_rate=0.1, fake_switch_probability=0.1)
    chains = [shadowed.chain(stream) for stream in (first, second)]
    normalised = _learner(6, 2, 0.1, 0.1)
    weights = [normalised.log_weights(stream) for stream in (first, second)]
    x, y = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    for s in range(2, 6):
        assert np.array_equal(chains[0].log_keep(s, x, y), chains[1].log_keep(s, x, y))
        gap = np.abs(normalised.log_keep(weights[0], s) - normalised.log_keep(weights[1], s)).max()
        assert 1e-4 < gap <= normalised.later_change


@pytest.mark.parametrize(("rate", "batch"), [(0.02, 10), (0.1, 1), (0.5, 4), (1.0, 6), (3.0, 50)])
def test_later_change_is_the_largest(rate: float, batch: int) -> None:
    """Random measures, losses and batches never move a later coin by more, and an extreme case attains it."""
    bound = _learner(3, batch, rate, 0.1).later_change
    assert bound <= min(2 * rate, batch * rate)
    rng = np.random.default_rng(5)

    def change(log_weights: FloatArray, loss: FloatArray, other: FloatArray, later: FloatArray) -> FloatArray:
        shrink = np.exp(-rate * batch * later)
        laws = [np.exp(log_weights - rate * one) for one in (loss, other)]
        return np.asarray(np.abs(np.log(np.divide(*((v * shrink).sum(axis=1) / v.sum(axis=1) for v in laws)))))

    for shape in ((4000, 2), (4000, 5)):
        weights = rng.normal(size=shape) * (1 + rate * batch)
        smooth = change(weights, rng.random(shape), rng.random(shape), rng.random(shape))
        binary = change(weights, *(rng.integers(0, 2, shape).astype(float) for _ in range(3)))
        assert max(smooth.max(), binary.max()) <= bound
    one = np.array([[1.0, 0.0]])
    balanced = np.array([[0.5 * rate * batch, 0.0]])  # both worlds' weights are one rate away from the worst odds
    assert change(balanced, one, 1.0 - one, one)[0] == pytest.approx(bound, rel=1e-9)


# --- certificates ----------------------------------------------------------------------------------------------------


def _exceeds(learner: NormalisedLazyExperts, first: FloatArray, second: FloatArray) -> float:
    _, (p, q) = _transcripts(learner, first, second)
    guarantee, unit = learner.graph().guarantee(), 2 * learner.learning_rate
    return max(
        float(larger_hockey_stick(p, q, e)) / max(1e-300, guarantee.delta(e).upper) for e in (0.0, 0.5 * unit, 2 * unit)
    )


CASES = st.tuples(
    st.integers(2, 5),
    st.integers(1, 6),
    st.sampled_from((0.02, 0.1, 0.4)),
    st.sampled_from((0.02, 0.1, 0.5)),
    st.sampled_from((None, 0.0, 0.7, 2.0)),
    st.integers(0, 10**6),
)


@pytest.mark.statistical
@pytest.mark.parametrize("examples", [5, pytest.param(25, marks=pytest.mark.deep)])
def test_no_certificate_below_the_truth(examples: int) -> None:
    settings(max_examples=examples)(given(CASES)(check_certificate))()


def check_certificate(case: tuple[int, int, float, float, float | None, int]) -> None:
    n, batch, rate, p, slack, seed = case
    rng = np.random.default_rng(seed)
    d = 3 if n < 4 and seed % 2 else 2
    learner = _learner(n, batch, rate, p, None if slack is None else slack * batch * rate, d)
    first, second = learner.worst_case_neighbours()
    if seed % 3:
        first = rng.integers(0, 2, first.shape).astype(float)
        second = first.copy()
        second[rng.integers(0, n) * batch] = rng.integers(0, 2, d)
    assert _exceeds(learner, first, second) <= 1.0 + 1e-9


@pytest.mark.statistical
def test_no_certificate_below_the_truth_in_one_setting() -> None:
    learner = _learner(4, 3, 0.2, 0.1)
    assert 0.1 < _exceeds(learner, *learner.worst_case_neighbours()) <= 1.0


@pytest.mark.statistical
def test_a_decision_charged_once_falls_below_the_truth() -> None:
    """Rare fake switches, and a normaliser at which the good expert is nearly always kept: later coins reveal most."""
    learner = _learner(150, 40, 0.02, 0.001, 0.477)
    first, second = learner.worst_case_neighbours()
    exact = _lower_epsilon(learner, second, first, 0.1)
    assert exact > 0.9
    assert _charged_once(learner).guarantee().epsilon(0.1).upper < 0.1 * exact
    assert learner.graph().guarantee().epsilon(0.1).upper > exact


def _coin_and_draw(keep: float, other: float, width: float, epsilon: float) -> float:
    """Exact delta of a coin with chances k, k' of keeping, and a draw of bounded range where it says redraw."""
    law, odd = (np.array([1.0, math.exp(ratio)]) / (1 + math.exp(ratio)) for ratio in (width / 2, -width / 2))
    return max(
        float(larger_hockey_stick(np.append((1 - k0) * one, k0), np.append((1 - k1) * two, k1), epsilon))
        for k0, k1 in ((keep, other), (other, keep))
        for one, two in ((law, odd), (odd, law))
    )


@pytest.mark.parametrize(("keep", "other"), [(0.95, 0.93), (0.95, 0.6), (0.6, 0.5), (0.3, 0.02)])
@pytest.mark.every(2)
def test_one_boundary_is_covered(keep: float, other: float) -> None:
    event = _decide_and_draw(math.log(keep), math.log(other), BoundedRange(0.3))
    for epsilon in (0.0, 0.05, 0.2, 0.5):
        assert _coin_and_draw(keep, other, 0.3, epsilon) <= accounting.delta(event, epsilon).upper * (1 + 1e-9)


def test_a_visible_mixture_behind_a_coin_that_is_spent_is_too_little() -> None:
    """A coin in a person's favour causes a draw, which reveals more: the two losses are not independent."""
    keep, other, width = 0.95, 0.95 * math.exp(-0.1), 0.2
    draw = BoundedRange(width)
    mixed = accounting.compose(LazySwitchDecision(keep, 0.1), VisibleMixture(1 - other, draw))
    whole = _decide_and_draw(math.log(keep), math.log(other), draw)
    exact = _coin_and_draw(keep, other, width, 1.05)
    assert accounting.delta(mixed, 1.05).upper < exact < accounting.delta(whole, 1.05).upper


def test_likelihood_ratios_of_all_transcripts() -> None:
    for normaliser in (None, 0.1):
        learner = _learner(5, 2, 0.3, 0.1, normaliser)
        first, second = learner.worst_case_neighbours()
        transcripts, (p, q) = _transcripts(learner, first, second)
        assert p.sum() == pytest.approx(1.0)
        ratio = learner.log_likelihood_ratio(transcripts, first, second)
        assert ratio == pytest.approx(np.log(p / q), abs=1e-10)


@pytest.mark.statistical
def test_the_plan_has_four_nodes_and_survives_json() -> None:
    learner = _learner(10**5, 10, 1e-3, 0.01)
    graph = learner.graph()
    assert graph.adjacency is Adjacency.REPLACE_ONE and graph.pinned
    assert [node.name for node in graph.nodes] == ["batches", "switch", "redraw", "later boundaries"]
    assert AccountantGraph.from_json(graph.to_json()) == graph
    with pytest.raises(UnsupportedEventError):
        graph.guarantee(group=2)
    one = evolve(learner, rounds=10)
    assert one.graph().guarantee().epsilon(0.0).upper == 0.0
    short = _learner(4, 2, 0.1, 0.2)
    paid = [short.epsilon_for(t, 0.0) for t in (1, 2, 7)]
    assert paid[0] > paid[1] > paid[2] == 0.0


@pytest.mark.statistical
@pytest.mark.parametrize("rate", [1e-9, 100.0])
def test_extreme_rates_have_finite_or_infinite_costs_but_no_errors(rate: float) -> None:
    for p in (0.0, 1e-12, 0.5):
        learner = _learner(3, 4, rate, p)
        pure = learner.graph().guarantee().epsilon(0.0).upper
        assert pure > 0.0 and math.isinf(pure) == (p == 0.0)
    assert 0.0 < _learner(3, 4, rate, 0.1).later_change <= 2 * rate


REFUSED: dict[str, tuple[object, ...]] = {
    "experts": (1,), "batch": (31,), "learning_rate": (0.0,), "fake_switch_probability": (1.0,),
    "normaliser": (-1.0, True), "clip": (1,),
}  # fmt: skip


def test_bad_arguments_are_refused() -> None:
    for name, values in REFUSED.items():
        for value in values:
            with pytest.raises(InvalidArgumentError, match=name):
                evolve(_learner(10, 3, 0.1, 0.1), **{name: value})
    learner = _learner(4, 1, 0.1, 0.1)
    with pytest.raises(InvalidArgumentError, match="losses"):
        learner.simulate(np.full((4, 2), 2.0), np.random.default_rng(0), 1)
    assert evolve(learner, clip=True).log_weights(np.full((4, 2), 2.0)).shape == (4, 2)
    other = LazyExperts(rounds=4, experts=2, learning_rate=0.1, fake_switch_probability=0.1)
    zeros = np.zeros((4, 2))
    with pytest.raises(InvalidArgumentError, match="transcripts"):
        learner.log_likelihood_ratio(other.simulate(zeros, np.random.default_rng(0), 2), zeros, zeros)
