"""Messages about all candidates: the published channel with approximate privacy, and one with Gaussian noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import EpsilonDelta, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import probability, real
from hockeystick.learners.common.arguments import scale
from hockeystick.learners.distribution.channels import exact_privacy, level_channel
from hockeystick.learners.distribution.channels.laplace import FARTHEST, PrintedLosses, released
from hockeystick.learners.distribution.channels.level_channel import LevelChannel, Losses
from hockeystick.learners.distribution.channels.levels import Levels
from hockeystick.learners.distribution.channels.messages import Messages, Payload, check_vector
from hockeystick.mechanisms import Gaussian, Laplace
from hockeystick.mechanisms.contract.arguments import quotient_down
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.noise import Noise

_FARTHEST_NORMAL = 16.0


def printed_multiplier(experts: int, *, epsilon: float, delta: float) -> float:
    """Returns b/span of Algorithm 1 of Sima et al. 2024: (2 sqrt(2 K ln(1/δ)) + sqrt(K ε))/ε.

    It follows from K-fold composition in closed form (by Lemma 2 it is enough for ε/2), and is two to four times
    the necessary noise.

    Raises:
        InvalidArgumentError: K < 1, ε is not > 0, or δ is not in (0, 1).
    """
    count = real("experts", experts, low=1.0)
    target, log = real("epsilon", epsilon, low=0.0, low_open=True), -math.log(probability("delta", delta, open=True))
    return (2.0 * math.sqrt(2.0 * count * log) + math.sqrt(count * target)) / target


class _Vector(LevelChannel):
    """Base of the channels with messages about all candidates."""

    @property
    def payload(self) -> Payload:
        return "reals"

    def decode(self, messages: Messages) -> tuple[npt.NDArray[np.integer] | None, FloatArray]:
        return None, check_vector(messages, self.count)

    def _indices(self, index: Any, size: int, shape: tuple[int, ...] | None = None) -> IntArray | None:
        return None if index is None else np.array([self._index(index)])

    def _index(self, index: object) -> int:
        raise InvalidArgumentError("index", index, "is not used if messages are about all candidates", "leave it out")


@frozen(eq=False, slots=False)
class VectorLaplace(_Vector):
    """All K centred losses, with independent Laplace noise of one ``scale``.

    This is Algorithm 1 of Sima, Wu, Milenkovic & Szpankowski 2024 up to a public affine map (``shifted``), with the
    span of the levels instead of the published ln(K T). All K losses can move by nearly a span at once, so a message
    costs the composition of K Laplace mechanisms; they share one secret exchange of the label.

    Args:
        levels: The levels of the candidates.
        scale: b > 0. See ``calibrated`` and ``printed`` for scales from a target.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.distribution import LabelTable, UniformMixture, VectorLaplace
        >>> levels = UniformMixture().levels(LabelTable([[0.9, 0.1], [0.1, 0.9]]), 100)
        >>> channel = VectorLaplace.calibrated(levels, epsilon=1.0)
        >>> round(channel.scale / channel.span, 6), round(channel.exact_epsilon(), 6)  # K spans of noise
        (2.0, 1.0)
    """

    scale: float = field(converter=scale, kw_only=True)

    @classmethod
    def calibrated(
        cls, levels: Levels, *, epsilon: float, delta: float = 0.0, resample: bool = False, span: float | None = None
    ) -> VectorLaplace:
        """Returns the least noise that is certified (ε, δ)-DP; an exchange of labels is not used.

        Raises:
            InvalidArgumentError: an argument outside its domain.
            NumericalError: no noise can be shown to meet the target.
        """
        target = level_channel.epsilon(epsilon)
        unit, count = cls(levels, scale=1.0, span=span), levels.count
        if real("delta", delta, low=0.0, high=1.0, high_open=True) == 0.0:
            # A quotient and a product: 2 U of the 9000.
            multiplier = count / target * (1.0 + 1e-12)
        else:
            found = accounting.calibrate(
                lambda value: accounting.compose((accounting.Laplace(value), count)),
                EpsilonDelta(target, delta),
                guess=math.sqrt(count) / target,
            )
            multiplier = found.value
        scale = unit.span * multiplier
        while quotient_down(scale, unit.span) < multiplier:
            scale = math.nextafter(scale, math.inf)
        return cls(levels, scale=scale, resample=resample, span=span)

    @classmethod
    def printed(
        cls, levels: Levels, *, epsilon: float, delta: float, resample: bool = True, span: float | None = None
    ) -> VectorLaplace:
        """Returns the published noise, :func:`printed_multiplier` spans, with the published exchange of labels.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        multiplier = printed_multiplier(levels.count, epsilon=epsilon, delta=delta)
        unit = cls(levels, scale=1.0, span=span)
        return cls(levels, scale=unit.span * multiplier, resample=resample, span=span)

    @property
    def limit(self) -> float:
        return self.span / 2 + FARTHEST * self.scale

    def inner_event(self) -> accounting.PrivacyEvent:
        """Returns K times ``Laplace(b/span)``: one composition, which an exchange of the label encloses as a whole."""
        return accounting.compose((Laplace(self.scale, sensitivity=self.span).event(), self.count))

    def shifted(self, messages: Messages, *, gamma: float | None = None) -> FloatArray:
        """Returns the published losses, shape (.., K); ``gamma`` > 0 is ln T by default.

        Raises:
            InvalidArgumentError: messages of another channel, or an invalid gamma.
        """
        return PrintedLosses.of(self, self.scale, gamma)(check_vector(messages, self.count))

    def exact_epsilon(self) -> float:
        mixture = self._oracle_mixture()
        return exact_privacy.vector_laplace_epsilon(self._rows, scale=self.scale, mixture=mixture)

    def _log_densities(self, messages: Messages, rows: FloatArray) -> FloatArray:
        values = check_vector(messages, self.count)
        return np.stack([-np.abs(values - row).sum(axis=1) / self.scale for row in rows], axis=1)

    def _simulate(self, losses: Losses, rng: np.random.Generator, index: IntArray | None) -> Messages:
        value = rng.laplace(scale=self.scale, size=(len(losses), self.count))
        value += losses.rows()
        return Messages(None, value)

    def _release(self, losses: Losses, noise: Noise, index: IntArray | None) -> Messages:
        return Messages(None, released(losses.rows(), self.scale, self.span, self.limit, noise))


