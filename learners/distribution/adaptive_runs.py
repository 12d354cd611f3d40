"""Runs in which the contexts, or the candidates about which the server asks, depend on earlier messages.

An adversary who sees all earlier messages may choose the contexts; all guarantees still hold. The channel of a message
is public, and the proof of the risk only needs the label to be independent of the weights, given the past.

In :class:`InteractiveDistribution` the server asks about candidates in proportion to their weights, as EXP3 does. The
cost of a message is unchanged, since its candidate depends on earlier messages only; but the channel now has a memory,
and devices must wait for the server. The bound is sqrt 2 times that of asking uniformly.

Runs are sequential over rounds and vectorised over runs.

Sources: Sima, Wu, Milenkovic & Szpankowski 2024 for the game; Auer, Cesa-Bianchi, Freund & Schapire 2002 for EXP3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.numerics.exact_sums import exact
from hockeystick.accounting.validate import integer
from hockeystick.learners.common.stream_checkpoint import refused, seal, unseal
from hockeystick.learners.distribution.channels.all_channels import Messages, OneBit
from hockeystick.learners.distribution.channels.wire import MessageFormat, RefusedMessageError
from hockeystick.learners.distribution.hypothesis_selection import nearest
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.recorded_messages import RunIdentity, sent
from hockeystick.learners.distribution.runs import Runs, context_numbers
from hockeystick.learners.distribution.server import UNIT, identity
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger

Adversary = Callable[[int, FloatArray], npt.ArrayLike]
"""A function from a round and the weights of all runs before it, shape (runs, K), to the contexts, shape (runs,)."""

_MOST_ROUNDS = 2**20  # of a simulation, one after another: a minute


def most_disagreement(learner: OnlineDistribution) -> Adversary:
    """Returns an adversary that chooses the context with the largest weighted mean of KL(candidate || mixture).

    Raises:
        InvalidArgumentError: labels without a table.
    """
    tables = np.stack([channel.levels.masses() for channel in learner.channels])  # (contexts, K, M)
    with np.errstate(divide="ignore", invalid="ignore"):
        negentropy = np.where(tables > 0, tables * np.log(tables), 0.0).sum(axis=2)

    def choose(_: int, weights: FloatArray) -> AnyIntArray:
        mixture = np.einsum("rk,ckm->rcm", weights, tables)
        logs = np.log(mixture, out=np.zeros_like(mixture), where=mixture > 0)
        return np.asarray(np.argmax(weights @ negentropy.T - np.sum(mixture * logs, axis=2), axis=1))

    return choose


def simulate_adaptively(
    learner: OnlineDistribution,
    truth: int,
    rng: np.random.Generator,
    runs: int,
    *,
    adversary: Adversary,
    rounds: int | None = None,
) -> Runs:
    """Returns runs against an adversary who chooses the context of each round and sees all earlier messages.

    Args:
        learner: The learner.
        truth: The true candidate.
        rng: The generator of all randomness.
        runs: The number of runs, >= 1.
        adversary: Chooses contexts.
        rounds: The number of rounds, at most 2^20; the horizon by default.

    Raises:
        InvalidArgumentError: an argument outside its domain, or contexts that do not exist.
    """
    return _sequential(learner, truth, rng, runs, adversary, rounds, None)


@frozen(kw_only=True)
class Request:
    """A public request of an interactive server to one device: a number, a candidate, and a context.

    See :class:`InteractiveServer` for an example.
    """

    number: int
    index: int
    context: int = 0


@frozen
class InteractiveDistribution:
    """A learner that asks about candidates in proportion to their weights, mixed with a little of the uniform law.

    It uses the channels and the horizon of ``learner``, and a learning rate of its own. Losses are divided by the
    probability of their candidate, which is at least ``learning_rate`` times the value of a bit.

    Source: Auer, Cesa-Bianchi, Freund & Schapire 2002 (EXP3).

    Args:
        learner: A learner with ``OneBit`` channels and the rule "tuned".

    Raises:
        InvalidArgumentError: another channel or rule, or too few rounds.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import InteractiveDistribution, OnlineDistribution
        >>> from hockeystick.learners.distribution import LabelTable
        >>> candidates = LabelTable([[0.9, 0.1], [0.1, 0.9]])
        >>> learner = InteractiveDistribution(OnlineDistribution.build(candidates, rounds=100, epsilon=2.0))
        >>> runs = learner.simulate(1, np.random.default_rng(1), 5, rounds=20)
        >>> runs.risk.shape, round(learner.risk_bound(), 1)
        ((5,), 36.5)
    """

    interactive: ClassVar[bool] = True
    learner: OnlineDistribution = field()

    @learner.validator
    def _is_one_bit(self, _: object, value: object) -> None:
        if not isinstance(value, OnlineDistribution) or not isinstance(value.channels[0], OneBit):
            raise InvalidArgumentError("learner", value, "does not send one bit", "use an OnlineDistribution of OneBit")
        if value.rule != "tuned":
            raise InvalidArgumentError("learner", value.rule, "is another rule", "use 'tuned'")
        if self.exploration > 0.5:
            raise InvalidArgumentError("learner", value.horizon, "rounds are too few to ask by weight", "use more")

    @property
    def _reach(self) -> float:
        channel = self.learner.channels[0]
        return channel.reach if isinstance(channel, OneBit) else math.inf

    @property
    def learning_rate(self) -> float:
        """The learning rate eta = sqrt(ln(K) / (T K)) / B, with B the value of a bit."""
        return math.sqrt(math.log(self.learner.experts) / (self.learner.horizon * self.learner.experts)) / self._reach

    @property
    def exploration(self) -> float:
        """The share gamma = K eta B of rounds in which the candidate is drawn uniformly."""
        return self.learner.experts * self.learning_rate * self._reach

    def risk_bound(self) -> float:
        """Returns a bound on the expected risk: ln(K)/eta + eta T K B^2/(1 - gamma) + T ln(T/(T-1)).

        It follows from e^-a <= 1 - a + a^2 for a >= -1; the weighted mean of the squares of the divided losses is at
        most K B^2/(1-gamma).
        """
        size, rounds, eta = self.learner.experts, self.learner.horizon, self.learning_rate
        second = eta * rounds * size * self._reach**2 / (1.0 - self.exploration)
        return math.log(size) / eta + second + self.learner.channels[0].levels.smoothing

    def graph(self) -> AccountantGraph:
        """Returns the plan; a message costs as much as with uniformly drawn candidates."""
        return self.learner.graph()

    def shuffled_graph(self) -> AccountantGraph:
        """Refuses, as no shuffler can hide messages on which the server's next question depends.

        Raises:
            UnsupportedEventError: always.
        """
        raise UnsupportedEventError(
            "the candidate of a message depends on earlier messages, which no shuffler hid: "
            "use an OnlineDistribution, whose devices draw it"
        )

    def simulate(
        self,
        truth: int,
        rng: np.random.Generator,
        runs: int,
        *,
        adversary: Adversary | None = None,
        rounds: int | None = None,
        group: int = 1,
    ) -> Runs:
        """Returns runs; arguments as for ``simulate_adaptively``. ``totals`` are sums of divided losses.

        ``group`` is the number of devices that the server asks at the same time. The bound on the risk is for 1.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        return _sequential(self.learner, truth, rng, runs, adversary, rounds, self, integer("group", group, low=1))

    def privatise(
        self,
        label: object,
        *,
        request: Request,
        run: bytes,
        noise: Noise | None = None,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
    ) -> bytes:
        """Returns the bytes of a device's answer to a server's request; every value of ``label`` gets one.

        Args:
            label: The private label.
            request: The public request, one for each device.
            run: 8 bytes that identify the run.
            noise: Secure noise by default.
            ledger: A ledger of this person, under local adjacency; it is charged before the first coin.
            name, reads: As for a mechanism's release.

        Raises:
            InvalidArgumentError: an argument outside its domain; nothing is charged.
            HockeystickError: the ledger refuses; nothing is drawn.
        """
        if not isinstance(request, Request):
            raise InvalidArgumentError("request", request, "is not a Request", "give one that the server made")
        channels = self.learner.channels
        number = integer("request.number", request.number, low=0, high=self.learner.horizon - 1)
        index = integer("request.index", request.index, low=0, high=self.learner.experts - 1)
        channel = channels[integer("request.context", request.context, low=0, high=len(channels) - 1)]
        return sent(
            channel.event(), lambda: channel.privatise(label, noise=noise, index=index),
            MessageFormat.of(channels[0], run=run), number, noise=noise, ledger=ledger, name=name, reads=reads,
        )  # fmt: skip

    def server(self, *, run: bytes, rng: np.random.Generator | None = None) -> InteractiveServer:
        """Returns the server of a run, which asks groups of devices one after another."""
        return InteractiveServer(self, run=run, rng=rng)


