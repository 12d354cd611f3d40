"""The messages of clients in the local and the trusted model: a fixed header, and a payload of a fixed length.

======  =====  ==================================================
offset  bytes  field
======  =====  ==================================================
0       4      b"HSV1"
4       8      the run
12      2      the round
14      4      the number of the client
18      ..     the payload: a report, or a code
..      16     with keys: the first half of HMAC-SHA256 of all before
======  =====  ==================================================

All numbers are little-endian. A reader takes messages of one round alone, and refuses everything else; a refusal names
the field and never shows its content. Every valid message counts once, and whatever is in it, it moves a share by no
more than ``SurveyResult.influence``.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from abc import ABC, abstractmethod

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, IntArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.analytics.questions import ItemQuestion, MeanQuestion, QuantileQuestion
from hockeystick.learners.analytics.survey import Oracle, Survey, SurveyRound
from hockeystick.mechanisms import HadamardResponse, OneBitChannel, SubsetSelection
from hockeystick.mechanisms.randomness.noise import Noise

MAGIC = b"HSV1"
HEADER = struct.Struct("<4s8sHI")
HEADER_BYTES = HEADER.size
TAG = 16
_OTHER_DIGIT = 255


class RefusedAnswerError(HockeystickError):
    """A message that a server does not count: malformed, of another round, late, or of a client that has answered.

    Attributes:
        reason: The reason in a word or two, the key of ``SurveyServer.refused``.

    See ``SurveyServer`` for an example.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the answer is not counted: {reason}")
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self.reason,)


def client_key(secret: bytes, survey: Survey, number: int) -> bytes:
    """Returns the key of a client, which the server derives from its secret and gives to this client alone.

    Args:
        secret: The server's secret, at least 16 bytes; one of many surveys.
        survey: The survey.
        number: The client's number.

    Raises:
        InvalidArgumentError: the secret is too short, or there is no such client.

    Example:
        >>> from hockeystick.learners.analytics import MeanQuestion, Survey, client_key
        >>> survey = Survey(question=MeanQuestion(0, 1), epsilon=1.0, clients=3, run=b"8 bytes.", authenticated=True)
        >>> client_key(b"a secret of the server", survey, 2).hex()[:8]
        'a0f09a06'
    """
    if not isinstance(secret, bytes) or len(secret) < 16:
        raise InvalidArgumentError("secret", "…", "is not at least 16 bytes", "give secrets.token_bytes(32)")
    place = integer("number", number, low=0, high=survey.clients - 1)
    return hmac.digest(secret, b"hockeystick survey" + survey.run + place.to_bytes(4, "little"), "sha256")


def signature(key: bytes, text: bytes) -> bytes:
    """Returns the tag of a message."""
    return hmac.digest(key, text, hashlib.sha256)[:TAG]


class Payload(ABC):
    """The part of a message after its header."""

    __slots__ = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of bytes."""

    @abstractmethod
    def drawn(self, value: object, number: int, noise: Noise) -> bytes:
        """Returns the bytes of a client's value."""

    @abstractmethod
    def valid(self, rows: np.ndarray) -> BoolArray:
        """Returns which rows of bytes (n, size) a client can have sent."""

    @abstractmethod
    def counted(self, rows: np.ndarray, numbers: IntArray) -> IntArray:
        """Returns the totals of valid rows."""


def payload_of(asked: SurveyRound) -> Payload:
    """Returns the payload of a round in the local or the trusted model."""
    survey, question = asked.survey, asked.survey.question
    if survey.model == "trusted":
        return DigitPayload(asked) if isinstance(question, ItemQuestion) else CodePayload(asked)
    if isinstance(question, MeanQuestion | QuantileQuestion):
        return BitPayload(asked, survey.bit())
    return ReportPayload(asked, survey.oracle(asked.cells))


def code_of(asked: SurveyRound, value: object, noise: Noise) -> int:
    """Returns the whole number that a value is in sums: its cell, or its step of a mean's range, rounded at random."""
    question = asked.survey.question
    if isinstance(question, ItemQuestion):
        return question.code(question.digits(value), asked.prefixes)
    if isinstance(question, MeanQuestion):
        steps = asked.survey.steps
        whole, rest = divmod(question.share(value) * steps, 1.0)
        return int(whole) + bool(noise.coins(rest, 1)[0])
    return question.code(value)


@frozen(eq=False)
class BitPayload(Payload):
    """One byte, 0 or 1: whether a value is at or below the client's own threshold, or a number as one bit.

    The totals of a number are the ones and all; those of thresholds are rows of both. The threshold of client i is that
    at place i modulo their number.
    """

    asked: SurveyRound
    channel: OneBitChannel

    @property
    def thresholds(self) -> int:
        """The number of thresholds; 1 for a mean."""
        return max(1, self.asked.cells - 1)

    @property
    def size(self) -> int:
        return 1

    def drawn(self, value: object, number: int, noise: Noise) -> bytes:
        question = self.asked.survey.question
        if isinstance(question, MeanQuestion):
            share = question.share(value)
        else:
            assert isinstance(question, QuantileQuestion)
            share = float(question.code(value) <= number % self.thresholds)
        return bytes([self.channel.release(share, noise=noise)])

    def valid(self, rows: np.ndarray) -> BoolArray:
        return np.asarray(rows[:, 0] <= 1)

    def counted(self, rows: np.ndarray, numbers: IntArray) -> IntArray:
        place = numbers % self.thresholds
        ones = np.bincount(place[rows[:, 0] == 1], minlength=self.thresholds)
        return np.stack([ones, np.bincount(place, minlength=self.thresholds)])


