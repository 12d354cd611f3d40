"""The public plan of a survey, and its rounds as files.

The models of trust:

* **local**: every client sends one noisy report; nobody is trusted. For items each client answers one round.
* **aggregated**: clients add shares of noise to whole numbers, of which the server learns only the sums over groups, by
  ``PairwiseSum``.
* **trusted**: clients send their values to the server, which adds the noise.

All costs are pure ε, for one client's value (replace-one or local). Who answers must not depend on values.
"""

from __future__ import annotations

import json
import secrets
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

from attrs import asdict, evolve, field, frozen

from hockeystick.accounting import SAME, AccountantGraph, Adjacency, InvalidArgumentError, PrivacyEvent, PureDP, compose
from hockeystick.accounting.files.reading import UnreadableFileError, json_value
from hockeystick.accounting.validate import boolean, integer, one_of, real
from hockeystick.learners.analytics.questions import (
    AnyQuestion,
    CategoryQuestion,
    ItemQuestion,
    MeanQuestion,
    Prefix,
    QuantileQuestion,
    kind_of,
    read_question,
)
from hockeystick.mechanisms import (
    CellCounts,
    DiscreteLaplace,
    HadamardResponse,
    OneBitChannel,
    PairwiseSum,
    PolyaShares,
    RandomizedResponse,
    SubsetSelection,
    choose_counts,
)
from hockeystick.mechanisms.distributed.pairwise.pairwise_sum import SILENCE
from hockeystick.mechanisms.distributed.secure_aggregation import modulus_for

Model = Literal["local", "aggregated", "trusted"]
Oracle = RandomizedResponse | SubsetSelection | HadamardResponse

FORMAT = "hockeystick survey 1"
_MOST_CLIENTS, _MOST_BITS, _STEPS = 2**28, 2**12, 1000


def _clients(value: int) -> int:
    return integer("clients", value, low=1, high=_MOST_CLIENTS)


def _epsilon(value: float) -> float:
    return real("epsilon", value, low=1e-3, high=30.0)


def _run(value: bytes) -> bytes:
    if not isinstance(value, bytes) or len(value) != 8:
        raise InvalidArgumentError("run", "…", "is not 8 bytes", "leave it out: a fresh one is drawn")
    return value


def _authenticated(value: bool) -> bool:
    return boolean("authenticated", value)


def _confidence(value: float) -> float:
    return real("confidence", value, low=0.5, high=0.98)


def _detectable(value: float) -> float:
    return real("detectable", value, low=0.0)


def _complete(value: bool) -> bool:
    return boolean("complete", value)


