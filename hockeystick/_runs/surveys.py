"""The work of ``hockeystick survey``: planning a survey, writing clients' messages, and counting them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hockeystick._runs.guarantee_entries import certified_content, drawn_from
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.files.reading import UnreadableFileError, read_bytes
from hockeystick.learners.analytics.messages import HEADER_BYTES, payload_of
from hockeystick.learners.analytics.questions import (
    AnyQuestion,
    CategoryQuestion,
    ItemQuestion,
    MeanQuestion,
    QuantileQuestion,
    kind_of,
)
from hockeystick.learners.analytics.results import SurveyResult
from hockeystick.learners.analytics.survey import SurveyRound
from hockeystick.learners.analytics.survey_client import answer_round
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise

_MOST_BYTES = 2**34


def question_of(given: Mapping[str, Any]) -> AnyQuestion:
    """Returns the question that options state, of which one is given.

    Raises:
      InvalidArgumentError: A value of an option can't be read.
    """
    if given["categories"] is not None:
        return CategoryQuestion(tuple(given["categories"].split(",")))
    if given["mean"] is not None:
        return MeanQuestion(*_numbers("--mean", given["mean"], 2))
    if given["quantiles"] is not None:
        low, high, *cells = _numbers("--quantiles", given["quantiles"], 2, 3)
        levels = given["levels"] or (0.25, 0.5, 0.75)
        return QuantileQuestion(low, high, cells=int(cells[0]) if cells else 64, levels=levels)
    alphabet, _, length = given["words"].rpartition(":")
    if not alphabet or not length.isdecimal():
        raise InvalidArgumentError("--words", given["words"], "is not ALPHABET:LENGTH", "give abcdef:8, say")
    share = 0.01 if given["share"] is None else given["share"]
    return ItemQuestion(alphabet, length=int(length), share=share, stride=given["stride"] or 1)


def _numbers(option: str, text: str, *counts: int) -> list[float]:
    try:
        found = [float(part) for part in text.split(":")]
    except ValueError:
        found = []
    if len(found) not in counts:
        raise InvalidArgumentError(option, text, "is not LOW:HIGH", "give the public range, as 0:100")
    return found


@unchained()
def read_round(text: str, file: str) -> SurveyRound:
    """Returns the round in the text of a file.

    Raises:
      InvalidArgumentError: It is not one; the error names the file.
    """
    try:
        return SurveyRound.from_json(text)
    except InvalidArgumentError as error:
        raise InvalidArgumentError("--round", file, f"is not a round of a survey ({error.reason})") from None


def messages_of(
    asked: SurveyRound, values: Iterable[tuple[int, str]], *, most_epsilon: float, noise: Noise | None
) -> bytes:
    """Returns the messages of clients with these numbers and values, of those that the round asks."""
    return b"".join(
        answer_round(asked, number, _value(asked, value), most_epsilon=most_epsilon, noise=noise)
        for number, value in values
        if asked.asks(number)
    )


def _value(asked: SurveyRound, value: str) -> object:
    """A text as a number where the question is about one; what is none is left to the question."""
    if isinstance(asked.survey.question, CategoryQuestion | ItemQuestion):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def read_messages(file: str) -> bytes:
    """Returns the bytes of a file of messages.

    Raises:
      InvalidArgumentError: It can't be read.
    """
    try:
        return read_bytes(Path(file), most=_MOST_BYTES)
    except UnreadableFileError as error:
        raise error.about("--messages", file, "give what 'hockeystick survey answer' wrote") from None


def plan_content(asked: SurveyRound) -> dict[str, Any]:
    """Returns the entries of a plan: its guarantee, and what clients are asked."""
    survey, question = asked.survey, asked.survey.question
    return {
        **certified_content(survey.graph().guarantee(), "survey", epsilon=survey.epsilon, delta=0.0),
        "kind": kind_of(question),
        "model": survey.model,
        "clients": survey.clients,
        "rounds": survey.rounds,
        "round": asked.number,
        "cells": asked.cells,
        "message_bytes": HEADER_BYTES + payload_of(asked).size,
        "confidence": survey.confidence,
    }


def result_content(asked: SurveyRound, found: SurveyResult, *, seed: int | None, messages: str) -> dict[str, Any]:
    """Returns the entries of a result: the plan, and a row for each answer."""
    return plan_content(asked) | {
        **drawn_from(messages, seed),
        "answered": found.answered,
        "refused": dict(found.refused),
        "influence": found.influence,
        "detectable": found.detectable,
        "complete": found.complete,
        "columns": ["answer", "estimate", "from", "to"],
        "answers": found.rows,
    }


def noise_of(seed: int | None) -> Noise | None:
    """Returns the simulated noise of a seed; None for a release."""
    return None if seed is None else SimulationNoise(np.random.default_rng(seed))
