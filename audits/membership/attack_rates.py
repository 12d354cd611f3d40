"""The success of membership inference on a trained model: ROC curve, AUC, advantage, TPR at low FPR.

**None of this bounds epsilon.** The examples share one model (or a few), so their scores are dependent, while every
interval here treats them as independent. The examples need not be the worst ones, and a better attack may exist. For a
bound, train many times on two neighbouring data sets
(:func:`hockeystick.audits.membership.audit.audit_membership`), or insert many canaries at random into one training and
audit their scores: :func:`inclusion_game` computes these, with one independent fair coin per canary.

If examples were independent, the intervals would hold for every sample size. That of the AUC follows from Hoeffding's
inequality for two-sample U-statistics (Hoeffding 1963, Section 5b: deviation t with probability at most
exp(-2 min(m, n) t^2)). That of the advantage, a maximum over thresholds, follows from the inequality of Dvoretzky,
Kiefer and Wolfowitz with Massart's constant (Massart 1990) for each of the two distribution functions. That of the
true-positive rate is Clopper and Pearson's, given the threshold, which is set on the non-members alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray
from hockeystick.accounting.validate import array, integer, items, probability, real
from hockeystick.audits.bounds.two_counts import clopper_pearson
from hockeystick.audits.membership.audit import Examples, training
from hockeystick.audits.membership.scores import Comparison, Reading, ShadowScores, example_scores, fit_reference
from hockeystick.audits.targets.calling import child_seed, known_seed

ScoreAll = Callable[[Any, Examples], npt.ArrayLike]

_SHADOWS, _TARGETS = 0, 1  # purposes of the derived seeds
_FPRS = (0.001, 0.01, 0.1)
_CAVEAT = (
    "describes these examples and models; it bounds no epsilon: examples share a model, their scores are taken as "
    "independent, and other records or attacks may show more"
)


@frozen
class RateAtFpr:
    """The true-positive rate at a threshold with false-positive rate at most ``fpr`` on the given non-members.

    See :func:`membership_report`, whose result holds such rates.

    Attributes:
      fpr: the requested false-positive rate.
      threshold: an example counts as a member if its score is above it; set on the non-members alone.
      tpr, tpr_low, tpr_high: the share of members above the threshold, and its interval.
      fpr_high: upper confidence bound on the false-positive rate of future non-members.
    """

    fpr: float
    threshold: float
    tpr: float
    tpr_low: float
    tpr_high: float
    fpr_high: float


@frozen(eq=False)
class MembershipReport:
    """The success of an attack that distinguishes members from non-members. It is descriptive: see ``caveat``.

    See :func:`membership_report` for an example.

    Attributes:
      attack: name of the attack.
      members, nonmembers: numbers of scores.
      auc, auc_low, auc_high: probability that a member scores above a non-member, with ties counted half.
      advantage, advantage_low, advantage_high: the largest TPR - FPR over thresholds.
      rates: true-positive rates at low false-positive rates.
      fpr, tpr: the ROC curve.
      confidence: confidence level of each interval, if examples were independent.
      seed: seed of all random numbers; None for a report on given scores.
      caveat: the limits of the report.
    """

    attack: str
    members: int
    nonmembers: int
    auc: float
    auc_low: float
    auc_high: float
    advantage: float
    advantage_low: float
    advantage_high: float
    rates: tuple[RateAtFpr, ...]
    fpr: FloatArray = field(repr=False)
    tpr: FloatArray = field(repr=False)
    confidence: float
    seed: int | None = None
    caveat: str = field(default=_CAVEAT, repr=False)

    def __str__(self) -> str:
        lines = [
            f"{self.attack}: {self.members} members, {self.nonmembers} non-members",
            f"AUC {self.auc:.3f} ({self.auc_low:.3f} to {self.auc_high:.3f}), "
            f"advantage {self.advantage:.3f} ({self.advantage_low:.3f} to {self.advantage_high:.3f})",
            *(
                f"TPR {rate.tpr:.3f} ({rate.tpr_low:.3f} to {rate.tpr_high:.3f}) at FPR {rate.fpr:g} "
                f"(at most {rate.fpr_high:.3g})"
                for rate in self.rates
            ),
            f"intervals at {self.confidence:g}; {self.caveat}",
        ]
        return "\n".join(lines)


def inclusion_game(
    train: object,
    canaries: Examples,
    *,
    fixed: Examples | None = None,
    rng: np.random.Generator,
    reading: Reading | ScoreAll = "logit",
) -> tuple[FloatArray, BoolArray]:
    """Trains one model on a random half of the canaries and scores all of them, for a one-run audit.

    Args:
      train: ``train(examples, rng)`` returns a model; or an estimator with ``fit``.
      canaries: each is included with probability 1/2, independently.
      fixed: examples that are always in the training set, before the canaries.
      rng: randomness of the coins and of the training.
      reading: "loss" or "logit", see :func:`hockeystick.audits.membership.scores.example_scores`; or a function
        ``score(model, canaries)``.

    Returns:
      The scores, shape (canaries,), which are larger for included ones if the attack works; and the mask of included
      canaries.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import Examples, inclusion_game
      >>> canaries = Examples(np.eye(8))
      >>> def train(examples, rng):  # a noisy sum
      ...     return examples.features.sum(axis=0) + rng.normal(0, 0.1, 8)
      >>> scores, included = inclusion_game(
      ...     train, canaries, rng=np.random.default_rng(1), reading=lambda model, canaries: canaries.features @ model)
      >>> bool(scores[included].min() > scores[~included].max())
      True
    """
    included = rng.random(len(canaries)) < 0.5
    return _trial(training(train), canaries, included, fixed, rng, reading), included


def membership_attack(
    train: object,
    examples: Examples,
    *,
    attack: Reading | Comparison = "lira",
    shadows: int = 32,
    models: int = 1,
    fixed: Examples | None = None,
    fprs: tuple[float, ...] = _FPRS,
    confidence: float = 0.95,
    rng: int | np.random.Generator | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> MembershipReport:
    """Trains models on random halves of the examples and reports how well an attack distinguishes the halves.

    Args:
      train: ``train(examples, rng)`` returns a model; or an estimator with ``fit``.
      examples: the population; each attacked model is trained on a random half of it.
      attack: "loss" or "logit" of the attacked model alone; "lira", "lira-offline" and "difference" compare the logit
        with that under shadow models.
      shadows: even number of shadow models. They are trained on random halves of the examples and on their complements,
        so every example is in half of them. They are never attacked.
      models: number of attacked models, whose scores are pooled.
      fixed: examples on which every model is trained, and which are not scored.
      fprs: false-positive rates at which to report the true-positive rate, each in (0, 1).
      confidence: confidence level of each interval.
      rng: a seed, or a generator that draws one; default: a fresh seed.
      progress: called as ``progress(done, total)`` with numbers of models.

    Raises:
      InvalidArgumentError: an argument is outside its domain, or there are fewer than four examples or shadow models.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import Examples, membership_attack
      >>> class Memory:  # remembers its training set
      ...     def fit(self, features):
      ...         self.seen = features
      ...     def score_samples(self, features):
      ...         return np.array([float((row == self.seen).all(axis=1).any()) for row in features])
      >>> membership_attack(Memory(), Examples(np.arange(40.0)[:, None]), attack="loss", rng=1).auc
      1.0
    """
    trained = training(train)
    if len(examples) < 4:
        raise InvalidArgumentError("examples", examples, f"has {len(examples)} examples", "give at least 4")
    compares = attack in ("lira", "lira-offline", "difference")
    if not compares and attack not in ("loss", "logit"):
        raise InvalidArgumentError("attack", attack, "is unknown", "use 'loss', 'logit', 'lira', 'lira-offline', ...")
    rates = _rates(fprs)
    confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    models = integer("models", models, low=1)
    count = integer("shadows", shadows, low=4) if compares else 0
    if count % 2:
        raise InvalidArgumentError("shadows", shadows, "is odd", "give an even number")
    seed = known_seed(rng)
    reading: Reading = "loss" if attack == "loss" else "logit"
    total = count + models
    scores, members = np.empty((total, len(examples))), np.empty((total, len(examples)), dtype=bool)
    for number in range(total):
        shadow = number < count
        key = (_SHADOWS, number) if shadow else (_TARGETS, number - count)
        generator = np.random.default_rng(child_seed(seed, *key))
        if shadow and number % 2:
            members[number] = ~members[number - 1]
        else:
            order = generator.permutation(len(examples))
            members[number] = order < len(examples) // 2
        scores[number] = _trial(trained, examples, members[number], fixed, generator, reading)
        if progress is not None:
            progress(number + 1, total)
    found = scores[count:]
    if attack == "lira" or attack == "lira-offline" or attack == "difference":
        found = fit_reference(ShadowScores(scores[:count], members[:count]), attack)(found)
    return _report(found.ravel(), members[count:].ravel(), attack, rates, confidence, seed)


def membership_report(
    scores: npt.ArrayLike,
    members: npt.ArrayLike,
    *,
    attack: str = "given scores",
    fprs: tuple[float, ...] = _FPRS,
    confidence: float = 0.95,
) -> MembershipReport:
    """Returns the report on given scores, where larger scores mean "member".

    Args:
      scores: finite scores of all examples, shape (examples,).
      members: whether each example is a member.
      attack: name of the attack, for the report.
      fprs: false-positive rates at which to report the true-positive rate, each in (0, 1).
      confidence: confidence level of each interval.

    Raises:
      InvalidArgumentError: the scores are not finite, the shapes differ, or there are no members or no non-members.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import membership_report
      >>> members = np.arange(2000) % 2 == 0
      >>> report = membership_report(np.random.default_rng(1).normal(members, 1.0), members, fprs=(0.1,))
      >>> round(report.auc, 2), round(report.rates[0].tpr, 2)  # exactly: 0.76 and 0.39
      (0.76, 0.35)
    """
    given = array("scores", scores, ndim=1).astype(float)
    inside = np.asarray(members)
    if inside.dtype.kind != "b" or inside.shape != given.shape:
        raise InvalidArgumentError("members", members, f"is not a boolean array of shape {given.shape}")
    confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    return _report(given, inside, attack, _rates(fprs), confidence, None)


def _rates(fprs: object) -> tuple[float, ...]:
    return tuple(probability("fprs", rate, open=True) for rate in items("fprs", fprs))


def _trial(
    train: Callable[[Examples, np.random.Generator], Any],
    examples: Examples,
    included: BoolArray,
    fixed: Examples | None,
    rng: np.random.Generator,
    reading: Reading | ScoreAll,
) -> FloatArray:
    chosen = examples.take(included)
    model = train(chosen if fixed is None else fixed.joined(chosen), rng)
    if callable(reading):
        return array("scores", reading(model, examples), shape=(len(examples),)).astype(float)
    return example_scores(model, examples, reading)


def _report(
    scores: FloatArray, members: BoolArray, attack: str, fprs: tuple[float, ...], confidence: float, seed: int | None
) -> MembershipReport:
    inside, outside = np.sort(scores[members]), np.sort(scores[~members])
    m, n = len(inside), len(outside)
    if not m or not n:
        raise InvalidArgumentError("members", (m, n), "leaves one side empty", "give members and non-members")
    below = np.searchsorted(outside, inside) + np.searchsorted(outside, inside, side="right")  # halves of ties
    auc = float(below.sum()) / (2 * m * n)
    cuts = np.concatenate([[np.inf], np.unique(scores)[::-1]])  # "score >= cut" is a positive
    tpr = 1 - np.searchsorted(inside, cuts) / m
    fpr = 1 - np.searchsorted(outside, cuts) / n
    advantage = float((tpr - fpr).max())
    miss = 1 - confidence
    off = math.sqrt(math.log(2 / miss) / (2 * min(m, n)))
    spread = sum(math.sqrt(math.log(4 / miss) / (2 * size)) for size in (m, n))
    return MembershipReport(
        attack=attack,
        members=m,
        nonmembers=n,
        auc=auc,
        auc_low=max(auc - off, 0.0),
        auc_high=min(auc + off, 1.0),
        advantage=advantage,
        advantage_low=max(advantage - spread, 0.0),
        advantage_high=min(advantage + spread, 1.0),
        rates=tuple(_rate(inside, outside, rate, confidence) for rate in fprs),
        fpr=fpr,
        tpr=tpr,
        confidence=confidence,
        seed=seed,
    )


def _rate(inside: FloatArray, outside: FloatArray, fpr: float, confidence: float) -> RateAtFpr:
    """Returns the rate above the (k+1)-th largest of n non-members, k = floor(fpr n).

    The false-positive rate of that threshold is at most a Beta(k + 1, n - k) variable (equal for a continuous law), so
    the Clopper-Pearson bound of k bounds it.
    """  # fmt: skip
    n = len(outside)
    k = min(math.floor(fpr * n * (1 + 1e-12)), n - 1)
    threshold = float(outside[n - 1 - k])
    hits = int((inside > threshold).sum())
    low, high = clopper_pearson(hits, len(inside), confidence=confidence)
    _, worst = clopper_pearson(k, n, confidence=confidence, side="upper")
    return RateAtFpr(fpr, threshold, hits / len(inside), float(low), float(high), float(worst))
