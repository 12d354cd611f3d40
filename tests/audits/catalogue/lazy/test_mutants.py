"""Broken variants of the lazy learner of experts, one by one: what each does, measured, and the check that catches it.

"A" is n = 2, B = 1, eta = 0.01, p = 0.2; "B" is n = 400, B = 1, eta = 0.1, p = 0.3; "C" is n = 1000, B = 10,
eta = 0.02, p = 0.02 with later batches that alternate; all with the paper's normaliser 2*B*eta, on the pair "the first
person's losses are (1, 0) or (0, 1)". X1 is the exact law of the actions, over 30 batches of losses (1, 0) with
B*eta = 0.5, and its largest distance in total variation from multiplicative weights. Epsilons are exact where compared
with a claim. Every check passes the correct learner, here or where it is said to be.

| mutant | effect, measured | caught by |
| --- | --- | --- |
| no fake switch | A: 0.943 at 1e-3, claimed 0.075; infinite with c = B*eta | oracle and audits (lazy_targets) |
| losses not clipped | B: 13.02 at 1e-2, claimed 5.93 | oracle (here), audits (lazy_targets) |
| p taken for the keep probability | B: 6.21, claimed 5.93; p = 0.02: 5.99, claimed 3.48 | oracle, draw count, audits |
| normalised ratio, no shadow | every later decision reads the person; C: 0.64, claimed 0.95 | invariance |
| no normaliser | X1: 0.163 | X1 (lazy_chain) |
| ratio inverted; x and y exchanged | X1: 0.321 at c = 0.5, p = 0.05 | X1 |
| shadow is the action itself | X1: 0.109 | X1 |
| measure includes the batch to come | regret 4.38 - 0.46*eta*T*B/4, below the floor 4.38 | regret floor |
| draws from the measure one batch late | X1: 0.063; B: 4.81, of the correct 4.82 | X1 |
| one uniform for real and fake coin | X1: 0 to 0.053; n = 2, p = eta = 0.01: 0.94, claimed 0.66 | coins, X1, oracle |
| shadow redrawn whenever the action is | X1: 0; C, zeros later: 0.98, claimed 0.95 | draw count, oracle |
| only fake switches charged | C: claimed 0.22, true at least 0.36 | oracle (lazy_oracle) |
| visible mixture as secret sampling | n = 2000, eta = 0.02, p = 0.05, 1e-5: claimed 0.77, true 1.385 | oracle |
| half the width of a draw; no shadow draws | B: claimed 2.45 and 4.32, true 4.82 | oracle (lazy_oracle) |
| a tenth of the steps | B: claimed 1.41, true 4.82 | oracle (lazy_oracle) |
| shadow published, actions alone claimed | n = 100, eta = 0.1, p = 0.9: 3.43, claimed 2.61 at 1e-2 | audit, oracle |
| decisions every round | A with B = 2: 0.943, claimed 0.072; infinite with c = B*eta | oracle, audits (lazy_targets) |
| redraw of the same value not counted | 36.5 draws in the mean, of a budget of 20 | unit test, audit |
| first draw charged as a visible mixture | n = 2: claimed 1.032, true 1.105 | oracle (lazy_oracle) |

Mutants of the convex learner are in test_learner_lazy_mutants_convex.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property

import numpy as np
import pytest
from attrs import evolve, frozen
from numpy.typing import NDArray
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import BoundedRange, LazySwitchDecision
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.catalogue import PoissonSampled
from hockeystick.audits import Claim, audit
from hockeystick.audits.catalogue.lazy.experts import lazy_target
from hockeystick.audits.catalogue.lazy.mutants import mutant_chain
from hockeystick.audits.catalogue.lazy.sample_sizes import samples_needed
from hockeystick.learners import LazyExperts, LossLaw
from hockeystick.learners.lazy import LazyChain, Transcripts, exact_decision_loss, exact_loss, exact_marginals
from hockeystick.learners.lazy.experts.lazy_chain import log_likelihood_ratio
from hockeystick.learners.lazy.theory.actions_view import actions_epsilon
from hockeystick.learners.lazy.theory.played_actions import exact_actions_loss

Indices = NDArray[np.integer]
FALSE_ALARM = 1e-6


def _learner(n: int, batch: int, rate: float, p: float, normaliser: str | float = "paper") -> LazyExperts:
    return LazyExperts(
        rounds=n * batch, experts=2, batch=batch, learning_rate=rate, fake_switch_probability=p, normaliser=normaliser
    )


A, B = _learner(2, 1, 0.01, 0.2), _learner(400, 1, 0.1, 0.3)


def _chains(learner: LazyExperts) -> tuple[LazyChain, LazyChain]:
    first, second = learner.worst_case_neighbours()
    return learner.chain(first), learner.chain(second)


def _claimed(learner: LazyExperts, delta: float) -> float:
    return learner.graph().guarantee().epsilon(delta).upper


# --- the exact law of the actions ------------------------------------------------------------------------------------


@frozen(kw_only=True, eq=False, slots=False)
class Inverted(LazyChain):
    """The ratio turned upside down, as it is when x and y are exchanged."""

    def log_keep(self, s: int, x: Indices, y: Indices | None) -> FloatArray:
        assert y is not None
        return super().log_keep(s, y, x)


@frozen(kw_only=True, eq=False, slots=False)
class OneDraw(LazyChain):
    """The shadow shares the action's draws: the ratio is 1."""

    def log_keep(self, s: int, x: Indices, y: Indices | None) -> FloatArray:
        return super().log_keep(s, x, x) + 0.0 * (x if y is None else y)


