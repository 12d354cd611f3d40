"""Tests of the privacy loss of the played experts alone: the forward filter and the exact law, against sums over all
transcripts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from divergences import hockey_stick
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners import LazyExperts
from hockeystick.learners.lazy import LazyChain, actions_log_likelihood_ratio, exact_actions_loss, exact_loss
from hockeystick.learners.lazy.experts.setting import Variant
from hockeystick.learners.lazy.theory import played_actions


def probability_of_actions(chain: LazyChain, actions: tuple[int, ...]) -> float:
    """The probability of playing ``actions``: the sum over all shadows of products of coins and draws."""
    weights = np.exp(chain.log_weights)
    again = chain.shadow_probability
    shadows = [(0,) * chain.batches] if again is None else itertools.product(range(chain.experts), repeat=chain.batches)
    total = 0.0
    for shadow in shadows:
        mass = weights[0][actions[0]] * (1.0 if again is None else weights[0][shadow[0]])
        for s in range(1, chain.batches):
            x, y = np.array(actions[s - 1]), None if again is None else np.array(shadow[s - 1])
            keep = float(np.exp(chain.log_keep(s, x, y)))
            mass *= keep * (actions[s] == actions[s - 1]) + (1.0 - keep) * weights[s][actions[s]]
            if again is not None:
                mass *= (1.0 - again) * (shadow[s] == shadow[s - 1]) + again * weights[s][shadow[s]]
        total += mass
    return float(total)


def all_actions(chain: LazyChain) -> NDArray[np.intp]:
    return np.array(list(itertools.product(range(chain.experts), repeat=chain.batches)))


@pytest.mark.statistical
@settings(max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 4),
    st.integers(2, 3),
    st.sampled_from((None, 0.0, 0.3)),
    st.sampled_from((0.0, 0.4)),
    st.booleans(),
)
@example(1, 4, 2, 0.3, 0.4, False)
@example(2, 3, 3, 0.3, 0.0, True)
@example(3, 4, 2, 0.0, 0.4, False)
@example(4, 4, 3, None, 0.0, False)
def test_filter_is_the_sum_over_all_shadows(
    seed: int, n: int, experts: int, again: float | None, normaliser: float, alike: bool
) -> None:
    """On random pairs of streams, clipped or not, any number of batches changed, some experts with equal losses."""
    rng = np.random.default_rng(seed)
    streams = 2.0 * rng.random((2, n, experts))
    if alike:
        streams[:, :, -1] = streams[:, :, 0]
    p, rate = rng.uniform(0.05, 0.6), rng.uniform(0.1, 1.0)
    chains = [
        LazyChain(
            batch_losses=losses,
            learning_rate=rate,
            fake_switch_probability=p,
            shadow_probability=again,
            log_normaliser=0.0 if again is None else normaliser,
        )
        for losses in streams
    ]
    actions = all_actions(chains[0])
    masses = [[probability_of_actions(chain, tuple(row)) for row in actions] for chain in chains]
    np.testing.assert_allclose(np.sum(masses, axis=1), 1.0)
    found = actions_log_likelihood_ratio(actions.astype(np.uint8), *chains)
    np.testing.assert_allclose(found, np.log(masses[0]) - np.log(masses[1]), atol=1e-12)


@pytest.mark.statistical
@settings(max_examples=15)
@given(
    st.sampled_from(("l2p", "dartboard")),
    st.integers(2, 5),
    st.sampled_from((2, 4)),
    st.integers(0, 3),
    st.sampled_from((0.0, 0.02, 0.4)),
    st.sampled_from(("tight", "paper", 0.05)),
)
@example("l2p", 4, 2, 0, 0.4, 0.05)
@example("l2p", 3, 4, 1, 0.0, "tight")
@example("dartboard", 5, 4, 0, 0.02, "tight")
@example("dartboard", 5, 2, 2, 0.0, "tight")
def test_exact_law_is_the_sum_over_all_sequences(
    variant: Variant, n: int, experts: int, before: int, p: float, normaliser: str | float
) -> None:
    """Both directions, with and without fake switches, infinite losses included, wherever the changed batch lies."""
    n = min(n, 3 if experts == 4 else 4) if variant == "l2p" else n
    learner = LazyExperts(
        rounds=2 * n,
        experts=experts,
        batch=2,
        learning_rate=0.3,
        fake_switch_probability=p,
        variant=variant,
        normaliser=normaliser if variant == "l2p" else "tight",
    )
    streams = [np.roll(stream, 2 * min(before, n - 1), axis=0) for stream in learner.worst_case_neighbours()]
    chains = [learner.chain(stream) for stream in streams]
    law = exact_actions_loss(*chains)
    worlds = np.array([[probability_of_actions(chain, tuple(row)) for row in all_actions(chain)] for chain in chains])
    for epsilon in (0.0, 0.1, 0.5, 1.5):
        for (lower, upper), (one, other) in ((law.forward, worlds), (law.backward, worlds[::-1])):
            exact = hockey_stick(one, other, epsilon)
            assert lower.delta(epsilon) == pytest.approx(exact, abs=1e-8)
            assert upper.delta(epsilon) == pytest.approx(exact, abs=1e-8)


# (n, B, eta, p, delta), the paper's normaliser: epsilon of the actions alone. Values known before, from a grid, are
# 0.546, 2.434 and 1.268; these are exact.
GOLDEN = [
    (200, 1, 0.05, 0.3, 1e-2, 0.54387),
    (400, 1, 0.1, 0.3, 1e-2, 2.44519),
    (400, 5, 0.05, 0.3, 1e-2, 1.26383),
    (200, 1, 0.02, 0.1, 1e-6, 0.35911),
]


def _learner(n: int, batch: int, rate: float, p: float, experts: int = 2) -> LazyExperts:
    return LazyExperts(
        rounds=n * batch,
        experts=experts,
        batch=batch,
        learning_rate=rate,
        fake_switch_probability=p,
        normaliser="paper",
    )


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "batch", "rate", "p", "delta", "value"), GOLDEN)
def test_exact_laws_agree_with_golden_values(
    n: int, batch: int, rate: float, p: float, delta: float, value: float
) -> None:
    learner = _learner(n, batch, rate, p)
    chains = [learner.chain(stream) for stream in learner.worst_case_neighbours()]
    lower, upper = exact_actions_loss(*chains).epsilon(delta)
    assert lower <= upper <= lower + 1e-6
    assert lower == pytest.approx(value, abs=1e-5)
    assert upper < exact_loss(*chains).epsilon(delta)[0]


@pytest.mark.statistical
@settings(max_examples=15)
@given(st.integers(2, 40), st.floats(0.01, 0.3), st.floats(0.01, 0.8), st.sampled_from((2, 6)))
def test_actions_reveal_at_most_the_full_view(n: int, rate: float, p: float, experts: int) -> None:
    learner = _learner(n, 1, rate, p, experts)
    chains = [learner.chain(stream) for stream in learner.worst_case_neighbours()]
    seen, full = exact_actions_loss(*chains), exact_loss(*chains)
    for epsilon in (0.0, 0.05, 0.2, 1.0):
        assert seen.delta(epsilon)[0] <= full.delta(epsilon)[1] + 1e-12


def test_other_experts_form_a_separate_class() -> None:
    """Experts that the changed batch leaves alone, one or several: against the sum over all sequences."""
    for columns in ((1.0, 0.0, 0.0), (1.0, 0.0, 0.5)):
        first = np.zeros((4, 3))
        first[0] = columns
        second = first[:, [1, 0, 2]]
        chains = [
            LazyChain(batch_losses=stream, learning_rate=0.4, fake_switch_probability=0.1) for stream in (first, second)
        ]
        law = exact_actions_loss(*chains)
        worlds = [np.array([probability_of_actions(c, tuple(row)) for row in all_actions(c)]) for c in chains]
        for epsilon in (0.0, 0.2):
            exact = hockey_stick(worlds[0], worlds[1], epsilon)
            assert law.delta(epsilon)[0] == pytest.approx(exact, abs=1e-8)


def test_impossible_actions_have_an_infinite_ratio() -> None:
    """Without fake switches a move after a loss of 0 proves the other stream."""
    losses = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    chains = [
        LazyChain(batch_losses=stream, learning_rate=1.0, fake_switch_probability=0.0)
        for stream in (losses, losses[:, ::-1])
    ]
    ratio = actions_log_likelihood_ratio(np.array([[0, 1, 1], [1, 0, 0], [0, 1, 0]]), *chains)
    assert ratio.tolist() == [math.inf, -math.inf, 0.0]  # the last one occurs in neither world
    assert exact_actions_loss(*chains).epsilon(1e-3)[0] == math.inf


def test_equal_streams_and_the_last_batch_lose_nothing() -> None:
    learner = _learner(5, 1, 0.2, 0.1)
    losses = np.zeros((5, 2))
    other = losses.copy()
    other[-1] = (1.0, 0.0)
    for stream in (losses, other):
        assert exact_actions_loss(learner.chain(losses), learner.chain(stream)).delta(0.0) == (0.0, 0.0)


def test_bad_arguments_are_refused() -> None:
    learner = _learner(5, 1, 0.2, 0.1)
    chain0, chain1 = (learner.chain(stream) for stream in learner.worst_case_neighbours())
    later = np.zeros((5, 2))
    later[0], later[3] = (1.0, 0.0), (1.0, 0.0)
    one = later.copy()
    one[0] = (0.0, 1.0)
    two = one.copy()
    two[3] = (0.0, 1.0)
    with pytest.raises(InvalidArgumentError, match="different losses in other batches"):
        exact_actions_loss(learner.chain(later), learner.chain(one))
    with pytest.raises(InvalidArgumentError, match="several batches"):
        exact_actions_loss(learner.chain(later), learner.chain(two))
    with pytest.raises(InvalidArgumentError, match="chain1"):
        exact_actions_loss(chain0, _learner(6, 1, 0.2, 0.1).chain(np.zeros((6, 2))))
    odd = LazyExperts(rounds=5, experts=3, learning_rate=0.2, fake_switch_probability=0.1)
    with pytest.raises(InvalidArgumentError, match="lattice"):
        exact_actions_loss(*(odd.chain(stream) for stream in odd.worst_case_neighbours()))
    falling = np.zeros((5, 2))
    falling[0], falling[2] = (1.0, 0.0), (1.0, 1.0)
    board = LazyExperts(rounds=5, experts=2, learning_rate=0.2, fake_switch_probability=0.1, variant="dartboard")
    swapped = falling.copy()
    swapped[0] = (0.0, 1.0)
    with pytest.raises(InvalidArgumentError, match="from boundary to boundary"):
        exact_actions_loss(board.chain(falling), board.chain(swapped))
    for actions in (np.zeros((3, 4), int), np.zeros(5, int), np.zeros((3, 5)), np.full((3, 5), 2), np.full((3, 5), -1)):
        with pytest.raises(InvalidArgumentError, match="actions"):
            actions_log_likelihood_ratio(actions, chain0, chain1)  # type: ignore[arg-type]


def test_laws_that_need_too_large_a_table_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = _learner(60, 1, 0.2, 0.5, 4)
    chains = [learner.chain(stream) for stream in learner.worst_case_neighbours()]
    exact_actions_loss(*chains)
    monkeypatch.setattr(played_actions, "_CELLS", 1000)
    with pytest.raises(InvalidArgumentError, match="cells"):
        exact_actions_loss(*chains)