@frozen(kw_only=True)
class Survey:
    """A question to many clients, each with one value, at a stated cost for each.

    Args:
        question: ``CategoryQuestion``, ``QuantileQuestion``, ``MeanQuestion`` or ``ItemQuestion``.
        epsilon: ε for each client, of the whole survey; from 0.001 to 30.
        clients: The number of clients that are asked; they have the numbers 0, 1, …, given out at random.
        model: "local", "aggregated" or "trusted".
        groups: The number of secure sums of the aggregated model; a client can spoil only that of its group.
        colluders: The number of clients of a group that may collude with the server, in the aggregated model.
        confidence: The probability with which all stated bounds hold together.
        authenticated: Whether messages are signed with keys that the server gave to each client; see ``client_key``.
        run: 8 bytes that identify the survey; by default random.

    Raises:
        InvalidArgumentError: an argument is out of its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.analytics import CategoryQuestion, Survey, SurveyServer, answer_round
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> survey = Survey(question=CategoryQuestion(["red", "blue"]), epsilon=2.0, clients=2000, run=b"8 bytes.")
        >>> server, noise = SurveyServer(survey.first()), SimulationNoise(1)  # leave the noise out to publish
        >>> for number in range(2000):
        ...     colour = "red" if number % 10 < 7 else "green"
        ...     _ = server.receive(answer_round(survey.first(), number, colour, most_epsilon=2.0, noise=noise))
        >>> found = server.close()
        >>> for name, share, low, high in found.rows:
        ...     print(name, round(share, 2), round(low, 2), round(high, 2))
        red 0.71 0.65 0.76
        blue 0.01 0.0 0.06
        (other) 0.28 0.23 0.33
    """

    question: AnyQuestion = field()
    epsilon: float = field(converter=_epsilon)
    clients: int = field(converter=_clients)
    model: Model = "local"
    groups: int = 1
    colluders: int = 0
    confidence: float = field(default=0.95, converter=_confidence)
    authenticated: bool = field(default=False, converter=_authenticated)
    run: bytes = field(factory=lambda: secrets.token_bytes(8), converter=_run)

    def __attrs_post_init__(self) -> None:
        kind_of(self.question)
        one_of("model", self.model, *get_args(Model))
        integer("groups", self.groups, low=1, high=self.clients)
        integer("colluders", self.colluders, low=0)
        if self.model != "aggregated" and (self.groups > 1 or self.colluders):
            raise InvalidArgumentError(
                "groups", self.groups, "and colluders are for the aggregated model", "leave them"
            )
        if self.model == "aggregated":
            if not self.groups <= self.clients // 2 <= 5000 * self.groups:
                reason = f"makes secure sums of {self.clients // self.groups} clients"
                raise InvalidArgumentError("groups", self.groups, reason, "make groups of 2 to 10,000 clients")
            if self.authenticated:
                raise InvalidArgumentError(
                    "authenticated", True, "is for the other models", "use PairwiseSum's identities"
                )
            self.shares(0)  # refuses too many colluders

    @property
    def rounds(self) -> int:
        """The number of rounds at most: that of an ``ItemQuestion`` to local or aggregated clients, otherwise 1."""
        return self.question.rounds if isinstance(self.question, ItemQuestion) and self.in_rounds else 1

    @property
    def in_rounds(self) -> bool:
        """Whether the clients are asked in rounds."""
        return isinstance(self.question, ItemQuestion) and self.model != "trusted"

    @property
    def steps(self) -> int:
        """The number of steps of a whole-number mean, into which the range is divided."""
        return max(1, min(_STEPS, int(1000 * self.epsilon)))

    @cached_property
    def rise(self) -> int:
        """The largest change of a positive entry of a sum by one client's value."""
        return self.steps if isinstance(self.question, MeanQuestion) else 1

    @cached_property
    def fall(self) -> int:
        """The largest change of a negative entry."""
        return 0 if isinstance(self.question, MeanQuestion) else 1

    @cached_property
    def looks(self) -> int:
        """The number of sums that one client's value is in."""
        return self.question.rounds if isinstance(self.question, ItemQuestion) and self.model != "local" else 1

    @cached_property
    def round_epsilon(self) -> float:
        """ε of each of these sums, or of a report."""
        # 2 U: the quotient is rounded, and so is each sum of its costs, of at most 64.
        return self.epsilon if self.looks == 1 else self.epsilon / self.looks * (1.0 - 2.0**-40)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """The noise on each sum of a trusted server, and of the shares that certainly are in a sum."""
        return DiscreteLaplace.calibrated(epsilon=self.round_epsilon, sensitivity=self.rise + self.fall)

    @cached_property
    def ordered(self) -> CellCounts:
        """The counts of a trusted server for a ``QuantileQuestion``, if all clients answer."""
        assert isinstance(self.question, QuantileQuestion)
        clients = max(2, self.clients)
        return choose_counts(cells=self.question.cells, epsilon=self.epsilon, records=clients).mechanism

    def oracle(self, cells: int) -> Oracle:
        """Returns the local mechanism of the least total variance for so many cells, of at most 4096 bits a report."""
        if cells <= _MOST_BITS:
            best = SubsetSelection(self.epsilon, categories=cells)
            return best if best.size > 1 else RandomizedResponse(self.epsilon, categories=cells)
        return HadamardResponse(self.epsilon, categories=cells)

    def bit(self) -> OneBitChannel:
        """Returns the local mechanism of one number in [0, 1], such as whether a value is above a threshold."""
        return OneBitChannel(self.epsilon, low=0.0, high=1.0)

    def members(self, group: int) -> range:
        """Returns the numbers of the clients of a group."""
        return range(integer("group", group, low=0, high=self.groups - 1), self.clients, self.groups)

    def sum_plan(self, group: int, length: int) -> PairwiseSum:
        """Returns the plan of the secure sum of a group."""
        return _sum_plan(len(self.members(group)), length, self.rise, self.shares(group))

    def shares(self, group: int) -> PolyaShares:
        """Returns the shares of noise of a group's clients."""
        return _shares(len(self.members(group)), self.colluders, self.round_epsilon, self.rise, self.fall)

    def _event_of_a_round(self) -> PrivacyEvent:
        if self.model == "aggregated":
            return self.shares(0).event()
        if self.model == "trusted":
            return self.ordered.event() if isinstance(self.question, QuantileQuestion) else self.noise.event()
        match self.question:
            case CategoryQuestion():
                return self.oracle(len(self.question.names)).event()
            case ItemQuestion():
                return PureDP(self.epsilon)  # the cells depend on earlier rounds, of other clients
            case _:
                return self.bit().event()

    def event(self) -> PrivacyEvent:
        """Returns the cost for one client's value."""
        return compose((self._event_of_a_round(), self.looks)) if self.looks > 1 else self._event_of_a_round()

    @property
    def adjacency(self) -> Adjacency:
        """The relation of the cost."""
        return Adjacency.LOCAL if self.model == "local" else Adjacency.REPLACE_ONE

    def graph(self) -> AccountantGraph:
        """Returns the plan: each client's value is in the answers once."""
        if self.model == "local":
            graph = AccountantGraph(adjacency=Adjacency.LOCAL, pinned=True, assumptions=(SILENCE,))
            reach = SAME if self.clients > 1 else None
            graph = graph.source("clients", size=self.clients)
            return graph.release("reports", self.event(), reads=("clients",), reach=reach)
        trust: tuple[str, ...] = ("the server, which is trusted, sees all values", SILENCE)
        if self.model == "aggregated":
            trust = self.sum_plan(0, 1).assumptions(self.colluders)
        fixed = "neighbours differ in the value of one client; who answers is public"
        graph = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True, assumptions=(fixed, *trust))
        # The sums of several groups are of disjoint clients.
        return graph.source("values").release("sums", self._event_of_a_round(), reads=("values",), count=self.looks)

    def first(self) -> SurveyRound:
        """Returns the first round, which the clients are asked."""
        return SurveyRound(survey=self)


