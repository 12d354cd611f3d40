"""Estimates of epsilon that rest on a model. They are no bounds unless the model is true, and decide no verdict.

Each is an :class:`Estimate` that names its assumption. They are here because they are sharp where their model holds,
and because they are widely quoted; off their model they can be far above the truth, with any confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import optimize, special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.accounting.validate import integer, probability, real
from hockeystick.audits.bounds.two_counts import clopper_pearson
from hockeystick.audits.one_run.one_run import read_canaries

_NODES = np.linspace(-8.5, 8.5, 1001)  # of the trapezoidal rule on the normal scale
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()
_LARGEST = 700.0


@frozen
class Estimate:
    """An estimate of epsilon at delta. It is not a bound; ``assumption`` says what would make it one.

    Attributes:
      epsilon: the estimate.
      low, high: the interval around it; ``high`` is infinite where only a lower end is given.
      delta: where epsilon is stated.
      confidence: of the interval.
      kind: "confidence": a true model's epsilon lies in it so often; "credible": a posterior probability.
      assumption: in words.
      method: in words, with its source.
      mu, mu_low: the parameter of Gaussian DP behind it, where there is one.
    """

    epsilon: float
    low: float
    high: float
    delta: float
    confidence: float
    kind: Literal["confidence", "credible"]
    assumption: str
    method: str
    mu: float | None = None
    mu_low: float | None = None

    def __str__(self) -> str:
        mean = f"estimate (no bound): epsilon {self.epsilon:.4g} in [{self.low:.4g}, {self.high:.4g}]"
        return f"{mean} at delta={self.delta:g}, {self.kind} {self.confidence:g}; {self.method}; if {self.assumption}"


def estimate_gaussian(
    false_positives: int,
    negatives: int,
    false_negatives: int,
    positives: int,
    *,
    delta: float,
    confidence: float = 0.95,
) -> Estimate:
    """Estimates epsilon from the errors of one test, as if the trade-off curve were Gaussian.

    A mu-Gaussian-DP mechanism allows no test with Phi^-1(1 - FPR) - Phi^-1(FNR) > mu (Dong, Roth & Su 2022). Both rates
    are replaced by Clopper-Pearson upper bounds at half the error each. So ``mu_low`` is a valid bound whatever the
    mechanism: it is mu'-GDP for no mu' below. The step from mu to epsilon at delta is what needs the model.

    Args:
      false_positives, negatives: errors and trials on the data set without the record; the trials independent.
      false_negatives, positives: errors and trials on the one with it.
      delta: in (0, 1).
      confidence: in (0.5, 1), of the lower end.

    Raises:
      InvalidArgumentError: an argument is outside its domain.
    """
    x, n, y, m = _errors(false_positives, negatives, false_negatives, positives)
    delta, confidence = _levels(delta, confidence)
    tops = [
        clopper_pearson(count, trials, confidence=(1 + confidence) / 2, side="upper")[1]
        for count, trials in ((x, n), (y, m))
    ]
    low = max(0.0, -float(special.ndtri(tops[0]) + special.ndtri(tops[1])))
    mu = max(0.0, -float(special.ndtri((x + 0.5) / (n + 1)) + special.ndtri((y + 0.5) / (m + 1))))
    return _gaussian(
        mu,
        low,
        delta,
        confidence,
        "the mechanism's trade-off curve is that of mu-Gaussian DP",
        "error rates of one fixed test, Clopper-Pearson on both",
    )


def estimate_sum_statistic(
    scores: npt.ArrayLike, included: npt.ArrayLike, *, delta: float, confidence: float = 0.95
) -> Estimate:
    """Estimates epsilon from the difference of mean scores of canaries that were in and out, in standard deviations.

    As if the scores of one run were independent, normal with one variance, and shifted by mu where the canary was in:
    the difference in means is then normal with variance 1/n + 1/n' + mu^2/2(n + n') to first order (the sum statistic
    of one-run audits; the interval is Hedges & Olkin's 1985 for a standardised mean difference).

    Args:
      scores: finite, shape (canaries,); see :func:`hockeystick.audits.one_run.one_run.one_run_verdict`.
      included: whether each was in, same shape.
      delta: in (0, 1).
      confidence: in (0.5, 1), of the lower end.

    Raises:
      InvalidArgumentError: an argument is outside its domain, fewer than two canaries on a side, or no spread at all.
    """
    delta, confidence = _levels(delta, confidence)
    inside, outside = _sides(scores, included)
    n, m = len(inside), len(outside)
    if min(n, m) < 2:
        raise InvalidArgumentError("included", included, f"leaves {n} in and {m} out", "give two or more on each side")
    spread = math.sqrt((np.sum((inside - inside.mean()) ** 2) + np.sum((outside - outside.mean()) ** 2)) / (n + m - 2))
    if not spread > 0:
        raise InvalidArgumentError("scores", scores, "have no spread within a side")
    mu = float(inside.mean() - outside.mean()) / spread
    error = math.sqrt(1 / n + 1 / m + mu**2 / (2 * (n + m - 2)))
    low = mu - float(special.ndtri(confidence)) * error
    return _gaussian(
        max(0.0, mu),
        max(0.0, low),
        delta,
        confidence,
        "scores are independent across canaries, and normal with one variance and two means",
        "standardised difference of means, central limit theorem",
    )


def estimate_independent_canaries(
    scores: npt.ArrayLike, included: npt.ArrayLike, *, threshold: float, delta: float = 0.0, confidence: float = 0.95
) -> Estimate:
    """Estimates epsilon as if every canary were a run of its own: error rates of one threshold, Clopper-Pearson.

    Valid for several canaries in one run if they do not interact; for one canary a run it is an ordinary bound.

    Args:
      scores: finite, shape (canaries,) or (runs, canaries).
      included: whether each was in, same shape.
      threshold: a score of at least this is a guess "in"; fixed before the scores were seen.
      delta: in [0, 1].
      confidence: in (0.5, 1), of the lower end.

    Raises:
      InvalidArgumentError: an argument is outside its domain, or no canary on a side.
    """
    delta, confidence = _levels(delta, confidence, zero=True)
    threshold = real("threshold", threshold)
    inside, outside = _sides(scores, included)
    n, m = len(inside), len(outside)
    if not min(n, m):
        raise InvalidArgumentError("included", included, f"leaves {n} in and {m} out", "give one or more on each side")
    x, y = int(np.sum(inside < threshold)), int(np.sum(outside >= threshold))
    tops = [
        float(clopper_pearson(count, trials, confidence=(1 + confidence) / 2, side="upper")[1])
        for count, trials in ((x, n), (y, m))
    ]
    low = _epsilon(tops[0], tops[1], delta)
    return Estimate(
        epsilon=max(low, _epsilon((x + 0.5) / (n + 1), (y + 0.5) / (m + 1), delta)),
        low=low,
        high=math.inf,
        delta=delta,
        confidence=confidence,
        kind="confidence",
        assumption="canaries do not interact: each score depends on its own coin alone, and scores are independent",
        method="error rates of one fixed threshold, Clopper-Pearson on both",
    )


def estimate_bayesian(
    false_positives: int,
    negatives: int,
    false_negatives: int,
    positives: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> Estimate:
    """Returns the posterior median and equal-tailed credible interval of the epsilon that one test's errors imply.

    FPR and FNR have independent Jeffreys posteriors, Beta(errors + 1/2, successes + 1/2); epsilon is the least with
    (FPR, FNR) in the privacy region (Zanella-Beguelin et al. 2023). Its distribution function is a one-dimensional
    integral: over FPR, of the posterior probability of the FNRs that the region allows. The trapezoidal rule on the
    normal scale of FPR's quantiles gives it to about 1e-4.

    Args:
      false_positives, negatives, false_negatives, positives: see :func:`estimate_gaussian`.
      delta: in [0, 1).
      confidence: posterior probability of the interval, in (0.5, 1).

    Raises:
      InvalidArgumentError: an argument is outside its domain.
    """
    x, n, y, m = _errors(false_positives, negatives, false_negatives, positives)
    delta, confidence = _levels(delta, confidence, zero=True)
    nodes = special.ndtr(_NODES)
    fpr = np.where(
        nodes < 0.5,
        special.betaincinv(x + 0.5, n - x + 0.5, nodes),
        special.betainccinv(x + 0.5, n - x + 0.5, special.ndtr(-_NODES)),
    )

    def below(epsilon: float) -> float:
        """Posterior probability that the epsilon is at most this."""
        ratio = math.exp(epsilon)
        low = np.maximum(1 - delta - ratio * fpr, (1 - delta - fpr) / ratio)
        high = np.minimum(delta + ratio * (1 - fpr), 1 - (fpr - delta) / ratio)
        low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        inside = special.betainc(y + 0.5, m - y + 0.5, high) - special.betainc(y + 0.5, m - y + 0.5, low)
        return float(_WEIGHTS @ np.maximum(inside, 0.0))

    ends = [_quantile(below, level) for level in ((1 - confidence) / 2, 0.5, (1 + confidence) / 2)]
    return Estimate(
        epsilon=ends[1],
        low=ends[0],
        high=ends[2],
        delta=delta,
        confidence=confidence,
        kind="credible",
        assumption="the error rates of this test have the Jeffreys prior; a credible interval promises no coverage",
        method="joint posterior of both error rates (Zanella-Beguelin et al. 2023)",
    )


def _quantile(below: Callable[[float], float], level: float) -> float:
    if below(0.0) >= level:
        return 0.0
    high = 1.0
    while high < _LARGEST and below(high) < level:
        high *= 2
    return float(optimize.brentq(lambda epsilon: below(epsilon) - level, 0.0, high, xtol=1e-7))


def _gaussian(mu: float, low: float, delta: float, confidence: float, assumption: str, method: str) -> Estimate:
    return Estimate(
        epsilon=gaussian_profile.epsilon(mu, delta, upper=False),
        low=gaussian_profile.epsilon(low, delta, upper=False),
        high=math.inf,
        delta=delta,
        confidence=confidence,
        kind="confidence",
        assumption=assumption,
        method=method,
        mu=mu,
        mu_low=low,
    )


def _epsilon(fnr: float, fpr: float, delta: float) -> float:
    """Returns the least epsilon >= 0 that allows both rates, neither of them 0."""
    ratios = ((1 - delta - fnr) / fpr, (1 - delta - fpr) / fnr)
    return max(0.0, *(math.log(ratio) for ratio in ratios if ratio > 0))


def _levels(delta: object, confidence: object, *, zero: bool = False) -> tuple[float, float]:
    at = probability("delta", delta)
    if at == 0.0 and not zero:
        raise InvalidArgumentError("delta", delta, "makes the epsilon of Gaussian noise infinite", "give one above 0")
    if at == 1.0:
        raise InvalidArgumentError("delta", delta, "leaves nothing to estimate", "give one below 1")
    return at, real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)


def _errors(x: object, n: object, y: object, m: object) -> tuple[int, int, int, int]:
    negatives, positives = integer("negatives", n, low=1), integer("positives", m, low=1)
    return (
        integer("false_positives", x, low=0, high=negatives),
        negatives,
        integer("false_negatives", y, low=0, high=positives),
        positives,
    )


def _sides(scores: object, included: object) -> tuple[FloatArray, FloatArray]:
    """Returns the scores of canaries that were in, and of those that were out."""
    s, inside = read_canaries(scores, included)
    return s[inside], s[~inside]
