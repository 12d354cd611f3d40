"""A whole survey over any transport of messages, such as Flower's: rounds, secure sums of groups, and what is spoilt.

In the aggregated model each group of clients has a secure sum of its own. A client can send any numbers under its mask,
so it can spoil the sum of its group, and of no other. A group is left out if its sums, which are published, can't be
those of honest clients (up to a probability of 1e-6), or if it is too small after dropouts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.validate import boolean, function
from hockeystick.learners.analytics import estimates
from hockeystick.learners.analytics.messages import RefusedAnswerError
from hockeystick.learners.analytics.questions import QuantileQuestion
from hockeystick.learners.analytics.results import SurveyResult, after_round
from hockeystick.learners.analytics.survey import Survey, SurveyRound
from hockeystick.learners.analytics.survey_client import LENGTH
from hockeystick.learners.analytics.survey_server import SurveyServer
from hockeystick.mechanisms import AggregationError
from hockeystick.mechanisms.distributed.pairwise.sum_server import Letters, Post, serve
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, SimulationNoise
from hockeystick.mechanisms.release import AnyLedger, charged

SPOILT, LOST = "a group's sum is spoilt", "a group is too small"


def conduct_survey(
    survey: Survey,
    post: Post,
    *,
    simulated: bool = False,
    secret: bytes | None = None,
    noise: Noise | None = None,
    ledger: AnyLedger | None = None,
    name: str | None = None,
) -> SurveyResult:
    """Conducts a survey among clients that ``post`` reaches. The aggregated model needs the extra ``secure-sum``.

    Args:
        survey: The plan.
        post: Carries messages, such as ``ClientsInProcess`` or ``post_on_flower``. A client that does not answer has
            dropped out of the round.
        simulated: Whether the clients draw from seeds, so that the result is not a release.
        secret: As for ``SurveyServer``.
        noise: The server's noise in the trusted model.
        ledger, name: As for a mechanism's release, in the trusted and the aggregated model. The ledger is charged
            before values are asked for, and keeps the charge if there is no result.

    Raises:
        InvalidArgumentError: nobody has answered, or an argument does not go with the model.
        HockeystickError: the ledger refuses; nobody was asked.

    Example:
        >>> from hockeystick.learners.analytics import MeanQuestion, Survey, SurveyClient, conduct_survey
        >>> from hockeystick.mechanisms import ClientsInProcess
        >>> survey = Survey(question=MeanQuestion(0, 10), model="aggregated", epsilon=1.0, clients=6, run=b"8 bytes.")
        >>> clients = [SurveyClient(i, 4.0, most_epsilon=1.0, source=i) for i in range(6)]
        >>> found = conduct_survey(survey, ClientsInProcess(clients), simulated=True)
        >>> found.answered, found.rows[0][2] <= 4.0 <= found.rows[0][3]
        (6, True)
    """
    if not isinstance(survey, Survey):
        raise InvalidArgumentError("survey", type(survey).__name__, "is not a Survey")
    function("post", post, "see the example of conduct_survey")
    source: Noise = SimulationNoise(0) if boolean("simulated", simulated) else ReleaseNoise()  # draws nothing

    def run() -> SurveyResult:
        asked = survey.first()
        while True:
            if survey.model == "aggregated":
                found = _summed(asked, post, simulated)
            else:
                found = _single(asked, post, simulated, secret, noise)
            if isinstance(found, SurveyResult):
                return found
            asked = found

    if survey.model == "local":
        if ledger is not None or noise is not None:
            raise InvalidArgumentError("ledger", "…", "and noise are the clients' in the local model", "leave them out")
        return run()
    return charged(survey.event(), run, source, ledger, name, None, adjacency=survey.adjacency)


def _single(
    asked: SurveyRound, post: Post, simulated: bool, secret: bytes | None, noise: Noise | None
) -> SurveyRound | SurveyResult:
    """One message of each client."""
    server = SurveyServer(asked, secret=secret, simulated=simulated)
    letter = opening(asked)
    for client, text in post(dict.fromkeys(asked.asked, letter)):
        try:
            server.receive(text, sender=client)
        except RefusedAnswerError:
            continue  # counted by the server
    return server.close() if noise is None else server.close(noise=noise)


def opening(asked: SurveyRound, inner: bytes = b"") -> bytes:
    """Returns the message that opens a round."""
    document = asked.to_json().encode()
    return len(document).to_bytes(LENGTH, "little") + document + inner


@frozen(eq=False)
class _GroupSum:
    group: int
    total: IntArray
    answered: int


def _summed(asked: SurveyRound, post: Post, simulated: bool) -> SurveyRound | SurveyResult:
    survey, refused = asked.survey, Counter[str]()
    sums: list[_GroupSum] = []
    for one in _group_sums(asked, post, refused):
        if _possible(asked, one):
            sums.append(one)
        else:
            refused[SPOILT] += one.answered
    answered = estimates.some(sum(one.answered for one in sums))
    total = np.asarray(sum(one.total for one in sums))
    shape = sum(_shape(asked, one) for one in sums)
    most = max(one.answered * survey.rise + 2.0 * _reach(asked, one) for one in sums)
    influence = most / (answered * survey.rise)
    if isinstance(survey.question, QuantileQuestion):
        estimate = estimates.of_ordered_sums(asked, total, answered, shape=shape, influence=influence)
    else:
        estimate = estimates.of_sums(asked, total, answered, shape=shape, influence=influence)
    return after_round(asked, estimate, refused=refused, simulated=simulated)


def _shape(asked: SurveyRound, one: _GroupSum) -> float:
    """The noise of a group in units of the noise that is charged: that of all clients in the sum."""
    return one.answered / asked.survey.shares(one.group).whole


def _reach(asked: SurveyRound, one: _GroupSum) -> float:
    """The most noise in an entry of a group's sum, except with probability ``SPOILT`` over all groups."""
    scale, cells = asked.survey.noise.scale, asked.cells * asked.survey.groups
    return estimates.noise_bound(scale, _shape(asked, one), cells, estimates.SPOILT / 2)


