"""Tests of the shrinking dartboard with a budget of draws: its exact law, its exact privacy loss, and the effect of its
budget."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from divergences import larger_hockey_stick
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits import Claim, audit
from hockeystick.learners import LazyExperts, ShrinkingDartboard
from hockeystick.learners.lazy import Transcripts

FALSE_ALARM = 1e-6


def _paths(learner: ShrinkingDartboard, losses: FloatArray) -> Iterator[tuple[tuple[tuple[int, bool], ...], float]]:
    """All transcripts ((action, drawn), ...) with their probabilities, straight from the algorithm's description."""
    batches = np.add.reduceat(losses, np.arange(0, learner.rounds, learner.batch), axis=0)
    eta, p = learner.learning_rate, learner.fake_switch_probability
    budget = math.inf if learner.budget is None else learner.budget

    def weights(s: int) -> FloatArray:
        w = np.exp(-eta * batches[:s].sum(axis=0))
        return np.asarray(w / w.sum())

    def grow(path: tuple[tuple[int, bool], ...], mass: float) -> Iterator[tuple[tuple[tuple[int, bool], ...], float]]:
        s = len(path)
        if s == len(batches):
            yield path, mass
            return
        x, made = path[-1][0], sum(drawn for _, drawn in path)
        if made >= budget:
            yield from grow((*path, (x, False)), mass)
            return
        keep = (1 - p) * math.exp(-eta * batches[s - 1, x])
        yield from grow((*path, (x, False)), mass * keep)
        for z, q in enumerate(weights(s)):
            yield from grow((*path, (z, True)), mass * (1 - keep) * q)

    for x in range(learner.experts):
        yield from grow(((x, True),), 1.0 / learner.experts)


def _exact_delta(learner: ShrinkingDartboard, streams: tuple[FloatArray, FloatArray], epsilon: float) -> float:
    return float(larger_hockey_stick(*(dict(_paths(learner, stream)) for stream in streams), epsilon))


def _learner(budget: int | None, *, rounds: int = 6, batch: int = 1, rate: float = 0.4, p: float = 0.3, d: int = 2):
    return ShrinkingDartboard(
        rounds=rounds, experts=d, batch=batch, learning_rate=rate, fake_switch_probability=p, budget=budget
    )


# --- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rounds", "batch", "d"), [(6, 1, 2), (7, 2, 3)])
@pytest.mark.parametrize("budget", [1, 2, 3, 9, None])
def test_exact_law_by_enumeration(rounds: int, batch: int, d: int, budget: int | None) -> None:
    learner = _learner(budget, rounds=rounds, batch=batch, d=d)
    losses = np.random.default_rng(1).random((rounds, d))
    marginals, draws, total = np.zeros((learner.unlimited.batches, d)), 0.0, 0.0
    for path, mass in _paths(learner, losses):
        for s, (x, drawn) in enumerate(path):
            marginals[s, x] += mass
            draws += mass * drawn
        total += mass
    assert total == pytest.approx(1.0)
    np.testing.assert_allclose(learner.marginals(losses), marginals, atol=1e-12)
    assert learner.expected_draws(losses) == pytest.approx(draws)
    sums = np.add.reduceat(losses, np.arange(0, rounds, batch), axis=0)
    assert learner.expected_regret(losses) == pytest.approx((marginals * sums).sum() - losses.sum(axis=0).min())


def test_without_a_budget_it_is_the_lazy_dartboard() -> None:
    learner = _learner(None, rounds=40, batch=3, d=5)
    losses = np.random.default_rng(2).random((40, 5))
    np.testing.assert_allclose(
        learner.marginals(losses), np.exp(learner.unlimited.chain(losses).log_weights), atol=1e-12
    )
    assert learner.expected_regret(losses) == pytest.approx(learner.unlimited.expected_regret(losses))
    assert learner.graph() == learner.unlimited.graph()
    assert isinstance(learner.unlimited, LazyExperts) and learner.regret_bound() == learner.unlimited.regret_bound()


def test_plain_dartboard_switches_rarely_and_is_not_private() -> None:
    """Geulen, Voecking & Winkler 2010: at most eta*(loss of the learner) redraws are wished for, on average."""
    learner = ShrinkingDartboard(rounds=400, experts=6, learning_rate=0.05)
    losses = np.random.default_rng(3).random((400, 6))
    lost = float((learner.marginals(losses) * losses).sum())
    assert 1.0 < learner.expected_draws(losses) <= 1.0 + 0.05 * lost
    assert learner.graph().guarantee().epsilon(1e-6).upper == math.inf


