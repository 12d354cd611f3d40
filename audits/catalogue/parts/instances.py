"""Small instances of learners that several parts of the catalogue use."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from hockeystick.accounting.validate import integer
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.smoothed.queries.canary import mwem_canary
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM

_LAST_POINT = 2


def two_symbols(*, clients: int = 4, records: int = 5, rounds: int = 0) -> QueryAverage:
    """Returns an average over two symbols of weight 1/2 each.

    Args:
      clients: The number of clients; all of them answer.
      records: The number of records of each client.
      rounds: 0: each symbol is queried once. Otherwise every client is queried about each symbol in that many rounds.
    """
    repeats = max(1, integer("rounds", rounds, low=0))
    everybody = list(range(clients))
    return QueryAverage(
        reference=(0.5, 0.5),
        symbols=[0, 1] * repeats,
        shares=[0.5 / repeats] * (2 * repeats),
        cohorts=[everybody] * (2 * repeats if rounds else 1),
        client_records=[records] * clients,
    )


def canary(
    *, gap: float = 6.0, rounds: int = 1, moved: int = 1, sigma: float = 0.1, **options: Any
) -> tuple[SmoothMWEM, tuple[Any, Any]]:
    """Returns the tuned instance at epsilon = 1 in total; ``moved`` records go from the first point to the last."""
    found = mwem_canary(epsilon=1.0, rounds=rounds, gap=gap, **options)
    second = found.first.copy()
    second[len(second) - moved :] = _LAST_POINT
    return evolve(found.learner, sigma=sigma), (found.first, second)
