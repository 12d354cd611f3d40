"""The result of a survey, and what follows a round: the next one, or the result."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.analytics.estimates import Estimate, monotone
from hockeystick.learners.analytics.questions import CategoryQuestion, ItemQuestion, MeanQuestion, QuantileQuestion
from hockeystick.learners.analytics.survey import Survey, SurveyRound

Row = tuple[str, float, float, float]


@frozen(kw_only=True, eq=False)
class SurveyResult:
    """The answers of a survey. They are published; everything is a function of noisy counts.

    Attributes:
        survey: The plan.
        rows: Name, estimate, and the ends of its interval; all intervals hold together with ``survey.confidence``.
        answered: The number of answers in the last round.
        refused: The number of messages that were not counted, by reason.
        influence: The most that one message, also a forged one, can have moved a share (of a mean, of its range).
        detectable: The share from which on each word is found, with ``survey.confidence``; None but for items.
        complete: False if a round of items kept fewer prefixes than were frequent enough.
        simulated: Whether noise was simulated, so that it is not a release.

    See ``Survey`` for an example.
    """

    survey: Survey
    rows: tuple[Row, ...]
    answered: int
    refused: Mapping[str, int]
    influence: float
    detectable: float | None = None
    complete: bool = True
    simulated: bool = False


def threshold(asked: SurveyRound, estimate: Estimate) -> tuple[float, float]:
    """Returns the estimated share from which on prefixes are kept, and the true one from which on they surely are.

    A prefix that no client has is not kept, unless a bound fails.
    """
    question = asked.survey.question
    assert isinstance(question, ItemQuestion)
    sure = max(question.share, 2.0 * estimate.bound)
    return sure - estimate.bound, sure


def after_round(
    asked: SurveyRound,
    estimate: Estimate,
    *,
    refused: Mapping[str, int],
    simulated: bool,
) -> SurveyRound | SurveyResult:
    """Returns the next round of a survey for items, or the result.

    Args:
        asked: The round.
        estimate: The shares of its cells.
        refused, simulated: As in the result.
    """
    question = asked.survey.question

    def result(rows: list[Row], detectable: float | None = None, complete: bool = True) -> SurveyResult:
        return SurveyResult(
            survey=asked.survey,
            rows=tuple(rows),
            answered=estimate.answered,
            refused=dict(refused),
            influence=estimate.influence,
            detectable=detectable,
            complete=complete,
            simulated=simulated,
        )

    match question:
        case CategoryQuestion():
            return result(_rows(question.names, estimate))
        case MeanQuestion():
            span = question.high - question.low
            parts = (question.low + span * part[0] for part in (estimate.shares, estimate.low, estimate.high))
            return result([("mean", *map(float, parts))])  # type: ignore[list-item]
        case QuantileQuestion():
            return result(quantile_rows(question, estimate))
        case ItemQuestion():
            kept, detectable = threshold(asked, estimate)
            detectable = max(detectable, asked.detectable)
            cells = [i for i in np.argsort(-estimate.shares, kind="stable").tolist() if estimate.shares[i] >= kept]
            found = [
                (cell, prefix) for cell in cells if (prefix := question.extended(cell, asked.prefixes)) is not None
            ]
            complete = asked.complete and len(found) <= question.most
            found = found[: question.most]
            if found and asked.number + 1 < question.rounds:
                return asked.after(tuple(prefix for _, prefix in found), detectable, complete)
            places = [cell for cell, _ in found]
            names = [question.word(prefix) for _, prefix in found]
            return result(_rows(names, estimate, places), detectable, complete)


def _rows(names: tuple[str, ...] | list[str], estimate: Estimate, places: list[int] | None = None) -> list[Row]:
    chosen = range(len(names)) if places is None else places
    return [
        (name, float(estimate.shares[i]), float(estimate.low[i]), float(estimate.high[i]))
        for name, i in zip(names, chosen, strict=True)
    ]


def quantile_rows(question: QuantileQuestion, estimate: Estimate) -> list[Row]:
    """Returns the quantiles; each lies in its interval if all intervals of prefixes hold."""
    shares = _with_ends(monotone(estimate.shares))
    low = _with_ends(np.maximum.accumulate(estimate.low))
    high = _with_ends(np.minimum.accumulate(estimate.high[::-1])[::-1])
    rows: list[Row] = []
    for level in question.levels:
        first, last = _cell(high, level), _cell(low, level)
        cell = _cell(shares, level)
        rise = shares[cell] - shares[cell - 1]
        inside = cell - 1 + ((level - shares[cell - 1]) / rise if rise > 0.0 else 0.5)
        middle = min(
            max(question.edge(0) + (question.edge(1) - question.edge(0)) * float(inside), question.low), question.high
        )
        ends = question.edge(first - 1), question.edge(max(first, last))
        rows.append((f"{level:g}", min(max(middle, ends[0]), ends[1]), *ends))
    return rows


def _with_ends(prefixes: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], np.clip(prefixes, 0.0, 1.0), [1.0]])


def _cell(prefixes: FloatArray, level: float) -> int:
    """The first cell, from 1, up to which there is at least this share."""
    return min(max(1, int(np.searchsorted(prefixes, level, side="left"))), len(prefixes) - 1)
