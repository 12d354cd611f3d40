"""A target of audits whose runs are the entries of one release: fast, for mechanisms with independent entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen

from hockeystick.mechanisms import SimulationNoise


@frozen
class ReleasedAtOnce:
    """Releases of ``mechanism`` on seeded noise; the value of every run is a part of one large value."""

    mechanism: Any

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        return self.mechanism.release(np.broadcast_to(value, (runs, *np.shape(value))), noise=SimulationNoise(rng))