def _sequential(
    learner: OnlineDistribution,
    truth: int,
    rng: np.random.Generator,
    runs: int,
    adversary: Adversary | None,
    rounds: int | None,
    interactive: InteractiveDistribution | None,
    group: int = 1,
) -> Runs:
    source, count = arguments.generator(rng), arguments.run_count(runs)
    length = integer("rounds", learner.horizon if rounds is None else rounds, low=1, high=_MOST_ROUNDS)
    if adversary is None and len(learner.channels) != 1:
        raise InvalidArgumentError("adversary", None, "is missing for several contexts", "give one")
    experts = learner.experts
    rate = learner.learning_rate if interactive is None else interactive.learning_rate
    risks = [learner.risk(truth, c) for c in range(len(learner.channels))]
    totals, counts, mean = np.zeros((3, count, experts))
    risk = np.zeros(count)
    contexts: AnyIntArray = np.zeros(count, dtype=np.int64)
    for t in range(length):
        if t % group == 0:
            weights = np.exp(-rate * (totals - totals.min(axis=1, keepdims=True)))
            weights /= weights.sum(axis=1, keepdims=True)
        mean += weights
        probabilities = None if interactive is None else _probabilities(weights, interactive.exploration)
        if adversary is not None:
            contexts = context_numbers(adversary(t, weights), count, len(risks))
        for c in np.unique(contexts):
            here = np.flatnonzero(contexts == c)
            risk[here] += risks[c].of(weights[here].T)
            channel = learner.channels[c]
            labels = channel.levels.hypotheses.sample(truth, len(here), source, channel.levels.context)
            if probabilities is None:
                index, losses = learner.losses(channel.simulate(labels, source), c)
            else:
                index = _drawn(probabilities[here], source)
                _, losses = learner.losses(channel.simulate(labels, source, index=index), c)
                losses = losses / probabilities[here, index]
            if index is None:
                totals[here] += losses
                counts[here] += 1
            else:
                totals[here, index] += losses
                counts[here, index] += 1
    return Runs(
        rounds=length,
        risk=risk,
        marks=np.array([length]),
        curve=risk[:, None].copy(),
        mean_weights=mean / length,
        totals=totals,
        counts=counts,
    )


