"""Tests of the certificate for the played experts alone: above the exact law with a hidden shadow, never above the full
view."""

from __future__ import annotations

import math

import numpy as np
import pytest
from attrs import evolve
from divergences import larger_hockey_stick

from hockeystick.accounting import InvalidArgumentError, delta
from hockeystick.learners import LazyExperts
from hockeystick.learners.lazy import LazyChain, actions_epsilon, exact_actions_loss
from hockeystick.learners.lazy.theory.actions_view import _event, look_probability

State = tuple[int, int | None, int, np.ndarray]


def full(learner: LazyExperts, at: float, member: int = 1) -> float:
    return learner.graph().guarantee_for("batches", member=member).epsilon(at).upper


def hidden_shadow_law(chain: LazyChain) -> np.ndarray:
    """Probabilities of all (actions, decisions) in a fixed order, shadows summed over: more than the actions reveal."""
    weights, again = np.exp(chain.log_weights), chain.shadow_probability or 0.0
    experts = range(chain.experts)
    beliefs = [(x, weights[0][x] * weights[0]) for x in experts]  # (expert, joint mass over shadows)
    for s in range(1, chain.batches):
        then = []
        for x, mass in beliefs:
            keep = np.exp(chain.log_keep(s, np.full(chain.experts, x), np.arange(chain.experts)))
            for part, targets in (
                (mass * keep, [(x, 1.0)]),
                (mass * (1 - keep), [(z, weights[s][z]) for z in experts]),
            ):
                moved = (1 - again) * part + again * part.sum() * weights[s]
                then += [(z, chance * moved) for z, chance in targets]
        beliefs = then
    return np.array([mass.sum() for _, mass in beliefs])


def shown_laws(chains: tuple[LazyChain, LazyChain], s0: int) -> tuple[np.ndarray, np.ndarray]:
    """Both laws of what the argument shows: x, decisions, refreshes, and the shadow whenever a coin depends on it.

    The streams differ in batch ``s0`` (0-based). A state is (x, y, boundary of the shadow's refresh, masses), with y
    None while it is hidden; up to the boundary after s0 the worlds are alike, and the shadow is shown.
    """
    weights = [np.exp(chain.log_weights) for chain in chains]
    again = chains[0].shadow_probability or 0.0
    experts = range(chains[0].experts)
    start = weights[0][0]
    states: list[State] = [(x, y, 0, np.full(2, start[x] * start[y])) for x in experts for y in experts]

    def drawn(s: int, z: int) -> np.ndarray:
        return np.array([weights[0][s][z], weights[1][s][z]])

    for s in range(1, chains[0].batches):
        decided: list[State] = []
        for x, y, since, mass in states:
            every = np.exp([chain.log_keep(s, np.full(len(experts), x), np.array(experts)) for chain in chains])
            outcomes: list[tuple[int | None, np.ndarray, np.ndarray]]
            if y is not None:
                outcomes = [(y, np.ones(2), every[:, y])]
            else:
                low, high = every[0].min(), every[0].max()
                never = (1.0 - (high - low)) or 1.0
                outcomes = [(None, np.full(2, never), np.full(2, low / never))]
                outcomes += [
                    (z, (high - low) * drawn(since, z), np.full(2, (every[0][z] - low) / (high - low or 1.0)))
                    for z in experts
                ]
            for shown, chance, keep in outcomes:
                decided.append((x, shown, since, mass * chance * keep))
                decided += [(z, shown, since, mass * chance * (1.0 - keep) * drawn(s, z)) for z in experts]
        states = [(x, y, since, mass * (1.0 - again)) for x, y, since, mass in decided]
        if s <= s0:
            states += [(x, z, s, mass * again * drawn(s, z)) for x, _, _, mass in decided for z in experts]
        else:
            states += [(x, None, s, mass * again) for x, _, _, mass in decided]
    masses = np.array([mass for *_, mass in states])
    return masses[:, 0], masses[:, 1]


def drawn_learner(rng: np.random.Generator, n: int) -> LazyExperts:
    batch, rate = int(rng.integers(1, 4)), float(10 ** rng.uniform(-1.3, 0.0))
    fake = float(rng.uniform(0.02, 0.6))
    return LazyExperts(
        rounds=n * batch,
        experts=2,
        batch=batch,
        learning_rate=rate,
        fake_switch_probability=fake,
        shadow_probability=float(rng.choice([fake, 0.9])),
        normaliser=("tight", "paper", 0.0, float(rng.uniform(0, 3)) * batch * rate)[rng.integers(4)],
    )


@pytest.mark.statistical
def test_certificate_is_above_the_exact_law_of_random_pairs() -> None:
    """Hidden shadow <= the quantity of the argument <= certificate, for both ends of the argument."""
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(20):
        n = int(rng.integers(2, 5))
        learner = drawn_learner(rng, n)
        member = int(rng.integers(1, n))
        first = rng.integers(0, 2, (learner.rounds, 2)).astype(float)
        second, row = first.copy(), (member - 1) * learner.batch
        first[row], second[row] = (1.0, 0.0), (0.0, 1.0)
        chains = learner.chain(first), learner.chain(second)
        hidden = hidden_shadow_law(chains[0]), hidden_shadow_law(chains[1])
        shown = shown_laws(chains, member - 1)
        assert hidden[0].sum() == pytest.approx(1.0) and shown[0].sum() == pytest.approx(1.0)
        event = _event(learner, member)
        for epsilon in rng.uniform(0.0, 1.5 * learner.learning_rate * n, 2):
            exact, more, certified = (
                larger_hockey_stick(*hidden, epsilon),
                larger_hockey_stick(*shown, epsilon),
                delta(event, epsilon),
            )
            assert exact <= more + 1e-12 and more <= certified.upper * (1 + 1e-9) + 1e-12
            if exact > 1e-9:
                ratios.append(more / certified.upper)
    assert max(ratios) > 0.7  # and not by far


