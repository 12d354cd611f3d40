"""Tests of leaders of noisy prefix sums: their cost, the law of their actions, and their regret."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

import numpy as np
import pytest
from divergences import gaussian_delta
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, InvalidArgumentError, Ledger
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits import Claim, audit
from hockeystick.learners import MultiplicativeWeights, PrivateFTRL, TreeExperts
from hockeystick.learners.common.prefix_sums import PublishedRuns
from hockeystick.learners.lazy import Ball, Box, LinearLosses, QuadraticLosses, RegressionLosses
from hockeystick.mechanisms import SimulationNoise
from hockeystick.mechanisms.streams import tree_blocks
from hockeystick.mechanisms.streams.factorisations import square_root

FALSE_ALARM = 1e-6
SUMS: tuple[Literal["tree", "square root"], ...] = ("tree", "square root")
BALL = Ball(3, 1.0)


# --- cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rounds", "levels"), [(2, 1), (3, 2), (4, 2), (5, 3), (1025, 11)])
def test_tree_costs_its_levels(rounds: int, levels: int) -> None:
    """(levels) d / (2 sigma^2) for experts, (levels) 4 L^2 / (2 sigma^2) for gradients; the last round is not read."""
    experts = TreeExperts(rounds=rounds, experts=5, scale=3.0).graph().guarantee().event
    assert experts.zcdp_rho() == pytest.approx(levels * 5 / (2 * 9))
    assert experts.zcdp_rho() >= levels * 5 / (2 * 9)
    gradients = PrivateFTRL(rounds=rounds, domain=BALL, lipschitz=2.0, scale=3.0).graph().guarantee().event
    assert gradients.zcdp_rho() == pytest.approx(levels * 16 / (2 * 9))


@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize("rho", [1e-3, 0.5])
def test_zcdp_and_calibration_are_met(sums: Literal["tree", "square root"], rho: float) -> None:
    learners = (
        TreeExperts.of_zcdp(rounds=65, experts=4, rho=rho, sums=sums),
        PrivateFTRL.of_zcdp(rounds=65, domain=BALL, lipschitz=2.0, rho=rho, sums=sums),
    )
    for learner in learners:
        assert 0.999999 * rho <= learner.graph().guarantee().event.zcdp_rho() <= rho
    calibrated = (
        TreeExperts.calibrated(rounds=65, experts=4, epsilon=0.7, delta=1e-6, sums=sums),
        PrivateFTRL.calibrated(rounds=65, domain=BALL, lipschitz=2.0, epsilon=0.7, delta=1e-6, sums=sums),
    )
    for learner in calibrated:
        assert 0.69999 <= learner.graph().guarantee().epsilon(1e-6).upper <= 0.7
        graph = learner.graph()
        assert [node.name for node in graph.nodes] == ["rounds", "prefix sums", "actions"]
        assert AccountantGraph.from_json(graph.to_json()) == graph


@given(st.floats(0.05, 8.0), st.sampled_from([1e-9, 1e-5]), st.sampled_from(SUMS), st.integers(2, 40))
@settings(max_examples=25)
def test_calibration_never_exceeds_its_target(epsilon: float, delta: float, sums: str, rounds: int) -> None:
    learner = TreeExperts.calibrated(rounds=rounds, experts=3, epsilon=epsilon, delta=delta, sums=sums)  # type: ignore[arg-type]
    assert 0.9999 * epsilon <= learner.graph().guarantee().epsilon(delta).upper <= epsilon


@pytest.mark.parametrize("sums", SUMS)
def test_claim_covers_the_exact_loss_of_the_sums(sums: Literal["tree", "square root"]) -> None:
    """The log-likelihood ratio is normal with a variance mu^2 that is known; the claim is at most a little above it.

    Estimates from below keep from the sums some of what all blocks would tell; the square root gives all away.
    """
    learner = TreeExperts(rounds=9, experts=4, scale=2.0, sums=sums)
    first, second = learner.worst_case_neighbours()
    seen = learner.simulate(first, np.random.default_rng(1), 40_000)
    ratio = learner.log_likelihood_ratio(seen, first, second)
    if sums == "tree":
        one = np.ones((8, 1))
        mu = math.sqrt(4 * float(one[:, 0] @ tree_blocks.precision_times(8, one)[:, 0]) / 2.0**2)
    else:
        mu = math.sqrt(2 * learner.mechanism.event().zcdp_rho())
    assert stats.kstest((ratio - mu**2 / 2) / mu, "norm").pvalue > FALSE_ALARM
    event = learner.graph().guarantee().event
    for epsilon in (0.0, 0.5, 2.0):
        truth, claimed = gaussian_delta(mu, epsilon), accounting.delta(event, epsilon).upper
        assert truth * (1 - 1e-9) <= claimed <= truth * (1.4 if sums == "tree" else 1 + 1e-6)


def _broken_experts(learner: TreeExperts, mutant: str | None) -> object:
    """Log-likelihood ratios of one mutant under its own law, on the learner's neighbours."""
    first, second = learner.worst_case_neighbours()
    small = TreeExperts(
        rounds=learner.rounds, experts=learner.experts, scale=learner.scale / math.sqrt(learner.experts)
    )
    steps, scale = learner.rounds - 1, learner.scale

    def target(losses: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
        if mutant == "fresh noise for every sum":
            noise = scale * rng.standard_normal((runs, steps, learner.experts))
            shift = np.cumsum(first[:-1] - second[:-1], axis=0) / scale
            sign = 1.0 if losses[0, 0] == 1.0 else -1.0
            return np.asarray((noise / scale * shift).sum(axis=(1, 2)) + sign * (shift**2).sum() / 2)
        used = small if mutant == "one expert's sensitivity" else learner
        return used.log_likelihood_ratio(used.simulate(losses, rng, runs), first, second)

    return target


@pytest.mark.statistical
@pytest.mark.parametrize("mutant", [None, "one expert's sensitivity", "fresh noise for every sum"])
def test_audit_refutes_the_mutants_of_experts(mutant: str | None) -> None:
    learner = TreeExperts.of_zcdp(rounds=17, experts=4, rho=0.1)
    verdict = audit(
        _broken_experts(learner, mutant),
        claim=Claim.curve(learner.graph().guarantee(), 1e-6),
        neighbours=learner.worst_case_neighbours(),
        samples=30_000,
        rng=2,
        confidence=1 - FALSE_ALARM,
    )
    assert verdict.refuted == (mutant is not None)


@pytest.mark.statistical
@pytest.mark.parametrize("mutant", [None, "sensitivity of add or remove", "gradients not scaled down"])
def test_audit_refutes_the_mutants_of_ftrl(mutant: str | None) -> None:
    learner = PrivateFTRL.of_zcdp(rounds=17, domain=BALL, lipschitz=2.0, rho=0.1)
    factor = 1.0 if mutant is None else 2.0  # twice the steps between the worlds, or half the noise
    broken = PrivateFTRL(rounds=17, domain=BALL, lipschitz=2.0 * factor, scale=learner.scale)
    streams = learner.worst_case_neighbours() if mutant is None else broken.worst_case_neighbours()

    def target(losses: LinearLosses, rng: np.random.Generator, runs: int) -> FloatArray:
        return broken.log_likelihood_ratio(broken.simulate(losses, rng, runs), *streams)

    verdict = audit(
        target,
        claim=Claim.curve(learner.graph().guarantee(), 1e-6),
        neighbours=streams,
        samples=30_000,
        rng=3,
        confidence=1 - FALSE_ALARM,
    )
    assert verdict.refuted == (mutant is not None)


def test_steep_gradients_cost_no_more() -> None:
    """Two streams ten times as steep as declared are refused, and a family that lies about it is scaled down."""
    learner = PrivateFTRL.of_zcdp(rounds=3, domain=BALL, lipschitz=1.0, rho=0.1)
    steep = np.zeros((3, 3))
    steep[0, 0] = 10.0
    with pytest.raises(InvalidArgumentError, match="lipschitz"):
        learner.simulate(LinearLosses(steep), np.random.default_rng(0), 5)

    class Lying(LinearLosses):
        def lipschitz(self, domain: object) -> FloatArray:
            return np.ones(3)

    worlds = [learner.simulate(Lying(sign * steep), np.random.default_rng(4), 5).sums for sign in (1, -1)]
    np.testing.assert_allclose(worlds[0][:, 0, 0] - worlds[1][:, 0, 0], 2.0)


# --- actions ---------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sums", "perturbation"),
    [("tree", 2.0), ("square root", 0.0)]
    + [pytest.param(*case, marks=pytest.mark.deep) for case in (("tree", 0.0), ("square root", 2.0))],
)
def test_experts_follow_their_law(sums: Literal["tree", "square root"], perturbation: float) -> None:
    learner = TreeExperts(rounds=8, experts=3, scale=1.5, sums=sums, perturbation=perturbation)
    losses = np.random.default_rng(5).random((8, 3))
    law = learner.marginals(losses)
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-10)
    actions = learner.simulate(losses, np.random.default_rng(6), 40_000).actions
    noise = SimulationNoise(7)
    released = np.array([learner.release(losses, noise=noise) for _ in range(2000)])
    for t in range(8):
        if perturbation == 0.0 and t == 0:
            assert not actions[:, 0].any() and not released[:, 0].any() and law[0].tolist() == [1, 0, 0]
            continue
        for drawn in (actions, released):
            counts = np.bincount(drawn[:, t].astype(int), minlength=3)
            assert stats.chisquare(counts, law[t] / law[t].sum() * len(drawn)).pvalue > FALSE_ALARM


