"""Sparse vector: report which queries of a stream exceed a noisy threshold, for the price of the few that do.

All bounds here rest on one substitution. The law of an outcome is an integral over the threshold's noise ρ of factors
"below" (F(T + ρ − q), rising in ρ) and "above" (S(T + ρ − q), falling). Where queries moved by δ ∈ [−1, 1], moving ρ by
1 as well leaves every "below" at least as likely; it costs the threshold's noise one unit, and each "above" up to
1 − δ ≤ 2. So the queries below are free, however many.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import field, frozen
from scipy import special

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.events.answers.drifting_law import BoundedBy, LogLipschitz
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import DominatingPair, GaussianPair
from hockeystick.accounting.numerics.directed_rounding import quotient_down, quotient_up, sum_up
from hockeystick.accounting.validate import boolean


def _queries(value: int) -> int:
    return validate.integer("queries", value, low=1)


def _answer_scale(value: float) -> float:
    return min(validate.real("answer_scale", value, low=field_checks.SMALLEST), field_checks.LARGEST)


def _check_monotone(_: object, __: object, value: object) -> None:
    boolean("monotone", value)


@frozen
class AboveThreshold(BoundedBy):
    """Sparse vector with Laplace noise: report which queries exceed a noisy threshold, stop after ``answers`` of them.

    The threshold's noise is drawn once, with scale ``threshold_scale``; each query's afresh, with scale
    ``query_scale``; both are per unit of change of the queries. ε = 1/threshold_scale + 2·answers/query_scale, or
    1/threshold_scale + answers/query_scale where all queries move in one direction (``monotone``); Lyu, Su & Li 2017,
    Thms 2 and 3. Nothing but the bits is published. Queries may be chosen after the bits before.

    At distance t it is εt-DP, so it is dominated by Laplace noise of scale 1/ε (``LogLipschitz``). In the monotone case
    no outcome gets likelier by more than answers/query_scale as the queries rise: then only the factors "above" do. The
    noise is continuous: of noise on a grid only ``pure_epsilon`` is certain.
    """

    threshold_scale: float = field(converter=field_checks.threshold_scale)
    query_scale: float = field(converter=field_checks.query_scale)
    answers: int = field(default=1, converter=field_checks.answers)
    monotone: bool = field(default=False, validator=_check_monotone)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return AboveThreshold(
            quotient_down(self.threshold_scale, distance),
            quotient_down(self.query_scale, distance),
            self.answers,
            self.monotone,
        )

    def bound(self) -> PrivacyEvent:
        one, each = quotient_up(1.0, self.threshold_scale), quotient_up(self.answers, self.query_scale)
        return LogLipschitz(sum_up([one, each]), each) if self.monotone else LogLipschitz(sum_up([one, 2 * each]))


@frozen
class CumulativeAboveThreshold(BoundedBy):
    """AboveThreshold for running sums, up to the first "above": one record moves all later queries alike.

    Each query is a running sum with one term per record, in [0, 1]; which terms is public. Another record in one place
    moves every query from there on by one δ ∈ [−1, 1], and none before. As the sums rise an outcome gets likelier by
    e^{1/query_scale} at most, through the last query, and less likely by e^{1/threshold_scale}, as threshold and last
    query move together. A window of a stream between two answers, with fresh noise, is one such event, and a record
    lies in one window only. Sums must not be clipped or normalised. Of several records some may rise and others fall:
    at a distance above 1 both numbers are the larger one.

    Args:
      threshold_scale, query_scale: of the Laplace noise on the threshold and on each query, per unit of a term.
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
    """Sparse vector with Gaussian noise, over at most ``queries`` queries; stops after ``answers`` "above".

    The threshold's noise is drawn once, each query's afresh. Its Rényi divergence is at most

        D_α(threshold moved by 1) + answers·D_α(query moved by 2) + ln(number of outcomes)/(α − 1),

    a form of Zhu & Wang 2020's bounds. By joint convexity an outcome's P^α·Q^{1−α} is at most the integral of the same
    expression in the integrands, those of Q at the moved threshold (see the module): at most 1 for each "below", and
    e^{(α−1)·D_α} for each "above". There are Σ_{j ≤ answers} C(queries, j) outcomes at most. A query moves by 1 only
    where all move in one direction (``monotone``).

    Another bound, which gives the profile, is to publish each query less the threshold, with both noises: no worse than
    a Gaussian mechanism of ``queries`` values.

    Args:
      threshold_scale, query_scale: standard deviations per unit of change of the queries.
      queries: the most that are asked before the stream is halted.
      answers: how many may be reported as above.
      monotone: all queries move in one direction, or not at all.

    Raises:
      InvalidArgumentError: a number outside its domain.
    """

    threshold_scale: float = field(converter=field_checks.threshold_scale)
    query_scale: float = field(converter=field_checks.query_scale)
    queries: int = field(converter=_queries)
    answers: int = field(default=1, converter=field_checks.answers)
    monotone: bool = field(default=False, validator=_check_monotone)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return GaussianAboveThreshold(
            quotient_down(self.threshold_scale, distance),
            quotient_down(self.query_scale, distance),
            self.queries,
            self.answers,
            self.monotone,
        )

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
    """Returns ln Σ_{j ≤ answers} C(queries, j), rounded up: how many bit strings have so few ones."""
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
      redraw: the threshold's noise is drawn afresh after each "above", which makes a composition of ``answers`` runs.
      answer_scale: with each "above" the query's value is published, under fresh Laplace noise of this scale per unit
        of its change: a further access for each answer. Publishing the noisy value that was compared is not private at
        this cost (Lyu, Su & Li 2017, §3.2).

    Raises:
      InvalidArgumentError: a number outside its domain.
    """
    count = field_checks.answers(answers)
    parts: list[Any] = [AboveThreshold(threshold_scale, query_scale, count, monotone)]
    if redraw:
        parts = [(AboveThreshold(threshold_scale, query_scale, 1, monotone), count)]
    if answer_scale is not None:
        parts.append((LogLipschitz(1.0 / _answer_scale(answer_scale)), count))
    return compose(*parts)
