"""Online distribution learning for an unknown number of rounds: epochs of doubling length, each started afresh.

Levels, rate and weights depend on the number of rounds. So each epoch e = 1, 2, .. has its own learner for 2^e rounds,
and the last epoch may be cut short. A person's label is used in one epoch only, so the epochs are in parallel and cost
as much as one message. The risk is at most 1/(1 - 1/sqrt 2), about 3.4, times that for a known number of rounds, up to
logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import SAME, AccountantGraph, Adjacency, InvalidArgumentError
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.distribution.channels.all_channels import Channel
from hockeystick.learners.distribution.channels.wire import MessageFormat, RefusedMessageError
from hockeystick.learners.distribution.hypothesis_selection import nearest
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.recorded_messages import RecordingServer, RunIdentity, check_complete, sent
from hockeystick.learners.distribution.runs import Runs, steps
from hockeystick.learners.distribution.server import DistributionServer, identity
from hockeystick.mechanisms.contract.arguments import generator, run_count, steps_in_all
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger

Maker = Callable[[int], OnlineDistribution]
_MOST = 2**62


@frozen
class Epoch:
    """One epoch: its first round, its number of rounds, and its learner."""

    first: int
    rounds: int
    learner: OnlineDistribution


@frozen(eq=False)
class AnytimeRuns:
    """Results of runs, with runs on the leading axis.

    Attributes:
        risk: Shape (runs,): the sum over all rounds of KL(truth || prediction), in nats.
        marks: Shape (epochs,): the number of rounds up to the end of each epoch.
        curve: Shape (runs, epochs): the risk up to the end of each epoch.
        epochs: The runs of each epoch.
    """

    risk: FloatArray
    marks: AnyIntArray = field(repr=False)
    curve: FloatArray = field(repr=False)
    epochs: tuple[Runs, ...] = field(repr=False)


def _maker(value: object) -> Maker:
    if not callable(value):
        raise InvalidArgumentError("make", value, "is not callable", "give a function from rounds to a learner")
    return value


@frozen
class AnytimeDistribution:
    """A learner for an unknown number of rounds.

    Args:
        make: Returns the learner for a number of rounds.

    Raises:
        InvalidArgumentError: ``make`` is not callable.

    Example:
        >>> from hockeystick.learners import AnytimeDistribution, OnlineDistribution
        >>> from hockeystick.learners.distribution import LabelTable
        >>> candidates = LabelTable([[0.9, 0.1], [0.1, 0.9]])
        >>> learner = AnytimeDistribution(lambda n: OnlineDistribution.build(candidates, rounds=n, epsilon=1.0))
        >>> [(epoch.first, epoch.rounds) for epoch in learner.epochs(20)]
        [(0, 2), (2, 4), (6, 8), (14, 6)]
        >>> round(learner.graph(rounds=20).guarantee().epsilon(0.0).upper, 6)
        1.0
    """

    make: Maker = field(converter=_maker)

    def epochs(self, rounds: int) -> Iterator[Epoch]:
        """Yields the epochs of a number of rounds; the last may be cut short.

        Raises:
            InvalidArgumentError: ``rounds`` is not an integer >= 1, or ``make`` returns something else.
        """
        left, first, length = integer("rounds", rounds, low=1), 0, 2
        while left > 0:
            yield Epoch(first, min(length, left), self._of_length(length))
            first, left, length = first + length, left - length, 2 * length

    def graph(self, *, rounds: int) -> AccountantGraph:
        """Returns the data-independent plan: every person answers in one round of one epoch."""
        graph = AccountantGraph(adjacency=Adjacency.LOCAL, pinned=True)
        for number, epoch in enumerate(self.epochs(rounds), start=1):
            users, reach = f"users of epoch {number}", SAME if epoch.rounds > 1 else None
            event = epoch.learner.channels[0].event()
            graph = graph.source(users, size=epoch.rounds).release(
                f"messages of epoch {number}", event, reads=[users], reach=reach
            )
        return graph

    def risk_bound(self, rounds: int) -> float:
        """Returns a bound on the expected risk: the sum of the bounds of the epochs, each taken as a whole."""
        return float(sum(epoch.learner.risk_bound() for epoch in self.epochs(rounds)))

    def simulate(
        self,
        truth: int | npt.ArrayLike,
        rng: np.random.Generator,
        runs: int,
        *,
        rounds: int,
        contexts: npt.ArrayLike | None = None,
        block: int = 1,
    ) -> AnytimeRuns:
        """Returns runs; arguments as for ``OnlineDistribution.simulate``.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        parts, marks, rng = [], [], generator(rng)
        work = steps(integer("rounds", rounds, low=1), integer("block", block, low=1))
        steps_in_all("rounds", rounds, work * run_count(runs))
        for epoch in self.epochs(rounds):
            last = epoch.first + epoch.rounds
            seen = None if contexts is None else np.asarray(contexts)[epoch.first : last]
            parts.append(epoch.learner.simulate(truth, rng, runs, rounds=epoch.rounds, contexts=seen, block=block))
            marks.append(last)
        curve = np.cumsum(np.stack([part.risk for part in parts], axis=1), axis=1)
        return AnytimeRuns(risk=curve[:, -1], marks=np.array(marks), curve=curve, epochs=tuple(parts))

    def privatise(
        self,
        label: object,
        *,
        round: int,
        run: bytes,
        context: int = 0,
        noise: Noise | None = None,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
    ) -> bytes:
        """Returns the bytes of the message of a round, on a device; every value of ``label`` gets a message.

        Args:
            label: The private label.
            round: 0, 1, 2, .., public.
            run: 8 bytes that identify the run.
            context: The public context of the round.
            noise: Secure noise by default.
            ledger: A ledger of this person, under local adjacency; it is charged before the first coin.
            name, reads: As for a mechanism's release.

        Raises:
            InvalidArgumentError: an argument outside its domain; nothing is charged.
            HockeystickError: the ledger refuses; nothing is drawn.
        """
        number = integer("round", round, low=0, high=_MOST - 1)
        channels = self._of_length(2 ** (_epoch(number) + 1)).channels
        channel, form = channels[integer("context", context, low=0, high=len(channels) - 1)], _form(channels, run)
        return sent(
            channel.event(), lambda: channel.privatise(label, noise=noise), form, number,
            noise=noise, ledger=ledger, name=name, reads=reads,
        )  # fmt: skip

    def server(self, *, run: bytes, rounds: int = 2**20) -> AnytimeServer:
        """Returns the server that receives the messages of a run, in any order."""
        return AnytimeServer(self, run=run, rounds=rounds)

    def _of_length(self, length: int) -> OnlineDistribution:
        learner = self.make(length)
        if not isinstance(learner, OnlineDistribution) or learner.horizon != length:
            raise InvalidArgumentError("make", learner, f"is not a learner for {length} rounds", "return one")
        return learner