@pytest.mark.statistical
def test_released_perturbation_has_its_scale() -> None:
    learner = TreeExperts(rounds=2, experts=2, scale=1e-3, perturbation=1.0)
    noise, losses = SimulationNoise(18), np.array([[1.0, 0.0], [0.0, 0.0]])
    second = sum(int(learner.release(losses, noise=noise)[1]) for _ in range(6000))
    assert stats.binomtest(second, 6000, stats.norm.cdf(1 / math.sqrt(2))).pvalue > FALSE_ALARM
    assert stats.binomtest(second, 6000, stats.norm.cdf(1 / math.sqrt(2) / 1.3)).pvalue < FALSE_ALARM


def test_two_experts_in_closed_form() -> None:
    """P(the first leads) = Phi((C_2 - C_1) / sqrt(2 var))."""
    learner = TreeExperts(rounds=40, experts=2, scale=1.0, perturbation=0.5)
    losses = np.random.default_rng(8).random((40, 2))
    gaps = np.concatenate([[0.0], np.cumsum(losses[:-1, 1] - losses[:-1, 0])])
    spread = np.sqrt(2 * (np.append(0.0, learner.mechanism.variances()) + 0.25))
    np.testing.assert_allclose(learner.marginals(losses)[:, 0], stats.norm.cdf(gaps / spread), atol=1e-10)


