"""The laws of multiplicative weights as functions of the published queries and measurements alone."""

from __future__ import annotations

import numpy as np

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.learners.smoothed.measures.projection import kl_projection
from hockeystick.learners.smoothed.queries.cells import QueryCells

_DEEPEST = 600.0  # ln of the largest ratio of densities; smaller densities are raised to 1e-260 of the largest


class LawWalk:
    """The laws of several runs, round by round, starting at μ.

    Args:
        cells: The queries.
        runs: The number of runs.
        rate: The factor of the measured error in the change of the log-density, where the query is 1.
        sigma: Every law is projected onto those of density <= 1/σ; None for no projection.
        clip: Clip measurements to the queries' range first.
        replay: The number of times that all measurements so far are applied again after each one.

    Attributes:
        weights: The current laws, shape (runs, C).
        before: The sum of all laws before an update, shape (runs, C).
    """

    def __init__(
        self, cells: QueryCells, *, runs: int, rate: float, sigma: float | None, clip: bool, replay: int
    ) -> None:
        self._cells, self._rate, self._clip, self._replay = cells, rate, clip, replay
        self._masses = cells.masses
        self._real = self._masses > 0.0
        # Caps above 1 are none; they stay finite.
        self._caps = None if sigma is None else self._masses / max(sigma, 1e-300)
        self._log_density = np.zeros((runs, len(self._masses)))
        self._past: list[tuple[IntArray, FloatArray]] = []
        self.weights: FloatArray = np.repeat(self._masses[None], runs, axis=0)
        self.before: FloatArray = np.zeros_like(self.weights)

    def answers(self) -> FloatArray:
        """Returns q(D) of all queries, shape (runs, K)."""
        return self._cells.answers(self.weights)

    def update(self, queries: IntArray, measurements: FloatArray) -> None:
        """Plays one round: moves each run's law towards the measurement of its query, both of shape (runs,)."""
        self.before += self.weights
        if self._clip:
            measurements = np.clip(measurements, self._cells.low, self._cells.low + self._cells.width)
        self._move(queries, measurements)
        if self._replay:
            self._past.append((queries.copy(), measurements.copy()))
            for query, measurement in self._past * self._replay:
                self._move(query, measurement)

    def _move(self, queries: IntArray, measurements: FloatArray) -> None:
        inside = self._cells.inside(queries)
        error = measurements - (inside * self.weights).sum(axis=1)
        logs = self._log_density
        logs += (self._rate * error)[:, None] * inside
        logs -= np.max(logs, axis=1, where=self._real, initial=-np.inf, keepdims=True)
        np.clip(logs, -_DEEPEST, 0.0, out=logs)
        moved = self._masses * np.exp(logs)
        moved /= moved.sum(axis=1, keepdims=True)
        if self._caps is not None:
            moved = kl_projection(moved, self._caps)
            np.log(moved / np.where(self._real, self._masses, 1.0), out=logs, where=self._real)
        self.weights = moved