@frozen(kw_only=True, eq=False, slots=False)
class Shifted(LazyChain):
    """Draws follow the measure of ``-lag`` batches before: 1 for a batch late, -1 for one ahead."""

    lag: int = 0

    @cached_property
    def log_weights(self) -> FloatArray:
        nothing = np.zeros((1, self.experts))
        padded = evolve(self, lag=0, batch_losses=np.vstack([self.batch_losses, nothing])).correct_weights
        at = np.clip(np.arange(self.batches) - self.lag, 0, self.batches)
        return np.asarray(padded[at])

    @property
    def correct_weights(self) -> FloatArray:
        return _plain(self).log_weights


def _plain(chain: LazyChain) -> LazyChain:
    return _as(LazyChain, chain)


def _as(kind: type[LazyChain], chain: LazyChain, **changes: object) -> LazyChain:
    names = ("batch_losses", "learning_rate", "fake_switch_probability", "shadow_probability", "log_normaliser")
    return kind(**{name: getattr(chain, name) for name in names} | changes)


def _x1(p: float, normaliser: float) -> LazyChain:
    return LazyChain(
        batch_losses=np.tile([1.0, 0.0], (30, 1)),
        learning_rate=0.5,
        fake_switch_probability=p,
        shadow_probability=p,
        log_normaliser=normaliser,
    )


def _distance(marginals: FloatArray, chain: LazyChain) -> float:
    return float(0.5 * np.abs(marginals - np.exp(_plain(chain).log_weights)).sum(axis=1).max())


@pytest.mark.parametrize(
    ("kind", "changes", "distance"),
    [(LazyChain, {}, 0.0), (Inverted, {}, 0.321), (OneDraw, {}, 0.109), (Shifted, {"lag": 1}, 0.063)],
)
def test_marginals_show_wrong_ratios_and_wrong_measures(
    kind: type[LazyChain], changes: dict[str, object], distance: float
) -> None:
    chain = _as(kind, _x1(0.05, 0.5), **changes)
    assert _distance(exact_marginals(chain), chain) == pytest.approx(distance, abs=5e-4 if distance else 1e-12)


@pytest.mark.statistical
def test_late_draws_are_not_a_privacy_defect() -> None:
    first, second = (_as(Shifted, chain, lag=1) for chain in _chains(B))
    late, correct = exact_loss(first, second).epsilon(1e-2)[0], exact_loss(*_chains(B)).epsilon(1e-2)[0]
    assert late == pytest.approx(4.809, abs=1e-3) and late < correct == pytest.approx(4.818, abs=1e-3)


def _shared(chain: LazyChain) -> LazyChain:
    """The coin that is one uniform for both switches, on the same losses."""
    learner = LazyExperts(
        rounds=chain.batches,
        experts=chain.experts,
        learning_rate=chain.learning_rate,
        fake_switch_probability=chain.fake_switch_probability,
        normaliser=chain.log_normaliser,
    )
    return mutant_chain(learner, chain.batch_losses, "one coin for both switches")


