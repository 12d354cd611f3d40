"""Online learners whose actions are functions of noisy prefix sums, one round at a time.

The prefix sums are the release. An action is post-processing of the latest one, with coins that need no secure source:
they are seeded from the run's noise, and seeded again when a run is resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.validate import array, integer
from hockeystick.learners.common.round_stream import RoundStream, charged_run
from hockeystick.learners.common.stream_checkpoint import reading_a_state
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger
from hockeystick.mechanisms.streams.step_mechanism import RunningSteps, StepMechanism


@frozen(eq=False)
class Coins:
    """The coins of a run: a shift of all its sums, and a generator for each kind of coin that is drawn in a round."""

    shift: FloatArray
    normal: np.random.Generator
    gumbel: np.random.Generator


class PublishesSums(Protocol):
    """A learner whose runs are ``SumsStream``s."""

    @property
    def rounds(self) -> int:
        """T; the last round's losses are never read."""

    @property
    def _entries(self) -> int:
        """Length of the sums."""

    @property
    def _shift_scale(self) -> float:
        """Standard deviation of the shift."""

    @property
    def mechanism(self) -> StepMechanism:
        """The prefix sums of the first T - 1 rounds."""

    def event(self) -> PrivacyEvent:
        """Returns the cost of a run."""


class FollowsSums(PublishesSums, Protocol):
    """One whose actions follow from the latest sum."""

    def _contribution(self, losses: Any, action: Any, at: int) -> FloatArray:
        """Returns what round number ``at`` adds to the sums, shape (entries,), checked."""

    def _actions_of(self, sums: FloatArray, first: int, coins: Coins) -> Any:
        """Returns the actions of rounds ``first`` …, from sums of shape (..., n, entries); the last axis may go."""


