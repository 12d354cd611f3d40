"""Audit targets: scores of a mechanism's outputs, and the entries of one release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from hockeystick.mechanisms import SimulationNoise


@frozen
class Scored:
    """Runs of ``simulated``, each reduced to its score."""

    simulated: Callable[[Any, np.random.Generator, int], NDArray[np.float64]]
    score: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> NDArray[np.float64]:
        return self.score(self.simulated(value, rng, runs))


def scored(mechanism: Any) -> Scored:
    """A mechanism reduced to the log-likelihood ratio of its worst neighbours, which is the best score."""
    pair = mechanism.worst_case_neighbours()
    return Scored(mechanism.simulate, lambda out: mechanism.log_likelihood_ratio(out, *pair))


@frozen
class ReleasedAtOnce:
    """Releases of ``mechanism`` on seeded noise; the value of every run is a part of one large value."""

    mechanism: Any

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        return self.mechanism.release(np.broadcast_to(value, (runs, *np.shape(value))), noise=SimulationNoise(rng))