@pytest.mark.parametrize(
    ("p", "normaliser", "distance"), [(0.05, 0.5, 0.008), (0.5, 0.5, 0.0525), (0.05, 1.0, 0.0), (0.3, 1.0, 0.0)]
)
def test_one_coin_moves_the_marginal_only_where_fake_switches_survive(
    p: float, normaliser: float, distance: float
) -> None:
    """With p below 1 - q_max every keep is decided by the real coin: an exact marginal, and no fake switch at all."""
    chain = _x1(p, normaliser)
    found = _distance(exact_marginals(_shared(chain)), chain)
    assert found == pytest.approx(distance, abs=5e-4 if distance else 1e-12)
    assert _distance(exact_marginals(chain), chain) < 1e-12


def test_one_coin_exceeds_the_claim() -> None:
    """The claim counts the loose normaliser's switches on top of the fake ones; one coin has the larger of the two."""
    learner, delta = _learner(2, 1, 0.01, 0.01), 1e-3
    exact = lazy_target(learner, "one coin for both switches").exact().epsilon(delta)[0]
    assert exact == pytest.approx(0.938, abs=1e-3)
    assert exact_loss(*_chains(learner)).epsilon(delta)[0] < _claimed(learner, delta) == pytest.approx(0.656, abs=1e-3)
    assert exact > 1.4 * _claimed(learner, delta)


# --- regret: nobody who plays before seeing a batch is below the floor ------------------------------------------------


def _mean_regret(n: int, batch: int, chain: LazyChain) -> float:
    """The expected regret, averaged over all 2^n sequences of batches that are (B, 0) or (0, B), without sampling."""
    total = 0.0
    for coins in itertools.product((0, 1), repeat=n):
        losses = batch * np.array([[coin, 1 - coin] for coin in coins], dtype=float)
        played = float(np.sum(exact_marginals(evolve(chain, batch_losses=losses)) * losses))
        total += played - float(losses.sum(axis=0).min())
    return float(total / 2**n)


@pytest.mark.statistical
@pytest.mark.parametrize("p", [0.2, 0.9])
def test_learners_that_see_the_batch_to_come_fall_below_the_floor(p: float) -> None:
    """The floor is (B/2) E|sum of n signs|, towards 0.399 sqrt(T B); the correct learner attains it exactly.

    Looking ahead gains eta*T*B/4 with a fresh draw in every batch and small eta*B, and its share of that if lazy.
    """
    n, batch = 8, 4
    rate = math.sqrt(8.0 * math.log(2.0) / (n * batch**2))
    floor = batch / 2 * sum(math.comb(n, k) * abs(n - 2 * k) for k in range(n + 1)) / 2**n
    assert floor == pytest.approx(0.399 * math.sqrt(n * batch * batch), rel=0.04)
    chain = LazyChain(
        batch_losses=np.zeros((n, 2)),
        learning_rate=rate,
        fake_switch_probability=p,
        shadow_probability=p,
        log_normaliser=batch * rate,
    )
    assert _mean_regret(n, batch, chain) == pytest.approx(floor, abs=1e-12)
    ahead = _mean_regret(n, batch, _as(Shifted, chain, lag=-1))
    share = {0.2: 0.458, 0.9: 0.669}[p]
    assert floor - ahead == pytest.approx(share * rate * n * batch**2 / 4, rel=2e-3)
    assert ahead < 0.4 * floor


# --- draws: how many there are, and how many are paid for ------------------------------------------------------------


def _drawn(transcripts: Transcripts) -> tuple[int, int, int]:
    """Draws of actions and of shadows, and the boundaries at which they could have been."""
    assert transcripts.refreshed is not None
    boundaries = transcripts.runs * (transcripts.actions.shape[1] - 1)
    return int(transcripts.switched.sum()), int(transcripts.refreshed.sum()), boundaries


def _undercharged(learner: LazyExperts, drawn: tuple[int, int, int]) -> bool:
    """Whether draws are more than the plan pays for (binomial tests, 1e-6 together).

    Given the past each boundary draws with no more than the plan's chance, so that the sum is no more than binomial.
    """
    *seen, boundaries = drawn
    plan = learner.plan()
    chances = (plan.redraw, plan.refresh)
    tails = (stats.binom.sf(count - 1, boundaries, chance) for count, chance in zip(seen, chances, strict=True))
    return bool(min(tails) < FALSE_ALARM / 2)