def test_runs_follow_the_exact_law() -> None:
    """Frequencies of all transcripts together: Hoeffding at 1e-6 over every one."""
    learner = _learner(3, rounds=4, rate=0.7, d=2)
    losses = np.random.default_rng(4).random((4, 2))
    runs = 200_000
    seen = learner.simulate(losses, np.random.default_rng(5), runs)
    drawn = seen.switched.copy()
    drawn[:, 0] = True
    code = (seen.actions * 2 + drawn) @ (4 ** np.arange(4))
    law = dict(_paths(learner, losses))
    counts = dict(zip(*np.unique(code, return_counts=True), strict=True))
    assert sum(counts.values()) == runs
    keys = {sum((2 * x + d) * 4**s for s, (x, d) in enumerate(path)): m for path, m in law.items()}
    assert set(counts) <= set(keys)
    allowed = math.sqrt(math.log(2 * len(keys) / FALSE_ALARM) / (2 * runs))
    assert max(abs(counts.get(key, 0) / runs - mass) for key, mass in keys.items()) <= allowed


def test_budget_is_kept_and_used() -> None:
    losses = np.random.default_rng(6).random((50, 3))
    for budget in (1, 2, 5):
        learner = _learner(budget, rounds=50, d=3)
        seen = learner.simulate(losses, np.random.default_rng(7), 500)
        assert 1 + seen.switched.sum(axis=1).max() == budget
        moved = seen.actions[:, 1:] != seen.actions[:, :-1]
        assert not (moved & ~seen.switched[:, 1:]).any()


# --- privacy ---------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("examples", [5, pytest.param(30, marks=pytest.mark.deep)])
def test_exact_loss_is_within_the_claim(examples: int) -> None:
    """Every transcript on both data sets is enumerated, for random streams and a random changed round."""
    drawn = st.integers(2, 5), st.integers(1, 5), st.floats(0.02, 1.0), st.floats(0.05, 0.9), st.integers(0, 10**6)
    settings(max_examples=examples)(given(*drawn)(check_exact_loss))()


def check_exact_loss(rounds: int, budget: int, rate: float, p: float, seed: int) -> None:
    learner = _learner(budget, rounds=rounds, rate=rate, p=p)
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, (rounds, 2)).astype(float)
    second = first.copy()
    changed = 0 if rng.random() < 0.5 else int(rng.integers(0, rounds))
    second[changed] = [1.0, 0.0] if rng.random() < 0.5 else 1.0 - first[changed]
    event = learner.graph().guarantee().event
    for epsilon in (0.0, 0.5 * rate, rate, 2 * rate):
        assert _exact_delta(learner, (first, second), epsilon) <= accounting.delta(event, epsilon).upper + 1e-12


def test_claim_is_not_far_above_the_truth() -> None:
    learner = _learner(3, rounds=7, rate=0.1, p=0.4)
    streams = learner.worst_case_neighbours()
    event = learner.graph().guarantee().event
    assert _exact_delta(learner, streams, 0.1) >= 0.3 * accounting.delta(event, 0.1).upper


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_one_draw_more_than_charged_is_seen(budget: int) -> None:
    """A budget off by one: K draws beside the first, charged as K - 1."""
    learner, more = _learner(budget, rounds=7, rate=0.5, p=0.8), _learner(budget + 1, rounds=7, rate=0.5, p=0.8)
    streams = learner.worst_case_neighbours()
    event = learner.graph().guarantee().event
    epsilons = (0.0, 0.2, 0.5, 1.0, 1.5, 2.0)
    assert all(_exact_delta(learner, streams, e) <= accounting.delta(event, e).upper + 1e-12 for e in epsilons)
    assert any(_exact_delta(more, streams, e) > accounting.delta(event, e).upper + 1e-4 for e in epsilons)


def test_the_plan_has_three_nodes_and_survives_json() -> None:
    large = _learner(40, rounds=10**6, rate=1e-3, p=1e-2)
    graph = large.graph()
    assert len(graph.nodes) == 3
    assert AccountantGraph.from_json(graph.to_json()) == graph
    event = graph.guarantee().event
    assert event.zcdp_rho() <= 39 * 1e-6 / 2 + large.unlimited.switch.event().zcdp_rho() + 1e-12
    assert event.pure_epsilon() == pytest.approx(39 * 2e-3 + large.unlimited.switch.event().pure_epsilon())
    assert large.unlimited.graph().guarantee().event.pure_epsilon() > 100 * event.pure_epsilon()
    assert _learner(1).graph().guarantee().epsilon(0.0).upper == 0.0
    assert _learner(10**6, rounds=5).graph() == _learner(5, rounds=5).graph()


