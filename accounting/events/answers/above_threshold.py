"""Sparse vector: report which queries of a stream exceed a noisy threshold, and pay only for those that do.

All bounds here rest on one substitution. The probability of an outcome is an integral over the threshold's noise ρ of
factors "below" (F(T + ρ − q), rising in ρ) and "above" (S(T + ρ − q), falling). If queries move by δ ∈ [−1, 1], moving
ρ by 1 as well leaves every "below" at least as likely; it costs one unit of the threshold's noise, and up to
1 − δ ≤ 2 units of the noise of each "above". So any number of queries below the threshold is free.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from attrs import evolve, field, frozen
from scipy import special

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.events.answers.drifting_law import BoundedBy, LogLipschitz
from hockeystick.accounting.events.basic.checked_event import is_boolean
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import DominatingPair, GaussianPair
from hockeystick.accounting.numerics.directed_rounding import quotient_down, quotient_up, sum_up

_Scaled = TypeVar("_Scaled", "AboveThreshold", "GaussianAboveThreshold")


def _queries(value: int) -> int:
    return validate.integer("queries", value, low=1)


def _answer_scale(value: float) -> float:
    return min(validate.real("answer_scale", value, low=field_checks.SMALLEST), field_checks.LARGEST)


@frozen
class AboveThreshold(BoundedBy):
    """Sparse vector with Laplace noise: report which queries exceed a noisy threshold, stop after ``answers`` of them.

        ε = 1/threshold_scale + 2·answers/query_scale,

    or 1/threshold_scale + answers/query_scale if all queries move in one direction (Lyu, Su & Li 2017, Thms 2 and 3).
    Only the bits are published. Each query may depend on the earlier bits.

    At distance t it is εt-DP, so it is dominated by Laplace noise of scale 1/ε (``LogLipschitz``). In the monotone case
    no outcome becomes likelier by more than answers/query_scale as the queries rise, as only the factors "above" rise.
    The noise is continuous; for noise on a grid, only ``pure_epsilon`` is known to hold.

    Attributes:
      threshold_scale: scale of the threshold's noise, which is drawn once, per unit of change of the queries.
      query_scale: scale of the fresh noise of each query, in the same unit.
      answers: the number of queries reported as "above", after which the run stops.
      monotone: whether all queries move in one direction, or not at all.

    Example:
      >>> from hockeystick.accounting import AboveThreshold
      >>> AboveThreshold(2.0, 8.0).pure_epsilon(), AboveThreshold(2.0, 8.0, answers=4, monotone=True).pure_epsilon()
      (0.75, 1.0)
    """

    threshold_scale: float = field(converter=field_checks.threshold_scale)
    query_scale: float = field(converter=field_checks.query_scale)
    answers: int = field(default=1, converter=field_checks.answers)
    monotone: bool = field(default=False, validator=is_boolean)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return _nearer(self, distance)

    def bound(self) -> PrivacyEvent:
        one, each = quotient_up(1.0, self.threshold_scale), quotient_up(self.answers, self.query_scale)
        return LogLipschitz(sum_up([one, each]), each) if self.monotone else LogLipschitz(sum_up([one, 2 * each]))


def _nearer(event: _Scaled, distance: float) -> _Scaled:
    """Returns the event with its noise divided by ``distance``."""
    threshold, query = (quotient_down(scale, distance) for scale in (event.threshold_scale, event.query_scale))
    return evolve(event, threshold_scale=threshold, query_scale=query)


@frozen
class CumulativeAboveThreshold(BoundedBy):
    """``AboveThreshold`` for running sums, up to the first "above": a record moves all later queries equally.

    Each query is a running sum with one term in [0, 1] per record; which terms it holds is public. Replacing the record
    at one place moves every query from there on by the same δ ∈ [−1, 1], and no earlier query. As the sums rise, an
    outcome becomes likelier by at most e^{1/query_scale}, through the last query, and less likely by at most
    e^{1/threshold_scale}, as threshold and last query move together. A window of a stream between two answers, with
    fresh noise, is one such event, and a record lies in only one window. Sums must not be clipped or normalised.

    Among several records some may rise and others fall: at a distance above 1 both scales are the smaller one.

    Attributes:
      threshold_scale, query_scale: scales of the Laplace noise on the threshold and on each query, per unit of a term.

    Example:
      >>> from hockeystick.accounting import AboveThreshold, CumulativeAboveThreshold
      >>> CumulativeAboveThreshold(4.0, 8.0).pure_epsilon(), AboveThreshold(4.0, 8.0).pure_epsilon()
      (0.25, 0.5)
    """

    threshold_scale: float = field(converter=field_checks.threshold_scale)
    query_scale: float = field(converter=field_checks.query_scale)

    def _scaled(self, distance: float) -> PrivacyEvent:
        threshold, query = self.threshold_scale, self.query_scale
        if distance > 1.0:
            threshold = query = min(threshold, query)
        return CumulativeAboveThreshold(quotient_down(threshold, distance), quotient_down(query, distance))

    def bound(self) -> PrivacyEvent:
        return LogLipschitz(quotient_up(1.0, self.threshold_scale), quotient_up(1.0, self.query_scale))


@frozen
class GaussianAboveThreshold(PrivacyEvent):
    """Sparse vector with Gaussian noise, over at most ``queries`` queries; it stops after ``answers`` "above".

    The threshold's noise is drawn once, and fresh noise for each query. The Rényi divergence is at most

        D_α(threshold moved by 1) + answers·D_α(query moved by 2) + ln(number of outcomes)/(α − 1),

    a form of the bounds of Zhu & Wang 2020. By joint convexity, P^α·Q^{1−α} of an outcome is at most the integral of
    the same expression in the integrands, with that of Q at the moved threshold (see the module): at most 1 for each
    "below", and e^{(α−1)·D_α} for each "above". There are at most Σ_{j ≤ answers} C(queries, j) outcomes. A query moves
    by 1 instead of 2 if all queries move in one direction (``monotone``).

    The profile comes from another bound: publishing each query minus the threshold, with both noises, is no worse than
    a Gaussian mechanism of ``queries`` values.

    Attributes:
      threshold_scale, query_scale: standard deviations per unit of change of the queries.
      queries: the largest number of queries before the stream is halted.
      answers: the largest number of queries reported as "above".
      monotone: whether all queries move in one direction, or not at all.

    Raises:
      InvalidArgumentError: a number outside its domain.

    Example:
      >>> from hockeystick.accounting import Gaussian, GaussianAboveThreshold, compose, epsilon
      >>> every = compose((Gaussian(20.0), 1000))  # a noisy value for each of the queries
      >>> [round(epsilon(event, 1e-6).upper, 2) for event in (GaussianAboveThreshold(10.0, 20.0, 1000), every)]
      [0.81, 8.31]
    """

    threshold_scale: float = field(converter=field_checks.threshold_scale)
    query_scale: float = field(converter=field_checks.query_scale)
    queries: int = field(converter=_queries)
    answers: int = field(default=1, converter=field_checks.answers)
    monotone: bool = field(default=False, validator=is_boolean)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return _nearer(self, distance)

    def zcdp_rho(self) -> float:
        return self.queries / (2 * self.query_scale**2)

    def _rdp(self, orders: Array) -> Array:
        a = np.asarray(orders, dtype=float)
        answers, moved = min(self.answers, self.queries), 1.0 if self.monotone else 2.0
        rho = 1.0 / (2 * self.threshold_scale**2) + answers * moved**2 / (2 * self.query_scale**2)
        return np.minimum(self.zcdp_rho() * a, rho * a + log_outcomes(self.queries, answers) / (a - 1))

    def pair(self) -> DominatingPair:
        return GaussianPair(math.sqrt(self.queries) / self.query_scale)


def log_outcomes(queries: int, answers: int) -> float:
    """Returns ln Σ_{j ≤ answers} C(queries, j), the logarithm of the number of outcomes, rounded up."""
    n, c = float(queries), float(answers)
    everything = n * math.log(2.0)
    if 2 * c >= n:
        return everything * (1 + 1e-15)
    # C(n, j−1)/C(n, j) ≤ c/(n−c+1) for j ≤ c: a geometric series
    most = -math.log1p(n) - float(special.betaln(n - c + 1.0, c + 1.0))
    series = -math.log1p(-c / (n - c + 1.0))
    return min(everything, (most + series) * (1 + 1e-12) + 1e-12)


def sparse_vector(
    threshold_scale: float,
    query_scale: float,
    *,
    answers: int = 1,
    monotone: bool = False,
    redraw: bool = False,
    answer_scale: float | None = None,
) -> PrivacyEvent:
    """Returns the event of a whole sparse-vector run with Laplace noise.

    Args:
      threshold_scale, query_scale, answers, monotone: as for ``AboveThreshold``.
      redraw: whether the threshold's noise is redrawn after each "above", which makes a composition of ``answers``
        runs.
      answer_scale: if given, each "above" also publishes the query's value under fresh Laplace noise of this scale per
        unit of its change, a further access for each answer. Publishing the noisy value that was compared is not
        private at this cost (Lyu, Su & Li 2017, §3.2).

    Raises:
      InvalidArgumentError: a number outside its domain.

    Example:
      >>> from hockeystick.accounting import sparse_vector
      >>> [sparse_vector(2.0, 8.0, answers=3, redraw=redraw).pure_epsilon() for redraw in (False, True)]
      [1.25, 2.25]
    """
    count = field_checks.answers(answers)
    parts: list[Any] = [AboveThreshold(threshold_scale, query_scale, count, monotone)]
    if redraw:
        parts = [(AboveThreshold(threshold_scale, query_scale, 1, monotone), count)]
    if answer_scale is not None:
        parts.append((LogLipschitz(1.0 / _answer_scale(answer_scale)), count))
    return compose(*parts)