class InteractiveServer:
    """The server of an ``InteractiveDistribution``: it asks a group of devices, hears them in any order, and goes on.

    A device answers one request. When the next group is asked, answers to former requests are late and refused; a
    request without an answer changes nothing but the mean prediction, and the bound on the risk does not cover it.

    Answers of one group may come to several servers. One asks, and saves its state; the others resume from it, and each
    receives some answers; the one that asked merges them, and asks the next group.

    Args:
        rule: The learner.
        run: 8 bytes that identify the run.
        rng: The coins of the requests, which need not be secret: requests depend on earlier messages only.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import InteractiveDistribution, OnlineDistribution
        >>> from hockeystick.learners.distribution import LabelTable
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> candidates = LabelTable([[0.9, 0.1], [0.1, 0.9]])
        >>> rule = InteractiveDistribution(OnlineDistribution.build(candidates, rounds=200, epsilon=4.0))
        >>> server, noise = rule.server(run=b"8 bytes.", rng=np.random.default_rng(1)), SimulationNoise(1)
        >>> for _ in range(20):  # groups of ten devices, all with label 1
        ...     for request in reversed(server.ask(10)):
        ...         _ = server.receive(rule.privatise(1, request=request, run=b"8 bytes.", noise=noise))
        >>> server.heard, server.selected()
        (200, 1)
        >>> asking = rule.server(run=b"8 bytes.", rng=np.random.default_rng(1))
        >>> requests = asking.ask(10)
        >>> shards = [rule.server(run=b"8 bytes.").resumed(asking.checkpoint()) for _ in range(2)]
        >>> for request in requests:
        ...     data = rule.privatise(1, request=request, run=b"8 bytes.", noise=noise)
        ...     _ = shards[request.number % 2].receive(data)
        >>> for shard in shards:
        ...     asking.merge(shard)
        >>> asking.heard
        10
    """

    def __init__(self, rule: InteractiveDistribution, *, run: bytes, rng: np.random.Generator | None = None) -> None:
        if not isinstance(rule, InteractiveDistribution):
            raise InvalidArgumentError("rule", type(rule).__name__, "is not an InteractiveDistribution", "give one")
        self.rule = rule
        self._form = MessageFormat.of(rule.learner.channels[0], run=run)
        self._rng = np.random.default_rng() if rng is None else arguments.generator(rng)
        self._totals, self._counts = [0] * rule.learner.experts, [0] * rule.learner.experts  # of former groups
        self._mean = np.zeros(rule.learner.experts)
        self._asked = 0
        self._group: dict[int, tuple[int, int, float]] = {}  # the requests, by number
        self._answers: dict[int, int] = {}  # their divided losses, exact

    @property
    def heard(self) -> int:
        """The number of received messages."""
        return sum(self._counts) + len(self._answers)

    @property
    def asked(self) -> int:
        """The number of requests so far."""
        return self._asked

    @property
    def totals(self) -> FloatArray:
        """The sums of divided losses, correctly rounded, shape (K,)."""
        return np.array([total / UNIT for total in self._sums()[0]])

    def _sums(self) -> tuple[list[int], list[int]]:
        """Returns the exact sums and counts of all answers."""
        totals, counts = list(self._totals), list(self._counts)
        for number, loss in self._answers.items():
            index = self._group[number][0]
            totals[index] += loss
            counts[index] += 1
        return totals, counts

    def weights(self) -> FloatArray:
        """Returns softmax(-eta * totals), shape (K,)."""
        totals = self.totals
        odds = np.exp(-self.rule.learning_rate * (totals - totals.min()))
        return np.asarray(odds / odds.sum())

    def ask(self, devices: int = 1, *, context: int = 0) -> tuple[Request, ...]:
        """Returns requests to devices that were not asked before, and ends the former group.

        Args:
            devices: The number of devices; the bound on the risk is for 1.
            context: The public context of their rounds.

        Raises:
            InvalidArgumentError: an unknown context, or more requests than the horizon has rounds.
        """
        learner = self.rule.learner
        place = integer("context", context, low=0, high=len(learner.channels) - 1)
        left = learner.horizon - self._asked
        if left == 0:
            raise InvalidArgumentError("devices", devices, "are beyond the horizon", "the run is over")
        count, weights = integer("devices", devices, low=1, high=left), self.weights()
        chances = _probabilities(weights[None], self.rule.exploration)
        drawn = _drawn(np.repeat(chances, count, axis=0), self._rng).tolist()
        self._totals, self._counts = self._sums()
        first, self._asked, self._mean = self._asked, self._asked + count, self._mean + count * weights
        self._group, self._answers = {first + k: (j, place, float(chances[0, j])) for k, j in enumerate(drawn)}, {}
        return tuple(Request(number=n, index=j, context=c) for n, (j, c, _) in self._group.items())

    def receive(self, data: bytes) -> int:
        """Receives the bytes of an answer to an open request, and returns its number. A refusal changes nothing.

        Raises:
            RefusedMessageError: malformed, of another run, or an answer to no open request: late, received before,
                never asked, or about another candidate.
        """
        number, message = self._form.read(data)
        if number not in self._group or number in self._answers:
            raise RefusedMessageError(f"no request of number {number} is open: late, received before, or never asked")
        index, context, chance = self._group[number]
        if message.index != index:
            raise RefusedMessageError("field 'index' is not the candidate of the request")
        value = Messages(np.array([index]), np.array([message.value]))
        _, losses = self.rule.learner.losses(value, context)
        self._answers[number] = exact(float(losses[0]) / chance)
        return number

    def merge(self, other: InteractiveServer) -> None:
        """Takes the answers to this group that another server of the run received, which resumed from this one's state.

        The result does not depend on which server received an answer, to the last bit.

        Args:
            other: A server that was asked nothing else, and received answers to other requests.

        Raises:
            InvalidArgumentError: a server of another run or of another group, or a number that both have received.
        """
        if not isinstance(other, InteractiveServer) or other._identity() != self._identity():
            raise InvalidArgumentError("other", type(other).__name__, "is of another run", "merge servers of one run")
        if other._before() != self._before():
            raise InvalidArgumentError(
                "other", other.asked, "has other requests", "resume it from the state of the server that asks"
            )
        if self._answers.keys() & other._answers.keys():
            raise InvalidArgumentError("other", "...", "has a number that this server has", "an answer has one server")
        self._answers |= other._answers

    def _before(self) -> tuple[Any, ...]:
        """Returns all that servers of one group have in common."""
        return self._asked, self._group, self._totals, self._counts, self._mean.tolist()

    def predict(self, context: int = 0) -> FloatArray:
        """Returns the published law of the next label in this context, shape (M,)."""
        return np.asarray(self.weights() @ self.rule.learner._channel(context).levels.masses())

    def mean_prediction(self, context: int = 0) -> FloatArray:
        """Returns the mean over all requests of the law published before, had all been in this context, shape (M,).

        Raises:
            InvalidArgumentError: no request was made, or an unknown context.
        """
        if not self._asked:
            raise InvalidArgumentError("asked", 0, "leaves nothing to average", "ask first")
        return np.asarray(self._mean @ self.rule.learner._channel(context).levels.masses() / self._asked)

    def selected(self, context: int = 0) -> int:
        """Returns the candidate nearest to the mean prediction in total variation."""
        levels = self.rule.learner._channel(context).levels
        return int(nearest(self.mean_prediction(context), levels.hypotheses.table(levels.context)))

    def checkpoint(self) -> dict[str, Any]:
        """Returns the state as values for JSON, open requests included; coins of later requests are drawn afresh."""
        body = {
            "totals": [str(total) for total in self._totals],
            "counts": list(self._counts),
            "mean": self._mean.tolist(),
            "asked": self._asked,
            "group": [[number, *request] for number, request in self._group.items()],
            "answers": [[number, str(loss)] for number, loss in sorted(self._answers.items())],
        }
        return seal(body, kind=_KIND, version=_VERSION, learner=self._identity(), simulated=False)

    @unchained()
    def resumed(self, checkpoint: dict[str, Any]) -> InteractiveServer:
        """Takes the state of a ``checkpoint`` on a new server of the same run, and returns the server.

        Raises:
            InvalidArgumentError: it is not a checkpoint, was changed, or belongs to another rule or run; or the server
                has asked.
        """
        if self._asked:
            raise InvalidArgumentError("server", self._asked, "has asked devices", "resume a new server")
        body = unseal(checkpoint, kind=_KIND, version=_VERSION, learner=self._identity(), simulated=False)
        try:
            totals, counts = [int(each) for each in body["totals"]], [int(each) for each in body["counts"]]
            mean, asked = np.array(body["mean"], dtype=np.float64), int(body["asked"])
            group = {int(n): (int(j), int(c), float(p)) for n, j, c, p in body["group"]}
            answers = {int(n): int(loss) for n, loss in body["answers"]}
            experts = self.rule.learner.experts
            if not len(totals) == len(counts) == len(mean) == experts or answers.keys() - group.keys():
                raise ValueError
        except (KeyError, TypeError, ValueError, OverflowError):
            raise refused("lacks parts of a checkpoint") from None
        self._totals, self._counts, self._mean, self._asked = totals, counts, mean, asked
        self._group, self._answers = group, answers
        return self

    def _identity(self) -> RunIdentity:
        learner = self.rule.learner
        return RunIdentity(rule=repr(identity(learner)), parts=learner.horizon, run=self._form.run.hex())


_KIND = "checkpoint of an InteractiveServer"
_VERSION = 2  # 1 had no answers of the open group


def _probabilities(weights: FloatArray, exploration: float) -> FloatArray:
    return np.asarray((1.0 - exploration) * weights + exploration / weights.shape[1])


def _drawn(probabilities: FloatArray, rng: np.random.Generator) -> AnyIntArray:
    """One candidate for each row, drawn by its chances."""
    steps = np.cumsum(probabilities, axis=1)
    found = (steps < rng.random((len(probabilities), 1)) * steps[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(found, probabilities.shape[1] - 1), dtype=np.int64)