@pytest.mark.parametrize("changed", [0, 2])  # where the changed round comes late, the budget may be spent
def test_likelihood_ratio_is_that_of_the_enumeration(changed: int) -> None:
    learner = _learner(2, rounds=4, rate=0.6)
    first, second = (np.roll(stream, changed, axis=0) for stream in learner.worst_case_neighbours())
    second[1] = first[1] = [0.5, 0.2]
    laws = [dict(_paths(learner, stream)) for stream in (first, second)]
    paths = list(laws[0])
    actions = np.array([[x for x, _ in path] for path in paths])
    drawn = np.array([[d for _, d in path] for path in paths])
    drawn[:, 0] = False
    ratio = learner.log_likelihood_ratio(Transcripts(actions, drawn), first, second)
    np.testing.assert_allclose(ratio, [math.log(laws[0][path] / laws[1][path]) for path in paths], atol=1e-12)


class _Target:
    """Log-likelihood ratios of ``broken`` runs under ``broken``'s own law, on the neighbours of ``learner``."""

    def __init__(self, broken: ShrinkingDartboard, neighbours: tuple[FloatArray, FloatArray]) -> None:
        self.broken, self.neighbours = broken, neighbours

    def __call__(self, losses: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
        seen = self.broken.simulate(losses, rng, runs)
        return np.clip(self.broken.log_likelihood_ratio(seen, *self.neighbours), -50, 50)


@pytest.mark.statistical
@pytest.mark.parametrize("mutant", [None, "no fake switches", "sensitivity halved", "budget not kept"])
def test_audit_refutes_the_mutants(mutant: str | None) -> None:
    learner = _learner(4, rounds=60, rate=0.05, p=0.2)
    broken = {
        None: learner,
        "no fake switches": _learner(4, rounds=60, rate=0.05, p=0.0),
        "sensitivity halved": _learner(4, rounds=60, rate=0.1, p=0.2),
        "budget not kept": _learner(None, rounds=60, rate=0.05, p=0.2),
    }[mutant]
    target = _Target(broken, learner.worst_case_neighbours())
    verdict = audit(
        target,
        claim=Claim.curve(learner.graph().guarantee(), 1e-6),
        neighbours=target.neighbours,
        samples=100_000,
        rng=8,
        confidence=1 - FALSE_ALARM,
    )
    assert verdict.refuted == (mutant is not None)


# --- utility ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.3, 1e-2, 1e-6])
def test_budget_for_a_failure_probability(beta: float) -> None:
    learner = _learner(None, rounds=300, rate=0.05, p=0.1).within(beta)
    assert learner.budget is not None
    free = learner.unlimited.simulate(np.ones((300, 2)), np.random.default_rng(9), 20_000)
    frequency = (free.switched.sum(axis=1) >= learner.budget).mean()
    assert frequency <= beta + math.sqrt(math.log(1 / FALSE_ALARM) / 40_000)
    if beta == 0.3:
        assert frequency >= 0.15


def test_regret_is_within_its_bound() -> None:
    rng = np.random.default_rng(10)
    for budget in (1, 4, 20, 60, None):
        learner = _learner(budget, rounds=200, rate=0.1, p=0.05, d=3)
        for losses in (rng.random((200, 3)), np.eye(3)[rng.integers(0, 3, 200)], np.tile([0.0, 1.0, 1.0], (200, 1))):
            assert learner.expected_regret(losses) <= learner.regret_bound() + 1e-9
    run = learner.run(losses, rng)
    assert run.actions.shape == (200,) and run.regret == pytest.approx(run.loss - 0.0)


REFUSED: dict[str, tuple[object, ...]] = {
    "budget": (0, True, 2.5), "batch": (20,), "fake_switch_probability": (1.0,), "learning_rate": (math.nan,),
    "clip": (1,),
}  # fmt: skip


def test_bad_arguments_are_refused() -> None:
    for name, values in REFUSED.items():
        for value in values:
            with pytest.raises(InvalidArgumentError, match=name):
                ShrinkingDartboard(**{"rounds": 10, "experts": 2, "learning_rate": 0.1, name: value})
    with pytest.raises(InvalidArgumentError, match="losses"):
        _learner(2).simulate(np.full((6, 2), 1.5), np.random.default_rng(0), 3)
    with pytest.raises(InvalidArgumentError, match="beta"):
        _learner(2).within(0.0)


# --- calibration -----------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("epsilon", "delta", "beta"),
    [pytest.param(1.0, 1e-6, None, marks=pytest.mark.deep), (0.3, 1e-3, 1e-4), (8.0, 1e-9, 0.5)],
)
def test_calibration_never_exceeds_its_target(epsilon: float, delta: float, beta: float | None) -> None:
    learner = ShrinkingDartboard.calibrated(rounds=300, experts=5, epsilon=epsilon, delta=delta, beta=beta)
    assert learner.budget is not None
    assert 0.9 * epsilon <= learner.graph().guarantee().epsilon(delta).upper <= epsilon
    free = learner.unlimited
    beyond = (learner.regret_bound() - free.regret_bound()) / 300
    assert 0.0 <= beyond <= (0.01 * math.sqrt(0.5 * math.log(5) / 300) if beta is None else beta)
    tighter = ShrinkingDartboard(
        rounds=300,
        experts=5,
        batch=learner.batch,
        learning_rate=learner.learning_rate,
        fake_switch_probability=learner.fake_switch_probability,
        budget=learner.budget - 1,
    )
    assert (tighter.regret_bound() - free.regret_bound()) / 300 > beyond