def _together(chain: LazyChain, rng: np.random.Generator, runs: int) -> Transcripts:
    """The mutant whose shadow is redrawn exactly when the action is."""
    weights = np.exp(chain.log_weights)
    x, y = (rng.choice(chain.experts, runs, p=weights[0]) for _ in range(2))
    actions, shadows, switched = [x.copy()], [y.copy()], [np.zeros(runs, bool)]
    for s in range(1, chain.batches):
        moved = rng.random(runs) >= np.exp(chain.log_keep(s, x, y))
        for points in (x, y):
            points[moved] = rng.choice(chain.experts, int(moved.sum()), p=weights[s])
        actions.append(x.copy())
        shadows.append(y.copy())
        switched.append(moved)
    bits = np.array(switched).T
    return Transcripts(np.array(actions).T, bits, np.array(shadows).T, bits.copy())


@pytest.mark.parametrize("learner", [B, evolve(B, fake_switch_probability=0.02)], ids=["B", "B, small p"])
def test_draws_beyond_the_budget_are_counted(learner: LazyExperts) -> None:
    """Redraws of both kinds per boundary are within the event log's; an inverted coin's and a tied shadow's are not."""
    stream, runs, rng = learner.worst_case_neighbours()[0], 400, np.random.default_rng(31)
    assert not _undercharged(learner, _drawn(learner.simulate(stream, rng, runs)))
    inverted = _drawn(mutant_chain(learner, stream, "inverted fake coin").simulate(rng, runs))
    assert _undercharged(learner, inverted)
    p, c = learner.fake_switch_probability, learner.log_normaliser
    assert inverted[0] / inverted[2] == pytest.approx(1 - p * math.exp(-c), abs=0.01)
    assert _undercharged(learner, _drawn(_together(learner.chain(stream), rng, runs)))


@pytest.mark.statistical
def test_inverted_coin_exceeds_the_claim() -> None:
    """Also at p = 0.3, and the more the smaller p: the draws are not paid for."""
    for p, exact, claimed in ((0.3, 6.213, 5.932), (0.02, 5.987, 3.480)):
        learner = evolve(B, fake_switch_probability=p)
        assert _claimed(learner, 1e-2) == pytest.approx(claimed, abs=2e-3)
        assert lazy_target(learner, "inverted fake coin").exact().epsilon(1e-2)[0] == pytest.approx(exact, abs=1e-3)


def test_unclipped_losses_exceed_the_claim() -> None:
    exact = lazy_target(B, "unclipped losses").exact().epsilon(1e-2)[0]
    assert exact == pytest.approx(13.02, abs=0.01) and exact > 2 * _claimed(B, 1e-2)