@frozen(eq=False, slots=False)
class VectorGaussian(_Vector):
    """All K centred losses with normal noise of standard deviation ``sigma``.

    A label moves them by at most sqrt(K) spans in the Euclidean norm: Gaussian DP with mu = sqrt(K) span/σ.

    Args:
        levels: The levels of the candidates.
        sigma: > 0. See ``calibrated`` for the value from a target.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick import accounting
        >>> from hockeystick.learners.distribution import LabelTable, UniformMixture, VectorGaussian
        >>> levels = UniformMixture().levels(LabelTable([[0.9, 0.1], [0.1, 0.9]]), 100)
        >>> channel = VectorGaussian(levels, sigma=10.0)
        >>> round(accounting.epsilon(channel.event(), 1e-6).upper, 2)
        1.31
    """

    sigma: float = field(converter=level_channel.sigma, kw_only=True)

    @classmethod
    def calibrated(
        cls, levels: Levels, *, epsilon: float, delta: float, resample: bool = False, span: float | None = None
    ) -> VectorGaussian:
        """Returns the least noise that is (ε, δ)-DP; an exchange of labels is not used.

        Raises:
            InvalidArgumentError: an argument outside its domain.
            NumericalError: the target is too extreme.
        """
        distance = cls(levels, sigma=1.0, span=span).sensitivity
        sigma = Gaussian.calibrated(epsilon=epsilon, delta=delta, sensitivity=distance).sigma
        return cls(levels, sigma=sigma, resample=resample, span=span)

    @property
    def sensitivity(self) -> float:
        """The L2 sensitivity: sqrt(K) spans, rounded up."""
        return math.nextafter(math.nextafter(math.sqrt(self.count), math.inf) * self.span, math.inf)

    @property
    def limit(self) -> float:
        return self.span / 2 + _FARTHEST_NORMAL * self.sigma

    def inner_event(self) -> accounting.PrivacyEvent:
        """Returns ``Gaussian(sigma/(sqrt(K) span))``."""
        return Gaussian(self.sigma, sensitivity=self.sensitivity).event()

    def exact_epsilon(self) -> float:
        """Returns infinity: normal noise has no finite pure ε. The effect of an exchange is not computed."""
        return math.inf

    def _log_densities(self, messages: Messages, rows: FloatArray) -> FloatArray:
        values = check_vector(messages, self.count)
        return np.stack([-0.5 * (((values - row) / self.sigma) ** 2).sum(axis=1) for row in rows], axis=1)

    def _simulate(self, losses: Losses, rng: np.random.Generator, index: IntArray | None) -> Messages:
        value = rng.standard_normal((len(losses), self.count))
        value *= self.sigma
        value += losses.rows()
        return Messages(None, value)

    def _release(self, losses: Losses, noise: Noise, index: IntArray | None) -> Messages:
        rows = losses.rows()
        step = noise_on_a_grid.gaussian_grid(self.sigma, self.sensitivity, self.count)
        deviation = noise_on_a_grid.gaussian_scale(self.sigma, self.sensitivity, step, self.count)
        drawn = noise.gaussian(deviation, rows.size).reshape(rows.shape)
        found = noise_on_a_grid.values(noise_on_a_grid.steps(rows, step) + drawn, step)
        return Messages(None, np.clip(found, -self.limit, self.limit))