@pytest.mark.statistical
def test_released_points_follow_the_simulated_ones() -> None:
    learner = PrivateFTRL(rounds=6, domain=BALL, lipschitz=2.0, scale=0.5, regularisation=3.0)
    losses = QuadraticLosses(np.random.default_rng(9).normal(size=(6, 3)) / 10)
    simulated = np.asarray(learner.simulate(losses, np.random.default_rng(10), 4000).actions)
    noise = SimulationNoise(11)
    released = np.array([learner.release(losses, noise=noise) for _ in range(800)])
    assert BALL.contains(simulated.reshape(-1, 3).astype(float) * (1 - 1e-12)).all()
    for t in range(1, 6):
        for i in range(3):
            assert stats.ks_2samp(simulated[:, t, i], released[:, t, i]).pvalue > FALSE_ALARM
    assert learner.run(losses, np.random.default_rng(12)).shape == (6, 3)


def test_release_is_recorded() -> None:
    learner = TreeExperts(rounds=5, experts=2, scale=1.0)
    ledger = Ledger(learner.graph())
    actions = learner.release(np.zeros((5, 2)), ledger=ledger, name="prefix sums", noise=SimulationNoise(1))
    assert actions.shape == (5,) and actions.dtype == np.int64
    ftrl = PrivateFTRL(rounds=5, domain=BALL, lipschitz=1.0, scale=1.0)
    ftrl.release(
        LinearLosses(np.zeros((5, 3))), ledger=Ledger(ftrl.graph()), name="prefix sums", noise=SimulationNoise(1)
    )