class AnytimeServer(RecordingServer):
    """The server of an ``AnytimeDistribution``: messages of rounds in any order, predictions at any time.

    Args:
        rule: The learner.
        run: 8 bytes that identify the run.
        rounds: The largest number of rounds, which bounds the memory and changes nothing else.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners import AnytimeDistribution, OnlineDistribution
        >>> from hockeystick.learners.distribution import LabelTable
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> candidates = LabelTable([[0.9, 0.1], [0.1, 0.9]])
        >>> rule = AnytimeDistribution(lambda n: OnlineDistribution.build(candidates, rounds=n, epsilon=4.0))
        >>> server, noise = rule.server(run=b"8 bytes."), SimulationNoise(1)
        >>> for t in range(100):  # every label is 1
        ...     _ = server.receive(rule.privatise(1, round=t, run=b"8 bytes.", noise=noise))
        >>> server.selected(), bool(server.mean_prediction()[1] > 0.5), bool(server.predict()[1] > 0.5)
        (1, True, True)
    """

    def __init__(self, rule: AnytimeDistribution, *, run: bytes, rounds: int = 2**20) -> None:
        if not isinstance(rule, AnytimeDistribution):
            raise InvalidArgumentError("rule", type(rule).__name__, "is not an AnytimeDistribution", "give one")
        super().__init__(run)
        self.rule, self.rounds = rule, integer("rounds", rounds, low=1, high=_MOST)
        self._epochs = list(rule.epochs(self.rounds))
        self._forms = [_form(epoch.learner.channels, run) for epoch in self._epochs]
        self._live = [DistributionServer(epoch.learner) for epoch in self._epochs]

    @property
    def next_round(self) -> int:
        """The round after the latest of which there is a message."""
        part = max(self._parts, default=-1)
        return 0 if part < 0 else self._number(part, int(np.flatnonzero(self._parts[part].heard)[-1])) + 1

    def receive(self, data: bytes, *, context: int = 0) -> int:
        number = super().receive(data, context=context)
        part, place = self._place(number)
        self._live[part].update(self._forms[part].read(data)[1], round=place, context=context)
        return number

    def predict(self, context: int = 0) -> FloatArray:
        """Returns the law that is published for ``next_round`` in this context, shape (M,).

        Raises:
            InvalidArgumentError: an unknown context, labels without a table, or no round is left.
        """
        if self.next_round >= self.rounds:
            raise InvalidArgumentError("rounds", self.rounds, "are over", "give a larger number")
        return self._live[_epoch(self.next_round)].predict(context)

    def mean_weights(self, *, incomplete: bool = False) -> dict[int, FloatArray]:
        """Returns the number of messages of each epoch with messages, 0, 1, .., and the mean of its weights, (K,).

        Args:
            incomplete: Whether to decode although messages are missing before ``next_round``.

        Raises:
            InvalidArgumentError: messages are missing, or there is none.
        """
        check_complete(self.heard, max(1, self.next_round), incomplete and self.heard > 0)
        found = {}
        for part in sorted(self._parts):
            messages, contexts = self._parts[part].messages()
            found[part] = self._epochs[part].learner.replayed(messages, contexts).mean_weights[0]
        return found

    def mean_prediction(self, context: int = 0, *, incomplete: bool = False) -> FloatArray:
        """Returns the mean over the received rounds of their predictions, had they all been in this context: (M,).

        Without contexts its expected total variation from the truth is at most sqrt(R / (2 n)) after n rounds, with R
        the ``risk_bound`` of the rule. Errors are those of ``mean_weights``.
        """
        total = np.zeros(())
        for part, weights in self.mean_weights(incomplete=incomplete).items():
            channel = self._epochs[part].learner._channel(context)
            total = total + int(self._parts[part].heard.sum()) * (weights @ channel.levels.masses())
        return np.asarray(total / self.heard)

    def selected(self, context: int = 0, *, incomplete: bool = False) -> int:
        """Returns the candidate nearest to the mean prediction in total variation."""
        levels = self._epochs[0].learner._channel(context).levels
        return int(
            nearest(self.mean_prediction(context, incomplete=incomplete), levels.hypotheses.table(levels.context))
        )

    def _place(self, number: int) -> tuple[int, int]:
        if number >= self.rounds:
            raise RefusedMessageError("field 'round' is beyond the last")
        return _epoch(number), number + 2 - 2 ** (_epoch(number) + 1)

    def _number(self, part: int, place: int) -> int:
        return self._epochs[part].first + place

    def _part(self, part: int) -> tuple[MessageFormat, int]:
        return self._forms[part], self._epochs[part].rounds

    @property
    def _contexts(self) -> int:
        return len(self._epochs[0].learner.channels)

    def _identity(self) -> RunIdentity:
        rules = [repr(identity(epoch.learner)) for epoch in self._epochs]
        return RunIdentity(rule="\n".join(rules), parts=self.rounds, run=self._forms[0].run.hex())


def _epoch(number: int) -> int:
    """The epoch of a round: epoch e = 0, 1, .. has 2^(e+1) rounds."""
    return (number + 2).bit_length() - 2


def _form(channels: Sequence[Channel], run: bytes) -> MessageFormat:
    return MessageFormat.of(channels[0], run=run)