@lru_cache(maxsize=64)
def _shares(clients: int, colluders: int, epsilon: float, rise: int, fall: int) -> PolyaShares:
    survivors = PairwiseSum(clients=clients, length=1, modulus=2).honest(colluders)
    return PolyaShares.calibrated(epsilon=epsilon, survivors=survivors, rise=rise, fall=fall)


@lru_cache(maxsize=64)
def _sum_plan(clients: int, length: int, rise: int, shares: PolyaShares) -> PairwiseSum:
    deviation = (shares.variance() * clients / shares.survivors) ** 0.5
    return PairwiseSum(clients=clients, length=length, modulus=modulus_for(clients * rise, deviation))


@frozen(kw_only=True)
class SurveyRound:
    """A round of a survey: what clients are told, as a public document.

    Attributes:
        survey: The plan.
        number: 0, 1, …
        prefixes: The prefixes that the round of an ``ItemQuestion`` extends.
        detectable, complete: As in ``SurveyResult``, of earlier rounds.

    Raises:
        InvalidArgumentError: there is no such round.

    See ``Survey`` for an example.
    """

    survey: Survey
    number: int = 0
    prefixes: tuple[Prefix, ...] = ((),)
    detectable: float = field(default=0.0, converter=_detectable)
    complete: bool = field(default=True, converter=_complete)

    def __attrs_post_init__(self) -> None:
        question = self.survey.question
        rounds = question.rounds if isinstance(question, ItemQuestion) else 1
        integer("number", self.number, low=0, high=rounds - 1)
        if not isinstance(question, ItemQuestion):
            if self.prefixes != ((),):
                raise InvalidArgumentError("prefixes", "…", "are for items alone", "leave them out")
            return
        known = self.number * question.stride
        if not 1 <= len(self.prefixes) <= question.most or len(set(self.prefixes)) < len(self.prefixes):
            raise InvalidArgumentError(
                "prefixes", len(self.prefixes), "are not different ones, at most as many as kept"
            )
        for prefix in self.prefixes:
            if len(prefix) != known or not all(type(d) is int and 0 <= d <= len(question.alphabet) for d in prefix):
                raise InvalidArgumentError("prefixes", "…", f"are not of {known} symbols of the alphabet")

    @property
    def cells(self) -> int:
        """The number of counts, or thresholds, that the round is about."""
        match self.survey.question:
            case CategoryQuestion() as question:
                return len(question.names)
            case QuantileQuestion() as question:
                return question.cells
            case ItemQuestion() as question:
                return question.cells(self.prefixes)
            case _:
                return 1

    def asks(self, number: int) -> bool:
        """Returns whether a client is asked in this round: in local rounds each client answers one."""
        return number in self.asked

    @property
    def asked(self) -> range:
        """The numbers of the clients that are asked."""
        if self.survey.model == "local" and self.survey.in_rounds:
            return range(self.number, self.survey.clients, self.survey.rounds)
        return range(0 if self.number and not self.survey.in_rounds else self.survey.clients)

    def after(self, prefixes: tuple[Prefix, ...], detectable: float, complete: bool) -> SurveyRound:
        """Returns the next round."""
        return evolve(self, number=self.number + 1, prefixes=prefixes, detectable=detectable, complete=complete)

    def to_json(self) -> str:
        """Returns the round as a text, which :meth:`from_json` reads."""
        survey, question = self.survey, self.survey.question
        fields = {
            name: value for name, value in asdict(survey, recurse=False).items() if name not in ("question", "run")
        }
        return json.dumps(
            {
                "format": FORMAT,
                "run": survey.run.hex(),
                "kind": kind_of(question),
                "question": asdict(question),
                **fields,
                "number": self.number,
                "prefixes": self.prefixes,
                "detectable": self.detectable,
                "complete": self.complete,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> SurveyRound:
        """Returns the round that a text of :meth:`to_json` states.

        Raises:
            InvalidArgumentError: it is not such a text.
        """
        return _read_round(text if isinstance(text, str) else _decoded(text))


def _decoded(text: object) -> str:
    try:
        if isinstance(text, bytes):
            return text.decode()
    except UnicodeDecodeError:
        pass
    raise InvalidArgumentError("round", "…", "is not a round of a survey", "give the text of to_json")


@lru_cache(maxsize=8)  # every client of a process reads the same round
def _read_round(text: str) -> SurveyRound:
    try:
        given: dict[str, Any] = dict(json_value(text))
        if given.pop("format") != FORMAT:
            raise InvalidArgumentError("format", "…", f"is not {FORMAT!r}", "use the same version on both sides")
        question = read_question(given.pop("kind"), dict(given.pop("question")))
        number, prefixes = given.pop("number"), tuple(tuple(each) for each in given.pop("prefixes"))
        so_far = {name: given.pop(name) for name in ("detectable", "complete")}
        survey = Survey(question=question, **{**given, "run": bytes.fromhex(given["run"])})
        return SurveyRound(survey=survey, number=number, prefixes=prefixes, **so_far)
    except InvalidArgumentError:
        raise
    except (ValueError, TypeError, KeyError, UnreadableFileError):
        raise InvalidArgumentError("round", "…", "is not a round of a survey", "give the text of to_json") from None
