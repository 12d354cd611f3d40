"""The requirements of the lazy transform on a base learner, and the base learners of the library.

A base learner draws from measures μ_t, functions of the losses before round t, such that (Asi, Koren, Liu & Talwar
2024, Assumption 3.1)

* μ_{t+1}(x) / μ_t(x) is a fixed function of the last loss and x, up to a factor that does not depend on x: its
  logarithm is ``log_func``. So μ_t does not depend on the order of the past losses, and a coin that compares ratios
  at two points reads only the last losses;
* consecutive measures P, Q are (η, δ_0)-indistinguishable: P(S) <= e^η Q(S) + δ_0, both ways.

Often more is known: the *ratio width* w, the largest range over x of one loss's ``log_func``. Ratios of consecutive
measures then surely lie between e^(-w) and e^w. Conversely, δ_0 = 0 implies w <= 2*η.

A :class:`LazyMeasure` is a family of these measures with its constants; a :class:`MeasurePath` holds its measures along
one stream of losses. :class:`PointMeasure` makes a family from any :class:`FiniteMeasure`;
``convex_base_learner.ConvexMeasure`` is the family of regularised weights of convex losses. A family from outside the
library implements the two protocols and needs no registration.
"""

from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy.special import logsumexp

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.common import arguments
from hockeystick.learners.experts.expert_losses import batch_sums

Actions = npt.NDArray[Any]
"""Points of R runs: ints of shape (R,), or vectors of shape (R, d)."""


# --- protocols -------------------------------------------------------------------------------------------------------


class MeasureClaims(Protocol):
    """The constants of a sequence of measures."""

    @property
    def eta(self) -> float:
        """Claimed bound on the log-ratio of consecutive measures, except for ``delta0``."""

    @property
    def delta0(self) -> float:
        """Claimed mass beyond the log-ratio ``eta``."""

    @property
    def ratio_width(self) -> float | None:
        """Bound on the range, over all points, of one loss's ``log_func``; None if unknown."""


@runtime_checkable
class FiniteMeasure(MeasureClaims, Protocol):
    """A sequence of measures over the points 0 .. m-1; any class with these members is one.

    See ``MultiplicativeMeasure`` for an example.
    """

    def log_measure(self, losses: FloatArray) -> FloatArray:
        """Returns log-weights, shape ``(m,)``, up to a constant, after the losses of shape ``(t, m)``, t >= 0."""

    def log_func(self, loss: FloatArray) -> FloatArray:
        """Returns the change of the log-weights by one loss of shape ``(m,)``, up to a constant, shape ``(m,)``."""


class MeasurePath(Protocol):
    """The measures before each batch 0 .. n-1 of one stream of losses. See ``PointMeasure`` for an example."""

    def sample(self, batch: int, rng: np.random.Generator, size: int) -> Actions:
        """Returns ``size`` independent draws from the measure before ``batch``."""

    def log_func(self, batch: int, actions: Actions) -> FloatArray:
        """Returns the change of the log-weights at R points, shape (R,), by the losses of ``batch`` alone."""

    def log_density(self, batch: int, actions: Actions) -> FloatArray:
        """Returns the normalised log-density, shape (R,), of the measure before ``batch``.

        Raises:
            InvalidArgumentError: its normaliser is not known.
        """

    def loss(self, batch: int, actions: Actions) -> FloatArray:
        """Returns the total loss of ``batch`` at R points: shape (R,)."""

    def best(self) -> tuple[Actions, float]:
        """Returns a (nearly) best fixed point in hindsight, which has no axis of runs, and its total loss."""


