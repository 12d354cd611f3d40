"""Shares of cells with bounds that hold together, from what was counted in a round.

The bounds of local reports are Hoeffding's, with a union bound over cells. They cover the noise and, where clients have
random numbers and each answers one round or one threshold, the choice of these clients too. The bounds of sums are for
the noise alone: its exact tail if it is one discrete Laplace variable, Chernoff's inequality if it is a sum of shares.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import evolve, frozen
from scipy import optimize

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.learners.analytics.questions import ItemQuestion
from hockeystick.learners.analytics.survey import Oracle, Survey, SurveyRound
from hockeystick.mechanisms import HadamardResponse, OneBitChannel, SubsetSelection
from hockeystick.mechanisms.counts.simulated_bounds import STATED, CountsBound, stated_draws
from hockeystick.mechanisms.randomness.noise import Noise

SPOILT = 1e-6  # the probability that an honest group's sums are taken for spoilt ones


@frozen(kw_only=True, eq=False)
class Estimate:
    """Estimated shares with simultaneous bounds.

    Attributes:
        shares: The estimates; of a ``QuantileQuestion`` those of prefixes, without 0 and 1 at the ends.
        low, high: The ends of the intervals.
        bound: The largest half width of an interval, before it is cut off at 0 and 1.
        influence: The most that one message can move a share.
        answered: The number of answers in the estimate.
    """

    shares: FloatArray
    low: FloatArray
    high: FloatArray
    bound: float
    influence: float
    answered: int

    @classmethod
    def within(cls, shares: FloatArray, bound: float | FloatArray, influence: float, answered: int) -> Estimate:
        """Returns estimates in [0, 1], with intervals of this half width."""
        low, high = np.clip(shares - bound, 0.0, 1.0), np.clip(shares + bound, 0.0, 1.0)
        return cls(
            shares=np.clip(shares, 0.0, 1.0),
            low=low,
            high=high,
            bound=float(np.max(bound)),
            influence=influence,
            answered=answered,
        )


def failure_of(asked: SurveyRound) -> float:
    """Returns the probability with which a bound of one round may fail."""
    survey = asked.survey
    rounds = survey.question.rounds if isinstance(survey.question, ItemQuestion) else 1
    return (1.0 - survey.confidence) / rounds


def some(answered: int) -> int:
    """Returns the number of answers.

    Raises:
        InvalidArgumentError: there is none.
    """
    if answered < 1:
        raise InvalidArgumentError("answers", answered, "are not enough for an estimate", "wait for answers")
    return answered


def of_reports(asked: SurveyRound, oracle: Oracle, totals: IntArray, answered: int) -> Estimate:
    """Returns the estimate from the totals of local reports."""
    n = some(answered)
    if isinstance(oracle, HadamardResponse):
        shares = oracle.frequencies_from_counts(totals)
        one = np.zeros(len(totals), dtype=np.int64)
        one[0] = 1  # a report moves each count up or down by the same
        influence = 2.0 * float(oracle.frequencies_from_counts(one)[0]) / n
    else:
        p, q = _rates(oracle)
        shares, influence = (totals / n - q) / (p - q), 1.0 / (p - q) / n
    return Estimate.within(shares, oracle.accuracy(failure_of(asked), respondents=n), influence, n)


def _rates(oracle: Oracle) -> tuple[float, float]:
    if isinstance(oracle, SubsetSelection):
        return oracle.rates()
    assert not isinstance(oracle, HadamardResponse)
    lie = oracle.lie_probability()
    return 1.0 - lie, lie / (oracle.categories - 1.0)


def of_bits(asked: SurveyRound, channel: OneBitChannel, totals: IntArray) -> Estimate:
    """Returns the estimate from the ones, and all, of the bits of a mean or of thresholds (2, thresholds)."""
    ones, each = totals
    n = some(int(each.sum()))
    reach, failure = channel.reach(), failure_of(asked) / len(each)
    heard = np.maximum(each, 1)
    shares = np.where(each > 0, 0.5 + reach * (2.0 * ones / heard - 1.0), 0.5)
    widths = [channel.accuracy(failure, respondents=int(m)) if m else np.inf for m in each]
    least = int(each.min())
    return Estimate.within(shares, np.array(widths), 2.0 * reach / max(1, least), n)


def of_sums(
    asked: SurveyRound, noisy: IntArray, answered: int, *, shape: float, influence: float | None = None
) -> Estimate:
    """Returns the estimate from noisy sums, whose noise is discrete Laplace to the power of convolution ``shape``."""
    n, survey = some(answered), asked.survey
    failure = failure_of(asked)
    scale = survey.noise.scale
    if asked.cells == 1:  # a mean, whose steps are rounded at random
        width = noise_bound(scale, shape, 1, failure / 2) + math.sqrt(n * math.log(4 / failure) / 2)
        unit = 1.0 / (n * survey.steps)
        return Estimate.within(
            np.asarray(noisy * unit, dtype=np.float64), width * unit, 1.0 / n if influence is None else influence, n
        )
    bound = noise_bound(scale, shape, asked.cells, failure) / n
    shares = np.asarray(noisy / n, dtype=np.float64)
    return Estimate.within(shares, bound, 1.0 / n if influence is None else influence, n)


def of_ordered_sums(asked: SurveyRound, noisy: IntArray, answered: int, *, shape: float, influence: float) -> Estimate:
    """Returns the estimate of prefixes from noisy cells that add up to a known total, with a simulated bound."""
    n, k = some(answered), asked.cells
    places = np.arange(1, k) / k

    def bridged(cells: FloatArray) -> FloatArray:
        sums = np.cumsum(cells, axis=-1)
        return np.asarray(sums[..., :-1] - places * sums[..., -1:])

    level, a = asked.survey.confidence, math.exp(-1.0 / asked.survey.noise.scale)
    rng, errors = np.random.default_rng(STATED), []
    for _ in range(stated_draws(level, k)):
        drawn = rng.negative_binomial(shape, 1.0 - a, k) - rng.negative_binomial(shape, 1.0 - a, k)
        errors.append(np.abs(bridged(drawn.astype(float))).max())
    bound = CountsBound.of(np.sort(errors), level, n)
    shares = np.asarray(bridged(noisy.astype(float)) / n + places, dtype=np.float64)
    return Estimate.within(monotone(shares), bound.count / n, influence, n)


def of_cells(survey: Survey, cells: IntArray, answered: int, noise: Noise) -> Estimate:
    """Returns the estimate of prefixes that a trusted server releases from exact cells."""
    mechanism = evolve(survey.ordered, records=answered)
    found = mechanism.answers(mechanism.release(cells, noise=noise))
    bound = mechanism.error_bound(confidence=survey.confidence).count / answered
    return Estimate.within(found.cumulative[1:-1] / answered, bound, 1.0 / answered, answered)


def monotone(shares: FloatArray) -> FloatArray:
    """Returns the nearest shares that never fall, which are not farther from the truth in the largest error."""
    return np.asarray(optimize.isotonic_regression(shares).x)


def noise_bound(scale: float, shape: float, cells: int, failure: float) -> float:
    """Returns t such that none of some cells has noise beyond t, except with this probability.

    The noise is the difference of two negative binomial variables of this shape; with shape 1 it is discrete Laplace.
    """
    a = math.exp(-1.0 / scale)
    if shape == 1.0:  # P(|Z| > t) = 2 a^(t + 1)/(1 + a)
        return max(0.0, math.ceil(scale * math.log(2.0 * cells / ((1.0 + a) * failure))) - 1.0)
    # Chernoff: every rate x gives a bound, and the least of them is taken.
    rates = np.linspace(0.005, 0.995, 199) / scale
    moments = 2.0 * math.log1p(-a) - np.log1p(-a * np.exp(rates)) - np.log1p(-a * np.exp(-rates))
    return float(((math.log(2.0 * cells / failure) + shape * moments) / rates).min()) * (1.0 + 1e-9)
