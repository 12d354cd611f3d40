"""Tests that the lazy transform keeps the marginal of its base measure exactly, and that its simulator follows its
law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners import LazyExperts
from hockeystick.learners.lazy import LazyChain, exact_loss, exact_marginals
from hockeystick.learners.lazy.experts.lazy_chain import log_likelihood_ratio
from hockeystick.mechanisms import LazySwitch


def _chain(
    losses: NDArray[np.float64], rate: float, p: float, shadow: float | None, normaliser: float = 0.0
) -> LazyChain:
    return LazyChain(
        batch_losses=losses,
        learning_rate=rate,
        fake_switch_probability=p,
        shadow_probability=shadow,
        log_normaliser=normaliser,
    )


def _distance_to_weights(chain: LazyChain) -> float:
    """Largest total-variation distance, over batches, between an action's law and the measure."""
    return float(0.5 * np.abs(exact_marginals(chain) - np.exp(chain.log_weights)).sum(axis=1).max())


@pytest.mark.parametrize("experts", [2, 5])
@pytest.mark.parametrize("p", [0.0, 0.05, 0.4, 0.999])
@pytest.mark.parametrize(
    ("shadow", "excess"), [(None, 0.0), *((q, c) for q in (0.0, 0.05, 0.4, 0.9) for c in (1.0, 1.5, 4.0))]
)
@pytest.mark.every(3)
def test_marginal_is_that_of_multiplicative_weights(
    experts: int, p: float, shadow: float | None, excess: float
) -> None:
    """Without clipping (c >= B*eta) actions follow the measure exactly, for every p, p_y and c."""
    rng = np.random.default_rng(experts)
    batch, rate = 3, 0.3
    losses = batch * rng.random((15, experts))
    chain = _chain(losses, rate, p, shadow, 0.0 if shadow is None else excess * batch * rate)
    assert _distance_to_weights(chain) < 1e-12


@pytest.mark.parametrize(("normaliser", "distance"), [(0.0, 0.163), (0.25, 0.050)])
def test_clipping_breaks_the_marginal(normaliser: float, distance: float) -> None:
    """A normaliser below B*eta is a defect that the marginal shows: known distances of one instance."""
    chain = _chain(np.tile([1.0, 0.0], (30, 1)), 0.5, 0.05, 0.05, normaliser)
    assert _distance_to_weights(chain) == pytest.approx(distance, abs=5e-4)


@pytest.mark.parametrize("shadow", [None, 0.2])
def test_simulated_frequencies_follow_the_exact_marginal(shadow: float | None) -> None:
    """Hoeffding at level 1e-6 / (tests), over 12 batches x 4 experts: a false alarm in at most 1 of 1e6 seeds."""
    runs, rng = 200_000, np.random.default_rng(20240601)
    losses = rng.random((12, 4)) * 2.0
    chain = _chain(losses, 0.4, 0.1, shadow, 0.0 if shadow is None else 0.8)
    actions = chain.simulate(rng, runs).actions
    frequencies = np.stack([(actions == x).mean(axis=0) for x in range(4)], axis=1)
    allowed = np.sqrt(np.log(2 * frequencies.size / 1e-6) / (2 * runs))
    assert np.abs(frequencies - exact_marginals(chain)).max() <= allowed
    # The same check sees a learner that draws from the previous batch's measure.
    stale = np.vstack([exact_marginals(chain)[:1], exact_marginals(chain)[:-1]])
    assert np.abs(frequencies - stale).max() > allowed


@pytest.mark.parametrize("shadow", [None, 0.3])
def test_simulated_loss_follows_the_exact_law(shadow: float | None) -> None:
    """The log-likelihood ratio's distribution function is the oracle's (Dvoretzky-Kiefer-Wolfowitz at 1e-6)."""
    runs = 100_000
    losses0, losses1 = np.zeros((40, 4)), np.zeros((40, 4))
    losses0[0, :2], losses1[0, 2:] = 1.0, 1.0
    chain0, chain1 = (_chain(x, 0.1, 0.1, shadow, 0.0 if shadow is None else 0.1) for x in (losses0, losses1))
    simulated = log_likelihood_ratio(chain0.simulate(np.random.default_rng(5), runs), chain0, chain1)
    law = exact_loss(chain0, chain1).forward[0]
    assert law.masses.sum() + law.infinite == pytest.approx(1.0, abs=1e-12)
    allowed = np.sqrt(np.log(2 / 1e-6) / (2 * runs))
    for at in np.linspace(-0.75, 0.75, 31) + 1e-3:
        assert abs((simulated > at).mean() - law.masses[law.losses > at].sum() - law.infinite) <= allowed


def test_coins_of_later_boundaries_are_bit_identical_in_both_worlds() -> None:
    """Given (x, y), only the decision right after the changed batch may know which stream it is."""
    rng = np.random.default_rng(7)
    losses = rng.random((20, 3))
    other = losses.copy()
    other[4] = rng.random(3)
    chains = [_chain(stream, 0.2, 0.1, 0.1, 0.2) for stream in (losses, other)]
    x, y = np.arange(3)[:, None], np.arange(3)[None, :]
    changed = [s for s in range(1, 20) if not np.array_equal(chains[0].log_keep(s, x, y), chains[1].log_keep(s, x, y))]
    assert changed == [5]


def test_real_and_fake_coins_are_independent() -> None:
    """The keep frequency is the product q*(1-p), not the smaller of the two (Hoeffding at 1e-6)."""
    runs, q, p = 400_000, 0.6, 0.3
    chain = _chain(np.tile([-np.log(q), -np.log(q)], (2, 1)), 1.0, p, None)
    kept = 1.0 - chain.simulate(np.random.default_rng(11), runs).switched[:, 1].mean()
    allowed = np.sqrt(np.log(2 / 1e-6) / (2 * runs))
    assert abs(kept - q * (1 - p)) <= allowed < min(q, 1 - p) - q * (1 - p)