class LazyMeasure(MeasureClaims, Protocol):
    """A family of measures, with the accuracy of its draws. See ``PointMeasure`` for an example."""

    @property
    def total_variation(self) -> float:
        """Bound on the total variation distance of a draw from its measure.

        Raises:
            UnsupportedEventError: that is not known.
        """

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the constants on the losses."""

    def path(self, losses: Any, *, rounds: int, batch: int) -> MeasurePath:
        """Returns the measures along ``losses``, one per round, in batches; refuses losses outside of its class.

        A loss whose ``log_func`` ranges over more than :attr:`ratio_width` is outside of it.
        """

    def neighbours(self, rounds: int) -> tuple[Any, Any]:
        """Returns two streams that differ in their first loss, with a large privacy loss.

        Raises:
            InvalidArgumentError: no such pair is known.
        """


# --- finitely many points --------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class MultiplicativeMeasure:
    """The measure of multiplicative weights, exp(-learning_rate * sum of losses), for losses in [0, 1].

    Weights change by factors in [e^-learning_rate, 1], and so does their sum: η and the ratio width are the rate, and
    δ_0 is 0.

    Example:
        >>> measure = MultiplicativeMeasure(learning_rate=0.5)
        >>> measure.log_measure(np.array([[1.0, 0.0], [1.0, 1.0]])).tolist(), measure.eta, measure.delta0
        ([-1.0, -0.5], 0.5, 0.0)
    """

    learning_rate: float = field(converter=arguments.learning_rate)

    @property
    def eta(self) -> float:
        """The learning rate."""
        return self.learning_rate

    @property
    def delta0(self) -> float:
        """0."""
        return 0.0

    @property
    def ratio_width(self) -> float:
        """The learning rate."""
        return self.learning_rate

    def log_measure(self, losses: FloatArray) -> FloatArray:
        """Returns -learning_rate times the sum of the losses of shape ``(t, m)``: shape ``(m,)``."""
        found: FloatArray = -self.learning_rate * losses.sum(axis=0)
        return found

    def log_func(self, loss: FloatArray) -> FloatArray:
        """Returns -learning_rate times one loss of shape ``(m,)``: shape ``(m,)``."""
        return -self.learning_rate * loss


def _points(value: object) -> int:
    return integer("points", value, low=2)


def _lowest(value: object) -> float:
    return real("lowest", value)


def _highest(value: object) -> float:
    return real("highest", value)


def _extremes(value: object) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    if value is None:
        return None
    one, other = array("extremes", value, shape=(2, None))
    return tuple(float(x) for x in one), tuple(float(x) for x in other)


@frozen(kw_only=True)
class PointMeasure:
    """A :class:`FiniteMeasure` over the points 0 .. m-1 as a :class:`LazyMeasure`; a stream has shape (T, m).

    Its measures are those of ``log_measure`` before any loss, times the exponentials of ``log_func``. Coins and draws
    therefore always agree, even if the two methods do not (``check_measure`` tests that).

    Args:
        measure: The measure, with its claims.
        points: m >= 2.
        lowest: Lower bound on all losses.
        highest: Upper bound on all losses.
        extremes: Two losses of shape (m,) that are hard to hide, for ``neighbours``; None for ``highest`` on one half
            of the points or on the other, and ``lowest`` elsewhere.

    Example:
        >>> family = PointMeasure(measure=MultiplicativeMeasure(learning_rate=0.5), points=2)
        >>> path = family.path([[1.0, 0.0], [0.0, 0.0]], rounds=2, batch=1)
        >>> np.exp(path.log_density(1, np.array([0, 1]))).round(4).tolist()
        [0.3775, 0.6225]
    """

    measure: FiniteMeasure
    points: int = field(converter=_points)
    lowest: float = field(default=0.0, converter=_lowest)
    highest: float = field(default=1.0, converter=_highest)
    extremes: tuple[tuple[float, ...], tuple[float, ...]] | None = field(default=None, converter=_extremes)

    def __attrs_post_init__(self) -> None:
        if not self.lowest < self.highest:
            raise InvalidArgumentError("highest", self.highest, f"is not above lowest={self.lowest}")
        if self.extremes is not None and len(self.extremes[0]) != self.points:
            raise InvalidArgumentError("extremes", self.extremes, f"are not two losses over {self.points} points")

    @property
    def eta(self) -> float:
        """``measure.eta``."""
        return self.measure.eta

    @property
    def delta0(self) -> float:
        """``measure.delta0``."""
        return self.measure.delta0

    @property
    def ratio_width(self) -> float | None:
        """``measure.ratio_width``; None if unknown."""
        return self.measure.ratio_width

    @property
    def total_variation(self) -> float:
        """0: draws are exact."""
        return 0.0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Every loss lies in [lowest, highest]."""
        return (f"every loss lies in [{self.lowest:g}, {self.highest:g}]",)

    def path(self, losses: npt.ArrayLike, *, rounds: int, batch: int) -> "PointPath":
        """Returns the measures along ``losses`` of shape (rounds, m).

        Raises:
            InvalidArgumentError: losses of another shape or out of range, log-weights that are not finite (except -inf
                before any loss, for a point of mass 0), or a loss that changes log-ratios by more than the claims
                allow.
        """
        stream: FloatArray = array(
            "losses", losses, ndim=2, shape=(rounds, self.points), low=self.lowest, high=self.highest, data=True
        )
        start = self._log_weights(self.measure.log_measure(stream[:0]))
        added: FloatArray = np.stack([np.asarray(self.measure.log_func(loss), dtype=np.float64) for loss in stream])
        if added.shape != stream.shape or not np.isfinite(added).all():
            raise InvalidDataError("measure.log_func", added, f"is not {self.points} finite numbers")
        limit = self.ratio_width
        if limit is None and self.delta0 == 0.0:
            limit = 2.0 * self.eta
        widths = np.ptp(added[:, np.isfinite(start)], axis=1)
        if limit is not None and widths.max() > limit:
            t = int(np.argmax(widths))
            raise InvalidDataError(
                f"losses[{t}]",
                stream[t],
                f"changes log-ratios by more than the {limit:g} that the measure claims",
                "state a larger ratio_width or eta, or scale the losses",
            )
        return PointPath(start, batch_sums(added, batch), batch_sums(stream, batch))

    def _log_weights(self, value: npt.ArrayLike) -> FloatArray:
        found: FloatArray = np.asarray(value, dtype=np.float64)
        if found.shape != (self.points,) or np.isnan(found).any() or not -np.inf < found.max() < np.inf:
            raise InvalidDataError("measure.log_measure", value, f"is not {self.points} log-weights")
        return found

    def neighbours(self, rounds: int) -> tuple[FloatArray, FloatArray]:
        """Returns two streams of shape (rounds, m): the first loss is either extreme, all later ones are ``lowest``."""
        first, second = np.full((2, rounds, self.points), self.lowest)
        half = self.points // 2
        first[0, :half] = second[0, half:] = self.highest
        if self.extremes is not None:
            first[0], second[0] = self.extremes
        return first, second


