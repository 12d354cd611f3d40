"""The client of a survey: one message for a round, or the messages of a secure sum."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.analytics.messages import HEADER, MAGIC, RefusedAnswerError, code_of, payload_of, signature
from hockeystick.learners.analytics.questions import MeanQuestion
from hockeystick.learners.analytics.survey import SurveyRound
from hockeystick.learners.network.protocol import State, seed_or_noise, substream
from hockeystick.mechanisms import SumClient
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

LENGTH = 4  # bytes of the length of a round, before the message of a secure sum


def check_asked(asked: SurveyRound, number: int, most_epsilon: float) -> None:
    """Raises unless the client is asked in this round, and at no more than its own limit."""
    if not isinstance(asked, SurveyRound):
        raise InvalidArgumentError("asked", type(asked).__name__, "is not a round", "use SurveyRound.from_json")
    integer("number", number, low=0, high=asked.survey.clients - 1)
    limit = real("most_epsilon", most_epsilon, low=0.0)
    if asked.survey.epsilon > limit:
        reason = f"is below ε = {asked.survey.epsilon:g} of the survey"
        raise InvalidArgumentError("most_epsilon", limit, reason, "don't answer, or allow more")
    if not asked.asks(number):
        raise InvalidArgumentError("number", number, "is not asked in this round", "answer its own round alone")


def answer_round(
    asked: SurveyRound,
    number: int,
    value: object,
    *,
    most_epsilon: float,
    key: bytes | None = None,
    noise: Noise | None = None,
    ledger: AnyLedger | None = None,
    name: str | None = None,
) -> bytes:
    """Returns a client's message for a round of the local or the trusted model.

    Call it once for each survey: a second message with fresh noise is a second release.

    Args:
        asked: The round, as the server has published it.
        number: The client's number.
        value: A text or a number, whatever the question is about; it is never refused.
        most_epsilon: The largest ε that the client accepts.
        key: The client's key, if messages are signed; see ``client_key``.
        noise: ``SimulationNoise`` for trials.
        ledger, name: As for a mechanism's release; the ledger is this client's own.

    Raises:
        InvalidArgumentError: the survey costs more than ``most_epsilon``, the client is not asked, the model is
            aggregated, or a key is missing or given where there is none.
        HockeystickError: the ledger refuses; nothing is drawn.

    See ``Survey`` for an example.
    """
    check_asked(asked, number, most_epsilon)
    survey, source = asked.survey, check_noise(noise)
    if survey.model == "aggregated":
        raise InvalidArgumentError("asked", "aggregated", "has no single message", "use SurveyClient")
    if (key is not None) != survey.authenticated:
        raise InvalidArgumentError("key", "…", "does not go with the survey", "give one if messages are signed")
    head = HEADER.pack(MAGIC, survey.run, asked.number, number)
    payload = payload_of(asked)

    def drawn() -> bytes:
        return payload.drawn(value, number, source)

    if ledger is None and name is None:  # the event is not needed
        text = head + drawn()
    else:
        text = head + charged(survey.event(), drawn, source, ledger, name, None, adjacency=survey.adjacency)
    return text if key is None else text + signature(key, text)


@frozen(eq=False)
class SurveyClient:
    """A client of a survey that is asked over a network, in any model of trust.

    It answers one survey, each round at most once and in order, and keeps that in its state. In the aggregated model
    its messages are those of ``SumClient``.

    Args:
        number: The client's number.
        value: Its value.
        most_epsilon: The largest ε of a survey that it accepts.
        source: A secret seed for simulations, or ``ReleaseNoise()``.
        key: As for ``answer_round``.

    Raises:
        InvalidArgumentError: an argument is out of its domain.

    See ``conduct_survey`` for an example.
    """

    number: int
    value: object = field(repr=False)
    most_epsilon: float = field(kw_only=True)
    source: int | Noise = field(repr=False, kw_only=True)
    key: bytes | None = field(default=None, repr=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        integer("number", self.number, low=0)
        real("most_epsilon", self.most_epsilon, low=0.0)
        seed_or_noise("source", self.source)

    def start(self) -> State:
        """Returns the state before the first message."""
        return {"next": np.array(0)}

    def answer(self, state: Mapping[str, npt.NDArray[np.generic]], text: bytes) -> tuple[State, bytes]:
        """Returns the state after a message of the server, and the answer to it.

        Raises:
            RefusedAnswerError: the message is not the next one.
            InvalidArgumentError: the survey is not one that the client answers.
        """
        length = int.from_bytes(text[:LENGTH], "little")
        document, inner = text[LENGTH : LENGTH + length], text[LENGTH + length :]
        kept = state["round"].tobytes() if "round" in state else b""
        opening = bool(document)  # later messages of a secure sum have none
        if not opening and not kept:
            raise RefusedAnswerError("not the next message")
        asked = SurveyRound.from_json(document or kept)
        check_asked(asked, self.number, self.most_epsilon)
        if opening and kept and SurveyRound.from_json(kept).survey != asked.survey:
            raise RefusedAnswerError("another survey")
        if (opening and asked.number < int(state["next"])) or (not opening and asked.survey.model != "aggregated"):
            raise RefusedAnswerError("a round that was answered")
        own: State = {"next": np.array(asked.number + 1), "round": np.frombuffer(document or kept, np.uint8).copy()}
        noise = self._noise(asked.number)
        if asked.survey.model != "aggregated":
            return own, answer_round(
                asked, self.number, self.value, most_epsilon=self.most_epsilon, key=self.key, noise=noise
            )
        client = self._summing(asked, noise)
        before = client.start() if opening else {k[4:]: v for k, v in state.items() if k.startswith("sum ")}
        after, answer = client.answer(before, inner)
        return own | {f"sum {name}": each for name, each in after.items()}, answer

    def _noise(self, round_number: int) -> Noise:
        if isinstance(self.source, int):
            return SimulationNoise(substream(self.source, round_number))
        return self.source

    def _summing(self, asked: SurveyRound, noise: Noise) -> SumClient:
        survey = asked.survey
        group, place = self.number % survey.groups, self.number // survey.groups

        def numbers() -> IntArray:
            found = np.zeros(asked.cells, dtype=np.int64)
            code = code_of(asked, self.value, noise)
            if isinstance(survey.question, MeanQuestion):
                found[0] = code
            else:
                found[code] = 1
            return np.asarray(found + survey.shares(group).share(asked.cells, noise=noise))

        return SumClient(survey.sum_plan(group, asked.cells), place, numbers)