# --- discounts -------------------------------------------------------------------------------------------------------


def forgetful(**given: Any) -> TreeExperts:
    return TreeExperts(**{"rounds": 40, "experts": 2, "scale": 1.5, "sums": "square root", "discount": 0.8, **given})


def test_a_person_costs_the_same_in_every_horizon() -> None:
    """Σ c_k² = 2 K(γ²)/π, as all but 1e-5 of it is in the first 400 coefficients; without a discount it grows."""
    short, long = (forgetful(rounds=n, discount=0.95) for n in (400, 20_000))
    rho = short.event().zcdp_rho()
    assert long.event().zcdp_rho() == pytest.approx(rho, rel=1e-9)
    assert rho == pytest.approx(special.ellipk(0.95**2) * 2 / math.pi * 2 / (2 * 1.5**2), rel=1e-4)
    assert long.following("hedge").regret_bound() == pytest.approx(short.following("hedge").regret_bound(), rel=1e-4)
    grows = [forgetful(rounds=n, discount=1.0).event().zcdp_rho() for n in (400, 20_000)]
    assert grows[1] > 1.2 * grows[0]


@pytest.mark.statistical
@pytest.mark.parametrize("given", [{}, {"perturbation": 2.0}, {"spread": 4.0}, {"spread": 4.0, "sums": "buffered"}])
def test_two_experts_with_a_discount_in_closed_form(given: dict[str, Any]) -> None:
    """P(the first leads) = Phi(γ (D_2 - D_1) / sqrt(2 var)), and the regret sums γ^(T - t) times the rounds'."""
    learner, losses = forgetful(**given), np.random.default_rng(8).random((40, 2))
    gap, gaps = 0.0, []
    for first, second in losses:
        gaps.append(0.8 * gap)
        gap = 0.8 * gap + second - first
    own = 0.8**2 * (np.append(0.0, learner.mechanism.variances()) + learner.perturbation**2)
    spread = np.sqrt(2 * (own if learner.spread is None else np.full(40, learner.spread**2)))
    with np.errstate(divide="ignore", invalid="ignore"):
        law = np.where(spread > 0, stats.norm.cdf(np.array(gaps) / spread), 1.0)
    np.testing.assert_allclose(learner.marginals(losses)[:, 0], law, atol=1e-10)
    weights = 0.8 ** np.arange(39.0, -1.0, -1.0)
    lost = weights @ (law * losses[:, 0] + (1 - law) * losses[:, 1])
    assert learner.expected_regret(losses) == pytest.approx(lost - (weights @ losses).min())
    assert learner.expected_regret(iter(np.split(losses, [7, 8]))) == pytest.approx(lost - (weights @ losses).min())
    seen = learner.simulate(losses, np.random.default_rng(9), 4000).actions
    for t in (1, 5, 39):
        assert abs((seen[:, t] == 0).mean() - law[t]) < 6 * math.sqrt(0.25 / 4000)


@pytest.mark.statistical
def test_a_discount_follows_a_change() -> None:
    """The first expert is good for 300 rounds, then the second; at the end only the discounted learner knows."""
    losses = np.tile([0.0, 1.0], (360, 1))
    losses[300:] = [1.0, 0.0]
    goal: dict[str, Any] = {"rounds": 360, "experts": 2, "epsilon": 1.0, "delta": 1e-6, "sums": "square root"}
    one, other = (TreeExperts.calibrated(**goal, discount=g) for g in (0.95, 1.0))
    assert one.effective_rounds == pytest.approx(20.0)
    assert one.marginals(losses)[-1, 1] > 0.8 > 0.05 > other.marginals(losses)[-1, 1]
    assert one.expected_regret(losses) <= one.regret_bound() < 0.9 * one.effective_rounds
    assert one.guarantee().epsilon(1e-6).upper <= 1.0


