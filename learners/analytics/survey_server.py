"""The server of a survey in the local or the trusted model: it counts messages in any order, each client once."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.validate import boolean
from hockeystick.learners.analytics import estimates
from hockeystick.learners.analytics.messages import (
    HEADER,
    MAGIC,
    TAG,
    BitPayload,
    DigitPayload,
    RefusedAnswerError,
    ReportPayload,
    client_key,
    payload_of,
    signature,
)
from hockeystick.learners.analytics.questions import ItemQuestion, QuantileQuestion
from hockeystick.learners.analytics.results import SurveyResult, after_round
from hockeystick.learners.analytics.survey import SurveyRound
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

_BLOCK = 2**14  # messages that are counted at a time


class SurveyServer:
    """Counts the messages of a round, and ends it.

    A message is refused, and changes nothing, if it is malformed, of another survey or round, late, of a client that is
    not asked, or of one that has answered. Without keys the format does not authenticate clients: use a secure
    connection.

    Args:
        asked: The round; ``Survey.first()``, or what ``close`` has returned.
        secret: The server's secret, if messages are signed; see ``client_key``.
        simulated: Whether the clients' noise is simulated, so that the result is not a release.

    Raises:
        InvalidArgumentError: the model is aggregated (use ``conduct_survey``), or a secret is missing or not needed.

    Example:
        >>> from hockeystick.learners.analytics import MeanQuestion, Survey, SurveyServer, answer_round
        >>> survey = Survey(question=MeanQuestion(0, 10), model="trusted", epsilon=1.0, clients=100)
        >>> server = SurveyServer(survey.first())
        >>> messages = [answer_round(survey.first(), i, 5.0, most_epsilon=1.0) for i in range(100)]
        >>> server.receive_all([*messages, messages[0], b"junk"])
        100
        >>> dict(server.refused)
        {'malformed': 1, 'the client has answered': 1}
    """

    def __init__(self, asked: SurveyRound, *, secret: bytes | None = None, simulated: bool = False) -> None:
        if not isinstance(asked, SurveyRound):
            raise InvalidArgumentError("asked", type(asked).__name__, "is not a round", "use Survey.first()")
        survey = asked.survey
        if survey.model == "aggregated":
            raise InvalidArgumentError("asked", "aggregated", "is not a model of single messages", "use conduct_survey")
        if (secret is not None) != survey.authenticated:
            raise InvalidArgumentError("secret", "…", "does not go with the survey", "give one if messages are signed")
        if secret is not None:
            client_key(secret, survey, 0)  # refuses a short one
        self.asked, self.refused = asked, Counter[str]()
        self._secret, self._simulated, self._closed = secret, boolean("simulated", simulated), False
        self._payload = payload_of(asked)
        self._size = HEADER.size + self._payload.size + (TAG if survey.authenticated else 0)
        self._begin = MAGIC + survey.run + asked.number.to_bytes(2, "little")
        self._seen = np.zeros(survey.clients, dtype=np.bool_)
        self._waiting = bytearray()
        self._totals: IntArray | None = None
        self._answered = 0

    @property
    def answered(self) -> int:
        """The number of messages that were counted."""
        return self._answered

    def receive(self, message: bytes, *, sender: int | None = None) -> int:
        """Counts one message and returns the number of its client.

        Args:
            message: The bytes.
            sender: The number of the client that the transport knows it is from; another one in the message is refused.

        Raises:
            RefusedAnswerError: the message is not counted; see the class.
        """
        try:
            return self._received(message, sender)
        except RefusedAnswerError as error:
            self.refused[error.reason] += 1
            raise

    def _received(self, message: bytes, sender: int | None) -> int:
        if self._closed:
            raise RefusedAnswerError("late")
        if not isinstance(message, bytes) or len(message) != self._size:
            raise RefusedAnswerError("malformed")
        if not message.startswith(self._begin):
            raise RefusedAnswerError("another survey or round")
        number = int.from_bytes(message[len(self._begin) : HEADER.size], "little")
        if not self.asked.asks(number) or sender not in (None, number):
            raise RefusedAnswerError("the client is not asked")
        if self._seen[number]:
            raise RefusedAnswerError("the client has answered")
        if self._secret is not None and not self._signed(message, number):
            raise RefusedAnswerError("not signed by the client")
        body = message[HEADER.size : HEADER.size + self._payload.size]
        if not self._payload.valid(np.frombuffer(body, dtype=np.uint8)[None])[0]:
            raise RefusedAnswerError("out of range")
        self._seen[number] = True
        self._answered += 1
        self._waiting += message
        if len(self._waiting) >= _BLOCK * self._size:
            self._count()
        return number

    def receive_all(self, messages: bytes | Iterable[bytes]) -> int:
        """Counts many messages, one after the other or concatenated, and returns how many were counted.

        Those that are not are in ``refused``.
        """
        if isinstance(messages, bytes):
            whole = len(messages) // self._size * self._size
            if whole < len(messages):
                self.refused["malformed"] += 1
            parts = [messages[at : at + _BLOCK * self._size] for at in range(0, whole, _BLOCK * self._size)]
            parts[-1:] = [part[: len(part) // self._size * self._size] for part in parts[-1:]]
            return sum(map(self._received_block, parts))
        found, block = 0, []
        for message in messages:
            if isinstance(message, bytes) and len(message) == self._size:
                block.append(message)
            else:
                self.refused["late" if self._closed else "malformed"] += 1
            if len(block) == _BLOCK:
                found += self._received_block(b"".join(block))
                block = []
        return found + self._received_block(b"".join(block))

    def _received_block(self, block: bytes) -> int:
        rows = np.frombuffer(block, dtype=np.uint8).reshape(-1, self._size)
        if self._closed:
            self.refused["late"] += len(rows)
            return 0
        left = np.arange(len(rows))

        def keep(right: np.ndarray, reason: str) -> None:
            nonlocal left
            if not right.all():
                self.refused[reason] += int((~right).sum())
                left = left[right]

        keep(
            (rows[:, : len(self._begin)] == np.frombuffer(self._begin, np.uint8)).all(axis=1), "another survey or round"
        )
        numbers = np.ascontiguousarray(rows[:, len(self._begin) : HEADER.size]).view("<u4")[:, 0].astype(np.int64)
        asked = self.asked.asked
        keep((numbers[left] < asked.stop) & (numbers[left] % asked.step == asked.start), "the client is not asked")
        if self._secret is not None:
            signed = [self._signed(rows[i].tobytes(), int(numbers[i])) for i in left]
            keep(np.array(signed, dtype=np.bool_), "not signed by the client")
        body = rows[:, HEADER.size : HEADER.size + self._payload.size]
        if len(left):
            keep(self._payload.valid(body[left]), "out of range")
        first = np.zeros(len(left), dtype=np.bool_)
        first[np.unique(numbers[left], return_index=True)[1]] = True
        keep(first & ~self._seen[numbers[left]], "the client has answered")
        if len(left):
            self._seen[numbers[left]] = True
            self._answered += len(left)
            self._add(self._payload.counted(body[left], numbers[left]))
        return len(left)

    def _signed(self, message: bytes, number: int) -> bool:
        assert self._secret is not None
        key = client_key(self._secret, self.asked.survey, number)
        return hmac.compare_digest(signature(key, message[:-TAG]), message[-TAG:])

    def _count(self) -> None:
        """Counts the messages that wait."""
        if self._waiting:
            rows = np.frombuffer(bytes(self._waiting), dtype=np.uint8).reshape(-1, self._size)
            self._waiting = bytearray()
            numbers = np.ascontiguousarray(rows[:, len(self._begin) : HEADER.size]).view("<u4")[:, 0].astype(np.int64)
            self._add(self._payload.counted(rows[:, HEADER.size : HEADER.size + self._payload.size], numbers))

    def _add(self, totals: IntArray) -> None:
        self._totals = totals if self._totals is None else self._totals + totals

    def close(
        self, *, noise: Noise | None = None, ledger: AnyLedger | None = None, name: str | None = None
    ) -> SurveyRound | SurveyResult:
        """Ends the round: returns the next one, for items, or the result. Later messages are late.

        Args:
            noise: In the trusted model, ``SimulationNoise`` for trials.
            ledger, name: In the trusted model, as for a mechanism's release.

        Raises:
            InvalidArgumentError: there is no answer, the round is closed, or there is a ledger in the local model,
                where each client has its own.
            HockeystickError: the ledger refuses; nothing is drawn.
        """
        survey, source = self.asked.survey, check_noise(noise)
        if self._closed:
            raise InvalidArgumentError("server", "…", "has closed its round", "make one for the next round")
        if survey.model == "local" and (ledger is not None or noise is not None):
            raise InvalidArgumentError("ledger", "…", "and noise are the clients' in the local model", "leave them out")
        self._count()
        estimates.some(self._answered)
        if survey.model == "local":
            self._closed = True
            return self._ended(self._local(), self._simulated)
        simulated = self._simulated or source.simulated
        return charged(
            survey.event(),
            lambda: self._trusted(source, simulated),
            source,
            ledger,
            name,
            None,
            adjacency=survey.adjacency,
        )

    def _ended(self, estimate: estimates.Estimate, simulated: bool) -> SurveyRound | SurveyResult:
        return after_round(self.asked, estimate, refused=self.refused, simulated=simulated)

    def _local(self) -> estimates.Estimate:
        assert self._totals is not None
        if isinstance(self._payload, BitPayload):
            return estimates.of_bits(self.asked, self._payload.channel, self._totals)
        assert isinstance(self._payload, ReportPayload)
        return estimates.of_reports(self.asked, self._payload.oracle, self._totals, self._answered)

    def _trusted(self, source: Noise, simulated: bool) -> SurveyRound | SurveyResult:
        self._closed = True
        survey, n = self.asked.survey, self._answered
        assert self._totals is not None
        if isinstance(self._payload, DigitPayload):
            return counted_words(self.asked, self._payload.words, n, source, simulated, self.refused)
        if isinstance(survey.question, QuantileQuestion):
            return self._ended(estimates.of_cells(survey, self._totals, n, source), simulated)
        noisy = survey.noise.release(self._totals, noise=source)
        return self._ended(estimates.of_sums(self.asked, noisy, n, shape=1.0), simulated)


def counted_words(
    asked: SurveyRound,
    words: Mapping[bytes, int],
    answered: int,
    noise: Noise,
    simulated: bool,
    refused: Mapping[str, int],
) -> SurveyRound | SurveyResult:
    """Returns the result of a survey for items from all words: each round's counts have noise of their own."""
    question = asked.survey.question
    assert isinstance(question, ItemQuestion)
    digits = {tuple(word): count for word, count in words.items()}
    while True:  # clients are asked once, but each round of prefixes is counted with noise of its own
        counts = np.zeros(asked.cells, dtype=np.int64)
        for word, count in digits.items():
            counts[question.code(None if word[0] > len(question.alphabet) else word, asked.prefixes)] += count
        noisy = asked.survey.noise.release(counts, noise=noise)
        estimate = estimates.of_sums(asked, noisy, answered, shape=1.0)
        found = after_round(asked, estimate, refused=refused, simulated=simulated)
        if isinstance(found, SurveyResult):
            return found
        asked = found
