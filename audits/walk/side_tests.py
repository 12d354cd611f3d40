"""Beside the test of a coin walk: whether bit patterns leak more than numbers do, and points of a trade-off curve."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hockeystick.audits.attacks.event_choice import choose_event, choose_leak, steepest_ratio
from hockeystick.audits.attacks.partitions import Evidence
from hockeystick.audits.bounds.two_counts import clopper_pearson, frontier
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.first_outputs import rows
from hockeystick.audits.outputs.cells import real_blocks
from hockeystick.audits.outputs.reading import Layout, Table
from hockeystick.audits.verdicts.verdict import TradeoffPoint
from hockeystick.audits.walk.engine import Played

_LEAST = 20  # outputs of each data set in the first half, with which an event is chosen
_POINTS = 15  # of a trade-off curve


def leaks(
    tables: tuple[Table, Table],
    layouts: tuple[Layout, ...],
    claim: Claim,
    *,
    alpha: float,
    grid: float | None,
    seed: int,
) -> bool:
    """Returns whether the bit patterns of outputs refute a claim by more than real numbers show.

    The first half of the outputs chooses a set of bit patterns, and the second half counts it, at the level ``alpha``.
    """
    half = min(one.runs for one in tables) // 2  # an event is chosen on equally many outputs of both data sets
    floats = any(kind != "i" for layout in layouts for kind in layout.kinds)
    if not floats or half < _LEAST:
        return False
    evidence = Evidence.of((rows(tables[0], 0, half), rows(tables[1], 0, half)), layouts, grid, seed=seed)
    leak = choose_leak(evidence, claim, alpha=alpha, trials=half)
    if leak is None:
        return False
    counted = [rows(one, half, 2 * half) for one in tables]
    cells = [leak.partition.count(one, real_blocks(one, layouts, grid)) for one in counted]
    x, y = leak.counts(np.stack(cells))
    region = frontier(x, half, y, half, slope=leak.slope, alpha=alpha)
    if not region.refutes(claim.epsilon, claim.delta):
        return False
    plain = choose_event(evidence, claim, alpha=alpha, trials=half)
    inside = plain.counts(plain.totals)
    beyond = max(claim.epsilon, steepest_ratio(plain), math.log((inside[0] + 0.5) / (inside[1] + 0.5)))
    return region.refutes(beyond, claim.delta)


def error_rates(played: Played, alpha: float) -> Iterator[TradeoffPoint]:
    """Yields the error rates of events that the last scores suggest, on the last batch, to which they were not fitted.

    The events are likelier on the first data set. Intervals have the level ``alpha`` each.
    """
    if played.scores is None or not (runs := played.last.sum(axis=1)).all():
        return
    order = np.argsort(-played.scores.ratios, kind="stable")
    likely, other = np.cumsum(played.last[:, order], axis=1)
    sizes = np.unique(np.searchsorted(likely + other, runs.sum() * np.arange(1, _POINTS + 1) / (_POINTS + 1)))
    for x, y in zip(likely[sizes].tolist(), other[sizes].tolist(), strict=True):
        fpr, fnr = y / int(runs[1]), 1 - x / int(runs[0])
        ends = [
            tuple(float(end) for end in clopper_pearson(k, int(n), confidence=1 - alpha))
            for k, n in ((y, runs[1]), (int(runs[0]) - x, runs[0]))
        ]
        yield TradeoffPoint(fpr, fnr, *ends[0], *ends[1])