def _possible(asked: SurveyRound, one: _GroupSum) -> bool:
    """Whether honest clients can have this sum, up to a probability of ``SPOILT``."""
    survey, reach = asked.survey, _reach(asked, one)
    most = one.answered * survey.rise
    if (one.total < -reach).any() or (one.total > most + reach).any():
        return False
    if asked.cells == 1:
        return True
    shape = _shape(asked, one) * asked.cells
    slack = estimates.noise_bound(survey.noise.scale, shape, survey.groups, estimates.SPOILT / 2)
    return abs(int(one.total.sum()) - one.answered) <= math.ceil(slack)


def _group_sums(asked: SurveyRound, post: Post, refused: Counter[str]) -> list[_GroupSum]:
    """Conducts the secure sums of all groups in step, so that they take as long as one."""
    survey = asked.survey
    served: dict[int, Any] = {}
    waiting: dict[int, Letters] = {}
    for group in range(survey.groups):
        served[group] = serve(survey.sum_plan(group, asked.cells))
        waiting[group] = next(served[group])
    found: list[_GroupSum] = []
    first = True
    while waiting:
        letters = {
            survey.members(group)[place]: opening(asked, text) if first else bytes(LENGTH) + text
            for group, each in waiting.items()
            for place, text in each.items()
        }
        first = False
        answers = _by_group(survey, post(letters), refused)
        for group in list(waiting):
            try:
                waiting[group] = served[group].send(answers.get(group, []))
            except StopIteration as stop:
                total, stayed, complaints = stop.value
                found.append(_GroupSum(group, total, len(stayed)))
                refused.update(complaint.reason for complaint in complaints)
                del waiting[group]
            except AggregationError:
                refused[LOST] += 1
                del waiting[group]
    return found


def _by_group(
    survey: Survey, answers: Iterable[tuple[int, bytes]], refused: Counter[str]
) -> Mapping[int, list[tuple[int, bytes]]]:
    found: dict[int, list[tuple[int, bytes]]] = {}
    for client, text in answers:
        if 0 <= client < survey.clients:
            found.setdefault(client % survey.groups, []).append((client // survey.groups, text))
        else:
            refused["the client is not asked"] += 1
    return found