@pytest.mark.parametrize("discount", [0.0, 1.1, -0.5, math.nan, "a", None])
def test_bad_discounts_are_refused(discount: Any) -> None:
    for call in (forgetful, functools.partial(TreeExperts.of_zcdp, rounds=5, experts=2, rho=0.1, sums="buffered")):
        with pytest.raises(InvalidArgumentError, match="discount"):
            call(discount=discount)


@pytest.mark.parametrize(("discount", "height", "ratio"), [(0.5, 4, 2.229), (0.9, 6, 2.517), (0.99, 9, 2.725)])
def test_a_tree_of_discounted_sums_would_have_more_noise(discount: float, height: int, ratio: float) -> None:
    """The largest error of a sum at a sensitivity of 1, with the best estimate of a node from all nodes below it.

    A node sums its rounds with γ^age at its end. It is read itself, and its two halves are.
    """
    columns = [
        sum(discount ** (2 * (((i >> h) + 1 << h) - 1 - i)) for h in range(height + 1)) for i in range(2**height)
    ]
    variances, errors = [1.0], []
    for h in range(1, height + 1):
        variances.append(1.0 / (1.0 + 1.0 / (variances[-1] * (1.0 + discount ** (2**h)))))
    for t in range(1, 2**height + 1):
        nodes = [(h, t >> h << h) for h in range(height + 1) if t >> h & 1]
        errors.append(sum(variances[h] * discount ** (2 * (t - end)) for h, end in nodes))
    root = square_root(round(8 / (1 - discount)), discount=discount)
    own = root.sensitivity() * math.sqrt(float(np.square(root.coefficients).sum()))
    assert math.sqrt(max(columns) * max(errors)) / own == pytest.approx(ratio, rel=2e-3)


def test_a_tree_has_no_discount() -> None:
    goal: dict[str, Any] = {"rounds": 5, "experts": 2, "epsilon": 1.0, "delta": 1e-6, "discount": 0.9}
    for call in (
        lambda: forgetful(sums="tree"),
        lambda: TreeExperts.calibrated(**goal),
        lambda: TreeExperts.of_zcdp(rounds=5, experts=2, rho=0.1, discount=0.9),
    ):
        with pytest.raises(InvalidArgumentError, match="discount"):
            call()


# --- regret ----------------------------------------------------------------------------------------------------------


def test_expected_regret_agrees_with_runs() -> None:
    learner = TreeExperts(rounds=60, experts=3, scale=2.0, perturbation=3.0)
    losses = np.random.default_rng(13).random((60, 3))
    seen = learner.simulate(losses, np.random.default_rng(14), 3000).actions.astype(int)
    regret = losses[np.arange(60), seen].sum(axis=1) - losses.sum(axis=0).min()
    assert abs(regret.mean() - learner.expected_regret(losses)) <= 6 * regret.std() / math.sqrt(len(regret))
    assert learner.run(losses, np.random.default_rng(15)).shape == (60,)


def test_perturbation_saves_the_leader() -> None:
    """With hardly any noise the leader of alternating losses errs in every round; perturbed by sqrt(T) it does not."""
    losses = np.zeros((400, 2))
    losses[::2, 0] = losses[1::2, 1] = 1.0
    losses[0] = [0.5, 0.0]
    bare = TreeExperts(rounds=400, experts=2, scale=1e-3).expected_regret(losses)
    steady = TreeExperts(rounds=400, experts=2, scale=1e-3, perturbation=20.0).expected_regret(losses)
    assert bare > 150 > 3 * steady > 0
    assert steady < 2 * MultiplicativeWeights(rounds=400, experts=2).regret_bound()


