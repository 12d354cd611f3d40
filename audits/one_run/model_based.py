"""Estimates of epsilon that assume a model. They are not bounds unless the model is true, and affect no verdict.

Each is an :class:`Estimate` that states its assumption. They are widely quoted, and sharp if their model holds. If it
does not, they can be far above the truth at any confidence level.
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
    """An estimate of epsilon at delta, which is a bound only under its ``assumption``.

    See :func:`estimate_gaussian` for an example.

    Attributes:
      epsilon: the estimate.
      low, high: the interval around it; ``high`` is infinite if there is only a lower end.
      delta: the delta of epsilon.
      confidence: confidence level, or posterior probability, of the interval.
      kind: "confidence" for a confidence interval under the model; "credible" for a posterior probability.
      assumption: the model in words.
      method: the method in words, with its source.
      mu, mu_low: the parameter of Gaussian DP and its lower bound, if the method has them.
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
        mean = f"estimate (not a bound): epsilon {self.epsilon:.4g} in [{self.low:.4g}, {self.high:.4g}]"
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
    """Estimates epsilon from the errors of one test, assuming a Gaussian trade-off curve.

    A mu-Gaussian-DP mechanism allows no test with Phi^-1(1 - FPR) - Phi^-1(FNR) > mu (Dong, Roth & Su 2022). Both rates
    are replaced by Clopper-Pearson upper bounds at half the error each. So ``mu_low`` is a valid bound for every
    mechanism, which is not mu'-GDP for any mu' below it. Only the step from mu to epsilon at delta needs the model.

    Args:
      false_positives, negatives: errors and independent trials on the data set without the record.
      false_negatives, positives: errors and independent trials on the data set with the record.
      delta: in (0, 1).
      confidence: confidence level of the lower end, in (0.5, 1).

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> from hockeystick.audits import estimate_gaussian
      >>> found = estimate_gaussian(160, 1000, 160, 1000, delta=1e-5)  # the rates of mu = 2
      >>> round(found.mu, 1), round(found.mu_low, 1), round(found.epsilon, 1), round(found.low, 1)
      (2.0, 1.8, 9.9, 8.8)
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
    """Estimates epsilon from the standardised difference of the mean scores of included and excluded canaries.

    It assumes that the scores of one run are independent and normal with one variance, and shifted by mu for included
    canaries. To first order, the difference of the means is then normal with variance 1/n + 1/n' + mu^2/2(n + n') (the
    sum statistic of one-run audits; the interval is that of Hedges & Olkin 1985 for a standardised mean difference).

    Args:
      scores: finite, shape (canaries,); see :func:`hockeystick.audits.one_run.one_run.one_run_verdict`.
      included: whether each canary was included, same shape.
      delta: in (0, 1).
      confidence: confidence level of the lower end, in (0.5, 1).

    Raises:
      InvalidArgumentError: an argument is outside its domain, fewer than two canaries are included or excluded, or the
        scores have no spread.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import estimate_sum_statistic
      >>> included = np.arange(2000) % 2 == 0
      >>> scores = np.random.default_rng(1).normal(included, 1.0)  # mu = 1
      >>> found = estimate_sum_statistic(scores, included, delta=1e-5)
      >>> round(found.mu, 1), round(found.mu_low, 1)
      (1.0, 0.9)
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
    """Estimates epsilon from the error rates of one threshold, treating every canary as a run of its own.

    The Clopper-Pearson bound is valid for several canaries in one run if they do not interact, and always valid for one
    canary a run.

    Args:
      scores: finite, shape (canaries,) or (runs, canaries).
      included: whether each canary was included, same shape.
      threshold: a canary counts as included if its score is at least this; fixed before the scores were seen.
      delta: in [0, 1).
      confidence: confidence level of the lower end, in (0.5, 1).

    Raises:
      InvalidArgumentError: an argument is outside its domain, or no canary is included or none is excluded.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import estimate_independent_canaries
      >>> included = np.arange(2000) % 2 == 0
      >>> flipped = np.random.default_rng(1).random(2000) < 0.27  # randomised response, epsilon = 1
      >>> found = estimate_independent_canaries(1.0 * (included ^ flipped), included, threshold=0.5)
      >>> round(found.low, 1), round(found.epsilon, 1)
      (0.9, 1.0)
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
    """Returns the posterior median and equal-tailed credible interval of epsilon, given the errors of one test.

    FPR and FNR have independent Jeffreys posteriors, Beta(errors + 1/2, successes + 1/2), and epsilon is the least with
    (FPR, FNR) in the privacy region (Zanella-Beguelin et al. 2023). Its distribution function is the integral over FPR
    of the posterior probability of the FNRs in the region. The trapezoidal rule on the normal scale of FPR's quantiles
    gives it to about 1e-4.

    Args:
      false_positives, negatives, false_negatives, positives: see :func:`estimate_gaussian`.
      delta: in [0, 1).
      confidence: posterior probability of the interval, in (0.5, 1).

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> from hockeystick.audits import estimate_bayesian
      >>> found = estimate_bayesian(270, 1000, 270, 1000)  # randomised response, epsilon = 1
      >>> round(found.low, 1), round(found.epsilon, 1), round(found.high, 1)
      (0.9, 1.0, 1.1)
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
        """Returns the posterior probability that the true epsilon is at most ``epsilon``."""
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
    """Returns the least epsilon >= 0 that allows the two rates, which are above 0."""
    ratios = ((1 - delta - fnr) / fpr, (1 - delta - fpr) / fnr)
    return max(0.0, *(math.log(ratio) for ratio in ratios if ratio > 0))


def _levels(delta: object, confidence: object, *, zero: bool = False) -> tuple[float, float]:
    at = probability("delta", delta)
    if at == 0.0 and not zero:
        raise InvalidArgumentError("delta", delta, "makes the epsilon of Gaussian noise infinite", "give one above 0")
    if at == 1.0:
        raise InvalidArgumentError("delta", delta, "allows every mechanism", "give one below 1")
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
    """Returns the scores of included and of excluded canaries."""
    s, inside = read_canaries(scores, included)
    return s[inside], s[~inside]