@pytest.mark.statistical
@pytest.mark.parametrize(
    "others",
    [
        [(1.0, 0.6, 1e-5), (2.0, 1.0, 1e-5), (1.0, 1.0, 1e-3)],
        pytest.param([(1.0, 1.6, 1e-5), (0.5, 1.0, 1e-5)], marks=pytest.mark.deep),
    ],
)
def test_nothing_near_the_calibrated_budget_is_better(others: list[tuple[float, float, float]]) -> None:
    """Other batches, fake switches and chances of a spent budget, each at the largest rate that is certified."""
    target, delta = 0.5, 1e-6
    best = ShrinkingDartboard.calibrated(rounds=20_000, experts=10, epsilon=target, delta=delta)
    for batch, fake, chance in others:
        low, high = 0.3, 3.0
        for _ in range(12):
            middle = math.sqrt(low * high)
            rate = best.learning_rate * middle
            other = ShrinkingDartboard(
                rounds=20_000,
                experts=10,
                batch=max(1, round(best.batch * batch)),
                learning_rate=rate,
                fake_switch_probability=min(0.99, best.fake_switch_probability * fake * middle),
            ).within(chance)
            met = accounting.epsilon(other.graph().guarantee().event, delta).upper <= target
            low, high = (middle, high) if met else (low, middle)
        assert other.regret_bound() >= 0.98 * best.regret_bound()


@pytest.mark.statistical
def test_calibrated_groups_and_known_bounds() -> None:
    """Little above the learner without a budget, whose best bounds at these targets are known."""
    for epsilon, known in ((0.05, 7614.0), (1.0, 1305.0)):
        learner = ShrinkingDartboard.calibrated(rounds=10**6, experts=10, epsilon=epsilon, delta=1e-6)
        assert known < learner.regret_bound() < 1.04 * known
    group = ShrinkingDartboard.calibrated(rounds=2000, experts=10, epsilon=1.0, delta=1e-6, group=3)
    assert 0.95 <= group.graph().guarantee(group=3).epsilon(1e-6).upper <= 1.0


REFUSED_TARGETS: dict[str, tuple[object, ...]] = {
    "rounds": (1, 0), "experts": (1,), "epsilon": (0.0, math.inf), "delta": (0.0, 1.0), "group": (0,),
    "beta": (0.0, 1.0, math.nan), "clip": (1,),
}  # fmt: skip


@pytest.mark.parametrize(("argument", "values"), REFUSED_TARGETS.items())
def test_calibration_refuses_bad_targets(argument: str, values: tuple[object, ...]) -> None:
    good: dict[str, object] = {"rounds": 100, "experts": 3, "epsilon": 1.0, "delta": 1e-6}
    for value in values:
        with pytest.raises(InvalidArgumentError, match=argument):
            ShrinkingDartboard.calibrated(**(good | {argument: value}))  # type: ignore[arg-type]
