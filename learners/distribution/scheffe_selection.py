"""A baseline of private selection: the Scheffé tournament on one private bit per person."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import SAME, AccountantGraph, Adjacency, InvalidArgumentError
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import array, integer
from hockeystick.learners.common.arguments import epsilon as _epsilon
from hockeystick.learners.distribution.channels.all_channels import Message
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.wire import MessageFormat, RefusedMessageError
from hockeystick.learners.distribution.hypothesis_selection import checked_laws, only_context
from hockeystick.learners.distribution.recorded_messages import (
    Recorded,
    RecordingServer,
    RunIdentity,
    check_complete,
    sent,
)
from hockeystick.mechanisms import RandomizedResponse
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger


def _persons(value: object) -> int:
    return integer("persons", value, low=1)


@frozen(kw_only=True, eq=False)
class ScheffeSelection:
    """A baseline: each person is assigned a pair of candidates and reports which of the two makes the label likelier.

    The report is one bit with randomised response. A pair is won by the candidate whose probability of the bit is
    nearer to the estimate, and the candidate that wins most pairs is selected. In the worst case it needs about K^2
    persons, while messages about a random candidate need about K; if all candidates are easily distinguished, it needs
    fewer.

    Source: Devroye & Lugosi 2001 (the Scheffe tournament).

    Args:
        candidates: The candidates, of one context.
        epsilon: > 0, for each message.
        persons: At least one for each of the K (K - 1)/2 pairs.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ScheffeSelection
        >>> from hockeystick.learners.distribution import LabelTable
        >>> candidates = LabelTable([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
        >>> baseline = ScheffeSelection(candidates=candidates, epsilon=2.0, persons=600)
        >>> baseline.simulate(2, np.random.default_rng(1), 4).tolist()
        [2, 2, 2, 2]
    """

    candidates: LabelTable = field(converter=only_context)
    epsilon: float = field(converter=_epsilon)
    persons: int = field(converter=_persons)

    def __attrs_post_init__(self) -> None:
        pairs = len(self._pairs[0])
        if self.persons < pairs:
            raise InvalidArgumentError("persons", self.persons, f"is below the {pairs} pairs", "give more persons")

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: all persons in parallel, one bit each; the pair of a person is public."""
        reach = SAME if self.persons > 1 else None
        return (
            AccountantGraph(adjacency=Adjacency.LOCAL, pinned=True)
            .source("persons", size=self.persons)
            .release("bits", self._response.event(), reads=["persons"], reach=reach)
            .post("selection", reads=["bits"])
        )

    def chances(self, truth: int | npt.ArrayLike) -> FloatArray:
        """Returns the probability of a True for each pair, before randomised response, shape (pairs,)."""
        table, (first, second) = self.candidates.table(), self._pairs
        if np.ndim(truth) == 0:
            law = table[integer("truth", truth, low=0, high=len(table) - 1)]
        else:
            law = array("truth", checked_laws("truth", truth), shape=(table.shape[1],))
        return np.asarray((table[first] > table[second]) @ law)

    def simulate(self, truth: int | npt.ArrayLike, rng: np.random.Generator, trials: int) -> AnyIntArray:
        """Returns the candidates selected in independent trials, shape (trials,).

        The bits of a pair are i.i.d., so only their binomial number is drawn.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        count, size = integer("trials", trials, low=1), len(self._pairs[0])
        sizes = np.full(size, self.persons // size)
        sizes[: self.persons % size] += 1
        lie = self._response.lie_probability()
        true = lie + (1.0 - 2.0 * lie) * self.chances(truth)
        return self._winners(arguments.generator(rng).binomial(sizes, true, (count, size)), sizes)

    def privatise(
        self,
        label: object,
        *,
        person: int,
        run: bytes,
        noise: Noise | None = None,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
    ) -> bytes:
        """Returns the bytes of a person's bit about the pair ``person`` modulo the number of pairs.

        Arguments and errors are those of ``HypothesisSelection.privatise``.
        """
        number = integer("person", person, low=0, high=self.persons - 1)
        table, response, pair = self.candidates.table(), self._response, number % len(self._pairs[0])
        form, first, second = self._form(run), self._pairs[0][pair], self._pairs[1][pair]
        place = self.candidates.place(label)
        bit = bool(place < self.candidates.labels and table[first, place] > table[second, place])

        def drawn() -> Message:
            return Message(pair, int(response.release([int(bit)], noise=noise)[0]))

        return sent(
            response.event(), drawn, form, number, noise=noise, ledger=ledger, name=name, reads=reads
        )  # fmt: skip

    def server(self, *, run: bytes) -> ScheffeServer:
        """Returns the server that receives the bits of a run, in any order."""
        return ScheffeServer(self, run=run)

    def _form(self, run: bytes) -> MessageFormat:
        return MessageFormat(payload="bit", experts=len(self._pairs[0]), limit=1.0, run=run)

    def _winners(self, ones: AnyIntArray, sizes: AnyIntArray) -> AnyIntArray:
        """The candidate with most pairs won, from the ones of each pair, shape (trials, pairs)."""
        (first, second), table = self._pairs, self.candidates.table()
        lie = self._response.lie_probability()
        estimate = (ones / np.maximum(sizes, 1) - lie) / (1.0 - 2.0 * lie)
        better = table[first] > table[second]
        for_first, for_second = (np.sum(better * table[side], axis=1) for side in (first, second))
        won = np.where(np.abs(estimate - for_first) <= np.abs(estimate - for_second), first, second)
        wins = np.zeros((len(ones), len(table)), dtype=np.int64)
        np.add.at(wins, (np.arange(len(ones))[:, None], won), (sizes > 0).astype(np.int64))
        return np.asarray(np.argmax(wins, axis=1))

    @property
    def _pairs(self) -> tuple[AnyIntArray, AnyIntArray]:
        return np.triu_indices(self.candidates.count, 1)

    @property
    def _response(self) -> RandomizedResponse:
        return RandomizedResponse(self.epsilon, categories=2)


class ScheffeServer(RecordingServer):
    """The server of a ``ScheffeSelection``: bits of persons in any order, then the winner of the tournament.

    Args:
        rule: The selection.
        run: 8 bytes that identify the run.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners import ScheffeSelection
        >>> from hockeystick.learners.distribution import LabelTable
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> rule = ScheffeSelection(candidates=LabelTable([[0.9, 0.1], [0.1, 0.9]]), epsilon=2.0, persons=50)
        >>> server, noise = rule.server(run=b"8 bytes."), SimulationNoise(1)
        >>> for person in range(50):  # every label is 1
        ...     _ = server.receive(rule.privatise(1, person=person, run=b"8 bytes.", noise=noise))
        >>> server.selected()
        1
    """

    def __init__(self, rule: ScheffeSelection, *, run: bytes) -> None:
        if not isinstance(rule, ScheffeSelection):
            raise InvalidArgumentError("rule", type(rule).__name__, "is not a ScheffeSelection", "give one")
        super().__init__(run)
        self.rule = rule
        self._form = rule._form(run)

    def selected(self, *, incomplete: bool = False) -> int:
        """Returns the candidate that wins most pairs; there is no mean prediction.

        Args:
            incomplete: Whether to decode although messages are missing; pairs without any count for nobody.

        Raises:
            InvalidArgumentError: messages are missing.
        """
        check_complete(self.heard, self.rule.persons, incomplete)
        recorded = self._parts.get(0, Recorded(self._form, 1))
        messages = recorded.messages()[0]
        assert messages.index is not None
        sizes = np.bincount(messages.index, minlength=self._form.experts)
        ones = np.bincount(messages.index, weights=messages.value, minlength=self._form.experts)
        return int(self.rule._winners(ones[None].astype(np.int64), sizes)[0])

    def _index(self, number: int) -> int:
        return number % self._form.experts

    def _place(self, number: int) -> tuple[int, int]:
        if number >= self.rule.persons:
            raise RefusedMessageError("the number is beyond the last person")
        return 0, number

    def _number(self, part: int, place: int) -> int:
        return place

    def _part(self, part: int) -> tuple[MessageFormat, int]:
        return self._form, self.rule.persons

    def _identity(self) -> RunIdentity:
        table = hashlib.sha256(self.rule.candidates.table().tobytes()).hexdigest()
        rule = f"{table} {self.rule.candidates.table().shape} {self.rule.epsilon!r}"
        return RunIdentity(rule=rule, parts=self.rule.persons, run=self._form.run.hex())