@pytest.mark.statistical
def test_regret_falls_with_the_noise_and_grows_slower_than_the_rounds() -> None:
    rng, regrets = np.random.default_rng(16), {}
    for rounds in (256, 4096):
        losses = (rng.random((rounds, 4)) < [0.4, 0.5, 0.5, 0.5]).astype(float)
        for rho in (1e-3, 1e-1):
            regrets[rounds, rho] = TreeExperts.of_zcdp(rounds=rounds, experts=4, rho=rho).expected_regret(losses)
    assert regrets[4096, 1e-1] < regrets[4096, 1e-3]
    assert regrets[4096, 1e-1] < 8 * regrets[256, 1e-1]
    root = TreeExperts.of_zcdp(rounds=4096, experts=4, rho=1e-3, sums="square root")
    assert root.expected_regret(losses) < 1.1 * regrets[4096, 1e-3]


@pytest.mark.statistical
@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize("domain", [Ball(2, 0.7), Box((-1.0, 0.0), (0.5, 2.0))], ids=["ball", "box"])
def test_ftrl_regret_is_within_its_bound(sums: Literal["tree", "square root"], domain: Ball | Box) -> None:
    rng, rounds = np.random.default_rng(17), 120
    learner = PrivateFTRL.of_zcdp(rounds=rounds, domain=domain, lipschitz=1.0, rho=0.5, sums=sums)
    features = rng.normal(size=(rounds, 2))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    streams = (
        LinearLosses(np.tile([0.6, -0.8], (rounds, 1))),
        LinearLosses(features),
        RegressionLosses(features, np.sign(features[:, 0]), "logistic"),
    )
    grid = domain.project(np.stack(np.meshgrid(*[np.linspace(-2, 2, 81)] * 2), axis=-1).reshape(-1, 2))
    for losses in streams:
        lost = learner.losses_of(losses, learner.simulate(losses, rng, 400))
        regret = lost.mean() - losses.total(grid, 0, rounds).min()
        assert regret <= learner.regret_bound()
    still = PrivateFTRL(rounds=rounds, domain=domain, lipschitz=1.0, scale=1e-9, sums=sums)
    assert still.regret_bound() == pytest.approx(domain.largest_norm * math.sqrt(rounds), rel=1e-6)
    lost = still.losses_of(streams[1], still.simulate(streams[1], rng, 2))
    assert lost.max() - streams[1].total(grid, 0, rounds).min() <= still.regret_bound() + 0.1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: TreeExperts(rounds=1, experts=2, scale=1.0), "rounds"),
        (lambda: TreeExperts(rounds=5, experts=1, scale=1.0), "experts"),
        (lambda: TreeExperts(rounds=5, experts=2, scale=math.inf), "scale"),
        (lambda: TreeExperts(rounds=5, experts=2, scale=1.0, sums="list"), "sums"),
        (lambda: TreeExperts(rounds=5, experts=2, scale=1.0, perturbation=-1.0), "perturbation"),
        (lambda: TreeExperts(rounds=5, experts=2, scale=1.0).marginals(np.full((5, 2), 2.0)), "losses"),
        (lambda: TreeExperts.of_zcdp(rounds=5, experts=2, rho=0.0), "rho"),
        (lambda: TreeExperts.calibrated(rounds=5, experts=2, epsilon=0.0, delta=1e-6), "epsilon"),
        (lambda: TreeExperts.calibrated(rounds=5, experts=2, epsilon=1.0, delta=1e-6, sums="no"), "sums"),  # type: ignore[arg-type]
        (lambda: PrivateFTRL(rounds=5, domain=3, lipschitz=1.0, scale=1.0), "domain"),
        (lambda: PrivateFTRL(rounds=5, domain=BALL, lipschitz=0.0, scale=1.0), "lipschitz"),
        (lambda: PrivateFTRL(rounds=5, domain=BALL, lipschitz=1.0, scale=1.0, regularisation=0.0), "regularisation"),
        (
            lambda: PrivateFTRL(rounds=5, domain=BALL, lipschitz=1.0, scale=1.0).log_likelihood_ratio(
                PublishedRuns(np.zeros((1, 4, 3)), np.zeros((1, 5, 3))),
                QuadraticLosses(np.zeros((5, 3))),  # type: ignore[arg-type]
                LinearLosses(np.zeros((5, 3))),
            ),
            "losses",
        ),
    ],
)
def test_bad_arguments_are_refused(call, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        call()
