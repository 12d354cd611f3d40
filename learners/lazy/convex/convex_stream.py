"""The lazy learner of convex losses, one round at a time, for publication: exact, and resumable.

A :class:`ConvexStream` plays the learner's points as the losses arrive. Its law is that of ``LazyConvex.simulate``.
All of its randomness comes from one source of noise:

* ``SimulationNoise`` makes a simulation, with any certified sampler;
* secure noise makes a release. Every step then uses exact arithmetic: losses are counted in whole numbers
  (:mod:`hockeystick.learners.lazy.convex.losses.loss_sums`), coins have exactly the stated probabilities
  (``LazySwitch``), and points are exact draws (:mod:`hockeystick.learners.lazy.convex.sampling.exact_normal`, and for
  regression losses :mod:`hockeystick.learners.lazy.convex.sampling.tangent_rejection`), rounded down to a lattice far
  finer than any float. The charge, which is the learner's plan, thus covers the publication. ``LIPSCHITZ_SLACK`` covers
  the remaining rounding of single losses and points, and that of regression losses in a coin's log-ratio, to 40 digits.

The cost of the whole run is recorded at its start, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import define, frozen

from hockeystick.accounting import InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.errors import unchained
from hockeystick.learners.common.round_stream import RoundStream, charged_run
from hockeystick.learners.common.stream_checkpoint import reading_a_state
from hockeystick.learners.lazy.convex.losses.convex_losses import ConvexLosses, checked_losses
from hockeystick.learners.lazy.convex.losses.given_losses import (
    Gradient,
    Losses,
    as_loss,
    check_adaptive,
    gradients_of,
    is_gradient,
    tangent,
)
from hockeystick.learners.lazy.convex.losses.loss_sums import LossSum
from hockeystick.learners.lazy.convex.setting import ConvexSetting
from hockeystick.learners.lazy.convex.stream_setting import Point, StreamSetting
from hockeystick.mechanisms import LazyWalk, Noise
from hockeystick.mechanisms.lazy.lazy_sampler import WalkState
from hockeystick.mechanisms.randomness.noise import check_noise
from hockeystick.mechanisms.release import AnyLedger


@frozen(eq=False)
class ConvexRelease:
    """The published part of a run. See ``ConvexStream`` for an example.

    Its loss and regret are missing: they are functions of the data that the guarantee does not cover.

    Attributes:
        actions: Shape ``(rounds, d)``: the point played in each round.
        switched: Shape ``(batches,)``, bool: whether the point was drawn afresh for the batch.
        simulated: Whether the noise was simulated; if so, this is not a release.
    """

    actions: FloatArray
    switched: npt.NDArray[np.bool_]
    simulated: bool

    @property
    def switches(self) -> int:
        """Number of draws of the point after the first."""
        return int(self.switched.sum())


def start(
    learner: ConvexSetting,
    *,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> ConvexStream:
    """Begins a run that reads one round at a time; charges the learner's whole plan, as one event.

    Args:
        learner: The learner. A release needs ``sampler=ExactSampler()``, or ``SecureTangentSampler()``. Losses that
            depend on points already played need ``adversary="adaptive"``.
        ledger: Records the cost before anything is drawn.
        name, reads: As for ``Laplace.release``.
        noise: None for secure noise; ``SimulationNoise`` for a simulation, which is recorded as such.

    Returns:
        The run, before its first round. In each round call its ``predict()``, then ``update(...)``.

    Raises:
        InvalidArgumentError: the noise does not suit the learner's sampler or domain, or the arguments do not suit the
            ledger.
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
    return charged_run(learner.graph().guarantee().event, begun, source, ledger, name, reads)