@frozen(eq=False, slots=False)
class PointPath:
    """Measures over finitely many points before each batch: a :class:`MeasurePath`.

    Attributes:
        start: Log-weights before the first batch, shape (m,).
        added: The change of the log-weights by each batch, shape (n, m).
        losses: Each batch's total loss, shape (n, m).
    """

    start: FloatArray
    added: FloatArray
    losses: FloatArray

    @cached_property
    def log_weights(self) -> FloatArray:
        """Normalised log-weights before each batch, shape (n, m)."""
        sums = np.vstack([np.zeros_like(self.start), np.cumsum(self.added[:-1], axis=0)]) + self.start
        normalised: FloatArray = sums - logsumexp(sums, axis=1, keepdims=True)
        return normalised

    def sample(self, batch: int, rng: np.random.Generator, size: int) -> Actions:
        sums = np.cumsum(np.exp(self.log_weights[batch]))
        return np.asarray(np.searchsorted(sums[:-1], rng.random(size) * sums[-1], side="right"))

    def log_func(self, batch: int, actions: Actions) -> FloatArray:
        return np.asarray(self.added[batch][actions])

    def log_density(self, batch: int, actions: Actions) -> FloatArray:
        return np.asarray(self.log_weights[batch][actions])

    def loss(self, batch: int, actions: Actions) -> FloatArray:
        return np.asarray(self.losses[batch][actions])

    def best(self) -> tuple[Actions, float]:
        totals = self.losses.sum(axis=0)
        return np.asarray(np.argmin(totals)), float(totals.min())
