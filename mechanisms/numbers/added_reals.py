"""The base class of mechanisms that add independent real-valued noise to every entry of a value."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick.accounting import validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import Releasable


class AdditiveNoise(Releasable):
    """Base of frozen attrs classes with the fields ``sensitivity`` and ``grid`` and the abstract methods below.

    Outputs are floats. ``simulate`` adds real noise; ``release`` rounds the value to a grid and adds whole multiples of
    its step, with a scale that is larger by just enough for ``event()`` to cover both.
    """

    __slots__ = ()
    sensitivity: float
    grid: float | None

    @abstractmethod
    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draws of the real-valued noise."""

    @abstractmethod
    def _losses(self, drawn: FloatArray, value0: FloatArray, value1: FloatArray) -> FloatArray:
        """The log-likelihood ratio ln(p(drawn | value0) / p(drawn | value1)) of each entry."""

    @abstractmethod
    def _tail(self, probability: float) -> float:
        """The t with P(|noise| > t) = probability."""

    @abstractmethod
    def _default_grid(self, entries: int) -> float:
        """The step of a grid on which rounding hardly costs anything."""

    @abstractmethod
    def _whole_noise(self, noise: Noise, step: float, entries: int) -> NDArray[np.int64]:
        """Draws of the noise in steps of a grid."""

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns outputs of shape (runs, *value.shape).

        Raises:
          InvalidArgumentError: the value is not numeric or not finite, ``runs`` is not an integer ≥ 1, or ``rng`` is
            not a generator.
        """
        noiseless = validate.array("value", value, data=True)
        noise = self._noise(arguments.generator(rng), (arguments.run_count(runs, noiseless.size), *noiseless.shape))
        noise += noiseless
        return noise

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns two numbers at distance ``sensitivity``: a vector may change in a single entry."""
        return 0.0, self.sensitivity

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(p(output | value0) / p(output | value1)) for outputs of shape (runs, *value.shape)."""
        v0 = validate.array("value0", value0, data=True)
        v1 = validate.array("value1", value1, shape=v0.shape, data=True)
        drawn = validate.array("output", output, shape=(None, *v0.shape), data=True)
        return np.asarray(self._losses(drawn, v0, v1).sum(axis=tuple(range(1, drawn.ndim))))

    def accuracy(self, beta: float, *, entries: int = 1) -> float:
        """Returns the t such that with probability exactly 1 − ``beta`` all ``entries`` are off by at most t (L∞ norm).

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``entries`` is not an integer ≥ 1.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("entries", entries, low=1)
        return self._tail(-math.expm1(math.log1p(-failure) / count))  # the failure probability of each entry

    def _checked(self, value: ArrayLike) -> FloatArray:
        return arguments.exact_floats("value", value)

    def _draw(self, checked: FloatArray, noise: Noise) -> Any:
        if not checked.size:
            return checked
        # Whole numbers are charged for rounding, too: whether a value is whole may depend on the data.
        step = self.grid or self._default_grid(checked.size)
        drawn = self._whole_noise(noise, step, checked.size).reshape(checked.shape)
        found = noise_on_a_grid.values(noise_on_a_grid.steps(checked, step) + drawn, step)
        return found if checked.ndim else float(found)