class MixesSums(FollowsSums, Protocol):
    """A learner whose runs are ``NoisySumStream``s: it pads the sums first, and may draw from a mixture of experts."""

    def _padded(self, sums: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns what rounds ``first`` … read of the sums before them, with more noise or not, in their shape."""

    def _mixtures_of(self, read: FloatArray) -> FloatArray:
        """Returns the law of each round's expert given what it reads, in its shape."""


class ReadsBlocks(MixesSums, Protocol):
    """One that reads the losses of many rounds at a time."""

    def _read_blocks(self, losses: Any) -> Iterator[Any]:
        """Returns what the rounds add to the sums, checked, a few at a time; an array is checked at once."""


@frozen(eq=False)
class PublishedMixtures:
    """A run of T rounds with all that its release lets everybody compute.

    Attributes:
        sums: Shape ``(T - 1, d)``: the noisy sums of the first 1, 2, ... rounds' losses; of the mean losses, for
            ``NoisyHedge``.
        mixtures: Shape ``(T, d)``: the distribution that each round's expert is drawn from.
        actions: Shape ``(T,)``: the experts drawn; None where each client draws its own.

    See ``TreeExperts.release_mixtures`` for an example.
    """

    sums: FloatArray
    mixtures: FloatArray
    actions: npt.NDArray[np.int64] | None


class SumsStream(RoundStream):
    """Base of the runs: they hold the noisy sums, and what the learner computes from the latest one."""

    __slots__ = ("_action", "_coins", "_running")

    def __init__(self, learner: PublishesSums, running: RunningSteps[Any], coins: Coins, simulated: bool) -> None:
        super().__init__(learner, simulated)
        self._running, self._coins = running, coins
        self._act(np.zeros((1, learner._entries)))

    def _take(self, added: FloatArray) -> None:
        """Ends the round with what it adds to the sums, checked before."""
        self._round += 1
        if self._round < self._learner.rounds:
            self._act(self._running.extend(added[None]))

    def _act(self, sums: FloatArray) -> None:
        """Prepares the next round's action from the sums before it, shape (1, entries)."""
        self._action = self._next(sums)[0]

    def _next(self, sums: FloatArray) -> Any:
        """Returns the actions of the rounds up to the next one, each after its sums."""
        first = self._round + 1 - len(sums)
        return self._learner._actions_of(sums + self._coins.shift, first, self._coins)

    def _body(self) -> dict[str, Any]:
        return {
            "running": self._running.state(),
            "shift": self._coins.shift.tolist(),
            "action": np.asarray(self._action).tolist(),
        }

    def _restore(self, body: dict[str, Any]) -> None:
        """Reads the rest of a checkpoint."""


Run = TypeVar("Run", bound=SumsStream)


class NoisySumStream(SumsStream):
    """One run of ``TreeExperts``, ``AnytimeTreeExperts``, ``PrivateFTRL`` or ``NoisyHedge``.

    Example:
        >>> from hockeystick.learners import TreeExperts
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = TreeExperts.calibrated(rounds=100, experts=3, epsilon=1.0, delta=1e-6)
        >>> stream = learner.start(noise=SimulationNoise(1))
        >>> stream.update([1.0, 0.0, 0.5])
        >>> stream.round, stream.predict() in (0, 1, 2)
        (1, True)
        >>> again = learner.resume(stream.checkpoint(), noise=SimulationNoise(2))
        >>> again.round, again.predict() == stream.predict()
        (1, True)
    """

    __slots__ = ("_read",)
    _version = 2

    def predict(self) -> Any:
        """Returns the action of the next round, the same one until ``update``: an expert, a point, or a law.

        Raises:
            StreamHaltedError: all rounds are over.
        """
        self._check_open()
        return self._action.copy() if isinstance(self._action, np.ndarray) else int(self._action)

    def update(self, losses: Any) -> None:
        """Reads the losses of the next round, as the learner takes them.

        Raises:
            StreamHaltedError: all rounds are over.
            InvalidArgumentError: bad losses; nothing was read.
        """
        self._check_open()
        self._take(self._learner._contribution(losses, self._action, self._round))

    def _mixture(self) -> FloatArray:
        self._check_open()
        return np.asarray(self._learner._mixtures_of(self._read))

    def _act(self, sums: FloatArray) -> None:
        read, actions = self._played(sums)
        self._read, self._action = read[0], actions[0]

    def _played(self, sums: FloatArray) -> tuple[FloatArray, Any]:
        """Returns what the rounds up to the next one read, each of the sums before it, and their actions."""
        first = self._round + 1 - len(sums)
        read = self._learner._padded(sums + self._coins.shift, first, self._coins)
        return read, self._learner._actions_of(read, first, self._coins)

    def _extend(self, rows: Any) -> tuple[FloatArray, FloatArray, Any]:
        """Plays the rounds of checked rows; returns the sums after them, what is read of these, and the next actions.

        The last round's losses are not read.
        """
        rows = rows[: self._learner.rounds - 1 - self._round]
        sums = self._running.extend(rows)
        self._round += len(rows)
        return sums, *self._played(sums)

    def _body(self) -> dict[str, Any]:
        return super()._body() | {"read": self._read.tolist()}

    def _restore(self, body: dict[str, Any]) -> None:
        self._read = array("read", body["read"], shape=(self._learner._entries,))


def start(
    learner: MixesSums,
    *,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> NoisySumStream:
    """Begins a run that reads one round at a time; records its whole cost before anything is drawn.

    Args:
        learner: The learner.
        ledger: Records the learner's ``event()`` under ``name``; see ``Laplace.release``.
        name: The run's name in the ledger.
        reads: The sources that the run reads, for a ``FilteredLedger``.
        noise: None for secure noise; ``SimulationNoise`` for reproducible runs, which are not releases.

    Returns:
        The run, before its first round. In each round call its ``predict()``, then ``update(...)``.

    Raises:
        HockeystickError: the ledger refuses.
    """
    return begun(NoisySumStream, learner, ledger, name, reads, noise)


def begun(
    kind: type[Run],
    learner: PublishesSums,
    ledger: AnyLedger | None,
    name: str | None,
    reads: Iterable[str] | None,
    noise: Noise | None,
) -> Run:
    """Begins a run of any kind; see :func:`start`."""
    source = check_noise(noise)

    def begin() -> Run:
        running = learner.mechanism._running((learner._entries,), source)
        return kind(learner, running, _coins(learner, source), source.simulated)

    return charged_run(learner.event(), begin, source, ledger, name, reads)


def resume(
    learner: MixesSums,
    checkpoint: dict[str, Any],
    *,
    ledger: AnyLedger | None = None,
    noise: Noise | None = None,
) -> NoisySumStream:
    """Continues the run that ``checkpoint()`` saved; its cost was recorded at its start.

    Args:
        learner: The learner.
        checkpoint: The value of ``checkpoint()``, possibly after a round trip through JSON.
        ledger: That of ``start``, which refuses to resume a checkpoint twice; without one there is a warning.
        noise: As for ``start``, and of the same kind as there.

    Returns:
        The run, after the round in which it was saved.

    Raises:
        LedgerError: another session has resumed the checkpoint, or the ledger was not charged for its run.
        InvalidArgumentError: the checkpoint is malformed, was changed, or belongs to a learner with other parameters or
            to noise of the other kind.
    """
    return continued(NoisySumStream, learner, checkpoint, ledger, noise)


@unchained()
def continued(
    kind: type[Run], learner: PublishesSums, checkpoint: dict[str, Any], ledger: AnyLedger | None, noise: Noise | None
) -> Run:
    """Continues a run of any kind; see :func:`resume`."""
    source = check_noise(noise)
    body = kind._opened(learner, checkpoint, source.simulated)
    with reading_a_state():
        shift = array("shift", body["shift"], shape=(learner._entries,))
        running = learner.mechanism.resume(body["running"], (learner._entries,), noise=source)
        stream = kind(learner, running, _coins(learner, source, shift), source.simulated)
        stream._round = integer("round", body["round"], low=0, high=learner.rounds)
        if running.done != min(stream._round, learner.rounds - 1):
            raise ValueError("numbers of rounds and steps do not match")
        like = np.asarray(stream._action)
        action = array("action", body["action"], shape=like.shape, dtype=like.dtype)
        stream._restore(body)
    stream._action = action if action.ndim else action[()]
    return stream._continuing(checkpoint, ledger)


def release(
    learner: ReadsBlocks,
    losses: Any,
    *,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> Any:
    """Returns the action of each round from secure noise: experts, shape (rounds,), or laws, shape (rounds, experts).

    Clients draw their experts from laws by themselves, as post-processing.

    Args:
        learner: The learner.
        losses: Shape (rounds, experts): an array, possibly memory-mapped, or an iterable of blocks of rows of any
            length, which are read in blocks (with sums by the square root they are stored). Of learners with clients an
            array, shape (clients, rounds, experts), whose losses are rounded to a multiple of 2^-30 (coarser beyond
            2^22 clients) before they are added up, so that one client moves the sum by no more than its loss. There are
            as many rounds as the learner has, or up to so many for a learner of an unknown number.
        ledger, name, reads, noise: As for ``start``.

    Raises:
        InvalidArgumentError: bad losses. An array is checked before anything is recorded; blocks are checked on
            arrival: a bad one ends the run, and the charge remains.
        HockeystickError: the ledger refuses.
    """
    blocks = learner._read_blocks(losses)
    stream = begun(NoisySumStream, learner, ledger, name, reads, noise)
    found, count = [np.array([stream._action])], 0
    for rows in blocks:
        count += len(rows)
        found.append(stream._extend(rows)[2])
    return np.concatenate(found)[:count]


def release_mixtures(
    learner: ReadsBlocks,
    losses: Any,
    *,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> PublishedMixtures:
    """Returns the run of ``release`` with its noisy sums, and the distribution of each round's expert given them.

    The mixtures are post-processing of the sums, so that everything together costs what the experts cost. Those of
    Hedge are exponential weights; that of a leader is a point mass. Memory: three arrays as long as the stream.

    Args:
        learner: The learner.
        losses, ledger, name, reads, noise: As for ``release``.

    Raises:
        HockeystickError: as for ``release``.

    Example:
        >>> from hockeystick.learners import TreeExperts
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = TreeExperts.calibrated(rounds=4, experts=2, epsilon=2.0, delta=1e-6, policy="adaptive hedge")
        >>> run = learner.release_mixtures([[0.0, 1.0]] * 4, noise=SimulationNoise(1))
        >>> run.mixtures.round(2).tolist(), run.sums.shape, run.actions.shape
        ([[0.5, 0.5], [0.56, 0.44], [0.83, 0.17], [0.98, 0.02]], (3, 2), (4,))
    """
    blocks = learner._read_blocks(losses)
    stream = begun(NoisySumStream, learner, ledger, name, reads, noise)
    sums, mixtures = [np.zeros((0, learner._entries))], [stream.mixture()[None]]
    actions, count = [np.array([stream._action])], 0
    for rows in blocks:
        count += len(rows)
        for own, found in zip((sums, mixtures, actions), stream._extend(rows), strict=True):
            own.append(found)
        mixtures[-1] = learner._mixtures_of(mixtures[-1])
    until, drawn = max(count, 1), actions[0].ndim == 1
    return PublishedMixtures(
        np.concatenate(sums)[: until - 1],
        np.concatenate(mixtures)[:until],
        np.concatenate(actions)[:until] if drawn else None,
    )


def _coins(learner: PublishesSums, noise: Noise, shift: FloatArray | None = None) -> Coins:
    root = np.random.default_rng(noise.uniform(2**31, 8).tolist())
    first, normal, gumbel = root.spawn(3)
    drawn = learner._shift_scale * first.standard_normal(learner._entries)
    return Coins(drawn if shift is None else shift, normal, gumbel)