@unchained()
def resume(
    learner: ConvexSetting,
    checkpoint: dict[str, Any],
    *,
    ledger: AnyLedger | None = None,
    noise: Noise | None = None,
) -> ConvexStream:
    """Continues the run that ``ConvexStream.checkpoint`` saved, with fresh coins; ``start`` has charged all of it.

    Resume a checkpoint once. Two continuations of one checkpoint publish more than one run: the learner's guarantee
    does not cover both.

    Args:
        learner: The learner with which the stream was started.
        checkpoint: The value of ``ConvexStream.checkpoint``, possibly after a round trip through JSON.
        ledger: That of ``start``, which refuses to resume a checkpoint twice; without one there is a warning.
        noise: As for ``start``, and of the same kind as there.

    Returns:
        The run, after the round in which it was saved.

    Raises:
        LedgerError: another session has resumed the checkpoint, or the ledger was not charged for its run.
        InvalidArgumentError: the checkpoint is malformed, was changed, belongs to another version or another learner,
            or its noise is of the other kind.
    """
    source = check_noise(noise)
    setting = StreamSetting.of(learner, source)
    body = ConvexStream._opened(learner, checkpoint, source.simulated)
    with reading_a_state():
        read, state = _Read.from_json(body["read"], setting), _walk_from_json(body["walk"], setting)
        if state.steps_left != setting.plan().boundaries - min(read.round // learner.batch, learner.batches - 1):
            raise ValueError("numbers of rounds and boundaries do not match")
        walk = setting.plan().resume(state, noise=source)
    return ConvexStream(setting, walk, source.simulated, read)._continuing(checkpoint, ledger)


def release(
    learner: ConvexSetting,
    losses: Losses | Sequence[Gradient],
    *,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> ConvexRelease:
    """Returns one run for publication over a whole stream of losses.

    Args:
        learner: As for ``start``.
        losses: One loss per round; all of them are checked before anything is charged or drawn. An array of shape
            (T, d) holds the gradients of linear losses. A list of T functions, which return the gradient at a point,
            needs ``adversary="adaptive"``; see ``ConvexStream.update``.
        ledger, name, reads, noise: As for ``start``.

    Raises:
        InvalidArgumentError: losses outside the learner's class; other errors as for ``start``.
    """
    source, functions = check_noise(noise), gradients_of(losses)
    given = learner.checked(losses) if functions is None else None
    if given is not None:
        StreamSetting.of(learner, source).check(given)
    if functions is not None:
        check_adaptive("losses", learner.adversary)
        if len(functions) != learner.rounds:
            raise InvalidDataError("losses", losses, f"has {len(functions)} rounds", f"expected {learner.rounds}")
    stream = start(learner, ledger=ledger, name=name, reads=reads, noise=source)
    actions = np.empty((learner.rounds, learner.domain.dimension))
    switched = np.zeros(learner.batches, np.bool_)
    for batch in range(learner.batches):
        first, last = batch * learner.batch, min(learner.rounds, (batch + 1) * learner.batch)
        actions[first:last], switched[batch] = stream.predict(), stream.switched
        for loss in functions[first:last] if functions else ():
            stream.update(loss)
        if given is not None:
            stream._take(given, first, last)
    return ConvexRelease(actions, switched, source.simulated)


@define(eq=False)
class _Read:
    """The losses that a stream has read.

    Attributes:
        total: The sum over all finished batches.
        batch: The sum over the current batch.
        round: Number of losses.
    """

    total: LossSum
    batch: LossSum
    round: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"round": self.round, "total": self.total.to_json(), "batch": self.batch.to_json()}

    @classmethod
    def from_json(cls, found: dict[str, Any], setting: StreamSetting) -> _Read:
        """Inverts :meth:`to_json`; raises KeyError, TypeError or ValueError for other values."""
        learner, dimension = setting.learner, setting.learner.domain.dimension
        total, batch = (LossSum.from_json(found[key], dimension, setting.units) for key in ("total", "batch"))
        for losses in (*total.regressions(), *batch.regressions()):
            setting.check(losses)
        if type(found["round"]) is not int or not 0 <= found["round"] <= learner.rounds:
            raise ValueError("not a number of rounds")
        return cls(total, batch, found["round"])


def _walk_to_json(state: WalkState[Point]) -> dict[str, Any]:
    points = {"action": [str(x) for x in state.action], "shadow": [str(x) for x in state.shadow or ()]}
    return points | {"switched": state.switched, "steps_left": state.steps_left, "draws_left": state.draws_left}


def _walk_from_json(found: dict[str, Any], setting: StreamSetting) -> WalkState[Point]:
    """Inverts :func:`_walk_to_json`; raises KeyError, TypeError or ValueError for other values."""
    domain = setting.learner.domain
    points = [tuple(int(x) for x in found[key]) for key in ("action", "shadow")]
    for point in points:
        at = setting.floats(point)
        with np.errstate(over="ignore", invalid="ignore"):
            inside = at.shape == (domain.dimension,) and np.abs(at - domain.project(at)).max() <= (
                1e-9 * domain.largest_norm
            )
        if not inside:  # also where overflow makes the distance NaN
            raise ValueError("a point outside the domain")
    if type(found["switched"]) is not bool:
        raise ValueError("not a coin")
    return WalkState(points[0], points[1], found["switched"], found["steps_left"], found["draws_left"])


class ConvexStream(RoundStream):
    """One run of a ``LazyConvex``, which ``LazyConvex.start`` begins and ``LazyConvex.resume`` continues.

    It holds the sums of linear and of quadratic losses, so that its size does not depend on the number of rounds.
    Losses of other families are all stored, and its size grows with their number. Within a batch a round only reads its
    loss; at the end of a batch coins are tossed, and points are drawn if the coins say so.

    A failure in the middle of a draw leaves the stream unusable. Go back to the last checkpoint only if nothing that
    was played after it has been published.

    Example:
        >>> from hockeystick.learners import LazyConvex
        >>> from hockeystick.learners.lazy import Ball, ExactSampler
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = LazyConvex(
        ...     rounds=4, domain=Ball(1, 1.0), lipschitz=1.0, inverse_temperature=0.1, regularisation=2.0,
        ...     fake_switch_probability=0.3, sampler=ExactSampler())
        >>> stream = learner.start(noise=SimulationNoise(1))
        >>> stream.update([0.5])  # the gradient of a linear loss
        >>> stream.round, stream.predict().shape
        (1, (1,))
        >>> learner.release(np.zeros((4, 1)), noise=SimulationNoise(1)).actions.shape
        (4, 1)
    """

    __slots__ = ("_read", "_setting", "_walk")

    def __init__(self, setting: StreamSetting, walk: LazyWalk[Point], simulated: bool, read: _Read) -> None:
        super().__init__(setting.learner, simulated)
        self._setting, self._walk, self._read = setting, walk, read

    @property
    def round(self) -> int:
        """Number of rounds that are over."""
        return self._read.round

    @property
    def switched(self) -> bool:
        """Whether the point was drawn afresh for the current batch; False in the first."""
        return self._walk.switched

    def predict(self) -> FloatArray:
        """Returns the point to play in the next round, shape (d,); the same until the batch is over.

        Raises:
            StreamHaltedError: all rounds have been played.
        """
        self._check_open()
        return self._setting.learner.domain.project(self._setting.floats(self._walk.action))

    def update(self, loss: Losses | Gradient) -> None:
        """Reads the loss of the next round.

        Args:
            loss: The gradient of a linear loss, shape (d,); or a stream of one round, such as ``RegressionLosses`` with
                features of shape (1, d). Or a function that returns a convex loss's gradient at a point: the learner
                reads the linear loss with the gradient at the point that it plays. That loss depends on earlier draws,
                so the learner needs ``adversary="adaptive"``.

        Raises:
            InvalidArgumentError: not a single convex loss over the domain with the declared Lipschitz constant, or a
                family from which the sampler can't draw; nothing was read.
            StreamHaltedError: all rounds have been played.
        """
        self._check_open()
        learner = self._setting.learner
        if is_gradient(loss):
            check_adaptive("loss", learner.adversary)
            given: ConvexLosses = tangent("loss", loss, self.predict())
        else:
            given = as_loss("loss", loss)
        checked_losses("loss", given, rounds=1, domain=learner.domain, lipschitz=learner.lipschitz)
        self._setting.check(given)
        self._take(given, 0, 1)

    def _take(self, losses: ConvexLosses, start: int, stop: int) -> None:
        """Reads checked losses of one batch; at the end of the batch, passes the boundary."""
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
        """Returns the run's state, ready for JSON, for ``LazyConvex.resume``; see ``RoundStream``.

        It holds the sums of the losses, those of the current batch, and the shadow.

        Raises:
            InvalidArgumentError: the stream holds losses of a family from outside the library.
        """
        return super().checkpoint()

    def _body(self) -> dict[str, Any]:
        return {"walk": _walk_to_json(self._walk.state()), "read": self._read.to_json()}