def _together_exact(learner: LazyExperts) -> LossLaw:
    """Exact loss of the tied shadow: after the first boundary coins are constant, each redraw is two draws of +-eta."""
    chain0, chain1 = _chains(learner)
    decision = exact_decision_loss(chain0, chain1).forward[0]
    up = float(np.exp(chain0.log_weights[1]).max())
    unit = float(np.abs(chain0.log_weights[1] - chain1.log_weights[1]).max())
    keep = math.exp(float(chain0.log_keep(2, np.array(0), np.array(0))))
    two = np.array([(1 - up) ** 2, 2 * up * (1 - up), up * up])
    law = np.ones(1)
    for _ in range(learner.batches - 2):
        law = np.convolve(law, keep * np.array([0.0, 1.0, 0.0]) + (1 - keep) * two)
    moved = np.convolve(law, two)
    # The decision's atoms: kept if the loss is that of a bit "kept" of one of the states.
    x, y = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    stay = np.exp(chain0.log_keep(1, x, y))
    other = np.exp(chain1.log_keep(1, x, y))
    atoms, masses = [], []
    for k, k1 in zip(stay, other, strict=True):
        for bit, bit1, later in ((k, k1, law), (1 - k, 1 - k1, moved)):
            grid = 2 * unit * (np.arange(later.size) - later.size // 2)
            atoms.append(math.log(bit / bit1) + grid)
            masses.append(0.25 * bit * later)
    loss, mass = np.concatenate(atoms), np.concatenate(masses)
    order = np.argsort(loss)
    assert decision.masses.sum() == pytest.approx(1.0)
    return LossLaw(loss[order], mass[order], 0.0, 1e-9)


@pytest.mark.statistical
def test_tied_shadow_keeps_the_marginal_and_exceeds_the_claim() -> None:
    """A mixture of products in every batch, so X1 sees nothing; the oracle does where real switches are many."""
    chain = _x1(0.05, 0.5)
    weights = np.exp(chain.log_weights)
    joint = np.outer(weights[0], weights[0])
    x, y = np.arange(2)[:, None], np.arange(2)[None, :]
    for s in range(1, 30):
        keep = np.exp(chain.log_keep(s, x, y))
        joint = joint * keep + (joint * (1 - keep)).sum() * np.outer(weights[s], weights[s])
        assert np.abs(joint.sum(axis=1) - weights[s]).sum() < 1e-12
    learner, delta = _learner(1000, 10, 0.02, 0.02), 1e-2
    exact = _together_exact(learner).epsilon(delta)
    assert exact == pytest.approx(0.982, abs=1e-3)
    assert exact_loss(*_chains(learner)).epsilon(delta)[0] < _claimed(learner, delta) < exact
    # In B the shadow's own draws are paid for generously enough to cover the mutant.
    assert _together_exact(B).epsilon(delta) < _claimed(B, delta)


# --- who is read by which decision -----------------------------------------------------------------------------------


@frozen(kw_only=True, eq=False, slots=False)
class Normalised(LazyChain):
    """Keeps by the ratio of normalised densities, without a shadow: lazy, but its coins remember every person."""

    def log_keep(self, s: int, x: Indices, y: Indices | None) -> FloatArray:
        weights = self.log_weights
        ratio = weights[s][x] - weights[s - 1][x]
        return np.asarray(np.log1p(-self.fake_switch_probability) + np.minimum(0.0, ratio - 0.5))


@pytest.mark.parametrize("kind", [LazyChain, Normalised])
def test_normalised_coins_depend_on_a_person_in_all_later_rounds(kind: type[LazyChain]) -> None:
    """Which boundaries have different coins in the two worlds, to the last bit, given the state."""
    losses = np.tile([[1.0, 0.0], [0.0, 1.0]], (10, 1))
    other = losses.copy()
    other[4] = (0.0, 1.0)
    chains = [kind(batch_losses=stream, learning_rate=0.2, fake_switch_probability=0.02) for stream in (losses, other)]
    x = np.arange(2)
    changed = [s for s in range(1, 20) if np.any(chains[0].log_keep(s, x, None) != chains[1].log_keep(s, x, None))]
    assert changed == ([5] if kind is LazyChain else list(range(5, 20)))


@pytest.mark.parametrize(("normaliser", "epsilon"), [("paper", 0.943), ("tight", math.inf)])
def test_decisions_inside_a_batch_lack_a_fake_switch(normaliser: str, epsilon: float) -> None:
    """A, with two rounds to the batch: the loss of having no fake switch at all."""
    learner = evolve(A, rounds=4, batch=2, normaliser=normaliser)
    for view in ("run", "decision"):
        target = lazy_target(learner, "decisions every round", view=view)
        found = target.exact().epsilon(1e-3)[0]
        if math.isinf(epsilon) or view == "decision":
            assert found == pytest.approx(epsilon, abs=1e-3)
        else:
            assert found > epsilon
    bare = evolve(A, fake_switch_probability=0.0, shadow_probability=0.2, normaliser=normaliser)
    assert exact_decision_loss(*_chains(bare)).epsilon(1e-3)[0] == pytest.approx(epsilon, abs=1e-3)
    assert exact_loss(*_chains(learner)).epsilon(1e-3)[0] < _claimed(learner, 1e-3) < 0.08


# --- accountants -----------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_public_coins_charged_as_secret_sampling_fall_below_the_truth() -> None:
    n, rate, p, delta = 2000, 0.02, 0.05, 1e-5
    learner = _learner(n, 1, rate, p)
    draw, redraw = BoundedRange(2 * rate), learner.largest_redraw_probability
    mutant = accounting.compose(
        LazySwitchDecision((1 - p) * math.exp(-rate), 2 * rate),
        draw,
        (PoissonSampled(redraw, draw), n - 2),
        (PoissonSampled(p, draw), n - 1),
    )
    exact = exact_loss(*_chains(learner)).epsilon(delta)[0]
    assert accounting.epsilon(mutant, delta).upper == pytest.approx(0.774, abs=1e-3)
    assert exact == pytest.approx(1.385, abs=1e-3)
    assert exact <= _claimed(learner, delta) == pytest.approx(1.712, abs=2e-3)


@pytest.fixture(scope="module")
def actions_claim() -> tuple[LazyExperts, Claim]:
    """A learner that refreshes its shadow nearly always, and what is certified of its actions alone."""
    learner = _learner(100, 1, 0.1, 0.9, "tight")
    points = [(actions_epsilon(learner, delta).upper, delta) for delta in (1e-2, 0.1, 0.2, 0.3)]
    return learner, Claim(*points[0], also=points[1:])


@pytest.mark.statistical
def test_published_shadow_exceeds_the_claim_for_actions(actions_claim: tuple[LazyExperts, Claim]) -> None:
    learner, claim = actions_claim
    full, seen = exact_loss(*_chains(learner)), exact_actions_loss(*_chains(learner))
    assert claim.epsilon == pytest.approx(2.609, abs=2e-3)
    assert full.epsilon(1e-2)[0] == pytest.approx(3.430, abs=1e-3)
    assert all(seen.epsilon(delta)[0] <= epsilon < full.epsilon(delta)[0] for epsilon, delta in claim.points)
    assert samples_needed(seen, claim) == math.inf
    assert samples_needed(full, claim, confidence=1 - FALSE_ALARM) < 20_000


@pytest.mark.statistical
def test_audit_distinguishes_a_published_shadow_from_a_hidden_one(actions_claim: tuple[LazyExperts, Claim]) -> None:
    learner, claim = actions_claim
    for view in ("actions", "run"):
        target = lazy_target(learner, view=view)
        verdict = audit(
            target, claim=claim, neighbours=target.neighbours, samples=50_000, rng=37, confidence=1 - FALSE_ALARM
        )
        assert verdict.refuted == (view == "run")


# --- a budget of draws -----------------------------------------------------------------------------------------------

BUDGETED = LazyExperts(
    rounds=200, experts=2, learning_rate=0.1, fake_switch_probability=0.2, variant="dartboard", draw_budget=20
)


def _counting_changes(free: Transcripts, budget: int) -> Transcripts:
    """The mutant: a redraw that gives the same expert again is booked as no switch."""
    changes = np.zeros_like(free.switched)
    changes[:, 1:] = free.actions[:, 1:] != free.actions[:, :-1]
    before = np.concatenate([np.zeros((free.runs, 1), int), np.cumsum(changes, axis=1)[:, :-1]], axis=1)
    return Transcripts(free.actions, free.switched & (before < budget))  # frozen actions add nothing to the ratio


def test_redraws_of_the_same_expert_count() -> None:
    first, _ = BUDGETED.worst_case_neighbours()
    rng, runs = np.random.default_rng(41), 2000
    seen = BUDGETED.simulate(first, rng, runs)
    again = seen.switched[:, 1:] & (seen.actions[:, 1:] == seen.actions[:, :-1])
    assert again.any()  # there are such draws, and they are booked
    assert seen.switched.sum(axis=1).max() == 20
    mutant = _counting_changes(BUDGETED.chain(first).simulate(rng, runs), 20).switched.sum(axis=1)
    assert mutant.mean() == pytest.approx(36.5, abs=0.5)
    assert (mutant > 20).mean() > 0.99


@pytest.mark.statistical
def test_audit_sees_draws_beyond_the_budget() -> None:
    pair = BUDGETED.worst_case_neighbours()
    guarantee = BUDGETED.graph().guarantee()
    points = [(epsilon, guarantee.delta(epsilon).upper) for epsilon in (0.0, 0.3, 0.6, 1.0)]
    claim = Claim(guarantee.epsilon(1e-5).upper, 1e-5, also=points)

    def correct(losses: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
        return BUDGETED.log_likelihood_ratio(BUDGETED.simulate(losses, rng, runs), *pair)

    def mutant(losses: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
        free = BUDGETED.chain(losses).simulate(rng, runs)
        return log_likelihood_ratio(_counting_changes(free, 20), *(BUDGETED.chain(stream) for stream in pair))

    for target, refuted in ((correct, False), (mutant, True)):
        verdict = audit(target, claim=claim, neighbours=pair, samples=80_000, rng=43, confidence=1 - FALSE_ALARM)
        assert verdict.refuted == refuted