def test_each_later_boundary_is_charged_for_none_one_or_two_draws() -> None:
    """Renyi: ln E[e^((a-1) * D * (number of draws))] / (a-1), with any draw of chance r and two of chance w."""
    learner = LazyExperts(rounds=12, experts=2, batch=2, learning_rate=0.1, fake_switch_probability=0.2)
    orders = np.array([1.5, 2.0, 8.0, 64.0])
    one = learner.draw.event().rdp(orders)
    any_draw, two = 1.0 - 0.8 * math.exp(-0.4), 0.8 * (1.0 - math.exp(-0.2))
    grown = (orders - 1) * one
    boundary = np.log(1 - any_draw + (any_draw - two) * np.exp(grown) + two * np.exp(2 * grown)) / (orders - 1)
    decision = np.max([order.rdp(orders) for order in learner.switch.event().orientations()], axis=0)
    np.testing.assert_allclose(_event(learner, 2).rdp(orders), decision + one + 3 * boundary, rtol=1e-9)


@pytest.mark.parametrize(("n", "batch", "rate", "p"), [(60, 1, 0.05, 0.3), (60, 3, 0.05, 0.1), (40, 1, 0.3, 0.05)])
def test_certificate_is_above_the_exact_law_of_the_worst_pair(n: int, batch: int, rate: float, p: float) -> None:
    learner = LazyExperts(
        rounds=n * batch, experts=2, batch=batch, learning_rate=rate, fake_switch_probability=p, normaliser="paper"
    )
    exact = exact_actions_loss(*(learner.chain(losses) for losses in learner.worst_case_neighbours())).epsilon(1e-3)
    assert exact[1] <= actions_epsilon(learner, 1e-3).upper <= full(learner, 1e-3)


@pytest.mark.parametrize(
    ("n", "batch", "rate", "p", "at", "value"),
    [(200, 1, 0.05, 0.3, 1e-2, 1.0523), (400, 1, 0.1, 0.3, 1e-2, 4.6691), (400, 5, 0.05, 0.3, 1e-2, 2.3833)],
)
def test_the_bound_agrees_with_golden_values(
    n: int, batch: int, rate: float, p: float, at: float, value: float
) -> None:
    learner = LazyExperts(
        rounds=n * batch, experts=2, batch=batch, learning_rate=rate, fake_switch_probability=p, normaliser="paper"
    )
    found = actions_epsilon(learner, at, bracket=True)
    assert found.upper == pytest.approx(value, abs=1e-4)
    assert found.lower is not None and found.lower <= found.upper < full(learner, at)


@pytest.mark.statistical
def test_where_nothing_better_is_known_it_is_the_full_view() -> None:
    l2p = LazyExperts(rounds=100, experts=4, learning_rate=0.05, fake_switch_probability=0.2)
    for learner in (
        evolve(l2p, variant="dartboard"),
        evolve(l2p, shadow_probability=0.0),
        evolve(l2p, shadow_probability=1e-3),
        evolve(l2p, draw_budget=7),
    ):
        assert actions_epsilon(learner, 1e-4).upper == full(learner, 1e-4)
    paid = [actions_epsilon(l2p, 1e-4, round_=t).upper for t in (0, 50, 97, 98, 99)]
    assert paid == sorted(paid, reverse=True) and paid[-1] == 0.0 < paid[-2]
    assert all(cost <= full(l2p, 1e-4, t + 1) for cost, t in zip(paid, (0, 50, 97, 98, 99), strict=True))


@pytest.mark.parametrize("normaliser", ["tight", "paper", 0.0, 0.3, 2.0])
def test_the_probability_that_the_shadow_is_used_covers_every_state(normaliser: str | float) -> None:
    learner = LazyExperts(
        rounds=8, experts=2, batch=4, learning_rate=0.2, fake_switch_probability=0.1, normaliser=normaliser
    )
    losses = np.linspace(0.0, 4.0, 41)
    log_ratio = -0.2 * (losses[:, None] - losses[None, :]) - learner.log_normaliser
    keep = 0.9 * np.exp(np.minimum(0.0, log_ratio))
    spread = (keep.max(axis=1) - keep.min(axis=1)).max()
    assert spread <= look_probability(learner) <= spread * (1 + 1e-9)


@pytest.mark.parametrize("round_", [-1, 10, 0.5, True])
def test_a_bad_round_is_refused(round_: object) -> None:
    learner = LazyExperts(rounds=10, experts=2, learning_rate=0.1, fake_switch_probability=0.1)
    with pytest.raises(InvalidArgumentError, match="round_"):
        actions_epsilon(learner, 1e-3, round_=round_)  # type: ignore[arg-type]
