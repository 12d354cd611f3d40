"""The lazy learner of convex losses, one round at a time, resumable, and as a release.

A :class:`ConvexStream` plays the learner's points as the losses come in. Its law is that of ``LazyConvex.simulate``.
All of its randomness comes from one source of noise:

* with ``SimulationNoise`` it simulates, with any certified sampler;
* with secure noise it publishes. Then every step is done in exact arithmetic: losses are counted in whole numbers
  (:mod:`hockeystick.learners.lazy.convex.losses.loss_sums`), coins have exactly the stated probabilities
  (``LazySwitch``), and points are exact draws (:mod:`hockeystick.learners.lazy.convex.sampling.exact_normal`), rounded
  down to a lattice far finer than any float. So what is charged, the learner's plan, covers what is published. What
  rounding is left, of single losses and of points, is paid for by ``LIPSCHITZ_SLACK``; that of regression losses, whose
  values take floating point, by the sampler's certificate
  (:mod:`hockeystick.learners.lazy.convex.sampling.tangent_rejection`).

The cost of the whole run is recorded at its start, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from attrs import define, frozen

from hockeystick.accounting import Adjacency
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.errors import unchained
from hockeystick.learners.common.stream_checkpoint import refused, seal, unseal
from hockeystick.learners.lazy.convex.losses.convex_losses import ConvexLosses, checked_losses
from hockeystick.learners.lazy.convex.losses.loss_sums import LossSum
from hockeystick.learners.lazy.convex.setting import ConvexSetting
from hockeystick.learners.lazy.convex.stream_setting import Point, StreamSetting
from hockeystick.mechanisms import LazyWalk, Noise, StreamHaltedError
from hockeystick.mechanisms.lazy.lazy_sampler import WalkState
from hockeystick.mechanisms.randomness.noise import check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

_KIND, _VERSION = "checkpoint of a ConvexStream", 1


@frozen(eq=False)
class ConvexRelease:
    """What a run publishes. Neither its loss nor its regret is here: they are functions of the data.

    Attributes:
        actions: Shape ``(rounds, d)``: the point played in each round.
        switched: Shape ``(batches,)``, bool: whether it was drawn afresh for the batch.
        simulated: Whether the noise was simulated, so that this is no release.
    """

    actions: FloatArray
    switched: npt.NDArray[np.bool_]
    simulated: bool

    @property
    def switches(self) -> int:
        """How often the point was drawn afresh after the first draw."""
        return int(self.switched.sum())


def start(
    learner: ConvexSetting,
    *,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> ConvexStream:
    """A stream at its first round; the learner's whole plan is charged here, as one event.

    Args:
        learner: The learner. A release needs ``sampler=ExactSampler()``, or ``SecureTangentSampler()``. Losses that
            depend on points already played need ``adversary="adaptive"``.
        ledger: Where the cost is recorded, before anything is drawn.
        name, reads: As for ``Laplace.release``.
        noise: None for secure noise; ``SimulationNoise`` for a simulation, which is recorded as such.

    Raises:
        SecureReleaseUnavailableError: secure noise is not installed (the extra ``secure``).
        InvalidArgumentError: the learner's sampler or domain is not fit for the noise, or the ledger and its arguments
            do not fit.
        UnsupportedEventError: the sampler has no certificate.
        HockeystickError: the ledger refuses.
    """
    source = check_noise(noise)
    setting = StreamSetting.of(learner, source)

    def begun() -> ConvexStream:
        walk = setting.plan().start(lambda noise: setting.draw(setting.nothing(), noise), noise=source)
        return ConvexStream(setting, walk, source.simulated, _Read(setting.nothing(), setting.nothing()))

    if ledger is None and name is None and reads is None:
        return begun()
    return charged(
        learner.graph().guarantee().event, begun, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE
    )


@unchained()
def resume(learner: ConvexSetting, checkpoint: dict[str, Any], *, noise: Noise | None = None) -> ConvexStream:
    """The stream that wrote ``checkpoint``, with fresh coins; nothing is charged, as ``start`` has paid for all of it.

    Continue a checkpoint once. Two continuations of one checkpoint publish more than one run: no guarantee of the
    learner covers both.

    Args:
        learner: The learner with which the stream was started.
        checkpoint: What ``ConvexStream.checkpoint`` has returned, or that after a round trip through JSON.
        noise: As for :func:`start`; secure noise for a stream that was started with it, simulated for a simulated one.

    Raises:
        InvalidArgumentError: the checkpoint is none, was changed, is of another version or another learner, or its
            noise is of the other kind.
        SecureReleaseUnavailableError: secure noise is not installed (the extra ``secure``).
    """
    source = check_noise(noise)
    setting = StreamSetting.of(learner, source)
    body = unseal(checkpoint, kind=_KIND, version=_VERSION, learner=learner, simulated=source.simulated)
    try:
        read, state = _Read.from_json(body["read"], setting), _walk_from_json(body["walk"], setting)
        if state.steps_left != setting.plan().boundaries - min(read.round // learner.batch, learner.batches - 1):
            raise ValueError("rounds and boundaries do not agree")
        walk = setting.plan().resume(state, noise=source)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise refused(f"does not hold a state of this learner ({type(error).__name__})") from None
    return ConvexStream(setting, walk, source.simulated, read)


def release(
    learner: ConvexSetting,
    losses: ConvexLosses,
    *,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> ConvexRelease:
    """Plays a whole stream of losses, and returns what may be published.

    Args:
        learner: As for :func:`start`.
        losses: One loss per round; all of them are checked before anything is charged or drawn.
        ledger, name, reads, noise: As for :func:`start`.

    Raises:
        As :func:`start`; InvalidArgumentError also for losses that are none of this learner's.
    """
    learner.checked(losses)
    source = check_noise(noise)
    StreamSetting.of(learner, source).check(losses)
    stream = start(learner, ledger=ledger, name=name, reads=reads, noise=source)
    actions = np.empty((learner.rounds, learner.domain.dimension))
    switched = np.zeros(learner.batches, np.bool_)
    for batch in range(learner.batches):
        first, last = batch * learner.batch, min(learner.rounds, (batch + 1) * learner.batch)
        actions[first:last], switched[batch] = stream.predict(), stream.switched
        stream._take(losses, first, last)
    return ConvexRelease(actions, switched, source.simulated)


@define(eq=False)
class _Read:
    """The losses that a stream has read.

    Attributes:
        total: Those of all batches that are over.
        batch: Those of the running one.
        round: Their number.
    """

    total: LossSum
    batch: LossSum
    round: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"round": self.round, "total": self.total.to_json(), "batch": self.batch.to_json()}

    @classmethod
    def from_json(cls, found: dict[str, Any], setting: StreamSetting) -> _Read:
        """Raises KeyError, TypeError or ValueError for what :meth:`to_json` has not written."""
        learner, dimension = setting.learner, setting.learner.domain.dimension
        total, batch = (LossSum.from_json(found[key], dimension, setting.units) for key in ("total", "batch"))
        for losses in (*total.regressions(), *batch.regressions()):
            setting.check(losses)
        if type(found["round"]) is not int or not 0 <= found["round"] <= learner.rounds:
            raise ValueError("no number of rounds")
        return cls(total, batch, found["round"])


def _walk_to_json(state: WalkState[Point]) -> dict[str, Any]:
    points = {"action": [str(x) for x in state.action], "shadow": [str(x) for x in state.shadow or ()]}
    return points | {"switched": state.switched, "steps_left": state.steps_left, "draws_left": state.draws_left}


def _walk_from_json(found: dict[str, Any], setting: StreamSetting) -> WalkState[Point]:
    """Raises KeyError, TypeError or ValueError for what :func:`_walk_to_json` has not written."""
    domain = setting.learner.domain
    points = [tuple(int(x) for x in found[key]) for key in ("action", "shadow")]
    for point in points:
        at = setting.floats(point)
        with np.errstate(over="ignore", invalid="ignore"):
            inside = at.shape == (domain.dimension,) and np.abs(at - domain.project(at)).max() <= (
                1e-9 * domain.largest_norm
            )
        if not inside:  # nor where it is so far out that all of it is NaN
            raise ValueError("a point outside the domain")
    if type(found["switched"]) is not bool:
        raise ValueError("no coin")
    return WalkState(points[0], points[1], found["switched"], found["steps_left"], found["draws_left"])


class ConvexStream:
    """One run of a lazy learner of convex losses; :func:`start` begins it, :func:`resume` takes it up again.

    It holds the sums of linear and of quadratic losses, so that its size does not depend on the number of rounds;
    losses of any other family are kept, all of them, and its size grows with their number. A round that ends no batch
    costs the reading of its loss; at the end of a batch coins are tossed, and points are drawn if coins say so.

    A failure in the middle of a draw leaves the stream unusable; go back to the last checkpoint only if nothing that
    was played after it has been published.
    """

    __slots__ = ("_read", "_setting", "_simulated", "_walk")

    def __init__(self, setting: StreamSetting, walk: LazyWalk[Point], simulated: bool, read: _Read) -> None:
        self._setting, self._walk, self._simulated, self._read = setting, walk, simulated, read

    @property
    def round(self) -> int:
        """How many rounds are over."""
        return self._read.round

    @property
    def switched(self) -> bool:
        """Whether the point was drawn afresh for this batch; False in the first."""
        return self._walk.switched

    @property
    def simulated(self) -> bool:
        """Whether the noise is, so that this is no release."""
        return self._simulated

    def predict(self) -> FloatArray:
        """The point to play in this round, shape (d,); the same until the batch is over.

        Raises:
            StreamHaltedError: all rounds have been played.
        """
        self._check_open("predict")
        return self._setting.learner.domain.project(self._setting.floats(self._walk.action))

    def update(self, loss: ConvexLosses) -> None:
        """Reads the loss of this round.

        Args:
            loss: A stream of one round, such as ``LinearLosses`` with gradients of shape (1, d).

        Raises:
            InvalidArgumentError: not one convex loss over the domain with the declared Lipschitz constant, or one of a
                family of which the sampler can't draw; nothing was read.
            StreamHaltedError: all rounds have been played.
        """
        self._check_open("update")
        learner = self._setting.learner
        checked_losses("loss", loss, rounds=1, domain=learner.domain, lipschitz=learner.lipschitz)
        self._setting.check(loss)
        self._take(loss, 0, 1)

    def _check_open(self, name: str) -> None:
        if self.round >= self._setting.learner.rounds:
            raise StreamHaltedError(f"{name}: all {self.round} rounds are over; start another run")

    def _take(self, losses: ConvexLosses, start: int, stop: int) -> None:
        """Takes in checked losses of one batch, and passes the boundary after it."""
        setting, learner, read = self._setting, self._setting.learner, self._read
        read.batch.read(losses, start, stop)
        read.round += stop - start
        if read.round % learner.batch or read.round == learner.rounds:
            return
        read.total.add(read.batch)
        beta = Fraction(learner.inverse_temperature)
        self._walk.step(
            lambda point: -beta * read.batch.value(point, setting.unit), lambda noise: setting.draw(read.total, noise)
        )
        read.batch = setting.nothing()

    def checkpoint(self) -> dict[str, Any]:
        """All that is needed to go on, as a value for ``json.dumps``; see :func:`resume`.

        It holds the sums of the losses, those of the running batch, and the shadow: it is as private as the data, and
        must be kept like them. It holds no state of a generator and no coin to come: whoever reads it learns nothing
        about later draws beyond their law. It has a checksum against accidents; against forgers, sign it.

        Resuming one checkpoint twice publishes two continuations, which no guarantee here covers.

        Raises:
            InvalidArgumentError: the stream holds losses of a family that is none of the library's.
        """
        return seal(
            {"walk": _walk_to_json(self._walk.state()), "read": self._read.to_json()},
            kind=_KIND,
            version=_VERSION,
            learner=self._setting.learner,
            simulated=self._simulated,
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a ConvexStream can't be copied or pickled: its cost covers one run; use checkpoint()")
