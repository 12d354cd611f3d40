"""What mechanisms that add independent real-valued noise to every entry of a value have in common."""

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
    """Base of a frozen attrs class with the fields ``sensitivity`` and ``grid`` and the few methods below.

    Outputs are floats: ``simulate`` adds real noise; ``release`` rounds the value to a grid and adds whole-number
    noise, of a scale that is larger by so much that ``event()`` covers both.
    """

    __slots__ = ()
    sensitivity: float
    grid: float | None

    @abstractmethod
    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Real noise."""

    @abstractmethod
    def _losses(self, drawn: FloatArray, value0: FloatArray, value1: FloatArray) -> FloatArray:
        """ln(p(drawn | value0) / p(drawn | value1)), entry by entry."""

    @abstractmethod
    def _tail(self, probability: float) -> float:
        """t with P(|noise| > t) = probability."""

    @abstractmethod
    def _default_grid(self, entries: int) -> float:
        """A grid fine enough for the rounding not to matter."""

    @abstractmethod
    def _whole_noise(self, noise: Noise, step: float, entries: int) -> NDArray[np.int64]:
        """Noise in steps of a grid."""

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns outputs of shape (runs, *value.shape).

        Raises:
          InvalidArgumentError: the value is not numeric or not finite, ``runs`` is no integer ≥ 1, or ``rng`` no
            generator.
        """
        noiseless = validate.array("value", value, data=True)
        noise = self._noise(arguments.generator(rng), (arguments.run_count(runs, noiseless.size), *noiseless.shape))
        noise += noiseless
        return noise

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns two numbers at distance ``sensitivity``: all of a vector's change may go to a single entry."""
        return 0.0, self.sensitivity

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(p(output | value0) / p(output | value1)) for outputs of shape (runs, *value.shape)."""
        v0 = validate.array("value0", value0, data=True)
        v1 = validate.array("value1", value1, shape=v0.shape, data=True)
        drawn = validate.array("output", output, shape=(None, *v0.shape), data=True)
        return np.asarray(self._losses(drawn, v0, v1).reshape(len(drawn), -1).sum(axis=1))

    def accuracy(self, beta: float, *, entries: int = 1) -> float:
        """Returns t such that with probability exactly 1 − ``beta`` all ``entries`` are off by at most t (L∞ norm).

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``entries`` no integer ≥ 1.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("entries", entries, low=1)
        return self._tail(-math.expm1(math.log1p(-failure) / count))  # what each entry may fail with

    def _checked(self, value: ArrayLike) -> FloatArray:
        return arguments.exact_floats("value", value)

    def _draw(self, checked: FloatArray, noise: Noise) -> Any:
        if not checked.size:
            return checked
        # Whole numbers are charged for rounding, too: the type of a value may be a matter of the data.
        step = self.grid or self._default_grid(checked.size)
        drawn = self._whole_noise(noise, step, checked.size).reshape(checked.shape)
        found = noise_on_a_grid.values(noise_on_a_grid.steps(checked, step) + drawn, step)
        return found if checked.ndim else float(found)
