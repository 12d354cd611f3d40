"""The shared part of learners that run on a table of losses: their privacy, and the outcome of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hockeystick._runs.guarantee_entries import drawn_content
from hockeystick._runs.lazy_streams import Stream
from hockeystick._runs.ledgers import WITHHELD
from hockeystick.accounting import Guarantee
from hockeystick.learners.experts.batches import checked_rows, exact_batch_sums


def read(stream: Stream, *, clip: bool) -> None:
    """Reads all losses once, so that a bad one is refused, with its place, before a learner is calibrated.

    Raises:
        InvalidArgumentError: A loss is none.
    """
    rounds, columns = stream.losses.shape
    checked_rows(stream.losses, rounds=rounds, experts=columns, clip=clip)


def privacy(guarantee: Guarantee, *, epsilon: float, delta: float, group: int) -> dict[str, Any]:
    """Returns the entries of a result on the privacy of a learner, for a target of ``epsilon``."""
    bracket = guarantee.epsilon(delta, bracket=True)
    return {
        "epsilon": bracket.upper,
        "epsilon_lower": bracket.lower,
        "epsilon_target": epsilon,
        "delta": delta,
        "method": bracket.method,
        "adjacency": guarantee.adjacency.value,
        "assumptions": guarantee.assumptions,
        "group": group,
        **drawn_content(guarantee, delta),
    }


def outcome(
    stream: Stream, actions: npt.NDArray[np.integer], *, clip: bool, seed: int | None, what: str
) -> dict[str, Any]:
    """Returns the entries on the outcome of a run: its loss and regret, but of a release that they are withheld.

    Args:
        stream: The losses.
        actions: The expert or arm of each round.
        clip: Whether losses are clipped.
        seed: That of a simulation; None for a release.
        what: "expert" or "arm".
    """
    best = f"best_{what}_loss"
    if seed is None:
        return withheld(what)
    rounds, columns = stream.losses.shape
    lost, totals, first = 0.0, np.zeros(columns), 0
    for rows in exact_batch_sums(stream.losses, rounds=rounds, experts=columns, clip=clip):  # of single rounds
        lost += float(rows[np.arange(len(rows)), actions[first : first + len(rows)]].sum())
        totals += rows.sum(axis=0)
        first += len(rows)
    least = float(totals.min())
    return {**SIMULATED, "seed": seed, "loss": lost, best: least, "regret": lost - least}


SIMULATED = {"mode": "simulation", "simulated": True, "withheld": None}


def withheld(what: str) -> dict[str, Any]:
    """Returns the entries on the outcome of a release."""
    nothing = dict.fromkeys(("seed", "loss", f"best_{what}_loss", "regret"))
    return {**nothing, "mode": "release", "simulated": False, "withheld": WITHHELD}
