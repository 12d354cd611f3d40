"""The share of outputs to guess, and the claimed point to test: by the power that earlier outputs predict."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.walk.scores import Scores

_TRIED = 60  # shares, evenly spaced, and as many in geometric progression
_LEAST_LEVEL, _MOST_LEVEL = 1e-300, 0.5


@frozen
class Prior:
    """The share of outputs to guess before any is known, and the number of outputs that weigh as much."""

    share: float
    weight: float


NUMBERS = Prior(0.7, 200.0)
"""For single numbers that hardly recur, and for few values: the estimated share is too small by chance."""

OTHERS = Prior(0.6, 40.0)


@frozen
class Aim:
    """The aim of a plan: the share of outputs to guess, and the claimed point (epsilon, delta).

    ``standing`` is the predicted number of right guesses, in standard errors beyond the critical value.
    """

    share: float
    point: tuple[float, float]
    standing: float = 0.0


def best_aim(scores: Scores, claim: Claim, *, rest: int, level: float, prior: Prior) -> Aim:
    """Returns the aim with the largest predicted standing, in standard errors beyond the critical value.

    The accuracy of guesses is estimated by the scores of the same outputs that they were fitted to, which is best for
    few outputs by chance. So the share is shrunk towards ``prior``, the less the more outputs are known.

    Args:
      scores: learned from earlier outputs.
      claim: the claim to refute, at any one of its points.
      rest: number of trials to come.
      level: probability under the claim with which it may still be refuted.
      prior: of the share.
    """
    shares, accuracy, known = _accuracies(scores)
    best: Aim | None = None
    for point in claim.points:
        standing = _standings(accuracy, shares * rest, rest, point, level)
        chosen = int(np.argmax(standing))
        weight = known**2 / (known**2 + prior.weight**2)  # so many outputs show the share of a rare leak too
        target = weight * shares[chosen] + (1 - weight) * prior.share
        chosen = int(np.argmin(np.abs(shares - target)))
        if best is None or standing[chosen] > best.standing:
            best = Aim(float(shares[chosen]), point, float(standing[chosen]))
    assert best is not None  # a claim has a point
    return best


def sharpest_aim(scores: Scores, claim: Claim, *, rest: int, level: float) -> Aim:
    """Returns the aim with the largest predicted lower bound on epsilon at the claim's delta.

    Rare outputs are told apart best, and the best of many kinds owes most to chance: an accuracy loses
    sqrt(2 log(1/share)) standard errors, as in :mod:`hockeystick.audits.attacks.event_choice`.

    Args:
      scores: learned from earlier outputs.
      claim: the claim, which is refuted already.
      rest: number of trials to come.
      level: of the bound.
    """
    shares, accuracy, known = _accuracies(scores)
    guesses, leaks = np.maximum(shares * rest, 1.0), rest * claim.delta
    errors = np.sqrt(accuracy * (1 - accuracy) + 0.25 / guesses)
    chance = np.sqrt(2 * np.log(1 / shares)) * errors / np.sqrt(shares * known)
    z = -float(special.ndtri(min(max(level, _LEAST_LEVEL), _MOST_LEVEL)))
    right = guesses * (accuracy - chance) - z * np.sqrt(guesses) * errors - leaks
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(guesses > leaks, right / (guesses - leaks), 0.0)
    return Aim(float(shares[int(np.argmax(bound))]), (claim.epsilon, claim.delta))


def _accuracies(scores: Scores) -> tuple[FloatArray, FloatArray, int]:
    """Returns shares of the outputs, the accuracy of guesses of so many, and the number of earlier outputs."""
    sizes = np.abs(scores.ratios)
    order = np.argsort(-sizes, kind="stable")
    sizes = np.repeat(sizes[order], scores.seen[order])
    known = len(sizes)
    at = np.unique(np.concatenate([np.linspace(1, known, _TRIED), np.geomspace(1, known, _TRIED)]).astype(int))
    return at / known, np.asarray(np.cumsum(special.expit(sizes))[at - 1] / at), known


def _standings(
    accuracy: FloatArray, guesses: FloatArray, rest: int, point: tuple[float, float], level: float
) -> FloatArray:
    epsilon, delta = point
    p = float(special.expit(epsilon))
    z = -float(special.ndtri(min(max(level, _LEAST_LEVEL), _MOST_LEVEL)))
    gain = guesses * (accuracy - p) - rest * delta * (1 - p)
    # 1e-9 and 0.25 keep the deviations of certain guesses above 0; 0.25 is half a guess, squared.
    claimed = np.sqrt(guesses * p * (1 - p) + rest * delta * (1 - p) ** 2 + 1e-9)
    own = np.sqrt(guesses * accuracy * (1 - accuracy) + 0.25)
    return np.asarray((gain - z * claimed) / own)
