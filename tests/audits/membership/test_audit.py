"""Membership inference: scores against closed forms, bounds on tight and broken trainings, reports that only describe.

Audits that must not refute run at confidence 1 - 1e-6 with fixed seeds: each fails by chance with probability at most
1e-6 over the choice of the seed.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.audits import Claim, TargetError, audit
from hockeystick.audits.membership.attack_rates import inclusion_game, membership_attack, membership_report
from hockeystick.audits.membership.audit import (
    CanaryScore,
    EstimatorTraining,
    Examples,
    MembershipTarget,
    SimulatedMembership,
    audit_membership,
    membership_pair,
    mislabelled_canary,
    outlying_canary,
    training,
)
from hockeystick.audits.membership.scores import ShadowScores, example_scores, fit_reference
from hockeystick.audits.neighbours.pairs import NotNeighboursError
from hockeystick.learners import LazyExperts

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
SURE = 1 - 1e-6

COUNTED = Examples(np.arange(6.0)[:, None])
ONE_MORE = Examples([[9.0]])
FLOWERS = Examples([[0.0], [1.0], [2.0]], ["a", "b", "a"])


def model(**methods: Any) -> Any:
    return SimpleNamespace(
        **{name: (lambda given: lambda features: np.asarray(given))(g) for name, g in methods.items()}
    )


class Mean:
    """An estimator without seeds: its fit is the mean of the features."""

    def fit(self, features: Any, labels: Any = None) -> None:
        self.seen = float(np.mean(features)), labels is not None


def classed(classes: list[int]) -> Any:
    two = model(predict_proba=[[0.5, 0.5]] * 3)
    two.classes_ = np.array(classes)
    return two


# ---------------------------------------------------------------------------------------------------------- scores


def test_scores_read_probabilities_margins_and_predictions() -> None:
    p = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])
    known = model(predict_proba=p)
    known.classes_ = np.array(["a", "b"])
    assert np.allclose(example_scores(known, FLOWERS), np.log([0.2, 0.5, 1.0]))
    assert np.allclose(example_scores(known, FLOWERS, "logit")[:2], [math.log(0.25), 0.0])
    assert 20 < example_scores(known, FLOWERS, "logit")[2] < 40  # finite where p = 1
    known.classes_ = np.array(["b", "c"])  # never saw an "a"
    assert np.allclose(example_scores(known, FLOWERS), np.log([1e-12, 0.5, 1e-12]))

    margins = model(decision_function=[2.0, 2.0, -1.0])
    margins.classes_ = np.array(["a", "b"])
    assert np.allclose(example_scores(margins, FLOWERS, "logit"), [-2.0, 2.0, 1.0])
    assert np.allclose(example_scores(margins, FLOWERS), -np.log1p(np.exp([2.0, -2.0, -1.0])))
    three = model(decision_function=[[1.0, 0.0, 5.0], [0.0, 3.0, 1.0], [7.0, 0.0, 1.0]])
    assert np.allclose(example_scores(three, Examples(np.zeros((3, 1)), [0, 1, 2]), "logit"), [-4.0, 2.0, -6.0])

    squares = Examples(np.zeros((2, 1)), [0.5, 1.0])
    assert np.allclose(example_scores(model(predict=[1.0, 1.0]), squares), [-0.25, 0.0])
    assert np.allclose(example_scores(model(predict=["a", "a", "a"]), FLOWERS), [1.0, 0.0, 1.0])
    unlabelled = Examples(np.zeros((2, 1)))
    assert np.allclose(example_scores(model(score_samples=[1.0, 2.0], decision_function=[0, 0]), unlabelled), [1, 2])


@pytest.mark.parametrize(
    "call",
    [
        lambda: example_scores(object(), FLOWERS),
        lambda: example_scores(model(predict=[1.0]), Examples(np.zeros(1))),
        lambda: example_scores(model(predict_proba=[[0.5, 0.5]]), FLOWERS),
        lambda: example_scores(model(score_samples=[np.nan, 0.0, 0.0]), FLOWERS),
        lambda: example_scores(model(predict=["a", "a", "a"]), FLOWERS, "likelihood"),  # type: ignore[arg-type]
        lambda: Examples([[np.nan]]),
        lambda: Examples(3.0),
        lambda: Examples([[1.0]], [1, 2]),
        lambda: Examples([[1.0]], [np.inf]),
        lambda: Examples([[1.0]], [[1]]),
        lambda: FLOWERS.joined(Examples([[1.0]])),
        lambda: FLOWERS.joined(Examples([[1.0, 2.0]], ["a"])),
        lambda: mislabelled_canary(Examples([[1.0]]), 0),
        lambda: mislabelled_canary(Examples([[1.0]], ["a"]), 0),
        lambda: mislabelled_canary(FLOWERS, 3),
        lambda: outlying_canary(FLOWERS, np.random.default_rng(1), distance=0.0),
        lambda: outlying_canary(FLOWERS.take([]), np.random.default_rng(1)),
        lambda: EstimatorTraining(3),
        lambda: EstimatorTraining(Mean),
        lambda: example_scores(classed([0, 1, 2]), FLOWERS),
        lambda: membership_pair(FLOWERS, FLOWERS.take([])),
        lambda: membership_pair(FLOWERS, FLOWERS.take([0]), replaced=1),
        lambda: membership_pair(FLOWERS, FLOWERS.take([0]), adjacency=REPLACE),
        lambda: membership_pair(FLOWERS, FLOWERS.take([0]), adjacency=REPLACE, replaced=3),
        lambda: membership_pair(FLOWERS, FLOWERS.take([0]), adjacency=Adjacency.LOCAL),
        lambda: training(3),
        lambda: SimulatedMembership(3, float),
        lambda: ShadowScores([[1.0]], [[1]]),
        lambda: ShadowScores([[1.0]], [True]),
        lambda: fit_reference(ShadowScores(np.zeros((3, 1)), [[True], [True], [False]])),
        lambda: fit_reference(ShadowScores(np.zeros((4, 1)), np.arange(4)[:, None] < 2), "best"),  # type: ignore[arg-type]
        lambda: membership_report([1.0, np.nan], [True, False]),
        lambda: membership_report([1.0, 2.0], [True, True]),
        lambda: membership_report([1.0, 2.0], [1, 0]),
        lambda: membership_report([1.0, 2.0], [True, False], fprs=(0.0,)),
        lambda: membership_report([1.0, 2.0], [True, False], confidence=1.0),
        lambda: membership_attack(NoisyCount(), FLOWERS),
        lambda: membership_attack(NoisyCount(), COUNTED, attack="best"),  # type: ignore[arg-type]
        lambda: membership_attack(NoisyCount(), COUNTED, shadows=5),
        lambda: membership_attack(NoisyCount(), COUNTED, shadows=2),
        lambda: membership_attack(NoisyCount(), COUNTED, models=0),
    ],
)
def test_meaningless_settings_are_refused(call) -> None:
    with pytest.raises(InvalidArgumentError):
        call()


@pytest.mark.parametrize("count", [5, 40])
def test_comparisons_are_those_of_normal_laws(count) -> None:
    rng = np.random.default_rng(1)
    scores, members = rng.normal(size=(2 * count, 3)) * [1, 2, 3], np.arange(2 * count)[:, None] < [count] * 3
    scores += 2 * members
    inside, outside = scores[:count], scores[count:]
    if count < 16:  # one variance for all
        spread_in = np.full(3, math.sqrt(inside.var(axis=0, ddof=1).mean()))
        spread_out = np.full(3, math.sqrt(outside.var(axis=0, ddof=1).mean()))
    else:
        spread_in, spread_out = inside.std(axis=0, ddof=1), outside.std(axis=0, ddof=1)
    given = rng.normal(size=(4, 3))
    log_in = stats.norm.logpdf(given, inside.mean(axis=0), spread_in)
    log_out = stats.norm.logpdf(given, outside.mean(axis=0), spread_out)
    shadows = ShadowScores(scores, members)

    assert np.allclose(fit_reference(shadows)(given), log_in - log_out)
    assert np.allclose(fit_reference(shadows, "lira-offline")(given), (given - outside.mean(axis=0)) / spread_out)
    assert np.allclose(fit_reference(shadows, "difference")(given), given - outside.mean(axis=0))
    assert np.isfinite(fit_reference(ShadowScores(np.ones((8, 1)), np.arange(8)[:, None] < 4))([[1.0], [2.0]])).all()


# ------------------------------------------------------------------------------------------------------- the game


def test_a_canary_makes_neighbours() -> None:
    canary = mislabelled_canary(FLOWERS, 1)
    assert canary.labels is not None and canary.labels.tolist() == ["a"] and canary.features.tolist() == [[1.0]]
    d0, d1 = membership_pair(FLOWERS, canary)
    assert len(d0) == 4 and len(d1) == 3
    d0, d1 = membership_pair(FLOWERS, canary, adjacency=REPLACE, replaced=0)
    assert d0.features.ravel().tolist() == [1.0, 1.0, 2.0] and len(d1) == 3
    far = outlying_canary(FLOWERS, np.random.default_rng(1), distance=5.0)
    assert abs(far.features[0, 0] - 1.0) == pytest.approx(5 * math.sqrt(2 / 3))
    with pytest.raises(NotNeighboursError):
        membership_pair(FLOWERS, FLOWERS, group=1)
    assert membership_pair(FLOWERS, FLOWERS).group == 3


class NoisyCount:
    """A model that is the number of its examples plus two-sided geometric noise: exactly 1/scale-DP."""

    def __init__(self, scale: float = 1.0, seeds: list[Any] | None = None) -> None:
        self.scale = scale
        self.seeds = seeds

    def __call__(self, data: Examples, rng: np.random.Generator) -> Any:
        if self.seeds is not None:
            sequence: Any = rng.bit_generator.seed_seq
            self.seeds.append((sequence.entropy, *sequence.spawn_key))
        p = 1 - math.exp(-1 / self.scale)
        released = len(data) + int(rng.geometric(p)) - int(rng.geometric(p))
        return SimpleNamespace(score_samples=lambda features: np.full(len(features), float(released)))


@pytest.mark.statistical
@pytest.mark.parametrize("attack", ["loss", "lira", "lira-offline", "difference"])
def test_a_tight_training_is_not_refuted_and_half_its_noise_is(attack) -> None:
    pair = membership_pair(COUNTED, ONE_MORE)
    given: dict[str, Any] = {"samples": 2500, "shadows": 20, "attack": attack, "rng": 1, "confidence": SURE}

    fair = audit_membership(NoisyCount(), ONE_MORE, pair, Claim(1.0), **given)
    broken = audit_membership(NoisyCount(0.5), ONE_MORE, pair, Claim(1.0), **given)

    assert not fair.refuted and fair.epsilon_lower < 1.0
    assert broken.refuted and broken.epsilon_lower < 2.0


def test_shadow_trainings_and_those_of_the_bound_have_nothing_in_common() -> None:
    seeds: list[Any] = []
    pair = membership_pair(COUNTED, ONE_MORE)
    verdict = audit_membership(
        NoisyCount(seeds=seeds), ONE_MORE, pair, Claim(1.0), samples=100, shadows=16, attack="lira", rng=3
    )
    shadows, bound = set(seeds[:32]), set(seeds[32:])
    assert len(seeds) == 32 + 200 + 2 * 8 and not shadows & bound  # eight of the bound are trained twice again
    assert verdict.samples == 100 and {seed for seed, *_ in bound} == {verdict.seed}
    assert verdict.seed not in {seed for seed, *_ in shadows}


def test_training_that_raises_is_a_target_error() -> None:
    def fails(data, rng):
        raise RuntimeError("diverged")

    for attack in ("loss", "lira"):
        with pytest.raises(TargetError, match="diverged"):
            audit_membership(
                fails, ONE_MORE, membership_pair(COUNTED, ONE_MORE), Claim(1.0), samples=40, attack=attack, rng=1
            )
    with pytest.raises(InvalidArgumentError):
        audit_membership(fails, ONE_MORE, (COUNTED, COUNTED), Claim(1.0), samples=40)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        audit_membership(
            fails,
            ONE_MORE,
            membership_pair(COUNTED, ONE_MORE),
            Claim(1.0),
            samples=40,
            attack="best",  # type: ignore[arg-type]
        )


def classes(rng: np.random.Generator, count: int = 40, features: int = 3) -> Examples:
    """Two classes that no rule tells apart: what a model knows of them it remembers."""
    return Examples(rng.normal(size=(count, features)), rng.integers(2, size=count))


@pytest.mark.statistical
def test_an_overfitted_tree_is_refuted() -> None:
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier()
    examples = classes(np.random.default_rng(1))
    canary = mislabelled_canary(examples, 0)

    verdict = audit_membership(
        tree, canary, membership_pair(examples, canary), Claim(1.0), samples=80, rng=1, confidence=SURE
    )

    assert verdict.refuted


class PerturbedRegression:
    """Logistic regression by output perturbation (Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1).

    Records have norm at most 1; the minimiser moves by at most 2/(n penalty) when one is replaced, and the noise has a
    density in proportion to exp(-epsilon n penalty |b| / 2): in one dimension, Laplace's.
    """

    def __init__(self, epsilon: float, noise: float = 1.0) -> None:
        self.epsilon, self.noise = epsilon, noise
        self.fitted: dict[int, float] = {}

    def __call__(self, data: Examples, rng: np.random.Generator) -> Any:
        from sklearn.linear_model import LogisticRegression

        n, penalty = len(data), 1.0
        if id(data) not in self.fitted:  # the minimiser is a function of the data: noise is all that is random
            found = LogisticRegression(C=1 / (n * penalty), fit_intercept=False, tol=1e-10).fit(
                data.features, data.labels
            )
            self.fitted[id(data)] = float(found.coef_[0, 0])
        weight = self.fitted[id(data)] + rng.laplace(scale=self.noise * 2 / (n * penalty * self.epsilon))
        weight = round(weight * 2.0**30) / 2.0**30
        margin = SimpleNamespace(decision_function=lambda features: weight * features[:, 0])
        margin.classes_ = np.array([0, 1])
        return margin


@pytest.mark.statistical
def test_private_regression_is_not_refuted_and_a_quarter_of_its_noise_is() -> None:
    """One record that pulls the other way moves the minimiser by half the bound, so half the noise would be private."""
    pytest.importorskip("sklearn")
    others = Examples(np.zeros((9, 1)), [0, 1, 0, 1, 0, 1, 0, 1, 0]).joined(Examples([[1.0]], [1]))
    canary = Examples([[1.0]], [0])
    pair = membership_pair(others, canary, adjacency=REPLACE, replaced=9)
    given: dict[str, Any] = {"samples": 1500, "attack": "logit", "rng": 1, "confidence": SURE}

    assert not audit_membership(PerturbedRegression(1.0), canary, pair, Claim(1.0), **given).refuted
    assert not audit_membership(PerturbedRegression(1.0, 0.5), canary, pair, Claim(1.0), **given).refuted
    assert audit_membership(PerturbedRegression(1.0, 0.25), canary, pair, Claim(1.0), **given).refuted


@pytest.mark.statistical
def test_a_learner_of_this_package_is_scored_by_the_loss_of_one_person() -> None:
    learner = LazyExperts(rounds=4, experts=2, batch=1, learning_rate=2.0, fake_switch_probability=0.5)
    d0, d1 = learner.worst_case_neighbours()
    exact = float(Claim.curve(learner.graph().guarantee(), 1e-6).epsilon)

    def first_person(transcripts: Any) -> np.ndarray:
        """What the person would lose in later rounds, if their losses were those of d0: expert 0 costs 1."""
        return np.asarray((transcripts.actions[:, 1:] == 0).sum(axis=1))

    target = SimulatedMembership(learner, first_person)
    verdict = audit(target, claim=Claim(exact), neighbours=(d0, d1), samples=4000, rng=1, confidence=SURE)
    assert not verdict.refuted
    assert audit(target, claim=Claim(0.05), neighbours=(d0, d1), samples=20_000, rng=1).refuted


def test_a_target_may_show_several_scores() -> None:
    pair = membership_pair(COUNTED, ONE_MORE)
    target = MembershipTarget(NoisyCount(0.25), lambda found: example_scores(found, COUNTED))
    assert audit(target, claim=Claim(1.0), neighbours=(pair.d0, pair.d1), samples=600, rng=1, confidence=SURE).refuted
    assert CanaryScore(ONE_MORE)(NoisyCount()(COUNTED, np.random.default_rng(1))) == pytest.approx(6, abs=30)


# ---------------------------------------------------------------------------------------------------------- reports


def test_a_report_is_the_roc_curve() -> None:
    rng = np.random.default_rng(1)
    members = rng.random(301) < 0.4
    scores = np.round(rng.normal(size=301) + members, 1)  # with ties
    report = membership_report(scores, members, fprs=(0.05,), confidence=0.9)

    inside, outside = scores[members], scores[~members]
    m, n = len(inside), len(outside)
    assert report.auc == pytest.approx(stats.mannwhitneyu(inside, outside).statistic / (m * n))
    assert report.advantage == pytest.approx(
        max(np.mean(inside >= cut) - np.mean(outside >= cut) for cut in np.unique(scores))
    )
    assert report.auc == pytest.approx(integrate.trapezoid(report.tpr, report.fpr))
    assert (report.fpr[0], report.tpr[0], report.fpr[-1], report.tpr[-1]) == (0, 0, 1, 1)
    rate = report.rates[0]
    assert np.mean(outside > rate.threshold) <= 0.05 < np.mean(outside >= rate.threshold)
    assert rate.tpr == np.mean(inside > rate.threshold) and rate.tpr_low < rate.tpr < rate.tpr_high
    k = math.floor(0.05 * n)
    assert stats.binom.cdf(k, n, rate.fpr_high) == pytest.approx(0.1)
    assert "bounds no epsilon" in str(report) and report.seed is None


@pytest.mark.statistical
def test_the_intervals_of_a_report_cover_independent_scores() -> None:
    """Normal scores one apart, 40 on each side: AUC, advantage and rates are known. Each interval at 80 % misses more
    often than 400 fair ones would with probability 1e-6."""
    rng, reports, most = np.random.default_rng(2), 400, int(stats.binom.isf(1e-6, 400, 0.2))
    auc, advantage = stats.norm.cdf(1 / math.sqrt(2)), 2 * stats.norm.cdf(0.5) - 1
    members = np.arange(80) < 40
    missed = np.zeros(4)
    for _ in range(reports):
        report = membership_report(rng.normal(size=80) + members, members, fprs=(0.1,), confidence=0.8)
        rate = report.rates[0]
        tpr, fpr = stats.norm.sf(rate.threshold - 1), stats.norm.sf(rate.threshold)
        missed += [
            not report.auc_low <= auc <= report.auc_high,
            not report.advantage_low <= advantage <= report.advantage_high,
            not rate.tpr_low <= tpr <= rate.tpr_high,
            fpr > rate.fpr_high,
        ]
    assert (missed <= most).all()
    assert missed[3] >= stats.binom.ppf(1e-6, reports, 0.2)  # this one is exact: never missing would be wrong too


@pytest.mark.parametrize("attack", ["loss", "lira", "lira-offline", "difference"])
def test_attacks_on_a_model_that_remembers_and_one_that_does_not(attack) -> None:
    pytest.importorskip("sklearn")
    from sklearn.dummy import DummyClassifier
    from sklearn.tree import DecisionTreeClassifier

    examples = classes(np.random.default_rng(1), 80)
    done: list[tuple[int, int]] = []
    remembers = membership_attack(
        DecisionTreeClassifier(), examples, attack=attack, shadows=8, rng=1, progress=lambda *at: done.append(at)
    )
    forgets = membership_attack(DummyClassifier(), examples, attack=attack, shadows=8, models=2, rng=1)

    assert remembers.auc > 0.65 and remembers.members == remembers.nonmembers == 40
    assert remembers.auc > forgets.auc and forgets.auc_low < 0.5
    assert forgets.members == 80
    assert done[-1][0] == done[-1][1] == (1 if attack == "loss" else 9)
    again = membership_attack(DecisionTreeClassifier(), examples, attack=attack, shadows=8, rng=remembers.seed)
    assert again.auc == remembers.auc and (again.tpr == remembers.tpr).all()


def test_an_inclusion_game_gives_scores_and_fair_coins() -> None:
    rng, canaries = np.random.default_rng(1), Examples(np.arange(400.0)[:, None])

    def remembers(data: Examples, rng: np.random.Generator) -> Any:
        known = set(data.features[:, 0].tolist())
        return SimpleNamespace(score_samples=lambda features: np.array([float(x in known) for x in features[:, 0]]))

    scores, included = inclusion_game(remembers, canaries, fixed=COUNTED, rng=rng)
    assert scores.shape == included.shape == (400,)
    assert (scores[6:] == included[6:]).all() and (scores[:6] == 1).all()  # the fixed ones are always in
    assert stats.binom.cdf(1e-6, 400, 0.5) < stats.binom.cdf(included.sum(), 400, 0.5) < 1 - 1e-6
    own, _ = inclusion_game(
        remembers, canaries, rng=rng, reading=lambda found, asked: -found.score_samples(asked.features)
    )
    assert set(own) == {0.0, -1.0}


def test_an_estimator_without_seeds_is_fitted_as_it_is() -> None:
    given, rng = Mean(), np.random.default_rng(1)
    assert training(given)(Examples([[1.0], [3.0]]), rng).seen == (2.0, False)
    assert training(given)(Examples([[1.0], [6.0]], ["a", "b"]), rng).seen == (3.5, True)
    assert not hasattr(given, "seen")  # a copy was


def test_a_user_defined_score_is_accepted() -> None:
    pair = membership_pair(Examples([[0.0], [1.0]]), Examples([[100.0]]))
    verdict = audit_membership(
        lambda examples, rng: float(examples.features.sum() + rng.normal()),
        Examples([[100.0]]),
        pair,
        claim=Claim(1.0),
        samples=300,
        attack=lambda total: total / 2,
        rng=3,
    )
    assert verdict.refuted