def test_shadow_is_redrawn_at_its_own_rate_independently_of_the_action() -> None:
    runs, n = 50_000, 5
    chain = _chain(np.zeros((n, 2)), 0.1, 0.5, 0.2, 0.0)
    seen = chain.simulate(np.random.default_rng(13), runs)
    assert seen.refreshed is not None
    allowed = np.sqrt(np.log(4 / 1e-6) / (2 * runs * (n - 1)))
    refreshed, switched = seen.refreshed[:, 1:], seen.switched[:, 1:]
    assert abs(refreshed.mean() - 0.2) <= allowed
    assert abs((refreshed & switched).mean() - 0.2 * 0.5) <= allowed


def test_transcript_is_consistent() -> None:
    chain = _chain(np.random.default_rng(0).random((9, 300)), 0.3, 0.2, 0.2, 0.3)
    seen = chain.simulate(np.random.default_rng(1), 1000)
    assert seen.shadows is not None and seen.refreshed is not None
    assert seen.actions.shape == seen.shadows.shape == (1000, 9)
    assert not seen.switched[:, 0].any() and not seen.refreshed[:, 0].any()
    stayed = ~seen.switched[:, 1:]
    assert (seen.actions[:, 1:] == seen.actions[:, :-1])[stayed].all()
    assert (seen.shadows[:, 1:] == seen.shadows[:, :-1])[~seen.refreshed[:, 1:]].all()
    assert seen.actions.max() < 300


def test_simulation_repeats_with_its_seed() -> None:
    chain = _chain(np.random.default_rng(0).random((9, 3)), 0.3, 0.2, 0.2, 0.3)
    first, second, other = (chain.simulate(np.random.default_rng(seed), 50) for seed in (1, 1, 2))
    assert np.array_equal(first.actions, second.actions) and np.array_equal(first.switched, second.switched)
    assert not np.array_equal(first.actions, other.actions)


@given(st.floats(0.0, 0.9), st.floats(0.0, 3.0), st.lists(st.floats(0.0, 4.0), min_size=2, max_size=4))
def test_keep_probability_is_that_of_the_switching_mechanism(p: float, c: float, losses: list[float]) -> None:
    chain = _chain(np.tile(losses, (2, 1)), 0.5, p, 0.1, c)
    x, y = np.arange(len(losses))[:, None], np.arange(len(losses))[None, :]
    ratio = -0.5 * (np.array(losses)[x] - np.array(losses)[y])
    switch = LazySwitch(p, normaliser=c, sensitivity=1.0, lowest=-2.0, highest=2.0)
    assert np.exp(chain.log_keep(1, x, y)) == pytest.approx(switch.keep_probability(ratio), rel=1e-12)


def test_likelihood_ratio_where_one_world_never_redraws() -> None:
    """Without fake switches a redraw after a loss of 0 is proof: the ratio is infinite, with the right sign."""
    losses0, losses1 = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 0.0]])
    chain0, chain1 = _chain(losses0, 1.0, 0.0, None), _chain(losses1, 1.0, 0.0, None)
    seen = chain0.simulate(np.random.default_rng(3), 2000)
    ratio = log_likelihood_ratio(seen, chain0, chain1)
    proof = seen.switched[:, 1] & (seen.actions[:, 0] == 0)
    assert proof.any() and (ratio[proof] == np.inf).all()
    assert np.isfinite(ratio[~proof]).all()


def test_transcripts_of_another_chain_are_refused() -> None:
    chain = _chain(np.zeros((4, 2)), 0.1, 0.1, None)
    shadowed = _chain(np.zeros((4, 2)), 0.1, 0.1, 0.1)
    longer = _chain(np.zeros((5, 2)), 0.1, 0.1, None)
    seen = chain.simulate(np.random.default_rng(0), 3)
    with pytest.raises(InvalidArgumentError, match="transcripts"):
        log_likelihood_ratio(seen, longer, longer)
    with pytest.raises(InvalidArgumentError, match="transcripts"):
        log_likelihood_ratio(seen, shadowed, shadowed)
    with pytest.raises(InvalidArgumentError, match="chain1"):
        log_likelihood_ratio(seen, chain, longer)


def test_actions_of_a_run_are_constant_within_batches() -> None:
    learner = LazyExperts(rounds=23, experts=4, batch=5, learning_rate=0.5, fake_switch_probability=0.5)
    losses = np.random.default_rng(0).random((23, 4))
    run = learner.run(losses, np.random.default_rng(1))
    assert run.actions.shape == (23,)
    assert np.array_equal(run.actions, np.repeat(run.transcript.actions[0], 5)[:23])
    assert run.loss == pytest.approx(losses[np.arange(23), run.actions].sum())
    assert run.regret == pytest.approx(run.loss - losses.sum(axis=0).min())


@pytest.mark.parametrize("shadow", [None, 0.2])
@pytest.mark.parametrize("experts", [1, 2, 7])
def test_tables_and_comparisons_give_the_transcripts_of_the_direct_way(
    shadow: float | None, experts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = np.random.default_rng(experts).random((12, experts))
    losses[3:6] = 0.25  # experts that cost the same
    chain = _chain(losses, 0.7, 0.1, shadow)
    quick = chain.simulate(np.random.default_rng(5), 300)
    monkeypatch.setattr("hockeystick.learners.lazy.experts.lazy_chain._FEW", 0)
    direct = chain.simulate(np.random.default_rng(5), 300)
    for name in ("actions", "switched", "shadows", "refreshed"):
        assert np.array_equal(getattr(quick, name), getattr(direct, name))