@frozen(eq=False)
class ReportPayload(Payload):
    """The report of a local mechanism: a set as bits, or an output as a number of 8 bytes."""

    asked: SurveyRound
    oracle: Oracle

    @property
    def size(self) -> int:
        return -(-self.oracle.categories // 8) if isinstance(self.oracle, SubsetSelection) else 8

    @property
    def _outputs(self) -> int:
        if isinstance(self.oracle, HadamardResponse):
            return self.oracle.blocks * self.oracle.block_size
        return self.oracle.categories

    def drawn(self, value: object, number: int, noise: Noise) -> bytes:
        report = self.oracle.release(code_of(self.asked, value, noise), noise=noise)
        if isinstance(self.oracle, SubsetSelection):
            return np.packbits(report).tobytes()
        return int(report).to_bytes(8, "little")

    def _bits(self, rows: np.ndarray) -> np.ndarray:
        return np.unpackbits(rows, axis=1)

    def valid(self, rows: np.ndarray) -> BoolArray:
        if isinstance(self.oracle, SubsetSelection):
            bits = self._bits(rows)
            k = self.oracle.categories
            return np.asarray((bits.sum(axis=1) == self.oracle.size) & ~bits[:, k:].any(axis=1))
        return np.asarray(np.ascontiguousarray(rows).view("<u8")[:, 0] < self._outputs)

    def counted(self, rows: np.ndarray, numbers: IntArray) -> IntArray:
        if isinstance(self.oracle, SubsetSelection):
            found = self._bits(rows)[:, : self.oracle.categories].sum(axis=0, dtype=np.int64)
            return np.asarray(found)
        outputs = np.ascontiguousarray(rows).view("<u8")[:, 0].astype(np.int64)
        return np.bincount(outputs, minlength=self._outputs)


@frozen(eq=False)
class CodePayload(Payload):
    """A code of 4 bytes, for a trusted server."""

    asked: SurveyRound

    @property
    def _most(self) -> int:
        survey = self.asked.survey
        return survey.steps + 1 if isinstance(survey.question, MeanQuestion) else self.asked.cells

    @property
    def size(self) -> int:
        return 4

    def drawn(self, value: object, number: int, noise: Noise) -> bytes:
        return code_of(self.asked, value, noise).to_bytes(4, "little")

    def _codes(self, rows: np.ndarray) -> IntArray:
        return np.asarray(np.ascontiguousarray(rows).view("<u4")[:, 0].astype(np.int64))

    def valid(self, rows: np.ndarray) -> BoolArray:
        return np.asarray(self._codes(rows) < self._most)

    def counted(self, rows: np.ndarray, numbers: IntArray) -> IntArray:
        codes = self._codes(rows)
        if isinstance(self.asked.survey.question, MeanQuestion):
            return np.array([codes.sum()])
        return np.bincount(codes, minlength=self._most)


@frozen(eq=False)
class DigitPayload(Payload):
    """All digits of a word, a byte each, for a trusted server; 255 throughout for a word that has none.

    The server keeps the words themselves, until it has counted them.
    """

    asked: SurveyRound
    words: dict[bytes, int] = field(factory=dict)

    @property
    def _question(self) -> ItemQuestion:
        question = self.asked.survey.question
        assert isinstance(question, ItemQuestion)
        return question

    @property
    def size(self) -> int:
        return self._question.rounds * self._question.stride

    def drawn(self, value: object, number: int, noise: Noise) -> bytes:
        digits = self._question.digits(value)
        return bytes([_OTHER_DIGIT]) * self.size if digits is None else bytes(digits)

    def valid(self, rows: np.ndarray) -> BoolArray:
        inside = (rows <= len(self._question.alphabet)).all(axis=1) & (rows[:, 0] > 0)
        after = (rows[:, 1:] > 0) & (rows[:, :-1] == 0)
        return np.asarray((inside & ~after.any(axis=1)) | (rows == _OTHER_DIGIT).all(axis=1))

    def counted(self, rows: np.ndarray, numbers: IntArray) -> IntArray:
        found, counts = np.unique(np.ascontiguousarray(rows).view(f"V{self.size}").ravel(), return_counts=True)
        for word, count in zip(found.tolist(), counts.tolist(), strict=True):
            key = bytes(word)
            self.words[key] = self.words.get(key, 0) + count
        return np.array([len(rows)])
