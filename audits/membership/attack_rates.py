"""How well membership inference does on a trained model: ROC, AUC, advantage, true positives at few false ones.

**None of this bounds epsilon.** The examples share one model (or a few), so their scores depend on each other, while
every interval here takes them as independent draws; and the examples are what they are, not the worst there could be.
An attack that does badly says nothing about a better one. For a bound, train many times on two neighbouring data sets
(:func:`hockeystick.audits.membership.audit.audit_membership`), or insert many canaries at random into one training and
audit their scores: :func:`inclusion_game` makes these, one independent fair coin per canary.

If examples were independent, the intervals would hold for every sample size: AUC by Hoeffding's inequality for
two-sample U-statistics (Hoeffding 1963, Section 5b: deviation t with probability at most exp(-2 min(m, n) t^2)); the
advantage, which is a maximum over thresholds, by the inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's
constant (Massart 1990) for each of the two distribution functions; the true-positive rate by Clopper and Pearson, given
the threshold, which is set on the non-members alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray
from hockeystick.accounting.validate import array, integer, items, probability, real
from hockeystick.audits.bounds.two_counts import clopper_pearson
from hockeystick.audits.membership.audit import Examples, training
from hockeystick.audits.membership.scores import Comparison, Reading, ShadowScores, example_scores, fit_reference
from hockeystick.audits.neighbours.search import child_seed
from hockeystick.audits.targets.calling import known_seed

ScoreAll = Callable[[Any, Examples], npt.ArrayLike]

_SHADOWS, _TARGETS = 0, 1  # what seeds are derived for
_FPRS = (0.001, 0.01, 0.1)
_CAVEAT = (
    "describes these examples and models; it bounds no epsilon: examples share a model, their scores are taken as "
    "independent, and other records or attacks may show more"
)


@frozen
class RateAtFpr:
    """True positives where at most a share ``fpr`` of the non-members at hand are false positives.

    Attributes:
      fpr: as asked for.
      threshold: an example counts as a member if its score is above; set on the non-members alone.
      tpr, tpr_low, tpr_high: the share of members above it, and its interval.
      fpr_high: an upper confidence bound on the false-positive rate of non-members to come.
    """

    fpr: float
    threshold: float
    tpr: float
    tpr_low: float
    tpr_high: float
    fpr_high: float


@frozen(eq=False)
class MembershipReport:
    """How well an attack tells members from non-members. Descriptive: see ``caveat``.

    Attributes:
      attack: what was done, in a word.
      members, nonmembers: numbers of scores.
      auc, auc_low, auc_high: probability that a member scores above a non-member, ties counted half.
      advantage, advantage_low, advantage_high: the largest TPR - FPR over thresholds.
      rates: true-positive rates at few false positives.
      fpr, tpr: the ROC curve.
      confidence: of each interval, if examples were independent.
      seed: of all random numbers; None for a report on given scores.
      caveat: what the report does not say.
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
    """Trains one model on a random half of the canaries and scores all: what a one-run audit takes.

    Args:
      train: ``train(examples, rng)`` returns a model; or an estimator with ``fit``.
      canaries: each is included with probability 1/2, independently.
      fixed: examples that are always in the training set, in front.
      rng: for the coins and the training.
      reading: "loss" or "logit", see :func:`hockeystick.audits.membership.scores.example_scores`; or a function
        ``score(model, canaries)``.

    Returns:
      Scores, shape (canaries,), larger for included ones if the attack works; and who was included.
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
    """Trains models on random halves of the examples and reports how well an attack tells the halves apart.

    Args:
      train: ``train(examples, rng)`` returns a model; or an estimator with ``fit``.
      examples: the population; each attacked model is trained on a random half of it.
      attack: "loss" or "logit" of the attacked model alone; "lira", "lira-offline" or "difference" compare the logit
        with that under shadow models.
      shadows: models for the comparison, an even number: each half of the examples and its complement are trained on,
        so every example is in one half of the shadow models. They are never attacked.
      models: attacked models; their scores are pooled.
      fixed: examples that every model is trained on, and that are not scored.
      fprs: false-positive rates at which to state the true-positive rate, each in (0, 1).
      confidence: of each interval.
      rng: a seed, or a generator that gives one; by default a fresh seed.
      progress: called as ``progress(done, total)`` with numbers of models.

    Raises:
      InvalidArgumentError: an argument is outside its domain; fewer than four examples or shadow models.
    """
    trained = training(train)
    if len(examples) < 4:
        raise InvalidArgumentError("examples", examples, f"are {len(examples)}", "give at least 4")
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
    """Returns the report on scores that were made elsewhere; larger scores mean "member".

    Raises:
      InvalidArgumentError: not finite, of two shapes, or nobody on one side.
    """
    given = array("scores", scores, ndim=1).astype(float)
    inside = np.asarray(members)
    if inside.dtype.kind != "b" or inside.shape != given.shape:
        raise InvalidArgumentError("members", members, f"is no boolean array of shape {given.shape}")
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
    auc = (float(stats.rankdata(scores)[members].sum()) - m * (m + 1) / 2) / (m * n)
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
